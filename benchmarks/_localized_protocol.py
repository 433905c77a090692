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
from bayesmkl.reproduction import localized as paper

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

GAMMAS = np.array(paper.GAMMAS)
CV_ROWS, CV_FOLDS = 400, 3
TEST_SHARE = paper.TEST_SHARE


class Published(NamedTuple):
    """A method on a set: tables 2 and 4 of the paper; None where table 2 has no global methods."""

    support: tuple[float, float]  # %
    accuracy: tuple[float, float] | None = None  # %
    seconds: float | None = None


class PaperSet(NamedTuple):
    """A set, the name of its loader, and the published numbers by method."""

    name: str
    published: dict[str, Published]
    n_widths: int  # the first ones: LibSVM needs minutes where the quadratic kernel is large


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


def _published(name: str) -> dict[str, Published]:
    """Put what tables 2 and 4 have of a set together."""
    accuracies = dict(zip(paper.LOCALIZED, paper.WITH_LIBSVM[name], strict=True))
    seconds = dict(zip(paper.LOCALIZED, paper.SECONDS[name], strict=True))
    support = dict(zip(paper.ALL, paper.SUPPORT[name], strict=True))
    return {
        method: Published(share, accuracies.get(method), seconds.get(method))
        for method, share in support.items()
        if share is not None
    }


SETS = {
    s.name: PaperSet(s.source.name, _published(s.name), paper.N_WIDTHS.get(s.name, len(GAMMAS)))
    for s in paper.SETS
    if s.name in ("breast", "diabetes", "german", "liver", "mushrooms")
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


GATES = {"gate_targets": "train", "gate_kernel": "own"}  # of the paper


def ld_mkl(bank: KernelBank, **settings: Any) -> LDMKLClassifier:
    """LD-MKL with the threshold of the paper and LibSVM's tolerance."""
    return LDMKLClassifier(bank, threshold="paper", temperature=1.0, tol=1e-3, **GATES | settings)


def sw_mkl(bank: KernelBank, **settings: Any) -> SwMKLClassifier:
    """SwMKL with gates that are the regressions themselves."""
    return SwMKLClassifier(bank, temperature=None, **GATES | settings)


# C = 1 and LibSVM's tolerance everywhere. The paper's variants come first.
VARIANTS = {
    "LMKL, paper's search": Variant(
        "LMKL",
        lambda b: LMKLClassifier(b, solver="paper", fallback=False, random_state=0),
        "LMKL",
        costly=True,
    ),
    "LMKL": Variant("LMKL", lambda b: LMKLClassifier(b, fallback=False, random_state=0), costly=True),
    "SwMKL, paper": Variant("SwMKL", lambda b: sw_mkl(b, psd="paper")),
    "SwMKL": Variant("SwMKL", sw_mkl, "SwMKL, paper"),
    "LD-MKL, paper": Variant("LD-MKL", lambda b: ld_mkl(b, sv_gate="paper", bias="drop")),
    "LD-MKL, paper with bias": Variant("LD-MKL", lambda b: ld_mkl(b, sv_gate="paper", bias="keep")),
    "LD-MKL": Variant("LD-MKL", ld_mkl),
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
