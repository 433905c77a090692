"""Draws as arrays, as ArviZ data and on disk: moments, densities against other libraries, round trips."""

from __future__ import annotations

import warnings

import arviz_plots
import arviz_stats
import numpy as np
import pytest
import xarray
from arviz_stats.base import array_stats
from helpers import STANDARD_ERRORS, log_likelihood
from matplotlib import pyplot
from scipy import stats
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLRegressor, GPMKLRegressor, KernelBank
from bayesmkl._utils.options import inference_of
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.bemkl.moments import Gaussian
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import load_posterior, sample_posterior, save_posterior, to_datatree
from bayesmkl.posterior.diagnose import tail_of
from bayesmkl.posterior.evaluated import evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl

N_DRAWS = 20_000
MOST_ERRORS = 5.0  # over some hundred comparisons


def assert_moments(draws, mean, variance):
    error = np.sqrt(variance / len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), MOST_ERRORS * error + 1e-300)
    ratio = draws.var(axis=0) / variance
    kurtosis = ((draws - mean) ** 4).mean(axis=0) / variance**2
    np.testing.assert_array_less(np.abs(ratio - 1.0), MOST_ERRORS * np.sqrt((kurtosis - 1.0) / len(draws)))


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
    error = MOST_ERRORS * np.outer(std, std) * np.sqrt(2.0 / N_DRAWS)
    assert np.all(np.abs(np.cov(joint.T) - cov) < error)
    np.testing.assert_allclose(cov[1:, 1:], binary_model.kernel_weights_cov_)


def test_variances_over_forty_orders_of_magnitude_are_drawn_to_scale():
    std = np.array([1e-20, 1.0, 1e5, 1e20])
    correlation = 0.3 + 0.7 * np.eye(4)
    factor = Gaussian(np.zeros(4), correlation * np.outer(std, std), 0.0)
    scaled = factor.draw(N_DRAWS, np.random.default_rng(0)) / std
    np.testing.assert_allclose(np.cov(scaled.T), correlation, atol=MOST_ERRORS * np.sqrt(2.0 / N_DRAWS))


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
        ValueError, match=r"`n_draws` must be at most 300, the number of draws in all chains.*got 301"
    ):
        sample_posterior(gibbs_model, 301)


def test_model_is_found_in_pipelines_and_searches(features, bank):
    y = features["größe"].to_numpy()
    pipeline = make_pipeline(StandardScaler(), BEMKLRegressor(bank, tol=1e-2))
    search = GridSearchCV(pipeline, {"bemklregressor__predictive": ["full"]}, cv=2).fit(features, y)
    found = fitted_bemkl(search)
    assert found.estimator is search.best_estimator_[-1]
    np.testing.assert_array_equal(found.transform(features), search.best_estimator_[0].transform(features))
    assert sample_posterior(search, 3)["kernel_weights"].shape == (3, 6)


MODELS = [
    "binary_model",
    "several_model",
    "regression_model",
    "gibbs_model",
    "gibbs_several_model",
]
POINTWISE = {"posterior_predictive"}
ALWAYS = {"posterior", "log_prior", "observed_data", "constant_data", "sample_stats"}


def mean_scores(model, tree):
    """Mean scores m and their standard deviations s of every draw, sample by sample and kernel by kernel."""
    kernels, post = model.kernel_bank_.train_stack(), tree["posterior"]
    e, a = (post[name].values[0] for name in ("kernel_weights", "dual_coef"))
    means = np.array([sum(e[s, m] * (K @ a[s]) for m, K in enumerate(kernels)) for s in range(len(e))])
    return means + post["intercept"].values[0][:, None], (e**2).sum(axis=1)


@pytest.mark.parametrize("name", MODELS)
def test_posterior_group_holds_the_draws(name, request):
    model = request.getfixturevalue(name)
    tree = to_datatree(model, 50, random_state=3)
    sampled = (
        {"log_likelihood"} if "gibbs" in name else set()
    )  # arviz_stats.loo is wrong of variational draws
    assert set(tree.children) - {"sample_stats"} == (ALWAYS | POINTWISE | sampled) - {"sample_stats"}
    several = ("class",) if "several" in name else ()
    assert tree["posterior"]["kernel_weights"].dims == ("chain", "draw", *several, "kernel")
    assert tree["posterior"]["dual_coef"].dims == ("chain", "draw", *several, "obs_id")
    assert tree["posterior"]["intercept"].dims == ("chain", "draw", *several)
    for group in POINTWISE | sampled:
        assert tree[group]["y"].dims == ("chain", "draw", *several, "obs_id")
    assert tree["observed_data"]["y"].dims == (*several, "obs_id")
    assert tree["posterior"]["kernel"].values.tolist() == list(model.kernel_names_)
    if several:
        assert tree["posterior"]["class"].values.tolist() == list(model.classes_)
    assert tree.attrs["inference"] == inference_of(model.inference).name


@pytest.mark.parametrize("name", ["binary_model", "several_model", "regression_model"])
def test_variational_draws_are_those_of_sample_posterior(name, request):
    model = request.getfixturevalue(name)
    tree = to_datatree(model, 50, random_state=3)
    draws = sample_posterior(model, 50, random_state=3)
    assert set(tree["posterior"].data_vars) == draws.keys() | {"kernel_shares"}
    for key, values in draws.items():
        np.testing.assert_array_equal(tree["posterior"][key].values, values[None])
    assert tree.attrs["elbo"] == model.elbo_


def test_chains_are_kept_and_thinned_evenly(gibbs_model, nuts_model):
    whole, thinned = to_datatree(gibbs_model), to_datatree(gibbs_model, 50)
    assert (whole["posterior"].sizes["chain"], whole["posterior"].sizes["draw"]) == (2, 150)
    np.testing.assert_array_equal(whole["posterior"]["kernel_weights"], gibbs_model.posterior_.kernel_weights)
    np.testing.assert_array_equal(thinned["posterior"]["intercept"], gibbs_model.posterior_.intercept[:, ::3])
    assert "elbo" not in whole.attrs
    assert "sample_stats" not in whole
    diverging = to_datatree(nuts_model)["sample_stats"]["diverging"]
    assert diverging.dims == ("chain", "draw")
    assert np.argwhere(diverging.values).tolist() == [[0, 10], [1, 99]]
    assert int(to_datatree(nuts_model, 50)["sample_stats"]["diverging"].sum()) == 1  # draw 99 is every third


def test_shares_are_a_posterior_variable(gibbs_several_model):
    shares = to_datatree(gibbs_several_model)["posterior"]["kernel_shares"]
    stack = DenseStack(gibbs_several_model.kernel_bank_.train_stack())
    for label, draws in zip(gibbs_several_model.classes_, gibbs_several_model.posterior_, strict=True):
        own = shares.sel({"class": label}).values[0]
        np.testing.assert_allclose(own, share_draws(stack, draws.dual[0], draws.kernel_weights[0]))
        np.testing.assert_allclose(own.sum(axis=1), 1.0)


def test_other_library_log_likelihood_of_classification(binary_model, features):
    tree = to_datatree(binary_model, 6, random_state=0)
    means, square = mean_scores(binary_model, tree)
    y = np.where(features["größe"] > 0, -1.0, 1.0)  # "big" < "small"
    z = (y * means - binary_model.margin) / np.sqrt(1.0 + square)[:, None]
    np.testing.assert_allclose(log_likelihood(tree)[0], stats.norm.logcdf(z).sum(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(tree["observed_data"]["y"], y > 0)
    assert tree["constant_data"]["label"].values.tolist() == np.where(y > 0, "small", "big").tolist()


def test_other_library_log_likelihood_of_regression_is_in_the_users_units(gibbs_regression_model, features):
    tree = to_datatree(gibbs_regression_model, 6, random_state=0)
    means, square = mean_scores(gibbs_regression_model, tree)
    noise = np.random.default_rng(3).normal(scale=0.5, size=40)
    post, target = tree["posterior"], 3.0 * features["größe"].to_numpy() + 10.0 + noise
    variance = 1.0 / post["noise_precision"].values[0] + square / post["intermediate_precision"].values[0]
    mean, scale = target.mean() + target.std() * means, target.std() * np.sqrt(variance)[:, None]
    expected = stats.norm.logpdf(target, mean, scale)
    np.testing.assert_allclose(tree["log_likelihood"]["y"].values[0], expected, rtol=1e-7)
    np.testing.assert_allclose(tree["observed_data"]["y"], target)


@pytest.mark.parametrize("name", ["binary_model", "gibbs_regression_model"])
def test_other_library_log_prior(name, request):
    tree = to_datatree(request.getfixturevalue(name), 7, random_state=0, pointwise=False)
    post, prior = tree["posterior"], tree["log_prior"]
    student = stats.t(2.0)  # Gamma(1, 1) on the precision
    for variable in ("kernel_weights", "dual_coef", "intercept"):
        values = post[variable].values
        expected = student.logpdf(values)
        expected = expected.sum(axis=-1) if values.ndim == 3 else expected
        np.testing.assert_allclose(prior[variable], expected, rtol=1e-9, atol=1e-9)
    if name == "gibbs_regression_model":
        for variable in ("intermediate_precision", "noise_precision"):
            np.testing.assert_allclose(prior[variable], stats.gamma(1.0).logpdf(post[variable].values))


def test_saved_densities_give_the_pareto_k_of_the_report(binary_model, tmp_path):
    save_posterior(binary_model, tmp_path / "posterior.nc", n_draws=300, random_state=1)
    tree = load_posterior(tmp_path / "posterior.nc")
    log_ratio = (tree["sample_stats/lp"] - tree["sample_stats/log_variational"]).values.ravel()
    pareto_k = array_stats.psislw(-log_ratio)[1]
    _, log_ratios = evaluate_model(fitted_bemkl(binary_model), 300, np.random.default_rng(1))
    assert tail_of(log_ratios[0])["pareto_k"] == pytest.approx(pareto_k, abs=1e-6)


def test_monte_carlo_predictive_labels_have_the_probabilities_of_the_model(binary_model):
    tree = to_datatree(binary_model, 4000, random_state=0)
    drawn = tree["posterior_predictive"]["y"].values[0]
    assert set(np.unique(drawn)) == {0, 1}
    means, square = mean_scores(binary_model, tree)
    below, above = (
        stats.norm.cdf((sign * means - 1.0) / np.sqrt(1.0 + square)[:, None]) for sign in (-1.0, 1.0)
    )
    p = above / (below + above)  # of every draw, given that the score is beyond the margin
    variance = (p * (1.0 - p)).sum(axis=0)
    deviation = np.abs(drawn.sum(axis=0) - p.sum(axis=0))
    common = variance > 5.0  # counts of rarer labels are not normal
    assert common.sum() >= 10
    assert np.all(deviation[common] < STANDARD_ERRORS * np.sqrt(variance[common]))
    assert np.all(deviation[~common] < 15.0)


def test_monte_carlo_predictive_targets_are_in_the_users_units(regression_model, features):
    drawn = to_datatree(regression_model, 4000, random_state=0)["posterior_predictive"]["y"].values[0]
    mean, std = regression_model.predict(features, return_std=True)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < STANDARD_ERRORS * std / np.sqrt(4000))
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.1)


def test_elbo_is_the_history(binary_model, several_model):
    elbo = to_datatree(binary_model, 5)["sample_stats"]["elbo"]
    assert elbo.dims == ("iteration",)
    np.testing.assert_array_equal(elbo.values, binary_model.elbo_history_)
    assert elbo["iteration"].values[0] == 1
    elbo = to_datatree(several_model, 5)["sample_stats"]["elbo"]
    for label, history in zip(several_model.classes_, several_model.elbo_history_, strict=True):
        row = elbo.sel({"class": label}).values
        np.testing.assert_array_equal(row[: len(history)], history)
        assert np.all(np.isnan(row[len(history) :]))


def test_data_groups_are_what_the_model_was_given(binary_model, several_model, regression_model, features):
    constants = to_datatree(binary_model, 5, pointwise=False)["constant_data"]
    assert constants["view"].values.tolist() == binary_model.kernel_bank_.kernel_views_
    assert (float(constants["margin"]), float(constants["intermediate_scale"])) == (1.0, 1.0)
    tree = to_datatree(several_model, 5, pointwise=False)
    big = features["größe"] > 0.5
    np.testing.assert_array_equal(tree["observed_data"]["y"].sel({"class": "big"}), big)
    np.testing.assert_array_equal(tree["constant_data"]["label"] == "big", big)
    constants = to_datatree(regression_model, 5, pointwise=False)["constant_data"]
    assert float(constants["y_mean"]) == pytest.approx(3.0 * features["größe"].mean() + 10.0)
    assert float(constants["y_scale"]) == pytest.approx(3.0 * features["größe"].std(ddof=0))


def test_precomputed_kernels_are_given_back(features):
    bank = KernelBank(["rbf", "linear"])
    stack, y = bank.fit_transform(features), features["größe"] + features.iloc[:, 0]
    own, given = BEMKLRegressor(bank).fit(features, y), BEMKLRegressor("precomputed").fit(stack, y)
    bare, full = to_datatree(given, 5, random_state=0), to_datatree(given, 5, random_state=0, kernels=stack)
    assert set(bare.children) == ALWAYS
    assert "kernel_shares" not in bare["posterior"]
    expected = to_datatree(own, 5, random_state=0)
    for variable in ("sample_stats/lp", "posterior_predictive/y"):
        np.testing.assert_allclose(full[variable], expected[variable])
    assert "view" not in full["constant_data"]
    with pytest.raises(
        ValueError, match=r"`kernels` must be the training kernels of shape .*Pass the stack that `fit` got"
    ):
        to_datatree(given, 5, pointwise=True)
    with pytest.raises(ValueError, match=r"`kernels` must be .* shape \(40, 40, 2\); got \(10, 40, 2\)"):
        to_datatree(given, 5, kernels=stack[:10])
    with pytest.raises(ValueError, match="`kernels` is for models that were fitted to precomputed kernels"):
        to_datatree(own, 5, kernels=stack)


def test_groups_that_need_kernels_can_be_left_out(binary_model, monkeypatch):
    monkeypatch.setattr(KernelBank, "train_stack", lambda self: pytest.fail("kernels were evaluated"))
    tree = to_datatree(binary_model, 5, random_state=0, pointwise=False)
    assert set(tree.children) == ALWAYS
    assert "kernel_shares" not in tree["posterior"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*MODELS, "nuts_model", "gibbs_regression_model"])
def test_netcdf_round_trip_is_identical(name, request, tmp_path):
    model = request.getfixturevalue(name)
    tree = to_datatree(model, 20, random_state=1)
    save_posterior(tree, tmp_path / "tree.nc")
    again = load_posterior(tmp_path / "tree.nc")
    xarray.testing.assert_identical(again, tree)
    save_posterior(model, tmp_path / "model.nc", n_draws=20, random_state=1, pointwise=False)
    draws = load_posterior(tmp_path / "model.nc")["log_prior"].to_dataset()
    xarray.testing.assert_equal(draws, tree["log_prior"].to_dataset().drop_vars("obs_id", errors="ignore"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.nc", "tree.nc"]


def test_unreadable_files_are_named(binary_model, tmp_path):
    with pytest.raises(FileNotFoundError, match="`path` must be a NetCDF file; there is no file"):
        load_posterior(tmp_path / "nowhere.nc")
    path = tmp_path / "posterior.nc"
    save_posterior(binary_model, path, n_draws=50)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"`path` is not a readable NetCDF file: .*posterior.nc"):
        load_posterior(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="`path` is not a readable NetCDF file"):
        load_posterior(path)


def test_other_library_summary_agrees_with_the_posterior(binary_model):
    tree = to_datatree(binary_model, 4000, random_state=0, pointwise=False)
    table = arviz_stats.summary(
        tree, var_names=["kernel_weights"], ci_prob=0.94, kind="stats", round_to="none"
    )
    std = binary_model.kernel_weights_std_
    np.testing.assert_allclose(
        table["mean"].astype(float), binary_model.kernel_weights_, atol=0.1 * std.max()
    )
    np.testing.assert_allclose(table["sd"].astype(float), std, rtol=0.1)
    assert list(table.index) == [f"kernel_weights[{name}]" for name in binary_model.kernel_names_]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["gibbs_model", "gibbs_several_model", "gibbs_regression_model"])
def test_other_library_diagnostics_of_chains(name, request):
    model = request.getfixturevalue(name)
    tree = to_datatree(model)
    table = arviz_stats.summary(tree, var_names=["kernel_shares"], ci_prob=0.94, round_to="none")
    np.testing.assert_allclose(table["mean"].astype(float), model.kernel_shares_.ravel(), rtol=1e-6)
    ess = table["ess_bulk"].astype(float)
    assert (
        (ess > 1.0) & (ess < 2.0 * tree["posterior"].sizes["draw"] * tree["posterior"].sizes["chain"])
    ).all()


def test_other_library_loo_takes_the_log_likelihood(gibbs_regression_model):
    tree = to_datatree(gibbs_regression_model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large k-hats
        found = arviz_stats.loo(tree, pointwise=True)
    assert found.elpd_i.dims == ("obs_id",)
    mean_log_likelihood = float(tree["log_likelihood"]["y"].mean(["chain", "draw"]).sum())
    assert mean_log_likelihood - 40.0 < found.elpd < mean_log_likelihood + 10.0


def test_other_library_power_scaling_finds_its_groups(gibbs_model):
    tree = to_datatree(gibbs_model)
    table = arviz_stats.psense_summary(tree, var_names=["kernel_shares"])
    assert list(table.index) == [f"kernel_shares[{name}]" for name in gibbs_model.kernel_names_]
    assert (table[["prior", "likelihood"]] > 0.0).all(axis=None)


@pytest.mark.heavy
def test_other_library_plots_of_predictions(gibbs_model, gibbs_regression_model):
    arviz_plots.plot_ppc_pava(to_datatree(gibbs_model), ci_prob=0.94, backend="matplotlib")
    line = max(pyplot.gcf().axes[0].lines, key=lambda drawn: len(drawn.get_xdata()))
    assert 0.0 <= line.get_ydata().min() <= line.get_ydata().max() <= 1.0
    arviz_plots.plot_ppc_dist(to_datatree(gibbs_regression_model), backend="matplotlib")
    low, high = pyplot.gcf().axes[0].get_xlim()
    pyplot.close("all")
    assert low < 10.0 < high  # the units of the target


@pytest.mark.heavy
def test_other_library_compares_prior_with_posterior_and_models(rng):
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=40)
    trees = {}
    for name, columns in (("signal", [0]), ("noise", [1])):
        bank = KernelBank(Linear(), views={name: columns})
        model = GPMKLRegressor(bank, inference=Marginal(n_points=100, n_draws=100), random_state=0)
        trees[name] = to_datatree(model.fit(X, y), random_state=0)
    assert {"prior", "prior_predictive"} <= set(trees["signal"].children)
    arviz_plots.plot_prior_posterior(trees["signal"], var_names=["kernel_weights"], backend="matplotlib")
    (axes,) = (ax for ax in pyplot.gcf().axes if ax.has_data())
    pyplot.close("all")
    assert axes.get_title().startswith("kernel_weights")
    assert len(axes.lines) == 2  # before the data, and after
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large k-hats
        table = arviz_stats.compare(trees)
    assert list(table.index) == ["signal", "noise"]
    assert abs(table["elpd_diff"].iloc[1]) > 5.0  # its sign depends on the version


def test_other_library_forest_plot_draws_every_kernel(binary_model):
    tree = to_datatree(binary_model, 100, random_state=0)
    drawn = arviz_plots.plot_forest(tree, var_names=["kernel_shares"], backend="matplotlib")
    labels = {text.get_text() for ax in pyplot.gcf().axes for text in ax.texts}
    pyplot.close("all")
    assert drawn is not None
    assert {str(name) for name in binary_model.kernel_names_} <= labels
