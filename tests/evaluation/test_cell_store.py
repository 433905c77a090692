"""Folders that grow: what is new is computed, what is there is kept, merged and checked, and predictions stay."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, RepeatedStratifiedKFold
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from bayesmkl.evaluation import Comparison, compare_models, jobs, merge_comparisons
from bayesmkl.evaluation.cells import VERSION, CellStore
from bayesmkl.evaluation.journal import Journal, held_run

COSTS = ("_seconds", "_mb", "_stacks")


class Sign(ClassifierMixin, BaseEstimator):
    """Sign of a shifted feature, with a log of its fits."""

    fits: list[float] = []  # noqa: RUF012  shared by all

    def __init__(self, shift=0.0, pause=0.0):
        self.shift, self.pause = shift, pause

    def fit(self, X, y):
        Sign.fits.append(self.shift)
        time.sleep(self.pause)
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = 1.0 / (1.0 + np.exp(self.shift - X[:, 0]))
        return np.column_stack([1.0 - p, p])

    def predict(self, X):
        return self.classes_[(X[:, 0] > self.shift).astype(int)]


@pytest.fixture
def fits(monkeypatch):
    """Return the log of fits of this test; the log itself is no part of a model."""
    log = []
    run_cell = jobs.run_cell
    monkeypatch.setattr(
        jobs, "run_cell", lambda job, model, data: log.append(model) or run_cell(job, model, data)
    )
    return log


def problem(n=60):
    X = np.random.default_rng(3).normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.7 * np.random.default_rng(4).normal(size=n) > 0, "yes", "no")


def same(first, second):
    names = [name for name in first.cells if not name.endswith(COSTS)]
    pd.testing.assert_frame_equal(first.cells[names], second.cells[names], check_exact=True)


def svms(*Cs):
    return {f"C={C:g}": SVC(C=C) for C in Cs}


# ---------------------------------------------------------------------------------------------------------- growing


def test_one_more_model_beside_twenty_computes_its_cells_alone(fits, tmp_path):
    X, y = problem()
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    twenty = svms(*np.arange(1.0, 21.0))
    options = {"cv": cv, "scoring": "accuracy", "folder": tmp_path / "run"}
    compare_models(twenty, X, y, **options)
    assert len(fits) == 80
    found = compare_models(twenty | {"new": LogisticRegression()}, X, y, **options)
    assert fits[80:] == ["new"] * 4
    same(found, compare_models(twenty | {"new": LogisticRegression()}, X, y, cv=cv, scoring="accuracy"))


def test_models_metrics_data_and_repeats_come_one_by_one(fits, tmp_path):
    X, y = problem()
    grown = {
        "models": {"svm": SVC()},
        "datasets": {"a": (X, y)},
        "cv": RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=0),
        "scoring": ["accuracy"],
    }
    steps = [
        ({}, 2),
        ({"models": {"svm": SVC(), "log": LogisticRegression()}}, 2),
        ({"scoring": ["f1", "accuracy", "auc", "roc_auc"]}, 0),
        ({"datasets": {"a": (X, y), "b": (X[::2], y[::2])}}, 4),
        ({"cv": RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)}, 8),
        ({"datasets": {"b": (X[::2], y[::2]), "again": (X, y)}, "models": {"svm": SVC()}}, 0),
    ]
    for change, n_new in steps:
        grown |= change
        before = len(fits)
        found = compare_models(**grown, folder=tmp_path / "run")
        assert len(fits) - before == n_new, change
        same(found, compare_models(**grown))
        del fits[before + n_new :]
        same(Comparison.load(tmp_path / "run"), found)


def test_a_function_as_metric_has_the_model_again_and_a_named_one_has_not(fits, tmp_path):
    X, y = problem()
    options = {"cv": 2, "folder": tmp_path / "run"}
    compare_models({"svm": SVC()}, X, y, scoring="accuracy", **options)
    widths = {"supports": lambda model, X, y: float(len(model.support_))}
    found = compare_models({"svm": SVC()}, X, y, scoring=widths, **options)
    assert len(fits) == 4
    assert (found.scores("supports") > 0).all(axis=None)
    again = compare_models({"svm": SVC()}, X, y, scoring=["accuracy", "mcc"], **options)
    assert len(fits) == 4
    same(again, compare_models({"svm": SVC()}, X, y, scoring=["accuracy", "mcc"], cv=2))


def test_models_that_failed_stay_failed_and_are_not_tried_for_a_metric(fits, tmp_path):
    X, y = problem()
    options = {"cv": 2, "folder": tmp_path / "run"}
    with pytest.warns(UserWarning, match="2 of 2 cells failed"):
        compare_models({"bad": SVC(C=-1.0)}, X, y, scoring="accuracy", **options)
    with pytest.warns(UserWarning, match="2 of 2 cells failed"):
        found = compare_models({"bad": SVC(C=-1.0)}, X, y, scoring="f1", **options)
    assert len(fits) == 2
    assert found.scores("f1").isna().all(axis=None)


def test_a_finished_folder_that_may_not_be_written_to_is_read(tmp_path, monkeypatch):
    X, y = problem()
    options = {"cv": 2, "scoring": "accuracy", "folder": tmp_path / "run"}
    found = compare_models({"svm": SVC()}, X, y, **options)

    write = Path.write_text

    def refused(path, *args, **options):
        if tmp_path in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return write(path, *args, **options)

    monkeypatch.setattr(Path, "write_text", refused)
    same(compare_models({"svm": SVC()}, X, y, **options), found)
    with pytest.raises(OSError, match=r"could not be written: Permission denied\. Nothing was changed"):
        compare_models({"svm": SVC(C=2.0)}, X, y, **options)
    monkeypatch.undo()
    same(compare_models({"svm": SVC()}, X, y, **options), found)


def test_a_file_system_that_is_read_only_is_named(tmp_path, monkeypatch):
    """There even the removal of what is not there is an error, which hides the first one."""
    X, y = problem()
    options = {"X": X, "y": y, "cv": 2, "scoring": "accuracy"}
    found = compare_models({"svm": SVC()}, **options, folder=tmp_path / "run")

    def refused(path, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    said = r"could not be written: Read-only file system\. Nothing was changed\. Choose a folder that you"
    with monkeypatch.context() as read_only:
        for name in ("unlink", "mkdir", "write_text"):
            read_only.setattr(Path, name, refused)
        with pytest.raises(OSError, match=rf"`folder`: '.*new' {said}"):
            compare_models({"svm": SVC()}, **options, folder=tmp_path / "new")
        with pytest.raises(OSError, match=rf"`path`: '.*page\.html' {said}"):
            found.to_html(tmp_path / "page.html")
        read_only.undo()
        read_only.setattr(Path, "unlink", refused)
        with pytest.raises(OSError, match=rf"`folder`: '.*run' {said}"):
            compare_models({"svm": SVC(C=2.0)}, **options, folder=tmp_path / "run")
    same(compare_models({"svm": SVC()}, **options, folder=tmp_path / "run"), found)


# ---------------------------------------------------------------------------------------------------------- merging


def test_merging_two_folders_is_one_call_with_both(fits, tmp_path):
    X, y = problem()
    options = {"datasets": {"a": (X, y)}, "cv": 3, "scoring": ["accuracy", "auc"]}
    compare_models(svms(1, 2), **options, folder=tmp_path / "first")
    both = options["datasets"] | {"b": (X[::2], y[::2])}
    compare_models(svms(2, 3), **(options | {"datasets": both}), folder=tmp_path / "second")
    whole = compare_models(svms(1, 2, 3), **(options | {"datasets": both}))
    n_fits = len(fits)
    merged = merge_comparisons([tmp_path / "first", str(tmp_path / "second")], tmp_path / "both")
    assert len(merged.cells) == 9 + 6  # the first model has not seen the second set
    key = ["dataset", "model", "split"]
    names = [name for name in whole.cells if not name.endswith(COSTS)]
    columns = [merged.cells[names].merge(whole.cells[key]), whole.cells[names].merge(merged.cells[key])]
    first, second = (one.sort_values(key, ignore_index=True) for one in columns)
    assert len(first) == 15
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    same(Comparison.load(tmp_path / "both"), merged)
    found = compare_models(svms(1, 2, 3), **(options | {"datasets": both}), folder=tmp_path / "both")
    assert len(fits) == n_fits + 3
    same(found, whole)


def test_merging_repeats_adds_splits_by_their_rows(tmp_path):
    X, y = problem()
    parts = [np.arange(60) % 3 == k for k in range(3)]
    pairs = [(~part, part) for part in parts]
    options = {"models": svms(1), "X": X, "y": y, "scoring": "accuracy"}
    for name, chosen in (("a", pairs[:2]), ("b", pairs[2:]), ("c", pairs[:1])):
        compare_models(**options, cv=chosen, folder=tmp_path / name)
    merged = merge_comparisons([tmp_path / name for name in "abc"], tmp_path / "all")
    assert merged.cells["split"].tolist() == [0, 1, 2]
    whole = compare_models(**options, cv=pairs)
    assert merged.scores().equals(whole.scores())
    names = [name for name in merged.cells if not name.endswith((*COSTS, "seed"))]  # which go by the place
    pd.testing.assert_frame_equal(merged.cells[names], whole.cells[names], check_exact=True)


def test_merging_keeps_splits_that_are_there_several_times(tmp_path):
    """The same rows with other seeds show what is due to the seed; folders have them in the same order."""
    X, y = problem()
    trees = {f"{depth}": DecisionTreeClassifier(max_depth=depth, max_features=1) for depth in (1, 2)}
    fold, other = (range(30), range(30, 60)), (range(30, 60), range(30))
    options = {"X": X, "y": y, "scoring": "accuracy"}
    for name, cv in (("1", [fold] * 4), ("2", [fold, fold, other, fold, fold])):
        compare_models({name: trees[name]}, **options, cv=cv, folder=tmp_path / name)
    merged = merge_comparisons([tmp_path / "1", tmp_path / "2"], tmp_path / "both")
    alone = [Comparison.load(tmp_path / name).scores() for name in "12"]
    assert alone[0].nunique()["1"] > 1
    assert merged.scores()["1"].dropna().tolist() == alone[0]["1"].tolist()
    assert sorted(merged.scores()["2"]) == sorted(alone[1]["2"])
    assert Comparison.load(tmp_path / "both").scores().equals(merged.scores())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"models": {"svm": SVC(C=3.0)}}, "model 'svm' on 'data' is another one"),
        ({"random_state": 1, "cv": [(range(30), range(30, 60))] * 1}, "model 'svm' on 'data' is another one"),
        ({"y": problem()[1][::-1]}, "data set 'data' is another one"),
        ({"scoring": {"accuracy": lambda model, X, y: 0.5}}, "metric 'accuracy' is another one"),
    ],
)
def test_names_that_mean_two_things_are_not_merged(tmp_path, change, what):
    X, y = problem()
    options = {
        "models": {"svm": SVC()},
        "X": X,
        "y": y,
        "scoring": "accuracy",
        "cv": [(range(30), range(30, 60))],
    }
    compare_models(**options, folder=tmp_path / "first")
    compare_models(**(options | change), folder=tmp_path / "second")
    with pytest.raises(ValueError, match=rf"`folders`: {what} in .*second.*Nothing was written"):
        merge_comparisons([tmp_path / "first", tmp_path / "second"], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_data_are_the_same_for_merging_as_for_computing(fits, tmp_path):
    """Groups decide splits and grids, not what a model is fitted to."""
    X, y = problem()
    groups = np.arange(60) // 2
    pairs = list(GroupKFold(3).split(X, y, groups))
    common = {"scoring": "accuracy", "X": X, "y": y}
    first = compare_models(svms(1), **common, cv=pairs, folder=tmp_path / "first")
    second = compare_models(svms(2), **common, cv=GroupKFold(3), groups=groups, folder=tmp_path / "second")
    both = merge_comparisons([tmp_path / "first", tmp_path / "second"], tmp_path / "both")
    assert both.scores().equals(first.scores().join(second.scores()))
    n_fits = len(fits)
    compare_models(svms(1), **common, cv=GroupKFold(3), groups=groups, folder=tmp_path / "first")
    assert len(fits) == n_fits
    weighted = compare_models(
        svms(2), **common, cv=pairs, sample_weight=1.0 + groups, folder=tmp_path / "third"
    )
    assert len(fits) == n_fits + len(weighted.cells)
    with pytest.raises(ValueError, match="data set 'data' is another one"):
        merge_comparisons([tmp_path / "first", tmp_path / "third"], tmp_path / "none")


def test_nothing_is_written_of_folders_that_lack_cells(tmp_path):
    """A folder without the cells of its table would be merged as if its models had not been compared."""
    X, y = problem()
    for name in ("a", "b"):
        compare_models({name: SVC()}, X, y, cv=2, scoring="accuracy", folder=tmp_path / name)
    first = min((tmp_path / "b" / "cells").glob("*.json"))
    kept = first.read_text()
    first.write_text("{}")
    folders = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(ValueError, match=r"`folders`: 1 cells in .*b' were cut short or edited"):
        merge_comparisons(folders, tmp_path / "both")
    first.unlink()
    with pytest.raises(
        ValueError, match=r"`folders`: 1 cells of .*b', the first being 'b' on 'data'.*whole folder"
    ):
        merge_comparisons(folders, tmp_path / "both")
    shutil.rmtree(tmp_path / "a" / "cells")
    with pytest.raises(
        ValueError, match=r"`folders`: 2 cells of .*a', the first being 'a' on 'data', split 0"
    ):
        merge_comparisons(folders, tmp_path / "both")
    assert not (tmp_path / "both").exists()
    first.write_text(kept)
    compare_models({"a": SVC()}, X, y, cv=2, scoring="accuracy", folder=tmp_path / "a")
    assert len(merge_comparisons(folders, tmp_path / "both").cells) == 4


def test_cells_that_cannot_be_told_apart_are_not_merged(tmp_path):
    class Locked(SVC):
        def fit(self, X, y):
            self.lock_ = lock.locked()
            return super().fit(X, y)

    lock = threading.Lock()
    for name in ("a", "b"):
        compare_models({"locked": Locked()}, *problem(), cv=2, scoring="accuracy").save(tmp_path / name)
    with pytest.raises(
        ValueError, match=r"`folders`: .*cannot be told from others.*Compare again with `keys`"
    ):
        merge_comparisons([tmp_path / "a", tmp_path / "b"], tmp_path / "both")


def test_bad_input_to_merging_is_named(tmp_path):
    compare_models({"svm": SVC()}, *problem(), cv=2, scoring="accuracy", folder=tmp_path / "run")
    with pytest.raises(ValueError, match="`folders` must list folders"):
        merge_comparisons(str(tmp_path / "run"), tmp_path / "both")
    with pytest.raises(ValueError, match="is not the folder of a comparison"):
        merge_comparisons([tmp_path / "run", tmp_path], tmp_path / "both")
    with pytest.raises(ValueError, match="`folder` must be new or empty"):
        merge_comparisons([tmp_path / "run"], tmp_path)
    with pytest.raises(TypeError, match="`folders` must be a str or a path"):
        merge_comparisons([3], tmp_path / "both")


# ---------------------------------------------------------------------------------------------------- damaged cells


@pytest.mark.parametrize("way", ["cut", "edited", "other name", "empty"])
def test_cells_that_are_not_what_was_written_are_computed_again(fits, tmp_path, way):
    X, y = problem()
    options = {"cv": 3, "scoring": "accuracy", "folder": tmp_path / "run"}
    found = compare_models(svms(1), X, y, **options)
    first, second, _ = sorted((tmp_path / "run" / "cells").glob("*.json"))
    text = first.read_text()
    if way == "edited":
        score = next(iter(json.loads(text)["scores"].values()))
        text = text.replace(f": {score}", ": 1.0", 1)
        assert text != first.read_text()
    first.write_text({"cut": text[:200], "edited": text, "other name": second.read_text(), "empty": ""}[way])
    with pytest.warns(
        UserWarning, match=rf"1 cells in .*, the first being {first.stem} .* they are left out"
    ):
        assert len(Comparison.load(tmp_path / "run").cells) == 2
    n_fits = len(fits)
    with pytest.warns(UserWarning, match=r"1 cells in .*were cut short or edited.*computed again") as caught:
        again = compare_models(svms(1), X, y, **options)
    assert (len(fits) - n_fits, len(caught)) == (1, 1)
    same(again, found)
    same(Comparison.load(tmp_path / "run"), found)


def test_cells_of_a_newer_layout_are_refused_and_stay(tmp_path):
    X, y = problem()
    compare_models(svms(1), X, y, cv=2, scoring="accuracy", folder=tmp_path / "run")
    path = next((tmp_path / "run" / "cells").glob("*.json"))
    text = json.dumps(json.loads(path.read_text()) | {"version": VERSION + 1})
    path.write_text(text)
    for work in (
        lambda: compare_models(svms(1), X, y, cv=2, scoring="accuracy", folder=tmp_path / "run"),
        lambda: Comparison.load(tmp_path / "run"),
    ):
        with pytest.raises(
            ValueError, match=rf"{path.name}' was written by a newer bayesmkl in a newer layout"
        ):
            work()
    assert path.read_text() == text


@pytest.mark.parametrize("way", ["cut", "edited", "gone", "no archive"])
def test_predictions_that_are_not_what_was_written_are_not_used(fits, tmp_path, way):
    X, y = problem()
    options = {"cv": 2, "folder": tmp_path / "run"}
    compare_models(svms(1), X, y, scoring="accuracy", **options)
    path = sorted((tmp_path / "run" / "cells").glob("*.npz"))[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"cut": content[:100], "no archive": b"PK"}.get(way, bytes(content)))
    if way == "gone":
        path.unlink()
    kept = Comparison.load(tmp_path / "run")
    with pytest.raises(ValueError, match=rf"`predictions`: .*{path.name}' is (gone|not what was written)"):
        kept.predictions()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = compare_models(svms(1), X, y, scoring="accuracy", **options)
        assert len(fits) == 2 + (way != "gone")  # which may be on purpose, where a folder is shared
        found = compare_models(svms(1), X, y, scoring=["accuracy", "f1"], **options)
    assert len(fits) == 3  # that one again
    whole = compare_models(svms(1), X, y, scoring=["accuracy", "f1"], cv=2)
    same(found, whole)
    pd.testing.assert_frame_equal(found.predictions(), whole.predictions(), check_exact=True)
    pd.testing.assert_frame_equal(again.predictions(), whole.predictions(), check_exact=True)


# ------------------------------------------------------------------------------------------------------------ kills


def killed(folder, rng, n_kills):
    """Kill a growing comparison at random moments; return how many finished cells were lost, and what is there."""
    X, y = problem()
    models = {f"s{k}": Sign(0.1 * k, pause=0.002) for k in range(5)}
    options = {"cv": 3, "scoring": ["accuracy", "log_loss"]}
    kept, lost = {}, 0
    for _ in range(n_kills):
        pid = os.fork()
        if not pid:
            try:
                some = dict(rng.sample(sorted(models.items()), 3))
                compare_models(some, X, y, folder=folder, **options)
            finally:
                os._exit(0)
        enough, ended = len(kept) + rng.randint(0, 3), False
        while len(list(folder.glob("cells/*.json"))) < enough and not ended:
            time.sleep(0.001)
            ended = bool(os.waitpid(pid, os.WNOHANG)[0])  # it has nothing left to do
        time.sleep(rng.uniform(0.0, 0.02))
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        rng.random()  # the child has drawn from a copy
        now = {path.name: path.read_bytes() for path in folder.glob("cells/*.json")}
        lost += sum(now.get(name) != text for name, text in kept.items())
        kept = now
    found = compare_models(models, X, y, folder=folder, **options)
    lost += sum((folder / "cells" / name).read_bytes() != text for name, text in kept.items())
    same(found, compare_models(models, X, y, **options))
    return lost, len(kept), sorted(path.name for path in folder.iterdir()), Journal(folder).store.damaged


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("n_kills", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_lose_no_finished_cell(tmp_path, n_kills):
    lost, n_kept, names, damaged = killed(tmp_path / "run", random.Random(n_kills), n_kills)
    assert (lost, damaged) == (0, {})
    assert n_kept > 0
    assert names == ["about.json", "cells", "results.csv"]
    assert not [
        path for path in (tmp_path / "run" / "cells").iterdir() if path.suffix not in (".json", ".npz")
    ]


def test_the_files_of_a_folder_may_be_copied_and_cells_left_out(tmp_path):
    X, y = problem()
    found = compare_models(svms(1, 2), X, y, cv=2, scoring="accuracy", folder=tmp_path / "run")
    for path in (tmp_path / "run" / "cells").glob("*.npz"):
        path.unlink()
    shutil.copytree(tmp_path / "run", tmp_path / "shared")
    same(Comparison.load(tmp_path / "shared"), found)
    shutil.rmtree(tmp_path / "shared" / "cells")
    same(Comparison.load(tmp_path / "shared"), found)


def test_a_file_in_the_place_of_the_cells_is_named(tmp_path):
    (tmp_path / "cells").write_text("no folder")
    place = CellStore(tmp_path).begun("abc")
    with (
        pytest.raises(ValueError, match="must be a folder, that of the cells of a comparison; it is a file"),
        place,
    ):
        raise AssertionError


def test_what_killed_workers_were_writing_is_removed_with_the_end_of_the_run(tmp_path):
    """A signal to the group ends workers at once, and only the process that holds the folder can tidy up."""
    cells = tmp_path / "run" / "cells"
    unfinished = cells / ".0a.json.0123abcd.part"
    with held_run(tmp_path / "run"):
        cells.mkdir()
        (cells / "0a.json").write_text("{}")
        unfinished.write_text("{")
        (cells / ".of-somebody.part").write_text("")
    assert sorted(path.name for path in cells.iterdir()) == [".of-somebody.part", "0a.json"]
