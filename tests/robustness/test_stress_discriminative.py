"""Every discriminative estimator from C = 1e-6 to 1e6 on kernels from 1e-8 to 1e8 of their usual size."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from verdicts import quietly

sys.path.append(str(Path(__file__).parents[1] / "discriminative"))
from cases import CASES, EVERY, LOCALIZED, REGRESSION_CASES, hinge_scores, known, quick

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("numbers under stress"),
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
]

N_TRAIN, N_ROWS = 24, 8
ALL = CASES + REGRESSION_CASES
# these weigh kernels against y y', or against a price of their own: what they say depends on the unit of the kernels
WITH_UNIT = ({"method": "convex"}, {"regularizer": "uniform"})
EXTREME = [1e-6, 1e6]
USUAL = [pytest.param(C, marks=pytest.mark.slow) for C in (1e-3, 1.0, 1e3)]
MACHINES = [case for case in CASES if case.reference is hinge_scores and not case.votes]


@pytest.fixture(scope="module")
def data():
    """Gaussian kernels of three views, (n_rows, n_train, n_kernels), labels with some noise and a real target."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_TRAIN + N_ROWS, 6))
    views = X[:, :2], X[:, 2:4], X[:, 4:]
    kernels = np.stack([np.exp(-0.5 * ((v[:, None] - v) ** 2).sum(axis=-1)) for v in views], axis=-1)
    target = (X[:, 0] + 0.5 * X[:, 2] ** 2 - 0.4 + 0.3 * rng.normal(size=len(X)))[:N_TRAIN]
    return kernels[:N_TRAIN, :N_TRAIN], kernels[N_TRAIN:, :N_TRAIN], np.where(target > 0.0, 1, -1), target


def fitted(case, data, C, scale=1.0):
    settings = known(case.name, {"max_iter": 1000 if case.is_rough else 300})
    y = data[3] if case in REGRESSION_CASES else data[2]
    model = case.make(C, scale=scale, **settings)
    return quietly(lambda: model.fit(scale * data[0], y), ConvergenceWarning)


def scores_of(model, rows, **more):
    method = "decision_function" if hasattr(model, "decision_function") else "predict"
    return getattr(model, method)(rows, **more)


@pytest.mark.parametrize("C", [*EXTREME, *USUAL])
@pytest.mark.parametrize("case", [case for case in ALL if case.parameters not in WITH_UNIT], ids=str)
def test_kernels_times_s_and_losses_over_s(data, case, C):
    """The unit of the kernels is the user's: scores stay, and at most one warning says what did not converge."""
    model = fitted(case, data, C)
    scores = scores_of(model, data[1])
    assert np.isfinite(scores).all()
    assert (model.kernel_weights_ >= 0.0).all()
    for scale in (1e-8, 1e8):
        scaled = fitted(case, data, C, scale)
        found = scores_of(scaled, scale * data[1])
        slack = 5e-3 if model.converged_ and scaled.converged_ else 5e-2
        np.testing.assert_allclose(found, scores, atol=slack * max(np.abs(scores).max(), 1e-12))


@pytest.mark.parametrize("C", [*EXTREME, *USUAL])
@pytest.mark.parametrize("case", MACHINES, ids=str)
def test_svms_satisfy_the_optimality_conditions(data, case, C):
    """Whatever the weights: duals in their box, balanced, and on the side of the margin that they say."""
    stack, _, y, _ = data
    model = fitted(case, data, C)
    alpha, margin = model.dual_coef_ * y, y * model.decision_function(stack) - 1.0
    inside = 1e-7 * alpha.max()
    assert alpha.min() >= -1e-12 * alpha.max()
    assert alpha.max() <= C * (1.0 + 1e-9)
    assert abs(model.dual_coef_.sum()) <= 1e-9 * C * N_TRAIN
    assert margin[alpha <= inside].min(initial=np.inf) >= -1e-3
    assert margin[alpha >= C - inside].max(initial=-np.inf) <= 1e-3
    assert np.abs(margin[(alpha > inside) & (alpha < C - inside)]).max(initial=0.0) <= 1e-3


@pytest.mark.parametrize("C", EXTREME)
@pytest.mark.parametrize("name", LOCALIZED)
def test_localized_methods_at_any_price(data, name, C):
    """Finite scores and gates, and the same ones for kernels in another unit; at most one warning."""
    stack, rows, y, target = data
    gated = {"gate_features": stack[:, :3, 0]}, {"gate_features": rows[:, :3, 0]}
    of_train, of_rows = gated if name.startswith("LMKL") else ({}, {})
    found = []
    for scale in (1.0, 2.0**-27, 2.0**27):
        model = quick(name, "precomputed", **known(name, {"C": C / scale, "gate_C": 1.0 / scale}))
        y = target if name.endswith("Regressor") else y
        expected = UserWarning if min(EXTREME) == C else ConvergenceWarning  # one answer for all samples
        quietly(lambda m=model, s=scale, y=y: m.fit(s * stack, y, **of_train), expected)
        scores = scores_of(model, scale * rows, **of_rows)
        assert np.isfinite(scores).all()
        found.append(scores)
    for scaled in found[1:]:
        np.testing.assert_allclose(scaled, found[0], atol=0.05 * max(np.abs(found[0]).max(), 1e-12))


def test_every_estimator_is_stressed():
    assert {case.name for case in ALL} | set(LOCALIZED) == set(EVERY) - {
        "PrimalMKLOneClass",
        "GLKSClassifier",
    }
