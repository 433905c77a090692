"""Sums of banks, which have the kernels of both, and products of a bank with a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from bayesmkl._utils.validation import shown
from bayesmkl.kernels.adapters import as_kernels
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.by_view import ParametersByView, read_by_view

__all__ = ["BankAlgebra", "product_with", "sum_of"]

SHARED = ("missing_views", "landmarks", "landmark_selection", "random_state")  # of all kernels of a bank


class BankAlgebra(ParametersByView):
    """Parameters of a bank by view, and what ``+`` and ``*`` make of them."""

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
        own = _named_views(bank)
        for view, columns in own.items():
            if view in views and not _same(views[view], columns):
                raise ValueError(
                    f"`views` of two banks must have the same columns where they have one name; got "
                    f"{shown(views[view])} and {shown(columns)} for {view!r}. Write them alike, or rename one."
                )
            steps = _entry(bank.normalize, view)
            if view in views and not _same(normalize[view], steps):
                raise ValueError(
                    f"`normalize` of two banks must be the same for a view of both; got {shown(normalize[view])} and "
                    f"{shown(steps)} for {view!r}. Rename one view."
                )
            views[view], normalize[view] = columns, steps
            more = _entry(bank.kernels, view)
            kernels.setdefault(view, []).extend(more if isinstance(more, (list, tuple)) else [more])
    steps = next(iter(normalize.values()))
    shared = {name: getattr(first, name) for name in SHARED}
    return type(first)(
        {view: own[0] if len(own) == 1 else own for view, own in kernels.items()},
        views,
        steps if all(_same(steps, other) for other in normalize.values()) else normalize,
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


def _entry(given: Any, view: str) -> Any:
    """Return what a parameter says of one view."""
    if not isinstance(given, Mapping):
        return given
    by_name = {str(name): value for name, value in given.items()}
    if view not in by_name:
        raise ValueError(
            f"`kernels` and `normalize` must have an entry for every view; got none for {view!r}."
        )
    return by_name[view]


def _same(one: Any, two: Any) -> bool:
    """Whether two values of a parameter are the same, be they arrays or not."""
    if isinstance(one, (str, slice, type(None))) or isinstance(two, (str, slice, type(None))):
        return type(one) is type(two) and one == two
    return np.shape(one) == np.shape(two) and bool(np.all(np.asarray(one) == np.asarray(two)))
