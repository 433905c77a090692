"""Training data of the tasks of an estimator: kernels, weights of the samples, and what tasks share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl.kernels.stacks.base import StoredStack


class SampleWeights(NamedTuple):
    """Weights of the training samples; None is for weights of one.

    Parameters
    ----------
    counts : ndarray of shape (n_samples,) or None
        How often a sample counts, everywhere: in means and alignments as well as in losses.
    costs : ndarray of shape (n_samples,) or None
        Factors of `C`: `counts` times the weight of the class.
    """

    counts: np.ndarray | None = None
    costs: np.ndarray | None = None


UNWEIGHTED = SampleWeights()


class Training(NamedTuple):
    """What all tasks of a fit share.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    weights : SampleWeights
    gram : ndarray of shape (n_kernels, n_kernels) or None
        Frobenius products of the kernels, where the method needs them.
    """

    stack: StoredStack
    weights: SampleWeights = UNWEIGHTED
    gram: np.ndarray | None = None
