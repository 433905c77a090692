"""Discriminative multiple kernel learning: kernel weights found together with a machine on the combined kernel."""

from __future__ import annotations

from bayesmkl.discriminative.estimators.alignment import AlignmentMKLClassifier, AlignmentMKLRegressor
from bayesmkl.discriminative.estimators.best_kernel import BestKernelClassifier
from bayesmkl.discriminative.estimators.clmkl import CLMKLClassifier
from bayesmkl.discriminative.estimators.easymkl import EasyMKLClassifier
from bayesmkl.discriminative.estimators.gmkl import GMKLClassifier
from bayesmkl.discriminative.estimators.lapmkl import LapMKLClassifier
from bayesmkl.discriminative.estimators.ldmkl import LDMKLClassifier
from bayesmkl.discriminative.estimators.lmkl import LMKLClassifier, LMKLRegressor
from bayesmkl.discriminative.estimators.lpboostmkl import LPBoostMKLClassifier
from bayesmkl.discriminative.estimators.lpmkl import LpMKLClassifier, LpMKLRegressor
from bayesmkl.discriminative.estimators.mwumkl import MWUMKLClassifier
from bayesmkl.discriminative.estimators.obmkl import OBMKLClassifier
from bayesmkl.discriminative.estimators.path import RegularizationPath
from bayesmkl.discriminative.estimators.primalmkl import (
    PrimalMKLClassifier,
    PrimalMKLOneClass,
    PrimalMKLRegressor,
)
from bayesmkl.discriminative.estimators.samkl import SAMKLClassifier
from bayesmkl.discriminative.estimators.silpmkl import SILPMKLClassifier
from bayesmkl.discriminative.estimators.simplemkl import SimpleMKLClassifier, SimpleMKLRegressor
from bayesmkl.discriminative.estimators.smomkl import SMOMKLClassifier
from bayesmkl.discriminative.estimators.swmkl import SwMKLClassifier
from bayesmkl.discriminative.estimators.uniform import UniformMKLClassifier, UniformMKLRegressor
from bayesmkl.discriminative.gating import Gating, check_gating
from bayesmkl.discriminative.global_weights.glks import GLKSOptions, GLKSResult, glks_transduce
from bayesmkl.discriminative.graph import knn_laplacian
from bayesmkl.discriminative.localized.gatings import (
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
)
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
    "LPBoostMKLClassifier",
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
    "SILPMKLClassifier",
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
