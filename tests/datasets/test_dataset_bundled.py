"""Sets that scikit-learn ships: coding, views and return types."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets as sklearn_datasets

from bayesmkl.datasets import (
    load_diabetes,
    load_digits_views,
    load_iris,
    load_wdbc,
    load_wine,
)
from bayesmkl.datasets._bundled import load_named

LOADERS = {
    "wdbc": load_wdbc,
    "iris": load_iris,
    "wine": load_wine,
    "digits": load_digits_views,
    "diabetes": load_diabetes,
}
SHAPES = {
    "wdbc": (569, 30),
    "iris": (150, 4),
    "wine": (178, 13),
    "digits": (1797, 156),
    "diabetes": (442, 10),
}


@pytest.mark.parametrize("name", LOADERS)
def test_loader_agrees_with_the_facts_and_with_the_name(name):
    bunch = LOADERS[name]()
    assert bunch.data.shape == SHAPES[name]
    assert f"{SHAPES[name][0]} samples, {SHAPES[name][1]} features" in bunch.DESCR
    assert len(bunch.feature_names) == len(set(bunch.feature_names)) == SHAPES[name][1]
    assert bunch.name == name
    X, y = load_named(name)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


@pytest.mark.parametrize("name", ["sonar", "WDBC", 7, None])
def test_other_names_are_refused_with_those_there_are(name):
    with pytest.raises(
        ValueError, match=r"`datasets` must name data sets of the package \(wdbc, iris, .*lung\)"
    ):
        load_named(name)


@pytest.mark.parametrize("name", LOADERS)
def test_frame_and_tuple_hold_the_same_numbers(name):
    bunch = LOADERS[name]()
    X, y = LOADERS[name](return_X_y=True, as_frame=True)
    assert isinstance(X, pd.DataFrame)
    assert isinstance(y, pd.Series)
    assert list(X.columns) == bunch.feature_names
    assert {type(name) for name in bunch.feature_names} == {str}  # scikit-learn refuses two kinds of names
    np.testing.assert_array_equal(X.to_numpy(), bunch.data)
    np.testing.assert_array_equal(y.to_numpy(), bunch.target)


def test_wdbc_positive_class_is_malignant():
    bunch = load_wdbc()
    source = sklearn_datasets.load_breast_cancer()
    words = source.target_names[source.target]
    np.testing.assert_array_equal(bunch.target_names[(bunch.target + 1) // 2], words)
    assert np.count_nonzero(bunch.target == 1) == np.count_nonzero(words == "malignant") == 212
    np.testing.assert_array_equal(bunch.data, source.data)


def test_diabetes_is_in_original_units():
    bunch = load_diabetes()
    scaled = sklearn_datasets.load_diabetes().data
    z_scores = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0) / np.sqrt(442)
    np.testing.assert_allclose(z_scores, scaled, atol=1e-4)
    assert bunch.data[:, 0].min() >= 18  # age in years
    assert "target_names" not in bunch


def test_digit_views_partition_the_columns():
    digits = load_digits_views()
    columns = [column for view in digits.views.values() for column in view]
    assert columns == list(range(digits.data.shape[1]))
    np.testing.assert_array_equal(digits.data[:, digits.views["pixels"]], sklearn_datasets.load_digits().data)


def test_digit_views_match_loops_over_one_image():
    digits = load_digits_views()
    sample = 17
    image = sklearn_datasets.load_digits().images[sample]
    view = {name: digits.data[sample, columns] for name, columns in digits.views.items()}
    np.testing.assert_array_equal(view["rows"], [sum(image[i, :]) for i in range(8)])
    np.testing.assert_array_equal(view["columns"], [sum(image[:, j]) for j in range(8)])
    corners = [image[i : i + 4, j : j + 4].sum() for i in (0, 4) for j in (0, 4)]
    np.testing.assert_array_equal(view["quadrants"], corners)

    grid = np.arange(8)
    for u, v in [(0, 0), (1, 2), (5, 3), (7, 4)]:
        wave = np.exp(-2j * np.pi * (u * grid[:, None] + v * grid[None, :]) / 8)
        assert view["fourier"][u * 5 + v] == pytest.approx(abs((image * wave).sum()))

    histogram = np.zeros((2, 2, 8))
    for i in range(8):
        for j in range(8):
            up, low, left, right = max(i - 1, 0), min(i + 1, 7), max(j - 1, 0), min(j + 1, 7)
            dy = (image[low, j] - image[up, j]) / (low - up)
            dx = (image[i, right] - image[i, left]) / (right - left)
            angle = (np.arctan2(dy, dx) + np.pi) / (2 * np.pi)  # 0 to 1
            histogram[i // 4, j // 4, int(angle * 8) % 8] += np.hypot(dx, dy)
    np.testing.assert_allclose(view["gradients"], histogram.ravel())
