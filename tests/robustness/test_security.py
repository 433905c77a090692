"""Files from strangers: nothing in them runs, nothing is built that was not named, nothing fills the memory."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import textwrap
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
import written
from crafted import (
    array,
    built,
    function,
    graph,
    header,
    mapping,
    node,
    packed,
    plain,
    schema,
    several,
    type_,
)
from verdicts import assert_refused

import bayesmkl
from bayesmkl import BEMKLClassifier, KernelBank, load_model, save_model
from bayesmkl.kernels import Linear
from bayesmkl.persistence import files as model_files
from bayesmkl.persistence import known_types

pytestmark = pytest.mark.family("hostile files")

PACKAGE = Path(bayesmkl.__file__).parent
KNOWN = "bayesmkl.kernels.functions.Linear"


@pytest.fixture
def marker(tmp_path):
    """Return a file that an attack makes if it works."""
    return tmp_path / "marker"


class Explosive:
    """Touches a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


ZEROS = array(np.zeros(2))


def call_with(marker):
    return several(plain(f"touch {marker}"))


def python(marker):
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def disguised(part, name):
    module, _, cls = name.rpartition(".")
    return part | {"__module__": module, "__class__": cls}


def generator(name):
    state = mapping({"bit_generator": plain(name), "state": plain({})})
    content = {"bit_generator": state, "seed_seq": mapping({})}
    return node("RandomGeneratorNode", "numpy.random._generator.Generator", content=content)


def method(name, owner, func):
    return node("MethodNode", name, content={"func": func, "obj": owner})


def operator(name, *attrs):
    return node("OperatorFuncNode", name, attrs=several(*attrs))


SCORE = "sklearn.feature_selection._univariate_selection.f_classif"
FOLDS = "sklearn.model_selection._split.KFold"
TRIPLET = "sklearn.impute._iterative._ImputerTriplet"
WRONG_KINDS = {
    "constructor": lambda name: node("ConstructorFromReduceNode", name, content=several(plain(1))),
    "loss": lambda name: (
        node("LossNode", name, content=mapping({})) | {"__reduce__": {"args": several(plain(1))}}
    ),
    "partial": lambda name: node("PartialNode", name, content={}),
    "tree": lambda name: node("TreeNode", name, content=mapping({})) | {"__reduce__": {"args": several()}},
    "list": lambda name: disguised(several(plain(1), kind="list"), name),
    "array": lambda name: node("NdArrayNode", name, type="numpy", file="1.npy"),
    "operator": lambda name: operator(name, plain(1)),
}

# Name of an attack -> the part that carries it out, given the marker, and what must be trusted for it to work (None
# where not even that is enough). That it works then shows that the attack is a real one.
ATTACKS = {
    "function": (lambda m: function("os.system"), None),
    "builtin as a type": (lambda m: type_("builtins.eval"), None),
    "object of a class": (lambda m: built("subprocess.Popen", args=plain("touch")), None),
    "constructor": (
        lambda m: node("ConstructorFromReduceNode", "os.system", content=call_with(m)),
        ["os.system"],
    ),
    "constructor that evaluates": (
        lambda m: node("ConstructorFromReduceNode", "builtins.eval", content=several(plain(python(m)))),
        ["builtins.eval"],
    ),
    "partial": (
        lambda m: node(
            "PartialNode",
            "functools.partial",
            content={
                "func": function("os.system"),
                "args": call_with(m),
                "kwds": mapping({}),
                "namespace": plain(None),
            },
        ),
        None,
    ),
    "operator": (
        lambda m: operator("operator.call", function("os.system"), plain(f"touch {m}")),
        ["operator.call", "os.system"],
    ),
    "operator in the clothes of a kernel": (
        lambda m: operator("bayesmkl.kernels.functions.call", function("os.system")),
        None,
    ),
    "method of a module's type": (lambda m: method("pathlib.Path", built("pathlib.Path"), "touch"), None),
    "method in the clothes of a kernel": (lambda m: method(KNOWN, built("os.system"), "__call__"), None),
    "method of a known type": (lambda m: method(KNOWN, built(KNOWN), "__init_subclass__"), None),
    "keys made by a function": (
        lambda m: mapping({python(m): plain(1)}, keys=several(type_("builtins.eval"), kind="list")),
        ["builtins.eval"],
    ),
    "keys made by a function as a function": (
        lambda m: mapping({f"touch {m}": plain(1)}, keys=several(function("os.system"), kind="list")),
        ["os.system"],
    ),
    "dictionary of another class": (lambda m: mapping({}, name="subprocess.Popen"), None),
    "list of another class": (
        lambda m: disguised(several(*[plain(c) for c in python(m)], kind="list"), "builtins.exec"),
        None,
    ),
    "set of another class": (lambda m: disguised(several(plain("id"), kind="set"), "os.system"), None),
    "tuple of another class": (lambda m: disguised(several(plain("id")), "os.posix_spawn"), None),
    "default of a dictionary": (
        lambda m: node(
            "DefaultDictNode",
            "collections.defaultdict",
            content={"main": mapping({}), "default_factory": function("os.system")},
        ),
        None,
    ),
    "array of another class": (
        lambda m: node("NdArrayNode", "os.system", type="numpy", file="1.npy"),
        None,
    ),
    "array with items": (
        lambda m: node(
            "NdArrayNode",
            "numpy.ndarray",
            type="json",
            content=[function("os.system")],
            shape=several(plain(1)),
        ),
        None,
    ),
    "masked array with parts": (
        lambda m: node(
            "MaskedArrayNode",
            "numpy.ma.MaskedArray",
            content={"data": function("os.system"), "mask": plain(1)},
        ),
        None,
    ),
    "generator of another name": (lambda m: generator("seed"), None),
    "state of another class": (lambda m: node("RandomStateNode", "os.system", content=mapping({})), None),
    "loss of scikit-learn": (
        lambda m: node("LossNode", "os.system", content=mapping({})) | {"__reduce__": {"args": call_with(m)}},
        None,
    ),
    "tree of scikit-learn": (
        lambda m: (
            node("TreeNode", "sklearn.tree._tree.Tree", content=mapping({}))
            | {"__reduce__": {"args": several()}}
        ),
        None,
    ),
    "attribute of a known type": (lambda m: built(KNOWN, function=function("os.system")), None),
    "attribute of an estimator of scikit-learn": (
        lambda m: built("sklearn.preprocessing._data.StandardScaler", transform=function("os.system")),
        None,
    ),
    "type inside a known module": (lambda m: function("bayesmkl.persistence.files.os"), None),
    "function of a known module": (lambda m: function("bayesmkl.persistence.files.load_model"), None),
    "known name with an end": (lambda m: built(f"{KNOWN}Evil"), None),
    "type below a known name": (lambda m: type_(f"{KNOWN}.mro"), None),
    "function of scikit-learn": (lambda m: function("sklearn.datasets.load_files"), None),
    "module of scikit-learn": (lambda m: built("sklearn.utils.os"), None),
    "function of NumPy that is no ufunc": (lambda m: function("numpy.load"), None),
    "function of SciPy's modules": (lambda m: function("scipy.special.os"), None),
    **{
        f"{kind} of a name that other kinds may have: {name}": (
            lambda m, kind=kind, name=name: WRONG_KINDS[kind](name),
            None,
        )
        for name in ("numpy.dtype", "numpy.mean", "sklearn.utils._bunch.Bunch", SCORE, FOLDS)
        for kind in ("constructor", "loss", "partial", "tree", "list", "array", "operator")
    },
    "tuple of a module of scikit-learn": (
        lambda m: disguised(several(plain("id")), "sklearn.utils.os"),
        None,
    ),
    "tuple of a function of scikit-learn": (
        lambda m: disguised(several(plain("x")), "sklearn.datasets.load_files"),
        None,
    ),
    "tuple of an estimator": (lambda m: disguised(several(plain("x")), "sklearn.pipeline.Pipeline"), None),
    "tuple of a module that is not there": (
        lambda m: disguised(several(plain("x")), "sklearn.nothing.Evil"),
        None,
    ),
    "tuple of a module that does something": (
        lambda m: disguised(several(plain("x")), "sklearn.experimental.enable_iterative_imputer.Evil"),
        None,
    ),
    "tuple of one's own": (lambda m: disguised(several(plain("x")), "inspect.ArgSpec"), None),
    "object of the class of a tuple": (
        lambda m: several(disguised(several(*[plain(1)] * 3), TRIPLET), built(TRIPLET)),
        None,
    ),
    "function of the class of a tuple": (
        lambda m: several(disguised(several(*[plain(1)] * 3), TRIPLET), function(TRIPLET)),
        None,
    ),
    "object of a kind of number": (lambda m: several(type_("numpy.number"), built("numpy.number")), None),
    "constructor of a kind of number": (
        lambda m: several(
            type_("builtins.object"),
            node("ConstructorFromReduceNode", "builtins.object", content=several()),
        ),
        None,
    ),
    "array of any object's type": (
        lambda m: several(
            type_("builtins.object"), node("NdArrayNode", "builtins.object", type="numpy", file="1.npy")
        ),
        None,
    ),
    "type of numbers from elsewhere": (lambda m: type_("numpy.memmap"), None),
    "partial of another class": (
        lambda m: node(
            "PartialNode",
            "functools.partialmethod",
            content={
                "func": function("numpy.log"),
                "args": several(),
                "kwds": mapping({}),
                "namespace": plain(None),
            },
        ),
        None,
    ),
    "score as an object": (lambda m: built(SCORE), None),
    "score as a type": (lambda m: type_(SCORE), None),
    "folds as a function": (lambda m: function(FOLDS), None),
    "dictionary of a function": (lambda m: mapping({}, name=SCORE), None),
    "method of folds": (lambda m: method(FOLDS, built(FOLDS), "split"), None),
    "number type of objects": (
        lambda m: node(
            "DTypeNode",
            "numpy.dtype",
            content=node("NdArrayNode", "numpy.ndarray", type="numpy", file="2.npy"),
        ),
        None,
    ),
    "number type of another class": (
        lambda m: node("DTypeNode", "os.system", content=node("NdArrayNode", "numpy.ndarray")),
        None,
    ),
    "number type made by a function": (
        lambda m: node(
            "DTypeNode",
            "numpy.dtype",
            content=node("ConstructorFromReduceNode", "os.system", content=call_with(m)),
        ),
        ["os.system"],
    ),
    "unknown kind": (lambda m: node("EvalNode", "builtins.str", content=python(m)), None),
    "part of an old protocol": (
        lambda m: node(
            "FunctionNode",
            "builtins.str",
            content={"module_path": "os", "function": "system"},
        ),
        None,
    ),
    "reference to nothing": (lambda m: node("CachedNode", "builtins.str"), None),
    "kind that is no text": (
        lambda m: {"__loader__": ["FunctionNode"], "__module__": "os", "__class__": "system"},
        None,
    ),
    "no module": (lambda m: {"__loader__": "FunctionNode", "__module__": None, "__class__": "eval"}, None),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_and_nothing_runs(name, marker, tmp_path):
    make, works_with = ATTACKS[name]
    path = tmp_path / "model.skops"
    objects = array(np.array([Explosive(marker)], dtype=object), allow_pickle=True)
    path.write_bytes(packed(schema(make(marker)), {"1.npy": ZEROS, "2.npy": objects}))
    assert_refused(lambda: load_model(path), "`path`")
    assert_refused(lambda: load_model(path, trusted=["numpy.ndarray", KNOWN, "os", "eval"]), "`path`")
    assert not marker.exists()
    if works_with is not None:
        with suppress(ValueError):  # what comes out is no model
            load_model(path, trusted=works_with)
        assert marker.exists(), "this would not have been an attack"


@pytest.mark.parametrize("place", ["pipeline", "bank", "list", "array", "keys"])
def test_attack_is_found_wherever_it_is(place, marker, tmp_path):
    attack = node("ConstructorFromReduceNode", "os.system", content=call_with(marker))
    places = {
        "pipeline": built("sklearn.pipeline.Pipeline", steps=several(several(plain("a"), attack))),
        "bank": built("bayesmkl.kernels.bank.KernelBank", kernels=several(built(KNOWN, x=attack))),
        "list": several(*[plain(i) for i in range(50)], several(attack, kind="set"), kind="list"),
        "array": node("NdArrayNode", "numpy.ndarray", type="json", content=[attack], shape=several(plain(1))),
        "keys": mapping({"a": plain(1)}, keys=several(attack, kind="list")),
    }
    path = tmp_path / "model.skops"
    path.write_bytes(packed(schema(places[place])))
    assert_refused(lambda: load_model(path), "`path`", "os.system", "not trusted")
    assert not marker.exists()


@pytest.mark.parametrize("protocol", [0, 1, -1, True, "2", None, 2.0, [2]])
def test_other_protocols_are_refused(protocol, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(packed(schema(plain("x"), protocol=protocol)))
    assert_refused(lambda: load_model(path), "`path`")


@pytest.mark.parametrize("trusted", ["os.system", Linear, True, 3, [3], [None], [["os.system"]]])
def test_trust_is_a_list_of_names(trusted, tmp_path):
    save_model(Linear(), tmp_path / "model.skops")
    assert_refused(lambda: load_model(tmp_path / "model.skops", trusted=trusted), "`trusted`")


@pytest.mark.parametrize("word", ["*", "os", "os.*", "system", "os.syste", "os.system ", "OS.SYSTEM", ""])
def test_only_exact_names_are_trusted(word, marker, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(
        packed(schema(node("ConstructorFromReduceNode", "os.system", content=call_with(marker))))
    )
    assert_refused(lambda: load_model(path, trusted=[word]), "`path`", "os.system")
    assert not marker.exists()


def with_array(content, name="1.npy"):
    return packed(
        schema(built(KNOWN, x=node("NdArrayNode", "numpy.ndarray", type="numpy", file=name))), {name: content}
    )


def with_graph(content):
    part = node("SparseMatrixNode", "scipy.sparse._csr.csr_array", type="scipy", file="1.npz")
    return packed(schema(built(KNOWN, x=part)), {"1.npz": content})


def test_pickles_are_never_read(marker, tmp_path):
    hidden = np.array([Explosive(marker)], dtype=object)
    path = tmp_path / "model.skops"
    joblib.dump(Explosive(marker), tmp_path / "dumped")
    parts = {"data": array(hidden, allow_pickle=True), "format": array(np.array(b"csr"))}
    for content in (
        pickle.dumps(Explosive(marker)),
        (tmp_path / "dumped").read_bytes(),
        array(hidden, allow_pickle=True),
        with_array(array(hidden, allow_pickle=True)),
        with_array(pickle.dumps(Explosive(marker))),
        with_graph(graph(**parts)),
        with_graph(pickle.dumps(Explosive(marker))),
        packed(pickle.dumps(Explosive(marker))),
    ):
        path.write_bytes(content)
        assert_refused(lambda: load_model(path), "`path` is not a readable model file")
        assert not marker.exists()
    pickle.loads(pickle.dumps(Explosive(marker)))
    assert marker.exists(), "this would not have been an attack"


def repacked(data, change):
    """Return an archive with the same entries, changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for entry in old.infolist():
            change(new, entry, old.read(entry))
    return buffer.getvalue()


def under(name):
    return packed(schema(plain("x")), {name: ZEROS})


def twice():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repacked(
            packed(schema(plain("x"))),
            lambda new, entry, content: (new.writestr(entry, content), new.writestr(entry, b"{}")),
        )


def overlapping():
    """The directory of the archive names the same bytes many times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema(plain("x"))))
        archive.writestr("0.npy", bytes(10**4))
        for i in range(1, 100):
            again = copy.copy(archive.getinfo("0.npy"))
            again.filename = f"{i}.npy"
            archive.filelist.append(again)
    return buffer.getvalue()


def lying(size):
    """An array in a graph that states to unpack to less than it does."""
    content = graph(data=header((size,), content=bytes(8 * size)))
    entry = zipfile.ZipFile(io.BytesIO(content)).infolist()[0]
    short = struct.pack("<I", 500)
    return content.replace(struct.pack("<I", entry.file_size), short)


def deep(levels):
    return '{"a":' * levels + "1" + "}" * levels


def deep_model(levels):
    """Lists in lists, written by hand: Python's own writer does not go so deep."""
    start = '{"__loader__":"ListNode","__module__":"builtins","__class__":"list","__id__":%d,"content":['
    model = "".join(start % (10**6 + i) for i in range(levels)) + json.dumps(plain(1)) + "]}" * levels
    return packed(json.dumps(schema("MODEL")).replace('"MODEL"', model))


ARCHIVES = {
    "bomb": lambda: packed(schema(plain("x" * 10**7)), compression=zipfile.ZIP_DEFLATED),
    "bomb in an entry": lambda: packed(
        schema(plain("x")), {"1.npy": bytes(10**7)}, compression=zipfile.ZIP_DEFLATED
    ),
    "compressed by bzip2": lambda: packed(schema(plain("x")), compression=zipfile.ZIP_BZIP2),
    "compressed by LZMA": lambda: packed(schema(plain("x")), compression=zipfile.ZIP_LZMA),
    "overlapping entries": overlapping,
    "entry above the folder": lambda: under("../evil.npy"),
    "entry with a path": lambda: under("a/b.npy"),
    "absolute entry": lambda: under("/etc/evil"),
    "entry of a Windows path": lambda: under("..\\evil.npy"),
    "entry of a drive": lambda: under("C:evil"),
    "hidden entry": lambda: under(".evil"),
    "entry twice": twice,
    "array used twice": lambda: packed(
        schema(
            several(*[node("NdArrayNode", "numpy.ndarray", type="numpy", file="1.npy") for _ in range(100)])
        ),
        {"1.npy": array(np.zeros(1000))},
    ),
    "array that is not there": lambda: (
        with_array(ZEROS)[:0]
        + packed(schema(node("NdArrayNode", "numpy.ndarray", type="numpy", file="9.npy")))
    ),
    "array outside": lambda: packed(
        schema(node("NdArrayNode", "numpy.ndarray", type="numpy", file="../../x.npy"))
    ),
    "name of an array that is a number": lambda: packed(
        schema(node("NdArrayNode", "numpy.ndarray", type="numpy", file=3))
    ),
    "array larger than said": lambda: with_array(header((2,), content=bytes(80))),
    "array smaller than said": lambda: with_array(header((10**12,), content=bytes(80))),
    "array of negative length": lambda: with_array(header((-5,), content=bytes(80))),
    "array of objects": lambda: with_array(header((2,), descr="|O", content=bytes(16))),
    "array of an unknown type": lambda: with_array(header((2,), descr="evil", content=bytes(16))),
    "header that is code": lambda: with_array(header((2,)).replace(b"'<f8'", b"exit()", 1) + bytes(16)),
    "graph that is a bomb": lambda: with_graph(graph(data=header((10**7,), content=bytes(8 * 10**7)))),
    "graph that lies about its size": lambda: with_graph(lying(10**5)),
    "graph with other entries": lambda: with_graph(graph(evil=ZEROS)),
    "graph with paths": lambda: with_graph(graph(**{"../data": ZEROS})),
    "graph without arrays": lambda: with_graph(graph()),
    "graph with a short row": lambda: with_graph(
        graph(
            format=array(np.array(b"csr")),
            shape=array(np.array([5, 5])),
            data=array(np.ones(3)),
            indices=array(np.array([0, 1, 99])),
            indptr=array(np.array([0, 1, 2, 3, 3])),
        )
    ),
    "no description": lambda: packed({}).replace(b"schema.json", b"schemx.json"),
    "description of nothing": lambda: packed({}),
    "description that is a list": lambda: packed([]),
    "description that is a number": lambda: packed("7"),
    "description that is no JSON": lambda: packed("{"),
    "description that is no text": lambda: packed(b"\xff\xfe\x00"),
    "description with a key twice": lambda: packed(
        json.dumps(schema(plain("x"))).replace('"protocol"', '"protocol": 2, "protocol"')
    ),
    "deep description": lambda: packed(deep(100_000)),
    "deep model": lambda: deep_model(20_000),
    "no model": lambda: packed(mapping({"format": plain("bayesmkl-model")}) | {"protocol": 2}),
    "another format": lambda: packed(mapping({"format": plain("x"), "model": plain(1)}) | {"protocol": 2}),
    "layout that is no number": lambda: packed(schema(plain("x"), version="two")),
    "layout zero": lambda: packed(schema(plain("x"), version=0)),
    "newer layout": lambda: packed(schema(plain("x"), version=10**9)),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ARCHIVES)
def test_archive_that_no_model_would_make_is_refused(name, tmp_path):
    path = tmp_path / "folder" / "model.skops"
    path.parent.mkdir()
    path.write_bytes(ARCHIVES[name]())
    error = assert_refused(lambda: load_model(path), "`path`")
    assert len(str(error)) < 900
    assert [p.name for p in tmp_path.rglob("*")] == ["folder", "model.skops"]


def test_the_archives_are_fine_without_their_fault(tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(packed(schema(built(KNOWN))))
    assert type(load_model(path)) is Linear
    path.write_bytes(with_array(ZEROS))
    np.testing.assert_array_equal(load_model(path).x, np.zeros(2))
    lists = packed(schema(built(KNOWN, x=several(several(plain(1), kind="list"), kind="list"))))
    path.write_bytes(lists)
    assert load_model(path).x == [[1]]


def test_memory_is_asked_for_before_it_is_taken(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    save_model(KernelBank("rbf").fit(np.eye(60)), path)
    size = path.stat().st_size
    for left in (1000, size, 2 * size + 1):
        monkeypatch.setattr(model_files, "available_memory", lambda left=left: left)
        assert_refused(lambda: load_model(path), "`path`", "available", kinds=MemoryError)
    monkeypatch.setattr(model_files, "available_memory", lambda: 1000 * size)
    load_model(path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device", "link to nothing", "link to itself"])
def test_what_is_no_file_is_not_read(kind, tmp_path):
    path = tmp_path / "model.skops"
    {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link to a device": lambda: path.symlink_to("/dev/zero"),
        "link to nothing": lambda: path.symlink_to(tmp_path / "nowhere"),
        "link to itself": lambda: path.symlink_to(path),
    }[kind]()
    assert_refused(lambda: load_model(path), "`path`", kinds=(ValueError, OSError))


def test_saving_replaces_a_link_and_not_what_it_points_to(tmp_path):
    (tmp_path / "precious").write_text("thesis")
    (tmp_path / "model.skops").symlink_to(tmp_path / "precious")
    save_model(Linear(), tmp_path / "model.skops")
    assert (tmp_path / "precious").read_text() == "thesis"
    assert not (tmp_path / "model.skops").is_symlink()
    assert type(load_model(tmp_path / "model.skops")) is Linear


# ------------------------------------------------------------------------------------- models whose parts do not fit


def small_model():
    X = np.random.default_rng(0).normal(size=(12, 3))
    model = BEMKLClassifier(KernelBank(["rbf", "linear"]), max_iter=3, tol=0.0, intermediate_scale=1.0)
    return model.fit(X, X[:, 0] > 0), X


def _drop(owner, name):
    return lambda model: delattr(owner(model), name)


def _cut(owner, name):
    def change(model):
        values = getattr(owner(model), name)
        setattr(owner(model), name, values[..., :-1] if isinstance(values, np.ndarray) else values[:-1])

    return change


def _set(owner, name, value):
    return lambda model: setattr(owner(model), name, value)


def itself(model):
    return model


def its_bank(model):
    return model.kernel_bank_


CHANGES = {
    **{f"no {name}": _drop(itself, name) for name in ("kernels", "max_iter", "tol", "predictive")},
    **{
        f"no {name}": _drop(itself, name)
        for name in ("posterior_", "classes_", "n_kernels_in_", "dual_coef_")
    },
    **{f"bank without {name}": _drop(its_bank, name) for name in ("X_train_", "kernels_", "views_", "views")},
    **{f"short {name}": _cut(itself, name) for name in ("kernel_names_", "kernel_weights_", "dual_coef_")},
    **{
        f"bank with short {name}": _cut(its_bank, name)
        for name in ("X_train_", "kernels_", "normalizers_", "kernel_names_", "kernel_views_")
    },
    "text for numbers": _set(itself, "dual_coef_", np.array(["a"] * 12)),
    "posterior of another kind": _set(itself, "posterior_", "x"),
    "no bank": _set(itself, "kernel_bank_", "precomputed"),
    "samples as text": lambda model: setattr(
        its_bank(model), "X_train_", its_bank(model).X_train_.astype(str)
    ),
    "view out of range": lambda model: setattr(
        its_bank(model), "views_", [view._replace(columns=np.array([7])) for view in its_bank(model).views_]
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", CHANGES)
def test_model_whose_parts_do_not_fit_together_is_refused(name, tmp_path):
    model, _ = small_model()
    CHANGES[name](model)
    path = tmp_path / "model.skops"
    assert_refused(lambda: save_model(model, path), "`model` cannot be saved", "`load_model` would refuse it")
    assert not path.exists()
    path.write_bytes(model_files._packed(model))
    assert_refused(lambda: load_model(path), "`path`", "save the model again")


def test_model_in_a_pipeline_is_looked_at_too(tmp_path):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    _, X = small_model()
    model = make_pipeline(
        StandardScaler(), BEMKLClassifier(KernelBank("rbf"), max_iter=2, tol=0.0, intermediate_scale=1.0)
    )
    model.fit(X, X[:, 0] > 0)
    del model[-1].posterior_
    path = tmp_path / "model.skops"
    assert_refused(lambda: save_model(model, path), "`model`", "posterior_")
    path.write_bytes(model_files._packed(model))
    assert_refused(lambda: load_model(path), "`path`", "posterior_")


HOOK = """
import sys
from pathlib import Path
import pandas as pd
from typer.testing import CliRunner
import bayesmkl
from bayesmkl.cli import app
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.posterior import load_posterior

work, seen = Path(sys.argv[1]), []
RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect")
watched = ()

def hook(event, arguments):
    if event in watched:
        seen.append((event, str(arguments)[:200]))

def read_everything(step):
    for path in sorted((work / "models").iterdir())[::step]:
        bayesmkl.load_model(path)
    load_posterior(work / "posterior.nc")
    Comparison.load(work / "comparison")
    out = work / "out.csv"
    result = CliRunner().invoke(app, ["predict", str(work / "run"), str(work / "table.csv"), "--out", str(out)])
    assert result.exit_code == 0, result.output

sys.addaudithook(hook)
read_everything(60)  # libraries do what they like when they are imported
watched = (*RUNS, "pickle.find_class")
read_everything(9)
watched = ("pickle.find_class",)
assert not seen, seen
import pickle
pickle.loads(pickle.dumps(Path("x")))
assert seen, "the hook does not work"
"""


@pytest.mark.heavy
def test_reading_files_unpickles_and_runs_nothing():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HOOK), str(written.files_with_models())],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_look_of_skops_agrees(tmp_path):
    """What this package lets pass without trust, skops does too, of a file that holds a bit of everything."""
    model, _ = small_model()
    model.random_state = np.random.default_rng(3)
    save_model(model, tmp_path / "model.skops")
    found = skops.io.get_untrusted_types(file=tmp_path / "model.skops")
    assert set(found) <= set(known_types.TRUSTED)
