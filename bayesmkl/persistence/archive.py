"""Validation of model archives before anything is built from them.

skops checks the types that a file names. This is a second, narrower look that does not depend on its version: at the
zip archive (nothing compressed, nothing twice, no paths), at the arrays in it (as large as they say, no objects) and
at the description of the model (known kinds of parts, each of a known type).
"""

from __future__ import annotations

import importlib
import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.files import READING_ARRAYS
from bayesmkl.persistence.known_types import FUNCTIONS, PARTS

SCHEMA = "schema.json"
PROTOCOL = 2  # of skops; older ones have parts that check less
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
LOCAL_HEADER = struct.Struct(
    "<26xHH"
)  # of an entry of a zip archive: ends with the lengths of name and extra field
GRAPH_NAMES = {"format", "shape", "data", "indices", "indptr", "row", "col", "offsets", "_is_array"}
GRAPH_GROWTH = 200  # times the size of a compressed graph, which holds positions, not only repetitions
GRAPH_FREE = 2**20  # bytes that a graph may always have


class Contents(NamedTuple):
    """Contents of a model file."""

    schema: dict[str, Any]  # the description of the model
    n_bytes: int  # of what is built from it, about


class Part(NamedTuple):
    """An entry of the description: how to build something, and of which type."""

    loader: str
    name: str  # module and class
    state: dict[str, Any]


def check_archive(data: bytes) -> Contents:
    """Read the description of a model from a zip archive, and refuse what `save_model` would not have written.

    Raises
    ------
    ValueError, zipfile.BadZipFile
        With what is wrong.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        _check_entries(entries, len(data))
        text = archive.read(SCHEMA)
        schema = json.loads(text, object_pairs_hook=_without_repetition)
        if not isinstance(schema, dict) or type(schema.get("protocol")) is not int:
            raise ValueError(f"{SCHEMA} describes no model")
        if schema["protocol"] < PROTOCOL:
            raise ValueError(
                f"it has protocol {schema['protocol']} of skops, and at least {PROTOCOL} is read"
            )
        n_bytes = 10 * len(text)
        for name in _files_of(schema):
            content = archive.read(name)
            n_bytes += len(content)
            if name.endswith(".npz"):
                n_bytes += _check_graph(name, content)
            elif name.endswith(".npy"):
                _check_array(name, content)
    return Contents(schema, n_bytes)


def _check_entries(entries: list[zipfile.ZipInfo], n_bytes: int) -> None:
    names = [entry.filename for entry in entries]
    if SCHEMA not in names:
        raise ValueError(f"the archive has no {SCHEMA}")
    if len(set(names)) < len(names):
        raise ValueError("the archive has two entries of one name")
    for entry in entries:
        if not PLAIN_NAME.fullmatch(entry.filename):
            raise ValueError(f"the archive has an entry of the name {entry.filename!r}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ValueError(
                f"the entry {entry.filename!r} is compressed or encrypted; nothing is in such files"
            )
    if sum(entry.file_size for entry in entries) > n_bytes:
        raise ValueError("its entries overlap, or are larger than the file")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"{SCHEMA} has a key twice")
    return found


def _files_of(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the entries that parts refer to; each is of one part, which may occur several times."""
    owners: dict[str, Any] = {}
    for part in _parts(schema):
        name = part.state.get("file")
        if name is None:
            continue
        if not isinstance(name, str):
            raise ValueError(f"{SCHEMA} names an entry that is no text")
        owner = part.state.get("__id__")
        if name in owners and (owner is None or owners[name] != owner):
            raise ValueError(f"the entry {name!r} is used by two parts")
        if name not in owners:
            owners[name] = owner
            yield name


def _check_array(name: str, content: bytes) -> None:
    """Raise for an array in NumPy's format that holds objects, or is not as large as it says."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    readers: dict[Any, Callable[..., Any]] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"the array {name!r} has the unknown format {version}")
    with READING_ARRAYS:
        shape, _, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError(f"the array {name!r} holds Python objects, which are never loaded")
    n_entries = math.prod(shape) if all(n >= 0 for n in shape) else -1
    if n_entries * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"the array {name!r} has the shape {shape}, and not as many numbers")


def _check_graph(name: str, content: bytes) -> int:
    """Raise for a sparse matrix whose arrays do not unpack to what they say; return their bytes."""
    limit, total = GRAPH_GROWTH * len(content) + GRAPH_FREE, 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            inner = f"{name}/{entry.filename}"
            if entry.filename.removesuffix(".npy") not in GRAPH_NAMES or entry.flag_bits & 1:
                raise ValueError(f"the graph has an unknown entry {inner!r}")
            total += entry.file_size
            if total > limit:
                raise ValueError(f"the graph {name!r} unpacks to more than {limit} bytes")
            _check_array(inner, _unpacked(inner, content, entry))
    return total


def _unpacked(name: str, content: bytes, entry: zipfile.ZipInfo) -> bytes:
    """Unpack an entry, no further than to the size that it states."""
    start = entry.header_offset
    n_name, n_extra = LOCAL_HEADER.unpack_from(content, start)
    start += LOCAL_HEADER.size + n_name + n_extra
    packed = content[start : start + entry.compress_size]
    if entry.compress_type == zipfile.ZIP_STORED:
        return packed
    if entry.compress_type != zipfile.ZIP_DEFLATED:
        raise ValueError(f"the entry {name!r} is compressed in an unknown way")
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    unpacked = unpacker.decompress(packed, entry.file_size + 1)
    if len(unpacked) != entry.file_size:
        raise ValueError(f"the entry {name!r} does not unpack to the size that it states")
    return unpacked


# ------------------------------------------------------------------------------------------- parts of a model


def subclasses_of(kind: type) -> Iterator[type]:
    """Yield a type and all that are derived from it."""
    yield kind
    derived: list[type] = kind.__subclasses__()
    for one in derived:
        yield from subclasses_of(one)


_SCALARS = {f"builtins.{kind}" for kind in ("bool", "float", "int", "str")}
_CONTAINERS = {f"builtins.{kind}" for kind in ("list", "set", "tuple")}
_NUMBERS = {f"numpy.{kind.__name__}" for kind in np.sctypeDict.values() if kind is not np.object_}
_TYPES = {f"numpy.{kind.__name__}" for kind in subclasses_of(np.generic) if kind.__module__ == "numpy"}
_GENERATORS = {"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"}


def _never(name: str) -> bool:
    return False


def _object_of_scikit_learn(name: str) -> bool:
    return name.startswith("sklearn.") and name not in FUNCTIONS


def _loss_of_scikit_learn(name: str) -> bool:
    return name.startswith("sklearn.") and name not in FUNCTIONS | PARTS


def _tuple(name: str) -> bool:
    """Return whether a name is that of tuples, or of tuples of scikit-learn with named fields, which only store."""
    if name == "builtins.tuple":
        return True
    module, _, last = name.rpartition(".")
    if not module.startswith("sklearn.") or _NO_PARTS.intersection(module.split(".")):
        return False
    try:
        kind = getattr(importlib.import_module(module), last, None)
    except ImportError:
        return False
    fields = getattr(kind, "_fields", None)
    return isinstance(kind, type) and kind.__bases__ == (tuple,) and isinstance(fields, tuple)


def _function(name: str) -> bool:
    """Return whether a name is that of a known function, or one of those of which skops knows the ufuncs."""
    return name in FUNCTIONS or (name.startswith(("numpy.", "scipy.special.")) and name not in PARTS)


# How parts are built, and which names each kind may have without being trusted by name; the rest must be.
# What skops may build beside these (methods of objects, operators, trees of scikit-learn) needs the user's trust.
_KINDS: dict[str, Callable[[str], bool]] = {
    "JsonNode": lambda name: True,  # data
    "SliceNode": lambda name: name == "builtins.slice",
    "BytesNode": lambda name: name == "builtins.bytes",
    "BytearrayNode": lambda name: name == "builtins.bytearray",
    "DictNode": lambda name: (
        name in ("builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch")
    ),
    "DefaultDictNode": lambda name: name == "collections.defaultdict",
    "ListNode": lambda name: name == "builtins.list",
    "SetNode": lambda name: name == "builtins.set",
    "TupleNode": _tuple,
    "NdArrayNode": lambda name: name == "numpy.ndarray" or name in _NUMBERS,
    "MaskedArrayNode": lambda name: name in ("numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"),
    "DTypeNode": lambda name: name == "numpy.dtype",
    "RandomStateNode": lambda name: name in ("numpy.random.RandomState", "numpy.random.mtrand.RandomState"),
    "RandomGeneratorNode": lambda name: (
        name in ("numpy.random.Generator", "numpy.random._generator.Generator")
    ),
    "SparseMatrixNode": _never,
    "TypeNode": lambda name: (
        name in _SCALARS | _CONTAINERS | _TYPES | {"builtins.object"}
    ),  # nothing is made of it
    "FunctionNode": _function,
    "ObjectNode": _object_of_scikit_learn,
    "LossNode": _loss_of_scikit_learn,
    "ConstructorFromReduceNode": _never,
    "PartialNode": lambda name: (
        name == "functools.partial"
    ),  # of what is judged itself, and called by models only
}
# Kinds of parts that are judged by what they are: skops lists none of the names that these may have.
_BY_WHAT_THEY_ARE = {"TupleNode", "TypeNode", "PartialNode"}
_NO_PARTS = {
    "conftest",
    "experimental",
    "externals",
    "tests",
}  # modules of scikit-learn that are more than definitions
_ONLY_BY_TRUST = ("MethodNode", "OperatorFuncNode", "TreeNode")


def untrusted_parts(schema: dict[str, Any], trusted: Collection[str]) -> set[str]:
    """Return the names of what a file would build or call that is neither known nor `trusted`.

    Raises
    ------
    ValueError
        For a kind of part that is unknown or contradicts itself.
    """
    return {name for part in _parts(schema) for name in _needed(part) if name not in trusted}


def plain_by_kind(schema: dict[str, Any]) -> set[str]:
    """Return the names in a file that occur only as parts which are judged by what they are, not by a list."""
    kinds: dict[str, set[str]] = {}
    for part in _parts(schema):
        kinds.setdefault(part.name, set()).add(part.loader)
    return {name for name, own in kinds.items() if own <= _BY_WHAT_THEY_ARE}


def _needed(part: Part) -> Iterator[str]:
    """Yield the names that a part needs trust for."""
    if part.loader not in _KINDS and part.loader not in _ONLY_BY_TRUST:
        raise ValueError(f"it has a part of the unknown kind {part.loader!r}")
    if not _KINDS.get(part.loader, _never)(part.name):
        yield part.name
    if part.loader == "OperatorFuncNode":  # builds what is called so in `operator`, whatever its module says
        yield f"operator.{part.name.rpartition('.')[2]}"
    if part.loader == "MethodNode":
        content = part.state["content"]
        owner = content["obj"]
        yield f"{owner['__module__']}.{owner['__class__']}.{content['func']}"
    if part.loader == "RandomGeneratorNode":
        state = part.state["content"]["bit_generator"]
        name = json.loads(state["content"]["bit_generator"]["content"])
        if name not in _GENERATORS:
            yield f"numpy.random.{name}"


def _parts(schema: object) -> Iterator[Part]:
    """Yield every part of a description, however deep."""
    left = [schema]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if "__loader__" in value:
                yield _part(value)
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


def _part(state: dict[str, Any]) -> Part:
    words = [state.get(key) for key in ("__loader__", "__module__", "__class__")]
    if not all(isinstance(word, str) for word in words):
        raise ValueError("it has a part without a kind, a module or a class")
    loader, module, name = words
    return Part(str(loader), f"{module}.{name}", state)
