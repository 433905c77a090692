"""Localized classifiers whose gates need nothing but the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.discriminative.estimators.localized import BaseLocalized
from bayesmkl.discriminative.estimators.shared_docs import DISCRIMINATIVE


@fill_docs(DISCRIMINATIVE)
class LocalizedClassifier(ClassifierMixin, BaseLocalized):
    """Classifiers whose gates need nothing but the kernels."""

    def fit(self, X: Samples, y: Targets) -> Any:
        """Learn gates and classifier.

        Parameters
        ----------
        %(X:training)s
        %(y:labels)s

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:y)s

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached.
        UserWarning
            If a vote or inferred switches (LD-MKL, SAMKL) give all training samples one answer.
        %(KernelQualityWarning)s
        """
        self._fit_classes(X, y)
        return self

    def decision_function(self, X: Samples) -> np.ndarray:
        """Return the scores of the rows of `X`.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
            Positive for ``classes_[1]`` in the binary case.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._decide(X)

    def predict(self, X: Samples) -> np.ndarray:
        """Predict the class of every row: the side of zero, or the highest score.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._choose(self._decide(X))

    def gates(self, X: Samples | None = None) -> np.ndarray:
        r"""Return the gates of each kernel at each sample.

        Parameters
        ----------
        %(X)s, default=None
            None is for the training samples.

        Returns
        -------
        ndarray of shape (n_rows, n_kernels)
            :math:`\sqrt{\Gamma_m(x, x)}`; of more than two classes, (n_classes, n_rows, n_kernels).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._gates_local(X)

    def gating_matrix(self, X: Samples, Z: Samples, kernel: int | str) -> np.ndarray:
        r"""Return :math:`\Gamma_m(x, z)`, by which values of one kernel are multiplied.

        Parameters
        ----------
        %(X, Z)s
        kernel : int or str
            Position or name.

        Returns
        -------
        ndarray of shape (n_rows_X, n_rows_Z)
            Of more than two classes, with a leading axis of length n_classes.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
            Also if `kernel` is neither a position nor a name.
        %(TypeError:X)s
        """
        return self._gating_local(self._components_local(X), self._components_local(Z), kernel)

    def combined_kernel(self, X: Samples) -> np.ndarray:
        r"""Return :math:`\sum_m \Gamma_m(x, z) K_m(x, z)` between the rows of `X` and the training samples.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Of more than two classes, (n_classes, n_rows, n_train).

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._combined_local(X)
