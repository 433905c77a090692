"""Metrics against numbers done by hand and against draws from a known truth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.evaluation import evaluate_classifier, evaluate_regressor, expected_calibration_error


class Oracle:
    """Predicts what it was given."""

    def __init__(self, classes=None, probabilities=None, mean=None, std=None):
        self.classes_, self.probabilities, self.mean, self.std = classes, probabilities, mean, std

    def predict_proba(self, X):
        return np.asarray(self.probabilities)

    def predict(self, X, return_std=False):
        if self.classes_ is not None:
            return np.asarray(self.classes_)[np.argmax(self.probabilities, axis=1)]
        return (np.asarray(self.mean), np.asarray(self.std)) if return_std else np.asarray(self.mean)


def test_calibration_error_by_hand():
    # bin [0.2, 0.3): mean 0.25, 1 of 2; bin [0.9, 1]: mean 0.95, 3 of 4
    y = [0, 1, 1, 1, 0, 1]
    p = [0.2, 0.3 - 1e-9, 0.9, 0.95, 0.95, 1.0]
    expected = (2 * abs(0.5 - 0.25) + 4 * abs(0.75 - 0.95)) / 6
    assert expected_calibration_error(y, p) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("p", "y", "expected"), [([0.0, 1.0], [0, 1], 0.0), ([0.0, 1.0], [1, 0], 1.0)])
def test_calibration_error_at_its_ends(p, y, expected):
    assert expected_calibration_error(y, p) == expected


def test_calibration_error_of_calibrated_predictions_vanishes_with_the_sample(rng):
    p = rng.uniform(size=200_000)
    assert expected_calibration_error(rng.uniform(size=len(p)) < p, p) < 0.005
    over_confident = np.where(p > 0.5, np.minimum(p + 0.1, 1.0), np.maximum(p - 0.1, 0.0))
    assert expected_calibration_error(rng.uniform(size=len(p)) < p, over_confident) == pytest.approx(
        0.09, abs=0.005
    )


def test_binary_scores_by_hand():
    model = Oracle(np.array(["benign", "malignant"]), [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.7, 0.3]])
    scores = evaluate_classifier(model, np.zeros((4, 1)), ["benign", "benign", "malignant", "benign"])
    assert scores["accuracy"] == 0.75
    assert scores["log_loss"] == pytest.approx(-np.log([0.9, 0.4, 0.8, 0.7]).mean())
    assert scores["brier"] == pytest.approx(np.mean([0.1**2, 0.6**2, 0.2**2, 0.3**2]))
    assert scores["ece"] == pytest.approx((0.1 + 0.3 + 0.6 + 0.2) / 4)


def test_three_class_scores_by_hand():
    table = np.array([[0.8, 0.1, 0.1], [0.2, 0.3, 0.5], [0.3, 0.6, 0.1]])
    scores = evaluate_classifier(Oracle(np.array([0, 1, 2]), table), np.zeros((3, 1)), [0, 1, 1])
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["log_loss"] == pytest.approx(-np.log([0.8, 0.3, 0.6]).mean())
    one_hot = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    assert scores["brier"] == pytest.approx(((table - one_hot) ** 2).sum(axis=1).mean())
    assert scores["ece"] == pytest.approx((0.2 + 0.5 + 0.4) / 3)


def test_regression_scores_by_hand():
    y, mean, std = np.array([1.0, 2.0, 6.0]), np.array([1.5, 2.0, 3.0]), np.array([1.0, 0.5, 1.0])
    scores = evaluate_regressor(Oracle(mean=mean, std=std), np.zeros((3, 1)), y)
    assert scores["rmse"] == pytest.approx(np.sqrt((0.25 + 0.0 + 9.0) / 3))
    assert scores["r2"] == pytest.approx(1 - 9.25 / 14.0)
    assert scores["coverage_95"] == pytest.approx(2 / 3)
    by_hand = 0.5 * np.log(2 * np.pi) + np.mean([0.125, np.log(0.5), 4.5])
    assert scores["nll"] == pytest.approx(by_hand)


def test_coverage_of_the_true_distribution(rng):
    std = rng.uniform(0.5, 2.0, size=50_000)
    y = std * rng.normal(size=50_000)
    scores = evaluate_regressor(Oracle(mean=np.zeros(50_000), std=std), np.zeros((50_000, 1)), y)
    assert scores["coverage_95"] == pytest.approx(0.95, abs=0.004)


def test_fitted_models_are_scored(rng):
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    model = BEMKLRegressor(KernelBank("polynomial")).fit(X[:40], y[:40])
    scores = evaluate_regressor(model, X[40:], y[40:])
    assert scores["r2"] == pytest.approx(model.score(X[40:], y[40:]))
    assert scores["r2"] > 0.7
    prior = DummyClassifier(strategy="prior").fit(X, y > 0)
    p = np.mean(y > 0)
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    assert evaluate_classifier(prior, X, y > 0)["log_loss"] == pytest.approx(entropy)
    assert evaluate_classifier(prior, X, y > 0)["ece"] == pytest.approx(0.0, abs=1e-12)


def test_unknown_labels_are_named():
    model = Oracle(np.array([0, 1]), [[0.5, 0.5]] * 2)
    with pytest.raises(
        ValueError, match=r"`y` must hold classes that the model was fitted with, \[0, 1\]; got \[2\]"
    ):
        evaluate_classifier(model, np.zeros((2, 1)), [0, 2])


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        evaluate_classifier(Oracle(np.array([0, 1]), [[0.5, 0.5]]), np.zeros((2, 1)), [0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        evaluate_regressor(Oracle(mean=[0.0], std=[1.0]), np.zeros((2, 1)), [0.0])
    with pytest.raises(ValueError, match=r"^y should be a 1d array"):
        evaluate_regressor(Oracle(mean=[0.0] * 2, std=[1.0] * 2), np.zeros((2, 1)), np.zeros((2, 2)))
