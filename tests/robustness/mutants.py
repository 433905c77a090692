"""Mutation testing: do the tests of the numerical core notice a changed operator, number or argument?

    python tests/robustness/mutants.py [MODULE ...] [--children N] [--sample N] [--seed N] [--again] [--show]

mutmut 3 writes all mutants of a module into a copy of the tree; each runs the tests that reach its function, in a
process of its own, and is killed if one of them fails. A mutant that runs three times as long as the tests do, and
four seconds more, counts as killed too. Changes of nothing but the wording of a message are left out. Needs the extra
`mutants`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("bayesmkl", "tests", "conftest.py", "pyproject.toml")
NAMES = "meant.json"  # names of the mutants that are more than a message, by module
COLUMNS = ("mutants", "tried", "killed", "late", "survived")
# What mutmut writes for the exit status of pytest, or the signal that ended it.
KILLED, SURVIVED, UNTESTED, TIMED_OUT = (1, 3), (0,), (5, 33), (-24, 24, 36, 152, 255)
SETTINGS = """
[tool.mutmut]
source_paths = ["bayesmkl"]
only_mutate = {modules}
pytest_add_cli_args = {switches}
pytest_add_cli_args_test_selection = {tests}
also_copy = ["conftest.py"]
process_isolation = "forkserver"
timeout_constant = 4.0
timeout_multiplier = 3.0
"""
# The collections of garbage that look for what was not closed take most of the time of a quick test.
UNUSED = ("cacheprovider", "unraisableexception", "threadexception")
SWITCHES = ["-o", "addopts=", *(word for name in UNUSED for word in ("-p", f"no:{name}"))]
LIST = """
import ast, pathlib, sys
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name

class Silenced(ast.NodeTransformer):
    "Forget what errors and warnings say, and texts of several words"

    def visit_FunctionDef(self, node):
        node.name = ""
        return self.generic_visit(node)

    def visit_Raise(self, node):
        if isinstance(node.exc, ast.Call):
            node.exc.args, node.exc.keywords = [], []
        return self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if "warn" in name:
            node.args = node.args[1:]
        return self.generic_visit(node)

    def visit_Constant(self, node):
        is_prose = isinstance(node.value, str) and " " in node.value.strip()
        return ast.Constant("") if is_prose else node

for path in map(pathlib.Path, sys.argv[1:]):
    mutated = mutate_file_contents(str(path), path.read_text())
    functions = {f.name: f for f in ast.walk(ast.parse(mutated.code)) if isinstance(f, ast.FunctionDef)}
    meaning = lambda name: ast.dump(Silenced().visit(functions[name]))
    originals = {}
    for name in mutated.mutant_names:
        original = name.partition("__mutmut_")[0] + "__mutmut_orig"
        if original not in originals:
            originals[original] = meaning(original)
        if meaning(name) != originals[original]:
            print(path, get_mutant_name(path, name))
"""


class Target(NamedTuple):
    """A module, and the quick tests of it."""

    group: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    functions: tuple[str, ...] = ()  # all
    keywords: str = ""  # of the tests
    sample: int | None = None  # at most so many mutants of each module

    def label(self) -> str:
        """Return how the table names it."""
        functions = f": {', '.join(self.functions)}" if self.functions else ""
        return f"`{self.modules[0].removeprefix('bayesmkl/')}`{functions}"


NUMPY = "not jax"  # the same formulas run on JAX, where each test compiles first


def _numerics(name: str, keywords: str = "", tests: tuple[str, ...] = ()) -> Target:
    tests = tests or (f"tests/numerics/test_{name}.py",)
    return Target("numerics", (f"bayesmkl/_numerics/{name}.py",), tests, keywords=keywords)


def _discriminative(group: str, name: str, tests: tuple[str, ...], functions: tuple[str, ...] = ()) -> Target:
    tests = tuple(f"tests/{test}.py" for test in tests)
    return Target(group, (f"bayesmkl/discriminative/{name}.py",), tests, functions)


BEMKL = ("sweeps", "elbo", "carry")
SVM = ("discriminative/test_svm", "robustness/test_stress_numbers")
SAMKL = ("discriminative/test_samkl", "discriminative/test_samkl_estimator")
INTEGER_STEP = ("update_margins", "update_switches", "_hold_one", "infer_switches", "switch_gates")
INTEGER_STEP += ("choose_switches", "_best_numbers", "_ranked", "_running_sums", "_leaving_first", "_flip")
TARGETS = (
    Target(
        "binary BEMKL",
        ("bayesmkl/bemkl/model.py",),
        tuple(f"tests/bemkl/test_{name}.py" for name in BEMKL),
        keywords=NUMPY,
    ),
    _discriminative("support vector machine", "svm/libsvm", SVM),
    _discriminative("support vector machine", "outer", ("discriminative/test_outer",)),
    _discriminative("integer step of SAMKL", "localized/samkl", SAMKL, INTEGER_STEP),
    _numerics("acceleration", f"{NUMPY} or least_squares"),
    _numerics("psis", tests=("tests/posterior/test_importance.py",)),
    _numerics("gamma_divergence", tests=("tests/robustness/test_stress_numbers.py",)),
    _numerics("largest_normal", NUMPY),
    _numerics("linalg"),
    _numerics("quadrant", NUMPY),
    _numerics("simplex"),
    _numerics("slice_sampling"),
    _numerics("spectral_gradient"),
    _numerics("truncated_normal", NUMPY),
    Target(
        "streamed kernels",
        ("bayesmkl/kernels/stacks/streamed.py",),
        ("tests/kernels/test_streamed.py", "tests/kernels/test_stack_contract.py"),
        sample=20,
    ),
)


def main() -> None:
    options = _options()
    chosen = [target for target in TARGETS if not options.modules or _is_chosen(target, options.modules)]
    if not chosen:
        sys.exit("no such module; choose from\n" + "\n".join(name for t in TARGETS for name in t.modules))
    if not options.show:
        for target in chosen:
            _run(target, options)
    for target in chosen if options.show else []:
        _show(target, options.folder)
    sys.stdout.write(_table(chosen, options.folder) + "\n")


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "modules", nargs="*", metavar="MODULE", help="path or pattern, such as '*/libsvm.py'"
    )
    options.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "mutants", help="of copies and results"
    )
    options.add_argument("--children", type=int, default=os.cpu_count(), help="mutants at a time")
    options.add_argument("--sample", type=int, metavar="N", help="at most so many mutants of each module")
    options.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample")
    options.add_argument(
        "--again", action="store_true", help="run those that survived once more, with today's tests"
    )
    options.add_argument(
        "--show", action="store_true", help="run nothing, print the survivors of the last run"
    )
    return options.parse_args()


def _is_chosen(target: Target, patterns: list[str]) -> bool:
    return any(fnmatch(module, pattern) for module in target.modules for pattern in patterns)


def _place(target: Target, folder: Path) -> Path:
    return folder / target.modules[0].removesuffix(".py").replace("/", ".")


def _run(target: Target, options: argparse.Namespace) -> None:
    place = _place(target, options.folder)
    if not options.again:
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    for name in COPIED if not options.again else ("tests",):
        shutil.rmtree(place / name, ignore_errors=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, place / name)
    if not options.again:  # other settings would make mutmut forget what it found
        switches = [*SWITCHES, "-m", "not slow", "-k", target.keywords]
        settings = SETTINGS.format(
            modules=json.dumps(target.modules), tests=json.dumps(target.tests), switches=json.dumps(switches)
        )
        with (place / "pyproject.toml").open("w") as file:
            file.write((ROOT / "pyproject.toml").read_text() + settings)
    names = []
    if options.again:
        statuses = _statuses(target, options.folder)
        names = [name for name, status in statuses.items() if status in SURVIVED + UNTESTED]
        if not names:
            return
    else:
        for own in _names(target, place).values():
            meant = [name for name in own if _is_meant(name, target.functions)]
            names += random.Random(options.seed).sample(
                meant, min(options.sample or target.sample or len(meant), len(meant))
            )
    _mutmut(place, [str(options.children), *names])


def _names(target: Target, place: Path) -> dict[str, list[str]]:
    """Names of all mutants of each module, without running any; kept in a file for the counts."""
    arguments = [sys.executable, "-c", LIST, *target.modules]
    listed = subprocess.run(arguments, cwd=place, check=True, capture_output=True, text=True)
    names: dict[str, list[str]] = {module: [] for module in target.modules}
    for module, name in sorted(line.split() for line in listed.stdout.splitlines()):
        names[module].append(name)
    (place / NAMES).write_text(json.dumps(names))
    return names


def _is_meant(name: str, functions: tuple[str, ...]) -> bool:
    function = name.rpartition(".x_")[2].partition("__mutmut_")[0]
    return not functions or function in functions


def _mutmut(place: Path, arguments: list[str], check: bool = True) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", *arguments]
    with (place / "mutmut.log").open("w") as log:  # its animation of progress fills screens
        done = subprocess.run(
            command, cwd=place, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
        )
    if check and done.returncode:
        sys.exit(f"mutmut failed; see {log.name}")


def _statuses(target: Target, folder: Path) -> dict[str, int | None]:
    """Exit status of the tests of every mutant that is more than a message, by its name."""
    place, found = _place(target, folder), {}
    for module in target.modules:
        meta = place / "mutants" / f"{module}.meta"
        if meta.exists():
            found |= json.loads(meta.read_text())["exit_code_by_key"]
    if (place / NAMES).exists():
        meant = {name for names in json.loads((place / NAMES).read_text()).values() for name in names}
        found = {name: status for name, status in found.items() if name in meant}
    return found


def _show(target: Target, folder: Path) -> None:
    for name, status in _statuses(target, folder).items():
        if status is not None and status not in KILLED + TIMED_OUT:
            command = [str(Path(sys.executable).with_name("mutmut")), "show", name]
            subprocess.run(command, cwd=_place(target, folder), check=False)


def _table(targets: list[Target], folder: Path) -> str:
    """Write the table of what was run."""
    lines = [
        "| module | mutants | tried | killed | out of time | survived | share |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for group in dict.fromkeys(target.group for target in targets):
        total: Counter[str] = Counter()
        for target in (t for t in targets if t.group == group):
            counts = _counts(target, folder)
            if counts["tried"]:
                lines.append(_line(target.label(), counts))
                total += counts
        lines.append(_line(f"**{group}**", total))
    return "\n".join(lines)


def _counts(target: Target, folder: Path) -> Counter[str]:
    found = [code for name, code in _statuses(target, folder).items() if _is_meant(name, target.functions)]
    tried = [code for code in found if code is not None]
    return Counter(
        mutants=len(found),
        tried=len(tried),
        killed=sum(code not in SURVIVED + UNTESTED + TIMED_OUT for code in tried),
        late=sum(code in TIMED_OUT for code in tried),
        survived=sum(code in SURVIVED + UNTESTED for code in tried),
    )


def _line(name: str, counts: Counter[str]) -> str:
    share = (counts["killed"] + counts["late"]) / counts["tried"] if counts["tried"] else 0.0
    numbers = [str(counts[key]) for key in COLUMNS]
    return "| " + " | ".join([name, *numbers, f"{share:.1%}"]) + " |"


if __name__ == "__main__":
    main()
