"""Weights of samples and classes: what twice and not at all mean, the SVM inside, and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from cases import EVERY, known
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import has_fit_parameter

from bayesmkl import KernelBank
from bayesmkl.discriminative import Simple
from bayesmkl.discriminative.svm.libsvm import (
    EpsilonInsensitive,
    Hinge,
    classification_box,
    regression_box,
    solve_box,
    solve_svm,
    solve_svr,
    spread_of,
)
from bayesmkl.kernels import FromDistance, Gaussian, Linear

WEIGHTED = [name for name, cls in EVERY.items() if has_fit_parameter(cls(), "sample_weight")]
CLASSES = [name for name in WEIGHTED if name.endswith("Classifier")]
LEARNED = KernelBank(
    [Gaussian(relative_width=1.0), FromDistance(), Linear()], normalize=("center", "trace")
)  # all that a bank learns
FIXED = KernelBank([Gaussian(width=1), Linear()])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    weights = rng.integers(0, 4, 30).astype(float)
    y = (X[:, 0] + 0.5 * rng.normal(size=30) > 0).astype(int) + (X[:, 1] > 0.3)
    return X, y, X[:, 0] + 0.3 * rng.normal(size=30), weights


@pytest.fixture(scope="module")
def kernel(data):
    X = data[0]
    return np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2)) + 0.2 * X @ X.T


def fitted(name, bank, X, y, sample_weight=None, **parameters):
    exactly = {"tol": 1e-8, "max_iter": 5000}
    by_rule = {"weights": Simple(**exactly)} if name.startswith("MKL") else {}
    settings = known(name, exactly) | by_rule | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tolerance is below what rounding allows some
        return EVERY[name](bank, **settings).fit(X, y, sample_weight=sample_weight)


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def objective(model):
    histories = model.objective_history_
    return sum(h[-1] for h in histories) if isinstance(histories, tuple) else histories[-1]


def close(found, expected, share):
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.abs(expected).max())


# ----------------------------------------------------------------------------------------- twice, and not at all


@pytest.mark.heavy
@pytest.mark.parametrize("name", WEIGHTED)
def test_degenerate_whole_weights_are_repeated_samples(data, name):
    """Also for widths, distances, means and traces that the bank learns, and with a class that is gone."""
    X, classes, target, weights = data
    if name in CLASSES:
        y = np.where((np.arange(30) == 3) | (np.arange(30) == 5), 7, classes)  # a class without weight
        weights = np.where(y == 7, 0.0, weights)
    else:
        y = np.where(weights == 0.0, 1e6, target)  # a number that nobody looks at
    counts = weights.astype(int)
    model = fitted(name, LEARNED, X, y, weights)
    repeated = fitted(name, LEARNED, X.repeat(counts, axis=0), y.repeat(counts))
    direct = name.startswith(("Uniform", "Alignment", "OBMKL", "Simple"))
    close(scores(model, X), scores(repeated, X), 1e-6 if direct else 1e-3)
    close(model.kernel_weights_, repeated.kernel_weights_, 1e-6 if direct else 2e-3)
    assert objective(model) == pytest.approx(objective(repeated), rel=1e-6)
    assert model.dual_coef_.shape[-1] == 30
    assert not model.dual_coef_[..., counts == 0].any()
    if name in CLASSES:
        assert list(model.classes_) == [0, 1, 2]


@pytest.mark.parametrize("method", ["ratio", "convex", "align", "alignf"])
def test_degenerate_alignments_count_samples(data, method):
    X, classes, target, weights = data
    counts = weights.astype(int)
    for name, y in (("AlignmentMKLClassifier", classes > 0), ("AlignmentMKLRegressor", target)):
        model = fitted(name, LEARNED, X, y, weights, method=method)
        repeated = fitted(name, LEARNED, X.repeat(counts, axis=0), y.repeat(counts), method=method)
        close(model.kernel_weights_, repeated.kernel_weights_, 1e-10)
        close(scores(model, X), scores(repeated, X), 1e-6)
        if method == "convex":
            assert objective(model) == pytest.approx(objective(repeated), rel=1e-10)


@pytest.mark.parametrize("method", ["ratio", "qp"])
def test_degenerate_optimal_kernels_count_samples(data, method):
    X, y, _, weights = data
    counts, more = weights.astype(int), {"method": method, "multiclass": "shared"}
    model = fitted("OBMKLClassifier", LEARNED, X, y, weights, **more)
    repeated = fitted("OBMKLClassifier", LEARNED, X.repeat(counts, axis=0), y.repeat(counts), **more)
    close(model.kernel_weights_, repeated.kernel_weights_, 1e-10)
    close(scores(model, X), scores(repeated, X), 1e-6)
    assert objective(model) == pytest.approx(objective(repeated), rel=1e-6)


@pytest.mark.parametrize("name", ["AlignmentMKLRegressor", "SimpleMKLClassifier", "LpMKLRegressor"])
def test_equivariance_only_the_product_of_weights_and_C_matters(data, name):
    X, y, target, weights = data
    y = y > 0 if name in CLASSES else target
    once = fitted(name, FIXED, X, y, 2.5 * weights, C=0.8)
    again = fitted(name, FIXED, X, y, weights, C=2.0)
    close(scores(once, X), scores(again, X), 1e-5)
    close(once.kernel_weights_, again.kernel_weights_, 1e-4)


def test_degenerate_weights_of_one_change_nothing(data):
    X, y, target, _ = data
    for name in ("LpMKLClassifier", "AlignmentMKLRegressor"):
        labels = y if name in CLASSES else target
        model, plain = (fitted(name, LEARNED, X, labels, w, tol=1e-3) for w in (np.ones(30), None))
        np.testing.assert_array_equal(scores(model, X), scores(plain, X))


# ------------------------------------------------------------------------------------------------- the SVM inside


@pytest.mark.parametrize("name", ["AlignmentMKLClassifier", "SimpleMKLClassifier", "GMKLClassifier"])
def test_other_library_on_the_combined_kernel(data, name):
    X, y, _, weights = data
    model = fitted(name, FIXED, X, y > 0, weights, C=2.0, class_weight={False: 1.0, True: 3.0})
    combined, kept = model.combined_kernel(X), np.flatnonzero(weights)
    svm = SVC(kernel="precomputed", C=2.0, class_weight={True: 3.0}, tol=1e-10)
    svm.fit(combined[np.ix_(kept, kept)], y[kept] > 0, sample_weight=weights[kept])
    close(model.decision_function(X), svm.decision_function(combined[:, kept]), 1e-5)


@pytest.mark.parametrize("name", ["UniformMKLRegressor", "SimpleMKLRegressor", "LpMKLRegressor"])
def test_other_library_on_the_combined_kernel_of_a_regression(data, name):
    X, _, target, weights = data
    model = fitted(name, FIXED, X, target, weights, C=2.0, epsilon=0.05)
    combined, kept = model.combined_kernel(X), np.flatnonzero(weights)
    svr = SVR(kernel="precomputed", C=2.0, epsilon=0.05, tol=1e-10)
    svr.fit(combined[np.ix_(kept, kept)], target[kept], sample_weight=weights[kept])
    close(model.predict(X), svr.predict(combined[:, kept]), 1e-5)


@pytest.mark.parametrize("spread", [1.0, 1e6])
def test_certificates_and_optimality_conditions_of_every_sample(kernel, data, rng, spread):
    _, y, target, weights = data
    bounds = 0.7 * weights * spread ** rng.random(30)
    labels = np.where(y > 0, 1.0, -1.0)
    for solution, excess, side in (
        (solve_svm(kernel, labels, bounds, 1e-8), None, labels),
        (solve_svr(kernel, target, bounds, 0.1, 1e-8), 0.1, None),
    ):
        f, v = kernel @ solution.signed_dual + solution.intercept, solution.signed_dual
        assert np.abs(v).max() >= 0.0
        assert (np.abs(v) <= bounds * (1 + 1e-12)).all()
        assert abs(v.sum()) <= 1e-9 * np.abs(v).sum()
        assert -1e-9 <= solution.gap <= 1e-6 * abs(solution.objective)
        counted = bounds > 0.0
        slack = 1.0 - side * f if excess is None else np.abs(target - f) - excess
        above, below = counted & (slack > 1e-4), counted & (slack < -1e-4)
        np.testing.assert_allclose(np.abs(v[above]), bounds[above], rtol=1e-6)
        assert not v[below].any()


def test_other_solver_interior_points_find_the_same(kernel, data):
    _, y, target, weights = data
    labels, bounds = np.where(y > 0, 1.0, -1.0), weights + 0.5
    for box, solution in (
        (classification_box(kernel, labels, bounds), solve_svm(kernel, labels, bounds, 1e-8)),
        (regression_box(kernel, target, bounds, 0.1), solve_svr(kernel, target, bounds, 0.1, 1e-8)),
    ):
        v, intercept = solve_box(box)
        close(kernel @ v + intercept, kernel @ solution.signed_dual + solution.intercept, 1e-5)


def test_losses_multiply_C_by_the_weights(kernel, data):
    _, y, target, weights = data
    labels = np.where(y > 0, 1.0, -1.0)
    assert Hinge(2.0, weights).solve(kernel, labels, 1e-8).objective == pytest.approx(
        solve_svm(kernel, labels, 2.0 * weights, 1e-8).objective
    )
    counts = weights.astype(int)
    spread = target.repeat(counts).std()
    assert spread_of(target, weights) == pytest.approx(spread, rel=1e-12)
    assert EpsilonInsensitive(None, None, weights).solve(kernel, target, 1e-8).objective == pytest.approx(
        solve_svr(kernel, target, spread * weights, 0.1 * spread, 1e-8).objective
    )


# -------------------------------------------------------------------------------------------------------- classes


@pytest.mark.parametrize("sample_weight", [None, "weights"])
def test_degenerate_balanced_is_a_dict(data, sample_weight):
    X, y, _, weights = data
    counts = weights if sample_weight else np.ones(30)
    of_class = np.array([counts[y == label].sum() for label in (0, 1, 2)])
    factors = dict(enumerate(counts.sum() / (3 * of_class)))
    models = [
        fitted("UniformMKLClassifier", FIXED, X, y, counts, class_weight=given)
        for given in ("balanced", factors, {np.int64(k): v for k, v in factors.items()})
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.decision_function(X), models[0].decision_function(X))
    direct = fitted("UniformMKLClassifier", FIXED, X, y, counts * np.array([factors[k] for k in y]))
    close(direct.decision_function(X), models[0].decision_function(X), 1e-6)


def test_class_weights_change_losses_and_nothing_else(data):
    X, y, _, _ = data
    plain, weighted = (
        fitted("AlignmentMKLClassifier", LEARNED, X, y > 0, class_weight=w) for w in (None, {True: 20.0})
    )
    np.testing.assert_array_equal(plain.kernel_weights_, weighted.kernel_weights_)
    assert (weighted.predict(X) == 1).sum() > (plain.predict(X) == 1).sum()


# ----------------------------------------------------------------------------------------------- ways to hand over


def test_metadata_reach_the_model_in_a_pipeline_in_a_grid(data):
    X, y, _, weights = data
    weights = weights + 0.25
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        model = EVERY["SimpleMKLClassifier"](FIXED).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        grid = GridSearchCV(make_pipeline(scaler, model), {"simplemklclassifier__C": [0.1, 3.0]}, cv=3)
        grid.fit(X, y > 0, sample_weight=weights)
    scaled = StandardScaler().fit(X, sample_weight=weights).transform(X)
    alone = EVERY["SimpleMKLClassifier"](FIXED, C=grid.best_params_["simplemklclassifier__C"])
    alone.fit(scaled, y > 0, sample_weight=weights)
    np.testing.assert_array_equal(grid.decision_function(X), alone.decision_function(scaled))
    plain = alone.fit(scaled, y > 0)
    assert np.abs(grid.decision_function(X) - plain.decision_function(scaled)).max() > 1e-2


def test_paths_take_weights(data):
    X, y, _, weights = data
    model = EVERY["LpMKLClassifier"](FIXED, tol=1e-7, class_weight="balanced")
    path = model.path(X, y > 0, [0.5, 2.0], sample_weight=weights)
    alone = EVERY["LpMKLClassifier"](FIXED, C=2.0, tol=1e-7, class_weight="balanced")
    alone.fit(X, y > 0, sample_weight=weights)
    close(path.models[1].decision_function(X), alone.decision_function(X), 1e-3)


# --------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-1.0, r"`sample_weight` must hold no negative weight; got -1 for sample 4\. A weight of zero"),
        (np.nan, "`sample_weight` must hold finite numbers; got NaN"),
        (np.inf, "`sample_weight` must hold finite numbers; got NaN or infinity"),
        ("heavy", "`sample_weight` must hold numbers"),
    ],
)
def test_weights_that_are_none_are_refused(data, weights, message):
    X, y, target, _ = data
    given = np.ones(30).tolist()
    given[4] = weights
    for name, labels in (("UniformMKLClassifier", y), ("LpMKLRegressor", target)):
        with pytest.raises(ValueError, match=message):
            EVERY[name](FIXED).fit(X, labels, sample_weight=given)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(30), "`sample_weight` must hold a weight above zero; all 30 weights are zero"),
        (np.ones(29), r"`sample_weight` must hold one weight for each of the 30 samples; got shape \(29,\)"),
        (np.ones((30, 1)), r"got shape \(30, 1\)"),
        (2.0, r"`sample_weight` must be an array; got 2\.0"),
        ("half", "`y` must hold at least two classes; got one class only: 0"),
    ],
)
def test_weights_that_leave_nothing_or_do_not_fit_are_refused(data, weights, message):
    X, y, _, _ = data
    weights = (y == 0).astype(float) if isinstance(weights, str) else weights
    with pytest.raises(ValueError, match=message):
        EVERY["SimpleMKLClassifier"](FIXED).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {0: -1.0},
            r"`class_weight` must hold finite numbers > 0; got -1\.0 for class 0\. To leave a class out",
        ),
        ({0: np.nan}, "`class_weight` must hold finite numbers > 0; got nan for class 0"),
        ({0: "2"}, "`class_weight` must hold finite numbers > 0; got '2' for class 0"),
        (
            "equal",
            "`class_weight` must be None, \"balanced\" or a dict.*; got 'equal'.*`sample_weight` of `fit`",
        ),
        ([1.0, 2.0, 1.0], "`class_weight` must be None"),
        ({"0": 2.0}, r"`class_weight` must name classes of `y`, \[0, 1, 2\]; got \['0'\], and no weight for"),
    ],
)
def test_class_weights_that_are_none_are_refused(data, given, message):
    X, y, _, _ = data
    with pytest.raises(ValueError, match=message):
        EVERY["LpMKLClassifier"](FIXED, class_weight=given).fit(X, y)


def test_what_has_no_meaning_with_weights_is_refused(data):
    X, y, _, weights = data
    with pytest.raises(ValueError, match=r"`sample_weight` must be None with `method=\"aqp\"`.*\"qp\""):
        EVERY["OBMKLClassifier"](FIXED, method="aqp").fit(X, y, sample_weight=weights)
    stack = np.tanh(X @ X.T - 1.0)
    model = EVERY["LpMKLClassifier"]("precomputed", indefinite="clip")
    with pytest.raises(
        ValueError, match=r"`sample_weight` must be None where `indefinite=\"clip\"`.*not positive"
    ):
        model.fit(stack, y, sample_weight=weights)
    model.set_params(class_weight="balanced").fit(stack, y)
    assert model.converged_
