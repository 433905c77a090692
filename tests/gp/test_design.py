"""Covariates and groups beside the kernels: closed forms, residual likelihood, simulation, the explicit program."""

from __future__ import annotations

import jax
import numpy as np
import numpyro
import pandas as pd
import pytest
from gp.problems import kernels, numbers
from numpyro.infer import Predictive
from scipy import linalg, optimize, stats

from bayesmkl import GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import BEMKLRegressor
from bayesmkl.gp import (
    Design,
    GPMKLOrdinalClassifier,
    GPMKLSurvival,
    HalfT,
    LogNormal,
    Marginal,
)
from bayesmkl.gp.covariances import Additive
from bayesmkl.gp.effects import DesignRows, Effects
from bayesmkl.gp.evidence import exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel
from bayesmkl.gp.hyperpriors import DirichletShares, ParameterPriors, WithDesign
from bayesmkl.gp.program import explicit_program
from bayesmkl.gp.reading import PriorParts, draw_normal, draw_scores
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Gaussian
from bayesmkl.persistence import load_model, save_model
from bayesmkl.posterior import contrast, diagnose, effect_table, relevance, to_datatree

N = 60
FEW = Marginal(n_points=100, n_draws=1000)
WIDE = 300.0  # a flat prior of fixed effects, as far as rounding lets it be
BANK = KernelBank(["rbf"], views="each", normalize="center")


def effects_of(rng, n, covariate_std=3.0):
    """Two covariates, five sites, and a slope of the first covariate for each."""
    z, site = rng.normal(size=(n, 2)), rng.integers(0, 5, size=n)
    levels = (site[:, None] == np.arange(5)).astype(float)
    basis = np.column_stack([z, levels, levels * z[:, :1]])
    return Effects.of(basis, covariate_std, np.repeat([-1, 0, 1], [2, 5, 5])), site


@pytest.fixture(scope="module")
def table():
    """A view that matters, one that does not, a covariate, and sites that say more than either."""
    rng = np.random.default_rng(3)
    site = rng.integers(0, 6, size=N)
    X = rng.normal(size=(N, 2)) + 0.7 * np.sin(site)[:, None]
    age = rng.normal(50.0, 10.0, size=N)
    y = 5.0 + np.sin(2.0 * X[:, 0]) + 0.08 * age + 3.0 * np.cos(2.0 * site) + 0.3 * rng.normal(size=N)
    frame = pd.DataFrame({"signal": X[:, 0], "noise": X[:, 1], "age": age, "site": site})
    return frame, y


@pytest.fixture(scope="module")
def fitted(table):
    frame, y = table
    design = Design(covariate_columns="age", group_columns="site")
    return GPMKLRegressor(BANK, design=design, inference=FEW).fit(frame, y)


# --------------------------------------------------------------------------------------------------- the mathematics


def test_the_evidence_is_the_density_of_a_linear_mixed_model(rng):
    X, stack = kernels(rng, 30)
    y = numbers(rng, X)
    effects, site = effects_of(rng, 30)
    weights, std = np.array([0.8, 0.3, 0.5]), np.array([1.3, 0.4])
    units = np.array([0.9, 1.2, 0.7])
    covariance = Additive(stack, units, 2.0, effects)
    found = exact_evidence(Gaussian(), y, covariance.matrix(np.append(weights, std)), np.array([0.3]))
    z = effects.basis[:, :2]
    same = (site[:, None] == site).astype(float)
    expected = np.einsum("m,mij->ij", weights**2 / units, stack.columns(slice(None))) + 4.0
    expected += 9.0 * z @ z.T + 1.3**2 * same + 0.4**2 * same * np.outer(z[:, 0], z[:, 0])
    law = stats.multivariate_normal(np.zeros(30), expected + 0.09 * np.eye(30))
    np.testing.assert_allclose(found.log_evidence, law.logpdf(y), rtol=1e-10)


def test_the_gradient_is_that_of_finite_differences(rng):
    _, stack = kernels(rng, 25)
    covariance = Additive(stack, np.ones(3), 2.0, effects_of(rng, 25)[0])
    adjoint = rng.normal(size=(25, 25))
    adjoint += adjoint.T
    at = np.array([0.8, 0.3, 0.5, 1.3, 0.4])
    steps = 1e-6 * np.eye(5)
    slopes = [np.vdot(adjoint, covariance.matrix(at + s) - covariance.matrix(at - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(covariance.pull(at, adjoint), slopes, rtol=1e-7)
    prior = WithDesign(DirichletShares(), HalfT(4.0, 1.0), 2)
    u, gradient = rng.normal(size=6), rng.normal(size=5)
    moves = [(prior.weights(u + s).values - prior.weights(u - s).values) / 2e-6 for s in 1e-6 * np.eye(6)]
    np.testing.assert_allclose(prior.weights(u).pull(gradient), np.array(moves) @ gradient, rtol=1e-6)
    np.testing.assert_allclose(prior.weights(u).values[3:], HalfT(4.0, 1.0).weights(u[4:]).values)


def largest_evidence(y, effects):
    """Return standard deviations of terms and noise at which the evidence is largest, kernels without weight."""
    covariance = Additive(DenseStack(np.eye(len(y))[None]), np.ones(1), WIDE, effects)

    def negative(log_std):
        std = np.exp(log_std)
        matrix = covariance.matrix(np.concatenate([[0.0], std[:-1]]))
        found = exact_evidence(Gaussian(), y, matrix, std[-1:])
        slope = covariance.pull(np.concatenate([[0.0], std[:-1]]), found.by_covariance())[1:]
        return -found.log_evidence, -np.concatenate([slope, found.by_parameters]) * std

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500}
    start = np.zeros(effects.n_terms + 1)
    return np.exp(optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options).x)


def test_variance_components_of_balanced_groups_are_those_of_the_analysis_of_variance(rng):
    n_groups, size = 8, 6
    levels = np.repeat(np.eye(n_groups), size, axis=0)
    y = levels @ rng.normal(scale=2.0, size=n_groups) + rng.normal(size=n_groups * size)
    by_group = y.reshape(n_groups, size)
    within = by_group.var(axis=1, ddof=1).mean()
    between = (size * by_group.mean(axis=1).var(ddof=1) - within) / size
    found = largest_evidence(y, Effects.of(levels, WIDE, np.zeros(n_groups, int)))
    np.testing.assert_allclose(found**2, [between, within], rtol=1e-4)


def test_variance_components_maximize_the_residual_likelihood(rng):
    """The likelihood of error contrasts, which no fixed effect moves (Patterson and Thompson 1971)."""
    n = 70
    effects, _ = effects_of(rng, n, covariate_std=WIDE)
    coefficients = np.concatenate([[1.0, -2.0], 1.5 * rng.normal(size=5), 0.8 * rng.normal(size=5)])
    y = 3.0 + effects.basis @ coefficients + 0.7 * rng.normal(size=n)
    contrasts = linalg.null_space(np.column_stack([np.ones(n), effects.basis[:, :2]]).T)
    blocks = [effects.basis[:, effects.term == t] for t in (0, 1)]

    def negative(log_std):
        s, t, noise = np.exp(2.0 * log_std)
        total = s * blocks[0] @ blocks[0].T + t * blocks[1] @ blocks[1].T + noise * np.eye(n)
        within = contrasts.T @ total @ contrasts
        return -stats.multivariate_normal(np.zeros(len(within)), within).logpdf(contrasts.T @ y)

    options = {"xatol": 1e-8, "fatol": 1e-11, "maxiter": 2000}
    expected = np.exp(optimize.minimize(negative, np.zeros(3), method="Nelder-Mead", options=options).x)
    np.testing.assert_allclose(largest_evidence(y, effects) ** 2, expected**2, rtol=1e-4)


def test_draws_of_coefficients_have_the_moments_of_bayesian_regression(rng):
    X, stack = kernels(rng, 30)
    y = numbers(rng, X)
    effects, _ = effects_of(rng, 30)
    covariance, weights = Additive(stack, np.ones(3), 2.0, effects), np.array([0.4, 0.3, 0.5, 1.3, 0.4])
    found = exact_evidence(Gaussian(), y, covariance.matrix(weights), np.array([0.3]))
    prior = PriorParts(covariance, 6000, 1, rng).total(weights[None], np.zeros(6000, dtype=int))[:, 0]
    matrix = covariance.matrix(weights)
    normal = draw_normal(covariance, prior.shape, rng)
    _, _, scores, drawn = draw_scores(
        covariance, weights, found.posterior, found.sites, matrix, prior, normal
    )
    total = covariance.matrix(weights) + 0.09 * np.eye(30)
    variance = effects.stds(weights[3:]) ** 2
    gain = np.linalg.solve(total, effects.basis * variance).T
    mean, cov = gain @ y, np.diag(variance) - gain @ (effects.basis * variance)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5.0 * np.sqrt(cov.diagonal() / 6000).max())
    np.testing.assert_allclose(np.cov(drawn.T), cov, atol=0.07 * cov.diagonal().max())
    np.testing.assert_allclose(scores.mean(axis=0), found.posterior.mean, atol=0.03)
    np.testing.assert_allclose(variance * (found.posterior.dual @ effects.basis), mean, atol=1e-10)


@pytest.mark.heavy
def test_the_explicit_program_has_the_covariance(rng):
    """Of training scores and of those at new rows, a level of which is in no training sample."""
    n, n_draws = 12, 40_000
    _, stack = kernels(rng, n + 3)
    kernel = stack.columns(slice(None))
    effects, _ = effects_of(rng, n)
    units, weights = np.array([0.9, 1.2, 0.7]), np.array([0.4, 0.3, 0.5, 1.3, 0.4])
    covariance = Additive(DenseStack(kernel[:, :n, :n].copy()), units, 1.5, effects)
    new = DesignRows(rng.normal(size=(3, 12)), np.array([[0.0, 0.0], [1.0, 0.5], [0.0, 0.0]]))
    prior = WithDesign(HalfT(), HalfT(), 2)
    model = Hypermodel(
        covariance, Gaussian(), np.zeros((1, n)), prior, ParameterPriors(Gaussian().priors), exact_evidence
    )
    rows, diagonal = kernel[:, n:, :n], np.einsum("mii->mi", kernel[:, n:, n:])
    program = explicit_program(model, rows, diagonal, new)
    known = {"kernel_weights": weights[:3], "group_std": weights[3:], "noise_std": np.array(0.3)}
    run = Predictive(
        numpyro.handlers.condition(program.model, known),
        num_samples=n_draws,
        return_sites=["score", "score_new"],
    )
    drawn = run(jax.random.key(0), **{k: v for k, v in (program.data | program.new).items() if k != "y"})
    both = np.concatenate([drawn["score"], drawn["score_new"]], axis=1)
    cross = covariance.cross(DenseStack(rows), weights[:3], weights[:3]) + 1.5**2
    cross += effects.cross(new, weights[3:])
    own = covariance.variance(DenseStack(rows), diagonal, weights[:3], weights) + 1.5**2
    own += effects.variance(new, weights[3:])
    empirical = both.T @ both / n_draws
    slack = 0.03 * empirical.diagonal().max()
    np.testing.assert_allclose(empirical[:n, :n], covariance.matrix(weights), atol=slack)
    np.testing.assert_allclose(empirical[n:, :n], cross, atol=slack)
    np.testing.assert_allclose(empirical.diagonal()[n:], own, rtol=0.03)


# --------------------------------------------------------------------------------------------------- the estimators


def test_moments_at_new_rows_are_those_of_the_regression_at_every_point(fitted, table):
    frame, _ = table
    rows = frame.iloc[:4].assign(site=[0, 3, 99, 5])
    model, draws, design = fitted, fitted.posterior_, fitted.design_
    model.posterior_ = draws._replace(predictive=np.empty(0))  # of all points
    found = model._moments(rows)
    model.posterior_ = draws
    X, new = np.asarray(frame, dtype=float), np.asarray(rows, dtype=float)
    bank = model.kernel_bank_
    kernel, (cross, own) = bank.train_stack(), bank.rows_and_diagonal(new)
    age = [(A[:, 2] - X[:, 2].mean()) / X[:, 2].std() for A in (X, new)]
    units = np.array([np.trace(K) / N - K.mean() for K in kernel])
    for at in (0, len(draws.kernel_weights) - 1):
        w, s, noise = (
            draws.kernel_weights[at] ** 2 / units,
            draws.group_std[at, 0],
            draws.parameters[at, 0, 0],
        )
        total = np.tensordot(w, kernel, 1) + 9.0 + 9.0 * np.outer(age[0], age[0])
        total += s**2 * (X[:, 3:] == X[:, 3]) + noise**2 * np.eye(N)
        c = np.tensordot(w, cross, 1) + 9.0 + 9.0 * np.outer(age[1], age[0]) + s**2 * (new[:, 3:] == X[:, 3])
        np.testing.assert_allclose(found.mean[at, 0], c @ np.linalg.solve(total, model.target_), atol=1e-7)
        prior = w @ own + 9.0 + 9.0 * age[1] ** 2 + s**2
        expected = prior - np.einsum("ij,ji->i", c, np.linalg.solve(total, c.T))
        np.testing.assert_allclose(found.variance[at, 0], expected, atol=1e-7)
    assert (design.groups, design.labels) == (("site",), ((0, 1, 2, 3, 4, 5),))
    mean = model.y_mean_ + model.y_scale_ * np.tensordot(found.probability, found.mean[:, 0], 1)
    np.testing.assert_allclose(model.predict(rows), mean, atol=1e-8)


def test_effects_are_found_and_shares_are_of_the_rest(fitted, table):
    frame, y = table
    rows = effect_table(fitted).set_index("effect")
    age, site = rows.loc["age"], rows.loc["site"]
    assert age["lower"] < 0.08 < age["upper"] < age["lower"] + 0.04
    assert 1.0 < site["lower"] < site["upper"] < 6.0
    assert rows["kind"].tolist() == ["covariate", "group"]
    np.testing.assert_array_equal(rows["prob_positive"], [1.0, np.nan])
    assert fitted.kernel_names_[fitted.kernel_shares_ > 0.9].tolist() == ["rbf · signal"]
    levels = effect_table(fitted, levels=True)
    truth = 3.0 * np.cos(2.0 * np.arange(6))
    inside = (levels["lower"] < truth - truth.mean()) & (truth - truth.mean() < levels["upper"])
    assert inside.sum() >= 5
    assert levels["n_samples"].tolist() == np.bincount(frame["site"]).tolist()
    draws = fitted.posterior_.effects[:, 0, 0] * fitted.y_scale_ / frame["age"].std(ddof=0)
    np.testing.assert_allclose(age["lower"], np.quantile(draws, 0.03))
    plain = GPMKLRegressor(BANK, inference=FEW).fit(frame[["signal", "noise"]], y)
    assert plain.noise_std_ > 3.0 * fitted.noise_std_
    assert fitted.elpd_i_.sum() > plain.elpd_i_.sum() + 30.0


def test_text_stands_for_groups(fitted, table, tmp_path):
    frame, y = table
    named = frame.assign(site=[f"site {k}" for k in frame["site"]])
    model = GPMKLRegressor(BANK, design=fitted.design, inference=FEW).fit(named, y)
    assert model.design_.labels == (tuple(f"site {k}" for k in range(6)),)
    np.testing.assert_allclose(model.predict(named), fitted.predict(frame), rtol=1e-9)
    new = named.iloc[:2].assign(site=["site 2", "elsewhere"])
    known = frame.iloc[:2].assign(site=[2, 17])
    for found, expected in zip(
        model.predict(new, return_std=True), fitted.predict(known, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="`X` must be a DataFrame: its column 'site' held text"):
        model.predict(np.asarray(frame))
    with pytest.raises(ValueError, match="in the columns of `design`; got 1 in 'site', the first in row 1"):
        model.predict(named.iloc[:2].assign(site=["site 2", None]))
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(named), model.predict(named))
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(model.predict(polars.from_pandas(named)), model.predict(named))


def test_labels_of_groups_are_told_apart(fitted, table):
    frame, y = table
    far = frame.assign(site=2**60 + frame["site"])  # in double precision all the same
    model = GPMKLRegressor(BANK, design=fitted.design, inference=FEW).fit(far, y)
    assert model.design_.labels == (tuple(2**60 + k for k in range(6)),)
    np.testing.assert_allclose(model.predict(far), fitted.predict(frame), rtol=1e-9)
    words = frame.assign(site="site " + frame["site"].astype(str))
    model.fit(words, y)
    with pytest.raises(
        ValueError, match="`X` must hold labels in 'site' as in training, such as 'site 0'; got 3"
    ) as found:
        model.predict(frame[frame["site"] == 3])
    assert "X['site'].map(" in str(found.value)
    twice = frame.assign(other=frame["site"]).set_axis(["signal", "noise", "age", "site", "site"], axis=1)
    with pytest.raises(ValueError, match="`X` must have columns of different names"):
        model.fit(twice, y)


@pytest.mark.parametrize("unit", [1e100, 1e-100])
def test_units_of_covariates_do_not_matter(fitted, table, unit):
    frame, y = table
    design = fitted.design
    model = GPMKLRegressor(BANK, design=design, inference=FEW).fit(frame.assign(age=unit * frame["age"]), y)
    np.testing.assert_allclose(
        model.predict(frame.assign(age=unit * frame["age"])), fitted.predict(frame), rtol=1e-6
    )
    found, expected = (effect_table(each).set_index("effect").loc["age", "mean"] for each in (model, fitted))
    np.testing.assert_allclose(found * unit, expected, rtol=1e-6)


@pytest.mark.heavy
def test_relevance_and_draws_keep_the_design(fitted):
    found = relevance(fitted).set_index("without")
    assert found.loc["signal", "verdict"] == "clear"
    assert found.loc["noise", "elpd_diff"] < 2.0
    tree = to_datatree(fitted, 50, random_state=0)["posterior"]
    assert tree["covariate_effects"].dims == ("chain", "draw", "covariate")
    assert tree["level"].values.tolist() == [f"site: {k}" for k in range(6)]
    np.testing.assert_array_equal(tree["group_std"].dims, ("chain", "draw", "term"))
    report = diagnose(fitted, n_draws=100, random_state=0)
    explained = report["signal"]["explained"]["mean"]
    size = fitted.kernel_weights_.max() ** 2 / (
        fitted.kernel_weights_.max() ** 2 + (0.3 / fitted.y_scale_) ** 2
    )
    assert abs(explained - size) < 0.15  # of a view that is half as large as the sites
    assert "without effects of covariates and groups" in str(report)
    before = to_datatree(fitted, 50, random_state=0)["prior_predictive/y"]
    assert float(before.std()) > float(np.std(fitted._target_in_units()))  # effects of the design are in it


@pytest.mark.heavy
def test_slopes_of_groups_on_labels_grades_and_times():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(N, 2)), rng.normal(size=N), rng.integers(0, 4, N)])
    score = X[:, 0] + (X[:, 3] - 1.5) * X[:, 2]
    design = Design(covariate_columns=2, group_columns=3, slope_columns={3: 2})
    times = np.zeros(N, dtype=[("event", "?"), ("time", "f8")])
    times["event"], times["time"] = rng.random(N) < 0.8, np.exp(0.5 * score + 0.3 * rng.normal(size=N))
    models = [
        GPMKLClassifier(BANK, design=design, inference=FEW).fit(X, score > 0.0),
        GPMKLOrdinalClassifier(BANK, design=design, inference=FEW).fit(X, np.digitize(score, [-1.0, 1.0])),
        GPMKLSurvival(BANK, design=design, inference=FEW).fit(X, times),
    ]
    for model in models:
        rows = effect_table(model)
        assert rows["effect"].tolist() == ["x2", "x3", "x2 | x3"]
        assert rows["kind"].tolist() == ["covariate", "group", "slope"]
        slopes = effect_table(model, levels=True).query("kind == 'slope'")["mean"]
        assert (np.diff(slopes) > 0.0).all()
        assert rows.loc[2, "mean"] > rows.loc[1, "mean"]
        assert ("time_ratio" in rows) == isinstance(model, GPMKLSurvival)
    assert rows["time_ratio"].isna().tolist() == [False, True, True]
    longer = contrast(model, [[0.0, 0.0, 1.0, 99]], [[0.0, 0.0, 0.0, 99]]).loc[0]  # of a group that is new
    assert rows.loc[0, "time_ratio"] == pytest.approx(longer["mean"], rel=0.05)
    levels = effect_table(model, levels=True)
    np.testing.assert_allclose(np.log(levels["time_ratio_upper"]), levels["upper"])
    assert models[0].score(X, score > 0.0) > 0.85
    several = GPMKLClassifier(BANK, design=design, inference=FEW).fit(X, np.digitize(score, [-1.0, 1.0]))
    rows = effect_table(several)
    assert rows["class"].tolist() == ["0", "1", "2", np.nan, np.nan] or rows["class"].isna().sum() == 2
    assert rows["mean"][0] < 0.0 < rows["mean"][2] or rows["std"].min() > 0.0


def test_designs_go_with_missing_views(table, fitted):
    """Complete data are the same model; a sample without any view has the effects of its covariates and its site."""
    frame, y = table
    model = GPMKLRegressor(BANK, design=fitted.design, missing_views="integrate", inference=FEW).fit(frame, y)
    np.testing.assert_allclose(model.predict(frame), fitted.predict(frame), atol=0.02 * y.std())
    unseen = frame.iloc[:3].assign(signal=np.nan, noise=np.nan)
    effects = model.design_.rows(np.asarray(unseen, dtype=float)).basis @ model.effects_
    expected = model.y_mean_ + model.y_scale_ * (model.intercept_ + effects)
    np.testing.assert_allclose(model.predict(unseen), expected, rtol=1e-10)
    part = frame.assign(signal=frame["signal"].where(np.arange(N) % 4 > 0))
    rows = effect_table(model.fit(part, y)).set_index("effect")
    assert rows.loc["age", "lower"] < 0.08 < rows.loc["age", "upper"]
    with pytest.raises(ValueError, match="in the columns of `design`; got 60 in 'age', the first in row 0"):
        model.fit(frame.assign(age=np.nan), y)


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (Design(covariate_columns="height"), "`covariate_columns` names the column 'height'"),
        (Design(covariate_columns=["age", "twice"]), "'twice', which is a linear combination of 'age'"),
        (Design(covariate_columns=["age", "age"]), "`covariate_columns` must name different columns"),
        (Design(covariate_columns="same"), "got 'same', which is 2 everywhere"),
        (Design(group_columns="same"), "`group_columns` must hold at least two groups; got 'same'"),
        (Design(group_columns="age"), "groups of more than one training sample; got 'age', whose 60"),
        (Design(covariate_columns="site", group_columns="site"), "must give every column one meaning"),
        (Design(group_columns="site", slope_columns={"age": "age"}), "`slope_columns` must have groups"),
        (
            Design(group_columns="site", slope_columns={"site": "age"}),
            "must name covariates that are also in `covariate_columns`",
        ),
        (Design(group_columns="site", slope_columns="age"), "`slope_columns` must be a dict"),
        (Design(covariate_columns="age", covariate_std=0.0), "`design.covariate_std` must"),
        (Design(group_columns="site", group_prior=LogNormal()), "`group_prior` must be a HalfT"),
        (Design(group_columns="site", group_prior=HalfT(4.0, -1.0)), "`design.group_prior.scale` must"),
        (Design(covariate_columns=["signal", "noise", "age", "site", "same", "twice"]), "'twice'"),
    ],
)
def test_designs_that_cannot_be(table, design, message):
    frame, y = table
    frame = frame.assign(same=2.0, twice=2.0 * frame["age"] - 1.0)
    if len(np.atleast_1d(design.covariate_columns)) == 6:
        frame["same"] = np.arange(N) % 7
    with pytest.raises(ValueError, match=message):
        GPMKLRegressor(BANK, design=design).fit(frame, y)


def test_covariates_too_large_to_be_squared(table, fitted):
    with pytest.raises(ValueError, match=r"`X` must have covariates within .* in 'age'"):
        fitted.predict(table[0].assign(age=1e200))


def test_what_has_no_effects(table, fitted):
    frame, y = table
    with pytest.raises(ValueError, match="`offset_column` must be None except with GPMKLRegressor"):
        GPMKLClassifier(BANK, design=Design(offset_column="age")).fit(frame, y > y.mean())
    plain = GPMKLRegressor(BANK, design=Design(offset_column="age"), inference=FEW).fit(frame, y)
    with pytest.raises(ValueError, match="`model` must have covariates or groups in its `design`"):
        effect_table(plain)
    with pytest.raises(TypeError, match="got BEMKLRegressor, which has no `design`"):
        effect_table(BEMKLRegressor(BANK, max_iter=2, tol=0).fit(frame, y))
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(frame.assign(age=np.nan))
