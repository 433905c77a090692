r"""Semi-supervised binary BEMKL: where to start, and the labels of the unlabeled samples (Gönen 2012, §5.2).

The outcome is `Labels`, with y_i = 0 for unlabeled samples. Lawrence and Jordan (2005) give the region between the
classes, -ν < f < ν, a category of its own, of which no sample is: an unlabeled one tells that its score is not
there, so the boundary moves to where samples are rare,

    q(f_i) ∝ N(f_i; μ_i, 1) 1{|f_i| > ν},      μ_i = E[e]' E[g_i] + E[b],      P(y_i = +1) = P(f_i > ν).

With ν = 0 an unlabeled sample says nothing. Then q(f_i) = N(μ_i, 1), and the posterior of (a, b, e) given the labels
is exactly what it is without the sample. The factorized approximation pays for it nevertheless: with the other
factors fixed, the sample lowers the bound by

    ½ Var[e' g_i + b] + KL(q(g_i) || N(K_i E[a], σ_g²)) + ½ tr(K_i Cov[a] K_i') / σ_g²,      K_i = (k_1i .. k_Pi)',

zero only where a, b and e are known, so that many unlabeled samples make the approximation narrower and its scores
smaller. The bound has several maxima. One of them, often the highest, puts all unlabeled samples on one side. Two
things keep it away: to start near the fit to the labeled samples, `start_from_labeled`, and, where classes are about
equally frequent, kernels that are centered over all training samples with a prior that holds the intercept near zero,
so that scores have a mean of about zero.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from bayesmkl._numerics.truncated_normal import log_normal_cdf
from bayesmkl.bemkl.models.model import Carry, Problem, State, carry
from bayesmkl.bemkl.models.moments import latent_mean
from bayesmkl.kernels.stacks.dense import in_c_order


def labeled_part(problem: Problem) -> Problem:
    """Return the problem without the unlabeled samples, their columns of the kernels kept: `a` stays the same."""
    labeled = problem.y != 0.0
    stack = in_c_order(problem.stack.rows(labeled))  # of stacks that are in one place
    return problem._replace(stack=stack, gram=stack.gram(), y=problem.y[labeled])


def start_from_labeled(problem: Problem, labeled: State) -> Carry:
    """Start from a posterior of the labeled samples; unlabeled scores begin where it predicts them.

    Parameters
    ----------
    problem : Problem
    labeled : State
        Posterior of ``labeled_part(problem)``.
    """
    intermediate = problem.stack.apply(labeled.dual.mean)
    intermediate[:, problem.y != 0.0] = labeled.intermediate.mean
    loc = latent_mean(labeled.intermediate._replace(mean=intermediate), labeled.readout)
    latent = problem.outcome.update(problem.y, loc, 1.0, None)[0]
    everyone = labeled._replace(intermediate=labeled.intermediate._replace(mean=intermediate), latent=latent)
    return carry(problem, everyone)


def positive_probability(problem: Problem, state: State) -> np.ndarray:
    """Return the probability under q(f) that each training sample lies above the margin, shape (n_samples,).

    It is 0 or 1 for labeled samples.
    """
    loc = latent_mean(state.intermediate, state.readout)
    margin = problem.outcome.margin
    log_odds = log_normal_cdf(loc - margin) - log_normal_cdf(-loc - margin)
    return np.where(problem.y == 0.0, expit(log_odds), 0.5 * (1.0 + problem.y))
