"""Tolerances, random problems and comparisons that the numerical tests share; work in a forked process."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bayesmkl
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Gamma, Gaussian, IntermediateOutputs
from bayesmkl.bemkl.multitask import MultitaskProblem
from bayesmkl.discriminative.problems import silent
from bayesmkl.discriminative.weights import SampleWeights, Training
from bayesmkl.kernels.quality import KernelInspector
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers

ROOT = Path(__file__).resolve().parents[1]  # of the repository, or of its source archive
from_source = pytest.mark.skipif(
    Path(bayesmkl.__file__).parents[1] != ROOT, reason="runs on an installed wheel"
)

# Two ways to write the same closed form, well conditioned.
SAME_FORMULA = 1e-11
# The same after a few dozen iterations, which carry rounding along.
SAME_ITERATION = 1e-8
# Special functions against many digits.
SPECIAL_FUNCTION = 5e-13
# Standard errors between a Monte Carlo estimate and the truth; with a fixed seed the outcome is fixed as well.
STANDARD_ERRORS = 4.0

NON_SPARSE = Gamma(1.0, 1.0)
SPARSE = Gamma(1e-10, 1e-10)

BINARY_PRIORS = {
    "non-sparse": Priors(),
    "sparse": Priors(kernel=SPARSE),
    "general": Priors(Gamma(1.3, 0.7), Gamma(0.6, 2.1), Gamma(2.2, 0.4)),
}
REGRESSION_PRIORS = {
    "non-sparse": Priors(),
    "sparse": Priors(kernel=SPARSE),
    "general": Priors(Gamma(1.3, 0.7), Gamma(0.6, 2.1), Gamma(2.2, 0.4), Gamma(3.1, 1.7), Gamma(0.8, 0.3)),
}


def check_kernels(kernels, names, present=None, **about):
    """Look at training kernels one after the other, as a fit does, and warn once about everything doubtful."""
    inspector = KernelInspector(names, **about)
    for m, kernel in enumerate(kernels):
        inspector.inspect(kernel, None if present is None else present[m])
    inspector.report()


def refined_a_little(model, n_draws, **given):
    """Refine a posterior by two chains that are too short to agree on anything."""
    from bayesmkl.posterior import refine_posterior

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return refine_posterior(model, n_draws, n_chains=2, max_sweeps=2 * n_draws, random_state=0, **given)


def frozen(values):
    """Return a float64 copy that refuses to be written to."""
    array = np.array(values, dtype=float)
    array.flags.writeable = False
    return array


def random_covariance(rng, size, scale=1.0):
    root = rng.normal(size=(size, 2 * size))
    return scale * (root @ root.T / (2 * size) + 0.1 * np.eye(size))


def random_gaussian(rng, size, scale=1.0):
    return Gaussian.from_moments(rng.normal(size=size), random_covariance(rng, size, scale))


def random_intermediate(rng, n_kernels, n_samples, scale=1.0):
    factor = random_gaussian(rng, n_kernels, scale)
    return IntermediateOutputs(rng.normal(size=(n_kernels, n_samples)), factor.cov, factor.log_det)


def random_gamma(rng, *shape):
    return Gamma(rng.uniform(0.7, 3.0), rng.uniform(0.5, 2.0, size=shape))


def random_kernels(rng, n_samples, n_kernels, kind="smooth"):
    """Return positive semidefinite kernels of shape (n_kernels, n_samples, n_samples)."""
    points = rng.normal(size=(n_kernels, n_samples, 2))
    distances = ((points[:, :, None] - points[:, None]) ** 2).sum(axis=-1)
    smooth = np.exp(-0.5 * distances)
    roots = rng.normal(size=(n_kernels, n_samples, max(2, n_samples // 2)))
    gram = roots @ roots.transpose(0, 2, 1) / roots.shape[2]
    match kind:
        case "smooth":
            return smooth
        case "rank deficient":
            return gram
        case "duplicated":
            return smooth[np.arange(n_kernels) // 2]
        case "near identity":
            return np.eye(n_samples) + 1e-3 * gram
        case "badly scaled":
            return gram * 10.0 ** rng.uniform(-2.0, 2.0, size=(n_kernels, 1, 1))
    raise ValueError(kind)


def samples_first(kernels):
    """Return kernels, kernels first, as estimators take them."""
    return np.moveaxis(kernels, 0, -1)


def random_labels(rng, n_samples):
    """Return labels of both classes."""
    y = np.where(rng.random(n_samples) < 0.5, -1.0, 1.0)
    y[:2] = -1.0, 1.0
    return y


def informed_target(rng, kernels):
    """Return a regression target that the first kernel explains up to some noise."""
    n_samples = kernels.shape[1]
    signal = kernels[0] @ rng.normal(size=n_samples)
    return 3.0 * signal / max(signal.std(), 1e-12) + 0.3 * rng.normal(size=n_samples)


def binary_problem(kernels, y, priors=BINARY_PRIORS["non-sparse"], margin=1.0, sigma=1.0):
    stack = DenseStack(frozen(kernels))
    return Problem(stack, frozen(stack.gram()), frozen(y), priors, Labels(margin), 1.0 / sigma**2)


def regression_problem(kernels, y, priors=REGRESSION_PRIORS["non-sparse"]):
    stack = DenseStack(frozen(kernels))
    return Problem(stack, frozen(stack.gram()), frozen(y), priors, Numbers())


class TaskPriors(NamedTuple):
    """Priors of all tasks, and of the precision τ of their weights."""

    sample: Gamma = Gamma(1.0, 1.0)
    intercept: Gamma = Gamma(1.0, 1.0)
    kernel: Gamma = Gamma(1.0, 1.0)
    task: Gamma = Gamma(1.0, 1.0)
    intermediate: Gamma = Gamma(1.0, 1.0)
    noise: Gamma = Gamma(1.0, 1.0)

    @classmethod
    def of(cls, problem):
        """Return those of a multitask problem."""
        return cls(task=problem.task_prior, **problem.tasks[0].priors._asdict())

    def problem_of(self, tasks):
        """Return a multitask problem with these priors."""
        own = Priors(*(getattr(self, name) for name in Priors._fields))
        return MultitaskProblem(tuple(task._replace(priors=own) for task in tasks), self.task)


def label_task(stack, y, margin, intermediate_precision):
    return Problem(stack, frozen(stack.gram()), frozen(y), Priors(), Labels(margin), intermediate_precision)


def target_task(stack, y):
    return Problem(stack, frozen(stack.gram()), frozen(y), Priors(), Numbers())


def step(algorithm, problem, state):
    """Run one iteration of the paper's loop from a full state."""
    return algorithm.sweep(problem, algorithm.carry(problem, state))


def arrays_of(factors, name=""):
    """Yield ("field.field", array) of nested NamedTuples, without fields that are None."""
    if hasattr(factors, "_fields"):
        for field, value in zip(factors._fields, factors, strict=True):
            yield from arrays_of(value, f"{name}.{field}" if name else field)
    elif factors is not None:
        yield name, np.asarray(factors)


def largest_error(actual, desired):
    """Return the largest difference, relative to the largest entry of `desired`."""
    actual, desired = np.asarray(actual), np.asarray(desired)
    assert actual.shape == desired.shape
    return np.abs(actual - desired).max() / max(np.abs(desired).max(), 1e-300)


def assert_same(actual, desired, tolerance, label=""):
    """Assert equality up to `tolerance` times the largest entry; NaN and other shapes fail."""
    error = largest_error(actual, desired)
    assert error <= tolerance, f"{label}: relative error {error:.2e} exceeds {tolerance:.0e}"


def assert_same_factors(actual, desired, tolerance):
    """Assert `assert_same` for every array of two nested NamedTuples."""
    pairs = zip(arrays_of(actual), arrays_of(desired), strict=True)
    for (name, found), (_, expected) in pairs:
        assert_same(found, expected, tolerance, name)


def log_likelihood(tree):
    """Return that of all targets together, as a variational model sees them, for every draw of its tree."""
    return tree["sample_stats/lp"].values - sum(tree["log_prior"].data_vars.values()).values


def assert_monte_carlo(draws, value, label=""):
    """Assert that the mean of `draws` (first axis) is `value` within STANDARD_ERRORS standard errors."""
    draws = np.asarray(draws)
    error = draws.std(axis=0) / np.sqrt(draws.shape[0])
    deviation = np.max(np.abs(draws.mean(axis=0) - value) / error)
    assert deviation <= STANDARD_ERRORS, f"{label}: {deviation:.1f} standard errors away"


def forked(work, *arguments, seconds=300):
    """Return what `work` returns, as JSON, in a fork of this process: all that a script would import is there."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which are JAX's: drivers do not use it
        pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            sys.stdout, sys.stderr = (os.fdopen(stream, "w", 1, closefd=False) for stream in (1, 2))
            with os.fdopen(writer, "w") as file:
                json.dump(work(*arguments), file)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "its traceback is in what was captured"
    return json.loads(found)


def learn(stack, targets, svm, rule, start=None, on_step=silent, counts=None):
    """Learn kernel weights by a rule, as estimators do."""
    training = rule.prepare(Training(stack, SampleWeights(counts, counts)))
    return rule.learn(training, targets, svm, start, on_step)
