"""One BLAS thread for small problems.

NumPy and SciPy bring a BLAS library each, every one with its own pool of threads. Alternating small products of the
one with small factorizations of the other makes the pools wait for each other's spinning threads: sweeps become
several times slower than on one thread, and far worse on a busy machine.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import threadpool_limits

__all__ = ["blas_threads_for"]

# Factorizations of matrices from this size on gain more from several threads than the pools lose.
LARGE = 1500


def blas_threads_for(size: int) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread while the largest matrix to factorize has fewer than `LARGE` rows.

    The limit is process-wide. Of several Python threads the first one sets and restores it, threadpoolctl sees to
    that.

    Parameters
    ----------
    size : int
        Rows of the largest matrix.

    Examples
    --------
    >>> with blas_threads_for(400):
    ...     pass
    """
    return threadpool_limits(1, user_api="blas") if size < LARGE else nullcontext()
