"""Base class of kernel functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import has_fit_parameter

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.given import check_numbers, naming
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.sparse import SparseTable, is_sparse, sparse_table

NO_COLUMNS = np.array([], dtype=np.intp)
NO_COLUMNS.setflags(write=False)
SMALLEST, LARGEST = 1e-150, 1e150  # magnitudes whose squares are in the range of float64

KERNEL = entries(
    """
    geometry : PairwiseGeometry
        Query points of shape (n_rows, n_features) against training points of shape (n_train, n_features).
    out : ndarray of shape (n_rows, n_train)
        Array that receives the kernel.
    X : ndarray of shape (n_rows, n_features)
        Rows of finite numbers.
    """
)


class SlopeForms(NamedTuple):
    r"""Derivatives of a kernel by features, of all pairs; each is of shape (n_rows, n_train), or a number.

    .. math:: \frac{\partial k}{\partial x_j} = A x_j + B z_j , \qquad
        \frac{\partial^2 k}{\partial x_j \partial z_j} = E + F x_j z_j + G (x_j^2 + z_j^2) .
    """

    of_x: Any  # A
    of_z: Any  # B
    constant: Any  # E
    product: Any = 0.0  # F
    squares: Any = 0.0  # G
    of_differences: bool = False  # whether points can be measured from anywhere


@fill_docs(KERNEL)
class Kernel(BaseEstimator):
    """Base of all kernel objects: a subclass writes `evaluate`, `diagonal` and `label`.

    A kernel is called as ``kernel(X, Z)``, rows of `X` being query points and rows of `Z` training points,
    and gives an array of shape (n_rows, n_train). `fit` learns what a kernel takes from training data (most
    take nothing) and rejects bad parameters.
    """

    @property
    def label(self) -> str:
        """Name for tables and plots."""
        raise NotImplementedError

    @property
    def known_psd(self) -> bool:
        """Whether mathematics guarantees a positive semidefinite matrix, so that no test is needed."""
        return True

    def check_parameters(self) -> None:
        """Raise for constructor arguments out of range."""

    def fit(self, X: Samples, y: Targets | None = None, sample_weight: np.ndarray | None = None) -> Kernel:
        """Check the parameters and learn training statistics, where the kernel has any.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            Training points.
        y : None
            Ignored.
        sample_weight : ndarray of shape (n_train,), default=None
            How often each point counts in such statistics; None is once.

        Returns
        -------
        self : Kernel
            The fitted kernel.

        Raises
        ------
        ValueError
            For a parameter of the constructor that is out of range.
        """
        self.check_parameters()
        return self

    takes_sparse: bool = False  # whether it compares rows of a `SparseTable`
    takes_units: bool = False  # whether it compares counts, codes or positions, which keep their units
    has_gates: bool = False  # whether a bank has to find columns for it
    gate_columns: np.ndarray = NO_COLUMNS  # positions in `X` of what it sees beside its view, once found

    def of_view(self, geometry: PairwiseGeometry) -> PairwiseGeometry:
        """Return what the columns of the view make of rows, where the kernel sees other columns, too.

        Parameters
        ----------
        %(geometry)s

        Returns
        -------
        PairwiseGeometry
            The same one, unless there are gates.
        """
        return geometry

    def factors(self) -> list[Kernel]:
        """Return the kernels that are multiplied.

        Returns
        -------
        list of Kernel
            The kernel itself where it is no product.
        """
        return [self]

    def __mul__(self, other: object) -> Kernel:
        """Return the product with another kernel, which sees the same columns."""
        from bayesmkl.kernels.compose import BankAlgebra, Product

        if isinstance(other, BankAlgebra):
            return NotImplemented
        product = Product(self, other)  # type: ignore[arg-type]
        product.check_parameters()
        return product

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel between the two sides of `geometry` into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s
        """
        raise NotImplementedError

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Ones.
        """
        return np.ones(len(X))

    def about(self, origin: np.ndarray) -> Kernel | None:
        r"""Return the kernel whose feature space has its origin at the image of a point, if it has a formula.

        It is :math:`k(x, z) - k(x, o) - k(o, z) + k(o, o)`, which centering turns into the same kernel as
        :math:`k`, without a difference of large numbers.

        Parameters
        ----------
        origin : ndarray of shape (n_features,)
            The point :math:`o`.

        Returns
        -------
        Kernel or None
            None where there is no such formula.
        """
        return self._about(origin)

    def _about(self, origin: np.ndarray) -> Kernel | None:
        return None  # of most kernels

    def slope_forms(self, geometry: PairwiseGeometry) -> SlopeForms | None:
        """Return the derivatives by features, where functions have them and there is a formula.

        Parameters
        ----------
        %(geometry)s

        Returns
        -------
        SlopeForms or None
            None where there is no such formula.
        """
        return self._slope_forms(geometry)

    def _slope_forms(self, geometry: PairwiseGeometry) -> SlopeForms | None:
        return None  # of most kernels

    @own_settings
    def __call__(self, X: Any, Z: Any) -> np.ndarray:
        """Compare the rows of `X` with the rows of `Z`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Query points.
        Z : array-like or sparse matrix of shape (n_train, n_features)
            Training points.

        Returns
        -------
        kernel : ndarray of shape (n_rows, n_train)
            The kernel's values.
        """
        self.check_parameters()
        rows = _checked_rows("X", X)
        train = rows if X is Z else _checked_rows("Z", Z)
        if rows.shape[1] != train.shape[1]:
            raise ValueError(
                f"`X` and `Z` must have the same columns; got {rows.shape[1]} and {train.shape[1]}. "
                "Rows are samples in both."
            )
        if is_sparse(rows) or is_sparse(train):
            check_take_sparse([self], name="X" if is_sparse(rows) else "Z")
            if not (is_sparse(rows) and is_sparse(train)):
                raise TypeError("`X` and `Z` must both be sparse, or both be dense.")
        geometry = PairwiseGeometry(rows, train)
        out = np.empty(geometry.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            self.evaluate(geometry, out)
        return out


def _checked_rows(name: str, rows: Any) -> Any:
    if issparse(rows):
        with naming(name):
            table = SparseTable(check_array(sparse_table(name, rows), accept_sparse="csr", input_name=name))
        check_range(name, table)
        return table
    check_numbers(name, rows)
    with naming(name):
        array = check_array(rows, dtype=np.float64, input_name=name)
    check_range(name, array)
    return array


def check_take_sparse(kernels: Sequence[Kernel], missing_views: str = "error", name: str = "X") -> None:
    """Raise for sparse rows and a kernel that cannot compare them without a dense copy.

    Examples
    --------
    >>> from bayesmkl.kernels import Laplacian
    >>> check_take_sparse([Laplacian()])
    Traceback (most recent call last):
    ...
    TypeError: `X` must be a dense array for the kernel 'laplacian(width=1)'; got a sparse one. Linear, Cosine, ...
    """
    if missing_views != "error":
        raise ValueError(
            f'`missing_views` must be "error" for sparse samples, which have no NaN; got {missing_views!r}.'
        )
    for kernel in kernels:
        if not kernel.takes_sparse:
            raise TypeError(
                f"`{name}` must be a dense array for the kernel {kernel.label!r}; got a sparse one. Linear, Cosine, "
                "Tanimoto, Gaussian, Polynomial and their products take sparse ones; for others use `.toarray()`."
            )


def check_range(name: str, rows: np.ndarray | SparseTable) -> None:
    """Raise for features whose squares overflow, or vanish in all samples; NaN is not looked at.

    Examples
    --------
    >>> check_range("X", np.array([[1e-170], [2e-170]]))
    Traceback (most recent call last):
    ...
    ValueError: `X` must have its largest entry between 1e-150 and 1e+150 in magnitude, or hold zeros only; got ...
    """
    entries = rows.values.data if is_sparse(rows) else rows
    size = float(np.nanmax(np.abs(entries), initial=0.0))
    if size != 0.0 and not SMALLEST <= size <= LARGEST:
        raise ValueError(
            f"`{name}` must have its largest entry between {SMALLEST:g} and {LARGEST:g} in magnitude, or hold zeros "
            f"only; got {size:.3g}. Scale the features: their squares overflow or vanish."
        )


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
