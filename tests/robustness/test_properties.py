"""Properties that hold for every estimator and every problem, tried on random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from strategies import (
    BAYESIAN_VARIANTS,
    LOCAL_VARIANTS,
    SIMILAR,
    VARIANTS,
    Problem,
    Variant,
    assert_close,
    explore,
    few_or_many,
    outputs,
    problems,
    row_scores,
    scores_of,
)

from bayesmkl.bemkl import VB
from bayesmkl.discriminative import GMKL, SMO

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("properties"),
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),  # kernels are random
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # fits are short
    pytest.mark.filterwarnings("ignore:.*clusters are not the nearest of any training sample:UserWarning"),
    pytest.mark.filterwarnings(
        "ignore:LDMKLClassifier predicts .* for all training samples:UserWarning"
    ),  # constant ones
]
SHORT = {"max_iter": 8}
ROUNDING = 1e-9
SWEEPS = {"tol": 0.0, "max_iter": 15}


# -------------------------------------------------------------------------------------------------- rows and sets


def rows_stand_alone(variant: Variant, problem: Problem) -> None:
    """One fit: rows at once, one by one and in another order; probabilities; scores; constraint sets."""
    model = variant.fit(problem, **SHORT)
    together = outputs(variant, model, problem.rows, problem.row_features)
    for rows in (np.s_[::-1], np.s_[:1], np.s_[-1:]):
        found = outputs(variant, model, problem.rows[rows], problem.row_features[rows])
        same(found, together, rows)
    check_probabilities(variant, model, together)
    check_training_scores(variant, model, problem)
    check_constraints(variant, model, problem)


def same(found: dict[str, np.ndarray], together: dict[str, np.ndarray], rows: slice) -> None:
    """Check that outputs for some rows are those of the rows at once."""
    decided = is_decided(together)[rows]
    for name, values in together.items():
        expected = values[rows]
        assert found[name].dtype == expected.dtype, name
        if expected.dtype.kind == "f":
            assert np.isfinite(expected).all(), name
            assert_close(found[name], expected, ROUNDING, name)
        else:
            np.testing.assert_array_equal(found[name][decided], expected[decided], name)


def is_decided(together: dict[str, np.ndarray]) -> np.ndarray:
    """Return at which rows no two classes are as good as each other up to rounding."""
    scores = together.get("decision_function 0")
    if scores is None:
        return np.ones(len(together["predict 0"]), dtype=bool)
    margins = np.abs(scores).reshape(len(scores), -1).min(axis=1)
    if scores.ndim == 2 and together["predict 0"].ndim == 1:
        margins = np.ptp(np.sort(scores, axis=1)[:, -2:], axis=1)
    return margins > ROUNDING


def check_probabilities(variant: Variant, model: Any, found: dict[str, np.ndarray]) -> None:
    """Probabilities lie between 0 and 1, sum to one over classes, and their largest is the prediction."""
    every = {name: values for name, values in found.items() if name.startswith("predict_proba")}
    assert bool(every) == hasattr(model, "predict_proba")
    several = len(every) > 1  # one array per task
    for position, values in enumerate(every.values()):
        assert values.min() >= 0.0
        assert values.max() <= 1.0
        if variant.target == "labels":
            np.testing.assert_array_equal(found["predict 0"], (values > 0.5).astype(int))
            continue
        np.testing.assert_allclose(values.sum(axis=1), 1.0, atol=1e-12)
        predicted = found["predict 0"][:, position] if several else found["predict 0"]
        classes = model.classes_[position] if several else model.classes_
        clear = np.ptp(np.sort(values, axis=1)[:, -2:], axis=1) > 1e-9
        np.testing.assert_array_equal(predicted[clear], np.asarray(classes)[values.argmax(axis=1)][clear])


def check_training_scores(variant: Variant, model: Any, problem: Problem) -> None:
    """Scores of training samples are those of the coefficients that were fitted."""
    features = {"gate_features": problem.features} if variant.takes_features else {}
    if "votes" in variant.traits or variant.parameters.get("readout") == "vote":
        return
    if hasattr(model, "combined_kernel"):
        if np.ndim(model.dual_coef_) == 3 or (
            variant.name.startswith("LapMKL") and model.solver == "deformed"
        ):
            return  # coefficients of their own for every kernel
        dual, intercept = np.atleast_2d(model.dual_coef_), np.atleast_1d(model.intercept_)
        intercept = np.atleast_1d(-model.offset_) if hasattr(model, "offset_") else intercept
        combined = model.combined_kernel(problem.train, **features)
        combined = np.broadcast_to(combined, (len(dual), *combined.shape[-2:]))
        expected = np.stack([k @ v + b for k, v, b in zip(combined, dual, intercept, strict=True)], axis=-1)
    elif variant.is_bayesian:
        dual, intercept = np.atleast_2d(model.dual_coef_), np.atleast_1d(model.intercept_)
        weights = np.broadcast_to(model.kernel_weights_, (len(dual), problem.train.shape[-1]))
        images = np.einsum("ijm,kj->ikm", problem.train, dual)
        expected = (images * weights).sum(axis=-1) + intercept
        if hasattr(model, "y_mean_"):
            expected = model.y_mean_ + model.y_scale_ * expected
    else:
        return
    by_task = (
        {"tasks": problem.tasks} if variant.has_tasks and problem.targets[variant.target].ndim == 1 else {}
    )
    if by_task:
        expected = expected[np.arange(len(expected)), problem.tasks]
    expected = expected[:, 0] if expected.shape[-1] == 1 else expected
    if variant.is_bayesian and hasattr(model, "predict_latent"):
        found = model.predict_latent(problem.train, **by_task)
    else:
        found = scores_of(model, problem.train, **features, **by_task)
    assert_close(found, expected, 1e-8, "score of training samples")


def check_constraints(variant: Variant, model: Any, problem: Problem) -> None:
    """What was fitted lies in the set that the method optimizes over."""
    if variant.is_bayesian:
        np.testing.assert_allclose(model.kernel_shares_.sum(axis=-1), 1.0, atol=1e-9)
        assert (model.kernel_shares_ >= 0.0).all()
        assert (model.kernel_weights_std_ > 0.0).all()
        assert not getattr(model, "nonnegative", False) or (model.kernel_weights_ >= 0.0).all()
        for values in np.atleast_3d(model.kernel_weights_cov_.T).T:
            assert np.linalg.eigvalsh(values)[0] > 0.0
        return
    if variant.target != "partial":
        assert model.support_fraction_ == len(model.support_) / model.dual_coef_.shape[-1]
    if variant in LOCAL_VARIANTS:
        check_gates(variant, model)
        return
    weights = np.atleast_2d(model.kernel_weights_)
    assert (weights >= 0.0).all()
    if "scales kernels" in variant.traits:  # the set is that of kernels of mean diagonal one
        weights = weights * np.einsum("iim->m", problem.train) / len(problem.train)
    p = set_of_weights(variant, model)
    norms = (weights**p).sum(axis=1) ** (1.0 / p) if p else np.zeros(len(weights))
    assert (norms <= 1.0 + 1e-9).all()
    if p == 1.0:
        np.testing.assert_allclose(norms, 1.0, atol=1e-9)


def set_of_weights(variant: Variant, model: Any) -> float:
    """Return the norm of the weights that is at most one, 0 where they find their own scale."""
    owner = variant.rule or model
    penalizes = "penalizes weights" in variant.traits or isinstance(owner, GMKL | SMO)
    if penalizes and getattr(owner, "regularizer", "") != "uniform":
        return 0.0
    return float(getattr(owner, "p_norm", 1.0))


def check_gates(variant: Variant, model: Any) -> None:
    gates = model.gates()
    assert (gates >= 0.0).all()
    if variant.name.startswith("LMKL"):
        if variant.parameters.get("gating") == "sigmoid":
            assert (gates <= 1.0).all()
        else:
            np.testing.assert_allclose(gates.sum(axis=-1), 1.0, atol=1e-12)
    elif variant.name == "LDMKLClassifier":
        np.testing.assert_allclose(gates.sum(axis=-1), 1.0, atol=1e-12)
    elif variant.name == "SwMKLClassifier":
        np.testing.assert_allclose((gates**2).sum(axis=-1), 1.0, atol=1e-9)
    elif variant.name == "CLMKLClassifier":
        np.testing.assert_allclose(model.memberships().sum(axis=-1), 1.0, atol=1e-12)
        norms = (model.kernel_weights_**model.p_norm).sum(axis=-1) ** (1.0 / model.p_norm)
        assert (norms <= 1.0 + 1e-9).all()
        assert (model.kernel_weights_ >= 0.0).all()
    else:
        np.testing.assert_allclose(model.kernel_weights_.sum(axis=-1), 1.0, atol=1e-9)
        first = np.ones(1) if model.initial_switches == "ones" else model.kernel_weights_[..., None, :] > 0.0
        assert ((~model.kernel_switches_ & (first > 0)).sum(axis=-1) <= model.max_switches).all()


@few_or_many(2, 100, VARIANTS)
def test_rows_stand_alone_and_results_lie_in_their_sets(variants, n_examples):
    explore(rows_stand_alone, variants, n_examples, problem=problems())


# -------------------------------------------------------------------------------------------------------- the bound


def scale_of(model: Any) -> dict[str, float]:
    """Return the scale that folds chose, which takes sweeps."""
    return {"intermediate_scale": model.intermediate_scale_} if hasattr(model, "intermediate_scale_") else {}


def bound_never_falls(variant: Variant, problem: Problem) -> None:
    """The evidence lower bound rises, with and without acceleration, and from where a fit ended."""
    for accelerate in (True, False):
        model = variant.fit(problem, tol=0.0, max_iter=12, inference=VB(accelerate))
        histories = model.elbo_history_ if isinstance(model.elbo_history_, tuple) else (model.elbo_history_,)
        for history in histories:
            assert np.isfinite(history).all()
            assert (np.diff(history) >= -1e-10 * np.abs(history[:-1]) - 1e-9).all(), np.diff(history).min()
        assert model.elbo_ == pytest.approx(sum(history[-1] for history in histories))
    again = variant.fit(problem, tol=0.0, max_iter=1, init=model.posterior_, **scale_of(model))
    assert again.elbo_ >= model.elbo_ - 1e-9 * max(1.0, abs(model.elbo_))


@few_or_many(1, 60, BAYESIAN_VARIANTS)
def test_the_bound_never_falls(variants, n_examples):
    explore(bound_never_falls, variants, n_examples, problem=problems())


# ------------------------------------------------------------------------------------------------- single precision


def single_precision_is_near(variant: Variant, problem: Problem) -> None:
    """Kernels in single precision are not refused as indefinite, and say the same up to what they lost."""
    settings = SWEEPS if variant.is_bayesian else {"tol": 1e-6, "max_iter": 500, "epsilon": 0.01}
    rounded = problem._replace(train=problem.train.astype(np.float32), rows=problem.rows.astype(np.float32))
    model = variant.fit(problem, **settings)
    expected = row_scores(variant, model, problem)
    assert_close(row_scores(variant, model, rounded), expected, 1e-5, "score of rows in single precision")
    found = row_scores(variant, variant.fit(rounded, **settings), rounded)
    tolerance = 0.1 if "rough" in variant.traits else 2e-3
    assert_close(found, expected, tolerance, "score of a fit in single precision")


ONE_TASK = [
    variant
    for variant in VARIANTS
    if variant.target in ("binary", "partial", "real", "none")
    and not variant.name.startswith(("LMKL", "SAMKL"))  # not convex: rounding may lead to another optimum
]


@few_or_many(1, 30, ONE_TASK)
def test_single_precision_says_the_same(variants, n_examples):
    explore(single_precision_is_near, variants, n_examples, problem=problems((*SIMILAR, "low rank"), 2))
