"""Up to 10 000 pathway kernels on 500 samples: time, memory and exponent in P of BEMKL and of marginal inference.

A pathway is a kernel on 10 to 200 of 3000 features (their logarithm uniform), five of which make the target. BEMKL
holds linear kernels in factors, Gaussian ones in factors of a given rank or by one triangle, as marginal inference
does; centered linear kernels, without a scale for every sample, both hold by the features that they share. Times are
CPU seconds of one thread, which do not depend on what else the computer does; every row is a process of its own, and
is kept as it comes, in benchmarks/results/many_kernels_cells.jsonl.

    python benchmarks/many_kernels.py            500 samples, up to 10 000 kernels: an hour of CPU, 6 GB
    python benchmarks/many_kernels.py --part 2/8 the second of every eight rows that are missing, and no results
    python benchmarks/many_kernels.py --report   the rows that there are
    python benchmarks/many_kernels.py --fast     40 samples, up to 240 kernels
"""

from __future__ import annotations

import os

from bayesmkl.bemkl import model as bemkl

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _cells import append, read
from _machine import Machine, measure
from _memory import alone, peak_of
from _protocol import load, paper_kernels, split
from _report import RESULTS, claim, finish, markdown_table, parser
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import Storage, many_kernels
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import share_draws
from bayesmkl.gp import Marginal
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.drawing import find_mode
from bayesmkl.gp.evidence import ep_evidence, laplace_evidence
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import HalfT, LogNormal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factored import compress_each
from bayesmkl.kernels.stacks.packed import pack
from bayesmkl.outcomes import Probit

N_FEATURES, N_RELEVANT = 3000, 5
SMALLEST, LARGEST = 10, 200  # features of a pathway
ASKED_MINUTES, ASKED_GB, ASKED_EXPONENT = 5.0, 6.0, 1.1
ASKED_MODE = 10.0  # seconds
ASKED_LINEAR, ASKED_GAUSSIAN = 1e-6, 0.005  # changes of shares
CENTERED = "centered linear"  # around the mean and of trace N; others have unit self-similarity
N_DRAWS, N_NEW = 400, 100  # of shares, and samples to predict
GB = 1e9


class Case(NamedTuple):
    """A fit."""

    kernel: str
    n_kernels: int
    n_samples: int
    storage: str = "auto"  # or that of Gaussian kernels in factors of a rank, "rank 64"

    @property
    def name(self) -> str:
        """What they are called."""
        return self.kernel if self.storage == "auto" else f"{self.kernel}, {self.storage}"


def data_of(case: Case) -> tuple[np.ndarray, np.ndarray, KernelBank]:
    """Samples, scores with noise, and kernels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((case.n_samples, N_FEATURES))
    sizes = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), case.n_kernels)).round().astype(int)
    views = {f"p{m}": rng.choice(N_FEATURES, size, replace=False).tolist() for m, size in enumerate(sizes)}
    relevant = [X[:, own] for own in list(views.values())[:N_RELEVANT]]
    score = sum(own @ rng.standard_normal(own.shape[1]) / own.shape[1] ** 0.5 for own in relevant)
    target = score + 0.3 * rng.standard_normal(case.n_samples)
    kernel = Gaussian(relative_width=1.0) if case.kernel == "Gaussian" else Linear()
    normalize = ("center", "trace") if case.kernel == CENTERED else "spherical"
    return X, target, KernelBank(kernel, views=views, normalize=normalize, random_state=0)


def storage_of(case: Case) -> str | Storage:
    """How its kernels are held."""
    if not case.storage.startswith("rank"):
        return case.storage
    return Storage("compressed", rank=int(case.storage.split()[1]))


def fit(case: Case, tol: float = 1e-6) -> dict[str, Any]:
    """CPU seconds of the parts of one fit, its memory, and of linear kernels one evidence with its gradient."""
    X, target, bank = data_of(case)
    labels = (target > 0.0).astype(int)
    settings = {"intermediate_scale": 1.0, "margin": 0.0, "tol": tol, "random_state": 0}
    model = BEMKLClassifier(bank, storage=storage_of(case), **settings)
    marks = [time.process_time()]

    def run() -> None:
        own = model._checked()
        stack, y = model._prepare(X, labels, own)  # what `fit` does, in its parts
        task = model._task(stack, model._gram(stack), y, own)
        marks.append(time.process_time())
        found = model._infer(task)
        marks.append(time.process_time())
        model._store(task, found)
        marks.append(time.process_time())

    _, peak = peak_of(run)
    loading, updates, reading = np.diff(marks)
    return {
        **case._asdict(),
        "loading": loading,
        "updates": updates,
        "reading": reading,
        "n_updates": int(model.n_iter_),
        "peak": peak.process,
        "kernel_bytes": model.kernel_bytes_,
        "share_of_relevant": float(model.kernel_shares_[:N_RELEVANT].sum()),
    }


def marginal(case: Case) -> dict[str, Any]:
    """CPU seconds of a fit with scores integrated out and of predictions of new samples, memory, and how it ended."""
    X, target, bank = data_of(case._replace(n_samples=case.n_samples + N_NEW))
    train, new = slice(case.n_samples), slice(case.n_samples, None)
    is_labels = case.storage == "labels"
    y = target > 0.0 if is_labels else target
    model = (GPMKLClassifier if is_labels else GPMKLRegressor)(bank, inference=Marginal(n_draws=N_DRAWS))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what it says is in the row
        _, peak = peak_of(lambda: model.fit(X[train], y[train]))
    fitted = time.process_time()
    score = model.score(X[new], y[new])
    predicted = time.process_time()
    relevant = model.posterior_.shares[:, :N_RELEVANT].sum(axis=1)
    return {
        **case._asdict(),
        "fit": fitted - start,
        "predict": predicted - fitted,
        "score": float(score),
        "n_evaluations": int(model.n_evaluations_),
        "pareto_k": float(model.pareto_k_),
        "ess": float(model.ess_),
        "converged": bool(model.converged_),
        "peak": peak.process,
        "relevant": [float(value) for value in (relevant.mean(), *np.quantile(relevant, [0.03, 0.97]))],
        "chance": N_RELEVANT / case.n_kernels,
    }


def evidence(case: Case) -> dict[str, Any]:
    """CPU seconds of one log evidence of kernel weights, scores integrated out, and its gradient."""
    X, target, bank = data_of(case)
    bank.fit(X)
    kernels = bank.train_kernels()
    stack = pack(kernels, case.n_kernels) if case.storage == "packed" else compress_each(kernels)
    covariance = Additive(stack, kernel_units(stack), 1.0)
    weights = np.full(stack.n_kernels, stack.n_kernels**-0.5)
    start = time.process_time()
    found = laplace_evidence(
        Probit(), np.where(target > 0.0, 1.0, -1.0), covariance.matrix(weights), np.empty(0)
    )
    covariance.pull(weights, found.by_covariance())
    return {**case._asdict(), "seconds": time.process_time() - start}


def mode(case: Case) -> dict[str, Any]:
    """CPU seconds to the mode of the weights of 403 kernels, scores integrated out, with the curvature there."""
    X, y = load("wdbc")
    X, _, y, _ = split(X, y, case.n_samples, seed=0)
    kernels = paper_kernels().fit_transform(StandardScaler().fit_transform(X))
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(kernels, -1, 0)))
    covariance = Additive(stack, kernel_units(stack), 3.0)
    labels = np.where(y > 0, 1.0, -1.0)
    model = Hypermodel(covariance, Probit(), labels[None], HalfT(4.0, 2.0), LogNormal(), ep_evidence)
    start = time.process_time()
    found = find_mode(model)
    seconds = time.process_time() - start
    return {**case._asdict(), "seconds": seconds, "n_evaluations": found.n_evaluations}


def agreement(case: Case) -> dict[str, Any]:
    """Bound and shares of the updates here, beside those with P x P matrices on kernels that are dense."""
    X, target, bank = data_of(case)
    labels = (target > 0.0).astype(int)
    full = bank.fit_transform(X)
    model = BEMKLClassifier(bank, storage=storage_of(case), intermediate_scale=1.0, margin=0.0)
    own = model._checked()
    stack, y = model._prepare(X, labels, own)
    (problem,) = model._task(stack, model._gram(stack), y, own).problems
    dense = DenseStack(np.ascontiguousarray(np.moveaxis(full, -1, 0)))
    shares, bounds = [], []
    for algorithm, own in ((bemkl, dense), (many_kernels, stack)):
        one = problem._replace(stack=own, gram=own.gram())
        start = algorithm.init(one, np.full(case.n_samples, 0.8))
        found = maximize_elbo(algorithm, one, start, LoopOptions(max_iter=3000, tol=1e-11))
        bounds.append(float(found.elbo_history[-1]))
        dual, readout = found.state.dual.mean, found.state.readout.mean
        shares.append(share_draws(own, dual[None], readout[None, 1:])[0])
    change = float(np.abs(shares[1] - shares[0]).max())
    return {
        **case._asdict(),
        "share_change": change,
        "bound_change": bounds[1] - bounds[0],
        "bound": bounds[0],
    }


def rows_of(fast: bool) -> list[tuple[str, Any, Case]]:
    """Every row: its name, the function that measures it, and the case."""
    n_samples, few = (40, 120) if fast else (500, 500)
    sizes = (120, 240) if fast else (1500, 4000, 10_000)
    small = (240,) if fast else (1000, 3000, 10_000)
    most = sizes[-1]
    fits = [Case("linear", n_kernels, n_samples) for n_kernels in sizes]
    fits += [
        Case(CENTERED, most, n_samples),
        Case("Gaussian", most, n_samples, "rank 10" if fast else "rank 64"),
        Case("Gaussian", most, n_samples, "packed"),
    ]
    compared = [
        Case("linear", few, n_samples),
        fits[-2]._replace(n_kernels=few),
        fits[-1]._replace(n_kernels=few),
    ]
    marginals = [Case(kernel, P, n_samples) for kernel in ("linear", CENTERED, "Gaussian") for P in small]
    marginals += [Case(kernel, P, n_samples, "labels") for kernel in ("linear", CENTERED) for P in small]
    evidences = [Case("linear", sizes[1], n_samples, storage) for storage in ("compressed", "packed")]
    wdbc = Case("wdbc", 403, 60 if fast else 398)
    every: list[tuple[str, Any, Case]] = [("marginal", marginal, case) for case in reversed(marginals)]
    every += [("fit", fit, case) for case in reversed(fits)]
    every += [("agreement", agreement, case) for case in compared]
    every += [("evidence", evidence, case) for case in evidences]
    return [*every, ("mode", mode, wdbc), ("machine", machine, wdbc)]


def machine(case: Case) -> dict[str, Any]:
    """What the machine can do."""
    return {**case._asdict(), **measure()._asdict()}


def kept(fast: bool, part: str | None, report: bool) -> list[dict[str, Any]]:
    """Rows that were kept before, and those that are measured now: all that are missing, or some of them."""
    path = RESULTS / "many_kernels_cells.jsonl"
    every = rows_of(fast)
    if fast:
        return [{"row": name, **function(case)} for name, function, case in every if name != "machine"]
    found = {(row["row"], Case(*(row[field] for field in Case._fields))): row for row in read(path)}
    missing = [unit for unit in every if (unit[0], unit[2]) not in found and not report]
    if part is not None:
        position, n_parts = (int(number) for number in part.split("/"))
        missing = missing[position - 1 :: n_parts]
    for name, function, case in missing:
        about = f"{os.cpu_count()} cores, NumPy {np.__version__}"
        row = found[name, case] = {"row": name, "computer": about, **alone(function, case)}
        append(path, row)
    return [found[name, case] for name, _, case in every if (name, case) in found]


def fit_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of all fits of BEMKL."""
    lines = [
        [
            Case(*(row[field] for field in Case._fields)).name,
            row["n_kernels"],
            f"{row['loading']:.0f}",
            row["n_updates"],
            f"{row['updates'] / row['n_updates']:.2f}",
            f"{row['loading'] + row['updates'] + row['reading']:.0f}",
            "–" if row["peak"] is None else f"{row['peak'] / GB:.1f}",
        ]
        for row in rows
    ]
    return markdown_table(["kernels", "P", "kernels, s", "updates", "s each", "fit, s", "memory, GB"], lines)


def marginal_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of all fits with scores integrated out."""
    lines = [
        [
            Case(*(row[field] for field in Case._fields)).name,
            row["n_kernels"],
            f"{row['fit']:.0f}",
            f"{row['predict']:.0f}",
            "–" if row["peak"] is None else f"{row['peak'] / GB:.1f}",
            row["n_evaluations"],
            f"{row['pareto_k']:.2f}",
            f"{row['ess']:.0f}",
            "{:.2%} [{:.2%}, {:.2%}]".format(*row["relevant"]),
            f"{row['chance']:.2%}",
            row.get("computer", "this one"),
        ]
        for row in rows
    ]
    headers = [
        "kernels",
        "P",
        "fit, s",
        "100 rows, s",
        "memory, GB",
        "evidences",
        "k-hat",
        "ESS",
        "share of five",
        "by chance",
        "computer",
    ]
    return markdown_table(headers, lines)


def exponent_of(rows: list[dict[str, Any]], seconds: list[float]) -> float:
    """Slope of log seconds on log P."""
    return float(np.polyfit(np.log([row["n_kernels"] for row in rows]), np.log(seconds), 1)[0])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--part", metavar="K/N", help="measure some of the missing rows alone")
    options.add_argument(
        "--report", action="store_true", help="measure nothing: report the rows that there are"
    )
    options = options.parse_args()
    every = kept(options.fast, options.part, options.report)
    if options.part is not None:
        return
    of = {name: [row for row in every if row["row"] == name] for name in {row["row"] for row in every}}
    fits, marginals = of["fit"][::-1], of["marginal"][::-1]
    own = (
        Machine(*(of["machine"][0][field] for field in Machine._fields))
        if "machine" in of
        else measure(options.fast)
    )
    print(own.report() + "\n")
    claims = []
    linear = [row for row in fits if row["kernel"] == "linear"]
    each = exponent_of(linear, [row["updates"] / row["n_updates"] for row in linear])
    claims.append(claim("exponent in P of an update, N = 500", ASKED_EXPONENT, each))
    for row in fits:
        about = f"{row['n_kernels']} {row['kernel']} kernels" + (
            "" if row["storage"] == "auto" else f", {row['storage']}"
        )
        seconds = row["loading"] + row["updates"] + row["reading"]
        if row["n_kernels"] == linear[-1]["n_kernels"]:
            claims.append(claim(f"minutes of a fit of {about}, one thread", ASKED_MINUTES, seconds / 60))
            if row["peak"] is not None:
                claims.append(claim(f"memory of {about}", ASKED_GB, row["peak"] / GB, " GB"))
    asked = {"linear": ASKED_LINEAR, "Gaussian": ASKED_GAUSSIAN}
    for row in of["agreement"]:
        about = f"500 {row['kernel']} kernels" + ("" if row["storage"] == "auto" else f", {row['storage']}")
        claims.append(
            claim(
                f"change of shares beside dense kernels, {about}", asked[row["kernel"]], row["share_change"]
            )
        )
    for kind in dict.fromkeys((row["kernel"], row["storage"]) for row in marginals):
        rows = [row for row in marginals if (row["kernel"], row["storage"]) == kind]
        about = f"marginal inference of {rows[-1]['n_kernels']} {rows[-1]['kernel']} kernels"
        if kind[1] == "labels":
            about += ", labels"
        claims.append(claim(f"minutes of {about}, one thread", ASKED_MINUTES, rows[-1]["fit"] / 60))
        if rows[-1]["peak"] is not None:
            claims.append(claim(f"memory of {about}", ASKED_GB, rows[-1]["peak"] / GB, " GB"))
        if len(rows) > 1:
            exponent = exponent_of(rows, [row["fit"] for row in rows])
            claims.append(claim(f"exponent in P of {about}", ASKED_EXPONENT, exponent))
    claims.append(
        claim("seconds to the mode of 403 weights, 398 samples of wdbc", ASKED_MODE, of["mode"][0]["seconds"])
    )
    text = (
        "BEMKL for two classes, 500 samples, kernels on 10 to 200 of 3000 features; CPU seconds of one thread.\n\n"
        f"{fit_table(fits)}\n\n"
        "Against P x P matrices and dense kernels, 500 of them: "
        + "; ".join(
            f"{Case(*(row[field] for field in Case._fields)).name}: shares {row['share_change']:.1e}"
            + ("" if row["storage"].startswith("rank") else f", bound {row['bound_change']:+.1e} nats")
            for row in of["agreement"]
        )
        + ". One log evidence of additive Gaussian processes (Laplace) and its gradient by all weights of "
        + f"{of['evidence'][0]['n_kernels']} linear kernels: "
        + ", ".join(f"{row['seconds']:.1f} s {row['storage']}" for row in of["evidence"])
        + ".\n\nMarginal inference of the same kernels, by one triangle of each, or of centered linear ones by the "
        f"features that they share (`GPMKLRegressor`; labels: `GPMKLClassifier`), {N_DRAWS} draws of shares; the "
        "last columns are the posterior share of the five "
        "kernels that made the target, its 94 % interval, what five have by chance, and where it was measured.\n\n"
        f"{marginal_table(marginals)}"
    )
    numbers = {
        "machine": own._asdict(),
        "fits": fits,
        "marginal": marginals,
        "evidence": of["evidence"],
        "mode": of["mode"][0],
        "agreement": of["agreement"],
        "claims": claims,
    }
    finish(options, "many_kernels", text, numbers)


if __name__ == "__main__":
    main()
