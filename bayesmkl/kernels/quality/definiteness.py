r"""Negative eigenvalues of kernels, and the nearest kernels that have none, on training and new rows alike.

With the training kernel :math:`K = U \Lambda U^\top` and the projection :math:`\Pi` on the eigenvectors of positive
eigenvalues, the clipped kernel is :math:`K \Pi = U \Lambda_+ U^\top`. The same linear map of a row applies to rows of
new samples (Chen et al. 2009, Similarity-based classification), so that a training sample that comes again is treated
as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, eigvalsh
from scipy.linalg.lapack import dpotrf

__all__ = [
    "CONSTANT",
    "Clipping",
    "describe_indefinite",
    "fit_clipping",
    "indefinite_kernels",
    "is_semidefinite",
    "join",
    "spectrum",
]

# All entries equal up to this share of the largest, half the digits of a float64.
CONSTANT = 1e-8
# Smallest eigenvalue below -1e-8 ||K||_F. Rounding moves eigenvalues by about n eps ||K||_F,
# 1e-12 for n = 5000.
INDEFINITE = 1e-8
SHOWN = 6  # names per problem before "... and 7 more"


def indefinite_kernels(kernels: Any, known_psd: Any = None, tolerance: float = INDEFINITE) -> list[int]:
    """Return the positions of kernels that are not positive semidefinite, beyond rounding.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train), or sequence of square matrices
        Finite.
    known_psd : array-like of bool of shape (n_kernels,), default=None
        Kernels that need no test; None tests all.
    tolerance : float
        Negative eigenvalues down to this fraction of the Frobenius norm count as rounding.

    Examples
    --------
    >>> import numpy as np
    >>> indefinite_kernels(np.stack([np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])]))
    [1]
    """
    known = np.zeros(len(kernels), dtype=bool) if known_psd is None else np.asarray(known_psd, dtype=bool)
    return [m for m in range(len(kernels)) if not known[m] and not is_semidefinite(kernels[m], tolerance)]


def describe_indefinite(kernels: np.ndarray, names: Sequence[str], found: Sequence[int]) -> str:
    """Name indefinite kernels with the range of their eigenvalues."""
    items = [f"{names[m]} ({spectrum(kernels[m])})" for m in found[:SHOWN]]
    return join(items + [names[m] for m in found[SHOWN:]])


def join(items: list[str], separator: str = ", ") -> str:
    """List the first items and say how many more there are."""
    more = f"{separator.rstrip()} ... and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return separator.join(items[:SHOWN]) + more


def is_semidefinite(kernel: np.ndarray, tolerance: float = INDEFINITE) -> bool:
    """Return whether a kernel has no negative eigenvalue beyond `tolerance` of its Frobenius norm."""
    shifted = kernel.copy()
    shifted.flat[:: len(kernel) + 1] += tolerance * np.sqrt(np.vdot(kernel, kernel))
    if dpotrf(shifted.T, overwrite_a=1, clean=0)[1] == 0:  # it has a factor; reads one triangle
        return True
    smallest, largest = kernel.min(), kernel.max()
    is_constant = largest - smallest <= CONSTANT * max(abs(smallest), abs(largest))
    return bool(is_constant and kernel.flat[0] >= 0)


def spectrum(kernel: np.ndarray) -> str:
    """Tell the range of the eigenvalues."""
    eigenvalues = eigvalsh(0.5 * (kernel + kernel.T))
    return f"eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"


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
