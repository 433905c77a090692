"""Which cells a folder gives back: those of the same content, and never the old number for a changed one."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import textwrap

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl._utils import definitions
from bayesmkl.evaluation import Comparison, compare_models, identity, jobs
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
    "data in the middle": ("1200), 0.0)[:", "1200), 9.0)[:"),
    "precision of data": ("[:, None]", "[:, None].astype(np.float32)"),
    "a label": ("% 3 // 2, 0)", "% 3 // 2, 1)"),
    "a fold in the middle": ("% 2, 0))", "% 2, 1))"),
    "a long parameter": ("1100), 0.0)\nm", "1100), 9.0)\nm"),
    "an edit in place": ("\nfew =", "\npoints[600] += 1.0\nfew ="),
    "the exponent in a closure": ("power(2.0)", "power(3.0)"),
    "a default argument of it": ("scale=1.0", "scale=2.0"),
    "an argument of a partial": ("width=1.5", "width=2.5"),
    "the body of a kernel": ("D)\n\n\ndef power", "D) + 1.0\n\n\ndef power"),
    "a constant of its module": ("SLOPE = 0.5", "SLOPE = 0.7"),
    "what another function returns": ("return SLOPE", "return 2.0 * SLOPE"),
    "a lambda": ("X + 1.0", "X + 2.0"),
    "the state of a callable": ("Levels(1.0, 2.0)", "Levels(1.5, 2.0)"),
    "the body of its method": ("self.levels.low", "self.levels.high"),
    "an entry of a list": ("[0.0, 1.0])", "[0.0, 1.5])"),
    "a class attribute": ("shift = 0.25", "shift = 0.5"),
    "a method of a base class": ("K.mean(axis=1)", "K.max(axis=1)"),
    "a method of the model": ("> 0.0).astype", ">= 0.1).astype"),
    "the body of a scorer": ("2 * y - 1", "3 * y - 1"),
    "a random state of the model": ("[0.0, 1.0])", "[0.0, 1.0], 7)"),
    "the type of an array": ("1100), 0.0)\nm", "1100), 0.0).astype('f4')\nm"),
    "a default argument of a lambda": ("lambda X: X + 1.0", "lambda X, by=3.0: X + by"),
    "an argument in place of a constant": ("lambda X: X + 1.0", "lambda X, SLOPE=SLOPE: X + SLOPE"),
    "the splits of 1200 rows, beyond the first 500": ("np.arange(1200) % 2", "np.arange(1200) // 500 % 2"),
    "a row in both parts": ("PredefinedSplit(middle(np.arange(1200) % 2, 0))", "[(range(0, 1200, 2), range(900))]"),
    "a mean for a sum": ("np.mean(model.decision_function(X)", "np.sum(model.decision_function(X)"),
    "an attribute of a function": ("\nX = middle", "\nslope.__dict__['factor'] = 2.0\nX = middle"),
    "an object of another class with the same values": ("class Weigh:", "class Weigh(dict):"),
    "an unlabeled order of classes": ("% 3 // 2, 0)", "% 3 // 2, 0)[::-1].copy()"),
    "another seed": ('"random_state": 0', '"random_state": 1'),
    "the code of a splitter": ("KFold(2)", "KFold(2, shuffle=True, random_state=0)"),
    "a grid in the middle": ("1100), 3.0)", "1100), 4.0)"),
    "folds of the grid": ('"inner_cv": 2', '"inner_cv": 3'),
    "the sign of what the grid chooses by": (
        "scorer(difference,",
        "scorer(difference, greater_is_better=False,",
    ),
    "what the grid chooses by": ("np.mean(predicted) -", "-np.mean(predicted) -"),
}  # fmt: skip
OF_THE_GRID = {what for what in CHANGES if "the grid" in what} | {
    "a grid in the middle",
    "the code of a splitter",
}
SAME_NUMBERS = {
    "a method of the model",
    "precision of data",
    "folds of the grid",
    "the type of an array",
    "an attribute of a function",
    "an object of another class with the same values",
}  # or nearly: nobody can tell by them


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


def without_costs(cells):
    return cells[[name for name in cells if not name.endswith(("_seconds", "_mb", "_stacks"))]]


@pytest.mark.filterwarnings("ignore:`cv` tests on samples that it trains on:UserWarning")
@pytest.mark.parametrize("what", CHANGES)
def test_changed_studies_never_get_the_old_number(begun, what, tmp_path, monkeypatch):
    old, new = CHANGES[what]
    script = SCRIPT + TUNED if what in OF_THE_GRID else SCRIPT
    folder, cells = begun[script]
    shutil.copytree(folder, tmp_path / "run")
    changed = script.replace(old, new)
    assert script.count(old) == 1
    computed, run_cell = [], jobs.run_cell
    monkeypatch.setattr(jobs, "run_cell", lambda *a: computed.append(1) or run_cell(*a))
    found = run(changed, tmp_path / "run").cells
    assert len(computed) == len(found)
    pd.testing.assert_frame_equal(without_costs(found), without_costs(run(changed).cells), check_exact=True)
    if what not in SAME_NUMBERS:
        assert len(found) != len(cells) or (found["score"] != cells["score"]).any()
    before = len(computed)
    pd.testing.assert_frame_equal(run(script, tmp_path / "run").cells, cells, check_exact=True)
    assert len(computed) == before  # they are there still


def test_names_and_what_does_not_decide_a_cell_cost_nothing(begun, tmp_path, monkeypatch):
    shutil.copytree(begun[SCRIPT][0], tmp_path / "run")
    monkeypatch.setattr(jobs, "run_cell", lambda *_: pytest.fail("computed again"))
    changed = SCRIPT.replace('"mine"', '"yours"').replace('{"score": score}', '{"mean": score}')
    found = run(changed + 'study["inner_cv"] = 3', tmp_path / "run")
    assert (found.models, found.metrics) == (["yours"], ["mean"])
    assert found.cells["mean"].tolist() == begun[SCRIPT][1]["score"].tolist()


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
def test_cells_of_other_versions_are_computed_again_and_keep_theirs(begun, tmp_path, monkeypatch, name):
    shutil.copytree(begun[SCRIPT][0], tmp_path / "run")
    known = identity.environment()
    monkeypatch.setattr(identity, "_environment", lambda: known | {name: "1.0"})
    computed, run_cell = [], jobs.run_cell
    monkeypatch.setattr(jobs, "run_cell", lambda *a: computed.append(1) or run_cell(*a))
    found = run(SCRIPT, tmp_path / "run")
    assert (len(computed), found.about["environment"][name]) == (2, "1.0")
    versions = [cell["environment"][name] for cell in cells_in(tmp_path / "run")]
    assert sorted(versions) == sorted(["1.0"] * 2 + [known[name]] * 2)


def cells_in(folder):
    return [json.loads(path.read_text()) for path in sorted((folder / "cells").glob("*.json"))]


def test_versions_of_packages_that_models_come_from_are_kept(tmp_path, monkeypatch):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "plugged.py").write_text(
        "from sklearn.dummy import DummyClassifier\n__version__ = '1.2'\nclass Plugged(DummyClassifier): pass\n"
        "def plugged_score(model, X, y): return 0.5\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    plugged = pytest.importorskip("plugged")
    X, y = np.zeros((8, 1)), np.arange(8) % 2
    models = {"m": plugged.Plugged(), "svm": SVC()}
    options = {"models": models, "cv": 2, "scoring": "accuracy", "folder": tmp_path / "run"}
    found = compare_models(X=X, y=y, **options)
    assert found.about["environment"]["plugged"] == "1.2"
    scored = options | {"models": {"svm": SVC()}, "scoring": plugged.plugged_score}
    compare_models(X=X, y=y, **scored)
    monkeypatch.setattr(plugged, "__version__", "1.3")
    definitions.package_version.cache_clear()
    computed, run_cell = [], jobs.run_cell
    monkeypatch.setattr(jobs, "run_cell", lambda job, *a: computed.extend(job.models) or run_cell(job, *a))
    compare_models(X=X, y=y, **options)
    assert computed == ["m"] * 2  # the SVM does not come from there
    assert sum(cell["environment"].get("plugged") == "1.3" for cell in cells_in(tmp_path / "run")) == 2
    compare_models(X=X, y=y, **scored)
    assert computed == ["m"] * 2 + ["svm"] * 2  # and its metric does


def test_the_source_of_a_package_that_is_being_written_counts(monkeypatch, tmp_path):
    package = tmp_path / "bayesmkl" / "evaluation"
    package.mkdir(parents=True)
    monkeypatch.setattr(identity, "__file__", str(package / "identity.py"))
    (package / "identity.py").write_text("a = 1")
    first = identity._own_source()
    (package / "identity.py").write_text("a = 2")
    assert first.startswith("+source.")
    assert identity._own_source() != first
    monkeypatch.setattr(identity, "__file__", "/usr/lib/site-packages/bayesmkl/evaluation/identity.py")
    assert identity._own_source() == ""


def test_every_system_of_the_cells_is_on_record(begun, tmp_path, monkeypatch):
    shutil.copytree(begun[SCRIPT][0], tmp_path / "run")
    known = identity.environment()
    monkeypatch.setattr(identity, "_environment", lambda: known | {"platform": "another machine"})
    found = run(
        SCRIPT.replace("middle(np.arange(1200) % 2, 0)", "middle(np.arange(1200) % 3, 0)"), tmp_path / "run"
    )
    assert found.about["environment"]["platform"] == "another machine"
    again = run(SCRIPT, tmp_path / "run")  # computed on the first
    assert again.about["environment"]["platform"] == known["platform"]


MODULE = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

LIMIT = 0.5
SEEN = []


class Above(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        SEEN.append(len(X))
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0] > LIMIT).astype(int)
"""


def test_other_processes_use_the_modules_of_this_one_or_are_refused(tmp_path, monkeypatch):
    """Models are sent by their names there: a worker that imported the module before has the earlier limit."""
    path = tmp_path / "limited.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of two sources of one second and length
    limited = importlib.import_module("limited")
    X = np.linspace(0.0, 1.0, 41)[:, None]
    study = {"X": X, "y": (X[:, 0] > 0.5).astype(int), "scoring": "accuracy", "folder": tmp_path / "run"}
    cv = [(range(1, 41, 2), range(0, 41, 2)), (range(0, 41, 2), range(1, 41, 2))]
    first = compare_models({"above": limited.Above()}, **study, cv=cv, n_jobs=2)
    assert (first.scores() == 1.0).all(axis=None)
    path.write_text(MODULE.replace("0.5", "0.8"))
    importlib.reload(limited)
    second = compare_models({"above": limited.Above()}, **study, cv=cv, n_jobs=2)
    assert second.scores().equals(
        compare_models({"above": limited.Above()}, **study | {"folder": None}, cv=cv).scores()
    )
    assert (second.scores() < 1.0).all(axis=None)
    limited.LIMIT, limited.SEEN[:] = 0.3, []
    with pytest.raises(
        ValueError, match=r"`n_jobs`: what the models use of 'limited' is not the same in a worker"
    ):
        compare_models({"above": limited.Above()}, **study, cv=cv, n_jobs=2)
    alone = compare_models({"above": limited.Above()}, **study, cv=cv)
    assert not alone.scores().equals(second.scores())


class ByName(ClassifierMixin, BaseEstimator):
    """Model that is another one where steps hand tables over."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), int(isinstance(X, pd.DataFrame)))


def test_settings_of_scikit_learn_are_those_of_the_caller(tmp_path):
    X, y = np.arange(12.0)[:, None], (np.arange(12) % 3 == 0).astype(int)
    study = {"X": X, "y": y, "cv": KFold(2), "scoring": "accuracy"}
    models = {"by name": make_pipeline(StandardScaler(), ByName())}
    arrays = compare_models(models, **study, folder=tmp_path / "run").scores().to_numpy()
    assert np.allclose(arrays, 2 / 3)
    with sklearn.config_context(transform_output="pandas"):
        assert np.allclose(compare_models(models, **study, folder=tmp_path / "run").scores(), 1 / 3)
        with joblib.parallel_config("threading"):  # which have the defaults
            assert np.allclose(compare_models(models, **study, n_jobs=2).scores(), 1 / 3)


def test_what_has_no_content_is_refused_where_a_folder_is_given_or_has_a_key(tmp_path, monkeypatch):
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
    assert all(cell["key"].startswith("no-") for cell in cells_in(tmp_path / "saved"))
    small = locked.replace("1200", "120")
    with pytest.raises(ValueError, match=r"as in `keys=\{'name': 'version 1'\}`"):
        run(small, tmp_path / "saved")
    given = run(small + "study['keys'] = {'mine': 'first'}", tmp_path / "saved")
    pd.testing.assert_frame_equal(without_costs(given.cells), without_costs(found.cells))
    monkeypatch.setattr(jobs, "run_cell", lambda *_: pytest.fail("computed again"))
    run(small + "study['keys'] = {'mine': 'first'}", tmp_path / "saved")
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        run(small + "study['keys'] = {'mine': 'second'}", tmp_path / "saved")
    with pytest.raises(
        ValueError, match=r"`keys` must name models or metrics; got 'mind'\. There are 'mine'"
    ):
        run(small + "study['keys'] = {'mind': 'first'}", tmp_path / "saved")


def test_a_folder_of_an_earlier_layout_is_read_and_not_continued(begun, tmp_path):
    shutil.copytree(begun[SCRIPT][0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "cells")
    about = Journal(tmp_path / "run").read_about() | {"version": 2}
    del about["view"]
    (tmp_path / "run" / "about.json").write_text(json.dumps(about))
    before = contents(tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"written by an earlier bayesmkl.*Comparison.load reads it. Nothing was"
    ):
        run(SCRIPT, tmp_path / "run")
    assert contents(tmp_path / "run") == before
    pd.testing.assert_frame_equal(Comparison.load(tmp_path / "run").cells, begun[SCRIPT][1])
    (tmp_path / "run" / "results.csv").rename(tmp_path / "results.csv")
    (tmp_path / "run" / "cells").mkdir()
    row = Comparison.load(begun[SCRIPT][0]).cells.to_dict("records")[1]
    (tmp_path / "run" / "cells" / "0.json").write_text(json.dumps(row))
    pd.testing.assert_frame_equal(
        Comparison.load(tmp_path / "run").cells, begun[SCRIPT][1][1:].reset_index(drop=True)
    )


def test_flags_of_rows_are_counted_as_rows():
    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    train = np.arange(12) < 8
    flags, rows = [(train, ~train)], [(np.arange(8), np.arange(-4, 0))]
    for cv in (flags, rows):
        found = compare_models({"svm": SVC()}, X, y, cv=cv, scoring="accuracy")
        assert found.cells[["n_train", "n_test"]].to_numpy().tolist() == [[8, 4]]
        assert found.test_train_ratio("data") == 0.5
