"""The plot of switches: what is drawn is what is so, in colors that print, on axes that nobody else sees."""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from bayesmkl.discriminative.plots.gates import OFF_ACTIVE, OFF_INACTIVE, ON, plot_switches

SWITCHES = np.array([[1, 1, 0, 1], [0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]], dtype=bool)
WEIGHTS = np.array([0.6, 0.4, 0.0, 0.0])


def colors_of(ax):
    """The color of every cell as it is drawn."""
    (image,) = ax.images
    return image.to_rgba(image.get_array(), bytes=False)[..., :3]


def test_each_cell_has_the_color_of_its_state():
    colors = colors_of(plot_switches(SWITCHES, WEIGHTS))
    for (i, m), on in np.ndenumerate(SWITCHES):
        expected = ON if on else OFF_ACTIVE if WEIGHTS[m] > 0 else OFF_INACTIVE
        np.testing.assert_allclose(colors[i, m], to_rgb(expected))


def test_given_axes_are_used_and_pyplot_never_hears_of_new_ones(tmp_path):
    given = Figure().subplots()
    assert plot_switches(SWITCHES, WEIGHTS, ax=given) is given
    before = pyplot.get_fignums()
    ax = plot_switches(np.ones((300, 69), dtype=bool), np.ones(69))
    assert pyplot.get_fignums() == before
    ax.figure.savefig(tmp_path / "switches.png")  # legend and labels fit, or the layout warns
    assert (tmp_path / "switches.png").stat().st_size > 1000
