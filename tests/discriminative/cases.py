"""Every discriminative estimator: quick settings for its interface, accurate ones for its numbers."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest
from methods_tried import TRIED
from sklearn.base import is_classifier, is_regressor
from sklearn.svm import SVC, SVR

import bayesmkl.discriminative
from bayesmkl import KernelBank
from bayesmkl.discriminative.estimators.localized import BaseLocalized
from bayesmkl.kernels import Gaussian, Linear

EVERY = {
    name: getattr(bayesmkl.discriminative, name)
    for name in bayesmkl.discriminative.__all__
    if inspect.isclass(getattr(bayesmkl.discriminative, name))
    and name.endswith(("Classifier", "Regressor", "OneClass"))
}
LOCALIZED = {name: cls for name, cls in EVERY.items() if issubclass(cls, BaseLocalized)}
ESTIMATORS = {
    name: cls for name, cls in EVERY.items() if name not in LOCALIZED
}  # one set of weights for all samples
CLASSIFIERS = [name for name, cls in ESTIMATORS.items() if is_classifier(cls())]
REGRESSORS = [name for name, cls in ESTIMATORS.items() if is_regressor(cls())]
QUICK: dict[str, Any] = {"max_iter": 10, "tol": 0.05, "epsilon": 0.2, "cv": 2}  # where it has the parameter


def bank():
    return KernelBank([Gaussian(width=1), Linear()])


def known(name, parameters):
    """Return those of `parameters` that the estimator has."""
    return {key: value for key, value in parameters.items() if key in EVERY[name]().get_params()}


def quick(name, kernels=None, **parameters):
    """Return an estimator that stops early, for checks of the interface."""
    return EVERY[name](bank() if kernels is None else kernels, **known(name, QUICK) | parameters)


def some(names):
    """Leave all but every third name to the slow tests, where the estimators share what is checked."""
    return [pytest.param(name, marks=[pytest.mark.slow] * bool(k % 3)) for k, name in enumerate(names)]


# --------------------------------------------------------------------------------------------------- references


def squared_hinge_scores(kernel, y, C, rows):
    """Scores of the SVM with squared hinge loss, by a hard margin on K + I / C."""
    svm = SVC(kernel="precomputed", C=1e5, tol=1e-8).fit(kernel + np.eye(len(y)) / C, y)
    return rows[:, svm.support_] @ svm.dual_coef_[0] + svm.intercept_[0]


def hinge_scores(kernel, y, C, rows):
    return SVC(kernel="precomputed", C=C, tol=1e-8).fit(kernel, y).decision_function(rows)


def tube_scores(kernel, y, C, rows):
    return SVR(kernel="precomputed", C=C, epsilon=0.1, tol=1e-8).fit(kernel, y).predict(rows)


def ridge_scores(kernel, y, C, rows):
    """Kernel ridge regression with an intercept, by its linear system."""
    n = len(y)
    system = np.block([[kernel + np.eye(n) / C, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    *dual, intercept = np.linalg.solve(system, np.append(y, 0.0))
    return rows @ np.array(dual) + intercept


MACHINES = {
    "hinge": hinge_scores,
    "squared hinge": squared_hinge_scores,
    "tube": tube_scores,
    "ridge": ridge_scores,
}


class Case(NamedTuple):
    """An estimator with some of its parameters, and the SVM that it is for one kernel."""

    name: str
    parameters: dict[str, Any]
    reference: Any
    traits: frozenset[str]

    @property
    def regularized(self) -> bool:
        """Whether the objective also penalizes the weights, so that they need not sum to anything known."""
        return "penalizes weights" in self.traits and self.parameters.get("regularizer") != "uniform"

    @property
    def votes(self) -> bool:
        """Whether every kernel has coefficients of its own, and scores are no function of the combined kernel."""
        return "votes" in self.traits

    @property
    def is_rough(self) -> bool:
        """Whether the method is as accurate as its `epsilon`."""
        return "rough" in self.traits

    def make(self, C=1.0, scale=1.0, **more):
        """Return the estimator for kernels that were multiplied by `scale`, equal in effect to that for scale one."""
        parameters = {"tol": 1e-6, "epsilon": 5e-3 if self.is_rough else 0.1, "max_iter": 20_000}
        price = {"C": C / scale, "reg": scale / C, "gamma_ambient": scale / C, "reg_weights": 1.0 / scale}
        if "scales kernels" in self.traits:
            price |= {"C": C, "reg": 0.1}
        if self.name == "GMKLClassifier" and "regularizer" not in self.parameters:
            price["regularizer"] = lambda d: (float(d.sum()) / scale, np.ones(len(d)) / scale)
        settings = known(self.name, parameters | price) | self.parameters | more
        return ESTIMATORS[self.name]("precomputed", **settings)

    def __str__(self) -> str:
        return "-".join([self.name, *(str(value) for value in self.parameters.values())])


def cases_of(targets):
    """Return the forms of all methods that are one SVM where there is one kernel, with such a target."""
    return [
        Case(form.estimator, dict(form.parameters), MACHINES[tried.loss(form.estimator)], tried.traits)
        for tried in TRIED.values()
        for form in tried.identities
        if form.target in targets
    ]


CASES, REGRESSION_CASES = cases_of(["binary"]), cases_of(["real"])
