"""Corrupted kernels: the corruption is what the documentation says, where it says, and its price by Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from bayesmkl.datasets import make_corrupted

CORRUPTIONS = ("features", "kernels", "similarities")

SEPARATIONS = (1.0, 0.6, 0.0)


def draw(n_samples=60, corruption="features", fraction=0.3, seed=0, separations=SEPARATIONS):
    return make_corrupted(
        n_samples, corruption=corruption, fraction=fraction, separations=separations, random_state=seed
    )


def reference_kernels(data, n_views=3):
    """The Gaussian kernels by their definition, one pair at a time."""
    views = data.reshape(len(data), n_views, 2)
    kernels = np.empty((len(data), len(data), n_views))
    for i, a in enumerate(views):
        for j, b in enumerate(views):
            kernels[i, j] = np.exp(-((a - b) ** 2).sum(axis=1) / 4)
    return kernels


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_same_seed_same_sample_other_seed_other_sample(corruption):
    first, again, other = (draw(corruption=corruption, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.kernels, again.kernels)
    np.testing.assert_array_equal(first.corrupted, again.corrupted)
    assert not np.array_equal(first.kernels, other.kernels)
    from_generator = draw(corruption=corruption, seed=np.random.default_rng(1))
    np.testing.assert_array_equal(first.kernels, from_generator.kernels)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_nothing_corrupted_gives_the_clean_kernels_of_the_definition(corruption):
    sample = draw(corruption=corruption, fraction=0.0)
    assert not sample.corrupted.any()
    np.testing.assert_array_equal(sample.kernels, sample.clean_kernels)
    np.testing.assert_allclose(sample.kernels, reference_kernels(sample.data), rtol=1e-12)
    assert sample.informed_error == pytest.approx(sample.bayes_error)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_clean_samples_are_the_same_for_every_corruption_and_pairs_are_nested(corruption):
    clean = draw(fraction=0.0)
    few, many = draw(corruption=corruption, fraction=0.1), draw(corruption=corruption, fraction=0.5)
    for sample in (few, many):
        np.testing.assert_array_equal(sample.clean_kernels, clean.clean_kernels)
        np.testing.assert_array_equal(sample.target, clean.target)
    assert (many.corrupted >= few.corrupted).all()
    assert many.corrupted.sum() > few.corrupted.sum()


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_kernels_are_symmetric_semidefinite_with_unit_diagonal(corruption):
    kernels = draw(corruption=corruption, fraction=0.5).kernels.transpose(2, 0, 1)
    np.testing.assert_array_equal(kernels, kernels.transpose(0, 2, 1))
    np.testing.assert_array_equal(np.diagonal(kernels, axis1=1, axis2=2), 1.0)
    assert np.linalg.eigvalsh(kernels).min() > -1e-12


@pytest.mark.parametrize("corruption", CORRUPTIONS[:2])
def test_pairs_of_samples_that_are_sound_in_a_kernel_keep_their_similarity(corruption):
    sample = draw(corruption=corruption)
    for m in range(3):
        sound = ~sample.corrupted[:, m]
        block = np.ix_(sound, sound)
        np.testing.assert_array_equal(sample.kernels[:, :, m][block], sample.clean_kernels[:, :, m][block])
        changed = (sample.kernels[:, :, m] != sample.clean_kernels[:, :, m]).any(axis=1)
        assert changed[~sound].all()


@pytest.mark.heavy
def test_noisy_features_add_variance_nine_to_corrupted_views_only():
    sample = draw(1500, fraction=0.4)
    centered = sample.data.reshape(-1, 3, 2) - sample.target[:, None, None] * sample.means
    for wrong, variance in [(sample.corrupted, 10.0), (~sample.corrupted, 1.0)]:
        values = centered[wrong].ravel()
        assert values.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / values.size))
    few = sample.data[:40]
    np.testing.assert_allclose(sample.kernels[:40, :40], reference_kernels(few), rtol=1e-12)


def test_taken_for_another_is_a_permutation_of_the_corrupted_without_fixed_point():
    sample = draw(corruption="kernels", fraction=0.4)
    np.testing.assert_allclose(sample.clean_kernels, reference_kernels(sample.data), rtol=1e-12)
    for m in range(3):
        wrong = sample.corrupted[:, m]
        clean, found = sample.clean_kernels[:, :, m], sample.kernels[:, :, m]
        # similarities to sound samples say whose place a sample took
        distance = ((found[:, None, ~wrong] - clean[None][:, :, ~wrong]) ** 2).sum(axis=2)
        place = distance.argmin(axis=1)
        np.testing.assert_array_equal(np.sort(place), np.arange(60))
        np.testing.assert_array_equal(place == np.arange(60), ~wrong)
        np.testing.assert_array_equal(found, clean[np.ix_(place, place)])


def test_wrong_similarities_forget_the_true_ones():
    sample = draw(300, corruption="similarities", fraction=0.2, separations=(1.0,))
    wrong, off = sample.corrupted[:, 0], ~np.eye(300, dtype=bool)
    found, clean = sample.kernels[:, :, 0], sample.clean_kernels[:, :, 0]
    either = (wrong[:, None] | wrong) & off
    sound = ~(wrong[:, None] | wrong) & off
    assert abs(np.corrcoef(found[either], clean[either])[0, 1]) < 0.1
    assert np.corrcoef(found[sound], clean[sound])[0, 1] > 0.9
    np.testing.assert_array_equal(sample.data, draw(300, fraction=0.0, separations=(1.0,)).data)


@pytest.mark.parametrize("fraction", [0.0, 0.4])
def test_errors_of_clean_and_noisy_features_by_monte_carlo(fraction):
    sample = draw(1500, fraction=fraction)
    views = sample.data.reshape(-1, 3, 2)
    known = 1.0 / np.where(sample.corrupted, 10.0, 1.0)
    score = ((views * sample.means).sum(axis=2) * known).sum(axis=1)  # log odds, up to a factor
    errors = np.mean(np.sign(score) != sample.target)
    spread = np.sqrt(0.25 / 1500)
    assert errors == pytest.approx(sample.informed_error, abs=4 * spread)
    assert sample.bayes_error == pytest.approx(norm.cdf(-np.sqrt(1.36)), rel=1e-12)
    if fraction:
        assert sample.informed_error > sample.bayes_error + 0.02


def test_error_without_the_corrupted_pairs_by_monte_carlo():
    sample = draw(1500, corruption="kernels", fraction=0.4)
    views = sample.data.reshape(-1, 3, 2)
    score = ((views * sample.means).sum(axis=2) * ~sample.corrupted).sum(axis=1)
    nothing_left = score == 0.0  # where every view with a separation is corrupted: a coin
    errors = np.where(nothing_left, 0.5, np.sign(score) != sample.target).mean()
    assert errors == pytest.approx(sample.informed_error, abs=4 * np.sqrt(0.25 / 1500))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"corruption": "labels"}, "`corruption` must be one of 'features', 'kernels', 'similarities'"),
        ({"fraction": 1.5}, "`fraction` must be a part from 0 to 1; got 1.5"),
        ({"fraction": -0.1}, "`fraction` must be a"),
        ({"fraction": "half"}, "`fraction` must be a"),
        ({"separations": ()}, "`separations` must be a list of finite numbers >= 0"),
        ({"separations": (1.0, -1.0)}, "`separations` must be a list of finite numbers >= 0"),
        ({"n_samples": 0}, "`n_samples` must be a whole number >= 1"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_corrupted(**arguments)
