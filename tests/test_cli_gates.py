"""Localized BEMKL on the command line: `bayesmkl fit --gate`, and what becomes of such a run."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from sklearn.pipeline import make_pipeline

from bayesmkl import KernelBank, load_model
from bayesmkl.bemkl import BEMKLLocalizedClassifier
from bayesmkl.cli.commands import FitOptions, new_model
from bayesmkl.cli.designs import standardizer
from bayesmkl.datasets import make_localized
from bayesmkl.kernels import Linear
from bayesmkl.posterior import kernel_table, load_posterior, view_table

pytestmark = pytest.mark.usefixtures("few_points")

VIEWS = ["--view", "left=l*", "--view", "right=r*", "--kernels", "left=linear", "--kernels", "right=linear"]
FILES = {
    "config.json",
    "elbo.png",
    "gates.png",
    "held_out.csv",
    "kernel_weights.png",
    "kernels.csv",
    "metrics.csv",
    "model.skops",
    "posterior.nc",
    "reliability.png",
    "training_rows.txt",
    "views.csv",
}


@pytest.fixture(scope="module")
def table():
    sample = make_localized(90, design="halves", random_state=0)
    rows = pd.DataFrame(sample.data, columns=["l0", "l1", "r0", "r1", "place"])
    rows["place"] = 50.0 + 10.0 * rows["place"]
    rows["label"] = np.where(sample.target > 0, "yes", "no")
    return rows


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gates")
    table.to_csv(folder / "data.csv", index=False)
    command = ["fit", folder / "data.csv", "--target", "label", "--gate", "place", *VIEWS, "--tol", 1e-4]
    code, stdout, stderr = run(*command, "--out", folder / "run")
    assert code == 0, stderr
    return folder, stdout


def test_a_run_has_gates_and_says_whether_they_are_local(fitted):
    folder, stdout = fitted
    assert {path.name for path in (folder / "run").iterdir()} == FILES
    model = load_model(folder / "run" / "model.skops")
    last = model[-1]
    assert f"Gates are local: the bound of local ones is {last.elbo_gain_:+.1f} nats from that" in stdout
    assert "mean weight and locality, with 94 % intervals by vb" in " ".join(stdout.split())
    assert f"{last.locality_interval_[0, 0]:.2f} to {last.locality_interval_[0, 1]:.2f}" in stdout
    config = json.loads((folder / "run" / "config.json").read_text())
    assert (config["gate"], config["elbo"]) == (["place"], last.elbo_)
    gates = load_posterior(folder / "run" / "posterior.nc")["posterior"]["gates"]
    assert dict(gates.sizes) == {"chain": 1, "draw": 1000, "obs_id": 63, "kernel": 2}
    assert 30.0 < last.gate_features_.min() < last.gate_features_.max() < 70.0  # in the units of the table


def test_tables_of_a_run_are_those_of_python(fitted, table):
    folder, _ = fitted
    model = load_model(folder / "run" / "model.skops")
    found, shares = kernel_table(model), view_table(model, random_state=0)
    pd.testing.assert_frame_equal(pd.read_csv(folder / "run" / "kernels.csv"), found)
    pd.testing.assert_frame_equal(pd.read_csv(folder / "run" / "views.csv"), shares)
    names = ["locality", "locality_lower", "locality_upper"]
    order = [list(model[-1].kernel_names_).index(name) for name in found["kernel"]]
    expected = np.column_stack([model[-1].locality_, model[-1].locality_interval_])[order]
    np.testing.assert_allclose(found[names], expected, rtol=1e-10)
    np.testing.assert_allclose(found["share"].sum(), 1.0)
    # the same model by hand, of columns in another order
    views = {"left": ["l0", "l1"], "right": ["r0", "r1"]}
    bank = KernelBank({"left": [Linear()], "right": [Linear()]}, views=views)
    by_hand = BEMKLLocalizedClassifier(bank, gate_columns=["place"], tol=1e-4, random_state=0)
    X = table.drop(columns="label")
    held_in = model[-1].gate_features_[:, 0]
    rows = table["place"].round(8).isin(held_in.round(8)).to_numpy()
    other = make_pipeline(standardizer(None, ["place"]), by_hand).fit(X[rows], table["label"][rows])
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), rtol=1e-5, atol=1e-7)


def test_a_run_predicts_and_is_diagnosed_and_reported(fitted, tmp_path):
    folder, _ = fitted
    data = folder / "data.csv"
    code, _, _ = run("predict", folder / "run", data, "--out", tmp_path / "out.csv")
    assert code == 0
    assert len(pd.read_csv(tmp_path / "out.csv")) == 90
    code, stdout, _ = run("diagnose", folder / "run", "--data", data, "--draws", 100)
    assert code == 0
    assert "Gates: GOOD" in stdout
    assert "Intervals: CAUTION" in stdout
    assert "On 27 held-out samples" in stdout
    code, _, _ = run("report", folder / "run", "--data", data, "--out", tmp_path / "page.html")
    assert code == 0
    code, _, stderr = run("report", folder / "run", "--refits", "--out", tmp_path / "other.html")
    assert code == 2
    assert "`refits` must be False for a model with gates" in stderr
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "Weights of kernels at the training samples" in page
    assert "Weights of kernels depend on the gate columns" in page


def test_kernels_do_not_see_gates_unless_a_view_names_them(table):
    X = table.drop(columns="label")
    options = FitOptions("label", task="classification", gate=("place",))
    model = new_model(options, table["label"].to_numpy(), X.drop(columns=options.unseen))
    model[-1].set_params(tol=1e-2, verbose=0)
    model.fit(X, table["label"])
    assert set(model[-1].kernel_bank_.kernel_views_) == {"all", "l0", "l1", "r0", "r1"}
    named = options._replace(view=("place=place", "left=l*"), view_kernels=("place=linear", "left=linear"))
    other = new_model(named, table["label"].to_numpy(), X.drop(columns=named.unseen))
    other[-1].set_params(tol=1e-2, verbose=0)
    other.fit(X, table["label"])
    assert other[-1].kernel_bank_.kernel_views_ == ["place", "left"]
    assert abs(other[-1].gate_features_.mean()) < 1e-8  # which a kernel sees: standardized


def test_dry_run_names_no_gate(fitted):
    folder, _ = fitted
    options = ["--target", "label", "--gate", "place", "--kernels-on", "all", "--tol", 0.01]
    code, stdout, _ = run("fit", folder / "data.csv", *options, "--dry-run")
    assert code == 0
    assert "all: auto of l0, l1, r0, r1" in stdout
    assert "4 kernels of 63 rows" in stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate", "plce"], "--gate names the column 'plce', from which nothing is predicted"),
        (["--gate", "l0", "--gate", "l0"], "--gate must name each column once"),
        (["--gate", "place", "--method", "gpmkl"], "got --method gpmkl as well"),
        (["--gate", "place", "--inference", "nuts"], "got --inference nuts as well"),
        (["--gate", "place", "--refine"], "got --refine as well"),
        (["--gate", "place", "--multiclass", "shared"], "got --multiclass shared as well"),
        (["--gate", "place", "--nonnegative"], "got --nonnegative as well"),
        (["--gate", "place", "--unlabeled-label", "no"], "got --unlabeled-label as well"),
        (["--gate", "place", "--kernels-on", "types"], "got --kernels-on types as well"),
        (["--gate", "place", "--task", "ordinal"], "got --task ordinal as well"),
        (["--gate", "place", "--kernels-on", "each", "--missing-views", "integrate"], "got --missing-views"),
    ],
)
def test_what_gates_do_not_have(options, message, fitted, tmp_path):
    code, _, stderr = run(
        "fit", fitted[0] / "data.csv", "--target", "label", *options, "--out", tmp_path / "run"
    )
    assert code == 2
    assert message in stderr
    assert not (tmp_path / "run").exists()
