"""Inverses of symmetric positive definite matrices through one Cholesky factorization."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from bayesmkl._numerics.arrays import Array, is_numpy, namespace

TILE = 64  # rows of a block, in which LAPACK is at its best and that stays in cache
LEAF = 64  # rows of the triangles that an accelerator inverts by substitution, all at once
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


def spd_inverse_root(matrix: Any, vector: Array, overwrite: bool = False) -> tuple[Any, Any, Any]:
    """Return the triangular root of an inverse, the inverse's log determinant, and the solution of a system.

    The solution has digits where the inverse times the vector has none: where the matrix is close to singular and the
    vector is not among what it says little of.

    Parameters
    ----------
    matrix : array of shape (d, d)
        Symmetric positive definite; only the lower triangle is read on NumPy.
    vector : array of shape (d,)
        Right-hand side.
    overwrite : bool
        Whether NumPy may use the memory of the matrix, in C order, for the root.

    Returns
    -------
    root : array of shape (d, d)
        Upper triangular; the inverse is ``root @ root.T``.
    log_det : array of shape ()
        Log determinant of the inverse.
    solution : array of shape (d,)
        Inverse times `vector`.

    Raises
    ------
    numpy.linalg.LinAlgError
        On NumPy, when the matrix is not positive definite or not finite; JAX returns NaN instead.

    Examples
    --------
    >>> import numpy as np
    >>> root, _, solution = spd_inverse_root(np.array([[4.0, 0.0], [0.0, 16.0]]), np.array([1.0, 1.0]))
    >>> root.diagonal(), solution
    (array([0.5 , 0.25]), array([0.25  , 0.0625]))
    """
    if is_numpy(matrix):
        upper, log_det = _factorize(matrix, overwrite, clean=True)
        solution = lapack.dpotrs(upper, vector, lower=0)[0]
        _invert_triangle(upper)
        return upper, log_det, solution
    return _one_at_a_time(_invert_root_and_solve_on_jax)(matrix, vector)


def square_of_root(root: np.ndarray) -> np.ndarray:
    """Return ``root @ root.T`` of an upper triangle, exactly symmetric, in a sixth of a product's flops.

    Parameters
    ----------
    root : ndarray of shape (d, d)
        Zero below the diagonal; may be overwritten.

    Returns
    -------
    ndarray of shape (d, d)

    Examples
    --------
    >>> import numpy as np
    >>> square_of_root(np.array([[1.0, 2.0], [0.0, 3.0]]))
    array([[5., 6.],
           [6., 9.]])
    """
    return _mirrored(lapack.dlauum(root, lower=0, overwrite_c=1)[0].T)


def spd_factor(
    matrix: np.ndarray, vector: np.ndarray, overwrite: bool = False
) -> tuple[np.ndarray, np.floating, np.ndarray]:
    """Return the Cholesky factor of a matrix, the inverse's log determinant, and the solution of a system.

    It is what `spd_inverse_root` does without the root, which takes half of its time.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric positive definite, of single or double precision; only the lower triangle is read.
    vector : ndarray of shape (d,)
        Right-hand side.
    overwrite : bool
        Whether the memory of the matrix, in C order, may be used for the factor.

    Returns
    -------
    upper : ndarray of shape (d, d)
        Upper triangular in Fortran order, with anything below its diagonal; ``upper.T @ upper`` is the matrix.
    log_det : float
        Log determinant of the inverse.
    solution : ndarray of shape (d,)
        Inverse times `vector`.

    Raises
    ------
    numpy.linalg.LinAlgError
        When the matrix is not positive definite or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> upper, _, solution = spd_factor(np.array([[4.0, 0.0], [0.0, 16.0]]), np.array([1.0, 1.0]))
    >>> upper.diagonal(), solution
    (array([2., 4.]), array([0.25  , 0.0625]))
    """
    upper, log_det = _factorize(matrix, overwrite)
    solve = lapack.spotrs if upper.dtype == np.float32 else lapack.dpotrs
    return upper, log_det, solve(upper, vector, lower=0)[0]


def solve_factor(upper: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the transposed inverse of the factor of `spd_factor` times vectors, the columns of `vectors`.

    All in the precision of the factor.

    Examples
    --------
    >>> import numpy as np
    >>> solve_factor(np.diag([2.0, 4.0]), np.array([[1.0], [1.0]]))
    array([[0.5 ],
           [0.25]])
    """
    vectors, is_single = vectors.astype(upper.dtype, copy=False), upper.dtype == np.float32
    if vectors.shape[1] == 1:  # reads the factor once, a fifth of the time
        solve = blas.strsv if is_single else blas.dtrsv
        return np.asarray(solve(upper, vectors[:, 0], lower=0, trans=1))[:, None]
    solve = blas.strsm if is_single else blas.dtrsm
    found: np.ndarray = solve(1.0, upper, vectors, lower=0, trans_a=1)
    return found


def invert_factor(upper: np.ndarray) -> np.ndarray:
    """Return the inverse of the factor of `spd_factor`, in its precision; below the diagonal is anything.

    Examples
    --------
    >>> import numpy as np
    >>> invert_factor(np.array([[2.0, 4.0], [0.0, 4.0]]))
    array([[ 0.5 , -0.5 ],
           [ 0.  ,  0.25]])
    """
    inverse = upper.copy(order="F")
    _invert_triangle(inverse)
    return inverse


def multiply_inverse(inverse: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return what `solve_factor` does, from the inverse of the factor: by a product, at least twice as fast.

    Examples
    --------
    >>> import numpy as np
    >>> multiply_inverse(np.diag([0.5, 0.25]), np.array([[1.0], [1.0]]))
    array([[0.5 ],
           [0.25]])
    """
    multiply = blas.strmm if inverse.dtype == np.float32 else blas.dtrmm
    found: np.ndarray = multiply(1.0, inverse, vectors.astype(inverse.dtype, copy=False), lower=0, trans_a=1)
    return found


def _spd_inverse_lapack(matrix: np.ndarray, overwrite: bool = False) -> tuple[np.ndarray, np.floating]:
    upper, log_det = _factorize(matrix, overwrite)
    _invert_triangle(upper)
    return square_of_root(upper), log_det


def _factorize(matrix: np.ndarray, overwrite: bool, clean: bool = False) -> tuple[np.ndarray, np.floating]:
    """Return the upper Cholesky factor in Fortran order, and the log determinant of the inverse.

    Below its diagonal are zeros if it is to be `clean`, else anything.
    """
    # The transpose is in the order that LAPACK reads: nothing is rearranged on the way in or out
    factorize = lapack.spotrf if matrix.dtype == np.float32 else lapack.dpotrf
    factor, info = factorize(matrix.T, lower=0, clean=clean, overwrite_a=overwrite)
    log_det = -2.0 * np.log(factor.diagonal()).sum() if info == 0 else np.float64(np.nan)
    if not np.isfinite(log_det):
        raise np.linalg.LinAlgError("matrix is not positive definite")
    return factor, log_det


def _invert_triangle(upper: np.ndarray) -> None:
    """Overwrite an upper triangle by its inverse, block by block.

    The d^3 / 3 flops are triangular products, which take half the time of LAPACK's own `dtrtri` at d = 400 and 3/4 of
    it at 1200.
    """
    is_single = upper.dtype == np.float32
    if len(upper) <= TILE:
        invert = lapack.strtri if is_single else lapack.dtrtri
        upper[...] = invert(upper, lower=0)[0]
        return
    half = (len(upper) // 2 + 7) // 8 * 8
    first, corner, last = upper[:half, :half], upper[:half, half:], upper[half:, half:]
    _invert_triangle(first)
    _invert_triangle(last)
    multiply = blas.strmm if is_single else blas.dtrmm
    product = multiply(-1.0, first, corner, side=0, lower=0)
    corner[...] = multiply(1.0, last, product, side=1, lower=0, overwrite_b=1)


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


def _invert_root_and_solve_on_jax(matrix: Array, vector: Array) -> tuple[Any, Any, Any]:
    from jax.scipy.linalg import cho_solve

    xp = namespace(matrix)
    factor = xp.linalg.cholesky(matrix)
    root = _inverse_of_triangle(factor).T
    return root, -2.0 * xp.log(xp.diagonal(factor)).sum(), cho_solve((factor, True), vector)


def _invert_on_jax(matrix: Array) -> tuple[Any, Any]:
    return _inverse_of_factor(namespace(matrix).linalg.cholesky(matrix))


def _inverse_of_factor(factor: Array) -> tuple[Any, Any]:
    import jax
    from jax.scipy.linalg import cho_solve

    xp = namespace(factor)
    log_det = -2.0 * xp.log(xp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    if jax.default_backend() != "cpu":
        return gram_of_triangle(_inverse_of_triangle(factor)), log_det
    eye = xp.broadcast_to(xp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    inverse = cho_solve((factor, True), eye)
    return 0.5 * (inverse + inverse.mT), log_det


def gram_of_triangle(lower: Array, leaf: int = 16 * LEAF) -> Any:
    r"""Return :math:`L^\top L` of lower triangles on JAX, exactly symmetric, in half of a product's flops or less.

    Parameters
    ----------
    lower : array of shape (..., d, d)
        With zeros above the diagonal.
    leaf : int
        Rows of the triangles that are multiplied as a whole.

    Returns
    -------
    array of shape (..., d, d)

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> gram_of_triangle(jnp.array([[1.0, 0.0], [2.0, 4.0]]), leaf=1)
    Array([[ 5.,  8.],
           [ 8., 16.]], dtype=float32)
    """
    xp, half = namespace(lower), lower.shape[-1] // 2
    if lower.shape[-1] <= leaf:
        return _gram(lower)
    first, corner, last = lower[..., :half, :half], lower[..., half:, :half], lower[..., half:, half:]
    below = last.mT @ corner
    top = xp.concatenate([gram_of_triangle(first, leaf) + _gram(corner), below.mT], axis=-1)
    return xp.concatenate([top, xp.concatenate([below, gram_of_triangle(last, leaf)], axis=-1)], axis=-2)


def _gram(matrix: Array) -> Any:
    product = matrix.mT @ matrix
    return 0.5 * (product + product.mT)


def _inverse_of_triangle(lower: Array) -> Any:
    """Invert lower triangles on JAX; on accelerators by products of blocks, 2/3 of whose flops are in the last two.

    Substitution with `d` right-hand sides has three times as many flops, and few of them at once.
    """
    import jax
    from jax.scipy.linalg import solve_triangular

    xp, d = namespace(lower), lower.shape[-1]
    if jax.default_backend() == "cpu" or d <= LEAF:
        return solve_triangular(lower, xp.broadcast_to(xp.eye(d, dtype=lower.dtype), lower.shape), lower=True)
    return inverse_by_blocks(lower)


def inverse_by_blocks(lower: Array, leaf: int = LEAF) -> Any:
    r"""Invert lower triangles on JAX by pairs of blocks, which grow from `leaf` rows on.

    .. math:: \begin{pmatrix} A & 0 \\ B & C \end{pmatrix}^{-1} =
       \begin{pmatrix} A^{-1} & 0 \\ -C^{-1} B A^{-1} & C^{-1} \end{pmatrix}

    Parameters
    ----------
    lower : array of shape (..., d, d)
        With zeros above the diagonal.
    leaf : int
        Rows of the blocks that are inverted by substitution.

    Returns
    -------
    array of shape (..., d, d)

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> inverse_by_blocks(jnp.array([[1.0, 0.0], [2.0, 4.0]]), leaf=1)
    Array([[ 1.  ,  0.  ],
           [-0.5 ,  0.25]], dtype=float32)
    """
    from jax.scipy.linalg import solve_triangular

    xp, d = namespace(lower), lower.shape[-1]
    size, whole = leaf, leaf * 2 ** max(0, math.ceil(math.log2(d / leaf)))
    padding = [(0, 0)] * (lower.ndim - 2) + [(0, whole - d)] * 2
    lower = xp.pad(lower, padding) + xp.diag((xp.arange(whole) >= d).astype(lower.dtype))

    def blocks(first: int, step: int) -> Any:
        """Return the blocks of `size` columns from every multiple of `step` on, `first` rows below the diagonal."""
        at = [lower[..., i + first : i + first + size, i : i + size] for i in range(0, whole, step)]
        return xp.stack(at, axis=-3)

    triangles = blocks(0, size)
    eye = xp.broadcast_to(xp.eye(size, dtype=lower.dtype), triangles.shape)
    inverse = solve_triangular(triangles, eye, lower=True)
    while size < whole:
        first, last = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        corner = -last @ blocks(size, 2 * size) @ first
        top = xp.concatenate([first, xp.zeros_like(first)], axis=-1)
        inverse = xp.concatenate([top, xp.concatenate([corner, last], axis=-1)], axis=-2)
        size *= 2
    return inverse[..., 0, :d, :d]
