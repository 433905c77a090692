"""Samplers that a variational posterior has, and its refinement by a short Gibbs run."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import VB, Gibbs
from bayesmkl._utils.settings import own_settings
from bayesmkl._utils.validation import check_integer, generator_of
from bayesmkl.bemkl.estimators.base import FitTask
from bayesmkl.bemkl.inference.runs import check_can_sample, gibbs_start, run_gibbs
from bayesmkl.bemkl.models.nonnegative import NonnegativeReadout
from bayesmkl.posterior.fitted import FittedBEMKL, fitted_bemkl
from bayesmkl.posterior.predictive_checks import why_no_prior_draws
from bayesmkl.posterior.shared_docs import MODEL

__all__ = ["PLURALS", "honest_intervals", "refine_posterior", "why_not_refined", "why_not_sampled"]
PLURALS = {"class": "classes", "label": "labels", "output": "targets"}


@fill_docs(MODEL)
@own_settings
def refine_posterior(
    model: BaseEstimator,
    n_draws: int = 250,
    *,
    kernels: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Any:
    """Replace a variational posterior by draws of a short Gibbs run that starts from it.

    The standard deviations of kernel shares under the variational posterior are a half to a tenth of what they should
    be. A Gibbs sweep costs what one variational update costs, and the variational posterior is a good place to start:
    a few hundred sweeps are enough to learn most of the spread.

    Parameters
    ----------
    model : estimator
        A BEMKLClassifier or BEMKLRegressor fitted with ``inference="vb"``, or a Pipeline or search that ends in one.
    n_draws : int, default=250
        Sweeps that are kept; a tenth as many before them are not.
    kernels : array-like of shape (n_samples, n_samples, n_kernels), default=None
        The training kernels, where the model was fitted to precomputed ones.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    estimator
        A copy of the fitted BEMKL estimator whose `posterior_`, kernel shares and weights are those of the draws; all
        of its methods, tables and plots use them. `model` itself is left as it is.

    Raises
    ------
    %(TypeError)s
    NotFittedError
        Before `fit`.
    ValueError
        If `model` was not fitted with ``inference="vb"``, its kernels were precomputed and are not given, or it
        cannot be sampled: with a sparse prior, kernel weights that are shared by several outputs or not negative,
        unlabeled samples or missing views. The message says what can.

    Notes
    -----
    One short chain is an approximation: its intervals are close to those of a long run, its R-hat is not below 1.01.
    For final numbers fit with ``inference="nuts"``. How close it is was measured against NUTS, see the guide on trust
    in a posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLClassifier, KernelBank
    >>> from bayesmkl.posterior import refine_posterior
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> bank = KernelBank(["linear"], views={"signal": 0, "noise": 1})
    >>> model = BEMKLClassifier(bank).fit(X, X[:, 0] > 0)
    >>> refined = refine_posterior(model, n_draws=200, random_state=0)
    >>> bool((refined.kernel_shares_std_ > model.kernel_shares_std_).all())
    True
    """
    fitted = fitted_bemkl(model, no_process="whose draws are the posterior already. Leave it as it is.")
    estimator = fitted.estimator
    if not isinstance(estimator._inference(), VB):
        raise ValueError(
            '`model` must be fitted with inference="vb", whose intervals are too narrow; '
            f"got inference={estimator.inference!r}, whose draws are the posterior already."
        )
    n_draws = check_integer("n_draws", n_draws, low=10)
    reason = why_not_refined(fitted)
    if reason is not None:
        raise ValueError(f"`model` cannot be refined by Gibbs sampling: {reason}")
    rng = generator_of("random_state", random_state)
    stack = fitted.training_stack(kernels)
    options = Gibbs(n_chains=1, n_warmup=max(1, n_draws // 10), n_draws=n_draws)
    fits = []
    task = FitTask(estimator._problems(stack), stack, estimator.target_, len(fitted.states) > 1)
    for problem, state in zip(task.problems, fitted.states, strict=True):
        check_can_sample(problem, 'inference="gibbs"')
        fit = run_gibbs(problem, options, rng, starts=[gibbs_start(state, problem, rng)])
        fits.append(fit if fit.outcome is Outcome.INTERRUPTED else fit._replace(outcome=Outcome.REFINED))
    refined = copy.deepcopy(estimator).set_params(inference=options)
    refined._store(task, fits)
    return refined


def why_not_sampled(fitted: FittedBEMKL) -> str | None:
    """Say what of a variational posterior no sampler has, and what to do instead; None if NUTS has it."""
    state = fitted.states[0]
    if fitted.is_drawn:
        return None
    if getattr(state.intermediate, "absent", None) is not None:
        return (
            'it integrates over missing views. Fit with missing_views="error" to samples that have all views.'
        )
    if isinstance(state.readout, NonnegativeReadout):
        return (
            "its kernel weights are not negative. Fit with `nonnegative=False`, or sample weights on the simplex by "
            'inference="nuts" with kernel_prior="dirichlet".'
        )
    if not fitted.labeled.all():
        return "some of its samples are unlabeled. Fit it to the labeled ones, or read labels off `transduction_`."
    if fitted.is_multinomial:
        return 'its classes compete. Fit with multiclass="shared" and inference="nuts".'
    return None


def why_not_refined(fitted: FittedBEMKL) -> str | None:
    """Say what of a variational posterior Gibbs sampling does not have, and what to do instead; None if it can."""
    reason = why_not_sampled(fitted)
    if reason is not None or fitted.output_names is None or fitted.class_names is not None:
        return reason
    return f'its {PLURALS[fitted.output_kind]} share the kernel weights. Fit with inference="nuts", or ' + (
        'with multiclass="one-versus-all", where each has a model of its own.'
        if fitted.is_classifier
        else "a model for every target."
    )


def honest_intervals(fitted: FittedBEMKL) -> str:
    """Say what gives intervals that can be read."""
    reason = why_not_sampled(fitted)
    if reason is not None:
        return f"No sampler has this model: {reason}"
    if why_no_prior_draws(fitted.problems_without_kernels()[0].priors) is not None:
        return (
            'A prior that can be sampled ("nonsparse") and inference="nuts" give intervals that can be read.'
        )
    if why_not_refined(fitted) is not None:
        return 'inference="nuts" gives intervals that can be read.'
    return '`refine_posterior(model)` or inference="nuts" gives intervals that can be read.'
