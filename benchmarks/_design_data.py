"""Data of `designs.py`: repeated measurements and panels of statsmodels, and what each model makes of them.

dietox: weights of 72 pigs of 24 litters in twelve weeks, by feed and by supplements (Lauridsen et al. 1999). epil:
seizures of 59 patients in four periods under a drug and under placebo (Thall and Vail 1990). grunfeld: investments of
eleven firms in twenty years. All are installed with statsmodels, the first two among its tests.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import nbinom, norm
from sklearn.model_selection import train_test_split

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.gp import Design

SEED = 9000
N_DRAWS = 20  # of the score of a count, for its log score


class Panel(NamedTuple):
    """A set: features by view, covariates, groups, and the target.

    `slope` is a covariate whose effect differs between the first groups. `likelihood` is that of the target.
    """

    frame: pd.DataFrame
    y: np.ndarray
    views: dict[str, list[str]]
    covariates: list[str]
    groups: list[str]
    slope: str | None
    likelihood: str
    n_train: int


class Split(NamedTuple):
    """Rows of the training and of the test part."""

    train: np.ndarray
    test: np.ndarray


class Predicted(NamedTuple):
    """Means of test targets, log densities or probabilities of them, and parts of test targets in 94 % intervals."""

    mean: np.ndarray
    log_scores: np.ndarray
    inside: np.ndarray | None = None


def available() -> bool:
    """Whether statsmodels is installed."""
    return importlib.util.find_spec("statsmodels") is not None


def _folder() -> Path:
    import statsmodels

    return Path(statsmodels.__file__).parent


def dietox() -> Panel:
    """Weights of pigs, in kg, by week, feed and supplements."""
    table = pd.read_csv(_folder() / "regression/tests/results/dietox.csv").dropna(subset=["Weight"])
    frame = pd.DataFrame({
        "week": table["Time"].astype(float),
        "feed": table["Feed"].fillna(0.0),  # in the first week none was weighed yet
        "vitamin_2": (table["Evit"] == 2).astype(float), "vitamin_3": (table["Evit"] == 3).astype(float),
        "copper_2": (table["Cu"] == 2).astype(float), "copper_3": (table["Cu"] == 3).astype(float),
        "pig": table["Pig"], "litter": table["Litter"],
    }).reset_index(drop=True)  # fmt: skip
    covariates = ["week", "vitamin_2", "vitamin_3", "copper_2", "copper_3"]
    views = {"growth": ["week"], "feed": ["feed"]}
    return Panel(
        frame, table["Weight"].to_numpy(), views, covariates, ["pig", "litter"], "week", "gaussian", 300
    )


def epil() -> Panel:
    """Numbers of seizures in two weeks."""
    table = pd.read_csv(_folder() / "genmod/tests/results/epil.csv")
    frame = pd.DataFrame({
        "baseline": np.log(table["base"]), "age": np.log(table["age"]), "period": table["period"].astype(float),
        "drug": (table["trt"] == "progabide").astype(float), "patient": table["subject"],
    })  # fmt: skip
    views = {"history": ["baseline"], "age": ["age"]}
    y = table["y"].to_numpy(dtype=float)
    return Panel(frame, y, views, ["drug", "period", "baseline"], ["patient"], None, "negative-binomial", 118)


def grunfeld() -> Panel:
    """Logarithms of investments, by value and capital of firms, whose sites the firms are."""
    table = pd.read_csv(_folder() / "datasets/grunfeld/grunfeld.csv")
    frame = pd.DataFrame({
        "value": np.log(table["value"]), "capital": np.log(table["capital"]), "year": table["year"].astype(float),
        "firm": table["firm"],
    })  # fmt: skip
    views = {"value": ["value"], "capital": ["capital"], "year": ["year"]}
    y = np.log(table["invest"].to_numpy())
    return Panel(frame, y, views, ["value", "capital"], ["firm"], None, "gaussian", 110)


SETS: dict[str, Callable[[], Panel]] = {"dietox": dietox, "epil": epil, "grunfeld": grunfeld}


def split(panel: Panel, number: int) -> Split:
    """Draw a training part, and at most 300 of the other rows."""
    n_test = min(300, len(panel.y) - panel.n_train)
    parts = train_test_split(
        np.arange(len(panel.y)), train_size=panel.n_train, test_size=n_test, random_state=SEED + number
    )
    return Split(*parts)


# ------------------------------------------------------------------------------------------------------------- models


def _ours(panel: Panel, rows: Split, inference: Any, with_groups: bool) -> Predicted:
    design = Design(
        covariate_columns=panel.covariates,
        group_columns=panel.groups if with_groups else (),
        slope_columns={panel.groups[0]: panel.slope} if panel.slope and with_groups else None,
    )
    frame = panel.frame if with_groups else panel.frame.drop(columns=panel.groups)
    model = GPMKLRegressor(
        KernelBank("auto", views=panel.views), likelihood=panel.likelihood, design=design, inference=inference
    )
    model.fit(frame.iloc[rows.train], panel.y[rows.train])
    y, at = panel.y[rows.test], frame.iloc[rows.test]
    moments = model._moments(at)
    if panel.likelihood == "gaussian":
        mean, std = model.predict(at, return_std=True)
        scale = model.y_scale_
        own = np.sqrt(moments.variance[:, 0] + moments.parameters[:, 0] ** 2)
        heights = norm.logpdf((y - model.y_mean_) / scale, moments.mean[:, 0], own)
        heights += np.log(moments.probability)[:, None] - np.log(scale)
        inside = np.abs(y - mean) < norm.ppf(0.97) * std
        return Predicted(mean, np.logaddexp.reduce(heights, axis=0), inside)
    likelihood, targets = model.likelihood_.likelihood, y
    base = np.log(model.y_mean_)
    heights = [
        likelihood.tilted(targets, one + base, two, own[0]).log_normalizer + np.log(p)
        for one, two, own, p in zip(
            moments.mean[:, 0], moments.variance[:, 0], moments.parameters, moments.probability, strict=True
        )
    ]
    return Predicted(model.predict(at), np.logaddexp.reduce(heights, axis=0))


def blup(
    fixed: tuple[np.ndarray, np.ndarray],
    random: tuple[np.ndarray, np.ndarray],
    components: tuple[np.ndarray, float],
    y: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Predict by generalized least squares and the best linear unbiased predictor, variance components known.

    Parameters
    ----------
    fixed : tuple of arrays of shape (n_train, q) and (n_rows, q)
        Fixed effects.
    random : tuple of arrays of shape (n_train, r) and (n_rows, r)
        Columns of random effects, independent.
    components : tuple of array of shape (r,) and float
        Their variances, and that of the noise.
    y : array of shape (n_train,)

    Returns
    -------
    mean, variance : array of shape (n_rows,)
        Of new targets, that of estimated fixed effects included (Henderson 1975).
    """
    (X, X_new), (Z, Z_new), (variances, noise) = fixed, random, components
    total = (Z * variances) @ Z.T + noise * np.eye(len(y))
    cross = (Z_new * variances) @ Z.T
    weighted = np.linalg.solve(total, np.column_stack([X, y, cross.T]))
    information = X.T @ weighted[:, : X.shape[1]]
    beta = np.linalg.solve(information, X.T @ weighted[:, X.shape[1]])
    gain = weighted[:, X.shape[1] + 1 :]
    mean = X_new @ beta + gain.T @ (y - X @ beta)
    rest = X_new - gain.T @ X
    variance = (Z_new**2) @ variances + noise - np.einsum("ij,ji->i", cross, gain)
    return mean, variance + np.einsum("ij,ji->i", rest, np.linalg.solve(information, rest.T))


def _mixed(panel: Panel, rows: Split, inference: Any) -> Predicted:
    """Linear mixed model of the same covariates and first group, by restricted maximum likelihood."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    train, test = panel.frame.iloc[rows.train], panel.frame.iloc[rows.test]
    names = list(dict.fromkeys([*panel.covariates, *(c for view in panel.views.values() for c in view)]))
    location, scale = train[names].mean(), train[names].std(ddof=0)
    X, X_new = (
        np.column_stack([np.ones(len(part)), (part[names] - location) / scale]) for part in (train, test)
    )
    slopes = [] if panel.slope is None else [1 + names.index(panel.slope)]
    columns = [0, *slopes]
    model = MixedLM(panel.y[rows.train], X, train[panel.groups[0]].to_numpy(), exog_re=X[:, columns])
    free = None
    if slopes:  # independent of the intercepts, as ours
        from statsmodels.regression.mixed_linear_model import MixedLMParams

        free = MixedLMParams.from_components(np.ones(X.shape[1]), np.eye(2))
    found = model.fit(reml=True, free=free)
    levels = np.unique(panel.frame[panel.groups[0]])
    random = tuple(
        np.concatenate(
            [(part[panel.groups[0]].to_numpy()[:, None] == levels) * values[:, [c]] for c in columns], axis=1
        )
        for part, values in ((train, X), (test, X_new))
    )
    variances = np.repeat(np.diag(np.asarray(found.cov_re)), len(levels))
    mean, variance = blup((X, X_new), random, (variances, float(found.scale)), panel.y[rows.train])
    y, std = panel.y[rows.test], np.sqrt(variance)
    return Predicted(mean, norm.logpdf(y, mean, std), np.abs(y - mean) < norm.ppf(0.97) * std)


def _counts(panel: Panel, rows: Split, inference: Any) -> Predicted:
    """Negative binomial regression, without groups."""
    from statsmodels.discrete.discrete_model import NegativeBinomial

    names = list(dict.fromkeys([*panel.covariates, *(c for view in panel.views.values() for c in view)]))
    X = np.column_stack([np.ones(len(panel.frame)), panel.frame[names]])
    found = NegativeBinomial(panel.y[rows.train], X[rows.train]).fit(disp=False, maxiter=500)
    mean, size = found.predict(X[rows.test]), 1.0 / found.params[-1]
    return Predicted(mean, nbinom.logpmf(panel.y[rows.test], size, size / (size + mean)))


MODELS: dict[str, Callable[[Panel, Split, Any], Predicted]] = {
    "GPMKL, groups": lambda panel, rows, inference: _ours(panel, rows, inference, True),
    "GPMKL, no groups": lambda panel, rows, inference: _ours(panel, rows, inference, False),
    "linear mixed model (REML)": _mixed,
    "negative binomial regression": _counts,
}
