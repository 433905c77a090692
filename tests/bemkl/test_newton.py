"""Newton steps against finite differences, sums over samples, and the fixed point of coordinate ascent."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import VB, Storage, newton
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo, takes_newton_steps
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.newton import (
    curve,
    first_point,
    maximize_by_newton,
    respond,
    slopes,
)
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers

N, B, P = 120, 9, 6
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3))
SCORE = np.sin(2.0 * X[:, 0]) + 0.6 * X[:, 1] + 0.3 * RNG.normal(size=N)
LABELS = np.where(SCORE > 0.2, 1.0, -1.0)
KERNELS = KernelBank([Gaussian(width=1.0), Linear()], views="each", landmarks=X[:B]).fit(X).evaluate(X)
STACK = DenseStack(KERNELS)
PROBLEMS = {
    "binary": (bemkl, Problem(STACK, STACK.gram(), LABELS, Priors(), Labels(0.7), 1.3)),
    "regression": (
        bemkl,
        Problem(STACK, STACK.gram(), SCORE, Priors(), Numbers()),
    ),
}
EXACT = 40  # Newton steps to the score of each sample


def started(name):
    algorithm, problem = PROBLEMS[name]
    return problem, algorithm.init(problem, np.full(N, 0.8) if name == "binary" else np.zeros(N))


def settled(name, n_responses=6):
    """A point somewhere on the way, its factors as `_settle` leaves them."""
    problem, start = started(name)
    here = newton._attempt(problem, np.ones(2), first_point(problem, start))
    return problem, newton._settle(problem, here, n_responses, 0.0).at


def derivative(function, step=1e-5):
    return (function(step) - function(-step)) / (2.0 * step)


def moved(at, direction, e):
    return at._replace(dual=at.dual + e * direction, projection=at.projection + e * (KERNELS @ direction))


@pytest.mark.heavy
@pytest.mark.parametrize("name", PROBLEMS)
def test_slope_is_the_derivative_of_the_bound_at_its_maximum_over_all_else(name):
    """Where q(b, e) and noise precisions are at their optimum, too, by the envelope theorem."""
    problem, at = settled(name, 400)
    direction = RNG.normal(size=B)

    def bound(e):
        return respond(problem, moved(at, direction, e), EXACT).bound

    response = respond(problem, at, EXACT)
    by_t, by_s = slopes(response, at, direction, KERNELS @ direction, 0.0)
    assert by_t == pytest.approx(derivative(bound), rel=1e-3)
    assert curve(problem, at, response)[0] @ direction == pytest.approx(by_t, rel=1e-9)
    assert by_s == pytest.approx(curve(problem, at, response)[0] @ at.dual, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_curvature_against_differences_and_a_sum_over_samples(name):
    problem, at = settled(name)
    tau, epsilon, direction = at.intermediate_precision, at.noise_precision, RNG.normal(size=B)

    def pull(e):
        there = moved(at, direction, e)
        mean = respond(problem, there, EXACT).state.intermediate.mean
        return tau * np.einsum("mij,mi->j", KERNELS, mean - there.projection)

    response = respond(problem, at, EXACT)
    state, C = response.state, at.readout_cov[1:, 1:]
    w, v = at.readout[1:], state.latent.variance if name == "binary" else np.zeros(N)
    sigma = np.linalg.inv(tau * np.eye(P) + epsilon * (np.outer(w, w) + C))
    u = sigma @ w
    kappa = epsilon * w @ u
    omega = epsilon * tau**2 * (1.0 - v) / ((1.0 - kappa) * (1.0 - kappa * v))
    small = tau * epsilon * C @ np.linalg.inv(tau * np.eye(P) + epsilon * C)
    exact = sum(
        K.T @ (small + o * np.outer(u, u)) @ K for K, o in zip(KERNELS.transpose(1, 0, 2), omega, strict=True)
    )
    assert np.linalg.eigvalsh(exact).min() > 0.0
    np.testing.assert_allclose(exact @ direction, -derivative(pull), rtol=1e-5, atol=1e-5 * abs(exact).max())
    at_next = at._replace(intermediate_precision=tau, noise_precision=epsilon)
    held = response._replace(next_precisions=(tau, epsilon))
    traced = exact + np.trace(small) / P * problem.gram
    traced -= sum(K.T @ small @ K for K in KERNELS.transpose(1, 0, 2))
    np.testing.assert_allclose(
        curve(problem, at_next, held)[1], traced + np.diag(state.sample_precision.mean), rtol=1e-9
    )


@pytest.mark.parametrize("name", PROBLEMS)
def test_curvature_over_kernel_weights_against_differences(name):
    problem, at = settled(name)
    step = RNG.normal(size=1 + P)

    def slope(e):
        there = at._replace(readout=at.readout + e * step)
        found = respond(problem, there, EXACT)
        return at.noise_precision * (found.target - found.design @ there.readout)

    found = respond(problem, at, EXACT)
    curvature = found.curvature - np.diag(found.prior_precision)
    np.testing.assert_allclose(curvature, curvature.T, atol=1e-9 * abs(curvature).max())
    expected = -derivative(slope)
    np.testing.assert_allclose(curvature @ step, expected, rtol=1e-5, atol=1e-5 * abs(expected).max())


@pytest.mark.heavy
@pytest.mark.parametrize("name", PROBLEMS)
def test_fixed_point_is_one_of_coordinate_ascent(name):
    algorithm, problem = PROBLEMS[name]
    start = started(name)[1]
    found = maximize_by_newton(problem, start, LoopOptions(max_iter=300, tol=1e-10))
    assert found.outcome is Outcome.CONVERGED
    history = found.elbo_history
    assert (np.diff(history) >= 0.0).all()
    assert len(history) == found.n_iter
    assert history[-1] == pytest.approx(algorithm.elbo(problem, found.state), rel=1e-12)
    loop = maximize_elbo(
        algorithm, problem, algorithm.carry(problem, found.state), LoopOptions(max_iter=3000, tol=1e-11)
    )
    assert loop.elbo_history[-1] - history[-1] < 1e-6 * abs(history[-1])
    for own, other in ((found.state.dual, loop.state.dual), (found.state.readout, loop.state.readout)):
        np.testing.assert_allclose(other.mean, own.mean, atol=2e-3 * abs(own.mean).max())
        np.testing.assert_allclose(other.variance, own.variance, rtol=2e-2)


@pytest.mark.heavy
@pytest.mark.parametrize("name", PROBLEMS)
def test_higher_bound_in_fewer_passes(name):
    algorithm, problem = PROBLEMS[name]
    start = started(name)[1]
    loop = maximize_elbo(algorithm, problem, start, LoopOptions(max_iter=100, tol=0.0))
    found = maximize_by_newton(problem, start, LoopOptions(max_iter=30, tol=0.0))
    assert found.elbo_history[-1] > loop.elbo_history[-1]


# --------------------------------------------------------------------------------------------------- the estimators


def estimator(cls, step="newton", **settings):
    own = {"margin": 0.5, "intermediate_scale": 1.0} if cls is BEMKLClassifier else {}
    bank = KernelBank([Gaussian(width=1.0), Linear()], views="each", landmarks=X[:B])
    return cls(bank, inference=VB(step=step), **own, **settings)


def target(cls):
    return LABELS if cls is BEMKLClassifier else SCORE


MODELS = [BEMKLClassifier, BEMKLRegressor]


@pytest.mark.heavy
@pytest.mark.parametrize("cls", MODELS)
def test_kernels_held_in_several_ways(cls, tmp_path):
    fit = partial(lambda storage: estimator(cls, storage=storage, tol=1e-10).fit(X, target(cls)))
    dense, streamed, single = map(fit, ("dense", "streamed", "float32"))
    assert dense.converged_
    assert dense.n_iter_ == len(dense.elbo_history_)
    for found, tolerance in ((streamed, 1e-6), (single, 1e-4)):
        assert found.elbo_ == pytest.approx(dense.elbo_, rel=tolerance)
        np.testing.assert_allclose(found.predict(X), dense.predict(X), atol=100 * tolerance)
    save_model(dense, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert again.inference == VB(step="newton")
    np.testing.assert_array_equal(again.predict(X), dense.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("cls", MODELS)
def test_jax_finds_the_same(cls):
    plain, jax = (
        estimator(cls, storage=Storage("dense", backend=backend), tol=1e-8).fit(X, target(cls))
        for backend in ("numpy", "jax")
    )
    assert jax.elbo_ == pytest.approx(plain.elbo_, rel=1e-7)
    np.testing.assert_allclose(jax.kernel_shares_, plain.kernel_shares_, atol=1e-3)


@pytest.mark.heavy
def test_each_class_against_the_rest_and_random_starts():
    labels = np.digitize(SCORE, [-0.5, 0.7])
    model = estimator(BEMKLClassifier, multiclass="one-versus-all", n_init=2, random_state=0, tol=1e-5)
    model.fit(X, labels)
    assert model.n_iter_.shape == (3,)
    assert np.mean(model.predict(X) == labels) > 0.8


def test_end_after_too_few_steps_is_a_warning_and_goes_on_from_a_posterior():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        first = estimator(BEMKLClassifier, max_iter=3).fit(X, LABELS)
    assert (first.n_iter_, first.outcome_) == (3, Outcome.MAX_ITER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again = estimator(BEMKLClassifier, init=first.posterior_, max_iter=2).fit(X, LABELS)
    assert again.elbo_history_[0] > first.elbo_history_[1]


@pytest.mark.heavy
def test_last_steps_tell_what_the_curvature_leaves_out(monkeypatch):
    """The same maximum, in fewer steps."""
    problem, start = started("binary")
    options = LoopOptions(max_iter=400, tol=1e-9)
    found = maximize_by_newton(problem, start, options)
    monkeypatch.setattr(newton, "NEAR", -1.0)  # no pairs
    plain = maximize_by_newton(problem, start, options)
    assert plain.outcome is found.outcome is Outcome.CONVERGED
    assert found.n_iter < plain.n_iter
    assert found.elbo_history[-1] == pytest.approx(plain.elbo_history[-1], rel=1e-6)


def test_choice_of_the_steps():
    class Shape:
        present, n_kernels, n_rows, n_train = None, 16, 100_000, 256

    large = Problem(Shape, None, LABELS, None, Labels(0.0), 1.0)
    assert takes_newton_steps("auto", bemkl, large)
    assert not takes_newton_steps("coordinate", bemkl, large)
    for attribute, value in (
        ("n_rows", 1000),
        ("n_kernels", 5000),
        ("n_train", 100_000),
        ("present", LABELS),
    ):
        other = type("Other", (Shape,), {attribute: value})
        assert not takes_newton_steps("auto", bemkl, large._replace(stack=other))
    small = PROBLEMS["binary"][1]
    assert not takes_newton_steps("auto", bemkl, small)
    assert takes_newton_steps("newton", bemkl, small)
    several = small._replace(y=np.stack([LABELS, LABELS]))
    assert not takes_newton_steps("auto", bemkl, several)
    unlabeled = small._replace(y=np.zeros(N))
    for problem in (several, unlabeled):
        with pytest.raises(ValueError, match='`step` of `inference` "newton" supports two classes'):
            takes_newton_steps("newton", bemkl, problem)
    with pytest.raises(ValueError, match="`step` of `inference` must be"):
        BEMKLClassifier(inference=VB(step="gradient"), intermediate_scale=1.0).fit(X, LABELS)
    with pytest.raises(ValueError, match="missing views or `nonnegative`"):
        estimator(BEMKLRegressor, nonnegative=True).fit(X, SCORE)


def test_first_rows_may_have_one_class():
    """The ascent begins on a sixteenth of the rows, without the few samples of the second class."""
    n, n_first, rng = 640, newton.ROWS_PER_WEIGHT * 2, np.random.default_rng(0)
    first = np.random.default_rng(0).choice(n, max(n_first, n // newton.LARGEST_PART), replace=False)
    few = np.setdiff1d(np.arange(n), first)[:12]
    samples, labels = rng.normal(size=(n, 2)), np.zeros(n, int)
    labels[few] = 1
    samples[few] += 6.0
    bank = KernelBank(Gaussian(width=1), landmarks=np.array([[6.0, 6.0], [0.0, 0.0]]))
    model = BEMKLClassifier(bank, inference=VB(step="newton"), margin=0.5, intermediate_scale=1.0)
    model.fit(samples, labels)
    assert model.converged_
    assert np.mean(model.predict(samples[few])) >= 0.75
    assert not model.predict(samples[first]).any()
