"""BEMKL of grades: two of them are two classes, bounds rise, cut points maximize them, and what scikit-learn sees."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import SAME_ITERATION, assert_same_factors, frozen, log_likelihood, random_kernels
from scipy import stats
from sklearn.base import clone

from bayesmkl import BEMKLClassifier, KernelBank, load_model, save_model
from bayesmkl._numerics.truncated_normal import interval_moments
from bayesmkl._utils.devices import numpyro_session
from bayesmkl.bemkl import NUTS, BEMKLOrdinalClassifier, Dirichlet, Gamma, Storage
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.bemkl.moments import latent_mean
from bayesmkl.gp import GPMKLOrdinalClassifier, Marginal
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Grades, Labels, OrdinalProbit, grades
from bayesmkl.posterior import compare_loo, diagnose, refine_posterior, relevance, to_datatree, view_table

N, P = 60, 3
VIEWS = {"signal": 0, "noise": 1}


def graded(rng, n_levels, n_samples=N):
    """Return kernels and grades that the first of them tells, from 1."""
    kernels = random_kernels(rng, n_samples, P)
    score = kernels[0] @ rng.normal(size=n_samples)
    noisy = 2.0 * score / score.std() + rng.normal(size=n_samples)
    shares = np.arange(1, n_levels) / n_levels
    return kernels, 1.0 + np.digitize(noisy, np.quantile(noisy, shares))


def problem_of(kernels, y, n_levels, priors=Priors(), sigma=0.5):  # noqa: B008
    stack, slopes = DenseStack(frozen(kernels)), OrdinalProbit(n_levels).cut_slopes()
    return Problem(stack, frozen(stack.gram()), frozen(y), priors, Grades(slopes), sigma**-2)


def bank():
    return KernelBank(["rbf"], views=VIEWS)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 2))
    return X, np.digitize(2.0 * np.sin(X[:, 0]) + 0.5 * rng.normal(size=120), [-1.0, 0.0, 1.0])


@pytest.fixture(scope="module")
def model(data):
    X, y = data
    return BEMKLOrdinalClassifier(bank(), intermediate_scale=0.3).fit(X[:80], y[:80])


# ------------------------------------------------------------------------------------------------------- degenerate


def test_degenerate_two_grades_are_two_classes_sweep_by_sweep(rng):
    kernels, y = graded(rng, 2)
    problem = problem_of(kernels, y, 2)
    stack = problem.stack
    classes = Problem(stack, problem.gram, 2.0 * y - 3.0, Priors(), Labels(0.0), 4.0)
    here = bemkl.init(problem, None)
    there = bemkl.init(classes, np.full(N, np.sqrt(2.0 / np.pi)))
    for _ in range(5):
        state, bound = bemkl.sweep(problem, here)
        expected, other = bemkl.sweep(classes, there)
        np.testing.assert_allclose(bound, other, rtol=1e-12)
        assert state.distances.shape == (0,)
        assert_same_factors(state._replace(distances=None), expected, SAME_ITERATION)
        here, there = bemkl.carry(problem, state), bemkl.carry(classes, expected)


def test_degenerate_estimator_of_two_grades(data):
    X, y = data
    settings = {"intermediate_scale": 0.3, "kernel_prior": Gamma(2.0, 1.0)}
    two = BEMKLOrdinalClassifier(bank(), **settings).fit(X, y > 1)
    classes = BEMKLClassifier(bank(), margin=0.0, **settings).fit(X, y > 1)
    np.testing.assert_allclose(two.elbo_, classes.elbo_, rtol=1e-10)
    np.testing.assert_allclose(two.predict_proba(X), classes.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(two.kernel_shares_, classes.kernel_shares_, atol=1e-6)
    np.testing.assert_allclose(two.intercept_, classes.intercept_, atol=1e-6)
    np.testing.assert_array_equal(two.cut_points_, [0.0])
    for one, other in zip(two.predict_latent(X, True), classes.predict_latent(X, True), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)


def test_equivariance_to_the_order_turned_round(rng):
    kernels, y = graded(rng, 4)
    forth, back = (problem_of(kernels, own, 4) for own in (y, 5.0 - y))
    found = [maximize_elbo(bemkl, own, bemkl.init(own, None), LoopOptions()) for own in (forth, back)]
    np.testing.assert_allclose(found[0].elbo_history[-1], found[1].elbo_history[-1], rtol=1e-9)
    np.testing.assert_allclose(found[0].state.distances, found[1].state.distances[::-1], rtol=1e-4)


# ------------------------------------------------------------------------------------------------------------ bound


@pytest.mark.heavy
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("n_levels", [3, 6])
def test_monotone_elbo(rng, n_levels, accelerate):
    kernels, y = graded(rng, n_levels)
    problem = problem_of(kernels, y, n_levels, Priors(Gamma(1.3, 0.7), Gamma(0.6, 2.0), Gamma(2.0, 0.4)))
    for share in (None, rng.random(N)):
        found = maximize_elbo(bemkl, problem, bemkl.init(problem, share), LoopOptions(60, 0.0, accelerate))
        assert (np.diff(found.elbo_history) >= -1e-10).all()
        assert (found.state.distances > 0.0).all()
        np.testing.assert_allclose(bemkl.elbo(problem, found.state), found.elbo_history[-1], rtol=1e-12)


@pytest.mark.heavy
def test_monotone_elbo_from_cut_points_that_are_far_off(rng):
    kernels, y = graded(rng, 5)
    problem = problem_of(kernels, y, 5)
    start = bemkl.init(problem, None)
    best = maximize_elbo(bemkl, problem, start, LoopOptions(1000, 1e-10))
    for distances in ([1e-4, 20.0, 0.01], [30.0, 30.0, 30.0]):
        here = start._replace(distances=np.array(distances))
        found = maximize_elbo(bemkl, problem, here, LoopOptions(1000, 1e-10))
        assert (np.diff(found.elbo_history) >= -1e-9).all()
        np.testing.assert_allclose(found.elbo_history[-1], best.elbo_history[-1], atol=1e-3)


def at_cuts(problem, state, distances):
    """Return the bound at other cut points, with q(f) at its optimum given them."""
    loc = latent_mean(state.intermediate, state.readout)
    latent = interval_moments(loc, *grades.grade_ends(problem.y, problem.outcome.cut_slopes, distances))
    return bemkl.elbo(problem, state._replace(distances=distances, latent=latent))


def test_finite_difference_of_the_bound_by_cut_points(rng):
    """The slopes and curvature that Newton's step takes are those of the bound, and zero in the end."""
    kernels, y = graded(rng, 5)
    problem = problem_of(kernels, y, 5)
    state, _ = bemkl.sweep(problem, bemkl.init(problem, None))
    distances, h = np.array([0.4, 1.3, 0.2]), 1e-4
    loc = latent_mean(state.intermediate, state.readout)
    latent = interval_moments(loc, *grades.grade_ends(y, problem.outcome.cut_slopes, distances))
    slope, curvature = grades._cut_derivatives(
        y, problem.outcome.cut_slopes, distances, loc, latent.log_normalizer
    )
    steps = h * np.eye(3)
    ahead, behind = ([at_cuts(problem, state, distances + sign * step) for step in steps] for sign in (1, -1))
    middle = at_cuts(problem, state, distances)
    np.testing.assert_allclose((np.array(ahead) - behind) / (2 * h), slope, rtol=1e-6)
    bend = (np.array(ahead) + behind - 2 * middle) / h**2
    np.testing.assert_allclose(-bend, np.diag(curvature), rtol=1e-4)
    both = at_cuts(problem, state, distances + steps[0] + steps[1])
    np.testing.assert_allclose(-(both - ahead[0] - ahead[1] + middle) / h**2, curvature[0, 1], rtol=1e-2)
    end = maximize_elbo(bemkl, problem, bemkl.init(problem, None), LoopOptions(2000, 1e-12)).state
    ahead, behind = (
        [at_cuts(problem, end, end.distances + sign * step) for step in steps] for sign in (1, -1)
    )
    np.testing.assert_allclose((np.array(ahead) - behind) / (2 * h), 0.0, atol=1e-3)
    middle = at_cuts(problem, end, end.distances)
    assert max(*ahead, *behind) < middle


def test_bound_by_other_libraries(rng):
    """Expected log density of scores and their entropy, by SciPy's truncated normal; all else is that of classes."""
    kernels, y = graded(rng, 4)
    problem = problem_of(kernels, y, 4)
    state, bound = bemkl.sweep(problem, bemkl.init(problem, None))
    loc = latent_mean(state.intermediate, state.readout)
    cuts = np.concatenate([[-40.0], problem.outcome.cut_slopes @ state.distances, [40.0]])
    grade = y.astype(int)
    law = stats.truncnorm(cuts[grade - 1] - loc, cuts[grade] - loc, loc=loc)
    np.testing.assert_allclose(state.latent.mean, law.mean(), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(state.latent.variance, law.var(), rtol=1e-6)
    classes = Problem(problem.stack, problem.gram, np.ones(N), Priors(), Labels(0.0), 4.0)
    latent = SimpleNamespace(mean=law.mean(), variance=law.var(), entropy=law.entropy())
    expected = bemkl.elbo(classes, state._replace(latent=latent))
    np.testing.assert_allclose(bound, expected, atol=1e-6)


@pytest.mark.heavy
def test_updates_on_jax_are_those_on_numpy(data):
    X, y = (values[:45] for values in data)  # 45 are padded to 48
    plain = BEMKLOrdinalClassifier(bank(), max_iter=40, intermediate_scale=1.0).fit(X, y)
    moved = clone(plain).set_params(storage=Storage(backend="jax")).fit(X, y)
    np.testing.assert_allclose(moved.elbo_history_, plain.elbo_history_, rtol=1e-8)
    np.testing.assert_allclose(moved.cut_points_, plain.cut_points_, atol=1e-5)
    np.testing.assert_allclose(moved.predict_proba(X), plain.predict_proba(X), atol=1e-6)


# -------------------------------------------------------------------------------------------------------- estimator


@pytest.mark.heavy
def test_recovery_of_shares_and_cut_points(model, data):
    X, y = data
    assert model.converged_
    assert model.kernel_shares_[0] > 0.9
    assert model.score(X[80:], y[80:]) > 0.5
    assert abs(model.cut_points_.sum()) < 1e-12
    probability = model.predict_proba(X[80:])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    ranks = stats.spearmanr(probability @ np.arange(4), model.predict_latent(X[80:])).statistic
    assert ranks > 0.99


def test_probabilities_are_those_of_the_predicted_score(model, data):
    mean, std = model.predict_latent(data[0], return_std=True)
    below = stats.norm.cdf((model.cut_points_ - mean[:, None]) / std[:, None])
    expected = np.diff(below, axis=1, prepend=0.0, append=1.0)
    np.testing.assert_allclose(model.predict_proba(data[0]), expected, atol=1e-12)


@pytest.mark.heavy
def test_beside_a_gaussian_process(model, data):
    """Another model and another inference of the same data: the probabilities are close, and so is the log score."""
    X, y = data
    few = Marginal(n_points=100, n_draws=100, approximation="laplace")
    process = GPMKLOrdinalClassifier(bank(), inference=few).fit(X[:80], y[:80])
    one, other = (own.predict_proba(X[80:]) for own in (model, process))
    assert np.abs(one - other).mean() < 0.06
    own = np.arange(40), y[80:]
    assert abs(np.log(one[own]).mean() - np.log(other[own]).mean()) < 0.15


@pytest.mark.heavy
def test_grades_may_be_text_or_categories(model, data):
    import pandas as pd

    X, y = data
    names = np.array(["none", "mild", "moderate", "severe"])
    text = clone(model).set_params(levels=list(names)).fit(X[:80], names[y[:80]])
    ordered = pd.Series(pd.Categorical(names[y[:80]], categories=names, ordered=True))
    frame = clone(model).fit(X[:80], ordered)
    for own in (text, frame):
        np.testing.assert_array_equal(own.classes_, names)
        np.testing.assert_array_equal(own.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(own.predict(X), names[model.predict(X)])


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, np.array(["low", "high"])[np.arange(N) % 2], "`levels` must give the order"),
        ({"levels": [0, 1, 2]}, np.arange(N) % 2, r"got none of \[2\]"),
        ({"levels": [0, 1]}, np.arange(N) % 3, r"got \[2\] too"),
        ({"levels": [0, 0]}, np.arange(N) % 2, "two different grades"),
        ({}, np.zeros(N), "one class only"),
        ({"inference": "nuts"}, np.arange(N) % 2, "`inference` must be one of 'vb'"),
        ({"inference": NUTS()}, np.arange(N) % 2, "`inference` must be one of 'vb'"),
        ({"kernel_prior": Dirichlet()}, np.arange(N) % 2, '`kernel_prior` must be "nonsparse"'),
        ({"kernel_prior": "dirichlet"}, np.arange(N) % 2, '`kernel_prior` must be "nonsparse"'),
        ({"intermediate_scale": "wide"}, np.arange(N) % 2, '`intermediate_scale` must be "auto"'),
        ({"intermediate_scale": -1.0}, np.arange(N) % 2, "`intermediate_scale`"),
        ({"init": "zero"}, np.arange(N) % 2, "`init` must be"),
    ],
)
def test_grades_and_parameters_that_are_none(data, parameters, y, message):
    with pytest.raises(ValueError, match=message):
        BEMKLOrdinalClassifier(bank(), **parameters).fit(data[0][:N], y)


@pytest.mark.heavy
def test_starts(model, data):
    X, y = (values[:80] for values in data)
    again = clone(model).set_params(init=model.posterior_).fit(X, y)
    assert again.n_iter_ < model.n_iter_
    np.testing.assert_allclose(again.elbo_, model.elbo_, rtol=1e-5)
    several = clone(model).set_params(n_init=2, random_state=1).fit(X, y)
    assert several.elbo_ >= model.elbo_
    with pytest.raises(ValueError, match="posterior of 3 grades; got one of 4"):
        clone(model).set_params(init=model.posterior_).fit(X, np.minimum(y, 2))


@pytest.mark.heavy
def test_scale_is_chosen_by_folds(data):
    X, y = (values[:60] for values in data)
    found = BEMKLOrdinalClassifier(bank(), tol=1e-3).fit(X, y)
    assert found.intermediate_scale_ in (0.1, 0.3, 1.0)
    given = clone(found).set_params(intermediate_scale=found.intermediate_scale_).fit(X, y)
    np.testing.assert_array_equal(given.predict_proba(X), found.predict_proba(X))


# -------------------------------------------------------------------------------------------------------- posterior


def test_tables_trees_and_files(model, data, tmp_path):
    X, y = (values[:80] for values in data)
    table = view_table(model)
    assert table.loc[0, "view"] == "signal"
    assert table.loc[0, "interval_by"] == "vb (too narrow)"
    tree = to_datatree(model, n_draws=400, random_state=0)
    np.testing.assert_allclose(tree["constant_data/cut_points"], model.cut_points_)
    np.testing.assert_array_equal(tree["observed_data/y"], y)
    posterior, e = tree["posterior"], tree["posterior/kernel_weights"].values[0]
    kernels = model.kernel_bank_.transform(X)
    means = np.einsum("dm,inm,dn->di", e, kernels, posterior["dual_coef"].values[0])
    means += posterior["intercept"].values[0][:, None]
    scales = np.sqrt(1.0 + 0.09 * (e**2).sum(axis=1))[:, None]
    cuts = np.concatenate([[-np.inf], model.cut_points_, [np.inf]])
    expected = stats.norm.cdf((cuts[y + 1] - means) / scales) - stats.norm.cdf((cuts[y] - means) / scales)
    np.testing.assert_allclose(log_likelihood(tree)[0], np.log(expected).sum(axis=1), rtol=1e-6)
    drawn = (tree["posterior_predictive/y"].values[0] == y).mean()
    assert abs(drawn - expected.mean()) < 4 * 0.5 / np.sqrt(400 * 80)
    path = tmp_path / "model.skops"
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "tool", [diagnose, relevance, refine_posterior, lambda model: compare_loo({"a": model, "b": model})]
)
def test_tools_that_have_no_answer(model, tool):
    with pytest.raises(TypeError, match="GPMKLOrdinalClassifier"):
        tool(model)


@pytest.mark.heavy
def test_numpyro_program_has_the_joint_density_by_hand(rng):
    import jax
    from numpyro.infer.util import log_density

    X = rng.normal(size=(9, 2))
    y = np.arange(9) % 4
    prior = Gamma(1.5, 0.6)
    law = stats.t(3.0, scale=np.sqrt(0.6 / 1.5))  # of variables whose precisions have this prior
    options = {"kernel_prior": prior, "sample_prior": prior, "bias_prior": prior, "intermediate_scale": 0.7}
    a, b, e, apart = rng.normal(size=9), rng.normal(), rng.normal(size=2), rng.gamma(1.0, size=2)
    with numpyro_session():
        program = BEMKLOrdinalClassifier(bank(), **options).numpyro_model(X, y)
        values = {"dual": a, "intercept": b, "kernel_weights": e, "distances": apart}
        density = jax.jit(lambda data, values: log_density(program.model, (), data, values)[0])
        found = density(program.data, values)
    np.testing.assert_array_equal(program.data["y"], y)
    kernels = bank().fit_transform(X)
    mean = np.einsum("m,inm,n->i", e, kernels, a) + b
    inner = np.array([0.0, apart[0], apart.sum()])
    cuts = np.concatenate([[-np.inf], inner - inner.mean(), [np.inf]])
    scale = np.sqrt(1.0 + 0.49 * e @ e)
    likelihood = stats.norm.cdf((cuts[y + 1] - mean) / scale) - stats.norm.cdf((cuts[y] - mean) / scale)
    expected = np.log(likelihood).sum() + law.logpdf(np.concatenate([a, e, [b]])).sum()
    expected += stats.lognorm.logpdf(apart - 3e-4, 1.0, scale=0.7).sum()
    np.testing.assert_allclose(float(found), expected, rtol=1e-6)
