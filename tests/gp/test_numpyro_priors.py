"""Distributions of NumPyro as priors of kernel weights: SciPy's quantiles, differences, the same posterior, files."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from problems import kernels, labels, processes
from scipy import special, stats
from sklearn.base import clone

from bayesmkl import GPMKLClassifier, load_model, save_model
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.bemkl.program import numpyro_program
from bayesmkl.gp import HalfT, LogNormal, Marginal
from bayesmkl.gp.evidence import ep_evidence
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.program import numpyro_prior
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
        processes(stack)["additive"],
        Probit(),
        labels(rng, X)[None],
        numpyro_prior(given),
        LogNormal(),
        ep_evidence,
    )
    with numpyro_session():
        program = numpyro.handlers.seed(numpyro_program._hyperparameters(model, ()), 0)
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
