"""Do views act together? Fits with products of kernels of two views beside the kernels of a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_flag, shown
from bayesmkl.kernels.stacks.dense import stored_array
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.refits import ProcessRefits, by_falling_difference, is_clear, warn_of_open
from bayesmkl.posterior.shared_docs import MODEL

ANY = "any two"  # name of the row of all pairs together
MOST_PAIRS = 10  # that are asked about one by one where nobody says so


@fill_docs(MODEL)
@own_settings
def interaction_table(
    model: BaseEstimator,
    pairs: str | Sequence[Sequence[str]] | None = None,
    *,
    verbose: bool = False,
) -> pd.DataFrame:
    r"""Say whether views act together, in ways that a sum of functions of single views cannot follow.

    An additive model of a product, one view saying which way another points, finds that neither matters. The model
    is fitted again with one kernel more, the product of kernels of two views, and compared on left-out samples.

    Parameters
    ----------
    model : GPMKLClassifier, GPMKLRegressor, GPMKLOrdinalClassifier or GPMKLSurvival
        Fitted, with at least two views (or kernels, where they were precomputed) that all samples have; or a Pipeline
        or search that ends in one.
    pairs : sequence of pairs of names, "all" or None, default=None
        Views to ask about, two at a time. None: all pairs where there are at most 10, else only the first row.
    verbose : bool, default=False
        Show a progress bar on a terminal for refits of over two seconds.

    Returns
    -------
    pandas.DataFrame
        A row for all pairs together, "any two", if there are more than two views; then one per pair, by falling
        ``elpd_diff``. Columns:

        * ``views``: such as "genes × clinic";
        * ``elpd_diff``, ``se``: how much more the log density of all left-out samples is with the product than
          without it, in nats, and the standard error of that difference over samples;
        * ``log_evidence_diff``: the same of the log evidence, which is the log Bayes factor; Markov chains and models
          of more than two classes have no evidence, and no such column;
        * ``pareto_k``: :math:`\hat k` of the refit: above 0.7 do not rely on the row; NaN of Markov chains;
        * ``verdict``: "interaction" where the difference is above two standard errors, else "not shown".

    Raises
    ------
    TypeError
        For any other model, and `pairs` that are no list.
    NotFittedError
        Before `fit`.
    ValueError
        For a single view, views that samples lack, or `pairs` that are none or come twice.

    Warns
    -----
    ConvergenceWarning
        Once, if some of the refits did not converge.

    See Also
    --------
    relevance : Which views the model needs, by refits without them.

    Notes
    -----
    With :math:`\bar K_v` the mean of the kernels of a view, each centered and of unit trace per sample, the kernel of
    a pair is the product of their entries, :math:`(\bar K_u)_{ij} (\bar K_v)_{ij}`: that of the interaction in an
    analysis of variance of functions [1]_. Since both factors are centered, it has no part in functions of one view,
    up to what views have in common. All pairs together have the sum of these kernels, so that many views are one
    refit. A refit takes as long as the fit.

    To follow an interaction, give the model a view of the columns of both, or a
    :class:`~bayesmkl.kernels.Gate` where one of them says when the other matters.

    References
    ----------
    .. [1] N. Durrande, D. Ginsbourger, O. Roustant and L. Carraro (2013), ANOVA kernels and RKHS of zero mean
       functions for model-based sensitivity analysis, Journal of Multivariate Analysis 115.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import interaction_table
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> bank = KernelBank("auto", views={"left": 0, "right": 1, "other": 2})
    >>> table = interaction_table(GPMKLRegressor(bank).fit(X, X[:, 0] * X[:, 1]))
    >>> print(table[["views", "verdict"]].to_string(index=False))
             views     verdict
           any two interaction
      left × right interaction
    right × other    not shown
     left × other    not shown
    """
    fitted = fitted_bemkl(model, of_outcome=True)
    check_flag("verbose", verbose)
    views = _views(fitted)
    fitted.refuse_landmarks("refits with products of kernels")
    chosen = _pairs(pairs, list(views))
    refits, needed = ProcessRefits(fitted), chosen or itertools.combinations(views, 2)
    kernels = stored_array(refits.stack)
    together = {(u, v): product_of(kernels[views[u]], kernels[views[v]]) for u, v in needed}
    asked: list[tuple[str, np.ndarray]] = []
    if len(together) > 1:
        asked.append((ANY, sum(together.values()) / len(together)))  # type: ignore[arg-type]
    asked += [(f"{u} × {v}", together[u, v]) for u, v in chosen]
    rows, found, own = [], [], refits.own
    with step_progress(verbose, "refits", len(asked), "refit") as report:
        for number, (name, kernel) in enumerate(asked):
            found.append(refits.with_kernel(kernel))
            difference = found[-1].ahead_of(own)
            verdict = "interaction" if is_clear(difference) else "not shown"
            rows.append({"views": name, **difference, "pareto_k": found[-1].pareto_k, "verdict": verdict})
            if report is not None:
                report(number + 1, "")
    warn_of_open(found, "draws")
    return by_falling_difference(pd.DataFrame(rows), len(asked) - len(chosen))


def product_of(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the kernel of the interaction of two views, (n_samples, n_samples).

    Parameters
    ----------
    left, right : ndarray of shape (n_kernels_of_view, n_samples, n_samples)
        Training kernels of the views.

    Examples
    --------
    >>> left, right = np.array([[[2.0, 0.0], [0.0, 2.0]]]), np.array([[[1.0, -1.0], [-1.0, 1.0]]])
    >>> product_of(left, right)
    array([[1., 1.],
           [1., 1.]])
    """
    return _mean_centered(left) * _mean_centered(right)


def _mean_centered(kernels: np.ndarray) -> np.ndarray:
    """Return the mean of kernels, each centered and with a mean diagonal of one; constant ones have no part."""
    total = np.zeros(kernels.shape[1:])
    for kernel in kernels:
        of_rows = kernel.mean(axis=0)
        centered = kernel - of_rows - of_rows[:, None] + of_rows.mean()
        mean = np.trace(centered) / len(kernel)
        if mean > 1e-10 * np.trace(kernel) / len(kernel):
            total += centered / mean
    return total / len(kernels)


def _views(fitted: FittedBEMKL) -> dict[str, list[int]]:
    """Return the positions of the kernels of every view; raise where a model has no pair of them."""
    if not fitted.is_marginal:
        raise TypeError(
            f"`model` must be an estimator of bayesmkl.gp; got {type(fitted.estimator).__name__}. Fit "
            "GPMKLClassifier or GPMKLRegressor to the same bank."
        )
    if fitted.estimator.kernel_centers_ is not None:
        raise ValueError(
            "`model` integrates over missing views, whose products are not known. Fit it to the samples that have "
            "all views."
        )
    views: dict[str, list[int]] = {}
    for position, view in enumerate(fitted.kernel_groups(None)):
        views.setdefault(view, []).append(position)
    if len(views) < 2:
        raise ValueError(
            f"`model` must have at least two views; got {shown(list(views))}. Name them, KernelBank(views={{...}})."
        )
    return views


def _pairs(pairs: Any, views: list[str]) -> list[tuple[str, str]]:
    """Return the pairs that get rows of their own; none where they are many and nobody chose."""
    every = list(itertools.combinations(views, 2))
    if pairs is None:
        return every if len(every) <= MOST_PAIRS else []
    if isinstance(pairs, str):
        if pairs != "all":
            raise ValueError(f'`pairs` must be "all", None or a list of pairs of views; got {pairs!r}.')
        return every
    if not isinstance(pairs, Iterable):
        raise TypeError(f'`pairs` must be "all", None or a list of pairs of views; got {pairs!r}.')
    chosen: list[tuple[str, str]] = []
    for pair in pairs:
        names = list(pair) if isinstance(pair, (list, tuple)) else []
        if len(names) != 2 or names[0] == names[1] or any(name not in views for name in names):
            raise ValueError(
                f"`pairs` must hold pairs of two different views among {shown(views)}; got {shown(pair)}."
            )
        if (names[0], names[1]) in chosen or (names[1], names[0]) in chosen:
            raise ValueError(f"`pairs` must hold each pair once; got {shown(pair)} again.")
        chosen.append((names[0], names[1]))
    if not chosen:
        raise ValueError('`pairs` must hold at least one pair; got none. Use None or "all".')
    return chosen
