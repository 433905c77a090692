"""Tables of papers: data, models and splits, a resumable loop, and published beside measured numbers."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, GridSearchCV, StratifiedKFold
from sklearn.utils.metaestimators import _safe_split
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
CELLS, RESULTS = HERE / "cells", HERE / "results"
Split = tuple[np.ndarray, np.ndarray]
Score = Callable[[Any, np.ndarray, np.ndarray], float]


class Data(NamedTuple):
    """Samples, labels, and the splits that are published with them."""

    X: np.ndarray
    y: np.ndarray
    splits: list[Split] | None = None


class Model(NamedTuple):
    """An estimator, a grid to choose from inside the training samples, and whether it sees the test samples too."""

    estimator: Any
    grid: Mapping[str, list[Any]] | None = None
    transductive: bool = False


def accuracy(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the share of labels found."""
    return float(np.mean(model.predict(X) == y))


class Study(NamedTuple):
    """Data sets by name, models by name, and how they are split and scored."""

    sets: Mapping[str, Callable[[], Data]]
    models: Mapping[str, Model]
    cv: Any = None  # a splitter; None: the splits of the data
    scores: Mapping[str, Score] = {"accuracy": accuracy}
    inner_cv: int | BaseCrossValidator = 5
    inner_scoring: str | None = None


class Entry(NamedTuple):
    """A cell of a table: what is measured, and the published mean and deviation in the paper's unit."""

    dataset: str
    model: str
    metric: str
    published: tuple[float, float | None] | None = None
    scale: float = 1.0  # ours times this is in the paper's unit
    variant: str = "paper"  # in what the measurement departs from the paper's protocol


class Table(NamedTuple):
    """A table or figure.

    `studies` takes the number of splits or None, the paper's; `extra` takes the cells and returns further tables by
    name, which are written beside the first. `cells_of` names another table with the same studies.
    """

    title: str
    protocol: str
    studies: Callable[[int | None], Iterable[Study]]
    entries: Callable[[pd.DataFrame], Iterable[Entry]] | tuple[Entry, ...] = ()
    extra: Callable[[pd.DataFrame], dict[str, pd.DataFrame]] | None = None
    cells_of: str = ""


# ------------------------------------------------------------------------------------------------------- the loop


def seed_of(split: int) -> int:
    """Return the seed of a split: of open random states and of the inner folds."""
    return int(np.random.SeedSequence([0, split]).generate_state(1)[0] % 2**31)


def run(
    name: str, table: Table, n_splits: int | None = None, sets: Iterable[str] = (), n_jobs: int = 1
) -> pd.DataFrame:
    """Compute the cells that are not there and return all; each is a line of ``cells/NAME.jsonl``."""
    CELLS.mkdir(exist_ok=True)
    file = CELLS / f"{name}.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(row["dataset"], row["model"], row["split"]) for row in rows}
    jobs = list(_jobs(table, n_splits, set(sets), done))
    with file.open("a") as lines:
        for k, row in enumerate(joblib.Parallel(n_jobs, return_as="generator_unordered")(jobs), start=1):
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            print(f"{k} of {len(jobs)}: {row['dataset']}, {row['model']}, {row['error'] or 'done'}")
            rows.append(row)
    return pd.DataFrame(rows)


def _jobs(table: Table, n_splits: int | None, sets: set[str], done: set[Any]) -> Iterator[Any]:
    for study in table.studies(n_splits):
        for dataset, load in study.sets.items():
            if sets and dataset not in sets:
                continue
            try:
                data = load()
            except (OSError, ValueError) as error:
                print(f"left out {dataset}: {error}")
                continue
            splits = data.splits if study.cv is None else list(study.cv.split(data.y, data.y))
            for k, (train, test) in enumerate(splits or []):
                for model, spec in study.models.items():
                    if (dataset, model, k) not in done:
                        key = {"dataset": dataset, "model": model, "split": k}
                        yield joblib.delayed(_cell)(key, spec, data.X, data.y, train, test, study)


def _cell(
    key: dict[str, Any],
    spec: Model,
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    study: Study,
) -> dict[str, Any]:
    """Fit and score one model on one split; what goes wrong is told in the row."""
    row = key | {"n_train": len(train), "n_test": len(test), "error": ""}
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        try:
            return row | measure(spec, X, y, train, test, study, seed_of(key["split"]))
        except Exception as error:
            return row | {"error": f"{type(error).__name__}: {error}"}


def measure(
    spec: Model, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, study: Study, seed: int
) -> dict[str, Any]:
    """Return seconds, sizes and scores of one fit."""
    model = clone(spec.estimator)
    states = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
    model.set_params(**{name: seed for name in states if model.get_params()[name] is None})
    if spec.grid is not None:
        cv = study.inner_cv
        folds = (
            StratifiedKFold(cv, shuffle=True, random_state=seed)
            if isinstance(cv, int) and not isinstance(cv, bool)
            else cv
        )
        model = GridSearchCV(model, spec.grid, cv=folds, scoring=study.inner_scoring)
    rows = np.concatenate([train, test]) if spec.transductive else train
    X_fit, y_fit = _safe_split(model, X, y, rows)
    X_test, y_test = _safe_split(model, X, y, test, rows)
    if spec.transductive:
        params = spec.estimator.get_params()
        mark = next(v for n, v in params.items() if n.endswith("unlabeled_label") and v is not None)
        y_fit = np.where(np.arange(len(rows)) < len(train), y_fit, mark)
    start = time.perf_counter()
    model.fit(X_fit, y_fit)
    seconds = time.perf_counter() - start
    last = final(model)
    support = getattr(last, "support_fraction_", None)
    if support is None and hasattr(last, "support_"):
        support = len(last.support_) / len(train)
    found = {
        "fit_seconds": round(seconds, 4),
        "support_fraction": support,
        "n_active_kernels": getattr(last, "n_active_kernels_", None),
        "best_params": str(getattr(model, "best_params_", "")),
    }
    return found | {name: float(score(model, X_test, y_test)) for name, score in study.scores.items()}


def final(model: Any) -> Any:
    """Return the fitted estimator behind a search and a pipeline."""
    model = getattr(model, "best_estimator_", model)
    return model[-1] if hasattr(model, "steps") else model


# ------------------------------------------------------------------------------------------ published beside ours


def beside(table: Table, cells: pd.DataFrame) -> pd.DataFrame:
    """Return published and measured means, a row per entry that has cells."""
    entries = table.entries(cells) if callable(table.entries) else table.entries
    groups = dict(list(cells.groupby(["dataset", "model"])))
    rows = []
    for entry in entries:
        found = groups.get((entry.dataset, entry.model))
        if found is None or found[entry.metric].isna().all():
            continue
        ours, (published, published_sd) = entry.scale * found[entry.metric], entry.published or (None, None)
        rows.append(
            {
                "dataset": entry.dataset,
                "model": entry.model,
                "variant": entry.variant,
                "metric": entry.metric + (" (%)" if entry.scale == 100.0 else ""),
                "published": published,
                "published_sd": published_sd,
                "ours": ours.mean(),
                "ours_sd": ours.std(),
                "splits": len(ours),
            }
        )
    return pd.DataFrame(rows)


def agreement(frame: pd.DataFrame) -> pd.DataFrame:
    """Count, for every variant and metric, the cells whose mean is within one published standard deviation."""
    known = frame[frame["published_sd"].notna()]
    off = (known["ours"] - known["published"]) / known["published_sd"].where(known["published_sd"] > 0)
    known = known.assign(within=off.abs() <= 1.0, below=off < -1.0, above=off > 1.0, cells=1)
    columns = ["cells", "within", "below", "above"]
    return known.groupby(["metric", "variant"], sort=False)[columns].sum().reset_index()


def tables_of(name: str, table: Table, cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what a table prints, by the name of its file."""
    cells = cells[cells["error"].fillna("") == ""]
    printed = {name: beside(table, cells)} if table.entries else {}
    if table.extra is not None:
        printed |= {(f"{name}-{key}" if key else name): f for key, f in table.extra(cells).items()}
    return printed
