"""What this machine can do, measured in the same run as the numbers that are compared with it.

Every benchmark prints these facts and states its conclusions as ratios to them.
"""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info, threadpool_limits

STREAM_BYTES = 2**29  # far above any cache
FAST_STREAM_BYTES = 2**26


class Machine(NamedTuple):
    """Facts and measured rates."""

    processor: str
    cores: int
    blas: str
    blas_threads: int
    versions: str
    read_gb_s: float  # best of threaded dot product and sum over one long array
    copy_gb_s: float  # threaded copy, read and written bytes counted once each
    gemm_gflop_s: float  # double precision

    def report(self) -> str:
        """Describe the machine in three lines."""
        return (
            f"machine: {self.processor}, {self.cores} cores, {self.blas} with {self.blas_threads} threads\n"
            f"         {self.versions}\n"
            f"         read {self.read_gb_s:.1f} GB/s, copy {self.copy_gb_s:.1f} GB/s (read + written), "
            f"dgemm {self.gemm_gflop_s:.0f} GFLOP/s"
        )


def measure(fast: bool = False) -> Machine:
    """Measure the rates of this machine: about 3 s; with `fast` under 1 s, once for a process and its forks."""
    return _measure_briefly() if fast else _measure(STREAM_BYTES, 1500)


@functools.cache
def _measure_briefly() -> Machine:
    return _measure(FAST_STREAM_BYTES, 600)


def _measure(stream_bytes: int, size: int) -> Machine:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blas = next((pool for pool in threadpool_info() if pool["user_api"] == "blas"), {})
    threads = int(blas.get("num_threads", 1))
    source = np.ones(stream_bytes // 8)
    return Machine(
        _processor(),
        cores,
        f"{blas.get('internal_api', 'BLAS')} {blas.get('version', '')}".strip(),
        threads,
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}",
        read_rate(source, threads),
        copy_rate(source, threads),
        gemm_rate(size),
    )


def best_seconds(function: Callable[[], object], repeats: int = 7, least: float = 0.2) -> float:
    """Shortest of at least `repeats` calls that take at least `least` seconds together, after one warm-up."""
    function()
    times: list[float] = []
    while len(times) < repeats or sum(times) < least:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def read_rate(source: np.ndarray, threads: int) -> float:
    """GB/s at which `threads` threads read a long array."""
    return (
        source.nbytes
        / 1e9
        / min(_threaded(lambda part: part @ part, threads, source), _threaded(np.sum, threads, source))
    )


def copy_rate(source: np.ndarray, threads: int) -> float:
    """GB/s at which `threads` threads copy a long array, counting bytes read and bytes written."""
    target = np.zeros_like(source)
    return 2 * source.nbytes / 1e9 / _threaded(np.copyto, threads, target, source)


def gemm_rate(size: int) -> float:
    """GFLOP/s of a square matrix product in double precision."""
    matrix = np.random.default_rng(0).standard_normal((size, size))
    out = np.empty_like(matrix)
    return 2 * size**3 / 1e9 / best_seconds(lambda: np.matmul(matrix, matrix, out=out), repeats=5)


def _threaded(function: Callable[..., object], threads: int, *arrays: np.ndarray) -> float:
    """Best time of `function` over all arrays, cut into one part per thread (NumPy releases its lock)."""
    parts = list(zip(*(np.array_split(array, threads) for array in arrays), strict=True))
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        return best_seconds(lambda: list(pool.map(lambda part: function(*part), parts)))


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
