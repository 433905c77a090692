"""Outcomes of iterative algorithms."""

from __future__ import annotations

import enum


class Outcome(enum.Enum):
    """Reason why a loop, an optimizer or a sampler stopped; the value is a sentence for people."""

    CONVERGED = "converged: the objective no longer changed by more than the tolerance"
    MAX_ITER = "stopped at the iteration limit"
    NOT_FINITE = "stopped: the objective or a factorization was not finite"
    NOT_IMPROVING = "stopped: the objective got worse, which exact arithmetic rules out"
    MIXED = "converged: the chains agree"
    NOT_MIXED = "finished before the chains agreed"
    DIVERGING = "finished with divergent transitions"
    WEIGHTED = "converged: the importance weights have a light tail"
    NOT_WEIGHTED = "finished with importance weights of a heavy tail"
    INTERRUPTED = "interrupted: what was done until then is kept"

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached, the chains agree, or so do the weights."""
        return self in (Outcome.CONVERGED, Outcome.MIXED, Outcome.WEIGHTED)
