"""Pictures: what they show is what tables and predictions say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from figure_checks import assert_readable, untouched_globals  # noqa: F401
from helpers import refined_a_little
from scipy.special import xlogy

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.posterior import (
    kernel_table,
    plot_elbo,
    plot_kernel_weights,
    plot_predictions,
    plot_reliability,
    prediction_plots,
    reliability,
)
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.prediction_plots import plot_uncertainty


def points(ax):
    """Markers and intervals by axis position: {y: (point, lower, upper)}."""
    middle = {
        y: x for line in ax.lines for x, y in np.asarray(line.get_xydata()) if line.get_marker() != "None"
    }
    ends = [segment for lines in ax.collections for segment in lines.get_segments()]
    return {segment[0, 1]: (middle[segment[0, 1]], segment[0, 0], segment[1, 0]) for segment in ends}


@pytest.mark.parametrize("kind", ["shares", "weights"])
def test_kernel_plot_shows_the_table(kind, binary_model):
    ax = plot_kernel_weights(binary_model, kind=kind, ci_prob=0.8)
    table = kernel_table(binary_model, ci_prob=0.8)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == table["kernel"].tolist()
    value, factor = (kind[:-1], 100.0 if kind == "shares" else 1.0)
    shown = points(ax)
    expected = factor * table[[value, f"{value}_lower", f"{value}_upper"]].to_numpy()
    np.testing.assert_allclose([shown[row] for row in range(len(table))], expected)
    assert ax.yaxis_inverted()  # the most important kernel is at the top
    assert "80 % interval" in ax.get_xlabel()
    assert_readable(ax)


@pytest.mark.heavy
def test_elbo_plot_shows_the_gap(binary_model, several_model):
    ax = plot_elbo(binary_model)
    history = binary_model.elbo_history_
    gap = history[-1] - history
    sweeps, shown = ax.lines[0].get_data()
    np.testing.assert_array_equal(sweeps, 1 + np.flatnonzero(gap > 0))
    np.testing.assert_array_equal(shown, gap[gap > 0])
    assert ax.get_yscale() == "log"
    assert (
        ax.get_title(loc="left")
        == f"Converged after {len(history)} sweeps; ELBO −{-binary_model.elbo_:.2f} nats"
    )
    assert_readable(ax)
    ax = plot_elbo(several_model)
    assert len(ax.lines) == 3
    assert ax.get_title(loc="left").startswith("3 of 3 models converged, within")
    assert_readable(ax)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["shares", "weights"])
def test_kernel_plot_of_draws_shows_their_quantiles(kind, binary_model):
    sampled = refined_a_little(binary_model, 20)
    ax = plot_kernel_weights(sampled, kind=kind)
    table = kernel_table(sampled)
    value, factor = (kind[:-1], 100.0 if kind == "shares" else 1.0)
    expected = factor * table[[value, f"{value}_lower", f"{value}_upper"]].to_numpy()
    shown = points(ax)
    np.testing.assert_allclose([shown[row] for row in range(len(table))], expected)
    assert "interval (not converged)" in ax.get_xlabel()
    assert "(variational: too narrow)" in plot_kernel_weights(binary_model, kind=kind).get_xlabel()
    if kind == "weights":
        weights = sampled.posterior_.flat().kernel_weights
        k = sampled.kernel_names_.tolist().index(table["kernel"][0])
        np.testing.assert_allclose(expected[0, 1:], np.quantile(weights[:, k], [0.03, 0.97]))


def test_elbo_plot_says_when_it_did_not_converge(features, bank):
    model = BEMKLClassifier(bank, max_iter=7, tol=0.0, intermediate_scale=1.0).fit(
        features, features["größe"] > 0
    )
    assert plot_elbo(model).get_title(loc="left").startswith("Not converged after 7 sweeps")


def test_reliability_plot_shows_the_bins(rng):
    p = rng.uniform(size=200)
    y = rng.uniform(size=200) < p
    ax = plot_reliability(y, p, n_bins=5)
    result = reliability(y, p, n_bins=5)
    observed = next(line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(observed.get_xydata(), np.column_stack([result.probability, result.frequency]))
    (intervals,) = ax.collections
    np.testing.assert_allclose(
        [s[:, 1] for s in intervals.get_segments()], np.column_stack([result.lower, result.upper])
    )
    below = ax.figure.axes[1]
    np.testing.assert_array_equal([bar.get_height() for bar in below.patches], result.counts)
    assert ax.get_shared_x_axes().joined(ax, below)
    assert not any(tick.label1.get_visible() for tick in ax.xaxis.get_major_ticks())  # they are below
    assert f"Calibration error {result.calibration_error:.3f} on 200 samples" in ax.get_title(loc="left")
    assert_readable(ax)
    assert_readable(below)


def test_prediction_plot_marks_what_it_misses():
    ax = plot_predictions([1.0, 2.0, 9.0], [1.1, 1.8, 3.0], [0.2, 0.2, 1.0], ci_prob=0.95)
    assert ax.get_title(loc="left") == "95 % intervals cover 66.7 % of 3 samples"
    hits, misses = ax.lines[0].get_xydata(), ax.lines[1].get_xydata()
    np.testing.assert_array_equal(hits, [[1.1, 1.0], [1.8, 2.0]])
    np.testing.assert_array_equal(misses, [[3.0, 9.0]])
    np.testing.assert_allclose(ax.collections[1].get_segments()[0][:, 1], [3.0 - 1.959964, 3.0 + 1.959964])
    assert ax.lines[0].get_marker() != ax.lines[1].get_marker()
    assert_readable(ax)


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["length (cm)", "mass (kg)"])
    return X, X["length (cm)"] ** 2 + X["mass (kg)"]


@pytest.fixture(scope="module")
def bank_of_plane():
    return KernelBank(["rbf", "linear"], normalize="trace")


@pytest.fixture(scope="module")
def binary(plane, bank_of_plane):
    X, score = plane
    return BEMKLClassifier(bank_of_plane, tol=1e-4, intermediate_scale=1.0).fit(
        X, np.where(score > 0.7, "in", "out")
    )


def contour_points(ax, style):
    """Points and levels of the lines drawn in a style, "-" or "--"."""
    for lines in ax.collections:
        levels = getattr(lines, "levels", None)
        if levels is None or getattr(lines, "filled", False):
            continue
        dashed = lines.get_linestyle()[0][1] is not None
        if dashed == (style == "--"):
            for level, path in zip(levels, lines.get_paths(), strict=True):
                for point in path.vertices:
                    yield level, point


@pytest.mark.heavy
def test_boundary_and_contours_lie_where_the_model_says(binary, plane):
    X, score = plane
    ax = plot_uncertainty(binary, X, np.where(score > 0.7, "in", "out"), n_grid=80)
    boundary = np.array([point for _, point in contour_points(ax, "-")])
    assert len(boundary) > 20
    probability = binary.predict_proba(pd.DataFrame(boundary, columns=X.columns))
    np.testing.assert_allclose(probability[:, 0], 0.5, atol=0.02)
    levels, points = zip(*contour_points(ax, "--"), strict=True)
    std = binary.predict_latent(pd.DataFrame(points, columns=X.columns), return_std=True)[1]
    np.testing.assert_allclose(std, levels, atol=0.01 * np.ptp(std))
    assert_readable(ax)


def test_shading_is_the_probability_in_blocks_of_any_size(binary, plane, monkeypatch):
    X, _ = plane
    one = prediction_plots._predict(fitted_bemkl(binary), None, X, "std")
    monkeypatch.setattr(prediction_plots, "BLOCK_SIZE", 7 * 2 * 40)
    blocks = prediction_plots._predict(fitted_bemkl(binary), None, X, "std")
    np.testing.assert_allclose(blocks.value, binary.predict_proba(X)[:, 1])
    np.testing.assert_allclose(blocks.value, one.value)
    np.testing.assert_allclose(blocks.uncertainty, binary.predict_latent(X, return_std=True)[1])


@pytest.mark.heavy
@pytest.mark.parametrize("measure", [None, "std"])
def test_several_classes(plane, bank_of_plane, measure):
    X, score = plane
    y = np.array(["low", "middle", "high"])[np.digitize(score, [0.0, 1.0])]
    model = BEMKLClassifier(bank_of_plane, tol=1e-4, intermediate_scale=1.0).fit(X, y)
    ax = plot_uncertainty(model, X, y, measure=measure, n_grid=40)
    probability = model.predict_proba(X)
    if measure is None:
        expected = -xlogy(probability, probability).sum(axis=1)
        name = "Entropy of the class in nats"
    else:
        std = model.predict_latent(X, return_std=True)[1]
        expected = std[np.arange(40), probability.argmax(axis=1)]
        name = "Standard deviation of the score"
    assert ax.get_title(loc="left").startswith(f"{name}:\nmedian {np.median(expected):.2g} at the samples")
    drawn = prediction_plots._predict(fitted_bemkl(model), None, X, measure or "entropy")
    np.testing.assert_allclose(drawn.uncertainty, expected)
    np.testing.assert_allclose(drawn.value, probability.max(axis=1))
    assert ax.figure.axes[1].get_ylabel() == "probability of the predicted class"
    points = pd.DataFrame([point for _, point in contour_points(ax, "-")], columns=X.columns)
    first, second = np.sort(model.predict_proba(points), axis=1)[:, :-3:-1].T
    assert np.quantile(np.abs(first - second), 0.9) < 0.03  # all but points where three classes meet
    assert_readable(ax)


def test_regression_shades_mean_and_targets_alike(plane, bank_of_plane):
    X, score = plane
    model = BEMKLRegressor(bank_of_plane, tol=1e-4).fit(X, score)
    ax = plot_uncertainty(model, X, score, n_grid=30)
    scatter = next(c for c in ax.collections if c.get_offsets().shape == (40, 2))
    np.testing.assert_allclose(scatter.get_array(), score)
    filled = next(c for c in ax.collections if getattr(c, "filled", False))
    assert scatter.norm is filled.norm
    levels, points = zip(*contour_points(ax, "--"), strict=True)
    std = model.predict(pd.DataFrame(points, columns=X.columns), return_std=True)[1]
    np.testing.assert_allclose(std, levels, atol=0.03 * np.ptp(std))
    assert ax.get_title(loc="left").startswith("Standard deviation of the target:")
    assert_readable(ax)


def test_draws_have_a_plane_too(binary, plane):
    X, score = plane
    sampled = refined_a_little(binary, 10)
    ax = plot_uncertainty(sampled, X, np.where(score > 0.7, "in", "out"), n_grid=12)
    median = np.median(sampled.predict_latent(X, return_std=True)[1])
    assert f"median {median:.2g} at the samples" in ax.get_title(loc="left")
