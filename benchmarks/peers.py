"""This package beside peers on the same data and cores: seconds, test score and memory, in one run.

Every fit runs in a process of its own, in the environment of its peer (`make peers` builds these), with the same
samples, views and number of threads. Seconds are those of the processor, all threads together, from arrays to the
fitted model, with kernels, choices of parameters and compilation, without imports; on an accelerator they are those
of the wall. "To the score": those after which the loss stays within .002 of the last one. What would take longer than
the limit, by the growth of the method from the next smaller size, is not run, and the table says so. Memory is that
of the process, imports included; on an accelerator that of the device. 1024 points begin at 2048 samples.

    python benchmarks/peers.py                                     real sets, 500, 5000, 50 000 and 500 000 samples
    python benchmarks/peers.py --sizes 500000 --only "BEMKL|SVGP"  some of them
    python benchmarks/peers.py --device cuda --peers current --sizes 50000,500000 --cells gpu.jsonl
    python benchmarks/peers.py --report gpu.jsonl --keep         adds these rows, and writes numbers and picture
    python benchmarks/peers.py --fast                            60 samples, this package and scikit-learn
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _cells import append, read
from _machine import measure
from _peer import NOT_INSTALLED, answer
from _peer_data import REAL, SETS, Data, load
from _peer_report import claims_of, key_of, merged, picture, report
from _report import RESULTS, ROOT, STATIC, finish, parser

CELLS = RESULTS / "peers_cells.jsonl"
SIZES = ["real", "500", "5000", "50000", "500000"]
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA")
FAST_SAMPLES, FAST_TEST = 60, 200
WALL = 20  # seconds of the wall for one of the processor, at most
BOTH = ("classification", "regression")


IMPORTS = {
    "himalaya": ("himalaya.kernel_ridge",),
    "mklpy": ("torch", "MKLpy.algorithms", "sklearn.svm"),
    "gpytorch": ("torch", "gpytorch"),
    "skglm": ("skglm", "skglm.datafits", "skglm.penalties", "skglm.solvers"),
}


class Method(NamedTuple):
    """A row of the table."""

    environment: str  # of `make peers`; "" is this interpreter
    script: str
    name: str  # in the script
    growth: float  # exponent of its seconds in the number of samples
    options: dict[str, Any] = {}  # noqa: RUF012
    tasks: tuple[str, ...] = BOTH
    matrices: float = 0.0  # held at once, each of all pairs of samples, as multiples of the number of kernels
    packages: tuple[str, ...] = ("scikit-learn",)
    cuda: bool = False
    least: int = 0  # samples
    fast: bool = False


OURS = {"script": "_peer_bayesmkl", "environment": "", "packages": ("bayesmkl", "numpy", "jax")}
SKLEARN = {"script": "_peer_sklearn", "environment": "", "packages": ("scikit-learn",)}
HIMALAYA = {"script": "_peer_himalaya", "environment": "himalaya", "packages": ("himalaya",)}
MKLPY = {"script": "_peer_mklpy", "environment": "mklpy", "packages": ("MKLpy", "torch")}
GPYTORCH = {"script": "_peer_gpytorch", "environment": "gpytorch", "packages": ("gpytorch", "torch")}
CLASSES, NUMBERS = ("classification",), ("regression",)
METHODS = {
    "BEMKL": Method(name="bemkl", growth=3.0, matrices=1.5, fast=True, **OURS),
    "BEMKL, 256 landmarks": Method(name="bemkl", growth=0.7, options={"landmarks": 256}, cuda=True, **OURS),
    "BEMKL, 1024 landmarks": Method(
        name="bemkl", growth=0.7, options={"landmarks": 1024}, least=2048, cuda=True, **OURS
    ),
    "GPMKL": Method(name="gpmkl", growth=3.0, matrices=2.0, **OURS),
    "GPMKL, 32 landmarks": Method(name="gpmkl", growth=0.5, options={"landmarks": 32}, **OURS),
    "GPMKL, 128 landmarks": Method(name="gpmkl", growth=0.5, options={"landmarks": 128}, least=2048, **OURS),
    "GPMKL, 256 landmarks in total": Method(
        name="gpmkl", growth=0.5, options={"landmarks": 192, "total": 256}, **OURS
    ),
    "GPMKL, 1024 landmarks in total": Method(
        name="gpmkl", growth=0.5, options={"landmarks": 512, "total": 1024}, least=2048, **OURS
    ),
    "UniformMKL": Method(name="uniform", growth=2.2, matrices=1.5, fast=True, **OURS),
    "EasyMKL": Method(name="easy", growth=2.5, tasks=CLASSES, matrices=1.5, **OURS),
    "SimpleMKL": Method(name="simple", growth=2.5, matrices=1.5, **OURS),
    "scikit-learn, grid of SVC": Method(name="svc", growth=2.2, tasks=CLASSES, **SKLEARN),
    "scikit-learn, Gaussian process": Method(name="gp", growth=3.0, matrices=2.0, **SKLEARN),
    "scikit-learn, Nyström 256": Method(name="nystroem", growth=1.0, fast=True, **SKLEARN),
    "scikit-learn, Nyström 1024": Method(
        name="nystroem", growth=1.0, options={"components": 1024}, least=2048, **SKLEARN
    ),
    "himalaya, random search": Method(
        name="ridge", growth=3.0, options={"solver": "random_search"}, tasks=NUMBERS, matrices=2.0, **HIMALAYA
    ),
    "himalaya, gradient": Method(
        name="ridge",
        growth=2.5,
        options={"solver": "hyper_gradient"},
        tasks=NUMBERS,
        matrices=2.0,
        **HIMALAYA,
    ),
    "MKLpy, EasyMKL": Method(
        name="fit", growth=2.5, options={"method": "EasyMKL"}, tasks=CLASSES, matrices=3.0, **MKLPY
    ),
    "MKLpy, average": Method(
        name="fit", growth=2.2, options={"method": "AverageMKL"}, tasks=CLASSES, matrices=3.0, **MKLPY
    ),
    "GPyTorch, SVGP 256": Method(name="svgp", growth=0.5, options={"inducing": 256}, cuda=True, **GPYTORCH),
    "GPyTorch, SVGP 1024": Method(
        name="svgp", growth=0.5, options={"inducing": 1024}, least=2048, cuda=True, **GPYTORCH
    ),
    "skglm, group lasso": Method(
        "skglm", "_peer_skglm", "group lasso", growth=1.2, packages=("skglm", "scikit-learn")
    ),
}


def interpreter(method: Method, peers: str) -> str | None:
    """Return the Python of a method's environment, None if it is not there."""
    if peers == "current" or not method.environment:
        return sys.executable
    found = Path(peers) / method.environment / "bin" / "python"
    return str(found) if found.exists() else None


def refused(
    method: Method, row: dict[str, Any], data: Data, done: Sequence[dict[str, Any]], options: Any
) -> str:
    """Say why a method is not run: memory of its matrices, or seconds estimated from a smaller size; else ""."""
    n, n_kernels = len(data.y), len(data.views) * len(data.widths)
    needed = 8.0 * n**2 * n_kernels * method.matrices
    if needed > 1e9 * options.memory:
        return f"not run: {needed / 1e9:.3g} GB estimated"
    smaller = [
        one for one in done if key_of(one) == key_of(row | {"n": one["n"]}) and "cpu" in one and one["n"] < n
    ]
    if smaller:
        last = max(smaller, key=lambda one: one["n"])
        seconds = last["wall" if options.device == "cuda" else "cpu"] * (n / last["n"]) ** method.growth
        if seconds > options.limit:
            return f"not run: {seconds:.2g} s estimated"
    elif any(key_of(one) == key_of(row | {"n": one["n"]}) and one["n"] < n for one in done):
        return "not run: a smaller size was not, either"
    return ""


def ask(method: Method, data: Data, python: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Fit and predict in a process of its own, or in this one for the short form; return what came of it."""
    files = [folder / name for name in ("problem.npz", "request.json", "answer.npz")]
    np.savez(files[0], X=data.X, y=data.y, X_test=data.X_test)
    request = {"name": method.name, "options": method.options, "packages": method.packages}
    request["imports"] = IMPORTS.get(method.environment, ())
    request |= {
        "views": data.views,
        "widths": data.widths,
        "regression": data.regression,
        "device": options.device,
    }
    files[1].write_text(json.dumps(request), encoding="utf-8")
    files[2].unlink(missing_ok=True)
    if options.fast:
        answer(importlib.import_module(method.script).METHODS, *files)
        return scored(files[2], data)
    on_device = options.device == "cuda"
    hidden = {} if on_device else {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    environment = os.environ | hidden | {f"{name}_NUM_THREADS": str(options.threads) for name in THREADS}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))

    def bounded() -> None:
        if not on_device:
            resource.setrlimit(resource.RLIMIT_CPU, (int(options.limit), int(options.limit) + 5))

    script = str(ROOT / "benchmarks" / f"{method.script}.py")
    try:
        ended = subprocess.run(
            [python, script, *map(str, files)],
            env=environment,
            preexec_fn=bounded,
            timeout=options.limit * (1 if on_device else WALL),
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        wall = options.limit if on_device else WALL * options.limit
        return {"outcome": f"stopped after {wall:g} s of the wall"}
    if ended.returncode in (-24, -9) and not files[2].exists():  # SIGXCPU, SIGKILL
        return {"outcome": f"stopped after {options.limit:g} s"}
    if ended.returncode == NOT_INSTALLED:
        return {"outcome": "not installed"}
    if ended.returncode:
        last = (ended.stderr.strip() or "no message").splitlines()[-1]
        return {"outcome": f"failed: {last[:120]}", "stderr": ended.stderr[-2000:]}
    return scored(files[2], data)


def scored(path: Path, data: Data) -> dict[str, Any]:
    """Score the predictions of an answer, and those on the way to it."""
    with np.load(path) as found:
        numbers = json.loads(str(found["numbers"]))
        second = found["second"] if found["second"].size else None
        result = {"outcome": "done", **_scores(data, found["point"], second)}
        looks = numbers.pop("looks")
        if looks:
            seconds = found["seconds"] if found["seconds"].size else [None] * len(looks)
            scores = [_scores(data, *each) for each in zip(found["points"], seconds, strict=True)]
            result["curve"] = [
                [round(cpu, 3), round(wall, 3), round(each["score"], 5), round(each["loss"], 5)]
                for (cpu, wall), each in zip(looks, scores, strict=True)
            ]
    return result | {
        name: round(value, 4) if isinstance(value, float) else value for name, value in numbers.items()
    }


def _scores(data: Data, point: np.ndarray, second: np.ndarray | None) -> dict[str, float]:
    """Accuracy and log loss, or R2 and mean negative log density of the standardized targets."""
    y = data.y_test
    if not data.regression:
        found = {"score": float(np.mean((point > 0.5) == (y > 0.5)))}
        if second is not None:
            given = np.clip(np.where(y > 0.5, second, 1.0 - second), 1e-12, None)
            found["loss"] = float(-np.mean(np.log(given)))
        return found
    found = {"score": float(1.0 - np.mean((y - point) ** 2) / np.var(y))}
    if second is not None:
        density = -0.5 * ((y - point) / second) ** 2 - np.log(second) - 0.5 * np.log(2.0 * np.pi)
        found["loss"] = float(-np.mean(density))
        found["coverage"] = float(np.mean(np.abs(y - point) < 1.96 * second))
    return found


def problems(options: argparse.Namespace) -> list[tuple[str, str, int]]:
    """List task, set and number of samples, small ones first."""
    if options.fast:
        return [(task, names[1], FAST_SAMPLES) for task, names in SETS.items()]
    tasks = [options.task] if options.task else list(SETS)
    found = []
    for size in options.sizes.split(","):
        for task in tasks:
            real, generator = SETS[task]
            found.append((task, real, REAL[real]) if size == "real" else (task, generator, int(size)))
    return found


def run(options: argparse.Namespace, machine: str) -> list[dict[str, Any]]:
    """Run what is asked for and not yet in the file of cells; return all rows."""
    wanted = re.compile(options.only or "", re.IGNORECASE)
    rows = [] if options.fast else read(options.cells)
    known = [] if options.fast else merged([*read(CELLS), *rows])
    with tempfile.TemporaryDirectory() as folder:
        for task, name, n in problems(options):
            data = load(name, n, FAST_TEST) if options.fast else load(name, n)
            for label, method in METHODS.items():
                row = {"set": name, "n": n, "task": task, "device": options.device, "method": label}
                there = {key_of(one) for one in rows if options.keep}
                chosen = wanted.search(label) is not None
                able = (method.cuda or options.device == "cpu") and (method.fast or not options.fast)
                able = able and n >= method.least
                if task not in method.tasks or not chosen or not able or key_of(row) in there:
                    continue
                python = interpreter(method, options.peers)
                why = "not installed" if python is None else refused(method, row, data, known, options)
                found = {"outcome": why} if why else ask(method, data, str(python), options, Path(folder))
                message = found.pop("stderr", None)
                row |= {**found, "threads": options.threads, "limit": options.limit, "machine": machine}
                rows.append(row)
                known.append(row)
                if not options.fast:
                    append(options.cells, row)
                seconds = f", {row['cpu']:.4g} s of processor, {row['wall']:.4g} s" if "cpu" in row else ""
                scores = (
                    f", {row['score']:.4f}, {row.get('loss', float('nan')):.4f}" if "score" in row else ""
                )
                print(f"{name} {n}: {label}: {row['outcome']}{seconds}{scores}", flush=True)
                if message:
                    print(message, file=sys.stderr)
    return rows


def main() -> None:
    """Run, or only report."""
    own = parser(__doc__)
    own.add_argument(
        "--peers", default=str(ROOT / "build" / "peers"), help="folder of `make peers`, or current"
    )
    own.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    own.add_argument("--only", help="methods whose label has this regular expression")
    own.add_argument("--task", choices=list(SETS))
    own.add_argument("--sizes", default=",".join(SIZES), help=f"default {','.join(SIZES)}")
    own.add_argument("--threads", type=int, default=1)
    own.add_argument("--limit", type=float, default=900.0, help="seconds of a fit (default 900)")
    own.add_argument("--memory", type=float, default=8.0, help="GB of a fit's kernels (default 8)")
    own.add_argument("--cells", type=Path, default=CELLS, help="JSON lines to append to")
    own.add_argument("--again", dest="keep", action="store_false", help="run rows that are there, too")
    own.add_argument("--report", nargs="*", type=Path, help="only report, with the rows of these files added")
    options = own.parse_args()
    facts = measure(options.fast)
    print(facts.report() + "\n")
    if options.report is not None:
        for path in options.report:
            for row in read(path):
                append(CELLS, row)
        rows = read(CELLS)
    else:
        rows = run(options, f"{facts.processor}, {facts.cores} cores")
        rows = rows if options.fast else read(options.cells)
    rows = merged(rows)
    text, numbers = report(rows)
    if options.keep:
        STATIC.mkdir(parents=True, exist_ok=True)
        picture(rows, STATIC / "peers.svg")
    command = {} if options.fast else {"command": "python benchmarks/peers.py"}  # which made the rows
    finish(
        options, "peers", text, {"machine": facts._asdict(), **numbers, "claims": claims_of(rows), **command}
    )


if __name__ == "__main__":
    main()
