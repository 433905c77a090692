"""Class labels as the targets of binary models."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["encode_labels"]


def encode_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
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
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"`y` must hold at least two classes; got one class only: {classes.tolist()[0]!r}. "
            "Check how the training samples were selected."
        )
    positive = [1] if len(classes) == 2 else range(len(classes))
    return classes, np.array([np.where(codes == k, 1.0, -1.0) for k in positive])
