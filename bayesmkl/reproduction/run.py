"""Runs of a published table: its studies, one folder for all of them, and rows to print."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.journal import ABOUT, RESULTS, Journal
from bayesmkl.evaluation.runner import OnCell, run_study
from bayesmkl.reproduction import PAPERS, paper_tables
from bayesmkl.reproduction.printing import check_printed, published_beside_ours
from bayesmkl.reproduction.tables import MissingData, PaperTable, Printed, Setting

__all__ = ["Reproduction", "find_table", "print_tables", "read_reproduction", "reproduce"]

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


def reproduce(
    name: str,
    setting: Setting | None = None,
    folder: Path | None = None,
    progress: OnCell | None = None,
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

    Returns
    -------
    Reproduction

    Raises
    ------
    MissingData
        If no set of the table has data.
    ValueError
        For an unknown table or set, and for a folder of another run.
    """
    table, setting = find_table(name), setting or Setting()
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
    comparison = run_study(studies, folder, setting.n_jobs, progress, {"reproduce": run}, part=setting.part)
    printed = print_tables(table, comparison, setting) if setting.part[1] == 1 else []
    return Reproduction(table, comparison, printed, missing, _faults(comparison, printed))


def find_table(name: str) -> PaperTable:
    """Return a table by its name; raise for an unknown one, with the nearest names."""
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
    earlier = Journal(folder).read_about().get("reproduce", {}).get("table", table)
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
