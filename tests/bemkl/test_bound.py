"""The bound of every model: exact by Monte Carlo, never falling, flat at convergence, the same on JAX.

Monte Carlo estimates E_q[log p - log q] with every density from scipy.stats. Wrong bounds that others have published
must fail the same comparison: without the squared distance between the truncated mean and its location, with the
product of means in the place of E[G G'], and with the terms of shared weights once per output.

For slopes, parameters move in their own units: means by posterior standard deviations, covariance entries by the
product of two of them, Gamma parameters by factors. The bound is counted in nats, so the slopes have no units.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    STANDARD_ERRORS,
    arrays_of,
    assert_same_factors,
    frozen,
    informed_target,
    random_covariance,
    random_gamma,
    random_gaussian,
    random_kernels,
    step,
)
from scipy import linalg, stats

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.truncated_normal import TruncatedMoments
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl import moments, nonnegative, outputs
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.moments import Gamma, Gaussian, IntermediateOutputs
from bayesmkl.bemkl.nonnegative import CutOffNormals, CutOffPair, NonnegativeReadout
from bayesmkl.bemkl.outputs import CompletedOutputs, readout_of
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Classes, Labels, Numbers

pytestmark = pytest.mark.heavy

N_OUTPUTS, N_KERNELS, N_SAMPLES = 3, 3, 7
PRECISIONS = ("sample", "intercept", "kernel", "intermediate", "noise")
SINGLE = ("binary", "semi-supervised", "regression")
SEVERAL = ("labels", "targets", "classes")
MODELS = pytest.mark.parametrize("model", SINGLE + SEVERAL)
KINDS = ["smooth", "rank deficient", "duplicated", "near identity", "badly scaled"]
PLAIN = LoopOptions(max_iter=30, tol=0.0, accelerate=False)
STEP, FLAT = 1e-4, 1e-4


def targets_of(model, rng, kernels, n_outputs=N_OUTPUTS):
    """Return what a model is told of targets that the first kernel explains up to some noise."""
    y = np.array([informed_target(rng, kernels) for _ in range(1 if model in SINGLE else n_outputs)])
    y = y - np.median(y, axis=1, keepdims=True)
    if model == "classes":
        y = np.where(y.argmax(axis=0) == np.arange(n_outputs)[:, None], 1.0, -1.0)
    elif model not in ("regression", "targets"):
        y = np.where(y > 0.0, 1.0, -1.0)
    if model == "semi-supervised":
        y[:, -3:] = 0.0
    return y[0] if model in SINGLE else y


def problem_of(model, kernels, y, prior="non-sparse", margin=0.8, sigma=0.7):
    """Return problem and deterministic start."""
    stack, is_number = DenseStack(frozen(kernels)), model in ("regression", "targets")
    outcome = Numbers() if is_number else Classes(margin) if model == "classes" else Labels(margin)
    priors = (REGRESSION_PRIORS if is_number else BINARY_PRIORS)[prior]
    precision = None if is_number else sigma**-2
    problem = Problem(stack, frozen(stack.gram()), frozen(y), priors, outcome, precision)
    return problem, bemkl.init(problem, np.full(y.shape[-1], 0.0 if is_number else 1.0))


def random_problem(model, rng, n_samples=N_SAMPLES, n_kernels=N_KERNELS, kind="smooth", **options):
    kernels = random_kernels(rng, n_samples, n_kernels, kind)
    return problem_of(model, kernels, targets_of(model, rng, kernels), **options)


def location_of(problem, state):
    return (moments if problem.y.ndim == 1 else outputs).latent_mean(state.intermediate, state.readout)


def latent_at(problem, loc):
    """Return q(f) at a location."""
    return problem.outcome.update(problem.y, loc, 1.0, None)[0]


# ----------------------------------------------------------------------------------------------------- Monte Carlo


def gamma_law(factor):
    return stats.gamma(factor.concentration, scale=1.0 / np.asarray(factor.rate))


def normal(factor):
    return stats.multivariate_normal(factor.mean, factor.cov)


def deviation(draws, value):
    """Return how many standard errors lie between the mean of the draws and `value`."""
    return abs(draws.mean() - value) * np.sqrt(draws.size) / draws.std()


def one_output(state, output):
    """Return what `state` says of one output, as the state of the model of one."""
    if state.dual.mean.ndim == 1:
        return state
    shared = state.intermediate.cov.ndim == 2

    def own(factor):
        return None if factor is None else factor._replace(rate=factor.rate[output])

    return state._replace(
        sample_precision=own(state.sample_precision),
        dual=Gaussian(*(field[output] for field in state.dual)),
        intermediate=IntermediateOutputs(
            state.intermediate.mean[output],
            *(part if shared else part[output] for part in state.intermediate[1:3]),
        ),
        intercept_precision=own(state.intercept_precision),
        readout=readout_of(output, state.readout, len(state.dual.mean)),
        latent=state.latent and type(state.latent)(*(field[output] for field in state.latent)),
        intermediate_precision=own(state.intermediate_precision),
        noise_precision=own(state.noise_precision),
    )


def random_state(rng, problem):
    """Return random factors, and the location of q(f): no optimum, so that no term of the bound hides."""
    lead, (n_kernels, n_samples) = problem.y.shape[:-1], (problem.stack.n_kernels, problem.y.shape[-1])
    n_outputs = int(np.prod(lead))

    def gaussians(size, n):
        found = [random_gaussian(rng, size, 0.3) for _ in range(n)]
        return Gaussian(*(np.array(field) for field in zip(*found, strict=True)))

    duals, has_noise = gaussians(n_samples, n_outputs), problem.outcome.has_noise
    columns = gaussians(n_kernels, n_outputs if has_noise else 1)
    own = [field[0] if not (lead and has_noise) else field for field in columns[1:]]
    loc = rng.normal(size=problem.y.shape)
    noise = random_gamma(rng, *lead) if has_noise else None
    state = State(
        random_gamma(rng, *lead, n_samples),
        Gaussian(*(field if lead else field[0] for field in duals)),
        IntermediateOutputs(rng.normal(size=(*lead, n_kernels, n_samples)), *own),
        random_gamma(rng, *lead),
        random_gamma(rng, n_kernels),
        random_gaussian(rng, n_outputs + n_kernels, 0.3),
        None if has_noise else latent_at(problem, loc),
        noise,
        random_gamma(rng, *lead) if has_noise else None,
    )
    return state, loc


def random_readout(rng, n_kernels):
    """Return a q(b, e) of weights that are not negative, no optimum."""
    if n_kernels == 2:
        precision = np.linalg.inv(random_covariance(rng, 2, 0.3))
        weights = CutOffPair(precision @ [0.3, 0.5], precision)
    else:
        weights = CutOffNormals(rng.normal(size=n_kernels), rng.uniform(0.2, 0.6, size=n_kernels))
    slope = 0.5 * rng.normal(size=(1, n_kernels))
    return NonnegativeReadout.from_factors(rng.normal(size=1), slope, np.array([0.2]), weights)


def draw_readout(rng, readout, n_draws):
    """Return draws of (b, e) and their log density."""
    if isinstance(readout, Gaussian):
        draws = normal(readout).rvs(size=n_draws, random_state=rng)
        return draws, normal(readout).logpdf(draws)
    law = readout.weights
    if isinstance(law, CutOffPair):
        whole = stats.multivariate_normal(
            np.linalg.solve(law.precision, law.linear), np.linalg.inv(law.precision)
        )
        e = whole.rvs(size=40 * n_draws, random_state=rng)
        e = e[(e >= 0.0).all(axis=1)][:n_draws]
        log_q = whole.logpdf(e) - np.log(stats.multivariate_normal(-whole.mean, whole.cov).cdf([0.0, 0.0]))
    else:
        cut = stats.truncnorm(-law.location / law.scale, np.inf, law.location, law.scale)
        e = cut.rvs(size=(n_draws, len(law.location)), random_state=rng)
        log_q = cut.logpdf(e).sum(axis=1)
    n_outputs = len(readout.slope)
    means = readout.mean[:n_outputs] + (e - readout.mean[n_outputs:]) @ readout.slope.T
    given = stats.norm(means, np.sqrt(readout.intercept_variance))
    b = given.rvs(random_state=rng)
    return np.column_stack([b, e]), log_q + given.logpdf(b).sum(axis=1)


def draw_scores(rng, problem, state, loc, n_draws):
    """Draw N(loc, 1) where the targets allow it, by rejection; return draws and their log density."""
    y, margin = problem.y, problem.outcome.margin
    competes = isinstance(problem.outcome, Classes)
    f = rng.normal(loc, 1.0, size=(n_draws, *y.shape))
    samples, centers = (np.moveaxis(f, 1, -1), loc.T) if competes else (f, loc)

    def refused():
        if not competes:
            return np.where(y == 0.0, np.abs(f), y * f) <= margin
        own, others = (np.where(of, f, -np.inf).max(axis=1) for of in (y > 0.0, y < 0.0))
        return own <= others + margin

    while (bad := refused()).any():
        samples[bad] = rng.normal(np.broadcast_to(centers, samples.shape)[bad], 1.0)
    upper, lower = (stats.norm.logsf(margin, loc=side * loc) for side in (1.0, -1.0))
    log_z = np.where(y == 0.0, np.logaddexp(upper, lower), np.where(y > 0.0, upper, lower)).sum()
    log_z = state.latent.log_normalizer.sum() if competes else log_z  # which has an oracle of its own
    return f, stats.norm.logpdf(f, loc=loc).reshape(n_draws, -1).sum(axis=1) - log_z


def draw_intermediate(rng, problem, state, output, a, upsilon):
    """Return draws of what scores are made of, the scale of these, and log p(G | a) - log q(G)."""
    factor, kernels, n_draws = state.intermediate, problem.stack.kernels, len(a)
    if not isinstance(factor, CompletedOutputs):
        one = one_output(state, output).intermediate
        noise = stats.multivariate_normal(np.zeros(len(one.cov)), one.cov)
        columns = noise.rvs(size=(n_draws, one.mean.shape[1]), random_state=rng)
        g = one.mean + columns.reshape(n_draws, -1, len(one.cov)).transpose(0, 2, 1)
        means = np.einsum("mij,sj->smi", kernels, a)
        ratio = stats.norm.logpdf(g, means, upsilon[:, None, None] ** -0.5).sum(axis=(1, 2))
        return g, np.ones(g.shape[2]), ratio - noise.logpdf(columns).reshape(n_draws, -1).sum(axis=1)
    absent, ratio = factor.absent, np.zeros(n_draws)
    x = np.empty((n_draws, len(kernels), factor.n_samples))
    for i, p in enumerate(absent.pattern):
        kept = np.flatnonzero(problem.stack.present[:, i])
        law = stats.multivariate_normal(
            factor.mean[output, kept, i], factor.cov[output, p][np.ix_(kept, kept)]
        )
        g = law.rvs(size=n_draws, random_state=rng).reshape(n_draws, -1)
        ratio += stats.norm.logpdf(g, a @ kernels[kept, i].T, upsilon[:, None] ** -0.5).sum(axis=1)
        ratio -= law.logpdf(g).reshape(-1)
        x[:, :, i] = g @ absent.slope[output, p][:, kept].T
    return x, np.sqrt(1.0 + absent.excess[output, absent.pattern]), ratio


def bound_draws(rng, problem, state, loc, n_draws=10_000):
    """Return draws of log p(y, Θ, Ξ) - log q(Θ, Ξ)."""
    y = np.atleast_2d(problem.y)
    n_outputs, ratio, draws = len(y), np.zeros(n_draws), {}
    for name, prior in zip(PRECISIONS, problem.priors, strict=True):
        factor = getattr(state, f"{name}_precision")
        if factor is not None:
            law, size = gamma_law(factor), (n_draws, *np.shape(factor.rate))
            draws[name] = law.rvs(size=size, random_state=rng).reshape(n_draws, -1)
            own = draws[name].reshape(size)
            ratio += (gamma_law(prior).logpdf(own) - law.logpdf(own)).reshape(n_draws, -1).sum(axis=1)
    readout, log_q = draw_readout(rng, state.readout, n_draws)
    b, e = readout[:, :n_outputs], readout[:, n_outputs:]
    ratio += stats.norm.logpdf(b, scale=draws["intercept"] ** -0.5).sum(axis=1) - log_q
    ratio += stats.norm.logpdf(e, scale=draws["kernel"] ** -0.5).sum(axis=1)
    if isinstance(
        state.readout, NonnegativeReadout
    ):  # half normal: twice the density of the normal distribution
        ratio += e.shape[1] * np.log(2.0)
    f = None
    if not problem.outcome.is_observed:
        f, log_q = draw_scores(rng, problem, state, loc, n_draws)
        f, ratio = f.reshape(n_draws, n_outputs, -1), ratio - log_q
    precisions = draws["sample"].reshape(n_draws, n_outputs, -1)
    for c in range(n_outputs):
        dual = normal(Gaussian(*(field[c] for field in state.dual)) if problem.y.ndim > 1 else state.dual)
        a = dual.rvs(size=n_draws, random_state=rng)
        ratio += stats.norm.logpdf(a, scale=precisions[:, c] ** -0.5).sum(axis=1) - dual.logpdf(a)
        if problem.outcome.has_noise:
            upsilon, epsilon = draws["intermediate"][:, c], draws["noise"][:, c]
        else:
            upsilon, epsilon = np.full(n_draws, problem.intermediate_precision), np.ones(n_draws)
        g, scale, more = draw_intermediate(rng, problem, state, c, a, upsilon)
        score = b[:, c, None] + np.einsum("sm,smi->si", e, g)
        seen = y[c] if f is None else f[:, c]
        ratio += more + stats.norm.logpdf(seen, score, scale * epsilon[:, None] ** -0.5).sum(axis=1)
    return ratio


@pytest.mark.parametrize("prior", ["non-sparse", "general"])
@MODELS
def test_bound_of_random_factors_against_monte_carlo(rng, model, prior):
    problem, _ = random_problem(model, rng, prior=prior, margin=0.4, sigma=1.4)
    state, loc = random_state(rng, problem)
    assert deviation(bound_draws(rng, problem, state, loc), bemkl.elbo(problem, state)) < STANDARD_ERRORS


@pytest.mark.parametrize("n_kernels", [2, 3])
def test_bound_of_random_factors_and_weights_that_are_not_negative_against_monte_carlo(rng, n_kernels):
    problem, _ = random_problem("binary", rng, n_kernels=n_kernels, prior="general", margin=0.2)
    state, loc = random_state(rng, problem)
    state = state._replace(readout=random_readout(rng, n_kernels))
    assert deviation(bound_draws(rng, problem, state, loc), bemkl.elbo(problem, state)) < STANDARD_ERRORS


@MODELS
def test_bound_after_sweeps_against_monte_carlo_which_wrong_ones_fail(rng, model):
    problem, start = random_problem(model, rng, prior="general")
    state, bound = bemkl.sweep(problem, start)
    for _ in range(4):
        state, bound = step(bemkl, problem, state)
    loc, wrong = location_of(problem, state), {}
    draws = bound_draws(rng, problem, state, loc, 40_000)
    assert bound == pytest.approx(bemkl.elbo(problem, state), rel=1e-13)
    assert deviation(draws, bound) < STANDARD_ERRORS
    singles = [one_output(state, c) for c in range(len(np.atleast_2d(problem.y)))]
    for one in singles:  # E[G G'] without the covariance of G
        epsilon = 1.0 if one.noise_precision is None else one.noise_precision.mean
        second = one.readout.cov[1:, 1:] + np.outer(one.readout.mean[1:], one.readout.mean[1:])
        lost = 0.5 * epsilon * problem.y.shape[-1] * np.sum(second * one.intermediate.cov)
        wrong["product of means"] = wrong.get("product of means", bound) + lost
    if state.latent is not None:
        wrong["without square"] = bound - 0.5 * ((state.latent.mean - loc) ** 2).sum()
    if model in ("labels", "targets"):
        alone = [problem._replace(y=y) for y in problem.y]
        wrong["separate weights"] = sum(map(bemkl.elbo, alone, singles))
    for name, value in wrong.items():
        assert deviation(draws, value) > 5 * STANDARD_ERRORS, name


# ----------------------------------------------------------------------------------------------------- never falls


def check_monotone(algorithm, problem, start, options):
    """Return how often the bound rose."""
    result = maximize_elbo(algorithm, problem, start, options)
    bound = result.elbo_history
    assert result.outcome is Outcome.MAX_ITER
    assert not (bound[:-1] - bound[1:] > 1e-9 * np.abs(bound[1:])).any()
    assert bound[-1] == pytest.approx(algorithm.elbo(problem, result.state), rel=1e-12)
    return int((np.diff(bound) > 1e-6).sum())


@pytest.mark.parametrize("n_problems", [15, pytest.param(60, marks=pytest.mark.slow)])
@MODELS
def test_monotone_bound_on_random_problems(rng, model, n_problems):
    """Sizes, kernels, priors, margins and scales all vary."""
    n_gains = 0
    for index in range(n_problems):
        n_samples, n_kernels = int(rng.integers(8, 35)), int(rng.integers(1, 12))
        margin, sigma = float(rng.integers(0, 2)), float(rng.choice([0.1, 0.5, 1.0, 3.0]))
        own = {
            "kind": KINDS[index % 5],
            "prior": list(BINARY_PRIORS)[index % 3],
            "margin": margin,
            "sigma": sigma,
        }
        problem, start = random_problem(model, rng, n_samples, n_kernels, **own)
        for algorithm in (bemkl, nonnegative) if index % 5 == 0 else (bemkl,):
            for accelerate in (False, True):
                n_gains += check_monotone(algorithm, problem, start, PLAIN._replace(accelerate=accelerate))
    assert n_gains > 10 * n_problems  # the bounds did move


# ------------------------------------------------------------------------------------------- flat at convergence


def with_entry(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


def moves_of_gamma(factor):
    concentration = np.broadcast_to(factor.concentration, np.shape(factor.rate)).astype(float)
    rate = np.asarray(factor.rate, dtype=float)
    for i in np.ndindex(rate.shape):
        yield (
            f"concentration{i}",
            lambda h, i=i: Gamma(with_entry(concentration, i, concentration[i] * np.exp(h)), rate),
        )
        yield f"rate{i}", lambda h, i=i: Gamma(concentration, with_entry(rate, i, rate[i] * np.exp(h)))


def moves_of_normal(factor):
    """Entries of mean and covariance; the covariance stays symmetric."""
    deviations = np.sqrt(np.diag(factor.cov))

    def rebuilt(mean, cov):
        return type(factor)(mean, cov, np.linalg.slogdet(cov)[1])

    for index in np.ndindex(factor.mean.shape):
        unit = deviations[index[0]]
        yield (
            f"mean{index}",
            lambda h, i=index, u=unit: rebuilt(
                with_entry(factor.mean, i, factor.mean[i] + h * u), factor.cov
            ),
        )
    for row, column in zip(*np.tril_indices(len(deviations)), strict=True):
        direction = np.zeros_like(factor.cov)
        direction[row, column] = direction[column, row] = deviations[row] * deviations[column]
        yield f"cov[{row},{column}]", lambda h, d=direction: rebuilt(factor.mean, factor.cov + h * d)


def moves_of_outputs(factor):
    """Means of every output and covariances, of every output or one for all."""
    shared = factor.cov.ndim == 2
    for c, mean in enumerate(factor.mean):
        cov, log_det = (factor.cov, factor.log_det) if shared else (factor.cov[c], factor.log_det[c])
        for name, move in moves_of_normal(type(factor)(mean, cov, log_det)):
            if shared and name.startswith("cov") and c > 0:
                continue

            def moved(h, c=c, move=move):
                one = move(h)
                mean = with_entry(factor.mean, c, one.mean)
                if shared:
                    return type(factor)(mean, one.cov, one.log_det)
                cov, log_det = with_entry(factor.cov, c, one.cov), with_entry(factor.log_det, c, one.log_det)
                return type(factor)(mean, cov, log_det)

            yield f"{c}.{name}", moved


def moves_of_scores(problem, loc):
    for i in np.ndindex(loc.shape):
        yield f"location{i}", lambda h, i=i: latent_at(problem, with_entry(loc, i, loc[i] + h))


def moves_of_restricted(readout):
    """Yield the moves of every parameter of q(b | e) and q(e), of weights that are not negative."""
    offset = readout.mean[:1] - readout.slope @ readout.mean[1:]
    parts = [offset, readout.slope, readout.intercept_variance, *readout.weights]
    kind = type(readout.weights)

    def rebuilt(which, index, value):
        changed = [with_entry(p, index, value) if k == which else p for k, p in enumerate(parts)]
        if kind is CutOffPair and which == 4:  # the precision stays symmetric
            changed[4] = with_entry(changed[4], index[::-1], value)
        return NonnegativeReadout.from_factors(*changed[:3], kind(*changed[3:]))

    for which, part in enumerate(parts):
        unit = 0.3 * (np.abs(part).max() if kind is CutOffPair and which > 2 else 1.0)
        positive = which == 2 or (kind is CutOffNormals and which == 4)
        for index in np.ndindex(np.shape(part)):
            size = part[index] if positive else unit * (1.0 if which != 3 else readout.weights[-1].max())
            size = min(size, 1.0)
            yield (
                f"part {which}{index}",
                lambda h, w=which, i=index, s=size: rebuilt(w, i, parts[w][i] + h * s),
            )


def moves(problem, state):
    """Yield (name, function of the step that returns the moved state) for every variational parameter."""
    for field, factor in zip(state._fields, state, strict=True):
        if factor is None:
            continue
        if isinstance(factor, Gamma):
            found = moves_of_gamma(factor)
        elif isinstance(factor, TruncatedMoments):
            found = moves_of_scores(problem, location_of(problem, state))
        elif isinstance(factor, NonnegativeReadout):
            found = moves_of_restricted(factor)
        else:
            several = problem.y.ndim > 1 and field != "readout"
            found = (moves_of_outputs if several else moves_of_normal)(factor)
        for name, move in found:
            yield f"{field}.{name}", lambda h, f=field, move=move: state._replace(**{f: move(h)})


def slopes(algorithm, problem, state, moves=moves):
    """Return the central difference of the bound in every parameter, by name."""
    return {
        name: float(algorithm.elbo(problem, move(STEP)) - algorithm.elbo(problem, move(-STEP))) / (2 * STEP)
        for name, move in moves(problem, state)
    }


def check_flat(algorithm, problem, start, options, moves=moves):
    """Assert that the bound is steep after a sweep and flat in the end, and return the slopes there."""
    before, _ = algorithm.sweep(problem, start)
    state = maximize_elbo(algorithm, problem, start, options).state
    found = slopes(algorithm, problem, state, moves)
    steepest = max(found, key=lambda name: abs(found[name]))
    assert abs(found[steepest]) < FLAT, f"{steepest}: {found[steepest]:.1e}"
    assert max(map(abs, slopes(algorithm, problem, before, moves).values())) > 100 * FLAT
    return state, found


@pytest.mark.parametrize(
    ("model", "options"),
    [
        *[(model, LoopOptions(max_iter=1500, tol=1e-15)) for model in SINGLE + SEVERAL],
        ("binary", LoopOptions(max_iter=15_000, tol=1e-15, accelerate=False)),
    ],
)
def test_bound_is_flat_in_every_parameter_by_finite_difference(rng, model, options):
    problem, start = random_problem(model, rng, 8)
    state, found = check_flat(bemkl, problem, start, options)
    assert np.abs(state.dual.mean).max() > 0.02  # not the trivial optimum, at which kernels play no part
    size = lambda d: d * (d + 1) // 2
    covs = sum(
        size(cov.shape[-1]) * (len(cov) if cov.ndim == 3 else 1)
        for cov in (state.dual.cov, state.intermediate.cov, state.readout.cov)
    )
    numbers = sum(np.size(value) for name, value in arrays_of(state) if name.endswith((".mean", ".rate")))
    rates = sum(np.size(value) for name, value in arrays_of(state) if name.endswith(".rate"))
    assert len(found) == covs + numbers + rates  # a concentration for every rate


@pytest.mark.parametrize("n_kernels", [1, 2, 3])
@pytest.mark.parametrize("model", ["binary", "regression"])
def test_bound_of_weights_that_are_not_negative_is_flat_by_finite_difference(rng, model, n_kernels):
    problem, start = random_problem(model, rng, n_kernels=n_kernels)
    check_flat(nonnegative, problem, start, LoopOptions(max_iter=600, tol=1e-15))


def other_factor(rng, problem, state, factor):
    """Return a random factor of the same family, near or far."""
    size = rng.choice([0.03, 0.3, 1.0])
    if isinstance(factor, Gamma):
        shape = np.shape(factor.rate)
        return Gamma(
            factor.concentration * np.exp(size * rng.normal(size=shape)),
            factor.rate * np.exp(size * rng.normal(size=shape)),
        )
    if isinstance(factor, TruncatedMoments):
        loc = location_of(problem, state)
        return latent_at(problem, loc + size * rng.normal(size=len(loc)))
    root = linalg.cholesky(factor.cov, lower=True)
    shift = size * rng.normal(size=factor.mean.shape)
    inner = (1 - size) * np.eye(len(root)) + size * random_covariance(rng, len(root))
    cov = root @ inner @ root.T
    return type(factor)(factor.mean + root @ shift, cov, np.linalg.slogdet(cov)[1])


@pytest.mark.parametrize("model", SINGLE)
def test_every_other_factor_lowers_the_bound(rng, model):
    problem, start = random_problem(model, rng)
    state = maximize_elbo(bemkl, problem, start, LoopOptions(max_iter=600, tol=1e-15)).state
    best = bemkl.elbo(problem, state)
    for field, factor in zip(state._fields, state, strict=True):
        for _ in range(20 * (factor is not None)):
            moved = state._replace(**{field: other_factor(rng, problem, state, factor)})
            assert bemkl.elbo(problem, moved) < best - 1e-6, field


# -------------------------------------------------------------------------------------------------- the backend


@pytest.mark.parametrize(
    ("model", "prior", "algorithm"),
    [(model, "general", bemkl) for model in SINGLE + SEVERAL]
    + [
        ("binary", "sparse", bemkl),
        ("labels", "sparse", bemkl),
        ("binary", "non-sparse", nonnegative),
    ],
)
def test_numpy_and_jax_agree_after_fifty_sweeps(rng, model, prior, algorithm):
    """Measured on larger problems: below 1e-12 for every factor and below 1e-13 for the bound."""
    problem, start = random_problem(model, rng, 30, 2 if algorithm is not bemkl else 6, prior=prior)
    with_numpy, with_jax = (
        maximize_elbo(algorithm, problem, start, PLAIN._replace(max_iter=50, backend=backend))
        for backend in ("numpy", "jax")
    )
    assert_same_factors(with_jax.state, with_numpy.state, 1e-9)
    np.testing.assert_allclose(with_jax.elbo_history, with_numpy.elbo_history, rtol=1e-9)
    assert with_jax.outcome is with_numpy.outcome is Outcome.MAX_ITER
    assert all(type(array) is np.ndarray for _, array in arrays_of(with_jax.state))
