r"""Nearest positive semidefinite kernels: negative eigenvalues are removed, on training and new rows alike.

With the training kernel :math:`K = U \Lambda U^\top` and the projection :math:`\Pi` on the eigenvectors of positive
eigenvalues, the clipped kernel is :math:`K \Pi = U \Lambda_+ U^\top`. The same linear map of a row applies to rows of
new samples (Chen et al. 2009, Similarity-based classification), so that a training sample that comes again is treated
as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

__all__ = ["Clipping", "fit_clipping"]


class Clipping(NamedTuple):
    r"""Clipped kernels, and the projection of their rows.

    Parameters
    ----------
    kernels : ndarray of shape (n_clipped,)
        Positions in the stack.
    projections : ndarray of shape (n_clipped, n_train, n_train)
        :math:`\Pi` of each of them.
    """

    kernels: np.ndarray
    projections: np.ndarray

    def apply(self, kernels: np.ndarray, positions: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Return a copy of rows of kernels, (n_kernels, n_rows, n_train), with those that need it clipped.

        `positions` (integers) says which kernels of the stack these are; all of them by default.
        """
        clipped = kernels.copy()
        places = {m: i for i, m in enumerate(range(len(kernels)) if positions is None else positions)}
        for m, projection in zip(self.kernels, self.projections, strict=True):
            if m in places:
                np.matmul(kernels[places[m]], projection, out=clipped[places[m]])
        return clipped


def fit_clipping(kernels: np.ndarray, found: Sequence[int]) -> Clipping:
    """Learn how to clip the training kernels at the positions `found`.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
    found : sequence of int
        Positions of indefinite kernels.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    >>> fit_clipping(kernels, [0]).apply(kernels)
    array([[[0.5, 0.5],
            [0.5, 0.5]]])
    """
    projections = []
    for m in found:
        eigenvalues, vectors = eigh(0.5 * (kernels[m] + kernels[m].T))
        positive = vectors[:, eigenvalues > 0.0]
        projections.append(positive @ positive.T)
    return Clipping(np.array(found, dtype=np.intp), np.array(projections))
