"""Choice of the training stack (`storage=`), made before anything large is allocated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.memory import available_memory, format_bytes, require_memory
from bayesmkl._utils.typing import Samples
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.quality import KernelInspector
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack, store_float32
from bayesmkl.kernels.stacks.factored import LinearStack, compress, compress_each
from bayesmkl.kernels.stacks.of_bank import linear_stack
from bayesmkl.kernels.stacks.packed import pack
from bayesmkl.kernels.stacks.streamed import streamed_stack

SMALL = 2**24  # bytes of kernels that a processor's cache serves whatever their form
# Bytes of kernels, and how many, from which on covariances are held by one triangle.
PACKED, MANY_PACKED = 2**29, 256
MANY_SHARED = 256  # kernels, from which on those of common features are held by these
SHARE = 0.5  # of the available memory, beyond which kernels are evaluated anew rather than held
INSPECTED_ROWS = 500  # of kernels that are never held
ROWS_AT_ONCE = 16
OUTPUTS = 2  # arrays of a number for each kernel and row, that any fit with such kernels has
FEWER = "Use fewer landmarks, kernels or threads (OPENBLAS_NUM_THREADS=1)."
# Forms for all pairs of samples, and what they take of a kernel.
NEEDS_PAIRS = {"compressed": "factors Z Z'", "packed": "triangles"}
REMEDY = "Compare samples with landmarks, KernelBank(landmarks=256), or use fewer kernels or samples."


class Holding(NamedTuple):
    """Storage of training kernels."""

    kind: str = "dense"  # or "auto", "compressed", "float32", "packed", "streamed"
    backend: str = "numpy"
    rank: int | None = None  # at most, of compressed kernels
    may_pack: bool = False  # kernels that are covariances, of samples that have all views
    may_compress: bool = False  # closed-form updates on NumPy, of samples that have all views
    may_share: bool = False  # many linear kernels by the features that they have in common
    announce: Callable[[str], None] | None = (
        None  # is told how large the kernels are before they are evaluated
    )


def resolve_storage(
    storage: Holding, shape: tuple[int, int, int], is_square: bool, is_source: bool
) -> Holding:
    """Resolve "auto", and return the size of the kernels.

    Small kernels are dense. Others are compressed, where `may_compress` and every sample is compared with every other
    one; packed, where they are large and `may_pack`; evaluated anew, where they would take more than half of the
    memory that is left; and dense else. Compressed and packed ones may be held by features that they share instead,
    where there are many and nobody asked for a form.

    Parameters
    ----------
    storage : Holding
    shape : (n_kernels, n_rows, n_train)
        Of the training kernels.
    is_square : bool
        Whether samples are compared with each other, not with landmarks.
    is_source : bool
        Whether rows are read in blocks.
    """
    n_bytes, kind = 8 * shape[0] * shape[1] * shape[2], storage.kind
    if is_source and kind not in ("auto", "streamed"):
        raise ValueError(
            f'`storage` must be "auto" or "streamed" for rows that are read in blocks; got {kind!r}. Or read all of '
            "them, `rows[:]`."
        )
    if is_source and storage.backend == "jax":
        raise ValueError(
            '`backend` of `storage` must be "numpy" for rows that are read in blocks; got "jax". Use '
            'storage="streamed", or read all of them, `rows[:]`.'
        )
    if kind in NEEDS_PAIRS and not is_square:
        raise ValueError(
            f'`storage` must not be "{kind}" with a bank that has `landmarks`: kernels between samples and '
            f'landmarks have no {NEEDS_PAIRS[kind]}. Use "auto", "dense", "float32" or "streamed".'
        )
    if kind == "auto":
        left = available_memory() if n_bytes > SMALL else None
        is_large = is_source or (left is not None and n_bytes > SHARE * left)
        kind = "dense"
        if storage.may_pack:
            is_packed = is_square and n_bytes > PACKED and shape[0] >= MANY_PACKED
            kind = "packed" if is_packed else "dense"
            storage = storage._replace(may_share=is_packed)
        elif is_square and storage.may_compress and n_bytes > SMALL:
            kind = "compressed"
            storage = storage._replace(may_share=shape[0] >= MANY_SHARED)
        elif is_large and storage.backend == "numpy":
            kind = "streamed"
    if storage.announce is not None:
        held = (
            format_bytes(n_bytes)
            if kind == "dense"
            else f"{kind}, {format_bytes(n_bytes)} if they were dense"
        )
        storage.announce(f"kernels: {shape[0]} of {shape[1]} x {shape[2]} entries, {held}")
    return storage._replace(kind=kind)


class _Request(NamedTuple):
    """A fitted bank whose training kernels are wanted."""

    bank: KernelBank
    X: Any  # validated rows, or a source of them
    names: Sequence[str]
    storage: Holding

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_kernels, n_rows, n_train) of the kernels."""
        return self.bank.n_kernels_, len(self.X), len(self.bank.basis_)

    def inspector(self) -> KernelInspector:
        """Return the inspector of the kernels."""
        known_psd, similarity = self.bank.kernels_known_psd_, self.bank.landmark_similarity()
        lost = self.bank.centering_errors()
        return KernelInspector(self.names, known_psd=known_psd, self_similarity=similarity, lost=lost)

    def inspected(self) -> Iterator[np.ndarray]:
        """Evaluate kernel after kernel, each checked before it is passed on."""
        inspector = self.inspector()
        yield from inspector.watch(self.bank.train_kernels())
        inspector.report()


def hold_bank(bank: KernelBank, X: Samples, names: Sequence[str], storage: Holding) -> Stack:
    """Return the training kernels of a bank that was fitted without them, judged once.

    Parameters
    ----------
    bank : KernelBank
        Fitted to `X`, with ``missing_views="error"``.
    X : ndarray of shape (n_rows, n_features), or row source
        Validated training rows.
    names : sequence of str
        Names of the kernels in warnings.
    storage : Holding
        From `resolve_storage`.

    Raises
    ------
    MemoryError
        Before the allocation, with the remedy.
    """
    request = _Request(bank, X, names, storage)
    shared = linear_stack(bank) if storage.may_share else None
    return _HOLDERS[storage.kind](request) if shared is None else _shared(request, shared)


def _shared(request: _Request, stack: LinearStack) -> Stack:
    """Return linear kernels by their features, judged on some samples one after the other."""
    inspector = request.inspector()
    for kernel in stack.of_samples(_sample(stack.n_train)).each():
        inspector.inspect(kernel)
    inspector.report()
    return stack


def _compressed(request: _Request) -> Stack:
    return compress_each(request.inspected(), request.bank.n_kernels_, rank=request.storage.rank)


def _float32(request: _Request) -> Stack:
    n_kernels, n_rows, n_train = request.shape
    what = f"a stack of {n_kernels} kernels of {n_rows} x {n_train} entries in single precision"
    require_memory(request.bank.stack_bytes(n_rows) / 2, what, REMEDY)
    return store_float32(request.inspected(), request.bank.n_kernels_)


def _packed(request: _Request) -> Stack:
    n_kernels, _, n_train = request.shape
    what = f"one triangle of each of {n_kernels} kernels of {n_train} x {n_train} entries in single precision"
    require_memory(2.0 * n_kernels * n_train * (n_train + 1), what, REMEDY)
    return pack(request.inspected(), n_kernels)


def _streamed(request: _Request) -> Stack:
    _inspect_sample(request)
    stack = streamed_stack(request.bank, request.X)
    n_kernels, n_rows, n_train = request.shape
    what = f"what is held of {n_kernels} kernels of {n_rows} x {n_train} entries that are evaluated in blocks"
    require_memory(stack.nbytes + OUTPUTS * 8 * n_kernels * n_rows, what, FEWER)
    return stack


_HOLDERS = {
    "compressed": _compressed,
    "float32": _float32,
    "packed": _packed,
    "streamed": _streamed,
}


def _inspect_sample(request: _Request) -> None:
    """Judge the kernels on some rows, where all of them are never in one place."""
    chosen = _sample(len(request.X))
    if request.bank.landmarks_ is not None:
        kernels = request.bank.evaluate(request.X[chosen])
    else:  # a few rows against all samples at a time: those of all would be as large as a matrix of all pairs
        blocks = np.array_split(chosen, -(-len(chosen) // ROWS_AT_ONCE))
        kernels = np.concatenate(
            [request.bank.evaluate(request.X[rows])[:, :, chosen] for rows in blocks], axis=1
        )
    inspector = request.inspector()
    for kernel in kernels:
        inspector.inspect(kernel)
    inspector.report()


def _sample(n_rows: int) -> np.ndarray:
    """Return positions of rows that kernels are judged on, evenly spread."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, INSPECTED_ROWS)).astype(int))


def hold_given(stack: DenseStack, storage: Holding) -> Stack:
    """Return kernels that are there and were judged before in the form that `resolve_storage` found."""
    if storage.kind == "streamed":
        raise ValueError(
            '`storage` "streamed" evaluates kernels when they are needed; precomputed ones are there already. Use a '
            'KernelBank, or storage="auto".'
        )
    if storage.kind == "float32":
        return store_float32(stack.each(), stack.n_kernels)
    if storage.kind == "packed":
        return pack(stack.each(), stack.n_kernels)
    if storage.kind == "dense":
        return stack
    return compress(stack, rank=storage.rank)
