"""Types that may be built from a model file: those of this package, and a few of its dependencies."""

from __future__ import annotations

import importlib
from typing import Any

from scipy import sparse
from sklearn.gaussian_process import kernels as gp

from bayesmkl import outcomes as of_targets
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.low_rank import DiagonalPlusLowRank
from bayesmkl._numerics.truncated_normal import TruncatedMoments
from bayesmkl._utils.options import NUTS, VB, Gibbs, Storage
from bayesmkl.bemkl import (
    BEMKLClassifier,
    BEMKLMultitaskClassifier,
    BEMKLMultitaskRegressor,
    BEMKLOrdinalClassifier,
    BEMKLRegressor,
    BEMKLSurvival,
    moments,
)
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.model import State
from bayesmkl.bemkl.moments import Dirichlet, SpikeSlab, WeightCovariance
from bayesmkl.bemkl.multitask import MultitaskState, TaskReadouts
from bayesmkl.bemkl.nonnegative import CutOffNormals, CutOffPair, NonnegativeReadout
from bayesmkl.bemkl.outputs import AbsentViews, CompletedOutputs, ViewMoments
from bayesmkl.discriminative.methods import find_types
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.gp import (
    Design,
    DirichletShares,
    GPMKLClassifier,
    GPMKLOrdinalClassifier,
    GPMKLRegressor,
    GPMKLSurvival,
    HalfT,
    Horseshoe,
    LogNormal,
    Marginal,
    SpikeSlabWeights,
)
from bayesmkl.gp.design import FittedDesign
from bayesmkl.gp.group_labels import GroupLabels
from bayesmkl.gp.landmarks import Features, PseudoSamples
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.gp.unknown_points import KernelCenters
from bayesmkl.kernels import (
    Cosine,
    FromDistance,
    Gate,
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    Overlap,
    Polynomial,
    Precomputed,
    Product,
    Tanimoto,
)
from bayesmkl.kernels.adapters import CallableKernel, GaussianProcess, SklearnPairwise
from bayesmkl.kernels.compose import Gated
from bayesmkl.kernels.normalize import Center, Spherical, Trace
from bayesmkl.kernels.quality import Clipping
from bayesmkl.kernels.sparse import SparseTable
from bayesmkl.kernels.stacks.lowrank import LowRankStack
from bayesmkl.kernels.tables import CategoryEncoder, Standardizer, TableEncoder
from bayesmkl.kernels.views import View


class SavedOutcome:
    """An `Outcome` on its way into a file, by name: skops keeps no enumerations.

    Loading calls the class with the name, which gives the member itself.
    """

    __module__ = "bayesmkl.persistence"  # as files call it
    name: str

    def __new__(cls, name: str) -> Any:
        """Return the outcome itself."""
        return Outcome[name]

    @classmethod
    def of(cls, outcome: Outcome) -> SavedOutcome:
        """Stand in for `outcome`."""
        saved = object.__new__(cls)
        saved.name = outcome.name
        return saved

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.name,)


# All that this package's fitted models are made of, beside what skops itself knows (NumPy, scikit-learn's
# estimators). Nothing else is built from a file unless the user trusts it by name.
OWN_TYPES: tuple[type, ...] = (
    BEMKLClassifier, BEMKLRegressor, State, AbsentViews, CompletedOutputs, ViewMoments, NonnegativeReadout,
    CutOffNormals, CutOffPair,
    BEMKLMultitaskClassifier, BEMKLMultitaskRegressor, MultitaskState, TaskReadouts,
    BEMKLOrdinalClassifier, BEMKLSurvival,
    PosteriorDraws, Dirichlet, SpikeSlab, VB, NUTS, Gibbs, Storage,
    moments.Gamma, moments.Gaussian, moments.PrecisionMoments, moments.IntermediateOutputs, TruncatedMoments,
    DiagonalPlusLowRank, WeightCovariance,
    GPMKLClassifier, GPMKLRegressor, HyperDraws, Marginal, HalfT, DirichletShares, Horseshoe, LogNormal,
    SpikeSlabWeights, GPMKLOrdinalClassifier, GPMKLSurvival, Design, FittedDesign, GroupLabels, KernelCenters,
    Features, PseudoSamples,
    of_targets.BetaBinomial, of_targets.FailureTime, of_targets.Gaussian, of_targets.Heteroscedastic,
    of_targets.Logit, of_targets.NegativeBinomial, of_targets.Offset, of_targets.OrdinalProbit,
    of_targets.PiecewiseHazard, of_targets.Poisson, of_targets.Probit, of_targets.StudentT,
    SavedOutcome, KernelBank,
    View, Center, Spherical, Trace, CallableKernel, GaussianProcess, SklearnPairwise, Cosine, FromDistance,
    Gaussian, Gate, Gated, Laplacian, Linear, Overlap, Polynomial, Precomputed, Product, Tanimoto, Clipping,
    LowRankStack, MKLResult, SparseTable, CategoryEncoder, Standardizer, TableEncoder,
    *(getattr(importlib.import_module(module), name) for module, name in find_types()),  # discriminative methods
)  # fmt: skip
# scikit-learn's Gaussian process kernels, which a KernelBank takes and skops does not list.
GP_TYPES: tuple[type, ...] = (
    gp.CompoundKernel, gp.ConstantKernel, gp.DotProduct, gp.Exponentiation, gp.ExpSineSquared, gp.Matern,
    gp.PairwiseKernel, gp.Product, gp.RationalQuadratic, gp.RBF, gp.Sum, gp.WhiteKernel,
)  # fmt: skip
# Graphs of semi-supervised models. skops keeps them in SciPy's own format, which holds arrays only.
SPARSE_TYPES: tuple[type, ...] = (sparse.csr_array, sparse.csr_matrix)
TRUSTED = tuple(f"{known.__module__}.{known.__name__}" for known in OWN_TYPES + GP_TYPES + SPARSE_TYPES)
# What models of scikit-learn hold beside estimators, and skops does not list: data, and Python code that computes
# with them. `check_archive` lets each pass as one kind of part only, so that reading a file calls none of them. Left
# out is what compiled code believes without a look, such as trees and splines.
PARTS = frozenset((
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.impute._iterative.IterativeImputer",  # which skops lists if it is enabled before it
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.LeaveOneOut",
    "sklearn.model_selection._split.ShuffleSplit",
    "sklearn.model_selection._split.StratifiedGroupKFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.StratifiedShuffleSplit",
    "sklearn.model_selection._split.TimeSeriesSplit",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",  # in the scorers of searches of scikit-learn 1.7
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
))  # fmt: skip
FUNCTIONS = frozenset((
    "bayesmkl.kernels.tables.as_days",
    "bayesmkl.kernels.tables.as_numbers",
    "numpy.max",
    "numpy.mean",
    "numpy.median",
    "numpy.min",
    "sklearn.feature_selection._mutual_info.mutual_info_classif",
    "sklearn.feature_selection._mutual_info.mutual_info_regression",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "sklearn.feature_selection._univariate_selection.r_regression",
))  # fmt: skip
