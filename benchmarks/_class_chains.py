"""Several classes with every function value explicit, by NUTS: softmax, and the logit of each class against the rest.

Each class has an additive Gaussian process with the kernel weights of all others, as `GPMKLClassifier` has. Scores of
new samples are drawn given those of the training samples.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from arviz_stats.base import array_stats
from jax.scipy.linalg import solve_triangular
from numpyro.infer import MCMC, NUTS

from bayesmkl._utils.numpyro_session import numpyro_session

INTERCEPT_STD = 3.0  # this and the next are the defaults of GPMKLClassifier
CONCENTRATION, DF, SCALE = 0.5, 4.0, 2.0
JITTER = 1e-6
DEEPEST = 8  # doublings of a trajectory
N_SCORES = 8  # of a new sample, for every draw


class Problem(NamedTuple):
    """Kernels in units of their variance: of training samples, of new ones with them, of these with themselves."""

    kernels: np.ndarray  # (n_kernels, n_samples, n_samples)
    codes: np.ndarray  # (n_samples,)
    new: np.ndarray  # (n_kernels, n_rows, n_samples)
    diagonal: np.ndarray  # (n_kernels, n_rows)


class Chains(NamedTuple):
    """What chains say."""

    probabilities: np.ndarray  # (n_rows, n_classes)
    weights: np.ndarray  # (n_draws, n_kernels)
    rhat: float
    effective: float
    divergences: int
    seconds: float


def program(kernels: Any, codes: Any, *, n_classes: int, likelihood: str) -> None:
    """NumPyro program of the labels of training samples."""
    half = dist.FoldedDistribution(dist.StudentT(DF, 0.0, SCALE))
    total = numpyro.sample("total", half)
    parts = numpyro.sample("parts", dist.Dirichlet(jnp.full(len(kernels), CONCENTRATION)))
    variances = numpyro.deterministic("variances", total**2 * parts)
    root = jnp.linalg.cholesky(_covariance(variances, kernels))
    whitened = numpyro.sample("whitened", dist.Normal(0.0, 1.0).expand([n_classes, len(codes)]).to_event(2))
    score = whitened @ root.T
    if likelihood == "softmax":
        numpyro.sample("y", dist.Categorical(logits=score.T).to_event(1), obs=codes)
    else:
        own = jnp.arange(n_classes)[:, None] == codes
        numpyro.sample("y", dist.Bernoulli(logits=score).to_event(2), obs=own.astype(float))


def _covariance(variances: Any, kernels: Any) -> Any:
    combined = jnp.tensordot(variances, kernels, 1) + INTERCEPT_STD**2
    return combined + JITTER * (1.0 + variances.sum()) * jnp.eye(kernels.shape[-1])


def _sampler(n_classes: int, likelihood: str, n_chains: int, n_warmup: int, n_draws: int) -> MCMC:
    """Return a sampler."""
    kernel = NUTS(partial(program, n_classes=n_classes, likelihood=likelihood), max_tree_depth=DEEPEST)
    return MCMC(
        kernel,
        num_warmup=n_warmup,
        num_samples=n_draws,
        num_chains=n_chains,
        chain_method="sequential",
        progress_bar=False,
    )


@partial(jax.jit, static_argnames="likelihood")
def _mean_probabilities(
    key: Any, variances: Any, whitened: Any, kernels: Any, new: Any, diagonal: Any, *, likelihood: str
) -> Any:
    """Return probabilities of classes averaged over draws, (n_rows, n_classes); not normalized against the rest."""

    def of_draw(inputs: tuple[Any, Any, Any]) -> Any:
        own_key, own, z = inputs
        root = jnp.linalg.cholesky(_covariance(own, kernels))
        cross = jnp.tensordot(own, new, 1) + INTERCEPT_STD**2
        told = solve_triangular(root, cross.T, lower=True)
        variance = jnp.maximum(own @ diagonal + INTERCEPT_STD**2 - (told**2).sum(axis=0), 0.0)
        noise = jax.random.normal(own_key, (N_SCORES, len(z), len(variance)))
        score = z @ told + jnp.sqrt(variance) * noise
        link = partial(jax.nn.softmax, axis=1) if likelihood == "softmax" else jax.nn.sigmoid
        return link(score).mean(axis=0)

    return jax.lax.map(of_draw, (jax.random.split(key, len(variances)), variances, whitened)).mean(axis=0).T


def sample(
    problem: Problem,
    n_classes: int,
    likelihood: str,
    seed: int = 0,
    n_chains: int = 2,
    n_warmup: int = 400,
    n_draws: int = 600,
) -> Chains:
    """Run NUTS on a problem, and predict its new samples."""
    start = time.process_time()
    with numpyro_session():
        sampler = _sampler(n_classes, likelihood, n_chains, n_warmup, n_draws)
        keys = jax.random.split(jax.random.key(seed))
        sampler.run(keys[0], problem.kernels, problem.codes, extra_fields=("diverging",))
        drawn = sampler.get_samples()
        own = drawn["variances"], drawn["whitened"], problem.kernels, problem.new, problem.diagonal
        found = np.asarray(_mean_probabilities(keys[1], *own, likelihood=likelihood), dtype=float)
        variances = np.asarray(drawn["variances"], dtype=float)
        divergences = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    jax.clear_caches()  # what is compiled for one problem would fill the memory over hundreds of them
    total = variances.sum(axis=1)
    watched = np.column_stack([np.log(total), variances / total[:, None]]).T
    chains = [values.reshape(n_chains, n_draws) for values in watched]
    return Chains(
        found / found.sum(axis=1, keepdims=True),
        np.sqrt(variances),
        max(float(array_stats.rhat(values)) for values in chains),
        min(float(array_stats.ess(values)) for values in chains),
        divergences,
        time.process_time() - start,
    )
