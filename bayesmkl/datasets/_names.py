"""Resolution of data set names; names that papers use for several sets are refused."""

from __future__ import annotations

import difflib

import pandas as pd

from bayesmkl.datasets._table import TABLE, Entry

__all__ = ["AMBIGUOUS", "list_datasets", "look_up"]

_BREASTS = ("wdbc", "breast_wisconsin", "breast_ljubljana", "wpbc")
AMBIGUOUS: dict[str, tuple[str, ...]] = {
    "breast": _BREASTS,
    "breast_cancer": _BREASTS,
    "breast_w": ("breast_wisconsin", "wdbc"),
    "diabetis": ("pima", "diabetes"),
    "liver": ("bupaliver",),
    "heart": ("heart_statlog",),
    "german": ("german_numeric",),
    "mushroom": ("mushrooms",),
    "adult": ("a9a",),
    "multifeat": ("mfeat",),
}


def look_up(name: str) -> Entry:
    """Find a data set by its exact name.

    Parameters
    ----------
    name : str
        A name of :func:`list_datasets`.

    Returns
    -------
    Entry
        Its row of the table.

    Raises
    ------
    ValueError
        If the name is unknown, or one that papers use for several sets; the message says which names it could
        mean.

    Examples
    --------
    >>> from bayesmkl.datasets._names import look_up
    >>> look_up("pima").n_samples
    768
    """
    if isinstance(name, str) and name in TABLE:
        return TABLE[name]
    key = str(name).lower().replace("-", "_").replace(" ", "_")
    if key in AMBIGUOUS:
        choices = "; ".join(f'"{c}" ({TABLE[c].title})' for c in AMBIGUOUS[key])
        raise ValueError(f"`name` must be an exact data set name; {name!r} could mean {choices}.")
    close = difflib.get_close_matches(key, TABLE, n=3) or sorted(TABLE)
    listed = ", ".join(f'"{c}"' for c in close)
    raise ValueError(
        f"`name` must be one of the names that `list_datasets()` lists; got {name!r}. Did you mean one "
        f"of {listed}?"
    )


def list_datasets() -> pd.DataFrame:
    """List every data set that :func:`fetch` knows.

    Returns
    -------
    pandas.DataFrame
        One row per set, indexed by name: ``samples``, ``features``, ``classes`` (0 for regression and times),
        ``source``, and ``paper_sizes`` (what papers print where it differs from the true size).

    Notes
    -----
    Papers are named after their methods: BEMKL, "Bayesian Efficient Multiple Kernel Learning" (2012); LD-MKL,
    "A Unified View of Localized Kernel Learning" (2016); OBMKL, "Empirical Optimal Kernel for Convex Multiple
    Kernel Learning" (2014); PrimalMKL, "A primal method for multiple kernel learning" (2012).

    Examples
    --------
    >>> from bayesmkl.datasets import list_datasets
    >>> list_datasets().loc[["wdbc", "sonar"], ["samples", "features", "classes", "source"]]
           samples  features  classes        source
    name
    wdbc       569        30        2  scikit-learn
    sonar      208        60        2     OpenML 40
    """
    rows = [(e.name, e.n_samples, e.n_features, e.n_classes, e.source, e.paper_sizes) for e in TABLE.values()]
    columns = ["name", "samples", "features", "classes", "source", "paper_sizes"]
    return pd.DataFrame(rows, columns=columns).set_index("name")
