r"""Evidence of the weights of localized BEMKL's gates, with everything else integrated out.

As in `bayesmkl.bemkl.inference.marginal`, precisions of a and b are known, and given w the model is a linear one:
with gates :math:`e_{im} = e_m(z_i)` of the training samples, and rows of the kernels in an orthonormal basis Q of all
of them, :math:`Z_m = K_m Q`,

.. math:: h = B u, \quad u \sim N(0, I), \qquad
   B = \bigl[\textstyle\sum_m \operatorname{diag}(e_m) Z_m, \; γ^{-1/2} 1\bigr],
   \qquad f_i \sim N(h_i, s_i^2), \quad s_i^2 = 1/ε + \textstyle\sum_m e_{im}^2 / υ ,

so that f has the covariance :math:`K_e K_e^\top + \operatorname{diag}(s^2) + γ^{-1} 1 1^\top` with :math:`K_e =
\sum_m \operatorname{diag}(e_m) K_m`. The evidence of a target under it is exact; that of labels,
:math:`p(y_i | h_i) = Φ((y_i h_i - ν) / s_i)`, is that of expectation propagation (Rasmussen and Williams 2006, "RW",
§3.6). Both are normal in the end, with sites of precision τ and linear term :math:`\tilde ν`, and with :math:`A = I +
B^\top T B` and the mean :math:`μ = A^{-1} B^\top \tilde ν` their gradients are

.. math:: \partial / \partial B = (\tilde ν - T B μ) μ^\top - T B A^{-1}, \qquad
   \partial / \partial w_{md} = \sum_i φ_{id} \bigl( \langle Z_{mi}, (\partial / \partial B)_i \rangle
   + 2 υ^{-1} e_{im} \, \partial / \partial s_i^2 \bigr) .

Nothing has N² entries but for kernels of full rank. All functions take several w at once, along the first axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.linalg import lapack

from bayesmkl.bemkl.models.localized import LocalizedProblem
from bayesmkl.bemkl.models.moments import LOG_2PI, Gamma
from bayesmkl.marginal.conditioning import LEAST_PRECISION, Sites
from bayesmkl.marginal.likelihoods.binary import log_cdf_derivatives

__all__ = ["MAX_STEPS", "LocalEvidence", "LocalModel", "LocalPrior", "LocalProcess", "local_evidence"]

RANK = 1e-8  # eigenvalues of sum_m K_m' K_m below this part of the largest are left out of Q
MAX_STEPS = 50  # of expectation propagation
STALLED = 0.8  # of the last change: sites swing to and fro
DAMPED, RECOVERED = 0.5, 1.2  # times which the part of a step that is taken is
LEAST_STEP = 0.1
LARGEST = 30.0  # log precision in absolute value
LEAST_LENGTH, MOST_LENGTH = 1e-6, 12.0  # of coordinates of weights that share a precision


class LocalProcess(NamedTuple):
    """Training data as the evidence reads them.

    Attributes
    ----------
    parts : ndarray of shape (n_kernels, n_samples, rank)
        Kernels in the basis, K_m Q.
    basis : ndarray of shape (n_train, rank)
        Q.
    features : ndarray of shape (n_samples, n_features)
        φ.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1, or the target.
    margin : float or None
        ν; None is a target.
    intercept_std : float
        :math:`γ^{-1/2}`.
    """

    parts: np.ndarray
    basis: np.ndarray
    features: np.ndarray
    y: np.ndarray
    margin: float | None
    intercept_std: float

    @classmethod
    def of(cls, problem: LocalizedProblem, intercept: Gamma, rank: float = RANK) -> LocalProcess:
        """Return the process of a problem, whose intercept has the precision that is the mean of its prior."""
        values, vectors = np.linalg.eigh(np.asarray(problem.gram))
        basis = vectors[:, values > rank * values[-1]]
        stack: Any = problem.stack
        parts = np.stack([kernel @ basis for kernel in stack.each()])
        margin = None if problem.margin is None else float(problem.margin)
        std = float(np.sqrt(intercept.rate / intercept.concentration))
        return cls(parts, basis, np.asarray(problem.features), np.asarray(problem.y), margin, std)


class LocalEvidence(NamedTuple):
    """Log evidence of several w, its gradients, and the posterior of u given each.

    Attributes
    ----------
    log_evidence : ndarray of shape (n,)
    by_weights : ndarray of shape (n, n_kernels, n_features)
    by_log_precisions : ndarray of shape (n, 2)
        By log υ and log ε.
    sites : Sites
        Each field of shape (n, n_samples).
    mean : ndarray of shape (n, rank + 1)
    cov : ndarray of shape (n, rank + 1, rank + 1)
    converged : ndarray of bool of shape (n,)
    """

    log_evidence: np.ndarray
    by_weights: np.ndarray
    by_log_precisions: np.ndarray
    sites: Sites
    mean: np.ndarray
    cov: np.ndarray
    converged: np.ndarray


class _Conditioned(NamedTuple):
    """u and h given sites."""

    root: np.ndarray  # R with R R' = A^-1, (n, rank + 1, rank + 1)
    whitened: np.ndarray  # B R, (n, n_samples, rank + 1)
    center: np.ndarray  # R^-1 μ, (n, rank + 1)
    mean: np.ndarray  # of h, (n, n_samples)
    variance: np.ndarray
    log_normalizer: np.ndarray  # of the product of prior and sites, (n,)

    def of_coefficients(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return μ, A^-1 and B A^-1."""
        transposed = self.root.transpose(0, 2, 1)
        return (
            (self.root @ self.center[..., None])[..., 0],
            self.root @ transposed,
            self.whitened @ transposed,
        )


def local_evidence(
    process: LocalProcess,
    weights: np.ndarray,
    precisions: np.ndarray,
    start: Sites | None = None,
    tol: float = 1e-7,
    max_steps: int = MAX_STEPS,
) -> LocalEvidence:
    """Return the evidence of weights of gates.

    Parameters
    ----------
    process : LocalProcess
    weights : ndarray of shape (n, n_kernels, n_features)
        w.
    precisions : ndarray of shape (n, 2)
        υ and ε; of labels ε is one.
    start : Sites, optional
        Of weights nearby, for labels.
    tol : float, default=1e-7
        Largest change of a site, in standard deviations of its score.
    max_steps : int, default=50
        Of expectation propagation.
    """
    parts, features = process.parts, process.features
    gates = weights @ features.T
    known, own = 1.0 / precisions.T[..., None]
    square = (gates**2).sum(axis=1)
    noise = own + known * square
    inputs = np.empty((*noise.shape, parts.shape[-1] + 1))
    inputs[..., :-1] = sum(gates[:, m, :, None] * part for m, part in enumerate(parts))
    inputs[..., -1] = process.intercept_std
    if process.margin is None:
        found = _of_target(process, inputs, noise)
    else:
        found = _of_labels(process, process.margin, inputs, noise, start, tol, max_steps)
    log_evidence, by_noise, sites, posterior, converged = found
    coefficients, cov, loadings = posterior.of_coefficients()
    pull = (sites.linear - sites.precision * posterior.mean)[..., None] * coefficients[:, None]
    pull -= sites.precision[..., None] * loadings
    by_gates = np.stack([np.einsum("ij,nij->ni", part, pull[..., :-1]) for part in parts], axis=1)
    by_gates += 2.0 * known[:, None] * gates * by_noise[:, None]
    by_log_precisions = -np.stack(
        [(known * square * by_noise).sum(axis=1), (own * by_noise).sum(axis=1)], axis=1
    )
    return LocalEvidence(
        log_evidence,
        by_gates @ features,
        by_log_precisions,
        sites,
        coefficients,
        cov,
        converged,
    )


def _condition(inputs: np.ndarray, sites: Sites) -> _Conditioned:
    """Condition on sites of h (RW, eq. 2.11, with a prior of unit variance)."""
    precision = inputs.transpose(0, 2, 1) @ (sites.precision[..., None] * inputs)
    np.einsum("nii->ni", precision)[...] += 1.0
    root = np.empty_like(precision)
    for k, own in enumerate(precision):
        upper, failed = lapack.dpotrf(own.T, overwrite_a=1)
        root[k] = np.nan if failed else lapack.dtrtri(upper)[0]
    whitened = inputs @ root
    center = (sites.linear[:, None] @ whitened)[:, 0]
    log_normalizer = 0.5 * (center**2).sum(axis=1) + np.log(np.einsum("nii->ni", root)).sum(axis=1)
    mean = (whitened @ center[..., None])[..., 0]
    return _Conditioned(root, whitened, center, mean, (whitened**2).sum(axis=2), log_normalizer)


def _of_target(
    process: LocalProcess, inputs: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Sites, _Conditioned, np.ndarray]:
    """Return the evidence of a target, its gradient by the noise variances, sites, and u given them."""
    y = process.y
    sites = Sites(1.0 / noise, y / noise)
    posterior = _condition(inputs, sites)
    log_evidence = posterior.log_normalizer - 0.5 * (LOG_2PI + np.log(noise) + y**2 / noise).sum(axis=1)
    error = (y - posterior.mean) ** 2 + posterior.variance
    by_noise = 0.5 * (error / noise - 1.0) / noise
    return log_evidence, by_noise, sites, posterior, np.ones(len(noise), dtype=bool)


def _of_labels(
    process: LocalProcess,
    margin: float,
    inputs: np.ndarray,
    noise: np.ndarray,
    start: Sites | None,
    tol: float,
    max_steps: int,
) -> tuple[np.ndarray, np.ndarray, Sites, _Conditioned, np.ndarray]:
    """Return the same of labels, by expectation propagation (RW, algorithm 3.5, all sites at once)."""
    y, nothing = process.y, np.zeros(noise.shape)
    sites, last = Sites(nothing, nothing) if start is None else start, np.full(len(noise), np.inf)
    size = np.ones(len(noise))
    for step in range(max_steps):
        posterior = _condition(inputs, sites)
        precision = 1.0 / posterior.variance - sites.precision
        mean = (posterior.mean / posterior.variance - sites.linear) / precision  # of the cavity
        total = noise + 1.0 / precision
        z = (y * mean - margin) / np.sqrt(total)
        log_tilted, ratio, bend = log_cdf_derivatives(z)
        first, second = y * ratio / np.sqrt(total), bend / total
        wanted = np.maximum(-second / (1.0 + second / precision), LEAST_PRECISION)
        target = Sites(wanted, first + wanted * (mean + first / precision))
        moved, sd = target.precision - sites.precision, np.sqrt(posterior.variance)
        off = np.abs(target.linear - sites.linear - posterior.mean * moved) * sd
        change = np.maximum(off, np.abs(moved) * sd**2).max(axis=1)
        if not (change > tol).any() or step == max_steps - 1:
            break
        size = np.clip(size * np.where(change > STALLED * last, DAMPED, RECOVERED), LEAST_STEP, 1.0)
        sites = Sites(*(old + size[:, None] * (new - old) for old, new in zip(sites, target, strict=True)))
        last = change
    both = precision + sites.precision
    of_sites = (  # RW, eq. 3.65
        log_tilted
        + 0.5 * np.log1p(sites.precision / precision)
        - 0.5 * sites.linear**2 / both
        + precision / both * mean * (0.5 * sites.precision * mean - sites.linear)
    )
    by_noise = -0.5 * ratio * z / total
    log_evidence = of_sites.sum(axis=1) + posterior.log_normalizer
    return log_evidence, by_noise, sites, posterior, change <= tol


class LocalPrior(NamedTuple):
    r"""Prior of w, and of υ and ε where they are not known, as a function of coordinates.

    Precisions ω are integrated out: w_m0 is a Student t, and the other weights of a kernel are jointly one.
    Coordinates of either group are standard normal under the prior and have the direction of the weights; their
    length has the same quantile. Of a target log υ and log ε follow.

    Attributes
    ----------
    n_kernels, n_local : int
        Numbers of kernels, and of features beside the constant.
    kernel, gate : Gamma
        Of ω_m0 and ω_m1.
    noises : tuple of Gamma
        Of υ and ε, or empty.
    """

    n_kernels: int
    n_local: int
    kernel: Gamma
    gate: Gamma
    noises: tuple[Gamma, ...] = ()

    @property
    def n_weights(self) -> int:
        """Number of coordinates of w."""
        return self.n_kernels * (1 + self.n_local)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return self.n_weights + len(self.noises)

    @property
    def _groups(self) -> list[tuple[slice, Gamma]]:
        """Weights of a kernel that share a precision, and its prior."""
        groups = [(slice(0, 1), self.kernel), (slice(1, 1 + self.n_local), self.gate)]
        return groups if self.n_local else groups[:1]

    def signs(self, of_kernels: np.ndarray) -> np.ndarray:
        """Return what coordinates, (n, n_coordinates), are times where weights of kernels change their signs."""
        own = np.repeat(of_kernels, 1 + self.n_local, axis=1)
        return np.hstack([own, np.ones((len(own), len(self.noises)))])

    def weights(self, coordinates: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return w, (n, n_kernels, n_features), and what pulls a gradient by it back to all coordinates."""
        x = coordinates[:, : self.n_weights].reshape(len(coordinates), self.n_kernels, -1)
        factors, bends = np.empty_like(x), np.empty_like(x)
        for part, prior in self._groups:
            factors[..., part], bends[..., part] = _stretch(x[..., part], prior)

        def pull(slope: np.ndarray) -> np.ndarray:
            found = factors * slope
            for part, _ in self._groups:
                along = (x[..., part] * slope[..., part]).sum(axis=-1, keepdims=True)
                found[..., part] += bends[..., part] * along * x[..., part]
            rest = np.zeros((len(x), len(self.noises)))
            return np.hstack([found.reshape(len(x), -1), rest])

        return factors * x, pull

    def log_density(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log density of coordinates, (n,), and its gradient."""
        normal, noises = coordinates[:, : self.n_weights], coordinates[:, self.n_weights :]
        total = -0.5 * (normal**2 + LOG_2PI).sum(axis=1)
        slope = np.hstack([-normal, np.zeros_like(noises)])
        for k, (c, r) in enumerate(self.noises):
            weighted = r * np.exp(np.minimum(noises[:, k], LARGEST))
            total += c * np.log(r) - special.gammaln(c) + c * noises[:, k] - weighted
            slope[:, self.n_weights + k] = c - weighted
        return total, slope

    def coordinates(self, weights: np.ndarray, noises: np.ndarray) -> np.ndarray:
        """Return coordinates, (n_coordinates,), of weights, (n_kernels, n_features), and of υ and ε of a target."""
        found = np.empty_like(weights)
        for part, (c, r) in self._groups:
            own = weights[:, part]
            half, square = 0.5 * own.shape[1], (own**2).sum(axis=1, keepdims=True)
            below = special.betainc(half, c, square / (square + 2.0 * r))
            above = special.betainc(c, half, 2.0 * r / (square + 2.0 * r))
            length = np.where(
                below < 0.5, special.gammaincinv(half, below), special.gammainccinv(half, above)
            )
            found[:, part] = own * np.sqrt(2.0 * length / np.maximum(square, LEAST_LENGTH**2))
        return np.concatenate([found.ravel(), np.log(noises[: len(self.noises)])])


def _stretch(x: np.ndarray, prior: Gamma) -> tuple[np.ndarray, np.ndarray]:
    r"""Return R(ρ)/ρ and its derivative by ρ, divided by ρ, for normal x of lengths ρ, both (..., 1).

    Of n variables with a common precision that is Gamma(c, r), the length R has the quantile in its law,
    :math:`R^2 / (R^2 + 2 r) \sim \mathrm{Beta}(n / 2, c)`, that ρ has in that of normal ones.
    """
    c, r = prior
    half = 0.5 * x.shape[-1]
    length = np.sqrt((x**2).sum(axis=-1, keepdims=True))
    inside = np.clip(length, LEAST_LENGTH, MOST_LENGTH)
    square = 0.5 * inside**2
    is_short = special.gammainc(half, square) < 0.5
    part = special.betaincinv(half, c, special.gammainc(half, square))
    rest = np.maximum(special.betaincinv(c, half, special.gammaincc(half, square)), np.finfo(float).tiny)
    ratio = np.where(is_short, part / (1.0 - np.where(is_short, part, 0.0)), (1.0 - rest) / rest)
    found = np.sqrt(2.0 * r * ratio)
    log_normal = (
        (2.0 * half - 1.0) * np.log(inside) - square - (half - 1.0) * np.log(2.0) - special.gammaln(half)
    )
    log_own = (  # of R
        (2.0 * half - 1.0) * np.log(found)
        + np.log(2.0)
        - half * np.log(2.0 * r)
        - (half + c) * np.log1p(ratio)
        - special.betaln(half, c)
    )
    factor = found / inside
    bend = (np.exp(log_normal - log_own) - factor) / inside**2
    return factor, np.where(inside == length, bend, -factor / inside**2 * (length > inside))


class LocalModel(NamedTuple):
    """Log posterior of coordinates of the weights of gates.

    Attributes
    ----------
    process : LocalProcess
    prior : LocalPrior
    precisions : ndarray of shape (2,)
        υ and ε where they are known, of labels.
    """

    process: LocalProcess
    prior: LocalPrior
    precisions: np.ndarray

    def values(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return w, υ and ε, (n, 2), and what pulls a gradient by w back."""
        weights, pull = self.prior.weights(coordinates)
        precisions = np.broadcast_to(self.precisions, (len(coordinates), 2))
        if self.prior.noises:
            noises = coordinates[:, self.prior.n_weights :]
            precisions = np.exp(np.clip(noises, -LARGEST, LARGEST))
        return weights, precisions, pull

    def evaluate(
        self,
        coordinates: np.ndarray,
        start: Sites | None = None,
        tol: float = 1e-7,
        max_steps: int = MAX_STEPS,
    ) -> tuple[np.ndarray, np.ndarray, LocalEvidence]:
        """Return the log posterior density of coordinates, (n, n_coordinates), its gradient, and the evidence.

        Where no digits are left the density is minus infinity, and the gradient zero.
        """
        weights, precisions, pull = self.values(coordinates)
        height, slope = self.prior.log_density(coordinates)
        with np.errstate(all="ignore"):
            found = local_evidence(self.process, weights, precisions, start, tol, max_steps)
            slope = slope + pull(found.by_weights)
            if self.prior.noises:
                slope[:, self.prior.n_weights :] += found.by_log_precisions
            height = height + found.log_evidence
        bad = ~np.isfinite(height) | ~np.isfinite(slope).all(axis=1)
        if bad.any():
            height[bad], slope[bad] = -np.inf, 0.0
            sites = Sites(*(np.where(bad[:, None], 0.0, field) for field in found.sites))
            found = found._replace(sites=sites, converged=found.converged & ~bad)
        return height, slope, found
