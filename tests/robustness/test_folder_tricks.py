"""Folders from strangers: links out of them are not followed, pipes not waited for, nothing outside is touched."""

from __future__ import annotations

import os
import shutil

import families
import numpy as np
import pandas as pd
import pytest
from cli_runner import run
from verdicts import assert_refused

from bayesmkl.cli.runs import folder_beside
from bayesmkl.posterior import load_posterior, save_posterior

pytestmark = pytest.mark.family("folders with tricks")

FIT = ("--target", "kind", "--kernels-on", "all", "--max-iter", "2")


def contents(folder):
    return {
        str(p.relative_to(folder)): None if p.is_symlink() or not p.is_file() else p.read_bytes()
        for p in folder.rglob("*")
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a posterior, a table, and a run of `bayesmkl fit` on it; nobody may change it."""
    work, X = tmp_path_factory.mktemp("written"), families.data(24)
    model = families.fitted(families.families()["binary"])
    save_posterior(model, work / "posterior.nc", n_draws=5, random_state=0, pointwise=False)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=families.labels(X, 2))
    table.to_csv(work / "table.csv", index=False)
    code, _, message = run("fit", work / "table.csv", *FIT, "--out", work / "run")
    assert code == 0, message
    for path in (work / "run").iterdir():
        if path.name not in ("config.json", "model.skops"):
            path.unlink()
    return work


@pytest.fixture
def folder(tmp_path, files):
    """A run that can be changed, beside a file that nobody may touch."""
    shutil.copytree(files / "run", tmp_path / "run")
    shutil.copy(files / "table.csv", tmp_path)
    (tmp_path / "precious").write_text("thesis")
    return tmp_path / "run"


def predict(folder, out):
    return run("predict", folder, folder.parent / "table.csv", "--out", out)


# -------------------------------------------------------------------------------------------------- reading runs

WAYS = {
    "link to a file outside": lambda path: path.symlink_to(path.parents[1] / "precious"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a folder": lambda path: path.symlink_to(path.parents[1]),
    "pipe": os.mkfifo,
    "folder": os.mkdir,
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["model.skops", "config.json"])
@pytest.mark.parametrize("way", WAYS)
def test_file_of_a_run_that_is_elsewhere_or_no_file_is_refused(way, name, folder, tmp_path):
    (folder / name).unlink()
    WAYS[way](folder / name)
    before = contents(tmp_path)
    code, _, message = predict(folder, tmp_path / "out.csv")
    assert (code, message[:7]) == (2, "error: ")
    assert name in message
    assert "thesis" not in message
    assert contents(tmp_path) == before


def test_link_inside_the_folder_and_to_the_folder_are_fine(folder, tmp_path):
    (folder / "model.skops").rename(folder / "first.skops")
    (folder / "model.skops").symlink_to("first.skops")
    (tmp_path / "link").symlink_to(folder)
    code, _, message = predict(tmp_path / "link", tmp_path / "out.csv")
    assert code == 0, message


TEXTS = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "a number of many digits": '{"format": ' + "9" * 10_000 + "}",
    "no text": b"\xff\xfe\x00",
    "text": '"bayesmkl-run"',
}


@pytest.mark.parametrize("name", TEXTS)
def test_config_that_is_no_description_is_refused(name, folder, tmp_path):
    text = TEXTS[name]
    (folder / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    code, _, message = predict(folder, tmp_path / "out.csv")
    assert (code, message[:7]) == (2, "error: ")
    assert "config.json" in message


# -------------------------------------------------------------------------------------------------- writing runs


@pytest.mark.parametrize("target", ["run", "nowhere"])
@pytest.mark.parametrize("force", [False, True])
def test_out_that_is_a_link_is_refused(target, force, folder, tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / target)
    before = contents(tmp_path)
    table = folder.parent / "table.csv"
    code, _, message = run("fit", table, *FIT, "--out", tmp_path / "out", *["--force"] * force)
    assert (code, message[:12]) == (2, "error: --out")
    assert "symbolic link" in message
    assert contents(tmp_path) == before


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predictions_replace_a_link_and_not_what_it_points_to(suffix, folder, tmp_path):
    out = tmp_path / f"out{suffix}"
    out.symlink_to(tmp_path / "precious")
    assert predict(folder, out)[0] == 0
    assert (tmp_path / "precious").read_text() == "thesis"
    assert not out.is_symlink()


def test_replacing_a_run_does_not_remove_what_its_links_point_to(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data").write_text("x")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    with folder_beside(folder, force=True) as beside:
        (beside / "config.json").write_text("{}")
    assert (tmp_path / "elsewhere" / "data").read_text() == "x"
    assert [p.name for p in folder.iterdir()] == ["config.json"]


# ---------------------------------------------------------------------------------------------------- posteriors


@pytest.fixture
def posterior(tmp_path, files):
    shutil.copy(files / "posterior.nc", tmp_path / "posterior.nc")
    return tmp_path / "posterior.nc"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of h5netcdf
@pytest.mark.parametrize("where", np.linspace(0.0, 0.999, 20))
def test_posterior_with_changed_bytes_is_refused_or_read(where, posterior):
    """HDF5 keeps no sums of its numbers: a change there is read, one elsewhere is refused by name."""
    data = bytearray(posterior.read_bytes())
    first = int(where * len(data))
    data[first : first + 8] = bytes(b ^ 0xFF for b in data[first : first + 8])
    posterior.write_bytes(data)
    try:
        assert "posterior" in load_posterior(posterior).children
    except (ValueError, MemoryError) as error:
        assert str(error).startswith("`path`")  # noqa: PT017


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_part_of_a_posterior_is_refused(share, posterior):
    data = posterior.read_bytes()
    posterior.write_bytes(data[: int(share * len(data))])
    assert_refused(lambda: load_posterior(posterior), "`path` is not a readable NetCDF file")
