"""Metrics against counting by hand, other libraries and limits; what models can give; facts of fitted models."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris, load_wine
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.discriminative import PrimalMKLOneClass, SimpleMKLClassifier
from bayesmkl.evaluation import (
    equal_error_rate,
    evaluate_classifier,
    evaluate_regressor,
    expected_calibration_error,
)
from bayesmkl.evaluation.compare import facts
from bayesmkl.evaluation.metrics import METRICS, resolve_scoring, score
from bayesmkl.evaluation.predictions import Predictions, gives


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


def test_calibration_error_of_calibrated_predictions_vanishes_with_the_sample(rng):
    p = rng.uniform(size=200_000)
    assert expected_calibration_error(rng.uniform(size=len(p)) < p, p) < 0.005
    over_confident = np.where(p > 0.5, np.minimum(p + 0.1, 1.0), np.maximum(p - 0.1, 0.0))
    assert expected_calibration_error(rng.uniform(size=len(p)) < p, over_confident) == pytest.approx(
        0.09, abs=0.005
    )


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


CLASSIFICATION = ["accuracy", "balanced_accuracy", "f1", "mcc", "auc", "eer", "log_loss", "brier", "ece"]
REGRESSION = ["r2", "rmse", "mae", "nll", "coverage_gap"]


class Told(ClassifierMixin, BaseEstimator):
    """Predicts the class of the highest of given scores."""

    def __init__(self, classes=None, table=None):
        self.classes, self.table = classes, table

    def fit(self, X, y=None):
        self.classes_ = np.asarray(self.classes)
        return self

    def predict(self, X):
        return self.classes_[np.argmax(self.table, axis=1)]

    def predict_proba(self, X):
        return np.asarray(self.table)


def scored(model, X, y, scoring=None, **options):
    metrics = resolve_scoring(scoring, {"model": model}, **options)
    return score(Predictions(model, X), y, metrics)


def told(classes, table):
    return Told(classes, table).fit(None), np.zeros((len(table), 1))


# --------------------------------------------------------------------------------------------------------- metrics


def test_labels_against_counting_by_hand(rng):
    table = rng.dirichlet(np.ones(3), size=60)
    model, X = told(["a", "b", "c"], table)
    y, labels = rng.choice(["a", "b", "c"], size=60), model.predict(X)
    found = scored(model, X, y)
    hits = {c: np.sum((y == c) & (labels == c)) for c in "abc"}
    recalls = [hits[c] / np.sum(y == c) for c in "abc"]
    f1 = [2 * hits[c] / (np.sum(y == c) + np.sum(labels == c)) for c in "abc"]
    assert found["accuracy"] == pytest.approx(sum(hits.values()) / 60)
    assert found["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    assert found["f1"] == pytest.approx(np.mean(f1))


def test_two_classes_by_hand():
    p = np.array([0.1, 0.7, 0.6, 0.9, 0.2, 0.8])
    model, X = told(["no", "yes"], np.column_stack([1 - p, p]))
    y = np.array(
        ["no", "no", "yes", "yes", "yes", "yes"]
    )  # 3 hits, 1 miss, 1 false alarm, 1 correct rejection
    found = scored(model, X, y)
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))  # of "yes"; of "no" it is 1/2
    assert found["mcc"] == pytest.approx((3 * 1 - 1 * 1) / np.sqrt(4 * 4 * 2 * 2))
    assert found["auc"] == pytest.approx(6 / 8)  # pairs in the right order: 0.1 below all four, 0.7 below two
    assert found["brier"] == pytest.approx(np.mean((p - (y == "yes")) ** 2))
    assert found["log_loss"] == pytest.approx(-np.mean(np.log(np.where(y == "yes", p, 1 - p))))


def test_area_counts_ordered_pairs_of_each_class_against_the_others(rng):
    scores = rng.integers(0, 6, size=(40, 3)) / 15  # with ties
    y = rng.integers(0, 3, size=40)
    areas = []
    for c in range(3):
        inside, outside = scores[y == c, c][:, None], scores[y != c, c][None]
        areas.append(np.mean((inside > outside) + 0.5 * (inside == outside)))
    model, X = told([0, 1, 2], scores)
    assert scored(model, X, y, ["auc"])["auc"] == pytest.approx(np.mean(areas), abs=1e-12)


def swept_equal_error(y, scores):
    """Walk down the thresholds and find by hand where misses and false alarms cross."""
    points = [(0.0, 1.0)]
    for t in np.unique(scores)[::-1]:
        points.append((np.mean(scores[y == 0] >= t), np.mean(scores[y == 1] < t)))
    for (f0, m0), (f1, m1) in pairwise(points):
        if f1 >= m1:
            step = (m0 - f0) / ((f1 - f0) - (m1 - m0))
            return f0 + step * (f1 - f0)
    raise AssertionError


@pytest.mark.parametrize("levels", [4, 1000])
def test_equal_error_rate_against_a_sweep_of_thresholds(rng, levels):
    for _ in range(20):
        y = np.r_[0, 1, rng.integers(0, 2, size=30)]
        scores = np.round((rng.normal(size=32) + y) * levels / 4)
        assert equal_error_rate(y, scores) == pytest.approx(swept_equal_error(y, scores), abs=1e-12)


def test_equal_error_rate_of_normal_scores(rng):
    y = np.repeat([0, 1], 100_000)
    scores = rng.normal(size=200_000) + 1.6 * y
    assert equal_error_rate(y, scores) == pytest.approx(norm.cdf(-0.8), abs=0.004)
    assert equal_error_rate(y, -scores) == pytest.approx(norm.cdf(0.8), abs=0.004)


def test_equal_error_rate_of_classes(rng):
    y, table = rng.integers(0, 3, size=50), rng.normal(size=(50, 3))
    each = [equal_error_rate(y == c, table[:, c]) for c in range(3)]
    assert equal_error_rate(y, table) == pytest.approx(np.mean(each))
    assert equal_error_rate(y[y < 2], table[y < 2], labels=[0, 1, 2]) == pytest.approx(
        np.mean([equal_error_rate(y[y < 2] == c, table[y < 2, c]) for c in range(2)])
    )
    two = table[:, :2]
    assert equal_error_rate(y == 1, two, labels=[False, True]) == equal_error_rate(y == 1, two[:, 1])
    assert equal_error_rate([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4]) == 0.0
    with pytest.raises(ValueError, match="`y_true` must hold at least two classes; got \\[1\\]"):
        equal_error_rate([1, 1], [0.5, 0.6])
    with pytest.raises(ValueError, match="`y_score` must have a row for every sample"):
        equal_error_rate(y, table[:, 0])


def test_scores_agree_with_the_functions_for_one_model():
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2], y[::2])
    found = scored(model, X[1::2], y[1::2])
    assert found.items() >= evaluate_classifier(model, X[1::2], y[1::2]).items()
    assert list(found) == CLASSIFICATION
    regressor = BayesianRidge().fit(X[::2, 1:], X[::2, 0])
    X_test, y_test = X[1::2, 1:], X[1::2, 0]
    assert list(scored(regressor, X_test, y_test)) == REGRESSION
    found = scored(regressor, X_test, y_test, [*REGRESSION, "coverage_95"])
    assert found.items() >= evaluate_regressor(regressor, X_test, y_test).items()
    assert found["mae"] == pytest.approx(np.mean(np.abs(y_test - regressor.predict(X_test))))
    assert found["coverage_gap"] == pytest.approx(abs(found["coverage_95"] - 0.95))


def test_a_class_that_training_lacked_has_no_probability():
    table = np.array([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]])
    model, X = told(["a", "c"], table)
    found = scored(model, X, np.array(["a", "c", "b"]))
    assert found["accuracy"] == pytest.approx(2 / 3)
    eps = np.finfo(float).eps
    assert found["log_loss"] == pytest.approx(-np.mean(np.log([0.8, 0.6, eps])))
    assert found["brier"] == pytest.approx((2 * 0.2**2 + 2 * 0.4**2 + 1 + 2 * 0.5**2) / 3)
    assert found["f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)


# ------------------------------------------------------------------------------------------- what is asked of models


@pytest.mark.parametrize(
    ("model", "has", "lacks"),
    [
        (SVC(), {"scores"}, {"probabilities", "std"}),
        (
            GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1]}),
            {"scores"},
            {"probabilities"},
        ),
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            {"scores", "probabilities"},
            {"std"},
        ),
        (Told(), {"scores", "probabilities"}, {"std"}),
        (GridSearchCV(GaussianProcessRegressor(), {"alpha": [1.0]}), {"std"}, {"scores"}),
        (make_pipeline(StandardScaler(), BEMKLRegressor()), {"std"}, {"scores"}),
        (SimpleMKLClassifier(), {"scores"}, {"probabilities"}),
    ],
)
def test_what_models_give_is_known_before_they_are_fitted(model, has, lacks):
    found = gives(model)
    assert found >= has | {"labels"}
    assert not found & lacks


def test_scores_of_pairs_of_classes_are_not_taken_for_scores_of_classes():
    y = load_iris().target
    pairs = SVC(decision_function_shape="ovo")
    assert "scores" in gives(pairs, n_classes=2)
    assert "auc" not in resolve_scoring(None, {"m": pairs}, y)
    with pytest.raises(ValueError, match="'auc' needs a score for each class"):
        resolve_scoring("auc", {"m": pairs}, y)


# ---------------------------------------------------------------------------------------------------------- choosing


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ("acuracy", "unknown metric 'acuracy'. Did you mean 'accuracy'"),
        (["neg_log_los"], "Did you mean 'neg_log_loss'"),
        (["auc", "auc"], "each once; got \\['auc', 'auc'\\]"),
        ([], "at least one metric"),
        (
            ["log_loss"],
            r"'log_loss' needs class probabilities .* which model 'svm' \(SVC\) does not give. Wrap",
        ),
        (["neg_log_loss"], r"'neg_log_loss' needs class probabilities"),
        (["rmse"], "'rmse' is for regression; the models are for classification"),
        (["precision"], "'precision' does not suit `y`: Target is multiclass"),
        ([3], "must hold names of metrics or callables"),
    ],
)
def test_bad_metrics_are_refused_before_anything_is_fitted(scoring, message):
    y = load_iris().target
    with pytest.raises(ValueError, match=message):
        resolve_scoring(scoring, {"logistic": LogisticRegression(), "svm": make_pipeline(SVC())}, y)


def test_bad_models_and_targets_are_refused():
    with pytest.raises(ValueError, match=r"'one' \(PrimalMKLOneClass\) is not"):
        resolve_scoring(None, {"one": PrimalMKLOneClass()})
    with pytest.raises(ValueError, match=r"for one task; got {'a': 'classification', 'b': 'regression'}"):
        resolve_scoring(None, {"a": SVC(), "b": LinearRegression()})
    with pytest.raises(ValueError, match=r"one label per sample.* got continuous data of shape \(3,\)"):
        resolve_scoring(None, {"a": SVC()}, [0.5, 0.1, 0.7])
    with pytest.raises(ValueError, match=r"one number per sample.* got multiclass data"):
        resolve_scoring(None, {"a": LinearRegression()}, ["a", "b", "c"])
    with pytest.raises(ValueError, match="`unavailable` must be one of"):
        resolve_scoring(None, {"a": SVC()}, unavailable="skip")


def test_metrics_by_other_names_and_of_the_user():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    scoring = {"share": "accuracy", "size": lambda m, X, y: m.coef_.size, "own": METRICS["f1"]}
    metrics = resolve_scoring(scoring, {"m": model}, y)
    assert [metric.name for metric in metrics.values()] == ["share", "size", "own"]
    assert score(Predictions(model, X), y, metrics) == {
        "share": model.score(X, y),
        "size": 12.0,
        "own": scored(model, X, y, "f1")["f1"],
    }


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_scorers_of_scikit_learn_give_what_they_give_alone(task):
    X, y = load_wine(return_X_y=True)
    y = (y == 1).astype(int) if task == "classification" else X[:, 0]
    X = StandardScaler().fit_transform(X[:, 1:])
    model = LogisticRegression() if task == "classification" else LinearRegression()
    model.fit(X, y)
    compared, refused = 0, {}
    for name in set(get_scorer_names()) - set(METRICS):
        try:
            metrics = resolve_scoring(name, {"m": model}, y)
        except ValueError as error:
            refused[name] = str(error)
            continue
        assert metrics[name].greater_is_better
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = get_scorer(name)(model, X, y)
            assert score(Predictions(model, X), y, metrics)[name] == pytest.approx(expected, nan_ok=True), (
                name
            )
        compared += 1
    reasons = ("does not suit `y`", "is for classification")
    assert all(any(reason in message for reason in reasons) for message in refused.values()), refused
    assert compared > (20 if task == "classification" else 8)


def test_one_failing_metric_does_not_cost_the_others():
    def broken(model, X, y):
        raise KeyError("nothing here")

    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    metrics = resolve_scoring({"broken": broken, "accuracy": "accuracy"}, {"m": model}, y)
    with pytest.warns(UserWarning, match="broken failed: KeyError: 'nothing here'"):
        found = score(Predictions(model, X), y, metrics)
    assert np.isnan(found["broken"])
    assert found["accuracy"] > 0.9
    with pytest.raises(ValueError, match="features"):
        score(Predictions(model, X[:, :2]), y, METRICS)  # the model's own failure is one of the cell


# ------------------------------------------------------------------------------------------------------------- facts


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=50)


def test_facts_of_a_search_over_a_pipeline(small):
    X, y = small
    model = make_pipeline(SelectKBest(k=1), SVC())
    found = facts(GridSearchCV(model, {"svc__C": [0.1, 10.0]}).fit(X, y > 0), 50)
    best = model.set_params(**json.loads(found["best_params"])).fit(X, y > 0)
    assert found["support_fraction"] == len(best[-1].support_) / 50
    assert found["converged"] is True
    assert np.isnan(found["n_active_kernels"])
    inside = make_pipeline(StandardScaler(), GridSearchCV(SVC(), {"C": [10.0]})).fit(X, y > 0)
    assert facts(inside, 50)["best_params"] == '{"C": 10.0}'
    limited = make_pipeline(StandardScaler(), SVC(max_iter=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert facts(limited.fit(X, y > 0), 50)["converged"] is False


@pytest.mark.heavy
def test_facts_of_multiple_kernel_models(small):
    X, y = small
    bank = KernelBank(["linear", "rbf"])
    model = make_pipeline(StandardScaler(), SimpleMKLClassifier(bank)).fit(X, y > 0)
    found = facts(model, 50)
    assert found["support_fraction"] == model[-1].support_fraction_
    assert found["n_active_kernels"] == model[-1].n_active_kernels_
    assert found["best_params"] == ""
    grid = {"kernels": [bank], "sample_prior": [(1.0, np.float64(1.0))]}
    search = GridSearchCV(BEMKLClassifier(), grid, cv=2).fit(X, y > 0)
    found = facts(search, 50)
    assert json.loads(found["best_params"]) == {"kernels": repr(bank), "sample_prior": [1.0, 1.0]}
    weights = search.best_estimator_.kernel_weights_ = np.array([[5.0, -0.004, -1e-9], [0.0, 1.0, 9e-4]])
    assert facts(search, 50)["n_active_kernels"] == 2, weights
    assert np.isnan(found["support_fraction"])
    assert facts(LogisticRegression().fit(X, y > 0), 50)["converged"] is None
