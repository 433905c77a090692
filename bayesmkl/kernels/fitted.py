"""Kernels of a fitted bank: learned from training samples, evaluated on new rows, and their slopes by features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bayesmkl._utils.settings import methods_with_own_settings
from bayesmkl._utils.typing import Index
from bayesmkl.kernels.base import Kernel, SlopeForms
from bayesmkl.kernels.cache import current_cache
from bayesmkl.kernels.geometry import PairwiseGeometry, mean_row
from bayesmkl.kernels.normalize import (
    Center,
    Normalizer,
    Spherical,
    Trace,
    fit_normalizers,
    fit_normalizers_by_rows,
    inverse_root,
    move_origin,
    normalized_kernel,
)
from bayesmkl.kernels.presence import present_views, with_means
from bayesmkl.kernels.sparse import columns_of, is_sparse
from bayesmkl.kernels.views import View, column_names


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
            found = _Scaled(found, normalizer)
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


class _Scaled:
    """A kernel times a number."""

    def __init__(self, of: Slopes, by: Trace) -> None:
        self.of, self.scale = of, by.scale
        self.values, self.own_values = of.values * by.scale, of.own_values * by.scale

    def over_rows(self, factors: np.ndarray) -> np.ndarray:
        return self.scale * self.of.over_rows(factors)

    def over_own_rows(self, factors: np.ndarray) -> np.ndarray:
        return self.scale * self.of.over_own_rows(factors)

    def over_train(self, factors: np.ndarray) -> np.ndarray:
        return self.scale * self.of.over_train(factors)

    def variance(self, factors: np.ndarray) -> np.ndarray:
        return self.scale * self.of.variance(factors)

    def of_diagonal(self) -> np.ndarray:
        return self.scale * self.of.of_diagonal()


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


# Where the points that have a view are among all rows and columns of a kernel; None: all of them have it.
Place = tuple[np.ndarray, ...] | None


@methods_with_own_settings
class FittedKernels:
    """Evaluate kernel functions on views, with scales and normalizations that training samples have set.

    Base class of :class:`~bayesmkl.kernels.bank.KernelBank`, which sets the attributes and describes them.
    """

    missing_views: str
    n_kernels_: int
    kernel_names_: list[str]
    kernel_views_: list[str]
    n_features_in_: int
    column_labels_: list[Any] | None
    views_: list[View]
    view_positions_: np.ndarray
    kernels_: list[Kernel]
    normalizers_: list[list[Normalizer]]
    present_: np.ndarray
    X_train_: np.ndarray
    landmarks_: np.ndarray | None
    column_means_: np.ndarray | None = None

    @property
    def basis_(self) -> np.ndarray:
        """Training points or landmarks that rows are compared with, one row each."""
        return self.X_train_ if self.landmarks_ is None else self.landmarks_

    def stack_bytes(self, n_rows: int) -> int:
        """Return the bytes of all kernels between so many rows and the basis points.

        Parameters
        ----------
        n_rows : int
            Number of rows.

        Returns
        -------
        int
            8 for every entry.
        """
        return 8 * self.n_kernels_ * n_rows * len(self.basis_)

    def landmark_similarity(self) -> np.ndarray | None:
        """Return the mean self-similarity of the landmarks.

        Returns
        -------
        ndarray of shape (n_kernels,) or None
            After normalization; None without landmarks.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For landmarks without the gate columns of a kernel.
        """
        check_is_fitted(self, "normalizers_")
        return None if self.landmarks_ is None else self.train_diagonal().mean(axis=1)

    def kernels_of_views(self) -> list[range]:
        """Return the positions of the kernels of each view, which are neighbors.

        Returns
        -------
        list of range
            One for each view.
        """
        first = np.searchsorted(self.view_positions_, np.arange(len(self.views_) + 1)).tolist()
        return [range(start, stop) for start, stop in pairwise(first)]

    def are_centered(self) -> bool:
        """Return whether all kernels are centered.

        Returns
        -------
        bool
            False where "center" is not among the normalizations of some view.
        """
        return all(any(isinstance(one, Center) for one in own) for own in self.normalizers_)

    def centering_errors(self) -> np.ndarray:
        """Return bounds on the rounding errors that centering leaves in the kernels.

        Returns
        -------
        ndarray of shape (n_kernels,)
            In units of the mean centered self-similarity; 0 without centering. Above 1e-6 digits are lost: nearly all
            of the kernel was common to all samples, as it is for features far from zero. `Linear` and `Polynomial`
            lose none where "center" comes before "spherical".

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, "normalizers_")
        return np.array(
            [
                max((one.lost for one in own if isinstance(one, Center)), default=0.0)
                for own in self.normalizers_
            ]
        )

    def train_stack(self) -> np.ndarray:
        """Return the training kernels, evaluated anew.

        Returns
        -------
        ndarray of shape (n_kernels, n_train, n_basis)
            In C order.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a kernel has values that are not finite.
        """
        check_is_fitted(self, "normalizers_")
        return self.evaluate(self.X_train_)

    def train_diagonal(self) -> np.ndarray:
        """Return the self-similarities of the basis points.

        Returns
        -------
        ndarray of shape (n_kernels, n_basis)
            After normalization; NaN where a view is absent.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            For points without the gate columns of a kernel.
        """
        check_is_fitted(self, "normalizers_")
        diagonals = np.full((self.n_kernels_, len(self.basis_)), np.nan)
        for m, kernel, geometry, place in self._evaluations(self.basis_):
            diagonal = normalized_kernel(kernel, self.normalizers_[m]).diagonal(geometry.Z)
            for normalizer in self.normalizers_[m]:
                diagonal = normalizer.train_diagonal(diagonal)
            diagonals[m, slice(None) if place is None else place[1][0]] = diagonal
        return diagonals

    def evaluate(self, X: np.ndarray, kernels: np.ndarray | None = None) -> np.ndarray:
        """Do what `row_stack` does for rows that were validated before.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.
        kernels : ndarray of int, of shape (n_wanted,), optional
            Positions of the kernels that are wanted, in ascending order; all of them by default.

        Returns
        -------
        ndarray of shape (n_wanted, n_rows, n_basis)
            In C order.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        wanted = range(self.n_kernels_) if kernels is None else [int(m) for m in kernels]
        places = {m: place for place, m in enumerate(wanted)}
        stack = np.empty((len(places), len(X), len(self.basis_)))
        for m, kernel, geometry, place in self._evaluations(X):
            if m in places:
                self._write(m, kernel, geometry, place, stack[places[m]])
        return stack

    def rows_and_diagonal(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the kernels of rows that were validated before, and the similarities of rows to themselves.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.

        Returns
        -------
        stack : ndarray of shape (n_kernels, n_rows, n_basis)
            In C order.
        diagonal : ndarray of shape (n_kernels, n_rows)
            After normalization; NaN where a view is absent.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        stack = np.empty((self.n_kernels_, len(X), len(self.basis_)))
        diagonals = np.full((self.n_kernels_, len(X)), np.nan)
        for m, kernel, geometry, place in self._evaluations(X):
            diagonal = self._write(m, kernel, geometry, place, stack[m], True)
            diagonals[m, slice(None) if place is None else place[0][:, 0]] = diagonal
        return stack, diagonals

    def rows_and_diagonals(
        self, X: np.ndarray, counts: Sequence[int]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Go through the kernels of validated rows with the first basis points, as many as a kernel asks for.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data and all views.
        counts : sequence of int, of length n_kernels
            Number of basis points of every kernel.

        Yields
        ------
        m : int
            Position of the kernel.
        rows : ndarray of shape (n_rows, n_points)
            Normalized.
        diagonal : ndarray of shape (n_rows,)
            Similarities of rows to themselves.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        centered = [any(isinstance(one, Center) for one in own) for own in self.normalizers_]  # on all points
        sizes = [len(self.basis_) if centered[m] else count for m, count in enumerate(counts)]
        needed = [max(sizes[m] for m in own) for own in self.kernels_of_views()]
        for m, kernel, geometry, place in self._evaluations(X, needed):
            if sizes[m] < len(geometry.Z):
                geometry = PairwiseGeometry(geometry.X, geometry.Z[: sizes[m]])
            values = np.empty(geometry.shape)
            diagonal = self._write(m, kernel, geometry, place, values, True)
            yield m, values[:, : counts[m]], diagonal

    def shared_rows(self, X: np.ndarray, share: float = 1.0) -> np.ndarray | None:
        """Return all kernels of validated rows through the cache that is in use.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.
        share : float, default=1.0
            The part of the kernels that is wanted, from 0 to 1.

        Returns
        -------
        ndarray of shape (n_kernels, n_rows, n_basis) or None
            Read-only; None where no cache is in use.

        Raises
        ------
        ValueError
            If a kernel has values that are not finite.
        """
        cache = current_cache()
        return None if cache is None else cache.rows(self, X, share, lambda: self.evaluate(X))

    def train_kernels(self) -> Iterator[np.ndarray]:
        """Yield the training kernels one by one, evaluated anew.

        All of them come in the same array: what is to be kept has to be copied before the next one is asked for.

        Yields
        ------
        ndarray of shape (n_train, n_basis)
            Kernel after kernel, normalized.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a kernel has values that are not finite.
        """
        check_is_fitted(self, "normalizers_")
        out = np.empty((len(self.X_train_), len(self.basis_)))
        for m, kernel, geometry, place in self._evaluations(self.X_train_):
            self._write(m, kernel, geometry, place, out)
            yield out

    def slopes(self, X: np.ndarray) -> Iterator[tuple[View, Slopes]]:
        """Yield the derivatives of every kernel by the features of its view, between rows and the basis points.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data and all views.

        Yields
        ------
        view : View
        slopes : Slopes
            By the columns of the view.

        Raises
        ------
        ValueError
            For a kernel that has no derivatives, or none with a formula.
        """
        own: PairwiseGeometry | None = None
        self._refuse_gates_of_own_views()
        for m, kernel, geometry, _ in self._evaluations(X):
            if own is None or own.X is not geometry.X:  # kernels of one view share distances
                own = geometry if geometry.X is geometry.Z else PairwiseGeometry(geometry.X, geometry.X)
            found = normalized_slopes(kernel, self.normalizers_[m], geometry, own)
            if found is None:
                raise ValueError(
                    f"kernel {self.kernel_names_[m]!r} has no slopes. Use the kernels Gaussian, Linear and "
                    "Polynomial, whose functions have slopes with a formula."
                )
            yield self.views_[self.view_positions_[m]], found

    def _refuse_gates_of_own_views(self) -> None:
        for m, kernel in enumerate(self.kernels_):
            view = self.views_[self.view_positions_[m]]
            if np.isin(kernel.gate_columns, view.columns).any():
                raise ValueError(
                    f"kernel {self.kernel_names_[m]!r} has no slopes: a gate column is one of its view. Leave it out "
                    "of `views`; slopes are then those at the gate column of each sample."
                )

    def columns_of(self, m: int) -> np.ndarray:
        """Return the columns that a kernel sees.

        Parameters
        ----------
        m : int
            Position of the kernel.

        Returns
        -------
        ndarray of int, of shape (n_columns,)
            Positions of those of its view, and of gate columns.
        """
        own = self.views_[self.view_positions_[m]].columns
        return np.concatenate([own, self.kernels_[m].gate_columns])

    def imputed(self, X: np.ndarray) -> np.ndarray:
        """Return rows that were validated before, with means where a part of a view is missing.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Query points in float64, with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            The rows themselves unless ``missing_views="impute"`` and there is such a part.

        Raises
        ------
        ValueError
            For a column without a mean, which is NaN for all training samples.
        """
        return X if self.column_means_ is None else with_means(X, self.views_, self.column_means_)

    def _write(
        self,
        m: int,
        kernel: Kernel,
        geometry: PairwiseGeometry,
        place: Place,
        out: np.ndarray,
        with_diagonal: bool = False,
    ) -> np.ndarray:
        """Evaluate and normalize one kernel into `out`, (n_rows, n_basis); return the similarities to themselves."""
        values, diagonal = out if place is None else np.empty(geometry.shape), np.empty(0)
        if len(values):
            kernel = normalized_kernel(kernel, self.normalizers_[m])
            with naming_kernel(self.kernel_names_[m]):
                kernel.evaluate(geometry, values)
                check_finite(values)
                if with_diagonal or self.normalizers_[m]:
                    diagonal = check_finite(kernel.diagonal(geometry.X))
                for normalizer in self.normalizers_[m]:
                    diagonal = normalizer.apply(values, diagonal)
        if place is not None:
            put_present(values, place, out)
        return diagonal

    def _present(self, X: np.ndarray) -> np.ndarray:
        """Return the mask of present views, (n_views, n_rows)."""
        if self.missing_views == "error":
            return np.ones((len(self.views_), len(X)), dtype=bool)
        return present_views(X, self.views_)

    def _evaluations(
        self, X: np.ndarray, needed: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Kernel, PairwiseGeometry, Place]]:
        """Go through the kernels view by view; those of one view share distances and inner products.

        Of a view the first basis points are `needed`; None: all of them.
        """
        is_basis = X is self.basis_ and needed is None
        of_basis = self.present_ if self.landmarks_ is None else self._present(self.basis_)
        of_rows = of_basis if is_basis else self._present(X)
        for v, (view, rows, columns) in enumerate(zip(self.views_, of_rows, of_basis, strict=True)):
            first = slice(None) if needed is None else slice(needed[v])
            columns = columns[first]
            basis = columns_of(self.basis_[first], view.columns, columns)
            points = basis if is_basis else columns_of(X, view.columns, rows)
            geometry = PairwiseGeometry(points, basis)
            place = None if rows.all() and columns.all() else np.ix_(rows, columns)
            wide = {b"": geometry}
            for m in np.flatnonzero(self.view_positions_ == v).tolist():
                gates = self.kernels_[m].gate_columns
                if gates.tobytes() not in wide:
                    of_basis_gates = self._gates_of(self.basis_[first], m, columns)
                    of_rows_gates = of_basis_gates if is_basis else self._gates_of(X, m, rows)
                    wide[gates.tobytes()] = geometry.with_columns(of_rows_gates, of_basis_gates)
                yield m, self.kernels_[m], wide[gates.tobytes()], place

    def _gates_of(self, X: np.ndarray, m: int, present: np.ndarray) -> np.ndarray:
        """Return the gate columns of rows that have the view of a kernel; raise where some lack them."""
        values = X[:, self.kernels_[m].gate_columns][present]
        lacking = np.isnan(values)
        if lacking.any():
            row, which = np.argwhere(lacking)[0]
            names = column_names(self.n_features_in_, self.column_labels_)
            raise ValueError(
                f"`X` must have the gate columns of samples that have the view {self.kernel_views_[m]!r}; got NaN in "
                f"{names[self.kernels_[m].gate_columns[which]]!r}, first in row {np.flatnonzero(present)[row]}. "
                "Impute it, or leave these samples out."
            )
        return values


def put_present(values: np.ndarray, place: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    """Copy the kernel of the points that have its view to its places in that of all points, NaN elsewhere."""
    out.fill(np.nan)
    out[place] = values


def check_finite(values: np.ndarray) -> np.ndarray:
    """Return values of a kernel; raise where they are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            "its values are not all finite. Scale the features of `X`, lower a polynomial degree, "
            "or look for a division by zero in your own kernel."
        )
    return values


@contextmanager
def naming_kernel(name: str) -> Iterator[None]:
    """Name the kernel in errors about values; that of values which are not finite comes in place of NumPy's."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except ValueError as error:
        raise ValueError(f"kernel {name!r}: {error}") from error


def fit_kernel(kernel: Kernel, train: np.ndarray, weights: np.ndarray | None) -> None:
    """Fit a kernel function to training samples that count as `weights` say; None is once."""
    if weights is None:
        kernel.fit(train)
        return
    if not has_fit_parameter(kernel, "sample_weight"):
        raise ValueError(
            f"the `fit` of {type(kernel).__name__} must take a `sample_weight` where samples have weights. Give it "
            "one, or fit without weights"
        )
    kernel.fit(train, sample_weight=weights)


def fit_training(
    normalize: tuple[str, ...],
    kernel: Kernel,
    geometry: PairwiseGeometry,
    values: np.ndarray,
    weights: np.ndarray | None,
) -> list[Normalizer]:
    """Write the normalized training kernel into `values`, (n_train, n_train), and return the normalizations."""
    moved = None
    if "center" in normalize:
        kernel, moved = move_origin(normalize, kernel, geometry.Z, weights)
    kernel.evaluate(geometry, values)
    check_finite(values)
    if not normalize:
        return []
    return fit_normalizers(normalize, values, check_finite(kernel.diagonal(geometry.Z)), moved, weights)


def learn_by_rows(
    normalize: tuple[str, ...], kernel: Kernel, train: np.ndarray, weights: np.ndarray | None
) -> list[Normalizer]:
    """Learn the normalizations without holding the training kernel."""
    if not normalize:
        return []
    kernel, moved = move_origin(normalize, kernel, train, weights)
    diagonal = check_finite(kernel.diagonal(train))
    return fit_normalizers_by_rows(normalize, partial(_rows, kernel, train), diagonal, moved, weights)


def _rows(kernel: Kernel, train: np.ndarray, index: Index) -> np.ndarray:
    """Return rows of the training kernel before normalization, (n_rows, n_train)."""
    rows = train[index]
    is_whole = rows.shape == train.shape and not is_sparse(train) and np.may_share_memory(rows, train)
    geometry = PairwiseGeometry(train if is_whole else rows, train)
    out = np.empty(geometry.shape)
    kernel.evaluate(geometry, out)
    return check_finite(out)
