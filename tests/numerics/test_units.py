"""Powers of two by which numbers of unusual size are divided."""

from __future__ import annotations

import math

import pytest

from bayesmkl._utils.units import USUAL_EXPONENTS, unit_of


@pytest.mark.parametrize("sign", [1, -1])
def test_sizes_stay_up_to_a_power_of_two_and_down_to_its_reciprocal(sign):
    last = sign * USUAL_EXPONENTS
    for mantissa in (1.0, 1.5, math.nextafter(2.0, 1.0)):
        assert unit_of(mantissa * 2.0**last) == 1.0
        assert unit_of(mantissa * 2.0 ** (last + sign)) == 2.0 ** (last + sign)


@pytest.mark.parametrize("size", [1e-300, 3e-20, 7e9, 1e150, 1e300])
def test_unusual_sizes_come_to_the_order_of_one_exactly(size):
    unit = unit_of(size)
    assert math.frexp(unit)[0] == 0.5  # a power of two
    assert 1.0 <= size / unit < 2.0
    assert size / unit * unit == size
