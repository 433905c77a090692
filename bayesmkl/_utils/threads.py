"""One BLAS thread for small problems.

NumPy and SciPy bring a BLAS library each, every one with its own pool of threads. Alternating small products of the
one with small factorizations of the other makes the pools wait for each other's spinning threads: sweeps become
several times slower than on one thread, and far worse on a busy computer. What one thread computes has the same last
digits wherever it runs, too.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

from threadpoolctl import ThreadpoolController

# Factorizations of matrices from this size on gain more from several threads than the pools lose.
LARGE = 1500

# Most libraries keep one number of threads per process. Of several Python threads the first one to enter finds what
# it was, the last one to leave restores it. (threadpoolctl restores what each thread found: 1 for the second.)
_LOCK = threading.Lock()
_INSIDE: dict[str, tuple[int, set[object]]] = {}  # by a library's file: its threads before, and who is inside


def blas_threads_for(size: int) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread while the largest matrix to factorize has fewer than `LARGE` rows.

    The limit is process-wide. Of several Python threads the first one sets it, the last one restores what was there.

    Parameters
    ----------
    size : int
        Rows of the largest matrix.

    Examples
    --------
    >>> with blas_threads_for(400):
    ...     pass
    """
    return one_thread("blas") if size < LARGE else nullcontext()


@contextmanager
def one_thread(user_api: str | None = None) -> Iterator[None]:
    """Limit the libraries of an API ("blas", "openmp"; None is both) to one thread; several may be inside at once.

    Examples
    --------
    >>> with one_thread():
    ...     pass
    """
    found = [one for one in _loaded(len(sys.modules)) if user_api in (None, one.library.user_api)]
    token, entered = object(), []
    try:
        with _LOCK:
            for library, is_per_thread in found:
                entered.append((library, is_per_thread, library.num_threads))
                if not is_per_thread:
                    _INSIDE.setdefault(library.filepath, (library.num_threads, set()))[1].add(token)
                _set_threads(library, 1)
        yield
    finally:
        with _LOCK:
            for library, is_per_thread, threads in entered:
                _leave(library, is_per_thread, threads, token)


def blas_threads() -> int:
    """Return the threads that BLAS has now, the largest number of its libraries; all cores where there is none."""
    libraries = (one.library for one in _loaded(len(sys.modules)))
    counts = [library.num_threads for library in libraries if library.user_api == "blas"]
    return max(counts, default=os.cpu_count() or 1)


class _Loaded(NamedTuple):
    """A library that the process has loaded."""

    library: Any
    is_per_thread: bool  # every Python thread has a number of its own: OpenMP, and BLAS that was built on it


@lru_cache(maxsize=1)
def _loaded(_n_modules: int) -> list[_Loaded]:
    """Look for libraries among all files of the process, again once a module that may bring one was imported."""
    return [
        _Loaded(one, "openmp" in (one.user_api, getattr(one, "threading_layer", None)))
        for one in ThreadpoolController().lib_controllers
    ]


def _leave(library: Any, is_per_thread: bool, threads: int, token: object) -> None:
    """Restore the threads if no other block is active; also where the entry was interrupted."""
    if is_per_thread:
        _set_threads(library, threads)
        return
    before, inside = _INSIDE.get(library.filepath, (threads, set()))
    inside.discard(token)
    if not inside:
        _set_threads(library, before)
        _INSIDE.pop(library.filepath, None)


def _set_threads(library: Any, threads: int) -> None:
    """Set the number, also where threadpoolctl would leave that to the Python thread which set it last."""
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)
    if release is not None:
        release(force=True)
