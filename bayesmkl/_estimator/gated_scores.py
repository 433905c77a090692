"""Scores of estimators whose predictions take features of gates."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, r2_score

from bayesmkl._estimator.shared_docs import ESTIMATOR, GATES
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets


@fill_docs(ESTIMATOR, GATES)
def gated_accuracy(
    self: Any,
    X: Samples,
    y: Targets,
    sample_weight: ArrayLike | None = None,
    gate_features: ArrayLike | None = None,
) -> float:
    """Return the accuracy of the predictions for `X`.

    Parameters
    ----------
    %(X)s
    y : array-like of shape (n_rows,)
        True labels.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows.
    %(gate_features)s

    Returns
    -------
    float
        Share of the rows whose class is right, from 0 to 1.

    Raises
    ------
    NotFittedError
        Before `fit`.
    %(ValueError:gates)s
        Also if `y` does not have a label for every row.
    %(TypeError:X)s
    """
    return float(accuracy_score(y, self.predict(X, gate_features), sample_weight=sample_weight))


@fill_docs(ESTIMATOR, GATES)
def gated_r2(
    self: Any,
    X: Samples,
    y: Targets,
    sample_weight: ArrayLike | None = None,
    gate_features: ArrayLike | None = None,
) -> float:
    """Return the coefficient of determination of the predictions for `X`.

    Parameters
    ----------
    %(X)s
    y : array-like of shape (n_rows,)
        True target.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows.
    %(gate_features)s

    Returns
    -------
    float
        :math:`R^2`: 1 at best, 0 for the mean of `y`, without lower bound.

    Raises
    ------
    NotFittedError
        Before `fit`.
    %(ValueError:gates)s
        Also if `y` does not have a number for every row.
    %(TypeError:X)s
    """
    return float(r2_score(y, self.predict(X, gate_features), sample_weight=sample_weight))
