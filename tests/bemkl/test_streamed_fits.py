"""Fits and predictions that never hold their kernels, against those that do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._estimator import base
from bayesmkl._utils import memory
from bayesmkl.bemkl import VB, Storage
from bayesmkl.bemkl import reading as predict
from bayesmkl.datasets import open_rows
from bayesmkl.discriminative import EasyMKLClassifier
from bayesmkl.kernels import Gaussian, Laplacian, Linear
from bayesmkl.kernels.stacks import streamed
from bayesmkl.kernels.stacks.streamed import StreamedStack
from bayesmkl.posterior import to_datatree

SAME = 1e-9  # relative to the largest entry, after sweeps that carry the rounding of other sums along
N = 90
FIXED = {"max_iter": 8, "tol": 0.0, "inference": VB(accelerate=False)}
RNG = np.random.default_rng(5)
NAMES = ["a", "b", "c"]
X = RNG.normal(size=(N, 3))
SIGNAL = X[:, 0] + X[:, 1] ** 2 - 1.0
LABELS = np.where(SIGNAL > 0.0, "yes", "no")
MODELS = {
    "binary": (BEMKLClassifier(**FIXED, intermediate_scale=1.0), LABELS),
    "nonnegative": (BEMKLClassifier(nonnegative=True, **FIXED, intermediate_scale=1.0), LABELS),
    "semi-supervised": (
        BEMKLClassifier(unlabeled_label="?", **FIXED, intermediate_scale=1.0),
        np.where(np.arange(N) % 3, LABELS, "?"),
    ),
    "three classes": (BEMKLClassifier(**FIXED, intermediate_scale=1.0), np.digitize(SIGNAL, [-0.5, 0.5])),
    "multinomial": (
        BEMKLClassifier(multiclass="multinomial", **FIXED, intermediate_scale=1.0),
        np.digitize(SIGNAL, [-0.5, 0.5]),
    ),
    "labels": (
        BEMKLClassifier(**FIXED, intermediate_scale=1.0),
        np.column_stack([SIGNAL > 0.0, X[:, 2] > 0.3]).astype(int),
    ),
    "regression": (BEMKLRegressor(**FIXED), SIGNAL),
    "targets": (BEMKLRegressor(**FIXED), np.column_stack([SIGNAL, X[:, 2]])),
}


@pytest.fixture(autouse=True)
def many_small_blocks(monkeypatch):
    monkeypatch.setattr(streamed, "TILE", 7 * 12)
    monkeypatch.setattr(streamed, "LEAST_ROWS", 1)


@pytest.fixture
def file(tmp_path):
    pd.DataFrame(X, columns=NAMES).assign(label=LABELS).to_parquet(tmp_path / "X.parquet", row_group_size=25)
    return tmp_path / "X.parquet"


def bank(**options):
    options = {"landmarks": 12} | options
    return KernelBank(
        [Gaussian(width=1.5), Laplacian(width=2), Linear()], views={"l": [0, 1], "r": [2]}, **options
    )


def assert_same(actual, expected):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=0, atol=SAME * max(scale, 1e-3))


def answers(model, rows):
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(rows))
    return np.stack(model.predict(rows, return_std=True))


@pytest.mark.heavy
@pytest.mark.parametrize("name", MODELS)
def test_streamed_fits_are_the_dense_ones(name):
    model, y = MODELS[name]
    dense, other = (
        clone(model).set_params(kernels=bank(), storage=s).fit(X, y) for s in ("dense", "streamed")
    )
    assert (dense.storage_, other.storage_) == ("dense", "streamed")
    for attribute in (
        "elbo_history_",
        "dual_coef_",
        "kernel_weights_cov_",
        "kernel_shares_",
        "kernel_shares_std_",
    ):
        assert_same(getattr(other, attribute), getattr(dense, attribute))
    assert_same(answers(other, X[:9]), answers(dense, X[:9]))


def test_square_stacks_can_be_streamed():
    """All samples compared with each other, without holding the kernels."""
    dense, other = (
        BEMKLClassifier(bank(landmarks=None), storage=s, **FIXED, intermediate_scale=1.0).fit(X, LABELS)
        for s in ("dense", "streamed")
    )
    assert_same(other.elbo_history_, dense.elbo_history_)
    assert_same(other.predict_proba(X), dense.predict_proba(X))


def test_fits_from_a_file_are_those_from_memory(file):
    """With fewer rows than landmarks are learned from, everything is equal, predictions from a file included."""
    rows, frame = open_rows(file, NAMES), pd.DataFrame(X, columns=NAMES)
    here = BEMKLClassifier(bank(), **FIXED, intermediate_scale=1.0).fit(frame, LABELS)
    there = BEMKLClassifier(bank(), **FIXED, intermediate_scale=1.0).fit(rows, LABELS)
    assert there.storage_ == "streamed"
    assert there.n_features_in_ == 3
    assert list(there.feature_names_in_) == NAMES
    assert_same(there.elbo_history_, here.elbo_history_)
    assert_same(there.kernel_shares_, here.kernel_shares_)
    for query in (rows, frame):
        assert_same(there.predict_proba(query), here.predict_proba(frame))
        np.testing.assert_array_equal(there.predict(query), here.predict(frame))
    assert_same(here.predict_proba(rows), here.predict_proba(frame))


def test_models_of_files_do_not_keep_samples(file, tmp_path):
    """Nor do they find them again; a saved one predicts the same."""
    rows = open_rows(file, NAMES)
    model = BEMKLClassifier(bank(), **FIXED, intermediate_scale=1.0).fit(rows, LABELS)
    assert model.kernel_bank_.X_train_.shape == (12, 3)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    for one in (model, loaded):
        with pytest.raises(ValueError, match="`X` was read in blocks: the model has no training samples"):
            to_datatree(one)


def test_rows_of_files_are_for_numpy(file):
    with pytest.raises(ValueError, match=r'`backend` of `storage` must be "numpy" for rows .* got "jax"'):
        BEMKLClassifier(bank(), storage=Storage(backend="jax")).fit(open_rows(file, NAMES), LABELS)


def test_many_rows_are_predicted_in_blocks(monkeypatch):
    """Kernels of rows beyond a size are never held, whatever the training kernels were; answers are the same."""
    model = BEMKLClassifier(bank(), **FIXED, intermediate_scale=1.0).fit(X, LABELS)
    expected = model.predict_proba(X)
    assert not isinstance(model._row_stack(X), StreamedStack)
    monkeypatch.setattr(base, "STREAMED_FROM", 8 * 6 * 12 * 50)
    assert isinstance(model._row_stack(X), StreamedStack)
    assert_same(model.predict_proba(X), expected)


@pytest.mark.parametrize("name", ["binary", "three classes", "multinomial", "regression", "targets"])
def test_scores_of_many_rows_are_found_block_by_block(name, file, monkeypatch):
    """Of a file, no more than a block is in memory."""
    estimator, target = MODELS[name]
    model, rows = clone(estimator).set_params(kernels=bank()).fit(X, target), open_rows(file, NAMES)[:70]
    expected = model.predict(rows)
    monkeypatch.setattr(predict, "OUTPUTS_AT_ONCE", 6 * 11)
    looked = []
    read = StreamedStack.rows
    monkeypatch.setattr(StreamedStack, "rows", lambda own, index: looked.append(index) or read(own, index))
    found = model.predict(open_rows(file, NAMES))
    if np.issubdtype(expected.dtype, np.floating):
        assert_same(found[:70], expected)
    else:
        np.testing.assert_array_equal(found[:70], expected)
    assert len(looked) > N // 11


# ------------------------------------------------------------------------------------------------- bad input


def test_what_files_cannot_do(file):
    rows = open_rows(file, NAMES)
    with pytest.raises(ValueError, match="`landmarks` must be given where `X` is read in blocks"):
        BEMKLClassifier(KernelBank(), intermediate_scale=1.0).fit(rows, LABELS)
    with pytest.raises(
        ValueError, match='`storage` must be "auto" or "streamed" for rows that are read in blocks'
    ):
        BEMKLClassifier(bank(), storage="dense", intermediate_scale=1.0).fit(rows, LABELS)
    with pytest.raises(
        ValueError, match="`X` must be an array or a DataFrame for EasyMKLClassifier; got <90 rows"
    ):
        EasyMKLClassifier(KernelBank()).fit(rows, LABELS)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[90, 89\]"):
        BEMKLClassifier(bank(), intermediate_scale=1.0).fit(rows, LABELS[1:])
    with pytest.raises(ValueError, match=r"`columns`: 'label' of 'X\.parquet' holds"):
        open_rows(file)


def test_memory_below_one_block_is_refused_before_kernels_are_evaluated(file, monkeypatch):
    stack = streamed.streamed_stack(bank().fit(X), X)
    needed = stack.nbytes + 2 * 8 * stack.n_kernels * N
    model = BEMKLClassifier(bank(), storage="streamed", **FIXED, intermediate_scale=1.0)
    monkeypatch.setattr(memory, "_left_on_machine", lambda root: iter([needed]))
    model.fit(X, LABELS)
    before = model.dual_coef_
    monkeypatch.setattr(memory, "_left_on_machine", lambda root: iter([needed - 1]))
    monkeypatch.setattr(StreamedStack, "gram", None)
    with pytest.raises(MemoryError, match=r"`X`: what is held of 6 kernels of 90 x 12 entries .* Use fewer"):
        model.fit(X, LABELS)
    assert model.dual_coef_ is before


def test_files_with_other_columns_are_not_predicted(file):
    model = BEMKLClassifier(bank(), **FIXED, intermediate_scale=1.0).fit(open_rows(file, NAMES), LABELS)
    with pytest.raises(ValueError, match=r"`X`: The feature names .* they come in another order"):
        model.predict(open_rows(file, ["b", "a", "c"]))


def test_missing_values_are_found_before_anything_is_learned(tmp_path):
    holes = X.copy()
    holes[77, 1] = np.nan
    np.save(tmp_path / "X.npy", holes)
    model = BEMKLClassifier(bank(), intermediate_scale=1.0)
    with pytest.raises(ValueError, match=r"`X`: row 77 of <90 rows .*> has NaN in column 1"):
        model.fit(open_rows(tmp_path / "X.npy"), LABELS)
    fitted = BEMKLClassifier(bank(), **FIXED, intermediate_scale=1.0).fit(X, LABELS)
    with pytest.raises(ValueError, match=r"row 77 of .* has NaN in column 1"):
        fitted.predict(open_rows(tmp_path / "X.npy"))
