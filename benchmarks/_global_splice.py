"""PrimalMKL on 1500 sequences of splice, the case of figure 1 of its paper that takes longest (Hao et al. 2012)."""

from __future__ import annotations

from typing import Any

from _primal_speed import figure_1
from _protocol import have_real_data


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Measure it; without the folder that `BAYESMKL_DATA` names, the short form on generated data."""
    if fast or not have_real_data():
        return figure_1(fast=True)
    return figure_1(fast=False, names=("splice",), sizes=(1500,))
