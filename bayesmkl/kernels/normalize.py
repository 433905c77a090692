r"""Normalizations of one kernel: statistics come from training data and are applied to every row alike.

* spherical: :math:`k(x,z) / \sqrt{k(x,x)\,k(z,z)}`, every sample at distance one from the origin;
* trace: the mean of the training diagonal becomes one;
* center: :math:`HKH` with :math:`H = I - 11^\top/N`, the training mean becomes the origin of feature space.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["NORMALIZATIONS", "Center", "Spherical", "Trace", "check_normalize", "fit_normalizers"]

# A centered self-similarity is a difference of numbers of the size of k(x, x), each with a few rounding
# errors; what is left below this share of them is noise, and dividing by it would turn noise into similarity
# one.
CENTER_NOISE = 64 * np.finfo(np.float64).eps
# Cauchy-Schwarz: a sample with k(x, x) = 0 resembles nothing. More than this share of the largest
# self-similarity is no rounding error.
ZERO_ROW = 1e-6


class Spherical(NamedTuple):
    """Scale every sample to unit self-similarity; a sample with none keeps a row of zeros (0/0 := 0)."""

    inverse_norms: (
        np.ndarray
    )  # 1/sqrt(k(z, z)), (n_train,), or (1,) where all training samples share one value

    @classmethod
    def fit(cls, kernel: np.ndarray, diagonal: np.ndarray) -> Spherical:
        """Learn the lengths of the training samples from their kernel, shape (n_train, n_train)."""
        empty = diagonal == 0
        if np.abs(kernel[empty]).max(initial=0.0) > ZERO_ROW * np.abs(diagonal).max():
            raise ValueError(
                "it gives samples no similarity to themselves but some to others, so it is not positive "
                'semidefinite. Use `normalize=None` or `normalize=("center", "spherical")`'
            )
        inverse_norms = _inverse_root(diagonal)
        shared = np.all(inverse_norms == inverse_norms[0])
        return cls(inverse_norms[:1].copy() if shared else inverse_norms)

    def apply(self, kernel: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Normalize rows in place, shape (n_rows, n_train); return their new diagonal, shape (n_rows,)."""
        inverse_norms = _inverse_root(diagonal)
        factors = (
            inverse_norms[:, None] * self.inverse_norms
        )  # one product, so that a symmetric kernel stays so
        if not np.all(factors == 1.0):
            kernel *= factors
        return (diagonal > 0).astype(np.float64)


class Trace(NamedTuple):
    """Divide by the mean of the training diagonal, so that the training kernel has trace N."""

    scale: float

    @classmethod
    def fit(cls, kernel: np.ndarray, diagonal: np.ndarray) -> Trace:
        """Learn the mean of the training diagonal, shape (n_train,); a kernel of zeros stays as it is."""
        mean = float(diagonal.mean())
        if mean < 0:
            raise ValueError(
                f"its mean self-similarity is {mean:g}, so it is not positive semidefinite. "
                "Use `normalize=None`"
            )
        return cls(1.0 / mean if mean > 0 else 0.0)

    def apply(self, kernel: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Normalize rows in place, shape (n_rows, n_train); return their new diagonal, shape (n_rows,)."""
        kernel *= self.scale
        return diagonal * self.scale


class Center(NamedTuple):
    """Move the origin of the feature space to the mean of the training samples."""

    column_means: np.ndarray  # mean of k(x, z) over training x, (n_train,)
    grand_mean: float
    at_origin: (
        np.ndarray
    )  # positions of training samples that coincide with the mean up to rounding, mostly none

    @classmethod
    def fit(cls, kernel: np.ndarray, diagonal: np.ndarray) -> Center:
        """Learn the mean similarity to each training sample from their kernel, shape (n_train, n_train)."""
        column_means = np.ascontiguousarray(kernel.T).mean(axis=1)
        grand_mean = float(column_means.mean())
        centered = _centered_diagonal(diagonal, kernel.mean(axis=1), grand_mean)
        return cls(column_means, grand_mean, np.flatnonzero(centered == 0))

    def apply(self, kernel: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Normalize rows in place, shape (n_rows, n_train); return their new diagonal, shape (n_rows,)."""
        row_means = kernel.mean(axis=1)
        half = 0.5 * self.grand_mean
        kernel -= np.add.outer(row_means - half, self.column_means - half)
        centered = _centered_diagonal(diagonal, row_means, self.grand_mean)
        kernel[centered == 0] = 0.0  # only rounding errors are left in these rows and columns
        kernel[:, self.at_origin] = 0.0
        return centered


Normalizer = Spherical | Trace | Center
NORMALIZATIONS: dict[str, type[Normalizer]] = {"spherical": Spherical, "trace": Trace, "center": Center}


def check_normalize(normalize: Any) -> tuple[str, ...]:
    """Return the `normalize` argument of a bank as a tuple of names, in the order they are applied.

    Parameters
    ----------
    normalize : str, None, or sequence of str
        "spherical", "trace", "center", or several of them.

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
    for name in names:
        if not isinstance(name, str) or name not in NORMALIZATIONS:
            raise ValueError(
                f'`normalize` must be "spherical", "trace", "center", None or several of them; got {name!r}.'
            )
    return tuple(names)


def fit_normalizers(names: tuple[str, ...], kernel: np.ndarray, diagonal: np.ndarray) -> list[Normalizer]:
    """Fit each normalization on the result of the one before and apply it to `kernel` in place.

    Parameters
    ----------
    names : tuple of str
        What `check_normalize` returns.
    kernel : ndarray of shape (n_train, n_train)
        The training kernel; overwritten by the normalized one.
    diagonal : ndarray of shape (n_train,)
        Its self-similarities.

    Returns
    -------
    normalizers : list of NamedTuple
        ``normalizer.apply(rows, diagonal)`` normalizes further rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.normalize import fit_normalizers
    >>> kernel = np.array([[4.0, 1.0], [1.0, 1.0]])
    >>> normalizers = fit_normalizers(("spherical",), kernel, np.array([4.0, 1.0]))
    >>> kernel
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    normalizers: list[Normalizer] = []
    for name in names:
        normalizer = NORMALIZATIONS[name].fit(kernel, diagonal)
        diagonal = normalizer.apply(kernel, diagonal)
        normalizers.append(normalizer)
    return normalizers


def _inverse_root(diagonal: np.ndarray) -> np.ndarray:
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
