"""Kernels that were judged before are recognized, by memory or content, and no others are."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.kernels import Gaussian, KernelBank, KernelQualityWarning, stack_kernels
from bayesmkl.kernels.cache import KernelCache, sharing_kernels
from bayesmkl.kernels.quality import definiteness, inspector, verdicts
from bayesmkl.kernels.quality.verdicts import is_finite, remembered, unchanging

N, P = 40, 3


@pytest.fixture(autouse=True)
def nothing_judged(monkeypatch):
    """Start without verdicts."""
    monkeypatch.setattr(verdicts, "_VERDICTS", type(verdicts._VERDICTS)())


@pytest.fixture
def kernels(rng):
    X = rng.normal(size=(N, P))
    return np.stack([Gaussian(width=w)(X, X) for w in (1.0, 2.0, 4.0)])


@pytest.fixture
def y(rng):
    return rng.integers(2, size=N)


@pytest.fixture
def tested(monkeypatch):
    """Count tests of definiteness."""
    found, test = [], definiteness.is_semidefinite

    def counted(kernel, tolerance=definiteness.INDEFINITE):
        found.append(kernel)
        return test(kernel, tolerance)

    monkeypatch.setattr(definiteness, "is_semidefinite", counted)
    monkeypatch.setattr(inspector, "is_semidefinite", counted)
    return found


def is_judged(kernels):
    return verdicts._identity(kernels) in verdicts._VERDICTS


def fit(kernels, y, **parameters):
    return UniformMKLClassifier("precomputed", **parameters).fit(np.moveaxis(kernels, 0, -1), y)


def test_a_second_fit_to_equal_kernels_tests_none(kernels, y, tested):
    first = fit(kernels, y)
    assert len(tested) == P
    again = fit(kernels.copy(), y, C=3.0)
    assert len(tested) == P
    assert np.array_equal(fit(kernels, y).dual_coef_, first.dual_coef_)
    assert again.C == 3.0


@pytest.mark.parametrize("entry", [(0, 0, 0), (1, 3, 7), (P - 1, N - 1, N - 2)])
def test_one_entry_that_changes_is_noticed(kernels, y, tested, entry):
    fit(kernels, y)
    m, i, j = entry
    kernels[m, i, j] = kernels[m, j, i] = kernels[m, i, j] - 1e-6
    fit(kernels, y)
    assert len(tested) == 2 * P
    kernels[m, i, j] = kernels[m, j, i] = 30.0
    if i != j:
        with pytest.raises(ValueError, match="not positive semidefinite: kernel"):
            fit(kernels, y)


def test_other_shapes_orders_and_names_are_other_questions(kernels, y, tested):
    fit(kernels, y)
    fit(kernels[::-1], y)
    assert len(tested) == 2 * P
    fit(kernels[:2], y)
    assert len(tested) == 2 * P + 2
    fit(kernels, y, kernel_names=["a", "b", "c"])
    assert len(tested) == 3 * P + 2


def unchanging_copy(kernels):
    return unchanging(kernels.shape, lambda values: np.copyto(values, kernels))


def test_memory_that_cannot_change_is_recognized_without_a_look(kernels, y, tested, monkeypatch):
    kernels = unchanging_copy(kernels)
    fit(kernels, y)
    monkeypatch.setattr(verdicts, "_content", None)  # is not called
    fit(kernels, y)
    assert len(tested) == P
    assert is_judged(kernels)
    assert not is_judged(kernels[:2])


def test_read_only_arrays_that_can_change_are_not_trusted(kernels, y):
    """Their owner makes them writable again, or writes through another view."""
    view = kernels[:]
    view.flags.writeable = False
    owned = kernels.copy()
    early = owned[:]
    owned.flags.writeable = False
    for given in (view, owned):
        fit(given, y)
        assert not is_judged(given)
    kernels[0, 0, 0] = early[0, 0, 0] = np.nan
    for given in (view, owned):
        with pytest.raises(ValueError, match=r"X contains NaN"):
            fit(given, y)
    early[0, 0, 0] = 1.0
    fit(owned, y)
    owned.flags.writeable = True
    owned[1, 0, 3] += 1.0
    owned.flags.writeable = False
    with pytest.raises(ValueError, match="'kernel 1' is not symmetric"):
        fit(owned, y)


def test_a_fit_that_fails_after_the_look_leaves_nothing_to_the_next(kernels, y, tested):
    """Of kernels in the same memory, with another content."""
    assert is_finite(kernels)
    kernels[1, 0, 3] += 1.0
    with pytest.raises(ValueError, match="'kernel 1' is not symmetric"):
        fit(kernels, y)
    kernels[1, 0, 3] -= 1.0
    fit(kernels, y)
    assert len(tested) == P


def test_kernels_are_read_once_where_they_are_known(kernels, y, monkeypatch):
    fit(kernels, y)
    looks, look = [], verdicts._content
    monkeypatch.setattr(verdicts, "_content", lambda given: looks.append(given) or look(given))
    fit(kernels, y)
    assert len(looks) == 1


def test_memory_that_is_given_away_and_used_again_is_other_memory():
    for value in range(5):
        array = unchanging((1, 2, 2), lambda values, value=value: np.copyto(values, value))
        assert remembered(array, "first entry", lambda array=array: array[0, 0, 0]) == value
        del array
        gc.collect()
    assert len(verdicts._SEALED) < 1000


def test_stacked_kernels_are_read_only_and_checked_by_the_first_fit_alone(kernels, y, tested):
    values = stack_kernels(list(kernels)).values
    assert not values.flags.writeable
    for _ in range(2):
        UniformMKLClassifier("precomputed").fit(values, y)
    assert len(tested) == P
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        values.flags.writeable = True


def test_shared_kernels_of_known_definiteness_are_judged_once_and_doubts_said_again(rng, y, monkeypatch):
    seen, inspect = [], inspector.KernelInspector.inspect

    def counted(self, kernel, present=None):
        seen.append(kernel)
        return inspect(self, kernel, present)

    monkeypatch.setattr(inspector.KernelInspector, "inspect", counted)
    bank, X = KernelBank([Gaussian(width=1.0), Gaussian(width=1e-3)]), rng.normal(size=(N, P))
    with sharing_kernels(KernelCache()):
        for C in (1.0, 3.0, 10.0):
            with pytest.warns(KernelQualityWarning, match="near-identity"):
                UniformMKLClassifier(bank, C=C).fit(X, y)
    assert len(seen) == 2


def test_doubts_are_said_again_and_errors_raised_again(kernels, y):
    doubtful = np.stack([*kernels, kernels[0]])
    for _ in range(2):
        with pytest.warns(KernelQualityWarning, match="duplicates"):
            fit(doubtful, y)
    broken = kernels.copy()
    broken[1, 0, 3] += 1.0
    for _ in range(2):
        with pytest.raises(ValueError, match="'kernel 1' is not symmetric"):
            fit(broken, y)


def test_clipping_is_found_again(kernels, y):
    indefinite = kernels.copy()
    indefinite[2] -= 0.5 * np.eye(N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelQualityWarning)
        first, second = (fit(indefinite, y, indefinite="clip") for _ in range(2))
    assert first.clipping_.kernels.tolist() == second.clipping_.kernels.tolist() == [2]


def test_few_stacks_are_remembered(monkeypatch):
    monkeypatch.setattr(verdicts, "KEPT", 3)
    asked = []
    for value in (0, 1, 2, 3, 3, 0):
        remembered(np.full((1, 2, 2), float(value)), "?", lambda value=value: asked.append(value))
    assert asked == [0, 1, 2, 3, 0]
    assert len(verdicts._VERDICTS) == 3


@pytest.mark.parametrize("size", [1e-6, 1e-9, 1e-11])
def test_asymmetry_of_one_pair_is_found_at_its_tolerance(rng, size):
    kernel = rng.normal(size=(N, N))
    kernel = kernel @ kernel.T
    assert not inspector.is_asymmetric(kernel, 1e-12 * N)
    kernel[3, 11] += size
    assert inspector.is_asymmetric(kernel, 0.5 * size)
    assert not inspector.is_asymmetric(kernel, 2.0 * size)
