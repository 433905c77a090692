"""One fit of many samples against landmarks on JAX devices, from the samples to the posterior."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _gpu_devices import device, is_accelerator
from _protocol import N_TWONORM_KERNELS, twonorm_bank
from _report import claim, markdown_table
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl import Storage
from bayesmkl.datasets import make_twonorm

N_TEST = 10_000
LOOSE, TIGHT = 1e-4, 1e-6  # tolerances; the second is the default


class Size(NamedTuple):
    """How large the problem is."""

    n_samples: int
    n_landmarks: int
    max_iter: int


def size_of(fast: bool) -> Size:
    if is_accelerator() and not fast:
        return Size(1_000_000, 256, 1000)
    return Size(500, 16, 5) if fast else Size(20_000, 64, 1000)


def fit(size: Size, X: np.ndarray, y: np.ndarray, tol: float) -> tuple[BEMKLClassifier, float]:
    """Fit; return the model and seconds."""
    bank = twonorm_bank(size.n_landmarks)
    storage = Storage("dense", backend="jax")
    model = BEMKLClassifier(
        bank, storage=storage, margin=1.0, intermediate_scale=1.0, max_iter=size.max_iter, tol=tol
    )
    start = time.perf_counter()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # stated in the table
        model.fit(X, y)
    return model, time.perf_counter() - start


def judged(model: BEMKLClassifier, seconds: float, test: Any) -> dict[str, Any]:
    """What a fit took, and what its predictions are worth."""
    return {
        "seconds": seconds,
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "elbo": float(model.elbo_),
        "accuracy": float(np.mean(model.predict(test.data) == test.target)),
        "log_loss": float(log_loss(test.target, model.predict_proba(test.data))),
    }


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Fit with two tolerances, the first of them again with everything compiled."""
    size = size_of(fast)
    sample, test = make_twonorm(size.n_samples, random_state=0), make_twonorm(N_TEST, random_state=1)
    fits = [
        ("compilation included", *fit(size, sample.data, sample.target, LOOSE)),
        ("the same again", *fit(size, sample.data, sample.target, LOOSE)),
        ("compiled before", *fit(size, sample.data, sample.target, TIGHT)),
    ]
    found = [judged(model, seconds, test) | {"how": how, "tol": model.tol} for how, model, seconds in fits]
    rates = device(fast)
    rows = [
        (
            f"to {one['tol']:g}, {one['how']} | {one['seconds']:.1f} s | "
            f"{one['n_iter']}{'' if one['converged'] else ', not converged'} | {one['accuracy']:.2%} | "
            f"{one['log_loss']:.4f}"
        )
        for one in found
    ]
    first, last = found[0], found[-1]
    what = f"{size.n_samples} samples on a GPU"
    claims = [
        claim(f"fit of {what} to {LOOSE:g}, compilation included", 20.0, first["seconds"], " s"),
        claim(
            f"{what}: accuracy below that of the fit to {TIGHT:g}",
            0.001,
            last["accuracy"] - first["accuracy"],
        ),
        claim(
            f"{what}: log loss above that of the fit to {TIGHT:g}",
            0.002,
            first["log_loss"] - last["log_loss"],
        ),
    ]
    head = f"{size.n_samples} samples, {N_TWONORM_KERNELS} kernels, {size.n_landmarks} landmarks"
    numbers = {
        "device": rates._asdict(),
        "size": size._asdict(),
        "fits": found,
        "claims": claims if is_accelerator() else [],
    }
    columns = [head, "fit", "steps", "accuracy", "log loss"]
    return f"{rates.report()}\n\n" + markdown_table(columns, rows), numbers
