"""The kernel functions and normalizations of this package as formulas on JAX arrays.

All kernels of one formula, on all views with one number of columns, are one computation on arrays with leading axes
(n_views, n_each): however many kernels there are, few operations are to be compiled. Numbers are those of
`bayesmkl.kernels.functions`, `distance`, `geometry` and `normalize` up to rounding; squared distances are sums of
squared differences here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bayesmkl._numerics.arrays import Array
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.categories import Overlap
from bayesmkl.kernels.distance import FromDistance
from bayesmkl.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Polynomial, Tanimoto
from bayesmkl.kernels.moved import Parts, power
from bayesmkl.kernels.normalize import CENTER_NOISE, Spherical, Trace

__all__ = ["Formula", "Geometry", "evaluate", "formula_of", "normalized"]


class Formula(NamedTuple):
    """Formula of a kernel: kernels with the same one are evaluated together."""

    name: str
    degree: int = 1  # of a polynomial


class Geometry:
    """Quantities shared by kernels over the same views; see `bayesmkl.kernels.geometry`.

    Parameters
    ----------
    x : array of shape (n_views, n_rows, n_columns)
    z : array of shape (n_views, n_train, n_columns)
    """

    def __init__(self, x: Array, z: Array) -> None:
        self.x = x
        self.z = z

    @cached_property
    def squared_distances(self) -> Any:
        """Shape (n_views, n_rows, n_train)."""
        return self._over_columns(jnp.square)

    @cached_property
    def l1_distances(self) -> Any:
        """Shape (n_views, n_rows, n_train)."""
        return self._over_columns(jnp.abs)

    @property
    def unequal(self) -> Any:
        """Part of the columns with different values, shape (n_views, n_rows, n_train)."""
        return self._over_columns(lambda difference: 1.0 * (difference != 0)) / self.x.shape[2]

    @cached_property
    def inner_products(self) -> Any:
        """Shape (n_views, n_rows, n_train)."""
        return self.x @ self.z.mT

    @cached_property
    def squared_norms(self) -> tuple[Any, Any]:
        """Shapes (n_views, n_rows) and (n_views, n_train)."""
        return (self.x**2).sum(axis=-1), (self.z**2).sum(axis=-1)

    def about(self, origin: Array) -> Geometry:
        """Return the same points measured from origins of shape (n_views, n_columns)."""
        return Geometry(self.x - origin[:, None], self.z - origin[:, None])

    def _over_columns(self, function: Callable[..., Any]) -> Any:
        def add(j: Any, total: Any) -> Any:
            return total + function(self.x[:, :, None, j] - self.z[:, None, :, j])

        return jax.lax.fori_loop(1, self.x.shape[2], add, add(0, 0.0))


def formula_of(kernel: Kernel) -> tuple[Formula, float] | None:
    """Return the formula of a fitted kernel with its parameter; None for a function that has none here."""
    if type(kernel) is Gaussian:
        return Formula("gaussian"), kernel.factor
    if type(kernel) is Laplacian:
        return Formula("laplacian"), kernel.factor
    if type(kernel) is Polynomial:
        return Formula("polynomial", int(kernel.degree)), float(kernel.offset)
    if type(kernel) is FromDistance and isinstance(kernel.distance, str):
        name = DISTANCES.get(kernel.distance)
        return None if name is None else (Formula(name), 1.0 / kernel.scale_)
    return CONSTANT.get(type(kernel))


CONSTANT = {
    Linear: (Formula("polynomial"), 0.0),
    Cosine: (Formula("cosine"), 0.0),
    Overlap: (Formula("overlap"), 0.0),
    Tanimoto: (Formula("tanimoto"), 0.0),
}
DISTANCES = {
    "euclidean": "exponential",
    "l2": "exponential",
    "sqeuclidean": "gaussian",
    "cityblock": "laplacian",
    "l1": "laplacian",
    "manhattan": "laplacian",
}


def evaluate(
    formula: Formula, geometry: Geometry, parameter: Array, origin: Array | None = None
) -> tuple[Any, Any]:
    """Return kernels (n_views, n_each, n_rows, n_train) and self-similarities of rows (n_views, n_each, n_rows).

    Parameters
    ----------
    formula : Formula
    geometry : Geometry
    parameter : array of shape (n_views, n_each)
        Factor of a distance, or offset of a polynomial.
    origin : array of shape (n_views, n_columns), default=None
        Points to whose images polynomials move the origin of their feature space; None leaves it.
    """
    if origin is not None:
        return _moved_polynomial(formula.degree, geometry.about(origin), parameter, origin)
    factor = parameter[:, :, None, None]
    ones = jnp.ones((*parameter.shape, geometry.x.shape[1]), dtype=parameter.dtype)
    if formula.name == "gaussian":
        return jnp.exp(-factor * geometry.squared_distances[:, None]), ones
    if formula.name == "exponential":
        return jnp.exp(-factor * jnp.sqrt(geometry.squared_distances)[:, None]), ones
    if formula.name == "laplacian":
        return jnp.exp(-factor * geometry.l1_distances[:, None]), ones
    if formula.name == "overlap":
        return (1.0 - geometry.unequal)[:, None] + 0.0 * factor, ones
    of_x, of_z = geometry.squared_norms
    products = geometry.inner_products[:, None]
    if formula.name == "polynomial":
        powers = jax.lax.integer_pow(products + factor, formula.degree)
        return powers, jax.lax.integer_pow(of_x[:, None] + parameter[:, :, None], formula.degree)
    if formula.name == "cosine":
        lengths = jnp.sqrt(of_x)[..., None] * jnp.sqrt(of_z)[:, None]
        return _ratio(products, lengths[:, None], 0.0) + 0.0 * factor, ones * (of_x > 0)[:, None]
    union = (of_x[..., None] + of_z[:, None])[:, None] - products
    return _ratio(products, union, 1.0) + 0.0 * factor, ones


def _moved_polynomial(degree: int, moved: Geometry, parameter: Array, origin: Array) -> tuple[Any, Any]:
    """Do what `MovedPolynomial` does."""
    of_x, of_z = ((points * origin[:, None]).sum(axis=-1)[:, None] for points in (moved.x, moved.z))
    constant = (origin**2).sum(axis=-1)[:, None] + parameter
    products = Parts(
        moved.inner_products[:, None], of_x[..., None], of_z[..., None, :], constant[..., None, None]
    )
    own = Parts(moved.squared_norms[0][:, None], of_x, of_x, constant[..., None])
    kernels, diagonal = (power(parts, degree).joint for parts in (products, own))
    shape = (*parameter.shape, *kernels.shape[-2:])
    return jnp.broadcast_to(kernels, shape), jnp.broadcast_to(diagonal, shape[:-1])


def normalized(normalizer: Any, kernels: Array, diagonal: Array) -> tuple[Any, Any]:
    """Normalize rows of kernels; the counterpart of ``normalizer.apply``.

    Parameters
    ----------
    normalizer : Spherical, Trace or Center
        Of all kernels together: every field with leading axes (n_views, n_each); the `at_origin` of Center as a mask
        of shape (n_views, n_each, n_train).
    kernels : array of shape (n_views, n_each, n_rows, n_train)
    diagonal : array of shape (n_views, n_each, n_rows)
    """
    if isinstance(normalizer, Trace):
        scale: Any = normalizer.scale
        return kernels * scale[..., None, None], diagonal * scale[..., None]
    if isinstance(normalizer, Spherical):
        # the root of a negative number is NaN, which is refused where kernels are looked at once
        inverse_norms = _ratio(1.0, jnp.sqrt(diagonal), 0.0)
        factors = inverse_norms[..., None] * normalizer.inverse_norms[..., None, :]
        return kernels * factors, (diagonal > 0).astype(diagonal.dtype)
    row_means = kernels.mean(axis=-1)
    half = 0.5 * normalizer.grand_mean[..., None]
    kernels = kernels - ((row_means - half)[..., None] + (normalizer.column_means - half)[..., None, :])
    diagonal = _centered_diagonal(diagonal, row_means, normalizer.grand_mean[..., None])
    nothing = (diagonal == 0)[..., None] | normalizer.at_origin[..., None, :]
    return jnp.where(nothing, 0.0, kernels), diagonal


def _ratio(above: Any, below: Array, otherwise: float) -> Any:
    """Divide; `otherwise` where the denominator is zero."""
    zero = below == 0
    return jnp.where(zero, otherwise, above / jnp.where(zero, 1.0, below))


def _centered_diagonal(diagonal: Array, row_means: Array, grand_mean: Array) -> Any:
    centered = diagonal - 2.0 * row_means + grand_mean
    noise = CENTER_NOISE * (jnp.abs(diagonal) + 2.0 * jnp.abs(row_means) + jnp.abs(grand_mean))
    return jnp.where(jnp.abs(centered) <= noise, 0.0, centered)
