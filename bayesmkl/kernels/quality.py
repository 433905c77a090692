r"""Quality of training kernels: errors, one warning of doubts, clipping of indefinite ones.

Kernels are judged one by one as they are computed, so that not all need be in memory.

With the training kernel :math:`K = U \Lambda U^\top` and the projection :math:`\Pi` on the eigenvectors of positive
eigenvalues, the clipped kernel is :math:`K \Pi = U \Lambda_+ U^\top`. The same linear map of a row applies to rows of
new samples (Chen et al. 2009, Similarity-based classification), so that a training sample that comes again is treated
as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, eigvalsh
from scipy.linalg.lapack import dpotrf

from bayesmkl._utils.units import LARGEST, SMALLEST
from bayesmkl._utils.warnings import warn_user
from bayesmkl.kernels.views import TOGETHER

# All entries equal up to this share of the largest, half the digits of a float64.
CONSTANT = 1e-8
# Smallest eigenvalue below -1e-8 ||K||_F. Rounding moves eigenvalues by about n eps ||K||_F,
# 1e-12 for n = 5000.
INDEFINITE = 1e-8
SHOWN = 6  # names per problem before "... and 7 more"
# With unit diagonal, K = I + E is called near-identity when ||E||_F < 0.1 ||I||_F. The eigenvalues then
# deviate from one by less than 0.1 in root mean square: no direction stands out that training could find. A
# new row is distributed as a training row without its own 1, so outputs at new points are about a tenth of
# those at training points: the kernel memorizes. The exact value matters little: on 398 standardized samples of
# 30 features ||E||_F / ||I||_F of Gaussians is 0.018, 0.37, 2.5, 7.7 at widths 0.5, 1, 2, 4.
NEAR_IDENTITY = 0.1
# Frobenius distance of two kernels scaled to Frobenius norm one. Rounding differences between two ways to
# compute the same kernel are about 1e-15 to 1e-13; distinct kernels of a grid differ by more than 1e-6.
DUPLICATE = 1e-10
# Largest |K - K'| relative to the largest entry; computed kernels reach 1e-14, those read from text with
# eight digits 1e-8.
ASYMMETRIC = 1e-8
# Ratio of mean self-similarities. All weights share one prior, and a kernel that is 1e4 times larger than
# another says the same with a weight 1e4 times smaller, a precision 1e8 times larger.
SCALE_RATIO = 1e4
# Rounding errors of a centered kernel, in units of its mean self-similarity, that results may begin to show.
LOST = 1e-6
CLOSE = 1e-3  # part of the tolerance that products may differ by, see `is_asymmetric`
# Largest |K - K'| relative to the largest entry that single precision can leave.
REFUSED_ASYMMETRY = 1e-5


class KernelQualityWarning(UserWarning):
    """Warning about a kernel that can be used but is probably not what the user intended."""


class _Finding(NamedTuple):
    """One kernel, seen in one pass."""

    name: str
    found: dict[str, str]  # keys of `PROBLEMS`, and the name as messages show it
    scale: float = 0.0  # mean |k(x, x)|
    fingerprint: np.ndarray | None = None  # K r / ||K||_F for one random r, (n_rows,)


class KernelInspector:
    r"""Look at kernels one after the other, then say once what is doubtful about them.

    Parameters
    ----------
    names : sequence of str
        Names of the kernels in messages, in the order in which they come.
    known_psd : array-like of bool of shape (n_kernels,), default=None
        Kernels that are symmetric and positive semidefinite by their formula and need no test; None tests all.
    definiteness : bool, default=True
        Whether to test the others for positive semidefiniteness, for callers that do not do it themselves.
    self_similarity : array-like of shape (n_kernels,), default=None
        For kernels between samples (rows) and landmarks (columns): the mean of :math:`k(x, x)`. Symmetry,
        definiteness and likeness to the identity mean nothing there; instead, samples have to resemble some
        landmark. None: the kernels compare the training samples with themselves.
    lost : array-like of shape (n_kernels,), default=None
        Rounding errors that centering has left, see `KernelBank.centering_errors`. None: none.

    Notes
    -----
    Every kernel is read while it is in cache. Duplicates (up to a positive factor) are found by comparing
    :math:`K_m r / \|K_m\|_F` for one random vector :math:`r`: :math:`E\|(A-B)r\|^2 = \|A-B\|_F^2`.
    Positive semidefiniteness is tested by a Cholesky factorization; eigenvalues are computed where it fails.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bayesmkl.kernels.quality import KernelInspector
    >>> inspector = KernelInspector(["a", "b"])
    >>> sum(kernel.sum() for kernel in inspector.watch([np.eye(3), np.ones((3, 3))]))
    np.float64(12.0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     inspector.report()
    >>> print(caught[0].message)
    Some kernels are unlikely to help:
    - near-identity (each training sample resembles only itself): a. Standardize the features if they are ...
    - constant (all samples look equal): b. Leave out kernels of constant features, center features far from zero, ...
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        known_psd: np.ndarray | None = None,
        definiteness: bool = True,
        self_similarity: ArrayLike | None = None,
        lost: ArrayLike | None = None,
    ) -> None:
        self._names = list(names)
        self._known = (
            np.zeros(len(self._names), dtype=bool) if known_psd is None else np.asarray(known_psd, bool)
        )
        self._definiteness = definiteness
        self._similarity = None if self_similarity is None else np.asarray(self_similarity, dtype=np.float64)
        self._lost = np.zeros(len(self._names)) if lost is None else np.asarray(lost, dtype=np.float64)
        self._findings: list[_Finding] = []

    def watch(self, kernels: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Pass kernels on, each after it was inspected."""
        for kernel in kernels:
            self.inspect(kernel)
            yield kernel

    def inspect(self, kernel: np.ndarray, present: np.ndarray | None = None) -> None:
        """Look at the next kernel.

        Parameters
        ----------
        kernel : ndarray of shape (n_train, n_train), or (n_rows, n_landmarks)
            float64; only read.
        present : ndarray of bool of shape (n_train,), default=None
            The samples that have what the kernel compares; it is judged on them alone. None: all of them.

        Raises
        ------
        ValueError
            For NaN or infinity.
        """
        m = len(self._findings)
        part: slice | np.ndarray = (
            slice(None) if present is None or present.all() else np.flatnonzero(present)
        )
        probe: np.ndarray = np.random.default_rng(0).standard_normal((kernel.shape[1],))[part]
        n_rows = len(kernel)
        kernel = kernel if isinstance(part, slice) else kernel[np.ix_(part, part)]
        name, known = self._names[m], bool(self._known[m])
        similarity = None if self._similarity is None else abs(float(self._similarity[m]))
        size, width = check_entries(name, kernel, similarity)
        if name == TOGETHER:  # a product of others, whose scale does not matter
            self._findings.append(_Finding(name, {}))
            return
        found: dict[str, str] = {}
        fingerprint: np.ndarray | None = None
        scale = float(size) if similarity is None else similarity
        if self._lost[m] > LOST:
            found["canceled"] = f"{name} (errors of up to {min(self._lost[m], 1.0):.0e})"
        if similarity is None and not known and self._definiteness and not is_semidefinite(kernel):
            shown = sum("indefinite" in other.found for other in self._findings) < SHOWN
            found["indefinite"] = f"{name} ({spectrum(kernel)})" if shown else name
        if width <= CONSTANT * size:
            if "canceled" not in found:
                found["constant"] = name
        elif size < SMALLEST:
            found["remote"] = name
        else:
            square = float(np.vdot(kernel, kernel))
            fingerprint = np.zeros(n_rows)
            fingerprint[part] = kernel @ probe / np.sqrt(square)
            if similarity is not None:
                # the median length of the rows: near zero if most samples resemble no landmark
                length = float(np.sqrt(np.median(np.einsum("ij,ij->i", kernel, kernel))))
                if length < NEAR_IDENTITY * similarity:
                    found["remote"] = name
            else:
                if not known and is_asymmetric(kernel, ASYMMETRIC * size):
                    found["asymmetric"] = name
                if _is_near_identity(kernel, square):
                    found["near-identity"] = name
                scale = float(np.abs(kernel.diagonal()).mean())
        self._findings.append(_Finding(name, found, scale, fingerprint))

    def report(self) -> None:
        """Warn once about everything doubtful.

        Warns
        -----
        KernelQualityWarning
            Naming kernels that are near-identity, remote from all landmarks, constant, duplicate, asymmetric,
            canceled by centering, indefinite, or whose scales differ by orders of magnitude, each with a remedy.
        """
        if message := self.message():
            warn_user(message, KernelQualityWarning)

    def message(self) -> str:
        """Return the warning of `report`, empty where nothing is doubtful."""
        findings = self._findings
        of_all = {"duplicate": _duplicates(findings), "scales": _scales(findings)}
        lines = [
            f"- {problem}: {join(found)}. {remedy}"
            for key, (problem, remedy) in PROBLEMS.items()
            if (found := of_all.get(key) or [one.found[key] for one in findings if key in one.found])
        ]
        return "Some kernels are unlikely to help:\n" + "\n".join(lines) if lines else ""


class Extent(NamedTuple):
    """Largest magnitude of the entries of a kernel, and the distance between the smallest and the largest."""

    size: float
    width: float


def check_entries(name: str, kernel: np.ndarray, similarity: float | None = None) -> Extent:
    """Return the extent of the entries, if it is finite and its square neither overflows nor vanishes.

    It may vanish where landmarks are compared with samples far from them; `similarity` is theirs to themselves.
    """
    smallest, largest = float(kernel.min()), float(kernel.max())
    size = max(abs(smallest), abs(largest))
    if not np.isfinite(size):  # NaN passes through both
        raise ValueError(
            f"kernel {name!r} has NaN or infinite entries. Look for missing values, "
            "a division by zero in a normalization, or an overflow of a high polynomial degree."
        )
    if size > 0.0 and not SMALLEST <= max(size, similarity or 0.0) <= LARGEST:
        raise ValueError(
            f"`X`: kernel {name!r} has entries of up to {size:.3g}, too {'large' if size > 1.0 else 'small'} for "
            "double precision, which holds their squares from 1e-100 to 1e+100. Scale the kernel, or normalize all "
            'of them (`KernelBank(normalize="spherical")`).'
        )
    return Extent(size, largest - smallest)


PROBLEMS = {
    "near-identity": (
        "near-identity (each training sample resembles only itself)",
        "Standardize the features if they are not, or use a larger width or fewer features per view.",
    ),
    "remote": (
        "near-zero (most samples resemble no landmark)",
        "Standardize the features if they are not, or use a larger width, fewer features per view or more landmarks.",
    ),
    "constant": (
        "constant (all samples look equal)",
        "Leave out kernels of constant features, center features far from zero, or use a smaller width.",
    ),
    "duplicate": ("duplicates up to scale, which share one weight between them", "Keep one of each group."),
    "asymmetric": (
        "asymmetric",
        "Check that rows and columns hold the samples in the same order. If the rest is rounding, pass "
        "K = (K + K.T) / 2.",
    ),
    "canceled": (
        "short of digits after centering (nearly all of the kernel is common to all samples)",
        "Center or standardize the features, or use a smaller width.",
    ),
    "indefinite": (
        "indefinite (no inner product in any feature space)",
        "Bayesian fits treat their rows as features and still work; support vector machines need "
        "a kernel with its negative eigenvalues removed.",
    ),
    "scales": (
        "scaled differently by orders of magnitude, so that the prior treats their weights unequally",
        'Use `normalize="spherical"` or "trace".',
    ),
}


def is_asymmetric(kernel: np.ndarray, tolerance: float) -> bool:
    """Compare a kernel with its transpose: their products with a random vector, and on doubt every entry.

    Each of two rows with entries that differ by more than `tolerance` shows less than `CLOSE` of it in its product
    with a probability below ``CLOSE``, both of them at once with its square.
    """
    vector = np.random.default_rng(2).standard_normal(len(kernel))
    if np.abs(kernel @ vector - vector @ kernel).max() <= CLOSE * tolerance:
        return False
    return bool(np.abs(kernel - kernel.T).max() > tolerance)


def _is_near_identity(kernel: np.ndarray, square: float) -> bool:
    """Compare off-diagonal and diagonal entries at unit diagonal; `square` is the squared Frobenius norm."""
    diagonal = kernel.diagonal()
    if np.all(diagonal == diagonal[0]) and diagonal[0] > 0:
        n_present, total = float(len(kernel)), square / diagonal[0] ** 2
    else:
        present = diagonal > 0  # samples without self-similarity have rows of zeros
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=present)
        n_present, total = float(present.sum()), float(inverse @ np.square(kernel) @ inverse)
    return n_present > 0 and total - n_present < NEAR_IDENTITY**2 * n_present


def _duplicates(findings: list[_Finding]) -> list[str]:
    like = {"near-identity", "remote"}  # kernels that resemble each other for another reason
    candidates = [f for f in findings if f.fingerprint is not None and like.isdisjoint(f.found)]
    if not candidates:
        return []
    prints = np.stack([f.fingerprint for f in candidates if f.fingerprint is not None])
    # Equal fingerprints have equal first projections: sort by one and compare neighbors only.
    projection = prints @ np.random.default_rng(1).standard_normal(prints.shape[1])
    order = np.argsort(projection, kind="stable")
    reach = 10.0 * DUPLICATE
    starts = np.flatnonzero(np.diff(projection[order], prepend=-np.inf) > reach)
    groups = []
    for run in np.split(order, starts[1:]):
        near = np.linalg.norm(prints[run] - prints[run[0]], axis=1) <= DUPLICATE
        if near.sum() > 1:
            groups.append(" = ".join(candidates[i].name for i in sorted(run[near])))
    return [join(groups, "; ")] if groups else []


def _scales(findings: list[_Finding]) -> list[str]:
    scales = [(finding.scale, finding.name) for finding in findings if finding.scale > 0]
    if not scales or max(scales)[0] <= SCALE_RATIO * min(scales)[0]:
        return []
    (small, smallest), (large, largest) = min(scales), max(scales)
    return [f"{smallest} (mean self-similarity {small:.3g}) and {largest} ({large:.3g})"]


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
    """Do what `indefinite_kernels` and `KernelInspector` do, without the warning, and refuse what SVMs cannot use.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
    names : sequence of str of length n_kernels
    known_psd : array-like of bool of shape (n_kernels,) or None
        Kernels that are symmetric and positive semidefinite by their formula.
    tolerance : float
        As in `indefinite_kernels`.
    lost : ndarray of shape (n_kernels,), default=None
        As in `KernelInspector`.

    Raises
    ------
    ValueError
        For kernels that are not finite, too large or asymmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.quality import judge_for_svm
    >>> judge_for_svm(np.array([[[0.0, 1.0], [1.0, 0.0]]]), ["a"], None, 1e-8)
    Fitness(indefinite=(0,), doubts='')
    """
    inspector = KernelInspector(names, known_psd=known_psd, definiteness=False, lost=lost)
    known = np.zeros(len(kernels), bool) if known_psd is None else np.asarray(known_psd, bool)
    for m, kernel in enumerate(kernels):
        if not known[m]:  # of others inspection finds all that makes them unusable
            _refuse_unusable(names[m], kernel)
        inspector.inspect(kernel)
    return Fitness(tuple(indefinite_kernels(kernels, known_psd, tolerance)), inspector.message())


def _refuse_unusable(name: str, kernel: np.ndarray) -> None:
    """Raise for a kernel that SVMs with a certificate cannot be trained on: not finite, too large, or asymmetric."""
    if is_asymmetric(kernel, REFUSED_ASYMMETRY * check_entries(name, kernel).size):
        raise ValueError(
            f"`X`: kernel {name!r} is not symmetric. Check that rows and columns hold the samples in the same "
            "order. If the rest is rounding, pass K = (K + K.T) / 2."
        )


def indefinite_kernels(kernels: Any, known_psd: Any = None, tolerance: float = INDEFINITE) -> list[int]:
    """Return the positions of kernels that are not positive semidefinite, beyond rounding.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train), or sequence of square matrices
        Finite.
    known_psd : array-like of bool of shape (n_kernels,), default=None
        Kernels that need no test; None tests all.
    tolerance : float
        Negative eigenvalues down to this fraction of the Frobenius norm count as rounding.

    Examples
    --------
    >>> import numpy as np
    >>> indefinite_kernels(np.stack([np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])]))
    [1]
    """
    known = np.zeros(len(kernels), dtype=bool) if known_psd is None else np.asarray(known_psd, dtype=bool)
    return [m for m in range(len(kernels)) if not known[m] and not is_semidefinite(kernels[m], tolerance)]


def describe_indefinite(kernels: np.ndarray, names: Sequence[str], found: Sequence[int]) -> str:
    """Name indefinite kernels with the range of their eigenvalues."""
    items = [f"{names[m]} ({spectrum(kernels[m])})" for m in found[:SHOWN]]
    return join(items + [names[m] for m in found[SHOWN:]])


def join(items: list[str], separator: str = ", ") -> str:
    """List the first items and say how many more there are."""
    more = f"{separator.rstrip()} ... and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return separator.join(items[:SHOWN]) + more


def is_semidefinite(kernel: np.ndarray, tolerance: float = INDEFINITE) -> bool:
    """Return whether a kernel has no negative eigenvalue beyond `tolerance` of its Frobenius norm."""
    shifted = kernel.copy()
    shifted.flat[:: len(kernel) + 1] += tolerance * np.sqrt(np.vdot(kernel, kernel))
    if dpotrf(shifted.T, overwrite_a=1, clean=0)[1] == 0:  # it has a factor; reads one triangle
        return True
    smallest, largest = kernel.min(), kernel.max()
    is_constant = largest - smallest <= CONSTANT * max(abs(smallest), abs(largest))
    return bool(is_constant and kernel.flat[0] >= 0)


def spectrum(kernel: np.ndarray) -> str:
    """Tell the range of the eigenvalues."""
    eigenvalues = eigvalsh(0.5 * (kernel + kernel.T))
    return f"eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"


class Clipping(NamedTuple):
    r"""Clipped kernels, and the projection of their rows.

    Parameters
    ----------
    kernels : ndarray of shape (n_clipped,)
        Positions in the stack.
    projections : ndarray of shape (n_clipped, n_train, n_train)
        :math:`\Pi` of each of them.
    """

    kernels: np.ndarray
    projections: np.ndarray

    def apply(self, kernels: np.ndarray, positions: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Return a copy of rows of kernels, (n_kernels, n_rows, n_train), with those that need it clipped.

        `positions` (integers) says which kernels of the stack these are; all of them by default.
        """
        clipped = kernels.copy()
        places = {m: i for i, m in enumerate(range(len(kernels)) if positions is None else positions)}
        for m, projection in zip(self.kernels, self.projections, strict=True):
            if m in places:
                np.matmul(kernels[places[m]], projection, out=clipped[places[m]])
        return clipped


def fit_clipping(kernels: np.ndarray, found: Sequence[int]) -> Clipping:
    """Learn how to clip the training kernels at the positions `found`.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
    found : sequence of int
        Positions of indefinite kernels.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    >>> fit_clipping(kernels, [0]).apply(kernels)
    array([[[0.5, 0.5],
            [0.5, 0.5]]])
    """
    projections = []
    for m in found:
        eigenvalues, vectors = eigh(0.5 * (kernels[m] + kernels[m].T))
        positive = vectors[:, eigenvalues > 0.0]
        projections.append(positive @ positive.T)
    return Clipping(np.array(found, dtype=np.intp), np.array(projections))
