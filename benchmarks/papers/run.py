"""Repeat a table of a paper: ``python benchmarks/papers/run.py NAME``; without a name, list them.

Cells are kept in ``cells/NAME.jsonl``, so that a run that was stopped goes on. ``--save`` writes the printed tables
to ``results/``, ``--show`` prints the committed ones.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Run the command line."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import pandas as pd

    from papers import bemkl, lapmkl, localized, obmkl, primalmkl, samkl
    from papers.core import RESULTS, agreement, run, tables_of

    tables = bemkl.TABLES | samkl.TABLES | localized.TABLES | obmkl.TABLES | primalmkl.TABLES | lapmkl.TABLES
    parser = argparse.ArgumentParser(description="Repeat a table of a paper.")
    parser.add_argument("name", nargs="?", choices=tables, metavar="NAME")
    parser.add_argument("--splits", type=int, help="number of splits; the paper's by default")
    parser.add_argument(
        "--sets", default="", help="names of data sets, separated by semicolons; all by default"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--save", action="store_true", help="write the printed tables to results/")
    parser.add_argument("--show", action="store_true", help="print the committed results, compute nothing")
    given = parser.parse_args()
    if given.name is None:
        print("\n".join(f"{name:22}{table.title}" for name, table in tables.items()))
        return
    table = tables[given.name]
    print(f"{table.title}\n\n{table.protocol}\n")
    if given.show:
        files = [
            f
            for f in sorted(RESULTS.glob(f"{given.name}*.csv"))
            if f.stem == given.name or f.stem not in tables
        ]
        printed = {file.stem: pd.read_csv(file) for file in files}
    else:
        sets = [name.strip() for name in given.sets.split(";") if name.strip()]
        cells = run(table.cells_of or given.name, table, given.splits, sets, given.jobs)
        printed = tables_of(given.name, table, cells)
    for name, frame in printed.items():
        print(f"\n{name}\n{frame.round(4).to_string(index=False)}")
        if {"published_sd", "dataset"} <= set(frame):
            print(
                f"\nmeans within one published standard deviation\n{agreement(frame).to_string(index=False)}"
            )
        if given.save:
            RESULTS.mkdir(exist_ok=True)
            frame.to_csv(RESULTS / f"{name}.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
