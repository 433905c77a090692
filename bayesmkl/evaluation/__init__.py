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
from bayesmkl.evaluation.page import ModelReport
from bayesmkl.evaluation.report import report_model
from bayesmkl.evaluation.survival import (
    SurvivalCalibration,
    SurvivalCurve,
    concordance_index,
    integrated_brier_score,
    kaplan_meier,
    survival_brier_score,
    survival_calibration,
)

__all__ = [
    "Comparison",
    "ModelReport",
    "SurvivalCalibration",
    "SurvivalCurve",
    "compare_models",
    "concordance_index",
    "equal_error_rate",
    "evaluate_classifier",
    "evaluate_regressor",
    "expected_calibration_error",
    "integrated_brier_score",
    "kaplan_meier",
    "report_model",
    "survival_brier_score",
    "survival_calibration",
]
