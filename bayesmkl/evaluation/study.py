"""Data sets and models of a comparison."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from bayesmkl._utils.typing import Splits
from bayesmkl.datasets._bundled import load_named


class Data(NamedTuple):
    """Samples and labels of a data set."""

    X: Any  # (n_samples, n_features), a DataFrame, or (n_samples, n_samples, n_kernels)
    y: np.ndarray  # (n_samples,), structured where it holds times to an event
    groups: np.ndarray | None = None  # (n_samples,)
    splits: list[tuple[np.ndarray, np.ndarray]] | None = None  # rows to train on and to test on
    weights: np.ndarray | None = None  # (n_samples,), of samples in fits


def bundled(name: str) -> Data:
    """Load a data set of the package by its name."""
    return Data(*load_named(name))


class ModelSpec:
    """A model to compare.

    Parameters
    ----------
    estimator : estimator
        Not fitted.
    param_grid : dict or list of dict, default=None
        What to try in a cross-validation inside the training part, as for ``GridSearchCV``.
    transductive : bool, default=False
        Fit all rows, with the labels of test rows replaced by the estimator's ``unlabeled_label``.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        transductive: bool = False,
    ) -> None:
        self.estimator, self.param_grid, self.transductive = estimator, param_grid, transductive

    def new(self, seed: int, inner_cv: Splits, inner_scoring: str | None) -> BaseEstimator:
        """Return an estimator to fit, whose open random states are set to `seed`."""
        model = clone(self.estimator)
        states = [n for n in model.get_params() if n == "random_state" or n.endswith("__random_state")]
        model.set_params(**{n: seed for n in states if model.get_params()[n] is None})
        if self.param_grid is None:
            return model
        return GridSearchCV(model, self.param_grid, cv=inner_cv, scoring=inner_scoring)

    def describe(self) -> str:
        """Describe what determines the model, as text: long arrays are shortened, functions named at most."""
        parts = [text_of(self.estimator)]
        if self.param_grid is not None:
            parts.append(f"grid {text_of(self.param_grid)}")
        return "; ".join([*parts, "transductive"] if self.transductive else parts)


def text_of(value: Any) -> str:
    """Return a representation for people, without the addresses of objects; hashes tell values apart.

    Estimators show the parameters that differ from their defaults.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> text_of({"svm": SVC(C=2.0), "widths": [1, 2]})
    "{'svm': SVC(C=2.0), 'widths': [1, 2]}"
    """
    if isinstance(value, BaseEstimator) and not isinstance(value, type):
        defaults = inspect.signature(type(value)).parameters
        shown = {name: text_of(given) for name, given in value.get_params(deep=False).items()}
        changed = [
            f"{n}={t}" for n, t in shown.items() if n not in defaults or t != repr(defaults[n].default)
        ]
        return f"{type(value).__name__}({', '.join(changed)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in value.items()) + "}"
    if type(value) in (list, tuple):
        inside = ", ".join(text_of(item) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return re.sub(r"\s+", " ", re.sub(r" at 0x[0-9a-f]+", "", repr(value)))
