"""Facts about fitted models of any kind besides their scores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl.bemkl.estimators.base import BaseBEMKL
from bayesmkl.evaluation.predictions import final_estimator

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


__all__ = ["facts"]

ACTIVE = (
    1e-3  # of the largest |weight|: BEMKL's weights above it count as active, as no posterior mean is zero
)


def facts(model: BaseEstimator, n_train: int) -> dict[str, Any]:
    """Describe a fitted model: how sparse it is, whether it converged, and what was chosen inside.

    Parameters
    ----------
    model : estimator
        Fitted; Pipelines and searches are seen through.
    n_train : int
        Training samples.

    Returns
    -------
    dict
        ``support_fraction``: share of the training samples that predictions depend on, NaN where the model has no
        such thing. ``n_active_kernels``: kernels with a weight (of BEMKL, above 1/1000 of the largest in absolute
        value, for any class), NaN where there are none. ``converged``: True, False, or None if the model does not
        say. ``best_params``: the choice of a search as JSON, or an empty string.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.svm import SVC
    >>> from bayesmkl.evaluation.facts import facts
    >>> X, y = load_iris(return_X_y=True)
    >>> facts(GridSearchCV(SVC(), {"C": [1.0, 10.0]}).fit(X, y), len(X))
    {'support_fraction': 0.18, 'n_active_kernels': nan, 'converged': True, 'best_params': '{"C": 10.0}'}
    """
    final = final_estimator(model)
    return {
        "support_fraction": _support_fraction(final, n_train),
        "n_active_kernels": _n_active_kernels(final),
        "converged": _converged(final),
        "best_params": _best_params(model),
    }


def _support_fraction(final: BaseEstimator, n_train: int) -> float:
    if hasattr(final, "support_fraction_"):
        return float(final.support_fraction_)
    if hasattr(final, "n_support_"):  # LibSVM; selectors of features have a `support_` as well
        return len(final.support_) / n_train
    return float("nan")


def _n_active_kernels(final: BaseEstimator) -> float:
    if hasattr(final, "n_active_kernels_"):
        return int(final.n_active_kernels_)
    if not isinstance(final, BaseBEMKL):
        return float("nan")
    weights = np.abs(np.atleast_2d(final.kernel_weights_))
    return int((weights > ACTIVE * weights.max(axis=1, keepdims=True)).any(axis=0).sum())


def _converged(final: BaseEstimator) -> bool | None:
    if hasattr(final, "converged_"):
        return bool(np.all(final.converged_))
    return final.fit_status_ == 0 if hasattr(final, "fit_status_") else None


def _best_params(model: BaseEstimator) -> str:
    while not hasattr(model, "best_params_"):
        if not getattr(model, "steps", None):
            return ""
        model = model.steps[-1][1]
    return json.dumps(model.best_params_, default=_plain)


def _plain(value: object) -> Any:
    """Return a number or a list for what NumPy holds, and a description of everything else."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else repr(value)
