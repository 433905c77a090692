"""Do views predict the outcome? Log Bayes factors of a fitted model, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.relevance import ProcessRefits, why_no_refits

ALL_VIEWS = "all views"
CLEAR_FROM = 3.0  # log Bayes factor from which on a verdict is "clear"
WEAK_FROM = 1.0  # and "weak"
AGAINST_BELOW = -1.0  # below it there is evidence against the view
CLEAR, WEAK, NO_EVIDENCE, AGAINST, UNKNOWN = "clear", "weak", "no evidence", "evidence against", "not shown"


class Verdict(NamedTuple):
    """What a fit says about a view.

    Attributes
    ----------
    log_bayes_factor : float
        Log evidence of the model minus that of the model without the view, in nats; NaN where it is not known.
    word : {"clear", "weak", "no evidence", "evidence against", "not shown"}
        "not shown" where the log Bayes factor is not known.
    """

    log_bayes_factor: float
    word: str

    @property
    def predicts(self) -> bool:
        """Whether there is evidence, clear or weak, for the view."""
        return self.word in (CLEAR, WEAK)


def word_of(log_bayes_factor: float) -> str:
    """Return the word for a log Bayes factor.

    Above 3 the evidence is "clear" (odds of 20 to 1), from 1 to 3 "weak", from -1 to 1 there is "no evidence" either
    way, and below -1 "evidence against". NaN is "not shown".

    Examples
    --------
    >>> [word_of(value) for value in (4.0, 2.0, 0.0, -2.0, float("nan"))]
    ['clear', 'weak', 'no evidence', 'evidence against', 'not shown']
    """
    if np.isnan(log_bayes_factor):
        return UNKNOWN
    if log_bayes_factor > WEAK_FROM:
        return CLEAR if log_bayes_factor > CLEAR_FROM else WEAK
    return NO_EVIDENCE if log_bayes_factor >= AGAINST_BELOW else AGAINST


def verdicts(model: BaseEstimator) -> dict[str, Verdict]:
    """Say of all views together, and of each view, how much evidence there is that it predicts the outcome.

    Above a log Bayes factor of 3 the evidence is "clear", from 1 to 3 "weak", from -1 to 1 there is "no evidence",
    and below -1 "evidence against".

    Parameters
    ----------
    model : estimator
        A fitted model of `bayesmkl.bemkl` or `bayesmkl.gp`, or a Pipeline or search that ends in one.

    Returns
    -------
    dict of Verdict
        By names of views, or of kernels where these were precomputed and have none; first "all views", which compares
        the model with one without kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1})
    >>> verdicts(GPMKLRegressor(bank, together=False).fit(X, np.sin(2 * X[:, 0])))["all views"].word
    'clear'
    """
    fitted = fitted_bemkl(model, of_outcome=False)
    names = list(dict.fromkeys(fitted.kernel_groups(None)))
    unknown = Verdict(float("nan"), UNKNOWN)
    found = {ALL_VIEWS: unknown} | dict.fromkeys(names, unknown)
    if has_evidence(fitted):
        gain = fitted.estimator.log_evidence_ - ProcessRefits(fitted).without_kernels().log_evidence
        found[ALL_VIEWS] = Verdict(float(gain), word_of(gain))
        if len(names) == 1:
            found[names[0]] = found[ALL_VIEWS]
    return found


def has_evidence(fitted: FittedBEMKL) -> bool:
    """Return whether a model has an evidence that can be compared with that of a smaller one."""
    estimator: Any = fitted.estimator
    return fitted.is_marginal and why_no_refits(fitted) is None and bool(np.isfinite(estimator.log_evidence_))


def sentence(found: Mapping[str, Verdict]) -> str:
    """Return the line that stands above tables.

    Examples
    --------
    >>> sentence({"all views": Verdict(-0.4, "no evidence")})
    'No evidence that these views predict the outcome (log Bayes factor -0.4).'
    >>> found = {"age": Verdict(9.0, "clear"), "genes": Verdict(2.0, "weak"), "proteins": Verdict(0.1, "no evidence")}
    >>> sentence({"all views": Verdict(12.0, "clear")} | found)
    'age and genes predict the outcome; proteins: not shown.'
    """
    every = found[ALL_VIEWS]
    views = {name: verdict for name, verdict in found.items() if name != ALL_VIEWS}
    shown = [name for name, verdict in views.items() if verdict.predicts]
    others = [name for name in views if name not in shown]
    if every.word == UNKNOWN:
        return "Whether these views predict the outcome was not tested: this model has no evidence."
    if not every.predicts:
        start = "Evidence against the claim" if every.word == AGAINST else "No evidence"
        return (
            f"{start} that these views predict the outcome (log Bayes factor {every.log_bayes_factor:.1f})."
        )
    if not shown:
        which = "; which of them was not shown" if len(views) > 1 else ""
        return f"These views predict the outcome (log Bayes factor {every.log_bayes_factor:.1f}){which}."
    verb = "predicts" if len(shown) == 1 else "predict"
    rest = f"; {_listed(others)}: not shown" if others else ""
    return f"{_listed(shown)} {verb} the outcome{rest}."


def _listed(names: list[str]) -> str:
    """Return names as a list in prose."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
