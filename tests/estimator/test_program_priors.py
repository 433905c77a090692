"""Other distributions at the sites of NumPyro programs: densities change by theirs, and by nothing else."""

from __future__ import annotations

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from bayesmkl import BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.gp import HalfT
from bayesmkl.kernels import Gaussian, Linear

N, P = 9, 2
BANK = KernelBank([Gaussian(width=1), Linear()], normalize="trace")
half_t = {"kernel_prior": HalfT()}
MODELS = {
    "GPMKLClassifier": GPMKLClassifier(BANK, **half_t),
    "GPMKLRegressor": GPMKLRegressor(BANK, **half_t),
    "BEMKLRegressor": BEMKLRegressor(BANK),
}
# What stands instead, of kernels, samples, noise and intercept.
HEAVY = dist.StudentT(3.0, 0.0, 2.0)
PRIORS = {
    "GPMKLRegressor": {
        "kernel_weights": dist.HalfCauchy(np.array([0.5, 2.0])),  # one for each kernel
        "whitened": HEAVY,
        "noise_std": dist.Gamma(3.0, 4.0),
        "intercept": dist.Cauchy(0.0, 1.0),
    },
    "BEMKLRegressor": {
        "kernel_weights": dist.MultivariateNormal(np.zeros(P), np.eye(P) + 0.5),  # correlated
        "dual": dist.Normal(0.0, 0.3),
        "noise_precision": dist.LogNormal(0.0, 2.0),
        "intercept": HEAVY,
    },
}


@pytest.fixture(autouse=True)
def session():
    with numpyro_session():
        yield


def table(rng):
    X = rng.normal(size=(N, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=N)
    return X, y


def drawn(program):
    """Values of all sites, from the prior."""
    trace = handlers.trace(handlers.seed(program.model, 3)).get_trace(**program.data)
    return {n: s["value"] for n, s in trace.items() if s["type"] == "sample" and not s["is_observed"]}


def joint(program, values):
    return float(jax.jit(lambda data, at: log_density(program.model, (), data, at)[0])(program.data, values))


@pytest.mark.heavy
@pytest.mark.parametrize("name", PRIORS)
def test_joint_density_changes_by_the_priors_alone(name, rng):
    X, y = table(rng)
    usual = MODELS[name].numpyro_model(X, y)
    changed = MODELS[name].numpyro_model(X, y, priors=PRIORS[name])
    values = drawn(changed)
    sites = handlers.trace(handlers.seed(usual.model, 0)).get_trace(**usual.data)
    difference = sum(
        float(np.sum(law.log_prob(values[site]))) - float(np.sum(sites[site]["fn"].log_prob(values[site])))
        for site, law in PRIORS[name].items()
    )
    assert joint(changed, values) - joint(usual, values) == pytest.approx(difference, abs=1e-8)


@pytest.mark.heavy
def test_weights_of_any_distribution_are_those_of_kernel_prior(rng):
    X, y = table(rng)
    law = dist.Weibull(1.5, 2.0)
    by_site = GPMKLRegressor(BANK, **half_t).numpyro_model(X, y, priors={"kernel_weights": law})
    by_parameter = GPMKLRegressor(BANK, kernel_prior=law).numpyro_model(X, y)
    values = drawn(by_site)
    assert joint(by_site, values) == pytest.approx(joint(by_parameter, values), abs=1e-9)


@pytest.mark.heavy
def test_functions_of_the_present_distribution_see_its_parameters(rng):
    """Noise with heavy tails: the law of a target depends on its score."""
    X, y = table(rng)
    tails = {"y": lambda law: dist.StudentT(4.0, law.loc, law.scale)}
    program = MODELS["GPMKLRegressor"].numpyro_model(X, y, X[:2], priors=tails)
    values = drawn(program)
    trace = handlers.trace(handlers.substitute(program.model, values)).get_trace(**program.data)
    law = dist.StudentT(4.0, trace["score"]["value"], values["noise_std"])
    np.testing.assert_allclose(trace["y"]["fn"].log_prob(program.data["y"]), law.log_prob(program.data["y"]))


@pytest.mark.heavy
def test_prior_draws_without_a_target_are_of_the_new_prior(rng):
    X, _ = table(rng)
    program = MODELS["GPMKLClassifier"].numpyro_model(X, priors={"intercept": dist.Normal(100.0, 1e-6)})
    trace = handlers.trace(handlers.seed(program.model, 0)).get_trace(**program.data)
    assert float(trace["intercept"]["value"]) == pytest.approx(100.0, abs=1e-4)
    assert (trace["y"]["value"] > 0).all()


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({}, "`priors` must be a dict of distributions of NumPyro by the names of sites.*; got {}"),
        ("normal", "`priors` must be a dict of distributions of NumPyro .*; got 'normal'"),
        (
            {"bias": HEAVY},
            "'bias' is not a site of this model. Sites are kernel_weights, noise_std, whitened, ",
        ),
        ({"score": HEAVY}, "'score' follows from others. Sites are kernel_weights, noise_std"),
        (
            {"kernel_weights": dist.Normal()},
            "must draw values in the support .*; got Normal, which draws other values. Use nump",
        ),
        (
            {"noise_std": dist.Normal(5.0, 9.0)},
            "`priors\\['noise_std'\\]` must draw values in the support .* got Normal",
        ),
        (
            {"intercept": dist.Normal(np.zeros(3))},
            "or of the shape \\(\\) of the site; got Normal of the shape \\(3,\\)",
        ),
        (
            {"kernel_weights": dist.Dirichlet(np.ones(3))},
            "or of the shape \\(2,\\) of the site; got Dirichlet of the",
        ),
        ({"intercept": 3.0}, "or a function from the present one to one of the same shape, \\(\\); got 3.0"),
        ({"intercept": lambda law: 0.0}, "or a function from the present one .*; got 0.0"),
        ({"y": lambda law: dist.Normal()}, "of the same shape, \\(9,\\); got shape \\(\\)"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_priors_that_are_none(priors, message, rng):
    X, y = table(rng)
    with pytest.raises(ValueError, match=message):
        MODELS["GPMKLRegressor"].numpyro_model(X, y, priors=priors)


@pytest.mark.heavy
def test_weights_that_follow_from_others_have_a_parameter(rng):
    X, y = table(rng)
    with pytest.raises(
        ValueError, match=r"'kernel_weights' follows from others.* Set the prior of weights by `kernel_prior`"
    ):
        GPMKLRegressor(BANK).numpyro_model(X, y, priors={"kernel_weights": dist.HalfNormal()})


@pytest.mark.parametrize("inference", ["vb", "nuts"])
@pytest.mark.parametrize("name", ["kernel_prior", "sample_prior", "bias_prior", "noise_prior"])
def test_estimators_say_which_priors_they_take(name, inference, rng):
    model = BEMKLRegressor(BANK, inference=inference).set_params(**{name: dist.HalfCauchy(1.0)})
    expected = (
        rf'`{name}` must be "nonsparse", "sparse".* Programs take other distributions: `numpyro_model\('
    )
    with pytest.raises(ValueError, match=expected):
        model.fit(*table(rng))
