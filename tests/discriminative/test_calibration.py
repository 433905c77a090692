"""Probabilities by scikit-learn's calibration, on banks and on precomputed stacks."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CLASSIFIERS, known, quick, some
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from bayesmkl import KernelBank
from bayesmkl.kernels import Gaussian, Linear

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::bayesmkl.kernels.KernelQualityWarning"),
    pytest.mark.heavy,
]
BANK = KernelBank([Gaussian(width=1), Linear()], normalize=None)  # no statistics: folds of a stack are exact
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
