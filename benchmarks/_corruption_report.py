"""Tables and words for the corruption study: accuracies, paired tests, what the switches did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _report import claim, markdown_table
from scipy.stats import ttest_rel

LEVEL = 0.05
RIVALS = ("uniform", "LpMKL, p = 2", "LMKL")
Condition = tuple[Any, ...]
TIES = ("smallest", "largest", "random")
READINGS = ("", ", normalized", ", one-versus-rest")
LEAST = -1.0  # points over SimpleMKL in any condition


class Study:
    """The numbers, by condition and method."""

    def __init__(
        self, size: dict[str, Any], cells: dict[tuple[Any, ...], dict[str, Any]], kind: str = "main"
    ) -> None:
        self.size = size
        self.seconds = sum(result["seconds"] for result in cells.values())
        self._splits: dict[Condition, list[dict[str, Any]]] = {}
        for (of, *condition, _), result in sorted(cells.items(), key=lambda cell: cell[0][-1]):
            if of == kind:
                if kind == "main" and condition[1] == 0.0:
                    condition[0] = "none"
                self._splits.setdefault(tuple(condition), []).append(result)
        self.conditions = sorted(self._splits, key=lambda c: (c[0] != "none", c))

    def accuracies(self) -> dict[str, dict[str, list[float]]]:
        """Accuracies by condition and method, for a file."""
        return {
            ", ".join(map(str, condition)): {
                method: [split["methods"][method]["accuracy"] for split in splits]
                for method in splits[0]["methods"]
            }
            for condition, splits in self._splits.items()
        }

    def gains(self, method: str, rival: str = "SimpleMKL") -> dict[Condition, float]:
        """Points of accuracy over another method, on average over the splits of each condition."""
        return {
            c: 100.0 * float(np.mean(self.values(c, method) - self.values(c, rival))) for c in self.conditions
        }

    def values(self, condition: Condition, method: str, name: str = "accuracy") -> np.ndarray:
        """One number per split."""
        return np.array([split["methods"][method].get(name, 0.0) for split in self._splits[condition]], float)

    def known(self, condition: Condition, name: str) -> float:
        """Mean over splits of what the generator knows."""
        return float(np.mean([split[name] for split in self._splits[condition]]))

    def everywhere(self, method: str, name: str) -> np.ndarray:
        """The numbers of all splits of all conditions."""
        return np.concatenate([self.values(condition, method, name) for condition in self.conditions])

    def verdicts(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[Condition, str, str], int]:
        """+1 where the first of two methods is significantly better in a condition, -1 worse, 0 neither (Holm)."""
        cases = [(condition, *pair) for condition in self.conditions for pair in pairs]
        differences = [self.values(c, a) - self.values(c, b) for c, a, b in cases]
        adjusted = holm([paired_p_value(d) for d in differences])
        return {
            case: int(np.sign(d.mean())) if p < LEVEL else 0
            for case, d, p in zip(cases, differences, adjusted, strict=True)
        }


def paired_p_value(differences: np.ndarray) -> float:
    """Two-sided p value of the paired t test; 1 where all pairs are equal or there is one pair only."""
    if len(differences) < 2 or not differences.any():
        return 1.0
    if np.ptp(differences) == 0.0:
        return 0.0
    return float(ttest_rel(differences, np.zeros_like(differences)).pvalue)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return p values that are corrected for their number, by Holm's step-down rule."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def claims(cells: dict[tuple[Any, ...], dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare with what was asked for."""
    main, many = Study({}, cells), Study({}, cells, "many")
    return [
        claim(
            "SAMKL: points over SimpleMKL, worst condition",
            LEAST,
            min(main.gains("SAMKL").values()),
            "",
            True,
        ),
        claim("the same with 12 to 69 kernels", LEAST, min(many.gains("SAMKL").values()), "", True),
    ]


def accuracies(cells: dict[tuple[Any, ...], dict[str, Any]]) -> dict[str, Any]:
    """All accuracies, for a file."""
    return {kind: Study({}, cells, kind).accuracies() for kind in ("main", "many")}


def report(size: dict[str, Any], cells: dict[tuple[Any, ...], dict[str, Any]]) -> str:
    """Return tables and conclusions."""
    study = Study(size, cells)
    budgets = [m0 for m0 in size["budgets"] if m0 > 0]
    paper = min(budgets, key=lambda m0: abs(m0 - 2))  # a quarter of the kernels
    parts = [
        _setting(study),
        _accuracies(study),
        _conclusions(study),
        _readings(study, budgets),
        _many(Study(size, cells, "many")),
        _switches(study, paper, budgets),
    ]
    return "\n\n".join(parts)


def _setting(study: Study) -> str:
    size = study.size
    budgets, prices = _listed(size["budgets"]), _listed(size["prices"])
    return (
        f"Eight kernels, {size['n_train']} training and {size['n_test']} test samples, {size['n_splits']} splits "
        f"with samples of their own. C from {prices} by {size['n_folds']}-fold cross-validation, the same folds for "
        "all. *SAMKL* has its defaults, and compares one switch per sample with none. The columns after it switch "
        f"whether that helps or not (`fallback=False`), by each rule of ties, with C and the budget m0 from "
        f"{budgets} by cross-validation. Each pair of a sample and a kernel is corrupted with the given probability. "
        f"The whole study took {study.seconds / 60.0:.0f} minutes of one core."
    )


def _accuracies(study: Study) -> str:
    names = (*RIVALS, "SimpleMKL", "SAMKL", *TIES)
    others = [name for name in names if name != "SimpleMKL"]
    verdicts = study.verdicts([(name, "SimpleMKL") for name in others])

    def cell(condition: Condition, name: str) -> str:
        verdict = verdicts.get((condition, name, "SimpleMKL"), 0)
        return f"{_percent(study.values(condition, name))}{('', ' ↑', ' ↓')[verdict]}"

    rows = [
        [
            *_named(condition),
            f"{100 * study.known(condition, 'bayes_accuracy'):.1f}",
            f"{100 * study.known(condition, 'informed_accuracy'):.1f}",
            *(cell(condition, name) for name in names),
        ]
        for condition in study.conditions
    ]
    headers = ["corruption", "share", "best, clean", "best, told", *names]
    return (
        "Test accuracy in percent. *Best, clean* is the best possible without corruption, *best, told* with the "
        "corrupted pairs known. ↑ (↓): significantly better (worse) than SimpleMKL, paired t test at "
        f"{_share(LEVEL)} after Holm's correction for all comparisons of the table.\n\n"
        f"{markdown_table(headers, rows)}"
    )


def _conclusions(study: Study) -> str:
    """Answer the paper's claim: it consistently outperforms the others."""
    lines = []
    for method in ("SAMKL", *TIES):
        title = method if method == "SAMKL" else f"Switches, {method}, m0 by cross-validation,"
        for rival in ("SimpleMKL", "uniform", "LpMKL, p = 2", "LMKL"):
            if method != "SAMKL" and rival != "SimpleMKL":
                continue
            verdicts = {c: v for (c, _, _), v in study.verdicts([(method, rival)]).items()}
            gains = study.gains(method, rival)
            worst = min(gains, key=lambda c: gains[c])
            lines.append(
                f"* {title} against {rival}: {np.mean(list(gains.values())):+.1f} points on average, "
                f"{gains[worst]:+.1f} in the worst condition ({_names([worst])}), significantly better in "
                f"{_where(verdicts, 1)}, worse in {_where(verdicts, -1)}."
            )
    none = ", ".join(
        f"{_share(np.mean(study.everywhere(ties, 'max_switches') == 0))} ({ties})" for ties in TIES
    )
    return (
        f"The paper finds SAMKL better than SimpleMKL, LpMKL and uniform weights throughout. Here, of "
        f"{len(study.conditions)} conditions:\n\n"
        + "\n".join(lines)
        + f"\n\nThe default keeps its switches in {_share(study.everywhere('SAMKL', 'is_local').mean())} of the "
        f"splits, and is SimpleMKL in the others. Cross-validation chooses m0 = 0, no switches at all, in {none} of "
        "them. "
        + _held(study)
        + " LMKL takes its gates from the features, which are clean unless it is them that are corrupted: no other "
        "method sees them."
    )


def _held(study: Study) -> str:
    verdicts = study.verdicts([(m, "SimpleMKL") for m in ("SAMKL", *TIES)])
    better = sorted({condition for (condition, _, _), verdict in verdicts.items() if verdict > 0})
    if not better:
        return "The claim holds nowhere here: no condition has switches significantly better than SimpleMKL."
    return f"Switches are significantly better than SimpleMKL in {_names(better)}, and the claim holds there only."


def _readings(study: Study, budgets: list[int]) -> str:
    """Rules of ties, budgets, and ways to read scores: points over SimpleMKL."""

    def cell(name: str) -> str:
        gains = list(study.gains(name).values())
        return f"{np.mean(gains):+.1f} ({min(gains):+.1f})"

    columns = [*(f", m0 = {m0}" for m0 in budgets), ""]
    rows = [
        [f"{ties}{reading}", *(cell(f"{ties}{column}{reading}") for column in columns)]
        for ties in TIES
        for reading in READINGS
    ]
    headers = ["ties of eq. 15, scores", *(f"m0 = {m0}" for m0 in budgets), "m0 by cross-validation"]
    return (
        "Several choices of switches are often equally small (eq. 15), and the paper leaves to its solver which one "
        "is taken. Scores as printed in the paper, normalized (divided by τ of the pattern), and one against the "
        "rest (eq. 18, in favor of the second class). Points of accuracy over SimpleMKL with `fallback=False`, on "
        f"average over all conditions, and in brackets in the worst:\n\n{markdown_table(headers, rows)}"
    )


def _many(study: Study) -> str:
    """More kernels, and several classes."""
    names = ("uniform", "SAMKL", *TIES)
    kinds = list(dict.fromkeys((c[0], c[1]) for c in study.conditions))
    rows = []
    for kind in kinds:
        of = [c for c in study.conditions if (c[0], c[1]) == kind]
        gains = {name: [study.gains(name)[c] for c in of] for name in names}
        simple = 100.0 * np.mean([study.values(c, "SimpleMKL").mean() for c in of])
        rows.append(
            [
                kind[0],
                kind[1],
                f"{simple:.1f}",
                *(f"{np.mean(gains[name]):+.1f} ({min(gains[name]):+.1f})" for name in names),
            ]
        )
    size = study.size
    return (
        "More kernels, together as informative as the eight, and four classes, one against the rest, where half of "
        f"the kernels see one of two labels and half the other: a share of {size['many_fraction']:g} corrupted in "
        f"the three ways, {size['many_splits']} splits each, C from {_listed(size['many_prices'])}, m0 from 0, 1 and "
        "a quarter of the kernels. Accuracy of SimpleMKL in percent, and points over it, on average and for the "
        f"worst way:\n\n{markdown_table(['kernels', 'classes', 'SimpleMKL', *names], rows)}"
    )


def _switches(study: Study, paper: int, budgets: list[int]) -> str:
    def row(label: list[str], mean: Callable[[str], float], fraction: float) -> list[str]:
        active, corrupted = mean("off_active"), mean("off_active_corrupted")
        return [
            *label,
            f"{mean('patterns'):.2f}",
            f"{mean('iterations'):.1f}",
            f"{100 * active:.1f}",
            f"{100 * mean('off_inactive'):.1f}",
            f"{100 * corrupted / active:.0f} ({100 * fraction:.0f})" if active > 0.0 else "–",
            f"{100 * mean('train_accuracy'):.1f}",
            f"{100 * mean('accuracy'):.1f}",
            f"{1e3 * mean('train_s'):.0f}",
            f"{1e3 * mean('test_s'):.1f}",
        ]

    method = f"largest, m0 = {paper}"
    rows = [
        row(_named(c), lambda name, c=c: float(study.values(c, method, name).mean()), c[1])
        for c in study.conditions
    ]
    everywhere = float(np.mean([fraction for _, fraction in study.conditions]))
    rows += [
        row(
            [f"all, m0 = {m0}", ""],
            lambda name, m0=m0: float(study.everywhere(f"largest, m0 = {m0}", name).mean()),
            everywhere,
        )
        for m0 in budgets
    ]
    headers = ["corruption", "share", "patterns / n", "alternations", "off, active %", "off, inactive %"]
    headers += [
        "of active, corrupted % (by chance)",
        "training accuracy",
        "test accuracy",
        "train ms",
        "test ms",
    ]
    rivals = ", ".join(
        f"{name} {1e3 * study.everywhere(name, 'train_s').mean():.0f} / "
        f"{1e3 * study.everywhere(name, 'test_s').mean():.1f} ms"
        for name in (*RIVALS, "SimpleMKL", "SAMKL")
    )
    shrink = float(study.everywhere(method, "objective_share").mean())
    return (
        f"What the switches do at m0 = {paper} by the largest sum, C from cross-validation: different patterns per "
        "training sample, alternations, shares of all switches that are off with a weight (active) and without "
        "(inactive), and how many of the active ones belong to corrupted pairs, beside what chance gives.\n\n"
        f"{markdown_table(headers, rows)}\n\n"
        f"Training / test time of the others: {rivals}. The alternation brings the objective down to "
        f"{_share(shrink)} of where it starts; switches are chosen with the labels known, and neither this nor the "
        "training accuracy says anything about new samples."
    )


def _named(condition: Condition) -> list[str]:
    corruption, fraction = condition
    return [corruption, f"{fraction:.1f}"]


def _percent(values: np.ndarray) -> str:
    return f"{100 * values.mean():.1f}"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _where(verdicts: dict[Condition, int], verdict: int) -> str:
    found = [condition for condition, v in verdicts.items() if v == verdict]
    if len(found) == len(verdicts):
        return f"all {len(found)}"
    return f"{len(found)} ({_names(found)})" if found else "none"


def _names(conditions: Sequence[Condition]) -> str:
    """Name conditions, fractions of one corruption together."""
    kinds = list(dict.fromkeys(kind for kind, _ in conditions))
    return "; ".join(
        kind if kind == "none" else f"{kind} {', '.join(f'{f:.1f}' for k, f in conditions if k == kind)}"
        for kind in kinds
    )
