"""Kernels that models share are those that they would have computed, and are computed once."""

import threading

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesmkl.discriminative as discriminative
from bayesmkl import BEMKLClassifier
from bayesmkl.datasets import load_wdbc
from bayesmkl.kernels import Gaussian, KernelBank, Linear
from bayesmkl.kernels.cache import KernelCache, current_cache, sharing_kernels

CLASSIFIERS = [name for name in discriminative.__all__ if name.endswith("Classifier")]


@pytest.fixture(scope="module")
def samples():
    X, y = load_wdbc(return_X_y=True)
    X = X[:90, [0, 1, 4]]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[:60], y[:60], X[60:]


def bank():
    return KernelBank([Gaussian(width=1.0), Linear()], views="each")


def predict(model, X, y, X_test):
    model.fit(X, y)
    return model.decision_function(X_test)


@pytest.mark.filterwarnings("ignore:LDMKLClassifier predicts 1 for all training samples, of which 78%")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * bool(k % 3)) for k, name in enumerate(CLASSIFIERS)],
)
def test_every_classifier_predicts_the_same_with_shared_kernels(name, samples):
    make = getattr(discriminative, name)
    alone = predict(make(bank()), *samples)
    with sharing_kernels(KernelCache()) as cache:
        uniform = discriminative.UniformMKLClassifier(bank()).fit(*samples[:2])  # fills the cache
        uniform.predict(samples[2])
        shared = predict(make(bank()), *samples)
    np.testing.assert_array_equal(shared, alone)
    assert cache.tally.n_evaluated >= 2  # training and new rows


@pytest.mark.heavy
@pytest.mark.parametrize(
    "make", [BEMKLClassifier, lambda b: BEMKLClassifier(b, missing_views="integrate", intermediate_scale=1.0)]
)
def test_bemkl_predicts_the_same_with_shared_kernels(make, samples):
    X, y, X_test = (part.copy() for part in samples)
    if make is not BEMKLClassifier:
        X[3, 0], X_test[5, 2] = np.nan, np.nan  # zeros take the place of NaN: in a copy of the shared kernels
    alone = predict(make(bank()), X, y, X_test)
    with sharing_kernels(KernelCache()):
        first, again = (predict(make(bank()), X, y, X_test) for _ in range(2))
    np.testing.assert_array_equal(first, alone)
    np.testing.assert_array_equal(again, alone)


def test_kernels_of_equal_rows_are_computed_once(samples, monkeypatch):
    X, y, X_test = samples
    computed = []
    learn, evaluate = KernelBank._learn, KernelBank.evaluate
    monkeypatch.setattr(KernelBank, "_learn", lambda *a, **k: computed.append("train") or learn(*a, **k))
    monkeypatch.setattr(KernelBank, "evaluate", lambda *a, **k: computed.append("test") or evaluate(*a, **k))
    with sharing_kernels(KernelCache()) as cache:
        for model in (discriminative.UniformMKLClassifier(bank()), discriminative.EasyMKLClassifier(bank())):
            model.fit(X, y).predict(X_test)
            model.decision_function(X_test)
    assert computed == ["train", "test"]
    assert cache.tally.n_evaluated == 2
    assert cache.tally.n_reused == 4  # the second model's training kernels, and three more predictions
    assert cache.tally.reused_seconds > 0.0


def test_a_grid_computes_kernels_once_per_inner_fold(samples):
    X, y, _ = samples
    search = GridSearchCV(discriminative.UniformMKLClassifier(bank()), {"C": [0.1, 1.0, 10.0]}, cv=3)
    with sharing_kernels(KernelCache()) as cache:
        search.fit(X, y)
    assert cache.tally.n_evaluated == 3 * 2 + 1  # training and validation rows of the folds, then all rows


@pytest.mark.parametrize(
    "other",
    [
        lambda X: (KernelBank([Gaussian(width=2.0), Linear()], views="each"), X),
        lambda X: (KernelBank([Gaussian(width=1.0), Linear()]), X),
        lambda X: (KernelBank([Gaussian(width=1.0), Linear()], views="each", normalize="trace"), X),
        lambda X: (bank(), X + 1e-12),
        lambda X: (bank(), X[::-1]),
        lambda X: (bank(), X[:-1]),
        lambda X: (bank(), pd.DataFrame(X, columns=["a", "b", "c"])),
    ],
)
def test_what_differs_is_not_shared(other, samples):
    other_bank, other_X = other(samples[0])
    with sharing_kernels(KernelCache()) as cache:
        bank().fit_transform(samples[0])
        found = other_bank.fit_transform(other_X)
    assert cache.tally.n_reused == 0
    np.testing.assert_array_equal(found, type(other_bank)(**other_bank.get_params()).fit_transform(other_X))


def test_a_pipeline_shares_what_its_scaler_leaves_equal(samples):
    X, y, X_test = samples
    models = [
        make_pipeline(StandardScaler(), discriminative.UniformMKLClassifier(bank(), C=C)) for C in (1.0, 2.0)
    ]
    with sharing_kernels(KernelCache()) as cache:
        for model in models:
            model.fit(X, y).predict(X_test)
    assert (cache.tally.n_evaluated, cache.tally.n_reused) == (2, 2)


def test_shared_kernels_cannot_be_changed(samples):
    with sharing_kernels(KernelCache()):
        stack = bank().fit_transform(samples[0])
    with pytest.raises(ValueError, match="read-only"):
        stack[0, 0, 0] = 2.0


def test_a_bank_found_in_the_cache_is_fitted(samples):
    X, _, X_test = samples
    with sharing_kernels(KernelCache()):
        bank().fit_transform(X)
        second = bank()
        second.fit_transform(X)
    np.testing.assert_array_equal(second.transform(X_test), bank().fit(X).transform(X_test))
    assert list(second.kernel_names_) == list(bank().fit(X).kernel_names_)


def test_a_small_cache_forgets_and_stays_right(samples):
    X, y, X_test = samples
    one_stack = 6 * 60 * 60 * 8
    expected = discriminative.UniformMKLClassifier(bank()).fit(X, y).decision_function(X_test)
    for size in (0, one_stack, 2 * one_stack):
        with sharing_kernels(KernelCache(max_bytes=size)) as cache:
            for rows in (X, X[:50], X):
                bank().fit_transform(rows)
            model = discriminative.UniformMKLClassifier(bank()).fit(X, y)
            np.testing.assert_array_equal(model.decision_function(X_test), expected)
        assert sum(kept.n_bytes for kept in cache._kept.values()) <= size


def power(q):
    return lambda X, Z: (1.0 + X @ Z.T) ** q


POINTS = np.random.default_rng(0).normal(size=(500, 3))
MOVED = POINTS + np.where(np.arange(500) == 250, 1.0, 0.0)[:, None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"kernels": lambda X, Z: X @ Z.T}, {"kernels": lambda X, Z: 2.0 + X @ Z.T}),
        ({"kernels": power(2)}, {"kernels": power(3)}),
        ({"landmarks": POINTS}, {"landmarks": MOVED}),
        ({"views": {"a": [0], "b": [1, 2]}}, {"views": {"b": [1, 2], "a": [0]}}),
        ({"kernels": [Gaussian(width=1.0), Linear()]}, {"kernels": [Linear(), Gaussian(width=1.0)]}),
    ],
    ids=["body", "closure", "a long array", "order of views", "order of kernels"],
)
def test_banks_that_look_alike_are_told_apart(one, other, samples):
    bank = {"normalize": None, "kernels": Gaussian(width=1.0)}
    alone = KernelBank(**bank | other).fit_transform(samples[0])
    with sharing_kernels(KernelCache()) as cache:
        KernelBank(**bank | one).fit_transform(samples[0])
        second = KernelBank(**bank | other).fit_transform(samples[0])
        assert cache.tally.n_reused == 0
        np.testing.assert_array_equal(second, alone)
        KernelBank(**bank | one).fit_transform(samples[0])
        assert cache.tally.n_reused == (0 if callable(one.get("kernels")) else 1)


def test_banks_without_content_are_not_shared(samples):
    lock = threading.Lock()
    held = KernelBank(lambda X, Z: X @ Z.T + lock.locked())
    with sharing_kernels(KernelCache()) as cache:
        for _ in range(2):
            held.fit_transform(samples[0])
    assert cache.tally.n_reused == 0


def test_what_is_derived_belongs_to_its_kernels_and_is_replaced_where_it_does_not_suit(samples):
    computed = []

    def derive(bank, what, least=0):
        def compute(there):
            computed.append(there)
            return (np.full(3, float(least)), csr_array(np.eye(2)))

        return cache.derived(what, compute, bank, suits=lambda value: value[0][0] >= least)

    banks = [bank(), bank(), KernelBank(Linear())]
    with sharing_kernels(KernelCache()) as cache:
        for one in banks:
            one.fit_transform(samples[0])
        first = derive(banks[0], "sum")
        assert derive(banks[1], "sum") is first  # of equal kernels
        assert not first[0].flags.writeable
        assert not first[1].data.flags.writeable
        for other in ((banks[0], "product"), (banks[2], "sum"), (None, "sum")):
            assert derive(*other) is not first
        assert computed == [None] * 4
        second = derive(banks[0], "sum", least=2)
        assert computed[4] is first
        assert derive(banks[1], "sum", least=1) is second
        assert len(computed) == 5
        derive(bank().fit(samples[0]), "sum")  # not evaluated here: nothing is known of its kernels
        assert computed[5] is None


def test_what_replaces_another_value_was_used_last():
    cache = KernelCache(max_bytes=100)
    cache.derived("a", lambda _: np.zeros(4))
    b = cache.derived("b", lambda _: np.zeros(4))
    longer = cache.derived("a", lambda _: np.zeros(10), suits=lambda value: len(value) > 4)
    assert cache.derived("a", lambda _: np.zeros(10)) is longer
    assert cache.derived("b", lambda _: np.zeros(4)) is not b


def test_sharing_ends_with_the_block_also_after_an_error():
    cache = KernelCache()
    with pytest.raises(TypeError, match="fit parameters"), sharing_kernels(cache):
        bank().fit_transform(np.eye(3), at=current_cache())
    assert current_cache() is None
