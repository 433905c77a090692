"""Multiplicative weights as the machine inside localized methods: table 3 of the unified view, accuracy, memory.

How fast and how accurate methods are with either machine; what a smaller epsilon costs, and which one gives the
paper's times; how much memory either takes (`_localized_memory.py`).
"""

from __future__ import annotations

import math
import os
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _localized_memory import measure_all
from _localized_memory import report as report_memory
from _localized_protocol import GAMMAS, SETS, VARIANTS, Split, choose_width, load, split
from _report import markdown_table, mean_and_std
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative import _multiplicative

__all__ = ["run"]

EPSILON = 0.05  # the default
EPSILONS = (0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
PAPER_EPSILON = 0.01
SWEPT = ("LMKL, paper's search", "LMKL", "C-LMKL", "SwMKL", "LD-MKL")
COSTLY_ROWS = 2000  # most training samples of LMKL and C-LMKL on mushrooms
SMALL = ("breast", "diabetes", "german", "liver")
TITLES = (
    "LMKL, paper's search",
    "LMKL",
    "SwMKL, paper",
    "SwMKL",
    "LD-MKL, paper",
    "LD-MKL",
    "C-LMKL",
)


class Published(NamedTuple):
    """A cell of table 3: accuracy and its deviation (%), seconds."""

    accuracy: tuple[float, float]
    seconds: float


PUBLISHED = {
    "breast": {
        "LMKL": Published((97.08, 1.1), 0.18),
        "SwMKL": Published((96.42, 1.6), 0.18),
        "LD-MKL": Published((93.4, 2.2), 0.63),
        "C-LMKL": Published((90.4, 2.4), 5.6),
    },
    "diabetes": {
        "LMKL": Published((73.19, 3.39), 0.27),
        "SwMKL": Published((76.63, 2.9), 0.29),
        "LD-MKL": Published((77.0, 3.4), 0.48),
        "C-LMKL": Published((71.1, 10.0), 7.2),
    },
    "german": {
        "LMKL": Published((70.07, 3.1), 0.63),
        "SwMKL": Published((72.2, 3.29), 0.62),
        "LD-MKL": Published((73.0, 3.8), 1.0),
        "C-LMKL": Published((73.4, 4.1), 16.3),
    },
    "liver": {
        "LMKL": Published((56.82, 6.53), 0.13),
        "SwMKL": Published((59.63, 10.47), 0.11),
        "LD-MKL": Published((58.8, 8.0), 0.3),
        "C-LMKL": Published((49.7, 6.3), 1.45),
    },
    "mushrooms": {
        "LMKL": Published((99.87, 0.1), 24.4),
        "SwMKL": Published((99.9, 0.0), 21.3),
        "LD-MKL": Published((99.9, 0.1), 53.0),
        "C-LMKL": Published((98.8, 0.24), 31.4 * 60),
    },
}


class Found(NamedTuple):
    """One fit."""

    accuracy: float  # %
    support: float  # %
    seconds: float  # of the processor
    n_machines: int  # trained by multiplicative weights
    n_steps: int  # of all of them


class StepCount:
    """Machines and steps of multiplicative weights: takes the place of their function."""

    def __init__(self) -> None:
        self.n_machines = self.n_steps = 0
        self._fit = _multiplicative.fit_mwumkl

    def __enter__(self) -> StepCount:
        _multiplicative.fit_mwumkl = self._counted
        return self

    def __exit__(self, *_: Any) -> None:
        _multiplicative.fit_mwumkl = self._fit

    def _counted(self, *arguments: Any) -> Any:
        result = self._fit(*arguments)
        self.n_machines += 1
        self.n_steps += len(result.objective_history)
        return result


def fit(title: str, gamma: float, part: Split, epsilon: float | None) -> Found:
    """Fit with multiplicative weights, or with LibSVM where `epsilon` is None."""
    model = VARIANTS[title].make(part.bank(gamma))
    if epsilon is not None:
        model.set_params(svm="mwu", mwu_epsilon=epsilon)
    with warnings.catch_warnings(), StepCount() as count:
        warnings.simplefilter("ignore")  # narrow Gaussian kernels are near the identity
        start = time.process_time()
        model.fit(part.X, part.y)
        seconds = time.process_time() - start
        accuracy = 100.0 * model.score(part.X_test, part.y_test)
    return Found(accuracy, 100.0 * model.support_fraction_, seconds, count.n_machines, count.n_steps)


def run(fast: bool, splits: int | None = None) -> tuple[str, dict[str, Any]]:
    """All three parts, on the paper's sets or on wdbc where these are missing."""
    here = fast or not os.environ.get("BAYESMKL_DATA")
    names = ("wdbc",) if here else (*SMALL, "mushrooms")
    n_splits = splits or (1 if here else 6)
    rows = 100 if fast else None
    titles = SWEPT[2:] if fast else TITLES
    epsilons = (0.3, EPSILON) if fast else EPSILONS
    with threadpool_limits(1):
        table = {
            name: compare(name, titles, n_splits if name in SMALL or here else 1, rows) for name in names
        }
        swept = {name: sweep(name, table[name], epsilons, rows) for name in names if name != "mushrooms"}
        memory = measure_all(fast=here)
    numbers = {"table": table, "epsilon": swept, "memory": memory}
    parts = [
        report_table(table, n_splits, here),
        report_claims(table),
        report_epsilon(swept),
        report_memory(memory),
    ]
    return "\n\n".join(parts), numbers


def parts_of(name: str, seed: int, title: str, n_rows: int | None) -> Split:
    """Return a split, cut for methods that take long on mushrooms."""
    X, y = load(name)
    chosen = np.random.default_rng(0).permutation(len(y))[:n_rows]
    part = split(X[chosen], y[chosen], seed)
    if name == "mushrooms" and VARIANTS[title].costly:
        part = part._replace(X=part.X[:COSTLY_ROWS], y=part.y[:COSTLY_ROWS])
    return part


def compare(name: str, titles: tuple[str, ...], n_splits: int, n_rows: int | None) -> dict[str, Any]:
    """Fit with either machine on the same splits, at the width that cross-validation with LibSVM chose once."""
    found: dict[str, Any] = {}
    for title in titles:
        first = parts_of(name, 0, title, n_rows)
        gamma = float(GAMMAS[choose_width(VARIANTS[title], GAMMAS, first, 0) if n_rows is None else 1])
        fits = {"libsvm": [], "mwu": []}
        for seed in range(n_splits):
            part = parts_of(name, seed, title, n_rows)
            fits["libsvm"].append(fit(title, gamma, part, None)._asdict())
            fits["mwu"].append(fit(title, gamma, part, EPSILON)._asdict())
        found[title] = {"gamma": gamma, "n_train": len(part.y), **fits}
    return found


def sweep(
    name: str, chosen: dict[str, Any], epsilons: tuple[float, ...], n_rows: int | None
) -> dict[str, Any]:
    """Fit on the first split with one epsilon after the other."""
    found = {}
    for title in SWEPT:
        if title in chosen:
            part, gamma = parts_of(name, 0, title, n_rows), chosen[title]["gamma"]
            fits = {str(epsilon): fit(title, gamma, part, epsilon)._asdict() for epsilon in epsilons}
            found[title] = {"n_train": len(part.y), "fits": fits}
    return found


# ------------------------------------------------------------------------------------------------------ reporting


def _method(title: str) -> str:
    return VARIANTS[title].method


def _values(fits: list[dict[str, Any]], what: str) -> list[float]:
    return [one[what] for one in fits]


def report_table(table: dict[str, Any], n_splits: int, here: bool) -> str:
    """Table 3, beside the published."""
    rows = []
    for name, of_titles in table.items():
        for title, found in of_titles.items():
            known = PUBLISHED.get(name, {}).get(_method(title))
            rows.append([name, title, *_both(found["libsvm"], found["mwu"], known)])
    headers = ["set", "method", "accuracy, LibSVM", "accuracy, MWU", "published, MWU", "support, %"]
    headers += ["s, LibSVM", "s, MWU", "published s", "machines", "steps"]
    where = "wdbc" if here else "the paper's sets"
    text = (
        f"75 % of {where} for training, C = 1, {n_splits} splits (mushrooms: one; there LMKL and C-LMKL see "
        f"{COSTLY_ROWS} rows); widths by cross-validation with LibSVM on the first split. MWU: the loss is the "
        f"squared hinge, `mwu_epsilon={EPSILON}` (relative duality gap). Support points with LibSVM / with MWU. "
        "Seconds are processor time of a fit; *machines* those that MWU trained for it, with this many steps in all."
    )
    return text + "\n\n" + markdown_table(headers, rows)


def _both(libsvm: list[dict[str, Any]], mwu: list[dict[str, Any]], known: Published | None) -> list[str]:
    def mean(fits: list[dict[str, Any]], what: str) -> float:
        return float(np.mean(_values(fits, what)))

    return [
        mean_and_std(_values(libsvm, "accuracy"), 1),
        mean_and_std(_values(mwu, "accuracy"), 1),
        "-" if known is None else f"{known.accuracy[0]:.1f} ± {known.accuracy[1]:.1f}",
        f"{mean(libsvm, 'support'):.0f} / {mean(mwu, 'support'):.0f}",
        f"{mean(libsvm, 'seconds'):.2f}",
        f"{mean(mwu, 'seconds'):.2f}",
        "-" if known is None else f"{known.seconds:.2f}",
        f"{mean(mwu, 'n_machines'):.0f}",
        f"{mean(mwu, 'n_steps'):.0f}",
    ]


def report_claims(table: dict[str, Any]) -> str:
    """Whether multiplicative weights make methods faster."""
    lines = []
    for title in TITLES:
        ratios, published, differences = [], [], []
        for name, of_titles in table.items():
            if title not in of_titles:
                continue
            found, method = of_titles[title], _method(title)
            ratios.append(
                np.sum(_values(found["libsvm"], "seconds")) / np.sum(_values(found["mwu"], "seconds"))
            )
            differences.append(
                np.mean(_values(found["mwu"], "accuracy")) - np.mean(_values(found["libsvm"], "accuracy"))
            )
            if name in PUBLISHED:
                before = SETS[name].published[method].seconds
                published.append(before / PUBLISHED[name][method].seconds)
        if ratios:
            answer = "yes" if min(ratios) > 1.0 else ("no" if max(ratios) <= 1.0 else "on some sets")
            line = f"* {title}: {answer}; LibSVM's seconds are {_range(ratios)} times those of MWU"
            line += f" (published: {_range(published)})" if published else ""
            line += f", the accuracy changes by {min(differences):+.1f} to {max(differences):+.1f} points."
            lines.append(line)
    note = (
        "The paper's LMKL had an SMO solver written in Python inside, and its C-LMKL needed 7 to 70 seconds with "
        "LibSVM on sets of this size: its ratios are to these."
    )
    return "*Does MWU make a method faster?*\n\n" + "\n".join(lines) + "\n\n" + note


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2g}" if low == high else f"{low:.2g} to {high:.2g}"


def report_epsilon(swept: dict[str, Any]) -> str:
    """What accuracy costs, and which epsilon gives the published times."""
    rows = []
    for name, of_titles in swept.items():
        for title, found in of_titles.items():
            fits = {float(epsilon): Found(**one) for epsilon, one in found["fits"].items()}
            known = PUBLISHED.get(name, {}).get(_method(title))
            rows.append([name, title, *_cells(fits), *_paper(fits, known, found["n_train"])])
    epsilons = sorted(
        (float(e) for e in next(iter(next(iter(swept.values())).values()))["fits"]), reverse=True
    )
    headers = ["set", "method", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    headers += ["published s", "ε for it", "steps", "formula: ε for it", "formula, ε = .01: steps"]
    text = (
        "What a smaller epsilon costs, on the first split: seconds (steps per machine) accuracy. *ε for it* is the "
        "smallest of these that takes no longer than published, with its steps per machine. The formula is that of "
        r"the paper's algorithm, $\lceil 2 \ln N / \varepsilon^2 \rceil$ steps for every machine; *ε for it* then is "
        "the one whose steps, at the seconds per step measured with the smallest ε here, take the published time. "
        "Stopping at the duality gap needs far fewer."
    )
    return text + "\n\n" + markdown_table(headers, rows)


def _cells(fits: dict[float, Found]) -> list[str]:
    return [
        f"{one.seconds:.2f} ({one.n_steps / one.n_machines:.0f}) {one.accuracy:.1f}"
        for _, one in sorted(fits.items(), reverse=True)
    ]


def _paper(fits: dict[float, Found], known: Published | None, n_train: int) -> list[str]:
    steps = formula_steps(n_train, PAPER_EPSILON)
    if known is None:
        return ["-", "-", "-", "-", f"{steps}"]
    fitting = [epsilon for epsilon, one in fits.items() if one.seconds <= known.seconds]
    smallest = min(fitting) if fitting else None
    finest = fits[min(fits)]
    affordable = known.seconds / (finest.seconds / finest.n_steps * finest.n_machines)  # steps of a machine
    by_formula = math.sqrt(2.0 * math.log(n_train) / affordable)
    return [
        f"{known.seconds:.2f}",
        "none" if smallest is None else f"{smallest:g}",
        "-" if smallest is None else f"{fits[smallest].n_steps / fits[smallest].n_machines:.0f}",
        f"{by_formula:.2f}",
        f"{steps}",
    ]


def formula_steps(n_train: int, epsilon: float) -> int:
    """Steps that suffice by the paper's bound."""
    return math.ceil(2.0 * math.log(n_train) / epsilon**2)
