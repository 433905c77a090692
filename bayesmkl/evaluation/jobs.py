"""Jobs of a comparison: one model on one split of one data set, with its time and memory, and groups of them."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import _safe_split

from bayesmkl._utils.content import hash_of_modules
from bayesmkl._utils.threads import one_thread
from bayesmkl._utils.typing import Splits
from bayesmkl._utils.warnings import recording_warnings
from bayesmkl.evaluation.cells import Cell, CellStore, Kept
from bayesmkl.evaluation.design_groups import labels_of
from bayesmkl.evaluation.identity import Code, environment, seed_of, settings, versions
from bayesmkl.evaluation.predictions import weight_argument
from bayesmkl.evaluation.scoring import Metric, Predictions, facts, score
from bayesmkl.evaluation.splits import as_splitter
from bayesmkl.evaluation.stored import keep_predictions
from bayesmkl.evaluation.study import Data, DataRef, ModelSpec
from bayesmkl.kernels.cache import KernelCache, Tally, current_cache, sharing_kernels

__all__ = [
    "Job",
    "Peak",
    "cell_of",
    "cells_of",
    "forget_code",
    "is_dead",
    "note_of",
    "peak_memory",
    "row_of_dead",
    "run_job",
]

LONGEST_NOTE = 400  # characters
DEAD = "WorkerDied"  # in place of the name of an exception
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Part(NamedTuple):
    """Training and test data of a model."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    fit_params: dict[str, np.ndarray]  # of the training rows


class Job:
    """Models on one split of one data set; they share kernels. Small, and opaque to schedulers.

    Attributes
    ----------
    dataset, data : str, DataRef
    split : int
    models : dict of str to ModelSpec
    metrics : dict of str to Metric
    rows : tuple of ndarray
        Positions of the training rows and of the test rows.
    inner_cv, inner_scoring, random_state
        As in a Study.
    task : str
        "classification", "regression" or "survival".
    keys : dict of str to str
        Of the cell of each model.
    scorers : dict of str to str
        Hashes of the metrics.
    packages : dict of str to dict
        Versions of further packages that each model comes from.
    versions : dict of str to str
        What computes in the calling process.
    most_kept : float
        Bytes that the predictions of a cell may take to be kept.
    folder : str or None
        Where finished cells are written, if this process sees it.
    marks : str or None
        Where marks of begun cells are left, if this process sees it.
    group_columns : tuple of int
        Positions of columns of designs whose groups stay together inside the training part too.
    code : Code
        What the models and metrics use of modules of the user, in the calling process.
    settings : dict
        Of scikit-learn in the calling process.
    """

    __slots__ = (
        "code",
        "data",
        "dataset",
        "folder",
        "group_columns",
        "inner_cv",
        "inner_scoring",
        "keys",
        "marks",
        "metrics",
        "models",
        "most_kept",
        "packages",
        "random_state",
        "rows",
        "scorers",
        "settings",
        "split",
        "task",
        "versions",
    )

    def __init__(
        self,
        *,
        dataset: str,
        data: DataRef,
        split: int,
        models: Mapping[str, ModelSpec],
        metrics: Mapping[str, Metric],
        rows: tuple[np.ndarray, np.ndarray],
        inner_cv: Splits,
        inner_scoring: str | None,
        random_state: int,
        task: str,
        keys: Mapping[str, str],
        scorers: Mapping[str, str],
        packages: Mapping[str, dict[str, str]],
        most_kept: float,
        folder: str | None,
        code: Code,
        marks: str | None = None,
        group_columns: tuple[int, ...] = (),
    ) -> None:
        self.dataset, self.data, self.split, self.models, self.metrics = dataset, data, split, models, metrics
        self.rows, self.inner_cv, self.inner_scoring, self.random_state = (
            rows,
            inner_cv,
            inner_scoring,
            random_state,
        )
        self.task, self.folder, self.marks, self.most_kept = task, folder, marks, most_kept
        self.keys, self.scorers, self.packages = keys, scorers, packages
        self.versions, self.group_columns = versions(environment()), group_columns
        self.code, self.settings = code, settings()

    def cells(self) -> list[tuple[str, str, int]]:
        """Return (dataset, model, split) of all cells."""
        return [(self.dataset, model, self.split) for model in self.models]

    def only(self, models: Iterable[str]) -> Job:
        """Return the same job with some of its models."""
        part = copy.copy(self)
        part.models = {name: self.models[name] for name in models}
        return part


def run_job(job: Job) -> list[dict[str, Any]]:
    """Compute the cells of a job, one row each."""
    _check_code(job.code)
    # inner cross-validations would become tasks with data of their own
    with joblib.parallel_config("sequential"), config_context(**job.settings):
        return list(cells_of(job))


def _check_code(code: Code) -> None:
    """Raise in a process whose modules are not those of the calling one: models are sent by their names there."""
    if code.digest is not None and _first_seen(code.names) != code.digest:
        modules = ", ".join(map(repr, dict.fromkeys(module for module, _ in code.names)))
        raise ValueError(
            f"`n_jobs`: what the models use of {modules} is not the same in a worker as in the calling process, "
            "which has changed it after the import. Start Python anew with the change in the file, or use `n_jobs=1`."
        )


def forget_code() -> None:
    """Let threads of this process look at its modules again."""
    _first_seen.cache_clear()


@lru_cache(maxsize=64)
def _first_seen(names: tuple[tuple[str, str], ...]) -> str | None:
    """Hash what modules have here before models have used it, who may keep something there."""
    return hash_of_modules(names)


def cells_of(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the row of each model; those that the folder holds already are read from it.

    Rows have the ``environment`` of the process, and ``kept`` predictions unless these are in the folder.
    """
    _check_versions(job)
    store, marks = _store(job.folder), _store(job.marks)
    data = job.data()
    if job.group_columns:
        data = data._replace(groups=labels_of(data.X, job.group_columns))
    with one_thread(), sharing_kernels(KernelCache()):
        for model in job.models:
            known = store.read(job.keys[model]) if store else None
            lacks = known is None or known.failed or not known.has(job.scorers)
            if store and known is not None and not lacks and store.is_intact(known):
                yield known.named(job.dataset, model, job.split, job.scorers)
                continue
            with marks.begun(job.keys[model]) if marks else nullcontext():
                row = run_cell(job, model, data)
            if store:
                store.write(cell_of(row, job.scorers))
                row |= {"kept": None}
            yield row


def _check_versions(job: Job) -> None:
    """Raise where results would not be those of the calling process."""
    here = versions(environment())
    other = [name for name in job.versions if here.get(name) != job.versions[name]]
    if other:
        raise ValueError(
            f"`n_jobs`: a worker has {other[0]} {here.get(other[0])}, and the calling process "
            f"{job.versions[other[0]]}. Give all of them the same versions."
        )


def cell_of(row: dict[str, Any], scorers: Mapping[str, str]) -> Cell:
    """Return the cell of the row of a job."""
    scores = {digest: float(row.get(name, np.nan)) for name, digest in scorers.items()}
    known = ("key", "environment", "kept", "left_out", *scorers)
    facts_of_it = {name: value for name, value in row.items() if name not in known}
    why = {"left_out": row["left_out"]} if row.get("left_out") else {}
    return Cell(row["key"], facts_of_it, scores, row["environment"], row.get("kept"), why)


def _store(folder: str | None) -> CellStore | None:
    return CellStore(Path(folder)) if folder is not None and Path(folder).is_dir() else None


def row_of_dead(job: Job, model: str, reason: str) -> dict[str, Any]:
    """Return the row of a cell whose process died."""
    return new_row(job, model, job.data()) | {"error": f"{DEAD}: {reason}", "note": ""}


def is_dead(row: dict[str, Any]) -> bool:
    """Return whether a row is that of a cell whose process died."""
    return str(row.get("error", "")).startswith(DEAD)


def new_row(job: Job, model: str, data: Data) -> dict[str, Any]:
    """Return the facts about a cell before it is computed."""
    return {
        "dataset": job.dataset,
        "model": model,
        "split": job.split,
        "n_samples": len(data.y),
        "n_train": len(job.rows[0]),
        "n_test": len(job.rows[1]),
        "seed": seed_of(job.random_state, job.split),
        "key": job.keys[model],
        "environment": environment(job.packages.get(model)),
    }


def run_cell(job: Job, model: str, data: Data) -> dict[str, Any]:
    """Fit and score one model; an exception of the model becomes the cell's `error`."""
    row = new_row(job, model, data)
    seed = row["seed"]
    with recording_warnings() as caught:
        try:
            row |= _measured(job, job.models[model], data, seed)
        except (Exception, SystemExit) as error:  # whatever goes wrong in one model must not stop the others
            row |= {"error": _told(error)}
    return row | {"note": note_of(caught)}


def _told(error: BaseException) -> str:
    """Format the exception of a model; of tracebacks that a search puts into its message, the last line."""
    name, text = type(error).__name__, str(error).replace("\0", "\\0")  # no table in text holds NUL
    before, _, traceback = text.partition("Traceback (most recent call last)")
    if not traceback:
        return f"{name}: {text}"
    return f"{name}: {before.split('.')[0].strip()}. {traceback.strip().splitlines()[-1]}"


def _measured(job: Job, spec: ModelSpec, data: Data, seed: int) -> dict[str, Any]:
    """Fit, predict and score; seconds and memory include what was found in the cache."""
    inner = as_splitter(job.inner_cv, Data(None, data.y, data.groups), seed, job.task == "classification")
    model = spec.new(seed, inner, job.inner_scoring)
    part = _part(model, data, *job.rows, spec)
    before = _tally()
    with peak_memory() as memory:
        start = time.perf_counter()
        model.fit(part.X, part.y, **part.fit_params)
        fit_seconds = time.perf_counter() - start
        of_fit = _tally().since(before)
        predictions = Predictions(model, part.X_test, part.X, seed, part.y)
        predictions.labels()
        predict_seconds = predictions.seconds
        of_both = _tally().since(before)
        scores = score(predictions, part.y_test, job.metrics)
    kept, left_out = _kept(job, predictions, part.y_test)
    found = facts(model, len(part.y))
    converged = found.pop("converged")
    costs = {
        "fit_seconds": fit_seconds + of_fit.reused_seconds,
        "predict_seconds": predict_seconds + of_both.reused_seconds - of_fit.reused_seconds,
        "kernel_seconds": of_both.seconds,
        "reused_seconds": of_both.reused_seconds,
        "peak_memory_mb": (memory.n_bytes + of_both.reused_bytes) / 2**20,
    }
    return {
        **{name: round(cost, 6) for name, cost in costs.items()},
        "kernel_stacks": of_both.n_evaluated,
        "converged": None if converged is None else float(converged),
        **found,
        **scores,
        "kept": kept,
        "left_out": left_out,
    }


def _kept(job: Job, predictions: Predictions, y_test: np.ndarray) -> tuple[Kept | None, str]:
    """Return the predictions to keep, or why there are none; nothing about them makes a cell fail."""
    if not job.most_kept:
        return None, "`keep_predictions` was False when it was computed"
    try:
        return keep_predictions(predictions, y_test, job.rows[1], job.task, job.most_kept)
    except Exception as error:  # of the model, which no metric has asked for it
        return None, f"its predictions could not be had: {_told(error)}"


def _tally() -> Tally:
    cache = current_cache()
    return Tally() if cache is None else cache.tally


def _part(model: BaseEstimator, data: Data, train: np.ndarray, test: np.ndarray, spec: ModelSpec) -> Part:
    """Cut rows, and of precomputed kernels columns too."""
    rows = np.concatenate([train, test]) if spec.transductive else train
    fit_params = {}
    if data.groups is not None and spec.param_grid is not None:
        fit_params["groups"] = data.groups[train]
    name = weight_argument(model)
    if data.weights is not None and name is not None:
        fit_params[name] = data.weights[rows]
    X, y = _safe_split(model, data.X, data.y, rows)
    X_test, y_test = _safe_split(model, data.X, data.y, test, rows)
    if spec.transductive:
        y = np.array(y)
        y[len(train) :] = _unlabeled_label(model)
    return Part(X, y, X_test, y_test, fit_params)


def _unlabeled_label(model: BaseEstimator) -> Any:
    """Return the mark of samples without a label."""
    params = model.get_params()
    found = [v for n, v in params.items() if n.split("__")[-1] == "unlabeled_label" and v is not None]
    if not found:
        raise ValueError(
            f"a transductive model needs the parameter `unlabeled_label`, and {type(model).__name__} has none that "
            "is set. Set it, or compare the model without `transductive`."
        )
    return found[0]


def note_of(caught: list[warnings.WarningMessage]) -> str:
    """Join the messages of user warnings, each once."""
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    note = " | ".join(" ".join(text.split()) for text in texts)
    return note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 3]}..."


@dataclass
class Peak:
    """Bytes of resident memory above those at the start; NaN where the system does not count them."""

    n_bytes: float = float("nan")


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the peak of the resident memory inside, on Linux, where the kernel counts it.

    Memory that was freed before, and that the process still holds, is used again without being counted.
    """
    peak = Peak()
    before = _reset_and_read()
    try:
        yield peak
    finally:
        if before is not None:
            after = _resident("VmHWM")
            peak.n_bytes = float("nan") if after is None else float(max(0, after - before))


def _reset_and_read() -> int | None:
    """Set the peak to what is resident now, and return that; None where that cannot be done."""
    try:
        _RESET.write_text("5", encoding="ascii")
    except OSError:
        return None
    return _resident("VmRSS")


def _resident(field: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return 1024 * int(found[0]) if found else None
