"""Gates: kernels of other columns by which the kernel of a view is multiplied, so that its functions are local."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import shown
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.functions import SCALED, Gaussian, ScaledKernel
from bayesmkl.kernels.geometry import PairwiseGeometry
from bayesmkl.kernels.product import Product
from bayesmkl.kernels.training import fit_weighted
from bayesmkl.kernels.views import View, column_names, positions_of

__all__ = ["Gate", "Gated", "placed"]

MOST_NAMES = 3  # of columns in the name of a kernel


@fill_docs(SCALED)
class Gate(ScaledKernel):
    r"""Factor that lets the functions of a kernel change with other columns, ``Gaussian(2) * Gate("hour")``.

    .. math:: k(x, z) \exp(-\|g(x) - g(z)\|^2 / (2 w^2)) ,

    where :math:`g` are the gate columns, which the view of the kernel need not have. Samples far apart in these have
    functions of their own, so that a global weight of the product is a local one of the kernel: beside the kernel
    alone it says whether anything is local, and how much. A width far above all distances gives the kernel itself.

    Parameters
    ----------
    columns : str, int, slice, or sequence of str, int or bool
        The gate columns of the samples that the bank gets: names or positions, as in the `views` of a `KernelBank`.
    width : float, default=None
        The width :math:`w`, in the units of the gate columns.
    gamma : float, default=None
        Alternatively the factor in :math:`\exp(-\gamma \|g(x) - g(z)\|^2)`.
    relative_width : float, default=None
        Alternatively the width in units of the median distance between two training samples in the gate columns. 1
        when no other scale is given.

    Notes
    -----
    A gate belongs to a bank, which finds its columns, and is a factor of another kernel, which may have several. Gate
    columns must be known for every sample that has the view, and differ between training samples. They are not
    left out of views, as `gate_columns` of localized methods are: ``views="all"`` has them, too.

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
            f"{shown(self)} needs a bank, which finds its columns. Multiply a kernel by it and give that to one, "
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
            kernel.fit(own) if sample_weight is None else fit_weighted(kernel, own, sample_weight)
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
            f"`kernels` must have kernels that gates multiply; got {shown(kernel)} alone. Multiply one by it, "
            "`Gaussian() * Gate(columns)`, or make a view of its columns."
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
