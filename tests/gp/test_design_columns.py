"""Columns of a design that are missing, flags, or in units whose squares are no numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.gp import Design, Marginal
from bayesmkl.persistence import load_model, save_model
from bayesmkl.posterior import effect_table

FEW = Marginal(n_points=100, n_draws=100)
BANK = KernelBank(["rbf"], views={"protein": ["protein"]})
DESIGN = Design(covariate_columns="age", group_columns="treated", slope_columns={"treated": "age"})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["protein", "age"])
    X["treated"] = rng.integers(0, 2, size=40).astype(bool)
    y = np.sin(X["protein"]) + 0.5 * X["age"] + X["treated"] + 0.1 * rng.normal(size=40)
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def fitted(table):
    return GPMKLRegressor(BANK, design=DESIGN, inference=FEW, random_state=0).fit(*table)


@pytest.mark.parametrize("column", ["age", "treated"])
@pytest.mark.parametrize("dtype", [float, object, "Float64"])
def test_missing_values_name_the_column_and_the_remedy(table, fitted, column, dtype):
    X, y = table
    X = X.assign(**{column: X[column].astype(float).astype(dtype)})
    X.loc[[3, 7], column] = None
    message = (
        rf"`X` must have no missing values \(NaN, None\) in the columns of `design`; got 2 in '{column}', the first "
        r"in row 3\. .* fill them in, or leave these rows out\."
    )
    with pytest.raises(ValueError, match=message):
        GPMKLRegressor(BANK, design=DESIGN, missing_views="integrate", inference=FEW).fit(X, y)
    with pytest.raises(ValueError, match=message):
        fitted.predict(X)


def test_missing_values_of_arrays_are_named_by_position(table):
    X, y = table
    values = X.to_numpy(dtype=float)
    values[5, 2] = np.nan
    for design in (
        Design(group_columns=2),
        Design(task_column=2),
        Design(offset_column=2),
        Design(precision_column=2),
    ):
        model = GPMKLRegressor(KernelBank(["rbf"], views={"a": [0]}), design=design, inference=FEW)
        with pytest.raises(ValueError, match="got 1 in 'x2', the first in row 5"):
            model.fit(values, y)
        with pytest.raises(ValueError, match="got 1 in 'x2', the first in row 5"):
            model.fit(values.tolist(), y)


def test_flags_are_shown_as_they_are(table, fitted, tmp_path):
    X, y = table
    assert fitted.design_.labels == ((False, True),)
    levels = effect_table(fitted, levels=True)
    assert levels["level"].tolist() == [False, True] * 2
    assert levels["n_samples"].tolist() == [(~X["treated"]).sum(), X["treated"].sum()] * 2
    numbers = GPMKLRegressor(BANK, design=DESIGN, inference=FEW, random_state=0)
    numbers.fit(X.assign(treated=X["treated"].astype(int)), y)
    assert numbers.design_.labels == ((0, 1),)
    expected = numbers.predict(X.assign(treated=X["treated"].astype(int)))
    for rows in (
        X,
        X.assign(treated=X["treated"].astype(int)),
        X.assign(treated=X["treated"].astype("boolean")),
    ):
        np.testing.assert_allclose(fitted.predict(rows), expected, rtol=1e-9)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_allclose(fitted.predict(X.to_numpy(dtype=float)), expected, rtol=1e-9)
    save_model(fitted, tmp_path / "model.skops")
    np.testing.assert_allclose(load_model(tmp_path / "model.skops").predict(X), expected, rtol=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("trained", [(False, True), (0, 1), (0.0, 1.0), ("0", "1"), ("false", "true")])
@pytest.mark.parametrize("column", ["group_columns", "task_column"])
def test_groups_in_other_spellings_are_those_of_training(table, trained, column):
    X, y = table
    codes = X["treated"].astype(int).to_numpy()
    known = X.assign(treated=np.array(trained)[codes])
    model = GPMKLRegressor(BANK, design=Design(**{column: "treated"}), inference=FEW).fit(known, y)
    expected = model.predict(known, return_std=True)
    for spelled in (["0", "1"], ["FALSE", "True "], ["0.0", "01"], [False, True], [0, 1]):
        rows = X.assign(treated=np.array(spelled)[codes])
        for new in (rows, rows.convert_dtypes(), pl.from_pandas(rows)):
            np.testing.assert_allclose(model.predict(new, return_std=True), expected, rtol=1e-9)
    if column == "group_columns":
        std = model.predict(known.head(2).assign(treated=[str(trained[1]), "7"]), return_std=True)[1]
        assert std[1] > 2 * std[0]


def test_the_remedy_for_flags_that_became_text_gives_the_same_predictions(table, fitted):
    X, _ = table
    rows = X.assign(treated=np.where(X["treated"], "yes", "no"))
    with pytest.raises(
        ValueError, match=r"got '(yes|no)'\. Replace them: `X\['treated'\]\.map\({new: old, \.\.\.}\)`"
    ):
        fitted.predict(rows)
    rows["treated"] = rows["treated"].map({"yes": True, "no": False})
    np.testing.assert_array_equal(fitted.predict(rows), fitted.predict(X))


def test_labels_of_numbers_and_text_are_those_of_training(table):
    X, y = table
    mixed = X.assign(site=np.array([1, "a"], dtype=object)[np.arange(40) % 2])[["protein", "site"]]
    model = GPMKLRegressor(BANK, design=Design(group_columns="site"), inference=FEW).fit(mixed, y)
    text = mixed.assign(site=mixed["site"].map({1: "one", "a": "a"}))
    other = GPMKLRegressor(BANK, design=Design(group_columns="site"), inference=FEW).fit(text, y)
    np.testing.assert_allclose(model.predict(mixed), other.predict(text), atol=0.3)
    assert model.design_.labels == ((1, "a"),)


@pytest.mark.parametrize("power", [-990, 660])
def test_effects_of_extreme_units_are_those_of_others(table, fitted, power):
    """A power of two, in which no digit changes."""
    X, y = table
    far = GPMKLRegressor(BANK, design=DESIGN, inference=FEW, random_state=0)
    far.fit(X.assign(age=np.ldexp(X["age"], power)), y)
    for levels in (False, True):
        own, near = effect_table(far, levels=levels), effect_table(fitted, levels=levels)
        per_unit = own["kind"].ne("group") if levels else own["effect"].ne("treated")
        numbers = ["mean", "std", "lower", "upper", "mean_mcse", "lower_mcse", "upper_mcse"]
        found = np.ldexp(own.loc[per_unit, numbers], power)
        np.testing.assert_allclose(found, near.loc[per_unit, numbers], rtol=1e-6)
        assert np.isfinite(own[numbers]).all(axis=None)
        assert (own["std"] > 0.0).all()
