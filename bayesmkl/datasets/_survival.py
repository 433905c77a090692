"""Clinical studies of times to an event, in files of this package."""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import check_flag
from bayesmkl.datasets._named import TABLE, make_bunch

GRADES = {"I": 1, "II": 2, "III": 3}
LOADER = entries(
    """
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Return the data as a DataFrame with feature names; the target is a structured array all the same.
    ValueError
        If `return_X_y` or `as_frame` is neither True nor False.
    """
)


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
        ``data`` (686, 8), ``target``, a structured array with the fields ``event`` (recurrence or death: 299; False =
        censored) and ``time`` (days without recurrence), ``views`` (view name -> columns, usable as
        ``KernelBank(views=gbsg2.views)``), ``feature_names``, ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Notes
    -----
    Women with node-positive breast cancer in a trial of tamoxifen and of the duration of chemotherapy [1]_. Columns:
    ``age`` in years, ``postmenopausal`` (0 or 1), ``tumour_size`` in mm, ``tumour_grade`` (1 to 3),
    ``positive_nodes`` (number), ``progesterone_receptor`` and ``estrogen_receptor`` in fmol,
    ``hormone_therapy`` (0 or 1). The table is that of [2]_, from lifelines (MIT license); the file beside it has the
    license.

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
    table = _read("gbsg2")
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
    return _bunch("gbsg2", columns, views, table["cens"], table["time"], return_X_y, as_frame)


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
        ``data`` (228, 8) with NaN where nothing was recorded, ``target``, a structured array with the fields
        ``event`` (death: 165; False = censored) and ``time`` (days), ``views`` (view name -> columns, usable as
        ``KernelBank(views=lung.views)``; the institution is in none), ``feature_names``, ``DESCR``, ``name``.

    Raises
    ------
    %(ValueError)s

    Notes
    -----
    Patients with advanced lung cancer at 18 institutions [1]_. Columns: ``age`` in years, ``female`` (0 or 1),
    ``ecog_physician`` (performance by the physician, 0 = fully active to 4 = bedbound), ``karnofsky_physician`` and
    ``karnofsky_patient`` (performance as rated by each, 100 = good), ``meal_calories`` (per day; of 47 patients not
    known), ``weight_loss`` (pounds in six months; of 14 not known), ``institution`` (code). The table is from
    lifelines (MIT license); the file beside it has the license.

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
    table = _read("lung")
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
    return _bunch("lung", columns, views, table["status"], table["time"], return_X_y, as_frame)


def _read(name: str) -> pd.DataFrame:
    with (resources.files("bayesmkl.datasets") / "files" / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def _bunch(
    name: str,
    columns: dict[str, pd.Series],
    views: dict[str, list[str]],
    event: pd.Series,
    time: pd.Series,
    return_X_y: bool,
    as_frame: bool,
) -> Any:
    check_flag("return_X_y", return_X_y)
    check_flag("as_frame", as_frame)
    target = np.empty(len(time), dtype=[("event", bool), ("time", float)])
    target["event"], target["time"] = event == 1, time
    data = np.column_stack([column.to_numpy(dtype=float) for column in columns.values()])
    names = list(columns)
    positions = {view: [names.index(column) for column in held] for view, held in views.items()}
    found: Any = make_bunch(TABLE[name], data, target, names, views=positions)
    if as_frame:
        found.data = pd.DataFrame(data, columns=names)
    return (found.data, found.target) if return_X_y else found
