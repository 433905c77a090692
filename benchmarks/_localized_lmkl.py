"""LMKL: cost and correctness of its gradient, ways down the objective, gatings, and starts."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from _machine import best_seconds
from _protocol import SETS, have_real_data, load, split
from _report import markdown_table, mean_and_std
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bayesmkl.datasets import load_wdbc
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.discriminative.estimators.lmkl import LMKLClassifier
from bayesmkl.discriminative.localized.descent import SOLVERS
from bayesmkl.discriminative.localized.gatings import (
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
)
from bayesmkl.discriminative.localized.lmkl import gate_slopes
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive, Hinge
from bayesmkl.kernels import Gaussian, KernelBank, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack

NAMES = ("breast", "bupaliver", "heart", "ionosphere", "pima", "sonar", "wdbc")
N_SPLITS, N_STARTS = 10, 10
N_GROUPS = 4
ASKED_READS = 2.0
GATINGS = ("softmax", "sigmoid", "gaussian")


class Run(NamedTuple):
    """One fit on one split."""

    objective: float
    n_solves: int
    n_steps: int
    seconds: float
    largest_rise: float  # between accepted steps; at most 0 where the objective never rises
    accuracy: float
    support: float
    converged: bool


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Measure all parts; the real sets need the folder that `BAYESMKL_DATA` names."""
    texts, numbers = [], {}
    with threadpool_limits(1):
        for part in (gradient_cost, gradient_error, descents, gatings, starts):
            text, found = part(fast)
            texts.append(text)
            numbers[part.__name__] = found
    return "\n\n".join(texts), numbers


# ------------------------------------------------------------------------------------------------------ gradient


def gradient_cost(fast: bool) -> tuple[str, dict[str, Any]]:
    """Milliseconds of one gradient beside those that reading the kernels takes, and those of the machine."""
    n_samples, n_kernels, least = 1000, 3, 0.02 if fast else 0.5
    rng = np.random.default_rng(0)
    features, gating = rng.normal(size=(n_samples, 10)), SoftmaxGating(1.0)
    spread = ((features[:, None] - features) ** 2).sum(axis=-1)
    stack = DenseStack(np.stack([np.exp(-spread / width) for width in (5.0, 20.0, 80.0)]))
    parameters = gating.init(features, n_kernels, rng)
    gates, flat = gating.gates(parameters, features), stack.kernels.ravel()
    reading = best_seconds(lambda: flat @ flat, least=least)
    rows, numbers = [], {"n_samples": n_samples, "n_kernels": n_kernels, "reading": reading}
    for share in (1.0, 0.3, 0.1):
        v = np.where(rng.random(n_samples) < share, rng.normal(size=n_samples), 0.0)

        def gradient(v: np.ndarray = v) -> np.ndarray:
            return gating.pullback(parameters, features, gate_slopes(stack, gates, v))

        seconds = best_seconds(gradient, least=least)
        ratio = seconds / reading
        rows.append([f"{share:.0%}", f"{1e3 * seconds:.2f}", f"{ratio:.2f}", f"{ASKED_READS:.0f}"])
        numbers[f"{share:g}"] = seconds
    kernel = stack.combine_gated(gates, gates)
    target = np.where(features[:, 0] + rng.normal(size=n_samples) > 0, 1.0, -1.0)
    numbers["combining"] = best_seconds(lambda: stack.combine_gated(gates, gates), least=least)
    numbers["machine"] = best_seconds(
        lambda: Hinge(1.0).solve(kernel, target, 1e-4), 1 if fast else 5, 0.0 if fast else least
    )
    table = markdown_table(["support vectors", "ms", "in readings of the kernels", "asked: at most"], rows)
    return (
        f"**Cost of the gradient**, N = {n_samples}, P = {n_kernels}, one core. Reading the {n_kernels} kernels once "
        f"takes {1e3 * reading:.2f} ms. Beside the gradient, an evaluation of the objective forms the gated kernel, "
        f"{1e3 * numbers['combining']:.1f} ms ({numbers['combining'] / reading:.1f} readings), and trains a machine, "
        f"{1e3 * numbers['machine']:.0f} ms (C = 1).\n\n{table}"
    ), numbers


def gradient_error(fast: bool) -> tuple[str, dict[str, Any]]:
    """Largest difference from central differences, with machines trained to 1e-9."""
    n_samples = 30 if fast else 60
    rng = np.random.default_rng(1)
    points = rng.normal(size=(3, n_samples, 2))
    stack = DenseStack(np.exp(-0.5 * ((points[:, :, None] - points[:, None]) ** 2).sum(axis=-1)))
    target = np.where(rng.random(n_samples) < 0.5, -1.0, 1.0)
    measured, groups = (
        rng.normal(size=(n_samples, 2)),
        rng.integers(N_GROUPS, size=(n_samples, 1)).astype(float),
    )
    losses = {"hinge": Hinge(2.0), "epsilon-insensitive": EpsilonInsensitive(2.0, 0.2)}
    gatings = (SoftmaxGating(1.0), SigmoidGating(1.0), GaussianGating(2.0), GroupGating(N_GROUPS, 1.0))
    rows, numbers = [], {}
    for gating in gatings:
        features = groups if isinstance(gating, GroupGating) else measured
        errors = [_gradient_error(stack, target, features, gating, inner, rng) for inner in losses.values()]
        name = type(gating).__name__.removesuffix("Gating").lower()
        rows.append([name, *(f"{error:.0e}" for error in errors)])
        numbers[name] = dict(zip(losses, errors, strict=True))
    table = markdown_table(["gating", *losses], rows)
    return (
        f"**Gradient against central differences**, error relative to its largest entry.\n\n{table}",
        numbers,
    )


def _gradient_error(
    stack: DenseStack, target: np.ndarray, features: np.ndarray, gating: Any, inner: Any, rng: Any
) -> float:
    at, step = gating.init(features, stack.n_kernels, rng), 1e-4

    def solve(parameters: np.ndarray) -> tuple[Any, np.ndarray]:
        gates = gating.gates(parameters, features)
        return inner.solve(stack.combine_gated(gates, gates), target, 1e-9), gates

    solution, gates = solve(at)
    found = gating.pullback(at, features, gate_slopes(stack, gates, solution.signed_dual))
    moves = step * np.eye(at.size)
    expected = [(solve(at + m)[0].objective - solve(at - m)[0].objective) / (2 * step) for m in moves]
    return float(np.abs(found - expected).max() / np.abs(expected).max())


# ------------------------------------------------------------------------------------------------- on real sets


class Part(NamedTuple):
    """A training and a test part."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def bank(part: Part) -> KernelBank:
    """The kernels of the paper, linear, quadratic and Gaussian, for standardized features."""
    return KernelBank([Linear(), Polynomial(degree=2), Gaussian(width=np.sqrt(part.X.shape[1]))])


def parts(fast: bool) -> Iterator[tuple[str, list[Part]]]:
    """Splits of every set, 70 % for training."""
    if fast or not have_real_data():
        X, y = load_wdbc(return_X_y=True)
        X_train, X_test, y_train, y_test = split(X, y.astype(float), 100, 0)
        yield "wdbc", [Part(X_train, y_train, X_test, y_test)]
        return
    for name in NAMES:
        X, y = load(name)
        made = (split(X, y, SETS[name].n_train, seed) for seed in range(N_SPLITS))
        yield name, [Part(a, c, b, d) for a, b, c, d in made]


def fitted(model: Any, part: Part) -> Run:
    """Fit and look at what came out."""
    start = time.process_time()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(part.X, part.y)
    seconds, history = time.process_time() - start, model.objective_history_
    return Run(
        float(history[-1]),
        int(model.n_solves_),
        len(history) - 1,
        seconds,
        float(np.diff(history).max(initial=-np.inf) / abs(history[-1])),
        float(model.score(part.X_test, part.y_test)),
        float(model.support_fraction_),
        bool(model.converged_),
    )


def descents(fast: bool) -> tuple[str, dict[str, Any]]:
    """Three ways down from the same starts."""
    rows, numbers = [], {}
    for name, of_set in parts(fast):
        runs = {
            s: [fitted(LMKLClassifier(bank(part), solver=s, fallback=False), part) for part in of_set]
            for s in SOLVERS
        }
        lowest = np.min([[run.objective for run in runs[s]] for s in SOLVERS], axis=0)
        numbers[name] = {s: [run._asdict() for run in runs[s]] for s in SOLVERS}
        for solver in SOLVERS:
            of_solver = runs[solver]
            above = np.array([run.objective for run in of_solver]) / lowest - 1.0
            steps, solves, seconds = np.mean([[r.n_steps, r.n_solves, r.seconds] for r in of_solver], axis=0)
            rows.append(
                f'{name} ({len(of_set[0].y)}) | `"{solver}"` | {steps:.1f} | {solves:.1f} | {seconds:.2f} | '
                f"{100 * above.mean():.1f} % | {mean_and_std([100 * run.accuracy for run in of_solver], 1)}"
            )
    headers = "set (N) | solver | steps | machines | seconds | above the lowest | accuracy %"
    text, found = _summary(numbers)
    return (
        "**Ways down**: softmax gates; linear, quadratic and Gaussian kernel; C = 1, tol = 1e-3; means over splits. "
        "*Above the lowest*: of the objectives that the three ended at, from the same start.\n\n"
        f"{markdown_table(headers, rows)}\n\n{text}"
    ), {"sets": numbers, **found}


def _summary(numbers: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Say what the descents have shown."""
    by_solver = {s: [run for of_set in numbers.values() for run in of_set[s]] for s in SOLVERS}
    every = [run for runs in by_solver.values() for run in runs]
    rise, stuck = max(run["largest_rise"] for run in every), sum(not run["converged"] for run in every)
    lowest = dict.fromkeys(SOLVERS, 0)
    for runs in zip(*by_solver.values(), strict=True):
        lowest[SOLVERS[int(np.argmin([run["objective"] for run in runs]))]] += 1
    machines = {s: float(np.mean([run["n_solves"] for run in by_solver[s]])) for s in SOLVERS}
    accuracy = {s: 100 * float(np.mean([run["accuracy"] for run in by_solver[s]])) for s in SOLVERS}
    described = "; ".join(
        f'`"{s}"`: {machines[s]:.0f} machines, lowest in {lowest[s]} of {len(by_solver[s])}, '
        f"accuracy {accuracy[s]:.1f} %"
        for s in SOLVERS
    )
    return (
        f"Over all splits {described}. The largest change of the objective in an accepted step of all {len(every)} "
        f"descents is {rise:.1e} of it: it {'never rises' if rise <= 0.0 else 'rises'}. Not converged within 100 "
        f"steps: {stuck}."
    ), {
        "largest_rise": rise,
        "not_converged": stuck,
        "lowest": lowest,
        "machines": machines,
        "accuracy": accuracy,
    }


def gatings(fast: bool) -> tuple[str, dict[str, Any]]:
    """Accuracy and support vectors of every gating, beside equal weights."""
    rows, numbers = [], {}
    for name, of_set in parts(fast):
        kernels = bank(of_set[0])
        models = {"uniform": UniformMKLClassifier(kernels)}
        models |= {gating: LMKLClassifier(kernels, gating=gating, fallback=False) for gating in GATINGS}
        numbers[name] = {}
        for label, model in models.items():
            found = [
                (100 * m.score(p.X_test, p.y_test), 100 * m.support_fraction_)
                for m, p in _fits(model, of_set)
            ]
            accuracy, support = zip(*found, strict=True)
            numbers[name][label] = {"accuracy": accuracy, "support": support}
            rows.append([name, label, mean_and_std(accuracy, 1), mean_and_std(support, 1)])
    table = markdown_table(["set", "gating", "accuracy %", "support vectors %"], rows)
    labels = ("uniform", *GATINGS)

    def mean(label: str, what: str) -> float:
        return float(np.mean([np.mean(of_set[label][what]) for of_set in numbers.values()]))

    described = "; ".join(
        f"{label} {mean(label, 'accuracy'):.1f} % and {mean(label, 'support'):.1f} %" for label in labels
    )
    return (
        "**Gatings**, same kernels and splits, C = 1 for all; *uniform* is one machine on the mean kernel.\n\n"
        f"{table}\n\nMeans over the sets, accuracy and support vectors: {described}."
    ), numbers


def _fits(model: Any, of_set: list[Part]) -> Iterator[tuple[Any, Part]]:
    for part in of_set:
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            yield model.fit(part.X, part.y), part


def starts(fast: bool) -> tuple[str, dict[str, Any]]:
    """Where several random starts end, on the first split."""
    n_starts = 2 if fast else N_STARTS
    rows, numbers = [], {}
    for name, of_set in parts(fast):
        numbers[name] = {}
        for gating in GATINGS:
            model = LMKLClassifier(bank(of_set[0]), gating=gating, n_init=n_starts, fallback=False)
            for fit, _ in _fits(model, of_set[:1]):
                ends = fit.results_[0].start_objectives
            numbers[name][gating] = ends.tolist()
        spreads = [f"{100 * (max(ends) / min(ends) - 1):.1f} %" for ends in numbers[name].values()]
        rows.append([name, *spreads])
    table = markdown_table(["set", *GATINGS], rows)
    return (
        f"**Starts**: how far the worst of {n_starts} random starts ends above the best.\n\n{table}"
    ), numbers
