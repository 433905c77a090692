"""Training samples are validated once, by the estimator; its bank takes what it found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesmkl._estimator.base as estimator_module
import bayesmkl.kernels.bank as bank_module
from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.kernels import Gaussian

BANK = KernelBank(Gaussian(width=2), views={"left": ["a"], "both": ["a", "b"]})
COLUMNS = ["a", "b"]


@pytest.fixture
def samples():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 2))
    return pd.DataFrame(X, columns=COLUMNS), (X[:, 0] + 0.1 * rng.normal(size=24) > 0).astype(int)


@pytest.mark.parametrize(
    "model",
    [BEMKLRegressor(BANK, max_iter=2, tol=0.0), UniformMKLClassifier(BANK)],
    ids=lambda model: type(model).__name__,
)
def test_one_validation_of_a_table_serves_estimator_and_bank(model, samples, monkeypatch):
    calls = []
    for module in (estimator_module, bank_module):
        validate = module.validate_data
        monkeypatch.setattr(
            module, "validate_data", lambda *a, validate=validate, **k: calls.append(1) or validate(*a, **k)
        )
    X, y = samples
    bank = model.fit(X, y).kernel_bank_
    assert len(calls) == 1
    alone = KernelBank(**BANK.get_params(deep=False)).fit(X)
    for name in ("n_features_in_", "feature_names_in_", "column_labels_", "X_train_", "kernel_names_"):
        np.testing.assert_array_equal(getattr(bank, name), getattr(alone, name))
    np.testing.assert_array_equal(model.feature_names_in_, COLUMNS)


def test_a_bank_keeps_a_copy_and_forgets_names_of_an_earlier_table(samples):
    X, y = samples
    values = np.asfortranarray(X.to_numpy(copy=True))
    model = BEMKLRegressor(KernelBank(Gaussian(width=2)), max_iter=2, tol=0.0).fit(X, y)
    assert list(model.kernel_bank_.feature_names_in_) == COLUMNS
    model.fit(values, y)
    values[:] = 0.0
    np.testing.assert_array_equal(model.kernel_bank_.X_train_, X)
    assert model.kernel_bank_.X_train_.flags.c_contiguous
    assert not hasattr(model.kernel_bank_, "feature_names_in_")
    assert not hasattr(model, "feature_names_in_")
    assert model.kernel_bank_.column_labels_ is None
