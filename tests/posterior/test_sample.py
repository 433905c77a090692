"""Draws have the moments of the factors they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLRegressor
from bayesmkl.bemkl.moments import Gaussian
from bayesmkl.posterior import sample_posterior
from bayesmkl.posterior.fitted import fitted_bemkl

N_DRAWS = 20_000
STANDARD_ERRORS = 5.0  # over some hundred comparisons


def assert_moments(draws, mean, variance):
    error = np.sqrt(variance / len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), STANDARD_ERRORS * error + 1e-300)
    ratio = draws.var(axis=0) / variance
    kurtosis = ((draws - mean) ** 4).mean(axis=0) / variance**2
    np.testing.assert_array_less(
        np.abs(ratio - 1.0), STANDARD_ERRORS * np.sqrt((kurtosis - 1.0) / len(draws))
    )


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["binary_model", "sparse_model", "regression_model"])
def test_monte_carlo_moments_of_every_factor(name, request):
    model = request.getfixturevalue(name)
    draws = sample_posterior(model, N_DRAWS, random_state=0)
    assert_moments(draws["kernel_weights"], model.kernel_weights_, model.kernel_weights_std_**2)
    assert_moments(draws["intercept"], model.posterior_.readout.mean[0], model.posterior_.readout.cov[0, 0])
    assert_moments(draws["dual_coef"], model.dual_coef_, model.posterior_.dual.variance)
    gammas = {
        k: v for k, v in model.posterior_._asdict().items() if k.endswith("precision") and v is not None
    }
    assert gammas.keys() | {"kernel_weights", "intercept", "dual_coef"} == draws.keys()
    for key, factor in gammas.items():
        assert_moments(draws[key], factor.mean, factor.concentration / np.asarray(factor.rate) ** 2)


def test_monte_carlo_covariance_of_the_joint_factor(binary_model):
    draws = sample_posterior(binary_model, N_DRAWS, random_state=1)
    joint = np.column_stack([draws["intercept"], draws["kernel_weights"]])
    cov = binary_model.posterior_.readout.cov
    std = np.sqrt(np.diag(cov))
    error = STANDARD_ERRORS * np.outer(std, std) * np.sqrt(2.0 / N_DRAWS)
    assert np.all(np.abs(np.cov(joint.T) - cov) < error)
    np.testing.assert_allclose(cov[1:, 1:], binary_model.kernel_weights_cov_)


def test_variances_over_forty_orders_of_magnitude_are_drawn_to_scale():
    std = np.array([1e-20, 1.0, 1e5, 1e20])
    correlation = 0.3 + 0.7 * np.eye(4)
    factor = Gaussian(np.zeros(4), correlation * np.outer(std, std), 0.0)
    scaled = factor.draw(N_DRAWS, np.random.default_rng(0)) / std
    np.testing.assert_allclose(np.cov(scaled.T), correlation, atol=STANDARD_ERRORS * np.sqrt(2.0 / N_DRAWS))


@pytest.mark.heavy
def test_several_classes_are_drawn_apart(several_model):
    draws = sample_posterior(several_model, N_DRAWS, random_state=2)
    assert draws["kernel_weights"].shape == (N_DRAWS, 3, 6)
    assert draws["intercept"].shape == (N_DRAWS, 3)
    for k, state in enumerate(several_model.posterior_):
        assert_moments(draws["dual_coef"][:, k], state.dual.mean, state.dual.variance)
        assert_moments(draws["kernel_weights"][:, k], state.readout.mean[1:], state.readout.variance[1:])


def test_seed_decides(binary_model):
    first, again, other = (sample_posterior(binary_model, 5, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["dual_coef"], again["dual_coef"])
    assert not np.any(first["dual_coef"] == other["dual_coef"])
    generator = np.random.default_rng(1)
    np.testing.assert_array_equal(
        sample_posterior(binary_model, 5, generator)["dual_coef"], first["dual_coef"]
    )


def test_chains_are_merged_and_thinned_evenly(gibbs_model, gibbs_several_model):
    chains = gibbs_model.posterior_
    whole = sample_posterior(gibbs_model)
    assert set(whole) == {
        "kernel_weights", "intercept", "dual_coef", "kernel_precision", "intercept_precision", "sample_precision",
    }  # fmt: skip
    np.testing.assert_array_equal(whole["dual_coef"][150:], chains.dual[1])
    subset = sample_posterior(gibbs_model, 60)
    np.testing.assert_array_equal(subset["intercept"], np.concatenate(chains.intercept)[::5])
    several = sample_posterior(gibbs_several_model, 20)
    assert several["kernel_weights"].shape == (20, 3, 6)
    np.testing.assert_array_equal(
        several["intercept"][:, 2], gibbs_several_model.posterior_[2].intercept[0, ::3]
    )
    with pytest.raises(
        ValueError, match=r"`n_draws` must be at most 300, the draws that the model has.*got 301"
    ):
        sample_posterior(gibbs_model, 301)


def test_default_is_a_thousand_draws_or_all_of_them(binary_model):
    assert len(sample_posterior(binary_model)["intercept"]) == 1000


def test_fitted_view_knows_the_inference(binary_model, gibbs_model, gibbs_several_model):
    views = [fitted_bemkl(model) for model in (binary_model, gibbs_model, gibbs_several_model)]
    assert [view.inference for view in views] == ["vb", "gibbs", "gibbs"]
    assert [view.is_drawn for view in views] == [False, True, True]
    assert [len(view.histories) for view in views] == [1, 0, 0]
    assert views[2].class_names == ["big", "middle", "small"]
    assert views[1].problems()[0].y.tolist() == gibbs_model.target_.tolist()


def test_model_is_found_in_pipelines_and_searches(features, bank):
    y = features["größe"].to_numpy()
    pipeline = make_pipeline(StandardScaler(), BEMKLRegressor(bank, tol=1e-2))
    search = GridSearchCV(pipeline, {"bemklregressor__predictive": ["full"]}, cv=2).fit(features, y)
    found = fitted_bemkl(search)
    assert found.estimator is search.best_estimator_[-1]
    np.testing.assert_array_equal(found.transform(features), search.best_estimator_[0].transform(features))
    assert sample_posterior(search, 3)["kernel_weights"].shape == (3, 6)
