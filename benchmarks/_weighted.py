r"""The process of the BEMKL paper, whose exact posteriors are references: covariance, prior, and NumPyro program.

It is the model of Gönen (2012) with its sample weights `a`, intermediate outputs and intercept integrated out,

.. math:: f = \sum_m w_m (K_m^\top a + \xi_m) + b, \qquad a \sim N(0, I), \quad \xi_m \sim N(0, \sigma_g^2 I) .
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import ndtr

from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import FARTHEST, Mapped
from bayesmkl.kernels.stacks.base import Stack


class Weighted(NamedTuple):
    r"""Covariance :math:`C = K_w K_w^\top + \sigma_g^2 \|w\|^2 I + \gamma^{-1} 1 1^\top`.

    Here :math:`K_w = \sum_m w_m K_m`. It takes the place of `bayesmkl.gp.covariances.Additive` in evidences and their
    gradients.
    """

    stack: Stack
    intermediate_std: float
    intercept_std: float

    def matrix(self, weights: np.ndarray) -> np.ndarray:
        """Return the prior covariance of the training scores."""
        mixed = self.stack.combine(weights)
        alone = self.intermediate_std**2 * (weights @ weights)
        return plus_diagonal(mixed @ mixed.T + self.intercept_std**2, alone)

    def pull(self, weights: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
        """Return the gradient by the weights of what has the gradient `adjoint` by the covariance."""
        alone = 2.0 * self.intermediate_std**2 * np.trace(adjoint) * weights
        return 2.0 * self.stack.frobenius(adjoint @ self.stack.combine(weights)) + alone


class StudentT(NamedTuple):
    """Independent Student t weights, whose signs matter; the paper's have two degrees of freedom."""

    df: float = 2.0
    scale: float = 1.0

    def n_coordinates(self, n_kernels: int) -> int:
        """Return one coordinate per kernel."""
        return n_kernels

    def weights(self, coordinates: np.ndarray) -> Mapped:
        """Return the kernel weights of some coordinates."""
        size = np.minimum(np.abs(coordinates), FARTHEST)
        values = stats.t.isf(ndtr(-size), self.df)
        slopes = stats.norm.pdf(size) / stats.t.pdf(values, self.df) * (np.abs(coordinates) == size)
        return Mapped(
            self.scale * np.sign(coordinates) * values, lambda gradient: self.scale * slopes * gradient
        )


def explicit_program(model: Hypermodel) -> NumPyroProgram:
    """Return the program with a site for every function value of labels; see `bayesmkl.gp.program`."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    from bayesmkl.gp.program import observe, target_law

    covariance: Any = model.covariance
    prior: Any = model.weight_prior

    def normal(name: str, shape: tuple[int, ...]) -> Any:
        return numpyro.sample(name, dist.Normal().expand(shape).to_event(len(shape)))

    def weighted(kernels: Any, y: Any) -> None:
        law = dist.StudentT(prior.df, 0.0, prior.scale).expand([len(kernels)])
        weights = numpyro.sample("kernel_weights", law.to_event(1))
        own = covariance.intermediate_std * normal("whitened", kernels.shape[:2])
        parts = weights[:, None] * (kernels @ normal("dual", kernels.shape[2:]) + own)
        intercept = numpyro.sample("intercept", dist.Normal(0.0, covariance.intercept_std))
        score = numpyro.deterministic("score", parts.sum(axis=0) + intercept)
        observe("y", target_law(model.likelihood, score, [], {}), y)

    data = {"kernels": jnp.asarray(covariance.stack.kernels), "y": model.targets[0]}
    return NumPyroProgram(weighted, data, {})
