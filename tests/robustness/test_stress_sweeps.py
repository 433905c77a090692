"""Every BEMKL model against the same sweeps with 50 digits, under extreme kernels, priors, margins and noise."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from many_digits import DIGITS, Old, Settings, doubles, exact, sweep

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.nonnegative import nonnegative
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Classes, Labels, Numbers

pytestmark = [pytest.mark.family("numbers under stress"), pytest.mark.heavy]

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
        self.module = nonnegative(bemkl) if model == "nonnegative" else bemkl
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
