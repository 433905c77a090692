"""Sparse forms of the additive Gaussian process: bounds, their gradients, and what is read from them.

Landmarks of all kernels in total: where they go, and what a fit makes of kernels that have the first ones only.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, Marginal, drawing, landmarks
from bayesmkl.gp.conditioning import condition
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.drawing import climb, find_mode
from bayesmkl.gp.estimators import by_landmarks
from bayesmkl.gp.estimators.by_landmarks import expected, induce
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate_height, evaluate_slope
from bayesmkl.gp.hyperpriors import HalfT, ParameterPriors
from bayesmkl.gp.landmarks import allot, gather, landmark_features, pseudo_samples
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian as GaussianNoise
from bayesmkl.outcomes import Heteroscedastic, Logit, Probit
from bayesmkl.posterior import (
    diagnose,
    feature_table,
    interaction_table,
    kernel_table,
    relevance,
    to_datatree,
)

VIEWS = {"signal": [0, 1], "noise": [2, 3]}
FEW = Marginal(n_points=200, n_draws=400)
COUNTS = [7, 3, 2, 5]


def samples(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * np.random.default_rng(seed + 1).normal(size=n)


def bank(landmarks=None, **options):
    return KernelBank([Gaussian(), Linear()], views=VIEWS, landmarks=landmarks, **options)


def model_of(X, y, landmarks, classes=False):
    """The model of pseudo-samples whose posterior is inferred, and what it is made from."""
    estimator = (GPMKLClassifier if classes else GPMKLRegressor)(
        bank(landmarks), kernel_prior=HalfT(), together=False, random_state=0
    )
    _, targets = estimator._prepare(X, y)
    found = induce(estimator, targets, np.random.default_rng(0))
    estimator.pseudo_samples_ = found.pseudo
    dense = DenseStack(found.pseudo.matrices())
    own = estimator._hypermodel(dense, targets, Marginal())
    return found.within(own), found, targets, estimator


def exact_model(X, targets, units, likelihood=None, evidence=exact_evidence):
    kernels = np.moveaxis(bank().fit_transform(X), -1, 0)
    covariance = Additive(DenseStack(kernels), units, 3.0)
    likelihood = likelihood or GaussianNoise()
    return Hypermodel(covariance, likelihood, targets, HalfT(), ParameterPriors(likelihood.priors), evidence)


def test_bound_is_the_one_of_titsias():
    X, y = samples()
    model, _, targets, estimator = model_of(X, y, X[:12])
    coordinates = np.random.default_rng(2).normal(size=model.n_coordinates)
    weights, parameters = model.values(coordinates)
    fitted = estimator.kernel_bank_
    explained, prior = np.full((60, 60), 9.0), np.full(60, 9.0)
    for scale, rows, basis, diagonal in zip(
        weights**2 / model.covariance.units,
        fitted.evaluate(X),
        fitted.evaluate(fitted.basis_),
        fitted.rows_and_diagonal(X)[1],
        strict=True,
    ):
        explained += scale * rows @ np.linalg.pinv(basis, rcond=1e-12) @ rows.T
        prior += scale * diagonal
    variance = parameters[0, 0] ** 2
    wanted = multivariate_normal.logpdf(targets[0], cov=explained + variance * np.eye(60))
    wanted -= (prior - np.diag(explained)).sum() / (2.0 * variance)
    assert evaluate_height(model, coordinates, None)[0].log_evidence == pytest.approx(wanted, rel=1e-8)


def test_bound_is_the_evidence_where_all_samples_are_landmarks():
    X, y = samples()
    model, _, targets, _ = model_of(X, y, X)
    exact = exact_model(X, targets, model.covariance.units)
    for seed in range(3):
        coordinates = np.random.default_rng(seed).normal(size=model.n_coordinates)
        point, slope = evaluate_slope(model, coordinates, None)
        wanted, wanted_slope = evaluate_slope(exact, coordinates, None)
        assert point.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-7)
        np.testing.assert_allclose(slope, wanted_slope, atol=1e-5)


def test_units_are_those_of_the_kernels_where_all_samples_are_landmarks():
    X, y = samples()
    model, _, _, _ = model_of(X, y, X)
    stack = DenseStack(np.moveaxis(bank().fit_transform(X), -1, 0))
    np.testing.assert_allclose(model.covariance.units, kernel_units(stack), rtol=1e-8)


def test_bound_grows_with_landmarks_and_stays_below_the_evidence():
    X, y = samples()
    coordinates = np.full(5, 0.3)
    bounds = []
    for n_landmarks in (4, 8, 16, 32):
        model, _, targets, _ = model_of(X, y, X[:n_landmarks])
        units = kernel_units(DenseStack(np.moveaxis(bank().fit_transform(X), -1, 0)))
        model = model._replace(
            covariance=model.covariance._replace(units=units), remainder=_in_units(model, units)
        )
        bounds.append(evaluate_height(model, coordinates, None)[0].log_evidence)
    exact = evaluate_height(exact_model(X, targets, units), coordinates, None)[0].log_evidence
    assert np.all(np.diff([*bounds, exact]) > 0.0)


def _in_units(model, units):
    return model.remainder._replace(traces=model.remainder.traces * model.covariance.units / units)


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "labels"])
def test_gradient_is_that_of_differences(classes):
    X, y = samples()
    model, *_ = model_of(X, y > 0 if classes else y, 10, classes)
    coordinates = np.random.default_rng(3).normal(size=model.n_coordinates)
    _, slope = evaluate_slope(model, coordinates, None)
    step = 1e-5 * np.eye(len(coordinates))
    below, above = (
        np.array([evaluate_height(model, coordinates + sign * d, None)[0].log_density for d in step])
        for sign in (-1.0, 1.0)
    )
    np.testing.assert_allclose(slope, (above - below) / 2e-5, rtol=1e-5, atol=1e-5)


def test_blocks_of_samples_are_samples(monkeypatch):
    X, y = samples()
    whole, *_ = model_of(X, y, 10)
    monkeypatch.setattr(landmarks, "BLOCK_ENTRIES", 7 * 40)
    blocks, *_ = model_of(X, y, 10)
    at = np.full(5, 0.3)
    bounds = [evaluate_height(model, at, None)[0].log_evidence for model in (whole, blocks)]
    assert bounds[0] == pytest.approx(bounds[1], abs=1e-9)


def test_sites_are_at_the_fixed_point_and_their_bound_is_below_the_evidence(monkeypatch):
    X, y = samples(80)
    monkeypatch.setattr(by_landmarks, "TOL", 1e-4)
    model, found, targets, _ = model_of(X, y > 0, X, classes=True)
    assert found.converged
    at, *_ = climb(model, tol=1e-12)
    bound = evaluate_height(model, at, None)[0].log_evidence
    exact = exact_model(X, targets, model.covariance.units, Probit(), ep_evidence)
    weights, _ = exact.values(at)
    output = evaluate_height(exact, at, None)[1][0]
    assert output.log_evidence - 2.0 < bound < output.log_evidence
    # variational inference over all pairs of samples
    posterior = condition(exact.covariance.matrix(weights), found.sites)
    log_density, first, second = expected(Probit(), targets[0], posterior.mean, posterior.variance)
    np.testing.assert_allclose(found.sites.precision, -second, atol=5e-3)
    np.testing.assert_allclose(found.sites.linear, first - second * posterior.mean, atol=5e-3)
    divergence = posterior.half_log_det + 0.5 * (
        posterior.mean @ posterior.dual - found.sites.precision @ posterior.variance
    )
    assert bound == pytest.approx(log_density.sum() - divergence, abs=1e-3)


@pytest.fixture(scope="module")
def fits():
    X, y = samples(120)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_landmarks, "LEFT_OUT_ENTRIES", 2**30)
        patch.setattr(drawing, "find_mode", partial(find_mode, tol=1e-13))  # the same draws around it
        named = {"all": None, "every": X, "few": 24}
        models = {
            name: GPMKLRegressor(bank(own), inference=FEW, random_state=0).fit(X, y)
            for name, own in named.items()
        }
    return X, y, models


@pytest.mark.heavy
def test_predictions_are_those_of_the_exact_model_where_all_samples_are_landmarks(fits):
    _, _, models = fits
    new = np.random.default_rng(9).normal(size=(30, 4))
    exact, sparse = models["all"], models["every"]
    assert sparse.log_evidence_ == pytest.approx(exact.log_evidence_, abs=1e-6)
    for one, other in zip(
        exact.predict(new, return_std=True), sparse.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(sparse.elpd_i_, exact.elpd_i_, atol=1e-3)
    np.testing.assert_allclose(sparse.kernel_shares_, exact.kernel_shares_, atol=0.02)
    np.testing.assert_allclose(sparse.kernel_shares_std_, exact.kernel_shares_std_, atol=0.01)


def test_means_come_from_weights_of_landmarks_and_from_pseudo_samples_alike(fits):
    _, _, models = fits
    new = np.random.default_rng(9).normal(size=(30, 4))
    model = models["few"]
    assert model.dual_coef_.shape == (5, 24)
    np.testing.assert_allclose(model.predict(new), model.predict(new, return_std=True)[0], atol=1e-8)


def test_summaries_of_landmarks(fits, tmp_path):
    X, y, models = fits
    model = models["few"]
    table = kernel_table(model, shares=True)
    assert set(table["interval_by"]) == {"marginal (bound by 24 landmarks)"}
    assert table["share"].sum() == pytest.approx(1.0)
    assert "kernel_shares" in to_datatree(model)["posterior"]
    assert "posterior_predictive" not in to_datatree(model)
    assert (
        diagnose(model, X_test=X[:20], y_test=y[:20])["shares"]["kernel"][0]
        == table.sort_values("share")["kernel"].iloc[-1]
    )
    left = diagnose(model)
    assert [left[key]["verdict"] for key in ("importance", "loo", "checks", "calibration")] == [
        "good",
        *["skipped"] * 3,
    ]
    slopes = [feature_table(models[name], X, random_state=0)["size"].to_numpy() for name in ("all", "every")]
    np.testing.assert_allclose(np.sort(slopes[0]), np.sort(slopes[1]), atol=0.1)
    save_model(model, tmp_path / "model.bmkl")
    again = load_model(tmp_path / "model.bmkl")
    np.testing.assert_array_equal(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])


@pytest.mark.parametrize("ask", [relevance, interaction_table, lambda m: to_datatree(m, pointwise=True)])
def test_what_needs_all_pairs_of_samples_is_refused(fits, ask):
    with pytest.raises(ValueError, match="compares samples with landmarks"):
        ask(fits[2]["few"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel_prior": "spike-slab"}, "`kernel_prior` must not be"),
        ({"likelihood": "student-t"}, "`likelihood` must be normal, probit or logit"),
        ({"design": Design(covariate_columns=0)}, "`design` must be None with a bank that has `landmarks`"),
        ({"inference": Marginal(sampler="nuts")}, "`sampler` of `inference` must be"),
        ({"kernels": bank(61)}, "`landmarks` must be from 1 to the number of training samples"),
        ({"missing_views": "integrate"}, "`missing_views` must be"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_parameters_with_landmarks_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GPMKLRegressor(**({"kernels": bank(10)} | parameters)).fit(*samples())


def test_weights_several_classes_grades_and_programs_are_refused():
    X, y = samples()
    with pytest.raises(ValueError, match="`sample_weight` must be None with `landmarks`"):
        GPMKLRegressor(bank(10)).fit(X, y, sample_weight=np.full(60, 2.0))
    with pytest.raises(ValueError, match="`y` must have two classes"):
        GPMKLClassifier(bank(10)).fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="`landmarks=None` for GPMKLOrdinalClassifier"):
        GPMKLOrdinalClassifier(bank(10)).fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="for a program of all training samples"):
        GPMKLRegressor(bank(10)).numpyro_model(X, y)


@pytest.mark.heavy
def test_classes_through_landmarks_are_those_of_all_samples():
    X, y = samples(150, seed=4)
    labels = np.where(y > 0.0, "yes", "no")
    exact, sparse = (
        GPMKLClassifier(bank(own), inference=FEW, random_state=0).fit(X, labels) for own in (None, X)
    )
    new = np.random.default_rng(9).normal(size=(50, 4))
    np.testing.assert_allclose(exact.predict_proba(new), sparse.predict_proba(new), atol=0.06)
    np.testing.assert_allclose(exact.kernel_shares_, sparse.kernel_shares_, atol=0.05)
    np.testing.assert_allclose(exact.elpd_i_.sum(), sparse.elpd_i_.sum(), rtol=0.05)
    assert abs(exact.log_evidence_ - sparse.log_evidence_) < 1.5


# ---------------------------------------------------------------------------------------------- landmarks in total


def few(total):
    return Marginal(n_points=200, n_draws=200, total_landmarks=total)


def model_with(fitted, X, y, counts, factor=1):
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
    fitted = bank(12, normalize=normalize).fit(X)
    rows = np.random.default_rng(5).normal(size=(9, 4))
    wanted, diagonals = fitted.rows_and_diagonal(rows)
    for m, kernel, diagonal in fitted.rows_and_diagonals(rows, COUNTS):
        np.testing.assert_allclose(kernel, wanted[m][:, : COUNTS[m]], atol=1e-13)
        np.testing.assert_allclose(diagonal, diagonals[m], atol=1e-13)


def test_bound_is_the_one_of_titsias_with_landmarks_of_every_kernel():
    X, y = samples()
    fitted = bank(12).fit(X)
    model = model_with(fitted, X, y, COUNTS)
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
    fitted = bank(12).fit(X)
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
    fitted = bank(12).fit(X)
    for factor in (1, 4000):
        model = model_with(fitted, X, y, COUNTS, factor)
        at, *_ = climb(model)
        best, *_ = climb(model, at, tol=1e-13)
        heights = [evaluate_height(model, one, None)[0].log_density for one in (at, best)]
        assert heights[1] - heights[0] < 0.05
        assert np.abs(evaluate_slope(model, best, None)[1]).max() < 1e-2 * np.sqrt(factor)


@pytest.fixture(scope="module")
def totals():
    X, y = samples(400)
    models = {
        total: GPMKLRegressor(bank(32), inference=few(total), together=False).fit(X, y)
        for total in (None, 128, 40)
    }
    return X, y, models, GPMKLRegressor(bank(10), inference=few(None), together=False).fit(X, y)


@pytest.mark.heavy
def test_as_many_in_total_as_there_are_change_nothing(totals):
    X, _, models, _ = totals
    assert models[128].pseudo_samples_.features.counts == [32] * 4
    for one, other in zip(
        models[None].predict(X, return_std=True), models[128].predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=0.01)
    assert models[None].log_evidence_ == pytest.approx(models[128].log_evidence_, abs=0.5)


def test_landmarks_go_to_kernels_with_weight(totals, tmp_path):
    _, y, models, equal = totals
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
        (GPMKLRegressor(bank(10), inference=few(7)), "must be at least 2 for each of 5 kernels; got 7"),
        (
            GPMKLRegressor(bank(10), inference=Marginal(total_landmarks=1.5)),
            "`total_landmarks` of `inference`",
        ),
    ],
    ids=["too few", "no whole number"],
)
def test_totals_that_cannot_be_are_named(model, message):
    X, y = samples()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.heavy
@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "labels"])
def test_many_samples_get_landmarks_by_themselves(classes, monkeypatch, tmp_path):
    monkeypatch.setattr(by_landmarks, "MOST_COMPARED", 150)
    X, y = samples(200, seed=4)
    new = np.random.default_rng(9).normal(size=(50, 4))
    kind, target = (GPMKLClassifier, y > 0.0) if classes else (GPMKLRegressor, y)
    predict = (lambda model: model.predict_proba(new)) if classes else lambda model: model.predict(new)
    model, exact = (
        kind(bank(), inference=Marginal(n_points=200, n_draws=400, total_landmarks=total)).fit(X, target)
        for total in ("auto", None)
    )
    assert model.kernel_bank_.landmarks == 200
    assert sum(model.pseudo_samples_.features.counts) <= 256
    assert exact.pseudo_samples_ is None
    assert exact.landmark_loss_ == 0.0
    assert 0.0 < model.landmark_loss_ < 0.02
    np.testing.assert_allclose(predict(model), predict(exact), atol=0.06)
    save_model(model, tmp_path / "model.bmkl")
    np.testing.assert_array_equal(predict(load_model(tmp_path / "model.bmkl")), predict(model))
    few_landmarks = clone(model).set_params(inference=few(12)).fit(X[:100], target[:100])
    assert sum(few_landmarks.pseudo_samples_.features.counts) == 12
    assert few_landmarks.landmark_loss_ > 2.0 * model.landmark_loss_


def test_landmarks_that_are_chosen_suit_categories_and_few_values(monkeypatch):
    monkeypatch.setattr(by_landmarks, "MOST_COMPARED", 50)
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dose": rng.integers(4, size=80), "kind": rng.choice(["a", "b", "c"], 80)})
    y = X["dose"] + (X["kind"] == "a") + 0.1 * rng.normal(size=80)
    model = GPMKLRegressor(views="types", inference=FEW).fit(X, y)
    assert len(model.kernel_bank_.landmarks_) == len(X.drop_duplicates())
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.99
    assert model.landmark_loss_ < 1e-6


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GPMKLRegressor(likelihood="poisson"), "`likelihood` must be normal, probit or logit"),
        (GPMKLRegressor(kernel_prior="spike-slab"), '`kernel_prior` must not be "spike-slab"'),
        (GPMKLRegressor(design=Design(covariate_columns=0)), "`design` must be None"),
        (GPMKLRegressor(inference=Marginal("nuts")), '`sampler` of `inference` must be "importance"'),
        (GPMKLRegressor(missing_views="integrate"), '`missing_views` must be "error"'),
        (GPMKLRegressor(KernelBank(Gaussian(width="learn"))), "`kernels` must have given widths"),
        (GPMKLOrdinalClassifier(), "`likelihood` must be normal, probit or logit"),
        (GPMKLClassifier(), "`y` must have two classes with landmarks; got 3"),
    ],
)
def test_more_samples_than_can_be_compared_are_refused_with_the_number_that_can(model, message, monkeypatch):
    monkeypatch.setattr(by_landmarks, "MOST_COMPARED", 50)
    X = samples()[0]
    with pytest.raises(ValueError, match=f"{message}.*at most 3000 samples"):
        model.fit(X, np.arange(60) % 3)


def test_more_weighted_samples_than_can_be_compared_are_refused(monkeypatch):
    monkeypatch.setattr(by_landmarks, "MOST_COMPARED", 50)
    with pytest.raises(
        ValueError, match=r"`sample_weight` must be None with 60 samples\. Fit to at most 3000"
    ):
        GPMKLRegressor(KernelBank()).fit(*samples(), sample_weight=np.arange(60) % 2 + 0.5)
