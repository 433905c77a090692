"""Kernels of a bank by factors: of new rows from a few kernel values each, and linear ones by their features.

A training kernel ``Z Z^T`` whose factor is triangular at the pivots p, ``Z_p = L``, has a row of its extension to a
new point x at ``Z c``, ``c = L^{-1} k(p, x)``: r values of the kernel function say what N would. How well is known:
k(x, x) less the squares of c is what the factor does not see of x. Rows of which some factor misses more than the
least bit, such as those outside the range of the training samples, are evaluated as a whole. Where factors are those
of an approximation of the kernels, of a given rank, it is the kernel: ``Z c`` is then right for all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from bayesmkl._numerics.arrays import Array
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.bank import KernelBank, check_finite, naming_kernel
from bayesmkl.kernels.functions import Linear
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.normalize import Center, Normalizer, Spherical, Trace
from bayesmkl.kernels.sparse import is_sparse
from bayesmkl.kernels.stacks.base import ENTRIES, Stack
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factored import Factors, LinearStack, LowRankStack
from bayesmkl.kernels.stacks.streamed import StreamedStack, streamed_stack

# Part of k(x, x) that a factor may miss. With a tolerance t of the factors, entries are off by sqrt(UNSEEN t) of
# sqrt(k(x, x) k(z, z)) at most, 1e-7 for t = 1e-10.
UNSEEN = 1e-4
# Bytes of kernels without factors from which on they are evaluated when they are needed, not held.
LARGE = 2**28
SHORTER = 4  # times as many entries have dense kernels as have their features, at least
MOST_FEATURES = 3  # for every kernel; of more, a sum of kernels takes longer than one of their entries


class _Parts(NamedTuple):
    """What `RowParts` hold."""

    parts: tuple[tuple[np.ndarray, Any], ...]


class RowParts(_Parts, Stack):
    """Rows of which some are in one stack and some in another, for prediction.

    Parameters
    ----------
    parts : tuple of pairs (index, stack)
        Which rows, ascending, and their stack.
    """

    storage = "compressed"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of kernels, query points and training points."""
        n_kernels, _, n_train = self.parts[0][1].shape
        return n_kernels, sum(len(index) for index, _ in self.parts), n_train

    @property
    def nbytes(self) -> int:
        """Bytes that all parts take."""
        return sum(stack.nbytes for _, stack in self.parts)

    def blocks(self, entries: int = ENTRIES) -> Iterator[tuple[Any, np.ndarray, DenseStack]]:
        """Go through the blocks of all parts."""
        for index, stack in self.parts:
            for kernels, rows, block in stack.blocks(entries):
                yield kernels, index[rows], block

    def apply(self, vector: Array) -> np.ndarray:
        """Multiply every kernel from the right."""
        tail = vector.shape[1:] if vector.ndim == 2 else ()
        out = np.empty((self.n_kernels, self.n_rows, *tail))
        for index, stack in self.parts:
            out[:, index] = stack.apply(vector)
        return out

    def combine(self, weights: Array) -> np.ndarray:
        """Return weighted sums of the kernels."""
        out = np.empty((*weights.shape[:-1], self.n_rows, self.n_train))
        for index, stack in self.parts:
            out[..., index, :] = stack.combine(weights)
        return out

    def weighted_forms(self, mixing: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
        """Return quadratic forms in the kernels of every query point."""
        forms = np.empty((len(roots), self.n_rows))
        for index, stack in self.parts:
            forms[:, index] = stack.weighted_forms(mixing, roots)
        return forms

    def rows(self, index: Index) -> RowParts:
        """Return the stack of the query points at `index` (a slice, integers or a boolean mask)."""
        wanted = np.arange(self.n_rows)[index]
        parts = []
        for own, stack in self.parts:
            places = np.flatnonzero(np.isin(wanted, own))
            parts.append((places, stack.rows(np.searchsorted(own, wanted[places]))))
        return RowParts(tuple(parts))


def row_factors(bank: KernelBank, short: Stack) -> Factors | None:
    """Return the factors of the training kernels if those of new rows can be had through them.

    A centered kernel needs the mean of all of its row, and a sample that lacks views a mask.
    """
    if not isinstance(short, LowRankStack) or short.pivots is None:
        return None
    is_centered = any(isinstance(one, Center) for own in bank.normalizers_ for one in own)
    is_known = bank.landmarks_ is None and bank.missing_views == "error" and not is_centered
    return Factors(*short) if is_known else None


def factored_rows(
    bank: KernelBank, short: Factors, X: np.ndarray, approximate: bool = False
) -> LowRankStack | RowParts | StreamedStack:
    """Return the kernels between new rows and the training samples through the factors of the training kernels.

    Parameters
    ----------
    bank : KernelBank
        Fitted; see `row_factors`.
    short : Factors
        Of its training kernels.
    X : ndarray of shape (n_rows, n_features)
        Validated.
    approximate : bool
        Whether the model is that of the factors, whatever they miss of a row.

    Returns
    -------
    stack : LowRankStack, RowParts or StreamedStack
        For prediction: `apply`, `combine`, `rows`, `weighted_forms`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, KernelBank
    >>> from bayesmkl.kernels.stacks.factored import compress_each
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> bank = KernelBank(Gaussian(width=1), views="each").fit(X)
    >>> stack = factored_rows(bank, compress_each(bank.train_kernels()), 0.5 * X[:7] + 0.2)
    >>> bool(np.allclose(stack.combine(np.ones(2)), bank.evaluate(0.5 * X[:7] + 0.2).sum(axis=0), atol=1e-6))
    True
    """
    members = np.argsort(short.order)
    n_train = short.dense.shape[2]
    left, missed, first = [], np.zeros(len(X), dtype=bool), 0
    for factors, pivots in zip(short.factors, short.pivots or (), strict=True):
        left.append(np.zeros((*factors.shape[:2], len(X))))
        for place, (factor, at) in enumerate(zip(factors, pivots, strict=True)):
            at = at[at >= 0]
            values, diagonal = _at_pivots(bank, int(members[first + place]), X, at)
            coordinates = left[-1][place, : len(at)]
            coordinates[...] = solve_triangular(factor[: len(at), at].T, values.T, lower=True)
            if approximate:
                continue
            seen = np.einsum("ri,ri->i", coordinates, coordinates)
            missed |= diagonal - seen > UNSEEN * np.abs(diagonal)
        first += len(factors)
    inside, outside = np.flatnonzero(~missed), np.flatnonzero(missed)
    if len(outside):
        left = [z[:, :, inside] for z in left]
    if 8 * (len(short.order) - first) * len(inside) * n_train > LARGE:
        return streamed_stack(bank, X)
    kept = np.sort(members[first:])
    dense = bank.evaluate(X[inside], kept)[np.argsort(np.argsort(members[first:]))]
    stack = LowRankStack(short.order, short.factors, dense, tuple(left))
    if len(outside) == 0:
        return stack
    is_large = 8 * bank.n_kernels_ * len(outside) * n_train > LARGE
    whole = streamed_stack(bank, X[outside]) if is_large else DenseStack(bank.evaluate(X[outside]))
    return RowParts(((inside, stack), (outside, whole)))


def _at_pivots(bank: KernelBank, m: int, X: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return kernel m between rows and training samples at `pivots`, (n_rows, rank), and of each row with itself."""
    kernel, columns = bank.kernels_[m], bank.columns_of(m)
    rows, train = (bank.seen(values, columns) for values in (X, bank.X_train_[pivots]))
    geometry = PairwiseGeometry(rows, train)
    values = np.empty(geometry.shape)
    with naming_kernel(bank.kernel_names_[m]):
        kernel.evaluate(geometry, values)
        diagonal = kernel.diagonal(rows)
        for normalizer in bank.normalizers_[m]:
            diagonal = _of_columns(normalizer, pivots).apply(values, diagonal)
        return check_finite(values), check_finite(diagonal)


def _of_columns(normalizer: Normalizer, columns: np.ndarray) -> Normalizer:
    """Return the normalization of some columns."""
    if isinstance(normalizer, Spherical) and len(normalizer.inverse_norms) > 1:
        return Spherical(normalizer.inverse_norms[columns])
    return normalizer


def linear_stack(bank: KernelBank) -> LinearStack | None:
    """Return the training kernels of a fitted bank by their features; None where they have no such form.

    All of them have to be `Linear`, without a normalization of every sample, all centered or none, and on features
    that they have in common so often that this is short.

    Parameters
    ----------
    bank : KernelBank
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> views = {"a": [0, 1], "b": [1, 2], "c": [0, 2], "d": [0, 1, 2]}
    >>> bank = KernelBank(Linear(), views=views, normalize=("center", "trace")).fit(X)
    >>> stack = linear_stack(bank)
    >>> stack.features.shape, bool(np.allclose(stack.columns(slice(None)), bank.train_stack()))
    ((3, 30), True)
    >>> linear_stack(KernelBank(Linear(), views=views).fit(X)) is None  # of unit self-similarity
    True
    """
    scales = [_scale(own) for own in bank.normalizers_]
    known = (
        bank.landmarks_ is None
        and bank.scales_ is None
        and bank.missing_views == "error"
        and not is_sparse(bank.X_train_)
        and all(type(kernel) is Linear for kernel in bank.kernels_)
        and None not in scales
    )
    origins = [_origin(own) for own in bank.normalizers_]
    is_centered = origins[0] is not None
    if not known or any((one is not None) != is_centered for one in origins):
        return None
    features = [bank.columns_of(m) for m in range(bank.n_kernels_)]
    sizes = np.array([len(own) for own in features])
    indices = np.concatenate(features)
    shape, n_train = (bank.n_kernels_, bank.n_features_in_), len(bank.X_train_)
    used, places = np.unique(indices, return_inverse=True)
    if (
        len(used) > MOST_FEATURES * shape[0]
        or SHORTER * (len(used) * n_train + 2 * len(indices)) > shape[0] * n_train**2
    ):
        return None
    members = csr_array(
        (np.repeat(np.array(scales, dtype=float), sizes), places, np.concatenate([[0], np.cumsum(sizes)])),
        (shape[0], len(used)),
    )
    members.sum_duplicates()  # a view may name a column twice
    return LinearStack(_moved(bank, bank.X_train_, used, is_centered), members)


def linear_rows(bank: KernelBank, stack: LinearStack, X: np.ndarray) -> LinearStack:
    """Return the kernels between new rows and the training samples.

    Parameters
    ----------
    bank : KernelBank
        Fitted.
    stack : LinearStack
        Its training kernels.
    X : ndarray of shape (n_rows, n_features)
        Validated.
    """
    used = np.unique(np.concatenate([bank.columns_of(m) for m in range(bank.n_kernels_)]))
    is_centered = _origin(bank.normalizers_[0]) is not None
    return stack._replace(left=_moved(bank, X, used, is_centered))


def _moved(bank: KernelBank, X: np.ndarray, used: np.ndarray, is_centered: bool) -> np.ndarray:
    """Return the features at `used`, around their training means where kernels are centered, (n_used, n_rows)."""
    features = np.ascontiguousarray(X[:, used].T)
    if is_centered:
        origin = np.empty(bank.n_features_in_)
        for m, own in enumerate(bank.normalizers_):
            origin[bank.columns_of(m)] = _origin(own)
        features -= origin[used, None]
    return features


def _scale(normalizers: list[Normalizer]) -> float | None:
    """Return what normalizations multiply a kernel by, around its origin; None where they do something else."""
    scale = 1.0
    for one in normalizers:
        if isinstance(one, Trace):
            scale *= one.scale
        elif not (isinstance(one, Center) and one.origin is not None):
            return None
    return scale


def _origin(normalizers: list[Normalizer]) -> np.ndarray | None:
    """Return the sample to whose image a kernel moves its origin, if it does."""
    return next((one.origin for one in normalizers if isinstance(one, Center)), None)
