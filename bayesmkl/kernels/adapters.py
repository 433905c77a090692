"""Adapters that make one kind of kernel object of objects, functions and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.metrics.pairwise import pairwise_kernels

from bayesmkl._utils.given import check_numbers
from bayesmkl.kernels.base import Kernel, SlopeForms
from bayesmkl.kernels.distance import callable_name
from bayesmkl.kernels.functions import Gaussian, Linear, MovedPolynomial, Polynomial
from bayesmkl.kernels.geometry import PairwiseGeometry

# At scikit-learn's defaults.
PSD_NAMES = ("chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf")
PAIRWISE_NAMES = ("additive_chi2", *PSD_NAMES, "sigmoid")
_EXPECTED = "the result must have shape (n_rows, n_train) = {}"
_CALLED = (
    "It is called as kernel(X, Z) on tables: rows of X are query points, rows of Z samples. "
    "A function of two vectors becomes one through sklearn.metrics.pairwise.pairwise_kernels."
)
DIAGONAL_BLOCK = 64  # rows per call when only k(x, x) is wanted: 64 times the needed work, 1/64 of the calls


def paper_kernels() -> list[Kernel]:
    """Return the bank of the BEMKL experiments: Gaussian widths 2^-3 to 2^6, polynomial degrees 1 to 3."""
    return [*(Gaussian(width=2.0**k) for k in range(-3, 7)), *(Polynomial(degree=q) for q in (1, 2, 3))]


def auto_kernels() -> list[Kernel]:
    """Return kernels whose widths follow the data: Gaussians of .5, 1 and 2 median distances, and a linear one."""
    return [*(Gaussian(relative_width=width) for width in (0.5, 1.0, 2.0)), Linear()]


def adaptive_kernels() -> list[Kernel]:
    """Return kernels whose widths a model infers: a Gaussian with a width for every column, and a linear one."""
    return [Gaussian(width="each"), Linear()]


NAMED = {"auto": auto_kernels, "adaptive": adaptive_kernels, "paper": paper_kernels}


def as_kernels(kernels: object, name: str = "kernels") -> list[Kernel]:
    """Turn the `kernels` argument of a bank into fresh, unfitted kernel objects.

    Parameters
    ----------
    kernels : str, Kernel, callable, scikit-learn kernel, or a list or tuple of them
        "auto", "adaptive" and "paper" stand for the kernels of the functions above, alone or inside a list.
    name : str, default="kernels"
        What to call the argument in messages.

    Returns
    -------
    kernels : list of Kernel
        Copies: the caller's objects are never fitted.

    Raises
    ------
    ValueError
        For an empty list or an unknown name.
    TypeError
        For anything that is not a kernel.

    Examples
    --------
    >>> from bayesmkl.kernels.adapters import as_kernels
    >>> [kernel.label for kernel in as_kernels(["rbf", max])]
    ['rbf', 'max']
    """
    specs = list(kernels) if isinstance(kernels, (list, tuple)) else [kernels]
    if not specs:
        raise ValueError(
            f"`{name}` must hold at least one kernel; got an empty list. "
            'Use "auto" for three Gaussian kernels and a linear one.'
        )
    resolved: list[Kernel] = []
    for position, spec in enumerate(specs):
        named = NAMED.get(spec) if isinstance(spec, str) else None
        resolved += [_as_kernel(spec, position, name)] if named is None else named()
    for kernel in resolved:
        kernel.check_parameters()
    return resolved


def all_take_sparse(kernels: object) -> bool:
    """Return whether the `kernels` of a bank, or of each of its views, compare sparse rows.

    Examples
    --------
    >>> from bayesmkl.kernels import Laplacian
    >>> all_take_sparse("auto"), all_take_sparse({"a": "paper", "b": Laplacian()}), all_take_sparse("none")
    (True, False, False)
    """
    try:
        found = [
            [spec] if isinstance(spec, Kernel) else as_kernels(spec) for spec in _specs(kernels)
        ]  # no copies
        return {kernel.takes_sparse for own in found for kernel in own} <= {True}
    except (TypeError, ValueError):  # which a fit reports
        return False


def some_learn(kernels: object) -> bool:
    """Return whether the `kernels` of a bank have widths that a model infers.

    Examples
    --------
    >>> from bayesmkl.kernels import Gaussian, Linear
    >>> some_learn("auto"), some_learn("adaptive"), some_learn({"a": Linear(), "b": [Gaussian(width="each")]})
    (False, True, True)
    """
    return any(spec == "adaptive" or getattr(spec, "learns", None) is not None for spec in _specs(kernels))


def _specs(kernels: object) -> list[Any]:
    given = list(kernels.values()) if isinstance(kernels, Mapping) else [kernels]
    return [spec for own in given for spec in (own if isinstance(own, list | tuple) and own else [own])]


def _as_kernel(spec: object, position: int, name: str) -> Kernel:
    if isinstance(spec, str):
        if spec not in PAIRWISE_NAMES:
            raise ValueError(
                f"`{name}` names {spec!r}, which is not known; the names are "
                f'"auto", "adaptive", "paper" and scikit-learn\'s {", ".join(PAIRWISE_NAMES)}.'
            )
        return SklearnPairwise(spec)
    if isinstance(spec, type):
        raise TypeError(f"`{name}` holds the class {spec.__name__}; pass an instance, {spec.__name__}(...).")
    if isinstance(spec, Kernel):
        return clone(spec)
    if isinstance(spec, GaussianProcessKernel):
        return GaussianProcess(clone(spec))
    if callable(spec):
        return CallableKernel(spec, position)
    raise TypeError(
        f"`{name}` must hold kernel objects, callables (X, Z) -> (n_rows, n_train), names or "
        f"sklearn.gaussian_process kernels; got {spec!r} of type {type(spec).__name__}."
    )


class ForeignKernel(Kernel):
    """A kernel that other code computes: its result is checked, its diagonal taken from small blocks."""

    known_psd = False  # nothing is known of foreign code

    def values(self, X: np.ndarray, Z: np.ndarray) -> Any:
        """Call the foreign code."""
        raise NotImplementedError

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`, shape (n_rows, n_train)."""
        out[...] = self._checked_values(geometry.X, geometry.Z)

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return k(x, x) for each row of `X`, shape (n_rows,)."""
        blocks = (X[start : start + DIAGONAL_BLOCK] for start in range(0, len(X), DIAGONAL_BLOCK))
        return np.concatenate([self._checked_values(block, block).diagonal() for block in blocks])

    def _checked_values(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        shape, given = (len(X), len(Z)), self.values(X, Z)
        try:
            values = check_numbers("result", given).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{_EXPECTED.format(shape)}; {error} {_CALLED}") from error
        if values.shape != shape:
            raise ValueError(f"{_EXPECTED.format(shape)}; got {values.shape}. {_CALLED}")
        return values


class CallableKernel(ForeignKernel):
    """A user's function ``(X, Z) -> (n_rows, n_train)``.

    Parameters
    ----------
    function : callable
        Compares all rows of its first argument with all rows of its second.
    position : int
        Place in the list of kernels, by which a lambda is named.
    """

    def __init__(self, function: Callable[..., Any], position: int = 0) -> None:
        self.function = function
        self.position = position

    @property
    def label(self) -> str:
        """The function's name, or its place in the list where it has none."""
        name = callable_name(self.function)
        return f"callable[{self.position}]" if name == "<lambda>" else name

    def values(self, X: np.ndarray, Z: np.ndarray) -> Any:
        """Call the user's function."""
        return self.function(X, Z)


class SklearnPairwise(ForeignKernel):
    """A kernel that scikit-learn knows by name, at its default parameters.

    Parameters
    ----------
    metric : str
        One of `PAIRWISE_NAMES`.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric

    @property
    def label(self) -> str:
        """scikit-learn's name."""
        return self.metric

    @property
    def takes_units(self) -> bool:  # type: ignore[override]
        """True for kernels of counts."""
        return "chi2" in self.metric

    @property
    def known_psd(self) -> bool:  # type: ignore[override]
        """True for all names but "sigmoid" and "additive_chi2"."""
        return self.metric in PSD_NAMES

    def values(self, X: np.ndarray, Z: np.ndarray) -> Any:
        """Call scikit-learn."""
        return pairwise_kernels(X, Z, metric=self.metric)

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`, shape (n_rows, n_train)."""
        if self.metric == "rbf":  # scikit-learn expands the squared distance: few digits far from zero
            _rbf(geometry).evaluate(geometry, out)
        else:
            super().evaluate(geometry, out)

    def _about(self, origin: np.ndarray) -> MovedPolynomial | None:
        if self.metric == "linear":
            return MovedPolynomial(origin)
        if self.metric in ("poly", "polynomial"):
            return MovedPolynomial(origin, degree=3, offset=1.0, gamma=1.0 / len(origin))
        return None

    def _slope_forms(self, geometry: PairwiseGeometry) -> SlopeForms | None:
        if self.metric == "rbf":
            return _rbf(geometry).slope_forms(geometry)
        return Linear().slope_forms(geometry) if self.metric == "linear" else None


def _rbf(geometry: PairwiseGeometry) -> Gaussian:
    return Gaussian(gamma=1.0 / geometry.X.shape[1])


class GaussianProcess(ForeignKernel):
    """A kernel of `sklearn.gaussian_process`, at the hyperparameters it comes with.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Evaluated between two sets of points, so that a ``WhiteKernel`` term adds nothing: noise of single
        observations is no similarity between samples.
    """

    def __init__(self, kernel: GaussianProcessKernel) -> None:
        self.kernel = kernel

    @property
    def label(self) -> str:
        """The kernel in scikit-learn's notation."""
        return str(self.kernel)

    def values(self, X: np.ndarray, Z: np.ndarray) -> Any:
        """Call scikit-learn."""
        return self.kernel(X, Z)
