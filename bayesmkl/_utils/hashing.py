"""Hashes of what values hold."""

from __future__ import annotations

import pickle
from typing import Any

from joblib.hashing import NumpyHasher


def content_hash(value: object) -> str:
    """Return joblib's hash of a value, in which the order of a dict counts: that of views decides that of kernels.

    Functions and classes count by their names in modules; what cannot be pickled raises.

    Examples
    --------
    >>> content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    False
    """
    return str(_Hasher("md5").hash(value))


class _Hasher(NumpyHasher):
    def _batch_setitems(self, items: Any, *args: Any) -> None:
        pickle._Pickler._batch_setitems(self, items, *args)  # type: ignore[attr-defined]
