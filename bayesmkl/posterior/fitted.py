"""What every view of a posterior needs to know of a fitted model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesmkl._numerics.validation import check_number
from bayesmkl.bemkl import BEMKLClassifier, BEMKLRegressor

__all__ = ["FittedBEMKL", "check_probability", "fitted_bemkl"]


class FittedBEMKL(NamedTuple):
    """The posterior factors and names of a fitted model; one state for each of `class_names`, else one."""

    estimator: Any  # BEMKLClassifier or BEMKLRegressor
    states: tuple[Any, ...]
    histories: tuple[np.ndarray, ...]  # ELBO after every sweep
    kernel_names: list[str]
    kernel_views: list[str] | None  # None where kernels were precomputed
    class_names: list[str] | None  # of a one-versus-all model with more than two classes


def fitted_bemkl(model: Any) -> FittedBEMKL:
    """Find the fitted BEMKL estimator in `model`.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier or BEMKLRegressor, or a Pipeline or search that ends in one.

    Returns
    -------
    FittedBEMKL

    Raises
    ------
    TypeError
        For any other object.
    sklearn.exceptions.NotFittedError
        Before `fit`.
    """
    estimator = model
    while not isinstance(estimator, (BEMKLClassifier, BEMKLRegressor)):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif getattr(estimator, "steps", None):
            estimator = estimator.steps[-1][1]
        else:
            raise TypeError(
                "`model` must be a BEMKLClassifier, a BEMKLRegressor, or a Pipeline or fitted search that ends in "
                f"one; got {type(model).__name__}, which has no BEMKL posterior."
            )
    check_is_fitted(estimator, "posterior_")
    several = not hasattr(estimator.posterior_, "readout")
    bank = estimator.kernel_bank_
    return FittedBEMKL(
        estimator,
        tuple(estimator.posterior_) if several else (estimator.posterior_,),
        tuple(estimator.elbo_history_) if several else (estimator.elbo_history_,),
        [str(name) for name in estimator.kernel_names_],
        None if bank is None else list(bank.kernel_views_),
        [str(label) for label in estimator.classes_] if several else None,
    )


def check_probability(name: str, value: Any) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    if not 0.0 < check_number(name, value) < 1.0:
        raise ValueError(f"`{name}` must be between 0 and 1; got {value!r}. 0.94 stands for 94 %.")
    return float(value)
