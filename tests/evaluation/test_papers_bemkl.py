"""Tables of the BEMKL paper: published numbers, sizes, splits and kernels, and the publishers' files."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from scipy.spatial.distance import cdist

from bayesmkl.bemkl import VB, Gamma
from bayesmkl.evaluation.comparison import Comparison
from bayesmkl.evaluation.study import Data, DataRef
from bayesmkl.reproduction import bemkl, bemkl_files, bemkl_uci
from bayesmkl.reproduction.bemkl import TABLES
from bayesmkl.reproduction.tables import MissingData, PaperSet, Published, Setting, Sizes

FAST = Setting(fast=True)

# Entered a second time, column by column of the paper: set, N, P, then seconds, accuracy and kernels of both priors.
TABLE_1 = """
breast      478 130  18.86±0.24 18.84±0.43  96.80±1.02 96.98±0.86  34.35±2.46 98.95±1.32
bupaliver   241 91   3.83±0.03 3.81±0.04  68.41±4.28 70.72±3.83  18.40±2.62 70.70±1.13
heart       189 377  13.69±0.08 13.58±0.09  80.80±4.01 81.36±4.70  41.85±4.26 181.40±8.93
ionosphere  245 442  22.72±0.05 22.76±0.12  92.03±1.72 92.03±1.77  41.90±4.42 219.05±7.77
pima        537 117  21.15±0.23 20.94±0.22  75.02±2.28 74.96±2.08  23.20±2.02 79.55±2.93
sonar       144 793  51.34±0.19 51.51±0.10  76.88±3.95 82.81±4.12  15.30±3.40 372.80±7.78
wdbc        398 403  41.31±0.21 -  95.70±2.32 -  35.65±2.28 -
wpbc        135 429  12.72±0.11 12.67±0.23  75.25±1.01 73.64±2.66  28.25±2.75 220.10±9.83
"""


def published(text: str) -> Published | None:
    return None if text == "-" else Published(*map(float, text.split("±")))


@pytest.mark.parametrize("line", TABLE_1.split("\n")[1:-1], ids=lambda line: line.split()[0])
def test_table_1_holds_the_published_numbers(line: str) -> None:
    name, n_train, n_kernels, *cells = line.split()
    sparse, dense = bemkl_uci.PUBLISHED[name]["sparse"], bemkl_uci.PUBLISHED[name]["non-sparse"]
    assert [
        sparse.seconds,
        dense.seconds,
        sparse.accuracy,
        dense.accuracy,
        sparse.selected,
        dense.selected,
    ] == [published(cell) for cell in cells]
    assert (bemkl_uci.N_TRAIN[name], bemkl_uci.N_KERNELS[name]) == (int(n_train), int(n_kernels))


def test_tables_2_to_5_hold_the_published_numbers() -> None:
    entries = [entry for table in list(TABLES.values())[1:4] for entry in table.entries]
    entries += bemkl.CALTECH101_CELLS
    rows = {(e.dataset, e.model, e.metric): e.published for e in entries if not e.variant}
    assert len(entries) == 2 * len(rows)  # every cell with less noise as well
    assert rows == {
        ("protein", "one-versus-all", "accuracy"): (71.5, 0.1),
        ("protein", "multiclass", "accuracy"): (71.2, 0.2),
        ("flowers17", "one-versus-all", "accuracy"): (85.6, 1.2),
        ("flowers17", "multiclass", "accuracy"): (85.9, 1.2),
        ("flowers102", "one-versus-all", "auc"): (0.969, None),
        ("flowers102", "one-versus-all", "eer"): (0.068, None),
        ("flowers102", "one-versus-all", "accuracy"): (67.0, None),
        ("flowers102", "multiclass", "auc"): (0.969, None),
        ("flowers102", "multiclass", "eer"): (0.069, None),
        ("flowers102", "multiclass", "accuracy"): (68.9, None),
        ("caltech101", "one-versus-all", "accuracy"): (72.7, 0.1),
        ("caltech101", "multiclass", "accuracy"): (73.1, 0.1),
    }


# ------------------------------------------------------------------------------------------------------- table 1


@pytest.mark.parametrize("paper_set", bemkl_uci.SETS, ids=lambda s: s.name)
def test_every_set_has_the_published_number_of_kernels(paper_set: PaperSet) -> None:
    X = np.random.default_rng(0).normal(size=(4, paper_set.sizes.n_features))
    for squares in (2.0, 1.0):
        bank = bemkl_uci.paper_bank(squares).fit(X)
        assert bank.n_kernels_ == bemkl_uci.N_KERNELS[paper_set.name]


def test_kernels_are_those_of_the_paper_in_both_readings_of_the_width() -> None:
    X = np.random.default_rng(1).normal(size=(5, 2))
    widths = [2.0**k for k in range(-3, 7)]
    for squares in (2.0, 1.0):
        expected = []
        for view in (X, X[:, :1], X[:, 1:]):
            expected += [np.exp(-(cdist(view, view) ** 2) / (squares * s**2)) for s in widths]
            powers = [(view @ view.T + 1.0) ** q for q in (1, 2, 3)]
            expected += [k / np.sqrt(np.outer(np.diag(k), np.diag(k))) for k in powers]
        stack = bemkl_uci.paper_bank(squares).fit_transform(X)
        np.testing.assert_allclose(np.moveaxis(stack, -1, 0), expected, atol=1e-12)


def test_splits_have_the_published_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaperSet, "reference", lambda self, setting: (self.name, DataRef(len, obj=self.name)))
    sizes = {s.name: s.sizes.n_samples for s in bemkl_uci.SETS}
    studies = TABLES["bemkl-table1"].studies(Setting())
    assert [study.cv.get_n_splits() for study in studies] == [20, 20, 2, 2, 2, 2]
    seen = set()
    for study in studies[:2]:
        assert set(study.models) == {"sparse", "non-sparse"}
        for name in study.datasets:
            y = np.arange(sizes[name]) % 3 == 0
            for train, test in study.cv.split(y[:, None], y):
                assert len(train) == bemkl_uci.N_TRAIN[name]
                assert len(train) + len(test) == sizes[name]
            seen.add(name)
    assert seen == set(bemkl_uci.PUBLISHED)


def test_the_model_is_the_published_one() -> None:
    expected = {
        "sparse": Gamma(1e-10, 1e-10),
        "non-sparse": Gamma(1.0, 1.0),
    }  # our rate is 1 / the paper's scale
    for name, spec in bemkl_uci.AS_PUBLISHED.items():
        model = spec.estimator[-1]
        assert model._prior("kernel_prior") == expected[name]
        assert model._prior("sample_prior") == model._prior("bias_prior") == Gamma(1.0, 1.0)
        assert (model.max_iter, model.tol, model.inference) == (200, 0.0, VB(accelerate=False))
        assert (model.intermediate_scale, model.margin, model.predictive) == (1.0, 1.0, "paper")


def test_wpbc_comes_without_the_time_of_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.arange(12.0).reshape(3, 4), np.array([-1, 1, 1])
    monkeypatch.setattr(bemkl_files, "fetch", lambda name, return_X_y, path: (X, y))
    data = bemkl_files.wpbc_without_time("wpbc", path="wpbc.data")
    np.testing.assert_array_equal(data.X, X[:, 1:])
    assert data.y is y


def test_agreement_counts_cells_within_one_published_deviation() -> None:
    shifts = {"sparse": 0.5, "non-sparse": -2.0}
    counts = dict.fromkeys([bemkl_uci.above(t) for t in bemkl_uci.THRESHOLDS], 50.0)
    rows = []
    for name, (prior, row) in [
        (n, item) for n in ("breast", "wdbc") for item in bemkl_uci.PUBLISHED[n].items()
    ]:
        known = row.accuracy or Published(50.0, 0.0)
        scores = {"accuracy": (known.value + shifts[prior] * known.std) / 100.0, "log_loss": 0.5}
        for ending, n_splits in (("", 3), (", d²/s²", 2), (", converged", 2)):
            cell = {"dataset": name, "model": prior + ending, "n_samples": 100, "fit_seconds": 1.0}
            rows += [cell | counts | scores | {"split": k} for k in range(n_splits)]
    comparison = Comparison(pd.DataFrame(rows), {"random_state": 0})
    summed, accuracy, *_ = TABLES["bemkl-table1"].tables(comparison, Setting())
    assert len(accuracy.frame) == 12  # the unreadable cells are printed too
    first = summed.frame.iloc[0]
    assert (first["variant"], first["cells"]) == ("paper", 3)
    assert (first["ours"], first["below"], first["above"]) == (2, 1, 0)
    assert first["rms_in_sd"] == pytest.approx(np.sqrt((2 * 0.25 + 4.0) / 3))
    assert list(summed.frame["splits"][:3]) == ["3", "2", "2"]


# -------------------------------------------------------------------------------------------------- tables 2 to 5


def test_replications_share_the_split_and_differ_in_their_start() -> None:
    (study,) = TABLES["bemkl-table2"].studies(FAST._replace(splits=3))
    (reference,) = study.datasets.values()
    splits = reference().splits
    assert len(splits) == 3
    assert all(np.array_equal(a, b) for split in splits for a, b in zip(split, splits[0], strict=True))
    for spec in study.models.values():
        assert spec.estimator[-1].init == "random"
        assert spec.new(7, 5, None)[-1].random_state == 7


def test_splits_of_caltech_are_printed_as_one_set() -> None:
    accuracy = {1: 0.70, 2: 0.74, 3: 0.75}
    models = TABLES["bemkl-table5"].studies(FAST)[0].models
    rows = [
        {"dataset": f"caltech101 split {k}", "model": model, "split": 0, "n_samples": 3060, "accuracy": value}
        for k, value in accuracy.items()
        for model in models
    ]
    (table,) = TABLES["bemkl-table5"].tables(Comparison(pd.DataFrame(rows), {"random_state": 0}), Setting())
    row = table.frame.iloc[0]
    assert (row["data"], str(row["splits"]), row["model"]) == ("caltech101", "3", "one-versus-all")
    assert row["ours"] == pytest.approx(73.0)
    assert row["difference_in_sd"] == pytest.approx(3.0)


@pytest.fixture
def distances() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    names = ["D_colourgc", "D_shapegc", "D_texturegc", "D_hog", "D_hsv", "D_siftint", "D_siftbdy"]
    return {name: cdist(points, points) for name in names for points in [rng.normal(size=(34, 3))]}


def write_flowers17(folder, distances) -> None:
    folder.mkdir(parents=True)
    of_2006 = {name: matrix for name, matrix in distances.items() if name.endswith("gc")}
    savemat(folder / "distancematrices17gcfeat06.mat", of_2006)
    savemat(
        folder / "distancematrices17itfeat08.mat", {n: d for n, d in distances.items() if n not in of_2006}
    )
    rows = np.arange(1, 35)[None]  # numbered from 1, in rows, as MATLAB does
    sets = {}
    for k in (1, 2, 3):
        shuffled = np.random.default_rng(k).permutation(rows[0])[None]
        sets |= {f"trn{k}": shuffled[:, :14], f"val{k}": shuffled[:, 14:20], f"tst{k}": shuffled[:, 20:]}
    savemat(folder / "datasplits.mat", sets)


def test_flowers17_reads_the_published_files(tmp_path, distances) -> None:
    write_flowers17(tmp_path / "flowers17", distances)
    data = bemkl_files.flowers17(str(tmp_path / "flowers17"))
    assert data.X.shape == (34, 34, 7)
    np.testing.assert_array_equal(data.X[:, :, 1], distances["D_shapegc"])
    np.testing.assert_array_equal(data.X[:, :, 4], distances["D_hsv"])
    np.testing.assert_array_equal(data.y, np.repeat(np.arange(1, 18), 2))
    for k, (train, test) in enumerate(data.splits, start=1):
        expected = np.random.default_rng(k).permutation(34)
        np.testing.assert_array_equal(train, np.sort(expected[:20]))
        np.testing.assert_array_equal(test, np.sort(expected[20:]))


def test_flowers102_reads_the_published_files(tmp_path) -> None:
    rng = np.random.default_rng(3)
    found = {
        name: cdist(x, x) for name in bemkl_files.FLOWERS102_DISTANCES for x in [rng.normal(size=(9, 2))]
    }
    savemat(tmp_path / "distancematrices102.mat", found)
    savemat(tmp_path / "imagelabels.mat", {"labels": np.array([[1, 2, 3] * 3])})
    savemat(tmp_path / "setid.mat", {"trnid": [[1, 4, 7]], "valid": [[2, 3]], "tstid": [[9, 5, 6, 8]]})
    data = bemkl_files.flowers102(str(tmp_path))
    np.testing.assert_array_equal(data.X[:, :, 3], found["Dsiftbdy"])
    np.testing.assert_array_equal(data.y, [1, 2, 3] * 3)
    np.testing.assert_array_equal(data.splits[0][0], [0, 1, 2, 3, 6])
    np.testing.assert_array_equal(data.splits[0][1], [4, 5, 7, 8])


def test_caltech101_reads_the_published_files(tmp_path) -> None:
    rng, folder = np.random.default_rng(4), tmp_path / "cal101-ker-15-2"
    folder.mkdir()
    (tmp_path / "cal101-meta").mkdir()
    stack = {}
    for name in ("echi2_phowGray_L0", "el2_gb"):
        x, z = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
        stack[name] = (x @ x.T, x @ z.T)
        savemat(folder / f"{name}.mat", {"matrix": stack[name][0]})
        savemat(folder / f"test_{name}.mat", {"matrix": stack[name][1]})
    classes = {"trainImageClasses": [[1, 1, 2, 2]], "testImageClasses": [[1, 2, 1, 2, 1, 2]]}
    savemat(tmp_path / "cal101-meta" / "meta-15-2.mat", classes)
    data = bemkl_files.caltech101(str(folder))
    (train, test), m = data.splits[0], 1
    np.testing.assert_allclose(data.X[np.ix_(train, train)][:, :, m], stack["el2_gb"][0])
    np.testing.assert_allclose(data.X[np.ix_(test, train)][:, :, m], stack["el2_gb"][1].T)
    np.testing.assert_array_equal(data.y[test], [1, 2, 1, 2, 1, 2])
    savemat(folder / "test_el2_gb.mat", {"matrix": stack["el2_gb"][1].T})
    with pytest.raises(
        ValueError, match=r"test_el2_gb.mat' has a matrix of shape \(6, 4\); the labels make \(4, 6\)"
    ):
        bemkl_files.caltech101(str(folder))


def test_protein_makes_quadratic_kernels_of_standardized_features(tmp_path) -> None:
    rng = np.random.default_rng(5)
    parts = {
        name: (rng.normal(3.0, 2.0, (6, d)), rng.normal(size=(4, d))) for name, d in (("comp", 3), ("sw1", 5))
    }
    for name, tables in parts.items():
        for table, part in zip(tables, ("train", "test"), strict=True):
            np.savetxt(tmp_path / f"protein_{name}_{part}.csv", table, delimiter=",", fmt="%.17g")
    np.savetxt(tmp_path / "protein_label_train.csv", [1, 2, 3] * 2, fmt="%d")
    np.savetxt(tmp_path / "protein_label_test.csv", [1, 2, 3, 1], fmt="%d")
    data = bemkl_files.protein(str(tmp_path), n_splits=2)
    assert data.X.shape == (10, 10, 2)
    np.testing.assert_array_equal(data.y, [1, 2, 3] * 2 + [1, 2, 3, 1])
    assert len(data.splits) == 2
    np.testing.assert_array_equal(data.splits[1][1], [6, 7, 8, 9])
    train, test = parts["sw1"]
    z = (np.vstack([train, test]) - train.mean(axis=0)) / train.std(axis=0)
    expected = (z @ z.T + 1.0) ** 2
    expected /= np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(data.X[:, :, 1], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("load", "content"),
    [
        (bemkl_files.protein, "kernels"),
        (bemkl_files.flowers17, "distances"),
        (bemkl_files.flowers102, "distances"),
        (bemkl_files.caltech101, "kernels"),
    ],
)
def test_folders_of_the_common_layout_are_read_as_well(load, content, tmp_path) -> None:
    stack = np.random.default_rng(6).random((2, 3, 3))
    np.save(tmp_path / f"{content}.npy", stack)
    (tmp_path / "labels.csv").write_text("label\n1\n2\n1\n", encoding="utf-8")
    (tmp_path / "splits.csv").write_text("first\ntrain\ntest\ntrain\n", encoding="utf-8")
    data = load(str(tmp_path))
    np.testing.assert_array_equal(data.X, np.moveaxis(stack, 0, 2))
    np.testing.assert_array_equal(data.splits[0][0], [0, 2])


@pytest.mark.parametrize(
    ("paper_set", "asked"),
    [
        (bemkl.PROTEIN, "NAME_train.csv"),
        (bemkl.FLOWERS17, "distancematrices17gcfeat06.mat"),
        (bemkl.FLOWERS102, "distancematrices102.mat"),
        (bemkl.CALTECH101[1], "meta-15-1.mat to meta-15-3.mat"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_missing_files_are_named(paper_set: PaperSet, asked: str, tmp_path) -> None:
    with pytest.raises(MissingData, match=re.escape(asked)):
        paper_set.reference(Setting())
    (tmp_path / paper_set.source.name).mkdir(parents=True)
    with pytest.raises(MissingData, match=re.escape(asked)):
        paper_set.reference(Setting(data=tmp_path))


def test_published_sizes_are_asserted(tmp_path, distances) -> None:
    write_flowers17(tmp_path / "flowers17", distances)
    with pytest.raises(MissingData, match=r"published 1360 samples.*they have 34 samples"):
        bemkl.FLOWERS17.reference(Setting(data=tmp_path))
    tiny = bemkl.FLOWERS17._replace(sizes=Sizes(34, None, 7, 17, 3, 20))
    label, reference = tiny.reference(Setting(data=tmp_path))
    assert label == "flowers17"
    assert isinstance(reference(), Data)


def test_sizes_are_the_published_ones() -> None:
    sizes = {s.name: s.sizes for table in list(TABLES.values())[1:] for s in table.sets}
    assert sizes["protein"] == Sizes(311 + 383, n_kernels=12, n_classes=27, n_splits=1, n_train=311)
    assert sizes["flowers17"] == Sizes(17 * 80, n_kernels=7, n_classes=17, n_splits=3, n_train=17 * 60)
    assert sizes["flowers102"] == Sizes(2040 + 6149, n_kernels=4, n_classes=102, n_splits=1, n_train=2040)
    for k in (1, 2, 3):
        expected = Sizes(102 * 30, n_kernels=10, n_classes=102, n_splits=1, n_train=102 * 15)
        assert sizes[f"caltech101 split {k}"] == expected
