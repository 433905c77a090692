r"""The closed-form posterior as a NumPyro guide, and the evidence bound by Monte Carlo.

The variational posterior of BEMKL is

    q(λ) q(a) q(G) q(γ) q(ω) q(b, e) q(f)                in classification,
    q(λ) q(a) q(G) q(γ) q(ω) q(b, e) q(υ) q(ε)           in regression.

`closed_form_guide` writes it down from the parameters of its factors, with NumPyro's densities and nothing of the
formulas for moments, entropies and the bound. NumPyro's ``Trace_ELBO`` of `literal_model` and this guide averages
log p(y, Θ) - log q(Θ) over draws of q: an estimate of the bound that shares no algebra with ``elbo``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from numpyro.infer import Trace_ELBO

from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.program import literal_model

if TYPE_CHECKING:  # no formula of the bound enters here
    from bayesmkl._numerics.arrays import Array
    from bayesmkl.bemkl.moments import Gamma, Gaussian

BLOCK = 256  # particles at once: memory is of the order of BLOCK * n_kernels * n_samples numbers
# It runs as fast as with the default, and compiles in two thirds of the time.
COMPILER = {"xla_backend_optimization_level": 1}


def closed_form_guide(state: State) -> Callable[[Any], None]:
    """Write the closed-form posterior as a guide for `literal_model`.

    Parameters
    ----------
    state : State
        Any state, not only a fixed point. Its numbers may be traced.

    Returns
    -------
    callable
        Takes the problem, as the model does, and samples every latent site of it.

    Notes
    -----
    The intercept and the kernel weights have one joint factor: it is drawn at the auxiliary site ``readout`` and
    its parts are handed to the two sites of the model, which add no density of their own.

    q(f_i) is a unit-variance normal at μ_i cut off at the margin ν. The state holds its mean and variance, from
    which μ_i follows by Var = 1 - r (y_i E[f_i] - ν) and E[f_i] = μ_i + y_i r. After an update of q(f) it is
    E[e]' E[g_i] + E[b], but taken from there it would move with the other factors.
    """

    def guide(problem: Any) -> None:
        known = state._asdict().items()
        _sample_precisions({name: f for name, f in known if "precision" in name and f is not None})
        numpyro.sample("dual", _normal(state.dual))
        intermediate = state.intermediate
        columns = jnp.eye(problem.stack.n_rows)  # columns are independent and share their covariance
        numpyro.sample(
            "intermediate", dist.MatrixNormal(intermediate.mean, _cholesky(intermediate.cov), columns)
        )
        readout = numpyro.sample("readout", _normal(state.readout), infer={"is_auxiliary": True})
        numpyro.sample("intercept", dist.Delta(readout[0]))
        numpyro.sample("kernel_weights", dist.Delta(readout[1:], event_dim=1))
        if state.latent is not None:
            numpyro.sample(
                "latent", _cut_off_normal(state.latent, problem.y, problem.outcome.margin).to_event(1)
            )

    return guide


def elbo_particles(problem: Problem, state: State, n_particles: int, random_state: int = 0) -> np.ndarray:
    """Draw log p(y, Θ) - log q(Θ), Θ ~ q, whose mean is the evidence lower bound.

    Parameters
    ----------
    problem : Problem
    state : State
    n_particles : int
        Number of draws.
    random_state : int, default=0
        Seed. Two states of one shape get the same underlying random numbers from it: their difference is known
        better than either.

    Returns
    -------
    array of shape (n_particles,)
    """
    with numpyro_session():
        key = jax.random.key(random_state)
        problem, state = jax.tree.map(lambda x: jnp.asarray(x, float), (problem, state))
        blocks = [
            np.asarray(_elbo_block(problem, state, jax.random.split(jax.random.fold_in(key, block), BLOCK)))
            for block in range(math.ceil(n_particles / BLOCK))
        ]
        return np.concatenate(blocks)[:n_particles]


@partial(jax.jit, compiler_options=COMPILER)
def _elbo_block(problem: Problem, state: State, keys: Array) -> Any:
    """Return the bounds of single particles, one per key."""
    guide = closed_form_guide(state)

    def particle(key: Array) -> Any:
        return -Trace_ELBO().loss(key, {}, literal_model, guide, problem)

    return jax.vmap(particle)(keys)


def _sample_precisions(factors: dict[str, Gamma]) -> None:
    """Draw all of them at one auxiliary site: a sampler of gamma variables takes long to compile."""
    rates, split = ravel_pytree({name: factor.rate for name, factor in factors.items()})
    concentrations, _ = ravel_pytree(
        {name: jnp.broadcast_to(f.concentration, jnp.shape(f.rate)) for name, f in factors.items()}
    )
    law = dist.Gamma(concentrations, rates).to_event(1)
    for name, part in split(numpyro.sample("precisions", law, infer={"is_auxiliary": True})).items():
        numpyro.sample(name, dist.Delta(part, event_dim=jnp.ndim(part)))


def _normal(factor: Gaussian) -> dist.Distribution:
    return dist.MultivariateNormal(factor.mean, scale_tril=_cholesky(factor.cov))


def _cholesky(cov: Array) -> Any:
    """Factor the correlation matrix: variances of pruned kernels lie below the rounding errors of the others."""
    std = jnp.sqrt(jnp.diagonal(cov))
    return std[:, None] * jnp.linalg.cholesky(cov / (std[:, None] * std))


def _cut_off_normal(factor: Any, y: Array, margin: Array | float) -> dist.Distribution:
    """Return q(f): y f is a normal variable above the margin."""
    excess = y * factor.mean - margin
    location = y * factor.mean - (1.0 - factor.variance) / excess  # y μ
    above = dist.TruncatedNormal(location, 1.0, low=margin)
    return dist.TransformedDistribution(above, dist.transforms.AffineTransform(0.0, y))
