"""Class labels as targets of binary models, and samples without labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from bayesmkl._estimator.targets import plain_labels
from bayesmkl._utils.typing import Label, Targets
from bayesmkl._utils.warnings import warn_user


def encode_labels(y: Targets) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and one row of targets -1 and +1 for every binary model.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of at least two classes.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted.
    targets : ndarray of shape (1, n_samples) or (n_classes, n_samples)
        Of two classes, the second is +1; of more, each has a row in which it is +1.

    Raises
    ------
    ValueError
        If `y` is not made of class labels, or holds one class only.

    Examples
    --------
    >>> encode_labels(["no", "yes", "no"])
    (array(['no', 'yes'], dtype='<U3'), array([[-1.,  1., -1.]]))
    """
    y = plain_labels(np.asarray(y))
    classes, codes = np.unique(y, return_inverse=True)
    if y.ndim != 1 or 2 * len(classes) > len(y):  # few different labels in one column need no more looks
        check_classification_targets(y)
    if len(classes) < 2:
        raise ValueError(
            f"`y` must hold at least two classes; got one class only: {classes.tolist()[0]!r}. "
            "Check how the training samples were selected."
        )
    positive = [1] if len(classes) == 2 else range(len(classes))
    return classes, np.array([np.where(codes == k, 1.0, -1.0) for k in positive])


class LabelSplit(NamedTuple):
    """Labels of which some are missing.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        As given.
    labeled : ndarray of shape (n_labeled,)
        Positions of samples with a label.
    classes : ndarray of shape (n_classes,)
    targets : ndarray of shape (n_tasks, n_labeled)
        -1 and +1: one task for two classes, one per class (one-versus-rest) for more.
    """

    labels: np.ndarray
    labeled: np.ndarray
    classes: np.ndarray
    targets: np.ndarray

    def transduce(self, scores: np.ndarray) -> np.ndarray:
        """Return the given labels, and predicted ones for the others from scores of shape (n_samples, n_tasks)."""
        codes = scores[:, 0] > 0.0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        found = self.classes[codes.astype(np.intp)]
        found[self.labeled] = self.labels[self.labeled]
        return found


def split_labels(y: Targets, unlabeled_label: Label | None) -> LabelSplit:
    """Find the labeled samples and encode their labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    unlabeled_label : label or None
        Mark of samples without a label; with None all samples have one.

    Raises
    ------
    ValueError
        If fewer than two labels remain beside `unlabeled_label`.

    Examples
    --------
    >>> split = split_labels([-1, 0, 1, -1], unlabeled_label=-1)
    >>> split.labeled, split.classes, split.targets
    (array([1, 2]), array([0, 1]), array([[-1.,  1.]]))
    """
    labels = np.asarray(y)
    if unlabeled_label is None:
        return LabelSplit(labels, np.arange(len(labels)), *encode_labels(labels))
    labeled, left = _find_labeled(labels, unlabeled_label)
    if len(left) < 2:
        raise ValueError(
            f"`y` must hold at least two labels besides `unlabeled_label`={unlabeled_label!r}; got {left}. If "
            f"{unlabeled_label!r} is a class, mark unlabeled samples by another label, or use "
            "`unlabeled_label=None` if there are none."
        )
    return LabelSplit(labels, labeled, *encode_labels(labels[labeled]))


def _find_labeled(labels: np.ndarray, unlabeled_label: Label | None) -> tuple[np.ndarray, list[Any]]:
    """Return the positions of samples with a label, and the different labels in the order of their appearance."""
    labeled = np.flatnonzero([label != unlabeled_label for label in labels.tolist()])
    return labeled, list(dict.fromkeys(labels[labeled].tolist()))


class ClassTargets(NamedTuple):
    """Classes or labels, and the targets of the models that tell them apart."""

    classes: np.ndarray  # (n_classes,), or the numbers of the labels
    targets: np.ndarray  # (n_outputs, n_samples) of -1 and +1, 0 where a sample has no label
    is_multilabel: bool = False


def class_targets(y: Any, unlabeled_label: Label | None = None) -> ClassTargets:
    """Encode classes, several labels per sample, or two classes with unlabeled samples.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Classes, or a matrix of 0 and 1 that says which labels a sample has.
    unlabeled_label : label or None
        Mark of samples without a label; exactly two classes must remain.

    Returns
    -------
    ClassTargets

    Raises
    ------
    ValueError
        If `y` is not made of class labels, holds one class only, one sample of one of two classes, or not exactly two
        classes besides `unlabeled_label`.

    Warns
    -----
    UserWarning
        If there is but one sample of some of more than two classes, or a label is had by no sample or by all.

    Examples
    --------
    >>> class_targets([1, -1, 0], unlabeled_label=-1)
    ClassTargets(classes=array([0, 1]), targets=array([[ 1.,  0., -1.]]), is_multilabel=False)
    """
    if type_of_target(y) == "multilabel-indicator":
        return _label_targets(y, unlabeled_label)
    y = column_or_1d(y, warn=True)
    if unlabeled_label is not None:
        return _partial_targets(y, unlabeled_label)
    classes, targets = encode_labels(y)
    counts = np.unique(y, return_counts=True)[1]
    rare = ", ".join(repr(label) for label in classes[counts < 2].tolist())
    advice = "Merge the class with another, leave the sample out, or stratify the split."
    if rare and len(classes) == 2:
        raise ValueError(
            f"`y` must hold at least two samples of every class; got one of {rare}, of {len(y)} samples. {advice}"
        )
    if rare:  # of one among more the others can be learned
        warn_user(
            f"`y` holds one sample only of {rare}: too little to learn a class from. {advice}", UserWarning
        )
    return ClassTargets(classes, targets)


def _partial_targets(y: np.ndarray, unlabeled_label: Label | None) -> ClassTargets:
    _, left = _find_labeled(y, unlabeled_label)
    if len(left) != 2:
        raise ValueError(
            f"`y` must hold exactly two labels besides `unlabeled_label`={unlabeled_label!r}; got {left}. "
            + (
                "Semi-supervised learning is for two classes: recode `y`, one class against the others. "
                if len(left) > 2
                else ""
            )
            + f"If {unlabeled_label!r} is a class, use `unlabeled_label=None`."
        )
    split = split_labels(y, unlabeled_label)
    targets = np.zeros((1, len(y)))
    targets[:, split.labeled] = split.targets
    return ClassTargets(split.classes, targets)


def _label_targets(y: Any, unlabeled_label: Label | None) -> ClassTargets:
    if unlabeled_label is not None:
        raise ValueError(
            f"`unlabeled_label` is for two classes, not for a matrix of labels; got {unlabeled_label!r}. Fit a model "
            "for each label that has unlabeled samples."
        )
    y = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    targets = np.where(y.T > 0, 1.0, -1.0)
    constant = [label for label, row in enumerate(targets) if abs(row.sum()) == len(row)]
    if constant:
        warn_user(
            f"`y` says the same of all {len(y)} samples for the labels {constant}: nothing can be learned about "
            "them. Leave their columns out.",
            UserWarning,
        )
    return ClassTargets(np.arange(len(targets)), targets, is_multilabel=True)


def most_probable(scores: np.ndarray) -> np.ndarray:
    """Return the positions of the classes that scores speak for.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Of the second of two classes against the first, or of every class.

    Examples
    --------
    >>> most_probable(np.array([-1.0, 2.0])), most_probable(np.array([[0.0, -1.0, 3.0]]))
    (array([0, 1]), array([2]))
    """
    return (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
