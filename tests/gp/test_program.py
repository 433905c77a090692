"""Programs for NumPyro: priors of weights by their quantiles, and laws of targets by their densities."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers import STANDARD_ERRORS
from problems import INF, LIKELIHOODS, TIMES, additive, kernels, labels, targets
from scipy import special, stats
from sklearn.base import clone

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.gp import GPMKLOrdinalClassifier, GPMKLSurvival, HalfT, LogNormal, Marginal
from bayesmkl.gp.evidence import ep_evidence
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.program import _draw_hyperparameters, known_fields, numpyro_prior, target_law
from bayesmkl.kernels import Gaussian
from bayesmkl.outcomes import Probit

FEW = Marginal(n_points=100, n_draws=100)
LAWS = {
    "Gamma": (lambda: dist.Gamma(2.0, 3.0), stats.gamma(2.0, scale=1 / 3)),
    "half normal": (lambda: dist.HalfNormal(2.0), stats.chi(1, scale=2.0)),
    "half Cauchy": (lambda: dist.HalfCauchy(0.5), stats.halfcauchy(scale=0.5)),
    "log-normal": (lambda: dist.LogNormal(1.0, 0.5), stats.lognorm(0.5, scale=np.e)),
    "narrow": (lambda: dist.LogNormal(3.0, 0.001), stats.lognorm(0.001, scale=np.exp(3.0))),
    "inverse Gamma": (lambda: dist.InverseGamma(3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
    "Weibull": (lambda: dist.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2.0)),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", LAWS)
def test_weights_are_scipys_quantiles_and_slopes_differences(name):
    make, law = LAWS[name]
    prior = numpyro_prior(make())
    assert prior.n_coordinates(5) == 5
    u = np.array([-7.5, -6.0, -3.0, -1.0, 0.0, 0.3, 2.0, 5.0, 7.5])
    found = prior.weights(u)
    above, below = law.isf(special.ndtr(-u)), law.ppf(special.ndtr(u))
    np.testing.assert_allclose(found.values, np.where(u > 0.0, above, below), rtol=1e-5)
    middle = np.abs(u) < 4.0
    np.testing.assert_allclose(found.values[middle], np.where(u > 0.0, above, below)[middle], rtol=1e-7)
    h = 1e-5
    differences = (prior.weights(u + h).values - prior.weights(u - h).values) / (2.0 * h)
    np.testing.assert_allclose(found.pull(np.ones(len(u))), differences, rtol=1e-6)
    np.testing.assert_allclose(found.pull(np.arange(9.0)), np.arange(9.0) * differences, rtol=1e-6)


def test_folded_t_is_half_t():
    u, own = np.linspace(-3.0, 6.0, 9), HalfT(4.0, 2.0)
    prior = numpyro_prior(dist.FoldedDistribution(dist.StudentT(4.0, 0.0, 2.0)))
    np.testing.assert_allclose(prior.weights(u).values, own.weights(u).values, rtol=1e-6)
    np.testing.assert_allclose(prior.weights(u).pull(np.ones(9)), own.weights(u).pull(np.ones(9)), rtol=1e-5)


def test_far_coordinates_stay_finite():
    prior = numpyro_prior(dist.Gamma(0.1, 1.0))
    for size in (-40.0, -9.0, 9.0, 40.0):
        found = prior.weights(np.full(2, size))
        assert (found.values > 0.0).all()
        assert np.isfinite(found.values).all()
        np.testing.assert_array_equal(found.pull(np.ones(2)), 0.0)


@pytest.fixture(scope="module")
def problem():
    X, stack = kernels(np.random.default_rng(3), n_samples=30)
    y = labels(np.random.default_rng(4), X)
    return np.moveaxis(np.array(list(stack.each())), 0, -1), y


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("own", "given"),
    [
        (HalfT(1e8, 2.0), lambda: dist.HalfNormal(2.0)),
        (HalfT(4.0, 2.0), lambda: dist.TruncatedDistribution(dist.StudentT(4.0, 0.0, 2.0), low=0.0)),
    ],
    ids=["half normal", "truncated t"],
)
def test_same_prior_same_posterior(own, given, problem):
    X, y = problem
    one = GPMKLClassifier("precomputed", kernel_prior=own, inference=FEW).fit(X, y)
    other = GPMKLClassifier("precomputed", kernel_prior=given(), inference=FEW).fit(X, y)
    np.testing.assert_allclose(other.kernel_weights_, one.kernel_weights_, rtol=1e-4)
    np.testing.assert_allclose(other.kernel_shares_, one.kernel_shares_, atol=1e-4)
    assert other.log_evidence_ == pytest.approx(one.log_evidence_, abs=1e-4)


def test_model_is_cloned_pickled_and_saved_if_the_distribution_is_trusted(problem, tmp_path):
    X, y = problem
    model = GPMKLClassifier("precomputed", kernel_prior=dist.Gamma(2.0, 1.0), inference=FEW)
    model = clone(model).fit(X, y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), expected)
    np.testing.assert_array_equal(copy.deepcopy(model).predict_proba(X), expected)
    name = "numpyro.distributions.continuous.Gamma"
    with pytest.raises(ValueError, match=f"not trusted, so nothing was saved: {name}"):
        save_model(model, tmp_path / "model.skops")
    save_model(model, tmp_path / "model.skops", trusted=[name])
    again = load_model(tmp_path / "model.skops", trusted=[name])
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    assert float(again.kernel_prior.concentration) == 2.0


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (lambda: dist.Normal(0.0, 1.0), r"got Normal with the support Real\(\)"),
        (lambda: dist.Uniform(0.0, 2.0), "got Uniform with the support"),
        (lambda: dist.Pareto(1.0, 2.0), "got Pareto with the support"),
        (lambda: dist.Poisson(1.0), "got Poisson with the support"),
        (lambda: dist.Gamma(np.ones(3), 1.0), r"got Gamma with the shape \(3,\)"),
        (lambda: dist.Dirichlet(np.ones(3)), r"got Dirichlet with the shape \(3,\)"),
    ],
    ids=["negative", "bounded", "bounded below", "discrete", "several", "vectors"],
)
def test_other_distributions_are_refused(prior, message, problem):
    with pytest.raises(ValueError, match=f"`kernel_prior` must be a distribution of .*{message}"):
        GPMKLClassifier("precomputed", kernel_prior=prior(), inference=FEW).fit(*problem)


def test_mass_that_no_number_is_small_enough_for_is_refused(problem):
    model = GPMKLClassifier("precomputed", kernel_prior=dist.Gamma(0.001, 1.0))
    with pytest.raises(ValueError, match=r"`kernel_prior` must have a density .* of Gamma gives 0\.2587"):
        model.fit(*problem)


@pytest.mark.heavy
def test_numpyro_program_has_the_distribution(rng):
    X, stack = kernels(rng, n_samples=12)
    given = dist.Gamma(2.0, 1.0)
    model = Hypermodel(
        additive(stack),
        Probit(),
        labels(rng, X)[None],
        numpyro_prior(given),
        LogNormal(),
        ep_evidence,
    )
    with numpyro_session():
        program = numpyro.handlers.seed(lambda: _draw_hyperparameters(model, ()), 0)
        site = numpyro.handlers.trace(program).get_trace()["kernel_weights"]
        found, expected = site["fn"].log_prob(site["value"]), given.log_prob(site["value"]).sum()
        assert float(found) == pytest.approx(float(expected))


@pytest.mark.slow
def test_numpyro_is_imported_for_such_a_prior_only():
    code = (
        "import sys, numpy as np; from bayesmkl import GPMKLRegressor; from bayesmkl.gp import Marginal; "
        "X = np.random.default_rng(0).normal(size=(12, 2)); "
        "GPMKLRegressor(inference=Marginal(n_points=100, n_draws=100)).fit(X, X[:, 0]); "
        "print('numpyro' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


BANK = KernelBank(Gaussian(width=2), views={"first": [0, 1], "second": [2]})
MODELS = {name: GPMKLRegressor(BANK, likelihood=name) for name in list(LIKELIHOODS)[:4]}
MODELS |= {name: GPMKLSurvival(BANK, likelihood=name) for name in ("log-normal", "log-logistic", "weibull")}
MODELS |= {
    "ordinal": GPMKLOrdinalClassifier(BANK),
    "hazards": GPMKLSurvival(BANK, likelihood="piecewise-hazard"),
}


def law_of(name, rng, n=10):
    likelihood, parameters = LIKELIHOODS[name]
    y, score = targets(name, n, rng), rng.normal(size=n)
    seen = known_fields(likelihood, y)
    return likelihood, y, seen, score, np.array(parameters)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("ordinal", "weibull") else pytest.param(name, marks=pytest.mark.slow)
        for name in LIKELIHOODS
    ],
)
def test_log_density_and_gradient_are_those_of_the_likelihood(name, rng):
    likelihood, y, seen, score, phi = law_of(name, rng)
    with numpyro_session():
        observed = jnp.asarray(seen.y)

        def total(score, phi):
            return target_law(likelihood, score, list(phi), seen.given).log_prob(observed)

        at = jnp.asarray(score), jnp.asarray(phi)
        found = np.asarray(total(*at))
        by_score, by_phi = (
            np.asarray(value) for value in jax.jit(jax.grad(lambda *at: total(*at).sum(), (0, 1)))(*at)
        )
    slopes = likelihood.derivatives(y, score, phi)
    tol = (
        1e-6 if name in ("beta-binomial", "offset") else 1e-9
    )  # JAX's betaln of arguments from 8 on has 6e-7
    np.testing.assert_allclose(found, likelihood.log_density(y, score, phi), rtol=tol, atol=tol)
    np.testing.assert_allclose(by_score, slopes.first, rtol=10.0 * tol, atol=10.0 * tol)
    np.testing.assert_allclose(by_phi, slopes.parameters.sum(axis=1), rtol=100.0 * tol, atol=100.0 * tol)


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(TIMES))
@pytest.mark.parametrize("entry", [-INF, 0.4])
def test_times_that_are_drawn_are_later_than_the_entry_and_have_the_survival_function(name, entry):
    likelihood, phi = LIKELIHOODS[name][0], np.array(LIKELIHOODS[name][1])
    score, n = np.array([0.3]), 4000
    with numpyro_session():
        given = {"entry": np.array([entry])}
        law = target_law(likelihood, jnp.asarray(score), list(jnp.asarray(phi)), given)
        drawn = np.asarray(law.sample(jax.random.key(0), (n,)))[:, 0]
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, 1])
    assert (drawn[:, 0] >= entry).all()
    for cut in (0.5, 0.8, 1.2):
        at, start = (likelihood.log_survival(np.array([t]), score, phi)[0] for t in (cut, max(entry, -50.0)))
        p = np.exp(at - start)
        error = np.sqrt(p * (1.0 - p) / n)
        assert abs((drawn[:, 0] > cut).mean() - p) < STANDARD_ERRORS * error


@pytest.mark.heavy
def test_grades_that_are_drawn_have_their_probabilities():
    likelihood, phi = LIKELIHOODS["ordinal"][0], np.array([0.6, 1.1])
    with numpyro_session():
        law = target_law(likelihood, jnp.array([0.3]), list(jnp.asarray(phi)), {})
        drawn = np.asarray(law.sample(jax.random.key(0), (4000,)))[:, 0]
    p = np.exp(likelihood.log_probabilities(np.array([0.3]), np.zeros(1), phi)[:, 0])
    found = np.bincount(drawn.astype(int), minlength=4) / 4000
    assert (np.abs(found - p) < STANDARD_ERRORS * np.sqrt(p * (1.0 - p) / 4000)).all()


def table(name, rng, n=12):
    """Return samples and targets as users have them."""
    X, y = rng.normal(size=(n, 3)), targets(name, n, rng)
    if name == "beta-binomial":
        return X, y.T
    if name in TIMES or name == "log-normal":
        lower, upper, entry = np.exp(y)
        return X, np.rec.fromarrays([lower, upper, entry], names="lower,upper,entry")
    return X, y


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_programs_of_estimators_have_their_densities_and_draw_new_targets(name, rng):
    X, y = table(name, rng)
    model = MODELS[name]
    with numpyro_session():
        program = model.numpyro_model(X, y, X[:3])
        seeded = numpyro.handlers.seed(program.model, 0)
        trace = numpyro.handlers.trace(seeded).get_trace(**program.data, **program.new)
        found = np.asarray(trace["y"]["fn"].log_prob(jnp.asarray(program.data["y"])))
        values = {key: np.asarray(site["value"]) for key, site in trace.items() if site["type"] != "plate"}
        drawn = numpyro.handlers.trace(seeded).get_trace(**(program.data | {"y": None}))["y"]["value"]
    own = clone(model)
    _, seen = own._prepare(X, y)
    parameters = np.array([values[key] for key in own.likelihood_.names]).reshape(-1)
    expected = own.likelihood_.log_density(seen[0], values["score"], parameters)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-5)
    assert np.isfinite(values["y_new"]).all()
    assert values["y_new"].shape == (3, 2) if name in TIMES else (3,)
    assert np.shape(drawn) == program.data["y"].shape


@pytest.mark.heavy
def test_offsets_and_trials_of_new_rows_are_data(rng):
    likelihood, y = GPMKLRegressor(BANK, likelihood="beta-binomial"), table("beta-binomial", rng)[1]
    program = likelihood.numpyro_model(rng.normal(size=(12, 3)), y, rng.normal(size=(2, 3)))
    assert set(program.data) == {"factors", "y", "offset", "trials"}
    np.testing.assert_array_equal(program.data["trials"], y[:, 1])
    np.testing.assert_array_equal(program.new["new_trials"], np.ones(2))
    np.testing.assert_array_equal(program.new["new_offset"], program.data["offset"][:2])


@pytest.mark.heavy
def test_without_a_target_counts_have_no_offset_and_grades_are_the_levels(rng):
    X = rng.normal(size=(12, 3))
    program = GPMKLRegressor(BANK, likelihood="poisson").numpyro_model(X, X_new=X[:2])
    assert program.data["y"] is None
    assert not program.data["offset"].any()
    assert not program.new["new_offset"].any()
    program = GPMKLOrdinalClassifier(BANK, levels=["low", "middle", "high"]).numpyro_model(X)
    with numpyro_session():
        seeded = numpyro.handlers.seed(program.model, 0)
        trace = numpyro.handlers.trace(seeded).get_trace(**program.data)
    assert "distance_0" in trace
    assert "distance_1" not in trace


@pytest.mark.heavy
def test_an_unknown_likelihood_is_named():
    with pytest.raises(TypeError, match=r"`likelihood` must be one of .*; got 'strange'"):
        target_law("strange", jnp.zeros(2), [], {})
