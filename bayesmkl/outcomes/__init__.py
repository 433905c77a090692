r"""Likelihoods of a latent score: densities, their derivatives, and their integrals over normal scores.

`base` has the contract; `binary`, `regression`, `counts`, `ordinal` and `survival` are by the kind of the target,
`offset` adds known numbers to scores, `heteroscedastic` has noise that differs between samples, `repeated` lets them
count more or less than once.
"""

from __future__ import annotations

from bayesmkl.outcomes.binary import Logit, Probit
from bayesmkl.outcomes.counts import BetaBinomial, NegativeBinomial, Poisson
from bayesmkl.outcomes.heteroscedastic import Heteroscedastic
from bayesmkl.outcomes.offset import Offset
from bayesmkl.outcomes.ordinal import OrdinalProbit
from bayesmkl.outcomes.regression import Gaussian, StudentT
from bayesmkl.outcomes.survival import FailureTime, PiecewiseHazard

__all__ = [
    "BetaBinomial",
    "FailureTime",
    "Gaussian",
    "Heteroscedastic",
    "Logit",
    "NegativeBinomial",
    "Offset",
    "OrdinalProbit",
    "PiecewiseHazard",
    "Poisson",
    "Probit",
    "StudentT",
]
