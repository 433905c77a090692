"""Tools of scikit-learn on the ten kinds of data of docs/guide/data.md: which work, and why one does not.

The code of the page is run, block by block; each leaves a model, samples and labels.

Last comes the memory of a fit to sparse texts, of which no dense copy is made.

    python benchmarks/data_shapes.py               all kinds and tools, two minutes
    python benchmarks/data_shapes.py --fast        one kind, no search
    python benchmarks/data_shapes.py --docs        also write the table for the page
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _memory import MB, alone, peak_of
from _report import ROOT, begin, claim, finish, markdown_table
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import HalvingGridSearchCV, TunedThresholdClassifierCV, cross_val_score

PAGE = ROOT / "docs" / "guide" / "data.md"
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
FAST_KINDS = ("Matrices",)
N_TEXTS, N_WORDS, WORDS_OF_A_TEXT, N_LANDMARKS = 20_000, 50_000, 100, 256


def kinds_of_data() -> dict[str, tuple[Any, Any, Any]]:
    """Model, samples and labels of each kind, as the page makes them."""
    first, *sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    names: dict[str, Any] = {}
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        exec("".join(CODE.findall(first)), names)
        names["show"] = lambda model, X, y: None  # the page's own tests fit them
        for section in sections:
            title = section.partition("\n")[0]
            code = "".join(CODE.findall(section))
            if "show(" in code:
                exec(code, names)
                found[title] = names["model"], names["X"], names["y"]
    return found


def _numeric_column(X: Any) -> Any:
    """Position of a column of numbers."""
    if hasattr(X, "dtypes"):
        return next(j for j, dtype in enumerate(X.dtypes) if dtype.kind == "f" and X.iloc[:, j].notna().all())
    return X.shape[1] - 1


def _importance(model: Any, X: Any, y: Any) -> Any:
    return permutation_importance(model.fit(X, y), X, y, n_repeats=2, random_state=0).importances_mean


def _dependence(model: Any, X: Any, y: Any) -> Any:
    return partial_dependence(model.fit(X, y), X, [_numeric_column(X)], grid_resolution=5)["average"]


def _search(model: Any, X: Any, y: Any) -> Any:
    step = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    grid = {f"{step}random_state": [0, 1]}
    return HalvingGridSearchCV(model, grid, cv=2, min_resources=40, random_state=0).fit(X, y).best_score_


def _stacking(model: Any, X: Any, y: Any) -> Any:
    return (
        StackingClassifier([("model", model), ("none", DummyClassifier())], cv=2).fit(X, y).predict_proba(X)
    )


def _threshold(model: Any, X: Any, y: Any) -> Any:
    return TunedThresholdClassifierCV(model, cv=2).fit(X, y).predict(X) == y


TOOLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cross_val_score": lambda model, X, y: cross_val_score(model, X, y, cv=2),
    "permutation_importance": _importance,
    "partial_dependence": _dependence,
    "CalibratedClassifierCV": lambda model, X, y: (
        CalibratedClassifierCV(model, cv=2).fit(X, y).predict_proba(X)
    ),
    "StackingClassifier": _stacking,
    "HalvingGridSearchCV": _search,
    "TunedThresholdClassifierCV": lambda model, X, y: (
        TunedThresholdClassifierCV(model, cv=2).fit(X, y).predict(X) == y
    ),
}


def fit_to_texts(n_texts: int) -> tuple[float, int | None, int]:
    """Seconds and memory of a fit with landmarks to counts of words whose frequencies fall as those of a language."""
    from bayesmkl import BEMKLClassifier, KernelBank
    from bayesmkl.kernels import Linear

    rng = np.random.default_rng(0)
    shares = np.cumsum(1.0 / np.arange(1, N_WORDS + 1))
    words = np.searchsorted(shares / shares[-1], rng.random(n_texts * WORDS_OF_A_TEXT))
    texts = np.repeat(np.arange(n_texts), WORDS_OF_A_TEXT)
    X = sparse.csr_array((np.ones(len(words)), (texts, words)), shape=(n_texts, N_WORDS))
    topic = np.asarray(X[:, 100:400].sum(axis=1)).ravel()
    bank = KernelBank(Linear(), landmarks=N_LANDMARKS, landmark_selection="random")

    def fit() -> float:
        start = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):  # of few sweeps
            BEMKLClassifier(bank, max_iter=50).fit(X, topic > np.median(topic)).predict_proba(X)
        return time.perf_counter() - start

    seconds, peak = peak_of(fit)
    return seconds, peak.process, X.nnz


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def verdict(tool: Callable[[Any, Any, Any], Any], model: Any, X: Any, y: Any) -> str:
    """ "yes", or what the tool says."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of few samples
            values = np.asarray(tool(clone(model), X, y), dtype=float)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "yes" if np.isfinite(values).all() else "not finite"


def main() -> None:
    options = begin(__doc__)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    kinds = kinds_of_data()
    if options.fast:
        kinds = {title: kinds[title] for title in FAST_KINDS}
    tools = {name: tool for name, tool in TOOLS.items() if not options.fast or "Halving" not in name}
    found = {
        title: {name: verdict(tool, *parts) for name, tool in tools.items()} for title, parts in kinds.items()
    }
    reasons = sorted({text for of_kind in found.values() for text in of_kind.values() if text != "yes"})
    marks = {text: f"[{i}]" for i, text in enumerate(reasons, 1)} | {"yes": "yes"}
    rows = [[title, *(marks[text] for text in of_kind.values())] for title, of_kind in found.items()]
    notes = "\n".join(f"{marks[text]} {text}  " for text in reasons)
    n_texts = N_TEXTS // 20 if options.fast else N_TEXTS
    seconds, peak, n_entries = alone(fit_to_texts, n_texts)
    text = markdown_table(["", *(f"`{name}`" for name in tools)], rows) + (f"\n\n{notes}" if notes else "")
    claims = []
    if peak is not None:
        claims.append(claim("MB of the process that fits sparse texts", 1000, peak / MB, " MB"))
        text += (
            f"\n\nSparse texts: {_grouped(n_texts)} samples of {_grouped(N_WORDS)} words, {_grouped(n_entries)} "
            f"counts that are not zero, a linear kernel with {N_LANDMARKS} landmarks. The process that fits and "
            f"predicts takes {peak / MB:.0f} MB at most; a dense table would be {8 * n_texts * N_WORDS / 1e9:.1f} GB."
        )
    numbers = {"verdicts": found, "claims": claims}
    finish(options, "data_shapes", text, numbers | {"texts": {"seconds": seconds, "peak_bytes": peak}})


if __name__ == "__main__":
    main()
