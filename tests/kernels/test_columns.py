"""The columns that are kept, against a cache in plain words."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesmkl.kernels.stacks.columns import ColumnCache


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
