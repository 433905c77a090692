"""Gates that are known beforehand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl.discriminative.gating import GATING, check_given_gates


@fill_docs(GATING)
class FixedGating(NamedTuple):
    r"""Gates that are known: nothing is learned but the SVM.

    Parameters
    ----------
    values : array-like of shape (n_kernels,), or callable
        Gates that are the same for all samples, or a function of features of shape (n_rows, n_features) that returns
        gates of shape (n_rows, n_kernels). Finite and at least 0; as nothing is learned, there is no upper bound.

    Examples
    --------
    Gate columns that are the gates themselves, for ``standardize=False``:

    >>> import numpy as np
    >>> gating = FixedGating(lambda features: features)
    >>> gating.gates(np.zeros(0), np.array([[1.0, 0.0], [0.2, 0.8]]))
    array([[1. , 0.2],
           [0. , 0.8]])
    """

    values: Any

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Return no parameters, once the gates of the training samples are what they should be.

        Parameters
        ----------
        %(features:training)s (n_samples, n_features)
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (0,)
            No parameters.

        Raises
        ------
        ValueError
            If a gate is negative or not finite, or gates do not have the shape (n_samples, n_kernels).
        """
        none = np.zeros(0)
        found = self.gates(none, features).T
        if found.shape[1] != n_kernels:
            raise ValueError(
                f"`values` of FixedGating must be gates of {n_kernels} kernels, the last axis; got "
                f"{found.shape[1]}. Give one gate for every kernel."
            )
        return none

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the given gates.

        Parameters
        ----------
        parameters : ndarray of shape (0,)
            Is not read.
        %(features)s (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            At least 0.

        Raises
        ------
        ValueError
            If a gate is negative or not finite, or a callable returns another shape than (n_rows, n_kernels).
        """
        if callable(self.values):
            return check_given_gates("FixedGating", self.values(features), len(features), bounded=False).T
        gates = np.asarray(self.values)
        whole = gates[None] if gates.ndim == 1 else gates
        return np.repeat(check_given_gates("FixedGating", whole, 1, bounded=False).T, len(features), axis=1)

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return the derivatives by no parameters.

        Parameters
        ----------
        parameters : ndarray of shape (0,)
            Is not read.
        %(features)s (n_rows, n_features)
        %(slopes)s

        Returns
        -------
        ndarray of shape (0,)
            Nothing.
        """
        return np.zeros(0)


def equal_gates(n_kernels: int) -> FixedGating:
    r"""Return gates :math:`1/\sqrt P`, whose kernel is the mean of all kernels.

    Examples
    --------
    >>> equal_gates(4).values
    array([0.5, 0.5, 0.5, 0.5])
    """
    return FixedGating(np.full(n_kernels, n_kernels**-0.5))
