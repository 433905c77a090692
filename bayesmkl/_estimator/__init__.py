"""Base of the estimators of both families."""

from __future__ import annotations

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._estimator.storage import Holding
from bayesmkl._estimator.targets import (
    ClassTargets,
    LabelSplit,
    check_labels,
    class_targets,
    encode_labels,
    is_missing,
    most_probable,
    split_labels,
)
from bayesmkl._utils.progress import announce, step_progress

__all__ = [
    "BaseMKL",
    "ClassTargets",
    "Holding",
    "LabelSplit",
    "announce",
    "check_labels",
    "class_targets",
    "encode_labels",
    "is_missing",
    "most_probable",
    "split_labels",
    "step_progress",
]
