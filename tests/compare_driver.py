"""Run `bayesmkl compare` in processes of its own, and kill or interrupt them; call it in a fork of the tests."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import signal
import sys
import time
from pathlib import Path

N_KILLS = 3


def start(config: Path, out: Path, stderr: int) -> int:
    """Fork a process that runs the command; return its number."""
    from bayesmkl.cli import app

    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(stderr, 2)
        app(["compare", str(config), "--out", str(out), "--jobs", "1"], prog_name="bayesmkl")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stderr.flush()
        os._exit(code)


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def cells(out: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (out / "cells").glob("*.json")}


def n_cells(out: Path) -> int:
    return len(list((out / "cells").glob("*.json")))


def wait_for(out: Path, n: int) -> None:
    end = time.monotonic() + 60
    while n_cells(out) < n and time.monotonic() < end:
        time.sleep(0.005)


def killed(config: Path, out: Path, seed: int) -> dict:
    """Kill the command again and again, at random moments, then let it finish."""
    rng = random.Random(seed)
    kept: dict[str, str] = {}
    found: dict = {"kept": [], "signals": [], "cells": {}}
    with open(os.devnull, "wb") as nowhere:
        for _ in range(N_KILLS):
            pid = start(config, out, nowhere.fileno())
            wait_for(out, len(kept) + rng.randint(0, 4))
            time.sleep(rng.uniform(0.0, 0.03))
            os.kill(pid, signal.SIGKILL)
            found["signals"].append(exit_code(pid))
            now = cells(out)
            found["kept"].append(len(now))
            found.setdefault("lost", []).append(sum(now.get(name) != text for name, text in kept.items()))
            kept = now
        found["cells"] = [json.loads(text) for text in kept.values()]
        found["code"] = exit_code(start(config, out, nowhere.fileno()))
    return found


def interrupted(config: Path, out: Path) -> dict:
    """Send what Ctrl-C sends, and look at the messages."""
    errors = out.with_suffix(".txt")
    with errors.open("wb") as file:
        pid = start(config, out, file.fileno())
        wait_for(out, 5)
        os.kill(pid, signal.SIGINT)
        code = exit_code(pid)
    return {"code": code, "stderr": errors.read_text(), "kept": n_cells(out)}


def held(config: Path, out: Path) -> dict:
    """Start the command on a terminal, stop it for a while, and start it again in the same folder."""
    errors = out.with_suffix(".txt")
    ours, theirs = pty.openpty()
    first = start(config, out, theirs)
    os.close(theirs)
    wait_for(out, 3)
    os.kill(first, signal.SIGSTOP)
    with errors.open("wb") as file:
        code = exit_code(start(config, out, file.fileno()))
    os.kill(first, signal.SIGKILL)
    exit_code(first)
    return {"code": code, "stderr": errors.read_text(), "terminal": everything_from(ours)}


def everything_from(terminal: int) -> str:
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 65536):
            shown += part
    return shown.decode(errors="replace")


def disturbed(config: Path, folder: Path) -> dict[str, dict]:
    """Return what became of runs that were killed, interrupted, or started twice."""
    from bayesmkl.cli import compare_command

    os.environ["COLUMNS"] = "100"
    compare_command.write_report = lambda comparison, path: path.write_text("<html>")
    return {
        "killed": killed(config, folder / "killed", seed=2026),
        "interrupted": interrupted(config, folder / "interrupted"),
        "held": held(config, folder / "held"),
    }
