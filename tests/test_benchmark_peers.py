"""What the comparison with peers scores, and that both sides evaluate the same kernels."""

from __future__ import annotations

import argparse

import _peer
import _peer_bayesmkl
import _peer_data
import numpy as np
import peers
import pytest


def test_scores_are_those_of_the_definitions():
    data = argparse.Namespace(regression=False, y_test=np.array([1.0, 0.0, 1.0, 0.0]))
    found = peers._scores(data, np.array([1, 0, 0, 0]), np.array([0.8, 0.1, 0.4, 0.3]))
    assert found["score"] == 0.75
    assert found["loss"] == pytest.approx(-np.mean(np.log([0.8, 0.9, 0.4, 0.7])))
    data = argparse.Namespace(regression=True, y_test=np.array([1.0, -1.0]))
    found = peers._scores(data, np.array([0.5, -1.0]), np.array([1.0, 2.0]))
    assert found["score"] == pytest.approx(1.0 - 0.125)
    constant = 0.5 * np.log(2.0 * np.pi)
    assert found["loss"] == pytest.approx((0.125 + constant + np.log(2.0) + constant) / 2.0)


def test_both_sides_evaluate_the_same_kernels():
    """What peers take as matrices are the kernels of the bank."""
    data = _peer_data.load("wdbc", 40)
    problem = _peer.Problem(data.X, data.y, data.views, data.widths, False, "cpu")
    bank = _peer_bayesmkl._bank(problem).fit(data.X)
    expected = np.moveaxis(np.asarray(bank.transform(data.X_test[:5])), -1, 0)
    np.testing.assert_allclose(
        sorted(_peer.gaussian_kernels(problem, data.X_test[:5])[:, 0, 0]), sorted(expected[:, 0, 0])
    )
    assert np.allclose(data.X.mean(axis=0), 0.0)
    assert len(data.y) == 40
