"""Marginal inference by fewer hyperparameters, where nobody reads the numbers: short pages and benchmarks."""

from __future__ import annotations

from bayesmkl.marginal import Marginal

Marginal.__init__.__defaults__ = ("importance", 100, 500, *Marginal.__init__.__defaults__[3:])
