"""Processes that die at work: their cell says so, all other cells are those of an undisturbed run, nothing hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from dying import Dying
from sklearn.svm import SVC

from bayesmkl._utils.folders import OWNER, scratch_folder
from bayesmkl.evaluation import Comparison, compare_models, workers
from bayesmkl.evaluation.journal import Journal

pytestmark = [
    pytest.mark.family("dying workers"),
    pytest.mark.heavy,
    pytest.mark.filterwarnings(
        "ignore:os.fork:RuntimeWarning"
    ),  # JAX is loaded, and not used by the children
]
HERE = Path(__file__).parent
WAYS = {"SIGKILL": "SIGKILL(-9)", "exit": "EXIT(3)", "segfault": "SIGSEGV(-11)"}
PLACES = ("_seconds", "_mb", "_stacks")


@pytest.fixture(autouse=True)
def seen_by_workers(monkeypatch):
    """Let worker processes import the modules beside this one."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Give temporary files a folder of their own."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def problem():
    X = np.random.default_rng(3).normal(size=(50, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no")


SPLITS = [(np.arange(25), np.arange(25, 50)), (np.arange(20, 50), np.arange(20))]  # of 25 and 30 samples


def compared(models, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compare_models(models, *problem(), cv=SPLITS, scoring="accuracy", **options)


def comparable(found):
    return found.cells[[name for name in found.cells if not name.endswith(PLACES)]]


def was_begun(folder, model, split=1):
    """Say whether a cell has been begun and not finished."""
    if not (folder / "about.json").exists():
        return False
    journal = Journal(folder)
    return journal.store.was_begun(journal.read_about()["view"][0]["cells"][model][split])


def check_dead(cell, how=None):
    assert cell["error"].startswith("WorkerDied: the process that fitted it died, with nothing beside it")
    assert how is None or WAYS[how] in cell["error"]
    assert "Too little memory, or a crash in compiled code." in cell["error"]
    assert np.isnan(cell["accuracy"])


def test_a_worker_that_is_killed_loses_its_cell_and_no_other(alone, tmp_path):
    models = {"svm": SVC(), "linear": SVC(kernel="linear"), "dying": Dying(n_samples=30)}
    undisturbed = compared(models | {"dying": Dying(n_samples=-1)})
    found = compared(models, n_jobs=2, folder=tmp_path / "run")
    dead = found.cells[found.cells["error"] != ""].to_dict("records")
    assert [(cell["model"], cell["split"], cell["n_train"]) for cell in dead] == [("dying", 1, 30)]
    check_dead(dead[0], "SIGKILL")
    keep = (found.cells["error"] == "").to_numpy()
    pd.testing.assert_frame_equal(comparable(found)[keep], comparable(undisturbed)[keep], check_exact=True)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "about.json",
        "cells",
        "results.csv",
    ]
    pd.testing.assert_frame_equal(Comparison.load(tmp_path / "run").cells, found.cells)
    assert not list(alone.glob("bayesmkl-*"))


@pytest.mark.slow
@pytest.mark.parametrize("with_folder", [True, False])
def test_every_way_to_die_in_processes_beside(with_folder, alone, tmp_path):
    models = {"svm": SVC(), **{how: Dying(how) for how in WAYS}, "leaving": Dying("sysexit")}
    found = compared(models, n_jobs=2, folder=tmp_path / "run" if with_folder else None)
    for cell in found.cells.to_dict("records"):
        if cell["model"] in WAYS:
            check_dead(cell, cell["model"])
        else:
            assert cell["error"] == ("" if cell["model"] == "svm" else "SystemExit: 4")
    with joblib.parallel_config("multiprocessing"):  # its own pool waits forever for a dead process
        again = compared({"svm": SVC(), "dying": Dying()}, n_jobs=2)
    assert again.failures["model"].tolist() == ["dying", "dying"]


def test_a_model_that_leaves_python_is_an_error_of_its_cell():
    found = compared({"svm": SVC(), "leaving": Dying("sysexit")})
    assert found.cells["error"].tolist() == ["", "SystemExit: 4"] * 2


@pytest.mark.parametrize(
    "how", ["segfault", *(pytest.param(how, marks=pytest.mark.slow) for how in ("SIGKILL", "exit"))]
)
def test_a_cell_that_ended_the_whole_run_is_found_out_by_the_next_one(how, tmp_path):
    """In one process, a crash ends the comparison; the second run tries that cell apart, and goes on."""
    folder, marker = tmp_path / "run", tmp_path / "deadly"
    models = {
        "svm": SVC(),
        "dying": Dying(how, n_samples=30, marker=str(marker)),
        "linear": SVC(kernel="linear"),
    }
    undisturbed = compared(models)
    marker.touch()
    pid = os.fork()
    if not pid:
        try:
            compared(models, folder=folder)
        finally:
            os._exit(77)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 77
    assert was_begun(folder, "dying")
    assert len(Journal(folder).read()) >= 1
    found = compared(models, folder=folder)
    (dead,) = found.cells[found.cells["error"] != ""].to_dict("records")
    assert (dead["model"], dead["split"]) == ("dying", 1)
    check_dead(dead, how)
    keep = (found.cells["error"] == "").to_numpy()
    pd.testing.assert_frame_equal(comparable(found)[keep], comparable(undisturbed)[keep], check_exact=True)


def test_a_cell_in_which_somebody_killed_the_run_is_not_blamed(tmp_path):
    """The next run tries it apart: it gets its result, as every other cell."""
    folder, marker = tmp_path / "run", tmp_path / "deadly"
    models = {"svm": SVC(), "slow": Dying("sleep", n_samples=30, marker=str(marker))}
    undisturbed = compared(models)
    marker.touch()
    pid = os.fork()
    if not pid:
        try:
            compared(models, folder=folder)
        finally:
            os._exit(77)
    end = time.monotonic() + 30
    while not (folder.is_dir() and was_begun(folder, "slow")) and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert was_begun(folder, "slow")
    marker.unlink()
    pd.testing.assert_frame_equal(comparable(compared(models, folder=folder)), comparable(undisturbed))


def test_workers_that_die_before_they_begin_are_an_error_with_a_remedy(monkeypatch):
    def broken(jobs, n_jobs, backend):
        raise workers.BrokenExecutor(
            "A worker process managed by the executor was unexpectedly terminated.\nLong."
        )
        yield

    monkeypatch.setattr(workers, "_in_parallel", broken)
    with pytest.raises(
        ChildProcessError, match=r"`n_jobs`: .*before they begin a cell.*the same call continues"
    ):
        compared({"svm": SVC()}, n_jobs=2)


def test_what_kill_left_in_the_folder_of_temporary_files_goes_with_the_next_run(alone):
    """Folders of the dead go; those of the living, of other machines, and of other programs stay."""
    code = (
        "import sys, time\nfrom bayesmkl._utils.folders import scratch_folder\n"
        "with scratch_folder() as folder:\n"
        "    (folder / 'X.npy').write_bytes(b'data')\n    print(folder, flush=True)\n    time.sleep(600)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dead:
        left = Path(dead.stdout.readline().strip())
        dead.kill()
    foreign, elsewhere = alone / "bayesmkl-notes", alone / "bayesmkl-elsewhere"
    for folder in (foreign, elsewhere):
        folder.mkdir()
        (folder / "mine.txt").write_text("keep")
    (elsewhere / OWNER).write_text("another machine")
    link = alone / "bayesmkl-link"
    link.symlink_to(foreign)
    with scratch_folder() as living:
        assert left.is_dir() is False
        with scratch_folder() as other:
            assert living.is_dir()
            assert living != other
    assert sorted(alone.iterdir()) == sorted((foreign, elsewhere, link))
    assert (foreign / "mine.txt").read_text() == "keep"
