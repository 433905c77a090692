"""One fit of a peer, in a process and an environment of its own: what is read, timed and written.

A script `_peer_NAME.py` has a table of fits by name, `METHODS`, and ends with ``main(METHODS)``. A fit gets a
`Problem` and a `Clock`, and returns a function from new rows to a pair: labels (0 or 1) and probabilities of label 1,
or means and standard deviations; None where there are none. It may call `Clock.look` on the way: the clock stands
still while the rows of the test are predicted. Needs NumPy, and what the peer needs.

    PYTHON benchmarks/_peer_NAME.py problem.npz request.json answer.npz
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _memory import peak_of

NOT_INSTALLED = 3  # exit code
Predict = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]


class Problem(NamedTuple):
    """Standardized features; labels 0 and 1, or standardized targets."""

    X: np.ndarray
    y: np.ndarray
    views: list[list[int]]  # columns
    widths: list[float]  # of Gaussian kernels
    regression: bool
    device: str
    seed: int = 0


class Clock:
    """Seconds of processor (all threads, and child processes) and of the wall, without those of `look`."""

    def __init__(self, X_test: np.ndarray) -> None:
        self.X_test = X_test
        self.looks: list[tuple[float, float, np.ndarray, np.ndarray | None]] = []
        self._away = np.zeros(2)
        self._start = self._now()

    def seconds(self) -> np.ndarray:
        """Seconds of processor and wall until now."""
        return self._now() - self._start - self._away

    def look(self, predict: Predict) -> None:
        """Predict the rows of the test with what there is so far."""
        before = self._now()
        self.looks.append((*(before - self._start - self._away), *predict(self.X_test)))
        self._away += self._now() - before

    @staticmethod
    def _now() -> np.ndarray:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return np.array([time.process_time() + children.ru_utime + children.ru_stime, time.perf_counter()])


Fit = Callable[..., Predict]


def gaussian_kernels(problem: Problem, X: np.ndarray) -> np.ndarray:
    """Kernels of rows and training rows, (n_kernels, n_rows, n_train): those of the bank."""
    found = []
    for view in problem.views:
        rows, train = X[:, view], problem.X[:, view]
        squared = (rows**2).sum(1)[:, None] + (train**2).sum(1) - 2.0 * rows @ train.T
        found += [np.exp(np.minimum(-squared, 0.0) / (2.0 * width**2)) for width in problem.widths]
    return np.array(found)


def answer(methods: dict[str, Fit], problem: Path, request: Path, result: Path) -> None:
    """Fit once, predict, and write predictions and numbers."""
    asked = json.loads(request.read_text(encoding="utf-8"))
    with np.load(problem) as data:
        X, y, X_test = data["X"], data["y"], data["X_test"]
    own = Problem(X, y, asked["views"], asked["widths"], asked["regression"], asked["device"])
    for name in asked["imports"]:  # before the clock starts
        importlib.import_module(name)
    clock = Clock(X_test)

    def work() -> tuple[np.ndarray, np.ndarray, Any]:
        predict = methods[asked["name"]](own, clock, **asked["options"])
        fitted = clock.seconds()
        return fitted, clock.seconds(), predict(X_test)

    # amplitudes at bounds, iterations that end early: scores tell
    with warnings.catch_warnings(action="ignore"):
        (fitted, begun, (point, second)), peak = peak_of(work)
    predicted = clock.seconds() - begun
    numbers = {
        "cpu": fitted[0],
        "wall": fitted[1],
        "predict_cpu": predicted[0],
        "predict_wall": predicted[1],
        "peak": peak.process,
        "versions": {name: _version(name) for name in asked["packages"]},
        "looks": [list(look[:2]) for look in clock.looks],
        **_device(asked["device"]),
    }
    seconds = [look[3] for look in clock.looks]
    np.savez(
        result,
        numbers=json.dumps(numbers),
        point=point,
        second=np.empty(0) if second is None else second,
        points=np.array([look[2] for look in clock.looks]),
        seconds=np.array([] if any(one is None for one in seconds) else seconds),
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # not installed, but imported from where it lies
        return str(getattr(sys.modules.get(name), "__version__", "not packaged"))


def _device(device: str) -> dict[str, Any]:
    """Name the accelerator that was used, and its largest memory."""
    if device != "cuda":
        return {}
    if "torch" in sys.modules:
        import torch

        return {"accelerator": torch.cuda.get_device_name(), "device_peak": torch.cuda.max_memory_allocated()}
    import jax

    own = jax.devices()[0]
    return {
        "accelerator": own.device_kind,
        "device_peak": (own.memory_stats() or {}).get("peak_bytes_in_use"),
    }


def main(methods: dict[str, Fit]) -> None:
    """Answer the request on the command line; the exit code says if a package is missing."""
    try:
        answer(methods, *map(Path, sys.argv[1:4]))
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        raise SystemExit(NOT_INSTALLED) from error
