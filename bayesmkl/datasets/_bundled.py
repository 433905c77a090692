"""The sets that scikit-learn ships: no network, no files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets as sklearn_datasets
from sklearn.utils import Bunch

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl.datasets._named import TABLE, look_up, make_bunch
from bayesmkl.datasets._survival import load_gbsg2, load_lung

LOADER = entries(
    """
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Return the data as a DataFrame with feature names and the target as a Series.
    ValueError
        If `return_X_y` or `as_frame` is neither True nor False.
    """
)


@fill_docs(LOADER)
def load_wdbc(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load the Wisconsin diagnostic breast cancer data (569 samples, 30 features, binary).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (569, 30), ``target`` in {-1, +1}: +1 = malignant (212), -1 = benign (357); ``target_names``
        (``target_names[i]`` names the i-th of ``np.unique(target)``), ``feature_names``, ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Notes
    -----
    scikit-learn codes malignant as 0 and benign as 1; here the disease is the positive class, as in the
    papers. For string labels write ``wdbc.target_names[(wdbc.target + 1) // 2]``.

    Examples
    --------
    >>> from bayesmkl.datasets import load_wdbc
    >>> wdbc = load_wdbc()
    >>> wdbc.data.shape
    (569, 30)
    >>> print(*wdbc.target_names[(wdbc.target[[0, 1, 19]] + 1) // 2])
    malignant malignant benign
    """
    source = sklearn_datasets.load_breast_cancer()
    return make_bunch(
        TABLE["wdbc"],
        source.data,
        1 - 2 * source.target,
        source.feature_names.tolist(),  # plain strings: joined to other names, NumPy's are another type
        return_X_y=return_X_y,
        as_frame=as_frame,
    )


@fill_docs(LOADER)
def load_iris(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load Fisher's iris data (150 samples, 4 features, 3 classes).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (150, 4) in cm, ``target`` in {0, 1, 2}, ``target_names``, ``feature_names``, ``DESCR``,
        ``name``.

    Raises
    ------
    %(ValueError)s

    Examples
    --------
    >>> from bayesmkl.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> X.shape
    (150, 4)
    """
    source = sklearn_datasets.load_iris()
    return make_bunch(
        TABLE["iris"],
        source.data,
        source.target,
        source.feature_names,
        return_X_y=return_X_y,
        as_frame=as_frame,
    )


@fill_docs(LOADER)
def load_wine(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load the wine data (178 samples, 13 chemical measurements, 3 cultivars).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (178, 13), ``target`` in {0, 1, 2}, ``target_names``, ``feature_names``, ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Examples
    --------
    >>> from bayesmkl.datasets import load_wine
    >>> load_wine(as_frame=True).data.columns[0]
    'alcohol'
    """
    source = sklearn_datasets.load_wine()
    return make_bunch(
        TABLE["wine"],
        source.data,
        source.target,
        source.feature_names,
        return_X_y=return_X_y,
        as_frame=as_frame,
    )


@fill_docs(LOADER)
def load_diabetes(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load the diabetes progression data (442 samples, 10 features, regression).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (442, 10), ``target`` (442,) disease progression after a year (25 to 346), ``feature_names``,
        ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Notes
    -----
    Features come in their original units (scikit-learn's default is a table scaled with all 442 samples), so
    that scaling can be learned from training samples only. The Pima Indians data that some papers call
    "diabetes" are another set.

    Examples
    --------
    >>> from bayesmkl.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> print(X[0, 0], y[0])
    59.0 151.0
    """
    source = sklearn_datasets.load_diabetes(scaled=False)
    return make_bunch(
        TABLE["diabetes"],
        source.data,
        source.target,
        source.feature_names,
        return_X_y=return_X_y,
        as_frame=as_frame,
    )


@fill_docs(LOADER)
def load_digits_views(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load scikit-learn's 8 x 8 digits as six views (1797 samples, 156 features, 10 classes).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (1797, 156), ``target`` (digits 0 to 9), ``views`` (view name -> list of columns, usable as
        ``KernelBank(views=digits.views)``), ``target_names``, ``feature_names``, ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Notes
    -----
    The views, all computed from the 64 pixels (grey values 0 to 16):

    - ``pixels`` (64): the image itself, row by row;
    - ``rows`` (8) and ``columns`` (8): sums of each row and of each column;
    - ``fourier`` (40): magnitudes of the two-dimensional Fourier transform (the half that a real image
      determines), blind to where on the (periodic) grid the digit sits;
    - ``gradients`` (32): in each quadrant a histogram of gradient directions (8 bins), weighted by gradient
      length;
    - ``quadrants`` (4): ink in each quadrant.

    Examples
    --------
    >>> from bayesmkl.datasets import load_digits_views
    >>> digits = load_digits_views()
    >>> {view: len(columns) for view, columns in digits.views.items()}
    {'pixels': 64, 'rows': 8, 'columns': 8, 'fourier': 40, 'gradients': 32, 'quadrants': 4}
    """
    source = sklearn_datasets.load_digits()
    images = source.images
    blocks = {
        "pixels": source.data,
        "rows": images.sum(axis=2),
        "columns": images.sum(axis=1),
        "fourier": np.abs(np.fft.rfft2(images)).reshape(len(images), -1),
        "gradients": _gradient_histograms(images),
        "quadrants": _quadrant_sums(images),
    }
    names = [f"{view}_{i}" for view, block in blocks.items() for i in range(block.shape[1])]
    return make_bunch(
        TABLE["digits"],
        np.hstack(list(blocks.values())),
        source.target,
        names,
        return_X_y=return_X_y,
        as_frame=as_frame,
        views={view: [j for j, name in enumerate(names) if name.startswith(f"{view}_")] for view in blocks},
    )


LOADERS: dict[str, Callable[..., Any]] = {
    "wdbc": load_wdbc,
    "iris": load_iris,
    "wine": load_wine,
    "digits": load_digits_views,
    "diabetes": load_diabetes,
    "gbsg2": load_gbsg2,
    "lung": load_lung,
}


def load_named(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target of a data set of the package by its name."""
    return LOADERS[look_up(name).name](return_X_y=True)


def _quadrant_sums(images: np.ndarray) -> np.ndarray:
    """Sum (n, 8, 8, ...) images over their four quadrants; (n, 4, ...), upper row first."""
    n_images = len(images)
    quadrants = images.reshape(n_images, 2, 4, 2, 4, *images.shape[3:]).sum(axis=(2, 4))
    return quadrants.reshape(n_images, 4, *images.shape[3:])


def _gradient_histograms(images: np.ndarray, n_bins: int = 8) -> np.ndarray:
    """Histogram gradient directions over each quadrant, weighted by gradient length; (n, 4 * n_bins)."""
    down, right = np.gradient(images, axis=(1, 2))
    direction = np.floor((np.arctan2(down, right) + np.pi) / (2 * np.pi) * n_bins).astype(int) % n_bins
    weighted = np.hypot(down, right)[..., None] * (direction[..., None] == np.arange(n_bins))
    return _quadrant_sums(weighted).reshape(len(images), -1)
