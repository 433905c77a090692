"""Comparisons on a real local Dask cluster: small jobs, a killed worker, and the result of a serial run."""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl.discriminative import SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import Comparison, compare_models, workers
from bayesmkl.evaluation.jobs import run_job
from bayesmkl.evaluation.study import DataRef, from_file
from bayesmkl.kernels import Gaussian, KernelBank

pytestmark = pytest.mark.heavy
distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
PLACES = (
    "seconds",
    "memory_mb",
    "kernel_stacks",
)  # columns that depend on where and when a cell was computed


def models():
    bank = KernelBank(Gaussian(width=1.0), views="each")
    return {
        "uniform": make_pipeline(StandardScaler(), UniformMKLClassifier(bank)),
        "simple": make_pipeline(StandardScaler(), SimpleMKLClassifier(bank)),
        "svm": (make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0, 10.0]}),
    }


@pytest.fixture
def table(tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    path = tmp_path / "table.csv"
    pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(y, "yes", "no")).to_csv(path, index=False)
    return path


class Cluster(NamedTuple):
    """A scheduler in this process and workers in their own."""

    scheduler: Any
    client: Any
    workers: dict[str, subprocess.Popen]  # by name


@pytest.fixture
def cluster():
    """Start two workers by the command that is used on real clusters; they run on when this returns."""
    alone = {"n_workers": 0, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"]
    with distributed.LocalCluster(**alone) as local, distributed.Client(local) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", local.scheduler_address, *options]
        workers = {
            name: subprocess.Popen([*command, "--name", name], stderr=subprocess.DEVNULL)
            for name in ("first", "second")
        }
        try:
            yield Cluster(local.scheduler, client, workers)
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait(timeout=10)


class Keys(distributed.SchedulerPlugin):
    """Remembers the names of all tasks, those that tasks ask for included."""

    def __init__(self):
        self.seen = set()

    def transition(self, key, start, finish, *args, **kwargs):
        self.seen.add(key)


def kill_one_at_work(cluster, folder, lost):
    """Wait for the first finished cells, then kill a worker in the middle of the next."""
    while not list(folder.glob("cells/*.json")):
        time.sleep(0.005)
    while not lost:
        for state in list(cluster.scheduler.workers.values()):
            worker = cluster.workers[state.name]
            worker.send_signal(signal.SIGSTOP)
            time.sleep(0.05)  # what it had finished arrives
            lost += [task.key for task in state.processing]
            if lost:
                worker.kill()
                return
            worker.send_signal(signal.SIGCONT)


def test_a_killed_worker_costs_nothing_but_time(cluster, table, tmp_path, monkeypatch):
    study = {
        "datasets": {"iris": "iris", "table": DataRef(from_file, path=str(table), target="kind")},
        "cv": 4,
        "scoring": ["accuracy", "auc"],
    }
    serial = compare_models(models(), **study)
    cluster.client.wait_for_workers(2, timeout=60)

    def scatter(*args, **kwargs):
        raise AssertionError("an argument was sent ahead of its task")

    monkeypatch.setattr(distributed.Client, "scatter", scatter)
    keys, lost, folder = Keys(), [], tmp_path / "run"
    cluster.scheduler.add_plugin(keys)
    killer = threading.Thread(target=kill_one_at_work, args=(cluster, folder, lost), daemon=True)
    killer.start()
    with joblib.parallel_config("dask"):
        found = compare_models(models(), **study, folder=folder)
    killer.join(timeout=5)
    assert len(lost) >= 1
    assert sorted(worker.poll() or 0 for worker in cluster.workers.values()) == [-signal.SIGKILL, 0]
    assert set(lost) <= keys.seen
    assert (
        len(keys.seen) == 2 * 4 * 2
    )  # data sets, splits, groups of models: inner cross-validations stay inside
    assert (found.cells["error"] == "").all()
    columns = [name for name in serial.cells if not name.endswith(PLACES)]
    pd.testing.assert_frame_equal(found.cells[columns], serial.cells[columns], check_exact=True)
    kept = Comparison.load(folder)
    pd.testing.assert_frame_equal(kept.cells[columns], serial.cells[columns], check_exact=True)
    assert sorted(path.name for path in folder.iterdir()) == ["about.json", "cells", "results.csv"]


def test_jobs_are_small_whatever_the_data(monkeypatch):
    sizes = []

    def measured(job):
        sizes.append((sizeof(job), len(pickle.dumps(job))))
        return run_job(job)

    sizeof = pytest.importorskip("dask.sizeof").sizeof
    monkeypatch.setattr(workers, "run_job", measured)
    X, y = make_classification(2000, 50, random_state=0)  # 800 kB
    with joblib.parallel_config("threading", n_jobs=2):
        found = compare_models({"svm": SVC(C=0.01)}, X, y, cv=[(np.arange(100), np.arange(100, 200))] * 2)
    assert (found.cells["error"] == "").all()
    assert len(sizes) == 2
    for in_scheduler, pickled in sizes:
        assert in_scheduler < 1000  # what joblib would send ahead, and not twice, is larger
        assert pickled < 4000
