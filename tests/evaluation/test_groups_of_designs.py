"""compare_models with designs: groups of models stay together unless a splitter says otherwise."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from bayesmkl.evaluation import compare_models
from bayesmkl.evaluation.report.comparison import _data_table
from bayesmkl.evaluation.report.page import html
from bayesmkl.evaluation.study import labels_of
from bayesmkl.gp import Design


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


def test_the_report_says_it(visits):
    X, y = visits
    found = compare_models({"x": Mean(Design(group_columns=2))}, X, y, cv=2, scoring="rmse")
    assert re.search(r"4 by .{1,6}site.{1,6}, together in every split", html(_data_table(found)))


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


def test_given_groups_come_first(visits):
    X, y = visits
    found = compare_models(
        {"x": Mean(Design(group_columns="nothing"))}, X, y, groups=X["site"], cv=4, scoring="rmse"
    )
    assert found.about["datasets"]["data"]["groups"] == "4 by groups, together in every split"
    assert found.cells["n_test"].tolist() == [15] * 4


def test_nested_groups_make_the_larger_ones(visits):
    X, y = visits
    design = Design(group_columns=["site", "subject"])
    found = compare_models({"x": Mean(design)}, X, y, cv=4, scoring="rmse")
    assert found.about["datasets"]["data"]["groups"] == "4 by 'subject' and 'site', together in every split"
    both = labels_of(X, [1, 2])
    assert len(set(zip(both, X["site"], strict=True))) == len(set(both)) == 4
    crossed = X.assign(site=np.arange(60) % 2)
    assert set(labels_of(crossed, [1, 2])) == {0}


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (
            {"a": "site", "b": "subject"},
            {},
            r"must name the same groups .* got \{'a': \['site'\], 'b': \['subject'\]\}. Pass `groups`",
        ),
        ({"a": "center"}, {}, "the groups in the design of 'a' are no columns of `X`: .* Pass `groups`"),
        ({"a": "site"}, {"cv": 5}, "no more folds than there are groups to keep together, 4; got 5"),
        ({"a": ["subject", "site"], "b": "site"}, {}, "must name the same groups"),
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


def test_designs_without_groups_change_nothing(visits):
    X, y = visits
    design = Design(covariate_columns="marker")
    found = compare_models({"x": Mean(design), "ridge": Mean()}, X, y, cv=3, scoring="rmse")
    assert found.about["datasets"]["data"].get("groups") is None
    plain = compare_models({"ridge": Mean()}, X, y, cv=3, scoring="rmse")
    np.testing.assert_array_equal(found.scores()["ridge"], plain.scores()["ridge"])
    stack = np.zeros((60, 60, 1))  # precomputed kernels have no columns
    assert compare_models({"ridge": Ridge()}, stack[:, :5, 0], y, cv=2, scoring="rmse").failures.empty
