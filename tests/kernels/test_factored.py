"""Kernels by factors against dense ones: of low rank, new rows through them, and linear kernels by their features."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLClassifier,
    GPMKLRegressor,
    KernelBank,
    load_model,
    save_model,
)
from bayesmkl._estimator import base as storage
from bayesmkl._utils import memory
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.draws import kernel_shares
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.bemkl.moments import Gaussian as Normal
from bayesmkl.bemkl.reading import predict_score
from bayesmkl.datasets import load_wdbc
from bayesmkl.gp import Marginal, reading
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.evidence import exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate_slope
from bayesmkl.gp.hyperpriors import DirichletShares, LogNormal
from bayesmkl.kernels import Gaussian, Linear, Polynomial
from bayesmkl.kernels.stacks import base, factored, of_bank
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.factored import (
    CALL_BYTES,
    TOLERANCE,
    Factorizer,
    LinearStack,
    LowRankStack,
    compress_each,
    group_by_rank,
)
from bayesmkl.kernels.stacks.of_bank import (
    RowParts,
    factored_rows,
    linear_rows,
    linear_stack,
    row_factors,
)
from bayesmkl.kernels.stacks.streamed import StreamedStack
from bayesmkl.outcomes import Gaussian as GaussianNoise
from bayesmkl.outcomes.labels import Labels
from bayesmkl.posterior import contributions

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N_TRAIN = 80


def standardized(n_samples, n_features):
    data = load_wdbc().data[:n_samples, :n_features]
    return (data - data.mean(axis=0)) / data.std(axis=0)


@pytest.fixture(scope="module")
def stack():
    """Ranks from 1 to full: an identity-like kernel, a zero kernel and a bank over single features."""
    bank = KernelBank([Gaussian(width=1), Linear(), Polynomial(degree=3)], views="each")
    kernels = np.moveaxis(bank.fit_transform(standardized(N_TRAIN, 4)), -1, 0)
    return DenseStack(np.concatenate([np.eye(N_TRAIN)[None], kernels, np.zeros((1, N_TRAIN, N_TRAIN))]))


@pytest.fixture(scope="module")
def short(stack):
    return compress_each(stack.kernels)


def test_degenerate_all_kernels_of_full_rank_stay_a_dense_stack(stack):
    full = stack.select([0])
    assert storage.hold_given(full, storage.Holding("compressed")) is full
    one_by_one = compress_each([full.kernels[0].copy()] * 2)
    assert isinstance(one_by_one, DenseStack)
    np.testing.assert_array_equal(one_by_one.kernels, np.stack([full.kernels[0]] * 2))
    assert len(compress_each(stack.kernels[1:3]).dense) == 0


@pytest.mark.parametrize("change", ["indefinite", "asymmetric", "negative"])
def test_kernels_that_no_factor_describes_stay_dense(change, rng):
    x = rng.normal(size=(60, 2))
    kernel = x @ x.T
    if change == "indefinite":  # of low rank, with a diagonal that looks harmless
        kernel = kernel - 0.5 * np.outer(x[:, 0], x[:, 0])[::-1, ::-1] + 0.5 * np.diag(kernel).mean()
    elif change == "asymmetric":
        kernel[5, 6] += 1e-3
    else:
        kernel = -kernel
    short = compress_each([x @ x.T, kernel])
    assert len(short.dense) == 1
    np.testing.assert_array_equal(short.dense[0], kernel)


def test_factors_reproduce_kernels_to_the_tolerance_and_are_triangular_at_their_pivots():
    kernel = Gaussian(width=1)(standardized(200, 1), standardized(200, 1))
    ranks = []
    for tolerance in (1e-6, 1e-10):
        factor = Factorizer(200, tolerance)(kernel)
        assert np.abs(factor.transposed.T @ factor.transposed - kernel).max() <= 1.01 * tolerance
        at_pivots = factor.transposed[:, factor.pivots].T
        assert np.array_equal(at_pivots, np.tril(at_pivots))
        ranks.append(len(factor.pivots))
    eigenvalues = np.linalg.eigvalsh(kernel)
    assert (eigenvalues > 200 * 1e-10).sum() <= ranks[1] <= 1.5 * (eigenvalues > 1e-12).sum()
    assert ranks[0] < ranks[1] < 40


def test_brute_force_groups_of_ranks_cost_least():
    def cost(groups, ranks, n_train):
        lines = sum(len(group) * max(ranks[m] for m in group) for group in groups)
        return lines * 8 * n_train + CALL_BYTES * len(groups)

    rng = np.random.default_rng(3)
    for n_train in (50, 400, 3000):
        ranks = rng.integers(0, 60, size=8)
        found = group_by_rank(ranks, n_train)
        assert sorted(np.concatenate(found).tolist()) == list(range(8))
        order, best = np.argsort(ranks).tolist(), np.inf
        for cuts in itertools.product([False, True], repeat=7):
            ends = [0, *(k + 1 for k, cut in enumerate(cuts) if cut), 8]
            best = min(best, cost([order[a:b] for a, b in itertools.pairwise(ends)], ranks, n_train))
        assert cost(found, ranks, n_train) == pytest.approx(best)
    assert group_by_rank(np.array([], dtype=int), 5) == []


def test_kernels_of_a_bank_are_compressed_one_at_a_time():
    bank = KernelBank([Gaussian(width=w) for w in (0.5, 1, 2, 4)], views="each").fit(standardized(300, 8))
    dense = DenseStack(bank.train_stack())
    for kernel, expected in zip(bank.train_kernels(), dense.kernels, strict=True):
        np.testing.assert_array_equal(kernel, expected)
    whole = compress_each(dense.kernels)
    tracemalloc.start()
    short = compress_each(bank.train_kernels())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < short.nbytes + 8 * dense.nbytes / dense.n_kernels < 0.5 * dense.nbytes
    for one, other in zip(short.factors, whole.factors, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(short.order, whole.order)


def test_kernels_that_stay_dense_are_refused_before_memory_runs_out(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**16 - 1)
    monkeypatch.setattr(factored, "LOOKED_AFTER", 2**16)
    full = (np.eye(38) for _ in range(8))  # five of them are no cause to look, six are
    with pytest.raises(
        MemoryError, match=r"after 5 of them, of which factors do not shorten 6, needs 65.5 kB.*Compare"
    ):
        compress_each(full)


@pytest.mark.parametrize("prior", [Gamma(1.0, 1.0), Gamma(1e-10, 1e-10)])
def test_other_library_posterior_agrees_with_the_dense_one(stack, short, prior, rng):
    """E[a], E[b, e], both covariances, shares and predictions; measured: 7e-10 at most."""
    y = load_wdbc().target[:N_TRAIN].astype(float)
    options = LoopOptions(max_iter=50, tol=0.0, accelerate=False)
    priors, results = Priors(kernel=prior), []
    for one in (stack, short):
        problem = Problem(one, one.gram(), y, priors, Labels(1.0), 1.0)
        state = maximize_elbo(bemkl, problem, bemkl.init(problem, np.full(N_TRAIN, 0.8)), options).state
        shares = kernel_shares(one, state.dual, state.readout, np.random.default_rng(0))
        score = predict_score(one.rows(slice(20)), state.dual, state.readout, 1.0)
        results.append([*state.dual[:2], *state.readout[:2], *shares, *score])
    for found, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    assert TOLERANCE == 1e-10


# -------------------------------------------------------------------------------- new rows through factors

N = 150
FUNCTIONS = [Gaussian(width=1), Polynomial(degree=2), Gaussian(width=0.02)]  # the last of full rank


def fitted(rng, functions=FUNCTIONS, **options):
    """A bank over single features with its compressed training kernels."""
    bank = KernelBank(functions, views="each", **options).fit(rng.uniform(-1.0, 1.0, size=(N, 3)))
    return bank, compress_each(bank.train_kernels())


@pytest.fixture
def inside(rng):
    return rng.uniform(-0.9, 0.9, size=(9, 3))


@pytest.mark.parametrize("normalize", ["spherical", "trace", None, ("trace", "spherical")])
def test_other_route_rows_are_those_of_the_bank(rng, inside, normalize):
    bank, short = fitted(rng, normalize=normalize)
    assert row_factors(bank, short) is not None
    assert len(short.dense) == 3
    expected = bank.evaluate(inside)
    stack = factored_rows(bank, short, inside)
    assert isinstance(stack, LowRankStack)
    np.testing.assert_allclose(stack.columns(slice(None)), expected, atol=1e-7)
    np.testing.assert_allclose(stack.apply(np.ones(N)), expected.sum(axis=2), atol=1e-6)
    np.testing.assert_array_equal(factored_rows(bank, short, inside[:0]).apply(np.ones(N)), np.empty((9, 0)))


def test_the_kernel_function_is_asked_for_pivots_only(rng, inside):
    asked = []

    def gaussian(X, Z):
        asked.append(len(Z))
        return np.exp(-0.5 * np.subtract.outer(X[:, 0], Z[:, 0]) ** 2)

    bank, short = fitted(rng, [gaussian])
    asked.clear()
    stack = factored_rows(bank, short, inside)
    columns = [n for n in asked if n != len(inside)]  # apart from self-similarities
    assert len(columns) == 3
    assert sum(columns) == sum((pivots >= 0).sum() for pivots in short.pivots) < 3 * 20
    np.testing.assert_allclose(stack.columns(slice(None)), bank.evaluate(inside), atol=1e-7)


def test_rows_that_no_factor_describes_are_evaluated_as_a_whole(rng, inside):
    bank, short = fitted(rng)
    X = inside.copy()
    X[[2, 5], [0, 2]] = 3.0, -4.0  # far outside of [-1, 1]
    stack = factored_rows(bank, short, X)
    assert isinstance(stack, RowParts)
    assert [index.tolist() for index, _ in stack.parts] == [[0, 1, 3, 4, 6, 7, 8], [2, 5]]
    expected, weights = DenseStack(bank.evaluate(X)), rng.normal(size=(2, 9))
    np.testing.assert_array_equal(stack.combine(weights)[:, [2, 5]], expected.combine(weights)[:, [2, 5]])
    np.testing.assert_allclose(stack.combine(weights), expected.combine(weights), atol=1e-6)


@pytest.mark.parametrize("lines", [30, 10])
def test_large_kernels_without_factors_are_not_held(rng, inside, lines, monkeypatch):
    """Neither 9 kernels of the 5 rows far outside, 45 lines, nor 3 kernels of full rank of 9 other rows, 27 lines."""
    X = np.vstack([inside, np.full((5, 3), 5.0)])
    monkeypatch.setattr(of_bank, "LARGE", 8 * N * lines)
    bank, short = fitted(rng)
    stack, vector = factored_rows(bank, short, X), rng.normal(size=N)
    if lines == 30:
        assert [type(part) for _, part in stack.parts] == [LowRankStack, StreamedStack]
    else:
        assert isinstance(stack, StreamedStack)
    np.testing.assert_allclose(stack.apply(vector), DenseStack(bank.evaluate(X)).apply(vector), atol=1e-6)
    mixing, root = rng.normal(size=(2, 9)), rng.normal(size=(N, N))
    expected = DenseStack(bank.evaluate(X)).weighted_forms(mixing, [root])
    np.testing.assert_allclose(stack.weighted_forms(mixing, [root]), expected, rtol=1e-6)


@pytest.mark.parametrize("case", ["dense", "few rows", "lines", "roots", "parts"])
def test_brute_force_quadratic_forms(rng, inside, case, monkeypatch):
    """sum_mn W_mn k_m' S k_n by einsum, for every way of computing it."""
    monkeypatch.setattr(base, "HELD_ENTRIES", 4 * 9 * N)
    bank, short = fitted(rng, FUNCTIONS[:2] if case == "lines" else FUNCTIONS)
    n_kernels, mixing = bank.n_kernels_, rng.normal(size=(7, bank.n_kernels_))
    roots = [np.tril(rng.normal(size=(N, N))) for _ in range(2)]
    X = np.tile(inside, (1 if case == "few rows" else 6, 1))
    if case == "parts":
        X[3] = 9.0
    stack = DenseStack(bank.evaluate(X)) if case == "dense" else factored_rows(bank, short, X)
    assert isinstance(stack, {"dense": DenseStack, "parts": RowParts}.get(case, LowRankStack))
    kernels = bank.evaluate(X)
    assert kernels.shape[0] == n_kernels
    weights = mixing.T @ mixing
    expected = [
        np.einsum("mn,mia,ab,nib->i", weights, kernels, root @ root.T, kernels, optimize=True)
        for root in roots
    ]
    np.testing.assert_allclose(stack.weighted_forms(mixing, roots), expected, rtol=1e-6)


def test_other_route_predictions_agree(rng, inside):
    bank, short = fitted(rng)
    X = np.vstack([inside, [[5.0, 0.0, 0.0]]])
    root = rng.normal(size=(N, N)) / N
    dual = Normal.from_moments(rng.normal(size=N), root @ root.T + np.eye(N))
    root = rng.normal(size=(10, 10))
    readout = Normal.from_moments(rng.normal(size=10), root @ root.T + np.eye(10))
    found = predict_score(factored_rows(bank, short, X), dual, readout, 1.0)
    expected = predict_score(DenseStack(bank.evaluate(X)), dual, readout, 1.0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())


def test_values_that_are_not_finite_are_errors_naming_the_kernel(rng):
    bank, short = fitted(rng, [Polynomial(degree=9)], normalize=None)
    with (
        pytest.raises(ValueError, match=r"kernel 'polynomial.*not all finite\. Scale"),
        np.errstate(over="ignore"),
    ):
        factored_rows(bank, short, np.full((1, 3), 1e60))


# ------------------------------------------------------------------------ linear kernels by their features

N_SAMPLES, N_FEATURES, N_KERNELS = 40, 20, 60
NORMALIZATIONS = ["trace", "center", ("center", "trace"), ("trace", "center"), None]


def pathways(n_kernels=N_KERNELS, normalize=("center", "trace"), kernel=None, **options):
    """Kernels on two to seven of the features."""
    rng = np.random.default_rng(3)
    views = {
        f"p{m}": rng.choice(N_FEATURES, rng.integers(2, 8), replace=False).tolist() for m in range(n_kernels)
    }
    return KernelBank(kernel or Linear(), views=views, normalize=normalize, **options)


def table(rng, n_samples=N_SAMPLES):
    """Features, and a target that the first pathway makes."""
    X = 2.0 + rng.normal(size=(n_samples, N_FEATURES))
    own = X[:, pathways().views["p0"]]
    return X, own.sum(axis=1) - own.sum(axis=1).mean() + 0.5 * rng.normal(size=n_samples)


@pytest.fixture
def shared(monkeypatch):
    """Few and small kernels are held so as well."""
    monkeypatch.setattr(storage, "SMALL", 0)
    monkeypatch.setattr(storage, "MANY_SHARED", 0)
    monkeypatch.setattr(storage, "PACKED", 0)
    monkeypatch.setattr(storage, "MANY_PACKED", 0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_kernels_are_those_of_the_bank(normalize, weighted, rng):
    """Of training samples, which may have weights, and of new rows; also far from zero."""
    X = table(rng)[0] + (1e6 if normalize == ("center", "trace") else 0.0)
    rows = X[:7] * 1.001
    bank = pathways(normalize=normalize).fit(
        X, sample_weight=rng.uniform(size=N_SAMPLES) if weighted else None
    )
    stack = linear_stack(bank)
    assert stack.features.shape == (N_FEATURES, N_SAMPLES)
    assert stack.nbytes < bank.train_stack().nbytes / 20
    dense, size = bank.train_stack(), np.abs(bank.train_stack()).max()
    np.testing.assert_allclose(stack.columns(slice(None)), dense, atol=1e-9 * size)
    new = linear_rows(bank, stack, rows)
    values, diagonal = bank.rows_and_diagonal(rows)
    np.testing.assert_allclose(new.columns(slice(None)), values, atol=1e-9 * np.abs(values).max())
    np.testing.assert_allclose(new.self_similarity(), diagonal, rtol=1e-9)
    for kernel, root in zip(dense, stack.roots(), strict=True):
        np.testing.assert_allclose(root @ root.T, kernel, atol=1e-9 * size)


def test_a_column_that_a_view_names_twice_counts_twice(rng, monkeypatch):
    monkeypatch.setattr(of_bank, "SHORTER", 0)
    X = rng.normal(size=(9, 3))
    bank = KernelBank(Linear(), views={"a": [0, 0, 1], "b": [1, 2]}, normalize=None).fit(X)
    np.testing.assert_allclose(linear_stack(bank).columns(slice(None)), bank.train_stack(), atol=1e-12)


OTHERS = {
    "of unit self-similarity": {"normalize": "spherical"},
    "of unit self-similarity around the mean": {"normalize": ("center", "spherical")},
    "with others": {"kernel": [Linear(), Gaussian()]},
    "of others alone": {"kernel": Gaussian()},
    "with landmarks": {"landmarks": 9},
    "of samples that may lack views": {"missing_views": "keep"},
    "few": {"n_kernels": 2},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_held_otherwise(name, rng):
    assert linear_stack(pathways(**OTHERS[name]).fit(table(rng)[0])) is None


def test_evidence_and_slopes_are_those_of_dense_kernels(rng):
    X, y = table(rng)
    stack, units = linear_stack(pathways().fit(X)), kernel_units(DenseStack(pathways().fit(X).train_stack()))
    np.testing.assert_allclose(kernel_units(stack), units, rtol=1e-10)
    noise, at = GaussianNoise(), 0.5 * rng.normal(size=N_KERNELS + 2)
    found = []
    for one in (stack, DenseStack(stack.columns(slice(None)))):
        covariance, prior = Additive(one, units, 1.0), DirichletShares()
        model = Hypermodel(covariance, noise, y[None] / y.std(), prior, LogNormal(), exact_evidence)
        found.append(evaluate_slope(model, at, None))
    assert found[0][0].log_density == pytest.approx(found[1][0].log_density, rel=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-9 * np.abs(found[1][1]).max())


@pytest.mark.heavy
@pytest.mark.parametrize("of_labels", [False, True])
def test_bemkl_is_that_of_dense_kernels(of_labels, rng, shared):
    """Shares, predictions and the bound; and in another order of the kernels."""
    X, y = table(rng, 50)
    rows, X, target = X[40:], X[:40], (y > 0.0).astype(int)[:40] if of_labels else y[:40]
    kind = BEMKLClassifier if of_labels else BEMKLRegressor
    options = {"tol": 1e-12, "max_iter": 3000} | ({"intermediate_scale": 1.0} if of_labels else {})
    dense = kind(pathways(), storage="dense", **options).fit(X, target)
    found = kind(pathways(), **options)
    for own, is_shared, is_low_rank in (
        (found, True, False),
        (kind(pathways(normalize="spherical"), **options), False, False),
        (kind(pathways(), storage="compressed"), False, True),
    ):
        stack, _ = own._prepare(X, target, own._checked())
        assert (type(stack) is LinearStack) == is_shared
        assert isinstance(stack, LowRankStack) or not is_low_rank
    found.fit(X, target)
    assert found.storage_ == "compressed"
    assert found.kernel_bytes_ < dense.kernel_bytes_ / 20
    assert found.elbo_ == pytest.approx(dense.elbo_, rel=1e-8)
    np.testing.assert_allclose(found.kernel_shares_, dense.kernel_shares_, atol=1e-6)
    np.testing.assert_allclose(_scores(found, rows), _scores(dense, rows), atol=1e-5)
    bank = pathways()
    turned = bank.set_params(views=dict(reversed(bank.views.items())))
    again = kind(turned, **options).fit(X, target)
    assert again.elbo_ == pytest.approx(found.elbo_, rel=1e-8)
    np.testing.assert_allclose(again.kernel_weights_[::-1], found.kernel_weights_, atol=1e-6)


def _scores(model, rows):
    return model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)


@pytest.mark.parametrize("of_labels", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_marginal_inference_is_that_of_dense_kernels(of_labels, rng, monkeypatch, request, tmp_path):
    X, y = table(rng, 50)
    rows, X, target = X[40:], X[:40], y[:40] > 0.0 if of_labels else y[:40]
    kind = GPMKLClassifier if of_labels else GPMKLRegressor
    model = kind(pathways(20), together=False, inference=Marginal(n_points=100, n_draws=100))

    def read():
        predicted = model.predict_proba(rows) if of_labels else np.array(model.predict(rows, return_std=True))
        return predicted, contributions(model, rows, n_draws=30)["mean"].values

    dense, parts = (model.fit(X, target), read())[1]
    before = {name: getattr(model, name) for name in ("log_evidence_", "elpd_i_", "kernel_shares_")}
    assert not len(model.posterior_.units)
    request.getfixturevalue("shared")
    monkeypatch.setattr(reading, "MOST_POINTS", 100)
    found, of_views = (model.fit(X, target), read())[1]
    assert model.posterior_.covariances.shape[1:] == (40, 40)
    assert type(model._stored_training()) is LinearStack
    assert model.log_evidence_ == pytest.approx(before["log_evidence_"], rel=1e-6)
    np.testing.assert_allclose(found, dense, atol=1e-4)  # of covariances in single precision
    np.testing.assert_allclose(of_views, parts, atol=1e-4)
    np.testing.assert_allclose(model.elpd_i_, before["elpd_i_"], atol=1e-4)
    error = 4.0 * model.kernel_shares_std_ / 10.0  # other draws of functions
    assert (np.abs(model.kernel_shares_ - before["kernel_shares_"]) < 1e-3 + error).all()
    if of_labels:
        mean = model.decision_function(rows)
    else:
        mean = model.predict(rows)
        np.testing.assert_allclose(mean, found[0], atol=1e-4)
    save_model(model, tmp_path / "model.bmkl")
    again = load_model(tmp_path / "model.bmkl")
    np.testing.assert_array_equal(again.decision_function(rows) if of_labels else again.predict(rows), mean)
    assert type(again._stored_training()) is LinearStack
