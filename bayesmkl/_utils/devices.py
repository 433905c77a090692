"""Arrays to JAX and back, and double precision there."""

from __future__ import annotations

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
