"""Inverse of symmetric positive definite matrices against general-purpose routines."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from helpers import SAME_FORMULA, assert_same, frozen, random_covariance

from bayesmkl._numerics.linalg import (
    bordered,
    gram_of_triangle,
    inverse_by_blocks,
    invert_factor,
    multiply_inverse,
    plus_diagonal,
    solve_factor,
    spd_factor,
    spd_inverse,
    spd_inverse_root,
)

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("size", [1, 2, 5, 40, 65, 150])
def test_spd_inverse_against_numpy(xp, rng, size):
    matrix = frozen(random_covariance(rng, size) * np.outer(*[np.logspace(-2, 2, size)] * 2))
    inverse, log_det = spd_inverse(xp.asarray(matrix))
    inverse = np.asarray(inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-9)
    np.testing.assert_array_equal(inverse, inverse.T)
    sign, expected = np.linalg.slogdet(np.linalg.inv(matrix))
    assert sign == 1.0
    np.testing.assert_allclose(float(log_det), expected, rtol=1e-10, atol=1e-10)
    assert_same(inverse @ matrix, np.eye(size), 1e-9)


def test_spd_inverse_of_several_matrices_is_that_of_each(xp, rng):
    matrices = frozen([random_covariance(rng, 5, scale) for scale in (0.1, 1.0, 30.0)])
    inverses, log_dets = spd_inverse(xp.asarray(matrices))
    for matrix, inverse, log_det in zip(matrices, np.asarray(inverses), np.asarray(log_dets), strict=True):
        assert_same(inverse, np.linalg.inv(matrix), 1e-10)
        np.testing.assert_array_equal(inverse, inverse.T)
        np.testing.assert_allclose(log_det, -np.linalg.slogdet(matrix)[1], rtol=1e-10)


def test_root_and_solution_against_numpy(rng):
    matrices = np.stack([random_covariance(rng, 7) for _ in range(3)])
    vectors = rng.normal(size=(3, 7))
    expected = np.linalg.solve(matrices, vectors[..., None])[..., 0]
    inverses = np.linalg.inv(matrices)
    log_dets = np.linalg.slogdet(inverses)[1]
    for b in range(3):
        root, log_det, solution = spd_inverse_root(matrices[b], vectors[b])
        np.testing.assert_allclose(solution, expected[b], rtol=1e-9)
        np.testing.assert_allclose(root @ root.T, inverses[b], rtol=1e-8, atol=1e-10)
        np.testing.assert_array_equal(np.tril(root, -1), 0.0)
        np.testing.assert_allclose(log_det, log_dets[b], rtol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 33])
def test_triangles_by_blocks_against_numpy(rng, size):
    lower = np.tril(rng.normal(size=(2, size, size))) + 3.0 * np.eye(size)
    with jax.enable_x64(True):
        both = jax.jit(lambda given: (inverse_by_blocks(given, leaf=4), gram_of_triangle(given, leaf=4)))
        inverse, gram = map(np.asarray, both(jax.numpy.asarray(lower)))
    np.testing.assert_allclose(inverse, np.linalg.inv(lower), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(np.triu(inverse, 1), 0.0)
    np.testing.assert_allclose(gram, lower.swapaxes(1, 2) @ lower, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(gram, gram.swapaxes(1, 2))


def test_inverses_as_an_accelerator_finds_them(rng, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for size in (5, 150):
        matrix = random_covariance(rng, size)
        with jax.enable_x64(True):
            inverse, log_det = jax.jit(spd_inverse)(jax.numpy.asarray(matrix))
        np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-8, atol=1e-10)
        np.testing.assert_array_equal(inverse, np.transpose(inverse))
        np.testing.assert_allclose(log_det, -np.linalg.slogdet(matrix)[1], rtol=1e-10)


def test_spd_inverse_of_a_diagonal_is_its_reciprocal(xp):
    diagonal = np.array([1e-8, 0.5, 3.0, 1e8])
    inverse, log_det = spd_inverse(xp.diag(xp.asarray(diagonal)))
    assert_same(np.diagonal(inverse) * diagonal, np.ones(4), SAME_FORMULA)
    np.testing.assert_allclose(float(log_det), -np.log(diagonal).sum(), rtol=1e-12)


def test_spd_inverse_keeps_its_input(rng):
    matrix = random_covariance(rng, 6)
    for order in ("C", "F"):
        given = np.array(matrix, order=order)
        spd_inverse(given)
        np.testing.assert_array_equal(given, matrix)


BROKEN = {
    "indefinite": np.array([[1.0, 2.0], [2.0, 1.0]]),
    "negative": -np.eye(3),
    "singular": np.ones((3, 3)),
    "nan on the diagonal": np.diag([1.0, np.nan, 2.0]),
    "nan below the diagonal": np.array([[1.0, np.nan], [np.nan, 1.0]]),
    "infinite": np.diag([1.0, np.inf]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_spd_inverse_of_a_broken_matrix_raises_on_numpy(name):
    with pytest.raises(np.linalg.LinAlgError, match=r"^matrix is not positive definite$"):
        spd_inverse(BROKEN[name])


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("singular", "infinite")])
def test_spd_inverse_of_a_broken_matrix_is_nan_on_jax(name):
    with jax.enable_x64(True):
        inverse, log_det = spd_inverse(jax.numpy.asarray(BROKEN[name]))
        assert np.isnan(np.asarray(inverse)).any()
        assert np.isnan(float(log_det))


@pytest.mark.parametrize("order", ["C", "F", "slice"])
def test_diagonals_are_added_in_every_memory_order(xp, rng, order):
    matrix, diagonal = rng.normal(size=(5, 5)), rng.normal(size=5)
    given = {"C": matrix, "F": np.asfortranarray(matrix), "slice": np.pad(matrix, 1)[1:-1, 1:-1]}[order]
    given = given if xp is np else xp.asarray(given)
    assert_same(plus_diagonal(given, xp.asarray(diagonal), 3.0), 3.0 * matrix + np.diag(diagonal), 1e-15)
    assert_same(plus_diagonal(given, 2.0), matrix + 2.0 * np.eye(5), 1e-15)
    np.testing.assert_array_equal(np.asarray(given), matrix)  # unchanged


def test_bordered_matrix_has_its_parts_in_place(xp, rng):
    edge, block = rng.normal(size=3), random_covariance(rng, 3)
    found = np.asarray(bordered(7.0, xp.asarray(edge), xp.asarray(block)))
    np.testing.assert_array_equal(
        found, np.block([[np.full((1, 1), 7.0), edge[None]], [edge[:, None], block]])
    )


@pytest.mark.parametrize("size", [1, 5, 64, 65, 150])
def test_overwriting_changes_nothing_but_the_memory(rng, size):
    matrix = random_covariance(rng, size)
    expected, log_det = spd_inverse(matrix.copy())
    given = matrix.copy()
    found, other = spd_inverse(given, overwrite=True)
    assert np.shares_memory(found, given)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, found.T)
    assert other == log_det
    assert_same(expected @ matrix, np.eye(size), 1e-9)


@pytest.mark.parametrize("size", [1, 64, 65, 130, 333])
def test_triangular_root_of_the_inverse_of_any_size(rng, size):
    matrix = random_covariance(rng, size)
    before = matrix.copy()
    root = spd_inverse_root(matrix, np.ones(size))[0]
    assert_same(root.T @ matrix @ root, np.eye(size), 1e-9)
    np.testing.assert_array_equal(matrix, before)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        spd_inverse_root(-matrix, np.ones(size))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("size", [1, 3, 70])
def test_factor_against_numpy_from_the_lower_triangle_alone(rng, size, overwrite):
    matrix, vector, vectors = random_covariance(rng, size), rng.normal(size=size), rng.normal(size=(size, 2))
    given = np.tril(matrix) + np.triu(rng.normal(size=(size, size)), 1)
    before = given.copy()
    upper, log_det, solution = spd_factor(given, vector, overwrite=overwrite)
    assert overwrite or np.array_equal(given, before)
    root = np.triu(upper)
    np.testing.assert_allclose(root.T @ root, matrix, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(matrix)[1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, vector), rtol=1e-8, atol=1e-10)
    expected = np.linalg.solve(root.T, vectors)
    for some in (slice(0, 1), slice(0, 2)):
        for found in (
            solve_factor(upper, vectors[:, some]),
            multiply_inverse(invert_factor(upper), vectors[:, some]),
        ):
            np.testing.assert_allclose(found, expected[:, some], rtol=1e-8, atol=1e-10)


def test_factor_in_single_precision(rng):
    matrix, vector, vectors = random_covariance(rng, 30), rng.normal(size=30), rng.normal(size=(30, 2))
    upper, _, solution = spd_factor(matrix.astype(np.float32), vector)
    expected = np.linalg.solve(np.linalg.cholesky(matrix), vectors)
    for found in (solve_factor(upper, vectors), multiply_inverse(invert_factor(upper), vectors)):
        assert upper.dtype == solution.dtype == found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(matrix @ solution, vector, atol=1e-3)


@pytest.mark.parametrize("entry", [-1.0, np.nan, np.inf])
def test_factor_of_a_broken_matrix_raises(entry):
    matrix = np.eye(3)
    matrix[1, 1] = entry
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        spd_factor(matrix, np.ones(3))
