"""BEMKL estimators: scikit-learn's contract, equivalences between their inputs, recovery, and bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.bemkl import VB, Gamma, Storage
from bayesmkl.datasets import load_diabetes, load_iris, load_wdbc, make_multiview
from bayesmkl.kernels import Gaussian, KernelQualityWarning, Linear, Polynomial

pytestmark = pytest.mark.heavy

BANK = KernelBank(
    [Gaussian(width=2), Linear(), Polynomial(degree=2)], views={"left": [0, 1], "right": [2, 3]}
)

# The paper's loop: a fixed number of plain sweeps, so that rounding decides neither a path nor where it ends.
PAPER = {"inference": VB(accelerate=False), "tol": 0.0, "max_iter": 200}


def expected_failures(estimator):
    if isinstance(estimator, BEMKLClassifier):
        reason = (
            "passes features where kernels are needed; SVC(kernel='precomputed') fails it for the same reason"
        )
        return {"check_decision_proba_consistency": reason}
    return {}


@pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [  # few sweeps: the checks are about the interface
        BEMKLClassifier("precomputed", max_iter=15, intermediate_scale=1.0),
        BEMKLRegressor("precomputed", max_iter=15),
    ],
    expected_failed_checks=expected_failures,
)
def test_contract_scikit_learn(estimator, check):
    with warnings.catch_warnings():  # some checks make up classes with one sample
        warnings.filterwarnings("ignore", "`y` holds one sample only of", UserWarning)
        check(estimator)


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


def test_degenerate_bank_and_precomputed_stack_agree(wdbc, fitted):
    X, y = wdbc
    bank = clone(BANK)
    model = BEMKLClassifier("precomputed", intermediate_scale=1.0).fit(bank.fit_transform(X[:100]), y[:100])
    rows = bank.transform(X[100:])
    np.testing.assert_allclose(model.kernel_weights_, fitted.kernel_weights_, rtol=1e-10)
    np.testing.assert_allclose(
        model.predict_proba(rows), fitted.predict_proba(X[100:]), rtol=1e-9, atol=1e-12
    )
    assert list(model.kernel_names_[:2]) == ["kernel 0", "kernel 1"]


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


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_degenerate_frames_equal_arrays_and_keep_names(wdbc, fitted, frame):
    X, y = wdbc
    columns = ["radius", "texture", "concavity", "points"]
    table = frame({name: X[:, j] for j, name in enumerate(columns)})
    bank = clone(BANK).set_params(views={"left": ["radius", "texture"], "right": ["concavity", "points"]})
    model = BEMKLClassifier(bank, intermediate_scale=1.0).fit(table[:100], y[:100])
    np.testing.assert_allclose(model.kernel_weights_, fitted.kernel_weights_, rtol=1e-10)
    np.testing.assert_array_equal(model.feature_names_in_, columns)
    assert model.kernel_names_[0] == "gaussian(width=2) · left"
    np.testing.assert_allclose(model.predict_proba(table[100:]), fitted.predict_proba(X[100:]), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[columns[::-1]])


def test_equivariance_sample_order(wdbc):
    """Up to the tolerance: other samples are probed, so that accelerated sweeps take another way to the optimum."""
    X, y = wdbc
    order = np.random.default_rng(1).permutation(100)
    model, moved = (
        BEMKLClassifier(BANK, tol=1e-10, intermediate_scale=1.0).fit(X[rows], y[rows])
        for rows in (np.arange(100), order)
    )
    np.testing.assert_allclose(moved.kernel_weights_, model.kernel_weights_, atol=1e-3)
    np.testing.assert_allclose(moved.elbo_, model.elbo_, rtol=1e-7)
    plain, permuted = (
        BEMKLClassifier(BANK, **PAPER, intermediate_scale=1.0).fit(X[rows], y[rows])
        for rows in (np.arange(100), order)
    )
    np.testing.assert_allclose(permuted.kernel_weights_, plain.kernel_weights_, atol=1e-9)
    np.testing.assert_allclose(permuted.dual_coef_, plain.dual_coef_[order], atol=1e-9)


def test_equivariance_kernel_order(wdbc):
    X, y = wdbc
    stack = clone(BANK).fit_transform(X[:100])
    order = np.random.default_rng(1).permutation(stack.shape[2])
    one = BEMKLClassifier("precomputed", **PAPER).fit(stack, y[:100])
    other = BEMKLClassifier("precomputed", **PAPER).fit(stack[:, :, order], y[:100])
    np.testing.assert_allclose(other.kernel_weights_, one.kernel_weights_[order], atol=1e-9)
    np.testing.assert_allclose(other.predict_latent(stack[:, :, order]), one.predict_latent(stack), atol=1e-8)


def test_equivariance_label_flip_and_string_labels(wdbc, fitted):
    X, y = wdbc
    flipped = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X[:100], -y[:100])
    np.testing.assert_allclose(flipped.predict_latent(X[100:]), -fitted.predict_latent(X[100:]), rtol=1e-6)
    named = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(
        X[:100], np.where(y[:100] > 0, "malignant", "benign")
    )
    assert list(named.classes_) == ["benign", "malignant"]
    np.testing.assert_array_equal(named.predict(X[100:]) == "malignant", fitted.predict(X[100:]) > 0)


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


def test_other_library_jax_backend_agrees(wdbc):
    X, y = wdbc
    settings = {"inference": VB(accelerate=False), "tol": 0.0, "max_iter": 50}
    on_numpy = BEMKLClassifier(BANK, storage=Storage(backend="numpy"), **settings).fit(X[:60], y[:60])
    on_jax = BEMKLClassifier(BANK, storage=Storage(backend="jax"), **settings).fit(X[:60], y[:60])
    assert type(on_jax.posterior_.dual.mean) is np.ndarray
    assert on_jax.posterior_.dual.mean.dtype == np.float64
    np.testing.assert_allclose(on_jax.elbo_history_, on_numpy.elbo_history_, rtol=1e-9)
    np.testing.assert_allclose(on_jax.predict_proba(X), on_numpy.predict_proba(X), rtol=1e-7)


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


def test_degenerate_one_kernel_has_all_of_the_share(wdbc):
    X, y = wdbc
    model = BEMKLClassifier(KernelBank(Linear()), intermediate_scale=1.0).fit(X, y)
    np.testing.assert_allclose(model.kernel_shares_, [1.0])
    np.testing.assert_allclose(model.kernel_shares_std_, [0.0], atol=1e-12)


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


def test_units_of_the_regression_target_do_not_matter():
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:150, :4]
    y = y[:150]
    one = BEMKLRegressor(BANK).fit(X[:100], y[:100])
    other = BEMKLRegressor(BANK).fit(X[:100], 1000.0 * y[:100] - 7.0)
    mean, std = one.predict(X[100:], return_std=True)
    other_mean, other_std = other.predict(X[100:], return_std=True)
    np.testing.assert_allclose(other_mean, 1000.0 * mean - 7.0, rtol=1e-5)
    np.testing.assert_allclose(other_std, 1000.0 * std, rtol=1e-5)
    np.testing.assert_allclose(one.predict(X[100:]), mean)


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


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("model", [BEMKLClassifier(BANK, intermediate_scale=1.0), BEMKLRegressor(BANK)])
def test_bad_values_in_features_targets_and_kernels(wdbc, model, bad):
    X, y = wdbc
    spoiled = X.copy()
    spoiled[3, 1] = bad
    with pytest.raises(ValueError, match="Input X contains"):
        model.fit(spoiled, y)
    with pytest.raises(ValueError, match="Input X contains"):
        clone(model).fit(X, y).predict(spoiled)
    with pytest.raises(ValueError, match=r"y contains|`y` must give every sample a label"):
        model.fit(X, np.where(np.arange(len(y)) == 2, bad, y))
    stack = clone(BANK).fit_transform(X).copy()
    stack[0, 1, 2] = bad
    with pytest.raises(ValueError, match="Input X contains"):
        type(model)("precomputed").fit(stack, y)


def test_bad_targets(wdbc):
    X, y = wdbc
    with pytest.raises(ValueError, match=r"`y` must hold at least two classes; got one class only"):
        BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="Unknown label type"):
        BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="minimum of 2"):
        BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X, y[:-1])


def test_bad_precomputed_shapes(wdbc):
    X, y = wdbc
    bank = clone(BANK)
    stack = bank.fit_transform(X[:100])
    with pytest.raises(ValueError, match=r"must hold training kernels of shape .*got \(100, 4\).*KernelBank"):
        BEMKLClassifier("precomputed", intermediate_scale=1.0).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match=r"got \(6, 100, 100\)"):
        BEMKLClassifier("precomputed", intermediate_scale=1.0).fit(np.moveaxis(stack, -1, 0), y[:6])
    with pytest.raises(ValueError, match="kernel"):
        BEMKLClassifier("precomputed", intermediate_scale=1.0).fit(stack[:, :, :0], y[:100])
    model = BEMKLClassifier("precomputed", intermediate_scale=1.0).fit(stack, y[:100])
    rows = bank.transform(X[100:])
    with pytest.raises(
        ValueError, match=r"n_train=100, n_kernels=6\); got \(100, 60, 6\).*kernel\(X_train, X_test\)"
    ):
        model.predict(np.swapaxes(rows, 0, 1))
    with pytest.raises(ValueError, match=r"got \(60, 100, 5\)"):
        model.predict(rows[:, :, :5])
    with pytest.raises(ValueError, match=r"got \(60, 100\)"):
        model.predict(rows[:, :, 0])


def test_bad_use_before_fit_and_other_columns(wdbc, fitted):
    X, _ = wdbc
    for method in ("predict", "predict_proba", "decision_function", "predict_latent"):
        with pytest.raises(NotFittedError):
            getattr(BEMKLClassifier(BANK, intermediate_scale=1.0), method)(X)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
        fitted.predict(X[:, :3])


def test_bad_posterior_to_start_from(wdbc, fitted):
    X, y = wdbc
    with pytest.raises(ValueError, match="over 6 kernels and 90 samples; got one over 6 and 100"):
        BEMKLClassifier(BANK, init=fitted.posterior_, intermediate_scale=1.0).fit(X[:90], y[:90])
    with pytest.raises(ValueError, match=r"one posterior per model \(1\); got 2"):
        BEMKLClassifier(BANK, init=(fitted.posterior_, fitted.posterior_), intermediate_scale=1.0).fit(
            X[:100], y[:100]
        )
    with pytest.raises(ValueError, match="RegressionState"):
        BEMKLRegressor(BANK, init=fitted.posterior_).fit(X[:100], y[:100].astype(float))


def test_constant_target_is_a_degenerate_regression():
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = BEMKLRegressor(BANK).fit(X, np.full(30, 5.0))
    np.testing.assert_allclose(model.predict(X), 5.0, atol=0.05)
