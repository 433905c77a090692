r"""Localized BEMKL: kernel weights that are functions of gate features, of labels or of a target.

Model: the story in `moments`, whose kernel weights depend on the sample through features :math:`φ_i = φ(z_i)` of its
gate features, the first of which is one (`gate_basis`),

    e_m(z_i) = w_m' φ_i,     ω_m0 ~ Gamma,  w_m0 | ω_m0 ~ N(0, 1/ω_m0)            the weight of kernel m everywhere
                             ω_m1 ~ Gamma,  w_md | ω_m1 ~ N(0, 1/ω_m1), d >= 1    and how it differs by place
    f_i | b, w, g_i ~ N(Σ_m e_m(z_i) g_mi + b, 1/ε)

with labels as in `binary` (ε = 1, υ = 1/σ_g² known) and a target as in `regression` (υ, ε ~ Gamma). The score is
still bilinear in g_i and w, and every update is in closed form: it is the linear function (1, g_i ⊗ φ_i)' (b, w).
With one feature the model *is* `binary` or `regression`, and there is no ω_m1.

The paper (Gönen 2012) has no such model. The updates of λ, a, υ, ε and f are its own; those of G and (b, w) are

    q(G):     per sample, Σ_i = (υ I + ε E[e_i e_i'])⁻¹,     mean Σ_i (υ [k_mi' a]_m + ε (f_i E[e_i] - E[b e_i])),
              where e_i = (I ⊗ φ_i)' w
    q(b, w):  precision diag(γ, ω) + ε Σ_i [1, (g_i ⊗ φ_i)'; ·, E[g_i g_i'] ⊗ φ_i φ_i'],
              linear term ε Σ_i f_i (1, g_i ⊗ φ_i) .
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bayesmkl._numerics.acceleration import (
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
)
from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.linalg import bordered
from bayesmkl._numerics.truncated_normal import TruncatedMoments, label_moments
from bayesmkl.bemkl.models.moments import (
    LOG_2PI,
    UNIT_PRECISION,
    Gamma,
    Gaussian,
    PrecisionMoments,
    expected_residual,
    expected_zero_mean,
    known_precision,
    probe,
    probe_scale,
    readout_cov_scale,
    update_dual,
    update_noise_precision,
    update_precision,
    update_readout,
)
from bayesmkl.kernels.stacks.base import KernelStack

__all__ = [
    "COORDINATES",
    "STATE",
    "LocalOutputs",
    "LocalizedCarry",
    "LocalizedPriors",
    "LocalizedProblem",
    "LocalizedState",
    "carry",
    "elbo",
    "gate_moments",
    "init",
    "local_mean",
    "scales",
    "step",
    "sweep",
    "update_weight_precisions",
]


class LocalizedPriors(NamedTuple):
    """Gamma priors on the precisions of a, b, w_m0, the other w_md, and of the noise of regression."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)
    gate: Gamma = Gamma(1.0, 1.0)
    intermediate: Gamma = Gamma(1.0, 1.0)
    noise: Gamma = Gamma(1.0, 1.0)


class LocalizedProblem(NamedTuple):
    """Data and priors of a fit, constant during it: of labels, or of a target where there is no margin."""

    stack: KernelStack  # training kernels
    gram: Any  # sum_m K_m' K_m, (n_train, n_train)
    y: Any  # (n_samples,) of -1.0 and +1.0, or the target
    features: Any  # φ, (n_samples, n_features), ones first
    priors: LocalizedPriors
    margin: Any = None  # ν; None is a target
    intermediate_precision: Any = None  # 1/σ_g², of labels


class LocalOutputs(NamedTuple):
    """q(G): independent columns g_i, each with a covariance of its own.

    Shapes: mean (n_kernels, n_samples), cov (n_samples, n_kernels, n_kernels), log_det (n_samples,).
    """

    mean: Any
    cov: Any
    log_det: Any

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.mean.shape[-1])

    @property
    def entropy(self) -> Any:
        """Entropy of all columns together, in nats."""
        return 0.5 * (self.mean.size * (1.0 + LOG_2PI) + self.log_det.sum())

    @property
    def n_projected(self) -> int:
        """Number of intermediate outputs that follow a kernel: all of them."""
        return int(self.mean.size)

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        return namespace(self.cov).diagonal(self.cov, axis1=1, axis2=2).T

    @property
    def square(self) -> Any:
        """Second moments E[g_i g_i'] of every sample, shaped as the covariances."""
        columns = self.mean.T
        return columns[:, :, None] * columns[:, None, :] + self.cov

    def squared_distance(self, projection: Array) -> Any:
        """``E (g_mi - projection_mi)²``, summed over kernels and samples."""
        residual = self.mean - projection
        return (residual * residual).sum() + self.variance.sum()


class LocalizedState(NamedTuple):
    """The factors of the posterior; of labels υ and ε are known, of a target the scores are."""

    sample_precision: Gamma  # q(λ), (n_train,)
    intermediate_precision: Gamma | PrecisionMoments  # q(υ)
    noise_precision: Gamma | PrecisionMoments  # q(ε)
    dual: Gaussian  # q(a)
    intermediate: LocalOutputs  # q(G)
    intercept_precision: Gamma  # q(γ)
    kernel_precision: Gamma  # q(ω_m0), (n_kernels,)
    gate_precision: Gamma  # q(ω_m1), (n_kernels,), or (0,) with one feature
    readout: Gaussian  # q(b, w), intercept first, then the weights of one kernel after the other
    latent: TruncatedMoments  # q(f)


class LocalizedCarry(NamedTuple):
    """State that a sweep reads from the previous one."""

    dual_square: Any  # E[a²], (n_train,)
    intermediate_precision: Any  # E[υ]
    noise_precision: Any  # E[ε]
    pull: Any  # sum_m K_m' E[g_m], (n_train,)
    probe: Any  # E[G] of a few samples, which only the acceleration reads
    readout: Any  # E[(b, w)], (1 + n_kernels * n_features,)
    readout_cov: Any  # its covariance
    latent: Any  # E[f], (n_samples,)


def init(problem: LocalizedProblem, noise: Array) -> LocalizedCarry:
    """Start as `binary.init` or `regression.init` does, from weights that are one everywhere.

    Parameters
    ----------
    problem : LocalizedProblem
    noise : array of shape (n_samples,)
        The magnitudes of the one, or the noise of the other.
    """
    xp, y = namespace(problem.y), problem.y
    n_kernels, n_features = problem.stack.n_kernels, problem.features.shape[1]
    eye = xp.eye(1 + n_kernels * n_features, dtype=y.dtype)
    unit = eye[0, :1] + 0.0
    if problem.margin is None:
        center, upsilon, latent = y.mean(), unit, y
        shared = (y - center + noise) / n_kernels
    else:
        center, upsilon = 0.0, unit * problem.intermediate_precision
        latent = shared = y * (problem.margin + noise)
    intermediate = xp.ones((n_kernels, 1), dtype=y.dtype) * shared
    return LocalizedCarry(
        dual_square=xp.ones((problem.stack.n_train,), dtype=y.dtype),
        intermediate_precision=upsilon[0],
        noise_precision=unit[0],
        pull=problem.stack.adjoint(intermediate),
        probe=probe(intermediate),
        readout=eye[1::n_features].sum(axis=0) + center * eye[0],
        readout_cov=eye,
        latent=latent,
    )


def carry(problem: LocalizedProblem, state: LocalizedState) -> LocalizedCarry:
    """Return the carry of `state` for the next sweep."""
    intermediate, xp = state.intermediate.mean, namespace(problem.y)
    upsilon, epsilon = (
        xp.asarray(precision.mean, dtype=problem.y.dtype)
        for precision in (state.intermediate_precision, state.noise_precision)
    )
    return LocalizedCarry(
        state.dual.square,
        upsilon,
        epsilon,
        problem.stack.adjoint(intermediate),
        probe(intermediate),
        state.readout.mean,
        state.readout.cov,
        state.latent.mean,
    )


STATE = LocalizedState
COORDINATES = LocalizedCarry(
    LogCoordinate,
    LogCoordinate,
    LogCoordinate,
    UnmeasuredCoordinate,
    Coordinate,
    Coordinate,
    CovarianceCoordinate,
    Coordinate,
)


def scales(state: LocalizedState) -> LocalizedCarry:
    """Return the reciprocal posterior scale of every measured coordinate; what is known never differs."""
    xp = namespace(state.dual.mean)
    upsilon, epsilon = (
        xp.sqrt(precision.concentration) if isinstance(precision, Gamma) else xp.ones(())
        for precision in (state.intermediate_precision, state.noise_precision)
    )
    return LocalizedCarry(
        0.5 * xp.ones_like(state.dual.mean),
        upsilon,
        epsilon,
        state.dual.mean[:0],
        probe_scale(state.intermediate),
        1.0 / xp.sqrt(state.readout.variance),
        readout_cov_scale(state.readout),
        xp.ones_like(state.latent.mean),
    )


def sweep(problem: LocalizedProblem, start: LocalizedCarry) -> tuple[LocalizedState, Any]:
    """Update every factor once, in the paper's order, and return the state with its ELBO."""
    priors, features, xp = problem.priors, problem.features, namespace(problem.y)
    upsilon, epsilon = start.intermediate_precision, start.noise_precision
    sample_precision = update_precision(priors.sample, start.dual_square)  # q(λ)
    dual = update_dual(problem.gram, start.pull, sample_precision.mean, upsilon)  # q(a), (3)
    projection = problem.stack.apply(dual.mean)
    intermediate = update_local_outputs(  # q(G)
        projection, features, start.latent, start.readout, start.readout_cov, upsilon, epsilon
    )
    square = start.readout**2 + xp.diagonal(start.readout_cov)
    intercept_precision = update_precision(priors.intercept, square[0])  # q(γ)
    kernel_precision, gate_precision = update_weight_precisions(  # q(ω)
        priors, square[1:].reshape(problem.stack.n_kernels, -1)
    )
    design = local_design(intermediate, features)
    readout = update_readout(  # q(b, w)
        design,
        local_target(intermediate, features, start.latent),
        local_precision(intercept_precision, kernel_precision, gate_precision, features),
        epsilon,
    )
    state = LocalizedState(
        sample_precision,
        known_precision(problem.y, problem.intermediate_precision or 1.0),
        UNIT_PRECISION,
        dual,
        intermediate,
        intercept_precision,
        kernel_precision,
        gate_precision,
        readout,
        known_scores(problem.y),
    )
    if problem.margin is not None:
        score = local_mean(intermediate, features, readout)
        state = state._replace(latent=label_moments(score, problem.y, problem.margin))  # q(f)
    else:
        error = intermediate.squared_distance(projection) + xp.vdot(problem.gram, dual.cov)
        misfit = local_error(problem.y, intermediate, features, readout, design)
        n_samples = intermediate.n_samples
        state = state._replace(
            intermediate_precision=update_noise_precision(  # q(υ)
                priors.intermediate, error, intermediate.n_projected
            ),
            noise_precision=update_noise_precision(priors.noise, misfit, n_samples),  # q(ε)
        )
    return state, elbo(problem, state, projection, design)


def step(problem: LocalizedProblem, state: LocalizedState) -> tuple[LocalizedState, Any]:
    """Run one iteration from a full state."""
    return sweep(problem, carry(problem, state))


def elbo(
    problem: LocalizedProblem,
    state: LocalizedState,
    projection: Array | None = None,
    design: Array | None = None,
) -> Any:
    """Return the evidence lower bound in nats.

    Parameters
    ----------
    problem : LocalizedProblem
    state : LocalizedState
        Any state, not only a fixed point.
    projection : array of shape (n_kernels, n_samples), optional
        ``K_m E[a]`` where it is at hand.
    design : array of shape (1 + n_kernels * n_features, 1 + n_kernels * n_features), optional
        `local_design` of q(G), likewise.
    """
    priors, features, intermediate = problem.priors, problem.features, state.intermediate
    if projection is None:
        projection = problem.stack.apply(state.dual.mean)
    if design is None:
        design = local_design(intermediate, features)
    error = intermediate.squared_distance(projection)
    error = error + namespace(features).vdot(problem.gram, state.dual.cov)  # E ||g_mi - k_mi' a||²
    misfit = local_error(state.latent.mean, intermediate, features, state.readout, design)
    misfit = misfit + state.latent.variance.sum()
    weights_square = state.readout.square[1:].reshape(-1, features.shape[1])
    bound = (
        state.sample_precision.bound(priors.sample)
        + expected_zero_mean(state.dual.square, state.sample_precision)
        + state.dual.entropy
        + expected_residual(error, intermediate.n_projected, state.intermediate_precision)
        + intermediate.entropy
        + state.intercept_precision.bound(priors.intercept)
        + expected_zero_mean(state.readout.square[:1], state.intercept_precision)
        + state.kernel_precision.bound(priors.kernel)
        + expected_zero_mean(weights_square[:, 0], state.kernel_precision)
        + state.readout.entropy
        + expected_residual(misfit, intermediate.n_samples, state.noise_precision)  # E[log p(f | b, w, G)]
        + state.latent.entropy.sum()
    )
    if features.shape[1] > 1:
        gate_square, size = weights_square[:, 1:].sum(axis=1), features.shape[1] - 1
        bound = bound + state.gate_precision.bound(priors.gate)
        bound = bound + expected_residual(gate_square, size, state.gate_precision)
    if problem.margin is None:
        bound = bound + state.intermediate_precision.bound(priors.intermediate)  # type: ignore[union-attr]
        bound = bound + state.noise_precision.bound(priors.noise)  # type: ignore[union-attr]
    return bound


# ------------------------------------------------------------------------------------------------- updates


def gate_moments(readout: Any, readout_cov: Any, features: Array) -> tuple[Any, Any, Any]:
    """Return E[e_i], E[e_i e_i'] and E[b e_i] of every sample.

    Parameters
    ----------
    readout, readout_cov : arrays of shape (1 + n_kernels * n_features,), and that twice
        Mean and covariance of q(b, w).
    features : array of shape (n_samples, n_features)

    Returns
    -------
    mean : array of shape (n_samples, n_kernels)
    square : array of shape (n_samples, n_kernels, n_kernels)
    with_intercept : array of shape (n_samples, n_kernels)
    """
    xp, n_features = namespace(features), features.shape[1]
    n_kernels = (readout.shape[0] - 1) // n_features
    weights = readout[1:].reshape(n_kernels, n_features)
    mean = features @ weights.T
    cross = features @ readout_cov[0, 1:].reshape(n_kernels, n_features).T
    # φ_i' Cov[w_m, w_n] φ_i as a product of the pairs of features with the blocks of the covariance
    blocks = readout_cov[1:, 1:].reshape(n_kernels, n_features, n_kernels, n_features)
    blocks = xp.moveaxis(blocks, 2, 1).reshape(n_kernels**2, n_features**2)
    cov = (pairs_of(features) @ blocks.T).reshape(-1, n_kernels, n_kernels)
    return mean, mean[:, :, None] * mean[:, None, :] + cov, readout[0] * mean + cross


def pairs_of(features: Array) -> Any:
    """Return φ_i φ_i' of every sample as a row, (n_samples, n_features²)."""
    return (features[:, :, None] * features[:, None, :]).reshape(len(features), -1)


def known_scores(target: Array) -> TruncatedMoments:
    """Return the moments of scores that are known: a target."""
    zeros = 0.0 * target
    return TruncatedMoments(target, zeros, zeros, zeros)


def update_local_outputs(
    projection: Array,
    features: Array,
    latent: Array,
    readout: Array,
    readout_cov: Array,
    intermediate_precision: Array | float,
    latent_precision: Array | float,
) -> LocalOutputs:
    """Update q(G), whose precision depends on the sample.

    Parameters
    ----------
    projection : array of shape (n_kernels, n_samples)
        ``K_m E[a]``.
    features : array of shape (n_samples, n_features)
    latent : array of shape (n_samples,)
        E[f], or the target.
    readout, readout_cov : arrays of shape (1 + n_kernels * n_features,), and that twice
        Mean and covariance of q(b, w).
    intermediate_precision, latent_precision : float
        E[υ] and E[ε].
    """
    xp, n_kernels = namespace(projection), projection.shape[0]
    mean, square, with_intercept = gate_moments(readout, readout_cov, features)
    precision = intermediate_precision * xp.eye(n_kernels, dtype=projection.dtype) + latent_precision * square
    root = xp.linalg.cholesky(precision)  # of all samples at once: they are many and small
    inverse = xp.linalg.inv(root)
    cov = xp.matrix_transpose(inverse) @ inverse
    log_det = -2.0 * xp.log(xp.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    linear = intermediate_precision * projection.T
    linear = linear + latent_precision * (latent[:, None] * mean - with_intercept)
    return LocalOutputs((cov @ linear[:, :, None])[:, :, 0].T, cov, log_det)


def update_weight_precisions(priors: LocalizedPriors, square: Array) -> tuple[Gamma, Gamma]:
    """Update q(ω_m0) and q(ω_m1), the second of which is empty with one feature.

    Parameters
    ----------
    priors : LocalizedPriors
    square : array of shape (n_kernels, n_features)
        E[w_md²].
    """
    n_local = square.shape[1] - 1
    kernel = update_precision(priors.kernel, square[:, 0])
    if n_local == 0:
        return kernel, Gamma(square[:0, 0], square[:0, 0])
    return kernel, update_noise_precision(priors.gate, square[:, 1:].sum(axis=1), n_local)


def local_design(intermediate: LocalOutputs, features: Array) -> Any:
    """Return E of ``Σ_i (1, g_i ⊗ φ_i) (1, g_i ⊗ φ_i)'``."""
    xp, (n_samples, n_features) = namespace(features), features.shape
    n_kernels = intermediate.mean.shape[0]
    pairs = intermediate.square.reshape(n_samples, -1).T @ pairs_of(features)
    block = pairs.reshape(n_kernels, n_kernels, n_features, n_features)
    size = n_kernels * n_features
    block = xp.moveaxis(block, 2, 1).reshape(size, size)
    return bordered(n_samples, (intermediate.mean @ features).reshape(-1), block)


def local_target(intermediate: LocalOutputs, features: Array, latent: Array) -> Any:
    """``Σ_i (1, E[g_i] ⊗ φ_i) E[f_i]``."""
    weighted = (intermediate.mean * latent) @ features
    return namespace(latent).concatenate([latent.sum(keepdims=True), weighted.reshape(-1)])


def local_precision(intercept: Gamma, kernel: Gamma, gate: Gamma, features: Array) -> Any:
    """Return E[γ], then E[ω_m0] and E[ω_m1] at the places of the weights that have them."""
    xp, n_local = namespace(features), features.shape[1] - 1
    first, mean = kernel.mean[:, None], intercept.mean.reshape(1)
    own = xp.repeat(gate.mean[:, None], n_local, axis=1) if n_local else first[:, :0]
    return xp.concatenate([mean, xp.concatenate([first, own], axis=1).reshape(-1)])


def local_mean(intermediate: LocalOutputs, features: Array, readout: Gaussian) -> Any:
    """Return the expected score ``E[e_i]' E[g_i] + E[b]`` of every sample, shape (n_samples,)."""
    weights = readout.mean[1:].reshape(intermediate.mean.shape[0], -1)
    return (intermediate.mean * (weights @ features.T)).sum(axis=0) + readout.mean[0]


def local_error(
    scores: Array, intermediate: LocalOutputs, features: Array, readout: Gaussian, design: Array
) -> Any:
    """``E (scores_i - e_i' g_i - b)²``, summed over samples; every term of it is non-negative."""
    residual = scores - local_mean(intermediate, features, readout)
    gates = features @ readout.mean[1:].reshape(intermediate.mean.shape[0], -1).T
    from_outputs = (gates[:, None, :] @ intermediate.cov @ gates[:, :, None]).sum()
    return (residual * residual).sum() + namespace(design).vdot(readout.cov, design) + from_outputs
