r"""The bound of BEMKL at given weights of landmarks, maximized over all other factors.

Of q(a) the other factors see its covariance, which needs no sample, and :math:`H = (K_m E[a])_m` alone: with H known
all of this touches no kernel. `respond` updates the factors at given E[a] and q(b, e), and says how the bound depends
on (b, e) while q(G) and q(f) follow; `curve` takes the derivatives by E[a], (N1) and (N3) of `newton`, from one
evaluation of the kernels; `move` and `slopes` go along :math:`e^s (m + t d)` and take the derivatives by t and s.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.linalg import bordered, plus_diagonal, spd_inverse
from bayesmkl._numerics.truncated_normal import TruncatedMoments, truncated_moments
from bayesmkl.bemkl.models import model
from bayesmkl.bemkl.models.model import Problem, State
from bayesmkl.bemkl.models.moments import (
    Gaussian,
    IntermediateOutputs,
    latent_mean,
    readout_design,
    readout_moments,
    readout_precision,
    readout_target,
    update_dual,
    update_intermediate,
    update_noise_precision,
    update_precision,
)

__all__ = [
    "CORRECTIONS",
    "Point",
    "Problem",
    "Response",
    "State",
    "curve",
    "first_point",
    "move",
    "respond",
    "slopes",
]

COVARIANCE_ROUNDS = 2  # of q(λ) and the covariance of q(a), in every response
CORRECTIONS = 2  # Newton steps to the expected score of each sample

Scalar: TypeAlias = "Array | float"


class Point(NamedTuple):
    """Parts of a posterior from which all else follows without a kernel."""

    dual: Any  # E[a], (n_train,)
    projection: Any  # K_m E[a], (n_kernels, n_samples)
    dual_variance: Any  # Var[a]
    readout: Any  # E[(b, e)]
    readout_cov: Any
    latent: Any  # E[f]; of regression the target
    intermediate_precision: Any  # τ
    noise_precision: Any  # ε


class Response(NamedTuple):
    """Factors at a point, their bound, and the equations of the next q(b, e)."""

    state: State
    bound: Any
    next_precisions: tuple[Any, Any]  # τ, ε
    design: Any  # E of [1; G] [1; G]', summed over samples
    target: Any
    prior_precision: Any  # of (b, e)
    curvature: Any  # of the bound over (b, e), q(G) and q(f) profiled out
    scores: Any  # expected scores, (n_samples,)


class _Known(NamedTuple):
    """What `update_intermediate` asks of a stack whose products are known."""

    projection: Any

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        return self.projection, mixing @ self.projection + offset


def respond(problem: Problem, at: Point, corrections: int = CORRECTIONS) -> Response:
    """Update every factor but E[a] and q(b, e), which the point has.

    Parameters
    ----------
    problem : Problem
        Of labels or numbers; its stack is not looked at.
    at : Point
    corrections : int
        Newton steps to each expected score; 0 is the update of coordinate ascent, which never lowers the bound.
    """
    xp, priors, tau, epsilon = (
        namespace(at.dual),
        problem.priors,
        at.intermediate_precision,
        at.noise_precision,
    )
    variance = at.dual_variance
    for _ in range(COVARIANCE_ROUNDS):
        sample_precision = update_precision(priors.sample, at.dual**2 + variance)  # q(λ)
        dual = Gaussian(
            at.dual, *spd_inverse(plus_diagonal(problem.gram, sample_precision.mean, tau), overwrite=True)
        )
        variance = dual.variance
    sample_precision = update_precision(priors.sample, dual.square)
    latent: Any = None
    mean = at.latent
    if not problem.outcome.is_observed:
        latent, mean = _latent(problem, at, corrections)  # q(f)
    known: Any = _Known(at.projection)
    _, intermediate = update_intermediate(  # q(G)
        known,
        at.dual,
        mean,
        at.readout,
        at.readout_cov,
        tau,
        epsilon,
    )
    readout = Gaussian.from_moments(at.readout, at.readout_cov)
    scores = latent_mean(intermediate, readout)
    intercept_precision = update_precision(priors.intercept, readout.square[0])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout.square[1:])  # q(ω)
    design = readout_design(intermediate)
    state = State(
        sample_precision, dual, intermediate, intercept_precision, kernel_precision, readout, latent
    )
    error, misfit = model.errors(problem, state, at.projection, design)
    mean, next_precisions = (problem.y if latent is None else latent.mean), (tau, epsilon)
    if problem.outcome.has_noise:
        noises = (
            update_noise_precision(problem.priors.intermediate, error, intermediate.n_projected),  # q(υ)
            update_noise_precision(problem.priors.noise, misfit, intermediate.n_samples),  # q(ε)
        )
        state = state._replace(intermediate_precision=noises[0], noise_precision=noises[1])
        next_precisions = noises[0].mean, noises[1].mean
    bound = model.elbo(problem, state, error, misfit)
    prior_precision = readout_precision(intercept_precision, kernel_precision)
    v = xp.zeros_like(mean) if latent is None else latent.variance
    curvature = _readout_curvature(intermediate, at.readout[1:], mean - scores, v, epsilon, design)
    curvature = plus_diagonal(curvature, prior_precision)
    target = readout_target(intermediate, mean)
    return Response(state, bound, next_precisions, design, target, prior_precision, curvature, scores)


def _latent(problem: Problem, at: Point, corrections: int) -> tuple[TruncatedMoments, Any]:
    """Return q(f), and the E[f] of which q(G) is to be the update, where both agree.

    They do where the expected score solves ``s = α + κ E[f | s]``. Its right-hand side rises with a slope below one,
    and the mean of a truncated normal is convex on the side of its label: from the second step on, Newton's method
    comes to the solution from one side.
    """
    moments, tau, epsilon = (
        readout_moments(at.readout, at.readout_cov),
        at.intermediate_precision,
        at.noise_precision,
    )
    cov, _ = spd_inverse(plus_diagonal(moments.weights_square, tau, epsilon), overwrite=True)
    u = cov @ moments.weights
    kappa = epsilon * (u @ moments.weights)
    start = tau * (u @ at.projection) + moments.intercept - epsilon * (u @ moments.intercept_weights)

    def corrected(_: int, score: Array) -> Any:
        own = truncated_moments(score, problem.y, problem.outcome.margin)
        return score - (score - start - kappa * own.mean) / (1.0 - kappa * own.variance)

    score = start + kappa * at.latent
    if is_numpy(score):
        for step in range(corrections):
            score = corrected(step, score)
    else:
        import jax

        score = jax.lax.fori_loop(0, corrections, corrected, score)
    latent = truncated_moments(score, problem.y, problem.outcome.margin)
    return latent, namespace(score).where(corrections > 0, latent.mean, at.latent)


def _readout_curvature(
    intermediate: IntermediateOutputs,
    weights: Array,
    residual: Array,
    variance: Array,
    epsilon: Scalar,
    design: Array,
) -> Any:
    r"""Return the curvature of the bound over (b, e), without the prior, q(G) and q(f) profiled out.

    With :math:`x_i = (1, E[g_i])` and zeros in the place of the intercept in :math:`\Sigma` and u, the equations of
    q(G) give :math:`dE[g_i] = \varepsilon (r_i \Sigma\,de + u (dE[f_i] - x_i^\top d(b, e)))` and
    :math:`d\Sigma = -\varepsilon (\Sigma\,de\,u^\top + u\,de^\top \Sigma)`. The derivative of
    :math:`\varepsilon \sum_i (r_i x_i - (0, \Sigma w))` becomes, with
    :math:`c_i = (1 - \kappa) v_i / (1 - \kappa v_i)`,

    .. math:: \varepsilon D - \varepsilon \sum_i ((1 - \kappa) c_i + \kappa) x_i x_i^\top
       - \varepsilon^2 \Big( q u^\top + u q^\top + \big(\textstyle\sum_i r_i^2 + N w^\top u\big) \Sigma
       + \big(\textstyle\sum_i \varepsilon r_i^2 v_i / (1 - \kappa v_i) + N\big) u u^\top \Big), \qquad
       q = \sum_i r_i (c_i - 1) x_i .
    """
    mean, cov = intermediate.mean, intermediate.cov
    n = intermediate.n_samples
    xp = namespace(mean)
    u = cov @ weights
    overlap = weights @ u
    kappa = epsilon * overlap
    c = (1.0 - kappa) * variance / (1.0 - kappa * variance)
    psi, phi = (1.0 - kappa) * c + kappa, residual * (c - 1.0)
    explained = bordered(psi.sum(), mean @ psi, (mean * psi) @ mean.T)
    zero = xp.zeros_like(u[:1])
    tail, q = xp.concatenate([zero, u]), xp.concatenate([phi.sum(keepdims=True), mean @ phi])
    spread = bordered(0.0, xp.zeros_like(u), cov)
    square = (epsilon * residual**2 * variance / (1.0 - kappa * variance)).sum() + n
    outer = xp.outer(q, tail)
    return epsilon * (design - explained) - epsilon**2 * (
        outer + outer.T + ((residual**2).sum() + n * overlap) * spread + square * xp.outer(tail, tail)
    )


# ------------------------------------------------------------------------------------------------ with the kernels


def curve(problem: Problem, at: Point, response: Response) -> tuple[Any, Any]:
    """Return slope (N1) and curvature (N3), from one evaluation of the kernels."""
    xp, state = namespace(at.dual), response.state
    tau, epsilon = response.next_precisions
    intermediate, weights = state.intermediate, at.readout[1:]
    n_kernels = weights.shape[0]
    u = intermediate.cov @ weights
    kappa = epsilon * (u @ weights)
    v = 0.0 * response.scores if state.latent is None else state.latent.variance
    cov = at.readout_cov[1:, 1:]
    eye = xp.eye(n_kernels, dtype=cov.dtype)
    small = xp.linalg.solve(tau * eye + epsilon * cov, epsilon * cov)
    omega = epsilon * tau**2 * (1.0 - v) / ((1.0 - kappa) * (1.0 - kappa * v))
    pull, gram = problem.stack.adjoint_and_mixed_gram(intermediate.mean, u, omega)
    precision = state.sample_precision.mean
    slope = tau * (pull - problem.gram @ at.dual) - precision * at.dual
    curvature = plus_diagonal(gram + (tau * xp.trace(small) / n_kernels) * problem.gram, precision)
    return slope, curvature


def move(at: Point, direction: Array, ahead: Array, t: Scalar, s: Scalar, scaled: Scalar) -> Point:
    """Go to ``e^s (m + t d)``, with kernel weights that are smaller by the same factor.

    Parameters
    ----------
    at : Point
    direction, ahead : array
        d, and the products of all kernels with it.
    t, s, scaled : float
        Where to go; and the part of s that the kernel weights of `at` have already.
    """
    xp = namespace(at.dual)
    grow = xp.exp(s)
    shrink = xp.where(xp.arange(at.readout.shape[0]) > 0, xp.exp(scaled - s), 1.0)
    return at._replace(
        dual=grow * (at.dual + t * direction),
        projection=grow * (at.projection + t * ahead),
        readout=shrink * at.readout,
        readout_cov=xp.outer(shrink, shrink) * at.readout_cov,
    )


def slopes(response: Response, at: Point, direction: Array, ahead: Array, s: Scalar) -> Any:
    """Return the derivatives of the bound by t and s at ``e^s (m + t d)``, where `at` is now."""
    xp, state = namespace(at.dual), response.state
    left = response.next_precisions[0] * (state.intermediate.mean - at.projection)
    pull = state.sample_precision.mean * at.dual
    by_t = xp.exp(s) * (xp.vdot(left, ahead) - pull @ direction)
    return xp.stack([by_t, xp.vdot(left, at.projection) - pull @ at.dual])


def first_point(problem: Problem, start: Any, state: State | None = None) -> Point:
    """Return the point of the update of q(a), (3), from a carry of the model; or with q(a), q(b, e) of a `state`."""
    tau, epsilon = model.precisions(problem, start)
    latent = problem.y if problem.outcome.is_observed else start.latent
    if state is None:
        precision = update_precision(problem.priors.sample, start.dual_square).mean
        dual, readout = (
            update_dual(problem.gram, start.pull, precision, tau),
            (start.readout, start.readout_cov),
        )
    else:
        dual, readout = state.dual, (state.readout.mean, state.readout.cov)
        if state.intermediate_precision is not None and state.noise_precision is not None:
            tau, epsilon = state.intermediate_precision.mean, state.noise_precision.mean
    projection = problem.stack.apply(dual.mean)
    # numbers of a type that JAX does not compile for a second time
    tau, epsilon = (namespace(projection).asarray(own, dtype=projection.dtype) for own in (tau, epsilon))
    return Point(dual.mean, projection, dual.variance, *readout, latent, tau, epsilon)
