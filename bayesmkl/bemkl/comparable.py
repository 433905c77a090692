r"""Comparability of evidence lower bounds.

Bounds compare only where the candidates give probabilities to the same thing, and where their priors have a mass that
can be compared:

* `margin`: ``P(y f > ν)`` falls as ν grows, whatever the labels, and the evidence with it. The smallest would win.
* `normalize_y`: a target in other units has another density.
* `multiclass`: "shared" and "one-versus-all" explain one column of signs per class; "multinomial" explains one label
  per sample.
* `unlabeled_label`: the bound is highest where all unlabeled samples lie on one side (`semisupervised`).
* `relation` and `task_prior` of multitask models: a tie between tasks takes away freedom that the factorization pays
  for, so that the bound rises even where tasks have nothing in common.
* `inference`: only VB has this bound.
* Precisions under Gamma(c, r) with a concentration c below 1/2. The bound contains ``c log r - log Γ(c)`` for each of
  them, about log c if c is small: -23 nats at c = 1e-10, without end as c falls. The evidence itself stays where it
  is, because such a prior has nearly all of its mass at weights too large to be told from each other, which q does
  not reach. So "sparse" competes with nothing but itself, and with the same number of kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bayesmkl._utils.options import VB
from bayesmkl.bemkl.estimators.base import BaseBEMKL

LEAST_CONCENTRATION = 0.5
NO_INFLUENCE = (
    "kernel_names",
    "predictive",
    "storage",
    "verbose",
)
TASKS = (
    "the bound rises as tasks are tied more closely, unrelated ones too, while their errors grow. Choose it by "
    "cross-validation"
)
INCOMPARABLE = {
    "margin": "the probability of a score beyond the margin falls as the margin grows, whatever the labels are, so "
    "that the smallest would always win. Choose it by cross-validation",
    "normalize_y": "the bound is that of the target in the units of the fit, and a density changes with them. Choose "
    "it by cross-validation",
    "relation": TASKS,
    "task_prior": TASKS,
    "unlabeled_label": "the bound of a semi-supervised fit is about other data than that of a supervised one. Choose "
    "with the labeled samples alone",
}


def refuse_incomparable(models: list[Any]) -> None:
    """Raise if bounds of the unfitted `models` are about different things; the module says which and why."""
    for model in models:
        if not isinstance(model, BaseBEMKL):
            raise ValueError(
                "`estimator` must be a BEMKL estimator, or a pipeline that ends in one; "
                f"got {type(model).__name__}, which has no evidence lower bound."
            )
        if not isinstance(model._inference(), VB):
            raise ValueError(
                '`estimator` and candidates must have inference="vb": samplers have no evidence lower bound; '
                f'got {model.inference!r}. Choose with "vb", then fit the winner with it.'
            )
    names = {type(model).__name__ for model in models}
    if len(names) > 1:
        raise ValueError(f"candidates must be estimators of one kind; got {sorted(names)}.")
    values = {name: _distinct(models, name) for name in models[0].get_params(deep=False)}
    for name in NO_INFLUENCE:
        if len(values.get(name, ())) > 1:
            raise ValueError(f"`param_grid` must not vary `{name}`: the bound does not depend on it.")
    for name, reason in INCOMPARABLE.items():
        if len(values.get(name, ())) > 1:
            raise ValueError(f"`param_grid` must not vary `{name}`: {reason}.")
    _refuse_unlabeled(models)
    kinds = values.get("multiclass", [])
    if len(kinds) > 1 and "multinomial" in kinds:
        raise ValueError(
            f'`param_grid` must not mix `multiclass` "multinomial" with others; got {kinds}: it gives a probability '
            "to one label per sample, the others to one sign per class and sample. Compare them by cross-validation."
        )
    _refuse_scale_free(models, values)


def refuse_other_sizes(first: BaseEstimator, other: BaseEstimator) -> None:
    """Raise where two fits under a scale-free prior on the kernel weights have different numbers of them."""
    sizes = [np.size(model.kernel_weights_) for model in (first, other)]
    if sizes[0] != sizes[1] and _is_scale_free(first, "kernel_prior"):
        raise ValueError(
            f"candidates must have the same number of kernel weights under `kernel_prior` {first.kernel_prior!r}; "
            f"got {sizes[0]} and {sizes[1]}. A prior with a concentration below {LEAST_CONCENTRATION} takes many "
            'nats from the bound for each of them, whatever the data. Use "nonsparse", or cross-validation.'
        )


def _refuse_unlabeled(models: list[Any]) -> None:
    label = getattr(models[0], "unlabeled_label", None)
    if label is not None:
        raise ValueError(
            f"`unlabeled_label` must be None here; got {label!r}. The bound of a semi-supervised fit is often "
            "highest where all unlabeled samples lie on one side. Choose with the labeled samples alone, then fit "
            "the winner to all."
        )


def _refuse_scale_free(models: list[Any], values: dict[str, list[Any]]) -> None:
    for name, distinct in values.items():
        if not name.endswith("_prior") or len(distinct) < 2:
            continue
        for model in models:
            if _is_scale_free(model, name):
                raise ValueError(
                    f"`param_grid` must not compare `{name}` {getattr(model, name)!r} with others: under a Gamma "
                    f"prior with a concentration below {LEAST_CONCENTRATION} nearly all weights are too large to be "
                    "told from each other, and the bound falls without end as the concentration does, whatever the "
                    "data. Vary the rate of priors such as Gamma(1, rate), or compare by cross-validation."
                )
    if len(values.get("multiclass", ())) > 1 and _is_scale_free(models[0], "kernel_prior"):
        raise ValueError(
            f"`param_grid` must not vary `multiclass` under `kernel_prior` {models[0].kernel_prior!r}: it decides "
            f"how many weights have that prior, and with a concentration below {LEAST_CONCENTRATION} each of them "
            'takes many nats from the bound, whatever the data. Use kernel_prior="nonsparse".'
        )


def _is_scale_free(model: BaseEstimator, name: str) -> bool:
    try:
        return model._prior(name).concentration < LEAST_CONCENTRATION
    except (TypeError, ValueError):  # no such prior: the fit will say so
        return False


def _distinct(models: list[Any], name: str) -> list[Any]:
    """Return the different values of a parameter, told apart by what they look like."""
    return list({repr(getattr(model, name)): getattr(model, name) for model in models}.values())
