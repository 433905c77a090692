"""compare_models: the numbers of a plain loop, nothing leaks, nothing is computed twice or lost."""

from __future__ import annotations

import json
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_diabetes, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLClassifier
from bayesmkl.discriminative import SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import Comparison, compare_models
from bayesmkl.evaluation.study import labels_of
from bayesmkl.gp import Design
from bayesmkl.kernels import Gaussian, KernelBank

TIMES = ["fit_seconds", "predict_seconds", "peak_memory_mb"]


@pytest.fixture(scope="module")
def two_classes():
    X, y = load_iris(return_X_y=True)
    rows = np.r_[50:150]
    return StandardScaler().fit_transform(X[rows]), np.where(y[rows] == 1, "versicolor", "virginica")


def bank():
    return KernelBank(Gaussian(width=1.0), views="each")


def without_times(comparison):
    return comparison.cells.drop(columns=TIMES)


class Recording(ClassifierMixin, BaseEstimator):
    """Remembers which samples it saw, told by their first feature, and predicts the most frequent class."""

    seen: ClassVar[list] = []

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.most_ = self.classes_[counts.argmax()]
        Recording.seen.append(("fit", set(np.asarray(X)[:, 0])))
        return self

    def predict(self, X):
        Recording.seen.append(("predict", set(np.asarray(X)[:, 0])))
        return np.full(len(X), self.most_)


class Failing(ClassifierMixin, BaseEstimator):
    """Fails on every second split."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if X[:, 0].sum() > 0.0:
            raise RuntimeError("no luck")
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


# ---------------------------------------------------------------------------------------- the right numbers


def test_scores_are_those_of_a_plain_loop(two_classes):
    X, y = two_classes
    models = {
        "uniform": UniformMKLClassifier(bank()),
        "svm": (SVC(), {"C": [0.01, 1.0, 100.0]}),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    }
    found = compare_models(models, X, y, cv=4, inner_cv=3, scoring=["f1", "accuracy"], random_state=3)
    for split, (train, test) in enumerate(StratifiedKFold(4, shuffle=True, random_state=3).split(X, y)):
        seed = int(np.random.SeedSequence([3, split]).generate_state(1)[0] % 2**31)
        inner = StratifiedKFold(3, shuffle=True, random_state=seed)
        svm = GridSearchCV(SVC(random_state=seed), models["svm"][1], cv=inner)
        rows = found.cells.query("split == @split").set_index("model")
        for name, model in {**models, "svm": svm}.items():
            predicted = model.fit(X[train], y[train]).predict(X[test])
            row = rows.loc[name]
            assert row["accuracy"] == accuracy_score(y[test], predicted)
            assert row["f1"] == f1_score(y[test], predicted, pos_label="virginica")
            assert (row["n_samples"], row["n_train"], row["n_test"]) == (100, 75, 25)
            assert row["seed"] == seed
        assert json.loads(rows.loc["svm", "best_params"]) == svm.best_params_


def test_regression_and_a_splitter_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    splitter = ShuffleSplit(3, test_size=0.3)  # without a seed: that of the comparison
    found = compare_models({"ridge": Ridge()}, X, y, cv=splitter, scoring="r2", random_state=5)
    expected = [
        Ridge().fit(X[train], y[train]).score(X[test], y[test])
        for train, test in ShuffleSplit(3, test_size=0.3, random_state=5).split(X)
    ]
    np.testing.assert_array_equal(found.cells["r2"], expected)
    assert splitter.random_state is None  # the user's object stays as it was
    assert found.test_train_ratio("data") == pytest.approx(133 / 309)


def test_splits_in_time_test_what_comes_later():
    X, y = load_diabetes(return_X_y=True)
    cv = TimeSeriesSplit(4, gap=5)
    found = compare_models({"ridge": Ridge()}, X[:120], y[:120], cv=cv, scoring="rmse")
    for split, (train, test) in enumerate(cv.split(X[:120])):
        own = found.predictions().query(f"split == {split}")
        assert own["row"].tolist() == test.tolist()
        np.testing.assert_array_equal(own["prediction"], Ridge().fit(X[train], y[train]).predict(X[test]))
    assert found.cells["n_train"].tolist() == [19, 43, 67, 91]


@pytest.mark.heavy
def test_weights_of_samples_are_cut_with_them_and_are_part_of_cells(two_classes, tmp_path):
    X, y = two_classes
    weights = np.random.default_rng(0).integers(1, 4, size=len(y))
    models = {
        "mkl": make_pipeline(StandardScaler(), SimpleMKLClassifier(bank())),
        "tuned": (make_pipeline(SVC()), {"svc__C": [0.1, 1.0]}),
    }
    cv, options = StratifiedKFold(3), {"scoring": "accuracy", "folder": tmp_path / "run"}
    found = compare_models(models, X, y, cv=cv, sample_weight=weights, **options)
    for split, (train, test) in enumerate(cv.split(X, y)):
        mkl = make_pipeline(StandardScaler(), SimpleMKLClassifier(bank()))
        mkl.fit(X[train], y[train], simplemklclassifier__sample_weight=weights[train])
        predicted = mkl.decision_function(X[test])
        own = found.predictions().query(f"model == 'mkl' and split == {split}")
        np.testing.assert_allclose(own["score"], predicted, rtol=1e-9)
    plain = compare_models(models, X, y, cv=cv, sample_weight=np.ones(len(y)), **options)
    assert not np.allclose(plain.predictions()["score"], found.predictions()["score"])
    same = compare_models(models, X, y, cv=cv, **options)  # weights of one are none
    assert same.about["keys"] == plain.about["keys"]
    two = compare_models(models, X, y, cv=cv, sample_weight=weights, n_jobs=2, scoring="accuracy")
    np.testing.assert_array_equal(two.predictions()["score"], found.predictions()["score"])
    with pytest.raises(
        ValueError, match=r"model 'nearest' \(KNeighborsClassifier\) takes no weights in `fit`"
    ):
        compare_models({"nearest": KNeighborsClassifier()}, X, y, sample_weight=weights)


def test_precomputed_kernels_are_cut_on_both_sides(two_classes):
    X, y = two_classes
    stack = bank().fit_transform(X)
    splitter = StratifiedShuffleSplit(2, test_size=0.4, random_state=0)
    options = {"cv": splitter, "scoring": "accuracy", "inner_cv": 3}
    grid = {"C": [0.1, 10.0]}
    of_rows = compare_models({"uniform": (UniformMKLClassifier(bank()), grid)}, X, y, **options)
    of_stack = compare_models({"uniform": (UniformMKLClassifier("precomputed"), grid)}, stack, y, **options)
    np.testing.assert_array_equal(of_stack.cells["accuracy"], of_rows.cells["accuracy"])
    assert list(of_stack.cells["best_params"]) == list(of_rows.cells["best_params"])


def test_numbers_of_folds_stratify_and_keep_groups_together(two_classes):
    X, y = two_classes
    groups = np.random.default_rng(3).integers(20, size=100)
    found = compare_models({"svm": SVC()}, X, y, groups=groups, cv=3, scoring="accuracy", random_state=5)
    expected = [
        accuracy_score(y[test], SVC().fit(X[train], y[train]).predict(X[test]))
        for train, test in StratifiedGroupKFold(3, shuffle=True, random_state=5).split(X, y, groups)
    ]
    assert found.cells["accuracy"].tolist() == expected


@pytest.mark.heavy
def test_several_data_sets_and_their_order(two_classes):
    sets = {"ours": two_classes, "wine": "wine"}
    models = {"b": LogisticRegression(max_iter=3000), "a": make_pipeline(StandardScaler(), SVC())}
    found = compare_models(models, datasets=sets, cv=3, scoring=["accuracy", "log_loss"], unavailable="nan")
    assert (found.datasets, found.models, found.metrics) == (
        ["ours", "wine"],
        ["b", "a"],
        ["accuracy", "log_loss"],
    )
    assert found.about["datasets"]["wine"]["n_samples"] == 178
    assert found.scores().shape == (6, 2)
    assert list(found.scores("accuracy", "wine").columns) == ["b", "a"]
    assert found.scores("log_loss")["a"].isna().all()  # an SVC has no probabilities
    assert found.ranks("log_loss").loc["b", "n"] == 2
    assert np.isnan(found.ranks("log_loss").loc["a", "mean_rank"])
    pd.testing.assert_frame_equal(found.significance(), found.significance("accuracy", "corrected_t"))
    best = found.summary("accuracy").query("best")
    assert len(best) == 2


# ----------------------------------------------------------------------------------- nothing leaks, nothing twice


def test_the_grid_never_sees_test_rows():
    X, y = np.arange(60.0)[:, None], np.tile([0, 1], 30)
    Recording.seen.clear()
    compare_models({"m": (Recording(), {"C": [1.0, 2.0]})}, X, y, cv=3, inner_cv=2, scoring="accuracy")
    per_split = 2 * 2 + 1  # candidates x inner folds, then the refit
    fits = [rows for kind, rows in Recording.seen if kind == "fit"]
    assert len(fits) == 3 * per_split
    for split, (train, test) in enumerate(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)):
        seen = fits[split * per_split : (split + 1) * per_split]
        assert set.union(*seen) == set(X[train, 0])
        assert not set.union(*seen) & set(X[test, 0])
        assert all(len(rows) == 20 for rows in seen[:-1])


@pytest.mark.heavy
def test_two_processes_give_what_one_gives(two_classes):
    X, y = two_classes
    models = {
        "u": UniformMKLClassifier(bank()),
        "bemkl": BEMKLClassifier(bank(), intermediate_scale=1.0, max_iter=20),
        "svm": SVC(),
    }
    options = {"cv": 3, "scoring": ["accuracy", "auc"], "random_state": 1}
    sets = {"array": (X, y), "table": (pd.DataFrame(X, columns=list("abcd")), y), "iris": "iris"}
    serial = compare_models(models, datasets=sets, **options)
    parallel = compare_models(models, datasets=sets, n_jobs=2, **options)
    pd.testing.assert_frame_equal(without_times(parallel), without_times(serial))
    pd.testing.assert_frame_equal(parallel.predictions(), serial.predictions(), check_exact=True)


# ----------------------------------------------------------------------------------------- failures and folders


def test_a_failing_model_is_recorded_and_stops_nobody(two_classes):
    X, y = two_classes
    with pytest.warns(
        UserWarning, match="cells failed, the first with model 'bad' on 'data': RuntimeError: no luck"
    ):
        found = compare_models({"bad": Failing(), "svm": SVC()}, X, y, cv=4, scoring="accuracy")
    alone = compare_models({"svm": SVC()}, X, y, cv=4, scoring="accuracy")
    np.testing.assert_array_equal(found.scores()["svm"], alone.scores()["svm"])
    failed = found.failures
    assert 0 < len(failed) < 4
    assert set(failed["error"]) == {"RuntimeError: no luck"}
    assert list(found.scores()["bad"].isna()) == [k in set(failed["split"]) for k in range(4)]
    assert found.summary().set_index("model").loc["bad", "failed"] == len(failed)
    assert np.isnan(found.ranks().loc["bad", "mean_rank"])


def test_loading_keeps_every_digit(two_classes, tmp_path):
    models = {"NA": SVC(), "svm, <2>": (SVC(), {"C": [1.0, 2.0]})}
    options = {"cv": 3, "scoring": ["accuracy", "auc"], "folder": tmp_path / "run"}
    found = compare_models(models, *two_classes, **options)
    pd.testing.assert_frame_equal(Comparison.load(tmp_path / "run").cells, found.cells, check_exact=True)


def test_a_folder_without_a_finished_cell_has_no_scores(two_classes, tmp_path):
    compare_models({"svm": SVC()}, *two_classes, cv=2, scoring="accuracy", folder=tmp_path / "run")
    for path in (tmp_path / "run" / "cells").iterdir():
        path.unlink()
    left = Comparison.load(tmp_path / "run")
    assert left.score("f1").empty
    assert left.summary().empty


def test_a_metric_that_no_model_gives_leaves_the_page_and_the_other_metrics(two_classes, tmp_path):
    models, sets = {"svm": SVC(), "svm 2": SVC(C=2.0)}, {"one": two_classes, "two": two_classes}
    metrics = ["accuracy", "log_loss"]
    found = compare_models(models, datasets=sets, cv=2, scoring=metrics, unavailable="nan")
    text = found.to_html(tmp_path / "report.html", metrics=metrics).read_text()
    assert "No model has a score." in text
    assert "Mean ranks by accuracy" not in text  # of two models
    assert "±" in text


# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": [("a", SVC())]}, "`models` must map names to models"),
        ({"models": {}}, "`models` must name at least one"),
        ({"models": {"": SVC()}}, "must have names of text"),
        ({"models": {"a": SVC}}, "must be an estimator or a pair"),
        ({"models": {"a": "SVC"}}, "must be an estimator or a pair"),
        (
            {"models": {"a": SVC(), "b": Ridge()}},
            "classifiers, regressors or models of survival, not several",
        ),
        ({"models": {"a": StandardScaler()}}, "is not a classifier, a regressor"),
        ({"scoring": "accuracies"}, "accuracy"),
        ({"scoring": "log_loss"}, "log_loss"),
        ({"scoring": "r2"}, "r2"),
        ({"cv": 1}, "`cv` must be at least 2"),
        ({"cv": "five"}, "`cv` must be a number of folds"),
        ({"datasets": ["iris"]}, "either `X` and `y`, or `datasets`"),
        ({"X": None, "y": None, "datasets": ["irys"]}, "iris"),
        ({"X": None, "y": None, "datasets": ["iris", "iris"]}, "names 'iris' twice"),
        ({"X": None, "y": None, "datasets": {"a": 3}}, "must be a name"),
        ({"y": None}, "`y` must be given"),
        ({"random_state": 2**32}, "`random_state` must be below"),
        ({"inner_scoring": "acuracy"}, "Did you mean 'accuracy'"),
        ({"cv": [(range(50), np.eye(2))]}, "`cv` must split the 100 samples.*of integer"),
        ({"cv": [(range(50), [[1], [2, 3]])]}, "`cv`"),
        ({"cv": 60}, "`cv` must split the 100 samples; got StratifiedKFold.* Use fewer folds"),
        ({"cv": LeaveOneGroupOut()}, "`cv` must split.*'groups'.*should not be None. Give `groups`"),
        ({"cv": PredefinedSplit(np.arange(101) % 3)}, "`cv` must split the 100 samples.*out of bounds"),
        ({"cv": PredefinedSplit(np.full(100, -1))}, "`cv` must give at least one pair"),
        ({"cv": [(range(50), np.zeros(100, dtype=bool))]}, "`cv` must leave samples.*split 0 has no test"),
        ({"unavailable": "skip"}, "unavailable"),
        ({"scoring": {"error": "accuracy"}}, "`scoring`: a metric cannot be called 'error'.*'my error'"),
        ({"scoring": {"value": "accuracy"}}, "`scoring`: a metric cannot be called 'value'"),
    ],
)
def test_bad_input_is_named(two_classes, arguments, message):
    X, y = two_classes
    with pytest.raises((ValueError, TypeError), match=message):
        compare_models(**({"models": {"svm": SVC()}, "X": X, "y": y, "cv": 2} | arguments))


def test_samples_in_both_parts_of_a_split_are_told(rng):
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 2
    with pytest.warns(UserWarning, match="1 of 2 in split 0"):
        compare_models({"m": DummyClassifier()}, X, y, scoring="accuracy", cv=TimeSeriesSplit(5, gap=-1))
    cv = [(np.arange(8), np.arange(8, 12)), (np.arange(10), [-4, -3, -2, -1])]  # from the end: the same rows
    with pytest.warns(UserWarning, match="2 of 4 in split 1"):
        compare_models({"m": DummyClassifier()}, X, y, scoring="accuracy", cv=cv)


class Mean(RegressorMixin, BaseEstimator):
    """The mean of training, and what the fits have seen."""

    def __init__(self, design=None, shrink=1.0):
        self.design, self.shrink = design, shrink

    def fit(self, X, y):
        Mean.seen.append(set(np.asarray(X)[:, 1]))
        self.mean_ = self.shrink * np.mean(y)
        return self

    def predict(self, X):
        Mean.seen[-1] &= set(np.asarray(X)[:, 1])  # groups on both sides
        return np.full(len(X), self.mean_)


@pytest.fixture
def visits():
    """Sixty visits of twelve subjects at four sites, which are text."""
    Mean.seen = []
    rng = np.random.default_rng(0)
    subject = rng.permutation(np.repeat(np.arange(12), 5))
    X = pd.DataFrame({"marker": rng.normal(size=60), "subject": subject})
    return X.assign(site=[f"site {s % 4}" for s in subject]), rng.normal(size=60)


def test_a_number_of_folds_keeps_groups_of_a_design_together_and_says_so(visits):
    X, y = visits
    models = {"design": Mean(Design(group_columns="subject")), "none": Mean()}
    found = compare_models(models, X, y, cv=4, scoring="rmse", random_state=2)
    assert Mean.seen == [set()] * 8
    given = compare_models({"none": Mean()}, X, y, cv=4, groups=X["subject"], scoring="rmse", random_state=2)
    np.testing.assert_array_equal(found.scores()["none"], given.scores()["none"])
    assert found.about["datasets"]["data"]["groups"] == "12 by 'subject', together in every split"
    assert str(found).endswith("groups of data: 12 by 'subject', together in every split")
    assert given.about["datasets"]["data"]["groups"] == "12 by groups, together in every split"


def test_grids_keep_groups_together_inside_training(visits):
    X, y = visits
    tuned = (
        make_pipeline(FunctionTransformer(), Mean()),
        {"mean__design": [Design(group_columns="subject")]},
    )
    compare_models({"tuned": tuned}, X, y, cv=2, inner_cv=3, scoring="rmse")
    assert Mean.seen == [set()] * 8  # three folds and the refit of each split


@pytest.mark.parametrize("cv", [KFold(4, shuffle=True), [(np.arange(30), np.arange(30, 60))]])
def test_a_splitter_decides_otherwise(visits, cv):
    X, y = visits
    tuned = (Mean(Design(group_columns="subject")), {"shrink": [0.9, 1.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare_models({"x": tuned}, X, y, cv=cv, inner_cv=2, scoring="rmse")
    assert all(Mean.seen)
    assert found.about["datasets"]["data"]["groups"] == "12 by 'subject', on both sides of splits"
    other = {"a": Mean(Design(group_columns="site")), "b": Mean(Design(group_columns="subject"))}
    assert compare_models(other, X, y, cv=cv, scoring="rmse").failures.empty


@pytest.mark.parametrize(("cv", "n_splits"), [(GroupKFold(3), 3), (LeaveOneGroupOut(), 12)])
def test_splitters_by_groups_are_handed_those_of_the_design(visits, cv, n_splits):
    X, y = visits
    found = compare_models({"x": Mean(Design(group_columns="subject"))}, X, y, cv=cv, scoring="rmse")
    assert len(found.cells) == n_splits
    assert Mean.seen == [set()] * n_splits


def test_nested_groups_make_the_larger_ones(visits):
    X, y = visits
    design = Design(group_columns=["site", "subject"])
    found = compare_models({"x": Mean(design)}, X, y, cv=4, scoring="rmse")
    assert found.about["datasets"]["data"]["groups"] == "4 by 'subject' and 'site', together in every split"
    apart = {"a": Mean(Design(group_columns="site")), "b": Mean(Design(group_columns="subject"))}
    again = compare_models(apart, X, y, cv=4, scoring="rmse")
    assert again.about["datasets"]["data"]["groups"] == found.about["datasets"]["data"]["groups"]
    both = labels_of(X, [1, 2])
    assert len(set(zip(both, X["site"], strict=True))) == len(set(both)) == 4
    crossed = X.assign(site=np.arange(60) % 2)
    assert set(labels_of(crossed, [1, 2])) == {0}


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ({"a": "center"}, {}, "the groups in the design of 'a' are not columns of `X`: .* Pass `groups`"),
        ({"a": "site"}, {"cv": 5}, "`cv` must split the 60 samples; .* number of groups"),
        (
            {"a": "empty"},
            {},
            r"no missing values .* in the columns of `design`; got 60 in 'empty', the first in row 0",
        ),
    ],
)
def test_what_cannot_be_kept_together_is_refused(visits, models, options, message):
    X, y = visits
    X = X.assign(empty=[None] * 60)
    models = {name: Mean(Design(group_columns=columns)) for name, columns in models.items()}
    with pytest.raises(ValueError, match=message):
        compare_models(models, X, y, **{"cv": 3, "scoring": "rmse"} | options)
