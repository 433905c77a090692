"""Runs of a published table: its studies, one folder for all of them, and rows to print."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.model_selection import ParameterGrid

from bayesmkl._utils.files import as_path
from bayesmkl._utils.validation import check_flag, check_integer, check_jobs, shown
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.journal import ABOUT, RESULTS, Journal
from bayesmkl.evaluation.runner import OnCell, run_study
from bayesmkl.evaluation.study import Study
from bayesmkl.reproduction import PAPERS, paper_tables
from bayesmkl.reproduction.printing import check_printed, published_beside_ours
from bayesmkl.reproduction.tables import MissingData, PaperTable, Printed, Setting

__all__ = ["Cost", "Reproduction", "find_table", "print_tables", "read_reproduction", "reproduce"]

LONGEST_ERROR = 320  # characters


class Reproduction(NamedTuple):
    """A table that was run.

    Parameters
    ----------
    table : PaperTable
    comparison : Comparison
        The cells of all its studies.
    printed : list of Printed
        Published beside ours; nothing of a run of one part.
    missing : list of str
        For each set without data, what is missing and how to bring it; of a run that was read, nothing.
    faults : list of str
        Empty cells of ours, and how models failed; none after a good run.
    """

    table: PaperTable
    comparison: Comparison
    printed: list[Printed]
    missing: list[str]
    faults: list[str]


class Cost(NamedTuple):
    """What a run takes, by the seconds of a fit in its first cell.

    Parameters
    ----------
    n_cells : int
        To compute.
    n_fits : int
        In all of these, with those of searches inside the training samples.
    seconds : float
        `n_fits` times the seconds of a fit in the first cell, on one processor. Fits of other models, and of larger
        sets, take more.
    """

    n_cells: int
    n_fits: int
    seconds: float


def reproduce(
    name: str,
    setting: Setting | None = None,
    folder: Path | None = None,
    progress: OnCell | None = None,
    cost: Callable[[Cost], None] | None = None,
) -> Reproduction:
    """Run a table of a paper.

    Parameters
    ----------
    name : str
        One of :func:`bayesmkl.reproduction.paper_tables`, such as "bemkl-table1".
    setting : Setting, default=None
        Full or fast, folder of the user's data, number of splits; None is a full run.
    folder : Path, default=None
        Folder of the results: cells, ``results.csv`` and ``about.json``, as :func:`compare_models` writes them. Cells
        that are there are not computed again, whatever the setting; a folder of another table is refused.
    progress : callable, default=None
        Called with each finished row, the number of finished cells and that of all cells.
    cost : callable, default=None
        Called with what the run will take, when its first cell is finished.

    Returns
    -------
    Reproduction

    Raises
    ------
    MissingData
        If no set of the table has data.
    ValueError
        For an unknown table or set, a setting out of range, `data` that is no folder, and for a folder of another
        run.
    TypeError
        If `setting` is no Setting, or `folder` no path.
    """
    table, setting = find_table(name), _checked(Setting() if setting is None else setting)
    folder = None if folder is None else as_path("folder", folder)
    _check_sets(table, setting)
    missing = table.missing(setting)
    studies = [study for study in table.studies(setting) if study.datasets]
    if not studies:
        why = (
            " ".join(missing)
            or f"its fast form has none of {', '.join(setting.sets or ())}; leave --fast out."
        )
        raise MissingData(f"nothing of {name} can be run: {why}")
    run = {"table": table.name, "fast": setting.fast, "splits": setting.splits, "sets": setting.sets}
    if folder is not None:
        _check_folder(folder, table.name)
    on_cell = _with_cost(studies, progress, cost)
    comparison = run_study(studies, folder, setting.n_jobs, on_cell, {"reproduce": run}, part=setting.part)
    printed = print_tables(table, comparison, setting) if setting.part[1] == 1 else []
    return Reproduction(table, comparison, printed, missing, _faults(comparison, printed))


def find_table(name: str) -> PaperTable:
    """Return a table by its name; raise for an unknown one, with the nearest names."""
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of a table, such as 'bemkl-table1'; got {shown(name)}.")
    paper = name.partition("-")[0]
    tables = paper_tables([paper] if paper in PAPERS else PAPERS)
    if name not in tables:
        close = get_close_matches(name, tables, n=3) or list(tables)
        raise ValueError(
            f"`name` must be a table that `bayesmkl reproduce --list` shows; got {name!r}. Did you mean "
            f"{', '.join(close)}?"
        )
    return tables[name]


def print_tables(table: PaperTable, comparison: Comparison, setting: Setting) -> list[Printed]:
    """Return the printed form of a comparison: the table's own form, or published beside ours."""
    if table.tables is not None:
        return table.tables(comparison, setting)
    return [published_beside_ours(table.entries, comparison, table.title)]


def read_reproduction(folder: Path, name: str | None = None) -> Reproduction:
    """Read the folder of a finished run.

    Parameters
    ----------
    folder : Path
    name : str, default=None
        The table to print; None is the one that was run. Another one must have the same studies
        (``PaperTable.cells_of``).

    Returns
    -------
    Reproduction

    Raises
    ------
    ValueError
        If the folder is not that of a table, or the run is not finished.
    """
    folder = as_path("folder", folder)
    about = Journal(folder).read_about()
    if "reproduce" not in about or not (folder / RESULTS).exists():
        raise ValueError(f"{str(folder)!r} is not the folder of a finished `bayesmkl reproduce`.")
    run = about["reproduce"]
    table, comparison = find_table(name or run["table"]), Comparison.load(folder)
    if run["table"] not in (table.name, table.cells_of):
        raise ValueError(f"{str(folder)!r} holds cells of {run['table']}, not of {table.name}.")
    sets = None if run["sets"] is None else tuple(run["sets"])
    setting = Setting(run["fast"], splits=run["splits"], random_state=about["random_state"], sets=sets)
    printed = print_tables(table, comparison, setting)
    return Reproduction(table, comparison, printed, [], _faults(comparison, printed))


def _with_cost(
    studies: list[Study], progress: OnCell | None, cost: Callable[[Cost], None] | None
) -> OnCell | None:
    """Return what is called with finished rows: the first one tells the cost as well."""
    if cost is None:
        return progress
    n_fits = {
        (name, model): _n_fits(study, model)
        for study in studies
        for name in study.datasets
        for model in study.models
    }
    n_told = 0

    def on_cell(row: dict[str, Any], done: int, total: int) -> None:
        nonlocal n_told
        if n_told == 0:
            n_told, left = 1, total - done + 1
            n_left = round(left * sum(n_fits.values()) / len(n_fits))
            own = (row.get("fit_seconds") or 0.0) + (row.get("predict_seconds") or 0.0)
            cost(Cost(left, n_left, n_left * own / n_fits[row["dataset"], row["model"]]))
        if progress is not None:
            progress(row, done, total)

    return on_cell


def _n_fits(study: Study, model: str) -> int:
    """Count the fits of a cell: candidates times folds, and that of the best one."""
    spec = study.models[model]
    candidates = getattr(spec.estimator, "candidates", None)
    if candidates is not None:
        return len(candidates) * int(spec.estimator.n_folds) + 1
    if spec.param_grid is None:
        return 1
    folds = study.inner_cv
    n_folds = folds if isinstance(folds, int) else folds.get_n_splits()
    return len(ParameterGrid(spec.param_grid)) * int(n_folds) + 1


def _checked(setting: Setting) -> Setting:
    """Return a setting whose values are of their kinds and in their ranges."""
    if not isinstance(setting, Setting):
        raise TypeError(f"`setting` must be a Setting, such as Setting(fast=True); got {shown(setting)}.")
    check_flag("fast", setting.fast)
    if setting.splits is not None:
        check_integer("splits", setting.splits, low=1)
    check_jobs("n_jobs", setting.n_jobs)
    check_integer("random_state", setting.random_state, low=0)
    if isinstance(setting.sets, str) or (setting.sets is not None and not setting.sets):
        raise ValueError(
            f"`sets` must be a tuple of names of data sets, or None for all; got {shown(setting.sets)}."
        )
    part = setting.part
    if not isinstance(part, tuple | list) or len(part) != 2 or not all(isinstance(k, int) for k in part):
        raise ValueError(f"`part` must be two whole numbers, such as (3, 8) for 3/8; got {shown(part)}.")
    if not 1 <= part[0] <= part[1]:
        raise ValueError(f"`part` must be (k, n) with k from 1 to n; got {shown(part)}.")
    if setting.data is None:
        return setting
    data = as_path("data", setting.data)
    if not data.is_dir():
        raise ValueError(
            f"`data` must be the folder of the data that you bring; there is no folder {str(data)!r}."
        )
    return setting._replace(data=data)


def _check_sets(table: PaperTable, setting: Setting) -> None:
    names = [paper_set.name for paper_set in table.sets]
    for name in setting.sets or ():
        if name not in names:
            close = get_close_matches(name, names, n=3) or names
            raise ValueError(
                f"`sets` must name data sets of {table.name}; got {name!r}. Did you mean {', '.join(close)}?"
            )


def _check_folder(folder: Path, table: str) -> None:
    """Raise if a folder holds anything else than a run of this table."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir() or not (folder / ABOUT).exists():
        raise ValueError(
            f"{str(folder)!r} is not the folder of an earlier run. Nothing was changed; choose another one."
        )
    earlier = Journal(folder).read_about().get("reproduce", {}).get("table")
    if earlier is None:
        raise ValueError(
            f"{str(folder)!r} holds a comparison that is no table of a paper. Nothing was changed; choose another "
            "folder."
        )
    if earlier != table:
        raise ValueError(
            f"{str(folder)!r} holds another run of {earlier}. Nothing was changed; choose another folder, or repeat "
            "the run that it holds."
        )


def _faults(comparison: Comparison, printed: list[Printed]) -> list[str]:
    failed = [
        f"{row['model']} on {row['dataset']}, split {row['split']}: {_shortened(row['error'])}"
        for row in comparison.failures.to_dict("records")
    ]
    return failed + check_printed(printed)


def _shortened(text: str) -> str:
    """Keep both ends of a long message: what happened, and the cause."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_ERROR else f"{text[:100]} ... {text[-200:]}"
