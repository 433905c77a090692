"""Sums over derivatives of kernels by features, with their normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesmkl.kernels.base import Kernel, SlopeForms
from bayesmkl.kernels.geometry import PairwiseGeometry, mean_row
from bayesmkl.kernels.normalize import (
    Center,
    Normalizer,
    Spherical,
    Trace,
    inverse_root,
    normalized_kernel,
)


class Slopes(Protocol):
    r"""Contract of sums over derivatives of a kernel between `n_rows` rows and `n_train` training samples.

    Of a Gaussian process :math:`f` with the kernel :math:`k` a derivative is one of a linear map,

    .. math:: \operatorname{Cov}(\partial_j f(x), f(z)) = \partial_{x_j} k(x, z), \qquad
        \operatorname{Cov}(\partial_j f(x), \partial_j f(x')) = \partial_{x_j} \partial_{x'_j} k(x, x') .

    What is asked for are sums over rows or training samples, of all features at once; with `SlopeForms` these are
    products of matrices. Normalizations are maps of functions: a factor, :math:`f - \sum_i p_i f(z_i)`, whose
    derivative is that of :math:`f`, and :math:`f / \sqrt{k(x, x)}`, by the rule of the quotient.
    """

    values: np.ndarray  # the kernel itself, (n_rows, n_train)
    own_values: np.ndarray  # between rows, (n_rows, n_rows)

    def over_rows(self, factors: np.ndarray) -> np.ndarray:
        r"""Return :math:`\sum_r q_r \partial_j k(x_r, z_i)`, (n_train, n_features)."""
        ...

    def over_own_rows(self, factors: np.ndarray) -> np.ndarray:
        r"""Return :math:`\sum_r q_r \partial_j k(x_r, x_s)`, the derivative by the first, (n_rows, n_features)."""
        ...

    def over_train(self, factors: np.ndarray) -> np.ndarray:
        r"""Return :math:`\sum_i a_i \partial_j k(x_r, z_i)`, (n_rows, n_features)."""
        ...

    def variance(self, factors: np.ndarray) -> np.ndarray:
        r"""Return the variance of :math:`\sum_r q_r \partial_j f(x_r)`, (n_features,)."""
        ...

    def of_diagonal(self) -> np.ndarray:
        r"""Return :math:`\partial_j k(x_r, x_r)`, (n_rows, n_features)."""
        ...


def normalized_slopes(
    kernel: Kernel, normalizers: Sequence[Normalizer], between: PairwiseGeometry, own: PairwiseGeometry
) -> Slopes | None:
    """Return sums over derivatives of a kernel with its normalizers.

    Parameters
    ----------
    kernel : Kernel
        Fitted.
    normalizers : sequence of Normalizer
        Fitted, in the order in which they are applied.
    between : PairwiseGeometry
        Rows, and training samples.
    own : PairwiseGeometry
        Rows with themselves; the same object where rows are the training samples.

    Returns
    -------
    Slopes or None
        None of a kernel that has no `slope_forms`.
    """
    forms = kernel.slope_forms(between)
    own_forms = forms if own is between else kernel.slope_forms(own)
    if forms is None or own_forms is None:
        return None
    moved = normalized_kernel(kernel, list(normalizers))  # what it differs by is gone after centering
    found: Slopes = _Plain(moved, between, own, forms, own_forms)
    for normalizer in normalizers:
        if isinstance(normalizer, Trace):
            found = Scaled(found, normalizer.scale)
        elif isinstance(normalizer, Center):
            found = _Centered(found, normalizer)
        else:
            found = _OfUnitLength(found, normalizer)
    return found


class _Plain:
    """A kernel without normalization; where it is going to be centered, its values may have another origin."""

    def __init__(
        self,
        kernel: Kernel,
        between: PairwiseGeometry,
        own: PairwiseGeometry,
        forms: SlopeForms,
        own_forms: SlopeForms,
    ) -> None:
        seen = kernel.of_view(between)
        origin = mean_row(seen.Z) if forms.of_differences else 0.0  # nothing large is subtracted
        self.X, self.Z, self.forms, self.own = seen.X - origin, seen.Z - origin, forms, own_forms
        self.values = np.empty(between.shape)
        kernel.evaluate(between, self.values)
        if own is between:
            self.own_values = self.values
            return
        self.own_values = np.empty(own.shape)
        kernel.evaluate(own, self.own_values)

    def over_rows(self, factors: np.ndarray) -> np.ndarray:
        return _over_first(self.forms, factors, self.X, self.Z)

    def over_own_rows(self, factors: np.ndarray) -> np.ndarray:
        return _over_first(self.own, factors, self.X, self.X)

    def over_train(self, factors: np.ndarray) -> np.ndarray:
        of_x, of_z = (np.broadcast_to(form, self.values.shape) for form in self.forms[:2])
        return self.X * (of_x @ factors)[:, None] + of_z @ (factors[:, None] * self.Z)

    def variance(self, factors: np.ndarray) -> np.ndarray:
        shape, weighted = self.own_values.shape, factors[:, None] * self.X
        constant, product, squares = (np.broadcast_to(form, shape) for form in self.own[2:5])
        found = factors @ constant @ factors + np.einsum("rj,rj->j", weighted, product @ weighted)
        return found + 2.0 * (squares @ factors) @ (weighted * self.X)

    def of_diagonal(self) -> np.ndarray:
        both = np.broadcast_to(self.own.of_x + self.own.of_z, self.own_values.shape)
        return 2.0 * both.diagonal()[:, None] * self.X


class Scaled:
    """A kernel times a number, by columns that are divided by `units`."""

    def __init__(self, of: Slopes, scale: float, units: Any = 1.0) -> None:
        self.of, self.scale, self.factor = of, scale, scale / units
        self.values, self.own_values = of.values * scale, of.own_values * scale

    def over_rows(self, factors: np.ndarray) -> np.ndarray:
        """Return sums over rows."""
        return self.factor * self.of.over_rows(factors)

    def over_own_rows(self, factors: np.ndarray) -> np.ndarray:
        """Return sums over rows of the kernel between rows."""
        return self.factor * self.of.over_own_rows(factors)

    def over_train(self, factors: np.ndarray) -> np.ndarray:
        """Return sums over training samples."""
        return self.factor * self.of.over_train(factors)

    def variance(self, factors: np.ndarray) -> np.ndarray:
        """Return variances of sums over rows."""
        return self.factor**2 / self.scale * self.of.variance(factors)

    def of_diagonal(self) -> np.ndarray:
        """Return derivatives of similarities of rows to themselves."""
        return self.factor * self.of.of_diagonal()


class Flat(NamedTuple):
    """Slopes of a kernel that does not see the features: sums that are zero.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and of training samples.
    n_features : int
    """

    shape: tuple[int, int]
    n_features: int

    def over_rows(self, factors: np.ndarray) -> np.ndarray:
        """Return sums over rows."""
        return np.zeros((self.shape[1], self.n_features))

    def over_train(self, factors: np.ndarray) -> np.ndarray:
        """Return sums over training samples."""
        return np.zeros((self.shape[0], self.n_features))

    def variance(self, factors: np.ndarray) -> np.ndarray:
        """Return variances of sums over rows."""
        return np.zeros(self.n_features)


class _Centered:
    """A kernel whose functions have mean zero over the training samples."""

    def __init__(self, of: Slopes, by: Center) -> None:
        self.of, n_train = of, len(by.column_means)
        self.shares = np.full(n_train, 1.0 / n_train) if by.shares is None else by.shares
        means = of.values @ self.shares
        self.values = of.values - means[:, None] - by.column_means + by.grand_mean
        self.own_values = of.own_values - means[:, None] - means + by.grand_mean

    def over_rows(self, factors: np.ndarray) -> np.ndarray:
        found = self.of.over_rows(factors)
        return found - self.shares @ found

    def over_own_rows(self, factors: np.ndarray) -> np.ndarray:
        return self.of.over_own_rows(factors) - self.shares @ self.of.over_rows(factors)

    def over_train(self, factors: np.ndarray) -> np.ndarray:
        return self.of.over_train(factors - factors.sum() * self.shares)

    def variance(self, factors: np.ndarray) -> np.ndarray:
        return self.of.variance(factors)

    def of_diagonal(self) -> np.ndarray:
        return self.of.of_diagonal() - 2.0 * self.of.over_train(self.shares)


class _OfUnitLength:
    r"""A kernel of :math:`f / \sqrt{k(x, x)}`, whose derivative is :math:`u \partial_j f + v_j f`."""

    def __init__(self, of: Slopes, by: Spherical) -> None:
        self.of, self.of_train = of, np.broadcast_to(by.inverse_norms, of.values.shape[1:])
        self.u = inverse_root(np.maximum(of.own_values.diagonal(), 0.0))
        self.v = -0.5 * self.u[:, None] ** 3 * of.of_diagonal()
        self.values = self.u[:, None] * of.values * self.of_train
        self.own_values = self.u[:, None] * of.own_values * self.u

    def over_rows(self, factors: np.ndarray) -> np.ndarray:
        found = self.of.over_rows(factors * self.u) + self.of.values.T @ (factors[:, None] * self.v)
        return self.of_train[:, None] * found

    def over_own_rows(self, factors: np.ndarray) -> np.ndarray:
        found = self.of.over_own_rows(factors * self.u) + self.of.own_values @ (factors[:, None] * self.v)
        return self.u[:, None] * found

    def over_train(self, factors: np.ndarray) -> np.ndarray:
        factors = factors * self.of_train
        return self.u[:, None] * self.of.over_train(factors) + (self.of.values @ factors)[:, None] * self.v

    def variance(self, factors: np.ndarray) -> np.ndarray:
        weighted = factors[:, None] * self.v
        found = self.of.variance(factors * self.u)
        found = found + 2.0 * np.einsum("sj,sj->j", weighted, self.of.over_own_rows(factors * self.u))
        return found + np.einsum("rj,rj->j", weighted, self.of.own_values @ weighted)

    def of_diagonal(self) -> np.ndarray:
        return np.zeros_like(self.v)


def _over_first(forms: SlopeForms, factors: np.ndarray, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    of_x, of_z = (np.broadcast_to(form, (len(X), len(Z))) for form in forms[:2])
    return of_x.T @ (factors[:, None] * X) + Z * (of_z.T @ factors)[:, None]
