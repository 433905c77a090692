"""The ``config.json`` of a run, and whether the model beside it is the one that it describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from bayesmkl._utils.described import check_layout, read_json
from bayesmkl.bemkl import BEMKLClassifier, BEMKLRegressor

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


__all__ = ["RUN_FORMAT", "RUN_VERSION", "check_described", "is_run_config", "read_run_config"]

RUN_FORMAT = "bayesmkl-run"
RUN_VERSION = 2
AGAIN = "Run `bayesmkl fit` again."
TASKS = ("classification", "regression")


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
    are_right = {
        "features": _are_texts(config.get("features")) and config["features"] != [],
        "drop": _are_texts(config["drop"]),
        "target": isinstance(config.get("target"), str),
        "task": config.get("task") in TASKS,
    }
    wrong = [key for key, is_right in are_right.items() if not is_right]
    if wrong:
        raise ValueError(f"{name!r} is damaged: {wrong[0]!r} is {str(config.get(wrong[0]))[:80]!r}. {AGAIN}")
    return config


def check_described(model: BaseEstimator, config: dict[str, Any], folder: Path) -> None:
    """Raise unless the model of a run is what its configuration says."""
    features, last = config["features"], model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(last, (BEMKLClassifier, BEMKLRegressor)):
        fault = f"the model is a {type(last).__name__}"
    elif is_classifier(last) != (config["task"] == "classification"):
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
