"""SAMKL and others where kernels are wrong for some samples: does switching them off help, and where.

Eight kernels of unequal worth (`make_corrupted` with its defaults) in three ways of corruption. All methods choose
their parameters by the same inner cross-validation on the same folds. Every split has samples of its own, drawn anew:
splits are independent, and the plain paired t test has the level that it promises. Eq. 15 of SAMKL often has several
solutions; every rule that takes one is measured, beside the default, which may keep all kernels on. The same with 12
to 69 kernels, and with 12 for four classes, one against the rest.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _cells import completed
from _corruption_report import accuracies, claims, report
from sklearn import config_context
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Bunch
from threadpoolctl import threadpool_limits

from bayesmkl.datasets import make_corrupted
from bayesmkl.discriminative import (
    LMKLClassifier,
    LpMKLClassifier,
    SAMKLClassifier,
    SimpleMKLClassifier,
    UniformMKLClassifier,
)

GAP = 1e-2  # of all convex methods, the default of SAMKL
PLAIN: dict[str, Callable[[float], Any]] = {
    "uniform": lambda C: UniformMKLClassifier("precomputed", C=C),
    "LpMKL, p = 2": lambda C: LpMKLClassifier("precomputed", C=C, p_norm=2.0, tol=GAP),
    "SimpleMKL": lambda C: SimpleMKLClassifier("precomputed", C=C, tol=GAP),
    "LMKL": lambda C: LMKLClassifier("precomputed", C=C),
    "SAMKL": lambda C: SAMKLClassifier("precomputed", C=C),
}
TIES = ("smallest", "largest", "random")  # with switches whether they help or not
PLAIN_READING = ("auto", False)
READINGS = {
    "": PLAIN_READING,
    ", normalized": ("auto", True),
    ", one-versus-rest": ("one-versus-rest", False),
}
SEPARATIONS = (1.0, 1.0, 0.7, 0.7, 0.5, 0.5, 0.0, 0.0)  # the default of `make_corrupted`
Reading = tuple[str, bool]  # rule, and whether scores are normalized


class Size(NamedTuple):
    """How large the study is."""

    n_splits: int = 20
    n_train: int = 100
    n_test: int = 200
    corruptions: tuple[str, ...] = ("features", "kernels", "similarities")
    fractions: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    prices: tuple[float, ...] = (0.1, 1.0, 10.0)
    budgets: tuple[int, ...] = (0, 1, 2, 4)
    n_folds: int = 3
    many: tuple[int, ...] = (12, 69)  # kernels
    many_fraction: float = 0.3
    many_splits: int = 5
    many_prices: tuple[float, ...] = (1.0, 10.0)


FAST = Size(2, 30, 30, ("kernels",), (0.3,), (1.0,), (0, 2), 2, (12,), 0.3, 1, (1.0,))


class Candidate(NamedTuple):
    """A method with its parameters; without switches, or with them by a rule of ties."""

    method: str
    C: float
    max_switches: int = 0
    ties: str = ""

    def fit(self, rows: Rows) -> Any:
        """Train on some samples."""
        if self.ties:
            model = SAMKLClassifier(
                "precomputed", C=self.C, max_switches=self.max_switches, ties=self.ties, fallback=False
            )
        else:
            model = PLAIN[self.method](self.C)
        return model.fit(rows.kernels, rows.target, **rows.gate_features(self.method))

    def accuracies(self, model: Any, rows: Rows, readings: list[Reading]) -> dict[Reading, float]:
        """Accuracy by every way to read scores that the method has."""
        features = rows.gate_features(self.method)
        if not self.ties:
            return {PLAIN_READING: model.score(rows.kernels, rows.target, **features)}
        return {
            (rule, normalize): model.set_params(rule=rule, normalize=normalize).score(
                rows.kernels, rows.target
            )
            for rule, normalize in readings
        }


class Rows(NamedTuple):
    """Some samples and their kernels with the training samples, which LMKL also needs the features of."""

    kernels: np.ndarray
    target: np.ndarray
    data: np.ndarray

    def gate_features(self, method: str) -> dict[str, np.ndarray]:
        """Return the argument that LMKL alone has."""
        return {"gate_features": self.data} if method == "LMKL" else {}


class Choice(NamedTuple):
    """What a column of the tables chooses from, simpler candidates first, and how it reads scores."""

    name: str
    pool: list[Candidate]
    reading: Reading = PLAIN_READING


def rows_of(sample: Any, rows: np.ndarray, columns: np.ndarray) -> Rows:
    return Rows(
        np.ascontiguousarray(sample.kernels[np.ix_(rows, columns)]), sample.target[rows], sample.data[rows]
    )


def switched(ties: str, prices: tuple[float, ...], budgets: tuple[int, ...]) -> list[Candidate]:
    """SAMKL with switches; without any, for all rules of ties the same candidates."""
    return [Candidate("SAMKL", C, m0, ties if m0 else TIES[0]) for m0 in budgets for C in prices]


def choices(size: Size) -> Iterator[Choice]:
    """What the main study compares."""
    for method in PLAIN:
        yield Choice(method, [Candidate(method, C) for C in size.prices])
    for ties in TIES:
        everything = switched(ties, size.prices, size.budgets)
        for suffix, reading in READINGS.items():
            yield Choice(f"{ties}{suffix}", everything, reading)
            for m0 in size.budgets[1:]:
                pool = [c for c in everything if c.max_switches == m0]
                yield Choice(f"{ties}, m0 = {m0}{suffix}", pool, reading)


def choices_of_many(size: Size, n_kernels: int) -> Iterator[Choice]:
    """What is compared with many kernels."""
    for method in ("uniform", "SimpleMKL", "SAMKL"):
        yield Choice(method, [Candidate(method, C) for C in size.many_prices])
    for ties in TIES:
        yield Choice(ties, switched(ties, size.many_prices, (0, 1, n_kernels // 4)))


def one_split(sample: Any, size: Size, seed: int, compared: list[Choice]) -> dict[str, dict[str, Any]]:
    """Tune every method on the training part and test it."""
    train, test = np.arange(size.n_train), np.arange(size.n_train, size.n_train + size.n_test)
    candidates = list(dict.fromkeys(c for choice in compared for c in choice.pool))
    readings = list(dict.fromkeys(choice.reading for choice in compared))
    accuracies: dict[tuple[Candidate, Reading], list[float]] = {}
    folds = StratifiedKFold(size.n_folds, shuffle=True, random_state=seed)
    for inner, outer in folds.split(train, sample.target[train]):
        learning, checking = rows_of(sample, inner, inner), rows_of(sample, outer, inner)
        for candidate in candidates:
            found = candidate.accuracies(candidate.fit(learning), checking, readings)
            for reading, accuracy in found.items():
                accuracies.setdefault((candidate, reading), []).append(accuracy)
    learning, checking = rows_of(sample, train, train), rows_of(sample, test, train)
    tested: dict[Candidate, dict[str, Any]] = {}
    outcome = {}
    for choice in compared:
        best = max(choice.pool, key=lambda c: round(float(np.mean(accuracies[c, choice.reading])), 9))
        if best not in tested:
            tested[best] = final(best, learning, checking, sample.corrupted[train], readings)
        found = tested[best]
        outcome[choice.name] = {
            "accuracy": found["accuracies"][choice.reading],
            "max_switches": best.max_switches,
            **found["facts"],
        }
    return outcome


def final(
    candidate: Candidate, learning: Rows, checking: Rows, corrupted: np.ndarray, readings: list[Reading]
) -> dict[str, Any]:
    """Train on all training samples; accuracies on the others, processor seconds, what became of the switches."""
    start = time.process_time()
    model = candidate.fit(learning)
    middle = time.process_time()
    model.decision_function(checking.kernels, **checking.gate_features(candidate.method))
    facts = {"train_s": middle - start, "test_s": time.process_time() - middle}
    if candidate.method == "SAMKL":
        facts["is_local"] = float(np.mean(model.is_local_))
    if candidate.ties and len(model.classes_) == 2:
        off, active = ~model.kernel_switches_, model.kernel_weights_ > 0.0
        facts |= {
            "patterns": len(model.patterns_) / len(off),
            "iterations": int(model.n_iter_),
            "off_active": float((off & active).mean()),
            "off_inactive": float((off & ~active).mean()),
            "off_active_corrupted": float((off & active & corrupted).mean()),
            "train_accuracy": model.score(learning.kernels, learning.target),
            "objective_share": float(model.objective_history_.min() / model.objective_history_[0]),
        }
    accuracies = candidate.accuracies(model, checking, readings)
    return {"accuracies": accuracies, "facts": {name: float(f"{v:.4g}") for name, v in facts.items()}}


def conditions(size: Size) -> Iterator[tuple[str, float]]:
    """Ways and fractions of corruption; without any, the ways are one."""
    for fraction in size.fractions:
        for corruption in size.corruptions if fraction > 0.0 else size.corruptions[:1]:
            yield corruption, fraction


def drawn(size: Size, corruption: str, fraction: float, seed: int, n_kernels: int = 8) -> Any:
    """Training and test samples of a split; kernels together as informative as the eight."""
    base = np.tile(SEPARATIONS, -(-n_kernels // 8))[:n_kernels]
    scale = np.sqrt(np.sum(np.square(SEPARATIONS)) / np.sum(base**2))
    return make_corrupted(
        size.n_train + size.n_test,
        corruption=corruption,
        fraction=fraction,
        separations=tuple(base if n_kernels == 8 else scale * base),
        random_state=seed,
    )


def four_classes(size: Size, corruption: str, fraction: float, seed: int, n_kernels: int) -> Any:
    """Two labels that are drawn apart, each seen by half of the kernels; a class is a pair of them."""
    sizes = (n_kernels // 2, n_kernels - n_kernels // 2)
    one, two = (drawn(size, corruption, fraction, 2 * seed + i, n) for i, n in enumerate(sizes))
    return Bunch(
        kernels=np.concatenate([one.kernels, two.kernels], axis=2),
        target=(one.target > 0) + 2 * (two.target > 0),
        data=np.hstack([one.data, two.data]),
        corrupted=np.hstack([one.corrupted, two.corrupted]),
    )


def main_unit(size: Size, corruption: str, fraction: float, seed: int) -> dict[str, Any]:
    """A split of a condition of the main study."""
    sample = drawn(size, corruption, fraction, seed)
    return {
        "bayes_accuracy": 1.0 - sample.bayes_error,
        "informed_accuracy": 1.0 - sample.informed_error,
        "methods": one_split(sample, size, seed, list(choices(size))),
    }


def many_unit(size: Size, n_kernels: int, n_classes: int, corruption: str, seed: int) -> dict[str, Any]:
    """A split of the study with many kernels."""
    draw = drawn if n_classes == 2 else four_classes
    sample = draw(size, corruption, size.many_fraction, seed, n_kernels)
    return {"methods": one_split(sample, size, seed, list(choices_of_many(size, n_kernels)))}


def run(
    fast: bool, splits: int | None = None, cells: Path | None = None, part: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Run the study: all conditions of a split on the same clean samples."""
    size = FAST if fast else Size()
    size = (
        size if splits is None else size._replace(n_splits=splits, many_splits=min(splits, size.many_splits))
    )
    units: list[tuple[Any, ...]] = [
        ("main", corruption, fraction, seed)
        for seed in range(size.n_splits)
        for corruption, fraction in conditions(size)
    ]
    units += [
        ("many", n_kernels, n_classes, corruption, seed)
        for seed in range(size.many_splits)
        for n_kernels in size.many
        for n_classes in ((2, 4) if n_kernels == min(size.many) else (2,))
        for corruption in size.corruptions
    ]

    def computed(kind: str, *unit: Any) -> dict[str, Any]:
        start = time.process_time()
        quick = config_context(
            assume_finite=True, skip_parameter_validation=True
        )  # SVMs take milliseconds here
        with threadpool_limits(1), quick, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = (main_unit if kind == "main" else many_unit)(size, *unit)
        return found | {"seconds": time.process_time() - start}

    found = completed(units, computed, cells, part)
    if part is not None:
        return f"{len(found)} of {len(units)} fits done", {}
    found = {unit: found[unit] for unit in units}
    numbers = {"size": size._asdict(), "claims": claims(found), "accuracies": accuracies(found)}
    return report(size._asdict(), found), numbers
