"""Scores of a comparison as a table for LaTeX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._utils.validation import check_choice
from bayesmkl.evaluation.significance import pairwise

if TYPE_CHECKING:
    from bayesmkl.evaluation.comparison import Comparison

__all__ = ["latex_table"]

TESTS = ("corrected_t", "paired_t", "wilcoxon")
SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
DAGGER = r"$^\dagger$"


def latex_table(comparison: Comparison, metric: str, test: str | None, decimals: int) -> str:
    """Return a ``tabular`` of means and standard deviations; see :meth:`Comparison.to_latex`.

    Parameters
    ----------
    comparison : Comparison
    metric : str
        One of its metrics.
    test : str or None
    decimals : int
    """
    if test is not None:
        check_choice("test", test, TESTS)
    summary = comparison.summary(metric)
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(comparison.models)}}}",
        r"\toprule",
        " & ".join(["", *map(escaped, comparison.models)]) + r" \\",
        r"\midrule",
    ]
    for name in comparison.datasets:
        bold = _as_good_as_the_best(comparison, metric, name, test)
        rows = {row["model"]: row for row in summary[summary["dataset"] == name].to_dict("records")}
        n_splits = max(row["n"] for row in rows.values())
        texts = [
            _cell(rows[model], model in bold, n_splits, decimals) if model in rows else "--"
            for model in comparison.models
        ]
        lines.append(" & ".join([escaped(name), *texts]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def escaped(text: str) -> str:
    r"""Return a text as LaTeX prints it.

    Examples
    --------
    >>> from bayesmkl.evaluation.latex import escaped
    >>> print(escaped("R^2 & 50 %"))
    R\textasciicircum{}2 \& 50 \%
    """
    return "".join(SPECIAL.get(character, character) for character in text)


def _cell(row: dict[Any, Any], is_bold: bool, n_splits: int, decimals: int) -> str:
    """Return a mean and a standard deviation, with a dagger where some split failed."""
    if row["n"] == 0:
        return "--"
    text = f"{row['mean']:.{decimals}f}"
    text = rf"\textbf{{{text}}}" if is_bold else text
    if np.isfinite(row["std"]):
        text += rf" $\pm$ {row['std']:.{decimals}f}"
    return text + (DAGGER if row["n"] < n_splits else "")


def _as_good_as_the_best(comparison: Comparison, metric: str, dataset: str, test: str | None) -> set[str]:
    """Return the models of the best mean, and those that a test over splits does not tell from it."""
    scores = comparison.scores(metric, dataset).dropna(axis=1)
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
