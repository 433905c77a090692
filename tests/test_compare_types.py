"""Comparisons of models on tables whose columns are of any type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from bayesmkl.cli import app, compare_command
from bayesmkl.cli.compare_config import read_config
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.gp import Design, GPMKLClassifier
from bayesmkl.kernels import make_bank

DATA = '[datasets.a]\nfile = "a.csv"\ntarget = "ill"\ndrop = ["name"]\n'
TYPES = 'types = {site = "categories"}\n'
MKL = '[models.mkl]\nestimator = "UniformMKLClassifier"\n'


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(4)
    n = 60
    found = pd.DataFrame({"name": [f"p{i}" for i in range(n)], "age": rng.normal(60.0, 9.0, n)})
    found["stage"] = rng.choice(["I", "II", "III"], n)
    found["site"] = rng.choice([3, 7], n)
    found["seen"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")).astype(
        str
    )
    found["ill"] = np.where((found["stage"] == "III") | (found["age"] > 68.0), "yes", "no")
    found.loc[3, "age"], found.loc[5, "stage"] = np.nan, None
    found.to_csv(tmp_path / "a.csv", index=False)
    return found.drop(columns=["name", "ill"]), found["ill"]


@pytest.fixture
def config(tmp_path):
    def read(text):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        return read_config(tmp_path / "study.toml").study

    return read


@pytest.mark.heavy
def test_scores_are_those_of_pipelines_in_python(table, config, tmp_path, monkeypatch):
    monkeypatch.setattr(
        compare_command, "write_report", lambda comparison, path: Path(path).write_text("report")
    )
    others = '[models.neighbors]\nestimator = "sklearn.neighbors.KNeighborsClassifier"\n'
    cv = '[study]\nscoring = "accuracy"\ncv = {kind = "stratified", n_splits = 3}\n'
    config(DATA + TYPES + MKL + "C = 3.0\n" + others + cv)
    arguments = ["compare", str(tmp_path / "study.toml"), "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.stderr
    X, y = table
    made = make_bank(X, types={"site": "categories"})
    assert made.bank.views == {"numbers": ["age"], "categories": ["stage", "site"], "dates": ["seen"]}
    found = pd.read_csv(tmp_path / "run" / "results.csv").groupby("model")["accuracy"].apply(list)
    splits = StratifiedKFold(3, shuffle=True, random_state=0)
    for name, model in (
        ("mkl", UniformMKLClassifier(made.bank, C=3.0)),
        ("neighbors", KNeighborsClassifier()),
    ):
        scores = cross_val_score(make_pipeline(made.encoder, model), X, y, cv=splits)
        np.testing.assert_allclose(found[name], scores, rtol=1e-12)


def test_columns_of_a_design_are_not_encoded(table, config):
    X, _ = table
    study = config(
        DATA
        + "types = {}\n"
        + '[models.gp]\nestimator = "GPMKLClassifier"\nkernels = "types"\n'
        + 'design = {type = "Design", covariate_columns = ["site"]}\n'
    )
    encode, model = study.models["gp"].estimator
    assert isinstance(model, GPMKLClassifier)
    assert model.design == Design(covariate_columns=["site"])
    assert model.kernels.views == {"numbers": ["age"], "categories": ["stage"], "dates": ["seen"]}
    seen = encode.fit_transform(X)
    assert list(seen) == ["site", "age", "stage", "seen"]
    np.testing.assert_array_equal(seen["site"], X["site"])
    pd.testing.assert_frame_equal(
        seen.drop(columns="site"), make_bank(X.drop(columns="site")).encoder.fit_transform(X)
    )


OTHER = DATA.replace("[datasets.a]", "[datasets.b]")
WINE = '[datasets.wine]\nname = "wine"\n'
MISTAKES = {
    "no types": (DATA + MKL, "`datasets.a.file`", "Encode them, `types = {}`"),
    "no table": (DATA + "types = true\n" + MKL, "`datasets.a.types` must be a table; got True"),
    "no such column": (DATA + 'types = {sit = "categories"}\n' + MKL, "`datasets.a.types`", "'sit'"),
    "no such type": (DATA + 'types = {site = "classes"}\n' + MKL, "`datasets.a.types`", "'categories'"),
    "one of two": (DATA + TYPES + OTHER + MKL, "`datasets.b` must have `types`", "'a'"),
    "by name": (
        DATA + TYPES + WINE + "types = {}\n" + MKL,
        "`datasets.wine.types` is for data sets in files",
    ),
    "others": (DATA + TYPES + OTHER + "types = {}\n" + MKL, "`datasets.b.types` leads to", "of age, site"),
    "as they are": (DATA + TYPES + MKL + "standardize = false\n", "`models.mkl.standardize` is false"),
    "kernels": (
        WINE + MKL + 'kernels = "types"\n',
        "`models.mkl.kernels`",
        "data sets that have `types = {}`",
    ),
    "a name": (WINE + MKL + '[kernels.types]\nkernels = "paper"\n', "`kernels.types` is the name of"),
    "design": (
        DATA
        + TYPES
        + '[models.gp]\nestimator = "GPMKLClassifier"\ndesign = {type = "Design", covariate_columns = ["sit"]}\n',
        "`models.gp.design`",
        "'sit'",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(case, table, config):
    text, *parts = MISTAKES[case]
    with pytest.raises(ValueError, match=r"study\.toml: ") as caught:
        config(text)
    for part in parts:
        assert part in str(caught.value)
