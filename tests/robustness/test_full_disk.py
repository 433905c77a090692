"""A disk without room: an error that says so, what was there before stays, and with room the same call succeeds."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import forked
from sklearn.svm import SVC

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl.evaluation import compare_models
from bayesmkl.posterior import save_posterior

pytestmark = [pytest.mark.family("full disk"), pytest.mark.heavy]
resource = pytest.importorskip("resource")


def limit(n_bytes):
    """Let no file of this process grow beyond some bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def models_and_posteriors(folder):
    from xarray import Dataset, DataTree

    tree = DataTree.from_dict({"posterior": Dataset({"weights": ("draw", np.arange(5000.0))})})
    save_posterior(tree, folder / "p.nc")
    save_model(KernelBank("linear"), folder / "m.skops")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for n_bytes in (0, 96, 1000):
        limit(n_bytes)
        with pytest.raises(OSError, match=r"could not be written: File too large\. Nothing was changed"):
            save_model(KernelBank(["rbf"] * 50, views="each"), folder / "m.skops")
        with pytest.raises(OSError, match="`path`"):
            save_posterior(tree, folder / "p.nc")
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    return load_model(folder / "m.skops").kernels


def comparisons(folder):
    X = np.random.default_rng(0).normal(size=(40, 2))
    compare = lambda name: compare_models(
        {"svm": SVC()}, X, X[:, 0] > 0, cv=3, scoring="accuracy", folder=folder / name
    )
    expected = compare("whole")
    large = max(path.stat().st_size for path in (folder / "whole").rglob("*.*"))
    limit(large - 10)  # the seconds of a run have more digits or fewer
    with pytest.raises(OSError, match="could not be written"):
        compare("run")
    limit(100 * large)
    return compare("run").cells["accuracy"].tolist() == expected.cells["accuracy"].tolist()


def test_what_does_not_fit_is_named_and_costs_nothing(tmp_path):
    """In processes of their own: the limit would also hold for the log of these tests, if that is a file."""
    (tmp_path / "files").mkdir()
    assert forked(models_and_posteriors, tmp_path / "files") == "linear"
    assert forked(comparisons, tmp_path) is True
