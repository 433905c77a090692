"""Is there any signal, and which views does it need? Refits without views, compared by leave-one-out densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_choice, check_flag
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.shared_docs import MODEL

__all__ = ["relevance"]

CLEAR = 2.0  # standard errors beyond which a difference is called one
ALL = "all"  # name of the row of all views together
VERDICTS = {True: ("signal", "no signal"), False: ("needed", "not shown")}


@fill_docs(MODEL)
@own_settings
def relevance(model: BaseEstimator, by: str | None = None, *, verbose: bool = False) -> pd.DataFrame:
    r"""Say whether an additive Gaussian process predicts anything, and which views or kernels that needs.

    The model is fitted again without any kernel, and without those of each view in turn. Predictions of left-out
    samples say what the kernels add.

    Parameters
    ----------
    model : estimator
        A fitted GPMKLClassifier or GPMKLRegressor, or a Pipeline or search that ends in one.
    by : {"view", "kernel", "all"}, default=None
        What is left out at a time; None is views, and kernels where they were precomputed and have none. "all" asks
        the first question alone, by one refit.
    verbose : bool, default=False
        Show a progress bar on a terminal for refits of over two seconds.

    Returns
    -------
    pandas.DataFrame
        One row for all kernels together, against none, then one per view or kernel, by falling ``elpd_diff``, with
        the columns

        * ``without``: what was left out; "all" in the first row;
        * ``share``: posterior mean share of the score; 1 of all;
        * ``elpd_diff``, ``se``: how much more the leave-one-out log density of all samples is with it than without
          it, in nats, and the standard error of that difference over samples;
        * ``log_evidence_diff``: the same of the log evidence of the model, which is the log Bayes factor;
        * ``pareto_k``: :math:`\hat k` of the fit without it, as `pareto_k_` of the model: above 0.7 do not rely on
          the row;
        * ``verdict``: of all "signal" where the difference is above two standard errors, else "no signal"; of a view
          "needed" or "not shown". A view is not needed where others say the same.

    Raises
    ------
    TypeError
        For anything else than an additive Gaussian process.
    NotFittedError
        Before `fit`.
    ValueError
        If `by` asks for views that precomputed kernels do not have.

    Notes
    -----
    Every row is a fit of its own, with the seed and the options of the model. Standard errors of small differences
    are too small where there are few samples (Sivula et al. 2020): below about 100 read "signal" with care.

    References
    ----------
    A. Vehtari, A. Gelman and J. Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27.

    T. Sivula, M. Magnusson, A. A. Matamoros and A. Vehtari (2020), Uncertainty in Bayesian leave-one-out
    cross-validation based model comparison, arXiv 2008.10296.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import relevance
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1})
    >>> table = relevance(GPMKLRegressor(bank).fit(X, np.sin(2 * X[:, 0])))
    >>> print(table[["without", "verdict"]].to_string(index=False))
    without   verdict
        all    signal
     signal    needed
      noise not shown
    """
    fitted = fitted_bemkl(model)
    if not fitted.is_marginal:
        raise TypeError(
            f"`model` must be a GPMKLClassifier or a GPMKLRegressor; got {type(fitted.estimator).__name__}. Fit one "
            "of them with the same kernels."
        )
    check_flag("verbose", verbose)
    groups = _groups(fitted, by)
    estimator, stack = fitted.estimator, fitted.estimator._training_dense()
    own, shares = estimator.elpd_i_, estimator.kernel_shares_
    names, members = np.unique(groups, return_inverse=True)
    names = names[: 0 if by == "all" else None]
    rows = []
    with step_progress(verbose, "refits", len(names) + 1, "refit") as report:
        for number, name in enumerate([ALL, *names]):
            left = np.zeros(len(groups), dtype=bool) if name == ALL else members != number - 1
            elpd_i, log_evidence, pareto_k = estimator._refit(_without(stack, left))
            difference = own - elpd_i
            diff, error = float(difference.sum()), float(np.sqrt(len(difference)) * difference.std())
            rows.append(
                {
                    "without": name,
                    "share": float(shares[~left].sum()),
                    "elpd_diff": diff,
                    "se": error,
                    "log_evidence_diff": estimator.log_evidence_ - log_evidence,
                    "pareto_k": pareto_k,
                    "verdict": VERDICTS[name == ALL][0 if diff > CLEAR * error else 1],
                }
            )
            if report is not None:
                report(number + 1, "")
    table = pd.DataFrame(rows)
    order = 1 + np.argsort(-table["elpd_diff"][1:].to_numpy(), kind="stable")
    return table.iloc[np.concatenate([[0], order])].reset_index(drop=True)


def _groups(fitted: FittedBEMKL, by: str | None) -> list[str]:
    """Return for every kernel the name of what it is left out with."""
    if by is not None:
        check_choice("by", by, ("view", "kernel", "all"))
    if by == "view" and fitted.kernel_views is None:
        raise ValueError(
            '`by` "view" needs the views of a KernelBank; `model` was fitted to precomputed kernels. Use by="kernel".'
        )
    return fitted.kernel_names if by == "kernel" or fitted.kernel_views is None else fitted.kernel_views


def _without(stack: DenseStack, left: np.ndarray) -> Any:
    """Return the kernels that are left; a constant one, which says nothing, where there are none."""
    if not left.any():
        return DenseStack(np.ones((1, stack.n_rows, stack.n_train)))
    return stack.select(np.flatnonzero(left))
