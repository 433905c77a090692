"""The SVMs behind all methods, against SciPy, LibSVM's own classifier and optimality conditions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import assert_same, random_kernels, random_labels
from scipy.optimize import minimize
from sklearn.svm import SVC, SVR

from bayesmkl.discriminative import (
    AlignmentMKLClassifier,
    AlignmentMKLRegressor,
    LMKLRegressor,
    LpMKLRegressor,
    PrimalMKLRegressor,
    SimpleMKLRegressor,
    UniformMKLRegressor,
    knn_laplacian,
)
from bayesmkl.discriminative.svm import libsvm
from bayesmkl.discriminative.svm.libsvm import (
    EpsilonInsensitive,
    Hinge,
    solve_box,
    solve_svm,
    solve_svr,
)
from bayesmkl.discriminative.svm.native import native_kernels
from bayesmkl.kernels import Gaussian, KernelBank, KernelQualityWarning, Linear, Polynomial

KINDS = ["smooth", "rank deficient", "near identity"]


def problem(rng, n_samples=25, kind="smooth"):
    return random_kernels(rng, n_samples, 1, kind)[0], random_labels(rng, n_samples)


def all_at_a_bound():
    """Samples, and a kernel of low rank on them, for which every dual of the classifier is 0 or 1."""
    y = np.repeat([-1.0, 1.0], 30)
    X = np.random.default_rng(10).normal(size=(60, 2))
    X[:, 0] += 0.5 * y
    return KernelBank(Polynomial(degree=1)).fit(X), y


@pytest.mark.parametrize("tol", [1e-3, 1e-4])
@pytest.mark.parametrize("form", ["dense", "native"])
def test_equivariance_rounding_of_duals_at_their_bounds_moves_no_intercept(form, tol):
    bank, y = all_at_a_bound()
    kernel, (native,) = bank.train_stack()[0], native_kernels(bank)
    intercepts, duals = [], []
    for seed in range(30):
        order = np.random.default_rng(seed).permutation(60)
        dual = np.zeros(60)
        if form == "dense":
            dual[order], intercept = solve_svm(kernel[np.ix_(order, order)], y[order], 1.0, tol)[:2]
        else:
            svm = native._replace(features=native.features[order]).classify(y[order], 1.0, tol)
            dual[order[svm.support]], intercept = svm.coef, svm.intercept
        intercepts.append(intercept)
        duals.append(np.abs(dual))
    shares = np.array(duals)
    assert np.isin(shares, (0.0, 1.0)).all()
    exact = y - kernel @ (shares[0] * y)  # any intercept between these ends is optimal
    least = (y > 0.0) == (shares[0] == 0.0)
    middle = 0.5 * (exact[least].max() + exact[~least].min())
    assert exact[~least].min() - exact[least].max() > 0.05
    np.testing.assert_allclose(intercepts, middle, atol=1e-6)


@pytest.mark.parametrize("side", [-1.0, 0.0, 1.0])
def test_rounding_of_the_duals_of_a_regression_moves_no_intercept(side):
    """Targets of which some leave the tube, so far that their duals are at the bound."""
    target, C, epsilon = np.array([5.0, 5.0, 5.2, 9.0, 1.0]), 0.01, 0.5
    scores = np.zeros(5)
    exact = np.array([0.0, 0.0, 0.0, C, -C])
    limits = lambda v: libsvm.regression_limits(scores, target, v, epsilon)
    for dust in (0.0, 1e-17, 1e-12):
        v = exact + dust * np.array([side, 0.0, 0.0, -1.0, 0.0])
        dual, intercept = libsvm.settled(v, 5.1 + side, C, limits)
        if dust == 0.0:
            assert intercept == 5.1 + side  # LibSVM's
        else:
            np.testing.assert_array_equal(dual, exact)
            assert intercept == pytest.approx(0.5 * (4.7 + 5.5))
    free = exact + np.array([0.0, 0.3 * C, 0.0, -1e-17, 0.0])
    assert libsvm.settled(free, 4.5, C, limits) == (pytest.approx(free), 4.5)


def dual_by_scipy(kernel, y, bounds, linear):
    """Maximize p'a - v'Kv/2 over the box and y'a = 0."""
    form = y[:, None] * y * kernel
    found = minimize(
        lambda a: 0.5 * a @ form @ a - linear @ a,
        np.zeros(len(y)),
        jac=lambda a: form @ a - linear,
        bounds=[(0.0, c) for c in bounds],
        constraints={"type": "eq", "fun": lambda a: y @ a, "jac": lambda a: y},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    return found.x, -found.fun


def assert_optimal(kernel, y, bounds, linear, solution, tol):
    """Box, equality, and y f - p of the right sign for every sample."""
    alpha = solution.signed_dual * y
    margin = y * (kernel @ solution.signed_dual + solution.intercept) - linear
    assert alpha.min() >= 0.0
    assert (alpha <= bounds * (1.0 + 1e-12)).all()
    assert abs(solution.signed_dual.sum()) <= 1e-9 * max(1.0, bounds.sum())
    inside = 1e-8 * bounds
    assert margin[alpha <= inside].min(initial=np.inf) >= -tol
    assert margin[alpha >= bounds - inside].max(initial=-np.inf) <= tol
    assert np.abs(margin[(alpha > inside) & (alpha < bounds - inside)]).max(initial=0.0) <= tol
    slack = np.maximum(0.0, -margin)
    norm = solution.signed_dual @ kernel @ solution.signed_dual
    assert solution.gap == pytest.approx(norm + bounds @ slack - linear @ alpha, abs=1e-8)
    assert solution.gap >= -1e-9


# ------------------------------------------------------------------------------------------------ classification


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
def test_other_library_margins_of_one_equal_libsvm_and_the_regression_identity(rng, kind, C):
    kernel, y = problem(rng, kind=kind)
    direct = solve_svm(kernel, y, C, tol=1e-8)
    through = solve_svm(kernel, y, C, tol=1e-8, linear=np.ones(25))
    fitted = SVC(kernel="precomputed", C=C, tol=1e-8).fit(kernel, y)
    np.testing.assert_allclose(
        kernel @ direct.signed_dual + direct.intercept, fitted.decision_function(kernel), atol=1e-5
    )  # ours is the more accurate one: LibSVM keeps the kernel in single precision
    ours = solve_svm(kernel, y, C, tol=1e-3)  # at ordinary tolerances it is LibSVM's, to the last digits
    fitted = SVC(kernel="precomputed", C=C, tol=1e-3).fit(kernel, y)
    np.testing.assert_allclose(
        kernel @ ours.signed_dual + ours.intercept, fitted.decision_function(kernel), atol=1e-9
    )
    assert through.objective == pytest.approx(direct.objective, rel=1e-7)
    np.testing.assert_allclose(kernel @ through.signed_dual, kernel @ direct.signed_dual, atol=1e-4)
    assert_optimal(kernel, y, np.full(25, C), np.ones(25), direct, 1e-5)
    assert_optimal(kernel, y, np.full(25, C), np.ones(25), through, 1e-5)
    assert Hinge(C).solve(kernel, y, 1e-8).objective == direct.objective


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("low", [0.2, -1.5])
def test_other_library_any_linear_term_and_any_bounds(rng, kind, low):
    kernel, y = problem(rng, 20, kind)
    bounds, linear = rng.uniform(0.1, 5.0, size=20), rng.uniform(low, 3.0, size=20)
    solution = solve_svm(kernel, y, bounds, tol=1e-8, linear=linear)
    alpha, value = dual_by_scipy(kernel, y, bounds, linear)
    assert_optimal(kernel, y, bounds, linear, solution, 1e-5)
    assert solution.objective == pytest.approx(value, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(kernel @ solution.signed_dual, kernel @ (y * alpha), atol=1e-3)
    assert solution.gap <= 1e-5 * max(1.0, value)


def test_other_library_bounds_of_their_own_with_margins_of_one(rng):
    kernel, y = problem(rng, 20)
    bounds = rng.uniform(0.1, 5.0, size=20)
    solution = solve_svm(kernel, y, bounds, tol=1e-8)
    assert solution.objective == pytest.approx(dual_by_scipy(kernel, y, bounds, np.ones(20))[1], rel=1e-7)
    assert_optimal(kernel, y, bounds, np.ones(20), solution, 1e-5)


def test_degenerate_negative_linear_term_alone_has_no_support(rng):
    kernel, y = problem(rng)
    solution = solve_svm(kernel, y, 1.0, tol=1e-8, linear=np.full(25, -2.0))
    np.testing.assert_allclose(solution.signed_dual, 0.0, atol=1e-12)
    assert solution.objective == pytest.approx(0.0, abs=1e-12)
    assert abs(solution.intercept) <= 2.0 + 1e-6
    assert solution.gap == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("linear", [None, 1.0])
def test_intercept_without_free_support_vectors_lies_between_the_conditions(rng, linear):
    y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    kernel = np.eye(6) + 0.1 * np.outer(y, y)
    solution = solve_svm(kernel, y, 0.1, tol=1e-8, linear=None if linear is None else np.full(6, linear))
    np.testing.assert_allclose(solution.signed_dual * y, 0.1, rtol=1e-12)  # all at the bound
    assert_optimal(kernel, y, np.full(6, 0.1), np.ones(6), solution, 1e-5)
    assert solution.intercept == pytest.approx(0.0, abs=1e-6)
    assert solution.gap == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("with_linear", [False, True])
def test_equivariance_kernel_times_s_and_bounds_over_s(rng, scale, with_linear):
    kernel, y = problem(rng)
    linear = rng.uniform(-1.0, 3.0, size=25) if with_linear else None
    plain = solve_svm(kernel, y, 2.0, tol=1e-8, linear=linear)
    scaled = solve_svm(scale * kernel, y, 2.0 / scale, tol=1e-8, linear=linear)
    assert scale * scaled.objective == pytest.approx(plain.objective, rel=1e-6)
    scores = kernel @ plain.signed_dual + plain.intercept
    np.testing.assert_allclose(scale * kernel @ scaled.signed_dual + scaled.intercept, scores, atol=1e-4)


@pytest.mark.parametrize("factor", [2.0**60, 2.0**-60])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_equivariance_unusual_units_change_no_digit(rng, factor, tol):
    """Powers of two are exact: what is solved is the same problem, of a kernel and targets below two."""
    kernel, y = problem(rng)
    kernel *= 1.5 / kernel.diagonal().max()
    target = rng.normal(size=25)
    target *= 1.5 / np.abs(target).max()
    plain = solve_svr(kernel, target, 3.0, 0.1, tol)
    scaled = solve_svr(kernel, factor * target, factor * 3.0, factor * 0.1, factor * tol)
    np.testing.assert_array_equal(scaled.signed_dual, factor * plain.signed_dual)
    assert scaled.intercept == factor * plain.intercept
    assert (scaled.objective, scaled.gap) == (factor**2 * plain.objective, factor**2 * plain.gap)
    other = solve_svr(factor * kernel, target, 3.0 / factor, 0.1, tol)
    np.testing.assert_array_equal(other.signed_dual, plain.signed_dual / factor)
    assert other[1:] == (plain.intercept, plain.objective / factor, plain.gap / factor)
    bounds, margins = rng.uniform(0.5, 2.0, size=25), rng.uniform(-0.5, 1.5, size=25)
    for linear in (None, margins):
        plain = solve_svm(kernel, y, bounds, tol, linear)
        other = solve_svm(factor * kernel, y, bounds / factor, tol, linear)
        np.testing.assert_array_equal(other.signed_dual, plain.signed_dual / factor)
        assert other[1:] == (plain.intercept, plain.objective / factor, plain.gap / factor)


def test_tube_that_is_too_narrow_is_widened(rng, monkeypatch):
    kernel, y = problem(rng)
    linear = rng.uniform(-1.0, 3.0, size=25)
    expected = solve_svm(kernel, y, 20.0, tol=1e-8, linear=linear)
    tubes = []

    class Recorded(SVR):
        def fit(self, *args, **kwargs):
            tubes.append(self.epsilon)
            return super().fit(*args, **kwargs)

    monkeypatch.setattr(libsvm, "SVR", Recorded)
    monkeypatch.setattr(libsvm, "TUBE", 1e-3)
    solution = solve_svm(kernel, y, 20.0, tol=1e-8, linear=linear)
    assert len(tubes) > 1
    assert_optimal(kernel, y, np.full(25, 20.0), linear, solution, 1e-5)
    assert solution.objective == pytest.approx(expected.objective, rel=1e-7)


def test_tube_is_wide_enough_for_overshooting_scores(rng):
    """One sample far inside its class, where f is large: its score must not leave the tube on the far side."""
    X = np.append(rng.normal(size=20), 500.0)
    y = np.where(X > 0, 1.0, -1.0)
    kernel, linear = np.outer(X, X), rng.uniform(0.5, 1.5, size=21)
    solution = solve_svm(kernel, y, 10.0, tol=1e-6, linear=linear)
    scores = kernel @ solution.signed_dual + solution.intercept
    assert scores[-1] > 100.0
    assert_optimal(kernel, y, np.full(21, 10.0), linear, solution, 1e-4)


# ---------------------------------------------------------------------------------------------------- regression


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_other_library_regression_against_its_dual(rng, kind, epsilon):
    kernel, _ = problem(rng, 20, kind)
    target, C = rng.normal(size=20), 3.0
    found = minimize(
        lambda v: 0.5 * v[:20] @ kernel @ v[:20] - target @ v[:20] + epsilon * v[20:].sum(),
        np.zeros(40),
        bounds=[(-C, C)] * 20 + [(0.0, C)] * 20,
        constraints=[
            {"type": "eq", "fun": lambda v: v[:20].sum()},
            {"type": "ineq", "fun": lambda v: v[20:] - v[:20]},
            {"type": "ineq", "fun": lambda v: v[20:] + v[:20]},
        ],
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    solution = solve_svr(kernel, target, C, epsilon, tol=1e-8)
    assert solution.objective == pytest.approx(-found.fun, rel=1e-5, abs=1e-7)
    assert solution.objective >= -found.fun - 1e-6
    assert EpsilonInsensitive(C, epsilon).solve(kernel, target, 1e-8).objective == solution.objective
    residuals = np.abs(target - kernel @ solution.signed_dual - solution.intercept)
    assert solution.signed_dual.sum() == pytest.approx(0.0, abs=1e-9)
    assert np.abs(solution.signed_dual).max() <= C * (1.0 + 1e-12)
    assert residuals[np.abs(solution.signed_dual) < 1e-9].max(initial=0.0) <= epsilon + 1e-6
    assert residuals[np.abs(solution.signed_dual) > C - 1e-9].min(initial=np.inf) >= epsilon - 1e-6


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_regression_gap_bounds_the_distance_to_the_optimum(rng, tol):
    kernel, _ = problem(rng, 40)
    target = kernel @ rng.normal(size=40) + 0.1 * rng.normal(size=40)
    best = solve_svr(kernel, target, 5.0, 0.05, tol=1e-9)
    solution = solve_svr(kernel, target, 5.0, 0.05, tol=tol)
    assert best.gap == pytest.approx(0.0, abs=1e-5)
    assert best.objective - solution.objective <= solution.gap + 1e-9
    residuals = np.abs(target - kernel @ solution.signed_dual - solution.intercept)
    primal = 0.5 * solution.signed_dual @ kernel @ solution.signed_dual
    primal += 5.0 * np.maximum(0.0, residuals - 0.05).sum()
    assert primal == pytest.approx(solution.objective + solution.gap, rel=1e-9)
    assert primal >= best.objective - 1e-9


# ------------------------------------------------------------------------------------------------- double precision


@pytest.mark.parametrize("with_margins", [False, True])
def test_certificate_tight_tolerances_reach_double_precision(rng, monkeypatch, with_margins):
    kernel, y = 30.0 * random_kernels(rng, 40, 1)[0], random_labels(rng, 40)
    bounds = rng.uniform(20.0, 50.0, 40)
    linear = rng.uniform(0.5, 1.5, 40) if with_margins else None
    fine = solve_svm(kernel, y, bounds, 1e-6, linear)
    monkeypatch.setattr(libsvm, "POLISHED_BELOW", 0.0)
    coarse = solve_svm(kernel, y, bounds, 1e-6, linear)
    assert fine.gap <= 1e-8 * fine.objective
    assert fine.gap < 0.1 * coarse.gap
    assert_same(kernel @ fine.signed_dual, kernel @ coarse.signed_dual, 1e-3)
    assert (fine.signed_dual * y >= 0.0).all()
    assert (fine.signed_dual * y <= bounds).all()


def test_degenerate_systems_without_a_solution_leave_the_svm_as_it_is(rng):
    half = rng.normal(size=(10, 1))
    points = np.concatenate([half, half])  # every sample twice: the system is singular
    kernel, y = points @ points.T, np.tile(np.where(half[:, 0] > 0, 1.0, -1.0), 2)
    fine, coarse = solve_svm(kernel, y, 5.0, 1e-6), solve_svm(kernel, y, 5.0, 1e-3)
    assert fine.gap <= coarse.gap
    assert fine.objective == pytest.approx(coarse.objective, rel=1e-3)


@pytest.mark.parametrize("form", ["dense", "native"])
def test_degenerate_bounds_that_no_dual_comes_near_change_nothing(rng, form):
    """Separable classes: from some C on the solution is that of the hard margin."""
    X = rng.normal(size=(30, 2)) + np.repeat([[-3.0, 0.0], [3.0, 0.0]], 15, axis=0)
    y = np.repeat([-1.0, 1.0], 15)
    bank = KernelBank(Polynomial(degree=1), normalize=None).fit(X)
    found = []
    for C in (1e2, 1e6, 1e12):
        if form == "native":
            svm = native_kernels(bank)[0].classify(y, C, 1e-6)
            found.append((svm.coef, svm.intercept))
        else:
            solution = solve_svm(bank.train_stack()[0], y, C, tol=1e-6)
            found.append((solution.signed_dual[solution.signed_dual != 0.0], solution.intercept))
    for dual, intercept in found[1:]:
        np.testing.assert_allclose(dual, found[0][0], rtol=1e-3)
        assert intercept == pytest.approx(found[0][1], abs=1e-4)


# ---------------------------------------------------------------------------------------- samples that do not count


@pytest.mark.parametrize("loss", ["hinge", "linear term", "regression"])
def test_degenerate_samples_without_weight_are_not_there(rng, loss):
    kernel, labels = problem(rng, 20)
    bounds, kept = rng.uniform(0.5, 2.0, size=20), np.arange(20) % 4 != 1
    bounds[~kept] = 0.0
    linear, numbers = rng.uniform(0.5, 1.5, size=20), kernel @ rng.normal(size=20)
    epsilon = 0.2 * numbers.std()

    def solve(chosen):
        own = kernel[np.ix_(chosen, chosen)]
        if loss == "regression":
            return solve_svr(own, numbers[chosen], bounds[chosen], epsilon, 1e-8)
        return solve_svm(
            own, labels[chosen], bounds[chosen], 1e-8, linear[chosen] if loss != "hinge" else None
        )

    found, expected = solve(np.arange(20)), solve(np.flatnonzero(kept))
    assert found.signed_dual.shape == (20,)
    assert (found.signed_dual[~kept] == 0.0).all()
    np.testing.assert_array_equal(found.signed_dual[kept], expected.signed_dual)
    assert found[1:] == expected[1:]
    # a tolerance that is not the default, and bounds of every sample
    assert found.gap <= 1e-6 * abs(found.objective)
    assert (np.abs(found.signed_dual) <= bounds + 1e-12).all()


@pytest.mark.parametrize("seed", [0, 2])
def test_interior_points_reach_the_optimum_of_a_kernel_of_any_scale(seed):
    """Far from the optimum the objective falls as fast as the error, which is no lack of progress."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(120, 4))
    y = np.where(X[:, 0] + rng.normal(size=120) > 0.0, 1.0, -1.0)
    kernel = 1e8 * np.exp(-((X[:, None] - X[None]) ** 2)).sum(axis=2)
    dual, intercept = solve_box(libsvm.classification_box(kernel, y, 5.0))
    scores = kernel @ dual
    norm = float(dual @ scores)
    primal = 0.5 * norm + 5.0 * np.maximum(0.0, 1.0 - y * (scores + intercept)).sum()
    value = float(np.abs(dual).sum()) - 0.5 * norm
    assert 0.0 < value <= primal <= value * (1.0 + 1e-5)


# --------------------------------------------------------------------------------


OFFSETS = (2.0**20, 2.0**30)  # that hold all digits of the numbers below
RNG = np.random.default_rng(2)
X = np.round(RNG.normal(size=(50, 3)) * 2**10) / 2**10
Y = np.round((X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * RNG.normal(size=50)) * 2**14) / 2**14
BANK = KernelBank([Gaussian(width=1.0), Gaussian(width=4.0)], normalize="spherical")


@pytest.mark.parametrize(
    "model",
    [
        AlignmentMKLRegressor(BANK, tol=1e-8),
        LMKLRegressor(BANK, gating="sigmoid", max_iter=2, tol=1e-9, random_state=0),
        LpMKLRegressor(BANK, tol=1e-6),
        PrimalMKLRegressor(BANK, tol=1e-6),
        PrimalMKLRegressor(BANK, loss="huber", tol=1e-6),
        SimpleMKLRegressor(BANK, tol=1e-6),
        UniformMKLRegressor(BANK, tol=1e-8),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:LMKLRegressor stopped after max_iter")
def test_a_constant_added_to_the_target_moves_the_intercept_alone(model):
    near = model.fit(X, Y).predict(X)
    for offset in OFFSETS:
        far = model.fit(X, Y + offset).predict(X) - offset
        np.testing.assert_allclose(far, near, atol=1e-15 * offset + 1e-6)


@pytest.mark.parametrize(("n_features", "n_neighbors"), [(2, 3), (20, 3), (2, 30)])
def test_neighbors_do_not_depend_on_where_zero_is(n_features, n_neighbors):
    rows = np.round(RNG.normal(size=(50, n_features)) * 2**10) / 2**10
    near = np.asarray(knn_laplacian(rows, n_neighbors) @ np.eye(50))
    for offset in (*OFFSETS, 2.0**40):
        np.testing.assert_array_equal(
            np.asarray(knn_laplacian(rows + offset, n_neighbors) @ np.eye(50)), near
        )


def test_kernels_that_a_method_centers_itself_are_named():
    y = X[:, 0] > 0
    bank = KernelBank([Linear(), Gaussian(width=2.0)], {"far": [0], "near": [1, 2]}, normalize="trace")
    far = np.column_stack([X[:, 0] + 1e6, X[:, 1:]])
    with pytest.warns(
        KernelQualityWarning, match=r"short of digits after centering .*: linear · far \(errors"
    ):
        AlignmentMKLClassifier(bank).fit(far, y)
    for model in (AlignmentMKLClassifier(bank, method="ratio"), AlignmentMKLClassifier(bank)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.fit(far if model.method == "ratio" else X, y)
        assert not any("short of digits" in str(one.message) for one in found)
