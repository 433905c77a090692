"""Reliability, mixing, importance ratios, predictive checks and calibration: planted faults are found."""

from __future__ import annotations

import copy
import re
import types

import numpy as np
import pandas as pd
import pytest
from helpers import BINARY_PRIORS, binary_problem, random_kernels, regression_problem
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_friedman1
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLRegressor, GPMKLRegressor, KernelBank
from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl.bemkl.moments import Dirichlet, Gamma, SpikeSlab
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import diagnose, reliability, summary
from bayesmkl.posterior.checks import (
    Predictions,
    calibration_section,
    check_section,
    held_out_predictions,
    prior_draws,
    why_no_prior_draws,
)
from bayesmkl.posterior.diagnose import importance_section, sampling_section, tail_of
from bayesmkl.posterior.evaluated import Evaluated, convergence, evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo import leave_one_out


def test_bins_by_hand():
    y = [0, 0, 1, 1, 0, 1]
    p = [0.0, 0.2, 0.4, 0.5, 0.9, 1.0]  # edges 0, 1/2, 1: the boundary belongs to the upper bin
    result = reliability(y, p, n_bins=2)
    np.testing.assert_allclose(result.probability, [0.2, 0.8])
    np.testing.assert_allclose(result.frequency, [1 / 3, 2 / 3])
    np.testing.assert_array_equal(result.counts, [3, 3])
    assert result.calibration_error == pytest.approx(2 / 15)


def test_wilson_interval_by_its_formula():
    k, n, z = 7, 20, stats.norm.ppf(0.97)
    center = (k / n + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(k / n * (1 - k / n) / n + z**2 / (4 * n**2))
    result = reliability(np.arange(n) < k, np.full(n, 0.5), n_bins=4)
    np.testing.assert_allclose([result.lower[0], result.upper[0]], [center - half, center + half])


def test_other_library_gives_the_same_curve(rng):
    p = rng.uniform(size=300)
    y = rng.uniform(size=300) < p**2
    frequency, probability = calibration_curve(y, p, n_bins=7)
    result = reliability(y, p, n_bins=7)
    np.testing.assert_allclose(result.frequency, frequency)
    np.testing.assert_allclose(result.probability, probability)


def test_empty_bins_are_left_out_but_counted():
    result = reliability([1, 0], [0.95, 0.05], n_bins=10)
    assert len(result.frequency) == 2
    np.testing.assert_array_equal(result.counts, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1])


@pytest.mark.heavy
def test_intervals_cover_as_often_as_they_say(rng):
    inside = []
    for _ in range(400):
        p = rng.uniform(size=100)
        result = reliability(rng.uniform(size=100) < p, p, n_bins=5)
        inside.append((result.lower <= result.probability) & (result.probability <= result.upper))
    assert 0.91 < np.mean(np.concatenate(inside)) < 0.97


def test_codings_of_the_positive_class_agree():
    p = np.array([0.2, 0.7, 0.6])
    expected = reliability([False, True, False], p)
    for y in ([0, 1, 0], [-1, 1, -1], np.array([0.0, 1.0, 0.0])):
        np.testing.assert_array_equal(reliability(y, p).frequency, expected.frequency)
    table = np.column_stack([1 - p, p])
    np.testing.assert_array_equal(reliability(["b", "m", "b"], table).frequency, expected.frequency)
    np.testing.assert_array_equal(
        reliability(["b", "m", "b"], table[:, ::-1], labels=["m", "b"]).frequency,
        1 - expected.frequency[::-1],
    )


def test_top_label_of_three_classes():
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.2, 0.6]])
    result = reliability(["a", "c", "c"], table, n_bins=2, labels=["a", "b", "c"])
    np.testing.assert_allclose(result.probability, [2.0 / 3.0])
    np.testing.assert_allclose(result.frequency, [2.0 / 3.0])


SECTIONS = ["signal", "loo", "checks", "calibration"]
VERDICTS = {"good", "caution", "bad", "skipped"}


# --------------------------------------------------------------------------------------------------------- sampling


def planted_model(rng, kind, n_chains=4, n_draws=400):
    """Shares, scores and weights that are independent draws, or chains that stick or stay apart."""
    noise = rng.standard_normal((n_chains, n_draws, 5))
    if kind == "stuck":
        noise = np.cumsum(noise, axis=1) / np.sqrt(n_draws)
    if kind == "apart":
        noise[0] += 2.0
    flat = noise.reshape(-1, 5)
    draws = types.SimpleNamespace(n_chains=n_chains, n_draws=n_draws)
    return types.SimpleNamespace(
        draws=draws,
        flat=types.SimpleNamespace(intercept=flat[:, 0], kernel_weights=flat[:, 1:]),
        shares=np.abs(flat[:, :2]),
        outputs=[types.SimpleNamespace(standard_means=flat[:, :3])],
        is_regression=True,
        in_chains=lambda values: values.reshape(n_chains, n_draws, *values.shape[1:]),
    )


def test_planted_chains_are_judged(rng):
    for kind, verdict in (("independent", "good"), ("stuck", "bad"), ("apart", "bad")):
        section = sampling_section(["model"], [planted_model(rng, kind)], [{}])
        assert section.verdict == verdict, kind
    single = sampling_section(["model"], [planted_model(rng, "independent", 1, 1000)], [{}])
    assert np.isnan(single.values["kernel shares"]["rhat"])
    assert single.verdict == "caution"
    assert "One chain alone has no R-hat" in single.advice


def test_divergences_decide_too(rng):
    diverging = np.zeros((4, 400), dtype=bool)
    diverging[:, :5] = True
    stats_of = {"diverging": diverging, "energy": rng.normal(size=(4, 400)), "n_steps": np.full((4, 400), 7)}
    section = sampling_section(["model"], [planted_model(rng, "independent")], [stats_of])
    assert (section.values["n_divergent"], section.values["divergent"]) == (20, 0.0125)
    assert section.verdict == "caution"
    stats_of["diverging"][:, :100] = True
    assert sampling_section(["model"], [planted_model(rng, "independent")], [stats_of]).verdict == "bad"


def test_other_library_convergence(rng):
    draws = rng.standard_normal((4, 500, 6))
    for i in range(1, 500):
        draws[:, i] += 0.6 * draws[:, i - 1]
    found = convergence(draws)
    assert found["rhat"] == pytest.approx(np.max(split_gelman_rubin(draws)), abs=0.01)
    assert found["ess_bulk"] == pytest.approx(np.min(effective_sample_size(draws)), rel=0.15)
    assert found["ess_tail"] < 2000
    constant = convergence(np.concatenate([draws, np.ones((4, 500, 1))], axis=2))
    assert constant["n"] == 6
    assert convergence(np.ones((4, 500, 1)))["n"] == 0


# ------------------------------------------------------------------------------------------------ importance ratios


def normal_log_ratios(rng, ratio, n_draws=4000, size=3):
    """Draws from q = N(0, 1) against p = N(0, ratio²), in `size` dimensions."""
    draws = rng.standard_normal((n_draws, size))
    return (stats.norm.logpdf(draws, scale=ratio) - stats.norm.logpdf(draws)).sum(axis=1)


def test_exact_posterior_has_small_k_and_a_narrow_one_a_large_k(rng):
    assert tail_of(normal_log_ratios(rng, 1.0))["pareto_k"] == 0.0
    assert tail_of(normal_log_ratios(rng, 1.0))["effective"] == pytest.approx(4000.0)
    assert tail_of(normal_log_ratios(rng, 1.2))["pareto_k"] < 0.5
    for ratio in (3.0, 5.0):
        assert tail_of(normal_log_ratios(rng, ratio, size=1))["pareto_k"] == pytest.approx(
            1 - ratio**-2, abs=0.2
        )
        assert tail_of(normal_log_ratios(rng, ratio))["pareto_k"] > 0.7


def test_other_library_smoothed_weights(rng):
    from arviz_stats.base import array_stats

    ratios = rng.normal(scale=2.0, size=(3, 500))
    weights, pareto_k = smooth_weights(ratios)
    for row, own_weights, own_k in zip(ratios, weights, pareto_k, strict=True):
        expected, expected_k = array_stats.psislw(-row)
        np.testing.assert_allclose(own_weights, expected)
        assert own_k == pytest.approx(float(expected_k))
    constant, k = smooth_weights(np.full((2, 300), -7.0))  # ArviZ raises here
    np.testing.assert_allclose(np.exp(constant), 1.0 / 300)
    np.testing.assert_array_equal(k, 0.0)
    assert good_k(100) == 0.5
    assert good_k(10_000) == 0.7


def test_narrower_variational_posterior_has_larger_k(binary_model):
    state = binary_model.posterior_
    narrow = state.readout._replace(cov=state.readout.cov / 25.0, log_det=0.0)
    dual = state.dual._replace(cov=state.dual.cov / 25.0, log_det=0.0)
    shrunk = fitted_bemkl(binary_model)._replace(states=(state._replace(readout=narrow, dual=dual),))
    tails = []
    for fitted in (fitted_bemkl(binary_model), shrunk):
        _, ratios = evaluate_model(fitted, 120, np.random.default_rng(0))
        tails.append(importance_section(["model"], ratios, "").values["joint"])
    assert tails[1]["pareto_k"] > tails[0]["pareto_k"]
    assert tails[1]["sd"] > tails[0]["sd"]


def test_a_ratio_of_zero_is_a_weight_of_zero_and_changes_nothing_else(rng):
    log_ratios = rng.normal(size=1000)
    log_weights, pareto_k = smooth_weights(log_ratios)
    others, same_k = smooth_weights(np.append(log_ratios, -np.inf))
    np.testing.assert_allclose(others[:-1], log_weights, rtol=1e-12)
    assert others[-1] == -np.inf
    assert same_k == pytest.approx(float(pareto_k))


# ------------------------------------------------------------------------------------------------ predictive checks


def test_other_library_quantiles_of_prior_draws(rng):
    priors = BINARY_PRIORS["general"]
    problem = binary_problem(random_kernels(rng, 4, 3), [1.0, -1.0, 1.0, 1.0], priors)
    draws = prior_draws(problem, 20_000, rng)
    levels = [0.1, 0.25, 0.5, 0.75, 0.9]
    pairs = (
        (draws.kernel_weights, priors.kernel),
        (draws.dual, priors.sample),
        (draws.intercept, priors.intercept),
    )
    for values, (c, r) in pairs:
        law = stats.t(2.0 * c, scale=np.sqrt(r / c))
        below = [(values < q).mean() for q in law.ppf(levels)]
        np.testing.assert_allclose(below, levels, atol=0.015)
    regression = regression_problem(random_kernels(rng, 4, 2), rng.normal(size=4))
    noise = prior_draws(regression, 20_000, rng).noise_precision
    assert noise.mean() == pytest.approx(1.0, abs=0.05)


def test_priors_of_the_weights_themselves_are_drawn(rng):
    problem = binary_problem(random_kernels(rng, 4, 3), [1.0, -1.0, 1.0, 1.0])
    simplex = prior_draws(problem._replace(priors=problem.priors._replace(kernel=Dirichlet(0.5))), 2000, rng)
    np.testing.assert_allclose(simplex.kernel_weights.sum(axis=2), 1.0)
    spiked = prior_draws(
        problem._replace(priors=problem.priors._replace(kernel=SpikeSlab(0.2, 3.0))), 4000, rng
    )
    assert (spiked.kernel_weights != 0.0).mean() == pytest.approx(0.2, abs=0.02)
    assert spiked.kernel_weights[spiked.kernel_inclusion > 0].std() == pytest.approx(3.0, rel=0.05)


def test_sparse_priors_are_not_drawn():
    assert why_no_prior_draws(BINARY_PRIORS["non-sparse"]) is None
    reason = why_no_prior_draws(BINARY_PRIORS["sparse"])
    assert reason.startswith("the prior of the kernel precisions, Gamma(1e-10, 1e-10)")
    assert why_no_prior_draws(BINARY_PRIORS["non-sparse"]._replace(intercept=Gamma(0.4, 1.0))) is not None


def test_target_that_the_model_cannot_make_is_found(gibbs_regression_model):
    fitted = fitted_bemkl(gibbs_regression_model)
    (model,), _ = evaluate_model(fitted, None, np.random.default_rng(0))
    honest = check_section(fitted, [model], np.random.default_rng(0), 0.94)
    outlier = model.problem._replace(y=np.r_[30.0, model.problem.y[1:]])
    planted = Evaluated(outlier, model.draws)
    found = check_section(fitted, [planted], np.random.default_rng(0), 0.94)
    assert honest.verdict != "bad"
    assert found.verdict == "bad"
    largest = found.values["posterior"]["largest"]
    assert largest["tail_probability"] == 0.0
    assert largest["observed"] == pytest.approx(
        gibbs_regression_model.y_mean_ + 30.0 * gibbs_regression_model.y_scale_
    )
    assert "largest, posterior" in found.advice


# ------------------------------------------------------------------------------------------------------ calibration


@pytest.mark.heavy
def test_other_library_scores_of_held_out_labels(binary_model, features):
    new = features.sample(frac=1.0, random_state=0) + 0.3
    y = np.where(new["größe"] + 0.5 * new["noise 1"] > 0, "big", "small")
    found = diagnose(binary_model, new, y, n_draws=100, random_state=0)["calibration"]
    p = binary_model.predict_proba(new)
    assert found["log_loss"] == pytest.approx(log_loss(y, p, labels=binary_model.classes_))
    assert found["brier"] == pytest.approx(brier_score_loss(y == "small", p[:, 1]))
    assert found["accuracy"] == pytest.approx((binary_model.predict(new) == y).mean())
    assert found["ece"] == reliability(y, p, 10, binary_model.classes_).calibration_error
    assert found["source"] == "40 held-out samples"


def test_planted_probabilities_are_judged(rng):
    p = rng.uniform(0.02, 0.98, size=2000)
    y = np.where(rng.random(2000) < p, 1, 0)
    for shown, verdict in ((p, "good"), (0.5 + 0.5 * np.sign(p - 0.5) * 0.96, "bad"), (p**1.3, "caution")):
        table = np.column_stack([1.0 - shown, shown])
        own = np.log(table[np.arange(2000), y])
        section = calibration_section(
            Predictions("planted", y, own, table, None, True), np.array([0, 1]), 0.94
        )
        assert section.verdict == verdict
    unsure = calibration_section(Predictions("planted", y, own, table, None, False), np.array([0, 1]), 0.94)
    assert unsure.verdict == "caution"
    assert "Pass `X_test` and `y_test`" in unsure.advice


def test_planted_intervals_are_judged(rng):
    for spread, verdict, word in ((1.0, "good", "promise"), (2.0, "bad", "narrow"), (0.5, "caution", "wide")):
        standard = spread * rng.standard_normal(1000)
        found = Predictions(
            "planted", standard, stats.norm.logpdf(standard), None, stats.norm.cdf(standard), True
        )
        section = calibration_section(found, None, 0.94)
        assert section.verdict == verdict
        assert word in section.advice
        covered = section.values["coverage"][0.8]["covered"]
        assert covered == pytest.approx(2.0 * stats.norm.cdf(1.2816 / spread) - 1.0, abs=0.05)


def test_other_library_mixtures_of_held_out_targets(gibbs_regression_model, features):
    model = gibbs_regression_model
    y = 3.0 * features["größe"].to_numpy()[:7] + 10.0
    found = held_out_predictions(fitted_bemkl(model), model, features[:7], y)
    flat, rows = model.posterior_.flat(), model.kernel_bank_.row_stack(features[:7])
    for i in range(7):
        g = rows[:, i] @ flat.dual.T  # (n_kernels, n_draws)
        mean = model.y_mean_ + model.y_scale_ * ((flat.kernel_weights.T * g).sum(axis=0) + flat.intercept)
        square = (flat.kernel_weights**2).sum(axis=1)
        std = model.y_scale_ * np.sqrt(1.0 / flat.noise_precision + square / flat.intermediate_precision)
        law = stats.norm(mean, std)
        assert found.pit[i] == pytest.approx(law.cdf(y[i]).mean())
        assert found.log_score[i] == pytest.approx(np.log(law.pdf(y[i]).mean()))


def test_held_out_targets_of_a_pipeline(features):
    y = 3.0 * features["größe"].to_numpy() + 10.0
    model = make_pipeline(StandardScaler(), BEMKLRegressor(KernelBank(["linear"]))).fit(features[:30], y[:30])
    found = held_out_predictions(fitted_bemkl(model), model, features[30:], y[30:])
    mean, std = model.predict(features[30:], return_std=True)
    np.testing.assert_allclose(found.log_score, stats.norm.logpdf(y[30:], mean, std))
    assert found.trusted  # they were held out


# -------------------------------------------------------------------------------------------------------- the whole


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("binary_model", "importance"),
        pytest.param("several_model", "importance", marks=pytest.mark.heavy),
        ("regression_model", "importance"),
        ("gibbs_model", "sampling"),
        ("gibbs_regression_model", "sampling"),
        ("nuts_model", "sampling"),
    ],
)
def test_every_inference_is_diagnosed(name, first, request):
    found = diagnose(request.getfixturevalue(name), n_draws=120, random_state=0)
    assert list(found) == [first, *SECTIONS]
    assert set(found.verdicts.values()) <= VERDICTS
    report = str(found)
    assert max(map(len, report.splitlines())) <= 100
    for section in found.values():
        assert section["advice"]
    assert report.count("-> ") == 5
    if name in ("binary_model", "gibbs_model"):  # others draw as one of them does
        again = diagnose(request.getfixturevalue(name), n_draws=120, random_state=0)
        assert str(again) == report


@pytest.mark.heavy
def test_accuracy_with_and_without_correction(binary_model):
    """Both lines are of the same draws; only one of them is weighted by p / q."""
    found = diagnose(binary_model, n_draws=120, random_state=0)["loo"]
    fitted = fitted_bemkl(binary_model)
    models, log_ratios = evaluate_model(fitted, 120, np.random.default_rng(0))
    assert found["elpd"] == leave_one_out(fitted, models, log_ratios).elpd
    assert found["as_it_is"]["elpd"] == leave_one_out(fitted, models).elpd
    assert found["as_it_is"]["elpd"] != found["elpd"]


@pytest.mark.heavy
def test_numbers_of_several_classes_are_under_their_names(gibbs_several_model, several_model):
    several = copy.deepcopy(gibbs_several_model)
    several.posterior_ = tuple(
        draws.map(lambda values: np.concatenate([values, values[:, ::-1]], axis=1))
        for draws in several.posterior_
    )
    found = diagnose(several, random_state=0)
    for key in ("sampling", "checks"):
        assert set(found[key]) == {"big", "middle", "small", "verdict", "advice"}
    assert found["sampling"]["middle"]["training scores m/s"]["n"] == 40
    assert found["calibration"]["reliability"]["counts"].sum() == 40


@pytest.mark.heavy
def test_thinned_chains_keep_their_divergences(nuts_model):
    found = diagnose(nuts_model, n_draws=100, random_state=0)
    assert found["sampling"]["n_divergent"] == 2
    assert "2 chain(s) of 100 draws (thinned from 150)" in str(found)


@pytest.mark.parametrize(("power", "verdict"), [(0.6, "caution"), (0.0, "good")])
def test_spread_that_follows_a_view_is_found(power, verdict):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 6))
    noise = np.exp(power * X[:, 3]) * rng.normal(size=120)
    y = np.sin(2 * X[:, 0]) + 0.5 * noise
    bank = KernelBank(views={"signal": [0, 1, 2], "spread": [3, 4, 5]})
    model = GPMKLRegressor(bank, inference=Marginal(n_points=200)).fit(X, y)
    found = diagnose(model, n_draws=100, random_state=0)["noise"]
    assert found["verdict"] == verdict
    assert (found["p_value"] < 0.01).tolist() == [False, verdict == "caution", False]


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_call_that_would_predict_better_is_run():
    """Columns that act together, each in a view of its own."""
    X, y = make_friedman1(400, n_features=6, noise=1.0, random_state=0)
    df = pd.DataFrame(X, columns=list("abcdef")).assign(ward="not used")
    model = GPMKLRegressor(views={name: name for name in "abcdef"}, inference=Marginal(n_points=200))
    model.fit(df[:100], y[:100])
    assert "set_params" not in str(summary(model))
    found = diagnose(model, n_draws=100, random_state=0)["widths"]
    assert found["verdict"] == "caution"
    assert found["elpd_diff"] > 2 * found["se"]
    (call,) = re.findall(r"`(model\.set_params.*)`, and fit again", found["advice"])
    assert call.endswith("views={'all': ['a', 'b', 'c', 'd', 'e', 'f']})")
    assert call in summary(model).sentences[-1]
    before = model.score(df[100:], y[100:])
    kinds = {"KernelBank": KernelBank, "Gaussian": Gaussian, "Linear": Linear}
    eval(call, {"model": model, **kinds}).fit(df[:100], y[:100])
    assert model.score(df[100:], y[100:]) > before + 0.02
    assert "set_params" not in str(summary(model))
    assert "widths" not in diagnose(model, n_draws=100, random_state=0)


def test_no_call_is_named_for_sums_of_functions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    y = np.sin(1.5 * X[:, 0]) + 0.8 * X[:, 1] + 0.5 * rng.normal(size=100)
    model = GPMKLRegressor(KernelBank(views="each"), inference=Marginal(n_points=200)).fit(X, y)
    found = diagnose(model, n_draws=100, random_state=0)["widths"]
    assert found["verdict"] == "good"
    assert "set_params" not in str(summary(model))
