"""Folders of runs: written beside, then renamed; a half-written one never looks like a good one."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesmkl.persistence import load_model

__all__ = ["CONFIG", "MODEL", "RUN_FORMAT", "check_free", "folder_beside", "load_run"]

CONFIG = "config.json"
MODEL = "model.skops"
RUN_FORMAT = "bayesmkl-run"


def check_free(path: Path, force: bool) -> None:
    """Raise unless `path` can become the folder of a run: new, empty, or (with `force`) an earlier run."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out must be a folder; {str(path)!r} is a file.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--out must be in a folder that exists; {str(path.absolute().parent)!r} does not.")
    if not path.is_dir() or not any(path.iterdir()):
        return
    if not force:
        raise ValueError(
            f"--out {str(path)!r} is not empty. Choose another folder, or replace an earlier run with --force."
        )
    if not _is_run(path):
        raise ValueError(
            f"--out {str(path)!r} holds files that no run of bayesmkl wrote (it has no {CONFIG} of one), so it "
            "is not replaced. Choose another folder."
        )


@contextmanager
def folder_beside(path: Path, force: bool) -> Iterator[Path]:
    """Give a new folder to write to, which becomes `path` once all is well and vanishes otherwise."""
    check_free(path, force)
    target = path.absolute()
    beside, old = (
        target.with_name(f".{target.name}.{secrets.token_hex(4)}.{kind}") for kind in ("part", "old")
    )
    beside.mkdir()
    try:
        yield beside
        check_free(path, force)  # somebody else may have been faster
        if target.exists():
            target.rename(old)
        beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def load_run(path: Path) -> tuple[Any, dict[str, Any]]:
    """Read the model of a run and what is known about it."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path)!r}; `bayesmkl fit` makes one.")
    absent = [name for name in (CONFIG, MODEL) if not (path / name).is_file()]
    if absent:
        raise ValueError(
            f"{str(path)!r} is not the complete folder of a run: it has no {' and no '.join(absent)}. Copy it "
            "again, or run `bayesmkl fit` again."
        )
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path / CONFIG)!r} is damaged ({error}). Run `bayesmkl fit` again.") from error
    if not isinstance(config, dict) or config.get("format") != RUN_FORMAT:
        raise ValueError(f"{str(path / CONFIG)!r} is not the {CONFIG} of a run. Run `bayesmkl fit` again.")
    return load_model(path / MODEL), config


def _is_run(path: Path) -> bool:
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == RUN_FORMAT
