"""Priors of kernel weights as users name them, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesmkl._utils.validation import check_probability, check_scale, shown
from bayesmkl.gp.hyperpriors import DirichletShares, HalfT, Horseshoe, WeightPrior
from bayesmkl.gp.spike_slab import SpikeSlabOfKernels, SpikeSlabWeights

NamedPriors = Mapping[str, WeightPrior | SpikeSlabWeights]


def checked_weight_prior(value: Any, named: NamedPriors) -> Any:
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
        from bayesmkl.gp.numpyro_priors import numpyro_prior

        return numpyro_prior(value)
    if isinstance(value, SpikeSlabWeights):
        return _checked_spike_slab(value)
    if not isinstance(value, HalfT | DirichletShares | Horseshoe):
        raise ValueError(
            f"`kernel_prior` must be one of {', '.join(map(repr, named))}, a HalfT, a DirichletShares, a Horseshoe, "
            f"a SpikeSlabWeights, or a distribution of NumPyro on the positive numbers; got {shown(value)}."
        )
    sizes: Any = (check_scale(f"kernel_prior.{k}", v) for k, v in value._asdict().items())
    return type(value)(*sizes)


def is_spike_slab(value: Any, named: NamedPriors) -> bool:
    """Return whether a `kernel_prior` is a spike-and-slab prior, or stands for one."""
    return isinstance(named.get(value) if isinstance(value, str) else value, SpikeSlabWeights)


def _checked_spike_slab(value: SpikeSlabWeights) -> SpikeSlabWeights:
    """Return a spike-and-slab prior, checked as far as it can be without kernels."""
    name = "kernel_prior."
    inclusion, groups = value.inclusion, value.groups
    if not isinstance(inclusion, tuple | list) or len(inclusion) != 2:
        raise ValueError(f"`{name}inclusion` must be two shapes of a Beta prior; got {shown(inclusion)}.")
    is_list = isinstance(groups, Sequence | np.ndarray) and not isinstance(groups, str | bytes)
    if not is_list and not isinstance(groups, Mapping) and groups not in ("view", "kernel"):
        raise ValueError(
            f'`{name}groups` must be "view", "kernel", a sequence of names, one for each kernel, or a dict of names '
            f"of kernels or views; got {shown(groups)}."
        )
    first = check_scale(f"{name}inclusion[0]", inclusion[0])
    second = None if inclusion[1] is None else check_scale(f"{name}inclusion[1]", inclusion[1])
    alpha, df, scale = (
        check_scale(f"{name}{field}", getattr(value, field)) for field in ("concentration", "df", "scale")
    )
    within = check_probability(f"{name}within", value.within)
    named: Any = tuple(groups) if is_list else groups
    return SpikeSlabWeights(alpha, df, scale, (first, second), within, named)


def of_kernels(
    prior: SpikeSlabWeights, names: Sequence[Any], views: Sequence[Any], kept: np.ndarray | None
) -> SpikeSlabOfKernels:
    """Return the prior of some kernels, in the groups that it has.

    Parameters
    ----------
    prior : SpikeSlabWeights
    names, views : sequence of str
        Of all kernels.
    kept : ndarray of int, optional
        Positions of those that it is the prior of; None: all.

    Raises
    ------
    ValueError
        If groups are given, and are not one for each kernel, or name kernels that are not there or are in another.
    """
    if isinstance(prior.groups, Mapping):
        groups = _listed(prior.groups, names, views)
    elif isinstance(prior.groups, str):
        groups = list(views) if prior.groups == "view" else [str(m) for m in range(len(names))]
    else:
        groups = [str(group) for group in prior.groups]
    if len(groups) != len(names):
        raise ValueError(
            f"`kernel_prior.groups` must have a name for each of the {len(names)} kernels; got {len(groups)}."
        )
    chosen = np.asarray(groups) if kept is None else np.asarray(groups)[kept]
    return SpikeSlabOfKernels(prior, np.unique(chosen, return_inverse=True)[1])


def _listed(groups: Mapping[str, Any], names: Sequence[Any], views: Sequence[Any]) -> list[str]:
    """Return the group of every kernel; one that no group names is a group of its own."""
    found: dict[int, str] = {}
    for group, members in groups.items():
        for member in [members] if isinstance(members, str) else members:
            positions = [m for m in range(len(names)) if member in (names[m], views[m])]
            if not positions:
                raise ValueError(
                    f"`kernel_prior.groups` must name kernels or views; {group!r} has {shown(member)}, and kernels "
                    f"are {shown(list(names)[:5])}."
                )
            for m in positions:
                if found.setdefault(m, group) != group:
                    raise ValueError(
                        f"`kernel_prior.groups` must have every kernel in one group; {names[m]!r} is in {found[m]!r} "
                        f"and {group!r}."
                    )
    return [f"group {found[m]}" if m in found else f"kernel {m}" for m in range(len(names))]


def _is_of_numpyro(value: object) -> bool:
    """Return whether this is a distribution of NumPyro, without importing that."""
    return any(
        kind.__name__ == "Distribution" and kind.__module__.startswith("numpyro.")
        for kind in type(value).__mro__
    )
