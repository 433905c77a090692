"""Statements of a NumPyro program that draw from other distributions than those of its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer.reparam import Reparam

from bayesmkl._utils.devices import numpyro_session
from bayesmkl._utils.validation import shown

Change = Callable[[dist.Distribution], dist.Distribution]
N_TRIED = 100  # draws, whether they are values that a site can have


class _Instead(Reparam):
    """What a statement draws from, made of what it would draw from."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def __call__(self, name: str, fn: Any, obs: Any) -> Any:
        return self.change(fn), obs


def with_priors(
    model: Callable[..., None], data: dict[str, Any], priors: Mapping[str, Any]
) -> Callable[..., None]:
    """Return a model with other distributions at some of its sites.

    Parameters
    ----------
    model : callable
        NumPyro model.
    data : dict
        Its keyword arguments.
    priors : mapping of str to Distribution or callable
        By the names of sites.

    Raises
    ------
    ValueError
        If a name is no site, or a distribution has another shape or other values than the site.
    """
    if not isinstance(priors, Mapping) or not priors:
        raise ValueError(
            "`priors` must be a dict of distributions of NumPyro by the names of sites, such as {'intercept': "
            f"numpyro.distributions.Normal(0, 3)}}; got {shown(priors)}."
        )
    with numpyro_session():
        trace = handlers.trace(handlers.seed(model, 0)).get_trace(**data)
        sites = {name: site for name, site in trace.items() if site["type"] == "sample"}
        changes: dict[Any, Reparam] = {
            name: _Instead(_change(name, law, trace, sites)) for name, law in priors.items()
        }
    changed: Callable[..., None] = handlers.reparam(model, config=changes)
    return changed


def _change(name: str, given: Any, trace: Mapping[str, Any], sites: Mapping[str, Any]) -> Change:
    """Return the function from the distribution of a site to the one that takes its place."""
    if name not in sites:
        why = "follows from others" if name in trace else "is not a site of this model"
        hint = " Set the prior of weights by `kernel_prior`." if name == "kernel_weights" else ""
        raise ValueError(
            f"`priors` must name sites; {shown(name)} {why}. Sites are {', '.join(sites)}.{hint}"
        )
    site = sites[name]["fn"]
    is_law = isinstance(given, dist.Distribution)
    law = _of_shape(name, given, site) if is_law else given(site) if callable(given) else given
    if not isinstance(law, dist.Distribution) or law.shape() != site.shape():
        got = f"shape {law.shape()}" if isinstance(law, dist.Distribution) else shown(law)
        raise ValueError(
            f"`priors[{name!r}]` must be a distribution of NumPyro, or a function from the present one to one of the "
            f"same shape, {site.shape()}; got {got}."
        )
    if not sites[name]["is_observed"] and not bool(
        jnp.all(site.support(law.sample(jax.random.key(0), (N_TRIED,))))
    ):
        raise ValueError(
            f"`priors[{name!r}]` must draw values in the support {site.support}; got {type(given).__name__}, "
            "which draws other values. Use numpyro.distributions.FoldedDistribution or TruncatedDistribution."
        )
    return (lambda _: law) if is_law else given


def _of_shape(name: str, given: dist.Distribution, site: dist.Distribution) -> dist.Distribution:
    """Return a distribution of the shape of a site: one of numbers, the same for all, or one for each."""
    batch = site.batch_shape if given.event_shape else site.shape()
    event = (given.event_shape or site.event_shape, site.event_shape)
    try:
        fits = event[0] == event[1] and jnp.broadcast_shapes(given.batch_shape, batch) == batch
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"`priors[{name!r}]` must be a distribution of one number, or of the shape {site.shape()} of the site; "
            f"got {type(given).__name__} of the shape {given.shape()}."
        )
    expanded = given.expand(batch)
    return expanded if given.event_shape else expanded.to_event(len(site.event_shape))
