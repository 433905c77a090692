"""How time and memory of a fit grow with samples, kernels and landmarks.

Every fit begins with samples, evaluates its kernels and runs a fixed number of sweeps. An exponent is the slope of
log(seconds) over log(size) by least squares, over the sizes that the table names. Memory is the most that a fit adds
to a new process, beside what its stack says that it takes.

    python benchmarks/scaling.py               up to 16000 samples, 300 kernels and 512 landmarks: 3 minutes
    python benchmarks/scaling.py --fast        up to 800 samples, 40 kernels and 32 landmarks
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _memory import MB, alone, peak_of
from _protocol import load, split
from _report import begin, claim, finish, markdown_table
from _speed_cases import WIDTHS, waveform

from bayesmkl import BEMKLClassifier
from bayesmkl.kernels import Gaussian, KernelBank

N_SWEEPS = 20
REPEATS = 3
FEW_WIDTHS = WIDTHS[3:]  # Gaussians on all 21 features of waveform, none of which is nearly the identity
ASKED_SAMPLES, ASKED_KERNELS, ASKED_MEMORY = 1.1, 1.3, 1.3


class Fit(NamedTuple):
    """One fit, in terms that fit into a message to another process."""

    n_samples: int
    # Gaussians of all widths on each of so many features of wdbc; None: waveform, all features
    n_features: int | None
    landmarks: int | None
    storage: str


class Series(NamedTuple):
    """Fits of growing size."""

    name: str
    variable: str
    fixed: str
    sizes: list[int]
    fits: list[Fit]
    asked: float | None = None


def all_series(fast: bool) -> list[Series]:
    """Samples and landmarks with the one or the other fixed; kernels compressed and dense."""
    n_landmarks, most = (16, 800) if fast else (128, 16000)
    samples = [most // 4, most // 2, most] if fast else [most // 2**k for k in (4, 3, 2, 1, 0)]
    landmarks = [8, 16, 32] if fast else [64, 128, 256, 512]
    rows, n_wdbc = (400, 100) if fast else (4000, 398)
    features = [1, 2, 4] if fast else [3, 6, 12, 24, 30]
    kernels = [len(WIDTHS) * k for k in features]
    with_few, P = f"{n_landmarks} landmarks", len(FEW_WIDTHS)
    of_samples = [Fit(n, None, n_landmarks, "auto") for n in samples]
    of_landmarks = [Fit(rows, None, b, "auto") for b in landmarks]
    series = [
        Series("N", "samples", f"{with_few}, {P} kernels", samples, of_samples, ASKED_SAMPLES),
        Series("B", "landmarks", f"{rows} samples, {P} kernels", landmarks, of_landmarks),
    ]
    for storage, asked in (("compressed", ASKED_KERNELS), ("dense", None)):
        fits, what = [Fit(n_wdbc, k, None, storage) for k in features], f"kernels, {storage}"
        series.append(Series(f"P, {storage}", what, f"{n_wdbc} samples", kernels, fits, asked))
    return series


def data_of(fit: Fit) -> tuple[np.ndarray, np.ndarray, KernelBank]:
    """Samples, labels and kernels."""
    if fit.n_features is None:
        X, y = waveform(fit.n_samples, np.random.default_rng(0))
        kernels = [Gaussian(width=width) for width in FEW_WIDTHS]
        return X, y, KernelBank(kernels, landmarks=fit.landmarks, random_state=0)
    X, y = load("wdbc")
    X, _, y, _ = split(X, y, fit.n_samples, seed=0)
    return X[:, : fit.n_features], y, KernelBank([Gaussian(width=w) for w in WIDTHS], views="each")


def run(fit: Fit) -> dict[str, Any]:
    """Seconds of one fit, the bytes of its stack, and the memory it took."""
    X, y, bank = data_of(fit)
    model = BEMKLClassifier(
        bank, max_iter=N_SWEEPS, tol=0.0, storage=fit.storage, margin=1.0, intermediate_scale=1.0
    )
    with warnings.catch_warnings(action="ignore"):  # it does not converge
        start = time.perf_counter()
        _, peak = peak_of(lambda: model.fit(X, y))
    return {
        "seconds": time.perf_counter() - start,
        "nbytes": model.kernel_bytes_,
        "kernels": model.kernel_weights_.shape[-1],
        **peak._asdict(),
    }


def warmed(fit: Fit) -> dict[str, Any]:
    """A fit in a process that has loaded, on a small fit, what fits load."""
    run(fit._replace(n_samples=60, n_features=fit.n_features and 1, landmarks=fit.landmarks and 10))
    return run(fit)


def timed(series: Series, repeats: int) -> dict[str, Any]:
    """Shortest time of every fit, sizes in turn, and the exponent."""
    seconds = [np.inf] * len(series.fits)
    for _ in range(repeats):
        for k, fit in enumerate(series.fits):
            seconds[k] = min(seconds[k], run(fit)["seconds"])
    exponent = np.polyfit(np.log(series.sizes), np.log(seconds), 1)[0]
    steps = np.diff(np.log(seconds)) / np.diff(np.log(series.sizes))
    return {
        "series": series.name,
        "variable": series.variable,
        "fixed": series.fixed,
        "sizes": series.sizes,
        "seconds": seconds,
        "exponent": float(exponent),
        "last_step": float(steps[-1]),
    }


def memory_fits(fast: bool) -> dict[str, Fit]:
    """One fit of every kind of stack, large enough that a stack of all entries is most of what a fit needs."""
    if fast:
        return {"dense": Fit(300, 4, None, "dense")}
    return {
        "dense": Fit(398, 30, None, "dense"),
        "compressed": Fit(398, 30, None, "compressed"),
        "landmarks": Fit(30000, None, 256, "auto"),
    }


def time_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of all series."""
    lines = [
        f"{row['variable']} | {row['fixed']} | {', '.join(map(str, row['sizes']))} | "
        f"{', '.join(f'{seconds:.2g}' for seconds in row['seconds'])} | {row['exponent']:.2f} | "
        f"{row['last_step']:.2f}"
        for row in rows
    ]
    return markdown_table(["", "fixed", "sizes", "seconds", "exponent", "of the last step"], lines)


def memory_table(found: dict[str, dict[str, Any]]) -> str:
    """Markdown table of bytes said and bytes taken."""
    lines = [
        [
            f"{name}, {row['samples']} samples, {row['kernels']} kernels",
            f"{row['nbytes'] / MB:.0f}",
            "–" if row["added"] is None else f"{row['added'] / MB:.0f}",
            "–" if row["added"] is None else f"{row['added'] / row['nbytes']:.2f}",
        ]
        for name, row in found.items()
    ]
    return markdown_table(["stack", "it says, MB", "the fit adds, MB", "ratio"], lines)


def main() -> None:
    options = begin(__doc__)
    series = all_series(options.fast)
    run(Fit(60, None, 8, "auto"))  # loads what fits load
    rows = [timed(one, 1 if options.fast else REPEATS) for one in series]
    memory = {
        name: (run(fit) if options.fast else alone(warmed, fit)) | {"samples": fit.n_samples}
        for name, fit in memory_fits(options.fast).items()
    }
    claims = [
        claim(f"exponent of time in {one.variable}; {one.fixed}", one.asked, row["exponent"])
        for one, row in zip(series, rows, strict=True)
        if one.asked is not None
    ]
    claims += [
        claim(f"memory of a fit over what its stack says, {name}", ASKED_MEMORY, row["added"] / row["nbytes"])
        for name, row in memory.items()
        if row["added"] is not None and name != "compressed"
    ]
    text = (
        f"{N_SWEEPS} sweeps of BEMKL for two classes, kernels evaluated anew; waveform with landmarks, wdbc without. "
        f"Exponents are fitted over all sizes of their row.\n\n{time_table(rows)}\n\n{memory_table(memory)}\n\n"
        "Compressed kernels may take less than the matrices of the updates, N x N and P x P."
    )
    numbers = {"rows": rows, "memory": memory, "claims": claims}
    finish(options, "scaling", text, numbers)


if __name__ == "__main__":
    main()
