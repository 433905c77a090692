"""Coordinate ascent on the evidence lower bound of any BEMKL model, plain or accelerated.

An algorithm is a module with ``sweep(problem, start) -> (state, elbo)``, ``carry(problem, state) -> start`` and, for
the acceleration, ``COORDINATES`` and ``scales(state)``, one per field of the carry: scales of what the coordinates
measure. The plain loop is the paper's: sweep after sweep. The accelerated one starts every sweep from an Anderson
extrapolation of the last ones and keeps it only if the bound does not fall; otherwise it forgets all but the last and
takes the plain sweep. Coordinate ascent and this rule together keep the bound monotone.

`ascend` is the loop without its sweeps: it says where the next one starts and is told what it found. Compilation for
JAX is around the sweeps: no model knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesmkl._numerics import acceleration
from bayesmkl._numerics.arrays import Array
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.threads import blas_threads_for

# A plain sweep may lose this much to rounding, relative to the bound, before the loop gives up.
ROUNDING = 1e-9
# Sweeps in a row that must gain less than the tolerance: after a rejected extrapolation the next two sweeps are
# plain ones, whose gain says nothing about the distance to the optimum.
PATIENCE = 3


class Algorithm(Protocol):
    """Interface of an algorithm module to the loop."""

    COORDINATES: Any  # one Coordinate per field of the carry
    STATE: type  # of the posterior factors

    @staticmethod
    def sweep(problem: Any, start: Any) -> tuple[Any, Any]: ...  # noqa: D102
    @staticmethod
    def carry(problem: Any, state: Any) -> Any: ...  # noqa: D102
    @staticmethod
    def scales(state: Any) -> Any: ...  # noqa: D102


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


class LoopResult(NamedTuple):
    """Posterior factors, the bound after every sweep (never falling), how many sweeps, and why they ended."""

    state: Any
    elbo_history: np.ndarray
    n_iter: int
    n_rejected: int
    outcome: Outcome

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


# Yields where the next sweep starts, is sent the state and the bound that it found, returns the result.
Ascent = Generator[Any, tuple[Any, float], LoopResult]
OnSweep = Callable[[int, float], None]


def maximize_elbo(
    algorithm: Algorithm,
    problem: tuple[Any, ...],
    start: tuple[Array, ...],
    options: LoopOptions,
    on_sweep: OnSweep | None = None,
) -> LoopResult:
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
    if options.step != "coordinate":
        from bayesmkl.bemkl.newton import maximize_by_newton, takes_newton_steps

        if takes_newton_steps(options.step, algorithm, problem):
            return maximize_by_newton(problem, start, options, on_sweep)
    if options.backend == "jax":
        return _maximize_on_jax(algorithm, problem, start, options, on_sweep)
    views = Views(
        partial(algorithm.carry, problem), algorithm.scales, lambda state: state, algorithm.COORDINATES
    )
    ascent = ascend(start, views, options, on_sweep)
    with blas_threads_for(largest_dimension(start)):
        at = next(ascent)
        while True:
            try:
                at = ascent.send(_attempt(algorithm.sweep, problem, at))
            except StopIteration as end:
                return end.value


def _maximize_on_jax(
    algorithm: Algorithm,
    problem: tuple[Any, ...],
    carry: Any,
    options: LoopOptions,
    on_sweep: OnSweep | None,
) -> LoopResult:
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
        ascent = ascend(start, views, options, on_sweep)
        at = next(ascent)
        while True:
            found, elbo = sweep(problem, at)
            begin_copies((elbo, *found[1:]))
            try:
                at = ascent.send((found, float(elbo)))
            except StopIteration as end:
                return end.value


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
    start: tuple[Array, ...], views: Views, options: LoopOptions, on_sweep: OnSweep | None = None
) -> Ascent:
    """Run the loop as a generator; its caller does the sweeps.

    Parameters
    ----------
    start : NamedTuple
        Carry.
    views : Views
    options : LoopOptions
    on_sweep : callable, optional
        As in `maximize_elbo`.

    Yields
    ------
    NamedTuple
        Carry from which the next sweep starts; its state and bound are to be sent.
    """
    trace: list[float] = []

    def record(elbo: float) -> None:
        trace.append(elbo)
        if on_sweep is not None:
            on_sweep(len(trace), elbo)

    state, elbo = yield start
    record(elbo)
    outcome = _failure(elbo, -np.inf)
    quiet, n_rejected, history = 0, 0, acceleration.EMPTY
    here = views.carry(state) if outcome is None else None
    while outcome is None and len(trace) < options.max_iter:
        trial = None
        if len(history.outputs) >= 2:
            origin = acceleration.extrapolate(history, _flat(views.scales(state)))
            trial = yield acceleration.restore(origin, here, views.coordinates)
            if not trial[1] >= elbo:  # falls, or is not finite: forget the past, take the plain sweep
                trial, history, n_rejected = None, acceleration.forget(history), n_rejected + 1
                record(elbo)
                if len(trace) == options.max_iter:
                    break
        if trial is None:
            trial = yield here
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
    return LoopResult(views.final(state), np.array(trace), len(trace), n_rejected, outcome)


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


def _flat(carry: tuple[Array, ...]) -> np.ndarray:
    return np.concatenate([field.reshape(-1) for field in carry])
