r"""Divergence between gamma distributions, exact also where their shapes are huge and nearly the same.

For shapes :math:`a` and rates :math:`b`,

.. math:: KL\bigl(G(a_q, b_q) \,\|\, G(a_p, b_p)\bigr)
   = \underbrace{\log\Gamma(a_p) - \log\Gamma(a_q) - (a_p - a_q)\,\psi(a_q)}_{D(a_p, a_q)}
   + a_p (r - \log(1 + r)) + (a_q - a_p)\, r, \qquad r = \frac{b_p}{b_q} - 1 .

The two parts are never negative and small where the distributions are alike, but made of terms of the order of
:math:`a \log a`. For large shapes Stirling's series takes those out of `D`: with its remainder
:math:`S(a) = \frac{1}{12a} - \frac{1}{360a^3} + \dots` and :math:`u = a_p / a_q - 1`,

.. math:: D = (a_p - \tfrac12) \log(1 + u) - a_q u + \tfrac{u}{2} + S(a_p) - S(a_q) - (a_p - a_q)\, S'(a_q) .
"""

from __future__ import annotations

from typing import Any

from bayesmkl._numerics.arrays import Array, namespace, special_functions

LARGE = 16.0  # from this shape on four terms of Stirling's series are exact to rounding
SERIES = ((1, 1 / 12), (3, -1 / 360), (5, 1 / 1260), (7, -1 / 1680))  # powers of 1/a and their factors


def gamma_divergence(shape: Array, rate: Array, prior_shape: Array | float, prior_rate: Array | float) -> Any:
    """Return the Kullback-Leibler divergence of gamma distributions from others, in nats, shaped as `rate`.

    Parameters
    ----------
    shape : float or array
    rate : array
    prior_shape, prior_rate : float or array

    Examples
    --------
    >>> import numpy as np
    >>> gamma_divergence(2.0, np.array([4.0, 8.0]), 2.0, 4.0).round(4)
    array([0.    , 0.3863])
    >>> (1e9 * gamma_divergence(1e10, np.array([1e10]), 1e10, 1e10 + 10)).round(4)
    array([5.])
    """
    xp = namespace(rate)
    shape, prior_shape, prior_rate = (
        xp.asarray(value, dtype=rate.dtype) for value in (shape, prior_shape, prior_rate)
    )
    change = (prior_rate - rate) / rate
    from_rates = (
        prior_shape * (change - _log_ratio(prior_rate, rate, change)) + (shape - prior_shape) * change
    )
    return _shape_divergence(prior_shape, shape) + from_rates


def _log_ratio(top: Array | float, bottom: Array, change: Array) -> Any:
    """Return ``log(top / bottom)``, by their relative `change` where that is small."""
    xp = namespace(change)
    near = xp.abs(change) < 0.5
    return xp.where(near, xp.log1p(xp.where(near, change, 0.0)), xp.log(top) - xp.log(bottom))


def _shape_divergence(a: Array | float, b: Array) -> Any:
    """Return ``D(a, b)``."""
    xp, special = namespace(b), special_functions(b)
    plain = special.gammaln(a) - special.gammaln(b) - (a - b) * special.digamma(b)
    large = xp.minimum(a, b) > LARGE
    a, b = xp.where(large, a, LARGE), xp.where(large, b, LARGE)
    change = (a - b) / b
    stirling: Any = (a - 0.5) * _log_ratio(a, b, change) - b * change + 0.5 * change
    for power, factor in SERIES:
        stirling = stirling + factor * (a**-power - b**-power + power * (a - b) * b ** -(power + 1))
    return xp.where(large, stirling, plain)
