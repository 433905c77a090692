"""Frobenius products of kernels, computed once for all classes of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl._utils.validation import check_choice, check_number
from bayesmkl.discriminative.estimators.base import (
    BaseDiscriminative,
)
from bayesmkl.kernels.alignment import centering_errors, frobenius_gram
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["SharedGram"]


class SharedGram(BaseDiscriminative):
    """Compute the Frobenius products once for all classes, where the method needs them."""

    tol: float
    method: str
    METHODS: tuple[str, ...]
    WITH_GRAM: tuple[str, ...]
    CENTERED: tuple[str, ...] = ()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("tol", self.tol, low=0.0)
        check_choice("method", self.method, self.METHODS)

    def _centering_errors(self, stack: DenseStack) -> np.ndarray:
        errors = super()._centering_errors(stack)
        return np.maximum(errors, centering_errors(stack)) if self.method in self.CENTERED else errors

    def _fit_tasks(self, stack: DenseStack, targets: np.ndarray, start: Any = None) -> None:
        method = self.method
        self._gram = frobenius_gram(stack, method in self.CENTERED) if method in self.WITH_GRAM else None
        try:
            super()._fit_tasks(stack, targets, start)
        finally:
            del self._gram
