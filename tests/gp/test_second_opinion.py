"""Marginal inference against its own model with every function value explicit, by NUTS and by importance sampling.

Neither uses an approximation of an integral over functions: what they disagree about is Monte Carlo error, or the
error of expectation propagation.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS, Predictive, log_likelihood
from scipy import stats
from scipy.special import logsumexp
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.datasets import load_iris, load_wdbc
from bayesmkl.gp import HalfT, Marginal
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.kernels import Gaussian, Linear

pytestmark = pytest.mark.heavy

PAIRS = {"first": [0, 1], "second": [2, 3]}


def made(n_samples, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples + 30, 4))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.4 * rng.normal(size=len(X))


def shuffled(X, y):
    rows = np.random.default_rng(0).permutation(len(X))
    return StandardScaler().fit_transform(X)[rows], np.asarray(y)[rows]


def data_of(name):
    """Return samples, the last thirty and more of them new, targets, the number of training samples, and a bank."""
    two = KernelBank([Gaussian(width=2), Linear()], views=PAIRS, normalize="trace")
    if name == "tumors":
        groups = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
        return *shuffled(*load_wdbc(return_X_y=True)), 60, KernelBank(Gaussian(width=4), views=groups)
    if name == "irises":
        X, y = load_iris(return_X_y=True)
        return *shuffled(X[50:], y[50:]), 70, two
    if name == "diabetes":
        groups = {"body": slice(0, 4), "serum": slice(4, 10)}
        return *shuffled(*load_diabetes(return_X_y=True)), 100, KernelBank(Gaussian(width=4), views=groups)
    X, y = made({"labels": 50, "logits": 50, "nothing": 40, "numbers": 40, "waves": 80}[name], seed=3)
    if name == "nothing":
        y = np.random.default_rng(5).normal(size=len(y))
    if name == "waves":
        y = np.sin(3 * X[:, 2]) + 0.1 * y
        two = KernelBank(Gaussian(width=1), views=PAIRS)
    return X, y if name in ("numbers", "waves") else y > 0, len(X) - 30, two


CLASSES = ["labels", "logits", "nothing", "tumors", "irises"]
NUMBERS = ["numbers", "waves", "diabetes"]


@functools.cache
def fitted(name):
    X, y, n, bank = data_of(name)
    options = {"inference": Marginal(n_points=400), "random_state": 0}
    if name == "irises":  # where Markov chains over a total and its parts mix slowly
        options["kernel_prior"] = HalfT(4.0, 2.0)
    if name in NUMBERS:
        model = GPMKLRegressor(bank, **options)
    else:
        model = GPMKLClassifier(bank, likelihood="logit" if name == "logits" else "probit", **options)
    with numpyro_session():
        program = model.numpyro_model(X[:n], y[:n], X[n : n + 30])
    return model.fit(X[:n], y[:n]), program, X[n : n + 30]


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("labels", "logits", "numbers") else pytest.param(name, marks=pytest.mark.slow)
        for name in CLASSES + NUMBERS
    ],
)
def test_evidence_is_the_integral_over_all_function_values(name, rng):
    """Importance draws of all functions from the normal approximation, at three points of the posterior."""
    model, program, _ = fitted(name)
    factors, y, draws = program.data["factors"], program.data["y"], model.posterior_
    n = 10000 if name == "tumors" else 2000
    covariance, likelihood = model._covariance(model._stored_training()), model._likelihood()
    evidence = exact_evidence if name in NUMBERS else functools.partial(ep_evidence, tol=1e-6)
    for at in np.argsort(-draws.probability)[:3]:
        weights, parameters = draws.kernel_weights[at], draws.parameters[at, 0]
        found = evidence(likelihood, y, covariance.matrix(weights), parameters)
        roots = np.concatenate([*(weights[:, None, None] * factors), np.full((len(y), 1), 3.0)], axis=1)
        precision = np.eye(roots.shape[1]) + (roots.T * found.sites.precision) @ roots
        mean = np.linalg.solve(precision, roots.T @ found.sites.linear)
        root = np.linalg.cholesky(precision)
        steps = rng.standard_normal((len(mean), n))
        values = mean[:, None] + np.linalg.solve(root.T, steps)
        log_ratio = 0.5 * (steps**2 - values**2).sum(axis=0) - np.log(np.diag(root)).sum()
        sites = {
            "whitened": np.moveaxis(values[:-1].reshape(*factors.shape[:2], n), -1, 0),
            "intercept": 3.0 * values[-1],
            "kernel_weights": np.tile(weights, (n, 1)),
            "total": np.full(n, np.linalg.norm(weights)),
            "parts_of_total": np.tile((weights / np.linalg.norm(weights)) ** 2, (n, 1)),
        } | ({"noise_std": np.full(n, parameters[0])} if name in NUMBERS else {})
        with numpyro_session():
            log_p = np.asarray(log_likelihood(program.model, sites, parallel=True, **program.data)["y"]).sum(
                axis=1
            )
        log_ratio = log_ratio + log_p
        expected = logsumexp(log_ratio) - np.log(n)
        error = np.exp(log_ratio - logsumexp(log_ratio)).std() * np.sqrt(n)
        if name in NUMBERS:  # exact, and so is every draw
            assert np.ptp(log_ratio) < 1e-5
            assert float(found.log_evidence) == pytest.approx(expected, abs=1e-5)
        else:
            assert error < 0.06
            # the first term of the expansion that EP is: a little too low, the more so the stronger the signal
            assert -4 * error - 0.01 < expected - float(found.log_evidence) < 0.4


def agree(ours, ess, theirs, slack, label):
    """Assert that means and spreads agree; `theirs` has chains first."""
    flat = theirs.reshape(-1, *theirs.shape[2:])
    assert (split_gelman_rubin(theirs) < 1.03).all(), label
    error = np.hypot(
        flat.std(axis=0) / np.sqrt(effective_sample_size(theirs)), ours.std(axis=0) / np.sqrt(ess)
    )
    off = np.abs(ours.mean(axis=0) - flat.mean(axis=0))
    assert (off < 4 * error + slack).all(), f"{label}: {(off / error).max():.1f} errors, {off.max():.3f}"


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES + NUMBERS)
def test_shares_and_predictions_equal_those_of_nuts_over_all_function_values(name):
    model, program, X_new = fitted(name)
    with numpyro_session():
        sampler = MCMC(
            NUTS(program.model, target_accept_prob=0.9),
            num_warmup=600, num_samples=1000, num_chains=3, chain_method="sequential", progress_bar=False,
        )  # fmt: skip
        sampler.run(jax.random.key(0), **program.data)
        found = {k: np.asarray(v) for k, v in sampler.get_samples(group_by_chain=True).items()}
        new = Predictive(program.model, sampler.get_samples(), return_sites=["score_new"])(
            jax.random.key(1), **program.data, **program.new
        )
    draws, ess = model.posterior_, min(model.ess_, model.posterior_.n_draws)
    slack = 0.0 if name in NUMBERS else 0.01  # of expectation propagation
    agree(draws.shares, ess, found["kernel_shares"], slack, "shares")
    agree(draws.kernel_weights[draws.point], ess, found["kernel_weights"], 10 * slack, "weights")
    own, flat = draws.shares, found["kernel_shares"].reshape(-1, draws.shares.shape[1])
    for level in (0.03, 0.97):
        ends = np.quantile(own, level, axis=0), np.quantile(flat, level, axis=0)
        np.testing.assert_allclose(*ends, atol=0.08)
    score = np.asarray(new["score_new"])
    chains = score.reshape(3, -1, score.shape[-1])
    error = score.std(axis=0) / np.sqrt(effective_sample_size(chains))
    if name in NUMBERS:
        noise = found["noise_std"].reshape(-1, 1)
        mean, std = model.predict(X_new, return_std=True)
        off = np.abs((mean - model.y_mean_) / model.y_scale_ - score.mean(axis=0))
        assert (off < 4 * error + 0.1 * score.std(axis=0)).all()
        spread = np.sqrt(score.var(axis=0) + (noise**2).mean())
        np.testing.assert_allclose(std / model.y_scale_, spread, rtol=0.06)
    else:
        law = stats.logistic if name == "logits" else stats.norm
        p = law.cdf(chains)
        error = p.reshape(-1, p.shape[-1]).std(axis=0) / np.sqrt(effective_sample_size(p))
        off = np.abs(model.predict_proba(X_new)[:, 1] - p.mean(axis=(0, 1)))
        assert (off < 4 * error + 0.015).all(), off.max()
