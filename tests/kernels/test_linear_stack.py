"""Linear kernels by the features that they have in common, against dense ones: values, slopes and whole fits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLClassifier,
    GPMKLRegressor,
    KernelBank,
    load_model,
    save_model,
)
from bayesmkl._estimator import storage
from bayesmkl.gp import Marginal, reading
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.evidence import exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate_slope
from bayesmkl.gp.hyperpriors import DirichletShares, LogNormal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks import shared_features
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.linear import LinearStack
from bayesmkl.kernels.stacks.lowrank import LowRankStack
from bayesmkl.kernels.stacks.packed import PackedStack
from bayesmkl.kernels.stacks.shared_features import linear_rows, linear_stack
from bayesmkl.outcomes import Gaussian as GaussianNoise
from bayesmkl.posterior import contributions

N_SAMPLES, N_FEATURES, N_KERNELS = 40, 20, 60
NORMALIZATIONS = ["trace", "center", ("center", "trace"), ("trace", "center"), None]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def pathways(n_kernels=N_KERNELS, normalize=("center", "trace"), kernel=None, **options):
    """Kernels on two to seven of the features."""
    rng = np.random.default_rng(3)
    views = {
        f"p{m}": rng.choice(N_FEATURES, rng.integers(2, 8), replace=False).tolist() for m in range(n_kernels)
    }
    return KernelBank(kernel or Linear(), views=views, normalize=normalize, **options)


def table(rng, n_samples=N_SAMPLES):
    """Features, and a target that the first pathway makes."""
    X = 2.0 + rng.normal(size=(n_samples, N_FEATURES))
    own = X[:, pathways().views["p0"]]
    return X, own.sum(axis=1) - own.sum(axis=1).mean() + 0.5 * rng.normal(size=n_samples)


@pytest.fixture
def shared(monkeypatch):
    """Few and small kernels are held so as well."""
    monkeypatch.setattr(storage, "SMALL", 0)
    monkeypatch.setattr(storage, "MANY_SHARED", 0)
    monkeypatch.setattr(storage, "PACKED", 0)
    monkeypatch.setattr(storage, "MANY_PACKED", 0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_kernels_are_those_of_the_bank(normalize, weighted, rng):
    """Of training samples, which may have weights, and of new rows; also far from zero."""
    X = table(rng)[0] + (1e6 if normalize == ("center", "trace") else 0.0)
    rows = X[:7] * 1.001
    bank = pathways(normalize=normalize).fit(
        X, sample_weight=rng.uniform(size=N_SAMPLES) if weighted else None
    )
    stack = linear_stack(bank)
    assert stack.features.shape == (N_FEATURES, N_SAMPLES)
    assert stack.nbytes < bank.train_stack().nbytes / 20
    dense, size = bank.train_stack(), np.abs(bank.train_stack()).max()
    np.testing.assert_allclose(stack.columns(slice(None)), dense, atol=1e-9 * size)
    new = linear_rows(bank, stack, rows)
    values, diagonal = bank.rows_and_diagonal(rows)
    np.testing.assert_allclose(new.columns(slice(None)), values, atol=1e-9 * np.abs(values).max())
    np.testing.assert_allclose(new.self_similarity(), diagonal, rtol=1e-9)
    for kernel, root in zip(dense, stack.roots(), strict=True):
        np.testing.assert_allclose(root @ root.T, kernel, atol=1e-9 * size)


def test_a_column_that_a_view_names_twice_counts_twice(rng, monkeypatch):
    monkeypatch.setattr(shared_features, "SHORTER", 0)
    X = rng.normal(size=(9, 3))
    bank = KernelBank(Linear(), views={"a": [0, 0, 1], "b": [1, 2]}, normalize=None).fit(X)
    np.testing.assert_allclose(linear_stack(bank).columns(slice(None)), bank.train_stack(), atol=1e-12)


OTHERS = {
    "of unit self-similarity": {"normalize": "spherical"},
    "of unit self-similarity around the mean": {"normalize": ("center", "spherical")},
    "with others": {"kernel": [Linear(), Gaussian()]},
    "of others alone": {"kernel": Gaussian()},
    "with landmarks": {"landmarks": 9},
    "of samples that may lack views": {"missing_views": "keep"},
    "few": {"n_kernels": 2},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_held_otherwise(name, rng):
    assert linear_stack(pathways(**OTHERS[name]).fit(table(rng)[0])) is None


def test_some_centered_kernels_are_held_otherwise(rng):
    bank = pathways()
    normalize = {view: "trace" if view == "p3" else ("center", "trace") for view in bank.views}
    assert linear_stack(bank.set_params(normalize=normalize).fit(table(rng)[0])) is None
    assert linear_stack(pathways(normalize="trace").fit(csr_array(table(rng)[0]))) is None


def test_evidence_and_slopes_are_those_of_dense_kernels(rng):
    X, y = table(rng)
    stack, units = linear_stack(pathways().fit(X)), kernel_units(DenseStack(pathways().fit(X).train_stack()))
    np.testing.assert_allclose(kernel_units(stack), units, rtol=1e-10)
    noise, at = GaussianNoise(), 0.5 * rng.normal(size=N_KERNELS + 2)
    found = []
    for one in (stack, DenseStack(stack.columns(slice(None)))):
        covariance, prior = Additive(one, units, 1.0), DirichletShares()
        model = Hypermodel(covariance, noise, y[None] / y.std(), prior, LogNormal(), exact_evidence)
        found.append(evaluate_slope(model, at, None))
    assert found[0][0].log_density == pytest.approx(found[1][0].log_density, rel=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-9 * np.abs(found[1][1]).max())


@pytest.mark.heavy
@pytest.mark.parametrize("of_labels", [False, True])
def test_bemkl_is_that_of_dense_kernels(of_labels, rng, shared):
    """Shares, predictions and the bound; and in another order of the kernels."""
    X, y = table(rng, 50)
    rows, X, target = X[40:], X[:40], (y > 0.0).astype(int)[:40] if of_labels else y[:40]
    kind = BEMKLClassifier if of_labels else BEMKLRegressor
    options = {"tol": 1e-12, "max_iter": 3000} | ({"intermediate_scale": 1.0} if of_labels else {})
    dense = kind(pathways(), storage="dense", **options).fit(X, target)
    found = kind(pathways(), **options)
    stack, _ = found._prepare(X, target)
    assert type(stack) is LinearStack
    assert type(kind(pathways(normalize="spherical"), **options)._prepare(X, target)[0]) is not LinearStack
    assert isinstance(kind(pathways(), storage="compressed")._prepare(X, target)[0], LowRankStack)
    found.fit(X, target)
    assert found.storage_ == "compressed"
    assert found.kernel_bytes_ < dense.kernel_bytes_ / 20
    assert found.elbo_ == pytest.approx(dense.elbo_, rel=1e-8)
    np.testing.assert_allclose(found.kernel_shares_, dense.kernel_shares_, atol=1e-6)
    np.testing.assert_allclose(_scores(found, rows), _scores(dense, rows), atol=1e-5)
    bank = pathways()
    turned = bank.set_params(views=dict(reversed(bank.views.items())))
    again = kind(turned, **options).fit(X, target)
    assert again.elbo_ == pytest.approx(found.elbo_, rel=1e-8)
    np.testing.assert_allclose(again.kernel_weights_[::-1], found.kernel_weights_, atol=1e-6)


def _scores(model, rows):
    return model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)


@pytest.mark.parametrize("of_labels", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_marginal_inference_is_that_of_dense_kernels(of_labels, rng, monkeypatch, request, tmp_path):
    X, y = table(rng, 50)
    rows, X, target = X[40:], X[:40], y[:40] > 0.0 if of_labels else y[:40]
    kind = GPMKLClassifier if of_labels else GPMKLRegressor
    model = kind(pathways(20), inference=Marginal(n_points=100, n_draws=100))

    def read():
        predicted = model.predict_proba(rows) if of_labels else np.array(model.predict(rows, return_std=True))
        return predicted, contributions(model, rows, n_draws=30)["mean"].values

    dense, parts = (model.fit(X, target), read())[1]
    before = {name: getattr(model, name) for name in ("log_evidence_", "elpd_i_", "kernel_shares_")}
    assert not len(model.posterior_.units)
    request.getfixturevalue("shared")
    monkeypatch.setattr(reading, "MOST_POINTS", 100)
    found, of_views = (model.fit(X, target), read())[1]
    assert model.posterior_.covariances.shape[1:] == (40, 40)
    assert type(model._stored_training()) is LinearStack
    assert model.log_evidence_ == pytest.approx(before["log_evidence_"], rel=1e-6)
    np.testing.assert_allclose(found, dense, atol=1e-4)  # of covariances in single precision
    np.testing.assert_allclose(of_views, parts, atol=1e-4)
    np.testing.assert_allclose(model.elpd_i_, before["elpd_i_"], atol=1e-4)
    error = 4.0 * model.kernel_shares_std_ / 10.0  # other draws of functions
    assert (np.abs(model.kernel_shares_ - before["kernel_shares_"]) < 1e-3 + error).all()
    if of_labels:
        mean = model.decision_function(rows)
    else:
        mean = model.predict(rows)
        np.testing.assert_allclose(mean, found[0], atol=1e-4)
    save_model(model, tmp_path / "model.bmkl")
    again = load_model(tmp_path / "model.bmkl")
    np.testing.assert_array_equal(again.decision_function(rows) if of_labels else again.predict(rows), mean)
    assert type(again._stored_training()) is LinearStack


def test_a_bank_of_other_kernels_is_packed(rng, shared):
    X, y = table(rng)
    model = GPMKLRegressor(pathways(kernel=[Linear(), Gaussian(relative_width=1.0)], n_kernels=5))
    assert type(model._prepare(X, y)[0]) is PackedStack
