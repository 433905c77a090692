"""The inferences of any BEMKL model: coordinate ascent on the evidence lower bound, plain or accelerated; samplers.

An algorithm is a module with ``sweep(problem, start) -> (state, elbo)``, ``carry(problem, state) -> start`` and, for
the acceleration, ``COORDINATES`` and ``scales(state)``, one per field of the carry: scales of what the coordinates
measure. The plain loop is the paper's: sweep after sweep. The accelerated one starts every sweep from an Anderson
extrapolation of the last ones and keeps it only if the bound does not fall; otherwise it forgets all but the last and
takes the plain sweep. Coordinate ascent and this rule together keep the bound monotone.

`ascend` is the loop, and is given what does a sweep. Compilation for JAX is around the sweeps: no model knows of it.

`run_nuts` and `run_gibbs` take a problem and return a posterior and how the run ended, a `Fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics import acceleration
from bayesmkl._numerics.arrays import Array
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.options import NUTS, Gibbs
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl import model
from bayesmkl.bemkl.draws import (
    PosteriorDraws,
    align_signs,
    draw_precisions,
    score_means,
    score_scales,
    share_of_each,
)
from bayesmkl.bemkl.gibbs import Chains, GibbsState, fit_gibbs
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.moments import Dirichlet, Gamma, SpikeSlab
from bayesmkl.outcomes import Labels, Numbers

# A plain sweep may lose this much to rounding, relative to the bound, before the loop gives up.
ROUNDING = 1e-9
# Sweeps in a row that must gain less than the tolerance: after a rejected extrapolation the next two sweeps are
# plain ones, whose gain says nothing about the distance to the optimum.
PATIENCE = 3
# Newton steps:
SWEEPS_FOR_A_STEP = 100  # that a step may cost: with landmarks there are thousands of sweeps
LEAST_ENTRIES = 2**23  # of all kernels, 64 MB: where they are smaller, sweeps take no time


class LoopOptions(NamedTuple):
    """Stopping rule and acceleration.

    `tol` is the relative change of the ELBO; 0 runs all `max_iter` sweeps, as the paper does with 200.
    `depth` is the number of past differences that are mixed. `step` is "coordinate", "newton", or "auto": the second
    where it saves time (`newton`).
    """

    max_iter: int = 1000
    tol: float = 1e-6
    accelerate: bool = True
    depth: int = 20
    backend: str = "numpy"
    step: str = "coordinate"


class Fit(NamedTuple):
    """A posterior and how it was found."""

    state: Any  # of factors, or PosteriorDraws
    outcome: Outcome
    n_iter: int  # sweeps, or draws of each chain
    elbo_history: Any = None  # the bound after every sweep, never falling
    n_rejected: int = 0  # extrapolations that did not raise it
    stats: dict[str, np.ndarray] | None = None
    agreement: Agreement | None = None

    @property
    def last_change(self) -> float:
        """Largest relative change of the bound over the last sweeps."""
        last = self.elbo_history[-PATIENCE - 1 :]
        return float(np.max(np.diff(last), initial=0.0) / abs(last[-1]))


class Views(NamedTuple):
    """The parts of a state that the loop reads, in NumPy arrays."""

    carry: Callable[[Any], Any]
    scales: Callable[[Any], Any]
    final: Callable[[Any], Any]  # the state that is returned
    coordinates: Any


OnSweep = Callable[[int, float], None]


def after(done: int, on_sweep: OnSweep | None, n_models: int = 1) -> OnSweep | None:
    """Return what reports the sweeps after those that are `done`, on average over several models."""
    return on_sweep and (lambda n, elbo: on_sweep((done + n) // n_models, elbo))


def maximize_elbo(
    algorithm: Any,
    problem: tuple[Any, ...],
    start: tuple[Array, ...],
    options: LoopOptions,
    on_sweep: OnSweep | None = None,
) -> Fit:
    """Run `algorithm` on `problem` from the carry `start`.

    Parameters
    ----------
    algorithm : module
    problem, start : NamedTuple
        NumPy arrays; with ``options.backend="jax"``, moved to JAX and back.
    options : LoopOptions
    on_sweep : callable, optional
        Called with the number of sweeps done and the bound, for progress reports.
    """
    if takes_newton_steps(options.step, algorithm, problem):
        from bayesmkl.bemkl.newton import maximize_by_newton

        return maximize_by_newton(problem, start, options, on_sweep)
    if options.backend == "jax":
        return _maximize_on_jax(algorithm, problem, start, options, on_sweep)
    views = Views(
        partial(algorithm.carry, problem), algorithm.scales, lambda state: state, algorithm.COORDINATES
    )
    with blas_threads_for(largest_dimension(start)):
        return ascend(start, partial(_attempt, algorithm.sweep, problem), views, options, on_sweep)


def takes_newton_steps(step: str, algorithm: object, problem: Any) -> bool:
    """Return whether a problem is to be solved by Newton steps.

    There are some for two classes and for one target, where all samples have labels and all views: the score of an
    unlabeled sample is not log-concave, and weights that must not be negative have no normal factor. Under "auto"
    they are taken where they save time: for landmarks, where kernels are large, and weights few enough. A step
    evaluates kernels twice, and there are tens of them where sweeps are hundreds; what it does beside, a gram of
    2 N B^2 flops and ten responses of 4 N P^2 + 4 B^3, must be less than a hundred sweeps of 4 P N B.

    Parameters
    ----------
    step : {"auto", "newton", "coordinate"}
    algorithm : module
    problem : NamedTuple

    Raises
    ------
    ValueError
        For "newton" with a problem that has no Newton steps.
    """
    if step == "coordinate":
        return False
    has_steps = algorithm is model and problem.y.ndim == 1 and problem.stack.present is None
    has_steps = has_steps and isinstance(problem.outcome, Labels | Numbers)
    if has_steps and not problem.outcome.has_noise:
        has_steps = bool(np.all(np.asarray(problem.y) != 0.0))
    if step == "newton" and not has_steps:
        raise ValueError(
            '`step` of `inference` "newton" supports two classes (or each class against the rest) and one '
            'target, without unlabeled samples, missing views or `nonnegative`. Use "auto" or "coordinate".'
        )
    if step == "newton" or not has_steps:
        return has_steps
    P, N, B = problem.stack.n_kernels, problem.stack.n_rows, problem.stack.n_train
    beside = 2 * N * B**2 + 10 * (4 * N * P**2 + 4 * B**3)
    return bool(B < N and P * N * B >= LEAST_ENTRIES and beside <= SWEEPS_FOR_A_STEP * 4 * P * N * B)


def _maximize_on_jax(
    algorithm: Any,
    problem: tuple[Any, ...],
    carry: Any,
    options: LoopOptions,
    on_sweep: OnSweep | None,
) -> Fit:
    import jax

    from bayesmkl._utils.devices import begin_copies, double_precision, to_devices, to_numpy

    factorized_here = largest_dimension(carry) if jax.default_backend() == "cpu" else 0
    with double_precision(), blas_threads_for(factorized_here):
        problem = to_devices(problem)
        start = carry._replace(readout_cov=np.asarray(carry.readout_cov))  # of many kernels it is in parts
        sweep = _compiled_sweep(algorithm.sweep, algorithm.carry, algorithm.scales)
        views = Views(  # extrapolation is little work on arrays that grow: not worth compiling
            lambda found: to_numpy(found[1]),
            lambda found: to_numpy(found[2]),
            lambda found: to_numpy(found[0]),
            algorithm.COORDINATES,
        )

        def attempt(at: Any) -> tuple[Any, float]:
            found, elbo = sweep(problem, at)
            begin_copies((elbo, *found[1:]))
            return found, float(elbo)

        return ascend(start, attempt, views, options, on_sweep)


@cache  # compiled once for every shape, however often it is asked for
def _compiled_sweep(sweep: Callable[..., Any], carry: Callable[..., Any], scales: Callable[..., Any]) -> Any:
    """Compile a sweep together with what is read of its state, whose moves to the host would wait for each other."""
    import jax

    @jax.jit
    def compiled(problem: Any, start: Any) -> tuple[Any, Any]:
        state, elbo = sweep(problem, start)
        return (state, carry(problem, state), scales(state)), elbo

    return compiled


def largest_dimension(start: tuple[Array, ...]) -> int:
    """Return the rows of the largest matrix that a sweep from `start` factorizes."""
    return max(max(np.shape(field), default=1) for field in start)


def ascend(
    start: tuple[Array, ...],
    attempt: Callable[[Any], tuple[Any, float]],
    views: Views,
    options: LoopOptions,
    on_sweep: OnSweep | None = None,
) -> Fit:
    """Run the loop.

    Parameters
    ----------
    start : NamedTuple
        Carry.
    attempt : callable
        Does a sweep from a carry, and returns the state and the bound that it found.
    views : Views
    options : LoopOptions
    on_sweep : callable, optional
        As in `maximize_elbo`.
    """
    trace: list[float] = []

    def record(elbo: float) -> None:
        trace.append(elbo)
        if on_sweep is not None:
            on_sweep(len(trace), elbo)

    state, elbo = attempt(start)
    record(elbo)
    outcome = _failure(elbo, -np.inf)
    quiet, n_rejected, history = 0, 0, acceleration.EMPTY
    here = views.carry(state) if outcome is None else None
    while outcome is None and len(trace) < options.max_iter:
        trial = None
        if len(history.outputs) >= 2:
            origin = acceleration.extrapolate(
                history, np.concatenate([field.reshape(-1) for field in views.scales(state)])
            )
            trial = attempt(acceleration.restore(origin, here, views.coordinates))
            if not trial[1] >= elbo:  # falls, or is not finite: forget the past, take the plain sweep
                trial, history, n_rejected = None, acceleration.forget(history), n_rejected + 1
                record(elbo)
                if len(trace) == options.max_iter:
                    break
        if trial is None:
            trial = attempt(here)
            outcome = _failure(trial[1], elbo)
            if outcome is not None:
                break
            origin = acceleration.flatten(here, views.coordinates) if options.accelerate else None
        quiet = quiet + 1 if trial[1] - elbo < options.tol * abs(trial[1]) else 0
        state, elbo = trial
        record(elbo)
        here = views.carry(state)
        if options.accelerate:
            output = acceleration.flatten(here, views.coordinates)
            residual = acceleration.measure(output - origin, here, views.coordinates)
            history = acceleration.remember(history, output, residual, options.depth)
        if options.tol > 0.0 and quiet >= PATIENCE:
            outcome = Outcome.CONVERGED
    outcome = outcome or Outcome.MAX_ITER
    return Fit(views.final(state), outcome, len(trace), np.array(trace), n_rejected)


def _attempt(
    sweep: Callable[..., Any], problem: tuple[Any, ...], start: tuple[Array, ...]
) -> tuple[Any, float]:
    """Run one sweep; a failed factorization counts as a bound of NaN, as it does on JAX."""
    try:
        with np.errstate(all="ignore"):
            state, elbo = sweep(problem, start)
    except np.linalg.LinAlgError:
        return None, float("nan")
    return state, float(elbo)


def _failure(elbo: float, before: float) -> Outcome | None:
    if not np.isfinite(elbo):
        return Outcome.NOT_FINITE
    if elbo < before - ROUNDING * abs(elbo):
        return Outcome.NOT_IMPROVING
    return None


# --------------------------------------------------------------------------------------- samplers, and how they ended


Report = Callable[[int, str], None] | None
# A weight whose precision is Gamma(c, r) is Student t with 2c degrees of freedom; below c = 1/2 its tails are heavier
# than Cauchy's, and the posterior of (a c, e / c) is all tail.
LEAST_CONCENTRATION = 0.5
RHAT, ESS, DIVERGENT = 1.01, 400.0, 0.005  # Vehtari et al. (2021) for the first two
# Bound on the relative error of a variance from which on it is reported. The errors themselves were a hundredth of it
# and below in comparisons with 50 digits.
TOO_MUCH = 0.1


def check_can_sample(problem: Problem, where: str) -> None:
    """Raise for priors whose posterior has no moments to sample, or with entries for another number of kernels.

    `where`, such as ``inference="nuts"``, says what needs them.
    """
    arguments = {"sample": "sample_prior", "intercept": "bias_prior", "kernel": "kernel_prior"}
    for name, prior in problem.priors._asdict().items():
        if isinstance(prior, Gamma) and prior.concentration < LEAST_CONCENTRATION:
            argument = arguments.get(name, f"{name}_prior")
            raise ValueError(
                f"`{argument}` must have a concentration of at least {LEAST_CONCENTRATION} with {where}; "
                f"got Gamma({prior.concentration:g}, {prior.rate:g}). Its variables have "
                f"{2 * prior.concentration:g} degrees of freedom: infinite variance, no mean, and a posterior "
                'that is improper in practice. Use "nonsparse", inference="vb", or, for sparse weights, '
                'inference="nuts" with kernel_prior="spike-slab".'
            )
    own: Any = problem.priors.kernel
    for field, entry in own._asdict().items() if isinstance(own, Dirichlet | SpikeSlab) else ():
        if np.ndim(entry) and len(entry) != problem.stack.n_kernels:
            raise ValueError(
                f"`kernel_prior.{field}` must be a number, or one for each of the {problem.stack.n_kernels} kernels; "
                f"got {len(entry)} of them."
            )


def run_nuts(problem: Problem, options: NUTS, rng: np.random.Generator, report: Report = None) -> Fit:
    """Sample by NUTS on the collapsed NumPyro model."""
    from bayesmkl.bemkl.program import fit_nuts

    seed = int(rng.integers(2**31))
    return _from_chains(problem, fit_nuts(problem, options, seed, report), rng)


def run_gibbs(
    problem: Problem,
    options: Gibbs,
    rng: np.random.Generator,
    report: Report = None,
    starts: list[GibbsState] | None = None,
) -> Fit:
    """Sample by blocked Gibbs."""
    return _from_chains(problem, fit_gibbs(problem, options, rng, report, starts), rng)


def gibbs_start(state: State, problem: Any, rng: np.random.Generator) -> GibbsState:
    """Draw the start of a chain from a variational posterior."""
    dual, readout = state.dual.draw(1, rng)[0], state.readout.draw(1, rng)[0]
    if state.intermediate_precision is not None and state.noise_precision is not None:
        known, noise = float(state.intermediate_precision.mean), float(state.noise_precision.mean)
    else:
        known, noise = float(problem.intermediate_precision), 1.0
    return GibbsState(dual, readout, known, noise)


def _from_chains(problem: Problem, chains: Chains, rng: np.random.Generator) -> Fit:
    draws = draw_precisions(align_signs(PosteriorDraws(**chains.parameters)), problem.priors, rng)
    agreement = check_agreement(problem, draws, chains.stats)
    outcome = judge(agreement, chains.interrupted)
    return Fit(draws, outcome, draws.n_draws, stats=chains.stats, agreement=agreement)


class Agreement(NamedTuple):
    """Convergence of the quantities that the model identifies: the worst over shares and training scores."""

    rhat: float  # largest split R-hat
    ess: float  # smallest effective sample size
    divergent: float  # share of draws that diverged


def check_agreement(problem: Problem, draws: PosteriorDraws, stats: dict[str, np.ndarray]) -> Agreement:
    """Compare the chains by quantities that the model's symmetries leave unchanged.

    These are the kernel shares and the training scores in units of their noise, m/s: raw weights are known up to
    sign and, weakly, scale only.
    """
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    flat, known = draws.flat(), problem.intermediate_precision
    scores = [score_means(problem.stack, own) / score_scales(own, known)[:, None] for own in flat.outputs()]
    shares = share_of_each(problem.stack, flat)
    values = np.concatenate([shares, *scores], axis=1).reshape(draws.n_chains, draws.n_draws, -1)
    moving = values[..., values.std(axis=(0, 1)) > 1e-12]  # the share of a single kernel is one in every draw
    diverging = stats.get("diverging")
    return Agreement(
        float(np.max(split_gelman_rubin(moving))),
        float(np.min(effective_sample_size(moving))),
        0.0 if diverging is None else float(np.mean(diverging)),
    )


def judge(agreement: Agreement, interrupted: bool) -> Outcome:
    """Return the outcomes of the run, the worst first."""
    if interrupted:
        return Outcome.INTERRUPTED
    if agreement.divergent > DIVERGENT:
        return Outcome.DIVERGING
    if not (agreement.rhat <= RHAT and agreement.ess >= ESS):
        return Outcome.NOT_MIXED
    return Outcome.MIXED


def rounding_error(problem: Any, state: Any) -> float:
    """Return a bound on the relative rounding error of the variances of a; one problem may be of several tasks.

    q(a) has the covariance of (υ Σ_m K_m' K_m + diag E[λ])^-1. Where kernels are zero, the prior decides, and there
    the rounding errors of the first term, relative to its largest entry, must be small next to E[λ]. They are, unless
    kernels of low rank have entries of a million: the default bank normalizes its kernels to one.
    """
    if hasattr(problem, "tasks"):
        return max(rounding_error(*pair) for pair in zip(problem.tasks, state.tasks, strict=True))
    learned = state.intermediate_precision
    precision = problem.intermediate_precision if learned is None else learned.mean
    largest = np.asarray(state.dual.variance).max(axis=-1) * np.asarray(problem.gram).diagonal().max()
    return float(np.finfo(np.float64).eps * np.max(precision * largest))


def sampling_advice(fits: list[Fit], options: Any) -> str | None:
    """Return what to do about the worst of several runs of a sampler, or None if all went well."""
    outcomes = [fit.outcome for fit in fits]
    if Outcome.INTERRUPTED in outcomes:
        kept = next(fit for fit in fits if fit.outcome is Outcome.INTERRUPTED).state
        return (
            f"was interrupted and kept {kept.n_chains} chain(s) of {kept.n_draws} draws "
            f"(asked: {options.n_chains} of {options.n_draws}). All results are those of the draws that were kept."
        )
    agreements = [fit.agreement for fit in fits if fit.agreement is not None]
    if Outcome.DIVERGING in outcomes:
        return (
            f"met divergent transitions in {100 * max(a.divergent for a in agreements):.1f} % of the draws: "
            "parts of the posterior may be missing. Bring `target_accept` of `inference` closer to one "
            f"(it is {options.target_accept:g}) or increase its `n_warmup`."
        )
    if Outcome.NOT_MIXED in outcomes:
        rhat, ess = max(a.rhat for a in agreements), min(a.ess for a in agreements)
        return (
            "finished before its chains agreed on kernel shares and scores: the largest R-hat is "
            f"{rhat:.3f} (at most {RHAT}), the smallest effective sample size {ess:.0f} (at least {ESS:.0f}). "
            "Increase `n_draws` of `inference`, or its `n_warmup`."
        )
    return None
