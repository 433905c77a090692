"""Fits in a process that may not take as much memory as the dense kernels: possible, or refused before they start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

pytest.importorskip("resource")
if not Path("/proc/self/statm").exists():
    pytest.skip("no /proc", allow_module_level=True)

# Everything that is loaded or allocated once comes before the limits, so that what is left counts kernels alone.
CODE = """
import resource, sys
from pathlib import Path
import numpy as np, pandas as pd, pyarrow.parquet, scipy.linalg
from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import open_rows
from bayesmkl.kernels import Gaussian

def settle(n):
    X = np.random.default_rng(1).normal(size=(n, 4))
    bank = KernelBank(Gaussian(), landmarks=5)
    BEMKLClassifier(bank, max_iter=2, tol=0, storage="streamed").fit(X, X[:, 0] > 0).predict_proba(X)
    scipy.linalg.blas.dsyrk(1.0, np.eye(300)); scipy.linalg.cholesky(np.eye(300) @ np.eye(300))

def in_use():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

def limit(megabytes):
    resource.setrlimit(resource.RLIMIT_AS, (in_use() + megabytes * 10**6, resource.RLIM_INFINITY))

def table(n):
    X = np.random.default_rng(0).normal(size=(n, 6))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")

def refusal(bank, X, y):
    before = in_use()
    try:
        BEMKLClassifier(bank, storage="dense").fit(X, y)
    except MemoryError as error:
        print(error)
    print(in_use() - before < 20e6)

settle(60)
KERNELS = [Gaussian(width=w) for w in (1, 2, 4, 8)]
NAMES, FILE = list("abcdef"), sys.argv[1]

X, y = table(15_000)
pd.DataFrame(X, columns=NAMES).to_parquet(FILE, row_group_size=2000)
rows = open_rows(FILE, NAMES)
bank = KernelBank(KERNELS, views={"left": NAMES[:3], "right": NAMES[3:]}, landmarks=128)
limit(80)
model = BEMKLClassifier(bank, max_iter=3, tol=0).fit(rows, y)
print(model.storage_, model.kernel_bytes_ < 10e6, (np.diff(model.elbo_history_) > 0).all())
print((model.predict(rows) == y).mean() > 0.8)
refusal(bank, pd.DataFrame(X, columns=NAMES), y)
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What a process of one thread prints that runs CODE."""
    environment = os.environ | {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve address space ahead
        "MALLOC_ARENA_MAX": "1",
    }
    command = [sys.executable, "-c", CODE, str(tmp_path_factory.mktemp("limited") / "X.parquet")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_streamed_fit_from_a_file_in_less_than_the_kernels_take(lines):
    """Kernels of 123 MB, a file read by row groups, 80 MB to do it in; held, they are refused, not attempted."""
    assert lines[:2] == ["streamed True True", "True"]
    assert lines[2].startswith("`X`: a stack of 8 kernels of 15000 x 128 entries needs 123 MB, and ")
    assert "landmarks" in lines[2]
    assert lines[3] == "True"
