"""Metrics of predicted survival against other libraries, by hand and by simulation; comparisons of survival times."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.duration.survfunc import SurvfuncRight

from bayesmkl import KernelBank
from bayesmkl.bemkl import BEMKLSurvival
from bayesmkl.evaluation import (
    compare_models,
    concordance_index,
    integrated_brier_score,
    kaplan_meier,
    survival_brier_score,
    survival_calibration,
)
from bayesmkl.gp import GPMKLSurvival, Marginal

CASES = json.loads((Path(__file__).parents[1] / "fixtures" / "survival.json").read_text(encoding="utf-8"))[
    "cases"
]


def target(event, time):
    return np.rec.fromarrays(
        [np.asarray(event, dtype=bool), np.asarray(time, dtype=float)], names="event,time"
    )


def drawn(n, rng, censoring=1.0, shape=1.0, spread=1.0):
    """Weibull times of subjects with known survival at time 1, and times of censoring."""
    risk = spread * rng.normal(size=n)
    died = (rng.exponential(size=n) * np.exp(-risk)) ** (1.0 / shape)
    censored = rng.uniform(0.0, 2.0 / censoring, size=n) if censoring else np.full(n, np.inf)
    return target(died <= censored, np.minimum(died, censored)), np.exp(-np.exp(risk)), risk


@pytest.fixture(params=CASES)
def case(request):
    given = {
        key: np.asarray(value) if isinstance(value, list) else value
        for key, value in CASES[request.param]["given"].items()
    }
    given |= {part: target(given[f"{part}_event"], given[f"{part}_time"]) for part in ("train", "test")}
    # It weighs events by the curve of censoring at their times, which is the curve just before a moment later.
    given |= {"later": target(given["test_event"], given["test_time"] + 1e-6)}
    return given, CASES[request.param]["found"]


# ------------------------------------------------------------------------------------------ scikit-survival's numbers


def test_curves_are_scikit_survivals(case):
    given, found = case
    for key, reverse in (("kaplan_meier", False), ("censoring", True)):
        curve = kaplan_meier(given["train_event"], given["train_time"], reverse=reverse)
        np.testing.assert_array_equal(curve.times, found[key][0])
        np.testing.assert_allclose(curve.survival, found[key][1], rtol=0.0, atol=1e-10)


def test_concordance_is_scikit_survivals(case):
    given, found = case
    assert concordance_index(given["test"], given["risk"]) == pytest.approx(found["harrell"], abs=1e-10)
    uno = concordance_index(given["later"], given["risk"], y_train=given["train"], tau=given["tau"] + 1e-6)
    assert uno == pytest.approx(found["uno"], abs=1e-10)


def test_brier_scores_are_scikit_survivals(case):
    given, found = case
    arguments = given["train"], given["later"], given["survival"], given["times"] + 1e-6
    np.testing.assert_allclose(survival_brier_score(*arguments), found["brier"], rtol=0.0, atol=1e-10)
    assert integrated_brier_score(*arguments) == pytest.approx(found["integrated_brier"], abs=1e-10)


# ----------------------------------------------------------------------------------------------------- Kaplan-Meier


@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_curve_is_that_of_statsmodels(decimals, rng):
    time, event = np.round(rng.exponential(3.0, size=80), decimals) + 1.0, rng.random(80) < 0.6
    other = SurvfuncRight(time, event)
    curve = kaplan_meier(event, time)
    np.testing.assert_allclose(curve.at(other.surv_times), other.surv_prob, atol=1e-12)


def test_curve_is_a_step_function_that_includes_its_times():
    curve = kaplan_meier([True, True, False, True], [1.0, 2.0, 2.0, 3.0])
    np.testing.assert_allclose(curve.at([0.0, 0.9, 1.0, 1.5, 2.0, 3.0, 9.0]), [1, 1, 0.75, 0.75, 0.5, 0, 0])
    np.testing.assert_allclose(curve.at([1.0, 2.0, 3.0], before=True), [1, 0.75, 0.5])
    assert curve.at(2.5) == 0.5
    assert curve.at(np.ones((2, 3))).shape == (2, 3)


def test_events_come_before_censoring_at_the_same_time():
    event = np.array([True, False, True, False])
    reverse = kaplan_meier(event, [1.0, 1.0, 2.0, 2.0], reverse=True)
    np.testing.assert_allclose(reverse.survival, [2 / 3, 0.0])
    np.testing.assert_allclose(kaplan_meier(event, [1.0, 1.0, 2.0, 2.0]).survival, [3 / 4, 3 / 8])


# ------------------------------------------------------------------------------------------------------ concordance


def test_concordance_counts_pairs(rng):
    time, event = np.ceil(rng.exponential(6.0, size=40)), rng.random(40) < 0.6
    risk = np.round(rng.normal(size=40), 1)
    weights = kaplan_meier(event, time, reverse=True)
    for tau, weighted in itertools.product((np.inf, 6.0), (False, True)):
        in_order = pairs = 0.0
        for i, j in itertools.permutations(range(40), 2):
            longer = time[j] > time[i] or (time[j] == time[i] and not event[j])
            if event[i] and longer and time[i] < tau:
                weight = weights.at(time[i], before=True) ** -2.0 if weighted else 1.0
                in_order += weight * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
                pairs += weight
        y = target(event, time)
        found = concordance_index(
            y, risk, y_train=y if weighted else None, tau=None if tau == np.inf else tau
        )
        assert found == pytest.approx(in_order / pairs, abs=1e-12)


def test_uno_concordance_does_not_depend_on_censoring(rng):
    """Of a risk that tells early events only, which are what Harrell's index sees of censored samples."""
    died = rng.uniform(0.0, 2.0, size=3000)
    risk = rng.normal(size=3000) + 2.0 * (died < 0.4)
    truth = concordance_index(target(np.full(3000, True), died), risk, tau=1.2)
    censored = rng.uniform(0.0, 1.5, size=3000)
    y = target(died <= censored, np.minimum(died, censored))
    assert concordance_index(y, risk, y_train=y, tau=1.2) == pytest.approx(truth, abs=0.015)
    assert concordance_index(y, risk) > truth + 0.03


# ------------------------------------------------------------------------------------------------------ Brier score


def test_brier_score_without_censoring_is_the_mean_squared_error(rng):
    y, _, _ = drawn(50, rng, censoring=0.0)
    times = np.quantile(y["time"], [0.1, 0.5, 0.8])
    survival = rng.uniform(size=(50, 3))
    plain = ((survival - (y["time"][:, None] > times)) ** 2).mean(axis=0)
    np.testing.assert_allclose(survival_brier_score(y, y, survival, times), plain, atol=1e-14)
    area = ((plain[1:] + plain[:-1]) / 2 * np.diff(times)).sum() / (times[-1] - times[0])
    assert integrated_brier_score(y, y, survival, times) == pytest.approx(area, abs=1e-14)


def test_brier_score_does_not_depend_on_censoring(rng):
    y, survival, _ = drawn(6000, rng)
    truth = (survival * (1.0 - survival)).mean()
    assert survival_brier_score(y, y, survival[:, None], [1.0])[0] == pytest.approx(truth, abs=0.01)
    assert survival_brier_score(y, y, np.full((6000, 1), 0.9), [1.0])[0] > truth + 0.05


# ------------------------------------------------------------------------------------------------------- tied times


def crossed(died, censored):
    """Let every time of an event meet every time of censoring, so that weights undo the censoring exactly."""
    died, censored = (grid.ravel() for grid in np.meshgrid(died, censored, indexing="ij"))
    return target(died <= censored, np.minimum(died, censored))


def test_scores_of_whole_months_are_those_without_censoring(rng):
    died, censored = rng.integers(1, 9, size=25), rng.integers(1, 11, size=12)
    censored[0] = 10  # some are followed for longer than all events
    everyone, seen = target(np.full(25, True), died), crossed(died, censored)
    until_6 = target(seen["event"] & (seen["time"] <= 6.0), np.minimum(seen["time"], 6.0))
    times, survival, risk = np.array([1.0, 3.5, 6.0]), rng.random((25, 3)), np.round(rng.normal(size=25), 1)
    repeated = np.repeat(survival, 12, axis=0)
    for train in (seen, until_6):
        found = survival_brier_score(train, seen, repeated, times)
        np.testing.assert_allclose(
            found, survival_brier_score(everyone, everyone, survival, times), rtol=1e-12
        )
        for tau in (None, 4.0) if train is seen else (6.5, 4.0):
            uno = concordance_index(seen, np.repeat(risk, 12), y_train=train, tau=tau)
            assert uno == pytest.approx(concordance_index(everyone, risk, tau=tau), rel=1e-12)
    by_bin = survival_calibration(seen, repeated[:, 1], 6.0, n_bins=1)
    assert by_bin.observed[0] == pytest.approx((died > 6.0).mean(), rel=1e-12)


def test_variance_at_tied_times_is_greenwoods():
    """Of a hazard of one half in each month, half of whose events tie with censoring."""
    seen = crossed(np.repeat([1, 2, 3, 4], [8, 4, 2, 2]), [1, 2, 2, 5])
    other = SurvfuncRight(seen["time"], seen["event"])
    found = survival_calibration(seen, np.full(64, 0.25 + 1e-7), 2.0, n_bins=1)
    assert other.surv_prob[1] == 0.25
    assert 1e-7 / np.sqrt(found.statistic) == pytest.approx(other.surv_prob_se[1], rel=1e-5)


# ------------------------------------------------------------------------------------------------------ calibration


def test_calibration_without_censoring_by_hand(rng):
    y, survival, _ = drawn(200, rng, censoring=0.0)
    found = survival_calibration(y, survival, 1.0, n_bins=4)
    for b, rows in enumerate(np.array_split(np.argsort(survival), 4)):
        assert found.observed[b] == pytest.approx((y["time"][rows] > 1.0).mean(), abs=1e-12)
        assert found.predicted[b] == pytest.approx(survival[rows].mean(), abs=1e-12)
        assert found.lower[b] < found.predicted[b] < found.upper[b]
    np.testing.assert_array_equal(found.n_samples, 50)
    variance = [(s * (1 - s)).sum() / 50**2 for s in np.array_split(np.sort(survival), 4)]
    expected = ((found.observed - found.predicted) ** 2 / variance).sum()
    assert found.statistic == pytest.approx(expected, rel=1e-9)
    error = np.abs(found.observed - found.predicted).mean()
    assert found.calibration_error == pytest.approx(error, abs=1e-12)


def test_observed_survival_of_a_bin_is_its_own_curve(rng):
    y, survival, _ = drawn(300, rng)
    found = survival_calibration(y, survival, 0.5, n_bins=3)
    for b, rows in enumerate(np.array_split(np.argsort(survival), 3)):
        inside = y[rows]
        assert found.observed[b] == pytest.approx(kaplan_meier(inside["event"], inside["time"]).at(0.5))


def test_variance_of_equal_predictions_is_greenwoods(rng):
    """As estimated from the curve, if that curve is what was predicted."""
    y, _, _ = drawn(4000, rng, spread=0.0)
    other = SurvfuncRight(y["time"], y["event"])
    until = np.searchsorted(other.surv_times, 0.8, side="right") - 1
    predicted = np.full(4000, other.surv_prob[until])
    close = survival_calibration(y, predicted + 0.01, 0.8, n_bins=1)
    assert 0.01 / np.sqrt(close.statistic) == pytest.approx(other.surv_prob_se[until], rel=0.02)


def test_wrong_predictions_are_outside(rng):
    y, survival, _ = drawn(800, rng)
    assert survival_calibration(y, survival, 1.0).calibrated
    for wrong in (survival**0.5, survival**2.0, np.full(800, 0.8)):
        found = survival_calibration(y, wrong, 1.0)
        assert not found.calibrated
        assert found.p_value < 1e-3


def test_equal_predictions_share_a_bin(rng):
    y, _, _ = drawn(100, rng)
    assert len(survival_calibration(y, np.full(100, 0.4), 0.5).n_samples) == 1
    found = survival_calibration(y, np.repeat([0.3, 0.5], 50), 0.5, n_bins=10)
    np.testing.assert_array_equal(found.n_samples, [50, 50])


def test_bins_that_end_before_the_time_are_joined(rng):
    time = np.array([0.5, 0.6, 0.7, 1.5, 1.6, 1.7, 0.4, 0.5, 0.6])
    y = target([True, False, False, True, False, True, True, False, False], time)
    found = survival_calibration(y, np.arange(1, 10) / 10, 1.0, n_bins=3)
    np.testing.assert_array_equal(found.n_samples, [9])
    found = survival_calibration(y[:6], np.arange(1, 7) / 10, 1.0, n_bins=3)
    np.testing.assert_array_equal(found.n_samples, [4, 2])


def test_certain_predictions_are_right_or_wrong(rng):
    y = target(np.full(40, True), np.arange(1.0, 41.0))
    right = (y["time"] > 20.0).astype(float)
    found = survival_calibration(y, right, 20.0, n_bins=2)
    assert (found.calibrated, found.statistic, found.p_value) == (True, 0.0, 1.0)
    found = survival_calibration(y, 1.0 - right, 20.0, n_bins=2)
    assert (found.calibrated, found.statistic, found.p_value) == (False, np.inf, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("censoring", [0.0, 1.0, 1.6])
def test_band_holds_calibrated_models(n, censoring, rng):
    inside = [
        survival_calibration(*drawn(n, rng, censoring, shape=1.5)[:2], 1.0).calibrated for _ in range(1000)
    ]
    assert 0.93 < np.mean(inside) < 0.985


# ---------------------------------------------------------------------------------------------------------- bad input

SEEN = target([True, False, True, True, False, True], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
SHORT = target([True, True, False], [1.0, 2.0, 3.0])
NONE = target(np.full(6, False), SEEN["time"])
HALF = np.full((6, 2), 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kaplan_meier([1, 0], [1.0, 2.0]), "`event` and `time` must .*int64.*`event == code`"),
        (lambda: kaplan_meier([True], [1.0, 2.0]), "`event` and `time` must"),
        (lambda: kaplan_meier(np.zeros(0, bool), []), "`event` and `time` must"),
        (lambda: kaplan_meier([True], [-1.0]), "`time` must not be negative; got -1"),
        (lambda: concordance_index([1.0, 2.0], [1.0, 2.0]), "`y` must be .* a structured array"),
        (lambda: concordance_index(NONE, np.ones(6)), "`y` must hold at least one event"),
        (lambda: concordance_index(SEEN, np.ones(5)), "`risk` must hold one number for each of the 6"),
        (lambda: concordance_index(SEEN, np.full(6, np.nan)), "`risk` must hold finite"),
        (lambda: concordance_index(SEEN, np.ones(6), tau=0.0), "`tau` must be a finite number > 0"),
        (lambda: concordance_index(SEEN, np.ones(6), tau=0.5), "no such pair before `tau`=0.5"),
        (lambda: concordance_index(SEEN[-1:], np.ones(1)), "`y` must hold an event and a sample"),
        (lambda: concordance_index(SEEN, np.ones(6), y_train=NONE), "`y_train` must hold at least one event"),
        (
            lambda: concordance_index(SEEN, np.ones(6), y_train=SHORT),
            "`y_train` must be observed .* 6; got .* 3",
        ),
        (
            lambda: survival_brier_score(SEEN, SEEN, HALF, [1.0, 6.0]),
            "`times` must lie .* at least 1 and below 6",
        ),
        (lambda: survival_brier_score(SEEN, SEEN, HALF, [0.5, 2.0]), "`times` must lie within the follow-up"),
        (lambda: survival_brier_score(SEEN, SEEN, HALF, [2.0, 2.0]), "`times` must be a list of increasing"),
        (
            lambda: survival_brier_score(SEEN, SEEN, HALF, [2.0]),
            "`survival` must have a row for each of the 6",
        ),
        (
            lambda: survival_brier_score(SEEN, SEEN, HALF + 1.0, [2.0, 3.0]),
            "`survival` must hold probabilities",
        ),
        (lambda: survival_brier_score(SHORT, SEEN, HALF, [2.0, 4.5]), "`y_train` must be observed"),
        (lambda: survival_brier_score(SEEN, NONE, HALF, [2.0, 4.5]), "`y` must hold at least one event"),
        (lambda: integrated_brier_score(SEEN, SEEN, HALF[:, :1], [2.0]), "`times` must hold at least two"),
        (lambda: survival_calibration(SEEN, HALF[:, 0], 9.0), "`time` must lie within the follow-up"),
        (lambda: survival_calibration(SEEN, HALF[:, 0], [2.0]), "`time` must be a finite number"),
        (lambda: survival_calibration(SEEN, HALF, 2.0), "`survival_at` must hold one number"),
        (lambda: survival_calibration(SEEN, HALF[:, 0] * 3, 2.0), "`survival_at` must hold probabilities"),
        (
            lambda: survival_calibration(SEEN, HALF[:, 0], 2.0, n_bins=0),
            "`n_bins` must be a whole number >= 1",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


SCORES = ["concordance", "concordance_uno", "integrated_brier_score"]


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
        for name, model in models.items():
            model.fit(X[train], y[train])
            risk = model.predict(X[test])
            if name == "everyone":
                at = np.tile(model.curve_.at(grid), (len(test), 1))
            else:
                at = model.predict_survival_function(X[test], grid)
            expected = {
                "concordance": concordance_index(y[test], risk),
                "concordance_uno": concordance_index(y[test], risk, y_train=y[train], tau=high),
                "integrated_brier_score": integrated_brier_score(y[train], y[test], at, grid),
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


def keys_of(found):
    return [key for *_, key in found.about["keys"]]


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
        (Exponential, CLASSES, {}, "`y` must be .* a structured array"),
        (Exponential, None, {"scoring": "r2"}, "'r2' is for regression"),
        (
            Exponential,
            None,
            {"scoring": "neg_max_error"},
            "'neg_max_error' does not allow for censored times",
        ),
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


def test_test_parts_that_are_not_followed_have_no_brier_score(times):
    X, y = times
    order = np.argsort(y["years"])
    late_first = [(order[60:], order[:60])]
    found = compare_models({"x": Exponential()}, X, y, cv=late_first, scoring=SCORES[:3])
    assert np.isfinite(found.cells["concordance"]).all()
    assert found.cells["integrated_brier_score"].isna().all()
    assert "must be followed at the times of the events of training" in found.cells["note"].item()
