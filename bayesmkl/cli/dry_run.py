"""Dry run of `bayesmkl fit`: views and kernels, memory, and about how long it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from bayesmkl._utils.memory import available_memory, format_bytes
from bayesmkl._utils.warnings import holding_back
from bayesmkl.cli.report import duration, say
from bayesmkl.cli.tables import listed
from bayesmkl.kernels.views import resolve_views

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from bayesmkl.cli.fit_options import FitOptions

TIMED = ("vb", "marginal")  # whose fits to some rows tell how long it takes with all
FEW_ROWS = 60  # of the first of two fits that are timed; the second has twice as many


def n_kernels_of(model: Pipeline, seen: pd.DataFrame) -> int:
    """Return how many kernels an unfitted model will have, of the columns that they may see."""
    bank = model[-1].get_params(deep=False)["kernels"]
    n_kernels: int = bank.training_shape(_encoded(model, seen))[0]
    return n_kernels


def print_dry_run(model: Pipeline, X: pd.DataFrame, y: np.ndarray, options: FitOptions) -> None:
    """Print what would be fitted to the training rows."""
    seen = X.drop(columns=options.unseen)
    bank, encoded = model[-1].get_params(deep=False)["kernels"], _encoded(model, seen)
    names = [str(name) for name in encoded]
    for view in resolve_views(bank.views, encoded.shape[1], names):
        kernels = bank.kernels[view.name] if isinstance(bank.kernels, dict) else bank.kernels
        own = kernels if isinstance(kernels, list) else [kernels]
        say(f"{view.name}: {', '.join(map(str, own))} of {listed([names[j] for j in view.columns])}")
    left = [str(name) for name in seen if str(name) not in names]
    if left:
        say(f"In no view: {listed(left)}.")
    n_kernels = n_kernels_of(model, seen)
    n_bytes, free = 8 * n_kernels * len(X) ** 2, available_memory()
    memory = "" if free is None else f", of {format_bytes(free)} that are free"
    say(f"{n_kernels} kernels of {len(X)} rows: {format_bytes(n_bytes)}{memory}.")
    if options.inference not in TIMED or options.refine:
        say("How long chains take is not known before: look at --draws 10.")
        return
    say(f"The fit takes about {_seconds(model, X, y)}. Nothing was written.")


def _encoded(model: Pipeline, seen: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns that the bank gets."""
    return clone(model[0]).fit_transform(seen) if model.steps[0][0] == "encode" else seen


def _seconds(model: Pipeline, X: pd.DataFrame, y: np.ndarray) -> str:
    """Extrapolate the time of a fit from those of fits to some rows, which grow by a power of their number."""
    order = np.argsort(
        y, order=list(y.dtype.names or ()) or None, kind="stable"
    )  # all classes are among some rows
    sizes = [size for size in (FEW_ROWS, 2 * FEW_ROWS) if size < len(X)] or [len(X)]
    _timed(model, X, y, order[_some(len(X), min(sizes))])  # imports
    times = [_timed(model, X, y, order[_some(len(X), size)]) for size in sizes]
    if len(times) == 1:
        return duration(times[0] * (len(X) / sizes[0]) ** 2)
    power = float(np.clip(np.log2(times[1] / times[0]), 1.0, 3.0))
    factor = len(X) / sizes[1]
    return f"{duration(times[1] * factor**power)}, or {duration(times[1] * factor**3)} at most"


def _some(n_rows: int, size: int) -> np.ndarray:
    return np.linspace(0, n_rows - 1, size).astype(int)


def _timed(model: Pipeline, X: pd.DataFrame, y: np.ndarray, rows: np.ndarray) -> float:
    quiet: Any = clone(model)
    quiet[-1].set_params(verbose=0)
    start = time.perf_counter()
    with holding_back(Warning):
        quiet.fit(X.iloc[rows], y[rows])
    return time.perf_counter() - start
