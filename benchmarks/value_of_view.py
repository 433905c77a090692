"""Does the predicted value of a view rank samples as the realized one does?

`value_of_view` says by how much measuring a view would change the log loss of a sample that lacks it; then the view
is shown. One realized change depends on one label: changes are averaged in 20 bins of samples and views by falling
prediction.

Simulated: a score of three views of one feature each, the second of which depends on the first, gives labels; views
of 250 training samples are absent at random in 15 %, and of new samples one view is hidden in turn. How well can
single samples be ranked? The model that draws the data ranks its own realized changes, with all integrals by
quadrature.

mfeat: is a digit odd, of six views of 2000 digits? Views of 300 training samples are absent in 15 %. New ones lack
every view with a probability of .3 or .6, so that mostly several are absent and each would also tell of the others.
Without these files six views of the bundled digits take their place.

    BAYESMKL_DATA=folder python benchmarks/value_of_view.py    5 simulations of 1500 new samples, 4 of 400 digits
    python benchmarks/value_of_view.py --fast                  one small one of each
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from _posteriors import quietly
from _protocol import have_real_data
from _report import begin, claim, finish, markdown_table
from papers.uci import fetch
from scipy.special import xlogy
from scipy.stats import norm, spearmanr
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bayesmkl import GPMKLClassifier, KernelBank
from bayesmkl.datasets import load_digits_views
from bayesmkl.marginal import Marginal
from bayesmkl.posterior import value_of_view

N_BINS, ABSENT, HIDDEN = 20, 0.15, (0.3, 0.6)
TELLS = 0.6  # of the second feature what the first one says
NODES = np.polynomial.hermite_e.hermegauss(41)


def losses(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of every sample."""
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y.astype(int)])


def fitted(X: np.ndarray, y: np.ndarray, views: Any, seed: int, inference: str | Marginal) -> Any:
    """Fit a model to samples of which some lack views."""
    bank, rng = KernelBank(["rbf"], views=views), np.random.default_rng([seed, 1])
    X, columns = X.copy(), [view.columns for view in bank.fit(X).views_]
    absent = rng.random((len(X), len(columns))) < ABSENT
    absent[absent.all(axis=1)] = False
    for v, own in enumerate(columns):
        X[np.ix_(absent[:, v], own)] = np.nan
    model = GPMKLClassifier(bank, missing_views="integrate", inference=inference, random_state=seed)
    return model.fit(X, y)


# ------------------------------------------------------------------------------------------------ simulated


def true_probability(X: np.ndarray) -> np.ndarray:
    """Return the probability of the label, by the score and its normal noise."""
    return norm.cdf(1.5 * np.sin(1.5 * X[..., 0]) + 1.5 * X[..., 1] + 0.7 * (X[..., 2] ** 2 - 1.0))


def true_changes(X: np.ndarray, y: np.ndarray, v: int) -> tuple[np.ndarray, np.ndarray]:
    """Return expected and realized changes of the log loss where view `v` is measured, by the model of the data."""
    mean, variance = np.zeros(len(X)), 1.0
    if v == 0:
        variance = 1.0 / (1.0 + TELLS**2)
        mean = variance * TELLS * X[:, 1]
    elif v == 1:
        mean = TELLS * X[:, 0]
    nodes, weights = NODES
    at = np.repeat(X[:, None], len(nodes), axis=1)
    at[..., v] = mean[:, None] + np.sqrt(variance) * nodes
    then, weights = true_probability(at), weights / weights.sum()
    now, known = then @ weights, true_probability(X)
    expected = entropy(then) @ weights - entropy(now)
    return expected, np.log(np.where(y, now, 1.0 - now)) - np.log(np.where(y, known, 1.0 - known))


def entropy(p: np.ndarray) -> np.ndarray:
    """Return the entropy of labels."""
    return -xlogy(p, p) - xlogy(1.0 - p, 1.0 - p)


def simulate(seed: int, n_train: int, n_new: int, inference: str | Marginal) -> dict[str, Any]:
    """Return rank correlations of predicted and realized changes, and mean changes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_train + n_new, 3))
    X[:, 1] += TELLS * X[:, 0]
    y = rng.random(len(X)) < true_probability(X)
    new, labels = X[n_train:], y[n_train:]
    model = fitted(X[:n_train], y[:n_train], "each", seed, inference)
    complete, tables, truth = losses(model, new, labels), [], []
    for v in range(3):
        hidden = new.copy()
        hidden[:, v] = np.nan
        table = value_of_view(model, hidden)
        table["realized"] = complete - losses(model, hidden, labels)
        tables.append(table)
        truth.append(true_changes(new, labels, v))
    best = spearmanr(*np.concatenate(truth, axis=1))[0]
    return summarized(pd.concat(tables)) | {"best": float(best)}


# -------------------------------------------------------------------------------------------------- digits


def digits(seed: int, hidden: float, n_train: int, n_new: int, inference: str | Marginal) -> dict[str, Any]:
    """Return the same of odd and even digits that lack several views."""
    data = fetch("mfeat") if have_real_data() else load_digits_views()
    rng = np.random.default_rng([seed, 2])
    rows = rng.permutation(len(data.target))[: n_train + n_new]
    train, new = rows[:n_train], rows[n_train:]
    y = data.target.astype(int) % 2
    scaler = StandardScaler().fit(data.data[train])
    X, columns = scaler.transform(data.data[new]), list(data.views.values())
    model = fitted(scaler.transform(data.data[train]), y[train], data.views, seed, inference)
    lacks = rng.random((n_new, len(columns))) < hidden
    lacks[~lacks.any(axis=1), 0] = True
    lacks[lacks.all(axis=1), -1] = False
    given = X.copy()
    for v, own in enumerate(columns):
        given[np.ix_(lacks[:, v], own)] = np.nan
    table, before = value_of_view(model, given), losses(model, given, y[new])
    for name, own in data.views.items():
        of_view = table["view"] == name
        who = table.loc[of_view, "sample"].to_numpy()
        shown = given[who]
        shown[:, own] = X[np.ix_(who, own)]
        table.loc[of_view, "realized"] = losses(model, shown, y[new][who]) - before[who]
    return summarized(table)


# ------------------------------------------------------------------------------------------------- results


def summarized(table: pd.DataFrame) -> dict[str, Any]:
    """Return rank correlations in bins and of single samples, and mean changes."""
    predicted, realized = table["log_loss_change"].to_numpy(), table["realized"].to_numpy()
    return {
        "bins": in_bins(predicted, realized),
        "single": float(spearmanr(predicted, realized)[0]),
        "predicted": float(predicted.mean()),
        "realized": float(realized.mean()),
    }


def in_bins(predicted: np.ndarray, realized: np.ndarray) -> float:
    """Return the rank correlation of means in bins of equal size."""
    bins = np.array_split(np.argsort(predicted, kind="stable"), N_BINS)
    return float(spearmanr([predicted[i].mean() for i in bins], [realized[i].mean() for i in bins])[0])


def claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare with what was asked for."""
    what = "value of a view: rank correlation with the change of log loss, 20 bins"
    simulated = [row for row in rows if "best" in row]
    others = [row for row in rows if "best" not in row]
    ratio = np.mean([row["single"] for row in simulated]) / np.mean([row["best"] for row in simulated])
    return [
        claim(what, 0.8, min(row["bins"] for row in simulated), at_least=True),
        claim(f"{what}, several views absent", 0.8, min(row["bins"] for row in others), at_least=True),
        claim("the same of single samples, part of that of the model of the data", 0.8, ratio, at_least=True),
    ]


def main() -> None:
    options = begin(__doc__)
    n_sets, n_train, n_new = (1, 60, 100) if options.fast else (5, 250, 1500)
    n_digits, sizes, hidden = (1, (60, 40), HIDDEN[1:]) if options.fast else (2, (300, 400), HIDDEN)
    quick, usual = Marginal(n_points=100, n_draws=100), Marginal()
    inference = quick if options.fast else usual
    name = "mfeat" if have_real_data() else "digits"
    rows = []
    with threadpool_limits(1), quietly():
        for seed in range(n_sets):
            rows.append({"set": f"simulated, {seed}"} | simulate(seed, n_train, n_new, inference))
        for part in hidden:
            for seed in range(n_digits):
                found = digits(seed, part, *sizes, inference)
                rows.append({"set": f"{name}, {100 * part:.0f} % absent, {seed}"} | found)
    body = [
        [row["set"], f"{row['bins']:.2f}", f"{row['single']:.2f}", f"{row['best']:.2f}" if "best" in row else "",
         *(f"{row[key]:.3f}" for key in ("predicted", "realized"))]
        for row in rows
    ]  # fmt: skip
    headers = ["data set", "in bins", "single", "single, best", "predicted mean", "realized"]
    made = claims(rows)
    finish(options, "value_of_view", markdown_table(headers, body), {"rows": rows, "claims": made})


if __name__ == "__main__":
    main()
