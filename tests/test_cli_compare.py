"""The command `compare`: scores are those of scikit-learn, a run continues, and mistakes are named with their key."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import KernelBank
from bayesmkl.cli.comparing import read_config
from bayesmkl.discriminative import SimpleMKLClassifier
from bayesmkl.evaluation.comparison import Comparison

FILES = ["about.json", "cells", "config.toml", "report.html", "results.csv"]
STUDY = """
[study]
cv = 3
scoring = ["accuracy", "log_loss"]
unavailable = "nan"
inner_cv = 2

[datasets.iris]
name = "iris"
[datasets.cells]
file = "cells.csv"
target = "diagnosis"
drop = ["id"]

[models.average]
estimator = "UniformMKLClassifier"
kernels = {kernels = ["rbf", "linear"]}
grid.C = [0.1, 1.0]
[models.BEMKL]
estimator = "BEMKLClassifier"
kernels = "linear"
max_iter = 5
[models.SVM]
estimator = "sklearn.svm.SVC"
[models.broken]
estimator = "sklearn.svm.SVC"
C = -1.0
"""
SVM = '[models.SVM]\nestimator = "sklearn.svm.SVC"\n'
CELLS = '[datasets.cells]\nfile = "cells.csv"\ntarget = "diagnosis"\ndrop = ["id"]\n'
IRIS = '[datasets.iris]\nname = "iris"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data, and with a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["radius", "texture", "area"])
    table["id"], table["patient"] = [f"cell {i}" for i in range(60)], np.arange(60) // 3
    table["diagnosis"] = np.where(table["radius"] + 0.5 * rng.normal(size=60) > 0, "malignant", "benign")
    table["days"], table["died"] = np.exp(table["radius"]), np.arange(60) % 3 > 0
    table[["radius", "texture", "area", "id", "diagnosis"]].to_csv(folder / "cells.csv", index=False)
    table.to_csv(folder / "all.csv", index=False)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    code, stdout, stderr = run("compare", folder / "study.toml", "--out", folder / "whole")
    assert code == 0, stderr
    (folder / "said.txt").write_text(stdout + stderr, encoding="utf-8")
    return folder


@pytest.fixture
def config(folder):
    """Read a configuration beside the data."""

    def read(text):
        (folder / "other.toml").write_text(text, encoding="utf-8")
        return read_config(folder / "other.toml")

    return read


def test_a_run_is_a_complete_folder_with_the_scores_of_scikit_learn(folder):
    whole, said = folder / "whole", (folder / "said.txt").read_text(encoding="utf-8")
    assert sorted(path.name for path in whole.iterdir()) == FILES
    assert (whole / "config.toml").read_text() == STUDY
    assert "<html" in (whole / "report.html").read_text(encoding="utf-8")
    X, y = load_iris(return_X_y=True)
    splits = StratifiedKFold(3, shuffle=True, random_state=0)
    expected = cross_val_score(make_pipeline(StandardScaler(), SVC()), X, y, cv=splits)
    np.testing.assert_allclose(Comparison.load(whole).scores("accuracy", "iris")["SVM"], expected)
    assert f"iris SVM {expected.mean():.3g} {expected.std(ddof=1):.3g} 0" in said


def test_a_failing_model_is_recorded_and_stops_nothing(folder):
    cells, said = Comparison.load(folder / "whole").cells, (folder / "said.txt").read_text(encoding="utf-8")
    broken = cells["model"] == "broken"
    assert cells.loc[broken, "error"].str.startswith("InvalidParameterError: The 'C' parameter of SVC").all()
    assert cells.loc[~broken, "accuracy"].notna().all()
    assert "note: 6 of 24 cells failed, the first with model 'broken'" in said
    assert "iris broken nan nan 3" in said


def test_a_finished_run_is_continued(folder):
    before = (folder / "whole" / "results.csv").read_bytes()
    code, stdout, _ = run("compare", folder / "study.toml", "--out", folder / "whole")
    assert code == 0
    assert "24 cells are already finished" in stdout
    assert (folder / "whole" / "results.csv").read_bytes() == before
    more = folder / "more.toml"
    more.write_text(
        STUDY.replace("[models.SVM]", "[models.more]\nestimator = 'sklearn.svm.SVC'\n[models.SVM]")
    )
    assert run("compare", more, "--out", folder / "whole", "--retry-failed")[0] == 0
    assert len(Comparison.load(folder / "whole").cells) == 30
    run("compare", folder / "study.toml", "--out", folder / "whole")


def test_the_exit_code_says_when_everything_failed(folder, tmp_path):
    (folder / "bad.toml").write_text(
        IRIS + '[study]\ncv = 2\n[models."<b>[red]"]\nestimator = "sklearn.svm.SVC"\nC = -1'
    )
    code, stdout, _ = run("compare", folder / "bad.toml", "--out", tmp_path / "run")
    assert code == 3
    assert "<b>[red]" in stdout


def test_folders_that_are_no_run_are_refused_and_stay(folder, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    for out, message in (
        (tmp_path, "not the folder of a comparison"),
        (tmp_path / "mine.txt", "is a file"),
        (tmp_path / "absent" / "run", "folder that exists"),
    ):
        code, _, stderr = run("compare", folder / "study.toml", "--out", out)
        assert code == 2
        assert message in stderr
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_models_and_kernels_are_those_of_python(config):
    text = IRIS + '[models.x]\nestimator = "SimpleMKLClassifier"\nC = 2.0\nstandardize = false\n'
    assert repr(config(text)["models"]["x"]) == repr(SimpleMKLClassifier(C=2.0))
    views = (
        'kernels = {kernels = {a = "rbf", b = ["linear"]}, views = {a = [0, 1], b = [2]}}\ngrid.C = [1, 2]\n'
    )
    model, grid = config(text + views)["models"]["x"]
    bank = KernelBank({"a": "rbf", "b": ["linear"]}, views={"a": [0, 1], "b": [2]})
    assert repr(model.kernels) == repr(bank)
    assert grid == {"C": [1, 2]}
    standardized, _ = config(text.replace("standardize = false", "grid.kernels = ['auto', 'paper']"))[
        "models"
    ]["x"]
    assert isinstance(standardized[0], StandardScaler)


def test_columns_of_a_file(folder, config):
    table = pd.read_csv(folder / "all.csv")
    cells = CELLS.replace("cells.csv", "all.csv").replace('["id"]', '["id", "days", "died"]')
    X, y = config(cells + SVM)["datasets"]["cells"]
    assert list(X.columns) == ["radius", "texture", "area", "patient"]
    assert y.tolist() == table["diagnosis"].tolist()


MISTAKES = {
    "no TOML": ("[study\n", "this is not valid TOML"),
    "table": (IRIS + SVM + "[model.x]\n", "`model` is not a key of a comparison", "did you mean 'models'?"),
    "no models": (IRIS, "`models` holds nothing to compare"),
    "study key": (IRIS + SVM + "[study]\nscorng = 3", "`study.scorng`", "did you mean 'scoring'?"),
    "data name": (SVM + '[datasets.x]\nname = "irs"', "`datasets.x.name`", "iris"),
    "name and file": (SVM + IRIS + 'file = "cells.csv"', "`datasets.iris` must have either `name`"),
    "no file": (SVM + CELLS.replace("cells.csv", "cels.csv"), "`datasets.cells.file`", "there is no file"),
    "target": (SVM + CELLS.replace("diagnosis", "diagnoses"), "`target` names the column", "'diagnosis'"),
    "group": (SVM + CELLS + 'group = "patient"', "`datasets.cells.group` is not a key of a data set"),
    "text": (SVM + CELLS.replace('["id"]', "[]"), "column 'id' holds no numbers"),
    "estimator": (IRIS + '[models.x]\nestimator = "SimplMKLClassifier"', "'SimpleMKLClassifier'"),
    "foreign": (IRIS + '[models.x]\nestimator = "os.system"', "`models.x.estimator` is 'os.system'"),
    "parameter": (IRIS + SVM + "gama = 1.0", "`models.SVM.gama`", "did you mean 'gamma'?"),
    "object": (
        IRIS + '[models.x]\nestimator = "BEMKLClassifier"\nkernel_prior = {type = "Dirichlet"}',
        "`models.x.kernel_prior` holds a table",
        "use `compare_models` in Python",
    ),
    "grid": (IRIS + SVM + "grid = {c = [1.0]}", "`models.SVM.grid.c`", "did you mean 'C'?"),
    "kernel": (
        CELLS + '[models.x]\nestimator = "EasyMKLClassifier"\nkernels = {kernels = ["rbff"]}',
        "`models.x.kernels`",
        "'rbff'",
    ),
    "view": (
        CELLS + '[models.x]\nestimator = "EasyMKLClassifier"\nkernels = {views = {a = ["radus"]}}',
        "data set 'cells'",
        "'radus'",
    ),
    "two tasks": (IRIS + SVM + '[models.y]\nestimator = "sklearn.svm.SVR"', "must be for one task"),
    "quantity": (SVM + '[datasets.x]\nname = "diabetes"', "`datasets.x` is for regression"),
    "times": (CELLS + '[models.y]\nestimator = "GPMKLSurvival"', "`datasets.cells.file`", "in Python"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named_with_file_key_and_remedy(case, config, folder):
    text, *parts = MISTAKES[case]
    with pytest.raises((ValueError, OSError)) as caught:
        config(text)
    message = str(caught.value)
    assert message.startswith(str(folder / "other.toml"))
    assert not [part for part in parts if part not in message], message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({'"accuracy"': '"acuracy"'}, "unknown metric 'acuracy'"),
        ({'unavailable = "nan"': ""}, "'log_loss' needs class probabilities"),
        ({"inner_cv = 2": "inner_cv = 1"}, "`inner_cv` must be at least 2 folds"),
    ],
)
def test_mistakes_are_found_before_anything_is_made(change, message, folder, tmp_path):
    text = STUDY
    for old, new in change.items():
        text = text.replace(old, new)
    (folder / "wrong.toml").write_text(text)
    code, _, stderr = run("compare", folder / "wrong.toml", "--out", tmp_path / "run")
    assert code == 2
    assert message in stderr
    assert not (tmp_path / "run").exists()
    assert "no configuration file" in run("compare", folder / "no.toml", "--out", tmp_path / "run")[2]
