"""A stack of kernels that is never stored: every contraction evaluates the kernels anew, a few rows at a time.

Memory is that of the rows and of the results, whatever the number of samples. A tile is one kernel between a few
rows and all basis points: who multiplies by it before the next one comes, into the same memory, never waits for
memory. Its values are those of `KernelBank.evaluate`, up to the rounding of inner products. Blocks of rows go to
several threads; their results are added in the order of the rows, so that numbers do not depend on the number of
threads.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import groupby
from numbers import Integral
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy, dsyrk

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.threads import blas_threads, one_thread
from bayesmkl._utils.typing import Index, RowBlocks, Samples
from bayesmkl._utils.validation import check_integer
from bayesmkl.kernels.adapters import CallableKernel
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.landmarks import SAMPLES_PER_LANDMARK
from bayesmkl.kernels.normalize import Normalizer, Spherical, normalized_kernel
from bayesmkl.kernels.sparse import SparseTable
from bayesmkl.kernels.stacks.base import ENTRIES, Spread, Stack
from bayesmkl.kernels.stacks.dense import DenseStack

BLOCK_BYTES = 2**25  # of rows that are read at once
TILE = 2**16  # entries of a tile, with the distances behind it 1 MB, which is a core's own cache
LEAST_ROWS = 16  # of a tile, however many basis points there are
BLOCKS = 64  # at least as many blocks as rows allow, so that all threads have work
TOGETHER = 2**21  # entries of all kernels together, where they are combined
KEPT = 2**18  # entries of all kernels of a few rows that are used twice: 2 MB, from a core's own cache
LEAST_TILE = 2**12  # entries of a tile then, however many kernels there are: fewer take as long
MOST_KEPT = 2**19  # entries from which on it is faster to evaluate twice than to wait for memory
LARGE = 1500  # basis points from which on BLAS uses several threads well, and a sum per block takes too much memory
GRAM_TILE = 2**18  # entries of a tile then: products with itself pay for more rows


class Room:
    """Memory for one tile, or all kernels of a few rows, and what the kernels of a view share; one for every thread.

    Parameters
    ----------
    n_rows, n_basis : int
        Largest size of a tile.
    """

    def __init__(self, n_rows: int, n_basis: int) -> None:
        self.n_rows, self.n_basis = n_rows, n_basis
        self._arrays: dict[str, np.ndarray] = {}
        self._kernels = np.empty(0)

    def array(self, name: str, n_rows: int) -> np.ndarray:
        """Return an array of shape (n_rows, n_basis) that holds whatever it held before under this name."""
        if name not in self._arrays:
            self._arrays[name] = np.empty((self.n_rows, self.n_basis))
        return self._arrays[name][:n_rows]

    def kernels(self, n_kernels: int, n_rows: int) -> np.ndarray:
        """Return an array of shape (n_kernels, n_rows, n_basis) in the memory of the last one, if that suffices."""
        size = n_kernels * n_rows * self.n_basis
        if self._kernels.size < size:
            self._kernels = np.empty(size)
        return self._kernels[:size].reshape(n_kernels, n_rows, self.n_basis)


class _RoomyGeometry(PairwiseGeometry):
    """Write distances and inner products into memory that is there: fresh pages cost as much as their contents."""

    def __init__(self, X: np.ndarray, Z: np.ndarray, room: Room, prefix: str = "") -> None:
        super().__init__(X, Z)
        self._room, self._prefix = room, prefix

    def _memory(self, name: str) -> np.ndarray:
        return self._room.array(self._prefix + name, len(self.X))

    def _moved(self, origin: np.ndarray) -> PairwiseGeometry:
        return _RoomyGeometry(self.X - origin, self.Z - origin, self._room, "moved ")


class _Member(NamedTuple):
    """One kernel of a view."""

    place: int  # among the kernels that are wanted
    name: str
    kernel: Kernel
    normalizers: list[Normalizer]  # empty where they would change nothing


class _View(NamedTuple):
    """The columns that some kernels share."""

    columns: Any
    basis: np.ndarray  # (n_basis, n_columns)
    members: list[_Member]


class KernelTiles:
    """Data needed to evaluate kernels of a bank on rows.

    Parameters
    ----------
    bank : KernelBank
        Fitted, with ``missing_views="error"``.
    kernels : ndarray of int, default=None
        Positions of the kernels that are wanted, each once, in any order; None: all.

    Attributes
    ----------
    names : list of str
        Names of the kernels that are wanted.
    n_kernels, n_basis, n_features : int
        Kernels that are wanted, points that rows are compared with, columns of rows.
    threads_allowed : bool
        False where a function of the user takes part, which may not be made for several threads.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, KernelBank, Linear
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> bank = KernelBank([Gaussian(width=2), Linear()], views="each").fit(X)
    >>> tiles = KernelTiles(bank, np.array([5, 0]))
    >>> room = Room(4, tiles.n_basis)
    >>> {place: bool((tile == bank.evaluate(X[:4])[[5, 0][place]]).all()) for place, tile in tiles.of(X[:4], room)}
    {1: True, 0: True}
    """

    def __init__(self, bank: KernelBank, kernels: np.ndarray | None = None) -> None:
        self.bank = bank
        self.wanted = np.arange(bank.n_kernels_) if kernels is None else np.asarray(kernels, dtype=np.intp)
        self.names = [bank.kernel_names_[m] for m in self.wanted]
        self.n_kernels, (self.n_basis, self.n_features) = len(self.wanted), bank.basis_.shape
        places = {int(m): place for place, m in enumerate(self.wanted)}
        self._views = []
        for of_view in bank.kernels_of_views():
            wanted = [m for m in of_view if m in places]
            for _, own in groupby(wanted, key=lambda m: bank.columns_seen(m).tobytes()):
                same = list(own)
                columns, members = bank.columns_seen(same[0]), [_member(bank, m, places[m]) for m in same]
                self._views.append(_View(columns, bank.seen(bank.basis_, columns), members))
        if bank.has_together and bank.n_kernels_ - 1 in places:
            m = bank.n_kernels_ - 1
            self._views.append(_View(slice(None), bank.basis_, [_member(bank, m, places[m])]))
        self.threads_allowed = not any(
            _is_foreign(member.kernel) for view in self._views for member in view.members
        )

    def of(self, X: np.ndarray, room: Room) -> Iterator[tuple[int, np.ndarray]]:
        """Yield place and values (n_rows, n_basis) of every kernel on rows `X`; the next one overwrites them."""
        values = room.array("values", len(X))
        for place in self._evaluate(X, room, lambda _: values):
            yield place, values

    def together(self, X: np.ndarray, room: Room) -> np.ndarray:
        """Return all kernels on rows `X`, (n_kernels, n_rows, n_basis); the next call overwrites them."""
        kernels = room.kernels(self.n_kernels, len(X))
        for _ in self._evaluate(X, room, kernels.__getitem__):
            pass
        return kernels

    def _evaluate(self, X: np.ndarray, room: Room, memory: Callable[[int], np.ndarray]) -> Iterator[int]:
        """Evaluate every kernel into the memory for its place, and yield the place."""
        for view in self._views:
            is_whole = isinstance(view.columns, slice)  # of the part "views together"
            rows = X[:, view.columns] if is_whole else self.bank.seen(X, view.columns)
            geometry = _RoomyGeometry(rows, view.basis, room)
            for place, name, kernel, normalizers in view.members:
                values = memory(place)
                seen: PairwiseGeometry = geometry
                if len(kernel.gate_columns):
                    gates = kernel.gate_columns
                    of_basis = self.bank.seen(self.bank.basis_, gates)
                    seen = geometry.with_columns(self.bank.seen(X, gates), of_basis)
                try:
                    kernel.evaluate(seen, values)
                    if normalizers:
                        diagonal = kernel.diagonal(seen.X)
                        for normalizer in normalizers:
                            diagonal = normalizer.apply(values, diagonal)
                except ValueError as error:
                    raise ValueError(f"kernel {name!r}: {error}") from error
                yield place


def _member(bank: KernelBank, m: int, place: int) -> _Member:
    normalizers = bank.normalizers_[m]
    kernel = normalized_kernel(bank.kernels_[m], normalizers)
    if type(kernel).diagonal is Kernel.diagonal and all(map(_keeps_unit_diagonal, normalizers)):
        normalizers = []  # k(x, x) is 1 for every row
    return _Member(place, bank.kernel_names_[m], kernel, normalizers)


def _keeps_unit_diagonal(normalizer: Normalizer) -> bool:
    return isinstance(normalizer, Spherical) and bool(np.all(normalizer.inverse_norms == 1.0))


def _is_foreign(kernel: Kernel) -> bool:
    return any(
        isinstance(one, CallableKernel) or (isinstance(one, FromDistance) and callable(one.distance))
        for one in kernel.factors()
    )


class StreamedStack(Stack):
    """Kernels between rows and the basis points of a bank, evaluated whenever they are needed.

    `streamed_stack` builds one.

    Parameters
    ----------
    tiles : KernelTiles
        What evaluates kernels on rows.
    X : ndarray of shape (n_rows, n_features), or row source
        Rows, float64 and finite; what `bayesmkl.datasets.open_rows` returns is read in blocks on every pass.
    block_bytes : int
        Maximum number of bytes of rows that are read at once.
    threads : int
        Threads that evaluate kernels.
    """

    storage = "streamed"

    def __init__(self, tiles: KernelTiles, X: np.ndarray | RowBlocks, block_bytes: int, threads: int) -> None:
        self.tiles, self.X = tiles, X
        self.block_bytes, self.threads = block_bytes, threads
        self._tile_rows = min(max(LEAST_ROWS, TILE // self.n_train), max(1, self.n_rows))
        self._pulled: tuple[weakref.ref[np.ndarray], np.ndarray] | None = None  # an array and its `adjoint`

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and basis points: landmarks, or training samples."""
        return self.tiles.n_kernels, len(self.X), self.tiles.n_basis

    @property
    def nbytes(self) -> int:
        """Bytes that are held at once: tiles, what their kernels share, and the rows they are evaluated on."""
        tile_bytes = 8 * self._tile_rows * (4 * self.n_train + 2 * self.tiles.n_features)
        tile_bytes += 8 * self.n_kernels * self._rows_kept * self.n_train
        waiting = 0 if isinstance(self.X, np.ndarray | SparseTable) else 2 * self.threads + 1
        return self.threads * tile_bytes + waiting * 8 * self._block_rows * self.tiles.n_features

    @property
    def _block_rows(self) -> int:
        """Rows of a block: a whole number of tiles, as many as fit, but blocks for all threads."""
        fitting = min(self.block_bytes // (8 * self.tiles.n_features), -(-self.n_rows // BLOCKS))
        return self._tile_rows * max(1, -(-fitting // self._tile_rows))

    def apply(self, vector: Array) -> np.ndarray:
        """Multiply every kernel from the right."""
        own = vector.ndim == 3
        columns = np.ascontiguousarray(vector[..., 0] if own else vector)
        product = np.empty((self.n_kernels, self.n_rows, *(() if own else columns.shape[1:])))

        def multiply(rows: slice, place: int, tile: np.ndarray) -> None:
            np.matmul(tile, columns[place] if own else columns, out=product[place, rows])

        for _ in self._over_blocks(lambda block, room: self._each_tile(block, room, multiply)):
            pass
        return product

    def adjoint(self, rows: Array) -> np.ndarray:
        """Return ``sum_m K_m^T rows_m``; of the array that `apply_and_adjoin` returned last nothing is evaluated."""
        if self._pulled is not None and self._pulled[0]() is rows:
            return self._pulled[1].copy()

        def of_block(block: _Block, room: Room) -> np.ndarray:
            total = np.zeros((*rows.shape[2:], self.n_train))

            def add(where: slice, place: int, tile: np.ndarray) -> None:
                np.add(total, rows[place, where].T @ tile, out=total)

            self._each_tile(block, room, add)
            return total

        total: Any = sum(self._over_blocks(of_block))
        return total.T

    def apply_and_adjoin(self, vector: Array, mixing: Array, offset: Array) -> tuple[np.ndarray, Any]:
        """Multiply by every kernel, and by its transpose what follows from the products, in one evaluation.

        What follows, ``mixing @ apply(vector) + offset``, is known for some rows as soon as their kernels are. More
        kernels than fit into cache, hundreds of them, are left to `apply` and `adjoint`.

        Of the returned array ``mixing @ product + offset``, which is read-only then, `adjoint` is known from now on,
        until the next one is computed.
        """
        if not self._rows_kept:
            return super().apply_and_adjoin(vector, mixing, offset)
        product, mixed = (np.empty((self.n_kernels, self.n_rows)) for _ in range(2))

        def of_block(block: _Block, room: Room) -> np.ndarray:
            total = np.zeros(self.n_train)
            for start, X in block.cut(self._rows_kept):
                rows = slice(start, start + len(X))
                kernels = self.tiles.together(X, room).reshape(-1, self.n_train)
                product[:, rows] = (kernels @ vector).reshape(-1, len(X))
                mixed[:, rows] = mixing @ product[:, rows] + offset[:, rows]
                total += mixed[:, rows].reshape(-1) @ kernels
            return total

        total: Any = sum(self._over_blocks(of_block))
        mixed.flags.writeable = False
        self._pulled = weakref.ref(mixed), total
        return product, mixed

    def adjoint_and_mixed_gram(self, rows: Array, mixing: Array, weights: Array) -> tuple[Any, Any]:
        """Return the adjoint and a mixture's weighted gram."""
        n = self.n_train

        def of_block(block: _Block, room: Room) -> tuple[np.ndarray, np.ndarray]:
            total, gram = np.zeros(n), np.zeros((n, n))
            mixed = np.empty((self._tile_rows, n))
            for start, X in block.cut(self._tile_rows):
                where, mixture = slice(start, start + len(X)), mixed[: len(X)]
                mixture[...] = 0.0
                for place, tile in self.tiles.of(X, room):
                    np.add(total, rows[place, where] @ tile, out=total)
                    daxpy(tile.reshape(-1), mixture.reshape(-1), a=mixing[place])
                gram += (mixture * weights[where, None]).T @ mixture
            return total, gram

        total, gram = np.zeros(n), np.zeros((n, n))
        for part, product in self._over_blocks(of_block):
            total += part
            gram += product
        return total, gram

    def gram(self) -> np.ndarray:
        """Return ``sum_m K_m^T K_m`` of shape (n_train, n_train); entries that are not finite are an error."""
        n = self.n_train
        require_memory(
            16 * n * n, f"the sum of products of the kernels over {n} basis points", "Use fewer landmarks."
        )
        total = np.zeros((n, n), order="F")

        def of_block(block: _Block, room: Room) -> np.ndarray:
            return self._add_products(block, room, np.zeros((n, n), order="F"))

        if n < LARGE:
            for part in self._over_blocks(of_block):
                total += part
        else:  # one sum at a time, by BLAS with its own threads
            room = Room(max(LEAST_ROWS, GRAM_TILE // n), n)
            for first, X in self._row_blocks():
                total = self._add_products(_Block(first, X), room, total)
        return np.triu(total) + np.triu(total, 1).T

    def combine(self, weights: Array) -> np.ndarray:
        """Return weighted sums of the kernels."""
        combined = np.empty((*weights.shape[:-1], self.n_rows, self.n_train))

        def of_block(block: _Block, room: Room) -> None:
            for start, X in block.cut(self._rows_together):
                rows = slice(start, start + len(X))
                combined[..., rows, :] = DenseStack(self.tiles.together(X, room)).combine(weights)

        for _ in self._over_blocks(of_block):
            pass
        return combined

    def spread(self, vectors: np.ndarray) -> Spread:
        """Return mean and variance over rows of ``K_m v`` for a batch of vectors (n_train, q), in one pass."""
        vectors = np.ascontiguousarray(vectors)

        def of_block(block: _Block, room: Room) -> tuple[int, np.ndarray, np.ndarray]:
            mean, moment = np.zeros((2, self.n_kernels, vectors.shape[1]))

            def add(rows: slice, place: int, tile: np.ndarray) -> None:
                products, before = tile @ vectors, rows.start - block.first
                tile_mean = products.mean(axis=0)
                products -= tile_mean
                tile_moment = np.square(products, out=products).sum(axis=0)
                _merge(mean[place], moment[place], before, len(tile), tile_mean, tile_moment)

            self._each_tile(block, room, add)
            return len(block.X), mean, moment

        done, (mean, moment) = 0, np.zeros((2, self.n_kernels, vectors.shape[1]))
        for size, block_mean, block_moment in self._over_blocks(of_block):
            _merge(mean, moment, done, size, block_mean, block_moment)
            done += size
        return Spread(mean, moment / self.n_rows)

    def weighted_products(self, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_m w_jm K_m v_j`` for vectors (n_train, q) and weights (q, n_kernels), in one pass."""
        columns, by_kernel = np.ascontiguousarray(vectors), np.ascontiguousarray(weights.T)
        sums = np.zeros((self.n_rows, vectors.shape[1]))

        def add(rows: slice, place: int, tile: np.ndarray) -> None:
            sums[rows] += (tile @ columns) * by_kernel[place]

        for _ in self._over_blocks(lambda block, room: self._each_tile(block, room, add)):
            pass
        return sums.T

    def rows(self, index: Index) -> StreamedStack:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        return StreamedStack(self.tiles, self.X[index], self.block_bytes, self.threads)

    def _part(self, index: Any) -> StreamedStack:
        tiles = KernelTiles(self.tiles.bank, self.tiles.wanted[index])
        return StreamedStack(tiles, self.X, self.block_bytes, self.threads)

    def blocks(self, entries: int = ENTRIES) -> Iterator[tuple[slice, slice, DenseStack]]:
        """Evaluate tiles, one after the other in one thread; most contractions use several."""
        room = Room(self._tile_rows, self.n_train)
        for block in (_Block(first, X) for first, X in self._row_blocks()):
            for start, X in block.cut(self._tile_rows):
                for place, tile in self.tiles.of(X, room):
                    yield slice(place, place + 1), slice(start, start + len(X)), DenseStack(tile[None])

    def as_dense(self) -> DenseStack:
        """Evaluate all kernels on all rows once and keep them."""
        kernels = np.empty((self.n_kernels, self.n_rows, self.n_train))

        def copy(rows: slice, place: int, tile: np.ndarray) -> None:
            kernels[place, rows] = tile

        for _ in self._over_blocks(lambda block, room: self._each_tile(block, room, copy)):
            pass
        return DenseStack(kernels)

    # ---------------------------------------------------------------------------------------- going through rows

    @property
    def _rows_together(self) -> int:
        """Rows of which all kernels are held at once to be combined."""
        return min(self._tile_rows, max(1, TOGETHER // (self.n_kernels * self.n_train)))

    @property
    def _rows_kept(self) -> int:
        """Rows of which all kernels are kept in cache to be used twice; none if there are too many kernels."""
        row = self.n_kernels * self.n_train
        rows = min(self._tile_rows, max(1, KEPT // row, LEAST_TILE // self.n_train))
        return rows if rows * row <= MOST_KEPT else 0

    def _each_tile(self, block: _Block, room: Room, use: Callable[[slice, int, np.ndarray], None]) -> None:
        for start, X in block.cut(self._tile_rows):
            rows = slice(start, start + len(X))
            for place, tile in self.tiles.of(X, room):
                use(rows, place, tile)

    def _add_products(self, block: _Block, room: Room, total: np.ndarray) -> np.ndarray:
        """Add the upper triangle of ``K^T K`` of every tile to `total`, in place."""
        for start, X in block.cut(room.n_rows):
            for place, tile in self.tiles.of(X, room):
                self._check_finite(tile, place, start)
                total = dsyrk(1.0, tile.T, beta=1.0, c=total, overwrite_c=1)
        return total

    def _row_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        size = self._block_rows
        if isinstance(self.X, np.ndarray | SparseTable):
            yield from ((first, self.X[first : first + size]) for first in range(0, self.n_rows, size))
            return
        first = 0
        for X in self.X.blocks(size):
            yield first, X
            first += len(X)

    def _over_blocks(self, work: Callable[[_Block, Room], Any]) -> Iterator[Any]:
        """Yield what `work` returns for every block of rows, in their order, a few blocks at a time."""
        rooms: SimpleQueue[Room] = SimpleQueue()
        for _ in range(self.threads):
            rooms.put(Room(self._tile_rows, self.n_train))

        def work_in_room(block: _Block) -> Any:
            room = rooms.get()
            try:
                return work(block, room)
            finally:
                rooms.put(room)

        blocks = (_Block(first, X) for first, X in self._row_blocks())
        if self.threads == 1:
            yield from map(work_in_room, blocks)
            return
        with one_thread("blas"), ThreadPoolExecutor(self.threads) as pool:
            pending: deque[Future] = deque()
            for block in blocks:
                # with NumPy's error state
                pending.append(pool.submit(copy_context().run, work_in_room, block))
                if len(pending) > 2 * self.threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    def _check_finite(self, tile: np.ndarray, place: int, first: int) -> None:
        if not np.isfinite(tile).all():
            row = first + int(np.flatnonzero(~np.isfinite(tile).all(axis=1))[0])
            raise ValueError(
                f"kernel {self.tiles.names[place]!r}: its values are not all finite, in row {row} first. Scale the "
                "features, lower a polynomial degree, or look for a division by zero in your own kernel."
            )


class _Block(NamedTuple):
    """Some rows, and the number of rows before them."""

    first: int
    X: np.ndarray

    def cut(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield parts of `size` rows and where they start among all rows."""
        for start in range(0, len(self.X), size):
            yield self.first + start, self.X[start : start + size]


def _merge(
    mean: np.ndarray, moment: np.ndarray, n: int, n_new: int, new_mean: np.ndarray, new_moment: np.ndarray
) -> None:
    """Add moments about the mean of further rows to those of `n` rows, in place (Chan et al. 1983)."""
    difference, share = new_mean - mean, n_new / (n + n_new)
    mean += share * difference
    moment += new_moment + n * share * difference**2


def streamed_stack(
    bank: KernelBank, X: np.ndarray | RowBlocks, block_bytes: int = BLOCK_BYTES, threads: int | None = None
) -> StreamedStack:
    """Return the kernels of a fitted bank between rows and its basis points, to be evaluated when needed.

    Parameters
    ----------
    bank : KernelBank
        Fitted, with ``missing_views="error"``.
    X : ndarray of shape (n_rows, n_features), or row source
        Validated rows: float64, finite, with the columns that the bank was fitted with.
    block_bytes : int, default=2**25
        Maximum number of bytes of rows that are read from a source at once.
    threads : int, default=None
        Threads that evaluate kernels; results do not depend on them. None: as many as BLAS uses, so that limits on
        its threads hold here too.

    Returns
    -------
    stack : StreamedStack

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> bank = KernelBank(landmarks=10).fit(X)
    >>> stack = streamed_stack(bank, X)
    >>> stack.n_kernels, stack.n_rows, stack.n_train
    (4, 500, 10)
    >>> v = np.ones(10)
    >>> bool(np.allclose(stack.apply(v), bank.evaluate(X) @ v))
    True
    """
    if bank.missing_views != "error":
        raise ValueError(
            f'`missing_views` must be "error" where kernels are evaluated in blocks; got {bank.missing_views!r}. '
            'Leave out samples that lack views, or hold the kernels: `storage="dense"`.'
        )
    block_bytes = check_integer("block_bytes", block_bytes, low=1)
    tiles = KernelTiles(bank)
    threads = blas_threads() if threads is None else check_integer("threads", threads, low=1)
    return StreamedStack(tiles, X, block_bytes, threads if tiles.threads_allowed else 1)


# -------------------------------------------------------------------------------- rows that are read in blocks


FEW_ROWS = 1000  # read where the landmarks are given
BLOCK_ENTRIES = 2**20


def is_row_source(X: Samples) -> bool:
    """Return whether `X` is a table that is read in blocks, as `bayesmkl.datasets.open_rows` opens it."""
    return getattr(type(X), "is_row_source", False) is True


def check_rows(X: Any, bank: KernelBank | None = None) -> None:
    """Read a row source once and refuse what kernels cannot be evaluated on.

    Parameters
    ----------
    X : row source
    bank : KernelBank, default=None
        Fitted: the rows must have the columns that it saw.

    Raises
    ------
    ValueError
        For no rows, other columns, and NaN or infinity, with the row and the column.
    """
    if len(X) == 0:
        raise ValueError(f"`X` must have rows; got {X!r}.")
    if bank is not None:
        bank.check_columns(X)
        if X.shape[1] != bank.n_features_in_:
            raise ValueError(
                f"`X` must have the {bank.n_features_in_} columns of training; got {X!r}. Choose them when the "
                "table is opened, `open_rows(path, columns=...)`."
            )
    first = 0
    for block in X.blocks(max(1, BLOCK_ENTRIES // X.shape[1])):
        finite = np.isfinite(block)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            name = column if X.columns is None else repr(X.columns[column])
            value = "NaN" if np.isnan(block[row, column]) else "infinity"
            raise ValueError(
                f"`X`: row {first + row} of {X!r} has {value} in column {name}. Leave such rows out, or fill them in."
            )
        first += len(block)


def fit_bank_to_rows(bank: KernelBank, X: Any) -> KernelBank:
    """Fit a bank with landmarks to a row source, from a bounded sample of its rows.

    Parameters
    ----------
    bank : KernelBank
        With `landmarks`; its `random_state` draws the sample.
    X : row source
        All rows are checked, and 50 per landmark are learned from.

    Returns
    -------
    bank : KernelBank
        Its `X_train_` are the landmarks: training samples are not kept.

    Raises
    ------
    ValueError
        For a bank without landmarks, and as `check_rows` does.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.datasets import open_rows
    >>> from bayesmkl.kernels import KernelBank
    >>> rows = open_rows(np.random.default_rng(0).normal(size=(1000, 3)))
    >>> fit_bank_to_rows(KernelBank(landmarks=8), rows).basis_.shape
    (8, 3)
    """
    if bank.landmarks is None:
        raise ValueError(
            f"`landmarks` must be given where `X` is read in blocks, {X!r}: without them every sample is compared "
            "with all others. Use KernelBank(landmarks=256), or read all rows, `rows[:]`."
        )
    check_rows(X)
    counted = isinstance(bank.landmarks, Integral)
    n_sample = SAMPLES_PER_LANDMARK * max(1, bank.landmarks) if counted else FEW_ROWS
    sample: Any = X.sample(min(len(X), n_sample), bank.random_state or 0)
    if X.columns is not None:
        import pandas as pd

        sample = pd.DataFrame(sample, columns=X.columns)
    bank.fit(sample)
    bank.X_train_ = bank.basis_
    bank.present_ = np.ones((len(bank.views_), len(bank.basis_)), dtype=bool)
    return bank
