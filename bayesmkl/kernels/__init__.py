"""Kernels: functions of two samples, banks of them over views of the data, and their checks."""

from __future__ import annotations

from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.compose import Gate, Product
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Overlap, Polynomial, Tanimoto
from bayesmkl.kernels.precomputed import Precomputed, stack_kernels
from bayesmkl.kernels.quality import KernelQualityWarning

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
    "stack_kernels",
]
