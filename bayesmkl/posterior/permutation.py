"""Importance of views and features by permutation, and given what other views say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.base import BaseMKL
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, generator_of
from bayesmkl.gp.unknown_points import CompletedKernels, find_centers
from bayesmkl.kernels.presence import stack_with_absent
from bayesmkl.kernels.views import column_names
from bayesmkl.posterior.fitted import unwrapped


@own_settings
def permutation_table(
    model: BaseEstimator,
    X: Samples,
    y: Targets,
    by: str = "view",
    *,
    conditional: bool = False,
    scoring: str | Callable[..., float] | None = None,
    n_repeats: int = 10,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = True,
) -> pd.DataFrame:
    """Say how much worse a model predicts where a view or a feature is permuted among samples.

    Parameters
    ----------
    model : estimator
        Any estimator of this package that was fitted to a KernelBank; or a Pipeline or search that ends in one.
    X : samples
        As `predict` of the model takes them, held out of the fit.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Their targets.
    by : {"view", "feature"}, default="view"
        What is permuted at a time: all columns of a view together, or single columns that kernels see.
    conditional : bool, default=False
        Instead of a permutation, draw each sample's view from those of the training samples, with the probabilities
        that its other views give them. What these tell as well is no loss then: see Notes.
    scoring : str or callable, default=None
        As in :func:`sklearn.metrics.check_scoring`, such as "neg_log_loss"; higher is better. None is `score` of the
        model.
    n_repeats : int, default=10
        Permutations of each.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the permutations.
    verbose : bool, default=True
        Show a progress bar on a terminal where it takes over five seconds.

    Returns
    -------
    pandas.DataFrame
        One row per view or feature, by falling ``importance``, with the columns

        * ``view`` or ``feature``: name;
        * ``importance``: how much the score falls, on average over repeats;
        * ``std``: standard deviation of this over repeats, which says nothing of the choice of samples.

        The attribute ``score`` is that of the samples as they are.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model was fitted to precomputed kernels; if `conditional` is asked of features, of a single view, or of
        kernels with landmarks; if `X`, `y` and `scoring` do not fit to the model.

    See Also
    --------
    relevance : What a model that is fitted without a view predicts worse.
    sklearn.inspection.permutation_importance : The same of the columns of `X`, before the steps of a Pipeline.

    Notes
    -----
    This is about a fitted model, not about the data: of two views that say the same, both, one or none may be
    important to a model, and none is needed (:func:`relevance`). Permuted samples combine views as no sample does,
    and the score there is extrapolated (Hooker et al. 2021). With ``conditional=True`` they are combinations that
    may occur: a view is important then as far as it says more than the others. The probabilities are those by which
    :class:`~bayesmkl.gp.GPMKLClassifier` predicts samples that lack a view; of few samples they do not know all
    that views tell of each other, and some of it remains.

    References
    ----------
    L. Breiman (2001), Random forests, Machine Learning 45, 5-32.

    C. Strobl, A.-L. Boulesteix, T. Kneib, T. Augustin and A. Zeileis (2008), Conditional variable importance for
    random forests, BMC Bioinformatics 9, 307.

    G. Hooker, L. Mentch and S. Zhou (2021), Unrestricted permutation forces extrapolation: variable importance
    requires at least one more model, or there is no free variable importance, Statistics and Computing 31, 82.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import permutation_table
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = GPMKLRegressor(KernelBank(["rbf"], views={"signal": 0, "noise": 1})).fit(X[:40], y[:40])
    >>> table = permutation_table(model, X[40:], y[40:], random_state=0)
    >>> table["view"].tolist(), bool(table["importance"][0] > 1.0)
    (['signal', 'noise'], True)
    """
    check_choice("by", by, ("view", "feature"))
    conditional, verbose = check_flag("conditional", conditional), check_flag("verbose", verbose)
    n_repeats = check_integer("n_repeats", n_repeats, low=1)
    rng = generator_of("random_state", random_state)
    estimator, steps = _with_bank(model)
    bank = estimator.kernel_bank_
    for step in steps:
        X = step.transform(X)
    rows = estimator._validate_rows(X)
    scorer, y = check_scoring(estimator, scoring), np.asarray(y)
    names, columns = _columns(bank, by)
    found = np.empty((len(names), n_repeats))
    probabilities = _probabilities(bank, rows, by) if conditional else None
    score = scorer(estimator, X, y)
    with step_progress(verbose, "permutations", found.size, "prediction") as report:
        for k, own in enumerate(columns):
            chances = None if probabilities is None else probabilities[k]
            for r, drawn in enumerate(_drawn(rows, own, bank.X_train_, chances, n_repeats, rng)):
                found[k, r] = scorer(estimator, _with_columns(X, own, drawn), y)
                if report is not None:
                    report(k * n_repeats + r + 1, names[k])
    fall = score - found
    table = pd.DataFrame({by: names, "importance": fall.mean(axis=1), "std": fall.std(axis=1)})
    table = table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)
    table.attrs.update(score=float(score))
    return table


def _with_bank(model: BaseEstimator) -> tuple[Any, list[Any]]:
    """Return an estimator that was fitted to a bank, and the steps before it."""
    found = unwrapped(model, (BaseMKL,))
    if found is None:
        raise TypeError(
            f"`model` must be an estimator of bayesmkl, or a Pipeline or search that ends in one; got "
            f"{type(model).__name__}. Of other estimators sklearn.inspection.permutation_importance says the same."
        )
    estimator, steps = found
    check_is_fitted(estimator, "kernel_names_")
    if estimator.kernel_bank_ is None:
        raise ValueError(
            "`model` was fitted to precomputed kernels, which have no columns to permute. Fit it to a KernelBank."
        )
    return estimator, steps


def _columns(bank: Any, by: str) -> tuple[list[str], list[np.ndarray]]:
    """Return names of views or features, and their positions."""
    if by == "view":
        return [view.name for view in bank.views_], [np.asarray(view.columns) for view in bank.views_]
    seen = np.unique(np.concatenate([view.columns for view in bank.views_]))
    names = column_names(bank.n_features_in_, bank.column_labels_)
    return [names[j] for j in seen], [np.array([j]) for j in seen]


def _probabilities(bank: Any, rows: np.ndarray, by: str) -> np.ndarray:
    """Return probabilities that views of rows are those of training samples, (n_views, n_rows, n_train)."""
    if by != "view" or len(bank.views_) < 2:
        what = f"by={by!r}" if by != "view" else f"the single view {bank.views_[0].name!r}"
        raise ValueError(
            f"`conditional` must be False where there are no other views to condition on; got {what}. Give the bank "
            "several views, KernelBank(views=...)."
        )
    if bank.landmarks_ is not None:
        raise ValueError(
            "`conditional` must be False with landmarks, which have no samples' views. Fit without."
        )
    views = bank.view_positions_
    training = stack_with_absent(bank.train_stack(), bank.kernel_names_)
    centers = find_centers(training)
    completed = CompletedKernels(centers.rows(training), centers.spread, views)
    kernels, diagonal = bank.rows_and_diagonal(rows)
    stack = stack_with_absent(kernels, bank.kernel_names_, bank.present_[views])
    return completed.probabilities(completed.images(centers.rows(stack), centers.diagonal(stack, diagonal)))


def _drawn(
    rows: np.ndarray,
    columns: np.ndarray,
    train: np.ndarray,
    chances: np.ndarray | None,
    n_repeats: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Yield other values of columns, (n_rows, n_columns)."""
    own = rows[:, columns]
    for _ in range(n_repeats):
        if chances is None:
            yield own[rng.permutation(len(rows))]
            continue
        below = np.cumsum(chances, axis=1) < rng.random((len(rows), 1))
        drawn = train[np.minimum(below.sum(axis=1), len(train) - 1)][:, columns]
        yield np.where(np.isnan(own), own, drawn)  # an absent view stays absent


def _with_columns(X: Samples, columns: np.ndarray, values: np.ndarray) -> Samples:
    """Return samples with other values in some columns."""
    if isinstance(X, pd.DataFrame):
        frame = X.copy()
        for j, column in zip(columns, values.T, strict=True):
            frame.isetitem(int(j), column)
        return frame
    changed = np.array(X, dtype=np.float64)
    changed[:, columns] = values
    return changed
