"""Kernel folders, gene sets in GMT files, and annotated matrices (AnnData, MuData).

Kernels or distances in a folder, with labels and splits, have one layout:

====================================================  ================================================================
File                                                  Content
====================================================  ================================================================
``kernels.npy``                                       array (n_kernels, n_samples, n_samples); or
``kernel_01.npy``, ``kernel_02.npy``, ...             one matrix (n_samples, n_samples) each, in the order of the
                                                      numbers; ``.csv`` (no header) instead of ``.npy`` will do
``distances.npy``, ``distance_01.npy``, ...           the same for distances
``labels.csv``                                        header ``label``, then a label (number or text) per line; or
                                                      ``labels.npy``
``splits.csv``                                        optional: a column per split with its name as header; ``train``,
                                                      ``test`` or nothing in the line of each sample
====================================================  ================================================================
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import Bunch

from bayesmkl._utils.files import as_path, load_array
from bayesmkl._utils.given import refuse_unevaluated
from bayesmkl._utils.memory import require_memory
from bayesmkl._utils.tables import EXACT, bytes_of_text, first_row, named, other_separator, read_table
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, shown
from bayesmkl._utils.warnings import warn_user

if TYPE_CHECKING:
    from bayesmkl._utils.typing import Samples


_LABELS = (
    "and labels.csv (header `label`, one label per line), with splits.csv where the splits are published"
)
_STACK = "(n_kernels, n_samples, n_samples)"
LAYOUT = {
    "kernels": f"kernels.npy {_STACK} or kernel_01.npy, kernel_02.npy, ..., {_LABELS}",
    "distances": f"distances.npy {_STACK} or distance_01.npy, distance_02.npy, ..., {_LABELS}",
}


def _find_data(folder: Path, content: str) -> list[Path]:
    """Return the files that hold the kernels or distances; none where there is no such data."""
    whole = [folder / f"{content}.npy"] if (folder / f"{content}.npy").is_file() else []
    numbered = re.compile(rf"{content[:-1]}_(\d+)\.(npy|csv)")
    files = sorted(folder.glob(f"{content[:-1]}_*"))
    single = sorted((int(match[1]), file) for file in files if (match := numbered.fullmatch(file.name)))
    if whole and single:
        raise ValueError(
            f"{_which(folder, [*whole, *(file for _, file in single)])} Remove all forms but one."
        )
    for (number, file), (following, other) in pairwise(single):
        if number == following:
            raise ValueError(f"{_which(folder, [file, other])} Both are number {number}; remove one.")
        if number + 1 < following:
            raise ValueError(
                f"{str(folder)!r} has {content} up to number {single[-1][0]}, but none with number {number + 1}. "
                "Copy the file, or number those that are there without gaps."
            )
    return whole or [file for _, file in single]


def _which(folder: Path, files: list[Path]) -> str:
    """Say that files would all be the same thing."""
    names = ", ".join(file.name for file in files[:3]) + (", ..." if len(files) > 3 else "")
    return f"{str(folder)!r} holds {names}, and only one form may be present."


def load_kernels(folder: str | os.PathLike[str], content: str = "kernels", return_X_y: bool = False) -> Any:
    r"""Load your own kernel matrices, with labels and splits, from a folder.

    Parameters
    ----------
    folder : path
        Folder with the matrices in one of these forms: ``kernels.npy``, an array (n_kernels, n_samples, n_samples);
        or ``kernel_01.npy``, ``kernel_02.npy``, ... with one matrix each, in the order of their numbers; or the same
        as ``.csv`` files without a header. If there are as many kernels as samples, the axes of the array are read
        such that all matrices are symmetric. Rows and columns are all samples, both for training and for testing. The
        folder also needs ``labels.npy``, or ``labels.csv`` with the header ``label`` and a number or text per line.
        It may contain ``splits.csv``, with one column and header per split; its lines hold ``train``, ``test`` or
        nothing.
    content : {"kernels", "distances"}, default="kernels"
        "distances" reads ``distances.npy``, ``distance_01.npy`` and so on. Apply a function such as
        :math:`\exp(-d / s)` to turn distances into kernels.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` instead of a Bunch.

    Returns
    -------
    data : Bunch
        ``data``: ndarray of shape (n_samples, n_samples, n_kernels), for estimators with
        ``kernels="precomputed"``; ``target``: ndarray of shape (n_samples,); ``splits``: list of pairs of positions
        (train, test), or None if there are no splits.

    Raises
    ------
    FileNotFoundError
        If there are no matrices or labels; the message says which files can hold them.
    ValueError
        If a file cannot be read, matrices are not square or of different sizes, the numbers of samples differ, or
        entries are not finite real numbers; if the folder has several forms of the same data, or a number is left
        out; if a label is missing, or a split has no training or test sample.
    TypeError
        If `folder` is no path.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from bayesmkl.datasets import load_iris, load_kernels
    >>> from bayesmkl.discriminative import SimpleMKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[50:], y[50:]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.save(Path(place) / "kernels.npy", [X[:, :2] @ X[:, :2].T, X[:, 2:] @ X[:, 2:].T])
    ...     np.save(Path(place) / "labels.npy", y)
    ...     data = load_kernels(place)
    >>> data.data.shape, data.splits is None
    ((100, 100, 2), True)
    >>> train, test = np.arange(0, 100, 2), np.arange(1, 100, 2)
    >>> model = SimpleMKLClassifier("precomputed").fit(data.data[np.ix_(train, train)], data.target[train])
    >>> bool(model.score(data.data[np.ix_(test, train)], data.target[test]) > 0.9)
    True
    """
    check_choice("content", content, tuple(LAYOUT))
    check_flag("return_X_y", return_X_y)
    path = as_path("folder", folder)
    if not path.is_dir():
        raise FileNotFoundError(f"`folder`: there is no folder {str(path)!r}.")
    files = _find_data(path, content)
    if not files:
        raise FileNotFoundError(f"{str(path)!r} must hold {LAYOUT[content]}.")
    matrices = [_read_matrix(file) for file in files]
    for file, matrix in zip(files, matrices, strict=True):
        if matrix.shape != matrices[0].shape:
            raise ValueError(
                f"{str(file)!r} has shape {matrix.shape}, but {files[0].name} has {matrices[0].shape}; all must be "
                "(n_samples, n_samples)."
            )
    X = _samples_first(matrices[0] if files[0].stem == content else np.stack(matrices), files[0])
    if not np.isfinite(X).all():
        raise ValueError(
            f"{str(path)!r} has {int((~np.isfinite(X)).sum())} numbers in its {content} that are not finite."
        )
    y = _labels(path)
    if len(y) != len(X):
        raise ValueError(f"{str(path)!r} has {content} of {len(X)} samples, but {len(y)} labels.")
    splits = _splits(path / "splits.csv", len(y))
    return (X, y) if return_X_y else Bunch(data=X, target=y, splits=splits)


def _read_matrix(file: Path) -> np.ndarray:
    try:
        if file.suffix == ".csv":
            data = bytes_of_text(file)
            first_row(data)
            return pd.read_csv(io.BytesIO(data), header=None, **EXACT).to_numpy(np.float64)
        found = np.asarray(load_array(file))
        if found.dtype.kind not in "biuf":
            raise ValueError(f"it holds entries of type {found.dtype}, not real numbers")
        return found.astype(np.float64)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{str(file)!r} cannot be read as numbers: {error}") from error


def _samples_first(stack: np.ndarray, file: Path) -> np.ndarray:
    """Return (n_samples, n_samples, n_kernels) from that or from kernels first."""
    first = stack.ndim == 3 and stack.shape[1] == stack.shape[2]
    last = stack.ndim == 3 and stack.shape[0] == stack.shape[1]
    if stack.size == 0 or not (first or last):
        raise ValueError(
            f"{str(file)!r} must hold matrices (n_samples, n_samples) among all samples, training and test, of one "
            f"or more kernels: {_STACK}; got shape {stack.shape}. One matrix alone is kernel_01.npy."
        )
    if first and last:  # as many kernels as samples: their symmetry says which axis is which
        of_first, of_last = (
            np.allclose(stack, np.swapaxes(stack, *axes), equal_nan=True) for axes in ((1, 2), (0, 1))
        )
        first = of_first or not of_last
    return np.moveaxis(stack, 0, 2) if first else stack


def _labels(path: Path) -> np.ndarray:
    files = [file for name in ("labels.csv", "labels.npy") if (file := path / name).is_file()]
    if not files:
        raise FileNotFoundError(f"{str(path)!r} has no labels.csv (header `label`, one label per line).")
    if len(files) > 1:
        raise ValueError(f"{_which(path, files)} Remove one.")
    where = repr(str(files[0]))
    if files[0].suffix == ".npy":
        try:
            labels = np.asarray(load_array(files[0]))
        except (OSError, EOFError, ValueError) as error:
            raise ValueError(
                f"{where} cannot be read as numbers or texts ({error}). Save labels with np.save(file, "
                "np.asarray(labels, dtype=str))."
            ) from error
    else:
        table = read_table(files[0], ["label"])
        if list(table) != ["label"]:
            raise ValueError(
                f"{where} must have one column, `label`; got {named(list(map(str, table)))}. The first line is "
                "the header."
            )
        labels = table["label"].to_numpy()
    if labels.ndim == 0 or max(labels.shape, default=0) != labels.size:
        raise ValueError(f"{where} must hold a label per sample, (n_samples,); got shape {labels.shape}.")
    missing = int(pd.isna(labels).sum())
    if missing:
        raise ValueError(f"{where} has {missing} empty labels.")
    labels = labels.astype(str) if labels.dtype == object else labels
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"{where} must hold labels that are numbers or texts; got type {labels.dtype}.")
    return labels.ravel()


def _splits(file: Path, n_samples: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    if not file.is_file():
        return None
    parts = read_table(file).fillna("")
    unknown = sorted({*map(str, np.unique(parts.to_numpy(dtype=str)))} - {"train", "test", ""})
    if unknown:
        raise ValueError(f"{str(file)!r} must hold `train`, `test` or nothing; got {unknown[0]!r}.")
    if len(parts) != n_samples:
        raise ValueError(
            f"{str(file)!r} must have a line for each of the {n_samples} labels below its header; got {len(parts)}."
        )
    splits = [
        (np.flatnonzero(parts[name] == "train"), np.flatnonzero(parts[name] == "test")) for name in parts
    ]
    for number, (train, test) in enumerate(splits, 1):
        if not len(train) or not len(test):
            raise ValueError(
                f"{str(file)!r}: split {number} has {len(train)} samples to train on and {len(test)} to test on; "
                "both are needed."
            )
    return splits


MOST_BYTES = 2**28  # five times the largest collections
LONGEST_NAME = 40  # characters of a gene in a list of them
GMT = "a GMT file, in whose lines the name of a set, a description and genes are separated by tabs"


def read_gene_sets(
    path: str | os.PathLike[str],
    columns: Samples,
    *,
    min_size: int = 10,
    max_size: int = 500,
) -> dict[str, list[str]]:
    r"""Read gene sets from a GMT file as views for a bank, one view of table columns per gene set.

    Parameters
    ----------
    path : path
        A text file in UTF-8, optionally compressed as ``.gz``. Each line is a set: its name, a description and its
        genes, separated by tabs. Empty lines and fields are skipped, and repeated genes count once. At most 256 MB
        are unpacked.
    columns : DataFrame, RowSource or sequence of str
        The table whose columns are genes, or only the names of its columns. Names must be spelled as in the file.
        Columns that no set contains, such as age, are in no view.
    min_size, max_size : int, default=10, 500
        Sets with fewer or more genes in the table are left out.

    Returns
    -------
    views : dict
        The columns of each set, by its name. Sets are in the order of the file, and columns in the order of the
        table. Sets may share columns.

    Raises
    ------
    ValueError
        If the file is not as above, two sets have the same name, or no set is left; if `columns` are not names, or
        the sizes are not whole numbers in ascending order.
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is not a path, or `columns` is a query that has to be evaluated first.

    Warns
    -----
    UserWarning
        Once, if the table lacks genes of the file. The warning tells how many, names some of them, and tells how many
        sets are left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayesmkl.datasets import read_gene_sets
    >>> lines = ["REPAIR\tof DNA\tBRCA1\tTP53\tATM", "CYCLE\tof the cell\tCDK1\tTP53\tCDK1", "ONE\t-\tATM"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sets.gmt"
    ...     _ = file.write_text("\n".join(lines))
    ...     read_gene_sets(file, ["ATM", "BRCA1", "CDK1", "TP53", "age"], min_size=2)
    {'REPAIR': ['ATM', 'BRCA1', 'TP53'], 'CYCLE': ['CDK1', 'TP53']}
    """
    smallest, largest = check_integer("min_size", min_size, low=1), check_integer("max_size", max_size, low=1)
    if largest < smallest:
        raise ValueError(f"`max_size` must be at least `min_size`={smallest}; got {largest}.")
    names, file = _column_names(columns), as_path("path", path)
    if not file.is_file():
        raise FileNotFoundError(f"`path`: there is no file {str(file)!r}.")
    sets = _read(file)
    position = {name: j for j, name in enumerate(names)}
    held = {
        key: [names[j] for j in sorted({position[gene] for gene in genes if gene in position})]
        for key, genes in sets.items()
    }
    views = {key: found for key, found in held.items() if smallest <= len(found) <= largest}
    genes = dict.fromkeys(gene for own in sets.values() for gene in own)
    lacking = [gene for gene in genes if gene not in position]
    size = f"between min_size={smallest} and max_size={largest}"
    if not views:
        sizes = sorted({len(found) for found in held.values()})
        how_many = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
        others = [name for name in names if name not in genes]
        raise ValueError(
            f"`columns` must have {size} genes of at least one set; {len(genes) - len(lacking)} of the {len(genes)} "
            f"genes in {file.name!r} are columns, and its {len(sets)} sets have {how_many} of them each. "
            f"Compare how genes are written, {_some(lacking or [*genes])} in the file and {_some(others or names)} "
            "in the table: identifiers must be of one kind and case. If they are, change `min_size` or `max_size`."
        )
    if lacking:
        n_left = len(sets) - len(views)
        left = f" {n_left} of its {len(sets)} sets do not have {size} genes in the table, and are left out."
        warn_user(
            f"the table lacks {len(lacking)} of the {len(genes)} genes in {file.name!r}: "
            f"{_some(lacking)}.{left if n_left else ''} Rename columns that have another name of a gene; if "
            "the table holds selected genes only, this is expected.",
            UserWarning,
        )
    return views


def _column_names(columns: Any) -> list[str]:
    refuse_unevaluated("columns", columns)
    names = getattr(columns, "columns", columns)
    is_list = (
        isinstance(names, Sequence | np.ndarray | pd.Index | pd.Series) and getattr(names, "ndim", 1) == 1
    )
    if not is_list or isinstance(names, str | bytes) or not len(names):
        raise ValueError(
            f"`columns` must be a DataFrame, or a list of the names of its columns; got {shown(columns)}. Name the "
            "columns of an array: `pd.DataFrame(X, columns=genes)`."
        )
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise ValueError(
            f"`columns` must have names that are text; got {shown(strange[0])} of type {type(strange[0]).__name__}. "
            "Name them by their genes, `X.columns = genes`, numbers of genes as text, `X.columns.astype(str)`."
        )
    return [str(name) for name in names]


def _read(file: Path) -> dict[str, list[str]]:
    """Return the genes of each set by its name, both in the order of the file."""
    try:
        data = bytes_of_text(file, MOST_BYTES)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        said = str(error).rstrip(".")
        raise ValueError(f"`path`: {str(file)!r} cannot be read as a GMT file: {said}.") from error
    sets: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    for line, text in enumerate(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig"), start=1):
        if not text.strip():
            continue
        name, *fields = (field.strip() for field in text.split("\t"))
        genes = [gene for gene in fields[1:] if gene]
        if not name or not genes:
            _refuse_line(file, line, text.rstrip("\n"))
        if name in sets:
            raise ValueError(
                f"`path` must be {GMT}; the sets in lines {lines[name]} and {line} of {str(file)!r} are both "
                f"called {shown(name)}. Rename or remove one of them."
            )
        sets[name], lines[name] = genes, line
    if not sets:
        raise ValueError(f"`path` must be {GMT}; {str(file)!r} is empty.")
    return sets


def _refuse_line(file: Path, line: int, text: str) -> None:
    fields = text.split("\t")
    other = other_separator(fields, "\t")
    if not fields[0].strip():
        found, remedy = "no name", "Give the set a name"
    elif other:
        found, remedy = "no tab", f"It seems to be separated by {other}: save it with tabs"
    else:
        found = "no gene" if len(fields) > 1 else "no tab"
        remedy = "Take out sets without genes, or look for spaces or line breaks in place of tabs"
    raise ValueError(
        f"`path` must be {GMT}; line {line} of {str(file)!r} has {found}: {shown(text)}. {remedy}."
    )


def _some(genes: Sequence[str]) -> str:
    """List a few genes, the beginning of each."""
    return named([gene[:LONGEST_NAME] for gene in genes])


def from_mudata(mdata: Any, target: str | None = None, *, covariates: Sequence[str] = ()) -> Bunch:
    """Make a table from annotated matrices, with modalities as views and columns of `obs` as target and covariates.

    Parameters
    ----------
    mdata : MuData, AnnData or dict of str to AnnData
        Samples are rows of ``X``. Modalities may have different samples; if a sample lacks a modality, the columns of
        the modality are NaN. Use a dict to choose modalities: ``{"rna": mdata["rna"]}``.
    target : str, default=None
        Column of ``obs`` to predict; None leaves the target out.
    covariates : sequence of str, default=()
        Columns of ``obs`` that become columns of the table, but are in no view. Numbers and texts stay unchanged;
        estimators treat texts as categories.

    Returns
    -------
    Bunch
        ``data``, a DataFrame of shape (n_samples, n_features) whose columns are called "modality:variable";
        ``views``, a dict of their names for ``KernelBank(views=...)``; ``target``, an array of shape (n_samples,) or
        None; ``feature_names``. Samples are in the order of ``mdata.obs_names``, or of their first modality.

    Raises
    ------
    TypeError
        If `mdata` is not one of these types, or one name is given instead of a list.
    ValueError
        If `mdata` lacks a name, if samples, variables or columns have the same name, if there are no values, or if
        target values are missing.
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
    if isinstance(covariates, str):
        raise TypeError(f"`covariates` must be a list of names; got {covariates!r}. Use [{covariates!r}].")
    for name, part in parts.items():
        labels = pd.Index(part.obs_names)
        if not labels.is_unique:
            raise ValueError(
                f"`mdata` must have different obs_names in a modality; {shown(labels[labels.duplicated()][0])} comes "
                f"several times in {name!r}. Leave repeated samples out, or rename them alike in all modalities."
            )
    names = [pd.Index(part.obs_names) for part in parts.values()]
    own = getattr(mdata, "obs_names", None)
    samples = pd.Index(own) if own is not None else reduce(partial(pd.Index.union, sort=False), names)
    n_features = sum(len(part.var_names) for part in parts.values())
    require_memory(
        8 * len(samples) * n_features,
        f"a table of {len(samples)} samples and {n_features} variables",
        "Select variables first, such as the highly variable ones.",
    )
    views = {name: [f"{name}:{variable}" for variable in part.var_names] for name, part in parts.items()}
    frames = [
        pd.DataFrame(_matrix(part, name), own_names, views[name]).reindex(samples)
        for own_names, (name, part) in zip(names, parts.items(), strict=True)
    ]
    obs = getattr(mdata, "obs", None)
    if obs is None:
        obs = pd.concat([pd.DataFrame(part.obs) for part in parts.values()], axis=1).reindex(samples)
    for one in [*covariates, *([] if target is None else [target])]:
        if list(obs.columns).count(one) != 1:
            raise ValueError(
                f"`{'target' if one == target else 'covariates'}` must name columns of `obs`; got {one!r}, which is "
                f"there {list(obs.columns).count(one)} times. The columns are {shown(list(obs.columns))}."
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
            f"columns of the table must have different names; {twice!r} comes several times. Rename one, as "
            "`.var_names_make_unique()` does."
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
            f"`mdata` must be a MuData, an AnnData or a dict of AnnData; got {type(mdata).__name__}. For "
            "tables, use KernelBank(views=...)."
        )
    for name, part in found.items():
        if not all(hasattr(part, attribute) for attribute in ("X", "obs_names", "var_names")):
            raise TypeError(f"`mdata[{name!r}]` must be an AnnData; got {type(part).__name__}.")
    return {str(name): part for name, part in found.items()}


def _matrix(part: Any, name: str) -> np.ndarray:
    values = part.X
    if values is None:
        raise ValueError(
            f"`mdata` must have values of all modalities; `X` of {name!r} is None. Leave it out, or put a "
            "layer there."
        )
    if hasattr(values, "to_memory"):  # sparse, in an open file
        values = values.to_memory()
    dense = values.toarray() if sparse.issparse(values) else np.asarray(values)
    return dense.astype(np.float64, copy=False)
