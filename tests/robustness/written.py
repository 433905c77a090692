"""Files of every kind that this package writes: models, a posterior, a comparison, a run and its table."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import families
import pandas as pd
from sklearn.svm import SVC
from typer.testing import CliRunner

from bayesmkl import save_model
from bayesmkl.cli import app
from bayesmkl.evaluation import compare_models
from bayesmkl.posterior import save_posterior

__all__ = ["files", "files_with_models"]


@functools.cache
def files() -> Path:
    """Return a folder with a posterior, and a run with its table; nobody may change it."""
    work = Path(tempfile.mkdtemp(prefix="bayesmkl-written-"))
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    model = families.fitted(families.families()["binary"])
    save_posterior(model, work / "posterior.nc", n_draws=5, random_state=0, pointwise=False)
    write_run(work)
    return work


@functools.cache
def files_with_models() -> Path:
    """Return the same folder with a model of every family and a comparison."""
    work = files()
    (work / "models").mkdir()
    for name, fit in families.families().items():
        save_model(families.fitted(fit), work / "models" / f"{name}.skops")
    X = families.data()
    compare_models({"svm": SVC()}, X, families.labels(X, 2), cv=2, folder=work / "comparison")
    return work


def write_run(work: Path) -> None:
    """Write a table, the run of `bayesmkl fit` on it and its predictions."""
    X = families.data(24)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=families.labels(X, 2))
    table.to_csv(work / "table.csv", index=False)
    fit = ["fit", work / "table.csv", "--target", "kind", "--kernels-on", "all", "--max-iter", 5]
    for command in (
        [*fit, "--out", work / "run"],
        ["predict", work / "run", work / "table.csv", "--out", work / "predicted.csv"],
    ):
        result = CliRunner().invoke(app, [str(word) for word in command])
        if result.exit_code:
            raise RuntimeError(result.output)
    for path in (work / "run").iterdir():
        if path.name not in ("config.json", "model.skops"):
            path.unlink()
