"""Nested cross-validation of MKL methods on precomputed kernels, and the tables of Wang et al. (2014), section IV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayesmkl.discriminative.global_weights.alignment import select_by_alignment
from bayesmkl.discriminative.global_weights.gmkl import GMKLOptions, fit_gmkl
from bayesmkl.discriminative.global_weights.lpmkl import LpMKLOptions, fit_lpmkl
from bayesmkl.discriminative.global_weights.obmkl import (
    OBMKLOptions,
    Problem,
    alternate,
    optimal_kernel,
    select_by_ratio,
    select_nearest,
)
from bayesmkl.discriminative.global_weights.two_stage import Selection, train_selected
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.alignment import frobenius_gram
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.reproduction import obmkl_rows

__all__ = [
    "ACTIVE",
    "GAP",
    "METHODS",
    "ONE_KERNEL",
    "TABLE_2",
    "TABLE_3",
    "TABLE_4",
    "Plan",
    "Scores",
    "evaluate",
]

SVM_TOL = 1e-3
GAP = 1e-2  # of the joint methods, relative: the default of SimpleMKL's authors
ACTIVE = 1e-6  # of the largest weight: what counts as an active kernel

ONE_KERNEL = "SVM(best)"


def plus_minus(published: obmkl_rows.Published, digits: int | None = None) -> str:
    """Write a published mean and standard deviation."""
    form = "g" if digits is None else f".{digits}f"
    return f"{published.value:{form}} ± {published.std:{form}}"


TABLE_2 = {  # CV error, support vectors, active kernels
    name: (plus_minus(error, 3), plus_minus(support, 0), plus_minus(active))
    for name, (error, support, active) in obmkl_rows.TABLE_2.items()
}
TABLE_3 = {  # wins, ties, losses of OBMKL(ratio), OBMKL(qp), OBMKL(aqp) against each method
    name: tuple(
        "-" if name == column else ", ".join(map(str, records[name]))
        for column, records in obmkl_rows.TABLE_3.items()
    )
    for name in obmkl_rows.METHODS
}
TABLE_4 = {  # wins, ties, losses; winning percentage; support vectors; active kernels
    name: (", ".join(map(str, record)), percent, plus_minus(support, 0), plus_minus(active))
    for name, (record, percent, support, active) in obmkl_rows.TABLE_4.items()
}


class Plan(NamedTuple):
    """Grid of C, outer and inner folds."""

    C: tuple[float, ...]
    n_folds: int
    n_inner: int


class Training:
    """Training kernels and labels of one fold, and what several methods derive from them."""

    def __init__(self, kernels: np.ndarray, y: np.ndarray, rows: np.ndarray) -> None:
        self.stack = DenseStack(np.ascontiguousarray(kernels[:, rows[:, None], rows]))
        self.targets = y[rows][None]

    @cached_property
    def gram(self) -> np.ndarray:
        return frobenius_gram(self.stack)

    @cached_property
    def optimal(self) -> np.ndarray:
        return optimal_kernel(self.stack, self.targets)

    def problem(self, C: float) -> Problem:
        return Problem(self.stack, self.targets, Hinge(C), self.optimal)


class Machine(NamedTuple):
    """What a method learned: kernel weights, signed dual and intercept."""

    weights: np.ndarray
    dual: np.ndarray
    intercept: float

    def errors(self, kernels: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
        """Share of wrong predictions on `test`."""
        active = np.flatnonzero(self.weights)
        rows = np.tensordot(
            self.weights[active], kernels[active[:, None, None], test[:, None], train], axes=1
        )
        return float(np.mean((rows @ self.dual + self.intercept > 0.0) != (y[test] > 0.0)))


Fit = Callable[[float], Machine]


def two_stage(select: Callable[[Training], Selection]) -> Callable[[Training], Fit]:
    """Weights once, a machine for every C."""

    def prepare(training: Training) -> Fit:
        weights = select(training).kernel_weights
        kernel = training.stack.combine(weights)

        def fit(C: float) -> Machine:
            solution = Hinge(C).solve(kernel, training.targets[0], SVM_TOL)
            return Machine(weights, solution.signed_dual, solution.intercept)

        return fit

    return prepare


def alternating(training: Training) -> Fit:
    """OBMKL(aqp): weights of their own for every C."""
    start = select_nearest(training.problem(1.0), training.gram).kernel_weights

    def fit(C: float) -> Machine:
        problem = training.problem(C)
        selection = alternate(problem, start, OBMKLOptions("aqp"))
        return _machine(train_selected(training.stack, training.targets, problem.inner, SVM_TOL, selection))

    return fit


def joint(solve: Callable[..., object]) -> Callable[[Training], Fit]:
    """Weights and machine together, each C from the weights of the one before."""

    def prepare(training: Training) -> Fit:
        last: list[np.ndarray | None] = [None]

        def fit(C: float) -> Machine:
            machine = _machine(solve(training.stack, training.targets, Hinge(C), last[0]))
            last[0] = machine.weights
            return machine

        return fit

    return prepare


def one_kernel(m: int) -> Callable[[Training], Fit]:
    """One kernel alone."""

    def select(training: Training) -> Selection:
        return Selection(np.eye(training.stack.n_kernels)[m])

    return two_stage(select)


def _machine(result: object) -> Machine:
    return Machine(result.kernel_weights, result.signed_dual[0], float(result.intercept[0]))


METHODS: dict[str, Callable[[Training], Fit]] = {
    "OBMKL(ratio)": two_stage(lambda t: select_by_ratio(t.problem(1.0))),
    "OBMKL(qp)": two_stage(lambda t: select_nearest(t.problem(1.0), t.gram)),
    "OBMKL(aqp)": alternating,
    "ABMKL(ratio)": two_stage(lambda t: select_by_alignment(t.stack, t.targets, "ratio")),
    "ABMKL(convex)": two_stage(lambda t: select_by_alignment(t.stack, t.targets, "convex", t.gram)),
    "GMKL": joint(
        lambda stack, y, inner, start: fit_gmkl(stack, y, inner, GMKLOptions("uniform", tol=GAP), start)
    ),
    "GLMKL": joint(lambda stack, y, inner, start: fit_lpmkl(stack, y, inner, LpMKLOptions(1.0, GAP), start)),
    "RBMKL": two_stage(lambda t: Selection(np.full(t.stack.n_kernels, 1.0 / t.stack.n_kernels))),
}


class Scores(NamedTuple):
    """Numbers of every outer fold, (n_folds,): error, support vectors, active kernels, C."""

    error: np.ndarray
    support: np.ndarray
    active: np.ndarray
    C: np.ndarray


def folds_of(y: np.ndarray, n_folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Stratified and shuffled, the same for all methods; classes of fewer samples than folds are spread."""
    rng = np.random.default_rng(0)
    fold = np.empty(len(y), dtype=int)
    offset = 0
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        fold[members] = (offset + np.arange(len(members))) % n_folds
        offset += len(members)
    for k in range(n_folds):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def evaluate(
    kernels: np.ndarray,
    y: np.ndarray,
    plan: Plan,
    methods: dict[str, Callable[[Training], Fit]],
    most_folds: int | None = None,
) -> dict[str, Scores]:
    """Error, support and active kernels of every method, C (and the kernel of SVM(best)) chosen inside.

    Parameters
    ----------
    kernels : array of shape (n_kernels, n_samples, n_samples)
    y : array of shape (n_samples,)
        -1 and +1.
    plan : Plan
    methods : dict
        Every kernel alone is added as "kernel m", and their choice as SVM(best).
    most_folds : int, optional
        Evaluate only so many of the outer folds.
    """
    singles = {f"kernel {m}": one_kernel(m) for m in range(len(kernels))}
    rows: dict[str, list] = {name: [] for name in (*methods, *singles, ONE_KERNEL)}
    for train, test in list(folds_of(y, plan.n_folds))[:most_folds]:
        whole = Training(kernels, y, train)
        inner = [
            (train[a], train[b], Training(kernels, y, train[a]))
            for a, b in folds_of(y[train], plan.n_inner)
            if len(np.unique(y[train[a]])) > 1  # the only sample of a class may be the one left out
        ]
        validation = {}
        for name, prepare in {**methods, **singles}.items():
            table = [[m.errors(kernels, y, a, b) for m in map(prepare(t), plan.C)] for a, b, t in inner]
            mean = np.mean(table, axis=0)
            fit, best = prepare(whole), int(np.argmin(mean))
            machine = (
                [fit(C) for C in plan.C[: best + 1]][-1] if name in ("GMKL", "GLMKL") else fit(plan.C[best])
            )
            validation[name] = mean[best]
            weights, dual = machine.weights, machine.dual
            rows[name].append(
                (
                    machine.errors(kernels, y, train, test),
                    np.count_nonzero(dual),
                    (weights > ACTIVE * weights.max()).sum(),
                    plan.C[best],
                )
            )
        rows[ONE_KERNEL].append(rows[min(singles, key=validation.get)][-1])
    return {name: Scores(*np.array(values, dtype=float).T) for name, values in rows.items()}
