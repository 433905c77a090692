"""Temperature of class probabilities: optimum, recovery, leave-one-out and folds that it is learned from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, GPMKLClassifier, KernelBank
from bayesmkl.gp import Marginal
from bayesmkl.kernels import Gaussian, Linear
from bayesmkl.outcomes.labels import PRIOR_STD, find_temperature, tempered
from bayesmkl.posterior import diagnose
from bayesmkl.posterior.fitted import fitted_bemkl
from bayesmkl.posterior.loo import leave_one_out_by_cavities

FEW = Marginal(n_points=150, n_draws=200)
BANK = KernelBank([Gaussian(width=4), Linear()])


def wines(every=4):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return X[::every], y[::every], X[1::every], y[1::every]


@pytest.fixture(scope="module")
def several():
    X, y, *_ = wines()
    return GPMKLClassifier(inference=FEW).fit(X, y)


# ------------------------------------------------------------------------------------------------------- the number


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_temperature_has_the_gradient_zero(scale, rng):
    """By another equation: E_T[l] - l[y] = -u T / s^2 in log T = u, solved for its root."""
    log_p = log_softmax(scale * rng.normal(size=(80, 4)), axis=1)
    truth = np.array([rng.choice(4, p=p) for p in np.exp(log_softmax(log_p / 1.7, axis=1))])
    own = log_p[np.arange(80), truth].sum()

    def slope(u):
        p = np.exp(log_softmax(log_p / np.exp(u), axis=1))
        return (own - (p * log_p).sum()) / np.exp(u) + u / PRIOR_STD**2

    found = find_temperature(log_p, truth)
    assert np.log(found) == pytest.approx(brentq(slope, -4.0, 4.0), abs=1e-6)


@pytest.mark.heavy
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_of_many_labels_is_recovered(temperature, rng):
    log_p = log_softmax(1.5 * rng.normal(size=(20000, 3)), axis=1)
    p = np.exp(log_softmax(log_p / temperature, axis=1))
    truth = (rng.random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1)
    assert find_temperature(log_p, truth) == pytest.approx(temperature, rel=0.03)


def test_labels_that_are_all_right_or_all_wrong_have_a_finite_temperature(rng):
    log_p = log_softmax(3.0 * rng.normal(size=(30, 3)), axis=1)
    right, wrong = log_p.argmax(axis=1), log_p.argmin(axis=1)
    assert 0.05 < find_temperature(log_p, right) < 1.0 < find_temperature(log_p, wrong) < 50.0
    assert find_temperature(log_p[:1], right[:1]) == pytest.approx(
        1.0, abs=0.3
    )  # one label says next to nothing


def test_without_sharpening_it_is_the_most_likely_one_from_one_on(rng):
    log_p = log_softmax(rng.normal(size=(200, 2)), axis=1)
    truth = (rng.random(200) < np.exp(log_softmax(log_p / 3.0, axis=1))[:, 1]).astype(int)
    grid = np.linspace(1.0, 11.0, 5001)
    likelihoods = [log_softmax(log_p / t, axis=1)[np.arange(200), truth].sum() for t in grid]
    found = find_temperature(log_p, truth, sharpen=False)
    assert found == pytest.approx(grid[np.argmax(likelihoods)], abs=2e-3)
    assert found > find_temperature(log_p, truth) > 1.0  # which has a prior around 1
    assert find_temperature(log_p, log_p.argmax(axis=1), sharpen=False) == 1.0
    assert find_temperature(log_p, log_p.argmin(axis=1), sharpen=False) == pytest.approx(np.exp(2.4))


def test_weights_repeat_samples_and_classes_may_be_in_any_order(rng):
    log_p = log_softmax(2.0 * rng.normal(size=(40, 3)), axis=1)
    truth, counts = rng.integers(3, size=40), rng.integers(3, size=40)
    repeated = find_temperature(np.repeat(log_p, counts, axis=0), np.repeat(truth, counts))
    assert find_temperature(log_p, truth, counts) == pytest.approx(repeated, rel=1e-6)
    order = np.array([2, 0, 1])
    assert find_temperature(log_p[:, order], np.argsort(order)[truth]) == pytest.approx(
        find_temperature(log_p, truth), rel=1e-6
    )


def test_powers_of_probabilities(rng):
    log_p = log_softmax(5.0 * rng.normal(size=(20, 4)), axis=1)
    assert tempered(log_p, 1.0) is log_p
    for temperature in (0.4, 3.0):
        powers = np.exp(log_p) ** (1.0 / temperature)
        expected = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.exp(tempered(log_p, temperature)), expected, rtol=1e-12)
        np.testing.assert_array_equal(expected.argmax(axis=1), log_p.argmax(axis=1))
    np.testing.assert_allclose(tempered(tempered(log_p, 0.4), 2.5), log_p, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------------------------------------- in estimators


@pytest.mark.heavy
def test_processes_take_it_from_labels_that_are_left_out(several):
    X, y, X_new, y_new = wines()
    left_out = leave_one_out_by_cavities(fitted_bemkl(several)).log_probabilities
    assert several.temperature_ == pytest.approx(find_temperature(left_out, y), rel=1e-6)
    assert several.temperature_ < 0.8  # wines are told apart more surely than scores against the rest say
    plain = clone(several).set_params(temperature=1.0).fit(X, y)
    p = plain.predict_proba(X_new)
    powers = p ** (1.0 / several.temperature_)
    np.testing.assert_allclose(
        several.predict_proba(X_new), powers / powers.sum(axis=1, keepdims=True), rtol=1e-9
    )
    np.testing.assert_array_equal(several.predict(X_new), plain.predict(X_new))
    np.testing.assert_allclose(
        several.decision_function(X_new) * several.temperature_, plain.decision_function(X_new), rtol=1e-12
    )
    assert log_loss(y_new, several.predict_proba(X_new)) < log_loss(y_new, p) - 0.01
    for name in ("elpd_i_", "kernel_shares_", "log_evidence_"):  # of the posterior
        np.testing.assert_array_equal(getattr(several, name), getattr(plain, name))


def test_calibration_is_that_of_predicted_probabilities(several):
    left_out = leave_one_out_by_cavities(fitted_bemkl(several)).log_probabilities
    own = tempered(left_out, several.temperature_)[np.arange(len(left_out)), wines()[1]]
    found = diagnose(several, n_draws=100, random_state=0)
    assert found["calibration"]["log_loss"] == pytest.approx(-own.mean())
    assert found["loo"]["elpd"] == pytest.approx(several.elpd_i_.sum())  # of the posterior


@pytest.mark.heavy
def test_two_classes_and_labels_have_none_but_a_given_one():
    X, y, X_new, _ = wines()
    labels = np.column_stack([y == 0, y == 2]).astype(int)
    for target in (y == 1, labels):
        plain = GPMKLClassifier(BANK, inference=FEW).fit(X, target)
        assert plain.temperature_ == 1.0
        model = clone(plain).set_params(temperature=0.7).fit(X, target)
        np.testing.assert_allclose(0.7 * model.decision_function(X_new), plain.decision_function(X_new))
        p = model.predict_proba(X_new)
        odds = model.decision_function(X_new)
        np.testing.assert_allclose(p if target is labels else p[:, 1], expit(odds), rtol=1e-9)
        np.testing.assert_array_equal(model.predict(X_new), plain.predict(X_new))
    having = leave_one_out_by_cavities(fitted_bemkl(model)).log_probabilities
    powers = np.exp(np.stack([np.log(-np.expm1(having)), having])) ** (1.0 / 0.7)
    own = np.where(labels == 1, powers[1], powers[0]) / powers.sum(axis=0)
    found = diagnose(model, n_draws=100, random_state=0)["calibration"]
    assert found["log_loss"] == pytest.approx(-np.log(own).sum(axis=1).mean(), rel=1e-6)


@pytest.mark.heavy
def test_two_classes_of_bemkl_are_flatter_where_folds_say_so():
    """Never sharper; and labels that views say nothing of have probabilities near their frequencies."""
    rng = np.random.default_rng(4)
    X, y, X_new, _ = wines(every=3)
    clear = BEMKLClassifier(BANK).fit(X, y == 1)
    assert clear.temperature_ == 1.0
    coin, coin_new = rng.integers(0, 2, size=len(X)), rng.integers(0, 2, size=len(X_new))
    none = BEMKLClassifier(BANK).fit(X, coin)
    assert none.temperature_ > 1.2
    plain = clone(none).set_params(temperature=1.0).fit(X, coin)
    np.testing.assert_allclose(
        none.temperature_ * none.decision_function(X_new), plain.decision_function(X_new), rtol=1e-9
    )
    flat, bold = (log_loss(coin_new, model.predict_proba(X_new)) for model in (none, plain))
    assert flat < bold


@pytest.mark.heavy
def test_bemkl_takes_it_from_the_folds_that_choose_the_scale():
    X, y, X_new, _ = wines(every=3)
    model = BEMKLClassifier(BANK).fit(X, y)
    held_out, truth = np.zeros((len(y), 3)), np.searchsorted(model.classes_, y)
    kernels = model.kernel_bank_.fit_transform(X)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        own = BEMKLClassifier("precomputed", tol=1e-3)
        for scale in (each for each in (1.0, 0.3, 0.1) if each >= model.intermediate_scale_):
            own.set_params(intermediate_scale=scale).fit(kernels[np.ix_(train, train)], y[train])
            own.set_params(init=own.posterior_)
        assert own.temperature_ == 1.0  # nothing is held out of it
        held_out[test] = np.log(own.predict_proba(kernels[np.ix_(test, train)]))
    assert model.temperature_ == pytest.approx(find_temperature(held_out, truth), rel=1e-6)
    assert model.temperature_ != 1.0
    plain = clone(model).set_params(temperature=1.0).fit(X, y)
    powers = plain.predict_proba(X_new) ** (1.0 / model.temperature_)
    np.testing.assert_allclose(
        model.predict_proba(X_new), powers / powers.sum(axis=1, keepdims=True), rtol=1e-9
    )
    np.testing.assert_array_equal(model.predict(X_new), plain.predict(X_new))
    two = BEMKLClassifier(BANK, temperature=2.0, intermediate_scale=1.0).fit(X, y == 1)
    np.testing.assert_allclose(two.predict_proba(X_new)[:, 1], expit(two.decision_function(X_new)), rtol=1e-9)
    as_it_is = clone(two).set_params(temperature="auto").fit(X, y == 1)
    np.testing.assert_allclose(2.0 * two.decision_function(X_new), as_it_is.decision_function(X_new))


@pytest.mark.parametrize("estimator", [BEMKLClassifier, GPMKLClassifier])
@pytest.mark.parametrize("value", ["hot", 0.0, -1.0, np.nan, np.inf, None, True])
def test_temperature_that_is_neither_auto_nor_positive(estimator, value):
    X, y, *_ = wines(every=20)
    with pytest.raises(ValueError, match="`temperature` must be"):
        estimator(temperature=value).fit(X, y == 1)
