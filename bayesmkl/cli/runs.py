"""Folders of runs, and what is read from them: predictions, a diagnosis, a report.

A folder is written beside, then renamed: a half-written one never looks like a good one.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesmkl._utils.files import NO_SPACE, check_layout, not_written, read_json
from bayesmkl._utils.tables import read_table, table_suffix
from bayesmkl.cli.tables import check_target, match_columns, notes_of_warnings, say, write_table

CONFIG, MODEL = "config.json", "model.skops"
HELD_OUT, TRAINING_ROWS = "held_out", "training_rows.txt"  # a table, and hashes, in the folder of a run
NEW, OLD = ".part", ".old"  # ends of the names of the folder that is written, and of the one that it replaces
RUN_FORMAT, RUN_VERSION = "bayesmkl-run", 4
AGAIN = "Run `bayesmkl fit` again."
TAIL = 0.03  # of the time to an event, on either side of its interval
ENDINGS = {  # of the names of estimators, by task
    "classification": "Classifier",
    "regression": "Regressor",
    "ordinal": "OrdinalClassifier",
    "survival": "Survival",
}
METHODS = ("bemkl", "gpmkl")
LISTS = ("features", "drop", "text")  # entries of a configuration that are lists of names


def estimator_of(task: str, method: str) -> str:
    """Return the name of an estimator."""
    return method.upper() + ENDINGS[task]


def check_free(path: Path, force: bool) -> None:
    """Raise unless `path` can become the folder of a run: new, empty, or (with `force`) an earlier run."""
    shown = repr(str(path))
    if path.is_symlink():
        raise ValueError(f"--out must be a folder; {shown} is a symbolic link. Name the folder behind it.")
    check_parent(path)
    if path.is_file():
        raise ValueError(f"--out must be a folder; {shown} is a file.")
    if not path.exists() or not any(path.iterdir()):
        return
    if not force:
        raise ValueError(
            f"--out {shown} is not empty. Choose another folder, or replace an earlier run with --force."
        )
    with suppress(OSError, ValueError):
        config = read_json(path / CONFIG)
        if isinstance(config, dict) and config.get("format") == RUN_FORMAT:
            return
    raise ValueError(
        f"--out {shown} holds files that bayesmkl did not write (it has no {CONFIG} of a run), so it is not "
        "replaced. Choose another folder."
    )


def check_parent(path: Path) -> None:
    """Raise unless `path` is in a folder that exists."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise ValueError(f"--out must be in a folder that exists; {str(parent)!r} does not.")


@contextmanager
def folder_beside(path: Path, force: bool) -> Iterator[Path]:
    """Give a new folder to write to, which becomes `path` once all is well and vanishes otherwise.

    What an earlier run has written stays until then, and comes back if the last step fails.
    """
    check_free(path, force)
    target = path.absolute()
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{NEW}")
    old = beside.with_suffix(OLD)
    try:
        beside.mkdir()
        yield beside
        check_free(path, force)  # another process may have written it meanwhile
        with suppress(FileNotFoundError):
            target.rename(old)
        beside.rename(target)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise not_written(f"--out {str(path)!r}", error) from error
    finally:
        if old.is_dir() and not target.exists():
            old.rename(target)
        for folder in (beside, old):
            shutil.rmtree(folder, ignore_errors=True)


def config_of(path: Path) -> dict[str, Any]:
    """Return what is known about the model of a run."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path)!r}; `bayesmkl fit` makes one.")
    for name in (CONFIG, MODEL):
        file = path / name
        if not file.is_file():
            raise ValueError(f"{str(path)!r} is not the folder of a run: it has no {name}. {AGAIN}")
        if file.resolve().parent != path.resolve():
            raise ValueError(
                f"{str(file)!r} is a link out of the folder of the run and is not followed. Copy the file."
            )
    shown = repr(str(path / CONFIG))
    try:
        config = read_json(path / CONFIG)
    except ValueError as error:
        raise ValueError(f"{shown} is damaged ({error}). {AGAIN}") from error
    if not isinstance(config, dict) or config.get("format") != RUN_FORMAT:
        raise ValueError(f"{shown} is not the {CONFIG} of a run. {AGAIN}")
    check_layout(config.get("version"), RUN_VERSION, shown, config.get("bayesmkl"))
    event = str if config.get("task") == "survival" else type(None)
    for name, kind in (("target", str), ("event", event), *((name, list) for name in LISTS)):
        value = config.get(name)
        if not isinstance(value, kind) or not all(isinstance(one, str) for one in value or ()):
            raise ValueError(f"{shown} is damaged: {name!r} is {str(value)[:80]!r}. {AGAIN}")
    if str(config.get("task")) not in ENDINGS or config.get("method") not in METHODS:
        raise ValueError(f"{shown} is damaged: 'task' is {str(config.get('task'))[:80]!r}. {AGAIN}")
    return config


def load_run(path: Path) -> tuple[Any, dict[str, Any]]:
    """Read the model of a run and what is known about it."""
    config = config_of(path)
    from bayesmkl.persistence import load_model

    model = load_model(path / MODEL)
    steps = getattr(model, "steps", [("", model)])
    expected, found = estimator_of(config["task"], config["method"]), type(steps[-1][1]).__name__
    features, fitted_to = config["features"], list(getattr(model, "feature_names_in_", ()))
    if found != expected or fitted_to != features:
        what = f"a {expected} that was fitted to {len(features)} columns"
        raise ValueError(
            f"{str(path)!r} holds files that do not belong together: {CONFIG} is about {what}, and {MODEL} holds a "
            f"{found} that was fitted to {len(fitted_to)}, or to others. {AGAIN}"
        )
    return model, config


# --------------------------------------------------------------------------------------------- rows of new tables


def rows_for(config: dict[str, Any], data: Path) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return a table, the columns that a run was fitted to, and the names of the others.

    It is read as `fit` read that of the run: labels and groups as they are written.
    """
    labels = [config["target"]] if config["task"] in ("classification", "ordinal") else []
    groups = [name for name in config["text"] if name in config.get("group", [])]
    table = read_table(data, [*labels, *groups], {config["target"]: config.get("classes")})
    return table, *match_columns(table, config["features"], groups)


def rows_with_target(config: dict[str, Any], data: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Read new rows of a run, and their target."""
    table, X, _ = rows_for(config, data)
    event = config.get("event")
    for what, column in (("target", config["target"]), ("event", event)):
        if column is not None and column not in table:
            raise ValueError(f"--data must have the {what} column {column!r}; it has {list(table.columns)}.")
    y, _ = check_target(table[config["target"]], config["task"], None if event is None else table[event])
    return X, y


def new_rows(
    run: Path, config: dict[str, Any], data: Path
) -> tuple[pd.DataFrame | None, np.ndarray | None, str]:
    """Read the rows of --data that a run was not fitted to, and their target; note how many are training rows.

    Rows and targets are None where none are new.
    """
    X, y = rows_with_target(config, data)
    path = run / TRAINING_ROWS
    try:
        known = np.loadtxt(path, dtype=np.uint64, ndmin=1) if path.is_file() else np.arange(0)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is damaged ({error}). {AGAIN}") from error
    is_new = ~np.isin(row_hashes(X, y), known)
    if is_new.all():
        return X, y, ""
    told = f"{np.sum(~is_new)} of the {len(X)} rows in --data are training rows. They are left out."
    say(told)
    return (X[is_new], y[is_new], told) if is_new.any() else (None, None, told)


def row_hashes(features: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Hash rows with their targets by value, so that a row is recognized in another table.

    Numbers are rounded to 40 bits, since other programs read and write the last digits otherwise.

    Examples
    --------
    >>> one, other = pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": [2, 3]})
    >>> np.isin(row_hashes(other, np.array([5, 5])), row_hashes(one, np.array([5.0, 5.0])))
    array([ True, False])
    """

    def plain(values: pd.Series) -> pd.Series:
        if not pd.api.types.is_numeric_dtype(values):
            return values.astype(str)
        mantissa, exponent = np.frexp(values.astype(float))
        return pd.Series(np.ldexp(np.round(mantissa * 2.0**40), exponent))

    table = pd.concat([features.reset_index(drop=True), pd.DataFrame(y)], axis=1, ignore_index=True)
    columns = {k: plain(values) for k, values in table.items()}
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()


# ------------------------------------------------------------------------------------------------------- commands


def run_predict(run: Path, data: Path, out: Path) -> None:
    """Predict the rows of a table from a file."""
    table_suffix(out)
    config = config_of(run)
    _, features, others = rows_for(config, data)
    ignored = [c for c in others if c not in (config["target"], config.get("event"), *config["drop"])]
    if ignored:
        say(f"Not used, because the model was not fitted to them: {', '.join(ignored)}.")
    with notes_of_warnings():
        columns = _predicted(load_run(run)[0], features, config["task"])
    write_table(pd.DataFrame(columns), out)
    say(f"{len(features)} predictions written to {out}.")


def _predicted(model: Any, features: pd.DataFrame, task: str) -> dict[str, np.ndarray]:
    """Return the columns of the table of predictions, whose numbers are all finite."""
    from bayesmkl.evaluation.predictions import Predictions

    predictions, first = Predictions(model, features), {}
    if task == "survival":
        columns = {"risk": predictions.labels(), "median": model.predict_quantile(features)}
        columns |= {
            name: model.predict_quantile(features, level)
            for name, level in (("lower", TAIL), ("upper", 1 - TAIL))
        }
    elif task == "regression":
        columns = dict(zip(("mean", "sd"), predictions.moments(), strict=True))
    else:
        probabilities = predictions.probabilities()
        columns = {f"probability_{c}": probabilities[:, k] for k, c in enumerate(model.classes_)}
        first = {"prediction": predictions.labels()}
    unusable = ~np.isfinite(list(columns.values())).all(axis=0)
    if unusable.any():
        raise ValueError(
            f"{unusable.sum()} of {len(features)} predictions are not finite, the first one of row "
            f"{np.flatnonzero(unusable)[0] + 1}. Its values are far from those that the model was fitted to, or the "
            "model is damaged: fit it again."
        )
    return first | columns


def run_diagnose(run: Path, data: Path | None, n_draws: int, seed: int) -> None:
    """Print the diagnosis of a run."""
    config = config_of(run)
    _check_summarized(config, "diagnosis")
    X = y = None
    if data is not None and config["task"] == "survival":
        raise ValueError(
            "--data is for the calibration of classes and quantities, but this run predicts times to an "
            "event. Leave it out; calibration.png shows the held-out rows."
        )
    if data is not None:
        X, y, _ = new_rows(run, config, data)
    from bayesmkl.posterior import diagnose

    with notes_of_warnings():
        diagnosis = diagnose(load_run(run)[0], X, y, n_draws=n_draws, random_state=seed)
    say(str(diagnosis))


def run_report(run: Path, data: Path | None, out: Path | None, seed: int) -> None:
    """Write the report of a run, as a page of HTML, and as Markdown beside it.

    Predictions are judged by the new rows of `data`, or by the rows that `fit` held out.
    """
    page = run / "report.html" if out is None else _page(out)
    config = config_of(run)
    _check_summarized(config, "report")
    X = y = None
    told = ""
    held_out = next(run.glob(f"{HELD_OUT}.*"), None)
    if data is not None:
        X, y, told = new_rows(run, config, data)
    elif held_out is not None:
        X, y = rows_with_target(config, held_out)
    from bayesmkl.evaluation import report_model

    with notes_of_warnings():
        title = f"{config['target']} ({run.absolute().name})"
        report = report_model(load_run(run)[0], X=X, y=y, title=title, random_state=seed)
    if told:
        report.parts = {**report.parts, "Predictions": [told, *report.parts["Predictions"]]}
    page.parent.mkdir(exist_ok=True)
    written = [report.write_html(page), report.write_markdown(page.with_suffix(".md"))]
    say(f"Written to {' and '.join(map(str, written))}.")


def _page(out: Path) -> Path:
    """Return the page to write; raise where it cannot be, before anything is computed."""
    page = out if out.suffix == ".html" and not out.is_dir() else out / "report.html"
    if page != out and not out.is_dir() and (out.exists() or out.suffix[1:].isalpha()):
        raise ValueError(
            f"--out must be a folder, or a page that ends in .html; got {str(out)!r}. Markdown is written beside it."
        )
    check_parent(out)
    return page


def _check_summarized(config: dict[str, Any], what: str) -> None:
    if config["task"] in ("ordinal", "survival") and config["method"] == "bemkl":
        raise ValueError(
            f"there is no {what} of runs of --task {config['task']} with --method bemkl, whose intervals are too "
            "narrow. Fit with --method gpmkl."
        )
