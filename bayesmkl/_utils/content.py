"""Hashes of values by their content: arrays, objects, functions with all that they use."""

from __future__ import annotations

import copyreg
import hashlib
import struct
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
from scipy.sparse import issparse

from bayesmkl._utils.definitions import (
    SCRIPTS,
    attributes_used,
    globals_used,
    installed,
    is_of_its_module,
    loaded,
    modules_imported,
    modules_named,
    own_namespace,
    package_version,
    source_of,
    value_of,
)

__all__ = ["ContentHasher", "NoContentError", "hash_of_modules", "hash_or_none"]

PLAIN = "biufcSUmM"  # kinds of NumPy whose bytes are their values
BINDINGS = {staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel")}
SEEDED_ELSEWHERE = (
    "_random_state"  # of distributions: a copy of the global state; searches draw by their own seed
)
NO_NAMES: frozenset[str] = frozenset()
OF_MODULES = {"getattr", "vars", "__dict__", "attrgetter", "methodcaller"}  # look up names that are values
OF_GLOBALS = {"globals", "eval", "exec"}
IMPORTERS = {"import_module", "__import__"}


class NoContentError(ValueError):
    """A value that cannot be told from others by its content."""


class ContentHasher:
    """Hash values by content: equal in every process for equal values, and different for different ones.

    Arrays count by type, shape and values; functions by their code, defaults, closures and the global names that they
    use, which are followed; classes by all that they define; other objects by what pickling would keep of them. Order
    counts in a dict, where it can decide (the views of a bank), and not in a set. What an installed package
    defines counts by its name, and the version of that package is noted.

    Attributes
    ----------
    packages : dict of str to str
        Versions of the packages that were met, by the name with which they are imported.
    of_modules : set of (str, str)
        Modules of the user, and the names in them that were met: other processes find these in their own modules.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl._utils.content import ContentHasher
    >>> hashed, long = ContentHasher(), np.zeros(5000)
    >>> other = long.copy()
    >>> other[2500] = 1e-9
    >>> repr(long) == repr(other), hashed(long) == hashed(other)
    (True, False)
    >>> def power(q):
    ...     return lambda X, Z: (X @ Z.T) ** q
    >>> hashed(power(2)) == hashed(power(2)), hashed(power(2)) == hashed(power(3))
    (True, False)
    """

    def __init__(self) -> None:
        self.packages: dict[str, str] = {}
        self.of_modules: set[tuple[str, str]] = set()
        self.arrays: dict[int, tuple[np.ndarray, bytes]] = {}  # by id, while this hasher lives

    def __call__(self, value: object, what: str = "value") -> str:
        """Return the hash of a value.

        Raises
        ------
        NoContentError
            If there is something in it that content does not tell from others: the message says where in `what`.
        """
        walk = _Walk(self, [what])
        try:
            walk.value(value)
        except RecursionError as error:
            raise NoContentError(f"{walk.place(10)} is nested too deeply to be hashed") from error
        return walk.sink.hexdigest()


def _plain(namespace: Mapping[str, Any]) -> list[str]:
    """Return the names of a namespace, in order, without those of Python."""
    return sorted(name for name in namespace if not (name.startswith("__") and name.endswith("__")))


def hash_of_modules(names: Iterable[tuple[str, str]]) -> str | None:
    """Hash what the modules of this process have under names; None where something has no content."""
    return hash_or_none([(*name, value_of(*name)) for name in sorted(names)])


def hash_or_none(value: object) -> str | None:
    """Hash by content; None for what has none."""
    try:
        return ContentHasher()(value)
    except Exception:  # the objects' own code, which says what is in them, raises whatever it raises
        return None


class _Walk:
    """One pass over a value and all that is in it, into one hash."""

    def __init__(self, hasher: ContentHasher, path: list[str]) -> None:
        self.hasher, self.path = hasher, path
        self.sink = hashlib.blake2b(digest_size=16)
        self.met: dict[Any, int] = {}  # by id: order in which what can contain itself was met
        self.alive: list[Any] = []  # so that no id is used twice

    def place(self, longest: int = 30) -> str:
        """Describe the position of this pass."""
        return "".join(self.path[:longest]) + ("..." if len(self.path) > longest else "")

    def put(self, tag: str, content: bytes = b"") -> None:
        self.sink.update(b"%s %d " % (tag.encode(), len(content)))
        self.sink.update(content)

    def inside(self, where: str, value: object, names: frozenset[str] = NO_NAMES) -> None:
        self.path.append(where)
        self.value(value, names)
        self.path.pop()

    def value(self, value: Any, names: frozenset[str] = NO_NAMES) -> None:
        """Hash a value; `names` are what a function that uses it looks up in modules."""
        kind = type(value)
        if value is None or kind in (bool, int, type(Ellipsis), type(NotImplemented)):
            self.put(kind.__name__, repr(value).encode() if kind is not int else b"%x" % value)
        elif kind is str:
            self.put("str", value.encode("utf-8", "surrogatepass"))
        elif kind in (float, complex):
            self.put(kind.__name__, struct.pack("<dd", value.real, value.imag))
        elif kind in (bytes, bytearray):
            self.put(kind.__name__, bytes(value))
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, np.generic):
            self.put(f"scalar {kind.__name__}")
            self._values(np.asarray(value))
        elif kind is tuple:
            self._items("tuple", value)
        elif kind in (set, frozenset):
            self._set(kind.__name__, value)
        elif kind is ModuleType:
            self._module(value, names)
        elif self._is_new(id(value), value):
            self._composite(value, kind)

    def _is_new(self, key: object, value: object) -> bool:
        """Return whether something is met for the first time; later it counts by its place."""
        if key in self.met:
            self.put("met", b"%d" % self.met[key])
            return False
        self.met[key] = len(self.met)
        self.alive.append(value)
        return True

    def _composite(self, value: Any, kind: type) -> None:
        pandas = sys.modules.get("pandas")
        if kind is list:
            self._items("list", value)
        elif kind in (dict, MappingProxyType):
            self.put(f"dict {len(value)}")
            for key, item in value.items():
                self.value(key)
                self.inside(f"[{key!r:.60}]", item)
        elif kind is FunctionType:
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif kind is CodeType:
            self._code(value)
        elif kind is MethodType:
            self._parts("method", value, ("__func__", "__self__"))
        elif kind in BINDINGS:
            self._parts(kind.__name__, value, BINDINGS[kind])
        elif kind is cached_property:  # has a lock in Python 3.11
            self._parts("cached_property", value, ("func", "attrname"))
        elif kind in (MemberDescriptorType, GetSetDescriptorType):
            self.put("slot", value.__name__.encode())
        elif value is np.random.mtrand._rand:  # whatever its state: every call changes it
            self.put("the global random state")
        elif pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series, pandas.Index)):
            self._table(value, pandas)
        elif issparse(value):
            entries = value.tocoo()
            self.put(f"sparse {kind.__name__} {value.shape}")
            self._items("entries", (*entries.coords, entries.data))
        else:
            self._object(value, kind)

    def _items(self, tag: str, items: Iterable[Any]) -> None:
        held = list(items)
        self.put(f"{tag} {len(held)}")
        for k, item in enumerate(held):
            self.inside(f"[{k}]", item)

    def _named(self, tag: str, values: Mapping[str, Any], names: frozenset[str] = NO_NAMES) -> None:
        """Hash values by name, in the order of the names; `names` as in `value`."""
        self.put(f"{tag} {len(values)}")
        for name in sorted(values):
            self.put("name", name.encode("utf-8", "surrogatepass"))
            self.inside(f".{name}", values[name], names)

    def _parts(self, tag: str, value: object, names: tuple[str, ...]) -> None:
        self._named(tag, {name: getattr(value, name) for name in names})

    def _set(self, tag: str, values: Iterable[Any]) -> None:
        digests = []
        for value in values:
            walk = _Walk(self.hasher, self.path)
            walk.value(value)
            digests.append(walk.sink.digest())
        self.put(tag, b"".join(sorted(digests)))

    # ------------------------------------------------------------------------------------------- arrays and tables

    def _array(self, array: np.ndarray) -> None:
        """Hash type, shape and values."""
        known = self.hasher.arrays.get(id(array))
        if known is None:
            walk = _Walk(self.hasher, self.path)
            walk._values(array)
            known = self.hasher.arrays[id(array)] = array, walk.sink.digest()
        self.put("array", known[1])

    def _values(self, array: np.ndarray) -> None:
        kind = np.ndarray if isinstance(array, np.memmap) else type(array)
        self.put(f"{kind.__name__} {array.shape} {array.dtype.str}")
        if isinstance(array, np.ma.MaskedArray):
            self._values(np.ma.getmaskarray(array))
            array = array.filled()
        if array.dtype.names is not None:
            for name in array.dtype.names:  # what lies between the fields is no content
                self.put("field", name.encode())
                self._values(np.asarray(array[name]))
        elif array.dtype.kind in PLAIN:
            values = np.ascontiguousarray(array).view(np.ndarray).reshape(-1)
            self.sink.update(values.view(np.uint8).data)
        elif array.dtype.kind == "V":
            self.sink.update(array.tobytes())
        else:
            self._objects(array.ravel().tolist())

    def _objects(self, values: list[Any]) -> None:
        """Hash the entries of an array of objects; those of one plain kind all at once."""
        kinds = set(map(type, values))
        if kinds == {str}:
            self.value(repr(list(map(len, values))))
            self.value("".join(values))
        elif kinds == {float}:
            self.put("floats", np.array(values).tobytes())
        elif kinds <= {int, bool}:
            self.value(repr(values))
        else:
            self._items("objects", values)

    def _table(self, table: Any, pandas: Any) -> None:
        """Hash a table of pandas by its columns, however these lie in memory."""
        self.put(f"table {type(table).__name__} {table.shape}")
        if isinstance(table, pandas.DataFrame):
            self.value(table.index)
            self.value(table.columns)
            for k in range(table.shape[1]):
                self._column(table.iloc[:, k].array, pandas)
            return
        self.value(table.names if isinstance(table, pandas.Index) else (table.index, table.name))
        if isinstance(table, pandas.MultiIndex):
            self._items("levels", [table.get_level_values(k) for k in range(table.nlevels)])
        else:
            self._column(table.array, pandas)

    def _column(self, column: Any, pandas: Any) -> None:
        self.put("column", str(column.dtype).encode())
        if isinstance(column, pandas.Categorical):
            self.value((column.categories, column.ordered))
            self._values(np.asarray(column.codes))
        else:
            plain = isinstance(column.dtype, np.dtype)
            self._values(np.asarray(column, dtype=None if plain else object))

    # --------------------------------------------------------------------------------------- functions and classes

    def _is_installed(self, value: Any) -> bool:
        """Hash by name what a module of an installed package has under its name."""
        if not is_of_its_module(value) or not self._package(value.__module__):
            return False
        self.put("installed", f"{value.__module__}.{value.__qualname__}".encode())
        return True

    def _note(self, value: Any) -> None:
        """Note what a module of the user has under its name."""
        if value.__module__ not in SCRIPTS and is_of_its_module(value):
            self.hasher.of_modules.add((str(value.__module__), value.__qualname__))

    def _package(self, module: str) -> bool:
        """Return whether a module belongs to an installed package, and note the version of that."""
        if not installed(module):
            return False
        top = module.partition(".")[0]
        version = package_version(top)
        if version is not None:
            self.hasher.packages[top] = version
        return True

    def _function(self, function: FunctionType) -> None:
        if self._is_installed(function):
            return
        self._note(function)
        self.put("function", function.__name__.encode())
        of = f" of {function.__name__}()"
        code = function.__code__
        self.value(code)
        self.inside(f", a default{of}", (function.__defaults__, function.__kwdefaults__))
        self._named("attributes", vars(function))
        names = attributes_used(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # nothing has been assigned
                self.put("empty")
            else:
                self.inside(f", {name!r} in the closure{of}", content, names)
        if self._package(str(function.__globals__.get("__name__"))):
            return
        modules = modules_imported(code, function.__globals__.get("__package__"))
        if IMPORTERS & names:
            modules += modules_named(code)
            if not modules:
                raise NoContentError(
                    f"{self.place()}: {function.__name__}() imports a module by a name that is computed"
                )
        for module in modules:
            self.put("import", module.encode())
            if not self._package(module):
                self._source(module)  # as other processes load it
                for found in loaded(module):
                    self._module(found, names)
        used = globals_used(code)
        for name in _plain(function.__globals__) if OF_GLOBALS & set(used) else used:
            if name in function.__globals__:
                self.put("global", name.encode())
                self.inside(f", the global {name!r}{of}", function.__globals__[name], names)

    def _code(self, code: CodeType) -> None:
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        variables = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        self.put("code", code.co_code + code.co_exceptiontable)
        self.value((counts, variables, code.co_consts))

    def _class(self, kind: type) -> None:
        if self._is_installed(kind):
            return
        self._note(kind)
        self.put("class", kind.__name__.encode())
        self.value((type(kind), kind.__bases__))
        self._named("defines", own_namespace(kind))

    def _module(self, module: ModuleType, names: frozenset[str]) -> None:
        """Hash what is looked up in a module by one of `names`; all of it where nobody can say what that is."""
        self.put("module", module.__name__.encode())
        if self._package(module.__name__) or not self._is_new((id(module), names), module):
            return
        known = set() if OF_MODULES & names else names & vars(module).keys()
        found = {name: vars(module)[name] for name in known or _plain(vars(module))}
        here = (name for name, value in found.items() if type(value) is not ModuleType)
        self.hasher.of_modules |= {(module.__name__, name) for name in here if module.__name__ not in SCRIPTS}
        self._named("looked up", found, names=names)

    def _source(self, module: str) -> None:
        source = source_of(module)
        if source is None:
            raise NoContentError(f"{self.place()} is in the module {module!r}, which has no file")
        self.put("source", source)

    # ----------------------------------------------------------------------------------------------- other objects

    def _object(self, value: object, kind: type) -> None:
        """Hash what pickling would keep of an object."""
        try:
            reduce = copyreg.dispatch_table.get(kind)
            kept = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except RecursionError:
            raise
        except Exception as error:  # locks, files and generators say TypeError; others whatever they want
            self._wrapped(value, kind, error)
            return
        if isinstance(kept, str):
            self._global(value, kept, kind)
            return
        make, arguments, state, items, pairs = (*kept, None, None, None)[:5]
        self.put("object")
        self.value(make)
        self._items("arguments", arguments)
        self._state(state, SEEDED_ELSEWHERE if kind.__module__.startswith("scipy.stats.") else None)
        self._items("items", items or ())
        self._items("pairs", pairs or ())

    def _wrapped(self, value: object, kind: type, error: Exception | None = None) -> None:
        """Hash the function inside what has no content itself."""
        if not hasattr(value, "__wrapped__"):
            raise NoContentError(
                f"{self.place()} is a {kind.__name__}, which has no content to recognize it by"
            ) from error
        if hasattr(value, "__qualname__"):
            self._note(value)
        self._parts(f"wrapper {kind.__name__}", value, ("__wrapped__",))

    def _state(self, state: object, without: str | None) -> None:
        """Hash attributes by name: by themselves, or beside those in slots."""
        for part in state if type(state) is tuple and len(state) == 2 else (state,):
            if type(part) is dict and all(type(name) is str for name in part):
                self._named("state", {name: value for name, value in part.items() if name != without})
            else:
                self.value(part)

    def _global(self, value: object, name: str, kind: type) -> None:
        """Hash what pickling would find by its name in a module."""
        module = getattr(value, "__module__", None) or ""
        if isinstance(value, np.ufunc) and not module:  # before NumPy 2.2
            places = ("numpy", "scipy.special")
            module = next((p for p in places if getattr(sys.modules.get(p), name, None) is value), "")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value and self._package(module):
            self.put("installed", f"{module}.{name}".encode())
        elif found is value and source_of(module) is not None and not hasattr(value, "__wrapped__"):
            self.put("of a module", name.encode())  # compiled by the user
            self._source(module)
        else:
            self._wrapped(value, kind)
