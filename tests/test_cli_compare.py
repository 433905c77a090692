"""`bayesmkl compare`: what it writes and says, and that killing it at any moment changes nothing."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from typer.testing import CliRunner

from bayesmkl.cli import app, compare_command
from bayesmkl.cli.compare_config import read_config
from bayesmkl.evaluation.comparison import Comparison

FILES = ["about.json", "cells", "config.toml", "report.html", "results.csv"]
STUDY = """
[study]
cv = {kind = "repeated-stratified", n_splits = 2, n_repeats = 2}
scoring = ["accuracy", "log_loss"]
unavailable = "nan"
inner_cv = 2

[datasets.iris]
name = "iris"
[datasets.cells]
file = "cells.csv"
target = "diagnosis"

[kernels.two]
kernels = [{type = "Gaussian", width = 2.0}, "linear"]

[models.BEMKL]
estimator = "BEMKLClassifier"
kernels = "two"
intermediate_scale = 1.0
max_iter = 5
[models.average]
estimator = "UniformMKLClassifier"
kernels = "two"
grid.C = [0.1, 1.0]
[models.SVM]
estimator = "sklearn.svm.SVC"
[models.broken]
estimator = "sklearn.svm.SVC"
C = -1.0
"""
SMALL = '[study]\ncv = 2\nscoring = "accuracy"\n[datasets.iris]\nname = "iris"\n'
N_CELLS = 2 * 4 * 4


def run(*arguments):
    """Run the command; return exit code, stdout and stderr."""
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def refused(*arguments):
    code, _, message = run(*arguments)
    assert code == 2
    assert message.startswith("error: ")
    return " ".join(message.split())


def scores_of(folder):
    """Everything but what it cost."""
    cells = Comparison.load(folder).cells
    return cells[[name for name in cells if not name.endswith(("_seconds", "_mb", "_stacks"))]]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a configuration, its data, and the run of it that nobody disturbed."""
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(80, 3)), columns=["radius", "texture", "area"])
    table["diagnosis"] = np.where(table["radius"] + 0.5 * rng.normal(size=80) > 0, "malignant", "benign")
    table.to_csv(folder / "cells.csv", index=False)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    code, stdout, stderr = run(folder / "study.toml", "--out", folder / "whole")
    assert code == 0
    (folder / "stdout.txt").write_text(stdout, encoding="utf-8")
    (folder / "stderr.txt").write_text(stderr, encoding="utf-8")
    return folder


@pytest.fixture
def no_report(monkeypatch):
    """Leave out the plots of the page, which take a second each time."""
    monkeypatch.setattr(compare_command, "write_report", lambda comparison, path: path.write_text("<html>"))


@pytest.fixture
def study(folder, tmp_path, no_report):
    """Write another configuration beside the same data."""
    shutil.copy(folder / "cells.csv", tmp_path)

    def write(text=STUDY):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        return tmp_path / "study.toml"

    return write


@pytest.mark.heavy
def test_run_is_a_complete_folder_and_says_where(folder):
    assert sorted(path.name for path in (folder / "whole").iterdir()) == FILES
    assert (folder / "whole" / "config.toml").read_text() == STUDY
    assert "<html" in (folder / "whole" / "report.html").read_text(encoding="utf-8")
    stdout = (folder / "stdout.txt").read_text(encoding="utf-8")
    assert "Tables, plots and tests: " in stdout
    assert "report.html" in stdout
    cells = Comparison.load(folder / "whole").cells
    assert len(cells) == N_CELLS
    assert not cells.duplicated(["dataset", "model", "split"]).any()
    assert list(dict.fromkeys(cells["dataset"])) == ["iris", "cells"]


def test_scores_are_those_of_scikit_learn(folder):
    X, y = load_iris(return_X_y=True)
    splits = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    expected = cross_val_score(make_pipeline(StandardScaler(), SVC()), X, y, cv=splits)
    found = Comparison.load(folder / "whole").scores("accuracy", "iris")["SVM"]
    np.testing.assert_allclose(found, expected)
    stdout = (folder / "stdout.txt").read_text(encoding="utf-8")
    accuracy, log_loss = stdout.split("log_loss")
    assert re.search(rf"SVM +(\* )?{expected.mean():.4f} ± {expected.std(ddof=1):.3f} ", accuracy)
    assert re.search(r"SVM +- +-", log_loss)  # it has no probabilities
    assert accuracy.count("* ") >= 2  # of two data sets


def test_failing_model_is_recorded_and_stops_nothing(folder):
    cells = Comparison.load(folder / "whole").cells
    broken = cells["model"] == "broken"
    assert cells.loc[broken, "error"].str.startswith("InvalidParameterError: The 'C' parameter of SVC").all()
    assert (cells.loc[~broken, "error"] == "").all()
    assert cells.loc[~broken, "accuracy"].notna().all()
    stderr = (folder / "stderr.txt").read_text(encoding="utf-8")
    assert f"note: 8 of {N_CELLS} cells failed:" in stderr
    assert "broken on iris, 4 x: InvalidParameterError" in stderr
    assert "broken  failed  failed" in " ".join((folder / "stdout.txt").read_text().split()).replace(
        " ", "  "
    )


def test_finished_run_is_not_computed_again(folder, no_report):
    before = contents(folder / "whole")
    code, stdout, _ = run(folder / "study.toml", "--out", folder / "whole")
    assert code == 0
    assert f"{N_CELLS} cells are there already" in stdout
    assert contents(folder / "whole")["results.csv"] == before["results.csv"]


def test_failed_cells_are_computed_again_when_asked(folder, no_report, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    out = tmp_path / "copy/whole"
    before = pd.read_csv(out / "results.csv")
    code, _, _ = run(tmp_path / "copy/study.toml", "--out", out, "--retry-failed")
    after, broken = pd.read_csv(out / "results.csv"), before["model"] == "broken"
    assert code == 0
    pd.testing.assert_frame_equal(after[~broken], before[~broken])
    assert after.loc[broken, "error"].tolist() == before.loc[broken, "error"].tolist()


@pytest.mark.heavy
@pytest.mark.parametrize(
    "changes",
    [{"n_repeats = 2": "n_repeats = 3"}, {"max_iter = 5": "max_iter = 6", "inner_cv = 2": "inner_cv = 3"}],
)
def test_another_study_in_the_same_folder_computes_what_is_new(folder, no_report, tmp_path, changes):
    other = folder / "other.toml"  # beside the same file of data
    text = STUDY
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    other.write_text(text, encoding="utf-8")
    shutil.copytree(folder / "whole", tmp_path / "run")
    code, _, _ = run(other, "--out", tmp_path / "run")
    assert code == 0
    code, _, _ = run(other, "--out", tmp_path / "alone")
    assert code == 0
    pd.testing.assert_frame_equal(
        scores_of(tmp_path / "run"), scores_of(tmp_path / "alone"), check_exact=True
    )


@pytest.mark.heavy
def test_changed_data_are_computed_again(study, tmp_path):
    text = STUDY.replace('[datasets.iris]\nname = "iris"\n', "").replace("n_repeats = 2", "n_repeats = 1")
    assert run(study(text), "--out", tmp_path / "run")[0] == 0
    table = pd.read_csv(tmp_path / "cells.csv")
    table["radius"] += np.arange(len(table)) % 2
    table.to_csv(tmp_path / "cells.csv", index=False)
    assert run(tmp_path / "study.toml", "--out", tmp_path / "run")[0] == 0
    assert run(tmp_path / "study.toml", "--out", tmp_path / "alone")[0] == 0
    pd.testing.assert_frame_equal(
        scores_of(tmp_path / "run"), scores_of(tmp_path / "alone"), check_exact=True
    )


def test_folders_that_are_no_run_are_refused_and_stay(study, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    assert "not the folder of a comparison" in refused(study(), "--out", tmp_path / "notes")
    assert contents(tmp_path / "notes") == {"mine.txt": b"keep"}
    assert "is a file" in refused(study(), "--out", tmp_path / "cells.csv")
    assert "folder that exists" in refused(study(), "--out", tmp_path / "absent" / "run")


def test_mistakes_are_found_before_anything_is_made(study, tmp_path):
    message = refused(study(STUDY.replace('"accuracy"', '"acuracy"')), "--out", tmp_path / "run")
    assert "study.toml: `study.scoring` names the metric 'acuracy'; did you mean" in message
    without = STUDY.replace('unavailable = "nan"', "")
    assert "-1 for one per core; got 0" in refused(study(), "--out", tmp_path / "run", "--jobs", 0)
    message = refused(study(without), "--out", tmp_path / "run")
    assert "'log_loss' needs class probabilities" in message
    assert "'average'" in message
    assert not (tmp_path / "run").exists()


def test_run_that_was_killed_in_its_first_moment_starts_again(study, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".about.json.0123abcd.part").write_text('{"form')
    config = study(SMALL + '[models.SVM]\nestimator = "sklearn.svm.SVC"\n')
    assert run(config, "--out", tmp_path / "run")[0] == 0
    assert {path.name for path in (tmp_path / "run").iterdir()} >= set(FILES)


@pytest.mark.parametrize("has_table", [True, False])
def test_run_that_was_killed_in_its_last_moment_is_completed(study, tmp_path, has_table):
    config, out = study(SMALL + '[models.SVM]\nestimator = "sklearn.svm.SVC"\n'), tmp_path / "run"
    assert run(config, "--out", out)[0] == 0
    expected = scores_of(out)
    for name in (
        ("report.html", "config.toml") if has_table else ("report.html", "config.toml", "results.csv")
    ):
        (out / name).unlink()
    assert run(config, "--out", out)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == FILES
    pd.testing.assert_frame_equal(scores_of(out), expected, check_exact=True)


def test_exit_code_says_when_everything_failed(study, tmp_path):
    config = study(SMALL + '[models."<b>[red]"]\nestimator = "sklearn.svm.SVC"\nC = -1.0\n')
    code, stdout, stderr = run(config, "--out", tmp_path / "run")
    assert code == 3
    assert "<b>[red]" in stdout
    assert "note: 2 of 2 cells failed:" in stderr
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_byte_order_mark_is_no_error_and_an_empty_name_of_a_column_is(tmp_path):
    pd.DataFrame({"a": [0.0, 1.0] * 6, "y": [0, 1] * 6}).to_csv(tmp_path / "t.csv", index=False)
    text = '[datasets.t]\nfile = "t.csv"\ntarget = "y"\n[models.m]\nestimator = "sklearn.svm.SVC"\n'
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8-sig")
    assert list(read_config(path).study.models) == ["m"]
    path.write_text(text.replace("[models", 'group = ""\n[models', 1))
    with pytest.raises(ValueError, match=r"`datasets\.t\.group` names the column ''"):
        read_config(path)
