"""Model files as an attacker would write them: any description, any archive."""

from __future__ import annotations

import io
import json
import zipfile
from itertools import count
from typing import Any

import numpy as np

from bayesmkl import persistence

_IDS = count(1)


def node(loader: str, name: str, **state: Any) -> dict[str, Any]:
    """Return a part of a description; `name` is module and class."""
    module, _, cls = name.rpartition(".")
    return {"__loader__": loader, "__module__": module, "__class__": cls, "__id__": next(_IDS)} | state


def plain(value: Any) -> dict[str, Any]:
    """Return a part that holds data."""
    return node("JsonNode", "builtins.str", content=json.dumps(value), is_json=True)


def function(name: str) -> dict[str, Any]:
    return node("FunctionNode", name)


def type_(name: str) -> dict[str, Any]:
    return node("TypeNode", name)


def several(*parts: dict[str, Any], kind: str = "tuple") -> dict[str, Any]:
    return node(f"{kind.capitalize()}Node", f"builtins.{kind}", content=list(parts))


def mapping(content: dict[str, Any], name: str = "builtins.dict", keys: Any = None) -> dict[str, Any]:
    types = several(*[type_("builtins.str")] * len(content), kind="list") if keys is None else keys
    return node("DictNode", name, content=content, key_types=types)


def built(name: str, **attributes: Any) -> dict[str, Any]:
    """Return a part that is made without its constructor, with attributes."""
    return node("ObjectNode", name, content=mapping(attributes))


def schema(model: dict[str, Any], protocol: Any = 2, version: Any = persistence.VERSION) -> dict[str, Any]:
    """Return the description of a file with a model."""
    header = persistence._header() | {"version": version}
    content = {key: plain(value) for key, value in header.items()} | {"model": model}
    return mapping(content) | {"protocol": protocol, "_skops_version": "0.16.0"}


def packed(
    description: Any, entries: dict[str, bytes] | None = None, compression: int = zipfile.ZIP_STORED
) -> bytes:
    """Return an archive with a description, and with more entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        text = description if isinstance(description, (str, bytes)) else json.dumps(description)
        archive.writestr("schema.json", text)
        for name, content in (entries or {}).items():
            archive.writestr(name, content)
    return buffer.getvalue()


def array(values: Any, allow_pickle: bool = False) -> bytes:
    """Return an array in NumPy's format."""
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=allow_pickle)
    return buffer.getvalue()
