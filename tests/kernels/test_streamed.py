"""Kernels that are evaluated in blocks, against the same kernels held in memory."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.datasets import open_rows
from bayesmkl.kernels import (
    Cosine,
    FromDistance,
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    Polynomial,
    Tanimoto,
)
from bayesmkl.kernels.stacks import streamed
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.streamed import (
    check_rows,
    fit_bank_to_rows,
    is_row_source,
    streamed_stack,
)
from bayesmkl.outcomes import Labels, Numbers

pytestmark = pytest.mark.heavy

N, B = 103, 12


def user_kernel(X, Z):
    return 1.0 / (1.0 + np.abs(X[:, None] - Z).sum(axis=2))


EVERY_KIND = [
    Gaussian(width=2),
    Polynomial(degree=3),
    Laplacian(width=3),
    Linear(),
    Cosine(),
    Tanimoto(),
    FromDistance("chebyshev"),
    FromDistance("cityblock"),
    "chi2",
    user_kernel,
]


@pytest.fixture
def X(rng):
    return np.abs(rng.normal(size=(N, 5)))


@pytest.fixture(autouse=True)
def many_small_blocks(monkeypatch):
    """Eight rows per tile and two tiles per block, of which the last is not full."""
    monkeypatch.setattr(streamed, "TILE", 8 * B)
    monkeypatch.setattr(streamed, "LEAST_ROWS", 1)
    monkeypatch.setattr(streamed, "BLOCKS", 7)
    monkeypatch.setattr(streamed, "GRAM_TILE", 9 * B)


def pair(X, threads=2, kernels="paper", **options):
    """Return a streamed stack and the dense one."""
    bank = KernelBank(kernels, landmarks=B, landmark_selection="random", **options).fit(X)
    return streamed_stack(bank, X, threads=threads), DenseStack(bank.evaluate(X))


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-13 * np.abs(expected).max(initial=1.0))


@pytest.mark.parametrize(
    ("normalize", "views"),
    [
        (None, "all"),
        ("spherical", {"left": [3, 0], "right": slice(1, 5)}),
        ("trace", {"left": [3, 0]}),
        (("center", "spherical"), "all"),
    ],
)
def test_tiles_are_kernels_of_every_kind(X, rng, normalize, views):
    stack, dense = pair(X, kernels=EVERY_KIND, views=views, normalize=normalize)
    assert_close(stack.as_dense().kernels, dense.kernels)
    vectors = rng.normal(size=(B, 3))
    assert_close(stack.apply(vectors), dense.apply(vectors))


@pytest.mark.parametrize("large", [B, B + 1])
def test_gram_by_either_road(X, monkeypatch, large):
    """One sum for each block of rows, or one for all of them; symmetric to the last digit."""
    monkeypatch.setattr(streamed, "LARGE", large)
    stack, dense = pair(X, kernels=EVERY_KIND[:4])
    gram = stack.gram()
    assert_close(gram, dense.gram())
    np.testing.assert_array_equal(gram, gram.T)


def test_spread_is_mean_and_variance_over_rows(X, rng):
    """Also where the mean is far larger than the deviation."""
    stack, dense = pair(X + 1e3, kernels=[Linear(), Gaussian(width=2)], normalize=None)
    vectors = rng.normal(size=(B, 4))
    products = dense.apply(vectors)
    spread = stack.spread(vectors)
    np.testing.assert_allclose(spread.mean, products.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(spread.variance, products.var(axis=1), rtol=1e-9)


def test_only_the_array_itself_is_known(X, rng):
    """Not an equal one that was changed since, nor one that came before; the array itself cannot be changed."""
    stack, dense = pair(X)
    P = dense.n_kernels
    arguments = rng.normal(size=B), rng.normal(size=(P, P)), rng.normal(size=(P, N))
    _, first = stack.apply_and_adjoin(*arguments)
    other = first.copy()
    other[3] *= 2.0
    assert_close(stack.adjoint(other), dense.adjoint(other))
    assert_close(stack.adjoint(first), dense.adjoint(first))
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1.0
    stack.adjoint(first)[:] = 0.0  # what was returned belongs to whom it was returned to
    assert_close(stack.adjoint(first), dense.adjoint(first))
    _, second = stack.apply_and_adjoin(2.0 * arguments[0], *arguments[1:])
    for mixed in (first, second):
        assert_close(stack.adjoint(mixed), dense.adjoint(mixed))


def binary_problem(stack, X):
    y = np.where(X[:, 0] > X[:, 1], 1.0, -1.0)
    problem = Problem(stack, stack.gram(), y, Priors(), Labels(1.0), 1.0)
    return problem, bemkl.init(problem, np.full(N, 0.8))


def regression_problem(stack, X):
    y = X[:, 0] ** 2 - X[:, 1]
    problem = Problem(stack, stack.gram(), y, Priors(), Numbers())
    return problem, bemkl.init(problem, np.zeros(N))


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("problem_of", [binary_problem, regression_problem])
@pytest.mark.parametrize(("most_kept", "evaluations"), [(2**19, 1), (0, 2)])
def test_updates_evaluate_kernels_once(X, monkeypatch, accelerate, problem_of, most_kept, evaluations):
    """And twice where there are too many kernels for the cache; the posterior is that of the dense stack."""

    def counting(kernel, geometry, out):
        counted.append(out.size)
        evaluate(kernel, geometry, out)

    evaluate, counted = Gaussian.evaluate, []
    monkeypatch.setattr(Gaussian, "evaluate", counting)
    monkeypatch.setattr(streamed, "MOST_KEPT", most_kept)
    stack, dense = pair(X, kernels=[Gaussian(width=w) for w in (1, 2, 4)], views={"l": [0, 2], "r": [1, 3]})
    options = LoopOptions(max_iter=12, tol=0.0, accelerate=accelerate)
    problem, start = problem_of(stack, X)
    counted.clear()
    result = maximize_elbo(bemkl, problem, start, options)
    sweeps = result.n_iter
    adjoint_of_rejected = (evaluations - 1) * result.n_rejected
    assert sum(counted) == (evaluations * sweeps - adjoint_of_rejected) * 6 * N * B
    expected = maximize_elbo(bemkl, *problem_of(dense, X), options)
    np.testing.assert_allclose(result.elbo_history, expected.elbo_history, rtol=1e-9)
    for name, factor in expected.state._asdict().items():
        found = getattr(result.state, name)
        assert (found is None) == (factor is None), name
        for one, other in zip(found or (), factor or (), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-9 * np.abs(other).max(), err_msg=name)


def test_threads_change_no_digit(X, rng):
    """Sums go over blocks in the order of the rows, however many threads there are."""
    rows, vector = rng.normal(size=(13, N)), rng.normal(size=B)
    mixing = rng.normal(size=(13, 13))
    results = []
    for threads in (1, 2, 5):
        stack, _ = pair(X, threads=threads)
        product, mixed = stack.apply_and_adjoin(vector, mixing, rows)
        fused = product, mixed, stack.adjoint(mixed)
        results.append([stack.adjoint(rows), stack.apply(vector), *stack.spread(vector[:, None]), *fused])
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            np.testing.assert_array_equal(one, other)


def test_rows_of_a_file(X, rng, tmp_path):
    """A Parquet file in row groups that are no multiple of anything, read in blocks of one tile."""
    names = list("abcde")
    pd.DataFrame(X, columns=names).to_parquet(tmp_path / "X.parquet", row_group_size=31)
    rows = open_rows(tmp_path / "X.parquet")
    assert is_row_source(rows)
    bank = fit_bank_to_rows(KernelBank(views={"left": ["a", "c"], "right": ["b"]}, landmarks=B), rows)
    assert list(bank.feature_names_in_) == names
    stack, dense = streamed_stack(bank, rows, block_bytes=8 * 5 * 8), DenseStack(bank.evaluate(X))
    vector, weights = rng.normal(size=B), rng.normal(size=(dense.n_kernels, N))
    assert_close(stack.apply(vector), dense.apply(vector))
    assert_close(stack.adjoint(weights), dense.adjoint(weights))
    assert_close(stack.gram(), dense.gram())
    assert_close(stack.rows(slice(20, 60)).apply(vector), dense.rows(slice(20, 60)).apply(vector))


def test_bank_learns_from_a_sample_as_from_an_array(X):
    """With fewer rows than the sample may have it is the bank that an array gives, in all its numbers."""
    for landmarks in (B, X[:7]):
        options = {"kernels": EVERY_KIND, "normalize": ("center", "spherical"), "landmarks": landmarks}
        bank = fit_bank_to_rows(KernelBank(**options), open_rows(X))
        expected = KernelBank(**options).fit(X)
        np.testing.assert_array_equal(bank.basis_, expected.basis_)
        np.testing.assert_array_equal(bank.evaluate(X), expected.evaluate(X))
        np.testing.assert_array_equal(bank.transform(X), expected.transform(X))
        assert bank.X_train_ is bank.basis_


def test_memory_is_that_of_tiles(rng, monkeypatch):
    """Passes over kernels of 50 MB take what the stack says, and their results."""
    monkeypatch.setattr(streamed, "TILE", 2**15)
    monkeypatch.setattr(streamed, "KEPT", 2**16)
    X = rng.normal(size=(6000, 4))
    bank = KernelBank([Gaussian(width=2), Polynomial()], views="each", landmarks=131).fit(X)
    stack = streamed_stack(bank, X, threads=2)
    tracemalloc.start()
    product = stack.apply(np.ones(131))
    stack.adjoint(product)
    peak = tracemalloc.get_traced_memory()[1] - product.nbytes
    tracemalloc.reset_peak()
    stack.apply_and_adjoin(np.ones(131), np.eye(8), product)
    peak = max(peak, tracemalloc.get_traced_memory()[1] - 3 * product.nbytes)
    tracemalloc.stop()
    assert 0.5 * stack.nbytes < peak < 1.3 * stack.nbytes < 8 * 8 * 6000 * 131 / 12


def test_values_that_are_not_finite_name_kernel_and_row(X):
    X = X.copy()
    X[[57, 90]] *= 1e200
    bank = KernelBank([Gaussian(), Polynomial(degree=3)], landmarks=X[:B], normalize=None).fit(X[:B])
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match=r"kernel 'polynomial\(degree=3\) · all'.*in row 57 first"),
    ):
        streamed_stack(bank, X).gram()


def test_error_state_holds_in_all_threads(X):
    """Who ignores overflow sees no warning from a thread, and who does not, does."""
    bank = KernelBank(Polynomial(degree=3), landmarks=X[:B], normalize="center").fit(X[:B])
    stack, vector = streamed_stack(bank, 1e140 * X, threads=2), np.ones(B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            stack.apply(vector)
        with pytest.raises(RuntimeWarning, match="invalid value"):
            stack.apply(vector)


def test_functions_of_the_user_run_in_one_thread(X):
    for kernel in (user_kernel, FromDistance(lambda x, z: abs(x - z).sum())):
        assert streamed_stack(KernelBank(kernel, landmarks=3).fit(X), X, threads=4).threads == 1
    assert streamed_stack(KernelBank(landmarks=3).fit(X), X, threads=4).threads == 4


# ------------------------------------------------------------------------------------------------- bad input


def test_banks_with_missing_views_are_refused(X):
    bank = KernelBank(missing_views="keep").fit(X)
    with pytest.raises(ValueError, match=r"`missing_views` must be \"error\".*got 'keep'.*storage=\"dense\""):
        streamed_stack(bank, X)


@pytest.mark.parametrize(("option", "value"), [("threads", 0), ("threads", 1.5), ("block_bytes", 0)])
def test_wrong_options(X, option, value):
    with pytest.raises(ValueError, match=f"`{option}` must be a whole number >= 1; got {value}"):
        streamed_stack(KernelBank(landmarks=3).fit(X), X, **{option: value})


def test_gram_that_does_not_fit_is_refused(X, monkeypatch):
    stack, _ = pair(X)
    monkeypatch.setattr("bayesmkl._utils.memory.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"over 12 basis points needs 2\.3 kB, and 1\.0 kB are available"):
        stack.gram()


def test_rows_that_cannot_be_used_are_named(X, tmp_path):
    X = X.copy()
    X[70, 3] = np.nan
    pd.DataFrame(X, columns=list("abcde")).to_parquet(tmp_path / "X.parquet", row_group_size=30)
    rows = open_rows(tmp_path / "X.parquet")
    with pytest.raises(
        ValueError, match=r"`X`: row 70 of <103 rows .*> has NaN in column 'd'\. Leave such rows out"
    ):
        fit_bank_to_rows(KernelBank(landmarks=B), rows)
    X[70, 3], X[9, 1] = 0.0, -np.inf
    with pytest.raises(ValueError, match=r"row 9 of .* has infinity in column 1"):
        check_rows(open_rows(X))
    with pytest.raises(ValueError, match="`X` must have rows"):
        check_rows(open_rows(X[:0]))
