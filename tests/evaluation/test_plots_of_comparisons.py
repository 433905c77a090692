"""Plots of a comparison show its numbers, and can be read."""

from __future__ import annotations

import itertools
import re
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy import stats

from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.plots import (
    PLOTS,
    _draw_distance,
    plot,
    plot_critical_difference,
    plot_learning_curve,
    plot_pairwise,
    plot_ranks,
    plot_scores,
    plot_time,
    short_names,
    spaced,
)
from bayesmkl.evaluation.significance import nemenyi, pairwise, rank_table, win_matrix, wins


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


@pytest.fixture(scope="module")
def many():
    """25 models, some of whose long names begin the same."""
    names = [
        f"Model {i}" if i % 6 else f"SimpleMKLClassifier over the whole bank, C={10 ** (i // 6)}"
        for i in range(25)
    ]
    return comparison_of(names, 3, 3, np.random.default_rng(0), failing=names[20:21])


def row_names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def printed(ax):
    """Return the texts of axes that come to paper, with their boxes."""
    texts = [*ax.texts, ax.title, ax._left_title, ax.xaxis.label]
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        inside = [low <= place <= high for place in axis.get_ticklocs()]
        texts += itertools.compress(axis.get_ticklabels(), inside) if axis.get_visible() else []
    return [(text.get_text(), Text.get_window_extent(text)) for text in texts if text.get_text()]


def overlapping(boxes):
    return [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1.0 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1.0
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [kind for kind in PLOTS if kind != "learning_curve"])  # which has no names
def test_many_models_are_readable(many, kind):
    if kind == "critical_difference":
        pytest.importorskip("scikit_posthocs")
    before = dict(matplotlib.rcParams)
    ax = plot(many, kind)
    figure = ax.figure
    figure.draw_without_rendering()
    for panel in figure.axes:
        if panel.get_visible():
            boxes = printed(panel)
            assert overlapping(boxes) == []
            inside = [figure.bbox.padded(1.0).count_contains(box.corners()) == 4 for _, box in boxes]
            assert all(inside), list(itertools.compress(boxes, np.logical_not(inside)))
    in_texts = kind in ("critical_difference", "time")  # where models that failed are left out
    shown = [text.get_text() for text in ax.texts] if in_texts else row_names(ax)
    shown = [re.sub(r" \(1 of .*| *\d+\.\d\d *", "", text) for text in shown]
    for model, name in short_names(many.models).items():
        assert shown.count(name) == (0 if in_texts and model == "Model 20" else 1)
    assert pyplot.get_fignums() == []
    assert dict(matplotlib.rcParams) == before


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

    def test_has_a_panel_for_each_data_set(self, few):
        ax = plot_scores(few)
        assert [panel.get_title("left") for panel in ax.figure.axes] == ["set 0", "set 1", "set 2"]
        assert "trees (1 of 15 missing)" in row_names(ax)
        assert "accuracy (higher is better)" in ax.figure.get_supxlabel()

    def test_the_lowest_error_is_best(self, few):
        ax = plot_scores(few, "log_loss", dataset="set 1")
        means = {line.get_ydata()[0]: line.get_marker() for line in ax.lines if len(line.get_ydata()) == 1}
        assert row_names(ax)[0] == "slow svm"
        assert means == {0: "D", 1: "o", 2: "o", 3: "o"}
        assert "lower is better" in ax.get_xlabel()

    def test_draws_on_given_axes(self, few):
        figure = Figure()
        ax = figure.subplots()
        assert plot_scores(few, dataset="set 2", ax=ax) is ax
        with pytest.raises(ValueError, match="`ax` must be"):
            plot_scores(few, dataset="set 2", ax=3)
        with pytest.raises(
            ValueError, match=r"`ax` holds one data set; choose one of \['set 0', 'set 1', 'set 2'\]"
        ):
            plot_scores(few, ax=ax)

    def test_a_single_split_has_no_interval(self, rng):
        ax = plot_scores(comparison_of(["A", "B"], 1, 1, rng))
        assert [np.ptp(part.get_segments()[0][:, 0]) for part in ax.collections] == [0.0, 0.0]

    def test_a_model_without_any_score_says_so(self, one):
        one.cells.loc[one.cells["model"] == "A", "accuracy"] = np.nan
        ax = plot_scores(one)
        assert [text.get_text() for text in ax.texts] == ["no score"]
        assert row_names(ax)[-1] == "A (6 of 6 missing)"


class TestLearningCurve:
    def test_shows_means_and_a_band_over_training_rows(self, one, few):
        cells = one.cells.assign(n_train=20 * (1 + one.cells["split"] // 2))  # two splits of three sizes
        one = Comparison(cells, one.about)
        ax = plot(one, "learning_curve", "log_loss", models=["C", "A"])
        assert len(ax.lines) == 2
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("training rows", "log loss (nats) (lower is better)")
        ax = plot_learning_curve(one)
        table = one.learning_curve()
        for line, band, model in zip(ax.lines, ax.collections, "ABC", strict=True):
            own = table[table["model"] == model]
            assert line.get_xdata().tolist() == [20, 40, 60]
            assert line.get_ydata() == pytest.approx(own["mean"])
            for corner in band.get_paths()[0].vertices:
                at = own[own["n_train"] == corner[0]].iloc[0]
                assert abs(corner[1] - at["mean"]) == pytest.approx(at["std"])
        with pytest.raises(ValueError, match="there are several"):
            plot_learning_curve(few)
        with pytest.raises(
            ValueError, match=r"train on as many rows\. Give compare_models splits of several sizes"
        ):
            plot_learning_curve(few, dataset="set 1")
        with pytest.raises(ValueError, match="`models` must be one to 6 of those that have scores"):
            plot_learning_curve(one, models=["D"])


class TestTime:
    def test_shows_scores_and_seconds(self, few):
        ax = plot_time(few)
        points = ax.collections[0].get_offsets()
        means = few.scores().groupby(level=0).mean().mean()
        expected = {"slow svm": 0.011, "MKL": 0.021, "worst": 0.081}
        assert sorted(points[:, 0]) == pytest.approx(sorted(expected.values()))
        assert dict(zip(np.round(points[:, 0], 3), points[:, 1], strict=True)) == pytest.approx(
            {seconds: means[model] for model, seconds in expected.items()}
        )
        assert "without trees (failed)" in ax.get_title("left")
        assert ax.get_xscale() == "log"

    def test_fills_those_that_nothing_beats(self, few):
        few.cells["fit_seconds"] = few.cells["model"].map(
            {"slow svm": 9.0, "MKL": 0.1, "trees": 1.0, "worst": 0.5}
        )
        ax = plot_time(few, "log_loss")
        bold = {text.get_text() for text in ax.texts if text.get_fontweight() == "bold"}
        assert bold == {"slow svm", "MKL"}

    def test_says_when_nothing_is_complete(self, one):
        one.cells.loc[one.cells["split"] == 2, "accuracy"] = np.nan
        one.cells.loc[(one.cells["split"] == 2) & (one.cells["model"] == "A"), "accuracy"] = 0.5
        one.cells.loc[(one.cells["split"] == 3) & (one.cells["model"] == "A"), "accuracy"] = np.nan
        with pytest.raises(ValueError, match=r"No model has a finite accuracy on every split"):
            plot_time(one)

    def test_names_keep_their_distance(self, rng):
        wanted = np.array([0.5, 0.51, 0.0, 0.98, 0.99, 1.0])
        places = spaced(wanted, 0.1)
        assert (np.argsort(places) == np.argsort(wanted)).all()
        assert np.diff(np.sort(places)).min() >= 0.1 - 1e-12
        assert (places.min() >= 0.0, places.max() <= 1.0) == (True, True)
        assert spaced(np.array([0.2, 0.8]), 0.1) == pytest.approx([0.2, 0.8])
        assert spaced(rng.uniform(size=40), 0.1).max() <= 1.0 + 1e-12


class TestRanks:
    def test_shows_mean_ranks(self, few):
        ax = plot_ranks(few)
        table = rank_table(few.scores())
        assert row_names(ax) == list(table.index)
        shown = [line.get_xdata()[0] for line in ax.lines]
        assert shown == pytest.approx(table["mean_rank"].dropna().tolist())
        assert [text.get_text() for text in ax.texts] == ["no result in 1 of 3"]
        assert "critical difference" in ax.get_xlabel()

    def test_ranks_splits_of_one_data_set(self, one):
        label = " ".join(plot_ranks(one).get_xlabel().split())
        assert "in 6 splits of set 0" in label
        assert "critical difference" not in label  # splits are not independent


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

    @pytest.mark.parametrize(("distance", "end"), [(1.5, 2.5), (7.0, 6.0)])
    def test_distance_is_drawn_from_the_best_rank_on(self, distance, end):
        ax = Figure().subplots()
        ax.plot([1.0, 6.0], [0.0, -2.0])
        _draw_distance(ax, pd.Series(np.arange(1.0, 7.0)), distance)
        assert sorted(ax.get_xlim()) == [1.0, 6.0]
        assert ax.get_xticks().tolist() == [1, 2, 3, 4, 5, 6]
        assert list(ax.lines[-1].get_xdata()) == [1.0, end]
        (text,) = ax.texts
        assert text.get_text() == f"critical difference {distance:.2f}" + " (beyond the axis)" * (end == 6.0)
        assert text.get_position()[0] == pytest.approx(0.5 * (1.0 + end))

    def test_needs_several_data_sets(self, one):
        with pytest.raises(ValueError, match=r"at least 2 data sets; got 1"):
            plot_critical_difference(one)

    def test_without_the_library(self, few, monkeypatch):
        monkeypatch.setitem(sys.modules, "scikit_posthocs", None)
        with pytest.raises(ImportError, match=r"pip install \"bayesmkl\[compare\]\""):
            plot_critical_difference(few)


def square(ax):
    """Return the texts of a plot of pairs by the names of its rows and columns."""
    names = row_names(ax)
    table = pd.DataFrame("", index=names, columns=[label.get_text() for label in ax.get_xticklabels()])
    for text in ax.texts:
        x, y = text.get_position()
        table.iloc[int(y), int(x)] = text.get_text()
    return table


class TestPairwise:
    def test_shows_p_values_with_the_sign_of_the_row(self, one):
        ax = plot_pairwise(one)
        shown = square(ax)
        for row in pairwise(one.scores(), test_train_ratio=20 / 80).to_dict("records"):
            there, back = shown.loc[row["first"], row["second"]], shown.loc[row["second"], row["first"]]
            p = there.lstrip("+−")
            assert p == back.lstrip("+−")
            assert (
                p == "<.001"
                if row["p_adjusted"] < 0.001
                else float(p) == pytest.approx(row["p_adjusted"], abs=6e-3)
            )
            signs = {row["first"]: ("+", "−"), row["second"]: ("−", "+"), "": ("", "")}[row["better"]]
            assert (there[: len(there) - len(p)], back[: len(back) - len(p)]) == signs
        values = ax.images[0].get_array().filled(0.0)
        assert (values == -values.T).all()
        assert "Nadeau and Bengio" in ax.get_xlabel()

    def test_counts_data_sets(self, few):
        shown = square(plot_pairwise(few))
        expected = win_matrix(wins(few.scores(), "corrected_t", test_train_ratio=20 / 80)).replace("—", "")
        pd.testing.assert_frame_equal(shown, expected.loc[shown.index, shown.columns], check_names=False)

    def test_shows_probabilities(self, one):
        pytest.importorskip("baycomp")
        shown = square(plot_pairwise(one, test="bayesian", rope=0.02))
        table = pairwise(one.scores(), "bayesian", test_train_ratio=20 / 80, rope=0.02)
        for row in table.to_dict("records"):
            assert shown.loc[row["first"], row["second"]] == f"{100 * row['p_first']:.0f}"
            assert shown.loc[row["second"], row["first"]] == f"{100 * row['p_second']:.0f}"

    def test_better_and_worse_differ_in_grey(self, rng):
        ax = plot_pairwise(comparison_of(list("ABCDEF"), 1, 10, rng), test="paired_t")
        (image,) = ax.images
        values = image.get_array()
        greys = image.to_rgba(values)[..., :3] @ [0.2126, 0.7152, 0.0722]
        better, worse = (values > 0).filled(fill_value=False), (values < 0).filled(fill_value=False)
        assert better.any()
        assert (better == worse.T).all()
        assert greys[worse].min() - greys[better].max() > 0.15
        for text in ax.texts:
            x, y = text.get_position()
            assert text.get_color() == ("white" if greys[int(y), int(x)] < 0.5 else "black")
        assert "dark blue: row better, pale orange: row worse" in " ".join(ax.get_xlabel().split())

    def test_untested_pairs_are_empty(self, few):
        shown = square(plot_pairwise(few, dataset="set 0"))
        assert (shown["trees"] == "").all()
        assert (shown.loc["trees"] == "").all()
        assert shown.loc["slow svm", "worst"] != ""


def test_unknown_names_are_refused(few):
    with pytest.raises(ValueError, match=r"`kind` must be one of 'scores', 'ranks'.*got 'histogram'"):
        plot(few, "histogram")
    with pytest.raises(ValueError, match=r"`metric` must be one of"):
        plot(few, "ranks", "f1")
    with pytest.raises(ValueError, match=r"`dataset` must be one of"):
        plot(few, "scores", dataset="set 9")


def test_short_names_stay_different():
    names = ["a" * 40 + "x", "a" * 40 + "y", "b", "c" * 28]
    short = short_names(names)
    assert len(set(short.values())) == 4
    assert max(map(len, short.values())) <= 28
    assert (short["b"], short["c" * 28]) == ("b", "c" * 28)
    middles = ["a" * 20 + middle + "z" * 20 for middle in "xy"]
    assert len(set(short_names(middles).values())) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["scores", "ranks", "critical_difference", "pairwise", "time"])
def test_names_with_dollar_signs_are_no_formulas(kind, rng, tmp_path):
    names = ["cost in $", r"a $\frac$ b", "$x_1$", "$"]
    ax = comparison_of(names, 3, 5, rng).plot(kind)
    ax.figure.savefig(tmp_path / "plot.png")  # formulas that cannot be read would raise here
    texts = [t for t in ax.figure.findobj(Text) if "$" in t.get_text() and "mathdefault" not in t.get_text()]
    assert len(texts) >= len(names)
    assert not any(text.get_parse_math() for text in texts)
