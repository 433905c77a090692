"""What the devices of JAX can do, and how calls on them are timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from bayesmkl._utils.devices import double_precision


class Device(NamedTuple):
    """The first device that JAX sees, and its rates in double precision."""

    name: str
    jax: str
    read_gb_s: float
    gemm_gflop_s: float

    def report(self) -> str:
        return (
            f"{self.name}, jax {self.jax}; it reads {self.read_gb_s:.0f} GB/s and multiplies matrices at "
            f"{self.gemm_gflop_s / 1e3:.3g} TFLOP/s in double precision."
        )


def is_accelerator() -> bool:
    return jax.default_backend() != "cpu"


def seconds_of(function: Callable[..., Any], *arguments: Any, repeats: int = 7) -> float:
    """Median of `repeats` calls of a compiled function, its result awaited, after one that compiles it."""
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*arguments))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def device(fast: bool) -> Device:
    """Measure the first device."""
    n_bytes, size = (2**33, 8192) if is_accelerator() else (2**24, 256) if fast else (2**28, 1000)
    found = jax.devices()[0]
    with double_precision():
        tall = jax.numpy.ones((n_bytes // 8 // 256, 256))
        reading = seconds_of(lambda array, vector: array @ vector, tall, jax.numpy.ones(256))
        del tall
        square = jax.random.normal(jax.random.key(0), (size, size))
        multiplying = seconds_of(lambda one: one @ one, square)
    return Device(
        f"{found.platform} ({found.device_kind})",
        jax.__version__,
        n_bytes / 1e9 / reading,
        2 * size**3 / 1e9 / multiplying,
    )
