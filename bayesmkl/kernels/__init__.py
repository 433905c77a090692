"""Kernels: functions of two samples, banks of them over views of the data, and their checks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.categories import Overlap
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Polynomial, Tanimoto
from bayesmkl.kernels.gate import Gate
from bayesmkl.kernels.precomputed import Precomputed, stack_kernels
from bayesmkl.kernels.product import Product
from bayesmkl.kernels.quality.checks import KernelQualityWarning

if TYPE_CHECKING:
    from bayesmkl.kernels.graphs import WeisfeilerLehman
    from bayesmkl.kernels.molecules import MorganFingerprint
    from bayesmkl.kernels.series import SeriesDistance
    from bayesmkl.kernels.strings import EditDistance, MismatchSpectrum
    from bayesmkl.kernels.tables import make_bank

__all__ = [
    "Cosine",
    "EditDistance",
    "FromDistance",
    "Gate",
    "Gaussian",
    "KernelBank",
    "KernelQualityWarning",
    "Laplacian",
    "Linear",
    "MismatchSpectrum",
    "MorganFingerprint",
    "Overlap",
    "Polynomial",
    "Precomputed",
    "Product",
    "SeriesDistance",
    "Tanimoto",
    "WeisfeilerLehman",
    "make_bank",
    "stack_kernels",
]

_LAZY = {  # what needs pandas, or is for some alone
    "EditDistance": "bayesmkl.kernels.strings",
    "MismatchSpectrum": "bayesmkl.kernels.strings",
    "MorganFingerprint": "bayesmkl.kernels.molecules",
    "SeriesDistance": "bayesmkl.kernels.series",
    "WeisfeilerLehman": "bayesmkl.kernels.graphs",
    "make_bank": "bayesmkl.kernels.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'bayesmkl.kernels' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
