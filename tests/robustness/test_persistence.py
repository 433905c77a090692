"""Models in files: predictions survive to the last bit, nothing unknown is built, nothing half-written stays."""

from __future__ import annotations

import functools
import io
import json
import pickle
import subprocess
import sys
import textwrap
import zipfile

import families
import numpy as np
import pandas as pd
import pytest
import skops.io
from crafted import array, built, function, mapping, node, packed, plain, schema, several, type_
from scipy import sparse
from sklearn import __version__ as sklearn_version
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    TransformedTargetRegressor,
    make_column_transformer,
)
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.gaussian_process import kernels as gp
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from verdicts import assert_refused

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, persistence, save_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import Gamma, SpikeSlab
from bayesmkl.discriminative import LapMKLClassifier, UniformMKLClassifier, UniformMKLRegressor
from bayesmkl.kernels import Cosine, FromDistance, Gaussian, Laplacian, Linear, Overlap, Polynomial, Tanimoto
from bayesmkl.kernels.adapters import PAIRWISE_NAMES

KNOWN = "bayesmkl.kernels.functions.Linear"
X = np.abs(families.data(24))
LABELS, TARGET = families.labels(X, 2), families.target(X)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0.5, "u", "v")})
SHORT = families.SHORT


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def through_a_file(model, path, trusted=()):
    save_model(model, path, trusted)
    return load_model(path, trusted)


def assert_same_after_reading(model, path):
    again = through_a_file(model, path)
    found, expected = families.predictions(again), families.predictions(model)
    assert (type(again), found.keys()) == (type(model), expected.keys())
    for method in expected:
        np.testing.assert_array_equal(found[method], expected[method], err_msg=method)
    return again


# ------------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.heavy] * n.endswith("three classes")) for n in families.families()],
)
def test_every_estimator_predicts_the_same(name, path):
    model = families.fitted(families.families()[name])
    again = assert_same_after_reading(model, path)
    assert vars(again).keys() == vars(model).keys()


FORMS = {
    **{storage: ({}, {"storage": storage}) for storage in ("compressed", "float32", "streamed")},
    "landmarks, streamed": ({"landmarks": 5}, {"storage": "streamed"}),
    "normalized": ({"normalize": ("center", "spherical", "trace")}, {}),
    "prior": ({}, {"sample_prior": Gamma(2.0, 3.0), "init": "random", "random_state": 3}),
}


@pytest.mark.parametrize("name", FORMS)
def test_form_of_kernels_survives(name, path):
    of_bank, options = FORMS[name]
    model = BEMKLRegressor(families.bank(**of_bank), **SHORT, **options)
    again = assert_same_after_reading(families.fitted(lambda: model.fit(X, TARGET)), path)
    assert (again.storage_, again.kernel_bytes_) == (model.storage_, model.kernel_bytes_)


OWN_KERNELS = [
    *(Gaussian(width=2), Laplacian(gamma=0.5), Polynomial(2), Linear(), Cosine(), Tanimoto(), Overlap()),
    FromDistance(),
]
GP_KERNELS = [gp.RBF(2.0) + gp.WhiteKernel(), gp.ConstantKernel(2.0) * gp.Matern(1.0), gp.PairwiseKernel()]


@pytest.mark.parametrize("normalize", [None, "spherical", "center"])
def test_every_kernel_and_normalization_survives(normalize, path):
    names = [name for name in PAIRWISE_NAMES if normalize is None or name not in ("additive_chi2", "sigmoid")]
    bank = KernelBank(["paper", *names, *OWN_KERNELS, *GP_KERNELS], views="all+each", normalize=normalize)
    again = through_a_file(bank.fit(X), path)
    np.testing.assert_array_equal(again.row_stack(X[:5]), bank.row_stack(X[:5]))


def test_graphs_and_clipped_kernels_survive(path):
    many = families.data(120)
    model = LapMKLClassifier(KernelBank(Gaussian(width=1)), n_neighbors=4).fit(many, many[:, 0] > 0)
    again = through_a_file(model, path)
    assert sparse.issparse(model.laplacian_)
    assert (again.laplacian_ != model.laplacian_).nnz == 0
    kernel = np.cos(3.0 * X @ X.T)  # indefinite
    clipped = UniformMKLClassifier("precomputed", indefinite="clip").fit(kernel, LABELS)
    found = through_a_file(clipped, path).decision_function(kernel)
    np.testing.assert_array_equal(found, clipped.decision_function(kernel))


def test_parameters_survive_and_the_model_is_left_alone(path):
    generator = np.random.default_rng(3)
    generator.normal(size=5)
    first = BEMKLRegressor(KernelBank("rbf"), **SHORT).fit(X, TARGET)
    model = BEMKLRegressor(
        KernelBank("rbf"), kernel_prior=SpikeSlab(0.5), init=first.posterior_, random_state=generator
    )
    model.outcomes_ = tuple(Outcome)
    again = through_a_file(model, path)
    assert again.outcomes_ == model.outcomes_ == tuple(Outcome)
    assert again.kernel_prior == SpikeSlab(0.5)
    np.testing.assert_array_equal(again.random_state.normal(size=7), generator.normal(size=7))
    again, model = (m.set_params(kernel_prior="nonsparse", random_state=0) for m in (again, model))
    assert again.fit(X, TARGET).elbo_ == model.fit(X, TARGET).elbo_


# ------------------------------------------------------------------------- what scikit-learn puts around a model


def classifier():
    return UniformMKLClassifier(KernelBank("linear"))


def regressor():
    return UniformMKLRegressor(KernelBank("linear"))


AROUND = {
    "calibrated": CalibratedClassifierCV(classifier(), cv=2),
    "search": GridSearchCV(classifier(), {"C": [1.0, 2.0]}, cv=2),
    "target transformed": TransformedTargetRegressor(regressor(), func=np.sinh, inverse_func=np.arcsinh),
    "best by chi-square": make_pipeline(SelectKBest(chi2, k=2), classifier()),
    "columns by type": make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
            (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["c"]),
        ),
        classifier(),
    ),
}


@pytest.mark.parametrize("name", AROUND)
def test_model_inside_another_predicts_the_same(name, path):
    model = AROUND[name]
    rows = FRAME if name == "columns by type" else X
    families.fitted(lambda: model.fit(rows, TARGET if name == "target transformed" else LABELS))
    again = families.fitted(lambda: through_a_file(model, path))
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


# --------------------------------------------------------------------------------------------- what is not saved


def importable_kernel(A, B):
    return A @ B.T


def local_kernel():
    def kernel(A, B):
        return A @ B.T

    return kernel


def script_kernel():
    kernel = local_kernel()
    kernel.__qualname__, kernel.__module__ = "kernel", "__main__"
    return kernel


class Holder:
    """A class one level down."""

    class Inner:
        pass


@pytest.mark.parametrize(
    ("part", "place", "what"),
    [
        (KernelBank([Linear(), lambda A, B: A @ B.T]), "model.kernels.kernels[1]", "a lambda"),
        (KernelBank(local_kernel()), "model.kernels.kernels", "'local_kernel.<locals>.kernel'"),
        (KernelBank(script_kernel()), "model.kernels.kernels", "'kernel' of a script or notebook"),
        (KernelBank(functools.partial(local_kernel(), B=1)), "kernels.func", "inside another one"),
        (KernelBank(views={"a": [Holder.Inner]}), "model.kernels.views['a'][0]", "'Holder.Inner'"),
        (KernelBank(Holder.Inner()), "model.kernels.kernels", "an object of the class"),
        (KernelBank(FromDistance(pd.DataFrame([[0.0]]))), "kernels.distance", "pandas DataFrame"),
        (KernelBank(json), "model.kernels.kernels", "the module 'json', which no file keeps"),
        (io.StringIO(), "skops fails", "Pass parameters as numbers"),
    ],
)
def test_what_cannot_be_found_again_is_refused_by_name(part, place, what, path):
    path.write_text("an earlier model")
    assert_refused(lambda: save_model(BEMKLClassifier(part), path), "`model` cannot be saved", place, what)
    assert [p.name for p in path.parent.iterdir()] == ["model.skops"]
    assert path.read_text() == "an earlier model"


def test_functions_load_only_when_trusted(path):
    bank, name = KernelBank(["linear", importable_kernel]).fit(X), f"{__name__}.importable_kernel"
    remedy = f"save_model(model, path, trusted=['{name}'])"
    assert_refused(lambda: save_model(bank, path), "`model`", "not trusted", remedy)
    assert not path.exists()
    save_model(bank, path, trusted=[importable_kernel])
    for trusted in ([], ["os.system"], [f"{name} "]):
        refused = assert_refused(lambda trusted=trusted: load_model(path, trusted), "`path`", "not trusted")
        assert f"load_model(path, trusted=['{name}'])" in str(refused)
    for trusted in ([name], [importable_kernel]):
        np.testing.assert_array_equal(load_model(path, trusted).row_stack(X), bank.row_stack(X))
    for trusted in (name, Linear, True, [3], [["os.system"]]):
        assert_refused(lambda trusted=trusted: save_model(bank, path, trusted), "`trusted`")
        assert_refused(lambda trusted=trusted: load_model(path, trusted), "`trusted`")


def test_places_that_are_no_file_are_named(tmp_path):
    for where, says in ((tmp_path / "nowhere" / "m.skops", "does not exist"), (tmp_path, "is a folder")):
        assert_refused(lambda where=where: save_model(Linear(), where), says, kinds=ValueError)
        assert_refused(
            lambda where=where: load_model(where), "`path` must be a model file", kinds=FileNotFoundError
        )
    assert_refused(
        lambda: save_model(Linear(), None), "`path` must be a str or a path; got None", kinds=TypeError
    )


# ---------------------------------------------------------------------------------------------- what is not read


def saved_bytes(path):
    save_model(KernelBank("rbf").fit(np.eye(40)), path)
    return path.read_bytes()


def flipped(data):
    data, position = bytearray(data), data.index(b"NUMPY") + 400
    data[position] ^= 1
    return bytes(data)


def header_with(**changes):
    return skops.io.dumps(persistence._header() | {"model": None} | changes)


OTHERS = {
    "nothing": (lambda d: b"", "not a readable model file"),
    "half of it": (lambda d: d[: len(d) // 2], "not a readable model file"),
    "a flipped bit": (flipped, "not a readable model file"),
    "a pickle": (lambda d: pickle.dumps([1]), "not a readable model file"),
    "deep": (lambda d: packed('{"a":' * 10**5 + "1" + "}" * 10**5), "not a readable model file"),
    "a bomb": (lambda d: packed(schema(plain("x" * 10**7)), compression=zipfile.ZIP_DEFLATED), "more than its size"),
    "an old protocol": (lambda d: packed(schema(plain("x"), protocol=1)), "protocol 1 of skops"),
    "skops": (lambda d: skops.io.dumps(StandardScaler()), "must be a file that `save_model` wrote"),
    "a file of 0.2": (
        lambda d: skops.io.dumps({"format": persistence.FORMAT, "version": 9, "package": "0.2.0", "model": None}),
        "layout 9, written by bayesmkl 0.2.0, and this version reads layout 13: fit again with this version",
    ),
    "a newer layout": (lambda d: header_with(version=99, bayesmkl="7.0"), "layout 99, written by bayesmkl 7.0,"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_model_is_refused(name, path):
    make, says = OTHERS[name]
    path.write_bytes(make(saved_bytes(path)))
    assert_refused(lambda: load_model(path), "`path`", says, str(path))


def test_another_scikit_learn_is_told(path):
    save_model(make_pipeline(StandardScaler(), UniformMKLClassifier()), path)
    ours = json.dumps(sklearn_version)
    path.write_bytes(packed(zipfile.ZipFile(path).read("schema.json").decode().replace(ours[1:-1], "1.3.0")))
    with pytest.warns(InconsistentVersionWarning, match=r"from version 1\.3\.0"):
        load_model(path)


# Parts that do something when they are built, given the arguments of a shell.
ATTACKS = {
    "function": lambda call: function("os.system"),
    "builtin as a type": lambda call: type_("builtins.eval"),
    "object": lambda call: built("subprocess.Popen", args=plain("touch")),
    "constructor": lambda call: node("ConstructorFromReduceNode", "os.system", content=call),
    "constructor of a known module": lambda call: node(
        "ConstructorFromReduceNode", "bayesmkl.persistence.os", content=call
    ),
    "function of a known module": lambda call: function("bayesmkl.persistence.load_model"),
    "partial": lambda call: node(
        "PartialNode",
        "functools.partial",
        content={
            "func": function("os.system"),
            "args": call,
            "kwds": mapping({}),
            "namespace": plain(None),
        },
    ),
    "operator": lambda call: node(
        "OperatorFuncNode", "operator.call", attrs=several(function("os.system"), *call["content"])
    ),
    "method": lambda call: node("MethodNode", KNOWN, content={"func": "__call__", "obj": built("os.system")}),
    "keys": lambda call: mapping({"id": plain(1)}, keys=several(function("os.system"), kind="list")),
    "dictionary": lambda call: mapping({}, name="subprocess.Popen"),
    "list": lambda call: several(plain("id"), kind="list") | {"__module__": "os", "__class__": "system"},
    "array of another class": lambda call: node("NdArrayNode", "os.system", type="numpy", file="1.npy"),
    "loss": lambda call: node("LossNode", "os.system", content=mapping({})) | {"__reduce__": {"args": call}},
    "attribute of a known type": lambda call: built(KNOWN, function=function("os.system")),
    "function of scikit-learn": lambda call: function("sklearn.datasets.load_files"),
    "function of NumPy": lambda call: function("numpy.load"),
    "pickle in an array": lambda call: node("NdArrayNode", "numpy.ndarray", type="numpy", file="2.npy"),
    "unknown kind": lambda call: node("EvalNode", "builtins.str", content="1"),
}


class Explosive:
    """Runs a command when it is unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        import os

        return os.system, (self.command,)


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_and_nothing_runs(name, path):
    marker = path.with_name("marker")
    objects = np.array([Explosive(f"touch {marker}")], dtype=object)
    entries = {"1.npy": array(np.zeros(2)), "2.npy": array(objects, allow_pickle=True)}
    part = ATTACKS[name](several(plain(f"touch {marker}")))
    for model in (part, built("bayesmkl.kernels.bank.KernelBank", kernels=several(part, kind="list"))):
        path.write_bytes(packed(schema(model), entries))
        assert_refused(lambda: load_model(path, trusted=["numpy.ndarray", KNOWN, "os", "eval"]), "`path`")
        assert not marker.exists()


def test_the_attacks_would_work_if_they_were_trusted(path):
    marker = path.with_name("marker")
    call = several(plain(f"touch {marker}"))
    path.write_bytes(packed(schema(ATTACKS["constructor"](call))))
    load_model(path, trusted=["os.system"])
    assert marker.exists()
    path.write_bytes(packed(schema(built(KNOWN, x=several(several(plain(1), kind="list"), kind="list")))))
    assert load_model(path).x == [[1]]


HOOK = """
import pickle, sys
from pathlib import Path
import bayesmkl
seen, watched = [], ()
sys.addaudithook(lambda event, arguments: seen.append((event, arguments)) if event in watched else None)
bayesmkl.load_model(sys.argv[1])  # libraries do what they like when they are imported
watched = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")
bayesmkl.load_model(sys.argv[1])
assert not seen, seen
pickle.loads(pickle.dumps(Path("x")))
assert seen, "the hook does not work"
"""


def test_reading_a_file_unpickles_and_runs_nothing(path):
    save_model(families.fitted(families.families()["pipeline"]), path)
    command = [sys.executable, "-c", textwrap.dedent(HOOK), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
