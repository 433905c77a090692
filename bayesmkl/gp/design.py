"""Columns of the samples that are no features of kernels: offsets, covariates, groups, tasks, precisions.

Columns of a DataFrame may name groups by text or flags, which become numbers in validated samples. A design has no
missing values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesmkl._utils.category_labels import match_labels, plain_label
from bayesmkl._utils.given import is_frame
from bayesmkl._utils.options import Options
from bayesmkl._utils.validation import check_choice, check_scale, shown
from bayesmkl.gp.effects import DesignRows, Effects
from bayesmkl.gp.hyperpriors import HalfT
from bayesmkl.kernels.bank import CheckedTable, KernelBank
from bayesmkl.kernels.tables import with_columns
from bayesmkl.kernels.views import column_labels, column_names, positions_of, views_without

LARGEST_WHOLE = 2**53  # up to which floats have every whole number


class GroupLabels(NamedTuple):
    """Text labels of a column of groups, in ascending order: they stand for 0, 1, ... in validated samples."""

    column: Any  # label of the column
    labels: tuple[Any, ...]


def learn_groups(wanted: Any, X: Any, argument: str = "group_columns") -> tuple[GroupLabels, ...]:
    """Return the labels in columns of a DataFrame that hold text, or numbers that floats confuse.

    `argument` is what names the columns.

    Raises
    ------
    ValueError
        For columns that `X` does not have.
    """
    labels = column_labels(X) if hasattr(X, "dtypes") else None
    if labels is None or not is_given(wanted):
        return ()
    columns = positions_of(argument, wanted, len(labels), labels)
    names = list(X.columns)
    chosen = [
        names[j] for j in columns if names.count(names[j]) == 1
    ]  # others are refused where names are checked
    return tuple(
        GroupLabels(column, tuple(sorted(set(_labels(values)), key=str)))
        for column, values in ((column, np.asarray(X[column])) for column in chosen)
        if _needs_labels(values)
    )


def number_groups(X: Any, known: Sequence[GroupLabels]) -> Any:
    """Replace text in group columns by numbers, -1 where no known label has its value.

    Raises
    ------
    ValueError
        For what is no DataFrame where labels were text, and for labels of another kind.
    """
    if not is_frame(X):
        text = [own.column for own in known if not _are_flags(own.labels)]
        if text:
            raise ValueError(
                f"`X` must be a DataFrame: its column {text[0]!r} held text in training; got {type(X).__name__}."
            )
        return X
    names = list(X.columns)
    for column, labels in known:
        if column not in names:
            continue  # what is missing is said where columns are checked
        values = np.asarray(X[column])
        given = _labels(values)
        codes = match_labels(given, labels)
        # floats may be numbers that stand for labels
        unknown = values.dtype.kind != "f" and given and codes.max() < 0
        if unknown and _kinds(given).isdisjoint(_kinds(labels)):
            raise of_other_kind(column, labels[0], given[0])
        X = with_columns(X, {names.index(column): codes.astype(float)})
    return X


def of_other_kind(column: Any, known: Any, given: Any) -> ValueError:
    """Make the error for labels of a column that are of another kind than in training.

    Examples
    --------
    >>> raise of_other_kind("site", 1, "north")
    Traceback (most recent call last):
    ...
    ValueError: `X` must hold labels in 'site' as in training, such as 1; got 'north'. Replace them: ...
    """
    return ValueError(
        f"`X` must hold labels in {column!r} as in training, such as {known!r}; got {given!r}. Replace them: "
        f"`X[{column!r}].map({{new: old, ...}})`, with the label of training for each new one."
    )


def _needs_labels(values: np.ndarray) -> bool:
    """Return whether values are no numbers, or whole ones that are not told apart in double precision."""
    if values.dtype.kind not in "iu":
        return values.dtype.kind != "f"
    return bool(len(values)) and max(abs(int(values.min())), abs(int(values.max()))) > LARGEST_WHOLE


def _are_flags(labels: Sequence[Any]) -> bool:
    """Return whether labels are true and false, for which 1 and 0 stand."""
    return all(isinstance(label, bool) for label in labels)


def _kinds(labels: Sequence[Any]) -> set[bool]:
    """Return whether some labels are text, and whether some are not."""
    return {isinstance(label, str) for label in labels}


def _labels(values: np.ndarray) -> list[Any]:
    """Return labels of groups as plain values."""
    return [plain_label(value) for value in values]


def is_given(columns: Any) -> bool:
    """Return whether columns are named at all."""
    return columns is not None and (np.ndim(columns) == 0 or len(columns) > 0)


def refuse_missing(name: Any, missing: np.ndarray) -> None:
    """Raise where a column of a design is missing.

    Parameters
    ----------
    name : object
        Name of the column.
    missing : ndarray of bool, of shape (n_samples,)

    Examples
    --------
    >>> refuse_missing("age", np.array([False, True]))
    Traceback (most recent call last):
    ...
    ValueError: `X` must have no missing values (NaN, None) in the columns of `design`; got 1 in 'age', ...
    """
    if missing.any():
        raise ValueError(
            f"`X` must have no missing values (NaN, None) in the columns of `design`; got {int(missing.sum())} in "
            f"{name!r}, the first in row {int(missing.argmax())}. `missing_views` does not apply to these columns: "
            "fill them in, or leave these rows out."
        )


def columns_in(X: Any, named: Iterable[tuple[str, Any]]) -> Iterator[tuple[Any, np.ndarray]]:
    """Go through names and values of columns of samples that are not validated yet.

    What is no table, or has no such columns, has none: that is said where samples and names are checked.

    Parameters
    ----------
    X : array-like, DataFrame
        Samples.
    named : iterable of (str, str or int or sequence)
        Arguments, and the columns that they name.

    Yields
    ------
    name : object
    values : ndarray of shape (n_samples,)

    Examples
    --------
    >>> [(name, values.tolist()) for name, values in columns_in([[1, 2], [3, 4]], [("group_columns", 1)])]
    [('x1', [2, 4])]
    """
    has_names = is_frame(X)
    try:
        table = X if has_names else np.asarray(X)
        labels = column_labels(X) if has_names else None
        n_features = len(X.columns) if has_names else table.shape[1]
        found = [
            j
            for name, given in named
            if is_given(given)
            for j in positions_of(name, given, n_features, labels)
        ]
    except (ValueError, TypeError, IndexError):
        return
    names = column_names(n_features, labels)
    for j in found:
        column = table[:, j] if not has_names else X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]
        yield names[j], np.asarray(column)


def check_columns(X: Any, named: Iterable[tuple[str, Any]]) -> None:
    """Raise where columns of samples that are not validated yet are missing; parameters are those of `columns_in`."""
    for name, values in columns_in(X, named):
        refuse_missing(name, np.asarray(pd.isna(values)))


GROUP_PRIOR = HalfT(4.0, 1.0)
FARTHEST = 1e100  # covariate, in standard deviations: squares of such are numbers
DEPENDENT = 1e-8  # part of a covariate that others leave, below which it is rounding error

Columns = str | int | Sequence[str | int]


@dataclass(frozen=True, repr=False)
class Design(Options):
    r"""Name the columns of `X` that the model uses as covariates, groups, tasks or offsets, not as kernel features.

    The views of a bank leave these columns out, unless a view names them. Kernel shares describe the score after
    the effects of these columns are removed; :func:`bayesmkl.posterior.effect_table` lists the effects.

    Parameters
    ----------
    offset_column : str or int, default=None
        Name or position of a column that is added to the score unchanged: a known part of the target or, for counts,
        the log of their exposure (the time or the number of units that they were counted over). `GPMKLRegressor`
        only.
    covariate_columns : str, int or sequence of these, default=()
        Columns with a linear effect: age, sex as 0 and 1, a known confounder. They are standardized over the training
        samples.
    group_columns : str, int or sequence of these, default=()
        Columns with the group of each sample: its site, its batch, or the subject that was measured repeatedly. Text
        in a DataFrame is accepted. Every level gets its own effect (a random intercept) from a normal distribution
        whose standard deviation is inferred. Predictions for a level that was not in training have that much more
        variance.
    slope_columns : dict of group column to covariate columns, default=None
        Covariates whose effects differ from level to level of a group (random slopes), as in ``{"subject": "time"}``.
        They are independent of the random intercepts, which refer to the mean of the covariate.
    task_column : str or int, default=None
        Column with the task of each row. Use it if several outcomes were measured on partly the same samples (a task
        is then an outcome), or if views may matter differently at each site (a task is then a site). The model
        multiplies the kernels with a covariance of tasks, which it infers. Each task has its own effect, as groups
        do, and its own noise. Targets are standardized within tasks.
    task_correlation : "equal" or "free", default="equal"
        "equal": all pairs of tasks have the same correlation. "free": each pair has its own correlation, of either
        sign; use it for few outcomes that are known for many samples.
    precision_column : str or int, default=None
        Column of positive numbers: the precision of the noise of each target, relative to other targets. The mean of
        `n` measurements has precision `n`. `GPMKLRegressor` with normal or Student t noise only.
    covariate_std : float, default=3.0
        Prior standard deviation, in units of the score, of the effect of one standard deviation of a covariate. The
        default is wide.
    group_prior : HalfT, default=HalfT(df=4.0, scale=1.0)
        Prior of the standard deviations of groups and slopes, in units of the score.

    See Also
    --------
    bayesmkl.posterior.effect_table : What the columns add to the score.

    Examples
    --------
    >>> from bayesmkl.gp import Design, GPMKLRegressor
    >>> model = GPMKLRegressor(likelihood="poisson", design=Design(offset_column="log_years"))
    >>> Design(covariate_columns=["age", "sex"], group_columns="site")
    Design(covariate_columns=['age', 'sex'], group_columns='site')
    """

    offset_column: str | int | None = None
    covariate_columns: Columns = ()
    group_columns: Columns = ()
    slope_columns: Mapping[str | int, Columns] | None = None
    task_column: str | int | None = None
    task_correlation: str = "equal"
    precision_column: str | int | None = None
    covariate_std: float = 3.0
    group_prior: HalfT = GROUP_PRIOR


class FittedDesign(NamedTuple):
    """The columns of a design, and what was learned of them from the training samples.

    Attributes
    ----------
    offset_column, precision_column : int or None
    covariates, groups : tuple of str
        Names; the column of tasks is the last group.
    covariate_columns, group_columns : ndarray of int
        Positions.
    location, scale : ndarray of shape (n_covariates,)
        Means and standard deviations.
    levels : tuple of ndarray
        Values of every group column that training samples have, ascending.
    labels : tuple of tuple
        What the user calls them.
    slopes : tuple of tuple of int
        Positions of group and covariate of every random slope.
    covariate_std : float
    group_prior : HalfT
    has_tasks : bool
    equal_tasks : bool
        Whether all pairs of tasks have the same correlation.
    """

    offset_column: int | None
    covariates: tuple[str, ...]
    covariate_columns: np.ndarray
    location: np.ndarray
    scale: np.ndarray
    groups: tuple[str, ...]
    group_columns: np.ndarray
    levels: tuple[np.ndarray, ...]
    labels: tuple[tuple[Any, ...], ...]
    slopes: tuple[tuple[int, int], ...]
    covariate_std: float
    group_prior: HalfT
    has_tasks: bool = False
    equal_tasks: bool = False
    precision_column: int | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, none if all samples are of the same."""
        return tuple(map(str, self.labels[-1])) if self.has_tasks else ()

    @property
    def columns(self) -> list[int]:
        """Positions of all columns of the design."""
        single = [j for j in (self.offset_column, self.precision_column) if j is not None]
        return [*single, *self.covariate_columns.tolist(), *self.group_columns.tolist()]

    @property
    def has_effects(self) -> bool:
        """Whether there are covariates or groups."""
        return bool(self.covariates or self.groups)

    @property
    def terms(self) -> tuple[tuple[int, int | None], ...]:
        """Positions of group and covariate of every standard deviation; intercepts, then slopes."""
        return *((g, None) for g in range(len(self.groups))), *self.slopes

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the terms: those of groups, and "covariate | group"."""
        return tuple(
            self.groups[g] if c is None else f"{self.covariates[c]} | {self.groups[g]}" for g, c in self.terms
        )

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the levels of every term, as in "site: north"."""
        named = zip(self.term_names, self.terms, strict=True)
        return tuple(f"{name}: {label}" for name, (g, _) in named for label in self.labels[g])

    @property
    def units(self) -> np.ndarray:
        """What coefficients are divided by to be those of one unit of a covariate, (n_effects,)."""
        of_terms = [1.0 if c is None else self.scale[c] for _, c in self.terms]
        sizes = [len(self.levels[g]) for g, _ in self.terms]
        return np.concatenate([self.scale, np.repeat(of_terms, sizes)])

    def rows(self, X: np.ndarray) -> DesignRows:
        """Return the effects in the scores of validated samples, and their tasks.

        Raises
        ------
        ValueError
            For a covariate or group that is NaN, a covariate too large to be squared, and a task that no training
            sample is of.
        """
        columns = np.concatenate([self.covariate_columns, self.group_columns]).astype(int)
        _check_known(X[:, columns], (*self.covariates, *self.groups))
        covariates = (X[:, self.covariate_columns] - self.location) / self.scale
        far = np.abs(covariates).max(axis=0, initial=0.0)
        if (far > FARTHEST).any():
            raise ValueError(
                f"`X` must have covariates within {FARTHEST:g} standard deviations of the training mean; got "
                f"{far.max():.3g} in {self.covariates[int(far.argmax())]!r}. Is a missing value coded as a number?"
            )
        blocks, unseen = [covariates], np.zeros((len(X), len(self.terms)))
        for t, (g, c) in enumerate(self.terms):
            values, levels = X[:, self.group_columns[g]], self.levels[g]
            factor = np.ones(len(X)) if c is None else covariates[:, c]
            is_level = values[:, None] == levels
            blocks.append(is_level * factor[:, None])
            unseen[:, t] = np.where(is_level.any(axis=1), 0.0, factor**2)
        return DesignRows(np.concatenate(blocks, axis=1), unseen, self.task(X))

    def task(self, X: np.ndarray) -> np.ndarray | None:
        """Return positions of the tasks of validated samples; raise for others than those of training."""
        if not self.has_tasks:
            return None
        values, levels = X[:, self.group_columns[-1]], self.levels[-1]
        unknown = ~np.isin(values, levels)
        if unknown.any():
            known = ", ".join(map(repr, self.labels[-1][:6])) + (", ..." if len(levels) > 6 else "")
            raise ValueError(
                f"`X` must have tasks of training in {self.groups[-1]!r}: {known}; got {int(unknown.sum())} rows of "
                f"other tasks, first row {int(np.flatnonzero(unknown)[0])}. The model cannot predict a task without "
                "training samples: leave the rows out, or name the column in `group_columns`."
            )
        return np.searchsorted(levels, values)

    def precisions(self, X: np.ndarray) -> np.ndarray:
        """Return the relative precisions of the noise of validated samples; raise for one that is not positive."""
        if self.precision_column is None:
            return np.ones(len(X))
        found = X[:, self.precision_column]
        _check_known(found[:, None], ("the column of precisions",))
        wrong = ~((found > 0.0) & np.isfinite(found))
        if wrong.any():
            raise ValueError(
                f"`precision_column` must hold positive numbers; got {found[wrong][0]:g} in row "
                f"{int(np.flatnonzero(wrong)[0])} ({int(wrong.sum())} in all). A sample without precision "
                "carries no information: leave it out."
            )
        return found

    def offsets(self, X: np.ndarray) -> np.ndarray:
        """Return the offsets of validated samples; raise for NaN as `rows` does."""
        found = X[:, self.offset_column]
        _check_known(found[:, None], ("the column of offsets",))
        return found

    def effects(self, X: np.ndarray) -> Effects:
        """Return the effects in the scores of the training samples."""
        sizes = [len(self.levels[g]) for g, _ in self.terms]
        term = np.repeat(np.arange(-1, len(sizes)), [len(self.covariates), *sizes])
        return Effects.of(self.rows(X).basis, self.covariate_std, term)


def check_known_columns(X: Any, design: Design | FittedDesign | None) -> Any:
    """Return samples that are not validated yet, with numbers where the text of a group spells those of training.

    Columns of a design that are missing, and text of which nothing is known, are an error.
    """
    if isinstance(design, FittedDesign):
        check_columns(X, [("design", design.columns)])
        columns = columns_in(X, [("design", design.group_columns.tolist())])
        fitted = zip(columns, design.group_columns, design.labels, design.levels, strict=False)
        for (name, values), j, labels, levels in fitted:
            if values.dtype.kind in "biuf" or any(isinstance(label, str) for label in labels):
                continue
            text = next((value for value in values.tolist() if isinstance(value, str)), None)
            if text is None:
                continue
            codes = match_labels([plain_label(value) for value in values], labels)
            if codes.max() < 0 or not hasattr(X, "dtypes"):
                raise of_other_kind(name, labels[0], text)
            X = with_columns(X, {j: np.append(levels, levels.max() + 1.0)[codes]})
    elif design is not None:
        named = ("offset_column", "precision_column", "covariate_columns", "group_columns", "task_column")
        check_columns(X, [(name, getattr(design, name)) for name in named])
    return X


def check_design(design: Any, precomputed: bool, takes_offset: bool) -> None:
    """Raise for what is no design, and for one of precomputed kernels, which have no columns of features."""
    if design is None:
        return
    if not isinstance(design, Design):
        raise ValueError(
            f"`design` must be None or a Design, such as Design(offset_column=0); got {shown(design)}."
        )
    if precomputed:
        raise ValueError(
            "`design` must be None with precomputed kernels, whose columns are training samples; got "
            f"{design!r}. Pass samples and a bank, `kernels=KernelBank(...)`."
        )
    for name, remedy in (
        ("offset_column", "Name the column in `covariate_columns` to infer its effect."),
        ("precision_column", "Labels, grades and times do not have separate noise."),
    ):
        value = getattr(design, name)
        if value is not None and not takes_offset:
            raise ValueError(
                f"`{name}` must be None except with GPMKLRegressor; got {shown(value)}. {remedy}"
            )
    check_choice("design.task_correlation", design.task_correlation, ("equal", "free"))
    check_scale("design.covariate_std", design.covariate_std)
    if not isinstance(design.group_prior, HalfT):
        raise ValueError(
            f"`group_prior` must be a HalfT(df, scale); got {shown(design.group_prior)}. HalfT(4, 1) is the default."
        )
    for name, value in design.group_prior._asdict().items():
        check_scale(f"design.group_prior.{name}", value)
    if design.slope_columns is not None and not isinstance(design.slope_columns, Mapping):
        raise ValueError(
            "`slope_columns` must be a dict of group columns to covariate columns; got "
            f'{shown(design.slope_columns)}. Write {{"subject": "time"}}.'
        )


def apart_from_design(
    bank: KernelBank,
    X: CheckedTable,
    design: Design | None,
    n_features: int,
    texts: Sequence[GroupLabels] = (),
    sample_weight: np.ndarray | None = None,
) -> tuple[KernelBank, FittedDesign | None]:
    """Let the views of an unfitted bank leave the columns of a design out, unless they name theirs.

    Parameters
    ----------
    bank : KernelBank
        Is returned with other `views`.
    X : CheckedTable of shape (n_samples, n_features)
        Validated samples.
    design : Design or None
    n_features : int
        Number of columns of `X`.
    texts : sequence of GroupLabels
        Labels of groups that were text.
    sample_weight : ndarray of shape (n_samples,), optional
        How often samples count.

    Returns
    -------
    bank : KernelBank
    fitted : FittedDesign or None

    Raises
    ------
    ValueError
        If `X` does not have the columns, they say nothing of the samples, or no other is left for the kernels.
    """
    if design is None:
        return bank, None
    values, labels = X.values, X.labels

    def positions(name: str, single: bool = False) -> np.ndarray:
        wanted = getattr(design, name)
        found = positions_of(name, wanted, n_features, labels) if is_given(wanted) else np.empty(0, int)
        if len(set(found.tolist())) < len(found):
            raise ValueError(f"`{name}` must name different columns; got {shown(wanted)}.")
        if single and wanted is not None and len(found) != 1:
            raise ValueError(f"`{name}` must name one column; got {shown(wanted)}.")
        return found

    of_offset = positions("offset_column", single=True)
    of_precision = positions("precision_column", single=True)
    of_task = positions("task_column", single=True)
    covariates = positions("covariate_columns")
    groups = np.concatenate([positions("group_columns"), of_task])
    columns = np.concatenate([of_offset, of_precision, covariates, groups])
    if len(set(columns.tolist())) < len(columns):
        raise ValueError(f"`design` must give every column one meaning; got {design!r}.")
    if not len(columns):
        return bank, None
    named = column_names(n_features, labels)
    _check_known(values[:, columns], tuple(named[j] for j in columns))
    location, scale = _standards(values[:, covariates], [named[j] for j in covariates], sample_weight)
    by_name = {named[j]: text for text in texts for j in groups if named[j] == str(text.column)}
    levels = [np.unique(values[:, j]) for j in groups]
    for j, own in zip(groups, levels, strict=True):
        _check_levels("task_column" if j in of_task else "group_columns", named[j], len(own), len(values))
    fitted = FittedDesign(
        int(of_offset[0]) if len(of_offset) else None,
        tuple(named[j] for j in covariates),
        covariates,
        location,
        scale,
        tuple(named[j] for j in groups),
        groups,
        tuple(levels),
        tuple(
            by_name[named[j]].labels if named[j] in by_name else tuple(map(plain_label, own))
            for j, own in zip(groups, levels, strict=True)
        ),
        _slopes(design, covariates, groups, n_features, labels),
        float(design.covariate_std),
        HalfT(*map(float, design.group_prior)),
        bool(len(of_task)),
        design.task_correlation == "equal",
        int(of_precision[0]) if len(of_precision) else None,
    )
    fitted.precisions(values)
    if X.plan is not None:
        beside, remedy = np.setdiff1d(columns, groups), 'Make numbers of them, such as `X["sex"] == "male"`.'
        X.plan.refuse(beside, "`design`", ["numbers", "yes or no"], remedy)
    views = views_without(bank.views, columns, n_features, labels, X.codes, X.samples)
    if not views:
        which = "offset_column" if len(columns) == len(of_offset) else "design"
        raise ValueError(
            f"`{which}` must leave columns of `X` to the kernels; got {design!r}, which names all columns. "
            "Append features."
        )
    return bank.set_params(views=views), fitted


def _slopes(
    design: Design,
    covariates: np.ndarray,
    groups: np.ndarray,
    n_features: int,
    labels: Sequence[Any] | None,
) -> tuple[tuple[int, int], ...]:
    """Return positions of group and covariate of every random slope."""
    found = []
    for group, wanted in (design.slope_columns or {}).items():
        of_group = positions_of("slope_columns", group, n_features, labels)
        if of_group[0] not in groups:
            raise ValueError(
                f"`slope_columns` must have groups of `group_columns` as keys; got {shown(group)}. Name it there too."
            )
        for j in positions_of(f"slope_columns[{group!r}]", wanted, n_features, labels):
            if j not in covariates:
                raise ValueError(
                    f"`slope_columns` must name covariates that are also in `covariate_columns`; got "
                    f"{shown(wanted)}. Name it there too."
                )
            found.append((groups.tolist().index(of_group[0]), covariates.tolist().index(j)))
    return tuple(found)


def _standards(
    values: np.ndarray, names: list[str], sample_weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of covariates; raise for one that others or a constant determine."""
    unit = np.maximum(np.abs(values).max(axis=0, initial=0.0), np.finfo(float).tiny)
    values = values / unit  # the squares of some units are no numbers
    counts = np.ones(len(values)) if sample_weight is None else sample_weight
    share = counts / counts.sum()
    location = share @ values
    scale = np.sqrt(share @ (values - location) ** 2)
    for j, name in enumerate(names):
        if not scale[j] > DEPENDENT * max(abs(location[j]), np.finfo(float).tiny):
            raise ValueError(
                f"`covariate_columns` must vary between the training samples; got {name!r}, which is "
                f"{unit[j] * location[j]:g} everywhere. Leave it out."
            )
        before = (values[:, :j] - location[:j]) / scale[:j]
        own = (values[:, j] - location[j]) / scale[j]
        rest = own - before @ np.linalg.lstsq(before, own)[0]
        if np.sqrt((rest**2).mean()) < DEPENDENT:
            raise ValueError(
                f"`covariate_columns` must not be collinear; got {name!r}, which is a linear combination of "
                f"{', '.join(map(repr, names[:j]))} and a constant. Leave it out."
            )
    return unit * location, unit * scale


def _check_levels(argument: str, name: str, n_levels: int, n_samples: int) -> None:
    what = "tasks" if argument == "task_column" else "groups"
    if n_levels == 1:
        raise ValueError(
            f"`{argument}` must hold at least two {what}; got {name!r}, which is the same for all training "
            "samples. Leave it out."
        )
    if n_levels == n_samples:
        raise ValueError(
            f"`{argument}` must hold {what} of more than one training sample; got {name!r}, whose {n_levels} "
            "values are all different. Name it in `covariate_columns` if it is a quantity, or leave it out."
        )


def _check_known(values: np.ndarray, names: tuple[str, ...]) -> None:
    """Raise where columns of a design are NaN, which stands for absent views alone."""
    for name, column in zip(names, values.T, strict=True):
        refuse_missing(name, np.isnan(column))
