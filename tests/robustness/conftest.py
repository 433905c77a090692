"""Every case belongs to a family; none may hang; a table counts what was tried and what failed."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

SECONDS = 60  # longer than any case takes on a loaded machine


def pytest_collection_modifyitems(items):
    for item in items:
        mark = item.get_closest_marker("family")
        if mark is not None:
            item.user_properties.append(("family", mark.args[0]))
            held = getattr(item, "callspec", None)
            item.user_properties.append(("cases", len(held.params.get("cases", [0])) if held else 1))


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


def pytest_terminal_summary(terminalreporter):
    """Print cases tried and failed, by family."""
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            held = dict(getattr(report, "user_properties", ()))
            family = held.get("family")
            if family is None or outcome not in ("passed", "failed", "error", "skipped"):
                continue
            counts = {"passed": tried, "skipped": skipped}.get(outcome, failed)
            counts[family] += held["cases"] if outcome == "passed" else 1
    tried += failed
    if not tried:
        return
    width = max(map(len, tried))
    write = terminalreporter.write_line
    terminalreporter.section("cases by family")
    write(f"{'family':<{width}}  {'tried':>6}  {'failed':>6}  {'skipped':>7}")
    for family in sorted(tried | skipped):
        write(f"{family:<{width}}  {tried[family]:>6}  {failed[family]:>6}  {skipped[family]:>7}")
    write(f"{'all':<{width}}  {tried.total():>6}  {failed.total():>6}  {skipped.total():>7}")
