"""Interactions of views: products that additive models miss are found, sums have none, and what a row compares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayesmkl import BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior import interaction_table, relevance
from bayesmkl.posterior.relevance import product_of

VIEWS = {"a": [0, 1], "b": [2, 3], "c": [4]}
BANK = KernelBank("auto", views=VIEWS)
QUICK = Marginal(n_points=200, n_draws=100)


def _samples(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 5))


@pytest.fixture(scope="module")
def of_product():
    X = _samples(90)
    y = X[:, 0] * X[:, 2] + 0.3 * np.random.default_rng(1).normal(size=90)
    return GPMKLRegressor(BANK, inference=QUICK, random_state=0).fit(X, y), X, y


@pytest.mark.heavy
def test_a_product_of_two_views_is_found_where_views_alone_show_no_signal(of_product):
    model = of_product[0]
    assert relevance(model, by="all")["verdict"][0] == "no signal"
    table = interaction_table(model).set_index("views")
    assert list(table.index[:2]) == ["any two", "a × b"]
    assert table["verdict"].tolist() == ["interaction", "interaction", "not shown", "not shown"]
    assert table.loc["a × b", "elpd_diff"] > 20
    assert table.loc["a × b", "log_evidence_diff"] > 10
    assert (table["pareto_k"] < 0.7).all()


@pytest.mark.heavy
def test_a_row_compares_with_the_model_that_has_the_product_as_a_kernel(of_product):
    model, y = of_product[0], of_product[2]
    kernels = np.moveaxis(model.kernel_bank_.train_stack(), 0, -1)
    product = product_of(*(np.moveaxis(kernels[..., 4 * v : 4 * v + 4], -1, 0) for v in (0, 1)))
    more = np.concatenate([kernels, product[..., None]], axis=-1)
    joint = GPMKLRegressor("precomputed", inference=QUICK, random_state=0).fit(more, y)
    row = interaction_table(model, [("a", "b")]).iloc[0]
    assert row["log_evidence_diff"] == pytest.approx(joint.log_evidence_ - model.log_evidence_, abs=1e-6)
    assert row["elpd_diff"] == pytest.approx(np.sum(joint.elpd_i_ - model.elpd_i_), abs=1e-6)


@pytest.mark.heavy
@pytest.mark.parametrize("task", ["labels", "numbers"])
def test_sums_of_views_have_no_interaction(task):
    X, rng = _samples(120, 3), np.random.default_rng(4)
    score = 1.5 * X[:, 0] + np.sin(2 * X[:, 2])
    bank = KernelBank("auto", views={"a": [0, 1], "b": [2, 3]})
    if task == "labels":
        model = GPMKLClassifier(bank, inference=QUICK, random_state=0).fit(
            X, score + rng.logistic(size=120) > 0
        )
    else:
        model = GPMKLRegressor(bank, inference=QUICK, random_state=0).fit(
            X, score + 0.5 * rng.normal(size=120)
        )
    table = interaction_table(model)
    assert table["views"].tolist() == ["a × b"]  # one pair needs no row of all of them
    assert table["verdict"].tolist() == ["not shown"]
    assert table["log_evidence_diff"][0] < 1.0


def test_product_is_that_of_centered_kernels_by_explicit_features():
    X = _samples(30)
    left = Linear()(X[:, :2], X[:, :2])
    right = np.stack([Linear()(X[:, 2:3], X[:, 2:3]), np.ones((30, 30))])  # a constant one has no part
    centered = X - X.mean(axis=0)
    features = np.einsum("ij,ik->ijk", centered[:, :2], centered[:, 2:3]).reshape(30, -1)
    scale = np.sum(centered[:, :2] ** 2) / 30 * np.sum(centered[:, 2] ** 2) / 30
    found = product_of(left[None], right)
    np.testing.assert_allclose(found, features @ features.T / scale / 2, rtol=1e-10, atol=1e-12)
    gaussian = Gaussian(1.3)(X, X)
    both = product_of(gaussian[None], gaussian[None])
    assert np.linalg.eigvalsh(both)[0] > -1e-12
    H = np.eye(30) - 1 / 30
    np.testing.assert_allclose(
        np.sqrt(both), np.abs(H @ gaussian @ H) / np.trace(H @ gaussian) * 30, rtol=1e-9
    )


@pytest.mark.heavy
def test_of_many_views_all_pairs_are_one_row(of_product):
    _, X, y = of_product
    bank = KernelBank(Gaussian(relative_width=1), "each")
    model = GPMKLRegressor(bank, inference=QUICK, kernel_prior="half-t", random_state=0).fit(X, y)
    assert len(interaction_table(model, "all")) == 11
    six = KernelBank(Gaussian(relative_width=1), {**{f"v{j}": [j] for j in range(5)}, "v5": [3, 4]})
    wide = GPMKLRegressor(six, inference=QUICK, kernel_prior="half-t", random_state=0).fit(X, y)
    table = interaction_table(wide)
    assert table["views"].tolist() == ["any two"]
    assert table["verdict"].tolist() == ["interaction"]


@pytest.mark.heavy
def test_what_has_no_pairs_is_refused(of_product):
    model, X, y = of_product
    one = GPMKLRegressor(KernelBank("auto"), inference=QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"at least two views; got \['all'\]"):
        interaction_table(one)
    with pytest.raises(TypeError, match=r"`model` must be an estimator of .*; got BEMKLRegressor"):
        interaction_table(BEMKLRegressor(BANK).fit(X, y))
    lacking = X.copy()
    lacking[::6, 4] = np.nan
    absent = GPMKLRegressor(BANK, inference=QUICK, missing_views="integrate").fit(lacking, y)
    with pytest.raises(ValueError, match="integrates over missing views"):
        interaction_table(absent)
    for pairs in ("a × b", ["a"], [("a", "a")], [("a", "z")], [("a", "b", "c")], [(["a"], "b")], []):
        with pytest.raises(ValueError, match="`pairs` must"):
            interaction_table(model, pairs)
    with pytest.raises(ValueError, match=r"each pair once; got \('b', 'a'\) again"):
        interaction_table(model, [("a", "b"), ("b", "a")])
    with pytest.raises(TypeError, match=r"`pairs` must be .* got 3"):
        interaction_table(model, 3)
    assert isinstance(interaction_table(model, [("c", "a")]), pd.DataFrame)
