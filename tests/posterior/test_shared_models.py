"""Everything public works for outputs that share their kernel weights, or says what does."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_monte_carlo, assert_same, log_likelihood
from scipy import stats
from sklearn.metrics import brier_score_loss

from bayesmkl.bemkl import BEMKLMultitaskRegressor
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.bemkl.outputs import completion
from bayesmkl.posterior import (
    compare_loo,
    diagnose,
    kernel_table,
    load_posterior,
    plot_elbo,
    plot_kernel_weights,
    refine_posterior,
    reliability,
    sample_posterior,
    save_posterior,
    to_datatree,
    view_table,
)
from bayesmkl.posterior.evaluated import Evaluated, evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl

pytestmark = pytest.mark.heavy

MODELS = {
    "shared_model": ("class", 3),
    "multinomial_model": ("class", 3),
    "label_model": ("label", 2),
    "target_model": ("output", 2),
}
OTHERS = ["unlabeled_model", "incomplete_model"]


# ------------------------------------------------------------------------------------------------ trees and draws


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_a_dimension_of_what_they_have_of_their_own(name, request):
    model, (kind, n_outputs) = request.getfixturevalue(name), MODELS[name]
    tree = to_datatree(model, 30, random_state=3)
    posterior, chains = tree["posterior"], ("chain", "draw")
    for variable in ("kernel_weights", "kernel_precision", "kernel_shares"):
        assert posterior[variable].dims == (*chains, "kernel")
    for variable in ("dual_coef", "sample_precision"):
        assert posterior[variable].dims == (*chains, kind, "obs_id")
    assert posterior["intercept"].dims == posterior["intercept_precision"].dims == (*chains, kind)
    assert posterior.sizes[kind] == n_outputs
    names = getattr(model, "classes_", np.arange(n_outputs)).astype(str)
    assert posterior[kind].values.tolist() == names.tolist()
    assert tree["posterior_predictive/y"].dims == (*chains, kind, "obs_id")
    assert tree["observed_data/y"].dims == (kind, "obs_id")
    assert tree["sample_stats/elbo"].dims == ("iteration",)
    assert all(term.dims == chains for term in tree["log_prior"].data_vars.values())
    draws = sample_posterior(model, 30, random_state=3)
    for variable, values in draws.items():
        np.testing.assert_array_equal(posterior[variable].values, values[None])


@pytest.mark.parametrize("name", [*MODELS, *OTHERS])
def test_densities_in_the_tree_make_the_importance_ratios(name, request, tmp_path):
    model = request.getfixturevalue(name)
    tree = to_datatree(model, 40, random_state=1)
    if name == "label_model":
        save_posterior(tree, tmp_path / "posterior.nc")
        tree = load_posterior(tmp_path / "posterior.nc")
    (own,), (ratios,) = evaluate_model(fitted_bemkl(model), 40, np.random.default_rng(1))
    log_p = own.log_likelihood.sum(axis=1) + sum(tree["log_prior"].data_vars.values())
    assert_same(tree["sample_stats/lp"], log_p, 1e-9)
    assert_same((tree["sample_stats/lp"] - tree["sample_stats/log_variational"]).values[0], ratios, 1e-9)


def test_monte_carlo_draws_of_shared_weights(shared_model):
    draws = sample_posterior(shared_model, 4000, random_state=0)
    assert_monte_carlo(draws["kernel_weights"], shared_model.kernel_weights_)
    assert_monte_carlo(draws["intercept"], shared_model.intercept_)
    assert_monte_carlo(draws["dual_coef"], shared_model.dual_coef_)


def test_other_library_log_likelihood_of_shared_classes(shared_model):
    tree, kernels = to_datatree(shared_model, 5, random_state=0), shared_model.kernel_bank_.train_stack()
    post = {name: values.values[0] for name, values in tree["posterior"].data_vars.items()}
    e, a = post["kernel_weights"], post["dual_coef"]
    projected = np.einsum("mij,scj->scmi", kernels, a)
    means = np.einsum("sm,scmi->sci", e, projected) + post["intercept"][..., None]
    z = (shared_model.target_ * means - 1.0) / np.sqrt(1.0 + (e**2).sum(axis=1))[:, None, None]
    assert_same(log_likelihood(tree)[0], stats.norm.logcdf(z).sum(axis=(1, 2)), 1e-9)
    assert_same(
        post["kernel_shares"],
        share_draws(fitted_bemkl(shared_model).training_stack(), a.transpose(1, 0, 2), e),
        1e-12,
    )


def test_monte_carlo_replicated_targets_are_in_their_own_units(target_model, features):
    drawn = to_datatree(target_model, 3000, random_state=0)["posterior_predictive/y"].values[0]
    mean, std = target_model.predict(features, return_std=True)
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean.T), 5.0 * std.T / np.sqrt(3000))
    np.testing.assert_allclose(drawn.std(axis=0), std.T, rtol=0.1)


# -------------------------------------------------------------------------------------------------- whole reports


def test_report_of_shared_classes_names_classes_only_where_they_differ(shared_model, several_model):
    found = diagnose(shared_model, n_draws=100, random_state=0)
    assert "3 classes that share their kernel weights" in str(found)
    assert set(found["importance"]) >= {"joint"}
    assert set(found["checks"]) >= {"big", "middle", "small"}
    assert found["loo"]["elpd_i"].shape == (40,)
    assert found["calibration"]["n_samples"] == 40
    assert found["importance"]["advice"].endswith('inference="nuts" gives intervals that can be read.')
    frame = compare_loo({"shared": shared_model, "own": several_model}, n_draws=100, random_state=0)
    assert set(frame.index) == {"shared", "own"}


@pytest.mark.parametrize("name", ["multinomial_model", *OTHERS])
def test_reports_say_what_cannot_be_had(name, request):
    found = diagnose(request.getfixturevalue(name), n_draws=100, random_state=0)
    reason = {
        "multinomial_model": "classes compete",
        "unlabeled_model": "unlabeled",
        "incomplete_model": "missing views",
    }
    assert reason[name] in str(found)
    assert "nuts" not in found["loo"]["advice"]
    assert np.isfinite(found["loo"]["elpd"])


def test_other_library_scores_of_held_out_labels_and_targets(
    label_model, target_model, features, labels, targets
):
    new = features + 0.1
    found = diagnose(label_model, new, labels, n_draws=100, random_state=0)["calibration"]
    p = label_model.predict_proba(new)
    assert found["brier"] == pytest.approx(brier_score_loss(labels.ravel(), p.ravel()))
    assert found["ece"] == reliability(labels, p).calibration_error
    own = np.where(labels == 1, p, 1.0 - p)
    assert found["log_loss"] == pytest.approx(-np.log(own).sum(axis=1).mean())
    found = diagnose(target_model, new, targets, n_draws=100, random_state=0)["calibration"]
    mean, std = target_model.predict(new, return_std=True)
    assert found["log_loss"] == pytest.approx(-stats.norm.logpdf(targets, mean, std).sum(axis=1).mean())
    assert found["pit"].shape == (40, 2)
    with pytest.raises(ValueError, match="`X_test` and `y_test` must hold the same samples"):
        diagnose(target_model, new, targets[:, 0], n_draws=100)
    with pytest.raises(ValueError, match="`y_test` must hold 0 and 1, a column per label"):
        diagnose(label_model, new, 2 * labels, n_draws=100)


def test_unlabeled_samples_are_shown_and_not_scored(unlabeled_model):
    tree = to_datatree(unlabeled_model, 20, random_state=0)
    unlabeled = np.arange(40) % 3 == 0
    np.testing.assert_array_equal(tree["observed_data/y"] == -1, unlabeled)
    np.testing.assert_array_equal(tree["constant_data/label"] == "unknown", unlabeled)
    assert fitted_bemkl(unlabeled_model).target[1] in ("big", "small")


def test_monte_carlo_scores_where_views_are_missing(incomplete_model, rng):
    fitted = fitted_bemkl(incomplete_model)
    (problem,), (draws,) = fitted.problems(), fitted.draws(1, rng)
    output = Evaluated(problem, draws).outputs[0]
    absent = incomplete_model.posterior_.intermediate.absent
    cov, e = absent.moments.cov[0], draws.kernel_weights[0, 0]
    dual, n = draws.dual[0, 0, 0], 20_000
    kernels, present = problem.stack
    for kernel, has in zip(kernels, present, strict=True):  # centered over the samples that have the view
        np.testing.assert_allclose(kernel[has].mean(axis=0), 0.0, atol=1e-12)
    for i in (0, 7, 20):
        here = present[:, i]
        g = np.empty((n, 6))
        g[:, here] = kernels[here, i] @ dual + rng.standard_normal((n, here.sum()))  # σ_g is one
        slope = np.linalg.solve(cov[np.ix_(here, here)], cov[np.ix_(here, ~here)]).T
        g[:, ~here] = g[:, here] @ slope.T
        f = g @ e + draws.intercept[0, 0, 0] + rng.standard_normal(n)  # labels are learned with unit noise
        assert abs(f.mean() - output.means[0, i]) < 4.0 * output.scales[0, i] / np.sqrt(n)
        assert f.std() == pytest.approx(output.scales[0, i], rel=0.03)
    assert to_datatree(incomplete_model, 10)["posterior/dual_coef"].dims == ("chain", "draw", "obs_id")


def test_monte_carlo_predictions_where_views_are_missing(incomplete_model, incomplete, rng):
    fitted = fitted_bemkl(incomplete_model)
    (problem,), (draws,) = fitted.problems(), fitted.draws(4000, rng)
    output = Evaluated(problem, draws).outputs[0]
    mean, std = incomplete_model.predict_latent(incomplete, return_std=True)
    assert_monte_carlo(output.means, mean)
    variance = output.means.var(axis=0) + (output.scales**2).mean(axis=0)
    absent, readout = incomplete_model.posterior_.intermediate.absent, incomplete_model.posterior_.readout
    square = np.outer(readout.mean, readout.mean)[1:, 1:] + readout.cov[1:, 1:]
    spread = completion(absent.present, absent.moments.cov).cov[0]  # counts in predictions, not in training
    variance += (square * spread).sum(axis=(1, 2))[absent.pattern]
    np.testing.assert_allclose(np.sqrt(variance), std, rtol=0.05)


# --------------------------------------------------------------------------------------------- tables and figures


@pytest.mark.parametrize("name", [*MODELS, *OTHERS])
def test_tables_and_plots_have_one_set_of_weights(name, request):
    model = request.getfixturevalue(name)
    table = kernel_table(model, shares=True).set_index("kernel").loc[model.kernel_names_]
    assert not {"class", "label"} & set(table.columns)
    np.testing.assert_array_equal(table["weight"], model.kernel_weights_)
    np.testing.assert_array_equal(table["share"], model.kernel_shares_)
    views = view_table(model, n_draws=400, random_state=0, shares=True).iloc[:-2]
    expected = table.groupby("view")["share"].sum().loc[views["view"]]
    np.testing.assert_allclose(views["share"], expected, atol=0.05)
    assert len(plot_kernel_weights(model).get_yticklabels()) == 6
    assert len(plot_elbo(model).lines) == 1


def test_chains_of_shared_weights(chains_of_shared_model):
    model = chains_of_shared_model
    found = diagnose(model, n_draws=100, random_state=0)
    assert [found["sampling"][what]["n"] for what in ("kernel shares", "training scores m/s")] == [6, 120]
    assert found["sampling"]["class probabilities"]["rhat"] < 1.1
    assert found["sampling"]["raw weights (b, e)"]["n"] == 9
    table = kernel_table(model, 0.8, shares=True).set_index("kernel").loc[model.kernel_names_]
    flat = model.posterior_.flat()
    shares = share_draws(
        fitted_bemkl(model).training_stack(), flat.dual.transpose(1, 0, 2), flat.kernel_weights
    )
    np.testing.assert_allclose(table["share_lower"], np.quantile(shares, 0.1, axis=0))


def test_refinement_is_refused_with_a_remedy(
    shared_model, multinomial_model, label_model, target_model, request
):
    refused = {
        "shared_model": 'its classes share the kernel weights. Fit GPMKLClassifier, or with inference="nuts", or',
        "label_model": 'its labels share the kernel weights. Fit GPMKLClassifier, or with inference="nuts", or',
        "target_model": 'its targets share the kernel weights. Fit GPMKLRegressor, or with inference="nuts", or',
        "multinomial_model": 'its classes compete. Fit GPMKLClassifier, or with multiclass="shared"',
        "unlabeled_model": "some of its samples are unlabeled. Fit it to the labeled ones",
        "incomplete_model": 'it integrates over missing views. Fit with missing_views="error"',
    }
    for name, message in refused.items():
        with pytest.raises(ValueError, match=f"`model` cannot be refined by Gibbs sampling: {message}"):
            refine_posterior(request.getfixturevalue(name))


def test_tasks_have_tables_and_plots(features, bank):
    rng = np.random.default_rng(0)
    y = np.column_stack([features["größe"], features["größe"] + 0.3 * rng.normal(size=40)])
    model = BEMKLMultitaskRegressor(bank, tol=1e-3).fit(features, y)
    table = kernel_table(model)
    assert table["task"].drop_duplicates().tolist() == model.tasks_.tolist()
    for k, (_, own) in enumerate(table.groupby("task")):
        own = own.set_index("kernel").loc[model.kernel_names_]
        np.testing.assert_array_equal(own["share"], model.kernel_shares_[k])
        np.testing.assert_array_equal(own["weight_std"], model.kernel_weights_std_[k])
    assert plot_kernel_weights(model).get_legend().get_title().get_text() == "task"
    assert len(plot_elbo(model).lines) == 1
    for refused in (diagnose, sample_posterior, to_datatree, view_table, refine_posterior):
        with pytest.raises(
            TypeError, match="`model` must not be a multitask model; got BEMKLMultitaskRegressor"
        ):
            refused(model)
