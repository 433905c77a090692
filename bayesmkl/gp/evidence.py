r"""Evidence of hyperparameters with scores integrated out, and its gradient by their covariance.

Exact for normal noise; for other likelihoods expectation propagation, or Laplace's approximation. Under Student t
noise expectation propagation starts from the sites of a variational bound. Each finds normal sites, so that
everything that is read from a fit afterwards is the same for all. Equations are those of Rasmussen and Williams
(2006), "RW".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.linalg.blas import dger

from bayesmkl._numerics.acceleration import EMPTY, History, extrapolate, remember
from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl.gp.conditioning import (
    LEAST_PRECISION,
    Cavity,
    Conditioned,
    Factored,
    Sites,
    cavity,
    condition,
    factorize,
)
from bayesmkl.outcomes import Heteroscedastic, StudentT
from bayesmkl.outcomes.base import Likelihood, Repeated, copies_of, of_one_copy, repeat


class Evidence(NamedTuple):
    r"""Log evidence at given hyperparameters.

    Attributes
    ----------
    log_evidence : float
        :math:`\log p(y \mid C, \phi)` in nats, or its approximation.
    by_parameters : array of shape (n_parameters,)
        By the parameters of the likelihood.
    sites : Sites
    posterior : Conditioned
        Scores given the sites.
    n_steps : int
        Factorizations that were needed.
    converged : bool
    by_mode : tuple of two arrays of shape (n_samples,), or None
        Vectors `u` and `v`: the mode that Laplace expands around adds :math:`(u v^\top + v u^\top) / 2` to the
        gradient.
    updated : Sites, optional
        Sites one update nearer to the fixed point, to start from elsewhere.
    """

    log_evidence: Any
    by_parameters: Any
    sites: Sites
    posterior: Conditioned
    n_steps: Any
    converged: Any
    by_mode: tuple[Any, Any] | None = None
    updated: Sites | None = None

    def by_covariance(self, overwrite: bool = False) -> Any:
        r"""Return :math:`\partial / \partial C_{ij}`, entries taken as free, symmetric (RW, eq. 5.27 and 5.23).

        On NumPy it may `overwrite` the inverse root of the posterior.
        """
        dual, found = self.posterior.dual, self.posterior.take_shrinkage(overwrite)
        products = (
            [(dual, dual)] if self.by_mode is None else [(dual, dual), self.by_mode, self.by_mode[::-1]]
        )
        if not is_numpy(found):
            return 0.5 * (sum(u[:, None] * v for u, v in products) - found)
        found *= -0.5
        for u, v in products:
            dger(0.5, u, v, a=found.T, overwrite_a=1)
        return found


class Height(NamedTuple):
    """Log evidence without what its gradient is made of; fields are those of `Evidence`."""

    log_evidence: Any
    sites: Sites
    posterior: Factored
    n_steps: int = 1
    converged: bool = True
    updated: None = None


EP_TOL = 1e-7  # largest change of a site, in standard deviations of its score
LAPLACE_TOL = 1e-9  # largest change of a score
MIXTURE_TOL = 1e-7  # largest change of a site's precision, in units of that of its score
NEAR_BOUND = 0.03  # the same, for sites from which expectation propagation goes on
MAX_STEPS = 200
MEMORY = 1  # steps that the next one is extrapolated from
NEAR = 0.03  # change of a site below which they are
LEAP = 3.0  # of the logarithm of a precision, farther than which it is not extrapolated
STALLED = 0.8  # of the last change: sites swing to and fro, as they do where scores are large
DAMPED = 0.5  # part of a step that is taken then
PATIENCE = 10  # steps, after which every step is one
LEVEL = 1e-11  # of a log density, below which two heights differ by rounding, and the longer step is taken
STEP_SIZES = (1.0, 0.5, 0.25, 0.0625, 0.0078125)


def exact_evidence(
    likelihood: Likelihood,
    y: Array,
    covariance: Array,
    parameters: Array,
    start: Sites | None = None,
    tol: float = 0.0,
    overwrite: bool = False,
) -> Evidence:
    """Return the evidence under normal noise (RW, eq. 5.8 and 5.9).

    It takes what the other two take; sites that are known need neither a start nor a tolerance. NumPy may `overwrite`
    the covariance where only evidence and gradient are read, see `condition`.
    """
    at_zero = likelihood.derivatives(y, namespace(covariance).zeros(len(covariance)), parameters)
    sites = Sites(-at_zero.second, at_zero.first)
    posterior = condition(covariance, sites, overwrite=overwrite)
    number = y if y.ndim == 1 else y[0]
    height = likelihood.log_density(y, number, parameters).sum()
    log_evidence = height - 0.5 * number @ posterior.dual - posterior.half_log_det
    slopes = likelihood.derivatives(y, posterior.mean, parameters)
    expected = slopes.parameters + 0.5 * posterior.variance * slopes.second_parameters  # of a quadratic
    return Evidence(log_evidence, expected.sum(axis=1), sites, posterior, 1, True)


def exact_height(
    likelihood: Likelihood,
    y: Any,
    covariance: Any,
    parameters: Any,
    start: Sites | None = None,
    tol: float = 0.0,
    overwrite: bool = False,
) -> Height:
    """Return what `exact_evidence` does, without a gradient: one factorization and no inverse, on NumPy.

    It may `overwrite` the covariance.
    """
    at_zero = likelihood.derivatives(y, namespace(covariance).zeros(len(covariance)), parameters, 2)
    sites = Sites(-at_zero.second, at_zero.first)
    posterior = factorize(covariance, sites, overwrite)
    number = y if y.ndim == 1 else y[0]
    height = likelihood.log_density(y, number, parameters).sum()
    return Height(height - 0.5 * number @ posterior.dual - posterior.half_log_det, sites, posterior)


def ep_evidence(
    likelihood: Likelihood,
    y: Array,
    covariance: Array,
    parameters: Array,
    start: Sites | None = None,
    tol: float = EP_TOL,
) -> Evidence:
    """Return the evidence of expectation propagation (RW, eq. 3.65, and 5.27 for its gradient).

    It is stationary in the sites, so that what they lack to the fixed point counts squared. But for densities that
    widen their score: their sites, which have no width, and the gradient are a little off (log-logistic times with
    late entries).
    """

    def update(
        sites: Sites, history: History, last: Any, n_steps: Any, spent: Conditioned | None = None
    ) -> _EPState:
        posterior = condition(covariance, sites.power(copies), spent)
        mean, precision = without = cavity(posterior, sites)
        tilted = likelihood.tilted(y, mean, 1.0 / precision, parameters)
        scale = 1.0 + tilted.second / precision
        wanted = xp.maximum(-tilted.second / scale, LEAST_PRECISION)  # densities may widen the score
        target = Sites(wanted, tilted.first + wanted * (mean + tilted.first / precision))
        change, own = target.precision - sites.precision, target.linear - sites.linear
        sd = xp.sqrt(posterior.variance)
        change = xp.maximum(xp.abs(own - posterior.mean * change) * sd, xp.abs(change) * sd**2).max()
        return _EPState(
            sites, posterior, without, tilted, target, change, change > STALLED * last, history, n_steps
        )

    def advance(state: _EPState) -> _EPState:
        output = _flat(state.target)
        history = remember(state.history, output, output - _flat(state.sites), MEMORY)
        sd = xp.sqrt(state.posterior.variance)
        scales = xp.concatenate([state.target.precision * sd**2 * many, sd * many])
        mixed = extrapolate(history, scales)
        size = xp.where(state.stalled | (state.n_steps > PATIENCE), DAMPED, 1.0)
        step = Sites(*(old + size * (new - old) for old, new in zip(state.sites, state.target, strict=True)))
        leaps = (
            xp.abs(mixed - _flat(step))[:n_samples] > LEAP
        )  # logarithms of precisions that are next to zero
        mixed = xp.where(xp.concatenate([leaps, leaps]), _flat(step), mixed)
        at = xp.where((state.change < NEAR) & xp.isfinite(mixed).all(), mixed, _flat(step))
        sites = Sites(xp.exp(at[:n_samples]), at[n_samples:])
        return update(sites, history, state.change, state.n_steps + 1, state.posterior)

    xp, n_samples = namespace(covariance), len(covariance)
    copies = copies_of(likelihood, y)  # whose sites are the same; states hold that of one
    many = xp.sqrt(xp.asarray(copies))
    n_steps = 1
    if start is not None:
        start = start.power(1.0 / copies)
    else:
        nothing = xp.zeros(n_samples)
        start = update(Sites(nothing, nothing), EMPTY, xp.inf, n_steps).target
        n_steps += 1
    first = _flat(start)  # there is nothing to extrapolate from yet
    unknown = History((first,) * (MEMORY + 1), (xp.nan * first,) * (MEMORY + 1))
    state = repeat(advance, update(start, unknown, xp.inf, n_steps), _moves(tol))
    sites, posterior, (mean, precision) = state.sites, state.posterior, state.cavity
    total = precision + sites.precision
    of_sites = (
        state.tilted.log_normalizer
        + 0.5 * xp.log1p(sites.precision / precision)
        - 0.5 * sites.linear**2 / total
        + precision / total * mean * (0.5 * sites.precision * mean - sites.linear)
    )
    every = sites.power(copies)
    log_evidence = (copies * of_sites).sum() - posterior.half_log_det + 0.5 * every.linear @ posterior.mean
    converged = state.change <= tol
    by_parameters = (copies * state.tilted.parameters).sum(axis=1)
    updated = state.target.power(copies)
    return Evidence(log_evidence, by_parameters, every, posterior, state.n_steps, converged, updated=updated)


def laplace_evidence(
    likelihood: Likelihood,
    y: Array,
    covariance: Array,
    parameters: Array,
    start: Sites | None = None,
    tol: float = LAPLACE_TOL,
) -> Evidence:
    """Return Laplace's evidence (RW, eq. 3.32 by algorithm 3.1, and eq. 5.20 to 5.24 for its gradient)."""

    def update(score: Any, dual: Any, n_steps: Any, spent: Conditioned | None = None) -> _LaplaceState:
        slopes = likelihood.derivatives(y, score, parameters)
        widens = slopes.second > -LEAST_PRECISION  # there the site has no width, whatever the hyperparameters
        none = {name: xp.where(widens, 0.0, getattr(slopes, name)) for name in ("third", "second_parameters")}
        precision = xp.maximum(-slopes.second, LEAST_PRECISION)
        slopes = slopes._replace(**none)
        sites = Sites(precision, slopes.first + precision * score)
        posterior = condition(covariance, sites, spent)
        change = xp.abs(posterior.mean - score).max()
        return _LaplaceState(score, dual, sites, posterior, slopes, change, n_steps)

    def height(score: Any, dual: Any) -> Any:
        return likelihood.log_density(y, score, parameters).sum(axis=-1) - 0.5 * (dual * score).sum(axis=-1)

    def advance(state: _LaplaceState) -> _LaplaceState:
        duals = state.dual + sizes * (state.posterior.dual - state.dual)
        scores = state.score + sizes * (state.posterior.mean - state.score)
        heights = height(scores, duals)
        best = xp.argmax(
            heights >= heights.max() - LEVEL * (1.0 + xp.abs(heights.max()))
        )  # the first of these
        return update(scores[best], duals[best], state.n_steps + 1, state.posterior)

    xp = namespace(covariance)
    sizes = xp.asarray(STEP_SIZES)[:, None]
    if start is None:
        nothing = xp.zeros(len(covariance))
        first = update(nothing, nothing, 1)
    else:
        near = condition(covariance, start)
        first = update(near.mean, near.dual, 2, near)
    state = repeat(advance, first, _moves(tol))
    posterior, slopes = state.posterior, state.slopes
    log_evidence = height(posterior.mean, posterior.dual) - posterior.half_log_det
    by_mode = 0.5 * posterior.variance * slopes.third
    pull = _follow(posterior, covariance, by_mode, -slopes.second)
    by_parameters = (
        slopes.parameters.sum(axis=1)
        + 0.5 * slopes.second_parameters @ posterior.variance
        + slopes.first_parameters @ (covariance @ pull)
    )
    return Evidence(
        log_evidence,
        by_parameters,
        state.sites,
        posterior,
        state.n_steps,
        state.change <= tol,
        (pull, slopes.first),
    )


def mixture_evidence(
    likelihood: StudentT | Heteroscedastic | Repeated,
    y: Array,
    covariance: Array,
    parameters: Array,
    start: Sites | None = None,
    tol: float = MIXTURE_TOL,
) -> Evidence:
    r"""Return a lower bound of the evidence under noise whose precision is a Gamma variable for each sample.

    Scores and precisions are independent under the variational posterior. With the best distribution of the
    precisions the bound is :math:`\sum_i \log p(r_i^2) - KL`, where :math:`r_i^2 = E[(y_i - f_i)^2]` and `KL` is the
    divergence of the scores from their prior; it is stationary in the sites, and these are always positive, where
    those of the mode are not (Tipping and Lawrence 2005, Variational inference for Student-t models).
    """

    def update(sites: Sites, n_steps: Any, spent: Conditioned | None = None) -> _MixtureState:
        posterior = condition(covariance, sites.power(counts), spent)
        square = (number - posterior.mean) ** 2 + posterior.variance
        distance = xp.sqrt(square)
        precision = noise.derivatives(distance, nothing, own).first / distance
        change = (xp.abs(precision - sites.precision) * posterior.variance).max()
        return _MixtureState(sites, posterior, Sites(precision, precision * number), square, change, n_steps)

    def advance(state: _MixtureState) -> _MixtureState:
        return update(state.target, state.n_steps + 1, state.posterior)

    xp = namespace(covariance)
    each, fields, counts = of_one_copy(likelihood, y)  # states hold the site of a sample that counts once
    noise: Any = each
    number, own = fields, parameters
    if isinstance(each, Heteroscedastic):
        noise, number, own = each.likelihood, fields[0], each.of_samples(fields, parameters)
    nothing = xp.zeros(len(covariance))
    if start is not None:
        start = start.power(1.0 / counts)
    else:
        at_zero = -noise.derivatives(nothing, nothing, own).second
        start = Sites(at_zero, at_zero * number)
    state = repeat(advance, update(start, 1), _moves(tol))
    posterior, sites = state.posterior, state.sites.power(counts)
    divergence = posterior.half_log_det + 0.5 * (
        posterior.mean @ posterior.dual - sites.precision @ posterior.variance
    )
    bound = (counts * noise.log_density_of_square(state.square, own)).sum() - divergence
    by_samples = counts * noise.parameter_slopes_of_square(state.square, own)
    if isinstance(each, Heteroscedastic):
        by_samples = each.pull(fields, by_samples)
    by_parameters = by_samples.sum(axis=1)
    return Evidence(bound, by_parameters, sites, posterior, state.n_steps, state.change <= tol)


def student_evidence(
    likelihood: StudentT | Heteroscedastic | Repeated,
    y: Array,
    covariance: Array,
    parameters: Array,
    start: Sites | None = None,
    tol: float = EP_TOL,
) -> Evidence:
    """Return the evidence of expectation propagation under Student t noise, which is not log-concave.

    It always starts near the sites of the bound and ignores `start`. From other sites it may end at another fixed
    point, whose evidence is wrong by many nats. The bound itself is no substitute: it is the looser the heavier the
    tails are, so that degrees of freedom and scale of the noise come out too large. The gradient is a few percent
    off where outliers have sites without a precision; draws are weighted by the evidence, which does not use it.
    Where expectation propagation does not converge its evidence may be anything, and the bound takes its place.
    """
    near = mixture_evidence(likelihood, y, covariance, parameters, tol=NEAR_BOUND)
    found = ep_evidence(likelihood, y, covariance, parameters, near.sites, tol)
    near = near._replace(converged=found.converged, n_steps=found.n_steps, updated=found.updated)
    if is_numpy(covariance):
        return found if found.converged else near
    import jax

    return jax.tree.map(lambda one, other: jax.numpy.where(found.converged, one, other), found, near)


class _EPState(NamedTuple):
    sites: Sites
    posterior: Conditioned
    cavity: Cavity
    tilted: Any
    target: Sites
    change: Any
    stalled: Any
    history: History
    n_steps: Any


class _MixtureState(NamedTuple):
    sites: Sites
    posterior: Conditioned
    target: Sites
    square: Any
    change: Any
    n_steps: Any


class _LaplaceState(NamedTuple):
    score: Any
    dual: Any
    sites: Sites
    posterior: Conditioned
    slopes: Any
    change: Any
    n_steps: Any


def _follow(posterior: Conditioned, covariance: Array, vector: Array, curvature: Array) -> Any:
    r"""Return :math:`(I + W C)^{-1} v`, by which a mode follows, with the curvature `W` of the densities themselves.

    Those that widen the score at the mode have a negative one, and a site without width.
    """
    xp = namespace(covariance)

    def solve() -> Any:
        return xp.linalg.solve(plus_diagonal(curvature[:, None] * covariance, 1.0), vector)

    widens = (curvature < 0.0).any()
    if is_numpy(covariance):
        return solve() if widens else posterior.remain(vector)
    import jax

    return jax.lax.cond(widens, solve, lambda: posterior.remain(vector))


def _flat(sites: Sites) -> Any:
    """Return sites as the vector that is accelerated, in which precisions stay positive."""
    xp = namespace(sites.linear)
    return xp.concatenate([xp.log(xp.maximum(sites.precision, LEAST_PRECISION)), sites.linear])


def _moves(tol: float) -> Callable[[Any], Any]:
    """Return whether a state still changes by more than `tol`."""
    return lambda state: (state.change > tol) & (state.n_steps < MAX_STEPS)
