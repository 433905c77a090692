"""One of several labels or targets of a model, seen as if it were the only one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bayesmkl._utils.typing import Samples
from bayesmkl._utils.validation import check_choice

__all__ = ["OneOutput", "one_output"]


class OneOutput:
    """Predictions of a fitted estimator for one label, with classes 0 and 1, or for one target."""

    def __init__(self, estimator: BaseEstimator, number: int) -> None:
        self.estimator, self.number = estimator, number
        self.n_kernels_in_, self.dual_coef_ = estimator.n_kernels_in_, estimator.dual_coef_
        if hasattr(estimator, "classes_"):
            self.classes_ = np.array([0, 1])

    def predict(self, X: Samples, return_std: bool) -> tuple[np.ndarray, ...]:
        """Predict mean and standard deviation of the target."""
        return tuple(moment[:, self.number] for moment in self.estimator.predict(X, return_std))

    def predict_proba(self, X: Samples) -> np.ndarray:
        """Predict the probabilities of not having the label and of having it."""
        own = self.estimator.predict_proba(X)[:, self.number]
        return np.column_stack([1.0 - own, own])

    def predict_latent(self, X: Samples, return_std: bool) -> tuple[np.ndarray, ...]:
        """Predict mean and standard deviation of the score."""
        return tuple(moment[:, self.number] for moment in self.estimator.predict_latent(X, return_std))


def one_output(estimator: BaseEstimator, label: int | None) -> Any:
    """Return a fitted estimator, or what it says of label or target number `label` if it has several."""
    several = getattr(estimator, "is_multilabel_", estimator.target_.ndim == 2)
    if not several:
        if label is not None:
            raise ValueError(
                "`label` chooses between several labels or targets of a sample; `model` has one. Leave it out."
            )
        return estimator
    names = [str(number) for number in range(len(estimator.target_))]
    return OneOutput(estimator, int(check_choice("label", str(label), names)))
