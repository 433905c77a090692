"""Frames whose columns have labels of any type: other columns and other orders are refused as names are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import frozen
from sklearn.base import clone

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl.bemkl import BEMKLMultitaskRegressor
from bayesmkl.discriminative import LMKLClassifier, PrimalMKLOneClass, SwMKLClassifier, UniformMKLClassifier
from bayesmkl.kernels import Gaussian, Linear

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

RNG = np.random.default_rng(0)
X = frozen(RNG.normal(size=(24, 3)) * [1.0, 3.0, 0.2])
Y = frozen(np.where(X[:, 0] > 0, 1, 0))
LABELS = {
    "numbers": [10, 20, 30],
    "positions": [0, 1, 2],
    "positions in another order": [2, 0, 1],
    "real numbers": [0.5, 1.5, np.inf],
    "dates": list(pd.date_range("2020-01-01", periods=3)),
    "tuples": [("left", "a"), ("left", "b"), ("right", "a")],
    "tuples of numbers": [("left", 1), ("left", 2), ("right", 1)],
    "missing": [1.0, np.nan, 2.0],
    "text": ["a", "b", "c"],
}
every_label = pytest.mark.parametrize("labels", list(LABELS.values()), ids=list(LABELS))
SHUFFLED = [1, 2, 0]
NUMBERED = pd.DataFrame(X, columns=LABELS["numbers"])
BANK = KernelBank([Gaussian(width=2), Linear()], views="each")


def frame(labels):
    """Return a frame; tuples become a MultiIndex."""
    return pd.DataFrame(X, columns=labels)


@every_label
def test_bank_refuses_columns_in_another_order(labels):
    table = frame(labels)
    bank = clone(BANK).fit(table)
    np.testing.assert_array_equal(bank.transform(table), clone(BANK).fit(X).transform(X))
    with pytest.raises(ValueError, match=r"X.*feature names should match|feature names should match.*order"):
        bank.transform(table.iloc[:, SHUFFLED])
    other = "z" if isinstance(labels[0], str) else ("z", "z") if isinstance(labels[0], tuple) else 99
    with pytest.raises(ValueError, match="feature names should match"):
        bank.transform(frame([other, *labels[1:]]))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "model",
    [
        BEMKLClassifier(BANK, max_iter=3, intermediate_scale=1.0),
        BEMKLRegressor(BANK, max_iter=3),
        BEMKLMultitaskRegressor(BANK, max_iter=3),
        UniformMKLClassifier(BANK),
        LMKLClassifier(BANK, max_iter=2),
        SwMKLClassifier(BANK, svm="mwu"),
        PrimalMKLOneClass(BANK, max_iter=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_refuse_columns_in_another_order_wherever_they_take_samples(model, tmp_path):
    fitted = clone(model).fit(NUMBERED, Y)
    expected = fitted.predict(NUMBERED)
    np.testing.assert_array_equal(fitted.predict(X), expected)  # an array has no labels
    save_model(fitted, tmp_path / "model.skops")
    calls = {"predict", "decision_function", "predict_proba", "gates", "combined_kernel"}
    for known in (fitted, load_model(tmp_path / "model.skops")):
        np.testing.assert_array_equal(known.predict(NUMBERED), expected)
        for name in sorted(call for call in calls if hasattr(known, call)):
            with pytest.raises(ValueError, match=r"`X`.*should match those that were passed.*another order"):
                getattr(known, name)(NUMBERED[[20, 30, 10]])
    with pytest.raises(ValueError, match=r"unseen at fit time: 40; seen at fit time, yet now missing: 10\."):
        fitted.predict(NUMBERED.rename(columns={10: 40}))
    fitted.fit(X, Y).predict(X)
    fitted.predict(NUMBERED)  # nothing to compare with


def test_labels_that_only_count_are_none_beside_names_and_arrays():
    counted, named = frame(range(3)), frame(["a", "b", "c"])
    bank = clone(BANK).fit(counted)
    expected = bank.transform(X)
    assert bank.kernel_names_ == clone(BANK).fit(X).kernel_names_
    np.testing.assert_array_equal(bank.transform(counted), expected)
    with pytest.warns(UserWarning, match="X has feature names, but KernelBank was fitted without"):
        np.testing.assert_array_equal(bank.transform(named), expected)
    bank = clone(BANK).fit(named)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(bank.transform(counted), expected)
    np.testing.assert_array_equal(bank.transform(pl.DataFrame(named)), expected)
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(ValueError, match=r"unseen.*: 2, 0, 1"),
    ):
        bank.transform(frame([2, 0, 1]))


def test_kernels_are_called_by_labels_that_do_not_count():
    bank = KernelBank(Linear(), views="each").fit(NUMBERED[[30, 10]])
    assert bank.kernel_names_ == ["linear · 30", "linear · 10"]


def test_views_do_not_take_positions_for_labels():
    views = {"first": [0], "rest": [1, 2]}
    for table in (X, frame(range(3)), NUMBERED, frame(["a", "b", "c"])):
        bank = KernelBank(Linear(), views).fit(table)
        assert [view.columns.tolist() for view in bank.views_] == [[0], [1, 2]]
    with pytest.raises(
        ValueError, match=r"`views\['first'\]` has 0, which is the label of the column at position 1"
    ):
        KernelBank(Linear(), views).fit(frame([2, 0, 1]))
    with pytest.raises(
        ValueError, match=r"`views\['a'\]` must hold column names or positions from 0 to 2; got 9"
    ):
        KernelBank(Linear(), {"a": [9]}).fit(frame([7, 8, 9]).iloc[:, [0, 1, 2]].rename(columns={9: 6}))


@pytest.mark.parametrize("labels", [LABELS["numbers"], LABELS["text"]], ids=["numbers", "text"])
def test_gate_features_keep_their_columns(labels):
    kernel, gating = X @ X.T, frame(labels)
    model = LMKLClassifier("precomputed", max_iter=2).fit(kernel, Y, gate_features=gating)
    model.predict(kernel, gate_features=gating)
    model.predict(kernel, gate_features=X)
    for method in (model.predict, model.gates, model.combined_kernel):
        with pytest.raises(ValueError, match=r"`gate_features`: The feature names.*another order"):
            method(kernel, gate_features=gating.iloc[:, SHUFFLED])


@pytest.mark.parametrize("called", ["s{}", "{}0"], ids=["text", "numbers"])
def test_kernels_in_frames_are_those_of_the_training_samples(called):
    names = [called.format(i) for i in range(1, len(X) + 1)]
    names = names if names[0].startswith("s") else [int(name) for name in names]
    kernel = pd.DataFrame(X @ X.T, index=names, columns=names)
    model = UniformMKLClassifier("precomputed").fit(kernel, Y)
    rows = kernel.iloc[:5]
    np.testing.assert_array_equal(model.predict(rows), model.predict(rows.to_numpy()))
    with pytest.raises(ValueError, match=r"`X`: The feature names should match.*another order"):
        model.predict(rows.iloc[:, ::-1])
    other = kernel.iloc[::-1]
    said = r"`X` must hold the kernel of the same samples in rows and columns; .* of `y`: `X\[X\.index\]`"
    with pytest.raises(ValueError, match=said):
        UniformMKLClassifier("precomputed").fit(other, Y[::-1])
    remedied = other[other.index]
    found = UniformMKLClassifier("precomputed").fit(remedied, Y[::-1]).decision_function(remedied)
    np.testing.assert_allclose(found[::-1], model.decision_function(kernel), rtol=1e-6)
