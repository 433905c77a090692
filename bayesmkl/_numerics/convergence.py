"""How an iterative algorithm ended."""

from __future__ import annotations

import enum

__all__ = ["Outcome"]


class Outcome(enum.Enum):
    """Reason why a loop stopped; the value is a sentence for people."""

    CONVERGED = "converged: the objective no longer changed by more than the tolerance"
    MAX_ITER = "stopped at the iteration limit"
    NOT_FINITE = "stopped: the objective or a factorization was not finite"
    NOT_IMPROVING = "stopped: the objective got worse, which exact arithmetic rules out"

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached."""
        return self is Outcome.CONVERGED
