"""Tables of the papers run through one frame; nothing in them is empty or without its source."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from typer.testing import CliRunner

from bayesmkl.cli import app
from bayesmkl.cli.reproduce_command import part_of
from bayesmkl.datasets import load_iris
from bayesmkl.evaluation import compare_models, merge_comparisons
from bayesmkl.evaluation.study import Data, DataRef, ModelSpec, Study, fetched
from bayesmkl.reproduction import paper_tables
from bayesmkl.reproduction import run as module
from bayesmkl.reproduction.printing import PROVENANCE, as_text, check_printed, markdown, provenance
from bayesmkl.reproduction.run import read_reproduction, reproduce
from bayesmkl.reproduction.standins import synthetic_features
from bayesmkl.reproduction.tables import (
    Entry,
    Fetched,
    MissingData,
    PaperSet,
    PaperTable,
    Printed,
    Published,
    Setting,
    Sizes,
    UserData,
    references,
)
from bayesmkl.reproduction.transductive import TransductiveSearch

TABLES = (
    *(f"bemkl-table{k}" for k in range(1, 6)),
    *("samkl-table1", "samkl-table2", "samkl-synthetic"),
    *(f"localized-table{k}" for k in (2, 3, 4)),
    *("obmkl-table2", "obmkl-table3", "obmkl-table4", "obmkl-figure1", "obmkl-figure2"),
    *("primalmkl-table1", "primalmkl-table2"),
    *("lapmkl-table3", "lapmkl-table3-search", "lapmkl-table4", "lapmkl-figure3c"),
)
SETS = (
    PaperSet("iris", Fetched("iris"), Sizes(150, 4, n_classes=3)),
    PaperSet("flowers", UserData("flowers", "The authors have them.", "features"), Sizes(90, 5)),
)
ENTRIES = (
    Entry("iris", "constant", "accuracy", Published(33.3, 0.5), 100.0),
    Entry("iris", "neighbors", "accuracy", None, 100.0, "three neighbors"),
    Entry("flowers", "constant", "accuracy", Published(50.0), 100.0),
    Entry("flowers", "neighbors", "accuracy", None, 100.0, "three neighbors"),
)


class Failing(DummyClassifier):
    def fit(self, X, y):
        raise ArithmeticError("no luck")


def studies(setting):
    def study(models):
        cv = StratifiedShuffleSplit(setting.n_splits(4), test_size=0.2, random_state=setting.random_state)
        return Study(references(SETS, setting), models, cv, ("accuracy",), random_state=setting.random_state)

    return [
        study({"constant": ModelSpec(DummyClassifier())}),
        study({"neighbors": ModelSpec(KNeighborsClassifier(3))}),
    ]


SMALL = PaperTable("small", "A small table", "Nobody (1900), table 0", "Quarters.", SETS, studies, ENTRIES)


@pytest.fixture
def small(monkeypatch):
    def use(**changes):
        tables = {"small": SMALL._replace(**changes)}
        monkeypatch.setattr(module, "paper_tables", lambda papers: tables)
        return tables["small"]

    use()
    return use


def write_flowers(folder, n_samples=90):
    data = synthetic_features(n_samples, 5)
    (folder / "flowers").mkdir()
    np.save(folder / "flowers" / "features.npy", data.X)
    pd.DataFrame({"label": data.y}).to_csv(folder / "flowers" / "labels.csv", index=False)


# All tables


def test_tables_of_the_papers_are_all_there():
    assert tuple(paper_tables()) == TABLES


@pytest.fixture(scope="module")
def fast_run(tmp_path_factory):
    """Return what tables print of a fast run; those of the same cells share it."""
    folder = tmp_path_factory.mktemp("runs")

    def read(name, splits):
        source = module.find_table(name).cells_of or name
        run = folder / f"{source}-{splits}"
        if not run.exists():
            assert reproduce(source, Setting(fast=True, splits=splits), run).missing == []
        return read_reproduction(run, name)

    return read


# Sets and models of other tables in the studies of one that stays: the same function, one more row of its arguments.
ALIKE = {
    "bemkl-table3": "bemkl-table4",
    "bemkl-table5": "bemkl-table4",
    "localized-table4": "localized-table2",
}


@pytest.mark.heavy
@pytest.mark.parametrize("splits", [1, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [pytest.param(t, marks=[pytest.mark.slow] * (t in ALIKE)) for t in TABLES])
def test_fast_run_has_every_model_and_no_empty_cell(fast_run, name, splits):
    result = fast_run(name, splits)
    assert result.faults == []
    entries = result.table.entries
    run = {label.partition(" (")[0] for label in result.comparison.datasets}
    assert {e.model for e in entries if e.dataset in run} <= set(result.comparison.models)
    assert all(label.endswith((" (stand-in)", " (cut)")) for label in result.comparison.datasets)
    for printed in result.printed:
        assert set(PROVENANCE) <= set(printed.frame.columns)
        markdown(as_text(printed.frame))
    cells = result.comparison.cells
    assert len(cells) <= 60  # short: few fits, of few samples
    assert cells["n_samples"].max() <= 60


@pytest.mark.parametrize("name", TABLES)
def test_table_says_what_is_done_and_refers_to_its_own_sets(name):
    table = module.find_table(name)
    assert table.name == name
    assert min(map(len, (table.title, table.paper, table.protocol))) > 10
    assert {entry.dataset for entry in table.entries} <= {s.name for s in table.sets}
    assert len({(e.dataset, e.model, e.metric, e.variant) for e in table.entries}) == len(table.entries)


# The frame


def test_rows_hold_published_ours_and_their_difference(small):
    result = reproduce("small", Setting(splits=3))
    frame = result.printed[0].frame
    assert len(frame) == 2  # flowers are left out
    row = frame.iloc[0]
    assert (row["data"], row["rows"], row["splits"], row["seed"]) == ("iris", "150", "3", 0)
    assert row["ours"] == pytest.approx(100 / 3)
    assert row["difference"] == pytest.approx(100 / 3 - 33.3)
    assert row["difference_in_sd"] == pytest.approx((100 / 3 - 33.3) / 0.5)
    assert list(frame["variant"]) == ["paper", "three neighbors"]
    X, y = load_iris(return_X_y=True)
    cv = StratifiedShuffleSplit(3, test_size=0.2, random_state=0)
    own = [KNeighborsClassifier(3).fit(X[a], y[a]).score(X[b], y[b]) for a, b in cv.split(X, y)]
    assert frame["ours"][1] == pytest.approx(100 * np.mean(own))
    assert frame["ours_sd"][1] == pytest.approx(100 * np.std(own, ddof=1))


def test_fast_run_is_labeled(small):
    result = reproduce("small", Setting(fast=True))
    assert result.comparison.datasets == ["iris (cut)", "flowers (stand-in)"]
    assert list(result.printed[0].frame["rows"]) == ["60"] * 4
    assert list(result.printed[0].frame["splits"]) == ["2"] * 4
    assert result.printed[0].frame["difference"].isna().all()  # with nothing to compare
    assert result.missing == []


def test_missing_data_are_named_with_the_remedy_and_other_sets_run(small, tmp_path):
    result = reproduce("small", Setting(splits=2, data=tmp_path))
    assert result.comparison.datasets == ["iris"]
    assert result.faults == []
    (message,) = result.missing
    for part in (
        "'flowers'",
        str(tmp_path),
        "90 samples, 5 features",
        "features.npy",
        "labels.csv",
        "The authors",
    ):
        assert part in message
    with pytest.raises(MissingData, match="--data DIR"):
        reproduce("small", Setting(splits=2, sets=("flowers",)))


def test_user_data_are_read_and_their_size_is_asserted(small, tmp_path):
    write_flowers(tmp_path)
    result = reproduce("small", Setting(splits=2, data=tmp_path))
    assert result.comparison.datasets == ["iris", "flowers"]
    assert np.isnan(result.printed[0].frame["difference_in_sd"][2])  # no published sd
    small(sets=(SETS[0], SETS[1]._replace(sizes=Sizes(91, 5))))
    with pytest.raises(
        MissingData, match="the published 91 samples, 5 features, 2 classes; they have 90 samples,"
    ):
        module.find_table("small").sets[1].reference(Setting(data=tmp_path))


def test_unknown_table_and_set_are_named_with_the_nearest(small):
    with pytest.raises(ValueError, match=r"got 'smal'\. Did you mean small"):
        reproduce("smal")
    with pytest.raises(ValueError, match=r"got 'irish'\. Did you mean iris"):
        reproduce("small", Setting(sets=("irish",)))


def test_failing_model_is_an_empty_cell_and_a_fault(small):
    def with_failing(setting):
        one, other = studies(setting)
        return [one, other._replace(models={"neighbors": ModelSpec(Failing())})]

    small(studies=with_failing)
    result = reproduce("small", Setting(fast=True))
    assert any("ArithmeticError: no luck" in fault for fault in result.faults)
    assert any("ours is empty (iris (cut), neighbors" in fault for fault in result.faults)


def test_model_without_cells_raises(small):
    small(studies=lambda setting: studies(setting)[:1])
    with pytest.raises(ValueError, match="no model 'neighbors'"):
        reproduce("small", Setting(fast=True))


def test_two_studies_with_the_same_cells_raise(small):
    small(studies=lambda setting: studies(setting)[:1] * 2)
    with pytest.raises(ValueError, match=r"'constant' on .* is in two of the studies"):
        reproduce("small", Setting(fast=True))


def test_rows_without_provenance_or_value_are_faults(small):
    result = reproduce("small", Setting(fast=True))
    whole = {**provenance(result.comparison), "ours": "1, 2, 3"}
    assert whole["data"] == "2 sets (cut) (stand-in)"
    assert check_printed([Printed("good", pd.DataFrame([whole]))]) == []
    empty = Printed("bad", pd.DataFrame([{**whole, "ours": " "}, {**whole, "seed": np.nan}]))
    assert len(check_printed([empty])) == 2
    assert "no column seed" in check_printed([Printed("bad", empty.frame.drop(columns="seed"))])[0]


def test_own_form_of_a_table_is_printed(small):
    def tables(comparison, setting):
        row = {**provenance(comparison, variant="of our own"), "ours": "1, 0, 0"}
        return [Printed("wins", pd.DataFrame([row]))]

    small(tables=tables)
    result = reproduce("small", Setting(fast=True))
    assert result.printed[0].title == "wins"
    assert result.faults == []


# The folder


def test_folder_of_a_stopped_run_goes_on_and_ends_as_an_undisturbed_one(small, tmp_path):
    class StopError(Exception):
        pass

    def stop(row, done, total):
        if row["model"] == "neighbors":
            raise StopError

    setting, folder = Setting(fast=True), tmp_path / "run"
    with pytest.raises(StopError):
        reproduce("small", setting, folder, stop)
    with pytest.raises(ValueError, match="not the folder of a finished"):
        read_reproduction(folder)
    computed = []
    resumed = reproduce(
        "small", setting, folder, lambda row, *counts: computed.append((row["model"], *counts))
    )
    # of 4 and 4 cells 4 and 1 are there
    assert computed == [("neighbors", 6, 8), ("neighbors", 7, 8), ("neighbors", 8, 8)]
    whole = reproduce("small", setting)
    pd.testing.assert_frame_equal(resumed.printed[0].frame, whole.printed[0].frame)
    assert sorted(path.name for path in folder.iterdir()) == ["about.json", "cells", "results.csv"]
    again = read_reproduction(folder)
    pd.testing.assert_frame_equal(again.printed[0].frame, whole.printed[0].frame)
    never = reproduce("small", setting, folder, lambda *_: pytest.fail("computed again"))
    pd.testing.assert_frame_equal(never.printed[0].frame, whole.printed[0].frame)


def test_parts_of_a_run_joined_are_the_whole_run(small, tmp_path):
    setting, told = Setting(fast=True, splits=3), []
    whole = reproduce("small", setting, tmp_path / "whole")
    for k in (1, 2):
        part = reproduce(
            "small", setting._replace(part=(k, 2)), tmp_path / f"{k}", lambda *row: told.append(row[1:])
        )
        assert part.printed == []
    # pairs of data set and split in turn, of both studies: cells of split 0, 1, 2 with one model each
    assert told == [(n, len(told) // 2) for n in range(1, len(told) // 2 + 1)] * 2
    assert len(told) == len(whole.comparison.cells)
    merge_comparisons([tmp_path / "1", tmp_path / "2"], tmp_path / "both")
    joined = reproduce("small", setting, tmp_path / "both", lambda *_: pytest.fail("computed again"))
    pd.testing.assert_frame_equal(joined.printed[0].frame, whole.printed[0].frame)


def test_parts_of_studies_that_give_models_other_forms_of_the_data_are_joined(small, tmp_path):
    def studies_of(setting):
        def study(name, data, estimator):
            cv = StratifiedShuffleSplit(2, random_state=0)
            return Study({"iris": data}, {name: ModelSpec(estimator)}, cv, ("accuracy",))

        other = DataRef(few_columns)
        return [
            study("constant", DataRef(fetched, name="iris"), DummyClassifier()),
            study("neighbors", other, KNeighborsClassifier()),
        ]

    small(studies=studies_of, tables=lambda comparison, setting: [])
    whole = reproduce("small", Setting(), tmp_path / "whole").comparison.cells
    for k in (1, 2):
        reproduce("small", Setting(part=(k, 2)), tmp_path / f"{k}")
    joined = merge_comparisons([tmp_path / "1", tmp_path / "2"], tmp_path / "both").cells
    key = ["model", "split"]
    pd.testing.assert_frame_equal(
        joined.sort_values(key)[[*key, "accuracy"]].reset_index(drop=True),
        whole.sort_values(key)[[*key, "accuracy"]].reset_index(drop=True),
    )


def few_columns():
    X, y = load_iris(return_X_y=True)
    return Data(X[:, :2], y)


def test_cost_counts_the_fits_of_searches(small):
    grid = ModelSpec(KNeighborsClassifier(), {"n_neighbors": [1, 3, 5], "p": [1, 2]})
    search = TransductiveSearch(KNeighborsClassifier(), [{}, {}], n_folds=4)
    small(
        studies=lambda setting: [
            Study(
                {"iris": DataRef(fetched, name="iris")},
                {"plain": ModelSpec(DummyClassifier()), "grid": grid},
                StratifiedShuffleSplit(2, random_state=0),
                ("accuracy",),
                inner_cv=StratifiedKFold(3),
            )
        ],
        tables=lambda comparison, setting: [],
    )
    told = []
    reproduce("small", Setting(), cost=told.append)
    assert [(cost.n_cells, cost.n_fits) for cost in told] == [(4, 2 + 2 * (6 * 3 + 1))]
    assert told[0].seconds > 0.0
    assert module._n_fits(Study({}, {"search": ModelSpec(search)}), "search") == 9


def test_folder_of_another_setting_keeps_its_cells_and_one_of_another_table_is_refused(small, tmp_path):
    first = reproduce("small", Setting(fast=True), tmp_path / "run")
    other = reproduce("small", Setting(fast=True, splits=3), tmp_path / "run")
    assert len(read_reproduction(tmp_path / "run").comparison.cells) == len(other.comparison.cells)
    never = reproduce("small", Setting(fast=True), tmp_path / "run", lambda *_: pytest.fail("computed again"))
    pd.testing.assert_frame_equal(never.comparison.cells, first.comparison.cells)
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "letter.txt").write_text("mine")
    with pytest.raises(ValueError, match="not the folder of an earlier run"):
        reproduce("small", Setting(fast=True), tmp_path / "strange")


def test_cells_of_one_table_are_printed_as_another(small, tmp_path, monkeypatch):
    reproduce("small", Setting(fast=True), tmp_path / "run")
    other = SMALL._replace(name="other", entries=ENTRIES[:1], cells_of="small")
    tables = {"small": SMALL, "other": other, "stranger": other._replace(name="stranger", cells_of="")}
    monkeypatch.setattr(module, "paper_tables", lambda papers: tables)
    assert len(read_reproduction(tmp_path / "run").printed[0].frame) == 4
    assert len(read_reproduction(tmp_path / "run", "other").printed[0].frame) == 1
    with pytest.raises(ValueError, match="holds cells of small, not of stranger"):
        read_reproduction(tmp_path / "run", "stranger")


def test_about_says_what_was_run(small, tmp_path):
    reproduce("small", Setting(fast=True), tmp_path / "run")
    about = json.loads((tmp_path / "run" / "about.json").read_text())
    assert about["reproduce"]["table"] == "small"
    assert about["reproduce"]["fast"] is True
    assert len(about["study"]) == 2
    assert list(about["models"]) == ["constant", "neighbors"]
    assert about["seconds"] > 0


# The command


def test_command_prints_the_table_and_writes_its_folder(small, tmp_path):
    run = CliRunner().invoke(app, ["reproduce", "small", "--fast", "--out", str(tmp_path / "run")])
    assert run.exit_code == 0, run.output
    assert "three neighbors" in run.output
    assert "iris (cut)" in run.output
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "about.json",
        "cells",
        "report.html",
        "results.csv",
        "tables.md",
    }


def test_command_fails_for_an_empty_cell(small, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesmkl.evaluation.report.write_report", lambda *_, **__: None)  # a second

    def with_failing(setting):
        return [
            *studies(setting)[:1],
            studies(setting)[1]._replace(models={"neighbors": ModelSpec(Failing())}),
        ]

    small(studies=with_failing)
    run = CliRunner().invoke(app, ["reproduce", "small", "--fast", "--out", str(tmp_path / "run")])
    assert run.exit_code == 1
    assert "no luck" in run.output


def test_command_that_is_stopped_says_how_to_go_on(small, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayesmkl.cli.reproduce_command.reproduce", stop)
    run = CliRunner().invoke(app, ["reproduce", "small", "--fast", "--out", str(tmp_path / "run")])
    assert run.exit_code == 130
    assert "the same command goes on from there" in run.output


def test_command_says_what_is_wrong(small, tmp_path):
    for arguments, message in (
        ([], "--list"),
        (["smal"], "Did you mean small"),
        (["small", "--only", "flowers"], "--data DIR"),
    ):
        run = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path / "run")])
        assert run.exit_code == 2
        assert message in " ".join(run.output.split())
    assert not (tmp_path / "run").exists()


def test_command_lists_all_tables():
    run = CliRunner().invoke(app, ["reproduce", "--list"])
    assert run.exit_code == 0, run.output
    for name in TABLES:
        assert name in run.output


@pytest.mark.parametrize("part", ["", "3", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1.5/2"])
def test_part_that_is_none_is_refused(part):
    with pytest.raises(ValueError, match="`part` must be K/N"):
        part_of(part)


def test_parts_of_different_runs_are_not_joined(small, tmp_path):
    setting = Setting(fast=True, splits=2)
    for name, own in (
        ("a", setting._replace(part=(1, 2), sets=("iris",))),
        ("b", setting._replace(part=(2, 2))),
        ("seed", setting._replace(part=(2, 2), random_state=1)),
        ("splits", setting._replace(part=(2, 2), splits=3)),
    ):
        reproduce("small", own, tmp_path / name)
    for name in ("seed", "splits"):
        with pytest.raises(ValueError, match=f"--{name} was"):
            merge_comparisons([tmp_path / "a", tmp_path / name], tmp_path / "both")
    merge_comparisons([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    about = json.loads((tmp_path / "both" / "about.json").read_text())
    assert about["reproduce"] == {"table": "small", "fast": True, "splits": 2, "sets": None}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"splits": 0}, "`splits` must be a whole number >= 1; got 0"),
        ({"n_jobs": 0}, "`n_jobs` must be None or a whole number other than 0"),
        ({"random_state": None}, "`random_state` must be a whole number >= 0; got None"),
        ({"part": (3, 2)}, r"`part` must be \(k, n\) with k from 1 to n; got \(3, 2\)"),
        ({"part": "1/2"}, "`part` must be two whole numbers"),
        ({"sets": "iris"}, "`sets` must be a tuple of names"),
        ({"fast": "no"}, "`fast` must be True or False"),
        (
            {"data": "nowhere"},
            "`data` must be the folder of the data that you bring; there is no folder 'nowhere'",
        ),
    ],
)
def test_wrong_settings_are_named(small, wrong, message):
    with pytest.raises(ValueError, match=message):
        reproduce("small", Setting(**{"fast": True, **wrong}))


def test_folder_of_a_plain_comparison_stays(small, tmp_path):
    cv = StratifiedShuffleSplit(2, random_state=0)
    compare_models(
        {"m": DummyClassifier()}, datasets="iris", scoring="accuracy", cv=cv, folder=tmp_path / "mine"
    )
    before = (tmp_path / "mine" / "about.json").read_bytes()
    with pytest.raises(ValueError, match="no table of a paper"):
        reproduce("small", Setting(fast=True), tmp_path / "mine")
    assert (tmp_path / "mine" / "about.json").read_bytes() == before
