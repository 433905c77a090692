r"""Distance of a variational posterior from the exact one: Pareto k-hat of importance ratios.

Ratios p / q are heavy-tailed where q is too narrow. For a normal p that is τ times as wide as a normal q in some
direction, the shape k of their tail tends to :math:`1 - 1/\tau^2`: 0.7 stands for τ = 1.8.

Three distributions are compared. The numbers are those of the Wisconsin breast cancer data (100 samples, 8 kernels;
the standard deviation of the main share is 0.06 under q and 0.22 under the posterior):

* all N + P + 1 weights of the collapsed model (k = 2.1 to 2.7 over three seeds). In many dimensions small errors add
  up: a large k does not mean that marginals are wrong, it means that weighting draws cannot repair q;
* the kernel weights e alone, the rest integrated out by `marginal` (k = 1.2 to 1.3). Their common scale is weakly
  known and heavy-tailed: q has \|e\| near 0.6, the posterior between 3 and 70;
* the direction e / \|e\|, which is free of that scale (k = 1.0 to 1.2). So the scale is not all that makes q too
  narrow.

Integrating is Monte Carlo, and its noise has a tail of its own. That is measured too, by repeated estimates at the
mean of q: k = 0.4 to 1.1 there. So k-hats of the integrated ratios say little alone; their standard deviation, 2.4
nats where noise has 1.1, is the steadier sign.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl.draws import log_gamma, log_weights, log_weights_prior, weights_quadratic
from bayesmkl.bemkl.model import State
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.marginal import Sites, Target, first_sites, log_marginal, target_of
from bayesmkl.posterior.report import Section, line_of_text, table, worst

MOST_DRAWS, FEWEST_DRAWS = 200, 100  # of the marginal ratios
BUDGET = 5e9  # evaluations of the marginal likelihood times N³, for all models together: ten seconds or so
RADII = 2.0 ** np.arange(
    -3, 8
)  # of e, relative to the mean of q: where the profile over the radius is sought
LEAST_CONCENTRATION = 0.5  # with less, the collapsed prior of e is all spike and tail
INSTEAD = 'GPMKLClassifier, GPMKLRegressor and inference="nuts" give intervals that can be read.'
WHAT = {
    "joint": "all weights (a, b, e)",
    "weights": "kernel weights e alone",
    "direction": "their direction e/|e|",
    "noise": "Monte Carlo noise in these two",
}


def importance_section(
    names: list[str],
    models: list[Evaluated],
    states: list[Any],
    log_ratios: list[np.ndarray],
    rng: np.random.Generator,
    instead: str = INSTEAD,
) -> Section:
    """Judge a variational posterior by its importance ratios.

    Parameters
    ----------
    names : list of str
        Of the models.
    models : list of Evaluated
        Draws of the variational posteriors.
    states : list of State
        Their factors.
    log_ratios : list of array of shape (n_draws,)
        ``log p(y, a, b, e) - log q(a, b, e)``.
    rng : numpy.random.Generator
    instead : str, optional
        What gives intervals that hold, for the advice.
    """
    values, rows, verdicts, remarks = {}, [], [], set()
    for name, model, state, ratios in zip(names, models, states, log_ratios, strict=True):
        own: dict[str, Any] = {"joint": tail_of(ratios)}
        why_not = _why_no_marginal(model, state, len(models))
        if why_not is None:
            with blas_threads_for(model.problem.stack.n_train):
                own |= _marginal_tails(model, state, len(models), rng)
        else:
            remarks.add(f"No marginal ratios: {why_not}.")
        prefix = f"{name}: " if len(names) > 1 else ""
        rows += [
            [
                prefix + WHAT[what],
                t["n_draws"],
                f"{t['sd']:.1f}",
                f"{t['effective']:.1f}",
                f"{t['pareto_k']:.2f}",
            ]
            for what, t in own.items()
        ]
        verdicts.append(_verdict(own))
        values[name] = own
    lines = table(["log p/q of", "draws", "sd (nats)", "effective", "k-hat"], rows)
    for remark in sorted(remarks):
        lines += line_of_text(remark)
    single = values if len(names) > 1 else values[names[0]]
    verdict = worst(verdicts)
    return Section(
        "importance",
        "Variational against exact posterior",
        single,
        lines,
        verdict,
        _advice(verdict, values, instead),
    )


def tail_of(log_ratios: np.ndarray) -> dict[str, float]:
    """Return k-hat, effective number of draws and standard deviation of log importance ratios."""
    log_weights, pareto_k = smooth_weights(log_ratios)
    return {
        "n_draws": len(log_ratios),
        "sd": float(log_ratios.std(ddof=1)),
        "effective": float(1.0 / np.exp(2.0 * log_weights).sum()),
        "pareto_k": float(pareto_k),
        "good_k": good_k(len(log_ratios)),
    }


def _why_no_marginal(model: Evaluated, state: State, n_models: int) -> str | None:
    problem, n_train = model.problem, model.problem.stack.n_train
    if any(prior.concentration < LEAST_CONCENTRATION for prior in problem.priors):
        return "a sparse prior has its mass at zero and at infinity, where no importance sampler goes"
    if model.is_multinomial:
        return "classes that compete have no closed-form likelihood, which the integrals need"
    if problem.absent is not None:
        return "where views are missing, the score is no linear function of one set of kernels"
    if (problem.y == 0.0).any() and not model.is_regression:
        return "scores of unlabeled samples lie on two sides, which no normal site describes"
    if _n_draws(n_train, n_models * len(model.outputs), 2) < FEWEST_DRAWS:
        return f"with {n_train} training samples the integrals would take minutes"
    return None


def _n_draws(n_train: int, n_models: int, n_evaluations: int) -> int:
    return min(MOST_DRAWS, int(BUDGET / n_models / n_evaluations / n_train**3))


class _Marginal(NamedTuple):
    """Marginals that the ratios of the kernel weights need: q(e), and in regression draws of υ and ε.

    Given e the outputs are independent: their marginal likelihoods are multiplied.
    """

    model: Evaluated
    readout: Any  # q(b, e)
    mean: np.ndarray  # E[e]
    precisions: np.ndarray  # (n_draws, n_outputs, 2): υ and ε; known and 1 in classification

    def targets(self, weights: np.ndarray, precisions: np.ndarray) -> list[Target]:
        scales = np.sqrt(1.0 / precisions[:, 1] + weights @ weights / precisions[:, 0])
        return [
            target_of(output.problem, weights, float(scale))
            for output, scale in zip(self.model.outputs, scales, strict=True)
        ]

    def first_sites(
        self, weights: np.ndarray, precisions: np.ndarray, near: list[Sites] | None = None
    ) -> list[Sites]:
        targets = self.targets(weights, precisions)
        starts: Any = [None] * len(targets) if near is None else near
        return [first_sites(*pair) for pair in zip(targets, starts, strict=True)]

    def log_density(
        self, weights: np.ndarray, precisions: np.ndarray, sites: list[Sites], rng: np.random.Generator
    ) -> float:
        """Estimate log p(y | e)."""
        pairs = zip(self.targets(weights, precisions), sites, strict=True)
        return float(sum(log_marginal(target, own, rng) for target, own in pairs))

    def log_prior(self, weights: np.ndarray) -> float:
        draw = self.model.flat._replace(kernel_weights=weights[None])
        return float(log_weights_prior(self.model.problem.priors.kernel, draw)[0])


def _marginal_tails(
    model: Evaluated, state: Any, n_models: int, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    n_train, flat, readout = model.problem.stack.n_train, model.flat, state.readout
    n_integrals = n_models * len(model.outputs)
    n = min(_n_draws(n_train, n_integrals, 2), len(flat.intercept))
    weights, shape = flat.kernel_weights[:n], (n, len(model.outputs), 2)
    if model.is_regression:
        precisions = np.stack([flat.intermediate_precision, flat.noise_precision], axis=-1)[:n].reshape(shape)
        factors = [state.intermediate_precision.mean, state.noise_precision.mean]
        own = _noise_ratios(model, state, precisions)
    else:
        factors, own = [model.problem.intermediate_precision, 1.0], np.zeros(n)
        precisions = np.broadcast_to(factors, shape)
    mean_precisions = np.broadcast_to(np.stack(factors, axis=-1), shape[1:])
    here = _Marginal(model, readout, readout.mean[-weights.shape[1] :], precisions)
    sites = here.first_sites(here.mean, mean_precisions)
    log_p = np.array(
        [
            here.log_density(e, noise, sites, rng) + here.log_prior(e)
            for e, noise in zip(weights, precisions, strict=True)
        ]
    )
    tails = {"weights": tail_of(log_p - log_weights(readout, weights) + own)}
    if _n_draws(n_train, n_integrals, 6) >= FEWEST_DRAWS and n >= FEWEST_DRAWS and len(here.mean) > 1:
        half = max(n // 2, FEWEST_DRAWS)  # every direction takes four integrals
        ratios = _direction_ratios(here, weights[:half], mean_precisions, rng)
        tails["direction"] = tail_of(ratios + own[:half])
    again = [here.log_density(here.mean, mean_precisions, sites, rng) for _ in range(n)]
    tails["noise"] = tail_of(np.array(again))
    return tails


def _noise_ratios(model: Evaluated, state: Any, precisions: np.ndarray) -> np.ndarray:
    """Return the log prior over variational density of (υ, ε), over (n_draws, n_outputs, 2) of them."""
    priors = model.problem.priors
    laws = (
        (priors.intermediate, state.intermediate_precision),
        (priors.noise, state.noise_precision),
    )
    total = np.zeros(len(precisions))
    for (prior, factor), values in zip(laws, np.moveaxis(precisions, -1, 0), strict=True):
        total += (log_gamma(prior, values) - log_gamma(factor, values)).sum(axis=1)
    return total


def _direction_ratios(
    here: _Marginal, weights: np.ndarray, mean_precisions: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return log ratios of directions: densities of e integrated along rays, by the trapezoidal rule."""
    n_kernels = weights.shape[1]
    directions = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    center = here.mean / np.linalg.norm(here.mean)

    def along(radius: float, direction: np.ndarray, noise: np.ndarray, sites: list[Sites]) -> float:
        weights = radius * direction
        density = here.log_density(weights, noise, sites, rng) + here.log_prior(weights)
        return density + n_kernels * np.log(radius)

    radii, sites, near = np.linalg.norm(here.mean) * RADII, [], None
    for radius in radii:
        near = here.first_sites(radius * center, mean_precisions, near)
        sites.append(near)
    profile = [along(radius, center, mean_precisions, own) for radius, own in zip(radii, sites, strict=True)]
    peak = int(np.clip(np.argmax(profile), 1, len(radii) - 3))
    nodes = range(peak - 1, peak + 3)
    log_p = [
        np.logaddexp.reduce([along(radii[k], u, noise, sites[k]) for k in nodes])
        for u, noise in zip(directions, here.precisions, strict=False)
    ]
    return np.array(log_p) - np.array([_log_ray(here, u) for u in directions])


def _log_ray(here: _Marginal, direction: np.ndarray) -> float:
    """Return the log of the integral of q(e) along a ray, up to a constant common to all rays."""
    linear, precision = weights_quadratic(here.readout, len(direction))
    curvature, pull = direction @ precision @ direction, direction @ linear
    furthest = max(pull / curvature, 0.0) + 10.0 / np.sqrt(curvature)
    radius = furthest * np.exp(np.linspace(-12.0, 0.0, 1000))
    log_density = pull * radius - 0.5 * curvature * radius**2 + len(direction) * np.log(radius)
    return float(np.logaddexp.reduce(log_density))


def _verdict(own: dict[str, Any]) -> str:
    judged = [own[what] for what in ("weights", "direction") if what in own] or [own["joint"]]
    return "good" if all(t["pareto_k"] <= t["good_k"] for t in judged) else "caution"


def _is_noise(own: dict[str, Any]) -> bool:
    """Return whether the ratios of the kernel weights vary hardly more than repeated estimates of one of them."""
    return own["weights"]["sd"] < 1.5 * own["noise"]["sd"]


def _advice(verdict: str, values: dict[str, dict[str, Any]], instead: str = INSTEAD) -> str:
    joint = max(own["joint"]["pareto_k"] for own in values.values())
    about_joint = (
        ""
        if joint <= 0.7
        else f" The k-hat of all weights, {joint:.1f}, says only that weighting draws of q cannot repair it: in so "
        "many dimensions small errors add up, and it does not mean that marginals or predictions are wrong."
    )
    if verdict == "good":
        return (
            "The kernel weights of the variational posterior are about as spread as the exact ones."
            + about_joint
        )
    marginal = {name: own for name, own in values.items() if "weights" in own}
    if not marginal:
        return f"Means and predictions may be fine, intervals are not to be trusted.{about_joint} {instead}"
    if all(_is_noise(own) for own in marginal.values()):
        return (
            "Whether the kernel weights are too narrow cannot be told: the Monte Carlo noise of the integrals is as "
            f"large as what they should show.{about_joint} {instead}"
        )
    largest = max(own["weights"]["pareto_k"] for own in marginal.values())
    noise = max(own["noise"]["pareto_k"] for own in marginal.values())
    floor = (
        f" The noise of the integrals alone reaches {noise:.1f}, and k-hats of so few draws change from seed to "
        "seed: compare the standard deviations of the ratios."
        if noise > 0.5
        else ""
    )
    return (
        f"The variational posterior of the kernel weights is too narrow: k-hat {largest:.1f} (0.7 would stand for "
        f"standard deviations 1.8 times too small).{floor}{about_joint} Trust means and predictions rather than "
        f"intervals; {instead}"
    )
