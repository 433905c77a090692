"""Discriminative multiple kernel learning: kernel weights found together with an SVM on the combined kernel."""

from __future__ import annotations

import importlib
from typing import Any

from bayesmkl.discriminative.methods import PACKAGE, public_names

# Public name -> module that defines it; loaded on first use. Methods come from their registry.
_LAZY = public_names() | {
    "RegularizationPath": f"{PACKAGE}.estimators.path",
    "plot_decision": f"{PACKAGE}.plots",
    "plot_gates": f"{PACKAGE}.plots",
    "plot_switches": f"{PACKAGE}.plots",
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
