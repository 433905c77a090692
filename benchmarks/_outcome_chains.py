"""Outcomes of every kind: the default inference beside NUTS with every function value explicit.

Sixty samples of two views of two features, one Gaussian kernel on each; the outcome depends on the first view, and
a little on the second. Compared are the mean shares, and predicted probabilities of twenty new samples: that a number
is below the tenth, half and nine tenths of those of the training samples, that a count or a grade is at most so high,
that a time is later. The prior of weights is `half-t`, over which Markov chains mix better than over a total and its
parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _posteriors import quietly
from scipy import special, stats

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian
from bayesmkl.marginal import GPMKLOrdinalClassifier, GPMKLSurvival

N_NEW = 20
N_NODES = 41  # of normal scores
DEEPEST = 8  # doublings of a trajectory
LEVELS = (0.1, 0.5, 0.9)
BANK = KernelBank(Gaussian(width=2), views={"first": [0, 1], "second": [2, 3]})


class Case(NamedTuple):
    """A data set with the model of its outcome, and what is asked of predictions: P(y <= c), or S(c) of times."""

    model: Any
    X: np.ndarray
    y: Any
    X_new: np.ndarray
    cuts: np.ndarray
    law: Callable[..., Any]  # from score, parameters and cuts to probabilities


def _score(X: np.ndarray) -> np.ndarray:
    return X[:, 0] + 0.6 * np.sin(2.0 * X[:, 1]) + 0.4 * X[:, 2]


def _times(kind: str, score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return times with right and interval censoring and late entries, as `GPMKLSurvival` takes them."""
    noise = {
        "log-normal": rng.normal(size=len(score)),
        "log-logistic": 0.6 * rng.logistic(size=len(score)),
    }.get(kind, np.log(rng.exponential(size=len(score))))
    sign = -1.0 if kind == "piecewise-hazard" else 1.0
    true = np.exp(sign * score + 0.7 * noise)
    end, entry = rng.uniform(0.5, 6.0, len(score)), rng.uniform(0.0, 0.5, len(score)) * true
    seen_at_visits = rng.random(len(score)) < 0.25
    lower = np.where(true < end, np.where(seen_at_visits, 0.8 * true, true), end)
    upper = np.where(true < end, np.where(seen_at_visits, 1.3 * true, true), np.inf)
    entry = np.where((rng.random(len(score)) < 0.2) & (entry < 0.8 * lower), entry, 0.0)
    return np.rec.fromarrays([lower, upper, entry], names="lower,upper,entry")


def build(name: str, n_samples: int, seed: int = 1) -> Case:
    """Return a data set and the model of its outcome."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples + N_NEW, 4))
    score, (X, X_new) = _score(X), (X[:n_samples], X[n_samples:])
    f = score[:n_samples]
    given: dict[str, Any] = {"kernel_prior": "half-t", "random_state": 0}
    if name == "student-t":
        y: Any = f + 0.3 * rng.standard_t(3.0, size=n_samples)
        law: Any = lambda f, p, c: stats.t.cdf((c - f) / p[0], p[1])
        return Case(GPMKLRegressor(BANK, likelihood=name, **given), X, y, X_new, np.quantile(y, LEVELS), law)
    if name == "ordinal":
        y = np.digitize(f + 0.5 * rng.normal(size=n_samples), [-0.8, 0.1, 1.0])
        return Case(GPMKLOrdinalClassifier(BANK, **given), X, y, X_new, np.arange(3.0), _ordinal)
    if name == "poisson":
        y = rng.poisson(2.0 * np.exp(0.6 * f)).astype(float)
        law = lambda f, p, c: stats.poisson.cdf(c, np.exp(f))
        cuts = np.array([0.0, 2.0, 5.0])
        return Case(GPMKLRegressor(BANK, likelihood=name, **given), X, y, X_new, cuts, law)
    if name == "negative-binomial":
        y = rng.poisson(3.0 * np.exp(0.7 * f) * rng.gamma(2.0, 0.5, n_samples)).astype(float)
        law = lambda f, p, c: stats.nbinom.cdf(c, p[0], p[0] / (p[0] + np.exp(f)))
        cuts = np.array([0.0, 2.0, 6.0])
        return Case(GPMKLRegressor(BANK, likelihood=name, **given), X, y, X_new, cuts, law)
    if name == "beta-binomial":
        p = special.expit(f)
        y = rng.binomial(8, rng.beta(6.0 * p, 6.0 * (1.0 - p))).astype(float)
        law = lambda f, p, c: special.expit(-f) + 0.0 * c
        both = np.stack([y, np.full(n_samples, 8.0)], axis=1)
        return Case(GPMKLRegressor(BANK, likelihood=name, **given), X, both, X_new, np.zeros(1), law)
    y = _times(name, f, rng)
    cuts = np.quantile(np.where(np.isfinite(y.upper), y.upper, y.lower), (0.25, 0.5, 0.75))
    return Case(GPMKLSurvival(BANK, likelihood=name, **given), X, y, X_new, cuts, None)


def _ordinal(score: np.ndarray, parameters: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    from bayesmkl.marginal.likelihoods import OrdinalProbit

    ends = OrdinalProbit(len(cuts) + 1).cuts(parameters)
    return np.stack([special.ndtr(end - score) for end in np.broadcast_arrays(*ends)], axis=-1).squeeze(-2)


NAMES = (
    "student-t",
    "poisson",
    "negative-binomial",
    "beta-binomial",
    "ordinal",
    "log-normal",
    "log-logistic",
    "weibull",
    "piecewise-hazard",
)


def predicted(case: Case) -> np.ndarray:
    """Return probabilities that the fitted model predicts, (n_rows, n_cuts)."""
    model = case.model
    if isinstance(model, GPMKLSurvival):
        return model.predict_survival_function(case.X_new, times=case.cuts)
    if isinstance(model, GPMKLOrdinalClassifier):
        return np.cumsum(model.predict_proba(case.X_new), axis=1)[:, :-1]
    moments = model._moments(case.X_new)
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    scores = moments.mean[:, 0, :, None] + np.sqrt(moments.variance[:, 0, :, None]) * nodes + _offset(model)
    parameters = np.moveaxis(moments.parameters[:, 0], -1, 0)[..., None, None, None]
    each = case.law(scores[..., None], parameters, case.cuts) @ np.eye(len(case.cuts))
    return np.einsum("p,pinc,n->ic", moments.probability, each, weights / weights.sum())


def of_draws(case: Case, score: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Return probabilities under every draw, (n_draws, n_rows, n_cuts), of scores (n_draws, n_rows)."""
    model = case.model
    own = parameters[..., None, None]
    if isinstance(model, GPMKLSurvival):
        log_times = (np.log(case.cuts) - model.log_time_mean_) / model.log_time_scale_
        return np.exp(model.likelihood_.log_survival(log_times, score[..., None], own))
    return case.law(score[..., None] + _offset(model), own, case.cuts)


def _offset(model: Any) -> float:
    return (
        float(model.target_[-1, 0]) if isinstance(model, GPMKLRegressor) and model.target_.ndim == 2 else 0.0
    )


def compare(name: str, n_samples: int, n_chains: int, n_warmup: int, n_draws: int) -> dict[str, Any]:
    """Fit a model, and run NUTS on its program."""
    import jax
    from arviz_stats.base import array_stats
    from numpyro.infer import MCMC, NUTS, Predictive

    from bayesmkl._utils.numpyro_session import numpyro_session

    case = build(name, n_samples)
    start = time.process_time()
    with quietly():
        model = case.model.fit(case.X, case.y)
    fitted = time.process_time()
    with numpyro_session():
        program = model.numpyro_model(case.X, case.y, case.X_new)
        sampler = MCMC(
            NUTS(program.model, target_accept_prob=0.9, max_tree_depth=DEEPEST),
            num_warmup=n_warmup,
            num_samples=n_draws,
            num_chains=n_chains,
            chain_method="sequential",
            progress_bar=False,
        )
        sampler.run(jax.random.key(0), extra_fields=("diverging",), **program.data)
        drawn = {key: np.asarray(value) for key, value in sampler.get_samples().items()}
        divergences = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
        score = Predictive(program.model, sampler.get_samples(), return_sites=["score_new"])(
            jax.random.key(1), **program.data, **program.new
        )["score_new"]
    names = model.likelihood_.names
    parameters = np.array([drawn[key] for key in names]).reshape(len(names), len(drawn["intercept"]))
    probabilities = of_draws(case, np.asarray(score), parameters)

    def by_number(values: np.ndarray) -> list[np.ndarray]:
        return [own.reshape(n_chains, n_draws) for own in np.moveaxis(values, 0, -1).reshape(-1, len(values))]

    def errors(values: np.ndarray) -> list[float]:
        return [float(own.std() / np.sqrt(array_stats.ess(own))) for own in by_number(values)]

    shares, ours = drawn["kernel_shares"], model.kernel_shares_
    off = np.abs(predicted(case) - probabilities.mean(axis=0))
    log_weights = np.log(drawn["kernel_weights"])
    return {
        "likelihood": name,
        "n_samples": n_samples,
        "n_draws": n_chains * n_draws,
        "shares": ours.tolist(),
        "shares_of_chains": shares.mean(axis=0).tolist(),
        "share_off": float(np.abs(ours - shares.mean(axis=0)).max()),
        "share_error": float(max(errors(shares))),
        "share_sd": float(shares.std(axis=0).max()),
        "probability_off": float(off.max()),
        "probability_off_mean": float(off.mean()),
        "probability_error": float(max(errors(probabilities))),
        "pareto_k": float(model.pareto_k_),
        "rhat": float(max(array_stats.rhat(own) for own in by_number(np.hstack([shares, log_weights])))),
        "divergences": divergences,
        "seconds": [fitted - start, time.process_time() - fitted],
    }
