"""Bayesian multiple kernel learning: which views of your samples matter, with what certainty, and what to predict."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

# Public name -> module that defines it; loaded on first use, so that `import bayesmkl` stays cheap.
_LAZY = {
    "BEMKLClassifier": "bayesmkl.bemkl",
    "BEMKLMultitaskClassifier": "bayesmkl.bemkl",
    "BEMKLMultitaskRegressor": "bayesmkl.bemkl",
    "BEMKLRegressor": "bayesmkl.bemkl",
    "GPMKLClassifier": "bayesmkl.marginal",
    "GPMKLRegressor": "bayesmkl.marginal",
    "KernelBank": "bayesmkl.kernels",
    "load_model": "bayesmkl.persistence",
    "save_model": "bayesmkl.persistence",
    "select_by_elbo": "bayesmkl.bemkl",
}

__all__ = [
    "BEMKLClassifier",
    "BEMKLMultitaskClassifier",
    "BEMKLMultitaskRegressor",
    "BEMKLRegressor",
    "GPMKLClassifier",
    "GPMKLRegressor",
    "KernelBank",
    "__version__",
    "load_model",
    "save_model",
    "select_by_elbo",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'bayesmkl' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
