"""Kernels: functions of two samples, banks of them over views of the data, and their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.compose import Gate, Product
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Overlap, Polynomial, Tanimoto
from bayesmkl.kernels.precomputed import Precomputed, stack_kernels
from bayesmkl.kernels.quality import KernelQualityWarning

if TYPE_CHECKING:
    from bayesmkl.kernels.tables import make_bank

__all__ = [
    "Cosine",
    "FromDistance",
    "Gate",
    "Gaussian",
    "KernelBank",
    "KernelQualityWarning",
    "Laplacian",
    "Linear",
    "Overlap",
    "Polynomial",
    "Precomputed",
    "Product",
    "Tanimoto",
    "make_bank",
    "stack_kernels",
]


def __getattr__(name: str) -> Any:
    if name != "make_bank":  # which needs pandas
        raise AttributeError(f"module 'bayesmkl.kernels' has no attribute {name!r}")
    from bayesmkl.kernels.tables import make_bank

    return make_bank


def __dir__() -> list[str]:
    return sorted(__all__)
