"""Bayesian efficient multiple kernel learning (Gönen 2012)."""

from __future__ import annotations

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._utils.options import NUTS, VB, Gibbs, Storage
from bayesmkl.bemkl import model as model
from bayesmkl.bemkl import multitask as multitask
from bayesmkl.bemkl.classifier import BEMKLClassifier
from bayesmkl.bemkl.moments import Dirichlet, Gamma, SpikeSlab
from bayesmkl.bemkl.multitask_estimators import BEMKLMultitaskClassifier, BEMKLMultitaskRegressor
from bayesmkl.bemkl.ordinal import BEMKLOrdinalClassifier
from bayesmkl.bemkl.regressor import BEMKLRegressor, BEMKLSurvival
from bayesmkl.bemkl.selection import EvidenceSearch, select_by_elbo

__all__ = [
    "NUTS",
    "VB",
    "BEMKLClassifier",
    "BEMKLMultitaskClassifier",
    "BEMKLMultitaskRegressor",
    "BEMKLOrdinalClassifier",
    "BEMKLRegressor",
    "BEMKLSurvival",
    "Dirichlet",
    "EvidenceSearch",
    "Gamma",
    "Gibbs",
    "NumPyroProgram",
    "SpikeSlab",
    "Storage",
    "select_by_elbo",
]
