r"""Polynomial kernels whose feature space has its origin at the image of a point :math:`o`, to all digits.

With :math:`u = x - o`, :math:`v = z - o` every kernel of inner products is a sum of a part of both points, parts of
one of them, and a constant: :math:`x \cdot z + c = u \cdot v + o \cdot u + o \cdot v + (o \cdot o + c)`. So is the
product of two such sums,

.. math:: (s + a + b + k)(s' + a' + b' + k') = s'' + a'' + b'' + k'', \qquad
    s'' = s\,(s' + a' + b' + k') + (a + b + k)\,s' + a b' + a' b, \quad
    a'' = a\,(a' + k') + k a', \quad b'' = b\,(b' + k') + k b', \quad k'' = k k',

and so is a power. Centering removes everything but the first part, :math:`k(x, z) - k(x, o) - k(o, z) + k(o, o)`. Of
data far from zero that part is many orders of magnitude below the kernel; here it is never a difference of numbers
of the kernel's size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.geometry import PairwiseGeometry, squared_norms

__all__ = ["MovedPolynomial", "Parts", "power"]

BLOCK_ENTRIES = 2**16  # that are raised to a power together, in a core's own cache


class Parts(NamedTuple):
    """A function of two points: ``joint + of_x + of_z + constant``, in shapes that broadcast."""

    joint: Any  # zero where one of the points is the origin
    of_x: Any  # zero at the origin
    of_z: Any
    constant: Any


def power(base: Parts, degree: int) -> Parts:
    """Raise to a power by squaring, on arrays of NumPy or JAX.

    Examples
    --------
    >>> power(Parts(2.0, 3.0, 5.0, 7.0), 3)  # 17³, (3 + 7)³ - 7³, (5 + 7)³ - 7³ and 7³
    Parts(joint=2528.0, of_x=657.0, of_z=1385.0, constant=343.0)
    >>> sum(power(Parts(2.0, 3.0, 5.0, 7.0), 3)) == 17.0**3
    True
    """
    result = base
    for digit in f"{degree:b}"[1:]:
        result = _product(result, result)
        if digit == "1":
            result = _product(result, base)
    return result


def _product(one: Parts, other: Parts) -> Parts:
    # in an order that gives the same digits with x and z exchanged: training kernels are exactly symmetric
    of_one, of_other = (part.of_x + part.of_z + part.constant for part in (one, other))
    crossed = one.of_x * other.of_z + other.of_x * one.of_z
    return Parts(
        (one.joint * (other.joint + of_other) + of_one * other.joint) + crossed,
        one.of_x * (other.of_x + other.constant) + one.constant * other.of_x,
        one.of_z * (other.of_z + other.constant) + one.constant * other.of_z,
        one.constant * other.constant,
    )


class MovedPolynomial(Kernel):
    r"""The kernel :math:`(\gamma\, x \cdot z + c)^q` with the image of a point as origin of its feature space.

    Parameters
    ----------
    origin : ndarray of shape (n_features,)
        The point.
    degree : int, default=1
        The degree :math:`q`, at least 1.
    offset : float, default=0.0
        The offset :math:`c`.
    gamma : float, default=1.0
        The factor :math:`\gamma`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.moved import MovedPolynomial
    >>> x, z = 1e9 + np.array([[1.0]]), 1e9 + np.array([[0.25]])
    >>> MovedPolynomial(np.array([1e9]))(x, z)
    array([[0.25]])
    """

    def __init__(self, origin: np.ndarray, degree: int = 1, offset: float = 0.0, gamma: float = 1.0) -> None:
        self.origin = origin
        self.degree = degree
        self.offset = offset
        self.gamma = gamma

    def evaluate(self, geometry: PairwiseGeometry, out: np.ndarray) -> None:
        """Write the kernel into `out`, shape (n_rows, n_train)."""
        moved = geometry.about(self.origin)
        np.multiply(moved.inner_products, self.gamma, out=out)
        if self.degree == 1:
            return
        of_x = self._of_one(moved.X)
        of_z = of_x if moved.X is moved.Z else self._of_one(moved.Z)
        step = max(1, BLOCK_ENTRIES // max(1, out.shape[1]))
        for first in range(0, len(out), step):
            rows = slice(first, first + step)
            out[rows] = self._power(out[rows], of_x[rows, None], of_z)

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """Return the self-similarity of each row of `X`, shape (n_rows,)."""
        moved = X - self.origin
        of_x = self._of_one(moved)
        return self._power(self.gamma * squared_norms(moved), of_x, of_x)

    def _of_one(self, moved: np.ndarray) -> np.ndarray:
        return self.gamma * (moved @ self.origin)

    def _power(self, joint: np.ndarray, of_x: np.ndarray, of_z: np.ndarray) -> Any:
        constant = self.gamma * (self.origin @ self.origin) + self.offset
        with np.errstate(over="ignore", invalid="ignore"):  # reported by name where the kernel is used
            return power(Parts(joint, of_x, of_z, constant), int(self.degree)).joint
