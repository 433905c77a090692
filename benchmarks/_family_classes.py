"""Several classes: shared weights, one-versus-all and multinomial BEMKL beside other kernel methods.

A full run appends one JSON line per set, repeat and method to benchmarks/results/family_classes.jsonl and continues
where that file ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _cells import append, read
from _family_methods import BEMKL, METHODS, PRICES, Limits, loss, predict
from _family_sets import BUNDLED, FOLDS, LEAST, SETS, ClassSet, load, parts
from _protocol import have_real_data
from _report import ROOT, markdown_table, mean_and_std
from scipy import stats
from threadpoolctl import threadpool_limits

from bayesmkl.evaluation.metrics import area_under_curve, equal_error_rate
from bayesmkl.evaluation.significance import corrected_t

RESULTS = ROOT / "benchmarks" / "results" / "family_classes.jsonl"
MFEAT_SPLITS = 3
MFEAT_ERROR = 2.5  # %, asked
LIMITS = {"digits": Limits(sweeps=100), "mfeat": Limits(sweeps=60)}
PAIRS = (("shared", "one-versus-all"), ("shared, σ_g = 0.1", "one-versus-all, σ_g = 0.1"))
# Accuracies (%) of one-versus-all and of shared weights, tables 2 to 5 of the paper.
PUBLISHED = {
    "Protein": (71.5, 71.2),
    "Flowers17": (85.6, 85.9),
    "Flowers102": (67.0, 68.9),
    "Caltech101": (72.7, 73.1),
}


class Plan(NamedTuple):
    """What to run."""

    sets: tuple[str, ...]
    methods: tuple[str, ...] = tuple(METHODS)
    n_folds: int = FOLDS
    n_samples: int | None = None
    limits: Limits | None = None  # by set when None


class Cell(NamedTuple):
    """One method on all folds of a cross-validation, or on one split."""

    name: str
    repeat: int
    method: str


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Compare the methods on the sets that there are; with `fast`, few of both."""
    if fast:
        methods = (*PAIRS[0], "multinomial", "SVM, mean of kernels", "Gaussian process")
        plan = Plan(("iris", "wine"), methods, 2, 30, Limits(10, 2))
    else:
        plan = Plan(SETS if have_real_data() else BUNDLED)
    results = Results(collect(plan, RESULTS if plan.sets == SETS else None))
    shortened = (
        "**Short form**: 30 samples of two sets, 2 folds, 10 sweeps. The full one is:\n\n" if fast else ""
    )
    return shortened + report(results), results.summary()


# ------------------------------------------------------------------------------------------------------- running


def collect(plan: Plan, path: Path | None) -> list[dict[str, Any]]:
    """Run what is missing in the file, cell by cell; with None, everything."""
    rows = [] if path is None else read(path)
    done = {(row["set"], row["repeat"], row["method"]) for row in rows}
    for cell in cells(plan):
        if cell in done:
            continue
        rows.append(fill(cell, load(cell.name, plan.n_samples), plan))
        if path is not None:
            append(path, rows[-1])
    return rows


def cells(plan: Plan) -> Iterator[Cell]:
    """Yield what there is to do, in the order in which it is done: methods at their defaults first."""
    defaults = [method for method in plan.methods if "=" not in method]
    for methods in (defaults, [method for method in plan.methods if method not in defaults]):
        for name in plan.sets:
            for repeat in range(MFEAT_SPLITS if name == "mfeat" else 1):
                yield from (Cell(name, repeat, method) for method in methods)


def fill(cell: Cell, data: ClassSet, plan: Plan) -> dict[str, Any]:
    """Accuracy and log loss of every fold; AUC and EER of the predictions of all folds together."""
    limits = plan.limits or LIMITS.get(cell.name, Limits())
    classes = np.unique(data.y)
    row: dict[str, Any] = {"set": cell.name, "repeat": cell.repeat, "method": cell.method}
    row |= {"accuracy": [], "log_loss": []}
    folds, predicted = list(parts(cell.name, data, cell.repeat, plan.n_folds)), []
    with threadpool_limits(1):
        for part in folds:
            found = predict(cell.method, data, part, limits)
            right = classes[found.probabilities.argmax(axis=1)] == part.y_test
            row["accuracy"].append(round(100.0 * float(right.mean()), 4))
            row["log_loss"].append(round(loss(part.y_test, found.probabilities, classes), 5))
            predicted.append(found)
    order = np.argsort(np.concatenate([part.test for part in folds]))
    y = np.concatenate([part.y_test for part in folds])[order]
    probabilities = np.concatenate([found.probabilities for found in predicted])[order]
    row["auc"] = round(area_under_curve(y, probabilities, classes), 5)
    row["eer"] = round(equal_error_rate(y, probabilities, classes), 5)
    row["right"] = "".join("01"[hit] for hit in (classes[probabilities.argmax(axis=1)] == y).astype(int))
    row["seconds"] = [float(f"{found.seconds:.3g}") for found in predicted]
    row["sweeps"] = [found.sweeps for found in predicted]
    row["unconverged"] = sum(not found.converged for found in predicted)
    return row


# ----------------------------------------------------------------------------------------------------- reporting


class Results:
    """All that was run, with the repeats of a set one after the other."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = sorted(rows, key=lambda row: row["repeat"])
        self.sets = [name for name in SETS if any(row["set"] == name for row in rows)]
        self.methods = [method for method in METHODS if any(row["method"] == method for row in rows)]

    def of(self, name: str, method: str) -> list[dict[str, Any]]:
        """Rows of a method on a set, one per repeat."""
        return [row for row in self._rows if (row["set"], row["method"]) == (name, method)]

    def folds(self, name: str, method: str, measure: str) -> np.ndarray:
        """A measure by fold, those of all repeats together."""
        return np.array([value for row in self.of(name, method) for value in np.atleast_1d(row[measure])])

    def right(self, name: str, method: str) -> np.ndarray:
        """Which test samples got the right class."""
        return np.array([digit == "1" for row in self.of(name, method) for digit in row["right"]])

    def summary(self) -> dict[str, Any]:
        """Means for a file, and the comparisons of shared weights with one-versus-all."""
        measures = ("accuracy", "log_loss", "auc", "eer", "seconds", "sweeps", "unconverged")
        means = {
            name: {
                method: {m: float(self.folds(name, method, m).mean()) for m in measures}
                for method in self.methods
                if self.of(name, method)
            }
            for name in self.sets
        }
        return means | {"pairs": [comparison(self, *pair) for pair in self.pairs()]}

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of shared weights and one-versus-all of which both were run on all sets."""
        return [pair for pair in PAIRS if all(self.of(name, method) for name in self.sets for method in pair)]


def comparison(results: Results, first: str, second: str) -> dict[str, Any]:
    """Differences of two methods by set, first minus second, with the p-values of paired tests."""
    found: dict[str, Any] = {"first": first, "second": second, "sets": {}}
    for name in results.sets:
        a, b = results.right(name, first), results.right(name, second)
        ratio = 1.0 if name == "mfeat" else 1.0 / (len(results.folds(name, first, "accuracy")) - 1)
        entry: dict[str, Any] = {"first_alone": int((a & ~b).sum()), "second_alone": int((b & ~a).sum())}
        for measure in ("accuracy", "log_loss"):
            values = results.folds(name, first, measure) - results.folds(name, second, measure)
            entry[measure] = round(float(values.mean()), 9) + 0.0  # a tie is a tie, and no negative zero
            entry[f"p_{measure}"] = corrected_t(values, np.zeros_like(values), ratio).p_value
        found["sets"][name] = entry
    for measure in ("accuracy", "log_loss"):
        values = np.array([entry[measure] for entry in found["sets"].values()])
        found[f"p_{measure}"] = float(stats.wilcoxon(values).pvalue) if values.any() else 1.0
    return found


def report(results: Results) -> str:
    """What was done, the measures, and the verdicts."""
    pieces = [preface(results), measures_table(results)]
    for pair in results.pairs():
        found = comparison(results, *pair)
        pieces += [verdict(found), pair_table(found)]
    if "mfeat" in results.sets:
        pieces.append(mfeat_line(results))
    return "\n\n".join(pieces)


def preface(results: Results) -> str:
    """What was done."""
    limits = ", ".join(f"{name} {limit.sweeps}" for name, limit in LIMITS.items())
    prices = ", ".join(f"{price:g}" for price in PRICES)
    return (
        f"{FOLDS}-fold cross-validation, folds with the shares of the classes; mfeat: random halves, 1000 samples "
        f"to learn from and 1000 to test, {MFEAT_SPLITS} times. Classes of fewer than {LEAST} samples are left out "
        "(ecoli: three, glass: one). Features are standardized by the training part. iris, wine, glass and ecoli: "
        "the 13 kernels of the paper, on all features. mfeat and digits: one Gaussian on each view, its width the "
        "median distance of training samples. **digits** are 400 of scikit-learn's 1797, seen as pixels, sums of "
        "rows and columns, 2 x 2 blocks, directions of gradients by quadrant, and low frequencies of the cosine "
        f"transform. BEMKL has its defaults, and at most {limits} sweeps on these two sets instead of 1000; with "
        "$\\sigma_g = 0.1$ intermediate outputs have less noise of their own. Support vector machines are "
        f"one-versus-rest; price (one of {prices}) and best kernel come from 3-fold cross-validation of the training "
        "samples, probabilities from Platt's sigmoid. The Gaussian process is scikit-learn's: one per class, a "
        "Gaussian kernel on all features (views scaled to the same median distance), width and height by at most 10 "
        "steps on the marginal likelihood. Log loss in nats; AUC and equal error rate (EER) are averaged over "
        "classes, from the predictions of all folds together. Seconds: processor time of a fit, the choice of its "
        "parameters included, on a machine with other work."
    )


def measures_table(results: Results) -> str:
    """All measures of every method on every set."""
    headers = ["set", "method", "accuracy %", "log loss", "AUC", "EER", "s", "unconverged"]
    rows = []
    for name in results.sets:
        for method in results.methods:
            if not results.of(name, method):
                continue
            n_folds = len(results.folds(name, method, "accuracy"))
            row = [name, method, mean_and_std(results.folds(name, method, "accuracy"), 1)]
            row += [mean_and_std(results.folds(name, method, "log_loss"), 3)]
            row += [f"{results.folds(name, method, measure).mean():.4f}" for measure in ("auc", "eer")]
            row.append(f"{results.folds(name, method, 'seconds').mean():.2g}")
            late = int(results.folds(name, method, "unconverged").sum())
            row.append(f"{late} of {n_folds}" if method in BEMKL else "–")
            rows.append(row)
    return markdown_table(headers, rows)


def pair_table(found: dict[str, Any]) -> str:
    """Differences of shared weights and one-versus-all, here and published."""
    headers = ["set", "accuracy, points", "p", "log loss", "p", "right alone"]
    rows = [
        (
            f"{name} | {entry['accuracy']:+.2f} | {entry['p_accuracy']:.2f} | {entry['log_loss']:+.4f} | "
            f"{entry['p_log_loss']:.2f} | {entry['first_alone']} : {entry['second_alone']}"
        )
        for name, entry in found["sets"].items()
    ]
    if "σ" not in found["first"]:
        rows += [
            [f"{name} (published)", f"{shared - separate:+.1f}", "–", "–", "–", "–"]
            for name, (separate, shared) in PUBLISHED.items()
        ]
    return markdown_table(headers, rows)


def verdict(found: dict[str, Any]) -> str:
    """One line that says which of both is better."""
    entries = found["sets"].values()
    parts = []
    for measure, title, sign in (("accuracy", "Accuracy", 1.0), ("log_loss", "log loss", -1.0)):
        gains = [sign * entry[measure] for entry in entries]
        known = [entry[f"p_{measure}"] < 0.05 for entry in entries]
        better = sum(gain > 0.0 for gain in gains)
        worse = sum(gain < 0.0 for gain in gains)
        clear = [sum(k and s * g > 0.0 for g, k in zip(gains, known, strict=True)) for s in (1.0, -1.0)]
        parts.append(
            f"{title}: better on {better} of {len(gains)} sets ({clear[0]} with p < 0.05), worse on {worse} "
            f"({clear[1]}), Wilcoxon's p over sets {found[f'p_{measure}']:.2f}"
        )
    return (
        f"**{found['first']} against {found['second']}** (corrected resampled t-test on folds; *right alone*: test "
        f"samples that only the first, only the second gets right). {'; '.join(parts)}."
    )


def mfeat_line(results: Results) -> str:
    """Errors on mfeat beside the one asked for."""
    methods = [method for method in BEMKL if results.of("mfeat", method)]
    errors = {method: 100.0 - results.folds("mfeat", method, "accuracy").mean() for method in methods}
    listed = ", ".join(f"{method} {error:.2f} %" for method, error in errors.items())
    return f"**mfeat**, error asked below {MFEAT_ERROR} %: {listed}."
