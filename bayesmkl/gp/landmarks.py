r"""Additive Gaussian processes of many samples through landmarks: pseudo-samples that tell all that landmarks know.

The inducing variables are the parts :math:`u_m = f_m(Z)` of every kernel at its landmarks `Z` (Titsias 2009,
Variational learning of inducing variables in sparse Gaussian processes). With features :math:`\phi_m(x) =
\Lambda_m^{-1/2} V_m^\top k_m(Z, x)`, :math:`K_m(Z, Z) = V_m \Lambda_m V_m^\top`, they explain :math:`Q_m = \Phi_m
\Phi_m^\top` of kernel `m`, and the evidence under normal noise has the lower bound (Titsias, eq. 9)

.. math:: \log N(y \mid 0, \textstyle\sum_m a_m Q_m + \gamma^{-1} 1 1^\top + \sigma^2 I)
   - \frac{1}{2 \sigma^2} \sum_m a_m \operatorname{tr}(K_m - Q_m) .

All features together have `r` dimensions. With an orthonormal basis :math:`U` of these, whose `r` columns are turned
so that they have the same sum, the means :math:`\sqrt{r / n} \, U^\top y` are targets of `r` pseudo-samples with the
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

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

BLOCK_ENTRIES = 2**22  # of kernels of samples with landmarks that are held at once, 32 MB
LEAST_EIGENVALUE = 1e-12  # of a kernel of landmarks, relative to its largest
LEAST_DIRECTION = 1e-14  # of the Gram matrix of features, relative to its largest eigenvalue
CONSTANT = 1e-10  # part of a kernel around its mean that is rounding error
LEAST_LANDMARKS = 2  # of a kernel
LOG_2PI = float(np.log(2.0 * np.pi))


class Features(NamedTuple):
    """Features of all kernels, side by side.

    Attributes
    ----------
    whitening : tuple of ndarray of shape (n_landmarks, n_features)
        Of every kernel: similarities to landmarks times it are its features. A kernel may have the first landmarks
        only.
    """

    whitening: tuple[np.ndarray, ...]

    @property
    def counts(self) -> list[int]:
        """Number of landmarks of every kernel."""
        return [len(own) for own in self.whitening]

    @property
    def columns(self) -> list[slice]:
        """Places of the features of every kernel; before them comes a constant."""
        stops = 1 + np.cumsum([own.shape[1] for own in self.whitening])
        return [
            slice(int(stop) - own.shape[1], int(stop))
            for own, stop in zip(self.whitening, stops, strict=True)
        ]

    @property
    def size(self) -> int:
        """Number of features and the constant."""
        return 1 + sum(own.shape[1] for own in self.whitening)

    def of(self, bank: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the constant and the features of rows, (n_rows, size), and (n_kernels, n_rows) self-similarities."""
        found, diagonals = np.empty((len(X), self.size)), np.empty((len(self.whitening), len(X)))
        found[:, 0] = 1.0
        columns = self.columns
        for m, kernel, diagonal in bank.rows_and_diagonals(X, self.counts):
            np.matmul(kernel, self.whitening[m], out=found[:, columns[m]])
            diagonals[m] = diagonal
        return found, diagonals


class PseudoSamples(NamedTuple):
    """The samples of an exact model with the same posterior.

    Attributes
    ----------
    features : Features
    loadings : ndarray of shape (n_pseudo, n_features)
        Means of the features, of which the first is one.
    units : ndarray of shape (n_kernels,)
        Mean variance of every kernel around its mean over the samples.
    precision : float
        Of the noise of a pseudo-sample relative to that of a sample.
    dual : ndarray of shape (n_outputs, n_kernels, n_pseudo)
        Posterior mean weights of pseudo-samples in each kernel's part; empty before there is a posterior.
    """

    features: Features
    loadings: np.ndarray
    units: np.ndarray
    precision: float
    dual: np.ndarray = np.empty((0, 0, 0))

    @property
    def n_pseudo(self) -> int:
        """Number of pseudo-samples."""
        return len(self.loadings)

    def of_kernels(self) -> list[np.ndarray]:
        """Return the means of the features of every kernel, (n_pseudo, n_features)."""
        return [self.loadings[:, own] for own in self.features.columns]

    def matrices(self) -> np.ndarray:
        """Return the kernels of pseudo-samples, (n_kernels, n_pseudo, n_pseudo)."""
        return np.stack([own @ own.T for own in self.of_kernels()])

    def rows(self, kernels: np.ndarray) -> np.ndarray:
        """Return similarities to pseudo-samples, (n_kernels, n_rows, n_pseudo), from those to landmarks."""
        triples = zip(kernels, self.features.whitening, self.of_kernels(), strict=True)
        return np.stack(
            [(kernel[:, : len(whitening)] @ whitening) @ own.T for kernel, whitening, own in triples]
        )

    def from_landmarks(self, m: int, rows: np.ndarray) -> np.ndarray:
        """Return what linear functionals of kernel `m` at landmarks, (..., n_landmarks), are at pseudo-samples."""
        whitening = self.features.whitening[m]
        return (rows[..., : len(whitening)] @ whitening) @ self.of_kernels()[m].T

    def of_landmarks(self, m: int, weights: np.ndarray, n_landmarks: int) -> np.ndarray:
        """Return weights of all landmarks in the part of kernel `m` from those of pseudo-samples, (..., n_pseudo)."""
        whitening = self.features.whitening[m]
        found = (weights @ self.of_kernels()[m]) @ whitening.T
        return np.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, n_landmarks - len(whitening))])

    def scales(self, weights: np.ndarray, intercept_std: float) -> np.ndarray:
        """Return prior variances of the weights of features, (n_features,), at some kernel weights."""
        each = weights**2 / self.units
        sizes = [own.shape[1] for own in self.features.whitening]
        return np.concatenate([[intercept_std**2], np.repeat(each, sizes)])


class Remainder(NamedTuple):
    """What the evidence of pseudo-samples lacks to the bound of that of the samples.

    Attributes
    ----------
    n_pseudo, n_samples : int
    total : float
        Weights of the samples.
    squares : ndarray of shape (n_outputs,)
        Of the part of the targets that no feature has.
    traces : ndarray of shape (n_kernels,)
        Variances that landmarks do not explain, of functions of unit weight, summed over the weighted samples.
    unexplained : ndarray of shape (n_kernels,)
        Mean of the same over samples of equal weight.
    constant : float
        What does not depend on hyperparameters.
    turn : ndarray of shape (n_equal, n_pseudo), optional
        Turns functions at pseudo-samples into those at pseudo-samples of equal weight; None: they have it.
    """

    n_pseudo: int
    n_samples: int
    total: float
    squares: np.ndarray
    traces: np.ndarray
    unexplained: np.ndarray
    constant: float = 0.0
    turn: np.ndarray | None = None

    def evenly(self, functions: np.ndarray) -> np.ndarray:
        """Return functions at pseudo-samples of equal weight."""
        return functions if self.turn is None else functions @ self.turn.T

    def __call__(self, weights: np.ndarray, parameters: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return it in nats, and its gradient by kernel weights and by parameters.

        Parameters
        ----------
        weights : ndarray of shape (n_kernels,)
        parameters : ndarray of shape (n_outputs, 1) or (n_outputs, 0)
            Standard deviations of the noise; none, where the weights of samples are its precisions.
        """
        rest = self.n_samples - self.n_pseudo
        noise = parameters[:, 0] if parameters.shape[1] else np.ones(len(parameters))
        lost = self.squares + weights**2 @ self.traces
        value = self.constant + 0.5 * len(noise) * self.n_pseudo * np.log(self.n_pseudo / self.total)
        value -= 0.5 * (rest * (LOG_2PI + 2.0 * np.log(noise)) + lost / noise**2).sum()
        by_weights = -weights * self.traces * (noise**-2.0).sum()
        by_noise = (lost / noise**2 - rest) / noise
        return float(value), by_weights, by_noise[:, None][:, : parameters.shape[1]]


def landmark_features(bank: Any, counts: Sequence[int] | None = None) -> Features:
    """Return the features of all kernels of a bank with landmarks.

    Parameters
    ----------
    bank : KernelBank
        Fitted.
    counts : sequence of int, of length n_kernels, optional
        How many of the first landmarks every kernel has; None: all of them.

    Raises
    ------
    numpy.linalg.LinAlgError
        With the position of a kernel that is not positive semidefinite.
    """
    found = []
    for m, kernel in enumerate(bank.evaluate(bank.basis_)):
        if counts is not None:
            kernel = kernel[: counts[m], : counts[m]]
        values, vectors = np.linalg.eigh(0.5 * (kernel + kernel.T))
        largest = max(values[-1], -values[0])
        if -values[0] > 1e-6 * max(largest, np.finfo(float).tiny):
            raise np.linalg.LinAlgError(m)
        kept = values > max(LEAST_EIGENVALUE * largest, np.finfo(float).tiny)
        found.append(vectors[:, kept] / np.sqrt(values[kept]))
    return Features(tuple(found))


def allot(bank: Any, scales: np.ndarray, total: int) -> list[int]:
    r"""Return how many landmarks every kernel has, of so many in total.

    What landmarks explain of a kernel's part is about the largest eigenvalues of its matrix over all landmarks, times
    the prior variance of the part: each landmark goes where the next eigenvalue is the largest.

    Parameters
    ----------
    bank : KernelBank
    scales : ndarray of shape (n_kernels,)
        Factors of kernels in the prior covariance.
    total : int
        At least `LEAST_LANDMARKS` for each kernel.
    """
    n_landmarks = len(bank.basis_)
    least = min(LEAST_LANDMARKS, n_landmarks)
    values = np.array([np.linalg.eigvalsh(kernel)[::-1] for kernel in bank.evaluate(bank.basis_)])
    values = np.maximum(values, 0.0)[:, least:] * scales[:, None]
    chosen = np.argsort(-values, axis=None, kind="stable")[: max(total - least * len(scales), 0)]
    more = np.bincount(chosen // max(values.shape[1], 1), minlength=len(scales))
    return (least + more).tolist()


def feature_blocks(bank: Any, features: Features, X: Any) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Go through samples, a block at a time: which, their features, and their similarities to themselves.

    Parameters
    ----------
    bank : KernelBank
    features : Features
        Of the bank.
    X : ndarray of shape (n_samples, n_columns)
        Validated samples.

    Yields
    ------
    rows : slice
    block : ndarray of shape (n_rows, n_features)
    diagonal : ndarray of shape (n_kernels, n_rows)
    """
    size = max(1, BLOCK_ENTRIES // sum(features.counts))
    for first in range(0, len(X), size):
        rows = slice(first, min(first + size, len(X)))
        yield rows, *features.of(bank, X[rows])


class Sums:
    """Sums over samples, to which blocks of them are added.

    Parameters
    ----------
    features : Features
    n_outputs : int

    Attributes
    ----------
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

    def __init__(self, features: Features, n_outputs: int) -> None:
        self._upper = np.zeros((features.size, features.size), order="F")
        self.products, self.squares = np.zeros((n_outputs, features.size)), np.zeros(n_outputs)
        self.diagonal, self.n_samples, self.total = np.zeros(len(features.whitening)), 0, 0.0

    def add(
        self, block: np.ndarray, diagonal: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Add a block of samples; targets are (n_outputs, n_rows), weights (n_rows,) or all one."""
        self.n_samples += len(block)
        self.total += float(len(block) if weights is None else weights.sum())
        if weights is not None:
            root = np.sqrt(weights)
            block, targets, diagonal = block * root[:, None], targets * root, diagonal * weights
        self._upper = dsyrk(1.0, block.T, beta=1.0, c=self._upper, overwrite_c=True)
        self.products += targets @ block
        self.squares += (targets**2).sum(axis=1)
        self.diagonal += diagonal.sum(axis=1)

    @property
    def gram(self) -> np.ndarray:
        """Products of features, of which the first is a constant, (n_features, n_features)."""
        upper = np.triu(self._upper)
        return upper + np.triu(upper, 1).T


def gather(bank: Any, features: Features, X: Any, targets: np.ndarray) -> Sums:
    """Sum over samples, a block at a time.

    Parameters
    ----------
    bank : KernelBank
    features : Features
        Of the bank.
    X : ndarray of shape (n_samples, n_columns)
        Validated samples.
    targets : ndarray of shape (n_outputs, n_samples)
    """
    sums = Sums(features, len(targets))
    for rows, block, diagonal in feature_blocks(bank, features, X):
        sums.add(block, diagonal, targets[:, rows])
    return sums


def pseudo_samples(
    features: Features, found: Sums, units: np.ndarray | None = None
) -> tuple[PseudoSamples, np.ndarray, Remainder]:
    """Return pseudo-samples, their targets, (n_outputs, n_pseudo), and what their evidence lacks.

    Parameters
    ----------
    features : Features
    found : Sums
    units : ndarray of shape (n_kernels,), optional
        Of the kernels; None: those of the samples as they are weighted.
    """
    columns, total, gram = features.columns, found.total, found.gram
    traces = np.array([np.trace(gram[own, own]) for own in columns])
    scale = np.ones(features.size)  # so that all kernels are alike
    for own, similarity in zip(columns, found.diagonal, strict=True):
        scale[own] = np.sqrt(total / max(similarity, np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
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
    loadings *= np.sqrt(n_pseudo / total)
    rest = np.maximum(found.diagonal - traces, 0.0)
    mean = np.array([(loadings[:, own].mean(axis=0) ** 2).sum() for own in columns])
    diagonal = found.diagonal / total
    variance = diagonal - mean
    if units is None:
        units = np.where(variance > CONSTANT * np.abs(diagonal), variance, np.inf)
    pseudo = PseudoSamples(features, loadings, units, total / n_pseudo)
    remainder = Remainder(n_pseudo, found.n_samples, total, squares, rest / units, rest / units / total)
    return pseudo, targets * np.sqrt(n_pseudo / total), remainder


def between_weights(equal: PseudoSamples, weighted: PseudoSamples) -> np.ndarray:
    """Return what turns functions at weighted pseudo-samples into those at pseudo-samples of equal weight.

    Parameters
    ----------
    equal, weighted : PseudoSamples
        Of the same samples.

    Returns
    -------
    ndarray of shape (n_equal, n_weighted)
    """
    size = np.sqrt((equal.loadings**2).mean(axis=0))
    size = np.where(size > 0.0, size, 1.0)
    found: np.ndarray = np.linalg.lstsq((weighted.loadings / size).T, (equal.loadings / size).T)[0]
    return found.T
