"""Parameters of estimators that optimize kernel weights together with the SVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayesmkl._utils.validation import check_integer, check_number, check_scale
from bayesmkl.discriminative.estimators.base import BaseDiscriminative
from bayesmkl.discriminative.estimators.checked import check_tube
from bayesmkl.discriminative.estimators.path import RegularizationPath
from bayesmkl.discriminative.inner import InnerProblem
from bayesmkl.discriminative.svm.libsvm import Hinge

__all__ = ["EpsilonInsensitiveMixin", "OptimizingMixin"]


class OptimizingMixin(BaseDiscriminative):
    """Parameters are checked before kernels are computed; fits along a grid of `C`."""

    C: float | None
    tol: float
    max_iter: int

    def _inner(self) -> InnerProblem:
        return Hinge(check_scale("C", self.C))

    def _options(self) -> Any:
        raise NotImplementedError

    def _stopping(self) -> dict[str, Any]:
        return {
            "tol": check_number("tol", self.tol, low=0.0),
            "max_iter": check_integer("max_iter", self.max_iter, low=1),
        }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._inner()
        self._options()

    def path(self, X: Any, y: Any, C_values: Sequence[float]) -> RegularizationPath:
        """Fit at several values of `C`, each from the kernel weights of the one before.

        Kernels are computed once, and a warm start needs fewer machines than a cold one. The optima are the same.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            As in `fit`.
        y : array-like of shape (n_samples,)
            As in `fit`.
        C_values : sequence of float
            Positive numbers, in the order of the fits.

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
        return self._path(X, y, C_values)


class EpsilonInsensitiveMixin(OptimizingMixin):
    """Support vector regression instead of classification."""

    C: float | None
    epsilon: float | None

    def _inner(self) -> InnerProblem:
        return check_tube(self.C, self.epsilon)
