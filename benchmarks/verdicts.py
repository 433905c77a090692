"""How often verdicts find a view that predicts the outcome, and how often they find one where none does.

* Power: 60 samples, two views of two standard normal features, the first of which adds .8 sin(x) to targets with
  noise of standard deviation 1; seeds 0, 1, ...
* Refits: log Bayes factors of views in the same sets, by `verdicts` and by refits without them, and CPU seconds.
* False alarms: 60 samples and an outcome that has nothing to do with two to eight views of two features (in turn),
  which correlate by 0 or .7 within the set (in turn): numbers, labels (half of each, or 30 % of one), counts, and
  times of which a third is censored; seeds 0, 1, ... A set is an alarm if the line above tables names a view or says
  that views predict the outcome.

* Value of a view: 60 samples with sin(2 x) from one view, .7 x from the other, and noise of standard deviation .4.
  What `value_of_view` promises for 100 new samples is compared with how much the log loss of 1000 falls from
  predictions without the view to those with it; seeds 0, 1, ... "By the model" both are those of the same model,
  which is what is promised. "By a refit" those without the view are those of a model that was fitted without it,
  which knows less of the other view's function.

Models and kernels are the defaults, but for values, whose kernels have given widths. Intervals are exact ones of 95 %
(Clopper and Pearson).

    python benchmarks/verdicts.py                                     20 and 500 data sets: two hours on one core
    python benchmarks/verdicts.py --simulations 100 --family labels   100 null sets of labels
    python benchmarks/verdicts.py --simulations 0 --power 0           values of views alone
    python benchmarks/verdicts.py --fast                              one small set of each kind
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _posteriors import quietly
from _report import finish, markdown_table, parser
from scipy.stats import beta, norm
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, GPMKLRegressor, GPMKLSurvival, KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.posterior import relevance, value_of_view
from bayesmkl.posterior.verdicts import ALL_VIEWS, verdicts

N_SAMPLES, SIZE, N_POWER = 60, 0.8, 20
LEVELS = (0.0, 0.7)  # correlation of features of null sets
FAMILIES = ("numbers", "labels", "counts", "times")


def views_of(n_views: int) -> dict[str, list[int]]:
    """Views of two features each."""
    return {f"view {v}": [2 * v, 2 * v + 1] for v in range(n_views)}


def with_signal(family: str, seed: int, inference: Any) -> tuple[Any, float]:
    """Fit a set whose first view predicts the outcome; return the model and its CPU seconds."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_SAMPLES, 4))
    score = SIZE * np.sin(X[:, 0]) + rng.standard_normal(N_SAMPLES)
    y, kind = (score, GPMKLRegressor) if family == "numbers" else (score > 0.0, GPMKLClassifier)
    return fitted(kind(views=views_of(2), inference=inference, random_state=seed), X, y)


def without_signal(family: str, seed: int, inference: Any) -> tuple[Any, float]:
    """Fit a set without any signal."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    n_views, correlation = 2 + seed % 7, LEVELS[seed // 7 % 2]
    common = rng.standard_normal((N_SAMPLES, 1))
    X = np.sqrt(correlation) * common
    X = X + np.sqrt(1.0 - correlation) * rng.standard_normal((N_SAMPLES, 2 * n_views))
    options: dict[str, Any] = {"views": views_of(n_views), "inference": inference, "random_state": seed}
    if family == "labels":
        y = np.arange(N_SAMPLES) < N_SAMPLES * (0.5 if seed % 2 else 0.3)
        return fitted(GPMKLClassifier(**options), X, rng.permutation(y))
    if family == "counts":
        return fitted(GPMKLRegressor(likelihood="poisson", **options), X, rng.poisson(3.0, N_SAMPLES))
    if family == "times":
        times, ends = rng.exponential(1.0, N_SAMPLES), rng.exponential(2.0, N_SAMPLES)
        y = np.zeros(N_SAMPLES, dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = times <= ends, np.minimum(times, ends)
        return fitted(GPMKLSurvival(**options), X, y)
    return fitted(GPMKLRegressor(**options), X, rng.standard_normal(N_SAMPLES))


def fitted(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    """Fit a model, and measure CPU seconds."""
    start = time.process_time()
    return model.fit(X, y), time.process_time() - start


def found_in(model: Any, of_fit: float) -> dict[str, Any]:
    """Return log Bayes factors and words of a model by view, and CPU seconds."""
    start = time.process_time()
    found = verdicts(model)
    row: dict[str, Any] = {name: round(v.log_bayes_factor, 3) for name, v in found.items()}
    return {
        "log_bayes_factors": row,
        "predicts": [name for name, v in found.items() if v.predicts],
        "seconds": [round(of_fit, 2), round(time.process_time() - start, 2)],
    }


def exact_interval(n_hits: int, n: int) -> str:
    """Return the share of hits in per cent, and its exact interval."""
    low = beta.ppf(0.025, n_hits, n - n_hits + 1) if n_hits else 0.0
    high = beta.ppf(0.975, n_hits + 1, n - n_hits) if n_hits < n else 1.0
    return f"{n_hits} of {n} ({100 * n_hits / n:.1f} %, {100 * low:.1f} to {100 * high:.1f} %)"


def power(family: str, n: int, n_refits: int, inference: Any) -> tuple[str, list[dict[str, Any]]]:
    """Ask how often the signal and its view are found, and compare log Bayes factors with those of refits."""
    rows, differences, seconds = [], [], []
    for seed in range(n):
        model, of_fit = with_signal(family, seed, inference)
        rows.append(found_in(model, of_fit))
        if seed < n_refits:
            start = time.process_time()
            table = relevance(model, verbose=False).set_index("without")
            seconds.append(time.process_time() - start)
            by_refits = table["log_evidence_diff"].rename({"all": ALL_VIEWS})
            rows[-1]["by_refits"] = by_refits.round(3).to_dict()
            own = rows[-1]["log_bayes_factors"]
            differences += [abs(v - by_refits[k]) for k, v in own.items() if np.isfinite(by_refits[k])]
    hits = [sum(name in row["predicts"] for row in rows) for name in (ALL_VIEWS, "view 0", "view 1")]
    of_fits, of_verdicts = np.mean([row["seconds"] for row in rows], axis=0)
    largest = f"{max(differences):.2f} ({np.mean(differences):.2f})" if differences else "not made"
    of_refits = f"{np.mean(seconds):.2f}" if seconds else "not made"
    counts = " | ".join(exact_interval(k, n) for k in hits)
    return f"{family} | {counts} | {largest} | {of_fits:.2f} | {of_verdicts:.2f} | {of_refits}", rows


def false_alarms(family: str, n: int, inference: Any) -> tuple[str, list[dict[str, Any]]]:
    """Ask how often a view is found where none predicts the outcome."""
    rows = []
    for seed in range(n):
        rows.append(found_in(*without_signal(family, seed, inference)))
        if seed % 10 == 9:
            print(f"{family}: {sum(bool(row['predicts']) for row in rows)} of {seed + 1}", flush=True)
    every = sum(ALL_VIEWS in row["predicts"] for row in rows)
    alarms = sum(bool(row["predicts"]) for row in rows)
    clear = sum(max(row["log_bayes_factors"].values()) > 3.0 for row in rows)
    of_fits, of_verdicts = np.sum([row["seconds"] for row in rows], axis=0)
    counts = " | ".join(exact_interval(k, n) for k in (every, alarms, clear))
    return f"{family} | {counts} | {of_fits / n:.2f} | {of_verdicts / n:.2f}", rows


def values(n: int, inference: Any) -> tuple[str, list[dict[str, Any]]]:
    """Compare what `value_of_view` promises with what comes about, in nats per new sample."""
    rows = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(N_SAMPLES, 4)), rng.normal(size=(1000, 4))
        y, truth = (np.sin(2.0 * Z[:, 0]) + 0.7 * Z[:, 2] + 0.4 * rng.normal(size=len(Z)) for Z in (X, new))
        options: dict[str, Any] = {"inference": inference, "random_state": 0}
        model = GPMKLRegressor(KernelBank(views=views_of(2)), missing_views="integrate", **options).fit(X, y)
        row = {}
        for v in range(2):
            hidden, columns = new.copy(), [2 * v, 2 * v + 1]
            hidden[:, columns] = np.nan
            rest = np.delete(np.arange(4), columns).tolist()
            other = GPMKLRegressor(KernelBank(views={"rest": rest}), **options).fit(X, y)
            known, without, of_refit = (
                -norm.logpdf(truth, *one.predict(Z, return_std=True)).mean()
                for one, Z in ((model, new), (model, hidden), (other, new))
            )
            promised = value_of_view(model, hidden[:100])["log_loss_change"].mean()
            row[f"view {v}"] = [promised, known - without, known - of_refit]
        rows.append(row)
    lines = []
    for v in range(2):
        promised, *found = np.array([row[f"view {v}"] for row in rows]).T
        lines.append(f"view {v}: promised {promised.mean():.3f}")
        for by, own in zip(("the model", "a refit"), found, strict=True):
            error = (promised - own).std() / np.sqrt(n)
            lines[-1] += (
                f"; by {by} {own.mean():.3f} (difference {(promised - own).mean():.3f} ± {error:.3f})"
            )
    return "\n".join(lines), rows


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--simulations", type=int, default=500, help="null sets of every family")
    options_parser.add_argument("--power", type=int, default=N_POWER, help="sets with a signal; 0: none")
    options_parser.add_argument("--family", choices=(*FAMILIES, "all"), default="all", help="of outcomes")
    options_parser.add_argument("--refits", type=int, default=N_POWER, help="of these with refits")
    options_parser.add_argument(
        "--values", type=int, default=24, help="sets for the value of a view; 0: none"
    )
    options = options_parser.parse_args()
    n_null, n_power, n_refits, n_values = (
        (1, 1, 1, 1) if options.fast else (options.simulations, options.power, options.refits, options.values)
    )
    inference: Any = Marginal(n_points=100, n_draws=100) if options.fast else "marginal"
    chosen = FAMILIES if options.family == "all" else (options.family,)
    found: dict[str, list[str]] = {"power": [], "null": []}
    numbers: dict[str, Any] = {}
    text = ""
    with threadpool_limits(1), quietly():
        for family in chosen:
            if n_power and family in FAMILIES[:2]:
                line, numbers[f"{family} with signal"] = power(family, n_power, n_refits, inference)
                print(line, flush=True)
                found["power"].append(line)
            if n_null:
                line, numbers[family] = false_alarms(family, n_null, inference)
                print(line, flush=True)
                found["null"].append(line)
        if n_values:
            text, numbers["values"] = values(n_values, inference)
            print(text, flush=True)
    of_power = [
        "outcome",
        "any signal",
        "its view",
        "the other view",
        "largest (mean) difference from refits",
    ]
    of_power += ["fit, CPU s", "verdicts, CPU s", "refits, CPU s"]
    of_null = ["null sets of", "all views", "all or any view", "clear", "fit, CPU s", "verdicts, CPU s"]
    text += f"\n\n{markdown_table(of_power, found['power'])}\n\n{markdown_table(of_null, found['null'])}"
    finish(options, "verdicts", text, numbers)


if __name__ == "__main__":
    main()
