"""Banks by the types of columns: what is chosen, what comes out of the encoder, and what models make of it."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.kernels import Overlap, make_bank
from bayesmkl.kernels.tables import as_days

N = 60


def _clinic():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "age": rng.normal(60, 9, size=N),
            "count": pd.array(rng.integers(0, 9, size=N), dtype="Int64"),
            "sex": rng.choice(["f", "m"], size=N),
            "smoker": pd.array(rng.choice([True, False], size=N), dtype="boolean"),
            "grade": pd.Categorical(rng.choice(["I", "II", "III"], size=N)),
            "visit": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, size=N), unit="D"),
            "id": [f"p{i}" for i in range(N)],
            "same": 1.0,
        },
        index=np.arange(N) + 1000,
    )
    frame.loc[1003, "age"], frame.loc[1004, "smoker"] = np.nan, pd.NA
    frame.loc[1005, "visit"], frame.loc[1006, "count"], frame.loc[1007, "grade"] = pd.NaT, pd.NA, np.nan
    return frame


CLINIC = _clinic()
Y = ((CLINIC["age"] > 60) ^ (CLINIC["sex"] == "f")).to_numpy()


def test_types_of_columns_become_views():
    made = make_bank(CLINIC)
    assert made.bank.views == {
        "numbers": ["age", "count"], "categories": ["sex", "smoker", "grade"], "dates": ["visit"]
    }  # fmt: skip
    assert repr(made.bank.kernels["categories"]) == "Overlap()"
    assert set(made.left_out) == {"id", "same"}
    assert str(made).splitlines()[0] == "numbers: 'auto' of age, count"
    assert repr(eval(repr(made.bank), {"KernelBank": KernelBank, "Overlap": Overlap})) == repr(made.bank)
    fits = make_bank(CLINIC, max_categories=N)
    assert fits.bank.views["categories"] == ["sex", "smoker", "grade", "id"]


def test_named_views_are_split_by_type():
    made = make_bank(CLINIC, {"who": ["age", "sex"], "clinic": slice(4, 6), "counts": 1})
    assert made.bank.views == {
        "who: numbers": ["age"],
        "who: categories": ["sex"],
        "clinic: categories": ["grade"],
        "clinic: dates": ["visit"],
        "counts": ["count"],
    }
    assert made.left_out == dict.fromkeys(("smoker", "id", "same"), "in no view")


def test_the_encoder_gives_standardized_numbers_codes_and_days():
    encoded = make_bank(CLINIC).encoder.fit_transform(CLINIC)
    assert list(encoded.index) == list(CLINIC.index)
    assert not encoded.isna().any(axis=None)
    age = (CLINIC["age"] - CLINIC["age"].mean()) / CLINIC["age"].std(ddof=0)
    np.testing.assert_allclose(encoded["age"], age.fillna(age.median()), rtol=1e-12)
    day = (CLINIC["visit"] - CLINIC["visit"].min()).dt.days
    known = day.notna()
    assert np.corrcoef(encoded["visit"][known], day[known])[0, 1] == pytest.approx(1.0, abs=1e-12)
    codes = encoded["grade"].astype(int)
    assert codes[1007] == -2
    agree = codes.to_numpy()[:, None] == codes.to_numpy()
    text = CLINIC["grade"].astype(object).fillna("none").to_numpy()
    np.testing.assert_array_equal(agree, text[:, None] == text)


def test_a_pipeline_predicts_for_unseen_categories_and_survives_a_file(tmp_path):
    made = make_bank(CLINIC, types={"count": "categories"})
    model = make_pipeline(made.encoder, BEMKLClassifier(made.bank, intermediate_scale=1.0)).fit(CLINIC, Y)
    new = pd.concat([CLINIC.head(4).assign(sex="x", grade="IV", count=99), CLINIC.tail(1)])
    codes = model[0].transform(new)[:4]
    np.testing.assert_array_equal(codes[["sex", "grade", "count"]], -1.0)
    kernels = model[-1].kernel_bank_.transform(codes)
    smoker = CLINIC["smoker"].astype(object).fillna("none").to_numpy()
    place = model[-1].kernel_bank_.kernel_names_.index("overlap · categories")
    np.testing.assert_allclose(kernels[..., place], (smoker[:4, None] == smoker) / 4, atol=1e-15)
    save_model(model, tmp_path / "clinic.bayesmkl")
    np.testing.assert_array_equal(
        load_model(tmp_path / "clinic.bayesmkl").predict_proba(new), model.predict_proba(new)
    )


DAYS = [datetime.date(2024, 1, day + 1) for day in range(12)]
COLUMNS = {  # name: values of 12 samples, the type of the column, the same as plain values
    "nullable text": (pd.array(["a", "b", None] * 4, dtype="string"), "categories", ["a", "b", None] * 4),
    "text with NA": (np.array(["a", pd.NA, None, "b"] * 3, dtype=object), "categories", ["a", None, None, "b"] * 3),
    "answers with NA": (np.array([True, False, pd.NA, None] * 3, dtype=object), "categories", list("tf  ") * 3),
    "unused": (pd.Categorical(["a", "b"] * 6, categories=list("dcba")), "categories", ["a", "b"] * 6),
    "whole": (pd.Categorical([1, 2, None] * 4), "categories", [1.0, 2.0, None] * 4),
    "polars": (pl.Series(["a", "b", None] * 4, dtype=pl.Enum(["b", "a"])), "categories", ["a", "b", None] * 4),
    "numbers with NA": (np.array([1, 2.5, pd.NA] * 4, dtype=object), "numbers", [1.0, 2.5, None] * 4),
    "decimals": ([Decimal(j) for j in range(12)], "numbers", np.arange(12.0)),
    "large": (np.array([2**70 + j * 2**60 for j in range(12)], dtype=object), "numbers", np.arange(12.0)),
    "polars decimals": (pl.Series([Decimal(j) for j in range(12)]), "numbers", np.arange(12.0)),
    "days": (DAYS, "dates", np.arange(12.0)),
    "polars days": (pl.Series(DAYS), "dates", np.arange(12.0)),
    "zones": (
        [pd.Timestamp(day, tz="UTC" if day.day % 2 else "Etc/GMT+12") for day in DAYS],
        "dates",
        np.arange(12.0) + np.arange(12) % 2 / 2,
    ),
    "some zones": (
        np.array([pd.Timestamp(day, tz="UTC" if day.day % 2 else None) for day in DAYS], dtype=object),
        "dates",
        np.arange(12.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_any_type_are_their_plain_values(name):
    values, kind, plain = COLUMNS[name]
    frame = (pl.DataFrame if isinstance(values, pl.Series) else pd.DataFrame)({"a": values})
    made = make_bank(frame)
    assert made.bank.views == {kind: ["a"]}
    encoded = made.encoder.fit_transform(frame)["a"].to_numpy()
    if kind == "categories":
        text = np.array([str(value) for value in plain])
        np.testing.assert_array_equal(encoded[:, None] == encoded, text[:, None] == text)
    else:
        column = pd.Series(plain, dtype=float)
        column = (column - column.mean()) / column.std(ddof=0)
        np.testing.assert_allclose(encoded, column.fillna(column.median()), rtol=1e-9, atol=1e-9)


def test_columns_that_tell_training_samples_nothing_are_zero():
    nothing = pd.DataFrame(
        {"seen": pd.to_datetime([None] * 6 + DAYS[6:]), "dose": [5.0] * 6 + [80.0, 90.0] * 3}
    )
    frame = nothing.assign(x=np.arange(12.0), site=[None] * 6 + ["a", "b"] * 3)
    encoder = make_bank(frame).encoder.fit(frame[:6])
    encoded = encoder.transform(frame)
    np.testing.assert_array_equal(encoded[["seen", "dose"]], 0.0)
    np.testing.assert_allclose(encoded["x"], (np.arange(12) - 2.5) / np.std(np.arange(6)), rtol=1e-12)
    np.testing.assert_array_equal(encoded["site"], [-2] * 6 + [-1] * 6)
    back = make_bank(frame).encoder.fit(frame[6:]).transform(frame)  # new samples have no category at all
    np.testing.assert_array_equal(back["site"], [-1] * 6 + [0, 1] * 3)


SPELLINGS = [  # categories of training samples, and the same ones as later samples may have them
    ((True, False), [
        *([1, 0], [1.0, 0.0], ["1", "0"], ["1.0", "0.0"], ["01", "00"], ["true", "false"], ["TRUE", "FALSE"]),
        *(["True ", " False"], [" tRUE", "fALSE\t"], [Decimal(1), Decimal("0.0")], pl.Series([True, False])),
        *(pd.array([1, 0], dtype=dtype) for dtype in ("boolean", "Int64", "Float32", "float16", "category")),
        *(pl.Series(["1", "0"], dtype=dtype) for dtype in (pl.String, pl.Categorical, pl.Enum(["1", "0"]))),
    ]),
    ((0, 1), [
        *([False, True], ["False", "True"], ["FALSE ", "true"], ["0", "1"], ["0.0", "1.0"], ["00", "01"], [0.0, 1.0]),
        *(pd.array([False, True], dtype="boolean"), pl.Series([False, True])),
    ]),
    (("true", "false", "unknown"), [[True, False, "Unknown"], [1, 0, "unknown "], ["1", "0", "UNKNOWN"]]),
    (("yes", "no"), [["Yes", "No"], [" YES ", "NO"], ["yes\u00a0", "no "], pl.Series(["YES", "no"])]),
    ((1, 2, 3), [
        *([1.0, 2.0, 3.0], ["1", "2", "3"], ["1.0", "2.0", "3.0"], ["01", "02", "03"], ["1 ", " 2", "+3"]),
        *(pd.array([1, 2, 3], dtype=dtype) for dtype in ("Int64", "float32", "string")),
    ]),
    (("01", "02"), [[1, 2], [1.0, 2.0], ["1", "2"], ["1.0", "2.00"], pd.array([1, 2], dtype="Int8")]),
    ((0.1, 2.5), [["0.1", "2.5"], ["0.10", "2.50"], pd.array([0.1, 2.5], dtype="float32"), [Decimal("0.10"), 2.5]]),
    (("Stage I", "\u00e9"), [["stage I", "\u00e9 "], ["Stage  I", "\u00c9"], ["stage i", "e\u0301"]]),
    (("a", "A", "b"), [["a ", " A", "b"], pd.array(["a", "A", "b"], dtype="category")]),
    (("1", "01", "x"), [[1, "01", "X"], pl.Series(["1 ", "01", "x"])]),
    (("x", None), [["X", None], ["x ", ""], ["X", " "], [" x", pd.NA], pl.Series(["x", None]), ["x", np.nan]]),
    ((True, None), [[1, None], ["true", ""], ["TRUE", None], pd.array([True, None], dtype="boolean"), [1.0, None]]),
    ((1.0, None), [["1", ""], [True, None], pd.array([1, None], dtype="Int64"), ["1.0", None], ["TRUE", pd.NA]]),
]  # fmt: skip
OTHERS = [  # categories of training samples, and columns that have none of them
    ((True, False), [["T", "F"], ["yes", "no"], [2, 3], ["on", None]]),
    (("yes", "no"), [[True, False], [1, 0], ["y", "n"]]),
    ((1, 2, 3), [[True, False], ["true", "4"], DAYS, [datetime.timedelta(1)], pl.Series([DAYS[0]])]),
    (("a", "A", "b"), [["B", "B "], ["c"]]),
    (("1", "01", "x"), [["1.0", "001"], [True]]),
    (("x", None), [[True, None], ["o", ""]]),
    ((2**53, 2**53 + 2), [[2**53 + 1]]),
]


def _encoder_of(known):
    frame = pd.DataFrame({"a": known * 6, "x": range(6 * len(known))})
    encoder = make_bank(frame, types={} if None in known else {"a": "categories"}).encoder
    return encoder, encoder.fit_transform(frame)["a"][: len(known)]


def _codes(encoder, spelled):
    frame = pl.DataFrame if isinstance(spelled, pl.Series) else pd.DataFrame
    return encoder.transform(frame({"a": spelled, "x": range(len(spelled))}))["a"]


@pytest.mark.heavy
@pytest.mark.parametrize(("known", "spellings"), SPELLINGS, ids=range(len(SPELLINGS)))
def test_categories_in_other_spellings_are_those_of_training(known, spellings):
    encoder, codes = _encoder_of(known)
    assert len(set(codes)) == len(known)
    for spelled in spellings:
        np.testing.assert_array_equal(_codes(encoder, spelled), codes, err_msg=repr(spelled))


@pytest.mark.heavy
@pytest.mark.parametrize(("known", "others"), OTHERS, ids=range(len(OTHERS)))
def test_a_column_without_a_known_category_is_refused(known, others):
    encoder, _ = _encoder_of(known)
    message = (
        r"column 'a' must hold categories of training, .*; got none of them, but \[.* leave the column empty"
    )
    for other in others:
        with pytest.raises(ValueError, match=message):
            _codes(encoder, other)
        assert _codes(encoder, [known[0], *other]).iloc[1:].max() < 0.0
        assert _codes(encoder, [None for _ in other]).max() < 0.0


@pytest.mark.parametrize("tick", ["x", True, 1, 1.0, "2024-05-01"])
def test_boxes_that_are_ticked_or_empty_are_categories(tick):
    ticked = np.arange(N) % 3 == 0
    for empty in (None, np.nan, pd.NA, *([" "] if isinstance(tick, str) else [])):
        frame = pd.DataFrame({"box": [tick if own else empty for own in ticked], "x": np.arange(N)})
        made = make_bank(frame)
        assert (made.left_out, made.bank.views["categories"]) == ({}, ["box"])
        np.testing.assert_array_equal(made.encoder.fit_transform(frame)["box"], np.where(ticked, 0, -2))
    for other in (tick, None, np.where(ticked, 7.5, np.nan)):
        assert make_bank(frame.assign(box=other)).left_out["box"] in ("one value", "no values")


@pytest.mark.heavy
@pytest.mark.parametrize("model", [GPMKLRegressor, BEMKLRegressor])
def test_samples_that_lack_a_named_view_are_less_certain(model):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]).assign(site=rng.choice(["u", "v"], 300))
    y, lost = X["a"] + X["b"] + 0.3 * rng.normal(size=300), rng.random(300) < 0.4
    X.loc[lost, "b"], X.loc[X["a"] > 1.0, "site"] = np.nan, None  # a view, and a part of another one
    made = make_bank(X, {"first": ["a", "site"], "second": ["b"]})
    fitted = make_pipeline(made.encoder, model(made.bank, missing_views="integrate")).fit(X[:200], y[:200])
    std = fitted.predict(X[200:], return_std=True)[1]
    found = [std[lost[200:]].mean(), std[~lost[200:]].mean()]
    np.testing.assert_allclose(found, [1.08, 0.3], atol=0.1)
    with pytest.raises(ValueError, match=r"NaN, in column 'b' .*use `missing_views=\"integrate\"`"):
        make_pipeline(made.encoder, model(made.bank)).fit(X, y)


def test_days_of_dates_of_any_kind():
    times = ["2024-02-29 06:00", "1969-12-31 12:00"]
    expected = [19782.25, -0.5]
    for column in (pd.to_datetime(times), pd.to_datetime(times).tz_localize("UTC"), times):
        np.testing.assert_allclose(as_days(pd.DataFrame({"a": column}))["a"], expected)
    zoned = pd.to_datetime(["2024-02-29 07:00"]).tz_localize("Europe/Berlin")
    np.testing.assert_allclose(as_days(pd.DataFrame({"a": zoned}))["a"], 19782.25)


FRAME = pd.DataFrame({"text": ["a", "b"] * 6, "x": np.arange(12.0), "year": np.arange(2010, 2022)})


@pytest.mark.parametrize(
    ("types", "new", "message"),
    [
        ({"text": "numbers"}, FRAME, "column .text. must hold numbers: Unable to parse string .a..*types="),
        ({"text": "dates"}, FRAME, "column .text. must hold dates: "),
        ({"text": "dates"}, FRAME.assign(text="02/03/2024"), "column .text. must hold dates: .*02/03/2024"),
        ({"year": "dates"}, FRAME, "column .year. must hold dates: got int64, and no unit of it"),
        ({}, FRAME.assign(x=np.inf), "column .x. must hold numbers: got infinity"),
    ],
    ids=range(5),
)
def test_columns_of_another_type_are_named(types, new, message):
    with pytest.raises(ValueError, match=message):
        make_bank(FRAME, types=types).encoder.fit(new)


@pytest.mark.parametrize("kind", ["datetime64", "timedelta64", "complex128"])
def test_numbers_that_became_dates_or_durations_are_refused(kind):
    encoder = make_bank(FRAME).encoder.fit(FRAME)
    column = pd.Series(np.arange(12).astype(f"{kind}[D]" if kind.endswith("64") else kind))
    message = rf"column 'x' must hold numbers: got {kind}.*Timedelta\(days=1\)"
    for values in (column, column.astype(object), column.astype("category")):
        with pytest.raises(ValueError, match=message):
            encoder.transform(FRAME.assign(x=values))
    if kind != "complex128":
        with pytest.raises(ValueError, match=message):
            encoder.transform(pl.from_pandas(FRAME.assign(x=column)))


WRONG = [
    (lambda: make_bank(CLINIC.to_numpy()), TypeError, "`frame` must be a pandas or polars DataFrame; got ndarray"),
    (lambda: make_bank(CLINIC.set_axis(range(8), axis=1)), ValueError, "different names that are text"),
    (lambda: make_bank(CLINIC[[]]), ValueError, "all are left out: there are none"),
    (lambda: make_bank(CLINIC, {}), ValueError, "`views` must be a mapping .* got {}"),
    (lambda: make_bank(CLINIC, ["age"]), ValueError, "`views` must be a mapping"),
    (lambda: make_bank(CLINIC, {"a": ["agee"]}), ValueError, "names the column 'agee'.* did you mean 'age'"),
    (lambda: make_bank(CLINIC, {"a": "age", "b": ["age", "sex"]}), ValueError, "'age' comes 2 times"),
    (lambda: make_bank(CLINIC, {"a": "id"}), ValueError, "must have a column that can be used; .* id .60 different"),
    (lambda: make_bank(CLINIC, {1: "age", "1": "sex"}), ValueError, "different names; '1' comes twice"),
    (lambda: make_bank(CLINIC, {"a": ["age", "sex"], "a: numbers": "count"}), ValueError, "'a: numbers' comes twice"),
    (lambda: make_bank(CLINIC, types=["numbers"]), TypeError, "`types` must be a mapping"),
    (lambda: make_bank(CLINIC, types={"agee": "numbers"}), ValueError, "`types` names the column 'agee'"),
    (lambda: make_bank(CLINIC, types={"age": "text"}), ValueError, "`types` must .* got 'text' for 'age'"),
    (lambda: make_bank(CLINIC, max_categories=1), ValueError, "`max_categories` must be"),
    (lambda: make_bank(pl.LazyFrame({"a": [1.0]})), TypeError, "LazyFrame, which is evaluated when asked"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_table_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
