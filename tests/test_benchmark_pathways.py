"""The comparison of selected gene sets: group lassos solve what they say, and rates and powers are those of lists."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import _pathway_models as models
import pathways as benchmark


@pytest.fixture(scope="module")
def sample():
    return benchmark.SHORT(random_state=0)


class StandIn:
    """Takes what GPMKL takes; includes the sets whose genes correlate with the target."""

    given: dict

    def __init__(self, bank, *, kernel_prior, random_state):
        self.bank, self.kernel_prior = bank, kernel_prior

    def fit(self, X, y):
        gains = {
            name: np.mean(np.corrcoef(X[:, members].T, y)[-1, :-1] ** 2)
            for name, members in self.bank.views.items()
        }
        self.gains = pd.Series(gains)
        return self


def inclusion_table(model, fdr):
    """Return a table of the form that `bayesmkl.posterior.inclusion_table` has."""
    assert (model.kernel_prior, fdr) == ("spike-slab", 0.1)
    probability = (model.gains / model.gains.max()).sort_values(ascending=False)
    expected = (1.0 - probability).expanding().mean()
    return pd.DataFrame(
        {"view": probability.index, "prob_included": probability.values, "selected": expected.values <= fdr}
    )


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_table_of_inclusion_is_read_in_the_order_of_the_sets(task, sample, monkeypatch):
    monkeypatch.setattr(models, "GPMKLRegressor" if task == "regression" else "GPMKLClassifier", StandIn)
    monkeypatch.setattr(models.posterior, "inclusion_table", inclusion_table, raising=False)
    drawn = benchmark.SHORT(random_state=0, task=task)
    found = models.answer(models.OURS, drawn, 0)
    probabilities = found.scores["probability"]
    assert probabilities.max() == 1.0
    own = found.lists["list"]
    assert 1 <= own.sum() < len(own)
    assert probabilities[own].min() > probabilities[~own].max()
    assert found.facts["expected"] == pytest.approx((1.0 - probabilities[own]).mean(), abs=1e-4)
    gains = [
        np.mean(np.corrcoef(drawn.data[:, m].T, drawn.target)[-1, :-1] ** 2) for m in drawn.views.values()
    ]
    np.testing.assert_allclose(probabilities, np.array(gains) / max(gains))
    row = benchmark.cell("short", drawn, 0, models.OURS)
    assert row["lists"]["list"] == [own.sum(), (own & drawn.active).sum()]
    assert row["rankings"]["probability"]["scores"][0] == 1.0
    assert sum(row["rankings"]["probability"]["active"]) == row["n_active"] == 2


def test_products_of_random_features_are_near_a_kernel_of_twice_the_mean_distance(rng, monkeypatch):
    monkeypatch.setattr(models, "MANY_FREQUENCIES", 20_000)
    X = rng.normal(size=(30, 6))
    features = models.random_features(X, rng)
    distances = pdist(X)
    kernel = np.exp(-(squareform(distances) ** 2) / (2 * (2 * distances.mean()) ** 2))
    assert features.shape == (30, 40_000)
    np.testing.assert_allclose(features @ features.T, kernel, atol=5 / np.sqrt(20_000))


def test_a_few_samples_have_a_hundred_frequencies_and_many_have_more(rng):
    assert models.random_features(rng.normal(size=(60, 3)), rng).shape[1] == 200
    n_samples = 4000
    assert models.random_features(rng.normal(size=(n_samples, 1)), rng).shape[1] == 2 * int(
        np.sqrt(n_samples) * np.log(np.log(n_samples))
    )


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


def test_sets_are_ranked_by_where_they_enter_then_by_norm():
    norms = np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 1.0], [0.0, 0.0, 9.0], [0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    scores = models.entries(norms, np.array([3.0, 2.0, 1.0]))
    np.testing.assert_allclose(scores, [2.5, 2.75, 1.9, 0.0, 3.0])


def test_losses_are_those_of_each_penalty(rng):
    y, predicted = np.array([1.0, -1.0, 1.0, -1.0]), rng.normal(size=(4, 3))
    np.testing.assert_allclose(models.squared_loss(y, predicted)[1], np.mean((y - predicted[:, 1]) ** 2))
    np.testing.assert_allclose(models.rank_loss(y, np.column_stack([y, -y, np.ones(4)])), [0.0, 1.0, 0.5])


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


def test_equal_scores_are_in_a_list_together():
    rows = [row("m", 0, {}, {"k": ([2.0, 2.0, 1.0], [1, 0, 1])})]
    assert benchmark.at_most(rows, "k", 0.4) == (pytest.approx(1 / 3), pytest.approx(np.array([1.0])))
    found, power = benchmark.at_most(rows, "k", 0.2)
    assert (found, power.tolist()) == (0.0, [0.0])
