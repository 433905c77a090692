"""One of several processes that share a fit; `test_sharded` starts them.

python one_of_several_processes.py ADDRESS NUMBER_OF_PROCESSES OWN_NUMBER RESULT
"""

from __future__ import annotations

import sys

import jax
import numpy as np

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl import VB, Storage
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial


def fitted(**options):
    """Fit samples whose number two processes with two devices each cannot, or can, share evenly."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40 if options["storage"].kind == "streamed" else 41, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    bank = KernelBank([Gaussian(width=1), Polynomial(degree=2)], landmarks=10)
    return BEMKLClassifier(bank, max_iter=20, tol=0.0, inference=VB(accelerate=False), **options).fit(X, y)


def main() -> None:
    address, n_processes, own, result = sys.argv[1:]
    jax.distributed.initialize(address, int(n_processes), int(own))
    models = [fitted(storage=Storage(kind, backend="jax", devices="all")) for kind in ("dense", "streamed")]
    assert len(jax.devices()) > len(jax.local_devices())
    np.savez(result, *(model.dual_coef_ for model in models), *(model.kernel_shares_ for model in models))


if __name__ == "__main__":
    main()
