"""Weights of samples and of classes: `fit` with them, checks, and factors of the regularization parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._estimator import encode_labels
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import float_of, shown
from bayesmkl.discriminative.estimators.shared_docs import DISCRIMINATIVE

if TYPE_CHECKING:
    from bayesmkl.discriminative.estimators.base import (
        BaseDiscriminative,
        DiscriminativeClassifier,
        DiscriminativeRegressor,
    )


@fill_docs(DISCRIMINATIVE)
def fit_weighted_classes(
    self: DiscriminativeClassifier, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
) -> Any:
    """Learn kernel weights and classifier.

    Parameters
    ----------
    %(X:training)s
    %(y:labels)s
    %(sample_weight)s

    Returns
    -------
    self : estimator
        The fitted estimator.

    Raises
    ------
    %(ValueError:parameters)s
    %(TypeError:y)s

    Warns
    -----
    %(ConvergenceWarning)s
    %(KernelQualityWarning)s
    """
    self._fit_tasks(*self._prepare(X, y, sample_weight))
    return self


@fill_docs(DISCRIMINATIVE)
def fit_weighted_target(
    self: DiscriminativeRegressor, X: Samples, y: Targets, sample_weight: ArrayLike | None = None
) -> Any:
    """Learn kernel weights and regression function.

    Parameters
    ----------
    %(X:training)s
    %(y:target)s
    %(sample_weight)s

    Returns
    -------
    self : estimator
        The fitted estimator.

    Raises
    ------
    %(ValueError:parameters)s
    %(TypeError:y)s

    Warns
    -----
    %(ConvergenceWarning)s
    %(KernelQualityWarning)s
    """
    self._fit_tasks(*self._prepare(X, y, sample_weight))
    return self


def check_class_weight(class_weight: Any) -> None:
    """Raise for what can be no weights of classes, whatever the classes are.

    Examples
    --------
    >>> check_class_weight({"rare": 0.0})
    Traceback (most recent call last):
    ...
    ValueError: `class_weight` must hold finite numbers > 0; got 0.0 for class 'rare'. To leave a class out, leave ...
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            '`class_weight` must be None, "balanced" or a dict of a weight for each class; got '
            f"{shown(class_weight)}. Weights of single samples are the `sample_weight` of `fit`."
        )
    for label, weight in class_weight.items():
        if not 0.0 < float_of(weight) < np.inf:
            raise ValueError(
                f"`class_weight` must hold finite numbers > 0; got {shown(weight)} for class {shown(label)}. To "
                "leave a class out, leave its samples out."
            )


def encode_counted(y: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return classes and targets of `encode_labels`; samples that do not count make no class, and are of none.

    Examples
    --------
    >>> encode_counted(np.array([2, 0, 1, 0]), np.array([0.0, 1.0, 3.0, 1.0]))
    (array([0, 1]), array([[-1., -1.,  1., -1.]]))
    """
    if counts is None:
        return encode_labels(y)
    kept = np.flatnonzero(counts)
    classes, encoded = encode_labels(np.asarray(y)[kept])
    targets = np.full((len(encoded), len(counts)), -1.0)
    targets[:, kept] = encoded
    return classes, targets


def weigh(
    class_weight: Any, classes: np.ndarray, y: np.ndarray, counts: np.ndarray | None
) -> np.ndarray | None:
    r"""Return factors of `C`, (n_samples,): `counts` times the weight of the class; None where all are one.

    "balanced" is :math:`W / (K W_c)`, with the sum :math:`W_c` of the counts of class `c`, their total `W`, and `K`
    classes.

    Examples
    --------
    >>> weigh("balanced", np.array([0, 1]), np.array([0, 1, 1, 1]), np.array([3.0, 1.0, 1.0, 1.0]))
    array([3., 1., 1., 1.])
    """
    if class_weight is None:
        return counts
    among = np.asarray(y)[:, None] == classes
    ones = np.ones(len(among)) if counts is None else counts
    if isinstance(class_weight, Mapping):
        factors = _of_classes(class_weight, classes)
    else:
        factors = ones.sum() / (len(classes) * (ones @ among))
    costs = ones * (among @ factors)
    return None if np.all(costs == 1.0) else costs


def _of_classes(class_weight: Mapping[Any, Any], classes: np.ndarray) -> np.ndarray:
    """Return the weight of each class, one where none is given; refuse labels that are likely misspelled."""
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    without = [label for label in labels if label not in class_weight]
    if unknown and without:
        raise ValueError(
            f"`class_weight` must name classes of `y`, {shown(labels)}; got {shown(unknown)}, and no weight for "
            f"{shown(without)}. Use the labels as they are in `y`."
        )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def refuse_clipped(model: BaseDiscriminative, counts: np.ndarray | None) -> None:
    """Raise where kernels were clipped by eigenvalues that count all samples once."""
    if counts is not None and model.clipping_ is not None:
        raise ValueError(
            '`sample_weight` must be None where `indefinite="clip"` clips kernels, whose eigenvalues count every '
            "sample once; got kernels that are not positive semidefinite. Leave them out, or repeat samples."
        )
