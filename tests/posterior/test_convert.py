"""DataTrees hold draws, densities and data under the right names, and come back from NetCDF unchanged."""

from __future__ import annotations

import arviz_stats
import numpy as np
import pytest
import xarray
from arviz_stats.base import array_stats
from helpers import STANDARD_ERRORS, log_likelihood
from scipy import stats

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl._utils.options import inference_of
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import load_posterior, sample_posterior, save_posterior, to_datatree
from bayesmkl.posterior.evaluated import evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.importance import tail_of

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


def test_kernels_are_selected_by_name(binary_model):
    weights = to_datatree(binary_model, 4000, random_state=0)["posterior"]["kernel_weights"]
    name = "gaussian(width=1) · größe"
    expected = binary_model.kernel_weights_[list(binary_model.kernel_names_).index(name)]
    assert float(weights.sel(kernel=name).mean()) == pytest.approx(expected, abs=0.02)


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


def test_samples_are_selected_by_name(binary_model):
    names = [f"patient {i}" for i in range(40)]
    tree = to_datatree(binary_model, 5, sample_names=names)
    assert tree["posterior_predictive"]["y"].sel(obs_id="patient 7").dims == ("chain", "draw")
    assert tree["observed_data"]["obs_id"].values.tolist() == names
    with pytest.raises(
        ValueError, match=r"`sample_names` must hold one name for each of the 40 training samples; got"
    ):
        to_datatree(binary_model, 5, sample_names=names[:5])


def test_precomputed_kernels_are_given_back(features):
    bank = KernelBank(["rbf", "linear"])
    stack, y = bank.fit_transform(features), features["größe"]
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


def test_arviz_reads_it(binary_model):
    tree = to_datatree(binary_model, 20_000, random_state=0, pointwise=False)
    interval = arviz_stats.eti(tree, var_names=["kernel_weights"], prob=0.94)["kernel_weights"].values
    expected = binary_model.kernel_weights_[:, None] + np.outer(
        binary_model.kernel_weights_std_, [-1.881, 1.881]
    )
    np.testing.assert_allclose(interval, expected, atol=0.09 * binary_model.kernel_weights_std_.max())


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*MODELS, "nuts_model", "gibbs_regression_model"])
def test_netcdf_round_trip_is_identical(name, request, tmp_path):
    model = request.getfixturevalue(name)
    tree = to_datatree(model, 20, random_state=1, sample_names=[f"größe {i}" for i in range(40)])
    save_posterior(tree, tmp_path / "tree.nc")
    again = load_posterior(tmp_path / "tree.nc")
    xarray.testing.assert_identical(again, tree)
    save_posterior(model, tmp_path / "model.nc", n_draws=20, random_state=1, pointwise=False)
    draws = load_posterior(tmp_path / "model.nc")["log_prior"].to_dataset()
    xarray.testing.assert_equal(draws, tree["log_prior"].to_dataset().drop_vars("obs_id", errors="ignore"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.nc", "tree.nc"]


def test_unreadable_files_are_named(binary_model, tmp_path):
    with pytest.raises(FileNotFoundError, match="`path` must be a NetCDF file; there is none"):
        load_posterior(tmp_path / "nowhere.nc")
    path = tmp_path / "posterior.nc"
    save_posterior(binary_model, path, n_draws=50)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"`path` is not a readable NetCDF file: .*posterior.nc"):
        load_posterior(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="`path` is not a readable NetCDF file"):
        load_posterior(path)
