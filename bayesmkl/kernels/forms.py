r"""Quadratic forms in the kernels of query points: what a Gaussian posterior over weights says of its scores.

Every kernel m compares a query point with the training points, k_m, and scores are :math:`\sum_m e_m k_m^\top a`.
With :math:`E[e e^\top] = W` and :math:`\mathrm{Cov}[a] = S` their variance has the part

.. math:: \sum_{mn} W_{mn}\, k_m^\top S\, k_n.

Dense kernels need P N (P + N) operations per row. Kernels with factors, :math:`k_m = Z_m c_m`, need fewer: either N
per line of all factors and P² N, or the square of the number of lines, whichever is less.
"""

from __future__ import annotations

import numpy as np

from bayesmkl.kernels.stacks.base import KernelRows, Kernels
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.lowrank import LowRankStack
from bayesmkl.kernels.stacks.parts import RowParts

# Rows are taken in blocks so that (n_kernels, block, n_train) temporaries stay near this many numbers.
BLOCK_SIZE = 2**20


def weighted_forms(stack: KernelRows, mixing: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
    """Return ``sum_mn W_mn k_m^T S_c k_n`` for every S_c and row, shape (n_roots, n_rows).

    Parameters
    ----------
    stack : KernelRows
        Kernels of query points (rows) against the training points, NumPy.
    mixing : ndarray of shape (q, n_kernels)
        R with ``R^T R = W``.
    roots : list of ndarray of shape (n_train, n_train)
        Roots of the S_c: ``root @ root.T = S_c``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> stack = DenseStack(np.array([[[1.0, 2.0]], [[0.0, 3.0]]]))  # two kernels of one row
    >>> weighted_forms(stack, np.array([[2.0, 1.0]]), [np.eye(2)])  # |2 k_1 + k_2|²
    array([[53.]])
    """
    if isinstance(stack, LowRankStack):
        if stack.n_rows * len(mixing) > 2 * sum(z.shape[0] * z.shape[1] for z in stack.factors):
            return _of_factors(stack, mixing, roots)
        stack = DenseStack(
            stack.columns(slice(None))
        )  # few rows: not worth multiplying all factors by the roots
    forms = np.empty((len(roots), stack.n_rows))
    if isinstance(stack, RowParts):
        for index, part in stack.parts:
            forms[:, index] = weighted_forms(part, mixing, roots)
        return forms
    for rows in _blocks(stack):
        mixed = stack.rows(rows).combine(mixing)  # R k, for every row
        for output, root in enumerate(roots):
            forms[output, rows] = ((mixed @ root) ** 2).sum(axis=(0, 2))
    return forms


def _blocks(stack: Kernels) -> list[slice]:
    size = max(1, BLOCK_SIZE // (stack.n_kernels * stack.n_train))
    return [slice(start, start + size) for start in range(0, stack.n_rows, size)]


def _of_factors(stack: LowRankStack, mixing: np.ndarray, roots: list[np.ndarray]) -> np.ndarray:
    mixing = mixing[:, np.argsort(stack.order)]  # kernels in the order of the groups
    ranks = np.concatenate([np.full(z.shape[0], z.shape[1]) for z in stack.factors])
    if len(stack.dense) == 0 and ranks.sum() <= stack.n_train:
        return _between_lines(stack, mixing, roots, ranks)
    forms = np.empty((len(roots), stack.n_rows))
    for output, root in enumerate(roots):
        rooted = [z @ root for z in stack.factors]
        for rows in _blocks(stack):
            part = stack.rows(rows)
            left = [z.mT @ own for z, own in zip(part.left or (), rooted, strict=True)]
            scores = np.concatenate([*left, part.dense @ root])
            mixed = mixing @ scores.reshape(len(scores), -1)
            forms[output, rows] = (mixed**2).reshape(-1, part.n_rows, stack.n_train).sum(axis=(0, 2))
    return forms


def _between_lines(
    stack: LowRankStack, mixing: np.ndarray, roots: list[np.ndarray], ranks: np.ndarray
) -> np.ndarray:
    """Reduce the form to one in the coordinates of the query points, the same for all of them."""
    factors = np.concatenate([z.reshape(-1, z.shape[2]) for z in stack.factors])
    left = np.concatenate([z.reshape(-1, z.shape[2]) for z in stack.left or stack.factors])
    kernel_of_line = np.repeat(np.arange(len(ranks)), ranks)
    weights = (mixing.T @ mixing)[np.ix_(kernel_of_line, kernel_of_line)]
    forms = np.empty((len(roots), stack.n_rows))
    for output, root in enumerate(roots):
        rooted = factors @ root
        form = weights * (rooted @ rooted.T)
        forms[output] = ((form @ left) * left).sum(axis=0)
    return np.maximum(forms, 0.0)  # rounding
