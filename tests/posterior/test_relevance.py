"""Refits without views, and shares of products of them: exact evidences, cavities, folds and verdicts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.bemkl import BEMKLMultitaskRegressor, Dirichlet, Gamma, Gibbs
from bayesmkl.bemkl.draws import variational_draws
from bayesmkl.bemkl.model import Priors, Problem
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers
from bayesmkl.posterior import diagnose, interaction_table, relevance, view_table
from bayesmkl.posterior.diagnose import _why_not, signal_section, sizes_of_draws
from bayesmkl.posterior.evaluated import evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo import leave_each_out, leave_one_out_of_draws
from bayesmkl.posterior.relevance import intercept_only, refits_of, word_of
from bayesmkl.posterior.verdicts import Verdict, sentence, verdicts

N = 24
FEW = Marginal(n_points=200, n_draws=200)
CHAINS = Gibbs(n_chains=2, n_draws=3000)
SIMPLE = KernelBank(Gaussian(width=1), views={"signal": 0, "noise": 1})
BANK = KernelBank([Gaussian(width=1), Linear()], views={"signal": 0, "noise": 1}, normalize="trace")


def samples(n=N):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def fitted(kind, bank=BANK, **options):
    X, y = samples()
    classes = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    target, options = {
        "binary": (y > 0.0, {}),
        "margin": (y > 0.0, {"margin": 1.0}),
        "classes": (classes, {}),
        "one-versus-all": (classes, {"multiclass": "one-versus-all"}),
        "multinomial": (classes, {"multiclass": "multinomial"}),
        "labels": (np.column_stack([y > 0.0, X[:, 1] > 0.3]).astype(int), {}),
        "regression": (y / y.std(), {"normalize_y": False}),
        "targets": (np.column_stack([y, X[:, 1] - y]), {"normalize_y": False}),
    }[kind], options  # fmt: skip
    y, own = target
    cls = BEMKLRegressor if kind in ("regression", "targets") else BEMKLClassifier
    scale = {"intermediate_scale": 0.5} if cls is BEMKLClassifier else {}
    return cls(bank, **scale, tol=1e-4, **own, **options).fit(X, y), y


# ------------------------------------------------------------------------------------------------- without kernels


def binary_problem(y, margin=0.0):
    return Problem(DenseStack(np.empty((1, 0, 0))), None, y, Priors(), Labels(margin), 1.0)


def log_integral(function, low, high):
    return np.log(integrate.quad(function, low, high, limit=200, epsabs=0.0)[0])


@pytest.mark.heavy
@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_evidence_of_labels_without_kernels_is_an_integral(margin):
    y = np.array([1.0, 1.0, -1.0, 1.0, 1.0])

    def log_evidence(y):
        def density(b):
            return stats.t.pdf(b, 2.0) * stats.norm.cdf(y * b - margin).prod()

        return log_integral(density, -np.inf, 0.0), log_integral(density, 0.0, np.inf)

    (found,) = intercept_only(binary_problem(y, margin), [[0, 2], [1], [3], [4]])
    whole = np.logaddexp(*log_evidence(y))
    assert found.log_evidence == pytest.approx(whole, abs=1e-6)
    for i, others in ((1, y[[0, 2, 3, 4]]), (2, y[[1, 3, 4]]), (0, y[[1, 3, 4]])):
        base = np.logaddexp(*log_evidence(others))
        sides = [np.logaddexp(*log_evidence(np.append(others, side))) - base for side in (-1.0, 1.0)]
        np.testing.assert_allclose(found.left_out[i], sides, atol=1e-6)


def test_evidence_of_numbers_without_kernels_is_an_integral():
    """Over the noise, with the intercept integrated out by hand: its precision is known."""
    y, known = np.array([0.3, -1.2, 0.8, 0.1, 2.0]), Gamma(2e8, 1e8)
    priors = Priors(intercept=known, noise=Gamma(2.0, 0.7))

    def log_evidence(y):
        def density(precision):
            cov = np.eye(len(y)) / precision + 0.5
            prior = stats.gamma.pdf(precision, 2.0, scale=1.0 / 0.7)
            return prior * stats.multivariate_normal.pdf(y, cov=cov)

        return log_integral(density, 0.0, 40.0)

    problem = Problem(DenseStack(np.empty((1, 0, 0))), None, y, priors, Numbers())
    (found,) = intercept_only(problem, [[0], [1, 4], [2], [3]])
    assert found.log_evidence == pytest.approx(log_evidence(y), abs=1e-5)
    assert found.left_out[0] == pytest.approx(log_evidence(y) - log_evidence(y[1:]), abs=1e-5)
    others = y[[0, 2, 3]]
    expected = log_evidence(np.append(others, y[4])) - log_evidence(others)
    assert found.left_out[4] == pytest.approx(expected, abs=1e-5)


# ----------------------------------------------------------------------------------------------- leaving samples out


@pytest.mark.heavy
@pytest.mark.parametrize(
    "kind",
    [
        *("binary", "margin", "classes", "one-versus-all", "multinomial", "labels", "regression", "targets"),
    ],
)
def test_folds_of_variational_models_are_fits_to_the_others(kind):
    model, y = fitted(kind)
    refits = refits_of(fitted_bemkl(model))
    kernels = BANK.fit_transform(samples()[0])
    folds = refits._folds()
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(N))
    refits._folds = lambda: folds[:2]
    own = refits.own.elpd_i
    for test in folds[:2]:
        train = np.setdiff1d(np.arange(N), test)
        options = model.get_params(deep=False) | {"kernels": "precomputed"}
        other = type(model)(**options).fit(kernels[np.ix_(train, train)], y[train])
        rows = kernels[np.ix_(test, train)]
        if kind in ("regression", "targets"):
            mean, std = other.predict(rows, return_std=True)
            expected = stats.norm.logpdf(y[test], mean, std).reshape(len(test), -1).sum(axis=1)
        elif kind == "labels":
            p = other.predict_proba(rows)
            expected = np.log(np.where(y[test] == 1, p, 1.0 - p)).sum(axis=1)
        else:
            p = other.predict_proba(rows)
            expected = np.log(p[np.arange(len(test)), np.searchsorted(model.classes_, y[test])])
        np.testing.assert_allclose(own[test], expected, rtol=1e-6)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_left_out_samples_are_predicted_as_by_a_fit_without_their_targets(kind):
    model, _ = fitted(kind, inference=CHAINS, bank=SIMPLE)
    view = fitted_bemkl(model)
    refits = refits_of(view)
    own = refits.own.elpd_i
    for i in (0, 7):
        others = np.delete(np.arange(N), i)
        stack = refits.stack.rows(others)  # the sample has a weight of its own in either fit
        refit, _ = refits._fit(stack, model.target_[others], np.ones(2, dtype=bool))
        expected = refits._predict(refit, refits.stack.rows([i]), model.target_[[i]])
        assert own[i] == pytest.approx(expected[0], abs=0.12)


def test_draws_of_precisions_are_in_the_cavities(gibbs_regression_model):
    view = fitted_bemkl(gibbs_regression_model)
    (problem,) = view.problems()
    found = leave_one_out_of_draws(view, [problem])
    draws, i = view.draws(100, np.random.default_rng(0))[0].flat(), 3
    others = np.delete(np.arange(len(problem.y)), i)
    log_density = []
    for t in range(200):
        mixed = problem.stack.combine(draws.kernel_weights[t]) / np.sqrt(draws.sample_precision[t])
        square = draws.kernel_weights[t] @ draws.kernel_weights[t]
        noise = 1.0 / draws.noise_precision[t] + square / draws.intermediate_precision[t]
        matrix = mixed @ mixed.T + 1.0 / draws.intercept_precision[t] + noise * np.eye(len(problem.y))
        slope = np.linalg.solve(matrix[np.ix_(others, others)], matrix[others, i])
        spread = np.sqrt(matrix[i, i] - slope @ matrix[others, i])
        log_density.append(stats.norm.logpdf(problem.y[i], slope @ problem.y[others], spread))
    expected = -logsumexp(-np.array(log_density)) + np.log(200) - np.log(gibbs_regression_model.y_scale_)
    assert found.elpd_i[i] == pytest.approx(expected, abs=0.05)


# -------------------------------------------------------------------------------------------------------- the table


@pytest.mark.heavy
@pytest.mark.parametrize("inference", ["vb", CHAINS], ids=["vb", "gibbs"])
def test_table_says_what_is_needed(inference):
    model, _ = fitted("regression", inference=inference, bank=SIMPLE)
    table = relevance(model).set_index("without")
    assert table["verdict"].tolist() == ["clear", "clear", "no evidence"]
    assert set(table["verdict_by"]) == {"elpd"}
    assert table.index.tolist() == ["all", "signal", "noise"]
    assert table["share"]["signal"] == pytest.approx(model.kernel_shares_[0])
    assert ("elbo_diff" in table) == (inference == "vb")
    left = BEMKLRegressor(
        KernelBank(Gaussian(width=1), views={"noise": 1}),
        **{name: getattr(model, name) for name in ("inference", "normalize_y", "tol")},
    ).fit(*(samples()[0], model.target_))
    if inference == "vb":
        assert table["elbo_diff"]["signal"] == pytest.approx(model.elbo_ - left.elbo_, abs=1e-6)
        return
    difference = refits_of(fitted_bemkl(model)).own.elpd_i - refits_of(fitted_bemkl(left)).own.elpd_i
    assert table["elpd_diff"]["signal"] == pytest.approx(difference.sum(), abs=0.5)
    assert table["se"]["signal"] == pytest.approx(np.sqrt(N) * difference.std(), rel=0.1)
    assert "log_evidence_diff" not in table


def test_chosen_scale_is_kept():
    X, y = samples()
    model = BEMKLClassifier(SIMPLE, tol=1e-3, intermediate_scale=1.0).fit(X, y > 0.0)
    assert refits_of(fitted_bemkl(model)).settings["intermediate_scale"] == model.intermediate_scale_
    before = vars(model).copy()
    relevance(model, by="all")
    assert vars(model) == before


@pytest.mark.heavy
def test_precomputed_kernels_and_pipelines_say_the_same():
    X, y = samples()
    X = StandardScaler().fit_transform(X)
    stack = SIMPLE.fit_transform(X)
    whole = BEMKLRegressor(SIMPLE, tol=1e-3).fit(X, y)
    given = BEMKLRegressor("precomputed", kernel_names=list("ab"), tol=1e-3).fit(stack, y)
    piped = make_pipeline(StandardScaler(), BEMKLRegressor(SIMPLE, tol=1e-3)).fit(samples()[0], y)
    table = relevance(whole, by="all")
    assert relevance(piped, by="all").equals(table)
    found = relevance(given, kernels=stack)
    assert set(found["without"]) == {"all", "a", "b"}
    assert found["elpd_diff"][0] == pytest.approx(table["elpd_diff"][0], abs=1e-6)
    with pytest.raises(ValueError, match="`kernels` must be the training kernels of shape"):
        relevance(given)
    with pytest.raises(ValueError, match=r'`by` "view" needs the views of a KernelBank'):
        relevance(given, by="view", kernels=stack)


@pytest.mark.heavy
def test_markov_chains_know_no_evidence(nuts_model, gibbs_several_model):
    for model in (nuts_model, gibbs_several_model):
        (row,) = relevance(model, by="all").to_dict("records")
        assert "log_evidence_diff" not in row
        assert np.isnan(row["pareto_k"])
        assert (row["verdict"], row["verdict_by"]) == ("clear", "elpd")


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_of_several_classes_have_no_evidence_and_several_labels_have():
    X, y = samples()
    model = GPMKLClassifier(SIMPLE, inference=FEW)
    classes, labels = np.digitize(y, [-0.5, 0.5]), np.column_stack([y > 0.0, X[:, 1] > 0.0]).astype(int)
    model.fit(X, classes)
    table, signal = relevance(model), diagnose(model, n_draws=100, random_state=0)["signal"]
    assert "log_evidence_diff" not in table
    assert (table["verdict"][0], table["verdict_by"][0], signal["verdict"]) == ("clear", "elpd", "good")
    assert {verdict.word for verdict in verdicts(model).values()} == {"not tested"}
    assert "log_evidence_diff" not in signal
    assert np.isnan(model.log_evidence_).all()
    assert np.isfinite(relevance(model.fit(X, labels))["log_evidence_diff"]).all()


@pytest.mark.slow
def test_short_chains_are_refitted_with_a_warning(gibbs_regression_model):
    with pytest.warns(ConvergenceWarning, match="3 of 4 refits did not converge"):
        table = relevance(gibbs_regression_model)
    assert table["verdict"].tolist() == ["clear", "clear", "no evidence", "no evidence"]


def test_numbers_of_a_prior_are_those_of_the_kernels_kept():
    model, _ = fitted("regression")
    model.kernel_prior = Dirichlet(np.array([1.0, 2.0, 3.0, 4.0]))
    kept = np.array([False, True, False, True])
    prior = refits_of(fitted_bemkl(model))._kernel_prior(kept)
    np.testing.assert_array_equal(prior.concentration, [2.0, 4.0])
    model.kernel_prior = "nonsparse"
    assert refits_of(fitted_bemkl(model))._kernel_prior(kept) == "nonsparse"


@pytest.mark.heavy
def test_landmarks_stay_where_they_are():
    X, y = samples()
    model = BEMKLRegressor(KernelBank([Gaussian(width=1)], landmarks=8), tol=1e-4).fit(X, y)
    assert relevance(model, by="all")["verdict"][0] == "clear"


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("estimator", [GPMKLRegressor, GPMKLClassifier])
def test_verdicts_are_those_of_refits(estimator, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 6))
    y = np.sin(X[:, 0]) + rng.normal(size=50)
    bank = KernelBank("auto", views={"a": [0, 1], "b": [2, 3], "c": [4, 5]})
    inference = Marginal(n_points=2048)  # evidences of 512 are known to two tenths
    model = estimator(bank, inference=inference, random_state=0)
    model.fit(X, y if estimator is GPMKLRegressor else y > 0)
    before = vars(model).copy()
    found = verdicts(make_pipeline(model))
    assert vars(model) == before
    assert verdicts(model) == found
    assert list(found) == ["all views", "a", "b", "c", "views together"]
    table = relevance(model).set_index("without")
    for name, verdict in found.items():
        by_refit = table.loc[name.replace("all views", "all")]
        assert verdict.log_bayes_factor == pytest.approx(by_refit["log_evidence_diff"], abs=0.3)
        assert verdict.word == word_of(verdict.log_bayes_factor)
        assert by_refit["verdict"] == word_of(by_refit["log_evidence_diff"])


def test_one_view_has_the_verdict_of_all_and_bounds_have_none(regression_model):
    X, y = samples()
    model = GPMKLRegressor(KernelBank("auto", views={"all of it": [0, 1]}), inference=FEW).fit(X[:, :2], y)
    found = verdicts(model)
    assert found["all of it"] == found["all views"]
    assert {verdict.word for verdict in verdicts(regression_model).values()} == {"not tested"}
    assert "was not tested" in sentence(verdicts(regression_model))


@pytest.mark.parametrize(
    ("every", "views", "expected"),
    [
        (-0.4, {"a": 0.2}, "No evidence that these views predict the outcome (log Bayes factor -0.4)."),
        (-2.0, {"a": -1.5}, "Evidence against the claim that these views predict the outcome (log Bayes"),
        (9.0, {"a": 4.0, "b": 2.0, "c": 0.3}, "a and b predict the outcome; no evidence for c."),
        (
            9.0,
            {"a": 4.0, "b": -2.0, "c": 0.3, "d": 0.0, "e": np.nan},
            "a predicts the outcome; no evidence for c and d; evidence against b; not tested: e.",
        ),
        (9.0, {"a": 4.0}, "a predicts the outcome."),
        (
            9.0,
            {"a": 0.1, "b": 0.2},
            "These views predict the outcome (log Bayes factor 9.0); the data do not",
        ),
        (np.nan, {"a": np.nan}, "Whether these views predict the outcome was not tested"),
    ],
)
def test_sentence_claims_what_verdicts_support(every, views, expected):
    found = {name: Verdict(value, word_of(value)) for name, value in {"all views": every, **views}.items()}
    assert sentence(found).startswith(expected)


def test_words_of_relevance_are_those_of_verdicts_where_views_have_no_evidence():
    rng = np.random.default_rng(3)  # one of four views of noise looks good by chance
    X, y = rng.normal(size=(40, 4)), rng.normal(size=40)
    bank = KernelBank(Linear(), views={f"v{j}": [j] for j in range(4)})
    model = GPMKLRegressor(bank, together=False, inference=FEW).fit(X, y)
    found, table = verdicts(model), relevance(model).set_index("without")
    assert not found["all views"].predicts
    assert table["log_evidence_diff"].iloc[1:].max() > 1.0
    assert table["verdict"].isin(["no evidence", "evidence against"]).all()
    assert not any(verdict.predicts for verdict in found.values())


def test_models_that_cannot_be_refitted_say_what_to_do(unlabeled_model, incomplete_model, features):
    with pytest.raises(ValueError, match=r"some of its samples are unlabeled\. Fit it to the labeled ones"):
        relevance(unlabeled_model)
    with pytest.raises(ValueError, match=r'missing_views="error" to samples that have all views'):
        relevance(incomplete_model)
    tasks = np.arange(N) % 2
    model = BEMKLMultitaskRegressor(BANK, max_iter=5, tol=0.0).fit(*samples(), tasks=tasks)
    with pytest.raises(TypeError, match="must not be a multitask model"):
        relevance(model)
    assert section(unlabeled_model).verdict == "skipped"
    assert "some of its samples are unlabeled" in section(unlabeled_model).advice


# -------------------------------------------------------------------------------------------------------- diagnosis


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_size_of_the_score_is_that_of_the_draws(kind):
    model, _ = fitted(kind, inference=CHAINS, bank=SIMPLE)
    found = diagnose(model, n_draws=200, random_state=0)["signal"]
    (draws,) = (own.flat() for own in fitted_bemkl(model).draws(200, np.random.default_rng(0)))
    stack = SIMPLE.fit(samples()[0]).train_stack()
    mixed = np.einsum("tm,mij->tij", draws.kernel_weights, stack)
    spread = np.einsum("tij,tj->ti", mixed, draws.dual).std(axis=-1)
    square = (draws.kernel_weights**2).sum(axis=1)
    if kind == "binary":
        noise = 1.0 + model.intermediate_scale_**2 * square
    else:
        noise = 1.0 / draws.noise_precision + square / draws.intermediate_precision
    scale = getattr(model, "y_scale_", 1.0)
    np.testing.assert_allclose(found["score_std"]["mean"], scale * spread.mean())
    explained = spread**2 / (spread**2 + noise)
    np.testing.assert_allclose(found["explained"]["mean"], explained.mean())
    np.testing.assert_allclose(found["explained"]["lower"], np.quantile(explained, 0.03))


def section(model):
    view = fitted_bemkl(model)
    models, _ = evaluate_model(view, 100, np.random.default_rng(0))
    return signal_section(view, sizes_of_draws(models), 0.94)


@pytest.mark.heavy
def test_report_says_that_variational_intervals_are_too_narrow(binary_model, gibbs_model):
    found = section(binary_model)
    assert "vb (too narrow)" in found.lines[0]
    assert "Left-out samples (ten folds) against no kernels" in " ".join(found.lines)
    row = relevance(binary_model, by="all").iloc[0]
    assert found.values["elpd_diff"] == pytest.approx(row["elpd_diff"])
    assert found.verdict == "good"
    assert "too narrow" not in " ".join(section(gibbs_model).lines)


@pytest.mark.parametrize(("n_kernels", "n", "inference"), [(5, 950, "vb"), (1, 600, Gibbs())])
def test_what_takes_long_is_left_to_relevance(n_kernels, n, inference, binary_model):
    model = clone(binary_model).set_params(inference=inference)
    model.__dict__.update({name: value for name, value in vars(binary_model).items() if name.endswith("_")})
    model.target_, model.n_kernels_in_, model.kernel_bank_ = np.ones(n), n_kernels, None
    view = fitted_bemkl(binary_model)._replace(estimator=model)
    if inference != "vb":
        view = view._replace(
            states=(variational_draws(binary_model.posterior_, 5, np.random.default_rng(0)),)
        )
    assert 'made here: `relevance(model, by="all")`' in _why_not(view)
    model.target_ = np.ones(400)
    assert _why_not(view) is None


@pytest.mark.heavy
def test_labels_of_nothing_have_no_signal():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 20)), rng.random(60) < 0.5
    views = {f"view {v}": list(range(5 * v, 5 * v + 5)) for v in range(4)}
    bank = KernelBank([Gaussian(width=1), Gaussian(width=4)], views)
    model = BEMKLClassifier(bank, tol=1e-4, intermediate_scale=1.0).fit(X, y)
    found = section(model)
    assert found.verdict == "caution"
    assert found.advice.startswith("No evidence that the kernels predict the outcome (by left-out samples")
    reweighted = leave_each_out(fitted_bemkl(model), 200, np.random.default_rng(0))  # why there are folds
    assert reweighted.n_bad > 0.9 * 60
    gain = reweighted.elpd_i - refits_of(fitted_bemkl(model)).without_kernels().elpd_i
    assert gain.sum() > 3.0 * np.sqrt(60) * gain.std()


VIEWS = {"a": [0, 1], "b": [2, 3], "c": [4]}
BANK_INTERACTIONS = KernelBank("auto", views=VIEWS)
QUICK = Marginal(n_points=200, n_draws=100)


def _samples(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 5))


@pytest.fixture(scope="module")
def of_product():
    X = _samples(90)
    y = X[:, 0] * X[:, 2] + 0.3 * np.random.default_rng(1).normal(size=90)
    return GPMKLRegressor(BANK_INTERACTIONS, inference=QUICK, random_state=0).fit(X, y), X, y


@pytest.mark.heavy
def test_a_product_of_two_views_is_found_where_views_alone_show_no_signal(of_product):
    model, X, y = of_product
    alone = GPMKLRegressor(BANK_INTERACTIONS, together=False, inference=QUICK, random_state=0).fit(X, y)
    assert relevance(alone, by="all")["verdict"][0] not in ("clear", "weak")
    table = interaction_table(model, random_state=0).set_index("views")
    assert list(table.index[:2]) == ["views together", "a × b"]
    assert table["share_lower"].iloc[:2].min() > 0.5
    assert table["share"].iloc[2:].max() < 0.1
    shares = view_table(model, shares=True).set_index("view")["share"]
    assert table["share"].iloc[0] == pytest.approx(shares["views together"], abs=0.03)
    assert table["share"].iloc[1:].sum() == pytest.approx(table["share"].iloc[0], abs=1e-8)
    refits = relevance(model).set_index("without")
    assert refits.loc["views together", "verdict"] == "clear"
    assert refits.loc[["a", "b"], "elpd_diff"].min() > refits.loc["views together", "elpd_diff"] - 5


@pytest.mark.heavy
def test_without_a_view_the_views_together_are_those_of_the_others(of_product):
    model, X, y = of_product
    bank = KernelBank("auto", views={"a": [0, 1], "b": [2, 3]})
    other = GPMKLRegressor(bank, inference=QUICK, random_state=0).fit(X, y)
    row = relevance(model).set_index("without").loc["c"]
    assert row["log_evidence_diff"] == pytest.approx(model.log_evidence_ - other.log_evidence_, abs=1e-6)


@pytest.mark.heavy
def test_shares_of_pairs_are_those_of_their_mean_components_where_little_is_unknown(of_product):
    model, X, _ = of_product
    of_views = []
    for kernels in np.split(model.kernel_bank_.train_stack()[:-1], [4, 8]):
        centered = [K - K.mean(0) - K.mean(1)[:, None] + K.mean() for K in kernels]
        unit = [K / K.trace() * len(K) for K in centered]
        sizes = [np.square(K).mean() ** 2 for K in unit]
        of_views.append(sum(size * K for size, K in zip(sizes, unit, strict=True)) / sum(sizes))
    means = {
        f"{'abc'[u]} × {'abc'[v]}": (of_views[u] * of_views[v]) @ model.dual_coef_[-1]
        for u, v in [(0, 1), (0, 2), (1, 2)]
    }
    score = model.predict_latent(X)
    table = interaction_table(model, random_state=0).set_index("views")["share"]
    for pair, component in means.items():
        assert table[pair] == pytest.approx(np.cov(component, score)[0, 1] / score.var(ddof=1), abs=0.06)


@pytest.mark.heavy
@pytest.mark.parametrize("task", ["labels", "numbers"])
def test_sums_of_views_have_no_interaction(task):
    X, rng = _samples(120, 3), np.random.default_rng(4)
    score = 1.5 * X[:, 0] + np.sin(2 * X[:, 2])
    bank = KernelBank("auto", views={"a": [0, 1], "b": [2, 3]})
    if task == "labels":
        model = GPMKLClassifier(bank, inference=QUICK, random_state=0).fit(
            X, score + rng.logistic(size=120) > 0
        )
    else:
        model = GPMKLRegressor(bank, inference=QUICK, random_state=0).fit(
            X, score + 0.5 * rng.normal(size=120)
        )
    table = interaction_table(model)
    assert table["views"].tolist() == ["views together", "a × b"]
    assert table["share_lower"].max() < 0.03
    assert table["share"].max() < 0.15


@pytest.mark.heavy
def test_of_many_views_all_pairs_are_one_row(of_product):
    _, X, y = of_product
    views = {f"v{j}": [j % 5, (j + 1 + j // 5) % 5] for j in range(8)}
    model = GPMKLRegressor(KernelBank(Linear(), views), inference=QUICK, random_state=0).fit(X, y)
    assert interaction_table(model)["views"].tolist() == ["views together"]
    assert len(interaction_table(model, [("v0", "v2"), ("v0", "v1")])) == 3


@pytest.mark.heavy
def test_what_has_no_pairs_is_refused(of_product):
    model, X, y = of_product
    one = GPMKLRegressor(KernelBank("auto"), inference=QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"must have the part .*; got one with together=True and 1 views"):
        interaction_table(one)
    with pytest.raises(TypeError, match=r"`model` must be an estimator of .*; got BEMKLRegressor"):
        interaction_table(BEMKLRegressor(BANK_INTERACTIONS).fit(X, y))
    for pairs in ("a × b", ["a"], [("a", "a")], [("a", "z")], [("a", "b", "c")], [(["a"], "b")], []):
        with pytest.raises(ValueError, match="`pairs` must"):
            interaction_table(model, pairs)
    assert isinstance(interaction_table(model, [("c", "a")]), pd.DataFrame)
