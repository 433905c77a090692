"""Write docs/reproduction.md from its template and the committed results of `bayesmkl reproduce`.

The template, docs/_templates/reproduction.md, has places for what is generated:

    <!-- tables -->                 all tables, and which of them have been run in full
    <!-- table bemkl-table1 -->     a table, from benchmarks/results/reproduce/bemkl-table1/
    <!-- include NAME.inc -->       what a benchmark wrote to docs/_generated/

With folders, `python docs/make_reproduction.py [--splits N] RUN ...` first commits a run, or the parts of one, to
benchmarks/results/reproduce/: the splits of a data set that all models of a study have, or those of the first N,
without predictions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesmkl.datasets import list_datasets
from bayesmkl.evaluation import Comparison
from bayesmkl.evaluation.journal import KEY, RESULTS, Journal, table_of
from bayesmkl.reproduction import paper_tables
from bayesmkl.reproduction.printing import as_text, markdown
from bayesmkl.reproduction.run import Reproduction, find_table, print_tables, read_reproduction
from bayesmkl.reproduction.tables import Fetched, PaperTable, Setting, set_name

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT / "docs" / "_templates" / "reproduction.md"
PAGE = ROOT / "docs" / "reproduction.md"
RUNS = ROOT / "benchmarks" / "results" / "reproduce"
NOTE = (
    "<!-- Written by `make reproduction` from docs/_templates/reproduction.md and committed results. -->\n\n"
)
LONGEST_TABLE = 30  # rows
PLACE = re.compile(r"^<!-- (tables|table|include) ?(\S*) -->$", re.MULTILINE)


def page(template: str, runs: Path) -> str:
    """Fill in the template; every table of the papers and every finished run must have its place."""
    tables = paper_tables()
    folders = {folder.name: folder for folder in runs.glob("*") if is_finished(folder)}
    found = {}
    for name, table in tables.items():
        folder = folders.get(name) or folders.get(table.cells_of)
        if folder is not None:
            found[name] = read_reproduction(folder, name)
            check_run(folder.name, found[name])
    if set(folders) - set(tables):
        raise ValueError(f"there is no table {sorted(set(folders) - set(tables))}, but a folder of results.")
    placed = [name for kind, name in PLACE.findall(template) if kind == "table"]
    if sorted(placed) != sorted(tables):
        raise ValueError(f"the template must have one place for each table; it has {placed}.")

    def fill(place: re.Match[str]) -> str:
        kind, name = place.groups()
        if kind == "include":
            return f"```{{include}} _generated/{name}\n```"
        if kind == "tables":
            return overview(tables.values(), found)
        return section(tables[name], found.get(name))

    return NOTE + PLACE.sub(fill, template)


def is_finished(folder: Path) -> bool:
    """Say whether a folder holds results; one of a run that goes on does not yet."""
    return (folder / RESULTS).is_file()


def check_run(name: str, run: Reproduction) -> None:
    """Refuse what must not be on the page."""
    of_run = run.comparison.about["reproduce"]
    if of_run["table"] != name:
        raise ValueError(f"the folder {name} holds a run of {of_run['table']}.")
    if of_run["fast"]:
        raise ValueError(f"the folder {name} holds a fast run.")
    if run.faults:
        raise ValueError(f"the run of {name} has empty cells: {run.faults[0]}")


def overview(tables: Iterable[PaperTable], found: dict[str, Reproduction]) -> str:
    """List all tables."""
    lines = ["| Table | What | Data | Run in full |", "|---|---|---|---|"]
    for table in tables:
        run = found.get(table.name)
        extent = "no" if run is None else f"{n_splits(run)} splits of {len(run.comparison.datasets)} sets"
        lines.append(f"| `{table.name}` | {table.title} | {origins(table)} | {extent} |")
    return "\n".join(lines)


def origins(table: PaperTable) -> str:
    """Say where the data of a table come from."""
    brought = dict.fromkeys(f"`{need.name.partition('/')[0]}`" for need in table.needs)
    others = [s.source.name for s in table.sets if isinstance(s.source, Fetched)]
    known = set(list_datasets().index)
    kinds = dict.fromkeys("fetched" if name in known else "synthetic" for name in others)
    return ", ".join([*kinds, *([f"you bring {', '.join(brought)}"] if brought else [])])


def section(table: PaperTable, run: Reproduction | None) -> str:
    """Show a table: protocol, rows, and what was run where; or how to run it."""
    head = f"`{table.name}`: {table.paper}. {table.protocol}"
    if run is None:
        option = " --data DIR" if table.needs else ""
        return f"{head}\n\nNot run in full here; `bayesmkl reproduce {table.name}{option}` does."
    parts = [head]
    for printed in run.printed:
        parts += [f"**{printed.title}**", folded(printed.frame)]
    return "\n\n".join([*parts, facts(run)])


def folded(frame: pd.DataFrame) -> str:
    """Write a table; a long one opens on demand, below what it comes to."""
    table = markdown(as_text(frame))
    if len(frame) <= LONGEST_TABLE:
        return table
    hidden = f"<details>\n<summary>{len(frame)} rows</summary>\n\n{table}\n\n</details>"
    return "\n\n".join([*agreement(frame), hidden])


def agreement(frame: pd.DataFrame) -> list[str]:
    """Count the cells near the published ones, by variant."""
    if "difference_in_sd" not in frame:
        return []
    lines = []
    for variant, rows in frame.dropna(subset="difference_in_sd").groupby("variant", sort=False):
        distance = rows["difference_in_sd"].abs()
        lines.append(
            f"* {variant}: {(distance <= 1).sum()} of {len(rows)} cells are within one published standard deviation, "
            f"{(distance <= 2).sum()} within two."
        )
    return ["\n".join(lines)] if lines else []


def facts(run: Reproduction) -> str:
    """Say how a run was called, what it cost, and what ran it."""
    about, comparison = run.comparison.about, run.comparison
    run_of = about["reproduce"]
    there = {set_name(label) for label in comparison.datasets}
    left_out = [paper_set.name for paper_set in run.table.sets if paper_set.name not in there]
    command = f"bayesmkl reproduce {run_of['table']}"
    command += f" --splits {run_of['splits']}" if run_of["splits"] else ""
    command += "".join(
        f' --only "{name}"' if " " in name else f" --only {name}" for name in run_of["sets"] or ()
    )
    environment = about["environment"]
    versions = ", ".join(f"{name} {environment[name]}" for name in ("python", "numpy", "scikit-learn"))
    minutes = max(1, round(about["seconds"] / 60))
    text = f"`{command}`: {len(comparison.cells)} cells, {minutes} min, {versions}."
    return text + (f" Not run: {', '.join(left_out)}." if left_out else "")


def n_splits(run: Reproduction) -> str:
    """Return the number of splits, a range where sets differ."""
    counts = run.comparison.cells.groupby("dataset")["split"].nunique()
    low, high = counts.min(), counts.max()
    return str(low) if low == high else f"{low} to {high}"


def keep(folders: list[str], runs: Path, most: int | None = None) -> Path:
    """Put a run, or its parts, among the committed results, at `most` some splits; return its folder there.

    Parts may come from several computers, whose environments are all named; their data and splits must be the same.
    One of them may be the folder of an earlier run here, to go on with; it tells no splits. Models that no split of a
    set has are left out, where the table can be printed without them. Sets and splits of the command that makes these
    cells are in the description; it makes more where some are missing.
    """
    parts = [Comparison.load(folder) for folder in folders]
    about = joined([part.about for part in parts])
    cells = pd.concat([part.cells for part in parts]).drop_duplicates(list(KEY))
    views = [one for part in parts for one in part.about.get("view", [])]
    together = {(one["dataset"], model): " | ".join(one["cells"]) for one in views for model in one["cells"]}
    # A run that is committed says nothing of its studies: all of its splits are whole.
    study = [together.get(of_cell, "") for of_cell in zip(cells["dataset"], cells["model"], strict=True)]
    cells = cells.assign(study=study)
    n_models = cells.groupby(["dataset", "study"])["model"].transform("nunique")  # that were run at all
    n_there = cells.groupby(["dataset", "split", "study"])["model"].transform("nunique")
    cells = cells[(n_there == n_models) | (cells["study"] == "")].drop(columns="study")
    cells = cells[cells["split"] < (most or np.inf)]
    table, names = find_table(about["reproduce"]["table"]), {set_name(label) for label in cells["dataset"]}
    there = [paper_set.name for paper_set in table.sets if paper_set.name in names]
    splits = int(cells["split"].max()) + 1
    about["reproduce"] |= {"splits": splits, "sets": None if len(there) == len(table.sets) else there}
    order = [
        (label, model, split)
        for label in sorted(cells["dataset"].unique(), key=lambda label: there.index(set_name(label)))
        for split in sorted(cells.loc[cells["dataset"] == label, "split"].unique())
        for model in about["models"]
    ]
    about["datasets"] = {
        label: about["datasets"][label] for label in dict.fromkeys(label for label, *_ in order)
    }
    spent = cells["fit_seconds"] + cells["predict_seconds"] - cells["reused_seconds"]
    about["seconds"] = float(spent.sum())
    folder = runs / table.name
    folder.mkdir(parents=True, exist_ok=True)
    rows = cells.assign(kernel_shares="").to_dict("records")
    found = Comparison(table_of(rows, list(about["metrics"]), order), about)
    print_tables(table, found, Setting(splits=splits))  # what it takes of the data is kept in the description
    Journal(folder).finish(found.cells, found.about)
    return folder


def joined(abouts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the descriptions of parts; raise where data or splits of one name differ."""
    known: dict[tuple[str, ...], str] = {}
    for view in (one for about in abouts for one in about.get("view", [])):
        for model in view["cells"]:
            for k, digest in enumerate((view["content"], *view["splits"])):
                if known.setdefault((view["dataset"], model, str(k)), digest) != digest:
                    raise ValueError(f"the parts have other data or splits of {view['dataset']!r}.")
    about = {name: value for name, value in abouts[0].items() if name not in ("view", "study")}
    for name in ("models", "datasets", "metrics"):
        about[name] = {key: value for one in abouts for key, value in one[name].items()}
    texts = {
        name: [text for one in abouts for text in one["environment"].get(name, "").split("; ")]
        for name in about["environment"]
    }
    about["environment"] = {name: "; ".join(filter(None, dict.fromkeys(own))) for name, own in texts.items()}
    return about


if __name__ == "__main__":
    if sys.argv[1:2] == ["--splits"]:
        keep(sys.argv[3:], RUNS, int(sys.argv[2]))
    elif sys.argv[1:]:
        keep(sys.argv[1:], RUNS)
    PAGE.write_text(page(TEMPLATE.read_text(encoding="utf-8"), RUNS), encoding="utf-8")
