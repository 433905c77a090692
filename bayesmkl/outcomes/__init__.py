r"""What targets say of latent scores, for both Bayesian families.

`base` has the contracts. `labels`, `numbers`, `counts`, `grades` and `times` each have what belongs to one kind of
target: the likelihoods of Gaussian processes (densities, derivatives, integrals over normal scores), and, where they
are in closed form, the truncated moments of BEMKL's updates.
"""

from __future__ import annotations

from bayesmkl.outcomes.base import Offset
from bayesmkl.outcomes.counts import BetaBinomial, NegativeBinomial, Poisson
from bayesmkl.outcomes.grades import Grades as Grades
from bayesmkl.outcomes.grades import OrdinalProbit
from bayesmkl.outcomes.labels import Classes as Classes
from bayesmkl.outcomes.labels import Labels as Labels
from bayesmkl.outcomes.labels import Logit, Probit
from bayesmkl.outcomes.numbers import Gaussian, Heteroscedastic, StudentT
from bayesmkl.outcomes.numbers import Numbers as Numbers
from bayesmkl.outcomes.times import FailureTime, PiecewiseHazard
from bayesmkl.outcomes.times import Intervals as Intervals

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
