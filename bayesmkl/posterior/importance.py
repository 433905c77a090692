r"""Distance of a variational posterior from the exact one: Pareto k-hat of importance ratios.

Ratios p / q are heavy-tailed where q is too narrow. For a normal p that is τ times as wide as a normal q in some
direction, the shape k of their tail tends to :math:`1 - 1/\tau^2`: 0.7 stands for τ = 1.8.

Three distributions are compared. The numbers are those of the Wisconsin breast cancer data (100 samples, 8 kernels;
the standard deviation of the main share is 0.06 under q and 0.22 under the posterior):

* all N + P + 1 weights of the collapsed model (k = 2.1 to 2.7 over three seeds). In many dimensions small errors add
  up: a large k does not mean that marginals are wrong, it means that weighting draws cannot repair q;
* the kernel weights e alone, the rest integrated out as below (k = 1.2 to 1.3). Their common scale is weakly
  known and heavy-tailed: q has \|e\| near 0.6, the posterior between 3 and 70;
* the direction e / \|e\|, which is free of that scale (k = 1.0 to 1.2). So the scale is not all that makes q too
  narrow.

Integrating is Monte Carlo, and its noise has a tail of its own. That is measured too, by repeated estimates at the
mean of q: k = 0.4 to 1.1 there. So k-hats of the integrated ratios say little alone; their standard deviation, 2.4
nats where noise has 1.1, is the steadier sign.

The likelihood of the kernel weights alone has sample weights and intercept integrated out. Given e (and υ, ε in
regression) the score is a linear model :math:`m = X w` with :math:`X = [1, \sum_m e_m K_m]` and
:math:`w = (b, a)`, whose entries are Student t variables, normal given their precisions γ and λ:

.. math:: p(y \mid e) = \int \prod_i p(y_i \mid x_i^\top w)\, \prod_j N(w_j; 0, 1/\lambda_j)\, p(\lambda_j)
   \; dw\, d\lambda .

In regression the integral over w is a normal one. In classification expectation propagation (Minka 2001) finds
normal sites :math:`\exp(h_i m_i - \tfrac12 \tau_i m_i^2)` in the place of the label probabilities. The rest is
importance sampling:

* λ is drawn from Gamma distributions between prior and posterior. With
  :math:`\rho_j = 1 - \bar\lambda_j \Sigma_{jj}`, the part of :math:`w_j` that the data determine (MacKay 1992),
  they are :math:`\mathrm{Gamma}(c + \rho_j / 2,\; r + \rho_j E[w_j^2] / 2)`;
* given λ, w is drawn from the normal posterior under the sites, and weighted by the true label probabilities.

The estimate of p(y | e) is unbiased. Its logarithm is not, and its noise is what limits it: with 100 labels of the
Wisconsin breast cancer data, 8 kernels and 8 x 8 draws its standard deviation was 1.1 nats. A normal proposal for w
from variational updates at given e, the obvious choice, was off by 20 nats there: Student t variables that the data
leave free have tails that it never reaches.

References: T. Minka (2001), Expectation propagation for approximate Bayesian inference, UAI; D. MacKay (1992),
Bayesian interpolation, Neural Computation 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri
from scipy.special import log_ndtr

from bayesmkl._numerics.psis import good_k, smooth_weights
from bayesmkl._numerics.truncated_normal import truncated_moments
from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl.draws import log_gamma, log_weights, log_weights_prior, weights_quadratic
from bayesmkl.bemkl.moments import LOG_2PI, Gamma
from bayesmkl.posterior.evaluated import Evaluated
from bayesmkl.posterior.report import Section, line_of_text, of_models, table, worst

N_PRECISIONS, N_COEFFICIENTS = 8, 8  # draws of λ, and of w for each of them
DAMPING = 0.8  # of the sites' updates
COLD_STEPS, NEAR_STEPS, WARM_STEPS = 60, 15, 3


class Target(NamedTuple):
    """The linear model of given kernel weights."""

    design: np.ndarray  # X, (n_samples, 1 + n_train)
    y: np.ndarray  # (n_samples,)
    scale: float  # s, of the score around its mean
    margin: float | None  # None in regression
    concentration: np.ndarray  # of the Gamma priors on γ and λ, (1 + n_train,)
    rate: np.ndarray


class Sites(NamedTuple):
    """Normal factors exp(h m - τ m² / 2) for each sample, and the precisions that go with them."""

    precision: np.ndarray  # τ, (n_samples,)
    shift: np.ndarray  # h, (n_samples,)
    coefficient_precision: np.ndarray  # E[λ], (1 + n_train,)


class _Fit(NamedTuple):
    """Moments of w under the sites, and of m = X w."""

    mean: np.ndarray
    variance: np.ndarray
    score_mean: np.ndarray
    score_variance: np.ndarray


def target_of(problem: Any, kernel_weights: np.ndarray, scale: float) -> Target:
    """Set up the linear model of given kernel weights."""
    stack, priors = problem.stack, problem.priors
    design = np.column_stack([np.ones(stack.n_rows), stack.combine(kernel_weights)])
    concentration, rate = (
        np.concatenate([[own], np.full(stack.n_train, each)])
        for own, each in zip(priors.intercept, priors.sample, strict=True)
    )
    margin = None if problem.outcome.has_noise else float(problem.outcome.margin)
    return Target(design, problem.y, scale, margin, concentration, rate)


def first_sites(target: Target, near: Sites | None = None) -> Sites:
    """Find sites from a cold start, or from those of not too different kernel weights."""
    if near is not None:
        return _refine(target, near, NEAR_STEPS)[0]
    precision = target.concentration / target.rate
    if target.margin is None:
        return _refine(target, Sites(np.empty(0), np.empty(0), precision), COLD_STEPS)[0]
    start = Sites(np.full(len(target.y), 0.3 / target.scale**2), np.zeros(len(target.y)), precision)
    return _refine(target, start, COLD_STEPS)[0]


def log_marginal(target: Target, start: Sites, rng: np.random.Generator) -> float:
    """Estimate log p(y | e).

    Parameters
    ----------
    target : Target
    start : Sites
        Of similar kernel weights, from `first_sites`.
    rng : numpy.random.Generator
    """
    sites, fit = _refine(target, start, WARM_STEPS)
    determined = np.clip(1.0 - sites.coefficient_precision * fit.variance, 0.0, 1.0)
    concentration = target.concentration + 0.5 * determined
    rate = target.rate + 0.5 * determined * (fit.mean**2 + fit.variance)
    precisions = rng.gamma(concentration, 1.0 / rate, size=(N_PRECISIONS, len(rate)))
    prior, proposal = Gamma(target.concentration, target.rate), Gamma(concentration, rate)
    log_weights = (log_gamma(prior, precisions) - log_gamma(proposal, precisions)).sum(axis=-1)
    information = _information(target, sites)
    parts = [_log_given_precision(target, sites, information, precision, rng) for precision in precisions]
    return float(np.logaddexp.reduce(log_weights + np.array(parts)) - np.log(N_PRECISIONS))


def _log_given_precision(
    target: Target, sites: Sites, information: np.ndarray, precision: np.ndarray, rng: np.random.Generator
) -> float:
    """Estimate log p(y | e, λ): the evidence under the sites, times what they miss."""
    root = cholesky(information + np.diag(precision), lower=True, overwrite_a=True, check_finite=False)
    pull = solve_triangular(root, target.design.T @ sites.shift, lower=True, check_finite=False)
    evidence = 0.5 * np.log(precision).sum() - np.log(np.diag(root)).sum() + 0.5 * pull @ pull
    if target.margin is None:  # the sites are the likelihood, up to a constant
        standard = target.y / target.scale
        constant = -0.5 * standard @ standard - len(standard) * (np.log(target.scale) + 0.5 * LOG_2PI)
        return float(evidence + constant)
    noise = rng.standard_normal((len(pull), N_COEFFICIENTS))
    w = solve_triangular(root, pull[:, None] + noise, lower=True, trans="T", check_finite=False)
    m = target.design @ w
    y, tau, h = target.y[:, None], sites.precision[:, None], sites.shift[:, None]
    missed = log_ndtr((y * m - target.margin) / target.scale) - (h * m - 0.5 * tau * m**2)
    return float(evidence + np.logaddexp.reduce(missed.sum(axis=0)) - np.log(N_COEFFICIENTS))


def _refine(target: Target, sites: Sites, n_steps: int) -> tuple[Sites, _Fit]:
    """Alternate updates of the precisions E[λ] and, in classification, of the sites (in parallel, damped)."""
    if target.margin is None:
        tau = np.full(len(target.y), target.scale**-2.0)
        sites = Sites(tau, tau * target.y, sites.coefficient_precision)
    fit = _moments(target, sites)
    for _ in range(n_steps):
        square = fit.mean**2 + fit.variance
        precision = (target.concentration + 0.5) / (target.rate + 0.5 * square)
        if target.margin is not None:
            sites = _update_sites(target, sites, fit)
        sites = sites._replace(coefficient_precision=precision)
        fit = _moments(target, sites)
    return sites, fit


def _update_sites(target: Target, sites: Sites, fit: _Fit) -> Sites:
    """Match the moments of every score under its label and the other sites."""
    tau = np.maximum(1.0 / fit.score_variance - sites.precision, 1e-10)  # without the own site
    location = (fit.score_mean / fit.score_variance - sites.shift) / tau
    spread = np.sqrt(target.scale**2 + 1.0 / tau)
    cut = truncated_moments(location / spread, target.y, target.margin / spread)
    gradient = (cut.mean - location / spread) / spread  # of the log probability of the label in `location`
    curvature = (1.0 - cut.variance) / spread**2
    variance = 1.0 / tau - curvature / tau**2
    mean = location + gradient / tau
    new_precision = np.maximum(1.0 / variance - tau, 1e-12)
    new_shift = mean / variance - location * tau
    return sites._replace(
        precision=(1.0 - DAMPING) * sites.precision + DAMPING * new_precision,
        shift=(1.0 - DAMPING) * sites.shift + DAMPING * new_shift,
    )


def _moments(target: Target, sites: Sites) -> _Fit:
    precision = _information(target, sites) + np.diag(sites.coefficient_precision)
    root = cholesky(precision, lower=True, overwrite_a=True, check_finite=False)
    inverse = dtrtri(root, lower=1)[0]
    scores = inverse @ target.design.T
    mean = inverse.T @ (scores @ sites.shift)
    return _Fit(mean, (inverse**2).sum(axis=0), target.design @ mean, (scores**2).sum(axis=0))


def _information(target: Target, sites: Sites) -> np.ndarray:
    """Return ``X' diag(τ) X``."""
    return (target.design.T * sites.precision) @ target.design


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
        why_not = _why_no_marginal(model, len(models))
        if why_not is None:
            with blas_threads_for(model.problem.stack.n_train):
                own |= _marginal_tails(model, state, len(models), rng)
        else:
            remarks.add(f"No marginal ratios: {why_not}.")
        prefix = f"{name}: " if len(names) > 1 else ""
        for what, tail in own.items():
            numbers = (f"{tail['sd']:.1f}", f"{tail['effective']:.1f}", f"{tail['pareto_k']:.2f}")
            rows.append([prefix + WHAT[what], tail["n_draws"], *numbers])
        verdicts.append(_verdict(own))
        values[name] = own
    lines = table(["log p/q of", "draws", "sd (nats)", "effective", "k-hat"], rows)
    for remark in sorted(remarks):
        lines += line_of_text(remark)
    verdict, title = worst(verdicts), "Variational against exact posterior"
    advice = _advice(verdict, values, instead)
    return Section("importance", title, of_models(values), lines, verdict, advice)


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


def _why_no_marginal(model: Evaluated, n_models: int) -> str | None:
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
    pairs = zip(weights, precisions, strict=True)
    log_p = np.array([here.log_density(e, noise, sites, rng) + here.log_prior(e) for e, noise in pairs])
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
    priors, factors = model.problem.priors, (state.intermediate_precision, state.noise_precision)
    laws = zip((priors.intermediate, priors.noise), factors, strict=True)
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


def _advice(verdict: str, values: dict[str, dict[str, Any]], instead: str = INSTEAD) -> str:
    joint = max(own["joint"]["pareto_k"] for own in values.values())
    about_joint = (
        f" The k-hat of all weights, {joint:.1f}, says only that weighting draws of q cannot repair it: in so "
        "many dimensions small errors add up, and it does not mean that marginals or predictions are wrong."
    )
    about_joint = about_joint if joint > 0.7 else ""
    if verdict == "good":
        spread = "The kernel weights of the variational posterior are about as spread as the exact ones."
        return spread + about_joint
    marginal = {name: own for name, own in values.items() if "weights" in own}
    if not marginal:
        return f"Means and predictions may be fine, intervals are not to be trusted.{about_joint} {instead}"
    # whether ratios vary hardly more than repeated estimates of one of them
    if all(own["weights"]["sd"] < 1.5 * own["noise"]["sd"] for own in marginal.values()):
        return (
            "Whether the kernel weights are too narrow cannot be told: the Monte Carlo noise of the integrals is as "
            f"large as what they should show.{about_joint} {instead}"
        )
    largest = max(own["weights"]["pareto_k"] for own in marginal.values())
    noise = max(own["noise"]["pareto_k"] for own in marginal.values())
    floor = (
        f" The noise of the integrals alone reaches {noise:.1f}, and k-hats of so few draws change from seed to "
        "seed: compare the standard deviations of the ratios."
    )
    floor = floor if noise > 0.5 else ""
    return (
        f"The variational posterior of the kernel weights is too narrow: k-hat {largest:.1f} (0.7 would stand for "
        f"standard deviations 1.8 times too small).{floor}{about_joint} Trust means and predictions rather than "
        f"intervals; {instead}"
    )
