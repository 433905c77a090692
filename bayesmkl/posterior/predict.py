"""Predictions of models of this package that scikit-learn's pipelines and searches do not pass on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Samples
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.shared_docs import MODEL

OF_TIMES = "Fit a GPMKLSurvival or a BEMKLSurvival to times to an event."


@fill_docs(MODEL)
@own_settings
def predict_latent(model: BaseEstimator, X: Samples, return_std: bool = False) -> Any:
    """Predict the latent score of new samples with a model inside a pipeline or search.

    Parameters
    ----------
    %(model)s
    %(X)s
    return_std : bool, default=False
        Also return standard deviations.

    Returns
    -------
    mean : ndarray of shape (n_rows,), or (n_rows, n_outputs) of several classes, labels, targets or tasks
        As `predict_latent` of the estimator returns.
    std : ndarray of the same shape
        Standard deviations, with `return_std`.

    Raises
    ------
    TypeError
        For any other model, or one without a latent score.
    NotFittedError
        Before `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import predict_latent
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = make_pipeline(StandardScaler(), BEMKLClassifier(KernelBank())).fit(X, X[:, 0] > 0)
    >>> mean, std = predict_latent(model, X[:5], return_std=True)
    >>> mean.shape, std.shape
    ((5,), (5,))
    """
    remedy = (
        "Use `predict(X, return_std=True)` of the estimator or its pipeline for the moments of the target."
    )
    return _ask(model, X, "predict_latent", remedy, return_std=return_std)


@fill_docs(MODEL)
@own_settings
def predict_survival_function(
    model: BaseEstimator, X: Samples, times: ArrayLike | None = None, ci_prob: float | None = None
) -> Any:
    """Predict the probability that the event is later than some times, with a model inside a pipeline or search.

    Parameters
    ----------
    %(model:times)s
    %(X)s
    times : array-like of shape (n_times,), default=None
        Times, in the units of those of training; None takes the observed times of events.
    ci_prob : float, default=None
        Also return bounds of the equal-tailed interval of this probability content, pointwise.

    Returns
    -------
    survival : ndarray of shape (n_rows, n_times)
        Posterior mean of the survival function of every row.
    lower, upper : ndarray of the same shape
        Its bounds, with `ci_prob`.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl.bemkl import BEMKLSurvival
    >>> from bayesmkl.posterior import predict_survival_function
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = np.rec.fromarrays([np.full(40, True), np.exp(X[:, 0])], names="event,time")
    >>> model = make_pipeline(StandardScaler(), BEMKLSurvival()).fit(X, y)
    >>> predict_survival_function(model, X[:5], [0.5, 1.0]).shape
    (5, 2)
    """
    return _ask(model, X, "predict_survival_function", OF_TIMES, times=times, ci_prob=ci_prob)


@fill_docs(MODEL)
@own_settings
def predict_quantile(model: BaseEstimator, X: Samples, q: float = 0.5) -> np.ndarray:
    """Predict the time until which the event has happened with some probability, inside a pipeline or search.

    Parameters
    ----------
    %(model:times)s
    %(X)s
    q : float, default=0.5
        The probability; 0.5 gives median times.

    Returns
    -------
    ndarray of shape (n_rows,)
        Times, in the units of those of training.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bayesmkl.bemkl import BEMKLSurvival
    >>> from bayesmkl.posterior import predict_quantile
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> y = np.rec.fromarrays([np.full(40, True), np.exp(X[:, 0])], names="event,time")
    >>> predict_quantile(make_pipeline(StandardScaler(), BEMKLSurvival()).fit(X, y), X[:5]).shape
    (5,)
    """
    return _ask(model, X, "predict_quantile", OF_TIMES, q=q)


def _ask(model: BaseEstimator, X: Samples, method: str, remedy: str, **options: Any) -> Any:
    """Call a method of the final estimator on rows that have passed the steps before it."""
    fitted = fitted_bemkl(model, multitask=True)
    if not hasattr(fitted.estimator, method):
        raise TypeError(
            f"`model` must be a model with `{method}`; got {type(fitted.estimator).__name__}. {remedy}"
        )
    return getattr(fitted.estimator, method)(fitted.transform(X), **options)
