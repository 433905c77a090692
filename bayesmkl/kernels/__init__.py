"""Kernels: functions of two samples, banks of them over views of the data, and their checks."""

from __future__ import annotations

from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Polynomial, Tanimoto
from bayesmkl.kernels.gate import Gate
from bayesmkl.kernels.product import Product
from bayesmkl.kernels.quality.checks import KernelQualityWarning

__all__ = [
    "Cosine",
    "FromDistance",
    "Gate",
    "Gaussian",
    "KernelBank",
    "KernelQualityWarning",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Product",
    "Tanimoto",
]
