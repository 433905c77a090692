"""Options objects of inferences and storage: names stand for their defaults, scikit-learn takes them as values."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._utils.hashing import content_hash
from bayesmkl.bemkl import NUTS, VB, BEMKLMultitaskClassifier, BEMKLMultitaskRegressor, Gibbs, Storage
from bayesmkl.kernels import Gaussian, Linear

ESTIMATORS = (BEMKLClassifier, BEMKLRegressor, BEMKLMultitaskClassifier, BEMKLMultitaskRegressor)
BANK = KernelBank([Gaussian(width=1), Linear()])
CHANGED = (
    *(VB(accelerate=False), NUTS(n_draws=200), NUTS(target_accept=0.9), Gibbs(n_draws=200)),
    *(Storage("float32"), Storage(backend="jax")),
)


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(40, 2))
    return X, (X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.2).astype(int)


@pytest.mark.heavy
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_fit_by_name_is_the_fit_by_object(cls, data):
    X, y = data
    by_name = cls(BANK, max_iter=5, tol=0.0, inference="vb", storage="dense").fit(X, y)
    by_object = cls(BANK, max_iter=5, tol=0.0, inference=VB(), storage=Storage("dense")).fit(X, y)
    plain = cls(BANK, max_iter=5, tol=0.0, inference=VB(accelerate=False)).fit(X, y)
    np.testing.assert_array_equal(by_object.dual_coef_, by_name.dual_coef_)
    assert np.abs(plain.dual_coef_ - by_name.dual_coef_).max() > 1e-6


def test_content_tells_options_apart():
    values = ["vb", VB(), *CHANGED]
    hashes = [content_hash(BEMKLClassifier(inference=value)) for value in values]
    assert len(set(hashes)) == len(values)
    assert hashes[2] == content_hash(BEMKLClassifier(inference=VB(accelerate=False)))


def test_files_keep_options(data, tmp_path):
    X, y = data
    model = BEMKLClassifier(
        BANK, max_iter=5, tol=0.0, inference=VB(False), storage=Storage("float32", "numpy")
    )
    save_model(model.fit(X, y), tmp_path / "model.skops")
    found = load_model(tmp_path / "model.skops")
    assert (found.inference, found.storage) == (model.inference, model.storage)
    np.testing.assert_array_equal(found.fit(X, y).dual_coef_, model.dual_coef_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"inference": NUTS()},
            r"`inference` must be one of 'vb' or of the options VB\(...\); got NUTS\(\)\.",
        ),
        (
            {"storage": Storage("float32")},
            "`kind` of `storage` must be one of 'auto', 'dense'; got 'float32'",
        ),
    ],
    ids=str,
)
def test_tasks_have_the_closed_form_and_dense_kernels_only(data, parameters, message):
    X, y = data
    for cls in (BEMKLMultitaskClassifier, BEMKLMultitaskRegressor):
        with pytest.raises(ValueError, match=message):
            cls(BANK, **parameters).fit(X, y)
