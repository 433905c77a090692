r"""NUTS on the collapsed model, by NumPyro.

It works on softened variables: a Student t variable x (a_i, b, e_m) is written x = w + w³/6. In x itself the heavy
tails make trajectories long; through a normal quantile function, or with its precision as a variable, x grows
exponentially and the likelihood becomes too stiff for one step size. The cubic keeps both within bounds.

The two mirror images (a, e) and (-a, -e), and what little is known of the scale (c a, e / c), stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.infer import (
    NUTS,
    DiscreteHMCGibbs,
)
from numpyro.infer.reparam import Reparam

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.numpyro_session import numpyro_session
from bayesmkl._utils.options import NUTS as NUTSOptions
from bayesmkl.bemkl.inference.chains import Chains, run_chains
from bayesmkl.bemkl.inference.numpyro_model import collapsed_model
from bayesmkl.bemkl.models.kernel_priors import SpikeSlab
from bayesmkl.bemkl.models.model import Problem
from bayesmkl.bemkl.models.moments import Gamma

STATISTICS = {
    "diverging": "diverging",
    "acceptance_rate": "accept_prob",
    "n_steps": "num_steps",
    "energy": "energy",
}


class CubicTransform(dist.transforms.ParameterFreeTransform):
    """x = w + w³/6, a bijection of the real line.

    Examples
    --------
    >>> with numpyro_session():
    ...     CubicTransform()(3.0)
    7.5
    """

    domain = constraints.real
    codomain = constraints.real

    def __call__(self, x: Array) -> Any:
        """Return the variable of w."""
        return x + x**3 / 6.0

    def _inverse(self, y: Array) -> Any:
        return 2.0 * jnp.sqrt(2.0) * jnp.sinh(jnp.arcsinh(1.5 * y / jnp.sqrt(2.0)) / 3.0)

    def log_abs_det_jacobian(self, x: Array, y: Array | None, intermediates: Array | None = None) -> Any:
        """Return the log derivative by w."""
        return jnp.log1p(0.5 * x**2)


class _Softened(Reparam):
    """Sample w, at the site `<name>_softened`, in the place of x = w + w³/6."""

    def __call__(self, name: str, fn: dist.Distribution, obs: Array) -> tuple[None, Any]:
        cubic = CubicTransform()
        w = numpyro.sample(f"{name}_softened", dist.TransformedDistribution(fn, cubic.inv))
        return None, cubic(w)


def softened_model(problem: Problem) -> None:
    """`collapsed_model` with its Student t variables softened; they stay deterministic sites under their names."""
    names = ["dual", "intercept"] + ["kernel_weights"] * isinstance(problem.priors.kernel, Gamma)
    handlers.reparam(collapsed_model, config={name: _Softened() for name in names})(problem)


def fit_nuts(
    problem: Problem, options: NUTSOptions, seed: int, on_block: Callable[[int, str], None] | None = None
) -> Chains:
    """Draw from the posterior by NUTS.

    Parameters
    ----------
    problem : Problem
        With any kernel prior; under SpikeSlab the switches are drawn in turn, NUTS moves the rest.
    options : NUTS
        Chains run one after the other, or all at once with ``chain_method="vectorized"``.
    seed : int
    on_block : callable, optional
        See `run_chains`.

    Returns
    -------
    Chains
        Statistics are diverging, acceptance_rate, n_steps (leapfrog steps) and energy.
    """
    vectorized = options.chain_method == "vectorized"
    switches = isinstance(problem.priors.kernel, SpikeSlab)
    with numpyro_session():
        problem = jax.tree.map(jnp.asarray, problem)
        programs = _programs(options.target_accept, options.n_warmup, switches, vectorized)
        keys = jax.random.split(jax.random.key(seed), options.n_chains)

        def start(group: list[int]) -> Any:
            key = keys[jnp.array(group)] if vectorized else keys[group[0]]
            return programs.kernel.init(key, options.n_warmup, None, (problem,), {})

        def advance(state: Any, n: int, keep: bool) -> Any:
            state, (z, stats) = jax.block_until_ready(programs.scan(state, problem, n))
            if not keep:
                return state, {}, {}
            z, stats = jax.tree.map(lambda v: jnp.moveaxis(v, 0, 1) if vectorized else v[None], (z, stats))
            return state, programs.constrain(z, problem), stats

        everyone = list(range(options.n_chains))
        groups = [everyone] if vectorized else [[c] for c in everyone]
        return run_chains(start, advance, groups, options, on_block)


class _Programs(NamedTuple):
    kernel: Any
    scan: Callable[[Any, Any, int], Any]  # (state, problem, n) -> n steps of the kernel
    constrain: Callable[[Any, Any], dict[str, Any]]  # draws of NUTS's own variables -> those of the model


@functools.lru_cache(maxsize=8)
def _programs(target_accept: float, n_warmup: int, switches: bool, vectorized: bool) -> _Programs:
    """Return NUTS and its compiled steps, which fits of equal shape share: compiling takes longer than sampling.

    NumPyro's kernel remembers whether it was started for one chain or for several at once, so each has its own.
    """
    kernel: Any = NUTS(softened_model, target_accept_prob=target_accept)
    if switches:
        kernel = DiscreteHMCGibbs(kernel, modified=True)

    @functools.partial(jax.jit, static_argnums=2)
    def scan(state: Any, problem: Problem, n: int) -> Any:
        def step(state: Any, _: None) -> Any:
            state = kernel.sample(state, (problem,), {})
            hmc = getattr(state, "hmc_state", state)
            return state, (state.z, {ours: getattr(hmc, theirs) for ours, theirs in STATISTICS.items()})

        return jax.lax.scan(step, state, None, length=n)

    @jax.jit
    def constrain(z: Array, problem: Problem) -> dict[str, Any]:
        values = jax.vmap(jax.vmap(kernel.postprocess_fn((problem,), {})))(z)
        return {name: values[name] for name in _sites(problem)}

    return _Programs(kernel, scan, constrain)


def _sites(problem: Problem) -> list[str]:
    names = ["dual", "intercept", "kernel_weights"]
    if problem.outcome.has_noise:
        names += ["intermediate_precision", "noise_precision"]
    return names + ["kernel_inclusion"] * isinstance(problem.priors.kernel, SpikeSlab)
