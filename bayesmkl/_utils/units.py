"""Exact rescaling by powers of two, for numbers whose squares overflow or underflow."""

from __future__ import annotations

import math

LARGEST, SMALLEST = 1e100, 1e-100  # whose squares, and sums of them, are in the range of float64
USUAL_EXPONENTS = 20  # sizes up to this power of two, and down to its reciprocal, stay as they are


def unit_of(size: float) -> float:
    """Return the power of two by which to divide numbers of an unusual size; one for others, zero and NaN.

    Division by a power of two is exact, so that results do not depend on the unit.

    Examples
    --------
    >>> unit_of(3.0), unit_of(0.0), unit_of(2.0**100), unit_of(2.0**-100)
    (1.0, 1.0, 1.2676506002282294e+30, 7.888609052210118e-31)
    """
    if size == 0.0 or not math.isfinite(size):
        return 1.0
    exponent = math.frexp(size)[1] - 1
    return 1.0 if abs(exponent) <= USUAL_EXPONENTS else 2.0**exponent
