"""Choices of command line options."""

from __future__ import annotations

import enum

__all__ = ["Inference", "KernelPrior", "KernelsOn", "MissingViews", "Multiclass", "Task"]


class Task(enum.StrEnum):
    """Kind of target."""

    AUTO = "auto"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class KernelsOn(enum.StrEnum):
    """The columns that kernels see."""

    ALL = "all"
    EACH = "each"
    ALL_AND_EACH = "all+each"


class KernelPrior(enum.StrEnum):
    """Prior on the precision of the kernel weights."""

    NONSPARSE = "nonsparse"
    SPARSE = "sparse"


class Multiclass(enum.StrEnum):
    """Decomposition of more than two classes."""

    SHARED = "shared"
    ONE_VERSUS_ALL = "one-versus-all"
    MULTINOMIAL = "multinomial"


class MissingViews(enum.StrEnum):
    """Treatment of empty cells."""

    ERROR = "error"
    INTEGRATE = "integrate"


class Inference(enum.StrEnum):
    """Inference method."""

    VB = "vb"
    NUTS = "nuts"
    GIBBS = "gibbs"
    SVI = "svi"
