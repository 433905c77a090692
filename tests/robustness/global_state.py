"""What belongs to the process or to other libraries, and must be the same before and after."""

from __future__ import annotations

import contextlib
import decimal
import gc
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
import sklearn
from threadpoolctl import threadpool_info


def snapshot() -> dict[str, Any]:
    """Return everything global that a fit or a plot could be tempted to change, by name."""
    numpy_random = np.random.get_state(legacy=False)  # noqa: NPY002
    plain = {k: v for k, v in jax.config.values.items() if isinstance(v, bool | int | str | float | None)}
    pyplot = sys.modules.get("matplotlib.pyplot")
    return {
        "NumPy's error state": np.geterr(),
        "NumPy's print options": np.get_printoptions(),
        "NumPy's random state": (numpy_random["state"]["pos"], hash(numpy_random["state"]["key"].tobytes())),
        "Python's random state": hash(random.getstate()),
        "JAX's configuration": plain,
        "JAX's precision in this thread": bool(jax.config.jax_enable_x64),
        "scikit-learn's configuration": sklearn.get_config(),
        "filters of warnings": list(warnings.filters),
        "what shows warnings": warnings.showwarning,
        "matplotlib's parameters": dict(mpl.rcParams),
        "open figures of pyplot": [] if pyplot is None else pyplot.get_fignums(),
        "environment": dict(os.environ),
        "threads of libraries": sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info()),
        "handlers of signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "alarm": signal.getitimer(signal.ITIMER_REAL)[1],
        "logging": (logging.root.level, list(logging.root.handlers), logging.root.manager.disable),
        "locale": locale.setlocale(locale.LC_ALL),
        "working directory": Path.cwd(),
        "import path": list(sys.path),
        "streams": (sys.stdout, sys.stderr, sys.stdin),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook, sys.gettrace(), sys.getprofile()),
        "limits": (sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold()),
        "decimal context": repr(decimal.getcontext()),
        "threads": {thread.name for thread in threading.enumerate()},
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Say what differs, entry by entry for dictionaries."""
    found = []
    for name, value in before.items():
        if isinstance(value, dict):
            keys = value.keys() | after[name].keys()
            found += [
                f"{name}: {key}: {value.get(key)!r} -> {after[name].get(key)!r}"
                for key in sorted(keys, key=str)
                if repr(value.get(key)) != repr(after[name].get(key))
            ]
        elif value != after[name]:
            found.append(f"{name}: {value!r} -> {after[name]!r}")
    return found


@contextlib.contextmanager
def unchanged(*besides: str) -> Iterator[None]:
    """Check that what happens inside leaves no trace, also where it ends in an error; `besides` names are let go."""
    before = {name: value for name, value in snapshot().items() if name not in besides}
    try:
        yield
    finally:
        found = changes(before, snapshot())
        assert not found, "\n".join(found)
