"""Fits along a grid of regularizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_scale, shown

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import BaseDiscriminative


class RegularizationPath(NamedTuple):
    """Models along a grid of one parameter, each started at the kernel weights of the one before.

    Parameters
    ----------
    parameter : str
        Name of the parameter that changes: "C" or "reg".
    values : ndarray of shape (n_values,)
        In the order of the fits.
    models : tuple of estimator
        Fitted models, one per value. They share bank and kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.discriminative import SimpleMKLClassifier
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = SimpleMKLClassifier(KernelBank("linear", views="each", normalize="trace"))
    >>> path = model.path(X, X[:, 0] > 0, C_values=[0.01, 1.0])
    >>> path.parameter, path.values, path.kernel_weights.shape
    ('C', array([0.01, 1.  ]), (2, 3))
    >>> path.to_frame()["active_kernels"].tolist()
    [1, 2]
    """

    parameter: str
    values: np.ndarray
    models: tuple[Any, ...]

    @property
    def kernel_weights(self) -> np.ndarray:
        """Kernel weights along the path.

        Of shape (n_values, n_kernels), or (n_values, n_classes, n_kernels) where every class has its own.
        """
        return np.stack([model.kernel_weights_ for model in self.models])

    def to_frame(self) -> Any:
        """Return a table of what the fits took and gave.

        Returns
        -------
        pandas.DataFrame
            One row per value, with the columns ``C`` or ``reg``, ``n_iter``, ``n_solves`` (inner problems solved),
            ``active_kernels``, ``support_fraction``, ``duality_gap`` and ``converged``. Iterations, problems and gaps
            are sums over classes where every class has kernel weights of its own.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                self.parameter: self.values,
                "n_iter": [int(np.sum(model.n_iter_)) for model in self.models],
                "n_solves": [int(np.sum(model.n_solves_)) for model in self.models],
                "active_kernels": [model.n_active_kernels_ for model in self.models],
                "support_fraction": [model.support_fraction_ for model in self.models],
                "duality_gap": [float(np.sum(model.duality_gap_)) for model in self.models],
                "converged": [model.converged_ for model in self.models],
            }
        )


def path_over_C(
    self: BaseDiscriminative,
    X: Samples,
    y: Targets,
    C_values: Sequence[float],
    sample_weight: ArrayLike | None = None,
) -> RegularizationPath:
    """Fit at several values of `C`, each from the kernel weights of the one before.

    Kernels are computed once, and a warm start needs fewer SVMs than a cold one. The optima are the same.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features), or kernels
        As in `fit`.
    y : array-like of shape (n_samples,)
        As in `fit`.
    C_values : sequence of float
        Positive numbers, in the order of the fits.
    sample_weight : array-like of shape (n_samples,), default=None
        As in `fit`.

    Returns
    -------
    RegularizationPath
        The values and one fitted estimator for each; this one stays unfitted.

    Raises
    ------
    TypeError
        If `C_values` is no list.
    ValueError
        If it is empty or holds anything but positive numbers; and as `fit` raises.
    """
    return _path(self, "C", X, y, C_values, sample_weight)


def path_over_reg(
    self: BaseDiscriminative, X: Samples, y: Targets, reg_values: Sequence[float]
) -> RegularizationPath:
    """Fit at several regularizations, each from the kernel weights of the one before.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_samples, n_features), or kernels
        As in `fit`.
    y : array-like of shape (n_samples,)
        As in `fit`.
    reg_values : sequence of float
        Values of `reg`, positive, in the order in which they are fitted.

    Returns
    -------
    RegularizationPath
        Its models share bank and kernels; this estimator is not fitted.

    Raises
    ------
    TypeError
        If `reg_values` is no list.
    ValueError
        If it is empty or holds anything but positive numbers; and as `fit` raises.
    """
    return _path(self, "reg", X, y, reg_values)


def _path(
    model: BaseDiscriminative,
    parameter: str,
    X: Samples,
    y: Targets,
    values: Sequence[float],
    sample_weight: ArrayLike | None = None,
) -> RegularizationPath:
    """Fit at every value in turn, each from the kernel weights of the one before."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise TypeError(f"`{parameter}_values` must be a list of numbers; got {shown(values)}.")
    values = [check_scale(f"{parameter}_values", value) for value in values]
    if not values:
        raise ValueError(f"`{parameter}_values` must hold at least one positive number; got none.")
    models: list[Any] = []
    prepared = clone(model)  # the given one stays as it is
    training, targets = prepared._prepare(X, y, sample_weight)
    for value in values:
        model = _fitted_copy(prepared).set_params(**{parameter: value})
        model._fit_tasks(training, targets, models[-1].kernel_weights_ if models else None)
        models.append(model)
    return RegularizationPath(parameter, np.array(values), tuple(models))


def _fitted_copy(model: BaseDiscriminative) -> Any:
    """Copy parameters and everything that `_prepare` learned; kernels and bank are shared."""
    copy = type(model)(**model.get_params(deep=False))
    copy.__dict__.update(model.__dict__)
    return copy
