"""Bayesian efficient multiple kernel learning (Gönen 2012)."""

from __future__ import annotations

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._utils.options import NUTS, VB, Gibbs, Storage
from bayesmkl.bemkl.estimators.classifier import BEMKLClassifier
from bayesmkl.bemkl.estimators.multitask_classifier import BEMKLMultitaskClassifier
from bayesmkl.bemkl.estimators.multitask_regressor import BEMKLMultitaskRegressor
from bayesmkl.bemkl.estimators.ordinal import BEMKLOrdinalClassifier
from bayesmkl.bemkl.estimators.regressor import BEMKLRegressor
from bayesmkl.bemkl.estimators.survival import BEMKLSurvival
from bayesmkl.bemkl.evidence import EvidenceSearch, select_by_elbo
from bayesmkl.bemkl.models import model as model
from bayesmkl.bemkl.models import multitask as multitask
from bayesmkl.bemkl.models.kernel_priors import Dirichlet, SpikeSlab
from bayesmkl.bemkl.models.moments import Gamma

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
