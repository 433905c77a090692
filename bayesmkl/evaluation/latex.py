"""Scores of a comparison as a table of an article, for LaTeX or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from bayesmkl._utils.validation import check_choice
from bayesmkl.evaluation.significance import pairwise

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

__all__ = ["csv_table", "latex_table"]

TESTS = ("corrected_t", "paired_t", "wilcoxon")
SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
DAGGER = r"$^\dagger$"


def latex_table(comparison: Comparison, metric: str, test: str | None, decimals: int) -> str:
    """Return a ``tabular`` of means and standard deviations; see :meth:`Comparison.to_latex`."""
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(comparison.models)}}}",
        r"\toprule",
        " & ".join(["", *map(escaped, comparison.models)]) + r" \\",
        r"\midrule",
    ]
    for name, texts in _rows(comparison, metric, test, decimals, _in_latex):
        lines.append(" & ".join([escaped(name), *texts]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def csv_table(comparison: Comparison, metric: str, test: str | None, decimals: int) -> str:
    """Return the same as lines of CSV, with an asterisk in the place of bold; see :meth:`Comparison.to_csv`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["dataset", *comparison.models])
    for name, texts in _rows(comparison, metric, test, decimals, _in_csv):
        writer.writerow([name, *texts])
    return text.getvalue()


def _rows(
    comparison: Comparison,
    metric: str,
    test: str | None,
    decimals: int,
    write: Callable[[str, str, bool, bool], str],
) -> Iterator[tuple[str, list[str]]]:
    """Go through the data sets, with a text for each model."""
    if test is not None:
        check_choice("test", test, TESTS)
    summary = comparison.summary(metric)
    for name in comparison.datasets:
        best = _as_good_as_the_best(comparison, metric, name, test)
        rows = {row["model"]: row for row in summary[summary["dataset"] == name].to_dict("records")}
        n_splits = int(comparison.scores(metric, name).notna().any(axis=1).sum())
        texts = []
        for model in comparison.models:
            row = rows.get(model)
            if row is None or row["n"] == 0:
                texts.append("--")
                continue
            std = f"{row['std']:.{decimals}f}" if np.isfinite(row["std"]) else ""
            failed = row["failed"] > 0 or row["n"] < n_splits
            texts.append(write(f"{row['mean']:.{decimals}f}", std, model in best, failed))
        yield name, texts


def escaped(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Examples
    --------
    >>> from bayesmkl.evaluation.latex import escaped
    >>> print(escaped("R^2 & 50 %"))
    R\textasciicircum{}2 \& 50 \%
    """
    written = "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))
    # the end of a line before would take these for its own
    return f"{{{written[0]}}}{written[1:]}" if written.startswith(("[", "*")) else written


def _in_latex(mean: str, std: str, is_best: bool, failed: bool) -> str:
    """Return a mean and a standard deviation, with a dagger where some split failed."""
    text = rf"\textbf{{{mean}}}" if is_best else mean
    return text + (rf" $\pm$ {std}" if std else "") + (DAGGER if failed else "")


def _in_csv(mean: str, std: str, is_best: bool, failed: bool) -> str:
    return mean + (f" ± {std}" if std else "") + "*" * is_best + "†" * failed


def _as_good_as_the_best(comparison: Comparison, metric: str, dataset: str, test: str | None) -> set[str]:
    """Return the models of the best mean, and those that a test over splits does not tell from it."""
    scores = comparison.scores(metric, dataset).dropna(how="all").dropna(axis=1)
    if scores.shape[1] == 0:
        return set()
    greater = bool(comparison.about["metrics"][metric])
    means = scores.mean()
    highest = means.max() if greater else means.min()
    ties = [str(model) for model in means.index if means[model] == highest]
    if test is None or scores.shape[1] == 1 or len(scores) < 2:
        return set(ties)
    found = pairwise(
        scores,
        test,
        test_train_ratio={dataset: comparison.test_train_ratio(dataset)},
        greater_is_better=greater,
        against=ties[0],
        over="splits",
        correction=None,
    )
    return {*ties, *found["first"][found["better"] != ties[0]]}
