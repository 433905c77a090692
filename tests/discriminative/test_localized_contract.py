"""What all localized methods promise: gates, gating matrices and combined kernels that belong together, features."""

from __future__ import annotations

import inspect
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import LOCALIZED

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl._estimator import base as estimator_base
from bayesmkl.datasets import load_iris, load_wdbc
from bayesmkl.discriminative import GroupGating, SimpleMKLClassifier, SMOMKLClassifier
from bayesmkl.kernels import Gaussian, Linear, Polynomial

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.heavy,
]
BANK = KernelBank([Gaussian(width=2), Polynomial(degree=2), Linear()], normalize="spherical")
N_TRAIN = 70


class Case(NamedTuple):
    """An estimator with some of its parameters."""

    name: str
    parameters: dict[str, Any] = {}  # noqa: RUF012

    def make(self, kernels: Any = BANK, **more: Any):
        return LOCALIZED[self.name](kernels, **self.parameters | more)

    def __str__(self) -> str:
        return "-".join([self.name, *(str(value) for value in self.parameters.values())])


CASES = [
    *(Case("LMKLClassifier", {"gating": gating}) for gating in ("softmax", "sigmoid", "gaussian")),
    Case("LMKLRegressor"),
    Case("CLMKLClassifier", {"n_clusters": 2}),
    Case("CLMKLClassifier", {"multiclass": "shared"}),
    *(Case("SwMKLClassifier", {"psd": psd}) for psd in ("unit-norm", "paper")),
    Case("LDMKLClassifier"),
    Case("LDMKLClassifier", {"sv_gate": "paper", "bias": "keep", "gate_kernel": Gaussian(width=2)}),
    Case("SAMKLClassifier", {"max_switches": 2, "C": 5.0, "fallback": False}),
    Case("SAMKLClassifier", {"initial_switches": "support", "max_switches": 1, "fallback": False}),
    Case("LMKLClassifier", {"svm": "mwu"}),
    Case("CLMKLClassifier", {"svm": "mwu"}),
    Case("SwMKLClassifier", {"svm": "mwu"}),
    Case("LDMKLClassifier", {"svm": "mwu"}),
]
GROUPED = Case("LMKLClassifier", {"gating": GroupGating(2), "gate_columns": [-1], "standardize": False})
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def is_regressor(case):
    return case.name.endswith("Regressor")


@pytest.fixture(scope="module")
def data():
    """Standardized features of wdbc, and labels or a target."""
    table = load_wdbc()
    rows = np.random.default_rng(1).permutation(len(table.target))[:110]
    X = table.data[rows][:, [0, 1, 4, 6]]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.where(table.target[rows] == table.target.max(), 1, -1)


@pytest.fixture(scope="module")
def fitted(data):
    """Fit every case once."""
    X, y = data
    models = {}

    def get(case):
        if str(case) not in models:
            target = X[:N_TRAIN, 1] * y[:N_TRAIN] if is_regressor(case) else y[:N_TRAIN]
            models[str(case)] = case.make().fit(X[:N_TRAIN], target)
        return models[str(case)]

    return get


# ------------------------------------------------------------------------------------------------ one gating view


@every_case
def test_gating_matrices_make_the_combined_kernel(data, fitted, case):
    X, model = data[0], fitted(case)
    kernels = model.kernel_bank_.transform(X[N_TRAIN:])
    total = sum(model.gating_matrix(X[N_TRAIN:], None, m) * kernels[:, :, m] for m in range(3))
    found = model.combined_kernel(X[N_TRAIN:])
    np.testing.assert_allclose(found, total, atol=1e-10 * np.abs(total).max())


@every_case
def test_gates_are_the_roots_of_the_diagonals(data, fitted, case):
    X, model = data[0], fitted(case)
    for rows, n_rows in ((X[N_TRAIN:], len(X) - N_TRAIN), (None, N_TRAIN)):
        gates = model.gates(rows)
        assert gates.shape == (n_rows, 3)
        for m, name in enumerate(model.kernel_names_):
            matrix = model.gating_matrix(rows, rows, name)
            np.testing.assert_allclose(np.sqrt(matrix.diagonal()), gates[:, m], atol=1e-12)
            np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
            if case.parameters.get("psd") != "paper":
                assert np.linalg.eigvalsh(matrix)[0] > -1e-9
    np.testing.assert_allclose(model.gates(), model.gates_, atol=1e-15)


@every_case
def test_gates_at_training_samples_are_those_of_new_rows_that_equal_them(data, fitted, case):
    """All but SAMKL, which knows the labels of training samples."""
    X, model = data[0], fitted(case)
    if case.name == "SAMKLClassifier":
        assert not np.array_equal(model.gates(X[:N_TRAIN]) > 0.0, model.gates_ > 0.0)
    else:
        np.testing.assert_allclose(model.gates(X[:N_TRAIN]), model.gates_, atol=1e-9)


def test_global_methods_have_gates_too(data):
    X, y = data
    model = SimpleMKLClassifier(BANK).fit(X[:N_TRAIN], y[:N_TRAIN])
    np.testing.assert_allclose(model.gates(X[:3]) ** 2, np.tile(model.kernel_weights_, (3, 1)))
    kernels = model.kernel_bank_.transform(X)
    total = sum(model.gating_matrix(X, None, m) * kernels[:, :, m] for m in range(3))
    np.testing.assert_allclose(total, model.combined_kernel(X))
    iris, classes = load_iris(return_X_y=True)
    several = SMOMKLClassifier(BANK).fit(iris, classes)
    assert several.gating_matrix(iris[:4], iris[:5], 2).shape == (3, 4, 5)
    np.testing.assert_allclose(several.gates(iris[:2])[1, 0] ** 2, several.kernel_weights_[1])
    with pytest.raises(ValueError, match=r"`kernel` must be a position from 0 to 2 or one of \["):
        model.gating_matrix(X, X, "no such kernel")


# -------------------------------------------------------------------------------------------- classes, files, blocks


@pytest.mark.parametrize("case", [case for case in CASES if not is_regressor(case)], ids=str)
def test_several_classes_have_gates_of_their_own(case):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]
    model = case.make(C=10.0).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (50, 3)
    assert model.score(X, y) > 0.85
    shared = case.parameters.get("multiclass") == "shared"
    gates, combined = model.gates(X), model.combined_kernel(X)
    assert gates.shape == ((50, 3) if shared else (3, 50, 3))
    kernels = model.kernel_bank_.transform(X)
    total = sum(model.gating_matrix(X, None, m) * kernels[:, :, m] for m in range(3))
    np.testing.assert_allclose(combined, total, atol=1e-10 * np.abs(total).max())
    if case.name not in ("SwMKLClassifier", "LDMKLClassifier", "SAMKLClassifier"):
        return  # whose starts are random
    rule = {"rule": "one-versus-rest"} if case.name == "SAMKLClassifier" else {}
    for c, label in enumerate(model.classes_):
        alone = case.make(C=10.0, **rule).fit(X, y == label)  # the class against the rest
        np.testing.assert_allclose(scores[:, c], alone.decision_function(X), atol=1e-8)


@pytest.mark.parametrize("case", [*CASES, GROUPED], ids=str)
def test_saved_and_pickled_models_predict_the_same(data, fitted, case, tmp_path):
    X, y = data
    if "standardize" in case.parameters:
        X = np.column_stack([X, X[:, 0] > 0])
        model = case.make().fit(X, y)
    else:
        model = fitted(case)
    save_model(model, tmp_path / "model.skops")
    for loaded in (load_model(tmp_path / "model.skops"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.gates(X), model.gates(X))
        assert type(loaded.results_) is tuple
        assert type(loaded.results_[0]) is type(model.results_[0])


@every_case
def test_rows_in_blocks_are_rows_at_once(data, fitted, case, monkeypatch):
    X, model = data[0], fitted(case)
    at_once = model.predict(X), model.gates(X), model.combined_kernel(X)
    monkeypatch.setattr(estimator_base, "BLOCK_ENTRIES", 3 * N_TRAIN * 7)
    for found, expected in zip(
        (model.predict(X), model.gates(X), model.combined_kernel(X)), at_once, strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


# ------------------------------------------------------------------------------------------------ gates by features


def takes_features(name):
    return "gate_features" in inspect.signature(LOCALIZED[name].fit).parameters


@pytest.mark.parametrize("name", list(LOCALIZED))
def test_precomputed_kernels_with_features_are_the_bank(data, name):
    X, y = data
    y = X[:, 1] if name.endswith("Regressor") else y
    plain = KernelBank(BANK.kernels, normalize=None).fit(X[:N_TRAIN])
    train, new = plain.transform(X[:N_TRAIN]), plain.transform(X[N_TRAIN:])
    alike = {
        "gate_kernel": Gaussian(width=2),
        "threshold": 0.0,
        "fallback": False,
    }  # of named features they differ
    own = {key: alike[key] for key in alike.keys() & LOCALIZED[name]().get_params().keys()}
    bank = LOCALIZED[name](KernelBank(BANK.kernels, normalize=None), tol=1e-5, **own)
    bank.fit(X[:N_TRAIN], y[:N_TRAIN])
    more, more_new = (
        {"gate_features": Z} if takes_features(name) else {} for Z in (X[:N_TRAIN], X[N_TRAIN:])
    )
    stack = LOCALIZED[name]("precomputed", tol=1e-5, **own).fit(train, y[:N_TRAIN], **more)
    method = "predict" if name.endswith("Regressor") else "decision_function"
    expected = getattr(bank, method)(X[N_TRAIN:])
    found = getattr(stack, method)(new, **more_new)
    np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())
    np.testing.assert_allclose(stack.gates(new, **more_new), bank.gates(X[N_TRAIN:]), atol=2e-2)
    np.testing.assert_allclose(stack.gates_, bank.gates_, atol=2e-2)
    score = bank.score(X[N_TRAIN:], y[N_TRAIN:])
    assert stack.score(new, y[N_TRAIN:], **more_new) == pytest.approx(score, abs=0.03)
