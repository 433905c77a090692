"""Views of a table by the types of its columns: numbers, categories and dates, each with kernels that suit them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler

from bayesmkl._utils.category_labels import match_labels, plain_label
from bayesmkl._utils.given import refuse_unevaluated
from bayesmkl._utils.validation import check_integer, shown
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.functions import Overlap
from bayesmkl.kernels.views import NUMERIC_TYPES, positions_of

TYPES = ("numbers", "categories", "dates")
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?$")
WORDS = 3  # spaces in a text that is no name
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
    a linear kernel), after each column was standardized and missing ones were replaced by the median. Categories,
    texts with few different values and yes-or-no columns get :class:`Overlap`; a missing category is one of its
    own, and one that training samples do not have is like nothing. Dates become days, and then are numbers. All of
    this is learned from training samples where the encoder is fitted: put it into a pipeline. Columns of numbers
    and dates that have no value or but one among them, in some fold of a cross-validation, are zero.

    New samples may spell categories in another way: 1, "1.0" and "TRUE" are True, and "Yes " is "yes". What tells
    two categories of training samples apart, such as upper case, is never ignored. A column in which no value is
    known is an error.

    Parameters
    ----------
    frame : pandas or polars DataFrame of shape (n_samples, n_features)
        Only the types of its columns are looked at, and how many different texts there are. Columns have different
        names that are text.
    views : mapping of view name to columns, default=None
        Columns are names, positions, a slice, or a boolean mask. A view with columns of several types becomes one
        for each type, such as "clinic: numbers" and "clinic: categories". None: one view for each type.
        Samples that have none of the values of a named view are NaN there, for an estimator with
        ``missing_views="integrate"``; others refuse them.
    types : mapping of column name to {"numbers", "categories", "dates"}, default=None
        What columns are, where their types do not tell: grades that are coded as numbers are categories.
    max_categories : int, default=20
        Text columns with more different values are in no view: identifiers, or free text, which wants numbers first,
        such as those of scikit-learn's TfidfVectorizer. So are columns with one value; a box that is ticked ("x",
        True or 1) or empty is a category. Texts that are all dates, such as "2020-01-31", are dates.

    Returns
    -------
    TableBank
        The encoder, the bank, and what was left out and why. ``print`` shows the choice, and the `repr` of the bank
        is code to start from.

    Raises
    ------
    TypeError
        If `frame` is no DataFrame, or `types` no mapping.
    ValueError
        For columns without names, names in `types` or `views` that `frame` does not have, unknown types, `views` that
        share a column or a name, or no column that can be used.

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
    >>> model.predict(pd.DataFrame({"age": [40, 50], "site": ["c", "B "], "id": [0, 1]})).shape
    (2,)
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
    if types is not None and not isinstance(types, Mapping):
        raise TypeError(f"`types` must be a mapping {{column name: type}} or None; got {shown(types)}.")
    given = {} if types is None else dict(types)
    for name, kind in given.items():
        if name not in names:
            raise ValueError(
                f"`types` names the column {name!r}, which `frame` does not have; got {shown(names)}."
            )
        if kind not in TYPES:
            raise ValueError(
                f"`types` must hold {', '.join(map(repr, TYPES))}; got {kind!r} for {name!r}. "
                "Of texts make numbers first, such as TfidfVectorizer's, or leave the column out."
            )
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
        reasons = ", ".join(f"{name} ({why})" for name, why in left_out.items()) or "there are none"
        raise ValueError(
            f"`frame` must have a column that can be used; all are left out: {reasons}. Say what they are with "
            "`types`."
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
    _check_different(list(title.values()))
    bank = KernelBank(
        {title[key]: Overlap() if key[1] == "categories" else "auto" for key in by_view},
        views={title[key]: own for key, own in by_view.items()},
    )
    whole = {
        view: own
        for view, columns in ({} if views is None else used).items()
        if (own := [name for name in columns if name in found])
    }
    return TableBank(_encoder(found, whole), bank, left_out)


def _used(views: Mapping[str, Any] | None, names: list[str]) -> dict[str, list[str]]:
    """Return the columns of each view by their names."""
    if views is None:
        return {"all": names}
    if not isinstance(views, Mapping) or not views:
        raise ValueError(
            f"`views` must be a mapping {{view name: columns}} with at least one entry, or None; got {shown(views)}."
        )
    _check_different([str(view) for view in views])
    used: dict[str, list[str]] = {}
    for view, columns in views.items():
        positions = positions_of(f"views[{view!r}]", columns, len(names), names)
        used[str(view)] = [names[j] for j in positions]
    all_names = [name for columns in used.values() for name in columns]
    twice = next((name for name in all_names if all_names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"`views` must not share columns; {twice!r} comes {all_names.count(twice)} times.")
    return used


def _check_different(titles: list[str]) -> None:
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise ValueError(f"`views` must lead to different names; {twice!r} comes twice. Rename one.")


def _type_of(column: Any, max_categories: int) -> tuple[str, str]:
    """Return the type of a column, or nothing and why it has none."""
    every = _values(column)
    values = every.dropna()
    try:
        n_different = values.nunique()
    except TypeError:  # such as lists
        n_different = values.astype(str).nunique()
    if n_different == 1 and len(values) < len(every):  # a box that is ticked, or empty
        tick = values.iloc[0]
        if isinstance(tick, str | bool | np.bool_) or plain_label(tick) == 1:
            return "categories", ""
    if n_different < 2:
        return "", "one value" if n_different else "no values"
    dtype = str(column.dtype).lower()
    if dtype.startswith(("bool", "categor", "enum", "dictionary")) or _all_are(values, (bool, np.bool_)):
        return "categories", ""
    if dtype.startswith(NUMERIC_TYPES) or _all_are(
        values, (int, float, Decimal, np.number), but=(bool, complex)
    ):
        return "numbers", ""
    if dtype.startswith(("date", "timestamp")) or _all_are(values, datetime.date):
        return "dates", ""
    if not _all_are(values, str):
        kinds = sorted({type(value).__name__ for value in values})
        return "", f"holds {' and '.join(kinds)}"
    if n_different <= max_categories:
        return "categories", ""
    if all(map(ISO_DATE.match, values)):
        return "dates", ""
    if np.median([text.count(" ") for text in values]) >= WORDS:
        return (
            "",
            f"{n_different} different free texts: make numbers of them first, such as TfidfVectorizer's",
        )
    return "", f"{n_different} different texts: an identifier, or free text"


def _values(column: Any) -> pd.Series:
    """Return the values of a column of any type; blank text is a missing one."""
    values = np.asarray(column)
    if values.dtype.kind not in "OUT":
        return pd.Series(values)
    known = [None if isinstance(value, str) and not value.strip() else value for value in values]
    return pd.Series(known, dtype=object)


def _all_are(values: pd.Series, types: Any, but: Any = ()) -> bool:
    return all(isinstance(value, types) and not isinstance(value, but) for value in values)


def _encoder(found: Mapping[str, str], views: Mapping[str, list[str]]) -> TableEncoder:
    """Return what turns columns of these types into numbers."""

    def read(function: Callable[[Any], pd.DataFrame]) -> FunctionTransformer:
        return FunctionTransformer(function, feature_names_out="one-to-one")

    def standardized() -> list[Any]:
        return [Standardizer(), SimpleImputer(strategy="median", keep_empty_features=True)]

    steps = {
        "numbers": make_pipeline(read(as_numbers), *standardized()),
        "categories": CategoryEncoder(
            handle_unknown="use_encoded_value", unknown_value=UNSEEN, encoded_missing_value=MISSING
        ),
        "dates": make_pipeline(read(as_days), *standardized()),
    }
    columns = {kind: [name for name, own in found.items() if own == kind] for kind in TYPES}
    kept: list[Any] = [(kind, steps[kind], columns[kind]) for kind in steps if columns[kind]]
    return TableEncoder(kept, views).set_output(transform="pandas")


class TableEncoder(ColumnTransformer):
    """Encoding of the columns of a table, NaN in all columns of a named view where a sample has none of its values.

    Estimators with ``missing_views="integrate"`` integrate over such views, and others refuse them: medians in
    place of a whole view would be taken for measurements.

    Parameters
    ----------
    transformers : list of tuple
        As of ColumnTransformer.
    views : mapping of view name to list of str
        The columns of the views that were named.
    """

    def __init__(self, transformers: list[Any], views: Mapping[str, list[str]]) -> None:
        super().__init__(transformers, verbose_feature_names_out=False)
        self.views = views

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> pd.DataFrame:
        """Learn and encode training samples, a pandas or polars DataFrame of shape (n_samples, n_features)."""
        return self._without_absent(X, super().fit_transform(X, y, **params))

    def transform(self, X: Any, **params: Any) -> pd.DataFrame:
        """Encode samples, a pandas or polars DataFrame of shape (n_samples, n_features)."""
        return self._without_absent(X, super().transform(X, **params))

    def _without_absent(self, X: Any, encoded: Any) -> pd.DataFrame:
        for columns in self.views.values():
            absent = np.logical_and.reduce([_values(X[name]).isna() for name in columns])
            encoded.loc[absent, columns] = np.nan
        return encoded


class CategoryEncoder(OrdinalEncoder):
    """Codes of the categories of training samples, in whatever spelling later samples have them.

    Examples
    --------
    >>> import pandas as pd
    >>> encoder = CategoryEncoder().fit(pd.DataFrame({"smoker": [True, False], "stage": [1.0, 2.5]}))
    >>> encoder.transform(pd.DataFrame({"smoker": ["false", "TRUE"], "stage": ["2.50", "01"]}))
    array([[0., 1.],
           [1., 0.]])
    """

    def fit(self, X: Any, y: Any = None) -> CategoryEncoder:
        """Learn the categories of a pandas or polars DataFrame of shape (n_samples, n_columns)."""
        return super().fit(_by_column(X, _labels, "categories"))

    def transform(self, X: Any) -> np.ndarray:
        """Return codes of shape (n_samples, n_columns).

        Raises
        ------
        ValueError
            For a column with values of which no one is known.
        """
        labels = _by_column(X, _labels, "categories")
        for name, categories in zip(labels, self.categories_, strict=True):
            known = [label for label in categories if isinstance(label, str)]
            given = labels[name].dropna()
            positions = match_labels(given.tolist(), known)
            if len(given) and known and positions.max() < 0:
                raise ValueError(
                    f"column {name!r} must hold categories of training, {shown(known)}; got none of them, but "
                    f"{shown(given.unique().tolist())}. Write them as in training, or leave the column empty (None) "
                    "to predict without it."
                )
            same = {label: known[k] for label, k in zip(given, positions, strict=True) if k >= 0}
            labels[name] = np.array([same.get(label, label) for label in labels[name]], dtype=object)
        return super().transform(labels)


class Standardizer(StandardScaler):
    """Standardization of columns, to NaN where training samples have no value or but one: it tells them nothing.

    StandardScaler leaves such columns in their units, so that a date among new samples would be far from all others.

    Examples
    --------
    >>> import numpy as np
    >>> Standardizer().fit([[1.0, np.nan, 5.0], [3.0, np.nan, 5.0]]).transform([[5.0, 19000.0, 19000.0]])
    array([[ 3., nan, nan]])
    """

    scale_: np.ndarray

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Standardizer:
        """Learn means and standard deviations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where values are missing.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of samples.

        Returns
        -------
        self : Standardizer
        """
        with np.errstate(invalid="ignore"):  # columns without values
            super().fit(X, y, sample_weight)
        values = np.asarray(X, dtype=np.float64)
        same = ~(np.fmax.reduce(values, axis=0) > np.fmin.reduce(values, axis=0))
        self.scale_ = np.where(same, np.nan, self.scale_)
        return self


def _by_column(frame: Any, read: Callable[[pd.Series], pd.Series], what: str) -> pd.DataFrame:
    columns = {}
    for name in frame.columns:
        try:
            columns[name] = read(_values(frame[name]))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {name!r} must hold {what}: {error}. If it is of another type, say so, "
                "`make_bank(types={name: type})`."
            ) from error
    return pd.DataFrame(columns).set_axis(getattr(frame, "index", range(len(frame))))


def _numbers(column: pd.Series) -> pd.Series:
    column = column.infer_objects()
    if column.dtype.kind in "mMc":
        raise TypeError(f"got {column.dtype}. Divide durations by their unit, such as `pd.Timedelta(days=1)`")
    numbers = pd.to_numeric(column).astype(np.float64)
    if np.isinf(numbers).any():
        raise ValueError("got infinity")
    return numbers


def _days(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column) and column.notna().any():
        raise TypeError(f"got {column.dtype}, and no unit of it")
    return (pd.to_datetime(column, utc=True, format="ISO8601") - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(
        days=1
    )


def as_numbers(frame: Any) -> pd.DataFrame:
    """Turn columns of numbers of any type into float64.

    Parameters
    ----------
    frame : pandas or polars DataFrame of shape (n_samples, n_columns)
        Numbers, or texts that say them.

    Returns
    -------
    DataFrame of shape (n_samples, n_columns)
        NaN where there is no number.

    Raises
    ------
    ValueError
        For texts that are no numbers, and infinity.

    Examples
    --------
    >>> import pandas as pd
    >>> as_numbers(pd.DataFrame({"dose": pd.array([3, None], dtype="Int64")}))
       dose
    0   3.0
    1   NaN
    """
    return _by_column(frame, _numbers, "numbers")


def _labels(column: pd.Series) -> pd.Series:
    """Return the text of labels, NaN where there is none."""
    labels = [str(plain_label(value)) for value in column.to_numpy()]
    return pd.Series(labels, dtype=object).where(column.notna(), np.nan)


def as_days(frame: Any) -> pd.DataFrame:
    """Turn columns of dates into days since the beginning of 1970.

    Parameters
    ----------
    frame : pandas or polars DataFrame of shape (n_samples, n_columns)
        Dates and times, of any time zone, or texts such as "2024-02-29" and "2024-02-29 06:00". Others, which one may
        read with the day or the month first, want ``pandas.to_datetime`` with a `format`.

    Returns
    -------
    DataFrame of shape (n_samples, n_columns)
        With fractions of days; NaN where there is no date.

    Raises
    ------
    ValueError
        For texts that are no dates, and for numbers, which do not say what they count from.

    Examples
    --------
    >>> import pandas as pd
    >>> as_days(pd.DataFrame({"visit": pd.to_datetime(["1970-01-02 12:00", None])}))
       visit
    0    1.5
    1    NaN
    """
    return _by_column(frame, _days, "dates")
