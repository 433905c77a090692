"""Files as the UCI repository publishes them."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl.datasets import fetch


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("BAYESMKL_DATA", raising=False)


def write_wpbc(path, rng, *, outcomes=(148, 46)):
    """Write wpbc.data: id, outcome, time, 32 measurements; four rows lack the last one."""
    X = rng.normal(size=(198, 33)).round(4)
    y = rng.permutation(np.repeat([-1, 1], outcomes))
    y = np.append(y, [-1, -1, -1, 1])
    lines = []
    for i in range(198):
        numbers = [f"{value}" for value in X[i]]
        if i >= 194:
            numbers[-1] = "?"
        lines.append(",".join([str(1000 + i), "R" if y[i] == 1 else "N", *numbers]))
    path.write_text("\n".join(lines) + "\n")
    return X[:194], y[:194]


def rows_and_labels(data, target):
    return sorted(zip(map(tuple, data.tolist()), target.tolist(), strict=True))


def test_wpbc_drops_incomplete_rows(tmp_path):
    X, y = write_wpbc(tmp_path / "wpbc.data", np.random.default_rng(0))
    bunch = fetch("wpbc", path=tmp_path / "wpbc.data")
    assert rows_and_labels(bunch.data, bunch.target) == rows_and_labels(X, y)
    assert bunch.feature_names[0] == "time"
    assert len(bunch.feature_names) == 33


def test_file_and_folder_give_the_same_rows_in_the_same_order(tmp_path, monkeypatch):
    X, y = write_wpbc(tmp_path / "wpbc.data", np.random.default_rng(0))
    from_file = fetch("wpbc", path=tmp_path / "wpbc.data")
    (tmp_path / "wpbc").mkdir()
    order = np.random.default_rng(1).permutation(194)
    complete = np.append(np.ones(194, dtype=bool), False)
    X, y = np.vstack([X[order], np.full(33, np.nan)]), np.append(y[order], 1)
    np.savez(tmp_path / "wpbc" / "wpbc.npz", X=X, y=y, complete=complete)
    monkeypatch.setenv("BAYESMKL_DATA", str(tmp_path))
    from_folder = fetch("wpbc")
    np.testing.assert_array_equal(from_file.data, from_folder.data)
    np.testing.assert_array_equal(from_file.target, from_folder.target)
    # a path goes before the folder
    np.testing.assert_array_equal(fetch("wpbc", path=tmp_path / "wpbc.data").data, from_file.data)


@pytest.mark.parametrize(
    ("name", "n_features", "labels", "counts"),
    [("german_numeric", 24, (2, 1), (300, 700)), ("australian", 14, (0, 1), (383, 307))],
)
def test_blank_separated_files(tmp_path, name, n_features, labels, counts):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([-1, 1], counts))
    X = rng.integers(0, 99, size=(sum(counts), n_features)).astype(float)
    X[:, 1] += 0.25 if name == "australian" else 0
    words = np.where(y == 1, labels[1], labels[0])
    path = tmp_path / "file.dat"
    path.write_text(
        "\n".join(
            "   " + "   ".join(f"{v:g}" for v in [*row, word]) for row, word in zip(X, words, strict=True)
        )
    )
    bunch = fetch(name, path=str(path))
    assert rows_and_labels(bunch.data, bunch.target) == rows_and_labels(X, y)


@pytest.mark.parametrize("name", ["wpbc", "german_numeric"])
def test_without_a_source_the_page_and_the_remedy_are_named(name, tmp_path):
    page = {"wpbc": "Prognostic.*wpbc.data", "german_numeric": "German Credit Data.*german.data-numeric"}[
        name
    ]
    with pytest.raises(
        ValueError, match=f"`path` must be given.*{page}.*UCI Machine Learning Repository.*path="
    ):
        fetch(name)
    with pytest.raises(FileNotFoundError, match=f"`path` must be an existing file.*{page}"):
        fetch(name, path=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wpbc", "1,N,2.5\n", "3 comma-separated columns instead of 35"),
        ("wpbc", "", "`path` must be a file as the UCI repository publishes it"),
        ("wpbc", ",".join(["1", "X", *["1"] * 33]), r"outcomes \['X'\] instead of N and R"),
        ("german_numeric", "1 2 3\n", "3 columns instead of 25"),
        ("german_numeric", "a b c\n", "`path` must be a file as the UCI repository publishes it"),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, name, content, message):
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        fetch(name, path=path)


def test_too_few_rows_are_refused(tmp_path):
    write_wpbc(tmp_path / "wpbc.data", np.random.default_rng(0), outcomes=(149, 45))
    with pytest.raises(ValueError, match=r"class 1 \(recurrence\) has 45 samples instead of 46"):
        fetch("wpbc", path=tmp_path / "wpbc.data")


def test_lost_decimal_points_are_reported(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 50, size=(690, 14))
    X[:, 1] = rng.integers(1600, 8000, size=690)
    path = tmp_path / "australian.dat"
    np.savetxt(path, np.column_stack([X, np.repeat([0, 1], (383, 307))]), fmt="%d")
    with pytest.warns(UserWarning, match="lost the decimal points of A2, A3 and A7"):
        fetch("australian", path=path)
