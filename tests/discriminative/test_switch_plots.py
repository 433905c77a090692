"""The plot of switches: what is drawn is what is so, in colors that print, on axes that nobody else sees."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

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
