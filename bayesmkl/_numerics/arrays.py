"""Array functions for NumPy and JAX from one source: the namespace comes from the arrays."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import jax
    import numpy as np

# Of one library or the other within a call; a tracer of JAX is one of its arrays.
Array: TypeAlias = "np.ndarray | jax.Array"


def namespace(array: Array) -> Any:
    """Return the array namespace (``numpy`` or ``jax.numpy``) that `array` belongs to."""
    return array.__array_namespace__()


def is_numpy(array: Array) -> bool:
    """Return whether `array` is a NumPy array (anything else here is a JAX array or tracer)."""
    return namespace(array).__name__ == "numpy"


def special_functions(array: Array) -> ModuleType:
    """Return the module with ``digamma``, ``gammaln``, ``erfc`` for the namespace of `array`."""
    return _special(is_numpy(array))


@cache
def _special(of_numpy: bool) -> ModuleType:
    return importlib.import_module("scipy.special" if of_numpy else "jax.scipy.special")
