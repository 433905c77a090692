"""Clipped kernels: nearest in Frobenius norm, the same map for old and new rows."""

from __future__ import annotations

import numpy as np
from helpers import SAME_FORMULA, assert_same, frozen, random_kernels

from bayesmkl.kernels.quality import fit_clipping, indefinite_kernels


def indefinite_stack(rng, n_samples=12):
    """Return four kernels; the second and the last have negative eigenvalues."""
    kernels = random_kernels(rng, n_samples, 4)
    for m in (1, 3):
        noise = rng.normal(size=(n_samples, n_samples))
        kernels[m] += 0.5 * (noise + noise.T)
    return kernels


def test_recovery_of_the_indefinite_kernels(rng):
    kernels = indefinite_stack(rng)
    assert indefinite_kernels(kernels) == [1, 3]
    assert indefinite_kernels(kernels, known_psd=[True, True, True, False]) == [3]
    assert indefinite_kernels(fit_clipping(kernels, [1, 3]).apply(kernels)) == []


def test_degenerate_tolerance_forgives_single_precision(rng):
    kernels = random_kernels(rng, 30, 3, "rank deficient").astype(np.float32).astype(float)
    kernels -= 1e-7 * np.linalg.norm(kernels[0]) * np.eye(30)
    assert indefinite_kernels(kernels) == [0, 1, 2]
    assert indefinite_kernels(kernels, tolerance=1e-6) == []


def test_other_formula_clipped_kernel_is_the_projection_on_the_cone(rng):
    before = indefinite_stack(rng)
    after = fit_clipping(before, [1, 3]).apply(before)
    for old, new in zip(before, after, strict=True):
        # Moreau: K = K+ - K-, both semidefinite and orthogonal to each other
        rest = new - old
        assert np.linalg.eigvalsh(rest).min() > -1e-12
        assert abs(np.vdot(rest, new)) < 1e-10


def test_equivariance_rows_of_training_samples_are_clipped_alike(rng):
    kernels = indefinite_stack(rng)
    clipping = fit_clipping(kernels, [1, 3])
    assert_same(clipping.apply(kernels[:, 2:7]), clipping.apply(kernels)[:, 2:7], SAME_FORMULA)


def test_degenerate_the_given_kernels_stay_as_they_are(rng):
    kernels = frozen(indefinite_stack(rng))
    clipped = fit_clipping(kernels, [1, 3]).apply(kernels)
    np.testing.assert_array_equal(clipped[[0, 2]], kernels[[0, 2]])
    assert np.abs(clipped[1] - kernels[1]).max() > 0.1
