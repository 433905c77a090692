"""One of several processes that share fits; `test_sharded` starts them.

python one_of_several_processes.py ADDRESS NUMBER_OF_PROCESSES OWN_NUMBER FOLDER CASE...

The folder has the samples, X.npy, and gets the results of each process.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl import VB, Storage
from bayesmkl.datasets import open_rows
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial

# Samples that two processes with two devices each cannot, or can, share evenly; a storage; options.
SWEEPS = {"max_iter": 20, "tol": 0.0, "inference": VB(accelerate=False)}
CASES = {
    "dense": (41, "dense", SWEEPS),
    "streamed": (40, "streamed", SWEEPS),
    "file": (41, "streamed", SWEEPS),  # of which each process reads its own rows
    "newton": (41, "streamed", {"max_iter": 5, "tol": 0.0, "inference": VB(step="newton")}),
}


def fitted(case, folder, backend="numpy", devices=None):
    """Fit the samples of a case, from a file where it says so."""
    n_samples, kind, options = CASES[case]
    X = open_rows(folder / "X.npy") if case == "file" else np.load(folder / "X.npy")[:n_samples]
    y = (np.load(folder / "X.npy")[:n_samples] @ [1.0, 0.2, -0.1] > 0).astype(int)
    bank = KernelBank([Gaussian(width=1), Polynomial(degree=2)], landmarks=10)
    storage = Storage(kind, backend=backend, devices=devices)
    return BEMKLClassifier(bank, storage=storage, **options, intermediate_scale=1.0).fit(X, y)


def main() -> None:
    address, n_processes, own, folder, *cases = sys.argv[1:]
    import jax

    jax.distributed.initialize(address, int(n_processes), int(own))
    for case in cases:
        model = fitted(case, Path(folder), "jax", "all")
        np.savez(Path(folder) / f"{case}-{own}.npz", dual=model.dual_coef_, shares=model.kernel_shares_)
    assert len(jax.devices()) > len(jax.local_devices())


if __name__ == "__main__":
    main()
