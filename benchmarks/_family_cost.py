"""What K classes cost beside K binary models: with shared kernel weights, and one against the rest in one estimator.

All times are seconds of the processor, the shortest of some repeats, and both sides of a ratio are measured in turn.
JAX compiles before the clock runs, or in the first repeat.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _family_sets import bank_of, load, split
from _protocol import HALF_NORMAL_MEAN, have_real_data, paper_kernels
from _report import markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier
from bayesmkl._estimator import encode_labels
from bayesmkl.bemkl import Storage
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary, multiclass
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

ASKED_SHARED = 1.3
REPEATS = 2
SWEEPS = 20  # of the comparison with shared weights, where convergence says nothing
WARM_UP = LoopOptions(max_iter=4, tol=0.0)  # compiles all that a longer fit needs


class Case(NamedTuple):
    """A data set and its kernels."""

    name: str
    kernels: str  # "bank of the set", or "each feature": the 13 kernels of the BEMKL paper on all and on each feature
    n_samples: int | None = None
    backends: tuple[str, ...] = ("numpy", "jax")
    batch: bool = True  # also one against the rest


CASES = (
    Case("iris", "bank of the set"),
    Case("wine", "each feature"),
    Case("digits", "bank of the set"),
    Case("mfeat", "bank of the set", 500),
    Case("mfeat", "bank of the set", 1000, ("numpy",), batch=False),
)
NAMES = {"numpy": "NumPy", "jax": "JAX"}
BUNDLED = ("iris", "wine", "digits")


class Fitted(NamedTuple):
    """What all fits of a case start from."""

    X: np.ndarray
    y: np.ndarray
    bank: KernelBank
    stack: DenseStack
    gram: np.ndarray
    signs: np.ndarray  # (n_classes, n_samples)

    @property
    def problems(self) -> list[binary.BinaryProblem]:
        """Every class against the rest."""
        return [
            binary.BinaryProblem(self.stack, self.gram, y, binary.BinaryPriors(), 1.0, 1.0)
            for y in self.signs
        ]

    @property
    def shared(self) -> multiclass.MulticlassProblem:
        """All classes with one set of kernel weights."""
        return multiclass.MulticlassProblem(
            self.stack, self.gram, self.signs, multiclass.MulticlassPriors(), 1.0, 1.0
        )


def prepare(case: Case) -> Fitted:
    """Read the data and evaluate the kernels."""
    data = load(case.name, case.n_samples)
    rows = np.arange(len(data.y))
    part = split(data, rows, rows)
    bank = paper_kernels() if case.kernels == "each feature" else bank_of(data)
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(bank.fit_transform(part.X), -1, 0)))
    return Fitted(part.X, part.y, bank, stack, stack.gram(), encode_labels(part.y)[1])


def seconds(*functions: Callable[[], object]) -> list[float]:
    """Shortest processor time of each function, called in turn."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(REPEATS):
        for own, function in zip(times, functions, strict=True):
            start = time.process_time()
            function()
            own.append(time.process_time() - start)
    return [min(own) for own in times]


def starts_of(algorithm: Any, problems: list[Any]) -> list[Any]:
    """The default starts of `BEMKLClassifier`."""
    return [algorithm.init(problem, np.full(problem.y.shape[-1], HALF_NORMAL_MEAN)) for problem in problems]


def one_by_one(algorithm: Any, problems: list[Any], options: LoopOptions) -> list[Any]:
    """Fit every problem alone."""
    return [
        maximize_elbo(algorithm, problem, start, options)
        for problem, start in zip(problems, starts_of(algorithm, problems), strict=True)
    ]


def measure_shared(fitted: Fitted, backend: str) -> float:
    """Seconds of sweeps with shared weights, divided by those of as many sweeps of every class alone."""
    options = LoopOptions(max_iter=SWEEPS, tol=0.0, backend=backend)
    warm = WARM_UP._replace(backend=backend)
    one_by_one(multiclass, [fitted.shared], warm)
    one_by_one(binary, fitted.problems[:1], warm)
    together, alone = seconds(
        lambda: one_by_one(multiclass, [fitted.shared], options),
        lambda: one_by_one(binary, fitted.problems, options),
    )
    return together / alone


def measure_batch(fitted: Fitted, backend: str) -> dict[str, float]:
    """Seconds of one estimator of all classes over those of separate ones."""
    as_one, as_many = seconds(lambda: fit_all(fitted, backend), lambda: fit_each(fitted, backend))
    return {"estimators": as_one / as_many, "seconds": as_one}


def fit_all(fitted: Fitted, backend: str) -> None:
    """Fit one estimator to all classes, each with its own weights."""
    with warnings.catch_warnings(action="ignore"):  # quality of kernels on single features
        BEMKLClassifier(
            fitted.bank,
            multiclass="one-versus-all",
            storage=Storage(backend=backend),
            margin=1.0,
            intermediate_scale=1.0,
        ).fit(fitted.X, fitted.y)


def fit_each(fitted: Fitted, backend: str) -> None:
    """Fit one estimator to each class against the rest."""
    with warnings.catch_warnings(action="ignore"):
        for label in np.unique(fitted.y):
            BEMKLClassifier(
                fitted.bank, storage=Storage(backend=backend), margin=1.0, intermediate_scale=1.0
            ).fit(fitted.X, fitted.y == label)


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Measure all cases."""
    found: list[dict[str, Any]] = []
    with threadpool_limits(1):
        for case in cases_of(fast):
            fitted = prepare(case)
            for backend in ("numpy",) if fast else case.backends:
                sizes = {"n_samples": len(fitted.y), "n_kernels": len(fitted.stack.kernels)}
                shared = {"shared": measure_shared(fitted, backend)}
                batch = measure_batch(fitted, backend) if case.batch else {}
                found.append(
                    {"name": case.name, "n_classes": len(fitted.signs), "backend": backend}
                    | sizes
                    | shared
                    | batch
                )
    return report(found), {"cases": found}


def cases_of(fast: bool) -> list[Case]:
    """Sets that can be read; in the short form 30 samples of iris."""
    if fast:
        return [Case("iris", "bank of the set", 30)]
    if have_real_data():
        return list(CASES)
    return [case for case in CASES if case.name in BUNDLED]


def report(found: list[dict[str, Any]]) -> str:
    """One row per set and backend, and what was asked."""
    rows = []
    for one in found:
        sizes = [one["n_classes"], one["n_samples"], one["n_kernels"], NAMES[one["backend"]]]
        ratios = [f"{one[name]:.2f}" if name in one else "-" for name in ("shared", "estimators")]
        rows.append([one["name"], *sizes, *ratios])
    headers = "set | classes | samples | kernels | on | shared | estimators"
    most, worst = (max(one[name] for one in found if name in one) for name in ("shared", "estimators"))
    return (
        "Processor time of all classes divided by that of K binary models, K being the number of classes. *shared*: "
        f"{SWEEPS} sweeps with one set of kernel weights over {SWEEPS} sweeps of every class alone. *estimators*: "
        "one fit of all classes against the rest over as many fits of one class.\n\n"
        f"{markdown_table(headers, rows)}\n\n"
        f"Sweeps with shared weights take at most {most:.2f} times those of K binary models (asked: at most "
        f"{ASKED_SHARED:g}), one estimator at most {worst:.2f} times K of them (asked: below 1)."
    )
