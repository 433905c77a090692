"""Several models of one algorithm that are fitted together: classes against the rest, folds, settings of a grid.

Every model gets what its own fit would have found. On NumPy they follow one another, and agree with it to the last
bit. On JAX their loops advance in lock step. One compiled function sweeps several models, mapped over what differs
from model to model, such as labels or priors; the kernels, their gram matrix and whatever else is the same array in
all problems is there once, and one pass over the kernels serves all that are swept together. Sums then run in another
order, and acceleration makes the most of such differences: fits agree as far as the tolerance decides them.

Models with kernels of their own, such as folds, are padded to one size (`padding`). An accelerator sweeps them
together. A CPU would gain nothing: there the models that share their kernels are one batch, and batches of the same
size run what was compiled for the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array
from bayesmkl.bemkl.inference.loop import (
    Algorithm,
    Ascent,
    LoopOptions,
    LoopResult,
    OnSweep,
    Views,
    ascend,
    largest_dimension,
    maximize_elbo,
)
from bayesmkl.bemkl.inference.newton import takes_newton_steps
from bayesmkl.bemkl.inference.padding import ExactShape, Padding, pad_problems, size_class, stored_kernels

__all__ = ["maximize_elbo_batch"]

# One call on a CPU sweeps at most this many models, and no more than make so many entries of matrices to factorize.
# Reading the kernels for a few models costs as much as for one; more would only sweep models that have ended, and
# large temporary arrays cost more than they save. An accelerator sweeps all models at once.
AT_ONCE, ENTRIES = 4, 2**20


def maximize_elbo_batch(
    algorithm: Algorithm,
    problems: Sequence[Any],
    starts: Sequence[Any],
    options: LoopOptions,
    on_sweep: OnSweep | None = None,
) -> list[LoopResult]:
    """Run `algorithm` on every problem from its start; the counterpart of `maximize_elbo` for several models.

    Parameters
    ----------
    algorithm : module
    problems, starts : sequences of NamedTuple
        What is the same array in several problems should be the same object: it is not copied.
    options : LoopOptions
    on_sweep : callable, optional
        Called with the sweeps done, on average over all models, and the sum of the bounds so far.

    Returns
    -------
    list of LoopResult
        In the order of the problems.
    """
    observers = _observers(len(problems), on_sweep)
    if options.backend != "jax" or len(problems) == 1:
        return _in_turn(algorithm, problems, starts, options, observers)
    if all(takes_newton_steps(options.step, algorithm, problem) for problem in problems):
        return _in_turn(algorithm, problems, starts, options, observers)
    results: dict[int, LoopResult] = {}
    for batch in _batches(problems):
        run = _on_jax if len(batch) > 1 else _in_turn
        own, own_starts, own_observers = (
            [all_of[k] for k in batch] for all_of in (problems, starts, observers)
        )
        found = run(algorithm, own, own_starts, options, own_observers)
        results |= dict(zip(batch, found, strict=True))
    return [results[k] for k in range(len(problems))]


def _observers(n_models: int, on_sweep: OnSweep | None) -> list[OnSweep | None]:
    """Return the progress callback of every model."""
    if on_sweep is None:
        return [None] * n_models
    latest: dict[int, tuple[int, float]] = {}  # sweeps and bound of the models that have begun

    def observe(k: int, *now: Any) -> None:
        latest[k] = now
        counts, bounds = zip(*latest.values(), strict=True)
        on_sweep(sum(counts) // n_models, sum(bounds))

    return [partial(observe, k) for k in range(n_models)]


def _in_turn(
    algorithm: Algorithm,
    problems: Sequence[Any],
    starts: Sequence[Any],
    options: LoopOptions,
    observers: Sequence[OnSweep | None],
) -> list[LoopResult]:
    return [
        maximize_elbo(algorithm, problem, start, options, observer)
        for problem, start, observer in zip(problems, starts, observers, strict=True)
    ]


# --------------------------------------------------------------------------------------------------------- on JAX


class _Swept(NamedTuple):
    """State of one model among those that were swept together."""

    states: Any  # of all of them, JAX arrays with a leading axis
    slot: int
    padding: Padding | ExactShape
    carry: Any  # of this model, NumPy arrays
    scales: Any


def _batches(problems: Sequence[Any]) -> list[list[int]]:
    """Return groups of problems to sweep together, by their positions."""
    import jax

    on_cpu = jax.default_backend() == "cpu"
    batches: dict[Any, list[int]] = {}
    for k, problem in enumerate(problems):
        kernels = id(stored_kernels(problem.stack)) if on_cpu else None
        key = (
            (size_class(problem), kernels) if problem.stack.mesh is None else (k,)
        )  # split over devices: alone
        batches.setdefault(key, []).append(k)
    return list(batches.values())


def _on_jax(
    algorithm: Algorithm,
    problems: Sequence[Any],
    starts: Sequence[Any],
    options: LoopOptions,
    observers: Sequence[OnSweep | None],
) -> list[LoopResult]:
    import jax

    from bayesmkl._utils.devices import double_precision

    problems, paddings = pad_problems(problems)
    most = _at_once(len(problems), largest_dimension(paddings[0].start(starts[0])))
    with double_precision():
        leaves, axes, structure = _merge(problems)
        own = paddings[0].wrap(algorithm)
        sweep_all = _compile(own.sweep, own.carry, own.scales, structure, axes)
        take = jax.jit(_take)
        views = Views(
            lambda state: state.carry,
            lambda state: state.scales,
            lambda state: state.padding.state(jax.tree.map(np.asarray, take(state.states, state.slot))),
            algorithm.COORDINATES,
        )

        def dispatch(group: list[int], waiting: dict[int, Any]) -> Any:
            slots = group + group[-1:] * (_slots(len(group), most) - len(group))
            own = [leaf if axis is None else leaf[slots] for leaf, axis in zip(leaves, axes, strict=True)]
            padded = [paddings[k].start(waiting[k]) for k in slots]
            return sweep_all(own, jax.tree.map(lambda *fields: np.stack(fields), *padded))

        def sweep(waiting: dict[int, Any]) -> dict[int, Any]:
            models = list(waiting)
            groups = [models[first : first + most] for first in range(0, len(models), most)]
            running = [dispatch(group, waiting) for group in groups]
            found = [
                _split([paddings[k] for k in group], *swept)
                for group, swept in zip(groups, running, strict=True)
            ]
            return dict(zip(models, chain.from_iterable(found), strict=True))

        ascents = [
            ascend(start, views, options, observer) for start, observer in zip(starts, observers, strict=True)
        ]
        return _advance(ascents, sweep)


def _advance(
    ascents: Sequence[Ascent], sweep: Callable[[dict[int, Any]], dict[int, tuple[Any, float]]]
) -> list[LoopResult]:
    """Run loops in lock step until all have ended.

    Parameters
    ----------
    ascents : sequence of generators
        From `ascend`.
    sweep : callable
        From where the sweeps start, by the positions of the loops that have not ended, to the states and bounds
        that they find.
    """
    starts, results = {k: next(ascent) for k, ascent in enumerate(ascents)}, {}
    while starts:
        found = sweep(starts)
        for k in tuple(found):
            try:
                starts[k] = ascents[k].send(found.pop(k))  # nothing keeps states that are rejected
            except StopIteration as end:
                results[k] = end.value
                del starts[k]
    return [results[k] for k in range(len(ascents))]


def _at_once(n_models: int, size: int) -> int:
    """Return how many models one call sweeps: as many in every call, if there have to be several."""
    import jax

    if jax.default_backend() != "cpu":
        return n_models
    n_calls = -(-n_models // max(1, min(AT_ONCE, ENTRIES // size**2)))
    return -(-n_models // n_calls)


def _slots(n_models: int, most: int) -> int:
    """Return how many slots a call has for `n_models`: `most`, or its eighth, its 64th ..., each to be compiled once.

    Slots that are left over sweep the last model again: a CPU has few of them, and would take longer to compile a
    smaller size. Where an accelerator has many, they may cost what they would if they were needed.
    """
    while most >= 8 * n_models:
        most //= 8
    return most


def _merge(problems: Sequence[Any]) -> tuple[list[Any], tuple[int | None, ...], Any]:
    """Return leaves of all problems as trees, with the axis of the models where they differ, and the structure."""
    import jax

    each, structures = zip(*map(jax.tree.flatten, problems), strict=True)
    leaves: list[Any] = []
    axes: list[int | None] = []
    for values in zip(*each, strict=True):
        first = values[0]
        shared = all(value is first or (np.ndim(value) == 0 and value == first) for value in values)
        leaves.append(jax.numpy.asarray(first) if shared else np.stack(values))
        axes.append(None if shared else 0)
    return leaves, tuple(axes), structures[0]


@lru_cache(maxsize=32)
def _compile(
    sweep: Callable[..., Any], carry: Any, scales: Any, structure: Any, axes: tuple[int | None, ...]
) -> Any:
    """Return a compiled function that sweeps several models: their states, bounds, carries and scales."""
    import jax

    def one(leaves: tuple[Array, ...], start: tuple[Array, ...]) -> Any:
        problem = jax.tree.unflatten(structure, leaves)
        state, elbo = sweep(problem, start)
        return state, elbo, carry(problem, state), scales(state)

    return jax.jit(jax.vmap(one, in_axes=(list(axes), 0)))


def _take(states: Any, slot: Array | int) -> Any:
    """Return the state of one model."""
    import jax

    return jax.tree.map(lambda field: field[slot], states)


def _split(
    paddings: list[Padding | ExactShape],
    states: Any,
    bounds: Array,
    carry: tuple[Array, ...],
    scales: tuple[Array, ...],
) -> list[tuple[_Swept, float]]:
    """Return state and bound of every model, and forget the slots behind them."""
    import jax

    carry, scales, bounds = jax.tree.map(np.asarray, (carry, scales, bounds))

    def swept(slot: int, padding: Padding | ExactShape) -> _Swept:
        own = (jax.tree.map(lambda field: field[slot], moments) for moments in (carry, scales))
        return _Swept(states, slot, padding, *map(padding.carry, own))

    return [(swept(slot, own), own.bound(bounds[slot])) for slot, own in enumerate(paddings)]
