"""Comparison of local weights with global ones at samples that were held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl.kernels.stacks.base import SymmetricStack
from bayesmkl.kernels.stacks.dense import DenseStack

Folds = Sequence[tuple[np.ndarray, np.ndarray]]
# takes training kernels, kernels of the validation samples and both positions; returns scores of the global model
# and of the local one
ScoreBoth = Callable[[DenseStack, DenseStack, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Comparison(NamedTuple):
    """Samples to hold out, and how scores are judged.

    Parameters
    ----------
    folds : sequence of (ndarray, ndarray)
        Training and validation positions.
    errors : callable
        Takes targets and scores of the validation samples and returns an error for each.
    rng : Generator
        Draws what fits in the folds draw.
    """

    folds: Folds
    errors: Callable[[np.ndarray, np.ndarray], np.ndarray]
    rng: np.random.Generator


def local_weights_help(
    comparison: Comparison, stack: SymmetricStack, target: np.ndarray, score_both: ScoreBoth
) -> bool:
    """Return whether local weights lower the errors at held-out samples by more than one standard error.

    Parameters
    ----------
    comparison : Comparison
    stack : SymmetricStack
        Training kernels.
    target : ndarray of shape (n_train,)
    score_both : callable
        Fits both models in a fold; see `ScoreBoth`.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([-1.0, 1.0, -1.0, 1.0])
    >>> halves = [(np.array([0, 1]), np.array([2, 3])), (np.array([2, 3]), np.array([0, 1]))]
    >>> wrong = Comparison(halves, lambda y, f: (y * f <= 0.0).astype(float), np.random.default_rng(0))
    >>> stack = DenseStack(np.ones((1, 4, 4)))
    >>> local_weights_help(wrong, stack, target, lambda K, K_new, train, new: (-target[new], target[new]))
    True
    >>> local_weights_help(wrong, stack, target, lambda K, K_new, train, new: (target[new], target[new]))
    False
    """
    gains = []
    for train, validated in comparison.folds:
        columns = stack.columns(train)
        square, rows = (DenseStack(columns[:, part]) for part in (train, validated))
        scores = score_both(square, rows, train, validated)
        global_errors, local_errors = (comparison.errors(target[validated], f) for f in scores)
        gains.append(global_errors - local_errors)
    gain = np.concatenate(gains)
    return bool(gain.mean() > gain.std() / np.sqrt(gain.size))
