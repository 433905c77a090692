"""Do views predict the outcome? Log Bayes factors of a fitted model, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator

from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.gp.hyperposterior import HOPELESS_K
from bayesmkl.gp.smaller import smaller_evidence
from bayesmkl.kernels.views import ALL_VIEWS
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl, public
from bayesmkl.posterior.relevance import (
    AGAINST,
    NO_EVIDENCE,
    PREDICTS,
    UNKNOWN,
    ProcessRefits,
    why_no_refits,
    word_beside,
    word_of,
)

MOST_VIEWS = 32  # of which each has a verdict
# By models: the posterior that verdicts belong to, and these.
KNOWN: WeakKeyDictionary[BaseEstimator, tuple[Any, dict[str, Verdict]]] = WeakKeyDictionary()


class Verdict(NamedTuple):
    """What a fit says about a view.

    Attributes
    ----------
    log_bayes_factor : float
        Log evidence of the model minus that of the model without the view, in nats; NaN where it is not known.
    word : {"clear", "weak", "no evidence", "evidence against", "not tested"}
        "not tested" where the log Bayes factor is not known.
    """

    log_bayes_factor: float
    word: str

    @property
    def predicts(self) -> bool:
        """Whether there is evidence, clear or weak, for the view."""
        return self.word in PREDICTS


@public
def verdicts(model: BaseEstimator) -> dict[str, Verdict]:
    r"""Weigh the evidence that all views together, and each view, predict the outcome.

    With a log Bayes factor above 3 the evidence is "clear", from 1 to 3 it is "weak", from -1 to 1 there is "no
    evidence", and below -1 there is "evidence against". "No evidence" is not evidence of absence: more samples may
    reveal an effect.

    Parameters
    ----------
    %(model)s

    Returns
    -------
    dict of Verdict
        Verdicts by names of views, or of precomputed kernels without views. The first, "all views", compares the
        model with one without kernels. The verdict of a view compares the model with the model of the other views; a
        view is not needed if other views carry the same information. If all views together have "no evidence", no
        single view has any. Some models have no evidence to compare: BEMKL, landmarks, several classes and Markov
        chains; single views are not compared if there are more than 32, or where the model without the view has its
        mass elsewhere. The log Bayes factor is then NaN, and the word is "not tested". Use :func:`relevance` instead.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.

    See Also
    --------
    relevance : The same by refits, with the accuracy of predictions of left-out samples. Near a threshold the two may
        use different words.

    Notes
    -----
    Nothing is refitted. The model without a view keeps the prior of the remaining hyperparameters. Its posterior is
    near that of the full model, so the evidence is averaged over 128 points there. The model keeps its verdicts after
    the first call.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import GPMKLRegressor, KernelBank
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["rbf"], views={"signal": 0, "noise": 1})
    >>> found = verdicts(GPMKLRegressor(bank, together=False).fit(X, np.sin(2 * X[:, 0])))
    >>> {name: verdict.word for name, verdict in found.items()}
    {'all views': 'clear', 'signal': 'clear', 'noise': 'evidence against'}
    """
    fitted = fitted_bemkl(model, of_outcome=False)
    estimator = fitted.estimator
    kept = KNOWN.get(estimator)
    if kept is None or kept[0] is not estimator.posterior_:
        kept = KNOWN[estimator] = estimator.posterior_, _verdicts(fitted)
    return dict(kept[1])


def _verdicts(fitted: FittedBEMKL) -> dict[str, Verdict]:
    """Find the verdicts of a fitted model."""
    groups = np.array(fitted.kernel_groups(None), dtype=object)
    names = list(dict.fromkeys(groups))
    masks = {ALL_VIEWS: np.zeros(len(groups), dtype=bool)} | {name: groups != name for name in names}
    unknown = Verdict(float("nan"), UNKNOWN)
    found = dict.fromkeys(masks, unknown)
    if not has_evidence(fitted):
        return found
    estimator: Any = fitted.estimator
    refits, options, draws = ProcessRefits(fitted), estimator._inference(), fitted.states[0]
    targets = estimator._targets_of_outputs()
    larger = estimator._hypermodel(refits.stack, targets, options)
    for name, mask in masks.items():
        if name != ALL_VIEWS and (len(names) > MOST_VIEWS or not mask.any()):
            found[name] = unknown if mask.any() else found[ALL_VIEWS]
            continue
        stack, positions = refits.kernels(mask)
        with blas_threads_for(stack.n_train):
            smaller = estimator._hypermodel(stack, targets, options, positions)
            points = draws.coordinates, draws.probability
            log_evidence, pareto_k = smaller_evidence(larger, smaller, positions, *points)
        gain = float(estimator.log_evidence_ - estimator._in_nats(log_evidence))
        word = word_beside(word_of(gain), found[ALL_VIEWS].word)
        found[name] = unknown if pareto_k > HOPELESS_K else Verdict(gain, word)
    return found


def has_evidence(fitted: FittedBEMKL) -> bool:
    """Return whether a model has an evidence that can be compared with that of a smaller one."""
    return (
        fitted.is_marginal
        and why_no_refits(fitted) is None
        and bool(np.isfinite(fitted.estimator.log_evidence_))
        and bool(fitted.states[0].coordinates.size)
    )


def sentence(found: Mapping[str, Verdict]) -> str:
    """Return the line that stands above tables.

    Examples
    --------
    >>> sentence({"all views": Verdict(-0.4, "no evidence")})
    'No evidence that these views predict the outcome (log Bayes factor -0.4).'
    >>> found = {"age": Verdict(9.0, "clear"), "genes": Verdict(2.0, "weak"), "proteins": Verdict(0.1, "no evidence")}
    >>> sentence({"all views": Verdict(12.0, "clear")} | found)
    'age and genes predict the outcome; no evidence for proteins.'
    """
    every = found[ALL_VIEWS]
    views = {name: verdict for name, verdict in found.items() if name != ALL_VIEWS}
    shown = [name for name, verdict in views.items() if verdict.predicts]
    if every.word == UNKNOWN:
        return "Whether these views predict the outcome was not tested: this model has no evidence."
    if not every.predicts:
        start = "Evidence against the claim" if every.word == AGAINST else "No evidence"
        return (
            f"{start} that these views predict the outcome (log Bayes factor {every.log_bayes_factor:.1f})."
        )
    if not shown:
        which = "; the data do not tell which of them" if len(views) > 1 else ""
        return f"These views predict the outcome (log Bayes factor {every.log_bayes_factor:.1f}){which}."
    verb = "predicts" if len(shown) == 1 else "predict"
    starts = {NO_EVIDENCE: "no evidence for ", AGAINST: "evidence against ", UNKNOWN: "not tested: "}
    others = {start: [n for n, own in views.items() if own.word == word] for word, start in starts.items()}
    rest = [f"{start}{_listed(names)}" for start, names in others.items() if names]
    return f"{'; '.join([f'{_listed(shown)} {verb} the outcome', *rest])}."


def _listed(names: list[str]) -> str:
    """Return names as a list in prose."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
