"""Tables of the scoreboard: summaries and tests over data sets, choices within BEMKL, what is asked, every set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from _report import claim, markdown_table
from _scoreboard_models import CONSTANT, DEFAULT, MODELS, ONE_DIRICHLET, TODAY, TRUTH
from _scoreboard_sets import SETS, WIDE

from bayesmkl.evaluation.significance import critical_difference, friedman, rank_table, wilcoxon

GPMKL, GPMKL_PAPER = "GPMKL", "GPMKL, paper bank"
ALL_TOO = ", also on all features"
LINEAR, SVM, FOREST, BOOSTED, GP, GP_EACH = (
    "logistic or ridge regression",
    "SVC or SVR, sigmoid",
    "random forest",
    "boosted trees",
    "GP, learned width",
    "GP, a width for each feature",
)
PEERS = (SVM, GP, LINEAR, FOREST)
SHORT = {
    CONSTANT: "frequencies, constant",
    TODAY: "margin 1, paper",
    DEFAULT: "BEMKL",
    GPMKL: "GPMKL",
    "SimpleMKL, sigmoid": "SimpleMKL",
    "uniform weights, sigmoid": "uniform",
    LINEAR: "linear",
    SVM: "SVM",
    FOREST: "forest",
    BOOSTED: "boosting",
    GP: "GP",
    GP_EACH: "GP, widths",
    "himalaya": "himalaya",
    TRUTH: "truth",
}
# What is compared over data sets, first against second.
CHOICES = (
    ("BEMKL, σ_g = 1, paper bank", TODAY),
    ("BEMKL, σ_g = 0.3, paper bank", "BEMKL, σ_g = 1, paper bank"),
    ("BEMKL, σ_g = 0.3, auto bank", "BEMKL, σ_g = 1, auto bank"),
    ("BEMKL, σ_g = 0.1, paper bank", "BEMKL, σ_g = 0.3, paper bank"),
    ("BEMKL, σ_g = 0.1, auto bank", "BEMKL, σ_g = 0.3, auto bank"),
    *((DEFAULT, f"BEMKL, σ_g = {scale:g}, auto bank") for scale in (1.0, 0.3, 0.1)),
    ("BEMKL, σ_g = 0.3, auto bank", "BEMKL, σ_g = 0.3, paper bank"),
    (DEFAULT, "BEMKL, paper bank"),
    (GPMKL, GPMKL_PAPER),
    (GPMKL, ONE_DIRICHLET),
    (GPMKL, f"{GPMKL}, T = 1"),
    (DEFAULT, f"{DEFAULT}, T = 1"),
    (f"{GPMKL}{ALL_TOO}", GPMKL),
    (f"{DEFAULT}{ALL_TOO}", DEFAULT),
    (GPMKL, DEFAULT),
    *((GPMKL, peer) for peer in ("SimpleMKL, sigmoid", SVM, GP, LINEAR, FOREST, BOOSTED)),
    *((DEFAULT, peer) for peer in ("SimpleMKL, sigmoid", SVM, GP, LINEAR, FOREST)),
)
REGRESSION_CHOICES = (
    (DEFAULT, "BEMKL, paper bank"),
    (GPMKL, GPMKL_PAPER),
    (GPMKL, ONE_DIRICHLET),
    (f"{GPMKL}{ALL_TOO}", GPMKL),
    (GPMKL, DEFAULT),
    *((GPMKL, peer) for peer in (GP, GP_EACH, SVM, LINEAR, FOREST, BOOSTED, "himalaya")),
)
TOLERANCE = 0.01  # by which a set may be worse than class frequencies
COVERAGE = (0.93, 0.97)


class Board:
    """Results of the sets of some tasks, on the splits that all models have."""

    def __init__(self, rows: list[dict[str, Any]], tasks: Sequence[str]) -> None:
        table = pd.DataFrame(
            [row for row in rows if row["task"] in tasks and row["set"] in SETS and not SETS[row["set"]].only]
        )
        table = table.drop_duplicates(["set", "split", "model"])  # of processes that met
        self.cells = table
        order = [model for model in MODELS if model in set(table["model"])]
        self.sets = [name for name in SETS if name in set(table["set"])]
        self.models = [m for m in order if m != TRUTH and not MODELS[m].extra]
        shown = table[table["model"].isin(self.models)]
        counts = shown.groupby(["set", "split"])["model"].nunique()
        self.whole = counts[counts == len(self.models)].index  # splits that all models have

    def scores(self, key: str, models: Sequence[str] | None = None) -> pd.DataFrame:
        """Means over splits, a row per set and a column per model; a failure counts as the constant prediction."""
        models = list(models or self.models)
        found = self._by_model(key)
        found = found.reindex(columns=dict.fromkeys([*models, CONSTANT])).loc[self.whole]
        if TRUTH not in models and not any(MODELS[m].extra for m in models):
            found = found.apply(lambda column: column.fillna(found[CONSTANT]))
        means = found.groupby(level="set", sort=False).mean()
        return means.reindex([name for name in self.sets if name in means.index])[models]

    def difference(self, first: str, second: str, key: str) -> pd.Series:
        """First minus second: means over the splits that both have, by set."""
        found = self._by_model(key)
        if first not in found or second not in found:
            return pd.Series(dtype=float)
        return (found[first] - found[second]).dropna().groupby(level="set").mean()

    def _by_model(self, key: str) -> pd.DataFrame:
        """Scores of every cell, a row per set and split and a column per model."""
        return self.cells.pivot(index=["set", "split"], columns="model", values=key)

    def n_splits(self) -> tuple[int, int]:
        """Least and largest number of splits of a set."""
        counts = pd.Series(self.whole.get_level_values("set")).value_counts()
        return int(counts.min()), int(counts.max())

    def trouble(self, model: str) -> str:
        """How often a model failed, warned of its convergence, or says that it did not converge."""
        own = self.cells[(self.cells["model"] == model)]
        failed = int(own["error"].notna().sum()) if "error" in own else 0
        kinds: Counter[str] = Counter()
        for warned in own["warnings"]:
            kinds.update(dict.fromkeys(warned, 1))
        unconverged = sum(
            isinstance(n, dict) and n.get("converged") is False
            for n in own.get("notes", pd.Series(dtype=object))
        )
        parts = [f"{failed} failed"] if failed else []
        parts += [f"{unconverged} not converged"] if unconverged else []
        parts += [f"{count} {kind}" for kind, count in kinds.items() if kind not in ("KernelQualityWarning",)]
        return f"{', '.join(parts)} (of {len(own)})" if parts else ""


def report(rows: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Everything as Markdown, and the numbers behind it."""
    parts, choices, sets, claims = [], [], [], []
    numbers: dict[str, Any] = {"splits": {}, "means": {}}
    if any(row["task"] != "regression" for row in rows):
        board = Board(rows, ("binary", "several"))
        parts += ["### Classification", class_text(board)]
        choices.append(choices_table(board, CHOICES, "log_loss"))
        sets += ["### Every set: log loss", set_table(board, "log_loss", 3)]
        sets += ["### Every set: accuracy in percent", set_table(board, "accuracy", 1, 100.0)]
        claims += class_claims(board)
        numbers["splits"]["classification"] = board.n_splits()
        numbers["means"]["log_loss"] = board.scores("log_loss").round(4).to_dict()
    if any(row["task"] == "regression" and not SETS[row["set"]].only for row in rows):
        board = Board(rows, ("regression",))
        parts += ["### Regression", regression_text(board)]
        choices.append(choices_table(board, REGRESSION_CHOICES, "nll"))
        sets += ["### Every set: negative log density", set_table(board, "nll", 3)]
        sets += ["### Every set: coverage of 95 % intervals", set_table(board, "coverage", 1, 100.0)]
        claims += regression_claims(board)
        numbers["splits"]["regression"] = board.n_splits()
        numbers["means"]["nll"] = board.scores("nll").round(4).to_dict()
    claims += wide_claims(rows)
    text = "\n\n".join(
        [*parts, "### Choices, set against set", *filter(None, choices), extra_text(rows), *sets]
    )
    return text, numbers | {"claims": claims}


# ---------------------------------------------------------------------------------------------------- summaries


def lineup(board: Board, one: str) -> list[str]:
    """All models but those BEMKL variants that are not `one`."""
    return [m for m in board.models if m == one or not m.startswith("BEMKL")]


def mean_rank(board: Board, model: str, key: str, default: str) -> float:
    """Mean rank with a single BEMKL in the line-up: `model` if it is one."""
    one = model if model.startswith("BEMKL") else default
    return float(rank_table(board.scores(key, lineup(board, one)), False)["mean_rank"][model])


def test_text(board: Board, key: str, default: str) -> str:
    """Friedman's test and the critical difference, with one BEMKL in the line-up."""
    default = default if default in board.models else next(m for m in board.models if m.startswith("BEMKL"))
    scores = board.scores(key, lineup(board, default))
    if len(scores) < 2 or scores.shape[1] < 3:
        return ""
    result = friedman(scores, greater_is_better=False)
    distance = critical_difference(result.n_models, result.n_datasets)
    best, rank = result.mean_ranks.index[0], result.mean_ranks.iloc[0]
    level = [m for m, r in result.mean_ranks.items() if r - rank <= distance and m != best]
    return (
        f"Ranks with one BEMKL ({default}) among {result.n_models} models on {result.n_datasets} sets: Friedman's "
        f"p = {result.p_value:.2g}; mean ranks differ at the 5 % level (Nemenyi) from {distance:.2f} on. First is "
        f"{best} ({rank:.2f}); not to be told from it: {'; '.join(level) or 'none'}."
    )


def real(table: pd.DataFrame) -> list[str]:
    """Sets that are not simulated."""
    return [name for name in table.index if "simulated" not in SETS[name].about]


def class_text(board: Board) -> str:
    """Summary of the classification: means over sets, the best first."""
    keys = ("log_loss", "log_loss_tiny", "clipped", "brier", "ece", "accuracy")
    tables = {key: board.scores(key) for key in keys}
    losses, ranks = tables["log_loss"], rank_table(tables["log_loss"], False)["mean_rank"]
    seconds = board.cells.groupby("model")["seconds"].median()
    tasks = pd.Series({name: SETS[name].task for name in losses.index})
    worse = losses.sub(losses[CONSTANT], axis=0).max()
    body = []
    for model in losses.mean().sort_values().index:
        binary, several = (losses.loc[tasks == task, model].mean() for task in ("binary", "several"))
        alone = f"{mean_rank(board, model, 'log_loss', DEFAULT):.2f}" if DEFAULT in board.models else "–"
        mean = {key: table[model].mean() for key, table in tables.items()}
        body.append(
            f"{model} | {mean['log_loss']:.4f} | {binary:.3f} | {several:.3f} | "
            f"{losses.loc[real(losses), model].mean():.4f} | {ranks[model]:.2f} | {alone} | "
            f"{mean['brier']:.3f} | {100 * mean['ece']:.1f} | {100 * mean['accuracy']:.1f} | "
            f"{mean['log_loss_tiny']:.3f}, {100 * mean['clipped']:.2f} % | {worse[model]:+.3f} | "
            f"{seconds[model]:.2g} | {board.trouble(model)}"
        )
    headers = (
        "model | mean log loss | binary | several classes | real sets | mean rank, all | with one BEMKL | "
        "Brier | ECE % | accuracy % | log loss clipped at 1e-15, share below 1e-4 | "
        "worst set, above the frequencies | seconds | trouble"
    )
    return f"{counted(board)}\n\n{markdown_table(headers, body)}\n\n{test_text(board, 'log_loss', DEFAULT)}"


def regression_text(board: Board) -> str:
    """Summary of the regression: means over sets, the best first."""
    tables = {key: board.scores(key) for key in ("nll", "r2", "coverage", "width")}
    densities, ranks = tables["nll"], rank_table(tables["nll"], False)["mean_rank"]
    seconds = board.cells.groupby("model")["seconds"].median()
    body = []
    for model in densities.mean().sort_values().index:
        coverage = 100 * tables["coverage"][model]
        body.append(
            f"{model} | {densities[model].mean():.4f} | "
            f"{densities.loc[real(densities), model].mean():.4f} | {ranks[model]:.2f} | "
            f"{mean_rank(board, model, 'nll', DEFAULT):.2f} | {tables['r2'][model].mean():.3f} | "
            f"{coverage.mean():.1f} | {coverage.min():.1f} to {coverage.max():.1f} | "
            f"{tables['width'][model].mean():.2f} | {seconds[model]:.2g} | {board.trouble(model)}"
        )
    headers = (
        "model | mean NLL | real sets | mean rank, all | with one BEMKL | R² | coverage % | by set | "
        "width | seconds | trouble"
    )
    test = test_text(board, "nll", DEFAULT)
    return f"{counted(board)}\n\n{markdown_table(headers, body)}\n\n{test}"


def counted(board: Board) -> str:
    """How much was measured."""
    least, most = board.n_splits()
    splits = f"{least}" if least == most else f"{least} to {most}"
    text = f"{len(board.scores(next(iter(_keys(board))))):d} sets, {splits} split{'s' * (most > 1)} of each."
    task = board.cells["task"].iloc[0]
    absent = [
        m for m in MODELS if MODELS[m].of(task) and not MODELS[m].extra and m not in {*board.models, TRUTH}
    ]
    return text + f" Not run here: {'; '.join(absent)}." * bool(absent)


def _keys(board: Board) -> list[str]:
    return ["log_loss"] if "log_loss" in board.cells and board.cells["log_loss"].notna().any() else ["nll"]


# ------------------------------------------------------------------------------------------- choices and claims


def choices_table(board: Board, choices: Sequence[tuple[str, str]], key: str) -> str:
    """Differences of means over the sets, with their standard error, and Wilcoxon's test."""
    body = []
    for first, second in choices:
        gaps = board.difference(first, second, key)
        if len(gaps) < 2:
            continue
        p = wilcoxon(gaps.to_numpy(), np.zeros(len(gaps))).p_value
        error = gaps.std(ddof=1) / np.sqrt(len(gaps))
        body.append(
            f"{first} | {second} | {len(gaps)} | {gaps.mean():+.4f} ± {error:.4f} | "
            f"{gaps.median():+.4f} | {int((gaps < 0).sum())} : {int((gaps > 0).sum())} | "
            f"{gaps.max():+.3f} ({gaps.idxmax()}) | {p:.3g}"
        )
    quantity = "log loss" if key == "log_loss" else "NLL"
    headers = (
        f"first | second | sets | {quantity}, first - second | median | sets better : worse | worst set | "
        "p (Wilcoxon)"
    )
    return markdown_table(headers, body) if body else ""


def extra_text(rows: list[dict[str, Any]]) -> str:
    """What the models said that run on the first splits alone."""
    found = []
    for model in (m for m in MODELS if MODELS[m].extra):
        own = [row for row in rows if row["model"] == model and "notes" in row]
        if own:
            unconverged = [row["set"] for row in own if row["notes"].get("converged") is False]
            seconds = float(np.median([row["seconds"] for row in own]))
            where = f" ({'; '.join(unconverged)})" if unconverged else ""
            found.append(
                f"* {model}: {seconds:.2g} s; not converged on {len(unconverged)} of {len(own)} splits{where}"
            )
    return "Rows on a part of the sets:\n\n" + "\n".join(found) if found else ""


def class_claims(board: Board) -> list[dict[str, Any]]:
    """What is asked of BEMKLClassifier and GPMKLClassifier."""
    losses, errors = board.scores("log_loss"), board.scores("ece")
    asked = []
    for model in (DEFAULT, GPMKL, TODAY):
        if model not in losses or not set(PEERS) <= set(losses):
            continue
        means = losses[lineup(board, model if model.startswith("BEMKL") else DEFAULT)]
        ranks = rank_table(means, False)["mean_rank"].rank(method="min")
        best = losses[list(PEERS)].mean().min()
        worst = float((losses[model] - losses[CONSTANT]).max())
        asked += [
            claim(f"{model}: mean log loss, best peer", best, round(losses[model].mean(), 4)),
            claim(f"{model}: place by mean rank", 2, int(ranks[model])),
            claim(f"{model}: mean ECE, SVC's", errors[SVM].mean(), round(errors[model].mean(), 4)),
            claim(f"{model}: worst set above the class frequencies", TOLERANCE, round(worst, 4)),
        ]
    return asked


def outside(board: Board, model: str) -> list[str]:
    """Sets on which the coverage is beyond what is asked by more than two standard errors across splits."""
    found = board.cells[board.cells["model"] == model].groupby("set")["coverage"]
    mean, n = found.mean(), found.count()
    error = found.std(ddof=1).fillna(0.0) / np.sqrt(n)
    low, high = COVERAGE
    beyond = (mean + 2.0 * error < low) | (mean - 2.0 * error > high)
    return [f"{name} ({100 * mean[name]:.1f} %)" for name in mean.index[beyond]]


def regression_claims(board: Board) -> list[dict[str, Any]]:
    """What is asked of BEMKLRegressor and GPMKLRegressor."""
    nll, asked = board.scores("nll"), []
    for model in (GPMKL, DEFAULT):
        if model not in nll or GP not in nll:
            continue
        beyond = outside(board, model)
        named = f": {', '.join(beyond)}" if beyond else ""
        asked.append(
            claim(f"{model}: sets whose 95 % intervals do not cover 93 to 97 %{named}", 0, len(beyond))
        )
        rivals = {"the GP with a learned width": nll[GP]}
        if GP_EACH in nll:
            rivals["the better GP of one width and of one for each feature"] = nll[[GP, GP_EACH]].min(axis=1)
        for name, rival in rivals.items():
            gaps = nll[model] - rival
            asked += [
                claim(f"{model}: NLL above {name}, worst set ({gaps.idxmax()})", 0.05, round(gaps.max(), 4)),
                claim(f"{model}: NLL above {name}, mean", 0.02, round(gaps.mean(), 4)),
            ]
    return asked


def wide_claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is asked of 143 kernels on diabetes, in the units of the target."""
    asked = []
    for model in (GPMKL_PAPER, "BEMKL, paper bank"):
        own = [row for row in rows if row["set"] == WIDE and row["model"] == model and "nll" in row]
        if own:
            what = f"{WIDE}, {model} (splits: {len(own)})"
            density = np.mean([row["nll"] + np.log(row["unit"]) for row in own])
            width = np.mean([row["width"] * row["unit"] for row in own])
            converged = 100.0 * np.mean([row["notes"]["converged"] for row in own])
            asked += [
                claim(f"{what}: NLL", 5.46, round(float(density), 3)),
                claim(f"{what}: width of 95 % intervals", 215, round(float(width), 1)),
                claim(f"{what}: converged", 100, round(float(converged)), " %", at_least=True),
            ]
    return asked


def set_table(board: Board, key: str, digits: int, factor: float = 1.0) -> str:
    """One row per set, one column per model; the best of a set is bold."""
    models = [m for m in SHORT if m in board.models]
    with_truth = TRUTH in set(board.cells["model"])
    values = factor * board.scores(key, [*models, *([TRUTH] if with_truth else [])])
    sign = 1.0 if key in ("log_loss", "nll") else -1.0  # the best is the least
    body = []
    for name, row in values.iterrows():
        own = board.cells[board.cells["set"] == name]
        best = (sign * row[models]).min()
        marked = []
        for model in values:
            text = "" if np.isnan(row[model]) else f"{row[model]:.{digits}f}"
            is_best = key != "coverage" and model != TRUTH and np.isclose(sign * row[model], best)
            marked.append(f"**{text}**" if is_best else text)
        body.append([f"{name} ({SETS[name].about}; {own['n_train'].iloc[0]})", *marked])
    return markdown_table(["set (features; training samples)", *(SHORT[m] for m in values)], body)
