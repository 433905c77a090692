r"""BEMKL with kernel weights that are not negative (Gönen 2012, below equation (4)).

Model: that of `model`, with half-normal weights in the place of normal ones,

    e_m | ω_m  ~  N(0, 1/ω_m) given e_m >= 0,     density 2 N(e_m; 0, 1/ω_m).

The optimal q(b, e) is then the normal distribution (4) cut off to e >= 0, as the paper says. With the precision A
and the linear term r of (4) in blocks over b and e, it is q(b | e) q(e),

    q(b | e) = N((r_b - A_be e) / A_bb, 1 / A_bb),            not cut off
    q(e)     ∝ exp(s' e - ½ e' Λ e) 1{e >= 0},                Λ = A_ee - A_eb A_be / A_bb,  s = r_e - A_eb r_b / A_bb.

One and two kernels are done exactly (two by one quadrature to rounding, `quadrant`). The moments over an orthant of
more have no closed form. For them q(e) is restricted further, to a product with its own exact updates,

    q(e) = Π_m q(e_m),     q(e_m) = N(μ_m, 1 / Λ_mm) given e_m >= 0,     Λ_mm μ_m = s_m - Σ_{h≠m} Λ_mh E[e_h].

Each factor is the optimum given the others, so the bound never falls, and it is the bound of this very q, whose
moments and entropy are closed forms. Expectation propagation would match the moments of the orthant better, but its
normal q(e) has mass outside of it: no bound belongs to it, and nothing says that its iterations end.

What the product loses: the correlations of three or more weights among each other given the data, -Λ_mh. The
covariance of b with every weight, -A_bm Var[e_m] / A_bb, is kept, and the part of Var[b] that independent weights
cause. Nothing is lost where Λ is diagonal; else the bound is lower by the divergence of the product from the
cut-off (4), and standard deviations are too small, most for kernels that are nearly the same.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.quadrant import draw_quadrant, quadrant_moments
from bayesmkl._numerics.truncated_normal import draw_positive, truncated_moments
from bayesmkl.bemkl import model

LOG_2PI = math.log(2.0 * math.pi)
# Below this the continued fraction gives the mean of a cut-off normal; with 40 terms it is exact to rounding.
TAIL, TERMS = -5.0, 40
# Problems, starts and carries are those of `model`; a state's `readout` is a `NonnegativeReadout`.
COORDINATES, carry, elbo, init, scales = model.COORDINATES, model.carry, model.elbo, model.init, model.scales


class CutOffNormals(NamedTuple):
    """Independent normal distributions cut off to positive numbers."""

    location: Any  # (n_kernels,), means before they are cut off
    scale: Any  # (n_kernels,), standard deviations before

    def moments(self) -> tuple[Any, Any, Any]:
        """Return mean, covariance and entropy."""
        xp = namespace(self.location)
        unit = truncated_moments(self.location / self.scale, xp.ones_like(self.location), 0.0)
        cov = xp.diag(self.scale * self.scale * unit.variance)
        return self.scale * unit.mean, cov, (unit.entropy + xp.log(self.scale)).sum()

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return NumPy draws of shape (n_draws, n_kernels)."""
        loc = np.broadcast_to(self.location / self.scale, (n_draws, len(self.location)))
        return self.scale * draw_positive(loc, rng)


class CutOffPair(NamedTuple):
    """Normal distribution of two variables cut off to positive numbers."""

    linear: Any  # (2,), precision times mean, before it is cut off
    precision: Any  # (2, 2), before

    def moments(self) -> tuple[Any, Any, Any]:
        """Return mean, covariance and entropy."""
        return tuple(quadrant_moments(self.linear, self.precision))

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return NumPy draws of shape (n_draws, 2)."""
        return draw_quadrant(self.linear, self.precision, n_draws, rng)


class NonnegativeReadout(NamedTuple):
    """q(b, e) = q(b | e) q(e), intercepts first; the counterpart of a `Gaussian` over both."""

    mean: Any  # (n_outputs + n_kernels,)
    cov: Any  # its covariance
    entropy: Any  # in nats
    weights: CutOffNormals | CutOffPair  # q(e)
    slope: Any  # (n_outputs, n_kernels), of E[b | e] in e
    intercept_variance: Any  # (n_outputs,), of b given e

    @classmethod
    def from_factors(
        cls, offset: Array, slope: Array, intercept_variance: Array, weights: CutOffNormals | CutOffPair
    ) -> NonnegativeReadout:
        """Build it from q(b | e) = N(offset + slope e, intercept_variance) and q(e)."""
        xp, (mean, cov, entropy) = namespace(slope), weights.moments()
        cross = slope @ cov
        top = xp.concatenate([xp.diag(intercept_variance) + cross @ slope.T, cross], axis=1)
        joint = xp.concatenate([top, xp.concatenate([cross.T, cov], axis=1)])
        entropy = entropy + 0.5 * (1.0 + LOG_2PI + xp.log(intercept_variance)).sum()
        mean = xp.concatenate([offset + slope @ mean, mean])
        return cls(mean, joint, entropy, weights, slope, intercept_variance)

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        return namespace(self.cov).diagonal(self.cov)

    @property
    def square(self) -> Any:
        """Elementwise second moments, shaped as the mean."""
        return self.mean**2 + self.variance

    @property
    def log_folds(self) -> float:
        """Log of what the half-normal prior's density is, relative to the normal one's: 2 for every weight."""
        return self.slope.shape[1] * math.log(2.0)

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return NumPy draws of shape (n_draws, n_outputs + n_kernels)."""
        n_outputs, weights = len(self.slope), self.weights.draw(n_draws, rng)
        noise = np.sqrt(self.intercept_variance) * rng.standard_normal((n_draws, n_outputs))
        from_weights = (weights - self.mean[n_outputs:]) @ self.slope.T
        return np.hstack([self.mean[:n_outputs] + from_weights + noise, weights])


def sweep(problem: model.Problem, start: model.Carry) -> tuple[model.State, Any]:
    """Update every factor once, q(b, e) by `update_readout`; return the state with its ELBO."""
    before = start.readout[-problem.stack.n_kernels :]
    return model.sweep(problem, start, partial(update_readout, before))


def update_readout(
    before: Any, design: Array, target: Array, prior_precision: Array, latent_precision: Array | float
) -> NonnegativeReadout:
    """Update q(b | e) and q(e): the exact optimum for one and two kernels, else weight after weight.

    Parameters
    ----------
    before : array of shape (n_kernels,)
        E[e] so far.
    design, target, prior_precision, latent_precision
        As in `moments.update_readout`; the intercepts' block of `design` must be diagonal.
    """
    xp, n_outputs = namespace(design), design.shape[0] - before.shape[0]
    precision, linear = latent_precision * design + xp.diag(prior_precision), latent_precision * target
    intercept_variance = 1.0 / xp.diagonal(precision)[:n_outputs]
    slope = -intercept_variance[:, None] * precision[:n_outputs, n_outputs:]
    offset = intercept_variance * linear[:n_outputs]
    # with b integrated out
    weights_precision = precision[n_outputs:, n_outputs:] + precision[n_outputs:, :n_outputs] @ slope
    pull = linear[n_outputs:] + slope.T @ linear[:n_outputs]
    if before.shape[0] == 2:
        weights: CutOffNormals | CutOffPair = CutOffPair(pull, weights_precision)
    else:
        ascend = _ascend if is_numpy(pull) else _ascend_on_jax
        scale = 1.0 / xp.sqrt(xp.diagonal(weights_precision))
        weights = CutOffNormals(ascend(weights_precision, pull, before, scale), scale)
    return NonnegativeReadout.from_factors(offset, slope, intercept_variance, weights)


def _ascend(precision: np.ndarray, pull: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the locations μ, updated one after the other from E[e] = `mean`."""
    mean, location, variance = mean.copy(), np.empty_like(mean), scale**2
    for m in range(len(mean)):
        location[m] = mean[m] + variance[m] * (pull[m] - precision[m] @ mean)
        mean[m] = scale[m] * _cut_off_mean(location[m] / scale[m])
    return location


def _cut_off_mean(z: float) -> float:
    """Return the mean of N(z, 1) given that it is positive, z + φ(z)/Φ(z): faster than `truncated_moments`."""
    if z > TAIL:
        return z + math.sqrt(2.0 / math.pi) / erfcx(-z / math.sqrt(2.0))
    fraction = x = -z
    for k in range(TERMS, 1, -1):
        fraction = x + k / fraction
    return 1.0 / fraction


def _ascend_on_jax(precision: Array, pull: Array, mean: Array, scale: Array) -> Any:
    import jax

    def update(m: Array, values: tuple[Any, Any]) -> tuple[Any, Any]:
        mean, location = values
        here = mean[m] + scale[m] ** 2 * (pull[m] - precision[m] @ mean)
        beyond = truncated_moments(here / scale[m], 1.0, 0.0).mean
        return mean.at[m].set(scale[m] * beyond), location.at[m].set(here)

    return jax.lax.fori_loop(0, mean.shape[0], update, (mean, namespace(mean).zeros_like(mean)))[1]
