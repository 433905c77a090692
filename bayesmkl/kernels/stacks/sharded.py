"""A stack of kernels whose rows are split over the devices that JAX sees.

Every device holds the kernels of its own rows against all training points (or landmarks). `apply` needs nothing of
other devices; `adjoint` and `gram` are sums over devices of small arrays. The kernels never leave their device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.devices import ROWS, double_precision, resolve_devices, row_mesh, to_numpy
from bayesmkl._utils.memory import format_bytes, require_memory
from bayesmkl.kernels.stacks.base import KernelStack, Spread, apply_and_mix, spread_then_sum
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["ShardedStack", "shard", "shard_rows"]

BLOCK_ENTRIES = 2**22  # of the rows that are evaluated and sent to a device at once, 32 MB
OWN_ENTRIES = 2**26  # of the rows that an accelerator evaluates itself at once, 512 MB
SPREAD_ENTRIES = 2**25  # of the products that a device holds at once
REMEDY = "Use more devices, landmarks, fewer kernels, or a stack that is streamed."


@partial(jax.tree_util.register_dataclass, data_fields=["local"], meta_fields=["mesh", "n_rows"])
@dataclass(frozen=True)
class ShardedStack:
    """Kernels of rows that are split over devices; `shard` and `stream` make them.

    Outside of compiled functions, contractions take and give NumPy arrays.

    Parameters
    ----------
    local : DenseStack or KernelBlocks
        Its arrays are split where they have rows, so that every device sees a stack of its own rows. There are more
        rows than samples if the devices cannot share the samples evenly; whatever those hold contributes nothing.
    mesh : jax.sharding.Mesh
        The devices.
    n_rows : int
        Number of samples.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = np.stack([np.eye(3), np.ones((3, 3))])
    >>> stack = shard(DenseStack(kernels), devices="all")
    >>> stack.apply(np.array([1.0, 2.0, 0.0]))
    array([[1., 2., 0.],
           [3., 3., 3.]])
    """

    local: Any
    mesh: Mesh = field(metadata={"static": True})
    n_rows: int = field(metadata={"static": True})

    present = None  # all samples have what all kernels compare

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.local.n_kernels

    @property
    def n_train(self) -> int:
        """Number of training points or landmarks."""
        return self.local.n_train

    @property
    def storage(self) -> str:
        """The form of the kernels on every device: "dense" or "streamed"."""
        return self.local.storage

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take on all devices together."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.local))

    def apply(self, vector: Array) -> Any:
        """Multiply every kernel from the right; no device needs anything of another.

        Parameters
        ----------
        vector : array of shape (n_train,) or (n_train, q)

        Returns
        -------
        array of shape (n_kernels, n_rows) or (n_kernels, n_rows, q)
        """
        return _run(_apply, self, vector)

    def adjoint(self, rows: Array) -> Any:
        """Return ``sum_m K_m^T rows_m``, a sum over devices.

        Parameters
        ----------
        rows : array of shape (n_kernels, n_rows) or (n_kernels, n_rows, q)

        Returns
        -------
        array of shape (n_train,) or (n_train, q)
        """
        return _run(_adjoint, self, rows)

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train), a sum over devices."""
        return _run(_gram, self)

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[Any, Any]:
        """Return ``apply(vector)`` and ``mixing @ apply(vector) + offset``, see `KernelStack.apply_and_adjoin`."""
        return apply_and_mix(self, vector, mixing, offset)

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram, see `KernelStack.adjoint_and_mixed_gram`."""
        return _run(_adjoint_and_mixed_gram, self, rows, mixing, weights)

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance over rows of ``K_m v`` for a batch of vectors (n_train, q), as NumPy arrays."""
        step = max(1, SPREAD_ENTRIES * self.mesh.size // (self.n_kernels * self.n_rows))
        with double_precision():
            parts = [
                to_numpy(_moments(self, vectors[:, q : q + step])) for q in range(0, vectors.shape[1], step)
            ]
        return Spread(*(np.concatenate(moment, axis=1) for moment in zip(*parts, strict=True)))

    def spread_and_sum(self, vectors: np.ndarray, weights: np.ndarray) -> tuple[Spread, np.ndarray]:
        """Return the spread, and weighted sums of the products, see `KernelStack.spread_and_sum`."""
        return spread_then_sum(self, vectors, weights)


def shard(stack: DenseStack, devices: str | int | Sequence[jax.Device] | None = "all") -> ShardedStack:
    """Split the rows of kernels in memory over devices.

    Parameters
    ----------
    stack : DenseStack
        Training kernels, or those between samples and landmarks, as NumPy arrays.
    devices : None, "all" or int
        As in `resolve_devices`.
    """
    if stack.present is not None:
        raise ValueError(
            '`devices` cannot be combined with `missing_views="integrate"`, whose fits need all rows in one place. '
            "Leave one of them out."
        )
    return shard_rows(lambda rows: stack.kernels[:, rows], stack.kernels.shape, devices)


def shard_rows(
    evaluate: Callable[[slice], np.ndarray],
    shape: Sequence[int],
    devices: str | int | Sequence[jax.Device] | None = "all",
) -> ShardedStack:
    """Evaluate kernels block by block and place them, shard by shard, on devices.

    Neither the host nor a device ever holds more than its shard and a block. Of several processes, each evaluates the
    rows of its own devices alone.

    Parameters
    ----------
    evaluate : callable
        Takes a slice of rows, returns their kernels, a NumPy or JAX array (n_kernels, n_block, n_train), as
        ``lambda rows: bank.evaluate(X[rows])`` does.
    shape : (n_kernels, n_rows, n_train)
        Of all kernels.
    devices : None, "all" or int
        As in `resolve_devices`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank, Linear
    >>> bank = KernelBank(Linear(), normalize=None).fit(np.array([[1.0], [2.0], [3.0]]))
    >>> stack = shard_rows(lambda rows: bank.evaluate(bank.X_train_[rows]), (1, 3, 3))
    >>> stack.adjoint(np.array([[1.0, 0.0, 1.0]]))
    array([ 4.,  8., 12.])
    """
    n_kernels, n_rows, n_train = shape
    mesh = row_mesh(resolve_devices(devices))
    size = -(-n_rows // mesh.size)
    _require_room(mesh, 8 * n_kernels * size * n_train)
    with double_precision():
        shards = [
            _place(
                evaluate,
                slice(min(n_rows, k * size), min(n_rows, (k + 1) * size)),
                (n_kernels, size, n_train),
                device,
            )
            for k, device in enumerate(mesh.devices.flat)
            if device.process_index == jax.process_index()
        ]
        kernels = jax.make_array_from_single_device_arrays(
            (n_kernels, size * mesh.size, n_train), NamedSharding(mesh, PartitionSpec(None, ROWS)), shards
        )
    return ShardedStack(DenseStack(kernels), mesh, n_rows)


def _place(
    evaluate: Callable[..., Any], rows: slice, shape: tuple[int, int, int], device: jax.Device
) -> jax.Array:
    """Evaluate the kernels of some rows on one device, in zeros of `shape`."""
    entries = BLOCK_ENTRIES if device.platform == "cpu" else OWN_ENTRIES
    step = max(1, entries // (shape[0] * shape[2]))
    if step >= shape[1]:
        block = np.zeros(shape)
        if rows.stop > rows.start:
            block[:, : rows.stop - rows.start] = evaluate(rows)
        return jax.device_put(block, device)
    shard = jnp.zeros(shape, device=device)
    for start in range(rows.start, rows.stop, step):
        block = evaluate(slice(start, min(start + step, rows.stop)))
        shard = _write(shard, jax.device_put(block, device), start - rows.start)
    return shard


@partial(jax.jit, donate_argnums=0)
def _write(shard: Array, block: Array, start: Array) -> Any:
    """Overwrite rows of `shard` in place."""
    return jax.lax.dynamic_update_slice_in_dim(shard, block, start, axis=1)


def _require_room(mesh: Mesh, n_bytes: int) -> None:
    """Raise if the shards, of `n_bytes` each, do not fit on the devices of this process."""
    own = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    if own[0].platform == "cpu":
        require_memory(len(own) * n_bytes, "the stack of kernels", REMEDY)
        return
    for device in own:
        memory = device.memory_stats() or {}
        left = memory.get("bytes_limit", np.inf) - memory.get("bytes_in_use", 0)
        if n_bytes > left:
            raise MemoryError(
                f"`X`: the kernels of the rows on {device} need {format_bytes(n_bytes)}, and "
                f"{format_bytes(left)} are free there. {REMEDY}"
            )


# ------------------------------------------------------------------------------------------------- contractions


def _run(contraction: Callable[..., Any], stack: ShardedStack, *arrays: Any) -> Any:
    """Apply a contraction to arrays that are being traced; compile it for others, and return NumPy arrays."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((stack, arrays))):
        return contraction(stack, *arrays)
    with double_precision():
        return to_numpy(_compiled(contraction, stack, *arrays))


@partial(jax.jit, static_argnums=0)
def _compiled(contraction: Callable[..., Any], stack: ShardedStack, *arrays: Any) -> Any:
    return contraction(stack, *arrays)


def _apply(stack: ShardedStack, vector: Array) -> Any:
    product = _on_shards(stack, lambda local, v: local.apply(v), [PartitionSpec()], PartitionSpec(None, ROWS))
    return product(stack.local, vector)[:, : stack.n_rows]


def _adjoint(stack: ShardedStack, rows: Array) -> Any:
    padding = [(0, 0), (0, stack.local.n_rows - stack.n_rows), *[(0, 0)] * (rows.ndim - 2)]
    total = _on_shards(
        stack,
        lambda local, part: jax.lax.psum(local.adjoint(part), ROWS),
        [PartitionSpec(None, ROWS)],
        PartitionSpec(),
    )
    return total(stack.local, jnp.pad(rows, padding))


def _adjoint_and_mixed_gram(stack: ShardedStack, rows: Array, mixing: Array, weights: Array) -> Any:
    padding = (0, stack.local.n_rows - stack.n_rows)
    totals = _on_shards(
        stack,
        lambda local, *arrays: jax.lax.psum(local.adjoint_and_mixed_gram(*arrays), ROWS),
        [PartitionSpec(None, ROWS), PartitionSpec(), PartitionSpec(ROWS)],
        PartitionSpec(),
    )
    return totals(stack.local, jnp.pad(rows, [(0, 0), padding]), mixing, jnp.pad(weights, padding))


def _gram(stack: ShardedStack) -> Any:
    total = _on_shards(stack, lambda local: jax.lax.psum(local.gram(), ROWS), [], PartitionSpec())
    return total(stack.local)


def _on_shards(stack: ShardedStack, function: Callable[..., Any], specs: list[Any], out: Any) -> Any:
    """Map `function` over devices: of the local stack, and of arrays that are split as `specs` say."""
    local = stack.local
    split = (
        DenseStack(PartitionSpec(None, ROWS), None)
        if isinstance(local, DenseStack)
        else local.partition(ROWS)
    )
    # sums of blocks start from zeros, which no device owns: JAX's check of who owns what does not know them
    return jax.shard_map(function, mesh=stack.mesh, in_specs=(split, *specs), out_specs=out, check_vma=False)


@jax.jit
def _moments(stack: ShardedStack, vectors: Array) -> tuple[Any, Any]:
    products = _apply(stack, vectors)
    return products.mean(axis=1), products.var(axis=1)


# checked by mypy
_CONTRACT: type[KernelStack] = ShardedStack
