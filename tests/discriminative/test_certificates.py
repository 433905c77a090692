"""Lp-norms, SimpleMKL and the gaps of all methods: closed forms, line searches, warm starts, other solvers."""

from __future__ import annotations

import dual_reference
import numpy as np
import pytest
from dual_reference import problem, quadratics
from helpers import assert_same, informed_target, learn, random_kernels, random_labels, samples_first
from scipy.optimize import minimize, minimize_scalar

from bayesmkl._numerics.convergence import Outcome
from bayesmkl.discriminative import LpMKLClassifier, SimpleMKLClassifier, UniformMKLClassifier
from bayesmkl.discriminative.global_weights.gmkl import GMKL
from bayesmkl.discriminative.global_weights.joint import SMO, Lp, Simple
from bayesmkl.discriminative.problems import fit_at
from bayesmkl.discriminative.svm.libsvm import EpsilonInsensitive, Hinge
from bayesmkl.kernels.stacks.dense import DenseStack

pytestmark = pytest.mark.heavy

NORMS = [1.0, 1.1, 4.0 / 3.0, 2.0, 4.0, 8.0]
TIGHT = 1e-6
MACHINE = 2e-3  # scores of two solutions at a gap of TIGHT


def lp_classifier(**parameters):
    return LpMKLClassifier("precomputed", **{"tol": TIGHT, **parameters})


@pytest.mark.parametrize("p_norm", NORMS)
def test_objective_never_rises_and_weights_have_norm_one(rng, p_norm):
    for C in (0.3, 30.0):
        kernels, y = problem(rng, 50, 8)
        result = learn(DenseStack(kernels), y[None], Hinge(C), Lp(p_norm, 1e-5, 3000))
        assert result.outcome is Outcome.CONVERGED
        assert len(result.objective_history) > 2
        assert np.all(np.diff(result.objective_history) < 0.0)
        assert np.linalg.norm(result.kernel_weights, p_norm) == pytest.approx(1.0)


@pytest.mark.parametrize("p_norm", NORMS[1:])
def test_weights_are_a_fixed_point_of_the_dual_form(rng, p_norm):
    """At the optimum d_m is proportional to S_m^(q/p), the maximizer of d'S over the ball."""
    kernels, y = problem(rng, 40, 5)
    result = learn(DenseStack(kernels), y[None], Hinge(2.0), Lp(p_norm, 1e-9, 5000))
    S = quadratics(kernels, result.signed_dual[0])
    expected = S ** (1.0 / (p_norm - 1.0))
    expected /= np.linalg.norm(expected, p_norm)
    assert_same(result.kernel_weights, expected, 5e-3)


def test_closed_form_is_the_best_of_all_weights(rng):
    """Against a general solver over weights on the sphere, for fixed block norms of an SVM."""
    kernels, y = problem(rng, 40, 3)
    stack, p_norm = DenseStack(kernels), 1.5
    first = np.full(3, 3.0 ** (-1.0 / p_norm))
    one_step = learn(stack, y[None], Hinge(2.0), Lp(p_norm, 1e-12, 1)).kernel_weights
    fit = fit_at(stack, y[None], Hinge(2.0), first, 1e-9)
    squares = first**2 * fit.quadratics  # ||w_m||^2

    found = minimize(
        lambda d: (squares / d).sum() / squares.sum(),
        first,
        bounds=[(1e-6, 1.0)] * 3,
        constraints={"type": "ineq", "fun": lambda d: 1.0 - (d**p_norm).sum()},
        options={"ftol": 1e-14},
    )
    assert_same(one_step, found.x, 1e-3)


def test_p_one_is_simplemkl(rng):
    kernels, y = problem(rng, 50, 6)
    train = samples_first(kernels)
    ours = lp_classifier(p_norm=1.0, tol=1e-5, max_iter=5000, C=3.0).fit(train, y)
    other = SimpleMKLClassifier("precomputed", tol=1e-5, C=3.0).fit(train, y)
    assert ours.objective_history_[-1] == pytest.approx(other.objective_history_[-1], rel=2e-5)
    assert_same(ours.kernel_weights_, other.kernel_weights_, 0.02)
    assert_same(ours.decision_function(train), other.decision_function(train), 0.02)


def test_large_p_is_the_sum_of_all_kernels(rng):
    kernels, y = problem(rng, 60, 4)
    train, new = samples_first(kernels[:, :40, :40]), samples_first(kernels[:, 40:, :40])
    model = lp_classifier(p_norm=1e4, C=0.5).fit(train, y[:40])
    np.testing.assert_allclose(model.kernel_weights_, 1.0, atol=1e-3)
    uniform = UniformMKLClassifier("precomputed", C=2.0, tol=1e-8).fit(train, y[:40])  # the mean: C times P
    assert_same(model.decision_function(new), uniform.decision_function(new), MACHINE)


@pytest.mark.parametrize("inner", [Hinge(2.0), EpsilonInsensitive(2.0, 0.1)], ids=str)
def test_shared_tasks_minimize_the_sum(rng, inner):
    kernels, y = problem(rng, 40, 3)
    targets = np.array([y, -y, problem(rng, 40, 2)[1]])
    if isinstance(inner, EpsilonInsensitive):
        targets = np.array([informed_target(rng, kernels) for _ in range(3)])
    stack = DenseStack(kernels)
    result = learn(stack, targets, inner, Lp(2.0, TIGHT))

    def objective(d):
        fits = fit_at(stack, targets, inner, np.maximum(d, 0.0), 1e-7)
        return fits.objective / result.objective_history[
            -1
        ], -0.5 * fits.quadratics / result.objective_history[-1]

    found = minimize(
        objective,
        np.full(3, 0.5),
        jac=True,
        bounds=[(0.0, 1.0)] * 3,
        constraints={"type": "ineq", "fun": lambda d: 1.0 - d @ d, "jac": lambda d: -2.0 * d},
        options={"ftol": 1e-12},
    )
    assert found.fun == pytest.approx(1.0, rel=1e-5)


def test_p_one_reports_the_gap_it_has(rng):
    kernels, y = problem(rng, 60, 12)
    with pytest.warns(match="stopped after max_iter=20 steps with a relative duality gap of"):
        model = lp_classifier(p_norm=1.0, max_iter=20).fit(samples_first(kernels), y)
    assert model.duality_gap_ > TIGHT * model.objective_history_[-1]
    best = SimpleMKLClassifier("precomputed", tol=1e-6).fit(samples_first(kernels), y).objective_history_[-1]
    assert model.objective_history_[-1] - model.duality_gap_ <= best <= model.objective_history_[-1]


SOLVERS = ("spg", "reduced-gradient")


def simple_classifier(**parameters):
    return SimpleMKLClassifier("precomputed", **{"tol": TIGHT, **parameters})


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("inner", [Hinge(2.0), EpsilonInsensitive(2.0, 0.1)], ids=str)
def test_two_kernels_are_a_line_search(rng, solver, inner):
    kernels, y = problem(rng, 40, 2)
    target = y if isinstance(inner, Hinge) else informed_target(rng, kernels)
    stack = DenseStack(kernels)

    def objective(t):
        return fit_at(stack, target[None], inner, np.array([t, 1.0 - t]), 1e-8).objective

    best = minimize_scalar(objective, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-7})
    result = learn(stack, target[None], inner, Simple(solver, TIGHT))
    assert result.objective_history[-1] == pytest.approx(best.fun, rel=1e-5)
    assert result.kernel_weights[0] == pytest.approx(best.x, abs=0.01)


@pytest.mark.parametrize("solver", SOLVERS)
def test_tasks_that_share_weights_add_their_objectives(rng, solver):
    kernels, y = problem(rng, 40, 2)
    stack, targets = DenseStack(kernels), np.array([y, problem(rng, 40, 2)[1], -y])

    def objective(t):
        weights = np.array([t, 1.0 - t])
        return sum(fit_at(stack, target[None], Hinge(2.0), weights, 1e-8).objective for target in targets)

    best = minimize_scalar(objective, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-7})
    result = learn(stack, targets, Hinge(2.0), Simple(solver, TIGHT))
    assert result.objective_history[-1] == pytest.approx(best.fun, rel=1e-5)
    assert result.signed_dual.shape == (3, 40)


def test_reduced_gradient_never_rises(rng):
    for C in (0.3, 3.0, 100.0):
        kernels, y = problem(rng, 50, 10)
        result = learn(DenseStack(kernels), y[None], Hinge(C), Simple("reduced-gradient", 1e-5))
        assert result.outcome.converged
        assert np.all(np.diff(result.objective_history) <= 0.0)
        assert len(result.objective_history) > 3


def test_noise_kernels_are_left_out(rng):
    X = rng.normal(size=(120, 10))
    y = np.where(X[:, 3] + X[:, 7] ** 2 > 1.0, "yes", "no")
    kernels = np.exp(-0.5 * (X[:, None] - X[None]) ** 2)
    model = simple_classifier(tol=1e-3, C=3.0).fit(kernels, y)
    assert model.kernel_weights_[[3, 7]].sum() > 0.7
    assert model.n_active_kernels_ < 10


@pytest.mark.parametrize(
    ("solver", "n_kernels", "tol"),
    [("spg", 15, 1e-4), pytest.param("reduced-gradient", 8, 1e-3, marks=pytest.mark.slow)],
)
def test_warm_starts_find_the_same_optima_with_fewer_svms(rng, solver, n_kernels, tol):
    grid, n_warm, n_cold = [0.3, 1.0, 3.0, 10.0, 30.0], 0, 0
    for _ in range(3):
        kernels, y = problem(rng, 50, n_kernels)
        path = simple_classifier(tol=tol, solver=solver).path(samples_first(kernels), y, C_values=grid)
        cold = [simple_classifier(tol=tol, solver=solver, C=C).fit(samples_first(kernels), y) for C in grid]
        for warm, model in zip(path.models, cold, strict=True):
            assert warm.objective_history_[-1] == pytest.approx(model.objective_history_[-1], rel=2 * tol)
        n_warm += sum(model.n_solves_ for model in path.models)
        n_cold += sum(model.n_solves_ for model in cold)
    assert n_warm < 0.95 * n_cold


def test_several_classes_have_weights_of_their_own_or_shared_ones(rng):
    X = rng.normal(size=(90, 4))
    y = np.digitize(X[:, 1], [-0.5, 0.5])
    kernels = np.exp(-0.5 * (X[:, None] - X[None]) ** 2)
    own = simple_classifier(tol=1e-4).fit(kernels, y)
    shared = simple_classifier(tol=1e-4, multiclass="shared").fit(kernels, y)
    assert own.kernel_weights_.shape == (3, 4)
    assert shared.kernel_weights_.shape == (4,)
    for c in range(3):
        alone = simple_classifier(tol=1e-4).fit(kernels, y == c)
        assert_same(own.kernel_weights_[c], alone.kernel_weights_, 0.05)
    assert shared.objective_history_[-1] >= sum(history[-1] for history in own.objective_history_) * (
        1 - 1e-4
    )
    assert min(own.score(kernels, y), shared.score(kernels, y)) > 0.85


TOL = 1e-4
SOLVER = 1e-5  # of the objective, between two solvers
ABOVE_ONE = [1.1, 4.0 / 3.0, 2.0, 4.0, 8.0]


def simple(solver):
    return lambda *problem, tol=TOL: learn(*problem, Simple(solver, tol))


def lp(p_norm):
    return lambda *problem, tol=TOL: learn(*problem, Lp(p_norm, tol))


def smo(p_norm, reg=0.7):
    return lambda *problem, tol=TOL: learn(*problem, SMO(p_norm, reg, tol=tol))


def smo_divergence(reg=0.7):
    return lambda *problem, tol=TOL: learn(*problem, SMO(reg_weights=reg, tol=tol, regularizer="divergence"))


def gmkl(regularizer, solver="spg"):
    return lambda *problem, tol=TOL: learn(*problem, GMKL(regularizer, "sum", solver, tol))


METHODS = {
    "simple spg": simple("spg"),
    "simple reduced": simple("reduced-gradient"),
    **{f"lp {p:.2g}": lp(p) for p in ABOVE_ONE},
    **{f"smo {p:.2g}": smo(p) for p in ABOVE_ONE},
    "smo divergence": smo_divergence(),
    "gmkl l1": gmkl("l1"),
    "gmkl l1 pg": gmkl("l1", "pg"),
    "gmkl uniform": gmkl("uniform"),
}


@pytest.mark.parametrize("name", METHODS)
def test_gap_at_most_tol_on_random_problems(rng, name):
    for kind in ("smooth", "rank deficient", "duplicated", "badly scaled"):
        kernels = random_kernels(rng, 40, 6, kind)
        y = random_labels(rng, 40)[None]
        result = METHODS[name](DenseStack(kernels), y, Hinge(10.0 ** rng.uniform(-1, 1)))
        assert result.outcome is Outcome.CONVERGED, kind
        assert -1e-9 <= result.duality_gap / result.objective_history[-1] <= TOL, kind
        assert (result.kernel_weights >= 0.0).all()


@pytest.mark.parametrize("name", ["simple spg", "simple reduced", *(f"lp {p:.2g}" for p in ABOVE_ONE)])
def test_gap_reaches_down_to_the_optimum_of_another_solver(rng, name):
    kernels, y = dual_reference.problem(rng)
    C = 3.0
    if name.startswith("simple"):
        best = dual_reference.simplemkl(kernels, y, C)
    else:
        p_norm = next(p for p in ABOVE_ONE if name == f"lp {p:.2g}")
        best = dual_reference.maximize(kernels, y, C, dual_reference.half_norm(p_norm / (p_norm - 1.0)))[0]
    for tol in (1e-2, 1e-6):
        result = METHODS[name](DenseStack(kernels), y[None], Hinge(C), tol=tol)
        value = dual_reference.primal(kernels, y, C, result)
        assert value - result.duality_gap <= best * (1.0 + SOLVER)  # the bound is one
        assert best * (1.0 - SOLVER) <= value <= best * (1.0 + tol + SOLVER)
    assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)


@pytest.mark.parametrize("p_norm", ABOVE_ONE)
def test_smo_objective_is_that_of_another_solver(rng, p_norm):
    kernels, y = dual_reference.problem(rng)
    penalty = dual_reference.squared_norm(p_norm / (p_norm - 1.0), 0.7)
    best = dual_reference.maximize(kernels, y, 2.0, penalty)[0]
    result = smo(p_norm)(DenseStack(kernels), y[None], Hinge(2.0), tol=1e-6)
    assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)
    value = dual_reference.primal(kernels, y, 2.0, result)
    value += 0.35 * np.linalg.norm(result.kernel_weights, p_norm) ** 2
    assert best * (1.0 - SOLVER) <= value <= best * (1.0 + SOLVER)


@pytest.mark.parametrize("reg", [0.2, 2.0, 50.0])
def test_smo_with_a_divergence_is_that_of_another_solver(rng, reg):
    """Its dual: sum(alpha) - reg sum_m (exp(S_m / (2 reg)) - 1) / P."""
    kernels, y = dual_reference.problem(rng)

    def penalty(S):
        grown = np.exp(0.5 * S / reg) / len(S)
        return reg * (grown - 1.0 / len(S)).sum(), 0.5 * grown

    best, v = dual_reference.maximize(kernels, y, 2.0, penalty)
    result = smo_divergence(reg)(DenseStack(kernels), y[None], Hinge(2.0), tol=1e-6)
    weights = result.kernel_weights
    assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)
    value = dual_reference.primal(kernels, y, 2.0, result)
    value += reg * (weights * np.log(len(weights) * weights) - weights + 1.0 / len(weights)).sum()
    assert best * (1.0 - SOLVER) <= value <= best * (1.0 + SOLVER)
    np.testing.assert_allclose(
        weights, np.exp(0.5 * dual_reference.quadratics(kernels, v) / reg) / 4, rtol=0.02
    )
    assert (weights > 0.25).all()


def test_gmkl_objective_is_that_of_another_solver(rng):
    kernels, y = dual_reference.problem(rng)
    best = dual_reference.maximize(kernels, y, 2.0, lambda S: (0.0, np.zeros(len(S))), most=2.0)[0]
    for solver in ("spg", "pg"):
        result = gmkl("l1", solver)(DenseStack(kernels), y[None], Hinge(2.0), tol=1e-6)
        value = dual_reference.primal(kernels, y, 2.0, result) + result.kernel_weights.sum()
        assert value == pytest.approx(best, rel=SOLVER)
        assert result.objective_history[-1] == pytest.approx(best, rel=SOLVER)


@pytest.mark.parametrize("solver", ["spg", "reduced-gradient"])
def test_repeated_samples_make_kinks_that_one_dual_does_not_certify(rng, solver):
    """Kernels of single coarse features: samples of both classes coincide where few kernels are left."""
    features = rng.integers(0, 3, size=(60, 5)).astype(float)
    kernels = np.exp(-0.5 * (features.T[:, :, None] - features.T[:, None, :]) ** 2)
    y = np.where(features[:, 0] + features[:, 1] + rng.normal(size=60) > 2.0, 1.0, -1.0)
    result = simple(solver)(DenseStack(kernels), y[None], Hinge(1.0))
    assert result.outcome is Outcome.CONVERGED
    assert result.duality_gap <= TOL * result.objective_history[-1]
    value = dual_reference.primal(kernels, y, 1.0, result)
    assert value - result.duality_gap <= dual_reference.simplemkl(kernels, y, 1.0) * (1.0 + SOLVER)


def test_not_converged_says_so_with_a_true_gap(rng):
    kernels, y = dual_reference.problem(rng)
    best = dual_reference.simplemkl(kernels, y, 3.0)
    result = learn(DenseStack(kernels), y[None], Hinge(3.0), Simple("spg", 1e-8, 2))
    assert result.outcome is Outcome.MAX_ITER
    assert len(result.objective_history) == 3
    assert dual_reference.primal(kernels, y, 3.0, result) - result.duality_gap <= best
