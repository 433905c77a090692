"""LD-MKL, and SwMKL by multiplicative weights, on all training rows of a9a: seconds, share of LibSVM, peak memory.

Every method runs in a process of its own, which `python benchmarks/_localized_scale.py METHOD` is. The choices that
LD-MKL leaves open are compared on small sets.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _ldmkl_variants import compare
from _report import markdown_table
from papers.localized import GATES, ld_mkl
from papers.uci import fetch
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from bayesmkl.discriminative.estimators.ldmkl import LDMKLClassifier
from bayesmkl.discriminative.estimators.swmkl import SwMKLClassifier
from bayesmkl.discriminative.svm import native
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial

GAMMAS = 2.0 ** np.arange(-4, 5)  # of the paper
CV_ROWS, CV_FOLDS = 1500, 3
FAST_ROWS, N_COLUMNS, N_ONES = 300, 123, 14
GIB = 2**30


class Published(NamedTuple):
    """A cell of the paper's tables."""

    accuracy: tuple[float, float]  # %, and its standard deviation
    minutes: float
    support: float | None = None  # %


class Method(NamedTuple):
    """What is fitted, on kernels of unit self-similarity or of scikit-learn's default scale."""

    make: Callable[[KernelBank], Any]
    published: Published
    unit: bool = False


def sw_mkl(bank: KernelBank) -> SwMKLClassifier:
    """SwMKL by multiplicative weights, with gates that are the regressions themselves."""
    return SwMKLClassifier(bank, svm="mwu", temperature=None, **GATES)


# Moeller et al. 2016, tables 2 (LD-MKL, LibSVM), 3 (SwMKL, MWU) and 4: accuracy and its deviation, minutes, support.
VOTES = Published((84.78, 0.4), 6.52, 37.4)
METHODS = {
    "LD-MKL": Method(ld_mkl, VOTES),
    "LD-MKL, unit": Method(ld_mkl, VOTES, unit=True),
    "SwMKL, MWU": Method(sw_mkl, Published((83.96, 0.61), 9.1)),
}


class LibSVMClock:
    """Processor seconds inside LibSVM: takes the place of its classes where kernels are left to it."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {"SVC": [], "SVR": []}
        for name, machine in (("SVC", SVC), ("SVR", SVR)):
            setattr(native, name, self._timed(name, machine))

    def _timed(self, name: str, machine: type) -> type:
        times = self.seconds[name]

        class Timed(machine):  # type: ignore[misc, valid-type]
            def fit(self, *arguments: Any, **options: Any) -> Any:
                start = time.process_time()
                super().fit(*arguments, **options)
                times.append(time.process_time() - start)
                return self

        return Timed

    def stop(self) -> None:
        native.SVC, native.SVR = SVC, SVR


def data(fast: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Both published parts of a9a; or rows of as many ones whose label some of them decide."""
    if not fast:
        return *fetch("a9a", subset="train", return_X_y=True), *fetch("a9a", subset="test", return_X_y=True)
    rng = np.random.default_rng(0)
    X = np.zeros((2 * FAST_ROWS, N_COLUMNS))
    for row in X:
        row[rng.choice(N_COLUMNS, N_ONES, replace=False)] = 1.0
    y = np.where(X @ rng.normal(size=N_COLUMNS) > 0.0, 1, -1)
    return X[:FAST_ROWS], y[:FAST_ROWS], X[FAST_ROWS:], y[FAST_ROWS:]


def bank(gamma: float, unit: bool = False) -> KernelBank:
    """Quadratic and Gaussian kernel of rows that were divided by the root of their length.

    The quadratic one is scikit-learn's default, which is small here, or has unit self-similarity.
    """
    gaussian = Gaussian(gamma=gamma * N_COLUMNS)
    if unit:
        return KernelBank([Polynomial(2, offset=1.0 / N_COLUMNS), gaussian], normalize="spherical")
    return KernelBank([Polynomial(2, offset=0.0), gaussian], normalize=None)


def choose_gamma(X: np.ndarray, y: np.ndarray) -> float:
    """Return the width with the best accuracy of the Gaussian alone in cross-validation; the widest of equals."""
    rows = np.random.default_rng(0).permutation(len(y))[:CV_ROWS]
    found = [cross_val_score(SVC(gamma=g), X[rows], y[rows], cv=CV_FOLDS).mean() for g in GAMMAS]
    return float(GAMMAS[int(np.argmax(found))])


def measure(method: str, fast: bool) -> dict[str, Any]:
    """Fit and score one method in this process."""
    X, y, X_test, y_test = data(fast)
    gamma = choose_gamma(X, y)
    X, X_test = X / N_COLUMNS**0.5, X_test / N_COLUMNS**0.5
    before, clock = _peak(), LibSVMClock()
    model = METHODS[method].make(bank(gamma, METHODS[method].unit))
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(action="ignore"):  # kernels of very different scales, as in the paper
        model.fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    clock.stop()
    after = _peak()
    start = time.process_time()
    scores = model.decision_function(X_test)
    scoring = time.process_time() - start
    numbers = {
        "n_train": len(y),
        "n_test": len(y_test),
        "gamma": gamma,
        "wall_seconds": seconds,
        "seconds": cpu,
        "libsvm": clock.seconds,
        "libsvm_seconds": sum(map(sum, clock.seconds.values())),
        "scoring_seconds": scoring,
        "memory_before": before,
        "memory_fit": after,
        "memory_all": _peak(),
        "accuracy": 100.0 * float(np.mean((scores > 0.0) == (y_test > 0))),
        "support": 100.0 * model.support_fraction_,
        "n_solves": model.n_solves_,
    }
    if isinstance(model, LDMKLClassifier):
        numbers["accuracy_paper"] = 100.0 * float(np.mean((_as_printed(model, X_test) > 0.0) == (y_test > 0)))
    return numbers


def _as_printed(model: LDMKLClassifier, X: np.ndarray) -> np.ndarray:
    """Scores with gates on the support vectors and no intercepts: the same machines in the paper's eq. 6."""
    result = model.results_[0]
    gated = [
        svm._replace(coef=svm.coef * gates[svm.support], intercept=0.0)
        for svm, gates in zip(result.svms, result.gates, strict=True)
    ]
    kept, model.results_ = model.results_, (result._replace(svms=tuple(gated)),)
    try:
        return model.decision_function(X)
    finally:
        model.results_ = kept


def _peak() -> int:
    """Largest memory of this process until now, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _alone(method: str) -> dict[str, Any]:
    """Measure a method in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), method]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run(fast: bool) -> tuple[str, dict[str, Any]]:
    """Fit on all training rows, score the test rows."""
    here = fast or not os.environ.get("BAYESMKL_DATA")
    with threadpool_limits(1):
        numbers = {method: measure(method, True) if here else _alone(method) for method in METHODS}
    rows = []
    for method, found in numbers.items():
        published = METHODS[method].published
        printed, ratio = found.get("accuracy_paper"), "-"
        if printed is not None:
            ratio = f"{found['seconds'] / found['libsvm_seconds']:.2f}"
        rows.append(
            f"{method} | {found['accuracy']:.2f} | {'-' if printed is None else f'{printed:.2f}'} | "
            f"{'{:.2f} ({:.2f})'.format(*published.accuracy)} | {found['seconds'] / 60.0:.1f} | "
            f"{published.minutes:.1f} | {ratio} | {found['support']:.1f} | "
            f"{'-' if published.support is None else f'{published.support:.1f}'} | "
            f"{found['memory_all'] / GIB:.2f}"
        )
    headers = (
        "method | accuracy (%) | eq. 6 | published (sd) | minutes | published | times LibSVM | support (%) | "
        "published | peak (GiB)"
    )
    choices, numbers["choices"] = compare(fast)
    return (
        f"{_conditions(numbers, here)}\n\n{markdown_table(headers, rows)}\n\n{_remarks(numbers)}\n\n{choices}",
        numbers,
    )


def _conditions(numbers: dict[str, Any], synthetic: bool) -> str:
    found = numbers["LD-MKL"]
    rows = "rows of the same form (synthetic)" if synthetic else "rows of a9a"
    return (
        f"{found['n_train']} training and {found['n_test']} test {rows}, {N_COLUMNS} columns; C = 1; quadratic and "
        f"Gaussian kernel of width $\\gamma = {found['gamma']:g}$ (cross-validation of the Gaussian alone on at most "
        f"{CV_ROWS} rows, among the paper's nine). The quadratic kernel is scikit-learn's default, "
        f"$(x^\\top z / {N_COLUMNS})^2$, whose values are below 0.02 here; *unit* has one with unit self-similarity. "
        "*eq. 6*: the same machines as printed in the paper, with gates on the support vectors and no intercepts. "
        "Minutes are of one processor, on a machine with other work, and for the fit; *times LibSVM* divides them by "
        "those spent inside LibSVM's training in the same run. Peak: all memory of the process, data and libraries "
        "included, until the test rows were scored. Published numbers are of 75 % of the training rows."
    )


def _remarks(numbers: dict[str, Any]) -> str:
    remarks = []
    for method, found in numbers.items():
        if "accuracy_paper" not in found:
            continue
        remarks.append(
            f"{method} takes {found['seconds'] / found['libsvm_seconds']:.2f} times the seconds of its "
            f"{found['n_solves']} LibSVM calls (asked: at most 1.3), of which regressions are "
            f"{100 * sum(found['libsvm']['SVR']) / found['libsvm_seconds']:.0f} %, and "
            f"{found['memory_all'] / GIB:.2f} GiB (asked: below 3)."
        )
    weighted = numbers["SwMKL, MWU"]
    remarks.append(
        f"The kernel matrix that SwMKL needs with LibSVM has {8 * weighted['n_train'] ** 2 / GIB:.2f} GiB; by "
        f"multiplicative weights the whole process took {weighted['memory_all'] / GIB:.2f} GiB."
    )
    return " ".join(remarks)


if __name__ == "__main__":
    with threadpool_limits(1):
        print(json.dumps(measure(sys.argv[1], fast=False)))
