"""The plot of switches: what is drawn is what is so, in colors that print, on axes that nobody else sees."""

from __future__ import annotations

import numpy as np
import pytest
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


def test_samples_are_rows_in_their_order_and_kernels_columns():
    ax = plot_switches(SWITCHES, WEIGHTS)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("kernel", "training sample")
    assert list(ax.images[0].get_extent()) == [-0.5, 3.5, 4.5, -0.5]


def test_legend_gives_the_share_of_each_state():
    ax = plot_switches(SWITCHES, WEIGHTS > 0)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [
        "on (70 %)",
        "off, the kernel has no weight (20 %)",
        "off, the kernel has a weight (10 %)",
    ]


def test_states_differ_in_grey():
    luminance = np.sort([np.dot([0.2126, 0.7152, 0.0722], to_rgb(c)) for c in (ON, OFF_INACTIVE, OFF_ACTIVE)])
    assert np.diff(luminance).min() > 0.2


def test_given_axes_are_used_and_pyplot_never_hears_of_new_ones(tmp_path):
    given = Figure().subplots()
    assert plot_switches(SWITCHES, WEIGHTS, ax=given) is given
    before = pyplot.get_fignums()
    ax = plot_switches(np.ones((300, 69), dtype=bool), np.ones(69))
    assert pyplot.get_fignums() == before
    ax.figure.savefig(tmp_path / "switches.png")  # legend and labels fit, or the layout warns
    assert (tmp_path / "switches.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("switches", "active", "message"),
    [
        (SWITCHES.T, WEIGHTS, "`active` must have one entry for each of the 5 kernels of `switches`"),
        (SWITCHES, WEIGHTS[:3], r"got shape \(3,\). Pass the kernel weights"),
        (SWITCHES[None], WEIGHTS, r"`switches` must have shape \(n_samples, n_kernels\); got \(1, 5, 4\)"),
        (np.ones((0, 4)), WEIGHTS, r"`switches` must have shape \(n_samples, n_kernels\); got \(0, 4\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(switches, active, message):
    with pytest.raises(ValueError, match=message):
        plot_switches(switches, active)
