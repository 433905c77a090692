"""SAMKL: its integer step against a mixed-integer solver, the time of a fit, and what it takes beside SimpleMKL."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from _protocol import have_real_data
from _report import STATIC, markdown_table
from papers.uci import fetch
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl.datasets import load_wdbc, make_corrupted
from bayesmkl.discriminative import LMKLClassifier, SimpleMKLClassifier
from bayesmkl.discriminative.estimators.samkl import SAMKLClassifier
from bayesmkl.discriminative.localized import samkl
from bayesmkl.discriminative.localized.switches import choose_switches
from bayesmkl.discriminative.plots import plot_switches
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack

SETS = ("wdbc", "sonar", "ionosphere", "heart_statlog", "pima")
REGS = tuple(10.0**k for k in range(-1, 5))  # C in section 5.1 of the paper
M0 = 3
ROUNDING = 1e-9  # by which the solver's constraint is loosened, as its own tolerance is no smaller
SIZES = (3, 8, 12, 25, 69)
FIT_ASKED, SHARE_ASKED, RATIO_ASKED = 10.0, 0.02, 50.0


class Instance(NamedTuple):
    """The integer step of one sample, eq. 15."""

    contributions: np.ndarray
    requirement: float
    initial: np.ndarray
    max_switches: int


def random_instance(rng: np.random.Generator, ties: bool) -> Instance:
    """Draw any initial switches and budget; with ties, whole numbers whose sums often meet the bound exactly."""
    n_kernels = int(rng.choice(SIZES))
    if ties:
        contributions = rng.integers(-3, 5, size=n_kernels).astype(float)
        requirement = float(rng.integers(-6, 2 * n_kernels))
    else:
        contributions = rng.normal(0.2, 1.0, size=n_kernels)
        requirement = rng.normal(0.4 * n_kernels, 0.5 * n_kernels)
    initial = rng.random(n_kernels) < rng.choice([0.3, 0.7, 1.0])
    return Instance(contributions, requirement, initial, int(rng.integers(0, n_kernels + 1)))


def by_sorting(instance: Instance) -> tuple[int | None, bool]:
    """Number of kernels that the package chooses, None if infeasible; whether its choice keeps both constraints."""
    c, initial = instance.contributions, instance.initial
    marked = np.full((len(c), 1), 2)  # no switches look like this: kept exactly where nothing is feasible
    requirements = np.array([instance.requirement])
    found = choose_switches(c[:, None], requirements, initial, instance.max_switches, marked)[:, 0]
    if (found == 2).all():
        return None, True
    within = np.sum(found != initial) <= instance.max_switches
    enough = c @ found >= instance.requirement - 1e-8 * max(1.0, abs(instance.requirement))
    return int(found.sum()), bool(within and enough)


def by_milp(instance: Instance) -> int | None:
    """Number of kernels that HiGHS chooses, None if infeasible."""
    c, initial = instance.contributions, instance.initial.astype(float)
    found = milp(
        np.ones(len(c)),
        integrality=np.ones(len(c)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(c[None], instance.requirement - ROUNDING),
            LinearConstraint(1.0 - 2.0 * initial[None], ub=instance.max_switches - initial.sum()),
        ],
    )
    return round(found.fun) if found.status == 0 else None


def compare(n_instances: int) -> dict[str, Any]:
    """Both solvers on random instances, every second with ties."""
    rng = np.random.default_rng(0)
    counts = {"instances": n_instances, "infeasible": 0, "different": 0, "violated": 0}
    for number in range(n_instances):
        instance = random_instance(rng, ties=number % 2 == 1)
        (ours, good), theirs = by_sorting(instance), by_milp(instance)
        counts["infeasible"] += theirs is None
        counts["different"] += ours != theirs
        counts["violated"] += not good
    return counts


def problem(n_samples: int, n_kernels: int) -> tuple[DenseStack, np.ndarray]:
    """Kernels each of which takes three samples in ten for others."""
    sample = make_corrupted(
        n_samples, corruption="kernels", fraction=0.3, separations=[0.5] * n_kernels, random_state=0
    )
    kernels = np.ascontiguousarray(sample.kernels.transpose(2, 0, 1))
    return DenseStack(kernels), sample.target.astype(float)


def timed_fit(n_samples: int, n_kernels: int, max_switches: int) -> tuple[dict[str, Any], list[Any]]:
    """Seconds of a fit and of its integer steps, and what these were asked."""
    stack, y = problem(n_samples, n_kernels)
    asked, seconds = [], 0.0

    def choose(*question: Any) -> np.ndarray:
        nonlocal seconds
        start = time.process_time()
        answer = choose_switches(*question)
        seconds += time.process_time() - start
        asked.append(question)
        return answer

    with mock.patch.object(samkl, "choose_switches", choose):
        start = time.process_time()
        result = samkl.fit_samkl(stack, y, samkl.SAMKLOptions(10.0, max_switches, gap_tol=1e-2))
        total = time.process_time() - start
    off, active = ~result.switches, result.kernel_weights > 0.0
    return {
        "n_samples": n_samples,
        "n_kernels": n_kernels,
        "max_switches": max_switches,
        "seconds": total,
        "integer_seconds": seconds,
        "alternations": len(result.objective_history),
        "machines": result.n_solves,
        "first_objective": float(result.objective_history[0]),
        "objective": float(result.objective_history.min()),
        "gap": result.duality_gap / float(result.objective_history.min()),
        "patterns": len(result.patterns) / n_samples,
        "off_active": float((off & active[:, None]).mean()),
        "off_inactive": float((off & ~active[:, None]).mean()),
    }, asked


def replay(asked: list[Any]) -> dict[str, Any]:
    """Seconds of a mixed-integer solver for what the integer steps of a fit were asked, and its answers."""
    seconds, n_samples, different = 0.0, 0, 0
    for contributions, requirements, initial, max_switches, previous, *_ in asked:
        ours = choose_switches(contributions, requirements, initial, max_switches, previous)
        instances = [
            Instance(c, float(r) - 1e-8 * max(1.0, abs(r)), initial, max_switches)
            for c, r in zip(contributions.T, requirements, strict=True)
        ]
        start = time.process_time()
        theirs = [by_milp(instance) for instance in instances]
        seconds += time.process_time() - start
        n_samples += len(instances)
        pairs = zip(ours.sum(axis=0), theirs, strict=True)
        different += sum(number is not None and number != int(mine) for mine, number in pairs)
    return {"seconds": seconds, "samples": n_samples, "different": different}


def beside(name: str, n_samples: int, regs: Sequence[float]) -> dict[str, Any]:
    """Solved SVMs and seconds of SAMKL, SimpleMKL and LMKL over a grid of C, and how many kernels SAMKL turns off.

    Twelve kernels of unit trace, all of them on at first, at most three off: the setting of the paper's section 5.1.
    """
    X, y = load_wdbc(return_X_y=True) if name == "wdbc" else fetch(name, return_X_y=True)
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    rows = np.random.default_rng(0).permutation(len(y))[:n_samples]
    X = StandardScaler().fit_transform(X[rows])
    gaussians = [Gaussian(width=float(w)) for w in np.sqrt(X.shape[1]) * 2.0 ** np.arange(-2, 7)]
    bank = KernelBank([*gaussians, *map(Polynomial, (1, 2, 3))], normalize="trace")
    models: dict[str, Any] = {
        "SAMKL": SAMKLClassifier(bank, max_switches=M0),
        "SimpleMKL": SimpleMKLClassifier(bank),
        "LMKL": LMKLClassifier(bank, random_state=0),
    }
    found: dict[str, Any] = {"set": name, "n_samples": len(X), "off": [0] * (M0 + 1)}
    for method, model in models.items():
        solves, start = 0, time.process_time()
        for C in regs:
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                fitted = clone(model).set_params(C=C).fit(X, y[rows])
            solves += int(np.sum(fitted.n_solves_))
            if method == "SAMKL":
                n_off = (~np.asarray(fitted.kernel_switches_, dtype=bool)).sum(axis=-1)
                found["off"] = (np.bincount(n_off.ravel(), minlength=M0 + 1) + found["off"]).tolist()
        found |= {f"{method} SVMs": solves, f"{method} seconds": time.process_time() - start}
    return found


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Compare and measure, on one core."""
    sets = SETS if have_real_data() and not fast else ("wdbc",)
    with threadpool_limits(1):
        counts = compare(20 if fast else 1000)
        large, _ = timed_fit(*((60, 9, 3) if fast else (500, 69, 20)))
        others = [] if fast else [timed_fit(500, 69, m0)[0] for m0 in (5, 40)]
        small, asked = timed_fit(*((20, 5, 2) if fast else (100, 12, 3)))
        solver = replay(asked)
        besides = [beside(name, 60 if fast else 300, REGS[:2] if fast else REGS) for name in sets]
    numbers = {"comparison": counts, "large": large, "others": others, "small": small, "milp": solver}
    numbers["beside"] = besides
    return _report(numbers), numbers


def _report(numbers: dict[str, Any]) -> str:
    counts, large, small, solver = (numbers[name] for name in ("comparison", "large", "small", "milp"))
    rows = []
    for fit in (large, *numbers["others"], small):
        rows.append(
            f"{fit['n_samples']}, {fit['n_kernels']}, {fit['max_switches']} | {fit['seconds']:.2f} | "
            f"{100 * fit['integer_seconds'] / fit['seconds']:.2f} | {fit['alternations']} | "
            f"{fit['machines']} | {fit['first_objective']:.1f} → {fit['objective']:.2f} | "
            f"{fit['gap']:.0e} | {fit['patterns']:.2f} | {100 * fit['off_active']:.0f} | "
            f"{100 * fit['off_inactive']:.0f}"
        )
    headers = ["N, P, m0", "seconds", "integer step %", "alternations", "machines", "objective", "gap"]
    headers += ["patterns / N", "off, active %", "off, inactive %"]
    ratio = solver["seconds"] / small["integer_seconds"]
    whole = (small["seconds"] - small["integer_seconds"] + solver["seconds"]) / small["seconds"]
    asked = [
        ["integer step, other answers than `milp`", "0", f"{counts['different']} of {counts['instances']}"],
        ["integer step, constraints violated", "0", f"{counts['violated']} of {counts['instances']}"],
        [
            f"seconds of a fit, N = {large['n_samples']}, P = {large['n_kernels']}",
            f"< {FIT_ASKED:g}",
            f"{large['seconds']:.1f}",
        ],
        [
            "share of the integer step",
            f"< {100 * SHARE_ASKED:g} %",
            f"{100 * large['integer_seconds'] / large['seconds']:.2f} %",
        ],
        [
            f"`milp` / ours, integer step, N = {small['n_samples']}, P = {small['n_kernels']}",
            f"> {RATIO_ASKED:g}",
            f"{ratio:.0f}",
        ],
    ]
    return (
        f"{markdown_table(['SAMKL', 'asked', 'measured'], asked)}\n\n"
        f"Random instances have {', '.join(map(str, SIZES))} kernels, every second whole numbers with ties; "
        f"{counts['infeasible']} are infeasible, for both. Kernels take 30 % of the samples for others; C = 10, "
        "relative duality gap 1e-2, seconds of one processor core.\n\n"
        f"{markdown_table(headers, rows)}\n\n"
        f"In the smallest fit the integer step is asked {solver['samples']} times for the switches of a sample. The "
        f"mixed-integer solver (HiGHS) takes {solver['seconds']:.2f} s for that, ours "
        f"{small['integer_seconds']:.4f} s, and {solver['different']} of its answers have another number "
        f"of kernels. With it the whole fit would take {whole:.0f} times as long.\n\n"
        f"{_report_beside(numbers['beside'])}"
    )


def _report_beside(found: list[dict[str, Any]]) -> str:
    methods = ("SAMKL", "SimpleMKL", "LMKL")
    rows = []
    for one in found:
        seconds = [f"{one[f'{method} seconds']:.1f}" for method in methods]
        solves = [one[f"{method} SVMs"] for method in methods]
        shares = 100 * np.array(one["off"]) / np.sum(one["off"])
        rows.append(
            [f"{one['set']}, {one['n_samples']}", *solves, *seconds, *(f"{share:.0f}" for share in shares)]
        )
    headers = ["set, N", *(f"SVMs, {method}" for method in methods), *(f"s, {method}" for method in methods)]
    headers += [f"{n} off, %" for n in range(M0 + 1)]
    kinds = ("SVMs", "seconds")
    ratios = [[one[f"SAMKL {what}"] / one[f"SimpleMKL {what}"] for one in found] for what in kinds]
    off = np.sum([one["off"] for one in found], axis=0)
    return (
        f"Fits of {len(REGS)} values of C, from 0.1 to 10 000, as the paper has them, with twelve kernels of unit "
        f"trace (nine widths, three degrees), all on at first and at most {M0} off; seconds of one core.\n\n"
        f"{markdown_table(headers, rows)}\n\n"
        f"SAMKL solves {min(ratios[0]):.1f} to {max(ratios[0]):.1f} times as many SVMs as SimpleMKL, in "
        f"{min(ratios[1]):.1f} to {max(ratios[1]):.1f} times the seconds. Exactly {M0} kernels are off for "
        f"{100 * off[M0] / off.sum():.0f} % of the samples."
    )


def draw(numbers: dict[str, Any]) -> None:
    """Figure 1 of the paper: kernels of single features of cells, switched off for some of them."""
    data = load_wdbc()
    rows = np.random.default_rng(0).permutation(len(data.target))[:150]
    rows = rows[np.argsort(data.target[rows], kind="stable")]  # one class above the other
    X = StandardScaler().fit_transform(data.data[rows])
    model = SAMKLClassifier(
        KernelBank(Gaussian(width=1), views="each"), C=10.0, max_switches=5, fallback=False
    )
    with threadpool_limits(1):
        model.fit(X, data.target[rows])
    ax = plot_switches(model.kernel_switches_, model.kernel_weights_)
    ax.figure.savefig(STATIC / "samkl_switches.png")
