"""The standard deviation of the intermediate outputs by cross-validation: the evidence bound cannot choose it.

Held-out probabilities under the one that is chosen say which temperature they should have.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from bayesmkl._estimator import step_progress
from bayesmkl._utils.options import Storage
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.kernels.stacks.base import KernelStack
from bayesmkl.kernels.stacks.dense import DenseStack

SCALES = (0.1, 0.3, 1.0)
USUAL = 1.0  # the paper's, where nothing is compared
N_FOLDS = 5
LEAST_SAMPLES = 3  # of every class, so that two are left in a fold
MOST_SAMPLES = 1000
MOST_ENTRIES = 2**22  # of all kernels: fifteen fits to four fifths of the samples take seconds
LEAST_PROBABILITY = 1e-15
TOL = 1e-4  # of the bound: probabilities need no more
ON_THE_WAY: dict[str, Any] = {
    "inference": "vb",
    "init": "mean",
    "n_init": 1,
    "storage": Storage(backend="numpy"),
    "verbose": 0,
}


class FoldChoice(NamedTuple):
    """What folds say."""

    intermediate_scale: float = USUAL
    held_out: np.ndarray | None = None  # log probabilities (n_samples, n_classes), where scales were compared


def choose_by_folds(model: Any, stack: KernelStack, y: np.ndarray, truth: np.ndarray) -> FoldChoice:
    r"""Return the :math:`\sigma_g` of smallest log loss in five folds, of .1, .3 and 1, and what folds say under it.

    Every fold is fitted by "vb" to a part of the training kernels, under the "nonsparse" prior where that of the
    model has no closed-form updates. Nothing is compared, and the usual one returned, for more than 1000 samples,
    kernels of more than 4 million entries, landmarks, streamed kernels, samples without a view, and classes of fewer
    than three samples.

    Parameters
    ----------
    model : BEMKLClassifier or BEMKLOrdinalClassifier
        Not changed.
    stack : KernelStack
        Training kernels.
    y : ndarray of shape (n_samples,)
        Labels, or what the model makes of them for its folds; every sample has one.
    truth : ndarray of int of shape (n_samples,)
        Numbers of the classes, columns of the probabilities.
    """
    n_samples = len(truth)
    whole = stack.storage != "streamed" and stack.present is None and stack.n_train == n_samples
    few = n_samples <= MOST_SAMPLES and stack.n_kernels * n_samples**2 <= MOST_ENTRIES
    if not few or not whole:
        return FoldChoice()
    smallest = int(np.bincount(truth).min())
    if smallest < LEAST_SAMPLES:
        return FoldChoice()
    closed_form = isinstance(model._kernel_prior(), Gamma)
    on_the_way = ON_THE_WAY | ({} if closed_form else {"kernel_prior": "nonsparse"})
    held_out = np.empty((len(SCALES), n_samples, int(truth.max()) + 1))  # log probabilities
    splitter = StratifiedKFold(min(N_FOLDS, smallest), shuffle=True, random_state=model.random_state or 0)
    folds = list(splitter.split(truth, truth))
    with step_progress(model.verbose > 0, "folds", len(folds), "fold") as report:
        for n, (train, test) in enumerate(folds):
            kernels = stack.columns(train)
            fold, rows = (DenseStack(np.ascontiguousarray(kernels[:, some])) for some in (train, test))
            gram = model._gram(fold)
            for k, scale in enumerate(SCALES):
                own = copy(model).set_params(intermediate_scale=scale, tol=max(model.tol, TOL), **on_the_way)
                task = own._task(fold, gram, y[train])
                options = own._loop_options()._replace(step="coordinate")  # square kernels have no other
                runs = own._runs(task.algorithm, task.problems, task.inits, options)
                results = own._maximize(task.algorithm, runs, options)
                probabilities = own._held_out_probabilities([result.state for result in results], rows)
                held_out[k, test] = np.log(np.maximum(probabilities, LEAST_PROBABILITY))
            if report is not None:
                report(n + 1, "log loss of the scales")
    best = int(np.argmax(held_out[:, np.arange(n_samples), truth].sum(axis=1)))
    return FoldChoice(SCALES[best], held_out[best])
