"""Clinical studies in files of the package: published counts and medians, forms, names."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pandas as pd
import pytest

from bayesmkl.datasets import load_gbsg2, load_lung
from bayesmkl.datasets._bundled import load_named
from bayesmkl.evaluation import kaplan_meier

LOADERS = {"gbsg2": load_gbsg2, "lung": load_lung}


@pytest.mark.parametrize("name", LOADERS)
def test_forms_agree_with_each_other_and_the_table(name):
    bunch = LOADERS[name]()
    assert bunch.data.shape == {"gbsg2": (686, 8), "lung": (228, 8)}[name]
    assert bunch.name == name
    assert f"{bunch.target['event'].sum()} events, {(~bunch.target['event']).sum()} censored" in bunch.DESCR
    assert bunch.target.dtype == [("event", bool), ("time", float)]
    X, y = LOADERS[name](return_X_y=True, as_frame=True)
    assert isinstance(X, pd.DataFrame)
    assert list(X) == bunch.feature_names
    for found in (X.to_numpy(), load_named(name)[0], LOADERS[name](return_X_y=True)[0]):
        np.testing.assert_array_equal(found, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)
    columns = [column for view in bunch.views.values() for column in view]
    assert sorted(columns) == [j for j, column in enumerate(bunch.feature_names) if column != "institution"]
    with pytest.raises(ValueError, match="`as_frame` must be True or False"):
        LOADERS[name](as_frame=1)


def median(event, time):
    """The first time at which the curve is at one half or below."""
    curve = kaplan_meier(event, time)
    return curve.times[np.flatnonzero(curve.survival <= 0.5)[0]]


def test_gbsg2_has_the_counts_of_the_publications():
    """Schumacher et al. (1994), Sauerbrei and Royston (1999), and the first woman of the table."""
    X, y = load_gbsg2(return_X_y=True, as_frame=True)
    assert len(y) == 686
    assert y["event"].sum() == 299
    assert X["hormone_therapy"].sum() == 246
    assert X["postmenopausal"].value_counts().to_dict() == {1.0: 396, 0.0: 290}
    assert X["tumour_grade"].value_counts().sort_index().tolist() == [81, 444, 161]
    assert X[["age", "tumour_size", "positive_nodes"]].median().tolist() == [53.0, 25.0, 3.0]
    assert (X["age"].min(), X["age"].max()) == (21.0, 80.0)
    assert median(y["event"], y["time"]) == 1807  # of survfit in R
    assert X.iloc[0].tolist() == [70, 1, 21, 2, 3, 48, 66, 0]
    assert y[0].tolist() == (True, 1814.0)


def test_lung_has_the_numbers_of_survfit():
    """As `survfit(Surv(time, status) ~ sex)` of R's survival prints them."""
    X, y = load_lung(return_X_y=True, as_frame=True)
    assert len(y) == 228
    assert y["event"].sum() == 165
    assert median(y["event"], y["time"]) == 310
    for female, n, events, expected in ((0, 138, 112, 270), (1, 90, 53, 426)):
        own = y[X["female"] == female]
        assert (len(own), own["event"].sum(), median(own["event"], own["time"])) == (n, events, expected)
    assert X.isna().sum().tolist() == [0, 0, 1, 1, 3, 47, 14, 1]
    assert X["ecog_physician"].value_counts().to_dict() == {1.0: 113, 0.0: 63, 2.0: 50, 3.0: 1}
    assert X["institution"].nunique() == 18
    assert round(X["age"].mean(), 2) == 62.45


def test_files_come_with_their_license():
    text = (resources.files("bayesmkl.datasets") / "files" / "LICENSE.txt").read_text(encoding="utf-8")
    assert "MIT License" in text
    assert "Cameron Davidson-Pilon" in text
