r"""Is there any signal, which views does it need, and which act together? Refits, compared on left-out samples.

A model is fitted again without some kernels. How samples are left out depends on what a posterior is good for:

* additive Gaussian processes have cavities;
* so has BEMKL by "nuts" and "gibbs", given draws of its kernel weights (both in `bayesmkl.posterior.loo`);
* a variational posterior cannot be reweighted: its draws have k-hats above 0.7 for nearly all samples, and by them
  random labels are predicted far better than by their frequencies. It is fitted to folds instead.

Without kernels every output of BEMKL has the score :math:`f_i \sim N(b, 1)`, or the target :math:`y_i \sim N(b,
1/\varepsilon)`, with the priors of the model on the precision of `b` and on ε. The precisions integrate out in closed
form, so that `b` is Student t and what is left is an integral over one variable,

.. math:: p(y) = \int p(y \mid b)\, p(b)\, db ,

which the trapezoidal rule takes in :math:`u` with :math:`b = \hat b + s \sinh u`, from the mode far into the tails of
Student t. Outputs have intercepts of their own.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import gammaln, log_ndtr, logsumexp
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from bayesmkl._utils.options import Marginal, Storage
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.validation import check_choice, check_flag, check_probability, generator_of, shown
from bayesmkl._utils.warnings import holding_back, warn_user
from bayesmkl.bemkl.ascent import Fit
from bayesmkl.bemkl.base import FitTask
from bayesmkl.bemkl.moments import LOG_2PI, Dirichlet, Gamma, SpikeSlab
from bayesmkl.bemkl.reading import ScoreDraws, class_scores, log_probabilities
from bayesmkl.gp.reading import shares_of_parts
from bayesmkl.kernels.bank import CheckedTable, KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack, stored_array
from bayesmkl.kernels.stacks.learned import LearnedStack, with_learned
from bayesmkl.kernels.together import ViewKernels
from bayesmkl.kernels.views import TOGETHER, View
from bayesmkl.posterior.fitted import ABSENT, FittedBEMKL, evenly, fitted_bemkl, public, states_of
from bayesmkl.posterior.loo import leave_one_out_of_draws
from bayesmkl.posterior.tables import OF_SHARES, table_of_draws

STEPS = np.linspace(-12.0, 12.0, 1001)
NEAR = np.linspace(-8.0, 8.0, 1601)  # intercepts of scores, of which one is next to the mode
THROUGH_LANDMARKS = (
    "it compares samples with landmarks. Fit one with `landmarks=None` to some of the samples, or compare "
    "predictions of held-out samples: `bayesmkl.evaluation.compare_models`."
)
CLEAR_FROM = 3.0  # log Bayes factor from which on a verdict is "clear"
WEAK_FROM = 1.0  # and "weak": at most 4 % of data sets without signal are above it
AGAINST_BELOW = -1.0  # below it there is evidence against the view
CLEAR, WEAK, NO_EVIDENCE, AGAINST, UNKNOWN = "clear", "weak", "no evidence", "evidence against", "not tested"
PREDICTS = (CLEAR, WEAK)
LARGE = 2.0  # standard errors of a difference in accuracy, beyond which it is "clear" without an evidence
N_FOLDS = 10
TOL = 1e-4  # of the bound in folds: probabilities need no more
ALL = "all"  # name of the row of all views together
MOST_PAIRS = 21  # that are asked about one by one where nobody says so
INTERACTION_DRAWS = 400
FEW_POINTS = 128  # of a refit that is asked for nothing but its predictions


@public
def relevance(
    model: BaseEstimator, by: str | None = None, *, kernels: ArrayLike | None = None, verbose: bool = True
) -> pd.DataFrame:
    r"""Test whether a model predicts anything, and which views or kernels it needs for that.

    The model is refitted once without any kernel, and once without each view. Predictions of left-out samples show
    how much the kernels add. Training targets and kernels come from the model, which keeps or re-evaluates them.

    Parameters
    ----------
    %(model)s
    by : {"view", "kernel", "all"}, default=None
        What to leave out at a time. None is "view", or "kernel" for precomputed kernels without views. "all" only
        tests whether the model predicts anything.
    %(kernels:kept)s
    verbose : bool, default=True
        Whether to show a progress bar on a terminal if refits take over five seconds.

    Returns
    -------
    pandas.DataFrame
        The first row compares all kernels with none. Then follows one row per view or kernel, by falling
        ``elpd_diff``. The columns are

        * ``without``: the view or kernel that was left out; "all" in the first row;
        * ``share``: posterior mean share of the score, averaged over models of single classes; 1 in the first row;
        * ``elpd_diff``, ``se``: gain in the log density of all left-out samples from the view or kernel, in nats, and
          the standard error of this gain over samples;
        * ``log_evidence_diff``: gain in the log evidence of the model, which is the log Bayes factor. "nuts", "gibbs"
          and models of more than two classes have no evidence and lack this column. "vb" has ``elbo_diff`` instead,
          the difference of lower bounds. These get looser with the number of kernels and do not show signal;
        * ``pareto_k``: :math:`\hat k` of the refit, as `pareto_k_` of the model. Above 0.7 do not rely on the row;
          NaN for fits without importance weights;
        * ``verdict``: "clear" if ``log_evidence_diff`` is above 3, "weak" above 1, "no evidence" from -1 to 1,
          "evidence against" below. "No evidence" is not evidence of absence. A view is not needed if other views
          carry the same information. If all views together have no evidence, no single view has any. In a fit
          without a view, the part "views together" includes the other views only;
        * ``verdict_by``: "evidence", or "elpd" if the model has no evidence. With "elpd", the verdict is "clear" if
          ``elpd_diff`` is above two standard errors, and "no evidence" otherwise.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `by` is "view" for precomputed kernels without views, precomputed kernels are missing, or a BEMKL model has
        unlabeled samples or missing views.

    Warns
    -----
    ConvergenceWarning
        Once, if some of the refits did not converge.

    See Also
    --------
    interaction_table : Which views act together.
    verdicts : Verdicts by evidence without refits.

    Notes
    -----
    Every row is a separate fit, with the seed and the options of the model and, in classification, with its
    `intermediate_scale_`. Additive Gaussian processes leave samples out by cavities, which is exact given
    hyperparameters. "nuts" and "gibbs" do the same at 200 draws, which takes as many factorizations; each row takes
    as long as a fit. Variational posteriors cannot be reweighted to fewer samples, so "vb" fits the model of each row
    to ten folds.

    Without kernels, BEMKL only has its intercepts, which are integrated over exactly.

    Standard errors are too small with few samples (Sivula et al. 2020). Below about 100 samples, read verdicts by
    "elpd" with care.

    References
    ----------
    A. Vehtari, A. Gelman and J. Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27.

    A. Vehtari, T. Mononen, V. Tolvanen, T. Sivula and O. Winther (2016), Bayesian leave-one-out cross-validation
    approximations for Gaussian latent variable models, Journal of Machine Learning Research 17.

    T. Sivula, M. Magnusson, A. A. Matamoros and A. Vehtari (2020), Uncertainty in Bayesian leave-one-out
    cross-validation based model comparison, arXiv 2008.10296.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import relevance
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1})
    >>> table = relevance(GPMKLRegressor(bank, together=False).fit(X, np.sin(2 * X[:, 0])))
    >>> print(table[["without", "verdict"]].to_string(index=False))
    without          verdict
        all            clear
     signal            clear
      noise evidence against
    >>> relevance(BEMKLRegressor(bank).fit(X, X[:, 0]), by="all")[["verdict", "verdict_by"]].values.tolist()
    [['clear', 'elpd']]
    """
    fitted = fitted_bemkl(model, of_outcome=False)
    check_flag("verbose", verbose)
    if by is not None:
        check_choice("by", by, ("view", "kernel", "all"))
    names, members = np.unique(fitted.kernel_groups(by), return_inverse=True)
    names = [] if by == "all" else names.tolist()
    kept = [np.zeros(len(members), dtype=bool), *(members != k for k in range(len(names)))]
    refits = refits_of(fitted, kernels)
    own = refits.own
    found: list[Accuracy] = []
    with step_progress(verbose, "refits", len(kept), "refit") as report:
        for mask in kept:
            found.append(refits.fit(mask))
            if report is not None:
                report(len(found), "")
    shares = np.mean(np.atleast_2d(fitted.estimator.kernel_shares_), axis=0)
    rows: list[dict[str, Any]] = []
    for name, mask, without in zip([ALL, *names], kept, found, strict=True):
        difference = own.ahead_of(without)
        verdict = verdict_of(difference, fitted.inference == "vb")
        if rows:
            verdict["verdict"] = word_beside(verdict["verdict"], rows[0]["verdict"])
        share = {"without": name, "share": float(shares[~mask].sum())}
        rows.append(share | difference | {"pareto_k": without.pareto_k} | verdict)
    table = pd.DataFrame(rows)
    if fitted.inference == "vb":  # these are bounds
        table = table.rename(columns={"log_evidence_diff": "elbo_diff"})
    _warn_of_open(found)
    order = np.append(0, 1 + np.argsort(-table["elpd_diff"][1:].to_numpy(), kind="stable"))
    return table.iloc[order].reset_index(drop=True)


@public
def interaction_table(
    model: BaseEstimator,
    pairs: Sequence[Sequence[str]] | None = None,
    ci_prob: float = 0.94,
    *,
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    r"""List how much pairs of views interact, beyond the sum of their separate effects.

    Interactions form the part "views together" of the score, in models with at least two views. It is a sum over
    pairs of views, and the table has the share of each pair. Nothing is refitted.

    Parameters
    ----------
    model : GPMKLClassifier, GPMKLRegressor, GPMKLOrdinalClassifier or GPMKLSurvival
        Fitted with ``together=True``, without landmarks; or a Pipeline or search that ends in one.
    pairs : sequence of pairs of names, default=None
        Pairs of views to list. Each precomputed kernel without `kernel_views` is its own view. None: all pairs if
        there are at most 21, otherwise only the first row.
    %(ci_prob)s
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    pandas.DataFrame
        A row for all pairs, "views together", then one row per pair, by falling share. The columns are

        * ``views``: the pair, such as "genes × clinic";
        * ``share``, ``share_std``, ``share_lower``, ``share_upper``: share of the score, with Monte Carlo errors and
          ``interval_by``, as in :func:`view_table`.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model lacks this part or has landmarks, `pairs` are not pairs of its views, or `ci_prob` is out of
        range.

    See Also
    --------
    view_table : Shares of all parts.
    relevance : The views that the model needs, by refits without them.

    Notes
    -----
    With :math:`\bar K_v` the kernel of a view, centered and of unit variance in training, the kernel of a pair is the
    product of their entries, :math:`(\bar K_u)_{ij} (\bar K_v)_{ij}`, as for the interaction in a functional analysis
    of variance [1]_. All pairs have the same weight, so pairs that the data cannot distinguish have similar shares.

    References
    ----------
    .. [1] N. Durrande, D. Ginsbourger, O. Roustant and L. Carraro (2013), ANOVA kernels and RKHS of zero mean
       functions for model-based sensitivity analysis, Journal of Multivariate Analysis 115.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import interaction_table
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> bank = KernelBank("auto", views={"left": 0, "right": 1, "other": 2})
    >>> table = interaction_table(GPMKLRegressor(bank).fit(X, X[:, 0] * X[:, 1]), random_state=0)
    >>> table["views"].tolist()[:2], bool(table["share_lower"][1] > 0.5)
    (['views together', 'left × right'], True)
    """
    ci_prob, rng = check_probability("ci_prob", ci_prob), generator_of("random_state", random_state)
    fitted = fitted_bemkl(model)
    estimator = fitted.estimator
    if not fitted.is_marginal:
        raise TypeError(
            f"`model` must be an estimator of bayesmkl.gp; got {type(estimator).__name__}. Fit "
            "GPMKLClassifier or GPMKLRegressor to the same bank."
        )
    fitted.refuse_landmarks("shares of pairs of views")
    if not estimator._has_together:
        raise ValueError(
            f'`model` must have the part "views together"; got one with together={estimator.together} and '
            f"{len(set(estimator._kernel_views()))} views. Fit it with together=True to at least two views that "
            "vary, KernelBank(views={...})."
        )
    draws, covariance = fitted.states[0], estimator._covariance(estimator._stored_training())
    stack, units = covariance.at(draws.log_widths.mean(axis=0))
    of_views, last = ViewsOfModel(estimator, stack, np.arange(stack.n_kernels - 1)), stack.n_kernels - 1
    asked = _pairs(pairs, of_views.names)
    kernels = of_views.products(asked)
    chosen = evenly(draws.n_draws, INTERACTION_DRAWS)
    parts = DenseStack(np.concatenate([stored_array(stack)[:last], kernels]))
    times = np.repeat([1, len(kernels), 1], [last, 1, draws.weights.shape[1] - last - 1])
    split = covariance._replace(stack=parts, units=np.repeat(units, times[: last + 1]))
    counts = 1.0 if estimator.sample_weight_ is None else estimator.sample_weight_
    with blas_threads_for(fitted.n_samples):
        weights = np.repeat(draws.weights, times, axis=1)
        found = shares_of_parts(split, weights, draws, chosen, counts, rng)[:, last:]
    values = np.column_stack([found.sum(axis=1), found[:, : len(asked)]])
    order = np.append(0, 1 + np.argsort(-values[:, 1:].mean(axis=0), kind="stable"))
    names = [TOGETHER, *(f"{u} × {v}" for u, v in asked)]
    rows = [{"views": names[k]} for k in order]
    return table_of_draws(fitted, rows, values[:, order], ci_prob).rename(columns=OF_SHARES)


class InterceptOnly(NamedTuple):
    """One output without kernels.

    Attributes
    ----------
    log_evidence : float
        Of its targets, in nats.
    left_out : ndarray of shape (n_samples, 2) or (n_samples,)
        Log probabilities of scores beyond the margin, below and above, or the log density of the target, by the
        samples of the other folds.
    """

    log_evidence: float
    left_out: np.ndarray


def intercept_only(problem: Any, folds: Sequence[np.ndarray]) -> list[InterceptOnly]:
    """Return evidence and predictions of every output of a problem, as if it had no kernels.

    Parameters
    ----------
    problem : Problem
    folds : sequence of array of int
        Samples that are left out together; each sample is in one of them.
    """
    prior = problem.priors.intercept
    if problem.outcome.has_noise:
        return [_of_numbers(y, prior, problem.priors.noise, folds) for y in np.atleast_2d(problem.y)]
    return [_of_labels(y, prior, float(problem.outcome.margin), folds) for y in np.atleast_2d(problem.y)]


def _of_labels(y: np.ndarray, prior: Gamma, margin: float, folds: Sequence[np.ndarray]) -> InterceptOnly:
    n_above, n_below = int((y > 0.0).sum()), int((y < 0.0).sum())

    def sides(b: np.ndarray) -> np.ndarray:
        return log_ndtr(np.stack([-b - margin, b - margin]))

    counts = np.array([n_below, n_above])
    center = NEAR[np.argmax(counts @ sides(NEAR) + _log_prior(NEAR, prior))]
    b, log_volume = _nodes(center, 1.0 / np.sqrt(len(y)))
    each, log_weight = sides(b), log_volume + _log_prior(b, prior)
    left_out = np.empty((len(y), 2))
    for fold in folds:
        others = counts - [(y[fold] < 0.0).sum(), (y[fold] > 0.0).sum()]
        log_posterior = others @ each + log_weight
        left_out[fold] = logsumexp(each + log_posterior, axis=1) - logsumexp(log_posterior)
    return InterceptOnly(float(logsumexp(counts @ each + log_weight)), left_out)


def _of_numbers(y: np.ndarray, prior: Gamma, noise: Gamma, folds: Sequence[np.ndarray]) -> InterceptOnly:
    c, r = noise

    def log_density(n: int, squares: np.ndarray) -> np.ndarray:
        """Return the log density of n targets, ε integrated out, by their sum of squared distances from b."""
        constant = c * np.log(r) - gammaln(c) + gammaln(c + 0.5 * n) - 0.5 * n * LOG_2PI
        return constant - (c + 0.5 * n) * np.log(r + 0.5 * squares)

    n, mean = len(y), y.mean()
    b, log_volume = _nodes(mean, np.sqrt((2.0 * r + n * y.var()) / n) / np.sqrt(n))
    squares, log_weight = n * y.var() + n * (mean - b) ** 2, log_volume + _log_prior(b, prior)
    left_out = np.empty(n)
    for fold in folds:
        own = (y[fold, None] - b) ** 2
        others = squares - own.sum(axis=0)
        base = logsumexp(log_density(n - len(fold), others) + log_weight)
        left_out[fold] = logsumexp(log_density(n - len(fold) + 1, others + own) + log_weight, axis=1) - base
    return InterceptOnly(float(logsumexp(log_density(n, squares) + log_weight)), left_out)


def _log_prior(b: np.ndarray, prior: Gamma) -> np.ndarray:
    """Return the log density of a normal variable whose precision is Gamma."""
    return student.logpdf(b, 2.0 * prior.concentration, scale=np.sqrt(prior.rate / prior.concentration))


def _nodes(center: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes of the integral, and logs of their weights."""
    log_volume = np.log(scale * (STEPS[1] - STEPS[0])) + np.log(np.cosh(STEPS))
    return center + scale * np.sinh(STEPS), log_volume


class Accuracy(NamedTuple):
    """What a fit says of its targets.

    Attributes
    ----------
    elpd_i : ndarray of shape (n_samples,)
        Log probability or density of the target of every sample by the others.
    log_evidence : float
        In nats; a lower bound of it from variational posteriors; NaN of Markov chains and of more than two classes.
    pareto_k : float
        Of the draws of hyperparameters; NaN where they have none.
    converged : bool
    """

    elpd_i: np.ndarray
    log_evidence: float
    pareto_k: float
    converged: bool

    def ahead_of(self, other: Accuracy) -> dict[str, float]:
        """Return by how much left-out targets, and all together, are more probable than by another fit, in nats.

        The second, ``log_evidence_diff``, is left out where there is no evidence.
        """
        difference, gain = self.elpd_i - other.elpd_i, self.log_evidence - other.log_evidence
        se = float(np.sqrt(len(difference)) * difference.std())
        found = {"elpd_diff": float(difference.sum()), "se": se}
        return found if np.isnan(gain) else found | {"log_evidence_diff": gain}


def word_of(log_bayes_factor: float) -> str:
    """Return the word for a log Bayes factor.

    Above 3 the evidence is "clear" (odds of 20 to 1), from 1 to 3 "weak", from -1 to 1 there is "no evidence"
    either way, and below -1 "evidence against". NaN is "not tested".

    Examples
    --------
    >>> [word_of(value) for value in (4.0, 2.0, 0.0, -2.0, float("nan"))]
    ['clear', 'weak', 'no evidence', 'evidence against', 'not tested']
    """
    if np.isnan(log_bayes_factor):
        return UNKNOWN
    if log_bayes_factor > WEAK_FROM:
        return CLEAR if log_bayes_factor > CLEAR_FROM else WEAK
    return NO_EVIDENCE if log_bayes_factor >= AGAINST_BELOW else AGAINST


def word_beside(word: str, every: str) -> str:
    """Return the word for a view beside that for all: where these have no evidence, its own is a lucky one."""
    return NO_EVIDENCE if word in PREDICTS and every in (NO_EVIDENCE, AGAINST) else word


def verdict_of(difference: dict[str, float], is_bound: bool) -> dict[str, str]:
    """Return the verdict on what `Accuracy.ahead_of` says, and what it is by.

    Without an evidence, or where that is a lower bound, accuracy decides. It can show what is there alone.
    """
    if "log_evidence_diff" in difference and not is_bound:
        return {"verdict": word_of(difference["log_evidence_diff"]), "verdict_by": "evidence"}
    is_large = difference["elpd_diff"] > LARGE * difference["se"]
    return {"verdict": CLEAR if is_large else NO_EVIDENCE, "verdict_by": "elpd"}


def _warn_of_open(found: Sequence[Accuracy]) -> None:
    """Warn once of refits that did not converge."""
    n_open = sum(not one.converged for one in found)
    if n_open:
        warn_user(
            f"{n_open} of {len(found)} refits did not converge. Read their rows with care, or fit the model with "
            "more iterations or draws.",
            ConvergenceWarning,
        )


def refits_of(fitted: FittedBEMKL, kernels: ArrayLike | None = None) -> ProcessRefits | BEMKLRefits:
    """Return the refits of a model.

    Parameters
    ----------
    fitted : FittedBEMKL
    kernels : array-like, optional
        See `FittedBEMKL.training_stack`.

    Raises
    ------
    ValueError
        If it has none, see `why_no_refits`, or its kernels are missing.
    """
    reason = why_no_refits(fitted)
    if reason is not None:
        raise ValueError(f"`model` cannot be compared with fits without its kernels: {reason}")
    if fitted.is_marginal:
        fitted.refuse_kernels(kernels)
        return ProcessRefits(fitted)
    stack = fitted.training_stack(kernels)
    if stack.storage == "streamed":
        raise ValueError(
            "`model` evaluates its training kernels block by block, and they are too large for refits. Fit a model "
            "to some of its samples."
        )
    return BEMKLRefits(fitted, DenseStack(stored_array(stack)))


def why_no_refits(fitted: FittedBEMKL) -> str | None:
    """Say why samples cannot be left out by refits, and what to do instead; None if they can."""
    if fitted.is_marginal:
        return THROUGH_LANDMARKS if fitted.has_landmarks else None
    if not fitted.labeled.all():
        return "some of its samples are unlabeled. Fit it to the labeled ones."
    if getattr(fitted.estimator, "missing_views", "error") != "error":
        return ABSENT
    return None


class ProcessRefits:
    """Refits of an additive Gaussian process, which leave samples out by cavities.

    Parameters
    ----------
    fitted : FittedBEMKL
    """

    def __init__(self, fitted: FittedBEMKL) -> None:
        self.estimator: Any = fitted.estimator
        self.stack: Stack = self.estimator._stored_training()

    @property
    def own(self) -> Accuracy:
        """Of the model as it is."""
        model = self.estimator
        return Accuracy(model._counted(model.elpd_i_), model.log_evidence_, model.pareto_k_, model.converged_)

    def fit(self, kept: np.ndarray) -> Accuracy:
        """Fit with the kernels of a mask."""
        return Accuracy(*self.estimator._refit(*self.kernels(kept)))

    def of_one_view(self, kernels: list[Kernel], columns: np.ndarray) -> Accuracy:
        """Fit other kernels to one view of some columns, with the default prior and few points."""
        model, own = copy.copy(self.estimator), self.estimator.kernel_bank_
        bank = KernelBank(kernels, views=[View("all", columns)], scale=True)  # type: ignore[arg-type]
        table = CheckedTable(own.X_train_, None, own.column_labels_, own.column_plan_)
        stack = np.moveaxis(bank.fit_transform(table, sample_weight=model.sample_weight_), -1, 0)
        model.kernel_bank_, model.kernel_names_ = bank, np.array(bank.kernel_names_, dtype=object)
        model.kernel_prior, model.inference = type(model)().kernel_prior, Marginal(n_points=FEW_POINTS)
        return Accuracy(*model._refit(with_learned(DenseStack(stack), bank)))

    def kernels(self, kept: np.ndarray) -> tuple[Stack, np.ndarray]:
        """Return the kernels of a mask, and their positions; the part "views together" is that of these.

        Without any there is a constant one, which says nothing that the intercept does not.
        """
        if not kept.any():
            return DenseStack(np.ones((1, self.stack.n_rows, self.stack.n_train))), np.zeros(1, dtype=int)
        positions, kernels = np.flatnonzero(kept), None
        if self.estimator._has_together and kept[-1] and not kept.all():
            of_views = ViewsOfModel(self.estimator, self.stack, positions[:-1])
            positions, kernels = positions[:-1], of_views.products([])
        stack = self.stack.select(positions)
        if kernels is not None and kernels.any():
            learned, stack = stack.learned, DenseStack(np.concatenate([stored_array(stack), kernels]))
            stack = LearnedStack(stack, learned, of_views.own) if learned else stack
            positions = np.append(positions, len(kept) - 1)
        return stack, positions


class BEMKLRefits:
    """Refits of BEMKL by the model's own inference and settings.

    Parameters
    ----------
    fitted : FittedBEMKL
    stack : DenseStack
        Training kernels.
    """

    def __init__(self, fitted: FittedBEMKL, stack: DenseStack) -> None:
        self.fitted, self.stack, self.estimator = fitted, stack, fitted.estimator
        self.targets: np.ndarray = self.estimator.target_
        self.by_folds = not fitted.is_drawn
        settings: dict[str, Any] = {"verbose": 0, "storage": Storage("dense", "numpy")}
        if not isinstance(self.estimator.init, str):
            settings["init"] = "mean"
        if fitted.is_classifier:
            settings["intermediate_scale"] = self.estimator.intermediate_scale_
        self.settings = settings

    @property
    def own(self) -> Accuracy:
        """Of the model as it is."""
        model = self.estimator
        if self.by_folds:
            elpd_i = self._by_folds(np.ones(self.stack.n_kernels, dtype=bool))
            return Accuracy(elpd_i, float(model.elbo_), np.nan, model.converged_)
        left = leave_one_out_of_draws(self.fitted, self.fitted._problems_over(self.stack))
        return Accuracy(left.elpd_i, np.nan, np.nan, model.converged_)

    def fit(self, kept: np.ndarray) -> Accuracy:
        """Do the same."""
        if not kept.any():
            return self.without_kernels()
        stack = self.stack.select(np.flatnonzero(kept))
        refit, fits = self._fit(stack, self.targets, kept)
        converged = all(fit.outcome.converged for fit in fits)
        if self.by_folds:
            bound = sum(float(fit.elbo_history[-1]) for fit in fits if fit.elbo_history is not None)
            return Accuracy(self._by_folds(kept), bound, np.nan, converged)
        refitted = self.fitted._replace(estimator=refit, states=states_of(refit))
        left = leave_one_out_of_draws(refitted, refit._problems(stack, with_gram=False))
        return Accuracy(left.elpd_i, np.nan, np.nan, converged)

    def without_kernels(self) -> Accuracy:
        """Integrate over the intercepts exactly; of competing classes, fit with a kernel that is zero."""
        if self.fitted.is_multinomial:
            stack = DenseStack(np.zeros((1, self.stack.n_rows, self.stack.n_train)))
            nothing = BEMKLRefits(self.fitted, stack)
            return nothing.fit(np.ones(1, dtype=bool))
        problems = self.fitted._problems_over(DenseStack(np.empty((self.stack.n_kernels, 0, 0))))
        targets = self.targets
        folds = self._folds() if self.by_folds else list(np.arange(targets.shape[-1])[:, None])
        rows = iter(np.atleast_2d(targets))
        found = []
        for problem in problems:
            y = np.stack([next(rows) for _ in range(len(np.atleast_2d(problem.y)))])
            found += intercept_only(problem._replace(y=y), folds)
        log_evidence = sum(output.log_evidence for output in found)
        elpd_i = self._log_predictive(np.array([output.left_out for output in found]), targets)
        return Accuracy(elpd_i, log_evidence, np.nan, True)

    # ------------------------------------------------------------------------------------------------ one fit

    def _fit(self, stack: DenseStack, targets: np.ndarray, kept: np.ndarray) -> tuple[Any, list[Fit]]:
        """Return a copy of the estimator with another posterior, and how that was found."""
        refit = copy.copy(self.estimator).set_params(**self.settings, kernel_prior=self._kernel_prior(kept))
        refit.target_ = targets
        problems = refit._problems(stack)
        n_models = len(problems)
        task = FitTask(problems, stack, targets, n_models > 1, [refit.init] * n_models, ["refit"] * n_models)
        fits = refit._infer(task)
        posteriors = tuple(fit.state for fit in fits)
        refit.posterior_ = posteriors if type(self.estimator.posterior_) is tuple else posteriors[0]
        return refit, fits

    def _kernel_prior(self, kept: np.ndarray) -> Any:
        """Return the prior of the kernels that are kept, where it has numbers for each."""
        prior = self.estimator.kernel_prior
        if not isinstance(prior, Dirichlet | SpikeSlab) or len(kept) != self.estimator.n_kernels_in_:
            return prior
        fields = {name: np.asarray(value)[kept] for name, value in prior._asdict().items() if np.ndim(value)}
        return prior._replace(**fields)

    # -------------------------------------------------------------------------------------------------- folds

    def _folds(self) -> list[np.ndarray]:
        """Return the samples of ten folds, with classes in proportion."""
        targets, seed = self.targets, self.estimator.random_state or 0
        if not self.fitted.is_classifier or self.estimator.is_multilabel_:
            by_number = KFold(min(N_FOLDS, targets.shape[-1]), shuffle=True, random_state=seed)
            return [test for _, test in by_number.split(targets.T)]
        classes = targets.argmax(axis=0) if targets.ndim == 2 else targets > 0.0
        n_folds = min(N_FOLDS, int(np.unique(classes, return_counts=True)[1].max()))
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        with holding_back(UserWarning):  # a class of fewer than ten samples is in fewer folds
            return [test for _, test in splitter.split(classes, classes)]

    def _by_folds(self, kept: np.ndarray) -> np.ndarray:
        """Return the log predictive density of every sample by the samples of the other folds."""
        kernels = stored_array(self.stack.select(np.flatnonzero(kept)))
        has_landmarks = self.stack.n_rows != self.stack.n_train or self.fitted.has_landmarks
        targets, tol = self.targets, self.settings.get("tol", self.estimator.tol)
        elpd_i = np.empty(targets.shape[-1])
        own = copy.copy(self)
        own.settings = self.settings | {"tol": max(tol, TOL), "n_init": 1, "init": "mean"}
        for test in self._folds():
            train = np.setdiff1d(np.arange(len(elpd_i)), test)
            columns = kernels if has_landmarks else kernels[:, :, train]
            stack, rows = DenseStack(np.ascontiguousarray(columns[:, train])), DenseStack(columns[:, test])
            refit, _ = own._fit(stack, targets[..., train], kept)
            elpd_i[test] = self._predict(refit, rows, targets[..., test])
        return elpd_i

    def _predict(self, refit: Any, rows: DenseStack, targets: np.ndarray) -> np.ndarray:
        """Return log densities of the targets of rows, as the estimator predicts them."""
        if not self.fitted.is_classifier:
            scores, noise = refit._scores(rows)
            each = [_log_density(*own) for own in zip(scores, noise, np.atleast_2d(targets), strict=True)]
            return np.sum(each, axis=0) - np.log(refit.y_scale_).sum()
        settings = refit._settings()
        of_classes: Any = class_scores(
            rows, refit.posterior_, settings.intermediate_scale**2, settings.predictive
        )
        if targets.ndim == 2 and not refit.is_multilabel_:
            log_p = of_classes.log_class_probabilities(settings.margin)
            return log_p[np.arange(len(log_p)), targets.argmax(axis=0)]
        sides = np.array([log_probabilities(score, settings.margin) for score in of_classes.scores])
        return self._log_predictive(sides, targets)

    def _log_predictive(self, left_out: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return log densities of samples from those of each output, of labels for both sides of the margin."""
        if not self.fitted.is_classifier:
            return left_out.sum(axis=0) - np.log(self.estimator.y_scale_).sum()
        log_p = left_out - logsumexp(left_out, axis=-1, keepdims=True)
        if targets.ndim == 2 and not self.estimator.is_multilabel_:
            classes = log_p[..., 1] - logsumexp(log_p[..., 1], axis=0)
            return classes[targets.argmax(axis=0), np.arange(targets.shape[-1])]
        above = np.atleast_2d(targets) > 0.0
        return np.where(above, log_p[..., 1], log_p[..., 0]).sum(axis=0)


def _log_density(score: Any, noise: float, y: np.ndarray) -> np.ndarray:
    """Return log densities of targets in the units of the fit."""
    if isinstance(score, ScoreDraws):
        spread = score.scales[:, None]
        log_density = norm.logpdf(y, score.means, spread)
        return logsumexp(log_density, axis=0) - np.log(len(log_density))
    return norm.logpdf(y, score.mean, np.sqrt(noise + score.variance))


class ViewsOfModel:
    """Training kernels of an additive Gaussian process by views, for the products of two of them.

    Parameters
    ----------
    estimator : BaseGPMKL
    stack : Stack
        Its training kernels.
    positions : ndarray of int
        Of the kernels that belong to views.
    """

    def __init__(self, estimator: Any, stack: Stack, positions: np.ndarray) -> None:
        self.stack, self.positions, self.present = stack, positions, estimator.present_
        of_kernels = np.array(estimator._kernel_views(), dtype=object)[positions]
        self.names: list[str] = list(dict.fromkeys(of_kernels))
        self.members = np.array([self.names.index(name) for name in of_kernels], dtype=int)
        self.own: ViewKernels | None = None
        if len(self.names) > 1:
            pairs = partial(map, itemgetter(0, 1))
            counts = estimator.sample_weight_
            self.own = ViewKernels.learn(lambda: pairs(self._kernels()), self.members, counts)

    def products(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the kernels of pairs, and last the sum of all others, (n_pairs + 1, n_samples, n_samples)."""
        found = np.zeros((len(pairs) + 1, self.stack.n_train, self.stack.n_train))
        if self.own is None:
            return found
        wanted = set(itertools.chain(*pairs))
        each = zip(self.names, self.own.each(self._kernels()), strict=True)
        views = {name: values for name, (values, _) in each if name in wanted}
        for product, (u, v) in zip(found, pairs, strict=False):
            np.multiply(views[u], views[v], out=product)
        if len(pairs) < math.comb(len(self.names), 2):
            found[-1] = np.nan_to_num(self.own.product(self._kernels())[0]) - found[:-1].sum(axis=0)
        return found

    def _kernels(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Go through kernels view by view, with NaN where samples lack them."""
        order = np.argsort(self.members, kind="stable")
        for m, kernel in zip(order, self.stack.each(self.positions[order]), strict=True):
            values = np.array(kernel, dtype=float)
            if self.present is not None:
                absent = ~self.present[self.positions[m]]
                values[absent] = values[:, absent] = np.nan
            yield m, values, values.diagonal()


def _pairs(pairs: Any, views: list[str]) -> list[tuple[str, str]]:
    """Return the pairs that get rows of their own; none where they are many and nobody chose."""
    every = list(itertools.combinations(views, 2))
    if pairs is None:
        return every if len(every) <= MOST_PAIRS else []
    chosen = [tuple(pair) for pair in pairs]
    unknown = [pair for pair in chosen if pair not in every and pair[::-1] not in every]
    if unknown or not chosen:
        got = shown(unknown[0]) if unknown else "none"
        raise ValueError(f"`pairs` must hold pairs of two different views among {shown(views)}; got {got}.")
    return chosen
