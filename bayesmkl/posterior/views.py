"""Views one by one: which are in the model, what predictions lose without them, what measuring them would change."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import xlogy
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import (
    check_choice,
    check_flag,
    check_integer,
    check_probability,
    generator_of,
)
from bayesmkl.gp import GPMKLClassifier, GPMKLRegressor
from bayesmkl.gp.conditioning import Sites, cavity, condition
from bayesmkl.gp.parts import PartRows, prior_parts, revealed_moments
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.gp.selection import alignments
from bayesmkl.gp.unknown_points import CompletedKernels, find_centers
from bayesmkl.kernels.bank import CheckedTable
from bayesmkl.kernels.presence import present_views, stack_with_absent
from bayesmkl.outcomes import Gaussian
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl, passed, public, unwrapped
from bayesmkl.posterior.tables import errors_of_chains, monte_carlo_errors, row_labels

CREDIBLE, ALIKE = 0.95, 0.25  # probability of a credible set, alignment of kernels in it


@public
def inclusion_table(model: BaseEstimator, by: str | None = None, *, fdr: float = 0.1) -> pd.DataFrame:
    r"""List views or kernels by posterior inclusion probability, and select those with a low false discovery rate.

    Parameters
    ----------
    model : estimator
        An estimator of `bayesmkl.gp` with ``kernel_prior="spike-slab"`` or a `SpikeSlabWeights`, or of BEMKL
        with ``inference="nuts"`` and a `SpikeSlab`, fitted; or a Pipeline or search that ends in one.
    by : {"view", "kernel"}, default=None
        What to list. A view is in the model if one of its kernels is. None is "view", or "kernel" for precomputed
        kernels without views.
    fdr : float, default=0.1
        Expected fraction of false inclusions among the selected rows.

    Returns
    -------
    pandas.DataFrame
        One row per view or kernel, the most probable first. Classes or labels with their own kernel weights follow
        each other. The columns are

        * ``class`` or ``label``: only if these have their own kernel weights;
        * ``view`` or ``kernel``: name;
        * ``prob_included``, ``prob_mcse``: posterior probability that it is in the model, and its Monte Carlo
          standard error;
        * ``share``: posterior mean share of the score;
        * ``fdr``: expected fraction of false inclusions among this row and all rows above it, the mean of
          ``1 - prob_included``;
        * ``selected``: whether that is at most `fdr`;
        * ``credible_set``, ``prob_set``: number of its credible set, from 1 on, and the probability, at least .95,
          that one member of the set is in the model. See Notes.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If the prior of the model never excludes kernels, `by` is "view" for precomputed kernels without views, or
        `fdr` is not strictly between 0 and 1.

    See Also
    --------
    bayesmkl.gp.SpikeSlabWeights : The prior.
    relevance : The loss of predictive accuracy without a view.

    Notes
    -----
    The expected fraction of false inclusions is computed from the posterior (Newton et al. 2004). It is correct if
    the prior and the model are. The model learns how many groups matter, so many irrelevant groups make the inclusion
    of each less probable.

    If views are correlated, the data may show that one of several matters, but not which one. A credible set answers
    this question, as in the susieR package (Wang et al. 2020). It is the smallest set of views with similar kernels
    (alignment of .25, a correlation of .5 between features) that contains an included view with a probability of .95.
    A set may have a single view.

    References
    ----------
    M. A. Newton, A. Noueiry, D. Sarkar and P. Ahlquist (2004), Detecting differential gene expression with a
    semiparametric hierarchical mixture method, Biostatistics 5, 155-176.

    G. Wang, A. Sarkar, P. Carbonetto and M. Stephens (2020), A simple new approach to variable selection in
    regression, with application to genetic fine mapping, Journal of the Royal Statistical Society B 82, 1273-1300.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import inclusion_table
    >>> X = np.random.default_rng(0).normal(size=(60, 6))
    >>> bank = KernelBank(["linear"], views={f"view{k}": k for k in range(6)})
    >>> prior = "spike-slab"
    >>> model = GPMKLRegressor(bank, kernel_prior=prior, together=False).fit(X, X[:, 2] + 0.5 * X[:, 0])
    >>> table = inclusion_table(model)
    >>> print(table[table["selected"]][["view", "prob_included"]].round(1).to_string(index=False))
     view  prob_included
    view2            1.0
    view0            1.0
    """
    fdr = check_probability("fdr", fdr)
    fitted = fitted_bemkl(model)
    if by is not None:
        check_choice("by", by, ("view", "kernel"))
    groups = fitted.kernel_groups(by)
    kind = "kernel" if groups is fitted.kernel_names else "view"
    names, members = np.unique(np.array(groups, dtype=object), return_inverse=True)
    if kind == "kernel":  # in their own order, each its own group
        names, members = np.array(groups, dtype=object), np.arange(len(groups))
    tables, member = [], np.eye(len(names))[members]
    alike = _alike(fitted, member)
    for k in range(len(fitted.states)):
        inside = (_included(fitted, k).astype(float) @ member) > 0.5
        probability, errors = inside.mean(axis=0), _errors(fitted, inside.astype(float))
        shares = np.bincount(members, weights=np.atleast_2d(fitted.estimator.kernel_shares_)[k])
        numbers, of_sets = _credible_sets(inside, alike)
        order = np.argsort(-probability, kind="stable")
        expected = np.cumsum(1.0 - probability[order]) / np.arange(1, len(order) + 1)
        columns = {
            **({} if fitted.class_names is None else {fitted.output_kind: fitted.class_names[k]}),
            kind: names[order],
            "prob_included": probability[order],
            "prob_mcse": errors[order],
            "share": shares[order],
            "fdr": expected,
            "selected": expected <= fdr,
            "credible_set": pd.array([n or None for n in numbers[order].tolist()], dtype="Int64"),
            "prob_set": of_sets[order],
        }
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    table.attrs.update(inference=fitted.inference, fdr=fdr)
    return table


def _included(fitted: FittedBEMKL, k: int) -> np.ndarray:
    """Return which kernels are in, in every draw of a model, (n_draws, n_kernels)."""
    found = fitted.included(k)
    if found is None:
        name = type(fitted.estimator).__name__
        how = 'kernel_prior="spike-slab"' + ("" if fitted.is_marginal else ' and inference="nuts"')
        raise ValueError(
            f"`model` must have a prior that can exclude kernels; got a {name} whose kernels are "
            f"all in. Fit it with {how}."
        )
    return found


def _errors(fitted: FittedBEMKL, values: np.ndarray) -> np.ndarray:
    """Return Monte Carlo standard errors of means of what is in after every sweep, or in every draw."""
    if fitted.selects_kernels and (shape := fitted.states[0].included.shape)[1]:
        return errors_of_chains(values.reshape(*shape[:2], -1), 0.03)[0]
    return monte_carlo_errors(fitted, values, 0.03)["mean_mcse"]


def _alike(fitted: FittedBEMKL, member: np.ndarray) -> np.ndarray:
    """Return alignments of the mean kernels of groups, (n_groups, n_groups); zeros where kernels are not there."""
    if fitted.estimator.kernel_bank_ is None and not fitted.is_marginal:
        return np.eye(member.shape[1])
    inner = member.T @ alignments(fitted.training_stack()) @ member
    size = np.sqrt(np.maximum(np.diag(inner), np.finfo(float).tiny))
    return inner / size[:, None] / size


def _credible_sets(inside: np.ndarray, alike: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the set that each column is in, 0: none, and the probability that one of it is in."""
    numbers, of_sets = np.zeros(inside.shape[1], dtype=int), np.full(inside.shape[1], np.nan)
    for first in np.argsort(-inside.mean(axis=0), kind="stable"):
        members, covered = [int(first)], inside[:, first]
        while numbers[first] == 0 and covered.mean() < CREDIBLE:
            candidates = np.flatnonzero((numbers == 0) & (alike[members] >= ALIKE).all(axis=0))
            gains = (inside[:, candidates] & ~covered[:, None]).mean(axis=0)
            if not gains.max(initial=0.0) > 0.0:
                break
            members.append(int(candidates[gains.argmax()]))
            covered = covered | inside[:, members[-1]]
        if numbers[first] == 0 and covered.mean() >= CREDIBLE:
            numbers[members], of_sets[members] = numbers.max() + 1, covered.mean()
    return numbers, of_sets


@own_settings
def permutation_table(
    model: BaseEstimator,
    X: Samples,
    y: Targets,
    *,
    conditional: bool = False,
    scoring: str | Callable[..., float] | None = None,
    n_repeats: int = 10,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = True,
) -> pd.DataFrame:
    """Measure how much worse a model predicts when a view is permuted among samples.

    Parameters
    ----------
    model : estimator
        Any estimator of this package that was fitted to a KernelBank; or a Pipeline or search that ends in one.
    X : samples
        Held-out samples, as for `predict` of the model.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Their targets.
    conditional : bool, default=False
        Instead of a permutation, draw the view of each sample from those of the training samples, with probabilities
        given its other views. Information that the other views also have then does not count: see Notes.
    scoring : str or callable, default=None
        Score, as in :func:`sklearn.metrics.check_scoring`, such as "neg_log_loss"; higher is better. None is `score`
        of the model.
    n_repeats : int, default=10
        Number of permutations of each view.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the permutations.
    verbose : bool, default=True
        Whether to show a progress bar on a terminal if it takes over five seconds.

    Returns
    -------
    pandas.DataFrame
        One row per view, by falling ``importance``. All columns of a view are permuted together. The columns are

        * ``view``: name;
        * ``importance``: how much the score falls, on average over repeats;
        * ``std``: standard deviation over repeats, which does not include the uncertainty from the choice of samples.

        The attribute ``score`` is the score of the unchanged samples.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model was fitted to precomputed kernels; if `conditional` is used with a single view or with landmarks;
        if `X`, `y` and `scoring` do not fit the model.

    See Also
    --------
    relevance : The loss of a model that is refitted without a view.
    sklearn.inspection.permutation_importance : The same for columns of `X`, before the steps of a Pipeline.

    Notes
    -----
    This describes a fitted model, not the data. If two views carry the same information, the model may rely on both,
    one or none of them, although neither is needed (:func:`relevance`). Permuted samples combine views in ways that
    no real sample does, so their scores are extrapolations (Hooker et al. 2021). With ``conditional=True`` the
    combinations are realistic: a view is then important as far as it adds to the other views. The probabilities are
    the same that :class:`~bayesmkl.gp.GPMKLClassifier` uses for samples that lack a view. With few samples they
    capture only part of the dependence between views; the rest still counts as importance.

    References
    ----------
    L. Breiman (2001), Random forests, Machine Learning 45, 5-32.

    C. Strobl, A.-L. Boulesteix, T. Kneib, T. Augustin and A. Zeileis (2008), Conditional variable importance for
    random forests, BMC Bioinformatics 9, 307.

    G. Hooker, L. Mentch and S. Zhou (2021), Unrestricted permutation forces extrapolation: variable importance
    requires at least one more model, or there is no free variable importance, Statistics and Computing 31, 82.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import permutation_table
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views={"signal": 0, "noise": 1})).fit(X[:40], y[:40])
    >>> table = permutation_table(model, X[40:], y[40:], random_state=0)
    >>> table["view"].tolist(), bool(table["importance"][0] > 1.0)
    (['signal', 'noise'], True)
    """
    conditional, verbose = check_flag("conditional", conditional), check_flag("verbose", verbose)
    n_repeats = check_integer("n_repeats", n_repeats, low=1)
    rng = generator_of("random_state", random_state)
    estimator, steps = _with_bank(model)
    bank = estimator.kernel_bank_
    X = passed(steps, X)
    rows = np.asarray(estimator._validate_rows(X))  # an error where they are sparse
    if bank.column_plan_ is not None and bank.column_plan_.columns:
        X = CheckedTable(rows, None, None)  # type: ignore[assignment]  # codes of categories, not labels
    scorer, y = check_scoring(estimator, scoring), np.asarray(y)
    names, columns = [view.name for view in bank.views_], [np.asarray(view.columns) for view in bank.views_]
    found = np.empty((len(names), n_repeats))
    probabilities = _probabilities(bank, rows) if conditional else None
    score = scorer(estimator, X, y)
    with step_progress(verbose, "permutations", found.size, "prediction") as report:
        for k, own in enumerate(columns):
            chances = None if probabilities is None else probabilities[k]
            for r in range(n_repeats):
                drawn = _drawn(rows[:, own], bank.X_train_[:, own], chances, rng)
                found[k, r] = scorer(estimator, _with_columns(X, own, drawn), y)
                if report is not None:
                    report(k * n_repeats + r + 1, names[k])
    fall = score - found
    table = pd.DataFrame({"view": names, "importance": fall.mean(axis=1), "std": fall.std(axis=1)})
    table = table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)
    table.attrs.update(score=float(score))
    return table


def _with_bank(model: BaseEstimator) -> tuple[Any, list[Any]]:
    """Return an estimator that was fitted to a bank, and the steps before it."""
    found = unwrapped(model, (BaseMKL,))
    if found is None:
        raise TypeError(
            f"`model` must be an estimator of bayesmkl, or a Pipeline or search that ends in one; got "
            f"{type(model).__name__}. For other estimators use sklearn.inspection.permutation_importance."
        )
    estimator, steps = found
    check_is_fitted(estimator, "kernel_names_")
    if estimator.kernel_bank_ is None:
        raise ValueError(
            "`model` was fitted to precomputed kernels, which have no columns to permute. Fit it to a KernelBank."
        )
    return estimator, steps


def _probabilities(bank: Any, rows: np.ndarray) -> np.ndarray:
    """Return probabilities that views of rows are those of training samples, (n_views, n_rows, n_train)."""
    if len(bank.views_) < 2:
        raise ValueError(
            "`conditional` must be False without other views to condition on; got the single view "
            f"{bank.views_[0].name!r}. Give the bank several views, KernelBank(views=...)."
        )
    if bank.landmarks_ is not None:
        raise ValueError(
            "`conditional` must be False with landmarks, which do not have the views of samples. Fit without them."
        )
    views = bank.view_positions_[bank.view_positions_ >= 0]  # without the part "views together"
    own = slice(len(views))
    training = stack_with_absent(bank.train_stack()[own], bank.kernel_names_[own])
    centers = find_centers(training)
    completed = CompletedKernels(centers.rows(training), centers.spread, views)
    kernels, diagonal = bank.rows_and_diagonal(rows)
    stack = stack_with_absent(kernels[own], bank.kernel_names_[own], bank.present_[views])
    diagonal = centers.diagonal(stack, diagonal[own])
    return completed.probabilities(completed.images(centers.rows(stack), diagonal))


def _drawn(
    own: np.ndarray, train: np.ndarray, chances: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Return other values of the columns of a view: those of other rows, or of training samples by `chances`."""
    if chances is None:
        return own[rng.permutation(len(own))]
    below = np.cumsum(chances, axis=1) < rng.random((len(own), 1))
    drawn = train[np.minimum(below.sum(axis=1), len(train) - 1)]
    return np.where(np.isnan(own), own, drawn)  # an absent view stays absent


def _with_columns(X: Samples, columns: np.ndarray, values: np.ndarray) -> Samples:
    """Return samples with other values in some columns."""
    if isinstance(X, CheckedTable):
        return X._replace(values=_with_columns(X.values, columns, values))
    if isinstance(X, pd.DataFrame):
        frame = X.copy()
        for j, column in zip(columns, values.T, strict=True):
            frame.isetitem(int(j), column)
        return frame
    changed = np.array(X, dtype=np.float64)
    changed[:, columns] = values
    return changed


BLOCK_ENTRIES = 2**20  # pairs of samples and points that are held at once


@public
def value_of_view(
    model: BaseEstimator, X: Samples, *, ci_prob: float = 0.94, n_draws: int = 100
) -> pd.DataFrame:
    r"""Estimate how predictions would change if a missing view of a sample were measured.

    Parameters
    ----------
    model : estimator
        A GPMKLClassifier of two classes, or a GPMKLRegressor of one target with normal noise, fitted with
        ``missing_views="integrate"`` to a KernelBank; or a Pipeline or search that ends in one.
    X : samples
        Samples, as for `predict` of the model; all columns of a missing view are NaN.
    %(ci_prob)s
    n_draws : int, default=100
        Number of draws of hyperparameters to average over; at most as many as the model has.

    Returns
    -------
    pandas.DataFrame
        One row per sample and missing view, with the columns

        * ``sample``: index of a DataFrame, or number of the row; ``view``: its name;
        * ``decision_change``: in classification, the probability that the predicted class changes; in regression, the
          expected size of the change of the prediction, in units of the target;
        * ``log_loss_change``: expected change of the log loss of the sample's target, in nats, from the prediction
          without the view to the prediction with it; negative if the log loss falls;
        * ``width_change``: expected change of the width of the score's interval; in regression of the target's
          interval, including noise, in units of the target.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If no sample lacks a view; if the model has several outputs, tasks or precomputed kernels, or was not fitted
        with ``missing_views="integrate"``; if `ci_prob` or `n_draws` is out of range.

    Notes
    -----
    Expectations are taken under the model. The missing view is unknown: it is one of the points of the training
    samples, with probabilities given the other views of the sample. The function of the view is uncertain too, but it
    is known best at these points, and the score there has moments in closed form. A measured view also tells more
    about other missing views, as far as views depend on each other. Interactions, the part "views together", are left
    out.

    Expectations are right on average over data sets, not for each data set. In 24 data sets of 60 samples, the log
    loss changed by -0.49 on average where -0.50 and -0.47 were expected of two views, but the two typically differed
    by 0.13 in a single data set. A model that is fitted without the view may predict worse than this model does
    without it, because the view shows this model which part of the target the other views do not explain. For a view
    without any effect, a small fall is expected and a small rise found, because its weight is never certain to be
    zero. Rank views by these values, and test on held-out samples before you rely on their size.

    A width can grow, if the measured point lies where the function is less certain than it was on average.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import value_of_view
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1})
    >>> model = GPMKLRegressor(bank, missing_views="integrate").fit(X, np.sin(2 * X[:, 0]))
    >>> table = value_of_view(model, [[np.nan, 0.3], [0.3, np.nan]])
    >>> table["view"].tolist(), bool(table["decision_change"][0] > table["decision_change"][1])
    (['signal', 'noise'], True)
    """
    ci_prob, n_draws = check_probability("ci_prob", ci_prob), check_integer("n_draws", n_draws, low=1)
    fitted = _checked(model)
    estimator = fitted.estimator
    transformed = fitted.transform(X)
    rows = estimator._validate_rows(transformed)
    labels = row_labels(len(rows), X, transformed)
    names = [view.name for view in estimator.kernel_bank_.views_]
    lacking = ~present_views(rows, estimator.kernel_bank_.views_)
    if not lacking.any():
        raise ValueError(
            f"`X` must have samples that lack a view, NaN in all of its columns; got {len(rows)} samples with all of "
            f"{', '.join(map(repr, names))}. There is nothing left to measure."
        )
    tables, half = [], float(norm.ppf(0.5 * (1.0 + ci_prob)))
    for v, name in enumerate(names):
        who = np.flatnonzero(lacking[v])
        if len(who):
            n_blocks = -(-len(who) * len(estimator.kernel_bank_.X_train_) // BLOCK_ENTRIES)
            for few in np.array_split(who, n_blocks):
                found = _changes(fitted, *_moments(fitted, rows[few], v, n_draws), half)
                tables.append(pd.DataFrame({"row": few, "sample": labels[few], "view": name, **found}))
    table = pd.concat(tables).sort_values("row", kind="stable")
    return table.drop(columns="row").reset_index(drop=True)


def _checked(model: BaseEstimator) -> FittedBEMKL:
    """Return the posterior of a model whose scores of absent views are known in closed form."""
    fitted = fitted_bemkl(model)
    estimator = fitted.estimator
    if not isinstance(estimator, GPMKLClassifier | GPMKLRegressor):
        raise TypeError(
            f"`model` must be a GPMKLClassifier or a GPMKLRegressor; got {type(estimator).__name__}. Fit one of them "
            "to the same samples."
        )
    if estimator.kernel_centers_ is None or estimator.kernel_bank_ is None:
        raise ValueError(
            '`model` must be fitted with missing_views="integrate" to a KernelBank; got '
            f"missing_views={estimator.missing_views!r} and "
            f"{'precomputed kernels' if estimator.kernel_bank_ is None else 'a bank'}. Refit it."
        )
    tasks, likelihood = fitted.has_tasks, estimator.likelihood_
    if estimator._has_outputs or tasks or not (fitted.is_classifier or isinstance(likelihood, Gaussian)):
        what = "several outputs" if estimator._has_outputs else type(likelihood).__name__
        what = "tasks" if tasks else what
        raise ValueError(
            f"`model` must have two classes, or one target of numbers with normal noise; got {what}. Fit one model "
            "for each class or output."
        )
    return fitted


class _Moments:
    """Scores averaged over hyperparameters: mean, variance with noise, and the probability of the second class."""

    def __init__(self, likelihood: Any, *shape: int) -> None:
        self.likelihood = likelihood
        self.mean, self.square, self.within, self.positive = np.zeros((4, *shape))

    def add(self, probability: float, mean: np.ndarray, variance: np.ndarray, parameters: np.ndarray) -> None:
        """Add the moments of one point, in units of the score."""
        self.mean += probability * mean
        self.square += probability * mean**2
        self.within += probability * variance
        if isinstance(self.likelihood, Gaussian):
            self.within += probability * parameters[0] ** 2
            return
        flat = np.maximum(variance.ravel(), np.finfo(float).tiny)
        tilted = self.likelihood.tilted(np.ones(mean.size), mean.ravel(), flat, parameters)
        self.positive += probability * np.exp(tilted.log_normalizer).reshape(mean.shape)

    @property
    def std(self) -> np.ndarray:
        """Standard deviation over all that is not known."""
        return np.sqrt(self.within + np.maximum(self.square - self.mean**2, 0.0))


def _moments(
    fitted: FittedBEMKL, X: np.ndarray, v: int, n_draws: int
) -> tuple[_Moments, _Moments, np.ndarray]:
    """Return scores of rows that lack view `v`, scores with the view at every point, and probabilities of these."""
    estimator: Any = fitted.estimator
    draws: HyperDraws = fitted.states[0]
    completed, centers = estimator._completed_training(), estimator.kernel_centers_
    kernels, own_diagonal = estimator.kernel_bank_.rows_and_diagonal(X)
    stack = estimator._stack_of(kernels)
    diagonal, stack = centers.diagonal(stack, own_diagonal), centers.rows(stack)
    images = completed.images(stack, diagonal)
    of_points = completed.probabilities(images)[v]
    samples, views = np.flatnonzero(completed.have[v]), completed.views
    gains, gained = completed.reveal(stack, images, v, samples)
    gain = np.array([kernel.any() for kernel in gains.each()])  # none of views that the others do not tell
    of_views = np.array([views == u for u in range(len(completed.have)) if u == v or gain[views == u].any()])
    lacks = np.array([~stack.present[own].any(axis=0) for own in of_views]).T
    gained = gained.reshape(len(gained), -1)
    stack, diagonal = completed.rows(stack, diagonal, images)
    design_rows = None if estimator.design_ is None else estimator.design_.rows(X)
    covariance = estimator._covariance(completed.training)
    chosen, counts = np.unique(draws.point[evenly(draws.n_draws, n_draws)], return_counts=True)
    likelihood = estimator.likelihood_
    before, after = _Moments(likelihood, len(X)), _Moments(likelihood, len(X), len(samples))
    groups = np.array([views == v, views != v])
    with blas_threads_for(completed.training.n_train):
        for at, probability in zip(chosen, counts / counts.sum(), strict=True):
            own, *rest = prior_parts(covariance, draws, at, stack, diagonal, groups, design_rows)
            others = PartRows(*(np.sum(values, axis=0) for values in zip(*rest, strict=True)))
            parts = islice(prior_parts(covariance, draws, at, gains, gained, of_views), len(of_views))
            cross, prior = (np.array(values) for values in zip(*parts, strict=True))
            points = PartRows(cross, prior.sum(axis=0).reshape(len(X), -1))
            matrix = draws.matrix(covariance, at)
            sites = Sites(draws.site_precision[at, 0], draws.site_linear[at, 0])
            posterior, parameters = condition(matrix, sites), draws.parameters[at, 0]
            total = own[0] + others.cross
            variance = np.maximum(own[1] + others.prior - posterior.explained(total), 0.0)
            before.add(probability, total @ posterior.dual, variance, parameters)
            left = cavity(posterior, sites)
            found = revealed_moments(posterior, matrix, left, others, points, lacks, samples)
            after.add(probability, *found, parameters)
    return before, after, of_points[:, samples]


def _changes(
    fitted: FittedBEMKL, before: _Moments, after: _Moments, weights: np.ndarray, half: float
) -> dict[str, np.ndarray]:
    """Return expected changes for every row; `weights` are probabilities of the points."""
    scale = 1.0
    if fitted.is_classifier:
        now, then = before.positive, after.positive
        truth = (weights * then).sum(axis=1)
        loss_now = -xlogy(truth, now) - xlogy(1.0 - truth, 1.0 - now)
        loss_then = -(weights * (xlogy(then, then) + xlogy(1.0 - then, 1.0 - then))).sum(axis=1)
        decision = (weights * ((then > 0.5) != (now > 0.5)[:, None])).sum(axis=1)
    else:
        scale, shift = float(fitted.estimator.y_scale_), after.mean - before.mean[:, None]
        decision = scale * (weights * np.abs(shift)).sum(axis=1)
        missed = (weights * (after.std**2 + shift**2)).sum(axis=1)
        loss_now = np.log(before.std) + 0.5 * missed / before.std**2
        loss_then = (weights * np.log(after.std)).sum(axis=1) + 0.5
    width = 2.0 * half * scale * ((weights * after.std).sum(axis=1) - before.std)
    return {"decision_change": decision, "log_loss_change": loss_then - loss_now, "width_change": width}
