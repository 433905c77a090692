"""scikit-learn does not ask NumPy's arrays whether they are tables: that takes longest of what it looks at in each.

Anything else it asks as always.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import _param_validation, validation


def _but_of_arrays(is_table: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda given: type(given) is not np.ndarray and is_table(given)


if hasattr(validation, "nw"):  # since scikit-learn 1.9
    tables = validation.nw.dependencies
    tables.is_into_dataframe = _but_of_arrays(tables.is_into_dataframe)
    tables.is_into_series = _but_of_arrays(tables.is_into_series)
if hasattr(
    _param_validation, "signature"
):  # of functions whose parameters are checked: asked for in every call
    _param_validation.signature = functools.cache(_param_validation.signature)
