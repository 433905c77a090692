"""Time series as distances to the training series, through tslearn."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl._utils.extras import require
from bayesmkl._utils.validation import check_integer, shown
from bayesmkl.kernels.one_column import DistanceToTraining, column_of, refused_row

__all__ = ["SeriesDistance"]

SERIES = "time series"
METRICS = {"dtw": "cdist_dtw", "frechet": "cdist_frechet"}
MOST_TIMES = 100_000


class SeriesDistance(DistanceToTraining):
    """Distances to the training series that shift times, by tslearn: dynamic time warping, Fréchet's distance.

    Series are rows of a table, or a column of arrays of shape (n_times,) or (n_times, n_channels) of any length.
    The columns are for ``FromDistance("precomputed")``, whose kernel is :math:`e^{-d / s}`. tslearn is not among the
    requirements: ``pip install "bayesmkl[timeseries]"``.

    Parameters
    ----------
    metric : {"dtw", "frechet"}, default="dtw"
        Root of the sum of squared differences, or the largest difference, along the best way through both series.
    window : int, default=None
        By how many times, at most, one series is shifted against the other (Sakoe and Chiba's band). None is any.

    Attributes
    ----------
    train_ : ndarray of shape (n_train, n_times, n_channels)
        The training series, NaN after the end of shorter ones.
    n_features_in_ : int
        One.

    Raises
    ------
    ImportError
        If tslearn is not installed.
    ValueError
        For a row that is no series of finite numbers, is empty, has more than 100000 times, or other channels than
        the first training series, with its number.

    See Also
    --------
    FromDistance : The kernel on these distances.

    References
    ----------
    .. [1] H. Sakoe, S. Chiba (1978), Dynamic programming algorithm optimization for spoken word recognition, IEEE
       Transactions on Acoustics, Speech, and Signal Processing 26.

    Examples
    --------
    >>> from bayesmkl.kernels import SeriesDistance
    >>> SeriesDistance(window=10)
    SeriesDistance(window=10)
    """

    def __init__(self, metric: str = "dtw", window: int | None = None) -> None:
        self.metric = metric
        self.window = window

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True  # of series of one length
        return tags

    def _check_parameters(self) -> None:
        if not isinstance(self.metric, str) or self.metric not in METRICS:
            raise ValueError(f"`metric` must be one of {', '.join(METRICS)}; got {shown(self.metric)}.")
        if self.window is not None:
            check_integer("window", self.window, low=0)

    def _read(self, X: Any, train: np.ndarray | None) -> np.ndarray:
        rows = [_one_series(row, series) for row, series in enumerate(_rows_of(X))]
        n_channels = rows[0].shape[1] if train is None else train.shape[2]
        found = np.full((len(rows), max(len(series) for series in rows), n_channels), np.nan)
        for row, series in enumerate(rows):
            if series.shape[1] != n_channels:
                why = f"it has {series.shape[1]} channels, and the training series have {n_channels}"
                raise refused_row(row, series.tolist(), why, SERIES)
            found[row, : len(series)] = series
        return found

    def _compare(self, rows: np.ndarray, train: np.ndarray) -> np.ndarray:
        metrics = require("tslearn.metrics", "tslearn", "distances of time series", "timeseries")
        band = {} if self.window is None else {"sakoe_chiba_radius": self.window}
        found: np.ndarray = getattr(metrics, METRICS[self.metric])(rows, train, **band)
        return found


def _rows_of(X: Any) -> list[Any]:
    """Return the series of a table with one in each row, or of a column of them."""
    shape: Any = getattr(X, "shape", ())
    if len(shape) == 3 or (len(shape) == 2 and shape[1] > 1):
        return list(np.asarray(X))
    return column_of(X, SERIES)


def _one_series(row: int, series: Any) -> np.ndarray:
    """Return a series as a table of times and channels."""
    try:
        values = np.asarray(series, dtype=np.float64)
    except (TypeError, ValueError):
        why = f"it is of type {type(series).__name__}, and not a list or array of numbers"
        raise refused_row(row, series, why, SERIES) from None
    if values.ndim not in (1, 2) or not values.size:
        raise refused_row(row, series, f"it has the shape {values.shape}", SERIES)
    if len(values) > MOST_TIMES:
        raise refused_row(
            row, series, f"it has {len(values)} times, and more than {MOST_TIMES} are not read", SERIES
        )
    if not np.isfinite(values).all():
        raise refused_row(row, series, "it has values that are missing or infinite", SERIES)
    return values.reshape(len(values), -1)
