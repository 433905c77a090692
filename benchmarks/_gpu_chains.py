"""Chains of NUTS over hyperparameters of an additive Gaussian process with normal noise, all at once.

Every step of every chain is one evidence with its gradient: two factorizations' worth of flops, `n_samples**3`, and
two reads of the kernels, which all chains share. That of labels, by expectation propagation, is timed alone.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from _gpu_devices import device, is_accelerator, seconds_of
from _report import claim, markdown_table
from numpyro.diagnostics import summary
from numpyro.infer import NUTS
from numpyro.infer.util import potential_energy

from bayesmkl._utils.devices import numpyro_session
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import HalfT, LogNormal
from bayesmkl.gp.program import differentiable_evidence, evidence_program
from bayesmkl.kernels import Gaussian, KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian as NormalNoise
from bayesmkl.outcomes import Probit

N_FEATURES = 13
ACCEPT, DEEPEST = 0.7, 5  # of a trajectory: acceptance that is aimed at, and doublings
LEAST_ESS = 400.0  # of every kernel weight, of all chains together


class Size(NamedTuple):
    """How much is drawn."""

    n_samples: int
    n_chains: int
    n_warmup: int
    n_draws: int  # of each chain


def size_of(fast: bool) -> Size:
    if fast:
        return Size(20, 2, 4, 4)
    return Size(400, 64, 80, 20) if is_accelerator() else Size(60, 8, 80, 20)


def model_of(kind: str, size: Size) -> Hypermodel:
    """An additive process on thirteen features of which three matter, with its kernels on the device."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(size.n_samples, N_FEATURES))
    f = 2.0 * X[:, 0] - X[:, 1] + np.sin(2.0 * X[:, 2])
    stack = DenseStack(KernelBank([Gaussian(width=2.0)], views="each").fit(X).evaluate(X))
    covariance = Additive(
        DenseStack(jax.numpy.asarray(stack.kernels)), jax.numpy.asarray(kernel_units(stack)), 10.0
    )
    noise = rng.normal(size=len(X))
    if kind == "labels":
        y = np.where(f + noise > 0.0, 1.0, -1.0)
        return Hypermodel(covariance, Probit(), y[None], HalfT(4.0, 1.5), LogNormal(0.3, 1.0), ep_evidence)
    y = (f + 0.5 * noise) / f.std()
    return Hypermodel(
        covariance, NormalNoise(), y[None], HalfT(4.0, 1.0), LogNormal(0.3, 1.0), exact_evidence
    )


def gradient_seconds(model: Hypermodel, size: Size) -> float:
    """Seconds of one evidence and its gradient, of all chains together."""
    weights, parameters = starts(model, size)
    gradient = jax.vmap(jax.value_and_grad(differentiable_evidence(model), argnums=(0, 1)))
    return seconds_of(gradient, weights, parameters)


def starts(model: Hypermodel, size: Size) -> tuple[Any, Any]:
    """Kernel weights and parameters of the likelihood where chains start."""
    weights = 0.1 + np.abs(np.random.default_rng(1).normal(size=(size.n_chains, N_FEATURES)))
    parameters = np.full((size.n_chains, 1, len(model.likelihood.names)), 0.5)
    return jax.numpy.asarray(weights), jax.numpy.asarray(parameters)


def sample_chains(model: Hypermodel, size: Size) -> dict[str, float]:
    """Draw twice, the second time with everything compiled."""
    weights, parameters = starts(model, size)
    names = {"kernel_weights": weights} | {
        name: parameters[..., k] for k, name in enumerate(model.likelihood.names)
    }
    begin = {name: jax.numpy.log(value) for name, value in names.items()}  # unconstrained
    potential = partial(potential_energy, evidence_program(model), (), {})
    sampler = NUTS(potential_fn=potential, target_accept_prob=ACCEPT, max_tree_depth=DEEPEST)

    @jax.jit
    def sample(key: Any, begin: Any) -> Any:
        """Run all chains; return what they draw, (n_draws, n_chains, n_kernels)."""
        state = sampler.init(jax.random.split(key, size.n_chains), size.n_warmup, begin, (), {})

        def step(state: Any, _: Any) -> tuple[Any, Any]:
            state = sampler.sample(state, (), {})
            return state, jax.numpy.exp(state.z["kernel_weights"])

        return jax.lax.scan(step, state, length=size.n_warmup + size.n_draws)[1][size.n_warmup :]

    seconds = {}
    for name, seed in (("compiled", 0), ("again", 1)):
        start = time.perf_counter()
        drawn = np.array(sample(jax.random.key(seed), begin)).swapaxes(0, 1)
        seconds[name] = time.perf_counter() - start
    found = summary({"w": drawn})["w"]
    return seconds | {"r_hat": float(np.max(found["r_hat"])), "ess": float(np.min(found["n_eff"]))}


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Time evidences, and draw from the posterior of a regression."""
    rates, size = device(fast), size_of(fast)
    with numpyro_session():
        kinds = ("target",) if fast else ("target", "labels")
        models = {kind: model_of(kind, size) for kind in kinds}
        gradient = {kind: gradient_seconds(model, size) for kind, model in models.items()}
        chains = sample_chains(models["target"], size)
    floor = 2.0 * size.n_chains * size.n_samples**3 / 1e9 / rates.gemm_gflop_s
    rows = [
        ["evidence and gradient of all chains, normal noise", f"{gradient['target'] * 1e3:.3g} ms"],
        ["its flops at the rate of matrix products", f"{floor * 1e3:.3g} ms"],
        *(["evidence and gradient, labels", f"{gradient[kind] * 1e3:.3g} ms"] for kind in kinds[1:]),
        ["all chains, normal noise, compilation included", f"{chains['compiled']:.1f} s"],
        ["the same again", f"{chains['again']:.1f} s"],
        ["largest R-hat of a kernel weight", f"{chains['r_hat']:.3f}"],
        ["least effective number of draws of one", f"{chains['ess']:.0f} of {size.n_chains * size.n_draws}"],
    ]
    what = f"{size.n_chains} chains of marginal inference on a GPU, {size.n_samples} samples"
    claims = [
        claim(what, 10.0, chains["again"], " s"),
        claim(f"{what}: effective draws", LEAST_ESS, chains["ess"], at_least=True),
    ]
    head = (
        f"{size.n_samples} samples, {N_FEATURES} kernels, {size.n_chains} chains, "
        f"{size.n_warmup} steps of warm-up and {size.n_draws} draws"
    )
    numbers = {
        "device": rates._asdict(),
        "size": size._asdict(),
        "gradient": gradient,
        "floor": floor,
        "chains": chains,
        "claims": claims if is_accelerator() else [],
    }
    return f"{rates.report()}\n\n" + markdown_table([head, ""], rows), numbers
