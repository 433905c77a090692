"""How long `import bayesmkl`, `bayesmkl --help` and a first fit take, and which imports take it.

Times are processor seconds, the fewest of several new interpreters; imports have its own start in them.

    python benchmarks/startup.py               9 starts of each
    python benchmarks/startup.py --fast        1
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

from _report import ROOT, begin, claim, finish, markdown_table

N_STARTS, FAST_STARTS = 9, 1
N_FITS = 3
N_CULPRITS = 8
IMPORT = "import bayesmkl"
ESTIMATOR = "from bayesmkl import BEMKLClassifier"
HELP = """
import sys
from bayesmkl.cli import main
sys.argv = ["bayesmkl", "--help"]
try:
    main()
except SystemExit:
    pass
"""


def seconds_of(arguments: list[str], n_starts: int) -> float:
    """Fewest processor seconds of a new interpreter."""
    times = []
    for _ in range(n_starts):
        before = os.times()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = os.times()
        times.append(
            after.children_user - before.children_user + after.children_system - before.children_system
        )
    return min(times)


def seconds_of_first_fit(estimator: str, n_starts: int) -> float:
    """Fewest processor seconds of the first fit of README's example in a new interpreter, after its imports."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (block, *_) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    before, line, _ = re.split(r"^(model = .*\n)", block, maxsplit=1, flags=re.MULTILINE)
    assert "GPMKLClassifier(bank)" in line
    code = (
        f"import time\nfrom bayesmkl import BEMKLClassifier\n{before}start = time.process_time()\n"
        f"{line.replace('GPMKLClassifier', estimator)}print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(n_starts)]
    return min(float(run.stdout) for run in runs)


def culprits(statement: str) -> list[tuple[str, float]]:
    """Modules that `statement` loads and their own milliseconds, most first, added up by distribution."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], check=True, capture_output=True, text=True
    )
    own: dict[str, float] = {}
    for line in done.stderr.splitlines():
        fields = line.removeprefix("import time:").split("|")
        if len(fields) == 3 and fields[0].strip().isdigit():
            package = fields[2].strip().split(".")[0]
            own[package] = own.get(package, 0.0) + int(fields[0]) / 1e3
    return sorted(own.items(), key=lambda item: -item[1])[:N_CULPRITS]


def main() -> None:
    options = begin(__doc__)
    n_starts = FAST_STARTS if options.fast else N_STARTS
    bare = seconds_of(["-c", "pass"], n_starts)
    seconds = {
        "estimator": seconds_of(["-c", ESTIMATOR], n_starts),
        "import": seconds_of(["-c", IMPORT], n_starts),
        "help": seconds_of(["-m", "bayesmkl", "--help"], n_starts),
        "vb": seconds_of_first_fit("BEMKLClassifier", min(n_starts, N_FITS)),
        "default": seconds_of_first_fit("GPMKLClassifier", min(n_starts, N_FITS)),
    }
    claims = [
        claim("`import bayesmkl`", 0.05, seconds["import"], " s"),
        claim("`bayesmkl --help`", 0.6, seconds["help"], " s"),
        claim("first fit of README's example by `BEMKLClassifier`", 1.5, seconds["vb"], " s"),
        claim("first fit of README's example", 30, seconds["default"], " s"),
    ]
    of_help = culprits(HELP)
    rows = [
        ["an interpreter that does nothing", f"{bare:.3f}"],
        ["`import bayesmkl`", f"{seconds['import']:.3f}"],
        [f"`{ESTIMATOR}`", f"{seconds['estimator']:.3f}"],
        ["`bayesmkl --help`", f"{seconds['help']:.3f}"],
        ["first fit of README's example by `BEMKLClassifier`, after imports", f"{seconds['vb']:.3f}"],
        ["the same by `GPMKLClassifier`, as it stands there", f"{seconds['default']:.3f}"],
    ]
    slowest = ", ".join(f"{name} {milliseconds:.0f} ms" for name, milliseconds in of_help)
    text = f"{markdown_table(['', 'processor seconds'], rows)}\n\nLongest to import for `bayesmkl --help`: {slowest}."
    numbers: dict[str, Any] = {"seconds": seconds | {"bare": bare}}
    finish(options, "startup", text, numbers | {"culprits": of_help, "claims": claims})


if __name__ == "__main__":
    main()
