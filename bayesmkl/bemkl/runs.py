"""The five inferences behind one interface: a problem goes in, a posterior and how the run ended come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._utils.options import NUTS, Gibbs
from bayesmkl.bemkl.ascent import LoopResult
from bayesmkl.bemkl.draws import (
    PosteriorDraws,
    align_signs,
    draw_precisions,
    score_means,
    score_scales,
    share_of_each,
)
from bayesmkl.bemkl.gibbs import Chains, GibbsState, fit_gibbs
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.moments import Dirichlet, Gamma, SpikeSlab

Report = Callable[[int, str], None] | None
# A weight whose precision is Gamma(c, r) is Student t with 2c degrees of freedom; below c = 1/2 its tails are heavier
# than Cauchy's, and the posterior of (a c, e / c) is all tail.
LEAST_CONCENTRATION = 0.5
RHAT, ESS, DIVERGENT = 1.01, 400.0, 0.005  # Vehtari et al. (2021) for the first two
# Bound on the relative error of a variance from which on it is reported. The errors themselves were a hundredth of it
# and below in comparisons with 50 digits.
TOO_MUCH = 0.1


class Fit(NamedTuple):
    """A posterior and how it was found."""

    posterior: Any  # state of factors, or PosteriorDraws
    outcome: Outcome
    n_iter: int  # sweeps, or draws of each chain
    elbo_history: np.ndarray | None = None
    last_change: float = 0.0  # of the bound, relative
    stats: dict[str, np.ndarray] | None = None
    agreement: Agreement | None = None


def check_can_sample(problem: Problem, where: str) -> None:
    """Raise for priors whose posterior has no moments to sample, or with entries for another number of kernels.

    `where`, such as ``inference="nuts"``, says what needs them.
    """
    arguments = {"sample": "sample_prior", "intercept": "bias_prior", "kernel": "kernel_prior"}
    for name, prior in problem.priors._asdict().items():
        if isinstance(prior, Gamma) and prior.concentration < LEAST_CONCENTRATION:
            argument = arguments.get(name, f"{name}_prior")
            raise ValueError(
                f"`{argument}` must have a concentration of at least {LEAST_CONCENTRATION} with {where}; "
                f"got Gamma({prior.concentration:g}, {prior.rate:g}). Its variables have "
                f"{2 * prior.concentration:g} degrees of freedom: infinite variance, no mean, and a posterior "
                'that is improper in practice. Use "nonsparse", inference="vb", or, for sparse weights, '
                'inference="nuts" with kernel_prior="spike-slab".'
            )
    own: Any = problem.priors.kernel
    for field, entry in own._asdict().items() if isinstance(own, Dirichlet | SpikeSlab) else ():
        if np.ndim(entry) and len(entry) != problem.stack.n_kernels:
            raise ValueError(
                f"`kernel_prior.{field}` must be a number, or one for each of the {problem.stack.n_kernels} kernels; "
                f"got {len(entry)} of them."
            )


def variational_fit(result: LoopResult) -> Fit:
    """Wrap the result of the closed-form loop."""
    return Fit(result.state, result.outcome, result.n_iter, result.elbo_history, result.last_change)


def run_nuts(problem: Problem, options: NUTS, rng: np.random.Generator, report: Report = None) -> Fit:
    """Sample by NUTS on the collapsed NumPyro model."""
    from bayesmkl.bemkl.program import fit_nuts

    return _from_chains(problem, fit_nuts(problem, options, _seed(rng), report), rng)


def run_gibbs(
    problem: Problem,
    options: Gibbs,
    rng: np.random.Generator,
    report: Report = None,
    starts: list[GibbsState] | None = None,
) -> Fit:
    """Sample by blocked Gibbs."""
    return _from_chains(problem, fit_gibbs(problem, options, rng, report, starts), rng)


def gibbs_start(state: State, problem: Any, rng: np.random.Generator) -> GibbsState:
    """Draw the start of a chain from a variational posterior."""
    dual, readout = state.dual.draw(1, rng)[0], state.readout.draw(1, rng)[0]
    if state.intermediate_precision is not None and state.noise_precision is not None:
        known, noise = float(state.intermediate_precision.mean), float(state.noise_precision.mean)
    else:
        known, noise = float(problem.intermediate_precision), 1.0
    return GibbsState(dual, readout, known, noise)


def _from_chains(problem: Problem, chains: Chains, rng: np.random.Generator) -> Fit:
    draws = draw_precisions(align_signs(PosteriorDraws(**chains.parameters)), problem.priors, rng)
    agreement = check_agreement(problem, draws, chains.stats)
    outcome = judge(agreement, chains.interrupted)
    return Fit(draws, outcome, draws.n_draws, stats=chains.stats, agreement=agreement)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


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

    flat, known = draws.flat(), problem.intermediate_precision
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


def rounding_error(problem: Any, state: Any) -> float:
    """Return a bound on the relative rounding error of the variances of a; one problem may be of several tasks.

    q(a) has the covariance of (υ Σ_m K_m' K_m + diag E[λ])^-1. Where kernels are zero, the prior decides, and there
    the rounding errors of the first term, relative to its largest entry, must be small next to E[λ]. They are, unless
    kernels of low rank have entries of a million: the default bank normalizes its kernels to one.
    """
    if hasattr(problem, "tasks"):
        return max(rounding_error(*pair) for pair in zip(problem.tasks, state.tasks, strict=True))
    learned = state.intermediate_precision
    precision = problem.intermediate_precision if learned is None else learned.mean
    largest = np.asarray(state.dual.variance).max(axis=-1) * np.asarray(problem.gram).diagonal().max()
    return float(np.finfo(np.float64).eps * np.max(precision * largest))


def sampling_advice(fits: list[Fit], options: Any) -> str | None:
    """Return what to do about the worst of several runs of a sampler, or None if all went well."""
    outcomes = [fit.outcome for fit in fits]
    if Outcome.INTERRUPTED in outcomes:
        kept = next(fit for fit in fits if fit.outcome is Outcome.INTERRUPTED).posterior
        return (
            f"was interrupted and kept {kept.n_chains} chain(s) of {kept.n_draws} draws "
            f"(asked: {options.n_chains} of {options.n_draws}). All results are those of the draws that were kept."
        )
    agreements = [fit.agreement for fit in fits if fit.agreement is not None]
    if Outcome.DIVERGING in outcomes:
        return (
            f"met divergent transitions in {100 * max(a.divergent for a in agreements):.1f} % of the draws: "
            "parts of the posterior may be missing. Bring `target_accept` of `inference` closer to one "
            f"(it is {options.target_accept:g}) or increase its `n_warmup`."
        )
    if Outcome.NOT_MIXED in outcomes:
        rhat, ess = max(a.rhat for a in agreements), min(a.ess for a in agreements)
        return (
            "finished before its chains agreed on kernel shares and scores: the largest R-hat is "
            f"{rhat:.3f} (at most {RHAT}), the smallest effective sample size {ess:.0f} (at least {ESS:.0f}). "
            "Increase `n_draws` of `inference`, or its `n_warmup`."
        )
    return None
