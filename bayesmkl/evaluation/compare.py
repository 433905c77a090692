"""Comparison of models in one call: common splits, and tuning inside the training part."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed

from bayesmkl._utils.files import as_path, is_partial
from bayesmkl._utils.hashing import content_hash
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.threads import one_thread
from bayesmkl._utils.typing import Samples, Scoring, Splits, Targets
from bayesmkl._utils.validation import check_flag, check_folds, check_integer, check_jobs, check_verbose
from bayesmkl._utils.warnings import recording_warnings, warn_user
from bayesmkl.bemkl.base import BaseBEMKL
from bayesmkl.evaluation import store, study
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.metrics import Metric, resolve_scoring, score, sklearn_metric, stored_score, task_of
from bayesmkl.evaluation.predictions import (
    Predictions,
    StoredPredictions,
    final_estimator,
    keep_predictions,
    weight_argument,
)

TAKEN = {*store.COLUMNS, "metric", "value"}  # names in rows and tables
LONGEST_NOTE = 400  # characters
MOST_KERNELS = 2000  # whose shares a cell keeps
# of the largest |weight|: BEMKL's weights above it count as active, as no posterior mean is zero
ACTIVE = 1e-3
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
Name = tuple[str, str, int]  # data set, model and split of a cell


def compare_models(
    models: Mapping[str, Any],
    X: Samples | None = None,
    y: Targets | None = None,
    *,
    datasets: Mapping[str, object] | Sequence[str] | str | None = None,
    cv: Splits | None = 5,
    scoring: Scoring | None = None,
    inner_cv: Splits | None = 5,
    inner_scoring: str | None = None,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    unavailable: str = "raise",
    verbose: int = 1,
    folder: str | PathLike[str] | None = None,
    keep_predictions: bool = True,
    retry_failed: bool = False,
) -> Comparison:
    """Fit and score models on the same splits of one or several data sets.

    Every fit runs on one BLAS thread, so that times compare and results do not depend on `n_jobs`.

    Parameters
    ----------
    models : dict
        A model is an estimator of this package, of scikit-learn or of scikit-survival, or a pair
        ``(estimator, param_grid)``, tuned by a cross-validation inside every training part. Models that fail are
        recorded with their error.
    X : array-like or DataFrame of shape (n_samples, n_features), default=None
        Samples; or (n_samples, n_samples, n_kernels) for models of precomputed kernels.
    y : array-like of shape (n_samples,), default=None
        Labels or targets. For models of survival a structured array of events and times, as `GPMKLSurvival` and
        scikit-survival take it.
    datasets : dict or list, default=None
        Several data sets in place of `X` and `y`: names of data sets in the package ("wdbc", "iris", "wine",
        "digits", "diabetes", "gbsg2", "lung"), or a dict of name to one of these, ``(X, y)``, ``(X, y, groups)`` or
        ``(X, y, groups, sample_weight)``.
    cv : int, splitter or list of (train, test), default=5
        Number of shuffled folds, stratified for classes, and by the event of survival times; a splitter of
        scikit-learn; or rows.
    scoring : str, list of str or dict, default=None
        Metrics: "accuracy", "balanced_accuracy", "f1", "mcc", "auc", "eer", "log_loss", "brier", "ece"; "r2",
        "rmse", "mae", "nll", "coverage_95", "coverage_gap" (its distance from .95, which ranks models);
        "concordance", "concordance_uno", "integrated_brier_score" of survival times; any name that scikit-learn
        knows; or name to ``scorer(estimator, X, y)``. None takes what the models can give, the first being
        "accuracy", "r2" or "concordance".
    inner_cv : int or splitter, default=5
        For models with a grid.
    inner_scoring : str, default=None
        Metric by which grids choose; None is the estimator's own score.
    groups : array-like of shape (n_samples,), default=None
        Samples of a group are never on both sides of a split; with `X` and `y`. None takes the group columns that
        models name in their :class:`~bayesmkl.gp.Design`, if they do: a number of folds keeps these together
        too, which ``about`` says. A splitter as `cv` decides otherwise.
    sample_weight : array-like of shape (n_samples,), default=None
        How often each sample counts in fits, for models that take it, also as the last step of a Pipeline; with `X`
        and `y`. In scores all test rows count alike.
    n_jobs : int, default=None
        Processes, as everywhere in joblib; with ``joblib.parallel_config("dask")`` those of a cluster.
    random_state : int, default=0
        Decides the splits and all random states of models that are open.
    unavailable : {"raise", "nan"}, default="raise"
        Treatment of a named metric that some model cannot give, such as a log loss without probabilities.
    verbose : int, default=1
        1 shows progress and the time that is left, on a terminal and in notebooks; 0 nothing.
    folder : path-like, default=None
        Folder of finished cells, which are told by their content. What is there is not computed again: an interrupted
        comparison continues when it is called again, and one with more models, metrics, data sets or splits computes
        what is new. Cells whose model or metrics hold a function or class that no installed package defines, such as
        one of the running script, are always computed anew.
    keep_predictions : bool, default=True
        Whether cells keep what was predicted of their test rows, with labels, up to 64 MiB each: data of persons,
        where a folder is shared. What a folder keeps of earlier calls stays.
    retry_failed : bool, default=False
        With `folder`: compute its cells again that failed, for want of memory or of a file for example. They stay as
        they are otherwise.

    Returns
    -------
    Comparison
        All cells, with ``summary()``, ``ranks()``, ``significance()``, ``plot()`` and ``to_html(path)``.

    Raises
    ------
    ValueError
        For arguments of another kind than those above, an unknown metric or data set, a
        metric that a model cannot give or of another task, survival times of which a part has no event, more folds
        than groups, several columns of `y`, weights where a model takes none, or a folder of an earlier version or of
        something else.
    TypeError
        If `folder` is no path.
    joblib.externals.loky.process_executor.TerminatedWorkerError
        If a process that fits models dies, for want of memory for example. Finished cells stay in the folder, where
        the same call continues.

    Examples
    --------
    Two ways to combine the kernels of single features, and a grid of SVMs on one kernel of all of them:

    >>> from sklearn.svm import SVC
    >>> from bayesmkl.datasets import load_wdbc
    >>> from bayesmkl.discriminative import EasyMKLClassifier, UniformMKLClassifier
    >>> from bayesmkl.evaluation import compare_models
    >>> from bayesmkl.kernels import Gaussian, KernelBank
    >>> X, y = load_wdbc(return_X_y=True)
    >>> X = (X[::5, :4] - X[:, :4].mean(axis=0)) / X[:, :4].std(axis=0)
    >>> bank = KernelBank(Gaussian(width=1.0), views="each")
    >>> found = compare_models(
    ...     {
    ...         "uniform": UniformMKLClassifier(bank),
    ...         "EasyMKL": EasyMKLClassifier(bank),
    ...         "svm": (SVC(), {"C": [0.1, 1.0, 10.0]}),
    ...     },
    ...     X,
    ...     y[::5],
    ...     scoring=["accuracy", "auc"],
    ... )
    >>> found.scores("accuracy").shape, found.failures.empty
    ((5, 3), True)
    """
    check_jobs("n_jobs", n_jobs)
    check_verbose("verbose", verbose)
    if check_integer("random_state", random_state, low=0) >= 2**32:
        raise ValueError(f"`random_state` must be below 2**32; got {random_state}.")
    check_folds("cv", cv)
    check_folds("inner_cv", inner_cv)
    if inner_scoring is not None and not callable(inner_scoring):
        sklearn_metric(inner_scoring, "inner_scoring")
    check_flag("keep_predictions", keep_predictions)
    check_flag("retry_failed", retry_failed)
    where = None if folder is None else as_path("folder", folder)
    specs, data = study.models_of(models), study.datasets_of(X, y, groups, sample_weight, datasets, cv)
    if any(one.weights is not None for one in data.values()):
        study.check_weighted(specs)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    protocol = Protocol(
        metrics=_metrics(specs, data, scoring, unavailable, inner_scoring),
        scorers={},
        task=task_of({name: spec.estimator for name, spec in specs.items()}, next(iter(data.values())).y),
        random_state=int(random_state),
        inner_cv=inner_cv,
        inner_scoring=inner_scoring,
        keep=keep_predictions,
    )
    jobs, about = _plan(specs, data, cv, protocol)
    with step_progress(verbose > 0, "comparing", len(jobs), "cell") as progress:
        found = _run(jobs, about | {"started": started}, where, n_jobs, retry_failed, progress)
    if len(found.failures):
        first = found.failures.iloc[0]
        warn_user(
            f"{len(found.failures)} of {len(found.cells)} cells failed, the first with model {first['model']!r} on "
            f"{first['dataset']!r}: {first['error']} `failures` lists them all.",
            UserWarning,
        )
    return found


# ------------------------------------------------------------------------------------------------------------- plan


def _metrics(
    models: Mapping[str, study.ModelSpec],
    datasets: Mapping[str, study.Data],
    scoring: Scoring | None,
    unavailable: str,
    inner_scoring: Any,
) -> dict[str, Metric]:
    """Return the metrics by name; raise for those that do not suit the models or the data."""
    estimators = {name: spec.estimator for name, spec in models.items()}
    metrics: dict[str, Metric] = {}
    for data in datasets.values():
        metrics |= resolve_scoring(scoring, estimators, data.y, unavailable)
        times = task_of(estimators, data.y) == "survival"
        if times and isinstance(inner_scoring, str) and any(spec.param_grid for spec in models.values()):
            raise ValueError(  # metrics of grids do not know of censored times
                f"`inner_scoring` must be None or a function scorer(estimator, X, y) for models of survival; got "
                f"{inner_scoring!r}. None is the estimator's own score, its concordance."
            )
    taken = [name for name in metrics if name in TAKEN]
    if taken:
        raise ValueError(
            f"`scoring`: a metric cannot be called {taken[0]!r}, as tables of cells have a column of that name. Give "
            f"it another one, such as `scoring={{'my {taken[0]}': ...}}`."
        )
    return metrics


class Protocol(NamedTuple):
    """What holds for all cells of a comparison."""

    metrics: Mapping[str, Metric]
    scorers: dict[str, str]  # hashes of the metrics, by name
    task: str
    random_state: int
    inner_cv: Any  # of models with a grid
    inner_scoring: Any
    keep: bool  # whether cells keep predictions


class Job(NamedTuple):
    """A model on one split of one data set."""

    key: str  # of the cell
    spec: study.ModelSpec
    data: study.Data
    rows: tuple[np.ndarray, np.ndarray]  # to train on and to test on
    seed: int
    protocol: Protocol


def seed_of(random_state: int, split: int) -> int:
    """Return the seed of open random states in a split."""
    return int(np.random.SeedSequence([random_state, split]).generate_state(1)[0] % 2**31)


def _plan(
    models: Mapping[str, study.ModelSpec], datasets: Mapping[str, study.Data], cv: Any, protocol: Protocol
) -> tuple[dict[Name, Job], dict[str, Any]]:
    """Find all splits, and hash all that decides each cell: samples, labels, weights, rows, model, seed, versions.

    The names of data sets and models do not matter; groups do for models with a grid, as its inner cross-validation.
    Keys of cells with code that no installed package defines are of this call alone.
    """
    facts, jobs = {}, {}
    contents = {name: store.content_of((m.needs, m.compute)) for name, m in protocol.metrics.items()}
    protocol.scorers.update({name: one.digest or content_hash(name) for name, one in contents.items()})
    of_models = {name: _content_of_model(spec, protocol) for name, spec in models.items()}
    all_known = all(one.digest for one in contents.values())
    for dataset, data in datasets.items():
        splits, data, grouped = study.grouped_splits(
            cv, data, models, protocol.random_state, protocol.task == "classification"
        )
        facts[dataset] = _facts_of(data) | grouped
        X = np.ascontiguousarray(data.X) if isinstance(data.X, np.ndarray) else data.X
        of_data = store.content_of((X, data.y, data.weights)).digest
        of_groups = content_hash(data.groups), protocol.task
        for model, one in of_models.items():
            known = of_data, one.digest, of_groups if models[model].param_grid is not None else ()
            for split, rows in enumerate(splits):
                seed = seed_of(protocol.random_state, split)
                key = content_hash((*known, *rows, seed))
                if not (all_known and of_data and one.digest):
                    key = f"{store.OF_ONE_CALL}{uuid4().hex}"
                jobs[dataset, model, split] = Job(key, models[model], data, rows, seed, protocol)
    packages = {name: v for one in of_models.values() for name, v in one.packages.items()}
    about = {
        "keys": [(*name, job.key) for name, job in jobs.items()],
        "scorers": protocol.scorers,
        "metrics": {name: metric.greater_is_better for name, metric in protocol.metrics.items()},
        "random_state": protocol.random_state,
        "cv": "pairs of rows" if study.is_pairs(cv) else study.text_of(cv),
        "models": {name: spec.describe() for name, spec in models.items()},
        "datasets": facts,
        "environment": store.environment(packages),
    }
    return jobs, about


def _content_of_model(spec: study.ModelSpec, protocol: Protocol) -> store.Content:
    """Hash a model as it will be fitted, with the inner cross-validation of one with a grid."""
    inner = (protocol.inner_cv, protocol.inner_scoring) if spec.param_grid is not None else ()
    try:
        return store.content_of((clone(spec.estimator), spec.param_grid, inner))
    except Exception:  # of its own code; the cells will say what is wrong with it
        return store.Content("", {})


def _facts_of(data: study.Data) -> dict[str, Any]:
    X = data.X if hasattr(data.X, "shape") else np.asarray(data.X)
    times = are_times(data.y)
    return {
        "n_samples": len(data.y),
        "n_features": int(np.prod(X.shape[1:])) if X.ndim < 3 else None,
        "n_kernels": X.shape[2] if X.ndim == 3 else None,
        "n_labels": None if times else len(np.unique(data.y)),
        "n_events": int(event_and_time(data.y).event.sum()) if times else None,
    }


# -------------------------------------------------------------------------------------------------------- execution


def _run(
    jobs: dict[Name, Job],
    about: dict[str, Any],
    folder: Path | None,
    n_jobs: int | None,
    retry_failed: bool,
    progress: Callable[[int, str], None] | None,
) -> Comparison:
    """Compute the cells that the folder does not have."""
    start, protocol = time.perf_counter(), next(iter(jobs.values())).protocol
    earlier = None if folder is None or _is_empty(folder) else store.read_about(folder)
    about["seconds"] = 0.0 if earlier is None else earlier.get("seconds", 0.0)
    is_other = earlier is None or any(earlier[name] != about[name] for name in ("keys", "scorers"))
    if folder is not None and is_other:
        store.write_about(folder, about)
    place = store.Store(folder)
    place.remove_of_one_call()
    names: dict[str, list[Name]] = {}
    for name, job in jobs.items():
        names.setdefault(job.key, []).append(name)
    cells = {key: _found(key, place, protocol, retry_failed) for key in names}
    left = [jobs[own[0]] for key, own in names.items() if cells[key] is None]
    n_done = sum(len(own) for key, own in names.items() if cells[key] is not None)
    with closing(_computed(left, n_jobs)) as computed:
        for cell in computed:
            place.write(cell)
            cells[cell.key] = cell._replace(kept=None)
            n_done += len(names[cell.key])
            if progress is not None:
                row = cell.named(names[cell.key][0], protocol.scorers)
                progress(n_done, f"{row['dataset']}, split {row['split']}: {row['model']}")
    about["seconds"] += time.perf_counter() - start
    found = [(name, cells[job.key]) for name, job in jobs.items()]
    rows = [cell.named(name, protocol.scorers) for name, cell in found if cell is not None]
    table = store.table_of(rows, protocol.metrics)
    if folder is not None and (left or is_other or not (folder / store.RESULTS).exists()):
        store.write_table(folder, table)
        store.write_about(folder, about)
    if not protocol.keep and place.n_kept():
        warn_user(
            f"`keep_predictions` is False, and {place.n_kept()} cells in {str(place.folder)!r} keep predictions of "
            "earlier calls. Before the folder is shared, remove its files '*.npz': scores stay.",
            UserWarning,
        )
    return Comparison(table, about, place)


def _is_empty(folder: Path) -> bool:
    """Return whether a folder is new, or holds only what a killed process left."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`folder` must be a folder; {str(folder)!r} is a file. Choose another name.")
    return not folder.exists() or all(is_partial(path) for path in folder.iterdir())


def _found(key: str, place: store.Store, protocol: Protocol, retry_failed: bool) -> store.Cell | None:
    """Return a cell that is there with all scores; those that it lacks are computed of its predictions."""
    cell = place.read(key)
    if cell is None or (cell.failed and retry_failed):
        return None
    lacking = {m: digest for m, digest in protocol.scorers.items() if digest not in cell.scores}
    if cell.failed or not lacking:
        return cell
    metrics = {digest: protocol.metrics[name] for name, digest in lacking.items()}
    if any(metric.needs == "model" for metric in metrics.values()):  # a function may look at all of it
        return None
    with recording_warnings() as caught:
        try:
            stored = StoredPredictions(place.kept(key))
            scores = {digest: stored_score(metric, stored) for digest, metric in metrics.items()}
        except store.NotKeptError:
            return None
    note = " | ".join(filter(None, [cell.row["note"], note_of(caught)]))
    cell = cell._replace(row=cell.row | {"note": note}, scores=cell.scores | scores)
    place.write(cell)
    return cell


def _computed(jobs: list[Job], n_jobs: int | None) -> Generator[store.Cell, None, None]:
    """Yield cells as they are finished, by this process or by joblib's workers."""
    if joblib.effective_n_jobs(n_jobs) == 1:
        for job in jobs:
            yield cell_of(job, job.data.X)
        return
    # Private copies of memory maps may be written to, as in this process.
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, mmap_mode="c")
    # samples go beside the job: schedulers send large arrays once
    without = (job._replace(data=job.data._replace(X=None)) for job in jobs)
    yield from parallel(delayed(cell_of)(own, job.data.X) for own, job in zip(without, jobs, strict=True))


# ------------------------------------------------------------------------------------------------------------ cells


def cell_of(job: Job, X: Any) -> store.Cell:
    """Fit and score a model; its exception becomes the `error` of the row."""
    data = job.data._replace(X=X)
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
    return store.Cell(job.key, row, by_hash, kept, about)


def _told(error: BaseException) -> str:
    """Format the exception of a model; of tracebacks that a search puts into its message, the last line."""
    name, text = type(error).__name__, str(error).replace("\0", "\\0")  # no table in text holds NUL
    before, _, traceback = text.partition("Traceback (most recent call last)")
    if not traceback:
        return f"{name}: {text}"
    return f"{name}: {before.split('.')[0].strip()}. {traceback.strip().splitlines()[-1]}"


def _measured(job: Job, data: study.Data) -> tuple[dict[str, Any], dict[str, float], store.Kept | None, str]:
    """Fit, predict and score."""
    protocol, spec = job.protocol, job.spec
    inner = study.as_splitter(
        protocol.inner_cv, data._replace(X=None), job.seed, protocol.task == "classification"
    )
    model = spec.new(job.seed, inner, protocol.inner_scoring)
    X, y, X_test, y_test, fit_params = _cut(model, data, *job.rows, spec)
    at_start = _reset_peak()
    start = time.perf_counter()
    model.fit(X, y, **fit_params)
    fit_seconds = time.perf_counter() - start
    predictions = Predictions(model, X_test, y)
    predictions.labels()
    predict_seconds = predictions.seconds
    scores = score(predictions, y_test, protocol.metrics)
    n_bytes = float(np.maximum(_resident("VmHWM") - at_start, 0.0))
    kept, left_out = _kept(job, predictions, y_test)
    found = facts(model, len(y))
    converged = found.pop("converged")
    row = {
        "fit_seconds": round(fit_seconds, 6),
        "predict_seconds": round(predict_seconds, 6),
        "peak_memory_mb": round(n_bytes / 2**20, 6),
        "converged": None if converged is None else float(converged),
        **found,
    }
    return row, scores, kept, left_out


def _kept(job: Job, predictions: Predictions, y_test: np.ndarray) -> tuple[store.Kept | None, str]:
    """Return the predictions to keep, or why there are none; nothing about them makes a cell fail."""
    protocol = job.protocol
    if not protocol.keep:
        return None, "`keep_predictions` was False when it was computed"
    try:
        return keep_predictions(predictions, y_test, job.rows[1], protocol.task)
    except Exception as error:  # of the model, which no metric has asked for it
        return None, f"its predictions could not be computed: {_told(error)}"


def _cut(
    model: BaseEstimator, data: study.Data, train: np.ndarray, test: np.ndarray, spec: study.ModelSpec
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
    >>> from bayesmkl.evaluation.compare import facts
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
