"""Models of `outcomes.py`: what each predicts of the test part."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _outcome_data import Split
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import nbinom, norm, poisson
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.bemkl import BEMKLOrdinalClassifier
from bayesmkl.gp import GPMKLOrdinalClassifier, Marginal

N_DRAWS, AT_ONCE = 4000, 400
PENALTIES = np.logspace(-3, 2, 11)


class Prediction(NamedTuple):
    """What a model says: probabilities of grades, or means, and log probabilities or densities of test targets."""

    probabilities: np.ndarray | None = None  # (n_test, n_grades)
    mean: np.ndarray | None = None  # (n_test,)
    log_scores: np.ndarray | None = None  # (n_test,)
    distances: np.ndarray | None = None  # of cut points: lower end, estimate, upper end


def log_predictive(model: GPMKLRegressor, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return log probabilities or densities of new targets, (n_test,), on average over draws of their scores."""
    rng, moments = np.random.default_rng(0), model._moments(X)
    target = np.asarray(model.target_)
    counts = target.ndim == 2  # counts and offsets
    y = np.array([y, np.full(len(y), target[1, 0])]) if counts else (y - model.y_mean_) / model.y_scale_
    found = []
    for _ in range(N_DRAWS // AT_ONCE):
        point = rng.choice(len(moments.probability), size=AT_ONCE, p=moments.probability)
        noise = rng.standard_normal((AT_ONCE, len(X)))
        score = moments.mean[point, 0] + np.sqrt(moments.variance[point, 0]) * noise
        own = moments.parameters[point, 0].T[..., None]
        found.append(logsumexp(model.likelihood_.log_density(y, score, own), axis=0))
    return logsumexp(found, axis=0) - np.log(N_DRAWS) - np.log(model.y_scale_)


def distances_of(model: GPMKLOrdinalClassifier) -> np.ndarray:
    """Return the distances of cut points with the ends of their 94 % intervals, (3, n_distances)."""
    draws = model.posterior_
    found = []
    for own in draws.parameters[:, 0].T:
        order = np.argsort(own)
        below = np.cumsum(draws.probability[order]) - 0.5 * draws.probability[order]
        lower, upper = np.interp([0.03, 0.97], below, own[order])
        found.append([lower, own @ draws.probability, upper])
    return np.array(found).T


# ----------------------------------------------------------------------------------------------------------- grades


def _graded(split: Split, inference: str | Marginal) -> Prediction:
    model = GPMKLOrdinalClassifier(KernelBank("auto", views=split.views), inference=inference)
    model.fit(split.X, split.y)
    return Prediction(model.predict_proba(split.X_test), distances=distances_of(model))


def _graded_in_closed_form(split: Split, inference: Any) -> Prediction:
    """Cut points have no uncertainty there."""
    model = BEMKLOrdinalClassifier(KernelBank("auto", views=split.views)).fit(split.X, split.y)
    distances = np.diff(model.cut_points_)
    return Prediction(model.predict_proba(split.X_test), distances=np.array([distances] * 3))


def _ordered(law: str) -> Callable[[Split, Any], Prediction]:
    def predict(split: Split, inference: Any) -> Prediction:
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        fit = OrderedModel(split.y, split.X, distr=law).fit(method="bfgs", maxiter=1000, disp=False)
        n_features = split.X.shape[1]
        cuts = np.asarray(fit.model.transform_threshold_params(np.asarray(fit.params)))[1:-1]
        draws = np.random.default_rng(0).multivariate_normal(
            np.asarray(fit.params), fit.cov_params(), size=2000
        )
        widths = np.exp(draws[:, n_features + 1 :])  # statsmodels' parameters are log distances
        lower, upper = np.quantile(widths, [0.03, 0.97], axis=0)
        probabilities = np.asarray(fit.model.predict(fit.params, exog=split.X_test))
        return Prediction(probabilities, distances=np.array([lower, np.diff(cuts), upper]))

    return predict


def _multinomial(split: Split, inference: Any) -> Prediction:
    """Penalty by the log loss of five folds."""
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": PENALTIES}, scoring="neg_log_loss", cv=5)
    return Prediction(search.fit(split.X, split.y).predict_proba(split.X_test))


def _frequencies(split: Split, inference: Any) -> Prediction:
    """The same for everybody."""
    counts = np.bincount(split.y)
    return Prediction(np.tile(counts / counts.sum(), (len(split.X_test), 1)))


# ----------------------------------------------------------------------------------------------------------- counts


def _counted(likelihood: str) -> Callable[[Split, Any], Prediction]:
    def predict(split: Split, inference: str | Marginal) -> Prediction:
        bank = KernelBank("auto", views=split.views)
        model = GPMKLRegressor(bank, likelihood=likelihood, inference=inference).fit(split.X, split.y)
        mean = model.predict(split.X_test)
        return Prediction(mean=mean, log_scores=log_predictive(model, split.X_test, split.y_test))

    return predict


def _glm_poisson(split: Split, inference: Any) -> Prediction:
    import statsmodels.api as sm

    fit = sm.GLM(split.y, sm.add_constant(split.X), family=sm.families.Poisson()).fit()
    mean = fit.predict(sm.add_constant(split.X_test, has_constant="add"))
    return Prediction(mean=mean, log_scores=poisson.logpmf(split.y_test, mean))


def _negative_binomial(split: Split, inference: Any) -> Prediction:
    import statsmodels.api as sm

    fit = sm.NegativeBinomial(split.y, sm.add_constant(split.X)).fit(disp=0, maxiter=500)
    mean = fit.predict(sm.add_constant(split.X_test, has_constant="add"))
    return Prediction(mean=mean, log_scores=_log_nb(split.y_test, mean, fit.params[-1]))


def _penalized_poisson(split: Split, inference: Any) -> Prediction:
    """Penalty by the deviance of five folds."""
    search = GridSearchCV(
        PoissonRegressor(max_iter=1000), {"alpha": PENALTIES}, scoring="neg_mean_poisson_deviance", cv=5
    )
    mean = search.fit(split.X, split.y).predict(split.X_test)
    return Prediction(mean=mean, log_scores=poisson.logpmf(split.y_test, mean))


def _same_counts(split: Split, inference: Any) -> Prediction:
    """The same negative binomial for everybody."""
    mean = split.y.mean()
    best = minimize_scalar(
        lambda log_spread: -_log_nb(split.y, mean, np.exp(log_spread)).sum(),
        bounds=(-10.0, 5.0),
        method="bounded",
    )
    log_scores = _log_nb(split.y_test, mean, np.exp(best.x))
    return Prediction(mean=np.full(len(split.y_test), mean), log_scores=log_scores)


def _log_nb(y: np.ndarray, mean: Any, spread: float) -> np.ndarray:
    """Return log probabilities of counts with the variance mean + spread * mean ** 2."""
    return nbinom.logpmf(y, 1.0 / spread, 1.0 / (1.0 + spread * mean))


# --------------------------------------------------------------------------------------------------------- outliers


def _huber(split: Split, inference: Any) -> Prediction:
    """Penalty by the absolute error of five folds; no predictive distribution."""
    grid = {"alpha": PENALTIES * len(split.y)}
    search = GridSearchCV(HuberRegressor(max_iter=1000), grid, scoring="neg_median_absolute_error", cv=5)
    with warnings.catch_warnings(action="ignore"):
        return Prediction(mean=search.fit(split.X, split.y).predict(split.X_test))


def _same_number(split: Split, inference: Any) -> Prediction:
    """Mean and variance of everybody."""
    mean = np.full(len(split.y_test), split.y.mean())
    return Prediction(mean=mean, log_scores=norm.logpdf(split.y_test, mean, split.y.std()))


OURS = {
    "grades": ("GPMKLOrdinalClassifier", "BEMKLOrdinalClassifier"),
    "counts": ("GPMKLRegressor, negative binomial", "GPMKLRegressor, Poisson"),
    "outliers": ("GPMKLRegressor, Student t", "GPMKLRegressor, Gaussian"),
}
PEERS = {
    "grades": ("ordered probit", "ordered logit"),
    "counts": ("negative binomial", "Poisson GLM", "penalized Poisson"),
    "outliers": ("Huber regression",),
}
OF_STATSMODELS = {"ordered probit", "ordered logit", "negative binomial", "Poisson GLM"}
MODELS: dict[str, dict[str, Callable[[Split, Any], Prediction]]] = {
    "grades": {
        "class frequencies": _frequencies,
        OURS["grades"][0]: _graded,
        OURS["grades"][1]: _graded_in_closed_form,
        "ordered probit": _ordered("probit"),
        "ordered logit": _ordered("logit"),
        "multinomial logistic regression": _multinomial,
    },
    "counts": {
        "one distribution": _same_counts,
        OURS["counts"][0]: _counted("negative-binomial"),
        OURS["counts"][1]: _counted("poisson"),
        "negative binomial": _negative_binomial,
        "Poisson GLM": _glm_poisson,
        "penalized Poisson": _penalized_poisson,
    },
    "outliers": {
        "one distribution": _same_number,
        OURS["outliers"][0]: _counted("student-t"),
        OURS["outliers"][1]: _counted("gaussian"),
        "Huber regression": _huber,
    },
}
