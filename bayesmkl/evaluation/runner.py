"""Execution of a study: open cells, groups of jobs, workers, and results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.content import NoContentError, hash_or_none
from bayesmkl._utils.folders import scratch_folder
from bayesmkl._utils.survival_target import are_times, event_and_time
from bayesmkl._utils.warnings import holding_back
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.design_groups import groups_of_designs, stay_together
from bayesmkl.evaluation.identity import Identity, Splits, check_same, environment, identify, with_packages
from bayesmkl.evaluation.jobs import Job
from bayesmkl.evaluation.journal import KEY, Journal, held_run, table_of
from bayesmkl.evaluation.scoring import Metric, resolve_scoring, task_of
from bayesmkl.evaluation.splits import splits_of
from bayesmkl.evaluation.study import Data, DataRef, ModelSpec, Study, content_of, in_memory, spool
from bayesmkl.evaluation.workers import finished_rows, works_alone
from bayesmkl.kernels import KernelBank

__all__ = ["OnCell", "run_study"]

OnCell = Callable[[dict[str, Any], int, int], None]  # a finished row, how many are done, how many there are


class Plan(NamedTuple):
    """A study with its data loaded."""

    study: Study
    metrics: dict[str, Metric]
    classifier: bool
    order: list[tuple[str, str, int]]  # (dataset, model, split) of all cells
    datasets: dict[str, dict[str, Any]]  # what is known of each
    references: dict[str, DataRef]  # whose content is known
    splits: Splits
    group_columns: dict[
        str, tuple[int, ...]
    ]  # of designs, by data set, where splits keep their groups together
    identity: Identity | None  # None where something has no content


def run_study(
    study: Study | Sequence[Study],
    folder: Path | None = None,
    n_jobs: int | None = None,
    progress: OnCell | None = None,
    about: dict[str, Any] | None = None,
) -> Comparison:
    """Compute all cells of a study that are not in `folder` yet.

    Parameters
    ----------
    study : Study or sequence of Study
        Several studies make one comparison; a pair of data set and model belongs to one of them.
    folder : Path, default=None
        Folder of the run, made if it does not exist. A run that was interrupted there continues; one of another
        study is refused.
    n_jobs : int, default=None
        As everywhere in joblib, whose ``parallel_config`` decides who does the work.
    progress : callable, default=None
        Called with each finished row, the number of finished cells and that of all cells.
    about : dict, default=None
        More to keep in ``about.json``.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        For what cannot be compared, and for a folder that another study has written, or that another run is writing.
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
        journal = None if folder is None else _open(folder, known)
        rows = [] if journal is None else journal.read()
        done = {tuple(row[k] for k in KEY) for row in rows} & set(order)
        with closing(_compute(plans, done, folder, n_jobs)) as computed:
            for row in chain.from_iterable(computed):
                if journal is not None:
                    journal.record(row)
                rows.append(row)
                done.add(tuple(row[k] for k in KEY))
                if progress is not None:
                    progress(row, len(done), len(order))
        known["seconds"] += time.perf_counter() - start
        cells = table_of(rows, list(known["metrics"]), order)
        if journal is not None:
            journal.finish(cells, known)
    return Comparison(cells, known)


def _plan(study: Study, keep: bool) -> Plan:
    """Look at the data once: their content, all splits, and which metrics there can be."""
    _check_names(study)
    estimators = {name: spec.estimator for name, spec in study.models.items()}
    classifier = False
    metrics: dict[str, Metric] = {}
    facts: dict[str, dict[str, Any]] = {}
    references, splits, columns, contents = {}, {}, {}, {}
    for name, ref in study.datasets.items():
        data = ref()
        metrics |= resolve_scoring(study.scoring, estimators, data.y, study.unavailable)
        task = task_of(estimators, data.y)
        classifier = task == "classification"
        if task == "survival":
            _check_times(study)
        splits[name], columns[name], grouped = _split(study, data, classifier)
        with _excusing(not keep):
            contents[name] = content_of(data, name)
        references[name] = ref.known(data, contents[name]) if name in contents else ref
        facts[name] = _facts_of(data) | grouped | references[name].describe()
    identity = None
    if len(contents) == len(references):
        with _excusing(not keep):
            identity = identify(study, contents, splits, metrics)
    order = [
        (name, model, split)
        for name in splits
        for split in range(len(splits[name]))
        for model in study.models
    ]
    return Plan(study, metrics, classifier, order, facts, references, splits, columns, identity)


@contextmanager
def _excusing(needless: bool) -> Iterator[None]:
    """Let what has no content be, where no folder keeps it; say what to do about it otherwise."""
    try:
        yield
    except NoContentError as error:
        if not needless:
            raise ValueError(
                f"`folder`: {error}, so that nobody could say whether a run may be continued. Make it of "
                "plain values, arrays and functions, or leave `folder` out."
            ) from error


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
        "n_labels": None if times else len(np.unique(data.y)),
        "n_events": int(event_and_time(data.y).event.sum()) if times else None,
    }


def _about(plans: list[Plan], started: str) -> dict[str, Any]:
    studies = [plan.study.describe() for plan in plans]
    identities = [plan.identity for plan in plans if plan.identity is not None]
    packages = {name: found for identity in identities for name, found in identity.packages.items()}
    return {
        "study": studies,
        "identity": [one.content for one in identities] if len(identities) == len(plans) else None,
        "metrics": {name: m.greater_is_better for plan in plans for name, m in plan.metrics.items()},
        "random_state": int(plans[0].study.random_state),
        "cv": "; ".join(dict.fromkeys(study["cv"] for study in studies)),
        "models": {name: text for study in studies for name, text in study["models"].items()},
        "datasets": {name: facts for plan in plans for name, facts in plan.datasets.items()},
        "environment": with_packages(environment(), packages),
        "started": started,
        "seconds": 0.0,
    }


def _open(folder: Path, about: dict[str, Any]) -> Journal:
    """Begin a run in an empty folder, or take up one of the same study."""
    journal = Journal(folder)
    if not any(folder.iterdir()):
        journal.write_about(about)
        return journal
    earlier = journal.read_about()
    check_same(earlier, about, folder)
    about |= {name: earlier[name] for name in ("started", "seconds", "environment")}
    return journal


def _compute(
    plans: list[Plan], done: set[tuple[str, str, int]], folder: Path | None, n_jobs: int | None
) -> Generator[list[dict[str, Any]], None, None]:
    """Yield the rows of the cells that are left, as they come."""
    with scratch_folder() as scratch:
        alone, jobs = works_alone(n_jobs), []
        for k, plan in enumerate(plans):
            refs = plan.references if alone else _spooled(plan.references, scratch / str(k))
            jobs += _jobs(plan, refs, done, folder)
        for job in jobs:
            job.marks = job.folder or (None if alone else str(scratch))
        yield from finished_rows(jobs, n_jobs)


def _jobs(
    plan: Plan, refs: Mapping[str, DataRef], done: set[tuple[str, str, int]], folder: Path | None
) -> list[Job]:
    """Group the cells that are left, one job for the models of a split that share kernels."""
    study, jobs = plan.study, []
    groups = _groups(study.models)
    for dataset, split in dict.fromkeys((d, s) for d, _, s in plan.order):
        for group in groups:
            left = {m: study.models[m] for m in group if (dataset, m, split) not in done}
            if left:
                jobs.append(_job(plan, dataset, refs[dataset], split, left, folder))
    return jobs


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
        classifier=plan.classifier,
        folder=None if folder is None else str(folder.absolute()),
        group_columns=plan.group_columns[dataset],
    )
