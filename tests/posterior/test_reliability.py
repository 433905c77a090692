"""Bins, frequencies and intervals against numbers done by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import calibration_curve

from bayesmkl.posterior import reliability


def test_bins_by_hand():
    y = [0, 0, 1, 1, 0, 1]
    p = [0.0, 0.2, 0.4, 0.5, 0.9, 1.0]  # edges 0, 1/2, 1: the boundary belongs to the upper bin
    result = reliability(y, p, n_bins=2)
    np.testing.assert_allclose(result.probability, [0.2, 0.8])
    np.testing.assert_allclose(result.frequency, [1 / 3, 2 / 3])
    np.testing.assert_array_equal(result.counts, [3, 3])
    assert result.calibration_error == pytest.approx(2 / 15)


def test_wilson_interval_by_its_formula():
    k, n, z = 7, 20, stats.norm.ppf(0.97)
    center = (k / n + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(k / n * (1 - k / n) / n + z**2 / (4 * n**2))
    result = reliability(np.arange(n) < k, np.full(n, 0.5), n_bins=4)
    np.testing.assert_allclose([result.lower[0], result.upper[0]], [center - half, center + half])


def test_other_library_gives_the_same_curve(rng):
    p = rng.uniform(size=300)
    y = rng.uniform(size=300) < p**2
    frequency, probability = calibration_curve(y, p, n_bins=7)
    result = reliability(y, p, n_bins=7)
    np.testing.assert_allclose(result.frequency, frequency)
    np.testing.assert_allclose(result.probability, probability)


def test_empty_bins_are_left_out_but_counted():
    result = reliability([1, 0], [0.95, 0.05], n_bins=10)
    assert len(result.frequency) == 2
    np.testing.assert_array_equal(result.counts, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1])


@pytest.mark.heavy
def test_intervals_cover_as_often_as_they_say(rng):
    inside = []
    for _ in range(400):
        p = rng.uniform(size=100)
        result = reliability(rng.uniform(size=100) < p, p, n_bins=5)
        inside.append((result.lower <= result.probability) & (result.probability <= result.upper))
    assert 0.91 < np.mean(np.concatenate(inside)) < 0.97


def test_codings_of_the_positive_class_agree():
    p = np.array([0.2, 0.7, 0.6])
    expected = reliability([False, True, False], p)
    for y in ([0, 1, 0], [-1, 1, -1], np.array([0.0, 1.0, 0.0])):
        np.testing.assert_array_equal(reliability(y, p).frequency, expected.frequency)
    table = np.column_stack([1 - p, p])
    np.testing.assert_array_equal(reliability(["b", "m", "b"], table).frequency, expected.frequency)
    np.testing.assert_array_equal(
        reliability(["b", "m", "b"], table[:, ::-1], labels=["m", "b"]).frequency,
        1 - expected.frequency[::-1],
    )


def test_top_label_of_three_classes():
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.2, 0.6]])
    result = reliability(["a", "c", "c"], table, n_bins=2, labels=["a", "b", "c"])
    np.testing.assert_allclose(result.probability, [2.0 / 3.0])
    np.testing.assert_allclose(result.frequency, [2.0 / 3.0])
