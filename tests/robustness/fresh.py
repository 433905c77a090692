"""What every family predicts when it is fitted in a process of its own; processes of the tests share the files."""

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


class Fresh(NamedTuple):
    """Predictions by family and method, what the imports changed, and the hosts that were asked for."""

    predictions: dict[str, dict[str, np.ndarray]]
    changed_by_import: list[str]
    asked_by_import: list[str]
    asked_by_fits: list[str]


def fresh_process(tmp_path_factory: Any, threads: int, hash_seed: int, everything: bool = True) -> Fresh:
    """Run the driver with a number of BLAS threads and a seed of Python's hashes, once per run of the tests."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    out = folder / f"fresh-{threads}-{hash_seed}.npz"
    numbers = {"OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONHASHSEED": hash_seed}
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            part = out.with_suffix(".part.npz")
            subprocess.run(
                [sys.executable, DRIVER, part, str(N_SAMPLES), "everything" if everything else "some"],
                env=os.environ | {name: str(value) for name, value in numbers.items()},
                check=True,
            )
            part.rename(out)
    with np.load(out) as held:
        found = dict(held)
    assert set(found["blas_threads"]) == {threads}
    predictions: dict[str, dict[str, np.ndarray]] = {}
    for k, (family, method) in enumerate(found["names"]):
        predictions.setdefault(str(family), {})[str(method)] = found[str(k)]
    return Fresh(predictions, *(found[key].tolist() for key in Fresh._fields[1:]))
