"""Importance by permutation beside scikit-learn's, by hand, and where it is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesmkl import BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.gp import Design, Marginal
from bayesmkl.posterior import permutation_table

FEW = Marginal(n_points=200, n_draws=100)
VIEWS = {"a": [0, 1], "b": 2}


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(160, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 2]


@pytest.fixture(scope="module")
def model(data):
    X, y = data
    return GPMKLRegressor(KernelBank(["rbf"], views=VIEWS), inference=FEW).fit(X[:80], y[:80])


@pytest.mark.heavy
def test_views_of_one_column_are_as_important_as_scikit_learn_says(data):
    X, y = data
    model = GPMKLRegressor(KernelBank(["rbf"], views="each"), inference=FEW).fit(X[:80], y[:80])
    table = permutation_table(model, X[80:], y[80:], n_repeats=40, random_state=0)
    theirs = permutation_importance(model, X[80:], y[80:], n_repeats=40, random_state=1)
    ours = table.set_index("view").loc[["x0", "x1", "x2"]]
    error = np.sqrt((ours["std"] ** 2 + theirs.importances_std**2) / 40)
    assert (np.abs(ours["importance"] - theirs.importances_mean) < 4 * error + 1e-12).all()
    np.testing.assert_allclose(ours["std"], theirs.importances_std, rtol=0.5)
    assert table.attrs["score"] == model.score(X[80:], y[80:])


@pytest.mark.heavy
def test_columns_of_a_view_are_permuted_together(data):
    X, y = data[0], np.where(data[1] > 0, "yes", "no")
    bank = KernelBank(["rbf"], views=VIEWS)
    model = make_pipeline(StandardScaler(), GPMKLClassifier(bank, inference=FEW)).fit(X[:80], y[:80])
    table = permutation_table(model, X[80:], y[80:], scoring="neg_log_loss", n_repeats=3, random_state=5)
    rng, expected = np.random.default_rng(5), {}
    for name, columns in {"a": [0, 1], "b": [2]}.items():
        losses = []
        for _ in range(3):
            changed = X[80:].copy()
            changed[:, columns] = changed[rng.permutation(80)][:, columns]
            losses.append(log_loss(y[80:], model.predict_proba(changed)))
        expected[name] = np.mean(losses) - log_loss(y[80:], model.predict_proba(X[80:]))
    np.testing.assert_allclose(table.set_index("view")["importance"], pd.Series(expected), rtol=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize(("correlation", "tolerance"), [(0.95, 0.3), (0.0, 0.4)])
def test_a_view_is_important_as_far_as_it_says_more_than_others(correlation, tolerance):
    """A squared error rises by twice the variance of the view given the others where the score is the view itself."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2))
    X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
    y = X[:, 0] + 0.2 * rng.normal(size=500)
    model = GPMKLRegressor(KernelBank(["linear", "rbf"], views="each"), inference=FEW).fit(X[:150], y[:150])
    options = {"scoring": "neg_mean_squared_error", "n_repeats": 10, "random_state": 0}
    fall = {
        kind: permutation_table(model, X[150:], y[150:], conditional=kind, **options).set_index("view")
        for kind in (False, True)
    }
    left = 1.0 - correlation**2
    assert fall[False].loc["x0", "importance"] == pytest.approx(2.0, abs=0.3)
    assert fall[True].loc["x0", "importance"] == pytest.approx(2.0 * left, abs=tolerance)
    assert fall[True].loc["x1", "importance"] == pytest.approx(0.0, abs=0.05)


def test_absent_views_stay_absent(data):
    X, y = data
    absent = X.copy()
    absent[::4, :2] = np.nan
    bank = KernelBank(["rbf"], views=VIEWS)
    model = GPMKLRegressor(bank, missing_views="integrate", inference=FEW).fit(absent[:80], y[:80])
    seen = []

    def score(estimator, rows, target):
        seen.append(np.isnan(rows[:, 0]))
        return estimator.score(rows, target)

    table = permutation_table(
        model, absent[80:], y[80:], conditional=True, scoring=score, n_repeats=2, random_state=0
    )
    assert all((where == np.isnan(absent[80:, 0])).all() for where in seen)
    assert (table["importance"] > 0.1).all()


def test_frames_designs_and_searches(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(site=np.tile(["north", "south"], 80))
    bank = KernelBank(["rbf"], views={"a": ["u", "v"], "b": "w"})
    model = GPMKLRegressor(bank, design=Design(group_columns="site"), inference=FEW)
    table = permutation_table(model.fit(frame[:80], y[:80]), frame[80:], y[80:], random_state=0)
    assert set(table["view"]) == {"a", "b"}  # not the site, which kernels do not see
    search = GridSearchCV(UniformMKLClassifier(KernelBank(["rbf"], views=VIEWS)), {"C": [1.0, 10.0]}, cv=2)
    table = permutation_table(search.fit(X[:80], y[:80] > 0), X[80:], y[80:] > 0, random_state=0)
    assert table["view"][0] == "a"
    assert table["importance"][0] > 0.1


def test_bad_input_is_named(model, data):
    X, y = data
    with pytest.raises(TypeError, match=r"`model` must be an estimator of bayesmkl, .* got SVC"):
        permutation_table(SVC(), X, y)
    kernels = KernelBank(["rbf"]).fit_transform(X[:40])
    precomputed = UniformMKLClassifier("precomputed").fit(kernels, y[:40] > 0)
    with pytest.raises(ValueError, match="fitted to precomputed kernels, which have no columns"):
        permutation_table(precomputed, kernels, y[:40] > 0)
    alone = BEMKLRegressor(KernelBank(["rbf"])).fit(X, y)
    with pytest.raises(ValueError, match="got the single view"):
        permutation_table(alone, X, y, conditional=True)
    few = BEMKLRegressor(KernelBank(["rbf"], views=VIEWS, landmarks=10)).fit(X, y)
    with pytest.raises(ValueError, match="`conditional` must be False with landmarks"):
        permutation_table(few, X, y, conditional=True)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        permutation_table(model, X, y[:-1])
