"""Widths that are inferred: gradients, integrals over a grid, few features of many, files, what is refused."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from scipy import linalg, special, stats
from sklearn.base import clone

from bayesmkl import BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.discriminative import MKLRegressor
from bayesmkl.gp import HalfT, Marginal
from bayesmkl.gp.covariances import Additive, kernel_units
from bayesmkl.gp.evidence import ep_evidence, exact_evidence
from bayesmkl.gp.hyperposterior import Hypermodel, evaluate_height, evaluate_slope
from bayesmkl.gp.hyperpriors import DirichletShares, ParameterPriors, WithDesign
from bayesmkl.gp.widths import WidthPrior
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.between import kernels_between
from bayesmkl.kernels.quality import KernelQualityWarning
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.learned import LearnedStack, with_learned
from bayesmkl.outcomes import Gaussian as Normal
from bayesmkl.outcomes import Probit
from bayesmkl.persistence import load_model, save_model
from bayesmkl.posterior import contrast, contributions, feature_table, interaction_table

FEW = Marginal(n_points=400, n_draws=200)
FEWEST = Marginal(n_points=200, n_draws=100)  # of fits whose warnings are caught
VIEWS = {"a": [0, 1, 2], "b": [3, 4]}
EACH = KernelBank([Gaussian(width="each"), Linear()], views=VIEWS)
LEARN = KernelBank([Gaussian(width="learn"), Linear()], views=VIEWS)


@pytest.fixture(scope="module")
def table():
    """One feature of each view matters; units of features differ."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.sin(2.0 * X[:, 0]) + X[:, 3] + 0.3 * rng.normal(size=60)
    return X * np.array([1.0, 10.0, 0.1, 5.0, 1.0]), y


@pytest.fixture(scope="module")
def fitted(table):
    return GPMKLRegressor(EACH, inference=FEW).fit(*table)


def model_of(X, y, bank, likelihood, evidence, sample_weight=None, together=False):
    bank._with_together = together
    bank = bank.fit(X)
    stack = with_learned(DenseStack(bank.train_stack()), bank)
    covariance = Additive(stack, kernel_units(stack, sample_weight), 1.5, sample_weight=sample_weight)
    prior = WithDesign(DirichletShares(), HalfT(), 0, width_prior=WidthPrior(stack.learned))
    return Hypermodel(covariance, likelihood, y[None], prior, ParameterPriors(likelihood.priors), evidence)


# --------------------------------------------------------------------------------------------------- the mathematics


@pytest.mark.parametrize("bank", [LEARN, EACH])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("likelihood", "evidence"), [(Normal(), exact_evidence), (Probit(), ep_evidence)])
def test_the_evidence_has_the_gradient_of_finite_differences(
    table, rng, bank, together, likelihood, evidence
):
    X, y = table
    targets = np.sign(y) if evidence is ep_evidence else y
    counts = rng.uniform(0.5, 2.0, size=len(X))
    model = model_of(X, targets, clone(bank), likelihood, evidence, counts, together)
    at, step = 0.7 * rng.standard_normal(model.n_coordinates), 1e-4
    slopes = [
        (8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step)
        for f in (
            lambda h, e=e: evaluate_height(model, at + h * e, None, tol=1e-11)[0].log_density
            for e in np.eye(len(at))
        )
    ]
    np.testing.assert_allclose(evaluate_slope(model, at, None, tol=1e-11)[1], slopes, rtol=1e-6, atol=1e-6)


def test_a_weight_is_the_deviation_of_its_part_at_any_width(table):
    X, y = table
    model = model_of(X, y, clone(LEARN), Normal(), exact_evidence)
    covariance = model.covariance
    for log_width in (-2.0, 0.0, 2.0):
        weights = np.array([0.7, 0.0, 0.0, 0.0, log_width, 0.0])
        matrix = covariance.matrix(weights) - covariance.intercept_std**2
        np.testing.assert_allclose(np.trace(matrix) / 60 - matrix.mean(), 0.7**2, rtol=1e-10)
    narrow, wide = (covariance.matrix(np.array([1.0, 0.0, 0.0, 0.0, v, 0.0])) for v in (-2.0, 2.0))
    assert abs(narrow[0, 1]) < abs(wide[0, 1])


def test_views_together_are_those_of_kernels_with_the_same_widths(table, rng):
    """Of one kernel a view, between training samples, with new rows, and among these."""
    X, new = table[0], table[0][:7] + 0.3 * rng.normal(size=(7, 5))
    log_widths = np.array([-0.4, 0.7])
    median = KernelBank([Gaussian(width="learn")], views=VIEWS).fit(X)
    kernels = {
        name: Gaussian(width=kernel.width_ * np.exp(v))
        for name, kernel, v in zip(VIEWS, median.kernels_, log_widths, strict=True)
    }
    banks = KernelBank([Gaussian(width="learn")], views=VIEWS), KernelBank(kernels, views=VIEWS)
    for bank in banks:
        bank._with_together = True
        bank.fit(X)
    learned, fixed = banks
    train = with_learned(DenseStack(learned.train_stack()), learned)
    np.testing.assert_allclose(train.at(log_widths).kernels, fixed.train_stack(), atol=1e-12)
    values, diagonal = learned.rows_and_diagonal(new)
    rows = with_learned(DenseStack(values), learned, new)
    expected, of_rows = fixed.rows_and_diagonal(new)
    np.testing.assert_allclose(rows.at(log_widths, train).kernels, expected, atol=1e-12)
    np.testing.assert_allclose(rows.diagonal_at(log_widths, diagonal, train), of_rows, atol=1e-12)
    own = [one._replace(train=one.rows) for one in rows.learned]
    among = LearnedStack(DenseStack(kernels_between(learned, new)), own, rows.own, rows)
    found = among.at(log_widths, train).kernels
    np.testing.assert_allclose(found, kernels_between(fixed, new), atol=1e-12)


def test_predictions_are_integrals_over_weight_and_width(rng):
    """One kernel: a dense grid over the coordinates of its weight, its width, and the noise."""
    X = rng.uniform(-2.0, 2.0, size=(25, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=25)
    y = (y - y.mean()) / y.std()
    inference = Marginal(n_points=600, n_draws=1000, n_read="all")
    model = GPMKLRegressor(
        KernelBank([Gaussian(width="learn")]), kernel_prior=HalfT(4.0, 1.0), inference=inference
    ).fit(X, y)
    new = np.linspace(-3.0, 3.0, 9)[:, None]
    median = np.median(np.abs(X - X.T)[np.triu_indices(25, 1)])
    nodes, fine = np.linspace(-3.0, 3.0, 41), np.linspace(-4.0, 4.0, 161)
    noise = model.likelihood_.priors[0].parameters(fine).values ** 2
    log_weights, means, squares = [], [], []
    for u in nodes:
        width = median * np.exp(0.8 * u)
        kernel, cross = (np.exp(-0.5 * ((A - X.T) / width) ** 2) for A in (X, new))
        for v in nodes:
            square = special.stdtrit(4.0, 0.5 + 0.5 * stats.norm.cdf(v)) ** 2 / (1.0 - kernel.mean())
            values, vectors = linalg.eigh(square * kernel + 9.0)
            total = values + noise[:, None]
            told, turned = y @ vectors, (square * cross + 9.0) @ vectors
            of_data = told**2 / total + np.log(total)
            log_weights.append(-0.5 * (of_data.sum(axis=1) + u**2 + v**2 + fine**2))
            means.append(told / total @ turned.T)
            squares.append(means[-1] ** 2 + square + 9.0 - 1.0 / total @ (turned**2).T)
    weights = np.exp(np.array(log_weights) - np.max(log_weights))
    weights /= weights.sum()
    mean = np.tensordot(weights, np.array(means), 2)
    std = np.sqrt(np.tensordot(weights, np.array(squares), 2) - mean**2)
    found, spread = model.predict_latent(new, return_std=True)
    np.testing.assert_allclose((found - mean) / std, 0.0, atol=0.03)
    np.testing.assert_allclose(spread, std, rtol=0.03)


# ------------------------------------------------------------------------------------------------------- estimators


def test_few_features_of_many_are_found(rng):
    X = rng.normal(size=(300, 12))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=300)
    density = {}
    for width in (None, "each"):
        kernel = Gaussian(width=width) if width else Gaussian(relative_width=1)
        model = GPMKLRegressor(KernelBank([kernel, Linear()])).fit(X[:100], y[:100])
        mean, std = model.predict(X[100:], return_std=True)
        density[width] = stats.norm.logpdf(y[100:], mean, std).mean()
    assert density["each"] > density[None] + 0.4
    widths = np.median(model.posterior_.log_widths, axis=0)
    assert widths.argmin() == 0
    assert widths[0] < widths[1:].min() - 1.0


def test_products_of_few_features_are_found(rng):
    views = {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}
    X = rng.normal(size=(300, 8))
    y = X[:, 0] * X[:, 4] + 0.3 * rng.normal(size=300)
    error = {}
    for width in (None, "each"):
        kernel = Gaussian(width=width) if width else Gaussian(relative_width=1)
        model = GPMKLRegressor(KernelBank([kernel, Linear()], views=views)).fit(X[:120], y[:120])
        error[width] = np.sqrt(np.mean((y[120:] - model.predict(X[120:])) ** 2))
    assert error["each"] < 0.85 * error[None]
    parts = contributions(model, X[120:124], random_state=0)
    np.testing.assert_allclose(parts["mean"].sum("part"), model.predict(X[120:124]), rtol=1e-6)
    same = contrast(model, X[120:122], X[120:122], random_state=0)
    np.testing.assert_array_equal(same[["mean", "lower", "upper"]], 0.0)
    pairs = interaction_table(model, random_state=0)
    assert pairs["share"].iloc[0] > 0.5


def test_units_of_features_do_not_matter_to_widths_of_each(table):
    X, y = table
    bank, other_units = KernelBank([Gaussian(width="each")]), X * [1e3, 1.0, 1e-3, 7.0, 1e2]
    one, other = (model_of(own, y, bank, Normal(), exact_evidence) for own in (X, other_units))
    for coordinates in np.random.default_rng(0).normal(size=(3, one.n_coordinates)):
        height, same = (evaluate_height(model, coordinates, None)[0].log_density for model in (one, other))
        assert height == pytest.approx(same, rel=1e-9)
    one, other = (GPMKLRegressor(bank, inference=FEW).fit(own, y) for own in (X, other_units))
    assert one.log_evidence_ == pytest.approx(other.log_evidence_, abs=0.1)
    np.testing.assert_allclose(one.predict(X), other.predict(other_units), atol=0.05)


def test_fits_repeat_and_survive_copies_and_files(table, fitted, tmp_path):
    X, y = table
    again = clone(fitted).fit(X, y)
    save_model(fitted, tmp_path / "model.skops")
    for other in (again, pickle.loads(pickle.dumps(fitted)), load_model(tmp_path / "model.skops")):
        for own, theirs in zip(
            fitted.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_allclose(own, theirs, rtol=1e-10)
    np.testing.assert_array_equal(again.kernel_shares_, fitted.kernel_shares_)


def test_shares_and_parts_are_those_of_the_score(table, fitted):
    X, _ = table
    np.testing.assert_allclose(fitted.posterior_.shares.sum(axis=1), 1.0, rtol=1e-8)
    assert fitted.kernel_shares_[[0, 1]].sum() > 0.2
    assert fitted.kernel_shares_[[2, 3]].sum() > 0.2
    score = fitted.predict_latent(X) * fitted.y_scale_ + fitted.y_mean_
    np.testing.assert_allclose(score, fitted.predict(X), rtol=1e-8)
    parts = contributions(fitted, X, random_state=0)
    np.testing.assert_allclose(parts["mean"].sum("part"), score, rtol=1e-6)
    drawn = fitted.posterior_.score[:, 0].mean(axis=0)
    np.testing.assert_allclose(drawn, fitted.predict_latent(X), atol=0.1)


@pytest.mark.parametrize("bank", [EACH, LEARN])
def test_slopes_are_those_of_predictions(table, bank):
    X, y = table
    options = {"together": False, "inference": Marginal(n_points=400, n_draws=2000, n_read="all")}
    model = GPMKLRegressor(bank, **options).fit(X, y)  # slopes are of views alone
    found = feature_table(model, per="unit", random_state=0).sort_values("feature")
    steps = 1e-4 * X.std(axis=0)
    slopes = np.array(
        [
            (model.predict(X + h * e) - model.predict(X - h * e)) / (2.0 * h)
            for h, e in zip(steps, np.eye(5), strict=True)
        ]
    )
    np.testing.assert_allclose(found["mean"], slopes.mean(axis=1), atol=0.1 * np.abs(found["std"]).max())
    size = np.sqrt((slopes**2).mean(axis=1)) * X.std(axis=0)
    np.testing.assert_allclose(found["size"], size, rtol=1e-3, atol=1e-4)
    assert ("relevance" in found) == (bank is EACH)
    if bank is EACH:
        own = found["relevance"].to_numpy()
        np.testing.assert_allclose(own.sum(), model.kernel_shares_[[0, 2]].sum(), rtol=1e-8)
        assert own[[0, 3]].min() > own[[1, 2, 4]].max()
        assert (found["relevance_lower"] <= own).all()


def test_classes_have_widths_too(table):
    X, y = table
    model = GPMKLClassifier(LEARN, inference=FEW).fit(X, y > 0.0)
    assert model.score(X, y > 0.0) > 0.8
    assert model.posterior_.log_widths.shape[1] == 2


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (BEMKLRegressor(EACH), "`kernels` must have given widths for BEMKLRegressor"),
        (MKLRegressor(EACH), "`kernels` must have given widths for MKLRegressor"),
        (GPMKLRegressor(LEARN, missing_views="integrate"), '`missing_views` must be "error" with a Gaussian'),
        (GPMKLRegressor(LEARN, kernel_prior="spike-slab"), '`kernel_prior` must not be "spike-slab" with'),
        (GPMKLRegressor(clone(LEARN).set_params(landmarks=9)), "`kernels` must have given widths with a bank"),
        (GPMKLRegressor(clone(LEARN).set_params(normalize="center")), "`normalize` must be"),
        (GPMKLRegressor(KernelBank(Gaussian(width="learned"))), "`width` of Gaussian must be a positive number"),
        (GPMKLRegressor(KernelBank(Gaussian(width="learn", gamma=1.0))), "not both"),
    ],
)  # fmt: skip
def test_models_that_cannot_learn_widths_refuse_them(table, model, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        model.fit(*table)


def test_widths_that_cannot_be_learned_are_named_and_the_rest_goes_on(table):
    X, y = table
    X = np.column_stack([X[:, 0], np.full(60, 3.0), np.full(60, 2.0), X[:, 1] > 0.0])
    views = {"some": [0, 1], "none": 2, "two": 3}
    for width, says in (
        (
            "each",
            [
                "gaussian(width=each) · some: features that do not vary in training: x1",
                "none: training samples are",
            ],
        ),
        (
            "learn",
            ["none: training samples are all equal", "two: training samples have two different values"],
        ),
    ):
        bank = KernelBank(Gaussian(width=width), views=views)
        with pytest.warns(KernelQualityWarning) as caught:
            model = GPMKLRegressor(bank, inference=FEWEST).fit(X, y)
        text = "\n".join(str(one.message) for one in caught)
        assert all(line in text for line in says)
        assert np.abs(model.kernel_shares_[1]) < 0.01
        assert model.kernel_shares_[0] > 0.3
        changed = X + np.array([0.0, 5.0, 0.0, 0.0])
        same = np.allclose(model.predict(changed), model.predict(X))
        assert same == (width == "each")
    with pytest.warns(KernelQualityWarning, match="have two different values"):
        found = GPMKLRegressor(KernelBank(Gaussian(width="learn")), inference=FEWEST).fit(
            table[0][:2], [0.0, 1.0]
        )
    assert np.isfinite(found.predict(table[0])).all()


def test_programs_and_products_refuse_widths_that_are_learned(table):
    with pytest.raises(ValueError, match="given widths for a program"):
        GPMKLRegressor(EACH).numpyro_model(*table)
    with pytest.raises(ValueError, match="`left` of Product must have a given width"):
        Gaussian(width="learn") * Linear()


def test_few_numbers_have_adaptive_kernels_by_default_and_others_given_ones(table, tmp_path):
    """The default bank is that of "adaptive", and what was chosen is that of the last fit."""
    X, y = table
    model = GPMKLRegressor(views=VIEWS, inference=FEWEST).fit(X, y)
    same = GPMKLRegressor(KernelBank("adaptive", views=VIEWS, scale=True), inference=FEWEST).fit(X, y)
    assert model.kernel_names_.tolist() == same.kernel_names_.tolist()
    expected = same.predict(X[:5], return_std=True)
    save_model(model, tmp_path / "model.bmkl")
    for own in (model, load_model(tmp_path / "model.bmkl"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(own.predict(X[:5], return_std=True), expected)
    given = GPMKLRegressor(KernelBank(views=VIEWS, scale=True), inference=FEWEST).fit(
        np.repeat(X, 6, axis=0), np.tile(y, 6)
    )
    many = model.fit(np.repeat(X, 6, axis=0), np.tile(y, 6))
    np.testing.assert_array_equal(many.predict(X[:5]), given.predict(X[:5]))
    counts = GPMKLRegressor(views=VIEWS, likelihood="poisson", inference=FEWEST).fit(X, np.arange(60) % 5)
    assert counts.kernel_names_[0] == "gaussian(0.5 median) · a"


def test_as_many_points_are_drawn_as_are_asked_for_with_one_kernel(table):
    """Whose share is known without error."""
    model = GPMKLRegressor(KernelBank(Gaussian()), inference=Marginal(n_points=300, n_draws=100)).fit(*table)
    assert model.n_evaluations_ > 300
