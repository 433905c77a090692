"""Availability of samplers for a variational posterior."""

from __future__ import annotations

from bayesmkl.bemkl.models.nonnegative import NonnegativeReadout
from bayesmkl.posterior.fitted import FittedBEMKL
from bayesmkl.posterior.predictive_checks import why_no_prior_draws

__all__ = ["PLURALS", "honest_intervals", "why_not_refined", "why_not_sampled"]

PLURALS = {"class": "classes", "label": "labels", "output": "targets"}


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
