"""Importing, fitting and predicting reach for no network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import families
import pandas as pd
import pytest
from fresh import fresh_process

pytestmark = [pytest.mark.family("network"), pytest.mark.heavy]

COMMANDS = """
import sys
sys.path.insert(0, {here!r})
import fit_everything
sys.addaudithook(fit_everything.note_network)
from bayesmkl.cli import main
for command in {commands}:
    sys.argv = ["bayesmkl", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
assert not fit_everything.ASKED, fit_everything.ASKED
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return fresh_process(tmp_path_factory)


def test_what_is_asked_for_is_seen():
    """By the hook that the processes below have; blocked names raise, so nothing leaves the machine here either."""
    script = f"""
import sys, urllib.request
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fit_everything, socket
sys.addaudithook(fit_everything.note_network)
try:
    urllib.request.urlopen("http://localhost:9/", timeout=1)
except OSError:
    pass
print([asked.split()[0] for asked in fit_everything.ASKED])
pair = socket.socketpair()  # inside the machine
pair[0].send(b"x")
print(len(fit_everything.ASKED))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    asked, n_asked = map(eval, done.stdout.splitlines())
    assert {"urllib.Request", "http.client.connect", "socket.getaddrinfo", "socket.connect"} >= set(asked)
    assert "socket.connect" in asked
    assert n_asked == len(asked)


def test_imports_ask_no_host(fresh):
    assert fresh.asked_by_import == []


def test_fits_and_predictions_ask_no_host(fresh):
    assert set(fresh.predictions) == set(families.families())
    assert fresh.asked_by_fits == []


@pytest.mark.slow
def test_the_command_line_asks_no_host(tmp_path):
    X = families.data(40)
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=families.labels(X, 2)).to_csv(
        tmp_path / "t.csv", index=False
    )
    commands = [
        ["demo", "--fast", "--out", "demo"],
        ["fit", "t.csv", "--target", "y", "--out", "run"],
        ["predict", "run", "t.csv", "--out", "predictions.csv"],
    ]
    script = COMMANDS.format(here=str(Path(__file__).parent), commands=commands)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 40
