"""Slopes of the score along the features of views, as a table."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from bayesmkl._utils.threads import blas_threads_for
from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import check_choice, check_probability, generator_of
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.reading import mean_duals
from bayesmkl.gp.parts import KernelSlopes, draw_slopes
from bayesmkl.gp.unknown_points import CompletedKernels
from bayesmkl.kernels.presence import present_views
from bayesmkl.kernels.views import column_names
from bayesmkl.posterior.fitted import FittedBEMKL, evenly, fitted_bemkl, public
from bayesmkl.posterior.tables import table_of_draws

QUICK_DRAWS = 200  # of a table in passing
MOST_ENTRIES = 3e7  # slopes of pairs of samples, of every kernel by every feature: a few seconds


@public
def feature_table(
    model: BaseEstimator,
    X: Samples | None = None,
    ci_prob: float = 0.94,
    *,
    per: str = "std",
    random_state: int | np.random.Generator | None = None,
) -> pd.DataFrame:
    r"""Say along which features of its views the score rises or falls: average slopes with intervals.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier, BEMKLRegressor or estimator of `bayesmkl.gp`, any inference, fitted to a KernelBank
        of Gaussian, linear and polynomial kernels; or a Pipeline or search that ends in one.
    X : samples, default=None
        Over which slopes are averaged, as `predict` of the model takes them. None: the training samples, each as
        often as its `sample_weight` says.
    %(ci_prob)s
    per : {"std", "unit"}, default="std"
        Slopes are for one standard deviation of the feature over these samples, or for one unit of it as the model
        sees it, after the steps of a Pipeline.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    pandas.DataFrame
        One row per view and feature of it, those of the largest ``size`` first; of several outputs in turn; with the
        columns

        * ``class``, ``label`` or ``output``: only where there are several;
        * ``view``, ``feature``: names;
        * ``size``: root mean square over the samples of the posterior mean slope, for one standard deviation of the
          feature; also of features along which the score rises here and falls there. An estimate, without interval;
        * ``mean``, ``std``, ``lower``, ``upper``: of the slope averaged over the samples; of a linear kernel it is
          the weight of the feature;
        * ``prob_positive``: posterior probability that this average is positive;
        * ``mean_mcse``, ``lower_mcse``, ``upper_mcse``: Monte Carlo standard errors, as in :func:`kernel_table`;
        * ``interval_by``: the inference that made the intervals.

        Slopes are of the score, in the units of :func:`effect_table`.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model was fitted to precomputed kernels, to kernels that have no slopes, or with tasks, or is one of
        BEMKL with missing views; if `X` is nothing that the model predicts or has no sample with some view, or
        `ci_prob` or `per` is out of range.

    See Also
    --------
    plot_features : The table as a plot.
    contributions : What views add for every sample.
    relevance : Which views predictions need.

    Notes
    -----
    A slope is that of the part of the view, all other features and views held where they are: where features are
    correlated, so are their slopes, and one of them can stand for another. A kernel on many features expects the same
    of each; which of them matter it learns from the slopes alone. Averages are linear in functions, and exact given
    hyperparameters; nothing is refitted. Where samples lack views, slopes are averaged over those that have the view.
    Of a kernel with a :class:`~bayesmkl.kernels.Gate` slopes are those by the features of its view at the gate
    columns of each sample, which have no slopes themselves; a gate column that its view has, too, is refused. Time
    grows with the square of the number of samples, and in proportion to the number of features.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams (2006), Gaussian processes for machine learning, §9.4.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import feature_table
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> bank = KernelBank(["rbf"], views={"genes": [0, 1], "noise": 2})
    >>> model = GPMKLRegressor(bank).fit(X, 2 * X[:, 0] + np.sin(3 * X[:, 1]))
    >>> table = feature_table(model, random_state=0)
    >>> table["feature"].tolist()
    ['x0', 'x1', 'x2']
    >>> bool(table["lower"][0] > 1), table["prob_positive"][0]
    (True, np.float64(1.0))
    """
    ci_prob, rng = check_probability("ci_prob", ci_prob), generator_of("random_state", random_state)
    check_choice("per", per, ("std", "unit"))
    return _table_of(fitted_bemkl(model, of_outcome=False), X, ci_prob, per, rng, None)


def _table_of(
    fitted: FittedBEMKL,
    X: Samples | None,
    ci_prob: float,
    per: str,
    rng: np.random.Generator,
    n_draws: int | None,
) -> pd.DataFrame:
    """Return the table, of additive Gaussian processes from `n_draws` of their draws; None: from all."""
    estimator, bank = fitted.estimator, _bank_of(fitted)
    rows, parts = _rows(fitted, X)
    present = present_views(rows, bank.views_)
    for view, own in zip(bank.views_, present, strict=True):
        if not own.any():
            raise ValueError(
                f"`X` must have samples with the view {view.name!r}; got {len(rows)} without it. Leave `X` out for "
                "the training samples."
            )
    # values of the features of a view, and the parts of these rows in averages over those that have it
    there = [
        (rows[own][:, view.columns], parts[own] / parts[own].sum())
        for view, own in zip(bank.views_, present, strict=True)
    ]
    lacks_views = getattr(estimator, "kernel_centers_", None) is not None
    completed = estimator._completed_training() if lacks_views else None
    if fitted.is_marginal:
        duals = estimator.dual_coef_ if estimator.dual_coef_.ndim == 3 else estimator.dual_coef_[None]
        views = _of_views(fitted, completed, rows, [q for _, q in there], duals)
        drawn = fitted.states[0]._replace(
            point=fitted.states[0].point[evenly(fitted.states[0].n_draws, n_draws)]
        )
        with blas_threads_for(fitted.n_samples):
            training = estimator._stored_training() if completed is None else completed.training
            averages = [view.averages for view in views]
            values = draw_slopes(estimator._covariance(training), drawn, averages, rng)
        units = estimator._score_units()
    else:
        draws = [own.flat() for own in fitted.draws(None, rng)]
        duals = np.concatenate([mean_duals(own) for own in draws])
        views = _of_views(fitted, completed, rows, [q for _, q in there], duals)
        values = _drawn_of_bemkl(draws, views)
        units = np.array([fitted.units(k)[1] for k in range(values.shape[1])])
    stds = np.concatenate([np.sqrt(q @ (own - q @ own) ** 2) for own, q in there])
    sizes = np.concatenate([view.size for view in views], axis=1) * stds * units[:, None]
    values = values * units[:, None] * (stds if per == "std" else 1.0)
    names = column_names(bank.n_features_in_, bank.column_labels_)
    features = [(view.name, names[j]) for view in bank.views_ for j in view.columns]
    about = [
        {**fitted.about_output(k), "view": view, "feature": feature, "size": float(size)}
        for k, own in enumerate(sizes)
        for (view, feature), size in zip(features, own, strict=True)
    ]
    order = np.concatenate([k * len(stds) + np.argsort(-own, kind="stable") for k, own in enumerate(sizes)])
    in_order = values.reshape(len(values), -1)[:, order]
    signed = np.ones(len(order), dtype=bool)
    table = table_of_draws(fitted, [about[i] for i in order], in_order, ci_prob, signed)
    table.attrs.update(per=per, ci_prob=ci_prob)
    return table


def quick_feature_table(
    model: BaseEstimator, ci_prob: float, rng: np.random.Generator
) -> pd.DataFrame | None:
    """Return the table over training samples from few draws; None where there are no slopes, or they take long."""
    try:
        fitted = fitted_bemkl(model, of_outcome=False)
        bank = _bank_of(fitted)
        rows, _ = _rows(fitted, None)
        n_slopes = sum(len(view.columns) for view, _ in bank.slopes(rows[:1]))
    except (TypeError, ValueError):  # which say why there are none
        return None
    if n_slopes * float(len(rows)) ** 2 > MOST_ENTRIES:
        return None
    return _table_of(fitted, None, ci_prob, "std", rng, QUICK_DRAWS)


def _bank_of(fitted: FittedBEMKL) -> Any:
    """Return the bank of a model whose score has slopes."""
    estimator = fitted.estimator
    bank = estimator.kernel_bank_
    if bank is None:
        raise ValueError(
            "`model` was fitted to precomputed kernels, which know no features. Fit it to a KernelBank."
        )
    if fitted.design is not None and fitted.design.has_tasks:
        raise ValueError("`model` must have no tasks. Fit one model for each task.")
    if estimator.present_ is not None and not fitted.is_marginal:
        raise ValueError(
            f"`model` must have no missing views; got {type(estimator).__name__}. Fit it to samples that have all "
            "views, or an estimator of bayesmkl.gp to all of them."
        )
    return bank


def _rows(fitted: FittedBEMKL, X: Samples | None) -> tuple[np.ndarray, np.ndarray]:
    """Return validated samples and the part of each in averages, (n_rows,)."""
    estimator = fitted.estimator
    if X is not None:
        rows = estimator._validate_rows(fitted.transform(X))
        return rows, np.full(len(rows), 1.0 / len(rows))
    rows, counts = estimator.kernel_bank_.X_train_, getattr(estimator, "sample_weight_", None)
    if len(rows) != fitted.n_samples:
        raise ValueError(
            "`X` must be given: the model was fitted in blocks and does not keep its training samples."
        )
    return rows, np.full(len(rows), 1.0 / len(rows)) if counts is None else counts / counts.sum()


class _View(NamedTuple):
    """Average slopes of the kernels of a view, and the root mean squares of its mean slopes.

    These are for one unit of each feature, (n_outputs, n_features).
    """

    averages: list[KernelSlopes]
    size: np.ndarray


def _of_views(
    fitted: FittedBEMKL,
    completed: CompletedKernels | None,
    rows: np.ndarray,
    parts: list[np.ndarray],
    duals: np.ndarray,
) -> list[_View]:
    """Return the slopes of all views.

    `completed` are the training kernels where samples may lack views, `parts` those of rows that have each view,
    `duals` mean weights, (n_outputs, n_kernels, n_basis).
    """
    found: list[_View] = []
    estimator = fitted.estimator
    by_view = groupby(enumerate(estimator.kernel_bank_.slopes(rows)), key=lambda pair: pair[1][0].name)
    for (_, of_view), q in zip(by_view, parts, strict=True):
        averages: list[KernelSlopes] = []
        slopes: Any = 0.0
        for m, (_, own) in of_view:  # one kernel at a time: each has several matrices of rows
            cross, dual = own.over_rows(q).T, duals[:, m]
            if completed is not None:
                centers = estimator.kernel_centers_
                cross, dual = completed.slopes(m, centers, cross), completed.duals(m, centers, dual)
            if fitted.is_marginal and estimator.pseudo_samples_ is not None:
                cross = estimator.pseudo_samples_.from_landmarks(m, cross)
            averages.append(KernelSlopes(cross, own.variance(q)))
            slopes = slopes + np.stack([own.over_train(one) for one in dual])
        found.append(_View(averages, np.sqrt(np.einsum("r,krj->kj", q, slopes**2))))
    return found


def _drawn_of_bemkl(draws: list[PosteriorDraws], views: list[_View]) -> np.ndarray:
    """Return the same of BEMKL: of the mean of its intermediate outputs, without their noise."""
    found = []
    for own in (output for each in draws for output in each.outputs()):
        weights = iter(own.kernel_weights.T[..., None])
        slopes = [
            sum(next(weights) * (own.dual @ kernel.cross.T) for kernel in view.averages) for view in views
        ]
        found.append(np.concatenate(slopes, axis=1))
    return np.stack(found, axis=1)
