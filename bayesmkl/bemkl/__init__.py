"""Bayesian efficient multiple kernel learning (Gönen 2012)."""

from __future__ import annotations

from bayesmkl.bemkl._moments import Gamma
from bayesmkl.bemkl.estimators import BEMKLClassifier, BEMKLRegressor
from bayesmkl.bemkl.kernel_priors import Dirichlet, SpikeSlab

__all__ = ["BEMKLClassifier", "BEMKLRegressor", "Dirichlet", "Gamma", "SpikeSlab"]
