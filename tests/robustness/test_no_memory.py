"""Kernels that do not fit into memory are refused before they are evaluated, whoever asks for them."""

from __future__ import annotations

import families
import numpy as np
import pytest
from sklearn.base import is_outlier_detector, is_regressor

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, kernels
from bayesmkl._utils import memory
from bayesmkl.bemkl import BEMKLMultitaskClassifier, BEMKLMultitaskRegressor
from bayesmkl.evaluation import compare_models
from bayesmkl.kernels.functions import Gaussian

pytestmark = pytest.mark.family("out of memory")
BAYESIAN = (BEMKLClassifier, BEMKLRegressor, BEMKLMultitaskClassifier, BEMKLMultitaskRegressor)
EVERY = {cls.__name__: cls for cls in BAYESIAN} | {
    name: families.discriminative_classes()[name]
    for name in (
        "CLMKLClassifier",
        "LMKLRegressor",
        "PrimalMKLOneClass",
        "SAMKLClassifier",
        "UniformMKLClassifier",
    )
}


@pytest.fixture
def little(monkeypatch):
    """Let the machine have 1 kB left, and count kernels that are evaluated."""
    evaluated = []
    original = Gaussian.__call__
    monkeypatch.setattr(Gaussian, "__call__", lambda *given: evaluated.append(given) or original(*given))
    monkeypatch.setattr(memory, "_left_on_machine", lambda root: iter([1000]))
    monkeypatch.setattr(kernels.bank, "SURELY_THERE", 0)
    return evaluated


@pytest.mark.parametrize("name", EVERY)
def test_a_fit_that_cannot_succeed_is_refused_before_it_starts(name, little):
    X = families.data(40)
    model = EVERY[name](KernelBank([Gaussian(width=w) for w in (1, 2)], views="each"))
    y = None if is_outlier_detector(model) else families.target(X)
    y = y if y is None or is_regressor(model) else families.labels(X, 2)
    tasks = {"tasks": np.arange(40) % 2} if "Multitask" in name else {}
    with pytest.raises(MemoryError, match=r"`X`: .* needs .*, and 1\.0 kB are available\. \w+") as refusal:
        model.fit(X, y, **tasks)
    assert little == []
    assert len(str(refusal.value)) < 400
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


def test_a_model_too_large_for_the_machine_is_a_cell_with_an_error(little):
    X = families.data(30)
    model = families.discriminative_classes()["UniformMKLClassifier"](KernelBank(Gaussian(width=1)))
    with pytest.warns(UserWarning, match="2 of 2 cells failed"):
        found = compare_models({"uniform": model}, X, families.labels(X, 2), cv=2, scoring="accuracy")
    assert found.cells["error"].str.startswith("MemoryError: `X`: ").all()
    assert little == []
