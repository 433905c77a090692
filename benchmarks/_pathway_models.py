"""Models of `pathways.py`: what each says of the gene sets of a sample.

The peers are group lassos, solved by celer. scMKL is under the GPL-3; its recipe, as of version 0.3, is written anew:
for each set max(100, sqrt(N) log log N) random frequencies of a Gaussian kernel whose width is twice the mean
distance, their cosines and sines, and a group lasso, of the labels -1 and 1 if there are two classes. Of our protocol
and not of theirs are targets that are numbers, five folds in place of four, and 30 penalties in place of ten.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _posteriors import quietly
from scipy.spatial.distance import pdist
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, posterior
from bayesmkl.kernels import Linear

NOMINAL = 0.1  # rate of false discoveries that is asked for
OURS, GROUP_LASSO, SCMKL = "GPMKL, spike and slab", "group lasso", "scMKL's recipe"
MODELS = [OURS, GROUP_LASSO, SCMKL]
N_FOLDS, N_PENALTIES, SMALLEST = 5, 30, 0.1  # of a path; its end is a part of the penalty at which it begins
MANY_FREQUENCIES = 100


class Answer(NamedTuple):
    """Sets that are in a list, by the name of the rule that makes it, and scores by which sets can be ranked."""

    lists: dict[str, np.ndarray]  # (n_sets,) of bool
    scores: dict[str, np.ndarray]  # (n_sets,), 0 of sets that are in no list however long
    facts: dict[str, Any]


class Path(NamedTuple):
    """Solutions of a group lasso for falling penalties."""

    penalties: np.ndarray
    coef: np.ndarray  # (n_features, n_penalties), of centered features
    center: np.ndarray
    intercept: float


def available() -> list[str]:
    """List the models that can run here: celer may not be installed."""
    return MODELS if importlib.util.find_spec("celer") else [OURS]


def answer(model: str, sample: Bunch, seed: int) -> Answer:
    """Fit a model to all samples, with genes in units of their standard deviations."""
    X, sets = StandardScaler().fit_transform(sample.data), list(sample.views.values())
    is_regression = "target_names" not in sample
    times = time.perf_counter(), time.process_time()
    if model == OURS:
        found = inclusion(X, sample.target, sample.views, is_regression, seed)
    else:
        y = StandardScaler().fit_transform(sample.target[:, None].astype(float)).ravel()
        rng = np.random.default_rng(seed)
        if model == GROUP_LASSO:
            parts = [X[:, members] for members in sets]
        else:
            parts = [random_features(X[:, members], rng) for members in sets]
        by_rank = model == SCMKL and not is_regression  # scMKL's is the area under the ROC curve
        found = group_lasso(parts, y, is_regression, rank_loss if by_rank else squared_loss, seed)
    seconds = {"wall": time.perf_counter() - times[0], "seconds": time.process_time() - times[1]}
    return found._replace(facts=found.facts | {name: round(value, 2) for name, value in seconds.items()})


# ------------------------------------------------------------------------------------------------------------- ours


def inclusion(
    X: np.ndarray, y: np.ndarray, views: dict[str, list[int]], is_regression: bool, seed: int
) -> Answer:
    """Return the list whose expected false discovery rate is at most `NOMINAL`, and probabilities of inclusion."""
    estimator = GPMKLRegressor if is_regression else GPMKLClassifier
    with quietly():
        bank, prior = KernelBank(Linear(), views=views), "spike-slab"
        model = estimator(bank, kernel_prior=prior, together=False, random_state=seed)
        table = posterior.inclusion_table(model.fit(X, y), fdr=NOMINAL).set_index("view").loc[list(views)]
    selected = table["selected"].to_numpy(dtype=bool)
    probabilities = table["prob_included"].to_numpy(dtype=float)
    expected = float((1.0 - probabilities[selected]).mean()) if selected.any() else 0.0
    return Answer({"list": selected}, {"probability": probabilities}, {"expected": round(expected, 4)})


# ------------------------------------------------------------------------------------------------------------ peers


def random_features(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return cosines and sines at random frequencies, whose products are near a Gaussian kernel."""
    n_samples = len(X)
    n_frequencies = max(MANY_FREQUENCIES, int(np.sqrt(n_samples) * np.log(np.log(n_samples))))
    frequencies = rng.normal(scale=0.5 / pdist(X).mean(), size=(X.shape[1], n_frequencies))
    angles = X @ frequencies
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(n_frequencies)


def squared_loss(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the mean squared error for each penalty."""
    return ((y[:, None] - predicted) ** 2).mean(axis=0)


def rank_loss(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return one minus the area under the ROC curve for each penalty."""
    return np.array([1.0 - roc_auc_score(y > 0.0, column) for column in predicted.T])


def group_lasso(
    parts: list[np.ndarray],
    y: np.ndarray,
    is_regression: bool,
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    seed: int,
) -> Answer:
    """Select sets by a group lasso, each with features of its own, at penalties that cross-validation chooses.

    The lists are of the smallest mean loss, and of the largest penalty whose loss is within a standard error of it.
    Sets are ranked by the penalty at which they enter the path, and by the standard deviation of what they add to the
    prediction at the smallest loss.
    """
    sizes = np.array([part.shape[1] for part in parts])
    features = np.asfortranarray(np.hstack(parts))
    path = solve(features, y, sizes)
    kind = KFold if is_regression else StratifiedKFold
    folds = kind(N_FOLDS, shuffle=True, random_state=seed).split(features, y > 0.0)
    losses = np.array([held_out(features, y, sizes, path.penalties, loss, *fold) for fold in folds])
    mean, error = losses.mean(axis=0), losses.std(axis=0, ddof=1) / np.sqrt(N_FOLDS)
    best = int(mean.argmin())
    sparse = int(np.flatnonzero(mean <= mean[best] + error[best])[0])
    norms = group_norms(path.coef, sizes)
    blocks = np.split(path.coef[:, best], np.cumsum(sizes)[:-1])
    spreads = np.array([(part @ own).std() for part, own in zip(parts, blocks, strict=True)])
    return Answer(
        {"smallest loss": norms[:, best] > 0.0, "one standard error": norms[:, sparse] > 0.0},
        {"entry": entries(norms, path.penalties), "spread": spreads},
        {"at": best, "at_sparse": sparse},
    )


def solve(
    features: np.ndarray, y: np.ndarray, sizes: np.ndarray, penalties: np.ndarray | None = None
) -> Path:
    r"""Minimize :math:`\|y - X w\|^2 / 2 N + \alpha \sum_g \sqrt{p_g} \|w_g\|` for falling :math:`\alpha`."""
    from celer import celer_path

    center, intercept = features.mean(axis=0), float(y.mean())
    centered, weights = np.asfortranarray(features - center), np.sqrt(sizes)
    if penalties is None:
        correlations = group_norms(centered.T @ (y - intercept)[:, None], sizes)[:, 0]
        first = float((correlations / weights).max()) / len(y)
        penalties = first * np.geomspace(1.0, SMALLEST, N_PENALTIES)
    with quietly():
        _, coef, _ = celer_path(
            centered,
            y - intercept,
            pb="grouplasso",
            groups=sizes.tolist(),
            alphas=penalties,
            weights=weights,
            tol=1e-4,
        )
    return Path(penalties, coef, center, intercept)


def held_out(
    features: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    penalties: np.ndarray,
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    train: np.ndarray,
    test: np.ndarray,
) -> np.ndarray:
    """Return the loss on one fold for each penalty."""
    path = solve(features[train], y[train], sizes, penalties)
    return loss(y[test], (features[test] - path.center) @ path.coef + path.intercept)


def group_norms(coef: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the norm of each group's coefficients, shape (n_groups, n_columns)."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.sqrt(np.add.reduceat(coef**2, starts, axis=0))


def entries(norms: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Return the penalty at which each set enters, 0 if it never does; of two that are equal the larger norm wins."""
    enters = norms > 0.0
    at = enters.argmax(axis=1)
    size = norms[np.arange(len(norms)), at]
    upper = np.concatenate([penalties[:1], penalties])[at]
    between = penalties[at] + (upper - penalties[at]) * size / (1.0 + size)
    return np.where(enters.any(axis=1), between, 0.0)
