"""Union of the folders of several comparisons, cell by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from bayesmkl._utils.files import as_path
from bayesmkl.evaluation.cells import CELLS, NotKeptError
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.identity import NONE
from bayesmkl.evaluation.journal import KEY, RESULTS, Journal, cells_of_view, held_run, read_results, table_of

__all__ = ["merge_comparisons"]

OTHER = (
    "`folders`: {what} is another one in {folder!r}: what decides it, its seed, or versions. Nothing was written; "
    "rename one of them."
)


def merge_comparisons(folders: Sequence[str | PathLike[str]], folder: str | PathLike[str]) -> Comparison:
    """Put the cells of several folders into a new one, as if one call had compared them all.

    Models, data sets and metrics are told by their names, which must mean the same in all folders; splits by their
    rows, of which a folder may have some that others do not have. Nothing is computed: a metric that one folder lacks
    is NaN in its cells until :func:`~bayesmkl.evaluation.compare_models` is called with the new folder.

    Parameters
    ----------
    folders : sequence of path-like
        Folders that :func:`~bayesmkl.evaluation.compare_models` or :meth:`Comparison.save` wrote; they stay.
    folder : path-like
        New or empty folder.

    Returns
    -------
    Comparison
        All cells, with what each of them keeps.

    Raises
    ------
    ValueError
        If a folder is not that of a comparison, or of an earlier layout, or holds cells without content, or lacks
        some of its table; if a name means two things; if tables of papers were run with other options; or if `folder`
        is not empty. Nothing is written then.
    TypeError
        If a folder is no path.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.svm import SVC
    >>> from bayesmkl.evaluation import compare_models, merge_comparisons
    >>> study = {"datasets": "iris", "scoring": "accuracy", "cv": 3}
    >>> with TemporaryDirectory() as place:
    ...     first = compare_models({"a": SVC()}, **study, folder=f"{place}/a")
    ...     second = compare_models({"b": SVC(C=2.0)}, **study, folder=f"{place}/b")
    ...     merged = merge_comparisons([f"{place}/a", f"{place}/b"], f"{place}/both")
    >>> merged
    <Comparison: 2 models x 1 data set, 6 cells>
    """
    if isinstance(folders, str) or not isinstance(folders, Sequence) or not folders:
        raise ValueError(f"`folders` must list folders of comparisons; got {folders!r}.")
    journals = [Journal(as_path("folders", one)) for one in folders]
    abouts = [journal.check_grows() for journal in journals]
    for journal, own in zip(journals, abouts, strict=True):
        _check_told(own["view"], journal.folder)
        _check_cells(journal, own)
    about = abouts[0]
    for journal, other in zip(journals[1:], abouts[1:], strict=True):
        about = _united(about, other, journal.folder)
    target = as_path("folder", folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"`folder` must be new or empty; {str(target)!r} is not. Choose another one.")
    with held_run(target):
        merged = Journal(target)
        merged.begin(about)
        for journal, own in zip(journals, abouts, strict=True):
            _copy(journal, own, merged)
        rows = merged.read()
        cells = table_of(rows, list(about["metrics"]), list(cells_of_view(about["view"])))
        merged.finish(cells, about)
    return Comparison(cells, about, merged.store)


def _check_told(view: list[dict[str, Any]], folder: Path) -> None:
    """Raise for what has no content: nobody could say whether it is that of another folder."""
    for part in view:
        hashes = [part["content"], *part["scorers"].values()]
        hashes += [key for keys in part["cells"].values() for key in keys if key is not None]
        if any(text.startswith(NONE) for text in hashes):
            raise ValueError(
                f"`folders`: {str(folder)!r} holds cells on {part['dataset']!r} that cannot be told from others, as "
                "something in them has no content. Compare again with `keys` for it."
            )


def _check_cells(journal: Journal, about: dict[str, Any]) -> None:
    """Raise for cells that are not what was written, and for those of a table alone: no other folder has them."""
    folder, there = str(journal.folder), set()
    for name, shown in cells_of_view(about["view"]).items():
        cell = journal.store.read(shown.key)
        if cell is not None and journal.store.is_intact(cell):
            there.add(name)
    if journal.store.damaged:
        key, why = next(iter(journal.store.damaged.items()))
        raise ValueError(
            f"`folders`: {len(journal.store.damaged)} cells in {folder!r} were cut short or edited, the first being "
            f"{key} ({why}). Call compare_models there again, which computes them, then merge."
        )
    if not (journal.folder / RESULTS).exists():  # of a run that was interrupted
        return
    table = read_results(journal.folder / RESULTS)
    named = zip(*(table[column].tolist() for column in KEY), strict=True)
    gone = [name for name in named if name not in there]
    if gone:
        dataset, model, split = gone[0]
        raise ValueError(
            f"`folders`: {len(gone)} cells of {folder!r}, the first being {model!r} on {dataset!r}, split {split}, "
            f"are in its {RESULTS} and not in its folder {CELLS!r}, as where a table alone was shared. Give the "
            "whole folder, or call compare_models there again, which computes them."
        )


def _copy(journal: Journal, about: dict[str, Any], merged: Journal) -> None:
    """Write the cells of a folder, with their predictions, beside those that are there."""
    for key in dict.fromkeys(shown.key for shown in cells_of_view(about["view"]).values()):
        cell = journal.store.read(key)
        if cell is not None:
            with suppress(NotKeptError):
                cell = cell._replace(kept=journal.store.kept(cell))
            merged.store.write(cell)


def _united(about: dict[str, Any], other: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the description of two folders together; raise where a name means two things."""
    in_order = {
        part: about.get(part, {})
        | {n: v for n, v in other.get(part, {}).items() if n not in about.get(part, {})}
        for part in ("models", "datasets", "metrics")
    }
    environment = {
        name: "; ".join(dict.fromkeys([*text.split("; "), *other["environment"].get(name, text).split("; ")]))
        for name, text in (other["environment"] | about["environment"]).items()
    }
    _check_contents(about["view"], other["view"], folder)
    view: dict[tuple[str, str], dict[str, Any]] = {}
    models: dict[tuple[str, str], str] = {}  # content of the data that a model has under a name
    for part in (*about["view"], *other["view"]):
        name, content = part["dataset"], part["content"]
        for model in part["cells"]:
            if models.setdefault((name, model), content) != content:
                raise ValueError(OTHER.format(what=f"model {model!r} on {name!r}", folder=str(folder)))
        _add(view.setdefault((name, content), {"dataset": name, "splits": [], "cells": {}}), part, folder)
    sums = {
        "seconds": about["seconds"] + other["seconds"],
        "study": [*about.get("study", []), *other.get("study", [])],
    }
    return about | in_order | sums | {"view": list(view.values()), "environment": environment}


def _check_contents(view: list[dict[str, Any]], other: list[dict[str, Any]], folder: Path) -> None:
    """Raise where a data set is another one; studies of one folder may give models other forms of it."""
    contents: dict[str, list[set[str]]] = {}
    for k, parts in enumerate((view, other)):
        for part in parts:
            contents.setdefault(part["dataset"], [set(), set()])[k].add(part["content"])
    for name, (first, second) in contents.items():
        if not (first <= second or second <= first):
            raise ValueError(OTHER.format(what=f"data set {name!r}", folder=str(folder)))


def _add(united: dict[str, Any], part: dict[str, Any], folder: Path) -> None:
    """Add a part of a view to the one of the same data set."""
    name = part["dataset"]
    united["content"] = part["content"]
    scorers = united.setdefault("scorers", {})
    for metric, digest in part["scorers"].items():
        if scorers.setdefault(metric, digest) != digest:
            raise ValueError(OTHER.format(what=f"metric {metric!r}", folder=str(folder)))
    there = _numbered(united["splits"])
    united["splits"] += [split[0] for split in _numbered(part["splits"]) if split not in there]
    places = {split: place for place, split in enumerate(_numbered(united["splits"]))}
    for model, keys in part["cells"].items():
        own = united["cells"].setdefault(model, [])
        for split, key in zip(_numbered(part["splits"]), keys, strict=True):
            place = places[split]
            own += [None] * (place + 1 - len(own))
            if own[place] not in (None, key):
                raise ValueError(OTHER.format(what=f"model {model!r} on {name!r}", folder=str(folder)))
            own[place] = key
    for own in united["cells"].values():
        own += [None] * (len(united["splits"]) - len(own))


def _numbered(splits: list[str]) -> list[tuple[str, int]]:
    """Return splits with the number of equal ones before each: the same rows may be there again, with other seeds."""
    seen: Counter[str] = Counter()
    found = []
    for digest in splits:
        found.append((digest, seen[digest]))
        seen[digest] += 1
    return found
