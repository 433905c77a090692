"""The command `report`: a page about a run of the command line."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from cli_runner import run

from bayesmkl.cli.folders import load_run

pytestmark = pytest.mark.usefixtures("few_points")

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


def test_report_goes_into_the_folder_of_the_run(fitted, undrawn):
    assert run("report", fitted / "run")[0] == 0
    assert (fitted / "run" / "report.html").is_file()
    assert "No held-out samples were given" in (fitted / "run" / "report.md").read_text()
    assert run("report", fitted / "run")[0] == 0  # again, and the run is still one
    load_run(fitted / "run")


def test_report_says_what_is_wrong_before_anything_is_computed(fitted, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    for options, message in (
        (["--out", other / "page.html"], "is in the folder of another run. Choose another folder"),
        (["--out", tmp_path / "page.pdf"], "--out must end in .html; got"),
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
