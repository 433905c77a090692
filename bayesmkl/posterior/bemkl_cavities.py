r"""Leave-one-out predictions of sampled BEMKL models with sample weights integrated out.

Given draws of e, of the noise and of the precisions λ and γ, the training scores are a Gaussian process with the
covariance :math:`K_e \Lambda^{-1} K_e^\top + \sigma_g^2 e^\top e\, I + \gamma^{-1} 1 1^\top`, and the score of a
sample given all others is its cavity. The posterior without sample i weighs draws by the inverse of the density of
its target there (Vehtari et al. 2016, Bayesian leave-one-out cross-validation approximations for Gaussian latent
variable models, JMLR 17). Reweighting draws of the weights `a` themselves, of which every training sample has one,
fails for most samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl.draws import PosteriorDraws
from bayesmkl.gp.conditioning import Sites, cavity
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.outcomes import Gaussian, Probit
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.fitted import FittedBEMKL, evenly
from bayesmkl.posterior.leave_one_out import LeaveOneOut, leave_one_out

N_POINTS = 200  # draws that are looked at: one factorization or, of labels, about ten for each
TOL = 1e-2  # of the sites, in standard deviations of a score


def leave_one_out_of_draws(fitted: FittedBEMKL, problems: list[Any]) -> LeaveOneOut:
    """Predict every training sample by the posterior of the others; what the samples left in say is not found.

    Parameters
    ----------
    fitted : FittedBEMKL
        Of the inference "nuts" or "gibbs".
    problems : list
        Its problems, over dense training kernels.
    """
    models = []
    for problem, draws in zip(problems, fitted.states, strict=True):
        models.append(Evaluated(problem, _few(draws)))
        with blas_threads_for(problem.y.shape[-1]):
            for output in models[-1].outputs:
                output._scores = _cavities(output)
    return leave_one_out(fitted, models)


def _few(draws: PosteriorDraws) -> PosteriorDraws:
    """Take draws at even distances, as one chain."""
    flat = draws.flat()
    chosen = evenly(len(flat.intercept), N_POINTS)
    return flat.map(lambda values: values[None, chosen])


def _cavities(output: Evaluated) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of left-out scores, noise included, each of shape (n_draws, n_samples)."""
    problem, draws = output.problem, output.flat
    sites: Sites | None = None
    means = np.empty((len(draws.intercept), problem.y.shape[-1]))
    scales = np.empty_like(means)
    for t, weights in enumerate(draws.kernel_weights):
        mixed = problem.stack.combine(weights) / np.sqrt(draws.sample_precision[t])
        intercept = 1.0 / draws.intercept_precision[t]
        covariance, square = mixed @ mixed.T + intercept, float(weights @ weights)
        if output.is_regression:
            noise = 1.0 / draws.noise_precision[t] + square / draws.intermediate_precision[t]
            found = exact_evidence(Gaussian(), problem.y, covariance, np.sqrt([noise]))
        else:
            noise = 1.0
            covariance = plus_diagonal(covariance, square / problem.intermediate_precision)
            found = ep_evidence(
                Probit(float(problem.outcome.margin)), problem.y, covariance, np.empty(0), sites, tol=TOL
            )
            sites = found.sites if found.converged else None
        left = cavity(found.posterior, found.sites)
        means[t], scales[t] = left.mean, np.sqrt(1.0 / left.precision + noise)
    return means, scales
