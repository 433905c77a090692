"""Malformed files and odd options against the command line: every one must end in a result, or in one clear message.

Tables (CSV, TSV, gzip, Parquet), configurations (TOML), runs (config.json, model.skops), comparisons (about.json,
results.csv, cells) and options are broken at random and given to `fit`, `predict` and `compare`, in this process and
in a fresh folder each. A case fails if an exception reaches the outermost level, a traceback, a warning of a library
or an empty message is shown, the exit code is not 0 to 3, something is left half-written, or it takes longer than a
limit.

The cases are the same in every run; ``--case "csv: fit" 17`` repeats one and shows what it said.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _fuzz_inputs import OPTIONS, STUDY, broken_json, broken_model, broken_parquet, broken_text, table
from _report import claim, finish, markdown_table, parser
from click.testing import Result
from typer.testing import CliRunner

from bayesmkl import posterior
from bayesmkl.cli import app, comparing, fitting
from bayesmkl.evaluation.comparison import Comparison

N_FULL, N_FAST = 2000, 40
SECONDS = 30  # for one case, on a loaded machine
FULL_EVERY = 40  # cases between those that draw plots and write posteriors, which take a second each
FIT = ("--target", "kind", "--kernels-on", "all", "--max-iter", "3")
CODES = (0, 1, 2, 3)


class Case(NamedTuple):
    """A command with its files in place."""

    words: list[str]
    out: Path  # what it writes
    what: str = ""  # for the reader of a failure


class Outcome(NamedTuple):
    """What became of a case; `fault` is empty if all is well."""

    code: int
    fault: str
    said: str


def to_toml(values: dict[str, Any], path: str = "") -> str:
    """Write nested data as TOML, roughly: what it cannot hold becomes text."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            name = f"{path}.{_key(key)}" if path else _key(key)
            lines += [f"[{name}]", to_toml(value, name)]
    return "\n".join(lines)


def _key(key: Any) -> str:
    return json.dumps(str(key))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value) if value is not None else '""'


class Bench:
    """Well-formed files to be broken, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.csv = table().to_csv(index=False).encode()
        (folder / "table.csv").write_bytes(self.csv)
        (folder / "study.toml").write_text(to_toml(STUDY), encoding="utf-8")
        for words in (
            ["fit", str(folder / "table.csv"), "--out", str(folder / "run"), *FIT],
            ["compare", str(folder / "study.toml"), "--out", str(folder / "compared")],
        ):
            with without_pictures(True):
                result = CliRunner().invoke(app, words)
            if result.exit_code:
                raise RuntimeError(result.output)
        self.toml = (folder / "study.toml").read_bytes()
        self.model = (folder / "run" / "model.skops").read_bytes()
        self.config = json.loads((folder / "run" / "config.json").read_text())

    # -------------------------------------------------------------------------------------------- families

    def fit_csv(self, rng: np.random.Generator, work: Path) -> Case:
        """A broken table in text."""
        suffix = str(rng.choice([".csv", ".csv", ".csv", ".tsv", ".csv.gz", ".tsv.gz"]))
        path = work / f"data{suffix}"
        data = broken_text(rng, self.csv)
        data = data.replace(b",", b"\t") if "tsv" in suffix else data
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") and rng.random() < 0.8 else data)
        task = str(rng.choice(["auto", "auto", "classification", "regression"]))
        target = str(rng.choice(["kind", "kind", "a"]))
        words = ["fit", str(path), *FIT[2:], "--target", target, "--task", task, "--out", str(work / "out")]
        words += ["--drop", "kind"] if target == "a" else []
        return Case([*words, *_sometimes(rng, "--missing-views", "integrate")], work / "out")

    def fit_parquet(self, rng: np.random.Generator, work: Path) -> Case:
        """A broken table in Parquet."""
        (work / "data.parquet").write_bytes(broken_parquet(rng))
        return Case(["fit", str(work / "data.parquet"), *FIT, "--out", str(work / "out")], work / "out")

    def fit_options(self, rng: np.random.Generator, work: Path) -> Case:
        """Odd options."""
        shutil.copy(self.folder / "table.csv", work)
        given = {"--target": "kind", "--kernels-on": "all", "--max-iter": "3", "--out": "out"}
        flags: list[str] = []
        for name in rng.choice(list(OPTIONS), rng.integers(1, 4), replace=False):
            values = OPTIONS[name]
            if values:
                given[str(name)] = str(values[rng.integers(len(values))])
            else:
                flags.append(str(name))
        words = ["fit", "table.csv", *flags, *(word for pair in given.items() for word in pair)]
        return Case(words, work / given["--out"])

    def predict_table(self, rng: np.random.Generator, work: Path) -> Case:
        """A broken table of new rows."""
        parquet = rng.random() < 0.4
        path = work / ("data.parquet" if parquet else "data.csv")
        path.write_bytes(broken_parquet(rng) if parquet else broken_text(rng, self.csv))
        return self._predict(self.folder / "run", path, work, str(rng.choice(["out.csv", "out.parquet"])))

    def predict_config(self, rng: np.random.Generator, work: Path) -> Case:
        """A run with a broken config.json."""
        run = self._run(work)
        text = json.dumps(broken_json(rng, self.config, 3)).encode()
        (run / "config.json").write_bytes(broken_text(rng, text) if rng.random() < 0.3 else text)
        return self._predict(run, self.folder / "table.csv", work)

    def predict_model(self, rng: np.random.Generator, work: Path) -> Case:
        """A run with a broken model."""
        run = self._run(work)
        (run / "model.skops").write_bytes(broken_model(rng, self.model))
        return self._predict(run, self.folder / "table.csv", work)

    def compare_toml(self, rng: np.random.Generator, work: Path) -> Case:
        """A broken configuration of a comparison."""
        shutil.copy(self.folder / "table.csv", work)
        text = (
            to_toml(broken_json(rng, STUDY, 3)).encode()
            if rng.random() < 0.7
            else broken_text(rng, self.toml)
        )
        (work / "study.toml").write_bytes(text)
        return Case(["compare", str(work / "study.toml"), "--out", str(work / "out")], work / "out")

    def compare_table(self, rng: np.random.Generator, work: Path) -> Case:
        """A comparison on a broken table."""
        (work / "table.csv").write_bytes(broken_text(rng, self.csv))
        (work / "study.toml").write_bytes(self.toml)
        return Case(["compare", str(work / "study.toml"), "--out", str(work / "out")], work / "out")

    def compare_folder(self, rng: np.random.Generator, work: Path) -> Case:
        """The folder of an earlier comparison, with something broken in it."""
        out = work / "out"
        shutil.copytree(self.folder / "compared", out)
        about = json.loads((out / "about.json").read_text())
        part = rng.integers(4)
        if part == 0:
            (out / "about.json").write_text(json.dumps(broken_json(rng, about, 3)))
        elif part == 1:
            (out / "results.csv").write_bytes(broken_text(rng, (out / "results.csv").read_bytes()))
        elif part == 2:
            (out / "about.json").write_bytes(broken_text(rng, (out / "about.json").read_bytes()))
        else:
            for i, path in enumerate(sorted((out / "cells").glob("*.json"))):
                text = json.dumps(broken_json(rng, json.loads(path.read_text()), 2)).encode()
                path.write_bytes(text if i else broken_text(rng, text))
        return Case(["compare", str(self.folder / "study.toml"), "--out", str(out)], out)

    def _run(self, work: Path) -> Path:
        (work / "run").mkdir()
        for name in ("config.json", "model.skops"):
            shutil.copy(self.folder / "run" / name, work / "run")
        return work / "run"

    def _predict(self, run: Path, data: Path, work: Path, out: str = "out.csv") -> Case:
        return Case(["predict", str(run), str(data), "--out", str(work / out)], work / out)


def _sometimes(rng: np.random.Generator, *words: str) -> list[str]:
    return [*words] if rng.random() < 0.15 else []


FAMILIES: dict[str, tuple[Callable[..., Case], float]] = {  # and their shares of the cases
    "csv: fit": (Bench.fit_csv, 0.18),
    "parquet: fit": (Bench.fit_parquet, 0.12),
    "options: fit": (Bench.fit_options, 0.12),
    "table: predict": (Bench.predict_table, 0.12),
    "config.json: predict": (Bench.predict_config, 0.1),
    "model.skops: predict": (Bench.predict_model, 0.14),
    "toml: compare": (Bench.compare_toml, 0.12),
    "csv: compare": (Bench.compare_table, 0.04),
    "earlier folder: compare": (Bench.compare_folder, 0.06),
}


@contextlib.contextmanager
def without_pictures(wanted: bool) -> Iterator[None]:
    """Leave plots, posterior files and reports out, which take most of the time and read nothing that is broken."""

    class Figure:
        @property
        def figure(self) -> Figure:
            return self

        def savefig(self, path: Path) -> None:
            Path(path).write_bytes(b"")

    stubs: dict[tuple[Any, str], Callable[..., Any]] = {
        (posterior, name): lambda *args, **kwargs: Figure()
        for name in ("plot_elbo", "plot_kernel_weights", "plot_views")
    }
    stubs[fitting, "picture"] = lambda *args, **kwargs: ("picture.png", Figure())
    stubs[posterior, "save_posterior"] = lambda model, path, **options: path.write_bytes(b"")
    stubs[comparing, "write_report"] = lambda comparison, path: path.write_text("")
    before = {place: getattr(*place) for place in stubs}
    for place, stub in stubs.items() if wanted else ():
        setattr(*place, stub)
    try:
        yield
    finally:
        for place, value in before.items():
            setattr(*place, value)


def run_case(bench: Bench, family: str, number: int, full: bool = False) -> Outcome:
    """Run a case of a family in a folder of its own, and judge it."""
    make = FAMILIES[family][0]
    rng = np.random.default_rng([number, *family.encode()])
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        case = make(bench, rng, Path(folder))
        before = _files(Path(folder))
        started = time.monotonic()
        with (
            warnings.catch_warnings(record=True, action="always") as caught,
            _limit(),
            without_pictures(not full),
        ):
            result = CliRunner().invoke(app, case.words, env={"COLUMNS": "100"})
        fault = _fault(case, result, [str(w.message) for w in caught], Path(folder), before)
        if not fault and time.monotonic() - started > SECONDS:
            fault = "slow"
        return Outcome(result.exit_code, fault, result.output)


@contextlib.contextmanager
def _limit() -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise RuntimeError(f"no result after {SECONDS} s")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before, left = signal.signal(signal.SIGALRM, give_up), signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.alarm(left)


def _fault(case: Case, result: Result, warned: list[str], folder: Path, before: set[str]) -> str:
    """Say what is wrong with the end of a command; nothing if all is well."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{type(result.exception).__name__}: {result.exception}"
    if result.exit_code not in CODES:
        return f"exit code {result.exit_code}"
    if "Traceback" in result.output:
        return "a traceback"
    if warned:
        return f"a warning: {warned[0]}"
    if result.exit_code and not result.stderr.strip():
        return "no message"
    new = _files(folder) - before
    if half := [name for name in new if name.endswith((".part", ".old"))]:
        return f"half-written: {half[0]}"
    command = case.words[0]
    if command != "compare" and result.exit_code and (new and result.exit_code != 3):
        return f"failed, and left {sorted(new)[0]}"
    if not result.exit_code and not case.out.exists():
        return "succeeded, and wrote nothing"
    if command == "compare" and (case.out / "results.csv").exists() and not result.exit_code:
        Comparison.load(case.out)
    return ""


def _files(folder: Path) -> set[str]:
    return {os.path.join(root, name) for root, _, names in os.walk(folder) for name in names}


def cases(n: int) -> Iterator[tuple[str, int]]:
    """Yield the cases of a run of about `n`, family by family."""
    for family, (_, share) in FAMILIES.items():
        yield from ((family, number) for number in range(max(1, round(n * share))))


def run(n: int) -> tuple[str, dict[str, Any]]:
    """Run all cases; return the table and the numbers."""
    tried = {family: [0, 0, 0] for family in FAMILIES}
    failures: list[dict[str, Any]] = []
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for i, (family, number) in enumerate(cases(n)):
            outcome = run_case(bench, family, number, full=i % FULL_EVERY == FULL_EVERY - 1)
            counts = tried[family]
            counts[0] += 1
            counts[1] += outcome.code == 0
            if outcome.fault:
                counts[2] += 1
                failures.append({"family": family, "case": number, "fault": outcome.fault[:500]})
                print(f"FAILED {family} {number}: {outcome.fault[:300]}", file=sys.stderr, flush=True)
    total = [sum(counts[k] for counts in tried.values()) for k in range(3)]
    rows: list[list[Any]] = [
        [family, n_tried, n_tried - n_read - n_failed, n_read, n_failed]
        for family, (n_tried, n_read, n_failed) in [*tried.items(), ("all", total)]
    ]
    text = markdown_table(["what is malformed", "tried", "refused", "read", "failed"], rows)
    claims = [claim("cases that failed", 0, total[2])]
    if n >= N_FULL:
        claims.append(claim("cases", N_FULL, total[0], at_least=True))
    numbers = {
        "tried": tried,
        "failures": failures,
        "cpu_seconds": time.process_time() - started,
        "claims": claims,
    }
    return text, numbers


def main() -> None:
    """Run the cases that the command line asks for."""
    options_of = parser(__doc__ or "")
    options_of.add_argument("--cases", type=int, help=f"how many; {N_FULL} by default, {N_FAST} with --fast")
    options_of.add_argument("--case", nargs=2, metavar=("FAMILY", "NUMBER"), help="repeat one, and show it")
    options = options_of.parse_args()
    if options.case:
        with tempfile.TemporaryDirectory() as folder:
            print(run_case(Bench(Path(folder)), options.case[0], int(options.case[1])))
        return
    finish(options, "fuzz", *run(options.cases or (N_FAST if options.fast else N_FULL)))


if __name__ == "__main__":
    main()
