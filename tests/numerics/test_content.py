"""Hashes by content: equal for equal values, wherever and however they were made, different for different ones."""

import copy
import dataclasses
import enum
import functools
import pathlib
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from bayesmkl._utils.content import ContentHasher, NoContentError, hash_or_none
from bayesmkl.kernels import Gaussian, KernelBank, Linear

RNG = np.random.default_rng(0)
LONG = RNG.normal(size=2000)
MOVED = LONG + (np.arange(2000) == 1000)
WORDS = np.array(["a", "bc"], dtype=object)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: float
    rest: list = dataclasses.field(default_factory=list)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def defined(source):
    """Return the `f` of a module of the user's."""
    namespace = {"__name__": "written", "np": np}
    exec(source, namespace)
    return namespace["f"]


def recursive(n):
    return 1 if n < 2 else n * recursive(n - 1)


def made_with(value):
    def f(x=1):
        return x, value

    return f


# pairs that differ
UNLIKE = {
    "long arrays": (LONG, MOVED),
    "shapes": (LONG, LONG.reshape(2, 1000)),
    "types of numbers": (np.zeros(2), np.zeros(2, dtype=np.float32)),
    "byte orders": (np.ones(2), np.ones(2).astype(">f8")),
    "units of time": (np.zeros(2, "datetime64[s]"), np.zeros(2, "datetime64[D]")),
    "text of arrays": (np.array(["a", "bc"]), np.array(["ab", "c"])),
    "objects of arrays": (WORDS, np.array(["ab", "c"], dtype=object)),
    "numbers as objects": (np.array([1, 2], dtype=object), np.array(["1", "2"], dtype=object)),
    "fields": (np.zeros(2, [("a", "f8")]), np.zeros(2, [("b", "f8")])),
    "masks": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
    "one and true": (1, True),
    "whole numbers": (1, 1.0),
    "text and bytes": ("a", b"a"),
    "lists and tuples": ([1], (1,)),
    "nesting": ([[1], 2], [[1, 2]]),
    "order in a dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "sets": ({"a", "b"}, {"a", "c"}),
    "ranges": (range(3), range(4)),
    "slices": (slice(1, 3), slice(1, 4)),
    "paths": (pathlib.PurePosixPath("a/b"), pathlib.PurePosixPath("a/c")),
    "members": (Color.RED, Color.BLUE),
    "data classes": (Point(1.0, [1]), Point(1.0, [2])),
    "slots": (Slotted(1), Slotted(2)),
    "random states": (np.random.RandomState(0), np.random.RandomState(1)),
    "generators": (np.random.default_rng(0), np.random.default_rng(1)),
    "distributions": (scipy.stats.uniform(0, 1), scipy.stats.uniform(0, 2)),
    "sparse": (scipy.sparse.eye_array(3).tocsr(), scipy.sparse.eye_array(3).tocsr() * 2),
    "columns": (pd.DataFrame({"a": LONG}), pd.DataFrame({"b": LONG})),
    "long columns": (pd.DataFrame({"a": LONG}), pd.DataFrame({"a": MOVED})),
    "an index": (pd.Series([1, 2]), pd.Series([1, 2], index=[1, 2])),
    "categories": (pd.Categorical(["a"]), pd.Categorical(["a"], categories=["a", "b"])),
    "orders of categories": (*(pd.Series(pd.Categorical(["a"], ordered=o)) for o in (False, True)),),
    "bodies": (lambda x: x + 1, lambda x: x + 2),
    "attributes": (lambda x: x.real, lambda x: x.imag),
    "defaults": (made_with(1), functools.partial(made_with(1), x=2)),
    "closures": (made_with(LONG), made_with(MOVED)),
    "globals": (defined("c = 1\ndef f(): return c"), defined("c = 2\ndef f(): return c")),
    "functions inside": (defined("f = lambda: (lambda: 1)"), defined("f = lambda: (lambda: 2)")),
    "functions used": (
        defined("def g(): return 1\ndef f(): return g()"),
        defined("def g(): return 2\ndef f(): return g()"),
    ),
    "methods": (defined("class f:\n def g(self): return 1"), defined("class f:\n def g(self): return 2")),
    "properties": (
        defined("class f:\n g = property(lambda self: 1)"),
        defined("class f:\n g = property(lambda self: 2)"),
    ),
    "bases": (defined("class g: a = 1\nclass f(g): pass"), defined("class g: a = 2\nclass f(g): pass")),
    "bound to": (Point(1.0).__eq__, Point(2.0).__eq__),
    "vectorized": (np.vectorize(lambda x: x), np.vectorize(lambda x: -x)),
    "cached": (functools.lru_cache(lambda x: x), functools.lru_cache(lambda x: -x)),
    "universal functions": (np.exp, np.log),
    "models": (SVC(C=1.0), SVC(C=2.0)),
    "inner models": (make_pipeline(StandardScaler(), SVC()), make_pipeline(StandardScaler(), SVC(gamma=1.0))),
    "functions of models": (FunctionTransformer(lambda X: X), FunctionTransformer(lambda X: -X)),
    "searches": (GridSearchCV(SVC(), {"C": LONG}), GridSearchCV(SVC(), {"C": MOVED})),
    "splitters": (KFold(3, shuffle=True, random_state=0), KFold(3, shuffle=True, random_state=1)),
    "kernels": (Gaussian(width=1.0), Gaussian(width=2.0)),
    "banks": (KernelBank([Gaussian(), Linear()]), KernelBank([Linear(), Gaussian()])),
    "kernels of others": (RBF(1.0), RBF(2.0)),
}
# values and others that equal them
ALIKE = {
    "layouts of arrays": (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))),
    "sets": ({f"{k}" for k in range(50)}, {f"{k}" for k in reversed(range(50))}),
    "tables": (
        pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}),
        pd.DataFrame({"a": [1.0, 2.0]}).assign(b=[3.0, 4.0]),
    ),
    "lines": (defined("def f(x): return x"), defined("# moved\n\n\ndef f(x):\n    return x")),
    "closures": (made_with(2), made_with(2)),
    "lambdas": (*[lambda x: x + 1 for _ in range(2)],),
    "attributes": (SimpleNamespace(a=1, b=2), SimpleNamespace(b=2, a=1)),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_values_have_other_hashes_and_copies_the_same(name):
    one, other = UNLIKE[name]
    hashed = ContentHasher()
    assert hashed(one) != hashed(other)
    assert ContentHasher()(copy.deepcopy(one)) == hashed(one)


@pytest.mark.parametrize("name", ALIKE)
def test_equal_values_have_equal_hashes(name):
    one, other = ALIKE[name]
    assert ContentHasher()(one) == ContentHasher()(other)


def test_a_class_is_the_same_after_its_objects_were_copied():
    """Python notes the slots of a class in it then."""
    used = defined("class Used:\n pass\ndef f(): return Used")
    before = ContentHasher()(used)
    copy.copy(used())()
    assert ContentHasher()(used) == before


def test_what_contains_itself_has_a_hash():
    one, other = [1], [2]
    one.append(one)
    other.append(other)
    assert hash_or_none(one) not in (None, hash_or_none(other))
    assert hash_or_none(recursive) is not None


def test_a_memory_map_counts_as_what_it_holds(tmp_path):
    np.save(tmp_path / "a.npy", LONG)
    assert hash_or_none(np.load(tmp_path / "a.npy", mmap_mode="r")) == hash_or_none(LONG)


def test_options_of_printing_do_not_count():
    before = hash_or_none((LONG, KernelBank(landmarks=LONG.reshape(-1, 2))))
    with np.printoptions(threshold=3, precision=1):
        assert hash_or_none((LONG, KernelBank(landmarks=LONG.reshape(-1, 2)))) == before


def test_modules_of_the_user_count_by_what_is_used(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "written_by_the_user.py"
    path.write_text("a = 1\nb = 2\n")
    used = pytest.importorskip("written_by_the_user")
    f = defined("import written_by_the_user as m\ndef f(): return m.a")
    inside = defined("def f():\n import written_by_the_user as m\n return m.a")
    before, before_inside = hash_or_none(f), hash_or_none(inside)
    monkeypatch.setattr(used, "b", 3)
    assert hash_or_none(f) == before
    monkeypatch.setattr(used, "a", 3)
    assert hash_or_none(f) != before
    path.write_text("a = 3\nb = 2\n")
    assert hash_or_none(inside) != before_inside


NAMED = """
import importlib
from operator import attrgetter
import nd_inner as inner
import nd_outer as outer
def pick(module, name): return getattr(module, name)
def first(m): return m.SLOPE
"""
READERS = {
    "an import of an import": "def f(): return outer.slope()",
    "the same inside the function": "def f():\n import nd_outer\n return nd_outer.slope()",
    "a name that is imported inside": "def f():\n from nd_inner import SLOPE\n return SLOPE",
    "a module of a module": "def f(): return outer.nd_inner.SLOPE",
    "a text": "def f(): return getattr(inner, 'SLOPE')",
    "a text, elsewhere": "def f(): return pick(inner, 'SLOPE')",
    "a module that is passed on": "def f(): return first(inner)",
    "a module that is found by its name": "def f(): return importlib.import_module('nd_inner').SLOPE",
    "a global by its name": "SLOPE = inner.SLOPE\ndef f(): return globals()['SLO' + 'PE']",
    "an expression": "SLOPE = inner.SLOPE\ndef f(): return eval('2.0 * SLOPE')",
}


@pytest.mark.parametrize("way", READERS)
def test_what_functions_reach_in_modules_counts(tmp_path, monkeypatch, way):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nd_inner.py").write_text("SLOPE = 1.0\n")
    (tmp_path / "nd_outer.py").write_text("import nd_inner\ndef slope(): return nd_inner.SLOPE\n")
    for name in ("nd_inner", "nd_outer"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    hashes, values = [], []
    for slope in (1.0, 2.0, 1.0):
        __import__("nd_inner").SLOPE = slope
        f = defined(NAMED + READERS[way])
        hashes.append(ContentHasher()(f))
        values.append(f())
    assert hashes[0] == hashes[2] != hashes[1]
    assert values[0] == values[2] != values[1]


def test_a_module_that_nobody_can_name_is_refused():
    f = defined("import importlib\ndef f(name): return importlib.import_module(name.lower())")
    with pytest.raises(NoContentError, match=r"f\(\) imports a module by a name that is computed"):
        ContentHasher()(f)


def test_versions_of_packages_are_noted():
    hashed = ContentHasher()
    hashed(make_pipeline(FunctionTransformer(np.exp), SVC()))
    assert hashed.packages["numpy"] == np.__version__
    assert set(hashed.packages) == {"numpy", "sklearn"}


DEEP = functools.reduce(lambda inner, _: [inner], range(5000), [])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (threading.Lock(), "^it is a lock, which has no content"),
        ([1, {"a": (k for k in ())}], r"it\[1\]\['a'\] is a generator"),
        (SVC(kernel=made_with(threading.Lock())), r"it\.kernel, 'value' in the closure of f\(\) is a lock"),
        (np.frompyfunc(lambda x: x, 1, 1), "is a ufunc"),
        (defined("import threading\nc = threading.Lock()\ndef f(): return c"), r"the global 'c' of f\(\) is a lock"),
        (DEEP, "nested too deeply"),
    ],
)  # fmt: skip
def test_what_has_no_content_is_refused_with_its_place(value, message):
    with pytest.raises(NoContentError, match=message):
        ContentHasher()(value, "it")
    assert hash_or_none(value) is None
