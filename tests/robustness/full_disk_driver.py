"""Do everything that writes on a disk with less and less room, in a mount that only this process sees; writes JSON.

Called as ``unshare -rm sh -c 'mount -t tmpfs ...; python full_disk_driver.py DISK'``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

SHARES = (0.0, 0.5, 0.999)  # of the room that the work takes
SHARES_OF_QUICK = (
    "model",
    "posterior",
    "comparison",
    "compare_models",
    "spool",
)  # others have no room at all


def room(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def content(place: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()
    }


def emptied(place: Path) -> None:
    for path in sorted(place.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def needed(disk: Path, place: Path, work: Callable[[Path], object]) -> int:
    """Return the bytes that a piece of work takes on the disk."""
    before = room(disk)
    work(place)
    taken = before - room(disk)
    emptied(place)
    return max(os.sysconf("SC_PAGE_SIZE"), taken)


def tried(
    disk: Path, name: str, work: Callable[[Path], object], old: Callable[[Path], object] | None
) -> list[dict]:
    """Repeat a piece of work in ever less room; say what it raised, and what became of what was there before."""
    place = disk / "place"
    place.mkdir()
    quick = name in SHARES_OF_QUICK
    takes = needed(disk, place, work) if quick else 0
    found = [
        attempt(disk, place, work, old, share * takes) | {"share": share}
        for share in SHARES[: 3 if quick else 1]
    ]
    place.rmdir()
    return [{"name": name} | one for one in found]


def attempt(
    disk: Path, place: Path, work: Callable[[Path], object], old: Callable[[Path], object] | None, free: float
) -> dict:
    """Work with some bytes of room, and once more with all of it."""
    if old is not None:
        old(place)
    before = content(place)
    page = os.sysconf("SC_PAGE_SIZE")
    (disk / "ballast").write_bytes(bytes(room(disk) - int(free) // page * page))
    error, again = failure(work, place), None
    after = content(place)
    (disk / "ballast").unlink()
    again = failure(work, place)
    emptied(place)
    return {
        "kind": None if error is None else [base.__name__ for base in type(error).__mro__],
        "message": str(error),
        "changed": sorted(key for key in before if before[key] != after.get(key)),
        "new": sorted(set(after) - set(before)),
        "again": None if again is None else str(again),
    }


def failure(work: Callable[[Path], object], place: Path) -> Exception | None:
    try:
        work(place)
    except Exception as error:
        return error
    return None


def command(*arguments: str) -> None:
    """Run a command; its message becomes an exception."""
    from typer.testing import CliRunner

    from bayesmkl.cli import app

    result = CliRunner().invoke(app, arguments)
    if result.exit_code not in (0, 1):
        assert result.exit_code == 2, result.output
        raise OSError(result.stderr)


def main(disk: Path) -> None:
    from sklearn.svm import SVC

    from bayesmkl import BEMKLRegressor, KernelBank, save_model
    from bayesmkl.datasets import load_wdbc
    from bayesmkl.evaluation import compare_models
    from bayesmkl.evaluation.study import Data, spool
    from bayesmkl.posterior import save_posterior, to_datatree

    outside = Path(tempfile.mkdtemp(prefix="outside-"))
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = BEMKLRegressor(KernelBank(["linear", "rbf"]), max_iter=5, tol=0.0).fit(X, X[:, 0])
    small, tree = KernelBank("linear"), to_datatree(model, 200, 0)
    y = np.where(X[:, 0] > 0, "yes", "no")
    comparison = compare_models({"svm": SVC()}, X, y, cv=3, scoring="accuracy")
    table = outside / "table.csv"
    pd.DataFrame(X, columns=list("abc")).assign(kind=y).to_csv(table, index=False)
    fit = ("--target", "kind", "--kernels-on", "all", "--max-iter", "5", "--tol", "0")
    command("fit", str(table), *fit, "--out", str(outside / "run"))
    many, labels = load_wdbc(return_X_y=True)

    def spooled(place: Path, X: np.ndarray, y: np.ndarray) -> None:
        shutil.rmtree(place / "s", ignore_errors=True)  # as a temporary folder is removed after an error
        spool(Data(X, y), place / "s")

    def models(place: Path) -> None:
        compare_models(
            {"svm": SVC(), "rough": SVC(C=0.1)}, X, y, cv=3, scoring="accuracy", folder=place / "run"
        )

    found = [
        *tried(disk, "model", lambda d: save_model(model, d / "m"), lambda d: save_model(small, d / "m")),
        *tried(
            disk, "posterior", lambda d: save_posterior(tree, d / "p"), lambda d: save_model(small, d / "p")
        ),
        *tried(disk, "comparison", lambda d: comparison.save(d / "c"), None),
        *tried(
            disk,
            "report",
            lambda d: comparison.to_html(d / "r.html"),
            lambda d: (d / "r.html").write_text("a"),
        ),
        *tried(disk, "compare_models", models, None),
        *tried(disk, "spool", lambda d: spooled(d, many, labels), None),
        *tried(
            disk,
            "fit",
            lambda d: command("fit", str(table), *fit, "--out", str(d / "run"), "--force"),
            lambda d: shutil.copytree(outside / "run", d / "run"),
        ),
        *tried(
            disk,
            "predict",
            lambda d: command("predict", str(outside / "run"), str(table), "--out", str(d / "p.csv")),
            lambda d: (d / "p.csv").write_text("earlier"),
        ),
    ]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
