"""Kernels of new rows through the factors of the training kernels, from a few kernel values each.

A training kernel ``Z Z^T`` whose factor is triangular at the pivots p, ``Z_p = L``, has a row of its extension to a
new point x at ``Z c``, ``c = L^{-1} k(p, x)``: r values of the kernel function say what N would. How well is known:
k(x, x) less the squares of c is what the factor does not see of x. Rows of which some factor misses more than the
least bit, such as those outside the range of the training samples, are evaluated as a whole. Where factors are those
of an approximation of the kernels, of a given rank, it is the kernel: ``Z c`` is then right for all rows.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.normalize import Center, Normalizer, Spherical
from bayesmkl.kernels.sparse import columns_of
from bayesmkl.kernels.stacks.base import KernelStack
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.lowrank import LowRankStack
from bayesmkl.kernels.stacks.parts import RowParts
from bayesmkl.kernels.stacks.streamed import StreamedStack, streamed_stack

# Part of k(x, x) that a factor may miss. With a tolerance t of the factors, entries are off by sqrt(UNSEEN t) of
# sqrt(k(x, x) k(z, z)) at most, 1e-7 for t = 1e-10.
UNSEEN = 1e-4
LARGE = (
    2**28
)  # bytes of kernels without factors from which on they are evaluated when they are needed, not held


def has_factored_rows(bank: KernelBank, short: KernelStack) -> bool:
    """Return whether kernels of new rows can be had through the factors of the training kernels.

    A centered kernel needs the mean of all of its row, and a sample that lacks views a mask.
    """
    return (
        isinstance(short, LowRankStack)
        and short.pivots is not None
        and bank.landmarks_ is None
        and bank.missing_views == "error"
        and not any(isinstance(one, Center) for own in bank.normalizers_ for one in own)
    )


def factored_rows(
    bank: KernelBank, short: LowRankStack, X: np.ndarray, approximate: bool = False
) -> LowRankStack | RowParts | StreamedStack:
    """Return the kernels between new rows and the training samples through the factors of the training kernels.

    Parameters
    ----------
    bank : KernelBank
        Fitted; see `has_factored_rows`.
    short : LowRankStack
        Its training kernels.
    X : ndarray of shape (n_rows, n_features)
        Validated.
    approximate : bool
        Whether the model is that of the factors, whatever they miss of a row.

    Returns
    -------
    stack : LowRankStack, RowParts or StreamedStack
        For prediction: `apply`, `combine`, `rows`, `select`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, KernelBank
    >>> from bayesmkl.kernels.stacks.lowrank import compress_each
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> bank = KernelBank(Gaussian(width=1), views="each").fit(X)
    >>> stack = factored_rows(bank, compress_each(bank.train_kernels(), 2), 0.5 * X[:7] + 0.2)
    >>> bool(np.allclose(stack.combine(np.ones(2)), bank.evaluate(0.5 * X[:7] + 0.2).sum(axis=0), atol=1e-6))
    True
    """
    members = np.argsort(short.order)
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
    if 8 * (short.n_kernels - first) * len(inside) * short.n_train > LARGE:
        return streamed_stack(bank, X)
    kept = np.sort(members[first:])
    dense = bank.evaluate(X[inside], kept)[np.argsort(np.argsort(members[first:]))]
    stack = LowRankStack(short.order, short.factors, dense, tuple(left))
    if len(outside) == 0:
        return stack
    is_large = 8 * bank.n_kernels_ * len(outside) * short.n_train > LARGE
    whole = streamed_stack(bank, X[outside]) if is_large else DenseStack(bank.evaluate(X[outside]))
    return RowParts(((inside, stack), (outside, whole)))


def _at_pivots(bank: KernelBank, m: int, X: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return kernel m between rows and training samples at `pivots`, (n_rows, rank), and of each row with itself."""
    kernel, columns = bank.kernels_[m], bank.columns_of(m)
    rows, train = (columns_of(values, columns) for values in (X, bank.X_train_[pivots]))
    geometry = PairwiseGeometry(rows, train)
    values = np.empty(geometry.shape)
    kernel.evaluate(geometry, values)
    diagonal = kernel.diagonal(rows)
    for normalizer in bank.normalizers_[m]:
        diagonal = _of_columns(normalizer, pivots).apply(values, diagonal)
    if not (np.isfinite(values).all() and np.isfinite(diagonal).all()):
        raise ValueError(
            f"kernel {bank.kernel_names_[m]!r}: its values are not all finite. Scale the features of `X` as those of "
            "training."
        )
    return values, diagonal


def _of_columns(normalizer: Normalizer, columns: np.ndarray) -> Normalizer:
    """Return the normalization of some columns."""
    if isinstance(normalizer, Spherical) and len(normalizer.inverse_norms) > 1:
        return Spherical(normalizer.inverse_norms[columns])
    return normalizer
