"""Tables as they are: what columns are taken for, views of them, and that everything combines."""

from __future__ import annotations

import datetime
import html
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector
from sklearn.ensemble import StackingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLClassifier,
    GPMKLOrdinalClassifier,
    GPMKLRegressor,
    GPMKLSurvival,
    KernelBank,
    load_model,
    save_model,
)
from bayesmkl._utils.survival_target import survival_times
from bayesmkl.bemkl import BEMKLSurvival
from bayesmkl.datasets import load_gbsg2, load_lung
from bayesmkl.discriminative import LapMKLClassifier, LMKLClassifier, MKLClassifier
from bayesmkl.evaluation import report_model
from bayesmkl.gp import Design, Marginal
from bayesmkl.kernels import Gaussian, Linear, Overlap, Tanimoto
from bayesmkl.kernels.tables import ColumnPlan
from bayesmkl.posterior import feature_table, permutation_table, summary, view_table

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # of fits that are cut short
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
]
N = 40
FAST = {"inference": Marginal(n_points=100, n_draws=100), "random_state": 0, "verbose": 0}


def _clinic():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.normal(60, 9, size=N),
            "count": rng.integers(0, 9, size=N),
            "sex": rng.choice(["f", "m"], size=N),
            "smoker": rng.choice([True, False], size=N),
            "stage": pd.Categorical(rng.choice(["I", "II", "III"], size=N), ["I", "II", "III"], ordered=True),
            "site": rng.choice(["north", "south", "west"], size=N),
        },
        index=np.arange(N) + 1000,
    )


CLINIC = _clinic()
Y = np.where(CLINIC["age"] + 12 * (CLINIC["sex"] == "m") > 66, "ill", "well")
VIEWS = {"who": ["age", "sex"], "signs": ["sm*", "stage"], "lab": "count"}


def gaussian_of(x):
    distances = np.abs(np.subtract.outer(x, x))
    return np.exp(-(distances**2) / (2 * np.median(distances[np.triu_indices(len(x), 1)]) ** 2))


# ------------------------------------------------------------------------------------------------- single columns


def test_kernels_are_those_of_a_table_made_by_hand():
    """Numbers and grades are standardized, categories and yes or no are compared by agreement."""
    bank = KernelBank(views=VIEWS | {"lab": "count"}, scale=True, normalize=None)
    kernels = dict(
        zip(bank.fit(CLINIC).kernel_names_, np.moveaxis(bank.fit_transform(CLINIC), -1, 0), strict=True)
    )
    assert list(kernels)[:5] == [
        *(f"gaussian({width} median) · who" for width in (0.5, 1, 2)),
        "linear · who",
        "overlap · who",
    ]
    z = StandardScaler().fit_transform(CLINIC[["age"]].to_numpy())[:, 0]
    stage = CLINIC["stage"].cat.codes.to_numpy(float)
    stage = (stage - stage.mean()) / stage.std()
    np.testing.assert_allclose(kernels["linear · who"], np.outer(z, z), rtol=1e-12)
    np.testing.assert_allclose(kernels["gaussian(1 median) · who"], gaussian_of(z), rtol=1e-12)
    np.testing.assert_allclose(kernels["linear · signs"], np.outer(stage, stage), rtol=1e-12)
    for name, column in (("overlap · who", "sex"), ("overlap · signs", "smoker")):
        expected = np.equal.outer(CLINIC[column].to_numpy(), CLINIC[column].to_numpy())
        np.testing.assert_array_equal(kernels[name], expected)
    part = bank.transform(CLINIC[:3])
    np.testing.assert_allclose(part, np.stack(list(kernels.values()), axis=-1)[:3], rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.5, None] * 20, "numbers"),
        (pd.array([1, 2] * 20, dtype="Int64"), "numbers"),
        (np.array([Decimal("1.5"), 2] * 20, dtype=object), "numbers"),
        (pd.array([1.5, 2] * 20, dtype="Float32"), "numbers"),
        (pd.arrays.SparseArray([0.0, 1.0] * 20), "numbers"),
        ([True, False] * 20, "yes or no"),
        (np.array([True, False] * 20, dtype=object), "yes or no"),
        (pd.array([True, None] * 20, dtype="boolean"), "categories"),
        (np.array([True, None] * 20, dtype=object), "categories"),
        (["x", None] * 20, "categories"),
        (["x", " "] * 20, "categories"),
        (["α" * 300, "β"] * 20, "categories"),
        (["1", "2"] * 20, "categories"),
        (pd.Categorical([3, 1] * 20), "categories"),
        (pd.Categorical([True, False] * 20), "categories"),
        (pd.Categorical([f"a{i}" for i in range(N)]), "categories"),
        (pd.array(["a", "b"] * 20, dtype="string"), "categories"),
        (pd.Categorical(["lo", "hi"] * 20, ["lo", "mid", "hi"], ordered=True), "grades"),
        (pd.cut(np.arange(N), 3), "grades"),
        (pl.Series(["a", "b"] * 20, dtype=pl.Enum(["b", "a"])), "categories"),
        (pl.Series(["a", "b"] * 20, dtype=pl.Categorical), "categories"),
        (pl.Series([True, None] * 20), "categories"),
        (pl.Series([1, None] * 20), "numbers"),
        (pl.Series([Decimal("1.5"), Decimal("2.0")] * 20), "numbers"),
        (pd.array(["a", "b"] * 20, dtype=pd.ArrowDtype(pa.string())), "categories"),
        (pd.array([True, False] * 20, dtype=pd.ArrowDtype(pa.bool_())), "yes or no"),
        (pd.array([1.5, 2.0] * 20, dtype=pd.ArrowDtype(pa.float64())), "numbers"),
        (pd.date_range("2024-01-01", periods=N), "holds dates. Make a number of them, such as days since the first"),
        (pd.date_range("2024-01-01", periods=N, tz="UTC"), "holds dates"),
        (pd.period_range("2024-01", periods=N, freq="M"), "holds dates"),
        ([datetime.date(2024, 1, 1 + i % 20) for i in range(N)], "holds dates"),
        (["2024-01-01", "2024-02-29"] * 20, "holds dates as text. Read them with `pd.to_datetime`"),
        (pl.Series([datetime.date(2024, 1, 1), None] * 20), "holds dates"),
        (pl.Series([datetime.timedelta(1), None] * 20), "holds durations. Divide them by their unit"),
        (pd.to_timedelta(np.arange(N), unit="D"), "holds durations"),
        (np.array([1, "a"] * 20, dtype=object), "holds values of type int and str, such as 1. Make all of them"),
        (np.array([True, "a"] * 20, dtype=object), "holds values of type bool and str"),
        (np.array([1j, 2j] * 20), "holds values of type complex"),
        ([[1], [2, 3]] * 20, "holds values of type list"),
        ([f"P{i:03}" for i in range(N)], "holds 40 different texts, such as 'P000': an identifier, or free text"),
        ([f"{i / 7}" for i in range(N)], "holds 40 different texts, such as '0.0': numbers that are text. Use `pd"),
    ],
)  # fmt: skip
def test_what_a_column_is(values, expected):
    """Every odd column is right, or refused by name; one in no view is not looked at."""
    is_polars = isinstance(values, pl.Series)
    age = CLINIC["age"].to_numpy()
    frame = (
        pl.DataFrame({"age": age, "odd": values}) if is_polars else pd.DataFrame({"age": age, "odd": values})
    )
    plan = ColumnPlan.learn(frame)
    found = {column.label: column for column in plan.columns}
    is_missing = np.asarray(pd.isna(np.asarray(frame["odd"], dtype=object)))
    if expected in ("numbers", "yes or no", "categories", "grades"):
        assert found["odd"].kind == expected if "odd" in found else expected == "numbers"
        if expected == "numbers" and is_missing.any():
            with pytest.raises(
                ValueError, match=r"contains NaN, in column 'odd' \(20 of 40 rows, the first row 1"
            ):
                BEMKLRegressor().fit(frame, age)
        else:
            model = BEMKLRegressor(max_iter=5, verbose=0).fit(frame, age)
            assert np.isfinite(model.predict(frame[:4])).all()
    else:
        with pytest.raises(ValueError, match="the column 'odd' " + expected.replace("(", ".")):
            BEMKLRegressor().fit(frame, age)
    alone = BEMKLRegressor(views={"who": "age"}, max_iter=5, verbose=0).fit(frame, age)
    assert alone.unused_columns_ == ["odd"]
    assert np.isfinite(alone.predict(frame)).all()


FRAME = CLINIC.assign(grade=CLINIC["stage"].astype(str).astype("category"))


@pytest.mark.parametrize(
    ("column", "new", "expected"),
    [
        (
            "age",
            "old",
            "must hold numbers in 'age', as in training; got 'old'. Write numbers, as `pd.to_numeric",
        ),
        ("age", "61.5", "must hold numbers in 'age', as in training; got '61.5'"),
        ("age", pd.Timestamp("2024-01-01"), "must hold numbers in 'age', as in training; got Timestamp"),
        ("age", pd.Timedelta(days=1), "must hold numbers in 'age', as in training; got Timedelta"),
        ("age", True, "must hold numbers in 'age', as in training; got True"),
        ("sex", 1.0, "must hold categories such as 'm' in 'sex', as in training; got 1. Replace them: `X"),
        (
            "smoker",
            "perhaps",
            "must hold True and False such as True in 'smoker', as in training; got 'perhaps'",
        ),
        (
            "stage",
            "IV",
            "must hold grades such as 'III' in 'stage', as in training; got 'IV'. Replace them: `X",
        ),
        ("smoker", None, "contains NaN, in column 'smoker' .40 of 40 rows"),
        ("smoker", 1, None),
        ("smoker", "TRUE", None),
        ("smoker", 0.0, None),
        ("stage", "ii ", None),
        ("sex", "M ", None),
        ("sex", None, None),
    ],
)
def test_columns_that_change(column, new, expected):
    model = BEMKLClassifier(max_iter=5, verbose=0).fit(FRAME, Y)
    changed = FRAME.assign(**{column: new})
    if expected is None:
        old = {1: True, "TRUE": True, 0.0: False, "ii ": "II", "M ": "m", None: None}[new]
        if old is not None:
            same = model.predict_proba(FRAME.assign(**{column: old}))
            np.testing.assert_array_equal(model.predict_proba(changed), same)
        assert np.isfinite(model.predict_proba(changed)).all()
    else:
        with pytest.raises(ValueError, match=expected.replace("`", ".")):
            model.predict(changed)


def test_unseen_categories_are_like_none():
    model = GPMKLClassifier(views={"who": "sex", "where": "site"}, **FAST).fit(CLINIC, Y)
    one, two = (model.predict_latent(CLINIC[:1].assign(site=site)) for site in ("east", "moon"))
    assert one == two
    with pytest.warns(
        UserWarning, match=r"categories of training in 'site', .*; got only unseen ones, .'east'."
    ):
        model.predict(CLINIC.assign(site="east"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(CLINIC.assign(site=["east", *CLINIC["site"][1:]]))
    with pytest.raises(ValueError, match="must be a DataFrame: its column 'sex' held categories in training"):
        model.predict(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(CLINIC[CLINIC.columns[::-1]])


# ---------------------------------------------------------------------------------------------------------- views


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        ("types", {"numbers": "age count stage", "categories": "sex smoker site"}),
        ("each", {name: name for name in CLINIC}),
        ({"a": "s*", "b": slice(0, 2)}, {"a": "sex smoker stage site", "b": "age count"}),
        ({"a": ["s[it]*", "age"], "b": [1]}, {"a": "stage site age", "b": "count"}),
        ({"a": make_column_selector(dtype_include="number")}, {"a": "age count"}),
        ({"a": [True, *[False] * 5], "b": ["sex", "age"]}, {"a": "age", "b": "sex age"}),
    ],
)
def test_views(views, expected):
    model = BEMKLClassifier(views=views, max_iter=5, verbose=0).fit(CLINIC, Y)
    names = list(CLINIC)
    found = {view.name: " ".join(names[j] for j in view.columns) for view in model.kernel_bank_.views_}
    assert found == expected
    used = " ".join(expected.values()).split()
    assert model.unused_columns_ == [name for name in names if name not in used]
    again = BEMKLClassifier(KernelBank(views=views, scale=True), max_iter=5, verbose=0).fit(CLINIC, Y)
    np.testing.assert_array_equal(again.predict_proba(CLINIC), model.predict_proba(CLINIC))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"views": {"a": "g_*"}},
            r"`views\['a'\]` has the pattern 'g_\*', which matches no column of `X`; these are",
        ),
        (
            {"views": {"a": "s*", "b": "sex"}},
            "must not share columns by a pattern; 'a' and 'b' both have 'sex'",
        ),
        ({"views": {"a": ["agee"]}}, "names the column 'agee', which `X` does not have; did you mean 'age'"),
        ({"views": {"a": []}}, r"`views\['a'\]` selects no column"),
        ({"views": {"a": make_column_selector("zz")}}, r"`views\['a'\]` selects no column"),
        ({"views": "kinds"}, '"types" or a mapping'),
        (
            {"views": "each", "kernels": KernelBank(views="types")},
            "`views` must be None with a bank that has views",
        ),
        (
            {"views": {"a": "sex"}, "kernels": KernelBank(Gaussian())},
            "must compare the categories of the view 'a' by",
        ),
        (
            {"kernels": KernelBank([Gaussian(), Overlap()], {"a": "sex"})},
            "'gaussian.width=1.' has none, since all col",
        ),
        (
            {"kernels": KernelBank(Linear(), {"a": "age"}, scale="yes")},
            "`scale` must be True or False; got 'yes'",
        ),
        (
            {"design": Design(covariate_columns="sex"), "views": {"a": "age"}},
            "`design` must hold numbers or yes or no",
        ),
    ],
)
def test_views_that_are_none(arguments, expected):
    with pytest.raises(ValueError, match=expected):
        GPMKLClassifier(**arguments, **FAST).fit(CLINIC, Y)


def test_a_target_in_a_view_is_refused():
    frame = CLINIC.assign(ill=Y == "ill", time=np.arange(1.0, N + 1.0), died=[0, 1] * 20)
    with pytest.raises(
        ValueError, match=r"column 'ill' in the view 'all' is `y`\. Leave it out of `X`, by `X\.drop"
    ):
        BEMKLClassifier(max_iter=5).fit(frame, frame["ill"])
    with pytest.raises(ValueError, match="its column 'time' in the view 'all' is `y`"):
        GPMKLSurvival(**FAST).fit(frame, frame[["time", "died"]])
    BEMKLClassifier(views={"who": ["age"]}, max_iter=5, verbose=0).fit(frame, frame["ill"])


def test_standardization_is_that_of_a_pipeline(rng):
    """Inside as outside, whatever the weights, and kernels of counts see counts."""
    X = pd.DataFrame(rng.normal(size=(N, 3)) * [1.0, 100.0, 1e-3] + [5.0, 0.0, 1.0], columns=list("abc"))
    y, weights = rng.normal(size=N), rng.integers(1, 3, size=N) * 0.5
    views = {"one": ["a", "b"], "two": "c"}
    for own in ({}, {"sample_weight": weights}):
        inside = GPMKLRegressor(KernelBank(views=views, scale=True), **FAST).fit(X, y, **own)
        scaler = StandardScaler().set_output(transform="pandas").fit(X, **own)
        outside = GPMKLRegressor(KernelBank(views=views), **FAST).fit(scaler.transform(X), y, **own)
        for new in (X, X + 0.1):
            a, b = inside.predict(new), outside.predict(scaler.transform(new))
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    tables = [
        feature_table(model, per="unit", random_state=0).set_index("feature") for model in (inside, outside)
    ]
    units = pd.Series(scaler.scale_, list("abc"))
    for column in ("mean", "lower", "upper"):
        np.testing.assert_allclose(
            tables[0][column] * units, tables[1][column] * (units / units), rtol=1e-5, atol=1e-8
        )
    again = make_pipeline(StandardScaler().set_output(transform="pandas"), BEMKLRegressor(views=views)).fit(
        X, y
    )
    np.testing.assert_allclose(BEMKLRegressor(views=views).fit(X, y).predict(X), again.predict(X), rtol=1e-6)
    counts = pd.DataFrame(rng.integers(0, 5, size=(N, 3)).astype(float), columns=["n1", "n2", "size"])
    kernels = {"n": Tanimoto(), "size": Linear()}
    bank = KernelBank(kernels, {"n": "n*", "size": "size"}, scale=True, normalize=None).fit(counts)
    np.testing.assert_array_equal(bank.locations_[:2], 0.0)
    np.testing.assert_allclose(
        bank.train_stack()[1], np.outer(*[StandardScaler().fit_transform(counts)[:, 2]] * 2)
    )


@pytest.mark.parametrize(
    "of_bank", [{"landmarks": 12}, {"landmarks": 12, "landmark_selection": "random"}, {}]
)
@pytest.mark.parametrize("storage", ["dense", "compressed", "streamed", "float32"])
def test_other_storages_and_landmarks_see_the_same(of_bank, storage, rng):
    X = pd.DataFrame(rng.normal(size=(N, 3)) * [1.0, 100.0, 1e-3], columns=list("abc")).assign(
        flag=[True, False] * 20
    )
    y = rng.normal(size=N)
    if of_bank and storage == "compressed":
        return
    scaled = X.assign(**pd.DataFrame(StandardScaler().fit_transform(X[list("abc")]), columns=list("abc")))
    views = {"one": ["a", "b", "flag"], "two": "c"}
    models = [
        BEMKLRegressor(
            KernelBank(views=views, scale=scale, **of_bank), storage=storage, max_iter=20, verbose=0
        )
        for scale in (True, False)
    ]
    found = models[0].fit(X, y).predict(X[:7])
    np.testing.assert_allclose(found, models[1].fit(scaled, y).predict(scaled[:7]), rtol=1e-4)


# ------------------------------------------------------------------------------------------- everything combines

TARGETS = {
    "labels": (GPMKLClassifier, lambda frame: frame["y"] > 0),
    "classes": (GPMKLClassifier, lambda frame: pd.cut(frame["y"], 3, labels=["a", "b", "c"])),
    "numbers": (GPMKLRegressor, lambda frame: frame["y"]),
    "grades": (GPMKLOrdinalClassifier, lambda frame: pd.cut(frame["y"], 3, labels=["low", "mid", "high"])),
    "times": (
        GPMKLSurvival,
        lambda frame: pd.DataFrame({"t": np.exp(frame["y"]), "e": [1, 1, 0, 1] * (N // 4)}),
    ),
}


@pytest.mark.parametrize("missing_views", ["error", "integrate", "impute"])
@pytest.mark.parametrize("with_design", [False, True])
@pytest.mark.parametrize("target", list(TARGETS))
def test_contract(target, with_design, missing_views, tmp_path):
    """Categories, named views, missing views, designs and weights go together for every outcome.

    A frame with categories in any spelling, its rows one by one, in another library and read from a model file give
    the same; a sample of weight two is the same sample twice.
    """
    rng = np.random.default_rng(3)
    frame = CLINIC.assign(y=rng.normal(size=N) + (CLINIC["sex"] == "f"))
    kind, target_of = TARGETS[target]
    y = target_of(frame)
    X = frame.drop(columns="y").astype({"sex": object})
    if missing_views != "error":
        X.loc[X.index[:6], ["age", "sex"]] = np.nan
    X.loc[X.index[7], "sex"] = None  # a category of its own
    if missing_views == "impute":
        X.loc[X.index[8], "age"] = np.nan
    design = Design(covariate_columns="smoker", group_columns="site") if with_design else None
    model = kind(
        views={"who": ["age", "sex"], "grade": "stage"}, design=design, missing_views=missing_views, **FAST
    )
    assert clone(model).get_params()["views"] == model.views
    weights = np.where(np.arange(N) < 3, 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so few points
        model.fit(X, y, sample_weight=weights)
        without = clone(model).fit(X[3:], y[3:])
    assert model.unused_columns_ == (["count"] if with_design else ["count", "smoker", "site"])
    latent = model.predict_latent(X)
    assert np.isfinite(latent).all()
    np.testing.assert_allclose(without.predict_latent(X), latent, rtol=1e-6, atol=1e-8)
    spelled = X.assign(
        sex=X["sex"].str.upper() + " ", smoker=X["smoker"].astype(int), stage=X["stage"].astype(object)
    )
    np.testing.assert_array_equal(model.predict_latent(spelled), latent)
    np.testing.assert_allclose(model.predict_latent(X[7:9]), latent[7:9], rtol=1e-6, atol=1e-8)
    other = pl.from_pandas(X.astype({"stage": str}).reset_index(drop=True), nan_to_null=True)
    np.testing.assert_allclose(model.predict_latent(other), latent, rtol=1e-10)
    save_model(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict_latent(X), latent)
    table = view_table(model)
    assert {"who", "grade"} <= set(table["view"])


def test_meta_estimators():
    """What scikit-learn wraps around estimators takes the frame as it is."""
    model = BEMKLClassifier(max_iter=20, verbose=0)
    assert cross_validate(model, CLINIC, Y, cv=2)["test_score"].mean() > 0.5
    grid = {"views": ["types", "each", VIEWS]}
    search = GridSearchCV(model, grid, cv=2).fit(CLINIC, Y)
    assert search.predict(CLINIC).shape == (N,)
    fitted = clone(model).fit(CLINIC, Y)
    importances = permutation_importance(fitted, CLINIC, Y, n_repeats=2, random_state=0).importances_mean
    assert importances[2] > importances[5]
    assert CalibratedClassifierCV(model, cv=2).fit(CLINIC, Y).predict_proba(CLINIC).shape == (N, 2)
    stacked = StackingClassifier(
        [("a", model), ("b", clone(model).set_params(views=VIEWS))], LogisticRegression(), cv=2
    )
    assert stacked.fit(CLINIC, Y).score(CLINIC, Y) > 0.7
    views = BEMKLClassifier(views=VIEWS, max_iter=20, verbose=0).fit(CLINIC, Y)
    assert permutation_table(views, CLINIC, Y, random_state=0)["view"][0] == "who"
    assert MKLClassifier(KernelBank(views=VIEWS, scale=True)).fit(CLINIC, Y).score(CLINIC, Y) > 0.7


# -------------------------------------------------------------------------------------------------------- targets

TIME, EVENT = np.arange(1.0, N + 1.0), np.arange(N) % 3 > 0


@pytest.mark.parametrize(
    "y",
    [
        np.rec.fromarrays([EVENT, TIME], names="event,time"),
        pd.DataFrame({"time": TIME, "event": EVENT}),
        pd.DataFrame({"T": TIME, "E": EVENT.astype(int)}, index=np.arange(N) + 7),  # lifelines
        pd.DataFrame({"T": pd.array(TIME, dtype="Float64"), "E": pd.array(EVENT, dtype="boolean")}),
        pl.DataFrame({"time": TIME, "event": EVENT}),
        np.column_stack([EVENT, TIME]),
        np.column_stack([TIME, EVENT]),
        list(zip(EVENT.tolist(), TIME.tolist(), strict=True)),  # scikit-survival's tuples
        (EVENT, TIME),
        pd.DataFrame({"lower": TIME, "upper": np.where(EVENT, TIME, np.inf)}),
    ],
)
def test_forms_of_times(y):
    expected = survival_times(np.rec.fromarrays([EVENT, TIME], names="e,t"))
    for found, own in zip(survival_times(y), expected, strict=True):
        np.testing.assert_array_equal(found, own)
    if isinstance(y, pd.DataFrame) and "E" in y:
        model = BEMKLSurvival(views={"a": "age"}, max_iter=5, verbose=0).fit(CLINIC, y)
        assert 0.0 < model.score(CLINIC, y) < 1.0


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (pd.DataFrame({"time": TIME, "status": 1 + EVENT}), r"one column of .*Is 'status' the event, with \[1, 2\]"),
        (pd.DataFrame({"time": TIME, "status": np.where(EVENT, "dead", "alive")}), "Is 'status' the event, with"),
        (pd.DataFrame({"time": EVENT.astype(int), "event": EVENT.astype(int)}), "got 'time' and 'event' among"),
        (pd.DataFrame({"time": TIME, "event": [None, *EVENT[1:]]}), "no missing values; got 1 in 'event', the first"),
        (TIME, "a DataFrame with a column of the event"),
    ],
)  # fmt: skip
def test_times_that_are_none(y, expected):
    with pytest.raises(ValueError, match=expected):
        BEMKLSurvival(views={"a": "age"}, max_iter=5).fit(CLINIC, y)


@pytest.mark.parametrize(
    "read", [np.asarray, list, pd.Series, pl.Series, lambda y: pd.Series(y).astype("category"), lambda y: y == "ill",
             lambda y: pd.array(y == "ill", dtype="boolean"), lambda y: pd.Series(y, dtype="string")]
)  # fmt: skip
def test_forms_of_labels(read):
    model = BEMKLClassifier(views={"a": ["age", "sex"]}, max_iter=20, verbose=0).fit(CLINIC, read(Y))
    assert model.score(CLINIC, read(Y)) > 0.7
    assert len(model.classes_) == 2


# ----------------------------------------------------------------------------------- a raw frame, at most eight lines


ALL = ("views together", "all views", "not explained")


def check_written(page, path, names):
    """Check that the last two of the eight lines, a summary and a report, say the same of all views."""
    text = path.read_text(encoding="utf-8")
    assert set(page.table["view"]) == {*names, *ALL}
    assert html.escape(page.sentences[0]) in text
    assert re.findall('<section id="([a-z]+)">', text)[:3] == ["summary", "predictions", "views"]
    assert len(text) < 1_000_000


@pytest.mark.heavy
def test_gbsg2_as_it_is(tmp_path):
    data, report = load_gbsg2(as_frame=True), tmp_path / "report.html"
    df, y = data.data.iloc[::12], data.target[::12]
    views = {"receptors": "*_receptor", "tumor": ["tumour_*", "positive_nodes"], "woman": ["age", "*meno*"]}
    model = GPMKLSurvival(views=views, design=Design(covariate_columns="hormone_therapy"), **FAST).fit(df, y)
    page = summary(model)
    report_model(model, report)
    assert model.unused_columns_ == []
    check_written(page, report, views)


@pytest.mark.heavy
def test_lung_as_it_is(tmp_path):
    data, report = load_lung(as_frame=True), tmp_path / "report.html"
    df, y = data.data.iloc[::4], data.target[::4]
    views = {"scores": ["ecog*", "karno*"], "food": ["meal*", "weight*"], "who": ["age", "female"]}
    model = GPMKLSurvival(views=views, missing_views="impute", **FAST).fit(df, y)
    page = summary(model)
    report_model(model, report)
    assert np.isfinite(model.predict(df)).all()
    check_written(page, report, views)


@pytest.mark.heavy
def test_rand_as_it_is(tmp_path):
    """Counts of visits of statsmodels' RAND: a frame with its target."""
    df = pytest.importorskip("statsmodels.datasets").randhie.load_pandas().data.iloc[::400]
    report = tmp_path / "report.html"
    views = {"plan": ["lncoins", "idp", "lpi", "fmde"], "health": ["physlm", "disea", "hlth*"]}
    model = GPMKLRegressor(views=views, likelihood="negative-binomial", **FAST)
    model.fit(df.drop(columns="mdvis"), df["mdvis"])
    page = summary(model)
    report_model(model, report)
    check_written(page, report, views)
    with pytest.raises(ValueError, match="column 'mdvis' in the view 'all' is `y`"):
        BEMKLRegressor(max_iter=5).fit(df, df["mdvis"])


@pytest.mark.heavy
def test_grunfeld_as_it_is(tmp_path):
    """Investments of firms of statsmodels, whose names are text, beside numbers in one view."""
    df = pytest.importorskip("statsmodels.datasets").grunfeld.load_pandas().data.iloc[::4]
    report = tmp_path / "report.html"
    views = {"size": ["value", "capital"], "who": ["firm", "year"]}
    model = GPMKLRegressor(views=views, **FAST).fit(df, df["invest"])
    page = summary(model)
    report_model(model, report)
    check_written(page, report, views)
    slopes = feature_table(model, random_state=0)
    assert set(slopes["feature"]) == {"value", "capital", "year"}
    assert slopes.attrs["caption"] == "Categories have no slopes: firm. Compare them with `contrast`."
    assert html.escape(slopes.attrs["caption"]) in report.read_text(encoding="utf-8")


def test_odd_names_and_indices():
    """Names and labels of rows mean nothing but who is who."""
    plain = CLINIC.reset_index(drop=True)
    expected = BEMKLClassifier(max_iter=5, verbose=0).fit(plain, Y).predict_proba(plain)
    long = [f"{'ü' * 300}{j}" for j in range(6)]
    for names in (long, ["", " ", "a\nb", "🙂", "*", "[x]"], range(10, 16), [("a", j) for j in range(6)]):
        frame = plain.set_axis(list(names), axis=1).set_axis([7] * N, axis=0)  # one label for all rows
        if isinstance(names[0], tuple):
            frame.columns = pd.MultiIndex.from_tuples(names)
        found = BEMKLClassifier(max_iter=5, verbose=0).fit(frame, Y).predict_proba(frame)
        np.testing.assert_array_equal(found, expected)
    one = BEMKLClassifier(views={"a": "*"}, max_iter=5, verbose=0).fit(plain.rename(columns={"age": "*"}), Y)
    assert one.unused_columns_ == list(plain)[1:]  # a name is no pattern
    with pytest.raises(ValueError, match="must have columns of different names; 'age' comes 2 times"):
        BEMKLClassifier().fit(plain.rename(columns={"sex": "age"}), Y)
    arrow = pa.Table.from_pandas(plain)
    found = BEMKLClassifier(max_iter=5, verbose=0).fit(arrow, Y).predict_proba(arrow)
    np.testing.assert_array_equal(found, expected)


def test_categories_are_no_points():
    """What takes columns as points in space refuses categories by name."""
    with pytest.raises(
        ValueError, match="columns that gates see must hold numbers or yes or no; got categories"
    ):
        LMKLClassifier().fit(CLINIC, Y)
    with pytest.raises(ValueError, match="columns of a graph of neighbors must hold numbers or yes or no"):
        LapMKLClassifier().fit(CLINIC, Y)
    with pytest.raises(
        ValueError, match=r"columns with `landmarks` must .* Use `landmark_selection=.random.`"
    ):
        BEMKLClassifier(KernelBank(landmarks=8)).fit(CLINIC, Y)
    bank = KernelBank(landmarks=8, landmark_selection="random", scale=True)
    assert BEMKLClassifier(bank, max_iter=20, verbose=0).fit(CLINIC, Y).score(CLINIC, Y) > 0.6


def test_a_column_that_a_view_names_twice_counts_once():
    """By its name, its position, or a pattern."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["gene_a", "gene_b", "age"])
    once = KernelBank(Gaussian(), views={"genes": ["gene_b", "gene_a"], "age": "age"}).fit(frame)
    twice = KernelBank(Gaussian(), views={"genes": ["gene_b", "gene_*", 0], "age": ["age", "age"]}).fit(frame)
    for one, other in zip(once.views_, twice.views_, strict=True):
        np.testing.assert_array_equal(one.columns, other.columns)
    np.testing.assert_array_equal(once.transform(frame), twice.transform(frame))
