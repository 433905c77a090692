"""Gene sets: the stated truth is the truth, genes correlate in blocks, sets overlap, and bad arguments are named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from bayesmkl.datasets import make_pathways


def memberships(sample):
    """Whether a gene is in a set, shape (n_sets, n_genes)."""
    inside = np.zeros((len(sample.views), sample.data.shape[1]), dtype=bool)
    for row, members in zip(inside, sample.views.values(), strict=True):
        row[members] = True
    return inside


@pytest.fixture(scope="module")
def sample():
    return make_pathways(random_state=0)


def test_parts_have_equal_variance_and_add_up_to_the_signal(sample):
    np.testing.assert_allclose(sample.parts.var(axis=1), sample.parts.var(axis=1)[0])
    assert sample.score.var() == pytest.approx(0.5)
    np.testing.assert_allclose(sample.parts.sum(axis=0), sample.score, atol=1e-12)
    np.testing.assert_allclose(sample.data @ sample.coef, sample.score, atol=1e-12)


def test_each_part_is_a_linear_function_of_the_genes_of_its_set(sample):
    active = [members for members, on in zip(sample.views.values(), sample.active, strict=True) if on]
    assert len(active) == len(sample.parts) == 5
    for part, members in zip(sample.parts, active, strict=True):
        genes = sample.data[:, members]
        weights = np.linalg.lstsq(genes, part, rcond=None)[0]
        np.testing.assert_allclose(genes @ weights, part, atol=1e-10)
    assert set(np.flatnonzero(sample.coef)) == set(np.concatenate(active))


def test_weights_of_a_part_are_normal():
    drawn = [make_pathways(20, 1, 1, 100, min_size=100, random_state=seed).coef for seed in range(40)]
    weights = np.array([row / row.std() for row in drawn])
    assert np.abs(weights.mean()) < 4 / np.sqrt(weights.size)
    assert (weights**4).mean() == pytest.approx(3.0, abs=4 * np.sqrt(96 / weights.size))


def test_noise_has_the_rest_of_the_variance():
    for signal in (0.3, 0.8, 1.0):
        sample = make_pathways(4000, 20, n_genes=200, max_size=40, signal=signal, random_state=1)
        noise = sample.target - sample.score
        assert sample.score.var() == pytest.approx(signal)
        assert noise.var() == pytest.approx(1.0 - signal, abs=4 * (1.0 - signal) * np.sqrt(2 / 4000))


def test_labels_are_of_a_probit_model():
    sample = make_pathways(20000, 10, n_genes=100, max_size=30, task="classification", random_state=2)
    probability = ndtr(sample.score / np.sqrt(0.5))
    assert set(sample.target) == {-1, 1}
    for low in np.arange(0.0, 1.0, 0.1):
        own = (probability >= low) & (probability < low + 0.1)
        error = np.sqrt((probability * (1 - probability))[own].sum()) / own.sum()
        assert abs((sample.target[own] == 1).mean() - probability[own].mean()) < 4 * error


def test_genes_of_a_block_correlate_as_stated():
    sample = make_pathways(5000, 5, n_genes=120, block_size=30, correlation=0.4, random_state=3)
    np.testing.assert_array_equal(np.bincount(sample.blocks), [30] * 4)
    found = np.corrcoef(sample.data.T)
    same = sample.blocks[:, None] == sample.blocks
    np.testing.assert_allclose(found, np.where(same, 0.4, 0.0) + 0.6 * np.eye(120), atol=5 / np.sqrt(5000))
    np.testing.assert_allclose(sample.data.var(axis=0), 1.0, atol=5 * np.sqrt(2 / 5000))


def test_sizes_of_sets_are_uniform_in_their_logarithm(sample):
    sizes = memberships(sample).sum(axis=1)
    assert sizes.min() >= 10
    assert sizes.max() <= 100
    assert np.median(sizes) == pytest.approx(np.sqrt(10 * 101), rel=0.2)
    assert [len(set(members)) for members in sample.views.values()] == sizes.tolist()


def test_sets_overlap(sample):
    inside = memberships(sample).astype(float)
    sizes, shared = inside.sum(axis=1), inside @ inside.T
    alike = shared / (sizes[:, None] + sizes - shared)
    np.fill_diagonal(alike, 0.0)
    assert 0.05 < alike.max(axis=1).mean() < 0.3  # the set that is most like it shares a tenth with a set
    assert alike.max() < 0.7
    assert (inside.sum(axis=0) >= 2).mean() > 0.5  # most genes are in several sets
    assert inside.sum(axis=0).max() >= 10  # popular genes in many


@pytest.mark.parametrize(("coherence", "low", "high"), [(0.0, 0.0, 0.15), (0.5, 0.5, 0.6), (1.0, 0.99, 1.0)])
def test_coherent_part_of_a_set_is_in_few_blocks(coherence, low, high):
    sample = make_pathways(
        3, 100, n_genes=4000, min_size=20, max_size=20, coherence=coherence, random_state=0
    )
    largest = [np.bincount(sample.blocks[members]).max() / 20 for members in sample.views.values()]
    assert low <= np.mean(largest) <= high


def test_the_seed_fixes_the_sample_and_names_are_in_order(sample):
    again = make_pathways(random_state=0)
    for key in ("data", "target", "active", "parts", "score", "coef", "blocks"):
        np.testing.assert_array_equal(sample[key], again[key])
    assert again.views == sample.views
    assert not np.array_equal(make_pathways(random_state=1).active, sample.active)
    assert list(sample.views)[:2] == ["set001", "set002"]
    assert sorted(sample.views) == list(sample.views)
    assert sample.feature_names[-1] == "gene2000"
    assert "target_names" not in sample


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 2}, "`n_samples`.*3"),
        ({"n_sets": 0}, "`n_sets`"),
        ({"n_active": 201}, "`n_active`.*200"),
        ({"n_active": -1}, "`n_active`"),
        ({"n_genes": 99}, "`max_size`.*99"),
        ({"min_size": 0}, "`min_size`"),
        ({"min_size": 101}, "`max_size`.*101"),
        ({"max_size": 9}, "`max_size`.*10"),
        ({"block_size": 0}, "`block_size`"),
        ({"correlation": 1.1}, "`correlation`"),
        ({"correlation": -0.1}, "`correlation`"),
        ({"coherence": 1.1}, "`coherence`"),
        ({"signal": -0.1}, "`signal`"),
        ({"signal": np.nan}, "`signal`"),
        ({"task": "ranking"}, "`task`"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_pathways(**options)
