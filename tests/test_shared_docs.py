"""Docstring entries that several estimators or functions share are written once, and all of them are filled in."""

from __future__ import annotations

import ast
import collections
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bayesmkl._utils.docstrings import MARKER, entries, fill_docs

ROOT = Path(__file__).parents[1]
ENTRY = re.compile(r"^(\S.*)\n((?: {4,}\S.*\n){2,})", re.MULTILINE)  # of three lines or more
Definition = ast.ClassDef | ast.FunctionDef


class Source(NamedTuple):
    """A docstring as it is written."""

    path: str
    text: str
    module: str
    filled: Definition | None  # what is decorated to fill it: a function, a class, or that of a method


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules of the package."""
    paths = sorted((ROOT / "bayesmkl").rglob("*.py"))
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]
    return {name: ast.parse(path.read_text("utf-8")) for name, path in zip(names, paths, strict=True)}


@functools.cache
def sources() -> tuple[Source, ...]:
    return tuple(source for module, tree in trees().items() for source in _sources_of(module, tree))


def _sources_of(module: str, tree: ast.Module) -> Iterator[Source]:
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    owners = {child: owner for owner in classes for child in owner.body if isinstance(child, Definition)}
    nodes = [*(node for node in tree.body if isinstance(node, Definition)), *owners]
    for node in nodes:
        places = [one for one in (node, owners.get(node)) if one is not None and _decorator(one) is not None]
        yield Source(f"{module}.{node.name}", ast.get_docstring(node) or "", module, next(iter(places), None))


def _decorator(node: Definition) -> ast.Call | None:
    calls = [call for call in node.decorator_list if isinstance(call, ast.Call)]
    return next((call for call in calls if getattr(call.func, "id", None) == "fill_docs"), None)


def _tables(source: Source) -> list[dict[str, str]]:
    """Return the tables that a docstring is filled from."""
    names = [argument.id for argument in _decorator(source.filled).args]
    found = [getattr(importlib.import_module(source.module), name) for name in names]
    return [one for one in found if not isinstance(one, type)]


def _all_tables() -> Iterator[tuple[str, dict[str, str]]]:
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and re.search(r"\bentries\(", ast.unparse(node.value)):
                name = node.targets[0].id
                yield f"{module}.{name}", getattr(importlib.import_module(module), name)


def test_every_docstring_with_a_marker_is_filled_by_a_decorator():
    marked = [source for source in sources() if MARKER.search(source.text)]
    assert len(marked) > 50
    assert [source.path for source in marked if source.filled is None] == []


def test_no_marker_is_left():
    places = {(source.module, source.filled.name) for source in sources() if source.filled is not None}
    assert len(places) > 30
    for module, name in places:
        filled = getattr(importlib.import_module(module), name)
        members = dir(filled) if isinstance(filled, type) else ()
        documents = {name: filled, **{key: inspect.getattr_static(filled, key) for key in members}}
        left = [
            key
            for key, value in documents.items()
            if re.search(r"%\([^()\n]+\)s", inspect.getdoc(value) or "")
        ]
        assert not left, f"{module}.{name}: {left}"


def test_every_shared_entry_is_used_twice():
    used = collections.Counter()
    for source in sources():
        for marker in MARKER.finditer(source.text):
            key, tables = marker["key"], _tables(source)
            used.update([(key, table[key]) for table in tables if key in table][:1])
    written = {(key, text): f"{name}: {key}" for name, table in _all_tables() for key, text in table.items()}
    assert len(written) > 100
    rare = [name for entry, name in written.items() if used[entry] < 2]
    assert not rare, "once or never: " + "; ".join(rare)


def test_no_entry_is_written_in_two_estimators():
    places = collections.defaultdict(list)
    for source in sources():
        if ".estimators." in source.module or "._estimator." in source.module:
            for first, text in ENTRY.findall(source.text + "\n"):
                places[first.rstrip(" *+"), " ".join(text.split())].append(source.path)
    assert len(places) > 50
    twice = [f"{first} in {', '.join(paths)}" for (first, _), paths in places.items() if len(paths) > 1]
    assert not twice, "to be shared (docs/architecture.md): " + "; ".join(twice)


TABLE = entries(
    r"""
    C : float
        Penalty, 95 % of {\it it}: :math:`C > 0`.

        Second paragraph.
    kernel_weights_ : ndarray of shape (n_kernels,) +
        Weights.
    ValueError:C
        If `C` is not positive.
    """
)


def test_entries_have_names_variants_and_no_marks_of_classes():
    assert list(TABLE) == ["C", "kernel_weights_", "ValueError:C"]
    assert TABLE["kernel_weights_"].splitlines()[0] == "kernel_weights_ : ndarray of shape (n_kernels,)"
    assert TABLE["ValueError:C"] == "ValueError\n    If `C` is not positive."


def wrapped(method):
    @functools.wraps(method)
    def wrapper(*args):
        return method(*args)

    return wrapper


def test_classes_methods_and_what_is_inside_wrappers_are_filled():
    @fill_docs(TABLE)
    class First:
        r"""One.

        %(C)s, default=1.0
            :math:`\frac{1}{2}`, 100 %(C)s of it.
        %(kernel_weights_)s *
        own : int
            Own text.
        """

        @wrapped
        def fit(self):
            """Fit.

            Raises
            ------
            %(ValueError:C)s
            """

    @fill_docs({"C": "C : str\n    The first table decides."}, TABLE, First)
    class Second(First):
        """Two.

        %(C)s
        %(First.kernel_weights_)s
        %(First.own)s, default=3
        """

    assert inspect.getdoc(First) == inspect.cleandoc(
        r"""One.

        C : float, default=1.0
            Penalty, 95 % of {\it it}: :math:`C > 0`.

            Second paragraph.
            :math:`\frac{1}{2}`, 100 %(C)s of it.
        kernel_weights_ : ndarray of shape (n_kernels,) *
            Weights.
        own : int
            Own text.
        """
    )
    raises = "Fit.\n\nRaises\n------\nValueError\n    If `C` is not positive."
    assert (
        inspect.getdoc(First.fit)
        == inspect.getdoc(First.fit.__wrapped__)
        == inspect.getdoc(Second.fit)
        == raises
    )
    assert inspect.getdoc(Second) == inspect.cleandoc(
        """Two.

        C : str
            The first table decides.
        kernel_weights_ : ndarray of shape (n_kernels,)
            Weights.
        own : int, default=3
            Own text.
        """
    )


def test_functions_are_filled():
    @fill_docs(TABLE)
    def fit(C):
        """Fit.

        %(C)s, default=2.0
        """

    assert inspect.getdoc(fit).startswith("Fit.\n\nC : float, default=2.0\n    Penalty, 95 % of")


def test_an_unknown_key_is_an_error():
    class Estimator:
        def predict(self):
            """Predict.

            %(Z)s
            """

    with pytest.raises(LookupError, match=r"Estimator\.predict: no shared docstring entry 'Z'\."):
        fill_docs(TABLE)(Estimator)


def test_classes_without_docstrings_stay_without():
    class Bare:  # as under `python -OO`
        def fit(self):
            pass

    filled = fill_docs(TABLE, Bare)(Bare)
    assert filled is Bare
    assert filled.__doc__ is filled.fit.__doc__ is None
