"""Inverses of symmetric positive definite matrices through one Cholesky factorization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg.lapack as lapack

from bayesmkl._numerics.arrays import Array, is_numpy, namespace

__all__ = ["bordered", "plus_diagonal", "spd_inverse", "spd_inverse_and_solution"]

TILE = 64
ABOVE = np.triu(np.ones((TILE, TILE), dtype=bool), 1)  # the diagonal, in a tile on it


def plus_diagonal(matrix: Array, diagonal: Array | float, factor: Any = 1.0) -> Any:
    """Return ``factor * matrix + diag(diagonal)``, square and new; `diagonal` may be one number.

    Examples
    --------
    >>> import numpy as np
    >>> plus_diagonal(np.ones((2, 2)), np.array([1.0, 2.0]))
    array([[2., 1.],
           [1., 3.]])
    """
    if is_numpy(matrix):
        out = factor * matrix
        np.einsum("ii->i", out)[...] += diagonal  # a view, in whatever order the matrix is
        return out
    return factor * matrix + namespace(matrix).eye(matrix.shape[0], dtype=matrix.dtype) * diagonal


def bordered(corner: Array | float, edge: Array, block: Array) -> Any:
    """Return the symmetric matrix ``[[corner, edge'], [edge, block]]`` with a number for a corner.

    Examples
    --------
    >>> import numpy as np
    >>> bordered(3.0, np.array([1.0, 2.0]), np.eye(2))
    array([[3., 1., 2.],
           [1., 1., 0.],
           [2., 0., 1.]])
    """
    xp = namespace(block)
    if is_numpy(block):
        out = np.empty((len(edge) + 1, len(edge) + 1))
        out[0, 0], out[0, 1:], out[1:, 0], out[1:, 1:] = corner, edge, edge, block
        return out
    top = xp.concatenate([xp.reshape(xp.asarray(corner, dtype=edge.dtype), (1,)), edge])
    return xp.concatenate([top[None, :], xp.concatenate([edge[:, None], block], axis=1)])


def spd_inverse(matrix: Any, overwrite: bool = False) -> tuple[Any, Any]:
    """Invert symmetric positive definite matrices and return the log determinants of the inverses.

    Parameters
    ----------
    matrix : array of shape (d, d) or (n_matrices, d, d)
        Only lower triangles are read on NumPy.
    overwrite : bool
        Whether NumPy may use the memory of one matrix in C order for its inverse.

    Returns
    -------
    inverse : array of shape (d, d) or (n_matrices, d, d)
        Exactly symmetric.
    log_det : array of shape () or (n_matrices,)
        ``log det(inverse)``.

    Raises
    ------
    numpy.linalg.LinAlgError
        On NumPy, when the matrix is not positive definite or not finite; JAX returns NaN instead.

    Examples
    --------
    >>> import numpy as np
    >>> inverse, log_det = spd_inverse(np.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> inverse.diagonal(), round(float(log_det), 4)
    (array([0.5 , 0.25]), -2.0794)
    """
    if not is_numpy(matrix):
        return _spd_inverse_jax(matrix)
    if matrix.ndim == 2:
        return _spd_inverse_lapack(matrix, overwrite)
    inverse, log_det = np.empty_like(matrix), np.empty(len(matrix))
    for i, one in enumerate(matrix):
        inverse[i], log_det[i] = _spd_inverse_lapack(one)
    return inverse, log_det


def spd_inverse_and_solution(matrix: Any, vector: Array, overwrite: bool = False) -> tuple[Any, Any, Any]:
    """Return what `spd_inverse` does of one matrix, and the solution of a system with it.

    That has digits where the inverse times the vector has none: where the matrix is close to singular and the vector
    is not among what it says little of.

    Examples
    --------
    >>> import numpy as np
    >>> spd_inverse_and_solution(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 1.0]))[2]
    array([0.5 , 0.25])
    """
    if is_numpy(matrix):
        lower, log_det = _factorize(matrix, overwrite)
        solution = lapack.dpotrs(lower, vector, lower=0)[0]
        return _inverse_by_lapack(lower), log_det, solution
    return _one_at_a_time(_invert_and_solve_on_jax)(matrix, vector)


def _spd_inverse_lapack(matrix: np.ndarray, overwrite: bool = False) -> tuple[np.ndarray, np.floating]:
    factor, log_det = _factorize(matrix, overwrite)
    return _inverse_by_lapack(factor), log_det


def _factorize(matrix: np.ndarray, overwrite: bool) -> tuple[np.ndarray, np.floating]:
    """Return the Cholesky factor as LAPACK writes it, and the log determinant of the inverse."""
    # The transpose is in the order that LAPACK reads: nothing is rearranged on the way in or out
    factor, info = lapack.dpotrf(matrix.T, lower=0, clean=0, overwrite_a=overwrite)
    log_det = -2.0 * np.log(factor.diagonal()).sum() if info == 0 else np.float64(np.nan)
    if not np.isfinite(log_det):
        raise np.linalg.LinAlgError("matrix is not positive definite")
    return factor, log_det


def _inverse_by_lapack(factor: np.ndarray) -> np.ndarray:
    # potri costs 2/3 d^3 after potrf's 1/3 d^3; solving against the identity would cost 2 d^3
    inverse, info = lapack.dpotri(factor, lower=0, overwrite_c=1)
    if info != 0:
        raise np.linalg.LinAlgError("matrix is not positive definite")
    return _mirrored(inverse.T)


def _mirrored(matrix: np.ndarray) -> np.ndarray:
    """Overwrite the upper triangle by the lower one, in tiles that stay in cache."""
    for first in range(0, len(matrix), TILE):
        last = first + TILE
        tile = matrix[first:last, first:last]
        np.copyto(tile, tile.T.copy(), where=ABOVE[: len(tile), : len(tile)])
        matrix[first:last, last:] = matrix[last:, first:last].T
    return matrix


def _spd_inverse_jax(matrix: Array) -> tuple[Any, Any]:
    import jax

    one = _one_at_a_time(_invert_on_jax)
    several = matrix.ndim == 3 and jax.default_backend() == "cpu"
    return jax.lax.map(one, matrix) if several else one(matrix)


def _one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a function from working on several matrices at once on CPUs, also under vmap.

    Two batches at a time leave the threads of XLA waiting for each other.
    """
    import jax

    return function if jax.default_backend() != "cpu" else jax.custom_batching.sequential_vmap(function)


def _invert_and_solve_on_jax(matrix: Array, vector: Array) -> tuple[Any, Any, Any]:
    from jax.scipy.linalg import cho_solve

    factor = namespace(matrix).linalg.cholesky(matrix)
    return *_inverse_of_factor(factor), cho_solve((factor, True), vector)


def _invert_on_jax(matrix: Array) -> tuple[Any, Any]:
    return _inverse_of_factor(namespace(matrix).linalg.cholesky(matrix))


def _inverse_of_factor(factor: Array) -> tuple[Any, Any]:
    from jax.scipy.linalg import cho_solve

    xp = namespace(factor)
    eye = xp.broadcast_to(xp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    inverse = cho_solve((factor, True), eye)
    log_det = -2.0 * xp.log(xp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    return 0.5 * (inverse + inverse.mT), log_det
