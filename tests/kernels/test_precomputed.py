"""Matrices of users as one array, as parts that cross-validation takes, and as a kernel of a bank."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict, cross_val_score

from bayesmkl import BEMKLClassifier, KernelBank, load_model, save_model
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear, Precomputed, stack_kernels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
MATRICES = {"left": X[:, :2] @ X[:, :2].T, "right": np.exp(-((X[:, 2:, None] - X[:, 2:].T) ** 2).sum(axis=1))}


def test_all_forms_give_the_same_array():
    values, names = stack_kernels(MATRICES)
    assert names == ["left", "right"]
    assert values.shape == (30, 30, 2)
    for m, matrix in enumerate(MATRICES.values()):
        np.testing.assert_array_equal(values[..., m], matrix)
    assert np.moveaxis(values, -1, 0).flags.c_contiguous
    first = np.stack(list(MATRICES.values()))
    for given in (list(MATRICES.values()), first, (matrix.astype(object) for matrix in first)):
        other = stack_kernels(given)
        np.testing.assert_array_equal(other.values, values)
        assert other.names == ["kernel 0", "kernel 1"]
    labels = [f"s{i}" for i in range(30)]
    frames = {name: pd.DataFrame(matrix, labels, labels) for name, matrix in MATRICES.items()}
    np.testing.assert_array_equal(stack_kernels(frames).values, values)


def test_rows_of_new_samples_and_cross_validation():
    y = X[:, 0] > 0
    values, names = stack_kernels({"left": MATRICES["left"], "bias": np.ones((30, 30))})
    with pytest.warns(UserWarning, match="bias"):
        model = BEMKLClassifier("precomputed", kernel_names=names, intermediate_scale=1.0).fit(values, y)
    new = RNG.normal(size=(7, 2))
    rows = stack_kernels({"left": new @ X[:, :2].T, "bias": np.ones((7, 30))}).values
    assert np.mean(model.predict(rows) == (new[:, 0] > 0)) > 0.6
    linear, _ = stack_kernels([MATRICES["left"]])
    by_kernel = cross_val_predict(BEMKLClassifier("precomputed", intermediate_scale=1.0), linear, y, cv=3)
    by_bank = cross_val_predict(
        BEMKLClassifier(KernelBank(Linear(), {"left": [0, 1]}, None), intermediate_scale=1.0), X, y, cv=3
    )
    np.testing.assert_array_equal(by_kernel, by_bank)


LABELLED = pd.DataFrame(MATRICES["left"])
WRONG = [
    ({}, ValueError, "`matrices` must hold at least one kernel; got none"),
    ("left.npy", TypeError, "must be a dict or list of matrices, or an array; got 'left.npy'"),
    (3, TypeError, "must be a dict or list of matrices"),
    (MATRICES["left"], ValueError, r"must have shape \(n_kernels, n_rows, n_train\) .* got \(30, 30\)"),
    ({"a": X[0]}, ValueError, r"`matrices\['a'\]` must have shape \(n_rows, n_train\); got \(4,\)"),
    ({"a": np.eye(3), "b": np.eye(4)}, ValueError, r"one shape; got \(3, 3\) for 'a' and \(4, 4\) for 'b'"),
    ({1: np.eye(3), "1": np.eye(3)}, ValueError, "different names; '1' comes 2 times"),
    ({"a": [["x", "y"]]}, ValueError, r"`matrices\['a'\]` must hold numbers; got text"),
    ({"a": LABELLED, "b": LABELLED.iloc[::-1]}, ValueError, "same order; those of 'b' are not those of 'a'"),
]


@pytest.mark.parametrize(("given", "kind", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_set_of_kernels_is_refused(given, kind, message):
    with pytest.raises(kind, match=message):
        stack_kernels(given)


# ------------------------------------------------------------------------------- a matrix as a kernel of a bank

POINTS = RNG.normal(size=(40, 6))
OF_ALL = np.exp(-0.5 * ((POINTS[:, None, :3] - POINTS[:, :3]) ** 2).sum(axis=2))
TABLE = np.column_stack([np.arange(40), POINTS[:, 3:]])
BANK = KernelBank({"graph": Precomputed(OF_ALL), "numbers": Linear()}, {"graph": 0, "numbers": [1, 2, 3]})
SAME = KernelBank({"graph": Gaussian(), "numbers": Linear()}, {"graph": [0, 1, 2], "numbers": [3, 4, 5]})


@pytest.mark.parametrize("normalize", ["spherical", ("center", "trace"), None])
def test_a_matrix_is_the_kernel_that_made_it(normalize):
    rows = RNG.permutation(40)
    train, new = rows[:25], rows[25:]
    by_matrix = clone(BANK).set_params(normalize=normalize).fit(TABLE[train])
    by_function = clone(SAME).set_params(normalize=normalize).fit(POINTS[train])
    np.testing.assert_allclose(by_matrix.train_stack(), by_function.train_stack(), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(
        by_matrix.transform(TABLE[new]), by_function.transform(POINTS[new]), rtol=1e-10, atol=1e-13
    )


def test_samples_without_it_folds_and_searches():
    table, points = TABLE.copy(), POINTS.copy()
    table[::7, 0] = points[::7, :3] = np.nan
    kept = [clone(bank).set_params(missing_views="keep") for bank in (BANK, SAME)]
    np.testing.assert_allclose(
        kept[0].fit_transform(table), kept[1].fit_transform(points), rtol=1e-10, atol=1e-13
    )
    y = POINTS[:, 0] * POINTS[:, 1] > 0
    products = KernelBank(
        {"g": Precomputed(OF_ALL) * Precomputed(OF_ALL), "n": Linear()}, {"g": 0, "n": [1, 2, 3]}
    )
    scores = [
        cross_val_score(BEMKLClassifier(bank, intermediate_scale=1.0), data, y, cv=3)
        for bank, data in (
            (products, TABLE),
            (clone(SAME).set_params(kernels__graph=Gaussian(np.sqrt(0.5))), POINTS),
        )
    ]
    np.testing.assert_array_equal(*scores)


def test_a_model_with_a_matrix_survives_a_file(tmp_path):
    y = POINTS[:, 0] > 0
    model = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(TABLE[:30], y[:30])
    save_model(model, tmp_path / "graphs.bayesmkl")
    loaded = load_model(tmp_path / "graphs.bayesmkl")
    np.testing.assert_array_equal(loaded.predict_proba(TABLE[30:]), model.predict_proba(TABLE[30:]))


def test_landmarks_are_samples():
    picked = clone(BANK).set_params(landmarks=8, landmark_selection="random").fit(TABLE)
    columns = picked.landmarks_[:, 0].astype(int)
    np.testing.assert_allclose(picked.transform(TABLE[:5])[..., 0], OF_ALL[:5, columns], rtol=1e-12)
    with pytest.raises(ValueError, match=r'whole numbers from 0 to 39.*landmark_selection="random"'):
        clone(BANK).set_params(landmarks=8).fit(TABLE)


LOPSIDED = OF_ALL + np.triu(np.ones((40, 40)), 1)
NO_MATRIX = [
    (OF_ALL[:5], ValueError, r"`matrix` must have shape \(n_samples, n_samples\); got \(5, 40\)"),
    (np.full((3, 3), np.nan), ValueError, "`matrix` must have finite entries"),
    (LOPSIDED, ValueError, "`matrix` must be symmetric"),
    (sparse.eye(3, format="csr"), TypeError, "matrix"),
    ("K.npy", ValueError, "`matrix` must be an array"),
]


@pytest.mark.parametrize(("matrix", "kind", "message"), NO_MATRIX, ids=range(len(NO_MATRIX)))
def test_what_is_no_matrix_is_refused(matrix, kind, message):
    with pytest.raises(kind, match=message):
        KernelBank({"all": Precomputed(matrix)}, {"all": 0}).fit(TABLE)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (TABLE, "one column, of positions in the matrix `matrix`; got 4"),
        (TABLE[:, :1] + 0.5, "from 0 to 39, positions in the matrix `matrix`; got 0.5"),
        (TABLE[:, :1] - 1, "got -1"),
        (TABLE[:, :1] + 1, "got 40"),
    ],
    ids=["four", "halves", "negative", "beyond"],
)
def test_what_are_no_positions_is_refused(X, message):
    with pytest.raises(ValueError, match=message):
        KernelBank(Precomputed(OF_ALL)).fit(X)


# ---------------------------------------------------------------------- parts of kernels in cross-validation

N = 36


@pytest.fixture
def kernels(rng):
    X = rng.normal(size=(N, 3))
    return stack_kernels({f"width {w:g}": Gaussian(width=w)(X, X) for w in (1.0, 2.0, 4.0)})


@pytest.fixture
def signal(rng, kernels):
    values = kernels.values.mean(axis=-1) @ rng.normal(size=N)
    return values - np.median(values)


def test_parts_are_those_of_the_array(kernels):
    values, shared = kernels.values, kernels.shared
    assert shared.shape == values.shape
    rows, train = np.array([3, 1, 30]), np.array([7, 7, 0, 2])
    for index in (np.ix_(rows, train), rows, slice(2, 9), np.arange(N) % 2 == 0):
        np.testing.assert_array_equal(np.asarray(shared[index]), values[index])
        assert len(shared[index]) == len(values[index])
    nested = shared[np.ix_(train, train)][np.ix_([0, 2], [1, 3])]
    np.testing.assert_array_equal(np.asarray(nested), values[np.ix_([7, 0], [7, 2])])
    weights = np.array([0.2, 0.0, 3.0])
    np.testing.assert_allclose(nested.combine(weights), values[np.ix_([7, 0], [7, 2])] @ weights, rtol=1e-14)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(nested))), np.asarray(nested))


def test_doubts_and_indefinite_kernels_are_those_of_the_array(kernels, signal):
    own = np.moveaxis(kernels.values, -1, 0)
    y = signal > 0.0
    with pytest.warns(KernelQualityWarning, match="duplicates"):
        UniformMKLClassifier("precomputed").fit(stack_kernels([*own, own[0]]).shared, y)
    indefinite = stack_kernels([own[0], own[1] - 0.5 * np.eye(N)])
    with pytest.raises(ValueError, match="not positive semidefinite: kernel 1"):
        UniformMKLClassifier("precomputed").fit(indefinite.shared, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelQualityWarning)
        clipped = UniformMKLClassifier("precomputed", indefinite="clip")
        scores = [cross_val_score(clipped, X, y, cv=3) for X in (indefinite.shared, indefinite.values)]
    np.testing.assert_array_equal(*scores)


def test_values_that_somebody_may_write_to_are_copied(kernels, signal):
    with pytest.raises(ValueError, match="read-only"):
        kernels.values[0, 0, 0] = 1.0
    own = kernels._replace(values=kernels.values.copy())
    shared = own.shared
    assert not np.shares_memory(shared.whole, own.values)
    assert np.shares_memory(kernels.shared.whole, kernels.values)
    model = UniformMKLClassifier("precomputed").fit(shared, signal > 0.0)
    own.values[...] = np.nan
    assert np.array_equal(model.fit(shared, signal > 0.0).predict(shared), model.predict(kernels.values))


def test_shared_kernels_refuse_bad_input(kernels, signal):
    shared, y = kernels.shared, signal > 0.0
    with pytest.raises(
        IndexError, match=r"is indexed by samples, .* Index `np\.asarray\(kernels\)` otherwise"
    ):
        shared[:, :, 0]
    with pytest.raises(IndexError, match="is indexed by samples"):
        shared[[N]]
    with pytest.raises(ValueError, match=r"to be shared; got 1 of 3 x 4"):
        _ = stack_kernels([np.ones((3, 4))]).shared
    model = UniformMKLClassifier("precomputed").fit(shared, y)
    broken = stack_kernels([np.full((N, N), np.nan)] * 3).shared
    with pytest.raises(ValueError, match="`X` must be finite"):
        model.predict(broken[:5])
    with pytest.raises(ValueError, match=r"`X` must be a precomputed stack of shape"):
        model.predict(shared[np.ix_([0, 1], [0, 1])])
    with pytest.raises(ValueError, match="`X` must hold training kernels"):
        model.fit(shared[:5], y[:5])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(shared, y[:5])
    with pytest.raises(ValueError, match="one class only"):
        model.fit(shared, np.ones(N))
