"""Samples that count more or less than once: copies, integrals of powers, and errors."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from problems import EP, KINDS, LAPLACE, MIXTURE, STUDENT, additive, differences_of, kernels, label, targets
from scipy import integrate, sparse
from sklearn import config_context
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.bemkl import BEMKLSurvival
from bayesmkl.gp import (
    Design,
    GPMKLClassifier,
    GPMKLOrdinalClassifier,
    GPMKLRegressor,
    GPMKLSurvival,
    Marginal,
    unknown_points,
)
from bayesmkl.gp.evidence import (
    exact_evidence,
)
from bayesmkl.gp.reading import shares
from bayesmkl.kernels import Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes.base import repeated
from bayesmkl.outcomes.numbers import near_the_median
from bayesmkl.posterior import compare_loo, effect_table, relevance

LOG_CONCAVE = [name for name in KINDS if name not in ("student-t", "gaussian", "logit")]
CASES = [("gaussian", exact_evidence), ("student-t", MIXTURE)]
CASES += [(name, LAPLACE) for name in LOG_CONCAVE]
CASES += [
    (name, EP) for name in ("probit", "ordinal", "offset", "negative-binomial", "beta-binomial", "weibull")
]
FAST = Marginal(n_points=100, n_draws=100)


def problem(name, rng, n_samples=12):
    stack, (likelihood, phi) = kernels(rng, n_samples)[1], KINDS[name]
    matrix = additive(stack).matrix(np.array([0.7, -0.4, 0.2]))
    return likelihood, targets(name, n_samples, rng), matrix, np.array(phi)


@pytest.mark.parametrize(("name", "evidence"), [*CASES, ("student-t", STUDENT)], ids=label)
def test_two_is_the_same_sample_twice(name, evidence, rng):
    likelihood, y, matrix, phi = problem(name, rng)
    counts = rng.integers(1, 4, 12)
    copies = np.repeat(np.arange(12), counts)
    heavy, fields = repeated(likelihood, y[None], counts.astype(float))
    found = evidence(heavy, fields[0], matrix, phi)
    each = evidence(likelihood, y[..., copies], matrix[np.ix_(copies, copies)], phi)
    assert found.converged
    assert found.log_evidence == pytest.approx(each.log_evidence, rel=1e-9)
    np.testing.assert_allclose(found.by_parameters, each.by_parameters, rtol=1e-7, atol=1e-9)
    first = np.searchsorted(copies, np.arange(12))
    np.testing.assert_allclose(found.posterior.mean, each.posterior.mean[first], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.posterior.variance, each.posterior.variance[first], rtol=1e-7)
    total = np.add.reduceat(np.add.reduceat(each.by_covariance(), first, axis=0), first, axis=1)
    np.testing.assert_allclose(found.by_covariance(), total, rtol=1e-6, atol=1e-8)


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "evidence"), CASES, ids=label)
def test_gradient_with_fractions_equals_differences(name, evidence, rng):
    likelihood, y, _, phi = problem(name, rng)
    covariance = additive(kernels(rng, 12)[1])
    heavy, fields = repeated(likelihood, y[None], rng.uniform(0.2, 2.5, 12))
    at = np.concatenate([[0.7, -0.4, 0.2], phi])

    def value(at, start=None):
        return evidence(heavy, fields[0], covariance.matrix(at[:3]), at[3:], start)

    found = value(at)
    gradient = np.concatenate([covariance.pull(at[:3], found.by_covariance()), found.by_parameters])

    def along(step):
        return value(at + step, found.sites).log_evidence

    np.testing.assert_allclose(
        gradient, differences_of(along, at), rtol=0, atol=2e-6 * np.abs(gradient).max()
    )


@pytest.mark.parametrize("name", [*LOG_CONCAVE, "student-t"])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_ep_is_exact_of_one_sample(name, weight, rng):
    """The integral of the power by adaptive quadrature, to 1e-8 and what the trapezoidal rule lacks."""
    likelihood, phi = KINDS[name]
    y, variance = targets(name, 12, rng)[..., :1], 0.6
    heavy, fields = repeated(likelihood, y[None], np.array([weight]))
    found = EP(heavy, fields[0], np.array([[variance]]), np.array(phi))

    def density(score):
        own = likelihood.log_density(y, np.array([score]), np.array(phi))[0]
        return np.exp(weight * own - 0.5 * score**2 / variance) / np.sqrt(2.0 * np.pi * variance)

    exact, _ = integrate.quad(density, -8.0, 8.0, epsabs=1e-13, epsrel=1e-11, limit=400)
    assert found.log_evidence == pytest.approx(np.log(exact), abs=2e-8)


def test_fractions_of_a_sample_add_up_where_the_approximation_is_local(rng):
    """One of weight 1.7 is one of weight 0.5 and one of 1.2 to Laplace, to the bound, and under normal noise."""
    for name, evidence in (("probit", LAPLACE), ("gaussian", exact_evidence), ("student-t", MIXTURE)):
        likelihood, y, matrix, phi = problem(name, rng)
        whole, split = np.ones(12), np.ones(13)
        whole[-1], split[-2:] = 1.7, (0.5, 1.2)
        rows = [*range(12), 11]
        found = evidence(
            *(lambda one: (one[0], one[1][0]))(repeated(likelihood, y[None], whole)), matrix, phi
        )
        heavy, fields = repeated(likelihood, y[None, ..., rows], split)
        apart = evidence(heavy, fields[0], matrix[np.ix_(rows, rows)], phi)
        assert found.log_evidence == pytest.approx(apart.log_evidence, rel=1e-8)


def test_shares_count_samples(rng):
    parts, counts = rng.normal(size=(5, 2, 3, 12)), rng.integers(1, 4, 12)
    np.testing.assert_allclose(
        shares(parts, counts.astype(float)), shares(np.repeat(parts, counts, axis=-1)), rtol=1e-12
    )


# ------------------------------------------------------------------------------------------------- estimators


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(30, 3)), np.arange(30) % 3])
    score = X[:, 0] + np.sin(2.0 * X[:, 1])
    counts = rng.choice([0, 1, 1, 1, 1, 2], 30)
    return X, score, score + 0.5 * rng.normal(size=30), counts


def bank():
    return KernelBank(["linear", "rbf"], views={"a": [0], "b": [1, 2]})


def survival(noisy):
    event = np.arange(len(noisy)) % 4 > 0
    return np.array(list(zip(event, np.exp(noisy), strict=True)), dtype=[("event", bool), ("time", float)])


def counts_of(score):
    return np.random.default_rng(1).poisson(np.exp(score)).astype(float)


MODELS = {
    "numbers": (GPMKLRegressor, {"design": Design(covariate_columns=[2], group_columns=[3])}, lambda s, n: n),
    "tasks": (  # of 14 hyperparameters, for which 100 points fail in 6 of 30 seeds
        GPMKLRegressor,
        {"design": Design(task_column=3), "inference": replace(FAST, n_points=256)},
        lambda s, n: n,
    ),
    "counts": (GPMKLRegressor, {"likelihood": "poisson"}, lambda s, n: counts_of(s)),
    "labels": (GPMKLClassifier, {}, lambda s, n: n > 0.0),
    "grades": (GPMKLOrdinalClassifier, {}, lambda s, n: np.digitize(n, [-0.7, 0.7])),
    "times": (GPMKLSurvival, {}, lambda s, n: survival(n)),
    "hazards": (
        GPMKLSurvival,
        {"likelihood": "piecewise-hazard", "inference": replace(FAST, approximation="laplace")},
        lambda s, n: survival(n),
    ),
}


def predicted(model, X):
    if hasattr(model, "predict_quantile"):
        return model.predict_quantile(X)
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


SLOW = ("tasks", "grades", "times")  # of which numbers, labels and hazards have the parts


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in MODELS]
)
def test_fit_with_weights_is_fit_to_copies(kind, data):
    X, score, noisy, counts = data
    cls, parameters, of = MODELS[kind]
    y, copies = of(score, noisy), np.repeat(np.arange(30), counts)
    each = np.ones(30)
    if kind in ("numbers", "tasks", "times"):  # whose weights have a mean of at most one
        each[counts == 1] = 0.2
    model = cls(bank(), **{"inference": FAST} | parameters).fit(X, y, sample_weight=counts * each)
    repeated = cls(bank(), **{"inference": FAST} | parameters)
    repeated.fit(X[copies], y[copies], sample_weight=each[copies])
    np.testing.assert_allclose(predicted(model, X), predicted(repeated, X), rtol=1e-7)
    assert model.log_evidence_ == pytest.approx(repeated.log_evidence_, rel=1e-7)
    kept = counts > 0
    np.testing.assert_allclose(np.repeat(model.elpd_i_, counts[kept]), repeated.elpd_i_, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.sample_weight_, (counts * each)[kept])
    np.testing.assert_allclose(model.kernel_shares_, repeated.kernel_shares_, atol=0.2)  # other draws
    if kind == "numbers":
        each, other = effect_table(model), effect_table(repeated)
        np.testing.assert_allclose(each["mean"], other["mean"], atol=4.0 * each["std"].max() / np.sqrt(100))


def test_outliers_are_those_of_copies(rng):
    y, counts = rng.standard_t(1.0, size=50), rng.integers(1, 4, 50)
    found = near_the_median(y, counts.astype(float))
    np.testing.assert_array_equal(np.repeat(found > 0.0, counts), near_the_median(np.repeat(y, counts)) > 0.0)
    assert 0 < np.count_nonzero(found) < 50


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["integrate", "impute"])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_weights_of_samples_of_which_some_lack_views_are_copies(kind, how, data, monkeypatch):
    """Images are regressed on as many samples; those that lack views count once or not at all here."""
    monkeypatch.setattr(
        unknown_points, "predictability", lambda *_: 0.5
    )  # which leaves out all copies at once
    X, _, noisy, counts = data
    X = X[:, :3].copy()
    X[3:9, 0] = X[12:16, 1] = X[12:16, 2] = np.nan
    if how == "impute":
        X[20, 1] = np.nan
    counts = np.where(np.isnan(X).any(axis=1), np.minimum(counts, 1), counts)
    cls, _, of = MODELS[kind]
    y, copies = of(noisy, noisy), np.repeat(np.arange(30), counts)
    each = np.where(counts == 1, 0.5, 1.0) if kind == "numbers" else np.ones(30)
    weighted = cls(bank(), inference=FAST, missing_views=how).fit(X, y, sample_weight=counts * each)
    repeated = cls(bank(), inference=FAST, missing_views=how)
    repeated.fit(X[copies], y[copies], sample_weight=each[copies])
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, rel=1e-7)
    np.testing.assert_allclose(predicted(weighted, X), predicted(repeated, X), rtol=1e-7)
    np.testing.assert_allclose(weighted.kernel_shares_, repeated.kernel_shares_, atol=0.2)  # other draws


@pytest.mark.heavy
def test_leave_one_out_adds_up_over_copies(data):
    X, _, noisy, counts = data
    weights = counts + 0.4
    models = [
        GPMKLClassifier(bank(), inference=FAST).fit(X, noisy > 0.0, sample_weight=w) for w in (weights, None)
    ]
    table = compare_loo(dict(zip(("weighted", "plain"), models, strict=True)))
    assert table.loc["weighted", "elpd"] == pytest.approx(weights @ models[0].elpd_i_, abs=0.06)
    found = relevance(models[0])
    assert sorted(found["without"]) == ["a", "all", "b", "views together"]
    nothing = models[0]._refit(DenseStack(np.ones((1, 30, 30))), np.zeros(1, dtype=int))[0]
    assert found["elpd_diff"][0] == pytest.approx(weights @ models[0].elpd_i_ - nothing.sum(), rel=1e-6)


def test_weights_go_along_in_cross_validation(data):
    X, _, noisy, counts = data
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        model = GPMKLRegressor(bank(), inference=FAST).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        found = cross_validate(
            make_pipeline(scaler, model),
            X,
            noisy,
            cv=2,
            params={"sample_weight": 0.3 * counts + 0.5},
            return_estimator=True,
        )
    np.testing.assert_array_equal(found["estimator"][0][1].sample_weight_, (0.3 * counts + 0.5)[15:])


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "likelihood", "limited"),
    [
        ("numbers", "gaussian", True),
        ("numbers", "student-t", True),
        ("tasks", "gaussian", True),
        ("times", "log-normal", True),
        ("hazards", "piecewise-hazard", False),
        ("counts", "poisson", False),
        ("labels", "probit", False),
    ],
)
def test_weights_of_numbers_have_a_mean_of_one(kind, likelihood, limited, data):
    """A third of the samples counts twice: the noise of such numbers would be found too small."""
    X, score, noisy, _ = data
    cls, parameters, of = MODELS[kind]
    y, weights = of(score, noisy), np.where(np.arange(30) < 10, 2.0, 1.0)
    model = cls(bank(), **{"inference": FAST, "likelihood": likelihood} | parameters)
    scale = (
        weights[np.arange(30) % 4 > 0].mean()
        if kind == "times"
        else 1.4
        if kind == "tasks"
        else weights.mean()
    )
    if not limited:  # nor are times that are not known exactly
        np.testing.assert_array_equal(model.fit(X, y, sample_weight=weights).sample_weight_, weights)
        return
    expected = predicted(model.fit(X, y, sample_weight=weights / scale), X)
    with pytest.warns(UserWarning, match=rf"should have a mean of 1.*; got {scale:.4g}. .* were divided by"):
        model.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.sample_weight_, weights / scale, rtol=1e-12)
    np.testing.assert_allclose(predicted(model, X), expected, rtol=1e-9)


COPIED = {
    "numbers": lambda X, y: GPMKLRegressor(bank(), inference=FAST).fit(X, y),
    "BEMKL, sparse": lambda X, y: BEMKLRegressor(KernelBank(Linear()), tol=1e-3).fit(sparse.csr_array(X), y),
    "BEMKL of times": lambda X, y: BEMKLSurvival(bank(), tol=1e-3).fit(X, survival(y)),
    "labels": lambda X, y: GPMKLClassifier(bank(), inference=FAST).fit(X, y > 0.0),
}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", COPIED)
def test_copies_of_numbers_are_told(kind, data):
    X, _, noisy, _ = data
    for n_copies, distance in ((12, 0.0), (1, 0.0), (12, 0.1)):  # repeated measurements differ
        copied = np.r_[0:28, 0:n_copies]  # events of `survival` stay events
        y = noisy[copied] + np.r_[np.zeros(28), np.full(n_copies, distance)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            COPIED[kind](X[copied], y)
        told = any("samples repeat another one" in str(each.message) for each in caught)
        assert told == (kind != "labels" and n_copies > 1 and distance == 0.0)


@pytest.mark.parametrize(
    ("weights", "parameters", "message"),
    [
        (-np.ones(30), {}, "`sample_weight` must hold no negative weight; got -1 for sample 0"),
        (np.zeros(30), {}, "`sample_weight` must hold a weight above zero; all 30 weights are zero"),
        (np.ones(29), {}, r"must hold one weight for each of the 30 samples; got shape \(29,\)"),
        (np.eye(30)[3], {}, "above zero for at least two samples; got 29 zeros of 30"),
    ],
)
def test_bad_weights(weights, parameters, message, data):
    X, _, noisy, _ = data
    with pytest.raises(ValueError, match=message):
        GPMKLRegressor(bank(), **parameters).fit(X, noisy, sample_weight=weights)


def test_bad_zero_weights_of_precomputed_kernels(data):
    X, _, noisy, counts = data
    with pytest.raises(ValueError, match=r"above zero with precomputed kernels.*Remove the rows and columns"):
        GPMKLRegressor("precomputed").fit(X @ X.T, noisy, sample_weight=counts)
