"""Every parameter of every estimator refuses wrong values by name, before any work.

A contract over all of them for one value that none takes, and one table for each validator and each rule of its own.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from verdicts import THING, assert_refused, each_refused, quietly

import bayesmkl.bemkl
import bayesmkl.discriminative
import bayesmkl.gp
from bayesmkl import KernelBank
from bayesmkl.bemkl import NUTS, VB, Dirichlet, Gamma, Gibbs, SpikeSlab, Storage
from bayesmkl.discriminative import GroupGating
from bayesmkl.gp import DirichletShares, HalfT, Horseshoe, LogNormal, Marginal
from bayesmkl.kernels import Gaussian, Linear

pytestmark = [pytest.mark.family("bad input"), pytest.mark.heavy]

ESTIMATORS: dict[str, Any] = {
    name: value
    for package in (bayesmkl.bemkl, bayesmkl.discriminative, bayesmkl.gp)
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name))
    and issubclass(value, BaseEstimator)
    and hasattr(value, "fit")
}
_rng = np.random.default_rng(0)
X = np.concatenate([_rng.normal(size=(6, 3)), _rng.normal(size=(6, 3)) + 2.0])[_rng.permutation(12)]
LABELS = (X.sum(axis=1) > np.median(X.sum(axis=1))).astype(int)
QUICK: dict[str, Any] = {"max_iter": 8, "tol": 0.05, "cv": 2, "n_neighbors": 4}

# ----------------------------------------------------------------------------------- one value for all parameters


class Worked(Exception):
    """Kernels were evaluated, which costs time, before parameters were checked."""


def costly(left, right):
    raise Worked


def target(name: str) -> Any:
    """Labels, or numbers for a regressor, or times."""
    if name.endswith("Survival"):
        return np.rec.fromarrays([LABELS > 0, np.exp(X[:, 0])], names="event,time")
    return X[:, 0] + 0.1 * LABELS if name.endswith("Regressor") else LABELS


def estimator(name: str, kernels: Any = None, **parameters: Any) -> Any:
    """Return an estimator that stops early."""
    known = ESTIMATORS[name]().get_params(deep=False)
    quick = {key: QUICK[key] for key in QUICK.keys() & known.keys()}
    kernels = KernelBank([Gaussian(width=1), Linear()]) if kernels is None else kernels
    return ESTIMATORS[name](**{"kernels": kernels} | quick | parameters)


def refused(name: str, key: str, values: list[Any]) -> Any:
    """Yield what refuses each of the values of a parameter, unless kernels are evaluated first."""
    kernels = None if key in WITH_DATA else KernelBank([costly])
    for value in values:
        model = estimator(name, **{"kernels": kernels, key: value})
        yield f"{key}={str(value)[:40]}", lambda model=model: model.fit(X, target(name)), f"`{key}"


# What can be judged only when kernels or samples are there, and what may be any label but one of several.
WITH_DATA = {
    "initial_switches",
    "kernel_names",
    "max_switches",
    "n_clusters",
    "laplacian",
    "distances",
    "levels",
}
LABEL = ("unlabeled_label",)
# Options objects, which estimators have as parameters.
OPTIONS: list[tuple[str, str, Any]] = [
    *(("BEMKLClassifier", "inference", options) for options in (VB, NUTS, Gibbs)),
    ("BEMKLMultitaskRegressor", "inference", VB),
    ("GPMKLClassifier", "inference", Marginal),
    ("BEMKLRegressor", "storage", Storage),
    ("BEMKLMultitaskClassifier", "storage", Storage),
]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_no_parameter_takes_is_refused_by_its_name_before_any_work(name):
    parameters = ESTIMATORS[name]().get_params(deep=False)
    each_refused(
        case for key in parameters for case in refused(name, key, [[0, 1] if key in LABEL else THING])
    )


@pytest.mark.parametrize(("name", "parameter", "options"), OPTIONS)
def test_what_no_field_of_options_takes_is_refused_by_its_name_before_any_work(name, parameter, options):
    def cases():
        for field in fields(options):
            given = {parameter: options(**{field.name: THING}), "kernels": KernelBank([costly])}
            model = estimator(name, **given)
            yield field.name, lambda model=model: model.fit(X, target(name)), f"`{field.name}"

    each_refused(cases())


# ---------------------------------------------------------------------------------------- one table per validator

NO_NUMBERS: list[Any] = ["1", None, True, 1j, np.array([0.3, 0.4]), object, np.nan, np.inf, -np.inf, 10**400]
WORD: list[Any] = ["", "nonsense", 1, True, np.nan, ["auto"], object, None]
POSITIVE, NOT_NEGATIVE = [*NO_NUMBERS, 0.0, -1.0], [*NO_NUMBERS, -1.0, -1e-12]
SHARE = [*NO_NUMBERS, 0.0, 1.0, 2.0, -0.5]
COUNT = [*NO_NUMBERS, 2.5, 2.0, np.float64(3.0), 0, -1]
SQUARES: list[Any] = [1.0, "knn", np.ones(3), np.full((12, 12), np.nan), [[1], [1, 2]]]
GAMMAS = [
    Gamma(0.0, 1.0),
    Gamma(1.0, 0.0),
    Gamma(np.nan, 1.0),
    Gamma(1.0, np.inf),
    Gamma("1", 1.0),
    Gamma(True, 1.0),
]
PRIOR: list[Any] = [*WORD, 1.0, (1.0,), (1.0, 1.0, 1.0), ("a", "b"), Gamma, *GAMMAS]


def optional(values: list[Any]) -> list[Any]:
    """The same where None has a meaning."""
    return [value for value in values if value is not None]


# One estimator and parameter for each validator and each rule of its own.
TABLE: list[tuple[str, str, list[Any]]] = [
    ("SimpleMKLClassifier", "C", POSITIVE),
    ("SimpleMKLRegressor", "C", optional(POSITIVE)),
    ("SimpleMKLRegressor", "epsilon", optional(NOT_NEGATIVE)),
    ("BEMKLClassifier", "tol", NOT_NEGATIVE),
    ("BEMKLClassifier", "margin", NOT_NEGATIVE),
    ("BEMKLClassifier", "max_iter", COUNT),
    ("LMKLClassifier", "n_init", COUNT),
    ("SAMKLClassifier", "max_switches", [*NO_NUMBERS, 2.5, -1, 3]),
    ("CLMKLClassifier", "n_clusters", [*COUNT, 13]),
    ("CLMKLClassifier", "n_landmarks", [*optional(COUNT), 2]),
    ("LPBoostMKLClassifier", "nu", SHARE),
    ("MWUMKLClassifier", "epsilon", SHARE),
    ("EasyMKLClassifier", "reg", [*NO_NUMBERS, -0.1, 1.1]),
    ("PrimalMKLOneClass", "contamination", [*NO_NUMBERS, 0.0, 0.6, -0.1]),
    ("LpMKLClassifier", "p_norm", [*NO_NUMBERS, 0.5, 0.0, -1.0]),
    ("SMOMKLClassifier", "p_norm", [*NO_NUMBERS, 1.0, 0.5]),
    ("LDMKLClassifier", "threshold", [*NO_NUMBERS, "Paper", -0.1, 1.1]),
    ("SwMKLClassifier", "temperature", optional(POSITIVE)),
    ("SimpleMKLClassifier", "solver", WORD),
    ("GPMKLRegressor", "likelihood", optional(WORD)),
    ("BEMKLClassifier", "nonnegative", ["yes", None, 0, 1.0, np.nan, [True], np.array([True, False])]),
    ("SAMKLClassifier", "fallback", ["", "on", None, 2, np.nan, [True], object]),
    ("BEMKLClassifier", "unlabeled_label", [[0, 1], np.array([0, 1]), {0}, {}, (0, 1), int]),
    ("BEMKLClassifier", "kernel_prior", [*PRIOR, Dirichlet(0.0), SpikeSlab(1.5), SpikeSlab("a")]),
    ("BEMKLRegressor", "noise_prior", PRIOR),
    ("GPMKLClassifier", "kernel_prior", [*optional(WORD[:4]), object, None, DirichletShares(0.0)]),
    (
        "BEMKLClassifier",
        "inference",
        ["", "VB", "mcmc", 1, True, np.nan, ["auto"], object, None, NUTS, Storage()],
    ),
    ("BEMKLClassifier", "storage", ["", "sparse", "Dense", 1, True, object, None, Storage, VB()]),
    ("BEMKLMultitaskRegressor", "storage", ["float32", Storage("streamed")]),
    (
        "BEMKLClassifier",
        "init",
        ["", "nonsense", 1, object, None, (), [1], Gamma(1.0, 1.0), ("mean", "mean")],
    ),
    (
        "BEMKLClassifier",
        "random_state",
        ["0", -1, 1.5, 0.0, True, np.nan, [1, 2], (0,), {}, np.array([1]), object],
    ),
    ("BEMKLClassifier", "verbose", ["1", None, -1, 1.5, 1.0, np.nan, [1], object]),
    (
        "BEMKLClassifier",
        "kernel_names",
        ["ab", b"ab", 1, ["a"], ["a", "b", "c"], ["a", "a"], [1, 2], [None, "a"], {"a"}],
    ),
    (
        "BEMKLClassifier",
        "kernels",
        ["linear", "", 1, True, np.nan, [], [Gaussian()], Gaussian(), Linear, KernelBank, {}],
    ),
    (
        "BEMKLOrdinalClassifier",
        "levels",
        ["low", 1, True, np.nan, [], [0], [0, 0], [[0, 1]], [0, 1, 2], [1, 2]],
    ),
    ("GPMKLClassifier", "design", ["x", 1, True, object, KernelBank(), {}]),
    ("MKLClassifier", "weights", WORD[:-1]),
    (
        "MKLClassifier",
        "class_weight",
        ["equal", 1, np.nan, [1.0], {0: -1.0}, {0: 0.0}, {0: np.nan}, {0: "2"}],
    ),
    ("BestKernelClassifier", "cv", ["5", None, True, np.nan, np.inf, 2.5, 3.0, 1, 0, -1, "kfold"]),
    (
        "SwMKLClassifier",
        "gate_kernel",
        [*WORD, Gaussian, lambda a, b: a @ b.T, [Gaussian()], Gaussian(width=-1.0)],
    ),
    ("LMKLClassifier", "gating", ["", "Softmax", 1, True, Gaussian(), [1, 2], object, None]),
    (
        "LMKLClassifier",
        "gate_columns",
        ["nonsense", 1.5, True, np.nan, 1j, {}, b"1", [], [0, 0], [99], [[0]], [None]],
    ),
    (
        "SAMKLClassifier",
        "initial_switches",
        ["all", 1, [1], [1, 1, 1], [0, 0], [0.5, 1], [np.nan, 1], [[1, 1]], {0, 1}],
    ),
    ("GMKLClassifier", "regularizer", [*WORD, "l3"]),
    ("LapMKLClassifier", "laplacian", [*SQUARES, np.eye(3), np.triu(np.ones((12, 12)))]),
    ("LapMKLClassifier", "distances", [*SQUARES, np.ones((3, 3))]),
]


@pytest.mark.parametrize(("name", "key", "values"), TABLE, ids=[f"{name}-{key}" for name, key, _ in TABLE])
def test_wrong_values_are_refused_by_name_before_any_work(name, key, values):
    each_refused(refused(name, key, values))


TOGETHER = [
    ("BEMKLClassifier", {"inference": NUTS(), "nonnegative": True}, "`nonnegative=True` needs"),
    (
        "BEMKLClassifier",
        {"inference": Gibbs(), "kernel_prior": "sparse"},
        "`kernel_prior` must have a concentration",
    ),
    (
        "BEMKLClassifier",
        {"inference": Gibbs(), "sample_prior": Gamma(0.2, 1.0)},
        "`sample_prior` must have a",
    ),
    (
        "BEMKLRegressor",
        {"inference": Gibbs(), "noise_prior": "sparse"},
        "`noise_prior` must have a concentration",
    ),
    ("BEMKLClassifier", {"inference": NUTS(), "bias_prior": "sparse"}, "`bias_prior`"),
    ("BEMKLClassifier", {"inference": Gibbs(), "kernel_prior": "dirichlet"}, 'needs inference="nuts"'),
    ("BEMKLClassifier", {"kernel_prior": SpikeSlab()}, 'needs inference="nuts"'),
    ("BEMKLClassifier", {"inference": NUTS(), "kernel_prior": SpikeSlab(1.5)}, "`kernel_prior.inclusion`"),
    (
        "BEMKLClassifier",
        {"inference": NUTS(), "kernel_prior": Dirichlet(-1.0)},
        "`kernel_prior.concentration`",
    ),
    ("BEMKLMultitaskRegressor", {"init": ("mean",), "relation": "separate"}, "`init` must be"),
    ("BestKernelClassifier", {"cv": 120}, "`cv` must not exceed"),
    ("GMKLClassifier", {"regularizer": lambda d: (np.nan, d)}, "`regularizer` must return a finite value"),
    ("GMKLClassifier", {"regularizer": lambda d: (d.sum(), 1.0)}, "a finite gradient of shape (2,)"),
    ("LMKLClassifier", {"gating": GroupGating(2)}, "`standardize` must be False with GroupGating"),
    (
        "LMKLClassifier",
        {"gating": GroupGating(2), "standardize": False},
        "one column of group numbers 0 to 1",
    ),
    ("GPMKLClassifier", {"kernel_prior": HalfT(-1.0, 1.0)}, "`kernel_prior.df` must be"),
    ("GPMKLClassifier", {"kernel_prior": Horseshoe(slab=np.inf)}, "`kernel_prior.slab` must be"),
    ("GPMKLRegressor", {"noise_prior": LogNormal(0.0, 1.0)}, "`noise_prior.median` must be"),
]


@pytest.mark.parametrize(("name", "parameters", "says"), TOGETHER)
def test_values_that_do_not_go_together_are_named(name, parameters, says):
    assert_refused(lambda: estimator(name, **parameters).fit(X, target(name)), says)


@pytest.mark.parametrize(
    ("name", "parameter", "plain", "other"),
    [
        ("SimpleMKLClassifier", "C", 0.5, Fraction(1, 2)),
        ("SimpleMKLClassifier", "C", 0.5, np.float16(0.5)),
        ("SimpleMKLRegressor", "epsilon", 0.5, np.float32(0.5)),
        ("LpMKLClassifier", "p_norm", 2.0, 2),
        ("BEMKLClassifier", "max_iter", 4, np.uint8(4)),
        ("BEMKLClassifier", "kernel_prior", Gamma(2.0, 0.5), [np.float32(2.0), Fraction(1, 2)]),
        ("BEMKLClassifier", "nonnegative", True, np.bool_(True)),
        ("LMKLClassifier", "random_state", 3, np.uint32(3)),
        ("SimpleMKLClassifier", "class_weight", "balanced", np.str_("balanced")),
        ("BEMKLRegressor", "inference", Gibbs(2, 5, 20), Gibbs(np.int64(2), np.uint8(5), 20)),
    ],
)
def test_equal_values_of_other_types_give_equal_models(name, parameter, plain, other):
    found = []
    for value in (plain, other):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append(estimator(name, **{parameter: value}).fit(X, target(name)).predict(X))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("BEMKLClassifier", "predictive", "half"),
        ("BEMKLClassifier", "margin", np.nan),
        ("BEMKLMultitaskClassifier", "intermediate_scale", -1.0),
        ("SAMKLClassifier", "rule", "first"),
        ("LDMKLClassifier", "temperature", 0.0),
        ("SwMKLClassifier", "psd", "none"),
    ],
)
def test_wrong_values_that_are_set_after_a_fit_are_refused_by_predictions(name, parameter, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator(name).fit(X, target(name)).set_params(**{parameter: value})
    predict = model.predict_proba if name.startswith("BEMKL") else model.predict
    assert_refused(lambda: predict(X), f"`{parameter}")


EXTREME = [5e-324, 1e-200, 1e-30, 1e30, 1e200, 1.7e308]
# One predicts one class, and says so; of the other, twice the tolerance overflows.
WARNED = {("LDMKLClassifier", "tol"): UserWarning, ("PrimalMKLRegressor", "tol"): RuntimeWarning}


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if not name.startswith("GPMKL")])
def test_extreme_values_are_refused_by_name_or_give_finite_numbers(name):
    """A warning about convergence may come, once; nothing else but that unsolved machines give one answer."""
    parameters = ESTIMATORS[name]().get_params(deep=False)
    floats = [key for key, value in parameters.items() if isinstance(value, float)]
    for i, key in enumerate(floats, start=len(name)):
        model = estimator(name, **{key: EXTREME[i % len(EXTREME)]})
        expected = (ConvergenceWarning, WARNED.get((name, key), ConvergenceWarning))
        try:
            quietly(lambda model=model: model.fit(X, target(name)), *expected)
        except ValueError:
            assert_refused(lambda model=model: model.fit(X, target(name)), f"`{key}")
            continue
        scores = getattr(model, "decision_function" if hasattr(model, "decision_function") else "predict")(X)
        assert np.isfinite(scores).all(), key
