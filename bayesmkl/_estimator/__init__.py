"""What the estimators of both families share."""

from __future__ import annotations

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._estimator.labels import ClassTargets, LabelSplit, class_targets, encode_labels, split_labels
from bayesmkl._estimator.progress import announce, step_progress
from bayesmkl._estimator.storage import STORAGES, Storage, name_of

__all__ = [
    "STORAGES",
    "BaseMKL",
    "ClassTargets",
    "LabelSplit",
    "Storage",
    "announce",
    "class_targets",
    "encode_labels",
    "name_of",
    "split_labels",
    "step_progress",
]
