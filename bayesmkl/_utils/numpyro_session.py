"""One thread at a time in NumPyro, in double precision."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bayesmkl._utils.devices import double_precision

_LOCK = threading.RLock()


@contextmanager
def numpyro_session() -> Iterator[None]:
    """Hold NumPyro alone, in double precision, for the duration of a ``with`` block.

    NumPyro has one stack of handlers per process: two threads in it at once break each other. Other threads wait; the
    same thread may enter again. Arrays that leave the block should be NumPy arrays: outside, JAX computes in single
    precision.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> with numpyro_session():
    ...     float(dist.Normal(0.0, 1.0).log_prob(0.0))
    -0.9189385332046727
    """
    with _LOCK, double_precision():
        yield
