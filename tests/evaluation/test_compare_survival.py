"""compare_models of survival times: the numbers of a plain loop, weights by the training part, clear refusals."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import KernelBank
from bayesmkl.bemkl import BEMKLSurvival
from bayesmkl.evaluation import (
    Comparison,
    compare_models,
    concordance_index,
    integrated_brier_score,
    kaplan_meier,
    survival_calibration,
)
from bayesmkl.evaluation.report.comparison import _data_table, _title
from bayesmkl.evaluation.report.page import html
from bayesmkl.evaluation.scoring import resolve_scoring
from bayesmkl.gp import GPMKLSurvival, Marginal

SCORES = ["concordance", "concordance_uno", "integrated_brier_score", "calibration_at_median"]


class Exponential(BaseEstimator):
    """Constant hazards, as many times as high by the first column; a survival function that takes times."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y):
        self.rate_ = y["died"].sum() / y["years"].sum()
        return self

    def predict(self, X):
        return self.factor * np.asarray(X)[:, 0]

    def score(self, X, y):
        return concordance_index(y, self.predict(X))

    def predict_survival_function(self, X, times):
        return np.exp(-self.rate_ * np.exp(self.predict(X))[:, None] * np.asarray(times))


class StepFunction:
    def __init__(self, times, values):
        self.times, self.values, self.domain = times, values, (times[0], times[-1])

    def __call__(self, at):
        assert ((at >= self.times[0]) & (at <= self.times[-1])).all()  # others are refused
        return self.values[np.searchsorted(self.times, at, side="right") - 1]


class Everyone(Exponential):
    """The curve of everybody in training, as step functions with a domain."""

    def fit(self, X, y):
        self.curve_ = kaplan_meier(y["died"], y["years"])
        return self

    def predict_survival_function(self, X, return_array=False):
        return np.array([StepFunction(*self.curve_) for _ in range(len(X))], dtype=object)


class Risk(BaseEstimator):
    """Risks, and no curves."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return -np.asarray(X)[:, 0]


@pytest.fixture(scope="module")
def times():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    died, end = rng.exponential(2.0 * np.exp(-X[:, 0])), rng.uniform(1.0, 8.0, size=120)
    return X, np.rec.fromarrays([died < end, np.minimum(died, end)], names="died,years")


def test_scores_are_those_of_a_plain_loop_over_folds_that_spread_the_events(times):
    X, y = times
    models = {"exponential": Exponential(), "everyone": Everyone()}
    found = compare_models(models, X, y, cv=3, scoring=SCORES, random_state=4)
    assert found.about["metrics"] == {name: name.startswith("concordance") for name in SCORES}
    assert found.about["datasets"]["data"]["n_events"] == y["died"].sum()
    folds = StratifiedKFold(3, shuffle=True, random_state=4).split(X, y["died"])
    for split, (train, test) in enumerate(folds):
        low, high = np.quantile(y["years"][train][y["died"][train]], [0.1, 0.9])
        grid = np.linspace(low, high, 60)
        assert y["years"][test].min() < low < high < y["years"][test].max()
        median = np.median(y["years"][train][y["died"][train]])
        for name, model in models.items():
            model.fit(X[train], y[train])
            risk = model.predict(X[test])
            if name == "everyone":
                at = (
                    np.tile(model.curve_.at(grid), (len(test), 1)),
                    np.tile(model.curve_.at(median), len(test)),
                )
            else:
                at = (
                    model.predict_survival_function(X[test], grid),
                    model.predict_survival_function(X[test], [median])[:, 0],
                )
            expected = {
                "concordance": concordance_index(y[test], risk),
                "concordance_uno": concordance_index(y[test], risk, y_train=y[train], tau=high),
                "integrated_brier_score": integrated_brier_score(y[train], y[test], at[0], grid),
                "calibration_at_median": survival_calibration(y[test], at[1], median).calibration_error,
            }
            cell = found.cells.query(f"model == {name!r} and split == {split}").iloc[0]
            for metric, value in expected.items():
                assert cell[metric] == pytest.approx(value, abs=1e-12), (metric, name)


class Remembered(GPMKLSurvival):
    """Our estimator; the one that was fitted last is kept."""

    def fit(self, X, y):
        Remembered.last = super().fit(X, y)
        return self


@pytest.mark.heavy
def test_our_model_in_a_pipeline_is_scored_by_what_it_gives(times):
    X, y = times
    quick = Marginal(n_points=100, n_draws=100)
    model = Remembered(KernelBank(["linear"]), inference=quick, random_state=0)
    train, test = np.arange(30), np.arange(30, 60)
    both = {"piped": make_pipeline(StandardScaler(), model), "risk": Risk()}
    found = compare_models(both, X, y, cv=[(train, test)], unavailable="nan")
    assert found.metrics == ["concordance", "concordance_uno", "integrated_brier_score"]
    scaled = (X[test] - X[train].mean(axis=0)) / X[train].std(axis=0)
    alone, score = Remembered.last, found.scores("integrated_brier_score")
    assert found.scores("concordance")["piped"].item() == pytest.approx(alone.score(scaled, y[test]))
    low, high = np.quantile(y["years"][train][y["died"][train]], [0.1, 0.9])
    first, last = y["years"][test].min(), y["years"][test].max()
    assert low < first < high < last  # test samples are not followed from `low` on
    grid = np.linspace(first, high, 60)
    expected = integrated_brier_score(y[train], y[test], alone.predict_survival_function(scaled, grid), grid)
    assert score["piped"].item() == pytest.approx(expected)
    assert score["risk"].isna().all()


def test_grids_choose_by_concordance_and_splitters_stratify_by_the_event(times):
    X, y = times
    table = pd.DataFrame(X, columns=["a", "b"])
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=1)
    tuned = (make_pipeline(StandardScaler(), Exponential()), {"exponential__factor": [-1.0, 1.0]})
    found = compare_models({"tuned": tuned}, table, y, cv=cv, inner_cv=2, scoring="integrated_brier_score")
    assert found.failures.empty
    assert set(found.cells["best_params"]) == {json.dumps({"exponential__factor": 1.0})}
    expected = [len(test) for _, test in cv.split(X, y["died"])]
    assert found.cells["n_test"].tolist() == expected


def test_groups_stay_together_and_events_are_spread(times):
    X, y = times
    groups = np.random.default_rng(3).integers(20, size=120)
    found = compare_models({"x": Exponential()}, X, y, groups=groups, cv=3, scoring="concordance")
    folds = StratifiedGroupKFold(3, shuffle=True, random_state=0).split(X, y["died"], groups)
    assert found.cells["n_test"].tolist() == [len(test) for _, test in folds]


def keys_of(found):
    return [key for *_, key in found.about["keys"]]


def test_a_folder_knows_its_times(times, tmp_path):
    X, y = times
    models = {"exponential": Exponential(), "everyone": Everyone()}
    options = {"cv": 2, "scoring": SCORES[:3], "folder": tmp_path / "run"}
    found = compare_models(models, X, y, **options)
    plain = np.array(y.tolist(), dtype=[("died", bool), ("years", float)])  # the same, and no record array
    again = compare_models(models, X, plain, **options)
    pd.testing.assert_frame_equal(found.scores(), again.scores())
    pd.testing.assert_frame_equal(Comparison.load(tmp_path / "run").scores(), found.scores())
    assert "<td" in html(_data_table(found))
    assert f">{y['died'].sum()}<" in html(_data_table(found))
    assert "Harrell's concordance" in [_title(name) for name in found.metrics]


def test_changed_times_and_events_are_computed(times, tmp_path):
    X, y = times
    options = {"cv": 2, "scoring": "concordance", "folder": tmp_path / "run"}
    model = {"bemkl": BEMKLSurvival(max_iter=2, tol=0.0)}
    found = compare_models(model, X, y, **options)
    plain = np.array(y.tolist(), dtype=[("died", bool), ("years", float)])  # the same, and no record array
    pd.testing.assert_frame_equal(compare_models(model, X, plain, **options).cells, found.cells)
    for field in ("died", "years"):
        other = plain.copy()
        other[field][5] = not other[field][5] if field == "died" else other[field][5] + 1e-9
        grown = compare_models(model, X, other, **options)
        assert set(keys_of(grown)) & set(keys_of(found)) == set()


@pytest.mark.slow
def test_two_processes_give_what_one_gives(times):
    X, y = times
    alone, both = (
        compare_models({"everyone": Everyone()}, X, y, cv=2, scoring=SCORES[:3], n_jobs=n) for n in (1, 2)
    )
    pd.testing.assert_frame_equal(alone.scores(), both.scores())


CLASSES = np.arange(120) % 2


@pytest.mark.parametrize(
    ("models", "labels", "options", "message"),
    [
        (
            Exponential,
            None,
            {"scoring": "accuracy"},
            "'accuracy' is for classification; .* Use 'concordance'",
        ),
        (DummyClassifier, CLASSES, {"scoring": "concordance"}, "'concordance' is for survival; .* for class"),
        (DummyClassifier, None, {}, "one label per sample.* got a structured array, as of times"),
        (
            LinearRegression,
            None,
            {},
            "one number per sample.* Use models of survival, such as GPMKLSurvival",
        ),
        (Exponential, CLASSES, {}, "`y` must be a structured array"),
        (Exponential, None, {"scoring": "r2"}, "'r2' is for regression"),
        (Exponential, None, {"scoring": "neg_max_error"}, "'neg_max_error' does not know of censored times"),
        (Risk, None, {"scoring": "integrated_brier_score"}, "needs survival functions .* does not give"),
        (
            Exponential,
            None,
            {"cv": [(np.arange(9), np.arange(9, 12))]},
            "split 0, whose 3 test samples are all",
        ),
        (Exponential, "censored", {}, "at least one event"),
        (Exponential, "few", {"cv": 4}, "events in both parts .* all censored .* Use fewer folds"),
        (Exponential, "missing", {}, "times >= 0 in its field 'years'"),
    ],
)
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_what_does_not_fit_times_is_refused_before_anything_is_fitted(
    times, models, labels, options, message
):
    X, y = times
    y = np.array(y.tolist(), dtype=[("died", bool), ("years", float)])
    y["died"][9:12] = False
    if isinstance(labels, str):
        y["died"] &= np.cumsum(y["died"]) <= {"censored": 0, "few": 3, "missing": 99}[labels]
        y["years"][7] = np.nan if labels == "missing" else 1.0
    with pytest.raises(ValueError, match=message):
        compare_models({"x": models()}, X, labels if isinstance(labels, np.ndarray) else y, **options)


def test_grids_are_not_chosen_by_metrics_that_take_times_for_numbers(times):
    tuned = {"x": (Exponential(), {"factor": [1.0]})}
    with pytest.raises(ValueError, match="`inner_scoring` must be None or a function"):
        compare_models(tuned, *times, inner_scoring="r2")


def test_tasks_of_models_are_not_mixed():
    with pytest.raises(ValueError, match="Compare classifiers, regressors or models of survival"):
        resolve_scoring(None, {"times": Exponential(), "numbers": LinearRegression()})
    assert "integrated_brier_score" not in resolve_scoring(
        None, {"risk": Risk()}, np.rec.fromarrays([[True], [1.0]], names="a,b")
    )


def test_test_parts_that_are_not_followed_have_no_brier_score(times):
    X, y = times
    order = np.argsort(y["years"])
    late_first = [(order[60:], order[:60])]
    found = compare_models({"x": Exponential()}, X, y, cv=late_first, scoring=SCORES[:3])
    assert np.isfinite(found.cells["concordance"]).all()
    assert found.cells["integrated_brier_score"].isna().all()
    assert "must be followed at the times of the events of training" in found.cells["note"].item()
