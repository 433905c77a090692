"""Several processes that write to one place at the same time; call it in a fork of the tests."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

N_WRITES = 25


def together(works: list[Callable[[], object]]) -> list[str]:
    """Run every work in a process of its own, all at once; return what each of them raised or returned."""
    readers, pids = [], []
    for work in works:
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                said = str(work())
            except BaseException:
                said = traceback.format_exc(limit=-3)
            os.write(writer, said.encode()[-60_000:])
            os._exit(0)
        os.close(writer)
        readers.append(reader)
        pids.append(pid)
    said = []
    for pid, reader in zip(pids, readers, strict=True):
        with os.fdopen(reader, "rb") as file:
            said.append(file.read().decode())
        os.waitpid(pid, 0)
    return said


def writer_of_models(path: Path, kernels: list[str]) -> Callable[[], object]:
    from bayesmkl import KernelBank, save_model

    def write() -> str:
        for _ in range(N_WRITES):
            save_model(KernelBank(kernels), path)
        return "done"

    return write


def reader_of_models(path: Path) -> str:
    """Read as long as others write; return how often, and what was found."""
    from bayesmkl import load_model

    found: set[tuple[str, ...]] = set()
    n_reads, end = 0, time.monotonic() + 0.5
    while time.monotonic() < end or n_reads < 20:
        found.add(tuple(load_model(path).kernels))
        n_reads += 1
    return json.dumps([n_reads, sorted(found)])


def models(folder: Path) -> dict:
    from bayesmkl import KernelBank, save_model

    path = folder / "model.skops"
    save_model(KernelBank(["linear"]), path)
    works = [writer_of_models(path, ["linear", "rbf"]), writer_of_models(path, ["cosine", "rbf", "linear"])]
    said = together([*works, lambda: reader_of_models(path)])
    return {"said": said, "left": sorted(p.name for p in folder.iterdir()), "last": reader_of_models(path)}


def runs(folder: Path, force: bool, slowly: bool = False) -> dict:
    """Several processes that become the same folder, one of them a moment later than it had checked."""
    from bayesmkl.cli.folders import CONFIG, folder_beside

    def writer(k: int) -> Callable[[], object]:
        def write() -> str:
            done = 0
            if slowly:
                slow_motion(k)
            for _ in range(N_WRITES if force else 1):
                try:
                    with folder_beside(folder / "run", force) as beside:
                        text = json.dumps({"format": "bayesmkl-run", "writer": k})
                        (beside / CONFIG).write_text(text)
                        time.sleep(0.002 if force else 0.3)
                        (beside / "second").write_text(text)
                    done += 1
                except ValueError as error:
                    if force and "was written by another run meanwhile" not in str(error):
                        raise
                    if not force:
                        return f"refused: {error}"
            return f"done {done}"

        return write

    folder.mkdir(exist_ok=True)
    said = together([writer(k) for k in range(3)])
    texts = [path.read_text() for path in sorted((folder / "run").iterdir())]
    return {"said": said, "left": sorted(p.name for p in folder.iterdir()), "texts": texts}


def slow_motion(seed: int) -> None:
    """In this process, let others come between any two steps in which a run takes the place of another."""
    from bayesmkl.cli import folders

    rng = random.Random(seed)
    rename, rmtree = Path.rename, shutil.rmtree

    def pause() -> None:
        time.sleep(rng.choice([0.0, 0.004 * rng.random()]))

    def rename_slowly(self: Path, target: Path) -> Path:
        found = rename(self, target)
        pause()
        return found

    def remove_slowly(folder: Path, ignore_errors: bool = False) -> None:
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                path.unlink()
                pause()
        rmtree(folder, ignore_errors)

    Path.rename = rename_slowly
    folders.shutil = SimpleNamespace(rmtree=remove_slowly)


def comparisons(folder: Path) -> dict:
    """Two comparisons in one folder at once, and a third when both are done."""
    import numpy as np
    from sklearn.svm import SVC

    from bayesmkl.evaluation import compare_models

    X = np.random.default_rng(0).normal(size=(200, 5))
    y = X[:, 0] > 0

    def compare() -> str:
        found = compare_models(
            {"svm": SVC(), "rough": SVC(C=0.1)}, X, y, cv=10, scoring="accuracy", folder=folder
        )
        return found.cells["accuracy"].to_json()

    said = together([compare, compare, compare])
    return {"said": said, "after": compare(), "left": sorted(p.name for p in folder.iterdir())}


def found_in(folder: Path) -> dict[str, dict]:
    """Return what several processes did to the same files."""
    return {
        "models": models(folder),
        "new": runs(folder / "new", force=False),
        "replaced": runs(folder / "replaced", force=True),
        "slowly replaced": runs(folder / "slowly", force=True, slowly=True),
        "comparisons": comparisons(folder / "comparison"),
    }
