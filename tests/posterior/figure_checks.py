"""What every figure must satisfy."""

from __future__ import annotations

import itertools

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text


@pytest.fixture(autouse=True)
def untouched_globals():
    """Plots leave no trace in matplotlib's settings, and pyplot never hears of them."""
    settings, figures = dict(matplotlib.rcParams), plt.get_fignums()
    yield
    assert dict(matplotlib.rcParams) == settings
    assert plt.get_fignums() == figures


def assert_readable(*axes):
    """Every text lies on the figure, and no two tick labels of an axis overlap."""
    figure = axes[0].figure
    renderer = figure.canvas.get_renderer()
    figure.draw(renderer)
    texts = [child for child in figure.get_children() if isinstance(child, Text)]
    for ax in axes:
        ticks = [_tick_labels(ax.xaxis, ax.get_xlim()), _tick_labels(ax.yaxis, ax.get_ylim())]
        legend = ax.get_legend()
        texts += [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, *ticks[0], *ticks[1]]
        texts += legend.get_texts() if legend else []
        texts += [text for text in ax.texts if not text.get_clip_on()]
        for labels in ticks:
            shown = [label for label in labels if label.get_text() and label.get_visible()]
            boxes = [label.get_window_extent(renderer) for label in shown]
            assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))
    for text in texts:
        if text.get_visible() and text.get_text():
            box = text.get_window_extent(renderer)
            assert box.x0 >= -1, text
            assert box.y0 >= -1, text
            assert box.x1 <= figure.bbox.x1 + 1, text
            assert box.y1 <= figure.bbox.y1 + 1, text


def _tick_labels(axis, limits):
    return [t.label1 for t in axis.get_major_ticks() if min(limits) <= t.get_loc() <= max(limits)]
