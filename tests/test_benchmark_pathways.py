"""The comparison of selected gene sets: group lassos solve what they say, and rates and powers are those of lists."""

from __future__ import annotations

from itertools import pairwise

import _pathway_models as models
import numpy as np
import pathways as benchmark
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import roc_auc_score


@pytest.fixture(scope="module")
def sample():
    return benchmark.SHORT(random_state=0)


def test_products_of_random_features_are_near_a_kernel_of_twice_the_mean_distance(rng, monkeypatch):
    monkeypatch.setattr(models, "MANY_FREQUENCIES", 20_000)
    X = rng.normal(size=(30, 6))
    features = models.random_features(X, rng)
    distances = pdist(X)
    kernel = np.exp(-(squareform(distances) ** 2) / (2 * (2 * distances.mean()) ** 2))
    assert features.shape == (30, 40_000)
    np.testing.assert_allclose(features @ features.T, kernel, atol=5 / np.sqrt(20_000))


def test_path_of_group_lasso_is_optimal(rng):
    pytest.importorskip("celer")
    sizes = np.array([3, 1, 5, 2])
    X, starts = rng.normal(1.0, 1.0, size=(80, 11)), [0, 3, 4, 9, 11]
    y = X[:, :3].sum(axis=1) - X[:, 3] + rng.normal(2.0, 1.0, size=80)
    path = models.solve(X, y, sizes)
    assert not path.coef[:, 0].any()
    assert models.group_norms(path.coef, sizes)[:, 1].astype(bool).sum() == 1  # where the path begins
    for alpha, coef in zip(path.penalties, path.coef.T, strict=True):
        residual = y - path.intercept - (X - path.center) @ coef
        for g, (a, b) in enumerate(pairwise(starts)):
            pull = X[:, a:b].T @ (residual - residual.mean()) / 80
            norm, limit = np.linalg.norm(coef[a:b]), alpha * np.sqrt(sizes[g])
            assert np.linalg.norm(pull) <= limit * 1.02
            if norm > 1e-3:
                np.testing.assert_allclose(pull, limit * coef[a:b] / norm, atol=0.02 * limit)


def test_lists_of_group_lasso_are_of_the_smallest_loss_and_a_standard_error(sample):
    pytest.importorskip("celer")
    found = models.answer(models.GROUP_LASSO, sample, 0)
    small, sparse = found.lists["smallest loss"], found.lists["one standard error"]
    assert found.facts["at_sparse"] <= found.facts["at"]
    assert sparse.sum() <= small.sum()
    assert (found.scores["spread"][small] > 0.0).all()
    assert (found.scores["spread"][~small] == 0.0).all()
    assert (found.scores["entry"][small] > 0.0).all()
    best = max(found.scores, key=lambda kind: roc_auc_score(sample.active, found.scores[kind]))
    assert roc_auc_score(sample.active, found.scores[best]) > 0.9


def row(model, number, lists, rankings, **others):
    """Return a cell of a run with two active sets."""
    kept = {kind: {"scores": scores, "active": active} for kind, (scores, active) in rankings.items()}
    cell = {"set": "regression", "split": number, "model": model, "n_active": 2, "seconds": 1.0}
    return cell | {"lists": lists, "rankings": kept} | others


def test_power_is_that_of_the_longest_lists_with_no_more_false_discoveries():
    rows = [
        row("m", 0, {}, {"k": ([9.0, 5.0, 4.0, 1.0], [1, 0, 1, 0])}),
        row("m", 1, {}, {"k": ([8.0, 7.0, 4.0], [1, 1, 0])}),
    ]
    for rate, false, power in [
        (0.0, 0.0, [0.5, 1.0]),  # scores of at least 7
        (0.25, 0.25, [0.5, 1.0]),  # of at least 5: half of the first list is false
        (0.4, 1 / 3, [1.0, 1.0]),
        (1.0, 5 / 12, [1.0, 1.0]),
    ]:
        found, values = benchmark.at_most(rows, "k", rate)
        assert found == pytest.approx(false)
        np.testing.assert_array_equal(values, power)
