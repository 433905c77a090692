"""Columns on demand against whole kernels and a cache in plain words; products of rows and their memory."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesmkl.kernels import Gaussian, KernelBank, Laplacian, Linear, Polynomial
from bayesmkl.kernels.stacks import base
from bayesmkl.kernels.stacks.columns import BankColumns, ColumnCache
from bayesmkl.kernels.stacks.dense import DenseStack

N_TRAIN = 30


@pytest.fixture
def pair(rng):
    """A bank's columns with a cache of five, and the same kernels in memory."""
    bank = KernelBank([Gaussian(width=1), Laplacian(), Linear(), Polynomial(degree=2)], normalize="trace")
    kernels = np.moveaxis(bank.fit_transform(rng.normal(size=(N_TRAIN, 3))), -1, 0)
    return BankColumns(bank, 8 * 4 * N_TRAIN * 5 / 2**20), DenseStack(np.ascontiguousarray(kernels))


@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=12),
    capacity=st.integers(0, 6),
    kept=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_brute_force_cache_keeps_what_was_asked_for_last(asked, capacity, kept):
    kernel = np.arange(100.0).reshape(1, 10, 10)
    cache = ColumnCache(lambda index: kernel[:, :, index], 10, capacity * 80 / 2**20)
    recent, computed = [], 0  # the last one was asked for last
    for index, keep in zip(asked, kept, strict=False):
        np.testing.assert_array_equal(cache.columns(index, keep), kernel[:, :, index])
        computed += len(set(index) - set(recent))
        for i in index if keep else ():
            recent = [*(j for j in recent if j != i), i]
            recent = recent[len(recent) - capacity :] if len(recent) > capacity else recent
        assert cache.n_computed == computed


def test_a_kept_column_is_no_view_of_many():
    cache = ColumnCache(lambda index: np.zeros((2, 50, len(index))), 100, 1.0)
    cache.each(range(40))
    assert all(column.base is None for column in cache.each(range(40)))
    assert cache.n_computed == 40


@pytest.mark.parametrize("shape", [(N_TRAIN,), (N_TRAIN, 3), (4, N_TRAIN, 1)], ids=str)
@pytest.mark.parametrize("block", [1, 2**20], ids=["row by row", "at once"])
def test_products_of_rows_are_those_of_kernels_in_memory(rng, pair, monkeypatch, shape, block):
    monkeypatch.setattr(base, "HELD_ENTRIES", block)
    columns, stack = pair
    vector, index = rng.normal(size=shape), np.array([4, 0, 29, 11])
    columns.columns([0, 11])  # some of the rows come from the cache
    expected = stack.rows(index).apply(vector)
    np.testing.assert_allclose(columns.apply_rows(index, vector), expected, rtol=1e-10, atol=1e-12)
    assert columns.apply_rows(np.array([], dtype=int), vector).shape == (4, 0, *expected.shape[2:])


def test_products_of_rows_leave_the_cache_alone(rng, pair):
    columns, _ = pair
    columns.columns([3, 5])
    columns.apply_rows(np.arange(N_TRAIN), rng.normal(size=N_TRAIN))
    assert columns.n_evaluated == N_TRAIN  # two of them before
    columns.columns([3, 5])
    assert columns.n_evaluated == N_TRAIN


@pytest.mark.parametrize("n_vectors", [None, 3])
def test_quadratic_forms_use_the_rows_of_the_support_alone(rng, pair, n_vectors):
    columns, stack = pair
    vector = rng.normal(size=N_TRAIN if n_vectors is None else (N_TRAIN, n_vectors))
    vector[rng.permutation(N_TRAIN)[:20]] = 0.0
    expected = np.einsum("i...,mij,j...->m...", vector, stack.kernels, vector)
    np.testing.assert_allclose(columns.quadratic(vector), expected, rtol=1e-10, atol=1e-10)
    assert columns.n_evaluated == 10
    np.testing.assert_array_equal(columns.quadratic(np.zeros_like(vector)), np.zeros_like(expected))


def test_memory_of_products_is_a_block(rng):
    bank = KernelBank([Gaussian(width=1), Linear()]).fit(rng.normal(size=(4000, 2)))
    columns, vector = BankColumns(bank, 1.0), rng.normal(size=4000)
    vector[500:] = 0.0
    tracemalloc.start()
    columns.quadratic(vector)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 4000**2 / 3  # of one kernel's 128 MB


def test_columns_go_with_the_object_that_keeps_them(pair):
    gc.disable()
    try:
        columns = BankColumns(pair[0].bank)
        kept = weakref.ref(columns._cache)
        del columns
        assert kept() is None
    finally:
        gc.enable()
