r"""Kernel alignment with a target and between kernels, and Frobenius products.

With :math:`\langle K, K' \rangle_F = \sum_{ij} K_{ij} K'_{ij}` and the centering matrix :math:`H = I - 11^\top/N`:

* polarization of a kernel, :math:`y^\top K y / N^2` (Baram 2005);
* alignment of two kernels, the cosine :math:`\langle K, K' \rangle_F / (\|K\|_F \|K'\|_F)`, in particular with
  :math:`K' = yy^\top` (Cristianini et al. 2001), and the same of :math:`HKH` (Cortes, Mohri and Rostamizadeh 2012);
* the empirical optimal kernel of several kernels, their largest entries within and their smallest between classes
  (Wang et al. 2014, eq. 8).

All Frobenius products of a stack are one matrix product of its upper triangles, :math:`P^2 N^2 / 2` multiplications.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.warnings import warn_user
from bayesmkl.kernels.geometry import mean_row
from bayesmkl.kernels.normalize import Center
from bayesmkl.kernels.quality import LOST, KernelQualityWarning
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["centered_alignment", "empirical_optimal_kernel", "kernel_alignment", "kernel_polarization"]

# Bytes of upper triangles that one matrix product takes at a time: enough for full speed, little beside a stack.
CHUNK_BYTES = 2**26

ALIGNMENT = entries(
    """
    kernels : array-like of shape (n_samples, n_samples) or (n_samples, n_samples, n_kernels)
        Training kernels, as `KernelBank` returns them.
    target : array-like of shape (n_samples,) or (n_samples, n_samples)
        Labels -1 and +1 or real numbers :math:`y`, or another symmetric matrix :math:`T`.
    ValueError
        If `kernels` does not have one of these shapes or is not finite, or `target` does not belong to the same
        samples or is not finite.
    KernelQualityWarning
        If centering leaves few digits of a kernel, as of a linear kernel of features far from zero.
    """
)


@fill_docs(ALIGNMENT)
def kernel_polarization(kernels: ArrayLike | DenseStack, target: Targets) -> Any:
    r"""Return the polarization of one kernel, or of every kernel of a stack.

    .. math:: P(K) = \frac{1}{N^2} \sum_{ij} y_i y_j K_{ij}

    Parameters
    ----------
    %(kernels)s
    target : array-like of shape (n_samples,)
        Labels -1 and +1, or real numbers.

    Returns
    -------
    float, or ndarray of shape (n_kernels,)
        Of one kernel, or of each of the last axis.

    Raises
    ------
    %(ValueError)s

    References
    ----------
    Y. Baram (2005), Learning by kernel polarization, Neural Computation.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, 1.0, -1.0])
    >>> kernel_polarization(np.outer(y, y), y)
    1.0
    """
    stack, single = _stack_of(kernels)
    y = _numbers("target", target, stack.n_train)
    values = stack.quadratic(y) / stack.n_train**2
    return float(values[0]) if single else values


@fill_docs(ALIGNMENT)
def kernel_alignment(kernels: ArrayLike | DenseStack, target: Targets, center: bool = False) -> Any:
    r"""Return the alignment of one kernel, or of every kernel of a stack, with a target.

    .. math:: A(K, T) = \frac{\langle K, T \rangle_F}{\|K\|_F \, \|T\|_F}, \qquad T = yy^\top \text{ or a kernel}

    Parameters
    ----------
    %(kernels)s
    %(target)s
    center : bool, default=False
        Center both, :math:`HKH` and :math:`HTH`.

    Returns
    -------
    float, or ndarray of shape (n_kernels,)
        Between -1 and 1, from 0 up for positive semidefinite kernels; 0 for a kernel or a target of zeros.

    Raises
    ------
    %(ValueError)s

    Warns
    -----
    %(KernelQualityWarning)s

    References
    ----------
    N. Cristianini, J. Shawe-Taylor, A. Elisseeff and J. Kandola (2001), On kernel-target alignment, NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])
    >>> kernel_alignment(np.stack([np.outer(y, y), np.eye(4)], axis=-1), y)
    array([1. , 0.5])
    """
    stack, single = _stack_of(kernels)
    if center and (lost := centering_errors(stack)).max() > LOST:
        warn_user(
            f"centering leaves few digits of kernel {lost.argmax()}, nearly all of which is common to all samples. "
            'Center the features, or let `KernelBank(normalize="center")` do it.',
            KernelQualityWarning,
        )
    if np.ndim(target) == 1:
        y = _numbers("target", target, stack.n_train)[None]
        products = target_products(stack, y, center)
        length = float(((y - y.mean() if center else y) ** 2).sum())
    else:
        matrix = _stack_of(target, "target")[0]
        _check_size(matrix.n_train, stack.n_train)
        other = _centered(matrix.kernels[0]) if center else matrix.kernels[0]
        products, length = stack.frobenius(other), float(np.linalg.norm(other))
    values = _ratio(products, frobenius_norms(stack, center) * length)
    return float(values[0]) if single else values


@fill_docs(ALIGNMENT)
def centered_alignment(kernels: ArrayLike | DenseStack, target: Targets) -> Any:
    r"""Return the centered alignment of one kernel, or of every kernel of a stack, with a target.

    .. math:: A(HKH, HTH), \qquad H = I - 11^\top/N, \quad T = yy^\top \text{ or a kernel}

    Parameters
    ----------
    %(kernels)s
    %(target)s

    Returns
    -------
    float, or ndarray of shape (n_kernels,)
        Between -1 and 1; from 0 up for positive semidefinite kernels and a vector `target`.

    Raises
    ------
    %(ValueError)s

    Warns
    -----
    %(KernelQualityWarning)s

    Notes
    -----
    Without centering, a constant added to a kernel changes its alignment, and unequal classes align everything with a
    constant kernel.

    References
    ----------
    C. Cortes, M. Mohri and A. Rostamizadeh (2012), Algorithms for learning kernels based on centered alignment, JMLR.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([1.0, 1.0, 1.0, -1.0])
    >>> float(round(centered_alignment(np.outer(y, y) + 5.0, y), 12))
    1.0
    """
    return kernel_alignment(kernels, target, center=True)


def empirical_optimal_kernel(kernels: ArrayLike | DenseStack, y: Targets) -> np.ndarray:
    r"""Return the entrywise best of several kernels, given the labels.

    .. math:: [K_{opti}]_{ij} = \begin{cases} \max_m [K_m]_{ij} & y_i = y_j \\ \min_m [K_m]_{ij} & y_i \ne y_j
              \end{cases}

    Parameters
    ----------
    kernels : array-like of shape (n_samples, n_samples, n_kernels)
        Training kernels, as `KernelBank` returns them.
    y : array-like of shape (n_samples,)
        Labels of any number of classes.

    Returns
    -------
    ndarray of shape (n_samples, n_samples)
        Symmetric where the kernels are.

    Raises
    ------
    ValueError
        If `kernels` does not have one of these shapes or is not finite, or `y` does not belong to the same samples.

    Notes
    -----
    Eq. 8 of Wang et al. (2014). Its polarization is an upper bound for every convex combination of the kernels, which
    none of them attains in general. The paper calls it a valid kernel; it is indefinite in general, and serves as a
    target only: no classifier should be trained on it.

    References
    ----------
    P. Wang et al. (2014), Empirical optimal kernel for convex multiple kernel learning, WCECS.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = np.stack([np.eye(2), np.full((2, 2), 0.5)], axis=-1)
    >>> empirical_optimal_kernel(kernels, ["a", "b"])
    array([[1., 0.],
           [0., 1.]])
    """
    stack, _ = _stack_of(kernels)
    labels = np.asarray(y)
    _check_size(labels.size, stack.n_train, "y")
    return optimal_entries(*entrywise_bounds(stack), labels[:, None] == labels)


def entrywise_bounds(stack: Stack) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest kernel value of every pair, shapes (n_rows, n_train)."""
    kernels = stack.columns(slice(None))
    return kernels.min(axis=0), kernels.max(axis=0)


def optimal_entries(lowest: np.ndarray, highest: np.ndarray, same_class: np.ndarray) -> np.ndarray:
    """Return the empirical optimal kernel from `entrywise_bounds` and a boolean matrix of equal classes."""
    return np.where(same_class, highest, lowest)


def target_products(
    stack: Stack,
    targets: np.ndarray,
    center: bool = False,
    sample_weights: np.ndarray | None = None,
) -> np.ndarray:
    r"""Return :math:`\langle K_m, \sum_c y_c y_c^\top \rangle_F` for every kernel, shape (n_kernels,).

    Parameters
    ----------
    stack : Stack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
    center : bool, default=False
        Of the centered kernels, that is, for centered targets.
    sample_weights : ndarray of shape (n_samples,), optional
        How often each sample counts: pairs do by the product of two of them, :math:`\sum_{ij} w_i w_j [K_m]_{ij} y_i
        y_j`.

    Examples
    --------
    >>> import numpy as np
    >>> target_products(DenseStack(np.ones((1, 2, 2))), np.array([[1.0, 3.0]]))
    array([16.])
    """
    vectors = targets - mean_row(targets.T, sample_weights)[:, None] if center else targets
    if sample_weights is not None:
        vectors = vectors * sample_weights
    return np.sum([stack.quadratic(vector) for vector in vectors], axis=0)


def centering_errors(stack: Stack) -> np.ndarray:
    """Bound the rounding errors of centered kernels, in units of their mean self-similarity, shape (n_kernels,).

    See `KernelBank.centering_errors`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> bool(centering_errors(DenseStack(np.outer(x, x)[None] + 1e9)) > 1e-7)
    True
    """
    kernels = stack.columns(slice(None))
    return np.array([Center.fit(kernel.__getitem__, kernel.diagonal()).lost for kernel in kernels])


def frobenius_norms(
    stack: Stack, center: bool = False, sample_weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the Frobenius norm of every kernel, centered if `center`, shape (n_kernels,).

    Samples count as often as `sample_weights`, (n_samples,), say; None is once.
    """
    roots = None if sample_weights is None else np.sqrt(sample_weights)
    norms = []
    for kernel in stack.each():
        entries = _centered(kernel, sample_weights) if center else kernel
        norms.append(np.linalg.norm(entries if roots is None else roots[:, None] * entries * roots))
    return np.array(norms, dtype=np.float64)


def frobenius_gram(
    stack: Stack, center: bool = False, sample_weights: np.ndarray | None = None
) -> np.ndarray:
    r"""Return all Frobenius products of the kernels, :math:`M_{mh} = \langle K_m, K_h \rangle_F`.

    Parameters
    ----------
    stack : Stack
        Symmetric training kernels.
    center : bool, default=False
        Of the centered kernels :math:`HKH`.
    sample_weights : ndarray of shape (n_samples,), optional
        How often each sample counts: pairs do by the product of two of them, :math:`M_{mh} = \sum_{ij} w_i w_j
        [K_m]_{ij} [K_h]_{ij}`, and means by which kernels are centered have these weights.

    Returns
    -------
    ndarray of shape (n_kernels, n_kernels)

    Notes
    -----
    Rows of `CHUNK_BYTES` are multiplied at a time. Centering subtracts from the entries, not from the products, where
    nearly constant kernels would leave only rounding errors.

    Examples
    --------
    >>> import numpy as np
    >>> frobenius_gram(DenseStack(np.stack([np.eye(2), np.ones((2, 2))])))
    array([[2., 2.],
           [2., 4.]])
    """
    kernels = stack.columns(slice(None))
    if center:
        means = _means(kernels, sample_weights)
        around = means - _means(means, sample_weights)[:, None]
    roots = None if sample_weights is None else np.sqrt(sample_weights)
    gram, step = np.zeros((len(kernels), len(kernels))), max(1, CHUNK_BYTES // kernels[:, 0].nbytes)
    for rows in (slice(first, first + step) for first in range(0, stack.n_train, step)):
        part = kernels[:, rows]
        if center:
            part = part - around[:, rows, None] - means[:, None]
        if roots is not None:
            part = part * np.multiply.outer(roots[rows], roots)
        part = part.reshape(len(kernels), -1)
        gram += part @ part.T
    return gram


def _centered(kernel: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    means = _means(kernel, weights)
    return kernel - (means - _means(means, weights))[:, None] - means


def _means(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return means over the last axis, the samples."""
    return values.mean(axis=-1) if weights is None else values @ (weights / weights.sum())


def _ratio(products: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Divide, with 0/0 := 0."""
    return np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)


def _stack_of(kernels: ArrayLike | DenseStack, name: str = "kernels") -> tuple[DenseStack, bool]:
    """Return a stack, kernels first, and whether it is a single kernel without a third axis."""
    array = np.asarray(kernels, dtype=np.float64)
    if array.ndim not in (2, 3) or array.shape[0] != array.shape[1] or array.size == 0:
        raise ValueError(
            f"`{name}` must have shape (n_samples, n_samples) or (n_samples, n_samples, n_kernels); "
            f"got {array.shape}. The axis of the kernels is the last one."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite; got NaN or infinity. Leave out or impute missing values.")
    first = np.moveaxis(array, -1, 0) if array.ndim == 3 else array[None]
    return DenseStack(np.ascontiguousarray(first)), array.ndim == 2


def _numbers(name: str, values: ArrayLike, size: int) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError(
            f"`{name}` must hold finite numbers, one per sample; got {array.dtype} of shape {array.shape}. "
            "Encode labels as -1 and +1."
        )
    _check_size(array.size, size, name)
    return array.astype(np.float64)


def _check_size(found: int, expected: int, name: str = "target") -> None:
    if found != expected:
        raise ValueError(
            f"`{name}` must belong to the {expected} samples of `kernels`; got {found}. Use the training samples."
        )
