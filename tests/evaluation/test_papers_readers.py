"""Folders of kernels, distances and features that users bring, in every form of the documented layout."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.io
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline

from bayesmkl.datasets import load_kernels
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.kernels import FromDistance
from bayesmkl.reproduction.readers import DistanceKernels, read_user_data
from bayesmkl.reproduction.standins import cut_down, synthetic_features, synthetic_kernels
from bayesmkl.reproduction.tables import measure

N, P = 12, 3
DATA = synthetic_kernels(N, P, n_classes=3, n_splits=2)
FIRST = np.moveaxis(DATA.X, 2, 0)  # kernels first
TEXT = np.array(["daffodil", "snowdrop", "tulip"])[DATA.y]


def parts_of(splits):
    parts = np.zeros((N, len(splits)), dtype=int)
    for column, (train, test) in enumerate(splits):
        parts[train, column], parts[test, column] = 1, 2
    return parts


def write_labels(folder, labels=TEXT, splits=True):
    pd.DataFrame({"label": labels}).to_csv(folder / "labels.csv", index=False)
    if splits:
        named = pd.DataFrame(parts_of(DATA.splits), columns=["first", "second"]).astype(str)
        named.replace({"1": "train", "2": "test", "0": ""}).to_csv(folder / "splits.csv", index=False)


def write_one_array(folder):
    np.save(folder / "kernels.npy", FIRST)
    write_labels(folder)


def write_samples_first(folder):
    np.save(folder / "kernels.npy", DATA.X.astype(np.float64))
    write_labels(folder)


def write_matrices(folder):
    for k in range(P):
        np.save(folder / f"kernel_{k + 9:02d}.npy", FIRST[k])  # 09, 10, 11
    write_labels(folder)


def write_text(folder):
    for k in range(P):
        np.savetxt(
            folder / f"kernel_{k + 9}.csv", FIRST[k], delimiter=","
        )  # 9, 10, 11: not in the order of names
    write_labels(folder)


def write_mat(folder):
    held = {"kernels": DATA.X, "labels": DATA.y[None], "splits": parts_of(DATA.splits)}
    scipy.io.savemat(folder / "kernels.mat", held)


@pytest.mark.parametrize(
    "write",
    [write_one_array, write_samples_first, write_matrices, write_text, write_mat],
    ids=lambda f: f.__name__,
)
def test_every_form_of_kernels_gives_the_same_data(write, tmp_path):
    write(tmp_path)
    data = read_user_data(str(tmp_path))
    np.testing.assert_allclose(data.X, DATA.X, rtol=1e-15)
    np.testing.assert_array_equal(data.y, DATA.y if write is write_mat else TEXT)
    for (train, test), (own_train, own_test) in zip(data.splits, DATA.splits, strict=True):
        np.testing.assert_array_equal(train, np.sort(own_train))
        np.testing.assert_array_equal(test, np.sort(own_test))
    sizes = measure(data)
    assert (sizes.n_samples, sizes.n_kernels, sizes.n_classes, sizes.n_splits, sizes.n_train) == (
        N,
        P,
        3,
        2,
        6,
    )


def test_unit_trace_divides_each_kernel(tmp_path):
    np.save(tmp_path / "kernels.npy", FIRST * np.array([1.0, 2.0, 3.0])[:, None, None])
    write_labels(tmp_path, splits=False)
    data = read_user_data(str(tmp_path), unit_trace=True)
    np.testing.assert_allclose(np.einsum("iik->k", data.X), 1.0)
    assert data.splits is None


@pytest.mark.parametrize("form", ["npy", "csv", "svmlight", "mat"])
def test_every_form_of_features_gives_the_same_data(form, tmp_path):
    table = synthetic_features(N, 4)
    file = tmp_path / f"features.{form}"
    if form == "npy":
        np.save(file, table.X)
    elif form == "csv":
        pd.DataFrame(table.X, columns=list("abcd")).to_csv(file, index=False)
    elif form == "mat":
        scipy.io.savemat(file, {"features": table.X})
    else:
        dump_svmlight_file(table.X, table.y, str(file))
    if form != "svmlight":
        np.save(tmp_path / "labels.npy", table.y)
    data = read_user_data(str(tmp_path), "features")
    np.testing.assert_allclose(data.X, table.X, rtol=1e-14)
    np.testing.assert_array_equal(data.y, table.y)


def write_nothing(folder):
    pass


def write_no_labels(folder):
    np.save(folder / "kernels.npy", FIRST)


def write_test_by_train(folder):
    np.save(folder / "kernels.npy", FIRST[:, :5])
    write_labels(folder)


def write_fewer_labels(folder):
    np.save(folder / "kernels.npy", FIRST)
    write_labels(folder, TEXT[:-1], splits=False)


def write_wrong_header(folder):
    np.save(folder / "kernels.npy", FIRST)
    pd.DataFrame({"class": TEXT}).to_csv(folder / "labels.csv", index=False)


def write_empty_label(folder):
    np.save(folder / "kernels.npy", FIRST)
    write_labels(folder, ["NA", "", *TEXT[2:]], splits=False)


def write_unknown_part(folder):
    write_one_array(folder)
    pd.DataFrame({"first": ["train"] * 6 + ["tset"] * 6}).to_csv(folder / "splits.csv", index=False)


def write_not_a_number(folder):
    kernels = FIRST.copy()
    kernels[1, 2, 3] = np.nan
    np.save(folder / "kernels.npy", kernels)
    write_labels(folder)


def write_different_shapes(folder):
    write_matrices(folder)
    np.save(folder / "kernel_10.npy", FIRST[1][:5, :5])


def write_other_variable(folder):
    scipy.io.savemat(folder / "kernels.mat", {"K": DATA.X, "labels": DATA.y})


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (write_nothing, r"must hold kernels\.npy"),
        (write_no_labels, r"no labels\.csv"),
        (write_test_by_train, r"among all samples.*\(3, 5, 12\)"),
        (write_fewer_labels, "12 samples, but 11 labels"),
        (write_wrong_header, "one column, `label`; got"),
        (write_empty_label, "1 empty labels"),
        (write_unknown_part, "got 'tset'"),
        (write_not_a_number, "1 numbers in its kernels that are not finite"),
        (write_different_shapes, r"shape \(5, 5\), but kernel_09\.npy has \(12, 12\)"),
        (write_other_variable, "variable `kernels`; it has K, labels"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_with_a_folder_is_said(write, message, tmp_path):
    write(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_user_data(str(tmp_path))


def test_distances_become_the_kernels_of_their_training_pairs(tmp_path):
    distances = synthetic_kernels(40, P, content="distances")
    np.save(tmp_path / "distances.npy", distances.X)
    np.save(tmp_path / "labels.npy", distances.y)
    data = read_user_data(str(tmp_path), "distances")
    train, test = np.arange(30), np.arange(30, 40)
    step = DistanceKernels().fit(data.X[np.ix_(train, train)])
    for k in range(P):  # oracle: the package's own kernel of one distance
        own = FromDistance("precomputed").fit(data.X[np.ix_(train, train)][:, :, k])
        assert step.scales_[k] == pytest.approx(own.scale_)
        kernel = own(data.X[np.ix_(test, train)][:, :, k], np.zeros((30, 30)))
        np.testing.assert_allclose(step.transform(data.X[np.ix_(test, train)])[:, :, k], kernel)
    model = Pipeline([("kernels", DistanceKernels()), ("model", UniformMKLClassifier("precomputed"))])
    assert cross_val_score(model, data.X, data.y, cv=4).mean() > 0.7  # rows and columns are cut


def test_stand_ins_have_the_shape_that_is_asked_for():
    table = synthetic_features(31, 7, n_classes=4)
    assert table.X.shape == (31, 7)
    np.testing.assert_array_equal(np.bincount(table.y), [8, 8, 8, 7])
    kernels = synthetic_kernels(30, 5, n_classes=3)
    assert kernels.X.shape == (30, 30, 5)
    for k in range(5):
        kernel = kernels.X[:, :, k]
        np.testing.assert_allclose(np.diag(kernel), 1.0)
        assert np.linalg.eigvalsh(kernel).min() > -1e-10
    iris = cut_down("iris", 30)
    np.testing.assert_array_equal(np.bincount(iris.y), [10, 10, 10])


@pytest.mark.parametrize(
    "write", [write_one_array, write_matrices, write_text], ids=["array", "matrices", "text"]
)
def test_kernels_of_a_folder_come_with_labels_and_splits(write, tmp_path):
    write(tmp_path)
    data = load_kernels(tmp_path)
    assert data.data == pytest.approx(DATA.X, rel=1e-12)
    assert data.target.tolist() == TEXT.tolist()
    for ours, given in zip(data.splits, DATA.splits, strict=True):
        assert [rows.tolist() for rows in ours] == [sorted(rows) for rows in given]
    X, y = load_kernels(str(tmp_path), return_X_y=True)
    assert X.shape == (N, N, P)
    assert y.tolist() == TEXT.tolist()
    (tmp_path / "splits.csv").unlink()
    assert load_kernels(tmp_path).splits is None
