"""Logarithms of times to an event: their ends, their scale without features, and checks that estimators share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from bayesmkl._numerics.concordance import ordered_pairs
from bayesmkl._utils.given import check_numbers
from bayesmkl._utils.survival_target import SurvivalTimes, event_and_time
from bayesmkl._utils.typing import Targets
from bayesmkl._utils.validation import check_number, shown
from bayesmkl.outcomes.intervals import LAWS
from bayesmkl.outcomes.survival import OF_TIMES

LEAST_SCALE = 1e-3  # of log times without features


def log_ends(times: SurvivalTimes) -> np.ndarray:
    """Return logarithms of lower ends, upper ends and entries, (3, n_samples)."""
    with np.errstate(divide="ignore"):
        return np.log(np.array([times.lower, times.upper, times.entry]))


def concordance(risk: np.ndarray, y: Targets) -> float:
    """Return the part of the pairs of times whose order is known that risks predict.

    Parameters
    ----------
    risk : ndarray of shape (n_rows,)
        The higher, the earlier the event.
    y : structured array of shape (n_rows,)

    Raises
    ------
    ValueError
        If there is another number of times, or no pair whose order is known.
    """
    event, time = event_and_time(y)
    if len(risk) != len(time):
        raise ValueError(f"`y` must hold a time for each of the {len(risk)} rows of `X`; got {len(time)}.")
    in_order, pairs = ordered_pairs(event, time, risk, np.ones(len(time)))
    if pairs == 0.0:
        raise ValueError(
            "`y` must hold an event and a sample that lived longer; got no such pair. Score more together."
        )
    return in_order / pairs


def check_quantile(q: float) -> float:
    """Return a probability strictly between 0 and 1; raise ValueError for anything else."""
    if not 0.0 < check_number("q", q) < 1.0:
        raise ValueError(f"`q` must be between 0 and 1; got {q!r}. 0.5 stands for the median time.")
    return float(q)


def log_slopes(targets: np.ndarray, location: float, scale: float) -> np.ndarray:
    """Return log derivatives of times by standardized log times where they were observed, zero elsewhere.

    Parameters
    ----------
    targets : ndarray of shape (3, n_samples)
        Standardized ends and entries.
    location, scale : float
        By which log times were standardized.
    """
    lower, upper, _ = targets
    is_observed = lower == upper
    log_time = location + scale * np.where(is_observed, lower, 0.0)
    return np.where(is_observed, log_time + np.log(scale), 0.0)


def standard_log_times(times: Any, location: float, scale: float) -> np.ndarray:
    """Return standardized logarithms of times of predictions; raise ValueError for what is none."""
    found = check_numbers("times", np.asarray(times)).astype(float)
    if found.ndim != 1 or not len(found) or not (np.isfinite(found) & (found >= 0.0)).all():
        raise ValueError(
            f"`times` must be a sequence of numbers that are finite and not negative; got {shown(times)}. Write "
            "[1.0, 5.0], in the units of those of training."
        )
    with np.errstate(divide="ignore"):
        return (np.log(found) - location) / scale


def without_features(
    likelihood: Any, logs: np.ndarray, sample_weight: np.ndarray | None = None
) -> tuple[float, float]:
    """Return location and scale of log times of a model that has the same score for all samples.

    Parameters
    ----------
    likelihood : FailureTime
    logs : ndarray of shape (3, n_samples)
        `log_ends`.
    sample_weight : ndarray of shape (n_samples,), optional
        How often samples count.

    Returns
    -------
    location, scale : float
        Scale is the standard deviation of the distribution.
    """
    counts = np.ones(logs.shape[1]) if sample_weight is None else sample_weight
    finite, of_finite = logs[np.isfinite(logs)], np.broadcast_to(counts, logs.shape)[np.isfinite(logs)]
    location = float(np.average(finite, weights=of_finite))
    spread = max(float(np.sqrt(np.average((finite - location) ** 2, weights=of_finite))), LEAST_SCALE)
    law = LAWS[OF_TIMES[likelihood.times]]
    n_observed = counts @ (logs[0] == logs[1])
    nothing, one = np.zeros(logs.shape[1]), np.ones(1)

    def negative(at: np.ndarray) -> float:
        scale = spread * np.exp(np.clip(at[1], np.log(LEAST_SCALE), -np.log(LEAST_SCALE)))
        standard = (logs - location - spread * at[0]) / scale
        with np.errstate(all="ignore"):
            height = counts @ likelihood.log_density(standard, nothing, one) - n_observed * np.log(scale)
        return -height if np.isfinite(height) else np.inf

    found = optimize.minimize(
        negative, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-8}
    )
    shift, log_scale = found.x
    scale = spread * np.exp(np.clip(log_scale, np.log(LEAST_SCALE), -np.log(LEAST_SCALE)))
    return location + spread * float(shift), float(scale * np.sqrt(law.variance))
