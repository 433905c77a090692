"""The standard deviation of the intermediate outputs by cross-validation: the evidence bound cannot choose it.

Held-out probabilities under the one that is chosen say which temperature they should have.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from bayesmkl._estimator import ClassTargets, step_progress
from bayesmkl._estimator.temperature import find_temperature
from bayesmkl._utils.options import Storage
from bayesmkl._utils.validation import check_scale, shown
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.kernels.stacks.base import KernelStack, StoredStack
from bayesmkl.kernels.stacks.dense import DenseStack, stored_array

__all__ = ["USUAL", "FoldChoice", "checked_scale", "choose_by_folds", "compare_scales"]

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
    temperature: float = 1.0  # of the probabilities


def checked_scale(model: Any) -> float:
    r"""Return the :math:`\sigma_g` in use, checked: as given, or as chosen; before that the usual one."""
    value = model.intermediate_scale
    if not isinstance(value, str):
        return check_scale("intermediate_scale", value)
    if value != "auto":
        raise ValueError(f'`intermediate_scale` must be "auto" or a positive number; got {shown(value)}.')
    return getattr(model, "intermediate_scale_", USUAL)


def choose_by_folds(model: Any, stack: KernelStack, y: np.ndarray, labels: ClassTargets) -> FoldChoice:
    r"""Return the :math:`\sigma_g` of smallest log loss in five folds, of .1, .3 and 1, and the temperature there.

    Every fold is fitted by "vb" to a part of the training kernels, under the "nonsparse" prior where that of the
    model has no closed-form updates. Nothing is compared, and both are 1, for more than 1000 samples, kernels of more
    than 4 million entries, landmarks, streamed kernels, several devices, samples without a label or a view, several
    labels per sample, and classes of fewer than three samples.

    Parameters
    ----------
    model : BEMKLClassifier
        Not changed.
    stack : KernelStack
        Training kernels.
    y : ndarray of shape (n_samples,), (n_samples, 1) or (n_samples, n_labels)
        Labels.
    labels : ClassTargets
        What `y` says.
    """
    if labels.is_multilabel or not (labels.targets != 0.0).all():
        return FoldChoice()
    y, targets = y.ravel(), labels.targets
    truth = np.argmax(targets, axis=0) if len(targets) > 1 else (targets[0] > 0.0).astype(int)
    scale, held_out = compare_scales(model, stack, y, truth)
    if held_out is None:
        return FoldChoice(scale)
    return FoldChoice(scale, find_temperature(held_out, truth, sharpen=len(targets) > 1))


def compare_scales(
    model: Any, stack: KernelStack, y: np.ndarray, truth: np.ndarray
) -> tuple[float, np.ndarray | None]:
    r"""Return the :math:`\sigma_g` alone, for classes or grades that every sample has, and what folds say under it.

    That is log probabilities of samples that were held out, (n_samples, n_classes), or None if nothing is compared.

    Parameters
    ----------
    model : BEMKLClassifier or BEMKLOrdinalClassifier
        Not changed.
    stack : KernelStack
        Training kernels.
    y : ndarray of shape (n_samples,)
        Labels, or what the model makes of them for its folds.
    truth : ndarray of int of shape (n_samples,)
        Numbers of the classes, columns of the probabilities.
    """
    whole = stack.storage != "streamed" and stack.present is None and stack.n_rows == stack.n_train
    few = stack.n_rows <= MOST_SAMPLES and stack.n_kernels * stack.n_rows**2 <= MOST_ENTRIES
    if not few or not whole or stack.mesh is not None:
        return USUAL, None
    smallest = int(np.bincount(truth).min())
    if smallest < LEAST_SAMPLES:
        return USUAL, None
    closed_form = isinstance(model._kernel_prior(), Gamma)
    on_the_way = ON_THE_WAY | ({} if closed_form else {"kernel_prior": "nonsparse"})
    held_out = np.empty((len(SCALES), len(truth), int(truth.max()) + 1))  # log probabilities
    kernels = stored_array(cast(StoredStack, stack))
    splitter = StratifiedKFold(min(N_FOLDS, smallest), shuffle=True, random_state=model.random_state or 0)
    folds = list(splitter.split(truth, truth))
    with step_progress(model.verbose > 0, "folds", len(folds), "fold") as report:
        for n, (train, test) in enumerate(folds):
            columns = DenseStack(kernels[:, :, train])
            fold, rows = columns.rows(train), columns.rows(test)
            gram = model._gram(fold)
            for k, scale in enumerate(SCALES):
                own = clone(model).set_params(intermediate_scale=scale, tol=max(model.tol, TOL), **on_the_way)
                probabilities = own._fold_probabilities(fold, gram, y[train], rows)
                held_out[k, test] = np.log(np.maximum(probabilities, LEAST_PROBABILITY))
            if report is not None:
                report(n + 1, "log loss of the scales")
    best = int(np.argmax(held_out[:, np.arange(len(truth)), truth].sum(axis=1)))
    return SCALES[best], held_out[best]
