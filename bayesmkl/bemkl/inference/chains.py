"""The loop over chains in blocks, which all samplers share.

A sampler is a pair of functions. ``start(group)`` returns the state of the chains in `group`, a list of numbers;
``advance(state, n, keep)`` takes `n` steps and returns the new state and two dictionaries, of parameters and of the
sampler's own statistics, whose arrays start with the axes (chains of the group, n). Both are ignored during warm-up.
Draws are copied out block by block: an interrupt loses one block, not the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.options import NUTS, Gibbs

BLOCK = 100  # steps between two reports
FEWEST = 10  # draws of an interrupted first chain that are worth keeping


class Chains(NamedTuple):
    """Output of a sampler: arrays (n_chains, n_draws, ...), and whether it was interrupted."""

    parameters: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    interrupted: bool


def run_chains(
    start: Callable[[list[int]], Any],
    advance: Callable[[Any, int, bool], tuple[Any, dict[str, Any], dict[str, Any]]],
    groups: Sequence[list[int]],
    options: NUTS | Gibbs,
    on_block: Callable[[int, str], None] | None = None,
) -> Chains:
    """Run one group of chains after the other: warm-up, then draws, in blocks of 100.

    Parameters
    ----------
    start, advance : callable
        The sampler, see the module's documentation.
    groups : sequence of list of int
        Chains that advance together.
    options : NUTS or Gibbs
    on_block : callable, optional
        Called after every block with the number of steps done (over all groups) and what is being done.

    Raises
    ------
    KeyboardInterrupt
        If the run is interrupted before there is anything to keep. Later interrupts end the run and keep all
        finished chains, or, during the first, the blocks that are finished.
    """
    finished: list[tuple[dict, dict]] = []
    blocks: list[tuple[dict, dict]] = []
    done, interrupted = 0, False
    try:
        for group in groups:
            state, blocks = start(group), []
            for n, keep in _schedule(options):
                state, parameters, stats = advance(state, n, keep)
                if keep:
                    blocks.append((_to_numpy(parameters), _to_numpy(stats)))
                done += n
                if on_block is not None:
                    phase = "draws" if keep else "warm-up"
                    on_block(
                        done,
                        f"chain {group[0] + 1} of {options.n_chains}, {phase}" if len(group) == 1 else phase,
                    )
            finished.append(_joined(blocks, axis=1))
    except KeyboardInterrupt:
        interrupted = True
        if not finished:
            finished = [_joined(blocks, axis=1)] if blocks else []
        if not finished or next(iter(finished[0][0].values())).shape[1] < FEWEST:
            raise
    return Chains(*_joined(finished, axis=0), interrupted)


def _schedule(options: NUTS | Gibbs) -> list[tuple[int, bool]]:
    """List (steps, whether they are draws) of all blocks of one chain."""

    def split(total: int) -> list[int]:
        return [BLOCK] * (total // BLOCK) + ([total % BLOCK] if total % BLOCK else [])

    return [(n, False) for n in split(options.n_warmup)] + [(n, True) for n in split(options.n_draws)]


def _to_numpy(arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, values in arrays.items()}


def _joined(parts: list[tuple[dict, dict]], axis: int) -> tuple[dict, dict]:
    first, second = (
        {name: np.concatenate([part[k][name] for part in parts], axis=axis) for name in parts[0][k]}
        for k in (0, 1)
    )
    return first, second
