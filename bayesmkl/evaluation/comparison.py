"""Results of a comparison: every cell of data set, model and split."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.files import as_path, not_written
from bayesmkl.evaluation.out_of_fold import PredictionTables
from bayesmkl.evaluation.significance import pairwise, rank_table, wins
from bayesmkl.evaluation.store import NotKeptError, Store, read_about, table_of, write_about, write_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = entries(
    """
    metric : str, default=None
        One of `metrics`; None is the first.
    dataset : str, default=None
        One of `datasets`; None is all.
    """
)


@fill_docs(METRIC)
class Comparison(PredictionTables):
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
        random states); ``fit_seconds`` and ``predict_seconds``, as if the model were alone; ``kernel_seconds``, the
        part of both that was spent on kernels of banks, ``reused_seconds``, the part of that which was saved because
        another model had computed them, and ``kernel_stacks``, how many stacks of kernels, and graphs and
        factorizations that are shared like them, were computed for this model: none if all were found;
        ``peak_memory_mb`` (MiB above the start of the cell, with shared kernels); ``support_fraction``,
        ``n_active_kernels``, ``n_iter`` and ``n_solves`` of the fit, ``kernel_shares`` (as JSON; :meth:`weights` and
        :meth:`gates` read them), ``converged`` (1 or 0), ``best_params`` of a grid; ``error`` and ``note``
        (warnings), empty where there was none; then one column per metric. NaN where there is no number.
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
    def frame(self) -> pd.DataFrame:
        """All scores in long form: one row per data set, model, split and ``metric``, with its ``value``."""
        fixed = [name for name in self.cells.columns if name not in (*self.metrics, "kernel_shares")]
        return self.cells.melt(id_vars=fixed, value_vars=self.metrics, var_name="metric", value_name="value")

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
        cells = self._cells_of(dataset)
        table = cells.pivot(index=["dataset", "split"], columns="model", values=self._metric(metric))
        order = [name for name in self.datasets if name in set(cells["dataset"])]
        return table.reindex(columns=self.models).reindex(order, level="dataset").rename_axis(columns=None)

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
        """Rank the models in every data set (in every split where there is one set only).

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
        test : {"corrected_t", "paired_t", "wilcoxon", "nemenyi", "bayesian", "mixed_effects"}, default="corrected_t"
            The first two and "bayesian" compare the splits of each data set, "nemenyi" the ranks over data sets,
            "wilcoxon" both; "mixed_effects" all splits of all data sets at once.
        **options
            Of :func:`~bayesmkl.evaluation.significance.pairwise`: ``against``, ``over``, ``correction``, ``rope``,
            ``alpha``.

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
        return pairwise(self.scores(metric), test, **self._as_tested(metric), **options)

    def wins(self, metric: str | None = None, test: str = "corrected_t", **options: Any) -> pd.DataFrame:
        """Count on how many data sets each model is significantly better, as good and worse than each other one.

        Parameters
        ----------
        %(metric)s
        test : {"corrected_t", "paired_t", "wilcoxon", "bayesian"}, default="corrected_t"
            Test over the splits of each data set.
        **options
            Of :func:`~bayesmkl.evaluation.significance.wins`.

        Returns
        -------
        DataFrame
            One row per ordered pair of models; ``win_matrix`` and ``win_totals`` of
            ``bayesmkl.evaluation.significance`` make it shorter.

        Raises
        ------
        ValueError
            If `metric` is not one of the comparison, or the options do not fit `test`.
        ImportError
            For "bayesian", if ``bayesmkl[compare]`` is not installed.
        """
        return wins(self.scores(metric), test, **self._as_tested(metric), **options)

    def plot(self, kind: str = "scores", metric: str | None = None, **options: Any) -> Axes:
        """Draw the comparison.

        Parameters
        ----------
        kind : str, default="scores"
            Plot to draw: "scores", "ranks", "critical_difference", "pairwise", "time" or "learning_curve", one
            function of ``bayesmkl.evaluation.plots`` each; or a curve, "roc", "precision_recall" or "calibration", of
            :func:`~bayesmkl.evaluation.plots.plot_curve`, which has no metric.
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
        from bayesmkl.evaluation.plots import plot

        return plot(self, kind, metric, **options)

    def to_html(
        self,
        path: str | PathLike[str],
        title: str = "Comparison of models",
        metrics: Sequence[str] | None = None,
    ) -> Path:
        """Write one page with tables, plots, tests, environment and seeds, which needs no other file.

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
            If `path` is no path, or `title` no text.
        ValueError
            If `metrics` are not among those of the comparison, or `path` cannot be a file.
        OSError
            If the page cannot be written; one that is there stays.
        """
        from bayesmkl.evaluation.report import write_report

        return write_report(self, path, title, metrics)

    def _as_tested(self, metric: str | None) -> dict[str, Any]:
        """Return the facts about splits and metric that tests need."""
        return {
            "test_train_ratio": {name: self.test_train_ratio(name) for name in self.datasets},
            "greater_is_better": self.about["metrics"][self._metric(metric)],
        }

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``results.csv``, ``about.json`` and the cells to a new or empty folder.

        Parameters
        ----------
        folder : path-like
            Where to; it is made where it does not exist.

        Raises
        ------
        ValueError
            If there is something in the folder already; nothing is overwritten.
        TypeError
            If `folder` is no path.
        OSError
            If the files cannot be written; none is left behind then.
        """
        path = as_path("folder", folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(f"`folder` must be new or empty; {str(path)!r} is not. Choose another one.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise not_written(f"`folder`: {str(path)!r}", error) from error
        try:
            store = Store(path)
            for key in dict.fromkeys(key for *_, key in self.about.get("keys", ())):
                cell = None if self._store is None else self._store.read(key)
                if cell is not None:
                    with suppress(NotKeptError):
                        cell = cell._replace(kept=self._kept(key))
                    store.write(cell)
            write_table(path, self.cells)
            write_about(path, self.about)
        except BaseException:  # half of it would be in the way of the next attempt
            shutil.rmtree(path, ignore_errors=True)
            raise

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Comparison:
        """Read the folder of a comparison; of one that was interrupted, the cells that are finished.

        Parameters
        ----------
        folder : path-like
            Folder that `save` wrote, or the `folder` of :func:`compare_models`: what the last call there compared.

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
        n_models, n_sets = len(self.models), len(self.datasets)
        sets = "data set" if n_sets == 1 else "data sets"
        size = f"{n_models} model{'' if n_models == 1 else 's'} x {n_sets} {sets}, {len(self.cells)} cells"
        return f"<Comparison: {size}{failed}>"

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
