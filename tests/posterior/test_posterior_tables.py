"""Tables of kernels, views and inclusion: against scipy, counts over draws and each other."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLClassifier,
    GPMKLRegressor,
    KernelBank,
    load_model,
    save_model,
)
from bayesmkl.bemkl import NUTS, Gibbs, SpikeSlab
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.cli import app
from bayesmkl.cli.fitting import _ending
from bayesmkl.gp import Marginal, SpikeSlabWeights
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior import (
    diagnose,
    inclusion_table,
    kernel_table,
    plot_kernel_weights,
    relevance,
    sample_posterior,
    view_table,
)
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.relevance import ProcessRefits
from bayesmkl.posterior.tables import share_interval
from bayesmkl.posterior.views import _credible_sets


def test_kernel_table_agrees_with_scipy(binary_model):
    table = (
        kernel_table(binary_model, ci_prob=0.8, shares=True)
        .set_index("kernel")
        .loc[binary_model.kernel_names_]
    )
    weight = stats.norm(binary_model.kernel_weights_, binary_model.kernel_weights_std_)
    np.testing.assert_allclose(table[["weight_lower", "weight_upper"]].T, weight.interval(0.8))
    np.testing.assert_allclose(table["prob_positive"], weight.sf(0.0))
    np.testing.assert_array_equal(table["share"], binary_model.kernel_shares_)
    np.testing.assert_array_equal(table["share_std"], binary_model.kernel_shares_std_)
    assert table["view"].tolist() == binary_model.kernel_bank_.kernel_views_


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
    table = kernel_table(binary_model, shares=True).set_index("kernel").loc[binary_model.kernel_names_]
    np.testing.assert_allclose(
        table[["share_lower", "share_upper"]].T, quantiles, atol=0.05
    )  # from 200 draws


def test_single_kernel_has_the_whole_share(features):
    model = BEMKLRegressor(KernelBank("rbf")).fit(features, features["größe"] + features.iloc[:, 0])
    row = kernel_table(model, shares=True).iloc[0]
    assert (row["share"], row["share_lower"], row["share_upper"]) == pytest.approx((1.0, 1.0, 1.0))


def test_tables_have_a_block_per_class(several_model):
    table = kernel_table(several_model, shares=True)
    assert table["class"].drop_duplicates().tolist() == several_model.classes_.tolist()
    for k, label in enumerate(several_model.classes_):
        block = table[table["class"] == label].set_index("kernel").loc[several_model.kernel_names_]
        np.testing.assert_array_equal(block["weight"], several_model.kernel_weights_[k])
        assert block["share"].sum() == pytest.approx(1.0)
    views = view_table(several_model, random_state=0, shares=True)
    assert views.groupby("class")["share"].sum().to_numpy() == pytest.approx(np.ones(3))
    assert len(views) == 3 * (3 + 2)


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


def test_view_shares_are_sums_of_kernel_shares(binary_model):
    views = view_table(binary_model, n_draws=4000, random_state=0, shares=True).set_index("view").iloc[:-2]
    sums = kernel_table(binary_model, shares=True).groupby("view")["share"].sum()
    error = 5.0 * views["share_std"] / np.sqrt(200)
    assert np.all(np.abs(views["share"] - sums.loc[views.index]) < error)
    assert views.index[0] == "größe"
    assert np.all((views["share_lower"] < views["share"]) & (views["share"] < views["share_upper"]))


def test_intervals_of_draws_are_their_quantiles(gibbs_model, gibbs_several_model):
    table = (
        kernel_table(gibbs_model, ci_prob=0.8, shares=True).set_index("kernel").loc[gibbs_model.kernel_names_]
    )
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
    views = view_table(gibbs_model, shares=True).set_index("view")
    members = np.array(gibbs_model.kernel_bank_.kernel_views_) == "größe"
    assert views.loc["größe", "share"] == pytest.approx(shares[:, members].sum(axis=1).mean())
    assert len(kernel_table(gibbs_several_model)) == 18


def test_precomputed_kernels_of_a_sampled_model(features, gibbs_model):
    stack = gibbs_model.kernel_bank_.transform(features)
    given = copy.deepcopy(gibbs_model).set_params(kernels="precomputed")
    given.kernel_bank_, given.n_features_in_, given._column_labels = None, len(features), None
    table, full = kernel_table(given), kernel_table(given, shares=True, kernels=stack)
    assert table.attrs["share_intervals"].startswith("Beta")
    assert full.attrs["share_intervals"] == "quantiles of the draws"
    expected = kernel_table(gibbs_model, shares=True)
    assert "explained" not in table
    assert "no draws" in table.attrs["caption"]
    table = table.set_index("kernel").loc[expected["kernel"]].reset_index()
    columns = [
        "explained",
        "effect",
        "share",
        "share_lower",
        "share_upper",
        "weight",
        "weight_lower",
        "weight_upper",
    ]
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


def test_precomputed_kernels_are_their_own_views(features):
    stack = KernelBank(["rbf", "laplacian"]).fit_transform(features)
    model = BEMKLRegressor("precomputed").fit(stack, features["größe"])
    assert "view" not in kernel_table(model)
    with pytest.raises(ValueError, match="`kernels` must be the training kernels of shape"):
        view_table(model)
    table = view_table(model, random_state=0, kernels=stack)
    assert set(table["view"]) == {*model.kernel_names_, "all views", "not explained"}


SHORT = Marginal(n_points=120, n_draws=120, n_chains=2, n_warmup=20)
N = 40
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def samples(n_views=6, twins=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2 * n_views))
    if twins:
        X[:, 2:4] = X[:, :2] + 0.01 * rng.normal(size=(N, 2))
    return X, X[:, 0] - X[:, 1] + X[:, 8] + 0.3 * rng.normal(size=N)


def bank(n_views=6, kernels=("linear", "rbf")):
    return KernelBank(list(kernels), views={f"v{k}": [2 * k, 2 * k + 1] for k in range(n_views)})


@pytest.fixture(scope="module")
def model():
    X, y = samples()
    return GPMKLRegressor(bank(), kernel_prior="spike-slab", inference=SHORT).fit(X, y)


@pytest.mark.heavy
def test_probabilities_are_those_of_all_sweeps(model):
    draws = model.posterior_
    included = draws.included.reshape(-1, len(model.kernel_names_))
    assert len(included) >= 120
    table = inclusion_table(model, by="kernel").set_index("kernel")
    np.testing.assert_allclose(table.loc[model.kernel_names_, "prob_included"], included.mean(axis=0))
    views = inclusion_table(model).set_index("view")
    for v in range(6):
        inside = included[:, 2 * v : 2 * v + 2].any(axis=1)
        assert views.loc[f"v{v}", "prob_included"] == pytest.approx(inside.mean())
        shares = draws.shares.mean(axis=0)[2 * v : 2 * v + 2].sum()
        assert views.loc[f"v{v}", "share"] == pytest.approx(shares)
    assert (draws.shares[draws.kernel_weights[draws.point] == 0.0] == 0.0).all()
    inside = draws.included[:, :, :2].any(axis=2)  # of the view v0
    assert views.loc["v0", "prob_mcse"] == pytest.approx(
        float(array_stats.mcse(inside.astype(float))), abs=1e-9
    )
    by_kernel = kernel_table(model).set_index("kernel")["prob_included"]
    np.testing.assert_allclose(by_kernel[table.index], table["prob_included"])


def test_list_has_few_false_ones(model):
    table = inclusion_table(model, fdr=0.2)
    assert (np.diff(table["prob_included"]) <= 0.0).all()
    np.testing.assert_allclose(table["fdr"], (1.0 - table["prob_included"]).expanding().mean())
    np.testing.assert_array_equal(table["selected"], table["fdr"] <= 0.2)
    assert set(table["view"][table["selected"]]) == {"v0", "v4"}
    assert table.attrs["fdr"] == 0.2


@pytest.mark.heavy
def test_twins_are_told_apart_by_nothing_and_named():
    X, y = samples(twins=True)
    model = GPMKLRegressor(bank(kernels=["linear"]), kernel_prior="spike-slab", inference=SHORT).fit(X, y)
    table = inclusion_table(model, fdr=0.1).set_index("view")
    assert table.loc["v0", "prob_included"] < 0.9
    assert table.loc["v0", "credible_set"] == table.loc["v1", "credible_set"]
    assert table["prob_set"].dropna().min() >= 0.95
    of_sets = table["credible_set"].dropna()
    assert set(of_sets.index) == {"v0", "v1", "v4"}
    assert of_sets["v4"] != of_sets["v0"]


def test_credible_sets_are_the_smallest_of_those_that_are_alike():
    rng = np.random.default_rng(0)
    chosen = rng.integers(
        0, 4, 400
    )  # one of four alike, the last of them rarely; two others without relation
    inside = np.zeros((400, 6), dtype=bool)
    inside[np.arange(400), np.minimum(chosen, 2)] = True
    inside[:10, :4] = [False, False, False, True]
    inside[:, 4], inside[:, 5] = True, rng.random(400) < 0.5
    alike = np.eye(6)
    alike[:4, :4] = 0.9
    numbers, of_sets = _credible_sets(inside, alike)
    assert numbers.tolist() == [2, 2, 2, 0, 1, 0]
    np.testing.assert_allclose(of_sets[[0, 4]], [inside[:, :3].any(axis=1).mean(), 1.0])
    assert not _credible_sets(inside, np.eye(6))[0][:4].any()


@pytest.mark.heavy
def test_tables_predictions_files_and_refits_go_with_it(model, tmp_path):
    X, y = samples()
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9
    assert inclusion_table(again).equals(inclusion_table(model))
    assert np.isnan(model.pareto_k_)
    assert view_table(model, shares=True)["share"].sum() == pytest.approx(1.0)
    found = diagnose(model, n_draws=100, random_state=0)
    assert found["sampling"]["rhat"] == model.rhat_
    assert relevance(model, by="all")["verdict"][0] == "clear"
    elpd, *_ = model._refit(
        model._stored_training().select([0, 1]), kept=np.array([0, 1])
    )  # of the view v0 alone
    assert elpd.sum() < model.elpd_i_.sum()
    with pytest.raises(ValueError, match='spike-and-slab prior. Use "horseshoe"'.replace(".", r"\.")):
        model.numpyro_model(X, y)


@pytest.mark.heavy
def test_groups_are_views_kernels_or_names():
    X, y = samples()
    stack = np.moveaxis([np.outer(x, x) for x in X.T[:4]], 0, -1)
    prior = SpikeSlabWeights(scale=0.5, groups=["a", "a", "b", "b"])
    model = GPMKLRegressor("precomputed", kernel_prior=prior, inference=SHORT).fit(stack, y)
    np.testing.assert_array_equal(model._hyperprior().group, [0, 0, 1, 1, 2])  # the last is "views together"
    assert set(inclusion_table(model)["kernel"]) == set(model.kernel_names_)
    with pytest.raises(ValueError, match='`by` "view" needs the views of a KernelBank'):
        inclusion_table(model, by="view")
    wrong = prior._replace(groups=("a", "b", "c"))
    with pytest.raises(ValueError, match="one name for each of the 4 kernels; got 3"):
        GPMKLRegressor("precomputed", kernel_prior=wrong, inference=SHORT).fit(stack, y)
    listed = GPMKLRegressor(
        bank(), kernel_prior=SpikeSlabWeights(groups={"a": ["v0", "v3"], "b": "linear · v1"})
    )
    listed._prepare(X, y)
    group = dict(zip(listed.kernel_names_, listed._hyperprior().group, strict=True))
    assert len({group[f"{kernel} · {view}"] for kernel in ("linear", "rbf") for view in ("v0", "v3")}) == 1
    assert len(set(group.values())) == 13 - 3  # "views together" is a group of its own
    single = GPMKLRegressor(bank(), kernel_prior=SpikeSlabWeights(groups="kernel"))
    single._prepare(X, y)
    assert len(set(single._hyperprior().group)) == 13


@pytest.mark.heavy
def test_classes_share_what_is_in():
    X, y = samples(n_views=5)
    views = {"v0": [0, 1], "v2": [4, 5], "v4": [8, 9]}
    chain = Marginal(n_points=100, n_draws=100, n_chains=1, n_warmup=10)
    classifier = GPMKLClassifier(KernelBank("linear", views), kernel_prior="spike-slab", inference=chain)
    model = make_pipeline(StandardScaler(), classifier).fit(X, np.digitize(y, [-1.0, 1.0]))
    table = inclusion_table(model).set_index("view")
    assert table.loc["v0", "prob_included"] > 0.9
    assert table.loc["v2", "prob_included"] < 0.6


PAIR = KernelBank([Gaussian(width=2)], views={"v0": [0, 1], "v2": [4, 5]})


def test_draws_of_bemkl_are_counted_too():
    X, y = samples(n_views=5)
    chains = Gibbs(n_chains=2, n_warmup=2, n_draws=30)
    model = BEMKLClassifier(PAIR, inference=chains, intermediate_scale=1.0).fit(X[:20], y[:20] > 0)
    included = np.random.default_rng(0).random((2, 30, 2)) < [0.3, 0.9]
    model.posterior_ = model.posterior_._replace(kernel_inclusion=included.astype(int))
    table = inclusion_table(model)
    assert table["view"].tolist() == ["v2", "v0"]
    np.testing.assert_allclose(table["prob_included"], included.mean(axis=(0, 1))[::-1])


@pytest.mark.heavy
def test_bemkl_by_nuts_has_them_too():
    X, y = samples(n_views=5)
    chains = NUTS(n_chains=1, n_warmup=30, n_draws=30)
    model = BEMKLClassifier(PAIR, kernel_prior=SpikeSlab(0.5), inference=chains, intermediate_scale=1.0)
    table = inclusion_table(model.fit(X[:20], y[:20] > 0)).set_index("view")
    np.testing.assert_allclose(
        table.loc["v0", "prob_included"], model.posterior_.flat().kernel_inclusion.mean(axis=0)[0]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inclusion": 0.5}, r"`kernel_prior.inclusion` must be two shapes"),
        ({"inclusion": (1.0, 0.0)}, r"`kernel_prior.inclusion\[1\]` must be"),
        ({"within": 1.0}, r"`kernel_prior.within` must be"),
        ({"concentration": -1.0}, r"`kernel_prior.concentration` must be"),
        ({"groups": "views"}, r"`kernel_prior.groups` must be \"view\", \"kernel\", a sequence"),
        ({"groups": {"a": ["v9"]}}, "`kernel_prior.groups` must name kernels or views; group 'a' has 'v9'"),
        ({"groups": {"a": ["all"], "b": "all"}}, "'linear · all' is in both 'a' and 'b'"),
    ],
)
def test_priors_that_are_none(options, message):
    X, y = samples()
    with pytest.raises(ValueError, match=message):
        GPMKLRegressor(KernelBank(Linear()), kernel_prior=SpikeSlabWeights(**options)).fit(X, y)


def test_models_whose_kernels_are_all_in_are_refused():
    X, y = samples()
    with pytest.raises(ValueError, match="`model` must have a prior that can exclude kernels"):
        inclusion_table(GPMKLRegressor(bank(), inference=Marginal(n_points=100, n_draws=100)).fit(X, y))
    with pytest.raises(ValueError, match='Fit it with kernel_prior="spike-slab" and inference="nuts"'):
        inclusion_table(BEMKLClassifier(bank(), intermediate_scale=1.0).fit(X, y > 0))


def test_endings_of_chains_are_told_without_an_evidence(model):
    line = _ending(model, 1.0)
    assert f"R-hat {model.rhat_:.2f}" in line
    assert "nan" not in line
    assert "chains over sets of kernels" in str(diagnose(model, n_draws=100, random_state=0))


def test_a_model_without_kernels_needs_no_chains_over_them(model):
    X, y = samples()
    usual = GPMKLRegressor(bank(), inference=SHORT).fit(X, y)
    both = [ProcessRefits(fitted_bemkl(one)) for one in (model, usual)]
    nothing, expected = (refits.fit(np.zeros(refits.stack.n_kernels, dtype=bool)) for refits in both)
    assert np.isfinite(nothing.log_evidence)  # that chains do not know
    assert nothing.log_evidence == pytest.approx(expected.log_evidence, abs=0.05)
    np.testing.assert_allclose(nothing.elpd_i, expected.elpd_i, rtol=0.1)


@pytest.mark.heavy
def test_command_lists_and_writes_what_is_in(tmp_path):
    X, y = samples()
    pd.DataFrame(X[:, [0, 3, 8]], columns=["a", "b", "c"]).assign(y=y).to_csv(tmp_path / "data.csv")
    data = tmp_path / "data.csv"
    given = ["--target", "y", "--method", "gpmkl", "--kernel-prior", "spike-slab", "--draws", "100"]
    given += ["--kernels-on", "each", "--drop", "Unnamed: 0"]
    result = CliRunner().invoke(app, ["fit", str(data), *given, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.stderr
    table = pd.read_csv(tmp_path / "run" / "inclusion.csv")
    assert set(table["view"]) == {"a", "b", "c", "views together"}
    chosen = inclusion_table(load_model(tmp_path / "run" / "model.skops"))
    np.testing.assert_allclose(table["prob_included"], chosen["prob_included"])
    assert f"{chosen['selected'].sum()} of 4 views in the model, at most 10 % of them" in " ".join(
        result.stdout.split()
    )
    assert (tmp_path / "run" / "features.csv").exists()
