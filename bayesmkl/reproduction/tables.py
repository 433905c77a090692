"""Published tables: data sets, models in studies, published numbers, and rows to print.

A module per paper defines its tables from these parts; :mod:`bayesmkl.reproduction.run` runs them. A table is
described once, for a full run and for a fast one: only the :class:`Setting` differs, which the data sets
(:meth:`PaperSet.reference`) and the numbers of splits (:meth:`Setting.n_splits`) take into account.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesmkl.evaluation.study import Data, DataRef, Study, fetched
from bayesmkl.reproduction.readers import LAYOUT, read_user_data
from bayesmkl.reproduction.standins import BUNDLED, cut_down, synthetic_features, synthetic_kernels

if TYPE_CHECKING:
    import pandas as pd

    from bayesmkl.evaluation.comparison import Comparison

__all__ = [
    "CUT",
    "PROVENANCE",
    "STAND_IN",
    "Entry",
    "Fetched",
    "MissingData",
    "PaperSet",
    "PaperTable",
    "Printed",
    "Published",
    "Setting",
    "Sizes",
    "UserData",
    "measure",
    "references",
    "set_name",
    "wanted",
]

# ends of labels: synthetic data of the same shape; some rows of the set
STAND_IN, CUT = (" (stand-in)", " (cut)")
PROVENANCE = ("data", "rows", "splits", "seed", "variant")  # columns of every printed table
_IN_ORDER: set[tuple[Any, ...]] = set()  # references to data that have been read and have the right size
# Files that the UCI repository publishes and that no other source has undamaged: read from the user's folder.
UCI_FILES = {"wpbc": "wpbc.data", "german_numeric": "german.data-numeric", "australian": "australian.dat"}


class MissingData(ValueError):
    """A full run needs data that are not there, or that differ in size from the published set."""


class Setting(NamedTuple):
    """Settings of a run of a table.

    Parameters
    ----------
    fast : bool
        Small stand-ins for the data and few splits: seconds, through the same code and models.
    data : Path or None
        Folder of the data sets that users bring, one folder each.
    splits : int or None
        Number of splits; None is the paper's (in a fast run, the table's short one).
    n_jobs : int or None
        Processes, as joblib counts them.
    random_state : int
        Seed of splits and models.
    sets : tuple of str or None
        Names of the data sets to run, of those in the table; None is all of them.
    part : (int, int)
        Part k of n of the pairs of data set and split, for runs on several computers.
    """

    fast: bool = False
    data: Path | None = None
    splits: int | None = None
    n_jobs: int | None = None
    random_state: int = 0
    sets: tuple[str, ...] | None = None
    part: tuple[int, int] = (1, 1)

    def n_splits(self, paper: int, fast: int = 2) -> int:
        """Return the number of splits (or of repeats): the user's, else the paper's or the short one."""
        return self.splits or (fast if self.fast else paper)


class Published(NamedTuple):
    """A mean and, where it is printed, its standard deviation, in the paper's units (percent or not)."""

    value: float
    std: float | None = None


class Entry(NamedTuple):
    """One cell of a table.

    Parameters
    ----------
    dataset : str
        Name of the :class:`PaperSet`, without the end that stand-ins have.
    model : str
        Name of the model in the study.
    metric : str
        A column of ``Comparison.cells``: a metric, or such as ``fit_seconds``, ``support_fraction`` (a share) and
        ``n_active_kernels``.
    published : Published or None
        None: a measurement that the paper does not have.
    scale : float
        Our value times this is in the paper's unit: 100 where it prints percent.
    variant : str
        In which way the measurement differs from the paper's protocol; "" where it does not.
    """

    dataset: str
    model: str
    metric: str
    published: Published | None
    scale: float = 1.0
    variant: str = ""


class Sizes(NamedTuple):
    """The published size of a set; asserted in a full run, and copied (but for the rows) by synthetic stand-ins."""

    n_samples: int
    n_features: int | None = None  # of a table
    n_kernels: int | None = None  # of precomputed kernels or distances
    n_classes: int = 2
    n_splits: int | None = None  # that come with the data
    n_train: int | None = None  # in each of those

    def text(self) -> str:
        """List the sizes that are known."""
        words = ("samples", "features", "kernels", "classes", "splits", "training samples")
        return ", ".join(f"{n} {word}" for n, word in zip(self, words, strict=True) if n is not None)


class Fetched(NamedTuple):
    """A set that :func:`bayesmkl.datasets.fetch` knows.

    `load` is for what fetch does not do (a column left out, two classes of many): a module-level function
    ``load(name=..., **options) -> Data``; None is :func:`bayesmkl.evaluation.study.fetched`.
    """

    name: str
    options: Mapping[str, Any] | None = None
    load: Callable[..., Data] | None = None


class UserData(NamedTuple):
    """A set that users bring: the folder `name` below ``--data``, as :mod:`readers` describes.

    Parameters
    ----------
    name : str
        Of the folder.
    where : str
        Who publishes the data, and what to compute from it where that is not what they publish.
    content : {"kernels", "distances", "features"}
        ``Data.X`` is the stack (n_samples, n_samples, n_kernels) for ``kernels="precomputed"``, the same of distances
        (for :class:`readers.DistanceKernels`), or a table (n_samples, n_features).
    options : dict or None
        Further arguments of the function that reads the folder.
    load : callable or None
        A module-level function ``load(folder=..., **options) -> Data`` for folders of another layout, which raises
        ``FileNotFoundError`` for what it does not find; None is :func:`readers.read_user_data`.
    layout : str
        What such a folder holds.
    """

    name: str
    where: str
    content: str = "kernels"
    options: Mapping[str, Any] | None = None
    load: Callable[..., Data] | None = None
    layout: str = ""


class PaperSet(NamedTuple):
    """A data set of a paper.

    Parameters
    ----------
    name : str
        As the paper's table has it; ``Entry.dataset`` refers to it.
    source : Fetched or UserData
    sizes : Sizes
        Published sizes, with the corrections that the data demand (768 rows of Pima, not 769).
    stand_in : DataRef or None
        The data of a fast run. None: some rows of the set itself where scikit-learn ships it, else synthetic data of
        the same number of features (kernels) and classes.
    fast_rows : int
        Their number of rows.
    """

    name: str
    source: Fetched | UserData
    sizes: Sizes
    stand_in: DataRef | None = None
    fast_rows: int = 60

    def label(self, setting: Setting) -> str:
        """Return the name of the set in the results."""
        if not setting.fast:
            return self.name
        return self.name + (CUT if self._is_bundled() else STAND_IN)

    def reference(self, setting: Setting) -> tuple[str, DataRef]:
        """Return the label of the set and a reference to its data.

        Raises
        ------
        MissingData
            In a full run, if the data are not there or differ from the published sizes; the message says what is
            missing and how to bring it.
        """
        if setting.fast:
            return self.label(setting), self.stand_in or self._stand_in()
        reference = self._reference(setting)
        self._check(reference)
        return self.label(setting), reference

    def origin(self, setting: Setting) -> str:
        """Describe the source of the data of a full run."""
        if isinstance(self.source, UserData):
            return f"{setting.data or '--data'}/{self.source.name}"
        return f'fetch("{self.source.name}")'

    def _is_bundled(self) -> bool:
        plain = isinstance(self.source, Fetched) and not self.source.load and not self.stand_in
        return plain and self.source.name in BUNDLED

    def _stand_in(self) -> DataRef:
        sizes, shape = self.sizes, {"n_samples": self.fast_rows, "n_classes": self.sizes.n_classes}
        if self._is_bundled():
            return DataRef(cut_down, name=self.source.name, n_samples=self.fast_rows)
        if not sizes.n_kernels:
            return DataRef(synthetic_features, n_features=sizes.n_features or 10, **shape)
        content = self.source.content if isinstance(self.source, UserData) else "kernels"
        return DataRef(
            synthetic_kernels, n_kernels=sizes.n_kernels, content=content, n_splits=sizes.n_splits, **shape
        )

    def _reference(self, setting: Setting) -> DataRef:
        source = self.source
        options = dict(source.options or {})
        if isinstance(source, Fetched):
            own_copy = setting.data and source.name in UCI_FILES and setting.data / UCI_FILES[source.name]
            if own_copy and own_copy.is_file():
                options["path"] = str(own_copy.absolute())
            return DataRef(source.load or fetched, name=source.name, **options)
        if setting.data is None or not (setting.data / source.name).is_dir():
            raise MissingData(self._how_to_bring(source, setting.data))
        folder = str((setting.data / source.name).absolute())
        if source.load:
            return DataRef(source.load, folder=folder, **options)
        return DataRef(read_user_data, folder=folder, content=source.content, **options)

    def _how_to_bring(self, source: UserData, data: Path | None) -> str:
        place = "give --data DIR, a folder with" if data is None else f"{str(data)!r} has no folder"
        return (
            f"the data of {self.name!r} ({self.sizes.text()}) are yours to bring: {place} {source.name!r} that holds "
            f"{source.layout or LAYOUT[source.content]}. {source.where}"
        )

    def _check(self, reference: DataRef) -> None:
        """Read the data, once per process, and assert their size."""
        key = (reference.load, json.dumps(reference.options, sort_keys=True, default=str), self.sizes)
        if key in _IN_ORDER:
            return
        try:
            data = reference()
        except (ValueError, OSError) as error:
            raise MissingData(f"the data of {self.name!r} cannot be read: {error}") from error
        given = {what: n for what, n in self.sizes._asdict().items() if n is not None}
        found = Sizes(**{"n_samples": 0} | {what: getattr(measure(data), what) for what in given})
        if found != self.sizes:
            raise MissingData(
                f"the data of {self.name!r} must have the published {self.sizes.text()}; they have {found.text()}."
            )
        _IN_ORDER.add(key)


class Printed(NamedTuple):
    """A table to print: the columns :data:`PROVENANCE` and others; those in `ours` must have no empty cell."""

    title: str
    frame: pd.DataFrame
    ours: tuple[str, ...] = ("ours",)


class PaperTable(NamedTuple):
    """A table or figure of a paper.

    Parameters
    ----------
    name : str
        For the command line: paper and number, "bemkl-table1".
    title : str
    paper : str
        Citation with the number of the table.
    protocol : str
        What is done, and how what the paper leaves open is filled in; Markdown.
    sets : tuple of PaperSet
    studies : callable
        ``studies(setting)`` returns the studies to run; their data sets come from
        ``references(sets, setting)``. The results of all go into one folder: a pair of data set and model is in one
        of them only.
    entries : tuple of Entry
        The cells of the table, in the order of the rows to print. Those of sets that a fast run leaves out are not
        printed; a model that is missing is an error.
    tables : callable or None
        ``tables(comparison, setting)`` returns what is printed instead of published beside ours and their difference
        (:func:`printing.published_beside_ours`).
    cells_of : str
        Name of another table whose studies are the same ones, so that its results will do.
    """

    name: str
    title: str
    paper: str
    protocol: str
    sets: tuple[PaperSet, ...]
    studies: Callable[[Setting], list[Study]]
    entries: tuple[Entry, ...] = ()
    tables: Callable[[Comparison, Setting], list[Printed]] | None = None
    cells_of: str = ""

    @property
    def needs(self) -> tuple[UserData, ...]:
        """The data that users bring."""
        return tuple(s.source for s in self.sets if isinstance(s.source, UserData))

    def missing(self, setting: Setting) -> list[str]:
        """Describe for each set without data what is missing and how to provide it."""
        messages = []
        for paper_set in wanted(self.sets, setting):
            try:
                paper_set.reference(setting)
            except MissingData as error:
                messages.append(str(error))
        return messages


def references(sets: Iterable[PaperSet], setting: Setting) -> dict[str, DataRef]:
    """Return label and reference of each wanted set whose data are there."""
    found = {}
    for paper_set in wanted(sets, setting):
        try:
            label, reference = paper_set.reference(setting)
        except MissingData:
            continue  # `PaperTable.missing` says so
        found[label] = reference
    return found


def wanted(sets: Iterable[PaperSet], setting: Setting) -> list[PaperSet]:
    """Return the sets that the setting asks for."""
    return [s for s in sets if setting.sets is None or s.name in setting.sets]


def set_name(label: str) -> str:
    """Return the name of the set that a label is of.

    Examples
    --------
    >>> set_name("sonar (stand-in)")
    'sonar'
    """
    return label.removesuffix(STAND_IN).removesuffix(CUT)


def measure(data: Data) -> Sizes:
    """Return the sizes of loaded data."""
    X, splits = np.shape(data.X), data.splits
    return Sizes(
        n_samples=X[0],
        n_features=X[1] if len(X) == 2 else None,
        n_kernels=X[2] if len(X) == 3 else None,
        n_classes=len(np.unique(data.y)),
        n_splits=None if splits is None else len(splits),
        n_train=None if splits is None else len(splits[0][0]),
    )
