"""Additive Gaussian processes as estimators: scikit-learn's own process, integrals, refits, other forms of input."""

from __future__ import annotations

import pickle
import re
from contextlib import nullcontext

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.datasets import load_wdbc
from bayesmkl.gp import HalfT, Marginal, SpikeSlabWeights
from bayesmkl.gp.drawing import draw_hyperparameters
from bayesmkl.gp.estimators import base
from bayesmkl.gp.estimators.base import overall
from bayesmkl.gp.hyperposterior import evaluate
from bayesmkl.gp.reading import score_moments
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import (
    inclusion_table,
    kernel_table,
    plot_kernel_weights,
    refine_posterior,
    relevance,
    to_datatree,
    view_table,
)

FEW = Marginal(n_points=200, n_draws=400)
VIEWS = {"signal": [0, 1], "noise": [2, 3]}


def bank(**options):
    return KernelBank([Gaussian(width=1), Linear()], views=VIEWS, **({"normalize": "trace"} | options))


def samples(n_samples=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=n_samples)


@pytest.fixture(scope="module")
def regression():
    X, y = samples()
    return X, y, GPMKLRegressor(bank(), inference=FEW).fit(X, 10.0 * y + 3.0)


@pytest.fixture(scope="module")
def classification():
    X, y = samples()
    labels = np.where(y > 0, "yes", "no")
    return X, labels, GPMKLClassifier(bank(), inference=FEW).fit(X, labels)


def at_one_point(model, at=0):
    """Return the model with all of its posterior at one of its points."""
    draws, one = model.posterior_, clone(model)
    one.__dict__.update(model.__dict__)
    one.posterior_ = draws._replace(
        **{
            name: getattr(draws, name)[at : at + 1]
            for name in ("kernel_weights", "group_std", "parameters", "site_precision", "site_linear")
        },
        point=np.zeros(draws.n_draws, dtype=int),
        predictive=np.empty(0),
    )
    return one


class Given(SklearnKernel):
    """The process's covariance of given weights, as a kernel of scikit-learn."""

    def __init__(self, model):
        self.model = model

    def __call__(self, X, Y=None, eval_gradient=False):
        found = self.model.kernel_bank_
        own = found.evaluate(
            np.ascontiguousarray(X)
        )  # against the training samples, which are all that is asked for
        weights = self.model.posterior_.kernel_weights[0]
        training = found.train_stack()
        units = np.array([np.diag(kernel).mean() - kernel.mean() for kernel in training])
        mixed = np.tensordot(weights**2 / units, own, 1)
        square = mixed if Y is not None or len(X) == training.shape[1] else None
        return square + self.model.intercept_std**2

    def diag(self, X):
        found = self.model.kernel_bank_
        weights = self.model.posterior_.kernel_weights[0]
        training = found.train_stack()
        units = np.array([np.diag(kernel).mean() - kernel.mean() for kernel in training])
        return (weights**2 / units) @ found.rows_and_diagonal(X)[1] + self.model.intercept_std**2

    def is_stationary(self):
        return False

    def __sklearn_clone__(self):
        return self


@pytest.mark.heavy
def test_few_points_predict_what_all_predict_and_are_kept_in_memory_alone(classification, tmp_path, rng):
    X, y, _ = classification
    model = GPMKLClassifier(bank(), temperature=1.0, inference=FEW, random_state=0).fit(X, y)
    new = rng.normal(size=(50, 4))
    before = len(pickle.dumps(model))
    found = model.predict_proba(new)
    moments = of_all_points(model, new)
    _, variance = overall(moments)
    each = stats.norm.cdf(moments.mean / np.sqrt(1 + moments.variance))
    assert np.count_nonzero(model.posterior_.predictive) <= 64 < len(moments.probability)
    np.testing.assert_allclose(model.predict_latent(new, return_std=True)[1], np.sqrt(variance[0]), rtol=0.01)
    np.testing.assert_allclose(found[:, 1], moments.probability @ each[:, 0], atol=0.0075)
    with pytest.MonkeyPatch.context() as patch:  # nothing is factorized again, also of other rows
        patch.setattr("bayesmkl.gp.reading.condition", None)
        np.testing.assert_array_equal(model.predict_proba(new), found)
        model.predict_proba(new[:1])
        save_model(model, tmp_path / "model.skops")
        again = load_model(tmp_path / "model.skops")
    assert len(pickle.dumps(model)) == before
    np.testing.assert_allclose(again.predict_proba(new), found, rtol=1e-12)
    np.testing.assert_array_equal(model.fit(X[::-1], y[::-1]).predict_proba(new).shape, found.shape)
    assert not np.array_equal(model.predict_proba(new), found)


def test_predictions_at_given_hyperparameters_are_scikit_learns(regression, rng):
    X, _, model = regression
    one = at_one_point(model)
    noise = one.posterior_.parameters[0, 0, 0] ** 2
    peer = GaussianProcessRegressor(Given(one), alpha=noise, optimizer=None).fit(X, one.target_)
    new = rng.normal(size=(7, 4))
    mean, std = peer.predict(new, return_std=True)
    found, spread = one.predict(new, return_std=True)
    np.testing.assert_allclose(found, model.y_mean_ + model.y_scale_ * mean, rtol=1e-8)
    np.testing.assert_allclose(spread, model.y_scale_ * np.sqrt(std**2 + noise), rtol=1e-8)


def of_all_points(model, new):
    """Return moments of scores over all points of the posterior, one factorization each."""
    covariance, blocks = model._covariance_and_rows(new)
    ((rows, diagonal, _),) = blocks
    return score_moments(covariance, model.posterior_._replace(predictive=np.empty(0)), rows, diagonal)


def test_mean_by_dual_coefficients_is_the_mean_over_all_points(regression, classification, rng):
    new = rng.normal(size=(9, 4))
    model = regression[2]
    mean = model.y_mean_ + model.y_scale_ * overall(of_all_points(model, new))[0][0]
    np.testing.assert_allclose(model.predict(new), mean, rtol=1e-9)
    np.testing.assert_allclose(model.predict(new, return_std=True)[0], mean, rtol=1e-9)
    model = classification[2]
    mean, std = model.predict_latent(new, return_std=True)
    np.testing.assert_allclose(overall(of_all_points(model, new))[0][0], mean, rtol=1e-8, atol=1e-10)
    kernels = model.kernel_bank_.evaluate(new)
    by_hand = np.einsum("mij,mj->i", kernels, model.dual_coef_) + model.intercept_
    np.testing.assert_allclose(by_hand, mean, rtol=1e-8, atol=1e-10)
    assert (std > 0.0).all()


@pytest.mark.heavy
def test_evidence_and_moments_of_one_kernel_equal_integrals_on_a_grid():
    X, y = samples(25)
    model = GPMKLRegressor(
        KernelBank(Gaussian(width=1), normalize="trace"), inference=Marginal(n_points=400), normalize_y=False
    ).fit(X, y)
    kernel = model.kernel_bank_.train_stack()[0]
    kernel = kernel / (np.diag(kernel).mean() - kernel.mean())
    weights, noise = np.linspace(0.005, 12.0, 260), np.exp(np.linspace(-6.0, 2.0, 120))
    log_p = np.empty((len(weights), len(noise)))
    for i, w in enumerate(weights):
        for j, s in enumerate(noise):
            root = np.linalg.cholesky(w**2 * kernel + 9.0 + s**2 * np.eye(25))
            half = np.linalg.solve(root, y)
            log_p[i, j] = -0.5 * half @ half - np.log(np.diag(root)).sum() - 12.5 * np.log(2 * np.pi)
    log_p += np.log(2.0) + stats.t.logpdf(weights, 4.0)[:, None]  # half-t, of scale one
    log_p += stats.norm.logpdf(np.log(noise / 0.3), 0.0, 1.5)  # in the logarithm of the noise
    cell = np.log(weights[1] - weights[0]) + np.log(8.0 / 119)
    assert model.log_evidence_ == pytest.approx(logsumexp(log_p) + cell, abs=0.05)
    probability = np.exp(log_p - logsumexp(log_p))
    mean = (probability.sum(axis=1) * weights).sum()
    std = np.sqrt((probability.sum(axis=1) * weights**2).sum() - mean**2)
    assert abs(model.kernel_weights_[0] - mean) < 0.1 * std
    assert model.kernel_weights_std_[0] == pytest.approx(std, rel=0.1)
    assert model.noise_std_ == pytest.approx((probability.sum(axis=0) * noise).sum(), rel=0.05)


def test_units_of_the_target_and_of_kernels_change_nothing():
    X, y = samples(30)
    stack = np.moveaxis(bank().fit(X).train_stack(), 0, -1)
    plain = GPMKLRegressor("precomputed", inference=FEW).fit(stack, y)
    other = GPMKLRegressor("precomputed", inference=FEW).fit(stack * [0.2, 3.0, 1.0, 5.0], 1e6 * y - 1e7)
    np.testing.assert_allclose(other.kernel_shares_, plain.kernel_shares_, atol=1e-6)
    found = (other.predict(stack * [0.2, 3.0, 1.0, 5.0]) + 1e7) / 1e6
    np.testing.assert_allclose(found, plain.predict(stack), atol=1e-6)
    assert other.noise_std_ == pytest.approx(1e6 * plain.noise_std_, rel=1e-6)
    np.testing.assert_allclose(other.elpd_i_ + np.log(1e6), plain.elpd_i_, atol=1e-6)
    assert other.log_evidence_ + 30 * np.log(1e6) == pytest.approx(plain.log_evidence_, abs=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize("together", [False, True])
def test_precomputed_kernels_are_the_same_as_those_of_a_bank(together, classification):
    """Rows have the similarity to themselves that training samples have, but for views together, where it varies."""
    X, labels, model = classification
    options = {"together": together, "inference": FEW}
    by_bank = GPMKLClassifier(bank(normalize="spherical"), **options).fit(X[:30], labels[:30])
    stack = np.moveaxis(by_bank.kernel_bank_.evaluate(X)[:4], 0, -1)
    views = by_bank.kernel_bank_.kernel_views_[:4]
    given = GPMKLClassifier("precomputed", kernel_views=views, **options).fit(stack[:30], labels[:30])
    np.testing.assert_allclose(given.predict_latent(stack), by_bank.predict_latent(X), rtol=1e-7, atol=1e-10)
    if not together:
        np.testing.assert_allclose(
            given.predict_proba(stack), by_bank.predict_proba(X), rtol=1e-7, atol=1e-10
        )
    np.testing.assert_allclose(given.predict_proba(stack), by_bank.predict_proba(X), atol=0.05)
    np.testing.assert_allclose(given.kernel_shares_, by_bank.kernel_shares_, rtol=1e-8)  # by rounding
    assert model.training_kernels_ is None
    assert given.training_kernels_.shape == (4 + together, 30, 30)


@pytest.mark.heavy
def test_leave_one_out_densities_equal_refits(regression):
    X, y, model = regression
    y = 10.0 * y + 3.0
    for i in (3, 17):
        others = np.delete(np.arange(len(X)), i)
        refit = GPMKLRegressor(bank(), inference=FEW).fit(X[others], y[others])
        moments = refit._moments(X[i : i + 1])
        spread = refit.y_scale_ * np.sqrt(moments.variance[:, 0, 0] + moments.parameters[:, 0, 0] ** 2)
        center = refit.y_mean_ + refit.y_scale_ * moments.mean[:, 0, 0]
        expected = logsumexp(stats.norm.logpdf(y[i], center, spread), b=moments.probability)
        assert model.elpd_i_[i] == pytest.approx(expected, abs=0.1)


@pytest.mark.heavy
def test_probabilities_on_real_data():
    """Trained on few samples; what is left out is predicted as well as what was never there."""
    X, y = load_wdbc(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.7, random_state=0)
    kernels = KernelBank(Gaussian(width=4), views={"mean": slice(0, 10), "worst": slice(20, 30)})
    model = make_pipeline(StandardScaler(), GPMKLClassifier(kernels, inference=FEW)).fit(X_train, y_train)
    log_p = np.log(model.predict_proba(X_test))[np.arange(len(y_test)), (y_test > 0).astype(int)]
    assert log_p.mean() > -0.12
    own = model[-1].elpd_i_
    error = np.sqrt(log_p.var() / len(log_p) + own.var() / len(own))
    assert abs(own.mean() - log_p.mean()) < 3.0 * error


def test_log_odds_are_those_of_the_probabilities(classification, rng):
    _, _, model = classification
    new = rng.normal(size=(20, 4))
    p = model.predict_proba(new)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(new), np.log(p[:, 1] / p[:, 0]), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(new), np.where(p[:, 1] > 0.5, "yes", "no"))
    far = model.decision_function(1e3 * np.ones((1, 4)))
    assert np.isfinite(far).all()
    assert model.parameters_ == {}


def test_targets_without_noise_are_learned_to_the_last_digits_that_count():
    X, _ = samples(40)
    model = GPMKLRegressor(bank(), inference=FEW).fit(X, X[:, 1] - 5.0)
    np.testing.assert_allclose(model.predict(X), X[:, 1] - 5.0, atol=1e-3)
    assert model.converged_
    assert model.noise_std_ < 4e-4  # the least that the prior has is 3e-4


def test_labels_of_several_classes_count_once():
    """The evidence gains less than the entropy of the labels."""
    X, y = samples(45)
    codes = np.argsort(np.argsort(y)) // 15
    model = GPMKLClassifier(bank(), inference=FEW)
    stack, targets = model._prepare(X, codes)
    hyper = model._hypermodel(stack, targets, FEW)
    assert hyper.power == pytest.approx(np.log(3.0) / (3.0 * stats.entropy([1.0 / 3.0, 2.0 / 3.0])))
    nothing = evaluate(hyper, np.append(-8.0, np.zeros(hyper.n_coordinates - 1)), None)[0]
    gain = (
        draw_hyperparameters(hyper, FEW, np.random.default_rng(0), False)[0].log_evidence
        - nothing.log_evidence
    )
    assert 15.0 < gain < 45 * np.log(3.0)
    matrix = np.eye(3)[codes]
    assert model._hypermodel(*model._prepare(X, matrix), FEW).power == 1.0


@pytest.mark.heavy
def test_several_classes_share_their_weights_and_do_not_depend_on_their_names():
    X, y = samples(45)
    codes = np.digitize(y, [-0.6, 0.6])
    model = GPMKLClassifier(bank(), inference=FEW).fit(X, codes)
    assert model.posterior_.parameters.shape == (len(model.posterior_.kernel_weights), 3, 0)
    assert model.parameters_ == {}
    assert model.kernel_shares_.shape == (5,)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(X, codes) > 0.8
    assert (
        -log_loss(codes, p)
        > model.elpd_i_.mean()
        > -log_loss(codes, np.tile(np.bincount(codes) / 45, (45, 1)))
    )
    renamed = GPMKLClassifier(bank(), inference=FEW).fit(X, np.array(["c", "a", "b"])[codes])
    np.testing.assert_allclose(renamed.predict_proba(X)[:, [2, 0, 1]], p, atol=0.03)
    np.testing.assert_allclose(renamed.elpd_i_.sum(), model.elpd_i_.sum(), rtol=0.05)


@pytest.mark.heavy
def test_labels_and_targets_of_several_columns():
    X, y = samples(40)
    both = np.column_stack([y > 0.0, X[:, 1] > 0.3]).astype(int)
    model = GPMKLClassifier(bank(), inference=FEW).fit(X, both)
    assert model.predict_proba(X).shape == both.shape
    assert (model.predict(X) == both).mean() > 0.85
    targets = np.column_stack([10.0 * y, X[:, 1] - 5.0 + 0.3 * np.random.default_rng(1).normal(size=40)])
    regressor = GPMKLRegressor(bank(), inference=FEW).fit(X, targets)
    mean, std = regressor.predict(X, return_std=True)
    np.testing.assert_allclose(mean, regressor.predict(X), rtol=1e-8)
    assert (np.abs(mean - targets).mean(axis=0) < [4.0, 0.4]).all()
    assert (std > 0.5 * regressor.noise_std_).all()
    assert regressor.noise_std_[1] == pytest.approx(0.3, rel=0.4)
    assert regressor.dual_coef_.shape == (2, 5, 40)


@pytest.mark.heavy
@pytest.mark.parametrize("prior", ["nested", "dirichlet", "horseshoe", "half-t", HalfT(3.0, 0.5)], ids=str)
def test_draws_from_the_prior_are_those_of_the_distribution(prior, classification):
    X, labels, _ = classification
    model = GPMKLClassifier(bank(), kernel_prior=prior, inference=FEW).fit(X, labels)
    weights = to_datatree(model, random_state=0)["prior/kernel_weights"].values[0]
    if prior == "half-t":
        prior = HalfT(4.0, 2.0)
    if isinstance(prior, HalfT):
        law = stats.t(prior.df, scale=prior.scale)
        assert stats.kstest(weights.ravel(), lambda w: 2 * law.cdf(w) - 1).pvalue > 1e-3
    elif prior in ("nested", "dirichlet"):
        total = np.sqrt((weights**2).sum(axis=1))
        shares = (weights / total[:, None]) ** 2  # of two kernels of each of two views, and of views together
        signal = shares[:, :2].sum(axis=1)
        if prior == "nested":
            assert stats.kstest(signal, stats.beta(0.5, 1.0).cdf).pvalue > 1e-3
            assert stats.kstest(shares[:, 0] / signal, "uniform").pvalue > 1e-3
        else:
            assert stats.kstest(shares[:, 0], stats.beta(0.5, 2.0).cdf).pvalue > 1e-3
        assert stats.kstest(total / 2.0, lambda t: 2 * stats.t.cdf(t, 4.0) - 1).pvalue > 1e-3
    else:
        assert (weights < 5.0).all()
        assert np.median(weights) < 0.6
    assert model.kernel_shares_[:2].sum() > 0.6


def test_tables_say_what_the_draws_say(classification, tmp_path):
    _, _, model = classification
    table = kernel_table(model, 0.8, shares=True).set_index("kernel")
    shares = model.posterior_.shares
    for m, name in enumerate(model.kernel_names_):
        assert table.loc[name, "share"] == pytest.approx(shares[:, m].mean())
        ends = table.loc[name, ["share_lower", "share_upper"]].astype(float)
        np.testing.assert_allclose(ends, np.quantile(shares[:, m], [0.1, 0.9]))
    assert table.attrs["inference"] == "marginal"
    axes = plot_kernel_weights(model)
    assert "too narrow" not in axes.get_xlabel()
    tree = to_datatree(model, random_state=0)
    np.testing.assert_array_equal(tree["posterior/kernel_shares"].values[0], shares)
    score = tree["posterior/score"].values[0]
    replicated = tree["posterior_predictive/y"].values[0].mean(axis=0)
    np.testing.assert_allclose(replicated, stats.norm.cdf(score).mean(axis=0), atol=0.1)
    assert tree.attrs["pareto_k"] == model.pareto_k_
    save_model(model, tmp_path / "model.skops")
    X = np.random.default_rng(3).normal(size=(5, 4))
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.skops").predict_proba(X), model.predict_proba(X)
    )
    with pytest.raises(TypeError, match="`model` must be a BEMKL model; got GPMKLClassifier, whose draws"):
        refine_posterior(model)


def test_targets_of_trees_are_in_their_own_units(regression):
    _, y, model = regression
    tree = to_datatree(model, random_state=0)
    assert tree["posterior_predictive/y"].values.mean() == pytest.approx(10.0 * y.mean() + 3.0, abs=0.5)
    np.testing.assert_allclose(tree["observed_data/y"].values, 10.0 * y + 3.0)
    noise = model.y_scale_ * tree["posterior/noise_std"].values.mean()
    assert noise == pytest.approx(model.noise_std_, rel=1e-9)
    spread = tree["prior_predictive/y"].values.std()
    assert spread > 10.0 * y.std()


@pytest.mark.heavy
def test_seed_and_warning(classification):
    X, labels, model = classification
    again = clone(model).fit(X, labels)
    np.testing.assert_array_equal(again.posterior_.shares, model.posterior_.shares)
    other = clone(model).set_params(random_state=7).fit(X, labels)
    assert not np.array_equal(other.posterior_.shares, model.posterior_.shares)
    np.testing.assert_allclose(other.kernel_shares_, model.kernel_shares_, atol=0.08)
    many = KernelBank([Gaussian(width=w) for w in np.geomspace(0.3, 10, 24)], views=VIEWS)
    few = GPMKLRegressor(many, kernel_prior="horseshoe", inference=Marginal(n_points=100, n_draws=100))
    with pytest.warns(ConvergenceWarning, match=r"k-hat is .* Increase `n_points` of `inference`") as caught:
        poor = few.fit(*samples())
    assert len([w for w in caught if issubclass(w.category, ConvergenceWarning)]) == 1
    assert poor.outcome_ is Outcome.NOT_WEIGHTED
    assert not poor.converged_


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("classification", marks=pytest.mark.slow),
        pytest.param("regression", marks=pytest.mark.heavy),
    ],
)
def test_chains_say_what_importance_draws_say(kind, request):
    X, y, model = request.getfixturevalue(kind)
    y = 10.0 * y + 3.0 if kind == "regression" else y
    chains = (
        clone(model).set_params(inference=Marginal("nuts", n_points=240, n_draws=1000, n_chains=2)).fit(X, y)
    )
    assert chains.outcome_ is Outcome.MIXED
    assert chains.rhat_ < 1.05
    assert np.isnan(chains.pareto_k_)
    spread = model.kernel_weights_std_
    assert (np.abs(chains.kernel_weights_ - model.kernel_weights_) < 0.35 * spread).all()
    np.testing.assert_allclose(chains.kernel_shares_, model.kernel_shares_, atol=0.06)
    np.testing.assert_allclose(chains.elpd_i_.sum(), model.elpd_i_.sum(), atol=1.0)
    if kind == "classification":
        np.testing.assert_allclose(chains.predict_proba(X), model.predict_proba(X), atol=0.03)
    else:
        means, stds = zip(*(one.predict(X, return_std=True) for one in (chains, model)), strict=True)
        np.testing.assert_allclose(means[0], means[1], atol=0.3 * stds[1].min())
        np.testing.assert_allclose(stds[0], stds[1], rtol=0.1)


@pytest.mark.heavy
def test_laplace_is_near_and_logit_wider(classification):
    X, labels, model = classification
    laplace = (
        clone(model)
        .set_params(inference=Marginal(n_points=200, n_draws=400, approximation="laplace"))
        .fit(X, labels)
    )
    p, q = laplace.predict_proba(X)[:, 1], model.predict_proba(X)[:, 1]
    assert stats.spearmanr(p, q).statistic > 0.95
    assert np.abs(p - 0.5).mean() < np.abs(q - 0.5).mean()  # Laplace shrinks
    logit = clone(model).set_params(likelihood="logit").fit(X, labels)
    np.testing.assert_allclose(logit.predict_proba(X), model.predict_proba(X), atol=0.12)
    assert np.abs(logit.predict_latent(X)).mean() > 1.05 * np.abs(model.predict_latent(X)).mean()


def test_constant_kernel_has_no_share(classification):
    X, labels, _ = classification
    stack = np.moveaxis(bank().fit(X).train_stack(), 0, -1)
    stack = np.concatenate([stack, np.ones((40, 40, 1))], axis=-1)
    with pytest.warns(match="kernel 4"):
        model = GPMKLClassifier("precomputed", inference=FEW).fit(stack, labels)
    assert abs(model.kernel_shares_[4]) < 1e-6
    assert np.isfinite(model.predict_proba(stack)).all()


@pytest.mark.heavy
def test_prior_of_absurd_weights_loses_no_more_than_those_points(classification):
    X, labels, model = classification
    with pytest.warns(ConvergenceWarning):
        wild = clone(model).set_params(kernel_prior=HalfT(0.02, 1.0)).fit(X, labels)
    assert np.isfinite(wild.predict_proba(X)).all()
    assert not wild.converged_


@pytest.mark.heavy
def test_relevance_is_what_refits_by_hand_say(regression):
    X, y, model = regression
    table = relevance(model).set_index("without")
    assert table.index[0] == "all"
    assert (table["verdict"] == "clear").tolist() == [True, True, False, False]
    assert table["share"]["all"] == pytest.approx(1.0)
    assert table["share"]["signal"] == pytest.approx(model.kernel_shares_[:2].sum())
    left = GPMKLRegressor(
        KernelBank([Gaussian(width=1), Linear()], {"noise": [2, 3]}, normalize="trace"), inference=FEW
    )
    left.fit(X, 10.0 * y + 3.0)
    difference = model.elpd_i_ - left.elpd_i_
    assert table["elpd_diff"]["signal"] == pytest.approx(difference.sum(), abs=0.5)
    assert table["se"]["signal"] == pytest.approx(np.sqrt(40) * difference.std(), rel=0.05)
    gain = model.log_evidence_ - left.log_evidence_
    assert table["log_evidence_diff"]["signal"] == pytest.approx(gain, abs=0.3)
    others = [np.delete(10.0 * y + 3.0, i) for i in range(40)]
    nothing = stats.norm.logpdf(10.0 * y + 3.0, [o.mean() for o in others], [o.std() for o in others])
    assert table["elpd_diff"]["all"] == pytest.approx((model.elpd_i_ - nothing).sum(), abs=1.0)


@pytest.mark.heavy
def test_relevance_of_labels(classification, rng):
    X, labels, model = classification
    table = relevance(model, by="all")
    assert table["verdict"].tolist() == ["clear"]
    nothing = np.log(np.where(labels == "yes", (labels == "yes").mean(), (labels == "no").mean()))
    assert table["elpd_diff"][0] == pytest.approx((model.elpd_i_ - nothing).sum(), abs=2.0)
    shuffled = clone(model).fit(X, rng.permutation(labels))
    assert relevance(shuffled, by="all")["verdict"][0] not in ("clear", "weak")
    stack = np.moveaxis(bank().fit(X).train_stack(), 0, -1)
    given = GPMKLClassifier("precomputed", kernel_names=list("abcd"), inference=FEW).fit(stack, labels)
    assert set(relevance(given)["without"]) == {"all", *"abcd", "views together"}
    with pytest.raises(ValueError, match=r'`by` "view" needs the views of a KernelBank'):
        relevance(given, by="view")
    with pytest.raises(ValueError, match="`by` must be one of 'view', 'kernel', 'all'"):
        relevance(model, by="sample")


def clone_of(model):
    """Return a fitted model of which nothing is kept."""
    found = clone(model)
    found.__dict__.update(model.__dict__)
    return found


def test_predictions_from_few_points_in_single_precision_are_those_of_all_in_double(monkeypatch):
    """300 samples, whose factors take more memory than is spent on double precision."""
    X, y = samples(500, seed=1)
    model = GPMKLClassifier(bank(), inference=FEW, random_state=0).fit(
        X[:300], y[:300] + 0.5 * X[:300, 2] > 0
    )
    found = model.predict_proba(X)[:, 1]
    draws, covariance = model.posterior_, model._training_covariance()[0]
    points, _ = draws.of_predictions
    assert len(points) == 40 < len(draws.kernel_weights)
    assert draws.precision_of_predictions(covariance) == np.float32
    whole = clone_of(model)
    whole.posterior_ = draws._replace(predictive=np.empty(0))
    change = np.abs(whole.predict_proba(X)[:, 1] - found)
    assert change.max() < 0.015
    assert change.mean() < 0.001
    rows, diagonal = next(iter(model._rows(X)))
    factors = list(draws.factorized(covariance, points))
    exact = overall(score_moments(covariance, draws, rows, diagonal, None, factors))[1]
    np.testing.assert_allclose(overall(model._moments(X))[1], exact, rtol=5e-4)
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1], found)  # of what was kept
    np.testing.assert_allclose(clone_of(model).predict_proba(X[:1])[:, 1], found[:1], rtol=1e-4)
    monkeypatch.setattr(base, "available_memory", lambda: 2**20)
    without_room = clone_of(model)
    np.testing.assert_allclose(without_room.predict_proba(X)[:, 1], found, atol=1e-4)
    np.testing.assert_allclose(without_room.predict_proba(X[:1])[:, 1], found[:1], atol=1e-4)


# --------------------------------------------------------------------------------------------------- views together

THREE = {"a": [0, 1], "b": [2], "c": [3, 4]}


def of_three(n=60, seed=0, **options):
    X = np.random.default_rng(seed).normal(size=(n, 5))
    return (
        X,
        X[:, 0] * X[:, 2] + 0.3 * np.random.default_rng(1).normal(size=n),
        KernelBank(views=THREE, **options),
    )


@pytest.fixture(scope="module")
def together():
    X, y, bank = of_three()
    return X, y, GPMKLRegressor(bank, inference=FEW).fit(X, y)


def centered_views(kernels, counts):
    """The centered kernel of every view of four, by explicit projections, from (12, n, n)."""
    share = counts / counts.sum()
    project = np.eye(len(share)) - share
    found = []
    for own in np.split(kernels, 3):
        unit = [project @ K @ project.T for K in own]
        unit = [K / (share @ K.diagonal()) for K in unit]
        sizes = [(share @ K**2 @ share) ** 2 for K in unit]
        found.append(sum(size * K for size, K in zip(sizes, unit, strict=True)) / sum(sizes))
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_views_together_are_the_sum_over_pairs_of_products_of_centered_kernels(weighted):
    X, y, bank = of_three()
    counts = np.random.default_rng(2).integers(1, 4, size=60) / 2 if weighted else np.ones(60)
    model = GPMKLRegressor(bank, inference=FEW, verbose=0).fit(X, y, counts / counts.mean())
    assert list(model.kernel_names_).index("views together") == 12 == model.n_kernels_in_ - 1
    kernels = np.moveaxis(model.kernel_bank_.transform(X), -1, 0)
    a, b, c = centered_views(kernels[:-1], counts)
    np.testing.assert_allclose(kernels[-1], a * b + a * c + b * c, rtol=1e-9, atol=1e-12)
    training = model.kernel_bank_.train_stack()[-1]
    np.testing.assert_array_equal(training, training.T)
    np.testing.assert_allclose(training, kernels[-1], atol=1e-12)
    new, diagonal = model.kernel_bank_.rows_and_diagonal(X[5:9].copy())
    np.testing.assert_allclose(new[-1], kernels[-1][5:9], atol=1e-12)
    np.testing.assert_allclose(diagonal[-1], kernels[-1].diagonal()[5:9], atol=1e-12)


def test_views_together_average_to_nothing_over_one_view_whatever_the_other_is():
    X, y, _ = of_three(30)
    model = GPMKLRegressor(KernelBank(views={"a": [0, 1], "b": [2, 3, 4]}), inference=FEW).fit(X, y)
    first, second = np.divmod(np.arange(900), 30)
    crossed = np.column_stack([X[first, :2], X[second, 2:]])
    kernel = model.kernel_bank_.transform(crossed)[..., -1].reshape(30, 30, 30)
    assert np.abs(kernel.mean(axis=0)).max() < 1e-10
    assert np.abs(kernel.mean(axis=1)).max() < 1e-10
    assert np.abs(kernel).max() > 1.0


def test_precomputed_kernels_whose_views_are_named_are_a_bank(together, tmp_path):
    X, y, model = together
    kernels = model.kernel_bank_.transform(X)[..., :-1]
    shuffled = np.random.default_rng(0).permutation(12)  # kernels of a view need not be neighbors
    views = np.repeat(list(THREE), 4)[shuffled]
    own = GPMKLRegressor("precomputed", kernel_views=views, inference=FEW).fit(kernels[..., shuffled], y)
    part = own.training_kernels_[-1]
    np.testing.assert_allclose(part, model.kernel_bank_.train_stack()[-1], rtol=1e-9, atol=1e-12)
    same = GPMKLRegressor("precomputed", kernel_views=np.repeat(list(THREE), 4), inference=FEW).fit(
        kernels, y
    )
    np.testing.assert_allclose(same.kernel_shares_, model.kernel_shares_, atol=1e-8)
    np.testing.assert_allclose(same.predict(kernels[:7]), model.predict(X[:7]), atol=1e-8)
    tables = [view_table(one)["view"].tolist() for one in (same, model)]
    assert tables[0] == tables[1]
    assert "views together" in tables[0]
    save_model(same, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(kernels), same.predict(kernels))


def test_files_pickles_and_clones_have_the_views_together(together, tmp_path):
    X, y, model = together
    save_model(model, tmp_path / "model")
    for again in (load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X[:7]), model.predict(X[:7]))
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.kernel_shares_, model.kernel_shares_)
    assert clone(model.set_params(together=True)).together
    assert "views together" not in KernelBank(views=THREE).fit(X).kernel_names_


def test_samples_that_lack_views_have_the_pairs_that_are_there():
    X, y, bank = of_three(40)
    X[:5, 2], X[:3, 3:], X[30:33, :2] = np.nan, np.nan, np.nan
    model = GPMKLRegressor(bank, missing_views="integrate", inference=FEW).fit(X, y)
    kernels = np.moveaxis(model.kernel_bank_.transform(X), -1, 0)
    present = [~np.isnan(X[:, columns[0]]) for columns in THREE.values()]
    own = np.zeros((3, 40, 40))
    for v, (there, four) in enumerate(zip(present, np.split(kernels[:-1], 3), strict=True)):
        block = np.ix_(there, there)
        of_view = np.tile([K[block] for K in four], (3, 1, 1))
        own[v][block] = centered_views(of_view, np.ones(there.sum()))[0]
    a, b, c = own
    expected = a * b + a * c + b * c
    expected[:3], expected[:, :3] = np.nan, np.nan  # one view alone
    np.testing.assert_allclose(kernels[-1], expected, rtol=1e-9, atol=1e-12)
    assert kernels[-1][3, 5:].any()
    stack = np.moveaxis(kernels[:-1], 0, -1)
    views = np.repeat(list(THREE), 4)
    given = GPMKLRegressor("precomputed", kernel_views=views, missing_views="integrate", inference=FEW)
    given.fit(stack, y)
    np.testing.assert_allclose(given.kernel_shares_, model.kernel_shares_, atol=1e-8)
    np.testing.assert_allclose(given.predict(stack), model.predict(X), atol=1e-8)


@pytest.mark.parametrize("product", [True, False])
def test_a_product_of_views_is_found_and_a_sum_has_none(product, together):
    X, y, model = together
    if not product:
        y = X[:, 0] + np.sin(X[:, 2]) + 0.3 * np.random.default_rng(1).normal(size=60)
        model = GPMKLRegressor(KernelBank(views=THREE), inference=FEW).fit(X, y)
    row = view_table(model, shares=True).set_index("view").loc["views together"]
    assert (row["share_lower"] > 0.5) == product == (row["share_lower"] > 0.03)


@pytest.mark.parametrize(
    ("views", "options"), [({"a": [0, 1]}, {}), ({"a": 0, "c": 4}, {}), (THREE, {"together": False})]
)
def test_there_are_no_views_together_of_one_view_that_varies_or_where_nobody_wants_them(
    views, options, monkeypatch
):
    X, y, _ = of_three(40)
    told = []
    monkeypatch.setattr(base, "announce", lambda show, text: show and told.append(text))
    X[:, 4] = 1.0
    with pytest.warns(match="constant") if "c" in views and len(views) == 2 else nullcontext():
        model = GPMKLRegressor(KernelBank(views=views), inference=FEW, verbose=2, **options).fit(X, y)
    assert model.n_kernels_in_ == 4 * len(views) == len(model.kernel_shares_)
    assert any("no views together" in text for text in told) == ("together" not in options)
    assert model.predict(X).shape == (40,)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_landmarks_and_spike_slab_have_views_together(together):
    X, y, model = together
    few = GPMKLRegressor(KernelBank(views=THREE, landmarks=40), inference=FEW).fit(X, y)
    np.testing.assert_allclose(few.kernel_shares_[-1], model.kernel_shares_[-1], atol=0.2)
    assert few.kernel_shares_[-1] > 0.5
    groups = ["a"] * 4 + ["rest"] * 8
    prior = SpikeSlabWeights(groups=groups)
    chosen = GPMKLRegressor(KernelBank(views=THREE), kernel_prior=prior, inference=FEW).fit(X, y)
    assert inclusion_table(chosen)["prob_included"].max() > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_views": ["a", "b"]}, "`kernel_views` must name the view of each of 3 kernels; got"),
        ({"kernel_views": "abc"}, "`kernel_views` must name the view of each of 3 kernels; got 'abc'"),
        ({"kernel_views": 3}, "`kernel_views` must name the view of each of 3 kernels; got 3"),
        ({"kernels": None, "kernel_views": ["a"]}, "`kernel_views` must be None with a bank"),
        ({"together": 1}, "`together` must be True or False"),
    ],
)
def test_parameters_of_views_together_are_checked(options, message):
    kernels = np.stack([np.eye(8)] * 3, axis=-1)
    with pytest.raises(ValueError, match=re.escape(message)):
        GPMKLRegressor(**({"kernels": "precomputed"} | options)).fit(kernels, np.arange(8.0))
