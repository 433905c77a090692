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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import SVC, SVR

from bayesmkl.discriminative.svm.libsvm import (
    MOST_POLISHED,
    POLISHED_BELOW,
    BoxProblem,
    classification_box,
    classification_limits,
    libsvm_limits,
    regression_box,
    regression_limits,
    settled,
    train,
)
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

    Parameters
    ----------
    kind : {"rbf", "poly", "linear"}
    gamma : float
        Of the Gaussian :math:`\exp(-\gamma \|x - z\|^2)`.
    degree : int
        Of the polynomial :math:`(x^\top z + c)^q`.
    offset : float
        :math:`c`.
    feature_map : FeatureMap
        For samples to come.
    features : ndarray of shape (n_train, n_features)
        Mapped training samples.
    """

    kind: str
    gamma: float
    degree: int
    offset: float
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
        if (dense := self._dense(index, tol)) is not None:
            return _at(index, dense.classify(target[index], C, tol))
        svm = SVC(C=C, **self._parameters(), **libsvm_limits(len(index), tol))
        box = lambda rows: classification_box(self.block(rows, index), target[index], C)
        limits = lambda scores, v: classification_limits(scores, target[index], v)
        return self._train(svm, target, index, subset, box, limits)

    def regress(
        self, target: np.ndarray, C: float, epsilon: float, tol: float, subset: np.ndarray | None = None
    ) -> SVM:
        """Train support vector regression; see `OneKernel`."""
        index = np.arange(len(target)) if subset is None else subset
        if (dense := self._dense(index, tol)) is not None:
            return _at(index, dense.regress(target[index], C, epsilon, tol))
        svm = SVR(C=C, epsilon=epsilon, **self._parameters(), **libsvm_limits(len(index), tol))
        box = lambda rows: regression_box(self.block(rows, index), target[index], C, epsilon)
        limits = lambda scores, v: regression_limits(scores, target[index], v, epsilon)
        return self._train(svm, target, index, subset, box, limits)

    def block(self, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
        """Return kernel values of mapped rows against training samples, (n_rows, n_columns)."""
        others = self.features[columns]
        values = rows @ others.T
        if self.kind == "rbf":
            values *= -2.0
            values += np.einsum("ij,ij->i", rows, rows)[:, None]
            values += np.einsum("ij,ij->i", others, others)
            np.maximum(values, 0.0, out=values)
            values *= -self.gamma
            return np.exp(values, out=values)
        if self.kind == "poly":
            values += self.offset
            with np.errstate(over="ignore"):
                np.power(values, self.degree, out=values)
        return _finite(values)

    def product(self, rows: np.ndarray, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return ``block(rows, columns) @ coef``, block by block."""
        if self.kind == "linear":
            return rows @ (coef @ self.features[columns])
        out = np.empty(len(rows))
        for part in row_blocks(len(rows), len(columns)):
            out[part] = self.block(rows[part], columns) @ coef
        return out

    def diagonal(self) -> np.ndarray:
        """Return k(x, x) of the training samples, (n_train,)."""
        squares = np.einsum("ij,ij->i", self.features, self.features)
        if self.kind == "rbf":
            return np.ones(len(squares))
        return (squares + self.offset) ** self.degree

    def _parameters(self) -> dict[str, Any]:
        return {
            "kernel": self.kind,
            "gamma": self.gamma,
            "degree": self.degree,
            "coef0": self.offset,
        }

    def _dense(self, index: np.ndarray, tol: float) -> PrecomputedKernel | None:
        """Return the matrix of a few samples for tolerances that LibSVM's single precision does not reach."""
        if tol > POLISHED_BELOW or len(index) > MOST_POLISHED:
            return None
        return PrecomputedKernel(self.block(self.features[index], index))

    def _train(
        self,
        svm: SVC | SVR,
        target: np.ndarray,
        index: np.ndarray,
        subset: np.ndarray | None,
        box: Callable[[np.ndarray], BoxProblem],
        limits: Callable[[np.ndarray, np.ndarray], list[np.ndarray]],
    ) -> SVM:
        features = self.features if subset is None else self.features[index]
        signed_dual, intercept = settled(
            *train(svm, features, target[index], lambda: box(features)),
            svm.C,
            lambda v: limits(self.product(features, index, v), v),
        )
        support = np.flatnonzero(signed_dual)
        return SVM(index[support], signed_dual[support], intercept)


def _finite(values: np.ndarray) -> np.ndarray:
    """Check that no feature overflowed."""
    if not np.isfinite(values).all():
        raise ValueError(
            "`X`: the values of a kernel are not all finite. Scale the features, or lower a polynomial degree."
        )
    return values


def _at(index: np.ndarray, svm: SVM) -> SVM:
    return svm._replace(support=index[svm.support])


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
    if type(kernel) is Gaussian:
        return _native_gaussian(kernel, X, positions) if factor == 1.0 else None
    if type(kernel) is Polynomial:
        degree, offset = int(kernel.degree), float(kernel.offset)
    elif type(kernel) in (Linear, Cosine):
        degree, offset, spherical = 1, 0.0, spherical or type(kernel) is Cosine
    else:
        return None
    if factor < 0.0 or (spherical and offset < 0.0):
        return None
    scale = factor ** (1.0 / degree)
    constant = offset if spherical else 0.0
    mapped = FeatureMap(positions, np.zeros(len(positions)), constant, spherical, np.sqrt(scale))
    kind = "poly" if type(kernel) is Polynomial else "linear"
    return NativeKernel(kind, 1.0, degree, 0.0 if spherical else scale * offset, mapped, mapped(X))


def _native_gaussian(kernel: Gaussian, X: np.ndarray, positions: np.ndarray) -> NativeKernel:
    """Similarities to oneself are one already: neither normalization changes them."""
    mapped = FeatureMap(positions, X[:, positions].mean(axis=0))
    return NativeKernel("rbf", kernel.factor, 1, 0.0, mapped, mapped(X))


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
    if is_sparse(bank.X_train_):
        return None
    for m, (kernel, normalizers) in enumerate(zip(bank.kernels_, bank.normalizers_, strict=True)):
        native = native_kernel(
            kernel, bank.X_train_, bank.views_[bank.view_positions_[m]].columns, normalizers
        )
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
