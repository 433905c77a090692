"""Marginal inference: function values integrated out, hyperparameters inferred.

Given its kernel weights and noise, Bayesian multiple kernel learning is a Gaussian process, which is what this
subpackage integrates over. `covariances` and `likelihoods` are its two seams; `conditioning` and `evidence`
integrate, `hyperpriors` and `hyperposterior` infer what is left, `reading` says what follows from it.
`numpyro_program` is the same model with nothing integrated out.
"""

from __future__ import annotations

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._utils.options import Marginal
from bayesmkl.marginal.design import Design
from bayesmkl.marginal.estimators.classifier import GPMKLClassifier
from bayesmkl.marginal.estimators.ordinal import GPMKLOrdinalClassifier
from bayesmkl.marginal.estimators.regressor import GPMKLRegressor
from bayesmkl.marginal.estimators.survival import GPMKLSurvival
from bayesmkl.marginal.hyperpriors import DirichletShares, HalfT, Horseshoe, LogNormal
from bayesmkl.marginal.spike_slab import SpikeSlabWeights

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
    "NumPyroProgram",
    "SpikeSlabWeights",
]
