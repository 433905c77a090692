"""How long `import bayesmkl` and `bayesmkl --help` take, and which imports take it.

Times are the shortest of several new interpreters, the interpreter's own start included.

    python benchmarks/startup.py               9 starts of each
    python benchmarks/startup.py --fast        1
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from _machine import measure
from _report import claim, finish, markdown_table, parser

N_STARTS, FAST_STARTS = 9, 1
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
    """Shortest time of a new interpreter."""
    times = []
    for _ in range(n_starts):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


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
    options = parser(__doc__).parse_args()
    machine = measure(options.fast)
    print(machine.report() + "\n")
    n_starts = FAST_STARTS if options.fast else N_STARTS
    bare = seconds_of(["-c", "pass"], n_starts)
    seconds = {
        "estimator": seconds_of(["-c", ESTIMATOR], n_starts),
        "import": seconds_of(["-c", IMPORT], n_starts),
        "help": seconds_of(["-m", "bayesmkl", "--help"], n_starts),
    }
    claims = [
        claim("`import bayesmkl`", 0.3, seconds["import"], " s"),
        claim("`bayesmkl --help`", 0.6, seconds["help"], " s"),
    ]
    of_help = culprits(HELP)
    rows = [
        ["an interpreter that does nothing", f"{bare:.3f}"],
        ["`import bayesmkl`", f"{seconds['import']:.3f}"],
        [f"`{ESTIMATOR}`", f"{seconds['estimator']:.3f}"],
        ["`bayesmkl --help`", f"{seconds['help']:.3f}"],
    ]
    slowest = ", ".join(f"{name} {milliseconds:.0f} ms" for name, milliseconds in of_help)
    text = f"{markdown_table(['', 'seconds'], rows)}\n\nLongest to import for `bayesmkl --help`: {slowest}."
    numbers: dict[str, Any] = {"machine": machine._asdict(), "seconds": seconds | {"bare": bare}}
    finish(options, "startup", text, numbers | {"culprits": of_help, "claims": claims})


if __name__ == "__main__":
    main()
