"""What `benchmarks/outcomes.py` scores predictions by, which targets it corrupts, and what it says of cut points."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from _outcome_data import SHORT, diabetes, simulated_grades
from _outcome_models import MODELS, log_predictive
from outcomes import ranked_probability_score
from scipy.special import logsumexp
from scipy.stats import norm
from statsmodels.miscmodels.ordinal_model import OrderedModel

from bayesmkl import GPMKLRegressor, KernelBank
from bayesmkl.gp import Marginal

FEW = Marginal(n_points=100, n_draws=100)


def test_ranked_probability_score_is_that_of_its_definition(rng):
    p, y = rng.dirichlet(np.ones(4), size=5), np.array([0, 3, 1, 2, 2])
    found = [
        (sum(p[i, : k + 1]) - (y[i] <= k)) ** 2 for i in range(5) for k in range(3)
    ]  # over samples and cut points
    assert ranked_probability_score(y, p) == pytest.approx(np.mean(found), abs=1e-12)


def test_log_scores_are_those_of_the_mixture_of_points():
    split = diabetes(0, n_train=40)
    model = GPMKLRegressor(KernelBank(["linear"]), inference=FEW).fit(split.X, split.y)
    X, y = split.X_test[:50], (split.y_test[:50] - model.y_mean_) / model.y_scale_
    moments = model._moments(X)
    std = np.sqrt(moments.variance[:, 0] + moments.parameters[:, 0] ** 2)
    each = norm.logpdf(y, moments.mean[:, 0], std) + np.log(moments.probability)[:, None]
    expected = logsumexp(each, axis=0) - np.log(model.y_scale_)
    np.testing.assert_allclose(log_predictive(model, X, split.y_test[:50]), expected, atol=0.1)


@pytest.mark.parametrize("law", ["probit", "logit"])
def test_ordered_models_are_those_of_statsmodels(law):
    split = simulated_grades(0, 60, 1)
    split = split._replace(X_test=split.X, y_test=split.y)
    found = MODELS["grades"][f"ordered {law}"](split, None)
    own = OrderedModel(split.y, split.X, distr=law).fit(method="bfgs", disp=False)
    likelihood = np.log(found.probabilities[np.arange(60), split.y]).sum()
    assert likelihood == pytest.approx(own.llf, abs=1e-3)
    lower, middle, upper = found.distances
    assert np.all((lower < middle) & (middle < upper))


def test_count_models_are_those_of_statsmodels():
    split = SHORT["simulated counts"].draw(0)
    split = split._replace(X_test=split.X, y_test=split.y)
    found = MODELS["counts"]["Poisson GLM"](split, None)
    assert found.log_scores.sum() == pytest.approx(
        sm.GLM(split.y, sm.add_constant(split.X), sm.families.Poisson()).fit().llf
    )
    y = np.random.default_rng(0).negative_binomial(2, 0.3, size=len(split.y)).astype(float)
    split = split._replace(y=y, y_test=y)
    found = MODELS["counts"]["negative binomial"](split, None)
    assert found.log_scores.sum() == pytest.approx(
        sm.NegativeBinomial(y, sm.add_constant(split.X)).fit(disp=0).llf
    )
