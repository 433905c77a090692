r"""Normalizations of one kernel: statistics come from training data and are applied to every row alike.

* spherical: :math:`k(x,z) / \sqrt{k(x,x)\,k(z,z)}`, every sample at distance one from the origin;
* trace: the mean of the training diagonal becomes one;
* center: :math:`HKH` with :math:`H = I - 11^\top/N`, the training mean becomes the origin of feature space.

Training samples with weights :math:`w_i` count so often: the diagonal has the mean :math:`\sum_i w_i k(x_i, x_i) /
\sum_i w_i`, and centering is :math:`HKH^\top` with :math:`H = I - 1 w^\top / \sum_i w_i`.

Centering subtracts what all samples have in common. Where that is nearly everything, as of data far from zero, few
digits are left. Kernels of inner products therefore move the origin of their feature space to the image of the mean
sample before they are evaluated (`Kernel.about`): the centered kernel is the same, and nothing large is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.typing import Index
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.geometry import mean_row
from bayesmkl.kernels.sparse import is_sparse

# A centered self-similarity is a difference of numbers of the size of k(x, x), each with a few rounding
# errors; what is left below this share of them is noise, and dividing by it would turn noise into similarity
# one.
CENTER_NOISE = 64 * np.finfo(np.float64).eps
# Cauchy-Schwarz: a sample with k(x, x) = 0 resembles nothing. More than this share of the largest
# self-similarity is no rounding error.
ZERO_ROW = 1e-6
# Rounding errors of k(x, x) and of the means that are subtracted, in units of k(x, x).
ENTRY_NOISE = 4 * np.finfo(np.float64).eps
# Entries of the kernel that are looked at together where all of them are needed, 2 MB.
BLOCK_ENTRIES = 2**18
# Row and column means of a symmetric kernel differ by rounding errors alone.
SYMMETRIC = 1e-12

# Rows of the training kernel at given positions (integers or a slice), (n_rows, n_train)
Rows = Callable[[Any], np.ndarray]


class Spherical(NamedTuple):
    """Scale every sample to unit self-similarity; a sample with none keeps a row of zeros (0/0 := 0)."""

    # 1/sqrt(k(z, z)), (n_train,), or (1,) where all training samples share one value
    inverse_norms: np.ndarray

    @classmethod
    def fit(cls, rows: Rows, diagonal: np.ndarray, weights: np.ndarray | None = None) -> Spherical:
        """Learn the lengths of the training samples; weights do not matter."""
        empty = np.flatnonzero(diagonal == 0)
        for block in _blocks(len(empty), len(diagonal)) if len(empty) else ():
            if np.abs(rows(empty[block])).max(initial=0.0) > ZERO_ROW * np.abs(diagonal).max():
                raise ValueError(
                    "it gives samples no similarity to themselves but some to others, so it is not positive "
                    'semidefinite. Use `normalize=None` or `normalize=("center", "spherical")`'
                )
        inverse_norms = inverse_root(diagonal)
        shared = np.all(inverse_norms == inverse_norms[0])
        return cls(inverse_norms[:1].copy() if shared else inverse_norms)

    def train_diagonal(self, diagonal: np.ndarray) -> np.ndarray:
        """Return the new self-similarities of the training samples, shape (n_train,)."""
        return (diagonal > 0).astype(np.float64)

    def apply(self, kernel: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Normalize rows in place, shape (n_rows, n_train); return their new diagonal, shape (n_rows,).

        Rows may be of the first training samples only.
        """
        inverse_norms = inverse_root(diagonal)
        # one product, so that a symmetric kernel stays so
        factors = inverse_norms[:, None] * self.inverse_norms[: kernel.shape[1]]
        if not np.all(factors == 1.0):
            kernel *= factors
        return (diagonal > 0).astype(np.float64)

    def between(self, kernel: np.ndarray, rows: np.ndarray, diagonal: np.ndarray) -> None:
        """Normalize a kernel between rows in place; `rows` are those that `apply` takes, not yet normalized."""
        kernel *= np.multiply.outer(*[inverse_root(diagonal)] * 2)


class Trace(NamedTuple):
    """Divide by the mean of the training diagonal, so that the training kernel has trace N."""

    scale: float

    @classmethod
    def fit(cls, rows: Rows, diagonal: np.ndarray, weights: np.ndarray | None = None) -> Trace:
        """Learn the mean of the training diagonal, shape (n_train,); a kernel of zeros stays as it is."""
        mean = float(np.average(diagonal, weights=weights))
        if mean < 0:
            raise ValueError(
                f"its mean self-similarity is {mean:g}, so it is not positive semidefinite. "
                "Use `normalize=None`"
            )
        return cls(1.0 / mean if mean > 0 else 0.0)

    def train_diagonal(self, diagonal: np.ndarray) -> np.ndarray:
        """Return the new self-similarities of the training samples, shape (n_train,)."""
        return diagonal * self.scale

    def apply(self, kernel: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Normalize rows in place, shape (n_rows, n_train); return their new diagonal, shape (n_rows,)."""
        kernel *= self.scale
        return diagonal * self.scale

    def between(self, kernel: np.ndarray, rows: np.ndarray, diagonal: np.ndarray) -> None:
        """Normalize a kernel between rows in place."""
        kernel *= self.scale


class Center(NamedTuple):
    """Move the origin of the feature space to the mean of the training samples."""

    column_means: np.ndarray  # mean of k(x, z) over training x, (n_train,)
    grand_mean: float
    # positions of training samples that coincide with the mean up to rounding, mostly none
    at_origin: np.ndarray
    origin: np.ndarray | None = None  # sample to whose image the kernel moves its origin first, (n_columns,)
    # bound on the rounding errors of centered entries, in units of the mean self-similarity
    lost: float = 0.0
    shares: np.ndarray | None = None  # of the training samples in the means, (n_train,); None: equal ones

    @classmethod
    def fit(cls, rows: Rows, diagonal: np.ndarray, weights: np.ndarray | None = None) -> Center:
        """Learn the mean similarity to each training sample."""
        n_train = len(diagonal)
        shares = None if weights is None else weights / weights.sum()
        row_means, column_means = np.empty(n_train), np.zeros(n_train)
        for block in _blocks(n_train, n_train):
            values = rows(block)
            row_means[block] = _means(values, shares)
            column_means += values.sum(axis=0) / n_train if shares is None else shares[block] @ values
        size = max(np.abs(row_means).max(), np.abs(diagonal).max())
        if np.abs(column_means - row_means).max() <= SYMMETRIC * size:
            column_means = row_means.copy()  # the same digits: the centered kernel is exactly symmetric
        grand_mean = float(_means(column_means, shares))
        centered = _centered_diagonal(diagonal, row_means, grand_mean)
        left, noise = float(np.abs(centered).mean()), ENTRY_NOISE * float(np.abs(diagonal).mean())
        differ = bool(np.ptp(row_means) > 0.0)  # of a constant kernel nothing was to be left
        lost = noise / left if left > 0.0 else float(differ)
        return cls(column_means, grand_mean, np.flatnonzero(centered == 0), None, lost, shares)

    def train_diagonal(self, diagonal: np.ndarray) -> np.ndarray:
        """Return the new self-similarities of the training samples, shape (n_train,)."""
        return _centered_diagonal(diagonal, self.column_means, self.grand_mean)

    def apply(self, kernel: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Normalize rows in place, shape (n_rows, n_train); return their new diagonal, shape (n_rows,)."""
        row_means = _means(kernel, self.shares)
        half = 0.5 * self.grand_mean
        kernel -= np.add.outer(row_means - half, self.column_means - half)
        centered = _centered_diagonal(diagonal, row_means, self.grand_mean)
        kernel[centered == 0] = 0.0  # only rounding errors are left in these rows and columns
        kernel[:, self.at_origin] = 0.0
        return centered

    def between(self, kernel: np.ndarray, rows: np.ndarray, diagonal: np.ndarray) -> None:
        """Normalize a kernel between rows in place; `rows` are those that `apply` takes, not yet centered."""
        kernel -= np.add.outer(*[_means(rows, self.shares) - 0.5 * self.grand_mean] * 2)


Normalizer = Spherical | Trace | Center
NORMALIZATIONS: dict[str, type[Normalizer]] = {"spherical": Spherical, "trace": Trace, "center": Center}


def check_normalize(normalize: str | Sequence[str] | None, name: str = "normalize") -> tuple[str, ...]:
    """Return the `normalize` argument of a bank as a tuple of names, in the order they are applied.

    Parameters
    ----------
    normalize : str, None, or sequence of str
        "spherical", "trace", "center", or several of them.
    name : str, default="normalize"
        What to call the argument in messages.

    Returns
    -------
    names : tuple of str
        Empty for None.

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> from bayesmkl.kernels.normalize import check_normalize
    >>> check_normalize("trace"), check_normalize(None)
    (('trace',), ())
    """
    if normalize is None:
        return ()
    names = normalize if isinstance(normalize, (list, tuple)) else (normalize,)
    for one in names:
        if not isinstance(one, str) or one not in NORMALIZATIONS:
            raise ValueError(
                f'`{name}` must be "spherical", "trace", "center", None or several of them; got {one!r}.'
            )
    return tuple(names)


class Moved(NamedTuple):
    """New origin of a kernel, and self-similarities before the move."""

    origin: np.ndarray  # where it moved to, (n_columns,)
    diagonal: np.ndarray  # self-similarities before, (n_train,)


def move_origin(
    names: tuple[str, ...], kernel: Kernel, train: np.ndarray, weights: np.ndarray | None = None
) -> tuple[Kernel, Moved | None]:
    """Return the kernel to evaluate where the one of `names` that comes after is centering, and how it was moved.

    Parameters
    ----------
    names : tuple of str
        Result of `check_normalize`.
    kernel : Kernel
        Fitted.
    train : ndarray of shape (n_train, n_columns)
        What the kernel sees of training samples.
    weights : ndarray of shape (n_train,), optional
        How often each counts.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> from bayesmkl.kernels.normalize import move_origin
    >>> X = np.array([[1e9], [1e9 + 2.0]])
    >>> kernel, moved = move_origin(("center",), Linear(), X)
    >>> moved.origin, kernel.diagonal(X)
    (array([1.e+09]), array([1., 1.]))
    >>> move_origin(("center",), Gaussian(), X)[1] is None  # its origin moves by no formula
    True
    """
    if "center" not in names or "spherical" in names[: names.index("center")] or is_sparse(train):
        return kernel, None
    origin = mean_row(train, weights)
    moved = kernel.about(origin)
    if moved is None:
        return kernel, None
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused where it is used
        return moved, Moved(origin, kernel.diagonal(train))


def normalized_kernel(kernel: Kernel, normalizers: list[Normalizer]) -> Kernel:
    """Return the kernel that fitted normalizers are applied to: itself, or with its origin moved."""
    for normalizer in normalizers:
        if isinstance(normalizer, Center) and normalizer.origin is not None:
            return kernel.about(normalizer.origin) or kernel
    return kernel


def fit_normalizers(
    names: tuple[str, ...],
    rows: Rows,
    diagonal: np.ndarray,
    moved: Moved | None = None,
    weights: np.ndarray | None = None,
    kernel: np.ndarray | None = None,
) -> list[Normalizer]:
    """Fit each normalization on the result of the one before, with or without a matrix of the training kernel.

    Parameters
    ----------
    names : tuple of str
        Result of `check_normalize`.
    rows : callable
        Takes positions of training samples (integers or a slice) and returns a new array with their rows of the
        training kernel, shape (n_rows, n_train). "spherical" asks for rows without self-similarity, "trace" for
        none, "center" for all of them, block by block.
    diagonal : ndarray of shape (n_train,)
        The self-similarities.
    moved : Moved, default=None
        What `move_origin` returns, where it gave the kernel another origin.
    weights : ndarray of shape (n_train,), default=None
        How often each training sample counts; None is once.
    kernel : ndarray of shape (n_train, n_train), default=None
        The training kernel, which is read in place of `rows` and overwritten by the normalized one.

    Returns
    -------
    normalizers : list of NamedTuple
        ``normalizer.apply(rows, diagonal)`` normalizes further rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.normalize import fit_normalizers
    >>> kernel = np.array([[4.0, 1.0], [1.0, 1.0]])
    >>> fit_normalizers(("trace",), lambda index: kernel[index].copy(), np.array([4.0, 1.0]))
    [Trace(scale=0.4)]
    >>> normalizers = fit_normalizers(("spherical",), kernel.__getitem__, np.array([4.0, 1.0]), kernel=kernel)
    >>> kernel
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    normalizers: list[Normalizer] = []
    current = diagonal
    for name in names:

        def normalized(index: Index, done: tuple[Normalizer, ...] = tuple(normalizers)) -> np.ndarray:
            values, of_rows = rows(index), diagonal[index]
            for normalizer in done:
                of_rows = normalizer.apply(values, of_rows)
            return values

        read = normalized if kernel is None else kernel.__getitem__
        normalizer, moved = _fit(name, read, current, moved, weights)
        current = normalizer.train_diagonal(current) if kernel is None else normalizer.apply(kernel, current)
        normalizers.append(normalizer)
    return normalizers


def _fit(
    name: str, rows: Rows, diagonal: np.ndarray, moved: Moved | None, weights: np.ndarray | None
) -> tuple[Normalizer, Moved | None]:
    """Fit one normalization; return it with what is still to be known about a moved origin."""
    if moved is None or name not in ("trace", "center"):
        return NORMALIZATIONS[name].fit(rows, diagonal, weights), moved
    if name == "center":
        return Center.fit(rows, diagonal, weights)._replace(origin=moved.origin), None
    trace = Trace.fit(rows, moved.diagonal, weights)  # its mean is that of the kernel as it was
    return trace, moved._replace(diagonal=trace.train_diagonal(moved.diagonal))


def _means(values: np.ndarray, shares: np.ndarray | None) -> np.ndarray:
    """Return means over the last axis, the training samples."""
    return values.mean(axis=-1) if shares is None else values @ shares


def _blocks(n_rows: int, n_train: int) -> list[slice]:
    """Cut rows into blocks of at most BLOCK_ENTRIES entries."""
    size = max(1, BLOCK_ENTRIES // n_train)
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def inverse_root(diagonal: np.ndarray) -> np.ndarray:
    """Return 1 / sqrt(k(x, x)), zero where that is no number; raise where it is the root of a negative one."""
    if np.any(diagonal < 0):
        raise ValueError(
            f"it gives a sample the similarity {diagonal.min():g} to itself, so it is not positive "
            "semidefinite. Use `normalize=None`"
        )
    roots = np.sqrt(diagonal)
    return np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)


def _centered_diagonal(diagonal: np.ndarray, row_means: np.ndarray, grand_mean: float) -> np.ndarray:
    centered = diagonal - 2.0 * row_means + grand_mean
    noise = CENTER_NOISE * (np.abs(diagonal) + 2.0 * np.abs(row_means) + abs(grand_mean))
    return np.where(np.abs(centered) <= noise, 0.0, centered)
