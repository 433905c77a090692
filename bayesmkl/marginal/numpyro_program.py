r"""The models of `bayesmkl.marginal` as a NumPyro program, with nothing integrated out.

The program has a site for every function value, so that what NUTS says of it depends on no approximation of an
integral:

=====================  =========================================================  =============================
`kernel_weights`       by their prior                                             deterministic, (n_kernels,)
`parameters`           of the likelihood, log-normal                              deterministic
`functions`            `Additive`: :math:`g_m = L_m z_m`, :math:`L_m L_m^\top = K_m / c_m`    `z`: normal
`dual`, `noise`        `Weighted`: `a` and the sum of the :math:`\xi_m`               normal
`score`                the training scores                                         deterministic
=====================  =========================================================  =============================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl.marginal.covariances import JITTER, Additive, Weighted
from bayesmkl.marginal.hyperposterior import Hypermodel
from bayesmkl.marginal.hyperpriors import DirichletShares, HalfT, Horseshoe, StudentT

__all__ = ["explicit_program"]


def explicit_program(model: Hypermodel) -> Callable[[], None]:
    """Return the NumPyro program of a model, to be run in double precision.

    Parameters
    ----------
    model : Hypermodel
        With a dense stack.
    """
    draw_scores = _scores_of(model)
    targets = jnp.asarray(model.targets)
    names, n_outputs = model.likelihood.names, len(model.targets)

    def program() -> None:
        weights = numpyro.deterministic("kernel_weights", _weights(model))
        prior = model.parameter_prior
        own = numpyro.sample(
            "log_parameters",
            dist.Normal(np.log(prior.median), prior.log_std).expand([n_outputs, len(names)]).to_event(2),
        )
        parameters = numpyro.deterministic("parameters", jnp.exp(own))
        intercept = numpyro.sample(
            "intercept", dist.Normal(0.0, model.covariance.intercept_std).expand([n_outputs]).to_event(1)
        )
        scores = numpyro.deterministic("score", draw_scores(weights) + intercept[:, None])
        for k in range(n_outputs):
            log_density = model.likelihood.log_density(targets[k], scores[k], parameters[k])
            numpyro.factor(f"target_{k}", log_density.sum())

    return program


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
