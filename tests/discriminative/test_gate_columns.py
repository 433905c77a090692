"""Gates by columns of the samples: the same numbers as with features beside precomputed kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import KernelBank
from bayesmkl.discriminative import LDMKLClassifier, LMKLClassifier, LMKLRegressor, SwMKLClassifier
from bayesmkl.evaluation import compare_models
from bayesmkl.kernels import Laplacian

NAMES = ["place", "left", "right", "time"]
GATES = ["time", "place"]
POSITIONS = [3, 0]
N_TRAIN = 40
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
# LibSVM has none of these kernels: both routes form matrices
BY_KERNEL = {"gate_kernel": Laplacian(gamma=0.7), "random_state": 0}
MODELS = {
    "lmkl": LMKLClassifier(max_iter=5, tol=1e-9),
    "lmkl mwu": LMKLClassifier(max_iter=3, svm="mwu"),
    "lmkl regressor": LMKLRegressor(max_iter=5, tol=1e-9),
    "swmkl": SwMKLClassifier(**BY_KERNEL),
    "ldmkl": LDMKLClassifier(**BY_KERNEL),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(60, 4))
    return pd.DataFrame(X, columns=NAMES), np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0


def bank(views="each"):
    return KernelBank(Laplacian(gamma=0.5), views=views, normalize=None)


def gated(model, views="each", gate_columns=GATES):
    return clone(model).set_params(kernels=bank(views), gate_columns=gate_columns)


def scores(model, X, **more):
    return getattr(model, "decision_function", model.predict)(X, **more)


@pytest.mark.heavy
@every_model
@pytest.mark.parametrize("form", ["names", "positions", "mask"])
def test_columns_are_features_beside_precomputed_kernels(data, model, form):
    X, y = data
    columns = {"names": GATES, "positions": [-1, 0], "mask": [True, False, False, True]}[form]
    X = X if form == "names" else X.to_numpy()
    train, new = X[:N_TRAIN], X[N_TRAIN:]
    found = gated(model, gate_columns=columns).fit(train, y[:N_TRAIN])
    order = sorted(POSITIONS) if form == "mask" else POSITIONS
    features, of_new = np.asarray(train)[:, order], np.asarray(new)[:, order]
    seen = bank().fit(np.asarray(train)[:, 1:3])
    stack, rows = seen.transform(np.asarray(train)[:, 1:3]), seen.transform(np.asarray(new)[:, 1:3])
    given = clone(model).set_params(kernels="precomputed").fit(stack, y[:N_TRAIN], gate_features=features)
    np.testing.assert_allclose(scores(found, new), scores(given, rows, gate_features=of_new), atol=1e-12)
    np.testing.assert_allclose(found.gates(new), given.gates(rows, of_new), atol=1e-12)
    expected = given.combined_kernel(rows, gate_features=of_new)
    np.testing.assert_allclose(found.combined_kernel(new), expected, atol=1e-12)
    np.testing.assert_array_equal(found.gate_columns_, order)
    assert (found.n_gate_features_, given.gate_columns_) == (2, None)
    assert np.ptp(found.gates(new), axis=0).min() > 1e-3


@pytest.mark.parametrize(
    ("views", "seen"),
    [
        ("all", {"all": [1, 2]}),
        ("each", {"left": [1], "right": [2]}),
        ("all+each", {"all": [1, 2], "left": [1], "right": [2]}),
        ({"own": ["time", "left"], "rest": slice(2, 3)}, {"own": [3, 1], "rest": [2]}),
    ],
)
def test_kernels_see_columns_of_gates_only_where_a_view_names_them(data, views, seen):
    X, y = data
    model = gated(MODELS["lmkl"], views).fit(X, y)
    found = {view.name: view.columns.tolist() for view in model.kernel_bank_.views_}
    assert found == seen
    plain = clone(MODELS["lmkl"]).set_params(kernels=bank(views)).fit(X, y)
    assert plain.gate_columns_ is None
    assert plain.n_gate_features_ == 4


def test_a_column_may_be_called_all(data):
    X, y = data
    model = gated(MODELS["lmkl"], "all+each", ["time"]).fit(X.rename(columns={"place": "all"}), y)
    found = [view.columns.tolist() for view in model.kernel_bank_.views_]
    assert found == [[0, 1, 2], [0], [1], [2]]


def precomputed_scores(model, X, y, folds):
    """Return the accuracies of the route with precomputed kernels and `gate_features`."""
    X, found = X.to_numpy(), []
    for train, test in folds:
        seen = bank().fit(X[train][:, 1:3])
        given = clone(model).set_params(kernels="precomputed")
        given.fit(seen.transform(X[train][:, 1:3]), y[train], gate_features=X[train][:, POSITIONS])
        rows = seen.transform(X[test][:, 1:3])
        found.append(given.score(rows, y[test], gate_features=X[test][:, POSITIONS]))
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["lmkl", "swmkl", "ldmkl"])
def test_searches_and_comparisons_need_no_routing(data, name):
    X, y = data
    model, folds = MODELS[name], list(FOLDS.split(X, y))
    expected = precomputed_scores(model, X, y, folds)
    steps = make_pipeline(StandardScaler(with_mean=False, with_std=False).set_output(transform="pandas"))
    steps.steps.append(("model", gated(model)))
    search = GridSearchCV(steps, {"model__C": [model.C]}, cv=folds, error_score="raise").fit(X, y)
    found = [search.cv_results_[f"split{k}_test_score"][0] for k in range(3)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert search.predict(X).shape == (60,)
    table = compare_models({name: gated(model)}, X, y, cv=folds, scoring="accuracy")
    np.testing.assert_allclose(table.scores("accuracy")[name], expected, atol=1e-12)
    assert len(set(expected)) > 1


# ------------------------------------------------------------------------------------------------------ bad input


def test_names_of_columns_need_a_frame(data):
    X, y = data
    with pytest.raises(
        ValueError, match=r"`gate_columns` names the column 'time', but `X` has no column names"
    ):
        gated(MODELS["lmkl"]).fit(X.to_numpy(), y)
    numbered = X.set_axis([3, 2, 1, 0], axis=1)
    with pytest.raises(
        ValueError, match=r"`gate_columns` has 3, which is the label .*, while `gate_columns` counts"
    ):
        gated(MODELS["lmkl"], gate_columns=[3]).fit(numbered, y)


def test_columns_of_gates_hold_numbers(data):
    X, y = data
    with pytest.raises(
        ValueError,
        match="`gate_columns` must hold numbers or yes or no; got categories such as 'noon' in 'time'",
    ):
        gated(MODELS["lmkl"]).fit(X.assign(time="noon"), y)


@every_model
def test_precomputed_kernels_have_no_columns_of_gates(model):
    precomputed = clone(model).set_params(kernels="precomputed", gate_columns=[0])
    with pytest.raises(ValueError, match=r"`gate_columns` must be None with precomputed .*`gate_features`"):
        precomputed.fit(np.ones((4, 4, 2)), [0, 1, 0, 1])


@pytest.mark.parametrize("estimator", [SwMKLClassifier, LDMKLClassifier])
def test_gates_that_see_kernels_have_no_columns(data, estimator):
    with pytest.raises(ValueError, match=r'`gate_columns` must be None with `gate_kernel="own"`'):
        estimator(bank(), gate_kernel="own", gate_columns=GATES).fit(*data)


@pytest.mark.heavy
@every_model
@pytest.mark.parametrize("gate_columns", [GATES, None])
def test_features_beside_samples_are_refused(data, model, gate_columns, monkeypatch):
    X, y = data
    said = r"`gate_features` must be None with kernels made from samples; .*`gate_columns=\[-1\]`"
    with monkeypatch.context() as patched:
        patched.setattr(KernelBank, "_learn", lambda *_, **__: pytest.fail("kernels were learned"))
        with pytest.raises(ValueError, match=said):
            gated(model, gate_columns=gate_columns).fit(X, y, gate_features=X)
    fitted = gated(model, gate_columns=gate_columns).fit(X, y)
    for method in ("predict", "decision_function", "gates", "combined_kernel"):
        if hasattr(fitted, method):
            with pytest.raises(ValueError, match=said):
                getattr(fitted, method)(X, gate_features=X)


@pytest.mark.parametrize("estimator", [LDMKLClassifier, SwMKLClassifier])
def test_columns_that_are_the_same_everywhere_are_named(data, estimator):
    X, y = (
        np.column_stack([np.random.default_rng(0).normal(size=(40, 2)), np.full(40, 3.0)]),
        np.arange(40) % 2,
    )
    with pytest.raises(
        ValueError, match=r"`gate_columns` \[2\] must differ between training samples.* got .*3\."
    ):
        estimator(gate_columns=[2]).fit(X, y)
    kernel = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=-1))
    with pytest.raises(ValueError, match="`gate_features` must differ between training samples"):
        estimator("precomputed").fit(kernel, y, gate_features=X[:, 2])
