"""Markov chains over hyperparameters, by NumPyro: where importance weights have too heavy a tail.

NUTS moves in the coordinates of `bayesmkl.gp.hyperpriors`, on the same log posterior and gradient as the climb to the
mode. It starts there, with the curvature there for its metric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC, NUTS

from bayesmkl._utils.devices import numpyro_session
from bayesmkl.gp.hyperposterior import CLOSE, Draws, Hypermodel, Mode, Point, Spread, evaluate_slope
from bayesmkl.gp.selection import draws_of_chains

TARGET_ACCEPT = 0.85
DEEPEST = 7  # doublings of a trajectory


def draw_chains(
    model: Hypermodel, mode: Mode, n_draws: int, n_chains: int, n_warmup: int, rng: np.random.Generator
) -> Draws:
    """Draw by NUTS, one chain after the other.

    Parameters
    ----------
    model : Hypermodel
    mode : Mode
        Chains start around it.
    n_draws : int
        Of all chains together.
    n_chains : int
    n_warmup : int
        Steps of each chain before the first draw that counts.
    rng : numpy.random.Generator

    Returns
    -------
    Draws
        Chain after chain, all of the same weight; without the evidence of the model, which is NaN.
    """
    visited: dict[bytes, Point] = {}
    log_density = _on_jax(model, mode, visited)
    cov = mode.cov.matrix() if isinstance(mode.cov, Spread) else mode.cov
    size, per_chain = len(mode.coordinates), -(-n_draws // n_chains)
    chains = []
    with numpyro_session():
        kernel = NUTS(
            potential_fn=lambda u: -log_density(u),
            inverse_mass_matrix=jnp.asarray(cov),
            dense_mass=True,
            target_accept_prob=TARGET_ACCEPT,
            max_tree_depth=DEEPEST,
        )
        for _ in range(n_chains):
            start = mode.coordinates + np.linalg.cholesky(cov) @ rng.standard_normal(size)
            sampler = MCMC(kernel, num_warmup=n_warmup, num_samples=per_chain, progress_bar=False)
            sampler.run(jax.random.key(int(rng.integers(2**31))), init_params=jnp.asarray(start))
            chains.append(np.asarray(sampler.get_samples(), dtype=np.float64))
    coordinates = np.concatenate(chains)
    return draws_of_chains(coordinates, [visited[u.tobytes()] for u in coordinates], np.stack(chains))


def _on_jax(model: Hypermodel, mode: Mode, visited: dict[bytes, Point]) -> Callable[[Any], Any]:
    """Return the log posterior as a function that JAX differentiates; keep what is found where it is asked for."""
    latest = [mode.point]

    def on_host(words: Any) -> np.ndarray:
        u = np.array(words).view(np.float64)[:, 0]
        found = np.concatenate([[-np.inf], np.zeros(len(u))])
        try:
            point, slope = evaluate_slope(model, u, latest[-1].sites, tol=CLOSE)
        except np.linalg.LinAlgError:
            pass  # a place where nothing is
        else:
            latest[:] = [point]
            visited[u.tobytes()] = point
            found[0], found[1:] = point.log_density, slope
        return found.view(np.uint32).reshape(-1, 2)

    def both(u: Any) -> tuple[Any, Any]:
        # as words: JAX calls the host from a thread of its own, where numbers of double precision become single
        words = jax.lax.bitcast_convert_type(u, jnp.uint32)
        found = jax.pure_callback(on_host, jax.ShapeDtypeStruct((len(u) + 1, 2), jnp.uint32), words)
        values = jax.lax.bitcast_convert_type(found, jnp.float64)
        return values[0], values[1:]

    @jax.custom_vjp
    def log_density(u: Any) -> Any:
        return both(u)[0]

    log_density.defvjp(both, lambda slope, factor: (factor * slope,))
    return log_density
