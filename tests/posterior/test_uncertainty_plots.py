"""The plane of two features: numbers at its points, and models that have no plane."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from figure_checks import assert_readable, untouched_globals  # noqa: F401
from helpers import refined_a_little
from scipy.special import xlogy

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.posterior import prediction_plots as uncertainty_plots
from bayesmkl.posterior.prediction_plots import plot_uncertainty


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["length (cm)", "mass (kg)"])
    return X, X["length (cm)"] ** 2 + X["mass (kg)"]


@pytest.fixture(scope="module")
def bank():
    return KernelBank(["rbf", "linear"], normalize="trace")


@pytest.fixture(scope="module")
def binary(plane, bank):
    X, score = plane
    return BEMKLClassifier(bank, tol=1e-4, intermediate_scale=1.0).fit(X, np.where(score > 0.7, "in", "out"))


def contour_points(ax, style):
    """Points and levels of the lines drawn in a style, "-" or "--"."""
    for lines in ax.collections:
        levels = getattr(lines, "levels", None)
        if levels is None or getattr(lines, "filled", False):
            continue
        dashed = lines.get_linestyle()[0][1] is not None
        if dashed == (style == "--"):
            for level, path in zip(levels, lines.get_paths(), strict=True):
                for point in path.vertices:
                    yield level, point


@pytest.mark.heavy
def test_boundary_and_contours_lie_where_the_model_says(binary, plane):
    X, score = plane
    ax = plot_uncertainty(binary, X, np.where(score > 0.7, "in", "out"), n_grid=80)
    boundary = np.array([point for _, point in contour_points(ax, "-")])
    assert len(boundary) > 20
    probability = binary.predict_proba(pd.DataFrame(boundary, columns=X.columns))
    np.testing.assert_allclose(probability[:, 0], 0.5, atol=0.02)
    levels, points = zip(*contour_points(ax, "--"), strict=True)
    std = binary.predict_latent(pd.DataFrame(points, columns=X.columns), return_std=True)[1]
    np.testing.assert_allclose(std, levels, atol=0.01 * np.ptp(std))
    assert_readable(ax)


def test_shading_is_the_probability_in_blocks_of_any_size(binary, plane, monkeypatch):
    X, _ = plane
    one = uncertainty_plots._predict(binary, binary, X, "std")
    monkeypatch.setattr(uncertainty_plots, "BLOCK_SIZE", 7 * 2 * 40)
    blocks = uncertainty_plots._predict(binary, binary, X, "std")
    np.testing.assert_allclose(blocks.value, binary.predict_proba(X)[:, 1])
    np.testing.assert_allclose(blocks.value, one.value)
    np.testing.assert_allclose(blocks.uncertainty, binary.predict_latent(X, return_std=True)[1])


@pytest.mark.heavy
@pytest.mark.parametrize("measure", [None, "std"])
def test_several_classes(plane, bank, measure):
    X, score = plane
    y = np.array(["low", "middle", "high"])[np.digitize(score, [0.0, 1.0])]
    model = BEMKLClassifier(bank, tol=1e-4, intermediate_scale=1.0).fit(X, y)
    ax = plot_uncertainty(model, X, y, measure=measure, n_grid=40)
    probability = model.predict_proba(X)
    if measure is None:
        expected = -xlogy(probability, probability).sum(axis=1)
        name = "Entropy of the class in nats"
    else:
        std = model.predict_latent(X, return_std=True)[1]
        expected = std[np.arange(40), probability.argmax(axis=1)]
        name = "Standard deviation of the score"
    assert ax.get_title(loc="left").startswith(f"{name}:\nmedian {np.median(expected):.2g} at the samples")
    drawn = uncertainty_plots._predict(model, model, X, measure or "entropy")
    np.testing.assert_allclose(drawn.uncertainty, expected)
    np.testing.assert_allclose(drawn.value, probability.max(axis=1))
    assert ax.figure.axes[1].get_ylabel() == "probability of the predicted class"
    points = pd.DataFrame([point for _, point in contour_points(ax, "-")], columns=X.columns)
    first, second = np.sort(model.predict_proba(points), axis=1)[:, :-3:-1].T
    assert np.quantile(np.abs(first - second), 0.9) < 0.03  # all but points where three classes meet
    assert_readable(ax)


def test_regression_shades_mean_and_targets_alike(plane, bank):
    X, score = plane
    model = BEMKLRegressor(bank, tol=1e-4).fit(X, score)
    ax = plot_uncertainty(model, X, score, n_grid=30)
    scatter = next(c for c in ax.collections if c.get_offsets().shape == (40, 2))
    np.testing.assert_allclose(scatter.get_array(), score)
    filled = next(c for c in ax.collections if getattr(c, "filled", False))
    assert scatter.norm is filled.norm
    levels, points = zip(*contour_points(ax, "--"), strict=True)
    std = model.predict(pd.DataFrame(points, columns=X.columns), return_std=True)[1]
    np.testing.assert_allclose(std, levels, atol=0.03 * np.ptp(std))
    assert ax.get_title(loc="left").startswith("Standard deviation of the target:")
    assert_readable(ax)


def test_draws_have_a_plane_too(binary, plane):
    X, score = plane
    sampled = refined_a_little(binary, 10)
    ax = plot_uncertainty(sampled, X, np.where(score > 0.7, "in", "out"), n_grid=12)
    median = np.median(sampled.predict_latent(X, return_std=True)[1])
    assert f"median {median:.2g} at the samples" in ax.get_title(loc="left")
