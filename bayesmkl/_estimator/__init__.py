"""Base of the estimators of both families."""

from __future__ import annotations

from bayesmkl._estimator.base import BaseMKL, Holding, check_targets
from bayesmkl._utils.given import is_missing
from bayesmkl._utils.progress import announce, step_progress
from bayesmkl.outcomes.labels import (
    ClassTargets,
    LabelSplit,
    check_labels,
    class_targets,
    encode_labels,
    most_probable,
    split_labels,
)

__all__ = [
    "BaseMKL",
    "ClassTargets",
    "Holding",
    "LabelSplit",
    "announce",
    "check_labels",
    "check_targets",
    "class_targets",
    "encode_labels",
    "is_missing",
    "most_probable",
    "split_labels",
    "step_progress",
]
