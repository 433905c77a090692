"""Arrays to JAX and back, double precision there, and one thread at a time in NumPyro."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np


@contextmanager
def double_precision() -> Iterator[None]:
    """Compute in double precision in this thread, and broadcast as NumPy does, whatever JAX is set to outside.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with jax.numpy_rank_promotion("raise"), double_precision():
    ...     (jnp.ones((2, 2)) * jnp.ones(2)).dtype
    dtype('float64')
    """
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield


def to_devices(tree: Any) -> Any:
    """Move arrays to JAX; those that are there stay."""
    return jax.tree.map(jax.numpy.asarray, tree)


def to_numpy(tree: object) -> Any:
    """Copy JAX arrays into NumPy arrays."""
    begin_copies(tree)
    return jax.tree.map(np.asarray, tree)


def begin_copies(tree: object) -> None:
    """Let JAX arrays be copied to the host as soon as they are computed, not each when it is asked for."""
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.Array):
            leaf.copy_to_host_async()


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
