"""Folders of runs, written beside, then renamed: a half-written one never looks like a good one."""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.pipeline import Pipeline

from bayesmkl._utils.files import NO_SPACE, check_layout, not_written, read_json
from bayesmkl._utils.folders import lock, lock_if_possible
from bayesmkl.bemkl import (
    BEMKLClassifier,
    BEMKLOrdinalClassifier,
    BEMKLRegressor,
    BEMKLSurvival,
)
from bayesmkl.gp import GPMKLClassifier, GPMKLOrdinalClassifier, GPMKLRegressor, GPMKLSurvival
from bayesmkl.persistence import load_model

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

CONFIG = "config.json"
MODEL = "model.skops"
# ends of the names of the folder that is written, of the one that it replaces, and of one that is being removed
NEW, OLD, GONE = ".part", ".old", ".gone"
PATIENCE = 1000  # milliseconds
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # another process has made a folder there
RUN_FORMAT = "bayesmkl-run"
RUN_VERSION = 2
AGAIN = "Run `bayesmkl fit` again."
TASKS: dict[str, tuple[Any, Any]] = {
    "classification": (BEMKLClassifier, GPMKLClassifier),
    "regression": (BEMKLRegressor, GPMKLRegressor),
    "ordinal": (BEMKLOrdinalClassifier, GPMKLOrdinalClassifier),
    "survival": (BEMKLSurvival, GPMKLSurvival),
}


def check_free(path: Path, force: bool) -> None:
    """Raise unless `path` can become the folder of a run: new, empty, or (with `force`) an earlier run."""
    if path.is_symlink():
        raise ValueError(
            f"--out must be a folder; {str(path)!r} is a symbolic link. Name the folder that it points to."
        )
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--out must be in a folder that exists; {str(path.absolute().parent)!r} does not.")
    try:
        if not os.listdir(path):
            return
    except FileNotFoundError:  # also for the moment in which another run replaces it
        return
    except NotADirectoryError:
        raise ValueError(f"--out must be a folder; {str(path)!r} is a file.") from None
    if not force:
        raise ValueError(
            f"--out {str(path)!r} is not empty. Choose another folder, or replace an earlier run with --force."
        )
    # another run may be replacing it just now
    if not any(is_run_config(path / CONFIG) or not path.exists() for _ in range(3)):
        raise ValueError(
            f"--out {str(path)!r} holds files that no run of bayesmkl wrote (it has no {CONFIG} of one), so it "
            "is not replaced. Choose another folder."
        )


@contextmanager
def folder_beside(path: Path, force: bool) -> Iterator[Path]:
    """Give a new folder to write to, which becomes `path` once all is well and vanishes otherwise.

    What an earlier run has written stays until then, and comes back if the last step fails.
    """
    _tidy(path.absolute())
    check_free(path, force)
    target = path.absolute()
    begun = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    beside, old = begun.with_name(begun.name + NEW), begun.with_name(begun.name + OLD)
    with ExitStack() as locks, ExitStack() as last:
        last.callback(_clear, target, begun, beside, old)
        begun.mkdir()
        unlock = _hold(begun, locks)  # marks a run in progress
        begun.rename(beside)  # now others see it
        try:
            yield beside
            check_free(path, force)  # another process may have written it meanwhile
            with suppress(FileNotFoundError):  # there is none, or another process has removed it
                target.rename(old)
                _hold(old, locks)  # it is still ours once `beside` has gone to its place
            _move(beside, target)
            unlock()  # the next run may replace it
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise not_written(f"--out {str(path)!r}", error) from error


def _hold(folder: Path, locks: ExitStack) -> Callable[[], None]:
    """Lock a folder until `locks` is closed or the result is called; waits for the run that has just written it."""
    for _ in range(PATIENCE):
        unlock = lock_if_possible(folder)
        if unlock is not None:
            locks.callback(unlock)
            return unlock
        time.sleep(0.001)
    return lambda: None


def _clear(target: Path, begun: Path, beside: Path, old: Path) -> None:
    """Put back what was there before, if `beside` has not come to its place, and remove the rest."""
    if beside.is_dir() and old.is_dir() and not target.exists():
        try:
            old.rename(target)
        except OSError as error:
            if error.errno not in TAKEN:  # no other process has written it: only `old` is left
                raise
    shutil.rmtree(begun, ignore_errors=True)
    for folder in (beside, old):
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder if it is there; half of it never looks like a run that is to be put back."""
    gone = folder.with_suffix(GONE)
    with suppress(OSError):
        if folder != gone:
            folder.rename(gone)
        shutil.rmtree(gone)


def _move(beside: Path, target: Path) -> None:
    try:
        beside.rename(target)
    except OSError as error:
        if error.errno not in TAKEN:
            raise
        raise ValueError(
            f"--out {str(target)!r} was written by another run meanwhile, which is kept. Choose another folder, or "
            "replace it with --force."
        ) from error


def _tidy(target: Path) -> None:
    """Clear up what killed processes left beside `target`: half a run, or the earlier one, which is good."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if re.fullmatch(rf"[0-9a-f]{{8}}({NEW}|{OLD}|{GONE})", left.name[len(target.name) + 2 :]) is None:
            continue
        new = left.with_suffix(NEW)
        with suppress(OSError):  # no locks, removed by another process, or not ours
            unlock = lock(new if new.exists() else left)
            if unlock is None:  # a run is in progress
                continue
            if left.suffix == OLD and not target.exists():
                left.rename(target)
            else:
                _remove(left)
            unlock()


def load_run(path: Path) -> tuple[Any, dict[str, Any]]:
    """Read the model of a run and what is known about it."""
    if not path.exists():
        _tidy(path.absolute())
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path)!r}; `bayesmkl fit` makes one.")
    absent = [name for name in (CONFIG, MODEL) if not (path / name).is_file()]
    if absent:
        raise ValueError(
            f"{str(path)!r} is not the complete folder of a run: it has no {' and no '.join(absent)}. Copy it "
            "again, or run `bayesmkl fit` again."
        )
    for name in (CONFIG, MODEL):
        if (path / name).resolve().parent != path.resolve():
            raise ValueError(
                f"{str(path / name)!r} is a link out of the folder of the run, which is not followed. Copy the file."
            )
    config = read_run_config(path / CONFIG)
    model = load_model(path / MODEL)
    check_described(model, config, path)
    return model, config


def is_run_config(path: Path) -> bool:
    """Return whether a file is the configuration of a run, of any layout."""
    try:
        config = read_json(path)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == RUN_FORMAT


def read_run_config(path: Path) -> dict[str, Any]:
    """Read the configuration of a run.

    Raises
    ------
    ValueError
        If it is damaged, of something else, or of a newer layout.
    """
    name = str(path)
    try:
        config = read_json(path)
    except ValueError as error:
        raise ValueError(f"{name!r} is damaged ({error}). {AGAIN}") from error
    if not isinstance(config, dict) or config.get("format") != RUN_FORMAT:
        raise ValueError(f"{name!r} is not the {path.name} of a run. {AGAIN}")
    check_layout(config.get("version"), RUN_VERSION, repr(name), config.get("bayesmkl"))
    config.setdefault("drop", [])
    config.setdefault("text", [])
    are_right = {
        "features": _are_texts(config.get("features")) and config["features"] != [],
        "drop": _are_texts(config["drop"]),
        "text": _are_texts(config["text"])
        and _are_texts(config.get("features"))
        and set(config["text"]) <= set(config["features"]),
        "event": (config.get("task") == "survival") == isinstance(config.get("event"), str),
        "target": isinstance(config.get("target"), str),
        "task": config.get("task") in list(TASKS),  # which may be of any type
    }
    wrong = [key for key, is_right in are_right.items() if not is_right]
    if wrong:
        raise ValueError(f"{name!r} is damaged: {wrong[0]!r} is {str(config.get(wrong[0]))[:80]!r}. {AGAIN}")
    return config


def check_described(model: BaseEstimator, config: dict[str, Any], folder: Path) -> None:
    """Raise unless the model of a run is what its configuration says."""
    features, last = config["features"], model[-1] if isinstance(model, Pipeline) else model
    if not any(isinstance(last, kinds) for kinds in TASKS.values()):
        fault = f"the model is a {type(last).__name__}"
    elif not isinstance(last, TASKS[config["task"]]):
        fault = f"the model is a {type(last).__name__}, and the task {config['task']}"
    elif not hasattr(last, "kernel_names_"):
        fault = "the model is not fitted"
    elif list(getattr(model, "feature_names_in_", features)) != features or model.n_features_in_ != len(
        features
    ):
        fault = f"the model was fitted to {model.n_features_in_} other columns"
    else:
        return
    raise ValueError(f"{str(folder)!r} holds files that do not belong together: {fault}. {AGAIN}")


def _are_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
