"""Estimators of several classes, labels, targets, unlabeled samples and weights that are not negative.

The algorithms behind them are tested in files of their own; here it is that the estimators hand them the right
problem and tell what they found: against the functions themselves, against each other where one case is another's
limit, and on data whose answer is known.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.multioutput import MultiOutputRegressor
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank
from bayesmkl.bemkl import model as bemkl
from bayesmkl.bemkl.ascent import LoopOptions, maximize_elbo
from bayesmkl.bemkl.model import Priors, Problem, State
from bayesmkl.bemkl.reading import predict_class_scores
from bayesmkl.datasets import load_iris, load_wdbc
from bayesmkl.kernels import Gaussian, Linear, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels

pytestmark = pytest.mark.heavy

BANK = KernelBank(
    [Gaussian(width=2), Linear(), Polynomial(degree=2)], views={"left": [0, 1], "right": [2, 3]}
)
MEAN = np.sqrt(2.0 / np.pi)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]


@pytest.fixture(scope="module")
def halves():
    """Two elongated classes whose gap no few labels show."""
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1], 60)
    X = np.column_stack([rng.normal(scale=2.0, size=120), rng.normal(scale=0.4, size=120) + 2.4 * y - 1.2])
    return X, y


@pytest.fixture(scope="module")
def shared(iris):
    return BEMKLClassifier(BANK, intermediate_scale=1.0).fit(*iris)


@pytest.fixture(scope="module")
def multinomial_model(iris):
    return BEMKLClassifier(BANK, multiclass="multinomial", intermediate_scale=1.0).fit(*iris)


# ------------------------------------------------------------------------------------------------------- classes


def test_shared_classes_are_one_model_of_the_right_problem(iris, shared):
    X, y = iris
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(BANK.fit_transform(X), -1, 0)))
    targets = np.where(y == np.unique(y)[:, None], 1.0, -1.0)
    problem = Problem(stack, stack.gram(), targets, Priors(), Labels(0.0), shared.intermediate_scale_**-2)
    start = bemkl.init(problem, np.full(len(y), MEAN))
    result = maximize_elbo(bemkl, problem, start, LoopOptions())
    assert shared.elbo_ == pytest.approx(result.elbo_history[-1], abs=1e-9)
    np.testing.assert_allclose(shared.kernel_weights_, result.state.readout.mean[3:], atol=1e-9)
    np.testing.assert_allclose(shared.intercept_, result.state.readout.mean[:3], atol=1e-9)
    np.testing.assert_allclose(shared.dual_coef_, result.state.dual.mean, atol=1e-9)
    np.testing.assert_array_equal(shared.target_, targets)
    latent = (shared.kernel_weights_[:, None] * (stack.kernels @ shared.dual_coef_.T[None])[:, :, 1].T.T).sum(
        0
    )
    np.testing.assert_allclose(shared.predict_latent(X)[:, 1], latent + shared.intercept_[1], rtol=1e-9)


def test_probabilities_of_classes_follow_from_the_odds(iris, shared):
    X, y = iris
    odds, probabilities = shared.decision_function(X), shared.predict_proba(X)
    own = expit(odds)
    np.testing.assert_allclose(probabilities, own / own.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_array_equal(shared.predict(X), shared.classes_[odds.argmax(axis=1)])
    assert shared.score(X, y) > 0.94


def test_multinomial_probabilities_are_those_of_the_scores(iris, multinomial_model):
    X, y = iris
    model = multinomial_model
    stack = DenseStack(np.ascontiguousarray(np.moveaxis(model.kernel_bank_.transform(X), -1, 0)))
    scores = predict_class_scores(stack, model.posterior_.dual, model.posterior_.readout, 1.0)
    probabilities = np.exp(scores.log_class_probabilities(0.0))
    np.testing.assert_allclose(model.predict_proba(X), probabilities, rtol=1e-10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-10)
    odds = np.log(probabilities) - np.log1p(-probabilities)
    np.testing.assert_allclose(model.decision_function(X), odds, rtol=1e-6)
    assert isinstance(model.posterior_, State)
    assert model.score(X, y) > 0.92


@pytest.mark.parametrize("kind", ["shared", "one-versus-all", "multinomial"])
def test_two_classes_are_one_binary_model_whatever_the_kind(iris, kind):
    X, y = iris
    two = y != "setosa"
    model = BEMKLClassifier(BANK, multiclass=kind, intermediate_scale=1.0).fit(X[two], y[two])
    plain = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X[two], y[two])
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.kernel_weights_.shape == (6,)


def test_start_from_a_shared_posterior_is_already_converged(iris, shared):
    again = BEMKLClassifier(BANK, init=shared.posterior_, intermediate_scale=1.0).fit(*iris)
    assert again.n_iter_ < shared.n_iter_ / 3
    assert again.elbo_ == pytest.approx(shared.elbo_, rel=1e-4)
    with pytest.raises(
        ValueError, match="over 6 kernels and 49 samples and 3 outputs; got one over 6 and 50"
    ):
        BEMKLClassifier(BANK, init=shared.posterior_, intermediate_scale=1.0).fit(iris[0][:49], iris[1][:49])


def test_restarts_never_lower_the_bound(iris, shared):
    several = BEMKLClassifier(BANK, n_init=3, intermediate_scale=1.0).fit(*iris)
    assert several.elbo_ >= shared.elbo_


# -------------------------------------------------------------------------------------------------------- labels


def test_separate_weights_of_labels_are_separate_fits(iris):
    X, y = iris
    labels = np.column_stack([y == "setosa", y == "virginica"]).astype(int)
    model = BEMKLClassifier(BANK, multiclass="one-versus-all", intermediate_scale=1.0).fit(X, labels)
    for label in range(2):
        alone = BEMKLClassifier(BANK, intermediate_scale=1.0).fit(X, labels[:, label])
        np.testing.assert_allclose(model.kernel_weights_[label], alone.kernel_weights_, rtol=1e-9)
        np.testing.assert_allclose(model.predict_proba(X)[:, label], alone.predict_proba(X)[:, 1], rtol=1e-9)


# ------------------------------------------------------------------------------------------------------- targets


def test_the_same_target_twice_is_predicted_twice(wdbc_targets):
    X, y = wdbc_targets
    model = BEMKLRegressor(BANK).fit(X, np.column_stack([y, 5.0 - 100.0 * y]))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean[:, 1], 5.0 - 100.0 * mean[:, 0], atol=1e-3)
    np.testing.assert_allclose(std[:, 1], 100.0 * std[:, 0], rtol=1e-5)
    one = BEMKLRegressor(BANK).fit(X, y[:, None])
    alone = BEMKLRegressor(BANK).fit(X, y)
    np.testing.assert_allclose(one.predict(X)[:, 0], alone.predict(X), atol=0.02)
    assert one.elbo_ == pytest.approx(alone.elbo_, abs=0.05)


@pytest.fixture(scope="module")
def wdbc_targets():
    data = load_wdbc().data[:60]
    X = StandardScaler().fit_transform(data)
    return X[:, [0, 1, 6, 7]], X[:, 2] + 0.1 * X[:, 5]


def test_targets_share_weights_and_have_noises_of_their_own(wdbc_targets):
    X, y = wdbc_targets
    rng = np.random.default_rng(1)
    Y = np.column_stack([y, y + rng.normal(size=len(y))])
    model = BEMKLRegressor(BANK).fit(X, Y)
    _, std = model.predict(X, return_std=True)
    assert (std[:, 1] > 2.0 * std[:, 0]).all()
    assert model.kernel_weights_.shape == (6,)
    separate = MultiOutputRegressor(BEMKLRegressor(BANK)).fit(X, Y)
    assert np.corrcoef(model.predict(X)[:, 0], separate.predict(X)[:, 0])[0, 1] > 0.98


# ----------------------------------------------------------------------------------------------------- unlabeled


def test_unlabeled_samples_move_the_boundary_into_the_gap(halves):
    X, y = halves
    few = np.random.default_rng(2).choice(60, size=4, replace=False)
    marked = np.full(len(y), -1)
    marked[np.r_[few, 60 + few[::-1]]] = y[np.r_[few, 60 + few[::-1]]]
    bank = KernelBank([Gaussian(width=1), Linear()], normalize="trace")
    model = BEMKLClassifier(bank, unlabeled_label=-1, intermediate_scale=1.0).fit(X, marked)
    np.testing.assert_array_equal(model.target_, np.where(marked < 0, 0.0, 2.0 * marked - 1.0))
    np.testing.assert_array_equal(model.transduction_[marked >= 0], y[marked >= 0])
    supervised = BEMKLClassifier(bank, intermediate_scale=1.0).fit(X[marked >= 0], y[marked >= 0])
    assert np.mean(model.transduction_ == y) >= np.mean(supervised.predict(X) == y)
    assert np.mean(model.transduction_ == y) > 0.95
    np.testing.assert_array_equal(model.classes_, [0, 1])


def test_nothing_unlabeled_is_supervised(halves):
    X, y = halves
    model = BEMKLClassifier(KernelBank(BANK.kernels), unlabeled_label=-1, intermediate_scale=1.0)
    plain = BEMKLClassifier(model.kernels, margin=1.0, intermediate_scale=1.0)
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X), plain.fit(X, y).predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(model.transduction_, y)
    ready = BEMKLClassifier(
        model.kernels, unlabeled_label=-1, missing_views="integrate", tol=1e-3, intermediate_scale=1.0
    ).fit(X, y)
    np.testing.assert_array_equal(ready.transduction_, y)
    assert not hasattr(plain, "transduction_")


def test_minus_one_is_a_class_unless_it_is_said(halves):
    X, y = halves
    model = BEMKLClassifier(KernelBank([Linear()], normalize="trace"), intermediate_scale=1.0).fit(
        X, 2 * y - 1
    )
    np.testing.assert_array_equal(model.classes_, [-1, 1])


# -------------------------------------------------------------------------------------------------- non-negative


@pytest.mark.parametrize("kind", ["shared", "one-versus-all", "multinomial"])
def test_weights_are_not_negative(iris, kind):
    X, y = iris
    model = BEMKLClassifier(BANK, multiclass=kind, nonnegative=True, intermediate_scale=1.0).fit(X, y)
    assert (model.kernel_weights_ > 0.0).all()
    assert (
        np.diff(model.elbo_history_[0] if kind == "one-versus-all" else model.elbo_history_) > -1e-8
    ).all()
    assert model.score(X, y) > 0.94
    np.testing.assert_allclose(np.sum(model.kernel_shares_, axis=-1), 1.0, rtol=1e-9)


def test_a_kernel_that_only_disturbs_gets_less_without_its_sign(wdbc_targets):
    X, y = wdbc_targets
    model = BEMKLRegressor(BANK, nonnegative=True).fit(X, y)
    plain = BEMKLRegressor(BANK).fit(X, y)
    assert (model.kernel_weights_ > 0.0).all()
    assert np.corrcoef(model.predict(X), plain.predict(X))[0, 1] > 0.98


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"multiclass": "all"},
            "`multiclass` must be one of 'shared', 'one-versus-all', 'multinomial'; got 'all'",
        ),
        (
            {"inference": "gibbs"},
            r'"shared" needs inference="vb" or "nuts"; got .*multiclass="one-versus-all"',
        ),
        (
            {"inference": "gibbs", "multiclass": "multinomial"},
            r'`multiclass` "multinomial" needs inference="vb"; got',
        ),
        ({"unlabeled_label": "setosa", "n_init": 2}, "`n_init` must be 1 with unlabeled samples; got 2"),
        (
            {"unlabeled_label": "setosa", "inference": "nuts"},
            "`unlabeled_label` with unlabeled samples .* Leave",
        ),
        ({"unlabeled_label": "?"}, r"exactly two labels besides `unlabeled_label`='\?'; got .*recode"),
    ],
)
def test_what_does_not_go_together_is_refused(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        BEMKLClassifier(BANK, **parameters, intermediate_scale=1.0).fit(*iris)


def test_labels_exclude_the_multinomial_model_and_regression_samples_one_target(iris):
    X, y = iris
    labels = np.column_stack([y == "setosa", y == "virginica"]).astype(int)
    with pytest.raises(ValueError, match='`multiclass` "multinomial" is for classes that exclude each other'):
        BEMKLClassifier(BANK, multiclass="multinomial", intermediate_scale=1.0).fit(X, labels)
    with pytest.raises(ValueError, match=r"`y` with several columns .* a model for every column"):
        BEMKLRegressor(BANK, inference="gibbs").fit(X, np.column_stack([X[:, 0], X[:, 1]]))
    with pytest.raises(ValueError, match=r'`nonnegative=True` needs inference="vb"; got inference=.nuts'):
        BEMKLRegressor(BANK, inference="nuts", nonnegative=True).fit(X, X[:, 0])
