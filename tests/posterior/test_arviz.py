"""ArviZ's own functions work on our DataTrees, on the versions of both supported Pythons."""

from __future__ import annotations

import sys
import warnings

import arviz_plots
import arviz_stats
import numpy as np
import pytest
from matplotlib import pyplot

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Linear
from bayesmkl.posterior import to_datatree


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


@pytest.mark.skipif(sys.version_info < (3, 12), reason="arviz 1.x needs Python 3.12")
def test_other_library_arviz_itself(binary_model):
    import arviz

    tree = to_datatree(binary_model, 100, random_state=0)
    table = arviz.summary(tree, var_names=["kernel_weights"], ci_prob=0.94, kind="stats")
    assert len(table) == len(binary_model.kernel_names_)
    assert (arviz.loo, arviz.compare) == (arviz_stats.loo, arviz_stats.compare)
    for name in ("plot_prior_posterior", "plot_ppc_dist", "plot_ppc_pit", "plot_ppc_pava"):
        assert getattr(arviz, name) is getattr(arviz_plots, name)  # which the tests above call
