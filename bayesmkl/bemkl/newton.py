r"""Newton's method for the weights of landmarks, with all other factors profiled out.

Coordinate ascent (`ascent`) reads all kernels in every sweep, and takes hundreds of them where there are many more
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
:math:`\sum_m u_m K_m`, `Stack.adjoint_and_mixed_gram`; of the first the trace is kept,
:math:`(\mathrm{tr} S_0 / P) \sum_m K_m^\top K_m`, which is at hand. What (N3) leaves out, that E[λ] falls as weights
grow and that kernel weights follow, is learned from how slopes changed along the last steps (`SecantPairs`), and the
length of the step is searched for.

**Step.** Along :math:`e^s (m + t d)`, d the solution of (N3) for (N1), H is known, so t and s cost no kernels. The
scale s matters: prior and noises leave :math:`(c a, e / c)` undecided to first order, the direction in which
coordinate ascent creeps. Both derivatives follow from (N1) with :math:`H_d = (K_m d)_m`; a diagonal secant method
looks for their zeros, and nothing is kept but a higher bound, so that the bound never falls.

**All else.** At given H, q(b, e) is found by Newton's method with q(G) and q(f) profiled out (`_readout_curvature`),
or by equation (4) wherever that is not higher.

A step evaluates the kernels twice: (N1) with (N3), and :math:`H_d`. It takes 6 P N B flops for products with kernels,
2 N B^2 for the gram, and about fifteen times N P^2 + B^3 for all else; the floor of any method that looks at all
kernels once is 2 P N B.

It ends where both the gain is at most `tol` of the bound, and the root mean square change of the expected scores of
the training samples, in units of their noise, at most :math:`\sqrt{\mathrm{tol}}`: the bound alone says little about
predictions, as it is flat around its maximum. Where there are many rows, it begins on a sixteenth of them.

**The bound at given weights.** `respond` updates the factors at given E[a] and q(b, e), and says how the bound
depends on (b, e) while q(G) and q(f) follow; `curve` takes the derivatives by E[a], (N1) and (N3), from one
evaluation of the kernels; `move` and `slopes` go along :math:`e^s (m + t d)` and take the derivatives by t and s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.linalg import bordered, plus_diagonal, spd_inverse
from bayesmkl._numerics.truncated_normal import TruncatedMoments, truncated_moments
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl import model
from bayesmkl.bemkl.ascent import Fit, LoopOptions, OnSweep
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.moments import (
    Gaussian,
    IntermediateOutputs,
    latent_mean,
    readout_design,
    readout_moments,
    readout_precision,
    readout_target,
    update_dual,
    update_intermediate,
    update_precision,
    update_readout,
)

# --------------------------------------------------------------------------- the bound at given weights of landmarks


COVARIANCE_ROUNDS = 2  # of q(λ) and the covariance of q(a), in every response
CORRECTIONS = 2  # Newton steps to the expected score of each sample


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

    def apply_and_adjoin(self, vector: np.ndarray, mixing: np.ndarray, offset: np.ndarray) -> tuple[Any, Any]:
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
    priors, tau, epsilon = problem.priors, at.intermediate_precision, at.noise_precision
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
    state, error, misfit = model.update_noises(problem, state, at.projection, design)  # q(υ), q(ε)
    mean, next_precisions = (problem.y if latent is None else latent.mean), (tau, epsilon)
    if state.intermediate_precision is not None and state.noise_precision is not None:
        next_precisions = state.intermediate_precision.mean, state.noise_precision.mean
    bound = model.elbo(problem, state, error, misfit)
    prior_precision = readout_precision(intercept_precision, kernel_precision)
    v = np.zeros_like(mean) if latent is None else latent.variance
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

    score = start + kappa * at.latent
    for _ in range(corrections):
        own = truncated_moments(score, problem.y, problem.outcome.margin)
        score = score - (score - start - kappa * own.mean) / (1.0 - kappa * own.variance)
    latent = truncated_moments(score, problem.y, problem.outcome.margin)
    return latent, latent.mean if corrections > 0 else at.latent


def _readout_curvature(
    intermediate: IntermediateOutputs,
    weights: np.ndarray,
    residual: np.ndarray,
    variance: np.ndarray,
    epsilon: float,
    design: np.ndarray,
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
    u = cov @ weights
    overlap = weights @ u
    kappa = epsilon * overlap
    c = (1.0 - kappa) * variance / (1.0 - kappa * variance)
    psi, phi = (1.0 - kappa) * c + kappa, residual * (c - 1.0)
    explained = bordered(psi.sum(), mean @ psi, (mean * psi) @ mean.T)
    zero = np.zeros_like(u[:1])
    tail, q = np.concatenate([zero, u]), np.concatenate([phi.sum(keepdims=True), mean @ phi])
    spread = bordered(0.0, np.zeros_like(u), cov)
    square = (epsilon * residual**2 * variance / (1.0 - kappa * variance)).sum() + n
    outer = np.outer(q, tail)
    return epsilon * (design - explained) - epsilon**2 * (
        outer + outer.T + ((residual**2).sum() + n * overlap) * spread + square * np.outer(tail, tail)
    )


# ----------------------------------------------------------------------------------------------- with the kernels


def curve(problem: Problem, at: Point, response: Response) -> tuple[Any, Any]:
    """Return slope (N1) and curvature (N3), from one evaluation of the kernels."""
    state = response.state
    tau, epsilon = response.next_precisions
    intermediate, weights = state.intermediate, at.readout[1:]
    n_kernels = weights.shape[0]
    u = intermediate.cov @ weights
    kappa = epsilon * (u @ weights)
    v = 0.0 * response.scores if state.latent is None else state.latent.variance
    cov = at.readout_cov[1:, 1:]
    eye = np.eye(n_kernels, dtype=cov.dtype)
    small = np.linalg.solve(tau * eye + epsilon * cov, epsilon * cov)
    omega = epsilon * tau**2 * (1.0 - v) / ((1.0 - kappa) * (1.0 - kappa * v))
    pull, gram = problem.stack.adjoint_and_mixed_gram(intermediate.mean, u, omega)
    precision = state.sample_precision.mean
    slope = tau * (pull - problem.gram @ at.dual) - precision * at.dual
    curvature = plus_diagonal(gram + (tau * np.trace(small) / n_kernels) * problem.gram, precision)
    return slope, curvature


def move(at: Point, direction: np.ndarray, ahead: np.ndarray, t: float, s: float, scaled: float) -> Point:
    """Go to ``e^s (m + t d)``, with kernel weights that are smaller by the same factor.

    Parameters
    ----------
    at : Point
    direction, ahead : array
        d, and the products of all kernels with it.
    t, s, scaled : float
        Where to go; and the part of s that the kernel weights of `at` have already.
    """
    grow = np.exp(s)
    shrink = np.where(np.arange(at.readout.shape[0]) > 0, np.exp(scaled - s), 1.0)
    return at._replace(
        dual=grow * (at.dual + t * direction),
        projection=grow * (at.projection + t * ahead),
        readout=shrink * at.readout,
        readout_cov=np.outer(shrink, shrink) * at.readout_cov,
    )


def slopes(response: Response, at: Point, direction: np.ndarray, ahead: np.ndarray, s: float) -> Any:
    """Return the derivatives of the bound by t and s at ``e^s (m + t d)``, where `at` is now."""
    state = response.state
    left = response.next_precisions[0] * (state.intermediate.mean - at.projection)
    pull = state.sample_precision.mean * at.dual
    by_t = np.exp(s) * (np.vdot(left, ahead) - pull @ direction)
    return np.stack([by_t, np.vdot(left, at.projection) - pull @ at.dual])


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
    return Point(dual.mean, projection, dual.variance, *readout, latent, tau, epsilon)


# ----------------------------------------------------------------------------------------------------- Newton steps

ROUNDING = 1e-9  # of the bound, which rounding may take away
RESPONSES = 30, 3  # at most, to find all else at the start, and at every trial of a step
SETTLED = 1e-7, 1e-6  # gain of a response, relative to the bound, from which on no other is looked for
TRIALS, MORE_TRIALS = 4, 20  # of a step and scale; and until a higher bound is found
MOST_SCALE = 0.7  # change of the log scale in a trial
MOST_STRETCH = 100.0  # of a step of log precisions
ROWS_PER_WEIGHT, SMALLEST_PART, LARGEST_PART = 16, 4, 16  # of all rows, with which the ascent begins
NEAR = (
    1e-3  # gain of a step, relative to the bound, from which on changes of slopes say what curvature there is
)
EARLY_TOL, EARLY_STEPS = 1e-4, 40  # of the ascent on them


# ------------------------------------------------------------------------------------------------------ the ascent


class _Found(NamedTuple):
    """A point and its response, and how much farther than to their updates log τ and log ε are to go."""

    at: Point
    response: Response
    stretch: np.ndarray

    @property
    def bound(self) -> float:
        return float(self.response.bound)

    @property
    def log_precisions(self) -> np.ndarray:
        return np.log([float(self.at.intermediate_precision), float(self.at.noise_precision)])

    @property
    def residual(self) -> np.ndarray:
        """Distance of log τ and log ε to their updates, zero where they are known."""
        return np.log(np.array([float(own) for own in self.response.next_precisions])) - self.log_precisions

    def after(self, before: _Found) -> _Found:
        """Return the same with the stretch of a secant step."""
        moved, changed = self.log_precisions - before.log_precisions, self.residual - before.residual
        falls = moved * changed < 0.0
        stretch = np.where(falls, -moved / np.where(falls, changed, 1.0), 2.0 * before.stretch)
        return self._replace(stretch=np.clip(stretch, 1.0, MOST_STRETCH))


def maximize_by_newton(problem: Any, start: Any, options: LoopOptions, on_step: OnSweep | None = None) -> Fit:
    """Raise the bound of a problem by Newton steps from the carry `start`.

    Parameters
    ----------
    problem : Problem
        One for which `ascent.takes_newton_steps`.
    start : Carry
        NumPy arrays.
    options : LoopOptions
        `max_iter` counts steps over all rows, `tol` is the relative gain of the bound; both criteria are above. With
        `tol` 0 the ascent ends where rounding does not let the bound rise any more.
    on_step : callable, optional
        Called with the number of steps done, the start counted as one, and the bound.
    """
    with blas_threads_for(problem.stack.n_rows), np.errstate(all="ignore"):
        early = _from_some_rows(problem, start, options)
        responses = RESPONSES[0] if early is None else RESPONSES[1]
        here = _begin(problem, first_point(problem, start), responses)
        if early is not None and (here is None or not here.bound >= early.bound):
            here = early
        return _ascend(problem, here, options, on_step)


def _from_some_rows(problem: Any, start: Any, options: LoopOptions) -> _Found | None:
    """Return the point, among all rows, where the ascent on a few rows ends; None where a few are most of them.

    Steps on a sixteenth of the rows cost as much less. They end near enough for the last ones, on all rows; the steps
    between are saved.
    """
    stack = problem.stack
    n_rows = max(ROWS_PER_WEIGHT * stack.n_train, stack.n_rows // LARGEST_PART)
    if SMALLEST_PART * n_rows > stack.n_rows:
        return None
    rows = np.sort(np.random.default_rng(0).choice(stack.n_rows, n_rows, replace=False))
    few = stack.rows(rows)
    part, y = start._replace(pull=start.pull * (n_rows / stack.n_rows)), problem.y[rows]
    if not problem.outcome.is_observed:
        part = part._replace(latent=start.latent[rows])
    smaller = problem._replace(stack=few, gram=few.gram(), y=y)
    early = options._replace(tol=max(options.tol, EARLY_TOL), max_iter=EARLY_STEPS)
    state = _ascend(smaller, _begin(smaller, first_point(smaller, part)), early).state
    if state is None:
        return None
    at = first_point(problem, start, state)
    return _begin(problem, at)


def _begin(problem: Any, at: Point, responses: int = RESPONSES[0]) -> _Found | None:
    """Find all else at a point with which the ascent may begin."""
    rest = problem._replace(stack=None)
    return _settle(rest, _attempt(rest, np.ones(2), at), responses, SETTLED[0])


def _ascend(problem: Any, here: _Found | None, options: LoopOptions, on_step: OnSweep | None = None) -> Fit:
    trace: list[float] = []

    def record(bound: float) -> None:
        trace.append(bound)
        if on_step is not None:
            on_step(len(trace), bound)

    rest = problem._replace(stack=None)
    if here is None or not np.isfinite(here.bound):
        return Fit(None, Outcome.NOT_FINITE, 1, np.array([np.nan]))
    none = SecantPairs.none(problem.stack.n_train)
    scale_curvature, pairs = 0.1 * problem.y.shape[-1], none
    record(here.bound)
    outcome = None
    while outcome is None and len(trace) < options.max_iter:
        slope, curvature = curve(problem, here.at, here.response)
        pairs = pairs.at(here.at.dual, slope)
        try:
            direction = pairs.direction(partial(np.linalg.solve, curvature))
        except np.linalg.LinAlgError:
            outcome = Outcome.NOT_FINITE
            break
        rise = float(slope @ direction)
        if not np.isfinite(rise):
            outcome = Outcome.NOT_FINITE
            break
        ahead = problem.stack.apply(direction)
        before = here
        here, scale_curvature = _search(rest, here, direction, ahead, rise, scale_curvature)
        gain = here.bound - before.bound
        if here is before and len(pairs.steps):
            pairs = none  # responses are not exact, nor then are pairs of short steps
            continue
        if here is before:
            small = rise <= max(options.tol, ROUNDING) * abs(here.bound)
            outcome = Outcome.CONVERGED if small else Outcome.NOT_IMPROVING
            break
        if gain > NEAR * abs(here.bound):
            pairs = none
        record(here.bound)
        square = ((here.response.scores - before.response.scores) ** 2).mean()
        change = math.sqrt(float(here.at.noise_precision) * float(square))
        if gain <= options.tol * abs(here.bound) and change <= math.sqrt(options.tol):
            outcome = Outcome.CONVERGED
    outcome = outcome or Outcome.MAX_ITER
    return Fit(here.response.state, outcome, len(trace), np.array(trace))


def _attempt(
    problem: Problem, stretch: np.ndarray, at: Point, corrections: int = CORRECTIONS
) -> _Found | None:
    """Respond; a failed factorization is None."""
    try:
        return _Found(at, respond(problem, at, corrections), stretch)
    except np.linalg.LinAlgError:
        return None


def _settle(problem: Problem, here: _Found | None, most: int, least: float) -> _Found | None:
    """Find all else at given E[a]: Newton steps of q(b, e), updates (4) where they are not higher."""
    for _ in range(most):
        if here is None:
            return None
        by_newton, by_update = _next_points(here)
        trial = None if by_newton is None else _attempt(problem, here.stretch, by_newton)
        for corrections in (CORRECTIONS, 0):
            if trial is None or not trial.bound >= here.bound:
                trial = _attempt(problem, np.ones(2), by_update, corrections)
        if trial is None or not trial.bound >= here.bound:
            break
        gain, here = trial.bound - here.bound, trial.after(here)
        if gain <= least * abs(here.bound):
            break
    return here


def _next_points(found: _Found) -> tuple[Point | None, Point]:
    """Return the point of the Newton step of E[(b, e)], if there is one, and that of the update (4)."""
    at, response, state = found.at, found.response, found.response.state
    design, target, prior = response.design, response.target, response.prior_precision
    mean, epsilon = at.readout, float(at.noise_precision)
    update = update_readout(design, target, prior, epsilon)
    tau, noise = np.exp(found.log_precisions + found.residual)
    plain = at._replace(
        dual_variance=state.dual.variance,
        readout=update.mean,
        readout_cov=update.cov,
        latent=at.latent if state.latent is None else state.latent.mean,
        intermediate_precision=tau,
        noise_precision=noise,
    )
    try:
        root = np.linalg.cholesky(response.curvature)
    except np.linalg.LinAlgError:
        return None, plain
    slope = epsilon * (target - design @ mean) - prior * mean
    step = np.linalg.solve(root.T, np.linalg.solve(root, slope))
    tau, noise = np.exp(found.log_precisions + found.stretch * found.residual)
    return plain._replace(readout=mean + step, intermediate_precision=tau, noise_precision=noise), plain


def _search(
    problem: Problem,
    start: _Found,
    direction: np.ndarray,
    ahead: np.ndarray,
    rise: float,
    scale_curvature: float,
) -> tuple[_Found, float]:
    """Look for t and s of ``e^s (m + t d)`` by a diagonal secant method on the derivatives; keep what is highest.

    Also returns the curvature by s.
    """
    best, last, x = start, start, np.zeros(2)
    by_scale = slopes(start.response, start.at, direction, ahead, 0.0)[1]
    slope = np.array([rise, by_scale])
    curvature = np.array([rise, scale_curvature])
    for trial in range(MORE_TRIALS):
        change = np.clip(slope / curvature, [-0.75 * x[0], -MOST_SCALE], [2.0, MOST_SCALE])
        if trial >= TRIALS:
            if best is not start:
                break
            # short enough, a step raises the bound
            change = np.array([0.25 ** (trial - TRIALS + 1), 0.0]) - x
        elif best is not start and abs(slope @ change) < SETTLED[1] * abs(best.bound):
            break
        t, s = x + change
        base = last.at._replace(dual=start.at.dual, projection=start.at.projection)
        at = move(base, direction, ahead, t, s, x[1])
        found = _attempt(problem, last.stretch, at)
        found = _settle(problem, found, RESPONSES[1], SETTLED[1])
        if found is None or not np.isfinite(found.bound):
            curvature = 4.0 * curvature
            continue
        before, slope = slope, slopes(found.response, found.at, direction, ahead, s)
        last, x = found, x + change
        if found.bound > best.bound:
            best = found
        for i in np.flatnonzero(np.abs(change) > 1e-3):
            measured = (before[i] - slope[i]) / change[i]
            near = curvature[i] / 5.0, curvature[i] * 5.0
            curvature[i] = np.clip(measured, *near) if measured > 0.0 else curvature[i] / 2.0
    return best, float(curvature[1])


# ------------------------------------------------------------------------- pairs of steps and changes of the gradient


DEPTH = 10
LEAST_COSINE = 1e-10  # between a step and the change of slopes


class SecantPairs(NamedTuple):
    r"""The last pairs of steps and changes of slopes, and the point from which the next one is told.

    A maximum is looked for with slopes :math:`g_k` and matrices :math:`A_k` that are near the negative second
    derivative, but leave part of it out. The last pairs :math:`s_j = x_{j+1} - x_j` and :math:`y_j = g_j - g_{j+1}`
    say what it is along the steps that were taken: the direction is that of the limited-memory BFGS formula (Nocedal
    and Wright 2006, Numerical Optimization, algorithm 7.4), with :math:`A_k^{-1}` for its scaled identity.

    Attributes
    ----------
    steps, falls : ndarray of shape (n_pairs, n)
        Of points, and of slopes.
    point, slope : ndarray of shape (n,), or (0,) before there is a point

    Examples
    --------
    Slopes of a quadratic function with the second derivative -A; two pairs make up for a matrix without couplings.

    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> pairs, x = SecantPairs.none(2), np.array([1.0, 1.0])
    >>> for _ in range(4):
    ...     pairs = pairs.at(x, -A @ x)
    ...     x = x + pairs.direction(lambda slope: slope / np.diag(A))
    >>> bool(np.abs(x).max() < 1e-2)
    True
    """

    steps: np.ndarray
    falls: np.ndarray
    point: np.ndarray
    slope: np.ndarray

    @classmethod
    def none(cls, n: int) -> SecantPairs:
        """Return no pairs of vectors of `n` numbers."""
        return cls(np.empty((0, n)), np.empty((0, n)), np.empty(0), np.empty(0))

    def at(self, point: np.ndarray, slope: np.ndarray) -> SecantPairs:
        """Return the same with the pair that leads to a point, if slopes fall along it."""
        steps, falls = self.steps, self.falls
        if self.point.size:
            step, fall = point - self.point, self.slope - slope
            if step @ fall > LEAST_COSINE * np.linalg.norm(step) * np.linalg.norm(fall):
                steps, falls = (np.vstack([own, new])[-DEPTH:] for own, new in ((steps, step), (falls, fall)))
        return SecantPairs(steps, falls, point, slope)

    def direction(self, solve: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the direction from the last point.

        Parameters
        ----------
        solve : callable
            Multiplies a slope with the inverse of the curvature that is to be corrected.
        """
        rest, sizes = self.slope.copy(), []
        for step, fall in zip(self.steps[::-1], self.falls[::-1], strict=True):
            sizes.append((step @ rest) / (step @ fall))
            rest -= sizes[-1] * fall
        found = solve(rest)
        for step, fall, size in zip(self.steps, self.falls, sizes[::-1], strict=True):
            found = found + (size - (fall @ found) / (step @ fall)) * step
        return found
