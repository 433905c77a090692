"""Shares and gates of kernels in compared models: over splits, how often kernels are selected, and how stably.

A share is the part of a kernel in the score, of Bayesian models `kernel_shares_`; of all others it is the weight of
the kernel over the sum of all weights, in absolute value. Where classes or clusters have weights of their own, shares
are averaged over them. Gates are those of localized methods: weights that depend on the sample.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm, spearmanr
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import check_probability
from bayesmkl.discriminative.estimators.localized import BaseLocalized

SELECTED = 1e-3  # of the largest share: kernels above it count as selected
MOST_KERNELS = 2000  # whose shares a cell keeps
MODEL = ["dataset", "model"]


ENTRIES = entries(
    """
    dataset : str, default=None
        One of `datasets`; None is all.
    threshold : float, default=1e-3
        Part of the largest share of a split above which a kernel counts as selected.
    """
)


@fill_docs(ENTRIES)
class KernelTables:
    """What a comparison says of kernels.

    Attributes
    ----------
    cells : DataFrame
        One row per data set, model and split.
    """

    cells: pd.DataFrame

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets."""
        return list(dict.fromkeys(self.cells["dataset"]))

    def weights(self, dataset: str | None = None, threshold: float = SELECTED) -> pd.DataFrame:
        """Return shares of kernels: means and standard deviations over splits, and how often a kernel is selected.

        Parameters
        ----------
        %(dataset)s
        %(threshold)s

        Returns
        -------
        DataFrame
            One row per data set, model and kernel, by falling ``mean``: ``view``, ``mean`` and ``std`` of the share
            over splits; ``posterior_std``, the mean standard deviation of the posterior, NaN of models without one;
            ``selected``, part of the splits in which the kernel is selected; ``n`` splits. Models without kernel
            weights, and those of over 2000 kernels, are not there. Shares are parts of the score of Bayesian models;
            of others weights over their sum, in absolute value.

        Raises
        ------
        ValueError
            If `dataset` is not one of the comparison, or `threshold` is out of range.
        """
        cells, threshold = self._cells_of(dataset), check_probability("threshold", threshold)
        tables = []
        for key, kept in _kept(cells).items():
            shares, first = _shares(kept), kept[0]
            stds = [own["stds"] for own in kept if own["stds"] is not None]
            names = first["kernels"]
            table = pd.DataFrame(
                {
                    "dataset": key[0],
                    "model": key[1],
                    "kernel": names,
                    "view": [None] * len(names) if first["views"] is None else first["views"],
                    "mean": shares.mean(axis=0),
                    "std": shares.std(axis=0, ddof=1) if len(shares) > 1 else np.nan,
                    "posterior_std": np.mean(stds, axis=0) if stds else np.nan,
                    "selected": _selected(shares, threshold).mean(axis=0),
                    "n": len(shares),
                }
            )
            tables.append(table.sort_values("mean", ascending=False, kind="stable"))
        names = ["dataset", "model", "kernel", "view", "mean", "std", "posterior_std", "selected", "n"]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=names)

    def gates(self, dataset: str | None = None) -> pd.DataFrame:
        """Return gates of localized models: their means over training samples, and how they vary.

        Parameters
        ----------
        %(dataset)s

        Returns
        -------
        DataFrame
            One row per data set, model and kernel, in the order of the kernels: ``view``; ``mean`` and ``std``, over
            splits, of the mean gate of the training samples, in the units of the model's ``gates``;
            ``sample_std``, the standard deviation over training samples, averaged over splits: near zero where the
            weights hardly depend on the sample; ``n`` splits. Gates of several classes are averaged over them. Other
            models are not there.

        Raises
        ------
        ValueError
            If `dataset` is not one of the comparison.
        """
        names = ["dataset", "model", "kernel", "view", "mean", "std", "sample_std", "n"]
        tables = []
        for (name, model), kept in _kept(self._cells_of(dataset), "gates").items():
            means, first = np.array([own["gates"] for own in kept]), kept[0]
            n_splits, n_kernels = means.shape
            table = pd.DataFrame({"kernel": first["kernels"], "view": first["views"] or [None] * n_kernels})
            table["mean"], table["std"] = means.mean(axis=0), np.nan
            if n_splits > 1:
                table["std"] = means.std(axis=0, ddof=1)
            table["sample_std"] = np.mean([own["gate_stds"] for own in kept], axis=0)
            tables.append(table.assign(dataset=name, model=model, n=n_splits)[names])
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=names)

    def stability(
        self, dataset: str | None = None, threshold: float = SELECTED, ci_prob: float = 0.95
    ) -> pd.DataFrame:
        """Return how stable the selection of kernels is over splits.

        Parameters
        ----------
        %(dataset)s
        %(threshold)s
        ci_prob : float, default=0.95
            Probability content of the interval.

        Returns
        -------
        DataFrame
            One row per data set and model: ``n_kernels``, the mean number ``n_selected``, and the ``stability`` of
            Nogueira et al. (2018), 1 where all splits select the same kernels and around 0 where they select at
            random, with its interval ``lower`` to ``upper``. It is NaN where all kernels are selected. Splits share
            samples, which makes them more alike than new data would be.

        Raises
        ------
        ValueError
            If `dataset` is not one of the comparison, or `threshold` or `ci_prob` is out of range.
        """
        cells, threshold = self._cells_of(dataset), check_probability("threshold", threshold)
        check_probability("ci_prob", ci_prob)
        rows = []
        for (name, model), kept in _kept(cells).items():
            chosen = _selected(_shares(kept), threshold)
            value, low, high = selection_stability(chosen, ci_prob)
            about = {"n_kernels": chosen.shape[1], "n_selected": float(chosen.sum(axis=1).mean())}
            found = {"stability": value, "lower": low, "upper": high, "n": len(chosen)}
            rows.append({"dataset": name, "model": model} | about | found)
        names = [*MODEL, "n_kernels", "n_selected", "stability", "lower", "upper", "n"]
        return pd.DataFrame(rows, columns=names)

    def agreement(self, dataset: str) -> pd.DataFrame:
        """Return whether models order kernels alike: Spearman's rank correlations of mean shares.

        Parameters
        ----------
        dataset : str
            One of `datasets`.

        Returns
        -------
        DataFrame
            A row and a column per model with kernel weights; NaN between models of other kernels.

        Raises
        ------
        ValueError
            If there is no such data set.
        """
        means = {
            model: pd.Series(_shares(kept).mean(axis=0), index=kept[0]["kernels"])
            for (name, model), kept in _kept(self._cells_of(dataset)).items()
            if name == dataset
        }
        found = pd.DataFrame(np.nan, index=list(means), columns=list(means))
        for a, own in means.items():
            for b, other in means.items():
                if set(own.index) == set(other.index) and own.nunique() > 1 and other.nunique() > 1:
                    found.loc[a, b] = spearmanr(own, other.loc[own.index])[0]
        return found

    def _cells_of(self, dataset: str | None) -> pd.DataFrame:
        if dataset is None:
            return self.cells
        if dataset not in self.datasets:
            raise ValueError(f"`dataset` must be one of {self.datasets}; got {dataset!r}.")
        return self.cells[self.cells["dataset"] == dataset]


def kept_shares(final: BaseEstimator) -> str:
    """Return what a cell keeps of the kernels of a fitted model, as JSON; empty without weights and gates."""
    names = getattr(final, "kernel_names_", None)
    shares, stds = getattr(final, "kernel_shares_", None), getattr(final, "kernel_shares_std_", None)
    if shares is None and hasattr(final, "kernel_weights_"):
        weights = np.abs(np.atleast_2d(final.kernel_weights_))
        shares = weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    gates = final.gates() if isinstance(final, BaseLocalized) else None  # (..., n_samples, n_kernels)
    if names is None or len(names) > MOST_KERNELS or (shares is None and gates is None):
        return ""
    if shares is not None and np.shape(shares)[-1] != len(names):
        return ""
    views = getattr(getattr(final, "kernel_bank_", None), "kernel_views_", None)
    kept = {"kernels": list(names), "views": views, "shares": None if shares is None else _rounded(shares)}
    if gates is not None:
        kept |= {"gates": _rounded(gates), "gate_stds": _rounded(np.std(gates, axis=-2))}
    return json.dumps(kept | {"stds": None if stds is None else _rounded(stds)})


def _rounded(values: Any) -> list[float]:
    """Return means over classes, and clusters where there are some, in six digits."""
    return [float(f"{value:.6g}") for value in np.reshape(values, (-1, np.shape(values)[-1])).mean(axis=0)]


def selection_stability(selected: np.ndarray, ci_prob: float = 0.95) -> tuple[float, float, float]:
    r"""Return the stability of selections and the ends of its interval.

    It is one minus the mean variance of selections over that of selections at random of as many,

    .. math:: \hat\Phi = 1 - \frac{\frac1P \sum_m \frac{M}{M-1} \hat p_m (1 - \hat p_m)}
       {\frac{\bar k}{P} (1 - \frac{\bar k}{P})} :

    1 where all splits select the same, around 0 where they select at random.

    Parameters
    ----------
    selected : ndarray of bool of shape (n_splits, n_kernels)
    ci_prob : float, default=0.95
        Probability content of the interval, by the normal limit of many splits.

    Returns
    -------
    stability, lower, upper : float
        NaN where every split selects all kernels or none, or there is one split.

    References
    ----------
    S. Nogueira, K. Sechidis and G. Brown (2018), On the stability of feature selection algorithms, Journal of Machine
    Learning Research 18 (174), eqs. 4 and 9.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.evaluation.kernel_weights import selection_stability
    >>> [round(value, 2) for value in selection_stability(np.eye(3)[[0, 0, 0, 1]] > 0)]
    [0.25, -0.39, 0.89]
    """
    chosen = np.asarray(selected, dtype=float)
    n_splits, n_kernels = chosen.shape
    part, of_split = chosen.mean(axis=0), chosen.sum(axis=1) / n_kernels
    mean = of_split.mean()
    at_random = mean * (1.0 - mean)
    if n_splits < 2 or at_random == 0.0:
        return np.nan, np.nan, np.nan
    value = 1.0 - n_splits / (n_splits - 1) * (part * (1.0 - part)).mean() / at_random
    own = chosen @ part / n_kernels - of_split * mean
    own += 0.5 * value * (2.0 * mean * of_split - of_split - mean + 1.0)
    own /= at_random
    error = 2.0 * np.sqrt(((own - own.mean()) ** 2).sum()) / n_splits
    half = float(norm.ppf(0.5 * (1.0 + ci_prob))) * error
    return float(value), float(value - half), float(value + half)


def _kept(cells: pd.DataFrame, part: str = "shares") -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return what cells keep that have a part, by data set and model.

    Splits that have other kernels than the first are left out.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    if "kernel_shares" not in cells:
        return found
    for dataset, model, text in cells[[*MODEL, "kernel_shares"]].itertuples(index=False):
        if text:
            own = json.loads(text)
            if own.get(part) is None:
                continue
            kept = found.setdefault((dataset, model), [])
            if not kept or own["kernels"] == kept[0]["kernels"]:
                kept.append(own)
    return found


def _shares(kept: list[dict[str, Any]]) -> np.ndarray:
    return np.array([own["shares"] for own in kept])


def _selected(shares: np.ndarray, threshold: float) -> np.ndarray:
    """Return which kernels are selected, (n_splits, n_kernels)."""
    return shares > threshold * shares.max(axis=1, keepdims=True)
