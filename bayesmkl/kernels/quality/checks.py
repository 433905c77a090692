"""Quality checks of a bank of kernels: errors for unusable ones, one warning for misleading ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesmkl._utils.warnings import warn_user
from bayesmkl.kernels.quality.definiteness import describe_indefinite, indefinite_kernels
from bayesmkl.kernels.quality.inspector import (
    KernelInspector,
    KernelQualityWarning,
    check_entries,
    is_asymmetric,
)
from bayesmkl.kernels.quality.verdicts import remembered

__all__ = [
    "Fitness",
    "KernelInspector",
    "KernelQualityWarning",
    "check_kernel_stack",
    "describe_indefinite",
    "indefinite_kernels",
    "judge_for_svm",
    "refuse_unusable",
]

# Largest |K - K'| relative to the largest entry that single precision can leave.
REFUSED_ASYMMETRY = 1e-5


def check_kernel_stack(
    kernels: np.ndarray,
    names: Sequence[str],
    *,
    known_psd: np.ndarray | None = None,
    definiteness: bool = True,
    present: np.ndarray | None = None,
    self_similarity: np.ndarray | None = None,
    lost: np.ndarray | None = None,
) -> None:
    """Check training kernels once: raise for NaN and infinity, warn once about everything doubtful.

    Kernels that were checked before in this process are recognized, and what was found is said again (`verdicts`).

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train) or (n_kernels, n_train, n_landmarks)
        Training kernels, float64.
    names : sequence of str of length n_kernels
        Their name in messages.
    known_psd : array-like of bool of shape (n_kernels,), default=None
        Kernels that are symmetric and positive semidefinite by their formula and need no test; None tests all.
    definiteness : bool, default=True
        Whether to test the others for positive semidefiniteness, for callers that do not do it themselves.
    present : ndarray of bool of shape (n_kernels, n_train), default=None
        The samples that have what each kernel compares; each kernel is judged on them alone. None: all of them.
    self_similarity : ndarray of shape (n_kernels,), default=None
        Mean self-similarities, for kernels between samples and landmarks, which have no diagonal: they need be
        neither symmetric nor definite. None: the kernels are those among samples.
    lost : ndarray of shape (n_kernels,), default=None
        Rounding errors that centering has left, see `KernelBank.centering_errors`. None: none.

    Raises
    ------
    ValueError
        For a wrong shape, NaN or infinity.

    Warns
    -----
    KernelQualityWarning
        At most once, see `KernelInspector.report`.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bayesmkl.kernels.quality.checks import check_kernel_stack
    >>> kernels = np.stack([np.eye(3), np.ones((3, 3)), np.eye(3) + 0.4])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     check_kernel_stack(kernels, ["a", "b", "c"])
    >>> print(caught[0].message)
    Some kernels are unlikely to help:
    - near-identity (each training sample resembles only itself): a. Standardize the features if they are ...
    - constant (all samples look equal): b. Leave out kernels of constant features, center features far from zero, ...
    """
    is_square = kernels.ndim == 3 and kernels.shape[1] == kernels.shape[2]
    if kernels.ndim != 3 or kernels.size == 0 or not (is_square or self_similarity is not None):
        raise ValueError(
            "`kernels` must be training kernels of shape (n_kernels, n_train, n_train), at least one; "
            f"got {kernels.shape}. Test kernels are not checked; those of landmarks need `self_similarity`."
        )
    if len(names) != len(kernels):
        raise ValueError(f"`names` must name each of the {len(kernels)} kernels; got {len(names)} names.")

    def judge() -> str:
        inspector = KernelInspector(
            names, known_psd=known_psd, definiteness=definiteness, self_similarity=self_similarity, lost=lost
        )
        for m, kernel in enumerate(kernels):
            inspector.inspect(kernel, None if present is None else present[m])
        return inspector.message()

    question = (judge.__qualname__, definiteness, tuple(names), present, self_similarity, lost)
    message = remembered(kernels, question, judge, known_psd)
    if message:
        warn_user(message, KernelQualityWarning)


class Fitness(NamedTuple):
    """What was found in kernels that SVMs are to be trained on."""

    indefinite: tuple[int, ...]  # positions
    doubts: str  # the warning; empty for none


def judge_for_svm(
    kernels: np.ndarray,
    names: Sequence[str],
    known_psd: np.ndarray | None,
    tolerance: float,
    lost: np.ndarray | None = None,
) -> Fitness:
    """Do what `refuse_unusable`, `indefinite_kernels` and `check_kernel_stack` do, without the warning.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
    names : sequence of str of length n_kernels
    known_psd : array-like of bool of shape (n_kernels,) or None
        Kernels that are symmetric and positive semidefinite by their formula.
    tolerance : float
        As in `indefinite_kernels`.
    lost : ndarray of shape (n_kernels,), default=None
        As in `check_kernel_stack`.

    Raises
    ------
    ValueError
        As `refuse_unusable` does.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.quality.checks import judge_for_svm
    >>> judge_for_svm(np.array([[[0.0, 1.0], [1.0, 0.0]]]), ["a"], None, 1e-8)
    Fitness(indefinite=(0,), doubts='')
    """

    def judge() -> Fitness:
        inspector = KernelInspector(names, known_psd=known_psd, definiteness=False, lost=lost)
        known = np.zeros(len(kernels), bool) if known_psd is None else np.asarray(known_psd, bool)
        for m, kernel in enumerate(kernels):
            if not known[m]:  # of others inspection finds all that makes them unusable
                refuse_unusable(kernels[m : m + 1], names[m : m + 1])
            inspector.inspect(kernel)
        found = indefinite_kernels(kernels, known_psd, tolerance)
        return Fitness(tuple(found), inspector.message())

    return remembered(kernels, (judge.__qualname__, tolerance, tuple(names), lost), judge, known_psd)


def refuse_unusable(kernels: np.ndarray, names: Sequence[str], known_psd: np.ndarray | None = None) -> None:
    """Raise for kernels that SVMs with a certificate cannot be trained on: not finite, too large, or asymmetric.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
    names : sequence of str of length n_kernels
    known_psd : array-like of bool of shape (n_kernels,), default=None
        Kernels that are symmetric by their formula.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.quality.checks import refuse_unusable
    >>> refuse_unusable(np.array([[[1.0, 0.5], [0.0, 1.0]]]), ["a"])
    Traceback (most recent call last):
    ...
    ValueError: `X`: kernel 'a' is not symmetric. Check that rows and columns hold the samples in the same ...
    """
    for m, (name, kernel) in enumerate(zip(names, kernels, strict=True)):
        size = check_entries(name, kernel).size
        known = known_psd is not None and np.asarray(known_psd)[m]
        if not known and is_asymmetric(kernel, REFUSED_ASYMMETRY * size):
            raise ValueError(
                f"`X`: kernel {name!r} is not symmetric. Check that rows and columns hold the samples in the same "
                "order. If the rest is rounding, pass K = (K + K.T) / 2."
            )
