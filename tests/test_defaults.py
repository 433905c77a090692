"""Every public estimator: scikit-learn's checks, and what it answers as it is made without an argument."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings

import numpy as np
import pytest
from helpers import frozen
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.metrics import balanced_accuracy_score
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
    pytest.mark.filterwarnings("ignore:`y` holds only one sample of"),  # which some checks make up
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


# Rules of weights have parameters that can be searched and no `fit`; kernels learn their scale from samples that a
# bank has checked. Targets of scikit-learn's checks are no times with events: what concerns `X` alone is checked in
# gp/test_outcomes.py.
OTHER_DATA = ("BEMKLSurvival", "GPMKLSurvival")
EVERY = {
    name: cls
    for name, cls in public_classes().items()
    if issubclass(cls, BaseEstimator)
    and hasattr(cls, "fit")
    and not issubclass(cls, Kernel)
    and name not in OTHER_DATA
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


# One of each function that takes data in, that users call, and that hands a target on; the others are slow.
ALWAYS = (
    *(
        "KernelBank",
        "BEMKLClassifier",
        "BEMKLMultitaskClassifier",
        "BEMKLMultitaskRegressor",
        "BEMKLRegressor",
    ),
    *(
        "CLMKLClassifier",
        "EasyMKLClassifier",
        "GPMKLRegressor",
        "LDMKLClassifier",
        "LMKLRegressor",
        "LapMKLClassifier",
    ),
    *("PrimalMKLOneClass", "PrimalMKLRegressor", "UniformMKLClassifier", "UniformMKLRegressor"),
)
# Weights equal repeated samples as exactly as SVMs are solved, to `tol`: discriminative/test_weights.py; columns of a
# bank are training samples: kernels/test_bank.py.
ELSEWHERE = {
    "check_array_api_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}  # the first one skips itself
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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in ALWAYS)) for name in EVERY]
)
def test_contract_scikit_learn(name):
    failed = {}
    for estimator, check in estimator_checks_generator(quick(name), legacy=True):
        kind = check.func.__name__
        if kind in ELSEWHERE:
            continue
        try:
            check(estimator)
        except (TypeError, ValueError, AssertionError) as error:
            if (name, kind) not in EXPECTED_TO_FAIL:
                failed[f"{kind} {check.keywords}"] = error
        else:
            assert (name, kind) not in EXPECTED_TO_FAIL, kind
    assert not failed


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
def test_recovery_of_a_rare_class(name):  # two grades are two classes, see gp/test_outcomes.py
    rng = np.random.default_rng(0)
    y = (rng.random(160) < 0.25).astype(int)
    X = rng.normal(size=(160, 4)) + 3.0 * y[:, None] * np.array([1.0, 0.0, 0.0, 0.0])
    target = y[:, None] if "Multitask" in name else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = EVERY[name]().fit(X[:100], target[:100])
    assert balanced_accuracy_score(y[100:], np.ravel(model.predict(X[100:]))) > 0.75
