r"""The models of `bayesmkl.marginal` as NumPyro programs: every function value explicit, or none.

`explicit_program` has a site for every function value, so that what NUTS says of it depends on no approximation of an
integral:

==================  ==============================================================================================
`kernel_weights`    by their prior; deterministic, (n_kernels,)
`parameters`        of the likelihood, log-normal; deterministic, (n_outputs, n_parameters)
`functions`         `Additive`: normal `z_m` with :math:`g_m = L_m z_m`, :math:`L_m L_m^\top = K_m / c_m`
`dual`, `noise`     `Weighted`: normal, `a` and the sum of the :math:`\xi_m`
`intercept`         normal, (n_outputs,)
`score`             deterministic, (n_outputs, n_samples)
==================  ==============================================================================================

`evidence_program` has the hyperparameters alone, and the evidence as its factor. Both take the place of
`bayesmkl.marginal.hyperposterior` where importance sampling does not do, and check it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl.marginal.covariances import JITTER, Additive, Weighted
from bayesmkl.marginal.hyperposterior import Hypermodel
from bayesmkl.marginal.hyperpriors import DirichletShares, HalfT, Horseshoe, StudentT
from bayesmkl.marginal.numpyro_priors import NumPyroPrior

__all__ = ["differentiable_evidence", "evidence_program", "explicit_program"]


def explicit_program(model: Hypermodel) -> Callable[[], None]:
    """Return the NumPyro program of a model, to be run in double precision.

    Parameters
    ----------
    model : Hypermodel
        With a dense stack.
    """
    draw_scores = _scores_of(model)
    targets = jnp.asarray(model.targets)
    n_outputs = len(model.targets)

    def program() -> None:
        weights, parameters = _hyperparameters(model)
        intercept = numpyro.sample(
            "intercept", dist.Normal(0.0, model.covariance.intercept_std).expand([n_outputs]).to_event(1)
        )
        scores = numpyro.deterministic("score", draw_scores(weights) + intercept[:, None])
        for k in range(n_outputs):
            log_density = model.likelihood.log_density(targets[k], scores[k], parameters[k])
            numpyro.factor(f"target_{k}", log_density.sum())

    return program


def evidence_program(model: Hypermodel) -> Callable[[], None]:
    """Return the NumPyro program of the hyperparameters of a model, to be run in double precision.

    Parameters
    ----------
    model : Hypermodel
        Whose stack holds a JAX array.
    """
    log_evidence = differentiable_evidence(model)

    def program() -> None:
        numpyro.factor("evidence", log_evidence(*_hyperparameters(model)))

    return program


def differentiable_evidence(model: Hypermodel) -> Callable[[Any, Any], Any]:
    """Return the log evidence of kernel weights and parameters, which JAX differentiates by its analytic gradient."""

    def evaluate(weights: Any, parameters: Any) -> tuple[Any, tuple[Any, Any]]:
        matrix = model.covariance.matrix(weights)
        found = [
            model.evidence(model.likelihood, jnp.asarray(y), matrix, own)
            for y, own in zip(model.targets, parameters, strict=True)
        ]
        adjoint = sum(output.by_covariance() for output in found)
        by_parameters = jnp.stack([output.by_parameters for output in found])
        value = sum(output.log_evidence for output in found)
        return value, (model.covariance.pull(weights, adjoint), by_parameters)

    @jax.custom_vjp
    def log_evidence(weights: Any, parameters: Any) -> Any:
        return evaluate(weights, parameters)[0]

    def backward(slopes: tuple[Any, Any], factor: Any) -> tuple[Any, Any]:
        return factor * slopes[0], factor * slopes[1]

    log_evidence.defvjp(evaluate, backward)
    return log_evidence


def _hyperparameters(model: Hypermodel) -> tuple[Any, Any]:
    """Draw kernel weights, and parameters of the likelihood, (n_outputs, n_parameters)."""
    weights = numpyro.deterministic("kernel_weights", _weights(model))
    prior, shape = model.parameter_prior, [len(model.targets), len(model.likelihood.names)]
    logs = numpyro.sample(
        "log_parameters", dist.Normal(np.log(prior.median), prior.log_std).expand(shape).to_event(2)
    )
    return weights, numpyro.deterministic("parameters", prior.least + jnp.exp(logs))


def _weights(model: Hypermodel) -> Any:
    prior, n_kernels = model.weight_prior, model.covariance.stack.n_kernels
    if isinstance(prior, HalfT):
        free = numpyro.sample(
            "weights", dist.StudentT(prior.df, 0.0, prior.scale).expand([n_kernels]).to_event(1)
        )
        return jnp.abs(free)
    if isinstance(prior, StudentT):
        return numpyro.sample(
            "weights", dist.StudentT(prior.df, 0.0, prior.scale).expand([n_kernels]).to_event(1)
        )
    if isinstance(prior, DirichletShares):
        total = numpyro.sample("total", dist.StudentT(prior.df, 0.0, prior.scale))
        parts = numpyro.sample("parts", dist.Dirichlet(jnp.full(n_kernels, prior.concentration)))
        return jnp.abs(total) * jnp.sqrt(parts)
    if isinstance(prior, Horseshoe):
        common = prior.scale * numpyro.sample("common", dist.HalfCauchy(1.0))
        own = numpyro.sample("own", dist.HalfCauchy(1.0).expand([n_kernels]).to_event(1))
        size = common * own
        return size / jnp.sqrt(1.0 + (size / prior.slab) ** 2)
    if isinstance(prior, NumPyroPrior):
        return numpyro.sample("weights", prior.distribution.expand([n_kernels]).to_event(1))
    raise TypeError(f"`weight_prior` must be a prior of bayesmkl.marginal; got {prior!r}.")


def _scores_of(model: Hypermodel) -> Callable[[Any], Any]:
    """Return a function from kernel weights to scores without intercept, (n_outputs, n_samples)."""
    covariance, (n_outputs, n_samples) = model.covariance, model.targets.shape
    if isinstance(covariance, Additive):
        factors = jnp.asarray(
            [
                np.linalg.cholesky(plus_diagonal(kernel, JITTER * np.trace(kernel) / n_samples) / unit)
                for kernel, unit in zip(covariance.stack.each(), covariance.units, strict=True)
            ]
        )
        shape = [n_outputs, len(factors), n_samples]

        def additive(weights: Any) -> Any:
            functions = numpyro.sample("functions", dist.Normal().expand(shape).to_event(3))
            return jnp.einsum("m,mij,kmj->ki", weights, factors, functions)

        return additive
    if isinstance(covariance, Weighted):
        kernels = jnp.asarray(np.array(list(covariance.stack.each())))

        def weighted(weights: Any) -> Any:
            dual = numpyro.sample("dual", dist.Normal().expand([n_outputs, kernels.shape[2]]).to_event(2))
            noise = numpyro.sample("noise", dist.Normal().expand([n_outputs, n_samples]).to_event(2))
            alone = covariance.intermediate_std * jnp.sqrt((weights**2).sum())
            return dual @ jnp.tensordot(weights, kernels, 1).T + alone * noise

        return weighted
    raise TypeError(f"`covariance` must be Additive or Weighted; got {covariance!r}.")
