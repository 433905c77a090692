"""Inverses of symmetric positive definite matrices through one Cholesky factorization."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

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


def spd_inverse_root(
    matrix: np.ndarray, vector: np.ndarray, overwrite: bool = False
) -> tuple[np.ndarray, np.floating, np.ndarray]:
    """Return the triangular root of an inverse, the inverse's log determinant, and the solution of a system.

    The solution has digits where the inverse times the vector has none: where the matrix is close to singular and the
    vector is not among what it says little of.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric positive definite; only the lower triangle is read.
    vector : ndarray of shape (d,)
        Right-hand side.
    overwrite : bool
        Whether the memory of the matrix, in C order, may be used for the root.

    Returns
    -------
    root : ndarray of shape (d, d)
        Upper triangular; the inverse is ``root @ root.T``.
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
    >>> root, _, solution = spd_inverse_root(np.array([[4.0, 0.0], [0.0, 16.0]]), np.array([1.0, 1.0]))
    >>> root.diagonal(), solution
    (array([0.5 , 0.25]), array([0.25  , 0.0625]))
    """
    upper, log_det = _factorize(matrix, overwrite, clean=True)
    solution = lapack.dpotrs(upper, vector, lower=0)[0]
    _invert_triangle(upper)
    return upper, log_det, solution


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


def solve_factor(upper: np.ndarray, vectors: np.ndarray, overwrite: bool = False) -> np.ndarray:
    """Return the transposed inverse of the factor of `spd_factor` times vectors, the columns of `vectors`.

    All in the precision of the factor; the solution may `overwrite` vectors of that precision in Fortran order.

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
    found: np.ndarray = solve(1.0, upper, vectors, lower=0, trans_a=1, overwrite_b=overwrite)
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


def multiply_inverse(inverse: np.ndarray, vectors: np.ndarray, overwrite: bool = False) -> np.ndarray:
    """Return what `solve_factor` does, from the inverse of the factor: by a product, at least twice as fast.

    Examples
    --------
    >>> import numpy as np
    >>> multiply_inverse(np.diag([0.5, 0.25]), np.array([[1.0], [1.0]]))
    array([[0.5 ],
           [0.25]])
    """
    multiply = blas.strmm if inverse.dtype == np.float32 else blas.dtrmm
    vectors = vectors.astype(inverse.dtype, copy=False)
    found: np.ndarray = multiply(1.0, inverse, vectors, lower=0, trans_a=1, overwrite_b=overwrite)
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

    if jax.default_backend() != "cpu":
        return _invert_on_jax(matrix)
    # One at a time, also under vmap: two batches at once leave the threads of XLA waiting for each other
    one = jax.custom_batching.sequential_vmap(_invert_on_jax)
    return jax.lax.map(one, matrix) if matrix.ndim == 3 else one(matrix)


def _invert_on_jax(matrix: Array) -> tuple[Any, Any]:
    import jax
    from jax.scipy.linalg import cho_solve

    xp = namespace(matrix)
    factor = xp.linalg.cholesky(matrix)
    log_det = -2.0 * xp.log(xp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    if jax.default_backend() != "cpu":
        return gram_of_triangle(inverse_by_blocks(factor)), log_det
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


def inverse_by_blocks(lower: Array, leaf: int = LEAF) -> Any:
    r"""Invert lower triangles on JAX by pairs of blocks, which grow from `leaf` rows on.

    Of its flops 2/3 are in the last two products. Substitution with `d` right-hand sides has three times as many, and
    few of them at once; it is for triangles of no more than `leaf` rows.

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
    size = min(leaf, d)
    whole = size * 2 ** math.ceil(math.log2(d / size))
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


# --------------------------------------------------------------------------------------------- diagonal plus low rank


ROWS = 1024  # of the factors at once, which stay in cache
NEGLIGIBLE = 1e-13  # of the largest eigenvalue of a Gram matrix, below which its eigenvectors are rounding


class DiagonalPlusLowRank(NamedTuple):
    r"""The matrix :math:`D + U M U^\top`, ``diag(base) + factors @ middle @ factors.T``, and its inverse.

    With :math:`S = U^\top D^{-1} U` (Woodbury)

    .. math:: (D + U M U^\top)^{-1} = D^{-1} - D^{-1} U\, M (I + S M)^{-1}\, U^\top D^{-1},

    which is of the same form. The work is that of `S`, `d r²` for `r` columns of `U`, and no matrix has `d` rows and
    columns. NumPy only.

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
