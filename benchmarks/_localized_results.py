"""What the fits behind tables 2 and 4 gave, by set and variant, and how two variants compare."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from _localized_protocol import TEST_SHARE, VARIANTS
from scipy import stats

__all__ = ["BestOnTest", "Results", "p_value"]

ACCURACY, SUPPORT, SECONDS, CONVERGED = range(4)


class BestOnTest(NamedTuple):
    """The width with the best mean accuracy on test samples: what the paper reports."""

    gamma: float
    accuracy: float
    support: float


class Results:
    """All fits that were done.

    Parameters
    ----------
    rows : list of dict
        One per set and split.
    gammas : ndarray of shape (n_widths,)
    """

    def __init__(self, rows: list[dict[str, Any]], gammas: np.ndarray) -> None:
        self.gammas = gammas
        self._all = sorted(rows, key=lambda row: row["split"])
        self._rows = [row for row in self._all if row["protocol"] == 0]
        self.sets = list(dict.fromkeys(row["set"] for row in self._rows))

    def of_protocol(self, protocol: int) -> Results:
        """Return the results of a protocol on the splits on which protocols are compared."""
        compared = {(row["set"], row["split"]) for row in self._all if row["protocol"] > 0}
        rows = [
            row | {"protocol": 0}
            for row in self._all
            if row["protocol"] == protocol and (row["set"], row["split"]) in compared
        ]
        return Results(rows, self.gammas)

    def n_splits(self, name: str) -> int:
        """Number of splits of a set."""
        return len(self._of(name))

    def n_train(self, name: str) -> int:
        """Training samples of a set."""
        return self._of(name)[0]["n_train"]

    def chosen(self, name: str, title: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Accuracies, support points and seconds at the chosen widths, each of shape (n_splits,)."""
        fits = [row["fits"][title][row["chosen"][title]] for row in self._of(name)]
        values = np.array(fits, dtype=float).T
        return values[ACCURACY], values[SUPPORT], values[SECONDS]

    def best(self, name: str, title: str) -> BestOnTest:
        """Where the mean accuracy on test samples is the best, of the widths that were fitted on all splits.

        The widest kernel of equals.
        """
        fits = [row["fits"][title] for row in self._of(name)]
        complete = [k for k, of_width in enumerate(zip(*fits, strict=True)) if None not in of_width]
        means = np.array([[of_split[k] for k in complete] for of_split in fits], dtype=float).mean(axis=0)
        best = int(means[:, ACCURACY].argmax())
        gamma = float(self.gammas[complete[best]])
        return BestOnTest(gamma, float(means[best, ACCURACY]), float(means[best, SUPPORT]))

    def summary(self) -> dict[str, Any]:
        """Means and standard deviations for a file."""
        out: dict[str, Any] = {"n_splits": {name: self.n_splits(name) for name in self.sets}}
        for name in self.sets:
            out[name] = {}
            for title in VARIANTS:
                accuracy, support, seconds = self.chosen(name, title)
                spread = {"ddof": 1} if len(accuracy) > 1 else {}
                out[name][title] = {
                    "accuracy": [float(accuracy.mean()), float(accuracy.std(**spread))],
                    "support": [float(support.mean()), float(support.std(**spread))],
                    "seconds": float(seconds.mean()),
                    "best_on_test": self.best(name, title)._asdict(),
                    "unconverged": sum(
                        not fit[CONVERGED] for row in self._of(name) for fit in row["fits"][title] if fit
                    ),
                }
        return out

    def _of(self, name: str) -> list[dict[str, Any]]:
        return [row for row in self._rows if row["set"] == name]


def p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p-value of the corrected resampled t-test on paired results (Nadeau and Bengio 2003)."""
    differences = np.asarray(first) - np.asarray(second)
    n_splits = len(differences)
    if n_splits < 2:
        return 1.0
    variance = differences.var(ddof=1)
    if variance == 0.0:
        return 1.0 if differences.mean() == 0.0 else 0.0
    ratio = TEST_SHARE / (1.0 - TEST_SHARE)
    statistic = differences.mean() / np.sqrt((1.0 / n_splits + ratio) * variance)
    return float(2.0 * stats.t.sf(abs(statistic), n_splits - 1))
