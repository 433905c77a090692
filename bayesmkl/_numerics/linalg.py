"""Inverses of symmetric positive definite matrices through one Cholesky factorization."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.lapack as lapack

from bayesmkl._numerics.arrays import is_numpy, namespace

__all__ = ["spd_inverse"]


def spd_inverse(matrix: Any) -> tuple[Any, Any]:
    """Invert symmetric positive definite matrices and return the log determinants of the inverses.

    Parameters
    ----------
    matrix : array of shape (d, d) or (n_matrices, d, d)
        Only lower triangles are read on NumPy.

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
        return _spd_inverse_lapack(matrix)
    inverse, log_det = np.empty_like(matrix), np.empty(len(matrix))
    for i, one in enumerate(matrix):
        inverse[i], log_det[i] = _spd_inverse_lapack(one)
    return inverse, log_det


def _spd_inverse_lapack(matrix: np.ndarray) -> tuple[np.ndarray, np.floating]:
    # potri costs 2/3 d^3 after potrf's 1/3 d^3; solving against the identity would cost 2 d^3
    factor, info = lapack.dpotrf(matrix, lower=1, clean=1)
    if info == 0:
        log_det = -2.0 * np.log(factor.diagonal()).sum()
        inverse, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0 or not np.isfinite(log_det):
        raise np.linalg.LinAlgError("matrix is not positive definite")
    inverse += np.tril(inverse, -1).T
    return inverse, log_det


def _spd_inverse_jax(matrix: Any) -> tuple[Any, Any]:
    import jax

    if jax.default_backend() != "cpu":
        return _invert_on_jax(matrix)
    # one after the other, also under vmap: two batches at a time leave the threads of XLA waiting for each other
    one = jax.custom_batching.sequential_vmap(_invert_on_jax)
    return one(matrix) if matrix.ndim == 2 else jax.lax.map(one, matrix)


def _invert_on_jax(matrix: Any) -> tuple[Any, Any]:
    from jax.scipy.linalg import cho_solve

    xp = namespace(matrix)
    factor = xp.linalg.cholesky(matrix)
    eye = xp.broadcast_to(xp.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)
    inverse = cho_solve((factor, True), eye)
    log_det = -2.0 * xp.log(xp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    return 0.5 * (inverse + inverse.mT), log_det
