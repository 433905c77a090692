"""Is there any signal, and which views does it need? Refits without views, compared on left-out samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.progress import step_progress
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_choice, check_flag, check_integer, generator_of
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.refits import (
    Accuracy,
    Refits,
    by_falling_difference,
    is_clear,
    refits_of,
    warn_of_open,
)
from bayesmkl.posterior.shared_docs import MODEL

ALL = "all"  # name of the row of all views together
VERDICTS = {True: ("signal", "no signal"), False: ("needed", "not shown")}


@fill_docs(MODEL)
@own_settings
def relevance(
    model: BaseEstimator,
    by: str | None = None,
    *,
    kernels: ArrayLike | None = None,
    permutations: int = 0,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
) -> pd.DataFrame:
    r"""Say whether a model predicts anything, and which views or kernels that needs.

    The model is fitted again without any kernel, and without those of each view in turn. Predictions of left-out
    samples say what the kernels add. Training targets and kernels are those that the model keeps, or evaluates anew.

    Parameters
    ----------
    %(model)s
    by : {"view", "kernel", "all"}, default=None
        What is left out at a time; None is views, and kernels where they were precomputed and have none. "all" asks
        the first question alone.
    %(kernels:kept)s
    permutations : int, default=0
        Refits to permuted targets: how often do these look as well predicted?
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the permutations. Refits have the seed of the model.
    verbose : bool, default=False
        Show a progress bar on a terminal for refits of over two seconds.

    Returns
    -------
    pandas.DataFrame
        One row for all kernels together, against none, then one per view or kernel, by falling ``elpd_diff``, with
        the columns

        * ``without``: what was left out; "all" in the first row;
        * ``share``: posterior mean share of the score, averaged over models of single classes; 1 of all;
        * ``elpd_diff``, ``se``: how much more the log density of all left-out samples is with it than without it, in
          nats, and the standard error of that difference over samples;
        * ``log_evidence_diff``: the same of the log evidence of the model, which is the log Bayes factor. "nuts",
          "gibbs" and models of more than two classes have no evidence, and no such column. Of "vb" it is
          ``elbo_diff``, of the lower bounds: these are loose by more the more kernels there are, and say nothing of
          signal;
        * ``pareto_k``: :math:`\hat k` of the fit without it, as `pareto_k_` of the model: above 0.7 do not rely on
          the row; NaN of fits without importance weights;
        * ``p_value``, with `permutations`, of all: (1 + permuted targets whose ``elpd_diff`` is as large) /
          (1 + permutations);
        * ``verdict``: of all "signal" where the difference is above two standard errors, else "no signal"; of a view
          "needed" or "not shown". A view is not needed where others say the same.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `by` asks for views that precomputed kernels do not have, precomputed kernels are missing, or a BEMKL
        model has unlabeled samples or missing views.

    Warns
    -----
    ConvergenceWarning
        Once, if some of the refits did not converge.

    See Also
    --------
    interaction_table : Do views act together? Where only their product tells, this table says "no signal".

    Notes
    -----
    Every row is a fit of its own, with the seed and the options of the model and, in classification, with its
    `intermediate_scale_`. Of additive Gaussian processes samples are left out by cavities, exactly
    given hyperparameters; of "nuts" and "gibbs" likewise, at 200 draws, which takes as many factorizations. Each row
    of them takes as long as a fit. Variational posteriors cannot be reweighted to fewer samples: with "vb"
    the model of each row is fitted to ten folds.

    Without kernels BEMKL is a model of its intercepts, which are integrated over exactly.

    Of every permutation the model is fitted once, or ten times in folds. The p-value asks the same as the verdict
    without standard errors; these are too small where there are few samples (Sivula et al. 2020): below about 100
    read "signal" with care, or permute.

    References
    ----------
    A. Vehtari, A. Gelman and J. Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27.

    A. Vehtari, T. Mononen, V. Tolvanen, T. Sivula and O. Winther (2016), Bayesian leave-one-out cross-validation
    approximations for Gaussian latent variable models, Journal of Machine Learning Research 17.

    T. Sivula, M. Magnusson, A. A. Matamoros and A. Vehtari (2020), Uncertainty in Bayesian leave-one-out
    cross-validation based model comparison, arXiv 2008.10296.

    M. Ojala and G. C. Garriga (2010), Permutation tests for studying classifier performance, Journal of Machine
    Learning Research 11.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLRegressor, GPMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import relevance
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1})
    >>> table = relevance(GPMKLRegressor(bank).fit(X, np.sin(2 * X[:, 0])))
    >>> print(table[["without", "verdict"]].to_string(index=False))
    without   verdict
        all    signal
     signal    needed
      noise not shown
    >>> table = relevance(BEMKLRegressor(bank).fit(X, X[:, 0]), by="all", permutations=9, random_state=0)
    >>> table["verdict"][0], table["p_value"][0]
    ('signal', np.float64(0.1))
    """
    fitted = fitted_bemkl(model, of_outcome=False)
    check_flag("verbose", verbose)
    n_permutations = check_integer("permutations", permutations, low=0)
    rng = generator_of("random_state", random_state)
    if by is not None:
        check_choice("by", by, ("view", "kernel", "all"))
    groups = fitted.kernel_groups(by)
    names, members = np.unique(groups, return_inverse=True)
    names = names[: 0 if by == "all" else None]
    refits, rows = refits_of(fitted, kernels), []
    shares = np.mean(np.atleast_2d(fitted.estimator.kernel_shares_), axis=0)
    with step_progress(verbose, "refits", len(names) + 1 + n_permutations, "refit") as report:
        own, found = refits.own, []
        for number, name in enumerate([ALL, *names]):
            kept = np.zeros(len(groups), dtype=bool) if name == ALL else members != number - 1
            found.append(refits.fit(kept) if kept.any() else refits.without_kernels())
            rows.append(_row(name, float(shares[~kept].sum()), own, found[-1]))
            if report is not None:
                report(number + 1, "")
        if n_permutations:
            permuted = []
            for number in range(n_permutations):
                permuted.append(_permuted(refits, len(groups), rng.permutation(fitted.n_samples), found[0]))
                if report is not None:
                    report(len(names) + 2 + number, "")
            as_large = int(np.sum(np.array(permuted) >= rows[0]["elpd_diff"]))
            rows[0]["p_value"] = (1 + as_large) / (1 + n_permutations)
    table = _table(rows, fitted.inference == "vb")
    warn_of_open(found, "iterations or draws")
    return table


def _row(name: str, share: float, own: Accuracy, without: Accuracy) -> dict[str, Any]:
    """Compare the model with one that lacks something."""
    difference = own.ahead_of(without)
    return {
        "without": name,
        "share": share,
        **difference,
        "pareto_k": without.pareto_k,
        "p_value": np.nan,
        "verdict": VERDICTS[name == ALL][0 if is_clear(difference) else 1],
    }


def _permuted(refits: Refits, n_kernels: int, order: np.ndarray, nothing: Accuracy) -> float:
    """Return the difference of all kernels and none where targets are permuted."""
    found = refits.fit(np.ones(n_kernels, dtype=bool), order)
    if refits.forgets_order:
        return float(found.elpd_i.sum() - nothing.elpd_i.sum())
    return float(found.elpd_i.sum() - refits.without_kernels(order).elpd_i.sum())


def _table(rows: list[dict[str, Any]], of_bounds: bool) -> pd.DataFrame:
    """Sort the rows after the first, and name what there is."""
    table = pd.DataFrame(rows)
    if np.isnan(table["p_value"][0]):
        del table["p_value"]
    if of_bounds:
        table = table.rename(columns={"log_evidence_diff": "elbo_diff"})
    return by_falling_difference(table, 1)
