"""Posteriors side by side: numbers are those of the tables, densities those of the draws."""

from __future__ import annotations

import numpy as np
import pytest
from figure_checks import assert_readable, untouched_globals  # noqa: F401
from helpers import refined_a_little
from matplotlib.colors import to_hex, to_rgba

from bayesmkl.posterior import kernel_table
from bayesmkl.posterior.comparison_plots import plot_posteriors


@pytest.fixture(scope="module")
def refined(binary_model):
    return refined_a_little(binary_model, 40)


@pytest.fixture(scope="module")
def models(binary_model, refined):
    return {"VB": binary_model, "Gibbs": refined}


def intervals(ax, color):
    """Points and intervals of the model in a color, from top to bottom."""
    lines = [c for c in ax.collections if hasattr(c, "get_segments")]
    own = next(c for c in lines if np.allclose(c.get_color()[0], color))
    points = next(
        line
        for line in ax.lines
        if line.get_linestyle() == "None" and to_hex(line.get_color()) == to_hex(own.get_color()[0])
    )
    rows = np.array([segment[:, 0] for segment in own.get_segments()])
    return np.column_stack([points.get_xdata(), rows])


def table_of(model, names, value, factor):
    table = kernel_table(model).set_index("kernel").loc[names]
    return factor * table[[value, f"{value}_lower", f"{value}_upper"]].to_numpy()


def curves(ax):
    """Density curves in the order in which they were drawn."""
    return [line for line in ax.lines if len(line.get_xdata()) > 50]


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "factor"), [("shares", 100.0), ("weights", 1.0)])
def test_intervals_are_those_of_the_tables(kind, factor, models):
    ax = plot_posteriors(models, kind=kind, max_kernels=4)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == kernel_table(models["Gibbs"])["kernel"].tolist()[:4]
    for model, color in zip(models.values(), ("#0072B2", "#000000"), strict=True):
        expected = table_of(model, names, kind[:-1], factor)
        if kind == "weights" and model is models["VB"]:
            weights = [kernel_table(m).set_index("kernel")["weight"].sort_index() for m in models.values()]
            expected = expected if weights[0] @ weights[1] > 0 else -expected[:, [0, 2, 1]]
        np.testing.assert_allclose(intervals(ax, to_rgba(color)), expected)
    assert_readable(ax)


def test_ratios_are_those_of_the_standard_deviations(models):
    ax = plot_posteriors(models)
    vb, gibbs = (kernel_table(model).set_index("kernel")["share_std"] for model in models.values())
    ratio = vb / gibbs
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert [text.get_text() for text in ax.texts] == [f"VB {ratio[name]:.2f}" for name in names]
    assert ax.get_title(loc="left") == (
        f"Standard deviations relative to Gibbs: VB {ratio.median():.2f}\n"
        "(median of 6 kernels; each at the right)"
    )


def test_mirrored_weights_are_turned_to_the_reference(binary_model, refined):
    draws = refined.posterior_
    mirrored = refined_a_little(binary_model, 40)
    mirrored.posterior_ = draws._replace(kernel_weights=-draws.kernel_weights, dual=-draws.dual)
    mirrored.kernel_weights_ = -refined.kernel_weights_
    ax = plot_posteriors({"mirrored": mirrored, "Gibbs": refined}, kind="weights")
    lines = curves(ax)
    for one, other in zip(lines[:6], lines[6:], strict=True):
        np.testing.assert_allclose(one.get_xdata(), other.get_xdata(), atol=1e-9)
    one, other = (c for c in ax.collections if hasattr(c, "get_segments"))
    ends = [[segment[:, 0] for segment in lines.get_segments()] for lines in (one, other)]
    np.testing.assert_allclose(*ends)


def test_one_class_at_a_time(several_model):
    refined = refined_a_little(several_model, 15)
    for label, k in ((None, 0), ("small", 2)):
        ax = plot_posteriors({"VB": several_model, "Gibbs": refined}, label=label)
        order = np.argsort(-refined.kernel_shares_[k], kind="stable")
        names = [text.get_text() for text in ax.get_yticklabels()]
        assert names == several_model.kernel_names_[order].tolist()
        assert f"(class {several_model.classes_[k]}, median of 6 kernels" in ax.get_title(loc="left")
        ratio = (several_model.kernel_shares_std_ / refined.kernel_shares_std_)[k]
        assert f"relative to Gibbs: VB {np.median(ratio):.2f}\n" in ax.get_title(loc="left")
    with pytest.raises(ValueError, match="`label` must be one of 'big', 'middle', 'small'; got 'tiny'"):
        plot_posteriors({"VB": several_model, "Gibbs": refined}, label="tiny")
