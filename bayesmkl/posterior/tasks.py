"""Tasks of a design, as a table: how they are related, and which views matter in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_flag, check_probability
from bayesmkl.gp.design import FittedDesign
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.shared_docs import MODEL
from bayesmkl.posterior.summary import table_of_draws


@fill_docs(MODEL)
@own_settings
def task_table(model: BaseEstimator, ci_prob: float = 0.94, *, shares: bool = False) -> pd.DataFrame:
    r"""List how the tasks of an additive Gaussian process are related, or which views matter in each.

    Parameters
    ----------
    model : estimator
        A fitted estimator of `bayesmkl.gp` whose `design` has a `task_column`, or a Pipeline or search that
        ends in one.
    %(ci_prob)s
    shares : bool, default=False
        List every task with the shares of its views, instead of pairs of tasks with their correlations.

    Returns
    -------
    pandas.DataFrame
        One row per pair of tasks with the columns

        * ``task``, ``other``: the pair, in the order of their names;
        * ``mean``, ``std``, ``lower``, ``upper``: posterior mean, standard deviation and ends of the equal-tailed
          interval of the correlation of their functions: 1 if both have the same function, 0 if one says nothing of
          the other but which kernels matter;
        * ``prob_positive``: posterior probability that it is positive;
        * ``mean_mcse``, ``lower_mcse``, ``upper_mcse``: Monte Carlo standard errors, as in :func:`kernel_table`;
        * ``interval_by``: the inference that made the intervals.

        With `shares` one row per task and view, ``task`` and ``view``, with ``n_samples``, the number of training
        samples of the task; ``mean`` and so on are those of the view's share of the score among these samples, and
        there is no ``prob_positive``. Precomputed kernels take the place of views.

    Raises
    ------
    TypeError
        For any other model.
    NotFittedError
        Before `fit`.
    ValueError
        If the model has no tasks; if `ci_prob` is not strictly between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.gp import Design
    >>> from bayesmkl.posterior import task_table
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 2, size=60)])
    >>> y = np.where(X[:, 2] == 0, 1.0, -3.0) * np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    >>> bank = KernelBank(["rbf"], views="each")
    >>> model = GPMKLRegressor(bank, design=Design(task_column=2), random_state=0).fit(X, y)
    >>> pairs = task_table(model)
    >>> pairs[["task", "other"]].to_numpy().tolist(), bool(pairs["mean"][0] < -0.8)
    ([['0', '1']], True)
    >>> views = task_table(model, shares=True)
    >>> views["view"].tolist(), (views["mean"] > 0.5).tolist()
    (['x0', 'x1', 'x0', 'x1'], [True, False, True, False])
    """
    ci_prob = check_probability("ci_prob", ci_prob)
    fitted = fitted_bemkl(model)
    if not fitted.is_marginal:
        raise TypeError(
            f"`model` must be an estimator of bayesmkl.gp; got {type(fitted.estimator).__name__}, which has no "
            "`design`. Tables of the multitask estimators have a column of tasks."
        )
    design: FittedDesign | None = fitted.estimator.design_
    if design is None or not design.has_tasks:
        raise ValueError(
            f"`model` must have tasks in its `design`; got {fitted.estimator.design!r}. Name the column of `X` that "
            "says the task of a sample in a Design(task_column=...)."
        )
    by_share = check_flag("shares", shares)
    rows, values = (_shares if by_share else _correlations)(fitted, design)
    return table_of_draws(fitted, rows, values, ci_prob, None if by_share else np.ones(len(rows), dtype=bool))


def _correlations(fitted: FittedBEMKL, design: FittedDesign) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return pairs of tasks, and draws of their correlations, (n_draws, n_pairs)."""
    draws: HyperDraws = fitted.states[0]
    n_tasks = len(design.tasks)
    later, earlier = np.tril_indices(n_tasks, -1)
    order = np.lexsort([later, earlier])
    rows = [{"task": design.tasks[earlier[k]], "other": design.tasks[later[k]]} for k in order]
    return rows, draws.task_values[draws.point][:, n_tasks:][:, order]


def _shares(fitted: FittedBEMKL, design: FittedDesign) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Return tasks and views, and draws of their shares, (n_draws, n_tasks * n_views)."""
    draws: HyperDraws = fitted.states[0]
    of_kernels = fitted.kernel_views if fitted.kernel_views is not None else fitted.kernel_names
    views = list(dict.fromkeys(of_kernels))
    member = np.array([[name == view for view in views] for name in of_kernels], dtype=float)
    counts = np.bincount(design.task(fitted.estimator.kernel_bank_.X_train_))  # type: ignore[arg-type]
    rows = [
        {"task": task, "view": view, "n_samples": int(count)}
        for task, count in zip(design.tasks, counts, strict=True)
        for view in views
    ]
    return rows, (draws.task_shares @ member).reshape(draws.n_draws, -1)
