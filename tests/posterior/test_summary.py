"""The tables agree with the posterior, with SciPy's distributions and with each other."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from matplotlib.text import Text
from scipy import stats

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import (
    kernel_table,
    plot_kernel_weights,
    plot_posteriors,
    sample_posterior,
    view_table,
)
from bayesmkl.posterior.summary import share_interval


def test_kernel_table_agrees_with_scipy(binary_model):
    table = kernel_table(binary_model, ci_prob=0.8).set_index("kernel").loc[binary_model.kernel_names_]
    weight = stats.norm(binary_model.kernel_weights_, binary_model.kernel_weights_std_)
    np.testing.assert_allclose(table[["weight_lower", "weight_upper"]].T, weight.interval(0.8))
    np.testing.assert_allclose(table["prob_positive"], weight.sf(0.0))
    np.testing.assert_array_equal(table["share"], binary_model.kernel_shares_)
    np.testing.assert_array_equal(table["share_std"], binary_model.kernel_shares_std_)
    assert table["view"].tolist() == binary_model.kernel_bank_.kernel_views_


def test_most_important_kernel_comes_first(binary_model):
    table = kernel_table(binary_model)
    assert table["share"].is_monotonic_decreasing
    assert table["view"].iloc[0] == "größe"
    assert table["share"].sum() == pytest.approx(1.0)


def test_share_interval_is_that_of_the_beta_distribution():
    mean, std = np.array([0.2, 0.03]), np.array([0.05, 0.02])
    lower, upper = share_interval(mean, std, 0.03)
    for i in range(2):
        size = mean[i] * (1 - mean[i]) / std[i] ** 2 - 1
        beta = stats.beta(mean[i] * size, (1 - mean[i]) * size)
        assert (beta.mean(), beta.std()) == pytest.approx((mean[i], std[i]))
        np.testing.assert_allclose([lower[i], upper[i]], beta.interval(0.94))


def test_share_without_spread_is_its_own_interval():
    lower, upper = share_interval(np.array([1.0, 0.0]), np.array([0.0, 0.0]), 0.03)
    np.testing.assert_array_equal([lower, upper], [[1.0, 0.0], [1.0, 0.0]])


def test_monte_carlo_share_intervals_are_near_those_of_the_table(binary_model):
    draws = sample_posterior(binary_model, 4000, random_state=0)
    stack = DenseStack(binary_model.kernel_bank_.train_stack())
    shares = share_draws(stack, draws["dual_coef"], draws["kernel_weights"])
    quantiles = np.quantile(shares, [0.03, 0.97], axis=0)
    from_beta = share_interval(shares.mean(axis=0), shares.std(axis=0), 0.03)
    np.testing.assert_allclose(from_beta, quantiles, atol=0.04)  # shares are not quite Beta distributed
    table = kernel_table(binary_model).set_index("kernel").loc[binary_model.kernel_names_]
    np.testing.assert_allclose(
        table[["share_lower", "share_upper"]].T, quantiles, atol=0.05
    )  # from 200 draws


def test_single_kernel_has_the_whole_share(features):
    model = BEMKLRegressor(KernelBank("rbf")).fit(features, features["größe"])
    row = kernel_table(model).iloc[0]
    assert (row["share"], row["share_lower"], row["share_upper"]) == pytest.approx((1.0, 1.0, 1.0))


def test_tables_have_a_block_per_class(several_model):
    table = kernel_table(several_model)
    assert table["class"].drop_duplicates().tolist() == several_model.classes_.tolist()
    for k, label in enumerate(several_model.classes_):
        block = table[table["class"] == label].set_index("kernel").loc[several_model.kernel_names_]
        np.testing.assert_array_equal(block["weight"], several_model.kernel_weights_[k])
        assert block["share"].sum() == pytest.approx(1.0)
    views = view_table(several_model, random_state=0)
    assert views.groupby("class")["share"].sum().to_numpy() == pytest.approx(np.ones(3))
    assert len(views) == 9


@pytest.mark.heavy
@pytest.mark.parametrize("classes", [[3, 1, 2], [2.0, -1.0, 3.0], ["b", "a", "c"]], ids=repr)
def test_tables_hold_classes_as_they_are(classes):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.array(classes)[np.arange(30) % 3]
    model = BEMKLClassifier(
        KernelBank(["linear", "rbf"]),
        multiclass="one-versus-all",
        max_iter=3,
        tol=0.0,
        intermediate_scale=1.0,
    )
    model.fit(X, y)
    for table in (kernel_table(model), view_table(model, n_draws=2, random_state=0)):
        assert table["class"].drop_duplicates().tolist() == model.classes_.tolist()
        assert (table["class"] == classes[0]).sum() * 3 == len(table)
    legend = plot_kernel_weights(model).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [str(label) for label in sorted(classes)]
    ax = plot_posteriors({"a": model, "b": model}, label=classes[2], n_draws=20)
    assert f"class {classes[2]}" in "".join(text.get_text() for text in ax.figure.findobj(Text))


def test_view_shares_are_sums_of_kernel_shares(binary_model):
    views = view_table(binary_model, n_draws=4000, random_state=0).set_index("view")
    sums = kernel_table(binary_model).groupby("view")["share"].sum()
    error = 5.0 * views["share_std"] / np.sqrt(200)
    assert np.all(np.abs(views["share"] - sums.loc[views.index]) < error)
    assert views.index[0] == "größe"
    assert np.all((views["share_lower"] < views["share"]) & (views["share"] < views["share_upper"]))
    assert views["n_kernels"].tolist() == [2, 2, 2]


def test_intervals_of_draws_are_their_quantiles(gibbs_model, gibbs_several_model):
    table = kernel_table(gibbs_model, ci_prob=0.8).set_index("kernel").loc[gibbs_model.kernel_names_]
    flat = gibbs_model.posterior_.flat()
    stack = DenseStack(gibbs_model.kernel_bank_.train_stack())
    shares = share_draws(stack, flat.dual, flat.kernel_weights)
    for what, draws in (("share", shares), ("weight", flat.kernel_weights)):
        np.testing.assert_allclose(table[what], draws.mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(
            table[[f"{what}_lower", f"{what}_upper"]].T, np.quantile(draws, [0.1, 0.9], axis=0)
        )
        np.testing.assert_allclose(table[f"{what}_std"], draws.std(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(table["prob_positive"], (flat.kernel_weights > 0).mean(axis=0))
    views = view_table(gibbs_model).set_index("view")
    members = np.array(gibbs_model.kernel_bank_.kernel_views_) == "größe"
    assert views.loc["größe", "share"] == pytest.approx(shares[:, members].sum(axis=1).mean())
    assert len(kernel_table(gibbs_several_model)) == 18


def test_tables_say_what_made_their_intervals(binary_model, gibbs_model):
    assert kernel_table(binary_model).attrs["inference"] == "vb"
    assert "too narrow" in kernel_table(binary_model, 0.5).attrs["intervals"]
    assert kernel_table(binary_model).attrs["share_intervals"].startswith("Beta")
    assert kernel_table(gibbs_model).attrs == {
        "inference": "gibbs",
        "ci_prob": 0.94,
        "intervals": "of the posterior, by Gibbs sampling: not converged",
        "share_intervals": "quantiles of the draws",
    }
    assert view_table(gibbs_model, 0.5, n_draws=50).attrs["ci_prob"] == 0.5


def test_precomputed_kernels_of_a_sampled_model(features, gibbs_model):
    stack = gibbs_model.kernel_bank_.transform(features)
    given = copy.deepcopy(gibbs_model).set_params(kernels="precomputed")
    given.kernel_bank_, given.n_features_in_, given._column_labels = None, len(features), None
    table, full = kernel_table(given), kernel_table(given, kernels=stack)
    assert table.attrs["share_intervals"].startswith("Beta")
    assert full.attrs["share_intervals"] == "quantiles of the draws"
    expected = kernel_table(gibbs_model)
    columns = ["share", "share_lower", "share_upper", "weight", "weight_lower", "weight_upper"]
    np.testing.assert_allclose(full[columns], expected[columns])
    np.testing.assert_allclose(table[["weight", "weight_lower"]], expected[["weight", "weight_lower"]])
    _, upper = share_interval(given.kernel_shares_, given.kernel_shares_std_, 0.03)
    np.testing.assert_allclose(np.sort(table["share_upper"]), np.sort(upper))


def test_probability_of_inclusion_is_shown(gibbs_model):
    rng = np.random.default_rng(0)
    spiked = copy.deepcopy(gibbs_model)
    inclusion = (rng.random(gibbs_model.posterior_.kernel_weights.shape) < np.linspace(0.1, 0.9, 6)).astype(
        float
    )
    weights = inclusion * gibbs_model.posterior_.kernel_weights
    spiked.posterior_ = gibbs_model.posterior_._replace(
        kernel_weights=weights, kernel_precision=None, kernel_inclusion=inclusion
    )
    table = kernel_table(spiked).set_index("kernel").loc[gibbs_model.kernel_names_]
    np.testing.assert_allclose(table["prob_included"], inclusion.mean(axis=(0, 1)))
    assert "prob_included" not in kernel_table(gibbs_model)
    assert "kernel_precision" not in sample_posterior(spiked)
    assert sample_posterior(spiked)["kernel_inclusion"].shape == (300, 6)


def test_precomputed_kernels_have_no_views(features):
    stack = KernelBank(["rbf", "laplacian"]).fit_transform(features)
    model = BEMKLRegressor("precomputed").fit(stack, features["größe"])
    assert "view" not in kernel_table(model)
    with pytest.raises(ValueError, match="`model` was fitted to precomputed kernels, which have no views"):
        view_table(model)
