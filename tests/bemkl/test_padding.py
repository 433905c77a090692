"""Padded problems: their fits are those of the problems, and what was compiled for one serves the others."""

from __future__ import annotations

from contextlib import contextmanager

import jax
import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    REGRESSION_PRIORS,
    SPARSE,
    assert_same,
    assert_same_factors,
    binary_problem,
    random_kernels,
    random_labels,
)

from bayesmkl.bemkl.inference import padding as padding_module
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.inference.padding import ExactShape, bucket_size, pad_problems, size_class
from bayesmkl.bemkl.models import binary, multiclass, multinomial, multioutput, regression
from bayesmkl.bemkl.models.absent_views import AbsentViews
from bayesmkl.bemkl.models.nonnegative import nonnegative
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.float32 import store_float32
from bayesmkl.kernels.stacks.fold import FoldStack
from bayesmkl.kernels.stacks.lowrank import LowRankStack, compress

N_SAMPLES, N_KERNELS, N_OUTPUTS = 21, 3, 3
PADDED = 1e-11  # of the largest entry, after a few sweeps; measured below 1e-13
ON_JAX = 1e-9
PLAIN = LoopOptions(max_iter=15, tol=0.0, accelerate=False, backend="jax")


def stacks(rng):
    """Return stacks of different forms, and what a problem on a padded one starts from."""
    kernels = random_kernels(rng, N_SAMPLES, N_KERNELS)
    fold = np.sort(rng.choice(N_SAMPLES, 15, replace=False))
    part = DenseStack(np.ascontiguousarray(kernels[:, fold][:, :, fold]))
    return {
        "square": (DenseStack(kernels),) * 2,
        "landmarks": (DenseStack(np.ascontiguousarray(kernels[:, :, :9])),) * 2,
        "fold": (part, FoldStack(DenseStack(kernels), fold)),
    }


def labels(rng, stack):
    return random_labels(rng, stack.n_rows)


def some_labels(rng, stack):
    return np.where(np.arange(stack.n_rows) < 5, 0.0, random_labels(rng, stack.n_rows))


def several_labels(rng, stack):
    return np.stack([random_labels(rng, stack.n_rows) for _ in range(N_OUTPUTS)])


def classes(rng, stack):
    return np.where(np.arange(N_OUTPUTS)[:, None] == np.arange(stack.n_rows) % N_OUTPUTS, 1.0, -1.0)


def targets(rng, stack):
    return 2.0 + rng.normal(size=stack.n_rows)


def several_targets(rng, stack):
    return 2.0 + rng.normal(size=(N_OUTPUTS, stack.n_rows))


MODELS = {
    "binary": (binary, binary.BinaryProblem, labels),
    "semi-supervised": (binary, binary.BinaryProblem, some_labels),
    "non-negative": (nonnegative(binary), binary.BinaryProblem, labels),
    "multiclass": (multiclass, multiclass.MulticlassProblem, several_labels),
    "multinomial": (multinomial, multinomial.MultinomialProblem, classes),
    "regression": (regression, regression.RegressionProblem, targets),
    "multioutput": (multioutput, multioutput.MultioutputProblem, several_targets),
}


def problem_on(stack, model, prior, rng):
    """Return an algorithm, a problem of it on `stack`, and its start."""
    algorithm, make, draw = MODELS[model]
    y = draw(rng, stack)
    if model in ("regression", "multioutput"):
        problem = make(stack, stack.gram(), y, REGRESSION_PRIORS[prior])
    else:
        problem = make(stack, stack.gram(), y, BINARY_PRIORS[prior], 0.8, 0.7)
    return algorithm, problem, algorithm.init(problem, np.abs(rng.normal(size=stack.n_rows)))


def sweeps(algorithm, problem, start, padding=None, n_sweeps=8):
    """Return state and bound after some sweeps from `start`, all taken out of the padded problem."""
    padding = padding or ExactShape()
    algorithm = padding.wrap(algorithm)
    for _ in range(n_sweeps):
        state, bound = algorithm.sweep(problem, padding.start(start))
        start = padding.carry(algorithm.carry(problem, state))
    return padding.state(state), padding.bound(bound)


@pytest.mark.parametrize("prior", ["general", "sparse"])
@pytest.mark.parametrize("form", ["square", "landmarks", "fold"])
@pytest.mark.parametrize("model", MODELS)
def test_sweeps_of_the_padded_problem_are_those_of_the_problem(rng, model, form, prior):
    stack, padded_stack = stacks(rng)[form]
    algorithm, problem, start = problem_on(stack, model, prior, rng)
    (padded,), (padding,) = pad_problems([problem._replace(stack=padded_stack)])
    assert padded.problem.stack.n_rows == 24 > stack.n_rows
    assert padded.counted.sum() == stack.n_rows
    expected, bound = sweeps(algorithm, problem, start)
    found, padded_bound = sweeps(algorithm, padded, start, padding)
    assert type(found) is type(expected)
    assert_same_factors(found, expected, PADDED)
    assert_same(padded_bound, bound, PADDED)


def test_weights_of_padding_stay_where_they_start(rng):
    """With the sparse prior too: r / c is a fixed point, whatever is swept."""
    for prior in (BINARY_PRIORS["general"], BINARY_PRIORS["general"]._replace(sample=SPARSE)):
        stack = stacks(rng)["square"][0]
        algorithm, problem, start = problem_on(stack, "binary", "general", rng)
        (padded,), (padding,) = pad_problems([problem._replace(priors=prior)])
        state, _ = padding.wrap(algorithm).sweep(padded, padding.start(start))
        np.testing.assert_allclose(
            state.dual.square[stack.n_train :], prior.sample.rate / prior.sample.concentration
        )
        np.testing.assert_array_equal(state.intermediate.mean[:, stack.n_rows :], 0.0)
        np.testing.assert_array_equal(state.latent.mean[stack.n_rows :], 0.0)


def test_held_out_samples_do_not_matter(rng):
    """A fold in its place among all samples is the same whatever the kernels of the others are."""
    stack, fold = stacks(rng)["fold"]
    algorithm, problem, start = problem_on(stack, "binary", "general", rng)
    kernels = rng.normal(size=fold.whole.kernels.shape)
    kernels[np.ix_(range(N_KERNELS), fold.samples, fold.samples)] = stack.kernels
    other = fold._replace(whole=DenseStack(kernels))
    found = []
    for own in (fold, other):
        (padded,), (padding,) = pad_problems([problem._replace(stack=own)])
        found.append(sweeps(algorithm, padded, start, padding))
    assert_same_factors(found[0][0], found[1][0], PADDED)
    assert_same(found[0][1], found[1][1], PADDED)


def test_contractions_of_a_fold_are_those_of_its_own_kernels(rng):
    stack, fold = stacks(rng)["fold"]
    assert (fold.n_kernels, fold.n_rows, fold.n_train, fold.nbytes) == (
        stack.n_kernels,
        stack.n_rows,
        stack.n_train,
        stack.nbytes,
    )
    one, several = rng.normal(size=15), rng.normal(size=(15, 4))
    assert_same(fold.apply(one), stack.apply(one), PADDED)
    assert_same(fold.apply(several), stack.apply(several), PADDED)
    assert_same(
        fold.adjoint(np.outer(np.ones(N_KERNELS), one)),
        stack.adjoint(np.outer(np.ones(N_KERNELS), one)),
        PADDED,
    )
    assert_same(fold.gram(), stack.gram(), PADDED)


# --------------------------------------------------------------------------------------------------- sizes


def test_sizes_are_few_and_close():
    sizes = np.arange(1, 5000)
    buckets = np.array([bucket_size(int(n)) for n in sizes])
    assert (buckets >= sizes).all()
    assert (buckets - sizes < np.maximum(8, sizes / 16)).all()
    assert (np.diff(buckets) >= 0).all()
    assert all(bucket_size(int(n)) == n for n in np.unique(buckets))
    assert len(np.unique(buckets[sizes > 512])) <= 16 * np.log2(5000 / 512) + 1


def test_several_problems_get_the_size_of_the_largest_and_share_what_they_shared(rng):
    stack = stacks(rng)["square"][0]
    _, problem, _ = problem_on(stack, "binary", "general", rng)
    smaller = DenseStack(np.ascontiguousarray(stack.kernels[:, :9, :9]))
    other = problem._replace(stack=smaller, gram=smaller.gram(), y=problem.y[:9])
    third = problem._replace(y=-problem.y)
    (first, second, last), _ = pad_problems([problem, other, third])
    assert {p.problem.stack.kernels.shape for p in (first, second, last)} == {(N_KERNELS, 24, 24)}
    assert first.problem.stack is last.problem.stack
    assert first.problem.gram is last.problem.gram
    assert first.counted is last.counted
    assert second.counted.sum() == 9
    assert size_class(problem) == size_class(other) != size_class(problem._replace(y=problem.y[None]))


def test_large_kernels_are_not_copied(rng, monkeypatch):
    monkeypatch.setattr(padding_module, "COPIED_BYTES", 1000)
    stack, fold = (stacks(rng)[form][1] for form in ("square", "fold"))
    for own, kernels in ((stack, stack.kernels), (fold, fold.whole.kernels)):
        algorithm, problem, start = problem_on(own, "binary", "general", rng)
        (padded,), (padding,) = pad_problems([problem])
        assert padded.problem.stack.kernels is kernels
        assert padded.counted.sum() == own.n_rows
        assert_same_factors(
            *(sweeps(algorithm, *how)[0] for how in ((padded, start, padding), (problem, start))), PADDED
        )


def test_single_precision_stays_single(rng):
    stack = stacks(rng)["square"][0]
    algorithm, problem, start = problem_on(stack, "binary", "general", rng)
    single = store_float32(stack.kernels, N_KERNELS)
    problem = problem._replace(stack=single, gram=single.gram())
    (padded,), (padding,) = pad_problems([problem])
    assert padded.problem.stack.kernels.dtype == np.float32
    assert padded.problem.gram.dtype == np.float64
    found, bound = sweeps(algorithm, padded, start, padding)
    expected, own_bound = sweeps(algorithm, problem, start)
    assert_same_factors(found, expected, PADDED)
    assert_same(bound, own_bound, PADDED)
    assert size_class(problem) != size_class(problem._replace(stack=stack))


def test_what_cannot_be_padded_keeps_its_shape(rng):
    stack = stacks(rng)["square"][0]
    _, problem, start = problem_on(stack, "multiclass", "general", rng)
    absent = AbsentViews(*[None] * len(AbsentViews._fields))
    present = np.ones((N_KERNELS, N_SAMPLES), dtype=bool)
    low_rank = compress(DenseStack(np.ones((N_KERNELS, N_SAMPLES, N_SAMPLES))))
    assert isinstance(low_rank, LowRankStack)
    for other in (
        problem._replace(stack=low_rank),
        problem._replace(absent=absent),
        problem._replace(stack=stack._replace(present=present)),
    ):
        (same,), (padding,) = pad_problems([other])
        assert same is other
        assert padding.start(start) is start
        assert size_class(other) != size_class(problem)


# ------------------------------------------------------------------------------------------------------ JAX


@contextmanager
def compilations():
    """Collect the seconds of everything that JAX compiles."""
    seconds: list[float] = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            seconds.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seconds
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def smooth_problem(rng, n_samples):
    return binary_problem(
        random_kernels(rng, n_samples, 2), random_labels(rng, n_samples), BINARY_PRIORS["general"]
    )


def test_one_compilation_serves_all_sizes_of_a_bucket(rng):
    accelerated = PLAIN._replace(max_iter=300, tol=1e-9, accelerate=True)
    seen = []
    for n_samples, options in ((17, accelerated), (24, PLAIN), (19, PLAIN), (20, accelerated)):
        problem = smooth_problem(rng, n_samples)
        start = binary.init(problem, np.ones(n_samples))
        with compilations() as seconds:
            found = maximize_elbo(binary, problem, start, options)
        seen.append(len(seconds))
        expected = maximize_elbo(binary, problem, start, options._replace(backend="numpy"))
        if options is PLAIN:
            assert_same_factors(found.state, expected.state, ON_JAX)
            np.testing.assert_allclose(found.elbo_history, expected.elbo_history, rtol=ON_JAX)
        assert found.outcome is expected.outcome
        assert found.elbo_history[-1] == pytest.approx(expected.elbo_history[-1], rel=1e-6)
        assert found.state.dual.cov.base is None  # holds no padding
    assert seen[0] > 0
    assert seen[1:] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["regression", "multiclass", "multinomial", "multioutput", "non-negative"])
def test_padded_fits_on_jax_agree_with_numpy(rng, model):
    algorithm, problem, start = problem_on(stacks(rng)["square"][0], model, "general", rng)
    found = maximize_elbo(algorithm, problem, start, PLAIN)
    expected = maximize_elbo(algorithm, problem, start, PLAIN._replace(backend="numpy"))
    assert_same_factors(found.state, expected.state, ON_JAX)
    np.testing.assert_allclose(found.elbo_history, expected.elbo_history, rtol=ON_JAX)


def test_stacks_on_one_array_are_the_same_kernels(rng):
    stack = DenseStack(np.array([np.outer(x, x) for x in rng.normal(size=(2, 6))]))
    single = store_float32(stack.kernels, 2)
    folds = [FoldStack(stack, np.arange(4)), FoldStack(stack, np.arange(2, 6))]
    assert all(padding_module.stored_kernels(own) is stack.kernels for own in (stack, *folds))
    assert padding_module.stored_kernels(single) is single.kernels
    lowrank = compress(stack)
    assert isinstance(lowrank, LowRankStack)
    assert padding_module.stored_kernels(lowrank) is lowrank


def test_entries_are_spread_in_their_precision():
    for dtype in (np.float32, bool):
        found = padding_module._spread(np.ones((2, 2), dtype=dtype), np.array([0, 3]), 4)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, [[1, 0, 0, 1]] * 2)
    np.testing.assert_array_equal(padding_module._spread(np.zeros(2), slice(1, 3), 4, 1.0), [1, 0, 0, 1])
