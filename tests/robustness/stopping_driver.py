"""Start commands in processes of their own and send them signals; a script that imports only once. Writes JSON."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

FIT = ["--target", "kind", "--kernels-on", "all", "--max-iter", "60", "--tol", "0"]


def commands(folder: Path) -> dict[str, list[str]]:
    """Return command lines by name, with {out} for what they write."""
    table, study, made = str(folder / "table.csv"), str(folder / "study.toml"), str(folder / "made")
    return {
        "fit": ["fit", table, *FIT, "--out", "{out}"],
        "replace": ["fit", table, *FIT, "--out", "{out}", "--force"],
        "predict": ["predict", made, table, "--out", "{out}"],
        "compare": ["compare", study, "--out", "{out}"],
        "compare in two processes": ["compare", study, "--out", "{out}", "--jobs", "2"],
    }


def start(arguments: list[str], temporary: Path, errors: Path) -> int:
    """Fork a process that leads a group of its own and runs a command; return its number."""
    from bayesmkl.cli import main as command_line

    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ["TMPDIR"] = str(temporary)
        tempfile.tempdir = str(temporary)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
        sys.argv = ["bayesmkl", *arguments]
        command_line()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int, seconds: float) -> int | None:
    """Wait for a process; None if it does not end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def stop(folder: Path, name: str, number: int, wait: float) -> dict:
    """Run a command, send its group a signal after some seconds of work, and look at what is left."""
    place = Path(tempfile.mkdtemp(dir=folder))
    out, temporary, errors = (
        place / ("run.csv" if name == "predict" else "run"),
        place / "tmp",
        place / "errors",
    )
    temporary.mkdir()
    if name == "replace":
        shutil.copytree(folder / "made", out)
    arguments = [part.format(out=out) for part in commands(folder)[name]]
    pid = start(arguments, temporary, errors)
    if name.startswith("compare"):
        wait_until(lambda: list((out / "cells").glob("*.json")), 30.0)
    time.sleep(wait)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
    code = ended(pid, 40.0)
    if code is None:
        os.killpg(pid, signal.SIGKILL)
    beside = [path.name for path in place.iterdir() if path not in (out, temporary, errors)]
    inside = [path.name for path in out.rglob(".*")] if out.is_dir() else []
    return {
        "command": name,
        "signal": number.name,
        "wait": wait,
        "code": code,
        "stderr": errors.read_text(),
        "left": beside + inside,
        "temporary": [
            path.name for path in temporary.iterdir() if not path.name.startswith(("joblib", "loky"))
        ],
        "whole": is_whole(name, out, folder),
    }


def is_whole(name: str, out: Path, folder: Path) -> bool:
    """Say whether what a stopped command left is nothing, what was there before, or what can go on."""
    from bayesmkl.evaluation.journal import Journal

    if name == "replace":
        return all(
            (out / path.name).read_bytes() == path.read_bytes() for path in (folder / "made").iterdir()
        )
    if name in ("fit", "predict"):
        return not out.exists()
    if not out.exists():
        return True
    rows, about = Journal(out).read(), Journal(out).read_about()
    return all(row["dataset"] in about["datasets"] and row["model"] in about["models"] for row in rows)


def killed_again_and_again(folder: Path, n_kills: int, n_jobs: int, rng: random.Random) -> dict:
    """Kill a comparison at random moments, then let it finish; its workers, if any, are left to themselves."""
    out, temporary = folder / f"killed-{n_kills}-{n_jobs}", folder / f"tmp-{n_kills}-{n_jobs}"
    temporary.mkdir()
    arguments = ["compare", str(folder / "study.toml"), "--out", str(out), "--jobs", str(n_jobs)]
    kept, codes = [], []
    for _ in range(n_kills):
        pid = start(arguments, temporary, folder / "errors")
        enough = (kept or [0])[-1] + rng.randint(0, 2)
        wait_until(partial(has_cells, out, enough), 8.0)
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
        codes.append(ended(pid, 10.0))
        kept.append(len(list((out / "cells").glob("*.json"))))
        if (out / "results.csv").exists():
            break
    code = ended(start(arguments, temporary, folder / "errors"), 120.0)
    left = [path.name for path in temporary.glob("bayesmkl-*")]
    return {"codes": codes, "kept": kept, "code": code, "out": str(out), "temporary": left}


def has_cells(out: Path, n: int) -> bool:
    return len(list((out / "cells").glob("*.json"))) >= n


def wait_until(condition: object, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)


def main(folder: Path) -> None:
    import bayesmkl.cli.commands
    import bayesmkl.cli.compare_command  # noqa: F401  so that children need not

    rng = random.Random(2026)
    made = [part.format(out=folder / "made") for part in commands(folder)["fit"]]
    began = time.monotonic()
    assert ended(start(made, folder, folder / "errors"), 60.0) == 0, (folder / "errors").read_text()
    takes = time.monotonic() - began  # on this machine, now
    most = {"fit": takes, "replace": takes, "predict": 0.02 * takes}
    ends = []
    for name, names, n_times in json.loads(sys.argv[2]):
        for number in (getattr(signal, one) for one in names):
            for _ in range(n_times):
                wait = most.get(name, 0.1) * rng.uniform(0.05, 0.6)
                ends.append(stop(folder, name, number, wait))
                while ends[-1]["code"] == 0 and wait > 1e-3:  # it was faster
                    wait /= 3
                    ends.append(stop(folder, name, number, wait))
    for n_kills, n_jobs in json.loads(sys.argv[3]):
        ends.append(killed_again_and_again(folder, n_kills, n_jobs, rng))
    sys.stdout.write(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
