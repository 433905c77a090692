"""What the estimator classes of both families share: from X to a kernel stack, warnings, progress."""

from __future__ import annotations

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._estimator.progress import step_progress

__all__ = ["BaseMKL", "step_progress"]
