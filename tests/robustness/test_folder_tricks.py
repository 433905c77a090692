"""Folders from strangers: links out of them are not followed, pipes not waited for, nothing outside is touched."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import written
from crafted import built, packed, schema
from typer.testing import CliRunner
from verdicts import assert_refused

from bayesmkl.cli import app
from bayesmkl.cli.runs import folder_beside, load_run
from bayesmkl.posterior import convert as posterior_files
from bayesmkl.posterior import load_posterior, save_posterior

pytestmark = pytest.mark.family("folders with tricks")

FIT = ("--target", "kind", "--kernels-on", "all", "--max-iter", "2")


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def contents(folder):
    return {
        str(p.relative_to(folder)): None if p.is_symlink() or not p.is_file() else p.read_bytes()
        for p in folder.rglob("*")
    }


@pytest.fixture
def folder(tmp_path):
    """A run that can be changed, beside a file that nobody may touch."""
    shutil.copytree(written.files() / "run", tmp_path / "run")
    (tmp_path / "precious").write_text("thesis")
    return tmp_path / "run"


def predict(folder, out):
    return run("predict", folder, written.files() / "table.csv", "--out", out)


# -------------------------------------------------------------------------------------------------- reading runs

WAYS = {
    "link to a file outside": lambda path: path.symlink_to(path.parents[1] / "precious"),
    "link to the same file outside": lambda path: path.symlink_to(written.files() / "run" / path.name),
    "link by a path": lambda path: path.symlink_to(f"../run/../../{path.parents[1].name}/precious"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path),
    "link to a folder": lambda path: path.symlink_to(path.parents[1]),
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "link to a pipe": lambda path: (os.mkfifo(path.parent / "pipe"), path.symlink_to(path.parent / "pipe")),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["model.skops", "config.json"])
@pytest.mark.parametrize("way", WAYS)
def test_file_of_a_run_that_is_elsewhere_or_no_file_is_refused(way, name, folder, tmp_path):
    (folder / name).unlink()
    WAYS[way](folder / name)
    before = contents(tmp_path)
    code, message = predict(folder, tmp_path / "out.csv")
    assert (code, message[:7]) == (2, "error: ")
    assert name in message
    assert "thesis" not in message
    assert contents(tmp_path) == before


def test_link_inside_the_folder_and_to_the_folder_are_fine(folder, tmp_path):
    (folder / "model.skops").rename(folder / "first.skops")
    (folder / "model.skops").symlink_to("first.skops")
    (tmp_path / "link").symlink_to(folder)
    code, message = predict(tmp_path / "link", tmp_path / "out.csv")
    assert code == 0, message


TEXTS = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "a number of many digits": '{"format": ' + "9" * 10_000 + "}",
    "no text": b"\xff\xfe\x00",
    "nothing": "",
    "a list": "[]",
    "text": '"bayesmkl-run"',
    "null": "null",
}


@pytest.mark.parametrize("name", TEXTS)
def test_config_that_is_no_description_is_refused(name, folder, tmp_path):
    text = TEXTS[name]
    (folder / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    code, message = predict(folder, tmp_path / "out.csv")
    assert (code, message[:7]) == (2, "error: ")
    assert "config.json" in message


def test_hostile_model_in_a_run_is_refused(folder, tmp_path):
    (folder / "model.skops").write_bytes(packed(schema(built("subprocess.Popen"))))
    assert_refused(lambda: load_run(folder), "not trusted", "subprocess.Popen")


# -------------------------------------------------------------------------------------------------- writing runs


@pytest.mark.parametrize("target", ["empty", "run", "nowhere", "precious"])
@pytest.mark.parametrize("force", [False, True])
def test_out_that_is_a_link_is_refused(target, force, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / target)
    before = contents(tmp_path)
    table = written.files() / "table.csv"
    code, message = run("fit", table, *FIT, "--out", tmp_path / "out", *["--force"] * force)
    assert (code, message[:12]) == (2, "error: --out")
    assert "symbolic link" in message
    assert contents(tmp_path) == before


def test_folder_that_becomes_a_link_meanwhile_is_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()

    def write():
        with folder_beside(tmp_path / "out", force=True) as beside:
            (beside / "file").write_text("x")
            (tmp_path / "out").symlink_to(tmp_path / "precious")

    assert_refused(write, "--out", "symbolic link")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "precious"]
    assert list((tmp_path / "precious").iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet"])
def test_predictions_replace_a_link_and_not_what_it_points_to(suffix, folder, tmp_path):
    out = tmp_path / f"out{suffix}"
    out.symlink_to(tmp_path / "precious")
    assert predict(folder, out)[0] == 0
    assert (tmp_path / "precious").read_text() == "thesis"
    assert not out.is_symlink()


@pytest.mark.parametrize("out", ["run", "nowhere/out.csv", "precious/out.csv"])
def test_predictions_go_to_a_file_in_a_folder(out, folder, tmp_path):
    before = contents(tmp_path)
    assert predict(folder, tmp_path / (out if "." in out else f"{out}/../run.csv/x.csv"))[0] == 2
    assert contents(tmp_path) == before


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
def posterior(tmp_path):
    shutil.copy(written.files() / "posterior.nc", tmp_path / "posterior.nc")
    return tmp_path / "posterior.nc"


def tampered(path, way, secret):
    import h5py

    with h5py.File(path, "a") as file:
        group = file["posterior"]
        if way == "external link":
            group["stolen"] = h5py.ExternalLink(str(secret), "posterior/intercept")
        elif way == "numbers in another file":
            group.create_dataset("stolen", (6,), dtype="u1", external=[(str(secret), 0, 6)])
        elif way == "virtual":
            layout = h5py.VirtualLayout(shape=(1, 5), dtype="f8")
            layout[:] = h5py.VirtualSource(str(secret), "posterior/intercept", shape=(1, 5))
            group.create_virtual_dataset("stolen", layout)
        elif way == "link to nothing":
            group["stolen"] = h5py.SoftLink("/nowhere")
        elif way == "endless":
            group.create_dataset("stolen", (10**9, 10**9), dtype="f8", chunks=(10**3, 10**3))


@pytest.mark.parametrize("way", ["external link", "numbers in another file", "virtual"])
def test_posterior_with_numbers_elsewhere_is_refused(way, posterior, tmp_path):
    secret = tmp_path / "secret.nc"
    shutil.copy(written.files() / "posterior.nc", secret)
    tampered(posterior, way, secret)
    assert_refused(lambda: load_posterior(posterior), "`path`", "another file")


def test_posterior_that_claims_to_be_endless_is_refused(posterior):
    tampered(posterior, "endless", None)
    assert_refused(lambda: load_posterior(posterior), "`path`", "available", kinds=(MemoryError, ValueError))


def read_or_refused(path):
    """Return the posterior; None if it is refused by name."""
    try:
        return load_posterior(path)
    except (ValueError, MemoryError) as error:
        if not str(error).startswith("`path`"):
            raise
        return None


def test_posterior_with_a_dangling_link_is_refused_or_read_without_it(posterior):
    tampered(posterior, "link to nothing", None)
    tree = read_or_refused(posterior)
    assert tree is None or "stolen" not in tree["posterior"]


@pytest.mark.parametrize(
    "where",
    [pytest.param(w, marks=[pytest.mark.slow] * (k % 2)) for k, w in enumerate(np.linspace(0.0, 0.999, 40))],
)
def test_posterior_with_changed_bytes_is_refused_or_read(where, posterior):
    """HDF5 keeps no sums of its numbers: a change there is read, one elsewhere is refused by name."""
    data = bytearray(posterior.read_bytes())
    first = int(where * len(data))
    data[first : first + 8] = bytes(b ^ 0xFF for b in data[first : first + 8])
    posterior.write_bytes(data)
    tree = read_or_refused(posterior)
    assert tree is None or "posterior" in tree.children


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_part_of_a_posterior_is_refused(share, posterior):
    data = posterior.read_bytes()
    posterior.write_bytes(data[: int(share * len(data))])
    assert_refused(lambda: load_posterior(posterior), "`path` is not a readable NetCDF file")


def test_memory_of_a_posterior_is_asked_for_before_it_is_taken(posterior, monkeypatch):
    monkeypatch.setattr(posterior_files, "available_memory", lambda: 100)
    assert_refused(lambda: load_posterior(posterior), "`path`", "available", kinds=MemoryError)


@pytest.mark.parametrize("way", ["pipe", "link to a device", "link to nothing", "folder"])
def test_posterior_that_is_no_file_is_not_read(way, tmp_path):
    (tmp_path / "in").mkdir()
    WAYS[way](tmp_path / "in" / "posterior.nc")
    assert_refused(
        lambda: load_posterior(tmp_path / "in" / "posterior.nc"), "`path`", kinds=FileNotFoundError
    )


def test_saving_a_posterior_replaces_a_link(tmp_path):
    (tmp_path / "precious").write_text("thesis")
    (tmp_path / "posterior.nc").symlink_to(tmp_path / "precious")
    save_posterior(load_posterior(written.files() / "posterior.nc"), tmp_path / "posterior.nc")
    assert (tmp_path / "precious").read_text() == "thesis"
    load_posterior(tmp_path / "posterior.nc")
