"""How the cells of a comparison are computed: one model on one split of one data set, and groups of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import _safe_split
from threadpoolctl import threadpool_limits

from bayesmkl.evaluation._peak import peak_memory
from bayesmkl.evaluation.journal import Journal
from bayesmkl.evaluation.scoring import Metric, Predictions, facts, score
from bayesmkl.evaluation.study import Data, DataRef, ModelSpec, as_splitter
from bayesmkl.kernels.cache import KernelCache, Tally, current_cache, sharing_kernels

__all__ = ["Job", "cells_of", "rows_of_split", "run_job"]

LONGEST_NOTE = 400  # characters


class Part(NamedTuple):
    """What a model is fitted to and tested on."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    groups: np.ndarray | None  # of the training rows


class Job:
    """Models on one split of one data set; they share kernels. Small, and opaque to schedulers.

    Attributes
    ----------
    dataset, data : str, DataRef
    split : int
    models : dict of str to ModelSpec
    metrics : dict of str to Metric
    cv, inner_cv, inner_scoring, random_state
        As in a Study.
    classifier : bool
        Whether labels are classes.
    folder : str or None
        Where finished cells are written, if this process sees it.
    """

    __slots__ = (
        "classifier",
        "cv",
        "data",
        "dataset",
        "folder",
        "inner_cv",
        "inner_scoring",
        "metrics",
        "models",
        "random_state",
        "split",
    )

    def __init__(
        self,
        *,
        dataset: str,
        data: DataRef,
        split: int,
        models: Mapping[str, ModelSpec],
        metrics: Mapping[str, Metric],
        cv: Any,
        inner_cv: Any,
        inner_scoring: str | None,
        random_state: int,
        classifier: bool,
        folder: str | None,
    ) -> None:
        self.dataset, self.data, self.split, self.models, self.metrics = dataset, data, split, models, metrics
        self.cv, self.inner_cv, self.inner_scoring, self.random_state = (
            cv,
            inner_cv,
            inner_scoring,
            random_state,
        )
        self.classifier, self.folder = classifier, folder


def run_job(job: Job) -> list[dict[str, Any]]:
    """Compute the cells of a job, one row each."""
    # inner cross-validations would become tasks with data of their own
    with joblib.parallel_config("sequential"):
        return list(cells_of(job))


def cells_of(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the row of each model; those that the folder's journal holds already are read from it."""
    journal = Journal(Path(job.folder)) if job.folder is not None and Path(job.folder).is_dir() else None
    data = job.data()
    train, test = rows_of_split(job.cv, data, job.split, job.random_state, job.classifier)
    with threadpool_limits(1), sharing_kernels(KernelCache()):
        for model in job.models:
            row = journal.read_cell(job.dataset, model, job.split) if journal else None
            if row is None:
                row = run_cell(job, model, data, train, test)
                if journal:
                    journal.record(row)
            yield row


def rows_of_split(
    cv: Any, data: Data, split: int, random_state: int, classifier: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and test rows of a split, by its number."""
    splitter = as_splitter(cv, data, random_state, classifier)
    return next(islice(iter(splitter.split(data.X, data.y, data.groups)), split, None))


def run_cell(job: Job, model: str, data: Data, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Fit and score one model; an exception of the model becomes the cell's `error`."""
    seed = int(np.random.SeedSequence([job.random_state, job.split]).generate_state(1)[0] % 2**31)
    row: dict[str, Any] = {
        "dataset": job.dataset,
        "model": model,
        "split": job.split,
        "n_samples": len(data.y),
        "n_train": len(train),
        "n_test": len(test),
        "seed": seed,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            row |= _measured(job, job.models[model], data, train, test, seed)
        except Exception as error:  # whatever goes wrong in one model must not stop the others
            row |= {"error": f"{type(error).__name__}: {error}"}
    return row | {"note": _note(caught)}


def _measured(
    job: Job, spec: ModelSpec, data: Data, train: np.ndarray, test: np.ndarray, seed: int
) -> dict[str, Any]:
    """Fit, predict and score; seconds and memory include what was found in the cache."""
    inner = as_splitter(job.inner_cv, Data(None, data.y, data.groups), seed, job.classifier)
    model = spec.new(seed, inner, job.inner_scoring)
    part = _part(model, data, train, test, spec.transductive)
    fit_params = {} if part.groups is None or spec.param_grid is None else {"groups": part.groups}
    before = _tally()
    with peak_memory() as memory:
        start = time.perf_counter()
        model.fit(part.X, part.y, **fit_params)
        fit_seconds = time.perf_counter() - start
        of_fit = _tally().since(before)
        predictions = Predictions(model, part.X_test, part.X, seed)
        predictions.labels()
        predict_seconds = predictions.seconds
        of_both = _tally().since(before)
        scores = score(predictions, part.y_test, job.metrics)
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
    }


def _tally() -> Tally:
    cache = current_cache()
    return Tally() if cache is None else cache.tally


def _part(model: BaseEstimator, data: Data, train: np.ndarray, test: np.ndarray, transductive: bool) -> Part:
    """Cut rows, and of precomputed kernels columns too."""
    groups = None if data.groups is None else data.groups[train]
    rows = np.concatenate([train, test]) if transductive else train
    X, y = _safe_split(model, data.X, data.y, rows)
    X_test, y_test = _safe_split(model, data.X, data.y, test, rows)
    if transductive:
        y = np.array(y)
        y[len(train) :] = _unlabeled_label(model)
    return Part(X, y, X_test, y_test, groups)


def _unlabeled_label(model: BaseEstimator) -> Any:
    """Return what marks samples without a label."""
    params = model.get_params()
    found = [v for n, v in params.items() if n.split("__")[-1] == "unlabeled_label" and v is not None]
    if not found:
        raise ValueError(
            f"a transductive model needs the parameter `unlabeled_label`, and {type(model).__name__} has none that "
            "is set. Set it, or compare the model without `transductive`."
        )
    return found[0]


def _note(caught: list[warnings.WarningMessage]) -> str:
    """Return what a user should know of the warnings, each once."""
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    note = " | ".join(" ".join(text.split()) for text in texts)
    return note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 3]}..."
