"""What is in the way of an installation: an earlier Python, no network, a home that is read-only, other line ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT, from_source

MAKE = shutil.which("make")
needs_make = pytest.mark.skipif(MAKE is None, reason="there is no make here")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def interpreter(folder, *lines: str):
    """Write a program that answers like a Python of another kind."""
    path = folder / "python"
    path.write_text("\n".join(("#!/bin/sh", *lines)), encoding="utf-8")
    path.chmod(0o755)
    return path


def make_demo(folder, python) -> subprocess.CompletedProcess:
    command = [MAKE, "demo", f"PYTHON={python}", f"VENV={folder}/env"]
    own = {key: value for key, value in os.environ.items() if "MAKE" not in key and key != "MFLAGS"}
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)


@from_source
@needs_make
def test_an_earlier_python_is_named_in_one_line(tmp_path):
    done = make_demo(tmp_path, interpreter(tmp_path, "exit 1  # what an earlier one says to the question"))
    assert done.returncode == 2
    said, end = done.stderr.splitlines()
    assert said.startswith(
        f"bayesmkl needs Python 3.11 or later; '{tmp_path}/python' is not that. Try: make PYTHON="
    )
    assert end.startswith("make: ***")
    assert not (tmp_path / "env").exists()


@from_source
@needs_make
def test_where_pip_reaches_nothing_one_line_says_what_to_look_at(tmp_path):
    """An interpreter that makes an environment whose pip fails, as behind a proxy."""
    environment = f'mkdir -p {tmp_path}/env/bin; printf "#!/bin/sh\\nexit 1\\n" >{tmp_path}/env/bin/python'
    python = interpreter(
        tmp_path, f'[ "$2" != venv ] || {{ {environment}; chmod +x {tmp_path}/env/bin/python; }}'
    )
    done = make_demo(tmp_path, python)
    assert done.returncode == 2
    said, _ = done.stderr.splitlines()
    assert "it reaches no package index: is there a network, or a proxy that HTTPS_PROXY should name?" in said


@pytest.mark.heavy
def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path):
    """Nobody, not even root, can make a folder in /proc."""
    given = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "MPL"))}
    code = "from bayesmkl.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--fast", "--out", "demo"],
        cwd=tmp_path,
        env=given | {"HOME": "/proc/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all("/proc/nowhere/.config/matplotlib" in line for line in done.stderr.splitlines())
    assert (tmp_path / "demo" / "report.html").exists()
