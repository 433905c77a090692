"""One source for two array libraries: what belongs to which."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.special

from bayesmkl._numerics.arrays import is_numpy, namespace, special_functions


def test_arrays_know_where_they_belong(xp):
    array = xp.ones(3)
    assert namespace(array) is xp
    assert is_numpy(array) == (xp is np)
    expected = scipy.special if xp is np else jax.scipy.special
    assert special_functions(array) is expected


def test_a_tracer_is_not_numpy():
    jax.jit(lambda x: x if not is_numpy(x) else pytest.fail("a tracer"))(np.ones(2))
