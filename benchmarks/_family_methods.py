"""What the study of classes compares: BEMKL for several classes, support vector machines, Gaussian processes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from _family_sets import ClassSet, Part, bank_of
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_score

from bayesmkl import BEMKLClassifier
from bayesmkl.discriminative import BestKernelClassifier, UniformMKLClassifier
from bayesmkl.kernels import KernelBank

PRICES = (1.0, 10.0, 100.0)  # C of support vector machines, chosen inside the training samples
INNER_FOLDS = 3


class Limits(NamedTuple):
    """Most sweeps of BEMKL, and most steps of the search for a Gaussian process's width and height."""

    sweeps: int = 1000
    gp_steps: int = 10


class Predicted(NamedTuple):
    """Class probabilities of test samples, processor seconds of the fit, and how BEMKL's sweeps ended."""

    probabilities: np.ndarray  # (n_rows, n_classes)
    seconds: float
    sweeps: int = 0  # of all models
    converged: bool = True


def predict(method: str, data: ClassSet, part: Part, limits: Limits) -> Predicted:
    """Fit a method to the training part, and predict the classes of the test part."""
    with warnings.catch_warnings():
        # narrow kernels near the identity, sweeps that end early: both are reported
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = METHODS[method](data, part, limits)
        seconds = time.process_time() - start
        probabilities = model.predict_proba(part.X_test)
    sweeps = int(np.sum(getattr(model, "n_iter_", 0))) if method in BEMKL else 0
    return Predicted(probabilities, seconds, sweeps, bool(getattr(model, "converged_", True)))


# ----------------------------------------------------------------------------------------------------- the methods


def _bemkl(multiclass: str, noise: float, data: ClassSet, part: Part, limits: Limits) -> Any:
    model = BEMKLClassifier(
        bank_of(data), multiclass=multiclass, intermediate_scale=noise, max_iter=limits.sweeps, margin=1.0
    )
    return model.fit(part.X, part.y)


def _best_machine(data: ClassSet, part: Part, limits: Limits) -> Any:
    """Support vector machine on the kernel, at the price, of the best accuracy in cross-validation."""
    bank = bank_of(data)
    tried = [
        BestKernelClassifier(bank, C=price, cv=INNER_FOLDS, multiclass="shared").fit(part.X, part.y)
        for price in PRICES
    ]
    best = max(tried, key=lambda model: model.cv_scores_.max())
    position, fitted = int(best.cv_scores_.argmax()), best.kernel_bank_
    of_view = len(fitted.kernels_) // len(fitted.views_)
    view = fitted.views_[position // of_view]
    alone = KernelBank(clone(fitted.kernels_[position]), views={view.name: view.columns})
    return _calibrated(UniformMKLClassifier(alone, C=best.C), part)


def _uniform_machine(data: ClassSet, part: Part, limits: Limits) -> Any:
    """Support vector machine on the mean of the kernels, its price chosen by cross-validation."""
    folds = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=0)
    models = [UniformMKLClassifier(bank_of(data), C=price) for price in PRICES]
    accuracies = [cross_val_score(model, part.X, part.y, cv=folds).mean() for model in models]
    return _calibrated(models[int(np.argmax(accuracies))], part)


def _calibrated(machine: Any, part: Part) -> Any:
    """Give a machine probabilities by Platt's sigmoid on held-out scores."""
    folds = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=0)
    return CalibratedClassifierCV(machine, method="sigmoid", cv=folds, ensemble=False).fit(part.X, part.y)


def _gaussian_process(data: ClassSet, part: Part, limits: Limits) -> Any:
    """Laplace's approximation, one process per class, with a Gaussian kernel on all features."""
    kernel = ConstantKernel(10.0) * RBF(float(np.median(pdist(part.X))))
    search = partial(_descend, n_steps=limits.gp_steps)
    return GaussianProcessClassifier(kernel, optimizer=search).fit(part.X, part.y)


def _descend(objective: Any, start: np.ndarray, bounds: np.ndarray, n_steps: int) -> tuple[np.ndarray, float]:
    options = {"maxiter": n_steps}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x, float(found.fun)


BEMKL = {
    "shared": partial(_bemkl, "shared", 1.0),
    "one-versus-all": partial(_bemkl, "one-versus-all", 1.0),
    "multinomial": partial(_bemkl, "multinomial", 1.0),
    "shared, σ_g = 0.1": partial(_bemkl, "shared", 0.1),
    "one-versus-all, σ_g = 0.1": partial(_bemkl, "one-versus-all", 0.1),
}
METHODS: dict[str, Callable[[ClassSet, Part, Limits], Any]] = BEMKL | {
    "SVM, best kernel": _best_machine,
    "SVM, mean of kernels": _uniform_machine,
    "Gaussian process": _gaussian_process,
}


# ------------------------------------------------------------------------------------------------------ the measure


def loss(y: np.ndarray, probabilities: np.ndarray, classes: np.ndarray) -> float:
    """Mean negative log probability of the true class, in nats."""
    return float(log_loss(y, probabilities, labels=classes))
