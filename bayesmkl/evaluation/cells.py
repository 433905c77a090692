"""Cells of a comparison: models fitted and scored on one split of one data set, with their time and memory."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import _safe_split

from bayesmkl._utils.threads import one_thread
from bayesmkl._utils.warnings import recording_warnings
from bayesmkl.bemkl.base import BaseBEMKL
from bayesmkl.evaluation.predictions import Predictions, final_estimator, keep_predictions, weight_argument
from bayesmkl.evaluation.scoring import Metric, score
from bayesmkl.evaluation.store import Cell, Kept, Store, versions
from bayesmkl.evaluation.study import Data, ModelSpec, as_splitter, labels_of

LONGEST_NOTE = 400  # characters
ACTIVE = (
    1e-3  # of the largest |weight|: BEMKL's weights above it count as active, as no posterior mean is zero
)
MOST_KERNELS = 2000  # whose shares a cell keeps
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def seed_of(random_state: int, split: int) -> int:
    """Return the seed of open random states in a split."""
    return int(np.random.SeedSequence([random_state, split]).generate_state(1)[0] % 2**31)


class Protocol(NamedTuple):
    """What holds for all cells of a comparison.

    Parameters
    ----------
    task : str
    random_state : int
    inner_cv, inner_scoring : object
        Of models with a grid.
    metrics : dict of str to Metric
    scorers : dict of str to str
        Hashes of the metrics, by name.
    most_kept : float
        Bytes that the predictions of a cell may take to be kept.
    folder : str or None
        Where finished cells are written, by processes that see it.
    expected : dict of str to str
        Versions in the calling process.
    """

    task: str
    random_state: int
    inner_cv: Any
    inner_scoring: Any
    metrics: Mapping[str, Metric]
    scorers: dict[str, str]
    most_kept: float
    folder: str | None
    expected: Mapping[str, str]


class Job(NamedTuple):
    """A model on one split of one data set.

    Parameters
    ----------
    key : str
        Of the cell.
    spec : ModelSpec
    data : Data
        Without its samples, which go beside the job: schedulers send large arrays once.
    rows : tuple of ndarray
        Positions of the training rows and of the test rows.
    group_columns : tuple of int
        Positions of columns of designs whose groups stay together inside the training part too.
    seed : int
    protocol : Protocol
    """

    key: str
    spec: ModelSpec
    data: Data
    rows: tuple[np.ndarray, np.ndarray]
    group_columns: tuple[int, ...]
    seed: int
    protocol: Protocol


def run_job(job: Job, X: Any) -> Cell:
    """Compute a cell in a worker, and write it to the folder if this process sees it."""
    here, expected, folder = versions(), job.protocol.expected, job.protocol.folder
    other = [name for name, v in expected.items() if here.get(name) != v]
    if other:
        raise ValueError(
            f"`n_jobs`: a worker has {other[0]} {here.get(other[0])}, and the calling process has "
            f"{expected[other[0]]}. Install the same versions everywhere."
        )
    cell = cell_of(job, X)
    if folder is not None and Path(folder).is_dir():
        Store(Path(folder)).write(cell)
    return cell


def cell_of(job: Job, X: Any) -> Cell:
    """Fit and score a model; its exception becomes the `error` of the row."""
    data = job.data._replace(X=X)
    if job.group_columns:
        data = data._replace(groups=labels_of(data.X, job.group_columns))
    row: dict[str, Any] = {
        "n_samples": len(data.y),
        "n_train": len(job.rows[0]),
        "n_test": len(job.rows[1]),
        "seed": job.seed,
    }
    scores: dict[str, float] = {}
    kept, left_out = None, ""
    # Parallel cross-validations inside a cell would become tasks with data of their own.
    with joblib.parallel_config("sequential"), one_thread(), recording_warnings() as caught:
        try:
            found, scores, kept, left_out = _measured(job, data)
            row |= found
        except (Exception, SystemExit) as error:  # whatever goes wrong in one model must not stop the others
            row |= {"error": _told(error)}
    row |= {"note": note_of(caught)}
    by_hash = {job.protocol.scorers[name]: float(value) for name, value in scores.items()}
    about = {"left_out": left_out or "its model failed"} if kept is None else kept.about
    return Cell(job.key, row, by_hash, kept, about)


def _told(error: BaseException) -> str:
    """Format the exception of a model; of tracebacks that a search puts into its message, the last line."""
    name, text = type(error).__name__, str(error).replace("\0", "\\0")  # no table in text holds NUL
    before, _, traceback = text.partition("Traceback (most recent call last)")
    if not traceback:
        return f"{name}: {text}"
    return f"{name}: {before.split('.')[0].strip()}. {traceback.strip().splitlines()[-1]}"


def _measured(job: Job, data: Data) -> tuple[dict[str, Any], dict[str, float], Kept | None, str]:
    """Fit, predict and score."""
    protocol, spec = job.protocol, job.spec
    inner = as_splitter(protocol.inner_cv, data._replace(X=None), job.seed, protocol.task == "classification")
    model = spec.new(job.seed, inner, protocol.inner_scoring)
    X, y, X_test, y_test, fit_params = _cut(model, data, *job.rows, spec)
    at_start = _reset_peak()
    start = time.perf_counter()
    model.fit(X, y, **fit_params)
    fit_seconds = time.perf_counter() - start
    predictions = Predictions(model, X_test, X, job.seed, y)
    predictions.labels()
    predict_seconds = predictions.seconds
    scores = score(predictions, y_test, protocol.metrics)
    n_bytes = float(np.maximum(_resident("VmHWM") - at_start, 0.0))
    kept, left_out = _kept(job, predictions, y_test)
    found = facts(model, len(y))
    converged = found.pop("converged")
    costs = {
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds,
        "peak_memory_mb": n_bytes / 2**20,
    }
    row = {
        **{name: round(cost, 6) for name, cost in costs.items()},
        "converged": None if converged is None else float(converged),
        **found,
    }
    return row, scores, kept, left_out


def _kept(job: Job, predictions: Predictions, y_test: np.ndarray) -> tuple[Kept | None, str]:
    """Return the predictions to keep, or why there are none; nothing about them makes a cell fail."""
    protocol = job.protocol
    if not protocol.most_kept:
        return None, "`keep_predictions` was False when it was computed"
    try:
        return keep_predictions(predictions, y_test, job.rows[1], protocol.task, protocol.most_kept)
    except Exception as error:  # of the model, which no metric has asked for it
        return None, f"its predictions could not be had: {_told(error)}"


def _cut(
    model: BaseEstimator, data: Data, train: np.ndarray, test: np.ndarray, spec: ModelSpec
) -> tuple[Any, np.ndarray, Any, np.ndarray, dict[str, np.ndarray]]:
    """Return training and test samples and labels, and options of `fit`; of precomputed kernels cut columns too."""
    fit_params = {}
    if data.groups is not None and spec.param_grid is not None:
        fit_params["groups"] = data.groups[train]
    name = weight_argument(model)
    if data.weights is not None and name is not None:
        fit_params[name] = data.weights[train]
    return (
        *_safe_split(model, data.X, data.y, train),
        *_safe_split(model, data.X, data.y, test, train),
        fit_params,
    )


def note_of(caught: list[warnings.WarningMessage]) -> str:
    """Join the messages of user warnings, each once."""
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    note = " | ".join(" ".join(text.split()) for text in texts)
    return note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 3]}..."


def _reset_peak() -> float:
    """Set the peak of the resident memory to what is resident now, and return that in bytes.

    NaN where the system does not count it: Linux does. Memory that was freed before, and that the process still
    holds, is used again without being counted.
    """
    with suppress(OSError):
        _RESET.write_text("5", encoding="ascii")
        return _resident("VmRSS")
    return np.nan


def _resident(field: str) -> float:
    with suppress(OSError, StopIteration):
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        return 1024.0 * int(next(line.split()[1] for line in lines if line.startswith(f"{field}:")))
    return np.nan


# ------------------------------------------------------------------------------------- what a fitted model says


def facts(model: BaseEstimator, n_train: int) -> dict[str, Any]:
    """Describe a fitted model: how sparse it is, whether it converged, and what was chosen inside.

    Parameters
    ----------
    model : estimator
        Fitted; Pipelines and searches are seen through.
    n_train : int
        Training samples.

    Returns
    -------
    dict
        ``support_fraction``: share of the training samples that predictions depend on, NaN where the model has no
        such thing. ``n_active_kernels``: kernels with a weight (of BEMKL, above 1/1000 of the largest in absolute
        value, for any class), NaN where there are none. ``kernel_shares``: see :meth:`Comparison.weights`.
        ``converged``: True, False, or None if the model does not say. ``n_iter``: iterations over all problems of
        the model, NaN where it does not count. ``best_params``: the choice of a search as JSON, or an empty string.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.svm import SVC
    >>> from bayesmkl.evaluation.cells import facts
    >>> X, y = load_iris(return_X_y=True)
    >>> found = facts(GridSearchCV(SVC(), {"C": [1.0, 10.0]}).fit(X, y), len(X))
    >>> found["support_fraction"], found["kernel_shares"], found["converged"], found["best_params"]
    (0.18, '', True, '{"C": 10.0}')
    """
    final = final_estimator(model)
    return {
        "support_fraction": _support_fraction(final, n_train),
        "n_active_kernels": _n_active_kernels(final),
        "kernel_shares": kept_shares(final),
        "converged": _converged(final),
        "n_iter": _total(getattr(final, "n_iter_", None)),
        "best_params": _best_params(model),
    }


def _total(counts: Any) -> float:
    """Return a count, or the sum of those of several problems; NaN where the model has none."""
    with suppress(TypeError, ValueError):
        return float(np.sum(np.asarray(counts, dtype=float)))
    return float("nan")


def _support_fraction(final: BaseEstimator, n_train: int) -> float:
    if hasattr(final, "support_fraction_"):
        return float(final.support_fraction_)
    if hasattr(final, "n_support_"):  # LibSVM; selectors of features have a `support_` as well
        return len(final.support_) / n_train
    return float("nan")


def _n_active_kernels(final: BaseEstimator) -> float:
    if hasattr(final, "n_active_kernels_"):
        return int(final.n_active_kernels_)
    if not isinstance(final, BaseBEMKL):
        return float("nan")
    weights = np.abs(np.atleast_2d(final.kernel_weights_))
    return int((weights > ACTIVE * weights.max(axis=1, keepdims=True)).any(axis=0).sum())


def _converged(final: BaseEstimator) -> bool | None:
    if hasattr(final, "converged_"):
        return bool(np.all(final.converged_))
    return final.fit_status_ == 0 if hasattr(final, "fit_status_") else None


def _best_params(model: BaseEstimator) -> str:
    while not hasattr(model, "best_params_"):
        if not getattr(model, "steps", None):
            return ""
        model = model.steps[-1][1]
    return json.dumps(model.best_params_, default=_plain)


def _plain(value: object) -> Any:
    """Return a number or a list for what NumPy holds, and a description of everything else."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else repr(value)


def kept_shares(final: BaseEstimator) -> str:
    """Return what a cell keeps of the kernels of a fitted model, as JSON; empty without weights."""
    names = getattr(final, "kernel_names_", None)
    shares, stds = getattr(final, "kernel_shares_", None), getattr(final, "kernel_shares_std_", None)
    if shares is None and hasattr(final, "kernel_weights_"):
        weights = np.abs(np.atleast_2d(final.kernel_weights_))
        shares = weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    if names is None or len(names) > MOST_KERNELS or shares is None or np.shape(shares)[-1] != len(names):
        return ""
    views = getattr(getattr(final, "kernel_bank_", None), "kernel_views_", None)
    kept = {"kernels": list(names), "views": views, "shares": _rounded(shares)}
    return json.dumps(kept | {"stds": None if stds is None else _rounded(stds)})


def _rounded(values: Any) -> list[float]:
    """Return means over classes, and clusters where there are some, in six digits."""
    return [float(f"{value:.6g}") for value in np.reshape(values, (-1, np.shape(values)[-1])).mean(axis=0)]
