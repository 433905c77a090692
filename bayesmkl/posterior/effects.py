"""Effects of covariates and groups beside the kernels, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_flag, check_probability
from bayesmkl.gp.design import FittedDesign
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.shared_docs import MODEL
from bayesmkl.posterior.summary import table_of_draws

Row = tuple[dict[str, Any], np.ndarray]  # the first columns, and draws


@fill_docs(MODEL)
@own_settings
def effect_table(model: BaseEstimator, ci_prob: float = 0.94, *, levels: bool = False) -> pd.DataFrame:
    r"""List what covariates and groups add to the score of an additive Gaussian process, beside its kernels.

    Parameters
    ----------
    model : estimator
        A fitted estimator of `bayesmkl.gp` whose `design` has covariates or groups, or a Pipeline or search
        that ends in one.
    %(ci_prob)s
    levels : bool, default=False
        List every level of the groups, such as every site, instead of covariates and standard deviations.

    Returns
    -------
    pandas.DataFrame
        One row per covariate and per standard deviation of a group; of several outputs one per covariate and output;
        in the order of `design`, with the columns

        * ``class``, ``label`` or ``output``: only where there are several, and not of standard deviations;
        * ``effect``: name of a covariate, of a group, or "covariate | group" of random slopes;
        * ``kind``: "covariate", the effect of one more unit of it; "group", the standard deviation of the effects of
          its levels; "slope", that of the differences between levels in the effect of one more unit;
        * ``mean``, ``std``, ``lower``, ``upper``: posterior mean, standard deviation, ends of the equal-tailed
          interval;
        * ``prob_positive``: posterior probability that the effect is positive; NaN of standard deviations;
        * ``mean_mcse``, ``lower_mcse``, ``upper_mcse``: Monte Carlo standard errors, as in :func:`kernel_table`;
        * ``interval_by``: the inference that made the intervals.

        With `levels` there is one row per level (and output), with ``level`` and ``n_samples``, its number of
        training samples; effects are differences from the mean level.

        Effects are in units of the score: of the target in regression, or with tasks of its standard deviation within
        them; of log rates of counts, of the log odds of successes, of log times under accelerated failure times and
        log hazards under piecewise constant ones; of labels and grades in standard deviations of a probit.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model has neither covariates nor groups, or no groups with `levels`; if `ci_prob` is not strictly
        between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.gp import Design
    >>> from bayesmkl.posterior import effect_table
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(50, 80, 60)])
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 2] + 0.1 * rng.normal(size=60)
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views="each"), design=Design(covariate_columns=2)).fit(X, y)
    >>> effect_table(model)[["effect", "kind", "mean"]].round(1).to_numpy().tolist()
    [['x2', 'covariate', 0.1]]
    """
    ci_prob = check_probability("ci_prob", ci_prob)
    fitted = fitted_bemkl(model)
    if not fitted.is_marginal:
        raise TypeError(
            f"`model` must be an estimator of bayesmkl.gp; got {type(fitted.estimator).__name__}, which has no "
            "`design`."
        )
    design: FittedDesign | None = fitted.estimator.design_
    if design is None or not (design.groups if check_flag("levels", levels) else design.has_effects):
        raise ValueError(
            f"`model` must have {'groups' if levels else 'covariates or groups'} in its `design`; got "
            f"{fitted.estimator.design!r}. Name columns of `X` in a Design(covariate_columns=..., group_columns=...)."
        )
    rows = (_rows_of_levels if levels else _rows)(fitted, design)
    about, values = [row for row, _ in rows], np.column_stack([values for _, values in rows])
    signed = None if levels else np.array([row["kind"] == "covariate" for row in about])
    return table_of_draws(fitted, about, values, ci_prob, signed)


def _coefficients(fitted: FittedBEMKL, design: FittedDesign) -> np.ndarray:
    """Return draws of the coefficients in the units of the user, (n_draws, n_outputs, n_effects).

    Those of covariates and slopes are per unit of the covariate.
    """
    draws: HyperDraws = fitted.states[0]
    return draws.effects * fitted.estimator._score_units()[:, None] / design.units


def _rows(fitted: FittedBEMKL, design: FittedDesign) -> list[Row]:
    """Return covariates, and the standard deviations of groups and slopes."""
    own, draws, units = _coefficients(fitted, design), fitted.states[0], fitted.estimator._score_units()
    rows: list[Row] = [
        ({**fitted.about_output(k), "effect": name, "kind": "covariate"}, own[:, k, j])
        for j, name in enumerate(design.covariates)
        for k in range(own.shape[1])
    ]
    in_units = len(units) > 1 and not np.allclose(units, units[0])  # then a term has a row for every output
    for t, (name, (_, c)) in enumerate(zip(design.term_names, design.terms, strict=True)):
        about = {"effect": name, "kind": "group" if c is None else "slope"}
        values = draws.group_std[draws.point, t] / (1.0 if c is None else design.scale[c])
        for k in range(len(units) if in_units else 1):
            rows.append(({**(fitted.about_output(k) if in_units else {}), **about}, values * units[k]))
    return rows


def _rows_of_levels(fitted: FittedBEMKL, design: FittedDesign) -> list[Row]:
    """Return the levels of every term, around their mean."""
    own, X = _coefficients(fitted, design), fitted.estimator.kernel_bank_.X_train_
    rows: list[Row] = []
    first = len(design.covariates)
    for name, (g, c) in zip(design.term_names, design.terms, strict=True):
        last = first + len(design.levels[g])
        around = own[..., first:last] - own[..., first:last].mean(axis=-1, keepdims=True)
        counts = (X[:, design.group_columns[g]][:, None] == design.levels[g]).sum(axis=0)
        about = {"effect": name, "kind": "group" if c is None else "slope"}
        for k in range(own.shape[1]):
            for level, (label, count) in enumerate(zip(design.labels[g], counts, strict=True)):
                row = {**fitted.about_output(k), **about, "level": label, "n_samples": int(count)}
                rows.append((row, around[:, k, level]))
        first = last
    return rows
