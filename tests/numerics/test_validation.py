"""Generators of random numbers that parameters name."""

from __future__ import annotations

import numpy as np
import pytest

from bayesmkl._utils import validation


def test_generators_are_taken_and_seeds_make_them():
    given = np.random.default_rng(3)
    assert validation.generator_of("seed", given) is given
    drawn = np.random.default_rng(5).random(4)
    np.testing.assert_array_equal(validation.generator_of("seed", 5).random(4), drawn)
    old = np.random.RandomState(1)
    first, second = (validation.generator_of("seed", old).random(4) for _ in range(2))
    assert (first != second).all()  # the old generator goes on
    again = validation.generator_of("seed", np.random.RandomState(1)).random(4)
    np.testing.assert_array_equal(again, first)
    with pytest.raises(ValueError, match=r"^`seed` must be None, .* or RandomState; got 'a'\.$"):
        validation.generator_of("seed", "a")
