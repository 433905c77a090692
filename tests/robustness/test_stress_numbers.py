"""Special functions, gates, projections and SVMs at extreme arguments, against many digits and optimality."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from helpers import assert_same, random_kernels, random_labels
from many_digits import cdf, doubles, exact, largest, truncated
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from verdicts import quietly

from bayesmkl._numerics.largest_normal import largest_moments, log_largest
from bayesmkl._numerics.quadrant import quadrant_moments
from bayesmkl._numerics.simplex import project_lp_ball, project_simplex
from bayesmkl._numerics.truncated_normal import (
    log_normal_cdf,
    split_moments,
    truncated_moments,
)
from bayesmkl.bemkl.moments import gamma_divergence
from bayesmkl.bemkl.reading import ScoreMoments, binary_log_odds, log_probabilities
from bayesmkl.discriminative.gating import (
    GaussianGating,
    GroupGating,
    SigmoidGating,
    SoftmaxGating,
)
from bayesmkl.discriminative.svm import libsvm
from bayesmkl.discriminative.svm.libsvm import (
    BoxProblem,
    classification_box,
    regression_box,
    solve_box,
    solve_svm,
    solve_svr,
)
from bayesmkl.discriminative.svm.native import native_kernel
from bayesmkl.discriminative.svm.one_kernel import PrecomputedKernel, scores
from bayesmkl.kernels import Linear, Polynomial

sys.path.append(str(Path(__file__).parents[1] / "discriminative"))
from cases import CASES, REGRESSION_CASES, hinge_scores, known

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.family("numbers under stress"),
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
]


# -------------------------------------------------------------------------------------------------- special functions

MAGNITUDES = np.array([0.0, 1e-300, 1e-12, 1e-6, 1e-3, 0.3, 1.0, 2.9, 3.1, 10.0, 37.5, 1e2, 1e3, 1e4])
LOCS = np.concatenate([-MAGNITUDES[:0:-1], MAGNITUDES])
MARGINS = [0.0, 1e-12, 1e-3, 1.0, 10.0, 1e2, 1e4]
STRICT = {"over": "raise", "invalid": "raise", "divide": "raise"}


def assert_digits(found, expected, tolerance, floor=1e-300):
    error = np.abs(found - expected) / np.maximum(np.abs(expected), floor)
    worst = int(np.argmax(error))
    assert error[worst] <= tolerance, f"entry {worst}: {found[worst]!r} instead of {expected[worst]!r}"


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("margin", MARGINS)
def test_truncated_moments_of_locations_and_margins_to_1e4(margin, y):
    with np.errstate(**STRICT):
        found = truncated_moments(LOCS, np.full_like(LOCS, y), margin)
    with mpmath.workdps(50):
        rows = [truncated(loc, mpmath.mpf(y), mpmath.mpf(margin)) for loc in exact(LOCS)]
        expected = doubles([list(row) for row in rows]).T
    assert_digits(found.mean, expected[0], 5e-13)
    assert_digits(found.variance, expected[1], 5e-13)
    assert_digits(found.entropy, expected[2], 1e-13, floor=1.0)
    assert_digits(found.log_normalizer, expected[3], 5e-13)
    assert (found.variance > 0.0).all()
    assert (y * found.mean >= margin).all()


@pytest.mark.parametrize("margin", [1e-8, 1.0, 30.0, 1e3, 1e4])
def test_moments_outside_of_wide_gaps(margin):
    """Both sides by their own moments, mixed with 50 digits."""
    with np.errstate(**STRICT):
        found = split_moments(LOCS, margin)
    rows = []
    with mpmath.workdps(50):
        for loc in exact(LOCS):
            sides = [truncated(loc, mpmath.mpf(y), mpmath.mpf(margin)) for y in (1, -1)]
            with mpmath.workdps(70):
                masses = [mpmath.exp(side[3]) for side in sides]
                total = sum(masses)
                w = [mass / total for mass in masses]
                mean = sum(p * side[0] for p, side in zip(w, sides, strict=True))
                variance = sum(
                    p * (side[1] + (side[0] - mean) ** 2) for p, side in zip(w, sides, strict=True)
                )
                entropy = sum(
                    p * (side[2] - mpmath.log(p)) for p, side in zip(w, sides, strict=True) if p > 0
                )
                rows.append([mean, variance, entropy, mpmath.log(total)])
    expected = doubles(rows).T
    assert_digits(found.mean, expected[0], 1e-12, floor=1e-20)
    assert_digits(found.variance, expected[1], 1e-12)
    assert_digits(found.entropy, expected[2], 1e-12, floor=1.0)
    assert_digits(found.log_normalizer, expected[3], 1e-12, floor=1e-3)


@pytest.mark.parametrize("size", [1e4, 1e8, 1e150])
def test_moments_beyond_what_fits_can_reach_stay_finite(size):
    loc = np.array([-size, size])
    with np.errstate(invalid="raise", divide="raise", over="ignore"):  # the square of 1e155 is infinite
        found = truncated_moments(loc, np.ones(2), 0.0)
    np.testing.assert_allclose(found.mean, [1.0 / size, size], rtol=1e-7)
    np.testing.assert_allclose(found.variance, [size**-2.0, 1.0], rtol=1e-7)
    assert np.isfinite(found.log_normalizer).all()


@pytest.mark.parametrize("variance", [0.0, 1e-12, 1.0, 1e8])
@pytest.mark.parametrize("margin", [0.0, 1.0, 1e4])
def test_log_odds_and_probabilities_of_scores_to_1e4(variance, margin):
    """Finite log odds, probabilities that sum to one, both against 50 digits."""
    score = ScoreMoments(LOCS, np.full_like(LOCS, variance))
    with np.errstate(**STRICT):
        odds, log_p = binary_log_odds(score, margin), log_probabilities(score, margin)
    with mpmath.workdps(50):
        spread = mpmath.sqrt(1 + mpmath.mpf(variance))
        logs = lambda z: mpmath.log(cdf(z)) if z < 0 else mpmath.log1p(-cdf(-z))
        expected = doubles([logs((m - margin) / spread) - logs((-m - margin) / spread) for m in exact(LOCS)])
    # the two sides of a wide margin are nearly as unlikely: their difference has the rounding of each
    sides = np.abs(log_normal_cdf((-np.abs(LOCS) - margin) / np.sqrt(1.0 + variance)))
    np.testing.assert_array_less(
        np.abs(odds - expected), 1e-14 * (1.0 + sides) + 1e-13 * np.abs(expected) + 1e-15
    )
    assert np.isfinite(odds).all()
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-14)


# ------------------------------------------------------------------------------------ the largest of several, pairs

FAR = {
    "1e4 below": [-1e4, 0.0, 1.0],
    "1e4 above": [1e4, 0.0, 1.0],
    "one 1e4 below the others": [1.0, 0.5, -1e4],
    "equal and far": [1e4, 1e4, 1e4],
    "between": [0.0, 5e3, -5e3],
}


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("margin", [0.0, 1e2])
def test_largest_of_variables_that_are_far_apart(name, margin):
    locs = np.array(FAR[name])
    marks = np.array([[1.0], [-1.0], [-1.0]])
    with np.errstate(**STRICT):
        found = largest_moments(locs[:, None], marks, margin)
    mean, variance, entropy, log_z = largest(list(exact(locs)), 0, mpmath.mpf(margin))
    size = max(1.0, abs(float(log_z)))
    np.testing.assert_allclose(found.mean[:, 0], doubles(mean), rtol=1e-9, atol=1e-14 * size)
    np.testing.assert_allclose(found.variance[:, 0], doubles(variance), rtol=1e-7, atol=1e-14 * size)
    assert float(found.entropy[0]) == pytest.approx(float(entropy), abs=1e-13 * size + 1e-9)
    assert float(found.log_normalizer[0]) == pytest.approx(float(log_z), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("distance", [0.0, 1.0, 37.0, 1e2, 1e4])
def test_probabilities_of_classes_in_log_space(distance):
    """However unlikely a class is, its log probability is finite; with two classes it is a normal tail."""
    locs = np.array([[0.0], [distance], [-distance]])
    with np.errstate(**STRICT):
        logs = log_largest(locs, np.ones_like(locs), 0.0)
    assert np.isfinite(logs).all()
    assert logsumexp(logs) == pytest.approx(0.0, abs=1e-9)
    two = log_largest(locs[:2], np.array([[1.0], [2.0]]), 0.0)
    expected = log_normal_cdf(np.array([-distance, distance]) / np.sqrt(5.0))
    np.testing.assert_allclose(two[:, 0], expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("correlation", [-0.999, -0.5, 0.0, 0.5, 0.999])
@pytest.mark.parametrize(
    "linear", [(-1e4, -1e4), (1e4, 1e4), (1e4, -1e4), (0.0, -1e4), (-1e4, 1e3), (3.0, 1e4)]
)
def test_pairs_of_positive_variables_far_in_the_tail(linear, correlation):
    """Stationarity: E of d/dx of exp(h'x - x'Px/2) times anything; finite, ordered, definite whatever h is."""
    precision = np.array([[1.0, correlation], [correlation, 1.0]])
    linear = np.array(linear)
    with np.errstate(**STRICT):
        found = quadrant_moments(linear, precision)
        swapped = quadrant_moments(linear[::-1], precision)
    assert np.isfinite(found.entropy)
    assert (found.mean > 0.0).all()
    assert np.linalg.eigvalsh(found.cov)[0] > 0.0
    assert_same(swapped.mean[::-1], found.mean, 1e-9)
    assert_same(swapped.cov[::-1, ::-1], found.cov, 1e-6)
    # the integral of d/dx_1 (x_1 q) over the quadrant is zero: 1 + E[x_1 (h - Px)_1] = 0, likewise for x_2
    square = found.cov + np.outer(found.mean, found.mean)
    for one in (0, 1):
        terms = [1.0, linear[one] * found.mean[one], -precision[one] @ square[one]]
        rounding = 1e-14 * np.abs(precision[one] * square[one]).max()
        assert sum(terms) == pytest.approx(0.0, abs=1e-10 * np.abs(terms).max() + rounding + 1e-9)


# --------------------------------------------------------------------------------------------------- divergences

SHAPES = [1e-10, 1e-3, 0.5, 1.0, 7.9, 15.9, 16.1, 30.0, 1e3, 1e6, 1e10]
RATIOS = [1e-10, 0.3, 0.499, 0.501, 1.0 - 1e-9, 1.0, 1.0 + 1e-6, 1.9, 1e3, 1e12]


@pytest.mark.parametrize("more", [0.0, 1e-6, 0.5, 20.0, 5e5])
@pytest.mark.parametrize("rate", [1e-10, 1.0, 1e10])
def test_divergence_of_gamma_distributions_against_60_digits(more, rate):
    """Distributions that differ in the tenth digit of huge shapes, and by twenty orders of magnitude."""
    pairs = [(shape, rate * ratio) for shape in SHAPES for ratio in RATIOS]
    found = [float(gamma_divergence(a + more, np.array([b]), a, rate)[0]) for a, b in pairs]
    expected = []
    with mpmath.workdps(60):
        for a, b in pairs:
            p, q, top, bottom = (mpmath.mpf(float(value)) for value in (a, a + more, rate, b))
            shapes = mpmath.loggamma(p) - mpmath.loggamma(q) - (p - q) * mpmath.digamma(q)
            expected.append(shapes + p * mpmath.log(bottom / top) + q * (top - bottom) / bottom)
    found, expected = np.array(found), doubles(expected)
    a, b = np.array(pairs).T
    ratio = np.abs(np.log(b / rate))
    parts = (
        np.minimum(a, 16.0) * 4.0
        + more * (1.0 + np.log1p(more + a) + np.minimum(ratio, 1e12 / b))
        + a * ratio
    )
    np.testing.assert_array_less(np.abs(found - expected), 1e-12 * np.abs(expected) + 2e-15 * (1.0 + parts))


# --------------------------------------------------------------------------------------------------------- gates

GATINGS = {
    "softmax": SoftmaxGating(),
    "sigmoid": SigmoidGating(),
    "gaussian": GaussianGating(),
    "groups": GroupGating(n_groups=4),
}
N_KERNELS, N_ROWS = 3, 4


def exact_gates(name, parameters, features):
    """Gates of shape (n_kernels, n_rows), as functions of mpmath numbers."""
    with mpmath.workdps(50):
        rows = parameters.reshape(4 if name == "groups" else N_KERNELS, -1)
        affine = lambda f, r: r[0] + sum(x * c for x, c in zip(f, r[1:], strict=True))
        place = lambda f, r: -sum((x - c) ** 2 for x, c in zip(f, r[1:], strict=True)) / r[0] ** 2
        if name == "groups":
            logits = np.array([[rows[int(f[0])][m] for f in features] for m in range(N_KERNELS)])
        else:
            logit = place if name == "gaussian" else affine
            logits = np.array([[logit(f, r) for f in features] for r in rows])
        if name == "sigmoid":
            return np.vectorize(lambda z: 1 / (1 + mpmath.exp(-z)), otypes=[object])(logits)
        powers = np.vectorize(mpmath.exp, otypes=[object])(logits - logits.max(axis=0))
        return powers / powers.sum(axis=0)


def gate_case(name, size, rng):
    features = np.arange(N_ROWS)[:, None] if name == "groups" else rng.normal(size=(N_ROWS, 2))
    n_parameters = 4 * N_KERNELS if name == "groups" else N_KERNELS * 3
    parameters = rng.normal(size=n_parameters) * (1.0 if name == "gaussian" else size)
    if name == "gaussian":  # narrow and wide places
        parameters[::3] = (
            rng.choice([-1.0, 1.0], size=N_KERNELS) * rng.uniform(1.0, 2.0, size=N_KERNELS) / size
        )
    return parameters, features


@pytest.mark.parametrize("size", [1e-8, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("name", GATINGS)
def test_gates_and_their_slopes_against_50_digits(rng, name, size):
    """Derivatives by differences of 1e-20 with 50 digits, where gates are saturated and where they are equal."""
    gating, (parameters, features) = GATINGS[name], gate_case(name, size, rng)
    slopes = rng.normal(size=(N_KERNELS, N_ROWS))
    with np.errstate(**STRICT):
        gates = quietly(lambda: gating.gates(parameters, features))
        pulled = quietly(lambda: gating.pullback(parameters, features, slopes))
    with mpmath.workdps(50):
        at, rows = exact(parameters), exact(features)
        expected = exact_gates(name, at, rows)
        # logits of the size of 1e4 are rounded to 1e-12
        np.testing.assert_allclose(gates, doubles(expected), rtol=1e-14 * (10.0 + size**2), atol=1e-300)
        h, found = mpmath.mpf(10) ** -20, []
        for k in range(len(at)):
            moved = at.copy()
            moved[k] += h
            found.append(np.sum(exact(slopes) * (exact_gates(name, moved, rows) - expected)) / h)
        found = doubles(found)
    np.testing.assert_allclose(
        pulled, found, rtol=1e-7, atol=1e-13 * (1.0 + np.abs(found).max()) * (1.0 + size)
    )


def test_gates_of_places_as_narrow_as_can_be_are_finite(rng):
    features = rng.normal(size=(N_ROWS, 2))
    parameters = np.column_stack([[0.0, 1e-300, -1e-7], rng.normal(size=(3, 2))]).ravel()
    with np.errstate(**STRICT):
        gates = GaussianGating().gates(parameters, features)
        pulled = GaussianGating().pullback(parameters, features, rng.normal(size=(3, N_ROWS)))
    assert np.isfinite(gates).all()
    np.testing.assert_allclose(gates.sum(axis=0), 1.0)
    assert np.isfinite(pulled).all()


# --------------------------------------------------------------------------------------------------- projections


@pytest.mark.parametrize("size", [1e-300, 1e-12, 1.0, 1e12, 1e18, 1e150, 1e300])
def test_projections_of_points_of_any_size(rng, size):
    """The nearest point of the simplex; of huge points all but the largest entries become zero."""
    for direction in (rng.normal(size=5), -rng.random(5), np.ones(5), np.array([1.0, 1.0, 0.0, -1.0, -2.0])):
        point = size * direction
        with np.errstate(**STRICT):
            found = project_simplex(point)
        assert (found >= 0.0).all()
        assert found.sum() == pytest.approx(1.0, rel=1e-14)
        with mpmath.workdps(700):
            q, best = exact(point), None
            for support in itertools.chain.from_iterable(
                itertools.combinations(range(5), k) for k in range(1, 6)
            ):
                x = exact(np.zeros(5))
                shift = (sum(q[i] for i in support) - 1) / len(support)
                for i in support:
                    x[i] = q[i] - shift
                if min(x) >= 0:
                    distance = sum((x - q) ** 2)
                    best = (distance, x) if best is None or distance < best[0] else best
        np.testing.assert_allclose(found, doubles(best[1]), atol=1e-14)


@pytest.mark.parametrize("p_norm", [1.0, 1.001, 2.0, 64.0, np.inf])
@pytest.mark.parametrize("size", [1e-100, 1.0, 1e12, 1e100])
def test_projections_on_balls_of_points_of_any_size(rng, p_norm, size):
    point = size * rng.normal(size=6)
    with np.errstate(**STRICT):
        found = project_lp_ball(point, p_norm)
    assert (found >= 0.0).all()
    norm = found.max() if np.isinf(p_norm) else np.linalg.norm(found, p_norm)
    assert norm <= 1.0 + 1e-12
    if size > 1e3:
        assert norm == pytest.approx(1.0, rel=1e-9)
        assert np.array_equal(np.argsort(found[point > 0.0], kind="stable").max(), (point > 0.0).sum() - 1)


# -------------------------------------------------------------------------------------------- support vector machines

PRICES = [1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6]
KINDS = ["smooth", "line", "near identity", "equal samples"]


def kernel_of(kind, rng, n_samples):
    match kind:
        case "line":  # rank one: classes overlap, and duals go to their bounds however large these are
            return np.outer(*[rng.normal(size=n_samples)] * 2)
        case "equal samples":
            half = np.arange(n_samples) // 2
            return random_kernels(rng, n_samples, 1)[0][np.ix_(half, half)]
    return random_kernels(rng, n_samples, 1, kind)[0]


def best_active_set(kernel, signs, linear, bounds, is_regression=False):
    """Return the largest value of p'x - v'Kv/2 over 0 <= x <= c with sum(v) = 0, v = s x, and the scores.

    Every dual is at 0, at its bound or in between. For each choice the duals in between solve a linear system; a
    choice with a regular one is among the best, and the best of those that are feasible is the optimum.
    """
    n, best, found = len(linear), -np.inf, None
    matrix = signs[:, None] * kernel * signs
    for choice in itertools.product((0, 1, 2), repeat=n):
        state = np.array(choice)
        if is_regression and (state[: n // 2] * state[n // 2 :]).any():
            continue  # one of the two duals of a sample is zero
        free, fixed = np.flatnonzero(state == 1), np.where(state == 2, bounds, 0.0)
        x = fixed.copy()
        if free.size:
            system = np.zeros((free.size + 1, free.size + 1))
            system[:-1, :-1] = matrix[np.ix_(free, free)]
            system[-1, :-1] = system[:-1, -1] = signs[free]
            if np.linalg.cond(system) > 1e12:
                continue
            right = np.append(linear[free] - matrix[free] @ fixed, -signs @ fixed)
            x[free] = np.linalg.solve(system, right)[:-1]
        inside = (x >= -1e-12 * bounds).all() and (x <= bounds * (1.0 + 1e-12)).all()
        if not inside or abs(signs @ x) > 1e-9 * bounds.max():
            continue
        value = linear @ x - 0.5 * x @ matrix @ x
        if value > best:
            best, found = value, kernel @ (signs * x)
    return best, found


def assert_kkt(kernel, target, bounds, solution, tolerance):
    """Check box, balance, and on which side of the margin each sample is."""
    alpha, size = solution.signed_dual * target, np.abs(solution.signed_dual).max()
    assert alpha.min() >= 0.0
    assert (alpha <= bounds * (1.0 + 1e-12)).all()
    assert abs(solution.signed_dual.sum()) <= 1e-10 * size * len(alpha)
    margin = target * (kernel @ solution.signed_dual + solution.intercept) - 1.0
    inside = 1e-7 * alpha.max()
    assert margin[alpha <= inside].min(initial=np.inf) >= -tolerance
    assert margin[alpha >= bounds - inside].max(initial=-np.inf) <= tolerance
    assert np.abs(margin[(alpha > inside) & (alpha < bounds - inside)]).max(initial=0.0) <= tolerance


@pytest.mark.parametrize("C", PRICES)
@pytest.mark.parametrize("kind", KINDS)
def test_classifier_is_the_best_active_set(rng, kind, C):
    n = 6
    kernel, y = kernel_of(kind, rng, n), np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    value, expected = best_active_set(kernel, y, np.ones(n), np.full(n, C))
    solution = quietly(lambda: solve_svm(kernel, y, C, tol=1e-9))
    assert solution.objective == pytest.approx(value, rel=1e-8)
    assert 0.0 <= solution.gap + 1e-12 * value <= 2e-6 * value
    size = np.abs(expected).max()
    np.testing.assert_allclose(kernel @ solution.signed_dual, expected, atol=3e-5 * max(size, 1.0))
    assert_kkt(kernel, y, np.full(n, C), solution, 1e-5)


@pytest.mark.parametrize("C", PRICES[::2])
@pytest.mark.parametrize("kind", KINDS)
def test_margins_and_bounds_of_their_own_are_the_best_active_set(rng, kind, C):
    n = 6
    kernel, y = kernel_of(kind, rng, n), np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    bounds, linear = C * rng.uniform(0.3, 3.0, size=n), rng.uniform(-0.5, 2.0, size=n)
    value, expected = best_active_set(kernel, y, linear, bounds)
    solution = quietly(lambda: solve_svm(kernel, y, bounds, tol=1e-9, linear=linear))
    assert solution.objective == pytest.approx(value, rel=1e-6)
    size = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(kernel @ solution.signed_dual, expected, atol=1e-4 * size)


@pytest.mark.parametrize("C", PRICES)
@pytest.mark.parametrize(("kind", "epsilon"), [("smooth", 0.0), ("line", 0.3), ("equal samples", 0.1)])
def test_regression_is_the_best_active_set(rng, kind, epsilon, C):
    n = 4
    kernel, target = kernel_of(kind, rng, n), rng.normal(size=n)
    signs = np.repeat([1.0, -1.0], n)
    both, linear = np.tile(kernel, (2, 2)), signs * np.tile(target, 2) - epsilon
    value, expected = best_active_set(both, signs, linear, np.full(2 * n, C), is_regression=True)
    solution = quietly(lambda: solve_svr(kernel, target, C, epsilon, tol=1e-9))
    assert solution.objective == pytest.approx(value, rel=1e-6, abs=1e-12)
    assert 0.0 <= solution.gap + 1e-9 * value <= 1e-4 * value + 1e-12 * C
    size = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(kernel @ solution.signed_dual, expected[:n], atol=1e-4 * size)
    assert np.abs(solution.signed_dual).max() <= C * (1.0 + 1e-12)


# ------------------------------------------------------------------------------- where LibSVM comes to no end


def primal(kernel, y, C, solution):
    slack = np.maximum(0.0, 1.0 - y * (kernel @ solution.signed_dual + solution.intercept))
    return 0.5 * solution.signed_dual @ kernel @ solution.signed_dual + C * slack.sum()


@pytest.mark.parametrize("n_samples", [20, 200])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_overlapping_classes_on_a_line_at_large_bounds(rng, n_samples, tol):
    """Steps of LibSVM shrink without end here; value and gap are what the primal says."""
    x, y, C = rng.normal(size=n_samples), random_labels(rng, n_samples), 1e6
    kernel = np.outer(x, x)
    solution = quietly(lambda: solve_svm(kernel, y, C, tol))
    # in one dimension: all slopes and thresholds of the best line, by the breakpoints of a piecewise linear loss
    best = min(
        0.5 * slope**2 + C * np.maximum(0.0, 1.0 - y * (slope * x + shift)).sum()
        for slope in np.linspace(-3.0, 3.0, 121)
        for shift in np.linspace(-2.0, 2.0, 81)
    )
    allowed = 1e-8 * best  # rounding: duals of 1e6 cancel to scores of one
    assert primal(kernel, y, C, solution) <= best + allowed
    assert 0.0 <= solution.gap <= allowed
    assert solution.objective <= best * (1.0 + 1e-9)
    assert solution.objective + solution.gap == pytest.approx(primal(kernel, y, C, solution), rel=1e-9)


def test_the_interior_point_method_is_what_takes_over(rng, monkeypatch):
    called = []
    monkeypatch.setattr(libsvm, "solve_box", lambda box: called.append(box) or solve_box(box))
    monkeypatch.setattr(libsvm, "MOST_STEPS_OF_FEW", 5)
    kernel, y, target = kernel_of("smooth", rng, 30), random_labels(rng, 30), rng.normal(size=30)
    linear = rng.uniform(-0.5, 2.0, size=30)
    cut_short = (
        solve_svm(kernel, y, 3.0),
        solve_svm(kernel, y, 3.0, linear=linear),
        solve_svr(kernel, target, 3.0, 0.1),
    )
    assert len(called) == 3
    monkeypatch.undo()
    ended = (
        solve_svm(kernel, y, 3.0, 1e-9),
        solve_svm(kernel, y, 3.0, 1e-9, linear),
        solve_svr(kernel, target, 3.0, 0.1, 1e-9),
    )
    for one, other in zip(cut_short, ended, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-7)
        assert one.gap <= 1e-9 * one.objective
        np.testing.assert_allclose(
            kernel @ one.signed_dual + one.intercept, kernel @ other.signed_dual + other.intercept, atol=1e-4
        )


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kind", ["smooth", "line", "near identity"])
def test_interior_points_satisfy_the_optimality_conditions(rng, kind, C):
    n = 40
    kernel, y, target = kernel_of(kind, rng, n), random_labels(rng, n), rng.normal(size=n)
    v, intercept = solve_box(classification_box(kernel, y, C))
    found = libsvm.InnerSolution(v, intercept, 0.0, 0.0)
    assert_kkt(kernel, y, np.full(n, C), found, 1e-6)
    value = y @ v - 0.5 * v @ kernel @ v
    assert primal(kernel, y, C, found) - value <= 1e-5 * value
    v, intercept = solve_box(regression_box(kernel, target, C, 0.2))
    assert np.abs(v).max() <= C * (1.0 + 1e-12)
    residuals = np.abs(target - kernel @ v - intercept)
    assert residuals[np.abs(v) < 1e-7 * np.abs(v).max()].max(initial=0.0) <= 0.2 + 1e-6
    assert residuals[np.abs(v) > C * (1.0 - 1e-7)].min(initial=np.inf) >= 0.2 - 1e-6


def test_interior_points_of_one_sample_per_class_and_of_no_kernel():
    kernel, y = np.eye(2), np.array([-1.0, 1.0])
    v, intercept = solve_box(classification_box(kernel, y, 1e3))
    np.testing.assert_allclose(v, y, rtol=1e-9)
    assert intercept == pytest.approx(0.0, abs=1e-9)
    v, intercept = solve_box(
        BoxProblem(np.zeros((3, 3)), np.array([[-1.0, 1.0, 1.0]]), np.ones((1, 3)), np.ones(3))
    )
    assert v[0] == pytest.approx(-1.0)
    assert v[1:].sum() == pytest.approx(1.0)
    assert intercept == pytest.approx(1.0, abs=1e-6)  # the larger class pays nothing


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2)], ids=str)
def test_svms_on_samples_come_to_an_end_too(rng, kernel):
    """Native kernels of low rank at a large bound, against the machine on the matrix."""
    X, y, target = rng.normal(size=(60, 2)), random_labels(rng, 60), rng.normal(size=60)
    native, matrix = native_kernel(kernel, X), PrecomputedKernel(kernel(X, X))
    for of_samples, of_matrix in [
        (native.classify(y, 1e6, 1e-3), matrix.classify(y, 1e6, 1e-3)),
        (native.regress(target, 1e6, 0.1, 1e-3), matrix.regress(target, 1e6, 0.1, 1e-3)),
    ]:
        np.testing.assert_allclose(scores(native, of_samples), scores(matrix, of_matrix), atol=1e-4)


# ------------------------------------------------------------------------------------------------------ every machine

N_TRAIN, N_NEW = 24, 8
EXTREME = [1e-6, 1e6]
MACHINES = [case for case in CASES if case.reference is hinge_scores and not case.votes]


@pytest.fixture(scope="module")
def data():
    """Gaussian kernels of three views, (n_rows, n_train, n_kernels), labels with some noise and a real target."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_TRAIN + N_NEW, 6))
    views = X[:, :2], X[:, 2:4], X[:, 4:]
    kernels = np.stack([np.exp(-0.5 * ((v[:, None] - v) ** 2).sum(axis=-1)) for v in views], axis=-1)
    target = (X[:, 0] + 0.5 * X[:, 2] ** 2 - 0.4 + 0.3 * rng.normal(size=len(X)))[:N_TRAIN]
    return kernels[:N_TRAIN, :N_TRAIN], kernels[N_TRAIN:, :N_TRAIN], np.where(target > 0.0, 1, -1), target


def fitted(case, data, C, scale=1.0):
    settings = known(case.name, {"max_iter": 1000 if case.is_rough else 300})
    y = data[3] if case in REGRESSION_CASES else data[2]
    model = case.make(C, scale=scale, **settings)
    return quietly(lambda: model.fit(scale * data[0], y), ConvergenceWarning)


@pytest.mark.parametrize("C", EXTREME)
@pytest.mark.parametrize("case", MACHINES, ids=str)
def test_svms_satisfy_the_optimality_conditions(data, case, C):
    """Whatever the weights: duals in their box, balanced, and on the side of the margin that they say."""
    stack, _, y, _ = data
    model = fitted(case, data, C)
    alpha, margin = model.dual_coef_ * y, y * model.decision_function(stack) - 1.0
    inside = 1e-7 * alpha.max()
    assert alpha.min() >= -1e-12 * alpha.max()
    assert alpha.max() <= C * (1.0 + 1e-9)
    assert abs(model.dual_coef_.sum()) <= 1e-9 * C * N_TRAIN
    assert margin[alpha <= inside].min(initial=np.inf) >= -1e-3
    assert margin[alpha >= C - inside].max(initial=-np.inf) <= 1e-3
    assert np.abs(margin[(alpha > inside) & (alpha < C - inside)]).max(initial=0.0) <= 1e-3
