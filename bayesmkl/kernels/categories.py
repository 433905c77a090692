"""Kernels of rows of categories, which are alike in a column or are not."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.kernels.base import KERNEL, Kernel
from bayesmkl.kernels.geometry import PairwiseGeometry

__all__ = ["Overlap"]


@fill_docs(KERNEL)
class Overlap(Kernel):
    r"""Part of the columns in which two rows have the same value, one minus the normalized Hamming distance.

    .. math:: k(x, z) = \frac{1}{D} \sum_{j=1}^D [x_j = z_j]

    It compares categories, which are coded as numbers without an order. Its functions are sums of one number for
    each category of each column; those of a product, ``Overlap() * Overlap()``, also have one for each pair of them.

    Notes
    -----
    It is positive semidefinite: each term is the inner product of the indicators of two categories. Codes that no
    training sample has, such as those of unseen categories, are like nothing.

    References
    ----------
    J. Couto (2005), Kernel k-means for categorical data, Advances in Intelligent Data Analysis VI, LNCS 3646.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Overlap
    >>> Overlap()(np.array([[0, 2, 1, 1]]), np.array([[0, 2, 0, 1], [1, 0, 0, 2]]))
    array([[0.75, 0.  ]])
    """

    @property
    def label(self) -> str:
        """Name for tables and plots."""
        return "overlap"

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s
        """
        np.subtract(1.0, cdist(geometry.X, geometry.Z, "hamming"), out=out)
