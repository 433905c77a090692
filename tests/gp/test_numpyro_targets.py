"""Laws of targets in NumPyro programs against likelihoods, and draws from them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from helpers import STANDARD_ERRORS
from outcome_problems import INF, LIKELIHOODS, TIMES, targets
from sklearn.base import clone

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.gp import GPMKLOrdinalClassifier, GPMKLSurvival
from bayesmkl.gp.program import known_fields, target_law
from bayesmkl.kernels import Gaussian

pytestmark = pytest.mark.heavy

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
    np.testing.assert_allclose(found, likelihood.log_density(y, score, phi), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_score, slopes.first, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(by_phi, slopes.parameters.sum(axis=1), rtol=1e-7, atol=1e-7)


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


def test_offsets_and_trials_of_new_rows_are_data(rng):
    likelihood, y = GPMKLRegressor(BANK, likelihood="beta-binomial"), table("beta-binomial", rng)[1]
    program = likelihood.numpyro_model(rng.normal(size=(12, 3)), y, rng.normal(size=(2, 3)))
    assert set(program.data) == {"factors", "y", "offset", "trials"}
    np.testing.assert_array_equal(program.data["trials"], y[:, 1])
    np.testing.assert_array_equal(program.new["new_trials"], np.ones(2))
    np.testing.assert_array_equal(program.new["new_offset"], program.data["offset"][:2])


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


def test_an_unknown_likelihood_is_named():
    with pytest.raises(TypeError, match=r"`likelihood` must be one of .*; got 'strange'"):
        target_law("strange", jnp.zeros(2), [], {})
