"""Several models of one algorithm that are fitted together, such as the classes against the rest.

Every model gets what its own fit would have found. On NumPy they follow one another, and agree with it to the last
bit. On JAX their loops advance in lock step. One compiled function sweeps several models, mapped over what differs
from model to model, mostly the labels; the kernels, their gram matrix and whatever else is the same array in all
problems is there once, and one pass over the kernels serves all that are swept together. Sums then run in another
order, and acceleration makes the most of such differences: fits agree as far as the tolerance decides them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from bayesmkl.bemkl.loop import (
    Algorithm,
    LoopOptions,
    LoopResult,
    OnSweep,
    Views,
    advance,
    ascend,
    largest_dimension,
    maximize_elbo,
)

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
        Of the same shapes. What is the same array in all problems should be the same object: it is not copied.
    options : LoopOptions
    on_sweep : callable, optional
        Called with the sweeps done, on average over all models, and the sum of the bounds so far.

    Returns
    -------
    list of LoopResult
        In the order of the problems.
    """
    run = _on_jax if options.backend == "jax" and len(problems) > 1 else _in_turn
    return run(algorithm, problems, starts, options, _observers(len(problems), on_sweep))


def _observers(n_models: int, on_sweep: OnSweep | None) -> list[OnSweep | None]:
    """Return for every model what its loop reports to."""
    if on_sweep is None:
        return [None] * n_models
    latest: dict[int, tuple[int, float]] = {}  # sweeps and bound of the models that have begun

    def observe(k: int, *now: Any) -> None:
        latest[k] = now
        counts, bounds = zip(*latest.values(), strict=True)
        on_sweep(sum(counts) // n_models, sum(bounds))

    return [partial(observe, k) for k in range(n_models)]


def _in_turn(algorithm: Any, problems: Any, starts: Any, options: Any, observers: Any) -> list[LoopResult]:
    return [
        maximize_elbo(algorithm, problem, start, options, observer)
        for problem, start, observer in zip(problems, starts, observers, strict=True)
    ]


# --------------------------------------------------------------------------------------------------------- on JAX


class _Swept(NamedTuple):
    """State of one model among those that were swept together."""

    states: Any  # of all of them, JAX arrays with a leading axis
    slot: int
    carry: Any  # of this model, NumPy arrays
    scales: Any


def _on_jax(algorithm: Any, problems: Any, starts: Any, options: Any, observers: Any) -> list[LoopResult]:
    import jax

    most = _at_once(len(problems), largest_dimension(starts[0]))
    with jax.enable_x64(True):
        leaves, axes, structure = _merge(problems)
        sweep_all = _compile(algorithm.sweep, algorithm.carry, algorithm.scales, structure, axes)
        take = jax.jit(_take)
        views = Views(
            lambda state: state.carry,
            lambda state: state.scales,
            lambda state: jax.tree.map(np.asarray, take(state.states, state.slot)),
            algorithm.COORDINATES,
        )

        def dispatch(group: list[int], waiting: dict[int, Any]) -> Any:
            slots = group + group[-1:] * (_slots(len(group), most) - len(group))
            own = [leaf if axis is None else leaf[slots] for leaf, axis in zip(leaves, axes, strict=True)]
            return sweep_all(
                own, jax.tree.map(lambda *fields: np.stack(fields), *[waiting[k] for k in slots])
            )

        def sweep(waiting: dict[int, Any]) -> dict[int, Any]:
            models = list(waiting)
            groups = [models[first : first + most] for first in range(0, len(models), most)]
            running = [dispatch(group, waiting) for group in groups]
            found = [_split(len(group), *swept) for group, swept in zip(groups, running, strict=True)]
            return dict(zip(models, chain.from_iterable(found), strict=True))

        ascents = [
            ascend(start, views, options, observer) for start, observer in zip(starts, observers, strict=True)
        ]
        return advance(ascents, sweep)


def _at_once(n_models: int, size: int) -> int:
    """How many models one call sweeps: as many in every call, if there have to be several."""
    import jax

    if jax.default_backend() != "cpu":
        return n_models
    n_calls = -(-n_models // max(1, min(AT_ONCE, ENTRIES // size**2)))
    return -(-n_models // n_calls)


def _slots(n_models: int, most: int) -> int:
    """How many slots a call has for `n_models`: `most`, its half, its quarter ..., each to be compiled once.

    Slots that are left over sweep the last model again.
    """
    while most >= 2 * n_models:
        most //= 2
    return most


def _merge(problems: Sequence[Any]) -> tuple[list[Any], tuple[int | None, ...], Any]:
    """Leaves of all problems as trees, with the axis of the models where they differ, and the structure."""
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
def _compile(sweep: Any, carry: Any, scales: Any, structure: Any, axes: tuple[int | None, ...]) -> Any:
    """Return a compiled function that sweeps several models: their states, bounds, carries and scales."""
    import jax

    def one(leaves: Any, start: Any) -> Any:
        state, elbo = sweep(jax.tree.unflatten(structure, leaves), start)
        return state, elbo, carry(state), scales(state)

    return jax.jit(jax.vmap(one, in_axes=(list(axes), 0)))


def _take(states: Any, slot: Any) -> Any:
    """Return the state of one model."""
    import jax

    return jax.tree.map(lambda field: field[slot], states)


def _split(n_models: int, states: Any, bounds: Any, carry: Any, scales: Any) -> list[tuple[_Swept, float]]:
    """Return state and bound of every model, and forget the slots behind them."""
    import jax

    carry, scales = jax.tree.map(np.asarray, (carry, scales))

    def swept(slot: int) -> _Swept:
        return _Swept(states, slot, *jax.tree.map(lambda field: field[slot], (carry, scales)))

    return [(swept(slot), float(bound)) for slot, bound in enumerate(np.asarray(bounds)[:n_models])]
