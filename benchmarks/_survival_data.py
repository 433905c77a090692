"""Survival data of `survival.py`: four clinical studies, read from installed packages, and a simulation.

GBSG2, WHAS500, veterans and breast cancer are files that scikit-survival (GPL-3) installs; GBSG2 is also one of
lifelines (MIT). The files are read, the packages are not imported, and nothing is copied from them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.io.arff import loadarff
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler

N_FOLDS = 3  # of which two are for training; three splits in a row hold everyone out once
SEED = 7000
SIMULATED = "simulated"
COUNTS = ("pnodes", "progrec", "estrec", "Months_from_Diagnosis")  # long tails: logarithm of 1 + count
GRADES = {"I": 1.0, "II": 2.0, "III": 3.0}


class Study(NamedTuple):
    """Subjects, columns by view, and who is followed until when."""

    X: np.ndarray  # (n_samples, n_columns), categories one-hot, not standardized
    y: np.ndarray  # structured: event, time
    views: dict[str, list[int]]  # columns of X
    columns: list[str]

    @property
    def times(self) -> np.ndarray:
        """Times over which the Brier score is integrated: between the first and the last tenth of the events."""
        low, high = np.quantile(self.y["time"][self.y["event"]], [0.1, 0.9])
        return np.linspace(low, high, 60)

    @property
    def median_time(self) -> float:
        """Median of the times of events that were seen, where calibration is judged."""
        return float(np.median(self.y["time"][self.y["event"]]))

    def split(self, number: int) -> Split:
        """Draw a random split that keeps the share of events: 2/3 for training; features standardized by these."""
        folds = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=number // N_FOLDS + 1, random_state=SEED)
        train, test = list(folds.split(self.X, self.y["event"]))[number]
        scaler = StandardScaler().fit(self.X[train])
        parts = (scaler.transform(self.X[part]) for part in (train, test))
        return Split(*parts, self.y[train], self.y[test], test)


class Split(NamedTuple):
    """Training and test part of a study."""

    X: np.ndarray
    X_test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    test: np.ndarray  # positions of the test part


class _Source(NamedTuple):
    """Where a study is, and what its columns are."""

    files: tuple[tuple[str, str], ...]  # package and file inside it, in the order of preference
    event: tuple[str, str]  # column, and its value where the event was seen
    time: str  # column, days
    views: Mapping[str, tuple[str, ...]]  # columns by view; none stands for all genes
    about: str


# Left out: how long the stay in hospital was (WHAS500), which is known only at its end.
SOURCES = {
    "GBSG2": _Source(
        (("sksurv", "datasets/data/GBSG2.arff"), ("lifelines", "datasets/gbsg2.csv")),
        ("cens", "1"),
        "time",
        {
            "person": ("age", "menostat"),
            "tumour": ("tsize", "tgrade", "pnodes"),
            "hormone receptors": ("progrec", "estrec"),
            "treatment": ("horTh",),
        },
        "breast cancer, recurrence",
    ),
    "WHAS500": _Source(
        (("sksurv", "datasets/data/whas500.arff"),),
        ("fstat", "1"),
        "lenfol",
        {
            "person": ("age", "gender", "bmi"),
            "vital signs": ("hr", "sysbp", "diasbp"),
            "complications": ("sho", "chf", "av3", "afb"),
            "infarction": ("cvd", "miord", "mitype"),
        },
        "heart attack, death",
    ),
    "veterans": _Source(
        (("sksurv", "datasets/data/veteran.arff"),),
        ("Status", "dead"),
        "Survival_in_days",
        {
            "person": ("Age_in_years", "Karnofsky_score"),
            "tumour": ("Celltype", "Months_from_Diagnosis"),
            "treatment": ("Treatment", "Prior_therapy"),
        },
        "lung cancer, death",
    ),
    "GSE7390": _Source(
        (("sksurv", "datasets/data/breast_cancer_GSE7390-metastasis.arff"),),
        ("e.tdm", "1"),
        "t.tdm",
        {"person": ("age",), "tumour": ("size", "grade", "er"), "genes": ()},
        "breast cancer, metastasis",
    ),
}


def study_of(name: str, n_samples: int | None = None) -> Study:
    """Read a study, or simulate one.

    Parameters
    ----------
    name : str
        One of `SETS`, or `SIMULATED`.
    n_samples : int, optional
        The first so many of the simulation.

    Returns
    -------
    Study

    Raises
    ------
    FileNotFoundError
        If no package that has the study is installed.
    """
    if name == SIMULATED:
        return _simulated(n_samples or 120)
    source = SOURCES[name]
    table = _table(name, source)
    event = table.pop(source.event[0]).astype(str) == source.event[1]
    time = table.pop(source.time).to_numpy(float)
    y = np.rec.fromarrays([event.to_numpy(), time], names="event,time")
    named = [column for columns in source.views.values() for column in columns]
    rest = [column for column in table if column not in named and column.startswith("X")]
    blocks, views, names = [], {}, []
    for view, columns in source.views.items():
        encoded = pd.concat([_encoded(table[column]) for column in columns or rest], axis=1)
        views[view] = list(range(len(names), len(names) + encoded.shape[1]))
        names += list(encoded.columns)
        blocks.append(encoded.to_numpy(float))
    return Study(np.concatenate(blocks, axis=1), y, views, names)


def _table(name: str, source: _Source) -> pd.DataFrame:
    """Read the file of the first package that is installed."""
    for package, file in source.files:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            continue
        path = Path(found.origin).parent / file
        if path.suffix == ".csv":
            return pd.read_csv(path)
        rows, _ = loadarff(path)
        table = pd.DataFrame({column: rows[column] for column in rows.dtype.names})
        texts = [column for column in table if rows.dtype[column].kind == "S"]
        return table.assign(**{column: table[column].str.decode("utf-8") for column in texts})
    packages = " or ".join(package for package, _ in source.files)
    raise FileNotFoundError(f"{name} is a file of {packages}: pip install scikit-survival")


def _encoded(column: pd.Series) -> pd.DataFrame:
    """Turn one column into numbers: grades in their order, other categories one-hot but the first."""
    name = str(column.name)
    if pd.api.types.is_numeric_dtype(column):
        return (np.log1p(column) if name in COUNTS else column).to_frame()
    if set(column) <= set(GRADES):
        return column.map(GRADES).to_frame()
    if set(column) <= {"0", "1"}:
        return column.astype(float).to_frame()
    return pd.get_dummies(column, prefix=name, drop_first=True)


def _simulated(n_samples: int) -> Study:
    """Weibull times that depend on one of three views, a third censored."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(600, 6))[:n_samples]
    risk = X[:, 0] + np.sin(2.0 * X[:, 1])
    died = 5.0 * (rng.exponential(size=600)[:n_samples] * np.exp(-risk)) ** 0.7
    censored = rng.uniform(0.0, 20.0, size=600)[:n_samples]
    y = np.rec.fromarrays([died <= censored, np.minimum(died, censored)], names="event,time")
    views = {"matters": [0, 1], "noise": [2, 3], "more noise": [4, 5]}
    return Study(X, y, views, [f"x{j}" for j in range(6)])


SETS = {name: source.about for name, source in SOURCES.items()}
