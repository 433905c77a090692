"""BEMKL estimators: scikit-learn's contract, equivalences between their inputs, recovery, and bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import VB, Gamma
from bayesmkl.datasets import load_diabetes, load_iris, load_wdbc, make_multiview
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear, Polynomial

pytestmark = pytest.mark.heavy

BANK = KernelBank(
    [Gaussian(width=2), Linear(), Polynomial(degree=2)], views={"left": [0, 1], "right": [2, 3]}
)

# The paper's loop: a fixed number of plain sweeps, so that rounding decides neither a path nor where it ends.
PAPER = {"inference": VB(accelerate=False), "tol": 0.0, "max_iter": 200}


@pytest.fixture(scope="module")
def wdbc():
    data = load_wdbc()
    rows = np.random.default_rng(0).permutation(len(data.target))[:160]
    X = StandardScaler().fit_transform(data.data[rows][:, [0, 1, 6, 7]])
    return X, data.target[rows]


@pytest.fixture(scope="module")
def fitted(wdbc):
    X, y = wdbc
    return BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X[:100], y[:100])


# ------------------------------------------------------------------------------------------------- equivalences


def test_other_library_cross_validation_slices_a_precomputed_stack(wdbc):
    X, y = wdbc
    X, y = X[:90], y[:90]
    bank = KernelBank(
        [Gaussian(width=2), Linear()], normalize=None
    )  # without statistics: equal in every fold
    folds, stack = StratifiedKFold(3), clone(bank).fit_transform(X)
    whole = cross_val_predict(BEMKLClassifier(bank, **PAPER), X, y, cv=folds, method="predict_proba")
    sliced = BEMKLClassifier("precomputed", **PAPER)
    stack_p = cross_val_predict(sliced, stack, y, cv=folds, method="predict_proba")
    np.testing.assert_allclose(stack_p, whole, atol=1e-9)
    scores = cross_val_score(sliced, stack, y, cv=folds)
    by_hand = [accuracy_score(y[test], stack_p[test].argmax(axis=1) * 2 - 1) for _, test in folds.split(X, y)]
    np.testing.assert_allclose(scores, by_hand)


def test_contract_grid_search_over_bank_parameters_in_a_pipeline(wdbc):
    X, y = wdbc
    model = make_pipeline(
        StandardScaler(),
        BEMKLClassifier(KernelBank([Linear(), Gaussian(width=1)]), max_iter=60, intermediate_scale=1.0),
    )
    grid = {
        "bemklclassifier__kernels__normalize": ["spherical", ("center", "spherical")],
        "bemklclassifier__kernel_prior": ["sparse", Gamma(1.0, 1.0)],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(model, grid, cv=2, scoring="neg_log_loss").fit(X[:80], y[:80])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) == 4  # every parameter has an effect
    assert search.score(X[80:], y[80:]) > -0.4


def test_degenerate_one_versus_all_is_binary_fits_per_class():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::3]
    y = y[::3]
    model = BEMKLClassifier(BANK, multiclass="one-versus-all", intermediate_scale=1.0).fit(X, y)
    assert model.kernel_weights_.shape == (3, 6)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    elbo = 0.0
    for k, label in enumerate(model.classes_):
        binary = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X, y == label)
        np.testing.assert_allclose(model.kernel_weights_[k], binary.kernel_weights_, rtol=1e-10)
        np.testing.assert_allclose(model.decision_function(X)[:, k], binary.decision_function(X), rtol=1e-9)
        elbo += binary.elbo_
    assert model.elbo_ == pytest.approx(elbo)
    assert model.score(X, y) > 0.94


def test_degenerate_start_from_a_posterior_is_already_converged(wdbc, fitted):
    X, y = wdbc
    again = BEMKLClassifier(BANK, init=fitted.posterior_, intermediate_scale=1.0).fit(X[:100], y[:100])
    assert again.n_iter_ < fitted.n_iter_ / 2
    assert again.elbo_ >= fitted.elbo_
    assert again.elbo_ == pytest.approx(fitted.elbo_, rel=1e-4)


def test_random_start_is_reproducible_and_reaches_the_same_bound(wdbc, fitted):
    X, y = wdbc
    one, two, other = (
        BEMKLClassifier(BANK, init="random", random_state=seed, intermediate_scale=1.0).fit(X[:100], y[:100])
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.elbo_history_, two.elbo_history_)
    assert one.elbo_history_[0] != other.elbo_history_[0]
    assert one.elbo_ == pytest.approx(fitted.elbo_, abs=0.5)


# ------------------------------------------------------------------------------------------------------ results


def test_recovery_of_kernel_shares():
    data = make_multiview(300, kernel_weights=(1.0, 0.3, 0.0, 0.0), random_state=0)
    bank = KernelBank([Gaussian(width=np.sqrt(2))], views=data.views)
    for prior in ("nonsparse", "sparse"):
        model = BEMKLClassifier(bank, kernel_prior=prior, tol=1e-5, intermediate_scale=1.0).fit(
            data.data, data.target
        )
        assert list(np.argsort(-model.kernel_shares_)[:2]) == [0, 1]
        np.testing.assert_allclose(model.kernel_shares_, data.shares, atol=0.1)
        assert model.kernel_shares_.sum() == pytest.approx(1.0)
    assert np.abs(model.kernel_weights_[2:]).max() < 1e-2  # the sparse prior switches the noise views off


def test_monte_carlo_shares_of_one_draw():
    """With a posterior that is almost a point, shares are the spread of each kernel's part of the score."""
    X = np.random.default_rng(0).normal(size=(40, 4))
    model = BEMKLRegressor(BANK, normalize_y=False, max_iter=1000).fit(X, X[:, 0] + 0.5 * X[:, 2])
    parts = model.kernel_weights_[:, None] * (model.kernel_bank_.train_stack() @ model.dual_coef_)
    expected = parts.std(axis=1) / parts.std(axis=1).sum()
    np.testing.assert_allclose(model.kernel_shares_, expected, atol=4.0 * model.kernel_shares_std_.max())


def test_calibration_paper_rule_is_narrower(wdbc, fitted):
    X, y = wdbc
    paper = BEMKLClassifier(BANK, predictive="paper", intermediate_scale=1.0).fit(X[:100], y[:100])
    mean, std = fitted.predict_latent(X[100:], return_std=True)
    paper_mean, paper_std = paper.predict_latent(X[100:], return_std=True)
    np.testing.assert_allclose(paper_mean, mean, rtol=1e-12)
    assert (paper_std < std).all()
    assert (np.abs(paper.predict_proba(X[100:]) - 0.5) >= np.abs(fitted.predict_proba(X[100:]) - 0.5)).all()


def test_far_tail_decision_values_stay_finite(wdbc, fitted):
    X, y = wdbc
    model = BEMKLClassifier(KernelBank(Linear(), normalize=None), intermediate_scale=1.0).fit(X, y)
    far = model.decision_function(np.array([[1e4] * 4, [-1e4] * 4]))
    assert np.isfinite(far).all()
    assert (far[0] > 0) != (far[1] > 0)
    assert np.isfinite(model.predict_proba(np.full((1, 4), 1e8))).all()


def test_regression_intervals_cover():
    X, y = load_diabetes(return_X_y=True)
    covered, narrow, bank = [], [], KernelBank([Gaussian(width=4), Linear()])
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        model = make_pipeline(StandardScaler(), BEMKLRegressor(bank)).fit(X[train], y[train])
        for rule, hits in (("full", covered), ("paper", narrow)):
            model[-1].set_params(predictive=rule)
            mean, std = model.predict(X[test], return_std=True)
            hits.extend(np.abs(y[test] - mean) < 1.959964 * std)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.mean(narrow) < np.mean(covered)


# ----------------------------------------------------------------------------------------------------- warnings


def test_one_convergence_warning_with_the_remedy():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=3 sweeps.*above tol=1e-06.*Increase") as caught:
        model = BEMKLClassifier(BANK, max_iter=3, multiclass="one-versus-all", intermediate_scale=1.0).fit(
            X, y
        )
    assert len(caught) == 1  # for three binary models
    assert not model.converged_
    assert model.outcome_ == (Outcome.MAX_ITER,) * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BEMKLClassifier(BANK, max_iter=3, tol=0.0, intermediate_scale=1.0).fit(
            X, y
        )  # a fixed number of sweeps was asked for


def test_one_warning_names_doubtful_kernels(wdbc):
    X, y = wdbc
    bank = KernelBank([Gaussian(width=1e-3), Linear(), Linear()])
    with pytest.warns(KernelQualityWarning, match=r"gaussian\(width=0.001\)") as caught:
        BEMKLClassifier(bank, intermediate_scale=1.0).fit(X, y)
    assert len(caught) == 1
    assert "linear · all #2" in str(caught[0].message)


# ---------------------------------------------------------------------------------------------------- bad input


def test_bad_posterior_to_start_from(wdbc, fitted):
    X, y = wdbc
    with pytest.raises(ValueError, match="over 6 kernels and 90 samples; got one over 6 and 100"):
        BEMKLClassifier(BANK, init=fitted.posterior_, intermediate_scale=1.0).fit(X[:90], y[:90])
    with pytest.raises(ValueError, match=r"one posterior per model \(1\); got 2"):
        BEMKLClassifier(BANK, init=(fitted.posterior_, fitted.posterior_), intermediate_scale=1.0).fit(
            X[:100], y[:100]
        )
    with pytest.raises(ValueError, match="of the same kind of targets"):
        BEMKLRegressor(BANK, init=fitted.posterior_).fit(X[:100], y[:100].astype(float))
