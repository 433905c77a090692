"""Bayesian multiple kernel learning: which views of your samples matter, with what certainty, and what to predict."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.3.0"

# Public name -> module that defines it; loaded on first use, so that `import bayesmkl` stays cheap.
_LAZY = {
    "BEMKLClassifier": "bayesmkl.bemkl",
    "BEMKLRegressor": "bayesmkl.bemkl",
    "Design": "bayesmkl.gp",
    "GPMKLClassifier": "bayesmkl.gp",
    "GPMKLOrdinalClassifier": "bayesmkl.gp",
    "GPMKLRegressor": "bayesmkl.gp",
    "GPMKLSurvival": "bayesmkl.gp",
    "KernelBank": "bayesmkl.kernels",
    "compare_models": "bayesmkl.evaluation",
    "load_model": "bayesmkl.persistence",
    "save_model": "bayesmkl.persistence",
}

__all__ = sorted([*_LAZY, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'bayesmkl' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
