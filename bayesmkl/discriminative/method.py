"""Entry of a discriminative method in the registry, `methods`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["PACKAGE", "TRAITS", "Between", "Form", "Method", "Power"]

PACKAGE = "bayesmkl.discriminative"
TRAITS = {  # what sets a method apart in tests that run over all of them
    "counts samples": "samples that come twice are samples of twice the penalty",
    "leftovers": "kernels without weight and samples without a coefficient can be left out before fitting",
    "rough": "as accurate as its `epsilon`: to a tenth in tests, not to 2e-3",
    "scales kernels": "kernels are divided by a mean of their diagonal inside, so that penalties need no change",
    "svm per kernel": "time grows with the number of kernels times that of an SVM",
    "penalizes weights": "weights find their own scale, unless the regularizer keeps them on the simplex",
    "votes": "every kernel has coefficients of its own: scores are no function of the combined kernel",
}


class Between(NamedTuple):
    """Numbers that soak runs draw uniformly."""

    low: float
    high: float


class Power(NamedTuple):
    """Numbers that soak runs draw as powers of ten, with an exponent that is uniform."""

    low: float
    high: float


class Form(NamedTuple):
    """An estimator with some of its parameters.

    Parameters
    ----------
    estimator : str
    target : str
        Sort of target: "binary", "classes", "partial" (with unlabeled samples), "real" or "none".
    parameters : mapping
    """

    estimator: str
    target: str = "binary"
    parameters: Mapping[str, Any] = {}


class Method(NamedTuple):
    """One method.

    Parameters
    ----------
    algorithm : str
        Its module, below `PACKAGE`; that of its estimators has the same name.
    estimators : tuple of str
        In the order of the API reference.
    others : mapping of str to tuple of str
        Further public names, by module.
    saved : mapping of str to tuple of str
        Further types that fitted models hold, by module.
    kind : {"global", "localized"}
        Whether the kernel weights are the same for all samples.
    traits : frozenset of str
        Of `TRAITS`.
    identities : tuple of Form
        Forms that are the usual SVM on the kernel where there is only one.
    losses : mapping of str to str
        Loss of that SVM by estimator, where it is not "hinge" for classifiers and "tube" for regressors: "squared
        hinge" or "ridge".
    forms : tuple of Form
        Forms whose properties and symmetries are tested, at least one per estimator.
    settings : mapping of str to mapping
        Values that soak runs draw beside the common ones, by estimator: a tuple to choose from, or a range.
    """

    algorithm: str
    estimators: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]] = {}
    saved: Mapping[str, tuple[str, ...]] = {}
    kind: Literal["global", "localized"] = "global"
    traits: frozenset[str] = frozenset()
    identities: tuple[Form, ...] = ()
    losses: Mapping[str, str] = {}
    forms: tuple[Form, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = {}

    @property
    def module(self) -> str:
        """Module of its estimators, below `PACKAGE`."""
        return f"estimators.{self.algorithm.rpartition('.')[2]}"

    def loss(self, estimator: str) -> str:
        """Return the loss of the SVM that an estimator is on one kernel."""
        return self.losses.get(estimator, "tube" if estimator.endswith("Regressor") else "hinge")
