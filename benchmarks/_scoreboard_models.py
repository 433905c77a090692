"""Models of the scoreboard: those of this package, and what one would otherwise take."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _scoreboard_sets import Split
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.svm import SVC, SVR

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.discriminative import (
    SimpleMKLClassifier,
    SimpleMKLRegressor,
    UniformMKLClassifier,
    UniformMKLRegressor,
)

CONSTANT, TRUTH = "class frequencies, or a constant", "truth (simulated sets)"
TODAY = "BEMKL, margin 1, σ_g = 1, paper bank"
DEFAULT = "BEMKL, auto bank"
ONE_DIRICHLET = "GPMKL, auto bank, one Dirichlet, no products"
WITH_ALL = "auto and all"
FOLDS = 5
TREES = 500
PACKAGES = {"himalaya": "himalaya", "TabPFN": "tabpfn"}  # of models that need one more


class Prediction(NamedTuple):
    """Probabilities of the classes; or mean and standard deviation of a normal distribution of the target."""

    probabilities: np.ndarray | None = None
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    notes: dict[str, Any] | None = None


class Model(NamedTuple):
    """A row of the scoreboard."""

    classify: Callable[[Split], Prediction] | None
    regress: Callable[[Split], Prediction] | None
    about: str
    extra: str = ""  # where it runs, on the first splits: see `models_for` of scoreboard.py

    def of(self, task: str) -> Callable[[Split], Prediction] | None:
        """Return what runs on a task, if anything does."""
        return self.regress if task == "regression" else self.classify


def _bank(kernels: str, data: Split) -> KernelBank:
    """Kernels on every view; of "auto and all" also on a view of all features."""
    views: Any = data.views or "all"
    if kernels == WITH_ALL:
        return KernelBank("auto", views={**views, "all features": list(range(data.X.shape[1]))})
    return KernelBank(kernels, views=views)


def _classified(model: Any, data: Split, **notes: Any) -> Prediction:
    return Prediction(probabilities=model.fit(data.X, data.y).predict_proba(data.X_test), notes=notes)


def _constant_std(mean: np.ndarray, variance: float) -> Prediction:
    """Predict with one variance of the residuals for all samples."""
    return Prediction(mean=np.ravel(mean), std=np.full(len(mean), np.sqrt(variance)))


def _with_held_out(model: Any, data: Split) -> Prediction:
    """Fit, and predict with the variance of held-out residuals."""
    held_out = cross_val_predict(model, data.X, data.y, cv=FOLDS)
    model.fit(data.X, data.y)
    return _constant_std(model.predict(data.X_test), float(np.mean((data.y - held_out) ** 2)))


# ---------------------------------------------------------------------------------------------- this package


Facts = Callable[[Any], dict[str, Any]]


def _classifier(kind: Any, kernels: str, facts: Facts, **options: Any) -> Callable[[Split], Prediction]:
    """Fit with every default but the bank and these options."""

    def classify(data: Split) -> Prediction:
        model = kind(_bank(kernels, data), **options)
        return _classified(model, data)._replace(notes=facts(model))

    return classify


def _regressor(kind: Any, kernels: str | None, facts: Facts, **options: Any) -> Callable[[Split], Prediction]:
    """Do the same of targets; without kernels with the default bank."""

    def regress(data: Split) -> Prediction:
        given = {"views": data.views} if kernels is None else {"kernels": _bank(kernels, data)}
        model = kind(**given, **options).fit(data.X, data.y)
        mean, std = model.predict(data.X_test, return_std=True)
        return Prediction(mean=mean, std=std, notes=facts(model))

    return regress


def _ending(model: Any) -> dict[str, Any]:
    return {"converged": bool(model.converged_)}


def _ending_and_scale(model: Any) -> dict[str, Any]:
    return _ending(model) | {"intermediate_scale": model.intermediate_scale_}


def _ending_and_tail(model: Any) -> dict[str, Any]:
    return _ending(model) | {"pareto_k": round(float(np.max(model.pareto_k_)), 2)}


def _bemkl(kernels: str, **options: float) -> Callable[[Split], Prediction]:
    return _classifier(BEMKLClassifier, kernels, _ending_and_scale, **options)


def _bemkl_regression(kernels: str) -> Callable[[Split], Prediction]:
    return _regressor(BEMKLRegressor, kernels, _ending)


def _gpmkl(kernels: str, **options: Any) -> Callable[[Split], Prediction]:
    return _classifier(GPMKLClassifier, kernels, _ending_and_tail, **options)


def _gpmkl_regression(kernels: str | None, **options: Any) -> Callable[[Split], Prediction]:
    return _regressor(GPMKLRegressor, kernels, _ending_and_tail, **options)


def _calibrated(estimator: Any, grid: dict[str, Any], data: Split) -> Prediction:
    """Choose by accuracy in folds, then fit sigmoids in folds."""
    search = GridSearchCV(estimator, grid, cv=FOLDS, refit=False).fit(data.X, data.y)
    best = estimator.set_params(**search.best_params_)
    return _classified(CalibratedClassifierCV(best, method="sigmoid", cv=FOLDS), data, **search.best_params_)


def _svm(kind: Any) -> Callable[[Split], Prediction]:
    return lambda data: _calibrated(kind(_bank("auto", data)), {"C": [1.0, 10.0, 100.0]}, data)


def _svm_regression(kind: Any) -> Callable[[Split], Prediction]:
    return lambda data: _with_held_out(kind(_bank("auto", data)), data)


# ------------------------------------------------------------------------------------ what users would take


def _constant(data: Split) -> Prediction:
    shares = np.unique(data.y, return_counts=True)[1] / len(data.y)
    return Prediction(probabilities=np.tile(shares, (len(data.y_test), 1)))


def _constant_target(data: Split) -> Prediction:
    return _constant_std(np.full(len(data.y_test), data.y.mean()), float(data.y.var()))


def _truth(data: Split) -> Prediction:
    if data.truth is None:
        raise LookupError("the truth is known of simulated sets only")
    if data.task == "regression":
        return Prediction(mean=data.truth[:, 0], std=data.truth[:, 1])
    return Prediction(probabilities=data.truth)


def _logistic(data: Split) -> Prediction:
    model = LogisticRegressionCV(
        Cs=np.logspace(-3.0, 3.0, 13),
        cv=FOLDS,
        scoring="neg_log_loss",
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
        max_iter=2000,
    )
    return _classified(model, data)


def _gammas(data: Split) -> np.ndarray:
    return np.logspace(-2.0, 1.0, 4) / data.X.shape[1]


def _svc(data: Split) -> Prediction:
    return _calibrated(SVC(), {"C": [0.1, 1.0, 10.0, 100.0], "gamma": _gammas(data)}, data)


def _forest(data: Split) -> Prediction:
    return _classified(RandomForestClassifier(TREES, random_state=data.seed), data)


def _boosting(data: Split) -> Prediction:
    return _classified(HistGradientBoostingClassifier(random_state=data.seed), data)


def _boosting_regression(data: Split) -> Prediction:
    return _with_held_out(HistGradientBoostingRegressor(random_state=data.seed), data)


def _tabpfn(data: Split) -> Prediction:
    from tabpfn import TabPFNClassifier

    return _classified(TabPFNClassifier(random_state=data.seed), data)


def _tabpfn_regression(data: Split) -> Prediction:
    from tabpfn import TabPFNRegressor

    return _with_held_out(TabPFNRegressor(random_state=data.seed), data)


def _rbf(data: Split, each: bool = False) -> Any:
    width = np.sqrt(data.X.shape[1])
    return ConstantKernel() * RBF(np.full(data.X.shape[1], width) if each else width)


def _gaussian_process(data: Split) -> Prediction:
    return _classified(GaussianProcessClassifier(_rbf(data)), data)


def _ridge(data: Split) -> Prediction:
    model = RidgeCV(alphas=np.logspace(-3.0, 4.0, 15), store_cv_results=True).fit(data.X, data.y)
    left_out = float(model.cv_results_.mean(axis=0).min())
    return _constant_std(model.predict(data.X_test), left_out)


def _svr(data: Split) -> Prediction:
    grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": _gammas(data)}
    search = GridSearchCV(SVR(), grid, cv=FOLDS, scoring="neg_mean_squared_error").fit(data.X, data.y)
    return _constant_std(search.predict(data.X_test), -float(search.best_score_))


def _forest_regression(data: Split) -> Prediction:
    model = RandomForestRegressor(TREES, oob_score=True, random_state=data.seed).fit(data.X, data.y)
    out_of_bag = float(np.mean((data.y - model.oob_prediction_) ** 2))
    return _constant_std(model.predict(data.X_test), out_of_bag)


def _gp_regression(each: bool) -> Callable[[Split], Prediction]:
    def regress(data: Split) -> Prediction:
        kernel = _rbf(data, each) + WhiteKernel()
        model = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=data.seed)
        mean, std = model.fit(data.X, data.y).predict(data.X_test, return_std=True)
        return Prediction(mean=mean, std=std)

    return regress


def _himalaya(data: Split) -> Prediction:
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    bank = _bank("auto", data)
    kernels = np.ascontiguousarray(np.moveaxis(bank.fit_transform(data.X), -1, 0))
    options = {"alphas": np.logspace(-5.0, 5.0, 11), "progress_bar": False}
    model = MultipleKernelRidgeCV(
        kernels="precomputed", solver_params=options, cv=FOLDS, random_state=data.seed
    )
    model.fit(kernels, data.y)  # its mean is zero
    unexplained = -float(np.max(model.cv_scores_))  # scores are negative mean squared errors
    return _constant_std(model.predict(bank.row_stack(data.X_test)), unexplained)


def is_installed(model: str) -> bool:
    """Say whether the package of a model is installed."""
    return model not in PACKAGES or importlib.util.find_spec(PACKAGES[model]) is not None


MODELS: dict[str, Model] = {
    CONSTANT: Model(_constant, _constant_target, "shares of the classes; mean and standard deviation"),
    TRUTH: Model(_truth, _truth, "what the samples were drawn from"),
    TODAY: Model(_bemkl("paper", margin=1.0, intermediate_scale=1.0), None, "the paper's loop, converged"),
    DEFAULT: Model(_bemkl("auto"), _bemkl_regression("auto"), "every default"),
    "BEMKL, paper bank": Model(_bemkl("paper"), _bemkl_regression("paper"), "every other default", "all"),
    **{
        f"BEMKL, σ_g = {scale:g}, {bank} bank": Model(
            _bemkl(bank, margin=0.0, intermediate_scale=scale), None, "margin 0", "all"
        )
        for bank in ("paper", "auto")
        for scale in (1.0, 0.3, 0.1)
    },
    "GPMKL": Model(_gpmkl("auto"), _gpmkl_regression(None), "every default"),
    "GPMKL, paper bank": Model(_gpmkl("paper"), _gpmkl_regression("paper"), "every other default", "plain"),
    ONE_DIRICHLET: Model(
        _gpmkl("auto", kernel_prior="dirichlet", together=False),
        _gpmkl_regression("auto", kernel_prior="dirichlet", together=False),
        "the default before 0.3",
        "all",
    ),
    "GPMKL, T = 1": Model(_gpmkl("auto", temperature=1.0), None, "without a temperature", "classes"),
    f"{DEFAULT}, T = 1": Model(_bemkl("auto", temperature=1.0), None, "without a temperature", "classes"),
    f"{DEFAULT}, also on all features": Model(
        _bemkl(WITH_ALL), _bemkl_regression(WITH_ALL), "every other default", "views"
    ),
    "GPMKL, also on all features": Model(
        _gpmkl(WITH_ALL), _gpmkl_regression(WITH_ALL), "every other default", "views"
    ),
    "GPMKL, given widths": Model(None, _gpmkl_regression("auto"), "auto bank"),
    "SimpleMKL, sigmoid": Model(
        _svm(SimpleMKLClassifier), _svm_regression(SimpleMKLRegressor), "auto bank, C by folds"
    ),
    "uniform weights, sigmoid": Model(
        _svm(UniformMKLClassifier), _svm_regression(UniformMKLRegressor), "auto bank, C by folds"
    ),
    "logistic or ridge regression": Model(_logistic, _ridge, "penalty by folds, or leave-one-out"),
    "SVC or SVR, sigmoid": Model(_svc, _svr, "C and width by folds"),
    "random forest": Model(_forest, _forest_regression, f"{TREES} trees"),
    "boosted trees": Model(_boosting, _boosting_regression, "scikit-learn's, by histograms"),
    "GP, learned width": Model(_gaussian_process, _gp_regression(False), "scikit-learn's; Laplace"),
    "GP, a width for each feature": Model(None, _gp_regression(True), "scikit-learn's"),
    "himalaya": Model(None, _himalaya, "multiple-kernel ridge, auto bank"),
    "TabPFN": Model(_tabpfn, _tabpfn_regression, "its package fetches the weights"),
}
