"""C-LMKL: duality gaps with iteration counts for several norms; landmarks are in a file of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from _clmkl_landmarks import accuracies, seconds
from _protocol import SETS, have_real_data, load, paper_kernels, split
from _report import markdown_table
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative.localized.clmkl import (
    CLMKLOptions,
    ClusteredStack,
    clustered_gap,
    fit_clmkl,
    update_weights,
)
from bayesmkl.discriminative.localized.clustering import ClusterOptions, kernel_kmeans
from bayesmkl.discriminative.outer import WeightedFit, fit_at
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

TOL = 1e-4
NORMS = {"1": 1.0, "1.1": 1.1, "4/3": 4.0 / 3.0, "2": 2.0, "4": 4.0}
ASKED = ("1.1", "4/3", "2", "4")
UCI = ("breast", "wdbc", "sonar", "ionosphere", "bupaliver", "pima", "heart", "wpbc")
PRICES = (1.0, 100.0)  # C
PLAIN = 500  # most machines of the closed form alone


class Problem(NamedTuple):
    """One binary problem with its clusters."""

    name: str
    clustered: ClusteredStack
    y: np.ndarray
    C: float


class Search(NamedTuple):
    """How a search for the weights went."""

    n_steps: int
    n_solves: int
    gap: float  # relative
    seconds: float
    n_plain: int  # machines that the closed form alone needs, PLAIN + 1 for more; 0 where not measured


# -------------------------------------------------------------------------------------------------- certificates


def problems(fast: bool) -> Iterator[Problem]:
    """The first split of the sets, 13 kernels on all features, three clusters."""
    for name in UCI if have_real_data() and not fast else ("wdbc",):
        X, _, y, _ = split(*load(name), 60 if fast else SETS[name].n_train, 0)
        bank = paper_kernels(views="all")
        stack = DenseStack(np.ascontiguousarray(np.moveaxis(bank.fit_transform(X), -1, 0)))
        mean = stack.kernels.mean(axis=0)
        memberships = kernel_kmeans(mean, ClusterOptions(), np.random.default_rng(0)).memberships(mean)
        for C in PRICES[:1] if fast else PRICES:
            yield Problem(name, ClusteredStack(stack, memberships, memberships), y, C)


def search(problem: Problem, p_norm: float, compare: bool) -> Search:
    start = time.perf_counter()
    result = fit_clmkl(problem.clustered, problem.y[None], Hinge(problem.C), CLMKLOptions(p_norm, TOL, 5000))
    seconds = time.perf_counter() - start
    gap = result.duality_gap / abs(float(result.objective_history[-1]))
    n_plain = closed_form_alone(problem, p_norm) if compare else 0
    return Search(len(result.objective_history), result.n_solves, gap, seconds, n_plain)


def closed_form_alone(problem: Problem, p_norm: float) -> int:
    """Machines until the gap is small, with closed-form steps and accurate machines only."""
    shape = len(problem.clustered.train_memberships), problem.clustered.stack.n_kernels
    weights, dual = np.full(shape, shape[1] ** (-1.0 / p_norm)), -np.inf
    for n_solves in range(1, PLAIN + 1):
        fit: WeightedFit = fit_at(problem.clustered, problem.y[None], Hinge(problem.C), weights, 1e-5)
        primal = fit.objective + fit.inner_gap
        dual = max(dual, primal - clustered_gap(fit, p_norm))
        if primal - dual <= TOL * abs(fit.objective):
            return n_solves
        weights = update_weights(fit, p_norm)
    return PLAIN + 1


def certificates(fast: bool) -> tuple[str, dict[str, Any]]:
    """Solve all problems for all norms."""
    found: dict[str, list[tuple[Problem, Search]]] = {name: [] for name in NORMS}
    for problem in problems(fast):
        for name, p_norm in NORMS.items():
            found[name].append((problem, search(problem, p_norm, not fast)))
    summary = [[f"p = {name}", *_summary([s for _, s in pairs])] for name, pairs in found.items()]
    headers = ["norm", f"gap ≤ {TOL:g}", "largest gap", "steps", "machines", "closed form alone", "seconds"]
    by_set = []
    for name in dict.fromkeys(problem.name for problem, _ in found["2"]):
        row = []
        for p in NORMS:
            row.append(", ".join(str(s.n_steps) for problem, s in found[p] if problem.name == name))
        n_samples = next(len(problem.y) for problem, _ in found["2"] if problem.name == name)
        by_set.append([name, n_samples, *row])
    good = all(s.gap <= TOL for p in ASKED for _, s in found[p])
    largest = max(s.gap for p in ASKED for _, s in found[p])
    prices = " and ".join(sorted({f"{problem.C:g}" for problem, _ in found["2"]}))
    text = (
        f"Duality gap relative to the objective, asked to be at most {TOL:g} for p = {', '.join(ASKED)}: "
        f"**{'yes' if good else 'no'}**, at most {largest:.1e}. {len(found['2'])} problems ({len(by_set)} sets, "
        f"C = {prices}, 13 kernels, 3 clusters); steps and machines: median and most. Closed form alone: machines "
        f"that the alternation needs without longer steps (at most {PLAIN} are tried).\n\n"
        f"{markdown_table(headers, summary)}\n\nSteps by set, C = {prices}:\n\n"
        f"{markdown_table(['set', 'samples', *(f'p = {name}' for name in NORMS)], by_set)}"
    )
    numbers = {
        p: [{"problem": problem.name, "C": problem.C, **s._asdict()} for problem, s in pairs]
        for p, pairs in found.items()
    }
    return text, {"tol": TOL, "norms": numbers}


def _summary(found: Sequence[Search]) -> list[str]:
    def median_and_most(values: Sequence[int], limit: float = np.inf) -> str:
        shown = (np.median(values), max(values))
        return ", ".join(f"{v:.0f}" if v <= limit else f"over {limit:.0f}" for v in shown)

    good = sum(s.gap <= TOL for s in found)
    plain = [s.n_plain for s in found]
    return [
        f"{good} of {len(found)}",
        f"{max(s.gap for s in found):.1e}",
        median_and_most([s.n_steps for s in found]),
        median_and_most([s.n_solves for s in found]),
        median_and_most(plain, PLAIN) if max(plain) > 0 else "—",
        f"{np.median([s.seconds for s in found]):.2f}",
    ]


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Certificates, then landmarks."""
    with threadpool_limits(1):
        parts = {part.__name__: part(fast) for part in (certificates, accuracies, seconds)}
    return "\n\n".join(text for text, _ in parts.values()), {name: of for name, (_, of) in parts.items()}
