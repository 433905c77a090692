"""Results of a comparison: every cell of data set, model and split; scores, tests, kernels, held-out predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.files import as_path
from bayesmkl._utils.validation import check_choice, check_probability, counted
from bayesmkl.evaluation.metrics import metric_of, stored_score
from bayesmkl.evaluation.predictions import StoredPredictions
from bayesmkl.evaluation.significance import pairwise, rank_table
from bayesmkl.evaluation.store import NotKeptError, Store, read_about, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOK = "Call compare_models again with the same folder"
SELECTED = 1e-3  # of the largest share: kernels above it count as selected
MODEL = ["dataset", "model"]
COLUMNS = {
    "predict_proba": "p",
    "decision_function": "score",
    "moments_mean": "mean",
    "moments_std": "std",
    "latent_mean": "latent_mean",
    "latent_std": "latent_std",
}  # of a table of predictions, by what a cell keeps
ENTRIES = entries(
    """
    metric : str, default=None
        One of `metrics`; None is the first.
    dataset : str, default=None
        One of `datasets`; None is all.
    threshold : float, default=1e-3
        A kernel is selected in a split if its share is above this fraction of the largest share.
    """
)


class OutOfFold(NamedTuple):
    """Predictions of a model in a split."""

    dataset: str
    model: str
    split: int
    stored: Any  # StoredPredictions


@fill_docs(ENTRIES)
class Comparison:
    """Scores of models on splits of data sets.

    :func:`compare_models` makes it, and :meth:`load` reads it from a folder.

    Parameters
    ----------
    cells : DataFrame
        One row per data set, model and split; see Attributes.
    about : dict
        What is known about the run; see Attributes.
    store : object, default=None
        Where the cells are, with their predictions.

    Attributes
    ----------
    cells : DataFrame
        ``dataset``, ``model``, ``split``; ``n_samples``, ``n_train``, ``n_test``, ``seed`` (of the models' open
        random states); ``fit_seconds`` and ``predict_seconds``; ``peak_memory_mb`` (MiB above the start of the
        cell); ``support_fraction``, ``n_active_kernels`` and ``n_iter`` of the fit, ``kernel_shares``
        (as JSON; :meth:`weights` reads them), ``converged`` (1 or 0), ``best_params`` of a grid;
        ``error`` and ``note`` (warnings), empty where there was none; then one column per metric. NaN where there is
        no number.
    about : dict
        ``keys`` and ``scorers`` (hashes of the cells and metrics), ``metrics`` (name to whether greater is better),
        ``random_state``, ``cv``, ``models``, ``datasets``, ``environment``, ``started``, ``seconds``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.svm import SVC
    >>> from bayesmkl.evaluation import compare_models
    >>> found = compare_models(
    ...     {"logistic": LogisticRegression(max_iter=1000), "svm": SVC()}, datasets=["iris"], scoring="accuracy"
    ... )
    >>> found.models, found.datasets, found.metrics
    (['logistic', 'svm'], ['iris'], ['accuracy'])
    >>> found.summary().round(3)[["model", "mean", "std", "n"]]
          model   mean    std  n
    0  logistic  0.960  0.015  5
    1       svm  0.953  0.038  5
    """

    def __init__(self, cells: pd.DataFrame, about: dict[str, Any], store: Store | None = None) -> None:
        self.cells, self.about, self._store = cells, about, store

    @property
    def models(self) -> list[str]:
        """Names of the models, in the order in which they were given."""
        return list(dict.fromkeys(self.cells["model"]))

    @property
    def failures(self) -> pd.DataFrame:
        """Cells whose model raised an exception: data set, model, split and error."""
        failed = self.cells[self.cells["error"] != ""]
        return failed[["dataset", "model", "split", "error"]].reset_index(drop=True)

    def scores(self, metric: str | None = None, dataset: str | None = None) -> pd.DataFrame:
        """Return the scores of one metric, a column per model.

        Parameters
        ----------
        %(metric)s
        %(dataset)s

        Returns
        -------
        DataFrame
            A column per model, a row per (dataset, split); NaN where a model failed.

        Raises
        ------
        ValueError
            If `metric` or `dataset` is not one of the comparison.
        """
        return _by_model(self._cells_of(dataset), self._metric(metric), self.models)

    def test_train_ratio(self, dataset: str) -> float:
        """Return the mean number of test rows over that of training rows.

        Parameters
        ----------
        dataset : str
            One of `datasets`.

        Returns
        -------
        float
            1/4 for five folds.

        Raises
        ------
        ValueError
            If there is no such data set.
        """
        if dataset is None:
            raise ValueError(f"`dataset` must be one of {self.datasets}; got None.")
        cells = self._cells_of(dataset)
        return float(cells["n_test"].mean() / cells["n_train"].mean())

    def summary(self, metric: str | None = None) -> pd.DataFrame:
        """Return mean and spread of a metric over the splits.

        Parameters
        ----------
        %(metric)s

        Returns
        -------
        DataFrame
            One row per data set and model: ``mean``, ``std`` (over splits, n - 1), ``n`` (splits with a score),
            ``failed``, ``best`` (the best mean of the data set among models that have a score in every split in which
            some model has one), and means of ``fit_seconds``, ``predict_seconds``, ``support_fraction`` and
            ``n_active_kernels``.

        Raises
        ------
        ValueError
            If `metric` is not one of the comparison.
        """
        name = self._metric(metric)
        groups = self.cells.groupby(["dataset", "model"], sort=False)
        table = groups[name].agg(mean="mean", std="std", n="count")
        table["failed"] = groups["error"].agg(lambda errors: int((errors != "").sum()))
        sign = 1.0 if self.about["metrics"][name] else -1.0
        scored = self.scores(name).notna().any(axis=1).groupby(level="dataset").sum()  # splits, by some model
        complete = (sign * table["mean"]).where(
            table["n"] == scored.loc[table.index.get_level_values("dataset")].to_numpy()
        )
        table["best"] = complete == complete.groupby(level="dataset").transform("max")
        extra = ["fit_seconds", "predict_seconds", "support_fraction", "n_active_kernels"]
        table = table.join(groups[extra].mean())
        return table.reset_index()

    def ranks(self, metric: str | None = None) -> pd.DataFrame:
        """Rank the models in every data set, or in every split if there is a single data set.

        Parameters
        ----------
        %(metric)s

        Returns
        -------
        DataFrame
            One row per model, the best first; see :func:`~bayesmkl.evaluation.significance.rank_table`.

        Raises
        ------
        ValueError
            If `metric` is not one of the comparison, or no score is finite.
        """
        name = self._metric(metric)
        return rank_table(self.scores(name), self.about["metrics"][name])

    def significance(
        self, metric: str | None = None, test: str = "corrected_t", **options: Any
    ) -> pd.DataFrame:
        """Test which differences between models are real.

        Parameters
        ----------
        %(metric)s
        test : {"corrected_t", "paired_t", "wilcoxon", "nemenyi", "bayesian"}, default="corrected_t"
            The first two and "bayesian" compare the splits of each data set, "nemenyi" the ranks over data sets,
            "wilcoxon" both.
        **options
            Of :func:`~bayesmkl.evaluation.significance.pairwise`: ``against``, ``correction``, ``rope``, ``alpha``.

        Returns
        -------
        DataFrame
            One row per data set and pair of models; the columns are those of
            :func:`~bayesmkl.evaluation.significance.pairwise`.

        Raises
        ------
        ValueError
            If `metric` is not one of the comparison, or the options do not fit `test`; if models or data sets are too
            few.
        ImportError
            For "nemenyi" and "bayesian", if ``bayesmkl[compare]`` is not installed.
        """
        ratios = {name: self.test_train_ratio(name) for name in self.datasets}
        greater = self.about["metrics"][self._metric(metric)]
        facts: dict[str, Any] = {"test_train_ratio": ratios, "greater_is_better": greater}
        return pairwise(self.scores(metric), test, **facts, **options)

    def plot(self, kind: str = "scores", metric: str | None = None, **options: Any) -> Axes:
        """Draw the comparison.

        Parameters
        ----------
        kind : {"scores", "critical_difference"}, default="scores"
            Plot to draw, one function of ``bayesmkl.evaluation.plots`` each.
        %(metric)s
        **options
            Of the function in ``bayesmkl.evaluation.plots``, such as ``dataset`` or ``ax``.

        Returns
        -------
        matplotlib.axes.Axes
            Its figure is ``ax.figure``.

        Raises
        ------
        ValueError
            If `kind` or `metric` is not known, and as the function raises.
        """
        from bayesmkl.evaluation.plots import plot_critical_difference, plot_scores

        plots: dict[str, Any] = {"scores": plot_scores, "critical_difference": plot_critical_difference}
        return plots[check_choice("kind", kind, tuple(plots))](self, metric, **options)

    def to_html(
        self,
        path: str | PathLike[str],
        title: str = "Comparison of models",
        metrics: Sequence[str] | None = None,
    ) -> Path:
        """Write one self-contained page with tables, plots, tests, environment and seeds.

        Parameters
        ----------
        path : path-like
            A page that is there is replaced.
        title : str, default="Comparison of models"
            Head of the page.
        metrics : sequence of str, default=None
            Those that get ranks, tests and plots, about a second each; None is the first.

        Returns
        -------
        pathlib.Path
            `path`.

        Raises
        ------
        TypeError
            If `path` is no path.
        ValueError
            If `metrics` are not among those of the comparison, or `path` cannot be a file.
        OSError
            If the page cannot be written; one that is there stays.
        """
        from bayesmkl.evaluation.report import write_report

        return write_report(self, path, title, metrics)

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets."""
        return list(dict.fromkeys(self.cells["dataset"]))

    def weights(self, dataset: str | None = None, threshold: float = SELECTED) -> pd.DataFrame:
        """Return shares of kernels: means and standard deviations over splits, and how often each kernel is selected.

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

    def _cells_of(self, dataset: str | None) -> pd.DataFrame:
        if dataset is None:
            return self.cells
        if dataset not in self.datasets:
            raise ValueError(f"`dataset` must be one of {self.datasets}; got {dataset!r}.")
        return self.cells[self.cells["dataset"] == dataset]

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the most important one first."""
        return list(self.about["metrics"])

    def predictions(self, dataset: str | None = None) -> pd.DataFrame:
        """Return the predictions for the test rows of all splits.

        Parameters
        ----------
        dataset : str, default=None
            One of `datasets`; None is all.

        Returns
        -------
        DataFrame
            One row per data set, model, split and test row: ``row`` (its position in the data), ``truth`` (of times
            ``event`` and ``time``),
            ``prediction``; then what models give: ``p(<class>)``; ``score``, the decision function,
            ``score(<class>)`` of several, or numbered ones of pairs; ``mean`` and ``std`` of the target;
            ``latent_mean`` and ``latent_std`` of the latent function, also by class. Empty where a model gives no
            such thing. Cells that failed are not there.

        Raises
        ------
        ValueError
            If `dataset` is not one of the comparison, or a cell keeps no predictions: with the reason.
        """
        tables = [_table(one) for one in self._out_of_fold(dataset)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def score(self, metric: str, dataset: str | None = None) -> pd.DataFrame:
        """Compute a metric from stored predictions, without refitting.

        Parameters
        ----------
        metric : str
            Name of a metric, also one of scikit-learn.
        dataset : str, default=None
            One of `datasets`; None is all.

        Returns
        -------
        DataFrame
            As `scores`: a column per model, a row per (dataset, split), NaN where a model failed or cannot give the
            metric. Numbers are those that the fit would have had, bit for bit.

        Raises
        ------
        ValueError
            For an unknown metric or data set, a cell that keeps no predictions, or a metric that needs more than
            these, such as the model itself.

        Examples
        --------
        >>> from sklearn.svm import SVC
        >>> from bayesmkl.evaluation import compare_models
        >>> found = compare_models({"svm": SVC()}, datasets="iris", scoring="accuracy", cv=3)
        >>> found.score("mcc").round(2)["svm"].tolist()
        [0.94, 0.97, 0.94]
        """
        cells = self._cells_of(dataset)
        wanted = metric_of(metric, "metric")
        values = {}
        for one in self._out_of_fold(dataset):
            try:
                values[one[:3]] = stored_score(wanted, one.stored)
            except NotKeptError as error:
                remedy = f"{LOOK} and this metric in `scoring`, which computes these cells anew."
                if metric in self.metrics:
                    remedy = "`scores` has it, as computed with the fit."
                raise ValueError(f"`metric`: {error}. {remedy}") from error
        names = zip(cells["dataset"], cells["model"], cells["split"], strict=True)
        return _by_model(cells.assign(value=[values.get(name, np.nan) for name in names]), "value")

    def _metric(self, metric: str | None) -> str:
        if metric is None:
            return self.metrics[0]
        if metric not in self.metrics:
            raise ValueError(f"`metric` must be one of {self.metrics}; got {metric!r}.")
        return metric

    def _out_of_fold(self, dataset: str | None) -> Iterator[OutOfFold]:
        """Go through the predictions of cells that did not fail, in the order of the table."""
        cells = self._cells_of(dataset)
        cells = cells[cells["error"] == ""]
        keys = {tuple(name): key for *name, key in self.about.get("keys", ())}
        for name in zip(cells["dataset"], cells["model"], cells["split"].tolist(), strict=True):
            try:
                if self._store is None or name not in keys:
                    raise NotKeptError("a table alone has none")
                yield OutOfFold(*name, StoredPredictions(self._store.kept(keys[name])))
            except NotKeptError as error:
                raise ValueError(
                    f"`predictions`: those of {name[1]!r} on {name[0]!r}, split {name[2]}, are not kept: {error}. "
                    "Compare again, in another folder or without one."
                ) from error

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Comparison:
        """Read the folder of a comparison; if it was interrupted, read the finished cells.

        Parameters
        ----------
        folder : path-like
            The `folder` of :func:`compare_models`: what the last call there compared.

        Returns
        -------
        Comparison
            With the same cells; those whose files are gone or damaged are left out.

        Raises
        ------
        ValueError
            If the folder is not that of a comparison, or of another version.
        TypeError
            If `folder` is no path.
        """
        path = as_path("folder", folder)
        about, store = read_about(path), Store(path)
        found = [((dataset, model, split), store.read(key)) for dataset, model, split, key in about["keys"]]
        rows = [cell.named(name, about["scorers"]) for name, cell in found if cell is not None]
        return cls(table_of(rows, about["metrics"]), about, store)

    def __repr__(self) -> str:
        n_failed = len(self.failures)
        failed = f", {n_failed} failed" if n_failed else ""
        size = f"{counted(len(self.models), 'model')} x {counted(len(self.datasets), 'data set')}"
        return f"<Comparison: {size}, {len(self.cells)} cells{failed}>"

    def __str__(self) -> str:
        means = self.summary().pivot(index="model", columns="dataset", values="mean")
        means = means.reindex(index=self.models, columns=self.datasets)
        table = means.round(4).rename_axis(index=None, columns=None).to_string(na_rep="failed")
        known = self.about.get("datasets", {})
        grouped = {name: known[name]["groups"] for name in self.datasets if known.get(name, {}).get("groups")}
        said = [f"\ngroups of {name}: {about}" for name, about in grouped.items()]
        return f"{self!r}\nmean {self._metric(None)}:\n{table}{''.join(said)}"

    def _repr_html_(self) -> str:
        means = self.summary().pivot(index="model", columns="dataset", values="mean")
        return means.reindex(index=self.models, columns=self.datasets).round(4).to_html(na_rep="failed")


def _by_model(cells: pd.DataFrame, column: str, models: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one column of cells as a column per model and a row per (dataset, split), in the order of the cells."""
    wide = cells.pivot(index=["dataset", "split"], columns="model", values=column).rename_axis(columns=None)
    own, datasets = (list(dict.fromkeys(cells[name])) for name in ("model", "dataset"))
    wide = wide.reindex(columns=own if models is None else list(models))
    return wide.reindex(datasets, level="dataset") if datasets else wide


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
    >>> from bayesmkl.evaluation.comparison import selection_stability
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


def _kept(cells: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the shares that cells keep, by data set and model.

    Splits that have other kernels than the first are left out.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    if "kernel_shares" not in cells:
        return found
    for dataset, model, text in cells[[*MODEL, "kernel_shares"]].itertuples(index=False):
        if text:
            own = json.loads(text)
            kept = found.setdefault((dataset, model), [])
            if not kept or own["kernels"] == kept[0]["kernels"]:
                kept.append(own)
    return found


def _shares(kept: list[dict[str, Any]]) -> np.ndarray:
    return np.array([own["shares"] for own in kept])


def _selected(shares: np.ndarray, threshold: float) -> np.ndarray:
    """Return which kernels are selected, (n_splits, n_kernels)."""
    return shares > threshold * shares.max(axis=1, keepdims=True)


def _table(one: OutOfFold) -> pd.DataFrame:
    """Return the predictions of a cell as columns."""
    stored, arrays = one.stored, one.stored.arrays
    columns: dict[str, Any] = {
        "dataset": one.dataset,
        "model": one.model,
        "split": one.split,
        "row": stored.rows,
    }
    if stored.y.dtype.names is None:
        columns["truth"] = stored.y
    else:
        columns |= dict(
            zip(("event", "time"), (stored.y[name] for name in stored.y.dtype.names), strict=True)
        )
    columns["prediction"] = stored.labels()
    classes = [str(label) for label in arrays.get("classes", ())]
    for array, name in COLUMNS.items():
        if array not in arrays:
            continue
        values = arrays[array]
        if values.ndim == 1:
            columns[name] = values
        else:
            of_classes = values.shape[1] == len(classes) and (name != "score" or stored.ranks_classes())
            known = classes if of_classes else range(values.shape[1])
            columns |= {f"{name}({label})": values[:, k] for k, label in enumerate(known)}
    return pd.DataFrame(columns)
