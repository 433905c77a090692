"""Workers of a comparison: this process, processes beside it, or a cluster, and recovery when they die.

A process that dies (killed for its memory, or by a crash in compiled code) takes all of its work with it, and joblib
only says that one of several is gone. Cells that had been begun are therefore repeated one at a time, alone in a
process of their own: one that dies there is at fault, and gets a row that says so. All others get their results.
Other cells of a model that is at fault have a process of their own from the start.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

import joblib
from joblib.externals.loky import ProcessPoolExecutor, get_reusable_executor
from joblib.parallel import MultiprocessingBackend, get_active_backend

from bayesmkl.evaluation.cells import CellStore
from bayesmkl.evaluation.jobs import Job, cells_of, forget_code, is_dead, row_of_dead, run_job

if TYPE_CHECKING:
    from distributed import Future
    from joblib._dask import DaskDistributedBackend

    from bayesmkl.evaluation.identity import Code

__all__ = ["finished_rows", "works_alone"]

Rows = list[dict[str, Any]]
PATIENCE = 300.0  # seconds that a cluster may be without any worker
PAUSE = 0.02  # seconds between looks at what a cluster has finished
CONTINUE = "Finished cells are kept where a folder was given; the same call continues there."
LIKELY = "Too little memory, or a crash in compiled code."


def works_alone(n_jobs: int | None) -> bool:
    """Return whether this process computes everything itself."""
    return joblib.effective_n_jobs(n_jobs) == 1


def finished_rows(jobs: list[Job], n_jobs: int | None) -> Iterator[Rows]:
    """Yield the rows of all jobs as they come, each cell once.

    Jobs that processes beside this one compute must have `marks` that this process sees.

    Raises
    ------
    ChildProcessError
        If workers die before they begin anything, or a cluster has none for five minutes.
    """
    backend, _ = get_active_backend()
    forget_code()
    if works_alone(n_jobs):
        return _here(jobs)
    if type(backend).__name__ == "DaskDistributedBackend":
        return _on_cluster(jobs, backend)
    return _beside(jobs, n_jobs, "loky" if isinstance(backend, MultiprocessingBackend) else None)


def _here(jobs: list[Job]) -> Iterator[Rows]:
    """Compute in this process, but in one beside it what was begun by an earlier run that ended there."""
    for job in jobs:
        suspects = _begun(job)
        for model in suspects:
            try:
                yield from _alone(job.only([model]))
            except PicklingError:  # it cannot be sent to another process
                yield list(cells_of(job.only([model])))
        others = [model for model in job.models if model not in suspects]
        yield from ([row] for row in cells_of(job.only(others))) if others else ()


def _beside(jobs: list[Job], n_jobs: int | None, backend: str | None) -> Iterator[Rows]:
    """Compute in processes of joblib; start new ones if some die."""
    left, n_failures = jobs, 0
    fatal: set[str] = set()  # models that their process did not survive
    while left:
        done: set[tuple[str, str, int]] = set()
        try:
            for rows in _in_parallel(left, n_jobs, backend):
                yield rows
                done.update((row["dataset"], row["model"], row["split"]) for row in rows)
            return
        except BrokenExecutor as error:
            left = _without(left, done)
            suspects = [job.only([model]) for job in left for model in _begun(job)]
            n_failures = 0 if suspects else n_failures + 1
            if n_failures > 1:
                raise ChildProcessError(
                    f"`n_jobs`: worker processes end before they begin a cell ({_short(error)}). {CONTINUE}"
                ) from error
        for job in suspects:
            for rows in _alone(job):
                yield rows
                fatal.update(row["model"] for row in rows if is_dead(row))
        left = _without(left, {key for job in suspects for key in job.cells()})
        doubtful = [job.only([model]) for job in left for model in job.models if model in fatal]
        for job in doubtful:
            yield from _alone(job)
        left = _without(left, {key for job in doubtful for key in job.cells()})


def _in_parallel(jobs: list[Job], n_jobs: int | None, backend: str | None) -> Iterator[Rows]:
    _renew({job.code for job in jobs})
    parallel = joblib.Parallel(n_jobs=n_jobs, backend=backend, return_as="generator_unordered", batch_size=1)
    try:
        yield from parallel(joblib.delayed(run_job)(job) for job in jobs)
    except PicklingError as error:
        raise ValueError(
            f"`n_jobs` must be 1 for these models, which cannot be sent to other processes: {_short(error)}."
        ) from error


_LAST: set[Code] = set()  # of the last work in processes of joblib


def _renew(codes: set[Code]) -> None:
    """End processes that wait for work if modules of the user are others now: they have imported the earlier ones."""
    if codes != _LAST and any(code.names for code in codes):
        get_reusable_executor().shutdown(wait=True)
    _LAST.clear()
    _LAST.update(codes)


def _alone(job: Job) -> Iterator[Rows]:
    """Compute one cell in a process of its own; if that dies, the cell has failed."""
    executor = ProcessPoolExecutor(max_workers=1)  # unlike Python's own, for scripts without a guard
    try:
        yield executor.submit(run_job, job).result()
    except BrokenExecutor as error:
        signals = re.search(r"\{(.*?)\}", str(error))
        ended = "" if signals is None else f" ({signals[1]})"
        reason = f"the process that fitted it died, with nothing beside it{ended}. {LIKELY}"
        yield [row_of_dead(job, model, reason) for model in job.models]
    finally:
        executor.shutdown(kill_workers=True)


def _on_cluster(jobs: list[Job], backend: DaskDistributedBackend) -> Iterator[Rows]:
    """Compute on a Dask cluster, which repeats what dead workers had until it gives up.

    Models that had company, in their job or in the process of the worker, are repeated one by one with none.
    """
    suspects: list[Job] = []
    for job, rows in _submitted(jobs, backend, at_once=None):
        if isinstance(rows, list):
            yield rows
        elif rows.last_worker.nthreads == 1 and len(job.models) == 1:
            yield _given_up(job)
        else:
            suspects += [job.only([model]) for model in job.models]
    for job, rows in _submitted(suspects, backend, at_once=1):
        yield rows if isinstance(rows, list) else _given_up(job)


def _given_up(job: Job) -> Rows:
    reason = f"the cluster gave it up after the death of several workers that fitted it. {LIKELY}"
    return [row_of_dead(job, model, reason) for model in job.models]


def _submitted(
    jobs: list[Job], backend: DaskDistributedBackend, at_once: int | None
) -> Iterator[tuple[Job, Any]]:
    """Yield jobs of a cluster with their rows, or its error where workers died; as many at once as it has threads.

    joblib's own way to use Dask waits forever for what Dask has given up.
    """
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    client, waiting = backend.client, deque(jobs)
    running: dict[Any, Job] = {}
    arriving = as_completed(loop=client.loop, raise_errors=False)
    seen = time.monotonic()
    try:
        while waiting or running:
            n_threads = sum(client.ncores().values())
            seen = time.monotonic() if n_threads else seen
            if time.monotonic() - seen > PATIENCE:
                raise ChildProcessError(f"the Dask cluster has no workers for {PATIENCE:g} s. {CONTINUE}")
            while waiting and len(running) < (at_once or n_threads):
                job = waiting.popleft()
                future = client.submit(run_job, job, pure=False, **backend.submit_kwargs)
                running[future] = job
                arriving.add(future)
            for future in _arrived(arriving):
                job = running.pop(future)
                if future.status == "finished":
                    yield job, future.result()
                elif future.status == "error" and isinstance(future.exception(), KilledWorker):
                    yield job, future.exception()
                else:
                    _raise_of(future)
    finally:
        client.cancel(list(running))


def _arrived(arriving: Any) -> list[Any]:
    """Return the jobs that a cluster has finished, after a short wait if there are none."""
    found = arriving.next_batch(block=False)
    if not found:
        time.sleep(PAUSE)
    return list(found)


def _raise_of(future: Future) -> None:
    """Raise what a task raised that no model did."""
    if future.status == "error":
        raise future.exception()
    raise ChildProcessError(f"the Dask cluster was closed or restarted before the work was done. {CONTINUE}")


def _begun(job: Job) -> list[str]:
    """Return the models of a job that some process had begun and did not finish."""
    if job.marks is None:
        return []
    marks = CellStore(Path(job.marks))
    return [model for model in job.models if marks.was_begun(job.keys[model])]


def _without(jobs: list[Job], done: set[tuple[str, str, int]]) -> list[Job]:
    """Return the unfinished part of jobs."""
    left = [
        job.only([model for model in job.models if (job.dataset, model, job.split) not in done])
        for job in jobs
    ]
    return [job for job in left if job.models]


def _short(error: BaseException) -> str:
    """Return the first line of what went wrong."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:200]
