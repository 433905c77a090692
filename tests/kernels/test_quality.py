"""Each kind of doubtful kernel is found, named once, good ones are left in peace; indefinite ones are clipped."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import check_kernels, random_kernels

from bayesmkl.kernels import Gaussian, KernelBank, KernelQualityWarning, Linear, Polynomial
from bayesmkl.kernels.quality import (
    KernelInspector,
    fit_clipping,
    indefinite_kernels,
    is_asymmetric,
)

X = np.random.default_rng(0).normal(size=(40, 3))
GOOD = Gaussian(width=2)(X, X)
OTHER = Gaussian(width=1)(X, X)


def message(call):
    """Return what a call warns of, without the first line; it warns once at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert len(caught) <= 1
    assert all(one.category is KernelQualityWarning for one in caught)
    return str(caught[0].message).split("\n")[1:] if caught else []


def findings(kernels, names=None, **kwargs):
    """Return what the check says, one line per problem; assert that it says it in one warning."""
    kernels = np.stack(kernels)
    names = [f"k{m}" for m in range(len(kernels))] if names is None else names
    return message(lambda: check_kernels(kernels, names, **kwargs))


def test_good_kernels_give_no_warning():
    assert findings([GOOD, OTHER, (X @ X.T) ** 2, Linear()(X, X)]) == []


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (np.eye(40), "near-identity"),
        (5.0 * np.eye(40) + 1e-3, "near-identity"),
        (np.diag(np.arange(1.0, 41.0)), "near-identity"),
        (np.ones((40, 40)), "constant"),
        (np.zeros((40, 40)), "constant"),
        (1.0 + 1e-10 * GOOD, "constant"),
        (GOOD + np.triu(np.full((40, 40), 1e-5)), "asymmetric"),
        (GOOD - 0.1 * np.eye(40), "indefinite"),
        (np.tanh(X @ X.T - 1.0), "indefinite"),
        (-np.ones((40, 40)), "indefinite"),
        (1e5 * OTHER, "scaled differently"),
        (1e-5 * OTHER, "scaled differently"),
    ],
)
def test_bad_kernel_is_named_with_its_problem(bad, problem):
    lines = findings([GOOD, bad], ["fine", "doubtful"])
    (line,) = [line for line in lines if line.startswith(f"- {problem}")]
    assert "doubtful" in line
    assert line.endswith(".")
    if problem != "scaled differently":  # there the two ends of the range are named
        assert "fine" not in line


@pytest.mark.parametrize("noise", [0.0, 1e-14])
def test_duplicates_are_grouped_up_to_scale(noise):
    wobble = noise * np.outer(X[:, 0], X[:, 0])
    lines = findings([GOOD, OTHER, 3.0 * GOOD + wobble, OTHER, 0.5 * GOOD, OTHER + 1e-6 * GOOD])
    assert len(lines) == 1
    assert lines[0].startswith("- duplicates up to scale")
    groups = lines[0].split(": ")[1].split(". ")[0].split("; ")
    assert sorted(groups) == ["k0 = k2 = k4", "k1 = k3"]


def test_negated_kernel_is_no_duplicate():
    assert not any("duplicates" in line for line in findings([GOOD, -GOOD], known_psd=[True, True]))


def test_near_identity_has_its_own_threshold_at_a_tenth_of_the_frobenius_norm():
    n = 40
    for ratio, expected in ((0.099, 1), (0.101, 0)):
        off = ratio / np.sqrt(n - 1)
        kernel = np.full((n, n), off) + (1.0 - off) * np.eye(n)
        assert np.linalg.norm(kernel - np.eye(n)) / np.linalg.norm(np.eye(n)) == pytest.approx(ratio)
        assert len(findings([kernel])) == expected


def test_samples_without_self_similarity_do_not_hide_an_identity():
    kernel = np.eye(40)
    kernel[:5] = 0.0
    (line,) = findings([kernel])
    assert line.startswith("- near-identity")


def test_indefinite_reports_the_eigenvalues_and_tolerates_rounding():
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(40, 40)))[0]
    for smallest, expected in ((-1e-2, 1), (-1e-5, 1), (-1e-10, 0), (0.0, 0)):
        eigenvalues = np.linspace(0.5, 2.0, 40)
        eigenvalues[0] = smallest
        kernel = (rotation * eigenvalues) @ rotation.T
        lines = findings([0.5 * (kernel + kernel.T)])
        assert len(lines) == expected
        if expected:
            assert f"{smallest:.3g} to 2)" in lines[0]


def test_known_psd_skips_the_eigenvalue_test_of_those_kernels_only():
    shifted = GOOD - 0.1 * np.eye(40)
    (line,) = findings([shifted, OTHER - 0.1 * np.eye(40)], known_psd=[True, False])
    assert "k1 (eigenvalues" in line
    assert "k0" not in line


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_entries_are_errors_naming_the_kernel(bad):
    kernel = GOOD.copy()
    kernel[3, 4] = bad
    with pytest.raises(ValueError, match=r"kernel 'holes' has NaN or infinite entries\. Look for"):
        check_kernels(np.stack([GOOD, kernel]), ["fine", "holes"])


@pytest.mark.parametrize("size", [1e-6, 1e-9, 1e-11])
def test_asymmetry_of_one_pair_is_found_at_its_tolerance(rng, size):
    kernel = rng.normal(size=(40, 40))
    kernel = kernel @ kernel.T
    assert not is_asymmetric(kernel, 1e-12 * 40)
    kernel[3, 11] += size
    assert is_asymmetric(kernel, 0.5 * size)
    assert not is_asymmetric(kernel, 2.0 * size)


# --- one by one, as they come ---------------------------------------------------------------------


def report_of(kernels, names, **options):
    inspector = KernelInspector(names, **options)
    for kernel in kernels:
        inspector.inspect(kernel)
    return message(inspector.report)


def test_kernels_of_landmarks_need_no_diagonal():
    kernels = [Gaussian(width=2), Gaussian(width=0.01), Polynomial(degree=2), Gaussian(width=2), Linear()]
    bank = KernelBank(kernels, normalize=None, landmarks=5, random_state=0).fit(X)
    scale = np.array([1.0, 1.0, 1.0, 1.0, 1e6])
    rows, similarity = scale[:, None, None] * bank.evaluate(X), scale * bank.train_diagonal().mean(axis=1)
    names = [f"k{m}" for m in range(5)]
    found = report_of(rows, names, self_similarity=similarity)
    assert [line.split()[1] for line in found] == ["near-zero", "duplicates", "scaled"]
    assert [line.split(": ")[1].split(". ")[0].split()[0] for line in found] == ["k1", "k0", "k0"]
    assert "k0 = k3" in found[1]
    assert found == message(lambda: check_kernels(rows, names, self_similarity=similarity))
    square = report_of(rows[:, :5], names, self_similarity=similarity)  # as many samples as landmarks
    assert not any(line.split()[1] in ("asymmetric", "indefinite", "near-identity") for line in square)


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
