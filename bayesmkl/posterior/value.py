"""Expected change of the prediction of a sample if a view that it lacks were measured."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import xlogy
from scipy.stats import norm
from sklearn.base import BaseEstimator

from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import check_integer, check_probability
from bayesmkl.gp import GPMKLClassifier, GPMKLRegressor
from bayesmkl.gp.conditioning import Sites, cavity, condition
from bayesmkl.gp.parts import PartRows, prior_parts, revealed_moments
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.kernels.presence import present_views
from bayesmkl.outcomes import Gaussian
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl, public

BLOCK_ENTRIES = 2**20  # pairs of samples and points that are held at once


@public
def value_of_view(
    model: BaseEstimator, X: Samples, *, ci_prob: float = 0.94, n_draws: int = 100
) -> pd.DataFrame:
    r"""Say what would change for samples that lack views if one of these were measured.

    Parameters
    ----------
    model : estimator
        A GPMKLClassifier of two classes, or a GPMKLRegressor of one target with normal noise, fitted with
        ``missing_views="integrate"`` to a KernelBank; or a Pipeline or search that ends in one.
    X : samples
        As `predict` of the model takes them; all columns of a view that is absent are NaN.
    %(ci_prob)s
    n_draws : int, default=100
        Draws of hyperparameters over which is averaged; at most as many as the model has.

    Returns
    -------
    pandas.DataFrame
        One row per sample and view that it lacks, with the columns

        * ``sample``: index of a frame, or number of the row; ``view``: its name;
        * ``decision_change``: of classes the probability that another one becomes the more probable; in regression
          the expected size of the change of the prediction, in units of the target;
        * ``log_loss_change``: change of the log loss of the sample's target that the model expects, in nats;
          negative: it falls;
        * ``width_change``: expected change of the width of the score's interval; in regression that of the target,
          noise included, in its units.

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
    Expectations are those of the model. What the view will be is not known: it is one of the points that training
    samples have, each as probable as the other views of the sample make it. The function of the view is not known
    exactly either, but at such a point more is known of it than at any, and the score there has moments in closed
    form. Of other views that the sample lacks more is known then too, as far as views tell of each other.

    Expectations are right on average over data sets, not for each. With 30 samples and little noise, the log loss
    changed by -0.90 on average where -0.88 was expected, but the two typically differed by 0.4 in a single data
    set. For a view without any effect a small fall is expected and a small rise found, as its weight is never
    certain to be zero. Rank by these values, and test on held-out samples before you count on their size.

    A width can grow: a point where little is known of the function says that less is known than was believed on
    average.

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
    frame = X if isinstance(X, pd.DataFrame) else transformed
    labels = frame.index.to_numpy() if isinstance(frame, pd.DataFrame) else np.arange(len(rows))
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
            f"{'precomputed kernels' if estimator.kernel_bank_ is None else 'a bank'}. Fit it so."
        )
    tasks = fitted.design is not None and fitted.design.has_tasks
    likelihood = estimator.likelihood_
    if estimator._has_outputs or tasks or not (fitted.is_classifier or isinstance(likelihood, Gaussian)):
        what = (
            "tasks" if tasks else "several outputs" if estimator._has_outputs else type(likelihood).__name__
        )
        raise ValueError(
            f"`model` must have two classes, or one target of numbers with normal noise; got {what}. Fit one model "
            "for each class or output."
        )
    return fitted


class _Moments:
    """Scores averaged over hyperparameters: mean, variance with noise, and the probability of the second class."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.square, self.within, self.positive = np.zeros((4, *shape))

    def add(
        self,
        probability: float,
        mean: np.ndarray,
        variance: np.ndarray,
        parameters: np.ndarray,
        likelihood: Any,
    ) -> None:
        """Add the moments of one point, in units of the score."""
        self.mean += probability * mean
        self.square += probability * mean**2
        self.within += probability * variance
        if isinstance(likelihood, Gaussian):
            self.within += probability * parameters[0] ** 2
            return
        flat = np.maximum(variance.ravel(), np.finfo(float).tiny)
        tilted = likelihood.tilted(np.ones(mean.size), mean.ravel(), flat, parameters)
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
    before, after = _Moments((len(X),)), _Moments((len(X), len(samples)))
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
            before.add(probability, total @ posterior.dual, variance, parameters, estimator.likelihood_)
            found = revealed_moments(
                posterior, matrix, cavity(posterior, sites), others, points, lacks, samples
            )
            after.add(probability, *found, parameters, estimator.likelihood_)
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
