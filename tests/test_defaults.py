"""Every public estimator: scikit-learn's checks, and what it answers as it is made without an argument."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import frozen
from in_turn import in_turn
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.metrics import balanced_accuracy_score
from sklearn.utils import validation
from sklearn.utils.estimator_checks import estimator_checks_generator

import bayesmkl
from bayesmkl import KernelBank
from bayesmkl._utils.options import Marginal
from bayesmkl.kernels.base import Kernel

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    pytest.mark.filterwarnings("ignore:The least populated class"),
    pytest.mark.filterwarnings("ignore:`y` holds one sample only of"),  # which some checks make up
    pytest.mark.filterwarnings(
        "ignore:.* for all training samples, of which"
    ),  # labels that depend on nothing
    pytest.mark.filterwarnings("ignore:.* samples repeat another one"),
    pytest.mark.filterwarnings("ignore:`sample_weight` should have a mean of 1"),
    pytest.mark.heavy,
]


def public_classes():
    """Return all classes in `__all__` of the modules that users import, by name."""
    modules = [bayesmkl] + [
        importlib.import_module(f"bayesmkl.{module.name}")
        for module in pkgutil.iter_modules(bayesmkl.__path__)
        if module.ispkg and not module.name.startswith("_") and module.name != "cli"
    ]
    found = {name: getattr(module, name) for module in modules for name in getattr(module, "__all__", ())}
    return {name: value for name, value in found.items() if inspect.isclass(value)}


# Kernels have parameters that can be searched, but learn their scale from samples that a bank has checked. Targets
# of scikit-learn's checks are no times with events: what concerns `X` alone is checked in marginal/test_outcomes.py.
OTHER_DATA = ("BEMKLSurvival", "GPMKLSurvival")
EVERY = {
    name: cls
    for name, cls in public_classes().items()
    if issubclass(cls, BaseEstimator) and not issubclass(cls, Kernel) and name not in OTHER_DATA
}
CLASSIFIERS = [name for name, cls in EVERY.items() if is_classifier(cls())]
REGRESSORS = [name for name, cls in EVERY.items() if is_regressor(cls()) and "Multitask" not in name]
EXPECTED_TO_FAIL = {
    ("BEMKLMultitaskClassifier", "check_classifier_multioutput"): (
        "indexes one array `classes_` by the signs of `decision_function`; here each task has classes of its own"
    ),
    ("BEMKLOrdinalClassifier", "check_classifiers_classes"): "fits text, whose order it does not say",
    ("GPMKLOrdinalClassifier", "check_classifiers_classes"): "fits text, whose order it does not say",
}


def test_no_estimator_was_forgotten():
    assert {"KernelBank", "BEMKLClassifier", "LDMKLClassifier", "PrimalMKLOneClass"} <= set(EVERY)
    assert all(hasattr(cls, "predict") or hasattr(cls, "transform") for cls in EVERY.values())


# Checks of the form of the data. They concern the function that takes data in, of which there are few
# (`test_data_come_in_by_the_doors_that_are_checked`): estimators of all of them are checked, the others if slow.
OF_FORMS = {
    "check_classifier_data_not_an_array",
    "check_complex_data",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_nan_inf",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_predict1d",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_supervised_y_2d",
}
DOORS = (
    "KernelBank",
    "BEMKLClassifier",
    "BEMKLMultitaskClassifier",
    "BEMKLMultitaskRegressor",
    "LDMKLClassifier",
    "LMKLRegressor",
    "PrimalMKLOneClass",
    "UniformMKLClassifier",
)
# Checks of labels, of what `fit` hands back and of `predict`: of the functions that users call, of which there are
# few too (`test_users_call_the_functions_that_are_checked`).
OF_CALLS = {
    "check_all_zero_sample_weights_error",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_classifiers_classes",
    "check_classifiers_one_label_sample_weights",
    "check_classifiers_regression_target",
    "check_classifiers_train",
    "check_dict_unchanged",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_empty_data_messages",
    "check_estimators_fit_returns_self",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_fit_check_is_fitted",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_regressors_int",
    "check_regressors_no_decision_function",
    "check_requires_y_none",
    "check_supervised_y_no_nan",
}
CALLED = (
    *DOORS,
    "BEMKLOrdinalClassifier",
    "BEMKLRegressor",
    "CLMKLClassifier",
    "EasyMKLClassifier",
    "GPMKLClassifier",
    "GPMKLOrdinalClassifier",
    "GPMKLRegressor",
    "LapMKLClassifier",
    "PrimalMKLRegressor",
    "UniformMKLRegressor",
)
# Weights equal repeated samples as exactly as SVMs are solved, to `tol`: discriminative/test_weights.py; columns of a
# bank are training samples: kernels/test_weighted_bank.py.
ELSEWHERE = {
    "check_array_api_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}  # the first one skips itself
# These differ from BEMKLClassifier and GPMKLRegressor by likelihood and by what labels become.
SIBLINGS = ("BEMKLOrdinalClassifier", "GPMKLClassifier", "GPMKLOrdinalClassifier")
OF_LABELS = {"check_classifiers_one_label", "check_decision_proba_consistency"}
# Options that save time in checks of forms, where an estimator has them: two kernels by default, not thirteen.
QUICK = {
    "kernels": KernelBank("auto"),
    "inference": Marginal(n_points=100, n_draws=100),
    "intermediate_scale": 1.0,
}


def quick(name):
    """Return an estimator that is made with these options."""
    usual = EVERY[name]().get_params(deep=False)
    if name == "KernelBank":
        return EVERY[name]()
    return EVERY[name](
        **{k: v for k, v in QUICK.items() if k in usual and (k != "inference" or usual[k] == "marginal")}
    )


def checks():
    """Yield scikit-learn's checks; those that repeat others in memory that cannot be written are slow but for two."""
    for name in EVERY:
        for estimator, check in estimator_checks_generator(quick(name), legacy=True):
            if check.func.__name__ in ELSEWHERE:
                continue
            words = [check.func.__name__, *map(str, check.keywords.values())]
            repeated = check.keywords.get("readonly_memmap") and not name.startswith("Uniform")
            kind = check.func.__name__
            elsewhere = (kind in OF_FORMS and name not in DOORS) or (kind in OF_CALLS and name not in CALLED)
            sibling = name in SIBLINGS and kind not in OF_LABELS
            marks = [pytest.mark.slow] if repeated or elsewhere or sibling else []
            yield pytest.param(name, estimator, check, id="-".join([name, *words]), marks=marks)


@in_turn(("name", "estimator", "check"), checks())
def test_contract_scikit_learn(name, estimator, check):
    if (name, check.func.__name__) in EXPECTED_TO_FAIL:
        with pytest.raises((TypeError, ValueError, AssertionError)):
            check(estimator)
    else:
        check(estimator)


class Found(BaseException):
    """The name of the function that was looked for."""


def door(call, given):
    """Return which function of the package hands `given` to scikit-learn's checks."""
    package = str(Path(bayesmkl.__file__).parent)
    checking = {getattr(validation, key).__code__ for key in ("check_array", "check_X_y", "validate_data")}

    def profile(frame, event, _argument):
        if event == "call" and frame.f_code in checking and any(v is given for v in frame.f_locals.values()):
            while not frame.f_code.co_filename.startswith(package):
                frame = frame.f_back
            sys.setprofile(None)
            raise Found(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    except Found as found:
        return str(found)
    finally:
        sys.setprofile(before)
    pytest.fail("was never checked")


def doors_of(name):
    """Return the functions that take in samples, kernels, and rows and kernels to predict, by what they are for."""
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = None if name.endswith("OneClass") else X[:, 0] if name in REGRESSORS else (X[:, 0] > 0.0).astype(int)
    y = X[:, :1] > 0.0 if name == "BEMKLMultitaskClassifier" else X[:, :1] if "Multitask" in name else y
    stack = np.einsum("ip,jp->ijp", X, X)
    model, of_kernels = (
        quick(name).set_params(kernels=kernels, **known(name))
        for kernels in (KernelBank("auto"), "precomputed")
    )
    gates = {"gate_features": X} if name.startswith("LMKL") or "Localized" in name else {}
    found = {"fit": door(lambda: model.fit(X, y), X)}
    found["fit kernels"] = door(lambda: of_kernels.fit(stack, y, **gates), stack)
    model.fit(X, y)
    of_kernels.fit(stack, y, **gates)
    for method in ("predict", "decision_function", "predict_proba", "score_samples", "gates"):
        if hasattr(model, method):
            found["rows"] = door(lambda method=method: getattr(model, method)(X), X)
            call = getattr(of_kernels, method)
            found["kernels of rows"] = door(lambda call=call: call(stack, **gates), stack)
            yield dict(found)


def known(name):
    return {
        key: value for key, value in {"max_iter": 5, "cv": 2}.items() if key in EVERY[name]().get_params()
    }


def test_data_come_in_by_the_doors_that_are_checked():
    found = {name: list(doors_of(name)) for name in EVERY if name != "KernelBank"}
    checked = [doors for name in DOORS if name in found for doors in found[name]]
    for name, every in found.items():
        for doors in every:
            for use, function in doors.items():
                others = {one[use] for one in checked}
                assert function in others, f"{name}: {function} takes in {use}; add the estimator to DOORS"
    assert all(len({one[use] for one in checked}) <= 3 for use in checked[0])


METHODS = (
    "fit",
    "predict",
    "predict_proba",
    "decision_function",
    "score",
    "__sklearn_is_fitted__",
    "__getstate__",
)


@pytest.mark.parametrize("method", METHODS)
def test_users_call_the_functions_that_are_checked(method):
    found = {name: getattr(cls, method, None) for name, cls in EVERY.items()}
    functions = {name: inspect.unwrap(function) for name, function in found.items() if function is not None}
    checked = {functions[name] for name in CALLED if name in functions}
    others = {name: function for name, function in functions.items() if function not in checked}
    assert not others, f"add one estimator of each to CALLED: {others}"


# --------------------------------------------------------------------------------------------- what they answer


@pytest.fixture(scope="module")
def regression_data():
    """Real and made up samples, in the units that they come in."""
    X, y = load_diabetes(return_X_y=True)
    return {
        "diabetes": (frozen(X[:160]), frozen(y[:160])),
        "friedman": tuple(map(frozen, make_friedman1(160, noise=1.0, random_state=0))),
    }


@pytest.mark.parametrize("data", ["diabetes", "friedman"])
@pytest.mark.parametrize("name", REGRESSORS)
def test_recovery_by_regressors_in_any_unit(regression_data, name, data):
    X, y = regression_data[data]
    train, test = slice(None, 100), slice(100, None)
    model = EVERY[name]().fit(X[train], y[train])
    score, predicted = model.score(X[test], y[test]), model.predict(X[test])
    least = 0.5 if name == "LMKLRegressor" else 0.6  # folds of 100 samples prefer its gates here, and err
    assert score > (0.1 if data == "diabetes" else least)
    for scale, shift in ((1000.0, 1e5), (1e-3, -0.5)):
        again = EVERY[name]().fit(X[train], scale * y[train] + shift)
        close = 0.03 if name == "LMKLRegressor" else 0.02  # rounding decides whether its gates are kept
        assert again.score(X[test], scale * y[test] + shift) == pytest.approx(score, abs=close)
        if name != "LMKLRegressor":  # which ends where rounding leads it
            found = (again.predict(X[test]) - shift) / scale
            np.testing.assert_allclose(found, predicted, atol=0.02 * y[train].std())


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name != "GPMKLOrdinalClassifier"])
def test_recovery_of_a_rare_class(name):  # two grades are two classes, see marginal/test_outcomes.py
    rng = np.random.default_rng(0)
    y = (rng.random(160) < 0.25).astype(int)
    X = rng.normal(size=(160, 4)) + 3.0 * y[:, None] * np.array([1.0, 0.0, 0.0, 0.0])
    target = y[:, None] if "Multitask" in name else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = EVERY[name]().fit(X[:100], target[:100])
    assert balanced_accuracy_score(y[100:], np.ravel(model.predict(X[100:]))) > 0.75
