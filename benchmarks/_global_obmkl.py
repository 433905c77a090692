"""OBMKL and alignment: seconds for many kernels, and of uniform weights beside an SVC."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _machine import measure
from _report import markdown_table
from scipy.spatial.distance import cdist
from sklearn.svm import SVC

from bayesmkl.discriminative import AlignmentMKLClassifier, OBMKLClassifier
from bayesmkl.discriminative.global_weights.alignment import AlignmentOptions, fit_alignment
from bayesmkl.discriminative.global_weights.obmkl import OBMKLOptions, fit_obmkl
from bayesmkl.discriminative.global_weights.uniform import fit_uniform
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.kernels.stacks.dense import DenseStack


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Time each method on the same kernels."""
    n_kernels, n_samples = (60, 120) if fast else (1000, 500)
    machine = measure(fast)
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n_samples, 8))
    y = np.where(points[:, 0] + 0.5 * rng.normal(size=n_samples) > 0.0, 1.0, -1.0)[None]
    kernels = np.empty((n_kernels, n_samples, n_samples))
    for kernel in kernels:  # Gaussians with a random scale for every feature
        shifted = points * rng.exponential(0.5, size=8)
        np.exp(-cdist(shifted, shifted, "sqeuclidean"), out=kernel)
    stack, inner = DenseStack(kernels), Hinge(1.0)
    samples_first = np.moveaxis(kernels, 0, -1)
    flops = 0.5 * float(n_kernels * n_samples) ** 2 / 1e9  # of the symmetric product, in GFLOP
    product = flops / machine.gemm_gflop_s  # seconds
    rows, numbers = [], {}
    for name, fit in {
        "AlignmentMKL(alignf)": lambda: fit_alignment(stack, y, inner, AlignmentOptions("alignf")),
        "AlignmentMKL(convex)": lambda: fit_alignment(stack, y, inner, AlignmentOptions("convex")),
        "AlignmentMKL(align)": lambda: fit_alignment(stack, y, inner, AlignmentOptions("align")),
        "OBMKL(qp)": lambda: fit_obmkl(stack, y, inner, OBMKLOptions("qp")),
        "OBMKL(ratio)": lambda: fit_obmkl(stack, y, inner, OBMKLOptions("ratio")),
        "AlignmentMKLClassifier.fit": lambda: AlignmentMKLClassifier("precomputed").fit(samples_first, y[0]),
        "OBMKLClassifier.fit": lambda: OBMKLClassifier("precomputed").fit(samples_first, y[0]),
    }.items():
        seconds, _ = timed(fit)
        ratio = "-" if name in ("AlignmentMKL(align)", "OBMKL(ratio)") else f"{seconds / product:.2f}"
        rows.append([name, f"{seconds:.2f}", ratio])
        numbers[f"seconds {name}"] = seconds
    few = DenseStack(kernels[: min(n_kernels, 100)])
    ours = min(timed(lambda: fit_uniform(few, y, inner, 1e-3))[0] for _ in range(5))
    mean = min(
        timed(lambda: SVC(kernel="precomputed", cache_size=1000).fit(few.kernels.mean(axis=0), y[0]))[0]
        for _ in range(5)
    )
    numbers |= {"uniform over SVC": ours / mean, "gemm": machine.gemm_gflop_s}
    text = (
        f"Speed, {n_kernels} kernels of {n_samples} samples ({kernels.nbytes / 1e9:.1f} GB), {machine.blas_threads} "
        f"BLAS thread(s), dgemm {machine.gemm_gflop_s:.0f} GFLOP/s. Asked: at most 15 s on two cores. The symmetric "
        f"product takes {flops:.0f} GFLOP; the ratio is to the time that dgemm's rate gives for it. The two "
        f"estimators also check every kernel (finite, symmetric, positive semidefinite).\n\n"
        + markdown_table(["", "seconds", "over the product at dgemm's rate"], rows)
        + f"\n\nUniformMKL takes {ours / mean:.2f} times as long as averaging the kernels and an SVC on the mean "
        f"({few.n_kernels} kernels; asked: at most 1.2)."
    )
    return text, numbers


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result
