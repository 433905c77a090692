"""Leave-one-out accuracy agrees with exact computations and with ArviZ; comparisons rank models by it."""

from __future__ import annotations

import types
import warnings

import arviz_stats
import numpy as np
import pytest
from arviz_base import from_dict
from helpers import binary_problem, random_kernels, regression_problem
from scipy import stats
from scipy.special import ndtr

from bayesmkl import BEMKLRegressor, KernelBank
from bayesmkl.bemkl.model import Priors
from bayesmkl.bemkl.moments import Gamma
from bayesmkl.outcomes import Labels
from bayesmkl.posterior import compare_loo, to_datatree
from bayesmkl.posterior.checks import prior_draws
from bayesmkl.posterior.diagnose import leave_one_out_section
from bayesmkl.posterior.evaluated import Evaluated, evaluate_model
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo import leave_one_out

N_PRIOR, N_DRAWS = 100_000, 4000


def exact_problem(task, rng):
    """Five samples and priors that are nearly normal: a Student t with 2 degrees of freedom gives large k-hats."""
    kernels, light = random_kernels(rng, 5, 2), Gamma(5.0, 5.0)
    if task == "classification":
        return binary_problem(kernels, [1.0, -1.0, 1.0, 1.0, -1.0], Priors(light, light, light), margin=0.5)
    return regression_problem(kernels, [0.3, -0.8, 1.1, 0.2, -0.4], Priors(*[light] * 5))


def posterior_by_rejection(problem, rng):
    """Independent draws from the exact posterior: prior draws, resampled by their likelihood."""
    prior = prior_draws(problem, N_PRIOR, rng)
    likelihood = np.exp(Evaluated(problem, prior).log_likelihood)
    p = likelihood.prod(axis=1)
    kept = rng.choice(N_PRIOR, size=N_DRAWS, p=p / p.sum())
    return prior.flat(), likelihood, prior.flat().map(lambda values: values[kept][None])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_exact_leave_one_out(task, rng):
    problem = exact_problem(task, rng)
    prior, likelihood, draws = posterior_by_rejection(problem, rng)
    model, everything = Evaluated(problem, draws), Evaluated(problem, prior.map(lambda values: values[None]))
    fitted = types.SimpleNamespace(estimator=types.SimpleNamespace(y_scale_=2.0))
    found = leave_one_out(fitted, [model])
    assert found.pareto_k.max() < 0.7
    for i in range(5):
        others = np.delete(likelihood, i, axis=1).prod(axis=1)  # the posterior without sample i, unnormalized
        expected = np.average(likelihood[:, i], weights=others)
        if task == "classification":
            sides = [
                ndtr((sign * everything.means[:, i] - 0.5) / everything.scales[:, 0]) for sign in (-1.0, 1.0)
            ]
            expected /= np.average(sum(sides), weights=others)
            assert np.exp(found.log_probabilities[i]).sum() == pytest.approx(1.0)
        else:
            below = stats.norm.cdf((problem.y[i] - everything.means[:, i]) / everything.scales[:, 0])
            assert found.pit[i] == pytest.approx(np.average(below, weights=others), abs=0.03)
            expected /= 2.0  # the target was divided by y_scale_
            assert np.exp(found.lpd_i[i]) == pytest.approx(np.exp(model.log_likelihood[:, i]).mean() / 2.0)
        assert found.elpd_i[i] == pytest.approx(np.log(expected), abs=0.08)
    assert found.elpd == pytest.approx(found.elpd_i.sum())


@pytest.mark.parametrize("name", ["gibbs_model", "gibbs_regression_model"])
def test_other_library_loo_of_chains(name, request):
    model = request.getfixturevalue(name)
    fitted = fitted_bemkl(model)
    models, log_ratios = evaluate_model(fitted, None, np.random.default_rng(0))
    assert log_ratios is None
    found = leave_one_out(fitted, models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = arviz_stats.loo(to_datatree(model), reff=1.0).elpd
    total = found.elpd if name == "gibbs_regression_model" else found.margin_elpd
    assert total == pytest.approx(expected, abs=0.02 * abs(expected) + 0.5)  # r_eff is another


def test_several_classes_share_one_probability(gibbs_several_model):
    fitted = fitted_bemkl(gibbs_several_model)
    models, _ = evaluate_model(fitted, None, np.random.default_rng(0))
    found, own = leave_one_out(fitted, models), [leave_one_out(fitted, [model]) for model in models]
    assert found.margin_elpd == pytest.approx(sum(one.margin_elpd for one in own))
    np.testing.assert_array_equal(found.pareto_k, np.max([one.pareto_k for one in own], axis=0))
    p = np.exp(np.column_stack([one.log_probabilities[:, 1] for one in own]))
    np.testing.assert_allclose(np.exp(found.log_probabilities), p / p.sum(axis=1, keepdims=True))
    true = np.searchsorted(gibbs_several_model.classes_, fitted.target)
    np.testing.assert_array_equal(found.elpd_i, found.log_probabilities[np.arange(40), true])


def test_other_library_loo_of_variational_draws(binary_model):
    fitted = fitted_bemkl(binary_model)
    models, log_ratios = evaluate_model(fitted, 500, np.random.default_rng(2))
    found = leave_one_out(fitted, models, log_ratios)
    tree = to_datatree(binary_model, 500, random_state=2)
    log_p, log_q = (tree["sample_stats"][name].values.ravel() for name in ("lp", "log_variational"))
    given = from_dict(
        {"posterior": {"b": log_p[None]}, "log_likelihood": {"y": models[0].log_likelihood[None]}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = arviz_stats.loo_approximate_posterior(given, log_p, log_q, pointwise=True)
    assert found.margin_elpd == pytest.approx(expected.elpd, rel=1e-6)
    np.testing.assert_allclose(found.pareto_k, expected.pareto_k, rtol=1e-4)
    assert found.approximate
    assert not leave_one_out(fitted, models).approximate


def test_samples_without_influence_do_no_harm(gibbs_model):
    """A sample whose likelihood is one in every draw has equal ratios, at which ArviZ raises."""
    fitted = fitted_bemkl(gibbs_model)
    models, _ = evaluate_model(fitted, None, np.random.default_rng(0))
    models[0].log_likelihood[:, 3] = 0.0
    found = leave_one_out(fitted, models)
    assert found.pareto_k[3] == 0.0
    assert np.isfinite(found.elpd)


def test_section_says_whether_to_believe_it(binary_model, gibbs_regression_model):
    fitted = fitted_bemkl(binary_model)
    models, log_ratios = evaluate_model(fitted, 400, np.random.default_rng(2))
    corrected, plain = leave_one_out(fitted, models, log_ratios), leave_one_out(fitted, models)
    section = leave_one_out_section(corrected, plain, False)
    assert section.verdict == "bad"
    assert section.values["n_bad_k"] == 40
    assert section.values["as_it_is"]["elpd"] == plain.elpd
    assert "too optimistic" in section.advice
    good = corrected._replace(pareto_k=np.full(40, 0.3), approximate=False)
    assert leave_one_out_section(good, None, False).verdict == "good"
    one_bad = good._replace(pareto_k=np.r_[0.9, np.full(39, 0.3)])
    assert leave_one_out_section(one_bad, None, False).verdict == "caution"


# ------------------------------------------------------------------------------------------------------- comparison


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(8)
    X = rng.uniform(-2.0, 2.0, size=(50, 1))
    return X, np.sin(3.0 * X[:, 0]) + rng.normal(scale=0.2, size=50)


def test_better_model_comes_first(waves):
    X, y = waves
    models = {kernel: BEMKLRegressor(KernelBank([kernel])).fit(X, y) for kernel in ("linear", "rbf")}
    frame = compare_loo(models, n_draws=200, random_state=0)
    assert frame.index.tolist() == ["rbf", "linear"]
    assert abs(frame.loc["linear", "elpd_diff"]) > 10.0
    assert frame["inference"].tolist() == ["vb", "vb"]
    fitted = fitted_bemkl(models["rbf"])
    own, log_ratios = evaluate_model(fitted, 200, np.random.default_rng(0))
    found = leave_one_out(fitted, own, log_ratios)
    assert frame.loc["rbf", "elpd"] == pytest.approx(found.elpd, rel=1e-12)
    assert frame.loc["rbf", "bad_k"] == found.n_bad


def test_degenerate_scale_of_the_target_does_not_matter(waves):
    X, y = waves
    bank = KernelBank(["rbf"])
    models = {"raw": BEMKLRegressor(bank).fit(X, y), "again": BEMKLRegressor(bank).fit(X, y)}
    scaled = BEMKLRegressor(bank).fit(X, 100.0 * y)
    fitted = [fitted_bemkl(model) for model in (models["raw"], scaled)]
    elpd = [leave_one_out(f, *evaluate_model(f, 200, np.random.default_rng(0))).elpd for f in fitted]
    assert elpd[1] == pytest.approx(elpd[0] - 50 * np.log(100.0), abs=1e-3)
    with pytest.raises(
        ValueError,
        match=r"`models` must be fitted to the same samples .* 'scaled' differ from those of 'raw'",
    ):
        compare_loo({"raw": models["raw"], "scaled": scaled})


def test_density_of_several_targets_is_in_the_units_of_each(target_model, targets):
    """The density of a row of targets, in their own units, averaged over the draws without any reweighting."""
    fitted, (center, scale) = fitted_bemkl(target_model), (target_model.y_mean_, target_model.y_scale_)
    assert (
        scale.max() > 2.0 * scale.min()
    )  # else their sum and their mean would be told apart by nothing but a factor
    models, log_ratios = evaluate_model(fitted, 300, np.random.default_rng(0))
    found = leave_one_out(fitted, models, log_ratios)
    laws = [
        stats.norm(center[j] + scale[j] * output.means, scale[j] * output.scales)
        for j, output in enumerate(models[0].outputs)
    ]
    density = np.prod([law.pdf(targets[:, j]) for j, law in enumerate(laws)], axis=0)  # (n_draws, n_samples)
    np.testing.assert_allclose(found.lpd_i, np.log(density.mean(axis=0)), rtol=1e-9)
    assert found.values()["p_loo"] == pytest.approx(np.log(density.mean(axis=0)).sum() - found.elpd)


def test_units_of_two_targets_shift_the_accuracy_by_both_logarithms(features, bank, targets):
    scales, found = np.array([10.0, 1000.0]), []
    for y in (targets, targets * scales):
        fitted = fitted_bemkl(BEMKLRegressor(bank, tol=1e-2).fit(features, y))
        found.append(leave_one_out(fitted, *evaluate_model(fitted, 150, np.random.default_rng(0))))
    np.testing.assert_allclose(found[0].elpd_i - found[1].elpd_i, np.log(scales).sum(), atol=1e-3)


def test_margins_cost_likelihood_but_not_predictions(binary_model):
    """The likelihood of the same draws falls with the margin, because it is not normalized over labels."""
    fitted = fitted_bemkl(binary_model)
    (model,), _ = evaluate_model(fitted, 300, np.random.default_rng(0))
    results = {}
    for margin in (0.0, 2.0):
        results[margin] = leave_one_out(
            fitted, [Evaluated(model.problem._replace(outcome=Labels(margin)), model.draws)]
        )
        np.testing.assert_allclose(np.exp(results[margin].log_probabilities).sum(axis=1), 1.0)
    assert results[0.0].elpd == pytest.approx(results[0.0].margin_elpd)  # without a margin they are the same
    assert results[0.0].margin_elpd - results[2.0].margin_elpd > 15.0
    assert results[2.0].elpd > results[0.0].elpd - 1.0


def test_precomputed_kernels_are_passed_by_name(waves):
    X, y = waves
    stack = KernelBank(["rbf"]).fit_transform(X)
    models = {
        "bank": BEMKLRegressor(KernelBank(["rbf"])).fit(X, y),
        "stack": BEMKLRegressor("precomputed").fit(stack, y),
    }
    frame = compare_loo(models, kernels={"stack": stack}, n_draws=150, random_state=0)
    assert frame.loc["bank", "elpd"] == pytest.approx(frame.loc["stack", "elpd"], abs=1e-6)
    with pytest.raises(ValueError, match="`kernels` must be the training kernels"):
        compare_loo(models)


def test_comparison_refuses_what_it_cannot_compare(binary_model, regression_model):
    with pytest.raises(ValueError, match="`models` must be a mapping of names to at least two fitted models"):
        compare_loo({"only": binary_model})
    with pytest.raises(ValueError, match="the targets of 'b' differ from those of 'a'"):
        compare_loo({"a": binary_model, "b": regression_model}, n_draws=100)
    with pytest.raises(ValueError, match="`method` must be one of"):
        compare_loo({"a": binary_model, "b": binary_model}, method="waic")
    with pytest.raises(ValueError, match="`n_draws` must be a whole number >= 100; got 10"):
        compare_loo({"a": binary_model, "b": binary_model}, n_draws=10)
