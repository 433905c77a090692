"""Samples that lack views, through the estimators: limits, forms of input, what predictions become, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.bemkl import VB
from bayesmkl.datasets import load_iris
from bayesmkl.kernels import Gaussian, Linear

VIEWS = {"sepal": [0, 1], "petal": [2, 3]}
BANK = KernelBank([Gaussian(width=1.5), Linear()], views=VIEWS)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(3).permutation(len(y))
    return StandardScaler().fit_transform(X)[rows], y[rows]


@pytest.fixture(scope="module")
def incomplete(iris):
    """The same, a third of the samples without sepals and another sixth without petals."""
    X = iris[0].copy()
    X[::3, :2] = np.nan
    X[1::6, 2:] = np.nan
    return X, iris[1]


@pytest.mark.parametrize("kind", ["shared", "one-versus-all", "multinomial"])
def test_with_all_views_it_is_the_plain_model(iris, kind):
    X, y = iris
    settings = {"multiclass": kind, "inference": VB(accelerate=False), "tol": 0.0, "max_iter": 15}
    plain = BEMKLClassifier(BANK, **settings, intermediate_scale=1.0).fit(X[:60], y[:60])
    ready = BEMKLClassifier(BANK, missing_views="integrate", **settings, intermediate_scale=1.0).fit(
        X[:60], y[:60]
    )
    np.testing.assert_allclose(ready.predict_proba(X[60:]), plain.predict_proba(X[60:]), rtol=1e-7)
    np.testing.assert_allclose(ready.kernel_weights_, plain.kernel_weights_, rtol=1e-7)
    assert np.shape(ready.intercept_) == np.shape(plain.intercept_)
    assert np.shape(ready.dual_coef_) == np.shape(plain.dual_coef_)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_with_all_views_regression_is_the_plain_model(iris, n_outputs):
    X, _ = iris
    y = X[:60, 2] if n_outputs == 1 else X[:60, 2:]
    settings = {"inference": VB(accelerate=False), "tol": 0.0, "max_iter": 15}
    bank = KernelBank(views={"a": 0, "b": 1})
    plain = BEMKLRegressor(bank, **settings).fit(X[:60, :2], y)
    ready = BEMKLRegressor(bank, missing_views="integrate", **settings).fit(X[:60, :2], y)
    for ours, theirs in zip(
        ready.predict(X[60:, :2], return_std=True), plain.predict(X[60:, :2], return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    assert np.shape(ready.intercept_) == np.shape(plain.intercept_)


@pytest.mark.heavy
def test_features_and_precomputed_kernels_are_the_same(incomplete):
    X, y = incomplete
    model = BEMKLClassifier(BANK, missing_views="integrate", tol=1e-4, intermediate_scale=1.0).fit(
        X[:90], y[:90]
    )
    bank = KernelBank(BANK.kernels, views=VIEWS, missing_views="keep")
    kernels = bank.fit_transform(X[:90])
    assert np.isnan(kernels).any()
    precomputed = BEMKLClassifier(
        "precomputed", missing_views="integrate", tol=1e-4, intermediate_scale=1.0
    ).fit(kernels, y[:90])
    np.testing.assert_allclose(
        precomputed.predict_proba(bank.transform(X[90:])), model.predict_proba(X[90:]), rtol=1e-9
    )
    assert model.score(X[90:], y[90:]) > 0.85


@pytest.mark.heavy
def test_a_missing_view_makes_predictions_less_sure(iris, incomplete):
    X, y = incomplete
    model = BEMKLRegressor(BANK, missing_views="integrate").fit(X[:100, :], y[:100].astype(float))
    rows = iris[0][100:].copy()
    _, complete = model.predict(rows, return_std=True)
    rows[:, 2:] = np.nan  # petals say most about the species
    _, without = model.predict(rows, return_std=True)
    assert (without > 1.2 * complete).mean() > 0.9


@pytest.mark.heavy
def test_folds_and_files(incomplete, tmp_path):
    X, y = incomplete
    model = BEMKLClassifier(BANK, missing_views="integrate", tol=1e-3, intermediate_scale=1.0)
    assert cross_val_score(model, X, y, cv=3).min() > 0.85
    save_model(model.fit(X, y), tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_two_classes_and_positive_weights(incomplete):
    X, y = incomplete
    two = y > 0
    model = BEMKLClassifier(BANK, missing_views="integrate", nonnegative=True, intermediate_scale=1.0).fit(
        X[two], y[two]
    )
    assert (model.kernel_weights_ > 0.0).all()
    assert np.ndim(model.intercept_) == 0
    assert model.target_.shape == model.dual_coef_.shape == (two.sum(),)
    assert model.score(X[two], y[two]) > 0.85
    again = BEMKLClassifier(
        BANK, missing_views="integrate", nonnegative=True, init=model.posterior_, intermediate_scale=1.0
    )
    assert again.fit(X[two], y[two]).n_iter_ <= model.n_iter_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, '(?s)contains NaN.*use `missing_views="integrate"`'),
        ({"missing_views": "drop"}, "`missing_views` must be one of 'error', 'integrate'; got 'drop'"),
        (
            {"missing_views": "integrate", "inference": "gibbs"},
            r'needs inference="vb"; got .*Leave incomplete',
        ),
        (
            {"missing_views": "integrate", "unlabeled_label": 0},
            "does not support samples without a label; got .*=0",
        ),
    ],
)
def test_bad_parameters(incomplete, parameters, message):
    with pytest.raises(ValueError, match=message):
        BEMKLClassifier(BANK, **parameters, intermediate_scale=1.0).fit(*incomplete)


def test_bad_data(incomplete):
    X, y = incomplete
    model = BEMKLClassifier(BANK, missing_views="integrate", tol=1e-3, intermediate_scale=1.0)
    nothing = X.copy()
    nothing[4] = np.nan
    with pytest.raises(ValueError, match=r"`X`.* view"):
        model.fit(nothing, y)
    some = X.copy()
    some[5, 0], some[5, 1] = np.nan, 1.0
    with pytest.raises(ValueError, match=r"view 'sepal'"):
        model.fit(some, y)
    with pytest.raises(ValueError, match=r"`X`.* view"):
        model.fit(X, y).predict(nothing[:6])
