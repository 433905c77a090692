"""Missing views of additive Gaussian processes: moments by simulation, special cases, all that fitted models do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import Predictive
from numpyro.infer.util import log_density
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import Design, GPMKLOrdinalClassifier, GPMKLSurvival, Marginal
from bayesmkl.gp.estimators.base import overall
from bayesmkl.gp.reading import shares
from bayesmkl.gp.unknown_points import (
    PREDICTABLE,
    CompletedKernels,
    find_centers,
    predictability,
)
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of few points
FEW = Marginal(n_points=100, n_draws=150)
VIEWS = {"left": [0, 1], "right": [2, 3], "noise": [4, 5]}


def bank(**options):
    return KernelBank([Gaussian(width=1.5)], views=VIEWS, **options)


def holes(n_samples, fraction, rng):
    """Return the mask of lost views, (n_samples, 3)."""
    return rng.random((n_samples, 3)) < fraction


def without(X, lost):
    X = X.copy()
    X[np.repeat(lost, 2, axis=1)] = np.nan
    return X


def samples(n_samples=40, seed=0, fraction=0.3):
    """Two views of the same state, one of noise, and a target."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(n_samples, 2))
    X = np.hstack([state, state + 0.3 * rng.normal(size=(n_samples, 2)), rng.normal(size=(n_samples, 2))])
    y = state[:, 0] + np.sin(2 * state[:, 1]) + 0.2 * rng.normal(size=n_samples)
    return without(X, holes(n_samples, fraction, rng)), y


@pytest.fixture(scope="module")
def regression():
    X, y = samples()
    return X, y, GPMKLRegressor(bank(), missing_views="integrate", inference=FEW).fit(X, 10.0 * y + 3.0)


# --- mathematics ---------------------------------------------------------------------------------


def stack_of(X, present, width=1.0):
    """Gaussian kernels of the columns of X, zero where they are absent."""
    kernels = np.exp(-((X.T[:, :, None] - X.T[:, None, :]) ** 2) / (2 * width**2))
    kernels = kernels * (present[:, :, None] & present[:, None, :])
    return DenseStack(kernels, None if present.all() else present)


def completed(stack, told=None):
    centers = find_centers(stack)
    return CompletedKernels(centers.rows(stack), centers.spread, np.arange(stack.n_kernels), told)


def test_centers_are_those_of_the_samples_that_have_the_view(rng):
    X, present = rng.normal(size=(9, 2)), rng.random((2, 9)) < 0.7
    stack = stack_of(X, present)
    centers = find_centers(stack)
    found = centers.rows(stack)
    for m in range(2):
        have = np.flatnonzero(present[m])
        middle = np.eye(len(have)) - 1.0 / len(have)
        expected = middle @ stack.kernels[m][np.ix_(have, have)] @ middle
        np.testing.assert_allclose(found.kernels[m][np.ix_(have, have)], expected, atol=1e-12)
        assert not found.kernels[m][~present[m]].any()
        assert not found.kernels[m][:, ~present[m]].any()
        np.testing.assert_allclose(centers.spread[m], np.trace(expected) / len(have))
        np.testing.assert_allclose(centers.diagonal(stack, stack.diagonal())[m, have], np.diag(expected))


def test_moments_of_functions_at_random_points_by_simulation(rng):
    """Functions of a population of points, at samples whose point is one of them that nothing tells."""
    n, n_draws = 6, 40_000
    population = rng.normal(size=n)
    stack = stack_of(np.append(population, [0.0, 0.0])[:, None], np.arange(n + 2)[None] < n)
    found = completed(stack).training.kernels[0]
    middle = np.eye(n) - 1.0 / n
    kernel = middle @ stack.kernels[0][:n, :n] @ middle
    functions = np.linalg.cholesky(kernel + 1e-12 * np.eye(n)) @ rng.standard_normal((n, n_draws))
    at = rng.integers(n, size=(2, n_draws))  # the points of the two samples
    values = np.concatenate([functions, functions[at, np.arange(n_draws)]])
    sizes = np.sqrt(np.outer(np.diag(found), np.diag(found)))
    np.testing.assert_allclose(values @ values.T / n_draws, found, atol=0.04 * sizes.max())


def test_moments_given_another_view_by_simulation(rng):
    """One view is the image of the other and noise: what is learned of it has the moments of its distribution."""
    n, n_draws = 300, 4000
    one = rng.normal(size=n)
    other = 0.9 * one + np.sqrt(1.0 - 0.81) * rng.normal(size=n)
    present = np.ones((2, n), dtype=bool)
    present[1, :20] = False
    X = np.stack([one, other], axis=1)
    stack = DenseStack(np.einsum("im,jm->mij", X, X) * (present[:, :, None] & present[:, None, :]), present)
    found = completed(stack)  # linear kernels, so that the truth is known: N(.9 x, .19)
    kernel = found.training.kernels[1]
    assert found.told[1] >= 0.7
    have = present[1]
    center = other[have].mean()
    expected = np.outer(0.9 * one[:20] - center, other[have] - center)
    np.testing.assert_allclose(kernel[:20][:, have], expected, atol=0.12 * np.abs(expected).max())
    drawn = 0.9 * one[:20, None] + np.sqrt(0.19) * rng.standard_normal((20, n_draws)) - center
    np.testing.assert_allclose(np.diag(kernel)[:20], (drawn**2).mean(axis=1), rtol=0.3, atol=0.15)


def test_covariances_are_positive_semidefinite_and_rows_continue_them(rng):
    X, present = rng.normal(size=(30, 3)), rng.random((3, 30)) < 0.6
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    stack = stack_of(X, present)
    found = completed(stack)
    assert found.told.max() > 0.3
    for kernel in found.training.kernels:
        np.testing.assert_allclose(kernel, kernel.T, atol=1e-13)
        assert np.linalg.eigvalsh(kernel).min() > -1e-10
    centers = find_centers(stack)
    # a training sample as a new one: the same but for what its own unknown point has with itself
    rows, variances = found.rows(centers.rows(stack), centers.diagonal(stack, stack.diagonal()))
    off = ~np.eye(30, dtype=bool)
    for m in range(3):
        np.testing.assert_allclose(rows.kernels[m][off], found.training.kernels[m][off], atol=1e-12)
        np.testing.assert_allclose(variances[m], np.diag(found.training.kernels[m]), atol=1e-12)


def test_predictability_by_refits_without_each_sample(rng):
    x = rng.normal(size=(2, 12))
    kernel, others = (np.exp(-((one[:, None] - one) ** 2)) for one in (x[0], x[0] + 0.3 * x[1]))
    loss = []
    for h in PREDICTABLE:
        terms = []
        for i in range(12):
            rest = np.delete(np.arange(12), i)
            inverse = np.linalg.inv(h * others[np.ix_(rest, rest)] + (1 - h) * np.eye(11))
            beta = inverse @ (h * others[rest, i])
            variance = h * others[i, i] + 1 - h - h * others[i, rest] @ beta
            error = kernel[i, i] - 2 * beta @ kernel[rest, i] + beta @ kernel[np.ix_(rest, rest)] @ beta
            terms.append(np.log(variance) + error / variance)
        loss.append(np.mean(terms))
    assert predictability(kernel, others) == PREDICTABLE[np.argmin(loss)]
    assert predictability(kernel, np.zeros((12, 12))) == 0.0


# --- special cases -------------------------------------------------------------------------------


def test_predictability_leaves_samples_out_with_all_their_copies(rng):
    kernel, others = (Gaussian(width=2.0)(X, X) for X in rng.normal(size=(2, 12, 2)))
    others = 0.7 * kernel + 0.3 * others
    weights, loss = rng.uniform(0.2, 4.0, 12), []
    for h in PREDICTABLE:
        losses = np.empty(12)
        for i in range(12):
            rest = np.arange(12) != i
            inner = h * others[np.ix_(rest, rest)] + (1.0 - h) * np.diag(1.0 / weights[rest])
            beta = np.linalg.solve(inner, h * others[rest, i])
            variance = h * others[i, i] + 1.0 - h - h * others[rest, i] @ beta
            distance = kernel[i, i] - 2.0 * kernel[i, rest] @ beta + beta @ kernel[np.ix_(rest, rest)] @ beta
            losses[i] = distance / variance + np.log(variance)
        loss.append(weights @ losses)
    assert predictability(kernel, others, weights) == PREDICTABLE[np.argmin(loss)]


def test_complete_samples_are_centered_kernels_without_the_parameter():
    X, y = samples(30, fraction=0.0)
    options = {"inference": FEW, "random_state": 1, "together": False}  # which is not centered as a whole
    found = GPMKLRegressor(bank(), missing_views="integrate", **options).fit(X, y)
    expected = GPMKLRegressor(bank(normalize=("spherical", "center")), **options).fit(X, y)
    np.testing.assert_allclose(found.log_evidence_, expected.log_evidence_, rtol=1e-9)
    np.testing.assert_allclose(found.kernel_shares_, expected.kernel_shares_, rtol=1e-6)
    new = samples(7, 1, 0.0)[0]
    np.testing.assert_allclose(
        found.predict(new, return_std=True), expected.predict(new, return_std=True), rtol=1e-6
    )


def test_samples_without_any_view_are_the_intercept_and_the_prior(regression):
    X, _, model = regression
    mean, std = model.predict_latent(np.full((2, 6), np.nan), return_std=True)
    np.testing.assert_allclose(mean, model.intercept_, atol=1e-10)
    draws = model.posterior_
    prior = model._covariance(model._stored_training())
    variance, between = [], []
    for at, weights in enumerate(draws.kernel_weights):
        matrix = prior.matrix(weights)
        target = np.linalg.inv(matrix + np.diag(1.0 / draws.site_precision[at, 0]))
        ones = np.full(len(X), model.intercept_std**2)
        variance.append((weights**2).sum() + model.intercept_std**2 - ones @ target @ ones)
        between.append(ones @ target @ (draws.site_linear[at, 0] / draws.site_precision[at, 0]))
    p = draws.probability
    expected = p @ variance + p @ np.square(between) - (p @ between) ** 2
    np.testing.assert_allclose(std**2, expected, rtol=1e-4)


@pytest.mark.heavy
def test_evidence_is_the_density_of_the_explicit_program(regression, rng):
    """Importance draws of all function values under the program, at given hyperparameters."""
    X, y, _ = regression
    options = {"inference": FEW, "normalize_y": False, "together": False}
    model = GPMKLRegressor(bank(), missing_views="integrate", **options)
    program = model.numpyro_model(X[:8], y[:8])
    stack, targets = model._prepare(X[:8], y[:8])
    weights, noise = np.array([0.6, 0.4, 0.3]), 0.5
    matrix = model._covariance(stack).matrix(weights) + noise**2 * np.eye(8)
    expected = stats.multivariate_normal(cov=matrix).logpdf(targets[0] if targets.ndim > 1 else targets)
    # targets are linear in the whitened functions and the intercept, so that their density integrates exactly
    factors = program.data["factors"]
    design = np.concatenate(
        [*(w * f for w, f in zip(weights, factors, strict=True)), np.full((8, 1), 3.0)], axis=1
    )
    cov = design @ design.T + noise**2 * np.eye(8)
    observed = np.asarray(program.data["y"])
    assert stats.multivariate_normal(cov=cov).logpdf(observed) == pytest.approx(expected, abs=1e-6)
    # and the density of the program at a point is that of its parts
    whitened, intercept = rng.normal(size=(3, 8)), 0.7
    values = {
        "total": 1.0,
        "parts_of_total": weights[[0, 2, 1]] ** 2
        / (weights**2).sum(),  # of views, in the order of their names
        "own_parts": np.ones(3),
        "noise_std": noise,
        "whitened": whitened,
        "intercept": intercept,
    }
    total = np.sqrt((weights**2).sum())
    value = []
    for s in (noise, 2 * noise):
        point = {name: jnp.asarray(v) for name, v in (values | {"total": total, "noise_std": s}).items()}
        value.append(float(log_density(program.model, (), program.data, point)[0]))
    score = np.einsum("m,mij,mj->i", weights, factors, whitened) + intercept
    law = model.likelihood_.priors[0]
    terms = [
        stats.norm(score, s).logpdf(observed).sum()
        + stats.lognorm(law.log_std, law.least, law.median).logpdf(s)
        for s in (noise, 2 * noise)
    ]
    assert value[0] - value[1] == pytest.approx(terms[0] - terms[1], rel=1e-4)


def test_leave_one_out_is_a_refit_without_the_sample_at_given_weights(regression):
    X, _, model = regression
    draws, prior = model.posterior_, model._covariance(model._stored_training())
    at, i = 0, int(np.flatnonzero(np.isnan(X).any(axis=1))[0])
    noise = draws.parameters[at, 0, 0]
    matrix = prior.matrix(draws.kernel_weights[at]) + noise**2 * np.eye(len(X))
    rest = np.delete(np.arange(len(X)), i)
    cross = np.linalg.solve(matrix[np.ix_(rest, rest)], matrix[rest, i])
    mean, variance = cross @ model.target_[rest], matrix[i, i] - cross @ matrix[rest, i] - noise**2
    np.testing.assert_allclose(draws.cavity_mean[at, 0, i], mean, rtol=1e-6)
    np.testing.assert_allclose(draws.cavity_variance[at, 0, i], variance, rtol=1e-6)


@pytest.mark.heavy
@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_intervals_cover_functions_of_the_prior(fraction):
    """Targets of the model's own functions; views are lost after the targets are made."""
    rng, inside, widths = np.random.default_rng(3), [], []
    for repeat in range(6):
        X = rng.normal(size=(220, 6))
        signal = np.zeros(220)
        for columns, weight in zip(VIEWS.values(), (1.0, 0.7, 0.3), strict=True):
            wave = rng.normal(size=(2, 100)) / 1.5
            signal += (
                weight
                * np.cos(X[:, columns] @ wave + 2 * np.pi * rng.random(100))
                @ rng.normal(size=100)
                / 7.07
            )
        y = signal + 0.3 * rng.normal(size=220)
        X = without(X, holes(220, fraction, rng))
        model = GPMKLRegressor(bank(), missing_views="integrate", inference=FEW, random_state=repeat)
        mean, std = model.fit(X[:60], y[:60]).predict(X[60:], return_std=True)
        inside.append(np.abs(y[60:] - mean) < 1.645 * std)
        widths.append([std[np.isnan(X[60:]).any(axis=1)].mean(), std[~np.isnan(X[60:]).any(axis=1)].mean()])
    assert 0.86 < np.mean(inside) < 0.94
    assert np.mean(widths, axis=0)[0] > np.mean(widths, axis=0)[1]


@pytest.mark.heavy
def test_shares_of_lost_views_are_those_before_they_were_lost():
    """Independent views, one of which is lost in six samples of ten after the parts of the score are known."""
    rng, errors, inside = np.random.default_rng(5), [], []
    for repeat in range(6):
        X = rng.normal(size=(100, 6))
        parts = []
        for columns, weight in zip(VIEWS.values(), (1.0, 0.5, 0.0), strict=True):
            wave = np.cos(X[:, columns] @ rng.normal(size=(2, 100)) / 1.5 + 2 * np.pi * rng.random(100))
            part = wave @ rng.normal(size=100)
            parts.append(weight * part / part.std())
        true = shares(np.array(parts)[None, None])[0]
        y = np.sum(parts, axis=0) + 0.3 * rng.normal(size=100)
        lost = np.stack([np.zeros(100, dtype=bool), *(rng.random((2, 100)) < 0.6)], axis=1)
        options = {"inference": FEW, "random_state": repeat, "together": False}
        model = GPMKLRegressor(bank(), missing_views="integrate", **options)
        drawn = model.fit(without(X, lost), y).posterior_.shares
        low, high = np.quantile(drawn, [0.03, 0.97], axis=0)
        errors.append(drawn.mean(axis=0) - true)
        inside.append((low <= true) & (true <= high))
    assert np.abs(errors).mean() < 0.06
    assert np.mean(inside) > 0.8


# --- what estimators do --------------------------------------------------------------------------


def test_mean_scores_and_draws_agree(regression):
    X, _, model = regression
    new = samples(9, 4, 0.4)[0]
    np.testing.assert_allclose(model.predict_latent(new), model.predict_latent(new, True)[0], atol=1e-10)
    np.testing.assert_allclose(overall(model._moments(X))[0][0], model.predict_latent(X), atol=1e-10)


def test_precomputed_kernels_agree_with_those_of_a_bank(regression):
    X, y, model = regression
    keeping = bank(missing_views="keep").fit(X)
    stack = np.moveaxis(keeping.train_stack(), 0, -1)
    again = (
        clone(model)
        .set_params(kernels="precomputed", kernel_names=list(model.kernel_names_[:-1]))
        .fit(stack, 10 * y + 3)
    )
    np.testing.assert_allclose(again.log_evidence_, model.log_evidence_, rtol=1e-8)
    np.testing.assert_array_equal(np.sort(again.predictability_), np.sort(model.predictability_))
    new = samples(9, 4, 0.4)[0]
    np.testing.assert_allclose(again.predict(keeping.transform(new)), model.predict(new), rtol=1e-6)
    complete = samples(20, 5, 0.0)
    bank_of_all = bank().fit(complete[0])
    of_all = clone(again).fit(np.moveaxis(bank_of_all.train_stack(), 0, -1), complete[1])
    lacking = np.array(bank_of_all.transform(complete[0][:2]))
    lacking[0] = np.nan
    assert of_all.predict(lacking)[0] == pytest.approx(of_all.y_mean_ + of_all.y_scale_ * of_all.intercept_)
    with pytest.raises(ValueError, match=r'"integrate" with precomputed kernels.*got "impute"'):
        again.set_params(missing_views="impute").fit(stack, y)


@pytest.mark.heavy
def test_programs_have_new_rows_and_shares(regression):
    X, y, model = regression
    program = clone(model).numpyro_model(X, y, X[:3])
    drawn = Predictive(program.model, num_samples=4)(
        jax.random.key(0), **(program.data | program.new | {"y": None})
    )
    parts = np.asarray(drawn["parts"])
    np.testing.assert_allclose(drawn["kernel_shares"], shares(parts[:, None]), rtol=2e-3, atol=1e-3)
    assert drawn["score_new"].shape == (4, 3)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["classes", "grades", "times", "counts"])
def test_other_outcomes_take_missing_views(kind):
    X, y = samples(30)
    options = {"missing_views": "integrate", "inference": FEW}
    if kind == "classes":
        model = GPMKLClassifier(bank(), **options).fit(X, np.digitize(y, [-0.5, 0.5]))
        p = model.predict_proba(np.vstack([X[:5], np.full((1, 6), np.nan)]))
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    elif kind == "grades":
        model = GPMKLOrdinalClassifier(bank(), **options).fit(X, np.digitize(y, [-0.5, 0.5]))
        assert model.predict_proba(X).shape == (30, 3)
    elif kind == "times":
        target = np.array(list(zip(y > -1, np.exp(y), strict=True)), dtype=[("event", bool), ("time", float)])
        model = GPMKLSurvival(bank(), **options).fit(X, target)
        assert np.corrcoef(model.predict(X), y)[0, 1] < -0.5
    else:
        design = Design(offset_column=6)
        counts = np.random.default_rng(0).poisson(np.exp(y))
        with_offset = np.hstack([X, np.zeros((30, 1))])
        model = GPMKLRegressor(bank(), likelihood="poisson", design=design, **options).fit(
            with_offset, counts
        )
        assert np.isfinite(model.predict(with_offset)).all()
        with_offset[3, 6] = np.nan
        for act in (model.predict, lambda X: clone(model).fit(X, counts)):
            with pytest.raises(ValueError, match=r"`design`; got 1 in .*, the first in row 3\."):
                act(with_offset)


def test_cross_validation_and_pipelines():
    X, y = samples(40)
    model = make_pipeline(StandardScaler(), GPMKLRegressor(bank(), missing_views="integrate", inference=FEW))
    assert cross_validate(model, X, y, cv=2, error_score="raise")["test_score"].mean() > 0.2


@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
def test_a_view_of_one_training_sample_adds_nothing():
    X, y = samples(30, fraction=0.0)
    X[1:, 4:] = np.nan
    model = GPMKLRegressor(bank(), missing_views="integrate", inference=FEW).fit(X, y)
    assert model.kernel_shares_[2] == 0.0
    with_it, without_it = X[:1].copy(), X[:1].copy()
    without_it[:, 4:] = np.nan
    np.testing.assert_allclose(model.predict(with_it, True), model.predict(without_it, True))


def test_imputed_columns_are_means_of_training_and_absent_views_stay_absent():
    X, y = samples(30)
    X = X[~np.isnan(X).all(axis=1)]
    y = y[: len(X)]
    there = np.flatnonzero(~np.isnan(X[:, :2]).any(axis=1))[:3]
    partly = X.copy()
    partly[there, 0] = np.nan
    means = np.nanmean(partly, axis=0)
    filled = partly.copy()
    filled[there, 0] = means[0]
    options = {"inference": FEW}
    found = GPMKLRegressor(bank(), missing_views="impute", **options).fit(partly, y)
    expected = GPMKLRegressor(bank(), missing_views="integrate", **options).fit(filled, y)
    np.testing.assert_allclose(found.kernel_bank_.column_means_, means)
    np.testing.assert_allclose(found.predict(partly, True), expected.predict(filled, True), rtol=1e-9)
    with pytest.raises(ValueError, match=r"3 samples have NaN in some but not all columns of view 'left'"):
        expected.predict(partly)
    with pytest.raises(ValueError, match="contains NaN"):
        GPMKLRegressor(bank(), **options).fit(partly, y)


@pytest.mark.parametrize("value", ["keep", None])
def test_other_words_are_refused(value):
    with pytest.raises(
        ValueError, match="`missing_views` must be one of 'error', 'integrate', 'impute'; got"
    ):
        GPMKLClassifier(bank(), missing_views=value).fit(*samples(20))
