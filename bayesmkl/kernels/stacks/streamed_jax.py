"""Kernels that JAX devices evaluate from the data whenever they are needed, block by block, and never store.

A contraction costs one evaluation of the kernels and little memory beside the data: the rows of one block at a time.
Together with `sharded` every device evaluates the kernels of its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.devices import ROWS, double_precision, resolve_devices, row_mesh
from bayesmkl.kernels._jax_formulas import Formula, Geometry, evaluate, formula_of, normalized
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.normalize import Center, Spherical
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.sharded import ShardedStack, shard_rows

__all__ = ["KernelBlocks", "shard_bank", "stream"]

# Entries of the kernels of one block: on a CPU they stay in the cache, an accelerator needs much to do at once.
CPU_ENTRIES, ENTRIES = 2**20, 2**26


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["parameter", "normalizers", "origin"],
    meta_fields=["formula"],
)
@dataclass(frozen=True)
class Family:
    """The kernels of one formula on the views of one group.

    `parameter` has shape (n_views, n_each); fields of the normalizers have these two axes first. `origin` is None, or
    where the kernels of each view have their origin, (n_views, n_columns).
    """

    formula: Formula
    parameter: Any
    normalizers: tuple[Any, ...]
    origin: Any


@partial(jax.tree_util.register_dataclass, data_fields=["columns", "basis", "families"], meta_fields=[])
@dataclass(frozen=True)
class Group:
    """Views with as many columns and kernels of the same formulas and normalizations.

    Positions of columns are (n_views, n_columns), the basis is (n_views, n_train, n_columns).
    """

    columns: Any
    basis: Any
    families: tuple[Family, ...]


@partial(jax.tree_util.register_dataclass, data_fields=["rows", "counted", "groups", "order"], meta_fields=[])
@dataclass(frozen=True)
class KernelBlocks:
    """Kernels of rows that are cut into blocks, evaluated block by block in every contraction.

    Parameters
    ----------
    rows : array of shape (n_blocks, n_in_block, n_features)
    counted : array of shape (n_blocks, n_in_block)
        1 for samples, 0 for rows that fill up the last block.
    groups : tuple of Group
    order : array of shape (n_kernels,)
        Position of every kernel among those of all groups, one family after the other.
    """

    rows: Any
    counted: Any
    groups: Any
    order: Any

    storage = "streamed"

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.order.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of rows, those that fill up included."""
        return self.rows.shape[0] * self.rows.shape[1]

    @property
    def n_train(self) -> int:
        """Number of training points or landmarks."""
        return self.groups[0].basis.shape[1]

    def partition(self, axis: str) -> Any:
        """Return partition specs: blocks split over the devices along `axis`, everything else on all of them."""
        shared = PartitionSpec()
        return KernelBlocks(PartitionSpec(axis), PartitionSpec(axis), shared, shared)

    def apply(self, vector: Array) -> Any:
        """Do what `DenseStack.apply` does for one vector (n_train,) or a batch (n_train, q)."""

        def of_block(rows: Array) -> Any:
            return jnp.concatenate([part.apply(vector) for part in _parts(self.groups, rows)])[self.order]

        product = jnp.moveaxis(jax.lax.map(of_block, self.rows), 0, 1)
        return product.reshape(self.n_kernels, self.n_rows, *vector.shape[1:])

    def adjoint(self, rows: Array) -> Any:
        """Do what `DenseStack.adjoint` does for rows (n_kernels, n_rows) or (n_kernels, n_rows, q)."""
        cut = rows.reshape(self.n_kernels, *self.rows.shape[:2], *rows.shape[2:])

        def add(total: Array, block: Any) -> Any:
            x, own = block
            return total + sum(self._adjoints(x, own[jnp.argsort(self.order)])), None

        start = jnp.zeros((self.n_train, *rows.shape[2:]), dtype=rows.dtype)
        return jax.lax.scan(add, start, (self.rows, jnp.moveaxis(cut, 1, 0)))[0]

    def _adjoints(self, x: Array, rows: Array) -> Iterator[Any]:
        first = 0
        for part in _parts(self.groups, x):
            yield part.adjoint(rows[first : first + part.n_kernels])
            first += part.n_kernels

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> Any:
        """Do what `DenseStack.adjoint_and_mixed_gram` does, in one evaluation."""
        cut, mixing = rows.reshape(self.n_kernels, *self.rows.shape[:2]), mixing[jnp.argsort(self.order)]

        def add(totals: Any, block: Any) -> Any:
            x, own, weight = block
            own, first, total, mixed = own[jnp.argsort(self.order)], 0, totals[0], 0.0
            for part in _parts(self.groups, x):
                some = slice(first, first + part.n_kernels)
                total, mixed = total + part.adjoint(own[some]), mixed + part.combine(mixing[some])
                first += part.n_kernels
            return (total, totals[1] + (mixed * weight[:, None]).T @ mixed), None

        zero = jnp.zeros((self.n_train, self.n_train), dtype=rows.dtype)
        blocks = (self.rows, jnp.moveaxis(cut, 1, 0), weights.reshape(self.rows.shape[:2]))
        return jax.lax.scan(add, (zero[0], zero), blocks)[0]

    def gram(self) -> Any:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train)."""

        def add(total: Array, block: Any) -> Any:
            x, counted = block
            parts = (DenseStack(part.kernels * counted[:, None]) for part in _parts(self.groups, x))
            return total + sum(part.gram() for part in parts), None

        start = jnp.zeros((self.n_train, self.n_train), dtype=self.rows.dtype)
        return jax.lax.scan(add, start, (self.rows, self.counted))[0]


def _parts(groups: tuple[Group, ...], x: Any) -> Iterator[DenseStack]:
    """Evaluate the kernels of some rows, family by family."""
    for group in groups:
        geometry = Geometry(jnp.moveaxis(x[:, group.columns], 1, 0), group.basis)
        for family in group.families:
            kernels, diagonal = evaluate(family.formula, geometry, family.parameter, family.origin)
            for normalizer in family.normalizers:
                kernels, diagonal = normalized(normalizer, kernels, diagonal)
            yield DenseStack(kernels.reshape(-1, *kernels.shape[2:]))


def stream(bank: KernelBank, X: Any, devices: str | int | Sequence[jax.Device] | None = None) -> ShardedStack:
    """Let devices evaluate the kernels of rows whenever they are needed.

    Each process reads the rows of its own devices alone.

    Parameters
    ----------
    bank : KernelBank
        Fitted, with kernel functions of this package alone.
    X : ndarray of shape (n_rows, n_features), or row source
        Validated rows.
    devices : None, "all" or int
        As in `resolve_devices`; rows are split over them.

    Raises
    ------
    ValueError
        For kernel functions that have no formula on JAX.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank, Linear
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> bank = KernelBank(Linear(), normalize=None, landmarks=5).fit(X)
    >>> stack, vector = stream(bank, X), np.arange(5.0)
    >>> bool(np.allclose(stack.apply(vector), DenseStack(bank.evaluate(X)).apply(vector)))
    True
    """
    if bank.missing_views == "keep":
        raise ValueError(
            '`devices` cannot be combined with `missing_views="integrate"`, whose fits need all rows in one place. '
            "Leave one of them out."
        )
    mesh = row_mesh(resolve_devices(devices))
    groups, order = _groups(bank)
    n_blocks, size = _cut(len(X), mesh.size, len(order) * len(bank.basis_), mesh.devices.flat[0].platform)

    def rows_of(index: Any) -> np.ndarray:
        first, last, _ = index[0].indices(n_blocks)
        own = np.asarray(X[first * size : last * size])
        filling = (last - first) * size - len(own)  # by some sample, so that kernels are finite
        if filling:
            own = np.concatenate([own, np.repeat(np.asarray(X[len(X) - 1 :]), filling, axis=0)])
        return own.reshape(last - first, size, -1)

    counted = (np.arange(n_blocks * size) < len(X)).astype(np.float64).reshape(n_blocks, size)
    with double_precision():
        everywhere, split = (NamedSharding(mesh, PartitionSpec(*axis)) for axis in ((), (ROWS,)))
        local = KernelBlocks(
            jax.make_array_from_callback((n_blocks, size, X.shape[1]), split, rows_of),
            jax.device_put(counted, split),
            *jax.device_put((groups, order), everywhere),
        )
    stack = ShardedStack(local, mesh, len(X))
    # sums over entries, some of which are not finite, are not finite either
    _refuse_infinite(bank, np.isfinite(stack.spread(np.ones((stack.n_train, 1))).mean[:, 0]))
    return stack


def shard_bank(
    bank: KernelBank, X: np.ndarray, devices: str | int | Sequence[jax.Device] | None = "all"
) -> ShardedStack:
    """Hold the kernels of rows on devices, among which the rows are split.

    An accelerator evaluates them itself, if it has a formula for all of them; otherwise NumPy does.

    Parameters
    ----------
    bank : KernelBank
        Fitted.
    X : ndarray of shape (n_rows, n_features), or row source
        Validated rows.
    devices : None, "all" or int
        As in `resolve_devices`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank, Linear
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> shard_bank(KernelBank(Linear(), normalize=None).fit(X), X).apply(np.array([1.0, 1.0, 0.0]))
    array([[3., 6., 9.]])
    """
    shape = (bank.n_kernels_, len(X), len(bank.basis_))
    if _evaluated_by(resolve_devices(devices)[0]) and None not in map(formula_of, bank.kernels_):
        return shard_rows(_evaluator(bank, X), shape, devices)
    return shard_rows(lambda rows: bank.evaluate(X[rows]), shape, devices)


def _evaluated_by(device: jax.Device) -> bool:
    return device.platform != "cpu"


def _evaluator(bank: KernelBank, X: Any) -> Callable[[slice], Any]:
    """Return the function that evaluates kernels of rows on the first device."""
    groups, order = _groups(bank)

    @jax.jit
    def values(x: Array) -> Any:
        kernels = jnp.concatenate([part.kernels for part in _parts(tree, x)])[order]
        return kernels, jnp.isfinite(kernels).all(axis=(1, 2))

    def of_rows(rows: slice) -> Any:
        kernels, finite = values(X[rows])
        _refuse_infinite(bank, np.asarray(finite))
        return kernels

    with double_precision():
        tree = jax.tree.map(jnp.asarray, groups)
    return of_rows


def _cut(n_rows: int, n_devices: int, row_entries: int, platform: str) -> tuple[int, int]:
    """Return the number of equal blocks of rows, as many for each device, and their size."""
    most = max(1, (CPU_ENTRIES if platform == "cpu" else ENTRIES) // row_entries)
    n_blocks = n_devices * -(-n_rows // (n_devices * most))
    return n_blocks, -(-n_rows // n_blocks)


def _groups(bank: KernelBank) -> tuple[tuple[Group, ...], np.ndarray]:
    """Sort the kernels of a bank into groups and families; return these with the order of the kernels in them."""
    formulas = _formulas(bank)
    of_views = bank.kernels_of_views()
    alike: dict[tuple[int, tuple[Formula, ...], tuple[type, ...]], list[int]] = {}
    for v, (view, members) in enumerate(zip(bank.views_, of_views, strict=True)):
        steps = tuple(map(type, bank.normalizers_[members[0]]))  # the same for all kernels of a view
        kinds = tuple(formulas[m][0] for m in members)
        alike.setdefault((len(view.columns), kinds, steps), []).append(v)
    groups: list[Group] = []
    sequence: list[int] = []
    for (_, kinds, _), views in alike.items():
        families, first = [], np.array([of_views[v].start for v in views])
        for kind, places in groupby(sorted(range(len(kinds)), key=kinds.__getitem__), key=kinds.__getitem__):
            index = np.add.outer(first, np.array(list(places)))
            families.append(_family(bank, kind, index, np.array([formulas[m][1] for m in index.flat])))
            sequence += index.ravel().tolist()
        columns = np.array([bank.views_[v].columns for v in views])
        groups.append(Group(columns, np.moveaxis(bank.basis_[:, columns], 1, 0), tuple(families)))
    assert len(sequence) == bank.n_kernels_
    return tuple(groups), np.argsort(sequence)


def _formulas(bank: KernelBank) -> list[tuple[Formula, float]]:
    formulas = [formula_of(kernel) for kernel in bank.kernels_]
    unknown = [name for name, found in zip(bank.kernel_names_, formulas, strict=True) if found is None]
    if unknown:
        raise ValueError(
            f"`kernels` holds {unknown[0]!r}, a function that JAX devices cannot evaluate: they know Gaussian, "
            "Laplacian, Polynomial, Linear, Cosine, Tanimoto, Overlap, and FromDistance of Euclidean or city-block "
            "distances. "
            'Use these, or hold the kernels in memory (`storage="dense"`).'
        )
    return [found for found in formulas if found is not None]


def _family(bank: KernelBank, formula: Formula, index: np.ndarray, parameter: np.ndarray) -> Family:
    """Stack the parameters and normalizations of the kernels at `index`, (n_views, n_each)."""
    steps = zip(*(bank.normalizers_[m] for m in index.flat), strict=True)
    stacked = (_stacked(list(step), index.shape, len(bank.basis_)) for step in steps)
    return Family(
        formula,
        parameter.reshape(index.shape),
        tuple(step for step in stacked if step is not None),
        _origin(bank, index[:, 0]),
    )


def _origin(bank: KernelBank, kernels: np.ndarray) -> np.ndarray | None:
    """Return the moved origins of kernels, one of each view, (n_views, n_columns), if there are any."""
    origins = [step.origin for m in kernels for step in bank.normalizers_[m] if isinstance(step, Center)]
    moved = [origin for origin in origins if origin is not None]
    return np.stack(moved) if moved else None


def _stacked(step: list[Any], shape: tuple[int, ...], n_train: int) -> Any:
    """Return one normalization of several kernels with leading axes of `shape`; None where it changes nothing."""
    names = type(step[0])._fields[:3] if isinstance(step[0], Center) else type(step[0])._fields
    fields = {name: [getattr(one, name) for one in step] for name in names}
    if isinstance(step[0], Spherical) and all(
        np.array_equal(norms, [1.0]) for norms in fields["inverse_norms"]
    ):
        return None
    if isinstance(step[0], Center):
        fields["at_origin"] = [np.isin(np.arange(n_train), positions) for positions in fields["at_origin"]]
    arrays = {name: np.stack(np.broadcast_arrays(*values)) for name, values in fields.items()}
    return type(step[0])(**{name: array.reshape(*shape, *array.shape[1:]) for name, array in arrays.items()})


def _refuse_infinite(bank: KernelBank, finite: np.ndarray) -> None:
    """Name the first kernel that is not `finite`, (n_kernels,)."""
    if not finite.all():
        raise ValueError(
            f"kernel {bank.kernel_names_[np.argmin(finite)]!r}: its values are not all finite. Scale the features or "
            "lower a polynomial degree."
        )
