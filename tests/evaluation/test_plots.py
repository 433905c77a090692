"""Plots of comparisons and of predicted survival show their numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.text import Text
from scipy import stats

from bayesmkl._utils.axes import COLORS
from bayesmkl.evaluation import kaplan_meier, survival_calibration
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.plots import (
    plot_critical_difference,
    plot_scores,
    plot_survival_calibration,
    plot_survival_functions,
)
from bayesmkl.evaluation.significance import nemenyi, rank_table


def comparison_of(names, n_datasets, n_splits, rng, failing=()):
    """Models, the later the worse and the slower; `failing` have no score on the first split."""
    datasets = [f"set {d}" for d in range(n_datasets)]
    cells = pd.DataFrame(
        list(itertools.product(datasets, names, range(n_splits))), columns=["dataset", "model", "split"]
    )
    place = cells["model"].map({name: i for i, name in enumerate(names)})
    failed = cells["model"].isin(failing) & (cells["dataset"] == "set 0") & (cells["split"] == 0)
    cells = cells.assign(
        n_samples=100,
        n_train=80,
        n_test=20,
        fit_seconds=0.01 * 2.0**place,
        predict_seconds=0.001,
        error=np.where(failed, "ValueError: no", ""),
        accuracy=(0.9 - 0.01 * place + rng.normal(0.0, 0.01, size=len(cells))).mask(failed),
        log_loss=0.3 + 0.01 * place,
    )
    return Comparison(cells, {"metrics": {"accuracy": True, "log_loss": False}})


@pytest.fixture
def few(rng):
    return comparison_of(["slow svm", "MKL", "trees", "worst"], 3, 5, rng, failing=["trees"])


@pytest.fixture
def one(rng):
    return comparison_of(["A", "B", "C"], 1, 6, rng)


def row_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


class TestScores:
    def test_shows_means_and_corrected_intervals(self, one):
        ax = plot_scores(one)
        scores = one.scores().droplevel(0)
        order = list(rank_table(one.scores()).index)
        assert row_names(ax) == order
        for row, model in enumerate(order):
            values = scores[model]
            dots, mean = ax.lines[2 * row : 2 * row + 2]
            assert sorted(dots.get_xdata()) == sorted(values)
            half = stats.t.ppf(0.975, 5) * np.sqrt((1 / 6 + 20 / 80) * values.var())
            (segment,) = ax.collections[row].get_segments()
            assert segment[:, 0] == pytest.approx([values.mean() - half, values.mean() + half], rel=1e-9)
            assert mean.get_xdata() == pytest.approx(values.mean())
            assert mean.get_marker() == ("D" if values.mean() == scores.mean().max() else "o")

    def test_the_lowest_error_is_best(self, few):
        ax = plot_scores(few, "log_loss", dataset="set 1")
        means = {line.get_ydata()[0]: line.get_marker() for line in ax.lines if len(line.get_ydata()) == 1}
        assert row_names(ax)[0] == "slow svm"
        assert means == {0: "D", 1: "o", 2: "o", 3: "o"}
        assert "lower is better" in ax.get_xlabel()


class TestCriticalDifference:
    def test_bars_join_what_cannot_be_told_apart(self, rng):
        pytest.importorskip("scikit_posthocs")
        found = comparison_of(list("ABCDEF"), 8, 2, rng)
        ax = plot_critical_difference(found)
        p, ranks = nemenyi(found.scores()), rank_table(found.scores())["mean_rank"]
        bars = [line.get_xdata() for line in ax.lines if line.get_linewidth() == 3.0]
        for one, other in itertools.combinations(ranks.index, 2):
            low, high = sorted((ranks[one], ranks[other]))
            joined = any(min(bar) <= low + 1e-9 and high - 1e-9 <= max(bar) for bar in bars)
            assert joined == (p.loc[one, other] >= 0.05)
        assert 0 < len(bars) < 5
        assert "Friedman's test p = " in ax.get_title("left")


def test_unknown_names_are_refused(few):
    with pytest.raises(
        ValueError, match=r"`kind` must be one of 'scores', 'critical_difference'.*got 'histogram'"
    ):
        few.plot("histogram")
    with pytest.raises(ValueError, match=r"`metric` must be one of"):
        few.plot("scores", "f1")
    with pytest.raises(ValueError, match=r"`dataset` must be one of"):
        few.plot("scores", dataset="set 9")


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["scores", "critical_difference"])
def test_names_with_dollar_signs_are_no_formulas(kind, rng, tmp_path):
    names = ["cost in $", r"a $\frac$ b", "$x_1$", "$"]
    ax = comparison_of(names, 3, 5, rng).plot(kind)
    ax.figure.savefig(tmp_path / "plot.png")  # formulas that cannot be read would raise here
    texts = [t for t in ax.figure.findobj(Text) if "$" in t.get_text() and "mathdefault" not in t.get_text()]
    assert len(texts) >= len(names)
    assert not any(text.get_parse_math() for text in texts)


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
        (lambda: plot_survival_functions(TIMES, SURVIVAL, y=TIMES), "`y` must be .* a structured array"),
        (lambda: plot_survival_functions(TIMES, SURVIVAL, ax="left"), "`ax` must be None or Axes"),
        (lambda: plot_survival_calibration([0.5]), "`calibration` must be a SurvivalCalibration; got"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
