"""Published numbers of Wang et al. (2014), tables II to IV, and the rows that set ours beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import spearmanr

from bayesmkl.evaluation.significance import win_totals, wins
from bayesmkl.evaluation.study import DataRef
from bayesmkl.kernels import KernelBank
from bayesmkl.kernels.alignment import empirical_optimal_kernel, kernel_alignment
from bayesmkl.reproduction.printing import provenance, values_of
from bayesmkl.reproduction.tables import Printed, Published, Setting

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

__all__ = [
    "METHODS",
    "TABLE_2",
    "TABLE_3",
    "TABLE_4",
    "alignment_tables",
    "digits_tables",
    "error_tables",
    "record_tables",
    "total_tables",
]

TABLE_2 = {  # cross-validation error, support vectors, active kernels
    "OBMKL(ratio)": (Published(0.0679, 0.0364), Published(392.1, 161.2), Published(6.0, 0.0)),
    "OBMKL(qp)": (Published(0.0677, 0.0380), Published(301.8, 174.8), Published(2.0, 0.0)),
    "OBMKL(aqp)": (Published(0.0584, 0.0324), Published(418.6, 179.8), Published(2.0, 0.0)),
    "ABMKL(ratio)": (Published(0.0681, 0.0367), Published(375.9, 164.0), Published(6.0, 0.0)),
    "ABMKL(convex)": (Published(0.0716, 0.0403), Published(243.1, 136.0), Published(1.2, 0.4)),
    "GMKL": (Published(0.0573, 0.0282), Published(647.8, 410.5), Published(3.4, 1.2)),
    "GLMKL": (Published(0.0582, 0.0285), Published(668.5, 422.0), Published(5.8, 0.4)),
    "RBMKL": (Published(0.0661, 0.0330), Published(760.2, 161.2), Published(6.0, 0.0)),
    "SVM(best)": (Published(0.0628, 0.0325), Published(889.9, 711.9), Published(1.0, 0.0)),
}
Record = tuple[int, int, int]  # wins, ties, losses
TABLE_3: dict[str, dict[str, Record]] = {  # of each variant of OBMKL against each method
    "OBMKL(ratio)": {
        "OBMKL(qp)": (3, 2, 14),
        "OBMKL(aqp)": (2, 4, 13),
        "ABMKL(ratio)": (6, 8, 5),
        "ABMKL(convex)": (5, 4, 10),
        "GMKL": (2, 8, 9),
        "GLMKL": (3, 6, 10),
        "RBMKL": (10, 5, 4),
        "SVM(best)": (3, 3, 13),
    },
    "OBMKL(qp)": {
        "OBMKL(ratio)": (14, 2, 3),
        "OBMKL(aqp)": (6, 8, 5),
        "ABMKL(ratio)": (13, 4, 2),
        "ABMKL(convex)": (7, 9, 3),
        "GMKL": (8, 7, 4),
        "GLMKL": (7, 9, 3),
        "RBMKL": (15, 3, 1),
        "SVM(best)": (6, 7, 6),
    },
    "OBMKL(aqp)": {
        "OBMKL(ratio)": (13, 4, 2),
        "OBMKL(qp)": (5, 8, 6),
        "ABMKL(ratio)": (13, 4, 2),
        "ABMKL(convex)": (7, 8, 4),
        "GMKL": (7, 9, 3),
        "GLMKL": (7, 8, 4),
        "RBMKL": (14, 3, 2),
        "SVM(best)": (5, 5, 9),
    },
}
TABLE_4 = {  # wins, ties, losses; percentage of wins; support vectors; active kernels
    "OBMKL(ratio)": ((34, 40, 78), 22.37, Published(189.1, 107.7), Published(21.0, 0.0)),
    "OBMKL(qp)": ((76, 49, 27), 50.0, Published(106.9, 99.5), Published(2.3, 0.4)),
    "OBMKL(aqp)": ((71, 49, 32), 46.71, Published(140.6, 101.2), Published(2.8, 0.5)),
    "ABMKL(ratio)": ((28, 40, 84), 18.42, Published(182.1, 113.7), Published(21.0, 0.0)),
    "ABMKL(convex)": ((53, 54, 45), 34.87, Published(113.5, 107.2), Published(1.7, 0.7)),
    "GMKL": ((57, 54, 41), 37.5, Published(166.7, 125.2), Published(19.3, 3.4)),
    "GLMKL": ((56, 56, 40), 36.84, Published(173.4, 128.5), Published(21.0, 0.0)),
    "RBMKL": ((22, 25, 105), 14.47, Published(252.1, 122.3), Published(21.0, 0.0)),
    "SVM(best)": ((83, 41, 28), 54.61, Published(181.3, 114.5), Published(1.0, 0.0)),
}
METHODS = tuple(TABLE_4)
QUANTITIES = ("cross-validation error", "support vectors", "active kernels")


def digits_tables(comparison: Comparison, setting: Setting) -> list[Printed]:
    """Return table II: numbers pooled over problems and folds."""
    rows = [
        _pooled(comparison, name, ending, what, published)
        for ending in _endings(comparison)
        for name in METHODS
        for what, published in zip(QUANTITIES, TABLE_2[name], strict=True)
    ]
    return [Printed("Digits in six views, one-versus-rest problems pooled", pd.DataFrame(rows))]


def record_tables(comparison: Comparison, setting: Setting) -> list[Printed]:
    """Return table III: wins, ties and losses of three methods against every other, with sizes of table IV."""
    rows = []
    for ending in _endings(comparison):
        records = _records(_wins(comparison, ending), ["model", "opponent"])
        for model, opponents in TABLE_3.items():
            for opponent, published in opponents.items():
                found = records[model, opponent]
                rows.append(
                    _source(comparison, ending)
                    | {"model": model, "against": opponent}
                    | {"published": _text(published), "ours": _text(found)}
                    | {"difference in wins": found[0] - published[0]}
                )
    return [Printed("Wins, ties, losses by a paired t-test at 0.05", pd.DataFrame(rows)), _sizes(comparison)]


def total_tables(comparison: Comparison, setting: Setting) -> list[Printed]:
    """Return table IV: sums of wins, ties and losses over the eight others, support vectors and active kernels."""
    totals, rankings = [], []
    for ending in _endings(comparison):
        found = win_totals(_wins(comparison, ending))
        records, rates = _records(found.reset_index(), ["model"]), found["win_rate"].to_dict()
        source, errors = _source(comparison, ending), _errors(comparison, ending)
        for model, (record, percent, *_) in TABLE_4.items():
            totals.append(
                source
                | {"model": model, "published": _text(record), "published wins (%)": percent}
                | {"ours": _text(records[model,]), "ours wins (%)": 100.0 * float(rates[model])}
                | {"error (%)": 100.0 * float(errors[model].mean())}
            )
        published_rate = [TABLE_4[model][1] for model in METHODS]
        rankings.append(
            source
            | {"rank correlation with published wins": "of our wins"}
            | {"ours": _rank_correlation(published_rate, [rates[model] for model in METHODS])}
        )
        mean_ranks = errors.groupby(level="dataset").mean().rank(axis=1).mean()
        rankings.append(
            source
            | {"rank correlation with published wins": "of our mean ranks by error (reversed)"}
            | {"ours": _rank_correlation(published_rate, -mean_ranks[list(METHODS)])}
        )
    return [
        Printed(
            "Wins, ties, losses against the eight other methods", pd.DataFrame(totals), ("ours", "error (%)")
        ),
        _sizes(comparison),
        Printed("Is the ranking the same?", pd.DataFrame(rankings)),
    ]


def error_tables(comparison: Comparison, setting: Setting) -> list[Printed]:
    """Return figure 2: the error of every method on every problem."""
    rows = []
    for ending in _endings(comparison):
        means = 100.0 * _errors(comparison, ending).groupby(level="dataset", sort=False).mean()
        for label, errors in means.iterrows():
            rows.append(provenance(comparison, str(label), _variant(ending)) | errors.to_dict())
    return [Printed("Cross-validation error (%)", pd.DataFrame(rows), METHODS)]


def alignment_tables(
    comparison: Comparison,
    parts: Mapping[str, tuple[Callable[[], Mapping[str, DataRef]], KernelBank, list[str]]],
) -> list[Printed]:
    """Return figure 1: 1 - alignment of every kernel beside the error of its SVM, means over problems.

    Parameters
    ----------
    comparison : Comparison
    parts : dict
        Of each part of the figure its data sets (which differ in the labels alone), their kernels, and the names of
        the models with one of these kernels each. Alignments are kept in the description of the comparison, and the
        data are not needed again.
    """
    kernels, agreement = [], []
    known = comparison.about.setdefault("alignments", {})
    for part, (find, bank, names) in parts.items():
        if part not in known:
            known[part] = _alignments(find(), bank)
        refs, distance, optimal = known[part]["data"], np.array(known[part]["each"]), known[part]["optimal"]
        errors = np.array(
            [[1.0 - values_of(comparison, ref, name, "accuracy").mean() for name in names] for ref in refs]
        )
        source = provenance(comparison, list(refs))
        for name, d, error in zip(names, distance.mean(axis=0), errors.mean(axis=0), strict=True):
            kernels.append(source | {"kernel": name, "1 - alignment": d, "error": error})
        correlation = np.mean([_rank_correlation(d, e) for d, e in zip(distance, errors, strict=True)])
        agreement.append(
            source
            | {"rank correlation over kernels": correlation}
            | {"smallest 1 - alignment": distance.mean(axis=0).min(), "of the optimal kernel": optimal}
        )
    return [
        Printed("Alignment and error of each kernel", pd.DataFrame(kernels), ("1 - alignment", "error")),
        Printed(
            "Do they agree?", pd.DataFrame(agreement), ("smallest 1 - alignment", "of the optimal kernel")
        ),
    ]


# ---------------------------------------------------------------------------------------------------------- pieces


def _alignments(refs: Mapping[str, DataRef], bank: KernelBank) -> dict[str, Any]:
    """Return 1 - alignment of each kernel with the labels of each data set, and the mean of the optimal kernel."""
    stack = bank.fit_transform(next(iter(refs.values()))().X)
    targets = [2.0 * (y == y.max()) - 1.0 for y in (ref().y for ref in refs.values())]
    optimal = [kernel_alignment(empirical_optimal_kernel(stack, y), y) for y in targets]
    return {
        "data": list(refs),
        "each": [(1.0 - kernel_alignment(stack, y)).tolist() for y in targets],
        "optimal": 1.0 - float(np.mean(optimal)),
    }


def _endings(comparison: Comparison) -> list[str]:
    """Return the suffix of the methods' names in each variant, "" for the paper's protocol."""
    return [name.removeprefix(METHODS[0]) for name in comparison.models if name.startswith(METHODS[0])]


def _variant(ending: str) -> str:
    return ending.removeprefix(", ")


def _source(comparison: Comparison, ending: str) -> dict[str, Any]:
    return provenance(comparison, variant=_variant(ending), model=METHODS[0] + ending)


def _errors(comparison: Comparison, ending: str) -> pd.DataFrame:
    """Return the errors of one variant of all methods, indexed by (data set, split)."""
    scores = comparison.scores("accuracy")[[name + ending for name in METHODS]]
    return 1.0 - scores.set_axis(list(METHODS), axis=1)


def _wins(comparison: Comparison, ending: str) -> pd.DataFrame:
    return wins(_errors(comparison, ending), greater_is_better=False)


def _sizes(comparison: Comparison) -> Printed:
    """Set support vectors and active kernels beside those of table IV."""
    rows = [
        _pooled(comparison, model, ending, what, published)
        for ending in _endings(comparison)
        for model, (_, _, *sizes) in TABLE_4.items()
        for what, published in zip(QUANTITIES[1:], sizes, strict=True)
    ]
    return Printed("Support vectors and active kernels (published in table IV)", pd.DataFrame(rows))


def _records(table: pd.DataFrame, keys: list[str]) -> dict[tuple[str, ...], Record]:
    """Return (wins, ties, losses) by the columns `keys`."""
    counts = table[["wins", "ties", "losses"]].to_numpy(dtype=int)
    names = table[keys].to_numpy()
    return {tuple(name): tuple(count.tolist()) for name, count in zip(names, counts, strict=True)}


def _pooled(
    comparison: Comparison, model: str, ending: str, what: str, published: Published
) -> dict[str, Any]:
    """Set one quantity, over all problems and splits, beside the published one."""
    cells = comparison.cells[comparison.cells["model"] == model + ending]
    columns = (
        1.0 - cells["accuracy"],
        cells["support_fraction"] * cells["n_train"],
        cells["n_active_kernels"].fillna(1.0 if model == "SVM(best)" else np.nan),  # an SVC does not say
    )
    values = np.asarray(columns[QUANTITIES.index(what)], dtype=float)
    difference = values.mean() - published.value
    return _source(comparison, ending) | {
        "model": model,
        "metric": what,
        "published": published.value,
        "published_sd": published.std,
        "ours": values.mean(),
        "ours_sd": values.std(ddof=1) if len(values) > 1 else np.nan,
        "difference": difference,
        "difference_in_sd": difference / published.std if published.std else np.nan,
    }


def _text(record: Iterable[Any]) -> str:
    return ", ".join(str(int(count)) for count in record)


def _rank_correlation(a: ArrayLike, b: ArrayLike) -> float:
    """Return Spearman's correlation; 0 where all values of one side are equal, which says nothing."""
    return float(spearmanr(a, b).statistic) if np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0
