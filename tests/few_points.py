"""Marginal inference by fewer hyperparameters, where nobody reads the numbers: short pages and benchmarks."""

from __future__ import annotations

from bayesmkl.marginal import Marginal

__all__ = ["use_few_points"]


def use_few_points() -> None:
    """Make 100 points and 500 draws the defaults of this process."""
    Marginal.__init__.__defaults__ = ("importance", 100, 500, *Marginal.__init__.__defaults__[3:])
