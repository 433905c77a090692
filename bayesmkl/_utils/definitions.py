"""Contents of functions, classes and modules, and the installed packages among them."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module, metadata
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

__all__ = [
    "SCRIPTS",
    "SITES",
    "attributes_used",
    "globals_used",
    "installed",
    "is_of_its_module",
    "loaded",
    "modules_imported",
    "modules_named",
    "own_namespace",
    "package_version",
    "source_of",
    "value_of",
]

SCRIPTS = {"__main__", "__mp_main__"}  # the user's, whatever started them; processes are sent what is in them
SITES = {"site-packages", "dist-packages"}
# of classes: where they were written, what they say to readers, and books that Python keeps for itself
NO_CONTENT = {
    "__abstractmethods__",
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__slotnames__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}


def installed(module: str) -> bool:
    """Return whether a module comes with Python or with an installed package, this one among them.

    Examples
    --------
    >>> installed("json"), installed("numpy.linalg"), installed("bayesmkl.kernels"), installed("__main__")
    (True, True, True, False)
    """
    return _is_installed(module.partition(".")[0])


@lru_cache(maxsize=1024)
def _is_installed(top: str) -> bool:
    if top in sys.stdlib_module_names or top == __name__.partition(".")[0]:
        return True
    path = None if top in SCRIPTS else _file_of(top)
    return path is not None and bool(SITES & set(path.parts))


def _file_of(module: str) -> Path | None:
    """Return the file of a module, or the folder of a package without one; None where there is neither."""
    found: Any = sys.modules.get(module)
    path = getattr(found, "__file__", None) or next(iter(getattr(found, "__path__", ())), None)
    if found is None:
        with suppress(ImportError, ValueError):  # not imported yet, or made by code
            found = find_spec(module)
            path = getattr(found, "origin", None)
    return None if path is None else Path(path)


@lru_cache(maxsize=1024)
def package_version(top: str) -> str | None:
    """Return the version of a package by the name with which it is imported; None for Python's own modules."""
    if top in sys.stdlib_module_names:
        return None
    version = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(version, str):
        return version
    names = metadata.packages_distributions().get(top, [])
    return metadata.version(names[0]) if names else "unknown"


def source_of(module: str) -> bytes | None:
    """Return the file of a module, of source or compiled; None if it has none."""
    path = _file_of(module)
    return None if path is None or not path.is_file() else path.read_bytes()


def is_of_its_module(value: Any) -> bool:
    """Return whether a function or class is what its module has under its name: no closure, no wrapper.

    Examples
    --------
    >>> import functools, math
    >>> is_of_its_module(math.sqrt), is_of_its_module(functools.partial), is_of_its_module(lambda: 0)
    (True, True, False)
    """
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def value_of(module: str, name: str) -> Any:
    """Return what a module has under a name, with points where it is inside; None where there is no such thing."""
    found: Any = None
    with suppress(Exception, SystemExit):
        found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def own_namespace(kind: type) -> dict[str, Any]:
    """Return what a class defines itself."""
    return {name: value for name, value in vars(kind).items() if name not in NO_CONTENT}


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code and those of the functions inside."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def globals_used(code: CodeType) -> tuple[str, ...]:
    """Return the global names that a function, or one inside it, reads.

    Examples
    --------
    >>> def kernel(X, Z):
    ...     return np.exp(-(lambda D: gamma * D)(X.values))
    >>> globals_used(kernel.__code__)
    ('gamma', 'np')
    """
    return _operands(code, ("LOAD_GLOBAL", "LOAD_NAME"))


def modules_imported(code: CodeType, package: str | None = None) -> tuple[str, ...]:
    """Return the modules that a function of a package, or one inside it, imports by ``import`` or ``from``.

    Examples
    --------
    >>> def kernel(X, Z):
    ...     from .other import power
    ...     import scipy.special
    >>> modules_imported(kernel.__code__, "mine")
    ('mine.other', 'scipy.special')
    """
    found = set()
    for level, name in _imports(code):
        with suppress(ImportError):  # beyond the top: it fails when it is called, too
            found.add(resolve_name("." * level + name, package) if level else name)
    return tuple(sorted(found))


@lru_cache(maxsize=4096)
def _imports(code: CodeType) -> tuple[tuple[int, str], ...]:
    """Return the number of dots and the name of each import."""
    found = []
    for part in _codes(code):
        steps = list(dis.get_instructions(part))
        for k, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":  # after constants: the number, and what is taken from it
                found.append((int(steps[k - 2].argval), str(step.argval)))
    return tuple(found)


@lru_cache(maxsize=4096)
def modules_named(code: CodeType) -> tuple[str, ...]:
    """Return the modules whose names are constants of a function, as ``import_module`` takes them."""
    texts = {text for part in _codes(code) for text in part.co_consts if isinstance(text, str)}
    return tuple(sorted(text for text in texts if text and _file_of(text) is not None))


def loaded(module: str) -> list[ModuleType]:
    """Return a module and the packages that it is in, imported; nothing of what cannot be imported."""
    with suppress(Exception, SystemExit):
        import_module(module)
    parts = module.split(".")
    names = (".".join(parts[: k + 1]) for k in range(len(parts)))
    return [sys.modules[name] for name in names if name in sys.modules]


@lru_cache(maxsize=4096)
def _operands(code: CodeType, operations: tuple[str, ...]) -> tuple[str, ...]:
    steps = (step for part in _codes(code) for step in dis.get_instructions(part))
    return tuple(sorted({step.argval for step in steps if step.opname in operations}))


@lru_cache(maxsize=4096)
def attributes_used(code: CodeType) -> frozenset[str]:
    """Return all names that a function looks up anywhere, in modules as well."""
    return frozenset(name for part in _codes(code) for name in part.co_names)
