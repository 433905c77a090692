"""Libraries that only some of the evaluation needs."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["require"]


def require(module: str, package: str, purpose: str) -> Any:
    """Import a module of the extra "compare", or say how to get it.

    Examples
    --------
    >>> require("math", "math", "square roots").sqrt(4.0)
    2.0
    >>> require("no_such_module", "no-such-package", "nothing")
    Traceback (most recent call last):
    ...
    ImportError: nothing needs no-such-package, which is not installed: pip install "bayesmkl[compare]"
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{purpose} needs {package}, which is not installed: pip install "bayesmkl[compare]"'
        ) from error
