"""Short forms of benchmarks, each in a fork of a process that has imported what they need.

python benchmarks/_short_forms.py SCRIPT...
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

AT_ONCE = 2
TESTS = Path(__file__).resolve().parents[1] / "tests"
IMPORTED = (
    "_posteriors",
    "bayesmkl.bemkl.program",
    "bayesmkl.discriminative",
    "bayesmkl.evaluation",
    "bayesmkl.posterior",
    "matplotlib.figure",
)


def start(script: str, output: Path) -> int:
    """Run one script in a fork, which prints to the file `output`; return the number of the process."""
    process = os.fork()
    if process:
        return process
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    code = 1
    try:
        sys.argv = [script, "--fast"]
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        print("exit:", end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run the scripts that the command line names, two at a time; the exit code is 1 if one failed."""
    sys.path.append(str(TESTS))
    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module("_machine").measure(fast=True)  # once for all
    waiting, running, failed = sys.argv[:0:-1], {}, []
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                script = waiting.pop()
                running[start(script, Path(folder) / Path(script).stem)] = script
            process, status, used = os.wait4(-1, 0)
            script = running.pop(process)
            print(f"== {script}, {used.ru_utime + used.ru_stime:.1f} s of processor time")
            print((Path(folder) / Path(script).stem).read_text(errors="replace"), flush=True)
            if os.waitstatus_to_exitcode(status) != 0:
                failed.append(script)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
