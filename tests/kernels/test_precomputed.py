"""Matrices of users as one array: values, names, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.model_selection import cross_val_predict

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.kernels import Linear, stack_kernels

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
    named = xr.DataArray(values, dims=("row", "column", "kernel"), coords={"kernel": names})
    np.testing.assert_array_equal(stack_kernels(named).values, values)
    assert stack_kernels(named).names == names
    np.testing.assert_array_equal(stack_kernels(xr.DataArray(first)).values, values)


def test_rows_of_new_samples_and_cross_validation():
    y = X[:, 0] > 0
    values, names = stack_kernels({"left": MATRICES["left"], "bias": np.ones((30, 30))})
    with pytest.warns(UserWarning, match="bias"):
        model = BEMKLClassifier("precomputed", kernel_names=names).fit(values, y)
    new = RNG.normal(size=(7, 2))
    rows = stack_kernels({"left": new @ X[:, :2].T, "bias": np.ones((7, 30))}).values
    assert np.mean(model.predict(rows) == (new[:, 0] > 0)) > 0.6
    linear, _ = stack_kernels([MATRICES["left"]])
    by_kernel = cross_val_predict(BEMKLClassifier("precomputed"), linear, y, cv=3)
    by_bank = cross_val_predict(BEMKLClassifier(KernelBank(Linear(), {"left": [0, 1]}, None)), X, y, cv=3)
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
    (xr.DataArray(np.eye(3)), ValueError, "`matrices` must have three dimensions"),
]


@pytest.mark.parametrize(("given", "kind", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_set_of_kernels_is_refused(given, kind, message):
    with pytest.raises(kind, match=message):
        stack_kernels(given)
