"""Gene sets in GMT files, as views of a table of genes."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesmkl._utils.files import as_path
from bayesmkl._utils.given import refuse_unevaluated
from bayesmkl._utils.validation import check_integer, shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.datasets._tables import named
from bayesmkl.datasets._text import bytes_of_text, other_separator

if TYPE_CHECKING:
    import os

    from bayesmkl._utils.typing import Samples

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
    r"""Read a GMT file as views for a bank: the columns of a table that are in each gene set.

    Parameters
    ----------
    path : path
        A text file in UTF-8, also packed as ``.gz``. Each line is a set: its name, a description and its genes,
        separated by tabs. Empty lines and fields are skipped, and a gene that comes twice counts once. No more than
        256 MB are unpacked.
    columns : DataFrame, RowSource or sequence of str
        The table whose columns are genes, or their names alone. They must be written as in the file; those that no
        set has, such as age, are in no view.
    min_size, max_size : int, default=10, 500
        Sets with fewer or more genes that the table has are left out.

    Returns
    -------
    views : dict
        The columns of each set, by its name: sets in the order of the file, columns in the order of the table. Sets
        may share columns.

    Raises
    ------
    ValueError
        If the file is not as above, two sets have one name, or no set is left; if `columns` are not different names,
        or the sizes are not whole numbers in ascending order.
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is no path, or `columns` a query that has to be evaluated first.

    Warns
    -----
    UserWarning
        If the table lacks genes of the file, once: how many, some of them, and how many sets are left out.

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
            f"the table lacks {len(lacking)} of the {len(genes)} genes in {file.name!r}: {_some(lacking)}."
            f"{left if n_left else ''} Rename columns that have another name of a gene; if the table is one of "
            "selected genes, all is as it should be.",
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
    twice = [str(name) for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"`columns` must have different names; more than one is called {_some(twice)}. Merge columns of one "
            "gene, as by their mean, or rename them."
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
                f"`path` must be {GMT}; the sets in lines {lines[name]} and {line} of {str(file)!r} are both called "
                f"{shown(name)}. Rename one of them, or take it out."
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
