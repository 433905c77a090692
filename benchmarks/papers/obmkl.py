"""Tables of the OBMKL paper (WCECS 2014, §IV).

P. Wang, D. Cai, G. Zhang, Y. Bai, F. Cai and T. Zhang, Empirical optimal kernel for convex multiple kernel learning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from bayesmkl.discriminative import (
    AlignmentMKLClassifier,
    GMKLClassifier,
    LpMKLClassifier,
    OBMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.evaluation.significance import pairwise
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.alignment import empirical_optimal_kernel, kernel_alignment
from papers.core import Data, Model, Study, Table
from papers.transductive import SpreadFolds
from papers.uci import MFEAT_VIEWS, fetch

WIDTHS = (1.0, *(float(width) for width in range(10, 201, 10)))
PRICES = [0.1, 1.0, 10.0, 100.0, 1000.0]
GAP = 1e-2  # relative, of the joint methods: the default of SimpleMKL's authors
ONE_C = "C = 1 for all"
HALF = "exp(-d²/(2s²))"
Mean = tuple[float, float]
TABLE_2: dict[str, tuple[Mean, Mean, Mean]] = {  # cross-validation error, support vectors, active kernels
    "OBMKL(ratio)": ((0.0679, 0.0364), (392.1, 161.2), (6.0, 0.0)),
    "OBMKL(qp)": ((0.0677, 0.0380), (301.8, 174.8), (2.0, 0.0)),
    "OBMKL(aqp)": ((0.0584, 0.0324), (418.6, 179.8), (2.0, 0.0)),
    "ABMKL(ratio)": ((0.0681, 0.0367), (375.9, 164.0), (6.0, 0.0)),
    "ABMKL(convex)": ((0.0716, 0.0403), (243.1, 136.0), (1.2, 0.4)),
    "GMKL": ((0.0573, 0.0282), (647.8, 410.5), (3.4, 1.2)),
    "GLMKL": ((0.0582, 0.0285), (668.5, 422.0), (5.8, 0.4)),
    "RBMKL": ((0.0661, 0.0330), (760.2, 161.2), (6.0, 0.0)),
    "SVM(best)": ((0.0628, 0.0325), (889.9, 711.9), (1.0, 0.0)),
}
Record = tuple[int, int, int]  # wins, ties, losses
OPPONENTS = (
    "OBMKL(qp)",
    "OBMKL(aqp)",
    "ABMKL(ratio)",
    "ABMKL(convex)",
    "GMKL",
    "GLMKL",
    "RBMKL",
    "SVM(best)",
)
TABLE_3: dict[str, dict[str, Record]] = {  # of each variant of OBMKL against each other method
    "OBMKL(ratio)": dict(
        zip(
            OPPONENTS,
            ((3, 2, 14), (2, 4, 13), (6, 8, 5), (5, 4, 10), (2, 8, 9), (3, 6, 10), (10, 5, 4), (3, 3, 13)),
            strict=True,
        )
    ),
    "OBMKL(qp)": dict(
        zip(
            ("OBMKL(ratio)", *OPPONENTS[1:]),
            ((14, 2, 3), (6, 8, 5), (13, 4, 2), (7, 9, 3), (8, 7, 4), (7, 9, 3), (15, 3, 1), (6, 7, 6)),
            strict=True,
        )
    ),
    "OBMKL(aqp)": dict(
        zip(
            ("OBMKL(ratio)", "OBMKL(qp)", *OPPONENTS[2:]),
            ((13, 4, 2), (5, 8, 6), (13, 4, 2), (7, 8, 4), (7, 9, 3), (7, 8, 4), (14, 3, 2), (5, 5, 9)),
            strict=True,
        )
    ),
}
TABLE_4: dict[str, tuple[Record, float, Mean, Mean]] = {  # record; wins in %; support vectors; active kernels
    "OBMKL(ratio)": ((34, 40, 78), 22.37, (189.1, 107.7), (21.0, 0.0)),
    "OBMKL(qp)": ((76, 49, 27), 50.0, (106.9, 99.5), (2.3, 0.4)),
    "OBMKL(aqp)": ((71, 49, 32), 46.71, (140.6, 101.2), (2.8, 0.5)),
    "ABMKL(ratio)": ((28, 40, 84), 18.42, (182.1, 113.7), (21.0, 0.0)),
    "ABMKL(convex)": ((53, 54, 45), 34.87, (113.5, 107.2), (1.7, 0.7)),
    "GMKL": ((57, 54, 41), 37.5, (166.7, 125.2), (19.3, 3.4)),
    "GLMKL": ((56, 56, 40), 36.84, (173.4, 128.5), (21.0, 0.0)),
    "RBMKL": ((22, 25, 105), 14.47, (252.1, 122.3), (21.0, 0.0)),
    "SVM(best)": ((83, 41, 28), 54.61, (181.3, 114.5), (1.0, 0.0)),
}
METHODS = tuple(TABLE_4)


# ----------------------------------------------------------------------------------------------- data and models


def one_against_rest(name: str, position: int = -1) -> Data:
    """Load a set: features from -1 to 1 over all samples, class `position` of the sorted ones against the rest."""
    X, y = fetch(name, return_X_y=True)
    scaled = MinMaxScaler((-1.0, 1.0)).fit_transform(np.asarray(X, dtype=float))
    return Data(scaled, (np.asarray(y) == np.unique(y)[position]).astype(int))


UCI = {
    "breast": partial(one_against_rest, "breast_wisconsin"),  # the complete ones of 699
    "pima": partial(one_against_rest, "pima"),
    **{
        f"{name}:{k + 1}": partial(one_against_rest, name, k)
        for name, n_classes in (("ecoli", 8), ("glass", 6), ("iris", 3))
        for k in range(n_classes)
    },
}
DIGITS = {f"digit {digit}": partial(one_against_rest, "mfeat", digit) for digit in range(10)}


def view_columns() -> dict[str, list[int]]:
    """Return the columns of each view of the digits."""
    ends = np.cumsum(list(MFEAT_VIEWS.values()))
    return {name: list(range(end - n, end)) for (name, n), end in zip(MFEAT_VIEWS.items(), ends, strict=True)}


def gaussians() -> list[Gaussian]:
    """Return Gaussian kernels exp(-d²/s²) of all widths."""
    return [Gaussian(gamma=1.0 / width**2) for width in WIDTHS]


def _tuned(estimator: Any, prices: list[float], **grid: Any) -> Model:
    if len(prices) > 1:
        grid = {"C": prices} | grid
    return Model(estimator.set_params(C=prices[0]), grid or None)


def _methods(bank: KernelBank, best: Model, prices: list[float], ending: str = "") -> dict[str, Model]:
    """Return the nine methods of the paper; `best` is an SVM whose kernel is chosen inside the training samples."""
    estimators = {
        "OBMKL(ratio)": OBMKLClassifier(bank, method="ratio"),
        "OBMKL(qp)": OBMKLClassifier(bank, method="qp"),
        "OBMKL(aqp)": OBMKLClassifier(bank, method="aqp"),
        "ABMKL(ratio)": AlignmentMKLClassifier(bank, method="ratio"),
        "ABMKL(convex)": AlignmentMKLClassifier(bank, method="convex"),
        "GMKL": GMKLClassifier(bank, regularizer="uniform", tol=GAP),
        "GLMKL": LpMKLClassifier(bank, p_norm=1.0, tol=GAP),
        "RBMKL": UniformMKLClassifier(bank),
    }
    specs = {name + ending: _tuned(estimator, prices) for name, estimator in estimators.items()}
    return specs | {f"SVM(best){ending}": best}


def on_widths(prices: list[float], ending: str = "") -> dict[str, Model]:
    """Return the methods on 21 widths."""
    best = _tuned(SVC(kernel="rbf"), prices, gamma=[1.0 / width**2 for width in WIDTHS])
    return _methods(KernelBank(gaussians(), normalize=None), best, prices, ending)


def on_views(ending: str = "", half: bool = False) -> dict[str, Model]:
    """Return the methods on one kernel per view of the digits."""

    def bank(views: dict[str, list[int]]) -> KernelBank:
        return KernelBank(Gaussian(gamma=0.5 if half else 1.0), views=views, normalize=None)

    columns = view_columns()
    single = [bank({name: columns[name]}) for name in columns]
    best = _tuned(UniformMKLClassifier(), PRICES, kernels=single)
    return _methods(bank(columns), best, PRICES, ending)


def _study(sets: dict[str, Any], models: dict[str, Model], n_folds: int | None) -> Study:
    return Study(sets, models, SpreadFolds(10, min(10, n_folds or 10)), inner_cv=SpreadFolds(5))


def _digits_studies(n_folds: int | None) -> list[Study]:
    """Return all methods on ten problems, then the other convention of the width on one fold."""
    return [_study(DIGITS, on_views(), n_folds), _study(DIGITS, on_views(f", {HALF}", half=True), 1)]


def _uci_studies(n_folds: int | None) -> list[Study]:
    """Return all methods on nineteen problems, once with C chosen inside, once with C = 1."""
    return [_study(UCI, on_widths(PRICES) | on_widths([1.0], f", {ONE_C}"), n_folds)]


def _alignment_studies(n_folds: int | None) -> list[Study]:
    """Return each kernel alone, C chosen inside: the digits by their views, breast cancer by the widths."""

    def alone(kernel: Gaussian, **views: Any) -> Model:
        return _tuned(UniformMKLClassifier(KernelBank(kernel, normalize=None, **views)), PRICES)

    by_view = {name: alone(Gaussian(gamma=1.0), views={name: c}) for name, c in view_columns().items()}
    by_width = {f"s = {width:g}": alone(k) for width, k in zip(WIDTHS, gaussians(), strict=True)}
    return [_study(DIGITS, by_view, n_folds), _study({"breast": UCI["breast"]}, by_width, n_folds)]


# ------------------------------------------------------------------------------------------------------- results


def _variants(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each variant ("paper" first) with its cells, models by their plain names."""
    for ending in (n.removeprefix(METHODS[0]) for n in cells["model"].unique() if n.startswith(METHODS[0])):
        names = {name + ending: name for name in METHODS}
        own = cells[cells["model"].isin(names)]
        yield ending.removeprefix(", ") or "paper", own.assign(model=own["model"].map(names))


def _errors(own: pd.DataFrame) -> pd.DataFrame:
    """Return errors by (data set, split) and method."""
    return 1.0 - own.pivot(index=["dataset", "split"], columns="model", values="accuracy")[list(METHODS)]


def _pooled(
    variant: str, own: pd.DataFrame, what: str, values: pd.Series, known: dict[str, Mean]
) -> list[Any]:
    """Set one quantity, over all problems and splits, beside the published one."""
    rows = []
    for model, (mean, std) in known.items():
        ours = values[own["model"] == model]
        row = {"model": model, "variant": variant, "metric": what, "published": mean, "published_sd": std}
        rows.append(row | {"ours": ours.mean(), "ours_sd": ours.std(), "cells": len(ours)})
    return rows


def _sizes(cells: pd.DataFrame, known: dict[str, tuple[Mean, Mean]]) -> list[Any]:
    rows = []
    for variant, own in _variants(cells):
        support = own["support_fraction"] * own["n_train"]
        active = own["n_active_kernels"].fillna(1.0)  # an SVC has one
        for k, (what, values) in enumerate((("support vectors", support), ("active kernels", active))):
            rows += _pooled(variant, own, what, values, {model: pair[k] for model, pair in known.items()})
    return rows


def digits_table(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return table II: numbers pooled over problems and folds."""
    rows = []
    for variant, own in _variants(cells):
        known = {model: row[0] for model, row in TABLE_2.items()}
        rows += _pooled(variant, own, "error", 1.0 - own["accuracy"], known)
    return {"": pd.DataFrame(rows + _sizes(cells, {model: row[1:] for model, row in TABLE_2.items()}))}


def _records(table: pd.DataFrame, keys: list[str]) -> dict[tuple[str, ...], Record]:
    counts = table[["wins", "ties", "losses"]].to_numpy(dtype=int)
    return {tuple(k): tuple(c) for k, c in zip(table[keys].to_numpy(), counts.tolist(), strict=True)}


def _wins(errors: pd.DataFrame) -> pd.DataFrame:
    """Count on how many data sets each model is significantly better and worse than each other one."""
    table = pairwise(errors, "paired_t", greater_is_better=False, correction=None)
    forth = table.rename(columns={"first": "model", "second": "opponent"})
    back = table.rename(columns={"second": "model", "first": "opponent"})
    both = pd.concat([forth, back])
    counted = both[["model", "opponent"]].assign(
        wins=both["better"] == both["model"],
        ties=both["difference"].notna() & (both["better"] == ""),
        losses=both["better"] == both["opponent"],
    )
    return counted.groupby(["model", "opponent"]).sum().astype(int).reset_index()


def _text(record: Iterable[int]) -> str:
    return ", ".join(map(str, record))


def uci_tables(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return tables III and IV and figure 2."""
    against, totals, errors_of = [], [], []
    for variant, own in _variants(cells):
        errors = _errors(own)
        won = _wins(errors)
        records = _records(won, ["model", "opponent"])
        for model, opponents in TABLE_3.items():
            for opponent, known in opponents.items():
                row = {"variant": variant, "model": model, "against": opponent, "published": _text(known)}
                against.append(row | {"ours": _text(records[model, opponent])})
        sums = won.groupby("model", sort=False)[["wins", "ties", "losses"]].sum()
        totals_of, rates = (
            _records(sums.reset_index(), ["model"]),
            (sums["wins"] / sums.sum(axis=1)).to_dict(),
        )
        ranks = errors.groupby(level="dataset").mean().rank(axis=1).mean()
        published = [TABLE_4[model][1] for model in METHODS]
        agree = {
            "rank correlation of wins": spearmanr(published, [rates[m] for m in METHODS]).statistic,
            "rank correlation of mean ranks": spearmanr(published, -ranks[list(METHODS)]).statistic,
        }
        for model, (record, percent, *_) in TABLE_4.items():
            row = {
                "variant": variant,
                "model": model,
                "published": _text(record),
                "published wins (%)": percent,
            }
            row |= {"ours": _text(totals_of[model,]), "ours wins (%)": 100.0 * rates[model]}
            totals.append(row | {"error (%)": 100.0 * errors[model].mean()} | agree)
        means = 100.0 * errors.groupby(level="dataset", sort=False).mean()
        errors_of.append(means.reset_index().assign(variant=variant))
    sizes = _sizes(cells, {model: (row[2], row[3]) for model, row in TABLE_4.items()})
    return {
        "against": pd.DataFrame(against),
        "totals": pd.DataFrame(totals),
        "sizes": pd.DataFrame(sizes),
        "errors": pd.concat(errors_of),
    }


def alignment_table(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return figure 1: 1 - alignment of every kernel beside the error of its SVM, means over problems."""
    rows = []
    views = KernelBank(Gaussian(gamma=1.0), views=view_columns(), normalize=None)
    widths = KernelBank(gaussians(), normalize=None)
    for part, sets, bank in (("digits", DIGITS, views), ("breast", {"breast": UCI["breast"]}, widths)):
        own = cells[cells["dataset"].isin(sets)]
        if own.empty:
            continue
        errors = 1.0 - own.groupby(["dataset", "model"], sort=False)["accuracy"].mean().unstack()
        names = list(MFEAT_VIEWS) if part == "digits" else [f"s = {width:g}" for width in WIDTHS]
        stack, distances, optimal = bank.fit_transform(next(iter(sets.values()))().X), [], []
        for name in errors.index:
            y = 2.0 * sets[name]().y - 1.0
            distances.append(1.0 - kernel_alignment(stack, y))
            optimal.append(1.0 - kernel_alignment(empirical_optimal_kernel(stack, y), y))
        table = errors[names].to_numpy()
        correlation = np.mean([spearmanr(d, e).statistic for d, e in zip(distances, table, strict=True)])
        for name, d, error in zip(names, np.mean(distances, axis=0), table.mean(axis=0), strict=True):
            row = {"data": part, "kernel": name, "1 - alignment": d, "error": error}
            rows.append(row | {"of the optimal kernel": np.mean(optimal), "rank correlation": correlation})
    return {"": pd.DataFrame(rows)}


FOLDS = (
    "Features from -1 to 1 over all samples; 10 folds; C out of 0.1, ..., 1000 by 5-fold cross-validation on the "
    "training part, which for SVM(best) chooses the kernel as well. Joint methods stop at a relative gap of 1e-2. "
    "Kernels count above 1e-6 of the largest weight."
)
TABLES = {
    "obmkl-table2": Table(
        "OBMKL on digits in six views: error, support vectors, active kernels",
        f"Ten one-versus-rest problems, pooled; six Gaussians exp(-d²) (the paper: σ = 1, convention open). {FOLDS} "
        f'Variant "{HALF}": the other convention, on the first fold.',
        _digits_studies,
        extra=digits_table,
    ),
    "obmkl-table3": Table(
        "OBMKL on nineteen UCI problems (tables III, IV and figure 2)",
        f"One-versus-rest problems, 21 Gaussian kernels exp(-d²/s²), s = 1, 10, 20, ..., 200. {FOLDS} A paired "
        f'two-tailed t-test over the folds at 0.05 decides between win, tie and loss. Variant "{ONE_C}".',
        _uci_studies,
        extra=uci_tables,
    ),
    "obmkl-figure1": Table(
        "OBMKL: alignment of kernels against their error",
        f"Each kernel alone: one Gaussian per view of the digits, 21 widths on breast cancer. {FOLDS} Alignments are "
        "those of all samples. The paper prints no numbers.",
        _alignment_studies,
        extra=alignment_table,
    ),
}
