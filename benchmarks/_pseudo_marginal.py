r"""Exact posteriors of marginal models: chains on an approximate evidence, corrected to the exact one.

Hamiltonian chains move over the coordinates of `bayesmkl.gp.hyperpriors` on the log posterior whose evidence is
that of expectation propagation, from starts that are dispersed as the prior. Each of their draws then gets the weight

.. math:: W = \hat p(y \mid \theta) / Z_{EP}(\theta) .

With probit labels, :math:`p(y \mid \theta)` is the probability that all of :math:`z_i y_i` are positive,
:math:`z \sim N(0, C + I)`, of which `_orthants.py` has an unbiased estimate with a small variance, and weighted draws
of `z`. One of them by its weight, and a draw of the scores given it, which are normal, have the exact posterior in
the limit of many draws of :math:`\theta`, however many draws of `z` there are (Tran, Scharth, Pitt and Kohn 2013;
Vihola, Helske and Franks 2020; Filippone and Girolami 2014 for Gaussian processes). Under normal noise all weights
are one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from _orthants import positive_draws
from _weighted import Weighted
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import gammaln, logsumexp

from bayesmkl._numerics.psis import smooth_weights
from bayesmkl.gp.drawing import find_mode
from bayesmkl.gp.hyperposterior import Hypermodel, Mode, Point, evaluate, evaluate_slope
from bayesmkl.outcomes import Probit

TOL = 3e-4  # of sites, in standard deviations of scores
LENGTHS = (1.0, 2.0)  # of trajectories, in standard deviations
SETTLE = 5  # first steps, which no metric is made of
SHRINK = 3.0  # draws per coordinate for which the covariance of the warm-up is half trusted
FARTHEST = 3.0  # nats below the mode at which a chain may start, per coordinate
CLOSER = 0.8
DIVERGED = 1000.0  # error of the energy
JITTER = 1e-10  # of the mean diagonal
DF = 8.0  # of the t density that the evidence is bridged with


class Chains(NamedTuple):
    """Draws of coordinates, (n_chains, n_draws, n_coordinates), what was found at each, and how it went."""

    coordinates: np.ndarray
    points: list[list[Point]]
    accepted: float
    n_divergent: int
    n_evaluations: int


class Exact(NamedTuple):
    """Weighted draws from the exact posterior; all arrays begin with (n_chains, n_draws).

    Attributes
    ----------
    log_weights : ndarray of shape (n_chains, n_draws)
        Logarithms of the exact evidence over the approximate one.
    quantities : dict of ndarray
        Named numbers of every draw.
    spread : float
        Median relative variance of the weights of scores at given hyperparameters.
    inner_k : ndarray
        k-hat of these weights, at every tenth draw.
    residual : float
        Largest difference of a score from the sum of its parts, in its standard deviations.
    """

    log_weights: np.ndarray
    quantities: dict[str, np.ndarray]
    spread: float
    inner_k: np.ndarray
    residual: float


class _State(NamedTuple):
    u: np.ndarray
    point: Point
    slope: np.ndarray


# ---------------------------------------------------------------------------------------------------- chains


def run_chains(
    model: Hypermodel, n_chains: int, n_warmup: int, n_draws: int, acceptance: float, seed: int
) -> Chains:
    """Run Hamiltonian chains side by side; in warm-up they share step size and metric."""
    rng = np.random.default_rng(seed)
    mode = find_mode(model)
    states = [_dispersed(model, mode, rng) for _ in range(n_chains)]
    size, root, step = model.n_coordinates, np.linalg.cholesky(mode.cov), 1.2 * model.n_coordinates**-0.25
    window: list[np.ndarray] = []  # of warm-up, which the metric is made of
    rows: list[list[_State]] = []
    accepted, n_divergent, n_evaluations = [], 0, mode.n_evaluations
    for i in range(n_warmup + n_draws):
        probabilities = np.empty(n_chains)
        for c, state in enumerate(states):
            length = rng.uniform(*LENGTHS)
            n_steps = max(1, round(length / step))
            states[c], probabilities[c], error = _trajectory(
                model, state, root, length / n_steps, n_steps, rng
            )
            n_evaluations += n_steps
            n_divergent += int(i >= n_warmup and error > DIVERGED)
        if i >= n_warmup:
            rows.append(list(states))
            accepted.append(probabilities.mean())
            continue
        step *= math.exp(2.0 / math.sqrt(4.0 + i) * (probabilities.mean() - acceptance))
        if i >= SETTLE:
            window.extend(_one_side(model, state.u, mode.coordinates) for state in states)
        if i + 1 in (n_warmup // 2, n_warmup - n_warmup // 5):
            trust = len(window) / (len(window) + SHRINK * size)
            own = np.cov(np.transpose(window)).reshape(size, size)
            root = np.linalg.cholesky(trust * own + (1.0 - trust) * mode.cov)
            window.clear()
    chains = list(zip(*rows, strict=True))
    return Chains(
        np.array([[state.u for state in chain] for chain in chains]),
        [[state.point for state in chain] for chain in chains],
        float(np.mean(accepted)),
        n_divergent,
        n_evaluations,
    )


def _dispersed(model: Hypermodel, mode: Mode, rng: np.random.Generator) -> _State:
    """Start from a draw of the prior, moved towards the mode until it is not impossible."""
    away = rng.standard_normal(model.n_coordinates) - mode.coordinates
    least = mode.point.log_density - FARTHEST * model.n_coordinates
    while True:
        u = mode.coordinates + away
        away = CLOSER * away
        try:
            state = _State(u, *evaluate_slope(model, u, None, tol=TOL))
        except np.linalg.LinAlgError:
            continue
        if state.point.log_density > least:
            return state


def _one_side(model: Hypermodel, u: np.ndarray, mode: np.ndarray) -> np.ndarray:
    """Return the mirror image of coordinates on the side of the mode, where signs of weights do not matter."""
    if not isinstance(model.covariance, Weighted):
        return u
    n, u = model.n_weights, u.copy()
    if u[:n] @ mode[:n] < 0.0:
        u[:n] *= -1.0
    return u


def _trajectory(
    model: Hypermodel, state: _State, root: np.ndarray, step: float, n_steps: int, rng: np.random.Generator
) -> tuple[_State, float, float]:
    """Follow the Hamiltonian flow; return the next state, the probability that it was taken, and the error."""
    momentum = rng.standard_normal(len(state.u))
    before = state.point.log_density - 0.5 * momentum @ momentum
    threshold, at = math.log(rng.random()), state
    momentum = momentum + 0.5 * step * (root.T @ at.slope)
    for i in range(n_steps):
        u = at.u + step * (root @ momentum)
        try:
            at = _State(u, *evaluate_slope(model, u, at.point.sites, tol=TOL))
        except np.linalg.LinAlgError:
            return state, 0.0, np.inf
        momentum = momentum + (0.5 if i == n_steps - 1 else 1.0) * step * (root.T @ at.slope)
    gain = at.point.log_density - 0.5 * momentum @ momentum - before
    probability = math.exp(min(0.0, gain)) if math.isfinite(gain) else 0.0
    return (at if threshold < gain else state), probability, -gain if math.isfinite(gain) else np.inf


# ------------------------------------------------------------------------------------------------ correction


def correct(model: Hypermodel, chains: Chains, n_scores: int, seed: int) -> Exact:
    """Weight the draws of chains for the exact posterior, and draw scores and their parts."""
    rng = np.random.default_rng(seed)
    n_chains, n_draws, _ = chains.coordinates.shape
    factors = None if isinstance(model.covariance, Weighted) else _factors(model)
    log_weights, spreads, tails, residuals = np.empty((n_chains, n_draws)), [], [], []
    rows: list[dict[str, np.ndarray]] = []
    for c in range(n_chains):
        for i in range(n_draws):
            u, point = chains.coordinates[c, i], chains.points[c][i]
            weights, parameters = model.values(u)
            root, score, log_ratio, inner = exact_score(model, weights, parameters[0], point, n_scores, rng)
            log_weights[c, i] = log_ratio
            spreads.append(np.exp(logsumexp(2.0 * inner) - 2.0 * logsumexp(inner)) * len(inner) - 1.0)
            if i % 10 == 0:
                tails.append(float(smooth_weights(inner)[1]) if len(inner) > 1 else 0.0)
            if factors is None:
                row, residual = _weighted_parts(model, weights, root, score, rng)
            else:
                row, residual = _additive_parts(model, factors, weights, root, score, rng)
            row["total_sd"] = np.array([(root @ score).std()])
            if parameters.size:
                row["noise_sd"] = parameters[0]
            rows.append(row)
            residuals.append(residual)
    quantities = {
        name: np.array([row[name] for row in rows]).reshape(n_chains, n_draws, -1) for name in rows[0]
    }
    return Exact(
        log_weights, quantities, float(np.median(spreads)), np.array(tails), float(np.max(residuals))
    )


def exact_score(
    model: Hypermodel,
    weights: np.ndarray,
    parameters: np.ndarray,
    point: Point,
    n_scores: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Draw whitened scores; return the factor of their covariance, one of them, log W and all log weights."""
    y = model.targets[0]
    matrix = np.asarray(model.covariance.matrix(weights))
    root = np.linalg.cholesky(matrix + JITTER * np.trace(matrix) / len(y) * np.eye(len(y)))
    if isinstance(model.likelihood, Probit):
        labels, inner = positive_draws((root @ root.T + np.eye(len(y))) * np.outer(y, y), n_scores, rng)
        std, noisy = 1.0, y * labels[:, rng.choice(n_scores, p=np.exp(inner - logsumexp(inner)))]
        log_ratio = float(logsumexp(inner)) - math.log(n_scores) - point.log_evidence
    else:
        std, noisy, inner, log_ratio = float(parameters[0]), y, np.zeros(1), 0.0
    lower = np.linalg.cholesky(root @ root.T + std**2 * np.eye(len(y)))
    whitened = rng.standard_normal(len(y))
    surprise = noisy - root @ whitened - std * rng.standard_normal(len(y))
    return root, whitened + root.T @ cho_solve((lower, True), surprise), log_ratio, inner


def _factors(model: Hypermodel) -> np.ndarray:
    """Factorize the kernels in their units, (n_kernels, n_samples, n_samples)."""
    found = []
    for kernel, unit in zip(model.covariance.stack.each(), model.covariance.units, strict=True):
        floor = JITTER * np.trace(kernel) / len(kernel) * np.eye(len(kernel))
        found.append(np.linalg.cholesky(kernel + floor) / math.sqrt(unit))
    return np.array(found)


def surprise(root: np.ndarray, whitened: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the inverse covariance times ``root @ whitened``, a score, minus a draw of the prior."""
    return solve_triangular(root, whitened - solve_triangular(root, prior, lower=True), lower=True, trans="T")


def _additive_parts(
    model: Hypermodel,
    factors: np.ndarray,
    weights: np.ndarray,
    root: np.ndarray,
    score: np.ndarray,
    rng: np.random.Generator,
) -> tuple[dict[str, np.ndarray], float]:
    """Draw the parts of a score by Matheron's rule, and return what is kept of them."""
    covariance, n = model.covariance, len(score)
    parts = weights[:, None] * np.einsum("mij,mj->mi", factors, rng.standard_normal((len(weights), n)))
    intercept = covariance.intercept_std * rng.standard_normal()
    dual = surprise(root, score, parts.sum(axis=0) + intercept)
    parts += (weights**2 / covariance.units)[:, None] * covariance.stack.apply(dual)
    intercept += covariance.intercept_std**2 * dual.sum()
    residual = _residual(parts.sum(axis=0) + intercept, root @ score)
    return {"share": _variance_shares(parts), "weight": weights}, residual


def _weighted_parts(
    model: Hypermodel, weights: np.ndarray, root: np.ndarray, score: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], float]:
    """Draw weights of samples and noise of intermediate outputs given a score."""
    covariance, n = model.covariance, len(score)
    mixed, std = covariance.stack.combine(weights), covariance.intermediate_std
    a, noise = rng.standard_normal(n), std * rng.standard_normal((len(weights), n))
    intercept = covariance.intercept_std * rng.standard_normal()
    dual = surprise(root, score, mixed @ a + weights @ noise + intercept)
    a = a + mixed.T @ dual
    noise = noise + std**2 * np.outer(weights, dual)
    intercept += covariance.intercept_std**2 * dual.sum()
    functions = weights[:, None] * covariance.stack.apply(a)
    parts = functions + weights[:, None] * noise
    spread = functions.std(axis=1)
    row = {"share": spread / spread.sum(), "variance_share": _variance_shares(parts)}
    return row, _residual(parts.sum(axis=0) + intercept, root @ score)


def _variance_shares(parts: np.ndarray) -> np.ndarray:
    around = parts - parts.mean(axis=1, keepdims=True)
    products = around @ around.sum(axis=0)
    return products / products.sum()


def _residual(total: np.ndarray, score: np.ndarray) -> float:
    return float(np.abs(total - score).max() / score.std())


# --------------------------------------------------------------------------------------------------- reading


def agreement(exact: Exact, name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return R-hat and effective number of draws of every number of a quantity, weights included.

    Draws of each chain are resampled by their weights without a change of order, so that what was drawn twice counts
    as what it is, a chain that stands still.
    """
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(seed)
    values = exact.quantities[name]
    chains = np.stack([
        own[resampled(log_weights, len(own), rng)]
        for own, log_weights in zip(values, exact.log_weights, strict=True)
    ])  # fmt: skip
    by_number = np.moveaxis(chains, -1, 0)
    rhat = [float(array_stats.rhat(draws)) for draws in by_number]
    ess = [float(array_stats.ess(draws)) for draws in by_number]
    return np.array(rhat), np.array(ess)


def resampled(log_weights: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return positions of equally likely draws, systematically and in order."""
    weights = np.exp(log_weights.ravel() - logsumexp(log_weights))
    steps = (rng.random() + np.arange(n_draws)) / n_draws
    return np.minimum(np.searchsorted(np.cumsum(weights), steps), weights.size - 1)


def log_evidence(
    model: Hypermodel, chains: Chains, log_weights: np.ndarray, n_points: int, seed: int
) -> tuple[float, float]:
    """Return the exact log evidence, hyperparameters integrated out, and its standard error.

    The approximate posterior is bridged with a t density that has its moments (Meng and Wong 1996); what the weights
    are on average is the exact evidence over the approximate one.
    """
    rng = np.random.default_rng(seed)
    u = chains.coordinates.reshape(-1, model.n_coordinates)
    log_target = np.array([point.log_density for chain in chains.points for point in chain])
    sites = [point.sites for chain in chains.points for point in chain]
    mirrored = isinstance(model.covariance, Weighted)
    at = np.array([_one_side(model, one, u[-1]) for one in u])
    mean, root = at.mean(axis=0), np.linalg.cholesky(np.cov(at.T).reshape(u.shape[1], u.shape[1]))
    size, df = u.shape[1], max(DF, 0.75 * u.shape[1])

    signs = np.where(np.arange(size) < model.n_weights, -1.0, 1.0)

    def log_t(points: np.ndarray) -> np.ndarray:
        z = solve_triangular(root, (points - mean).T, lower=True)
        height = gammaln(0.5 * (df + size)) - gammaln(0.5 * df) - 0.5 * size * math.log(df * math.pi)
        return height - np.log(np.diag(root)).sum() - 0.5 * (df + size) * np.log1p((z**2).sum(axis=0) / df)

    def log_proposal(points: np.ndarray) -> np.ndarray:
        if not mirrored:
            return log_t(points)
        return np.logaddexp(log_t(points), log_t(points * signs)) - math.log(2.0)

    scale = np.sqrt(rng.chisquare(df, (n_points, 1)) / df)
    proposed = mean + rng.standard_normal((n_points, size)) @ root.T / scale
    found = np.full(n_points, -np.inf)
    for i, point in enumerate(proposed):
        nearest = int(np.argmin(((at - point) ** 2).sum(axis=1)))
        try:
            found[i] = evaluate(model, point, sites[nearest], tol=1e-2)[0].log_density
        except np.linalg.LinAlgError:
            continue
    constant = -0.5 * size * math.log(2.0 * math.pi)  # of the prior
    own = log_target + constant - log_proposal(u)
    other = found + constant - log_proposal(proposed)
    share = len(own) / (len(own) + n_points)
    log_z = float(np.median(own))
    for _ in range(200):
        above = other - np.logaddexp(math.log(share) + other, math.log(1.0 - share) + log_z)
        below = -np.logaddexp(math.log(share) + own, math.log(1.0 - share) + log_z)
        log_z = float(logsumexp(above) - math.log(n_points) - logsumexp(below) + math.log(len(own)))
    errors = [np.exp(terms - terms.max()) for terms in (above, below)]
    errors.append(np.exp(log_weights.ravel() - log_weights.max()))
    variance = sum(terms.var() / terms.mean() ** 2 / terms.size for terms in errors)
    correction = float(logsumexp(log_weights) - math.log(log_weights.size))
    return log_z + correction, math.sqrt(variance)
