"""Views and their kernels on the command line: the model is that of Python with the same bank."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from matplotlib.figure import Figure
from sklearn.compose import ColumnTransformer

from bayesmkl import BEMKLRegressor, KernelBank, load_model
from bayesmkl.cli.fit_views import NAMES, bank_of_options, columns_as_they_are
from bayesmkl.kernels import Gaussian, Tanimoto

BITS, GENES = [f"bit_{j}" for j in range(5)], ["gene_a", "gene_b", "TP53"]
FIT = ["--target", "activity", "--max-iter", 20, "--test-size", 0.2]
VIEWS = ["--view", "bits=bit_*", "--view", "genes=gene_?", "--view", "genes=TP53"]
KERNELS = ["--kernels", "bits=tanimoto", "--kernels", "genes=gaussian", "--kernels", "genes=linear"]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: Path(path).write_bytes(b"\x89PNG"))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(6)
    found = pd.DataFrame(rng.integers(0, 2, (50, 5)), columns=BITS)
    found[GENES] = rng.normal(3.0, 2.0, (50, 3))
    found["age"] = rng.normal(50.0, 10.0, 50)
    found["activity"] = found["bit_0"] + np.sin(found["gene_a"]) + 0.1 * rng.normal(size=50)
    found["bit_4"] = 1  # of all: standardization would divide by zero
    return found


@pytest.fixture
def fit(table, tmp_path):
    def fit(*options, rows=table):
        rows.to_csv(tmp_path / "data.csv", index=False)
        code, stdout, stderr = run("fit", tmp_path / "data.csv", "--out", tmp_path / "run", *FIT, *options)
        return code, stdout, stderr

    return fit


@pytest.mark.heavy
def test_fit_is_that_of_python(fit, table, tmp_path):
    code, stdout, stderr = fit(*VIEWS, *KERNELS)
    assert code == 0, stderr
    assert "Fitting 3 kernels to 40 rows" in stdout
    model = load_model(tmp_path / "run" / "model.skops")
    assert isinstance(model[0], ColumnTransformer)
    bank = KernelBank(
        {"bits": Tanimoto(), "genes": [Gaussian(relative_width=1.0), "linear"]},
        views={"bits": BITS, "genes": ["gene_a", "gene_b", "TP53"]},
    )
    assert list(model[-1].kernel_names_) == bank.fit(table).kernel_names_
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["view"] == VIEWS[1::2]
    assert config["view_kernels"] == KERNELS[1::2]
    shares = pd.read_csv(tmp_path / "run" / "views.csv")
    assert sorted(shares["view"]) == ["bits", "genes"]

    assert run("predict", tmp_path / "run", tmp_path / "data.csv", "--out", tmp_path / "out.csv")[0] == 0
    of_training = model[-1].kernel_bank_.X_train_
    train = pd.DataFrame(of_training, columns=model[-1].feature_names_in_)
    np.testing.assert_array_equal(np.unique(train[BITS]), [0.0, 1.0])
    np.testing.assert_allclose(train[[*GENES, "age"]].std(ddof=0), 1.0)
    scaled = model[0].transform(table[[*BITS, *GENES, "age"]])
    position = {tuple(row): i for i, row in enumerate(scaled.to_numpy())}
    rows = [position[tuple(row)] for row in of_training]
    own = BEMKLRegressor(bank, max_iter=20, tol=1e-6, random_state=0)
    with pytest.warns(UserWarning, match="max_iter"):
        own.fit(train, table["activity"].to_numpy()[rows])
    predicted = pd.read_csv(tmp_path / "out.csv").iloc[:, 0]
    np.testing.assert_allclose(predicted, own.predict(scaled), rtol=1e-6)


@pytest.mark.heavy
def test_views_without_kernels_have_those_of_auto(fit):
    code, stdout, stderr = fit(*VIEWS, "--kernels", "genes=linear", "--drop", "bit_4")
    assert code == 0, stderr
    assert "Fitting 5 kernels" in stdout


@pytest.mark.heavy
def test_views_that_are_empty_together(fit, table):
    rows = table.astype({name: float for name in BITS})
    rows.loc[:9, GENES] = np.nan
    code, _, stderr = fit(*VIEWS, *KERNELS, "--missing-views", "integrate", "--drop", "age", rows=rows)
    assert code == 0, stderr


def test_banks_of_options():
    columns = ["a1", "a2", "b"]
    assert repr(bank_of_options([], [], "each", columns)) == repr(KernelBank("auto", views="each"))
    one = bank_of_options([], ["all=tanimoto", "all=linear"], "all", columns)
    assert repr(one) == repr(KernelBank({"all": [Tanimoto(), "linear"]}))
    assert columns_as_they_are(one, columns) == columns
    both = bank_of_options([], ["a2=chi2"], "all+each", columns)
    assert repr(both.kernels) == repr({"all": ["auto"], "a1": ["auto"], "a2": ["chi2"], "b": ["auto"]})
    assert columns_as_they_are(both, columns) == ["a2"]
    positive = pd.DataFrame(np.random.default_rng(0).random((9, 3)), columns=columns)
    assert both.fit(positive).n_kernels_ == 13
    views = bank_of_options(["x=a*", "x=a1", "y=b", " y = a2 "], [], "all", columns).views
    assert views == {"x": ["a1", "a2"], "y": ["b", "a2"]}
    exact = bank_of_options(["x=a*"], [], "all", ["a*", "ab"]).views
    assert exact == {"x": ["a*"]}
    for name in NAMES:
        bank = bank_of_options(["x=b"], [f"x={name}"], "all", columns)
        assert (
            KernelBank(bank.kernels, {"x": [0]}, normalize=None).fit(np.arange(1.0, 9.0)[:, None]).n_kernels_
        )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--view", "bits"], "--view must be NAME=COLUMN, such as mean='mean_*'; got 'bits'"),
        (["--view", "=bit_*"], "--view must be NAME=COLUMN"),
        (["--view", "bits="], "--view must be NAME=COLUMN"),
        (["--view", "genes=TP5"], "--view genes=TP5 names no column to predict from; did you mean 'TP53'?"),
        (["--view", "all=activity"], "names no column to predict from"),
        ([*VIEWS, "--kernels", "bits"], "--kernels must be VIEW=KERNEL, such as bits=tanimoto; got 'bits'"),
        ([*VIEWS, "--kernels", "bit=rbf"], "--kernels is for the view 'bit', which is none; did you mean 'bits'?"),
        ([*VIEWS, "--kernels", "bits=tanimotto"], "names no kernel; did you mean 'tanimoto'?"),
        ([*VIEWS, "--kernels-on", "all"], "--view says what kernels see, and so does --kernels-on all"),
        (["--kernels-on", "all", "--kernels", "age=linear"], "for the view 'age', which is none; known: 'all'"),
        ([*VIEWS, "--kernels", "genes=tanimoto"], "'bit_4' holds the same value"),
        ([*VIEWS, "--kernels", "genes=chi2", "--kernels", "bits=tanimoto"], "kernel 'chi2 · genes'"),
    ],
)  # fmt: skip
def test_what_cannot_be(options, expected, fit, tmp_path):
    code, _, stderr = fit(*options)
    assert code == 2
    assert expected in stderr
    assert not (tmp_path / "run").exists()
