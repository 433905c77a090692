r"""Kernels that LibSVM evaluates itself, from samples: SVMs on them form no kernel matrix, or a small one.

Gaussian, polynomial, linear and cosine kernels are native. So are their normalizations, after a map of the features:
the spherical polynomial kernel is

.. math:: \frac{(x^\top z + c)^q}{\sqrt{(x^\top x + c)^q (z^\top z + c)^q}} = (\tilde x^\top \tilde z)^q,
   \qquad \tilde x = \frac{(x, \sqrt c)}{\sqrt{x^\top x + c}} ,

the linear one is that of rows of length one, and a factor :math:`s` of a polynomial kernel goes into its features as
:math:`s^{1/2q}`. Features of Gaussian kernels are moved to their mean, which changes no distance and saves digits.
Centered kernels are not native.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import SVC, SVR

from bayesmkl.discriminative.svm.libsvm import MOST_INTERIOR, libsvm_limits, train
from bayesmkl.discriminative.svm.one_kernel import (
    SVM,
    PrecomputedKernel,
    constant_svm,
    one_class,
    row_blocks,
)
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.functions import Cosine, Gaussian, Linear, Polynomial
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.normalize import Normalizer, Spherical, Trace
from bayesmkl.kernels.sparse import is_sparse


class FeatureMap(NamedTuple):
    """Map from samples to the features that LibSVM sees.

    Parameters
    ----------
    columns : ndarray of shape (n_view,)
        Columns of the samples that are used.
    center : ndarray of shape (n_view,)
        Subtracted first.
    constant : float
        Square of a constant feature that is appended; 0 appends none.
    spherical : bool
        Whether rows are then scaled to length one; rows of zeros stay.
    factor : float
        By which everything is multiplied in the end.
    """

    columns: np.ndarray
    center: np.ndarray
    constant: float = 0.0
    spherical: bool = False
    factor: float = 1.0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Map samples of shape (n_rows, n_features); C-contiguous."""
        features = np.ascontiguousarray(X[:, self.columns] - self.center)
        if self.constant > 0.0:
            features = np.hstack([features, np.full((len(X), 1), np.sqrt(self.constant))])
        if self.spherical:
            lengths = np.sqrt(_finite(np.einsum("ij,ij->i", features, features)))[:, None]
            features = np.divide(features, lengths, out=np.zeros_like(features), where=lengths > 0.0)
        return features * self.factor if self.factor != 1.0 else features


class NativeKernel(NamedTuple):
    r"""A kernel of LibSVM on mapped features.

    SVMs of up to 2000 samples are trained on their kernel matrix, which takes little memory and no more time.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Polynomial or Linear, of mapped features.
    parameters : mapping
        The same for LibSVM.
    feature_map : FeatureMap
        For samples to come.
    features : ndarray of shape (n_train, n_features)
        Mapped training samples.
    """

    kernel: Kernel
    parameters: Mapping[str, Any]
    feature_map: FeatureMap
    features: np.ndarray

    @property
    def training_rows(self) -> np.ndarray:
        """Mapped training samples."""
        return self.features

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Return the rows of samples, shape (n_rows, n_columns of the training data)."""
        return self.feature_map(X)

    def classify(self, target: np.ndarray, C: float, tol: float, subset: np.ndarray | None = None) -> SVM:
        """Train a support vector classifier; see `OneKernel`."""
        index = np.arange(len(target)) if subset is None else subset
        if one_class(target[index]):
            return constant_svm(float(target[index[0]]))
        if len(index) <= MOST_INTERIOR:
            svm = self._formed(index).classify(target[index], C, tol)
            return svm._replace(support=index[svm.support])
        return self._train(SVC(C=C, **self.parameters, **libsvm_limits(len(index), tol)), target, index)

    def regress(
        self, target: np.ndarray, C: float, epsilon: float, tol: float, subset: np.ndarray | None = None
    ) -> SVM:
        """Train support vector regression; see `OneKernel`."""
        index = np.arange(len(target)) if subset is None else subset
        if len(index) <= MOST_INTERIOR:
            svm = self._formed(index).regress(target[index], C, epsilon, tol)
            return svm._replace(support=index[svm.support])
        machine = SVR(C=C, epsilon=epsilon, **self.parameters, **libsvm_limits(len(index), tol))
        return self._train(machine, target, index)

    def block(self, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
        """Return kernel values of mapped rows against training samples, (n_rows, n_columns)."""
        geometry = PairwiseGeometry(rows, self.features[columns])
        values = np.empty(geometry.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            self.kernel.evaluate(geometry, values)
        return _finite(values)

    def product(self, rows: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return ``block(rows, columns) @ coef``, block by block."""
        out = np.empty(len(rows))
        for part in row_blocks(len(rows), len(columns)):
            out[part] = self.block(rows[part], columns) @ coef
        return out

    def diagonal(self) -> np.ndarray:
        """Return k(x, x) of the training samples, (n_train,)."""
        return self.kernel.diagonal(self.features)

    def _formed(self, index: np.ndarray) -> PrecomputedKernel:
        return PrecomputedKernel(self.block(self.features[index], index))

    def _train(self, svm: SVC | SVR, target: np.ndarray, index: np.ndarray) -> SVM:
        signed_dual, intercept = train(svm, self.features[index], target[index])
        support = np.flatnonzero(signed_dual)
        return SVM(index[support], signed_dual[support], intercept)


def _finite(values: np.ndarray) -> np.ndarray:
    """Check that no feature overflowed."""
    if not np.isfinite(values).all():
        raise ValueError(
            "`X`: the values of a kernel are not all finite. Scale the features, or lower a polynomial degree."
        )
    return values


def native_kernel(
    kernel: Kernel,
    X: np.ndarray,
    columns: np.ndarray | slice = slice(None),
    normalizers: Sequence[Normalizer] = (),
) -> NativeKernel | None:
    """Return a kernel in LibSVM's form, or None if it has none.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Polynomial, Linear and Cosine have a native form.
    X : ndarray of shape (n_train, n_features)
        Training samples.
    columns : ndarray of shape (n_view,) or slice
        The columns that the kernel sees.
    normalizers : sequence of Spherical, Trace or Center
        Fitted ones, in the order in which they apply; centered kernels have no native form.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, Laplacian
    >>> X = np.array([[-1.0], [0.0], [2.0]])
    >>> native = native_kernel(Gaussian(width=1.0), X)
    >>> svm = native.classify(np.array([-1.0, -1.0, 1.0]), C=1.0, tol=1e-3)
    >>> svm.support
    array([0, 1, 2])
    >>> native_kernel(Laplacian(), X) is None
    True
    """
    factor, spherical = 1.0, False
    for normalizer in normalizers:
        if isinstance(normalizer, Spherical):
            factor, spherical = 1.0, True
        elif isinstance(normalizer, Trace):
            factor *= normalizer.scale
        else:
            return None
    positions = np.arange(X.shape[1])[columns]
    parameters: dict[str, Any]
    if type(kernel) is Gaussian:  # similarities to oneself are one: only `Trace` may change them
        if factor != 1.0:
            return None
        mapped = FeatureMap(positions, X[:, positions].mean(axis=0))
        parameters = {"kernel": "rbf", "gamma": kernel.factor}
        return NativeKernel(kernel, parameters, mapped, mapped(X))
    degree, offset = 1, 0.0
    if type(kernel) is Polynomial:
        degree, offset = int(kernel.degree), float(kernel.offset)
    elif type(kernel) not in (Linear, Cosine):
        return None
    spherical = spherical or type(kernel) is Cosine
    if factor < 0.0 or (spherical and offset < 0.0):
        return None
    scale = factor ** (1.0 / degree)
    constant, offset = (offset, 0.0) if spherical else (0.0, scale * offset)
    mapped = FeatureMap(positions, np.zeros(len(positions)), constant, spherical, np.sqrt(scale))
    if type(kernel) is not Polynomial:
        return NativeKernel(Linear(), {"kernel": "linear"}, mapped, mapped(X))
    parameters = {"kernel": "poly", "gamma": 1.0, "degree": degree, "coef0": offset}
    return NativeKernel(Polynomial(degree, offset), parameters, mapped, mapped(X))


def native_kernels(bank: KernelBank) -> tuple[NativeKernel, ...] | None:
    """Return the kernels of a fitted bank in LibSVM's form, or None if one of them has none.

    Kernels that see the same features share them.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, KernelBank, Polynomial
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> bank = KernelBank([Gaussian(width=2), Polynomial(degree=2)], normalize="spherical").fit(X)
    >>> kernels = native_kernels(bank)
    >>> values = kernels[1].block(kernels[1].rows(X[:5]), slice(None))
    >>> bool(abs(values - bank.row_stack(X[:5])[1]).max() < 1e-12)
    True
    """
    natives: list[NativeKernel] = []
    if is_sparse(bank.X_train_) or bank.scales_ is not None:
        return None
    for m, (kernel, normalizers) in enumerate(zip(bank.kernels_, bank.normalizers_, strict=True)):
        native = native_kernel(kernel, bank.X_train_, bank.columns_seen(m), normalizers)
        if native is None:
            return None
        same = [other.features for other in natives if _same_map(other.feature_map, native.feature_map)]
        natives.append(native._replace(features=same[0]) if same else native)
    return tuple(natives)


def _same_map(one: FeatureMap, other: FeatureMap) -> bool:
    return (
        np.array_equal(one.columns, other.columns)
        and np.array_equal(one.center, other.center)
        and one[2:] == other[2:]
    )
