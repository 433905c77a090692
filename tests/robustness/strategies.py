"""Random problems, and every estimator in each of its forms, for the tests of properties."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from methods_tried import TRIED, traits_of

import bayesmkl.bemkl
import bayesmkl.discriminative
from bayesmkl import KernelBank
from bayesmkl.discriminative import Lp
from bayesmkl.discriminative.weights import WeightRule
from bayesmkl.kernels import Gaussian, Linear, Polynomial

PACKAGES = (bayesmkl.bemkl, bayesmkl.discriminative)
EVERY: dict[str, Any] = {
    name: getattr(package, name)
    for package in PACKAGES
    for name in package.__all__
    if inspect.isclass(getattr(package, name)) and name.endswith(("Classifier", "Regressor", "OneClass"))
}
BAYESIAN = {name for name, cls in EVERY.items() if cls.__module__.startswith("bayesmkl.bemkl")}
ROW_METHODS = (
    "predict",
    "predict_proba",
    "decision_function",
    "predict_latent",
    "score_samples",
    "gates",
    "memberships",
    "combined_kernel",
)
KINDS = ("gaussian", "linear", "polynomial", "low rank", "identity", "constant")
SIMILAR = ("gaussian", "linear", "polynomial")  # kernels that tell something
N_ROWS = 6


class Problem(NamedTuple):
    """Kernels of training samples and of others, features of both, and one target of each sort."""

    train: np.ndarray  # (n_train, n_train, n_kernels)
    rows: np.ndarray  # (n_rows, n_train, n_kernels)
    features: np.ndarray  # (n_train, n_features)
    row_features: np.ndarray  # (n_rows, n_features)
    targets: dict[str, Any]  # by the sort of target
    tasks: np.ndarray  # (n_train,), the task of each sample
    recipe: str = ""

    def __repr__(self) -> str:
        return self.recipe

    def reordered(self, samples: Any, kernels: Any) -> Problem:
        """Return the problem with training samples and kernels in another order, or fewer of them."""
        return self._replace(
            train=self.train[samples][:, samples][:, :, kernels],
            rows=self.rows[:, samples][:, :, kernels],
            features=self.features[samples],
            targets={sort: target[samples] for sort, target in self.targets.items()},
            tasks=self.tasks[samples],
        )

    def scaled(self, factor: Any) -> Problem:
        """Return the problem with its kernels times `factor`, one number or one for every kernel."""
        return self._replace(train=factor * self.train, rows=factor * self.rows)

    def of_each(self, indices: Any) -> Problem:
        """Return the problem with the kernels at `indices`, which may repeat them."""
        return self._replace(train=self.train[:, :, indices], rows=self.rows[:, :, indices])


def kernel_of(kind: str, view: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one kernel among all rows of `view`."""
    n = len(view)
    match kind:
        case "gaussian":
            squares = ((view[:, None] - view) ** 2).sum(axis=-1)
            return np.exp(-0.5 * squares / rng.uniform(0.5, 3.0) ** 2)
        case "linear":
            return view @ view.T
        case "polynomial":
            kernel = (1.0 + view @ view.T) ** 2
            return kernel / np.sqrt(np.outer(kernel.diagonal(), kernel.diagonal()))
        case "low rank":
            root = rng.normal(size=(n, 2))
            return root @ root.T
        case "identity":
            return np.eye(n)
        case "constant":
            return np.ones((n, n))
    raise ValueError(kind)


def random_problem(seed: int, n_train: int, kinds: list[str], scale: float = 1.0) -> Problem:
    """Return a problem of `n_train` samples with one kernel of each of `kinds`, over views of its own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_train + N_ROWS, 2 * len(kinds)))
    views = np.split(X, len(kinds), axis=1)
    kernels = scale * np.stack(
        [kernel_of(kind, view, rng) for kind, view in zip(kinds, views, strict=True)], axis=-1
    )
    signal = X[:, 0] + 0.5 * np.sin(2.0 * X[:, -1]) + 0.3 * rng.normal(size=len(X))
    targets = targets_of(signal[:n_train], rng)
    tasks = np.empty(n_train, dtype=int)
    tasks[np.argsort(targets["binary"], kind="stable")] = np.arange(n_train) % 2  # both have both classes
    return Problem(
        kernels[:n_train, :n_train],
        kernels[n_train:, :n_train],
        X[:n_train],
        X[n_train:],
        targets,
        tasks,
        f"random_problem({seed}, {n_train}, {list(kinds)}, {scale})",
    )


def targets_of(signal: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Return targets of every sort, all classes with a third of the samples or more."""
    n = len(signal)
    rank = np.argsort(np.argsort(signal))
    binary = np.where(2 * rank >= n, 1, -1)
    classes = np.array(["a", "b", "c"])[3 * rank // n]
    other = np.argsort(np.argsort(signal + rng.normal(size=n)))
    partial = binary.copy()
    partial[rng.permutation(n)[: n // 3]] = 0
    partial[[rank.argmin(), np.flatnonzero(rank == 1)[0]]] = -1
    partial[[rank.argmax(), np.flatnonzero(rank == n - 2)[0]]] = 1
    second = np.where(2 * other >= n, 1, -1)
    return {
        "binary": binary,
        "classes": classes,
        "labels": np.stack([binary > 0, second > 0], axis=1).astype(int),
        "partial": partial,
        "real": 3.0 * signal + 2.0,
        "targets": np.stack([signal, signal**2 + 0.1 * rng.normal(size=n)], axis=1),
        "tasks": np.stack([binary, second], axis=1),
        "none": np.zeros(n),
    }


@st.composite
def problems(draw: Any, kinds: tuple[str, ...] = KINDS, least_kernels: int = 1) -> Problem:
    """Draw problems of 12 to 20 samples and at most one kernel of each kind; the first has the first of them."""
    n_kernels = draw(st.integers(least_kernels, len(kinds)))
    chosen = draw(st.permutations(kinds))[:n_kernels]
    return random_problem(draw(st.integers(0, 2**16)), draw(st.integers(12, 20)), chosen)


# ---------------------------------------------------------------------------------------------------- estimators


class Variant(NamedTuple):
    """An estimator with some of its parameters, and the sort of target that it takes."""

    name: str
    target: str
    parameters: dict[str, Any] = {}  # noqa: RUF012

    def make(self, kernels: Any = "precomputed", **more: Any) -> Any:
        """Return the estimator; of `more` what it or its rule of weights knows."""
        model = EVERY[self.name](kernels, **deepcopy(self.parameters))
        return model.set_params(**{key: value for key, value in more.items() if key in model.get_params()})

    @property
    def rule(self) -> Any:
        """Its rule of weights, if it takes one."""
        rule = self.parameters.get("weights")
        if rule is None and self.name == "MKLOneClass":
            return Lp(2.0)
        return rule if isinstance(rule, WeightRule) else None

    def fit(self, problem: Problem, **more: Any) -> Any:
        """Return the estimator fitted to the kernels of a problem."""
        return self.fit_to(self.make(**more), problem)

    def fit_to(self, model: Any, problem: Problem, X: Any = None) -> Any:
        """Fit `model` to the problem, to `X` instead of its kernels where that is given."""
        target = problem.targets[self.target]
        keywords = {"gate_features": problem.features} if self.takes_features and X is None else {}
        if self.has_tasks and target.ndim == 1:
            keywords["tasks"] = problem.tasks
        X = problem.train if X is None else X
        return model.fit(X, **keywords) if self.target == "none" else model.fit(X, target, **keywords)

    @property
    def takes_features(self) -> bool:
        return self.name.startswith("LMKL")

    @property
    def is_bayesian(self) -> bool:
        return self.name in BAYESIAN

    @property
    def traits(self) -> frozenset[str]:
        """What sets its method apart."""
        return traits_of(self.name)

    @property
    def has_tasks(self) -> bool:
        return "Multitask" in self.name

    def __str__(self) -> str:
        return "-".join([self.name, self.target, *(str(value) for value in self.parameters.values())])


def outputs(variant: Variant, model: Any, X: Any, features: Any = None) -> dict[str, np.ndarray]:
    """Return everything that the model says about rows, rows first."""
    keywords = {"gate_features": features} if variant.takes_features and features is not None else {}
    found: dict[str, np.ndarray] = {}
    for method in ROW_METHODS:
        if not hasattr(model, method):
            continue
        call = getattr(model, method)
        with_std = "return_std" in inspect.signature(call).parameters
        values = call(X, **keywords, **({"return_std": True} if with_std else {}))
        parts = values if isinstance(values, tuple | list) else [values]
        for position, part in enumerate(parts):
            of_rows = method in ("gates", "combined_kernel")
            found[f"{method} {position}"] = np.moveaxis(part, -2, 0) if of_rows else part
    return found


def scores_of(model: Any, X: Any, **keywords: Any) -> np.ndarray:
    """Return the real-valued output: scores of a classifier, predictions of a regressor."""
    method = "decision_function" if hasattr(model, "decision_function") else "predict"
    return getattr(model, method)(X, **keywords)


def row_scores(variant: Variant, model: Any, problem: Problem) -> np.ndarray:
    """Return `scores_of` the rows of a problem."""
    keywords = {"gate_features": problem.row_features} if variant.takes_features else {}
    return scores_of(model, problem.rows, **keywords)


BAYESIAN_VARIANTS = [
    Variant("BEMKLClassifier", "binary"),
    Variant("BEMKLClassifier", "binary", {"kernel_prior": "sparse", "margin": 0.0}),
    Variant("BEMKLClassifier", "binary", {"sample_prior": "sparse", "predictive": "paper"}),
    Variant("BEMKLClassifier", "binary", {"nonnegative": True}),
    Variant("BEMKLClassifier", "partial", {"unlabeled_label": 0}),
    Variant("BEMKLClassifier", "classes"),
    Variant("BEMKLClassifier", "classes", {"nonnegative": True}),
    Variant("BEMKLClassifier", "classes", {"multiclass": "one-versus-all"}),
    Variant("BEMKLClassifier", "classes", {"multiclass": "multinomial"}),
    Variant("BEMKLClassifier", "labels"),
    Variant("BEMKLClassifier", "labels", {"multiclass": "one-versus-all"}),
    Variant("BEMKLClassifier", "classes", {"missing_views": "integrate"}),
    Variant("BEMKLRegressor", "real"),
    Variant("BEMKLRegressor", "real", {"kernel_prior": "sparse", "predictive": "paper"}),
    Variant("BEMKLRegressor", "real", {"nonnegative": True}),
    Variant("BEMKLRegressor", "real", {"missing_views": "integrate"}),
    Variant("BEMKLRegressor", "targets"),
    Variant("BEMKLRegressor", "targets", {"nonnegative": True}),
    *(
        Variant("BEMKLMultitaskRegressor", "targets", {"relation": r})
        for r in ("learned", "shared", "separate")
    ),
    Variant("BEMKLMultitaskRegressor", "real"),
    *(
        Variant("BEMKLMultitaskClassifier", "tasks", {"relation": r})
        for r in ("learned", "shared", "separate")
    ),
    Variant("BEMKLMultitaskClassifier", "binary"),
]


def variants_of(localized: bool) -> list[Variant]:
    """Return the forms of all methods whose weights differ between samples, or of all others."""
    return [
        Variant(form.estimator, form.target, dict(form.parameters))
        for method, tried in TRIED.items()
        if (method in ("lmkl", "clmkl", "swmkl", "ldmkl", "samkl")) == localized
        for form in tried.forms
    ]


WEIGHTED_VARIANTS, LOCAL_VARIANTS = variants_of(False), variants_of(True)
VARIANTS = BAYESIAN_VARIANTS + WEIGHTED_VARIANTS + LOCAL_VARIANTS
BANK = KernelBank([Gaussian(width=1), Linear(), Polynomial(degree=2)])


# ------------------------------------------------------------------------------------------------------- trying


def explore(check: Any, variants: Sequence[Variant], n_examples: int, **drawn: Any) -> None:
    """Try a check of variants on so many problems each, the same in every run."""

    @settings(
        max_examples=n_examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(**drawn)
    def holds(variant: Variant, **values: Any) -> None:
        check(variant, **values)

    for variant in variants:
        holds(variant=variant)


def few_or_many(few: int, many: int, variants: Sequence[Variant]) -> Any:
    """Try a test of variants on few problems each, and on many where long studies are asked for."""
    cases = [pytest.param([variant], few, id=str(variant)) for variant in variants]
    return pytest.mark.parametrize(
        ("variants", "n_examples"), [*cases, pytest.param(variants, many, id="many", marks=pytest.mark.slow)]
    )


def assert_close(found: Any, expected: Any, tolerance: float, what: str = "") -> None:
    """Compare relative to the largest entry, with one where all are small."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert found.shape == expected.shape, what
    largest = max(np.abs(expected).max(initial=0.0), 1.0)
    error = np.abs(found - expected).max(initial=0.0) / largest
    assert error <= tolerance, f"{what} differs by {error:.1e} of its largest entry"
