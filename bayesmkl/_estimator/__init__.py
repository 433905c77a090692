"""What the estimators of both families share."""

from __future__ import annotations

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._estimator.labels import ClassTargets, LabelSplit, class_targets, encode_labels, split_labels
from bayesmkl._estimator.progress import step_progress

__all__ = [
    "BaseMKL",
    "ClassTargets",
    "LabelSplit",
    "class_targets",
    "encode_labels",
    "split_labels",
    "step_progress",
]
