"""Bayesian efficient multiple kernel learning (Gönen 2012)."""

from __future__ import annotations

from bayesmkl.bemkl._moments import Gamma
from bayesmkl.bemkl.estimators import BEMKLClassifier, BEMKLRegressor

__all__ = ["BEMKLClassifier", "BEMKLRegressor", "Gamma"]
