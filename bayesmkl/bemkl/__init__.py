"""Bayesian efficient multiple kernel learning (Gönen 2012)."""

from __future__ import annotations

from bayesmkl.bemkl._moments import Gamma
from bayesmkl.bemkl.classifier import BEMKLClassifier
from bayesmkl.bemkl.evidence import EvidenceSearch, select_by_elbo
from bayesmkl.bemkl.folds import CrossFit, cross_fit
from bayesmkl.bemkl.kernel_priors import Dirichlet, SpikeSlab
from bayesmkl.bemkl.multitask_estimators import BEMKLMultitaskClassifier, BEMKLMultitaskRegressor
from bayesmkl.bemkl.regressor import BEMKLRegressor

__all__ = [
    "BEMKLClassifier",
    "BEMKLMultitaskClassifier",
    "BEMKLMultitaskRegressor",
    "BEMKLRegressor",
    "CrossFit",
    "Dirichlet",
    "EvidenceSearch",
    "Gamma",
    "SpikeSlab",
    "cross_fit",
    "select_by_elbo",
]
