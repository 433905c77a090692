"""Duality gaps of the convex methods: how many problems end with one below the tolerance, and how small they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from _protocol import SETS, have_real_data, load, paper_kernels, split
from _report import markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative import PrimalMKLClassifier
from bayesmkl.discriminative.global_weights.lpmkl import LpMKLOptions, fit_lpmkl
from bayesmkl.discriminative.global_weights.simplemkl import SOLVERS, SimpleMKLOptions, fit_simplemkl
from bayesmkl.discriminative.global_weights.smomkl import SMOMKLOptions, fit_smomkl
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels import Gaussian, KernelBank, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack

TOL = 1e-3
SCHEME_TOL = 1e-5  # of both schemes of SimpleMKL, whose objectives are compared
NORMS = {"1.1": 1.1, "4/3": 4.0 / 3.0, "2": 2.0, "4": 4.0, "8": 8.0}
UCI = ("wdbc", "sonar", "ionosphere", "bupaliver", "pima", "heart")
PRICES = (1.0, 100.0)  # C on the real sets
N_RANDOM = 50


class Problem(NamedTuple):
    """One binary problem."""

    name: str
    stack: DenseStack
    y: np.ndarray
    C: float


class Certificate(NamedTuple):
    """What a fit says about itself."""

    objective: float
    gap: float  # relative
    n_solves: int


def random_problems(n_problems: int) -> Iterator[Problem]:
    """Noisy labels from two of some features; kernels of all and of single features; any C from 0.1 to 100."""
    for seed in range(n_problems):
        rng = np.random.default_rng(seed)
        n_samples, n_features = int(rng.integers(40, 121)), int(rng.integers(3, 9))
        X = rng.normal(size=(n_samples, n_features))
        if seed % 5 == 0:
            X = X.round()  # samples coincide in single features
        score = X[:, 0] * X[:, 1] + X[:, 0] + 0.5 * rng.normal(size=n_samples)
        kernels = [Gaussian(width=0.5), Gaussian(width=2), Polynomial(degree=2), Linear()]
        bank = KernelBank(kernels, views="all+each")
        y = np.where(score > np.median(score), 1.0, -1.0)
        yield Problem("random", _stack(bank, X), y, float(10.0 ** rng.uniform(-1.0, 2.0)))


def real_problems(fast: bool) -> Iterator[Problem]:
    """The first split of six sets, 13 kernels on all features."""
    for name in UCI if have_real_data() and not fast else UCI[:1]:
        X, _, y, _ = split(*load(name), 30 if fast else SETS[name].n_train, 0)
        stack = _stack(paper_kernels(views="all"), X)
        for C in PRICES[:1] if fast else PRICES:
            yield Problem(name, stack, y, C)


def _stack(bank: KernelBank, X: np.ndarray) -> DenseStack:
    return DenseStack(np.ascontiguousarray(np.moveaxis(bank.fit_transform(X), -1, 0)))


def _of(result: MKLResult) -> Certificate:
    objective = float(result.objective_history[-1])
    return Certificate(objective, result.duality_gap / abs(objective), result.n_solves)


def simple(problem: Problem, solver: str, tol: float = TOL) -> Certificate:
    options = SimpleMKLOptions(solver, tol, 5000)
    return _of(fit_simplemkl(problem.stack, problem.y[None], Hinge(problem.C), options))


def lp(problem: Problem, p_norm: float) -> Certificate:
    options = LpMKLOptions(p_norm, TOL, 5000)
    return _of(fit_lpmkl(problem.stack, problem.y[None], Hinge(problem.C), options))


def smo(problem: Problem, p_norm: float) -> Certificate:
    options = SMOMKLOptions(p_norm, 1.0, TOL, 5000)
    return _of(fit_smomkl(problem.stack, problem.y[None], Hinge(problem.C), options))


def primal(problem: Problem) -> Certificate:
    model = PrimalMKLClassifier("precomputed", reg=1.0 / problem.C, tol=TOL)
    with warnings.catch_warnings():
        # kernels of constant or coinciding features; the gap is what counts here
        warnings.simplefilter("ignore")
        model.fit(np.moveaxis(problem.stack.kernels, 0, -1), problem.y)
    objective = float(model.objective_history_[-1])
    return Certificate(objective, model.duality_gap_ / abs(objective), model.n_solves_)


METHODS: dict[str, Callable[[Problem], Certificate]] = {
    "SimpleMKL, SPG": lambda problem: simple(problem, "spg"),
    "SimpleMKL, reduced gradient": lambda problem: simple(problem, "reduced-gradient"),
    **{f"LpMKL, p = {name}": lambda problem, p=p: lp(problem, p) for name, p in NORMS.items()},
    "LpMKL, p = 1 (GLMKL)": lambda problem: lp(problem, 1.0),
    "SMO-MKL, p = 4/3": lambda problem: smo(problem, 4.0 / 3.0),
    "SMO-MKL, p = 2": lambda problem: smo(problem, 2.0),
    "PrimalMKL": primal,
}


def scheme_difference(problem: Problem) -> float:
    """Relative difference of the objectives that the two schemes of SimpleMKL end with."""
    first, second = (simple(problem, solver, SCHEME_TOL).objective for solver in SOLVERS)
    return abs(first - second) / min(first, second)


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Solve all problems by all methods."""
    problems = [*random_problems(1 if fast else N_RANDOM), *real_problems(fast)]
    rows, numbers = [], {}
    with threadpool_limits(1):
        for name, method in METHODS.items():
            found = [(problem, method(problem)) for problem in problems]
            numbers[name] = [
                {"problem": problem.name, "n_samples": len(problem.y), "C": problem.C, **found._asdict()}
                for problem, found in found
            ]
            rows.append([name, *_summary(found, True), *_summary(found, False)])
        differences = [scheme_difference(problem) for problem in problems]
    n_random = sum(problem.name == "random" for problem in problems)
    names = list(dict.fromkeys(problem.name for problem in problems if problem.name != "random"))
    prices = " and ".join(sorted({f"{problem.C:g}" for problem in problems if problem.name != "random"}))
    headers = ["method", "random: gap ≤ tol", "median gap", "largest", "machines"]
    headers += ["real: gap ≤ tol", "median gap", "largest", "machines"]
    text = (
        f"Duality gap relative to the objective, asked to be at most {TOL:g}; {n_random} random problems (40 to 120 "
        "samples, 16 to 36 kernels, C from 0.1 to 100, every fifth with repeated features) and "
        f"{len(problems) - n_random} real ones ({', '.join(names)}; 13 kernels; C = {prices}). "
        f"Machines: median number that were trained.\n\n{markdown_table(headers, rows)}\n\n"
        f"Objectives of the two schemes of SimpleMKL at tolerance {SCHEME_TOL:g} differ by at most "
        f"{max(differences):.1e}, relative (median {np.median(differences):.1e}); asked: 1e-5."
    )
    return text, {"tol": TOL, "methods": numbers, "scheme_differences": differences}


def _summary(found: list[tuple[Problem, Certificate]], random: bool) -> list[str]:
    of = [certificate for problem, certificate in found if (problem.name == "random") == random]
    gaps = np.array([certificate.gap for certificate in of])
    good = int(np.sum(gaps <= TOL))
    machines = np.median([certificate.n_solves for certificate in of])
    return [f"{good} of {len(of)}", f"{np.median(gaps):.1e}", f"{gaps.max():.1e}", f"{machines:.0f}"]
