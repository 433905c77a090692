"""Verdicts on training kernels that were judged before, in this process.

Checks of a stack read it several times and factorize every kernel, which takes longer than many a fit. Their verdict
is kept with what was judged: the memory itself where nothing can ever write to it (`unchanging`), else the content,
by the products of all kernels with one random vector. Equal products mean equal kernels, up to rounding errors of a
row sum, that is 1e-13 of its largest entry: a change that matters to no check. A read-only array of NumPy is no such
memory: who owns it may make it writable again, and views from before it was made read-only still write to it.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import count
from typing import Any, TypeVar

import numpy as np

__all__ = ["is_finite", "is_unchanging", "remembered", "unchanging"]

KEPT = 64  # stacks whose verdicts are remembered, those judged last
ENTRIES = 2**20  # multiplied at once

_Verdict = TypeVar("_Verdict")
_LOCK = threading.Lock()
_VERDICTS: OrderedDict[Hashable, dict[Hashable, Any]] = OrderedDict()  # by stack, then by question
_NUMBERS = count()
# Numbers of the memory that `unchanging` made, by place.
_SEALED: dict[int, tuple[weakref.ref[memoryview], int]] = {}
_SEEN = threading.local()  # of this thread: the kernels that `is_finite` looked at last, and their content


def unchanging(shape: tuple[int, ...], fill: Callable[[np.ndarray], object]) -> np.ndarray:
    """Return an array of float64 that `fill` writes once, and nothing afterwards.

    Parameters
    ----------
    shape : tuple of int
    fill : callable
        Takes an array of this shape and writes all of its entries; must not keep it.

    Examples
    --------
    >>> import numpy as np
    >>> kernels = unchanging((1, 2, 2), lambda values: np.copyto(values, 3.0))
    >>> kernels.flags.writeable = True
    Traceback (most recent call last):
    ...
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    own: Any = np.empty(shape)  # which is reachable through the buffer of the result alone
    fill(own)
    values = np.asarray(memoryview(own).toreadonly())
    memory: Any = values
    while isinstance(memory, np.ndarray):
        memory = memory.base
    with _LOCK:
        number = next(_NUMBERS)
        # What runs as the memory goes is no function of Python, in which an interruption would be lost.
        _SEALED[id(memory)] = weakref.ref(memory, partial(_SEALED.pop, id(memory))), number
    return values


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
        All that the verdict depends on beside the kernels: arrays, tuples, and what differs where its text does.
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
    (looked, content), _SEEN.last = getattr(_SEEN, "last", None) or (lambda: None, None), None
    stack = _identity(kernels)
    if stack is None and (known_psd is None or not np.all(known_psd)):
        seen: Any = looked()
        is_seen = seen is not None and seen.__array_interface__ == kernels.__array_interface__
        stack = (content if is_seen else None) or _content(kernels)
    if stack is None:
        return judge()
    parts = (None if known_psd is None else np.asarray(known_psd), *question)
    asked = tuple(
        part.tobytes() if isinstance(part, np.ndarray) else part if isinstance(part, tuple) else str(part)
        for part in parts
    )
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


def is_finite(kernels: np.ndarray) -> bool:
    """Return whether all entries are finite; if the next question is about these kernels, they are not read again.

    Entries whose sums overflow count as infinite. Those of memory that was judged are finite.

    Parameters
    ----------
    kernels : ndarray of shape (n_kernels, n_train, n_train)
        Kept, and written to by nobody, until that question.

    Examples
    --------
    >>> import numpy as np
    >>> is_finite(np.eye(2)[None]), is_finite(np.full((1, 2, 2), np.nan))
    (True, False)
    """
    stack = _identity(kernels)
    if stack is not None and stack in _VERDICTS:
        return True
    content = _content(kernels)
    _SEEN.last = weakref.ref(kernels), content
    return content is not None


def is_unchanging(kernels: np.ndarray) -> bool:
    """Return whether an array is (a part of) one of `unchanging`."""
    return _identity(kernels) is not None


def _identity(kernels: np.ndarray) -> Hashable | None:
    """Return the number of the memory and the part of it that `kernels` are; None if something may write to it."""
    owner: Any = kernels
    while isinstance(owner, np.ndarray):
        owner = owner.base
    reference, number = _SEALED.get(id(owner), (None, 0))
    if reference is None or reference() is not owner:  # another object may have had the place
        return None
    return number, kernels.ctypes.data, kernels.shape, kernels.strides, kernels.dtype.str


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
