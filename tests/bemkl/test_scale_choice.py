"""The standard deviation of the intermediate outputs, chosen by folds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from bayesmkl import BEMKLClassifier, KernelBank
from bayesmkl.bemkl import selection as scale_choice
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, Linear

BANK = KernelBank([Gaussian(width=4), Linear()])


@pytest.fixture(scope="module")
def tables():
    X, y = load_wdbc(return_X_y=True)
    X = StandardScaler().fit_transform(X)[30:70]
    rng = np.random.default_rng(0)
    iris, species = load_iris(return_X_y=True)
    return {
        "tumors": (X, np.asarray(y)[30:70]),
        "noise": (rng.normal(size=(40, 3)), rng.permutation(np.repeat([0, 1], 20))),
        "species": (StandardScaler().fit_transform(iris)[::6], load_iris().target_names[species[::6]]),
    }


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "multiclass"),
    [("tumors", "shared"), ("noise", "shared"), ("species", "one-versus-all")],
)
def test_scale_is_that_of_the_smallest_log_loss_in_five_folds(tables, name, multiclass):
    X, y = tables[name]
    options = {"multiclass": multiclass}
    model = BEMKLClassifier(BANK, **options).fit(X, y)
    kernels = model.kernel_bank_.fit_transform(X)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    losses = np.zeros((5, 3))
    for fold, (train, test) in enumerate(folds):
        own = BEMKLClassifier("precomputed", tol=1e-3, **options)
        for k, scale in enumerate((1.0, 0.3, 0.1)):
            own.set_params(intermediate_scale=scale).fit(kernels[np.ix_(train, train)], y[train])
            own.set_params(init=own.posterior_)
            probabilities = own.predict_proba(kernels[np.ix_(test, train)])
            losses[fold, k] = log_loss(y[test], probabilities, normalize=False, labels=own.classes_)
    assert model.intermediate_scale_ == (1.0, 0.3, 0.1)[np.argmin(losses.sum(axis=0))]
    assert (model.intermediate_scale_ == 1.0) == (name == "noise")
    chosen = {"intermediate_scale": model.intermediate_scale_, "temperature": model.temperature_}
    given = BEMKLClassifier(BANK, **chosen, **options).fit(X, y)
    np.testing.assert_array_equal(given.predict_proba(X), model.predict_proba(X))


@pytest.mark.heavy
def test_nothing_is_compared_where_folds_would_say_little_or_take_long(tables, monkeypatch):
    X, y = tables["species"]
    rare = np.where(np.arange(len(y)) < 2, "rare", y)
    labels = np.column_stack([y == "setosa", y == "virginica"]).astype(int)
    partial = np.where(y == "setosa", "unknown", y)
    cases = [
        BEMKLClassifier(BANK).fit(X, rare),
        BEMKLClassifier(BANK).fit(X, labels),
        BEMKLClassifier(BANK, unlabeled_label="unknown").fit(X, partial),
        BEMKLClassifier(BANK, storage="streamed").fit(X, y),
    ]
    assert [case.intermediate_scale_ for case in cases] == [1.0] * len(cases)
    monkeypatch.setattr(scale_choice, "MOST_SAMPLES", len(y) - 1)
    assert BEMKLClassifier(BANK).fit(X, y).intermediate_scale_ == 1.0


@pytest.mark.heavy
def test_storage_does_not_decide(tables):
    X, y = tables["tumors"]
    scales = {
        BEMKLClassifier(BANK, storage=storage, tol=1e-3).fit(X, y).intermediate_scale_
        for storage in ("dense", "compressed", "float32")
    }
    assert len(scales) == 1
    assert scales != {1.0}


@pytest.mark.heavy
def test_tolerance_does_not_decide():
    X, y = load_wdbc(return_X_y=True)
    X = StandardScaler().fit_transform(X)[:60]
    loose, tight = (BEMKLClassifier(tol=tol).fit(X, y[:60]) for tol in (0.1, 1e-6))
    chosen = [(model.intermediate_scale_, model.temperature_) for model in (loose, tight)]
    assert chosen[0] == chosen[1]
    assert loose.n_iter_ < tight.n_iter_


@pytest.mark.heavy
def test_folds_follow_the_seed_and_leave_the_estimator_as_it_was(tables):
    X, y = tables["noise"]
    model = BEMKLClassifier(BANK, n_init=2, verbose=0, random_state=3)
    before = model.get_params()
    first, second = (model.fit(X, y).intermediate_scale_ for _ in range(2))
    assert first == second
    assert model.get_params() == before


@pytest.mark.parametrize("value", ["automatic", -1.0, None])
def test_scale_that_is_neither_auto_nor_positive(tables, value):
    with pytest.raises(ValueError, match="`intermediate_scale` must be"):
        BEMKLClassifier(BANK, intermediate_scale=value).fit(*tables["tumors"])
