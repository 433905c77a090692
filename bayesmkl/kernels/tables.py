"""Views of a table by the types of its columns: numbers, categories and dates, each with kernels that suit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler

from bayesmkl._utils.given import refuse_unevaluated
from bayesmkl._utils.validation import check_integer, shown
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.categories import Overlap
from bayesmkl.kernels.views import NUMERIC_TYPES, positions_of

__all__ = ["TableBank", "as_days", "make_bank"]

TYPES = ("numbers", "categories", "dates")
UNSEEN, MISSING = -1, -2  # codes of categories that no training sample has, and of no category


class TableBank(NamedTuple):
    """What encodes a table, and the kernels of what comes out; printed, it says what was chosen."""

    encoder: ColumnTransformer  # unfitted; a DataFrame of numbers with the names of the columns comes out
    bank: KernelBank  # unfitted, with a view for each type of columns
    left_out: dict[str, str]  # column name -> why it is in no view

    def __str__(self) -> str:
        views: Any = self.bank.views
        lines = [f"{name}: {self.bank.kernels[name]!r} of {', '.join(own)}" for name, own in views.items()]
        lines += [f"left out: {name} ({why})" for name, why in self.left_out.items()]
        return "\n".join(lines)


def make_bank(
    frame: Any,
    views: Mapping[str, Any] | None = None,
    *,
    types: Mapping[str, str] | None = None,
    max_categories: int = 20,
) -> TableBank:
    """Choose views and kernels by the types of a table's columns, and what turns the table into numbers.

    Numbers get the "auto" kernels of :class:`KernelBank` (Gaussians of half, once and twice the median distance and
    a linear kernel), after missing ones were replaced by the median and each column was standardized. Categories,
    texts with few different values and yes-or-no columns get :class:`Overlap`; a missing category is one of its
    own, and one that training samples do not have is like nothing. Dates become days, and then are numbers. All of
    this is learned from training samples where the encoder is fitted: put it into a pipeline.

    Parameters
    ----------
    frame : pandas or polars DataFrame of shape (n_samples, n_features)
        Only the types of its columns are looked at, and how many different texts there are. Columns have different
        names that are text.
    views : mapping of view name to columns, default=None
        Columns are names, positions, a slice, or a boolean mask. A view with columns of several types becomes one
        for each type, such as "clinic: numbers" and "clinic: categories". None: one view for each type.
    types : mapping of column name to {"numbers", "categories", "dates"}, default=None
        What columns are, where their types do not tell: grades that are coded as numbers are categories.
    max_categories : int, default=20
        Text columns with more different values are in no view: identifiers, or free text that is to be turned
        into numbers first. So are columns with one value.

    Returns
    -------
    TableBank
        The encoder, the bank, and what was left out and why. ``print`` shows the choice, and the `repr` of the bank
        is code to start from.

    Raises
    ------
    TypeError
        If `frame` is no DataFrame.
    ValueError
        For columns without names, names in `types` or `views` that `frame` does not have, unknown types, `views` that
        share a column, or no column that can be used.

    See Also
    --------
    KernelBank : What it makes.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from bayesmkl import BEMKLClassifier
    >>> from bayesmkl.kernels import make_bank
    >>> frame = pd.DataFrame({"age": [31, 54, 47, 62] * 9, "site": ["a", "b", "b", "a"] * 9, "id": range(36)})
    >>> made = make_bank(frame.astype({"id": str}))
    >>> print(made)
    numbers: 'auto' of age
    categories: Overlap() of site
    left out: id (36 different texts: an identifier, or free text)
    >>> made.bank
    KernelBank(kernels={'categories': Overlap(), 'numbers': 'auto'},
               views={'categories': ['site'], 'numbers': ['age']})
    >>> model = make_pipeline(made.encoder, BEMKLClassifier(made.bank)).fit(frame, [0, 1, 1, 0] * 9)
    >>> model.predict(pd.DataFrame({"age": [40], "site": ["c"], "id": [0]})).shape
    (1,)
    """
    refuse_unevaluated("frame", frame)
    if not hasattr(frame, "columns") or not hasattr(frame, "dtypes"):
        raise TypeError(
            f"`frame` must be a pandas or polars DataFrame; got {type(frame).__name__}. Arrays have no types of "
            "columns: use KernelBank(views=...)."
        )
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(
            f"`frame` must have columns with different names that are text; got {shown(names)}. Rename them, such as "
            "`frame.columns.astype(str)`."
        )
    check_integer("max_categories", max_categories, low=2)
    given = {} if types is None else dict(types)
    for name, kind in given.items():
        if name not in names:
            raise ValueError(
                f"`types` names the column {name!r}, which `frame` does not have; got {shown(names)}."
            )
        if kind not in TYPES:
            raise ValueError(f"`types` must hold {', '.join(map(repr, TYPES))}; got {kind!r} for {name!r}.")
    used = _used(views, names)
    left_out = {name: "in no view" for name in names if not any(name in columns for columns in used.values())}
    found: dict[str, str] = {}
    for name in names:
        if name in left_out:
            continue
        kind, why = (given[name], "") if name in given else _type_of(frame[name], max_categories)
        if kind:
            found[name] = kind
        else:
            left_out[name] = why
    if not found:
        raise ValueError(
            f"`frame` must have a column that can be used; all are left out: "
            f"{', '.join(f'{name} ({why})' for name, why in left_out.items())}. Say what they are with `types`."
        )
    by_view = {
        (view, kind): own
        for view, columns in used.items()
        for kind in TYPES
        if (own := [name for name in columns if found.get(name) == kind])
    }
    n_types = {view: sum(own == view for own, _ in by_view) for view in used}
    title = {
        (view, kind): kind if views is None else view if n_types[view] == 1 else f"{view}: {kind}"
        for view, kind in by_view
    }
    bank = KernelBank(
        {title[key]: Overlap() if key[1] == "categories" else "auto" for key in by_view},
        views={title[key]: own for key, own in by_view.items()},
    )
    return TableBank(_encoder(found), bank, left_out)


def _used(views: Mapping[str, Any] | None, names: list[str]) -> dict[str, list[str]]:
    """Return the columns of each view by their names."""
    if views is None:
        return {"all": names}
    if not isinstance(views, Mapping) or not views:
        raise ValueError(
            f"`views` must be a mapping {{view name: columns}} with at least one entry, or None; got {shown(views)}."
        )
    used: dict[str, list[str]] = {}
    for view, columns in views.items():
        positions = positions_of(f"views[{view!r}]", columns, len(names), names)
        used[str(view)] = [names[j] for j in positions]
    all_names = [name for columns in used.values() for name in columns]
    twice = next((name for name in all_names if all_names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"`views` must not share columns; {twice!r} comes {all_names.count(twice)} times.")
    return used


def _type_of(column: Any, max_categories: int) -> tuple[str, str]:
    """Return the type of a column, or nothing and why it has none."""
    values = pd.Series(np.asarray(column, dtype=object)).dropna()
    n_different = values.astype(str).nunique()
    if n_different < 2:
        return "", "one value" if n_different else "no values"
    dtype = str(column.dtype).lower()
    if dtype.startswith("bool"):
        return "categories", ""
    if dtype.startswith(NUMERIC_TYPES):
        return "numbers", ""
    if dtype.startswith("date"):
        return "dates", ""
    if dtype.startswith(("categor", "enum")):
        return "categories", ""
    if all(isinstance(value, (bool, np.bool_)) for value in values):
        return "categories", ""
    if all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in values):
        return "numbers", ""
    if not all(isinstance(value, str) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        return "", f"holds {' and '.join(kinds)}"
    if n_different > max_categories:
        return "", f"{n_different} different texts: an identifier, or free text"
    return "categories", ""


def _encoder(found: Mapping[str, str]) -> ColumnTransformer:
    """Return what turns columns of these types into numbers."""

    def of(kind: str) -> list[str]:
        return [name for name, own in found.items() if own == kind]

    def numbers() -> list[tuple[str, Any]]:
        return [
            ("impute", SimpleImputer(strategy="median", keep_empty_features=True)),
            ("scale", StandardScaler()),
        ]

    steps: Sequence[tuple[str, Any, list[str]]] = (
        ("numbers", Pipeline(numbers()), of("numbers")),
        (
            "categories",
            OrdinalEncoder(
                handle_unknown="use_encoded_value", unknown_value=UNSEEN, encoded_missing_value=MISSING
            ),
            of("categories"),
        ),
        (
            "dates",
            Pipeline([("days", FunctionTransformer(as_days, feature_names_out="one-to-one")), *numbers()]),
            of("dates"),
        ),
    )
    kept = [step for step in steps if step[2]]
    return ColumnTransformer(kept, verbose_feature_names_out=False).set_output(transform="pandas")


def as_days(frame: Any) -> pd.DataFrame:
    """Turn columns of dates into days since the beginning of 1970.

    Parameters
    ----------
    frame : pandas or polars DataFrame of shape (n_samples, n_columns)
        Dates and times, of any time zone, or texts that say them.

    Returns
    -------
    DataFrame of shape (n_samples, n_columns)
        With fractions of days; NaN where there is no date.

    Examples
    --------
    >>> import pandas as pd
    >>> as_days(pd.DataFrame({"visit": pd.to_datetime(["1970-01-02 12:00", None])}))
       visit
    0    1.5
    1    NaN
    """
    start, day = pd.Timestamp(0, tz="UTC"), pd.Timedelta(days=1)
    days = {
        name: (pd.to_datetime(pd.Series(np.asarray(frame[name])), utc=True) - start) / day
        for name in frame.columns
    }
    return pd.DataFrame(days).set_axis(getattr(frame, "index", range(len(frame))))
