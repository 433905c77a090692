"""Base class of novelty detectors: the threshold of their scores, and scores in the convention of scikit-learn."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import OutlierMixin

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_number
from bayesmkl.discriminative.estimators.base import BaseDiscriminative
from bayesmkl.discriminative.estimators.shared_docs import DISCRIMINATIVE
from bayesmkl.kernels.views import check_samples


@fill_docs(DISCRIMINATIVE)
class NoveltyDetector(OutlierMixin, BaseDiscriminative):
    """Novelty detectors: one task without labels, and a threshold that a share of the training samples may set."""

    contamination: str | float
    offset_: float

    def _check_contamination(self) -> None:
        share = self.contamination
        is_auto = isinstance(share, str) and share == "auto"
        if not is_auto and check_number("contamination", share, low=0.0) > 0.5:
            raise ValueError(f'`contamination` must be "auto" or a share of at most 0.5; got {share!r}.')

    def fit(self, X: Samples, y: Targets | None = None) -> Self:
        """Fit kernel weights and the one-class SVM.

        Parameters
        ----------
        %(X:training)s
        y : None
            Ignored.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        %(ValueError:parameters)s
        %(TypeError:X)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
        """
        self._check_parameters()
        share = self.contamination
        stack, nothing = self._fit_stack(X, np.zeros(check_samples(X, may_be_sparse=self._may_be_sparse())))
        self._fit_tasks(stack, nothing[None])
        self.offset_ = -float(self.intercept_)
        if share != "auto":
            self.offset_ = float(np.quantile(self._scores_of(stack)[0] - self.intercept_, float(share)))
        return self

    def score_samples(self, X: Samples) -> np.ndarray:
        """Return the scores `s` of the rows of `X`, high for what resembles the training samples.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            High for what resembles the training samples; `offset_` is the threshold.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._scores(X)[0] - self.intercept_

    def decision_function(self, X: Samples) -> np.ndarray:
        """Return ``score_samples(X) - offset_``, negative for outliers.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Zero at the threshold `offset_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Samples) -> np.ndarray:
        """Return 1 for rows that resemble the training samples and -1 for outliers.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            1 or -1, as whole numbers.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
