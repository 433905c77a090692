"""BEMKL of many more kernels than samples, against the updates with P x P matrices and inverses of these."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    SAME_FORMULA,
    assert_same,
    binary_problem,
    regression_problem,
)
from sklearn.base import clone

import bayesmkl
from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl._numerics.linalg import DiagonalPlusLowRank
from bayesmkl.bemkl import base, many_kernels, moments
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.bemkl.moments import WeightCovariance
from bayesmkl.bemkl.reading import predict_score
from bayesmkl.kernels import Linear
from bayesmkl.kernels.stacks.dense import DenseStack

N_KERNELS, N_SAMPLES = 60, 12
ROUNDING = 1e-9


def random_matrix(rng, size=9, rank=3):
    middle = rng.standard_normal((rank, rank))
    base = rng.uniform(1.0, 3.0, size)
    return DiagonalPlusLowRank(base, 0.3 * rng.standard_normal((size, rank)), 0.2 * (middle + middle.T))


def problem_of(kind, rng, n_kernels=N_KERNELS, n_samples=N_SAMPLES):
    """A problem of linear kernels on few features each, and the algorithm that it is for."""
    features = rng.standard_normal((n_samples, 12))
    chosen = [rng.choice(12, 3, replace=False) for _ in range(n_kernels)]
    kernels = np.array([features[:, own] @ features[:, own].T / 3.0 for own in chosen])
    score = features[:, chosen[0]].sum(axis=1) - features[:, chosen[1]].sum(axis=1)
    if kind == "binary":
        return bemkl, binary_problem(kernels, np.where(score > 0.0, 1.0, -1.0), margin=0.0)
    target = score + 0.1 * rng.standard_normal(n_samples)
    return bemkl, regression_problem(kernels, (target - target.mean()) / target.std())


def start_of(algorithm, problem):
    return algorithm.init(
        problem, np.full(len(problem.y), 0.8) if not problem.outcome.has_noise else 0.0 * problem.y
    )


# ---------------------------------------------------------------------------------- diagonals plus factors


def test_a_diagonal_plus_factors_is_its_matrix_and_has_its_inverse():
    rng = np.random.default_rng(0)
    matrix = random_matrix(rng)
    dense, vectors = np.asarray(matrix), rng.standard_normal((9, 2))
    assert_same(matrix @ vectors, dense @ vectors, SAME_FORMULA)
    assert_same(matrix @ vectors[:, 0], dense @ vectors[:, 0], SAME_FORMULA)
    assert_same(matrix.diagonal(), dense.diagonal(), SAME_FORMULA)
    assert_same(matrix.trace(), np.trace(dense), SAME_FORMULA)
    assert_same(matrix[2:4, 5], dense[2:4, 5], SAME_FORMULA)
    inverse, log_det = matrix.inverse()
    assert_same(np.asarray(inverse), np.linalg.inv(dense), SAME_FORMULA)
    assert_same(log_det, -np.linalg.slogdet(dense)[1], SAME_FORMULA)
    again, _ = inverse.inverse()
    assert_same(np.asarray(again), dense, SAME_FORMULA)


def test_an_indefinite_matrix_has_no_inverse_of_a_covariance():
    matrix = DiagonalPlusLowRank(np.ones(4), np.ones((4, 1)), np.array([[-1.0]]))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        matrix.inverse()
    matrix = DiagonalPlusLowRank(np.ones(4), np.ones((4, 1)), np.array([[np.nan]]))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        matrix.inverse()


class Identity:
    """In the place of a generator: its draws are the rows of the root that draws are multiplied by."""

    def standard_normal(self, shape):
        return np.eye(*shape)


@pytest.mark.parametrize("rank", [3, 12], ids=["short factors", "dependent factors"])
def test_draws_have_the_covariance(rank):
    matrix = random_matrix(np.random.default_rng(1), rank=rank)
    matrix = matrix._replace(middle=0.1 * matrix.middle)
    root = matrix.draw(9, Identity())
    assert_same(root.T @ root, np.asarray(matrix), SAME_FORMULA)


# ------------------------------------------------------------------------------------------------- updates


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_an_update_is_that_with_dense_matrices(kind):
    """q(G) is the optimum for the first-order covariance of e; q(b, e) that for q(G); the bound that of both."""
    rng = np.random.default_rng(2)
    algorithm, problem = problem_of(kind, rng)
    state = many_kernels.sweep(problem, start_of(many_kernels, problem))[0]
    start = many_kernels.carry(problem, state)
    found, bound = many_kernels.sweep(problem, start)

    cov = np.asarray(start.readout_cov).copy()
    cov[1:, 1:] = np.asarray(start.readout_cov.first_order)
    dense = algorithm.sweep(problem, start._replace(readout_cov=cov))[0]
    assert_same(found.intermediate.mean, dense.intermediate.mean, ROUNDING)
    assert_same(np.asarray(found.intermediate.cov), dense.intermediate.cov, ROUNDING)
    assert_same(found.intermediate.log_det, dense.intermediate.log_det, ROUNDING)

    plain = found._replace(
        intermediate=found.intermediate._replace(cov=np.asarray(found.intermediate.cov)),
        readout=found.readout._replace(cov=np.asarray(found.readout.cov)),
    )
    precision = 1.0 if kind == "binary" else start.noise_precision
    design = moments.readout_design(plain.intermediate)
    target = found.latent.mean if kind == "binary" else problem.y
    prior = moments.readout_precision(found.intercept_precision, found.kernel_precision)
    latent = start.latent if kind == "binary" else target
    readout = moments.update_readout(
        design, moments.readout_target(plain.intermediate, latent), prior, precision
    )
    assert_same(found.readout.mean, readout.mean, ROUNDING)
    assert_same(plain.readout.cov, readout.cov, ROUNDING)
    assert_same(found.readout.log_det, readout.log_det, ROUNDING)
    assert_same(found.readout.variance, readout.cov.diagonal(), ROUNDING)
    assert_same(found.readout.cov.design_product, np.vdot(readout.cov, design), ROUNDING)
    assert_same(bound, algorithm.elbo(problem, plain), ROUNDING)


@pytest.mark.heavy
@pytest.mark.parametrize("prior", ["non-sparse", "sparse"])
@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_the_first_order_covariance_is_close(kind, prior):
    """What C₁ lacks of C is at most 4 / (27 (N - 1)) of the diagonal without data."""
    rng = np.random.default_rng(3)
    _, problem = problem_of(kind, rng)
    priors = (BINARY_PRIORS if kind == "binary" else REGRESSION_PRIORS)[prior]
    problem = problem._replace(priors=priors)
    state = maximize_elbo(
        many_kernels, problem, start_of(many_kernels, problem), LoopOptions(max_iter=300, tol=1e-9)
    ).state
    cov = state.readout.cov
    error = np.asarray(cov.first_order) - np.asarray(cov.weights)
    scale = np.sqrt(cov.weights.base)
    largest = np.abs(np.linalg.eigvalsh(error / np.outer(scale, scale))).max()
    assert largest < 4.0 / 27.0 / (N_SAMPLES - 1)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_fits_are_those_of_dense_updates(kind):
    rng = np.random.default_rng(4)
    algorithm, problem = problem_of(kind, rng, 100, 30)
    options = LoopOptions(max_iter=600, tol=1e-13)
    bounds, shares = [], []
    for one in (algorithm, many_kernels):
        found = maximize_elbo(one, problem, start_of(one, problem), options)
        bounds.append(found.elbo_history[-1])
        assert np.diff(found.elbo_history).min() > -1e-9 * abs(bounds[-1])
        state = found.state
        shares.append(share_draws(problem.stack, state.dual.mean[None], state.readout.mean[None, 1:])[0])
    assert -1e-9 * abs(bounds[0]) < bounds[0] - bounds[1] < 0.2 / 30**2  # nats
    np.testing.assert_allclose(shares[1], shares[0], atol=0.05 / 30**2)


# ----------------------------------------------------------------------------------------------- estimators


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(base, "LEAST", 0)


def pathways(rng, n_samples=30, n_kernels=100):
    X = rng.standard_normal((n_samples, 80))
    views = {f"p{m}": rng.choice(80, 6, replace=False).tolist() for m in range(n_kernels)}
    return X, X[:, views["p0"]].sum(axis=1), KernelBank(Linear(), views=views)


@pytest.mark.heavy
@pytest.mark.parametrize("estimator", [BEMKLClassifier, BEMKLRegressor], ids=lambda kind: kind.__name__)
def test_estimators(estimator, few_are_many, tmp_path):
    X, score, bank = pathways(np.random.default_rng(5))
    y = score if estimator is BEMKLRegressor else (score > 0.0).astype(int)
    given = {} if estimator is BEMKLRegressor else {"intermediate_scale": 1.0, "temperature": 1.0}
    model = estimator(bank, tol=1e-11, random_state=0, **given).fit(X[:24], y[:24])
    assert isinstance(model.posterior_.readout.cov, WeightCovariance)
    base.LEAST = 10**9  # the fixture puts it back
    dense = clone(model).fit(X[:24], y[:24])
    assert isinstance(dense.posterior_.readout.cov, np.ndarray)
    np.testing.assert_allclose(model.kernel_weights_std_, dense.kernel_weights_std_, rtol=1e-3)
    assert_same(np.asarray(model.kernel_weights_cov_).diagonal() ** 0.5, model.kernel_weights_std_, ROUNDING)
    np.testing.assert_allclose(model.kernel_shares_, dense.kernel_shares_, atol=0.005)  # of other draws
    predict = model.predict if estimator is BEMKLRegressor else model.decision_function
    np.testing.assert_allclose(
        predict(X[24:]), getattr(dense, predict.__name__)(X[24:]), atol=0.01, rtol=0.01
    )
    bayesmkl.save_model(model, tmp_path / "model.skops")
    loaded = bayesmkl.load_model(tmp_path / "model.skops")
    assert_same(getattr(loaded, predict.__name__)(X[24:]), predict(X[24:]), SAME_FORMULA)

    # each form starts from the other's posterior
    again = clone(dense).set_params(init=model.posterior_).fit(X[:24], y[:24])
    np.testing.assert_allclose(again.elbo_, dense.elbo_, atol=1e-3)
    base.LEAST = 0
    again = clone(dense).set_params(init=dense.posterior_).fit(X[:24], y[:24])
    np.testing.assert_allclose(again.elbo_, dense.elbo_, atol=1e-3)


def test_predictive_variances_are_those_of_dense_covariances():
    """But for Cov(a) times Cov(e), of which there are draws."""
    rng = np.random.default_rng(6)
    _, problem = problem_of("binary", rng, 150, 40)
    state = maximize_elbo(
        many_kernels, problem, start_of(many_kernels, problem), LoopOptions(max_iter=50)
    ).state
    dense = state.readout._replace(cov=np.asarray(state.readout.cov))
    rows = DenseStack(problem.stack.kernels[:, :9])
    for rule, tolerance in (("paper", ROUNDING), ("full", 2e-3)):
        pair = [predict_score(rows, state.dual, readout, 1.0, rule) for readout in (state.readout, dense)]
        assert_same(pair[0].mean, pair[1].mean, ROUNDING)
        np.testing.assert_allclose(pair[0].variance, pair[1].variance, rtol=tolerance)
