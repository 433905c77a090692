"""Estimators that take rules for kernel weights: presets, searches, targets that rules do not suit; the registry."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from dual_reference import problem
from helpers import assert_same, informed_target, learn
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import bayesmkl.discriminative
from bayesmkl import KernelBank, discriminative
from bayesmkl.discriminative import (
    GMKL,
    SILP,
    SMO,
    Alignment,
    BestKernel,
    Easy,
    Lp,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    OptimalKernel,
    PrimalMKLOneClass,
    Simple,
    Uniform,
)
from bayesmkl.discriminative.methods import public_names
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

PRESETS = {
    "Uniform": Uniform(),
    "BestKernel": BestKernel(cv=3),
    "AlignmentMKL": Alignment("align"),
    "OBMKL": OptimalKernel("ratio"),
    "EasyMKL": Easy(final="komd"),
    "SimpleMKL": Simple("reduced-gradient"),
    "SILPMKL": SILP(tol=1e-4),
    "LpMKL": Lp(1.5),
    "GMKL": GMKL("uniform", "product"),
    "SMOMKL": SMO(1.5, reg_weights=0.5),
}
BANK = KernelBank([Gaussian(width=1), Gaussian(width=4)], views="each")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=40), [-0.5, 0.5]), np.sin(2.0 * X[:, 1])


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_presets_are_their_rules(data, name, kind):
    X, classes, target = data
    own = name if name == "BestKernel" else name.removesuffix("MKL") + "MKL"
    preset = getattr(discriminative, own + kind, None)
    if preset is None:
        return
    rule = PRESETS[name]
    y, by_rule = (classes, MKLClassifier) if kind == "Classifier" else (target, MKLRegressor)
    C = {"C": None} if name == "AlignmentMKL" else {}
    model = preset(BANK, **rule.get_params(deep=False)).fit(X, y)
    same = by_rule(BANK, weights=rule, **C).fit(X, y)
    np.testing.assert_array_equal(model.kernel_weights_, same.kernel_weights_)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert hasattr(same, "cv_scores_") == (name == "BestKernel")


def test_search_over_rules_and_into_them_leaves_defaults_as_they_are(data):
    X, _, target = data
    grid = [{"weights": [Uniform(), SILP(), Alignment()]}, {"weights": [Lp()], "weights__p_norm": [1.2, 8.0]}]
    search = GridSearchCV(MKLRegressor(BANK, C=10.0), grid, cv=2, error_score="raise").fit(X, target)
    assert len(set(search.cv_results_["mean_test_score"])) == 5
    assert Lp().p_norm == 2.0
    assert MKLRegressor().weights is None
    assert clone(search.best_estimator_).get_params()["weights__tol"] == 1e-3


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # of SLSQP of older SciPy
@pytest.mark.parametrize(
    ("rule", "penalty"),
    [
        (SILP(1e-7), None),
        (GMKL("l1", tol=1e-7), lambda d: d.sum()),
        (GMKL("uniform", tol=1e-7), lambda d: 0.5 * ((d - 1.0 / len(d)) ** 2).sum()),
        (SMO(2.0, 0.5, tol=1e-7), lambda d: 0.25 * (d**2).sum()),
        (
            SMO(regularizer="divergence", tol=1e-7),
            lambda d: (d * np.log(len(d) * d) - d + 1.0 / len(d)).sum(),
        ),
    ],
    ids=["SILP", "GMKL-l1", "GMKL-uniform", "SMO", "SMO-divergence"],
)
def test_regression_reaches_the_optimum_of_another_solver(rng, rule, penalty):
    """The best weights around an SVR, by a solver that knows neither gaps nor closed forms."""
    kernels = problem(rng, 30, 3)[0]
    target, tube = (
        informed_target(rng, kernels) + informed_target(rng, kernels[1:]),
        EpsilonInsensitive(3.0, 0.1),
    )
    found = learn(DenseStack(kernels), target[None], tube, rule)
    assert abs(found.duality_gap) <= 2e-7 * found.objective_history[-1]

    def objective(d):
        svm = tube.solve(np.tensordot(d, kernels, 1), target, 1e-9)
        return svm.objective + (0.0 if penalty is None else penalty(d))

    bounded = penalty is None or "uniform" in repr(rule)
    other = minimize(
        objective,
        np.full(3, 1.0 / 3.0),
        method="SLSQP",
        bounds=[(1e-12, None)] * 3,
        constraints=[{"type": "eq", "fun": lambda d: d.sum() - 1.0}] * bounded,
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert found.objective_history[-1] == pytest.approx(other.fun, rel=1e-5)
    assert_same(found.kernel_weights, other.x, 2e-2)


@pytest.mark.parametrize("p_norm", [1.5, 4.0])
def test_novelties_are_those_of_the_primal_method(data, p_norm):
    X, reg = data[0], 0.3
    model = MKLOneClass(BANK, reg=reg, weights=Lp(p_norm, tol=1e-8)).fit(X)
    other = PrimalMKLOneClass(BANK, reg=reg, p_norm=p_norm, tol=1e-8).fit(X)
    assert reg * model.objective_history_[-1] == pytest.approx(other.objective_history_[-1], rel=1e-6)
    assert_same(model.score_samples(X), other.score_samples(X), 1e-3)
    assert_same(
        MKLOneClass(BANK).fit(X).score_samples(X), MKLOneClass(BANK, weights=Lp(2)).fit(X).score_samples(X), 0
    )


@pytest.mark.parametrize(
    ("model", "weighted", "message"),
    [
        (
            MKLRegressor(weights=Easy()),
            False,
            r"takes numbers in MKLRegressor; got Easy\(\). Use one of Uniform\(\), ",
        ),
        (
            MKLRegressor(weights=BestKernel(cv=3)),
            False,
            r"got BestKernel\(cv=3\). .* SILP\(\), Lp\(\), SMO\(\), GMKL\(\)",
        ),
        (
            MKLOneClass(weights=Alignment()),
            False,
            r"takes nothing but samples in MKLOneClass; got Alignment\(\)",
        ),
        (MKLClassifier(weights=Easy()), True, r"takes weights of samples in MKLClassifier; got Easy\(\)"),
        (MKLClassifier(weights=Easy(), class_weight="balanced"), False, "takes weights of classes in"),
        (MKLClassifier(weights=Lp(0.5)), False, "`p_norm` must be a finite number >= 1; got 0.5"),
        (
            MKLClassifier(weights="simple"),
            False,
            r"`weights` must be None or a rule, one of Uniform\(\), .*'simple'",
        ),
        (MKLClassifier(weights=Simple), False, "`weights` must be None or a rule"),
        (MKLClassifier(C=None), False, "`C` must be a finite number > 0; got None"),
    ],
    ids=repr,
)
def test_rules_that_do_not_suit_are_refused_by_name(data, model, weighted, message):
    X, _, target = data
    with pytest.raises(ValueError, match=message):
        model.fit(X, (target > 0.0).astype(int), **{"sample_weight": np.ones(40)} if weighted else {})


# --------------------------------------------------------------------------------


def test_names_are_loaded_on_first_use_and_unknown_ones_are_named():
    assert set(public_names()) == set(bayesmkl.discriminative.__all__) <= set(dir(bayesmkl.discriminative))
    for name, module in public_names().items():
        assert getattr(bayesmkl.discriminative, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(
        AttributeError, match=r"module 'bayesmkl\.discriminative' has no attribute 'SimplMKL'"
    ):
        _ = bayesmkl.discriminative.SimplMKL
