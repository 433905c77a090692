"""Evaluation of predictions and their probabilities, and comparison of models."""

from __future__ import annotations

from bayesmkl.evaluation.compare import compare_models
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.metrics import (
    equal_error_rate,
    evaluate_classifier,
    evaluate_regressor,
    expected_calibration_error,
)

__all__ = [
    "Comparison",
    "compare_models",
    "equal_error_rate",
    "evaluate_classifier",
    "evaluate_regressor",
    "expected_calibration_error",
]
