"""Plots of decisions and gates: what is drawn is what the models say, for every classifier."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from cases import EVERY, quick
from matplotlib.colors import to_rgb
from matplotlib.contour import QuadContourSet
from scipy.spatial.distance import pdist
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import KernelBank
from bayesmkl._utils.axes import COLORS
from bayesmkl.discriminative import (
    CLMKLClassifier,
    LDMKLClassifier,
    LMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.discriminative.plots import (
    BOUNDARY,
    CLASS_COLORS,
    KERNEL_COLORS,
    plot_decision,
    plot_gates,
)
from bayesmkl.kernels import Gaussian, Polynomial

BANK = KernelBank([Polynomial(degree=2), Gaussian(width=0.5)], normalize=None)
CLASSIFIERS = [name for name in EVERY if name.endswith("Classifier")]


def halves(n_samples=80):
    """One class inside the other on the right, classes above and below on the left."""
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [rng.uniform([-4, -2], [0, 2], (n_samples // 2, 2)), rng.normal([2, 0], 0.7, (n_samples // 2, 2))]
    )
    y = np.where(X[:, 0] < 0, X[:, 1] > 0.3 * (X[:, 0] + 2), ((X - [2, 0]) ** 2).sum(axis=1) < 0.5)
    return X, np.where(y, "red", "blue")


X, Y = halves()
THREE = np.where(X[:, 0] < -1, "left", np.where(X[:, 1] > 0, "top", "low"))


@pytest.fixture(scope="module")
def fitted():
    models = {
        "uniform": UniformMKLClassifier(BANK),
        "lmkl": LMKLClassifier(BANK),
        "ldmkl": LDMKLClassifier(BANK, gate_kernel=Gaussian(width=1.5), gate_targets="train"),
    }
    return {name: model.fit(X, Y) for name, model in models.items()}


@functools.cache
def quickly_fitted(name):
    return quick(name).fit(X, Y)


def lines(ax, style, color=None):
    """Vertices of the contours of a line style and color, as they are drawn."""
    found = [
        contour
        for contour in ax.collections
        if isinstance(contour, QuadContourSet)
        and not contour.filled
        and contour.linestyles == style
        and (color is None or np.allclose(contour.get_edgecolor()[0, :3], to_rgb(color)))
    ]
    return np.concatenate([path.vertices for contour in found for path in contour.get_paths()])


def regions(ax):
    """Paths of the tinted regions, by color."""
    return {
        tuple(np.round(contour.get_facecolor()[0, :3], 3)): contour.get_paths()[0]
        for contour in ax.collections
        if isinstance(contour, QuadContourSet) and contour.filled
    }


def scatter(ax, label):
    (points,) = [c for c in ax.collections if c.get_label() == label]
    return points


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ------------------------------------------------------------------------------------------------- plot_decision


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_is_drawn_with_its_support_points_circled(name):
    model = quickly_fitted(name)
    ax = plot_decision(model, X, Y, resolution=12)
    circles = np.asarray(scatter(ax, "support point").get_offsets())
    np.testing.assert_array_equal(circles, X[model.support_])
    assert ax.get_title(loc="left") == f"{name}: {len(model.support_)} support points of {len(X)}"


@pytest.mark.parametrize("name", ["uniform", "lmkl"])
def test_lines_are_where_the_score_is_zero_and_one(fitted, name):
    model = fitted[name]
    ax = plot_decision(model, X, Y)
    spread = model.decision_function(X).std()
    for level, drawn in (
        (0.0, lines(ax, "solid", BOUNDARY)),
        (-1.0, lines(ax, "dashed", CLASS_COLORS[0])),
        (1.0, lines(ax, "dashed", CLASS_COLORS[1])),
    ):
        assert len(drawn) > 20
        np.testing.assert_allclose(model.decision_function(drawn), level, atol=0.02 * spread)


@pytest.mark.parametrize("name", ["lmkl", "ldmkl"])
def test_a_place_has_the_color_of_the_kernel_with_the_largest_gate(fitted, name):
    model = fitted[name]
    ax = plot_decision(model, X, Y, resolution=100)
    drawn = regions(ax)
    assert len(drawn) == 2
    places = np.random.default_rng(1).uniform([-4, -2], [3, 2], (300, 2))
    gates = model.gates(places)
    clear = np.abs(gates[:, 0] - gates[:, 1]) > 0.03
    assert clear.mean() > 0.7
    for m, color in enumerate(KERNEL_COLORS[:2]):
        inside = drawn[tuple(np.round(to_rgb(color), 3))].contains_points(places[clear])
        np.testing.assert_array_equal(inside, gates[clear].argmax(axis=1) == m)
    share = f"(largest gate at {100 * (model.gates().argmax(axis=1) == 0).mean():.0f} %)"
    assert f"polynomial(degree=2) · all {share}" in legend(ax)


@pytest.mark.heavy
def test_pipelines_and_searches_are_drawn_in_the_units_of_the_user():
    scaled = 100.0 * X + [3000.0, 0.0]
    frame = pd.DataFrame(scaled, columns=["age", "dose"])
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), LMKLClassifier(BANK))
    search = GridSearchCV(pipeline, {"lmklclassifier__C": [1.0, 2.0]}, cv=2).fit(frame, Y)
    ax = plot_decision(search, frame, pd.Series(Y), resolution=60)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "dose")
    drawn = pd.DataFrame(lines(ax, "solid", BOUNDARY), columns=["age", "dose"])
    assert (
        np.abs(search.decision_function(drawn)).max() < 0.05 * np.abs(search.decision_function(frame)).max()
    )
    circles = np.asarray(scatter(ax, "support point").get_offsets())
    np.testing.assert_array_equal(circles, scaled[search.best_estimator_[-1].support_])


def test_borders_of_several_classes_are_where_the_two_highest_scores_are_equal():
    model = CLMKLClassifier(BANK, random_state=0).fit(X, THREE)
    ax = plot_decision(model, X, THREE, resolution=80)
    ranked = np.sort(model.decision_function(lines(ax, "solid", BOUNDARY)), axis=1)
    assert np.abs(ranked[:, -1] - ranked[:, -2]).max() < 0.05 * np.ptp(ranked)
    assert not regions(ax)
    assert legend(ax) == ["left", "low", "top", "support point", "boundary"]


def test_label_chooses_one_class_against_the_rest():
    model = LDMKLClassifier(BANK, gate_kernel=Gaussian(width=2)).fit(X, THREE)
    k = list(model.classes_).index("top")
    ax = plot_decision(model, X, THREE, label="top")
    assert np.abs(model.decision_function(lines(ax, "solid", BOUNDARY))[:, k]).max() < 0.02
    support = np.flatnonzero(np.abs(model.dual_coef_[k]).max(axis=0) > 1e-8)
    assert len(support) < len(model.support_)
    np.testing.assert_array_equal(np.asarray(scatter(ax, "support point").get_offsets()), X[support])
    assert ax.get_title(loc="left") == f"LDMKLClassifier, class top: {len(support)} support points of 80"


# ---------------------------------------------------------------------------------------------------- plot_gates


def heights(ax):
    """What is drawn for each kernel, from left to right: (n_kernels, n_samples)."""
    return np.array([np.asarray(points.get_offsets())[:, 1] for points in ax.collections])


def test_gates_are_sorted_by_the_leading_kernel(fitted):
    gates = fitted["lmkl"].gates()
    drawn = heights(plot_gates(fitted["lmkl"]))
    assert sorted(map(tuple, drawn.T)) == sorted(map(tuple, gates))
    leading = drawn.argmax(axis=0)
    assert (np.diff(leading) >= 0).all()
    assert (np.diff(drawn[0]) <= 1e-12).all()  # of two kernels one falls from left to right


def test_gates_of_new_samples_follow_the_values_they_are_sorted_by(fitted):
    new = X[:30] + 0.1
    age = pd.Series(new[:, 1], name="age")
    ax = plot_gates(fitted["ldmkl"], new, order_by=age)
    np.testing.assert_array_equal(heights(ax), fitted["ldmkl"].gates(new)[np.argsort(new[:, 1])].T)
    assert ax.get_xlabel() == "samples, sorted by age"
    assert ax.get_xticklabels()[0].get_text() == f"{new[:, 1].min():.3g}"
    assert ax.get_xticklabels()[-1].get_text() == f"{new[:, 1].max():.3g}"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_gates_of_every_classifier_are_drawn(name):
    model = quickly_fitted(name)
    ax = plot_gates(model)
    assert ax.get_title(loc="left") == f"{name}: gates of {len(X)} samples"
    drawn = heights(ax) if ax.collections else np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(np.sort(drawn.sum(axis=0)), np.sort(model.gates().sum(axis=1)))


def test_gates_that_need_features_take_them():
    features = X[:, :1]
    stack = BANK.fit_transform(X)
    model = LMKLClassifier("precomputed").fit(stack, Y, gate_features=features)
    ax = plot_gates(model, stack[:9], gate_features=features[:9], order_by=features[:9, 0])
    order = np.argsort(features[:9, 0])
    np.testing.assert_allclose(heights(ax), model.gates(stack[:9], features[:9])[order].T)


# What is seen without cones of one kind, in linear light (Machado, Oliveira and Fernandes 2009).
SEEN = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def cielab(color, seen):
    light = np.array(to_rgb(color))
    light = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(TO_XYZ @ np.clip(np.asarray(seen) @ light, 0.0, 1.0) / TO_XYZ.sum(axis=1))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("palette", [COLORS, CLASS_COLORS, KERNEL_COLORS])
def test_color_blind_readers_tell_the_colors_apart(palette, seen):
    assert pdist([cielab(color, SEEN[seen]) for color in palette]).min() > 15.0
