"""BEMKL of censored times: regression where all were observed, bounds that rise, times that are not too short."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import SAME_ITERATION, assert_same_factors, frozen, log_likelihood, random_kernels
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesmkl.posterior
from bayesmkl import BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.bemkl import VB, BEMKLSurvival, Gamma, Storage
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.evaluation import concordance_index
from bayesmkl.gp import GPMKLSurvival, Marginal
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Intervals, Numbers, times
from bayesmkl.posterior import compare_loo, diagnose, refine_posterior, relevance, to_datatree, view_table

N, P = 60, 3
VIEWS = {"signal": 0, "noise": 1}
PRIORS = Priors(Gamma(1.3, 0.7), Gamma(0.6, 2.1), Gamma(2.2, 0.4), Gamma(3.1, 1.7), Gamma(0.8, 0.3))


def bank():
    return KernelBank(["rbf"], views=VIEWS)


def problem_of(rng, kind="all"):
    """Return a problem, and its targets themselves; a third each is right, left and interval censored, or none."""
    kernels = random_kernels(rng, N, P)
    y = kernels[0] @ rng.normal(size=N)
    y = (y - y.mean()) / y.std() + 0.3 * rng.normal(size=N)
    lower, upper = y.copy(), y.copy()
    if kind == "all":
        upper[::4], lower[::4] = np.inf, y[::4] - rng.exponential(0.5, size=N // 4)
        lower[1::4], upper[1::4] = -np.inf, y[1::4] + rng.exponential(0.5, size=N // 4)
        lower[2::4], upper[2::4] = np.floor(2 * y[2::4]) / 2, np.floor(2 * y[2::4]) / 2 + 0.5
    stack = DenseStack(frozen(kernels))
    return Problem(stack, frozen(stack.gram()), frozen(lower), PRIORS, Intervals(frozen(upper))), y


@pytest.fixture(scope="module")
def data():
    """Return samples, log times, and what is seen of the times until the end of each."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(140, 2))
    log_time = 1.0 + np.sin(1.5 * X[:, 0]) + 0.3 * rng.normal(size=140)
    end = rng.uniform(1.0, 8.0, size=140)
    time = np.exp(log_time)
    return X, log_time, np.rec.fromarrays([time < end, np.minimum(time, end)], names="event,years")


@pytest.fixture(scope="module")
def model(data):
    X, _, y = data
    return BEMKLSurvival(bank()).fit(X[:80], y[:80])


# ------------------------------------------------------------------------------------------------------- degenerate


def test_degenerate_observed_targets_are_regression_sweep_by_sweep(rng):
    problem, y = problem_of(rng, "none")
    plain = Problem(problem.stack, problem.gram, y, Priors(*problem.priors), Numbers())
    noise = rng.normal(size=N)
    here, there = bemkl.init(problem, noise), bemkl.init(plain, noise)
    for _ in range(5):
        state, bound = bemkl.sweep(problem, here)
        expected, other = bemkl.sweep(plain, there)
        np.testing.assert_allclose(bound, other, rtol=1e-12)
        assert_same_factors(state._replace(latent=None), expected, SAME_ITERATION)
        here, there = bemkl.carry(problem, state), bemkl.carry(plain, expected)


@pytest.mark.heavy
def test_degenerate_estimator_of_observed_times(data):
    X, log_time, _ = data
    y = np.rec.fromarrays([np.ones(140, bool), np.exp(log_time)], names="event,years")
    settings = {"inference": VB(accelerate=False), "tol": 1e-4, "noise_prior": Gamma(2.0, 0.5)}
    timed = BEMKLSurvival(bank(), **settings).fit(X, y)
    plain = BEMKLRegressor(bank(), **settings).fit(X, log_time)
    np.testing.assert_allclose(timed.elbo_, plain.elbo_, rtol=1e-9)
    np.testing.assert_allclose(timed.kernel_shares_, plain.kernel_shares_, atol=1e-6)
    mean, std = plain.predict(X[:9], return_std=True)
    np.testing.assert_allclose(np.log(timed.predict_quantile(X[:9])), mean, rtol=1e-6)
    np.testing.assert_allclose(
        np.log(timed.predict_quantile(X[:9], 0.9)), mean + std * stats.norm.ppf(0.9), rtol=1e-6
    )
    later = timed.predict_survival_function(X[:9], [2.0])[:, 0]
    np.testing.assert_allclose(later, stats.norm.sf((np.log(2.0) - mean) / std), rtol=1e-6)


# ------------------------------------------------------------------------------------------------------------ bound


@pytest.mark.parametrize("accelerate", [False, True])
def test_monotone_elbo(rng, accelerate):
    problem, _ = problem_of(rng)
    for noise in (np.zeros(N), rng.normal(size=N)):
        found = maximize_elbo(bemkl, problem, bemkl.init(problem, noise), LoopOptions(60, 0.0, accelerate))
        assert (np.diff(found.elbo_history) >= -1e-10).all()
        np.testing.assert_allclose(bemkl.elbo(problem, found.state), found.elbo_history[-1], rtol=1e-12)
        mean = found.state.latent.mean
        assert ((mean >= problem.y) & (mean <= problem.outcome.upper)).all()


def test_other_library_targets_that_were_not_observed(rng):
    problem, _ = problem_of(rng)
    loc = rng.normal(size=N)
    found = times.update_targets(problem.y, problem.outcome.upper, loc, 6.25)
    lower, upper = np.maximum(problem.y, -12.0), np.minimum(problem.outcome.upper, 12.0)
    unknown = problem.y < problem.outcome.upper
    law = stats.truncnorm(
        *((end - loc)[unknown] / 0.4 for end in (lower, upper)), loc=loc[unknown], scale=0.4
    )
    np.testing.assert_allclose(found.mean[unknown], law.mean(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.variance[unknown], law.var(), rtol=1e-4)
    np.testing.assert_allclose(found.entropy[unknown], law.entropy(), atol=1e-6)
    np.testing.assert_array_equal(found.mean[~unknown], problem.y[~unknown])
    assert not (found.variance + np.abs(found.entropy))[~unknown].any()


def test_finite_difference_of_the_bound_at_its_maximum(rng):
    """The bound falls whichever factor is moved from the fixed point, that of the unobserved targets too."""
    problem, _ = problem_of(rng)
    best = maximize_elbo(bemkl, problem, bemkl.init(problem, np.zeros(N)), LoopOptions(3000, 1e-12)).state
    h, top = 1e-3, bemkl.elbo(problem, best)

    def moved(**fields):
        return bemkl.elbo(problem, best._replace(**fields))

    noise, readout = best.noise_precision, best.readout
    pairs = [
        [moved(noise_precision=noise._replace(rate=noise.rate * (1 + sign * h))) for sign in (1, -1)],
        [moved(readout=readout._replace(mean=readout.mean + sign * h)) for sign in (1, -1)],
    ]
    precision, loc = noise.mean, best.readout.mean[1:] @ best.intermediate.mean + best.readout.mean[0]
    pairs.append(
        [
            moved(latent=times.update_targets(problem.y, problem.outcome.upper, loc + sign * h, precision))
            for sign in (1, -1)
        ]
    )
    for ahead, behind in pairs:
        assert abs(ahead - behind) / (2 * h) < 0.05
        assert max(ahead, behind) < top + 1e-9


@pytest.mark.heavy
def test_updates_on_jax_are_those_on_numpy(data):
    X, _, y = (values[:45] for values in data)  # 45 are padded to 48
    plain = BEMKLSurvival(bank(), max_iter=200, tol=1e-4).fit(X, y)
    moved = clone(plain).set_params(storage=Storage(backend="jax")).fit(X, y)
    np.testing.assert_allclose(moved.elbo_, plain.elbo_, rtol=1e-6)
    np.testing.assert_allclose(moved.predict(X), plain.predict(X), atol=1e-4)


# -------------------------------------------------------------------------------------------------------- estimator


def test_recovery_where_censored_times_count(model, data):
    """Without them, or with their ends taken for events, times are predicted too short."""
    X, log_time, y = data
    assert 0.25 < 1.0 - y["event"].mean() < 0.75
    assert model.converged_
    assert model.kernel_shares_[0] > 0.9
    rest = np.log(model.predict_quantile(X[80:])) - log_time[80:]
    seen = y["event"][:80]
    without = clone(model).fit(X[:80][seen], y[:80][seen])
    short = np.log(without.predict_quantile(X[80:])) - log_time[80:]
    assert abs(rest.mean()) < 0.15
    assert short.mean() < rest.mean() - 0.1
    assert model.score(X[80:], y[80:]) > 0.75
    expected = concordance_index(y[80:], model.predict(X[80:]))
    np.testing.assert_allclose(model.score(X[80:], y[80:]), expected)


@pytest.mark.heavy
def test_beside_a_gaussian_process(model, data):
    X, _, y = data
    few = Marginal(n_points=100, n_draws=100, approximation="laplace")
    process = GPMKLSurvival(bank(), likelihood="log-normal", inference=few).fit(X[:80], y[:80])
    np.testing.assert_allclose(model.log_time_mean_, process.log_time_mean_, rtol=1e-6)
    np.testing.assert_allclose(model.log_time_scale_, process.log_time_scale_, rtol=1e-6)
    assert np.corrcoef(model.predict(X[80:]), process.predict(X[80:]))[0, 1] > 0.95
    one, other = (np.log(own.predict_quantile(X[80:])) for own in (model, process))
    assert np.abs(one - other).mean() < 0.15
    curves = [own.predict_survival_function(X[80:], [1.0, 3.0, 6.0]) for own in (model, process)]
    assert np.abs(curves[0] - curves[1]).mean() < 0.06


@pytest.mark.heavy
def test_forms_and_units_of_times(model, data):
    X, _, y = (values[:80] for values in data)
    upper = np.where(y["event"], y["years"], np.inf)
    forms = [
        np.rec.fromarrays([y["years"], y["event"]], names="t,died"),
        np.rec.fromarrays([y["years"], upper], names="lower,upper"),
    ]
    for form in forms:
        again = clone(model).fit(X, form)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    days = clone(model).fit(X, np.rec.fromarrays([y["event"], 365.0 * y["years"]], names="event,days"))
    np.testing.assert_allclose(days.predict_quantile(X), 365.0 * model.predict_quantile(X), rtol=1e-3)
    np.testing.assert_allclose(days.predict(X), model.predict(X), atol=2e-3)


def test_survival_functions_fall_from_one_and_quantiles_invert_them(model, data):
    X = data[0][80:90]
    times = np.linspace(0.0, 60.0, 40)
    survival, lower, upper = model.predict_survival_function(X, times, ci_prob=0.9)
    np.testing.assert_array_equal(survival[:, 0], 1.0)
    assert (np.diff(survival) <= 0.0).all()
    assert ((lower <= survival + 0.02) & (survival <= upper + 0.02)).all()
    assert model.predict_survival_function(X).shape == (10, len(model.event_times_))
    at = model.predict_quantile(X, 0.3)
    found = model.predict_survival_function(X, at)
    np.testing.assert_allclose(np.diag(found), 0.7, atol=1e-9)
    paper = clone(model).set_params(predictive="paper").fit(data[0][:80], data[2][:80])
    assert (paper.predict_latent(X, True)[1] < model.predict_latent(X, True)[1]).all()


@pytest.mark.heavy
def test_predictions_that_pipelines_and_searches_do_not_pass_on(data):
    X, _, y = data
    piped, scaler = make_pipeline(StandardScaler(), BEMKLSurvival(bank())), StandardScaler().fit(X[:80])
    search = GridSearchCV(piped, {"bemklsurvival__predictive": ["full"]}, cv=2).fit(X[:80], y[:80])
    alone = BEMKLSurvival(bank()).fit(scaler.transform(X[:80]), y[:80])
    for method, options in (
        ("predict_latent", {"return_std": True}),
        ("predict_survival_function", {"times": [1.0, 3.0], "ci_prob": 0.9}),
        ("predict_quantile", {"q": 0.3}),
    ):
        expected = getattr(alone, method)(scaler.transform(X[80:]), **options)
        for given in (search, search.best_estimator_):
            found = getattr(bayesmkl.posterior, method)(given, X[80:], **options)
            np.testing.assert_allclose(found, expected, rtol=1e-9)
    numbers = make_pipeline(StandardScaler(), BEMKLRegressor(bank())).fit(X, data[1])
    with pytest.raises(TypeError, match=r"got BEMKLRegressor. Use `predict\(X, return_std=True\)`"):
        bayesmkl.posterior.predict_latent(numbers, X)


def test_questions_that_have_no_answer(model, data):
    X, _, y = data
    with pytest.raises(ValueError, match="`q` must be between 0 and 1"):
        model.predict_quantile(X, 1.0)
    with pytest.raises(ValueError, match="`times` must be"):
        model.predict_survival_function(X, [-1.0])
    with pytest.raises(ValueError, match="for each of the 140 rows"):
        model.score(X, y[:10])
    with pytest.raises(ValueError, match="no NumPyro program"):
        model.numpyro_model(X, y)
    with pytest.raises(ValueError, match="`inference` must be one of 'vb'"):
        clone(model).set_params(inference="nuts").fit(X, y)
    for tool in (diagnose, relevance, refine_posterior, lambda own: compare_loo({"a": own, "b": own})):
        with pytest.raises(TypeError, match="GPMKLSurvival"):
            tool(model)


def test_tables_trees_and_files(model, data, tmp_path):
    X, _, y = (values[:80] for values in data)
    assert view_table(model).loc[0, "view"] == "signal"
    tree = to_datatree(model, n_draws=300, random_state=0)
    np.testing.assert_allclose(tree["observed_data/y"], y["years"])
    np.testing.assert_allclose(
        tree["constant_data/upper"], np.where(y["event"], y["years"], np.inf), rtol=1e-9
    )
    posterior = {name: tree["posterior"][name].values[0] for name in tree["posterior"]}
    e = posterior["kernel_weights"]
    kernels = model.kernel_bank_.transform(X)
    means = np.einsum("dm,inm,dn->di", e, kernels, posterior["dual_coef"]) + posterior["intercept"][:, None]
    variance = 1.0 / posterior["noise_precision"] + (e**2).sum(axis=1) / posterior["intermediate_precision"]
    scale = model.log_time_scale_ * np.sqrt(variance)[:, None]
    law = stats.lognorm(scale, scale=np.exp(model.log_time_mean_ + model.log_time_scale_ * means))
    expected = np.where(y["event"], law.logpdf(y["years"]), law.logsf(y["years"]))
    units = -np.log(model.log_time_scale_ * y["years"])[y["event"]].sum()
    np.testing.assert_allclose(log_likelihood(tree)[0] + units, expected.sum(axis=1), rtol=1e-6)
    assert (tree["posterior_predictive/y"].values > 0.0).all()
    path = tmp_path / "model.skops"
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path).predict(X), model.predict(X))
