"""Products of kernels, gates by which kernels are multiplied so that functions are local, and sums of banks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import reduce
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import shown
from bayesmkl.kernels.adapters import as_kernels
from bayesmkl.kernels.base import KERNEL, Kernel, SlopeForms, fit_kernel
from bayesmkl.kernels.functions import SCALED, Gaussian, ScaledKernel
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.views import View, column_names, positions_of

Value = TypeVar("Value")


def read_by_view(name: str, given: object, read: Callable[[Any, str], Value]) -> Value | dict[str, Value]:
    """Read a parameter, or each of its values where it is a mapping from names of views.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    given : object or mapping of view name to object
    read : callable
        Takes a value and what to call it in messages, and returns what it stands for.

    Raises
    ------
    ValueError
        For a mapping that is empty.

    Examples
    --------
    >>> from bayesmkl.kernels.adapters import as_kernels
    >>> read_by_view("kernels", {"left": "linear", "right": ["rbf"]}, as_kernels)
    {'left': [SklearnPairwise(metric='linear')], 'right': [SklearnPairwise(metric='rbf')]}
    """
    if not isinstance(given, Mapping):
        return read(given, name)
    if not given:
        raise ValueError(f"`{name}` must have an entry for every view; got an empty mapping.")
    return {str(view): read(value, f"{name}[{view!r}]") for view, value in given.items()}


def per_view(name: str, values: Value | dict[str, Value], views: Sequence[View]) -> list[Value]:
    """Return the value for each view, the same for all of them where there is no mapping.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    values : object or dict
        Result of `read_by_view`.
    views : sequence of View

    Raises
    ------
    ValueError
        For a view without an entry, and an entry without a view.

    Examples
    --------
    >>> import numpy as np
    >>> views = [View("left", np.array([0])), View("right", np.array([1]))]
    >>> per_view("normalize", {"right": None, "left": "trace"}, views)
    ['trace', None]
    >>> per_view("normalize", {"left": "trace"}, views)
    Traceback (most recent call last):
        ...
    ValueError: `normalize` must have an entry for every view; got none for 'right'. Its entries are 'left'. ...
    """
    if not isinstance(values, dict):
        return [values] * len(views)
    known = [view.name for view in views]
    unknown = [view for view in values if view not in known]
    if unknown:
        close = get_close_matches(unknown[0], known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"The views are {_listed(known)}."
        raise ValueError(
            f"`{name}` must have entries for views only; got one for {unknown[0]!r}, which is not a view. {hint}"
        )
    without = [view for view in known if view not in values]
    if without:
        raise ValueError(
            f"`{name}` must have an entry for every view; got none for {_listed(without)}. Its entries are "
            f"{_listed(values)}. Add one, or leave the view out of `views`."
        )
    return [values[view] for view in known]


def _listed(names: Sequence[str] | Mapping[Any, Any]) -> str:
    return shown([str(name) for name in names])[1:].removesuffix("]")


@fill_docs(KERNEL)
class Product(Kernel):
    r"""Product of two kernels, :math:`k(x, z) = k_1(x, z)\, k_2(x, z)`, also written ``left * right``.

    Its functions are sums of products of functions. ``Gaussian() * Linear()``, for example, has linear functions
    whose weights change smoothly with the features. Both factors use the same columns. A product of positive
    semidefinite kernels is positive semidefinite.

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
    def takes_units(self) -> bool:  # type: ignore[override]
        """True where a factor does."""
        return self.left.takes_units or self.right.takes_units

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
                    f"`{name}` of Product must be a kernel object such as Gaussian(); got {shown(factor)}. "
                    "Pass an object instead of a name, and leave out numbers, because models learn scales."
                )
            factor.check_parameters()
            if getattr(factor, "learns", None) is not None:
                raise ValueError(
                    f"`{name}` of Product must have a given width; got {shown(factor)}. Only kernels that are not "
                    "factors learn it: use Gaussian(relative_width=1)."
                )

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
        factors = copy.copy(self.left), copy.copy(self.right)
        for factor in factors:
            fit_kernel(factor, X, sample_weight)  # type: ignore[arg-type]  # which kernels read as tables
        self.left_, self.right_ = factors
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


MOST_NAMES = 3  # of columns in the name of a kernel


@fill_docs(SCALED)
class Gate(ScaledKernel):
    r"""Let the functions of a kernel change with other columns, as in ``Gaussian(2) * Gate("hour")``.

    .. math:: k(x, z) \exp(-\|g(x) - g(z)\|^2 / (2 w^2)) ,

    where :math:`g` are the gate columns, which need not be in the view of the kernel. Samples far apart in these
    columns have separate functions, so a global weight of the product acts as a local weight of the kernel. Put the
    product beside the kernel itself to learn how much of the effect is local. A width far above all distances gives
    the kernel itself.

    Parameters
    ----------
    columns : str, int, slice, or sequence of str, int or bool
        The gate columns of the samples that the bank gets: names or positions, as in the `views` of a `KernelBank`.
    width : float, default=None
        The width :math:`w`, in the units of the gate columns.
    gamma : float, default=None
        Alternatively the factor in :math:`\exp(-\gamma \|g(x) - g(z)\|^2)`.
    relative_width : float, default=None
        Alternatively the width in units of the median distance between two training samples in the gate columns. It
        is 1 if no other scale is given.

    Notes
    -----
    A gate only works in a bank, which finds its columns, and as a factor of another kernel, which may have several
    gates. Gate columns must be known for every sample that has the view, and must differ between training samples.
    Unlike `gate_columns` of localized methods, they are not left out of views: ``views="all"`` includes them.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gate, Gaussian, KernelBank
    >>> X = np.array([[0.0, 1.0, 8.0], [1.0, 0.0, 20.0]])  # two features and the hour
    >>> kernels = [Gaussian(width=2), Gaussian(width=2) * Gate(2, width=6)]
    >>> bank = KernelBank(kernels, views={"camera": [0, 1]}, normalize=None)
    >>> bank.fit_transform(X)[0, 1].round(4)  # exp(-1/4), and that times exp(-2)
    array([0.7788, 0.1054])
    >>> bank.kernel_names_
    ['gaussian(width=2) · camera', 'gaussian(width=2) × gate(x2, width=6) · camera']
    """

    NAME = "Gate"
    METRIC = "euclidean"
    has_gates = True

    def __init__(
        self,
        columns: Any,
        width: float | None = None,
        gamma: float | None = None,
        relative_width: float | None = None,
    ) -> None:
        super().__init__(width, gamma, relative_width)
        self.columns = columns

    @property
    def label(self) -> str:
        """Name for tables and plots, with the columns as they were given."""
        several = isinstance(self.columns, (list, tuple, np.ndarray))
        return self.label_of([str(one) for one in self.columns] if several else [str(self.columns)])

    def label_of(self, names: Sequence[str]) -> str:
        """Return the name of the gate of columns with these names.

        Parameters
        ----------
        names : sequence of str
            All of them are in it where they are three or fewer.

        Returns
        -------
        str
            With the scale, where one was given.
        """
        what = ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} columns"
        if self._has_scale():
            _, _, scale = self._kernel().label.partition("(")
            return f"gate({what}, {scale}"
        return f"gate({what})"

    def fit(self, X: Samples, y: Targets | None = None, sample_weight: np.ndarray | None = None) -> Gate:
        """Check the parameters; the bank learns the width.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            Ignored.
        y : None
            Ignored.
        sample_weight : ndarray of shape (n_train,), default=None
            Ignored.

        Returns
        -------
        self : Gate
            The gate itself.

        Raises
        ------
        ValueError
            For a parameter of the constructor that is out of range.
        """
        self.check_parameters()
        return self

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Raise: outside a bank nothing tells gate columns from others.

        Parameters
        ----------
        %(geometry)s
        %(out)s

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"{shown(self)} works only in a bank, which finds its columns. Multiply a kernel by it there, "
            "`KernelBank(Gaussian() * Gate(columns))`."
        )

    def _has_scale(self) -> bool:
        return any(value is not None for value in (self.width, self.gamma, self.relative_width))

    def _kernel(self) -> Gaussian:
        """Return the kernel of the gate columns."""
        if self._has_scale():
            return Gaussian(self.width, self.gamma, self.relative_width)
        return Gaussian(relative_width=1.0)


class Gated(Kernel):
    """Kernel on a view times kernels of gate columns, which come after those of the view.

    A bank makes it of a product with gates.

    Parameters
    ----------
    kernel : Kernel
        That on the view.
    gates : list of Gaussian
        Those of the gate columns.
    gate_columns : ndarray of int, of shape (n_gate_columns,)
        Positions of all gate columns in `X`, gate after gate.
    gate_names : list of list of str
        Names of the columns of each gate.
    n_own : int
        Number of columns of the view.
    name : str
        The label.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> kernel = Gated(Linear(), [Gaussian(width=1)], np.array([5]), [["hour"]], 1, "linear × gate(hour)")
    >>> kernel(np.array([[2.0, 0.0]]), np.array([[3.0, 0.0], [3.0, 1.0]])).round(4)  # 6, and 6 exp(-1/2)
    array([[6.    , 3.6392]])
    """

    def __init__(
        self,
        kernel: Kernel,
        gates: list[Gaussian],
        gate_columns: np.ndarray,
        gate_names: list[list[str]],
        n_own: int,
        name: str,
    ) -> None:
        self.kernel = kernel
        self.gates = gates
        self.gate_columns = gate_columns
        self.gate_names = gate_names
        self.n_own = n_own
        self.name = name

    @property
    def label(self) -> str:
        """The names of all factors, with the names of gate columns."""
        return self.name

    @property
    def known_psd(self) -> bool:
        """True where the kernel on the view is known to be positive semidefinite."""
        return self.kernel.known_psd

    def factors(self) -> list[Kernel]:
        """Return the factors on the view, and those of the gate columns.

        Returns
        -------
        list of Kernel
        """
        return [*self.kernel.factors(), *self.gates]

    def of_view(self, geometry: PairwiseGeometry) -> PairwiseGeometry:
        """Return what the columns of the view make of rows.

        Parameters
        ----------
        geometry : PairwiseGeometry
            Of all columns.

        Returns
        -------
        PairwiseGeometry
        """
        return geometry.part(slice(0, self.n_own))

    def fit(self, X: Samples, y: Targets | None = None, sample_weight: np.ndarray | None = None) -> Gated:
        """Fit all factors, each to its own columns.

        Parameters
        ----------
        X : ndarray of shape (n_train, n_columns)
            Those of the view, and those of the gates.
        y : None
            Ignored.
        sample_weight : ndarray of shape (n_train,), default=None
            How often each point counts in what factors learn; None is once.

        Returns
        -------
        self : Gated

        Raises
        ------
        ValueError
            For gate columns that are the same in all points.
        """
        rows = np.asarray(X)
        for kernel, own in self._own(rows):
            fit_kernel(kernel, own, sample_weight)
        counted = rows if sample_weight is None else rows[sample_weight > 0.0]
        for (_, own), names in zip(self._own(counted)[1:], self.gate_names, strict=True):
            if len(own) > 1 and (own == own[0]).all():
                raise ValueError(
                    f"`columns` of Gate must differ between training samples; {', '.join(map(repr, names))} "
                    f"{'is' if len(names) == 1 else 'are'} the same in all of them. Leave the gate out"
                )
        return self

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`, shape (n_rows, n_train)."""
        self.kernel.evaluate(self.of_view(geometry), out)
        out *= self._gate_values(geometry)

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`, that of the kernel on the view, shape (n_rows,)."""
        return self.kernel.diagonal(X[:, : self.n_own])

    def _slope_forms(self, geometry: PairwiseGeometry) -> Any:
        """Return derivatives by the columns of the view, gate columns held where they are."""
        forms = self.kernel.slope_forms(self.of_view(geometry))
        if forms is None:
            return None
        values = self._gate_values(geometry)
        return forms._replace(**{name: values * getattr(forms, name) for name in forms._fields[:5]})

    def _gate_values(self, geometry: PairwiseGeometry) -> np.ndarray:
        """Return the product of all gates, (n_rows, n_train)."""
        values = np.zeros(geometry.shape)
        for gate, block in zip(self.gates, self._blocks()[1:], strict=True):
            values -= gate.factor * geometry.part(block).squared_distances
        return np.exp(values, out=values)

    def _own(self, X: np.ndarray) -> list[tuple[Kernel, np.ndarray]]:
        kernels = [self.kernel, *self.gates]
        return [(one, X[:, block]) for one, block in zip(kernels, self._blocks(), strict=True)]

    def _blocks(self) -> list[slice]:
        """Return the columns of the kernel on the view, and of every gate."""
        ends = np.cumsum([0, self.n_own, *map(len, self.gate_names)]).tolist()
        return [slice(first, last) for first, last in pairwise(ends)]


def placed(kernel: Kernel, view: View, n_features: int, labels: Sequence[Any] | None) -> Kernel:
    """Return a kernel with gates as it is evaluated on a view, its columns found.

    Parameters
    ----------
    kernel : Kernel
        A product with gates, not fitted, or a gate. It is left as it is.
    view : View
    n_features : int
        Number of columns of the samples.
    labels : sequence of length n_features or None
        Column labels of a DataFrame.

    Raises
    ------
    ValueError
        For gates that multiply nothing, and columns that are not there or come twice.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import Linear
    >>> kernel = placed(Linear() * Gate("hour"), View("left", np.array([0])), 2, ["size", "hour"])
    >>> kernel.label, kernel.gate_columns
    ('linear × gate(hour)', array([1]))
    """
    factors = kernel.factors()
    gates = [one for one in factors if isinstance(one, Gate)]
    kernel.check_parameters()
    own = [copy.copy(one) for one in factors if not isinstance(one, Gate)]
    if not own:
        raise ValueError(
            f"`kernels` must have kernels for gates to multiply; got {shown(kernel)} alone. Multiply a "
            "kernel by it, `Gaussian() * Gate(columns)`, or make a view of its columns."
        )
    columns, names, every = [], [], column_names(n_features, labels)
    for gate in gates:
        found = positions_of("columns of Gate", gate.columns, n_features, labels)
        if len(np.unique(found)) < len(found):
            raise ValueError(f"`columns of Gate` must name each column once; got {shown(gate.columns)}.")
        columns.append(found)
        names.append([every[j] for j in found])
    labels_of_gates = iter([gate.label_of(own_names) for gate, own_names in zip(gates, names, strict=True)])
    label = " × ".join(next(labels_of_gates) if isinstance(one, Gate) else one.label for one in factors)
    fitted = [gate._kernel() for gate in gates]
    return Gated(reduce(Product, own), fitted, np.concatenate(columns), names, len(view.columns), label)


# parameters of all kernels of a bank
SHARED = ("missing_views", "scale", "landmarks", "landmark_selection", "random_state")


BY_VIEW = ("kernels", "normalize")  # parameters that may be mappings


class BankAlgebra(BaseEstimator):
    """What ``+`` and ``*`` make of banks, and names for entries of mappings, such as ``kernels__expression``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of a single kernel are among them, and the entries of mappings, as ``kernels__expression``.

        Returns
        -------
        dict of str to object
            The parameters themselves, not copies.
        """
        found = super().get_params(deep=deep)
        for name in BY_VIEW if deep else ():
            if isinstance(found[name], Mapping):
                found |= {f"{name}__{view}": value for view, value in found[name].items()}
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name.

        Parameters
        ----------
        **params : dict
            As `get_params` names them. A mapping is replaced by one with other entries, not changed itself.

        Returns
        -------
        self : estimator
            With these parameters; what was learned stays until the next `fit`.

        Raises
        ------
        ValueError
            For an unknown name.
        """
        for name in BY_VIEW:
            given = params.get(name, getattr(self, name))
            if isinstance(given, Mapping):
                params[name] = {view: params.pop(f"{name}__{view}", value) for view, value in given.items()}
                if unknown := [key for key in params if key.startswith(f"{name}__")]:
                    raise ValueError(
                        f"Invalid parameter {unknown[0]!r}; `{name}` has entries for {_listed(given)}."
                    )
        return super().set_params(**params)

    def __add__(self, other: object) -> Any:
        """Return a bank with the kernels of both; see `sum_of`."""
        return sum_of(self, other) if isinstance(other, BankAlgebra) else NotImplemented

    def __mul__(self, other: object) -> Any:
        """Return a bank whose kernels are multiplied by one; see `product_with`."""
        if not isinstance(other, Kernel):
            raise TypeError(
                f"a bank is multiplied by a kernel object, such as Gate('age') or Gaussian(); got {shown(other)}."
            )
        return product_with(self, other)

    __rmul__ = __mul__


def sum_of(first: Any, second: Any) -> Any:
    """Return a bank with the kernels of two.

    Parameters
    ----------
    first, second : KernelBank
        Their views are named, or "all". Views of one name have the same columns, and get the kernels of both.

    Raises
    ------
    ValueError
        For views without names of their own, views of one name with other columns or another normalization, and
        banks of other landmarks or another meaning of NaN.

    Examples
    --------
    >>> from bayesmkl.kernels import KernelBank, Linear, Tanimoto
    >>> prints = KernelBank(Tanimoto(), views={"fingerprint": slice(0, 64)})
    >>> prints + KernelBank(Linear(), views={"expression": slice(64, None)})
    KernelBank(kernels={'expression': Linear(), 'fingerprint': Tanimoto()},
               views={'expression': slice(64, None, None),
                      'fingerprint': slice(0, 64, None)})
    """
    for name in SHARED:
        one, two = getattr(first, name), getattr(second, name)
        if not _same(one, two):
            raise ValueError(
                f"`{name}` of two banks must be the same for a sum; got {shown(one)} and {shown(two)}. Set it, "
                f"`bank.set_params({name}=...)`."
            )
    views: dict[str, Any] = {}
    kernels: dict[str, list[Any]] = {}
    normalize: dict[str, Any] = {}
    for bank in (first, second):
        listed = [View(view, columns) for view, columns in _named_views(bank).items()]
        steps, more = (
            per_view(name, read_by_view(name, getattr(bank, name), lambda value, _: value), listed)
            for name in ("normalize", "kernels")
        )
        for (view, columns), own, added in zip(listed, steps, more, strict=True):
            for name, known, value in (("views", views, columns), ("normalize", normalize, own)):
                if view in known and not _same(known[view], value):
                    raise ValueError(
                        f"`{name}` of two banks must be the same for a view of both; got {shown(known[view])} and "
                        f"{shown(value)} for {view!r}. Write them alike, or rename one view."
                    )
                known[view] = value
            kernels.setdefault(view, []).extend(added if isinstance(added, (list, tuple)) else [added])
    shared_steps = next(iter(normalize.values()))
    shared = {name: getattr(first, name) for name in SHARED}
    return type(first)(
        {view: own[0] if len(own) == 1 else own for view, own in kernels.items()},
        views,
        shared_steps if all(_same(shared_steps, other) for other in normalize.values()) else normalize,
        **shared,
    )


def product_with(bank: Any, kernel: Any) -> Any:
    """Return a bank whose kernels are multiplied by one that sees the same columns, or gates.

    Parameters
    ----------
    bank : KernelBank
    kernel : Kernel

    Examples
    --------
    >>> from bayesmkl.kernels import Gate, KernelBank
    >>> (KernelBank(["linear"]) * Gate("hour")).kernels
    [Product(left=SklearnPairwise(metric='linear'), right=Gate(columns='hour'))]
    """
    multiplied = read_by_view(
        "kernels", bank.kernels, lambda own, name: [one * kernel for one in as_kernels(own, name)]
    )
    return clone(bank).set_params(kernels=multiplied)


def _named_views(bank: Any) -> dict[str, Any]:
    if isinstance(bank.views, str) and bank.views == "all":
        return {"all": slice(None)}
    if isinstance(bank.views, Mapping):
        return {str(view): columns for view, columns in bank.views.items()}
    raise ValueError(
        f'`views` of banks must be named or "all" for a sum; got {shown(bank.views)}. Name them, '
        "`views={name: columns}`."
    )


def _same(one: Any, two: Any) -> bool:
    """Whether two values of a parameter are the same, be they arrays or not."""
    if isinstance(one, (str, slice, type(None))) or isinstance(two, (str, slice, type(None))):
        return type(one) is type(two) and one == two
    return np.shape(one) == np.shape(two) and bool(np.all(np.asarray(one) == np.asarray(two)))
