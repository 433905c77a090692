"""Folders of comparisons: what is new or changed is computed, what is there is kept, and no number is stale."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import KFold, RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from bayesmkl.discriminative import EasyMKLClassifier
from bayesmkl.evaluation import Comparison, compare, compare_models, store
from bayesmkl.kernels import Gaussian, KernelBank

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
Y = np.where(X[:, 0] + 0.7 * RNG.normal(size=60) > 0, "yes", "no")
FOLDS = KFold(2)
BEGUN = {"models": {"svm": SVC()}, "X": X, "y": Y, "cv": FOLDS, "scoring": "accuracy"}
GRID = BEGUN | {"models": {"svm": (SVC(), {"C": [0.01, 1.0]})}, "inner_cv": 2}


@pytest.fixture
def fits(monkeypatch):
    """Return the log of the cells that are computed in this test."""
    log, cell = [], compare.cell_of
    monkeypatch.setattr(compare, "cell_of", lambda *args: log.append(1) or cell(*args))
    return log


def same(first, second):
    names = [name for name in first.cells if not name.endswith(("_seconds", "_mb"))]
    pd.testing.assert_frame_equal(first.cells[names], second.cells[names], check_exact=True)


def moved(values, k=30, by=9.0):
    values = np.array(values)
    values[k] += by
    return values


def banks(*views):
    bank = KernelBank(Gaussian(width=1.0), views={view: [int(view)] for view in views})
    return {"svm": EasyMKLClassifier(bank)}


# ---------------------------------------------------------------------------------------------------------- growing


def test_models_metrics_data_and_repeats_come_one_by_one(fits, tmp_path):
    grown = {
        "models": {"svm": SVC()},
        "datasets": {"a": (X, Y)},
        "cv": RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=0),
        "scoring": ["accuracy"],
    }
    steps = [
        ({}, 2),
        ({"models": {"svm": SVC(), "log": LogisticRegression()}}, 2),
        ({"scoring": ["f1", "accuracy", "auc", "roc_auc"]}, 0),
        ({"datasets": {"a": (X, Y), "b": (X[::2], Y[::2])}}, 4),
        ({"cv": RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)}, 8),
        ({"datasets": {"b": (X[::2], Y[::2]), "again": (X, Y)}, "models": {"other name": SVC()}}, 0),
    ]
    for change, n_new in steps:
        grown |= change
        before = len(fits)
        found = compare_models(**grown, folder=tmp_path / "run")
        assert len(fits) - before == n_new, change
        same(found, compare_models(**grown))
        same(Comparison.load(tmp_path / "run"), found)


@pytest.mark.parametrize(
    ("begun", "change"),
    [
        (BEGUN, {"X": moved(X)}),
        (BEGUN, {"X": X.astype(np.float32)}),
        (BEGUN, {"X": pd.DataFrame(X)}),
        (BEGUN, {"y": np.where(np.arange(60) == 30, "yes", Y)}),
        (BEGUN, {"sample_weight": moved(np.ones(60))}),
        (BEGUN, {"cv": [(np.arange(29), np.arange(30, 60)), (np.arange(30, 60), np.arange(29))]}),
        (BEGUN, {"models": {"svm": SVC(C=2.0)}}),
        (BEGUN, {"random_state": 1}),
        (BEGUN | {"models": banks("0", "1")}, {"models": banks("1", "0")}),
        (GRID, {"models": {"svm": (SVC(), {"C": [0.01, 2.0]})}}),
        (GRID, {"inner_cv": 3}),
        (GRID, {"inner_scoring": "f1_macro"}),
        (GRID, {"groups": np.arange(60) // 3}),
    ],
)
@pytest.mark.filterwarnings("ignore:The groups parameter:UserWarning")
def test_what_is_changed_is_computed(begun, change, fits, tmp_path):
    first = compare_models(**begun, folder=tmp_path / "run")
    before = len(fits)
    found = compare_models(**begun | change, folder=tmp_path / "run")
    assert len(fits) == before + 2
    same(found, compare_models(**begun | change))
    again = compare_models(**begun, folder=tmp_path / "run")
    assert len(fits) == before + 4  # the plain call alone has been added
    pd.testing.assert_frame_equal(again.cells, first.cells, check_exact=True)


def test_other_versions_and_settings_are_computed(fits, tmp_path, monkeypatch):
    for k, name in enumerate(["", "python", "numpy", "bayesmkl", "scikit-learn"]):
        monkeypatch.setattr(
            store,
            "_environment",
            lambda name=name: {"python": "", "numpy": "", "bayesmkl": ""} | {name: "other"},
        )
        compare_models(**BEGUN, folder=tmp_path / "run")
        assert len(fits) == 2 * k + 2
    with sklearn.config_context(transform_output="pandas"):
        compare_models(**BEGUN, folder=tmp_path / "run")
    assert len(fits) == 12


SCRIPT = """
import json, sys
import pandas as pd
from sklearn.svm import SVC
from bayesmkl.discriminative import EasyMKLClassifier
from bayesmkl.evaluation import compare, compare_models
from bayesmkl.kernels import Gaussian, KernelBank

log, cell = [], compare.cell_of
compare.cell_of = lambda *args: log.append(1) or cell(*args)
table = pd.DataFrame({"a": [.1 * k for k in range(40)], "b": ["x", "y"] * 20, "c": [k % 7 for k in range(40)]})
table["b"] = table["b"].astype("category")
bank = KernelBank(Gaussian(width=1.0), views={"left": ["a"], "right": ["c"]})
models = {"mkl": EasyMKLClassifier(bank), "svm": (SVC(), {"C": [1.0, 2.0], "kernel": ["rbf", "linear"]})}
groups = [f"g{k % 9}" for k in range(40)]
compare_models(models, table[["a", "c"]], [k // 3 % 2 for k in range(40)], groups=groups, cv=3, folder=sys.argv[1])
print(len(log))
"""


def test_another_process_computes_nothing_again(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    found = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    assert [int(text) for text in found] == [6, 0]


# ----------------------------------------------------------------------------------------- code that is not installed


class Mine(GaussianNB):
    """Defined by a file of the user."""


def shifted(values):
    return values + 1.0


def share(model, X, y):
    return float(np.mean(model.predict(X) == y))


@pytest.mark.parametrize(
    "change",
    [
        {"models": {"m": Mine()}},
        {"models": {"m": make_pipeline(FunctionTransformer(shifted), SVC())}},
        {"models": {"m": make_pipeline(FunctionTransformer(lambda values: values), SVC())}},
        {"models": {"m": (SVC(), {"kernel": [lambda A, B: A @ B.T]})}},
        {"models": {"m": (SVC(), {"C": [1.0, 2.0]})}, "inner_scoring": share},
        {"scoring": {"share": share}},
        {"scoring": {"share": make_scorer(lambda y, predicted: np.mean(y == predicted))}},
    ],
)
def test_code_that_is_not_installed_is_always_run(change, fits, tmp_path):
    for n in (2, 4):
        found = compare_models(**BEGUN | change, folder=tmp_path / "run")
        assert len(fits) == n
    same(found, compare_models(**BEGUN | change))
    same(Comparison.load(tmp_path / "run"), found)
    pd.testing.assert_frame_equal(Comparison.load(tmp_path / "run").predictions(), found.predictions())


def test_an_interrupted_call_shows_no_number_of_earlier_code(tmp_path, monkeypatch):
    study = BEGUN | {"models": {"svm": SVC(), "m": Mine()}, "folder": tmp_path / "run"}
    first = compare_models(**study)

    def stop(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(Mine, "fit", stop, raising=False)
    with pytest.raises(KeyboardInterrupt):
        compare_models(**study)
    assert Comparison.load(tmp_path / "run").models == ["svm"]
    with pytest.raises(ValueError, match="its file is not there"):
        first.predictions()


def test_installed_functions_are_told_by_name(fits, tmp_path):
    models = {"m": make_pipeline(FunctionTransformer(np.tanh), SVC())}
    scoring = {"share": make_scorer(accuracy_score), "plain": "accuracy"}
    for _ in range(2):
        found = compare_models(**BEGUN | {"models": models, "scoring": scoring}, folder=tmp_path / "run")
        assert len(fits) == 2
    np.testing.assert_array_equal(found.scores("share"), found.scores("plain"))
    models = {"m": make_pipeline(FunctionTransformer(np.sinh), SVC())}
    compare_models(**BEGUN | {"models": models, "scoring": scoring}, folder=tmp_path / "run")
    assert len(fits) == 4


def test_versions_of_packages_that_models_come_from_are_kept(tmp_path, monkeypatch):
    import seaborn  # stands for a package of models

    class Installed(GaussianNB):
        __module__, __qualname__ = "seaborn", "Installed"

    monkeypatch.setattr(seaborn, "Installed", Installed, raising=False)
    study = BEGUN | {"models": {"m": Installed()}}
    first = compare_models(**study, folder=tmp_path / "run")
    assert first.about["environment"]["seaborn"] == seaborn.__version__
    monkeypatch.setattr(seaborn, "__version__", "99.0")
    second = compare_models(**study, folder=tmp_path / "run")
    assert second.about["keys"] != first.about["keys"]


# -------------------------------------------------------------------------------------------- failures and damage


def test_failed_cells_are_computed_again_when_asked(fits, tmp_path, monkeypatch):
    fit = SVC.fit

    def starved(self, X, y, sample_weight=None):
        raise MemoryError("too large")

    monkeypatch.setattr(SVC, "fit", starved)
    study = BEGUN | {"models": {"svm": SVC(), "nb": GaussianNB()}, "folder": tmp_path / "run"}
    with pytest.warns(UserWarning, match="2 of 4 cells failed"):
        first = compare_models(**study)
    monkeypatch.setattr(SVC, "fit", fit)
    with pytest.warns(UserWarning, match="2 of 4 cells failed"):
        same = compare_models(**study | {"scoring": ["accuracy", "f1"]})
    assert set(same.failures["error"]) == set(first.failures["error"]) == {"MemoryError: too large"}
    assert len(fits) == 4
    again = compare_models(**study, retry_failed=True)
    assert again.failures.empty
    assert len(fits) == 6
    kept = compare_models(**study)
    pd.testing.assert_frame_equal(kept.cells, again.cells)
    assert len(fits) == 6


def test_names_and_messages_are_kept_as_they_are(tmp_path):
    names = ["NA", "1", "01", " a", "x,", "#", "\u20ac", "None"]
    messages = ["two\nlines", "a\rb", 'an open " quote', "cut\r", "a\0b", "NA", "\u20ac", ""]
    study = BEGUN | {"models": {n: Failing(m) for n, m in zip(names, messages, strict=True)}}
    with pytest.warns(UserWarning, match="16 of 16 cells failed"):
        found = compare_models(**study, folder=tmp_path / "run")
    assert found.models == names
    told = found.failures.drop_duplicates("model")["error"].tolist()
    assert told == [f"ValueError: {message}".replace("\0", "\\0") for message in messages]
    pd.testing.assert_frame_equal(Comparison.load(tmp_path / "run").cells, found.cells)
    table = pd.read_csv(tmp_path / "run" / "results.csv", dtype=str, keep_default_na=False)
    assert table["model"].tolist() == found.cells["model"].tolist()
    assert table["error"].tolist() == found.cells["error"].tolist()


class Failing(GaussianNB):
    """Fails with a message."""

    def __init__(self, message=""):
        super().__init__()
        self.message = message

    def fit(self, X, y):
        raise ValueError(self.message)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: '{"row": {',
        lambda text: "[1, 2]",
        lambda text: '{"row": {}, "scores": {}}',
    ],
    ids=["empty", "cut", "a list", "no facts"],
)
def test_damaged_cells_are_left_out_and_computed_again(change, fits, tmp_path):
    found = compare_models(**BEGUN, folder=tmp_path / "run")
    path = sorted((tmp_path / "run" / "cells").glob("*.json"))[0]
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    assert len(Comparison.load(tmp_path / "run").cells) == 1
    same(compare_models(**BEGUN, folder=tmp_path / "run"), found)
    assert len(fits) == 3


@pytest.mark.parametrize("way", ["cut", "no archive", "gone"])
def test_damaged_predictions_are_not_used(way, fits, tmp_path):
    whole = compare_models(**BEGUN | {"scoring": ["accuracy", "f1"]})
    compare_models(**BEGUN, folder=tmp_path / "run")
    path = sorted((tmp_path / "run" / "cells").glob("*.npz"))[0]
    content = path.read_bytes()
    path.write_bytes(content[:100] if way == "cut" else b"PK")
    if way == "gone":
        path.unlink()
    kept = Comparison.load(tmp_path / "run")
    with pytest.raises(ValueError, match=rf"{path.name}' is {'gone' if way == 'gone' else 'damaged'}"):
        kept.predictions()
    before = len(fits)
    found = compare_models(**BEGUN | {"scoring": ["accuracy", "f1"]}, folder=tmp_path / "run")
    assert len(fits) == before + 1  # a metric that its predictions no longer give
    same(found, whole)
    pd.testing.assert_frame_equal(found.predictions(), whole.predictions(), check_exact=True)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_kills_lose_no_finished_cell(tmp_path):
    study = BEGUN | {"models": {f"C={k}": SVC(C=k, probability=True) for k in range(1, 9)}, "cv": 3}
    kept = {}
    for n in (2, 5, 9):
        pid = os.fork()
        if not pid:
            try:
                compare_models(**study, folder=tmp_path / "run")
            finally:
                os._exit(0)
        end = time.monotonic() + 60.0
        while len(list(tmp_path.glob("run/cells/*.json"))) < n and time.monotonic() < end:
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        now = {path.name: path.read_bytes() for path in tmp_path.glob("run/cells/*.json")}
        assert kept.items() <= now.items()
        kept = now
    assert 9 <= len(kept) <= 24
    found = compare_models(**study, folder=tmp_path / "run")
    assert all((tmp_path / "run" / "cells" / name).read_bytes() == text for name, text in kept.items())
    same(found, compare_models(**study))


class Dying(GaussianNB):
    """Ends its process on the second half of the samples."""

    def fit(self, X, y):
        if X[0, 0] == 0.0:
            os._exit(9)
        return super().fit(X, y)


@pytest.mark.heavy
def test_a_process_that_dies_loses_no_finished_cell(tmp_path):
    study = BEGUN | {"X": moved(X, 30, by=-X[30]), "folder": tmp_path / "run"}
    with pytest.raises(BrokenExecutor):
        compare_models(**study | {"models": {"svm": SVC(), "dying": Dying()}}, n_jobs=2)
    found = compare_models(**study, n_jobs=2)
    assert found.failures.empty


def test_a_finished_folder_that_may_not_be_written_to_is_read(fits, tmp_path, monkeypatch):
    found = compare_models(**BEGUN, folder=tmp_path / "run")

    def refuse(*args, **options):
        raise AssertionError("nothing is to be written")

    for name in ("write_about", "write_table"):
        monkeypatch.setattr(store, name, refuse)
    monkeypatch.setattr(store, "written_beside", refuse)
    pd.testing.assert_frame_equal(compare_models(**BEGUN, folder=tmp_path / "run").cells, found.cells)
    assert len(fits) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": "bayesmkl-comparison", "version": 5}', "has layout 5 and this version reads layout 7"),
        ('{"format": "something"}', "is not the about.json of a comparison"),
        ("nothing", "is not the folder of a comparison"),
    ],
)
def test_other_folders_are_refused_and_stay(text, message, tmp_path):
    (tmp_path / "about.json").write_text(text)
    for work in (lambda: compare_models(**BEGUN, folder=tmp_path), lambda: Comparison.load(tmp_path)):
        with pytest.raises(ValueError, match=message):
            work()
    assert [path.name for path in tmp_path.iterdir()] == ["about.json"]
    assert (tmp_path / "about.json").read_text() == text
