"""What every discriminative estimator promises: banks and stacks agree, attributes, bad input, calibration."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from cases import CLASSIFIERS, ESTIMATORS, EVERY, REGRESSORS, known, quick, some
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.preprocessing import StandardScaler

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl._numerics.convergence import Outcome
from bayesmkl.datasets import load_iris, load_wdbc
from bayesmkl.kernels import Gaussian, Linear

SUPERVISED = [*CLASSIFIERS, *REGRESSORS]

quietly = [
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The least populated class"),
]
pytestmark = [*quietly, pytest.mark.heavy]


@pytest.fixture(scope="module")
def wdbc():
    data = load_wdbc()
    rows = np.random.default_rng(0).permutation(len(data.target))[:90]
    X = StandardScaler().fit_transform(data.data[rows][:, [0, 1, 6, 7]])
    return X, np.where(data.target[rows] == data.target.max(), 1, -1)


def labels_for(name, X, y):
    """The target of a classifier or of a regressor."""
    return X[:, 1] + 0.5 * y if name.endswith("Regressor") else y


BANK = KernelBank([Gaussian(width=1), Linear()], normalize=None)


# ------------------------------------------------------------------------------------------------ equal inputs


@pytest.mark.parametrize("name", SUPERVISED)
def test_degenerate_bank_and_stack_agree_through_cross_validation(wdbc, name):
    X, y = wdbc
    X, y = X[:60], labels_for(name, X[:60], y[:60])
    stack = clone(BANK).fit_transform(X)  # no statistics: the same in every fold
    extra = known(name, {"n_neighbors": 100})  # a graph that does not depend on how neighbors are found
    method = "predict" if name in REGRESSORS else "decision_function"
    folds = KFold(3, shuffle=True, random_state=0)
    whole = cross_val_predict(quick(name, BANK, **extra), X, y, cv=folds, method=method)
    sliced = cross_val_predict(quick(name, "precomputed", **extra), stack, y, cv=folds, method=method)
    np.testing.assert_allclose(sliced, whole, atol=1e-6 * np.abs(whole).max())
    scores = cross_val_score(quick(name, "precomputed", **extra), stack, y, cv=folds)
    assert np.isfinite(scores).all()
    assert scores.mean() > (0.5 if name in REGRESSORS else 0.85)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_saved_models_predict_the_same_also_with_clipped_kernels(wdbc, name, tmp_path):
    X, y = wdbc
    stack = indefinite_stack(X[:50])
    model = quick(name, "precomputed", indefinite="clip").fit(stack, labels_for(name, X[:50], y[:50]))
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(stack), model.predict(stack))
    np.testing.assert_array_equal(loaded.kernel_weights_, model.kernel_weights_)
    assert loaded.outcome_ == model.outcome_


# ---------------------------------------------------------------------------------------------------- attributes


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("multiclass", ["one-versus-rest", "shared"])
def test_attributes_of_three_classes(name, multiclass):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]
    model = quick(name, **known(name, {"multiclass": multiclass})).fit(X, y)
    own = "multiclass" in model.get_params() and multiclass == "one-versus-rest"
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    assert model.kernel_weights_.shape == ((3, 2) if own else (2,))
    assert (model.kernel_weights_ >= 0.0).all()
    assert model.dual_coef_.shape in ((3, 50), (3, 2, 50))
    assert model.intercept_.shape == (3,)
    scores = model.decision_function(X)
    assert scores.shape == (50, 3)
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    assert model.score(X, y) > 0.85
    assert model.combined_kernel(X[:4]).shape == ((3, 4, 50) if own else (4, 50))
    outcomes = model.outcome_ if own else (model.outcome_,)
    assert all(isinstance(outcome, Outcome) for outcome in outcomes)
    assert model.converged_ == all(outcome.converged for outcome in outcomes)
    assert np.size(model.duality_gap_) == np.size(model.n_iter_) == len(outcomes)
    histories = model.objective_history_ if own else (model.objective_history_,)
    assert [max(1, len(history)) for history in histories] == list(np.atleast_1d(model.n_iter_))
    assert 0.0 < model.support_fraction_ <= 1.0
    assert (np.diff(model.support_) > 0).all()


# ----------------------------------------------------------------------------------------------------- bad input


def indefinite_stack(X):
    """A good kernel, one with negative eigenvalues, and another good one."""
    stack = clone(BANK).fit_transform(X).copy()
    sigmoid = np.tanh(X @ X.T - 1.0)
    assert np.linalg.eigvalsh(sigmoid)[0] < -0.1
    return np.concatenate([stack[:, :, :1], sigmoid[:, :, None], stack[:, :, 1:]], axis=2)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_indefinite_kernels_are_named_or_clipped(wdbc, name):
    X, y = wdbc
    y = labels_for(name, X, y)
    stack = indefinite_stack(X)
    given = stack.copy()
    names = ["good", "sigmoid", "linear"]
    with pytest.raises(
        ValueError, match=r"`X`: not positive semidefinite: sigmoid \(eigenvalues.*indefinite=\"clip\""
    ):
        quick(name, "precomputed", kernel_names=names).fit(stack, y)
    model = quick(name, "precomputed", kernel_names=names, indefinite="clip").fit(stack, y)
    values, vectors = np.linalg.eigh(stack[:, :, 1])
    clipped = stack.copy()
    clipped[:, :, 1] = vectors * np.maximum(values, 0.0) @ vectors.T
    expected = quick(name, "precomputed").fit(clipped, y)
    score = "predict" if name in REGRESSORS else "decision_function"
    scores = getattr(expected, score)(clipped)
    np.testing.assert_allclose(getattr(model, score)(stack), scores, atol=1e-5 * np.abs(scores).max())
    np.testing.assert_allclose(
        getattr(model, score)(stack[5:9]), scores[5:9], atol=1e-5 * np.abs(scores).max()
    )
    np.testing.assert_array_equal(stack, given)  # the caller's array is as it was


@pytest.mark.parametrize("name", [name for name in EVERY if "max_iter" in EVERY[name]().get_params()])
def test_at_most_one_warning_with_a_number_and_a_remedy(name):
    X, y = load_iris(return_X_y=True)
    strict = known(name, {"max_iter": 1, "tol": 1e-9, "epsilon": 1e-6})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        target = X[:, 0] if name.endswith("Regressor") else y
        model = EVERY[name](KernelBank("paper"), **strict).fit(X, target)
    unfinished = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    assert len(unfinished) == (not model.converged_)
    if unfinished:
        message = str(unfinished[0].message)
        assert message.startswith(name)
        assert "max_iter=1" in message


FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
# of LapMKL: the graph joins all, so that the graph of features and that of a stack are the same
GRAPH = {"n_neighbors": 200, "gamma_ambient": 1.0, "gamma_intrinsic": 1e-3}


@pytest.fixture(scope="module")
def noisy():
    """Two features, of which the first decides, with the known probability expit(2 x)."""
    X = np.random.default_rng(0).normal(size=(500, 2))
    probability = expit(2.0 * X[:, 0])
    y = (np.random.default_rng(1).random(500) < probability).astype(int)
    return X, y, probability


@pytest.mark.parametrize("name", some(CLASSIFIERS))
def test_probabilities_of_bank_and_stack_are_the_same_and_good(noisy, name):
    X, y, truth = noisy
    train, test = slice(0, 150), slice(150, None)
    settings = known(name, GRAPH)
    on_bank = CalibratedClassifierCV(quick(name, BANK, **settings), cv=FOLDS, ensemble=False).fit(
        X[train], y[train]
    )
    bank = clone(BANK)
    stack = bank.fit_transform(X[train])
    on_stack = CalibratedClassifierCV(quick(name, "precomputed", **settings), cv=FOLDS, ensemble=False)
    on_stack.fit(stack, y[train])
    probabilities = on_bank.predict_proba(X[test])
    np.testing.assert_allclose(on_stack.predict_proba(bank.transform(X[test])), probabilities, atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert ((probabilities >= 0.0) & (probabilities <= 1.0)).all()
    score = quick(name, BANK, **settings).fit(X[train], y[train]).decision_function(X[test])
    best = log_loss(y[test], truth[test])
    assert log_loss(y[test], probabilities) < best + 0.08  # the known probabilities cannot be beaten by much
    assert np.abs(probabilities[:, 1] - truth[test]).mean() < 0.15
    order = np.argsort(score)
    assert (np.diff(probabilities[order, 1]) >= -1e-12).all()  # monotone in the score
    uncalibrated = expit(
        20.0 * score
    )  # scores have no unit: read as very steep log odds they are overconfident
    assert brier_score_loss(y[test], probabilities[:, 1]) < brier_score_loss(y[test], uncalibrated)


def test_probabilities_through_an_outer_cross_validation_need_a_bank(noisy):
    """The calibrated model does not tell that its input is pairwise, so that a stack is sliced by rows alone."""
    X, y, truth = noisy
    X, y, truth = X[:150], y[:150], truth[:150]
    outer = StratifiedKFold(3, shuffle=True, random_state=1)
    model = CalibratedClassifierCV(quick("SimpleMKLClassifier", BANK), cv=FOLDS, ensemble=False)
    probabilities = cross_val_predict(model, X, y, cv=outer, method="predict_proba")
    assert log_loss(y, probabilities) < log_loss(y, truth) + 0.1
    model = CalibratedClassifierCV(quick("SimpleMKLClassifier", "precomputed"), cv=FOLDS, ensemble=False)
    with pytest.raises(ValueError, match="square"):
        cross_val_predict(model, clone(BANK).fit_transform(X), y, cv=outer, method="predict_proba")


def test_ensembles_of_calibrated_models_cannot_slice_a_stack(noisy):
    """The reason for ``ensemble=False``: each member would need the rows of its own training part."""
    X, y, _ = noisy
    stack = clone(BANK).fit_transform(X[:150])
    model = CalibratedClassifierCV(quick("UniformMKLClassifier", "precomputed"), cv=FOLDS, ensemble=True)
    with pytest.raises(ValueError, match="must hold training kernels"):
        model.fit(stack, y[:150])
