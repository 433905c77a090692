"""Folders of kernels that are not what they seem: refused, or read in the one way that fits."""

import re
from pathlib import Path

import numpy as np
import pytest

from bayesmkl.datasets import load_kernels

RNG = np.random.default_rng(0)
N = 6
FACTORS = RNG.normal(size=(3, N, 2))
KERNELS = FACTORS @ FACTORS.transpose(0, 2, 1)  # (n_kernels, n_samples, n_samples)
LABELS = np.array([0, 1] * 3)


def write(folder: Path, **arrays: np.ndarray) -> None:
    for name, array in ({"labels": LABELS} | arrays).items():
        np.save(folder / f"{name}.npy", array)


def test_several_forms_of_the_same_are_refused(tmp_path: Path) -> None:
    write(tmp_path, kernels=KERNELS, kernel_01=KERNELS[1])
    with pytest.raises(
        ValueError, match=re.escape("kernels.npy, kernel_01.npy, and only one form may be present")
    ):
        load_kernels(tmp_path)
    (tmp_path / "kernels.npy").unlink()
    np.savetxt(tmp_path / "kernel_1.csv", KERNELS[2], delimiter=",")
    with pytest.raises(ValueError, match=re.escape("kernel_01.npy, kernel_1.csv")):
        load_kernels(tmp_path)
    (tmp_path / "kernel_1.csv").rename(tmp_path / "kernel_3.csv")
    with pytest.raises(ValueError, match="none with number 2"):
        load_kernels(tmp_path)
    (tmp_path / "kernel_3.csv").rename(tmp_path / "kernel_2.csv")
    np.testing.assert_allclose(load_kernels(tmp_path).data, np.moveaxis(KERNELS[1:], 0, 2))
    (tmp_path / "labels.csv").write_text("label\n" + "a\nb\n" * 3)
    with pytest.raises(ValueError, match=re.escape("labels.csv, labels.npy")):
        load_kernels(tmp_path)


@pytest.mark.parametrize("kernels_first", [True, False])
def test_as_many_kernels_as_samples(tmp_path: Path, kernels_first: bool) -> None:
    factors = RNG.normal(size=(N, N, 2))
    kernels = factors @ factors.transpose(0, 2, 1)
    expected = np.moveaxis(kernels, 0, 2)
    write(tmp_path, kernels=kernels if kernels_first else expected)
    np.testing.assert_array_equal(load_kernels(tmp_path).data, expected)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"kernels": KERNELS + 1j}, "complex128, not real"),
        ({"kernels": KERNELS[:0]}, re.escape("got shape (0, 6, 6)")),
        ({"kernels": KERNELS, "labels": np.array([0, 1, np.nan, 1, 0, 1])}, "1 empty labels"),
        ({"kernels": KERNELS, "labels": LABELS.reshape(3, 2)}, re.escape("got shape (3, 2)")),
        ({"kernels": KERNELS, "labels": LABELS * 1j}, "type complex128"),
    ],
)
def test_wrong_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    write(tmp_path, **arrays)
    with pytest.raises(ValueError, match=message):
        load_kernels(tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("train\n" * 3 + "later\n" * 3, "got 'later'"),
        ("train\n" * 6, "split 1 has 6 samples to train on and 0 to test on"),
        ("train\n" + "test\n", "each of the 6 labels below its header; got 2"),
    ],
)
def test_wrong_splits(tmp_path: Path, lines: str, message: str) -> None:
    write(tmp_path, kernels=KERNELS)
    (tmp_path / "splits.csv").write_text(f"first\n{lines}")
    with pytest.raises(ValueError, match=message):
        load_kernels(tmp_path)


@pytest.mark.parametrize("name", ["kernels.npy", "labels.npy"])
def test_cut_files_are_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, kernels=KERNELS)
    content = (tmp_path / name).read_bytes()
    for length in (0, 100, len(content) // 2 + 60):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(ValueError, match=re.escape(name)):
            load_kernels(tmp_path)
