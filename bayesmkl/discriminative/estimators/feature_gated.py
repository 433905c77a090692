"""Localized classifiers and regressors whose gates are functions of features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.discriminative.estimators.localized import BaseLocalized
from bayesmkl.discriminative.estimators.shared_docs import GATED


@fill_docs(GATED)
class FeatureGatedClassifier(ClassifierMixin, BaseLocalized):
    """Classifiers whose gates are functions of features."""

    n_gate_features_: int

    def fit(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> Any:
        """Learn gates and classifier.

        Parameters
        ----------
        %(X:training)s
        %(y:labels)s
        %(gate_features:training)s

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:gates)s

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        UserWarning
            If a vote or inferred switches (LD-MKL, SAMKL) give all training samples one answer.
        %(KernelQualityWarning)s
        """
        self._fit_classes(X, y, gate_features)
        return self

    def decision_function(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Return the scores of the rows of `X`.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Positive for ``classes_[1]`` in the binary case.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._decide(X, gate_features)

    def predict(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Predict the class of every row: the side of zero, or the highest score.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._choose(self._decide(X, gate_features))

    def score(
        self,
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

    def gates(self, X: Samples | None = None, gate_features: ArrayLike | None = None) -> np.ndarray:
        r"""Return the gates of each kernel at each sample.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            :math:`\sqrt{\Gamma_m(x, x)}`; of more than two classes, (n_classes, n_rows, n_kernels).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._gates_local(X, gate_features)

    def gating_matrix(
        self,
        X: Samples,
        Z: Samples,
        kernel: int | str,
        *,
        gate_features: ArrayLike | None = None,
        gate_features_Z: ArrayLike | None = None,
    ) -> np.ndarray:
        r"""Return :math:`\Gamma_m(x, z)`, by which values of one kernel are multiplied.

        Parameters
        ----------
        %(X, Z)s
        kernel : int or str
            Position or name.
        gate_features, gate_features_Z : array-like of shape (n_rows, n_gate_features), default=None
            Features that the gates at `X` and at `Z` are functions of, with ``kernels="precomputed"``.

        Returns
        -------
        ndarray of shape (n_rows_X, n_rows_Z)
            Of more than two classes, with a leading axis of length n_classes.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
            Also if `kernel` is neither a position nor a name.
        %(TypeError:X)s
        """
        rows, columns = self._components_local(X, gate_features), self._components_local(Z, gate_features_Z)
        return self._gating_local(rows, columns, kernel)

    def combined_kernel(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        r"""Return :math:`\sum_m \Gamma_m(x, z) K_m(x, z)` between the rows of `X` and the training samples.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Of more than two classes, (n_classes, n_rows, n_train).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._combined_local(X, gate_features)


@fill_docs(GATED)
class FeatureGatedRegressor(RegressorMixin, BaseLocalized):
    """Regressors whose gates are functions of features."""

    n_gate_features_: int

    gates = FeatureGatedClassifier.gates
    gating_matrix = FeatureGatedClassifier.gating_matrix
    combined_kernel = FeatureGatedClassifier.combined_kernel

    def fit(self, X: Samples, y: Targets, gate_features: ArrayLike | None = None) -> Any:
        """Learn gates and regression function.

        Parameters
        ----------
        %(X:training)s
        %(y:target)s
        %(gate_features:training)s

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:gates)s

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        %(KernelQualityWarning)s
        """
        self._check_parameters()
        self._refuse_gate_features(gate_features, not self._is_precomputed())
        kernels, y = self._fit_stack(X, y, y_numeric=True)
        self._fit_local(kernels, np.asarray(y, dtype=np.float64)[None], gate_features)
        return self

    def predict(self, X: Samples, gate_features: ArrayLike | None = None) -> np.ndarray:
        """Predict the target of every row.

        Parameters
        ----------
        %(X)s
        %(gate_features)s

        Returns
        -------
        ndarray of shape (n_rows,)
            In the units of the training target.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:gates)s
        %(TypeError:X)s
        """
        return self._scores_local(X, gate_features)[0]

    def score(
        self,
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
