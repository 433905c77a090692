"""Libraries that only some users need, and the line that installs them."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, package: str, purpose: str, extra: str = "compare") -> Any:
    """Import a module of an extra, or say how to get it.

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
        is_missing = isinstance(error, ModuleNotFoundError) and f"{error.name}.".startswith(
            module.split(".")[0] + "."
        )
        why = (
            "is not installed: pip install"
            if is_missing
            else f"does not import ({error}): pip install --upgrade"
        )
        raise ImportError(f'{purpose} needs {package}, which {why} "bayesmkl[{extra}]"') from error
