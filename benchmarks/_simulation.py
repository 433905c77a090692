"""Parameters from the prior, data from the model, and posteriors of them by every inference.

Binary classification has margin ν = 0 here. For ν > 0 the likelihood is not normalized over the labels (a score
within the margin belongs to none), so that only draws from the prior given that every sample has a label would be
comparable with the posterior.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from bayesmkl import KernelBank
from bayesmkl._utils.options import NUTS, Gibbs
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, gibbs_start, maximize_elbo, run_gibbs, run_nuts
from bayesmkl.bemkl.draws import PosteriorDraws, score_means, score_scales, share_draws, variational_draws
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.kernels import Gaussian, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers

QUANTITIES = {
    "binary": {
        "shares": "kernel shares",
        "weights": "|e|",
        "latent": "m/s, training",
        "prediction": "Φ(m/s), new",
    },
    "regression": {
        "shares": "kernel shares",
        "weights": "|e|",
        "latent": "m, training",
        "prediction": "y, new",
    },
}
INFERENCES = {"vb": "VB", "refined": "refined VB", "gibbs": "Gibbs", "nuts": "NUTS"}


class Simulated(NamedTuple):
    """One data set of the model with the parameters that it was made of."""

    problem: Any  # Problem
    truth: PosteriorDraws  # one draw, without the axis of the chains
    new: DenseStack
    y_new: np.ndarray


def stacks(n_train: int, n_new: int) -> tuple[DenseStack, DenseStack]:
    """Four kernels on fixed points: training kernels, and those of new points against them."""
    X = np.random.default_rng(0).standard_normal((n_train + n_new, 3))
    bank = KernelBank([Gaussian(width=1.0), Gaussian(width=4.0), Linear(), Polynomial(degree=2)])
    train = DenseStack(np.ascontiguousarray(np.moveaxis(bank.fit_transform(X[:n_train]), -1, 0)))
    return train, DenseStack(bank.evaluate(X[n_train:]))


def simulate(task: str, train: DenseStack, new: DenseStack, rng: np.random.Generator) -> Simulated:
    """Draw parameters from the prior (all of it Gamma(1, 1)), then targets from the model."""

    def student(*shape: int) -> np.ndarray:
        return rng.standard_normal((1, *shape)) / np.sqrt(rng.gamma(1.0, 1.0, size=(1, *shape)))

    truth = PosteriorDraws(student(train.n_kernels), student(), student(train.n_train))
    if task == "regression":
        truth = truth._replace(
            intermediate_precision=rng.gamma(1.0, 1.0, 1), noise_precision=rng.gamma(1.0, 1.0, 1)
        )
    scale = score_scales(truth, 1.0)[0]
    score, new_score = (
        score_means(stack, truth)[0] + scale * rng.standard_normal(stack.n_rows) for stack in (train, new)
    )
    gram = train.gram()
    if task == "regression":
        priors = Priors()
        return Simulated(Problem(train, gram, score, priors, Numbers()), truth, new, new_score)
    y, y_new = (np.where(f > 0.0, 1.0, -1.0) for f in (score, new_score))
    return Simulated(Problem(train, gram, y, Priors(), Labels(0.0), 1.0), truth, new, y_new)


def draw_posteriors(
    problem: Any, lengths: dict[str, tuple[int, int]], rng: np.random.Generator
) -> dict[str, tuple[PosteriorDraws, float, float]]:
    """Draw from the posterior by each inference.

    Parameters
    ----------
    problem : Problem
    lengths : dict of str to (int, int)
        Inference -> steps of warm-up and draws of its one chain; "vb" has no warm-up, "refined" starts from it.
    rng : numpy.random.Generator

    Returns
    -------
    dict of str to (PosteriorDraws, float, float)
        Draws with one leading axis, seconds (of the fit and the draws) and the smallest effective sample size over
        shares and training scores.
    """
    start = time.perf_counter()
    magnitude = 0.0 if problem.outcome.has_noise else np.sqrt(2.0 / np.pi)
    carry = bemkl.init(problem, np.full(problem.y.shape, magnitude))
    state = maximize_elbo(bemkl, problem, carry, LoopOptions(max_iter=1000, tol=1e-6)).state
    fitted = time.perf_counter() - start
    found = {}
    for name, (n_warmup, n_draws) in lengths.items():
        start = time.perf_counter()
        if name == "vb":
            draws, ess = variational_draws(state, n_draws, rng), float(n_draws)
        else:
            length = {"n_chains": 1, "n_warmup": n_warmup, "n_draws": n_draws}
            if name == "nuts":
                fit = run_nuts(problem, NUTS(**length), rng)
            else:
                starts = [gibbs_start(state, problem, rng)] if name == "refined" else None
                fit = run_gibbs(problem, Gibbs(**length), rng, starts=starts)
            draws, ess = fit.state, fit.agreement.ess
        seconds = time.perf_counter() - start + (fitted if name in ("vb", "refined") else 0.0)
        found[name] = (draws.flat(), seconds, ess)
    return found


def quantities(
    case: Simulated, draws: PosteriorDraws, rng: np.random.Generator, y_new: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """What the model identifies, for every draw: arrays (n_draws, entries) by the names of `QUANTITIES`.

    Weights enter by their absolute value, as (a, e) and (-a, -e) are the same model. In classification scores are
    divided by their standard deviation s: (c a, c b) with more noise would fit as well. In regression predictions are
    targets, noise included; `y_new` gives them for the truth.
    """
    scale = score_scales(draws, getattr(case.problem, "intermediate_precision", None))[:, None]
    latent, new = score_means(case.problem.stack, draws), score_means(case.new, draws)
    if draws.noise_precision is None:
        latent, new = latent / scale, new / scale
    elif y_new is not None:
        new = y_new[None]
    else:
        new = new + scale * rng.standard_normal(new.shape)
    return {
        "shares": share_draws(case.problem.stack, draws.dual, draws.kernel_weights),
        "weights": np.abs(draws.kernel_weights),
        "latent": latent,
        "prediction": new,
    }
