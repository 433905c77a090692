"""Stopped at any moment: files are complete or as they were, fitted models too, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import families
import numpy as np
import pytest
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.exceptions import NotFittedError

import bayesmkl
from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._utils import threads
from bayesmkl._utils.files import READING_ARRAYS, is_partial, written_beside
from bayesmkl.bemkl import BEMKLMultitaskRegressor, Gibbs
from bayesmkl.cli.runs import CONFIG, RUN_FORMAT, folder_beside
from bayesmkl.discriminative import LMKLClassifier, SimpleMKLClassifier
from bayesmkl.kernels import Gaussian

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("interruptions"),
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # files closed a moment late
]
PACKAGE = str(Path(bayesmkl.__file__).parent)
FILES = ("_utils/files.py",)
KINDS = [KeyboardInterrupt, MemoryError]


@pytest.fixture(autouse=True)
def nothing_left_of_limits():
    """Where a test stops work in the very line that gives threads or a lock back, later tests shall not see that."""
    yield
    threads._INSIDE.clear()
    with contextlib.suppress(RuntimeError):  # held by nobody
        while True:
            READING_ARRAYS.release()


def partial(folder):
    return [path for path in folder.rglob("*") if is_partial(path)]


@contextmanager
def stopped_at_line(number: int, files: tuple[str, ...], error: BaseException | None) -> Iterator[list[int]]:
    """Raise `error` before the line of that number, counted over all lines of `files` that run inside.

    Yields a list that holds how many lines have run. With no error, all lines run.
    """
    count = [0]

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            count[0] += 1
            if error is not None and count[0] == number:
                sys.settrace(None)
                raise error
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


@contextmanager
def stopped_at_call(number: int, error: BaseException | None) -> Iterator[list[int]]:
    """Raise `error` at the call of that number of functions of the package."""
    count = [0]

    def profile(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            count[0] += 1
            if error is not None and count[0] == number:
                sys.setprofile(None)
                raise error

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def at_every_line(
    work: Callable[[], Any], files: tuple[str, ...], kind: type[BaseException], check: Callable[[bool], None]
) -> int:
    """Stop `work` before each of its lines in `files` in turn, and `check` what is left; return how many there were.

    `check` is told whether the work was finished nevertheless.
    """
    with stopped_at_line(0, files, None) as count:
        work()
    check(True)
    for number in range(1, count[0] + 1):
        finished = False
        try:
            with stopped_at_line(number, files, kind("stopped")):
                work()
                finished = True
        except kind as stop:
            traceback.clear_frames(stop.__traceback__)  # as if the process had gone on, or ended
        check(finished)
    return count[0]


# -------------------------------------------------------------------------------------------------- single files


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("old", ["old", None])
def test_a_file_is_old_or_new_wherever_writing_stops(kind, old, tmp_path):
    target = tmp_path / "table.csv"
    n_left = 0

    def work():
        with written_beside(target) as beside:
            beside.write_text("new")

    def check(finished):
        nonlocal n_left
        found = target.read_text() if target.exists() else None
        assert found in (("new",) if finished else (old, "new"))
        n_left += len(partial(tmp_path))
        for path in tmp_path.iterdir():
            path.unlink()
        if old is not None:
            target.write_text(old)

    assert at_every_line(work, FILES, kind, check) > 10
    assert n_left <= 1  # where the line that removes it is the one that is stopped


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_old_or_new_wherever_saving_stops(kind, tmp_path):
    target = tmp_path / "model.skops"
    old, new = KernelBank("linear"), KernelBank(["linear", "rbf"])
    save_model(old, target)
    before = target.read_bytes()

    def check(finished):
        found = load_model(target).kernels
        assert found == (new.kernels if finished else found)
        assert found in (old.kernels, new.kernels)
        target.write_bytes(before)

    files = (*FILES, "bayesmkl/persistence.py")
    assert at_every_line(lambda: save_model(new, target), files, kind, check) > 15


# ------------------------------------------------------------------------------------------------------- folders


@pytest.mark.parametrize("kind", [*KINDS, SystemExit])
def test_the_folder_of_a_run_is_old_or_new_wherever_replacing_it_stops(kind, tmp_path):
    target = tmp_path / "run"

    def write(name):
        with folder_beside(target, force=True) as folder:
            (folder / CONFIG).write_text(json.dumps({"format": RUN_FORMAT, "name": name}))

    def check(finished):
        if not target.exists():  # stopped while it was put back
            next(target.parent.glob(".run.*.old")).rename(target)
        name = json.loads((target / CONFIG).read_text())["name"]
        assert name in (("new",) if finished else ("old", "new"))
        write("old")

    write("old")
    assert at_every_line(lambda: write("new"), ("cli/runs.py", *FILES), kind, check) > 15


# --------------------------------------------------------------------------------------------------------- models


SHORT = {"max_iter": 3, "tol": 0.0}
CHAINS = {"inference": Gibbs(n_chains=1, n_warmup=4, n_draws=10)}
STOPPED = {
    "classes": BEMKLClassifier(**SHORT, intermediate_scale=1.0),
    "numbers": BEMKLRegressor(**SHORT),
    "Gibbs": BEMKLRegressor(**SHORT, **CHAINS),
    "tasks": BEMKLMultitaskRegressor(**SHORT),
    "an SVM": SimpleMKLClassifier(max_iter=4, tol=0.05),
    "gates": LMKLClassifier(max_iter=4, tol=0.05),
}


def problem(model, n, seed, n_classes):
    """Return what `fit` and `predict` take: samples, their targets, and further arguments of both."""
    X = families.data(n, seed)
    tasks = {"tasks": np.arange(n) % 2} if "Multitask" in type(model).__name__ else {}
    if is_outlier_detector(model):
        return X, None, tasks
    return X, families.target(X) if is_regressor(model) else families.labels(X, n_classes), tasks


def fit(model, X, y, tasks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **tasks)


@pytest.mark.parametrize("name", STOPPED)
def test_an_interrupted_fit_leaves_the_earlier_model(name):
    """Whatever call a second fit is stopped at, the first model answers as before; without one, there is none."""
    model = STOPPED[name].set_params(kernels=KernelBank([Gaussian(width=1), "linear"], views="each"))
    one, other = (
        problem(model, 16, 5, 2),
        problem(model, 18, 6, 2 if "Multitask" in type(model).__name__ else 3),
    )
    X, tasks = families.data(6, seed=9), {key: value[:6] for key, value in one[2].items()}
    before, fresh = fit(clone(model), *one).predict(X, **tasks), clone(model)
    fit(model, *one)
    fit(clone(model), *other)  # by which kernels are judged
    with stopped_at_call(0, None) as count:
        fit(clone(model), *other)
    for share in (0.05, 0.6, 0.97):
        number = max(1, round(share * count[0]))
        for refitted in (model, fresh):
            with pytest.raises(KeyboardInterrupt), stopped_at_call(number, KeyboardInterrupt()):
                fit(refitted, *other)
        np.testing.assert_array_equal(model.predict(X, **tasks), before, err_msg=f"stopped at {share}")
        with pytest.raises(NotFittedError):
            fresh.predict(X, **tasks)
