"""Multi-view data: the stated truth is the truth, and noise views carry none of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from bayesmkl.datasets import make_multiview


def kernels_of(sample):
    return [
        rbf_kernel(sample.data[:, columns], gamma=1 / (2 * width**2))
        for columns, width in zip(sample.views.values(), sample.widths, strict=True)
    ]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_score_is_the_stated_kernel_expansion(task):
    sample = make_multiview(
        80, kernel_weights=[1.5, -0.5, 0.0], n_features=[1, 4, 3], task=task, noise=0.0, random_state=0
    )
    parts = [e * K @ sample.dual for e, K in zip(sample.kernel_weights, kernels_of(sample), strict=True)]
    score = np.sum(parts, axis=0) + sample.intercept
    np.testing.assert_allclose(sample.score, score, atol=1e-10)
    assert np.std(score) == pytest.approx(1.0)
    assert np.median(score) == pytest.approx(0.0, abs=1e-10)
    spread = np.std(parts, axis=1)
    np.testing.assert_allclose(sample.shares, spread / spread.sum())
    assert sample.shares[2] == 0.0
    expected = score if task == "regression" else np.where(score > 0, 1, -1)
    np.testing.assert_allclose(sample.target, expected, atol=1e-10)


def test_least_squares_on_the_kernel_parts_recovers_the_weights():
    sample = make_multiview(
        400, kernel_weights=[1.0, 0.5, 0.0, 0.0], task="regression", noise=0.1, random_state=1
    )
    parts = np.column_stack([K @ sample.dual for K in kernels_of(sample)] + [np.ones(400)])
    found = np.linalg.lstsq(parts, sample.target, rcond=None)[0]
    standard_error = 0.1 * np.sqrt(np.diag(np.linalg.inv(parts.T @ parts)))
    truth = np.append(sample.kernel_weights, sample.intercept)
    assert np.all(np.abs(found - truth) < 4 * standard_error)


def test_noise_has_the_stated_size_and_intercept_is_used():
    sample = make_multiview(1500, noise=0.3, intercept=2.0, task="regression", n_features=1, random_state=0)
    assert np.std(sample.target - sample.score) == pytest.approx(0.3, rel=0.08)
    assert sample.intercept == 2.0
    shifted = make_multiview(1500, noise=0.3, intercept=0.0, task="regression", n_features=1, random_state=0)
    np.testing.assert_allclose(sample.score - shifted.score, 2.0)
    assert "target_names" not in sample


def test_views_partition_the_columns_and_the_seed_fixes_them():
    sample = make_multiview(20, kernel_weights=[1, 0], n_features=(2, 3), random_state=5)
    assert sample.views == {"view1": [0, 1], "view2": [2, 3, 4]}
    assert sample.feature_names == ["view1_1", "view1_2", "view2_1", "view2_2", "view2_3"]
    np.testing.assert_allclose(sample.widths, np.sqrt([2, 3]))
    np.testing.assert_array_equal(
        sample.data, make_multiview(20, kernel_weights=[1, 0], n_features=(2, 3), random_state=5).data
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_weights": [0.0, 0.0]}, "`kernel_weights`"),
        ({"kernel_weights": []}, "`kernel_weights`"),
        ({"kernel_weights": [1.0, np.nan]}, "`kernel_weights`"),
        ({"kernel_weights": [[1.0]]}, "`kernel_weights`"),
        ({"n_features": 0}, "`n_features`"),
        ({"n_features": [2, 2]}, "`n_features`.*4 entries"),
        ({"n_features": [2, 2, 2, 1.5]}, "`n_features`"),
        ({"task": "ranking"}, "`task`"),
        ({"noise": -1}, "`noise`"),
        ({"noise": np.inf}, "`noise`"),
        ({"n_samples": 1}, "`n_samples`"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_multiview(**options)
