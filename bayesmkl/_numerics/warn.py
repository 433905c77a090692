"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn_user"]


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, however deep inside it the reason was found.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("too hot", UserWarning)
    >>> print(caught[0].message, caught[0].category.__name__)
    too hot UserWarning
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("bayesmkl."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
