"""Words among which options of the command line choose."""

from __future__ import annotations

import enum


class Task(enum.StrEnum):
    """Kind of target."""

    AUTO = "auto"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    ORDINAL = "ordinal"
    SURVIVAL = "survival"


class KernelsOn(enum.StrEnum):
    """The columns that kernels see."""

    ALL = "all"
    EACH = "each"
    ALL_AND_EACH = "all+each"
    TYPES = "types"


class Method(enum.StrEnum):
    """Model that is fitted."""

    BEMKL = "bemkl"
    GPMKL = "gpmkl"


class KernelPrior(enum.StrEnum):
    """Prior of the kernel weights: of their precisions in BEMKL, of the weights themselves in GPMKL."""

    NONSPARSE = "nonsparse"
    SPARSE = "sparse"
    DIRICHLET = "dirichlet"
    HALF_T = "half-t"
    HORSESHOE = "horseshoe"
    SPIKE_SLAB = "spike-slab"


class Likelihood(enum.StrEnum):
    """Distribution of the target given its score."""

    GAUSSIAN = "gaussian"
    STUDENT_T = "student-t"
    POISSON = "poisson"
    NEGATIVE_BINOMIAL = "negative-binomial"
    PROBIT = "probit"
    LOGIT = "logit"
    LOG_LOGISTIC = "log-logistic"
    LOG_NORMAL = "log-normal"
    WEIBULL = "weibull"
    PIECEWISE_HAZARD = "piecewise-hazard"


class Multiclass(enum.StrEnum):
    """Decomposition of more than two classes."""

    SHARED = "shared"
    ONE_VERSUS_ALL = "one-versus-all"
    MULTINOMIAL = "multinomial"


class MissingViews(enum.StrEnum):
    """Treatment of empty cells."""

    ERROR = "error"
    INTEGRATE = "integrate"
    IMPUTE = "impute"


class TaskCorrelation(enum.StrEnum):
    """Correlations of pairs of tasks."""

    EQUAL = "equal"
    FREE = "free"


class Inference(enum.StrEnum):
    """Inference method."""

    VB = "vb"
    NUTS = "nuts"
    GIBBS = "gibbs"
    MARGINAL = "marginal"


BY_DEFAULT = {Method.BEMKL: Inference.VB, Method.GPMKL: Inference.MARGINAL}
