r"""Gibbs sampling of BEMKL (the paper calls it expensive, §4, and gives no updates).

Model: the story in `moments`. Of its conditionals all are standard, but a sampler that visits every variable in turn
hardly moves: the intermediate outputs G tie the kernel weights to their last value. This one integrates G out
wherever it can. One sweep, with m = Σ e_m K_m a + b and s² = 1/ε + e'e/υ::

    1. λ | a                        Gamma
    2. f | a, b, e                  N(m, s²) beyond the margin; in regression f is the target
    3. a | f, b, e, λ               normal, G integrated out
    4. γ, ω | b, e                  Gamma
       (b, e) | a, γ, ω             elliptical slice step, G and f integrated out;  4. is done several times.
                                    In regression also Metropolis steps that propose from the normal conditional
                                    at the current s²: they cross ridges of kernels that resemble each other
    5. (a, e) -> (c a, e / c)       slice step in log c, λ, γ, ω and f integrated out: the weakly known scale
       (a, b) -> (c a, c b)         the same for the size of the score
    6. υ and ε                      slice steps in their logarithms, regression only

f and the precisions are drawn anew before anything is conditioned on them, which keeps the posterior invariant
(partially collapsed Gibbs sampling). A sweep costs what one of the variational updates costs: O(P N² + N³).

References: Murray, Adams and MacKay (2010) for elliptical slices; Neal (2003) for univariate slices; Liu and Sabatti
(2000) for moves along a group; van Dyk and Park (2008) for partial collapsing.

**Chains in blocks**, which all samplers share. A sampler is a pair of functions. ``start(group)`` returns the state
of the chains in `group`, a list of numbers; ``advance(state, n, keep)`` takes `n` steps and returns the new state and
two dictionaries, of parameters and of the sampler's own statistics, whose arrays start with the axes (chains of the
group, n). Both are ignored during warm-up. Draws are copied out block by block: an interrupt loses one block, not the
run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs
from scipy.special import log_ndtr, ndtri_exp

from bayesmkl._numerics.slice_sampling import elliptical_slice, slice_step
from bayesmkl._utils.options import NUTS, Gibbs
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl.model import Problem
from bayesmkl.bemkl.moments import Gamma

READOUT_STEPS = 4  # elliptical steps of (b, e) in a sweep: each costs O(N P), a sweep O(P N² + N³)
METROPOLIS_STEPS = 2  # of (b, e) in regression: each costs O(P³) beside X X'


class GibbsState(NamedTuple):
    """State passed from one sweep to the next."""

    dual: np.ndarray  # a, (n_train,)
    readout: np.ndarray  # (b, e), (1 + n_kernels,)
    intermediate_precision: float  # υ: known in classification
    noise_precision: float  # ε: one in classification


def fit_gibbs(
    problem: Problem,
    options: Gibbs,
    rng: np.random.Generator,
    on_block: Callable[[int, str], None] | None = None,
    starts: list[GibbsState] | None = None,
) -> Chains:
    """Draw from the posterior.

    Parameters
    ----------
    problem : Problem
        Of labels or numbers of one output, with Gamma priors.
    options : Gibbs
    rng : numpy.random.Generator
    on_block : callable, optional
        See `run_chains`.
    starts : list of GibbsState, optional
        Start of each chain; None draws dispersed starts.
    """
    rngs = rng.spawn(options.n_chains)

    def start(group: list[int]) -> tuple[GibbsState, np.random.Generator]:
        (c,) = group
        return (init(problem, rngs[c]) if starts is None else starts[c]), rngs[c]

    def advance(
        here: tuple[GibbsState, np.random.Generator], n: int, keep: bool
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        state, own_rng = here
        states = []
        for _ in range(n):
            state = sweep(problem, state, own_rng)
            states.append(state)
        return (state, own_rng), _parameters(problem, states), {}

    with blas_threads_for(problem.stack.n_train):
        return run_chains(start, advance, [[c] for c in range(options.n_chains)], options, on_block)


class Rounds(NamedTuple):
    """Draws of the last round of sweeps that was finished, and how many sweeps were before it."""

    chains: Chains
    n_warmup: int  # of each chain


def fit_in_rounds(
    problem: Problem,
    starts: list[GibbsState],
    n_draws: int,
    max_sweeps: int,
    rng: np.random.Generator,
    is_enough: Callable[[Chains], bool],
    on_block: Callable[[int, str], None] | None = None,
) -> Rounds:
    """Draw in rounds, each as long as all sweeps before it, which become its warm-up, until draws are enough.

    Parameters
    ----------
    problem : Problem
        Of labels or numbers of one output, with Gamma priors.
    starts : list of GibbsState
        Start of each chain.
    n_draws : int
        Draws of each chain that a round keeps, at even distances; the warm-up of the first has as many sweeps.
    max_sweeps : int
        No round begins that would take a chain beyond these.
    rng : numpy.random.Generator
    is_enough : callable
        Says of the draws of a round whether it is the last.
    on_block : callable, optional
        See `run_chains`.

    Raises
    ------
    KeyboardInterrupt
        If the run is interrupted in the first round. Later interrupts end the run and keep the round before.
    """
    rngs, states, found = rng.spawn(len(starts)), list(starts), None
    done, n_sweeps = 0, n_draws

    def advance(n: int, every: int, phase: str) -> dict[str, np.ndarray]:
        """Take `n` sweeps of every chain, and keep some of them."""
        parts = []
        for c, own_rng in enumerate(rngs):
            kept = []
            for number in range(1, n + 1):
                states[c] = sweep(problem, states[c], own_rng)
                if number % every == 0:
                    kept.append(states[c])
                if on_block is not None and (number % BLOCK == 0 or number == n):
                    on_block(done * len(rngs) + c * n + number, f"chain {c + 1} of {len(rngs)}, {phase}")
            parts.append(_parameters(problem, kept))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    with blas_threads_for(problem.stack.n_train):
        try:
            advance(n_draws, n_draws, "warm-up")
            done = n_draws
            while found is None or done + n_sweeps <= max_sweeps:
                parameters = advance(n_sweeps, n_sweeps // n_draws, f"round of {n_sweeps}")
                found = Rounds(Chains(parameters, {}, False), done)
                done = n_sweeps = done + n_sweeps
                if is_enough(found.chains):
                    break
        except KeyboardInterrupt:
            if found is None:
                raise
            found = found._replace(chains=found.chains._replace(interrupted=True))
    return found


def init(problem: Any, rng: np.random.Generator) -> GibbsState:
    """Draw a dispersed start: weights of order one around equal kernels, noise precisions of order one."""
    dual = rng.standard_normal(problem.stack.n_train)
    readout = np.concatenate([np.zeros(1), np.ones(problem.stack.n_kernels)])
    readout += rng.standard_normal(len(readout))
    if problem.outcome.has_noise:
        return GibbsState(dual, readout, *np.exp(rng.standard_normal(2)))
    return GibbsState(dual, readout, float(problem.intermediate_precision), 1.0)


def sweep(problem: Any, state: GibbsState, rng: np.random.Generator) -> GibbsState:
    """Update every block once."""
    priors, stack = problem.priors, problem.stack
    dual, readout, known, noise = state
    variance = 1.0 / noise + readout[1:] @ readout[1:] / known
    combined = stack.combine(readout[1:])  # Σ e_m K_m
    sample_precision = _draw_precision(priors.sample, dual, rng)  # 1.
    latent = _draw_latent(problem, combined @ dual + readout[0], math.sqrt(variance), rng)  # 2.
    dual = _draw_dual(combined, latent - readout[0], variance, sample_precision, rng)  # 3.
    design = np.vstack([np.ones(stack.n_rows), stack.apply(dual)])
    likelihood = _Likelihood(problem)
    if problem.outcome.has_noise:  # 4.
        square, target = design @ design.T, design @ problem.y
        for _ in range(METROPOLIS_STEPS):
            precision = _readout_precision(priors, readout, rng)
            readout = _propose_readout(
                likelihood, design, square, target, readout, precision, known, noise, rng
            )
    for _ in range(READOUT_STEPS):
        precision = _readout_precision(priors, readout, rng)
        readout = elliptical_slice(
            readout, precision**-0.5, lambda w: likelihood(w @ design, w[1:] @ w[1:], known, noise), rng
        )
    dual, readout, mean = _rescale(problem, likelihood, design, dual, readout, known, noise, rng)  # 5.
    if problem.outcome.has_noise:  # 6.
        known, noise = _draw_noise(problem, likelihood, mean, readout, known, noise, rng)
    return GibbsState(dual, readout, known, noise)


class _Likelihood:
    """``log p(y | m, e'e)`` of the collapsed model, up to a constant."""

    def __init__(self, problem: Problem) -> None:
        self.y, self.margin = problem.y, getattr(problem.outcome, "margin", None)

    def __call__(self, mean: np.ndarray, square: float, known: float, noise: float) -> float:
        variance = 1.0 / noise + square / known
        if self.margin is None:
            residual = self.y - mean
            return -0.5 * (residual @ residual / variance + len(mean) * math.log(variance))
        return log_ndtr((self.y * mean - self.margin) / math.sqrt(variance)).sum()


def _draw_precision(prior: Gamma, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.gamma(prior.concentration + 0.5, 1.0 / (prior.rate + 0.5 * values * values))


def _readout_precision(priors: Any, readout: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw (γ, ω) given (b, e), shape (1 + n_kernels,)."""
    intercept = _draw_precision(priors.intercept, readout[:1], rng)
    return np.concatenate([intercept, _draw_precision(priors.kernel, readout[1:], rng)])


def _propose_readout(
    likelihood: _Likelihood,
    design: np.ndarray,
    square: np.ndarray,
    target: np.ndarray,
    readout: np.ndarray,
    precision: np.ndarray,
    known: float,
    noise: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Take a Metropolis step of w = (b, e) given a: were s² fixed, its normal conditional would be exact.

    `square` is X X' and `target` X y with the design X = [1; K_m a]. Residuals are taken sample by sample: of their
    squares, ``y'y - 2 w'Xy + w'XX'w``, a target far from zero leaves rounding errors.
    """

    def variance_of(w: np.ndarray) -> float:
        return 1.0 / noise + w[1:] @ w[1:] / known

    def log_target(w: np.ndarray) -> float:
        return likelihood(w @ design, w[1:] @ w[1:], known, noise) - 0.5 * float(precision @ (w * w))

    def conditional(variance: float) -> tuple[np.ndarray, np.ndarray]:
        root, failed = dpotrf(square / variance + np.diag(precision), lower=1, clean=1)
        if failed:
            raise np.linalg.LinAlgError("the conditional precision of (b, e) is not positive definite")
        shift, _ = dtrtrs(root, target / variance, lower=1)
        return dtrtrs(root, shift, lower=1, trans=1)[0], root

    def log_proposal(w: np.ndarray, mean: np.ndarray, root: np.ndarray) -> float:
        standard = root.T @ (w - mean)
        return float(np.log(np.diag(root)).sum() - 0.5 * (standard @ standard))

    variance = variance_of(readout)
    mean, root = conditional(variance)
    proposed = mean + dtrtrs(root, rng.standard_normal(len(readout)), lower=1, trans=1)[0]
    proposed_variance = variance_of(proposed)
    mean_back, root_back = conditional(proposed_variance)
    log_ratio = log_target(proposed) - log_target(readout)
    log_ratio += log_proposal(readout, mean_back, root_back) - log_proposal(proposed, mean, root)
    return proposed if -rng.exponential() < log_ratio else readout


def _draw_latent(problem: Any, mean: np.ndarray, scale: float, rng: np.random.Generator) -> np.ndarray:
    if problem.outcome.has_noise:
        return problem.y
    return draw_beyond_margin(mean, scale, problem.y, problem.outcome.margin, rng)


def draw_beyond_margin(
    mean: np.ndarray, scale: float, y: np.ndarray, margin: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw from N(mean, scale²) restricted to ``y * f > margin``, exactly however far in the tail.

    Examples
    --------
    >>> f = draw_beyond_margin(np.zeros(1000), 1.0, np.ones(1000), 0.0, np.random.default_rng(0))
    >>> bool(f.min() > 0.0), round(float(f.mean()), 1)
    (True, 0.8)
    """
    cut = (margin - y * mean) / scale
    uniform = 1.0 - rng.random(len(mean))  # in (0, 1]
    standard = -ndtri_exp(np.log(uniform) + log_ndtr(-cut))
    return y * np.maximum(y * mean + scale * standard, margin)  # rounding may fall a hair short of the cut


def _draw_dual(
    combined: np.ndarray, target: np.ndarray, variance: float, precision: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw a from its normal conditional with precision ``diag λ + K' K / s²``, K = Σ e_m K_m."""
    inverse = combined.T @ combined
    inverse /= variance
    inverse.flat[:: len(inverse) + 1] += precision
    root, failed = dpotrf(inverse, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("the conditional precision of a is not positive definite")
    shift, _ = dtrtrs(root, combined.T @ target / variance, lower=1)
    draw, _ = dtrtrs(root, shift + rng.standard_normal(len(shift)), lower=1, trans=1)
    return draw


def _rescale(
    problem: Problem,
    likelihood: _Likelihood,
    design: np.ndarray,
    dual: np.ndarray,
    readout: np.ndarray,
    known: float,
    noise: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Move along (c a, e / c), then along (c a, c b): the mean score, returned last, stays, then grows by c."""
    priors = problem.priors
    intercept, weights = readout[0], readout[1:]
    mean, square = readout @ design, float(weights @ weights)

    def log_scale(r: float) -> float:  # of r = log c, with the volume c^(N - P)
        c = math.exp(r)
        prior = _log_student(priors.sample, dual * c) + _log_student(priors.kernel, weights / c)
        volume = (len(dual) - len(weights)) * r
        return prior + volume + likelihood(mean, square / c**2, known, noise)

    c = math.exp(slice_step(log_scale, rng))
    dual, weights, square = dual * c, weights / c, square / c**2

    def log_size(r: float) -> float:  # with the volume c^(N + 1)
        c = math.exp(r)
        prior = _log_student(priors.sample, dual * c) + _log_student(priors.intercept, intercept * c)
        return prior + (len(dual) + 1) * r + likelihood(mean * c, square, known, noise)

    c = math.exp(slice_step(log_size, rng))
    return dual * c, np.concatenate([[intercept * c], weights]), mean * c


def _log_student(prior: Gamma, values: np.ndarray | float) -> float:
    """Return the log density of variables with their precisions integrated out, summed, up to a constant."""
    return -(prior.concentration + 0.5) * float(np.log(prior.rate + 0.5 * values * values).sum())


def _draw_noise(
    problem: Any,
    likelihood: _Likelihood,
    mean: np.ndarray,
    readout: np.ndarray,
    known: float,
    noise: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    square = float(readout[1:] @ readout[1:])

    def log_gamma(prior: Gamma, r: float) -> float:  # of r = log of the precision
        return prior.concentration * r - prior.rate * math.exp(r)

    here = math.log(known)
    known = math.exp(here + slice_step(
        lambda r: log_gamma(problem.priors.intermediate, here + r)
        + likelihood(mean, square, math.exp(here + r), noise), rng))  # fmt: skip
    there = math.log(noise)
    noise = math.exp(there + slice_step(
        lambda r: log_gamma(problem.priors.noise, there + r)
        + likelihood(mean, square, known, math.exp(there + r)), rng))  # fmt: skip
    return known, noise


def _parameters(problem: Problem, states: list[GibbsState]) -> dict[str, np.ndarray]:
    readout = np.stack([state.readout for state in states])[None]
    parameters = {
        "dual": np.stack([state.dual for state in states])[None],
        "intercept": readout[..., 0],
        "kernel_weights": readout[..., 1:],
    }
    if problem.outcome.has_noise:
        for name in ("intermediate_precision", "noise_precision"):
            parameters[name] = np.array([[getattr(state, name) for state in states]])
    return parameters


# --------------------------------------------------------------------------------------------------- chains in blocks


BLOCK = 100  # steps between two reports
FEWEST = 10  # draws of an interrupted first chain that are worth keeping


class Chains(NamedTuple):
    """Output of a sampler: arrays (n_chains, n_draws, ...), and whether it was interrupted."""

    parameters: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    interrupted: bool


def run_chains(
    start: Callable[[list[int]], Any],
    advance: Callable[[Any, int, bool], tuple[Any, dict[str, Any], dict[str, Any]]],
    groups: Sequence[list[int]],
    options: NUTS | Gibbs,
    on_block: Callable[[int, str], None] | None = None,
) -> Chains:
    """Run one group of chains after the other: warm-up, then draws, in blocks of 100.

    Parameters
    ----------
    start, advance : callable
        The sampler, see the module's documentation.
    groups : sequence of list of int
        Chains that advance together.
    options : NUTS or Gibbs
    on_block : callable, optional
        Called after every block with the number of steps done (over all groups) and what is being done.

    Raises
    ------
    KeyboardInterrupt
        If the run is interrupted before there is anything to keep. Later interrupts end the run and keep all
        finished chains, or, during the first, the blocks that are finished.
    """
    finished: list[tuple[dict, dict]] = []
    blocks: list[tuple[dict, dict]] = []
    done, interrupted = 0, False
    try:
        for group in groups:
            state, blocks = start(group), []
            for n, keep in _schedule(options):
                state, parameters, stats = advance(state, n, keep)
                if keep:
                    blocks.append((_to_numpy(parameters), _to_numpy(stats)))
                done += n
                if on_block is not None:
                    phase = "draws" if keep else "warm-up"
                    on_block(
                        done,
                        f"chain {group[0] + 1} of {options.n_chains}, {phase}" if len(group) == 1 else phase,
                    )
            finished.append(_joined(blocks, axis=1))
    except KeyboardInterrupt:
        interrupted = True
        if not finished:
            finished = [_joined(blocks, axis=1)] if blocks else []
        if not finished or next(iter(finished[0][0].values())).shape[1] < FEWEST:
            raise
    return Chains(*_joined(finished, axis=0), interrupted)


def _schedule(options: NUTS | Gibbs) -> list[tuple[int, bool]]:
    """List (steps, whether they are draws) of all blocks of one chain."""

    def split(total: int) -> list[int]:
        return [BLOCK] * (total // BLOCK) + ([total % BLOCK] if total % BLOCK else [])

    return [(n, False) for n in split(options.n_warmup)] + [(n, True) for n in split(options.n_draws)]


def _to_numpy(arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, values in arrays.items()}


def _joined(parts: list[tuple[dict, dict]], axis: int) -> tuple[dict, dict]:
    first, second = (
        {name: np.concatenate([part[k][name] for part in parts], axis=axis) for name in parts[0][k]}
        for k in (0, 1)
    )
    return first, second
