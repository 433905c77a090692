"""What additive Gaussian processes answer: which views matter, how surely, whether any does, and what to predict.

* README's example (wdbc, 398 x 6), four seeds: test log loss, k-hat, and how far seeds are apart in the means and the
  ends of the 94 % intervals of shares, also in units of the printed Monte Carlo errors. Seconds of one fit are those
  of the fastest seed, in a warm process with one thread.
* Views of signal and noise: N = 200, four views of five standard normal features, README's two kernels on each;
  labels of a logistic model of three features of the first view (coefficients 2, -2 and 1.5), or of nothing. Shares
  of views by GPMKL and by BEMKL, how often the interval of a noise view begins below .03, and the verdict of
  `relevance`.
* Outcomes of every kind, by the default inference and by NUTS with every function value explicit; see
  `_outcome_chains.py`. `results/outcome_chains.jsonl` keeps the rows, and a run continues where it ends.
* Verdicts of `relevance` on the same data of BEMKL; of ten data sets on each view too.

    python benchmarks/gaussian_processes.py --section processes  4 seeds and 40 data sets, 25 minutes on one core
    python benchmarks/gaussian_processes.py --section example    the 4 seeds alone, beside the results that are kept
    python benchmarks/gaussian_processes.py --section bemkl      40 data sets, 15 minutes
    python benchmarks/gaussian_processes.py --section outcomes   9 outcomes, 20 minutes on one core
    python benchmarks/gaussian_processes.py --fast               1 seed and 1 data set of each kind, fewer samples
"""

from __future__ import annotations

import json
import time
from itertools import combinations
from typing import Any

import numpy as np
from _cells import append, read
from _machine import measure
from _outcome_chains import NAMES, compare
from _posteriors import LEVEL, quietly
from _report import RESULTS, claim, finish, markdown_table, parser
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import BEMKLClassifier, GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import kernel_table, relevance, view_table

KERNELS = (Gaussian(width=1), Gaussian(width=4))
FEW = Marginal(n_points=100, n_draws=200)
VIEWS = {f"view {v}": list(range(5 * v, 5 * v + 5)) for v in range(4)}
SIGNAL, NOISE = "view 0", ["view 1", "view 2", "view 3"]
ALL = ("all", SIGNAL, *NOISE)
VERDICTS = ("signal", "needed")
KEPT = RESULTS / "gaussian_processes.json"
SHARES = ["share", "share_lower", "share_upper"]
OUTCOMES = RESULTS / "outcome_chains.jsonl"
CHAINS = (3, 400, 600)  # how many, steps of warm-up and draws of each
BY_VIEW = 10  # data sets that are fitted without each view too


def example(n_seeds: int, n_train: int, inference: str | Marginal) -> dict[str, Any]:
    """README's example with several seeds."""
    X, y = load_wdbc(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    groups = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
    bank = KernelBank(list(KERNELS), views=groups)
    answers, errors, seconds, losses, tails = [], [], [], [], []
    for seed in range(n_seeds):
        model = make_pipeline(StandardScaler(), GPMKLClassifier(bank, inference=inference, random_state=seed))
        start = time.perf_counter()
        model.fit(X_train[:n_train], y_train[:n_train])
        seconds.append(time.perf_counter() - start)
        found = model[-1]
        table = kernel_table(model, LEVEL).set_index("kernel").loc[list(found.kernel_names_)]
        answers.append(table[SHARES].to_numpy().T)
        errors.append(table[[f"{name}_mcse" for name in SHARES]].to_numpy().T)
        losses.append(log_loss(y_test, model.predict_proba(X_test)))
        tails.append(found.pareto_k_)
    apart = np.ptp(answers, axis=0)
    pairs = list(combinations(range(n_seeds), 2))
    in_errors = [(np.abs(answers[i] - answers[j]) / np.hypot(errors[i], errors[j])).max() for i, j in pairs]
    return {
        "seconds": min(seconds),
        "log_loss": max(losses),
        "pareto_k": max(tails),
        "means_apart": float(apart[0].max()),
        "ends_apart": float(apart[1:].max()),
        "errors_apart": float(max(in_errors, default=0.0)),
        "shares": np.mean(answers, axis=0).tolist(),
        "kernels": list(found.kernel_names_),
    }


def labeled(i: int, n_samples: int, has_signal: bool) -> tuple[np.ndarray, np.ndarray]:
    """One data set of four views."""
    rng = np.random.default_rng(i)
    X = rng.normal(size=(n_samples, 20))
    score = X[:, :3] @ [2.0, -2.0, 1.5] if has_signal else np.zeros(n_samples)
    return X, rng.random(n_samples) < 1.0 / (1.0 + np.exp(-score))


def answer(i: int, n_samples: int, has_signal: bool, inference: str | Marginal) -> dict[str, Any]:
    """Fit both models to one data set."""
    X, y = labeled(i, n_samples, has_signal)
    bank = KernelBank(list(KERNELS), views=VIEWS)
    model = GPMKLClassifier(bank, inference=inference).fit(X, y)
    row: dict[str, Any] = {"signal": has_signal, "verdict": relevance(model, by="all")["verdict"][0]}
    for name, fitted in (
        ("GPMKL", model),
        ("BEMKL", BEMKLClassifier(bank, margin=1.0, intermediate_scale=1.0).fit(X, y)),
    ):
        table = view_table(fitted, LEVEL, random_state=0).set_index("view")
        row[name] = {
            "share": float(table["share"][SIGNAL]),
            "lower": table["share_lower"][NOISE].tolist(),
            "widths": (table["share_upper"] - table["share_lower"]).tolist(),
        }
    return row


def summarize(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """One row per model and kind of labels."""
    body = []
    for has_signal in (True, False):
        found = [row for row in rows if row["signal"] == has_signal]
        for name in ("GPMKL", "BEMKL"):
            lower = np.concatenate([row[name]["lower"] for row in found])
            verdict = np.mean([row["verdict"] == "signal" for row in found])
            body.append([
                f"{name}, {'a logistic model of view 0' if has_signal else 'labels of nothing'}",
                f"{np.mean([row[name]['share'] for row in found]):.2f}",
                f"{100 * np.mean(lower < 0.03):.0f} %",
                f"{np.median([row[name]['widths'] for row in found]):.2f}",
                f"{100 * verdict:.0f} %" if name == "GPMKL" else "",
            ])  # fmt: skip
    return body


def verdicts(i: int, n_samples: int, has_signal: bool) -> dict[str, Any]:
    """Fit BEMKL to one data set, and ask of it as a whole and, of the first few, of each view."""
    X, y = labeled(i, n_samples, has_signal)
    start = time.process_time()
    model = BEMKLClassifier(KernelBank(list(KERNELS), views=VIEWS)).fit(X, y)
    fitted = time.process_time()
    found = relevance(model, by="view" if i < BY_VIEW else "all").set_index("without")
    return {
        "signal": has_signal,
        "verdict": found["verdict"].to_dict(),
        "elpd_diff": found["elpd_diff"].to_dict(),
        "se": found["se"].to_dict(),
        "log_evidence_diff": found.filter(regex="log_evidence_diff|elbo_diff").iloc[:, 0].to_dict(),
        "seconds": [fitted - start, time.process_time() - fitted],
    }


def bemkl(options: Any) -> None:
    """Count the verdicts on BEMKL."""
    n_sets, n_samples = (1, 20) if options.fast else (40, 200)
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1), quietly():
        for i in range(n_sets):
            for has_signal in (True, False):
                rows.append(verdicts(i, n_samples, has_signal))
    body: list[str] = []
    percent = {}
    for has_signal in (True, False):
        found = [row for row in rows if row["signal"] == has_signal]
        said = {
            view: np.mean([row["verdict"][view] in VERDICTS for row in found if view in row["verdict"]])
            for view in ALL
        }
        seconds = np.median([row["seconds"] for row in found[BY_VIEW:] or found], axis=0)
        diff = np.array([row["elpd_diff"]["all"] for row in found])
        percent[has_signal] = 100.0 * said["all"]
        body.append(
            f"{'a logistic model of view 0' if has_signal else 'labels of nothing'} | "
            f"{percent[has_signal]:.0f} % | {diff.mean():.1f} ({diff.min():.1f} to {diff.max():.1f}) | "
            f"{100 * said[SIGNAL]:.0f} % | {100 * np.mean([said[view] for view in NOISE]):.0f} % | "
            f"{np.median([row['log_evidence_diff']['all'] for row in found]):.0f} | "
            f"{' + '.join(f'{value:.1f}' for value in seconds)}"
        )
    claims = [
        claim("labels of nothing by BEMKL: no signal", 90.0, 100.0 - percent[False], " %", at_least=True),
        claim("one view of four matters, by BEMKL: signal", 95.0, percent[True], " %", at_least=True),
    ]
    headers = (
        "labels | verdict: signal | difference, nats (range) | view 0 needed | noise view needed | "
        'difference of evidences or bounds, median | seconds of fit and `relevance(by="all")`'
    )
    numbers = {"rows": rows, "claims": claims}
    finish(options, "gaussian_processes_bemkl", markdown_table(headers, body), numbers)


def outcomes(options: Any) -> None:
    """Compare the default inference with chains over all function values, of every kind of outcome."""
    rows = []
    if options.fast:
        with threadpool_limits(1):
            rows.append(compare("poisson", 15, 1, 5, 10))
    else:
        known = {row["likelihood"]: row for row in read(OUTCOMES)}
        for name in NAMES:
            if name not in known:
                with threadpool_limits(1):
                    known[name] = compare(name, 60, *CHAINS)
                append(OUTCOMES, known[name])
            rows.append(known[name])
    body = [
        (
            f"`{row['likelihood']}` | {row['shares'][0]:.3f}, {row['shares_of_chains'][0]:.3f} | "
            f"{row['share_off']:.4f} ({row['share_error']:.4f}) | "
            f"{100 * row['probability_off_mean']:.2f} % | "
            f"{100 * row['probability_off']:.1f} % ({100 * row['probability_error']:.1f} %) | "
            f"{row['pareto_k']:.2f} | {row['rhat']:.3f} | {row['divergences']} | "
            f"{row['seconds'][0]:.1f}, {row['seconds'][1]:.0f}"
        )
        for row in rows
    ]
    headers = (
        "likelihood | share of the first view: default, NUTS | apart (error of NUTS) | "
        "probabilities apart, mean | most (error of NUTS) | k-hat | R-hat of NUTS | its divergences | "
        "seconds: default, NUTS"
    )
    claims = []
    for name, key, unit, asked, factor in (
        ("shares", "share_off", "", 0.03, 1.0),
        ("predicted probabilities", "probability_off", " %", 2.0, 100.0),
    ):
        worst = max(rows, key=lambda row, key=key: row[key])
        what = f"{len(rows)} outcomes, default against NUTS with explicit functions: {name} apart"
        claims.append(claim(f"{what} ({worst['likelihood']})", asked, factor * worst[key], unit))
    table = markdown_table(headers, body)
    finish(options, "gaussian_processes_outcomes", table, {"rows": rows, "claims": claims})


def processes(options: Any) -> None:
    """Measure GPMKL on the example and on all data sets, with the shares of BEMKL beside it."""
    n_seeds, n_sets, n_samples = (1, 1, 60) if options.fast else (4, 40, 200)
    inference: Any = FEW if options.fast else "marginal"
    with threadpool_limits(1), quietly():
        rows = []
        if options.section == "example":
            rows = json.loads(KEPT.read_text(encoding="utf-8"))["rows"]
        else:
            for i in range(n_sets):
                rows += [answer(i, n_samples, has_signal, inference) for has_signal in (True, False)]
        one = example(n_seeds, 80 if options.fast else 398, inference)
    shares = [
        [name, *(f"{value:.2f}" for value in values)]
        for name, values in zip(one["kernels"], np.transpose(one["shares"]), strict=True)
    ]
    headers = "labels | share of view 0 | noise intervals from below .03 | median width | verdict: signal"
    text = (
        f"README's example, mean of {n_seeds} seeds:\n\n"
        f"{markdown_table(['kernel', 'share', 'lower', 'upper'], shares)}\n\n"
        f"Four views, {n_sets} data sets:\n\n{markdown_table(headers, summarize(rows))}"
    )
    signal, nothing = ([row for row in rows if row["signal"] == kind] for kind in (True, False))
    lower = np.concatenate([row["GPMKL"]["lower"] for row in signal])
    wrong = np.mean([row["verdict"] == "signal" for row in nothing])
    right = np.mean([row["verdict"] == "signal" for row in signal])
    share = np.mean([row["GPMKL"]["share"] for row in signal])
    percent = [round(100.0 * float(value), 1) for value in (np.mean(lower < 0.03), 1.0 - wrong, right)]
    claims = [
        claim("README's example by GPMKL: test log loss", 0.07, round(one["log_loss"], 4)),
        claim("README's example by GPMKL: k-hat", 0.5, round(one["pareto_k"], 2)),
        claim("README's example by GPMKL: seeds apart, means of shares", 0.03, round(one["means_apart"], 3)),
        claim("README's example by GPMKL: seeds apart, ends of intervals", 0.03, round(one["ends_apart"], 3)),
        claim(
            "README's example by GPMKL: two seeds apart, in Monte Carlo errors of their difference",
            3.0,
            round(one["errors_apart"], 1),
        ),
        claim("README's example by GPMKL: a fit, warm", 10.0, round(one["seconds"], 1), " s"),
        claim("one view of four matters: its share by GPMKL", 0.8, round(float(share), 2), at_least=True),
        claim("noise views by GPMKL: intervals from below .03", 94.0, percent[0], " %", at_least=True),
        claim("labels of nothing by GPMKL: no signal", 90.0, percent[1], " %", at_least=True),
        claim("one view of four matters, by GPMKL: signal", 95.0, percent[2], " %", at_least=True),
    ]
    finish(options, "gaussian_processes", text, {"example": one, "rows": rows, "claims": claims})


def main() -> None:
    given = parser(__doc__)
    sections = ("processes", "example", "bemkl", "outcomes", "all")
    given.add_argument("--section", choices=sections, default="all", help="which study")
    options = given.parse_args()
    print(measure(options.fast).report() + "\n")
    if options.section in ("processes", "example", "all"):
        processes(options)
    if options.section in ("bemkl", "all"):
        bemkl(options)
    if options.section in ("outcomes", "all"):
        outcomes(options)


if __name__ == "__main__":
    main()
