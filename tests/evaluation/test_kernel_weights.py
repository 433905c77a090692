"""Kernel weights over splits: tables beside the models, stability beside a direct computation, LaTeX."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.datasets import load_iris, load_wine
from bayesmkl.discriminative import CLMKLClassifier, LMKLClassifier, SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.evaluation import Comparison, compare_models
from bayesmkl.evaluation.cells import MOST_KERNELS, kept_shares
from bayesmkl.evaluation.comparison import selection_stability

BANK = KernelBank(["rbf"], views="each")
SPLITS = StratifiedKFold(3, shuffle=True, random_state=0)
X, Y = load_wine(return_X_y=True)
X = ((X - X.mean(axis=0)) / X.std(axis=0))[::2, :6]
Y = Y[::2] == 1
MODELS = {
    "simple": SimpleMKLClassifier(BANK),
    "uniform": UniformMKLClassifier(BANK),
    "bemkl": BEMKLClassifier(BANK, intermediate_scale=1.0),
    "log_reg": LogisticRegression(),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "folder"
    return compare_models(
        MODELS, datasets={"wine & co": (X, Y)}, cv=SPLITS, scoring="accuracy", folder=folder, n_jobs=1
    ), folder


def test_weights_are_those_of_the_models(found):
    table = found[0].weights()
    assert set(table["model"]) == {"simple", "uniform", "bemkl"}  # a model without kernels has none
    shares = []
    for train, _ in SPLITS.split(X, Y):
        own = SimpleMKLClassifier(BANK).fit(X[train], Y[train])
        shares.append(own.kernel_weights_ / own.kernel_weights_.sum())
    simple = table[table["model"] == "simple"].set_index("kernel").loc[list(own.kernel_names_)]
    np.testing.assert_allclose(simple["mean"], np.mean(shares, axis=0), atol=2e-6)
    np.testing.assert_allclose(simple["std"], np.std(shares, axis=0, ddof=1), atol=2e-6)
    chosen = np.array(shares) > 1e-3 * np.max(shares, axis=1, keepdims=True)
    np.testing.assert_allclose(simple["selected"], chosen.mean(axis=0))
    assert simple["posterior_std"].isna().all()
    bemkl = table[table["model"] == "bemkl"]
    assert (bemkl["posterior_std"] > 0).all()
    assert bemkl["mean"].sum() == pytest.approx(1.0, abs=1e-5)
    assert (np.diff(bemkl["mean"]) <= 0).all()
    assert set(bemkl["view"]) == {f"x{j}" for j in range(6)}


def test_a_folder_keeps_them(found):
    again = Comparison.load(found[1])
    pd.testing.assert_frame_equal(again.weights(), found[0].weights())
    pd.testing.assert_frame_equal(again.stability(), found[0].stability())
    assert "kernel_shares" not in again.frame


def test_agreement_is_the_rank_correlation_of_means(found):
    table = found[0].weights().set_index(["model", "kernel"])["mean"]
    matrix = found[0].agreement("wine & co")
    names = table["simple"].index
    expected = spearmanr(table["simple"], table["bemkl"].loc[names])[0]
    assert matrix.loc["simple", "bemkl"] == matrix.loc["bemkl", "simple"] == pytest.approx(expected)
    assert np.sign(expected) == np.sign(kendalltau(table["simple"], table["bemkl"].loc[names])[0])
    assert np.isnan(matrix.loc["uniform", "simple"])  # which has no order
    with pytest.raises(ValueError, match="`dataset` must be one of"):
        found[0].agreement("iris")


def test_stability_by_pairs_of_splits():
    """Of selections of equal size it is the mean of a similarity over pairs, corrected for chance (Kuncheva 2007)."""
    rng = np.random.default_rng(0)
    chosen = np.array([rng.permutation(12) < 4 for _ in range(9)])
    pairs = [(a & b).sum() for i, a in enumerate(chosen) for b in chosen[:i]]
    kuncheva = np.mean([(r - 16 / 12) / (4 - 16 / 12) for r in pairs])
    assert selection_stability(chosen)[0] == pytest.approx(kuncheva)
    assert selection_stability(np.tile(chosen[:1], (5, 1))) == pytest.approx((1.0, 1.0, 1.0))
    assert all(np.isnan(selection_stability(np.ones((4, 3), dtype=bool))))
    assert all(np.isnan(selection_stability(chosen[:1])))


def test_intervals_of_stability_cover_it():
    rng = np.random.default_rng(1)
    part = rng.random(40)

    def drawn(n):
        return rng.random((n, 40)) < part

    truth = selection_stability(drawn(40000))[0]
    ends = np.array([selection_stability(drawn(100), 0.9)[1:] for _ in range(300)])
    covered = np.mean((ends[:, 0] < truth) & (truth < ends[:, 1]))
    assert 0.85 < covered < 0.95


def test_what_has_no_weights_keeps_none():
    assert kept_shares(LogisticRegression().fit(X, Y)) == ""
    model = UniformMKLClassifier(BANK).fit(X, Y)
    kept = json.loads(kept_shares(model))
    assert kept["shares"] == [pytest.approx(1 / 6, abs=1e-6)] * 6
    assert kept["stds"] is None
    model.kernel_names_, model.kernel_weights_ = ["k"] * (MOST_KERNELS + 1), np.ones(MOST_KERNELS + 1)
    assert kept_shares(model) == ""
    with pytest.raises(ValueError, match="`threshold` must be between 0 and 1"):
        Comparison(pd.DataFrame(), {"metrics": {}}).weights(threshold=2.0)


@pytest.mark.heavy
def test_report_has_a_part_of_kernels(found, tmp_path):
    page = found[0].to_html(tmp_path / "page.html").read_text()
    assert ">Kernels<" in page
    assert "stability of the selection of kernels" in page
    first = found[0].weights().iloc[0]
    assert first["kernel"] in page
    assert f"{first['mean']:.3f}" in page


@pytest.mark.heavy
def test_gates_are_the_means_over_training_samples(tmp_path):
    models = {
        "lmkl": LMKLClassifier(BANK, max_iter=3, random_state=0),
        "clusters": CLMKLClassifier(BANK, n_clusters=2, random_state=0),
        "uniform": UniformMKLClassifier(BANK),
    }
    found = compare_models({name: make_pipeline(model) for name, model in models.items()}, X, Y, cv=SPLITS)
    table = found.gates()
    assert set(table["model"]) == {"lmkl", "clusters"}
    own = []
    for train, _ in SPLITS.split(X, Y):
        own.append(models["lmkl"].fit(X[train], Y[train]).gates())
    lmkl = table[table["model"] == "lmkl"]
    assert lmkl["kernel"].tolist() == list(models["lmkl"].kernel_names_)
    means = np.array([gates.mean(axis=0) for gates in own])
    np.testing.assert_allclose(lmkl["mean"], means.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(lmkl["std"], means.std(axis=0, ddof=1), rtol=1e-3)
    np.testing.assert_allclose(lmkl["sample_std"], np.mean([g.std(axis=0) for g in own], axis=0), rtol=1e-5)
    assert set(found.weights()["model"]) == {"clusters", "uniform"}
    assert found.gates("data").equals(table)
    page = found.to_html(tmp_path / "report.html").read_text()
    assert "Gates of localized models" in page
    assert f"{lmkl['mean'].iloc[0]:.3f}" in page


def test_weights_of_several_classes_and_clusters_are_averaged_over_both():
    X, y = load_iris(return_X_y=True)
    model = CLMKLClassifier(KernelBank("auto"), n_clusters=2, random_state=0).fit(X, y)
    assert model.kernel_weights_.ndim == 3
    kept = json.loads(kept_shares(model))
    weights = np.abs(model.kernel_weights_)
    each = (weights / weights.sum(axis=-1, keepdims=True)).reshape(-1, 4)
    np.testing.assert_allclose(kept["shares"], each.mean(axis=0), rtol=1e-5)


def test_the_best_mean_is_one_of_the_same_splits():
    def made(**scores):
        rows = [
            {"dataset": "d", "model": m, "split": s, "n_train": 80, "n_test": 20, "accuracy": v, "error": ""}
            for m, values in scores.items()
            for s, v in enumerate(values)
        ]
        cells = pd.DataFrame(rows).assign(
            fit_seconds=1.0, predict_seconds=1.0, support_fraction=np.nan, n_active_kernels=np.nan
        )
        return Comparison(cells, {"metrics": {"accuracy": True}})

    nan = np.nan
    crossed = made(a=[nan, 0.9, 0.8], b=[0.7, nan, 0.6])  # means of different splits do not compare
    assert crossed.summary()["best"].tolist() == [False, False]
    undefined = made(a=[nan, 0.9, 0.8, 0.9], b=[nan, 0.5, 0.5, 0.6])  # such as ROC AUC of a fold of one class
    assert undefined.summary()["best"].tolist() == [True, False]
