"""A disk without room: an error that says so, what was there before stays, and with room the same call succeeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.family("full disk"), pytest.mark.heavy]
HERE = Path(__file__).parent


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
