r"""Additive Gaussian processes of many samples through landmarks: pseudo-samples that tell all that landmarks know.

The inducing variables are the parts :math:`u_m = f_m(Z)` of every kernel at its landmarks `Z` (Titsias 2009,
Variational learning of inducing variables in sparse Gaussian processes). With features :math:`\phi_m(x) =
\Lambda_m^{-1/2} V_m^\top k_m(Z, x)`, :math:`K_m(Z, Z) = V_m \Lambda_m V_m^\top`, they explain :math:`Q_m = \Phi_m
\Phi_m^\top` of kernel `m`, and the evidence under normal noise has the lower bound (Titsias, eq. 9)

.. math:: \log N(y \mid 0, \textstyle\sum_m a_m Q_m + \gamma^{-1} 1 1^\top + \sigma^2 I)
   - \frac{1}{2 \sigma^2} \sum_m a_m \operatorname{tr}(K_m - Q_m) .

All features together have `r` dimensions. With an orthonormal basis :math:`U` of these, whose `r` columns are turned so
that they have the same sum, the means :math:`\sqrt{r / n} \, U^\top y` are targets of `r` pseudo-samples with the
kernels :math:`\frac{r}{n} U^\top Q_m U` and noise of the variance :math:`\sigma^2 r / n`, as if each were the mean of
`n / r` samples: an intercept, variances over the samples, and units of kernels are what they were. So the posterior
of the parts and of the hyperparameters is that of an exact model of `r` samples, and what its evidence lacks is

.. math:: \frac r2 \log \frac rn - \frac{n - r}{2} \log (2 \pi \sigma^2) - \frac{1}{2 \sigma^2}
   \left( \|y - U U^\top y\|^2 + \sum_m a_m \operatorname{tr}(K_m - Q_m) \right) .

The samples are read once: basis, kernels and targets follow from the Gram matrix of the features,
:math:`\sum_i \phi(x_i) \phi(x_i)^\top`, and their products with the targets. Samples may have weights
:math:`\lambda_i`, the precisions of normal sites, which multiply `y`, features and ones by their roots, and `n` is
then the sum of weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from bayesmkl.kernels.fitted import FittedKernels

__all__ = ["Features", "PseudoSamples", "Remainder", "Statistics", "gather", "landmark_features", "pseudo_samples"]

BLOCK_ENTRIES = 2**22  # of kernels of samples with landmarks that are held at once, 32 MB
LEAST_EIGENVALUE = 1e-12  # of a kernel of landmarks, relative to its largest
LEAST_DIRECTION = 1e-14  # of the Gram matrix of features, relative to its largest eigenvalue
CONSTANT = 1e-10  # part of a kernel around its mean that is rounding error
LOG_2PI = float(np.log(2.0 * np.pi))


class Features(NamedTuple):
    """Features of all kernels, side by side.

    Attributes
    ----------
    whitening : tuple of ndarray of shape (n_landmarks, n_features)
        Of every kernel: similarities to landmarks times it are its features.
    """

    whitening: tuple[np.ndarray, ...]

    @property
    def columns(self) -> list[slice]:
        """Places of the features of every kernel; before them comes a constant."""
        stops = 1 + np.cumsum([own.shape[1] for own in self.whitening])
        return [slice(int(stop) - own.shape[1], int(stop)) for own, stop in zip(self.whitening, stops, strict=True)]

    @property
    def size(self) -> int:
        """Number of features and the constant."""
        return 1 + sum(own.shape[1] for own in self.whitening)

    def of(self, kernels: np.ndarray) -> np.ndarray:
        """Return the constant and the features of rows, (n_rows, size), from (n_kernels, n_rows, n_landmarks)."""
        found = np.empty((kernels.shape[1], self.size))
        found[:, 0] = 1.0
        for columns, kernel, own in zip(self.columns, kernels, self.whitening, strict=True):
            np.matmul(kernel, own, out=found[:, columns])
        return found


class Statistics(NamedTuple):
    """Sums over weighted samples.

    Attributes
    ----------
    gram : ndarray of shape (n_features, n_features)
        Products of features, of which the first is a constant.
    products : ndarray of shape (n_outputs, n_features)
        Of targets with features.
    squares : ndarray of shape (n_outputs,)
        Squares of targets.
    diagonal : ndarray of shape (n_kernels,)
        Similarities of samples to themselves.
    n_samples : int
    total : float
        Weights of the samples.
    """

    gram: np.ndarray
    products: np.ndarray
    squares: np.ndarray
    diagonal: np.ndarray
    n_samples: int
    total: float


class PseudoSamples(NamedTuple):
    """The samples of an exact model with the same posterior.

    Attributes
    ----------
    kernels : ndarray of shape (n_kernels, n_pseudo, n_pseudo)
    maps : ndarray of shape (n_kernels, n_landmarks, n_pseudo)
        Similarities to landmarks times these are similarities to pseudo-samples.
    units : ndarray of shape (n_kernels,)
        Mean variance of every kernel around its mean over the samples.
    precision : float
        Of the noise of a pseudo-sample relative to that of a sample.
    dual : ndarray of shape (n_outputs, n_kernels, n_pseudo)
        Posterior mean weights of pseudo-samples in each kernel's part; empty before there is a posterior.
    """

    kernels: np.ndarray
    maps: np.ndarray
    units: np.ndarray
    precision: float
    dual: np.ndarray = np.empty((0, 0, 0))

    @property
    def n_pseudo(self) -> int:
        """Number of pseudo-samples."""
        return self.kernels.shape[-1]

    def rows(self, kernels: np.ndarray) -> np.ndarray:
        """Return similarities to pseudo-samples, (n_kernels, n_rows, n_pseudo), from those to landmarks."""
        return np.matmul(kernels, self.maps)


class Remainder(NamedTuple):
    """What the evidence of pseudo-samples lacks to the bound of that of the samples.

    Attributes
    ----------
    n_pseudo : int
    n_samples : int
    total : float
        Weights of the samples.
    squares : ndarray of shape (n_outputs,)
        Of the part of the targets that no feature has.
    traces : ndarray of shape (n_kernels,)
        Variances that landmarks do not explain, of functions of unit weight, summed over the samples.
    """

    n_pseudo: int
    n_samples: int
    total: float
    squares: np.ndarray
    traces: np.ndarray

    def variances(self, weights: np.ndarray) -> np.ndarray:
        """Return the mean variances of parts that landmarks do not explain, (n_kernels,)."""
        return weights**2 * self.traces / self.total

    def __call__(self, weights: np.ndarray, parameters: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return it in nats, and its gradient by kernel weights and by parameters.

        Parameters
        ----------
        weights : ndarray of shape (n_kernels,)
        parameters : ndarray of shape (n_outputs, 1)
            Standard deviations of the noise.
        """
        rest = self.n_samples - self.n_pseudo
        variance = parameters[:, 0] ** 2
        lost = self.squares + weights**2 @ self.traces
        value = 0.5 * len(variance) * self.n_pseudo * np.log(self.n_pseudo / self.total)
        value -= 0.5 * (rest * (LOG_2PI + np.log(variance)) + lost / variance).sum()
        by_weights = -weights * self.traces * (1.0 / variance).sum()
        by_parameters = (lost / variance - rest) / parameters[:, 0]
        return float(value), by_weights, by_parameters[:, None]


def landmark_features(bank: FittedKernels) -> Features:
    """Return the features of all kernels of a bank with landmarks.

    Parameters
    ----------
    bank : FittedKernels
        Fitted.

    Raises
    ------
    numpy.linalg.LinAlgError
        With the position of a kernel that is not positive semidefinite.
    """
    found = []
    for m, kernel in enumerate(bank.evaluate(bank.basis_)):
        values, vectors = np.linalg.eigh(0.5 * (kernel + kernel.T))
        largest = max(values[-1], -values[0])
        if -values[0] > 1e-6 * max(largest, np.finfo(float).tiny):
            raise np.linalg.LinAlgError(m)
        kept = values > max(LEAST_EIGENVALUE * largest, np.finfo(float).tiny)
        found.append(vectors[:, kept] / np.sqrt(values[kept]))
    return Features(tuple(found))


def row_blocks(bank: FittedKernels, n_rows: int) -> Iterator[slice]:
    """Cut samples into blocks whose kernels take little memory."""
    size = max(1, BLOCK_ENTRIES // (bank.n_kernels_ * len(bank.basis_)))
    return (slice(first, min(first + size, n_rows)) for first in range(0, n_rows, size))


def gather(
    bank: FittedKernels, features: Features, X: Any, targets: np.ndarray, weights: np.ndarray | None = None
) -> Statistics:
    """Sum over samples, a block at a time.

    Parameters
    ----------
    bank : FittedKernels
    features : Features
        Of the bank.
    X : ndarray of shape (n_samples, n_columns)
        Validated samples.
    targets : ndarray of shape (n_outputs, n_samples)
    weights : ndarray of shape (n_samples,), optional
        Of samples; None: each is one.
    """
    gram = np.zeros((features.size, features.size), order="F")
    products, squares = np.zeros((len(targets), features.size)), np.zeros(len(targets))
    diagonal, total = np.zeros(bank.n_kernels_), 0.0
    for rows in row_blocks(bank, len(X)):
        kernels, own = bank.rows_and_diagonal(X[rows])
        block, y = features.of(kernels), targets[:, rows]
        if weights is not None:
            root = np.sqrt(weights[rows])
            block *= root[:, None]
            y, own = y * root, own * weights[rows]
            total += float(weights[rows].sum())
        else:
            total += len(block)
        gram = dsyrk(1.0, block.T, beta=1.0, c=gram, overwrite_c=True)
        products += y @ block
        squares += (y**2).sum(axis=1)
        diagonal += own.sum(axis=1)
    upper = np.triu(gram)
    return Statistics(upper + np.triu(upper, 1).T, products, squares, diagonal, len(X), total)


def pseudo_samples(features: Features, found: Statistics) -> tuple[PseudoSamples, np.ndarray, Remainder]:
    """Return pseudo-samples, their targets, (n_outputs, n_pseudo), and what their evidence lacks.

    Parameters
    ----------
    features : Features
    found : Statistics
    """
    columns, total = features.columns, found.total
    traces = np.array([np.trace(found.gram[own, own]) for own in columns])
    scale = np.empty(features.size)  # all kernels alike
    scale[0] = 1.0
    for own, diagonal in zip(columns, found.diagonal, strict=True):
        scale[own] = np.sqrt(total / max(diagonal, np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(scale[:, None] * found.gram * scale)
    kept = values > LEAST_DIRECTION * values[-1]
    root = np.sqrt(values[kept])
    targets = (found.products * scale) @ (vectors[:, kept] / root)
    loadings = (root[:, None] * vectors[:, kept].T) / scale  # U' Phi
    n_pseudo = len(root)
    turn = loadings[:, 0] - np.sqrt(total / n_pseudo)  # Householder: U' 1 becomes the same number everywhere
    length = float(turn @ turn)
    if length > np.finfo(float).eps * total:
        loadings -= np.outer(2.0 / length * turn, turn @ loadings)
        targets -= np.outer(targets @ turn, 2.0 / length * turn)
    squares = np.maximum(found.squares - (targets**2).sum(axis=1), 0.0)
    shrink = n_pseudo / total
    loadings *= np.sqrt(shrink)
    kernels = np.empty((len(columns), n_pseudo, n_pseudo))
    maps = np.empty((len(columns), len(features.whitening[0]), n_pseudo))
    for m, (own, whitening) in enumerate(zip(columns, features.whitening, strict=True)):
        of_kernel = loadings[:, own]
        np.matmul(of_kernel, of_kernel.T, out=kernels[m])
        np.matmul(whitening, of_kernel.T, out=maps[m])
    rest = np.maximum(found.diagonal - traces, 0.0)
    mean = kernels.sum(axis=(1, 2)) / n_pseudo**2
    variance, diagonal = found.diagonal / total - mean, found.diagonal / total
    units = np.where(variance > CONSTANT * np.abs(diagonal), variance, np.inf)
    pseudo = PseudoSamples(kernels, maps, units, total / n_pseudo)
    return pseudo, targets * np.sqrt(shrink), Remainder(n_pseudo, found.n_samples, total, squares, rest / units)
