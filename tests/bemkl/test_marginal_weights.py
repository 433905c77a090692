"""Marginal inference of BEMKL: grids, closed forms, Monte Carlo and NUTS on all weights as references."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr
from scipy.stats import gamma, multivariate_normal, norm, t
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, load_model, save_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import NUTS, Gamma, SpikeSlab
from bayesmkl.bemkl.inference.marginal import draw_duals, hypermodel_of, known_precisions
from bayesmkl.bemkl.inference.runs import Fit, sampling_advice
from bayesmkl.bemkl.models.binary import BinaryPriors, BinaryProblem
from bayesmkl.bemkl.models.multiclass import MulticlassPriors, MulticlassProblem
from bayesmkl.bemkl.models.multioutput import MultioutputPriors, MultioutputProblem
from bayesmkl.bemkl.models.regression import RegressionPriors, RegressionProblem
from bayesmkl.bemkl.reading.collapsed import log_prior_terms, log_student
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal import Marginal
from bayesmkl.marginal.evidence import ep_evidence
from bayesmkl.marginal.hyperposterior import Draws, draw_importance, evaluate, evaluate_slope
from bayesmkl.marginal.modes import find_mode
from bayesmkl.posterior import (
    diagnose,
    kernel_table,
    plot_elbo,
    plot_trace,
    sample_posterior,
    to_datatree,
)

N = 24
SHORT = Marginal(n_points=200, n_draws=300)
LEAST = Marginal(n_points=100, n_draws=100)
VIEWS = {"first": [0], "second": [1], "third": [2]}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3))
    return X, np.where(X[:, 0] + 0.4 * rng.normal(size=40) > 0.0, 1.0, -1.0)


@pytest.fixture(scope="module")
def fitted(data):
    return BEMKLClassifier(bank(), inference=SHORT, margin=0.0).fit(*data)


def bank():
    return KernelBank([Gaussian(width=1.5)], views=VIEWS)


def problem_of(kind, data, n_kernels=3, n_samples=N, margin=0.0):
    X, y = data[0][:n_samples], data[1][:n_samples]
    stack = DenseStack(np.stack([rbf_kernel(X[:, [m]], gamma=0.5) for m in range(n_kernels)]))
    number = y + 0.3 * X[:, 1]
    return {
        "binary": lambda: BinaryProblem(stack, None, y, priors(BinaryPriors, n_kernels), margin, 4.0),
        "classes": lambda: MulticlassProblem(
            stack, None, np.stack([y, -y]), priors(MulticlassPriors, n_kernels), margin, 4.0
        ),
        "regression": lambda: RegressionProblem(stack, None, number, priors(RegressionPriors, n_kernels)),
        "targets": lambda: MultioutputProblem(
            stack, None, np.stack([number, X[:, 1]]), priors(MultioutputPriors, n_kernels)
        ),
    }[kind]()


def priors(kind, n_kernels):
    return known_precisions(kind(intercept=Gamma(2.0, 3.0)), n_kernels)


@pytest.mark.parametrize("kind", ["binary", "classes", "regression", "targets"])
def test_gradients_equal_differences_and_the_mirror_image_is_the_same(data, kind, rng):
    problem = problem_of(kind, data, margin=0.5)
    model = hypermodel_of(problem, "ep")
    if kind in ("binary", "classes"):
        model = model._replace(evidence=functools.partial(ep_evidence, tol=1e-11))
    u, h = 0.7 * rng.normal(size=model.n_coordinates), 1e-5
    point, slope = evaluate_slope(model, u, None)
    differences = [
        (evaluate(model, u + h * d, None)[0].log_density - evaluate(model, u - h * d, None)[0].log_density)
        / (2.0 * h)
        for d in np.eye(len(u))
    ]
    np.testing.assert_allclose(slope, differences, atol=1e-6 * np.abs(slope).max())
    assert evaluate(model, model.mirror(u), None)[0].log_density == pytest.approx(
        point.log_density, abs=1e-10
    )
    if kind == "classes":  # the second output has the labels of the first, negated
        binary = hypermodel_of(problem_of("binary", data, margin=0.5), "ep")
        assert point.log_evidence == pytest.approx(2.0 * evaluate(binary, u, None)[0].log_evidence, abs=1e-6)


def covariance_of(problem, weights, alone):
    combined = np.tensordot(weights, problem.stack.kernels, 1)
    return combined, combined @ combined.T + 1.5 + alone * weights @ weights * np.eye(len(combined))


@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_evidence_of_labels_equals_monte_carlo(data, margin):
    problem, rng = problem_of("binary", data, n_samples=5, margin=margin), np.random.default_rng(0)
    model, u = hypermodel_of(problem, "ep"), np.array([0.8, -0.4, 0.3])
    weights, _ = model.values(u)
    np.testing.assert_allclose(weights, t(2.0, scale=3.0**-0.5).ppf(norm.cdf(u)))
    _, covariance = covariance_of(problem, weights, 0.25)
    scores = rng.multivariate_normal(np.zeros(5), covariance, size=200_000)
    likelihoods = ndtr(problem.y * scores - margin).prod(axis=1)
    error = likelihoods.std() / likelihoods.mean() / 200_000**0.5
    found = evaluate(model, u, None)[0].log_evidence
    assert found == pytest.approx(np.log(likelihoods.mean()), abs=5.0 * error + 0.01)


def test_evidence_of_targets_and_draws_given_weights_equal_closed_forms(data):
    problem = problem_of("regression", data)
    model, u = hypermodel_of(problem, "ep"), np.array([0.8, -0.4, 0.3, -1.2])
    weights, _ = model.values(u)
    combined, covariance = covariance_of(problem, weights, 0.0)
    covariance += np.exp(-1.2) * np.eye(N)
    point, (evidence,) = evaluate(model, u, None)
    expected = multivariate_normal(np.zeros(N), covariance).logpdf(problem.y)
    assert point.log_evidence == pytest.approx(expected, abs=1e-8)

    n_draws = 20_000
    dual, intercept = draw_duals(model.covariance, weights, evidence, n_draws, np.random.default_rng(0))
    both = np.column_stack([dual, intercept])
    design = np.column_stack([combined, np.full(N, 1.5**0.5)])  # of standard normal variables
    gain = np.linalg.solve(covariance, design).T
    scale = np.append(np.ones(N), 1.5**0.5)
    mean, cov = scale * (gain @ problem.y), (np.eye(N + 1) - gain @ design) * np.outer(scale, scale)
    assert (np.abs(both.mean(axis=0) - mean) < 5.0 * np.sqrt(np.diag(cov) / n_draws)).all()
    np.testing.assert_allclose(np.cov(both.T), cov, atol=0.06)


def test_prior_of_all_noise_and_its_split_are_those_of_both_precisions(data):
    """Of s² = 1/ε + e'e/υ, by integration over ε and by moments of draws of both."""
    own = priors(RegressionPriors, 3)._replace(intermediate=Gamma(1.5, 2.0), noise=Gamma(0.8, 0.5))
    problem = problem_of("regression", data)._replace(priors=own)
    model, u = hypermodel_of(problem, "ep"), np.array([0.8, -0.4, 0.3, 1.1])
    square, variance = (model.values(u)[0] ** 2).sum(), np.exp(1.1)

    def joint(log_noise):  # density of log ε and log s²
        noise = np.exp(log_noise)
        known = square / (variance - 1.0 / noise)
        by_log_variance = gamma(1.5, scale=0.5).pdf(known) * known**2 * variance / square
        return gamma(0.8, scale=2.0).pdf(noise) * noise * by_log_variance

    ends = -1.1 + 1e-9, 5.0
    total, log_mean = (quad(f, *ends)[0] for f in (joint, lambda x: x * joint(x)))
    prior = norm.logpdf(u[:3]).sum() + np.log(total) + 2.0 * np.log(2.0 * np.pi)
    assert model.log_prior(u)[0] == pytest.approx(prior, abs=1e-4)
    known, noise = model.draw_precisions(u, 20_000, np.random.default_rng(0))[..., 0].T
    np.testing.assert_allclose(1.0 / noise + square / known, variance)
    error = np.log(noise).std() / 20_000**0.5
    assert np.log(noise).mean() == pytest.approx(log_mean / total, abs=4.0 * error)


def test_precisions_that_are_nearly_known_are_drawn_themselves(data):
    own = priors(RegressionPriors, 3)._replace(intermediate=Gamma(1e6, 1e5))
    problem = problem_of("regression", data)._replace(priors=own)
    model, u = hypermodel_of(problem, "ep"), np.array([0.8, -0.4, 0.3, 2.3, 0.5])
    weights, noise = model.values(u)
    assert noise.item() ** 2 == pytest.approx(np.exp(-0.5) + weights @ weights * np.exp(-2.3))
    of_precisions = gamma(1e6, scale=1e-5).logpdf(np.exp(2.3)) + gamma(1.0).logpdf(np.exp(0.5)) + u[3:].sum()
    prior = norm.logpdf(u[:3]).sum() + of_precisions + 2.5 * np.log(2.0 * np.pi)
    assert model.log_prior(u)[0] == pytest.approx(prior, abs=1e-7)
    np.testing.assert_allclose(
        model.draw_precisions(u, 2, np.random.default_rng(0))[..., 0], [np.exp(u[3:])] * 2
    )


def test_one_kernel_equals_a_grid(data):
    problem = problem_of("binary", data, n_kernels=1)
    model = hypermodel_of(problem, "ep")
    grid = np.linspace(-6.0, 6.0, 41)
    logs = np.array([evaluate(model, np.array([u]), None)[0].log_density for u in grid])
    log_evidence = logsumexp(logs) + np.log(grid[1] - grid[0]) - 0.5 * np.log(2.0 * np.pi)
    drawn = draw_importance(model, find_mode(model), 200, np.random.default_rng(0))
    assert drawn.log_evidence == pytest.approx(log_evidence, abs=0.03)
    size = np.exp(logs - logsumexp(logs)) @ np.abs(grid)
    assert drawn.weights @ np.abs(drawn.coordinates[:, 0]) == pytest.approx(size, abs=0.05)
    assert drawn.pareto_k < 0.7
    model = BEMKLClassifier("precomputed", inference=LEAST).fit(problem.stack.kernels[0], problem.y)
    assert model.kernel_shares_ == pytest.approx([1.0])
    assert model.rhat_ != model.rhat_  # there are no chains


def test_fit_says_how_it_ended_and_what_matters(fitted, data):
    assert fitted.outcome_ is Outcome.WEIGHTED
    assert fitted.converged_
    assert fitted.pareto_k_ < 0.7
    assert 50.0 < fitted.ess_ <= 400.0
    assert fitted.n_iter_ == 300
    assert fitted.posterior_.dual.shape == (1, 300, 40)
    assert fitted.kernel_shares_[0] == fitted.kernel_shares_.max() > 0.5
    assert fitted.score(*data) > 0.85


def test_a_seed_fixes_the_draws_and_the_next_fit_forgets_them(data):
    X, y = data[0][:12, :1], data[1][:12]
    one, same = (BEMKLClassifier(KernelBank(["rbf"]), inference=LEAST).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.posterior_.dual, same.posterior_.dual)
    vb = same.set_params(inference="vb").fit(X, y)
    for name in ("log_evidence_", "pareto_k_", "ess_", "rhat_", "n_evaluations_"):
        assert hasattr(one, name)
        assert not hasattr(vb, name)


def test_posterior_tools_take_the_model_that_was_sampled(fitted, tmp_path):
    draws = fitted.posterior_.flat()
    assert np.abs(draws.sample_precision - 1.0).max() < 1e-3
    (problem,) = fitted._problems(fitted._training_stack(), with_gram=False)
    terms = log_prior_terms(problem, draws)
    np.testing.assert_allclose(terms["dual_coef"], norm.logpdf(draws.dual).sum(axis=1), rtol=1e-6)
    weights = t(2.0, scale=3.0**-0.5).logpdf(draws.kernel_weights).sum(axis=1)
    np.testing.assert_allclose(terms["kernel_weights"], weights)
    found = diagnose(fitted, n_draws=150, random_state=0)
    assert found["sampling"]["pareto_k"] == fitted.pareto_k_
    assert found.verdicts["sampling"] in ("good", "caution")
    table = kernel_table(fitted)
    assert ((table["share_lower"] >= 0.0) & (table["share_upper"] <= 1.0)).all()
    assert sample_posterior(fitted)["dual_coef"].shape == (300, 40)
    for plot, advice in ((plot_trace, "`pareto_k_` and `ess_`"), (plot_elbo, "`log_evidence_` is")):
        with pytest.raises(ValueError, match=advice):
            plot(fitted)
    tree = to_datatree(fitted)
    assert {"posterior", "log_likelihood", "log_prior", "posterior_predictive"} <= set(tree.children)
    save_model(fitted, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert loaded.inference == SHORT
    np.testing.assert_array_equal(loaded.posterior_.dual, fitted.posterior_.dual)


def test_precisions_that_are_known_make_normal_variables():
    x = np.linspace(-6.0, 6.0, 13)
    known = known_precisions(BinaryPriors(intercept=Gamma(2.0, 8.0)), 3)
    np.testing.assert_allclose(log_student(known.sample, x), norm.logpdf(x), atol=1e-5)
    np.testing.assert_allclose(log_student(known.intercept, x), norm(scale=2.0).logpdf(x), atol=1e-5)
    assert known.kernel == Gamma(1.0, 1.0 / 3.0)


@pytest.mark.parametrize("multiclass", ["shared", "one-versus-all"])
def test_several_classes(data, multiclass):
    X = data[0][:20]
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = BEMKLClassifier(bank(), inference=LEAST, multiclass=multiclass)
    with warnings.catch_warnings():  # 100 points are few for an estimate of k-hat
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert model.score(X, y) > 0.8
    assert np.shape(model.pareto_k_) == (() if multiclass == "shared" else (3,))
    assert diagnose(model, n_draws=100)["sampling"]


def test_regression_of_one_and_several_targets(data):
    X = data[0]
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1]]) + 0.1 * np.random.default_rng(0).normal(
        size=(40, 2)
    )
    one = BEMKLRegressor(bank(), inference=SHORT).fit(X[:30], Y[:30, 0])
    mean, std = one.predict(X[30:], return_std=True)
    assert (np.abs(mean - Y[30:, 0]) < 3.0 * std).all()
    assert one.kernel_shares_[0] > 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        both = BEMKLRegressor(bank(), inference=LEAST).fit(X[:20], Y[:20])
    assert both.posterior_.noise_precision.shape == (1, 100, 2)
    assert both.predict(X).shape == (40, 2)
    assert to_datatree(both).children


@pytest.mark.slow
def test_chains_by_nuts_agree_with_importance(fitted, data):
    nuts = Marginal(sampler="nuts", n_points=200, n_draws=400, n_chains=2, n_warmup=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BEMKLClassifier(bank(), inference=nuts, margin=0.0).fit(*data)
    assert model.rhat_ < 1.2
    assert np.isnan(model.pareto_k_)
    np.testing.assert_allclose(model.kernel_shares_, fitted.kernel_shares_, atol=0.1)


def test_draws_of_chains_follow_each_other(data, monkeypatch):
    def two_chains(model, mode, n_draws, n_chains, n_warmup, rng):
        coordinates = mode.coordinates + 0.1 * rng.normal(size=(n_draws, len(mode.coordinates)))
        points = tuple(evaluate(model, u, mode.point.sites)[0] for u in coordinates)
        return Draws(coordinates, np.full(n_draws, 1.0 / n_draws), points, np.nan, np.nan, 100.0, 1.0)

    monkeypatch.setattr("bayesmkl.marginal.chains.draw_chains", two_chains)
    options = Marginal(sampler="nuts", n_points=100, n_draws=200, n_chains=2)
    model = BEMKLClassifier(bank(), inference=options).fit(data[0][:20], data[1][:20])
    assert model.outcome_ is Outcome.MIXED
    weights = model.posterior_.kernel_weights
    assert weights.shape == (2, 100, 3)
    np.testing.assert_array_equal(weights[:, ::2], weights[:, 1::2])  # two draws of each of 50 points
    assert len(np.unique(weights[..., 0])) == 100
    assert "rhat" in str(diagnose(model, n_draws=100)["sampling"])


@pytest.mark.slow
def test_nuts_on_all_weights_has_the_same_posterior(data):
    known, X_new = Gamma(1e8, 1e8), np.random.default_rng(1).normal(size=(200, 3))
    given = {"sample_prior": known, "bias_prior": known, "kernel_prior": Gamma(1.0, 1.0 / 3.0)}
    nuts = NUTS(n_chains=2, n_warmup=500, n_draws=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exact = BEMKLClassifier(bank(), inference=nuts, margin=0.0, random_state=0, **given).fit(*data)
    model = BEMKLClassifier(bank(), inference="marginal", margin=0.0, random_state=0).fit(*data)
    np.testing.assert_allclose(model.kernel_shares_, exact.kernel_shares_, atol=0.04)
    np.testing.assert_allclose(model.kernel_shares_std_, exact.kernel_shares_std_, atol=0.04)
    np.testing.assert_allclose(model.predict_proba(X_new), exact.predict_proba(X_new), atol=0.04)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"sample_prior": Gamma(2.0, 1.0)}, r"`sample_prior` must .* mean 1, .* got Gamma\(2, 1\)"),
        ({"sample_prior": "sparse"}, r"`sample_prior` must have a concentration of at least 0.5"),
        ({"kernel_prior": SpikeSlab()}, r"needs inference=\"nuts\""),
        ({"nonnegative": True}, r"`nonnegative=True` needs inference=\"vb\""),
        ({"missing_views": "integrate"}, r"needs inference=\"vb\""),
        ({"inference": Marginal(n_points=5)}, r"`n_points` of `inference` must be a whole number >= 100"),
        ({"storage": "compressed"}, r"`storage` 'compressed' needs inference=\"vb\""),
    ],
)
def test_what_it_does_not_have_is_refused(data, params, error):
    with pytest.raises(ValueError, match=error):
        BEMKLClassifier(bank(), **{"inference": "marginal"} | params).fit(*data)


def test_classes_that_compete_and_unlabeled_samples_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match=r'`multiclass` "multinomial" needs inference="vb"'):
        BEMKLClassifier(bank(), inference="marginal", multiclass="multinomial").fit(X, np.arange(40) % 3)
    with pytest.raises(ValueError, match=r'unlabeled samples needs inference="vb"'):
        BEMKLClassifier(bank(), inference="marginal", unlabeled_label=0).fit(X, np.where(X[:, 2] > 1, 0, y))


OF_CHAINS = {"log_evidence": np.nan, "pareto_k": np.nan}  # which they do not have


@pytest.mark.parametrize(
    ("changed", "outcome", "advice"),
    [
        ({"pareto_k": 0.9}, Outcome.NOT_WEIGHTED, "k-hat is 0.90 .* Increase `n_points`"),
        ({"pareto_k": 1.2}, Outcome.NOT_WEIGHTED, r'k-hat is 1.20 .* sampler="nuts"'),
        ({"rhat": 1.3, **OF_CHAINS}, Outcome.NOT_MIXED, r"R-hat is 1.300 .* `n_warmup`"),
        ({"points": (None,)}, Outcome.WEIGHTED, r'evidence of 100 % .* approximation="laplace"'),
        ({}, Outcome.WEIGHTED, None),
    ],
)
def test_advice_names_the_remedy(changed, outcome, advice):
    class Point:
        converged = "points" not in changed

    points = Draws(np.zeros((1, 1)), np.ones(1), (Point(),), 0.0, 0.3, 200.0)
    points = points._replace(**{name: value for name, value in changed.items() if name != "points"})
    nothing = PosteriorDraws(np.zeros((1, 1, 1)), np.zeros((1, 1)), np.zeros((1, 1, 1)))
    fit = Fit(nothing, outcome, 1, points=points)
    found = sampling_advice([fit], Marginal())
    assert points.outcome is outcome
    if advice is None:
        assert found is None
        assert fit.converged
    else:
        assert not fit.converged
        assert found is not None
        with pytest.warns(UserWarning, match=advice):
            warnings.warn(found, stacklevel=1)
