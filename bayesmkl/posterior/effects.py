r"""Contrasts: how much the outcome differs between rows, by draws that are joint over rows.

Given hyperparameters and sites, scores of new rows are jointly normal. A contrast is a sum of scores with weights
:math:`\ell`, one for each row, such as 1 and -1. With :math:`C_*` the covariance of the scores of the rows with those
of training, and :math:`C_{**}` that among the rows,

.. math:: E[\ell^\top f] = \ell^\top C_* \alpha, \qquad
   \operatorname{Cov}(\ell^\top f, \ell'^\top f) = \ell^\top (C_{**} - C_* R\, C_*^\top)\, \ell' .

Over hyperparameters it is a mixture of such normal distributions, whose quantiles are found by bisection. Draws of
BEMKL are a mixture of points. Rows that are the same are one row, whose weights add up to zero: a contrast of a row
with itself is exactly zero.

Where rows lack a view, they lack the same: what their other views leave unknown of it is common to all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import log_ndtr, ndtr
from sklearn.base import BaseEstimator

from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import check_choice, check_probability, generator_of, shown
from bayesmkl.bemkl.reading import mean_new_parts
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.kernels.between import kernels_between
from bayesmkl.kernels.presence import present_views, refuse_absent
from bayesmkl.kernels.sparse import is_sparse
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.learned import LearnedStack
from bayesmkl.kernels.views import column_names
from bayesmkl.outcomes import Logit, PiecewiseHazard
from bayesmkl.outcomes.counts import BetaBinomial
from bayesmkl.posterior.contributions import PartNames, _names, _process_means, _units
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl, public
from bayesmkl.posterior.tables import interval_by

BLOCK_ENTRIES = 2**24  # of kernels that are held at once
N_DRAWS = 4000  # of bands over several rows, and of odds ratios under a probit
ROUNDING = 1e-6  # of standard deviations, in units of the largest of a curve
BISECTIONS, FARTHEST = 60, 9.0  # of quantiles; standard deviations
SCORE = "score"  # name and kind of all parts together
PROBIT = "odds ratio of a probit"
QUANTILES = (0.25, 0.35, 0.45, 0.55, 0.65, 0.75)


class Mixture(NamedTuple):
    """Normal distributions of sums of scores, each as probable as its point.

    Attributes
    ----------
    probability : ndarray of shape (n_points,)
    mean : ndarray of shape (n_points, n_outputs, n_parts, n_curves, n_rows)
    cov : ndarray of shape (n_points, n_outputs, n_parts, n_curves, n_rows, n_rows)
        Among the rows of a curve. It may have fewer rows of zeros than that: (..., 1, 1, 1).
    """

    probability: np.ndarray
    mean: np.ndarray
    cov: np.ndarray

    @property
    def total_mean(self) -> np.ndarray:
        """Means over all points, (n_outputs, n_parts, n_curves, n_rows)."""
        return np.tensordot(self.probability, self.mean, 1)

    @property
    def std(self) -> np.ndarray:
        """Standard deviations at every point, of the shape of `mean`."""
        own = np.sqrt(np.maximum(np.einsum("...ii->...i", self.cov), 0.0))
        return np.broadcast_to(own, self.mean.shape)

    def quantile(self, probability: float) -> np.ndarray:
        """Return quantiles, (n_outputs, n_parts, n_curves, n_rows)."""
        std = self.std
        low = np.min(self.mean - FARTHEST * std, axis=0)
        high = np.max(self.mean + FARTHEST * std, axis=0)
        scale = np.where(std > 0.0, std, 1.0)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            z = (middle - self.mean) / scale
            below = np.where(std > 0.0, ndtr(z), z >= 0.0)
            is_low = np.tensordot(self.probability, below, 1) < probability
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        return high

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw, jointly over the rows of a curve, (n_draws, n_outputs, n_parts, n_curves, n_rows)."""
        counts = rng.multinomial(n_draws, self.probability)
        found = np.repeat(self.mean, counts, axis=0)
        values, vectors = np.linalg.eigh(self.cov)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        root = np.broadcast_to(root, (*self.mean.shape, root.shape[-1]))
        for at, end in enumerate(np.cumsum(counts)):
            normal = rng.standard_normal((counts[at], *self.mean.shape[1:-1], root.shape[-1], 1))
            found[end - counts[at] : end] += (root[at] @ normal)[..., 0]
        return found


@public
def contrast(
    model: BaseEstimator,
    A: Samples,
    B: Samples,
    by: str | None = None,
    *,
    scale: str | None = None,
    ci_prob: float = 0.94,
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    """Compare the predicted outcome between rows of `A` and rows of `B`, with intervals.

    Parameters
    ----------
    %(model)s
    A, B : samples
        Samples, as for `predict` of the model. Both have the same number of rows, or one has a single row, which is
        compared with all rows of the other.
    by : {"view", "kernel"}, default=None
        Split the difference into the parts of each view or kernel, and of the covariates and groups of a `Design`.
        None: the difference of the whole score.
    scale : {"difference", "ratio"}, default=None
        "difference": `A` minus `B`, in the units of :func:`effect_table`: units of the target, log odds or standard
        deviations of a probit, log rates, log times or log hazards. "ratio": `A` divided by `B`, a ratio of odds,
        rates, times or hazards. None: ratios for counts and times, differences for all other outcomes.
    %(ci_prob)s
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the draws, which only odds ratios under a probit and BEMKL need.

    Returns
    -------
    pandas.DataFrame
        One row for each pair of rows, with the columns

        * ``class``, ``label`` or ``output``: only where there are several;
        * ``row``: label of the row of `A` in its index, or of `B` where `A` is a single row;
        * ``part``: only with `by`;
        * ``mean``, ``lower``, ``upper``: posterior mean and ends of the equal-tailed interval; for a ratio ``mean``
          is the geometric mean;
        * ``interval_by``: the inference that made the intervals.

        Identical rows have a difference of exactly 0, or a ratio of 1. ``table.attrs["unit"]`` names the unit.

    Raises
    ------
    TypeError
        For any other model: multitask models, BEMKL of grades and times, discriminative methods.
    NotFittedError
        Before `fit`.
    ValueError
        If the model was fitted to precomputed kernels or cannot evaluate a row, if `A` and `B` have different numbers
        of rows, if a view is absent in all rows with ``by="view"``, or if the outcome has no ratio.

    See Also
    --------
    overall_effect : The same between quantiles of features.
    contributions : Parts of the score of each row.

    Notes
    -----
    This is a difference between predictions. It is the causal effect of a change from `B` to `A` only if there is no
    unmeasured common cause. Rows that lack a view are compared as if both had the same value of the view, which is
    only known from their other views.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import contrast
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views="each")).fit(X, 2 * X[:, 0])
    >>> contrast(model, [[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]])[["mean", "lower", "upper"]].round(1)
       mean  lower  upper
    0   2.0    2.0    2.0
    1   0.0    0.0    0.0
    """
    ci_prob, rng = check_probability("ci_prob", ci_prob), generator_of("random_state", random_state)
    if by is not None:
        check_choice("by", by, ("view", "kernel"))
    fitted = _with_rows(model)
    unit, is_ratio = _unit(fitted, scale, by)
    of_a, of_b = (_validated(fitted, name, rows) for name, rows in (("A", A), ("B", B)))
    n = max(len(of_a), len(of_b))
    if not {len(of_a), len(of_b)} <= {1, n}:
        raise ValueError(
            f"`A` and `B` must have the same number of rows, or one of them a single row; got {len(of_a)} and "
            f"{len(of_b)}. Repeat rows, such as A.iloc[[0, 0, 1]]."
        )
    named = PartNames([SCORE], [SCORE], np.ones((1, len(fitted.kernel_names)), dtype=bool))
    if by is not None:
        named = _names(fitted.kernel_names, fitted.kernel_views, by, fitted.design)
        if by == "view" and not is_sparse(of_a):
            views = fitted.estimator.kernel_bank_.views_
            remedy = "Give it values, such as those of a training sample, or choose other views."
            refuse_absent("`A` and `B`", present_views(np.concatenate([of_a, of_b]), views), views, remedy)
    probit = is_ratio and unit == PROBIT
    values = []
    for first in range(0, n, size := _pairs_at_once(fitted)):
        pairs = np.arange(first, min(first + size, n))
        both = [of_a[pairs if len(of_a) == n else [0] * len(pairs)]]
        both.append(of_b[pairs if len(of_b) == n else [0] * len(pairs)])
        rows, place = _unique(both)
        a, b = (np.eye(len(rows))[own] for own in place.reshape(2, -1))
        weights = np.stack([a - b, a], axis=1) if probit else (a - b)[:, None]
        found = _mixture(fitted, rows, weights, named, rng)
        values.append(_odds_ratios(found, ci_prob, rng) if probit else _ends(found, ci_prob)[..., 0])
    ends = np.concatenate(values, axis=-1)  # (3, n_outputs, n_parts, n)
    ends = np.exp(ends) if is_ratio else ends
    labels = _labels(A if len(of_a) == n else B, n)
    parts = [named.names[p] for p in _kept(fitted, named)]
    about = [
        {**fitted.about_output(k), "row": label, **({} if by is None else {"part": parts[p]})}
        for k in range(ends.shape[1])
        for label in labels
        for p in range(ends.shape[2])
    ]
    return _frame(fitted, about, np.moveaxis(ends, 2, 3), ("mean", "lower", "upper"), unit, ci_prob)


@public
def overall_effect(
    model: BaseEstimator,
    X: Samples,
    quantiles: Sequence[float] = QUANTILES,
    *,
    views: Sequence[str] | str | None = None,
    by: str | None = None,
    scale: str | None = None,
    ci_prob: float = 0.94,
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    """Compare the outcome at quantiles of all features with that at their medians.

    Parameters
    ----------
    %(model)s
    X : samples
        Samples whose quantiles are used, such as the training samples, as for `predict` of the model.
    quantiles : sequence of float, default=(0.25, 0.35, 0.45, 0.55, 0.65, 0.75)
        Quantiles, between 0 and 1.
    views : str or sequence of str, default=None
        Views whose features move. Features of all other views, and covariates, stay at their medians, and categories
        at their most frequent value. None: all views.
    by : {"feature"}, default=None
        Move one feature at a time instead of all features together.
    scale : {"difference", "ratio"}, default=None
        As in :func:`contrast`.
    ci_prob : float, default=0.94
        Probability content of the intervals, and of the bands.
    random_state : int, numpy.random.Generator or None, default=None
        Seed of the draws for the bands.

    Returns
    -------
    pandas.DataFrame
        One row for each quantile, with the columns

        * ``class``, ``label`` or ``output``: only where there are several;
        * ``feature``: only with `by`;
        * ``quantile``; with `by` also ``value``, the feature after the steps of a Pipeline;
        * ``mean``, ``lower``, ``upper``: difference from the medians, or ratio to them, with its interval;
        * ``band_lower``, ``band_upper``: a band that holds the whole curve with probability `ci_prob`;
        * ``interval_by``: the inference that made the intervals.

    Raises
    ------
    TypeError
        As :func:`contrast` raises.
    NotFittedError
        Before `fit`.
    ValueError
        As :func:`contrast` raises; and if a feature holds categories, a view is absent in all of `X`, the model has
        tasks, or `views` or `quantiles` are out of range.

    See Also
    --------
    plot_overall_effect, plot_effects : The tables as plots.
    feature_table : Average slopes at the observed features of the samples.

    Notes
    -----
    If features are negatively correlated, a point with all features at a high quantile may be far from any sample.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import overall_effect
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views="each")).fit(X, X[:, 0] + X[:, 1])
    >>> overall_effect(model, X, [0.25, 0.5, 0.75], random_state=0)[["quantile", "mean"]].round(2)
       quantile  mean
    0      0.25 -1.51
    1      0.50  0.00
    2      0.75  1.34
    """
    ci_prob, rng = check_probability("ci_prob", ci_prob), generator_of("random_state", random_state)
    q = np.atleast_1d(finite_numbers("quantiles", quantiles))
    if q.ndim != 1 or not len(q) or not ((q >= 0.0) & (q <= 1.0)).all():
        raise ValueError(f"`quantiles` must be numbers from 0 to 1; got {shown(quantiles)}.")
    if by is not None:
        check_choice("by", by, ("feature",))
    fitted = _with_rows(model)
    unit, is_ratio = _unit(fitted, scale, None)
    if unit == PROBIT:
        raise ValueError(
            '`scale` must be "difference" for quantiles under a probit; got "ratio". Use likelihood="logit", or '
            "`contrast` of two rows."
        )
    if fitted.has_tasks:
        raise ValueError(
            "`model` must have no tasks, because each has its own effect. Build rows of one task, and compare "
            "them with `contrast`."
        )
    typical, moved = _quantile_rows(fitted, X, q, views)
    columns = np.flatnonzero((moved != typical).any(axis=0)) if by == "feature" else np.empty(0, int)
    if by == "feature" and not len(columns):
        raise ValueError(
            f"`X` must have features that vary between its quantiles {shown(quantiles)}; got none. Use others, such "
            "as 0.05 and 0.95."
        )
    curves = [np.where(np.arange(len(typical)) == j, moved, typical) for j in columns] or [moved]
    named = PartNames([SCORE], [SCORE], np.ones((1, len(fitted.kernel_names)), dtype=bool))
    values = []
    for first in range(0, len(curves), size := max(1, 2 * _pairs_at_once(fitted) // len(q))):
        some = curves[first : first + size]
        rows, place = _unique([*some, typical[None]])
        at = np.eye(len(rows))[place]
        found = _mixture(fitted, rows, at[:-1].reshape(len(some), len(q), -1) - at[-1], named, rng)
        band = _bands(found, ci_prob, rng)
        values.append(np.concatenate([_ends(found, ci_prob), band]))
    ends = np.concatenate(values, axis=-2)[:, :, 0]  # (5, n_outputs, n_curves, n_quantiles)
    ends = np.exp(ends) if is_ratio else ends
    bank = fitted.estimator.kernel_bank_
    names = column_names(bank.n_features_in_, bank.column_labels_)
    about = [
        {**fitted.about_output(k), **own, "quantile": float(level), **(own and {"value": float(moved[i, j])})}
        for k in range(ends.shape[1])
        for j, own in ([(int(j), {"feature": names[j]}) for j in columns] or [(0, {})])
        for i, level in enumerate(q)
    ]
    labels = ("mean", "lower", "upper", "band_lower", "band_upper")
    return _frame(fitted, about, ends, labels, unit, ci_prob)


# ------------------------------------------------------------------------------------------------------ what is asked


def _with_rows(model: BaseEstimator) -> FittedBEMKL:
    """Return the description of a model that compares rows with each other."""
    fitted = fitted_bemkl(model, of_outcome=False)
    if fitted.estimator.kernel_bank_ is None:
        raise ValueError(
            "`model` was fitted to precomputed kernels, which do not show how similar two new rows are to each "
            "other. Fit it to a KernelBank."
        )
    return fitted


def _unit(fitted: FittedBEMKL, scale: str | None, by: str | None) -> tuple[str, bool]:
    """Return the unit of a contrast, and whether it is a ratio."""
    if scale is not None:
        check_choice("scale", scale, ("difference", "ratio"))
    outcome, likelihood = fitted.outcome, getattr(fitted.estimator, "likelihood_", None)
    inner = getattr(likelihood, "likelihood", likelihood)
    logs = {
        "labels": "odds" if isinstance(likelihood, Logit) else "",
        "counts": "odds" if isinstance(inner, BetaBinomial) else "rate",
        "times": "hazard" if isinstance(likelihood, PiecewiseHazard) else "time",
    }.get(outcome, "")
    if scale == "difference" or (scale is None and outcome not in ("counts", "times")):
        plain = "units of the target" if outcome == "numbers" else "standard deviations of a probit"
        return f"difference in {f'log {logs}' if logs else plain}", False
    classes = outcome == "labels" and (
        not fitted.is_marginal or (fitted.output_names is not None and fitted.output_kind == "class")
    )
    if logs and not classes:
        return f"{logs} ratio", True
    if outcome == "labels" and not classes and by is None:
        return PROBIT, True
    why = {
        "numbers": "numbers have no ratio",
        "grades": "grades have neither units nor odds of their own",
    }.get(outcome, 'under a probit they have no parts. Use likelihood="logit", or leave `by` out')
    if classes:
        why = (
            "odds need a GPMKLClassifier of two classes or of labels. Fit one to each class against the rest"
        )
    raise ValueError(f'`scale` must be "difference" for this model; got "ratio": {why}.')


def _validated(fitted: FittedBEMKL, name: str, rows: Any) -> Any:
    """Return rows as the estimator sees them, or raise with the name of the argument."""
    try:
        found = fitted.estimator._validate_rows(fitted.transform(rows))
    except (TypeError, ValueError) as error:
        raise type(error)(f"`{name}` must hold rows that `model` can predict. {error}") from error
    return found


def _quantile_rows(
    fitted: FittedBEMKL, X: Samples, q: np.ndarray, views: Sequence[str] | str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of medians, and rows in which the features of some views are at other quantiles."""
    bank, given = fitted.estimator.kernel_bank_, fitted.transform(X)
    known = [view.name for view in bank.views_]
    wanted = known if views is None else [views] if isinstance(views, str) else list(views)
    if not wanted or not set(wanted) <= set(known):
        raise ValueError(f"`views` must be among {', '.join(map(repr, known[:8]))}; got {shown(views)}.")
    chosen = [view for view in bank.views_ if view.name in wanted]
    categories = []
    if hasattr(given, "dtypes"):
        frame, types = pd.DataFrame(given), pd.api.types
        categories = [types.is_bool_dtype(own) or not types.is_numeric_dtype(own) for own in frame.dtypes]
        for view in chosen:
            for j in view.columns[view.columns < frame.shape[1]]:
                if not types.is_numeric_dtype(frame.dtypes.iloc[j]):
                    raise ValueError(
                        f"`X` must have numbers for quantiles; column {frame.columns[j]!r} of the view "
                        f"{view.name!r} holds categories. Name the other views in `views`, and compare categories "
                        "with `contrast`."
                    )
    rows = _validated(fitted, "X", X)
    rows = rows.values.toarray() if is_sparse(rows) else rows
    for view in chosen:
        absent = np.isnan(rows[:, view.columns])
        if absent.all():
            raise ValueError(
                f"`X` must have samples with the view {view.name!r}; all of them lack it. Leave it out of `views`."
            )
    of_views = np.unique(np.concatenate([view.columns for view in bank.views_]))
    typical = np.full(rows.shape[1], np.nan)
    moved = np.tile(typical, (len(q), 1))
    for j, column in enumerate(rows.T):
        if not np.isnan(column).all():
            # of gates and groups a value that is there
            method: Any = "linear" if j in of_views else "nearest"
            typical[j] = np.nanquantile(column, 0.5, method=method)
            if j < len(categories) and categories[j]:
                values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
                typical[j] = values[np.argmax(counts)]
    moved[:] = typical
    columns = np.unique(np.concatenate([view.columns for view in chosen]))
    *moved[:, columns], typical[columns] = np.nanquantile(rows[:, columns], np.append(q, 0.5), axis=0)
    return typical, moved


# --------------------------------------------------------------------------------------------------------- mixtures


def _pairs_at_once(fitted: FittedBEMKL) -> int:
    n_kernels = len(fitted.kernel_names)
    return max(1, min(BLOCK_ENTRIES // (2 * n_kernels * fitted.n_basis), 256))


def _unique(blocks: list[Any]) -> tuple[Any, np.ndarray]:
    """Return the different rows of some blocks, and where each row is among them."""
    dense = [own.values.toarray() if is_sparse(own) else own for own in blocks]
    whole = np.ascontiguousarray(np.concatenate(dense)) + 0.0
    whole[np.isnan(whole)] = np.nan
    keys = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    rows = whole[first]
    if is_sparse(blocks[0]):
        from scipy.sparse import csr_array

        return type(blocks[0])(csr_array(rows)), place
    return rows, place


def _mixture(
    fitted: FittedBEMKL, X: Any, weights: np.ndarray, named: PartNames, rng: np.random.Generator
) -> Mixture:
    """Return sums of scores of rows, or of their parts.

    Parameters
    ----------
    fitted : FittedBEMKL
    X : ndarray of shape (n_rows, n_features)
        Validated.
    weights : ndarray of shape (n_curves, n, n_rows)
        Of rows in sums, which add up to zero.
    named : PartNames
        The parts, or `SCORE`, their sum.
    rng : numpy.random.Generator
    """
    of_model = _of_process if fitted.is_marginal else _of_bemkl
    found, kept = of_model(fitted, X, weights, named, rng), _kept(fitted, named)
    of_cov = kept if found.cov.shape[2] > 1 else [0]
    return found._replace(mean=found.mean[:, :, kept], cov=found.cov[:, :, of_cov])


def _of_process(
    fitted: FittedBEMKL, X: Any, weights: np.ndarray, named: PartNames, rng: np.random.Generator
) -> Mixture:
    estimator, draws = fitted.estimator, fitted.states[0]
    covariance, blocks = estimator._covariance_and_rows(X)
    of_blocks, between = list(blocks), _between(estimator, X)
    design_rows = None if fitted.design is None else fitted.design.rows(X)
    location, units = _units(estimator, X)
    if estimator._OUTCOME != "numbers":
        units = np.repeat(estimator._score_units()[:, None], len(X), axis=1)
    points, probability = draws.of_predictions
    n_outputs, (n_curves, n, _) = draws.parameters.shape[1], weights.shape
    columns = [] if covariance.effects is None else covariance.effects.columns
    shape, of_sum = (len(points), n_outputs, len(named.kinds), n_curves, n), named.kinds == [SCORE]
    mean, cov = np.zeros(shape), np.zeros((*shape, n))  # of an offset these are zero
    scaled = np.broadcast_to(weights, (n_outputs, *weights.shape)) * units[:, None, None]
    with blas_threads_for(covariance.stack.n_train):
        for i, at in enumerate(points):
            parts = _parts(fitted, covariance, draws, at, of_blocks, between, named.groups, X, design_rows)
            if of_sum:
                crosses, priors = map(np.array, zip(*parts, strict=True))
                parts = iter([(crosses.sum(axis=0), priors.sum(axis=0))])
            posteriors = next(draws.factorized(covariance, points[i : i + 1]))
            for p, (cross, prior) in enumerate(parts):
                for k, posterior in enumerate(posteriors):
                    own = scaled[k] @ cross
                    mean[i, k, p] = own @ posterior.dual
                    told = posterior.within(own.reshape(n_curves * n, -1).T)
                    told = np.moveaxis(told.reshape(len(told), n_curves, n), 0, 2)
                    cov[i, k, p] = scaled[k] @ prior @ scaled[k].mT - told @ told.mT
        if not estimator._learns:  # means are those of all points
            exact = [
                _process_means(estimator, own, rows, named.groups, columns) for own, _, rows in of_blocks
            ]
            of_parts = np.concatenate(exact, axis=-1)
            of_parts = of_parts.sum(axis=1, keepdims=True) if of_sum else of_parts
            found = mean[:, :, : of_parts.shape[1]]
            found += np.einsum("kcnr,kpr->kpcn", scaled, of_parts) - np.tensordot(probability, found, 1)
    offsets = np.broadcast_to(estimator._offsets(X), units.shape)
    # zero but between tasks
    constant = np.einsum("cnr,kr->kcn", weights, np.broadcast_to(location, (n_outputs, len(X))))
    by_offset = np.einsum("kcnr,kr->kcn", scaled, np.broadcast_to(offsets, (n_outputs, len(X))))
    if of_sum:
        mean += (constant + by_offset)[:, None]
    else:
        mean[:, :, named.kinds.index("intercept")] += constant
        if "offset" in named.kinds:
            mean[:, :, named.kinds.index("offset")] += by_offset
    return Mixture(probability, mean, cov)


def _parts(
    fitted: FittedBEMKL,
    covariance: Any,
    draws: HyperDraws,
    at: int,
    blocks: list[Any],
    between: Any,
    groups: np.ndarray,
    X: Any,
    design_rows: Any,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield covariances of parts with the training scores, and among rows."""
    own, weights = draws.kernel_weights[at], draws.weights[at]
    tasks, effects = covariance.tasks, covariance.effects
    for group in groups:
        cross = np.concatenate([covariance.cross(rows, own * group, weights) for rows, *_ in blocks])
        prior = covariance.cross(between, own * group, weights)
        if tasks is not None:
            cross = cross * tasks.cross(design_rows.task, draws.task_values[at])
            prior = prior * tasks.covariance(draws.task_values[at])[design_rows.task][:, design_rows.task]
        yield cross, prior
    variance = covariance.intercept_std**2
    yield np.full((len(X), covariance.stack.n_train), variance), np.full((len(X), len(X)), variance)
    if effects is None:
        return
    design, stds = fitted.design, draws.group_std[at]
    assert design is not None
    terms = [(None, c) for c in range(effects.n_covariates)] + list(design.terms)
    of_terms = [effects.covariate_std] * effects.n_covariates + list(stds)
    for (group, c), (cross, _), std in zip(terms, effects.each(design_rows, stds), of_terms, strict=True):
        factor = np.ones(len(X)) if c is None else design_rows.basis[:, c]
        same: Any = 1.0
        if group is not None:  # levels that no training sample is of are levels, too
            levels = X[:, design.group_columns[group]]
            same = levels[:, None] == levels
        yield cross, std**2 * np.outer(factor, factor) * same


def _between(estimator: Any, X: Any) -> Any:
    """Return covariances of functions of unit weight among rows, as a stack."""
    bank, centers = estimator.kernel_bank_, estimator.kernel_centers_
    kernels = kernels_between(bank, X)
    if centers is None:
        if not estimator._learns:
            return DenseStack(kernels)
        to_train = estimator._with_learned(DenseStack(bank.evaluate(X)), X)
        learned = [one._replace(train=one.rows) for one in to_train.learned]
        return LearnedStack(DenseStack(kernels), learned, to_train.own, to_train)
    completed = estimator._completed_training()
    raw, diagonal = bank.rows_and_diagonal(X)
    rows = estimator._stack_of(raw)
    around = rows.apply(centers.share[..., None]) - 0.5 * centers.grand_mean[:, None]
    centered = centers.rows(rows)
    images = completed.images(centered, centers.diagonal(rows, diagonal))
    present = np.ones(diagonal.shape, dtype=bool) if rows.present is None else np.asarray(rows.present)
    found = np.nan_to_num(kernels) - around[:, :, None] - around[:, None]
    found[centers.spread == 0.0] = 0.0
    for m, (v, train) in enumerate(zip(completed.views, completed.stack.each(), strict=True)):
        there, gone = np.flatnonzero(present[m]), np.flatnonzero(~present[m])
        beta, rest = images.weights[v][gone], np.sqrt(np.maximum(images.rest[v, gone], 0.0))
        found[m][np.ix_(gone, there)] = beta @ centered.kernels[m][there].T
        found[m][np.ix_(there, gone)] = found[m][np.ix_(gone, there)].T
        found[m][np.ix_(gone, gone)] = beta @ train @ beta.T + centers.spread[m] * np.outer(rest, rest)
    return DenseStack(found)


def _of_bemkl(
    fitted: FittedBEMKL, X: Any, weights: np.ndarray, named: PartNames, rng: np.random.Generator
) -> Mixture:
    """Return draws of the means of intermediate outputs as a mixture of points."""
    estimator = fitted.estimator
    stack = estimator._stack_of(estimator.kernel_bank_.evaluate(X))
    if stack.present is not None and not np.all(stack.present):
        raise ValueError(
            f"`A` and `B` must have all views with a {type(estimator).__name__}, which has no joint draws for rows "
            "that lack views. Fit an estimator of bayesmkl.gp."
        )
    outputs = [fitted.units(k)[1] for k in range(len(fitted.output_names or [""]))]
    means, drawn = [], []
    for posterior, own in zip(fitted.states, [each.flat() for each in fitted.draws(None, rng)], strict=True):
        means.append(mean_new_parts(stack, posterior)[:, :-1])
        for one in own.outputs():
            kernels = np.moveaxis(np.asarray(stack.apply(one.dual.T)), -1, 0)
            drawn.append(one.kernel_weights[..., None] * kernels)
    units = np.array(outputs)[:, None, None]
    mean, every = units * np.concatenate(means), units * np.stack(drawn, axis=1)
    groups = named.groups.astype(float)
    mean, every = (np.einsum("cnr,gm,...mr->...gcn", weights, groups, own) for own in (mean, every))
    every = every + (mean - every.mean(axis=0))
    if named.kinds != [SCORE]:  # the intercept comes last
        every = np.concatenate([every, np.zeros_like(every[:, :, :1])], axis=2)
    probability = np.full(len(every), 1.0 / len(every))
    return Mixture(probability, every, np.zeros((len(every), *[1] * 5)))


# ------------------------------------------------------------------------------------------------------- what is told


def _ends(found: Mixture, ci_prob: float) -> np.ndarray:
    """Return means and ends of intervals, (3, n_outputs, n_parts, n_curves[, n])."""
    tail = 0.5 * (1.0 - ci_prob)
    return np.stack([found.total_mean, found.quantile(tail), found.quantile(1.0 - tail)])


def _odds_ratios(found: Mixture, ci_prob: float, rng: np.random.Generator) -> np.ndarray:
    """Return the same of log odds under a probit, from draws of differences and of the first score."""
    tail = 0.5 * (1.0 - ci_prob)
    difference, first = np.moveaxis(found.draw(N_DRAWS, rng), -1, 0)
    odds = [log_ndtr(score) - log_ndtr(-score) for score in (first, first - difference)]
    drawn = odds[0] - odds[1]
    return np.stack([drawn.mean(axis=0), *np.quantile(drawn, [tail, 1.0 - tail], axis=0)])


def _bands(found: Mixture, ci_prob: float, rng: np.random.Generator) -> np.ndarray:
    """Return bands that hold all rows of a curve with some probability, (2, n_outputs, n_parts, n_curves, n)."""
    drawn, mean = found.draw(N_DRAWS, rng), found.total_mean
    square = found.std**2 + (found.mean - mean) ** 2
    std = np.sqrt(np.tensordot(found.probability, square, 1))
    certain = std <= ROUNDING * std.max(axis=-1, keepdims=True)  # nothing but rounding error is there
    reach = np.abs(drawn - mean) / np.where(certain, np.inf, std)
    critical = np.quantile(reach.max(axis=-1), ci_prob, axis=0)[..., None]
    return np.stack([mean - critical * std, mean + critical * std])


def _labels(rows: Any, n: int) -> list[Any]:
    index = getattr(rows, "index", None)
    return list(index) if isinstance(index, pd.Index) and len(index) == n else list(range(n))


def _kept(fitted: FittedBEMKL, named: PartNames) -> list[int]:
    """Return positions of parts; the intercept, which is the same in all rows, is one between tasks alone."""
    return [p for p, kind in enumerate(named.kinds) if fitted.has_tasks or kind != "intercept"]


def _frame(
    fitted: FittedBEMKL,
    about: list[dict[str, Any]],
    values: np.ndarray,
    names: Sequence[str],
    unit: str,
    ci_prob: float,
) -> pd.DataFrame:
    table = pd.DataFrame(about)
    for name, own in zip(names, values, strict=True):
        table[name] = own.ravel()
    table["interval_by"] = interval_by(fitted)
    table.attrs.update(unit="odds ratio" if unit == PROBIT else unit, ci_prob=ci_prob)
    return table
