"""Settings of every test and doctest session."""

import gc
import os

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
