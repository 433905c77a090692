"""Covariances: draws of their parts, finite differences, new rows that are training rows, scales."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import STANDARD_ERRORS
from problems import additive, kernels

from bayesmkl.gp.covariances import kernel_units

WEIGHTS = np.array([1.2, -0.5, 0.3])


def test_matrix_is_the_covariance_of_drawn_parts(rng):
    _, stack = kernels(rng, 8)
    covariance, n = additive(stack), 100_000
    parts = WEIGHTS[:, None, None] * covariance.draw_parts(rng, n)
    scores = parts.sum(axis=0) + covariance.intercept_std * rng.standard_normal(n)
    expected = covariance.matrix(WEIGHTS)
    products = scores[:, None] * scores
    error = products.std(axis=-1) / np.sqrt(n)
    assert (np.abs(products.mean(axis=-1) - expected) < (STANDARD_ERRORS + 1) * error).all()
    one = (parts[1, :, None] * scores).mean(axis=-1)
    cross = covariance.cross(stack, WEIGHTS * np.array([0, 1, 0]), WEIGHTS)
    assert (np.abs(one - cross) < (STANDARD_ERRORS + 1) * error).all()


def test_rows_of_training_samples_have_the_training_covariance(rng):
    _, stack = kernels(rng, 9)
    covariance = additive(stack)
    expected = covariance.matrix(WEIGHTS) - covariance.intercept_std**2
    np.testing.assert_allclose(covariance.cross(stack, WEIGHTS, WEIGHTS), expected, rtol=1e-12, atol=1e-12)
    variance = covariance.variance(stack, stack.diagonal(), WEIGHTS, WEIGHTS)
    np.testing.assert_allclose(variance, np.diag(expected), rtol=1e-12)
    parts = sum(covariance.cross(stack, WEIGHTS * one, WEIGHTS) for one in np.eye(3))
    np.testing.assert_allclose(parts, expected, rtol=1e-12, atol=1e-12)


def test_units_are_variances_around_the_mean(rng):
    _, stack = kernels(rng, 10)
    center = np.eye(10) - 0.1
    expected = [np.trace(center @ kernel @ center) / 10 for kernel in stack.each()]
    np.testing.assert_allclose(kernel_units(stack), expected, rtol=1e-12)
    scaled = additive(stack._replace(kernels=stack.kernels * np.array([4.0, 1.0, 9.0])[:, None, None]))
    np.testing.assert_allclose(scaled.matrix(WEIGHTS), additive(stack).matrix(WEIGHTS), rtol=1e-12)


@pytest.mark.parametrize(("n_samples", "tolerance"), [(12, 1e-6), (160, 0.2)], ids=["exact", "by probes"])
def test_information_is_that_of_differences_of_the_matrix(n_samples, tolerance, rng):
    _, stack = kernels(rng, n_samples)
    covariance, h = additive(stack), 1e-5
    within = rng.standard_normal((n_samples, n_samples)) / n_samples**0.5
    slopes = [
        (covariance.matrix(WEIGHTS + h * e) - covariance.matrix(WEIGHTS - h * e)) / (2 * h) for e in np.eye(3)
    ]
    shrinkage = within @ within.T
    expected = np.array([[np.trace(shrinkage @ a @ shrinkage @ b) / 2 for b in slopes] for a in slopes])
    found = covariance.informed(WEIGHTS, within, np.eye(3))
    scale = np.sqrt(expected.diagonal())
    np.testing.assert_allclose(
        found / np.outer(scale, scale), expected / np.outer(scale, scale), atol=tolerance
    )
    assert np.linalg.eigvalsh(found).min() > -1e-12
