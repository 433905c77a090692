"""What JAX compiles, and what fits of many folds and settings cost when they advance together.

A fit is padded to a bucket of sizes, so that a second fit of the bucket compiles nothing. `cross_fit` sweeps folds
and settings of the priors together. Asked: no compilation in the second fit of a bucket, and ten folds of 400 samples
and 130 kernels in at most 12 times one fit.

    python benchmarks/jax_batches.py            wdbc, 400 samples, 13 kernels on all of 9 features and on each
    python benchmarks/jax_batches.py --fast     40 samples, 6 kernels
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from _machine import measure
from _protocol import load, paper_kernels, split
from _report import claim, finish, markdown_table, parser
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl import Gamma, Storage, cross_fit
from bayesmkl.bemkl.inference.padding import bucket_size

ASKED_FOLDS = 12.0
N_FOLDS, FAST_FOLDS = 10, 3
GRID = {"kernel_prior": [Gamma(1.0, 1.0), Gamma(1.0, 0.1)], "intermediate_scale": [0.5, 1.0]}


class Compilations:
    """Seconds of everything that JAX compiles while one is open."""

    def __enter__(self) -> Compilations:
        self.seconds: list[float] = []
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        jax.monitoring.unregister_event_duration_listener(self._listen)

    def _listen(self, event: str, duration: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            self.seconds.append(duration)


def timed(name: str, run: Callable[[], list[Any]]) -> dict[str, Any]:
    """Time of a run, of what it compiled, and the sweeps of the models that it fitted."""
    start = time.perf_counter()
    with Compilations() as compiled:
        models = run()
    seconds = time.perf_counter() - start
    print(f"{name}: {seconds:.1f} s", flush=True)
    return {
        "run": name,
        "seconds": seconds,
        "compilations": len(compiled.seconds),
        "compile_seconds": sum(compiled.seconds),
        "models": len(models),
        "sweeps": int(sum(np.sum(model.n_iter_) for model in models)),
    }


def fit(model: BEMKLClassifier, kernels: np.ndarray, y: np.ndarray, rows: Any) -> list[BEMKLClassifier]:
    """Fit one clone to some of the samples."""
    return [clone(model).fit(kernels[rows][:, rows], y[rows])]


def fits(model: BEMKLClassifier, kernels: np.ndarray, y: np.ndarray, cv: Any, grid: Any = None) -> list[Any]:
    """Fit folds and settings together."""
    return [own.estimator for own in cross_fit(model, kernels, y, cv=cv, param_grid=grid)]


def runs(model: BEMKLClassifier, kernels: np.ndarray, y: np.ndarray, fast: bool) -> dict[str, dict[str, Any]]:
    """Time all runs, each with what it may find compiled; short ones compile little."""
    n, n_folds = len(y), FAST_FOLDS if fast else N_FOLDS
    cv = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    folds = [train for train, _ in cv.split(kernels, y)]
    everything, fewer = np.arange(n), np.delete(np.arange(n), [0, n // 2])
    assert bucket_size(len(fewer)) == bucket_size(n)
    on_numpy = clone(model).set_params(storage=Storage(backend="numpy"))
    found = {
        "first": timed("first fit", lambda: fit(model, kernels, y, everything)),
        "one": timed("the same again", lambda: fit(model, kernels, y, everything)),
        "fewer": timed("two samples fewer", lambda: fit(model, kernels, y, fewer)),
        "together_first": timed(f"{n_folds} folds together", lambda: fits(model, kernels, y, cv)),
        "together": timed("the same again", lambda: fits(model, kernels, y, cv)),
        "numpy": timed(f"{n_folds} folds on NumPy", lambda: fits(on_numpy, kernels, y, cv)),
    }
    if not fast:
        found |= {
            "in_turn": timed(
                f"{n_folds} folds, one after the other",
                lambda: [own for fold in folds for own in fit(model, kernels, y, fold)],
            ),
            "grid": timed("2 folds, 4 settings of priors", lambda: fits(model, kernels, y, 2, GRID)),
            "grid_again": timed("the same again", lambda: fits(model, kernels, y, 2, GRID)),
        }
    return found


def main() -> None:
    options = parser(__doc__).parse_args()
    n, n_features = (40, 1) if options.fast else (400, 9)
    X, y = load("wdbc")
    X_train, _, y_train, _ = split(X[:, :n_features], y, n, seed=0)
    kernels = paper_kernels().fit_transform(X_train)
    kernels = kernels[..., ::5] if options.fast else kernels
    machine = measure(options.fast)
    model = BEMKLClassifier("precomputed", storage=Storage(backend="jax"), margin=1.0, intermediate_scale=1.0)
    with warnings.catch_warnings(action="ignore"):
        found = runs(model, kernels, y_train, options.fast)
    one = found["one"]["seconds"]
    rows = [
        (
            f"{run['run']} | {run['seconds']:.2f} | {run['seconds'] / one:.1f} | "
            f"{run['sweeps'] / run['models']:.0f} | {run['compilations']!s} | "
            f"{run['compile_seconds']:.1f}"
        )
        for run in found.values()
    ]
    headers = ["run", "seconds", "of one fit", "sweeps per model", "compilations", "compiling, seconds"]
    text = (
        f"{kernels.shape[2]} kernels, {n} samples, default tolerance; one fit is the second one.\n\n"
        + markdown_table(headers, rows)
    )
    print(f"{machine.report()}\n         JAX {jax.__version__} on {jax.devices()[0].device_kind}\n")
    numbers = {"machine": machine._asdict(), "jax": jax.__version__, "samples": n, "runs": found}
    size = f"{n} samples, {kernels.shape[2]} kernels"
    numbers["claims"] = [
        claim("compilations in the second fit of a shape on JAX", 0.0, float(found["one"]["compilations"])),
        claim(
            "compilations in the first fit of another size of its bucket",
            0.0,
            float(found["fewer"]["compilations"]),
        ),
        claim(
            f"{FAST_FOLDS if options.fast else N_FOLDS} folds together over one fit on JAX; {size}",
            ASKED_FOLDS,
            found["together"]["seconds"] / one,
        ),
    ]
    finish(options, "jax_batches", text, numbers)


if __name__ == "__main__":
    main()
