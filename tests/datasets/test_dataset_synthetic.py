"""Breiman's problems: means, covariances and Bayes errors against theory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, ncx2, norm

from bayesmkl.datasets import make_ringnorm, make_twonorm, make_waveform

MAKERS = [make_twonorm, make_ringnorm, make_waveform]
N = 40_000
MEAN = 2 / np.sqrt(20)


def log_density(X, mean, variance):
    return multivariate_normal(np.full(20, mean), variance).logpdf(X)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("n_samples", [0, -3, 2.5, True, "10"])
def test_bad_sample_size_is_refused(make, n_samples):
    with pytest.raises(ValueError, match="`n_samples` must be a whole number >= 1"):
        make(n_samples)


def test_twonorm_class_moments():
    sample = make_twonorm(N, random_state=0)
    for label in (-1, 1):
        rows = sample.data[sample.target == label]
        tolerance = 5 / np.sqrt(len(rows))
        np.testing.assert_allclose(rows.mean(axis=0), label * MEAN, atol=tolerance)
        np.testing.assert_allclose(np.cov(rows.T), np.eye(20), atol=1.5 * tolerance)
    assert np.mean(sample.target == 1) == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(N))


def test_twonorm_bayes_error_by_formula_and_monte_carlo():
    sample = make_twonorm(N, random_state=0)
    # class means are 2 * |a 1| = 2 * sqrt(20) * 2 / sqrt(20) = 4 apart, unit variance: Phi(-2)
    assert sample.bayes_error == pytest.approx(norm.cdf(-2), rel=1e-12)
    ratio = log_density(sample.data, MEAN, 1) - log_density(sample.data, -MEAN, 1)
    errors = np.mean(np.sign(ratio) != sample.target)
    assert errors == pytest.approx(sample.bayes_error, abs=4 * np.sqrt(0.0228 * 0.977 / N))


def test_ringnorm_class_moments():
    sample = make_ringnorm(N, random_state=0)
    for label, mean, variance in [(1, 0.0, 4.0), (-1, MEAN, 1.0)]:
        rows = sample.data[sample.target == label]
        tolerance = 5 * np.sqrt(variance / len(rows))
        np.testing.assert_allclose(rows.mean(axis=0), mean, atol=tolerance)
        np.testing.assert_allclose(np.cov(rows.T), variance * np.eye(20), atol=0.05 * variance)


def test_ringnorm_bayes_error_by_noncentral_chi_square_and_monte_carlo():
    sample = make_ringnorm(N, random_state=0)
    m2 = 20 * MEAN**2
    radius2 = 8 / 3 * (20 * np.log(2) - m2 / 2) + 16 / 9 * m2  # inner where |x - 4m/3|^2 < radius2
    wide_called_inner = ncx2.cdf(radius2 / 4, 20, 16 / 9 * m2 / 4)
    inner_called_wide = ncx2.sf(radius2, 20, m2 / 9)
    assert sample.bayes_error == pytest.approx((wide_called_inner + inner_called_wide) / 2, rel=1e-9)
    assert sample.bayes_error == pytest.approx(0.013, abs=0.001)  # Breiman's 1.3 %
    ratio = log_density(sample.data, 0.0, 4) - log_density(sample.data, MEAN, 1)
    errors = np.mean(np.sign(ratio) != sample.target)
    assert errors == pytest.approx(sample.bayes_error, abs=4 * np.sqrt(0.0124 * 0.988 / N))


def triangle(t, peak):
    return np.maximum(6 - np.abs(t - peak), 0)


@pytest.mark.parametrize(("label", "peaks"), [(1, (11, 15)), (2, (11, 7)), (3, (15, 7))])
def test_waveform_mean_and_covariance_of_each_class(label, peaks):
    sample = make_waveform(N, binary=False, random_state=0)
    rows = sample.data[sample.target == label]
    t = np.arange(1, 22)
    first, second = triangle(t, peaks[0]), triangle(t, peaks[1])
    np.testing.assert_allclose(rows.mean(axis=0), (first + second) / 2, atol=5 * 2 / np.sqrt(len(rows)))
    # x = second + u (first - second) + noise, var(u) = 1/12
    difference = (first - second).astype(float)
    covariance = np.outer(difference, difference) / 12 + np.eye(21)
    np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.2)
    # and u is uniform: projecting on the difference undoes the mixing up to known noise
    u = (rows - second) @ difference / (difference @ difference)
    noise = np.random.default_rng(0).standard_normal(len(u)) / np.linalg.norm(difference)
    oracle = np.random.default_rng(1).uniform(size=len(u)) + noise
    assert kstest(u, oracle).pvalue > 1e-3


def test_waveform_binary_target_is_class_two():
    sample = make_waveform(999, random_state=3)
    np.testing.assert_array_equal(sample.target == 1, sample.target_multiclass == 2)
    three = make_waveform(999, binary=False, random_state=3)
    np.testing.assert_array_equal(three.target, sample.target_multiclass)
    np.testing.assert_array_equal(three.data, sample.data)
    assert len(three.target_names) == 3
    assert len(sample.target_names) == 2
