"""Landmarks of all kernels in total: where they go, and what a fit makes of kernels that have the first ones only."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.gp import Marginal
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.drawing import climb
from bayesmkl.gp.estimators import by_landmarks
from bayesmkl.gp.estimators.by_landmarks import expected
from bayesmkl.gp.evidence import exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate_height, evaluate_slope
from bayesmkl.gp.hyperpriors import HalfT, ParameterPriors
from bayesmkl.gp.landmarks import allot, gather, landmark_features, pseudo_samples
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian as GaussianNoise
from bayesmkl.outcomes import Heteroscedastic, Logit, Probit

VIEWS = {"signal": [0, 1], "noise": [2, 3]}
COUNTS = [7, 3, 2, 5]


def samples(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * np.random.default_rng(seed + 1).normal(size=n)


def bank(landmarks=12, **options):
    return KernelBank([Gaussian(), Linear()], views=VIEWS, landmarks=landmarks, **options)


def few(total):
    return Marginal(n_points=200, n_draws=200, total_landmarks=total)


def model_of(fitted, X, y, counts, factor=1):
    """Model of pseudo-samples of the samples, each of which is there `factor` times."""
    features = landmark_features(fitted, counts)
    found = gather(fitted, features, np.tile(X, (factor, 1)), np.tile(y, factor)[None])
    pseudo, seen, remainder = pseudo_samples(features, found)
    noise = Heteroscedastic(GaussianNoise())
    fields = np.stack([seen, np.zeros_like(seen), np.full_like(seen, pseudo.precision)], axis=1)
    covariance = Additive(DenseStack(pseudo.matrices()), pseudo.units, 3.0)
    priors = ParameterPriors(noise.priors)
    return Hypermodel(covariance, noise, fields, HalfT(), priors, exact_evidence, remainder)


@pytest.mark.parametrize("normalize", [None, "spherical", ("center", "spherical"), "trace"], ids=str)
def test_kernels_with_the_first_landmarks_are_columns_of_all(normalize):
    X, _ = samples()
    fitted = bank(normalize=normalize).fit(X)
    rows = np.random.default_rng(5).normal(size=(9, 4))
    wanted, diagonals = fitted.rows_and_diagonal(rows)
    for m, kernel, diagonal in fitted.rows_and_diagonals(rows, COUNTS):
        np.testing.assert_allclose(kernel, wanted[m][:, : COUNTS[m]], atol=1e-13)
        np.testing.assert_allclose(diagonal, diagonals[m], atol=1e-13)


def test_bound_is_the_one_of_titsias_with_landmarks_of_every_kernel():
    X, y = samples()
    fitted = bank().fit(X)
    model = model_of(fitted, X, y, COUNTS)
    coordinates = np.random.default_rng(2).normal(size=model.n_coordinates)
    weights, parameters = model.values(coordinates)
    explained, prior = np.full((60, 60), 9.0), np.full(60, 9.0)
    kernels, diagonals = fitted.rows_and_diagonal(X)
    for m, basis in enumerate(fitted.evaluate(fitted.basis_)):
        scale, n = weights[m] ** 2 / model.covariance.units[m], COUNTS[m]
        rows = kernels[m][:, :n]
        explained += scale * rows @ np.linalg.pinv(basis[:n, :n], rcond=1e-12) @ rows.T
        prior += scale * diagonals[m]
    variance = parameters[0, 0] ** 2
    wanted = multivariate_normal.logpdf(y, cov=explained + variance * np.eye(60))
    wanted -= (prior - np.diag(explained)).sum() / (2.0 * variance)
    assert evaluate_height(model, coordinates, None)[0].log_evidence == pytest.approx(wanted, rel=1e-8)


def test_landmarks_go_where_the_next_eigenvalue_is_the_largest():
    X, _ = samples()
    fitted = bank().fit(X)
    scales = np.array([0.7, 0.1, 0.02, 0.0])
    counts = allot(fitted, scales, 20)
    assert sum(counts) == 20
    assert counts[3] == 2
    basis = fitted.evaluate(fitted.basis_)
    values = [scale * np.linalg.eigvalsh(own)[::-1] for scale, own in zip(scales, basis, strict=True)]
    lost = [own[n:].max(initial=0.0) for own, n in zip(values, counts, strict=True)]
    last = [own[n - 1] for own, n in zip(values, counts, strict=True) if n > 2]
    assert min(last) >= max(lost) - 1e-12
    assert allot(fitted, scales, 8) == [2, 2, 2, 2]
    assert allot(fitted, scales, 1000) == [12, 12, 12, 12]


def test_mode_of_many_samples_is_found_as_that_of_few():
    X, y = samples()
    fitted = bank().fit(X)
    for factor in (1, 4000):
        model = model_of(fitted, X, y, COUNTS, factor)
        at, *_ = climb(model)
        best, *_ = climb(model, at, tol=1e-13)
        heights = [evaluate_height(model, one, None)[0].log_density for one in (at, best)]
        assert heights[1] - heights[0] < 0.05
        assert np.abs(evaluate_slope(model, best, None)[1]).max() < 1e-2 * np.sqrt(factor)


@pytest.fixture(scope="module")
def fits():
    X, y = samples(400)
    models = {
        total: GPMKLRegressor(bank(32), inference=few(total), random_state=0).fit(X, y)
        for total in (None, 128, 40)
    }
    return X, y, models, GPMKLRegressor(bank(10), inference=few(None), random_state=0).fit(X, y)


@pytest.mark.heavy
def test_as_many_in_total_as_there_are_change_nothing(fits):
    X, _, models, _ = fits
    assert models[128].pseudo_samples_.features.counts == [32] * 4
    for one, other in zip(
        models[None].predict(X, return_std=True), models[128].predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=0.01)
    assert models[None].log_evidence_ == pytest.approx(models[128].log_evidence_, abs=0.5)


def test_landmarks_go_to_kernels_with_weight(fits, tmp_path):
    _, y, models, equal = fits
    model = models[40]
    counts = model.pseudo_samples_.features.counts
    assert sum(counts) == 40
    assert counts[0] > 20
    new = np.random.default_rng(8).normal(size=(500, 4))
    truth = np.sin(2.0 * new[:, 0]) + 0.5 * new[:, 1]
    errors = [np.mean((own.predict(new) - truth) ** 2) for own in (model, equal)]
    assert errors[0] < 0.5 * errors[1]
    assert model.log_evidence_ > equal.log_evidence_ + 20.0
    # means are those of weights of landmarks too
    assert model.dual_coef_.shape == (4, 32)
    scores = np.einsum("mib,mb->i", model.kernel_bank_.evaluate(new), model.dual_coef_) + model.intercept_
    np.testing.assert_allclose(scores * y.std() + y.mean(), model.predict(new), atol=1e-8)
    save_model(model, tmp_path / "model.bmkl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.bmkl").predict(new), model.predict(new))


@pytest.mark.heavy
def test_labels_have_landmarks_where_weights_are(monkeypatch):
    X, y = samples(900, seed=4)
    monkeypatch.setattr(by_landmarks, "FIRST_SAMPLES", 40)
    monkeypatch.setattr(by_landmarks, "GROWTH", 2)
    every, some = (
        GPMKLClassifier(bank(32), inference=few(total), random_state=0).fit(X, y > 0.0)
        for total in (None, 48)
    )
    counts = some.pseudo_samples_.features.counts
    assert sum(counts) == 48
    assert counts[0] > 24 > counts[2]
    new = np.random.default_rng(9).normal(size=(200, 4))
    assert np.abs(every.predict_proba(new) - some.predict_proba(new)).mean() < 0.03
    np.testing.assert_allclose(every.kernel_shares_, some.kernel_shares_, atol=0.05)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_expectations_need_few_nodes_where_scores_are_sure(likelihood, monkeypatch):
    rng = np.random.default_rng(0)
    mean, sd, y = 5.0 * rng.normal(size=2000), rng.uniform(0.0, 0.5, 2000), rng.choice([-1.0, 1.0], 2000)
    found = expected(likelihood, y, mean, sd**2)
    monkeypatch.setattr(by_landmarks, "NARROW", 0.0)
    monkeypatch.setattr(by_landmarks, "NODES", 60)
    np.testing.assert_allclose(found, expected(likelihood, y, mean, sd**2), atol=1e-7)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GPMKLRegressor(bank(None), inference=few(20)), "must be None with a bank without `landmarks`"),
        (GPMKLRegressor(bank(10), inference=few(7)), "must be at least 2 for each of 4 kernels; got 7"),
        (
            GPMKLRegressor(bank(10), inference=Marginal(total_landmarks=1.5)),
            "`total_landmarks` of `inference`",
        ),
    ],
    ids=["without landmarks", "too few", "no whole number"],
)
def test_totals_that_cannot_be_are_named(model, message):
    X, y = samples()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
