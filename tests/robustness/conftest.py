"""No case of bad input, faults or stress may hang."""

from __future__ import annotations

import signal

import pytest

SECONDS = 300  # longer than any case takes on a loaded machine


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a case that takes too long, where the system can interrupt it."""

    def give_up(_signal, _frame):
        raise TimeoutError(f"no result after {SECONDS} seconds")

    limited = item.get_closest_marker("family") and not item.get_closest_marker("slow")
    before = signal.signal(signal.SIGALRM, give_up) if limited else None
    signal.alarm(SECONDS if limited else 0)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        if limited:
            signal.signal(signal.SIGALRM, before)
