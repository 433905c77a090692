"""Plots of predicted survival show its numbers."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from bayesmkl.evaluation import kaplan_meier, survival_calibration
from bayesmkl.evaluation.plots import plot_survival_calibration, plot_survival_functions
from bayesmkl.posterior.axes import COLORS

TIMES = np.linspace(0.0, 4.0, 9)
SURVIVAL = np.exp(-np.array([[0.1], [0.5], [0.9]]) * TIMES)


@pytest.fixture
def seen(rng):
    hazard, censored = rng.uniform(0.1, 1.0, size=300), rng.uniform(0.5, 4.0, size=300)
    died = rng.exponential(1.0 / hazard)
    y = np.rec.fromarrays([died <= censored, np.minimum(died, censored)], names="event,time")
    return y, np.exp(-1.5 * hazard)


@pytest.mark.parametrize("power", [1.0, 4.0])
def test_calibration_shows_bins_and_band(seen, power):
    y, survival = seen
    found = survival_calibration(y, survival**power, 1.5)
    ax = plot_survival_calibration(found)
    points = {
        to_hex(line.get_color()).upper(): line.get_xydata() for line in ax.lines if line.get_marker() in "oD"
    }
    inside = (found.observed >= found.lower) & (found.observed <= found.upper)
    for color, which in ((COLORS[0], inside), (COLORS[1], ~inside)):
        expected = np.stack([found.predicted, found.observed], axis=1)[which]
        np.testing.assert_allclose(points.get(color, np.empty((0, 2))), expected)
    (bars,) = [item for item in ax.collections if isinstance(item, LineCollection)]
    np.testing.assert_allclose(
        [segment[:, 1] for segment in bars.get_segments()], np.stack([found.lower, found.upper], axis=1)
    )
    assert ax.get_title(loc="left") == f"{inside.sum()} of 5 bins inside the band"
    assert ax.get_xlabel() == "predicted survival at 1.5"
    assert inside.all() == (power == 1.0)
    assert pyplot.get_fignums() == []


def test_functions_show_curves_bands_and_everyone(seen):
    y, _ = seen
    ax = plot_survival_functions(TIMES, SURVIVAL, SURVIVAL**1.5, SURVIVAL**0.5, y=y, names=["a", "b", "c"])
    everyone, *lines = ax.lines
    curve = kaplan_meier(y["event"], y["time"])
    np.testing.assert_allclose(everyone.get_xydata()[1:], np.stack(curve, axis=1))
    np.testing.assert_allclose([line.get_ydata() for line in lines], SURVIVAL)
    assert len({line.get_linestyle() for line in lines}) == 3
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (SURVIVAL[0, -1] ** 1.5, 1.0)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["everyone (Kaplan-Meier)", "a", "b", "c"]


def test_functions_without_bands_and_names_on_given_axes(seen):
    first = plot_survival_functions(TIMES, SURVIVAL[:1])
    ax = plot_survival_functions(TIMES, SURVIVAL, names=["same", "same", "x" * 99], ax=first)
    assert ax is first
    assert not ax.collections
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["same", "same (1)", f"{'x' * 39}…"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_survival_functions([0.0], SURVIVAL[:, :1]), "`times` must be"),
        (lambda: plot_survival_functions(TIMES[::-1], SURVIVAL), "`times` must be a list of two increasing"),
        (
            lambda: plot_survival_functions(TIMES, SURVIVAL[:, :4]),
            "`survival` must have a row for each subject",
        ),
        (lambda: plot_survival_functions(TIMES, 2.0 * SURVIVAL), "`survival` must hold probabilities"),
        (lambda: plot_survival_functions(TIMES, np.ones((7, 9))), "at most 6 subjects"),
        (lambda: plot_survival_functions(TIMES, SURVIVAL, SURVIVAL), "`upper` must be given with `lower`"),
        (
            lambda: plot_survival_functions(TIMES, SURVIVAL, SURVIVAL, SURVIVAL[:2]),
            "`upper` must have a row for",
        ),
        (lambda: plot_survival_functions(TIMES, SURVIVAL, names=["a"]), "`names` must name each of the 3"),
        (lambda: plot_survival_functions(TIMES, SURVIVAL, y=TIMES), "`y` must be a structured array"),
        (lambda: plot_survival_functions(TIMES, SURVIVAL, ax="left"), "`ax` must be None or Axes"),
        (lambda: plot_survival_calibration([0.5]), "`calibration` must be a SurvivalCalibration; got"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
