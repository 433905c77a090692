"""Products of kernels: similarity in one respect and in another."""

from __future__ import annotations

import copy

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import shown
from bayesmkl.kernels.base import KERNEL, Kernel, SlopeForms
from bayesmkl.kernels.geometry import PairwiseGeometry

__all__ = ["Product"]


@fill_docs(KERNEL)
class Product(Kernel):
    r"""Product of two kernels, :math:`k(x, z) = k_1(x, z)\, k_2(x, z)`, also written ``left * right``.

    Its functions are sums of products: ``Gaussian() * Linear()`` has linear functions whose weights change smoothly
    with the features. Both factors see the same columns. Of positive semidefinite kernels the product is so, too.

    Parameters
    ----------
    left : Kernel
        The kernel :math:`k_1`, which may be a product itself.
    right : Kernel
        The kernel :math:`k_2`.

    Attributes
    ----------
    left_ : Kernel
        The first factor, fitted.
    right_ : Kernel
        The second one, fitted.

    References
    ----------
    J. Schur (1911), Bemerkungen zur Theorie der beschränkten Bilinearformen mit unendlich vielen Veränderlichen,
    Journal für die reine und angewandte Mathematik 140.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> kernel = Gaussian(width=2) * Linear()
    >>> kernel
    Product(left=Gaussian(width=2), right=Linear())
    >>> kernel(np.array([[1.0]]), np.array([[1.0], [3.0]])).round(4)  # 1 · 1 and exp(-1/2) · 3
    array([[1.    , 1.8196]])
    """

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    @property
    def label(self) -> str:
        """The names of both factors with a cross between them."""
        return f"{self.left.label} × {self.right.label}"

    @property
    def known_psd(self) -> bool:
        """True where both factors are known to be positive semidefinite."""
        return all(factor.known_psd for factor in self._factors())

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """True where both factors do."""
        return self.left.takes_sparse and self.right.takes_sparse

    @property
    def has_gates(self) -> bool:  # type: ignore[override]
        """True where a factor has."""
        return self.left.has_gates or self.right.has_gates

    def factors(self) -> list[Kernel]:
        """Return the kernels that are multiplied, those of products in the place of products.

        Returns
        -------
        list of Kernel
            Fitted where the product is.
        """
        return [one for factor in self._factors() for one in factor.factors()]

    def _factors(self) -> tuple[Kernel, Kernel]:
        return (self.left_, self.right_) if hasattr(self, "left_") else (self.left, self.right)

    def check_parameters(self) -> None:
        """Raise for factors that are no kernel objects, and for their own parameters.

        Raises
        ------
        TypeError
            If `left` or `right` is no kernel object.
        ValueError
            For a parameter of a factor that is out of range.
        """
        for name in ("left", "right"):
            factor = getattr(self, name)
            if not isinstance(factor, Kernel):
                raise TypeError(
                    f"`{name}` of Product must be a kernel object such as Gaussian(); got {shown(factor)}. Name the "
                    "object in place of a text, and leave out numbers: models learn scales."
                )
            factor.check_parameters()

    def fit(self, X: Samples, y: Targets | None = None, sample_weight: np.ndarray | None = None) -> Product:
        """Fit copies of both factors.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            Training points.
        y : None
            Ignored.
        sample_weight : ndarray of shape (n_train,), default=None
            How often each point counts in what factors learn; None is once.

        Returns
        -------
        self : Product
            The fitted kernel.

        Raises
        ------
        ValueError
            For a parameter of a factor that is out of range, or weights that the `fit` of a factor does not take.
        TypeError
            If a factor is no kernel object.
        """
        self.check_parameters()
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        fitted = []
        for factor in (copy.copy(self.left), copy.copy(self.right)):
            if given and not has_fit_parameter(factor, "sample_weight"):
                raise ValueError(
                    f"the `fit` of {type(factor).__name__} must take a `sample_weight` where samples have weights. "
                    "Give it one, or fit without weights"
                )
            fitted.append(factor.fit(X, **given))
        self.left_, self.right_ = fitted
        return self

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s

        Raises
        ------
        NotFittedError
            Before `fit`, with a factor that learns its width.
        """
        left, right = self._factors()
        left.evaluate(geometry, out)
        other = np.empty(geometry.shape)
        right.evaluate(geometry, other)
        np.multiply(out, other, out=out)

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            The products of those of the factors.
        """
        left, right = self._factors()
        return left.diagonal(X) * right.diagonal(X)

    def _slope_forms(self, geometry: PairwiseGeometry) -> SlopeForms | None:
        left, right = self._factors()
        one, two = left.slope_forms(geometry), right.slope_forms(geometry)
        if one is None or two is None:
            return None
        k, h = np.empty(geometry.shape), np.empty(geometry.shape)
        left.evaluate(geometry, k)
        right.evaluate(geometry, h)
        # a derivative by z_j is A z_j + B x_j: forms are symmetric in both points
        return SlopeForms(
            k * two.of_x + h * one.of_x,
            k * two.of_z + h * one.of_z,
            k * two.constant + h * one.constant,
            k * two.product + h * one.product + 2.0 * (one.of_x * two.of_x + one.of_z * two.of_z),
            k * two.squares + h * one.squares + one.of_x * two.of_z + one.of_z * two.of_x,
            of_differences=one.of_differences and two.of_differences,
        )
