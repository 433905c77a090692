"""Several classes: a score of each against the rest, as GPMKLClassifier has, beside classes that compete (softmax).

Softmax models have every function value explicit and are sampled by NUTS (`_class_chains.py`), with the same kernels
and the same prior of their weights; so is the logit of each class against the rest, which tells the likelihood from
the approximation. 10 random splits of two simulations, whose labels are of a softmax model with functions that are
drawn from the prior, and of iris, wine and five digits (1, 3, 5, 8, 9), standardized by the training part. No
probabilities have a temperature: likelihoods are compared. Shares are squared weights as parts of their sum; seconds
are of processor time.

    python benchmarks/softmax.py                  what is missing of 10 splits
    python benchmarks/softmax.py --sets wine      of some sets, separated by ";"
    python benchmarks/softmax.py --report --docs  tables from the committed results
    python benchmarks/softmax.py --fast           30 samples of three classes, short chains

One JSON line per model, set and split is appended to benchmarks/results/softmax_cells.jsonl; a run continues where
the file ends, and all sets finish split 0 before split 1 begins.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _cells import Jobs, chosen_rows, gap, run_study
from _class_chains import Problem, sample
from _posteriors import quietly
from _protocol import split
from _report import claim, markdown_table

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_digits_views, load_iris, load_wine
from bayesmkl.evaluation.metrics import brier, expected_calibration_error
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal import Marginal
from bayesmkl.marginal.covariances import kernel_units

N_SPLITS, SEED = 10, 9000
DIGITS = (1, 3, 5, 8, 9)
TRUE_VARIANCES = np.array([4.0, 2.0, 0.0])  # of the three views of a simulation
OURS = {"probit": "GPMKL, probit", "logit": "GPMKL, logit"}
CHAINS = {"softmax": "softmax, NUTS", "each against the rest": "logit of each against the rest, NUTS"}
MODELS = [*OURS.values(), *CHAINS.values()]
IN_SHORT = [OURS["probit"], CHAINS["softmax"]]
SCORES = {
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration": "calibration error",
    "accuracy": "accuracy",
}


class Split(NamedTuple):
    """Training and test part with the bank of kernels."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    bank: KernelBank


def simulated(n_classes: int, n_train: int = 120, n_test: int = 300) -> Callable[[int], Split]:
    """Return a function that draws three views of two features, of which the third says nothing of the labels."""

    def draw(number: int) -> Split:
        rng = np.random.default_rng([SEED, n_classes, number])
        X = rng.normal(size=(n_train + n_test, 6))
        bank = KernelBank("rbf", views={"first": [0, 1], "second": [2, 3], "noise": [4, 5]})
        kernels = np.moveaxis(bank.fit_transform(X), -1, 0)
        units = kernel_units(DenseStack(kernels))
        covariance = np.tensordot(TRUE_VARIANCES / units, kernels, 1)
        values, vectors = np.linalg.eigh(covariance)
        score = vectors * np.sqrt(np.maximum(values, 0.0)) @ rng.normal(size=(len(X), n_classes))
        y = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
        return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:], bank)

    return draw


def real(
    load: Callable[[], tuple[np.ndarray, np.ndarray]], n_train: int, bank: KernelBank
) -> Callable[[int], Split]:
    """Return a function that draws training samples; at most 500 others are for testing."""

    def draw(number: int) -> Split:
        X, y = load()
        X, X_test, y, y_test = split(X, y, n_train, SEED + number, min(500, len(y) - n_train))
        return Split(X, y, X_test, y_test, bank)

    return draw


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Load the samples of `DIGITS`, with codes as labels."""
    X, y = load_digits_views(return_X_y=True)
    kept = np.isin(y, DIGITS)
    return X[kept], np.searchsorted(DIGITS, y[kept])


def codes_of(load: Callable[..., tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Load a set with codes as labels."""
    X, y = load(return_X_y=True)
    return X, np.unique(y, return_inverse=True)[1]


BOTH = ["rbf", "linear"]
SETS: dict[str, Callable[[int], Split]] = {
    "simulated, 3 classes": simulated(3),
    "simulated, 5 classes": simulated(5),
    "iris": real(lambda: codes_of(load_iris), 75, KernelBank(BOTH, views={"sepal": [0, 1], "petal": [2, 3]})),
    "wine": real(
        lambda: codes_of(load_wine),
        90,
        KernelBank(BOTH, views={"first": list(range(6)), "second": list(range(6, 13))}),
    ),
    "digits": real(digits, 120, KernelBank("rbf", views=load_digits_views().views)),
}
SHORT = {"simulated, 3 classes": simulated(3, 30, 30)}


def problem_of(part: Split) -> Problem:
    """Evaluate the kernels of a split, in the units that GPMKL gives them."""
    kernels = np.moveaxis(part.bank.fit_transform(part.X), -1, 0)
    new, diagonal = part.bank.rows_and_diagonal(part.X_test)
    units = kernel_units(DenseStack(kernels))[:, None]
    return Problem(kernels / units[..., None], part.y, new / units[..., None], diagonal / units)


def scores(y: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Judge probabilities of test labels."""
    classes = np.arange(probabilities.shape[1])
    judged = {
        "log_loss": -float(np.log(probabilities[np.arange(len(y)), y]).mean()),
        "brier": brier(y, probabilities, classes),
        "calibration": expected_calibration_error(y, probabilities, labels=classes),
        "accuracy": float((probabilities.argmax(axis=1) == y).mean()),
    }
    return {name: round(float(value), 5) for name, value in judged.items()}


def cell(name: str, part: Split, number: int, model: str, short: bool = False) -> dict[str, Any]:
    """Fit one model to one split and judge it."""
    n_classes = int(part.y.max()) + 1
    row: dict[str, Any] = {"set": name, "split": number, "model": model}
    row |= {"n_train": len(part.y), "n_test": len(part.y_test), "n_classes": n_classes}
    if model in OURS.values():
        likelihood = next(key for key, value in OURS.items() if value == model)
        start = time.process_time()
        inference = Marginal(n_points=100, n_draws=100) if short else Marginal()
        with quietly():
            options = {"likelihood": likelihood, "temperature": 1.0, "inference": inference}
            fitted = GPMKLClassifier(part.bank, **options, random_state=0)
            probabilities = fitted.fit(part.X, part.y).predict_proba(part.X_test)
        weights = fitted.posterior_.kernel_weights[fitted.posterior_.point]
        row |= {
            "seconds": round(time.process_time() - start, 2),
            "pareto_k": round(float(fitted.pareto_k_), 3),
        }
    else:
        likelihood = next(key for key, value in CHAINS.items() if value == model)
        lengths = {"n_warmup": 8, "n_draws": 8} if short else {}
        found = sample(problem_of(part), n_classes, likelihood, number, **lengths)
        probabilities, weights = found.probabilities, found.weights
        row |= {
            "seconds": round(found.seconds, 2),
            "rhat": round(found.rhat, 4),
            "effective": round(found.effective, 1),
            "divergences": found.divergences,
        }
    total = (weights**2).sum(axis=1)
    row["shares"] = np.round((weights**2 / total[:, None]).mean(axis=0), 4).tolist()
    row["total"] = round(float(np.median(np.sqrt(total))), 4)
    return row | scores(part.y_test, probabilities)


def cells(chosen: Namespace) -> Jobs:
    """Cells that are asked for."""
    for number in range(chosen.splits):
        for name in chosen.sets:
            for model in MODELS:
                yield name, number, model, lambda n=name, k=number, m=model: cell(n, SETS[n](k), k, m)


def short() -> list[dict[str, Any]]:
    """Few samples of three classes, short chains."""
    return [cell(name, draw(0), 0, model, True) for name, draw in SHORT.items() for model in IN_SHORT]


# ----------------------------------------------------------------------------------------------------------- report


def report(rows: list[dict[str, Any]], chosen: Namespace) -> tuple[str, dict[str, Any]]:
    """Return tables, and the numbers behind them with what is asked of ours."""
    body, numbers, versus, every = [], {}, CHAINS["softmax"], rows
    models, rows = [model for model in MODELS if any(row["model"] == model for row in every)], []
    names = list(SHORT) if chosen.fast else chosen.sets
    for name in names:  # splits that all models have
        own = [row for row in every if row["set"] == name]
        done_by = [{row["split"] for row in own if row["model"] == model} for model in models]
        rows += [row for row in own if row["split"] in set.intersection(*done_by)]
    for name in names:
        reference = chosen_rows(rows, name, versus)
        shares = {row["split"]: np.array(row["shares"]) for row in reference}
        for model in MODELS:
            own = chosen_rows(rows, name, model)
            if not own or not shares:
                continue
            means = {key: float(np.mean([row[key] for row in own])) for key in SCORES}
            behind, error = gap(rows, name, model, versus, "log_loss")
            common = [row for row in own if row["split"] in shares]
            distances = [np.abs(np.array(row["shares"]) - shares[row["split"]]).max() for row in common]
            apart = float(np.mean(distances))
            found = {
                **{key: round(value, 5) for key, value in means.items()},
                "behind": round(behind, 5),
                "error": round(error, 5),
                "shares apart": round(apart, 4),
                "total": round(float(np.median([row["total"] for row in own])), 3),
                "seconds": float(np.median([row["seconds"] for row in own])),
                "splits": len(own),
                "largest R-hat": max((row.get("rhat", 0.0) for row in own), default=0.0),
                "divergences": sum(row.get("divergences", 0) for row in own),
            }
            numbers.setdefault(name, {})[model] = found
            beside = ["–", "–"] if model == versus else [f"{behind:+.4f} ± {error:.4f}", f"{apart:.3f}"]
            shown = [*(f"{means[key]:.4f}" for key in SCORES), *beside]
            body.append([f"{name}: {model}", *shown, f"{found['total']:.2f}", f"{found['seconds']:.2g}"])
    headers = ["set, model", *SCORES.values(), "log loss above softmax", "shares apart", "total", "seconds"]
    claims = []
    if all(len(numbers.get(name, {})) == len(MODELS) for name in SETS):
        ours = [numbers[name][OURS["probit"]] for name in SETS]
        ahead = sum(row["behind"] > max(0.01, 2.0 * row["error"]) for row in ours)
        lower = "several classes: sets on which softmax has a log loss lower by .01 and two standard errors"
        apart = "several classes: largest distance of a mean share from that of softmax, mean over splits"
        claims = [claim(lower, 0, ahead), claim(apart, 0.1, max(row["shares apart"] for row in ours))]
    counts = {found["splits"] for own in numbers.values() for found in own.values()}
    chains = [row for row in rows if "rhat" in row]
    spread = f"{max(row['rhat'] for row in chains):.2f} at most"
    about = (
        f"{'–'.join(map(str, sorted({min(counts), max(counts)})))} splits of each set. Of {len(chains)} fits by NUTS "
        f"{sum(row['rhat'] > 1.01 for row in chains)} have an R-hat above 1.01, {spread}, and "
        f"{sum(row['divergences'] > 0 for row in chains)} have divergent draws.\n\n"
    )
    return about + markdown_table(headers, body), {"sets": numbers, "claims": claims}


if __name__ == "__main__":
    run_study(__doc__, "softmax", jobs=cells, report=report, short=short, sets=list(SETS), splits=N_SPLITS)
