r"""Symmetric matrices that are a diagonal plus a product of factors, :math:`D + U M U^\top`, and their inverses.

With :math:`S = U^\top D^{-1} U` (Woodbury)

.. math:: (D + U M U^\top)^{-1} = D^{-1} - D^{-1} U\, M (I + S M)^{-1}\, U^\top D^{-1},

which is of the same form. The work is that of `S`, `d r²` for `r` columns of `U`, and no matrix has `d` rows and
columns. NumPy only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

ROWS = 1024  # of the factors at once, which stay in cache
NEGLIGIBLE = 1e-13  # of the largest eigenvalue of a Gram matrix, below which its eigenvectors are rounding


class DiagonalPlusLowRank(NamedTuple):
    """The matrix ``diag(base) + factors @ middle @ factors.T``.

    ``matrix @ x``, ``matrix[rows, columns]``, ``diagonal``, ``trace`` and ``np.asarray`` are those of an array.

    Parameters
    ----------
    base : ndarray of shape (d,)
    factors : ndarray of shape (d, r)
    middle : ndarray of shape (r, r)
        Symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> matrix = DiagonalPlusLowRank(np.array([1.0, 2.0]), np.ones((2, 1)), np.array([[0.5]]))
    >>> np.asarray(matrix)
    array([[1.5, 0.5],
           [0.5, 2.5]])
    >>> inverse, log_det = matrix.inverse()
    >>> inverse @ np.array([1.5, 0.5]), bool(np.isclose(log_det, -np.log(3.5)))
    (array([1., 0.]), True)
    """

    base: np.ndarray
    factors: np.ndarray
    middle: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.base), len(self.base)

    @property
    def nbytes(self) -> int:
        """Bytes that the parts take."""
        return self.base.nbytes + self.factors.nbytes + self.middle.nbytes

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        base = self.base if other.ndim == 1 else self.base[:, None]
        inner = self.middle @ (self.factors.T @ other)
        return base * other + self.factors @ inner

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        dense = (self.factors @ self.middle) @ self.factors.T
        dense[np.diag_indices(len(dense))] += self.base
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def diagonal(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> np.ndarray:
        """Return the diagonal; the parameters of the array method are of no use here."""
        diagonal = self.base.copy()
        for first in range(0, len(diagonal), ROWS):
            part = self.factors[first : first + ROWS]
            diagonal[first : first + ROWS] += np.vecdot(part @ self.middle, part)
        return diagonal

    def trace(self, offset: int = 0, axis1: int = -2, axis2: int = -1) -> float:
        """Return the sum of the diagonal; the parameters of the array method are of no use here."""
        return float(self.diagonal().sum())

    def inverse(self, gram: np.ndarray | None = None) -> tuple[DiagonalPlusLowRank, float]:
        """Return the inverse and its log determinant.

        Parameters
        ----------
        gram : ndarray of shape (r, r), optional
            `gram_of` the base and the factors where it is at hand.

        Returns
        -------
        inverse : DiagonalPlusLowRank
        log_det : float
            Of the inverse.

        Raises
        ------
        numpy.linalg.LinAlgError
            Where the determinant is not positive or not finite.
        """
        gram = gram_of(self.base, self.factors) if gram is None else gram
        core = self.middle @ gram
        core[np.diag_indices(len(core))] += 1.0
        factor, swaps, info = lapack.dgetrf(core, overwrite_a=1)
        pivots = factor.diagonal()
        is_odd = (np.sum(swaps != np.arange(len(swaps))) + np.sum(pivots < 0.0)) % 2
        log_det = np.log(np.abs(pivots)).sum() if info == 0 else np.nan
        if is_odd or not np.isfinite(log_det):
            raise np.linalg.LinAlgError("matrix is not positive definite")
        middle = lapack.dgetrs(factor, swaps, self.middle)[0]  # (I + M S)^-1 M, symmetric as M is
        middle = -0.5 * (middle + middle.T)
        base = 1.0 / self.base
        found = DiagonalPlusLowRank(base, self.factors * base[:, None], middle)
        return found, float(np.log(base).sum() - log_det)

    def draw(self, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Return draws of a normal distribution of mean zero with this covariance, shape (n_draws, d).

        With ``W = D^(-1/2) U = Q R`` the matrix is ``D^(1/2) (I + Q R M R' Q') D^(1/2)``, whose root is that of an
        r x r matrix; Q is not formed.
        """
        draws = rng.standard_normal((n_draws, len(self.base)))
        scale = np.sqrt(self.base)
        scaled = self.factors / scale[:, None]
        values, vectors = np.linalg.eigh(scaled.T @ scaled)
        kept = values > NEGLIGIBLE * values[-1]
        root = np.sqrt(values[kept])
        whitened = vectors[:, kept] / root  # Q = W `whitened`
        inner = (vectors[:, kept] * root).T @ self.middle @ (vectors[:, kept] * root)
        change, directions = np.linalg.eigh(inner)
        turned = whitened @ directions
        lengths = np.sqrt(np.maximum(1.0 + change, 0.0)) - 1.0  # rounding
        draws += (((draws @ scaled) @ turned) * lengths) @ turned.T @ scaled.T
        return draws * scale


def gram_of(base: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return ``factors.T @ diag(1 / base) @ factors``.

    Examples
    --------
    >>> import numpy as np
    >>> gram_of(np.array([1.0, 4.0]), np.ones((2, 1)))
    array([[1.25]])
    """
    scaled = factors / np.sqrt(base)[:, None]
    gram: np.ndarray = scaled.T @ scaled
    return gram
