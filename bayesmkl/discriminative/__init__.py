"""Discriminative multiple kernel learning: kernel weights found together with an SVM on the combined kernel."""

from __future__ import annotations

import importlib
from typing import Any

from bayesmkl.discriminative.methods import PACKAGE, public_names

_LAZY = public_names()  # public name -> module that defines it, loaded on first use

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
