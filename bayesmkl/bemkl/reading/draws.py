"""Draws from a posterior, whichever inference made them, in one shape.

Draws that leave this module are aligned: (a, e) and (-a, -e) are the same model, and of the two mirror images the one
is kept whose kernel weights have a positive inner product with the leading eigenvector of E[e e'], which itself
points to a positive sum. The rule does not depend on the order of kernels, draws or chains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesmkl.bemkl.models.model import Priors
from bayesmkl.bemkl.models.moments import Gamma, Gaussian


class PosteriorDraws(NamedTuple):
    """Draws of the parameters; all arrays start with the axes (n_chains, n_draws).

    A field that the model or the prior does not have is None. Where several outputs share the kernel weights, all but
    e, ω and s have an axis of outputs after these two.
    """

    kernel_weights: np.ndarray  # e, (n_chains, n_draws, n_kernels)
    intercept: np.ndarray  # b
    dual: np.ndarray  # a, (n_chains, n_draws, n_train)
    kernel_precision: Any = None  # ω, (n_chains, n_draws, n_kernels); None under priors without precisions
    intercept_precision: Any = None  # γ
    sample_precision: Any = None  # λ, (n_chains, n_draws, n_train)
    intermediate_precision: Any = None  # υ, regression
    noise_precision: Any = None  # ε, regression
    kernel_inclusion: Any = None  # s, (n_chains, n_draws, n_kernels), spike and slab

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.kernel_weights.shape[0]

    @property
    def n_draws(self) -> int:
        """Draws in each chain."""
        return self.kernel_weights.shape[1]

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.kernel_weights.shape[-1]

    @property
    def has_outputs(self) -> bool:
        """Whether there is an axis of outputs."""
        return self.intercept.ndim == self.kernel_weights.ndim

    def outputs(self) -> list[PosteriorDraws]:
        """Return the draws of every output, without the axis of outputs; all have the same kernel weights."""
        if not self.has_outputs:
            return [self]
        axis, names = self.intercept.ndim - 1, ("kernel_weights", "kernel_precision", "kernel_inclusion")
        shared: dict[str, Any] = {name: getattr(self, name) for name in names}
        nothing: dict[str, Any] = dict.fromkeys(names)
        own = self._replace(**nothing)
        return [
            own.map(lambda values, c=c: np.take(values, c, axis))._replace(**shared)
            for c in range(self.intercept.shape[axis])
        ]

    def flat(self) -> PosteriorDraws:
        """Return the draws of all chains in a row: every array starts with the one axis n_chains * n_draws."""
        return self.map(lambda values: values.reshape(-1, *values.shape[2:]))

    def map(self, function: Callable[..., Any]) -> PosteriorDraws:
        """Apply `function` to every array."""
        arrays: Any = (None if values is None else function(values) for values in self)
        return PosteriorDraws(*arrays)


def align_signs(draws: PosteriorDraws) -> PosteriorDraws:
    """Mirror draws (a, e) to (-a, -e) where that brings them to the side of the others.

    Examples
    --------
    >>> e = np.array([[[2.0, 1.0], [-2.0, -0.9]]])
    >>> aligned = align_signs(PosteriorDraws(e, np.zeros((1, 2)), np.ones((1, 2, 3))))
    >>> aligned.kernel_weights[0, 1], aligned.dual[0, 1]
    (array([2. , 0.9]), array([-1., -1., -1.]))
    """
    weights = draws.kernel_weights.reshape(-1, draws.n_kernels)
    reference = np.linalg.eigh(weights.T @ weights)[1][:, -1]
    reference = reference if reference.sum() >= 0.0 else -reference
    mirrored = draws.kernel_weights @ reference < 0.0
    sign = np.where(mirrored, -1.0, 1.0)[..., None]
    of_dual = sign[..., None] if draws.has_outputs else sign
    return draws._replace(kernel_weights=sign * draws.kernel_weights, dual=of_dual * draws.dual)


def draw_precisions(draws: PosteriorDraws, priors: Priors, rng: np.random.Generator) -> PosteriorDraws:
    """Add draws of λ, γ and (under a Gamma prior) ω to draws of a, b and e.

    Given its variable x, a precision with the prior Gamma(c, r) is Gamma(c + 1/2, r + x²/2), independent of all else.
    """

    def draw(prior: Gamma, values: np.ndarray) -> np.ndarray:
        return rng.gamma(prior.concentration + 0.5, 1.0 / (prior.rate + 0.5 * values**2))

    return draws._replace(
        sample_precision=draw(priors.sample, draws.dual),
        intercept_precision=draw(priors.intercept, draws.intercept),
        kernel_precision=draw(priors.kernel, draws.kernel_weights)
        if isinstance(priors.kernel, Gamma)
        else None,
    )


def variational_draws(state: Any, n_draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Draw one chain from the factors of a variational posterior; the mirror image is the posterior's own.

    Parameters
    ----------
    state : State
        With several outputs the draws have an axis of them.
    n_draws : int
    rng : numpy.random.Generator
    """

    def gamma(factor: Gamma) -> np.ndarray:
        rate = np.asarray(factor.rate)
        return rng.gamma(np.asarray(factor.concentration), 1.0 / rate, size=(n_draws, *rate.shape))[None]

    readout = state.readout.draw(n_draws, rng)
    if state.dual.mean.ndim == 1:
        intercept, weights, dual = readout[:, 0], readout[:, 1:], state.dual.draw(n_draws, rng)
    else:
        intercept, weights = np.split(readout, [len(state.dual.mean)], axis=1)
        duals = [Gaussian(*fields) for fields in zip(*state.dual, strict=True)]
        dual = np.stack([own.draw(n_draws, rng) for own in duals], axis=1)
    draws = PosteriorDraws(
        weights[None],
        intercept[None],
        dual[None],
        gamma(state.kernel_precision),
        gamma(state.intercept_precision),
        gamma(state.sample_precision),
    )
    if state.noise_precision is None:
        return draws
    return draws._replace(
        intermediate_precision=gamma(state.intermediate_precision),
        noise_precision=gamma(state.noise_precision),
    )
