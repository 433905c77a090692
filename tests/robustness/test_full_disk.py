"""A disk without room: an error that says so, what was there before stays, and with room the same call succeeds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.family("full disk"), pytest.mark.heavy]
HERE = Path(__file__).parent
# What the message names, and what may be there that was not there before: what the next call goes on from.
NAMES = {
    "model": ("`path`", ()),
    "posterior": ("`path`", ()),
    "comparison": ("`path`", ()),
    "report": ("`path`", ()),
    "compare_models": ("`path`", ("run/about.json", "run/cells/")),
    "spool": ("TMPDIR", ("s",)),
    "fit": ("--out", ()),
    "predict": ("`path`", ()),
}


QUICK = ("model", "posterior", "comparison", "compare_models", "spool")


@pytest.fixture(scope="module")
def attempts(tmp_path_factory):
    """What became of everything that writes, on a disk of 8 MB that was nearly full."""
    disk = tmp_path_factory.mktemp("disk")
    alone = ["unshare", "-rm", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=8m tmpfs '{disk}'"
    if shutil.which("unshare") is None or subprocess.run([*alone, mount], capture_output=True).returncode:
        pytest.skip("needs Linux, and the right to mount a file system in a namespace of its own")
    command = f"{mount} && '{sys.executable}' '{HERE / 'full_disk_driver.py'}' '{disk}'"
    done = subprocess.run([*alone, command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "share"),
    [(name, share) for name in NAMES for share in (0.0, 0.5, 0.999) if name in QUICK or share == 0.0],
)
def test_a_full_disk_is_named_and_costs_nothing(attempts, name, share):
    (found,) = [one for one in attempts if one["name"] == name and one["share"] == share]
    named, allowed = NAMES[name]
    assert found["kind"] is not None, "was written without room"
    assert "OSError" in found["kind"], found
    assert named in found["message"]
    assert "No space left" in found["message"]
    assert "Errno" not in found["message"]
    assert len(found["message"]) < 500
    assert found["changed"] == []
    assert all(new.startswith(allowed) for new in found["new"]) if allowed else found["new"] == []
    assert not [new for new in found["new"] if new.endswith(".part")]
    assert found["again"] is None


def test_a_limit_of_file_sizes_is_named_and_costs_nothing():
    """In a process of its own: the limit would also hold for the log of these tests, if that is a file."""
    pytest.importorskip("resource")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-m",
        "",
        str(HERE / "limited_file_sizes.py"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
