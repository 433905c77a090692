"""Every discriminative estimator: quick settings for its interface, accurate ones for its numbers."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
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


# --------------------------------------------------------------------------------------------------- references


def squared_hinge_scores(kernel, y, C, rows):
    """Scores of the machine with squared hinge loss, by a hard margin on K + I / C."""
    machine = SVC(kernel="precomputed", C=1e5, tol=1e-8).fit(kernel + np.eye(len(y)) / C, y)
    return rows[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0]


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


class Case(NamedTuple):
    """An estimator with some of its parameters, and the machine that it is for one kernel.

    `regularized`: the objective also prices the weights, so that they need not sum to anything known. `votes`: every
    kernel has an SVM of its own, and scores are no function of the combined kernel.
    """

    name: str
    parameters: dict[str, Any]
    reference: Any = hinge_scores
    regularized: bool = False
    votes: bool = False

    def make(self, C=1.0, scale=1.0, **more):
        """Return the estimator for kernels that were multiplied by `scale`, equal in effect to that for scale one."""
        parameters = {
            "tol": 1e-6,
            "epsilon": 5e-3 if self.name == "MWUMKLClassifier" else 0.1,
            "max_iter": 20_000,
        }
        price = {"C": C / scale, "reg": scale / C, "gamma_ambient": scale / C, "reg_weights": 1.0 / scale}
        if self.name in ("EasyMKLClassifier", "MWUMKLClassifier"):  # kernels are scaled inside
            price |= {"C": C, "reg": 0.1}
        if self.name == "GMKLClassifier" and "regularizer" not in self.parameters:
            price["regularizer"] = lambda d: (float(d.sum()) / scale, np.ones(len(d)) / scale)
        settings = known(self.name, parameters | price) | self.parameters | more
        return ESTIMATORS[self.name]("precomputed", **settings)

    def __str__(self) -> str:
        return "-".join([self.name, *(str(value) for value in self.parameters.values())])


CASES = [
    Case("UniformMKLClassifier", {}),
    Case("BestKernelClassifier", {"cv": 3}),
    Case("LPBoostMKLClassifier", {"cv": 3}, votes=True),
    *(
        Case("AlignmentMKLClassifier", {"method": method})
        for method in ("ratio", "convex", "align", "alignf")
    ),
    Case("EasyMKLClassifier", {}),
    *(Case("OBMKLClassifier", {"method": method}) for method in ("ratio", "qp", "aqp")),
    *(Case("SimpleMKLClassifier", {"solver": solver}) for solver in ("spg", "reduced-gradient")),
    Case("SILPMKLClassifier", {}),
    *(Case("LpMKLClassifier", {"p_norm": p_norm}) for p_norm in (1.0, 2.0)),
    Case("GMKLClassifier", {"regularizer": "uniform"}),
    Case("GMKLClassifier", {}, regularized=True),
    Case("SMOMKLClassifier", {}, regularized=True),
    *(Case("PrimalMKLClassifier", {"weights": w}, squared_hinge_scores) for w in ("spg", "closed")),
    Case("LapMKLClassifier", {"gamma_intrinsic": 0.0}, squared_hinge_scores),
    Case("MWUMKLClassifier", {}, squared_hinge_scores),
]
REGRESSION_CASES = [
    Case("UniformMKLRegressor", {}, tube_scores),
    *(Case("AlignmentMKLRegressor", {"method": method}, tube_scores) for method in ("align", "alignf")),
    Case("SimpleMKLRegressor", {}, tube_scores),
    Case("LpMKLRegressor", {"p_norm": 2.0}, tube_scores),
    Case("PrimalMKLRegressor", {}, ridge_scores),
]
