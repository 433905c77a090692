"""Many fits one after the other: what memory is lost, and which warnings and errors come up.

Every fit draws an estimator with valid settings, samples, a bank of kernels or precomputed ones, and a target; then
it predicts in every way the estimator has, and every tenth model is saved, loaded and predicts again, with the same
bits. Memory is that of the process once everything has been used (one sampler, then a tenth of the fits), and at the
end.

    python benchmarks/soak.py            2000 fits, in minutes
    python benchmarks/soak.py --fast     15
    python benchmarks/soak.py --fits 500 --seed 3
"""

from __future__ import annotations

import gc
import inspect
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from _machine import measure
from _memory import MB, resident
from _report import claim, finish, markdown_table, parser
from _soak_cases import ESTIMATORS, ROW_METHODS, Case, random_case
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import BEMKLRegressor, load_model, save_model
from bayesmkl.bemkl import Gibbs
from bayesmkl.kernels import KernelQualityWarning

N_FITS, FAST_FITS = 2000, 15
WARM_UP = 0.1  # of all fits, after which memory counts
SAVED_EVERY = 10
MOST_GROWTH = 50.0  # MB
EMPTY_CLUSTERS = "clusters are not the nearest of any training sample"
ONE_ANSWER = "for all training samples, of which"
FEW_SAMPLES = ("trained no SVM again", "on less than a tenth of the samples")


def predictions(case: Case, model: Any) -> dict[str, Any]:
    """Return everything that the model says about the rows."""
    found = {}
    for method in ROW_METHODS:
        if not hasattr(model, method):
            continue
        call = getattr(model, method)
        known = inspect.signature(call).parameters
        keywords = {key: value for key, value in case.row_keywords.items() if key in known}
        if "return_std" in known:
            keywords["return_std"] = True
        values = call(case.rows, **keywords)
        parts = values if isinstance(values, tuple | list) else [values]
        found |= {f"{method} {position}": part for position, part in enumerate(parts)}
    return found


def fit_and_predict(case: Case, folder: Path | None) -> int:
    """Fit, predict and, with a folder, save and load; return the number of arrays that were predicted."""
    model = case.model.fit(*((case.X,) if case.y is None else (case.X, case.y)), **case.fit_keywords)
    found = predictions(case, model)
    for method, values in found.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ArithmeticError(f"{method} is not finite")
    if folder is not None:
        save_model(model, folder / "model.skops")
        loaded = predictions(case, load_model(folder / "model.skops"))
        for method, values in found.items():
            if not np.array_equal(values, loaded[method]):
                raise ArithmeticError(f"{method} of the loaded model differs")
    return len(found)


def kind_of(case: Case, warning: warnings.WarningMessage) -> tuple[str, bool]:
    """Name the kind of a warning, and say whether it is one that the data or settings of the fit deserve."""
    message = str(warning.message)
    if issubclass(warning.category, ConvergenceWarning) and message.startswith(case.name):
        return "a fit did not reach its tolerance (ConvergenceWarning)", True
    if issubclass(warning.category, KernelQualityWarning):
        return "kernels that are unlikely to help (KernelQualityWarning)", True
    if EMPTY_CLUSTERS in message:
        return "clusters without samples (UserWarning)", True
    if ONE_ANSWER in message or any(text in message for text in FEW_SAMPLES):
        return "localized models with one answer, or with hardly a sample for a kernel (UserWarning)", True
    return f"{case.name}: {warning.category.__name__}: {message[:100]}", False


def load_samplers() -> None:
    """Fit once by sampling: JAX and NumPyro are loaded when they are first needed."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        BEMKLRegressor("precomputed", inference=Gibbs(n_draws=10, n_warmup=2)).fit(
            np.eye(9) + 0.5, np.arange(9.0)
        )


def soak(n_fits: int, seed: int) -> dict[str, Any]:
    """Do the fits; count warnings and errors by kind, and measure memory."""
    explained: Counter[str] = Counter()
    unexplained: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    fits: Counter[str] = Counter()
    where: dict[str, str] = {}
    n_arrays = n_saved = 0
    if n_fits > FAST_FITS:
        load_samplers()
    warm = resident()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for trial in range(n_fits):
            if trial == int(WARM_UP * n_fits):
                gc.collect()
                warm = resident()
            case = random_case(np.random.default_rng([seed, trial]))
            saved = trial % SAVED_EVERY == 0
            with warnings.catch_warnings(record=True, action="always") as caught:
                try:
                    n_arrays += fit_and_predict(case, Path(folder) if saved else None)
                    n_saved += saved
                except Exception as error:
                    kind = f"{case.name}: {type(error).__name__}: {str(error)[:100]}"
                    errors[kind] += 1
                    where.setdefault(kind, f"trial {trial}\n{case.model}\n{traceback.format_exc()}")
            fits[case.name] += 1
            repeats = Counter(warning.category for warning in caught)
            for warning in caught:
                kind, is_explained = kind_of(case, warning)
                (explained if is_explained and repeats[warning.category] == 1 else unexplained)[kind] += 1
                if not is_explained or repeats[warning.category] > 1:
                    where.setdefault(kind, f"trial {trial}, {repeats[warning.category]} times: {case.model}")
    seconds = time.perf_counter() - start
    gc.collect()
    growth = None if warm is None else (resident() - warm) / MB
    return {
        "fits": dict(fits),
        "arrays": n_arrays,
        "saved": n_saved,
        "seconds": seconds,
        "warm_mb": None if warm is None else warm / MB,
        "growth_mb": growth,
        "explained": dict(explained.most_common()),
        "unexplained": dict(unexplained.most_common()),
        "errors": dict(errors.most_common()),
        "where": where,
    }


def report(found: dict[str, Any]) -> str:
    """Show what was done and what came up."""
    warm, growth = found["warm_mb"], found["growth_mb"]
    rows: list[list[Any]] = [
        ["fits", sum(found["fits"].values())],
        ["estimators", len(found["fits"])],
        ["arrays predicted", found["arrays"]],
        ["models saved, loaded and compared", found["saved"]],
        ["memory after the first tenth, MB", "–" if warm is None else f"{warm:.0f}"],
        ["memory that was added until the end, MB", "–" if growth is None else f"{growth:.1f}"],
        ["errors", sum(found["errors"].values())],
        ["warnings without explanation", sum(found["unexplained"].values())],
        *([f"warnings: {kind}", count] for kind, count in found["explained"].items()),
    ]
    return markdown_table(["", ""], rows)


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--fits", type=int, metavar="N", help="number of fits")
    options_parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all draws")
    options = options_parser.parse_args()
    machine = measure(options.fast)
    print(machine.report() + "\n")
    found = soak(options.fits or (FAST_FITS if options.fast else N_FITS), options.seed)
    for kind, place in found.pop("where").items():
        print(f"{kind}\n  {place}\n")
    claims = [
        claim("memory growth", MOST_GROWTH, found["growth_mb"], " MB"),
        claim("warnings without explanation", 0, sum(found["unexplained"].values())),
        claim("errors", 0, sum(found["errors"].values())),
    ]
    if not (options.fast or options.fits):
        claims.append(claim("estimators", len(ESTIMATORS), len(found["fits"]), at_least=True))
    finish(options, "soak", report(found), {"machine": machine._asdict(), **found, "claims": claims})


if __name__ == "__main__":
    main()
