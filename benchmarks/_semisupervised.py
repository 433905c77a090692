"""Learners of partly labeled samples, with their parameters chosen by cross-validation on the labeled ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._estimator import split_labels
from bayesmkl.discriminative.global_weights.glks import GLKSOptions, fit_glks, graph_kernel
from bayesmkl.discriminative.graph import knn_laplacian
from bayesmkl.discriminative.primal.lapmkl import Deformed, Graph, LapMKLOptions, deform, fit_lapmkl, share
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["GLKS_NEIGHBORS", "Sample", "gaussians", "learn", "learn_glks", "learn_shared"]

GLKS_NEIGHBORS = range(1, 11)  # one graph each; the papers do not list theirs
OPTIONS = LapMKLOptions(tol=1e-3)


class Sample(NamedTuple):
    """Samples of which some have labels."""

    X: np.ndarray  # (n_samples, n_features)
    y: np.ndarray  # (n_samples,), -1.0 and +1.0
    labeled: np.ndarray  # (n_labeled,) positions
    folds: np.ndarray  # (n_labeled,) which fold of cross-validation holds each out

    def accuracy(self, scores: np.ndarray) -> float:
        """Percent correct among the unlabeled samples."""
        unlabeled = np.setdiff1d(np.arange(len(self.y)), self.labeled)
        return 100.0 * float(np.mean(np.sign(scores[unlabeled]) == self.y[unlabeled]))


def scores_of(stack: DenseStack, result: Any) -> np.ndarray:
    """Scores of the rows of `stack`."""
    alpha = result.signed_dual[0]
    if alpha.ndim == 1:
        return stack.combine(result.kernel_weights) @ alpha + result.intercept[0]
    return result.kernel_weights @ stack.apply(alpha[:, :, None]) + result.intercept[0]


def machine(stack: DenseStack, laplacian: Any, labeled: np.ndarray, gammas: tuple[float, float]) -> Deformed:
    """Deformed kernels, or the kernels themselves where the graph has no price."""
    ambient, ratio = gammas
    if ratio > 0.0:
        return deform(stack, Graph(laplacian, labeled, ambient, ambient * ratio))
    selected = np.eye(stack.n_train)[:, labeled]
    block = np.ascontiguousarray(stack.kernels[:, labeled][:, :, labeled])
    return Deformed(DenseStack(block), np.broadcast_to(selected, (stack.n_kernels, *selected.shape)), ambient)


def restrict(model: Deformed, kernels: slice, keep: np.ndarray) -> Deformed:
    """The same with fewer kernels and labels; deformed kernels do not depend on who has labels."""
    block = np.ascontiguousarray(model.stack.kernels[kernels][:, keep][:, :, keep])
    return Deformed(DenseStack(block), model.propagators[kernels][:, :, keep], model.gamma_ambient)


def learn(stack: DenseStack, laplacian: Any, sample: Sample, grid: list, single: bool = False) -> tuple:
    """Choose gammas (and one kernel, if `single`) by cross-validation on labeled samples; fit; score.

    Returns
    -------
    scores, gammas
    """
    y = sample.y[sample.labeled]
    groups = [slice(m, m + 1) for m in range(stack.n_kernels)] if single else [slice(None)]
    best: tuple = (-1,)
    for gammas in grid:
        model = machine(stack, laplacian, sample.labeled, gammas)
        for kernels in groups:
            correct = 0
            for fold in np.unique(sample.folds) if len(grid) * len(groups) > 1 else []:
                train, held = sample.folds != fold, sample.folds == fold
                result = fit_lapmkl(restrict(model, kernels, train), y[None, train], OPTIONS)
                rows = DenseStack(stack.kernels[kernels][:, sample.labeled[held]])
                correct += int(np.sum(np.sign(scores_of(rows, result)) == y[held]))
            if correct > best[0]:
                best = (correct, gammas, kernels, model)
    _, gammas, kernels, model = best
    everything = np.ones(len(y), dtype=bool)
    result = fit_lapmkl(restrict(model, kernels, everything), y[None], OPTIONS)
    return scores_of(DenseStack(stack.kernels[kernels]), result), gammas


def learn_shared(
    stack: DenseStack, laplacian: Any, sample: Sample, gammas: tuple[float, float]
) -> np.ndarray:
    """Scores of eq. (18), whose coefficients are shared."""
    ambient, ratio = gammas
    model = share(stack, Graph(laplacian, sample.labeled, ambient, ambient * ratio))
    return scores_of(stack, fit_lapmkl(model, sample.y[sample.labeled][None], OPTIONS))


def learn_glks(distances: np.ndarray, sample: Sample, grid: list) -> np.ndarray:
    """Scores of GLKS-SSL; gamma and constant by cross-validation on labeled samples."""
    laplacians = [knn_laplacian(distances, k, "precomputed") for k in GLKS_NEIGHBORS]
    stacks = {c: DenseStack(np.stack([graph_kernel(L, c) for L in laplacians])) for c in {c for _, c in grid}}

    def fit(labeled: np.ndarray, gamma: float, constant: float) -> np.ndarray:
        marked = np.zeros(len(sample.y))
        marked[labeled] = sample.y[labeled]
        return fit_glks(stacks[constant], split_labels(marked, 0.0), GLKSOptions(gamma)).scores

    def correct(gamma: float, constant: float) -> int:
        total = 0
        for fold in np.unique(sample.folds):
            held = sample.labeled[sample.folds == fold]
            scores = fit(sample.labeled[sample.folds != fold], gamma, constant)
            total += int(np.sum(np.sign(scores[held]) == sample.y[held]))
        return total

    return fit(sample.labeled, *(max(grid, key=lambda pair: correct(*pair)) if len(grid) > 1 else grid[0]))


def gaussians(distances: np.ndarray, widths: np.ndarray) -> DenseStack:
    return DenseStack(np.stack([np.exp(-0.5 * (distances / width) ** 2) for width in widths]))
