"""Posteriors on disk: NetCDF, which ArviZ and xarray read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmkl._numerics.files import written_beside
from bayesmkl.posterior.convert import to_datatree

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["load_posterior", "save_posterior"]


def save_posterior(
    model: Any,
    path: str | os.PathLike[str],
    n_draws: int | None = None,
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> None:
    """Write the posterior of a model as NetCDF, which ArviZ and xarray read.

    Parameters
    ----------
    model : estimator or xarray.DataTree
        A fitted model, or what :func:`to_datatree` made of one.
    path : path-like
        File to write. It appears, or replaces an older one, only when it is complete.
    n_draws, random_state, **options
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
    ...     save_posterior(model, f"{folder}/posterior.nc", random_state=0, pointwise=False)
    ...     tree = load_posterior(f"{folder}/posterior.nc")
    >>> sorted(tree.children)
    ['constant_data', 'log_prior', 'observed_data', 'posterior', 'sample_stats']
    """
    from xarray import DataTree

    tree = model if isinstance(model, DataTree) else to_datatree(model, n_draws, random_state, **options)
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
