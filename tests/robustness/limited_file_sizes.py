"""Limits of file sizes: run by pytest in a process of its own, whose output is a pipe, by `test_full_disk.py`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC
from typer.testing import CliRunner

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl.cli import app, comparing
from bayesmkl.evaluation import Comparison, compare_models
from bayesmkl.posterior import save_posterior

pytestmark = [pytest.mark.family("full disk"), pytest.mark.heavy]


@pytest.fixture
def small_files():
    """Let no file grow beyond some bytes, on every system that has such a limit."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(n_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("n_bytes", [0, 100, 1000])
def test_a_limit_of_file_sizes_is_named_and_the_old_model_stays(n_bytes, small_files, tmp_path):
    path = tmp_path / "model.skops"
    save_model(KernelBank("linear"), path)
    small_files(n_bytes)
    with pytest.raises(
        OSError, match=r"`path`: .* could not be written: File too large\. Nothing was changed\."
    ):
        save_model(KernelBank(["rbf"] * 50, views="each"), path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.skops"]
    assert load_model(path).kernels == "linear"


def test_a_posterior_that_does_not_fit_is_refused_without_a_crash(small_files, tmp_path):
    from xarray import Dataset, DataTree

    tree = DataTree.from_dict({"posterior": Dataset({"weights": ("draw", np.arange(5000.0))})})
    save_posterior(tree, tmp_path / "p.nc")
    before = (tmp_path / "p.nc").read_bytes()
    for n_bytes in (0, 96, 8000, len(before) - 1):
        small_files(n_bytes)
        with pytest.raises(OSError, match="`path`"):
            save_posterior(tree, tmp_path / "p.nc")
        assert (tmp_path / "p.nc").read_bytes() == before
        assert len(list(tmp_path.iterdir())) == 1


def test_a_comparison_stops_where_it_cannot_keep_its_cells_and_goes_on_with_room(small_files, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = X[:, 0] > 0
    expected = compare_models({"svm": SVC()}, X, y, cv=3, scoring="accuracy")
    compare_models({"svm": SVC()}, X, y, cv=3, scoring="accuracy", folder=tmp_path / "whole")
    large = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*.*"))
    small_files(large - 10)  # the seconds of a run have more digits or fewer
    with pytest.raises(OSError, match="could not be written"):
        compare_models({"svm": SVC()}, X, y, cv=3, scoring="accuracy", folder=tmp_path / "run")
    small_files(100 * large)
    found = compare_models({"svm": SVC()}, X, y, cv=3, scoring="accuracy", folder=tmp_path / "run")
    assert found.cells["accuracy"].tolist() == expected.cells["accuracy"].tolist()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "about.json",
        "cells",
        "results.csv",
    ]


def test_the_command_says_what_could_not_be_written_and_goes_on_with_room(small_files, tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "write_report", lambda comparison, path: path.write_text("<html>"))
    X = np.random.default_rng(0).normal(size=(40, 2))
    pd.DataFrame(X, columns=["a", "b"]).assign(kind=X[:, 0] > 0).to_csv(tmp_path / "t.csv", index=False)
    study = '[study]\ncv = 3\nscoring = "accuracy"\n[datasets.t]\nfile = "t.csv"\ntarget = "kind"\n'
    (tmp_path / "study.toml").write_text(study + '[models.svm]\nestimator = "sklearn.svm.SVC"\n')
    arguments = ["compare", str(tmp_path / "study.toml"), "--out", str(tmp_path / "run")]
    for n_bytes in (0, 700):
        small_files(n_bytes)
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith(("error: `path`: ", "error: `folder`: "))
        assert "could not be written: File too large. Nothing was changed. Free some space" in result.stderr
        assert not (tmp_path / "run" / "results.csv").exists()
    small_files(10**8)
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert len(Comparison.load(tmp_path / "run").cells) == 3
