"""The same data set from a local folder and from OpenML: same rows, same order, same labels.

Both sources are written here, at the true size and with the true class counts, from random rows: the folder
as .npz files, OpenML as the tables `fetch_openml` returns, rows in another order and classes under OpenML's
names.
"""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from scipy.sparse import csr_array
from sklearn.utils import Bunch

from bayesmkl.datasets import _openml, fetch
from bayesmkl.datasets._table import TABLE

# OpenML's names of our labels, in the order -1, +1 or 0, 1, ...
PLAIN = {
    "bupaliver": ("uci_small", ["2", "1"]),
    "pima": ("uci_small", ["tested_negative", "tested_positive"]),
    "heart_statlog": ("uci_small", ["absent", "present"]),
    "sonar": ("uci_small", ["Rock", "Mine"]),
    "australian": ("uci_small", ["0", "1"]),
    "ecoli": ("uci_small", ["cp", "im", "imL", "imS", "imU", "om", "omL", "pp"]),
    "glass": (
        "uci_small",
        [
            "'build wind float'",
            "'build wind non-float'",
            "'vehic wind float'",
            "containers",
            "tableware",
            "headlamps",
        ],
    ),
    "banana": ("raetsch_full", ["1", "2"]),
    "titanic": ("raetsch_full", ["0", "1"]),
}


def labels_of(name, rng):
    """Draw labels with the true counts, shuffled."""
    classes = TABLE[name].classes
    return rng.permutation(np.repeat([c[0] for c in classes], [c[2] for c in classes]))


def as_words(name, y, words):
    position = {label: word for (label, _, _), word in zip(TABLE[name].classes, words, strict=True)}
    return pd.Series([position[label] for label in y.tolist()], dtype="category")


def numbers(name, rng):
    X = rng.normal(scale=9, size=(TABLE[name].n_samples, TABLE[name].n_features)).round(3)
    if name == "heart_statlog":  # the categorical columns: sex cp fbs restecg exang slope ca thal
        levels = {1: 2, 2: 4, 5: 2, 6: 3, 8: 2, 10: 3, 11: 4, 12: 3}
        X[:, list(levels)] = rng.integers(0, list(levels.values()), size=(len(X), len(levels)))
    return X


class Sources:
    """A local folder and an OpenML of our own making."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.tables, self.asked = folder, {}, []
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(_openml, "fetch_openml", self.fetch_openml)

    def fetch_openml(self, *, data_id, data_home, target_column, as_frame, parser):
        self.asked.append((data_id, data_home, target_column, as_frame))
        return self.tables[data_id]

    def write(self, pack, **arrays):
        (self.folder / pack).mkdir(exist_ok=True)
        np.savez(self.folder / pack / f"{pack}.npz", **arrays)

    def publish(self, name, X, y, order, *, number=0):
        data = X[order] if isinstance(X, csr_array) else pd.DataFrame(X).iloc[order].reset_index(drop=True)
        target = pd.Series(y).iloc[order].reset_index(drop=True)
        self.tables[TABLE[name].openml[number]] = Bunch(data=data, target=target)

    def local(self, name, **options):
        self.monkeypatch.setenv("BAYESMKL_DATA", str(self.folder))
        return fetch(name, **options)

    def remote(self, name, **options):
        self.monkeypatch.delenv("BAYESMKL_DATA", raising=False)
        return fetch(name, **options)

    def both(self, name, **options):
        local, remote = self.local(name, **options), self.remote(name, **options)
        np.testing.assert_array_equal(local.data, remote.data)
        np.testing.assert_array_equal(local.target, remote.target)
        assert local.feature_names == remote.feature_names
        if "target_multiclass" in local:
            np.testing.assert_array_equal(local.target_multiclass, remote.target_multiclass)
        return local


@pytest.fixture
def sources(tmp_path, monkeypatch):
    return Sources(tmp_path, monkeypatch)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_numeric_sets(name, sources, rng):
    pack, words = PLAIN[name]
    X, y = numbers(name, rng), labels_of(name, rng)
    sources.write(pack, **{f"{name}_X": X, f"{name}_y": y})
    sources.publish(name, X, as_words(name, y, words), rng.permutation(len(X)))
    bunch = sources.both(name)
    # the rows are those written, each with its own label, in another order
    position = {tuple(row): i for i, row in enumerate(X)}
    written = [position[tuple(row)] for row in bunch.data]
    np.testing.assert_array_equal(bunch.target, y[written])
    assert sorted(written) == list(range(len(X)))
    assert written != list(range(len(X)))
    assert 0.4 < np.mean(np.diff(bunch.data[:, 0]) < 0) < 0.6  # not sorted either
    expected_column = "selector" if name == "bupaliver" else "default-target"
    assert sources.asked == [(TABLE[name].openml[0], None, expected_column, True)]


def test_numeric_labels_are_understood_like_words(sources, rng):
    X, y = numbers("banana", rng), labels_of("banana", rng)
    sources.publish("banana", X, np.where(y == 1, 2.0, 1.0), np.arange(len(X)))
    np.testing.assert_array_equal(
        np.unique(sources.remote("banana").target, return_counts=True)[1], [2924, 2376]
    )


def test_breast_wisconsin_drops_incomplete_rows(sources, rng):
    X, y = rng.integers(1, 11, size=(683, 9)), labels_of("breast_wisconsin", rng)
    sources.write("uci_small", breast_wisconsin_X=X.astype(np.int8), breast_wisconsin_y=y)
    extra = rng.integers(1, 11, size=(16, 9)).astype(float)
    extra[:, 5] = np.nan
    words = as_words("breast_wisconsin", y, ["benign", "malignant"]).tolist() + ["benign"] * 16
    sources.publish("breast_wisconsin", np.vstack([X, extra]), words, rng.permutation(699))
    sources.both("breast_wisconsin")


def test_ionosphere_drops_the_constant_second_column(sources, rng):
    X, y = numbers("ionosphere", rng), labels_of("ionosphere", rng)
    sources.write("uci_small", ionosphere_X=X, ionosphere_y=y)
    sources.publish(
        "ionosphere",
        np.insert(X, 1, 0.0, axis=1),
        as_words("ionosphere", y, ["b", "g"]),
        rng.permutation(351),
    )
    assert sources.both("ionosphere").feature_names[:3] == ["a01", "a03", "a04"]


def test_mushrooms_are_one_hot_without_stalk_root(sources, rng):
    y = labels_of("mushrooms", rng)
    sizes = [6, 4, 10, 2, 9, 2, 2, 2, 12, 2, 4, 4, 9, 9, 1, 4, 3, 5, 9, 6, 7]
    assert sum(sizes) == 112
    table, names, blocks = {}, [], []
    for j, size in enumerate(sizes):
        codes = rng.permutation(np.arange(8124) % size)
        table["bruises%3F" if j == 3 else f"attribute-{j}"] = np.array(list("abcdefghijkl"))[codes]
        names += [f"{'bruises' if j == 3 else f'attribute-{j}'}_{letter}" for letter in "abcdefghijkl"[:size]]
        blocks.append(codes[:, None] == np.arange(size))
    sources.write("mushrooms", X=np.hstack(blocks).astype(np.uint8), y=y, feature_names=np.array(names))
    frame = pd.DataFrame(table)
    frame.insert(10, "stalk-root", np.where(np.arange(8124) % 3, "b", None))
    frame = frame.astype({c: pd.CategoricalDtype([*"abcdefghijkl", "unused"]) for c in frame})
    sources.publish("mushrooms", frame, as_words("mushrooms", y, ["e", "p"]), rng.permutation(8124))
    assert "bruises_a" in sources.both("mushrooms").feature_names


def test_breast_ljubljana_levels_are_coded_in_interval_order(sources, rng):
    y = labels_of("breast_ljubljana", rng)
    levels = {  # alphabetical, as the codes of the file are
        "age": "20-29 30-39 40-49 50-59 60-69 70-79",
        "menopause": "ge40 lt40 premeno",
        "tumor-size": "0-4 10-14 15-19 20-24 25-29 30-34 35-39 40-44 45-49 5-9 50-54",
        "inv-nodes": "0-2 12-14 15-17 24-26 3-5 6-8 9-11",
        "node-caps": "no yes",
        "deg-malig": "1 2 3",
        "breast": "left right",
        "breast-quad": "central left_low left_up right_low right_up",
        "irradiat": "no yes",
    }
    levels = {column: words.split() for column, words in levels.items()}
    assert all(words == sorted(words) for words in levels.values())
    codes = np.column_stack([rng.permutation(np.arange(277) % len(words)) for words in levels.values()])
    sources.write(
        "raetsch_full", breast_cancer_ljubljana_X=codes.astype(np.int8), breast_cancer_ljubljana_y=y
    )
    frame = pd.DataFrame(
        {
            c: [f"'{words[k]}'" for k in column]
            for (c, words), column in zip(levels.items(), codes.T, strict=True)
        }
    )
    incomplete = frame.iloc[:9].copy()
    incomplete.loc[:4, "node-caps"] = "?"
    incomplete.loc[5:, "breast-quad"] = None
    words = as_words("breast_ljubljana", y, ["no-recurrence-events", "recurrence-events"]).tolist()
    sources.publish(
        "breast_ljubljana",
        pd.concat([frame, incomplete]),
        words + ["recurrence-events"] * 9,
        rng.permutation(286),
    )
    bunch = sources.both("breast_ljubljana")
    sizes = bunch.data[:, 2]
    in_order = sorted(levels["tumor-size"], key=lambda interval: int(interval.split("-")[0]))
    counts = [np.count_nonzero(frame["tumor-size"] == f"'{interval}'") for interval in in_order]
    np.testing.assert_array_equal(np.bincount(sizes.astype(int)), counts)


def test_ringnorm_is_standardized_and_twonorm_oriented(sources, rng):
    y = labels_of("ringnorm", rng)
    X = rng.normal(size=(7400, 20)) * np.where(y == 1, 2, 1)[:, None] + 3
    order = rng.permutation(7400)
    sources.publish("ringnorm", X, np.where(y == 1, "1", "2"), order)
    ring = sources.remote("ringnorm")
    np.testing.assert_allclose(ring.data.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(ring.data.std(axis=0), 1)
    assert ring.data[ring.target == 1].std() > 1.5 * ring.data[ring.target == -1].std()

    y = labels_of("twonorm", rng)
    X = (rng.normal(size=(7400, 20)) + 2 / np.sqrt(20) * y[:, None]).round(4)
    sources.write("raetsch_full", twonorm_X=X, twonorm_y=-y)  # the file's +1 is our -1
    for words in (["1", "2"], ["2", "1"]):
        sources.publish("twonorm", X, as_words("twonorm", y, words), order)
        two = sources.both("twonorm")
        assert two.data[two.target == 1].mean() == pytest.approx(2 / np.sqrt(20), abs=0.02)


def test_thyroid_and_image_keep_their_classes(sources, rng):
    diagnosis = rng.permutation(np.repeat([1, 2, 3], [150, 35, 30]))
    X = numbers("thyroid", rng)
    segments = rng.permutation(np.arange(2310) % 7)
    words = np.array(["cement", "brickface", "grass", "foliage", "sky", "path", "window"])
    pixels = numbers("image", rng)
    sources.write(
        "raetsch_full",
        thyroid_X=X,
        thyroid_y3=diagnosis,
        image_segment_X=pixels,
        image_segment_y7=segments + 1,
    )
    sources.publish("thyroid", X, diagnosis.astype(str), rng.permutation(215))
    thyroid = sources.both("thyroid")
    np.testing.assert_array_equal(thyroid.target_multiclass == "normal", thyroid.target == -1)
    sources.publish("image", np.insert(pixels, 2, 9.0, axis=1), words[segments], rng.permutation(2310))
    image = sources.both("image")
    np.testing.assert_array_equal(
        np.isin(image.target_multiclass, ["brickface", "foliage", "sky", "path"]), image.target == 1
    )


def test_splice_letters_become_codes(sources, rng):
    junction = rng.permutation(np.repeat(["EI", "IE", "N"], [762, 765, 1648]))
    letters = rng.choice(list("ACGT"), size=(3175, 60))
    unknown = rng.choice(list("ACGT"), size=(15, 60))
    unknown[:, 7] = "N"
    all_letters, all_junctions = np.vstack([letters, unknown]), np.append(junction, ["EI"] * 15)
    sources.write("raetsch_full", splice_X=all_letters.astype("S1"), splice_y=all_junctions.astype("S2"))
    frame = pd.DataFrame(all_letters)
    frame.insert(0, "Instance_name", [f"s{i}" for i in range(3190)])
    sources.publish("splice", frame, all_junctions, rng.permutation(3190))
    bunch = sources.both("splice")
    back = np.array(list("ACGT"))[bunch.data.astype(int)]
    assert sorted("".join(row) for row in back) == sorted("".join(row) for row in letters)
    np.testing.assert_array_equal(bunch.target == 1, bunch.target_multiclass != "N")
    wide = sources.local("splice", one_hot=True)
    assert wide.data.shape == (3175, 240)
    np.testing.assert_array_equal(wide.data.reshape(3175, 60, 4).argmax(axis=2), bunch.data)


def test_waveform_classes_are_renumbered_as_in_the_book(sources, rng):
    classes = rng.permutation(np.repeat([1, 2, 3], [1657, 1647, 1696]))
    X = numbers("waveform", rng)
    sources.write("raetsch_full", waveform3_X=X, waveform3_y=classes)
    bunch = sources.local("waveform")
    position = {tuple(row): i for i, row in enumerate(X)}
    written = classes[[position[tuple(row)] for row in bunch.data]]
    swap = {1: 3, 2: 2, 3: 1}
    np.testing.assert_array_equal(bunch.target_multiclass, [swap[c] for c in written.tolist()])
    np.testing.assert_array_equal(bunch.target == 1, written == 2)


def test_usps_parts(sources, rng):
    counts = {"train": TABLE["usps"].train_counts}
    counts["test"] = [c[2] - n for c, n in zip(TABLE["usps"].classes, counts["train"], strict=True)]
    y = {part: np.repeat(np.arange(10), c) for part, c in counts.items()}
    X = {part: rng.integers(-1000, 1001, size=(len(y[part]), 256)) for part in y}
    sources.write(
        "usps",
        **{f"X_{part}": X[part].astype(np.int16) for part in X},
        **{f"y_{part}": y[part] for part in y},
    )
    order = np.append(rng.permutation(7291), 7291 + rng.permutation(2007))
    both_X = np.vstack([X["train"], X["test"]]) / 1000 + 1e-5
    words = (np.append(y["train"], y["test"]) + 1).astype(str)
    sources.publish("usps", both_X, words, order)
    whole = sources.both("usps")
    assert whole.n_train == 7291
    train, test = sources.local("usps", subset="train"), sources.local("usps", subset="test")
    np.testing.assert_array_equal(np.vstack([train.data, test.data]), whole.data)
    np.testing.assert_array_equal(np.bincount(train.target), counts["train"])
    assert "n_train" not in train

    sources.publish("usps", both_X, words, rng.permutation(9298))  # parts mixed up: refused
    with pytest.raises(ValueError, match="in the training part"):
        sources.remote("usps")


def test_a9a_is_dense_from_sparse(sources, rng):
    parts = {"train": (32561, 7841), "test": (16281, 3846)}
    X = {part: (rng.random((n, 123)) < 0.1).astype(np.uint8) for part, (n, _) in parts.items()}
    y = {part: np.where(rng.permutation(n) < positive, 1, -1) for part, (n, positive) in parts.items()}
    arrays = {}
    for part, block in X.items():
        sparse = csr_array(block)
        arrays[f"indices_{part}"] = sparse.indices.astype(np.uint8)
        arrays[f"indptr_{part}"] = sparse.indptr
        arrays[f"y_{part}"] = y[part]
    sources.write("a9a", **arrays)
    order = np.append(rng.permutation(32561), 32561 + rng.permutation(16281))
    words = np.append(y["train"], y["test"]).astype(str)
    sources.publish("a9a", csr_array(np.vstack([X["train"], X["test"]])), words, order)
    bunch = sources.both("a9a")
    assert bunch.data.dtype == float
    assert bunch.data.sum() == X["train"].sum() + X["test"].sum()
    assert sources.asked == [(1430, None, "default-target", False)]


def test_mfeat_joins_six_views(sources, rng):
    sizes = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
    blocks = {view: rng.normal(size=(2000, size)).round(4) for view, size in sizes.items()}
    digit = np.repeat(np.arange(10), 200)
    order = rng.permutation(2000)
    sources.write("mfeat", y=digit[order], **{view: block[order] for view, block in blocks.items()})
    for number, block in enumerate(blocks.values()):
        sources.publish("mfeat", block, (digit + 1).astype(str), np.arange(2000), number=number)
    bunch = sources.both("mfeat")
    assert {view: len(columns) for view, columns in bunch.views.items()} == sizes
    rows = {tuple(row): i for i, row in enumerate(blocks["mor"])}
    found = [rows[tuple(row)] for row in bunch.data[:, bunch.views["mor"]]]
    np.testing.assert_array_equal(bunch.data[:, bunch.views["zer"]], blocks["zer"][found])
    np.testing.assert_array_equal(bunch.target, digit[found])

    sources.publish("mfeat", blocks["kar"], digit.astype(str), rng.permutation(2000), number=2)
    with pytest.raises(ValueError, match=r"200 of each digit in turn"):
        sources.remote("mfeat")


def test_heart_one_hot_has_the_28_columns_of_the_paper(sources, rng):
    X, y = numbers("heart_statlog", rng), labels_of("heart_statlog", rng)
    sources.write("uci_small", heart_statlog_X=X, heart_statlog_y=y)
    plain = sources.local("heart_statlog")
    wide = sources.local("heart_statlog", one_hot=True, as_frame=True).data
    assert wide.shape == (270, 28)
    names = pd.Series(wide.columns).str.split("=").str[0]
    counts = names.value_counts()
    assert counts[["sex", "cp", "fbs", "restecg", "exang", "slope", "ca", "thal"]].tolist() == [
        2,
        4,
        2,
        3,
        2,
        3,
        4,
        3,
    ]
    for j, name in enumerate(plain.feature_names):
        block = wide.loc[:, (names == name).to_numpy()]
        if block.shape[1] == 1:
            np.testing.assert_array_equal(block.iloc[:, 0], plain.data[:, j])
        else:
            levels = np.array([float(column.split("=")[1]) for column in block])
            np.testing.assert_array_equal(block.to_numpy() @ levels, plain.data[:, j])
            assert (block.sum(axis=1) == 1).all()


def test_flare_is_text_unless_one_hot(sources, rng):
    zurich = labels_of("flare", rng)
    table = np.column_stack(
        [rng.choice(list("12"), size=(1066, 8)), rng.choice(list("012"), size=(1066, 3)), zurich]
    )
    sources.write("raetsch_full", flare_raw=table)
    raw = sources.local("flare")
    assert raw.data.shape == (1066, 11)
    assert raw.data.dtype.kind == "U"
    wide = sources.local("flare", one_hot=True)
    assert wide.data.dtype == float
    np.testing.assert_array_equal(wide.data[:, -3:], raw.data[:, -3:].astype(float))
    np.testing.assert_array_equal(wide.data[:, 1], (raw.data[:, 0] == "2").astype(float))


# ---- what can go wrong ----


def test_wrong_shape_and_wrong_counts_are_refused(sources, rng):
    X, y = numbers("sonar", rng), labels_of("sonar", rng)
    words = as_words("sonar", y, ["Rock", "Mine"])
    sources.publish("sonar", X[:, :59], words, np.arange(208))
    with pytest.raises(
        ValueError, match=r'"sonar" as read from OpenML 40 .*shape \(208, 59\) instead of \(208, 60\)'
    ):
        sources.remote("sonar")
    sources.publish("sonar", X, as_words("sonar", y, ["Mine", "Rock"]), np.arange(208))
    with pytest.raises(ValueError, match=r"class -1 \(rock\) has 111 samples instead of 97.*BAYESMKL_DATA"):
        sources.remote("sonar")
    X[0, 0] = np.nan
    sources.publish("sonar", X, words, np.arange(208))
    with pytest.raises(ValueError, match="1 missing or infinite values"):
        sources.remote("sonar")


def test_unknown_labels_and_text_columns_are_refused(sources, rng):
    X, y = numbers("sonar", rng), labels_of("sonar", rng)
    sources.publish("sonar", X, np.where(y == 1, "Mine", "Stone"), np.arange(208))
    with pytest.raises(ValueError, match=r"class labels \['stone'\], expected only"):
        sources.remote("sonar")
    frame = pd.DataFrame(X).astype({3: object})
    frame.loc[5, 3] = "high"
    sources.publish("sonar", frame, as_words("sonar", y, ["Rock", "Mine"]), np.arange(208))
    with pytest.raises(ValueError, match="column that is not numeric"):
        sources.remote("sonar")


def test_failed_download_names_the_remedy(monkeypatch, tmp_path):
    def offline(**options):
        assert options["data_home"] == tmp_path
        raise OSError("no route to host")

    monkeypatch.delenv("BAYESMKL_DATA", raising=False)
    monkeypatch.setattr(_openml, "fetch_openml", offline)
    with pytest.raises(
        OSError, match=r'could not download "pima" \(OpenML data set 37\): no route.*BAYESMKL_DATA'
    ):
        fetch("pima", data_home=tmp_path)


def test_missing_file_is_named(sources):
    with pytest.raises(FileNotFoundError, match=r'"pima" needs the file .*uci_small\.npz.*BAYESMKL_DATA'):
        sources.local("pima")


def test_file_that_lacks_an_array(sources):
    sources.write("uci_small", sonar_X=np.zeros((208, 60)))
    with pytest.raises(ValueError, match=r'"sonar" needs an array .*sonar_y'):
        sources.local("sonar")


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 cut off"])
def test_unreadable_file(sources, content):
    (sources.folder / "wpbc").mkdir()
    (sources.folder / "wpbc" / "wpbc.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"must be a readable \.npz file"):
        sources.local("wpbc")


def test_npy_file_under_the_name_of_an_npz(sources):
    (sources.folder / "wpbc").mkdir()
    with open(sources.folder / "wpbc" / "wpbc.npz", "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=r"must be a readable \.npz file"):
        sources.local("wpbc")


def test_scikit_learn_takes_the_arguments_our_stand_in_takes():
    ours = set(inspect.signature(Sources.fetch_openml).parameters) - {"self"}
    assert ours <= set(inspect.signature(sklearn.datasets.fetch_openml).parameters)


class Bomb:
    """Raises when unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was loaded')",))


def test_pickles_are_never_loaded(sources):
    sources.write("wpbc", X=np.array([Bomb()], dtype=object), y=np.zeros(1), complete=np.ones(1, dtype=bool))
    with pytest.raises(ValueError, match=r"pickled objects are never loaded"):
        sources.local("wpbc")


def test_options_that_do_not_apply_are_refused(monkeypatch):
    monkeypatch.delenv("BAYESMKL_DATA", raising=False)
    with pytest.raises(ValueError, match='`subset` must be "all", "train" or "test"'):
        fetch("usps", subset="validation")
    with pytest.raises(ValueError, match='`subset` must be "all" for "sonar"'):
        fetch("sonar", subset="train")
    with pytest.raises(ValueError, match='`one_hot` must be False for "sonar"'):
        fetch("sonar", one_hot=True)
    with pytest.raises(ValueError, match='`path` must be None for "sonar"'):
        fetch("sonar", path="sonar.csv")
    with pytest.raises(ValueError, match=r"cannot be downloaded.*BAYESMKL_DATA.*make_waveform"):
        fetch("waveform")
    with pytest.raises(ValueError, match=r"cannot be downloaded.*data files.$"):
        fetch("flare")
