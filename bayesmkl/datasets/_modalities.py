"""Annotated matrices of omics, AnnData and MuData, as a table with a view for each modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import Bunch

from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.validation import shown

UNIQUE = {
    "obs_names": "Leave repeated samples out, or rename them alike in all modalities",
    "var_names": "Call `.var_names_make_unique()`",
}


def from_mudata(
    mdata: Any,
    target: str | None = None,
    *,
    covariates: Sequence[str] = (),
    modalities: Sequence[str] | None = None,
    var_view: str | None = None,
    layer: str | None = None,
) -> Bunch:
    """Make a table of annotated matrices: modalities become views, columns of `obs` the target and covariates.

    Parameters
    ----------
    mdata : MuData, AnnData or dict of str to AnnData
        Samples are rows of ``X``. Modalities may have different samples; of those that lack one, its columns are NaN.
    target : str, default=None
        Column of ``obs`` to predict; None leaves the target out.
    covariates : sequence of str, default=()
        Columns of ``obs`` that become columns of the table, in no view. Numbers stay what they are; texts do, too,
        and want an encoder, such as that of :func:`~bayesmkl.kernels.make_bank`.
    modalities : sequence of str, default=None
        Which ones, in this order; None takes all.
    var_view : str, default=None
        Column of ``var`` that says to which view a variable of a modality belongs, such as the type of features in
        an AnnData. None: a view for each modality.
    layer : str, default=None
        Entry of ``layers`` in place of ``X``.

    Returns
    -------
    Bunch
        ``data``, a DataFrame of shape (n_samples, n_features) whose columns are called "modality:variable";
        ``views``, a dict of their names for ``KernelBank(views=...)``; ``target``, an array of shape (n_samples,) or
        None; ``feature_names``. Samples are in the order of ``mdata.obs_names``, or of their first modality.

    Raises
    ------
    TypeError
        If `mdata` is none of these, or one name is given where a list is expected.
    ValueError
        For names that `mdata` does not have, samples, variables or columns of one name, no values, and a target or a
        view that is missing.
    MemoryError
        If sparse matrices do not fit as a table.

    Examples
    --------
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> def annotated(values, samples, variables):  # stands for anndata.AnnData
    ...     obs, var = pd.DataFrame(index=samples), pd.DataFrame(index=variables)
    ...     return SimpleNamespace(X=values, obs=obs, var=var, obs_names=obs.index, var_names=var.index, layers={})
    >>> rna = annotated([[1.0, 2.0], [0.0, 5.0]], ["a", "b"], ["TP53", "BAX"])
    >>> protein = annotated([[7.0]], ["b"], ["CD4"])
    >>> table = from_mudata({"rna": rna, "protein": protein})
    >>> table.data
       rna:TP53  rna:BAX  protein:CD4
    a       1.0      2.0          NaN
    b       0.0      5.0          7.0
    >>> table.views
    {'rna': ['rna:TP53', 'rna:BAX'], 'protein': ['protein:CD4']}
    """
    parts = _parts(mdata)
    for what, one in (("modalities", modalities), ("covariates", covariates)):
        if isinstance(one, str):
            raise TypeError(f"`{what}` must be a list of names; got {one!r}. Use [{one!r}].")
    names = list(parts) if modalities is None else list(modalities)
    unknown = next((name for name in names if name not in parts), None)
    if unknown is not None or not names or len(set(names)) < len(names):
        raise ValueError(f"`modalities` must be among {shown(list(parts))}, each once; got {shown(names)}.")
    for name in names:
        for kind, remedy in UNIQUE.items():
            labels = pd.Index(getattr(parts[name], kind))
            if not labels.is_unique:
                twice = shown(labels[labels.duplicated()][0])
                raise ValueError(
                    f"`mdata` must have different {kind} in a modality; {twice} comes several times in {name!r}. "
                    f"{remedy}."
                )
    own = getattr(mdata, "obs_names", None)
    samples = pd.Index(own) if own is not None else _joined([parts[name].obs_names for name in names])
    n_features = sum(len(parts[name].var_names) for name in names)
    require_memory(
        8 * len(samples) * n_features,
        f"a table of {len(samples)} samples and {n_features} variables",
        "Select variables first, such as the highly variable ones.",
    )
    views: dict[str, list[str]] = {}
    frames = []
    for name in names:
        part = parts[name]
        columns = [f"{name}:{variable}" for variable in part.var_names]
        frames.append(
            pd.DataFrame(_matrix(part, name, layer), pd.Index(part.obs_names), columns).reindex(samples)
        )
        for column, view in zip(columns, _views(part, name, var_view), strict=True):
            views.setdefault(view, []).append(column)
    obs = getattr(mdata, "obs", None)
    if obs is None:
        obs = pd.concat([pd.DataFrame(parts[name].obs) for name in names], axis=1).reindex(samples)
    for what, wanted in (("covariates", list(covariates)), ("target", [] if target is None else [target])):
        absent = next((one for one in wanted if list(obs.columns).count(one) != 1), None)
        if absent is not None:
            raise ValueError(
                f"`{what}` must name columns of `obs`; got {absent!r}, which is there "
                f"{list(obs.columns).count(absent)} times. The columns are {shown(list(obs.columns))}."
            )
    if covariates:
        frames.append(pd.DataFrame(obs[list(covariates)]).reindex(samples))
    y = None if target is None else pd.Series(obs[target]).reindex(samples)
    if y is not None and y.isna().any():
        raise ValueError(
            f"`target` must be known of all samples; {target!r} is missing for {int(y.isna().sum())} of {len(y)}, "
            f"such as {y.index[y.isna()][0]!r}. Leave these out, `mdata[mdata.obs[{target!r}].notna()]`."
        )
    data = pd.concat(frames, axis=1)
    if not data.columns.is_unique:
        twice = data.columns[data.columns.duplicated()][0]
        raise ValueError(
            f"columns of the table must have different names; {twice!r} comes several times. Rename one."
        )
    return Bunch(
        data=data, target=None if y is None else y.to_numpy(), views=views, feature_names=list(data.columns)
    )


def _parts(mdata: Any) -> dict[str, Any]:
    """Return the annotated matrices by their names."""
    found = mdata if isinstance(mdata, Mapping) else getattr(mdata, "mod", None)
    if found is None and all(hasattr(mdata, name) for name in ("X", "obs_names", "var_names")):
        found = {"X": mdata}
    if not isinstance(found, Mapping) or not found:
        raise TypeError(
            f"`mdata` must be a MuData, an AnnData or a dict of AnnData; got {type(mdata).__name__}. "
            "Tables want KernelBank(views=...)."
        )
    for name, part in found.items():
        if not all(hasattr(part, attribute) for attribute in ("X", "obs_names", "var_names")):
            raise TypeError(f"`mdata[{name!r}]` must be an AnnData; got {type(part).__name__}.")
    return {str(name): part for name, part in found.items()}


def _joined(names: list[Any]) -> pd.Index:
    joined = pd.Index(names[0])
    for more in names[1:]:
        joined = joined.append(pd.Index(more).difference(joined, sort=False))
    return joined


def _matrix(part: Any, name: str, layer: str | None) -> np.ndarray:
    if layer is not None and layer not in part.layers:
        raise ValueError(
            f"`layer` must be one of all modalities; got {layer!r}, and {name!r} has {shown(list(part.layers))}."
        )
    values = part.X if layer is None else part.layers[layer]
    if values is None:
        raise ValueError(
            f"`mdata` must have values of all modalities; `X` of {name!r} is None. Use `layer`, or leave it out with "
            "`modalities`."
        )
    if hasattr(values, "to_memory"):  # sparse, in an open file
        values = values.to_memory()
    dense = values.toarray() if sparse.issparse(values) else np.asarray(values)
    return dense.astype(np.float64, copy=False)


def _views(part: Any, name: str, var_view: str | None) -> list[str]:
    if var_view is None:
        return [name] * len(part.var_names)
    if var_view not in part.var.columns:
        raise ValueError(
            f"`var_view` must be a column of `var` in all modalities; got {var_view!r}, and {name!r} has "
            f"{shown(list(part.var.columns))}."
        )
    unknown = part.var[var_view].isna()
    if unknown.any():
        raise ValueError(
            f"`var_view` must be known of all variables; {var_view!r} is missing for {int(unknown.sum())} of "
            f"{name!r}, such as {part.var.index[unknown][0]!r}."
        )
    labels = [str(label) for label in part.var[var_view]]
    return labels if name == "X" else [f"{name}:{label}" for label in labels]
