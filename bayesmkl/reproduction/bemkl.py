"""The tables of the BEMKL paper: M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML, §6."""

from __future__ import annotations

from bayesmkl.reproduction.bemkl_classes import TABLE2, TABLE3, TABLE4, TABLE5
from bayesmkl.reproduction.bemkl_uci import TABLE1

__all__ = ["TABLES"]

TABLES = {table.name: table for table in (TABLE1, TABLE2, TABLE3, TABLE4, TABLE5)}
