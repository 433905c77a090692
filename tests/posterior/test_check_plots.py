"""Posterior predictive checks and k-hat: what is drawn is what the DataTree and the diagnosis hold."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_base import from_dict
from arviz_stats import loo
from figure_checks import assert_readable, untouched_globals  # noqa: F401
from helpers import refined_a_little
from sklearn.isotonic import IsotonicRegression

from bayesmkl.posterior import diagnose, load_posterior, save_posterior, to_datatree
from bayesmkl.posterior.check_plots import plot_pareto_k, plot_posterior_predictive


def finding(collection):
    return collection.viz["figure"].item().get_suptitle()


def axes_of(collection, *names):
    return [collection.viz["plot"][name].item() for name in names]


def test_calibration_is_the_isotonic_fit_to_the_labels(binary_model):
    tree = to_datatree(binary_model, 200, 0)
    collection = plot_posterior_predictive(tree)
    (ax,) = axes_of(collection, "y_0")
    probability = tree["posterior_predictive/y"].values.mean(axis=(0, 1))
    observed = tree["observed_data/y"].values
    x, y = next(line for line in ax.lines if len(line.get_xdata()) > 2).get_data()
    fit = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(probability, observed)
    np.testing.assert_allclose(y, fit.predict(x), atol=1e-9)
    assert np.isin(np.round(x, 9), np.round(probability, 9)).all()
    assert ax.get_xlabel() == f"probability of {binary_model.classes_[1]}"
    assert ax.get_ylabel() == "observed frequency, 94 % band"
    assert_readable(ax)


def test_coverage_is_that_of_the_replicated_targets(regression_model):
    tree = to_datatree(regression_model, 300, 1)
    collection = plot_posterior_predictive(tree, ci_prob=0.5)
    replicated, observed = tree["posterior_predictive/y"].values[0], tree["observed_data/y"].values
    covered = np.mean(
        (np.quantile(replicated, 0.25, axis=0) <= observed)
        & (observed <= np.quantile(replicated, 0.75, axis=0))
    )
    assert finding(collection) == f"50 % intervals cover {100 * covered:.3g} % of the 40 fitted samples"
    (ax,) = axes_of(collection, "y")
    assert len(ax.lines) == 51
    lines = collection.viz["observed_dist"]["y"].item()
    x, density = lines.get_data()
    np.testing.assert_allclose(np.average(x, weights=density), observed.mean(), atol=0.2 * observed.std())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["observed", "50 of the replicated"]
    assert_readable(ax)


def test_few_draws_are_all_shown(regression_model):
    collection = plot_posterior_predictive(regression_model, n_draws=7)
    (ax,) = axes_of(collection, "y")
    assert len(ax.lines) == 8


def test_classes_have_a_panel_each(several_model):
    collection = plot_posterior_predictive(several_model, n_draws=50)
    axes = axes_of(collection, "y_0", "y_1", "y_2")
    assert [ax.get_xlabel() for ax in axes] == [f"probability of {label}" for label in several_model.classes_]
    assert_readable(*axes)


def test_saved_posterior_makes_the_same_plot(binary_model, tmp_path):
    tree = to_datatree(binary_model, 50, 0)
    save_posterior(tree, tmp_path / "posterior.nc")
    one, other = (
        plot_posterior_predictive(tree),
        plot_posterior_predictive(load_posterior(tmp_path / "posterior.nc")),
    )
    assert finding(one) == finding(other)
    for a, b in zip(axes_of(one, "y_0")[0].lines, axes_of(other, "y_0")[0].lines, strict=True):
        np.testing.assert_array_equal(a.get_data(), b.get_data())


def test_draws_and_given_collection(binary_model):
    sampled = refined_a_little(binary_model, 25)
    first = plot_posterior_predictive(sampled)
    assert plot_posterior_predictive(sampled, plot_collection=first) is first


def test_missing_targets_are_named(binary_model):
    with pytest.raises(ValueError, match="DataTree without posterior_predictive/y, the replicated targets"):
        plot_posterior_predictive(to_datatree(binary_model, 10, 0, pointwise=False))
    with pytest.raises(ValueError, match="`ci_prob` must be between 0 and 1"):
        plot_posterior_predictive(binary_model, ci_prob=0.0)
    with pytest.raises(TypeError, match="`model` must be a BEMKLClassifier"):
        plot_posterior_predictive("model")


def test_pareto_k_is_that_of_the_diagnosis(binary_model):
    sampled = refined_a_little(binary_model, 50)
    found = diagnose(sampled, n_draws=100, random_state=0)
    k, good = found["loo"]["pareto_k"], found["loo"]["good_k"]
    assert 0 < np.sum(k > good) < 40
    for source in (found, sampled):
        collection = plot_pareto_k(source)
        ax = collection.viz["plot"].item()
        offsets = next(c for c in ax.collections if len(c.get_offsets()) == 40).get_offsets()
        np.testing.assert_allclose(offsets[:, 0], np.arange(40))
        np.testing.assert_allclose(offsets[:, 1], k)
        (crosses,) = (line for line in ax.lines if line.get_marker() == "X")
        np.testing.assert_array_equal(crosses.get_xdata(), np.flatnonzero(k > good))
        assert finding(collection) == (
            f"{np.sum(k > good)} of 40 samples have a k-hat above {good:.2f}:\nleave-one-out cannot be trusted there"
        )
        assert_readable(ax)


def test_pareto_k_of_arviz_results(rng):
    log_likelihood = 0.1 * rng.normal(size=(2, 300, 12))
    tree = from_dict({"posterior": {"a": log_likelihood[..., 0]}, "log_likelihood": {"y": log_likelihood}})
    result = loo(tree, pointwise=True)
    collection = plot_pareto_k(result)
    offsets = next(
        c for c in collection.viz["plot"].item().collections if len(c.get_offsets()) == 12
    ).get_offsets()
    np.testing.assert_allclose(offsets[:, 1], result.pareto_k.values)
    expected = f"0 of 12 samples have a k-hat above {result.good_k:.2f}:\nleave-one-out can be trusted"
    assert finding(collection) == expected
    with pytest.raises(TypeError, match="`model` must be a BEMKLClassifier"):
        plot_pareto_k(loo(tree, pointwise=False))
