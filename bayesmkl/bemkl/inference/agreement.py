"""Agreement of the chains of a sampler, judged by identified quantities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl.models.all_models import Problem
from bayesmkl.bemkl.reading.collapsed import score_means, score_scales
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.bemkl.reading.shares import share_of_each

__all__ = ["DIVERGENT", "ESS", "RHAT", "Agreement", "check_agreement", "judge"]

RHAT, ESS, DIVERGENT = 1.01, 400.0, 0.005  # Vehtari et al. (2021) for the first two


class Agreement(NamedTuple):
    """Convergence of the quantities that the model identifies: the worst over shares and training scores."""

    rhat: float  # largest split R-hat
    ess: float  # smallest effective sample size
    divergent: float  # share of draws that diverged

    @property
    def ess_is_enough(self) -> bool:
        """Whether there are as many effective draws as R-hat needs to be reliable."""
        return self.ess >= ESS


def check_agreement(problem: Problem, draws: PosteriorDraws, stats: dict[str, np.ndarray]) -> Agreement:
    """Compare the chains by quantities that the model's symmetries leave unchanged.

    These are the kernel shares and the training scores in units of their noise, m/s: raw weights are known up to
    sign and, weakly, scale only.
    """
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    flat, known = draws.flat(), getattr(problem, "intermediate_precision", None)
    scores = [score_means(problem.stack, own) / score_scales(own, known)[:, None] for own in flat.outputs()]
    shares = share_of_each(problem.stack, flat)
    values = np.concatenate([shares, *scores], axis=1).reshape(draws.n_chains, draws.n_draws, -1)
    moving = values[..., values.std(axis=(0, 1)) > 1e-12]  # the share of a single kernel is one in every draw
    diverging = stats.get("diverging")
    return Agreement(
        float(np.max(split_gelman_rubin(moving))),
        float(np.min(effective_sample_size(moving))),
        0.0 if diverging is None else float(np.mean(diverging)),
    )


def judge(agreement: Agreement, interrupted: bool) -> Outcome:
    """Return the outcomes of the run, the worst first."""
    if interrupted:
        return Outcome.INTERRUPTED
    if agreement.divergent > DIVERGENT:
        return Outcome.DIVERGING
    if not agreement.rhat <= RHAT or not agreement.ess_is_enough:
        return Outcome.NOT_MIXED
    return Outcome.MIXED
