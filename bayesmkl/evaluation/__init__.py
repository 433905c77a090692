"""How good predictions are, and whether their probabilities and intervals can be believed."""

from __future__ import annotations

from bayesmkl.evaluation.metrics import evaluate_classifier, evaluate_regressor, expected_calibration_error

__all__ = ["evaluate_classifier", "evaluate_regressor", "expected_calibration_error"]
