"""Parameters of the estimators that optimize kernel weights together with the SVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesmkl._utils.validation import check_integer, check_number, check_scale
from bayesmkl.discriminative.svm.libsvm import Hinge

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative


__all__ = ["check_hinge", "check_stopping"]


def check_hinge(C: float) -> Hinge:
    """Return the SVM with a valid parameter."""
    return Hinge(check_scale("C", C))


def check_stopping(model: BaseDiscriminative) -> dict[str, Any]:
    """Return valid `tol` and `max_iter` of an estimator, by name."""
    return {
        "tol": check_number("tol", model.tol, low=0.0),
        "max_iter": check_integer("max_iter", model.max_iter, low=1),
    }
