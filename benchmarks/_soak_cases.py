"""Random data, banks of kernels and settings for every estimator, all of them valid."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import bayesmkl.bemkl
import bayesmkl.discriminative
from bayesmkl import KernelBank
from bayesmkl.bemkl import VB, Gamma, Gibbs
from bayesmkl.discriminative import SigmoidGating
from bayesmkl.kernels import Cosine, Gaussian, Laplacian, Linear, Polynomial

ESTIMATORS: dict[str, Any] = {
    name: getattr(package, name)
    for package in (bayesmkl.bemkl, bayesmkl.discriminative)
    for name in package.__all__
    if inspect.isclass(getattr(package, name)) and name.endswith(("Classifier", "Regressor", "OneClass"))
}
ROW_METHODS = ("predict", "predict_proba", "decision_function", "predict_latent", "gates", "combined_kernel")
TRAIN_ROWS = (16, 48)
NEW_ROWS = (1, 20)
MOST_FEATURES = 6
CHANGED = 0.5  # how often a parameter is not the default
Draw = Callable[[np.random.Generator], Any]


class Case(NamedTuple):
    """One fit, and rows to predict."""

    name: str  # of the estimator
    model: Any
    X: Any
    y: Any
    fit_keywords: dict[str, Any]
    rows: Any
    row_keywords: dict[str, Any]


def random_case(rng: np.random.Generator) -> Case:
    """Draw an estimator with settings, samples, a bank or precomputed kernels, and a target."""
    name = str(rng.choice(list(ESTIMATORS)))
    n_train, n_rows = int(rng.integers(*TRAIN_ROWS)), int(rng.integers(*NEW_ROWS))
    features = random_features(rng, n_train + n_rows)
    bank = random_bank(rng, features.shape[1])
    parameters = random_parameters(rng, name)
    is_precomputed = rng.random() < 0.3 and parameters.get("storage") != "streamed"
    y, more = random_target(rng, name, features[:n_train], parameters)
    X, rows = features[:n_train], features[n_train:]
    fit_keywords, row_keywords = dict(more), {}
    if is_precomputed:
        bank.fit(X)
        X, rows = bank.transform(X), bank.transform(rows)
        if name.startswith("LMKL"):
            fit_keywords["gate_features"] = features[:n_train]
            row_keywords["gate_features"] = features[n_train:]
    elif "gate_columns" in (own := inspect.signature(ESTIMATORS[name]).parameters) and rng.random() < CHANGED:
        bank = KernelBank(bank.kernels, VIEWS, bank.normalize)
        # of a view that names its columns, or not
        parameters["gate_columns"] = [int(rng.integers(X.shape[1]))]
        if "gate_kernel" in own:
            parameters["gate_kernel"] = Gaussian(width=2.0)
    elif parameters.get("missing_views") == "integrate":
        X, rows = without_views(rng, X), without_views(rng, rows)
        bank = KernelBank(bank.kernels, VIEWS, "spherical")
    kernels: Any = "precomputed" if is_precomputed else bank
    n_kernels = (
        X.shape[-1] if is_precomputed else KernelBank(bank.kernels, bank.views).fit(features).n_kernels_
    )
    if name == "SAMKLClassifier":
        parameters["max_switches"] = int(rng.integers(0, min(3, n_kernels) + 1))
    return Case(name, ESTIMATORS[name](kernels, **parameters), X, y, fit_keywords, rows, row_keywords)


# --------------------------------------------------------------------------------------------------------- samples

VIEWS = {"first": [0, 1], "others": slice(2, None)}


def random_features(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Draw samples, sometimes with heavy tails, repeated rows, a constant column or columns of other units."""
    X = rng.normal(size=(n_rows, int(rng.integers(3, MOST_FEATURES + 1))))
    match rng.integers(6):
        case 0:
            X = rng.standard_t(3, size=X.shape)
        case 1:
            X[rng.integers(n_rows, size=n_rows // 4)] = X[0]
        case 2:
            X[:, -1] = 1.0
        case 3:
            X = X * 10.0 ** rng.uniform(-1.0, 1.0, size=X.shape[1])
        case 4:
            X = np.round(X)
    return X


def without_views(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Take the second view from some rows."""
    X = X.copy()
    X[rng.random(len(X)) < 0.2, 2:] = np.nan
    return X


def random_bank(rng: np.random.Generator, n_features: int) -> KernelBank:
    """Draw a bank of up to a dozen kernels."""
    width = float(10.0 ** rng.uniform(-0.5, 1.0))
    choices = [
        Gaussian(width=width),
        Gaussian(width=3.0 * width),
        Laplacian(width=width),
        Polynomial(degree=int(rng.integers(1, 4))),
        Linear(),
        Cosine(),
    ]
    chosen = rng.choice(len(choices), size=int(rng.integers(1, 4)), replace=False)
    views: Any = ["all", "each", VIEWS][rng.integers(3)]
    normalize: Any = ["spherical", "trace", None, ("center", "spherical")][rng.integers(4)]
    return KernelBank([choices[m] for m in chosen], views, normalize)


# --------------------------------------------------------------------------------------------------------- targets


def random_target(
    rng: np.random.Generator, name: str, X: np.ndarray, parameters: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return a target that depends on the samples, and what else `fit` takes."""
    signal = X @ rng.normal(size=X.shape[1]) + np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=len(X))
    signal = (signal - signal.mean()) / max(float(signal.std()), 1e-12)
    if name.endswith("OneClass"):
        return None, {}
    if "Multitask" in name:
        return _task_target(rng, name, signal)
    if name.endswith("Regressor"):
        y = signal * 10.0 ** rng.uniform(-2.0, 2.0) + rng.normal()
        several = (
            name == "BEMKLRegressor" and parameters.get("inference", "vb") == "vb" and rng.random() < 0.3
        )
        return (np.stack([y, signal**2], axis=1) if several else y), {}
    classes = int(rng.integers(2, 5)) if parameters.get("unlabeled_label") is None else 2
    codes = _codes(signal, classes)
    may_be_labels = name == "BEMKLClassifier" and parameters.get("unlabeled_label") is None
    if may_be_labels and parameters.get("multiclass") == "shared" and rng.random() < 0.2:
        return (np.stack([codes > 0, _codes(signal**2, 2) > 0], axis=1)).astype(int), {}
    if parameters.get("unlabeled_label") is not None:
        codes[rng.permutation(len(codes))[: len(codes) // 3]] = parameters["unlabeled_label"]
        codes[[signal.argmin(), np.argsort(signal)[1]]] = 0
        codes[[signal.argmax(), np.argsort(signal)[-2]]] = 1
        return codes, {}
    labels = [np.arange(4), np.array(["a", "b", "c", "d"]), np.array([-7.0, 0.0, 1.0, 1e6])][rng.integers(3)]
    return labels[codes], {}


def _codes(values: np.ndarray, n_classes: int) -> np.ndarray:
    """Cut values into classes of the same size."""
    return n_classes * np.argsort(np.argsort(values)) // len(values)


def _task_target(rng: np.random.Generator, name: str, signal: np.ndarray) -> tuple[Any, dict[str, Any]]:
    other = signal + 0.3 * rng.normal(size=len(signal))
    table = np.stack([signal, other], axis=1)
    if name.endswith("Classifier"):
        table = np.stack([_codes(column, 2) for column in table.T], axis=1).astype(float)
    if rng.random() < 0.5:
        table[rng.permutation(len(table))[: len(table) // 5], 0] = np.nan
        return table, {}
    tasks = np.empty(len(table), dtype=int)
    tasks[np.argsort(table[:, 0], kind="stable")] = np.arange(len(table)) % 2
    return table[:, 0], {"tasks": tasks}


# -------------------------------------------------------------------------------------------------------- settings


def _one_of(*values: Any) -> Draw:
    return lambda rng: values[rng.integers(len(values))]


def _between(low: float, high: float) -> Draw:
    return lambda rng: float(rng.uniform(low, high))


def _power(low: float, high: float) -> Draw:
    return lambda rng: float(10.0 ** rng.uniform(low, high))


PRIORS = _one_of("nonsparse", "sparse", Gamma(2.0, 0.5))
COMMON: dict[str, Draw] = {
    "C": _power(-2, 3),
    "reg": _power(-3, 2),
    "tol": _one_of(1e-2, 1e-3, 1e-4),
    "epsilon": _between(0.0, 0.5),
    "p_norm": _between(1.0, 4.0),
    "multiclass": _one_of("one-versus-rest", "shared"),
    "random_state": _one_of(0, 1, 2),
    "gate_C": _power(-1, 2),
    "gate_targets": _one_of("train", "cv"),
    "svm": _one_of("libsvm", "libsvm", "mwu"),
    "mwu_epsilon": _one_of(0.1, 0.3),
    "indefinite": _one_of("raise", "clip"),
}


OWN: dict[str, dict[str, Draw]] = {
    "BestKernelClassifier": {"cv": _one_of(2, 3)},
    "LPBoostMKLClassifier": {
        "C_values": _one_of(None, (0.1, 1.0, 10.0)),
        "cv": _one_of(2, 3),
        "nu": _between(0.05, 0.95),
    },
    "AlignmentMKLClassifier": {"method": _one_of("ratio", "convex", "align", "alignf")},
    "AlignmentMKLRegressor": {"method": _one_of("ratio", "convex", "align", "alignf")},
    "OBMKLClassifier": {"method": _one_of("ratio", "qp", "aqp", "aqp-paper")},
    "EasyMKLClassifier": {"reg": _between(0.0, 1.0), "final": _one_of("svm", "komd")},
    "SimpleMKLClassifier": {"solver": _one_of("spg", "reduced-gradient")},
    "GMKLClassifier": {"regularizer": _one_of("l1", "uniform"), "solver": _one_of("spg", "pg")},
    "SMOMKLClassifier": {
        "p_norm": _between(1.1, 4.0),
        "reg_weights": _power(-1, 1),
        "regularizer": _one_of("norm", "divergence"),
    },
    "MWUMKLClassifier": {"epsilon": _one_of(0.1, 0.3), "stopping": _one_of("gap", "paper")},
    "PrimalMKLClassifier": {
        "weights": _one_of("spg", "closed", "paper"),
        "solver": _one_of("auto", "libsvm", "newton", "truncated", "pcg"),
    },
    "PrimalMKLOneClass": {"contamination": _one_of("auto", 0.1), "weights": _one_of("spg", "closed")},
    "PrimalMKLRegressor": {"loss": _one_of("squared", "huber"), "weights": _one_of("spg", "closed")},
    "LapMKLClassifier": {
        "gamma_ambient": _power(-3, 1),
        "gamma_intrinsic": _power(-3, 1),
        "n_neighbors": _one_of(3, 10),
        "solver": _one_of("deformed", "paper"),
        "unlabeled_label": _one_of(None, -1),
    },
    "LMKLClassifier": {
        "gating": _one_of("softmax", "sigmoid", "gaussian"),
        "max_iter": _one_of(20),
        "solver": _one_of("lbfgs", "paper"),
    },
    "LMKLRegressor": {"gating": _one_of("softmax", "sigmoid", "gaussian"), "max_iter": _one_of(20)},
    "CLMKLClassifier": {
        "n_clusters": _one_of(1, 2, 3),
        "n_restarts": _one_of(2),
        "evenness": _between(0.2, 0.8),
    },
    "SwMKLClassifier": {"psd": _one_of("unit-norm", "paper")},
    "LDMKLClassifier": {
        "sv_gate": _one_of("none", "paper"),
        "bias": _one_of("refit", "keep", "drop"),
        "threshold": _one_of(0.0, 0.2, "paper"),
    },
    "SAMKLClassifier": {
        "initial_switches": _one_of("ones", "support"),
        "fallback": _one_of(True, False),
        "rule": _one_of("auto", "surest", "one-versus-rest"),
        "normalize": _one_of(False, True),
    },
}
OWN["LMKLClassifier"]["gating"] = _one_of("softmax", "sigmoid", "gaussian", SigmoidGating())
BAYESIAN: dict[str, Draw] = {
    "kernel_prior": PRIORS,
    "sample_prior": PRIORS,
    "margin": _between(0.0, 2.0),
    "tol": _one_of(1e-3, 1e-5),
    "inference": _one_of(VB(), VB(accelerate=False)),
    "predictive": _one_of("full", "paper"),
    "n_init": _one_of(1, 2),
    "init": _one_of("mean", "random"),
    "relation": _one_of("learned", "shared", "separate"),
    "normalize_y": _one_of(True, False),
    "random_state": _one_of(0, 1),
}
FORMS: list[dict[str, Any]] = [  # of BEMKL fits, which exclude each other
    {},
    {"nonnegative": True},
    {"storage": "compressed"},
    {"storage": "float32"},
    {"storage": "streamed"},
    {"missing_views": "integrate"},
    {"inference": Gibbs(n_chains=2, n_warmup=20, n_draws=30)},
]
CLASSES = ("shared", "one-versus-all", "multinomial")


def random_parameters(rng: np.random.Generator, name: str) -> dict[str, Any]:
    """Draw settings that go together."""
    known = ESTIMATORS[name]().get_params(deep=False)
    draws = BAYESIAN if name.startswith("BEMKL") else COMMON | OWN.get(name, {})
    drawn = {key: draw(rng) for key, draw in draws.items() if key in known and rng.random() < CHANGED}
    if not name.startswith("BEMKL"):
        return drawn
    drawn["max_iter"] = 100
    if "nonnegative" in known:
        drawn |= FORMS[rng.integers(len(FORMS))]
    if name == "BEMKLClassifier":
        is_gibbs = isinstance(drawn.get("inference"), Gibbs)
        drawn["multiclass"] = "one-versus-all" if is_gibbs else CLASSES[rng.integers(3)]
        if "storage" not in drawn and not is_gibbs and "missing_views" not in drawn and rng.random() < 0.2:
            drawn |= {"unlabeled_label": -1, "n_init": 1}
    if isinstance(drawn.get("inference"), Gibbs):  # which needs proper priors
        drawn = {key: value for key, value in drawn.items() if key not in ("kernel_prior", "sample_prior")}
    return drawn
