"""The command line: what it writes, what it says about bad input, and that nothing half-written stays."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from bayesmkl import BEMKLRegressor, GPMKLRegressor, KernelBank, __version__, load_model
from bayesmkl.cli import app, fitting
from bayesmkl.evaluation import concordance_index
from bayesmkl.gp import Design, Marginal
from bayesmkl.kernels import Gaussian, Tanimoto
from bayesmkl.posterior import effect_table, kernel_table, load_posterior

COLUMNS = ["radius", "texture", "mean area"]
FIT = ["--kernels-on", "all", "--max-iter", "15"]
GPMKL = ["--method", "gpmkl", "--draws", "100", "--kernels-on", "all"]
FILES = {
    *(
        "config.json",
        "elbo.png",
        "features.csv",
        "held_out.csv",
        "kernel_weights.png",
        "kernels.csv",
        "views.csv",
        "views.png",
    ),
    *("metrics.csv", "model.skops", "posterior.nc", "training_rows.txt"),
}


def fails(*arguments):
    """Run a command that must fail on bad data; return its message."""
    code, _, message = run(*arguments)
    assert code == 2
    assert message.startswith("error: ")
    return message


@pytest.fixture(scope="module")
def table():
    """Tumors of six sites: three columns, a size, a diagnosis, a grade and a time to an event."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=COLUMNS)
    X["size"] = 4.0 * X["radius"] + rng.normal(size=60) + 20.0
    X["diagnosis"] = np.where(X["size"] > 20, "malignant", "benign")
    X["site"] = rng.choice(["1", "2", "north", "south", "east", "west"], size=60)
    X["grade"] = np.array(["mild", "middling", "bad"])[np.digitize(X["size"], [18.0, 22.0])]
    X["days"], X["died"] = np.exp(0.2 * X["size"] - 4.0 + 0.2 * rng.normal(size=60)), rng.random(60) < 0.7
    X["visits"] = rng.poisson(np.exp(0.5 * X["radius"]))
    return X


@pytest.fixture
def csv(table, tmp_path):
    table[[*COLUMNS, "diagnosis"]].to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


@pytest.fixture(scope="module")
def write(table, tmp_path_factory):
    """Fit some columns of the table; return the folder of the run, the file, and what was printed."""

    def fit(columns, target, *options, rows=table):
        folder = tmp_path_factory.mktemp("run")
        rows[[*columns, target]].to_csv(folder / "data.csv", index=False)
        arguments = ["fit", folder / "data.csv", "--target", target, "--out", folder / "run", *options]
        code, stdout, stderr = run(*arguments)
        assert code == 0, stderr
        return folder / "run", folder / "data.csv", stdout + stderr

    return fit


@pytest.fixture(scope="module")
def fitted(write):
    return write(COLUMNS, "diagnosis", *FIT, "--seed", 3)


def predictions(folder, data, tmp_path):
    code, stdout, stderr = run("predict", folder, data, "--out", tmp_path / "out.csv")
    assert code == 0, stderr
    return pd.read_csv(tmp_path / "out.csv"), stdout


def metrics_of(folder):
    return pd.read_csv(folder / "metrics.csv", index_col="metric")["value"]


# ------------------------------------------------------------------------------------------------- runs and rows


def test_fit_writes_a_complete_run(fitted):
    folder, data, said = fitted
    assert {path.name for path in folder.iterdir()} == FILES | {"reliability.png"}
    assert {path.name for path in data.parent.iterdir()} == {"data.csv", "run"}
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert "60 rows, 3 columns to predict 'diagnosis' from (2 classes: classification)." in said
    assert "fitted to 42 of 60 rows" in said
    assert "note: BEMKLClassifier stopped after max_iter=15 sweeps" in said
    model = load_model(folder / "model.skops")
    pd.testing.assert_frame_equal(pd.read_csv(folder / "kernels.csv"), kernel_table(model))
    weights = load_posterior(folder / "posterior.nc")["posterior"]["kernel_weights"]
    assert weights["kernel"].values.tolist() == list(model.kernel_names_)
    config = json.loads((folder / "config.json").read_text())
    assert (config["seed"], config["max_iter"], config["features"]) == (3, 15, COLUMNS)


def test_metrics_are_those_of_the_rows_held_out(fitted, table):
    folder, _, said = fitted
    model = load_model(folder / "model.skops")
    X, y = table[COLUMNS], table["diagnosis"].to_numpy(str)
    X_train, X_test, _, y_test = train_test_split(X, y, test_size=0.3, random_state=3, stratify=y)
    np.testing.assert_allclose(model.kernel_bank_.locations_, X_train.mean())
    metrics = metrics_of(folder)
    assert metrics["accuracy"] == accuracy_score(y_test, model.predict(X_test))
    probability = model.predict_proba(X_test)[np.arange(18), np.searchsorted(model.classes_, y_test)]
    assert metrics["log_loss"] == pytest.approx(-np.log(probability).mean())
    assert f"{metrics['ece']:.3g}" in said


def test_predictions_are_aligned_with_the_input(fitted, table, tmp_path):
    shuffled = table.sample(frac=1.0, random_state=0)[["texture", "diagnosis", "size", "mean area", "radius"]]
    shuffled.to_csv(tmp_path / "new.csv", index=False)
    found, said = predictions(fitted[0], tmp_path / "new.csv", tmp_path)
    assert "not fitted to them: size." in said
    model, X = load_model(fitted[0] / "model.skops"), shuffled[COLUMNS]
    assert found.columns.tolist() == ["prediction", "probability_benign", "probability_malignant"]
    assert found["prediction"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(found.iloc[:, 1:], model.predict_proba(X), rtol=1e-12)


def test_rows_of_the_fit_are_not_judged(fitted, tmp_path):
    folder, data, _ = fitted

    def judged(*options):
        code, stdout, stderr = run("report", folder, "--out", tmp_path / "page.html", *options)
        assert code == 0, stderr
        page = (tmp_path / "page.md").read_text().split("## Predictions")[1].split("##")[0]
        return stdout, dict(re.findall(r"- ([\w -]+): (\S+)\n", page))

    _, found = judged()
    assert found.pop("held-out samples") == "18"
    assert list(found) == [name.replace("_", " ") for name in metrics_of(folder).index]
    np.testing.assert_allclose([float(value) for value in found.values()], metrics_of(folder), atol=6e-4)
    says = "42 of the 60 rows in --data are training rows. They are left out."
    stdout, again = judged("--data", data)
    assert says in stdout
    assert again.pop("held-out samples") == "18"
    assert again == found
    code, stdout, _ = run("diagnose", folder, "--data", data, "--draws", 200)
    assert code == 0
    assert says in stdout
    assert "k-hat" in stdout
    assert run("report", folder)[0] == 0
    assert (folder / "report.html").is_file()
    (folder / "report.html").unlink()
    (folder / "report.md").unlink()


def test_regression_on_every_column_from_parquet(table, tmp_path):
    data = table[[*COLUMNS, "size"]]
    data.to_parquet(tmp_path / "data.parquet")
    code, stdout, _ = run("fit", tmp_path / "data.parquet", "--target", "size", "--out", tmp_path / "run")
    assert code == 0
    assert "(a quantity: regression)" in stdout
    assert "Fitting 16 kernels to 42 rows" in stdout
    assert {"held_out.parquet", "predicted_vs_observed.png"} < {p.name for p in (tmp_path / "run").iterdir()}
    views = pd.read_csv(tmp_path / "run" / "views.csv")
    assert views["view"].tolist()[-2:] == ["all views", "not explained"]
    out = tmp_path / "out.parquet"
    assert run("predict", tmp_path / "run", tmp_path / "data.parquet", "--out", out)[0] == 0
    found = pd.read_parquet(out)
    assert found.columns.tolist() == ["mean", "sd"]
    assert r2_score(data["size"], found["mean"]) > 0.7


# ------------------------------------------------------------------------------------------------------- models


def test_effects_of_a_design_are_those_of_python(write, table, tmp_path):
    columns = [*COLUMNS[:2], "visits", "site"]
    folder, data, said = write(columns, "size", *GPMKL, "--covariate", "visits", "--group", "site")
    found = load_model(folder / "model.skops")
    known = table["site"].isin(found.design_.labels[0])
    assert f"Rows held out are those of {table['site'][~known].nunique()} groups of 'site'" in said
    rows = table[known]
    X = rows[COLUMNS[:2]]
    X = pd.concat([rows[["visits", "site"]], (X - X.mean()) / X.std(ddof=0)], axis=1)
    design = Design(covariate_columns=["visits"], group_columns=["site"])
    own = GPMKLRegressor(KernelBank("auto"), design=design, inference=Marginal(n_draws=100), random_state=0)
    expected = effect_table(own.fit(X, rows["size"].to_numpy()))
    written = pd.read_csv(folder / "effects.csv")
    assert written["effect"].tolist() == expected["effect"].tolist() == ["visits", "site"]
    np.testing.assert_allclose(written["mean"], expected["mean"], rtol=1e-6)
    both, _ = predictions(folder, data, tmp_path)
    assert both["sd"][~known].min() > both["sd"][known].mean()
    table[columns][table["site"].isin(["1", "2"])].to_csv(tmp_path / "numbers.csv", index=False)
    alone, _ = predictions(folder, tmp_path / "numbers.csv", tmp_path)  # sites stay text
    np.testing.assert_allclose(alone, both[table["site"].isin(["1", "2"])], rtol=1e-8)


def test_grades_have_an_order(write, table, tmp_path):
    levels = [option for level in ("mild", "middling", "bad") for option in ("--level", level)]
    folder, data, said = write(COLUMNS, "grade", "--task", "ordinal", "--kernels-on", "all", *levels)
    assert "(3 grades: ordinal)" in said
    found, _ = predictions(folder, data, tmp_path)
    names = [f"probability_{grade}" for grade in ("mild", "middling", "bad")]
    assert found.columns.tolist() == ["prediction", *names]
    assert np.corrcoef(found["probability_bad"], table["size"])[0, 1] > 0.6
    assert metrics_of(folder).index.tolist() == ["accuracy", "grades_off", "log_loss", "rps"]
    assert "no diagnosis of runs of --task ordinal with --method bemkl" in fails("diagnose", folder)


def test_times_to_an_event(write, table, tmp_path):
    folder, data, said = write([*COLUMNS, "died"], "days", "--event", "died", "--kernels-on", "all")
    assert f"(times, {table['died'].sum()} events: survival)" in said
    assert (folder / "calibration.png").exists()
    found, _ = predictions(folder, data, tmp_path)
    assert found.columns.tolist() == ["risk", "median", "lower", "upper"]
    assert ((found["lower"] < found["median"]) & (found["median"] < found["upper"])).all()
    y = np.rec.fromarrays([table["died"], table["days"]], names="event,time")
    assert concordance_index(y, found["risk"]) > 0.8
    assert metrics_of(folder).index[0] == "concordance"


def test_counts_are_no_classes(write):
    """Few whole numbers are classes but for the likelihood of counts, whose metrics are not those of normal laws."""
    folder, _, said = write(COLUMNS, "visits", *GPMKL, "--likelihood", "poisson")
    assert "(a quantity: regression)" in said
    assert metrics_of(folder).index.tolist() == ["r2", "rmse"]
    assert load_model(folder / "model.skops").likelihood == "poisson"


# -------------------------------------------------------------------------------------------------- views, types

BITS, GENES = [f"bit_{j}" for j in range(5)], ["gene_a", "gene_b", "TP53"]
VIEWS = ["--view", "bits=bit_*", "--view", "genes=gene_?", "--view", "genes=TP53"]
KERNELS = ["--kernels", "bits=tanimoto", "--kernels", "genes=gaussian", "--kernels", "genes=linear"]


@pytest.fixture(scope="module")
def assays():
    rng = np.random.default_rng(6)
    found = pd.DataFrame(rng.integers(0, 2, (50, 5)), columns=BITS)
    found[GENES] = rng.normal(3.0, 2.0, (50, 3))
    found["activity"] = found["bit_0"] + np.sin(found["gene_a"]) + 0.1 * rng.normal(size=50)
    found["bit_4"] = 1  # of all: standardization would divide by zero
    return found


def test_views_and_kernels_are_those_of_python(write, assays, tmp_path):
    short = ["--max-iter", 20]
    folder, data, _ = write([*BITS, *GENES], "activity", *VIEWS, *KERNELS, *short, rows=assays)
    model = load_model(folder / "model.skops")
    bank = KernelBank(
        {"bits": Tanimoto(), "genes": [Gaussian(relative_width=1.0), "linear"]},
        views={"bits": BITS, "genes": ["gene_a", "gene_b", "TP53"]},
    )
    X_train, _, y_train, _ = train_test_split(
        assays.drop(columns="activity"), assays["activity"], test_size=0.3, random_state=0
    )
    scaled = X_train.copy()
    scaled[GENES] = StandardScaler().fit_transform(X_train[GENES])
    own = BEMKLRegressor(bank, max_iter=20, random_state=0)
    with pytest.warns(UserWarning, match="max_iter"):
        own.fit(scaled, y_train.to_numpy())
    assert list(model.kernel_names_) == list(own.kernel_names_)
    found, _ = predictions(folder, data, tmp_path)
    np.testing.assert_allclose(found["mean"][X_train.index], own.predict(scaled), rtol=1e-6)


def test_views_may_be_empty(write, assays, tmp_path):
    holes = assays.astype({name: float for name in BITS})
    holes.loc[:9, GENES] = np.nan
    options = [*VIEWS, *KERNELS, "--missing-views", "integrate", "--max-iter", 20]
    folder, data, _ = write([*BITS, *GENES], "activity", *options, rows=holes)
    found, _ = predictions(folder, data, tmp_path)
    model = load_model(folder / "model.skops")
    np.testing.assert_allclose(found["mean"], model.predict(holes.drop(columns="activity")), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--view", "bits"], "--view must be NAME=COLUMN, such as mean='mean_*'; got 'bits'"),
        (["--view", "genes=TP5"], "--view genes=TP5 names no column to predict from; did you mean 'TP53'?"),
        ([*VIEWS, "--kernels", "bits"], "--kernels must be VIEW=KERNEL, such as bits=tanimoto; got 'bits'"),
        ([*VIEWS, "--kernels", "bit=rbf"], "the view 'bit', which does not exist; did you mean 'bits'?"),
        ([*VIEWS, "--kernels", "bits=tanimotto"], "names no known kernel; did you mean 'tanimoto'?"),
        ([*VIEWS, "--kernels-on", "all"], "--view and --kernels-on all both choose the columns"),
        ([*VIEWS, "--kernels", "genes=tanimoto"], "'bit_4' holds the same value in all 35 rows to fit"),
    ],
)
def test_views_that_cannot_be(options, expected, assays, tmp_path):
    assays.to_csv(tmp_path / "data.csv", index=False)
    fit = ["fit", tmp_path / "data.csv", "--target", "activity", "--out", tmp_path / "run"]
    assert expected in fails(*fit, *options)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(4)
    found = pd.DataFrame({"age": rng.normal(60.0, 9.0, 60), "stage": rng.choice(["I", "II", "III"], 60)})
    found["site"], found["smoker"] = rng.choice([3, 7], 60), rng.random(60) < 0.5
    found["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 60), unit="D")
    found["ill"] = np.where((found["stage"] == "III") | (found["age"] > 68.0), "yes", "no")
    found.loc[3, "age"], found.loc[5, "stage"] = np.nan, None
    return found


def test_types_are_those_of_python(write, patients, tmp_path):
    options = ["--kernels-on", "types", "--category", "site", "--drop", "seen", "--max-iter", 20]
    folder, _, _ = write(list(patients.columns[:-1]), "ill", *options, rows=patients.dropna(subset="age"))
    model = load_model(folder / "model.skops")
    plan = model.kernel_bank_.column_plan_
    assert [(one.label, one.kind, one.levels) for one in plan.columns] == [
        ("stage", "categories", ("I", "II", "III")),
        ("site", "categories", (3, 7)),
        ("smoker", "yes or no", (False, True)),
    ]
    assert [view.name for view in model.kernel_bank_.views_] == ["numbers", "categories"]
    new = patients.drop(columns=["ill", "seen"]).fillna({"age": 60.0})
    new.loc[0, "stage"], new.loc[1, "site"] = "IV", 9  # no sample of training has these
    new.to_csv(tmp_path / "new.csv", index=False)
    found, _ = predictions(folder, tmp_path / "new.csv", tmp_path)
    expected = model.predict_proba(pd.read_csv(tmp_path / "new.csv"))[:, 1]
    np.testing.assert_allclose(found["probability_yes"], expected, rtol=1e-12)
    assert np.mean(found["prediction"] == patients["ill"]) > 0.8
    dated = [*options[:4], "--max-iter", 20]
    patients.dropna(subset="age").to_csv(tmp_path / "dated.csv", index=False)
    message = fails("fit", tmp_path / "dated.csv", "--target", "ill", "--out", tmp_path / "other", *dated)
    assert (
        "the column 'seen' holds dates as text. Read them with `pd.to_datetime`. Make a number of them"
        in message
    )


def test_a_dry_run_writes_nothing(patients, tmp_path):
    patients.to_csv(tmp_path / "data.csv", index=False)
    fit = [
        "fit",
        tmp_path / "data.csv",
        "--target",
        "ill",
        "--view",
        "who=age",
        "--view",
        "who=s[im]*",
        "--view",
    ]
    fit += ["grade=stage", "--missing-views", "integrate", "--max-iter", 20]
    code, stdout, stderr = run(*fit, "--dry-run")
    assert code == 0, stderr
    gaussians = "gaussian(0.5 median), gaussian(1 median), gaussian(2 median), linear"
    assert f"who: {gaussians} of age, site who: overlap of smoker grade: overlap of stage" in stdout
    assert "Not used, because they are in no view: seen." in stdout
    assert "6 kernels of 42 rows: " in stdout
    assert "Nothing was written." in stdout
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--method", "gpmkl", "--max-iter", "9"], "--max-iter cannot be used with --task classification"),
        (
            ["--likelihood", "logit"],
            "--likelihood cannot be used with --task classification and --method bemkl",
        ),
        (["--level", "benign"], "--level cannot be used with --task classification"),
        (["--group", "radius"], "--group cannot be used with --task classification and --method bemkl"),
        (
            ["--task", "ordinal", "--missing-views", "integrate"],
            "--missing-views cannot be used with --task ordinal",
        ),
        (["--method", "gpmkl", "--kernel-prior", "sparse"], "`kernel_prior` must be"),
        (["--method", "gpmkl", "--likelihood", "weibull"], "`likelihood` must be"),
        (["--task", "survival"], "--event names the column that says whether the event was seen"),
        (["--event", "texture"], "must be a column of 0 and 1, or of true and false"),
        (["--category", "radus"], "from which nothing is predicted; did you mean"),
        (["--view", "a=diagnosis"], "names no column to predict from; it is the target."),
        (["--missing-views", "impute"], "`missing_views` must be"),
    ],
)
def test_options_that_do_not_go_together(options, expected, csv, tmp_path):
    assert expected in fails("fit", csv, "--target", "diagnosis", "--out", tmp_path / "run", *options)
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


@pytest.mark.parametrize(
    ("change", "options", "expected"),
    [
        ({"site": "left"}, [], "column 'site' holds the same value in all 42 rows to fit"),
        ({"radius": [np.nan, 1.0] * 30}, [], "values are missing in 'radius' (30 of 60)"),
        ({"radius": [np.inf, 1.0] * 30}, [], "Input X contains infinity"),
        ({"radius": 7.0}, [], "column 'radius' holds the same value in all 42 rows to fit"),
        ({"diagnosis": ["a", None] * 30}, [], "the target 'diagnosis' is missing in 30 of 60 rows"),
        ({"diagnosis": "a"}, [], "holds a (60 rows)"),
        ({"diagnosis": ["a"] * 59 + ["b"]}, [], "holds a (59 rows), b (1 rows)"),
        ({}, ["--task", "regression"], "--task regression needs finite numbers in the target"),
        (
            {},
            ["--drop", "radios"],
            "--drop names the column 'radios', which the table does not have; did you",
        ),
        ({}, ["--drop", "diagnosis"], "--target and --drop both name the column 'diagnosis'"),
        ({}, [f"--drop={name}" for name in COLUMNS], "the table has no column left to predict from"),
        ({"Unnamed: 0": range(60)}, [], "'Unnamed: 0' has no name in the file"),
    ],
)
def test_bad_tables_are_refused_and_nothing_is_written(change, options, expected, table, tmp_path):
    table[[*COLUMNS, "diagnosis"]].assign(**change).to_csv(tmp_path / "data.csv", index=False)
    fit = ["fit", tmp_path / "data.csv", "--target", "diagnosis", "--out", tmp_path / "run"]
    assert expected in fails(*fit, *options)
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}


def test_bad_files_and_names_are_named(csv, tmp_path):
    to_run = ["--target", "y", "--out", tmp_path / "run"]
    assert "there is no file" in fails("fit", tmp_path / "nowhere.csv", *to_run)
    assert "must be the name of a table, ending in .csv" in fails("fit", tmp_path / "data.xlsx", *to_run)
    (tmp_path / "text.parquet").write_text("x,y\n1,2\n")
    assert "cannot be read as a .parquet table" in fails("fit", tmp_path / "text.parquet", *to_run)
    message = fails("fit", csv, *to_run)
    assert "--target names the column 'y'" in message
    assert "known: 'diagnosis', 'mean area', 'radius', 'texture'" in message
    assert "--out must name the folder" in fails("fit", csv, "--target", "diagnosis")


def test_folders_are_not_overwritten(fitted, csv, tmp_path):
    fit = ["fit", csv, "--target", "diagnosis", *FIT, "--out"]
    before = (fitted[0] / "config.json").read_text()
    assert "is not empty" in fails(*fit, fitted[0])
    assert (fitted[0] / "config.json").read_text() == before
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("x")
    assert "holds files that bayesmkl did not write" in fails(*fit, tmp_path / "precious", "--force")
    assert "holds files that bayesmkl did not" in fails("demo", "--fast", "--out", tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.tex").read_text() == "x"
    assert "is a file" in fails(*fit, csv)
    assert "must be in a folder that exists" in fails(*fit, tmp_path / "a" / "b")
    (tmp_path / "run").mkdir()  # empty folders are free
    assert run(*fit, tmp_path / "run")[0] == 0
    (tmp_path / "run" / "old.txt").write_text("old")
    assert run(*fit, tmp_path / "run", "--force", "--seed", 4)[0] == 0
    assert not (tmp_path / "run" / "old.txt").exists()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["seed"] == 4


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt, 130), (OSError("disk full"), 2)])
def test_interrupted_fit_leaves_no_trace(stop, code, csv, tmp_path, monkeypatch):
    fit = ["fit", csv, "--target", "diagnosis", *FIT, "--out", tmp_path / "run"]

    def interrupted(*args, **kwargs):
        raise stop

    assert run(*fit)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    monkeypatch.setattr(fitting.posterior, "save_posterior", interrupted)
    assert run(*fit, "--force", "--seed", 9)[0] == code
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "run"}


def test_predict_names_what_is_wrong(fitted, table, tmp_path):
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.rename(columns={"texture": "Texture"}).to_csv(new, index=False)
    message = fails("predict", fitted[0], new, "--out", out)
    assert (
        "lacks 1 of the 3 columns that the model was fitted to: 'texture'; did you mean 'Texture'" in message
    )
    table.assign(radius="?").to_csv(new, index=False)
    assert "must hold numbers in 'radius', as in training; got '?'" in fails(
        "predict", fitted[0], new, "--out", out
    )
    assert "ending in .csv" in fails("predict", fitted[0], new, "--out", tmp_path / "out.doc")
    table[COLUMNS].to_csv(new, index=False)
    for command in ("diagnose", "report"):
        message = fails(command, fitted[0], "--data", new)
        assert "--data must have the target column 'diagnosis'" in message
    assert "--out must be a folder, or a page that ends in .html" in fails(
        "report", fitted[0], "--out", tmp_path / "page.pdf"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv"}


def test_half_written_runs_are_refused(fitted, tmp_path):
    folder, data, _ = fitted
    predict = ["predict", tmp_path / "run", data, "--out", tmp_path / "out.csv"]
    assert "there is no folder" in fails(*predict)
    (tmp_path / "run").mkdir()
    assert "it has no config.json" in fails(*predict)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    assert "it has no model.skops" in fails(*predict)
    model = (folder / "model.skops").read_bytes()
    (tmp_path / "run" / "model.skops").write_bytes(model[: len(model) // 2])
    assert "is not a readable model file" in fails(*predict)
    (tmp_path / "run" / "model.skops").write_bytes(model)
    assert run(*predict)[0] == 0
    for change, message in (
        ({"features": COLUMNS[:2]}, "do not belong together"),
        ({"task": "regression"}, "do not belong together"),
        ({"task": "../x"}, "is damaged: 'task' is '../x'"),
        ({"features": "abc"}, "is damaged: 'features' is 'abc'"),
        ({"version": 1}, "layout 1, written by bayesmkl"),
        ({"format": "x"}, "is not the config.json of a run"),
    ):
        (tmp_path / "run" / "config.json").write_text(json.dumps(config | change))
        assert message in fails(*predict)
    (tmp_path / "run" / "config.json").write_text('{"format": "bayesmkl-run"')
    assert "is damaged" in fails(*predict)


# -------------------------------------------------------------------------------------------------- the program


def test_version_and_help_answer_without_heavy_imports():
    command = [sys.executable, "-m", "bayesmkl", "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True)
    assert version.stdout.strip() == f"bayesmkl {__version__}"
    code = "import sys, bayesmkl.cli; print({'numpy', 'sklearn', 'pandas', 'jax', 'matplotlib'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"
    stdout = run("--help")[1]
    assert all(command in stdout for command in ("demo", "fit", "predict", "diagnose", "report", "compare"))
    code, _, stderr = run("fit", "data.csv", "--out", "run")
    assert code == 2
    assert "--target" in stderr


def test_a_wrong_name_is_refused_before_anything_heavy_is_imported(table, tmp_path):
    table[[*COLUMNS, "site", "diagnosis"]].to_csv(tmp_path / "data.csv", index=False)
    command = [
        "bayesmkl",
        "fit",
        f"{tmp_path}/data.csv",
        "--target=diagnosis",
        f"--out={tmp_path}/run",
        "--drop=sites",
    ]
    code = f"""
import sys
from bayesmkl.cli import main
sys.argv = {command!r}
try:
    main()
finally:
    print({{"sklearn", "scipy", "jax", "matplotlib"}} & set(sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "--drop names the column 'sites'" in " ".join(found.stderr.split())
    assert found.stdout.splitlines()[-1] == "set()"


def test_a_terminal_without_the_letters_of_a_name_ends_no_command(tmp_path):
    rows = pd.DataFrame({"größe": np.sin(np.arange(30.0))})
    rows["label"] = np.where(rows["größe"] > 0, "groß", "klein")
    rows.to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", str(tmp_path / "data.csv"), "--target", "label", "--dry-run"]
    result = CliRunner(charset="ascii").invoke(app, command)
    assert result.exit_code == 0, result.stderr
    assert "gr\\xf6\\xdfe" in result.stdout


@pytest.mark.heavy
def test_demo_finds_what_is_known_and_can_be_repeated(tmp_path):
    for seed in (0, 1):
        code, stdout, _ = run("demo", "--fast", "--out", tmp_path / "demo", "--seed", seed)
        assert code == 0
    assert "Fitting 4 kernels to 95 rows" in stdout
    for word in ("Explained: ", "Interval: ", "Log loss: ", "report.html"):
        assert word in stdout
    views = pd.read_csv(tmp_path / "demo" / "views.csv", index_col="view")
    assert views.index[0] == "worst"
    assert views.loc["worst", "explained_lower"] > views.loc["shuffled", "explained_upper"]
    metrics = metrics_of(tmp_path / "demo")
    assert metrics["accuracy"] > 0.9
    assert metrics["log_loss"] < 0.3
    assert "Effects of views, and variance" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "demo" / "config.json").read_text())["seed"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"demo"}
