"""Memory of localized methods with either machine inside, beside the formula of figure 2 of the unified view.

Every method and machine runs in a process of its own, which `python benchmarks/_localized_memory.py METHOD SVM` is:
one fit after the other, on more and more samples.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _report import STATIC, markdown_table
from matplotlib.figure import Figure
from papers.localized import GATES
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative.estimators.clmkl import CLMKLClassifier
from bayesmkl.discriminative.estimators.ldmkl import LDMKLClassifier
from bayesmkl.discriminative.estimators.lmkl import LMKLClassifier
from bayesmkl.discriminative.estimators.swmkl import SwMKLClassifier
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial

# One step of the outer search and quick machines: memory does not depend on the number of steps.
METHODS = {
    "LMKL": (LMKLClassifier, {"max_iter": 1, "fallback": False}),
    "C-LMKL": (CLMKLClassifier, {"max_iter": 1, "n_landmarks": 100, "n_restarts": 1}),
    "SwMKL": (SwMKLClassifier, {"gate_subsample": 500, "temperature": None, **GATES}),
    "LD-MKL": (LDMKLClassifier, {"gate_subsample": 500, "temperature": 1.0, **GATES}),
}
FIGURE = "localized_memory.png"
SIZES = {"libsvm": (1000, 2000, 4000, 8000), "mwu": (1000, 2000, 4000, 8000, 16000)}
FAST_SIZES = (50, 100)
N_KERNELS = 2
MIB = 2**20
PAPER_SETS = {"breast": 683, "german": 1000, "gisette": 6000, "mushrooms": 8192, "adult": 32561}


def problem(n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten features, two of which tell the classes apart up to some noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 10))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n_samples) > 0.0, 1, -1)


def measure(method: str, svm: str, sizes: tuple[int, ...], peak: Callable[[], int]) -> dict[str, float]:
    """Return bytes by the number of samples, above those that the process had before."""
    make, special = METHODS[method]
    bank = KernelBank([Polynomial(2), Gaussian(width=3.0)])
    found = {}
    X, y = problem(50)
    with warnings.catch_warnings(action="ignore"):  # one step does not converge
        make(bank, svm=svm, **special).fit(X, y)
        before = peak()
        for n_samples in sizes:
            X, y = problem(n_samples)
            make(bank, C=0.01, svm=svm, mwu_epsilon=0.8, **special).fit(X, y)
            found[str(n_samples)] = float(peak() - before)
    return found


def _resident() -> int:
    """Largest memory of this process until now, in bytes.

    Linux's number of this program: that of `getrusage` begins with what the process that started it had.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = [line.split() for line in status.read_text(encoding="utf-8").splitlines()]
        return next(1024 * int(words[1]) for words in lines if words[0] == "VmHWM:")
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _traced() -> int:
    """Largest memory of arrays and objects since the last call, in bytes; LibSVM's own is not seen."""
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    return most


def _here(method: str, svm: str) -> dict[str, float]:
    tracemalloc.start()
    try:
        return measure(method, svm, FAST_SIZES, _traced)
    finally:
        tracemalloc.stop()


def _alone(method: str, svm: str) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), method, svm]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Measure every method with either machine; in this process where it must be fast."""
    memory = {method: {svm: (_here if fast else _alone)(method, svm) for svm in SIZES} for method in METHODS}
    return report(memory), {"memory": memory}


def draw(numbers: dict[str, Any], folder: Path = STATIC) -> Path:
    """Draw measured memory over the formula of figure 2, from the numbers of `run`."""
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, svm, label in zip(axes, SIZES, ("LibSVM", "multiplicative weights"), strict=True):
        for (method, of_svm), marker in zip(numbers["memory"].items(), "osD^", strict=True):
            sizes = sorted(map(int, of_svm[svm]))
            ax.loglog(sizes, [of_svm[svm][str(n)] / MIB for n in sizes], marker=marker, label=method)
        ends = np.array([min(SIZES["libsvm"]), max(SIZES["mwu"])])
        ax.loglog(ends, [formula(n, svm) / MIB for n in ends], "--", color="0.4", label="figure 2's formula")
        ax.set(title=label, xlabel="training samples")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("memory (MiB)")
    axes[0].legend(fontsize="small", loc="lower right")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / FIGURE, dpi=120)
    return folder / FIGURE


def formula(n_samples: int, svm: str) -> float:
    """Figure 2, bytes in double precision: a new kernel in full, or a vector for every kernel."""
    return 8.0 * n_samples**2 if svm == "libsvm" else 8.0 * N_KERNELS * n_samples


def report(memory: dict[str, Any]) -> str:
    """Measured bytes, the formula, and the formula at the paper's sizes."""
    sizes = sorted({int(n) for of_svm in memory.values() for found in of_svm.values() for n in found})
    rows = []
    for svm, label in (("libsvm", "LibSVM"), ("mwu", "MWU")):
        for method, of_svm in memory.items():
            found = of_svm[svm]
            rows.append([label, method, *(_mib(found[str(n)]) if str(n) in found else "-" for n in sizes)])
        rows.append([label, "figure 2", *(_mib(formula(n, svm)) for n in sizes)])
    text = (
        f"Memory in MiB that a fit with {N_KERNELS} kernels adds to the process, by the number of samples "
        "(synthetic, 10 features). Figure 2's formula counts what cannot be done without in double precision: with "
        "LibSVM the localized kernel, $8 N^2$ bytes, beside which LMKL and C-LMKL keep the base kernels and LibSVM a "
        "copy; with MWU a vector for every kernel, $8 P N$ bytes. Here MWU also has caches of bounded size: up to "
        "100 MB for columns of the kernels and 50 MB for columns of the localized kernel. LD-MKL forms no kernel "
        "with either; LibSVM's own cache, of up to 1 GB, is what grows."
    )
    at = ", ".join(
        f"{name} ({n}) {_mib(formula(n, 'libsvm'))} / {_mib(formula(n, 'mwu'))}"
        for name, n in PAPER_SETS.items()
    )
    growth = "; ".join(_growth(method, of_svm) for method, of_svm in memory.items())
    return (
        f"{text}\n\n{markdown_table(['machine', 'method', *map(str, sizes)], rows)}\n\n"
        f"The formula at the paper's sizes, LibSVM / MWU in MiB: {at}. Growth over the last doubling of the samples: "
        f"{growth}."
    )


def _growth(method: str, of_svm: dict[str, dict[str, float]]) -> str:
    words = []
    for svm, label in (("libsvm", "LibSVM"), ("mwu", "MWU")):
        sizes = sorted(map(int, of_svm[svm]))
        two = [n for n in sizes if 2 * n in sizes][-1]
        last, before = of_svm[svm][str(2 * two)], of_svm[svm][str(two)]
        words.append(f"{label} {last / max(before, 1.0):.1f}")
    return f"{method} {', '.join(words)}"


def _mib(value: float) -> str:
    return f"{value / MIB:.2g}" if value < 10 * MIB else f"{value / MIB:.0f}"


if __name__ == "__main__":
    with threadpool_limits(1):
        print(json.dumps(measure(sys.argv[1], sys.argv[2], SIZES[sys.argv[2]], _resident)))
