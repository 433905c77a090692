"""Discriminative multiple kernel learning: kernel weights found together with a machine on the combined kernel."""

from __future__ import annotations

from bayesmkl.discriminative._gating import Gating, check_gating
from bayesmkl.discriminative._graph import knn_laplacian
from bayesmkl.discriminative.estimators.alignment import (
    AlignmentMKLClassifier,
    AlignmentMKLRegressor,
    EasyMKLClassifier,
    OBMKLClassifier,
)
from bayesmkl.discriminative.estimators.clmkl import CLMKLClassifier
from bayesmkl.discriminative.estimators.fixed import (
    BestKernelClassifier,
    UniformMKLClassifier,
    UniformMKLRegressor,
)
from bayesmkl.discriminative.estimators.generalized import GMKLClassifier, SMOMKLClassifier
from bayesmkl.discriminative.estimators.laplacian import LapMKLClassifier
from bayesmkl.discriminative.estimators.lmkl import LMKLClassifier, LMKLRegressor
from bayesmkl.discriminative.estimators.mwumkl import MWUMKLClassifier
from bayesmkl.discriminative.estimators.optimized import (
    LpMKLClassifier,
    LpMKLRegressor,
    SimpleMKLClassifier,
    SimpleMKLRegressor,
)
from bayesmkl.discriminative.estimators.path import RegularizationPath
from bayesmkl.discriminative.estimators.primal import (
    PrimalMKLClassifier,
    PrimalMKLOneClass,
    PrimalMKLRegressor,
)
from bayesmkl.discriminative.estimators.samkl import SAMKLClassifier
from bayesmkl.discriminative.estimators.votes import LDMKLClassifier, SwMKLClassifier
from bayesmkl.discriminative.gatings import GaussianGating, GroupGating, SigmoidGating, SoftmaxGating
from bayesmkl.discriminative.glks import GLKSOptions, GLKSResult, glks_transduce
from bayesmkl.discriminative.plots import plot_decision, plot_gates, plot_switches

__all__ = [
    "AlignmentMKLClassifier",
    "AlignmentMKLRegressor",
    "BestKernelClassifier",
    "CLMKLClassifier",
    "EasyMKLClassifier",
    "GLKSOptions",
    "GLKSResult",
    "GMKLClassifier",
    "Gating",
    "GaussianGating",
    "GroupGating",
    "LDMKLClassifier",
    "LMKLClassifier",
    "LMKLRegressor",
    "LapMKLClassifier",
    "LpMKLClassifier",
    "LpMKLRegressor",
    "MWUMKLClassifier",
    "OBMKLClassifier",
    "PrimalMKLClassifier",
    "PrimalMKLOneClass",
    "PrimalMKLRegressor",
    "RegularizationPath",
    "SAMKLClassifier",
    "SMOMKLClassifier",
    "SigmoidGating",
    "SimpleMKLClassifier",
    "SimpleMKLRegressor",
    "SoftmaxGating",
    "SwMKLClassifier",
    "UniformMKLClassifier",
    "UniformMKLRegressor",
    "check_gating",
    "glks_transduce",
    "knn_laplacian",
    "plot_decision",
    "plot_gates",
    "plot_switches",
]
