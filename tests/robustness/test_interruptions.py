"""Stopped at any moment: files are complete or as they were, fitted models too, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from pathlib import Path

import families
import numpy as np
import pytest
from interrupting import at_every_line, stopped_at_call
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.exceptions import NotFittedError
from xarray import Dataset, DataTree

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._utils import threads
from bayesmkl._utils.files import ABANDONED, READING_ARRAYS, is_partial, written_beside
from bayesmkl.bemkl import VB, BEMKLMultitaskRegressor, Gibbs
from bayesmkl.cli import folders
from bayesmkl.cli.folders import CONFIG, MODEL, RUN_FORMAT, RUN_VERSION, folder_beside, load_run
from bayesmkl.cli.stops import Terminated
from bayesmkl.discriminative import LMKLClassifier, SimpleMKLClassifier
from bayesmkl.kernels import Gaussian
from bayesmkl.posterior import load_posterior, save_posterior

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("interruptions"),
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning"
    ),  # files closed a moment late
]
HERE = Path(__file__).parent
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

    files = (*FILES, "persistence/files.py")
    assert at_every_line(lambda: save_model(new, target), files, kind, check) > 15


def test_a_posterior_is_old_or_new_wherever_saving_stops(tmp_path):
    trees = [DataTree.from_dict({"posterior": Dataset({"weights": ("draw", [k, 2.0])})}) for k in (0.0, 1.0)]
    target = tmp_path / "posterior.nc"
    save_posterior(trees[0], target)
    before = target.read_bytes()

    def check(finished):
        if finished or target.read_bytes() != before:
            assert load_posterior(target)["posterior/weights"].values.tolist() == [1.0, 2.0]
        target.write_bytes(before)

    files = (*FILES, "posterior/files.py")
    assert at_every_line(lambda: save_posterior(trees[1], target), files, KeyboardInterrupt, check) > 15


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path):
    target, other = tmp_path / "a.csv", tmp_path / "b.csv"
    old, fresh, foreign, mine = (
        tmp_path / name
        for name in (
            ".a.csv.0123abcd.part",
            ".a.csv.89abcdef.part",
            ".b.csv.0123abcd.part",
            ".a.csv.mine.part",
        )
    )
    for path in (old, fresh, foreign, mine):
        path.write_text("half")
    for path in (old, foreign, mine):
        os.utime(path, (0, os.stat(path).st_mtime - 2 * ABANDONED))
    with written_beside(target) as beside:
        beside.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted(
        (fresh, foreign, mine, target)
    )  # somebody may write the fresh one
    with written_beside(other) as beside:
        beside.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted((fresh, mine, target, other))


# ------------------------------------------------------------------------------------------------------- folders


@pytest.mark.parametrize("kind", [*KINDS, Terminated])
def test_the_folder_of_a_run_is_old_or_new_wherever_replacing_it_stops(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "load_model", lambda path: path.read_text())
    monkeypatch.setattr(folders, "check_described", lambda *_: None)
    target = tmp_path / "run"

    def write(name):
        with folder_beside(target, force=True) as folder:
            config = {"format": RUN_FORMAT, "version": RUN_VERSION, "features": ["a"], "target": "b"}
            (folder / CONFIG).write_text(json.dumps(config | {"task": "regression", "name": name}))
            (folder / MODEL).write_text(name)

    def check(finished):
        model, config = load_run(target)
        assert model == config["name"]
        assert model in (("new",) if finished else ("old", "new"))
        write("old")  # which tidies too
        assert list(tmp_path.glob(".run.*.*")) == []

    write("old")
    assert at_every_line(lambda: write("new"), ("cli/folders.py", *FILES), kind, check) > 25
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


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


@pytest.mark.parametrize("inference", [VB(), Gibbs(n_chains=2, n_warmup=20, n_draws=80)], ids=repr)
def test_an_interrupted_sampler_keeps_draws_and_a_terminated_one_does_not(inference):
    """Ctrl-C after draws is an answer; a signal to end is none, and no Exception that a model's error could be."""
    X = families.data(20)
    model = BEMKLRegressor("precomputed", inference=inference)
    stack = KernelBank("linear").fit_transform(X)
    with stopped_at_call(0, None) as count:
        fit(clone(model), stack, X[:, 0], {})
    number = round(0.7 * count[0])
    with pytest.raises(Terminated), stopped_at_call(number, Terminated(15)):
        fit(model, stack, X[:, 0], {})
    with pytest.raises(NotFittedError):
        model.predict(stack)
    assert not issubclass(Terminated, Exception | KeyboardInterrupt)
