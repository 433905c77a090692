"""Files that an earlier version of this package wrote; `tests/fixtures/write_layout.py` says how."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "layout1.tar.xz"


@functools.cache
def files() -> Path:
    """Return a folder with models, a posterior, a comparison and a run; nobody may change it."""
    folder = Path(tempfile.mkdtemp(prefix="bayesmkl-earlier-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def names() -> list[str]:
    """Return the names of the models; methods that came later are not among them."""
    with tarfile.open(ARCHIVE) as archive:
        members = [Path(name) for name in archive.getnames()]
    return [path.stem for path in members if path.parent.name == "models" and path.suffix == ".skops"]


@functools.cache
def predictions() -> dict[str, dict[str, Any]]:
    """Return what the models predicted then, by name and method."""
    found = json.loads((files() / "predictions.json").read_text(encoding="utf-8"))
    return {name: {method: np.array(p) for method, p in by.items()} for name, by in found.items()}
