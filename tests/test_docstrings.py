"""Every public name says what it takes, gives, raises and where it comes from, and what it says is true.

The rules are numpydoc's, and everything has an example, which the doctests run. Defaults and fitted attributes are
compared with signatures and with fitted models.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from numpydoc.docscrape import FunctionDoc
from numpydoc.validate import validate
from public_api import listed_names
from sklearn.base import is_classifier

from bayesmkl.gp import LogNormal, Marginal
from bayesmkl.kernels import Gaussian, KernelBank, Linear

pytestmark = pytest.mark.heavy

# Checks of numpydoc that are not asked for, and why.
NOT_ASKED = {
    "GL01": "the text starts on the line of the quotes, as PEP 257 has it",
    "GL02": "a docstring of one line ends on it",
    "GL08": "asked for below, with the name",
    "ES01": "a summary that says all needs no second paragraph",
    "SA01": "names that belong together share a page of the guide",
    "EX01": "asked for below, with exceptions",
    "RT02": "a returned value has a name where that helps",
}

# Everything else has an example that runs.
WITHOUT_EXAMPLE = {
    "bayesmkl.kernels.KernelQualityWarning": "a category of warnings: nothing to call",
}


class Name(NamedTuple):
    """Something public: a function, a class, or a method or property of a class."""

    path: str  # what numpydoc imports
    object: Any
    owner: type | None = None

    @property
    def function(self) -> Callable[..., Any] | None:
        """What runs when it is called."""
        if inspect.isclass(self.object):
            constructor = self.object.__dict__.get("__init__")
            return constructor if inspect.isfunction(constructor) and _is_ours(constructor) else None
        return inspect.unwrap(self.object.fget if isinstance(self.object, property) else self.object)

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.object) or ""


def _is_ours(thing: Any) -> bool:
    return (getattr(thing, "__module__", None) or "").startswith("bayesmkl")


def _members(path: str, owner: type) -> Iterator[Name]:
    """Methods and properties that are written here, inherited ones too."""
    for key in sorted(
        vars(owner).keys() | {k for base in owner.__mro__ if _is_ours(base) for k in vars(base)}
    ):
        member = inspect.getattr_static(owner, key)
        plain = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        written = plain.fget if isinstance(plain, property) else plain
        if not key.startswith("_") and inspect.isfunction(written) and _is_ours(written):
            yield Name(f"{path}.{key}", plain, owner)


def _collect() -> Iterator[Name]:
    """Every name of the API reference, and what its classes hold, once each."""
    seen: set[int] = set()
    for module, key, _ in listed_names():  # all public names are: tests/test_docs.py
        top = Name(f"{module}.{key}", getattr(importlib.import_module(module), key))
        members = _members(top.path, top.object) if inspect.isclass(top.object) else ()
        for name in (top, *members):
            if id(name.object) not in seen:
                seen.add(id(name.object))
                yield name


NAMES = sorted(_collect(), key=lambda name: name.path)
TOP = [name for name in NAMES if name.owner is None]
ESTIMATORS = [name for name in TOP if re.search("(Classifier|Regressor|OneClass)$", name.path)]


def each(names: list[Name]) -> Any:
    """Parametrize a test by packages; it runs for all of their names, and those that fail are told together."""
    groups: dict[str, list[Name]] = {}
    for name in names:
        groups.setdefault(".".join(name.path.split(".")[:2]), []).append(name)

    def decorate(test: Callable[[Name], None]) -> Any:
        def run(package: str) -> None:
            failed = {}
            for name in groups[package]:
                try:
                    test(name)
                except (Exception, pytest.fail.Exception) as error:
                    failed[name.path] = error
            assert not failed

        run.__name__ = run.__qualname__ = test.__name__
        return pytest.mark.parametrize("package", groups)(run)

    return decorate


@functools.cache
def sections(doc: str) -> FunctionDoc:
    return FunctionDoc(None, doc=doc)


@each(NAMES)
def test_numpydoc_finds_nothing_wrong(name):
    assert name.doc, "no docstring"
    assert not re.search(r"%\([^()\n]+\)s", name.doc), "a marker was not filled"
    skipped = (
        {*NOT_ASKED, "PR01"} if getattr(name.object, "_is_protocol", False) else NOT_ASKED
    )  # not constructed
    found = [f"{code}: {text}" for code, text in validate(name.path)["errors"] if code not in skipped]
    assert not found, "\n".join(found)


@each(NAMES)
def test_defaults_are_those_of_the_signature(name):
    if name.function is None or isinstance(name.object, property):
        return
    parameters, wrong = inspect.signature(name.function).parameters, []
    for entry in sections(name.doc)["Parameters"]:
        stated = re.search(r"default=(.*)$", entry.type)
        names = entry.name.split(", ")
        for key, value in zip(names, _split(stated.group(1), len(names)) if stated else (), strict=False):
            default = parameters[key.lstrip("*")].default if key.lstrip("*") in parameters else value
            if default is not inspect.Parameter.empty and not _is_written(value, default):
                wrong.append(f"{key}: {value!r} is stated, {default!r} is true")
    assert not wrong, "; ".join(wrong)


def _split(values: str, n: int) -> list[str]:
    """Return the default of each of `n` parameters that share a line, one for all of them or one each."""
    return values.split(", ") if n > 1 and ", " in values else [values] * n


def _is_written(value: str, default: Any) -> bool:
    if re.fullmatch(r"\d+/\d+", value):
        return float(Fraction(value)) == default
    try:
        return ast.literal_eval(value) == default
    except (ValueError, SyntaxError):
        own = value.startswith("LogNormal(")
        return eval(value, {"LogNormal": LogNormal}) == default if own else value == repr(default)


@each([name for name in TOP if name.path not in WITHOUT_EXAMPLE])
def test_examples_are_there_and_run(name):
    examples = "\n".join(sections(name.doc)["Examples"])
    assert ">>> " in examples, "no example"
    assert "+SKIP" not in examples, "an example that is not run"
    assert inspect.getmodule(name.object).__name__.startswith("bayesmkl."), "doctest does not collect it"


# ---------------------------------------------------------------------- fitted models are as their docstrings say

# Attributes that only some of the estimators make use of; the others have them, and they are None.
OF_THE_BASE_CLASS = {"training_factors_", "together_"}
N_SAMPLES, N_FEATURES = 30, 4


def _samples() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(N_SAMPLES, N_FEATURES)), columns=list("abcd"))


def _bank() -> KernelBank:
    return KernelBank([Gaussian(width=2), Linear()], views={"left": ["a", "b"], "right": ["c", "d"]})


def fitted(estimator: type, n_classes: int) -> Any:
    """Return a model of so many classes, or of two tasks, or of a real target."""
    X, model = _samples(), estimator(_bank())
    if "GPMKL" in estimator.__name__:
        model.set_params(inference=Marginal(n_points=100, n_draws=100))  # shapes, not precision
    if "Multitask" in estimator.__name__:
        return model.fit(X, (X[["a", "b"]] > 0).astype(int))
    if is_classifier(model):
        return model.fit(X, pd.qcut(X["a"], n_classes, labels=False).to_numpy())
    return model.fit(X, X["a"].to_numpy())


CASES = [
    (name, n_classes)
    for name in ESTIMATORS
    for n_classes in ((2, 3) if re.search(r"(?<!Multitask)Classifier$", name.path) else (2,))
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
@pytest.mark.parametrize(
    ("name", "n_classes"), CASES, ids=[f"{name.path.removeprefix('bayesmkl.')}-{n}" for name, n in CASES]
)
def test_fitted_attributes_are_those_that_are_documented(name, n_classes):
    model = fitted(name.object, n_classes)
    stated = {key for entry in sections(name.doc)["Attributes"] for key in entry.name.split(", ")}
    found = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
    assert not found - stated - OF_THE_BASE_CLASS
    assert all(getattr(model, key) is None for key in found - stated)
