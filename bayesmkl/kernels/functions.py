"""Kernel functions on rows of numbers, as small objects in the style of scikit-learn."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import float_of, shown
from bayesmkl.kernels.base import KERNEL, LARGEST, SMALLEST, Kernel, SlopeForms
from bayesmkl.kernels.geometry import PairwiseGeometry, median_distance, squared_norms
from bayesmkl.kernels.sparse import is_sparse

BLOCK_ENTRIES = 2**16  # that are raised to a power together, in a core's own cache


class Parts(NamedTuple):
    """A function of two points: ``joint + of_x + of_z + constant``, in shapes that broadcast."""

    joint: Any  # zero where one of the points is the origin
    of_x: Any  # zero at the origin
    of_z: Any
    constant: Any


def power(base: Parts, degree: int) -> Parts:
    """Raise to a power by squaring, on arrays of NumPy or JAX.

    Examples
    --------
    >>> power(Parts(2.0, 3.0, 5.0, 7.0), 3)  # 17³, (3 + 7)³ - 7³, (5 + 7)³ - 7³ and 7³
    Parts(joint=2528.0, of_x=657.0, of_z=1385.0, constant=343.0)
    >>> sum(power(Parts(2.0, 3.0, 5.0, 7.0), 3)) == 17.0**3
    True
    """
    result = base
    for digit in f"{degree:b}"[1:]:
        result = _product(result, result)
        if digit == "1":
            result = _product(result, base)
    return result


def _product(one: Parts, other: Parts) -> Parts:
    # in an order that gives the same digits with x and z exchanged: training kernels are exactly symmetric
    of_one, of_other = (part.of_x + part.of_z + part.constant for part in (one, other))
    crossed = one.of_x * other.of_z + other.of_x * one.of_z
    return Parts(
        (one.joint * (other.joint + of_other) + of_one * other.joint) + crossed,
        one.of_x * (other.of_x + other.constant) + one.constant * other.of_x,
        one.of_z * (other.of_z + other.constant) + one.constant * other.of_z,
        one.constant * other.constant,
    )


class MovedPolynomial(Kernel):
    r"""The kernel :math:`(\gamma\, x \cdot z + c)^q` with the image of a point as origin of its feature space.

    Parameters
    ----------
    origin : ndarray of shape (n_features,)
        The point.
    degree : int, default=1
        The degree :math:`q`, at least 1.
    offset : float, default=0.0
        The offset :math:`c`.
    gamma : float, default=1.0
        The factor :math:`\gamma`.

    Notes
    -----
    With :math:`u = x - o`, :math:`v = z - o` every kernel of inner products is a sum of a part of both points, parts
    of one of them, and a constant: :math:`x \cdot z + c = u \cdot v + o \cdot u + o \cdot v + (o \cdot o + c)`. So is
    the product of two such sums,

    .. math:: (s + a + b + k)(s' + a' + b' + k') = s'' + a'' + b'' + k'', \qquad
        s'' = s\,(s' + a' + b' + k') + (a + b + k)\,s' + a b' + a' b, \quad
        a'' = a\,(a' + k') + k a', \quad b'' = b\,(b' + k') + k b', \quad k'' = k k',

    and so is a power. Centering removes everything but the first part, :math:`k(x, z) - k(x, o) - k(o, z) + k(o, o)`.
    Of data far from zero that part is many orders of magnitude below the kernel; here it is never a difference of
    numbers of the kernel's size.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.functions import MovedPolynomial
    >>> x, z = 1e9 + np.array([[1.0]]), 1e9 + np.array([[0.25]])
    >>> MovedPolynomial(np.array([1e9]))(x, z)
    array([[0.25]])
    """

    def __init__(self, origin: np.ndarray, degree: int = 1, offset: float = 0.0, gamma: float = 1.0) -> None:
        self.origin = origin
        self.degree = degree
        self.offset = offset
        self.gamma = gamma

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`, shape (n_rows, n_train)."""
        moved = geometry.about(self.origin)
        np.multiply(moved.inner_products, self.gamma, out=out)
        if self.degree == 1:
            return
        of_x = self._of_one(moved.X)
        of_z = of_x if moved.X is moved.Z else self._of_one(moved.Z)
        step = max(1, BLOCK_ENTRIES // max(1, out.shape[1]))
        for first in range(0, len(out), step):
            rows = slice(first, first + step)
            out[rows] = self._power(out[rows], of_x[rows, None], of_z)

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return the self-similarity of each row of `X`, shape (n_rows,)."""
        moved = X - self.origin
        of_x = self._of_one(moved)
        return self._power(self.gamma * squared_norms(moved), of_x, of_x)

    def _of_one(self, moved: np.ndarray) -> np.ndarray:
        return self.gamma * (moved @ self.origin)

    def _power(self, joint: np.ndarray, of_x: np.ndarray, of_z: np.ndarray) -> Any:
        constant = self.gamma * (self.origin @ self.origin) + self.offset
        with np.errstate(over="ignore", invalid="ignore"):  # reported by name where the kernel is used
            return power(Parts(joint, of_x, of_z, constant), int(self.degree)).joint


HIGHEST_DEGREE = 2**31  # of a polynomial; far lower ones overflow


SCALED = KERNEL | entries(
    """
    width : float, default=None
        The width :math:`w`, in the units of the features. 1 when no other scale is given.
    relative_width : float, default=None
        Alternatively, the width in units of the median distance between two training points, which `fit` computes; a
        `KernelBank` fits its kernels.

    width_ : float
        The width in use; only with `relative_width`.
    """
)


class ScaledKernel(Kernel):
    """A kernel of a distance, whose scale is given as a width, relative to the median distance, or as a factor."""

    NAME: ClassVar[str]
    METRIC: ClassVar[str]  # scipy's name of the distance
    LEARNED: ClassVar[tuple[str, ...]] = ()  # values of `width` that leave it to the model

    def __init__(
        self, width: Any = None, gamma: float | None = None, relative_width: float | None = None
    ) -> None:
        self.width = width
        self.gamma = gamma
        self.relative_width = relative_width

    @property
    def learns(self) -> str | None:
        """What a model learns of the width, "learn" or "each"; None where it is given."""
        return self.width if isinstance(self.width, str) and self.width in self.LEARNED else None

    @property
    def label(self) -> str:
        """Name for tables and plots."""
        width = 1.0 if self.width is None else self.width
        scale = f"width={width if self.learns else format(width, 'g')}"
        scale = scale if self.gamma is None else f"gamma={self.gamma:g}"
        scale = scale if self.relative_width is None else f"{self.relative_width:g} median"
        return f"{self.NAME.lower()}({scale})"

    @property
    def factor(self) -> float:
        """Factor of the distance in the exponent.

        Raises
        ------
        NotFittedError
            Before `fit`, if the width is relative to a distance of training points.
        """
        if self.gamma is not None:
            return float(self.gamma)
        if self.relative_width is not None or self.learns:
            check_is_fitted(self, "width_")
            return self._factor(self.width_)
        return self._factor(1.0 if self.width is None else float(self.width))

    def _factor(self, width: float) -> float:
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Raise for a scale that is not positive, or for more than one of them.

        Raises
        ------
        ValueError
            If `width`, `gamma` or `relative_width` is not a positive number, or two of them are given.
        """
        owner = self.NAME
        given = {name: getattr(self, name) for name in ("width", "gamma", "relative_width")}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) > 1:
            *others, last = (f"`{name}`" for name in given)
            got = " and ".join(f"{name}={value!r}" for name, value in given.items())
            raise ValueError(f"{owner} takes {', '.join(others)} or {last}, not both; got {got}.")
        if self.learns:
            given.pop("width")
        for name, value in given.items():
            if not SMALLEST <= float_of(value) <= LARGEST:
                raise ValueError(
                    f"`{name}` of {owner} must be a positive number; got {shown(value)}. "
                    "A typical distance between two samples is a good first width; both lie between 1e-150 and "
                    "1e150."
                )

    def fit(
        self, X: Samples, y: Targets | None = None, sample_weight: np.ndarray | None = None
    ) -> ScaledKernel:
        """Learn the median distance, where the width is relative to it.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            Training points. Of more than 1000, every k-th one is looked at.
        y : None
            Ignored.
        sample_weight : ndarray of shape (n_train,), default=None
            How often each point counts: one of weight two is two points, which make pairs with all others and with
            each other. None is once.

        Returns
        -------
        self : ScaledKernel
            The fitted kernel.

        Raises
        ------
        ValueError
            For a parameter of the constructor that is out of range.
        """
        self.check_parameters()
        if self.relative_width is not None or self.learns:
            relative = 1.0 if self.relative_width is None else float(self.relative_width)
            points = X if is_sparse(X) else np.asarray(X, np.float64)
            self.width_ = relative * median_distance(
                self._in_units(points, sample_weight), self.METRIC, sample_weight
            )
        return self

    def _in_units(self, X: Any, sample_weight: np.ndarray | None) -> Any:
        """Learn units of the features, where the kernel has any, and return points in them."""
        return X


@fill_docs(SCALED)
class Gaussian(ScaledKernel):
    r"""Gaussian kernel :math:`\exp(-\|x-z\|^2 / (2 w^2))`.

    Parameters
    ----------
    width : float, "learn" or "each", default=None
        The width :math:`w`, in the units of the features; 1 if no other scale is given. "learn": a Gaussian process
        infers one width together with the kernel weights. "each": it infers one width for every feature, so units of
        features do not matter. Only estimators of `bayesmkl.gp` can learn widths. A bank without a model
        evaluates the kernel at the prior median of its width.
    gamma : float, default=None
        Alternatively the factor in :math:`\exp(-\gamma \|x-z\|^2)`; :math:`\gamma = 1/(2 w^2)`.
    %(relative_width)s

    Attributes
    ----------
    width_ : float
        The width in use; only with `relative_width`, "learn" and "each". With "each" it is in units of `units_`.
    units_ : ndarray of shape (n_features,)
        Standard deviations of the training features; infinite for constant features, which the kernel ignores. Only
        with "each".

    Notes
    -----
    With "learn" and "each" the prior of a width is log-normal. Its median is the median distance between two training
    points. With "each", features are in units of their standard deviations, and the width of a feature is the width
    of its view times a factor with median one.

    Some toolboxes write :math:`\exp(-\|x-z\|^2/s^2)`; their width :math:`s` is ``Gaussian(gamma=1 / s**2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian
    >>> Gaussian(width=2)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.6065]])
    >>> Gaussian(relative_width=0.5).fit(np.array([[0.0], [1.0], [4.0]])).width_
    1.5
    """

    NAME = "Gaussian"
    METRIC = "euclidean"
    LEARNED = ("learn", "each")

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """True unless widths are learned."""
        return self.learns is None

    def _factor(self, width: float) -> float:
        return 0.5 / width**2

    def _in_units(self, X: Any, sample_weight: np.ndarray | None) -> Any:
        if self.learns != "each":
            return X
        variance = np.average(
            (X - np.average(X, axis=0, weights=sample_weight)) ** 2, axis=0, weights=sample_weight
        )
        self.units_ = np.where(np.ptp(X, axis=0) > 0.0, np.sqrt(variance), np.inf)
        return X / self.units_

    @property
    def widths(self) -> Any:
        """Widths of all features, (n_features,), or one of all of them, after `fit`."""
        return self.width_ * self.units_ if self.learns == "each" else self.width_

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s

        Raises
        ------
        NotFittedError
            Before `fit`, with `relative_width`.
        """
        factor = self.factor
        if self.learns == "each":
            of_rows = geometry.X / self.units_
            of_train = of_rows if geometry.X is geometry.Z else geometry.Z / self.units_
            geometry = PairwiseGeometry(of_rows, of_train)
        np.multiply(geometry.squared_distances, -factor, out=out)
        np.exp(out, out=out)

    def _slope_forms(self, geometry: PairwiseGeometry) -> SlopeForms | None:
        if self.learns:
            return None
        values = np.empty(geometry.shape)
        self.evaluate(geometry, values)
        once, twice = 2.0 * self.factor * values, 4.0 * self.factor**2 * values
        return SlopeForms(-once, once, once, 2.0 * twice, -twice, of_differences=True)


@fill_docs(SCALED)
class Laplacian(ScaledKernel):
    r"""Laplacian kernel :math:`\exp(-\|x-z\|_1 / w)`, with the sum of absolute differences as distance.

    Parameters
    ----------
    %(width)s
    gamma : float, default=None
        Alternatively the factor in :math:`\exp(-\gamma \|x-z\|_1)`.
    %(relative_width)s

    Attributes
    ----------
    %(width_)s

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Laplacian
    >>> Laplacian(width=2)(np.array([[0.0, 0.0]]), np.array([[1.0, -1.0]])).round(4)
    array([[0.3679]])
    """

    NAME = "Laplacian"
    METRIC = "cityblock"

    def _factor(self, width: float) -> float:
        return 1.0 / width

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s

        Raises
        ------
        NotFittedError
            Before `fit`, with `relative_width`.
        """
        np.multiply(geometry.l1_distances, -self.factor, out=out)
        np.exp(out, out=out)


@fill_docs(KERNEL)
class Polynomial(Kernel):
    r"""Polynomial kernel :math:`(x \cdot z + c)^q`.

    Parameters
    ----------
    degree : int, default=2
        The degree :math:`q`, at least 1.
    offset : float, default=1.0
        The offset :math:`c`. A negative offset may give an indefinite kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Polynomial
    >>> Polynomial(degree=2)(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5]]))
    array([[25.]])
    """

    takes_sparse = True

    def __init__(self, degree: int = 2, offset: float = 1.0) -> None:
        self.degree = degree
        self.offset = offset

    @property
    def label(self) -> str:
        """Name for tables and plots; the offset is left out where it is 1."""
        offset = "" if self.offset == 1 else f", offset={self.offset:g}"
        return f"polynomial(degree={self.degree}{offset})"

    @property
    def known_psd(self) -> bool:
        """True for a non-negative offset: sums and products of such kernels are positive semidefinite."""
        return self.offset >= 0

    def check_parameters(self) -> None:
        """Raise for a degree that is not a positive integer, or an offset that is not a finite number.

        Raises
        ------
        ValueError
            If `degree` is not a whole number of at least 1, or `offset` not a finite number.
        """
        is_count = isinstance(self.degree, Integral) and not isinstance(self.degree, bool)
        if not is_count or not 1 <= self.degree <= HIGHEST_DEGREE:
            raise ValueError(
                f"`degree` of Polynomial must be an integer of at least 1; got {shown(self.degree)}. "
                "A degree of 1 is the linear kernel plus the offset."
            )
        if not abs(float_of(self.offset)) <= LARGEST:
            raise ValueError(
                f"`offset` of Polynomial must be a finite number; got {shown(self.offset)}. 1 is the usual one."
            )

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s
        """
        np.add(geometry.inner_products, float(self.offset), out=out)
        _power(out, int(self.degree))

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        r"""Return k(x, x) for each row of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            :math:`(\|x\|^2 + c)^q`.
        """
        values = squared_norms(X) + float(self.offset)
        _power(values, int(self.degree))
        return values

    def _about(self, origin: np.ndarray) -> MovedPolynomial:
        return MovedPolynomial(origin, int(self.degree), float(self.offset))

    def _slope_forms(self, geometry: PairwiseGeometry) -> SlopeForms:
        q, sums = int(self.degree), geometry.inner_products + float(self.offset)
        once = q * sums ** (q - 1)
        twice = q * (q - 1) * sums ** max(q - 2, 0)
        return SlopeForms(0.0, once, once, twice)


@fill_docs(KERNEL)
class Linear(Kernel):
    r"""Linear kernel :math:`x \cdot z`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5]]))
    array([[4.]])
    """

    label = "linear"
    takes_sparse = True

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s
        """
        out[...] = geometry.inner_products

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            The squared lengths of the rows.
        """
        return squared_norms(X)

    def _about(self, origin: np.ndarray) -> MovedPolynomial:
        return MovedPolynomial(origin)

    def _slope_forms(self, geometry: PairwiseGeometry) -> SlopeForms:
        return SlopeForms(0.0, 1.0, 1.0)


@fill_docs(KERNEL)
class Cosine(Kernel):
    r"""Cosine of the angle between two rows, :math:`x \cdot z / (\|x\| \|z\|)`.

    A row of zeros has no direction, so its similarity to every row is 0, including to itself.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Cosine
    >>> Cosine()(np.array([[3.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]])).round(4)
    array([[0.7071, 0.    ]])
    """

    label = "cosine"
    takes_sparse = True

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s
        """
        of_x, of_z = geometry.squared_norms
        lengths = np.multiply.outer(np.sqrt(of_x), np.sqrt(of_z))
        out[...] = 0.0
        np.divide(geometry.inner_products, lengths, out=out, where=lengths > 0)

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            1, or 0 for a row of zeros.
        """
        return (squared_norms(X) > 0).astype(np.float64)


@fill_docs(KERNEL)
class Tanimoto(Kernel):
    r"""Tanimoto (Jaccard) kernel :math:`x \cdot z / (\|x\|^2 + \|z\|^2 - x \cdot z)`.

    Use it for counts and fingerprints. For zeros and ones it is the size of the intersection divided by the size of
    the union. Two rows of zeros are equal and have similarity 1.

    Notes
    -----
    It is positive semidefinite for all real data, not only for binary data: with :math:`s = x \cdot z` and
    :math:`n = \|x\|^2 + \|z\|^2` it is :math:`\sum_{k \ge 1} (s / n)^k`, which converges because
    :math:`|s| \le n / 2`; both :math:`s` and :math:`1/n` are positive semidefinite, and so are sums of their
    products.

    References
    ----------
    T. T. Tanimoto (1958), An elementary mathematical theory of classification and prediction, IBM report.

    L. Ralaivola, S. J. Swamidass, H. Saigo and P. Baldi (2005), Graph kernels for chemical informatics, Neural
    Networks 18(8).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Tanimoto
    >>> Tanimoto()(np.array([[1, 1, 0, 1]]), np.array([[1, 0, 0, 1]])).round(4)
    array([[0.6667]])
    """

    label = "tanimoto"
    takes_sparse, takes_units = True, True

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s
        """
        of_x, of_z = geometry.squared_norms
        union = np.add.outer(of_x, of_z) - geometry.inner_products
        out[...] = 1.0
        np.divide(geometry.inner_products, union, out=out, where=union > 0)


def _power(values: np.ndarray, degree: int) -> None:
    """Raise to a power in place, by squaring: `numpy.power` takes twenty times as long where values are negative."""
    base = values.copy() if degree & (degree - 1) else values  # not needed for powers of two
    with np.errstate(over="ignore"):  # an infinite kernel is reported by name where it is used
        for digit in f"{degree:b}"[1:]:
            np.multiply(values, values, out=values)
            if digit == "1":
                np.multiply(values, base, out=values)


@fill_docs(KERNEL)
class Overlap(Kernel):
    r"""Fraction of the columns in which two rows have the same value (one minus the normalized Hamming distance).

    .. math:: k(x, z) = \frac{1}{D} \sum_{j=1}^D [x_j = z_j]

    It compares categories, which are coded as numbers without an order. Its functions are sums of one effect for each
    category of each column. Functions of a product, ``Overlap() * Overlap()``, also have one effect for each pair of
    categories.

    Notes
    -----
    It is positive semidefinite: each term is the inner product of the indicators of two categories. Unseen categories
    match no training sample.

    References
    ----------
    J. Couto (2005), Kernel k-means for categorical data, Advances in Intelligent Data Analysis VI, LNCS 3646.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Overlap
    >>> Overlap()(np.array([[0, 2, 1, 1]]), np.array([[0, 2, 0, 1], [1, 0, 0, 2]]))
    array([[0.75, 0.  ]])
    """

    label = "overlap"
    takes_units = True

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`.

        Parameters
        ----------
        %(geometry)s
        %(out)s
        """
        np.subtract(1.0, cdist(geometry.X, geometry.Z, "hamming"), out=out)
