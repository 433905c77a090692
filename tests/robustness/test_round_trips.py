"""Models read back from files predict the same to the last bit, whatever they are made of."""

from __future__ import annotations

import families
import numpy as np
import pytest
from helpers import refined_a_little
from verdicts import quietly

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.bemkl import NUTS, Dirichlet, SpikeSlab
from bayesmkl.kernels import Gaussian, Linear, Polynomial

pytestmark = pytest.mark.family("round trips")

SHORT = families.SHORT


def assert_same_after_reading(model, tmp_path):
    save_model(model, tmp_path / "model.skops")
    again = quietly(lambda: load_model(tmp_path / "model.skops"))
    assert type(again) is type(model)
    found, expected = families.predictions(again), families.predictions(model)
    assert found.keys() == expected.keys()
    for method in expected:
        np.testing.assert_array_equal(found[method], expected[method], err_msg=method)
    return again


# Classes of models with one set of weights are in tests/test_persistence.py, with three classes each.
LOCAL = [
    name for name in families.discriminative_classes() if name[:4] in ("LMKL", "CLMK", "SwMK", "LDMK", "SAMK")
]
ONE_CLASS = ["PrimalMKLOneClass", "LapMKLClassifier", "graph"]
BAYESIAN = [name for name in families.families() if name[0].islower() or name.startswith("Gibbs")]


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*LOCAL, *ONE_CLASS, "Gaussian gating", *BAYESIAN])
def test_model_predicts_the_same(name, tmp_path):
    assert_same_after_reading(families.fitted(families.families()[name]), tmp_path)


def _binary(**options):
    return lambda: BEMKLClassifier(families.bank(), **SHORT | options, intermediate_scale=1.0)


def _regressor(**options):
    return lambda: BEMKLRegressor(families.bank(), **SHORT | options)


FORMS = {
    **{f"{form}, binary": _binary(storage=form) for form in ("dense", "compressed", "float32", "streamed")},
    **{f"{form}, regression": _regressor(storage=form) for form in ("compressed", "float32", "streamed")},
    "landmarks": lambda: BEMKLClassifier(families.bank(landmarks=5), **SHORT, intermediate_scale=1.0),
    "landmarks, streamed": lambda: BEMKLRegressor(families.bank(landmarks=5), storage="streamed", **SHORT),
    "landmarks given": lambda: BEMKLRegressor(families.bank(landmarks=families.data(4, seed=2)), **SHORT),
    "random landmarks": lambda: BEMKLClassifier(
        families.bank(landmarks=5, landmark_selection="random", random_state=3),
        **SHORT,
        intermediate_scale=1.0,
    ),
    "normalized": lambda: BEMKLRegressor(
        KernelBank([Gaussian(), Polynomial()], views="all+each", normalize=("center", "spherical", "trace")),
        **SHORT,
    ),
    "compressed, linear": lambda: BEMKLRegressor(KernelBank(Linear()), storage="compressed", **SHORT),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", FORMS)
def test_form_of_kernels_survives(name, tmp_path):
    X = families.data()
    model = FORMS[name]()
    y = families.target(X) if isinstance(model, BEMKLRegressor) else families.labels(X, 2)
    again = assert_same_after_reading(families.fitted(lambda: model.fit(X, y)), tmp_path)
    assert again.storage_ == model.storage_
    assert again.kernel_bytes_ == model.kernel_bytes_


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior", ["nonsparse", Dirichlet(1.0), SpikeSlab(0.5)], ids=["gamma", "dirichlet", "spike"]
)
def test_draws_of_nuts_survive(prior, tmp_path):
    model = BEMKLRegressor(
        families.bank(), kernel_prior=prior, inference=NUTS(n_chains=1, n_warmup=5, n_draws=10)
    )
    X = families.data()
    again = assert_same_after_reading(families.fitted(lambda: model.fit(X, families.target(X))), tmp_path)
    assert again.sample_stats_.keys() == model.sample_stats_.keys()


@pytest.mark.parametrize("prior", [Dirichlet(1.0), SpikeSlab(0.5), "sparse", (2.0, 3.0)], ids=repr)
def test_prior_survives(prior, tmp_path):
    save_model(BEMKLRegressor(kernel_prior=prior, inference="nuts"), tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert type(again.kernel_prior) is type(prior)
    assert again.kernel_prior == prior


def test_refined_posterior_survives(tmp_path):
    vb = families.fitted(families.families()["binary"])
    model = families.fitted(lambda: refined_a_little(vb, 10))
    assert_same_after_reading(model, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["binary", "SimpleMKLClassifier", "tasks, learned, regression"])
def test_a_second_round_trip_changes_nothing(name, tmp_path):
    model = families.fitted(families.families()[name])
    first = assert_same_after_reading(model, tmp_path)
    assert_same_after_reading(first, tmp_path)


@pytest.mark.parametrize("seed", [3, None, "generator"])
def test_seed_survives_as_it_is(seed, tmp_path):
    seed = np.random.default_rng(3) if seed == "generator" else seed
    save_model(
        BEMKLClassifier(init="random", random_state=seed, intermediate_scale=1.0), tmp_path / "model.skops"
    )
    again = load_model(tmp_path / "model.skops")
    if isinstance(seed, np.random.Generator):
        assert again.random_state.bit_generator.state == seed.bit_generator.state
    else:
        assert again.random_state == seed


@pytest.mark.parametrize(
    "classes",
    [
        [0, 1],
        [-1, 1],
        [True, False],
        ["a", "b"],
        [1.0, 2.0],
        [10**12, -(10**12)],
        ["ä", "日本"],
    ],
    ids=repr,
)
def test_labels_survive_with_their_type(classes, tmp_path):
    X = families.data()
    y = np.array(classes)[(X[:, 0] > 0).astype(int)]
    model = families.fitted(
        lambda: BEMKLClassifier(KernelBank(Linear()), **SHORT, intermediate_scale=1.0).fit(X, y)
    )
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
