"""Plots show the numbers they should, nothing overlaps or is cut off, and pyplot never hears of them."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
import pytest
from figure_checks import assert_readable, untouched_globals  # noqa: F401
from helpers import refined_a_little
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.posterior import (
    kernel_table,
    plot_elbo,
    plot_kernel_weights,
    plot_predictions,
    plot_reliability,
    reliability,
)
from bayesmkl.posterior.comparison_plots import plot_posteriors
from bayesmkl.posterior.uncertainty_plots import plot_uncertainty


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


def test_views_differ_in_color_and_in_shape(binary_model):
    ax = plot_kernel_weights(binary_model)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == kernel_table(binary_model)[
        "view"
    ].unique().tolist()
    assert len({to_hex(line.get_color()) for line in ax.lines}) == 3
    assert len({line.get_marker() for line in ax.lines}) == 3


def test_more_views_than_colors_get_one_color(rng):
    X = rng.normal(size=(30, 9))
    model = BEMKLClassifier(KernelBank("rbf", views="each"), tol=1e-3, intermediate_scale=1.0).fit(
        X, X[:, 0] > 0
    )
    ax = plot_kernel_weights(model)
    assert ax.get_legend() is None
    assert len({to_hex(line.get_color()) for line in ax.lines}) == 1
    assert_readable(ax)


def test_number_of_kernels_is_limited_and_the_title_counts_all(binary_model):
    ax = plot_kernel_weights(binary_model, max_kernels=2)
    assert [t.get_text() for t in ax.get_yticklabels()] == kernel_table(binary_model)["kernel"].tolist()[:2]
    shares = np.sort(binary_model.kernel_shares_)[::-1]
    n_half = 1 + int(np.sum(np.cumsum(shares) < 0.5))
    assert ax.get_title(loc="left") == f"Half of the score comes from {n_half} of 6 kernels"


def test_weights_title_counts_intervals_without_zero(binary_model):
    table = kernel_table(binary_model)
    away = np.sum(table["weight_lower"] * table["weight_upper"] > 0)
    title = plot_kernel_weights(binary_model, kind="weights").get_title(loc="left")
    assert title == f"{away} of 6 kernel weights differ from zero (94 % interval)"


def test_classes_are_side_by_side(several_model):
    ax = plot_kernel_weights(several_model, max_kernels=4)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == several_model.classes_.tolist()
    order = np.argsort(-several_model.kernel_shares_.mean(axis=0), kind="stable")[:4]
    assert [t.get_text() for t in ax.get_yticklabels()] == several_model.kernel_names_[order].tolist()
    shown = points(ax)
    assert len(shown) == 12
    nearest = {}
    for y, (middle, _, _) in shown.items():
        nearest.setdefault(round(y), []).append(middle)
    for row, kernel in enumerate(order):
        np.testing.assert_allclose(nearest[row], 100 * several_model.kernel_shares_[:, kernel])
    assert_readable(ax)


def test_long_names_are_cut_and_stay_on_the_figure(features):
    names = {f"a view with a very long name that nobody can fit anywhere, number {j}": j for j in range(3)}
    model = BEMKLClassifier(KernelBank(["linear", "rbf"], views=names), tol=1e-3, intermediate_scale=1.0).fit(
        features, features["größe"] > 0
    )
    assert_readable(plot_kernel_weights(model))


def test_sparse_and_single_kernels_are_drawn(sparse_model, features):
    assert_readable(plot_kernel_weights(sparse_model))
    assert_readable(plot_kernel_weights(sparse_model, kind="weights"))
    single = BEMKLClassifier(KernelBank("rbf"), tol=1e-3, intermediate_scale=1.0).fit(
        features, features["größe"] > 0
    )
    ax = plot_kernel_weights(single)
    assert ax.get_title(loc="left") == "One kernel makes the whole score"
    assert_readable(ax)


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


def test_elbo_plot_refuses_samplers(binary_model):
    sampled = refined_a_little(binary_model, 10)
    with pytest.raises(
        ValueError, match=r'inference="gibbs", which has no evidence lower bound. Use `diagnose`'
    ):
        plot_elbo(sampled)


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


def test_views_are_headings(binary_model):
    ax = plot_kernel_weights(binary_model, by_view=True)
    table = kernel_table(binary_model)
    sums = table.groupby("view")["share"].sum().sort_values(ascending=False)
    expected = []
    for view, share in sums.items():
        expected.append(f"{view}: {100 * share:.0f} %")
        expected += [kernel.removesuffix(f" · {view}") for kernel in table["kernel"][table["view"] == view]]
    labels = ax.get_yticklabels()
    assert [label.get_text() for label in labels] == expected
    headings = [row for row, text in enumerate(expected) if text.endswith("%")]
    assert [row for row, label in enumerate(labels) if label.get_fontweight() == "bold"] == headings
    shown = points(ax)
    assert set(shown) == set(range(len(expected))) - set(headings)
    for view in sums.index:  # kernels lie below their own view's heading
        row = expected.index(next(text for text in expected if text.startswith(view)))
        own = table[table["view"] == view]["share"].to_numpy()
        np.testing.assert_allclose([shown[row + 1 + j][0] for j in range(len(own))], 100 * own)
    assert ax.get_legend() is None
    assert_readable(ax)


def test_views_of_hidden_kernels_have_no_heading(binary_model):
    ax = plot_kernel_weights(binary_model, by_view=True, max_kernels=1)
    first = kernel_table(binary_model).iloc[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == 2
    assert labels[0].startswith(f"{first['view']}: ")


def test_views_of_classes_are_headings(several_model):
    ax = plot_kernel_weights(several_model, by_view=True)
    table = kernel_table(several_model)
    share = (table.groupby("view")["share"].sum() / 3).max()
    assert ax.get_yticklabels()[0].get_text().endswith(f": {100 * share:.0f} %")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == several_model.classes_.tolist()
    assert len(points(ax)) == 18
    assert_readable(ax)


def test_precomputed_kernels_have_no_views(features):
    X = features.to_numpy()
    kernels = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2], axis=-1) / [10.0, 100.0]
    model = BEMKLClassifier("precomputed", tol=1e-3, intermediate_scale=1.0).fit(kernels, X[:, 0] > 0)
    with pytest.raises(ValueError, match="`by_view` needs the views of a KernelBank"):
        plot_kernel_weights(model, by_view=True)
    sampled = refined_a_little(model, 10, kernels=kernels)
    shown = points(plot_kernel_weights(sampled, kernels=kernels))
    lower = 100 * kernel_table(sampled, kernels=kernels)["share_lower"]
    np.testing.assert_allclose([shown[row][1] for row in range(2)], lower)


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


def test_reliability_plot_of_several_classes_names_the_event(rng):
    table = rng.dirichlet(np.ones(3), size=60)
    ax = plot_reliability(rng.integers(3, size=60), table)
    assert ax.figure.axes[1].get_xlabel() == "probability of the predicted class"


def test_prediction_plot_marks_what_it_misses():
    ax = plot_predictions([1.0, 2.0, 9.0], [1.1, 1.8, 3.0], [0.2, 0.2, 1.0], ci_prob=0.95)
    assert ax.get_title(loc="left") == "95 % intervals cover 66.7 % of 3 samples"
    hits, misses = ax.lines[0].get_xydata(), ax.lines[1].get_xydata()
    np.testing.assert_array_equal(hits, [[1.1, 1.0], [1.8, 2.0]])
    np.testing.assert_array_equal(misses, [[3.0, 9.0]])
    np.testing.assert_allclose(ax.collections[1].get_segments()[0][:, 1], [3.0 - 1.959964, 3.0 + 1.959964])
    assert ax.lines[0].get_marker() != ax.lines[1].get_marker()
    assert_readable(ax)


def test_given_axes_are_used(binary_model):
    figure = matplotlib.figure.Figure(figsize=(16, 4))
    axes = figure.subplots(1, 4)
    assert plot_kernel_weights(binary_model, ax=axes[0]) is axes[0]
    assert plot_elbo(binary_model, ax=axes[1]) is axes[1]
    assert plot_reliability([0, 1], [0.2, 0.8], ax=axes[2]) is axes[2]
    assert plot_predictions([1.0], [1.0], [1.0], ax=axes[3]) is axes[3]
    assert len(axes[2].child_axes) == 1  # the histogram
    assert all(ax.lines for ax in axes)


def test_errors_name_the_argument(binary_model):
    with pytest.raises(ValueError, match="`kind` must be one of 'shares', 'weights'; got 'views'"):
        plot_kernel_weights(binary_model, kind="views")
    with pytest.raises(ValueError, match="`max_kernels` must be a whole number >= 1"):
        plot_kernel_weights(binary_model, max_kernels=0)
    with pytest.raises(ValueError, match="`y_true`, `mean` and `std` must be of one length"):
        plot_predictions([1.0, 2.0], [1.0], [1.0])
    with pytest.raises(ValueError, match="`ci_prob` must be between 0 and 1"):
        plot_predictions([1.0], [1.0], [1.0], ci_prob=1.5)


def test_unfitted_models_are_refused(bank):
    X = np.zeros((3, 2))
    plots = (
        plot_kernel_weights,
        plot_elbo,
        lambda model: plot_posteriors({"one": model, "other": model}),
        lambda model: plot_uncertainty(model, X),
    )
    for plot in plots:
        with pytest.raises(NotFittedError):
            plot(BEMKLClassifier(bank, intermediate_scale=1.0))
