"""What predictions make of tables and kernels: those of the plain numbers, or an error that names the argument."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from in_turn import in_turn
from inputs import (
    BAYESIAN,
    DISCRIMINATIVE,
    EVERY,
    GATED,
    MULTITASK,
    NEW,
    NO_NUMBERS,
    NO_TABLES,
    Form,
    X,
    bank,
    extra,
    fitted,
    fitted_to_stack,
    frame,
    methods_of,
    pairs,
    quick,
    refused,
    scores,
    silently,
    stack,
    strided,
    target_of,
)
from sklearn.exceptions import ConvergenceWarning
from verdicts import quietly

from bayesmkl import KernelBank
from bayesmkl.discriminative.estimators.localized import BaseLocalized
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear, Polynomial

pytestmark = pytest.mark.heavy

every_estimator = pytest.mark.parametrize("name", list(EVERY))
rows_refused = pytest.mark.family("predict: wrong type or shape")
rows_named = pytest.mark.family("predict: columns of frames")
rows_equal = pytest.mark.family("predict: same rows, same numbers")
# The training samples are what None stands for there.
NONE_IS_TRAINING = ("gates",)
LOCAL = [name for name, cls in EVERY.items() if issubclass(cls, BaseLocalized)]


def predictions(model, rows, **more):
    """Return what every method says of rows."""
    return {method: getattr(model, method)(rows, **more) for method in methods_of(type(model).__name__)}


def assert_same_predictions(found, expected, slack=0.0):
    assert list(found) == list(expected)
    for method, values in expected.items():
        both = (
            zip(found[method], values, strict=True) if isinstance(values, list) else [(found[method], values)]
        )
        for one, other in both:
            if np.asarray(other).dtype.kind == "f":
                np.testing.assert_allclose(
                    one, other, rtol=0.0, atol=slack * np.abs(other).max(), err_msg=method
                )
            else:
                np.testing.assert_array_equal(one, other, err_msg=method)


# ------------------------------------------------------------------------------------------------------- refused

REFUSED_ROWS = {key: form for key, form in NO_TABLES.items() if key != "matrix"} | {
    "a column too many": Form(lambda array: np.c_[array, array[:, :1]]),
    "a column too few": Form(lambda array: array[:, :2]),
    "transposed": Form(lambda array: array.T),
}
REFUSED_KERNELS = NO_NUMBERS | {
    "no rows": Form(lambda kernels: kernels[:0]),
    "no kernels": Form(lambda kernels: kernels[:, :, :0]),
    "a kernel too few": Form(lambda kernels: kernels[:, :, :1]),
    "a kernel too many": Form(lambda kernels: np.concatenate([kernels, kernels[:, :, :1]], axis=2)),
    "one matrix": Form(lambda kernels: kernels[:, :, 0]),
    "rows and columns exchanged": Form(lambda kernels: np.swapaxes(kernels[:5], 0, 1)),
    "kernels first": Form(lambda kernels: np.moveaxis(kernels, -1, 0)),
    "columns left out": Form(lambda kernels: kernels[:, :15]),
    "features": Form(lambda kernels: X),
    "one dimension": Form(lambda kernels: kernels[:, 0, 0]),
    "four dimensions": Form(lambda kernels: kernels[..., None]),
    "sparse": Form(lambda kernels: NO_TABLES["sparse"].make(kernels[:, :, 0])),
}


@rows_refused
@pairs(EVERY, REFUSED_ROWS, "NaN")
def test_rows_that_are_none_are_refused_by_every_method(name, form):
    make, _, arguments = REFUSED_ROWS[form]
    for method in methods_of(name):
        if form == "None" and method in NONE_IS_TRAINING and name in (*DISCRIMINATIVE, *GATED):
            assert len(getattr(fitted(name), method)(None)) == len(X)
        else:
            given = make(X)
            model = (fitted_to_frame if "frame" in form else fitted)(name)
            refused(lambda method=method, given=given, model=model: getattr(model, method)(given), *arguments)


@rows_refused
@every_estimator
def test_rows_whose_kernels_overflow_are_refused_by_every_method(name):
    for kernel in (Linear(), Polynomial(degree=3)):
        model = silently(lambda kernel=kernel: quick(name, KernelBank(kernel)).fit(X, target_of(name)))
        for method in methods_of(name):
            if method == "gates" and name not in LOCAL:  # weights need no kernels
                np.testing.assert_array_equal(model.gates(1e300 * NEW), model.gates(NEW))
            elif method != "gates":
                refused(lambda method=method, model=model: getattr(model, method)(1e300 * NEW), "X")


@rows_refused
@pairs(EVERY, REFUSED_KERNELS, "NaN")
def test_kernels_of_rows_that_are_none_are_refused_by_every_method(name, form):
    model, more = fitted_to_stack(name), extra(name)
    for method in methods_of(name):
        if form == "None" and method in NONE_IS_TRAINING and name in (*DISCRIMINATIVE, *GATED):
            assert len(getattr(model, method)(None)) == len(X)
        else:
            given = REFUSED_KERNELS[form].make(stack())
            refused(lambda method=method, given=given: getattr(model, method)(given, **more), "X")


@rows_refused
@in_turn(
    ("name", "form"),
    product(GATED, [*NO_NUMBERS, "a row too few", "a column too many", "a column too few"]),
)
def test_gate_features_of_rows_that_are_none_are_refused(name, form):
    given = {
        "a row too few": X[:-1],
        "a column too many": np.c_[X, X],
        "a column too few": X[:, :2],
    }.get(form)
    given = NO_NUMBERS[form].make(X) if given is None else given
    for method in methods_of(name):
        call = getattr(fitted_to_stack(name), method)
        refused(lambda call=call: call(stack(), gate_features=given), "gate_features")


@rows_refused
@pytest.mark.parametrize("name", MULTITASK)
@pytest.mark.parametrize(
    "tasks",
    [["a"] * 4, ["a"] * 6, ["unheard"] * 5, [None] * 5, [np.nan] * 5, "a", 3, ["a", 1, "a", 1, "a"]],
    ids=repr,
)
def test_tasks_that_are_none_are_refused(name, tasks):
    names = np.array(["a", "b"] * 8)
    model = silently(lambda: quick(name).fit(X, target_of(name), tasks=names))
    for method in methods_of(name):
        refused(lambda method=method: getattr(model, method)(NEW, tasks=tasks), "tasks")


# -------------------------------------------------------------------------------------------------------- frames

OTHER_COLUMNS = {
    "in another order": lambda table: table[["x2", "x0", "x1"]],
    "one missing": lambda table: table[["x0", "x1"]],
    "one more": lambda table: table.assign(x3=1.0),
    "one by another name": lambda table: table.rename(columns={"x1": "height"}),
    "all by other names": lambda table: table.set_axis(["a", "b", "c"], axis=1),
    "with text": lambda table: table.assign(x1="a"),
}


@rows_named
@in_turn(("name", "change"), product(EVERY, OTHER_COLUMNS))
def test_frames_with_other_columns_are_refused(name, change):
    model = fitted_to_frame(name)
    given = OTHER_COLUMNS[change](frame(NEW))
    for method in methods_of(name):
        refused(lambda method=method: getattr(model, method)(given), "X", "feature names", "features")


def fitted_to_frame(name, _models={}):  # noqa: B006
    if name not in _models:
        kernels = bank(views={"first": ["x0", "x1"], "second": ["x2"]})
        _models[name] = silently(lambda: quick(name, kernels).fit(frame(X), target_of(name)))
    return _models[name]


@rows_named
@every_estimator
def test_views_by_name_are_views_by_position(name):
    kernels = bank(views={"first": [0, 1], "second": [2]})
    plain = silently(lambda: quick(name, kernels).fit(X, target_of(name)))
    assert_same_predictions(predictions(fitted_to_frame(name), frame(NEW)), predictions(plain, NEW))


@rows_named
@every_estimator
def test_arrays_for_a_model_of_a_frame_are_taken_with_one_warning(name):
    found = quietly(lambda: scores(fitted_to_frame(name), NEW), UserWarning)
    np.testing.assert_array_equal(found, scores(fitted_to_frame(name), frame(NEW)))


# -------------------------------------------------------------------------------------------------- same numbers


@rows_equal
@every_estimator
def test_every_method_sees_numbers_not_their_form(name):
    expected = predictions(fitted(name), NEW)
    for given in (NEW.tolist(), np.asfortranarray(NEW), strided(NEW), NEW.astype(object), NEW.astype(">f8")):
        assert_same_predictions(predictions(fitted(name), given), expected)


@rows_equal
@every_estimator
def test_a_row_alone_is_the_row_among_others(name):
    together = predictions(fitted(name), NEW)
    for i, row in enumerate(NEW):
        alone = predictions(fitted(name), row[None])
        for method, values in alone.items():
            if name in MULTITASK or np.asarray(values).dtype.kind != "f":
                continue
            expected = together[method][[i]]
            np.testing.assert_allclose(values, expected, rtol=0.0, atol=1e-9 * np.abs(together[method]).max())


@rows_equal
@every_estimator
def test_kernels_of_rows_are_the_rows(name):
    """A bank without statistics, inside the model and outside."""
    kernels = KernelBank([Gaussian(width=2.0), Linear()], normalize=None)
    fixed = kernels.fit(X)
    own = {"fallback": False} if "LMKL" in name and "CLMKL" not in name else {}  # gate features decide it
    inside = silently(lambda: quick(name, kernels, **own).fit(X, target_of(name)))
    given = np.moveaxis(fixed.train_stack(), 0, -1)
    if name in ("LapMKLClassifier",):
        inside = silently(lambda: quick(name, kernels, distances=_distances).fit(X, target_of(name)))
        outside = quick(name, "precomputed", distances=_distances(X))
    else:
        outside = quick(name, "precomputed")
    silently(lambda: outside.fit(given, target_of(name), **extra(name)))
    found, expected = scores(outside, fixed.transform(NEW), **extra(name, NEW)), scores(inside, NEW)
    slack = 2e-2 if name in FROM_OTHER_SOLVERS else 1e-6
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=slack * np.abs(expected).max())


FROM_OTHER_SOLVERS = ("LDMKLClassifier", "SwMKLClassifier", "MWUMKLClassifier")  # with a bank, and early


def _distances(features):
    return np.sqrt(np.square(features[:, None] - features).sum(axis=-1))


@rows_equal
@in_turn(("name", "distance"), product(EVERY, [1e3, 1e6, 1e100]))
def test_rows_far_away_have_finite_predictions(name, distance):
    model = fitted(name)
    found = quietly(lambda: predictions(model, distance * NEW), ConvergenceWarning, KernelQualityWarning)
    for method, values in found.items():
        for one in values if isinstance(values, list) else [values]:
            if np.asarray(one).dtype.kind == "f":
                assert np.isfinite(one).all(), method
    if "predict_proba" in found:
        of_tasks = (
            found["predict_proba"] if isinstance(found["predict_proba"], list) else [found["predict_proba"]]
        )
        for probabilities in of_tasks:
            np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)


@rows_equal
@every_estimator
def test_predictions_change_nothing_that_they_are_given(name):
    table, kernels = X.copy(), stack().copy()
    predictions(fitted(name), table)
    predictions(fitted_to_stack(name), kernels, **extra(name))
    np.testing.assert_array_equal(table, X)
    np.testing.assert_array_equal(kernels, stack())


@rows_equal
@pytest.mark.parametrize("name", BAYESIAN)
def test_standard_deviations_come_with_the_same_means(name):
    method = "predict" if name.endswith("Regressor") else "predict_latent"
    call = getattr(fitted(name), method)
    mean, std = call(NEW, return_std=True)
    np.testing.assert_array_equal(mean, call(NEW))
    assert np.isfinite(std).all()
    assert (std > 0.0).all()
