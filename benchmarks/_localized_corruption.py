"""SAMKL and others where kernels are wrong for some samples: does switching them off help, and where.

Eight kernels of unequal worth (`make_corrupted` with its defaults) in three ways of corruption. All methods choose
their parameters by the same inner cross-validation on the same folds. Every split has samples of its own, drawn anew:
splits are independent, and the plain paired t test has the level that it promises. Eq. 15 of SAMKL often has several
solutions; how much depends on which one is taken is measured as well.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from _corruption_report import report
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from bayesmkl.datasets import make_corrupted
from bayesmkl.discriminative import LpMKLClassifier, SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.discriminative.estimators.lmkl import LMKLClassifier
from bayesmkl.discriminative.estimators.samkl import SAMKLClassifier
from bayesmkl.discriminative.localized import samkl

__all__ = ["run"]

GAP = 1e-2  # of all convex methods, the default of SAMKL
PLAIN: dict[str, Callable[[float], Any]] = {
    "uniform": lambda C: UniformMKLClassifier("precomputed", C=C),
    "LpMKL, p = 2": lambda C: LpMKLClassifier("precomputed", C=C, p_norm=2.0, tol=GAP),
    "SimpleMKL": lambda C: SimpleMKLClassifier("precomputed", C=C, tol=GAP),
    "LMKL": lambda C: LMKLClassifier("precomputed", C=C),
}


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
    tied_fraction: float = 0.3  # where solutions of eq. 15 are compared
    tied_budget: int = 2


FAST = Size(2, 30, 30, ("kernels",), (0.3,), (1.0,), (0, 2), 2)


class Candidate(NamedTuple):
    """A method with its parameters."""

    method: str
    C: float
    max_switches: int = 0

    def fit(self, rows: Rows) -> Any:
        """Train on some samples."""
        if self.method == "SAMKL":
            switches: dict[str, Any] = {"max_switches": self.max_switches, "ties": "largest"}
            model = SAMKLClassifier("precomputed", C=self.C, gap_tol=GAP, **switches)
        else:
            model = PLAIN[self.method](self.C)
        return model.fit(rows.kernels, rows.target, **rows.gate_features(self.method))

    def accuracies(self, model: Any, rows: Rows) -> dict[bool, float]:
        """Accuracy as printed in the paper and, for SAMKL, with normalized scores."""
        features = rows.gate_features(self.method)
        if self.method != "SAMKL":
            return {False: model.score(rows.kernels, rows.target, **features)}
        return {
            normalize: model.set_params(normalize=normalize).score(rows.kernels, rows.target)
            for normalize in (False, True)
        }


class Rows(NamedTuple):
    """Some samples and their kernels with the training samples, which LMKL also needs the features of."""

    kernels: np.ndarray
    target: np.ndarray
    data: np.ndarray

    def gate_features(self, method: str) -> dict[str, np.ndarray]:
        """Return the argument that LMKL alone has."""
        return {"gate_features": self.data} if method == "LMKL" else {}


def rows_of(sample: Any, rows: np.ndarray, columns: np.ndarray) -> Rows:
    return Rows(
        np.ascontiguousarray(sample.kernels[np.ix_(rows, columns)]), sample.target[rows], sample.data[rows]
    )


def pools(size: Size) -> Iterator[tuple[str, bool, list[Candidate]]]:
    """What each row of the tables chooses from, simpler candidates first, and whether it normalizes scores."""
    for method in PLAIN:
        yield method, False, [Candidate(method, C) for C in size.prices]
    for normalize in (False, True):
        suffix = ", normalized" if normalize else ""
        everything = [Candidate("SAMKL", C, m0) for m0 in size.budgets for C in size.prices]
        yield f"SAMKL{suffix}", normalize, everything
        for m0 in size.budgets[1:]:
            yield f"SAMKL, m0 = {m0}{suffix}", normalize, [c for c in everything if c.max_switches == m0]


def one_split(
    sample: Any, size: Size, seed: int, choices: list[tuple[str, bool, list[Candidate]]]
) -> dict[str, dict[str, Any]]:
    """Tune every method on the training part and test it."""
    train, test = np.arange(size.n_train), np.arange(size.n_train, size.n_train + size.n_test)
    candidates = list(dict.fromkeys(c for _, _, pool in choices for c in pool))
    accuracies: dict[tuple[Candidate, bool], list[float]] = {}
    folds = StratifiedKFold(size.n_folds, shuffle=True, random_state=seed)
    for inner, outer in folds.split(train, sample.target[train]):
        learning, checking = rows_of(sample, inner, inner), rows_of(sample, outer, inner)
        for candidate in candidates:
            found = candidate.accuracies(candidate.fit(learning), checking)
            for normalize, accuracy in found.items():
                accuracies.setdefault((candidate, normalize), []).append(accuracy)
    learning, checking = rows_of(sample, train, train), rows_of(sample, test, train)
    tested: dict[Candidate, dict[str, Any]] = {}
    outcome = {}
    for name, normalize, pool in choices:
        best = max(pool, key=lambda c: round(float(np.mean(accuracies[c, normalize])), 9))
        if best not in tested:
            tested[best] = final(best, learning, checking, sample.corrupted[train])
        found = tested[best]
        outcome[name] = {"accuracy": found["accuracies"][normalize], **best._asdict(), **found["facts"]}
    return outcome


def final(candidate: Candidate, learning: Rows, checking: Rows, corrupted: np.ndarray) -> dict[str, Any]:
    """Train on all training samples; accuracies on the others, processor seconds, what became of the switches."""
    start = time.process_time()
    model = candidate.fit(learning)
    middle = time.process_time()
    model.decision_function(checking.kernels, **checking.gate_features(candidate.method))
    facts = {"train_s": middle - start, "test_s": time.process_time() - middle}
    if candidate.method == "SAMKL":
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
    return {"accuracies": candidate.accuracies(model, checking), "facts": facts}


def conditions(size: Size) -> Iterator[tuple[str, float]]:
    """Ways and fractions of corruption; without any, the ways are one."""
    for fraction in size.fractions:
        for corruption in size.corruptions if fraction > 0.0 else size.corruptions[:1]:
            yield corruption, fraction


TIES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "smallest sum": lambda sums, rng: sums,
    "any": lambda sums, rng: rng.random(sums.shape),
}


def enumerated(rule: str, seed: int) -> Callable[..., np.ndarray]:
    """Solve eq. 15 by trying all switches within the budget; of equally many, take those that `rule` puts first."""
    rng = np.random.default_rng(seed)

    def choose(
        contributions: np.ndarray,
        requirements: np.ndarray,
        initial: np.ndarray,
        max_switches: int,
        previous: np.ndarray,
        *_: Any,  # the rule of ties, and what it draws from
    ) -> np.ndarray:
        every = np.array(list(product((False, True), repeat=len(initial))))
        every = every[(every != initial).sum(axis=1) <= max_switches]
        sums = every @ contributions
        feasible = sums >= requirements - 1e-8 * np.maximum(1.0, np.abs(requirements))
        number = np.where(feasible, every.sum(axis=1)[:, None], np.inf)
        fewest = feasible & (number == number.min(axis=0))
        best = np.where(fewest, TIES[rule](sums, rng), np.inf).argmin(axis=0)
        return np.where(feasible.any(axis=0), every[best].T, previous)

    return choose


def study_ties(size: Size) -> list[dict[str, Any]]:
    """SAMKL with other solutions of eq. 15, on the samples and folds of the main study."""
    name = f"SAMKL, m0 = {size.tied_budget}"
    choices = [
        (name, normalize, pool)
        for name_of, normalize, pool in pools(size._replace(budgets=(0, size.tied_budget)))
        if name_of == name
    ]
    found = []
    for seed in range(size.n_splits):
        for corruption in size.corruptions:
            sample = drawn(size, corruption, size.tied_fraction, seed)
            for rule in TIES:
                with mock.patch.object(samkl, "choose_switches", enumerated(rule, seed)):
                    outcome = one_split(sample, size, seed, choices)
                found.append({"split": seed, "corruption": corruption, "rule": rule, **outcome[name]})
    return found


def drawn(size: Size, corruption: str, fraction: float, seed: int) -> Any:
    """Training and test samples of a split."""
    return make_corrupted(
        size.n_train + size.n_test, corruption=corruption, fraction=fraction, random_state=seed
    )


def run(fast: bool, splits: int | None = None) -> tuple[str, dict[str, Any]]:
    """Run the study: all conditions of a split on the same clean samples."""
    size = FAST if fast else Size()
    size = size if splits is None else size._replace(n_splits=splits)
    start = time.process_time()
    numbers: dict[str, Any] = {"size": size._asdict(), "splits": []}
    choices = list(pools(size))
    quick = config_context(
        assume_finite=True, skip_parameter_validation=True
    )  # machines take milliseconds here
    with threadpool_limits(1), quick, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed in range(size.n_splits):
            for corruption, fraction in conditions(size):
                sample = drawn(size, corruption, fraction, seed)
                numbers["splits"].append(
                    {
                        "split": seed,
                        "corruption": corruption if fraction > 0.0 else "none",
                        "fraction": fraction,
                        "bayes_accuracy": 1.0 - sample.bayes_error,
                        "informed_accuracy": 1.0 - sample.informed_error,
                        "methods": one_split(sample, size, seed, choices),
                    }
                )
        numbers["ties"] = study_ties(size)
    numbers["seconds"] = time.process_time() - start
    return report(numbers), numbers
