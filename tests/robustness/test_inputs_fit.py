"""What `fit` makes of tables and kernels: the model of the plain numbers, or an error that names the argument."""

from __future__ import annotations

import copy
import warnings
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from in_turn import in_turn
from inputs import (
    BAYESIAN,
    DISCRIMINATIVE,
    EVERY,
    GATED,
    NEW,
    NO_NUMBERS,
    NO_TABLES,
    SUPERVISED,
    TARGET,
    Form,
    OnlyAnArray,
    X,
    bank,
    decimals,
    extra,
    fitted,
    fitted_to_stack,
    frame,
    known,
    methods_of,
    pairs,
    quick,
    refused,
    scores,
    silently,
    spoiled,
    stack,
    strided,
    target_of,
)
from methods_tried import estimators_with
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from verdicts import assert_refused, quietly

from bayesmkl import KernelBank
from bayesmkl.kernels import Gaussian, KernelQualityWarning

pytestmark = pytest.mark.heavy

every_estimator = pytest.mark.parametrize("name", list(EVERY))
shape = pytest.mark.family("features: wrong type or shape")
stacks = pytest.mark.family("kernels: wrong type or shape")
forms = pytest.mark.family("data: unusual form")
degenerate = pytest.mark.family("data: degenerate")
scale = pytest.mark.family("data: huge and tiny")
recovery = pytest.mark.family("fit: refused, earlier model kept")
SLACK = 1e-9  # relative, between two ways to the same numbers


def assert_close(found, expected, slack=SLACK):
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=slack * np.abs(expected).max())


# ---------------------------------------------------------------------------------------------- refused features

REFUSED_FEATURES = NO_TABLES | {
    "one row": Form(lambda array: array[:1]),
    "a row too many": Form(lambda array: np.r_[array, array[:1]], names=("X",)),
    "a row too few": Form(lambda array: array[:-1], names=("X",)),
    "beyond double precision": Form(lambda array: array * 1e300),
    "transposed": Form(lambda array: array.T),
}
# An estimator without targets cannot know how many rows there should be.
FREE_ROWS = ("a row too many", "a row too few", "transposed")


@shape
@pairs(EVERY, REFUSED_FEATURES, "NaN")
def test_features_that_are_none_are_refused(name, form):
    if name not in SUPERVISED and form in FREE_ROWS:
        given = REFUSED_FEATURES[form].make(X)
        assert np.isfinite(silently(lambda: quick(name).fit(given).score_samples(given))).all()
        return
    if form in ("sparse", "sparse array") and quick(name).__sklearn_tags__().input_tags.sparse:
        return  # tests/kernels/test_sparse.py
    make, _, arguments = REFUSED_FEATURES[form]
    model, given = quick(name), quietly(lambda: make(X), PendingDeprecationWarning)
    refused(lambda: model.fit(given, target_of(name)), *arguments)
    assert not [key for key in vars(model) if key.endswith("_")], "a fit that failed left something"


@shape
@every_estimator
def test_row_and_target_that_are_alone_are_refused(name):
    refused(lambda: quick(name).fit(X[:1], target_of(name)[:1]), "X", "y")
    refused(lambda: quick(name).fit(X[:0], target_of(name)[:0]), "X", "y")


@shape
@every_estimator
def test_columns_of_views_must_exist(name):
    for views in ({"a": [7]}, {"a": ["height"]}, {"a": []}, {}, "some", 3):
        refused(
            lambda views=views: quick(name, bank(views=views)).fit(X, target_of(name)), "views", "views['a']"
        )


# ----------------------------------------------------------------------------------------------- refused kernels


def changed(entries):
    """Return what replaces the first kernel of a stack."""

    def put(kernels):
        new = kernels.copy()
        new[:, :, 0] = entries(kernels[:, :, 0])
        return new

    return put


REFUSED_STACKS = {
    key: form for key, form in NO_NUMBERS.items() if key not in ("structured", "an array among numbers")
} | {
    "structured": Form(lambda kernels: np.zeros(kernels.shape[:2], dtype=[("a", float), ("b", float)])),
    "no kernels": Form(lambda kernels: kernels[:, :, :0]),
    "no samples": Form(lambda kernels: kernels[:0, :0]),
    "one sample": Form(lambda kernels: kernels[:1, :1]),
    "kernels first": Form(lambda kernels: np.moveaxis(kernels, -1, 0)),
    "a list of kernels": Form(lambda kernels: [kernels[:, :, 0], kernels[:, :, 1]]),
    "new rows": Form(lambda kernels: kernels[:5]),
    "columns left out": Form(lambda kernels: kernels[:, :15]),
    "features": Form(lambda kernels: X),
    "one dimension": Form(lambda kernels: kernels[:, 0, 0]),
    "four dimensions": Form(lambda kernels: kernels[..., None]),
    "huge": Form(lambda kernels: 1e150 * kernels),
    "tiny": Form(lambda kernels: 1e-150 * kernels),
    "one huge kernel": Form(changed(lambda kernel: 1e150 * kernel)),
    "one tiny kernel": Form(changed(lambda kernel: 1e-150 * kernel)),
    "nearly overflowing": Form(lambda kernels: 1e308 * kernels),
    "denormal": Form(lambda kernels: 1e-310 * kernels),
}
INDEFINITE = {
    "asymmetric": changed(lambda kernel: kernel + np.triu(np.full(kernel.shape, 0.3), 1)),
    "asymmetric in one entry": lambda kernels: spoiled(0.5)(kernels),
    "indefinite": changed(lambda kernel: np.tanh(X @ X.T - 1.0)),
    "negative": changed(lambda kernel: -kernel),
    "one below everywhere": changed(lambda kernel: -np.ones_like(kernel)),
}


@stacks
@pairs(EVERY, REFUSED_STACKS, "NaN")
def test_kernels_that_are_none_are_refused(name, form):
    model = quick(name, "precomputed")
    refused(lambda: model.fit(REFUSED_STACKS[form].make(stack()), target_of(name), **extra(name)), "X")
    assert not [key for key in vars(model) if key.endswith("_")], "a fit that failed left something"


@stacks
@in_turn(("name", "flaw"), product(EVERY, INDEFINITE))
def test_kernels_without_a_feature_space_are_refused_or_named_once(name, flaw):
    kernels = INDEFINITE[flaw](stack())
    model = quick(name, "precomputed")
    if name in DISCRIMINATIVE:
        refused(lambda: model.fit(kernels, target_of(name), **extra(name)), "X")
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(kernels, target_of(name), **extra(name))
    assert [warning.category for warning in caught] == [KernelQualityWarning]
    assert "kernel 0" in str(caught[0].message)
    assert np.isfinite(scores(model, kernels, **extra(name))).all()


OTHER_FEATURES = {
    "a row too few": X[:-1],
    "three dimensions": X[:, :, None],
    "sparse": NO_TABLES["sparse"].make(X),
    "no columns": X[:, :0],
}


@stacks
@in_turn(("name", "form"), product(GATED, [*NO_NUMBERS, *OTHER_FEATURES]))
def test_gate_features_that_are_none_are_refused(name, form):
    given = OTHER_FEATURES[form] if form in OTHER_FEATURES else NO_NUMBERS[form].make(X)
    model = quick(name, "precomputed")
    refused(lambda: model.fit(stack(), target_of(name), gate_features=given), "gate_features")


# ------------------------------------------------------------------------------------------------- unusual forms


def same_as(dtype):
    """Return a form of another precision, and its values in double precision."""
    return Form(lambda array: array.astype(dtype), lambda array: array.astype(dtype).astype(np.float64))


def rounded(dtype):
    """Return a form of whole numbers."""
    return Form(
        lambda array: np.abs(np.round(3.0 * array)).astype(dtype),
        lambda array: np.abs(np.round(3.0 * array)).astype(dtype).astype(np.float64),
    )


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


ARRAYS = {
    "lists": Form(lambda array: array.tolist()),
    "tuples": Form(lambda array: tuple(map(tuple, array.tolist()))),
    "columns first": Form(np.asfortranarray),
    "every second entry, backwards": Form(strided),
    "read-only": Form(read_only),
    "other bytes first": Form(lambda array: array.astype(">f8")),
    "objects": Form(lambda array: array.astype(object)),
    "decimals": Form(decimals),
    "a mask of nothing": Form(lambda array: np.ma.array(array)),
    "of another library": Form(OnlyAnArray),
    "single precision": same_as(np.float32),
    "half precision": same_as(np.float16),
    "more than double precision": same_as(np.longdouble),
}
TABLES = ARRAYS | {
    "whole numbers": rounded(np.int64),
    "bytes": rounded(np.uint8),
    "booleans": Form(lambda array: array > 0.0, lambda array: (array > 0.0).astype(float)),
    "a frame": Form(frame),
    "a frame with another index": Form(
        lambda array: frame(array).set_axis(list("ponmlkjihgfedcba")[: len(array)])
    ),
    "a frame of three types": Form(
        lambda array: frame(np.round(array)).astype({"x0": "int8", "x1": "float32", "x2": "Int64"}), np.round
    ),
    "a frame of nullable numbers": Form(lambda array: frame(array).astype("Float64")),
    "a frame of nullable booleans": Form(
        lambda array: frame(array > 0.0).astype("boolean"), lambda array: (array > 0.0).astype(float)
    ),
    "a frame of arrow": Form(lambda array: frame(array).astype("double[pyarrow]")),
    "a frame of objects": Form(lambda array: frame(array).astype(object)),
    "a polars frame": Form(lambda array: pl.DataFrame(array, schema=["x0", "x1", "x2"])),
    "a polars frame of three types": Form(
        lambda array: pl.DataFrame(
            {"x0": np.round(array[:, 0]).astype(np.int16), "x1": array[:, 1], "x2": array[:, 2] > 0.0}
        ),
        lambda array: np.column_stack([np.round(array[:, 0]), array[:, 1], array[:, 2] > 0.0]),
    ),
}
STACKS = ARRAYS | {
    "memory with kernels first": Form(lambda kernels: np.moveaxis(np.moveaxis(kernels, -1, 0).copy(), 0, -1))
}
# In low precision a kernel is no longer definite to all digits; in whole numbers it is none.
CLIPPED = ("half precision",)


@forms
@pairs(EVERY, TABLES, "a frame of nullable numbers")
def test_tables_in_unusual_form_are_their_numbers(name, form):
    make, plain, _ = TABLES[form]
    kinds: tuple[type[Warning], ...] = (ConvergenceWarning, KernelQualityWarning)
    if name == "LDMKLClassifier":  # solved to `tol` = .05 it may predict one class, and says so
        kinds += (UserWarning,)
    model = quietly(lambda: quick(name).fit(make(X), target_of(name)), *kinds)
    is_plain = np.array_equal(plain(X), X)
    expected = fitted(name) if is_plain else silently(lambda: quick(name).fit(plain(X), target_of(name)))
    np.testing.assert_array_equal(scores(model, make(X)), scores(expected, plain(X)))
    np.testing.assert_array_equal(scores(model, make(NEW)), scores(expected, plain(NEW)))


@forms
@pairs(EVERY, STACKS, "columns first")
def test_kernels_in_unusual_form_are_their_numbers(name, form):
    make, plain, _ = STACKS[form]
    clip = {"indefinite": "clip"} if form in CLIPPED and name in DISCRIMINATIVE else {}
    y, more = target_of(name), extra(name)
    model = quietly(
        lambda: quick(name, "precomputed", **clip).fit(make(stack()), y, **more),
        ConvergenceWarning,
        KernelQualityWarning,
    )
    if np.array_equal(plain(stack()), stack()):
        expected = fitted_to_stack(name)
    else:
        expected = silently(lambda: quick(name, "precomputed", **clip).fit(plain(stack()), y, **more))
    np.testing.assert_array_equal(
        scores(model, make(stack()), **more), scores(expected, plain(stack()), **more)
    )


@forms
@every_estimator
def test_one_kernel_may_come_as_a_matrix_or_a_frame(name):
    kernel, y, more = stack()[:, :, 0], target_of(name), extra(name)
    expected = silently(lambda: quick(name, "precomputed").fit(kernel[:, :, None], y, **more))
    expected = scores(expected, kernel[:, :, None], **more)
    columns = [f"sample {i}" for i in range(len(kernel))]
    for given in (kernel, pd.DataFrame(kernel, columns=columns), pl.DataFrame(kernel, schema=columns)):
        model = silently(lambda given=given: quick(name, "precomputed").fit(given, y, **more))
        np.testing.assert_array_equal(scores(model, given, **more), expected)


# ------------------------------------------------------------------------------------------------ huge and tiny

FAR = 2.0**496  # about 2e149, a power of two: the numbers below are the same to the last bit


@scale
@pytest.mark.parametrize("factor", [FAR, 1.0 / FAR], ids=["2e149", "5e-150"])
@every_estimator
def test_units_of_the_features_do_not_matter_where_widths_have_them_too(name, factor):
    model = quietly(
        lambda: quick(name, bank(factor)).fit(factor * X, target_of(name)),
        ConvergenceWarning,
        KernelQualityWarning,
    )
    np.testing.assert_array_equal(scores(model, factor * NEW), scores(fitted(name), NEW))


# Powers of the scale of the kernels; kernels that are scaled inside need none.
PRICES = {"C": -1, "gate_C": -1, "reg": 1, "gamma_ambient": 1, "reg_weights": -1}
SCALED_INSIDE = estimators_with("scales kernels")
LIMIT = 2.0**300  # about 2e90, within what is taken for a kernel


def machine_of_kernels(name, factor):
    """Fit to kernels times `factor`, with prices that make the same machine of them; return its scores."""
    parameters = quick(name).get_params() if name not in SCALED_INSIDE else {}
    prices = {
        key: (parameters[key] or 1.0) * factor**power for key, power in PRICES.items() if key in parameters
    }
    if name == "GMKLClassifier":  # prices the weights, by their sum, beside the machines
        prices["regularizer"] = lambda d: (float(d.sum()) / factor, np.ones(len(d)) / factor)
    if name == "PrimalMKLOneClass":  # its first steps depend on the size of the objective
        prices |= {"tol": 1e-8, "max_iter": 500}
    more, y = extra(name), target_of(name)
    model = quietly(
        lambda: quick(name, "precomputed", **prices).fit(factor * stack(), y, **more),
        ConvergenceWarning,
        KernelQualityWarning,
    )
    found = scores(model, factor * stack(), **more)
    return found / factor if name == "PrimalMKLOneClass" else found  # a score in units of the kernel


@scale
@pytest.mark.parametrize("factor", [LIMIT, 1.0 / LIMIT], ids=["2e90", "5e-91"])
@pytest.mark.parametrize("name", DISCRIMINATIVE)
def test_kernels_at_the_limits_are_those_of_order_one(name, factor):
    """Kernels times s with C over s are the same machines."""
    slack = 1e-4 if name == "PrimalMKLOneClass" else SLACK
    assert_close(machine_of_kernels(name, factor), machine_of_kernels(name, 1.0), slack)


# -------------------------------------------------------------------------------------------------- degenerate


@degenerate
@every_estimator
def test_samples_that_are_all_alike_are_scored_alike(name):
    """Nothing can be learned but the intercept, the side of the larger class."""
    labels = np.where(np.arange(16) < 5, -1, 1)
    y = 3.0 + 0.0 * TARGET if name.endswith("Regressor") else labels
    model = quietly(
        lambda: quick(name).fit(np.ones((16, 3)), y), KernelQualityWarning, ConvergenceWarning, UserWarning
    )
    found = scores(model, np.vstack([np.ones((2, 3))]))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[0], found[1])
    if name.endswith("Classifier"):
        assert (model.predict(np.ones((2, 3))) == 1).all()


@degenerate
@pytest.mark.parametrize("name", [name for name in EVERY if name not in GATED])
def test_a_constant_column_is_no_distance(name):
    kernels = KernelBank([Gaussian(width=2.0), Gaussian(width=1.0)])
    plain = silently(lambda: quick(name, kernels).fit(X, target_of(name)))
    constant = np.full((16, 1), 7.0)
    model = silently(lambda: quick(name, kernels).fit(np.hstack([X, constant]), target_of(name)))
    np.testing.assert_array_equal(scores(model, np.hstack([NEW, constant[:5]])), scores(plain, NEW))


@degenerate
@every_estimator
def test_a_zero_kernel_changes_no_finite_result(name):
    """A kernel of zeros gets no say: the model is finite and predicts from the other kernels."""
    kernels = np.concatenate([stack(), np.zeros((16, 16, 1))], axis=2)
    more = extra(name)
    model = quietly(
        lambda: quick(name, "precomputed").fit(kernels, target_of(name), **more),
        KernelQualityWarning,
        ConvergenceWarning,
    )
    found = scores(model, kernels, **more)
    assert np.isfinite(found).all()
    changed = kernels[:4].copy()
    changed[:, :, 2] = 0.0
    rows = {"gate_features": X[:4]} if more else {}
    np.testing.assert_array_equal(scores(model, changed, **rows), scores(model, kernels[:4], **rows))
    assert np.ptp(found) > 0.0


@degenerate
@every_estimator
def test_kernels_of_zeros_alone_predict_a_constant(name):
    more = extra(name)
    model = quietly(
        lambda: quick(name, "precomputed").fit(np.zeros((16, 16, 2)), target_of(name), **more),
        KernelQualityWarning,
        ConvergenceWarning,
        UserWarning,
    )
    found = scores(model, np.zeros((16, 16, 2)), **more)
    assert np.isfinite(found).all()
    assert np.ptp(found) <= 1e-9 * max(1.0, np.abs(found).max())


@degenerate
@every_estimator
def test_equal_samples_have_equal_scores(name):
    rows = np.r_[np.arange(16), np.arange(16)]
    model = quietly(lambda: quick(name).fit(X[rows], target_of(name)[rows]), UserWarning, ConvergenceWarning)
    found = scores(model, X[rows])
    assert np.isfinite(found).all()
    assert_close(found[:16], found[16:])


WEIGHTED = [name for name in estimators_with("counts samples") if name in SUPERVISED]


@degenerate
@pytest.mark.parametrize("name", WEIGHTED)
def test_samples_that_come_twice_are_samples_of_twice_the_price(name):
    rows = np.r_[np.arange(16), np.arange(16)]
    accurate = known(name, {"tol": 1e-6, "max_iter": 5000})
    once = known(name, {"C": 2.0, "reg": 0.5})
    twice = known(name, {"C": 1.0, "reg": 1.0})
    single = silently(lambda: quick(name, **accurate | once).fit(X, target_of(name)))
    double = silently(lambda: quick(name, **accurate | twice).fit(X[rows], target_of(name)[rows]))
    assert_close(scores(double, NEW), scores(single, NEW), 2e-3)


@degenerate
@every_estimator
def test_more_kernels_than_samples(name):
    """Forty views of the three columns; in another order they make the same model."""
    rng = np.random.default_rng(1)
    features = X @ rng.normal(size=(3, 40)) + 0.5 * rng.normal(size=(16, 40))
    order = rng.permutation(40)
    kernels = KernelBank(Gaussian(width=2.0), views="each")
    more = known(
        name, {"max_iter": 3, "max_switches": 2, "tol": 1e-3} if name in DISCRIMINATIVE else {"max_iter": 3}
    )
    models = [
        quietly(
            lambda columns=columns: quick(name, kernels, **more).fit(features[:, columns], target_of(name)),
            ConvergenceWarning,
            KernelQualityWarning,
        )
        for columns in (np.arange(40), order)
    ]
    found = [scores(models[0], features), scores(models[1], features[:, order])]
    assert np.isfinite(found[0]).all()
    if name not in ORDER_MATTERS:
        assert_close(found[1], found[0], 5e-2)  # iterations in another order, stopped early


# Gates over features start at random values; of kernels that are equally good the first is taken; folds of successes
# are drawn from the samples in the order of their first columns.
ORDER_MATTERS = (
    *GATED,
    "LDMKLClassifier",
    "SwMKLClassifier",
    *(name for name in EVERY if hasattr(EVERY[name](), "cv")),
)


# Their time grows with more than the number of kernels, or they train a machine for each.
LONG = (*BAYESIAN, *estimators_with("svm per kernel"))


@degenerate
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in LONG or k % 3 > 0))
        for k, name in enumerate(EVERY)
    ],
)
def test_a_thousand_kernels(name):
    """In the opposite order they make the same model."""
    distances = np.square(X[:, None] - X).sum(axis=-1)
    kernels = np.exp(-distances[..., None] * np.linspace(0.002, 2.0, 1000))
    more = known(name, {"max_iter": 2, "max_switches": 1, "n_clusters": 2})
    y, gates = target_of(name), extra(name)
    found = []
    for given in (kernels, kernels[:, :, ::-1]):
        model = quietly(
            lambda given=given: quick(name, "precomputed", **more).fit(given, y, **gates),
            ConvergenceWarning,
            KernelQualityWarning,
        )
        assert model.n_kernels_in_ == 1000
        found.append(scores(model, given, **gates))
    assert np.isfinite(found[0]).all()
    if name not in ORDER_MATTERS:
        assert_close(found[1], found[0], 2e-2)


# --------------------------------------------------------------------------------------------- the earlier model

BAD_FITS = {
    "NaN in X": lambda model, y: model.fit(NO_TABLES["NaN"].make(X), y),
    "text in X": lambda model, y: model.fit(NO_TABLES["words"].make(X), y),
    "other columns, overflow": lambda model, y: model.fit(1e300 * X[:, :2], y),
    "bad y": lambda model, y: model.fit(2.0 * X[:, :2], np.full(16, np.nan)),
    "too few y": lambda model, y: model.fit(2.0 * X[:, :2], y[:-1]),
    "one row": lambda model, y: model.fit(X[:1], y[:1]),
    "a bad view": lambda model, y: model.set_params(kernels=bank(views={"a": [9]})).fit(X, y),
    "a bad kernel": lambda model, y: model.set_params(kernels=KernelBank([lambda X, Z: X])).fit(X[:, :2], y),
    "an interrupt": lambda model, y: model.set_params(kernels=KernelBank([_interrupt])).fit(X[:, :2], y),
}


def _interrupt(X, Z):
    raise KeyboardInterrupt


@recovery
@in_turn(("name", "mistake"), product(EVERY, BAD_FITS))
def test_a_fit_that_fails_leaves_the_earlier_model(name, mistake):
    if name not in SUPERVISED and mistake in ("bad y", "too few y"):
        mistake = "NaN in X"  # it has no y
    y = target_of(name)
    model = copy.copy(fitted(name))
    before = {method: getattr(model, method)(NEW) for method in methods_of(name)}
    attributes = dict(vars(model))
    with pytest.raises((ValueError, TypeError, KeyboardInterrupt)):
        BAD_FITS[mistake](model, y)
    assert list(vars(model)) == list(attributes)
    assert all(vars(model)[key] is value for key, value in attributes.items() if key.endswith("_"))
    for method, expected in before.items():
        np.testing.assert_array_equal(getattr(model, method)(NEW), expected)


@recovery
@every_estimator
def test_a_model_without_a_fit_says_so(name):
    fresh, failed = quick(name), quick(name)
    assert_refused(lambda: failed.fit(NO_TABLES["NaN"].make(X), target_of(name)))
    assert_refused(lambda: failed.fit(1e300 * X, target_of(name)))
    for model in (fresh, failed):
        for method in methods_of(name):
            with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
                getattr(model, method)(X)


@forms
@every_estimator
def test_fit_changes_nothing_that_it_is_given(name):
    table, y = X.copy(), target_of(name).copy()
    kernels, given = stack().copy(), stack().copy()
    silently(lambda: quick(name).fit(table, y))
    silently(lambda: quick(name, "precomputed").fit(given, y, **extra(name)))
    np.testing.assert_array_equal(table, X)
    np.testing.assert_array_equal(y, target_of(name))
    np.testing.assert_array_equal(given, kernels)


@forms
@every_estimator
def test_a_model_does_not_see_what_becomes_of_its_data(name):
    table, y, kernels = X.copy(), target_of(name).copy(), stack().copy()
    model = silently(lambda: quick(name).fit(table, y))
    other = silently(lambda: quick(name, "precomputed").fit(kernels, y, **extra(name)))
    table[:], y[:], kernels[:] = 5.0, 5, 5.0
    np.testing.assert_array_equal(scores(model, NEW), scores(fitted(name), NEW))
    np.testing.assert_array_equal(
        scores(other, stack(), **extra(name)), scores(fitted_to_stack(name), stack(), **extra(name))
    )
