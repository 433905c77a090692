"""Marginal inference: function values integrated out, hyperparameters inferred.

Given its kernel weights and noise, Bayesian multiple kernel learning is a Gaussian process, which is what this
subpackage integrates over. `covariances` and `likelihoods` are its two seams; `conditioning` and `evidence`
integrate, `hyperpriors` and `hyperposterior` infer what is left, `reading` says what follows from it.
`numpyro_program` is the same model with nothing integrated out.
"""

from __future__ import annotations

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._utils.options import Marginal
from bayesmkl.gp.design import Design
from bayesmkl.gp.estimators.classifier import GPMKLClassifier
from bayesmkl.gp.estimators.ordinal import GPMKLOrdinalClassifier
from bayesmkl.gp.estimators.regressor import GPMKLRegressor
from bayesmkl.gp.estimators.survival import GPMKLSurvival
from bayesmkl.gp.hyperpriors import DirichletShares, HalfT, Horseshoe, NestedShares
from bayesmkl.gp.selection import SpikeSlabWeights
from bayesmkl.outcomes.base import LogNormal

__all__ = [
    "Design",
    "DirichletShares",
    "GPMKLClassifier",
    "GPMKLOrdinalClassifier",
    "GPMKLRegressor",
    "GPMKLSurvival",
    "HalfT",
    "Horseshoe",
    "LogNormal",
    "Marginal",
    "NestedShares",
    "NumPyroProgram",
    "SpikeSlabWeights",
]
