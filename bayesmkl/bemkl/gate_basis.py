r"""Features of gates: a constant, and a Gaussian process over gate features by Nyström's method.

With landmarks :math:`l_1, \dots, l_B` among the gate features z, each column in units of its standard deviation, and
:math:`k(z, z') = \exp(-\|z - z'\|^2 / (2 w^2))`,

.. math:: φ(z) = \bigl(1, \; U^\top [K_{LL}^{-1/2} k(L, z) - c] \bigr)

so that weights with a common variance :math:`1/ω` make a function that is :math:`GP(0, k / ω)` to the accuracy of the
landmarks (Williams and Seeger 2001), less its mean over the training samples, `c`, which is the business of the
constant: its weight is the mean of the gate. `U` are the principal axes over the training samples; those that hold
next to nothing of the variance are left out, and the prior of the gate is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from bayesmkl.kernels.landmarks import choose_landmarks
from bayesmkl.kernels.pairs import median_distance

__all__ = ["GateBasis", "GateScale", "gate_basis", "gate_scale"]

N_LANDMARKS = 20  # or as many as there are different samples
DIGITS = 9  # of standardized gate features that tell samples apart
RANK = 1e-8  # eigenvalues of landmarks below this part of the largest are rounding errors
LEFT_OUT = 1e-4  # variance that no principal axis holds, relative to all


class GateScale(NamedTuple):
    """Standardized gate features of the training samples, their landmarks and their median distance."""

    center: np.ndarray  # (n_gate_features,)
    scale: np.ndarray  # (n_gate_features,)
    landmarks: np.ndarray  # (n_landmarks, n_gate_features), standardized
    median: float

    @property
    def is_constant(self) -> bool:
        """Whether all training samples have the same gate features."""
        return len(self.landmarks) == 1

    def standardize(self, gate_features: np.ndarray) -> np.ndarray:
        """Return gate features in units of their standard deviations."""
        return (gate_features - self.center) / self.scale


class GateBasis(NamedTuple):
    """The features φ, as a function of gate features."""

    scale: GateScale
    width: float  # of the kernel, in standard deviations; infinite for a constant
    mixing: np.ndarray  # (n_landmarks, n_local_features)
    offset: np.ndarray  # (n_local_features,)

    def features(self, gate_features: np.ndarray) -> np.ndarray:
        """Return φ at some rows, (n_rows, 1 + n_local_features), ones first.

        Parameters
        ----------
        gate_features : ndarray of shape (n_rows, n_gate_features)
        """
        constant = np.ones((len(gate_features), 1))
        if not self.mixing.shape[1]:
            return constant
        local = self._kernel(self.scale.standardize(gate_features)) @ self.mixing - self.offset
        return np.hstack([constant, local])

    def _kernel(self, rows: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * cdist(rows, self.scale.landmarks, "sqeuclidean") / self.width**2)


def gate_scale(gate_features: np.ndarray, n_landmarks: int | None, seed: int) -> GateScale:
    """Standardize the gate features of training samples, and choose landmarks among them.

    Parameters
    ----------
    gate_features : ndarray of shape (n_samples, n_gate_features)
    n_landmarks : int or None
        None is 20, or as many as there are different samples.
    seed : int
        Of the clustering whose centers are landmarks.

    Raises
    ------
    ValueError
        If there are more landmarks than different samples.

    Examples
    --------
    >>> import numpy as np
    >>> gate_scale(np.array([[0.0], [4.0], [4.0]]), None, seed=0).landmarks.round(2).tolist()
    [[-1.41], [0.71]]
    """
    center, scale = gate_features.mean(axis=0), gate_features.std(axis=0)
    scale = np.where(scale > np.finfo(float).eps * np.abs(center), scale, 1.0)
    rows = np.round((gate_features - center) / scale, DIGITS)
    different = np.unique(rows, axis=0)
    if n_landmarks is not None and n_landmarks > len(different):
        raise ValueError(
            f"`n_landmarks` must be at most the number of training samples whose gate features differ, "
            f"{len(different)}; got {n_landmarks}. None takes as many as there are, up to {N_LANDMARKS}."
        )
    n_landmarks = min(N_LANDMARKS, len(different)) if n_landmarks is None else n_landmarks
    is_all = n_landmarks == len(different)
    landmarks = different if is_all else choose_landmarks(rows, n_landmarks, "kmeans", seed)
    return GateScale(center, scale, landmarks, median_distance(rows, "euclidean"))


def gate_basis(scale: GateScale, gate_features: np.ndarray, relative_width: float) -> GateBasis:
    """Return the features of a Gaussian process of some width, centered over the training samples.

    Parameters
    ----------
    scale : GateScale
        Of these samples.
    gate_features : ndarray of shape (n_samples, n_gate_features)
        Of the training samples.
    relative_width : float
        In median distances between two samples; infinite for the constant alone.

    Examples
    --------
    The prior variance of the gate of two samples, which differ from their mean by half of the distance of functions:

    >>> import numpy as np
    >>> z = np.array([[0.0], [1.0]])
    >>> basis = gate_basis(gate_scale(z, None, seed=0), z, relative_width=1.0)
    >>> (basis.features(z) ** 2)[:, 1:].sum(axis=1).round(4), ((1 - np.exp(-0.5)) / 2).round(4)
    (array([0.1967, 0.1967]), np.float64(0.1967))
    """
    width, n_landmarks = relative_width * scale.median, len(scale.landmarks)
    alone = GateBasis(scale, width, np.zeros((n_landmarks, 0)), np.zeros(0))
    if not np.isfinite(relative_width):
        return alone
    values, vectors = np.linalg.eigh(alone._kernel(scale.landmarks))
    kept = values > RANK * values[-1]
    mixing = vectors[:, kept] / np.sqrt(values[kept])
    local = alone._kernel(scale.standardize(gate_features)) @ mixing
    offset = local.mean(axis=0)
    variances, axes = np.linalg.eigh((local - offset).T @ (local - offset))
    needed = np.cumsum(variances) > LEFT_OUT * max(variances.sum(), 0.0)  # ascending
    axes = axes[:, needed][:, ::-1]
    return alone._replace(mixing=mixing @ axes, offset=offset @ axes)
