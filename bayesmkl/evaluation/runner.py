"""Execution of a study: open cells, groups of jobs, workers, and results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.content import NoContentError, hash_or_none
from bayesmkl._utils.folders import scratch_folder
from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.warnings import holding_back, recording_warnings, warn_user
from bayesmkl.evaluation.cells import Cell, CellStore, MemoryStore, NotKeptError
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.design_groups import groups_of_designs, stay_together
from bayesmkl.evaluation.identity import Identity, Splits, environment, identify
from bayesmkl.evaluation.jobs import Job, cell_of, note_of
from bayesmkl.evaluation.journal import COLUMNS, KEY, RESULTS, Journal, held_run, table_of
from bayesmkl.evaluation.scoring import Metric, resolve_scoring, stored_score, task_of
from bayesmkl.evaluation.splits import splits_of
from bayesmkl.evaluation.stored import StoredPredictions
from bayesmkl.evaluation.study import Data, DataRef, ModelSpec, Study, content_of, in_memory, spool
from bayesmkl.evaluation.workers import finished_rows, works_alone
from bayesmkl.kernels import KernelBank

__all__ = ["OnCell", "run_study"]

MOST_KEPT = 64.0  # MiB of predictions in a cell
TAKEN = {*COLUMNS, "key", "environment", "kept", "left_out", "metric", "value"}  # names in rows and tables
OnCell = Callable[[dict[str, Any], int, int], None]  # a finished row, how many are done, how many there are


class Plan(NamedTuple):
    """A study with its data loaded."""

    study: Study
    metrics: dict[str, Metric]
    task: str
    order: list[tuple[str, str, int]]  # (dataset, model, split) of all cells
    datasets: dict[str, dict[str, Any]]  # what is known of each
    references: dict[str, DataRef]  # whose content is known
    splits: Splits
    # of designs, by data set, where splits keep their groups together
    group_columns: dict[str, tuple[int, ...]]
    identity: Identity


def run_study(
    study: Study | Sequence[Study],
    folder: Path | None = None,
    n_jobs: int | None = None,
    progress: OnCell | None = None,
    about: dict[str, Any] | None = None,
    there: Callable[[list[dict[str, Any]]], None] | None = None,
    part: tuple[int, int] = (1, 1),
) -> Comparison:
    """Compute all cells of a study that are not in `folder` yet.

    Parameters
    ----------
    study : Study or sequence of Study
        Several studies make one comparison; a pair of data set and model belongs to one of them.
    folder : Path, default=None
        Folder of cells, made if it does not exist. Those that are there are not computed again, whatever study has
        computed them.
    n_jobs : int, default=None
        As everywhere in joblib, whose ``parallel_config`` decides who does the work.
    progress : callable, default=None
        Called with each finished row, the number of finished cells and that of all cells.
    about : dict, default=None
        More to keep in ``about.json``.
    there : callable, default=None
        Called with the rows of the cells that are there, before others are computed.
    part : (int, int), default=(1, 1)
        Compute part `k` of `n` only: pairs of data set and split in turn, the first split of all data sets before the
        second one. The other cells are missing; :func:`merge_comparisons` puts the folders of all parts together.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        For what cannot be compared, and for a folder of an earlier layout, or that another run is writing.
    ChildProcessError
        If the processes that should do the work die before they begin, or a cluster has none. A cell that its process
        does not survive is no error: it becomes a row that says so.
    """
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    studies = [study] if isinstance(study, Study) else study
    plans = [_plan(one, keep=folder is not None) for one in studies]
    order = [cell for plan in plans for cell in plan.order]
    twice = [(dataset, model) for (dataset, model, _), n in Counter(order).items() if n > 1]
    if twice:
        dataset, model = twice[0]
        raise ValueError(f"`study`: {model!r} on {dataset!r} is in two of the studies; one must give it up.")
    known = _about(plans, started) | (about or {})
    with nullcontext() if folder is None else held_run(folder):
        earlier = None if folder is None else _open(folder, known)
        store = MemoryStore() if folder is None else CellStore(folder)
        rows = _found(plans, store)
        if there is not None:
            there(rows)
        n_found, done = len(rows), {tuple(row[k] for k in KEY) for row in rows}
        wanted = set(_units(plans, part))
        n_cells = len(
            done.union(c for k, p in enumerate(plans) for c in p.order if (k, c[0], c[2]) in wanted)
        )
        scorers = {key[:2]: plan.identity.scorers for plan in plans for key in plan.order}
        with closing(_compute(plans, done, folder, n_jobs, part)) as computed:
            for row in chain.from_iterable(computed):
                own, kept = scorers[row["dataset"], row["model"]], store.read(row["key"])
                if kept is None or kept.failed or not kept.has(own):
                    store.write(cell_of(row, own))
                row |= {"kept": None}  # the store has them
                rows.append(row)
                done.add(tuple(row[k] for k in KEY))
                if progress is not None:
                    progress(row, len(done), n_cells)
        known["seconds"] += time.perf_counter() - start
        known["environment"] = _environments(known["environment"], rows)
        cells = table_of(rows, list(known["metrics"]), order)
        if folder is not None and not (n_found == len(order) and _is_whole(folder, earlier, known)):
            Journal(folder).finish(cells, known)
    if folder is not None and store.damaged:
        _warn_damaged(folder, store)
    if isinstance(store, CellStore) and not all(one.keep_predictions for one in studies):
        _warn_kept(store)
    return Comparison(cells, known, store)


def _found(plans: list[Plan], store: MemoryStore | CellStore) -> list[dict[str, Any]]:
    """Return the rows of the cells that are there; scores that they lack are computed of their predictions."""
    rows = []
    for plan in plans:
        scorers = plan.identity.scorers
        for key, digest in plan.identity.keys.items():
            cell = store.read(digest)
            if cell is not None and (not store.is_intact(cell) or (cell.failed and plan.study.retry_failed)):
                cell = None
            if cell is not None and not cell.has(scorers):
                cell = _rescored(cell, plan, store)
            if cell is not None:
                rows.append(cell.named(*key, scorers))
    return rows


def _rescored(cell: Cell, plan: Plan, store: MemoryStore | CellStore) -> Cell | None:
    """Return a cell with all scores; None where one of them needs the model again."""
    lacking = {name: m for name, m in plan.metrics.items() if plan.identity.scorers[name] not in cell.scores}
    if any(metric.needs == "model" for metric in lacking.values()):  # a function may look at all of it
        return None
    with recording_warnings() as caught:
        try:
            stored = StoredPredictions(store.kept(cell))
            found = {plan.identity.scorers[name]: stored_score(m, stored) for name, m in lacking.items()}
        except NotKeptError:
            return None
    notes = [cell.row["note"], note_of(caught)]
    row = cell.row | {"note": " | ".join(filter(None, notes))}
    return store.write(cell._replace(row=row, scores=cell.scores | found))


def _warn_damaged(folder: Path, store: MemoryStore | CellStore) -> None:
    key, why = next(iter(store.damaged.items()))
    warn_user(
        f"{len(store.damaged)} cells in {str(folder)!r} were cut short or edited, the first being {key} ({why}). "
        "They were computed again where this comparison has them.",
        UserWarning,
    )


def _warn_kept(store: CellStore) -> None:
    """Warn of predictions of earlier calls, which whoever wants none may not know of."""
    n_files = sum(1 for _ in store.folder.glob("*.npz"))
    if n_files:
        warn_user(
            f"`keep_predictions` is False, and {n_files} cells in {str(store.folder)!r} keep predictions of earlier "
            "calls. Before the folder is shared, remove its files '*.npz': scores stay.",
            UserWarning,
        )


def _environments(now: dict[str, str], rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the environment of a run, with all systems that its cells come from."""
    merged = {}
    for name, value in now.items():
        found = [row["environment"].get(name, value) for row in rows]
        merged[name] = "; ".join(dict.fromkeys(found)) or value
    return merged


def _is_whole(folder: Path, earlier: dict[str, Any] | None, known: dict[str, Any]) -> bool:
    """Return whether a folder holds this study already, finished."""
    changing = ("seconds", "started")
    same = earlier is not None and all(earlier.get(n) == v for n, v in known.items() if n not in changing)
    return same and (folder / RESULTS).exists()


def _plan(study: Study, keep: bool) -> Plan:
    """Look at the data once: their content, all splits, and which metrics there can be."""
    _check_names(study)
    estimators = {name: spec.estimator for name, spec in study.models.items()}
    task = "classification"
    metrics: dict[str, Metric] = {}
    facts: dict[str, dict[str, Any]] = {}
    references, splits, columns = {}, {}, {}
    contents: dict[str, dict[str, str] | None] = {}
    for name, ref in study.datasets.items():
        data = ref()
        metrics |= resolve_scoring(study.scoring, estimators, data.y, study.unavailable)
        task = task_of(estimators, data.y)
        if task == "survival":
            _check_times(study)
        splits[name], columns[name], grouped = _split(study, data, task == "classification")
        contents[name] = content = None
        with _excusing(not keep):
            contents[name] = content = content_of(data, name)
        references[name] = ref if content is None else ref.known(data, content)
        facts[name] = _facts_of(data) | grouped | references[name].describe()
    _check_metrics(metrics)
    _check_keys(study, metrics)
    with _excusing(False):
        identity = identify(study, contents, splits, metrics, columns, task, strict=keep)
    order = [
        (name, model, split)
        for name in splits
        for split in range(len(splits[name]))
        for model in study.models
    ]
    return Plan(study, metrics, task, order, facts, references, splits, columns, identity)


@contextmanager
def _excusing(needless: bool) -> Iterator[None]:
    """Let what has no content be, where no folder keeps it; say what to do about it otherwise."""
    try:
        yield
    except NoContentError as error:
        if not needless:
            raise ValueError(
                f"`folder`: {error}, so that nobody could say whether its cells are those of another time. Make it "
                "of plain values, arrays and functions, give the model or metric a text of yours that changes with "
                "it, as in `keys={'name': 'version 1'}`, or leave `folder` out."
            ) from error


def _check_keys(study: Study, metrics: Mapping[str, Metric]) -> None:
    unknown = [name for name in study.keys if name not in study.models and name not in metrics]
    if unknown:
        raise ValueError(
            f"`keys` must name models or metrics; got {unknown[0]!r}. There are {', '.join(map(repr, study.models))}."
        )


def _check_metrics(metrics: Iterable[str]) -> None:
    taken = [name for name in metrics if name in TAKEN]
    if taken:
        raise ValueError(
            f"`scoring`: a metric cannot be called {taken[0]!r}, as tables of cells have a column of that name. Give "
            f"it another one, such as `scoring={{'my {taken[0]}': ...}}`."
        )


def _check_names(study: Study) -> None:
    for kind, names in (("models", study.models), ("datasets", study.datasets)):
        if not names:
            raise ValueError(f"`{kind}` must name at least one; got none.")
        wrong = [name for name in names if not isinstance(name, str) or not name.strip()]
        if wrong:
            raise ValueError(f"`{kind}` must have names of text; got {wrong[0]!r}.")


def _split(
    study: Study, data: Data, classifier: bool
) -> tuple[list[tuple[np.ndarray, np.ndarray]], tuple[int, ...], dict[str, str]]:
    """Return the splits, the group columns of designs that they keep together, and what is to be said of groups.

    A number of folds keeps the groups of designs together, if no others are given. Splitters are handed them, and use
    them or not.
    """
    found, whose = None, "groups"
    if data.groups is None:
        try:
            found = groups_of_designs(study.models, data.X)
        except ValueError:
            if isinstance(study.cv, (int, np.integer)):
                raise
        if found is not None:
            data, whose = data._replace(groups=found.labels), " and ".join(map(repr, found.names))
    ignoring = () if found is None else (UserWarning,)  # splitters that take no groups say so
    with holding_back(*ignoring):
        splits = splits_of(study.cv, data, study.random_state, classifier)
    if data.groups is None:
        return splits, (), {}
    together = stay_together(data.groups, splits)
    said = "together in every split" if together else "on both sides of splits"
    columns = found.columns if found is not None and together else ()
    return splits, columns, {"groups": f"{len(np.unique(data.groups))} by {whose}, {said}"}


def _check_times(study: Study) -> None:
    """Raise for metrics of grids that do not know of censored times."""
    if isinstance(study.inner_scoring, str) and any(spec.param_grid for spec in study.models.values()):
        raise ValueError(
            f"`inner_scoring` must be None or a function scorer(estimator, X, y) for models of survival; got "
            f"{study.inner_scoring!r}. None is the estimator's own score, its concordance."
        )


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


def _about(plans: list[Plan], started: str) -> dict[str, Any]:
    studies = [plan.study.describe() for plan in plans]
    packages = {
        name: v for plan in plans for own in plan.identity.packages.values() for name, v in own.items()
    }
    return {
        "study": studies,
        "view": _view(plans),
        "metrics": {name: m.greater_is_better for plan in plans for name, m in plan.metrics.items()},
        "random_state": int(plans[0].study.random_state),
        "cv": "; ".join(dict.fromkeys(study["cv"] for study in studies)),
        "models": {name: text for study in studies for name, text in study["models"].items()},
        "datasets": {name: facts for plan in plans for name, facts in plan.datasets.items()},
        "environment": environment(packages),
        "started": started,
        "seconds": 0.0,
    }


def _view(plans: list[Plan]) -> list[dict[str, Any]]:
    """Return which cells the studies show, under which names: a part for each data set of a study."""
    return [
        {
            "dataset": dataset,
            "content": plan.identity.contents[dataset],
            "splits": splits,
            "scorers": plan.identity.scorers,
            "cells": {
                model: [plan.identity.keys[dataset, model, split] for split in range(len(splits))]
                for model in plan.study.models
            },
        }
        for plan in plans
        for dataset, splits in plan.identity.splits.items()
    ]


def _open(folder: Path, about: dict[str, Any]) -> dict[str, Any] | None:
    """Begin in an empty folder, or go on in one of cells by content; return what it was known by."""
    journal = Journal(folder)
    if not any(folder.iterdir()):
        journal.begin(about)
        return None
    earlier = journal.check_grows()
    about["seconds"] = float(earlier["seconds"])
    if earlier["view"] == about["view"]:
        about["started"] = earlier["started"]
    else:
        journal.begin(about)
    return earlier


def _compute(
    plans: list[Plan],
    done: set[tuple[str, str, int]],
    folder: Path | None,
    n_jobs: int | None,
    part: tuple[int, int],
) -> Generator[list[dict[str, Any]], None, None]:
    """Yield the rows of the cells that are left, as they come."""
    with scratch_folder() as scratch:
        alone, jobs = works_alone(n_jobs), []
        refs = [
            plan.references if alone else _spooled(plan.references, scratch / str(k))
            for k, plan in enumerate(plans)
        ]
        groups = [_groups(plan.study.models) for plan in plans]
        for k, dataset, split in _units(plans, part):
            study = plans[k].study
            for group in groups[k]:
                left = {m: study.models[m] for m in group if (dataset, m, split) not in done}
                if left:
                    jobs.append(_job(plans[k], dataset, refs[k][dataset], split, left, folder))
        for job in jobs:
            job.marks = job.folder or (None if alone else str(scratch))
        yield from finished_rows(jobs, n_jobs)


def _units(plans: list[Plan], part: tuple[int, int]) -> list[tuple[int, str, int]]:
    """Return positions of plans, data sets and splits of a part; every part has its share of the first splits."""
    pairs = [dict.fromkeys((dataset, split) for dataset, _, split in plan.order) for plan in plans]
    units = [(k, dataset, split) for k, of_plan in enumerate(pairs) for dataset, split in of_plan]
    position, n_parts = part
    chosen = set(sorted(units, key=lambda unit: unit[2])[position - 1 :: n_parts])
    return [unit for unit in units if unit in chosen]


def _spooled(datasets: Mapping[str, DataRef], scratch: Path) -> dict[str, DataRef]:
    """Replace data in memory by references to files."""
    return {
        name: spool(ref(), scratch / str(k), ref.content) if ref.load is in_memory else ref
        for k, (name, ref) in enumerate(datasets.items())
    }


def _groups(models: Mapping[str, ModelSpec]) -> list[list[str]]:
    """Put models with the same kernel banks together."""
    groups: dict[Any, list[str]] = {}
    for name, spec in models.items():
        banks = [v for v in spec.estimator.get_params().values() if isinstance(v, KernelBank)]
        key = (hash_or_none([bank.get_params() for bank in banks]) if banks else None) or name
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _job(
    plan: Plan, dataset: str, ref: DataRef, split: int, models: dict[str, ModelSpec], folder: Path | None
) -> Job:
    study = plan.study
    return Job(
        dataset=dataset,
        data=ref,
        split=split,
        models=models,
        metrics=plan.metrics,
        rows=plan.splits[dataset][split],
        inner_cv=study.inner_cv,
        inner_scoring=study.inner_scoring,
        random_state=study.random_state,
        task=plan.task,
        keys={model: plan.identity.keys[dataset, model, split] for model in models},
        scorers=plan.identity.scorers,
        packages={model: plan.identity.packages[model] for model in models},
        most_kept=_most_kept(study.keep_predictions),
        folder=None if folder is None else str(folder.absolute()),
        group_columns=plan.group_columns[dataset],
        code=plan.identity.code,
    )


def _most_kept(keep: bool | float) -> float:
    """Return how many bytes the predictions of a cell may take."""
    return (MOST_KEPT if keep is True else float(keep)) * 2**20
