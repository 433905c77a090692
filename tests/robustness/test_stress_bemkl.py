"""BEMKL under extreme kernels, priors, margins and noise: sweeps and bounds against 50 digits, and what fits say."""

from __future__ import annotations

import contextlib
import sys
import warnings
from functools import partial
from pathlib import Path

import mpmath
import numpy as np
import pytest
from helpers import TaskPriors, label_task, random_kernels, step, target_task
from many_digits import (
    DIGITS,
    LOG_2PI,
    Old,
    Settings,
    doubles,
    exact,
    gamma_bound,
    gamma_moments,
    inverse,
    normal_entropy,
    sweep,
    truncated,
    zero_mean_bound,
)
from sklearn.exceptions import ConvergenceWarning
from verdicts import assert_refused, quietly

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl import VB, Gamma, multitask, nonnegative
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.kernels import KernelQualityWarning
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Classes, Labels, Numbers

sys.path.append(str(Path(__file__).parents[1] / "bemkl"))
from test_missing_views import random_problem

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("numbers under stress"),
    pytest.mark.filterwarnings("ignore:Some kernels are unlikely to help"),
]


# ---------------------------------------------------------------------------------------------- sweeps of every model

N_SAMPLES, N_KERNELS, N_SWEEPS = 5, 3, 2
MODELS = ["binary", "regression", "multiclass", "multioutput", "multinomial", "nonnegative"]


def gaussian(points, width):
    return np.exp(-0.5 * ((points[:, None] - points) ** 2).sum(axis=-1) / width**2)


def kernels_of(kind, rng):
    """Return three kernels on five points."""
    X = rng.normal(size=(N_SAMPLES, 2))
    match kind:
        case "plain":
            return np.stack([gaussian(X, 1.0), gaussian(X[:, :1], 0.7), X @ X.T])
        case "singular":  # condition numbers from 1e16 on, and rank one
            kernels = np.stack([gaussian(X, 1e4), gaussian(X[:, :1], 30.0), np.outer(X[:, 0], X[:, 0])])
            assert (np.linalg.cond(kernels) > 1e15).all()
            return kernels
        case "duplicated":
            return np.stack([gaussian(X, 1.0)] * 3)
        case "scales":
            return np.stack([1e-12 * gaussian(X, 1.0), gaussian(X[:, :1], 0.7), 1e4 * gaussian(X, 0.5)])
        case "tiny":
            return 1e-12 * np.stack([gaussian(X, 1.0), gaussian(X[:, :1], 0.7), X @ X.T])
        case "large":
            return 1e4 * np.stack([gaussian(X, 0.3), gaussian(X, 0.5), gaussian(X, 0.7)])
        case _ if kind.startswith("rank one, times "):
            return float(kind.split()[-1]) * np.stack([np.outer(X[:, 0], X[:, 0]), gaussian(X, 1.0), X @ X.T])
    raise ValueError(kind)


def target_of(model, rng):
    y = np.where(rng.permutation(N_SAMPLES) < 2, -1.0, 1.0)
    match model:
        case "binary" | "nonnegative":
            return y
        case "multiclass":
            return np.stack([y, -y, np.roll(y, 2)])
        case "multinomial":
            return np.where(np.arange(3)[:, None] == np.arange(N_SAMPLES) % 3, 1.0, -1.0)
        case "regression":
            return 2.0 * y + rng.normal(size=N_SAMPLES)
    return np.stack([y, 3.0 + rng.normal(size=N_SAMPLES)])


class Run:
    """A few sweeps of the package and of the reference, from the same start."""

    def __init__(self, model, rng, kernels="plain", sample=(1.0, 1.0), kernel=(1.0, 1.0), **more):
        intercept, margin, sigma = (
            more.get("intercept", (1.0, 1.0)),
            more.get("margin", 1.0),
            more.get("sigma", 1.0),
        )
        self.model, K = model, kernels_of(kernels, rng)
        y, stack = target_of(model, rng) * more.get("size", 1.0), DenseStack(K)
        priors, noise = [Gamma(*pair) for pair in (sample, intercept, kernel)], (1.3, 0.6)
        self.is_regression = model in ("regression", "multioutput")
        if self.is_regression:
            priors = Priors(*priors, Gamma(*noise), Gamma(*noise))
            self.problem = Problem(stack, stack.gram(), y, priors, Numbers())
        else:
            outcome = Classes(margin) if model == "multinomial" else Labels(margin)
            self.problem = Problem(stack, stack.gram(), y, Priors(*priors), outcome, sigma**-2)
        self.module = nonnegative if model == "nonnegative" else bemkl
        start = np.zeros(N_SAMPLES) if self.is_regression else np.ones(N_SAMPLES)
        self.start = self.module.init(self.problem, start)
        y = np.atleast_2d(y)
        self.settings = Settings(
            K, y, sample, intercept, kernel, margin, sigma,
            *((noise, noise) if self.is_regression else (None, None)),
            compete=model == "multinomial", nonnegative=model == "nonnegative",
        )  # fmt: skip
        self.old = self.first(y, sigma)

    def first(self, y, sigma):
        """Return the expectations that the package starts from; the intermediate outputs follow from them."""
        n_outputs, start = len(y), self.start
        noise = start.noise_precision if self.is_regression else 1.0
        upsilon = start.intermediate_precision if self.is_regression else sigma**-2
        f = y if self.is_regression else np.atleast_2d(start.latent)
        G = (y - y.mean(axis=1, keepdims=True)) / N_KERNELS if self.is_regression else f
        return Old(
            exact(np.atleast_2d(start.dual_square)),
            exact(np.repeat(G[:, None], N_KERNELS, axis=1)),
            exact(start.readout),
            exact(start.readout_cov),
            exact(f),
            exact(np.broadcast_to(upsilon, n_outputs)),
            exact(np.broadcast_to(noise, n_outputs)),
        )

    def compare(self, n_sweeps=N_SWEEPS):
        """Return errors by name: of the bound relative to its size, of means relative to the largest."""
        errors: dict[str, float] = {}
        with mpmath.workdps(DIGITS):
            old, start = self.old, self.start
            for _ in range(n_sweeps):
                state, bound = self.module.sweep(self.problem, start)
                found, old, expected = sweep(self.settings, old)
                start = self.module.carry(self.problem, state)
                for name, ours in self.means(state).items():
                    value = doubles(found[name]).reshape(ours.shape)
                    size = max(np.abs(value).max(), self.spread(state, name))
                    errors[name] = max(errors.get(name, 0.0), np.abs(ours - value).max() / size)
                error = abs(float((mpmath.mpf(float(bound)) - expected) / expected))
                errors["bound"] = max(errors.get("bound", 0.0), error)
        return errors

    def spread(self, state, name):
        """Return the largest standard deviation, where a mean may be zero."""
        factor = {"a": state.dual, "G": state.intermediate, "be": state.readout}.get(name)
        return 0.0 if factor is None else np.sqrt(np.max(factor.variance))

    def means(self, state):
        means = {"a": state.dual.mean, "G": state.intermediate.mean, "be": state.readout.mean}
        means |= {"λ": state.sample_precision.rate, "ω": state.kernel_precision.rate}
        if self.is_regression:
            return means | {"υ": state.intermediate_precision.mean, "ε": state.noise_precision.mean}
        return means | {"f": state.latent.mean}


CLOSE = 1e-10  # of a few sweeps with 16 digits
EXTREMES = [(1e-10, 1e-10), (1e10, 1e10), (1e10, 1e-10), (1e-10, 1e10), (1.0, 1e10), (1e10, 1.0)]
KINDS = ["plain", "singular", "duplicated", "scales", "tiny", "large"]
LABELS = ["binary", "multiclass", "nonnegative"]


def assert_close(errors, tolerance=CLOSE):
    worst = max(errors, key=errors.get)
    assert errors[worst] <= tolerance, f"{worst}: relative error {errors[worst]:.1e}"


@pytest.mark.parametrize("kernels", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_kernels_of_any_condition_and_scale(rng, model, kernels):
    """Singular to double precision, from 1e-12 to 1e4 in one bank, all tiny, all large."""
    n_sweeps = 1 if model == "multinomial" else N_SWEEPS
    assert_close(Run(model, rng, kernels).compare(n_sweeps))


@pytest.mark.parametrize("prior", EXTREMES, ids=str)
@pytest.mark.parametrize("which", ["sample", "intercept", "kernel"])
@pytest.mark.parametrize(
    "model",
    [
        "binary",
        "nonnegative",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("regression", "multioutput")),
    ],
)
def test_priors_from_nearly_flat_to_nearly_known(rng, model, which, prior):
    """Expected precisions from 1e-20 to 1e20, shapes from 1e-10 to 1e10."""
    assert_close(Run(model, rng, **{which: prior}).compare(1 if model == "multioutput" else 2))


@pytest.mark.parametrize("prior", EXTREMES, ids=str)
@pytest.mark.parametrize("model", [m for m in MODELS if m not in ("binary", "nonnegative")])
def test_priors_of_all_precisions_together(rng, model, prior):
    assert_close(Run(model, rng, sample=prior, intercept=prior, kernel=prior).compare(1))


@pytest.mark.parametrize("margin", [0.0, 1e-8, 1e2, 1e4])
@pytest.mark.parametrize("model", [*LABELS, "multinomial"])
def test_margins_far_in_the_tail(rng, model, margin):
    assert_close(Run(model, rng, margin=margin).compare(1 if model == "multinomial" else 2))


@pytest.mark.parametrize("sigma", [1e-4, 1e3])
@pytest.mark.parametrize("model", [*LABELS, "multinomial"])
def test_noise_of_intermediate_outputs(rng, model, sigma):
    assert_close(Run(model, rng, sigma=sigma).compare(1 if model == "multinomial" else 2), 1e-8)


@pytest.mark.parametrize("size", [1e-8, 1e-3, 1e3, 1e8])
@pytest.mark.parametrize("model", ["regression", "multioutput"])
def test_targets_of_any_size(rng, model, size):
    assert_close(Run(model, rng, size=size).compare())


# ---------------------------------------------------------------------------------------- bounds of tasks and of gaps

CLOSE_BOUND = 1e-11


def shape_and_rate(factor, *shape):
    rate = exact(np.broadcast_to(factor.rate, shape))
    return np.broadcast_to(exact(factor.concentration), rate.shape), rate


def log_det(matrix):
    return -inverse(matrix)[1]


def residual_bound(size, misfit, mean, log_mean):
    return (size * (log_mean - LOG_2PI) - mean * misfit) / 2


def noise_terms(factor, prior, size, misfit):
    """Bound of a learned noise precision, and of the residuals that it belongs to."""
    shape, rate = (part[0] for part in shape_and_rate(factor, 1))
    mean, log_mean, _ = gamma_moments(shape, rate)
    return gamma_bound(shape, rate, prior) + residual_bound(size, misfit, mean, log_mean)


def dual_terms(factor, prior, mean, cov):
    """λ and a."""
    gammas = shape_and_rate(factor, len(mean))
    square = mean**2 + np.diag(cov)
    entropy = normal_entropy(len(mean), log_det(cov))
    return gamma_bound(*gammas, prior) + zero_mean_bound(square, *gammas) + entropy


def expected_misfit(f, weights, rows, covs, be, be_cov):
    """Weighted sum of E (f - e'x - b)² over samples, by expanding the square."""
    second, total = np.outer(be, be) + be_cov, mpmath.mpf(0)
    for i in range(len(f)):
        row = np.concatenate([exact(np.ones(1)), rows[:, i]])
        outer = np.outer(row, row)
        outer[1:, 1:] = outer[1:, 1:] + covs[i]
        total += weights[i] * (f[i] ** 2 - 2 * f[i] * (be @ row) + np.sum(second * outer))
    return total


# ------------------------------------------------------------------------------------------------ related tasks


def tasks_under(rng, priors, margin=1.0):
    """A regression and two classifications, of different sizes."""
    tasks = []
    for n, kind in [(5, "labels"), (4, "targets"), (4, "labels")]:
        stack = DenseStack(random_kernels(rng, n, 2))
        y = rng.normal(size=n)
        if kind == "labels":
            tasks.append(label_task(stack, np.where(np.arange(n) % 2, 1.0, -1.0), margin, 1.7))
        else:
            tasks.append(target_task(stack, y))
    return priors.problem_of(tasks)


def multitask_bound(problem, state):
    priors, readout, P = TaskPriors.of(problem), state.readout, 2
    common, common_cov = exact(readout.common.mean), exact(readout.common.cov)
    total = normal_entropy(P, log_det(common_cov))
    distance = mpmath.mpf(0)
    for t, (task, one) in enumerate(zip(problem.tasks, state.tasks, strict=True)):
        slope, given, be = exact(readout.slope[t]), exact(readout.given.cov[t]), exact(readout.given.mean[t])
        be_cov = given + slope @ common_cov @ slope.T
        total += normal_entropy(1 + P, log_det(given))
        apart = slope[1:] - exact(np.eye(P))
        distance += np.sum((be[1:] - common) ** 2) + np.trace(given[1:, 1:] + apart @ common_cov @ apart.T)
        K, mean, cov = exact(task.stack.kernels), exact(one.dual.mean), exact(one.dual.cov)
        G, G_cov, n = exact(one.intermediate.mean), exact(one.intermediate.cov), len(task.y)
        total += dual_terms(one.sample_precision, priors.sample, mean, cov)
        total += normal_entropy(P * n, n * log_det(G_cov))
        gammas = shape_and_rate(one.intercept_precision, 1)
        total += gamma_bound(*gammas, priors.intercept)
        total += zero_mean_bound(be[0] ** 2 + be_cov[0, 0], *gammas)
        gram = sum(k.T @ k for k in K)
        g_misfit = (
            np.sum((G - np.array([k @ mean for k in K])) ** 2) + n * np.trace(G_cov) + np.sum(gram * cov)
        )
        covs, weights = [G_cov] * n, exact(np.ones(n))
        if not task.outcome.has_noise:
            locs, upsilon = be[1:] @ G + be[0], exact(task.intermediate_precision)
            moments = [
                truncated(loc, y, exact(task.outcome.margin))
                for loc, y in zip(locs, exact(task.y), strict=True)
            ]
            misfit = expected_misfit([m[0] for m in moments], weights, G, covs, be, be_cov)
            misfit += sum(m[1] for m in moments)
            total += residual_bound(n, misfit, 1, 0) + sum(m[2] for m in moments)
            total += residual_bound(n * P, g_misfit, upsilon, mpmath.log(upsilon))
        else:
            misfit = expected_misfit(exact(task.y), weights, G, covs, be, be_cov)
            total += noise_terms(one.noise_precision, priors.noise, n, misfit)
            total += noise_terms(one.intermediate_precision, priors.intermediate, n * P, g_misfit)
    gammas = shape_and_rate(state.kernel_precision, P)
    total += gamma_bound(*gammas, priors.kernel) + zero_mean_bound(common**2 + np.diag(common_cov), *gammas)
    return total + noise_terms(state.task_precision, priors.task, len(problem.tasks) * P, distance)


TASK_PRIORS = {
    "general": TaskPriors(
        Gamma(1.3, 0.7), Gamma(0.6, 2.1), Gamma(2.2, 0.4), Gamma(1.4, 0.6), Gamma(3.1, 1.7), Gamma(0.8, 0.3)
    ),
    "sparse": TaskPriors(kernel=Gamma(1e-10, 1e-10)),
    "shared": TaskPriors(task=Gamma(1e10, 1e4)),
    "separate": TaskPriors(task=Gamma(1e10, 1e14)),
    "all known": TaskPriors(*[Gamma(1e10, 1e10)] * 6),
}


@pytest.mark.parametrize("margin", [0.0, 1.0, 1e3])
@pytest.mark.parametrize("name", TASK_PRIORS)
def test_related_tasks(rng, name, margin):
    problem = tasks_under(rng, TASK_PRIORS[name], margin)
    start = multitask.init(problem, np.concatenate([np.ones(5), np.zeros(4), np.ones(4)]))
    state, bound = multitask.sweep(problem, start)
    for _ in range(2):
        state, bound = step(multitask, problem, state)
    with mpmath.workdps(DIGITS):
        assert float(bound) == pytest.approx(float(multitask_bound(problem, state)), rel=CLOSE_BOUND)


# ------------------------------------------------------------------------------------------------- missing views


def bound_with_gaps(problem, state):
    """The bound of several outputs whose samples have some of the views; scores follow E[x], Cov[x] of all views."""
    outputs, absent, priors = state.intermediate, problem.absent, problem.priors
    (C, P, N), pattern = outputs.mean.shape, np.asarray(absent.pattern)
    present = np.asarray(problem.stack.present)
    be, be_cov = exact(state.readout.mean), exact(state.readout.cov)
    K = exact(problem.stack.kernels)
    total = normal_entropy(C + P, log_det(be_cov))
    gammas = shape_and_rate(state.intercept_precision, C), shape_and_rate(state.kernel_precision, P)
    square = be**2 + np.diag(be_cov)
    total += gamma_bound(*gammas[0], priors.intercept) + zero_mean_bound(square[:C], *gammas[0])
    total += gamma_bound(*gammas[1], priors.kernel) + zero_mean_bound(square[C:], *gammas[1])
    take = lambda factor, c: factor._replace(rate=np.asarray(factor.rate)[c])
    for c in range(C):
        mean, cov = exact(state.dual.mean[c]), exact(state.dual.cov[c])
        total += dual_terms(take(state.sample_precision, c), priors.sample, mean, cov)
        rows, covs = exact(outputs.mean[c]), exact(outputs.cov[c])[pattern]
        g_misfit, size = mpmath.mpf(0), int(present.sum())
        for i in range(N):
            have = np.flatnonzero(present[:, i])
            total += normal_entropy(len(have), log_det(covs[i][np.ix_(have, have)]))
            for m in have:
                k = K[m, i]
                g_misfit += (rows[m, i] - k @ mean) ** 2 + covs[i][m, m] + k @ cov @ k
        excess = exact(absent.excess[c])[pattern]
        weights = 1 / (1 + excess)
        pair = [c, *range(C, C + P)]
        one = be[pair], be_cov[np.ix_(pair, pair)]
        total -= sum(mpmath.log(1 + value) for value in excess) / 2
        if not problem.outcome.has_noise:
            locs, labels = one[0][1:] @ rows + one[0][0], exact(problem.y[c])
            moments = [
                truncated(loc, y, exact(problem.outcome.margin)) for loc, y in zip(locs, labels, strict=True)
            ]
            misfit = expected_misfit([m[0] for m in moments], weights, rows, covs, *one)
            total += residual_bound(N, misfit + sum(m[1] for m in moments), 1, 0) + sum(m[2] for m in moments)
            upsilon = exact(problem.intermediate_precision)
            total += residual_bound(size, g_misfit, upsilon, mpmath.log(upsilon))
        else:
            misfit = expected_misfit(exact(problem.y[c]), weights, rows, covs, *one)
            total += noise_terms(take(state.noise_precision, c), priors.noise, N, misfit)
            total += noise_terms(take(state.intermediate_precision, c), priors.intermediate, size, g_misfit)
    return total


@pytest.mark.parametrize("prior", ["non-sparse", "sparse"])
@pytest.mark.parametrize("model", ["labels", "targets"])
def test_samples_that_lack_views(rng, model, prior):
    module, problem, start = random_problem(model, rng, n_samples=6, n_outputs=2, prior=prior)
    state, bound = module.sweep(problem, start)
    for _ in range(2):
        state, bound = step(module, problem, state)
    with mpmath.workdps(DIGITS):
        assert float(bound) == pytest.approx(float(bound_with_gaps(problem, state)), rel=CLOSE_BOUND)


# --------------------------------------------------------------------------------------------------------------- fits

N_TRAIN, N_ROWS = 30, 10
FITS = {
    "binary": (BEMKLClassifier, {}),
    "regression": (BEMKLRegressor, {}),
    "shared": (BEMKLClassifier, {"multiclass": "shared"}),
    "multinomial": (BEMKLClassifier, {"multiclass": "multinomial"}),
    "nonnegative": (BEMKLClassifier, {"nonnegative": True}),
    "two targets": (BEMKLRegressor, {}),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N_TRAIN + N_ROWS, 4))
    signal = X[:, 0] + 0.5 * X[:, 2] ** 2 + 0.3 * rng.normal(size=len(X))
    views = X[:, :2], X[:, 2:], X
    kernels = np.stack([np.exp(-0.5 * ((v[:, None] - v) ** 2).sum(axis=-1)) for v in views], axis=-1)
    return kernels, signal[:N_TRAIN], X


def target_for(model, signal):
    if model == "regression":
        return signal
    if model == "two targets":
        return np.stack([signal, signal**2], axis=1)
    return np.digitize(signal, [0.4] if model in ("binary", "nonnegative") else [-0.2, 0.8])


def outputs_of(model, rows):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return np.concatenate([np.ravel(part) for part in model.predict(rows, return_std=True)])


def fit_and_check(name, kernels, signal, *expected, **parameters):
    """Fit, with at most one warning of each kind; check that all is finite, and that the bound never fell."""
    estimator, own = FITS[name]
    model = estimator("precomputed", **{"max_iter": 40} | own | parameters)
    y = target_for(name, signal)
    quietly(partial(model.fit, kernels[:N_TRAIN, :N_TRAIN], y), ConvergenceWarning, *expected)
    for history in model.elbo_history_ if isinstance(model.elbo_history_, tuple) else (model.elbo_history_,):
        assert (np.diff(history) >= -1e-9 * abs(history[-1])).all()
    for attribute in ("kernel_weights_", "kernel_weights_std_", "kernel_shares_", "intercept_", "elbo_"):
        assert np.isfinite(getattr(model, attribute)).all(), attribute
    outputs = quietly(partial(outputs_of, model, kernels[N_TRAIN:, :N_TRAIN]))
    assert np.isfinite(outputs).all()
    if hasattr(model, "predict_proba"):
        assert ((outputs >= 0.0) & (outputs <= 1.0)).all()
        np.testing.assert_allclose(outputs.sum(axis=1), 1.0, atol=1e-12)
    return model


EXTREME_PRIORS = [(1e-10, 1e-10), (1e-10, 1e10), (1e10, 1e-10), (1e10, 1e10)]


@pytest.mark.parametrize("prior", EXTREME_PRIORS, ids=str)
@pytest.mark.parametrize("name", FITS)
def test_extreme_priors(data, name, prior):
    """Of all precisions at once; one after the other, they are compared with 50 digits above."""
    fit_and_check(
        name, *data[:2], **dict.fromkeys(("kernel_prior", "sample_prior", "bias_prior"), Gamma(*prior))
    )


def test_priors_that_fix_every_precision_converge(data):
    """Their bound has terms of 1e11 that cancel: it must neither seem to fall nor stop the search."""
    known = dict.fromkeys(("kernel_prior", "sample_prior", "bias_prior"), Gamma(1e10, 1e10))
    for name in ("binary", "regression", "shared", "multinomial"):
        model = fit_and_check(name, *data[:2], **known, max_iter=200)
        assert model.converged_


@pytest.mark.parametrize("name", FITS)
def test_kernels_that_are_singular_to_double_precision(data, name):
    """Wide Gaussian kernels of condition 1e16 and more, a constant one, one of rank one, and one twice."""
    X = data[2]
    wide = [np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=-1) / width**2) for width in (1e3, 1e4)]
    kernels = np.stack(
        [*wide, np.ones_like(wide[0]), np.outer(X[:, 0], X[:, 0]), data[0][..., 0], data[0][..., 0]], -1
    )
    assert (np.linalg.cond(np.moveaxis(kernels[:N_TRAIN, :N_TRAIN, :4], -1, 0)) > 1e15).all()
    model = fit_and_check(name, kernels, data[1], KernelQualityWarning)
    weights = np.atleast_2d(model.kernel_weights_)
    np.testing.assert_allclose(weights[:, 4], weights[:, 5], rtol=1e-3, atol=1e-6)  # the same kernel twice


# ------------------------------------------------------------------------------ too large and too close to singular


def reference(K, y):
    """Second moments of a, and E[f], after eight sweeps with 50 digits."""
    one, scores = exact(np.ones(1)), exact(2.0 * y[None])
    settings = Settings(K, y[None], (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), 1.0, 1.0)
    readout = exact(np.eye(1 + len(K))[1:].sum(axis=0)), exact(np.eye(1 + len(K)))
    G = np.repeat(scores[:, None], len(K), axis=1)
    old = Old(exact(np.ones((1, len(y)))), G, *readout, scores, one, one)
    for _ in range(8):
        _, old, _ = sweep(settings, old)
    return doubles(old.a_square)[0], doubles(old.f)[0]


def low_rank(exponent):
    """Return kernels of rank one and two on six points, labels, and a function that fits a model and returns it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 2))
    y = np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    K = 10.0**exponent * np.stack([np.outer(X[:, 0], X[:, 0]), X @ X.T])
    model = BEMKLClassifier(
        "precomputed", margin=1.0, max_iter=8, tol=0.0, inference=VB(accelerate=False), intermediate_scale=1.0
    )
    return K, y, partial(model.fit, np.moveaxis(K, 0, -1), y)


@pytest.mark.parametrize("exponent", [0, 4, 6])
def test_low_rank_kernels_up_to_a_million_are_right(exponent):
    """The prior decides where kernels are zero: the rounding errors of K'K must stay below it."""
    K, y, fit = low_rank(exponent)
    model = quietly(fit)
    with mpmath.workdps(DIGITS):
        square, latent = reference(K, y)
    np.testing.assert_allclose(model.posterior_.dual.square, square, rtol=1e-2)
    np.testing.assert_allclose(model.posterior_.latent.mean, latent, rtol=1e-2)


def test_low_rank_kernels_of_ten_million_are_warned_of():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        low_rank(7)[2]()
    found = [w for w in caught if issubclass(w.category, KernelQualityWarning)]
    assert len(found) == 1
    assert len(caught) <= 2  # the search may end early, too
    assert "third digit" in str(found[0].message)
    assert "Normalize them" in str(found[0].message)


@pytest.mark.parametrize("exponent", [9, 12, 50])
def test_low_rank_kernels_that_are_larger_are_refused(exponent):
    assert_refused(low_rank(exponent)[2], "`X`", "normalize")


SCALES = 10.0 ** np.array([-12.0, -6.0, 0.0, 6.0, 12.0])


def scaled_kernel(X, Z, scale):
    return scale * np.exp(-0.5 * ((X[:, None] - Z) ** 2).sum(axis=-1))


def test_kernels_from_1e12_below_to_1e12_above_are_warned_of_and_the_remedy_works(data):
    """Weights would have to span the same range; normalized, the kernels are the same one five times."""
    kernels, signal, X = data
    y = target_for("binary", signal)
    spread = kernels[..., :1] * SCALES
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):  # "too large or too close to singular", if that is how it ends
            BEMKLClassifier("precomputed", intermediate_scale=1.0).fit(spread[:N_TRAIN, :N_TRAIN], y)
    (quality,) = (w.message for w in caught if issubclass(w.category, KernelQualityWarning))
    assert 'normalize="spherical"' in str(quality)
    assert len(caught) <= 2
    bank = KernelBank([partial(scaled_kernel, scale=scale) for scale in SCALES], normalize="spherical")
    plain = KernelBank([partial(scaled_kernel, scale=1.0) for _ in SCALES], normalize="spherical")
    first, second = (
        quietly(
            partial(BEMKLClassifier(kernels, max_iter=50, intermediate_scale=1.0).fit, X[:N_TRAIN], y),
            ConvergenceWarning,
            KernelQualityWarning,
        )
        for kernels in (bank, plain)
    )
    np.testing.assert_allclose(first.predict_proba(X[N_TRAIN:]), second.predict_proba(X[N_TRAIN:]), atol=1e-6)
