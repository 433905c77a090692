"""Every constructor parameter of every estimator refuses wrong values by name, before any work."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from in_turn import in_turn
from parameters import (
    ESTIMATORS,
    FIELDS,
    LABELS,
    OWN,
    WITH_DATA,
    WRONG,
    X,
    bank,
    estimator,
    fitted,
    target,
    wrong,
)
from sklearn.exceptions import ConvergenceWarning
from verdicts import assert_refused, quietly

from bayesmkl import KernelBank
from bayesmkl._utils.options import inference_of

pytestmark = [pytest.mark.family("parameters"), pytest.mark.heavy]

PARAMETERS = [(name, key) for name, cls in ESTIMATORS.items() for key in cls().get_params(deep=False)]


class Worked(Exception):
    """Kernels were evaluated, which costs time, before parameters were checked."""


def costly(left, right):
    raise Worked


def refused_values():
    """Every value for the first estimator that has a parameter, one for each of the others."""
    seen = set()
    for name, parameter in PARAMETERS:
        values = wrong(name, parameter).values
        for value in values if parameter not in seen or (name, parameter) in OWN else values[:1]:
            yield pytest.param(name, parameter, value, id=f"{name}-{parameter}-{str(value)[:24]!r}")
        seen.add(parameter)


@in_turn(("name", "parameter", "value"), refused_values())
def test_wrong_values_are_refused_by_name_before_any_work(name, parameter, value):
    kernels = bank() if parameter in WITH_DATA else KernelBank([costly])
    model = estimator(name, **{"kernels": kernels, parameter: value})
    assert_refused(lambda: model.fit(X, target(name)), f"`{parameter}")
    assert not [key for key in vars(model) if key.endswith("weights_")]


def refused_fields():
    """Wrong values of the fields of options objects."""
    for name, parameter, options, field in FIELDS:
        for value in WRONG[field].values:
            label = f"{name}-{options.__name__}-{field}-{str(value)[:24]!r}"
            yield pytest.param(name, parameter, options(**{field: value}), field, id=label)


@in_turn(("name", "parameter", "options", "field"), refused_fields())
def test_wrong_fields_are_refused_by_name_before_any_work(name, parameter, options, field):
    model = estimator(name, kernels=KernelBank([costly]), **{parameter: options})
    assert_refused(lambda: model.fit(X, target(name)), f"`{field}")


def equal_fields():
    for name, _, options, field in FIELDS:
        for plain, other in WRONG[field].equal:
            label = f"{name}-{options.__name__}-{field}-{type(other).__name__}-{other}"
            yield pytest.param(options(**{field: plain}), options(**{field: other}), id=label)


@pytest.mark.parametrize(("plain", "other"), list(equal_fields()))
def test_equal_fields_of_other_types_are_the_same_options(plain, other):
    found = [inference_of(options) for options in (plain, other)]
    assert [[type(value) for value in vars(options).values()] for options in found] == [
        [type(value) for value in vars(plain).values()]
    ] * 2
    assert vars(found[1]) == pytest.approx(vars(plain))


def equal_values():
    """Yield those of a parameter for the first estimator that has it."""
    first = {parameter: name for name, parameter in reversed(PARAMETERS)}
    for parameter, name in first.items():
        for plain, other in wrong(name, parameter).equal:
            label = f"{name}-{parameter}-{type(other).__name__}-{other}"
            yield pytest.param(name, parameter, plain, other, id=label)


@in_turn(("name", "parameter", "plain", "other"), equal_values())
def test_equal_values_of_other_types_give_equal_models(name, parameter, plain, other):
    results = []
    for value in (plain, other):
        model = estimator(name, **{parameter: value})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, target(name))
        results.append((model.predict(X), model.kernel_names_))
    np.testing.assert_array_equal(results[0][0], results[1][0])


def test_the_table_knows_every_parameter():
    assert {key for _, key in PARAMETERS} | {field for *_, field in FIELDS} == set(WRONG)
    assert set(LABELS) == {0, 1}


# ------------------------------------------------------------------------------------ parameters of predictions

READ_BY_PREDICTIONS = [
    ("BEMKLClassifier", "predictive", "half"),
    ("BEMKLClassifier", "margin", np.nan),
    ("BEMKLRegressor", "predictive", 1),
    ("BEMKLMultitaskClassifier", "predictive", "half"),
    ("BEMKLMultitaskClassifier", "margin", "1"),
    ("BEMKLMultitaskClassifier", "intermediate_scale", -1.0),
    ("BEMKLMultitaskRegressor", "predictive", None),
    ("SAMKLClassifier", "rule", "first"),
    ("SAMKLClassifier", "normalize", "yes"),
    ("LDMKLClassifier", "temperature", 0.0),
    ("SwMKLClassifier", "psd", "none"),
    ("SwMKLClassifier", "lowest_gate", 2.0),
]


@pytest.mark.parametrize(("name", "parameter", "value"), READ_BY_PREDICTIONS)
def test_wrong_values_that_are_set_after_a_fit_are_refused_by_predictions(name, parameter, value):
    model = fitted(name).set_params(**{parameter: value})
    predict = "predict_proba" if name.startswith("BEMKL") and name.endswith("Classifier") else "predict"
    assert_refused(lambda: getattr(model, predict)(X), f"`{parameter}")


# ------------------------------------------------------------------------------------------------ extreme values

EXTREME = [5e-324, 1e-200, 1e-30, 1e30, 1e200, 1.7e308]


def numbers_of(values):
    return [value for value in values.values if type(value) is float]


FLOATS = [
    (name, key)
    for name, key in PARAMETERS
    if np.inf in numbers_of(wrong(name, key)) and 2.5 not in numbers_of(wrong(name, key))
]


def extreme_values():
    """Yield one of them for each parameter of each estimator, in turn."""
    for i, (name, parameter) in enumerate(FLOATS):
        value = EXTREME[i % len(EXTREME)]
        yield pytest.param(name, parameter, value, id=f"{name}-{parameter}-{value}")


# One predicts one class, and says so; of the other, twice the tolerance overflows.
WARNED = {("LDMKLClassifier", "tol"): UserWarning, ("PrimalMKLRegressor", "tol"): RuntimeWarning}


@in_turn(("name", "parameter", "value"), extreme_values())
def test_extreme_values_are_refused_by_name_or_give_finite_numbers(name, parameter, value):
    """A warning about convergence may come, once; nothing else but that unsolved machines give one answer."""
    model = estimator(name, **{parameter: value})
    own = WARNED.get((name, parameter))
    expected = (ConvergenceWarning,) if own is None else (ConvergenceWarning, own)
    try:
        quietly(lambda: model.fit(X, target(name)), *expected)
    except ValueError:
        assert_refused(lambda: model.fit(X, target(name)), f"`{parameter}")
        return
    scores = getattr(model, "decision_function" if hasattr(model, "decision_function") else "predict")(X)
    assert np.isfinite(scores).all()
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
