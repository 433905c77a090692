"""Estimators of counts, outliers, grades and times: other estimators that they are special cases of, units, sums."""

from __future__ import annotations

import warnings

import arviz_stats
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils import estimator_checks

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.evaluation import concordance_index
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, GPMKLSurvival, LogNormal, Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.outcomes import FailureTime, PiecewiseHazard
from bayesmkl.posterior import diagnose, relevance, to_datatree, view_table

FEW, MORE = (Marginal(n_points=n, n_draws=200) for n in (100, 200))
N = 40


def bank():
    views = {"signal": [0, 1], "noise": [2, 3]}
    return KernelBank([Gaussian(width=1), Linear()], views=views, normalize="trace")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    return X, X[:, 0] + np.sin(2 * X[:, 1]), rng


def censored(score, rng, end=8.0):
    time, until = np.exp(score + 0.4 * rng.logistic(size=len(score))), rng.uniform(1.0, end, len(score))
    return np.rec.fromarrays([time <= until, np.minimum(time, until)], names="event,years")


@pytest.fixture(scope="module")
def survival(data):
    X, f, _ = data
    y = censored(f, np.random.default_rng(1))
    return X, y, GPMKLSurvival(bank(), inference=FEW).fit(X, y)


@pytest.fixture(scope="module")
def counts(data):
    X, f, _ = data
    y = np.random.default_rng(2).poisson(np.exp(f + 2.0))
    return X, y, GPMKLRegressor(bank(), likelihood="poisson", inference=FEW).fit(X, y)


@pytest.fixture(scope="module")
def grades(data):
    X, f, _ = data
    y = np.digitize(f, [-1.0, 0.0, 1.0])
    return X, y, GPMKLOrdinalClassifier(bank(), inference=FEW).fit(X, y)


# ------------------------------------------------------------------------------------------------- special cases


@pytest.mark.heavy
def test_observed_log_normal_times_are_regression_on_their_logarithms(data):
    """Expectation propagation of normal noise is exact."""
    X, f, _ = data
    log_time = 1.0 + 2.0 * f + 0.1 * np.random.default_rng(3).normal(size=N)
    y = np.rec.fromarrays([np.ones(N, dtype=bool), np.exp(log_time)], names="event,time")
    likelihood = FailureTime("log-normal", LogNormal(0.3, 1.5))
    timed = GPMKLSurvival(bank(), likelihood=likelihood, inference=MORE).fit(X, y)
    plain = GPMKLRegressor(bank(), inference=MORE).fit(X, log_time)
    np.testing.assert_allclose(timed.log_time_mean_, log_time.mean(), rtol=1e-4)
    np.testing.assert_allclose(timed.log_time_scale_, log_time.std(), rtol=1e-4)
    np.testing.assert_allclose(timed.kernel_shares_, plain.kernel_shares_, atol=2e-3)
    jacobian = log_time.sum()  # of the time by its logarithm
    np.testing.assert_allclose(timed.log_evidence_, plain.log_evidence_ - jacobian, atol=0.02)
    np.testing.assert_allclose(timed.elpd_i_, plain.elpd_i_ - log_time, atol=0.02)
    mean, std = plain.predict(X[:5], return_std=True)
    np.testing.assert_allclose(np.log(timed.predict_quantile(X[:5])), mean, atol=0.02 * log_time.std())
    np.testing.assert_allclose(np.log(timed.predict_quantile(X[:5], 0.8413)), mean + std, atol=0.05)


@pytest.mark.heavy
def test_two_grades_are_two_classes(data):
    X, f, _ = data
    two = GPMKLOrdinalClassifier(bank(), inference=FEW).fit(X, f > 0.0)
    probit = GPMKLClassifier(bank(), inference=FEW).fit(X, f > 0.0)
    np.testing.assert_allclose(two.log_evidence_, probit.log_evidence_, atol=1e-4)
    np.testing.assert_allclose(two.kernel_shares_, probit.kernel_shares_, atol=1e-3)
    np.testing.assert_allclose(two.predict_proba(X), probit.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(two.elpd_i_, probit.elpd_i_, atol=1e-3)


# ----------------------------------------------------------------------------------------------------------- units


@pytest.mark.heavy
@pytest.mark.parametrize("likelihood", ["log-logistic", "piecewise-hazard"])
def test_times_in_other_units(survival, likelihood):
    X, y, in_years = survival
    days = np.rec.fromarrays([y.event, 365.0 * y.years], names="event,days")
    model = GPMKLSurvival(bank(), likelihood=likelihood, inference=FEW)
    in_years = in_years if likelihood == "log-logistic" else clone(model).fit(X, y)
    in_days = model.fit(X, days)
    np.testing.assert_allclose(in_days.kernel_shares_, in_years.kernel_shares_, atol=1e-4)
    np.testing.assert_allclose(
        in_days.predict_quantile(X[:3]), 365.0 * in_years.predict_quantile(X[:3]), rtol=1e-3
    )
    lost = y.event.sum() * np.log(365.0)
    np.testing.assert_allclose(in_days.log_evidence_, in_years.log_evidence_ - lost, atol=1e-2)
    np.testing.assert_allclose(
        in_days.predict_survival_function(X[:3], [365.0, 1000.0]),
        in_years.predict_survival_function(X[:3], [1.0, 1000.0 / 365.0]),
        atol=1e-4,
    )


@pytest.mark.heavy
def test_grades_may_be_text_or_categories(grades):
    X, y, model = grades
    names = np.array(["d", "c", "b", "a"])  # in no alphabetical order
    text = GPMKLOrdinalClassifier(bank(), levels=list(names), inference=FEW).fit(X, names[y])
    ordered = pd.Series(pd.Categorical(names[y], categories=names, ordered=True))
    frame = GPMKLOrdinalClassifier(bank(), inference=FEW).fit(X, ordered)
    for found in (text, frame):
        np.testing.assert_array_equal(found.predict(X), names[model.predict(X)])
        np.testing.assert_allclose(found.predict_proba(X), model.predict_proba(X), rtol=1e-9)
    report = diagnose(text, X, names[y], n_draws=100)
    own = model.predict_proba(X)[np.arange(N), y]
    np.testing.assert_allclose(report["calibration"]["log_loss"], -np.log(own).mean(), rtol=1e-9)


@pytest.mark.heavy
def test_a_known_part_of_the_target(data):
    X, f, _ = data
    known = 3.0 * np.random.default_rng(8).normal(size=N)
    names = ["a", "b", "c", "d", "known"]
    frame = pd.DataFrame(np.column_stack([X, known]), columns=names)
    plain = GPMKLRegressor(bank(), inference=FEW).fit(X, f)
    with_offset = GPMKLRegressor(bank(), design=Design(offset_column="known"), inference=FEW)
    with_offset.fit(frame, f + known)
    np.testing.assert_allclose(with_offset.log_evidence_, plain.log_evidence_, rtol=1e-6)
    mean, std = with_offset.predict(frame, return_std=True)
    np.testing.assert_allclose(mean, plain.predict(X) + known, atol=1e-4)
    np.testing.assert_allclose(with_offset.predict(frame), mean, atol=1e-9)
    np.testing.assert_allclose(std, plain.predict(X, return_std=True)[1], rtol=1e-4)
    observed = to_datatree(with_offset, 50, random_state=0)
    np.testing.assert_allclose(observed["observed_data/y"], f + known)
    errors = observed["posterior_predictive/y"].mean(("chain", "draw")) - (f + known)
    assert float(np.abs(errors).max()) < 1.0


@pytest.mark.heavy
def test_exposures_multiply_counts(counts, data):
    X, y, plain = counts
    exposed = GPMKLRegressor(bank(), likelihood="poisson", design=Design(offset_column=4), inference=FEW)
    exposed.fit(np.column_stack([X, np.full(N, np.log(10.0))]), y)
    np.testing.assert_allclose(exposed.y_mean_, plain.y_mean_ / 10.0)
    np.testing.assert_allclose(exposed.log_evidence_, plain.log_evidence_, rtol=1e-6)
    per_unit = exposed.predict(np.column_stack([X, np.zeros(N)]))
    np.testing.assert_allclose(per_unit, plain.predict(X) / 10.0, rtol=1e-4)


def test_kernels_do_not_see_offsets(data):
    X, f, _ = data
    model = GPMKLRegressor(KernelBank(["linear"], views="each"), design=Design(offset_column=-1))
    model._prepare(X, f)
    assert [list(view.columns) for view in model.kernel_bank_.views_] == [[0], [1], [2]]
    with pytest.raises(ValueError, match="must leave columns"):
        model._prepare(X[:, [0]], f)
    with pytest.raises(ValueError, match="`design` must be None with precomputed"):
        GPMKLRegressor("precomputed", design=Design(offset_column=0)).fit(X @ X.T, f)


@pytest.mark.heavy
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_constant_offsets_of_counts_change_no_mean(data, offset):
    X, f, _ = data
    y = np.random.default_rng(0).poisson(np.exp(1.0 + 0.5 * f))
    design = Design(offset_column=-1)
    model = GPMKLRegressor(likelihood="poisson", design=design, inference=FEW).fit(
        np.c_[X, 0.0 * f + offset], y
    )
    mean, std = model.predict(np.c_[X, 0.0 * f + offset], return_std=True)
    np.testing.assert_allclose(mean.mean(), y.mean(), rtol=0.05)
    assert (std > np.sqrt(mean)).all()


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_counts_without_digits_left_are_refused(data, likelihood):
    with pytest.raises(ValueError, match=r"at most 1e\+09 .* got 1e\+13"):
        GPMKLRegressor(likelihood=likelihood).fit(data[0], np.full(len(data[0]), 1e13))


def test_designs_that_are_none(data):
    X, f, _ = data
    for design, message in (
        (0, "`design` must be None or a Design"),
        (Design(offset_column=9), "`offset_column`"),
    ):
        with pytest.raises(ValueError, match=message):
            GPMKLRegressor(bank(), design=design).fit(X, f)


# ------------------------------------------------------------------------------------------------------ predictions


@pytest.mark.heavy
def test_survival_functions_fall_from_one_and_quantiles_invert_them(survival):
    X, y, model = survival
    times = np.linspace(0.0, 20.0, 60)
    found, lower, upper = model.predict_survival_function(X[:6], times, ci_prob=0.9)
    np.testing.assert_allclose(found[:, 0], 1.0)
    assert (np.diff(found, axis=1) <= 0.0).all()
    assert ((lower <= found + 0.02) & (found <= upper + 0.02)).all()
    for q in (0.2, 0.5, 0.8):
        at = model.predict_quantile(X[:6], q)
        own = [model.predict_survival_function(X[[i]], [at[i]])[0, 0] for i in range(6)]
        np.testing.assert_allclose(own, 1.0 - q, atol=1e-6)
    assert model.predict_survival_function(X[:2]).shape == (2, len(np.unique(y.years[y.event])))


def test_survival_is_that_of_replicated_times(survival):
    """Times drawn of posterior draws of scores and parameters."""
    X, _, model = survival
    draws, rng = model.posterior_, np.random.default_rng(0)
    times = np.concatenate(
        [model._replicate(draws.score, draws.parameters[draws.point], rng) for _ in range(40)]
    )
    for t in (1.0, 3.0):
        np.testing.assert_allclose(
            (times[:, 0] > t).mean(axis=0), model.predict_survival_function(X, [t])[:, 0], atol=0.06
        )


@pytest.mark.heavy
def test_risk_orders_as_the_concordance_says(survival):
    X, y, model = survival
    assert model.score(X, y) == concordance_index(y, model.predict(X)) > 0.8
    halves = [(np.arange(N // 2), np.arange(N // 2, N))]
    (held_out,) = cross_val_score(GPMKLSurvival(bank(), inference=MORE), X, y, cv=halves)
    assert held_out > 0.6


def test_predicted_counts_are_moments_of_drawn_ones(counts):
    X, _, model = counts
    mean, std = model.predict(X[:4], return_std=True)
    score, score_std = model.predict_latent(X[:4], return_std=True)
    np.testing.assert_allclose(mean, model.predict(X[:4]), rtol=1e-12)
    rates = model.y_mean_ * np.exp(score + score_std * np.random.default_rng(0).normal(size=(200_000, 4)))
    np.testing.assert_allclose(mean, rates.mean(axis=0), rtol=0.05)  # scores are a mixture of normal ones
    np.testing.assert_allclose(std**2, rates.mean(axis=0) + rates.var(axis=0), rtol=0.2)


def test_means_of_hardly_known_rates_are_said_to_be(counts):
    X, _, model = counts
    model.predict(X)  # none of those
    with pytest.warns(UserWarning, match="for 1 rows, more than 100 times the largest"):
        model.predict(np.vstack([X[:3], 30.0 * X[model.predict(X).argmax()]]))


def test_probabilities_of_grades_are_those_of_the_cut_points(grades):
    X, y, model = grades
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.cut_points_.mean(), 0.0, atol=1e-12)
    assert (np.diff(model.cut_points_) > 0.0).all()
    assert model.score(X, y) > 0.8
    score, std = model.predict_latent(X, return_std=True)
    rough = stats.norm.cdf((model.cut_points_ - score[:, None]) / np.sqrt(1.0 + std[:, None] ** 2))
    np.testing.assert_allclose(p.cumsum(axis=1)[:, :-1], rough, atol=0.15)


@pytest.mark.heavy
def test_outliers_move_student_noise_less(data):
    X, f, _ = data
    y = f + 0.1 * np.random.default_rng(6).normal(size=N)
    y[::10] += 5.0
    inside = np.arange(N) % 10 > 0
    normal, heavy = (
        GPMKLRegressor(bank(), likelihood=k, inference=FEW).fit(X, y) for k in ("gaussian", "student-t")
    )
    errors = [np.abs(model.predict(X) - f)[inside].mean() for model in (normal, heavy)]
    assert errors[1] < 0.5 * errors[0]
    assert heavy.log_evidence_ > normal.log_evidence_
    assert heavy.parameters_["df"] < 8.0


@pytest.mark.heavy
def test_degrees_of_freedom_are_those_of_an_exact_sampler():
    """NUTS on scores and parameters finds a mean of 9.9; few samples hardly tell them, the truth is 2.2."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5))
    y = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1] + 0.3 * rng.standard_t(2.2, size=50)
    views = KernelBank([Gaussian(width=0.3), Gaussian(width=1)], views="each")
    found = GPMKLRegressor(views, likelihood="student-t", random_state=0).fit(X, y).parameters_
    assert found["df"] == pytest.approx(9.9, abs=1.5)
    assert found["noise_std"] == pytest.approx(0.35, abs=0.02)


@pytest.mark.heavy
def test_the_size_of_gross_errors_does_not_matter(data):
    """Not even of 1e9, as a missing value may be coded, in one of two outputs."""
    X, f, _ = data
    y = f + 0.1 * np.random.default_rng(6).normal(size=N)
    right = np.arange(N) % 20 > 0
    model = GPMKLRegressor(bank(), likelihood="student-t", inference=FEW)
    off = []
    for size in (1e3, 1e9):
        off.append(model.fit(X, np.where(right, y, size)).predict(X) - f)
        assert model.y_scale_ == y[right].std()
    assert np.abs(off[0]).mean() < 0.2
    np.testing.assert_allclose(off[0], off[1], atol=0.05)
    both = clone(model).fit(X, np.column_stack([np.where(right, y, size), y]))
    np.testing.assert_array_equal(both.y_scale_, [y[right].std(), y.std()])


class OfNumbers(GPMKLSurvival):
    """For scikit-learn's checks, whose targets are numbers or labels: all are events."""

    def fit(self, X, y):
        _, code = np.unique(np.asarray(y), return_inverse=True)
        return super().fit(
            X, np.rec.fromarrays([np.ones(len(code), dtype=bool), 1.0 + code], names="event,time")
        )


CHECKS = (
    "check_dict_unchanged",
    "check_estimators_overwrite_params",
    "check_fit2d_predict1d",
    "check_methods_subset_invariance",
    "check_n_features_in_after_fitting",
)


@pytest.mark.heavy
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_contract_of_features_with_times(check):
    getattr(estimator_checks, check)("GPMKLSurvival", OfNumbers(inference=FEW))


# ------------------------------------------------------------------------------------------- what a posterior can do


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["survival", "counts", "grades"])
def test_tables_trees_reports_and_files(kind, request, tmp_path):
    X, _, model = request.getfixturevalue(kind)
    shares = view_table(model, shares=True).set_index("view")["share"]
    assert shares["signal"] > 0.75
    tree = to_datatree(model, random_state=0)
    with warnings.catch_warnings(
        action="ignore"
    ):  # of k-hats, which mean nothing of weights that hardly vary
        found = arviz_stats.loo(tree, pointwise=True)
    np.testing.assert_allclose(found.elpd_i, model.elpd_i_, atol=0.05)
    assert float(found.pareto_k.median()) < 0.5
    assert diagnose(model, n_draws=100)["signal"]["verdict"] == "good"
    found = relevance(model).set_index("without")["elpd_diff"]
    assert found["signal"] > 5.0 > found["noise"]
    save_model(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(X), model.predict(X))


def test_noise_in_units_of_the_score(counts):
    _, y, model = counts
    explained = diagnose(model, n_draws=100)["signal"]["explained"]["mean"]
    variance = model.posterior_.score.var(axis=-1).mean()
    np.testing.assert_allclose(explained, variance / (variance + np.log1p(1.0 / y.mean())), atol=0.02)


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("y", "likelihood", "message"),
    [
        (np.full(N, 0.5), "poisson", "whole numbers that are not negative"),
        (np.full(N, -1.0), "negative-binomial", "whole numbers that are not negative"),
        (np.ones(N), "beta-binomial", r"of shape \(n_samples, 2\)"),
        (np.column_stack([np.full(N, 3), np.full(N, 2)]), "beta-binomial", "got 3 of 2 for sample 0"),
        (np.ones(N), "probit", "GPMKLSurvival"),
        (np.ones(N), FailureTime(), "`likelihood` must be one of"),
    ],
)
def test_counts_that_are_none(data, y, likelihood, message):
    with pytest.raises(ValueError, match=message):
        GPMKLRegressor(bank(), likelihood=likelihood).fit(data[0], y)


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, np.array(["low", "high"])[np.arange(N) % 2], "`levels` must give the order"),
        ({"levels": [0, 1, 2]}, np.arange(N) % 2, r"got none of \[2\]"),
        ({"levels": [0, 1]}, np.arange(N) % 3, r"got \[2\] too"),
        ({"levels": [0, 0]}, np.arange(N) % 2, "two different grades"),
        ({}, np.zeros(N), "one class only"),
        ({"distance_prior": 1.0}, np.arange(N) % 2, "`distance_prior` must be"),
    ],
)
def test_grades_that_are_none(data, parameters, y, message):
    with pytest.raises(ValueError, match=message):
        GPMKLOrdinalClassifier(bank(), **parameters).fit(data[0], y)


@pytest.mark.parametrize(
    ("parameters", "change", "message"),
    [
        ({"likelihood": "exponential"}, {}, "`likelihood` must be one of"),
        ({"likelihood": FailureTime("normal")}, {}, "`likelihood` must be one of"),
        ({"likelihood": PiecewiseHazard((2.0, 1.0))}, {}, "positive and ascend"),
        ({}, {"event": np.zeros(N, dtype=bool)}, "at least one event"),
        ({}, {"years": np.zeros(N)}, "after time zero"),
        ({}, {"years": -np.ones(N)}, "times >= 0"),
    ],
)
def test_times_that_are_none(survival, parameters, change, message):
    X, y, _ = survival
    columns = {"event": y.event, "years": y.years} | change
    with pytest.raises(ValueError, match=message):
        GPMKLSurvival(bank(), **parameters).fit(X, np.rec.fromarrays([*columns.values()], names=[*columns]))


def test_questions_that_have_no_answer(survival, counts):
    X, y, model = survival
    for times, message in (([-1.0], "`times` must be .* got .*Write"), (["a"], "`times` must hold numbers")):
        with pytest.raises(ValueError, match=message):
            model.predict_survival_function(X, times)
    with pytest.raises(ValueError, match="`q` must be between 0 and 1"):
        model.predict_quantile(X, 1.0)
    with pytest.raises(ValueError, match="`ci_prob` must be between"):
        model.predict_survival_function(X, [1.0], ci_prob=1.0)
    with pytest.raises(ValueError, match="a time for each"):
        model.score(X[:-1], y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        GPMKLSurvival(bank()).fit(X[:-1], y)
    with pytest.raises(ValueError, match="`X_test` must be left out"):
        diagnose(counts[2], X, counts[1], n_draws=100)


def test_exposures_that_are_no_logarithms(counts):
    X, y, _ = counts
    days = np.column_stack([X, np.linspace(1.0, 90.0, N)])
    with pytest.raises(ValueError, match=r"logarithms of exposures .*; got 1 to 90, .* 1e39"):
        GPMKLRegressor(bank(), likelihood="poisson", design=Design(offset_column=X.shape[1])).fit(days, y)


@pytest.mark.heavy
def test_mean_rates_are_the_level_of_scores(data):
    """With nothing to learn, the probability is that of all trials."""
    X, _, rng = data
    won = rng.binomial(20, expit(-1.0), size=N)
    model = GPMKLRegressor(bank(), likelihood="beta-binomial", inference=FEW).fit(
        X, np.column_stack([won, np.full(N, 20)])
    )
    np.testing.assert_allclose(model.y_mean_, won.sum() / (20 * N))
    np.testing.assert_allclose(model.predict(X).mean(), model.y_mean_, atol=0.02)
