"""Every discriminative estimator from C = 1e-6 to 1e6 on kernels from 1e-8 to 1e8 of their usual size."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from verdicts import quietly

sys.path.append(str(Path(__file__).parents[1] / "discriminative"))
from cases import CASES, REGRESSION_CASES, hinge_scores, known

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("numbers under stress"),
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
]

N_TRAIN, N_ROWS = 24, 8
EXTREME = [1e-6, 1e6]
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


@pytest.mark.parametrize("C", EXTREME)
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
