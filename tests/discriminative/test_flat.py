"""Estimators are flat: few classes above each, few parameters, nothing left over from a fit."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from cases import EVERY

import bayesmkl.discriminative.estimators as estimators
from bayesmkl.kernels import Gaussian, KernelBank

FOLDER = Path(estimators.__file__).parent
FITTED_APART = {
    "_column_labels",
    "_gate_labels",
    "_sklearn_output_config",
}  # labels of later frames are compared


@pytest.mark.parametrize("name", EVERY)
def test_estimators_have_few_classes_and_parameters(name):
    own = [cls for cls in EVERY[name].__mro__ if cls.__module__.startswith("bayesmkl")]
    assert len(own) <= 4, own
    assert len(inspect.signature(EVERY[name]).parameters) <= 22


def test_bases_do_not_look_for_attributes_of_subclasses():
    found = []
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_probe = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
            if (
                is_probe
                and getattr(node.args[0], "id", "") in ("self", "model")
                and (node.func.id == "hasattr" or len(node.args) == 3)
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert not found
    assert len(list(FOLDER.glob("*.py"))) > 20


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_leaves_nothing_for_its_own_use(name, rng):
    X = rng.normal(size=(24, 3))
    model = EVERY[name](KernelBank(Gaussian(width=2), views="each"))
    y = X[:, 0] if name.endswith("Regressor") else np.where(X[:, 0] > 0, 1, -1)
    model.set_params(**{k: v for k, v in {"max_iter": 3}.items() if k in model.get_params()}).fit(X, y)
    left = {key for key in vars(model) if key.startswith("_")}
    assert left <= FITTED_APART
    assert any(key.endswith("_") for key in vars(model))
