"""The process-wide limit on BLAS threads."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bayesmkl._utils.threads import LARGE, blas_threads_for


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_small_problems_use_one_thread_and_restore_it_afterwards():
    with blas_threads_for(LARGE - 1):
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with pytest.raises(KeyboardInterrupt), blas_threads_for(10):
        raise KeyboardInterrupt
    assert blas_threads() == {2}


def test_large_problems_keep_their_threads():
    with blas_threads_for(LARGE):
        assert blas_threads() == {2}
