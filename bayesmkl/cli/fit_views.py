"""Views of `bayesmkl fit` and their kernels, as options name them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from bayesmkl.cli.config_models import did_you_mean
from bayesmkl.kernels import Gaussian, KernelBank, Tanimoto
from bayesmkl.kernels.adapters import NAMED, PAIRWISE_NAMES
from bayesmkl.kernels.tables import TableBank, make_bank

OWN: dict[str, Any] = {"gaussian": Gaussian(relative_width=1.0), "tanimoto": Tanimoto()}
NAMES = (*NAMED, *OWN, *PAIRWISE_NAMES)
OF_COUNTS = ("additive_chi2", "chi2", "tanimoto")  # kernels that standardized columns mean nothing to


def bank_of_options(
    view: Sequence[str], kernels: Sequence[str], kernels_on: str, columns: Sequence[str]
) -> KernelBank:
    """Return the kernels on the views that options name.

    Parameters
    ----------
    view : sequence of str
        "NAME=COLUMN" each; a view may be named several times, and * and ? stand for any letters.
    kernels : sequence of str
        "VIEW=KERNEL" each; "auto" for views that are not named.
    kernels_on : {"all", "each", "all+each"}
        The views without `view`.
    columns : sequence of str
        Those that views may have.

    Raises
    ------
    ValueError
        For what is not of this form, columns that are not there, and kernels or their views that are not known.

    Examples
    --------
    >>> bank_of_options(["a=mean *", "b=age"], ["b=linear"], "all", ["mean x", "mean y", "age"])
    KernelBank(kernels={'a': ['auto'], 'b': ['linear']},
               views={'a': ['mean x', 'mean y'], 'b': ['age']})
    """
    if not view and not kernels:
        return KernelBank("auto", views=kernels_on)
    views = _views(view, columns)
    together, each = (["all"] if "all" in kernels_on else []), (columns if "each" in kernels_on else [])
    of_view = {name: list[Any]() for name in views or [*together, *each]}
    for name, word in pairs_of("--kernels", kernels, "VIEW=KERNEL, such as bits=tanimoto"):
        if name not in of_view:
            raise ValueError(
                f"--kernels is for the view {name!r}, which is none; {did_you_mean(name, of_view)}"
            )
        if word not in NAMES:
            raise ValueError(
                f"--kernels {name}={word} names no kernel; {did_you_mean(word, NAMES)} Others are for Python."
            )
        of_view[name].append(OWN.get(word, word))
    by_view = {name: own or ["auto"] for name, own in of_view.items()}
    return KernelBank(by_view, views=views or kernels_on)


def bank_of_types(features: Any, categories: Sequence[str]) -> TableBank:
    """Return kernels and an encoder by the types of columns; raise for `categories` that are no columns."""
    for name in categories:
        if name not in features.columns:
            raise ValueError(
                f"--category names the column {name!r}, from which nothing is predicted; "
                f"{did_you_mean(name, list(features.columns))}"
            )
    return make_bank(features, types=dict.fromkeys(categories, "categories"))


def columns_as_they_are(bank: KernelBank, columns: Sequence[str]) -> list[str]:
    """Return the columns of views with kernels of counts, which are not standardized.

    Examples
    --------
    >>> bank = bank_of_options(["a=bit*", "b=age"], ["a=tanimoto"], "all", ["bit0", "bit1", "age"])
    >>> columns_as_they_are(bank, ["bit0", "bit1", "age"])
    ['bit0', 'bit1']
    """
    if not isinstance(bank.kernels, dict):
        return []
    views = (
        bank.views if isinstance(bank.views, dict) else {name: [name] for name in columns} | {"all": columns}
    )
    kept = {
        column
        for name, own in bank.kernels.items()
        if any(
            kernel in OF_COUNTS if isinstance(kernel, str) else isinstance(kernel, Tanimoto) for kernel in own
        )
        for column in views[name]
    }
    return [column for column in columns if column in kept]


def _views(given: Sequence[str], columns: Sequence[str]) -> dict[str, list[str]]:
    views: dict[str, list[str]] = {}
    for name, pattern in pairs_of("--view", given, "NAME=COLUMN, such as mean='mean_*'"):
        found = [column for column in columns if column == pattern]
        found = found or [column for column in columns if fnmatchcase(column, pattern)]
        if not found:
            raise ValueError(
                f"--view {name}={pattern} names no column to predict from; {did_you_mean(pattern, columns)}"
            )
        own = views.setdefault(name, [])
        own += [column for column in found if column not in own]
    return views


def pairs_of(option: str, given: Sequence[str], form: str) -> list[tuple[str, str]]:
    """Cut texts of the form NAME=WORD in two.

    Examples
    --------
    >>> pairs_of("--slope", ["subject=week"], "GROUP=COVARIATE")
    [('subject', 'week')]
    """
    pairs = []
    for text in given:
        name, _, word = (part.strip() for part in text.partition("="))
        if not name or not word:
            raise ValueError(f"{option} must be {form}; got {text!r}.")
        pairs.append((name, word))
    return pairs
