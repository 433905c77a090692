"""Priors of kernel weights as users name them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesmkl._utils.validation import check_scale, shown
from bayesmkl.marginal.hyperpriors import DirichletShares, HalfT, Horseshoe, WeightPrior

__all__ = ["checked_weight_prior"]


def checked_weight_prior(value: Any, named: Mapping[str, WeightPrior]) -> WeightPrior:
    """Return the prior that a `kernel_prior` is, or stands for.

    Parameters
    ----------
    value : str, WeightPrior or numpyro.distributions.Distribution
    named : dict of str to WeightPrior
        What names stand for.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(value, str) and value in named:
        return named[value]
    if _is_of_numpyro(value):
        from bayesmkl.marginal.numpyro_priors import numpyro_prior

        return numpyro_prior(value)
    if not isinstance(value, HalfT | DirichletShares | Horseshoe):
        raise ValueError(
            f"`kernel_prior` must be one of {', '.join(map(repr, named))}, a HalfT, a DirichletShares, a Horseshoe, "
            f"or a distribution of NumPyro on the positive numbers; got {shown(value)}."
        )
    return type(value)(*(check_scale(f"kernel_prior.{k}", v) for k, v in value._asdict().items()))


def _is_of_numpyro(value: object) -> bool:
    """Return whether this is a distribution of NumPyro, without importing that."""
    return any(
        kind.__name__ == "Distribution" and kind.__module__.startswith("numpyro.")
        for kind in type(value).__mro__
    )
