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
    History,
    LogCoordinate,
    extrapolate,
    flatten,
    forget,
    measure,
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


def test_extrapolation_ignores_the_units_of_a_block_when_scaled_by_it(rng):
    points, images = rng.normal(size=(2, 4, 6))
    scales = rng.uniform(0.5, 2.0, size=6)
    units = np.array([1.0, 1.0, 1.0, 1e6, 1e6, 1e6])
    plain = extrapolate(history_of(points, images), scales)
    rescaled = extrapolate(history_of(points * units, images * units), scales / units)
    assert_same(rescaled / units, plain, 1e-7)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_extrapolation_follows_a_change_of_all_units(rng, unit):
    points, images = rng.normal(size=(2, 4, 6))
    scales = rng.uniform(0.5, 2.0, size=6)
    plain = extrapolate(history_of(points, images), scales)
    assert_same(extrapolate(history_of(unit * points, unit * images), scales), unit * plain, 1e-7)


def test_history_keeps_depth_differences_newest_last():
    history = EMPTY
    for k in range(6):
        history = remember(history, np.array([float(k)]), np.array([-float(k)]), depth=2)
    assert isinstance(history, History)
    np.testing.assert_array_equal(np.concatenate(history.outputs), [3.0, 4.0, 5.0])
    np.testing.assert_array_equal(np.concatenate(history.residuals), [-3.0, -4.0, -5.0])


def test_forgetting_keeps_the_last_sweep_alone():
    history = History(tuple(np.full((3, 2), [[0], [1], [2]])), tuple(np.full((3, 1), [[0], [3], [4]])))
    kept = forget(history)
    np.testing.assert_array_equal(kept.outputs, [[2.0, 2.0]])
    np.testing.assert_array_equal(kept.residuals, [[4.0]])
    assert forget(EMPTY) == EMPTY


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


def test_single_precision_is_kept(rng):
    carry = Carry(np.ones(3), rng.normal(size=(2, 2)), random_covariance(rng, 3), np.array(1.0))
    carry = Carry(*(field.astype(np.float32) for field in carry))
    vector = flatten(carry, COORDINATES)
    assert vector.dtype == np.float32
    assert measure(vector, carry, COORDINATES).dtype == np.float32
    back = restore(vector, carry, COORDINATES)
    assert {field.dtype for field in back} == {np.dtype(np.float32)}
    for found, expected in zip(back, carry, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_coordinates_are_logs_values_and_correlations(rng):
    cov = random_covariance(rng, 3)
    deviations = np.sqrt(np.diagonal(cov))
    vector = flatten(Carry(np.array([2.0]), np.array([[3.0]]), cov, np.array(5.0)), COORDINATES)
    np.testing.assert_allclose(vector[:2], [np.log(2.0), 3.0])
    np.testing.assert_allclose(vector[2:5], np.log(deviations))
    correlations = cov / np.outer(deviations, deviations)
    np.testing.assert_allclose(vector[5:8], [correlations[1, 0], correlations[2, 0], correlations[2, 1]])
    np.testing.assert_allclose(vector[8:], [np.log(5.0)])


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


def test_mixing_in_coordinates_keeps_precisions_positive_and_variances_positive(rng):
    first = Carry(rng.uniform(0.1, 1, 3), rng.normal(size=2), random_covariance(rng, 2), np.array(1.0))
    second = Carry(rng.uniform(5, 9, 3), rng.normal(size=2), random_covariance(rng, 2), np.array(9.0))
    beyond = 4.0 * flatten(first, COORDINATES) - 3.0 * flatten(second, COORDINATES)
    mixed = restore(beyond, first, COORDINATES)
    assert (mixed.precision > 0).all()
    assert (np.diagonal(mixed.cov) > 0).all()
    assert mixed.scalar > 0
    assert_same(mixed.mean, 4.0 * first.mean - 3.0 * second.mean, 1e-14)
