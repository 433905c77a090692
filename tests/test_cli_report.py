"""The command `report`: a page about a run of the command line."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from cli_runner import run

from bayesmkl.cli.folders import load_run

COLUMNS = ["radius", "texture"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    found = pd.DataFrame(rng.normal(size=(70, 2)), columns=COLUMNS)
    found["grade"] = np.digitize(found["radius"] + 0.3 * rng.normal(size=70), [-0.7, 0.7])
    return found


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    table[:50].to_csv(folder / "data.csv", index=False)
    options = ["--target", "grade", "--task", "classification", "--kernels-on", "each", "--method", "gpmkl"]
    code, _, stderr = run("fit", folder / "data.csv", *options, "--draws", 25, "--out", folder / "run")
    assert code == 0, stderr
    return folder


@pytest.mark.heavy
def test_report_is_about_the_rows_of_the_table(fitted, table, undrawn, tmp_path):
    new = table[50:].assign(further=1.0)
    new.to_csv(tmp_path / "new.csv", index=False)
    page = tmp_path / "page.html"
    code, stdout, stderr = run(
        "report", fitted / "run", "--data", tmp_path / "new.csv", "--out", page, "--refits"
    )
    assert code == 0, stderr
    assert "page.html" in stdout
    assert "page.md" in stdout
    assert page.read_text().startswith("<!doctype html>")
    text = (tmp_path / "page.md").read_text()
    assert text.startswith("# grade (run)\n")
    assert "### What predictions need" in text
    model, _ = load_run(fitted / "run")
    accuracy = np.mean(model.predict(new[COLUMNS]) == new["grade"])
    assert float(re.search(r"- accuracy: (\S+)", text)[1]) == pytest.approx(accuracy, abs=5e-4)


@pytest.mark.heavy
def test_report_goes_into_the_folder_of_the_run(fitted, undrawn):
    for _ in range(2):  # the run is still one after the first time
        assert run("report", fitted / "run")[0] == 0
        assert (fitted / "run" / "report.html").is_file()
    load_run(fitted / "run")


def judged(page):
    """Return the numbers that a report has on held-out samples, and those that `fit` printed, by name."""
    found = dict(
        re.findall(r"- ([\w -]+): (\S+)\n", page.read_text().split("## Predictions")[1].split("##")[0])
    )
    return {name.replace(" ", "_"): float(value) for name, value in found.items()}


def agrees(found, run_folder):
    metrics = pd.read_csv(run_folder / "metrics.csv", index_col="metric")["value"]
    assert list(found)[1:] == list(metrics.index)
    np.testing.assert_allclose(list(found.values())[1:], metrics, atol=6e-4)


@pytest.mark.heavy
def test_report_judges_rows_that_the_model_was_not_fitted_to(fitted, table, undrawn, tmp_path):
    assert run("report", fitted / "run", "--out", tmp_path / "pages")[0] == 0
    found = judged(tmp_path / "pages" / "report.md")
    assert found["held-out_samples"] == 15
    agrees(found, fitted / "run")
    says = "35 of the 50 rows in --data are training rows. They are not judged."
    assert (
        says in run("report", fitted / "run", "--data", fitted / "data.csv", "--out", tmp_path / "pages")[1]
    )
    assert judged(tmp_path / "pages" / "report.md") == found
    assert says in (tmp_path / "pages" / "report.md").read_text()
    assert says in run("diagnose", fitted / "run", "--data", fitted / "data.csv", "--draws", 100)[1]
    held_out = pd.read_csv(fitted / "run" / "held_out.csv", float_precision="round_trip")
    both = table[:50].merge(held_out, how="left", indicator=True)
    seen = both[both.pop("_merge") == "left_only"]
    seen.to_csv(tmp_path / "seen.csv", index=False, float_format="%.14g")  # without the last digits
    _, stdout, _ = run(
        "report", fitted / "run", "--data", tmp_path / "seen.csv", "--out", tmp_path / "a.html"
    )
    assert "35 of the 35 rows" in stdout
    assert "No held-out samples were given" in (tmp_path / "a.md").read_text()


@pytest.mark.heavy
def test_times_of_tasks_that_are_text_are_held_out_as_they_were_written(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"marker": rng.normal(size=60), "site": np.array(["01", "02"])[np.arange(60) % 2]})
    rows["days"], rows["died"] = np.exp(rows["marker"] + 0.3 * rng.normal(size=60)), rng.random(60) < 0.7
    rows.to_csv(tmp_path / "data.csv", index=False)
    options = ["--target", "days", "--event", "died", "--method", "gpmkl", "--task-column", "site"]
    folder = tmp_path / "run"
    assert run("fit", tmp_path / "data.csv", *options, "--draws", 25, "--out", folder)[0] == 0
    assert run("report", folder)[0] == 0
    agrees(judged(folder / "report.md"), folder)
    (folder / "held_out.csv").unlink()  # as after --refit
    code, _, stderr = run("report", folder)
    assert code == 0, stderr


@pytest.mark.heavy
def test_fit_names_held_out_rows_that_are_copies_of_training_rows(table, tmp_path):
    pd.concat([table, table]).to_csv(tmp_path / "twice.csv", index=False)
    table.to_csv(tmp_path / "once.csv", index=False)
    options = ["--target", "grade", "--kernels-on", "all", "--max-iter", "15"]
    _, stdout, _ = run("fit", tmp_path / "twice.csv", *options, "--out", tmp_path / "run")
    held_out = pd.read_csv(tmp_path / "run" / "held_out.csv")
    n_copies = int((~held_out.duplicated(keep=False)).sum())  # of those the other row is a training row
    assert f"{n_copies} of the 42 held-out rows are copies of training rows" in stdout
    assert "copies" not in run("fit", tmp_path / "once.csv", *options, "--out", tmp_path / "other")[1]


def test_report_says_what_is_wrong_before_anything_is_computed(fitted, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    for options, message in (
        (["--out", other / "page.html"], "is in the folder of another run. Choose another folder"),
        (["--out", tmp_path / "page.pdf"], "--out must be a folder, or a page that ends in .html; got"),
        (["--out", tmp_path / "nowhere" / "page.html"], "must be in a folder that exists"),
    ):
        code, _, stderr = run("report", fitted / "run", *options)
        assert code != 0
        assert message in stderr
    assert [path.name for path in other.iterdir()] == ["config.json"]


def test_report_needs_the_target_of_new_rows(fitted, table, tmp_path):
    table[COLUMNS].to_csv(tmp_path / "new.csv", index=False)
    code, _, stderr = run("report", fitted / "run", "--data", tmp_path / "new.csv")
    assert code != 0
    assert "--data must have the target column 'grade'" in stderr


@pytest.mark.heavy
def test_demo_finds_what_is_known_and_can_be_repeated(tmp_path):
    for seed in (0, 1):
        code, stdout, _ = run("demo", "--fast", "--out", tmp_path / "demo", "--seed", seed)
        assert code == 0
    assert "Fitting 4 kernels to 95 rows" in stdout
    for word in ("Share: ", "Interval: ", "Log loss: ", "report.html"):
        assert word in stdout
    views = pd.read_csv(tmp_path / "demo" / "views.csv", index_col="view")
    assert views.index[0] == "worst"
    assert views.loc["worst", "share_lower"] > views.loc["shuffled", "share_upper"]
    metrics = pd.read_csv(tmp_path / "demo" / "metrics.csv", index_col="metric")["value"]
    assert metrics["accuracy"] > 0.9
    assert metrics["log_loss"] < 0.3
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "Views and kernels" in page
    assert json.loads((tmp_path / "demo" / "config.json").read_text())["seed"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"demo"}
