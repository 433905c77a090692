"""Predictions of grades and of times to an event, which the models of both families have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._estimator.shared_docs import ESTIMATOR
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_probability
from bayesmkl.outcomes.times import check_quantile, concordance, standard_log_times

N_BAND_DRAWS = 1000  # of a survival function


@fill_docs(ESTIMATOR)
class GradePredictions(ClassifierMixin, BaseMKL):
    """Grades and their probabilities."""

    _OUTCOME: ClassVar[str] = "grades"

    classes_: np.ndarray
    target_: np.ndarray

    def _target_in_units(self) -> np.ndarray:
        return self.classes_[self.target_.astype(int)]

    def _log_grades(self, X: Samples) -> np.ndarray:
        """Return log probabilities of grades, (n_rows, n_classes)."""
        raise NotImplementedError

    def predict_proba(self, X: Samples) -> np.ndarray:
        """Predict probabilities of the grades.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Samples) -> np.ndarray:
        """Predict log class probabilities, which stay accurate where `predict_proba` rounds to 0 or 1.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Logarithms of what `predict_proba` returns.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._log_grades(X)

    def predict(self, X: Samples) -> np.ndarray:
        """Predict the most probable grade.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Grades from `classes_`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


@fill_docs(ESTIMATOR)
class SurvivalPredictions(BaseMKL):
    """Survival functions, quantiles of times, and the score of risks."""

    _OUTCOME: ClassVar[str] = "times"

    log_time_mean_: float
    log_time_scale_: float
    event_times_: np.ndarray
    target_: np.ndarray
    predict: Callable[..., np.ndarray]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        return np.exp(self.log_time_mean_ + self.log_time_scale_ * values)

    def _target_in_units(self) -> np.ndarray:
        return self._in_units(np.where(np.isfinite(self.target_[0]), self.target_[0], self.target_[1]))

    def _survival_curves(self, X: Samples, log_times: np.ndarray) -> tuple[np.ndarray, Iterator[np.ndarray]]:
        """Return mean probabilities of later events, (n_rows, n_times), and draws of each row, (n_draws, n_times).

        Log times are standardized.
        """
        raise NotImplementedError

    def _log_quantiles(self, X: Samples, q: float) -> np.ndarray:
        """Return the standardized log time of each row by which the event has happened with probability `q`."""
        raise NotImplementedError

    def predict_survival_function(self, X: Samples, times: Any = None, ci_prob: float | None = None) -> Any:
        """Predict the probability that the event happens after each of the given times.

        Parameters
        ----------
        %(X)s
        %(times)s
        %(ci_prob)s

        Returns
        -------
        %(survival)s
        %(lower, upper)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        tail = None if ci_prob is None else 0.5 * (1.0 - check_probability("ci_prob", ci_prob))
        check_is_fitted(self, "posterior_")
        at = self.event_times_ if times is None else times
        log_times = standard_log_times(at, self.log_time_mean_, self.log_time_scale_)
        survival, drawn = self._survival_curves(X, log_times)
        if tail is None:
            return survival
        lower, upper = np.empty_like(survival), np.empty_like(survival)
        for row, of_row in enumerate(drawn):
            lower[row], upper[row] = np.quantile(of_row, [tail, 1.0 - tail], axis=0)
        return survival, lower, upper

    def predict_quantile(self, X: Samples, q: float = 0.5) -> np.ndarray:
        """Predict the time by which the event has happened with probability `q`.

        Parameters
        ----------
        %(X)s
        %(q)s

        Returns
        -------
        ndarray of shape (n_rows,)
            Times, in the units of the training times. Beyond the largest training time they rest on the likelihood
            alone.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._in_units(self._log_quantiles(X, check_quantile(q)))

    def score(self, X: Samples, y: Targets) -> float:
        """Return the concordance index of predicted risks and times (see `bayesmkl.evaluation.concordance_index`).

        Parameters
        ----------
        %(X)s
        %(y:times)s

        Returns
        -------
        float
            Fraction of the comparable pairs whose order is predicted correctly; guessing gives 0.5.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        """
        return concordance(self.predict(X), y)
