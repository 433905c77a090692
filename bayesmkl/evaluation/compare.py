"""Comparison of models in one call: common splits, and tuning inside the training part."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from datetime import UTC, datetime
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from pickle import PicklingError
from typing import Any, NamedTuple, TypeGuard
from uuid import uuid4

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import get_scorer_names
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length

from bayesmkl._utils.files import as_path, is_partial
from bayesmkl._utils.given import as_array, check_weights
from bayesmkl._utils.hashing import content_hash
from bayesmkl._utils.progress import cell_progress
from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.typing import Samples, Scoring, Splits, Targets
from bayesmkl._utils.validation import (
    check_flag,
    check_folds,
    check_grid,
    check_integer,
    check_jobs,
    check_number,
    check_verbose,
    shown,
)
from bayesmkl._utils.warnings import recording_warnings, warn_user
from bayesmkl.evaluation.cells import Job, Protocol, cell_of, note_of, run_job, seed_of
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.predictions import StoredPredictions, final_estimator, weight_argument
from bayesmkl.evaluation.scoring import Metric, resolve_scoring, stored_score, task_of
from bayesmkl.evaluation.store import (
    COLUMNS,
    OF_ONE_CALL,
    RESULTS,
    Cell,
    Content,
    NotKeptError,
    Store,
    content_of,
    environment,
    read_about,
    table_of,
    versions,
    write_about,
    write_table,
)
from bayesmkl.evaluation.study import Data, ModelSpec, bundled, grouped_splits, text_of

ONLY = "data"  # name of the data set that comes as X and y
MOST_KEPT = 64.0  # MiB of predictions in a cell
TAKEN = {*COLUMNS, "metric", "value"}  # names in rows and tables
Name = tuple[str, str, int]  # data set, model and split of a cell
Progress = Callable[[dict[str, Any], int, int], None]  # a finished row, how many are done, how many there are


def compare_models(
    models: Mapping[str, Any] | Sequence[tuple[str, Any]],
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
    keep_predictions: bool | float = True,
    retry_failed: bool = False,
) -> Comparison:
    """Fit and score models on the same splits of one or several data sets.

    Every fit runs on one BLAS thread, so that times compare and results do not depend on `n_jobs`.

    Parameters
    ----------
    models : dict or list of (name, model)
        A model is an estimator of this package, of scikit-learn or of scikit-survival, or a pair
        ``(estimator, param_grid)``, tuned by a cross-validation inside every training part. Models that fail are
        recorded with their error.
    X : array-like or DataFrame of shape (n_samples, n_features), default=None
        Samples; or (n_samples, n_samples, n_kernels) for models of precomputed kernels.
    y : array-like of shape (n_samples,), default=None
        Labels or targets; or (n_samples, n_columns), several targets of each sample, or labels that are 0 or 1, for
        models that take them. For models of survival a structured array of events and times, as `GPMKLSurvival` and
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
        "concordance", "concordance_uno", "integrated_brier_score", "calibration_at_median" of survival times; "elbo"
        and "elpd_loo" of a posterior; any name that scikit-learn knows; or name to ``scorer(estimator, X, y)``. None
        takes what the models can give, the first being "accuracy", "r2" or "concordance".
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
    keep_predictions : bool or float, default=True
        Whether cells keep what was predicted of their test rows, with labels: data of persons, where a folder is
        shared. True keeps up to 64 MiB of a cell, a number as many MiB; without a folder a GiB in all. What a folder
        keeps of earlier calls stays.
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
        For arguments of another kind than those above, two models of one name, an unknown metric or data set, a
        metric that a model cannot give or of another task, survival times of which a part has no event, more folds
        than groups, weights or several columns of `y` where a model takes none, models whose designs name different
        groups, or a folder of an earlier version or of something else.
    TypeError
        If `folder` is no path.
    ChildProcessError
        If a process that fits models dies, for want of memory for example. Finished cells stay in the folder.

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
    _check_inner_scoring(inner_scoring)
    if not isinstance(keep_predictions, bool):
        check_number("keep_predictions", keep_predictions, low=0.0)
    check_flag("retry_failed", retry_failed)
    where = None if folder is None else as_path("folder", folder)
    specs, data = _models(models), _datasets(X, y, groups, sample_weight, datasets, cv)
    if any(one.weights is not None for one in data.values()):
        check_weighted(specs)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    metrics = _metrics(specs, data, scoring, unavailable, inner_scoring)
    protocol = Protocol(
        task=task_of({name: spec.estimator for name, spec in specs.items()}, next(iter(data.values())).y),
        random_state=int(random_state),
        inner_cv=inner_cv,
        inner_scoring=inner_scoring,
        metrics=metrics,
        scorers={},
        most_kept=(MOST_KEPT if keep_predictions is True else float(keep_predictions)) * 2**20,
        folder=None if where is None else str(where.absolute()),
        expected=versions(),
    )
    plan = _plan(specs, data, None if _is_pairs(cv) else cv, protocol)
    with cell_progress(verbose > 0) as progress:
        found = _run(plan, where, n_jobs, retry_failed, started, progress)
    if len(found.failures):
        first = found.failures.iloc[0]
        warn_user(
            f"{len(found.failures)} of {len(found.cells)} cells failed, the first with model {first['model']!r} on "
            f"{first['dataset']!r}: {first['error']} `failures` lists them all.",
            UserWarning,
        )
    return found


# -------------------------------------------------------------------------------------------------------- arguments


def check_weighted(models: Mapping[str, ModelSpec]) -> None:
    """Raise for models that would leave weights of samples out."""
    for name, spec in models.items():
        if weight_argument(spec.estimator) is None:
            kind = type(final_estimator(spec.estimator)).__name__
            raise ValueError(
                f"`sample_weight`: model {name!r} ({kind}) takes no weights in `fit`. Leave it out, or compare it "
                "without weights."
            )


def _check_inner_scoring(scoring: str | Callable[..., float] | None) -> None:
    if scoring is None or callable(scoring):
        return
    known = get_scorer_names()
    if not isinstance(scoring, str) or scoring not in known:
        close = get_close_matches(str(scoring), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"`inner_scoring` must be None, a function or a metric of scikit-learn; got {shown(scoring)}.{hint}"
        )


def _models(
    models: Mapping[str, BaseEstimator] | Sequence[tuple[str, BaseEstimator]],
) -> dict[str, ModelSpec]:
    pairs: Any = list(models.items()) if isinstance(models, Mapping) else models
    is_list = isinstance(pairs, Sequence) and not isinstance(pairs, str)
    if not is_list or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"`models` must map names to models, or list pairs (name, model); got {shown(models)}."
        )
    specs: dict[str, ModelSpec] = {}
    for name, model in pairs:
        if name in specs:
            raise ValueError(f"`models` has two models named {name!r}. Give every model a name of its own.")
        specs[name] = _spec(name, model)
    _check_names("models", specs)
    return specs


def _spec(name: str, model: Any) -> ModelSpec:
    if isinstance(model, ModelSpec):
        return model
    estimator, grid = model if isinstance(model, tuple) and len(model) == 2 else (model, None)
    if (
        isinstance(estimator, type)
        or not hasattr(estimator, "fit")
        or not isinstance(estimator, BaseEstimator)
    ):
        raise ValueError(
            f"`models`: {name!r} must be an estimator or a pair (estimator, param_grid); got {estimator!r}."
        )
    if grid is not None:
        check_grid(f"models[{name!r}]", grid)
        grids = [grid] if isinstance(grid, Mapping) else grid
        unknown = [key for one in grids for key in one if key not in estimator.get_params()]
        if unknown:
            raise ValueError(
                f"`models`: the grid of {name!r} names {unknown[0]!r}, which is none of its parameters."
            )
    return ModelSpec(estimator, grid)


def _datasets(
    X: Any,
    y: Any,
    groups: ArrayLike | None,
    sample_weight: ArrayLike | None,
    datasets: Mapping[str, object] | Sequence[str] | str | None,
    cv: Splits | None,
) -> dict[str, Data]:
    if (X is None) == (datasets is None):
        raise ValueError("give either `X` and `y`, or `datasets`.")
    if datasets is None:
        return {ONLY: _held(X, y, groups, sample_weight, cv)}
    if groups is not None or sample_weight is not None or _is_pairs(cv):
        raise ValueError(
            "`groups`, `sample_weight` and rows in `cv` belong to `X` and `y`. With `datasets`, give (X, y, groups, "
            "sample_weight) and a splitter."
        )
    if isinstance(datasets, str):
        datasets = [datasets]
    if not isinstance(datasets, Mapping | Sequence):
        raise ValueError(f"`datasets` must be names, or map names to data; got {shown(datasets)}.")
    if not isinstance(datasets, Mapping):
        twice = [name for k, name in enumerate(datasets) if name in datasets[:k]]
        if twice:
            raise ValueError(f"`datasets` names {twice[0]!r} twice.")
        datasets = {name: name for name in datasets}
    _check_names("datasets", datasets)
    return {name: _data(name, value) for name, value in datasets.items()}


def _check_names(kind: str, names: Iterable[object]) -> None:
    if not names:
        raise ValueError(f"`{kind}` must name at least one; got none.")
    wrong = [name for name in names if not isinstance(name, str) or not name.strip()]
    if wrong:
        raise ValueError(f"`{kind}` must have names of text; got {wrong[0]!r}.")


def _data(name: str, value: object) -> Data:
    if isinstance(value, str):
        return bundled(value)
    if isinstance(value, tuple) and len(value) in (2, 3, 4):
        return _held(*value)
    raise ValueError(
        f"`datasets`: {name!r} must be a name, (X, y), (X, y, groups) or (X, y, groups, sample_weight); got "
        f"{type(value).__name__}."
    )


def _held(
    X: Any,
    y: Targets,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cv: Splits | None = None,
) -> Data:
    if y is None:
        several = " A dict of data sets goes to `datasets=`." if isinstance(X, Mapping) else ""
        raise ValueError(f"`y` must be given with `X`.{several}")
    if not isinstance(X, pd.DataFrame):
        X = X.to_pandas() if hasattr(type(X), "to_pandas") else as_array("X", X)
    y = as_array("y", y)
    if y.dtype.names is not None:
        names, given = y.dtype.names, y
        y = np.empty(given.shape, dtype=[(name, given.dtype[name]) for name in names])  # no record array
        for name in names:
            y[name] = given[name]
    elif any(value is None or value != value for value in y.ravel().tolist()):
        raise ValueError(
            "`y` must hold a label or target of every sample; got None or NaN. Leave these samples out."
        )
    groups = None if groups is None else as_array("groups", groups)
    if groups is not None and groups.shape != (len(y),):
        raise ValueError(
            f"`groups` must have one entry for each of the {len(y)} samples; got shape {groups.shape}."
        )
    check_consistent_length(X, y)
    splits = _splits(cv, len(y)) if _is_pairs(cv) else None
    return Data(X, y, groups, splits, check_weights(sample_weight, len(y)))


def _splits(cv: Iterable[tuple[ArrayLike, ArrayLike]], n_samples: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows of training and validation parts; raise where they are none."""
    pairs = list(cv)
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"`cv` must be a number of folds, a splitter or pairs (train, test) of rows; got {shown(cv)}."
        )
    splits = [(as_array("cv", train), as_array("cv", test)) for train, test in pairs]
    for rows in (rows for pair in splits for rows in pair):
        flags = rows.dtype.kind == "b" and rows.shape == (n_samples,)
        positions = rows.dtype.kind in "iu" and rows.ndim == 1 and rows.size and -n_samples <= rows.min()
        if not flags and not (positions and rows.max() < n_samples):
            raise ValueError(f"`cv` must hold rows from 0 to {n_samples - 1}; got {shown(rows)}.")
    return splits


def _is_pairs(cv: object) -> TypeGuard[Iterable[tuple[ArrayLike, ArrayLike]]]:
    return cv is not None and not hasattr(cv, "split") and hasattr(cv, "__iter__")


def _metrics(
    models: Mapping[str, ModelSpec],
    datasets: Mapping[str, Data],
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


# ------------------------------------------------------------------------------------------------------------- plan


class _Plan(NamedTuple):
    """What follows from the arguments before anything is fitted."""

    models: Mapping[str, ModelSpec]
    datasets: Mapping[str, Data]
    protocol: Protocol
    splits: dict[str, list[tuple[np.ndarray, np.ndarray]]]  # rows to train on and to test on
    group_columns: dict[str, tuple[int, ...]]  # of designs, where splits keep their groups together
    keys: dict[Name, str]
    about: dict[str, Any]


def _plan(
    models: Mapping[str, ModelSpec], datasets: Mapping[str, Data], cv: Any, protocol: Protocol
) -> _Plan:
    """Find all splits, and hash all that decides each cell: samples, labels, weights, rows, model, seed, versions.

    The names of data sets and models do not matter; groups do for models with a grid, as its inner cross-validation.
    Keys of cells with code that no installed package defines are of this call alone.
    """
    facts, splits, columns, keys = {}, {}, {}, {}
    contents = {name: content_of((m.needs, m.compute)) for name, m in protocol.metrics.items()}
    protocol.scorers.update({name: one.digest or content_hash(name) for name, one in contents.items()})
    of_models = {name: _content_of_model(spec, protocol) for name, spec in models.items()}
    all_known = all(one.digest for one in contents.values())
    for dataset, data in datasets.items():
        splits[dataset], columns[dataset], grouped = grouped_splits(
            cv, data, models, protocol.random_state, protocol.task == "classification"
        )
        facts[dataset] = _facts_of(data) | grouped
        X = np.ascontiguousarray(data.X) if isinstance(data.X, np.ndarray) else data.X
        of_data = content_of((X, data.y, data.weights)).digest
        of_groups = content_hash(data.groups), columns[dataset], protocol.task
        for model, one in of_models.items():
            known = of_data, one.digest, of_groups if models[model].param_grid is not None else ()
            for split, rows in enumerate(splits[dataset]):
                key = content_hash((*known, *rows, seed_of(protocol.random_state, split)))
                is_known = all_known and of_data and one.digest
                keys[dataset, model, split] = key if is_known else f"{OF_ONE_CALL}{uuid4().hex}"
    packages = {name: v for one in of_models.values() for name, v in one.packages.items()}
    about = {
        "keys": [(*name, key) for name, key in keys.items()],
        "scorers": protocol.scorers,
        "metrics": {name: metric.greater_is_better for name, metric in protocol.metrics.items()},
        "random_state": protocol.random_state,
        "cv": text_of(cv),
        "models": {name: spec.describe() for name, spec in models.items()},
        "datasets": facts,
        "environment": environment(packages),
    }
    return _Plan(models, datasets, protocol, splits, columns, keys, about)


def _content_of_model(spec: ModelSpec, protocol: Protocol) -> Content:
    """Hash a model as it will be fitted, with the inner cross-validation of one with a grid."""
    inner = (protocol.inner_cv, protocol.inner_scoring) if spec.param_grid is not None else ()
    try:
        return content_of((clone(spec.estimator), spec.param_grid, inner))
    except Exception:  # of its own code; the cells will say what is wrong with it
        return Content("", {})


def _facts_of(data: Data) -> dict[str, Any]:
    X = data.X if hasattr(data.X, "shape") else np.asarray(data.X)
    times = are_times(data.y)
    return {
        "n_samples": len(data.y),
        "n_features": int(np.prod(X.shape[1:])) if X.ndim < 3 else None,
        "n_kernels": X.shape[2] if X.ndim == 3 else None,
        "n_labels": None if times else data.y.shape[1] if data.y.ndim == 2 else len(np.unique(data.y)),
        "n_events": int(event_and_time(data.y).event.sum()) if times else None,
    }


# -------------------------------------------------------------------------------------------------------- execution


def _run(
    plan: _Plan,
    folder: Path | None,
    n_jobs: int | None,
    retry_failed: bool,
    started: str,
    progress: Progress | None,
) -> Comparison:
    """Compute the cells that the folder does not have."""
    start, scorers = time.perf_counter(), plan.protocol.scorers
    earlier = None if folder is None or _is_empty(folder) else read_about(folder)
    seconds = 0.0 if earlier is None else earlier.get("seconds", 0.0)
    about = plan.about | {"started": started, "seconds": seconds}
    is_other = earlier is None or any(earlier[name] != about[name] for name in ("keys", "scorers"))
    if folder is not None and is_other:
        write_about(folder, about)
    store = Store(folder)
    store.remove_of_one_call()
    names: dict[str, list[Name]] = {}
    for name, key in plan.keys.items():
        names.setdefault(key, []).append(name)
    cells = {key: _found(key, store, plan.protocol, retry_failed) for key in names}
    rows = {
        name: cell.named(name, scorers) for name, key in plan.keys.items() if (cell := cells[key]) is not None
    }
    jobs = _jobs(plan, {key for key, cell in cells.items() if cell is None})
    with closing(_computed(jobs, n_jobs)) as computed:
        for cell in computed:
            store.write(cell)
            for name in names[cell.key]:
                rows[name] = cell.named(name, scorers)
                if progress is not None:
                    progress(rows[name], len(rows), len(plan.keys))
    about["seconds"] += time.perf_counter() - start
    table = table_of([rows[name] for name in plan.keys], plan.protocol.metrics)
    if folder is not None and (jobs or is_other or not (folder / RESULTS).exists()):
        write_table(folder, table)
        write_about(folder, about)
    if not plan.protocol.most_kept and store.n_kept():
        warn_user(
            f"`keep_predictions` is False, and {store.n_kept()} cells in {str(store.folder)!r} keep predictions of "
            "earlier calls. Before the folder is shared, remove its files '*.npz': scores stay.",
            UserWarning,
        )
    return Comparison(table, about, store)


def _is_empty(folder: Path) -> bool:
    """Return whether a folder is new, or holds only what a killed process left."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`folder` must be a folder; {str(folder)!r} is a file. Choose another name.")
    return not folder.exists() or all(is_partial(path) for path in folder.iterdir())


def _found(key: str, store: Store, protocol: Protocol, retry_failed: bool) -> Cell | None:
    """Return a cell that is there with all scores; those that it lacks are computed of its predictions."""
    cell = store.read(key)
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
            stored = StoredPredictions(store.kept(key))
            scores = {digest: stored_score(metric, stored) for digest, metric in metrics.items()}
        except NotKeptError:
            return None
    note = " | ".join(filter(None, [cell.row["note"], note_of(caught)]))
    cell = cell._replace(row=cell.row | {"note": note}, scores=cell.scores | scores)
    store.write(cell)
    return cell


def _jobs(plan: _Plan, left: set[str]) -> list[tuple[Job, Any]]:
    """Return the work that is left, with its samples."""
    jobs, left = [], set(left)
    for dataset, data in plan.datasets.items():
        for split, rows in enumerate(plan.splits[dataset]):
            for model, spec in plan.models.items():
                key = plan.keys[dataset, model, split]
                if key in left:
                    left.remove(key)
                    seed, columns = seed_of(plan.protocol.random_state, split), plan.group_columns[dataset]
                    job = Job(key, spec, data._replace(X=None), rows, columns, seed, plan.protocol)
                    jobs.append((job, data.X))
    return jobs


def _computed(jobs: list[tuple[Job, Any]], n_jobs: int | None) -> Generator[Cell, None, None]:
    """Yield cells as they are finished, by this process or by joblib's workers."""
    if joblib.effective_n_jobs(n_jobs) == 1:
        for job, X in jobs:
            yield cell_of(job, X)
        return
    # Private copies of memory maps may be written to, as in this process.
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, mmap_mode="c")
    try:
        yield from parallel(delayed(run_job)(job, X) for job, X in jobs)
    except PicklingError as error:
        raise ValueError(
            "`n_jobs` must be 1 for these models, which cannot be sent to other processes: "
            f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150]}."
        ) from error
    except BrokenExecutor as error:
        raise ChildProcessError(
            "`n_jobs`: a process that fitted models died. Too little memory, or a crash in compiled code. Finished "
            "cells are kept where a folder was given; the same call continues there. Use fewer processes."
        ) from error
