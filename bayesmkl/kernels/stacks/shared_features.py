"""Training kernels of a bank by the features that they share."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.functions import Linear
from bayesmkl.kernels.normalize import Center, Normalizer, Trace
from bayesmkl.kernels.sparse import is_sparse
from bayesmkl.kernels.stacks.linear import LinearStack

SHORTER = 4  # times as many entries have dense kernels, at least
MOST_FEATURES = 3  # for every kernel; of more, a sum of kernels takes longer than one of their entries


def linear_stack(bank: KernelBank) -> LinearStack | None:
    """Return the training kernels of a fitted bank by their features; None where they have no such form.

    All of them have to be `Linear`, without a normalization of every sample, all centered or none, and on features
    that they have in common so often that this is short.

    Parameters
    ----------
    bank : KernelBank
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> views = {"a": [0, 1], "b": [1, 2], "c": [0, 2], "d": [0, 1, 2]}
    >>> bank = KernelBank(Linear(), views=views, normalize=("center", "trace")).fit(X)
    >>> stack = linear_stack(bank)
    >>> stack.features.shape, bool(np.allclose(stack.columns(slice(None)), bank.train_stack()))
    ((3, 30), True)
    >>> linear_stack(KernelBank(Linear(), views=views).fit(X)) is None  # of unit self-similarity
    True
    """
    scales = [_scale(own) for own in bank.normalizers_]
    known = (
        bank.landmarks_ is None
        and bank.missing_views == "error"
        and not is_sparse(bank.X_train_)
        and all(type(kernel) is Linear for kernel in bank.kernels_)
        and None not in scales
    )
    origins = [_origin(own) for own in bank.normalizers_]
    is_centered = origins[0] is not None
    if not known or any((one is not None) != is_centered for one in origins):
        return None
    features = [bank.columns_of(m) for m in range(bank.n_kernels_)]
    sizes = np.array([len(own) for own in features])
    indices = np.concatenate(features)
    shape, n_train = (bank.n_kernels_, bank.n_features_in_), len(bank.X_train_)
    used, places = np.unique(indices, return_inverse=True)
    if (
        len(used) > MOST_FEATURES * shape[0]
        or SHORTER * (len(used) * n_train + 2 * len(indices)) > shape[0] * n_train**2
    ):
        return None
    members = csr_array(
        (np.repeat(np.array(scales, dtype=float), sizes), places, np.concatenate([[0], np.cumsum(sizes)])),
        (shape[0], len(used)),
    )
    members.sum_duplicates()  # a view may name a column twice
    return LinearStack(_moved(bank, bank.X_train_, used, is_centered), members)


def linear_rows(bank: KernelBank, stack: LinearStack, X: np.ndarray) -> LinearStack:
    """Return the kernels between new rows and the training samples.

    Parameters
    ----------
    bank : KernelBank
        Fitted.
    stack : LinearStack
        Its training kernels.
    X : ndarray of shape (n_rows, n_features)
        Validated.
    """
    used = np.unique(np.concatenate([bank.columns_of(m) for m in range(bank.n_kernels_)]))
    is_centered = _origin(bank.normalizers_[0]) is not None
    return stack._replace(left=_moved(bank, X, used, is_centered))


def _moved(bank: KernelBank, X: np.ndarray, used: np.ndarray, is_centered: bool) -> np.ndarray:
    """Return the features at `used`, around their training means where kernels are centered, (n_used, n_rows)."""
    features = np.ascontiguousarray(X[:, used].T)
    if is_centered:
        origin = np.empty(bank.n_features_in_)
        for m, own in enumerate(bank.normalizers_):
            origin[bank.columns_of(m)] = _origin(own)
        features -= origin[used, None]
    return features


def _scale(normalizers: list[Normalizer]) -> float | None:
    """Return what normalizations multiply a kernel by, around its origin; None where they do something else."""
    scale = 1.0
    for one in normalizers:
        if isinstance(one, Trace):
            scale *= one.scale
        elif not (isinstance(one, Center) and one.origin is not None):
            return None
    return scale


def _origin(normalizers: list[Normalizer]) -> np.ndarray | None:
    """Return the sample to whose image a kernel moves its origin, if it does."""
    return next((one.origin for one in normalizers if isinstance(one, Center)), None)
