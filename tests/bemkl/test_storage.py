"""Every way to hold training kernels gives the same model, and what cannot be held is refused with the remedy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same
from sklearn.base import clone

from bayesmkl import BEMKLClassifier, BEMKLRegressor, load_model, save_model
from bayesmkl._estimator import base as storage_module
from bayesmkl.bemkl import VB, BEMKLMultitaskRegressor, Storage
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, KernelBank, Linear, Polynomial

SWEEPS = {"max_iter": 20, "tol": 0.0, "inference": VB(accelerate=False)}
AUTO = Storage(backend="numpy")
AGREEMENT = {"dense": 0.0, "compressed": 1e-7, "float32": 1e-5, "packed": 1e-5, "streamed": 1e-9}
N_TRAIN, N_FEATURES = 70, 4


@pytest.fixture(scope="module")
def wdbc():
    data = load_wdbc()
    X = data.data[:110, :N_FEATURES]
    return (X - X.mean(axis=0)) / X.std(axis=0), data.target[:110]


@pytest.fixture
def everything_large(monkeypatch):
    """No kernels are too small to be compressed."""
    monkeypatch.setattr(storage_module, "SMALL", 0)


def bank(**options):
    return KernelBank([Gaussian(width=2), Linear(), Polynomial(degree=2)], views="all+each", **options)


def summary(model, X):
    """What users see of a classifier: weights, shares, bound, probabilities."""
    latent = np.concatenate(model.predict_latent(X, return_std=True), axis=None)
    return [model.kernel_weights_, model.kernel_shares_, np.array(model.elbo_history_), latent]


@pytest.fixture(scope="module")
def dense(wdbc):
    X, y = wdbc
    return BEMKLClassifier(bank(), storage=Storage("dense", "numpy"), **SWEEPS, intermediate_scale=1.0).fit(
        X[:N_TRAIN], y[:N_TRAIN]
    )


@pytest.mark.parametrize(
    ("given", "storage"),
    [*(("bank", name) for name in AGREEMENT), *(("precomputed", name) for name in list(AGREEMENT)[:4])],
)
def test_every_storage_gives_the_dense_model(wdbc, dense, storage, given):
    X, y = wdbc
    if given == "bank":
        model = BEMKLClassifier(
            bank(), storage=Storage(storage, "numpy"), **SWEEPS, intermediate_scale=1.0
        ).fit(X[:N_TRAIN], y[:N_TRAIN])
        rows = X[N_TRAIN:]
    else:
        own = bank().fit(X[:N_TRAIN])
        kernels, rows = (own.transform(part) for part in (X[:N_TRAIN], X[N_TRAIN:]))
        model = BEMKLClassifier(
            "precomputed", storage=Storage(storage, "numpy"), **SWEEPS, intermediate_scale=1.0
        ).fit(kernels, y[:N_TRAIN])
    assert model.storage_ == storage
    if storage in ("compressed", "float32", "packed"):
        assert model.kernel_bytes_ <= 0.5 * dense.kernel_bytes_
    for found, expected in zip(summary(model, rows), summary(dense, X[N_TRAIN:]), strict=True):
        assert_same(found, expected, max(AGREEMENT[storage], 3e-12))


@pytest.mark.heavy
@pytest.mark.parametrize("storage", ["compressed", "float32", "packed", "streamed"])
def test_regression_and_several_outputs_in_every_storage(wdbc, storage):
    X, y = wdbc
    targets = np.column_stack([X[:, 0] * X[:, 1], X[:, 2], y])
    for target in (targets[:, 0], targets[:, :2]):
        models = [
            BEMKLRegressor(bank(), storage=Storage(name, "numpy"), **SWEEPS).fit(
                X[:N_TRAIN], target[:N_TRAIN]
            )
            for name in ("dense", storage)
        ]
        expected, found = (model.predict(X[N_TRAIN:], return_std=True) for model in models)
        assert_same(np.array(found), np.array(expected), AGREEMENT[storage])
    models = [
        BEMKLClassifier(bank(), storage=Storage(name, "numpy"), **SWEEPS, intermediate_scale=1.0).fit(
            X[:N_TRAIN], targets[:N_TRAIN] > 0.0
        )
        for name in ("dense", storage)
    ]
    expected, found = (model.predict_proba(X[N_TRAIN:]) for model in models)
    assert_same(np.array(found), np.array(expected), AGREEMENT[storage])


def test_auto_is_dense_for_small_kernels_and_compressed_for_large_ones(wdbc, dense, monkeypatch):
    X, y = wdbc
    model = BEMKLClassifier(bank(), storage=AUTO, **SWEEPS, intermediate_scale=1.0)
    assert model.fit(X[:N_TRAIN], y[:N_TRAIN]).storage_ == "dense"
    monkeypatch.setattr(storage_module, "SMALL", 0)
    assert model.fit(X[:N_TRAIN], y[:N_TRAIN]).storage_ == "compressed"
    assert_same(model.kernel_weights_, dense.kernel_weights_, 1e-7)
    assert model.training_factors_ is None  # kept only where asked for by name
    narrow = KernelBank([Gaussian(width=0.5)], views="all")
    assert clone(model).set_params(kernels=narrow).fit(X[:N_TRAIN], y[:N_TRAIN]).storage_ == "dense"
    assert (
        not clone(model).set_params(storage=Storage(backend="jax"))._settings().holding.may_compress
    )  # every new rank would be compiled
    for refusing in ({"kernels": bank(landmarks=9)}, {"missing_views": "integrate"}):
        other = clone(model).set_params(**refusing).set_params(max_iter=1)
        assert other.fit(X[:N_TRAIN], y[:N_TRAIN]).storage_ == "dense", refusing


def test_auto_is_streamed_where_landmarks_need_more_than_half_of_the_memory(wdbc, monkeypatch):
    X, y = wdbc
    model = BEMKLClassifier(bank(landmarks=X[:9]), storage=AUTO, **SWEEPS, intermediate_scale=1.0).fit(
        X[:N_TRAIN], y[:N_TRAIN]
    )
    monkeypatch.setattr(storage_module, "available_memory", lambda: 1.9 * model.kernel_bytes_)
    monkeypatch.setattr(storage_module, "SMALL", 0)
    again = clone(model).fit(X[:N_TRAIN], y[:N_TRAIN])
    assert (model.storage_, again.storage_) == ("dense", "streamed")
    assert_same(again.kernel_weights_, model.kernel_weights_, 1e-9)


def test_unlabeled_samples_in_every_storage(wdbc):
    X, y = wdbc
    partial = np.where(np.arange(N_TRAIN) % 3, 0, y[:N_TRAIN])
    models = [
        BEMKLClassifier(
            bank(), storage=Storage(name, "numpy"), unlabeled_label=0, **SWEEPS, intermediate_scale=1.0
        ).fit(X[:N_TRAIN], partial)
        for name in ("dense", "compressed", "float32", "streamed")
    ]
    for model in models[1:]:
        assert_same(model.kernel_weights_, models[0].kernel_weights_, 1e-5)
        np.testing.assert_array_equal(model.transduction_, models[0].transduction_)


def test_a_compressed_model_keeps_its_factors_in_its_file(wdbc, tmp_path):
    X, y = wdbc
    model = BEMKLClassifier(
        bank(), storage=Storage("compressed", "numpy"), **SWEEPS, intermediate_scale=1.0
    ).fit(X[:N_TRAIN], y[:N_TRAIN])
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert len(loaded.training_factors_.order) == model.n_kernels_in_


def test_a_large_fit_is_refused_before_it_starts(wdbc, monkeypatch):
    X, y = wdbc
    calls = []
    monkeypatch.setattr("bayesmkl._utils.memory.available_memory", lambda: 10**5)
    monkeypatch.setattr("bayesmkl.kernels.bank.SURELY_THERE", 0)
    monkeypatch.setattr(Gaussian, "evaluate", lambda *_: calls.append(1))
    with pytest.raises(MemoryError, match=r"15 kernels of 110 x 110 entries needs 1.5 MB, and 100 kB are"):
        BEMKLClassifier(bank(), storage="dense", intermediate_scale=1.0).fit(X, y)
    with pytest.raises(MemoryError, match=r"single precision needs 726 kB.*landmarks=256"):
        BEMKLClassifier(bank(), storage="float32", intermediate_scale=1.0).fit(X, y)
    assert not calls


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"storage": "sparse"}, "`storage` must be one of"),
        ({"storage": "compressed", "inference": "gibbs"}, "`storage` 'compressed' needs inference=\"vb\""),
        ({"storage": Storage("sparse")}, "`kind` of `storage` must be one of 'auto', .*; got 'sparse'"),
        ({"storage": Storage}, r"`storage` must be one of .* or a Storage\(...\); got <class"),
        ({"storage": "streamed", "missing_views": "integrate"}, "`storage` 'streamed' needs inference"),
        (
            {"storage": Storage("packed", "jax")},
            '`backend` of `storage` must be "numpy" or "auto" with kind="pa',
        ),
        (
            {"storage": Storage("streamed", "jax")},
            '`backend` of `storage` must be "numpy" or "auto" with kind="st',
        ),
        ({"storage": Storage("compressed", rank=0)}, "`rank` of `storage` must be"),
        (
            {"storage": Storage(rank=8)},
            "`rank` of `storage` is for kind=\"compressed\"; got 8 and kind='auto'",
        ),
    ],
)
def test_mistakes_are_named_before_work_starts(wdbc, options, message, monkeypatch):
    X, y = wdbc
    monkeypatch.setattr(KernelBank, "fit", None)
    monkeypatch.setattr(KernelBank, "fit_transform", None)
    for estimator in (BEMKLClassifier, BEMKLRegressor):
        with pytest.raises(ValueError, match=message):
            estimator(bank(), **options).fit(X, y)


def test_streaming_needs_a_bank(wdbc):
    X, y = wdbc
    with pytest.raises(ValueError, match='`storage` "streamed" evaluates kernels when they are needed'):
        BEMKLClassifier("precomputed", storage="streamed", intermediate_scale=1.0).fit(
            bank().fit_transform(X), y
        )


def test_multitask_models_hold_dense_kernels(wdbc, everything_large):
    X, _ = wdbc
    model = BEMKLMultitaskRegressor(bank(), max_iter=5, tol=0.0).fit(X, X[:, :2])
    assert np.isfinite(model.predict(X)).all()


def test_kernels_of_a_given_rank_are_nystroem_approximations_in_fit_and_predictions(wdbc):
    """The model of ``K[:, p] K[p, p]^-1 K[p, :]``, given as it is, with other pivots p for every kernel."""
    X, y = wdbc
    settings = {"max_iter": 30, "tol": 0.0, "inference": VB(accelerate=False)}
    few = KernelBank([Gaussian(width=2), Gaussian(width=4)])
    own = BEMKLClassifier(few, storage=Storage("compressed", rank=8), **settings, intermediate_scale=1.0).fit(
        X, y
    )
    (pivots,) = own.training_factors_.pivots
    assert pivots.shape == (2, 8)
    assert not np.array_equal(*np.sort(pivots))
    new = X[::7] + 0.1
    square, rows = (values.transpose(2, 0, 1) for values in (few.fit_transform(X), few.transform(new)))

    def shortened(kernels):
        found = [
            own[:, at] @ np.linalg.solve(K[np.ix_(at, at)], K[at])
            for own, K, at in zip(kernels, square, pivots, strict=True)
        ]
        return np.stack(found, axis=-1)

    assert abs(shortened(square) - square.transpose(1, 2, 0)).max() > 0.05
    given = BEMKLClassifier("precomputed", **settings, intermediate_scale=1.0).fit(shortened(square), y)
    np.testing.assert_allclose(own.predict_proba(new), given.predict_proba(shortened(rows)), atol=1e-6)
    np.testing.assert_allclose(own.kernel_shares_, given.kernel_shares_, atol=1e-6)


def test_rank_of_precomputed_kernels(wdbc):
    X, y = wdbc
    kernels = KernelBank(Gaussian(width=2)).fit_transform(X)
    model = BEMKLClassifier(
        "precomputed", storage=Storage("compressed", rank=5), intermediate_scale=1.0, max_iter=5, tol=0.0
    )
    model.fit(kernels, y)
    assert model.kernel_bytes_ == 8 * 5 * len(X)
