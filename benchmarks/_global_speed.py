"""Seconds of the methods that optimize weights, beside those of the machines inside them.

All times are processor time of one core, which other programs on the machine change less than wall time.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _primal_sets import WIDTHS, gaussians, sample
from _protocol import SETS, load, paper_kernels, split
from _report import markdown_table
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative import (
    GMKLClassifier,
    LpMKLClassifier,
    PrimalMKLClassifier,
    SimpleMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.discriminative.global_weights.lpmkl import LpMKLOptions, fit_lpmkl
from bayesmkl.discriminative.global_weights.simplemkl import SimpleMKLOptions, fit_simplemkl
from bayesmkl.discriminative.global_weights.uniform import fit_uniform
from bayesmkl.discriminative.inner import InnerSolution
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels import stack_kernels
from bayesmkl.kernels.precomputed import NamedKernels
from bayesmkl.kernels.quality.verdicts import is_finite
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["run"]

TOL = 1e-2
PRICES = (1.0, 10.0, 100.0)
ASKED_RATIO, ASKED_UNIFORM, ASKED_AGAIN, ASKED_GRID = 3.0, 1.2, 1.5, 1.2
ASKED_LEARNED = {"SimpleMKL": 35.5, "LpMKL, p = 1": 187.5, "PrimalMKL": 63.0}  # half of what they once were
GRID = {"C": list(np.logspace(-2, 2, 20))}
READS = (
    "a read that recognizes, and the mean",
    "the mean and another sum, in one read",
)  # both beside the mean
N_REPEATS = 5  # the fastest counts
REDUCED = SimpleMKLOptions("reduced-gradient", TOL)


class TimedHinge:
    """The hinge loss, with the time that its machines take."""

    def __init__(self, C: float) -> None:
        self.seconds, self._hinge = 0.0, Hinge(C)

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        start = time.process_time()
        solution = self._hinge.solve(kernel, target, tol)
        self.seconds += time.process_time() - start
        return solution


class Timing(NamedTuple):
    """One method at one C."""

    method: str
    C: float
    seconds: float
    machine_seconds: float
    n_solves: int
    gap: float  # relative

    @property
    def ratio(self) -> float:
        """Time of the whole, in units of that of its machines."""
        return self.seconds / self.machine_seconds


def timed(
    name: str,
    fit: Callable[..., MKLResult],
    options: Any,
    problem: tuple[DenseStack, np.ndarray],
    C: float,
    repeats: int,
) -> Timing:
    """Best of some repetitions."""
    stack, y = problem
    timings = []
    for _ in range(repeats):
        hinge = TimedHinge(C)
        start = time.process_time()
        result = fit(stack, y[None], hinge, options)
        seconds = time.process_time() - start
        gap = result.duality_gap / result.objective_history[-1]
        timings.append(Timing(name, C, seconds, hinge.seconds, result.n_solves, gap))
    return min(timings, key=lambda timing: timing.seconds)


def uniform_timings(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[float, float]]:
    """Seconds of UniformMKL, and of averaging the same kernels for scikit-learn's SVC.

    Kernels are new to the checks where every fit gets a copy of them with other values.
    """
    bank = paper_kernels()
    kernels = bank.fit_transform(X)
    stack = DenseStack(np.moveaxis(kernels, -1, 0))  # the layout that `fit_transform` fills
    machine = SVC(kernel="precomputed", C=10.0)

    def from_features() -> None:
        machine.fit(bank.fit_transform(X).mean(axis=-1), y)

    def from_kernels() -> None:
        machine.fit(kernels.mean(axis=-1), y)

    def fitted(given: np.ndarray) -> None:
        UniformMKLClassifier("precomputed", C=10.0).fit(given, y)

    def seconds_of_new(factor: float) -> float:
        scaled = np.moveaxis(factor * stack.kernels, 0, -1)
        return _best(lambda: fitted(scaled), 1)

    constant = stack_kernels(stack.kernels).values
    mean = np.full(stack.n_kernels, 1.0 / stack.n_kernels)
    both = np.stack([mean, np.random.default_rng(0).standard_normal(stack.n_kernels)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some kernels of the bank are near the identity
        return {
            "features to fitted model": (
                _best(lambda: UniformMKLClassifier(bank, C=10.0).fit(X, y), 3),
                _best(from_features, 3),
            ),
            "combination and machine alone": (
                _best(lambda: fit_uniform(stack, y[None], Hinge(10.0), 1e-3)),
                _best(from_kernels),
            ),
            "precomputed kernels, with their checks": (
                min(seconds_of_new(1.0 + 1e-6 * k) for k in range(1, 4)),
                _best(from_kernels, 3),
            ),
            READS[0]: (
                _best(lambda: (is_finite(stack.kernels), stack.combine(mean))),
                _best(lambda: kernels.mean(axis=-1)),
            ),
            READS[1]: (_best(lambda: stack.combine(both)), _best(lambda: kernels.mean(axis=-1))),
            "the same again": (_best(lambda: fitted(kernels), 3), _best(from_kernels, 3)),
            "the same again, from stack_kernels": (
                _best(lambda: fitted(constant), 3),
                _best(from_kernels, 3),
            ),
        }


def beside_average(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[float, float, int]]:
    """Seconds of methods on kernels that were checked before, those of the SVC on the mean, and numbers of SVMs."""
    given = stack_kernels(np.moveaxis(paper_kernels().fit_transform(X), -1, 0)).values
    svc = SVC(kernel="precomputed", C=10.0)
    models = {
        "SimpleMKL": SimpleMKLClassifier("precomputed", C=10.0),
        "LpMKL, p = 1": LpMKLClassifier("precomputed", C=10.0, p_norm=1.0),
        "LpMKL, p = 2": LpMKLClassifier("precomputed", C=10.0, p_norm=2.0),
        "PrimalMKL": PrimalMKLClassifier("precomputed"),
        "GMKL": GMKLClassifier("precomputed", C=10.0),
        "GMKL, projected gradients": GMKLClassifier("precomputed", C=10.0, solver="pg"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some kernels of the bank are near the identity
        average = _best(lambda: svc.fit(given.mean(axis=-1), y))
        models["LpMKL, p = 2"].fit(given, y)  # checks them
        return {
            name: (_best(lambda model=model: model.fit(given, y), 2), average, int(model.n_solves_))
            for name, model in models.items()
        }


def grid_timings(X: np.ndarray, y: np.ndarray, n_samples: int) -> dict[str, tuple[float, float]]:
    """Seconds of grids of UniformMKL over five folds, and those of their SVMs: the same grids of SVCs on the mean.

    Both in turn, the fastest of each: the first of UniformMKL judges kernels, and sums them.
    """

    def seconds(model: Any, given: Any, target: np.ndarray) -> float:
        search = GridSearchCV(model, GRID, cv=StratifiedKFold(5), refit=False, error_score="raise")
        return _best(lambda: search.fit(given, target), 1)

    def in_turn(kernels: NamedKernels, target: np.ndarray) -> tuple[float, float]:
        shared, mean = kernels.shared, kernels.values.mean(axis=-1)
        times = [(seconds(uniform, shared, target), seconds(svc, mean, target)) for _ in range(1 + N_REPEATS)]
        ours, theirs = np.min(times, axis=0)
        return float(ours), float(theirs)

    uniform, svc = UniformMKLClassifier("precomputed"), SVC(kernel="precomputed")
    more, labels = sample("waveform", n_samples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some kernels of the bank are near the identity
        kernels = stack_kernels(gaussians(more, more, list(WIDTHS)).kernels)
        found = {f"grid of 20 points, 5 folds, {n_samples} of waveform, shared": in_turn(kernels, labels)}
        kernels = stack_kernels(np.moveaxis(paper_kernels().fit_transform(X), -1, 0))
        shared = in_turn(kernels, y)
        return {
            "grid of 20 points, 5 folds, array": (seconds(uniform, kernels.values, y), shared[1]),
            "grid of 20 points, 5 folds, shared": shared,
        } | found


def _best(function: Callable[[], object], repeats: int = N_REPEATS) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Time everything on one split of wdbc."""
    n_train, prices, repeats = (60, PRICES[1:2], 1) if fast else (SETS["wdbc"].n_train, PRICES, N_REPEATS)
    X, _, y, _ = split(*load("wdbc"), n_train, 0)
    X = X[:, :5] if fast else X
    with threadpool_limits(1):
        kernels = np.moveaxis(paper_kernels().fit_transform(X), -1, 0)
        problem = DenseStack(np.ascontiguousarray(kernels)), y
        timings = [
            timing
            for C in prices
            for timing in (
                timed("SimpleMKL, SPG", fit_simplemkl, SimpleMKLOptions("spg", TOL), problem, C, repeats),
                timed("SimpleMKL, reduced gradient", fit_simplemkl, REDUCED, problem, C, 1),
                timed("LpMKL, p = 2", fit_lpmkl, LpMKLOptions(2.0, TOL), problem, C, repeats),
            )
        ]
        del problem, kernels
        uniform = uniform_timings(X, y) | grid_timings(X, y, 60 if fast else 1000)
        learned = beside_average(X[:, :9], y)
    text = "\n\n".join(
        [
            f"wdbc, {n_train} training samples, {13 * (1 + X.shape[1])} kernels (13 on all features, 13 on each), "
            f"duality gap at most {TOL:g} of the objective. Processor time of one core, best of {repeats} "
            "(reduced gradient: of one).",
            _table(timings),
            f"Asked: SimpleMKL within {ASKED_RATIO:g} times the time of its own machines; LpMKL with p = 2 not "
            f"slower than SimpleMKL ({_comparison(timings, prices)}).",
            _uniform_table(uniform),
            f"{13 * (1 + X[:, :9].shape[1])} of these kernels, checked before, with default tolerances; seconds over "
            "those of averaging them for an SVC:",
            _average_table(learned),
        ]
    )
    return text, {
        "timings": [t._asdict() | {"ratio": t.ratio} for t in timings],
        "uniform": uniform,
        "learned": learned,
    }


def _table(timings: list[Timing]) -> str:
    headers = ["method", "C", "seconds", "in its machines", "ratio", "machines", "relative gap"]
    rows = [
        [
            t.method,
            f"{t.C:g}",
            f"{t.seconds:.3f}",
            f"{t.machine_seconds:.3f}",
            f"{t.ratio:.1f}",
            t.n_solves,
            f"{t.gap:.1e}",
        ]
        for t in timings
    ]
    return markdown_table(headers, rows)


def _comparison(timings: list[Timing], prices: tuple[float, ...]) -> str:
    seconds = {(t.method, t.C): t.seconds for t in timings}
    ratios = [seconds["LpMKL, p = 2", C] / seconds["SimpleMKL, SPG", C] for C in prices]
    return "its time over SimpleMKL's: " + ", ".join(
        f"{ratio:.2f} at C = {C:g}" for C, ratio in zip(prices, ratios, strict=True)
    )


def _average_table(learned: dict[str, tuple[float, float, int]]) -> str:
    rows = [
        [
            name,
            n_solves,
            f"{ours:.3f}",
            f"{ours / plain:.0f}",
            f"≤ {ASKED_LEARNED[name]:g}" if name in ASKED_LEARNED else "",
        ]
        for name, (ours, plain, n_solves) in learned.items()
    ]
    return markdown_table(["method", "SVMs", "seconds", "ratio", "asked"], rows)


def _uniform_table(uniform: dict[str, tuple[float, float]]) -> str:
    headers = ["UniformMKL", "seconds", "SVC on the mean, seconds", "ratio", "asked"]
    asked = dict.fromkeys(READS, "") | {
        "the same again": f"≤ {ASKED_AGAIN:g}",
        "grid of": f"≤ {ASKED_GRID:g}",
    }
    rows = [
        [
            name,
            f"{ours:.3f}",
            f"{plain:.3f}",
            f"{ours / plain:.2f}",
            next((most for what, most in asked.items() if name.startswith(what)), f"≤ {ASKED_UNIFORM:g}"),
        ]
        for name, (ours, plain) in uniform.items()
    ]
    return markdown_table(headers, rows)
