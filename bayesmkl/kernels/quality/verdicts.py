"""Verdicts on training kernels that were judged before, in this process.

Checks of a stack read it several times and factorize every kernel, which takes longer than many a fit. Their verdict
is kept with what was judged: the memory itself where nothing can write to it, else the content, by the products of
all kernels with one random vector. Equal products mean equal kernels, up to rounding errors of a row sum, that is
1e-13 of its largest entry: a change that matters to no check.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any, TypeVar

import numpy as np

__all__ = ["is_judged", "remembered"]

KEPT = 64  # stacks whose verdicts are remembered, those judged last
ENTRIES = 2**20  # multiplied at once

_Verdict = TypeVar("_Verdict")
_LOCK = threading.Lock()
_VERDICTS: OrderedDict[Hashable, dict[Hashable, Any]] = OrderedDict()  # by stack, then by question
_NUMBERS = count()
# Arrays that own memory which cannot change, by place, and their numbers.
_OWNERS: dict[int, tuple[weakref.ref[np.ndarray], int]] = {}


def remembered(
    kernels: np.ndarray,
    question: Sequence[Any],
    judge: Callable[[], _Verdict],
    known_psd: np.ndarray | None = None,
) -> _Verdict:
    """Return what `judge` returns, or returned to the same question about the same kernels.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
    question : sequence
        All that the verdict depends on beside the kernels: arrays, and what differs where its text does.
    judge : callable
        If it raises, nothing is remembered.
    known_psd : ndarray of bool of shape (n_kernels,), default=None
        Kernels that need no test of definiteness. If none does, they are judged faster than recognized by content.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = np.eye(3)[None]
    >>> remembered(kernels, "trace", lambda: float(np.trace(kernels[0])))
    3.0
    >>> remembered(kernels.copy(), "trace", lambda: "never asked")
    3.0
    >>> kernels[0, 0, 0] = 2.0
    >>> remembered(kernels, "trace", lambda: float(np.trace(kernels[0])))
    4.0
    """
    stack = _identity(kernels)
    if stack is None and (known_psd is None or not np.all(known_psd)):
        stack = _content(kernels)
    if stack is None:
        return judge()
    parts = (None if known_psd is None else np.asarray(known_psd), *question)
    asked = tuple(part.tobytes() if isinstance(part, np.ndarray) else str(part) for part in parts)
    with _LOCK:
        known = _VERDICTS.get(stack, {})
        if asked in known:
            _VERDICTS.move_to_end(stack)
            return known[asked]
    verdict = judge()
    with _LOCK:
        _VERDICTS.setdefault(stack, {})[asked] = verdict
        _VERDICTS.move_to_end(stack)
        while len(_VERDICTS) > KEPT:
            _VERDICTS.popitem(last=False)
    return verdict


def is_judged(kernels: np.ndarray) -> bool:
    """Return whether there is a verdict on this memory, which nothing can write to: then its entries are finite.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)

    Examples
    --------
    >>> import numpy as np
    >>> kernels = np.eye(3)[None].copy()
    >>> kernels.flags.writeable = False
    >>> is_judged(kernels), remembered(kernels, "is it sound?", lambda: True), is_judged(kernels)
    (False, True, True)
    """
    stack = _identity(kernels)
    return stack is not None and stack in _VERDICTS


def _identity(kernels: np.ndarray) -> Hashable | None:
    """Return the number of the memory and the part of it that `kernels` are; None if somebody can write to it."""
    owner: Any = kernels
    while isinstance(owner, np.ndarray) and not owner.flags.writeable and owner.base is not None:
        owner = owner.base
    if not isinstance(owner, np.ndarray) or owner.flags.writeable or not owner.flags.owndata:
        return None
    with _LOCK:
        reference, number = _OWNERS.get(id(owner), (None, 0))
        if reference is None or reference() is not owner:  # another array may have had the place
            number = next(_NUMBERS)
            _OWNERS[id(owner)] = weakref.ref(owner, _forgetting(id(owner), number)), number
    return number, kernels.ctypes.data, kernels.shape, kernels.strides, kernels.dtype.str


def _forgetting(place: int, number: int) -> Callable[[Any], None]:
    def forget(_: Any) -> None:
        if _OWNERS.get(place, (None, -1))[1] == number:
            del _OWNERS[place]

    return forget


def _content(kernels: np.ndarray) -> Hashable | None:
    """Return a hash of the products of all kernels with a random vector; None where they are not finite."""
    vector = np.random.default_rng(0).standard_normal(kernels.shape[-1])
    digest, step = blake2b(digest_size=16), max(1, ENTRIES // kernels[0].size)
    for first in range(0, len(kernels), step):
        with np.errstate(all="ignore"):
            products = np.vecdot(kernels[first : first + step], vector)
        if not np.isfinite(products).all():
            return None
        digest.update(products)
    return kernels.shape, digest.digest()
