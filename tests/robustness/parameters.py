"""Every constructor parameter of every estimator: values that are wrong, and equal values of other types."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from verdicts import THING

import bayesmkl.bemkl
import bayesmkl.discriminative
from bayesmkl import KernelBank
from bayesmkl.bemkl import NUTS, VB, Dirichlet, Gamma, Gibbs, SpikeSlab, Storage
from bayesmkl.kernels import Gaussian, Linear

ESTIMATORS = {
    name: value
    for package in (bayesmkl.bemkl, bayesmkl.discriminative)
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name)) and hasattr(value, "get_params")
}


class Half(NamedTuple):
    """Looks like a pair of numbers, means something else."""

    a: str = "a"
    b: str = "b"


class Wrong:
    """Values that a parameter must refuse, and values that equal one of another type."""

    def __init__(self, values: list[Any], equal: tuple[tuple[Any, Any], ...] = ()) -> None:
        self.values = values
        self.equal = equal


NO_NUMBERS: list[Any] = ["1", None, True, np.bool_(True), 1j, [1.0], np.array([0.3, 0.4]), object, {}, b"1"]
NOT_FINITE: list[Any] = [np.nan, np.inf, -np.inf, 10**400]
NO_WORDS: list[Any] = ["", "nonsense", 1, True, np.nan, ["auto"], object]
OF_A_NUMBER = ((0.5, Fraction(1, 2)), (0.5, np.float32(0.5)), (0.5, np.float16(0.5)), (0.5, np.float64(0.5)))
OF_A_COUNT = ((4, np.int64(4)), (4, np.uint8(4)))


def number(*more: Any, equal: Any = OF_A_NUMBER) -> Wrong:
    return Wrong([*NO_NUMBERS, *NOT_FINITE, *more], equal)


def count(*more: Any, equal: Any = OF_A_COUNT) -> Wrong:
    return Wrong([*NO_NUMBERS, *NOT_FINITE, 2.5, 2.0, np.float64(3.0), *more], equal)


def optional(wrong: Wrong) -> Wrong:
    """The same where None has a meaning."""
    return Wrong([value for value in wrong.values if value is not None], wrong.equal)


def word(*more: Any, none: bool = False) -> Wrong:
    return Wrong([*NO_WORDS, *([] if none else [None]), *more])


FLAG = Wrong(
    ["yes", "False", None, 0, 1, 1.0, np.nan, [True], np.array([True, False])], ((True, np.bool_(True)),)
)
PRIOR = Wrong(
    [
        *NO_WORDS,
        None,
        1.0,
        (1.0,),
        (1.0, 1.0, 1.0),
        Half(),
        Gamma(0.0, 1.0),
        Gamma(1.0, 0.0),
        Gamma(-1.0, 1.0),
        Gamma(np.nan, 1.0),
        Gamma(1.0, np.inf),
        Gamma("1", 1.0),
        Gamma(True, 1.0),
        Gamma([1.0, 1.0], 1.0),
        {"concentration": 1.0, "rate": 1.0},
        Gamma,
    ],
    ((Gamma(2.0, 0.5), (2, Fraction(1, 2))), (Gamma(2.0, 0.5), [np.float32(2.0), np.float64(0.5)])),
)
POSITIVE, NOT_NEGATIVE = number(0.0, -1.0), number(-1.0, -1e-12)
SHARE = number(0.0, 1.0, 2.0, -0.5)
AT_LEAST_ONE = number(0.5, 0.0, -1.0, equal=((1.5, Fraction(3, 2)), (1.5, np.float32(1.5)), (2.0, 2)))
COUNT = count(0, -1)
LABEL = Wrong([[0, 1], np.array([0, 1]), {0}, {}, (0, 1), int])

# What each parameter refuses, whatever the estimator that has it.
WRONG: dict[str, Wrong] = {
    "C": POSITIVE,
    "C_values": Wrong(
        ["1", 1.0, True, np.nan, [], [0.0], [1.0, -1.0], [np.inf], ["1"], [[1.0, 2.0]], {1.0}, object],
        (([0.5, 2.0], (0.5, np.float32(2.0))), ([0.5, 2.0], np.array([0.5, 2.0]))),
    ),
    "accelerate": FLAG,
    "backend": word("torch", "NumPy"),
    "bias": word("mean"),
    "bias_prior": PRIOR,
    "cache_mb": NOT_NEGATIVE,
    "chain_method": word("parallel"),
    "class_weight": Wrong(
        ["equal", "", 1, True, np.nan, [1.0], object, {0: -1.0}, {0: 0.0}, {0: np.nan}, {0: "2"}, {0: True}],
        (("balanced", np.str_("balanced")), ({}, None)),
    ),
    "combination": word("mean"),
    "contamination": number(0.0, 0.6, -0.1, "Auto", equal=((0.25, Fraction(1, 4)), (0.25, np.float32(0.25)))),
    "cv": Wrong(
        ["5", None, True, np.nan, np.inf, 2.5, 3.0, 1, 0, -1, "kfold", THING],
        ((3, np.int64(3)), (3, np.uint8(3))),
    ),
    "delta": POSITIVE,
    "distances": Wrong(
        [
            1.0,
            "euclidean",
            np.ones(3),
            np.ones((3, 3)),
            np.full((12, 12), np.nan),
            np.full((12, 12), "a"),
            [[1], [1, 2]],
        ]
    ),
    "epsilon": NOT_NEGATIVE,
    "evenness": SHARE,
    "fallback": Wrong(["", "on", None, 2, np.nan, [True], object]),
    "final": word("SVM"),
    "gamma_ambient": POSITIVE,
    "gamma_intrinsic": NOT_NEGATIVE,
    "gap_tol": POSITIVE,
    "gate_C": POSITIVE,
    "gate_columns": Wrong(
        ["", "nonsense", 1.5, True, np.nan, 1j, object, {}, b"1", [], [0, 0], [99], [[0]], [None], slice("a")]
    ),
    "gate_epsilon": NOT_NEGATIVE,
    "gate_kernel": word(Gaussian, lambda a, b: a @ b.T, [Gaussian()], Gaussian(width=-1.0)),
    "gate_subsample": optional(count(1, 0, -5)),
    "gate_targets": word("test"),
    "gating": word("Softmax", Gaussian(), [1, 2]),
    "indefinite": word("ignore"),
    "inference": word("VB", "mcmc", NUTS, Storage(), THING),
    "init": word(None, (), [1], Gamma(1.0, 1.0), np.zeros(3), ("mean", "mean")),
    "initial_switches": Wrong(
        [
            "all",
            "",
            1,
            True,
            [1],
            [1, 1, 1],
            [0, 0],
            [0.5, 1],
            [np.nan, 1],
            [[1, 1]],
            np.ones((2, 12)),
            {0, 1},
        ]
    ),
    "intermediate_prior": PRIOR,
    "intermediate_scale": POSITIVE,
    "kernel_names": Wrong(
        [
            "ab",
            b"ab",
            1,
            1.5,
            True,
            ["a"],
            ["a", "b", "c"],
            ["a", "a"],
            [1, 2],
            [None, "a"],
            {"a"},
            {"a": 0, "b": 1},
        ]
    ),
    "kernel_prior": Wrong(
        [
            *PRIOR.values,
            Dirichlet(0.0),
            SpikeSlab(1.5),
            SpikeSlab("a"),
        ],
        PRIOR.equal,
    ),
    "kernels": Wrong(
        [
            "paper",
            "linear",
            "",
            1,
            True,
            np.nan,
            [],
            [Gaussian()],
            Gaussian(),
            Linear,
            KernelBank,
            {},
            np.eye(3),
            max,
        ]
    ),
    "kind": word("sparse", "Dense"),
    "landmark_means": word("mean"),
    "laplacian": Wrong(
        [
            1.0,
            "knn",
            np.ones(3),
            np.eye(3),
            np.full((12, 12), np.nan),
            np.triu(np.ones((12, 12))),
            np.full((12, 12), "a"),
        ]
    ),
    "levels": Wrong(["low", 1, True, np.nan, [], [0], [0, 0], [[0, 1]], [0, 1, 2], [1, 2], object]),
    "loss": word("absolute"),
    "lowest_gate": SHARE,
    "margin": NOT_NEGATIVE,
    "max_basis": optional(COUNT),
    "max_iter": COUNT,
    "max_switches": count(-1, 3, equal=((1, np.int64(1)), (2, np.uint8(2)))),
    "method": word("Align", "uniform"),
    "missing_label": LABEL,
    "missing_views": word("keep", "Integrate"),
    "multiclass": word("ovr", "one_versus_rest"),
    "mwu_epsilon": SHARE,
    "n_chains": COUNT,
    "n_clusters": count(0, -1, 13),
    "n_draws": count(0, 9, equal=((12, np.int64(12)), (12, np.uint8(12)))),
    "n_init": COUNT,
    "n_landmarks": optional(count(0, 1)),
    "n_neighbors": COUNT,
    "n_restarts": COUNT,
    "n_warmup": COUNT,
    "noise_prior": PRIOR,
    "nonnegative": FLAG,
    "normalize": FLAG,
    "normalize_y": FLAG,
    "nu": SHARE,
    "p_norm": AT_LEAST_ONE,
    "predictive": word("half"),
    "psd": word("none"),
    "rank": optional(count(0, -1, equal=())),  # options of storage are used as they come
    "readout": word("votes"),
    "random_state": Wrong(
        ["0", -1, 1.5, 0.0, True, np.nan, [1, 2], (0,), {}, np.array([1]), object],
        ((3, np.int64(3)), (3, np.uint32(3))),
    ),
    "reg": POSITIVE,
    "reg_weights": POSITIVE,
    "regularizer": word("l3", Gaussian(), None),
    "relation": word("none"),
    "rule": word("first"),
    "sample_prior": PRIOR,
    "solver": word("newton-cg", "SPG"),
    "standardize": FLAG,
    "stopping": word("both"),
    "step": word("gradient", "Newton"),
    "storage": word("sparse", "Dense", Storage, VB()),
    "strict": FLAG,
    "sv_gate": word("all"),
    "svm": word("libSVM", "liblinear"),
    "target_accept": SHARE,
    "task_prior": PRIOR,
    "tau": Wrong(
        [value for value in optional(number(-1.0)).values if value is not np.inf],
        ((0.5, Fraction(1, 2)), (0.5, np.float32(0.5))),
    ),
    "temperature": POSITIVE,
    "ties": word("first"),
    "threshold": number("Paper", -0.1, 1.1),
    "tol": POSITIVE,
    "unlabeled_label": LABEL,
    "verbose": Wrong(["1", None, -1, 1.5, 1.0, np.nan, [1], object], ((0, False), (0, np.int64(0)))),
    "weights": word("uniform"),
}
# Where an estimator takes what others refuse.
ZERO_TOL = number(-1.0)
CLOSED_FORM = {name for name in ESTIMATORS if "Multitask" in name} | {
    "BEMKLOrdinalClassifier",
    "BEMKLSurvival",
}
OWN: dict[tuple[str, str], Wrong] = {
    ("EasyMKLClassifier", "reg"): number(-0.1, 1.1),
    ("MWUMKLClassifier", "epsilon"): SHARE,
    ("SMOMKLClassifier", "p_norm"): number(
        1.0, 0.5, equal=((1.5, Fraction(3, 2)), (1.5, np.float32(1.5)), (2.0, 2))
    ),
    ("SwMKLClassifier", "temperature"): optional(POSITIVE),
    ("CLMKLClassifier", "n_landmarks"): optional(count(0, 2)),
    **{
        (name, "tol"): ZERO_TOL
        for name, cls in ESTIMATORS.items()
        if name.startswith(("BEMKL", "Primal", "Lap", "SAMKL"))
    },
    **{(name, "inference"): word("nuts", NUTS(), Gibbs, THING) for name in ESTIMATORS if name in CLOSED_FORM},
    **{(name, "storage"): word("float32", Storage("streamed")) for name in ESTIMATORS if "Multitask" in name},
    **{
        (name, parameter): optional(wrong)  # None: as the target or the kernels have it
        for parameter, wrong in (("C", POSITIVE), ("epsilon", NOT_NEGATIVE))
        for name, cls in ESTIMATORS.items()
        if cls().get_params(deep=False).get(parameter, 0) is None
    },
    **{(name, "multiclass"): word("one-versus-rest", "ovr") for name in ("BEMKLClassifier",)},
}
# Values that name what other estimators have, and settings under which a value is refused by name.
ALLOWED: dict[str, list[Any]] = {"kernel_prior": ["auto"], "init": []}
# Fields of options objects, which estimators have as parameters.
FIELDS: list[tuple[str, str, type, str]] = [
    (name, parameter, options, field.name)
    for name, parameter, options in (
        *(("BEMKLClassifier", "inference", options) for options in (VB, NUTS, Gibbs)),
        ("BEMKLMultitaskRegressor", "inference", VB),
        ("BEMKLRegressor", "storage", Storage),
        ("BEMKLMultitaskClassifier", "storage", Storage),
    )
    for field in fields(options)
]
# Parameters that can be judged only when kernels or samples are there.
WITH_DATA = {
    "initial_switches",
    "kernel_names",
    "max_switches",
    "n_clusters",
    "laplacian",
    "distances",
    "levels",
}


def wrong(name: str, parameter: str) -> Wrong:
    """Return what a parameter of an estimator refuses."""
    return OWN.get((name, parameter)) or WRONG[parameter]


def thinned(cases: Iterable[Any], every: int = 5) -> list[Any]:
    """Leave every fifth case to the quick tests; the others are as slow as they are many."""
    return [
        case if k % every == 0 else pytest.param(*case.values, id=case.id, marks=pytest.mark.slow)
        for k, case in enumerate(cases)
    ]


# ------------------------------------------------------------------------------------------------------- problems

N_SAMPLES = 12
_rng = np.random.default_rng(0)
X = np.concatenate([_rng.normal(size=(6, 3)), _rng.normal(size=(6, 3)) + 2.0])[_rng.permutation(N_SAMPLES)]
LABELS = (X.sum(axis=1) > np.median(X.sum(axis=1))).astype(int)
QUICK: dict[str, Any] = {"max_iter": 8, "tol": 0.05, "cv": 2, "n_neighbors": 4}


def bank() -> KernelBank:
    return KernelBank([Gaussian(width=1), Linear()])


def target(name: str) -> Any:
    """Labels, or numbers for a regressor, or times."""
    if name.endswith("Survival"):
        return np.rec.fromarrays([LABELS > 0, np.exp(X[:, 0])], names="event,time")
    return X[:, 0] + 0.1 * LABELS if name.endswith("Regressor") else LABELS


def estimator(name: str, kernels: Any = None, **parameters: Any) -> Any:
    """Return an estimator that stops early."""
    known = ESTIMATORS[name]().get_params(deep=False)
    quick = {key: value for key, value in QUICK.items() if key in known}
    return ESTIMATORS[name](**{"kernels": bank() if kernels is None else kernels} | quick | parameters)


def fitted(name: str) -> Any:
    """Return an estimator that was fitted, however far it got."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator(name).fit(X, target(name))
