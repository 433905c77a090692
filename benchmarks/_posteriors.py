"""Data, kernel banks and posteriors that the studies of the inferences share."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from _protocol import have_real_data, split
from papers.uci import fetch
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl.draws import PosteriorDraws, share_draws, variational_draws
from bayesmkl.datasets import load_diabetes, load_wdbc
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack

LEVEL = 0.94  # of all intervals
N_DRAWS = 4000  # from a variational posterior


class Case(NamedTuple):
    """A data set and how many kernels are used on it."""

    name: str
    n_kernels: int
    estimator: Any

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return self.estimator is BEMKLRegressor


class Subset(NamedTuple):
    """Training samples and the held-out rest, standardized by the training part."""

    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray


CLASSIFIER: Any = partial(BEMKLClassifier, margin=1.0, intermediate_scale=1.0)


def cases() -> list[Case]:
    """List wdbc, sonar and diabetes; digits (3 against 8, bundled) stands in where sonar is not at hand."""
    second = "sonar" if have_real_data() else "digits"
    return [Case("wdbc", 6, CLASSIFIER), Case(second, 8, CLASSIFIER), Case("diabetes", 8, BEMKLRegressor)]


def case(name: str) -> Case:
    """Find one of `cases` by name."""
    return next(c for c in cases() if c.name == name)


def kernel_bank(n_kernels: int) -> KernelBank:
    """Gaussians, linear and polynomials of degree 2 and 3 on all features."""
    widths = {4: (4.0,), 6: (2.0, 8.0, 32.0), 8: (2.0, 4.0, 8.0, 16.0, 32.0)}[n_kernels]
    return KernelBank(
        [*(Gaussian(width=w) for w in widths), Linear(), Polynomial(degree=2), Polynomial(degree=3)]
    )


def subset(which: Case, seed: int, n_train: int = 100) -> Subset:
    """Draw a random subset to train on; classes keep their shares."""
    return Subset(*split(*_load(which.name), n_train, seed, stratified=not which.is_regression))


def _load(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        kept = np.isin(y, (3, 8))
        return X[kept], y[kept]
    if name == "wdbc":
        return load_wdbc(return_X_y=True)
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    return fetch(name, return_X_y=True)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence warnings whose content is part of the printed tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", KernelQualityWarning)
        yield


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result with the seconds by the clock and of processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def training_problem(model: Any) -> Any:
    """What a fitted model was fitted to."""
    return model._problems(DenseStack(model.kernel_bank_.train_stack()))[0]


def flat_draws(posterior: Any, n_draws: int = N_DRAWS, seed: int = 0) -> PosteriorDraws:
    """Draws with one leading axis: all that there are, or `n_draws` from a variational posterior."""
    if isinstance(posterior, PosteriorDraws):
        return posterior.flat()
    return variational_draws(posterior, n_draws, np.random.default_rng(seed)).flat()


def shares(problem: Any, draws: PosteriorDraws) -> np.ndarray:
    """Kernel shares of every draw, (n_draws, n_kernels)."""
    return share_draws(problem.stack, draws.dual, draws.kernel_weights)


def inside(values: np.ndarray, draws: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """Whether each value lies in the central interval of the draws; the first axis is that of the draws."""
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return (values >= low) & (values <= high)


def held_out_nll(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log predictive density in nats; in regression that of a normal with mean and std of the model."""
    if isinstance(model, BEMKLRegressor):
        return -float(norm.logpdf(y, *model.predict(X, return_std=True)).mean())
    codes = np.searchsorted(model.classes_, y)
    return -float(np.log(model.predict_proba(X)[np.arange(len(y)), codes]).mean())
