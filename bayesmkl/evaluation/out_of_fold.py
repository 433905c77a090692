"""Out-of-fold predictions of compared models: tables, further metrics, curves, and who errs where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import check_choice
from bayesmkl.evaluation.curves import CURVES, curve_of, mean_curve, positive_class
from bayesmkl.evaluation.kernel_weights import KernelTables
from bayesmkl.evaluation.significance import holm
from bayesmkl.evaluation.store import Kept, NotKeptError, Store

LOOK = "Call compare_models again with the same folder"
PREDICTIONS = entries(
    """
    dataset : str, default=None
        One of `datasets`; None is the only one.
    """
)


class OutOfFold(NamedTuple):
    """Predictions of a model in a split."""

    dataset: str
    model: str
    split: int
    stored: Any  # StoredPredictions


@fill_docs(PREDICTIONS)
class PredictionTables(KernelTables):
    """What a comparison says of the predictions of test rows."""

    about: dict[str, Any]
    _store: Store | None

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the first one being the one that matters most."""
        return list(self.about["metrics"])

    def learning_curve(self, metric: str | None = None, dataset: str | None = None) -> pd.DataFrame:
        """Return scores by the number of training rows, of splits that differ in it.

        Parameters
        ----------
        metric : str, default=None
            One of `metrics`; None is the first.
        dataset : str, default=None
            One of `datasets`; None is all.

        Returns
        -------
        DataFrame
            One row per data set, model and ``n_train``, rising: ``mean``, ``std`` and ``n`` of the scores over the
            splits of that size, and the mean ``fit_seconds``.

        Raises
        ------
        ValueError
            If `metric` or `dataset` is not one of the comparison.
        """
        name, keys = self._metric(metric), ["dataset", "model", "n_train"]
        groups = self._cells_of(dataset).groupby(keys, sort=False)
        table = groups[name].agg(mean="mean", std="std", n="count").join(groups["fit_seconds"].mean())
        places = {"dataset": self.datasets, "model": list(dict.fromkeys(self.cells["model"]))}
        return table.reset_index().sort_values(
            keys,
            key=lambda column: column.map(places[column.name].index) if column.name in places else column,
            ignore_index=True,
        )

    def predictions(self, dataset: str | None = None) -> pd.DataFrame:
        """Return what was predicted of the test rows of all splits.

        Parameters
        ----------
        dataset : str, default=None
            One of `datasets`; None is all.

        Returns
        -------
        DataFrame
            One row per data set, model, split and test row: ``row`` (its position in the data), ``truth`` (of times
            ``event`` and ``time``; of several labels or targets ``truth(0)``, ``truth(1)`` and so on),
            ``prediction``; then what models give: ``p(<class>)``; ``score``, the decision function,
            ``score(<class>)`` of several, or numbered ones of pairs; ``mean`` and ``std`` of the target;
            ``latent_mean`` and ``latent_std`` of the latent function, also by class. Empty where a model gives no
            such thing. Cells that failed are not there.

        Raises
        ------
        ValueError
            If `dataset` is not one of the comparison, or a cell keeps no predictions: with the reason.
        """
        self._cells_of(dataset)
        tables = [_table(one) for one in self._out_of_fold(dataset)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def score(self, metric: str | Callable[..., float], dataset: str | None = None) -> pd.DataFrame:
        """Compute a metric on the predictions that are kept, without a fit.

        Parameters
        ----------
        metric : str or callable
            Name of a metric, also one of scikit-learn, or ``scorer(estimator, X, y)`` that asks `estimator` for
            predictions only.
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
        from bayesmkl.evaluation.scoring import metric_of, stored_score

        cells = self._cells_of(dataset)
        try:
            wanted = metric_of(metric)
        except ValueError as error:
            raise ValueError(str(error).replace("`scoring`", "`metric`", 1)) from error
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
        table = cells.assign(value=[values.get(name, np.nan) for name in names])
        wide = table.pivot(index=["dataset", "split"], columns="model", values="value")
        order = [name for name in self.datasets if name in set(cells["dataset"])]
        models = list(dict.fromkeys(cells["model"]))
        return wide.reindex(columns=models).reindex(order, level="dataset").rename_axis(columns=None)

    def curve(self, kind: str = "roc", dataset: str | None = None, positive: Any = None) -> pd.DataFrame:
        """Return a curve of the classifiers: its mean and spread over splits.

        Parameters
        ----------
        kind : {"roc", "precision_recall", "calibration"}, default="roc"
            True over false positives; precision over recall; or frequency over predicted probability, in bins of a
            tenth of the predictions each.
        %(dataset)s
        positive : object, default=None
            Class whose probability or score is meant, against all others; None is the second of two classes. A split
            whose training part has none of it is left out.

        Returns
        -------
        DataFrame
            One row per model and point: ``x``; ``mean``, ``std`` and ``n`` of ``y`` over the splits that have it, and
            ``lower`` and ``upper``, one standard deviation from the mean within 0 and 1. A ROC curve is the mean of
            straight lines between thresholds, precision that of the highest threshold with at least the recall. Of
            calibration ``x`` is the mean probability in the bin, and ``n_samples`` has its samples, over all splits.

        Raises
        ------
        ValueError
            If `kind`, `dataset` or `positive` is not known, no model has what the curve needs, or a cell keeps no
            predictions.
        """
        check_choice("kind", kind, tuple(CURVES))
        chosen = self._one(dataset)
        curves: dict[str, list[Any]] = {}
        cells = list(self._out_of_fold(chosen))
        which = positive_class([one.stored for one in cells], positive)
        for one in cells:
            found = curve_of(kind, one.stored, which)
            if found is not None:
                curves.setdefault(one.model, []).append(found)
        if not curves:
            raise ValueError(f"`kind`: no model on {chosen!r} gives what a curve {kind!r} needs.")
        tables = [mean_curve(kind, found).assign(model=model) for model, found in curves.items()]
        table = pd.concat(tables, ignore_index=True)
        return table[["model", *(name for name in table if name != "model")]]

    def mcnemar(self, dataset: str | None = None) -> pd.DataFrame:
        """Test whether two classifiers err equally often on the same rows: McNemar's exact test.

        It takes samples as they are, and the fits as given: what other training data would change, it does not know;
        :meth:`significance` does. Of rows that are in several test parts, the first counts that has predictions of
        both models.

        Parameters
        ----------
        %(dataset)s

        Returns
        -------
        DataFrame
            One row per pair of models: ``both_right``, ``first_only``, ``second_only``, ``both_wrong`` (counts of
            rows), ``p_value`` (two-sided, by the binomial distribution of the rows on which one is right) and
            ``p_adjusted`` by Holm's procedure.

        Raises
        ------
        ValueError
            If `dataset` is not known, models do not predict classes, or a cell keeps no predictions.

        References
        ----------
        Q. McNemar (1947), Note on the sampling error of the difference between correlated proportions or percentages,
        Psychometrika 12.
        """
        right = self._right(dataset)
        rows = []
        for k, first in enumerate(right.columns):
            for second in right.columns[k + 1 :]:
                a, b = _of_both(right, first, second)
                alone = int((a & ~b).sum()), int((b & ~a).sum())
                p = binomtest(alone[0], sum(alone)).pvalue if sum(alone) else 1.0
                counts = {"both_right": int((a & b).sum()), "first_only": alone[0], "second_only": alone[1]}
                counts["both_wrong"] = len(a) - sum(counts.values())
                rows.append({"first": first, "second": second, **counts, "p_value": p})
        names = ["first", "second", "both_right", "first_only", "second_only", "both_wrong", "p_value"]
        table = pd.DataFrame(rows, columns=names)
        return table.assign(p_adjusted=holm(table["p_value"]) if len(table) else [])

    def error_overlap(self, dataset: str | None = None) -> pd.DataFrame:
        """Return how far classifiers err on the same rows.

        Parameters
        ----------
        %(dataset)s

        Returns
        -------
        DataFrame
            A row and a column per model: the rows on which both err over those on which one of them does, 1 for the
            same errors and 0 for none in common; NaN where neither errs. Rows count as in `mcnemar`: those that both
            models have predicted.

        Raises
        ------
        ValueError
            As `mcnemar`.
        """
        right = self._right(dataset)
        found = pd.DataFrame(np.nan, index=right.columns, columns=right.columns)
        for first in right.columns:
            for second in right.columns:
                a, b = _of_both(right, first, second)
                either = int((~a | ~b).sum())
                found.loc[first, second] = (~a & ~b).sum() / either if either else np.nan
        return found.rename_axis(index=None, columns=None)

    def _metric(self, metric: str | None) -> str:
        if metric is None:
            return self.metrics[0]
        if metric not in self.metrics:
            raise ValueError(f"`metric` must be one of {self.metrics}; got {metric!r}.")
        return metric

    def _right(self, dataset: str | None) -> pd.DataFrame:
        """Return whether predictions are right: a column per model, a row per split and sample that was predicted."""
        chosen = self._one(dataset)
        columns: dict[str, list[pd.Series]] = {}
        for one in self._out_of_fold(chosen):
            if one.stored.task != "classification" or one.stored.y.ndim == 2:
                raise ValueError(f"`dataset`: models on {chosen!r} do not predict one class of a sample.")
            places = pd.MultiIndex.from_product([[one.split], one.stored.rows], names=["split", "row"])
            found = pd.Series(one.stored.labels() == one.stored.y, index=places, dtype=float)
            columns.setdefault(one.model, []).append(found[~places.duplicated()])
        return pd.DataFrame({model: pd.concat(parts) for model, parts in columns.items()})

    def _one(self, dataset: str | None) -> str:
        if dataset is None and len(self.datasets) > 1:
            raise ValueError(f"`dataset` must be one of {self.datasets}; got None, and there are several.")
        self._cells_of(dataset)
        return self.datasets[0] if dataset is None else dataset

    def _out_of_fold(self, dataset: str | None) -> Iterator[OutOfFold]:
        """Go through the predictions of cells that did not fail, in the order of the table."""
        from bayesmkl.evaluation.stored import StoredPredictions

        cells = self._cells_of(dataset)
        cells = cells[cells["error"] == ""]
        keys = {tuple(name): key for *name, key in self.about.get("keys", ())}
        for name in zip(cells["dataset"], cells["model"], cells["split"].tolist(), strict=True):
            try:
                yield OutOfFold(*name, StoredPredictions(self._kept(keys.get(name))))
            except NotKeptError as error:
                raise ValueError(
                    f"`predictions`: those of {name[1]!r} on {name[0]!r}, split {name[2]}, are not kept: {error}. "
                    "Compare again, in another folder or without one."
                ) from error

    def _kept(self, key: str | None) -> Kept:
        """Return the predictions of a cell; raise NotKeptError."""
        if self._store is None or key is None:
            raise NotKeptError("a table alone has none")
        return self._store.kept(key)


def _of_both(right: pd.DataFrame, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """Return whether two models are right on the rows that both predict, each row in the first split of these."""
    there = right[right[first].notna() & right[second].notna()]
    there = there[~there.index.get_level_values("row").duplicated()]
    return there[first].to_numpy(dtype=bool), there[second].to_numpy(dtype=bool)


def _table(one: OutOfFold) -> pd.DataFrame:
    """Return the predictions of a cell as columns."""
    stored, arrays = one.stored, one.stored.arrays
    columns: dict[str, Any] = {
        "dataset": one.dataset,
        "model": one.model,
        "split": one.split,
        "row": stored.rows,
    }
    if stored.y.ndim == 2:
        columns |= {f"truth({k})": own for k, own in enumerate(stored.y.T)}
    elif stored.y.dtype.names is None:
        columns["truth"] = stored.y
    else:
        columns |= dict(
            zip(("event", "time"), (stored.y[name] for name in stored.y.dtype.names), strict=True)
        )
    predicted = stored.labels()
    if predicted.ndim == 2:
        columns |= {f"prediction({k})": own for k, own in enumerate(predicted.T)}
    else:
        columns["prediction"] = predicted
    classes = [] if predicted.ndim == 2 else [str(label) for label in arrays.get("classes", ())]
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


COLUMNS = {
    "predict_proba": "p",
    "decision_function": "score",
    "moments_mean": "mean",
    "moments_std": "std",
    "latent_mean": "latent_mean",
    "latent_std": "latent_std",
}  # of a table of predictions, by what a cell keeps
