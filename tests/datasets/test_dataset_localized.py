"""Localized data: the stated truth is the truth, and no view knows it alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from bayesmkl.datasets import make_localized


@pytest.mark.parametrize("design", ["hours", "halves", "regions", "global"])
def test_the_truth(design):
    sample = make_localized(40_000, design=design, noise=0.3, random_state=0)
    firsts = sample.data[:, [columns[0] for columns in sample.views.values()]]
    np.testing.assert_allclose(sample.score, (sample.gates * firsts).sum(axis=1))
    assert kstest(sample.score, "norm").pvalue > 1e-3
    best = np.where(sample.score > 0, 1, -1)
    error = 0.5 / np.sqrt(len(best))
    assert np.mean(best == sample.target) == pytest.approx(sample.bayes_accuracy, abs=4 * error)
    certain = np.maximum(sample.probability, 1.0 - sample.probability).mean()
    assert certain == pytest.approx(sample.bayes_accuracy, abs=4 * error)
    bins = np.digitize(sample.probability, [0.1, 0.3, 0.5, 0.7, 0.9])
    for b in range(6):
        inside = bins == b
        assert np.mean(sample.target[inside] == 1) == pytest.approx(
            sample.probability[inside].mean(), abs=2.0 / np.sqrt(inside.sum())
        )


@pytest.mark.parametrize("design", ["hours", "halves", "regions"])
def test_gates_choose_one_view_by_the_gate_columns_alone(design):
    sample = make_localized(6000, design=design, noise=0.0, random_state=1)
    assert sample.bayes_accuracy == 1.0
    assert set(np.unique(sample.probability)) <= {0.0, 1.0}
    assert set(np.unique(sample.gates)) == {0.0, 1.0}
    assert (sample.gates.sum(axis=1) == 1.0).all()
    n_views = sample.gates.shape[1]
    np.testing.assert_allclose(sample.gates.mean(axis=0), 1.0 / n_views, atol=0.03)
    for m, columns in enumerate(sample.views.values()):
        right = np.sign(sample.data[:, columns[0]]) == sample.target
        own = sample.gates[:, m] == 1.0
        assert right[own].all()
        assert right[~own].mean() == pytest.approx(0.5, abs=0.04)


def test_where_views_tell():
    hours = make_localized(500, random_state=2)
    hour = hours.data[:, hours.gate_columns[0]]
    assert 0.0 <= hour.min() < 1.0
    assert 23.0 < hour.max() < 24.0
    np.testing.assert_array_equal(hours.gates[:, 0] == 1.0, (hour >= 6.0) & (hour < 18.0))
    halves = make_localized(500, design="halves", random_state=2)
    np.testing.assert_array_equal(halves.gates[:, 1] == 1.0, halves.data[:, -1] > 0)
    regions = make_localized(500, design="regions", random_state=2)
    angle = np.degrees(np.arctan2(*regions.data[:, [-1, -2]].T)) + 180.0
    np.testing.assert_array_equal(regions.gates.argmax(axis=1), angle // 120.0)


def test_global_data_do_not_depend_on_the_gate_column():
    sample = make_localized(20_000, design="global", random_state=4)
    assert len(np.unique(sample.gates)) == 1
    assert abs(np.corrcoef(sample.data[:, -1], sample.target * sample.data[:, 0])[0, 1]) < 0.03
