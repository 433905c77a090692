"""How far it is from `fit` to the first update: what benchmarks/call_depth.py counts does not grow unnoticed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from bayesmkl import BEMKLClassifier
from bayesmkl.bemkl.models.moments import update_dual
from bayesmkl.bemkl.models.regression import sweep

DEEPEST = 9
MOST = {"bank": 149, "precomputed": 99}  # what the classifier of BEMKL has, the most of all


@pytest.fixture(scope="module")
def call_depth():
    path = Path(__file__).resolve().parents[1] / "benchmarks" / "call_depth.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[path.stem]


def test_few_functions_lie_between_fit_and_the_first_update(call_depth, folds):
    found = call_depth.measure(40)
    assert len(found) == 6
    for (estimator, samples), calls in found.items():
        of_bemkl = estimator.startswith("BEMKL")
        assert calls.nested[-1].endswith(" update_dual" if of_bemkl else " Evaluator.__call__"), estimator
        fit = f"{estimator}.fit" if of_bemkl else "fit_weighted_classes"
        assert any(name.endswith(f" {fit}") for name in calls.nested)
        assert any(name.endswith(" choose_by_folds") for name in calls.nested) == (
            estimator == "BEMKLClassifier"
        )
        assert len(calls.nested) <= DEEPEST, calls.nested
        assert 50 < len(set(calls.functions)) == len(calls.functions) <= MOST[samples], (estimator, samples)


def test_an_update_that_never_comes_is_an_error(call_depth):
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = BEMKLClassifier(max_iter=1, tol=0.0)
    with pytest.raises(RuntimeError, match="without a call of sweep"):
        call_depth.calls_before(sweep.__code__, model, X, (X[:, 0] > 0).astype(int))
    assert call_depth.calls_before(update_dual.__code__, model, X, (X[:, 0] > 0).astype(int)).nested
