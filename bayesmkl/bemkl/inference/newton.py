r"""Newton's method for the weights of landmarks, with all other factors profiled out.

Coordinate ascent (`loop`) reads all kernels in every sweep, and takes hundreds of them where there are many more
samples than weights `a`. But of q(a) the other factors see its covariance, which needs no sample, and
:math:`H = (K_m E[a])_m` alone. So let

.. math:: F(m) = \max_{q : E_q[a] = m} \mathrm{ELBO}(q)

with H known, which touches no kernel: Newton's method finds m, a few rounds on arrays of size P x N all else.

**Slope.** At the maximum over all else, with :math:`\tau = E[\upsilon]` and :math:`\varepsilon = E[\epsilon]`,

.. math:: \nabla F = \tau \sum_m K_m^\top (E[g_m] - K_m m) - E[\lambda] \circ m .    \tag{N1}

**Curvature.** Let :math:`w = E[e]`, C its covariance, :math:`\Sigma` the covariance of :math:`q(g_i)`,
:math:`u = \Sigma w`, :math:`\kappa = \varepsilon w^\top u`, :math:`v_i` the variance of :math:`q(f_i)` (0 where the
target is observed), :math:`r_i = E[f_i] - s_i` with the expected score :math:`s_i = w^\top E[g_i] + b`. Equations (4)
of q(G) and the moments of q(f) give :math:`dE[f_i] = v_i\,ds_i` and

.. math:: dE[g_i] = \tau \Sigma\,dh_i + \varepsilon u\,dE[f_i], \qquad
   (1 - \kappa v_i)\,ds_i = \tau u^\top dh_i .    \tag{N2}

With Woodbury's identity for :math:`\Sigma = (\tau I + \varepsilon(w w^\top + C))^{-1}` the derivative of (N1) is

.. math:: -\nabla^2 F = \mathrm{diag}\,E[\lambda] + \sum_i K_i^\top (S_0 + \omega_i u u^\top) K_i, \qquad
   \omega_i = \frac{\varepsilon \tau^2 (1 - v_i)}{(1 - \kappa)(1 - \kappa v_i)} \ge 0    \tag{N3}

at given q(b, e) and q(:math:`\lambda`), where :math:`S_0 = \tau \varepsilon C (\tau I + \varepsilon C)^{-1}` is of
order 1/N. The second part is the weighted gram of *one* mixture
:math:`\sum_m u_m K_m`, `KernelStack.adjoint_and_mixed_gram`; of the first the trace is kept,
:math:`(\mathrm{tr} S_0 / P) \sum_m K_m^\top K_m`, which is at hand. What (N3) leaves out, above all that E[λ] falls as
weights grow, makes it too large by a factor near two: the length of the step is searched for.

**Step.** Along :math:`e^s (m + t d)`, d the solution of (N3) for (N1), H is known, so t and s cost no kernels. The
scale s matters: prior and noises leave :math:`(c a, e / c)` undecided to first order, the direction in which
coordinate ascent creeps. Both derivatives follow from (N1) with :math:`H_d = (K_m d)_m`; a diagonal secant method
looks for their zeros, and nothing is kept but a higher bound, so that the bound never falls.

**All else.** At given H, q(b, e) is found by Newton's method with q(G) and q(f) profiled out (`_readout_curvature`),
or by equation (4) wherever that is not higher.

A step evaluates the kernels twice: (N1) with (N3), and :math:`H_d`. It takes 6 P N B flops for products with kernels,
2 N B^2 for the gram, and some tens of N P^2 + B^3 for all else; the floor of any method that looks at all kernels
once is 2 P N B. It ends where both the gain is at most `tol` of the bound, and the root mean square change of the
expected scores of the training samples, in units of their noise, at most :math:`\sqrt{\mathrm{tol}}`: the bound alone
says little about predictions, as it is flat around its maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.linalg import bordered, plus_diagonal, spd_inverse
from bayesmkl._numerics.truncated_normal import TruncatedMoments, label_moments
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl.inference.loop import LoopOptions, LoopResult, OnSweep
from bayesmkl.bemkl.models import binary, regression
from bayesmkl.bemkl.models.moments import (
    Gaussian,
    intermediate_error,
    latent_mean,
    readout_design,
    readout_moments,
    readout_precision,
    readout_target,
    score_error,
    update_dual,
    update_intermediate,
    update_noise_precision,
    update_precision,
    update_readout,
)

__all__ = ["Point", "Response", "curve", "has_newton_steps", "maximize_by_newton", "newton_pays", "respond"]

ROUNDING = 1e-9  # of the bound, which rounding may take away
COVARIANCE_ROUNDS = 2  # of q(λ) and the covariance of q(a), in every response
CORRECTIONS = 2  # Newton steps to the expected score of each sample
RESPONSES = 30, 4  # at most, to find all else at the start, and at every trial of a step
SETTLED = 1e-7, 1e-6  # gain of a response, relative to the bound, from which on no other is looked for
TRIALS, MORE_TRIALS = 4, 20  # of a step and scale; and until a higher bound is found
MOST_SCALE = 0.7  # change of the log scale in a trial


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

    state: Any
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


def has_newton_steps(algorithm: Any, problem: Any) -> bool:
    """Return whether the bound of a problem can be raised by `maximize_by_newton`: one target or two classes, no gaps.

    The score of an unlabeled sample is not log-concave, and weights that must not be negative have no normal factor.
    """
    if algorithm is binary:
        return problem.stack.present is None and bool(np.all(np.asarray(problem.y) != 0.0))
    return algorithm is regression and problem.stack.present is None


def newton_pays(problem: Any) -> bool:
    """Return whether Newton steps take less time than sweeps: where kernels are large and weights few.

    A step takes as long as two sweeps do for kernels, and there are some tens of them where sweeps are hundreds. What
    it does beside must be less than that by itself: a gram of 2 N B^2 flops and about ten responses, of 4 N P^2 + 4 B^3
    each, against ten sweeps of 4 P N B.
    """
    P, N, B = problem.stack.n_kernels, problem.stack.n_rows, problem.stack.n_train
    beside = 2 * N * B**2 + 10 * (4 * N * P**2 + 4 * B**3)
    return B < N and P * N * B >= LEAST_ENTRIES and beside <= 10 * 4 * P * N * B


LEAST_ENTRIES = 2**23  # of all kernels, from which on it matters: 64 MB


# --------------------------------------------------------------------------------- all else at a given E[a], no kernel


def respond(problem: Any, at: Point, corrections: int = CORRECTIONS) -> Response:
    """Update every factor but E[a] and q(b, e), which the point has.

    Parameters
    ----------
    problem : BinaryProblem or RegressionProblem
        Its stack is not looked at.
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
    latent = _profiled_latent(problem, at, corrections) if isinstance(problem, binary.BinaryProblem) else None
    _, intermediate = update_intermediate(
        _Known(at.projection),
        at.dual,
        at.latent if latent is None else latent.mean,
        at.readout,
        at.readout_cov,
        tau,
        epsilon,
    )
    readout = Gaussian.from_moments(at.readout, at.readout_cov)
    scores = latent_mean(intermediate, readout)
    if latent is not None:
        latent = label_moments(scores, problem.y, problem.margin)  # q(f)
    intercept_precision = update_precision(priors.intercept, readout.square[0])  # q(γ)
    kernel_precision = update_precision(priors.kernel, readout.square[1:])  # q(ω)
    design = readout_design(intermediate)
    shared = (intercept_precision, kernel_precision, readout)
    if latent is not None:
        state: Any = binary.BinaryState(sample_precision, dual, intermediate, *shared, latent)
        bound = binary.elbo(problem, state, at.projection, design)
        mean, next_precisions = latent.mean, (tau, epsilon)
    else:
        error = intermediate_error(intermediate, at.projection, problem.gram, dual)
        misfit = score_error(problem.y, intermediate, readout, design)
        noises = (
            update_noise_precision(priors.intermediate, error, intermediate.n_projected),  # q(υ)
            update_noise_precision(priors.noise, misfit, intermediate.n_samples),  # q(ε)
        )
        state = regression.RegressionState(sample_precision, *noises, dual, intermediate, *shared)
        bound = regression.elbo(problem, state, at.projection, design)
        mean, next_precisions = problem.y, (noises[0].mean, noises[1].mean)
    prior_precision = readout_precision(intercept_precision, kernel_precision)
    v = xp.zeros_like(mean) if latent is None else latent.variance
    curvature = _readout_curvature(intermediate, at.readout[1:], mean - scores, v, epsilon, design)
    curvature = plus_diagonal(curvature, prior_precision)
    target = readout_target(intermediate, mean)
    return Response(state, bound, next_precisions, design, target, prior_precision, curvature, scores)


def _profiled_latent(problem: Any, at: Point, corrections: int) -> TruncatedMoments:
    """Return q(f) where it and q(G) agree: the expected score solves ``s = α + κ E[f | s]``, by Newton's method.

    The right-hand side rises with a slope below one, and the mean of a truncated normal is convex on the side of its
    label: from the second step on, Newton's method comes to the solution from one side.
    """
    moments = readout_moments(at.readout, at.readout_cov)
    precision = plus_diagonal(
        moments.weights_square, at.intermediate_precision, at.noise_precision
    )
    u = spd_inverse(precision, overwrite=True)[0] @ moments.weights
    kappa = at.noise_precision * (u @ moments.weights)
    start = at.intermediate_precision * (u @ at.projection) + moments.intercept
    start = start - at.noise_precision * (u @ moments.intercept_weights)
    score = start + kappa * at.latent
    for _ in range(corrections):
        own = label_moments(score, problem.y, problem.margin)
        score = score - (score - start - kappa * own.mean) / (1.0 - kappa * own.variance)
    if corrections == 0:  # q(G) by the E[f] that was
        return TruncatedMoments(at.latent, at.latent, at.latent, at.latent)
    return label_moments(score, problem.y, problem.margin)


def _readout_curvature(
    intermediate: Any, weights: Array, residual: Array, variance: Array, epsilon: Any, design: Array
) -> Any:
    r"""Return the curvature of the bound over (b, e), without the prior, q(G) and q(f) profiled out.

    With :math:`x_i = (1, E[g_i])` and zeros in the place of the intercept in :math:`\Sigma` and u, the equations of q(G)
    give :math:`dE[g_i] = \varepsilon (r_i \Sigma\,de + u (dE[f_i] - x_i^\top d(b, e)))` and
    :math:`d\Sigma = -\varepsilon (\Sigma\,de\,u^\top + u\,de^\top \Sigma)`. The derivative of
    :math:`\varepsilon \sum_i (r_i x_i - (0, \Sigma w))` becomes, with :math:`c_i = (1 - \kappa) v_i / (1 - \kappa v_i)`,

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


def curve(problem: Any, at: Point, response: Response) -> tuple[Any, Any]:
    """Return slope (N1) and curvature (N3), from one evaluation of the kernels."""
    xp, state = namespace(at.dual), response.state
    tau, epsilon = response.next_precisions
    intermediate, weights = state.intermediate, at.readout[1:]
    n_kernels = weights.shape[0]
    u = intermediate.cov @ weights
    kappa = epsilon * (u @ weights)
    v = state.latent.variance if isinstance(state, binary.BinaryState) else 0.0 * response.scores
    cov = at.readout_cov[1:, 1:]
    eye = xp.eye(n_kernels, dtype=cov.dtype)
    small = xp.linalg.solve(tau * eye + epsilon * cov, epsilon * cov)
    omega = epsilon * tau**2 * (1.0 - v) / ((1.0 - kappa) * (1.0 - kappa * v))
    pull, gram = problem.stack.adjoint_and_mixed_gram(intermediate.mean, u, omega)
    precision = state.sample_precision.mean
    slope = tau * (pull - problem.gram @ at.dual) - precision * at.dual
    curvature = plus_diagonal(gram + (tau * xp.trace(small) / n_kernels) * problem.gram, precision)
    return slope, curvature


def move(at: Point, direction: Array, ahead: Array, t: Any, s: Any, scaled: Any) -> Point:
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


def slopes(response: Response, at: Point, direction: Array, ahead: Array, s: Any) -> Any:
    """Return the derivatives of the bound by t and s at ``e^s (m + t d)``, where `at` is now."""
    xp, state = namespace(at.dual), response.state
    left = response.next_precisions[0] * (state.intermediate.mean - at.projection)
    pull = state.sample_precision.mean * at.dual
    by_t = xp.exp(s) * (xp.vdot(left, ahead) - pull @ direction)
    return xp.stack([by_t, xp.vdot(left, at.projection) - pull @ at.dual])


def first_point(problem: Any, start: Any) -> Point:
    """Return the point of the update of q(a), (3), from a carry of the model."""
    tau, epsilon, latent = 1.0, 1.0, problem.y
    if isinstance(problem, binary.BinaryProblem):
        tau, latent = problem.intermediate_precision, start.latent
    else:
        tau, epsilon = start.intermediate_precision, start.noise_precision
    precision = update_precision(problem.priors.sample, start.dual_square).mean
    dual = update_dual(problem.gram, start.pull, precision, tau)
    projection = problem.stack.apply(dual.mean)
    return Point(
        dual.mean, projection, dual.variance, start.readout, start.readout_cov, latent, tau, epsilon
    )


# ------------------------------------------------------------------------------------------------------- the ascent


class _Functions(NamedTuple):
    """The functions above as they are, or compiled."""

    first_point: Callable[..., Point]
    respond: Callable[..., Response]
    curve: Callable[..., tuple[Any, Any]]
    apply: Callable[..., Any]
    move: Callable[..., Point]
    slopes: Callable[..., Any]


class _Found(NamedTuple):
    """A point and its response."""

    at: Point
    response: Response

    @property
    def bound(self) -> float:
        return float(self.response.bound)


def maximize_by_newton(
    problem: Any, start: Any, options: LoopOptions, on_step: OnSweep | None = None
) -> LoopResult:
    """Raise the bound of a problem by Newton steps from the carry `start`.

    Parameters
    ----------
    problem : BinaryProblem or RegressionProblem
        One for which `has_newton_steps`.
    start : BinaryCarry or RegressionCarry
        NumPy arrays.
    options : LoopOptions
        `max_iter` counts steps, `tol` is the relative gain of the bound; both criteria are above. With `tol` 0 the
        ascent ends where rounding does not let the bound rise any more.
    on_step : callable, optional
        Called with the number of steps done, the start counted as one, and the bound.

    Returns
    -------
    LoopResult
        `n_rejected` counts trials of a step that did not raise the bound.
    """
    plain = _Functions(first_point, respond, curve, _apply, move, slopes)
    if options.backend != "jax":
        with blas_threads_for(problem.stack.n_rows), np.errstate(all="ignore"):
            return _ascend(plain, problem, start, options, on_step)
    import jax

    from bayesmkl._utils.devices import double_precision, to_devices, to_numpy

    with double_precision():
        compiled = _Functions(*map(jax.jit, plain))
        compiled = compiled._replace(respond=jax.jit(respond, static_argnums=2))
        result = _ascend(compiled, to_devices(problem), start, options, on_step)
        return result._replace(state=to_numpy(result.state))


def _apply(problem: Any, vector: Array) -> Any:
    return problem.stack.apply(vector)


def _ascend(
    own: _Functions, problem: Any, start: Any, options: LoopOptions, on_step: OnSweep | None
) -> LoopResult:
    trace: list[float] = []

    def record(bound: float) -> None:
        trace.append(bound)
        if on_step is not None:
            on_step(len(trace), bound)

    respond_to = partial(_attempt, own.respond, problem._replace(stack=None))
    here = _settle(respond_to, own.first_point(problem, start), RESPONSES[0], SETTLED[0])
    if here is None or not np.isfinite(here.bound):
        return LoopResult(None, np.array([np.nan]), 1, 0, Outcome.NOT_FINITE)
    record(here.bound)
    outcome, n_rejected, scale_curvature = None, 0, 0.1 * problem.y.shape[-1]
    while outcome is None and len(trace) < options.max_iter:
        slope, curvature = map(np.asarray, own.curve(problem, here.at, here.response))
        try:
            direction = np.linalg.solve(curvature, slope)
        except np.linalg.LinAlgError:
            outcome = Outcome.NOT_FINITE
            break
        rise = float(slope @ direction)
        if not np.isfinite(rise):
            outcome = Outcome.NOT_FINITE
            break
        ahead = own.apply(problem, direction)
        before, found = here, _search(own, respond_to, here, direction, ahead, rise, scale_curvature)
        n_rejected += found.n_rejected
        here, scale_curvature = found.found, found.scale_curvature
        gain = here.bound - before.bound
        if here is before:
            small = rise <= max(options.tol, ROUNDING) * abs(here.bound)
            outcome = Outcome.CONVERGED if small else Outcome.NOT_IMPROVING
            break
        record(here.bound)
        difference = np.asarray(here.response.scores - before.response.scores)
        change = math.sqrt(float(here.at.noise_precision) * np.mean(difference**2))
        if gain <= options.tol * abs(here.bound) and change <= math.sqrt(options.tol):
            outcome = Outcome.CONVERGED
    outcome = outcome or Outcome.MAX_ITER
    return LoopResult(here.response.state, np.array(trace), len(trace), n_rejected, outcome)


def _attempt(
    respond_: Callable[..., Response], problem: Any, at: Point, corrections: int = CORRECTIONS
) -> _Found | None:
    """Respond; a failed factorization is None, as is a bound of NaN on JAX."""
    try:
        response = respond_(problem, at, corrections)
    except np.linalg.LinAlgError:
        return None
    return _Found(at, response)


def _settle(
    respond_to: Callable[..., _Found | None], at: Point, most: int, least: float
) -> _Found | None:
    """Find all else at given E[a]: Newton steps of q(b, e), updates (4) where they are not higher."""
    here = respond_to(at)
    if here is None:
        return None
    for _ in range(most - 1):
        by_newton, by_update = _next_points(here)
        trial = None if by_newton is None else respond_to(by_newton)
        for corrections in (CORRECTIONS, 0):
            if trial is None or not trial.bound >= here.bound:
                trial = respond_to(by_update, corrections)
        if trial is None or not trial.bound >= here.bound:
            break
        gain, here = trial.bound - here.bound, trial
        if gain <= least * abs(here.bound):
            break
    return here


def _next_points(found: _Found) -> tuple[Point | None, Point]:
    """Return the point of the Newton step of E[(b, e)], if there is one, and that of the update (4)."""
    at, response = found
    design, target, prior, curvature, mean = (
        np.asarray(value)
        for value in (
            response.design,
            response.target,
            response.prior_precision,
            response.curvature,
            at.readout,
        )
    )
    epsilon = float(at.noise_precision)
    update = update_readout(design, target, prior, epsilon)
    state = response.state
    tau, noise = response.next_precisions
    latent = state.latent.mean if isinstance(state, binary.BinaryState) else at.latent
    plain = at._replace(
        dual_variance=state.dual.variance,
        readout=update.mean,
        readout_cov=update.cov,
        latent=latent,
        intermediate_precision=tau,
        noise_precision=noise,
    )
    try:
        root = np.linalg.cholesky(curvature)
    except np.linalg.LinAlgError:
        return None, plain
    slope = epsilon * (target - design @ mean) - prior * mean
    step = np.linalg.solve(root.T, np.linalg.solve(root, slope))
    return plain._replace(readout=mean + step), plain


class _SearchResult(NamedTuple):
    found: _Found
    scale_curvature: float
    n_rejected: int


def _search(
    own: _Functions,
    respond_to: Callable[..., _Found | None],
    start: _Found,
    direction: np.ndarray,
    ahead: Array,
    rise: float,
    scale_curvature: float,
) -> _SearchResult:
    """Look for t and s of ``e^s (m + t d)`` by a diagonal secant method on the derivatives; keep what is highest."""
    best, last, n_rejected = start, start, 0
    x = np.zeros(2)
    slope = np.array([rise, float(own.slopes(start.response, start.at, direction, ahead, 0.0)[1])])
    curvature = np.array([rise, scale_curvature])
    for trial in range(MORE_TRIALS):
        change = np.clip(slope / curvature, [-0.75 * x[0], -MOST_SCALE], [2.0, MOST_SCALE])
        if trial >= TRIALS:
            if best is not start:
                break
            change = np.array([0.25 ** (trial - TRIALS + 1), 0.0]) - x  # short enough, a step raises the bound
        elif best is not start and abs(slope @ change) < SETTLED[1] * abs(best.bound):
            break
        t, s = x + change
        base = last.at._replace(dual=start.at.dual, projection=start.at.projection)
        found = _settle(respond_to, own.move(base, direction, ahead, t, s, x[1]), RESPONSES[1], SETTLED[1])
        if found is None or not np.isfinite(found.bound):
            n_rejected, curvature = n_rejected + 1, 4.0 * curvature
            continue
        before, slope = slope, np.asarray(own.slopes(found.response, found.at, direction, ahead, s))
        last, x = found, x + change
        if found.bound > best.bound:
            best = found
        else:
            n_rejected += 1
        for i in np.flatnonzero(np.abs(change) > 1e-3):
            measured = (before[i] - slope[i]) / change[i]
            near = curvature[i] / 5.0, curvature[i] * 5.0
            curvature[i] = np.clip(measured, *near) if measured > 0.0 else curvature[i] / 2.0
    return _SearchResult(best, float(curvature[1]), n_rejected)
