"""Kernels that several models share: evaluated once on the same rows, handed out read-only."""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.sparse import issparse

from bayesmkl._utils.hashing import content_hash

__all__ = ["KernelCache", "Tally", "current_cache", "sharing_kernels"]

DEFAULT_BYTES = 2**30
T = TypeVar("T")


class Tally(NamedTuple):
    """Counts of hits and evaluations of a cache."""

    n_evaluated: int = 0  # stacks of kernels, and of what is derived of them, that were computed
    n_reused: int = 0  # requests that found their stack
    seconds: float = 0.0  # that requests would have taken without the cache
    reused_seconds: float = 0.0  # of these, the part that was saved
    reused_bytes: int = 0  # of the stacks that were found

    def since(self, earlier: Tally) -> Tally:
        """Return the difference from an earlier tally."""
        return Tally(
            self.n_evaluated - earlier.n_evaluated,
            self.n_reused - earlier.n_reused,
            self.seconds - earlier.seconds,
            self.reused_seconds - earlier.reused_seconds,
            self.reused_bytes - earlier.reused_bytes,
        )


class _Kept(NamedTuple):
    value: Any  # kernels, (n_kernels, n_rows, n_basis), or what was derived of them; its arrays are read-only
    n_bytes: int
    seconds: float
    fitted: dict[str, Any]  # attributes of the bank that learned it; empty for all but training kernels


class KernelCache:
    """Stacks of the kernel banks that are used inside ``with sharing_kernels(cache)``.

    Banks count as equal when their parameters are, and rows when their values are: a model that scales its features
    differently, or sees a fold of the rows, has kernels of its own. Functions are equal by their names in modules;
    banks that hold what cannot be pickled, such as a lambda or an open file, are not shared.

    Parameters
    ----------
    max_bytes : int, default=2**30
        The stacks used longest ago are forgotten beyond this size. One that is larger is not kept at all.

    Attributes
    ----------
    tally : Tally
        Counts of computed and of reused stacks.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels import KernelBank
    >>> from bayesmkl.kernels.cache import KernelCache, sharing_kernels
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> cache = KernelCache()
    >>> with sharing_kernels(cache):
    ...     first, second = (KernelBank(views="each").fit_transform(X) for _ in range(2))
    >>> bool(np.shares_memory(first, second)), cache.tally.n_evaluated, cache.tally.n_reused
    (True, 1, 1)
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.tally = Tally()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.RLock()  # for the books, not while kernels are computed
        self._keys: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # of fitted banks

    def training(self, bank: Any, X: Any, learn: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the training kernels of a bank; a bank whose kernels are found becomes fitted as by `learn`."""
        key = _hash((type(bank), bank.get_params(deep=False), X))
        if key is None:
            return learn()
        kept = self._find(key, 1.0)
        if kept is None:
            stack, seconds = _timed(learn)
            fitted = {k: v for k, v in vars(bank).items() if k.endswith("_")}
            kept = self._keep(key, stack, seconds, fitted)
        else:
            vars(bank).update(kept.fitted)
        with self._lock:
            self._keys[bank] = key
        return kept.value

    def rows(self, bank: Any, X: np.ndarray, share: float, evaluate: Callable[[], np.ndarray]) -> Any:
        """Return all kernels of rows against the basis points, or None for a bank that is not shared.

        Who asks for some of the kernels is charged their `share` of the time.
        """
        n_bytes = bank.stack_bytes(len(X))
        with self._lock:
            fitted = self._keys.get(bank)
        if fitted is None or n_bytes > self.max_bytes // 2:
            return None
        key = f"{fitted} {content_hash(X)}"
        kept = self._find(key, share)
        if kept is None:
            stack, seconds = _timed(evaluate)
            kept = self._keep(key, stack, seconds, {})
        return kept.value

    def derived(
        self,
        what: Any,
        compute: Callable[[Any], T],
        bank: Any = None,
        suits: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Return what models derive of the training kernels of a bank, such as their factorizations.

        Parameters
        ----------
        what : object
            All that decides the value, besides the kernels.
        compute : callable
            Takes the earlier value that does not suit, or None, and returns the one that replaces it.
        bank : KernelBank, optional
            Fitted; of one whose kernels are not shared nothing is kept. None for what needs no kernels.
        suits : callable, optional
            Whether an earlier value will do.
        """
        with self._lock:
            fitted = "" if bank is None else self._keys.get(bank)
        content = None if fitted is None else _hash(what)
        if content is None:
            return compute(None)
        key = f"{fitted} of {content}"
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and suits(kept.value):
            found = self._find(key, 1.0)
            return kept.value if found is None else found.value
        value, seconds = _timed(lambda: compute(None if kept is None else kept.value))
        return self._keep(key, value, seconds, {}).value

    def _keep(self, key: str, value: Any, seconds: float, fitted: dict[str, Any]) -> _Kept:
        arrays = _arrays(value)
        for array in arrays:
            array.setflags(write=False)
        kept = _Kept(value, sum(array.nbytes for array in arrays), seconds, fitted)
        with self._lock:
            tally = self.tally
            self.tally = tally._replace(n_evaluated=tally.n_evaluated + 1, seconds=tally.seconds + seconds)
            if kept.n_bytes <= self.max_bytes:
                self._kept[key] = kept
                self._kept.move_to_end(key)  # where it replaces another
                while sum(other.n_bytes for other in self._kept.values()) > self.max_bytes:
                    self._kept.popitem(last=False)
        return kept

    def _find(self, key: str, share: float) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            self._kept.move_to_end(key)
            saved, tally = share * kept.seconds, self.tally
            self.tally = Tally(
                tally.n_evaluated,
                tally.n_reused + 1,
                tally.seconds + saved,
                tally.reused_seconds + saved,
                tally.reused_bytes + int(share * kept.n_bytes),
            )
            return kept


_CURRENT: ContextVar[KernelCache | None] = ContextVar("bayesmkl_kernel_cache", default=None)


def current_cache() -> KernelCache | None:
    """Return the cache that banks share here, if any."""
    return _CURRENT.get()


@contextmanager
def sharing_kernels(cache: KernelCache) -> Iterator[KernelCache]:
    """Let all banks that are fitted and evaluated inside, in this thread, share their kernels through `cache`.

    Several threads may share one cache: each enters for itself.
    """
    token = _CURRENT.set(cache)
    try:
        yield cache
    finally:
        _CURRENT.reset(token)


def _hash(value: object) -> str | None:
    """Return a hash of the content, or None for what cannot be pickled."""
    try:
        return content_hash(value)
    except Exception:  # of `__reduce__` methods, which may raise anything
        return None


def _arrays(value: Any) -> list[np.ndarray]:
    """Return the arrays in an array, a sparse one, or tuples of these."""
    if isinstance(value, np.ndarray):
        return [value]
    if issparse(value):
        return [part for part in vars(value).values() if isinstance(part, np.ndarray)]
    return [array for part in value for array in _arrays(part)] if isinstance(value, tuple) else []


def _timed(compute: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    value = compute()
    return value, time.perf_counter() - start
