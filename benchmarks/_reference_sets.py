"""Problems whose posteriors are known: kernels, targets, process, likelihood and priors.

Real ones are random rows of bundled data, columns standardized; simulated ones are made here. Every kernel has the
same diagonal, or is scaled by the covariance itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _weighted import StudentT, Weighted
from scipy import special
from sklearn.datasets import load_digits

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import Gamma
from bayesmkl.datasets import load_diabetes, load_iris, load_wdbc, load_wine
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.estimators.settings import of_kernels
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import LogNormal, Mapped, NestedShares
from bayesmkl.kernels import Gaussian, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian as NormalNoise
from bayesmkl.outcomes import Probit

INTERCEPT_STD = 3.0
INTERMEDIATE_STD = 0.3  # of the paper's process
CERTAIN = 1e6  # concentration of a prior that leaves no doubt
README = (Gaussian(width=1), Gaussian(width=4))
EACH = KernelBank(Gaussian(width=1), views="each")
MIXED = (Gaussian(width=2), Gaussian(width=8), Gaussian(width=32), Linear(), Polynomial(degree=2))
THIRDS = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}


class Problem(NamedTuple):
    """What is inferred.

    Attributes
    ----------
    name : str
    data : str
        What the samples and kernels are.
    process : {"additive", "weighted"}
        Of `GPMKL`, or of the BEMKL paper.
    kernel_prior : str
        Of the estimator.
    kernels : ndarray of shape (n_kernels, n_samples, n_samples)
    kernel_names, views : list of str
        Of every kernel.
    target : ndarray of shape (n_samples,)
        Labels -1 and +1, or standardized numbers.
    """

    name: str
    data: str
    process: str
    kernel_prior: str
    kernels: np.ndarray
    kernel_names: list[str]
    views: list[str]
    target: np.ndarray

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers."""
        return not np.isin(self.target, (-1.0, 1.0)).all()

    @property
    def weight_prior(self) -> Any:
        """Prior of the kernel weights of the additive process, with the views of its kernels where it has some."""
        kind = GPMKLRegressor if self.is_regression else GPMKLClassifier
        prior = kind.KERNEL_PRIORS[self.kernel_prior]
        return prior._replace(groups=tuple(self.views)) if isinstance(prior, NestedShares) else prior

    @property
    def model(self) -> Hypermodel:
        """The model, with the evidence that chains move on: of expectation propagation under labels."""
        stack = DenseStack(self.kernels)
        likelihood: Any = NormalNoise() if self.is_regression else Probit()
        evidence = exact_evidence if self.is_regression else ep_evidence
        if self.process == "weighted":
            covariance: Any = Weighted(stack, INTERMEDIATE_STD, INTERCEPT_STD)
            weight_prior: Any = StudentT(2.0, 1.0)
            parameter_prior: Any = RootGamma() if self.is_regression else LogNormal()
        else:
            covariance = Additive(stack, kernel_units(stack), INTERCEPT_STD)
            weight_prior = self.weight_prior
            if isinstance(weight_prior, NestedShares):
                weight_prior = of_kernels(weight_prior, self.kernel_names, self.views, None)
            parameter_prior = LogNormal(0.3, 1.5)
        return Hypermodel(covariance, likelihood, self.target[None], weight_prior, parameter_prior, evidence)


class RootGamma(NamedTuple):
    """Standard deviations of noise whose precision is Gamma(1, 1), the prior of BEMKL, in normal coordinates."""

    median: float = 1.0 / math.sqrt(math.log(2.0))

    def parameters(self, coordinates: np.ndarray) -> Mapped:
        """Return standard deviations, and what pulls a gradient by them back to the coordinates."""
        log_below = special.log_ndtr(coordinates)
        values = 1.0 / np.sqrt(-log_below)
        ratio = np.exp(-0.5 * coordinates**2 - 0.5 * math.log(2.0 * math.pi) - log_below)
        return Mapped(values, lambda gradient: 0.5 * values**3 * ratio * gradient)


def estimator(problem: Problem, inference: Any, random_state: int = 0) -> Any:
    """Return the estimator of the same model, for precomputed kernels."""
    if problem.process == "additive":
        kind = GPMKLRegressor if problem.is_regression else GPMKLClassifier
        return kind(
            "precomputed",
            kernel_prior=problem.weight_prior,
            intercept_std=INTERCEPT_STD,
            together=False,
            inference=inference,
            random_state=random_state,
        )
    same: dict[str, Any] = {
        "sample_prior": known(1.0),
        "bias_prior": known(INTERCEPT_STD),
        "inference": inference,
        "random_state": random_state,
    }
    if problem.is_regression:
        return BEMKLRegressor(
            "precomputed", intermediate_prior=known(INTERMEDIATE_STD), normalize_y=False, **same
        )
    return BEMKLClassifier("precomputed", margin=0.0, intermediate_scale=INTERMEDIATE_STD, **same)


def known(std: float) -> Gamma:
    """Prior of a precision that is known."""
    return Gamma(CERTAIN, CERTAIN * std**2)


def build(name: str) -> Problem:
    """Make one of `PROBLEMS` by name."""
    process, kernel_prior, make = PROBLEMS[name]
    data, bank, X, target = make()
    if np.unique(target).size > 2:
        target = (target - target.mean()) / target.std()
    else:
        target = np.where(target == target.max(), 1.0, -1.0)
    bank._with_together = kernel_prior == "nested"  # the default model
    bank = bank.fit(X)
    kernels = np.ascontiguousarray(bank.train_stack(), dtype=np.float64)
    return Problem(name, data, process, kernel_prior, kernels, bank.kernel_names_, bank.kernel_views_, target)


Made = tuple[str, KernelBank, np.ndarray, np.ndarray]


def _rows(what: str, X: Any, y: Any, n: int, bank: KernelBank, seed: int = 0) -> Made:
    """Random rows of a data set, standardized."""
    chosen = np.random.default_rng(seed).permutation(len(X))[:n]
    X, y = np.asarray(X, dtype=np.float64)[chosen], np.asarray(y)[chosen]
    spread = X.std(axis=0)
    kept = spread > 0.0
    return what, bank, (X[:, kept] - X[:, kept].mean(axis=0)) / spread[kept], y


def _wdbc(n: int, bank: KernelBank, seed: int = 0) -> Made:
    return _rows("wdbc", *load_wdbc(return_X_y=True), n, bank, seed)


def _wine(n: int) -> Made:
    X, y = load_wine(return_X_y=True)
    _, codes = np.unique(y, return_inverse=True)
    bank = KernelBank(
        [Gaussian(width=1), Linear()], views={"0-3": slice(0, 4), "4-8": slice(4, 9), "9-12": slice(9, 13)}
    )
    return _rows("wine, second class against the others", X, codes == 1, n, bank)


def _iris(n: int) -> Made:
    X, y = load_iris(return_X_y=True)
    kept = y != y[0]
    X, y = X[kept], y[kept]
    bank = KernelBank([Gaussian(width=1), Linear()], views={"sepal": slice(0, 2), "petal": slice(2, 4)})
    return _rows("iris, two classes", X, y == y[-1], n, bank)


def _digits(n: int) -> Made:
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, (3, 8))
    return _rows("digits, 3 against 8", X[kept], y[kept], n, KernelBank(list(MIXED)))


def _diabetes(n: int, bank: KernelBank, labels: bool = False) -> Made:
    X, y = load_diabetes(return_X_y=True)
    if labels:
        return _rows("diabetes, target above its median", X, y > np.median(y), n, bank)
    return _rows("diabetes", X, y, n, bank)


def _views(n: int, n_views: int, strength: float, kernels: Any = README, seed: int = 0) -> Made:
    """Views of five standard normal features; labels of a logistic model of three features of the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5 * n_views))
    score = strength * (X[:, :3] @ [2.0, -2.0, 1.5])
    y = rng.random(n) < special.expit(score)
    views = {f"view {v}": list(range(5 * v, 5 * v + 5)) for v in range(n_views)}
    what = (
        f"simulated views, one matters (x {strength:g})" if strength else "simulated views, labels of nothing"
    )
    return what, KernelBank(list(kernels), views=views), X, y


def _smooth(n: int, n_features: int, seed: int = 0) -> Made:
    """Friedman's first function of uniform features, with noise of standard deviation one."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, n_features))
    y = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + rng.normal(size=n)
    y += sum(slope * X[:, j] for j, slope in ((3, 10.0), (4, 5.0)) if j < n_features)
    return "simulated, Friedman's function", EACH, 3.0 * (X - 0.5), y


FEW = {"mean": slice(0, 10), "worst": slice(20, 30)}
FIVE = {f"{v}": slice(2 * v, 2 * v + 2) for v in range(5)}  # of the ten columns of diabetes
THREE = {"first": slice(0, 3), "second": slice(3, 6), "third": slice(6, 10)}
MANY = [Gaussian(width=1), Gaussian(width=2), Gaussian(width=4), Linear(), Polynomial(degree=2)]

PROBLEMS: dict[str, tuple[str, str, Callable[[], Made]]] = {
    # additive, labels
    "a_views_50": ("additive", "half-t", lambda: _views(50, 3, 1.0, (Gaussian(width=4),))),
    "a_wdbc_60": ("additive", "half-t", lambda: _wdbc(60, KernelBank(list(README), views=THIRDS))),
    "a_iris_60": ("additive", "half-t", lambda: _iris(60)),
    "a_wine_100": ("additive", "half-t", lambda: _wine(100)),
    "a_digits_100": ("additive", "half-t", lambda: _digits(100)),
    "a_wdbc_100_nested": ("additive", "nested", lambda: _wdbc(100, KernelBank(list(README), views=THIRDS))),
    "a_wdbc_100_horseshoe": ("additive", "horseshoe", lambda: _wdbc(100, KernelBank(list(README), views=THIRDS))),
    "a_diabetes_150_labels": ("additive", "half-t", lambda: _diabetes(150, KernelBank("paper"), labels=True)),
    "a_views_200": ("additive", "half-t", lambda: _views(200, 4, 1.0)),
    "a_views_200_weak": ("additive", "half-t", lambda: _views(200, 4, 0.35, seed=1)),
    "a_views_200_nothing": ("additive", "half-t", lambda: _views(200, 4, 0.0, seed=2)),
    "a_wdbc_100_each": ("additive", "half-t", lambda: _wdbc(100, EACH)),
    "a_views_100_many": ("additive", "half-t", lambda: _views(100, 10, 1.0, MANY)),
    "a_views_200_nested": ("additive", "nested", lambda: _views(200, 4, 1.0, seed=3)),
    "a_views_200_nothing_nested": ("additive", "nested", lambda: _views(200, 4, 0.0, seed=2)),
    "a_wdbc_398": ("additive", "half-t", lambda: _wdbc(398, KernelBank(list(README), views=THIRDS))),
    # additive, normal noise
    "a_smooth_50": ("additive", "half-t", lambda: _smooth(50, 3)),
    "a_diabetes_60": ("additive", "half-t", lambda: _diabetes(60, KernelBank(list(MIXED)))),
    "a_diabetes_60_horseshoe": ("additive", "horseshoe", lambda: _diabetes(60, EACH)),
    "a_diabetes_100_each": ("additive", "half-t", lambda: _diabetes(100, EACH)),
    "a_smooth_100": ("additive", "half-t", lambda: _smooth(100, 5)),
    "a_diabetes_100": ("additive", "half-t", lambda: _diabetes(100, KernelBank("paper"))),
    "a_smooth_100_dirichlet": ("additive", "dirichlet", lambda: _smooth(100, 10)),
    "a_smooth_150_horseshoe": ("additive", "horseshoe", lambda: _smooth(150, 10)),
    "a_diabetes_100_many": ("additive", "half-t", lambda: _diabetes(100, KernelBank(MANY, views="each"))),
    "a_diabetes_100_nested": ("additive", "nested", lambda: _diabetes(100, KernelBank(MANY, views=THREE))),
    "a_diabetes_300": ("additive", "half-t", lambda: _diabetes(300, KernelBank(list(MIXED)))),
    "a_diabetes_300_dirichlet": ("additive", "dirichlet", lambda: _diabetes(300, EACH)),
    "a_smooth_500": ("additive", "half-t", lambda: _smooth(500, 6)),
    # the paper's process, labels
    "w_views_50": ("weighted", "t", lambda: _views(50, 3, 1.0, (Gaussian(width=4),))),
    "w_wdbc_60": ("weighted", "t", lambda: _wdbc(60, KernelBank(list(README), views=FEW))),
    "w_wine_100": ("weighted", "t", lambda: _wine(100)),
    "w_digits_100": ("weighted", "t", lambda: _digits(100)),
    "w_views_100": ("weighted", "t", lambda: _views(100, 4, 1.0, (Gaussian(width=4),))),
    "w_views_200": ("weighted", "t", lambda: _views(200, 4, 1.0, (Gaussian(width=4),))),
    # the paper's process, normal noise
    "w_iris_60": ("weighted", "t", lambda: _iris(60)),
    "w_smooth_60": ("weighted", "t", lambda: _smooth(60, 4)),
    "w_diabetes_60": ("weighted", "t", lambda: _diabetes(60, KernelBank(Gaussian(width=2), views=THREE))),
    "w_diabetes_100": ("weighted", "t", lambda: _diabetes(100, KernelBank(Gaussian(width=2), views=FIVE))),
    "w_diabetes_100_mixed": ("weighted", "t", lambda: _diabetes(100, KernelBank(list(MIXED)))),
    "w_smooth_100": ("weighted", "t", lambda: _smooth(100, 6)),
    "w_diabetes_300": ("weighted", "t", lambda: _diabetes(300, KernelBank(Gaussian(width=2), views=FIVE))),
}  # fmt: skip
