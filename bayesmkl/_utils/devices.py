"""JAX devices: which ones a fit runs on, and how arrays get there and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = [
    "ROWS",
    "double_precision",
    "on_every_device",
    "resolve_devices",
    "row_mesh",
    "to_devices",
    "to_numpy",
]

ROWS = "rows"  # name of the one axis of a mesh, along which samples are split


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


def resolve_devices(devices: str | int | Sequence[jax.Device] | None) -> tuple[jax.Device, ...]:
    """Return the JAX devices that the `devices` argument of an estimator stands for.

    Parameters
    ----------
    devices : None, "all" or int
        None: the first one. "all": all that JAX sees, on other hosts too. An integer: as many of them, the first.

    Raises
    ------
    ValueError
        If JAX sees fewer; the message says what there is.

    Examples
    --------
    >>> len(resolve_devices(None)), len(resolve_devices(1))
    (1, 1)
    """
    seen = jax.devices()
    if isinstance(devices, str) and devices == "all":
        return tuple(seen)
    if devices is not None and (not isinstance(devices, Integral) or isinstance(devices, bool)):
        raise ValueError(f'`devices` must be None, "all" or a number of devices; got {devices!r}.')
    if jax.process_count() > 1:
        raise ValueError(
            f'`devices` must be "all" where processes share a fit, here {jax.process_count()}; got {devices!r}.'
        )
    n_devices = 1 if devices is None else int(devices)
    if not 1 <= n_devices <= len(seen):
        raise ValueError(
            f"`devices` must be from 1 to {len(seen)}, what JAX sees ({_named(seen)}); got {n_devices}. "
            f"{_remedy(seen)}"
        )
    return tuple(seen[:n_devices])


def _named(devices: list[jax.Device]) -> str:
    names = [str(device) for device in devices[:8]]
    return ", ".join(names + ["..."] * (len(devices) > 8))


def _remedy(seen: list[jax.Device]) -> str:
    if seen[0].platform != "cpu":
        return 'All of them: "all".'
    return (
        "For a GPU install JAX with its plugin. Several devices on one CPU are simulated where the environment of "
        "Python has XLA_FLAGS=--xla_force_host_platform_device_count=8."
    )


def row_mesh(devices: tuple[jax.Device, ...]) -> Mesh:
    """Return the mesh over devices along which rows are split."""
    return jax.make_mesh((len(devices),), (ROWS,), axis_types=(AxisType.Auto,), devices=devices)


def to_devices(problem: Any) -> Any:
    """Move the arrays of a problem to JAX: to the devices of its stack, where that is split over several.

    Parameters
    ----------
    problem : NamedTuple
        A `stack` in it whose `mesh` is not None stays where it is, and every device gets a copy of all else.
    """
    mesh = problem.stack.mesh if "stack" in problem._fields else None  # tasks have stacks of their own
    if mesh is None:
        return on_every_device(problem, None)
    return on_every_device(problem._replace(stack=None), mesh)._replace(stack=problem.stack)


def on_every_device(tree: Any, mesh: Mesh | None) -> Any:
    """Move arrays to JAX, a copy to every device of a mesh; those that are there stay."""
    if mesh is None:
        return jax.tree.map(jax.numpy.asarray, tree)
    everywhere = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: jax.device_put(leaf, everywhere), tree)


def to_numpy(tree: object) -> Any:
    """Copy JAX arrays into NumPy arrays, from all devices of all hosts; all processes have to call it."""
    return jax.tree.map(_fetch, tree)


def _fetch(array: jax.Array) -> np.ndarray:
    if not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(array, tiled=True))
