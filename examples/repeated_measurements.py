"""Repeated measurements: what moves the investments of eleven firms, observed for twenty years each.

Investments, market values and stocks of capital of American firms (Grunfeld 1958), which come with statsmodels. Firms
differ from each other by more than what they have in common explains, and their years are not independent samples.
Every second year is for training. With the firm as a group of the design its level is learned beside the
functions of the views; for a firm that no training row is of, the interval has the variance between firms as well.

    python examples/repeated_measurements.py          print tables and errors (needs statsmodels)
    python examples/repeated_measurements.py --fast   the same with few draws

References
----------
Y. Grunfeld (1958). The determinants of corporate investment. Dissertation, University of Chicago.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.marginal import Design, Marginal
from bayesmkl.posterior import effect_table, view_table

VIEWS = {"value": ["value"], "capital": ["capital"], "year": ["year"]}
DESIGNS = {
    "no groups": None,
    "firms": Design(covariate_columns=["value", "capital"], group_columns="firm"),
}


def load() -> tuple[pd.DataFrame, np.ndarray]:
    """Return logarithms of values and capital with year and firm, and those of investments."""
    from statsmodels.datasets import grunfeld

    table = grunfeld.load_pandas().data
    logs = np.log(table[["value", "capital"]])
    X = (logs - logs.mean()).assign(year=(table["year"] - 1944.5) / 6.0, firm=table["firm"].astype(str))
    return X, np.log(table["invest"].to_numpy())


def study(X: pd.DataFrame, y: np.ndarray, inference: Marginal) -> pd.DataFrame:
    """Fit every design to every second year; return errors and coverage of the other years."""
    train = np.arange(len(y)) % 2 == 0
    rows = {}
    for name, design in DESIGNS.items():
        seen = X if design else X.drop(columns="firm")
        model = GPMKLRegressor(KernelBank("auto", views=VIEWS), design=design, inference=inference)
        mean, std = model.fit(seen[train], y[train]).predict(seen[~train], return_std=True)
        rows[name] = {
            "rmse": np.sqrt(np.mean((mean - y[~train]) ** 2)),
            "in 95 % intervals": np.mean(np.abs(mean - y[~train]) < 1.96 * std),
            "noise": model.noise_std_,
        }
        print(f"\n{name}")
        print(
            view_table(model)[["view", "share", "share_lower", "share_upper"]].round(2).to_string(index=False)
        )
        if design:
            columns = ["effect", "kind", "mean", "lower", "upper"]
            print(effect_table(model)[columns].round(2).to_string(index=False))
            other = X[~train].head(1).assign(firm="a firm that is not known")
            for which, row in (("known", X[~train].head(1)), ("new", other)):
                at, width = model.predict(row, return_std=True)
                print(f"a year of a {which} firm: {at[0]:.2f} ± {width[0]:.2f}")
    return pd.DataFrame(rows).T


def main() -> None:
    """Print the study."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--fast", action="store_true", help="few draws")
    inference = Marginal(n_points=100, n_draws=100) if options.parse_args().fast else Marginal()
    print("\n" + study(*load(), inference).round(3).to_string())


if __name__ == "__main__":
    main()
