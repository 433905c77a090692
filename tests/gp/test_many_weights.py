"""Marginal inference of many kernels: parts in blocks, curvature in few directions, kernels by one triangle."""

from __future__ import annotations

import numpy as np
import pytest
from problems import numbers
from scipy import stats

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl._estimator import base as storage
from bayesmkl.gp import Design, Marginal, drawing, hyperposterior, reading
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.drawing import find_mode
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, WideProposal, draw_importance, evaluate_height, spread_of
from bayesmkl.gp.hyperpriors import DirichletShares, HalfT, LogNormal, ParameterPriors
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian as GaussianNoise
from bayesmkl.outcomes import Probit
from bayesmkl.posterior import contributions

FEW = Marginal(n_points=100, n_draws=100)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def table(rng, n_samples=40, n_features=10):
    """Features of which the first makes the target, and a group."""
    X = rng.normal(size=(n_samples, n_features))
    X[:, -1] = rng.integers(3, size=n_samples)
    return X, X[:, 0] + 0.3 * rng.normal(size=n_samples)


def bank(n_features=10):
    """Two kernels of every feature but the last."""
    return KernelBank(
        [Gaussian(relative_width=1.0), Linear()], views={f"x{j}": j for j in range(n_features - 1)}
    )


@pytest.fixture
def in_blocks(monkeypatch):
    """Parts are never kept, and there are few of them at a time."""
    monkeypatch.setattr(reading, "KEPT", 0)
    monkeypatch.setattr(reading, "AT_ONCE", 8 * 40 * 100 * 5)


FITS = {
    "numbers": lambda X, y: (GPMKLRegressor(bank(), inference=FEW), X, y),
    "several outputs": lambda X, y: (
        GPMKLRegressor(bank(), inference=FEW),
        X,
        np.column_stack([y, X[:, 1] - y]),
    ),
    "labels": lambda X, y: (GPMKLClassifier(bank(), inference=FEW), X, y > 0.0),
    "effects": lambda X, y: (
        GPMKLRegressor(bank(), inference=FEW, design=Design(group_columns=[9])),
        X,
        y,
    ),
    "tasks": lambda X, y: (GPMKLRegressor(bank(), inference=FEW, design=Design(task_column=9)), X, y),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", FITS)
def test_parts_in_blocks_are_those_of_all_kernels_together(name, rng, request):
    model, X, y = FITS[name](*table(rng))
    whole = model.fit(X, y).posterior_
    request.getfixturevalue("in_blocks")
    found = model.fit(X, y).posterior_
    for field in ("shares", "score", "effects", "task_shares", "cavity_mean", "kernel_weights"):
        np.testing.assert_allclose(getattr(found, field), getattr(whole, field), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(found.point, whole.point)
    assert np.allclose(found.shares.sum(axis=1), 1.0)


def test_kernels_by_one_triangle_give_the_same_model(rng, monkeypatch):
    X, y = table(rng, 70)
    rows, (X, y) = X[40:], (X[:40], y[:40])
    model = GPMKLRegressor(bank(), inference=FEW)
    dense = model.fit(X, y).predict(rows, return_std=True)
    evidence, elpd, shares = model.log_evidence_, model.elpd_i_, model.kernel_shares_
    spread = contributions(model, rows, n_draws=50)["std"]
    assert not len(model.posterior_.units)
    monkeypatch.setattr(storage, "PACKED", 0)
    monkeypatch.setattr(storage, "MANY_PACKED", 0)
    monkeypatch.setattr(hyperposterior, "MANY", 0)
    monkeypatch.setattr(reading, "MOST_POINTS", 100)
    found = model.fit(X, y).predict(rows, return_std=True)
    assert model.posterior_.covariances.shape[1:] == (40, 40)
    np.testing.assert_allclose(model.log_evidence_, evidence, rtol=1e-4)
    np.testing.assert_allclose(np.array(found), np.array(dense), atol=2e-4)
    np.testing.assert_allclose(model.elpd_i_, elpd, atol=2e-3)
    error = 4.0 * model.kernel_shares_std_ / 10.0  # other draws of functions
    assert (np.abs(model.kernel_shares_ - shares) < 1e-3 + error).all()
    assert model.kernel_shares_.argmax() in (0, 1)
    parts = contributions(model, rows, n_draws=50)  # by covariances that were kept, as predictions
    np.testing.assert_allclose(parts["mean"].sum("part"), found[0], atol=1e-5)
    np.testing.assert_allclose(parts["std"].mean("sample"), spread.mean("sample"), rtol=0.2)


def many(rng, n_samples=30, n_kernels=60):
    """Linear kernels of a feature each."""
    X = rng.normal(size=(n_samples, n_kernels))
    stack = DenseStack(X.T[:, :, None] * X.T[:, None, :])
    y = numbers(rng, X)
    return stack, (y / y.std())[None]


@pytest.mark.heavy
@pytest.mark.parametrize("prior", [HalfT(4.0, 0.3), DirichletShares()], ids=["half-t", "Dirichlet"])
def test_curvature_in_few_directions_is_that_of_most_information(prior, rng, monkeypatch):
    """The inverse covariance of the directions that are found, and one elsewhere."""
    stack, y = many(rng)
    covariance = Additive(stack, kernel_units(stack), 1.0)
    model = Hypermodel(covariance, GaussianNoise(), y, prior, LogNormal(), exact_evidence)
    monkeypatch.setattr(drawing, "MANY", 10)
    monkeypatch.setattr(drawing, "_measured", lambda model, at, point, expected: (expected, 0))
    monkeypatch.setattr(hyperposterior, "N_DIRECTIONS", 32)
    mode = find_mode(model)
    monkeypatch.setattr(hyperposterior, "N_DIRECTIONS", 61)
    monkeypatch.setattr(hyperposterior, "NOTABLE", 0.0)
    whole = np.linalg.inv(find_mode(model).cov.matrix())
    found = np.linalg.inv(mode.cov.matrix())
    values = np.linalg.eigvalsh(whole)[::-1]
    assert values[0] > 2.0
    np.testing.assert_allclose(np.linalg.eigvalsh(found)[::-1][:10], values[:10], rtol=0.06)
    missed = np.linalg.eigvalsh(whole - found)
    assert missed[0] > -0.05
    assert missed[-1] < values[2] - 1.0
    assert mode.cov.basis.shape[1] < 40
    drawn = [draw_importance(model, mode, 1024, np.random.default_rng(seed)) for seed in (0, 1)]
    evidences = [one.log_evidence for one in drawn]
    assert abs(evidences[0] - evidences[1]) < 0.8
    assert min(one.ess for one in drawn) > 12.0


def test_the_curvature_of_labels_is_measured_where_it_matters(rng, monkeypatch):
    """In the span of its directions it is that of heights; labels say less of the total than normal scores would."""
    stack, y = many(rng)
    covariance = Additive(stack, kernel_units(stack), 1.0)
    model = Hypermodel(covariance, Probit(), np.sign(y), DirichletShares(), ParameterPriors(()), ep_evidence)
    monkeypatch.setattr(drawing, "MANY", 10)
    expected = []
    measured = drawing._measured
    monkeypatch.setattr(drawing, "_measured", lambda *given: (expected.append(given[3]), measured(*given))[1])
    mode = find_mode(model)
    assert mode.cov.basis.shape == (61, expected[0].basis.shape[1] + 1)
    np.testing.assert_allclose(mode.cov.basis.T @ mode.cov.basis, np.eye(mode.cov.basis.shape[1]), atol=1e-10)
    outside = mode.coordinates - mode.cov.basis @ (mode.cov.basis.T @ mode.coordinates)
    assert np.abs(outside).max() < 1e-8
    at_mode = mode.point.log_density
    for direction, variance in zip(mode.cov.basis.T[-3:], mode.cov.variances[-3:], strict=True):
        heights = [
            evaluate_height(model, mode.coordinates + step * direction, mode.point.sites)[0].log_density
            for step in (-0.05, 0.05)
        ]
        assert (2.0 * at_mode - sum(heights)) / 0.05**2 == pytest.approx(1.0 / variance, rel=0.02)
    total = mode.cov.basis[0]
    assert total @ (mode.cov.variances * total) > 1.5 * expected[0].matrix()[0, 0]
    drawn = draw_importance(model, mode, 256, np.random.default_rng(0))
    assert drawn.pareto_k < hyperposterior.GOOD_K
    assert len(drawn.weights) == 256


def test_a_spread_is_the_inverse_of_a_curvature(rng, monkeypatch):
    monkeypatch.setattr(hyperposterior, "NOTABLE", 0.0)
    factors, rest = rng.normal(size=(12, 3)), rng.normal(size=(14, 2))
    rest[12:] = rest[12:] @ rest[12:].T + 3.0 * np.eye(2)
    rest[:12] *= 0.1
    curvature = np.eye(14)
    curvature[:12, :12] += factors @ factors.T
    curvature[:, 12:], curvature[12:] = rest, rest.T
    spread = spread_of(factors, rest, 1e-6)
    np.testing.assert_allclose(spread.matrix(), np.linalg.inv(curvature), atol=1e-10)
    assert spread.basis.shape[1] <= 7


def test_the_wide_density_is_that_of_its_draws(rng):
    basis = np.linalg.qr(rng.normal(size=(9, 2)))[0]
    mean = rng.normal(size=9)
    one = WideProposal.around(mean, basis, np.array([0.2, 3.0]))._replace(scale=0.8)
    at = rng.normal(size=(5, 9))
    outside = np.linalg.svd(basis)[0][:, 2:]
    expected = stats.multivariate_t.logpdf((at - mean) @ basis, shape=np.diag([0.2, 3.0]), df=12.0)
    expected += stats.norm.logpdf((at - mean) @ outside, scale=0.8).sum(axis=1)
    np.testing.assert_allclose(one.log_density(at), expected, rtol=1e-10)
    drawn = one.draw(4096, rng, one.sequence(rng))
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.08)
    np.testing.assert_allclose(((drawn - mean) @ outside).std(axis=0), 0.8, rtol=0.05)
    np.testing.assert_allclose(((drawn - mean) @ basis).var(axis=0) / 1.2, [0.2, 3.0], rtol=0.15)
    narrower = one.adapted(mean + 0.5 * (drawn - mean), np.full(4096, 1 / 4096))
    assert narrower.scale == pytest.approx(0.4, rel=0.05)
    nowhere = WideProposal.around(mean, np.empty((9, 0)), np.empty(0))  # the data say nothing
    np.testing.assert_allclose(nowhere.log_density(at), stats.norm.logpdf(at - mean).sum(axis=1), rtol=1e-12)
    assert nowhere.draw(8, rng, nowhere.sequence(rng)).shape == (8, 9)


@pytest.mark.heavy
def test_what_cannot_be_had_of_so_many_is_said_before(rng, monkeypatch):
    X, y = table(rng)
    monkeypatch.setattr(drawing, "MOST_OF_CHAINS", 10)
    with pytest.raises(ValueError, match='`sampler` of `inference` must be "importance" with more than 10'):
        GPMKLRegressor(bank(), inference=Marginal(sampler="nuts")).fit(X, y)
    monkeypatch.setattr(storage, "PACKED", 0)
    monkeypatch.setattr(storage, "MANY_PACKED", 0)
    chosen = GPMKLRegressor(bank(), kernel_prior="spike-slab", inference=FEW)  # has chains of its own
    assert len(chosen.fit(X, y).posterior_.covariances) == 0


def test_an_indefinite_kernel_is_named_in_blocks_too(rng, in_blocks):
    X, y = table(rng)
    stack = bank().fit_transform(X)
    stack[..., 7] -= 2.0 * np.eye(40)
    with (
        pytest.warns(KernelQualityWarning),
        pytest.raises(ValueError, match="kernel 'kernel 7' is not positive"),
    ):
        GPMKLRegressor("precomputed", inference=FEW).fit(stack, y)
