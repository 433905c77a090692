r"""Localized BEMKL as NumPyro programs (`bayesmkl.bemkl.models.localized`).

`literal_localized` has a sample site per variable. `collapsed_localized` has λ, γ, ω_m0, G and f integrated out, as
`bayesmkl.bemkl.inference.numpyro_model` does,

    f_i | a, b, w ~ N(Σ_m e_m(z_i) k_mi' a + b, s_i²),     s_i² = 1/ε + Σ_m e_m(z_i)² / υ ,

with e_m(z_i) = w_m0 + Σ_d w_md φ_id; precisions ω_m1 of the local weights stay, since many weights share each.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._numerics.arrays import Array
from bayesmkl.bemkl.inference.numpyro_model import BeyondMargin, MarginalLabel
from bayesmkl.bemkl.models.localized import LocalizedProblem
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal.numpyro_program import observe

__all__ = ["collapsed_localized", "literal_localized", "localized_program"]


def literal_localized(problem: LocalizedProblem) -> None:
    """Sample every variable of the model and observe the labels or the target.

    Parameters
    ----------
    problem : LocalizedProblem

    Notes
    -----
    Sites: sample_precision, dual (N,); intercept_precision, intercept (); kernel_precision, kernel_weights (P,);
    with more than one feature gate_precision (P,) and gate_weights (P, D - 1); intermediate (P, N); y (N,); latent
    (N,) of labels; intermediate_precision and noise_precision () of a target.
    """
    priors, stack = problem.priors, problem.stack
    dual = _normal_gamma("dual", "sample_precision", priors.sample, (stack.n_train,))
    intercept = _normal_gamma("intercept", "intercept_precision", priors.intercept, ())
    weights = _normal_gamma("kernel_weights", "kernel_precision", priors.kernel, (stack.n_kernels,))
    gates = _gates(problem, weights, jnp.asarray(problem.features))
    upsilon, epsilon = _noises(problem)
    projection = stack.apply(jnp.asarray(dual))
    law = dist.Normal(projection, upsilon**-0.5).to_event(2)
    intermediate = numpyro.sample("intermediate", law)
    mean = (gates * intermediate).sum(axis=0) + intercept
    if problem.margin is None:
        observed: dist.Distribution = dist.Normal(mean, epsilon**-0.5)
    else:
        latent = numpyro.sample("latent", dist.Normal(mean, 1.0).to_event(1))
        observed = BeyondMargin(latent, problem.margin)
    with numpyro.plate("sample", stack.n_rows):
        numpyro.sample("y", observed, obs=problem.y)


def collapsed_localized(problem: LocalizedProblem, y: Array | None = None, new: Any = None) -> None:
    """Sample a, b and w, ω_m1, and of a target υ and ε, with everything else integrated out.

    Parameters
    ----------
    problem : LocalizedProblem
    y : array of shape (n_samples,), optional
        Labels or target to observe; None draws them.
    new : tuple of a stack and array of shape (n_rows, n_features), optional
        New rows, which add score_new and y_new.

    Notes
    -----
    Sites are those of `literal_localized` that are left; the deterministic site score (N,) is the mean score.
    """
    priors, stack = problem.priors, problem.stack
    dual = numpyro.sample("dual", _student_t(priors.sample, (stack.n_train,)))
    intercept = numpyro.sample("intercept", _student_t(priors.intercept, ()))
    weights = numpyro.sample("kernel_weights", _student_t(priors.kernel, (stack.n_kernels,)))
    local = _local_weights(problem)
    upsilon, epsilon = _noises(problem)

    def law(stack: Any, features: Array) -> tuple[Any, dist.Distribution]:
        gates = _add(weights, local, jnp.asarray(features))
        score = (gates * stack.apply(jnp.asarray(dual))).sum(axis=0) + intercept
        scale = jnp.sqrt(1.0 / epsilon + (gates**2).sum(axis=0) / upsilon)
        if problem.margin is None:
            return score, dist.Normal(score, scale)
        return score, MarginalLabel(score, scale, problem.margin)

    score, observed = law(stack, problem.features)
    numpyro.deterministic("score", score)
    observe("y", observed, y)
    if new is not None:
        score, drawn = law(*new)
        numpyro.deterministic("score_new", score)
        observe("y_new", drawn, None)


def localized_program(
    problem: LocalizedProblem, new_kernels: np.ndarray | None = None, new_features: np.ndarray | None = None
) -> NumPyroProgram:
    """Return the collapsed model of training kernels, features of gates, and labels or a target.

    Parameters
    ----------
    problem : LocalizedProblem
    new_kernels : ndarray of shape (n_kernels, n_rows, n_train), optional
    new_features : ndarray of shape (n_rows, n_features), optional
    """
    nothing: Any = None
    settings = problem._replace(stack=nothing, gram=None, y=None, features=None)

    def collapsed(
        kernels: Array,
        features: Array,
        y: Array | None = None,
        new_kernels: Array | None = None,
        new_features: Array | None = None,
    ) -> None:
        new = None if new_kernels is None else (DenseStack(jnp.asarray(new_kernels)), new_features)
        own = settings._replace(stack=DenseStack(jnp.asarray(kernels)), features=features)
        collapsed_localized(own, y, new)

    stack: Any = problem.stack
    data = {"kernels": stack.columns(slice(None)), "features": problem.features, "y": problem.y}
    new = {} if new_kernels is None else {"new_kernels": new_kernels, "new_features": new_features}
    return NumPyroProgram(collapsed, data, new)


def _gates(problem: LocalizedProblem, weights: Any, features: Any) -> Any:
    return _add(weights, _local_weights(problem), features)


def _local_weights(problem: LocalizedProblem) -> Any:
    """Sample ω_m1 and w_md, where there is more than one feature."""
    n_kernels, n_local = problem.stack.n_kernels, problem.features.shape[1] - 1
    if not n_local:
        return None
    precision = numpyro.sample(
        "gate_precision", dist.Gamma(*problem.priors.gate).expand([n_kernels]).to_event(1)
    )
    law = dist.Normal(jnp.zeros((n_kernels, n_local)), precision[:, None] ** -0.5)
    return numpyro.sample("gate_weights", law.to_event(2))


def _add(weights: Any, local: Any, features: Any) -> Any:
    """Return gates of all kernels, (n_kernels, n_rows)."""
    constant = weights[:, None] * features[:, 0]
    return constant if local is None else constant + local @ features[:, 1:].T


def _noises(problem: LocalizedProblem) -> tuple[Any, Any]:
    """Return υ and ε, known of labels and sampled of a target."""
    if problem.margin is not None:
        return jnp.asarray(problem.intermediate_precision), jnp.asarray(1.0)
    upsilon = numpyro.sample("intermediate_precision", dist.Gamma(*problem.priors.intermediate))
    return upsilon, numpyro.sample("noise_precision", dist.Gamma(*problem.priors.noise))


def _normal_gamma(name: str, precision_name: str, prior: Gamma, shape: tuple[int, ...]) -> Any:
    precision = numpyro.sample(precision_name, dist.Gamma(*prior).expand(shape).to_event(len(shape)))
    return numpyro.sample(name, dist.Normal(0.0, precision**-0.5).to_event(len(shape)))


def _student_t(prior: Gamma, shape: tuple[int, ...]) -> dist.Distribution:
    scale = (prior.rate / prior.concentration) ** 0.5
    return dist.StudentT(2.0 * prior.concentration, 0.0, scale).expand(shape).to_event(len(shape))
