"""Data sets that scikit-learn ships, and clinical studies of times to an event in files of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources
from inspect import getdoc
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets as sklearn_datasets
from sklearn.utils import Bunch

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import check_flag, shown


def make_bunch(
    name: str,
    data: np.ndarray,
    target: np.ndarray,
    feature_names: Sequence[str],
    target_names: Sequence[str] | np.ndarray | None = None,
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    **extra: Any,
) -> Bunch | tuple[Any, Any]:
    """Wrap arrays as a Bunch, or as ``(data, target)``; with ``as_frame`` as a DataFrame and a Series."""
    check_flag("return_X_y", return_X_y)
    check_flag("as_frame", as_frame)
    X: Any = data
    y: Any = target
    if as_frame:
        X = pd.DataFrame(data, columns=list(feature_names))
        y = target if target.dtype.names else pd.Series(target, name="target")
    if return_X_y:
        return X, y
    bunch = Bunch(
        data=X,
        target=y,
        feature_names=list(feature_names),
        DESCR=getdoc(LOADERS[name]) or "",
        name=name,
        **extra,
    )
    if target_names is not None:
        bunch.target_names = np.array(target_names)
    return bunch


LOADER = entries(
    """
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether to return the data as a DataFrame with feature names and the target as a Series. Times to events stay
        a structured array.
    ValueError
        If `return_X_y` or `as_frame` is neither True nor False.
    """
)


def _of_sklearn(name: str, source: dict[str, Any], return_X_y: bool, as_frame: bool) -> Any:
    names = list(map(str, source["feature_names"]))  # NumPy's are another type
    return make_bunch(
        name,
        source["data"],
        source["target"],
        names,
        source.get("target_names"),
        return_X_y=return_X_y,
        as_frame=as_frame,
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
    The features describe cell nuclei; the older Wisconsin set, of nine grades from 1 to 10, is another one.
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
    ours = {"target": 1 - 2 * source.target, "target_names": source.target_names[::-1]}
    return _of_sklearn("wdbc", source | ours, return_X_y, as_frame)


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
        ``data`` (150, 4) in cm, ``target`` in {0, 1, 2} (setosa, versicolor and virginica, 50 each),
        ``target_names``, ``feature_names``, ``DESCR``, ``name``.

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
    return _of_sklearn("iris", sklearn_datasets.load_iris(), return_X_y, as_frame)


@fill_docs(LOADER)
def load_wine(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load the wine data (178 samples, 13 features from chemical analysis, 3 cultivars).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (178, 13), ``target`` in {0, 1, 2} (59, 71 and 48 wines), ``target_names``, ``feature_names``,
        ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Examples
    --------
    >>> from bayesmkl.datasets import load_wine
    >>> load_wine(as_frame=True).data.columns[0]
    'alcohol'
    """
    return _of_sklearn("wine", sklearn_datasets.load_wine(), return_X_y, as_frame)


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
    Features are in their original units, so that you can learn scaling from training samples only. (The default of
    scikit-learn is a table that was scaled with all 442 samples.) The Pima Indians data, which some papers call
    "diabetes", is a different data set.

    Examples
    --------
    >>> from bayesmkl.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> print(X[0, 0], y[0])
    59.0 151.0
    """
    return _of_sklearn("diabetes", sklearn_datasets.load_diabetes(scaled=False), return_X_y, as_frame)


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
      determines), which do not depend on the position of the digit on the (periodic) grid;
    - ``gradients`` (32): a histogram of gradient directions (8 bins) in each quadrant, weighted by gradient
      length;
    - ``quadrants`` (4): amount of ink in each quadrant.

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
        "digits",
        np.hstack(list(blocks.values())),
        source.target,
        names,
        list(map(str, range(10))),
        return_X_y=return_X_y,
        as_frame=as_frame,
        views={view: [j for j, name in enumerate(names) if name.startswith(f"{view}_")] for view in blocks},
    )


GRADES = {"I": 1, "II": 2, "III": 3}


@fill_docs(LOADER)
def load_gbsg2(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load the second trial of the German Breast Cancer Study Group (686 women, 8 features, times to recurrence).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (686, 8), ``target``, a structured array with the fields ``event`` (recurrence or death; False =
        censored) and ``time`` (days without recurrence; 299 events, 387 censored), ``views`` (view name -> columns,
        usable as ``KernelBank(views=gbsg2.views)``), ``feature_names``, ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Notes
    -----
    The samples are women with node-positive breast cancer in a trial of tamoxifen and of the duration of chemotherapy
    [1]_. Columns:
    ``age`` in years, ``postmenopausal`` (0 or 1), ``tumour_size`` in mm, ``tumour_grade`` (1 to 3),
    ``positive_nodes`` (number), ``progesterone_receptor`` and ``estrogen_receptor`` in fmol,
    ``hormone_therapy`` (0 or 1). The table is that of [2]_, taken from lifelines (MIT license); a file next to it
    contains the license.

    References
    ----------
    .. [1] M. Schumacher et al. (1994), Randomized 2 x 2 trial evaluating hormonal treatment and the duration of
       chemotherapy in node-positive breast cancer patients, Journal of Clinical Oncology 12.
    .. [2] W. Sauerbrei and P. Royston (1999), Building multivariable prognostic and diagnostic models: transformation
       of the predictors by using fractional polynomials, Journal of the Royal Statistical Society A 162.

    Examples
    --------
    >>> from bayesmkl.datasets import load_gbsg2
    >>> gbsg2 = load_gbsg2()
    >>> gbsg2.data.shape, int(gbsg2.target["event"].sum())
    ((686, 8), 299)
    """
    table = _read_table("gbsg2")
    columns = {
        "age": table["age"],
        "postmenopausal": table["menostat"] == "Post",
        "tumour_size": table["tsize"],
        "tumour_grade": table["tgrade"].map(GRADES),
        "positive_nodes": table["pnodes"],
        "progesterone_receptor": table["progrec"],
        "estrogen_receptor": table["estrec"],
        "hormone_therapy": table["horTh"] == "yes",
    }
    views = {
        "person": ["age", "postmenopausal"],
        "tumour": ["tumour_size", "tumour_grade", "positive_nodes"],
        "receptors": ["progesterone_receptor", "estrogen_receptor"],
        "treatment": ["hormone_therapy"],
    }
    return _times_bunch(
        "gbsg2", columns, views, table["cens"], table["time"], return_X_y=return_X_y, as_frame=as_frame
    )


@fill_docs(LOADER)
def load_lung(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """Load the lung cancer data of the North Central Cancer Treatment Group (228 patients, 8 features, survival).

    Parameters
    ----------
    %(return_X_y)s
    %(as_frame)s

    Returns
    -------
    Bunch
        ``data`` (228, 8) with NaN for missing values, ``target``, a structured array with the fields
        ``event`` (death; False = censored) and ``time`` (days; 165 events, 63 censored), ``views`` (view name ->
        columns, usable as ``KernelBank(views=lung.views)``; no view has the institution), ``feature_names``,
        ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Notes
    -----
    The samples are patients with advanced lung cancer at 18 institutions [1]_. Columns: ``age`` in years, ``female``
    (0 or 1), ``ecog_physician`` (performance rated by the physician, 0 = fully active to 4 = bedbound),
    ``karnofsky_physician`` and ``karnofsky_patient`` (performance rated by physician and patient, 100 = good),
    ``meal_calories`` (per day; unknown for 47 patients), ``weight_loss`` (pounds in six months; unknown for 14),
    ``institution`` (code). The table is taken from lifelines (MIT license); a file next to it contains the license.

    References
    ----------
    .. [1] C. L. Loprinzi et al. (1994), Prospective evaluation of prognostic variables from patient-completed
       questionnaires, Journal of Clinical Oncology 12.

    Examples
    --------
    >>> from bayesmkl.datasets import load_lung
    >>> X, y = load_lung(return_X_y=True, as_frame=True)
    >>> int(X["meal_calories"].isna().sum()), int(y["event"].sum())
    (47, 165)
    """
    table = _read_table("lung")
    columns = {
        "age": table["age"],
        "female": table["sex"] == 2,
        "ecog_physician": table["ph.ecog"],
        "karnofsky_physician": table["ph.karno"],
        "karnofsky_patient": table["pat.karno"],
        "meal_calories": table["meal.cal"],
        "weight_loss": table["wt.loss"],
        "institution": table["inst"],
    }
    views = {
        "person": ["age", "female"],
        "physician": ["ecog_physician", "karnofsky_physician"],
        "patient": ["karnofsky_patient"],
        "nutrition": ["meal_calories", "weight_loss"],
    }
    return _times_bunch(
        "lung", columns, views, table["status"], table["time"], return_X_y=return_X_y, as_frame=as_frame
    )


def _read_table(name: str) -> pd.DataFrame:
    with (resources.files("bayesmkl.datasets") / "files" / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def _times_bunch(
    name: str,
    columns: dict[str, pd.Series],
    views: dict[str, list[str]],
    event: Any,
    time: Any,
    **options: Any,
) -> Any:
    target = np.empty(len(time), dtype=[("event", bool), ("time", float)])
    target["event"], target["time"] = event == 1, time
    data = np.column_stack([column.to_numpy(dtype=float) for column in columns.values()])
    names = list(columns)
    positions = {view: [names.index(column) for column in held] for view, held in views.items()}
    return make_bunch(name, data, target, names, views=positions, **options)


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
    """Return features and target of a data set of the package by its name.

    Raises
    ------
    ValueError
        If the package has none of that name.

    Examples
    --------
    >>> from bayesmkl.datasets._bundled import load_named
    >>> load_named("wine")[0].shape
    (178, 13)
    """
    if isinstance(name, str) and name in LOADERS:
        return LOADERS[name](return_X_y=True)
    raise ValueError(
        f"`datasets` must name data sets of the package ({', '.join(LOADERS)}); got {shown(name)}. Give other data "
        "as arrays, or as a file."
    )


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
