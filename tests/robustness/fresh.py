"""What every family predicts when it is fitted in a process of its own; processes of the tests share the file."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DRIVER = Path(__file__).with_name("fit_everything.py")
N_SAMPLES = 100  # enough for BLAS to share products among its threads


N_THREADS = 2


class Fresh(NamedTuple):
    """Predictions by family and method on one thread and on all, what imports changed, and the hosts asked for."""

    predictions: dict[str, dict[str, np.ndarray]]
    on_all_threads: dict[str, dict[str, np.ndarray]]  # of those that are fitted there too
    changed_by_models: list[str]
    changed_by_import: list[str]
    asked_by_import: list[str]
    asked_by_fits: list[str]


def fresh_process(tmp_path_factory: Any) -> Fresh:
    """Run the driver with two BLAS threads and other hashes of strings, once per run of the tests."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    out = folder / "fresh.npz"
    numbers = {"OPENBLAS_NUM_THREADS": N_THREADS, "MKL_NUM_THREADS": N_THREADS, "PYTHONHASHSEED": 1}
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            part = out.with_suffix(".part.npz")
            subprocess.run(
                [sys.executable, DRIVER, part, str(N_SAMPLES)],
                env=os.environ | {name: str(value) for name, value in numbers.items()},
                check=True,
            )
            part.rename(out)
    with np.load(out) as held:
        found = dict(held)
    assert set(found["blas_threads"]) == {N_THREADS}
    predictions: dict[str, dict[str, dict[str, np.ndarray]]] = {"one": {}, "all": {}}
    for k, (family, method, threads) in enumerate(found["names"]):
        predictions[str(threads)].setdefault(str(family), {})[str(method)] = found[str(k)]
    return Fresh(*predictions.values(), *(found[key].tolist() for key in Fresh._fields[2:]))
