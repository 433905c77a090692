"""Additive Gaussian processes in all that takes a fitted model: every function works, or says what to do instead."""

from __future__ import annotations

import warnings

import arviz_stats
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone

import bayesmkl.posterior as p
from bayesmkl import BEMKLClassifier, BEMKLRegressor, GPMKLClassifier, GPMKLRegressor, KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.posterior.diagnose import hyperparameters_section
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo import leave_one_out_by_cavities
from bayesmkl.posterior.tables import MonteCarlo

N = 24
FEW = Marginal(n_points=100, n_draws=200)
BANK = KernelBank([Gaussian(width=1), Linear()], views={"signal": 0, "noise": 1})


def samples(n=N):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


def targets(kind, n=N):
    X, y = samples(n)
    return {
        "binary": np.where(y > 0.0, "yes", "no"),
        "classes": np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])],
        "labels": np.column_stack([y > 0.0, X[:, 1] > 0.3]).astype(int),
        "regression": 10.0 * y,
        "targets": np.column_stack([10.0 * y, X[:, 1] - y]),
        "precomputed": 10.0 * y,
    }[kind]


@pytest.fixture(scope="module")
def models():
    found = {}
    for kind in KINDS:
        cls = GPMKLClassifier if kind in ("binary", "classes", "labels") else GPMKLRegressor
        X, kernels = samples()[0], BANK
        if kind == "precomputed":
            X, kernels = BANK.fit_transform(X), "precomputed"
        found[kind] = cls(kernels, inference=FEW).fit(X, targets(kind))
    return found


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


KINDS = ("binary", "classes", "labels", "regression", "targets", "precomputed")
WORKING = {
    "compare_loo": lambda model, path: p.compare_loo({"a": model, "b": model}),
    "contributions": lambda model, path: p.contributions(model, _rows(model), n_draws=30),
    "diagnose": lambda model, path: p.diagnose(model, n_draws=100, random_state=0),
    "feature_table": lambda model, path: p.feature_table(model),
    "kernel_table": lambda model, path: p.kernel_table(model),
    "load_posterior": lambda model, path: p.load_posterior(_saved(model, path)),
    "plot_views": lambda model, path: p.plot_views(model),
    "summary": lambda model, path: p.summary(model),
    "plot_kernel_weights": lambda model, path: p.plot_kernel_weights(model),
    "predict_latent": lambda model, path: p.predict_latent(model, _rows(model)),
    "relevance": lambda model, path: p.relevance(model, by="all"),
    "sample_posterior": lambda model, path: p.sample_posterior(model, 50),
    "save_posterior": lambda model, path: p.save_posterior(model, path / "one.nc", n_draws=30),
    "to_datatree": lambda model, path: p.to_datatree(model, n_draws=50),
    "view_table": lambda model, path: p.view_table(model),
}
REFUSING = {
    "plot_elbo": (p.plot_elbo, "`diagnose` says whether its draws can be relied on"),
    "predict_quantile": (lambda model: p.predict_quantile(model, _rows(model)), "Fit a GPMKLSurvival"),
    "predict_survival_function": (
        lambda model: p.predict_survival_function(model, _rows(model), [1.0]),
        "`model` must be a model with `predict_survival_function`; got GPMKL.*Fit a GPMKLSurvival",
    ),
    "refine_posterior": (p.refine_posterior, "whose draws are the posterior already. Leave it as it is"),
}
NO_VIEWS = {"feature_table"}


def _saved(model, path):
    p.save_posterior(model, path / "posterior.nc", n_draws=30, pointwise=False)
    return path / "posterior.nc"


def _rows(model):
    X = samples()[0][:3]
    return X if model.kernel_bank_ is not None else BANK.fit(samples()[0]).transform(X)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", WORKING)
def test_function_takes_a_process(function, kind, models, tmp_path):
    if kind == "precomputed" and function in NO_VIEWS:
        with pytest.raises(ValueError, match="`model` was fitted to precomputed kernels"):
            WORKING[function](models[kind], tmp_path)
    else:
        WORKING[function](models[kind], tmp_path)


@pytest.mark.parametrize("function", REFUSING)
def test_function_says_what_to_do_instead(function, models):
    call, message = REFUSING[function]
    for kind in KINDS:
        with pytest.raises(TypeError, match=message):
            call(models[kind])


def test_kernels_are_checked_and_not_needed(models):
    X, _ = samples()
    wrong, right = np.ones((N, N, 2)), BANK.fit_transform(X)
    for call in (p.to_datatree, p.diagnose, p.kernel_table):
        with pytest.raises(ValueError, match="`kernels` must be the training kernels of shape"):
            call(models["precomputed"], kernels=wrong)
        with pytest.raises(
            ValueError, match="`kernels` is for models that were fitted to precomputed kernels"
        ):
            call(models["regression"], kernels=right)
        call(models["precomputed"], kernels=right)


# ---------------------------------------------------------------------------------------------------- leave-one-out


def test_left_out_predictions_are_those_of_the_fit(models):
    for kind, model in models.items():
        found = leave_one_out_by_cavities(fitted_bemkl(model))
        np.testing.assert_allclose(found.elpd_i, model.elpd_i_, rtol=1e-9, atol=1e-12)
        assert (found.lpd_i > found.elpd_i).mean() > 0.8
        assert found.pareto_k.shape == (N,)
        if kind in ("binary", "classes"):
            np.testing.assert_allclose(np.exp(found.log_probabilities).sum(axis=1), 1.0)
            codes = np.searchsorted(model.classes_, targets(kind))
            own = found.log_probabilities[np.arange(N), codes]
            np.testing.assert_allclose(own, found.elpd_i, atol=1e-12)


@pytest.mark.parametrize("kind", ["regression", "targets"])
def test_left_out_densities_are_those_of_regressions_on_the_others(kind, models):
    """Conditioned by brute force on all other samples, at every point of the posterior."""
    model = models[kind]
    draws, found = model.posterior_, leave_one_out_by_cavities(fitted_bemkl(model))
    covariance, i = model._covariance(model._stored_training()), 5
    others = np.delete(np.arange(N), i)
    laws = []
    for weights, parameters in zip(draws.kernel_weights, draws.parameters, strict=True):
        laws.append([])
        for y, (noise,) in zip(np.atleast_2d(model.target_), parameters, strict=True):
            matrix = covariance.matrix(weights) + noise**2 * np.eye(N)
            slope = np.linalg.solve(matrix[np.ix_(others, others)], matrix[others, i])
            law = stats.norm(slope @ y[others], np.sqrt(matrix[i, i] - slope @ matrix[others, i]))
            laws[-1].append((law.pdf(y[i]), law.cdf(y[i])))
    density, below = np.moveaxis(laws, -1, 0)
    without = draws.probability / density.prod(axis=1)
    expected = -np.log(without.sum()) - np.log(model.y_scale_).sum()
    assert model.elpd_i_[i] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(found.pit[i], np.squeeze(without @ below / without.sum()), rtol=1e-6)


def test_comparison_of_both_kinds_of_models(models):
    X, _ = samples()
    labels = targets("binary")
    other = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X, labels)
    noise = GPMKLClassifier(KernelBank([Linear()], views={"noise": 1}), inference=FEW).fit(X, labels)
    frame = p.compare_loo(
        {"process": models["binary"], "noise": noise, "bemkl": other}, n_draws=200, random_state=0
    )
    assert frame.loc["process", "elpd"] == pytest.approx(models["binary"].elpd_i_.sum())
    assert frame.loc["noise", "elpd"] == pytest.approx(noise.elpd_i_.sum())
    difference = abs(frame.loc["process", "elpd"] - frame.loc["noise", "elpd"])
    assert difference == pytest.approx((models["binary"].elpd_i_ - noise.elpd_i_).sum())
    assert frame.loc["process", "rank"] < frame.loc["noise", "rank"]
    assert frame["inference"].to_dict() == {"process": "marginal", "noise": "marginal", "bemkl": "vb"}
    assert (
        frame.loc["process", "bad_k"] <= 1
    )  # of 60: the bound of newer ArviZ falls with the number of draws
    regressor = BEMKLRegressor(BANK).fit(X, targets("regression"))
    mixed = p.compare_loo({"a": models["regression"], "b": regressor}, n_draws=100, random_state=0)
    assert mixed.loc["a", "elpd"] == pytest.approx(models["regression"].elpd_i_.sum())
    with pytest.raises(ValueError, match="must be fitted to the same samples"):
        p.compare_loo({"a": models["binary"], "b": models["regression"]})


@pytest.mark.parametrize("kind", KINDS)
def test_other_library_leaves_the_same_out(models, kind):
    """Densities of several classes are normalized over them after averaging here, and before in a tree."""
    tree = p.to_datatree(models[kind], random_state=0)
    with warnings.catch_warnings(
        action="ignore"
    ):  # of k-hats, which mean nothing of weights that hardly vary
        found = arviz_stats.loo(tree, pointwise=True)
    np.testing.assert_allclose(found.elpd_i, models[kind].elpd_i_, rtol=0.02, atol=0.2)
    assert float(found.pareto_k.median()) < 0.5


def test_other_library_does_not_take_variational_draws():
    model = BEMKLRegressor(BANK).fit(samples()[0], targets("regression"))
    with pytest.raises(TypeError, match="log likelihood not found"):
        arviz_stats.loo(p.to_datatree(model, random_state=0))


# ------------------------------------------------------------------------------------------------- Monte Carlo errors


@pytest.mark.slow
def test_shares_of_several_seeds_differ_as_their_errors_say():
    X, y = samples(40)
    model = GPMKLClassifier(BANK, inference=Marginal(n_points=200, n_draws=400))
    tables = [
        p.kernel_table(clone(model).set_params(random_state=seed).fit(X, y > 0.0), shares=True)
        .set_index("kernel")
        .sort_index()
        for seed in range(20)
    ]
    for end in ("share", "share_lower", "share_upper"):
        spread = np.std([table[end] for table in tables], axis=0, ddof=1)
        error = np.sqrt(np.mean([table[f"{end}_mcse"] ** 2 for table in tables], axis=0))
        assert (spread / error > 0.5).all()
        assert (spread / error < 2.0).all()


def test_errors_of_independent_draws_are_the_textbooks(rng):
    """With a point for each draw, and nothing known of them."""
    values = rng.normal(size=(4000, 2))
    links = MonteCarlo(np.arange(4000), np.ones((4000, 1)), 1.0)
    np.testing.assert_allclose(links.of_means(values), 1.0 / np.sqrt(4000), rtol=0.05)
    density = stats.norm.pdf(stats.norm.ppf(0.1))
    expected = np.sqrt(0.1 * 0.9 / 4000) / density
    np.testing.assert_allclose(links.of_quantiles(values, 0.1), expected, rtol=0.25)
    twice = MonteCarlo(np.repeat(np.arange(2000), 2), np.ones((2000, 1)), 1.0)
    same = np.repeat(values[:2000], 2, axis=0)
    np.testing.assert_allclose(twice.of_means(same), 1.0 / np.sqrt(2000), rtol=0.05)
    chains = links._replace(inflation=4.0)
    np.testing.assert_allclose(chains.of_means(values), 2.0 * links.of_means(values))
    np.testing.assert_allclose(links.of_means(np.ones((4000, 1))), 0.0, atol=1e-12)


def test_what_follows_from_known_columns_has_no_error(rng):
    point = rng.integers(50, size=1000)
    point[:50] = np.arange(50)
    column = rng.normal(size=50)
    links = MonteCarlo(point, np.column_stack([np.ones(50), column]), 1.0)
    np.testing.assert_allclose(links.of_means(3.0 * column[point, None] - 1.0), 0.0, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------- diagnosis


def test_diagnosis_has_the_numbers_of_the_model(models):
    for kind, outputs in (("binary", None), ("targets", ["0", "1"])):
        model = models[kind]
        found = p.diagnose(model, n_draws=200, random_state=0)
        assert list(found) == [
            "importance",
            "shares",
            "signal",
            "loo",
            "widths",
            "checks",
            "calibration",
        ]
        assert found["importance"]["pareto_k"] == model.pareto_k_
        assert found["importance"]["ess"] == model.ess_
        assert found["importance"]["unconverged"] == model.unconverged_
        assert found["loo"]["elpd"] == pytest.approx(model.elpd_i_.sum())
        table = p.kernel_table(model, shares=True).sort_values("share", ascending=False)
        np.testing.assert_array_equal(found["shares"]["share_lower_mcse"], table["share_lower_mcse"])
        row = p.relevance(model, by="all").iloc[0]
        assert found["signal"]["elpd_diff"] == row["elpd_diff"]
        assert (found.verdicts["signal"] == "good") == (row["verdict"] in ("clear", "weak"))
        assert (
            (list(found["checks"]) == [*outputs, "verdict", "advice"])
            if outputs
            else "posterior" in found["checks"]
        )
        assert "Leave-one-out accuracy (cavities)" in str(found)
        own = -model.elpd_i_.mean()  # of classes at a temperature of their own: see test_temperature.py
        tempered = getattr(model, "temperature_", 1.0) != 1.0
        assert found["calibration"]["log_loss"] == pytest.approx(own, rel=0.1 if tempered else 1e-6)


def test_size_of_the_score_is_that_of_the_draws(models):
    model = models["regression"]
    found = p.diagnose(model, n_draws=100, random_state=0)["signal"]
    spread = model.y_scale_ * model.posterior_.score[:, 0].std(axis=1)
    assert found["score_std"]["mean"] == pytest.approx(spread.mean())
    assert found["score_std"]["lower"] == pytest.approx(np.quantile(spread, 0.03))
    noise = model.y_scale_ * model.posterior_.parameters[model.posterior_.point, 0, 0]
    assert found["explained"]["mean"] == pytest.approx((spread**2 / (spread**2 + noise**2)).mean())


def test_held_out_densities_are_mixtures_over_the_points(models):
    X_test, y_test = samples(30)[0][N:], targets("regression", 30)[N:]
    model = models["regression"]
    found = p.diagnose(model, X_test, y_test, n_draws=100, random_state=0)["calibration"]
    moments = model._moments(X_test)
    spread = model.y_scale_ * np.sqrt(moments.variance[:, 0] + moments.parameters[:, 0] ** 2)
    log_density = stats.norm.logpdf(y_test, model.y_mean_ + model.y_scale_ * moments.mean[:, 0], spread)
    expected = logsumexp(log_density, b=moments.probability[:, None], axis=0)
    assert found["log_loss"] == pytest.approx(-expected.mean())
    two = p.diagnose(models["targets"], X_test, targets("targets", 30)[N:], n_draws=100)["calibration"]
    assert two["pit"].shape == (6, 2)
    with pytest.raises(ValueError, match="must hold the same samples"):
        p.diagnose(models["targets"], X_test, y_test, n_draws=100)


def test_poor_draws_are_called_so(models):
    fitted = fitted_bemkl(models["binary"])
    poor = clone(models["binary"])
    poor.__dict__.update(models["binary"].__dict__)

    def first(**attributes):
        poor.__dict__.update(attributes)
        return hyperparameters_section(fitted._replace(estimator=poor))

    assert first(pareto_k_=0.9).verdict == "bad"
    assert "Increase `n_points`" in first(pareto_k_=0.9).advice
    assert first(pareto_k_=0.6, ess_=40.0).verdict == "caution"
    assert first(pareto_k_=0.2, ess_=30.0).verdict == "bad"
    found = first(ess_=500.0, unconverged_=0.3)
    assert found.verdict == "bad"
    assert 'approximation="laplace"' in found.advice
    chains = first(unconverged_=0.0, inference=Marginal("nuts"), pareto_k_=np.nan, rhat_=1.2)
    assert (chains.key, chains.verdict) == ("sampling", "bad")
    assert first(rhat_=1.005).verdict == "good"


def test_draws_have_the_names_of_the_tree(models):
    for model in models.values():
        draws, tree = p.sample_posterior(model), p.to_datatree(model, random_state=0)
        assert set(draws) == set(tree["posterior"].data_vars)
        for name, values in draws.items():
            np.testing.assert_array_equal(values, tree["posterior"][name].values[0])
    assert p.sample_posterior(models["binary"], 7)["score"].shape == (7, N)
    with pytest.raises(ValueError, match="`n_draws` must be at most 200"):
        p.sample_posterior(models["binary"], 1000)
