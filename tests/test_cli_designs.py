"""Designs, grades and times on the command line: options of `fit`, tables with a type of `compare`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

from bayesmkl import GPMKLRegressor, KernelBank, load_model
from bayesmkl.bemkl import BEMKLOrdinalClassifier, BEMKLSurvival
from bayesmkl.cli.commands import _check_diagnosed
from bayesmkl.cli.compare_config import read_config
from bayesmkl.cli.designs import standardizer
from bayesmkl.cli.fit_models import new_model
from bayesmkl.cli.fit_options import FitOptions, check_likelihood, check_options, may_be_empty
from bayesmkl.cli.held_out import held_out
from bayesmkl.evaluation import concordance_index
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, GPMKLSurvival, HalfT, Marginal
from bayesmkl.posterior import effect_table

GPMKL = ["--method", "gpmkl", "--draws", "25", "--kernels-on", "all"]
FEATURES = ["protein", "lipid"]


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: Path(path).write_bytes(b"\x89PNG"))


@pytest.fixture(scope="module")
def table():
    """Patients of six sites: a marker, its grade, and a time to an event."""
    rng = np.random.default_rng(2)
    found = pd.DataFrame(rng.normal(size=(60, 2)), columns=FEATURES)
    found["age"] = rng.normal(50.0, 10.0, size=60)
    found["site"] = rng.choice(["1", "2", "north", "south", "east", "west"], size=60)
    score = np.sin(found["protein"]) + 0.05 * found["age"] + (found["site"] == "north")
    found["marker"] = score + 0.2 * rng.normal(size=60)
    found["grade"] = np.digitize(score, np.quantile(score, [0.4, 0.8]))
    found["word"] = found["grade"].map({0: "mild", 1: "middling", 2: "bad"})
    time, end = np.exp(score - 2.0), rng.uniform(1.0, 6.0, size=60)
    found["died"], found["days"] = time < end, np.minimum(time, end)
    return found


@pytest.fixture(scope="module")
def write(table, tmp_path_factory):
    """Fit some columns of the table; return the folder of the run, the file, and what was printed."""

    def fit(columns, *options):
        folder = tmp_path_factory.mktemp("run")
        table[columns].to_csv(folder / "data.csv", index=False)
        code, stdout, stderr = run("fit", folder / "data.csv", "--out", folder / "run", *options)
        assert code == 0, stderr
        return folder / "run", folder / "data.csv", stdout

    return fit


@pytest.fixture(scope="module")
def sites(write):
    """A run with a covariate and a group."""
    return write(
        [*FEATURES, "age", "site", "marker"],
        "--target",
        "marker",
        *GPMKL,
        "--covariate",
        "age",
        "--group",
        "site",
    )


@pytest.mark.heavy
def test_effects_of_a_design_are_those_of_python(sites, table):
    folder, _, stdout = sites
    config = json.loads((folder / "config.json").read_text())
    assert (config["covariate"], config["group"], config["text"]) == (["age"], ["site"], ["site"])
    found = load_model(folder / "model.skops")
    test_sites = set(table["site"]) - set(found[-1].design_.labels[0])
    assert f"Rows held out are those of {len(test_sites)} groups of 'site'" in stdout
    rows = table[~table["site"].isin(test_sites)]
    X = rows[FEATURES]
    X = ((X - X.mean()) / X.std(ddof=0)).assign(age=rows["age"], site=rows["site"])[
        ["age", "site", *FEATURES]
    ]
    expected = GPMKLRegressor(
        KernelBank("auto"), design=found[-1].design, inference=Marginal(n_draws=100), random_state=0
    ).fit(X, rows["marker"].to_numpy())
    own, written = effect_table(expected), pd.read_csv(folder / "effects.csv")
    assert written["effect"].tolist() == own["effect"].tolist() == ["age", "site"]
    np.testing.assert_allclose(
        written[["mean", "lower", "upper"]], own[["mean", "lower", "upper"]], rtol=1e-6
    )
    assert "Effects of columns of the design, with 94 % intervals by marginal" in stdout


def test_known_and_new_sites_are_predicted(sites, table, tmp_path):
    folder, csv, _ = sites
    assert run("predict", folder, csv, "--out", tmp_path / "out.csv")[0] == 0
    std = pd.read_csv(tmp_path / "out.csv")["sd"]
    known = table["site"].isin(load_model(folder / "model.skops")[-1].design_.labels[0])
    assert std[~known].min() > std[known].max()


def test_labels_of_sites_stay_text_in_tables_of_numbers_alone(sites, table, tmp_path):
    folder, csv, _ = sites
    pd.read_csv(csv)[table["site"].isin(["1", "2"]).to_numpy()].to_csv(tmp_path / "numbers.csv", index=False)
    found = []
    for data in (csv, tmp_path / "numbers.csv"):
        assert run("predict", folder, data, "--out", tmp_path / "out.csv")[0] == 0
        found.append(pd.read_csv(tmp_path / "out.csv"))
    expected = found[0][table["site"].isin(["1", "2"])]
    assert {"1", "2"} & set(load_model(folder / "model.skops")[-1].design_.labels[0])
    np.testing.assert_allclose(found[1], expected, rtol=1e-8)


@pytest.mark.heavy
def test_tasks_have_a_table(write):
    folder, _, _ = write(
        [*FEATURES, "grade", "marker"], "--target", "marker", *GPMKL, "--task-column", "grade"
    )
    tasks = pd.read_csv(folder / "tasks.csv")
    assert set(zip(tasks["task"], tasks["other"], strict=True)) == {(0, 1), (0, 2), (1, 2)}


@pytest.mark.heavy
def test_grades_have_an_order(write, table, tmp_path):
    levels = [option for level in ("mild", "middling", "bad") for option in ("--level", level)]
    folder, csv, stdout = write(
        [*FEATURES, "age", "word"], "--target", "word", "--task", "ordinal", "--kernels-on", "all", *levels
    )
    assert "(3 grades: ordinal)" in stdout
    assert run("predict", folder, csv, "--out", tmp_path / "out.csv")[0] == 0
    found = pd.read_csv(tmp_path / "out.csv")
    assert found.columns.tolist() == [
        "prediction",
        *(f"probability_{k}" for k in ("mild", "middling", "bad")),
    ]
    assert np.corrcoef(found["probability_bad"], table["grade"])[0, 1] > 0.4
    metrics = pd.read_csv(folder / "metrics.csv", index_col="metric")["value"]
    assert metrics.index.tolist() == ["accuracy", "grades_off", "log_loss", "rps"]
    assert 0.0 < metrics["rps"] < metrics["grades_off"] + 0.25
    code, _, message = run("diagnose", folder)
    assert code == 2
    assert "no diagnosis of runs of --task ordinal with --method bemkl" in message


def test_times_to_an_event(write, table, tmp_path):
    folder, csv, stdout = write(
        [*FEATURES, "age", "days", "died"], "--target", "days", "--event", "died", "--kernels-on", "all"
    )
    assert f"(times, {table['died'].sum()} events: survival)" in stdout
    assert (folder / "calibration.png").exists()
    assert run("predict", folder, csv, "--out", tmp_path / "out.csv")[0] == 0
    found = pd.read_csv(tmp_path / "out.csv")
    assert found.columns.tolist() == ["risk", "median", "lower", "upper"]
    assert ((found["lower"] < found["median"]) & (found["median"] < found["upper"])).all()
    y = np.rec.fromarrays([table["died"], table["days"]], names="event,time")
    assert concordance_index(y, found["risk"]) > 0.7
    metrics = pd.read_csv(folder / "metrics.csv", index_col="metric")["value"]
    assert metrics.index.tolist() == ["concordance", "concordance_uno", "integrated_brier_score"]


def test_rows_beside_a_run_of_times_are_refused():
    with pytest.raises(ValueError, match="--data is for the calibration of classes and quantities"):
        _check_diagnosed({"task": "survival", "method": "gpmkl"}, Path("new.csv"))
    _check_diagnosed({"task": "survival", "method": "gpmkl"}, None)


def test_a_value_of_one_row_cannot_be_on_both_sides(table):
    features, y = table[[*FEATURES, "site"]].replace({"site": {"1": "2"}}), table["marker"].to_numpy()
    options = FitOptions("marker", "regression", task_column="site")
    train, test = held_out(features, y, np.arange(60), options)
    assert set(features["site"].iloc[test]) == set(features["site"].iloc[train])
    features.loc[4, "site"] = "alone"
    with pytest.raises(ValueError, match="--task-column 'site' must have at least two rows of every value"):
        held_out(features, y, np.arange(60), options)
    whole = options._replace(task_column=None, group=("site",))
    train, test = held_out(features, y, np.arange(60), whole)
    assert not set(features["site"].iloc[test]) & set(features["site"].iloc[train])
    with pytest.raises(ValueError, match="--group 'site' connects all rows"):
        held_out(features.assign(site="one"), y, np.arange(60), whole)


@pytest.mark.parametrize(
    ("task", "method", "kind"),
    [
        ("ordinal", "bemkl", BEMKLOrdinalClassifier),
        ("ordinal", "gpmkl", GPMKLOrdinalClassifier),
        ("survival", "bemkl", BEMKLSurvival),
        ("survival", "gpmkl", GPMKLSurvival),
    ],
)
def test_every_task_has_its_estimators(task, method, kind):
    event, inference = "died" if task == "survival" else None, "vb" if method == "bemkl" else "marginal"
    level = ("0.0", "1", "2") if task == "ordinal" else ()
    options = FitOptions("y", task, event=event, level=level, method=method, inference=inference)
    check_options(options)
    model = new_model(options, np.array([0, 1, 2]))[-1]
    assert type(model) is kind
    if task == "ordinal":
        assert model.levels == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--covariate", "age"], "--covariate is an option of --method gpmkl; got it with --method bemkl"),
        (["--task-column", "site"], "--task-column is an option of --method gpmkl"),
        ([*GPMKL, "--group", "sites"], "the design names the column 'sites', which the table does not have"),
        ([*GPMKL, "--group", "site", "--drop", "site"], "not left out by --drop; got 'site'"),
        ([*GPMKL, "--covariate", "marker"], "neither --target nor --event"),
        ([*GPMKL, "--covariate", "site"], "column 'site' holds no numbers (such as"),
        (["--level", "low"], "--level is the order of grades, of --task ordinal"),
        (["--task", "survival"], "--event names the column that says whether the event was seen"),
        (["--event", "site"], "--event must name a column of 0 and 1, or of true and false"),
        (["--event", "marker"], "--event 'marker' is the --target"),
        (["--event", "died", "--refine"], "--refine is not for --task survival with --method bemkl"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(options, expected, table, tmp_path):
    table.to_csv(tmp_path / "data.csv", index=False)
    dropped = [option for name in ("word", "grade", "days") for option in ("--drop", name)]
    fit = ["fit", tmp_path / "data.csv", "--target", "marker", "--out", tmp_path / "run", *dropped]
    code, _, message = run(*fit, *options)
    assert code == 2
    assert expected in message
    assert not (tmp_path / "run").exists()


def test_columns_of_a_design_keep_their_units(table):
    design = Design(covariate_columns=["age"], group_columns="site")
    found = clone(standardizer(design)).fit_transform(table[[*FEATURES, "age", "site"]])
    assert found.columns.tolist() == ["age", "site", *FEATURES]
    pd.testing.assert_frame_equal(found[["age", "site"]], table[["age", "site"]])
    np.testing.assert_allclose(found[FEATURES].std(ddof=0), 1.0)


# ----------------------------------------------------------------------------------------------------- comparisons

STUDY = """
[datasets.patients]
file = "patients.csv"
target = "marker"
[models.GP]
estimator = "GPMKLRegressor"
kernels = {kernels = ["rbf"], views = {protein = ["protein"], lipid = ["lipid"]}}
design = {type = "Design", covariate_columns = ["age"], group_columns = "clinic", slope_columns = {clinic = "age"}, group_prior = {type = "HalfT", df = 3.0, scale = 0.5}}
[study]
cv = 2
"""  # noqa: E501


@pytest.fixture
def config(table, tmp_path):
    patients = table[[*FEATURES, "age", "marker"]].assign(clinic=np.arange(60) % 5)
    patients.to_csv(tmp_path / "patients.csv", index=False)

    def read(text):
        (tmp_path / "study.toml").write_text(text)
        return read_config(tmp_path / "study.toml")

    return read


def test_designs_of_comparisons(config):
    pipeline = config(STUDY).study.models["GP"].estimator
    assert isinstance(pipeline[0], ColumnTransformer)
    expected = Design(
        covariate_columns=["age"],
        group_columns="clinic",
        slope_columns={"clinic": "age"},
        group_prior=HalfT(3.0, 0.5),
    )
    assert pipeline[-1].design == expected
    unscaled = config(STUDY.replace("design =", "standardize = false\ndesign =").replace('"clinic"', "3"))
    assert unscaled.study.models["GP"].estimator.design.group_columns == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'group_columns = "clinic"',
            'group_columns = "clinics"',
            r"`models\.GP\.design`: data set 'patients'",
        ),
        (
            'group_columns = "clinic"',
            "group_columns = 3",
            r"`models\.GP\.design` .* got the position 3\. Name",
        ),
        ('protein = ["protein"]', "protein = [0]", r"`models\.GP\.design` .* got the position 0"),
        ("covariate_columns", "covariate_column", "did you mean 'covariate_columns'"),
        (
            "[study]",
            '[models.GP.grid]\ndesign = [{type = "Design"}]\n[study]',
            r"`models\.GP\.grid\.design` is not for",
        ),
    ],
)
def test_mistakes_in_designs_of_comparisons(config, old, new, message):
    assert old in STUDY
    with pytest.raises(ValueError, match=message):
        config(STUDY.replace(old, new))


@pytest.mark.heavy
def test_slopes_differ_between_levels(write):
    """Effects are those of Python; a slope names a group and a covariate that are named too."""
    folder, _, _ = write(
        [*FEATURES, "age", "grade", "marker"], "--target", "marker", *GPMKL, "--covariate", "age",
        "--group", "grade", "--slope", "grade=age",
    )  # fmt: skip
    assert pd.read_csv(folder / "effects.csv")["effect"].tolist() == ["age", "grade", "age | grade"]
    assert json.loads((folder / "config.json").read_text())["slope"] == ["grade=age"]
    options = FitOptions("y", method="gpmkl", inference="marginal", covariate=("a", "b"), group=("g", "h"))
    options = options._replace(slope=("g=a", "h=a", "g=b"))
    check_options(options)
    assert options.design.slope_columns == {"g": ["a", "b"], "h": ["a"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slope": ("site=week",)}, "covariate 'week', which --covariate does not name; it has 'age'"),
        ({"slope": ("clinic=age",)}, "group 'clinic', which --group does not name; it has 'site'"),
        ({"slope": ("site",)}, "--slope must be GROUP=COVARIATE, such as subject=week; got 'site'"),
        ({"task_correlation": "free"}, "--task-correlation free is of tasks, which --task-column names"),
        ({"missing_views": "integrate"}, "--missing-views integrate needs --kernels-on each"),
    ],
)
def test_slopes_and_correlations_of_what_is_not_named(change, message):
    options = FitOptions("y", method="gpmkl", inference="marginal", covariate=("age",), group=("site",))
    with pytest.raises(ValueError, match=message):
        check_options(options._replace(**change))
    if "missing_views" in change:
        with pytest.raises(ValueError, match="--missing-views impute is for --method gpmkl"):
            check_options(FitOptions("y", missing_views="impute"))


@pytest.mark.heavy
def test_processes_take_empty_cells(write, table, tmp_path):
    folder, csv, _ = write(
        [*FEATURES, "marker"], "--target", "marker", *GPMKL[:-1], "each", "--missing-views", "integrate"
    )
    holes = pd.read_csv(csv)
    holes.loc[:9, "protein"] = np.nan
    holes.to_csv(tmp_path / "holes.csv", index=False)
    assert run("predict", folder, tmp_path / "holes.csv", "--out", tmp_path / "out.csv")[0] == 0
    found = pd.read_csv(tmp_path / "out.csv")
    model = load_model(folder / "model.skops")
    np.testing.assert_allclose(found["mean"], model.predict(holes[FEATURES]), rtol=1e-6)
    assert found["sd"][:10].mean() > found["sd"][10:].mean()
    options = FitOptions("y", "regression", method="gpmkl", inference="marginal", missing_views="impute")
    check_options(options)
    assert new_model(options, np.zeros(2))[-1].missing_views == "impute"
    assert may_be_empty(options._asdict())


@pytest.mark.heavy
def test_counts_are_no_classes(table, tmp_path):
    """Few whole numbers are classes but for the likelihood of counts, whose metrics are not those of normal laws."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(0.5 * table["protein"] + np.log(table["days"])))
    data = table[FEATURES].assign(visits=counts, log_days=np.log(table["days"]))
    data.to_csv(tmp_path / "data.csv", index=False)
    fit = [
        "fit",
        tmp_path / "data.csv",
        "--target",
        "visits",
        "--out",
        tmp_path / "run",
        "--offset",
        "log_days",
    ]
    code, stdout, stderr = run(*fit, *GPMKL, "--likelihood", "poisson")
    assert code == 0, stderr
    assert "(a quantity: regression)" in stdout
    assert pd.read_csv(tmp_path / "run" / "metrics.csv")["metric"].tolist() == ["r2", "rmse"]
    model = load_model(tmp_path / "run" / "model.skops")
    assert run("predict", tmp_path / "run", tmp_path / "data.csv", "--out", tmp_path / "out.csv")[0] == 0
    found = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(found["mean"], model.predict(data.drop(columns="visits")), rtol=1e-6)
    assert model[-1].likelihood == "poisson"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            FitOptions("y", "survival", likelihood="poisson"),
            "of --task survival is log-logistic, .* got poisson",
        ),
        (FitOptions("y", "ordinal", likelihood="probit"), "of --task ordinal is none; got probit"),
        (FitOptions("y", "classification", likelihood="gaussian"), "is probit or logit; got gaussian"),
    ],
)
def test_likelihoods_of_other_tasks(options, message):
    with pytest.raises(ValueError, match=message):
        check_likelihood(options)
    with pytest.raises(ValueError, match="--likelihood is an option of --method gpmkl"):
        check_options(options._replace(task="regression"))
