"""Posteriors as ArviZ data: a DataTree in memory, NetCDF on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl.persistence import written_beside
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.sample import sample_posterior

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["load_posterior", "save_posterior", "to_datatree"]

# Dimensions after (chain, draw); "class" comes first where there are several one-versus-all models.
DIMS = {
    "kernel_weights": ["kernel"],
    "kernel_precision": ["kernel"],
    "dual_coef": ["obs_id"],
    "sample_precision": ["obs_id"],
}


def to_datatree(
    model: Any, n_draws: int = 1000, random_state: int | np.random.Generator | None = None
) -> DataTree:
    """Convert the posterior of a fitted BEMKL model to a DataTree, for ArviZ and xarray.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier or BEMKLRegressor, or a Pipeline or search that ends in one.
    n_draws : int, default=1000
        Number of draws from the variational posterior.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    xarray.DataTree
        With the groups

        * ``posterior``: the draws of :func:`sample_posterior` as one chain, with the dimensions ``kernel`` (kernel
          names), ``obs_id`` (training samples) and, with more than two classes, ``class``;
        * ``sample_stats``: ``elbo`` over ``iteration``, the evidence lower bound in nats after every sweep. It has
          no chain or draw: it tells how the posterior was found. One-versus-all models that ended early are
          padded with NaN;
        * ``constant_data``: ``view`` of each kernel where a bank made the kernels; in classification ``side``, the
          +1 or -1 that the training label stands for.

        Attributes name the model, the version and why the sweeps ended.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import to_datatree
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> tree = to_datatree(BEMKLRegressor(KernelBank(["rbf", "linear"])).fit(X, X[:, 0]), random_state=0)
    >>> tree["posterior/kernel_weights"].dims
    ('chain', 'draw', 'kernel')
    >>> tree["posterior"].coords["kernel"].values.tolist()
    ['rbf · all', 'linear · all']
    """
    from arviz_base import from_dict

    fitted = fitted_bemkl(model)
    draws = sample_posterior(model, n_draws, random_state)
    several = [] if fitted.class_names is None else ["class"]
    constants = _constants(fitted)
    groups = {"posterior": {name: values[None] for name, values in draws.items()}}
    if constants:
        groups["constant_data"] = {name: values for name, (_, values) in constants.items()}
    dims = {name: several + DIMS.get(name, []) for name in draws}
    dims |= {name: [*several, *own] if name == "side" else own for name, (own, _) in constants.items()}
    coords: dict[str, Any] = {"kernel": fitted.kernel_names}
    if several:
        coords["class"] = fitted.class_names
    tree = from_dict(groups, coords=coords, dims=dims, attrs={"/": _attributes(fitted)})
    trace = from_dict(
        {"sample_stats": {"elbo": _elbo(fitted)}},
        sample_dims=[],
        coords=coords | {"iteration": np.arange(1, 1 + max(map(len, fitted.histories)))},
        dims={"elbo": [*several, "iteration"]},
    )
    tree["sample_stats"] = trace["sample_stats"]
    return tree


def save_posterior(
    model: Any,
    path: str | os.PathLike[str],
    n_draws: int = 1000,
    random_state: int | np.random.Generator | None = None,
) -> None:
    """Write the posterior of a model as NetCDF, which ArviZ and xarray read.

    Parameters
    ----------
    model : estimator or xarray.DataTree
        A fitted model, or what :func:`to_datatree` made of one.
    path : path-like
        File to write. It appears, or replaces an older one, only when it is complete.
    n_draws, random_state
        As in :func:`to_datatree`; not used where `model` is a DataTree.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import load_posterior, save_posterior
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> model = BEMKLRegressor(KernelBank(["linear"])).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_posterior(model, f"{folder}/posterior.nc", random_state=0)
    ...     tree = load_posterior(f"{folder}/posterior.nc")
    >>> sorted(tree.children)
    ['constant_data', 'posterior', 'sample_stats']
    """
    from xarray import DataTree

    tree = model if isinstance(model, DataTree) else to_datatree(model, n_draws, random_state)
    with written_beside(path) as beside:
        tree.to_netcdf(beside, engine="h5netcdf")


def load_posterior(path: str | os.PathLike[str]) -> DataTree:
    """Read a posterior that :func:`save_posterior` wrote into memory.

    Parameters
    ----------
    path : path-like
        The NetCDF file.

    Returns
    -------
    xarray.DataTree

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no NetCDF file, or only part of one.
    """
    from xarray import open_datatree

    if not Path(path).is_file():
        raise FileNotFoundError(f"`path` must be a NetCDF file; there is none at {str(path)!r}.")
    try:
        with open_datatree(path, engine="h5netcdf") as tree:
            return tree.load()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"`path` is not a readable NetCDF file: {str(path)!r} ({error}). Write it again with `save_posterior`."
        ) from error


def _constants(fitted: FittedBEMKL) -> dict[str, tuple[list[str], np.ndarray]]:
    """Name -> (own dimensions, values) of what the model was given."""
    constants = {}
    if fitted.kernel_views is not None:
        constants["view"] = (["kernel"], np.array(fitted.kernel_views))
    if hasattr(fitted.states[0], "latent"):  # beyond the margin on the label's side, by construction
        sides = np.array([np.sign(state.latent.mean) for state in fitted.states]).astype(np.int64)
        constants["side"] = (["obs_id"], sides if fitted.class_names is not None else sides[0])
    return constants


def _elbo(fitted: FittedBEMKL) -> np.ndarray:
    if fitted.class_names is None:
        return fitted.histories[0]
    padded = np.full((len(fitted.histories), max(map(len, fitted.histories))), np.nan)
    for row, history in zip(padded, fitted.histories, strict=True):
        row[: len(history)] = history
    return padded


def _attributes(fitted: FittedBEMKL) -> dict[str, Any]:
    from bayesmkl import __version__

    estimator = fitted.estimator
    outcomes = estimator.outcome_ if fitted.class_names is not None else [estimator.outcome_]
    return {
        "model": type(estimator).__name__,
        "inference_library": "bayesmkl",
        "inference_library_version": __version__,
        "outcome": "; ".join(dict.fromkeys(outcome.value for outcome in outcomes)),
        "elbo": estimator.elbo_,
    }
