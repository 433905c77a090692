"""Two processes, or two threads, at the same place: one of them is told, or the last one wins; nothing is mixed."""

from __future__ import annotations

import json
import threading

import numpy as np
import pandas as pd
import pytest
import two_processes_driver
from helpers import forked
from sklearn.svm import SVC
from typer.testing import CliRunner

from bayesmkl._utils.folders import held_folder
from bayesmkl.cli import app
from bayesmkl.evaluation import compare_models
from bayesmkl.evaluation.journal import held_run

pytestmark = [pytest.mark.family("two processes"), pytest.mark.heavy]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What several processes did to the same files."""
    return forked(two_processes_driver.found_in, tmp_path_factory.mktemp("shared"))


def test_models_that_two_processes_save_to_one_path_are_always_whole(found):
    *writers, reader = found["models"]["said"]
    assert writers == ["done", "done"]
    n_reads, kinds = json.loads(reader)
    known = [["linear"], ["linear", "rbf"], ["cosine", "rbf", "linear"]]
    assert n_reads >= 20
    assert all(kind in known for kind in kinds)
    assert json.loads(found["models"]["last"])[1][0] in known[1:]
    assert [name for name in found["models"]["left"] if name.startswith(("model", ".model"))] == [
        "model.skops"
    ]


def test_one_of_several_runs_becomes_a_new_folder(found):
    said = found["new"]["said"]
    assert sorted(one.partition(":")[0] for one in said) == ["done 1", "refused", "refused"]
    for refusal in (one for one in said if one.startswith("refused")):
        assert "is not empty" in refusal or "was written by another run meanwhile, which is kept" in refusal
    writer = next(k for k, one in enumerate(said) if one.startswith("done"))
    assert [json.loads(text)["writer"] for text in found["new"]["texts"]] == [writer] * 2
    assert found["new"]["left"] == ["run"]


@pytest.mark.parametrize("how", ["replaced", "slowly replaced"])
def test_runs_that_replace_each_other_leave_one_that_is_whole(found, how):
    said, texts = found[how]["said"], found[how]["texts"]
    assert all(one.startswith("done ") for one in said), said
    assert sum(int(one.split()[1]) for one in said) > 0
    assert len({json.loads(text)["writer"] for text in texts}) == 1
    assert len(texts) == 2
    assert found[how]["left"] == ["run"]


def test_a_folder_takes_one_comparison_at_a_time(found):
    said = found["comparisons"]["said"]
    refused = [one for one in said if "another run is writing to" in one]
    scores = [one for one in said if one not in refused]
    assert scores
    assert all(one == found["comparisons"]["after"] for one in scores), scores
    assert found["comparisons"]["left"] == ["about.json", "cells", "results.csv"]


def test_a_held_folder_is_refused_to_every_way_in_and_stays_as_it_was(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    pd.DataFrame(X, columns=["a", "b"]).assign(kind=y).to_csv(tmp_path / "t.csv", index=False)
    study = '[study]\ncv = 2\nscoring = "accuracy"\n[datasets.t]\nfile = "t.csv"\ntarget = "kind"\n'
    (tmp_path / "study.toml").write_text(study + '[models.svm]\nestimator = "sklearn.svm.SVC"\n')
    out = tmp_path / "run"
    compare_models({"svm": SVC()}, X, y, cv=2, scoring="accuracy", folder=out)
    before = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    commands = [
        ["compare", str(tmp_path / "study.toml"), "--out", str(out)],
    ]
    holding, release = threading.Event(), threading.Event()

    def hold():
        with held_folder(out):
            holding.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(10)
    try:
        with pytest.raises(
            ValueError, match=r"another run is writing to .*Wait for it, or choose another folder\."
        ):
            compare_models({"svm": SVC()}, X, y, cv=2, scoring="accuracy", folder=out)
        for command in commands:
            result = CliRunner().invoke(app, command)
            assert result.exit_code == 2
            assert "another run is writing to" in " ".join(result.stderr.split())
    finally:
        release.set()
        thread.join()
    assert {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    grown = compare_models({"svm": SVC(), "rough": SVC(C=0.1)}, X, y, cv=2, scoring="accuracy", folder=out)
    assert len(grown.cells) == 4  # it is free again


def test_a_run_may_hold_its_own_folder_once_more(tmp_path):
    with held_run(tmp_path / "run"):
        with held_run(tmp_path / "run"):
            (tmp_path / "run" / "file").write_text("a")
        with pytest.raises(ValueError, match="another run"):
            in_another_thread(tmp_path / "run")
    in_another_thread(tmp_path / "run")


def test_an_empty_folder_is_not_left_behind_even_where_it_was_held_twice(tmp_path):
    with held_run(tmp_path / "run"), held_run(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()


def in_another_thread(folder):
    raised = []

    def hold():
        try:
            with held_run(folder):
                pass
        except ValueError as error:
            raised.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
