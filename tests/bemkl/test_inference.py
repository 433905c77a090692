"""The samplers through the estimators: predictions, summaries, warnings, errors, files, interrupts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from arviz_stats.base import array_stats
from helpers import refined_a_little
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import NUTS, Gibbs, ascent, gibbs
from bayesmkl.bemkl import gibbs as chains
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.bemkl.model import State
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import kernel_table, refine_posterior, to_datatree, view_table

pytestmark = pytest.mark.heavy

N_TRAIN = 40
BANK = KernelBank([Gaussian(width=4), Gaussian(width=8), Linear()])
PAPER = {"margin": 1.0, "intermediate_scale": 1.0}
SHORT = {"inference": Gibbs(n_chains=2, n_warmup=50, n_draws=150), "random_state": 0}


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_wdbc(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X = StandardScaler().fit(X[order[:N_TRAIN]]).transform(X[order])
    return X, np.asarray(y)[order]


def fit(model, X, y):
    """Fit a run that is too short on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.fixture(scope="module")
def classifier(wdbc):
    X, y = wdbc
    return fit(BEMKLClassifier(BANK, **PAPER, **SHORT), X[:N_TRAIN], y[:N_TRAIN])


@pytest.fixture(scope="module")
def regressor(wdbc):
    X, _ = wdbc
    return fit(BEMKLRegressor(BANK, **SHORT), X[:N_TRAIN, 1:], 5.0 + 3.0 * X[:N_TRAIN, 0])


def literal_scores(model, X):
    """Mean and standard deviation of every draw's score, one draw after the other."""
    kernels = np.moveaxis(model.kernel_bank_.transform(X), -1, 0)
    flat = model.posterior_.flat()
    means = np.array(
        [
            b + np.tensordot(e, kernels, 1) @ a
            for e, b, a in zip(flat.kernel_weights, flat.intercept, flat.dual, strict=True)
        ]
    )
    return means, (flat.kernel_weights**2).sum(axis=1)


def test_class_probabilities_are_averages_over_draws(classifier, wdbc):
    X = wdbc[0][N_TRAIN : N_TRAIN + 30]
    means, square = literal_scores(classifier, X)
    scale = np.sqrt(1.0 + square)[:, None]
    above = norm.sf(classifier.margin, means, scale).mean(axis=0)
    below = norm.cdf(-classifier.margin, means, scale).mean(axis=0)
    np.testing.assert_allclose(classifier.predict_proba(X)[:, 1], above / (above + below), rtol=1e-9)
    np.testing.assert_allclose(classifier.decision_function(X), np.log(above / below), rtol=1e-8)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[(above > below).astype(int)])
    mean, std = classifier.predict_latent(X, return_std=True)
    np.testing.assert_allclose(mean, means.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(std, np.sqrt(means.var(axis=0) + 1.0 + square.mean()), rtol=1e-9)


def test_regression_predictions_are_averages_over_draws(regressor, wdbc):
    X = wdbc[0][N_TRAIN : N_TRAIN + 30, 1:]
    means, square = literal_scores(regressor, X)
    flat = regressor.posterior_.flat()
    noise = 1.0 / flat.noise_precision + square / flat.intermediate_precision
    mean, std = regressor.predict(X, return_std=True)
    scale = regressor.y_scale_
    np.testing.assert_allclose(mean, regressor.y_mean_ + scale * means.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(std, scale * np.sqrt(means.var(axis=0) + noise.mean()), rtol=1e-9)


def test_summaries_are_moments_of_the_draws(classifier, wdbc):
    flat = classifier.posterior_.flat()
    np.testing.assert_allclose(classifier.kernel_weights_, flat.kernel_weights.mean(axis=0))
    np.testing.assert_allclose(classifier.kernel_weights_cov_, np.cov(flat.kernel_weights.T))
    np.testing.assert_allclose(classifier.kernel_weights_std_, flat.kernel_weights.std(axis=0, ddof=1))
    np.testing.assert_allclose(classifier.dual_coef_, flat.dual.mean(axis=0))
    kernels = classifier.kernel_bank_.train_stack()
    parts = np.einsum("sm,mij,sj->smi", flat.kernel_weights, kernels, flat.dual).std(axis=2)
    shares = parts / parts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(classifier.kernel_shares_, shares.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(classifier.kernel_shares_std_, shares.std(axis=0, ddof=1), rtol=1e-9)
    assert not hasattr(classifier, "elbo_")
    assert classifier.sample_stats_ == {}
    np.testing.assert_array_equal(classifier.target_, np.where(wdbc[1][:N_TRAIN] == 1, 1.0, -1.0))


def test_the_samplers_agree_with_the_closed_form_on_what_matters(classifier, regressor, wdbc):
    X, y = wdbc
    variational = BEMKLClassifier(BANK, **PAPER).fit(X[:N_TRAIN], y[:N_TRAIN])
    difference = classifier.predict_proba(X[N_TRAIN:]) - variational.predict_proba(X[N_TRAIN:])
    assert np.abs(difference).mean() < 0.05
    assert np.abs(classifier.kernel_shares_ - variational.kernel_shares_).max() < 0.15
    assert classifier.kernel_shares_std_.sum() > 1.2 * variational.kernel_shares_std_.sum()
    closed = BEMKLRegressor(BANK).fit(X[:N_TRAIN, 1:], 5.0 + 3.0 * X[:N_TRAIN, 0])
    new = X[N_TRAIN:, 1:]
    gap = np.abs(closed.predict(new) - regressor.predict(new))
    assert gap.mean() < 0.2 * closed.predict(new, return_std=True)[1].mean()


def test_same_seed_same_draws(classifier, wdbc):
    X, y = wdbc
    again = fit(clone(classifier), X[:N_TRAIN], y[:N_TRAIN])
    np.testing.assert_array_equal(again.posterior_.dual, classifier.posterior_.dual)
    other = fit(clone(classifier).set_params(random_state=1), X[:N_TRAIN], y[:N_TRAIN])
    assert np.abs(other.posterior_.dual - classifier.posterior_.dual).max() > 0.1


@pytest.mark.slow  # `test_samplers` has NUTS through the estimator against the exact posterior of four samples
def test_nuts_agrees_with_gibbs_on_real_data(classifier, wdbc):
    X, y = wdbc
    nuts = fit(
        BEMKLClassifier(
            BANK,
            inference=NUTS(n_chains=2, n_warmup=200, n_draws=100, target_accept=0.9),
            intermediate_scale=1.0,
        ),
        X[:N_TRAIN],
        y[:N_TRAIN],
    )
    assert nuts.posterior_.dual.shape == (2, 100, N_TRAIN)
    assert set(nuts.sample_stats_) == {"diverging", "acceptance_rate", "n_steps", "energy"}
    assert all(type(values) is np.ndarray for values in nuts.sample_stats_.values())
    assert all(values is None or type(values) is np.ndarray for values in nuts.posterior_)
    difference = nuts.predict_proba(X[N_TRAIN:]) - classifier.predict_proba(X[N_TRAIN:])
    assert np.abs(difference).mean() < 0.03


@pytest.mark.slow
def test_chains_one_by_one_and_together_know_nothing_of_each_other(wdbc):
    """NumPyro's kernel is shared by fits of equal settings, and remembers how it was started."""
    X, y = wdbc
    sizes = {"n_warmup": 40, "n_draws": 40, "n_chains": 2}
    found = [
        fit(
            BEMKLClassifier(
                BANK, inference=NUTS(chain_method=method, **sizes), random_state=0, intermediate_scale=1.0
            ),
            *(X[:40], y[:40]),
        ).posterior_
        for method in ("vectorized", "sequential", "vectorized")
    ]
    assert all(posterior.dual.shape == (2, 40, 40) for posterior in found)
    np.testing.assert_array_equal(found[0].dual, found[2].dual)


def test_a_second_fit_forgets_the_first(wdbc):
    X, y = wdbc
    model = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X[:N_TRAIN], y[:N_TRAIN])
    assert hasattr(model, "elbo_")
    fit(model.set_params(**SHORT), X[:N_TRAIN], y[:N_TRAIN])
    assert not hasattr(model, "elbo_")
    assert not hasattr(model, "elbo_history_")
    model.set_params(inference="vb").fit(X[:N_TRAIN], y[:N_TRAIN])
    assert not hasattr(model, "sample_stats_")


def test_files_keep_draws(classifier, regressor, wdbc, tmp_path):
    X, _ = wdbc
    for model, rows in ((classifier, X[N_TRAIN:]), (regressor, X[N_TRAIN:, 1:])):
        save_model(model, tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
        assert isinstance(loaded.posterior_, PosteriorDraws)
        np.testing.assert_array_equal(loaded.posterior_.dual, model.posterior_.dual)
        assert loaded.outcome_ is model.outcome_


# --------------------------------------------------------------------------------------------- warnings


def test_one_warning_says_what_a_short_run_needs(wdbc):
    X, y = wdbc
    with pytest.warns(ConvergenceWarning, match=r"R-hat.*Increase `n_draws`") as caught:
        model = BEMKLClassifier(BANK, **SHORT | {"inference": Gibbs(2, 50, 20)}).fit(X[:N_TRAIN], y[:N_TRAIN])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.outcome_ is Outcome.NOT_MIXED
    assert not model.converged_


def test_divergences_are_reported_with_the_remedy(wdbc, monkeypatch):
    X, y = wdbc

    def diverging(problem, options, seed, report):
        shape = (2, 50)
        rng = np.random.default_rng(seed)
        parameters = {
            "dual": rng.normal(size=(*shape, N_TRAIN)),
            "intercept": rng.normal(size=shape),
            "kernel_weights": rng.normal(size=(*shape, 3)),
        }
        return chains.Chains(parameters, {"diverging": rng.random(shape) < 0.1}, False)

    monkeypatch.setattr("bayesmkl.bemkl.program.fit_nuts", diverging)
    with pytest.warns(ConvergenceWarning, match=r"divergent transitions in .* %.*`target_accept`"):
        BEMKLClassifier(BANK, inference="nuts", intermediate_scale=1.0).fit(X[:N_TRAIN], y[:N_TRAIN])


class Interrupted:
    """A sweep that is interrupted after so many calls."""

    def __init__(self, after):
        self.left, self.sweep = after, ascent.fit_gibbs.__globals__["sweep"]

    def __call__(self, *arguments):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.sweep(*arguments)


def test_an_interrupted_fit_keeps_what_there_is_and_says_so(wdbc, monkeypatch):
    X, y = wdbc
    monkeypatch.setattr("bayesmkl.bemkl.gibbs.sweep", Interrupted(after=50 + 150 + 120))
    with pytest.warns(ConvergenceWarning, match=r"interrupted and kept 1 chain\(s\) of 150 draws"):
        model = BEMKLClassifier(BANK, **SHORT).fit(X[:N_TRAIN], y[:N_TRAIN])
    assert model.outcome_ is Outcome.INTERRUPTED
    assert model.posterior_.dual.shape == (1, 150, N_TRAIN)
    assert model.predict_proba(X).shape == (len(X), 2)


def test_an_interrupt_with_nothing_to_keep_leaves_the_model_unfitted(wdbc, monkeypatch):
    X, y = wdbc
    monkeypatch.setattr("bayesmkl.bemkl.gibbs.sweep", Interrupted(after=20))
    model = BEMKLClassifier(BANK, **SHORT)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:N_TRAIN], y[:N_TRAIN])
    assert not hasattr(model, "posterior_")


# ------------------------------------------------------------------------------------------- refinement


@pytest.fixture(scope="module")
def closed_form(wdbc):
    X, y = wdbc
    return make_pipeline(StandardScaler(), BEMKLClassifier(BANK, **PAPER)).fit(X[:N_TRAIN], y[:N_TRAIN])


@pytest.fixture(scope="module")
def refined_twice():
    """Refinements of a posterior on which Gibbs chains agree soon, by two seeds; half as many draws are enough."""
    X = np.random.default_rng(0).normal(size=(16, 2))
    model = BEMKLClassifier(KernelBank(["linear"], views={"a": 0, "b": 1}), intermediate_scale=1.0)
    model.fit(X, X[:, 0] + 0.5 * X[:, 1] > 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayesmkl.posterior.refine.LEAST_ESS", 100.0)
        return [refine_posterior(model, n, random_state=seed) for n, seed in ((60, 1), (40, 2))]


def test_refined_posteriors_widen_the_shares_and_keep_the_predictions(closed_form, classifier, wdbc):
    X, _ = wdbc
    refined = refined_a_little(closed_form, 100)
    assert isinstance(closed_form[-1].posterior_, State)  # as it was
    assert refined.posterior_.dual.shape == (2, 100, N_TRAIN)
    assert refined.kernel_shares_std_.sum() > 1.2 * closed_form[-1].kernel_shares_std_.sum()
    assert np.abs(refined.kernel_shares_ - classifier.kernel_shares_).max() < 0.15
    scaled = closed_form[0].transform(X[N_TRAIN:])
    difference = refined.predict_proba(scaled) - closed_form.predict_proba(X[N_TRAIN:])
    assert np.abs(difference).mean() < 0.05


def test_chains_that_end_agree_by_another_library(refined_twice):
    for refined in refined_twice:
        assert (refined.outcome_, refined.converged_) == (Outcome.MIXED, True)
        shares = np.moveaxis(to_datatree(refined)["posterior"]["kernel_shares"].to_numpy(), -1, 0)
        assert shares.shape == (2, 4, refined.inference.n_draws)
        assert array_stats.rhat(shares).max() <= 1.03
        assert array_stats.ess(shares).min() >= 100
        assert set(kernel_table(refined)["interval_by"]) == {"gibbs"}


def test_another_seed_moves_shares_by_their_monte_carlo_errors(refined_twice):
    tables = [kernel_table(model, shares=True).set_index("kernel").sort_index() for model in refined_twice]
    for column in ("share", "share_lower", "share_upper"):
        one, two = (table[column] for table in tables)
        error = np.hypot(*(table[f"{column}_mcse"] for table in tables))
        assert 0.0 < (abs(one - two) / error).max() < 4.0


def test_refinement_that_did_not_get_there_says_so_everywhere(closed_form):
    message = (
        r"after 20 sweeps of each its 2 chains do not agree.*R-hat is .* \(at most 1.03\).*sample size .* \(at "
        r"least 200\).*GPMKLClassifier or inference=\"nuts\", or increase `max_sweeps`"
    )
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model = refine_posterior(closed_form, 10, n_chains=2, max_sweeps=20, random_state=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (model.outcome_, model.converged_) == (Outcome.NOT_MIXED, False)
    table = kernel_table(model)
    assert set(table["interval_by"]) == set(view_table(model)["interval_by"]) == {"gibbs (not converged)"}
    assert table.attrs["intervals"].endswith("not converged")
    again = refined_a_little(closed_form, 10)
    np.testing.assert_array_equal(again.posterior_.dual, model.posterior_.dual)


def test_interrupted_draws_are_reported(closed_form, monkeypatch):
    monkeypatch.setattr(gibbs, "sweep", Interrupted(after=2 * 40 + 50))
    with pytest.warns(
        ConvergenceWarning, match="interrupted and kept 10 draws of each chain after 20 sweeps"
    ):
        model = refine_posterior(closed_form, 10, n_chains=2, max_sweeps=160, random_state=0)
    assert model.outcome_ is Outcome.INTERRUPTED
    assert model.posterior_.dual.shape == (2, 10, N_TRAIN)


def test_refinement_of_precomputed_kernels_needs_them_again(wdbc, closed_form):
    X, y = wdbc
    kernels = BANK.fit_transform(X[:N_TRAIN])
    model = BEMKLClassifier("precomputed", **PAPER).fit(kernels, y[:N_TRAIN])
    with pytest.raises(ValueError, match="`kernels`"):
        refine_posterior(model)
    refined = refined_a_little(model, 10, kernels=kernels)
    of_bank = BEMKLClassifier(BANK, **PAPER).fit(X[:N_TRAIN], y[:N_TRAIN])
    np.testing.assert_allclose(
        refined.kernel_shares_, refined_a_little(of_bank, 10).kernel_shares_, atol=0.02
    )


def test_a_single_kernel_is_judged_by_its_scores(wdbc):
    X, y = wdbc
    model = BEMKLClassifier(KernelBank("linear"), **PAPER).fit(X[:N_TRAIN], y[:N_TRAIN])
    with pytest.warns(ConvergenceWarning, match=r"R-hat is \d"):
        refine_posterior(model, 10, n_chains=2, max_sweeps=20, random_state=0)


def test_only_variational_posteriors_with_proper_priors_are_refined(classifier, closed_form, wdbc):
    X, y = wdbc
    with pytest.raises(ValueError, match=r"`model` must be fitted with inference=\"vb\""):
        refine_posterior(classifier)
    sparse = BEMKLClassifier(BANK, kernel_prior="sparse", intermediate_scale=1.0).fit(
        X[:N_TRAIN], y[:N_TRAIN]
    )
    with pytest.raises(ValueError, match="`kernel_prior` must have a concentration"):
        refine_posterior(sparse)
    with pytest.raises(ValueError, match="`n_chains` must be a whole number >= 2; got 1"):
        refine_posterior(closed_form, n_chains=1)
    with pytest.raises(
        ValueError, match=r"`max_sweeps` must be at least twice `n_draws`.*=499 and n_draws=250"
    ):
        refine_posterior(closed_form, max_sweeps=499)
