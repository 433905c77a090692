"""Which studies a folder continues: those that would give its numbers, told by content, and no others."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

from bayesmkl.evaluation import Comparison, compare_models, jobs
from bayesmkl.evaluation.journal import Journal

# A user's script. Whatever is long enough for its representation to be shortened is changed in the middle.
SCRIPT = """
import functools
import threading
from collections import namedtuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

SLOPE = 0.5
Levels = namedtuple("Levels", ["low", "high"])


def middle(values, value):
    values[len(values) // 2] = value
    return values


def slope():
    return SLOPE


def decay(D):
    return np.exp(-slope() * D)


def power(q, scale=1.0):
    def kernel(X, Z, width=1.0):
        return scale * decay(np.abs(X - Z) ** q / width)

    return kernel


class Base(ClassifierMixin, BaseEstimator):
    shift = 0.25

    def prepared(self, K):
        return K.mean(axis=1) - self.shift


class Model(Base):
    def __init__(self, points, kernel, weigh, rest=None, random_state=None):
        self.points, self.kernel, self.weigh, self.rest = points, kernel, weigh, rest
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_, self.share_ = np.unique(y), np.mean(y)
        self.draw_ = np.random.default_rng(self.random_state).normal()
        return self

    def decision_function(self, X):
        values = self.weigh(self.prepared(self.kernel(np.asarray(X), self.points)) - self.share_)
        return values + self.draw_ + (0.0 if self.rest is None else sum(self.rest))

    def predict(self, X):
        return (self.decision_function(X) > 0.0).astype(int)


class Weigh:
    def __init__(self, levels):
        self.levels = levels

    def __call__(self, values):
        return values * self.levels.low


class Folds:
    def get_n_splits(self, X=None, y=None, groups=None):
        return 2

    def split(self, X, y=None, groups=None):
        yield from KFold(2).split(X)


def difference(y, predicted):
    return np.mean(predicted) - np.mean(y)


def score(model, X, y):
    return float(np.mean(model.decision_function(X) * (2 * y - 1)))


X = middle(np.linspace(-2.0, 2.0, 1200), 0.0)[:, None]
y = middle(np.arange(1200) % 3 // 2, 0)
points = middle(np.linspace(-1.0, 1.0, 1100), 0.0)
model = Model(points, functools.partial(power(2.0), width=1.5), Weigh(Levels(1.0, 2.0)), [0.0, 1.0])
models = {"mine": make_pipeline(FunctionTransformer(lambda X: X + 1.0), model)}
few = slice(0, 1200, 20)
study = {"models": models, "X": X, "y": y, "scoring": {"score": score}, "random_state": 0}
study["cv"] = PredefinedSplit(middle(np.arange(1200) % 2, 0))
"""
TUNED = """
study["X"], study["y"], study["cv"] = X[few], y[few], Folds()
grid = {"points": [middle(np.linspace(-1.0, 1.0, 1100), 3.0), points - 5.0]}
study |= {"models": {"tuned": (model, grid)}, "inner_cv": 2}
study["inner_scoring"] = make_scorer(difference, response_method="decision_function")
"""
CHANGES = {
    "data in the middle": ("1200), 0.0)[:", "1200), 9.0)[:", r"datasets \('data': X\)"),
    "precision of data": ("[:, None]", "[:, None].astype(np.float32)", r"datasets \('data': X\)"),
    "a label": ("% 3 // 2, 0)", "% 3 // 2, 1)", r"datasets \('data': y\)"),
    "a fold in the middle": ("% 2, 0))", "% 2, 1))", r"cv \('data'\)"),
    "a long parameter": ("1100), 0.0)\nm", "1100), 9.0)\nm", r"models \('mine': .*model__points\)"),
    "an edit in place": ("\nfew =", "\npoints[600] += 1.0\nfew =", r"models \('mine': .*model__points\)"),
    "the exponent in a closure": ("power(2.0)", "power(3.0)", r"models \('mine': .*model__kernel\)"),
    "a default argument of it": ("scale=1.0", "scale=2.0", r"models \('mine': .*model__kernel\)"),
    "an argument of a partial": ("width=1.5", "width=2.5", r"models \('mine': .*model__kernel\)"),
    "the body of a kernel": ("D)\n\n\ndef power", "D) + 1.0\n\n\ndef power", r"models \('mine': .*model__kernel\)"),
    "a constant of its module": ("SLOPE = 0.5", "SLOPE = 0.7", r"models \('mine': .*model__kernel\)"),
    "what another function returns": ("return SLOPE", "return 2.0 * SLOPE", r"models \('mine': .*model__kernel\)"),
    "a lambda": ("X + 1.0", "X + 2.0", r"models \('mine': .*functiontransformer__func\)"),
    "the state of a callable": ("Levels(1.0, 2.0)", "Levels(1.5, 2.0)", r"models \('mine': .*model__weigh\)"),
    "the body of its method": ("self.levels.low", "self.levels.high", r"models \('mine': .*model__weigh\)"),
    "an entry of a list": ("[0.0, 1.0])", "[0.0, 1.5])", r"models \('mine': .*model__rest\)"),
    "a class attribute": ("shift = 0.25", "shift = 0.5", r"models \('mine': .*\)"),
    "a method of a base class": ("K.mean(axis=1)", "K.max(axis=1)", r"models \('mine': .*\)"),
    "a method of the model": ("> 0.0).astype", ">= 0.1).astype", r"models \('mine': .*\)"),
    "the body of a scorer": ("2 * y - 1", "3 * y - 1", r"scoring \('score'\)"),
    "another seed": ('"random_state": 0', '"random_state": 1', "random_state"),
    "the name of a model": ('"mine"', '"yours"', r"models \('yours' new; 'mine' gone\)"),
    "the code of a splitter": ("KFold(2)", "KFold(2, shuffle=True, random_state=0)", r"cv \('data'\)"),
    "a grid in the middle": ("1100), 3.0)", "1100), 4.0)", r"models \('tuned': param_grid\)"),
    "folds of the grid": ('"inner_cv": 2', '"inner_cv": 3', "inner_cv"),
    "the sign of what the grid chooses by": (
        "scorer(difference,",
        "scorer(difference, greater_is_better=False,",
        "inner_scoring",
    ),
    "what the grid chooses by": ("np.mean(predicted) -", "-np.mean(predicted) -", "inner_scoring"),
}  # fmt: skip
OF_THE_GRID = {what for what in CHANGES if "the grid" in what} | {
    "a grid in the middle",
    "the code of a splitter",
}
SAME_NUMBERS = {"a method of the model", "the name of a model", "precision of data", "folds of the grid"}


def run(script, folder=None):
    namespace = {"__name__": "script"}
    exec(compile(script, "script.py", "exec"), namespace)
    return compare_models(**namespace["study"], folder=folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return scripts with the folders that they filled and their cells."""
    found = {}
    for script in (SCRIPT, SCRIPT + TUNED):
        folder = tmp_path_factory.mktemp("begun") / "run"
        found[script] = folder, run(script, folder).cells
    return found


@pytest.mark.parametrize("what", CHANGES)
def test_changed_studies_are_refused_by_name(begun, what):
    old, new, named = CHANGES[what]
    script = SCRIPT + TUNED if what in OF_THE_GRID else SCRIPT
    folder, cells = begun[script]
    before = contents(folder)
    changed = script.replace(old, new)
    assert script.count(old) == 1
    with pytest.raises(
        ValueError, match=f"holds another comparison: with other .*{named}.*Nothing was changed"
    ):
        run(changed, folder)
    assert contents(folder) == before
    if what not in SAME_NUMBERS:  # the old ones would be wrong
        assert (run(changed).cells["score"] != cells["score"]).any()


def test_the_same_script_computes_nothing_again(begun, monkeypatch):
    monkeypatch.setattr(jobs, "run_cell", lambda *_: pytest.fail("computed again"))
    np.set_printoptions(threshold=10**9)
    try:
        for script, (folder, cells) in begun.items():
            found = run("\n\n# elsewhere in the file\n" + script, folder)
            pd.testing.assert_frame_equal(found.cells, cells)
    finally:
        np.set_printoptions(threshold=1000)


def test_another_process_computes_nothing_again(begun, tmp_path):
    folder, _ = begun[SCRIPT + TUNED]
    ending = f"""
    from bayesmkl.evaluation import compare_models, jobs

    def fail(*_):
        raise SystemExit("computed again")

    jobs.run_cell = fail
    compare_models(**study, folder={str(folder)!r})
    """
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + TUNED + textwrap.dedent(ending))
    hashing = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, script], env=hashing, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["python", "numpy", "bayesmkl", "scikit-learn"])
def test_other_versions_are_refused_and_the_record_stays(begun, tmp_path, name):
    shutil.copytree(begun[SCRIPT][0], tmp_path / "run")
    about = tmp_path / "run" / "about.json"
    known = json.loads(about.read_text())
    version = known["environment"][name]
    known["environment"][name] = "1.0"
    about.write_text(json.dumps(known))
    before = contents(tmp_path / "run")
    with pytest.raises(ValueError, match=f"{name} was 1.0 and is {version}; .*Nothing was changed"):
        run(SCRIPT, tmp_path / "run")
    assert contents(tmp_path / "run") == before


def test_versions_of_packages_that_models_come_from_are_kept(tmp_path, monkeypatch):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "plugged.py").write_text(
        "from sklearn.dummy import DummyClassifier\n__version__ = '1.2'\nclass Plugged(DummyClassifier): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    plugged = pytest.importorskip("plugged")
    X, y = np.zeros((8, 1)), np.arange(8) % 2
    options = {"models": {"m": plugged.Plugged()}, "cv": 2, "scoring": "accuracy", "folder": tmp_path / "run"}
    found = compare_models(X=X, y=y, **options)
    assert found.about["environment"]["plugged"] == "1.2"
    monkeypatch.setattr(plugged, "__version__", "1.3")
    from bayesmkl._utils import definitions

    definitions.package_version.cache_clear()
    with pytest.raises(ValueError, match=r"plugged was 1.2 and is 1.3"):
        compare_models(X=X, y=y, **options)


def test_the_system_of_the_first_part_stays_on_record(begun, tmp_path):
    shutil.copytree(begun[SCRIPT][0], tmp_path / "run")
    about = tmp_path / "run" / "about.json"
    known = json.loads(about.read_text())
    known["environment"]["platform"] = "another machine"
    about.write_text(json.dumps(known))
    assert run(SCRIPT, tmp_path / "run").about["environment"]["platform"] == "another machine"
    assert json.loads(about.read_text())["environment"]["platform"] == "another machine"


def test_what_has_no_content_is_refused_where_a_folder_is_given(tmp_path):
    locked = SCRIPT.replace("\n    def kernel", "\n    lock = threading.Lock()\n\n    def kernel")
    locked = locked.replace("return scale", "return lock.locked() + scale")
    with pytest.raises(
        ValueError, match=r"`folder`: models\['mine'\].*'lock' in the closure of kernel\(\) is a lock"
    ):
        run(locked, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    found = run(locked.replace("1200", "120"))
    assert found.failures.empty
    found.save(tmp_path / "saved")
    assert Comparison.load(tmp_path / "saved").about["identity"] is None
    with pytest.raises(ValueError, match="cannot be recognized"):
        run(SCRIPT.replace("1200", "120"), tmp_path / "saved")


def test_a_folder_of_an_earlier_layout_is_read_and_not_continued(begun, tmp_path):
    shutil.copytree(begun[SCRIPT][0], tmp_path / "run")
    about = Journal(tmp_path / "run").read_about() | {"version": 2}
    del about["identity"]
    (tmp_path / "run" / "about.json").write_text(json.dumps(about))
    before = contents(tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"written by an earlier bayesmkl.*Comparison.load reads it. Nothing was"
    ):
        run(SCRIPT, tmp_path / "run")
    assert contents(tmp_path / "run") == before
    pd.testing.assert_frame_equal(Comparison.load(tmp_path / "run").cells, begun[SCRIPT][1])


def test_flags_of_rows_are_counted_as_rows():
    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    train = np.arange(12) < 8
    flags, rows = [(train, ~train)], [(np.arange(8), np.arange(-4, 0))]
    for cv in (flags, rows):
        found = compare_models({"svm": SVC()}, X, y, cv=cv, scoring="accuracy")
        assert found.cells[["n_train", "n_test"]].to_numpy().tolist() == [[8, 4]]
        assert found.test_train_ratio("data") == 0.5
