"""Pictures: what they show is what tables and predictions say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from figure_checks import assert_readable, untouched_globals  # noqa: F401
from helpers import refined_a_little

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.posterior import (
    kernel_table,
    plot_elbo,
    plot_kernel_weights,
    plot_predictions,
    plot_reliability,
    reliability,
)


def points(ax):
    """Markers and intervals by axis position: {y: (point, lower, upper)}."""
    middle = {
        y: x for line in ax.lines for x, y in np.asarray(line.get_xydata()) if line.get_marker() != "None"
    }
    ends = [segment for lines in ax.collections for segment in lines.get_segments()]
    return {segment[0, 1]: (middle[segment[0, 1]], segment[0, 0], segment[1, 0]) for segment in ends}


def test_kernel_plot_shows_the_table(binary_model):
    ax = plot_kernel_weights(binary_model, ci_prob=0.8)
    table = kernel_table(binary_model, ci_prob=0.8)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == table["kernel"].tolist()
    shown = points(ax)
    expected = 100.0 * table[["explained", "explained_lower", "explained_upper"]].to_numpy()
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
def test_kernel_plot_of_draws_shows_their_quantiles(binary_model):
    sampled = refined_a_little(binary_model, 20)
    ax = plot_kernel_weights(sampled)
    table = kernel_table(sampled)
    expected = 100.0 * table[["explained", "explained_lower", "explained_upper"]].to_numpy()
    shown = points(ax)
    np.testing.assert_allclose([shown[row] for row in range(len(table))], expected)
    assert "interval (not converged)" in ax.get_xlabel()
    assert "(variational: too narrow)" in plot_kernel_weights(binary_model).get_xlabel()
    weights = sampled.posterior_.flat().kernel_weights
    k = sampled.kernel_names_.tolist().index(table["kernel"][0])
    ends = table[["weight_lower", "weight_upper"]].to_numpy()[0]
    np.testing.assert_allclose(ends, np.quantile(weights[:, k], [0.03, 0.97]))


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
