"""BEMKL of up to 10 000 pathway kernels on 500 samples: time, memory and exponent in P, and what it costs the bound.

A pathway is a kernel on 10 to 200 of 3000 features (their logarithm uniform), five of which make the labels. Linear
kernels are held in factors, Gaussian ones in factors of a given rank. Times are CPU seconds of one thread, which
do not depend on what else the computer does; every row is a process of its own, and is kept as it comes, in
benchmarks/results/many_kernels_cells.jsonl.

    python benchmarks/many_kernels.py          500 samples, up to 10 000 kernels: ten minutes of CPU, 6 GB
    python benchmarks/many_kernels.py --fast   40 samples, up to 240 kernels
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy

import time
from typing import Any, NamedTuple

import numpy as np
from _cells import append, read
from _machine import measure
from _memory import alone, peak_of
from _protocol import load, paper_kernels, split
from _report import RESULTS, claim, finish, markdown_table, parser
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import Storage
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.bemkl.models.many_kernels import many_kernels
from bayesmkl.bemkl.reading.shares import share_draws
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal.covariances import Additive, kernel_units
from bayesmkl.marginal.evidence import ep_evidence, laplace_evidence
from bayesmkl.marginal.hyperposterior import Hypermodel
from bayesmkl.marginal.hyperpriors import HalfT, LogNormal
from bayesmkl.marginal.likelihoods import Probit
from bayesmkl.marginal.modes import find_mode

N_FEATURES, N_RELEVANT = 3000, 5
SMALLEST, LARGEST = 10, 200  # features of a pathway
ASKED_MINUTES, ASKED_GB, ASKED_EXPONENT = 5.0, 6.0, 1.1
ASKED_MODE = 10.0  # seconds
ASKED_LINEAR, ASKED_GAUSSIAN = 1e-6, 0.005  # changes of shares
MOST_OF_EVIDENCE = 4000  # kernels
GB = 1e9


class Case(NamedTuple):
    """A fit."""

    kernel: str
    n_kernels: int
    n_samples: int
    rank: int | None = None


def data_of(case: Case) -> tuple[np.ndarray, np.ndarray, KernelBank]:
    """Samples, labels and kernels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((case.n_samples, N_FEATURES))
    sizes = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), case.n_kernels)).round().astype(int)
    views = {f"p{m}": rng.choice(N_FEATURES, size, replace=False).tolist() for m, size in enumerate(sizes)}
    relevant = [X[:, own] for own in list(views.values())[:N_RELEVANT]]
    score = sum(own @ rng.standard_normal(own.shape[1]) / own.shape[1] ** 0.5 for own in relevant)
    labels = (score + 0.3 * rng.standard_normal(case.n_samples) > 0.0).astype(int)
    kernel = Linear() if case.kernel == "linear" else Gaussian(relative_width=1.0)
    return X, labels, KernelBank(kernel, views=views, random_state=0)


def storage_of(case: Case) -> str | Storage:
    """How its kernels are held."""
    return "auto" if case.rank is None else Storage("compressed", rank=case.rank)


def fit(case: Case, tol: float = 1e-6) -> dict[str, Any]:
    """CPU seconds of the parts of one fit, its memory, and of linear kernels one evidence with its gradient."""
    X, labels, bank = data_of(case)
    settings = {"intermediate_scale": 1.0, "margin": 0.0, "tol": tol, "random_state": 0}
    model = BEMKLClassifier(bank, storage=storage_of(case), **settings)
    marks = [time.process_time()]

    def run() -> Any:
        stack, y = model._prepare(X, labels)  # what `fit` does, in its parts
        task = model._task(stack, model._gram(stack), y)
        marks.append(time.process_time())
        found = model._infer(task)
        marks.append(time.process_time())
        model._conclude(task, found)
        marks.append(time.process_time())
        return stack

    stack, peak = peak_of(run)
    loading, updates, reading = np.diff(marks)
    row = {
        **case._asdict(),
        "loading": loading,
        "updates": updates,
        "reading": reading,
        "n_updates": int(model.n_iter_),
        "peak": peak.process,
        "kernel_bytes": model.kernel_bytes_,
        "share_of_relevant": float(model.kernel_shares_[:N_RELEVANT].sum()),
    }
    if case.kernel == "linear" and case.n_kernels <= MOST_OF_EVIDENCE:
        row["evidence"] = evidence_seconds(stack, np.where(labels, 1.0, -1.0))
    return row


def evidence_seconds(stack: Any, y: np.ndarray) -> float:
    """CPU seconds of the log evidence of kernel weights, scores integrated out, and its gradient, on factors."""
    covariance = Additive(stack, kernel_units(stack), 1.0)
    weights = np.full(stack.n_kernels, stack.n_kernels**-0.5)
    start = time.process_time()
    found = laplace_evidence(Probit(), y, covariance.matrix(weights), np.empty(0))
    covariance.pull(weights, found.by_covariance())
    return time.process_time() - start


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
    X, labels, bank = data_of(case)
    full = bank.fit_transform(X)
    model = BEMKLClassifier(bank, storage=storage_of(case), intermediate_scale=1.0, margin=0.0)
    stack, y = model._prepare(X, labels)
    (problem,) = model._task(stack, model._gram(stack), y).problems
    dense = DenseStack(np.ascontiguousarray(np.moveaxis(full, -1, 0)))
    shares, bounds = [], []
    for algorithm, own in ((binary, dense), (many_kernels(binary), stack)):
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


def cases(fast: bool) -> tuple[list[Case], list[Case]]:
    """Fits, and comparisons with dense updates."""
    if fast:
        fits = [Case("linear", n_kernels, 40) for n_kernels in (120, 240)]
        return [Case("Gaussian", 240, 40, 10), *fits], [
            Case("linear", 120, 40),
            Case("Gaussian", 120, 40, 10),
        ]
    fits = [Case("linear", n_kernels, 500) for n_kernels in (1500, 4000, 10_000)]
    compared = [Case("linear", 500, 500), Case("Gaussian", 500, 500, 64)]
    return [Case("Gaussian", 10_000, 500, 64), *fits], compared


def kept(name: str, function: Any, case: Case, fast: bool) -> dict[str, Any]:
    """A row that was kept before, or that is measured now."""
    path = RESULTS / "many_kernels_cells.jsonl"
    if fast:
        return function(case)
    for row in read(path):
        if row["row"] == name and Case(*(row.get(field) for field in Case._fields)) == case:
            return row
    row = {"row": name, **alone(function, case)}
    append(path, row)
    return row


def fit_table(rows: list[dict[str, Any]]) -> str:
    """Markdown table of all fits."""
    lines = [
        [
            row["kernel"] + ("" if row["rank"] is None else f", rank {row['rank']}"),
            row["n_kernels"],
            f"{row['loading']:.0f}",
            row["n_updates"],
            f"{row['updates'] / row['n_updates']:.2f}",
            f"{row['loading'] + row['updates'] + row['reading']:.0f}",
            "–" if row["peak"] is None else f"{row['peak'] / GB:.1f}",
            f"{row['evidence']:.1f}" if "evidence" in row else "–",
        ]
        for row in rows
    ]
    headers = ["kernels", "P", "kernels, s", "updates", "s each", "fit, s", "memory, GB", "evidence, s"]
    return markdown_table(headers, lines)


def main() -> None:
    options = parser(__doc__).parse_args()
    to_fit, to_compare = cases(options.fast)
    fits = [kept("fit", fit, case, options.fast) for case in reversed(to_fit)][::-1]
    compared = [kept("agreement", agreement, case, options.fast) for case in to_compare]
    of_wdbc = kept("mode", mode, Case("wdbc", 403, 60 if options.fast else 398), options.fast)
    machine = measure(options.fast)
    print(machine.report() + "\n")
    linear = [row for row in fits if row["kernel"] == "linear"]
    largest = linear[-1]
    seconds = [row["loading"] + row["updates"] + row["reading"] for row in fits]
    each = [row["updates"] / row["n_updates"] for row in linear]
    exponent = float(np.polyfit(np.log([row["n_kernels"] for row in linear]), np.log(each), 1)[0])
    claims = [
        claim("minutes of a fit of 10 000 linear kernels, one thread", ASKED_MINUTES, seconds[-1] / 60),
        claim("exponent in P of an update, N = 500", ASKED_EXPONENT, exponent),
        claim("seconds to the mode of 403 weights, 398 samples of wdbc", ASKED_MODE, of_wdbc["seconds"]),
    ]
    if largest["peak"] is not None:
        claims.append(claim("memory of 10 000 linear kernels", ASKED_GB, largest["peak"] / GB, " GB"))
    for row, own in zip(fits, seconds, strict=True):
        if row["kernel"] == "Gaussian":
            about = f"{row['n_kernels']} Gaussian kernels of rank {row['rank']}"
            claims.append(claim(f"minutes of a fit of {about}, one thread", ASKED_MINUTES, own / 60))
            if row["peak"] is not None:
                claims.append(claim(f"memory of {about}", ASKED_GB, row["peak"] / GB, " GB"))
    asked = {"linear": ASKED_LINEAR, "Gaussian": ASKED_GAUSSIAN}
    claims += [
        claim(
            f"change of shares by factors and short updates, 500 {row['kernel']} kernels",
            asked[row["kernel"]],
            row["share_change"],
        )
        for row in compared
    ]
    text = (
        "BEMKL for two classes, 500 samples, kernels on 10 to 200 of 3000 features; CPU seconds of one thread.\n\n"
        f"{fit_table(fits)}\n\n"
        "The last column is one log evidence of additive Gaussian processes (Laplace) and its gradient by all kernel "
        "weights, on the factors of linear kernels. Against P x P matrices and dense kernels, 500 of them: "
        + "; ".join(
            f"{row['kernel']}, shares {row['share_change']:.1e}"
            + ("" if row["rank"] else f", bound {row['bound_change']:+.1e} nats")
            for row in compared
        )
        + "."
    )
    numbers = {
        "machine": machine._asdict(),
        "fits": fits,
        "mode": of_wdbc,
        "agreement": compared,
        "claims": claims,
    }
    finish(options, "many_kernels", text, numbers)


if __name__ == "__main__":
    main()
