"""Data, kernels, methods and published numbers of the unified view of localized kernels (Moeller et al. 2016, §5)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bayesmkl.datasets import fetch, load_wdbc
from bayesmkl.discriminative import (
    CLMKLClassifier,
    GMKLClassifier,
    LDMKLClassifier,
    LMKLClassifier,
    MWUMKLClassifier,
    SwMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.kernels import Gaussian, KernelBank, Polynomial

__all__ = [
    "GAMMAS",
    "PROTOCOLS",
    "SETS",
    "TEST_SHARE",
    "VARIANTS",
    "PaperSet",
    "Protocol",
    "Published",
    "Split",
    "Variant",
    "choose_width",
    "evaluate",
    "load",
    "split",
]

GAMMAS = 2.0 ** np.array([-4, -3, -2, -1, 0, 2])  # of the paper's 2^-4, ..., 2^4
CV_ROWS, CV_FOLDS = 400, 3
TEST_SHARE = 0.25


class Published(NamedTuple):
    """A method on a set: tables 2 and 4 of the paper; None where table 2 has no global methods."""

    support: tuple[float, float]  # %
    accuracy: tuple[float, float] | None = None  # %
    seconds: float | None = None


class PaperSet(NamedTuple):
    """A set, the name of its loader, and the published numbers by method."""

    name: str
    published: dict[str, Published]
    n_widths: int = len(GAMMAS)  # the first ones: LibSVM needs minutes where the quadratic kernel is large


class Variant(NamedTuple):
    """One way to fit a method."""

    method: str  # of the paper
    make: Callable[[KernelBank], Any]
    width_of: str | None = None  # the variant whose cross-validation chooses the width; its own by default
    costly: bool = False


class Protocol(NamedTuple):
    """What the paper leaves open: how features are scaled, and which quadratic kernel it has."""

    scaling: str
    factor: str  # of the inner products: "gamma", that of the Gaussian kernel; "1/d"; or "1"
    offset: float

    @property
    def label(self) -> str:
        """For tables."""
        inside = {"gamma": r"\gamma x^\top z", "1/d": r"x^\top z / d", "1": r"x^\top z"}[self.factor]
        return f"{self.scaling}, $({inside}{' + 1' if self.offset else ''})^2$"


class Split(NamedTuple):
    """A training and a test part, scaled by the training part, and the kernels of a width."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    bank: Callable[[float], KernelBank]
    tied: bool = False  # the quadratic kernel has the width's factor as well: use `at`

    def at(self, gamma: float) -> Split:
        """Features as the bank of a width takes them."""
        root = np.sqrt(gamma) if self.tied else 1.0
        return self._replace(X=root * self.X, X_test=root * self.X_test)


SETS = {
    "breast": PaperSet(
        "breast_wisconsin",
        {
            "LMKL": Published((38.0, 3.5), (96.58, 1.35), 122.0),
            "SwMKL": Published((11.4, 1.0), (97.1, 1.1), 0.15),
            "LD-MKL": Published((12.9, 1.1), (97.1, 1.2), 0.14),
            "C-LMKL": Published((10.8, 1.1), (96.7, 1.1), 28.7),
            "MWUMKL": Published((21.0, 1.4)),
            "Uniform": Published((70.2, 1.9)),
            "GMKL": Published((15.1, 1.0)),
        },
    ),
    "diabetes": PaperSet(
        "pima",
        {
            "LMKL": Published((58.0, 1.7), (74.71, 3.07), 157.6),
            "SwMKL": Published((55.2, 1.3), (77.0, 2.7), 0.18),
            "LD-MKL": Published((56.4, 1.3), (76.7, 2.56), 0.24),
            "C-LMKL": Published((73.9, 10.0), (76.4, 2.4), 36.8),
            "MWUMKL": Published((79.1, 1.7)),
            "Uniform": Published((70.0, 2.0)),
            "GMKL": Published((61.9, 1.2)),
        },
    ),
    "german": PaperSet(
        "german_numeric",
        {
            "LMKL": Published((89.2, 2.8), (70.78, 2.85), 216.0),
            "SwMKL": Published((52.2, 3.3), (75.7, 2.4), 0.27),
            "LD-MKL": Published((43.4, 2.4), (75.84, 2.51), 0.38),
            "C-LMKL": Published((99.8, 0.3), (76.8, 1.6), 69.6),
            "MWUMKL": Published((81.7, 1.1)),
            "Uniform": Published((60.8, 1.6)),
            "GMKL": Published((68.4, 1.4)),
        },
        n_widths=4,
    ),
    "liver": PaperSet(
        "bupaliver",
        {
            "LMKL": Published((63.1, 2.3), (62.49, 5.92), 35.4),
            "SwMKL": Published((82.2, 1.7), (69.3, 5.0), 0.1),
            "LD-MKL": Published((70.2, 7.3), (65.19, 5.81), 0.83),
            "C-LMKL": Published((88.1, 2.7), (57.7, 5.1), 7.4),
            "MWUMKL": Published((92.2, 1.6)),
            "Uniform": Published((89.6, 2.6)),
            "GMKL": Published((84.2, 1.9)),
        },
    ),
    "mushrooms": PaperSet(
        "mushrooms",
        {
            "LMKL": Published((1.9, 0.1), (99.99, 0.0), 17.27 * 60),
            "SwMKL": Published((4.3, 0.2), (99.9, 0.0), 14.57),
            "LD-MKL": Published((8.1, 0.8), (100.0, 0.0), 3.1),
            "C-LMKL": Published((4.0, 0.3), (100.0, 0.0), 2.43 * 3600),
            "MWUMKL": Published((22.6, 0.1)),
            "Uniform": Published((96.4, 0.8)),
            "GMKL": Published((15.2, 0.2)),
        },
    ),
}

# The first one is that of the tables: LIBSVM's own scaling, and scikit-learn's polynomial kernel, to which only the
# same gamma is given.
PROTOCOLS = (
    Protocol("[-1, 1]", "gamma", 0.0),
    Protocol("[-1, 1]", "gamma", 1.0),
    Protocol("[-1, 1]", "1/d", 0.0),
    Protocol("[-1, 1]", "1", 1.0),
    Protocol("standardized", "1/d", 0.0),
)

# C = 1 and LibSVM's tolerance everywhere. The paper's variants come first.
VARIANTS = {
    "LMKL, paper's search": Variant(
        "LMKL", lambda b: LMKLClassifier(b, solver="paper", random_state=0), "LMKL", costly=True
    ),
    "LMKL": Variant("LMKL", lambda b: LMKLClassifier(b, random_state=0), costly=True),
    "SwMKL, paper": Variant("SwMKL", lambda b: SwMKLClassifier(b, psd="paper")),
    "SwMKL": Variant("SwMKL", SwMKLClassifier, "SwMKL, paper"),
    "LD-MKL, paper": Variant("LD-MKL", lambda b: LDMKLClassifier(b, sv_gate="paper", bias="drop")),
    "LD-MKL, paper with bias": Variant("LD-MKL", lambda b: LDMKLClassifier(b, sv_gate="paper", bias="keep")),
    "LD-MKL": Variant("LD-MKL", LDMKLClassifier),
    "C-LMKL": Variant("C-LMKL", lambda b: CLMKLClassifier(b, random_state=0), costly=True),
    "Uniform": Variant("Uniform", UniformMKLClassifier),
    "GMKL": Variant("GMKL", GMKLClassifier),
    "MWUMKL": Variant("MWUMKL", MWUMKLClassifier),
}


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a set of the paper, or of wdbc."""
    if name == "wdbc":
        return load_wdbc(return_X_y=True)
    return fetch(SETS[name].name, return_X_y=True)


def split(X: np.ndarray, y: np.ndarray, seed: int, protocol: Protocol = PROTOCOLS[2]) -> Split:
    """Cut off a random quarter, and scale features by the others; binary features stay as they are."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=TEST_SHARE, random_state=seed)
    if not np.isin(X, (0.0, 1.0)).all():
        scaler = (MinMaxScaler((-1, 1)) if protocol.scaling == "[-1, 1]" else StandardScaler()).fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    tied = protocol.factor == "gamma"
    divisor = X.shape[1] if protocol.factor == "1/d" else 1.0
    root = np.sqrt(divisor)

    def bank(gamma: float) -> KernelBank:
        gaussian = Gaussian(gamma=1.0 if tied else gamma * divisor)
        return KernelBank([Polynomial(2, offset=protocol.offset), gaussian], normalize=None)

    return Split(X / root, y, X_test / root, y_test, bank, tied)


def evaluate(variant: Variant, gamma: float, part: Split) -> tuple[float, float, float, bool]:
    """Accuracy (%), support points (%), processor seconds of the fit, and whether it converged."""
    part = part.at(gamma)
    model = variant.make(part.bank(gamma))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # narrow Gaussian kernels are near the identity
        start = time.process_time()
        model.fit(part.X, part.y)
        seconds = time.process_time() - start
        accuracy = 100.0 * model.score(part.X_test, part.y_test)
    return accuracy, 100.0 * model.support_fraction_, seconds, bool(model.converged_)


def choose_width(variant: Variant, gammas: np.ndarray, part: Split, seed: int) -> int:
    """Position of the width with the best accuracy in cross-validation; the widest kernel of equals."""
    rows = np.random.default_rng(seed).permutation(len(part.y))[:CV_ROWS]
    X, y = part.X[rows], part.y[rows]
    folds = list(StratifiedKFold(CV_FOLDS, shuffle=True, random_state=seed).split(X, y))
    accuracies = [
        sum(
            evaluate(variant, gamma, part._replace(X=X[a], y=y[a], X_test=X[b], y_test=y[b]))[0]
            for a, b in folds
        )
        for gamma in gammas
    ]
    return int(np.argmax(accuracies))
