"""Marginal inference of gates: closed forms, Monte Carlo, grids, and BEMKL without gates as references."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t, norm
from sklearn.exceptions import ConvergenceWarning

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl.bemkl import BEMKLLocalizedClassifier, BEMKLLocalizedRegressor, Gamma
from bayesmkl.bemkl.inference.local_evidence import local_evidence
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.inference.marginal import hypermodel_of, known_precisions
from bayesmkl.bemkl.inference.marginal_localized import local_model, run_marginal_localized
from bayesmkl.bemkl.models import localized
from bayesmkl.bemkl.models.binary import BinaryPriors, BinaryProblem
from bayesmkl.bemkl.models.localized import LocalizedPriors, LocalizedProblem
from bayesmkl.bemkl.models.regression import RegressionPriors, RegressionProblem
from bayesmkl.bemkl.reading.local_weights import score_of_local_draws, standardized
from bayesmkl.discriminative import plot_gates
from bayesmkl.kernels import Gaussian
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.marginal import Marginal
from bayesmkl.marginal.hyperposterior import evaluate
from bayesmkl.posterior import diagnose, kernel_table, to_datatree, view_table

N, P, D = 12, 2, 3
PRIORS = LocalizedPriors(
    Gamma(1.3, 1.3), Gamma(0.6, 2.1), Gamma(1.2, 0.4), Gamma(1.4, 0.9), Gamma(3.1, 1.7), Gamma(0.8, 0.3)
)
SHORT = Marginal(n_points=160, n_draws=200, n_warmup=40)
KINDS = pytest.mark.parametrize("kind", ["labels", "target"])


def problem_of(kind, n_features=D, n_samples=N, n_kernels=P, margin=0.4, sigma=0.7):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_kernels, n_samples))
    stack = DenseStack(np.exp(-0.5 * (X[:, :, None] - X[:, None]) ** 2))
    features = np.hstack([np.ones((n_samples, 1)), rng.normal(size=(n_samples, n_features - 1))])
    score = X[0] * (1.0 + features[:, -1]) + 0.3 * rng.normal(size=n_samples)
    if kind == "target":
        return LocalizedProblem(stack, stack.gram(), score, features, PRIORS)
    return LocalizedProblem(
        stack, stack.gram(), np.where(score > 0.0, 1.0, -1.0), features, PRIORS, margin, sigma**-2
    )


def moments_of(problem, weights, precisions):
    """Return the prior covariance of the scores, with the noise of one."""
    gates = weights @ problem.features.T
    mixed = sum(e[:, None] * kernel for e, kernel in zip(gates, problem.stack.each(), strict=True))
    intercept = PRIORS.intercept.rate / PRIORS.intercept.concentration
    noise = 1.0 / precisions[1] + (gates**2).sum(axis=0) / precisions[0]
    return mixed @ mixed.T + intercept + np.diag(noise), mixed


def fit_variational(problem):
    noise = np.zeros(problem.y.shape)
    options = LoopOptions(max_iter=200, tol=1e-4)
    return maximize_elbo(localized, problem, localized.init(problem, noise), options).state


# ------------------------------------------------------------------------------------------------------- evidence


@KINDS
def test_gradient_is_that_of_finite_differences(kind):
    problem = problem_of(kind)
    model, rng = local_model(problem), np.random.default_rng(0)
    u, step = rng.normal(size=(3, model.prior.n_coordinates)), 1e-5
    height, slope, found = model.evaluate(u, tol=1e-12)
    assert found.converged.all()
    for k in range(u.shape[1]):
        shift = step * np.eye(u.shape[1])[k]
        above, below = (model.evaluate(u + sign * shift, tol=1e-12)[0] for sign in (1.0, -1.0))
        np.testing.assert_allclose((above - below) / (2.0 * step), slope[:, k], rtol=1e-6, atol=1e-6)
    assert np.isfinite(height).all()


def test_evidence_of_a_target_is_its_normal_density():
    problem, rng = problem_of("target"), np.random.default_rng(0)
    weights, precisions = rng.normal(size=(2, P, D)), np.array([[0.8, 30.0], [5.0, 2.0]])
    found = local_evidence(local_model(problem).process, weights, precisions)
    for k in range(2):
        cov, _ = moments_of(problem, weights[k], precisions[k])
        expected = multivariate_normal.logpdf(problem.y, np.zeros(N), cov)
        np.testing.assert_allclose(found.log_evidence[k], expected, rtol=1e-8)


def test_evidence_of_labels_is_that_of_monte_carlo():
    problem, rng = problem_of("labels", n_samples=8), np.random.default_rng(0)
    weights, precisions = 0.7 * rng.normal(size=(P, D)), np.array([problem.intermediate_precision, 1.0])
    found = local_evidence(local_model(problem).process, weights[None], precisions[None])
    cov, mixed = moments_of(problem, weights, precisions)
    noise = np.diag(cov - mixed @ mixed.T) - PRIORS.intercept.rate / PRIORS.intercept.concentration
    n = 200_000
    std = np.sqrt(PRIORS.intercept.rate / PRIORS.intercept.concentration)
    score = rng.standard_normal((n, 8)) @ mixed.T + std * rng.standard_normal((n, 1))
    log_p = norm.logcdf((problem.y * score - problem.margin) / np.sqrt(noise)).sum(axis=1)
    expected = logsumexp(log_p) - np.log(n)
    error = np.std(np.exp(log_p - expected)) / np.sqrt(n)
    assert error < 0.01
    np.testing.assert_allclose(found.log_evidence[0], expected, atol=4.0 * error + 0.02)  # what EP is off


@pytest.mark.parametrize("kind", ["labels", "target"])
def test_degenerate_one_feature_is_the_marginal_form_of_bemkl(kind):
    problem = problem_of(kind, n_features=1)
    model, rng = local_model(problem), np.random.default_rng(0)
    if kind == "labels":
        priors = BinaryPriors(*PRIORS[:3])
        plain = BinaryProblem(
            problem.stack, problem.gram, problem.y, priors, problem.margin, problem.intermediate_precision
        )
    else:
        priors = RegressionPriors(*PRIORS[:3], *PRIORS[4:])
        plain = RegressionProblem(problem.stack, problem.gram, problem.y, priors)
    reference = hypermodel_of(plain._replace(priors=known_precisions(priors, P)), "ep")
    for _ in range(3):
        u = rng.normal(size=model.prior.n_coordinates)
        _, _, found = model.evaluate(u[None], tol=1e-12)
        if kind == "labels":
            point, _ = evaluate(reference, u, None, tol=1e-12)
        else:  # the reference has the logarithm of the variance of all noise in the place of log υ and log ε
            weights = model.prior.weights(u[None])[0][0, :, 0]
            total = np.exp(-u[-1]) + weights @ weights * np.exp(-u[-2])
            point, _ = evaluate(reference, np.append(u[:P], np.log(total)), None)
        np.testing.assert_allclose(found.log_evidence[0], point.log_evidence, rtol=1e-8)


def test_prior_of_the_gates_is_their_joint_student_t():
    problem, rng = problem_of("labels"), np.random.default_rng(0)
    prior = local_model(problem).prior
    u = rng.normal(size=(4, prior.n_coordinates)) * np.array([[0.05], [0.5], [1.0], [2.5]])
    weights, pull = prior.weights(u)
    rows = np.eye(P * D).reshape(P * D, 1, P, D)
    log_density, _ = prior.log_density(u)
    known = known_precisions(PRIORS, P)
    for k in range(len(u)):
        jacobian = np.array([prior.weights(u[[k]])[1](row)[0] for row in rows])
        found = log_density[k] - np.linalg.slogdet(jacobian)[1]
        expected = 0.0
        for c, r, own in (
            (*known.kernel, weights[k, :, :1]),
            (PRIORS.gate.concentration, PRIORS.gate.rate / P, weights[k, :, 1:]),
        ):
            law = multivariate_t(np.zeros(own.shape[1]), r / c * np.eye(own.shape[1]), df=2.0 * c)
            expected += np.sum(law.logpdf(own.reshape(P, -1)))
        np.testing.assert_allclose(found, expected, rtol=1e-8)
        np.testing.assert_allclose(prior.coordinates(weights[k], ()), u[k], rtol=1e-7)
    assert pull(rows[0].repeat(4, axis=0)).shape == u.shape


# ----------------------------------------------------------------------------------------------------------- draws


@pytest.mark.parametrize(("n_kernels", "n_features"), [(2, 1), (1, 2)])
def test_chains_have_the_posterior_of_a_grid(n_kernels, n_features):
    problem = problem_of("labels", n_features, n_samples=10, n_kernels=n_kernels)
    model, nodes = local_model(problem), np.linspace(-6.0, 6.0, 48)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    height = model.evaluate(grid, tol=1e-4)[0]
    mass = np.exp(height - logsumexp(height))
    options = Marginal(n_points=3000, n_draws=100, n_chains=30, n_warmup=40)
    fit = run_marginal_localized(problem, fit_variational(problem), options, np.random.default_rng(0))
    assert fit.points.rhat < 1.05
    u = fit.points.coordinates
    for values, statistic in (
        ((grid[:, 0] * grid[:, 1] > 0.0) @ mass, u[:, 0] * u[:, 1] > 0.0),
        (np.abs(grid[:, 0]) @ mass, np.abs(u[:, 0])),
        (np.abs(grid[:, 1]) @ mass, np.abs(u[:, 1])),
    ):
        np.testing.assert_allclose(statistic.mean(), values, atol=0.04)


def test_sample_weights_given_gates_are_those_of_a_normal_law():
    problem = problem_of("target")
    options = Marginal(n_points=100, n_draws=40_000, n_chains=1, n_warmup=20)
    model = local_model(problem)
    fit = run_marginal_localized(problem, fit_variational(problem), options, np.random.default_rng(0))
    draws, features = fit.posterior, problem.features
    weights = draws.weights[:100]  # all of the first point, of 400 at most
    np.testing.assert_array_equal(weights, np.broadcast_to(weights[0], weights.shape))
    np.testing.assert_allclose(((draws.weights @ features.T) ** 2).mean(axis=(1, 2)), 1.0)
    # the scale that was divided by is in the sample weights, whose prior variance is its square
    coordinates = fit.points.coordinates[0]
    raw = model.prior.weights(coordinates[None])[0][0]
    scale = np.sqrt(((raw @ features.T) ** 2).mean())
    gates, kernels = features @ raw.T, list(problem.stack.each())
    mixed = sum(e[:, None] * kernel for e, kernel in zip(gates.T, kernels, strict=True))
    noise = draws.noise_std[0] ** 2 + (draws.intermediate_std[0] / scale) ** 2 * (gates**2).sum(axis=1)
    intercept = PRIORS.intercept.rate / PRIORS.intercept.concentration
    cov = mixed @ mixed.T + intercept + np.diag(noise)
    gain = mixed.T @ np.linalg.inv(cov)
    mean, spread = gain @ problem.y, np.sqrt(np.diag(np.eye(N) - gain @ mixed))
    sign = np.sign(raw[0] @ weights[0][0])
    found = sign * draws.dual[:100] / scale
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=5.0 * spread.max() / 10.0)
    np.testing.assert_allclose(found.std(axis=0), spread, rtol=0.35)
    # and scores are the same as before
    score = score_of_local_draws(
        problem.stack, features, draws._replace(**{k: v[:1] for k, v in draws._asdict().items()})
    )
    expected = mixed @ found[0] + draws.intercept[0]
    np.testing.assert_allclose(score.means[0], expected, rtol=1e-8)
    np.testing.assert_allclose(score.scales[0] ** 2, noise, rtol=1e-8)


def test_standardizing_keeps_scores():
    problem = problem_of("target")
    fit = run_marginal_localized(problem, fit_variational(problem), SHORT, np.random.default_rng(0))
    draws = fit.posterior
    turned = draws._replace(
        weights=-3.0 * draws.weights, dual=-draws.dual / 3.0, intermediate_std=draws.intermediate_std / 3.0
    )
    again = standardized(turned, problem.features)
    for name, expected in draws._asdict().items():
        np.testing.assert_allclose(getattr(again, name), expected, rtol=1e-10)


# ------------------------------------------------------------------------------------------------------ estimators


def fitted(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short chains
        return model.fit(*data)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(90, 2)), rng.uniform(-1.0, 1.0, size=90)]
    return X, np.where(X[:, 2] > 0.0, X[:, 0], X[:, 1]) + 0.2 * rng.normal(size=90)


@pytest.fixture(scope="module")
def models(data):
    X, y = data
    settings = {"gate_columns": [2], "gate_width": 1.0, "inference": SHORT, "tol": 1e-4}
    bank = KernelBank([Gaussian(width=2)], views={"right": 0, "left": 1})
    return (
        fitted(BEMKLLocalizedClassifier(bank, **settings), X[:50], y[:50] > 0.0),
        fitted(BEMKLLocalizedRegressor(bank, **settings), X[:50], 10.0 * y[:50] + 3.0),
    )


def test_predictions_are_averages_over_draws(data, models):
    X, y = data
    classifier, regressor = models
    assert classifier.score(X[50:], y[50:] > 0.0) > 0.8
    assert regressor.score(X[50:], 10.0 * y[50:] + 3.0) > 0.6
    mean, std = regressor.predict(X[50:], return_std=True)
    assert 0.8 < (np.abs(mean - 10.0 * y[50:] - 3.0) < 1.88 * std).mean() <= 1.0
    draws, new = classifier.posterior_, X[50:53]
    features = classifier.gate_basis_.features(new[:, 2:])
    gates = draws.gates(features)
    outputs = np.einsum("ijm,nj->nim", classifier.kernel_bank_.transform(new), draws.dual)
    score = (gates * outputs).sum(axis=2) + draws.intercept[:, None]
    scale = np.sqrt(1.0 + draws.intermediate_std[:, None] ** 2 * (gates**2).sum(axis=2))
    expected = norm.cdf(score / scale).mean(axis=0)
    np.testing.assert_allclose(classifier.predict_proba(new)[:, 1], expected, rtol=1e-10)
    np.testing.assert_allclose(classifier.predict_latent(new), score.mean(axis=0), rtol=1e-10)


def test_gates_and_their_uncertainty_are_those_of_draws(data, models):
    X, _ = data
    for model in models:
        drawn = model.posterior_.gates(model.gate_basis_.features(X[:7, 2:]))
        mean, std = model.gates(X[:7], return_std=True)
        np.testing.assert_allclose(mean, drawn.mean(axis=0), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(std, drawn.std(axis=0, ddof=1), rtol=1e-6)
        assert (model.locality_interval_[:, 0] < model.locality_).all()
        np.testing.assert_allclose(model.kernel_shares_.sum(), 1.0)
        assert model.kernel_weights_.sum() > 0.0
        np.testing.assert_allclose(model.kernel_weights_, model.gates().mean(axis=0), rtol=1e-8)
        assert model.outcome_.name in ("MIXED", "NOT_MIXED")
        assert np.isnan(model.pareto_k_)
        assert not hasattr(model, "elbo_")
    right = X[:50, 2] > 0.3
    gates = models[1].gates()
    assert gates[right, 0].mean() > gates[right, 1].mean()


def test_files_trees_and_plots_have_the_draws(data, models, tmp_path):
    X, _ = data
    for k, model in enumerate(models):
        save_model(model, tmp_path / f"{k}")
        np.testing.assert_array_equal(load_model(tmp_path / f"{k}").gates(X), model.gates(X))
        tree = to_datatree(model)
        gates = tree["posterior/gates"]
        assert gates.sizes == {"chain": 4, "draw": 50, "obs_id": 50, "kernel": 2}
        np.testing.assert_allclose(gates.mean(("chain", "draw")), model.gates(), rtol=1e-8, atol=1e-12)
        assert tree.attrs["inference"] == "marginal"
        assert tree.attrs["rhat"] == model.rhat_
        assert to_datatree(model, 10)["posterior/locality"].sizes["draw"] == 10
        assert "too narrow" not in plot_gates(model).get_title(loc="left")


def test_tables_and_diagnoses_are_those_of_draws(data, models):
    X, y = data
    for model, target in zip(models, (y > 0.0, 10.0 * y + 3.0), strict=True):
        draws, features = model.posterior_, model.gate_basis_.features(model.gate_features_)
        gates = draws.gates(features)
        locality = gates.var(axis=1) / (gates**2).mean(axis=1)
        table = kernel_table(model, ci_prob=0.8).set_index("kernel").loc[list(model.kernel_names_)]
        np.testing.assert_allclose(table["locality"], locality.mean(axis=0), rtol=1e-8)
        ends = np.quantile(locality, [0.1, 0.9], axis=0)
        np.testing.assert_allclose(table[["locality_lower", "locality_upper"]].T, ends, rtol=1e-8)
        ends = np.quantile(draws.weights[:, :, 0], [0.1, 0.9], axis=0)
        np.testing.assert_allclose(table[["weight_lower", "weight_upper"]].T, ends, rtol=1e-8)
        views = view_table(model, ci_prob=0.8).set_index("view").loc[["right", "left"]]  # of one kernel each
        for name in ("share", "share_std", "share_lower", "share_upper"):
            np.testing.assert_allclose(views[name], table[name], rtol=1e-8)
        found = diagnose(model, X[50:], target[50:])
        assert list(found) == ["sampling", "gates", "calibration"]
        assert found["sampling"]["rhat"] == model.rhat_
        assert (found.verdicts["sampling"] == "good") == model.converged_
        assert found["gates"]["elbo_gain"] == model.elbo_gain_
        assert found["calibration"]["n_samples"] == 40
        assert diagnose(model).verdicts["calibration"] == "skipped"
    coverage = found["calibration"]["coverage"][0.94]
    assert coverage["lower"] < coverage["covered"] <= coverage["upper"]
    score = np.exp(-found["calibration"]["log_loss"])  # of the mixture of normal laws, in units of the target
    mean, std = models[1].predict(X[50:], return_std=True)
    expected = np.exp(norm.logpdf(target[50:], mean, std).mean())
    np.testing.assert_allclose(score, expected, rtol=0.1)


def test_rounds_end_when_chains_agree():
    problem = problem_of("target")
    options = Marginal(n_points=100, n_draws=100, n_warmup=10)  # 25 points of each chain are too few
    found = run_marginal_localized(
        problem, fit_variational(problem), options, np.random.default_rng(0)
    ).points
    assert len(found.coordinates) in (200, 300, 400)
    assert found.outcome.converged or len(found.coordinates) == 400
    assert len(found.points) == len(found.weights) == len(found.coordinates)


def test_chains_that_disagree_are_told():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(20, 2)), rng.uniform(size=20)]
    model = BEMKLLocalizedRegressor(
        KernelBank([Gaussian(width=2)], views={"one": 0, "two": 1}),
        gate_columns=[2],
        gate_width=1.0,
        inference=Marginal(n_points=100, n_draws=100, n_warmup=1),
        tol=1e-3,
    )
    with pytest.warns(ConvergenceWarning, match="before the chains of its kernel weights agreed"):
        model.fit(X, X[:, 0])
    assert not model.converged_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"inference": Marginal(approximation="laplace")},
            "`approximation` of `inference` must be 'ep' for gates",
        ),
        ({"inference": "nuts"}, "`inference` must be one of 'vb', 'marginal'"),
        ({"inference": "marginal", "sample_prior": Gamma(2.0, 1.0)}, "`sample_prior` must be a Gamma with"),
        (
            {"inference": "marginal", "gate_prior": "sparse"},
            "`gate_prior` must have a concentration of at least",
        ),
    ],
)
def test_invalid_options(data, parameters, message):
    X, y = data
    bank = KernelBank([Gaussian(width=2)], views={"right": 0, "left": 1})
    model = BEMKLLocalizedRegressor(bank, gate_columns=[2], gate_width=1.0, tol=1e-2, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:20], y[:20])


def test_several_classes_have_chains_of_their_own(data):
    X, y = data
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    bank = KernelBank([Gaussian(width=2)], views={"right": 0, "left": 1})
    model = BEMKLLocalizedClassifier(
        bank,
        gate_columns=[2],
        gate_width=1.0,
        tol=1e-3,
        inference=Marginal(n_points=100, n_draws=100, n_warmup=30),
    )
    fitted(model, X[:50], labels[:50])
    assert model.gates(X[:5]).shape == (3, 5, 2)
    assert model.rhat_.shape == (3,)
    np.testing.assert_allclose(model.predict_proba(X[50:]).sum(axis=1), 1.0)
    tree = to_datatree(model)
    assert tree["posterior/gates"].dims == ("chain", "draw", "class", "obs_id", "kernel")
    assert tree["posterior/gates"].sizes["draw"] == 25
    assert model.score(X[50:], labels[50:]) > 0.5
