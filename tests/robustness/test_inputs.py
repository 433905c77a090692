"""What every public estimator makes of its input: the model of the same numbers, or an error that names the argument.

One contract over all estimators. Forms of tables, labels, targets and kernels that all of them convert alike are
tried on one estimator of each way that converts them.
"""

from __future__ import annotations

import copy
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from inputs import (
    BAYESIAN,
    CLASSIFIERS,
    DISCRIMINATIVE,
    EVERY,
    GATED,
    LABELS,
    NEW,
    REGRESSORS,
    ROADS,
    TARGET,
    OnlyAnArray,
    X,
    bank,
    extra,
    fitted,
    fitted_to_stack,
    known,
    masked,
    methods_of,
    no_numbers,
    quick,
    scores,
    silently,
    spoiled,
    stack,
    target_of,
)
from methods_tried import estimators_with
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from verdicts import THING, assert_refused, each_refused, quietly

from bayesmkl import KernelBank
from bayesmkl.discriminative import Lp
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear

pytestmark = [pytest.mark.family("bad input"), pytest.mark.heavy]

every_estimator = pytest.mark.parametrize("name", list(EVERY))
WARNED = (ConvergenceWarning, KernelQualityWarning, UserWarning)
SUPERVISED = [name for name in EVERY if not name.endswith("OneClass")]
MULTITASK = [name for name in EVERY if "Multitask" in name]
FIRST, POSITIVE = np.arange(16) == 0, LABELS > 0
WORDS = np.where(POSITIVE, "yes", "no")
LATE = [
    "GPMKLClassifier",
    "GPMKLRegressor",
]  # fitted for longer: what costs a fit is tried on these two of four
OFTEN = [name for name in EVERY if not name.startswith("GPMKL") or name in LATE]


def assert_close(found, expected, slack=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=slack * np.abs(expected).max())


def frame(array, **more):
    return pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])]).assign(**more)


def no_tables(array):
    """Return what is no table, in a form that can be passed."""
    return no_numbers(array) | {
        "sparse": sparse.csr_matrix(array),
        "no rows": array[:0],
        "no columns": array[:, :0],
        "one dimension": array[:, 0],
        "a frame with text": frame(array, x1="a"),
        "a frame with gaps": frame(array).astype("Float64").mask(frame(array) > 1.0),
        "a frame with two columns of one name": frame(array).set_axis(["a", "a", "b"], axis=1),
        "a polars frame with text": pl.DataFrame({"x0": ["a"] * len(array), "x1": array[:, 1]}),
        "beyond double precision": array * 1e300,
    }


# -------------------------------------------------------------------------------------------------- the contract


def interrupt(X, Z):
    raise KeyboardInterrupt


@every_estimator
def test_fit_refuses_what_is_no_data_and_keeps_the_earlier_model(name):
    """Neither a fresh model nor a fitted one has another attribute after a fit that failed."""
    y, fresh, model = target_of(name), quick(name), copy.copy(fitted(name))
    attributes = dict(vars(model))
    tables = no_tables(X) | {"one row": X[:1]}
    if fresh.__sklearn_tags__().input_tags.sparse:
        del tables["sparse"]
    if name in SUPERVISED:
        tables |= {"a row too few": X[:-1], "transposed": X.T}
    if name not in ROADS:
        tables = {form: tables[form] for form in ("NaN", "complex", "no rows")}
    for each in (fresh, model):
        each_refused(
            (form, partial(each.fit, given, y), "")
            if "frame with" in form
            else (form, partial(each.fit, given, y), "X")
            for form, given in tables.items()
        )
        if name in SUPERVISED:
            wrong = {"NaN": np.full(16, np.nan), "too few": y[:-1], "no y": None, "complex": np.full(16, 1j)}
            wrong |= {
                "none at all": [],
                "three axes": np.ones((16, 2, 2)),
                "sparse": sparse.csr_matrix(X[:, :1]),
            }
            each_refused((form, partial(each.fit, X, y), "y") for form, y in wrong.items())
        views = ({"a": [7]}, {"a": ["height"]}, {"a": []}, {})
        others = ((given, copy.copy(each).set_params(kernels=bank(views=given))) for given in views)
        each_refused((str(given), partial(other.fit, X, y), "views") for given, other in others)
    stopped = copy.copy(model).set_params(kernels=KernelBank([interrupt]))
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X[:, :2], y)
    np.testing.assert_array_equal(scores(stopped, NEW), scores(fitted(name), NEW))
    for method in methods_of(name):
        with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
            getattr(fresh, method)(X)
    assert not [key for key in vars(fresh) if key.endswith("_")]
    assert list(vars(model)) == list(attributes)
    assert all(vars(model)[key] is value for key, value in attributes.items() if key.endswith("_"))


@every_estimator
def test_predictions_refuse_what_are_no_rows_like_those_of_the_fit(name):
    model = fitted(name)
    rows = no_tables(NEW) | {"a column more": np.c_[NEW, NEW], "a column less": NEW[:, :2]}
    if name not in ROADS:
        rows = {form: rows[form] for form in ("NaN", "a word among numbers", "no rows", "a column more")}
    for method in methods_of(name):
        call = getattr(model, method)
        wrong = {form: given for form, given in rows.items() if (form, method) != ("None", "gates")}
        if method == "gates" and name in DISCRIMINATIVE:
            wrong.pop("beyond double precision", None)  # weights need no kernels
        each_refused(
            (f"{method} {form}", partial(call, given), "X")
            for form, given in wrong.items()
            if "frame with" not in form  # the model knows no names of columns
        )


@every_estimator
def test_frames_are_known_by_the_names_of_their_columns(name):
    kernels = bank(views={"first": ["x0", "x1"], "second": ["x2"]})
    model = silently(lambda: quick(name, kernels).fit(frame(X), target_of(name)))
    table = frame(NEW)
    for other in (table[["x2", "x0", "x1"]], table[["x0", "x1"]], table.assign(x3=1.0)):
        assert_refused(lambda other=other: model.predict(other), "feature")
    assert_refused(lambda: model.predict(table.assign(x1="a")), "x1")
    assert_refused(lambda: model.predict(table.astype("Float64").mask(table > 1.0)), "X")
    expected = scores(model, table)
    np.testing.assert_array_equal(
        quietly(lambda: scores(model, NEW), UserWarning), expected
    )  # with one warning
    plain = silently(
        lambda: quick(name, bank(views={"first": [0, 1], "second": [2]})).fit(X, target_of(name))
    )
    np.testing.assert_array_equal(scores(plain, NEW), expected)


@every_estimator
def test_models_neither_change_nor_keep_the_data_that_they_are_given(name):
    table, y, kernels = X.copy(), target_of(name).copy(), stack().copy()
    model = silently(lambda: quick(name).fit(table, y))
    other = silently(lambda: quick(name, "precomputed").fit(kernels, y, **extra(name)))
    scores(model, table), scores(other, kernels, **extra(name))
    np.testing.assert_array_equal(table, X)
    np.testing.assert_array_equal(y, target_of(name))
    np.testing.assert_array_equal(kernels, stack())
    table[:], kernels[:] = 5.0, 5.0
    rounding = 1e-9 if name.startswith("GPMKL") else 0.0  # of factors that longer calls invert
    np.testing.assert_allclose(scores(model, NEW), scores(fitted(name), NEW), rtol=rounding)
    of_stack = (scores(each, stack(), **extra(name)) for each in (other, fitted_to_stack(name)))
    np.testing.assert_allclose(*of_stack, rtol=rounding)


@every_estimator
def test_rows_far_away_have_finite_predictions(name):
    for distance in (1e3, 1e6, 1e100):
        for method in methods_of(name):
            found = silently(lambda method=method, d=distance: getattr(fitted(name), method)(d * NEW))
            for one in found if isinstance(found, list) else [found]:
                assert np.asarray(one).dtype.kind != "f" or np.isfinite(one).all(), method
                if method == "predict_proba":
                    np.testing.assert_allclose(one.sum(axis=1), 1.0, atol=1e-12)


# ------------------------------------------------------------------------------------------- precomputed kernels


def no_stacks(kernels, new=False):
    wrong = no_numbers(kernels) | {
        "no kernels": kernels[:, :, :0],
        "kernels first": np.moveaxis(kernels, -1, 0),
        "columns left out": kernels[:, :15],
        "features": X,
        "four dimensions": kernels[..., None],
    }
    if new:
        return wrong | {"a kernel too few": kernels[:, :, :1], "exchanged": np.swapaxes(kernels[:5], 0, 1)}
    extremes = {
        "one huge": kernels * [1e150, 1.0],
        "one tiny": kernels * [1e-150, 1.0],
        "overflowing": 1e308 * kernels,
    }
    return wrong | {"new rows": kernels[:5], "one sample": kernels[:1, :1]} | extremes


@every_estimator
def test_kernels_that_are_none_are_refused(name):
    y, more, model = target_of(name), extra(name), quick(name, "precomputed")
    some = slice(None) if name in ROADS else slice(None, None, 4)
    wrong = list(no_stacks(stack()).items())[some]
    each_refused((form, lambda given=given: model.fit(given, y, **more), "X") for form, given in wrong)
    assert not [key for key in vars(model) if key.endswith("_")]
    for method in methods_of(name):
        call = getattr(fitted_to_stack(name), method)
        for form, given in list(no_stacks(stack(), new=True).items())[some]:
            if (form, method) != ("None", "gates"):
                assert_refused(lambda call=call, given=given: call(given, **more), "X")


@pytest.mark.parametrize("name", GATED)
def test_gate_features_that_are_none_are_refused(name):
    forms = no_numbers(X) | {
        "a row less": X[:-1],
        "three dimensions": X[:, :, None],
        "sparse": sparse.csr_matrix(X),
    }
    fit, predict = quick(name, "precomputed").fit, fitted_to_stack(name).predict
    assert_refused(lambda: fit(stack(), target_of(name)), "gate_features")
    assert_refused(lambda: predict(stack()), "gate_features")
    each_refused(
        (form, lambda given=given: fit(stack(), target_of(name), gate_features=given), "gate_features")
        for form, given in forms.items()
    )
    each_refused(
        (form, lambda given=given: predict(stack(), gate_features=given), "gate_features")
        for form, given in (no_numbers(X) | {"a row less": X[:-1], "a column more": np.c_[X, X]}).items()
    )


@every_estimator
def test_kernels_without_a_feature_space_are_refused_or_named_once(name):
    first = stack()[:, :, 0]
    triangle = np.triu(np.full(first.shape, 0.3), 1)
    for flaw in (first + triangle, np.tanh(X @ X.T - 1.0), -first):
        sums = {"together": False} if name.startswith("GPMKL") else {}
        kernels, model, more = stack().copy(), quick(name, "precomputed", **sums), extra(name)
        kernels[:, :, 0] = flaw
        if name in DISCRIMINATIVE:
            assert_refused(lambda m=model, k=kernels: m.fit(k, target_of(name), **extra(name)), "X")
            continue
        if name.startswith("GPMKL") and flaw[0, 1] == flaw[1, 0]:
            with pytest.raises(ValueError, match="`X`: kernel 'kernel 0' is not positive semidefinite"):
                silently(lambda m=model, k=kernels: m.fit(k, target_of(name)))
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(kernels, target_of(name), **more)
        assert [warning.category for warning in caught if "kernel 0" in str(warning.message)] == [
            KernelQualityWarning
        ]
        assert np.isfinite(scores(model, kernels, **more)).all()


@pytest.mark.parametrize("name", OFTEN)
def test_a_zero_kernel_changes_no_finite_result(name):
    """A kernel of zeros gets no say: the model predicts from the other kernels. Zeros alone predict a constant."""
    kernels, more = np.concatenate([stack(), np.zeros((16, 16, 1))], axis=2), extra(name)
    model = quietly(lambda: quick(name, "precomputed").fit(kernels, target_of(name), **more), *WARNED)
    found = scores(model, kernels, **more)
    assert np.isfinite(found).all()
    assert np.ptp(found) > 0.0
    nothing = quietly(lambda: quick(name, "precomputed").fit(0.0 * kernels, target_of(name), **more), *WARNED)
    found = scores(nothing, 0.0 * kernels, **more)
    assert np.isfinite(found).all()
    assert np.ptp(found) <= 1e-9 * max(1.0, np.abs(found).max())


# ------------------------------------------------------------------------------------------------ forms of tables

PLAIN = {
    "lists": lambda array: array.tolist(),
    "columns first": np.asfortranarray,
    "other bytes first": lambda array: array.astype(">f8"),
    "objects": lambda array: array.astype(object),
    "a mask of nothing": lambda array: np.ma.array(array),
    "of another library": OnlyAnArray,
}
TABLES = PLAIN | {
    "a frame": frame,
    "a frame of nullable numbers": lambda array: frame(array).astype("Float64"),
    "a frame of arrow": lambda array: frame(array).astype("double[pyarrow]"),
    "a polars frame": lambda array: pl.DataFrame(array, schema=["x0", "x1", "x2"]),
}
ROUNDED = {
    "single precision": lambda array: array.astype(np.float32),
    "whole numbers": lambda array: np.round(3.0 * array).astype(np.int64),
    "booleans": lambda array: array > 0.0,
    "nullable booleans": lambda array: frame(array > 0.0).astype("boolean"),
    "three types": lambda array: frame(np.round(array)).astype(
        {"x0": "int8", "x1": "float32", "x2": "Int64"}
    ),
}


@pytest.mark.parametrize("name", ROADS)
def test_tables_in_unusual_form_are_their_numbers(name):
    def fit(make, data, more, **options):
        model = quick(name, **options)
        return quietly(lambda: model.fit(make(data), target_of(name), **more), *WARNED)

    for form, make in (TABLES | ROUNDED).items():
        model, expected = fit(make, X, {}), fitted(name)
        if form in ROUNDED:
            expected = fit(lambda array, make=make: np.asarray(make(array), dtype=float), X, {})
        rows = NEW if form in TABLES else np.asarray(make(NEW), dtype=float)
        np.testing.assert_array_equal(scores(model, make(NEW)), scores(expected, rows), err_msg=form)
    for form, make in PLAIN.items():
        model = fit(make, stack(), extra(name), kernels="precomputed")
        of_stack = (scores(each, stack(), **extra(name)) for each in (model, fitted_to_stack(name)))
        np.testing.assert_array_equal(*of_stack, err_msg=form)


# --------------------------------------------------------------------------------------------- labels and targets

NO_LABELS = {
    "one class": np.ones(16),
    "NaN": spoiled(LABELS, np.nan),
    "None among text": spoiled(WORDS, None, object),
    "infinity": spoiled(LABELS, np.inf),
    "real numbers": TARGET,
    "text and numbers": np.array([1, "a"] * 8, dtype=object),
    "objects": np.array([THING] * 16),
    "dates": np.where(POSITIVE, np.datetime64("2020-01-01"), np.datetime64("2021-01-01")),
    "complex": LABELS + 1j,
    "masked": masked(LABELS),
    "too many": np.r_[LABELS, LABELS],
    "a number": np.int64(1),
    "ragged": [[1, 2], [1]] * 8,
    "nullable with a gap": pd.array([None, *LABELS[1:]], dtype="Int64"),
    "polars with a gap": pl.Series([None, *LABELS[1:].tolist()]),
}
NO_TARGETS = no_numbers(TARGET) | {
    "words": np.full(16, "a"),
    "too many": np.r_[TARGET, TARGET],
    "nullable with a gap": pd.array([None, *TARGET[1:]], dtype="Float64"),
    "polars with a gap": pl.Series([None, *TARGET[1:].tolist()]),
    "huge": 1e150 * TARGET,
    "tiny": 1e-150 * TARGET,
    "nearly overflowing": np.where(POSITIVE, 1.7e308, -1.7e308),
}


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_targets_that_are_none_are_refused(name):
    every = NO_LABELS if name in CLASSIFIERS else NO_TARGETS
    wrong = dict(list(every.items())[:: 1 if name in ROADS else 4])
    if name in DISCRIMINATIVE:
        wrong["two columns"] = np.c_[LABELS, LABELS]
    if name in BAYESIAN and name in CLASSIFIERS:
        wrong["one sample of a class"] = np.where(FIRST, 1, 0)
    each_refused((form, lambda y=y: quick(name).fit(X, y), "y") for form, y in wrong.items())


LABEL_FORMS = {
    "a list": (LABELS.tolist(), (-1, 1)),
    "booleans": (POSITIVE, (False, True)),
    "text": (WORDS, ("no", "yes")),
    "distant whole numbers": (np.where(POSITIVE, 2**62, -(2**62)), (-(2**62), 2**62)),
    "a pandas series": (pd.Series(LABELS, index=range(50, 66)), (-1, 1)),
    "nullable booleans": (pd.array(POSITIVE, dtype="boolean"), (False, True)),
    "text of arrow": (pd.Series(WORDS, dtype="string[pyarrow]"), ("no", "yes")),
    "categories": (pd.Series(pd.Categorical(WORDS, categories=["maybe", "yes", "no"])), ("no", "yes")),
    "polars text": (pl.Series(WORDS.tolist()), ("no", "yes")),
}


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name in OFTEN])
def test_labels_in_other_forms_are_the_same_classes(name):
    plain = fitted(name)
    for form in LABEL_FORMS if name in ROADS else ("text",):
        y, classes = LABEL_FORMS[form]
        model = quietly(lambda y=y: quick(name).fit(X, y), *WARNED)
        np.testing.assert_array_equal(scores(model, NEW), scores(plain, NEW), err_msg=form)
        assert model.classes_.tolist() == list(classes)
        expected = np.where(plain.predict(NEW) > 0, classes[1], classes[0])
        np.testing.assert_array_equal(model.predict(NEW), expected)
    for column in (LABELS[:, None], pd.DataFrame({"label": LABELS})):
        model = quietly(lambda y=column: quick(name).fit(X, y), DataConversionWarning, *WARNED)
        np.testing.assert_array_equal(np.ravel(scores(model, NEW)), scores(plain, NEW))


@pytest.mark.parametrize("name", ["UniformMKLRegressor", "BEMKLRegressor"])
def test_targets_in_other_forms_are_the_same_numbers(name):
    small = np.round(5.0 * TARGET)
    forms = [
        (TARGET, TARGET.tolist()),
        (TARGET, pd.Series(TARGET, index=range(50, 66))),
        (TARGET, pl.Series(TARGET.tolist())),
        (small, small.astype(int)),
        (small, pd.Series(pd.Categorical(small))),
        (1.0 * POSITIVE, POSITIVE),
    ]
    for plain, form in forms:
        one, other = (silently(lambda y=y: quick(name).fit(X, y)) for y in (plain, form))
        np.testing.assert_array_equal(scores(other, NEW), scores(one, NEW), err_msg=str(type(form)))


@pytest.mark.parametrize("name", MULTITASK)
def test_tasks_are_named_in_any_form_or_refused(name):
    names = np.array(["a", "b"] * 8)
    y = LABELS if name in CLASSIFIERS else TARGET
    wrong = {
        "too few": names[:-1],
        "two columns": np.c_[names, names],
        "masked": masked(np.arange(16) % 2),
        "a task of one sample": np.where(FIRST, "c", names),
    }
    own = {"a task of one sample": "task"}
    each_refused(
        (f, lambda t=t: quick(name).fit(X, y, tasks=t), own.get(f, "tasks")) for f, t in wrong.items()
    )
    plain = silently(lambda: quick(name).fit(X, y, tasks=names))
    unknown = (["a"] * 4, ["unheard"] * 5, 3)
    for method in methods_of(name):
        call = getattr(plain, method)
        each_refused((f"{method} {t}", lambda call=call, t=t: call(NEW, tasks=t), "tasks") for t in unknown)
    for tasks in ((names == "b").astype(int), pd.Categorical(names, categories=[*"zba"])):
        model = quietly(lambda tasks=tasks: quick(name).fit(X, y, tasks=tasks), *WARNED)
        found = scores(model, NEW, tasks=np.asarray(tasks)[:5])
        np.testing.assert_array_equal(found, scores(plain, NEW, tasks=names[:5]))


# ----------------------------------------------------------------------------------- units, copies, many kernels

FAR = 2.0**496  # about 2e149, a power of two: the numbers below are the same to the last bit


@pytest.mark.parametrize("name", OFTEN)
def test_units_of_the_features_do_not_matter_where_widths_have_them_too(name):
    for factor in (FAR, 1.0 / FAR):
        model = quietly(lambda f=factor: quick(name, bank(f)).fit(f * X, target_of(name)), *WARNED)
        np.testing.assert_array_equal(scores(model, factor * NEW), scores(fitted(name), NEW))


# Powers of the scale of the kernels; kernels that are scaled inside need none.
PRICES = {"C": -1, "gate_C": -1, "reg": 1, "gamma_ambient": 1, "reg_weights": -1}
LIMIT = 2.0**300  # about 2e90, within what is taken for a kernel


def machine_of_kernels(name, factor):
    """Fit to kernels times `factor`, with prices that make the same machine of them; return its scores."""
    parameters = quick(name).get_params() if name not in estimators_with("scales kernels") else {}
    prices = {
        key: (parameters[key] or 1.0) * factor**power for key, power in PRICES.items() if key in parameters
    }
    if name == "GMKLClassifier":  # prices the weights, by their sum, beside the machines
        prices["regularizer"] = lambda d: (float(d.sum()) / factor, np.ones(len(d)) / factor)
    if name.endswith("OneClass"):  # its first steps depend on the size of the objective
        exactly = {"tol": 1e-8, "max_iter": 500}
        prices |= {"weights": Lp(2.0, **exactly)} if name == "MKLOneClass" else exactly
    more, y = extra(name), target_of(name)
    model = quietly(lambda: quick(name, "precomputed", **prices).fit(factor * stack(), y, **more), *WARNED)
    found = scores(model, factor * stack(), **more)
    return found / factor if name.endswith("OneClass") else found  # a score in units of the kernel


@pytest.mark.parametrize("name", DISCRIMINATIVE)
def test_kernels_at_the_limits_are_those_of_order_one(name):
    """Kernels times s with C over s are the same machines."""
    slack = 1e-4 if name.endswith("OneClass") else 1e-9
    for factor in (LIMIT, 1.0 / LIMIT):
        assert_close(machine_of_kernels(name, factor), machine_of_kernels(name, 1.0), slack)


@pytest.mark.parametrize("name", REGRESSORS)
def test_units_of_the_target_do_not_matter(name):
    """Targets times s: the same machine with C times s, a loss times s squared, or a prior on standardized ones."""
    given = {"delta": 1.0} if name == "PrimalMKLRegressor" else {"epsilon": 0.2, "C": 1.0}
    given = known(name, given) if name in DISCRIMINATIVE else {}
    for factor in (2.0**300, 2.0**-40):
        for one in (given, dict.fromkeys(given)) if "C" in given else (given,):
            scaled = {key: value if value is None else factor * value for key, value in one.items()}
            model = quietly(lambda s=scaled, f=factor: quick(name, **s).fit(X, f * TARGET), *WARNED)
            plain = quietly(lambda one=one: quick(name, **one).fit(X, TARGET), *WARNED)
            assert_close(scores(model, NEW) / factor, scores(plain, NEW), 1e-6)


@pytest.mark.parametrize("name", [name for name in REGRESSORS if not name.startswith("GPMKL")])
def test_a_constant_target_is_predicted(name):
    slack = quick(name).get_params().get("epsilon", 0.0) + 1e-6
    for value in (0.0, -1e12, 1e-50):
        model = quietly(lambda value=value: quick(name).fit(X, np.full(16, value)), *WARNED)
        np.testing.assert_allclose(scores(model, NEW), value, rtol=1e-6, atol=slack)


@pytest.mark.parametrize("name", OFTEN)
def test_equal_samples_have_equal_scores(name):
    rows = np.r_[np.arange(16), np.arange(16)]
    model = quietly(lambda: quick(name).fit(X[rows], target_of(name)[rows]), *WARNED)
    found = scores(model, X[rows])
    assert np.isfinite(found).all()
    assert_close(found[:16], found[16:])
    if name in DISCRIMINATIVE:  # of which nothing can be learned but the side of the larger class
        y = np.full(16, 3.0) if name in REGRESSORS else np.where(np.arange(16) < 5, -1, 1)
        alike = quietly(lambda: quick(name).fit(np.ones((16, 3)), y), *WARNED)
        found = scores(alike, np.ones((2, 3)))
        assert found[0] == found[1]
        if name in CLASSIFIERS:
            assert (alike.predict(np.ones((2, 3))) == 1).all()


# Kernels between rows and training samples lack the variances of the rows, by which these scores are divided.
@pytest.mark.parametrize("name", [name for name in EVERY if name != "GPMKLClassifier"])
def test_kernels_of_rows_are_the_rows(name):
    """A bank without statistics, inside the model and outside."""
    kernels = KernelBank([Gaussian(width=2.0), Linear()], normalize=None)
    fixed = kernels.fit(X)
    own = {"fallback": False} if "LMKL" in name and "CLMKL" not in name else {}  # gate features decide it
    own |= {"gate_kernel": "own"} if name == "LDMKLClassifier" else {}
    of_view = {"kernel_views": ["all", "all"]} if name.startswith("GPMKL") else {}
    inside, outside = quick(name, kernels, **own), quick(name, "precomputed", **of_view)
    if name == "LapMKLClassifier":
        inside, outside = (
            quick(name, k, distances=d) for k, d in ((kernels, distances), ("precomputed", distances(X)))
        )
    silently(lambda: inside.fit(X, target_of(name)))
    silently(lambda: outside.fit(np.moveaxis(fixed.train_stack(), 0, -1), target_of(name), **extra(name)))
    found, expected = scores(outside, fixed.transform(NEW), **extra(name, NEW)), scores(inside, NEW)
    rough = ("LDMKLClassifier", "SwMKLClassifier", "MWUMKLClassifier")  # other solvers with a bank, and early
    assert_close(found, expected, 2e-2 if name in rough else 1e-6)


def distances(features):
    return np.sqrt(np.square(features[:, None] - features).sum(axis=-1))


MANY = [name for name in EVERY if not name.startswith("GPMKL")]


@pytest.mark.parametrize("name", MANY)
def test_more_kernels_than_samples(name):
    rng = np.random.default_rng(1)
    features = X @ rng.normal(size=(3, 40)) + 0.5 * rng.normal(size=(16, 40))
    kernels = KernelBank(Gaussian(width=2.0), views="each").fit_transform(features)
    few = known(name, {"max_iter": 3, "max_switches": 2})
    model = quietly(
        lambda: quick(name, "precomputed", **few).fit(kernels, target_of(name), **extra(name)), *WARNED
    )
    assert model.n_kernels_in_ == 40
    assert np.isfinite(scores(model, kernels, **extra(name))).all()
