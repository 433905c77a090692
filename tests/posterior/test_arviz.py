"""ArviZ's own functions work on our DataTrees, on the versions of both supported Pythons."""

from __future__ import annotations

import sys

import arviz_plots
import arviz_stats
import numpy as np
import pytest
from matplotlib import pyplot

from bayesmkl.posterior import to_datatree


def test_other_library_summary_agrees_with_the_posterior(binary_model):
    tree = to_datatree(binary_model, 4000, random_state=0)
    table = arviz_stats.summary(
        tree, var_names=["kernel_weights"], ci_prob=0.94, kind="stats", round_to="none"
    )
    std = binary_model.kernel_weights_std_
    np.testing.assert_allclose(
        table["mean"].astype(float), binary_model.kernel_weights_, atol=0.1 * std.max()
    )
    np.testing.assert_allclose(table["sd"].astype(float), std, rtol=0.1)
    assert list(table.index) == [f"kernel_weights[{name}]" for name in binary_model.kernel_names_]


def test_other_library_forest_plot_draws_every_kernel(binary_model):
    tree = to_datatree(binary_model, 100, random_state=0)
    drawn = arviz_plots.plot_forest(tree, var_names=["kernel_weights"], backend="matplotlib")
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
