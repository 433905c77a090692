"""The command line: what it writes, what it says about bad input, and that nothing half-written stays."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from matplotlib.figure import Figure
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import bayesmkl._utils.memory
import bayesmkl.cli.commands
import bayesmkl.cli.folders
from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, __version__, load_model
from bayesmkl.cli import app
from bayesmkl.cli.commands import FitOptions, check_options, new_model
from bayesmkl.cli.tables import check_target, labeled_rows
from bayesmkl.gp import Marginal
from bayesmkl.posterior import kernel_table, load_posterior, refine_posterior

FIT = ["--kernels-on", "all", "--max-iter", "15"]
FILES = {
    "config.json",
    "elbo.png",
    "features.csv",
    "held_out.csv",
    "kernel_weights.png",
    "kernels.csv",
    "metrics.csv",
    "model.skops",
    "posterior.nc",
    "training_rows.txt",
}


@pytest.mark.heavy
def test_a_terminal_without_the_letters_of_a_name_ends_no_command(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"größe": rng.normal(size=30)})
    rows["label"] = np.where(rows["größe"] > 0, "groß", "klein")
    rows.to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", str(tmp_path / "data.csv"), "--target", "label", "--out", str(tmp_path / "run")]
    result = CliRunner(charset="ascii").invoke(app, command)
    assert result.exit_code == 0, result.stderr
    assert "gr\\xf6\\xdfe" in result.stdout


def fails(*arguments):
    """Run a command that must fail on bad data; return its message."""
    code, _, message = run(*arguments)
    assert code == 2
    assert message.startswith("error: ")
    assert "Traceback" not in message
    return message


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Leave out the drawing, which takes half of the time of a command; `fitted`, of the whole module, draws."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: Path(path).write_bytes(b"\x89PNG"))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["radius", "texture", "mean area"])
    X["size"] = 4.0 * X["radius"] + rng.normal(size=60) + 20.0
    X["diagnosis"] = np.where(X["size"] > 20, "malignant", "benign")
    return X


@pytest.fixture
def csv(table, tmp_path):
    table.drop(columns="size").to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    table.drop(columns="size").to_csv(folder / "data.csv", index=False)
    code, stdout, stderr = run(
        "fit", folder / "data.csv", "--target", "diagnosis", "--out", folder / "run", *FIT, "--seed", 3
    )
    assert code == 0
    return folder, stdout, stderr


@pytest.mark.heavy
def test_fit_writes_a_complete_run(fitted):
    folder, stdout, _ = fitted
    assert {path.name for path in (folder / "run").iterdir()} == FILES | {"reliability.png"}
    assert {path.name for path in folder.iterdir()} == {"data.csv", "run"}
    for name in ("elbo", "kernel_weights", "reliability"):
        assert (folder / "run" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "60 rows, 3 columns to predict 'diagnosis' from (2 classes: classification)." in stdout
    assert "fitted to 42 of 60 rows" in stdout


def test_metrics_are_those_of_the_rows_held_out(fitted, table):
    folder, stdout, _ = fitted
    model = load_model(folder / "run" / "model.skops")
    X, y = table[["radius", "texture", "mean area"]], table["diagnosis"].to_numpy(str)
    X_train, X_test, _, y_test = train_test_split(X, y, test_size=0.3, random_state=3, stratify=y)
    np.testing.assert_allclose(model[0].mean_, X_train.mean())
    metrics = pd.read_csv(folder / "run" / "metrics.csv", index_col="metric")["value"]
    assert metrics["accuracy"] == accuracy_score(y_test, model.predict(X_test))
    probability = model.predict_proba(X_test)[np.arange(18), np.searchsorted(model.classes_, y_test)]
    assert metrics["log_loss"] == pytest.approx(-np.log(probability).mean())
    assert f"{metrics['ece']:.4g}" in stdout


def test_tables_and_posterior_belong_to_the_model(fitted):
    folder, _, stderr = fitted
    model = load_model(folder / "run" / "model.skops")
    pd.testing.assert_frame_equal(pd.read_csv(folder / "run" / "kernels.csv"), kernel_table(model))
    weights = load_posterior(folder / "run" / "posterior.nc")["posterior"]["kernel_weights"]
    assert weights["kernel"].values.tolist() == list(model[-1].kernel_names_)
    config = json.loads((folder / "run" / "config.json").read_text())
    assert config["elbo"] == model[-1].elbo_
    assert (config["seed"], config["max_iter"], config["features"]) == (
        3,
        15,
        ["radius", "texture", "mean area"],
    )
    assert "note: BEMKLClassifier stopped after max_iter=15 sweeps" in stderr


def test_predictions_are_aligned_with_the_input(fitted, table, tmp_path):
    folder, _, _ = fitted
    shuffled = table.sample(frac=1.0, random_state=0)[["texture", "diagnosis", "size", "mean area", "radius"]]
    shuffled.to_csv(tmp_path / "new.csv", index=False)
    code, stdout, _ = run("predict", folder / "run", tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert code == 0
    assert "not fitted to them: size." in stdout
    predictions = pd.read_csv(tmp_path / "out.csv")
    model = load_model(folder / "run" / "model.skops")
    X = shuffled[["radius", "texture", "mean area"]]
    assert predictions.columns.tolist() == ["prediction", "probability_benign", "probability_malignant"]
    assert predictions["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(predictions.iloc[:, 1:], model.predict_proba(X), rtol=1e-12)


@pytest.fixture(scope="module")
def sampled(table, tmp_path_factory):
    """A run by Gibbs sampling on few rows."""
    folder = tmp_path_factory.mktemp("sampled")
    table.drop(columns="size").to_csv(folder / "data.csv", index=False)
    options = ["--target", "diagnosis", "--kernels-on", "all", "--inference", "gibbs", "--draws", "100"]
    code, stdout, stderr = run("fit", folder / "data.csv", *options, "--out", folder / "run")
    assert code == 0
    return folder, stdout, stderr


@pytest.mark.heavy
def test_a_sampled_run_has_chains_and_no_bound(sampled):
    folder, stdout, _ = sampled
    assert {path.name for path in (folder / "run").iterdir()} == FILES - {"elbo.png"} | {"reliability.png"}
    assert "(4 chains of 100 draws," in stdout
    weights = load_posterior(folder / "run" / "posterior.nc")["posterior"]["kernel_weights"]
    assert dict(weights.sizes) == {"chain": 4, "draw": 100, "kernel": 4}
    config = json.loads((folder / "run" / "config.json").read_text())
    assert (config["inference"], config["elbo"], config["n_iter"]) == ("gibbs", None, [100])


@pytest.mark.heavy
def test_refined_intervals_are_wider_and_say_what_they_are(fitted, csv, tmp_path, monkeypatch):
    short = partial(refine_posterior, n_draws=40, max_sweeps=80)
    monkeypatch.setattr(bayesmkl.cli.commands, "refine_posterior", short)
    code, _, stderr = run(
        "fit", csv, "--target", "diagnosis", "--out", tmp_path / "run", *FIT, "--seed", 3, "--refine"
    )
    assert code == 0
    assert "note: refine_posterior did not get there: after 80 sweeps" in stderr
    refined, closed = (
        pd.read_csv(folder / "run" / "kernels.csv").set_index("kernel") for folder in (tmp_path, fitted[0])
    )
    assert refined["share_std"].sum() > 1.2 * closed["share_std"].sum()
    assert set(refined["interval_by"]) == {"gibbs (not converged)"}


def test_refinement_is_for_the_closed_form(csv, tmp_path):
    message = fails(
        "fit", csv, "--target", "diagnosis", "--out", tmp_path / "run", "--inference", "gibbs", "--refine"
    )
    assert "--refine follows --inference vb; got gibbs" in message


@pytest.mark.heavy
def test_diagnosis_of_a_run(fitted, csv):
    code, stdout, _ = run("diagnose", fitted[0] / "run", "--data", csv, "--draws", 200)
    assert code == 0
    assert "k-hat" in stdout
    assert "alibration" in stdout


def test_diagnosis_names_a_missing_target(fitted, table, tmp_path):
    table.drop(columns=["size", "diagnosis"]).to_csv(tmp_path / "new.csv", index=False)
    message = fails("diagnose", fitted[0] / "run", "--data", tmp_path / "new.csv")
    assert "--data must have the target column 'diagnosis'" in message


@pytest.mark.heavy
def test_regression_on_every_column_from_parquet(table, tmp_path):
    data = table.drop(columns="diagnosis")
    data.to_parquet(tmp_path / "data.parquet")
    code, stdout, _ = run("fit", tmp_path / "data.parquet", "--target", "size", "--out", tmp_path / "run")
    assert code == 0
    assert "(a quantity: regression)" in stdout
    assert "Fitting 16 kernels to 42 rows" in stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == FILES - {"held_out.csv"} | {"held_out.parquet", "predicted_vs_observed.png", "views.csv"}
    views = pd.read_csv(tmp_path / "run" / "views.csv")
    assert views["n_kernels"].tolist() == [4] * 4
    assert set(views["view"].iloc[:2]) == {"all", "radius"}
    assert (
        run("predict", tmp_path / "run", tmp_path / "data.parquet", "--out", tmp_path / "out.parquet")[0] == 0
    )
    predictions = pd.read_parquet(tmp_path / "out.parquet")
    assert predictions.columns.tolist() == ["mean", "sd"]
    assert r2_score(data["size"], predictions["mean"]) > 0.7
    assert np.all(predictions["sd"] > 0)


@pytest.mark.heavy
def test_refit_uses_all_rows_and_keeps_the_metrics(fitted, table, csv, tmp_path):
    folder, _, _ = fitted
    out = tmp_path / "run"
    code, stdout, _ = run("fit", csv, "--target", "diagnosis", "--out", out, *FIT, "--seed", 3, "--refit")
    assert code == 0
    assert "fitted to all 60 rows, the metrics are of a fit to 42 of them" in stdout
    np.testing.assert_allclose(
        load_model(out / "model.skops")[0].mean_, table[["radius", "texture", "mean area"]].mean()
    )
    assert (out / "metrics.csv").read_text() == (folder / "run" / "metrics.csv").read_text()


# --------------------------------------------------------------------------------------------- Gaussian processes


@pytest.fixture(scope="module")
def process(table, tmp_path_factory):
    """A run of an additive Gaussian process."""
    folder = tmp_path_factory.mktemp("process")
    table[:30].drop(columns="diagnosis").to_csv(folder / "data.csv", index=False)
    options = ["--target", "size", "--kernels-on", "all", "--method", "gpmkl", "--draws", "50"]
    code, stdout, stderr = run("fit", folder / "data.csv", *options, "--out", folder / "run", "--seed", 3)
    assert code == 0
    return folder, stdout, stderr


@pytest.mark.heavy
def test_a_process_is_that_of_python(process, table):
    folder, stdout, _ = process
    found = load_model(folder / "run" / "model.skops")
    X, y = table[["radius", "texture", "mean area"]][:30], table["size"][:30]
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=3)
    scaler = StandardScaler().set_output(transform="pandas")
    expected = GPMKLRegressor(KernelBank("auto"), inference=Marginal(n_draws=200), random_state=3)
    expected = make_pipeline(scaler, expected).fit(X_train, y_train.to_numpy())
    np.testing.assert_allclose(
        found.predict(X_test, return_std=True), expected.predict(X_test, return_std=True), rtol=1e-10
    )
    kernels = pd.read_csv(folder / "run" / "kernels.csv")
    own = kernel_table(expected)
    assert kernels["kernel"].tolist() == own["kernel"].tolist()
    columns = ["share", "share_lower", "share_upper", "share_mcse"]
    np.testing.assert_allclose(kernels[columns], own[columns], rtol=1e-9)
    assert set(kernels["interval_by"]) == {"marginal"}
    assert f"Log evidence {expected[-1].log_evidence_:.2f} nats" in stdout
    assert "points worth" in stdout


def test_a_process_leaves_a_complete_run(process, table):
    folder, stdout, _ = process
    files = {path.name for path in (folder / "run").iterdir()}
    assert files == FILES - {"elbo.png"} | {"predicted_vs_observed.png"}
    config = json.loads((folder / "run" / "config.json").read_text())
    assert (config["method"], config["inference"], config["kernel_prior"]) == ("gpmkl", "marginal", None)
    shares = load_posterior(folder / "run" / "posterior.nc")["posterior"]["kernel_shares"]
    assert dict(shares.sizes) == {"chain": 1, "draw": 200, "kernel": 4}
    assert "share of the variance in %, and raw weight, with 94 % intervals by marginal" in stdout


def test_a_process_predicts_and_is_diagnosed(process, tmp_path):
    folder, _, _ = process
    out = tmp_path / "out.csv"
    code, _, _ = run("predict", folder / "run", folder / "data.csv", "--out", out)
    assert code == 0
    predictions = pd.read_csv(out)
    assert predictions.columns.tolist() == ["mean", "sd"]
    assert r2_score(pd.read_csv(folder / "data.csv")["size"], predictions["mean"]) > 0.7
    code, stdout, _ = run("diagnose", folder / "run", "--draws", 100)
    assert code == 0
    assert "Diagnosis of a GPMKLRegressor" in stdout


def test_priors_of_a_process():
    options = FitOptions("y", "classification", method="gpmkl", inference="marginal")
    for given, expected in ((None, "dirichlet"), ("half-t", "half-t")):
        check_options(options._replace(kernel_prior=given))
        (_, model) = new_model(options._replace(kernel_prior=given), np.array(["a", "b"])).steps[-1]
        assert isinstance(model, GPMKLClassifier)
        assert (model.kernel_prior, model.inference) == (expected, Marginal(n_draws=4000))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--inference", "vb"], "--method gpmkl has --inference marginal only; got vb. Leave it out."),
        (
            ["--kernel-prior", "sparse"],
            "must be dirichlet, half-t, horseshoe or spike-slab with --method gpmkl; got sparse",
        ),
        (
            ["--multiclass", "shared"],
            "--multiclass is an option of --method bemkl; got it with --method gpmkl",
        ),
        (["--nonnegative"], "--nonnegative is an option of --method bemkl"),
        (["--unlabeled-label", "benign"], "--unlabeled-label is an option of"),
        (["--refine"], "--refine is an option of"),
        (["--max-iter", "9"], "--max-iter is an option of"),
        (["--tol", "0.1"], "--tol is an option of"),
    ],
)
def test_options_that_a_process_does_not_have(options, expected, csv, tmp_path):
    fit = ["fit", csv, "--target", "diagnosis", "--method", "gpmkl", "--out", tmp_path / "run"]
    assert expected in fails(*fit, *options)


def test_marginal_inference_is_of_a_process(csv, tmp_path):
    message = fails("fit", csv, "--target", "diagnosis", "--inference", "marginal", "--out", tmp_path / "run")
    assert "--inference marginal is of --method gpmkl; got it with --method bemkl" in message


def test_bemkl_has_its_own_priors(csv, tmp_path):
    message = fails(
        "fit", csv, "--target", "diagnosis", "--kernel-prior", "half-t", "--out", tmp_path / "run"
    )
    assert "--kernel-prior must be nonsparse or sparse with --method bemkl; got half-t" in message


def test_many_kernels_of_a_process_are_announced(capsys):
    options = FitOptions("y", method="gpmkl", inference="marginal")
    bayesmkl.cli.commands._announce(40, 40, options)
    assert "takes long with more than 2000 rows or 30 kernels" in capsys.readouterr().out
    bayesmkl.cli.commands._announce(40, 28, options)
    assert "takes long" not in capsys.readouterr().out


# ------------------------------------------------------------------------- classes, missing labels, missing cells


@pytest.mark.heavy
def test_several_classes_share_kernel_weights(table, tmp_path):
    sizes = pd.qcut(table["size"], 3, labels=["small", "medium", "large"])
    table.drop(columns="diagnosis").assign(size=sizes).to_csv(tmp_path / "data.csv", index=False)
    fit = ["fit", tmp_path / "data.csv", "--target", "size", *FIT, "--out"]
    code, stdout, _ = run(*fit, tmp_path / "run")
    assert code == 0
    assert "(3 classes: classification)" in stdout
    bemkl = load_model(tmp_path / "run" / "model.skops")[-1]
    assert (bemkl.multiclass, bemkl.kernel_weights_.shape) == ("shared", (4,))
    assert json.loads((tmp_path / "run" / "config.json").read_text())["multiclass"] is None
    predict = ["predict", tmp_path / "run", tmp_path / "data.csv", "--out", tmp_path / "out.csv"]
    assert run(*predict)[0] == 0
    assert pd.read_csv(tmp_path / "out.csv").columns.tolist() == [
        "prediction", "probability_large", "probability_medium", "probability_small",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "shared"),
        ({"inference": "nuts"}, "shared"),
        ({"inference": "gibbs"}, "one-versus-all"),
        ({"refine": True}, "one-versus-all"),
        ({"multiclass": "multinomial"}, "multinomial"),
        ({"multiclass": "one-versus-all"}, "one-versus-all"),
    ],
)
def test_classes_by_default_are_those_that_the_inference_has(options, expected):
    chosen = FitOptions("y", "classification", **options)
    check_options(chosen)
    assert new_model(chosen, np.array(["a", "b"]))[-1].multiclass == expected


@pytest.mark.heavy
def test_rows_without_a_label_take_part_in_the_fit_only(table, tmp_path):
    labels = table["diagnosis"].where(table.index % 3 > 0, "unknown")
    table.drop(columns="size").assign(diagnosis=labels).to_csv(tmp_path / "data.csv", index=False)
    fit = [
        "fit",
        tmp_path / "data.csv",
        "--target",
        "diagnosis",
        *FIT,
        "--nonnegative",
        "--out",
        tmp_path / "run",
    ]
    code, stdout, _ = run(*fit, "--unlabeled-label", "unknown")
    assert code == 0
    assert "(2 classes, 20 rows without a label: classification)" in stdout
    assert "Fitting 4 kernels to 48 rows" in stdout
    assert "On 12 rows held out of the fit" in stdout
    bemkl = load_model(tmp_path / "run" / "model.skops")[-1]
    assert bemkl.classes_.tolist() == ["benign", "malignant"]
    assert (bemkl.target_ == 0).sum() == 20
    assert set(bemkl.transduction_) == set(bemkl.classes_)
    assert (bemkl.kernel_weights_ >= 0.0).all()
    code, stdout, _ = run("diagnose", tmp_path / "run", "--data", tmp_path / "data.csv", "--draws", 100)
    assert code == 0
    assert "alibration" in stdout


def test_marks_of_rows_without_a_label_are_read_as_the_target_is():
    for target, mark in [
        ([0, 1, -1, 0, 1, -1], "-1"),
        ([0.0, 1.0, 9.0, 0.0, 1.0, 9.0], "9"),
        (list("ab?ab?"), "?"),
    ]:
        values, task = check_target(pd.Series(target, name="y"), "auto", mark)
        known, unlabeled = labeled_rows(values, mark)
        assert task == "classification"
        assert (known.tolist(), unlabeled.tolist()) == ([0, 1, 3, 4], [2, 5])
        model = new_model(FitOptions("y", task, unlabeled_label=mark), values)[-1]
        assert (values == model.unlabeled_label).tolist() == [False, False, True] * 2


def test_empty_cells_are_integrated_over(table, tmp_path):
    data = table.drop(columns="diagnosis")
    data.loc[::5, "texture"] = np.nan
    data.to_csv(tmp_path / "data.csv", index=False)
    fit = ["fit", tmp_path / "data.csv", "--target", "size", "--out", tmp_path / "run", "--max-iter", "30"]
    assert "'texture' (12 of 60)" in fails(*fit)
    assert run(*fit, "--missing-views", "integrate", "--kernels-on", "each")[0] == 0
    predict = ["predict", tmp_path / "run", tmp_path / "data.csv", "--out", tmp_path / "out.csv"]
    assert run(*predict)[0] == 0
    predictions = pd.read_csv(tmp_path / "out.csv")
    assert np.isfinite(predictions).all(axis=None)
    assert r2_score(data["size"], predictions["mean"]) > 0.7


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--nonnegative", "--refine"], "is for variational inference only. Leave it out, or --refine."),
        (["--multiclass", "multinomial", "--inference", "nuts"], "only. Leave it out, or --inference nuts."),
        (["--multiclass", "shared", "--inference", "gibbs"], "Use --multiclass one-versus-all, or --inference nuts"),
        (["--missing-views", "integrate"], "needs --kernels-on each, where every column is a view of its own"),
        (["--unlabeled-label", "benign"], "beside it the --target 'diagnosis' holds malignant ("),
        (["--target", "size", "--unlabeled-label", "1"], "--unlabeled-label is about classes"),
        (["--target", "size", "--multiclass", "shared"], "--multiclass is about classes"),
        (["--target", "kind", "--unlabeled-label", "x"], "--unlabeled-label must be a number, as the --target is"),
        (["--target", "site", "--unlabeled-label", "?"], "holds a (20 rows), b (20 rows), c (20 rows). Recode"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(options, expected, table, tmp_path):
    table.assign(kind=[0, 1] * 30, site=["a", "b", "c"] * 20).to_csv(tmp_path / "data.csv", index=False)
    target = [] if "--target" in options else ["--target", "diagnosis"]
    assert expected in fails("fit", tmp_path / "data.csv", *target, *options, "--out", tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


# ------------------------------------------------------------------------------------------------ bad input


def test_unknown_target_lists_close_names(csv, tmp_path):
    assert "did you mean 'diagnosis'?" in fails("fit", csv, "--target", "diagnose", "--out", tmp_path / "run")
    message = fails("fit", csv, "--target", "xyz", "--out", tmp_path / "run")
    assert "--target names the column 'xyz'" in message
    assert "its columns are 'radius', 'texture', 'mean area', 'diagnosis'" in message
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


@pytest.mark.parametrize(
    ("change", "options", "expected"),
    [
        ({"site": "left"}, [], "column 'site' holds no numbers (such as 'left' in 'site'). Encode"),
        ({"site": "left"}, [], "--drop site"),
        ({"the site": "left"}, [], '--drop "the site"'),
        ({"radius": [np.nan, 1.0] * 30}, [], "values are missing in 'radius' (30 of 60)"),
        ({"radius": [np.inf, 1.0] * 30}, [], "column 'radius' holds infinite values"),
        ({"radius": 7.0}, [], "column 'radius' holds the same value in all 42 rows to fit"),
        ({"diagnosis": ["a", None] * 30}, [], "the --target 'diagnosis' is missing in 30 of 60 rows"),
        ({"diagnosis": "a"}, [], "holds a (60 rows)"),
        ({"diagnosis": ["a"] * 59 + ["b"]}, [], "holds a (59 rows), b (1 rows)"),
        ({}, ["--task", "regression"], "--task regression needs finite numbers in the --target"),
        (
            {},
            ["--drop", "radios"],
            "--drop names the column 'radios', which the table does not have; did you mean 'radius'?",
        ),
        ({}, ["--drop", "diagnosis"], "--drop leaves out 'diagnosis', which is the --target"),
        (
            {},
            ["--drop", "radius", "--drop", "texture", "--drop", "mean area"],
            "no column beside --target and --drop",
        ),
        ({}, ["--test-size", "1.5"], "--test-size must be between 0 and 1; got 1.5"),
    ],
)
def test_bad_tables_are_refused_and_nothing_is_written(change, options, expected, table, tmp_path):
    table.drop(columns="size").assign(**change).to_csv(tmp_path / "data.csv", index=False)
    message = fails(
        "fit", tmp_path / "data.csv", "--target", "diagnosis", "--out", tmp_path / "run", *options
    )
    assert expected in message
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


def test_bad_files_are_named(tmp_path):
    to_run = ["--target", "y", "--out", tmp_path / "run"]
    assert "there is no file" in fails("fit", tmp_path / "nowhere.csv", *to_run)
    assert "must be the name of a table, ending in .csv" in fails("fit", tmp_path / "data.xlsx", *to_run)
    (tmp_path / "empty.csv").write_text("")
    assert "cannot be read as a .csv table" in fails("fit", tmp_path / "empty.csv", *to_run)
    (tmp_path / "header.csv").write_text("x,y\n")
    assert "holds no rows" in fails("fit", tmp_path / "header.csv", *to_run)
    (tmp_path / "text.parquet").write_text("x,y\n1,2\n")
    assert "cannot be read as a .parquet table" in fails("fit", tmp_path / "text.parquet", *to_run)


def test_kernels_that_do_not_fit_into_memory_are_refused(csv, tmp_path, monkeypatch):
    monkeypatch.setattr(bayesmkl._utils.memory, "available_memory", lambda: 10_000)
    message = fails("fit", csv, "--target", "diagnosis", "--out", tmp_path / "run")
    assert "16 kernels over 42 rows needs 226 kB, and 10.0 kB are available" in message
    assert "--kernels-on all" in message


def test_folders_are_not_overwritten(fitted, csv, tmp_path):
    folder, _, _ = fitted
    fit = ["fit", csv, "--target", "diagnosis", *FIT, "--out"]
    before = (folder / "run" / "config.json").read_text()
    assert "is not empty" in fails(*fit, folder / "run")
    assert (folder / "run" / "config.json").read_text() == before
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("x")
    assert "holds files that no run of bayesmkl wrote" in fails(*fit, tmp_path / "precious", "--force")
    assert "holds files that no run" in fails("demo", "--fast", "--out", tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.tex").read_text() == "x"
    assert "is a file" in fails(*fit, csv)
    assert "must be in a folder that exists" in fails(*fit, tmp_path / "a" / "b")


@pytest.mark.heavy
def test_force_replaces_an_earlier_run(csv, tmp_path):
    fit = ["fit", csv, "--target", "diagnosis", *FIT, "--out", tmp_path / "run"]
    (tmp_path / "run").mkdir()  # empty folders are free
    assert run(*fit)[0] == 0
    (tmp_path / "run" / "old.txt").write_text("old")
    assert run(*fit, "--force", "--seed", 4)[0] == 0
    assert not (tmp_path / "run" / "old.txt").exists()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["seed"] == 4


@pytest.mark.heavy
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError("disk full")])
def test_interrupted_fit_leaves_no_trace(interruption, csv, tmp_path, monkeypatch):
    fit = ["fit", csv, "--target", "diagnosis", *FIT, "--out", tmp_path / "run"]

    def interrupted(*args, **kwargs):
        raise interruption

    with monkeypatch.context() as patch:
        patch.setattr(bayesmkl.cli.commands, "save_posterior", interrupted)
        assert run(*fit)[0] != 0
        assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}
    assert run(*fit)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    monkeypatch.setattr(bayesmkl.cli.commands, "save_posterior", interrupted)
    assert run(*fit, "--force", "--seed", 9)[0] != 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "run"}


def test_predict_names_missing_columns(fitted, table, tmp_path):
    folder, _, _ = fitted
    table.rename(columns={"texture": "Texture"}).to_csv(tmp_path / "new.csv", index=False)
    message = fails("predict", folder / "run", tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert (
        "lacks 1 of the 3 columns that the model was fitted to: 'texture'; did you mean 'Texture'" in message
    )
    table.assign(radius="?").to_csv(tmp_path / "new.csv", index=False)
    message = fails("predict", folder / "run", tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert "column 'radius' holds no numbers" in message
    assert "ending in .csv" in fails(
        "predict", folder / "run", tmp_path / "new.csv", "--out", tmp_path / "out.doc"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv"}


def test_predict_refuses_half_written_runs(fitted, tmp_path):
    folder, _, _ = fitted
    predict = ["predict", tmp_path / "run", folder / "data.csv", "--out", tmp_path / "out.csv"]
    assert "there is no folder" in fails(*predict)
    (tmp_path / "run").mkdir()
    assert "it has no config.json and no model.skops" in fails(*predict)
    (tmp_path / "run" / "config.json").write_bytes((folder / "run" / "config.json").read_bytes())
    assert "it has no model.skops" in fails(*predict)
    data = (folder / "run" / "model.skops").read_bytes()
    (tmp_path / "run" / "model.skops").write_bytes(data[: len(data) // 2])
    assert "is not a readable model file" in fails(*predict)
    (tmp_path / "run" / "model.skops").write_bytes(data)
    assert run(*predict)[0] == 0
    (tmp_path / "run" / "config.json").write_text('{"format": "bayesmkl-run"')
    assert "is damaged" in fails(*predict)
    (tmp_path / "run" / "config.json").write_text("[]")
    assert "is not the config.json of a run" in fails(*predict)


def test_version_and_help_answer_without_heavy_imports():
    version = subprocess.run(
        [sys.executable, "-m", "bayesmkl", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.strip() == f"bayesmkl {__version__}"
    code = "import sys, bayesmkl.cli; print({'numpy', 'sklearn', 'pandas', 'jax', 'matplotlib'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"


def test_help_names_every_command():
    code, stdout, _ = run("--help")
    assert code == 0
    assert all(command in stdout for command in ("demo", "fit", "predict"))
    code, _, stderr = run("fit", "data.csv", "--out", "run")
    assert code == 2
    assert "--target" in stderr
