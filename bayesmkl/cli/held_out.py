"""Rows that are held out of a fit, and the table of their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from bayesmkl.cli.report import say
from bayesmkl.cli.tables import named
from bayesmkl.evaluation.predictions import Predictions
from bayesmkl.evaluation.study import labels_of

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from bayesmkl.cli.fit_options import FitOptions

__all__ = ["HELD_OUT", "TRAINING_ROWS", "held_out", "predicted", "row_hashes", "with_target"]

HELD_OUT, TRAINING_ROWS = "held_out", "training_rows.txt"  # a table, and hashes, in the folder of a run
TAIL = 0.03  # of the time to an event, on either side of its interval


def held_out(
    features: pd.DataFrame, y: np.ndarray, known: np.ndarray, options: FitOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of rows to fit and of rows to test, of those whose target is known.

    Classes, grades, events and tasks are spread over both; groups of a design stay together, as in comparisons.
    """
    if options.group:
        columns = [list(features.columns).index(name) for name in options.group]
        groups = labels_of(features, columns)[known]
        if len(np.unique(groups)) < 2:
            raise ValueError(
                f"--group {named(options.group)} connects all rows, so that no group can be held out for the "
                "metrics. Leave one of the columns out."
            )
        splitter = GroupShuffleSplit(1, test_size=options.test_size, random_state=options.seed)
        train, test = next(splitter.split(known, groups=groups))
        say(f"Rows held out are those of {len(np.unique(groups[test]))} groups of {named(options.group)}.")
        return known[train], known[test]
    spread: Any = None
    of = ""
    if options.task == "survival":
        spread, of = y["event"][known], f"--event {options.event!r}"
    elif options.task != "regression":
        spread = np.unique(y[known], return_inverse=True)[1]  # of which there are enough
    elif options.task_column is not None:
        spread, of = features[options.task_column].to_numpy()[known], f"--task-column {options.task_column!r}"
    if of and np.unique(spread, return_counts=True)[1].min() < 2:
        raise ValueError(
            f"{of} must have at least two rows of every value, one to fit and one to test; got a value of one row. "
            "Leave the row out."
        )
    train, test = train_test_split(
        known, test_size=options.test_size, random_state=options.seed, stratify=spread
    )
    return train, test


def row_hashes(features: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Hash rows with their targets by value, so that a row is recognized in another table.

    Examples
    --------
    >>> one, other = pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": [2, 3]})
    >>> np.isin(row_hashes(other, np.array([5, 5])), row_hashes(one, np.array([5.0, 5.0])))
    array([ True, False])
    """
    table = pd.concat([features.reset_index(drop=True), pd.DataFrame(y)], axis=1, ignore_index=True)
    columns = {k: _to_twelve_digits(values) for k, values in table.items()}
    return pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()


def _to_twelve_digits(values: pd.Series) -> pd.Series:
    """Round numbers to 40 bits, since other programs read and write the last digits otherwise; others become text."""
    if not pd.api.types.is_numeric_dtype(values):
        return values.astype(str)
    mantissa, exponent = np.frexp(values.astype(float))
    return pd.Series(np.ldexp(np.round(mantissa * 2.0**40), exponent))


def with_target(features: pd.DataFrame, y: np.ndarray, options: FitOptions) -> pd.DataFrame:
    """Return rows with the columns of their target, as in the table that was fitted."""
    table = features.copy()
    table[options.target] = y if options.event is None else y["time"]
    if options.event is not None:
        table[options.event] = y["event"]
    return table


def predicted(model: BaseEstimator, features: pd.DataFrame, task: str) -> dict[str, np.ndarray]:
    """Return the columns of the table of predictions, which are all finite."""
    predictions = Predictions(model, features)
    first: dict[str, np.ndarray] = {}
    if task == "survival":
        rows, last = model[:-1].transform(features), model[-1]
        columns = {"risk": predictions.labels(), "median": last.predict_quantile(rows)}
        columns |= {
            "lower": last.predict_quantile(rows, TAIL),
            "upper": last.predict_quantile(rows, 1.0 - TAIL),
        }
    elif task == "regression":
        mean, std = predictions.moments()
        columns = {"mean": mean, "sd": std}
    else:
        probabilities = predictions.probabilities()
        columns = {f"probability_{c}": probabilities[:, k] for k, c in enumerate(model.classes_)}
        first = {"prediction": predictions.labels()}
    unusable = ~np.isfinite(list(columns.values())).all(axis=0)
    if unusable.any():
        raise ValueError(
            f"{unusable.sum()} of {len(features)} predictions are not finite, the first one of row "
            f"{np.flatnonzero(unusable)[0] + 1}. Its values are far from those that the model was fitted to, or the "
            "model is damaged: fit it again."
        )
    return first | columns
