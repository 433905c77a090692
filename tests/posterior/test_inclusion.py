"""Tables of inclusion probabilities: draws, lists, alternatives, models that have none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from bayesmkl import BEMKLClassifier, GPMKLClassifier, GPMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.bemkl import NUTS, Gibbs, SpikeSlab
from bayesmkl.cli import app
from bayesmkl.cli.fitting import _ending
from bayesmkl.gp import Marginal, SpikeSlabWeights
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import diagnose, inclusion_table, kernel_table, relevance, view_table
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.relevance import ProcessRefits

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
def test_probabilities_are_those_of_the_draws(model):
    draws = model.posterior_
    included = (draws.kernel_weights > 0.0)[draws.point]
    table = inclusion_table(model, by="kernel").set_index("kernel")
    np.testing.assert_allclose(table.loc[model.kernel_names_, "prob_included"], included.mean(axis=0))
    views = inclusion_table(model).set_index("view")
    for v in range(6):
        inside = included[:, 2 * v : 2 * v + 2].any(axis=1)
        assert views.loc[f"v{v}", "prob_included"] == pytest.approx(inside.mean())
        shares = draws.shares.mean(axis=0)[2 * v : 2 * v + 2].sum()
        assert views.loc[f"v{v}", "share"] == pytest.approx(shares)
    assert (draws.shares[~included] == 0.0).all()
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
    with pytest.warns(UserWarning, match="do not tell which of two views is in the model.*'v0' and 'v1'"):
        table = inclusion_table(model, fdr=0.1).set_index("view")
    assert table.loc["v0", "alternative"] == "v1"
    assert table.loc["v1", "alternative"] == "v0"
    assert table.loc["v0", "prob_either"] > 0.95
    assert table.loc["v0", "prob_included"] < 0.9
    assert pd.isna(table.loc["v3", "alternative"])


@pytest.mark.heavy
def test_tables_predictions_files_and_refits_go_with_it(model, tmp_path):
    X, y = samples()
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9
    assert inclusion_table(again).equals(inclusion_table(model))
    assert np.isnan(model.pareto_k_)
    assert view_table(model)["share"].sum() == pytest.approx(1.0)
    found = diagnose(model, n_draws=100, random_state=0)
    assert found["sampling"]["rhat"] == model.rhat_
    assert relevance(model, by="all")["verdict"][0] == "signal"
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
    np.testing.assert_array_equal(model._hyperprior().group, [0, 0, 1, 1])
    assert set(inclusion_table(model)["kernel"]) == set(model.kernel_names_)
    with pytest.raises(ValueError, match='`by` "view" needs the views of a KernelBank'):
        inclusion_table(model, by="view")
    wrong = prior._replace(groups=("a", "b", "c"))
    with pytest.raises(ValueError, match="a name for each of the 4 kernels; got 3"):
        GPMKLRegressor("precomputed", kernel_prior=wrong, inference=SHORT).fit(stack, y)
    listed = GPMKLRegressor(
        bank(), kernel_prior=SpikeSlabWeights(groups={"a": ["v0", "v3"], "b": "linear · v1"})
    )
    listed._prepare(X, y)
    group = dict(zip(listed.kernel_names_, listed._hyperprior().group, strict=True))
    assert len({group[f"{kernel} · {view}"] for kernel in ("linear", "rbf") for view in ("v0", "v3")}) == 1
    assert len(set(group.values())) == 12 - 3
    single = GPMKLRegressor(bank(), kernel_prior=SpikeSlabWeights(groups="kernel"))
    single._prepare(X, y)
    assert len(set(single._hyperprior().group)) == 12


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
        ({"groups": {"a": ["v9"]}}, "`kernel_prior.groups` must name kernels or views; 'a' has 'v9'"),
        ({"groups": {"a": ["all"], "b": "all"}}, "'linear · all' is in 'a' and 'b'"),
    ],
)
def test_priors_that_are_none(options, message):
    X, y = samples()
    with pytest.raises(ValueError, match=message):
        GPMKLRegressor(KernelBank(Linear()), kernel_prior=SpikeSlabWeights(**options)).fit(X, y)


def test_models_whose_kernels_are_all_in_are_refused():
    X, y = samples()
    with pytest.raises(ValueError, match="`model` must have a prior under which kernels can be out"):
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
    nothing, expected = (ProcessRefits(fitted_bemkl(one)).without_kernels() for one in (model, usual))
    assert np.isfinite(nothing.log_evidence)  # that chains do not know
    assert nothing.log_evidence == pytest.approx(expected.log_evidence, abs=0.05)
    np.testing.assert_allclose(nothing.elpd_i, expected.elpd_i, rtol=0.1)


@pytest.mark.heavy
def test_command_lists_and_writes_what_is_in(tmp_path):
    X, y = samples()
    pd.DataFrame(X[:, [0, 3, 8]], columns=["a", "b", "c"]).assign(y=y).to_csv(tmp_path / "data.csv")
    data = tmp_path / "data.csv"
    given = ["--target", "y", "--method", "gpmkl", "--kernel-prior", "spike-slab", "--draws", "25"]
    given += ["--kernels-on", "each", "--drop", "Unnamed: 0"]
    result = CliRunner().invoke(app, ["fit", str(data), *given, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.stderr
    table = pd.read_csv(tmp_path / "run" / "inclusion.csv")
    assert set(table["view"]) == {"a", "b", "c"}
    chosen = inclusion_table(load_model(tmp_path / "run" / "model.skops"))
    np.testing.assert_allclose(table["prob_included"], chosen["prob_included"])
    assert f"{chosen['selected'].sum()} of 3 views in the model, at most 10 % of them" in " ".join(
        result.stdout.split()
    )
    assert (tmp_path / "run" / "features.csv").exists()
