"""Additive Gaussian processes through landmarks beside exact ones, and how their time grows with the samples.

Four views of two features each, with a Gaussian kernel of width 1 of a view; three of them make the score, one is
noise. Targets have normal noise (standard deviation .3 of a score of 1.0), labels are by the sign of twice the score
with noise of one. Shares are compared with those of the exact fit, ends of their 94 % intervals too; 95 % intervals
are of targets of held-out samples, and of scores of these where there are labels. The scores of one set of samples
are right or wrong together, so that coverage of scores is a mean over sets, with its standard error. Seconds are
processor time of `fit` on one BLAS thread.

    python benchmarks/sparse_marginal.py             exact and sparse, 500 and 1000 samples; sparse, 5000 and more
    python benchmarks/sparse_marginal.py --fast      60 and 200 samples
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _machine import measure
from _report import claim, finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.kernels import Gaussian
from bayesmkl.marginal import Marginal

VIEWS = {"wave": [0, 1], "product": [2, 3], "line": [4, 5], "noise": [6, 7]}
N_TEST, N_EXACT = 1000, {"numbers": 1000, "labels": 500}
COMPARED = (16, 64)  # landmarks beside the exact fit
GROWING = (("numbers", 64, (5000, 50_000)), ("numbers", 256, (20_000,)), ("labels", 64, (5000, 50_000)))
COVERED = ((500, None), (500, 64), (5000, 64), (50_000, 64), (50_000, 128))  # labels: samples, landmarks
N_SETS = 12  # of samples
FEWER = Marginal(n_points=200)  # beside exact fits, which take long
NOISE, WITHIN = 0.3, 1.96


def draw(n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and scores of standard deviation one, about."""
    X = np.random.default_rng(seed).normal(size=(n_samples, 8))
    score = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + np.tanh(X[:, 2] * X[:, 3]) + 0.6 * X[:, 4]
    return X, score / 1.25


def fitted(
    kind: str, n_samples: int, landmarks: int | None, options: Marginal, seed: int = 0
) -> dict[str, Any]:
    """One fit, with its seconds, and what it predicts of held-out samples."""
    X, score = draw(n_samples + N_TEST, seed=2 * seed)
    noise = np.random.default_rng(2 * seed + 1).normal(size=len(X))
    y = score + NOISE * noise if kind == "numbers" else 2.0 * score + noise > 0.0
    X_new, y_new, score_new = X[n_samples:], y[n_samples:], score[n_samples:]
    bank = KernelBank([Gaussian(width=1)], views=VIEWS, landmarks=landmarks)
    cls = GPMKLRegressor if kind == "numbers" else GPMKLClassifier
    model = cls(bank, inference=options, random_state=0)
    started = time.process_time()
    model.fit(X[:n_samples], y[:n_samples])
    seconds = time.process_time() - started
    if kind == "numbers":
        mean, std = model.predict(X_new, return_std=True)
        loss = float(np.mean(0.5 * np.log(2.0 * np.pi * std**2) + 0.5 * ((y_new - mean) / std) ** 2))
        inside = np.abs(y_new - mean) < WITHIN * std
    else:
        probability = model.predict_proba(X_new)[np.arange(N_TEST), y_new.astype(int)]
        loss = float(-np.log(probability).mean())
        mean, std = model.predict_latent(X_new, return_std=True)
        inside = np.abs(2.0 * score_new - mean) < WITHIN * std
    shares = model.posterior_.shares
    return {
        "kind": kind,
        "samples": n_samples,
        "landmarks": landmarks,
        "features": None if landmarks is None else len(VIEWS) * landmarks,
        "pseudo_samples": None if landmarks is None else model.pseudo_samples_.n_pseudo,
        "seconds": seconds,
        "loss": loss,
        "coverage": float(inside.mean()),
        "log_evidence": float(model.log_evidence_),
        "shares": model.kernel_shares_.tolist(),
        "ends": np.quantile(shares, [0.03, 0.97], axis=0).tolist(),
        "pareto_k": float(model.pareto_k_),
    }


def covered(n_samples: int, landmarks: int | None, n_sets: int, options: Marginal) -> dict[str, Any]:
    """Coverage of scores where there are labels, over sets of samples."""
    found = [fitted("labels", n_samples, landmarks, options, seed)["coverage"] for seed in range(n_sets)]
    error = float(np.std(found, ddof=1) / np.sqrt(n_sets))
    return {
        "samples": n_samples,
        "landmarks": landmarks,
        "coverage": float(np.mean(found)),
        "error": error,
        "of_sets": found,
    }


def table_of_coverage(rows: list[dict[str, Any]], n_sets: int) -> str:
    """One line for every number of samples and landmarks."""
    headers = ["samples with labels", "landmarks", "95 % intervals of scores hold", "lowest", "highest"]
    cells = [
        [
            row["samples"],
            "exact" if row["landmarks"] is None else row["landmarks"],
            f"{100 * row['coverage']:.1f} % ± {100 * row['error']:.1f}",
            *(f"{100 * end(row['of_sets']):.1f} %" for end in (min, max)),
        ]
        for row in rows
    ]
    return f"Of {n_sets} sets of samples, with the standard error:\n\n{markdown_table(headers, cells)}"


def compared(rows: list[dict[str, Any]]) -> None:
    """Add to sparse fits how far their shares are from the exact ones."""
    for row in rows:
        exact = next(one for one in rows if one["kind"] == row["kind"] and one["landmarks"] is None)
        for name in ("shares", "ends"):
            row[f"{name}_off"] = float(np.abs(np.array(row[name]) - np.array(exact[name])).max())


def table(rows: list[dict[str, Any]]) -> str:
    """One line for every fit."""
    headers = (
        "targets | samples | landmarks | seconds | loss | 95 % intervals hold | log evidence | shares off by | "
        "ends off by"
    )
    cells = []
    for row in rows:
        shares, ends = (f"{row[name]:.3f}" if row.get(name) else "" for name in ("shares_off", "ends_off"))
        cells.append(
            f"{row['kind']} | {row['samples']} | {row['landmarks'] or 'exact'} | {row['seconds']:.1f} | "
            f"{row['loss']:.4f} | {100 * row['coverage']:.1f} % | {row['log_evidence']:.1f} | {shares} | {ends}"
        )
    return markdown_table(headers, cells)


def exponent(rows: list[dict[str, Any]]) -> float:
    """Slope of the logarithm of seconds by that of samples, between the last two."""
    last, first = rows[-1], rows[-2]
    return float(np.log(last["seconds"] / first["seconds"]) / np.log(last["samples"] / first["samples"]))


def main() -> None:
    options = parser(__doc__).parse_args()
    machine, fast = measure(options.fast), options.fast
    print(machine.report() + "\n")
    growing: tuple[Any, ...] = (("numbers", 8, (60, 200)), ("labels", 8, (60, 200))) if fast else GROWING
    with threadpool_limits(1):
        quick = Marginal(n_points=100, n_draws=200)
        fitted("numbers", 60, 8, quick)  # imports are not timed
        exact = [
            fitted(kind, 60 if fast else N_EXACT[kind], landmarks, quick if fast else FEWER)
            for kind in ("numbers", "labels")
            for landmarks in (None, *((8,) if fast else COMPARED))
        ]
        compared(exact)
        large = [
            [fitted(kind, n_samples, landmarks, quick if fast else Marginal()) for n_samples in sizes]
            for kind, landmarks, sizes in growing
        ]
        n_sets = 2 if fast else N_SETS
        coverage = [
            covered(n_samples, landmarks, n_sets, quick if fast else FEWER)
            for n_samples, landmarks in (((60, 8),) if fast else COVERED)
        ]
    claims = [
        claim(
            f"coverage of 95 % intervals of scores off by, {row['samples']} samples with labels, "
            f"{row['landmarks']} landmarks",
            1.0,
            100 * abs(row["coverage"] - 0.95),
            " points",
        )
        for row in coverage
        if row["landmarks"] is not None
    ]
    for rows in large:
        about = f"{rows[-1]['kind']}, {rows[-1]['landmarks']} landmarks"
        if len(rows) > 1:
            claims.append(claim(f"exponent of the seconds in samples; {about}", 1.05, exponent(rows)))
        off = 100 * abs(rows[-1]["coverage"] - 0.95)
        if rows[-1]["kind"] == "numbers":
            claims.append(
                claim(
                    f"coverage of 95 % intervals off by, {rows[-1]['samples']} samples; {about}",
                    1.0,
                    off,
                    " points",
                )
            )
    every = [*exact, *(row for rows in large for row in rows)]
    finish(
        options,
        "sparse_marginal",
        f"{table(every)}\n\n{table_of_coverage(coverage, n_sets)}",
        {"machine": machine._asdict(), "rows": every, "coverage": coverage, "claims": claims},
    )


if __name__ == "__main__":
    main()
