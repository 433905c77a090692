"""Models that are fitted together: each gets what its own fit finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    arrays_of,
    assert_same,
    assert_same_factors,
    binary_problem,
    informed_target,
    random_kernels,
    random_labels,
    regression_problem,
)

from bayesmkl._numerics.acceleration import Coordinate
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.linalg import spd_inverse
from bayesmkl.bemkl.inference import batch
from bayesmkl.bemkl.inference.batch import maximize_elbo_batch
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary, multiclass, regression
from bayesmkl.bemkl.models.nonnegative import nonnegative
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

N_SAMPLES, N_KERNELS, N_MODELS = 20, 3, 5
AGREEMENT = 1e-9  # asked of JAX; measured below 1e-12
PLAIN = LoopOptions(max_iter=25, tol=0.0, accelerate=False)
BOTH = pytest.mark.parametrize("backend", ["numpy", "jax"])


@pytest.fixture
def models(rng):
    """Return problems that differ in their labels, and where they start."""
    first = binary_problem(random_kernels(rng, N_SAMPLES, N_KERNELS), random_labels(rng, N_SAMPLES))
    labels = np.stack([random_labels(rng, N_SAMPLES) for _ in range(N_MODELS)])
    problems = [first._replace(y=y) for y in labels]
    return problems, [binary.init(problem, np.abs(rng.normal(size=N_SAMPLES))) for problem in problems]


def separately(algorithm, models, options):
    return [maximize_elbo(algorithm, *model, options) for model in zip(*models, strict=True)]


def assert_identical(found, expected):
    assert found._replace(state=None, elbo_history=None) == expected._replace(state=None, elbo_history=None)
    np.testing.assert_array_equal(found.elbo_history, expected.elbo_history)
    for (name, array), (_, other) in zip(arrays_of(found.state), arrays_of(expected.state), strict=True):
        np.testing.assert_array_equal(array, other, err_msg=name)


@pytest.mark.parametrize("accelerate", [False, True], ids=["plain", "accelerated"])
def test_on_numpy_every_model_is_its_own_fit_to_the_last_bit(models, accelerate):
    options = LoopOptions(max_iter=150, tol=1e-5, accelerate=accelerate)
    expected = separately(binary, models, options)
    assert len({result.n_iter for result in expected}) > 2  # they end at different times
    assert {result.outcome for result in expected} >= {Outcome.CONVERGED}
    for found, own in zip(maximize_elbo_batch(binary, *models, options), expected, strict=True):
        assert_identical(found, own)


def test_on_jax_every_model_is_its_own_fit(models):
    results = maximize_elbo_batch(binary, *models, PLAIN._replace(backend="jax"))
    for found, own in zip(results, separately(binary, models, PLAIN), strict=True):
        assert_same_factors(found.state, own.state, AGREEMENT)
        np.testing.assert_allclose(found.elbo_history, own.elbo_history, rtol=AGREEMENT)
        assert (found.n_iter, found.outcome) == (PLAIN.max_iter, Outcome.MAX_ITER)
        assert all(type(array) is np.ndarray for array in (found.state.dual.cov, found.state.latent.mean))


def test_on_jax_models_end_one_by_one_at_the_optima_of_their_own_fits(models):
    options = LoopOptions(max_iter=400, tol=1e-9, depth=3)
    expected = separately(binary, models, options)
    results = maximize_elbo_batch(binary, *models, options._replace(backend="jax"))
    assert len({result.n_iter for result in results}) > 2
    for found, own, problem in zip(results, expected, models[0], strict=True):
        assert found.outcome is own.outcome is Outcome.CONVERGED
        np.testing.assert_allclose(found.elbo_history[-1], own.elbo_history[-1], rtol=1e-6)
        assert (np.diff(found.elbo_history) >= 0.0).all()
        assert found.elbo_history[-1] == pytest.approx(binary.elbo(problem, found.state), rel=1e-11)


@BOTH
def test_a_model_that_fails_leaves_the_others_alone(models, backend):
    problems, starts = map(list, models)
    options = PLAIN._replace(backend=backend)
    expected = maximize_elbo_batch(binary, problems, starts, options)
    problems[1] = problems[1]._replace(y=np.full(N_SAMPLES, np.nan))
    results = maximize_elbo_batch(binary, problems, starts, options)
    assert results[1].outcome is Outcome.NOT_FINITE
    for k in (0, 2, 3, 4):
        assert_same_factors(results[k].state, expected[k].state, AGREEMENT)
        np.testing.assert_allclose(results[k].elbo_history, expected[k].elbo_history, rtol=AGREEMENT)


def test_a_random_start_counts_as_a_model(models):
    """Problems may be the same object: what differs are the starts."""
    problem, starts = models[0][0], models[1]
    found = maximize_elbo_batch(binary, [problem] * N_MODELS, starts, PLAIN)
    for result, start in zip(found, starts, strict=True):
        assert_identical(result, maximize_elbo(binary, problem, start, PLAIN))


@BOTH
def test_progress_is_that_of_all_models(models, backend):
    seen: list[tuple[int, float]] = []
    options = LoopOptions(max_iter=400, tol=1e-9, depth=3, backend=backend)
    results = maximize_elbo_batch(binary, *models, options, lambda *call: seen.append(call))
    counts, bounds = zip(*seen, strict=True)
    assert (np.diff(counts) >= 0).all()
    assert counts[-1] == sum(result.n_iter for result in results) // N_MODELS
    assert bounds[0] == pytest.approx(results[0].elbo_history[0], rel=1e-9)
    assert bounds[-1] == pytest.approx(sum(result.elbo_history[-1] for result in results), rel=1e-12)
    assert len(seen) == sum(result.n_iter for result in results)


# ------------------------------------------------------------------------------- loop on algorithms made up here


class Point(NamedTuple):
    x: Any


def halfway(fragile):
    """Return an algorithm that goes half of the way to 1; if "fragile", only from points of the plain iteration."""

    def sweep(problem, start):
        x = float(start.x[0])
        if problem == "fragile" and x not in plain:
            if fragile == "exception":
                raise np.linalg.LinAlgError("not positive definite")
            return start, float("nan")
        return Point(np.array([0.5 * (1.0 + x)])), -abs(0.5 * (1.0 - x))

    plain = {1.0 - 0.5**n for n in range(60)}
    return SimpleNamespace(
        sweep=sweep,
        carry=lambda problem, state: state,
        COORDINATES=Point(Coordinate),
        scales=lambda state: Point(np.ones(1)),
    )


@pytest.mark.parametrize("failure", ["exception", "nan"])
def test_extrapolations_that_fail_are_dropped_in_their_own_model(failure):
    algorithm, start = halfway(failure), Point(np.array([0.0]))
    options = LoopOptions(max_iter=20, tol=0.0)
    sound, broken = maximize_elbo_batch(algorithm, ["sound", "fragile"], [start, start], options)
    assert sound.n_rejected < broken.n_rejected
    assert broken.n_rejected > 3
    assert np.isfinite(broken.elbo_history).all()
    assert abs(sound.elbo_history[3]) < 1e-9  # at the fixed point after one extrapolation
    assert_identical(sound, maximize_elbo(algorithm, "sound", start, options))


# ------------------------------------------------------------------------------------------------ what is shared


def test_only_what_differs_gets_an_axis_of_models(models):
    problems = models[0]
    leaves, axes, _ = batch._merge(problems)
    by_axis = {
        axis: [leaf.shape for leaf, own in zip(leaves, axes, strict=True) if own == axis] for axis in axes
    }
    assert by_axis[0] == [(N_MODELS, N_SAMPLES)]  # the labels
    assert (N_KERNELS, N_SAMPLES, N_SAMPLES) in by_axis[None]
    assert (N_SAMPLES, N_SAMPLES) in by_axis[None]
    margins = [problem._replace(margin=0.1 * k) for k, problem in enumerate(problems)]
    assert batch._merge(margins)[1].count(0) == 2


def test_few_models_at_once_on_a_cpu():
    at_once = [batch._at_once(n_models, 100) for n_models in (2, 3, 4, 5, 6, 10)]
    assert at_once == [2, 3, 4, 3, 3, 4]
    assert batch._at_once(10, 700) == 2
    assert batch._at_once(10, 5000) == 1


def test_all_models_at_once_on_an_accelerator(monkeypatch):
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert batch._at_once(10, 5000) == 10


def models_of_two_sizes(rng, models):
    """Return the first models, and one with fewer samples and kernels of its own."""
    n = N_SAMPLES - 3
    other = binary_problem(random_kernels(rng, n, N_KERNELS), random_labels(rng, n))
    return [*models[0][:2], other], [*models[1][:2], binary.init(other, np.ones(n))]


def test_kernels_of_their_own_are_swept_together_on_an_accelerator_only(rng, models, monkeypatch):
    jax = pytest.importorskip("jax")
    problems, _ = models_of_two_sizes(rng, models)
    assert batch._batches(problems) == [[0, 1], [2]]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert batch._batches(problems) == [[0, 1, 2]]
    fewer = problems[2]._replace(stack=DenseStack(problems[2].stack.kernels[:2]))
    assert batch._batches([*problems, fewer]) == [[0, 1, 2], [3]]


@pytest.mark.slow
def test_models_of_other_sizes_with_kernels_of_their_own_can_be_swept_together(rng, models, monkeypatch):
    monkeypatch.setattr(batch, "_batches", lambda problems: [list(range(len(problems)))])
    models = models_of_two_sizes(rng, models)
    results = maximize_elbo_batch(binary, *models, PLAIN._replace(backend="jax"))
    for found, own in zip(results, separately(binary, models, PLAIN), strict=True):
        assert_same_factors(found.state, own.state, AGREEMENT)
        np.testing.assert_allclose(found.elbo_history, own.elbo_history, rtol=AGREEMENT)


@pytest.mark.parametrize(
    ("most", "expected"),
    [(4, [4] * 4), (7, [7] * 7), (16, [2, 2, *[16] * 14]), (64, [1, *[8] * 7, *[64] * 56])],
)
def test_few_numbers_of_slots_are_compiled(most, expected):
    assert [batch._slots(n_models, most) for n_models in range(1, most + 1)] == expected


def factorized(jaxpr):
    """Yield the shapes of all matrices that a JAX program factorizes, loops included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "cholesky":
            yield equation.invars[0].aval.shape
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from factorized(inner)


def test_matrices_are_inverted_one_by_one_on_a_cpu(rng):
    """Two batches of factorizations at the same time never end where XLA has two threads."""
    jax = pytest.importorskip("jax")
    roots = rng.normal(size=(4, 6, 12))
    matrices = roots @ roots.mT
    with jax.enable_x64(True):
        for inverses in (spd_inverse, jax.vmap(spd_inverse)):
            assert set(factorized(jax.make_jaxpr(inverses)(matrices).jaxpr)) == {(6, 6)}
        inverse, log_det = jax.vmap(spd_inverse)(jax.numpy.asarray(matrices))
    assert_same(inverse, np.linalg.inv(matrices), 1e-11)
    assert_same(log_det, -np.linalg.slogdet(matrices)[1], 1e-11)


# -------------------------------------------------------------------------------------------- other algorithms


def regression_models(rng, kernels):
    first = regression_problem(kernels, informed_target(rng, kernels))
    problems = [first._replace(y=informed_target(rng, kernels)) for _ in range(3)]
    return problems, [regression.init(problem, np.zeros(N_SAMPLES)) for problem in problems]


def nonnegative_models(rng, kernels):
    first = binary_problem(kernels, random_labels(rng, N_SAMPLES))
    problems = [first._replace(y=random_labels(rng, N_SAMPLES), margin=margin) for margin in (0.0, 0.5, 1.0)]
    return problems, [binary.init(problem, np.ones(N_SAMPLES)) for problem in problems]


def multiclass_models(rng, kernels):
    first = binary_problem(kernels, random_labels(rng, N_SAMPLES), BINARY_PRIORS["general"])
    labels = np.stack([[random_labels(rng, N_SAMPLES) for _ in range(2)] for _ in range(3)])
    problems = [multiclass.MulticlassProblem(*first)._replace(y=y) for y in labels]
    return problems, [multiclass.init(problem, np.ones(N_SAMPLES)) for problem in problems]


CASES = {
    "regression": (regression, regression_models),
    "nonnegative": (nonnegative(binary), nonnegative_models),
    "multiclass": (multiclass, multiclass_models),
}


@pytest.mark.parametrize(
    ("name", "backend"),
    [(name, "numpy") for name in CASES]
    + [pytest.param(name, "jax", marks=pytest.mark.slow) for name in CASES],
)
def test_every_algorithm_can_be_batched(rng, name, backend):
    algorithm, make = CASES[name]
    models = make(rng, random_kernels(rng, N_SAMPLES, N_KERNELS))
    results = maximize_elbo_batch(algorithm, *models, PLAIN._replace(backend=backend))
    for found, own in zip(results, separately(algorithm, models, PLAIN), strict=True):
        assert_same_factors(found.state, own.state, AGREEMENT)
        np.testing.assert_allclose(found.elbo_history, own.elbo_history, rtol=AGREEMENT)
