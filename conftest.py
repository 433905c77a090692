"""Settings of every test and doctest session."""

import gc
import os

import pytest

# Problems in tests are small: one BLAS thread is faster than several, and does not collapse on a busy machine.
# Set before NumPy is imported; subprocesses of the tests inherit it.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")  # figures need no screen
gc.disable()  # what is imported and collected stays


def pytest_collection_finish():
    """Leave the tests themselves, about a million objects, out of every later search for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Let every second worker read folders backwards: it finds half of the modules compiled by the others."""
    report = yield
    if isinstance(collector, pytest.Directory) and _worker(collector.config) % 2:
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Bring the tests of all workers into one order, by file."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (item.path.parts, isinstance(item, pytest.DoctestItem)))


def _worker(config):
    """Return the number of this worker of pytest-xdist; 0 without workers."""
    return int(config.workerinput["workerid"].removeprefix("gw")) if hasattr(config, "workerinput") else 0
