"""Posteriors on disk: NetCDF, which ArviZ and xarray read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from bayesmkl._utils.files import as_path, check_layout, written_beside
from bayesmkl._utils.memory import available_memory, format_bytes
from bayesmkl._utils.settings import own_settings
from bayesmkl.posterior.convert import to_datatree

if TYPE_CHECKING:
    from xarray import DataTree

FORMAT, VERSION = "bayesmkl-posterior", 2


@own_settings
def save_posterior(
    model: BaseEstimator | DataTree,
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
    n_draws : int, default=None
        Draws in each chain, as in :func:`to_datatree`; not used where `model` is a DataTree, nor are the following.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws, as in :func:`to_datatree`.
    **options : object
        `kernels`, `pointwise` and `sample_names` of :func:`to_datatree`.

    Raises
    ------
    TypeError
        For anything else than a BEMKL model or a DataTree, for a multitask model, and for a `path` that is none.
    NotFittedError
        Before `fit`.
    ValueError
        If `path` cannot be a file, and as :func:`to_datatree` raises.
    OSError
        If the file cannot be written; what was there before stays.

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

    with written_beside(path) as beside:
        tree = model if isinstance(model, DataTree) else to_datatree(model, n_draws, random_state, **options)
        layout = {"bayesmkl_format": FORMAT, "bayesmkl_layout": VERSION}
        kept = tree.copy()
        kept.attrs = tree.attrs | layout
        content = kept.to_netcdf(engine="h5netcdf")  # in memory: HDF5 crashes where the disk is full
        beside.write_bytes(content)


@own_settings
def load_posterior(path: str | os.PathLike[str]) -> DataTree:
    """Read a posterior that :func:`save_posterior` wrote into memory.

    Parameters
    ----------
    path : path-like
        The NetCDF file.

    Returns
    -------
    xarray.DataTree
        Its groups are those of :func:`to_datatree`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is no path.
    ValueError
        If the file is no NetCDF file, or only part of one, has links to other files, or comes from a newer version.
    MemoryError
        If it holds more than the memory that is left, before that is taken.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from arviz_base import from_dict
    >>> from bayesmkl.posterior import load_posterior, save_posterior
    >>> tree = from_dict({"posterior": {"kernel_weights": np.zeros((1, 10, 3))}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_posterior(tree, f"{folder}/posterior.nc")
    ...     again = load_posterior(f"{folder}/posterior.nc")
    >>> again["posterior"]["kernel_weights"].shape
    (1, 10, 3)
    """
    from xarray import open_datatree

    if not as_path("path", path).is_file():
        raise FileNotFoundError(f"`path` must be a NetCDF file; there is none at {str(path)!r}.")
    try:
        _refuse_links(path)
        with open_datatree(path, engine="h5netcdf", phony_dims="access") as lazy:
            _require_memory(path, lazy)
            tree = lazy.load()
    except MemoryError:
        raise
    except Exception as error:  # whatever HDF5 and its readers stumble over
        raise ValueError(
            f"`path` is not a readable NetCDF file: {str(path)!r} ({str(error)[:300]}). Write it again with "
            "`save_posterior`."
        ) from error
    by = tree.attrs.get("inference_library_version")
    layout = tree.attrs.pop("bayesmkl_layout", None)
    tree.attrs.pop("bayesmkl_format", None)
    check_layout(
        int(layout) if isinstance(layout, np.integer) else layout, VERSION, f"`path` {str(path)!r}", by
    )
    return tree


def _refuse_links(path: Any) -> None:
    """Raise for a file whose numbers are in other files, which HDF5 would follow."""
    import h5py

    with h5py.File(path, "r") as file:

        def fault(name: str, link: Path) -> str | None:
            if isinstance(link, h5py.ExternalLink):
                return f"{name!r} is a link to another file, which is not followed"
            item = None if isinstance(link, h5py.SoftLink) else file[name]
            if isinstance(item, h5py.Dataset) and (item.external or item.is_virtual):
                return f"the numbers of {name!r} are in another file, which is not read"
            return None

        found = file.visititems_links(fault)
    if found is not None:
        raise ValueError(found)


def _require_memory(path: Any, tree: DataTree) -> None:
    n_bytes = sum(variable.nbytes for node in tree.subtree for variable in node.variables.values())
    left = available_memory()
    if left is not None and n_bytes > left:
        raise MemoryError(
            f"`path`: {str(path)!r} holds {format_bytes(n_bytes)}, and {format_bytes(left)} are available. "
            "Open it in parts with xarray.open_datatree."
        )
