"""Significance tests between models: pairs, several models, and win-tie-loss tables.

On one data set, models are compared over the splits they share; over several data sets, by their mean score or rank
in each. Functions take scores of two models, or a table of scores with a column per model, as ``Comparison.scores``
gives it.
"""

from __future__ import annotations

from bayesmkl.evaluation.significance.pairs import (
    BayesianTest,
    MixedEffects,
    PairedTest,
    bayesian_correlated_t,
    bayesian_mixed_effects,
    corrected_t,
    paired_t,
    wilcoxon,
)
from bayesmkl.evaluation.significance.tables import (
    ALL_DATASETS,
    TESTS,
    FriedmanTest,
    critical_difference,
    friedman,
    holm,
    nemenyi,
    pairwise,
    rank_table,
    win_matrix,
    win_totals,
    wins,
)

__all__ = [
    "ALL_DATASETS",
    "TESTS",
    "BayesianTest",
    "FriedmanTest",
    "MixedEffects",
    "PairedTest",
    "bayesian_correlated_t",
    "bayesian_mixed_effects",
    "corrected_t",
    "critical_difference",
    "friedman",
    "holm",
    "nemenyi",
    "paired_t",
    "pairwise",
    "rank_table",
    "wilcoxon",
    "win_matrix",
    "win_totals",
    "wins",
]
