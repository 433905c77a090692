"""Columns of any type on the command line, and dry runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from matplotlib.figure import Figure

from bayesmkl import load_model
from bayesmkl.kernels import make_bank

FIT = ["--target", "ill", "--max-iter", 20, "--kernels-on", "types", "--drop", "name"]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: Path(path).write_bytes(b"\x89PNG"))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    n = 60
    found = pd.DataFrame({"name": [f"p{i}" for i in range(n)], "age": rng.normal(60.0, 9.0, n)})
    found["stage"] = rng.choice(["I", "II", "III"], n)
    found["site"] = rng.choice([3, 7], n)
    found["smoker"] = rng.random(n) < 0.5
    found["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    found["ill"] = np.where((found["stage"] == "III") | (found["age"] > 68.0), "yes", "no")
    found.loc[3, "age"] = np.nan
    found.loc[5, "stage"] = None
    return found


def write(table, path):
    table.to_csv(path, index=False)
    return path


@pytest.mark.heavy
def test_types_are_those_of_python(table, tmp_path):
    data = write(table, tmp_path / "data.csv")
    code, stdout, stderr = run("fit", data, "--out", tmp_path / "run", *FIT, "--category", "site")
    assert code == 0, stderr
    assert "60 rows, 5 columns to predict 'ill' from" in stdout
    model = load_model(tmp_path / "run" / "model.skops")
    made = make_bank(table.drop(columns=["name", "ill"]), types={"site": "categories"})
    assert made.bank.views == {
        "numbers": ["age"],
        "categories": ["stage", "site", "smoker"],
        "dates": ["seen"],
    }
    assert model[-1].kernels.views == made.bank.views
    assert json.loads((tmp_path / "run" / "config.json").read_text())["category"] == ["site"]

    new = table.drop(columns=["ill"])
    new.loc[0, "stage"], new.loc[1, "site"] = "IV", 9  # which no sample of training has
    new = new.astype({"smoker": object})
    new.loc[7, ["age", "smoker"]] = None
    code, _, stderr = run(
        "predict", tmp_path / "run", write(new, tmp_path / "new.csv"), "--out", tmp_path / "p.csv"
    )
    assert code == 0, stderr
    found = pd.read_csv(tmp_path / "p.csv")
    seen = pd.read_csv(tmp_path / "new.csv").drop(columns=["name"])
    np.testing.assert_allclose(found["probability_yes"], model.predict_proba(seen)[:, 1], rtol=1e-12)
    assert np.mean(found["prediction"] == table["ill"]) > 0.8
    for absent in ("", "NA"):  # fit reads both as missing
        new.loc[::2, "stage"] = absent
        data = write(new, tmp_path / "new.csv")
        assert run("predict", tmp_path / "run", data, "--out", tmp_path / f"{absent}.csv")[0] == 0
    assert (tmp_path / ".csv").read_text() == (tmp_path / "NA.csv").read_text()

    known = table.drop(columns=["ill"])
    smoker, site = known["smoker"], "0" + known["site"].astype(str)
    spelled = known.assign(
        smoker=smoker.map({True: " TRUE", False: "0"}), stage=known["stage"].str.lower(), site=site
    )
    for new in (
        spelled,
        spelled.assign(smoker=smoker.astype(int)),
        known.assign(smoker=smoker.map({True: "T"})),
    ):
        path, out = write(new, tmp_path / "new.csv"), tmp_path / f"{new['smoker'][0]}.csv"
        code, _, stderr = run("predict", tmp_path / "run", path, "--out", out)
        if "T" not in new["smoker"].tolist():
            assert code == 0, stderr
            right = model.predict_proba(known)[:, 1]
            np.testing.assert_allclose(pd.read_csv(out)["probability_yes"], right, rtol=1e-12)
    assert (code, out.exists()) == (2, False)
    assert (
        "column 'smoker' must hold categories of training, ['False', 'True']; got none of them, but ['T']"
        in stderr
    )


@pytest.mark.heavy
def test_dry_runs(table, tmp_path):
    data = write(table, tmp_path / "data.csv")
    code, stdout, stderr = run("fit", data, *FIT, "--dry-run")
    assert code == 0, stderr
    assert "numbers: auto of age, site categories: Overlap() of stage, smoker dates: auto of seen" in stdout
    assert "9 kernels of 42 rows: " in stdout
    assert "Nothing was written." in stdout
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}
    numbers = table[["age", "site", "ill"]].fillna(60.0)
    many = write(pd.concat([numbers] * 4).assign(age=np.arange(240.0)), tmp_path / "many.csv")
    options = ["--target", "ill", "--kernels-on", "each", "--max-iter", 5, "--dry-run"]
    code, stdout, stderr = run("fit", many, *options)
    assert code == 0, stderr
    assert "8 kernels of 168 rows: 1.8 MB" in stdout
    assert " at most. Nothing was written." in stdout.replace("\n", " ")
    code, stdout, _ = run("fit", many, *options, "--inference", "gibbs")
    assert code == 0
    assert "How long chains take is not known before" in stdout


REFUSED = {
    "no folder": (["--kernels-on", "all"], "--out must name the folder"),
    "a category alone": (["--category", "site", "--dry-run"], "--category is of --kernels-on types"),
    "no such column": (["--kernels-on", "types", "--category", "sit", "--dry-run"], "did you mean 'site'"),
    "kernels": (
        ["--kernels-on", "types", "--kernels", "numbers=linear", "--dry-run"],
        "got --kernels as well",
    ),
    "text": (["--kernels-on", "all", "--dry-run"], "fit with --kernels-on types"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case, table, tmp_path):
    options, message = REFUSED[case]
    code, _, stderr = run(
        "fit", write(table, tmp_path / "data.csv"), "--target", "ill", "--drop", "name", *options
    )
    assert code == 2
    assert message in " ".join(stderr.split())
