"""What is wrong with a bank of kernels: errors for what cannot be used, one warning for what misleads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh
from scipy.linalg.lapack import dpotrf

from bayesmkl._numerics.warn import warn_user

__all__ = ["KernelQualityWarning", "check_kernel_stack", "describe_indefinite", "indefinite_kernels"]

# With unit diagonal, K = I + E is called near-identity when ||E||_F < 0.1 ||I||_F. The eigenvalues then
# deviate from one by less than 0.1 in root mean square: no direction stands out that training could find. A
# new row is distributed as a training row without its own 1, so outputs at new points are about a tenth of
# those at training points: the kernel memorizes. The exact value matters little: on 398 standardized samples of
# 30 features ||E||_F / ||I||_F of Gaussians is 0.018, 0.37, 2.5, 7.7 at widths 0.5, 1, 2, 4.
NEAR_IDENTITY = 0.1
# All entries equal up to this share of the largest, half the digits of a float64.
CONSTANT = 1e-8
# Frobenius distance of two kernels scaled to Frobenius norm one. Rounding differences between two ways to
# compute the same kernel are about 1e-15 to 1e-13; distinct kernels of a grid differ by more than 1e-6.
DUPLICATE = 1e-10
# Largest |K - K'| relative to the largest entry; computed kernels reach 1e-14, those read from text with
# eight digits 1e-8.
ASYMMETRIC = 1e-8
# Smallest eigenvalue below -1e-8 ||K||_F. Rounding moves eigenvalues by about n eps ||K||_F,
# 1e-12 for n = 5000.
INDEFINITE = 1e-8
# Ratio of mean self-similarities. All weights share one prior, and a kernel that is 1e4 times larger than
# another says the same with a weight 1e4 times smaller, a precision 1e8 times larger.
SCALE_RATIO = 1e4
SAFE = (1e-100, 1e100)  # entries of kernels whose squares and their sums are in the range of float64
TILE = 256
SHOWN = 6  # names per problem before "... and 7 more"


class KernelQualityWarning(UserWarning):
    """A kernel that can be used but is unlikely to mean what the user thinks."""


class _AmongPresent:
    """Each kernel among the samples that have what it compares, one at a time."""

    def __init__(self, kernels: np.ndarray, present: np.ndarray) -> None:
        self.kernels, self.present = kernels, present  # (n_kernels, n_train, n_train), (n_kernels, n_train)

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, m: int) -> np.ndarray:
        there = self.present[m]
        return self.kernels[m] if there.all() else self.kernels[m][np.ix_(there, there)]


class _Finding(NamedTuple):
    """One kernel, seen in one pass."""

    asymmetric: bool
    constant: bool
    near_identity: bool
    scale: float  # mean |k(x, x)|
    fingerprint: np.ndarray  # K r / ||K||_F for one random r, (n_train,)


def check_kernel_stack(
    kernels: np.ndarray,
    names: Sequence[str],
    *,
    known_psd: Any = None,
    definiteness: bool = True,
    present: np.ndarray | None = None,
) -> None:
    r"""Check training kernels once: raise for NaN and infinity, warn once about everything doubtful.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
        Training kernels, float64.
    names : sequence of str of length n_kernels
        What the messages call them.
    known_psd : array-like of bool of shape (n_kernels,), default=None
        Kernels that are symmetric and positive semidefinite by their formula and need no test; None tests all.
    definiteness : bool, default=True
        Whether to test the others for positive semidefiniteness, for callers that do not do it themselves.
    present : ndarray of bool of shape (n_kernels, n_train), default=None
        The samples that have what each kernel compares; each kernel is judged on them alone. None: all of them.

    Raises
    ------
    ValueError
        For a wrong shape, NaN or infinity.

    Warns
    -----
    KernelQualityWarning
        At most once, naming kernels that are near-identity, constant, duplicate, asymmetric, indefinite, or
        whose scales differ by orders of magnitude, each with a remedy. The thresholds are constants of this
        module.

    Notes
    -----
    Every kernel is read while it is in cache. Duplicates (up to a positive factor) are found by comparing
    :math:`K_m r / \|K_m\|_F` for one random vector :math:`r`: :math:`E\|(A-B)r\|^2 = \|A-B\|_F^2`.
    Positive semidefiniteness is tested by a Cholesky factorization; eigenvalues are computed where it fails.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bayesmkl.kernels.checks import check_kernel_stack
    >>> kernels = np.stack([np.eye(3), np.ones((3, 3)), np.eye(3) + 0.4])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     check_kernel_stack(kernels, ["a", "b", "c"])
    >>> print(caught[0].message)
    Some kernels are unlikely to help:
    - near-identity (each training sample resembles only itself): a. Use a larger width or fewer features ...
    - constant (all samples look equal): b. Leave out kernels of constant features, or use a smaller width.
    """
    _check_shape(kernels, names)
    probe = np.random.default_rng(0).standard_normal((kernels.shape[1],))
    known = np.zeros(len(names), dtype=bool) if known_psd is None else np.asarray(known_psd, dtype=bool)
    there = np.ones(kernels.shape[:2], dtype=bool) if present is None else present
    judged = _AmongPresent(kernels, there)
    findings = [
        _spread(_inspect(judged[m], name, bool(known[m]), probe[there[m]]), there[m])
        for m, name in enumerate(names)
    ]
    indefinite = indefinite_kernels(judged, known) if definiteness else []
    problems = (
        _list("near_identity", findings, names),
        _list("constant", findings, names),
        _duplicates(findings, names),
        _list("asymmetric", findings, names),
        describe_indefinite(judged, names, indefinite),
        _scales(findings, names),
    )
    lines = [
        f"- {problem}: {found}. {remedy}"
        for found, (problem, remedy) in zip(problems, PROBLEMS, strict=True)
        if found
    ]
    if lines:
        warn_user("Some kernels are unlikely to help:\n" + "\n".join(lines), KernelQualityWarning)


PROBLEMS = (
    (
        "near-identity (each training sample resembles only itself)",
        "Use a larger width or fewer features per view.",
    ),
    ("constant (all samples look equal)", "Leave out kernels of constant features, or use a smaller width."),
    ("duplicates up to scale, which share one weight between them", "Keep one of each group."),
    (
        "asymmetric",
        "Pass K = (K + K.T) / 2, and check that rows and columns hold the samples in the same order.",
    ),
    (
        "indefinite (no inner product in any feature space)",
        "Bayesian fits treat their rows as features and still work; support vector machines need "
        "a kernel with its negative eigenvalues removed.",
    ),
    (
        "scaled differently by orders of magnitude, so that the prior treats their weights unequally",
        'Use `normalize="spherical"` or "trace".',
    ),
)


def _check_shape(kernels: np.ndarray, names: Sequence[str]) -> None:
    if kernels.ndim != 3 or kernels.shape[1] != kernels.shape[2] or len(kernels) == 0:
        raise ValueError(
            "`kernels` must be training kernels of shape (n_kernels, n_train, n_train), at least one; "
            f"got {kernels.shape}. Test kernels are not checked."
        )
    if len(names) != len(kernels):
        raise ValueError(f"`names` must name each of the {len(kernels)} kernels; got {len(names)} names.")


def _inspect(kernel: np.ndarray, name: str, known: bool, probe: np.ndarray) -> _Finding:
    smallest, largest = kernel.min(), kernel.max()  # NaN passes through both
    if not (np.isfinite(smallest) and np.isfinite(largest)):
        raise ValueError(
            f"kernel {name!r} has NaN or infinite entries. Look for missing values, "
            "a division by zero in a normalization, or an overflow of a high polynomial degree."
        )
    size = max(abs(smallest), abs(largest))
    if largest - smallest <= CONSTANT * size:
        return _Finding(False, True, False, float(size), np.zeros_like(probe))
    unit = size if not SAFE[0] < size < SAFE[1] else 1.0  # squares shall neither overflow nor vanish
    scaled = kernel if unit == 1.0 else kernel / unit
    square = float(np.vdot(scaled, scaled))
    return _Finding(
        asymmetric=not known and _is_asymmetric(kernel, ASYMMETRIC * size),
        constant=False,
        near_identity=_is_near_identity(scaled, square),
        scale=float(unit * np.abs(scaled.diagonal()).mean()),
        fingerprint=scaled @ probe / np.sqrt(square),
    )


def _spread(finding: _Finding, present: np.ndarray) -> _Finding:
    """Extend the fingerprint, which covers the present samples, by zeros to all (n_train,)."""
    if present.all():
        return finding
    fingerprint = np.zeros(len(present))
    fingerprint[present] = finding.fingerprint
    return finding._replace(fingerprint=fingerprint)


def _is_asymmetric(kernel: np.ndarray, tolerance: float) -> bool:
    """Compare a kernel with its transpose in tiles that fit into the cache."""
    for first in range(0, len(kernel), TILE):
        for second in range(first, len(kernel), TILE):
            tile = kernel[first : first + TILE, second : second + TILE]
            other = kernel[second : second + TILE, first : first + TILE]
            if np.abs(tile - other.T).max() > tolerance:
                return True
    return False


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


def _list(problem: str, findings: list[_Finding], names: Sequence[str]) -> str:
    return _join([name for finding, name in zip(findings, names, strict=True) if getattr(finding, problem)])


def _join(items: list[str], separator: str = ", ") -> str:
    more = f"{separator.rstrip()} ... and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return separator.join(items[:SHOWN]) + more


def _duplicates(findings: list[_Finding], names: Sequence[str]) -> str:
    candidates = [m for m, f in enumerate(findings) if not f.constant and not f.near_identity]
    if not candidates:
        return ""
    prints = np.stack([findings[m].fingerprint for m in candidates])
    # Equal fingerprints have equal first projections: sort by one and compare neighbors only.
    projection = prints @ np.random.default_rng(1).standard_normal(prints.shape[1])
    order = np.argsort(projection, kind="stable")
    reach = 10.0 * DUPLICATE
    starts = np.flatnonzero(np.diff(projection[order], prepend=-np.inf) > reach)
    groups = []
    for run in np.split(order, starts[1:]):
        near = np.linalg.norm(prints[run] - prints[run[0]], axis=1) <= DUPLICATE
        if near.sum() > 1:
            groups.append(" = ".join(names[candidates[i]] for i in sorted(run[near])))
    return _join(groups, "; ")


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
    return [m for m in range(len(kernels)) if not known[m] and not _is_semidefinite(kernels[m], tolerance)]


def describe_indefinite(kernels: Any, names: Sequence[str], found: Sequence[int]) -> str:
    """Name indefinite kernels with the range of their eigenvalues."""
    items = [f"{names[m]} (eigenvalues from {_extremes(kernels[m])})" for m in found[:SHOWN]]
    return _join(items + [names[m] for m in found[SHOWN:]])


def _is_semidefinite(kernel: np.ndarray, tolerance: float) -> bool:
    smallest, largest = kernel.min(), kernel.max()
    if largest - smallest <= CONSTANT * max(abs(smallest), abs(largest)):
        return bool(kernel.flat[0] >= 0)
    return _has_cholesky(kernel, tolerance)


def _has_cholesky(kernel: np.ndarray, tolerance: float) -> bool:
    shifted = kernel.copy()
    shifted.flat[:: len(kernel) + 1] += tolerance * np.linalg.norm(kernel)
    return dpotrf(shifted.T, overwrite_a=1, clean=0)[1] == 0  # reads one triangle


def _extremes(kernel: np.ndarray) -> str:
    eigenvalues = eigvalsh(0.5 * (kernel + kernel.T))
    return f"{eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"


def _scales(findings: list[_Finding], names: Sequence[str]) -> str:
    scales = [
        (finding.scale, name) for finding, name in zip(findings, names, strict=True) if finding.scale > 0
    ]
    if not scales or max(scales)[0] <= SCALE_RATIO * min(scales)[0]:
        return ""
    (small, smallest), (large, largest) = min(scales), max(scales)
    return f"{smallest} (mean self-similarity {small:.3g}) and {largest} ({large:.3g})"
