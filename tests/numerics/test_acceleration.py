"""Anderson acceleration against linear algebra: finite termination, least squares, exact round trips."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import assert_monte_carlo, assert_same, frozen, random_covariance

from bayesmkl._numerics.acceleration import (
    EMPTY,
    MEASURED_COLUMNS,
    Coordinate,
    CovarianceCoordinate,
    LogCoordinate,
    extrapolate,
    flatten,
    remember,
    restore,
)

pytestmark = pytest.mark.heavy


class Carry(NamedTuple):
    precision: Any
    mean: Any
    cov: Any
    scalar: Any


COORDINATES = Carry(LogCoordinate, Coordinate, CovarianceCoordinate, LogCoordinate)


def history_of(points, images):
    history = EMPTY
    for point, image in zip(points, images, strict=True):
        history = remember(history, image, image - point, depth=len(points))
    return history


@pytest.mark.parametrize("size", [1, 3])  # each is compiled
def test_linear_map_is_solved_in_finitely_many_steps(xp, rng, size):
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = basis @ np.diag(np.linspace(0.2, 0.9, size)) @ basis.T
    matrix[0] += 0.1 * rng.random(size)  # not symmetric
    shift = rng.normal(size=size)
    solution = np.linalg.solve(np.eye(size) - matrix, shift)
    points = np.vstack([np.zeros(size), np.eye(size)]) + rng.normal(size=size)
    images = points @ matrix.T + shift
    history = history_of(xp.asarray(points), xp.asarray(images))
    for scales in (np.ones(size), rng.uniform(0.5, 2.0, size=size)):
        assert_same(extrapolate(history, xp.asarray(scales)), solution, 1e-7)


def test_extrapolation_against_weighted_least_squares(xp, rng):
    n_sweeps, size = 4, 9
    points = rng.normal(size=(n_sweeps, size))
    images = rng.normal(size=(n_sweeps, size))
    scales = 10.0 ** rng.uniform(-2.0, 2.0, size=size)
    residuals = images - points
    changes = np.diff(residuals, axis=0)
    mixing, *_ = np.linalg.lstsq(scales[:, None] * changes.T, scales * residuals[-1], rcond=None)
    expected = images[-1] - mixing @ np.diff(images, axis=0)
    found = extrapolate(history_of(xp.asarray(points), xp.asarray(images)), xp.asarray(scales))
    assert_same(found, expected, 1e-7)


def test_flatten_and_restore_are_inverse_for_every_coordinate(xp, rng):
    carry = Carry(
        frozen(10.0 ** rng.uniform(-9.0, 9.0, size=7)),
        frozen(rng.normal(size=(3, 4))),
        frozen(random_covariance(rng, 5) * np.outer(*[np.logspace(-6, 3, 5)] * 2)),
        frozen(2.5),
    )
    given = Carry(*map(xp.asarray, carry))
    vector = flatten(given, COORDINATES)
    assert vector.shape == (7 + 12 + 5 + 10 + 1,)
    back = restore(vector, given, COORDINATES)
    for found, expected in zip(back, carry, strict=True):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-13)


@pytest.mark.parametrize("size", [16, 32, 33, 70])
def test_measured_correlations_stand_for_all_in_the_expected_norm(rng, size):
    """Entries of standard normal size: the squared norm of what is measured is the number of both triangles."""
    like, n_below = np.eye(size), size * (size - 1) // 2
    draws = rng.normal(size=(500, size + n_below))
    measured = np.array([CovarianceCoordinate.measure(draw, like) for draw in draws])
    np.testing.assert_array_equal(measured[:, :size], draws[:, :size])
    step = {16: 1, 32: 1, 33: 2, 70: 3}[size]
    expected = np.sqrt(2 * step) * draws[:, np.arange(size, draws.shape[1], step)]
    np.testing.assert_allclose(measured[:, size:], expected, rtol=1e-15)
    assert measured.shape[1] <= size * (1 + MEASURED_COLUMNS)
    total = size + 2 * step * -(-n_below // step)  # the last one may stand for fewer
    assert_monte_carlo((measured**2).sum(axis=1), total)


def test_points_are_mixed_by_the_measured_residuals_alone(rng):
    """What is not measured follows the same combination, whatever its residuals are."""
    points, images, n_measured = *rng.normal(size=(2, 4, 9)), 5
    history = EMPTY
    for point, image in zip(points, images, strict=True):
        history = remember(history, image, (image - point)[:n_measured], depth=4)
    part = extrapolate(history_of(points[:, :n_measured], images[:, :n_measured]), np.ones(n_measured))
    residuals = (images - points)[:, :n_measured]
    changes = np.diff(residuals, axis=0)
    mixing, *_ = np.linalg.lstsq(changes.T, residuals[-1], rcond=None)
    found = extrapolate(history, np.ones(n_measured))
    assert_same(found, images[-1] - mixing @ np.diff(images, axis=0), 1e-7)
    assert_same(found[:n_measured], part, 1e-12)
