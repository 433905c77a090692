"""A newcomer's first hour: a fresh clone, the README's two commands, its code, and that of every guide.

    python tests/robustness/newcomer.py                          clone, make demo, make test, code
    python tests/robustness/newcomer.py --python python3.12      the same with another Python
    python tests/robustness/newcomer.py --wheel dist/*.whl       an empty environment and the wheel, no clone, no make
    python tests/robustness/newcomer.py --skip test              without a step, such as the tests

Everything happens in a temporary folder. Seconds are printed step by step, as the clock and the processors count
them; a step that fails is shown with the end of what it printed, and the script ends with 1.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Visit:
    """Steps that were taken, their seconds, and which failed."""

    def __init__(self, folder: Path, skip: Sequence[str]):
        self.folder, self.skip, self.failed = folder, skip, []

    def step(self, name: str, command: Sequence[str | Path], cwd: Path) -> bool:
        """Run a command; print how long it took, and what it printed last if it fails."""
        if name in self.skip:
            return True
        started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, env=clean
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        told = f"{time.monotonic() - started:7.1f} s  processors {used:7.1f} s"
        print(f"{name:40} {told}  {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
        if done.returncode:
            self.failed.append(name)
            print((done.stdout + done.stderr)[-3000:], flush=True)
        return done.returncode == 0

    def check(self, name: str, wrong: Sequence[str]) -> None:
        """Print what is wrong with something that was looked at."""
        print(f"{name:40} {'':30}  {'FAILED: ' + '; '.join(wrong) if wrong else 'ok'}", flush=True)
        self.failed.extend([name] if wrong else [])

    def install(self, python: str, wheel: Path) -> Path | None:
        """Make an empty environment with a wheel, and run its demo; return the interpreter."""
        new = self.folder / "env" / "bin" / "python"
        pip = [new, "-m", "pip"]
        steps = {
            "environment": [python, "-m", "venv", self.folder / "env"],
            "pip install, no compiler": [
                new,
                "-m",
                "pip",
                "install",
                "-qq",
                "--only-binary",
                ":all:",
                wheel.resolve(),
            ],
            "pip check": [*pip, "check"],
            "bayesmkl demo": [new.with_name("bayesmkl"), "demo", "--out", self.folder / "demo"],
        }
        return new if all(self.step(name, command, self.folder) for name, command in steps.items()) else None

    def page(self, path: Path, python: Path) -> None:
        """Run the code of a page from its first block to its last, in a folder of its own."""
        code = "\n".join(BLOCK.findall(path.read_text(encoding="utf-8")))
        if code:
            name = f"{path.parent.name}/{path.name}" if path.parent.name == "guide" else path.name
            cwd = self.folder / "pages" / path.stem
            cwd.mkdir(parents=True)
            (cwd / "page.py").write_text(code, encoding="utf-8")
            self.step(name, [python, "-W", "error", "page.py"], cwd)


def main() -> int:
    """Take all steps; return the exit code."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--python", default="python3", help="the interpreter that makes the environment")
    options.add_argument("--wheel", type=Path, help="install this file instead of a clone")
    options.add_argument("--skip", nargs="*", default=(), help="names of steps")
    options.add_argument("--pages", nargs="*", help="pages to run, instead of the README and all guides")
    given = options.parse_args()
    guides = (path.relative_to(ROOT) for path in sorted((ROOT / "docs" / "guide").glob("*.md")))
    pages = given.pages or ["README.md", "docs/getting_started.md", *guides]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        visit = Visit(folder, given.skip)
        if given.wheel is not None:
            python = visit.install(given.python, given.wheel)
            ready = python is not None
        else:
            clone = folder / "clone"
            python = clone / ".venv" / "bin" / "python"
            ready = visit.step("clone", ["git", "clone", "-q", ROOT, clone], folder)
            ready = ready and visit.step("demo", ["make", "demo", f"PYTHON={given.python}"], clone)
            ready = ready and visit.step("test", ["make", "test", f"PYTHON={given.python}"], clone)
        for page in pages if ready else ():
            visit.page((ROOT if given.wheel is not None else clone) / page, python)
    if visit.failed:
        print(f"failed: {', '.join(visit.failed)}")
    return int(bool(visit.failed))


if __name__ == "__main__":
    sys.exit(main())
