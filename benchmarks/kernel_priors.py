"""Three priors on the kernel weights, sampled by NUTS: Gamma precisions, Dirichlet, spike and slab.

The paper's "nonsparse" prior keeps all updates in closed form; the priors that it contrasts itself with do not:
weights on the simplex (Girolami and Rogers 2005; Damoulas and Girolami 2008) and weights that are in or out (Titsias
and Lázaro-Gredilla 2011). Random subsets of N = 100 samples: wdbc with 6 kernels, sonar with 8 (digits, 3 against 8,
where BAYESMKL_DATA is not set). Stated: expected log predictive density by PSIS-LOO with its standard error, its
difference from the best prior, how many samples have too large a k-hat for it to be more than a rough guess (each
sample has a weight of its own in the model), log loss on the held-out rest, seconds, how well the chains agree,
kernel shares, and the posterior probability that a kernel is in.

    BAYESMKL_DATA=folder python benchmarks/kernel_priors.py    2 chains of 1000 draws after 1000, 6 minutes
    python benchmarks/kernel_priors.py --fast                  wdbc, N = 20, Dirichlet, 2 short chains
    python benchmarks/kernel_priors.py --norms                 by VB, beside the weights of l1 and l2 norms
"""

from __future__ import annotations

from typing import Any

import _kernel_norms
import numpy as np
from _machine import measure
from _posteriors import Case, case, cases, held_out_nll, kernel_bank, quietly, subset, timed, training_problem
from _report import finish, markdown_table, parser
from threadpoolctl import threadpool_limits

from bayesmkl.bemkl import NUTS
from bayesmkl.bemkl.inference.runs import check_agreement
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.leave_one_out import leave_one_out

PRIORS = ("nonsparse", "dirichlet", "spike-slab")
FULL = {"n_chains": 2, "n_warmup": 1000, "n_draws": 1000}
FAST = {"n_chains": 2, "n_warmup": 15, "n_draws": 15}


def evaluate(which: Case, seed: int, n_train: int, prior: str, length: dict[str, int]) -> dict[str, Any]:
    """Sample the posterior under one prior."""
    data = subset(which, seed, n_train)
    model = which.estimator(
        kernel_bank(which.n_kernels), kernel_prior=prior, inference=NUTS(**length), random_state=0
    )
    _, seconds, _ = timed(lambda: model.fit(data.X_train, data.y_train))
    problem, posterior = training_problem(model), model.posterior_
    agreement = check_agreement(problem, posterior, model.sample_stats_)
    loo = leave_one_out(fitted_bemkl(model), [Evaluated(problem, posterior)])
    included = posterior.kernel_inclusion
    return {
        "set": which.name,
        "n_train": n_train,
        "seed": seed,
        "prior": prior,
        "elpd": loo.elpd,
        "elpd_se": loo.standard_error,
        "pointwise": loo.elpd_i,
        "bad_k": loo.n_bad,
        "nll": held_out_nll(model, data.X_test, data.y_test),
        "seconds": seconds,
        "rhat": agreement.rhat,
        "ess": agreement.ess,
        "divergent": 100.0 * agreement.divergent,
        "kernels": [str(name) for name in model.kernel_names_],
        "shares": model.kernel_shares_.tolist(),
        "shares_std": model.kernel_shares_std_.tolist(),
        "inclusion": None if included is None else included.mean(axis=(0, 1)).tolist(),
    }


def prior_table(rows: list[dict[str, Any]]) -> str:
    """One row per set and prior; difference of ELPD from the best prior of the set, ± its standard error."""
    body = []
    for name in dict.fromkeys(row["set"] for row in rows):
        cell = [row for row in rows if row["set"] == name]
        best = np.array(max(cell, key=lambda row: row["elpd"])["pointwise"])
        for row in cell:
            gap = np.array(row["pointwise"]) - best
            body.append(
                f"{name}, {row['prior']} | {row['elpd']:.1f} ± {row['elpd_se']:.1f} | "
                f"{gap.sum():.1f} ± {np.sqrt(len(gap) * gap.var(ddof=1)):.1f} | {row['bad_k']} | "
                f"{row['nll']:.3f} | {row['seconds']:.0f} | {row['rhat']:.3f} | {row['ess']:.0f} | "
                f"{row['divergent']:.2f}"
            )
    headers = [
        "set, prior",
        "ELPD (PSIS-LOO)",
        "to the best",
        "k-hat too large, of N",
        "held-out NLL",
        "seconds",
    ]
    return markdown_table([*headers, "R-hat, max", "ESS, min", "divergences %"], body)


def share_table(rows: list[dict[str, Any]]) -> str:
    """Kernel shares of one set under every prior, and inclusion probabilities where the prior has them."""
    headers, columns = ["kernel"], []
    for row in rows:
        headers.append(f"share, {row['prior']}")
        columns.append([f"{m:.3f} ± {s:.3f}" for m, s in zip(row["shares"], row["shares_std"], strict=True)])
        if row["inclusion"] is not None:
            headers.append("P(in)")
            columns.append([f"{p:.2f}" for p in row["inclusion"]])
    return markdown_table(headers, [list(line) for line in zip(rows[0]["kernels"], *columns, strict=True)])


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument(
        "--norms", action="store_true", help="beside norms, by VB, in the place of NUTS"
    )
    options = options_parser.parse_args()
    print(measure(options.fast).report() + "\n")
    if options.norms:
        with threadpool_limits(1):
            rows = _kernel_norms.measure(options.fast)
        finish(options, "kernel_norms", _kernel_norms.report(rows), {"rows": rows})
        return
    with threadpool_limits(1), quietly():
        if options.fast:
            rows = [evaluate(case("wdbc"), 0, 20, "dirichlet", FAST)]
        else:
            rows = []
            for which in cases():
                for prior in PRIORS if not which.is_regression else ():
                    rows.append(evaluate(which, 0, 100, prior, FULL))
                    print(f"{which.name}, {prior}: {rows[-1]['seconds']:.0f} s", flush=True)
    parts = [
        f"NUTS, N = {rows[0]['n_train']}; expected log predictive density in nats, summed over training samples.",
        prior_table(rows),
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        parts += [f"Kernel shares, {name}", share_table([row for row in rows if row["set"] == name])]
    for row in rows:
        del row["pointwise"]
    finish(options, "kernel_priors", "\n\n".join(parts), {"rows": rows})


if __name__ == "__main__":
    main()
