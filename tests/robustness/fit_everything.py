"""Fit a model of every family in a process of its own and write what each predicts, and which hosts it asked for.

Usage: ``fit_everything.py OUT N_SAMPLES``, OUT a file ``.npz``. Every module is imported first, with a look at what
that changes. Models are fitted on one thread of BLAS, and those that `are_on_all_threads` on all as well.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

# What others do when they are imported is theirs: scikit-learn's progress bars draw one number from Python's
# generator, and what the parts of the package that draw from posteriors import adds filters of warnings.
OTHERS = ("sklearn.preprocessing", "arviz_plots", "numpyro", "xarray")
ASKED: list[str] = []  # every attempt to reach a network, by its audit event


def note_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Write down names to look up and addresses to connect to; sockets inside the machine have paths, not pairs."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "http.client.connect"):
        ASKED.append(f"{event} {arguments}")
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        ASKED.append(f"{event} {arguments[1]}")


def import_everything() -> list[str]:
    """Import every module of the package; return their names."""
    import importlib
    import pkgutil

    import bayesmkl

    names = [module.name for module in pkgutil.walk_packages(bayesmkl.__path__, "bayesmkl.")]
    names.remove("bayesmkl.__main__")  # runs the command line
    for name in names:
        importlib.import_module(name)
    return names


def predictions_of(name: str, n_samples: int) -> dict[str, Any]:
    """Return what a family predicts when it is fitted to `n_samples`, by method."""
    import families

    usual = {key: vars(families)[key] for key in ("data", "N_TRAIN")}

    def data(n: int = n_samples, seed: int = 5) -> Any:
        return usual["data"](n, seed)

    vars(families).update(data=data, N_TRAIN=n_samples)
    try:
        return families.predictions(families.fitted(families.families()[name]))
    finally:
        vars(families).update(usual)


def are_on_all_threads(family: str) -> bool:
    """Return whether these are models of at most two classes; processes of 100 samples share no product at all."""
    return "three classes" not in family and not family.startswith("Gaussian process")


def changed_by_models() -> list[str]:
    """Import models and kernels, in silence; return what that changes."""
    import importlib
    import warnings

    importlib.import_module("sklearn.preprocessing")
    import global_state

    said = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)
        before = global_state.snapshot()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            import bayesmkl

            for name in bayesmkl.__all__:
                getattr(bayesmkl, name)
            for name in ("bemkl", "datasets", "discriminative", "kernels"):
                importlib.import_module(f"bayesmkl.{name}")
        found = global_state.changes(before, global_state.snapshot())
    return found + [said.getvalue()] * bool(said.getvalue())


def changed_by_everything() -> list[str]:
    """Import all modules; return what that changes but for what others do."""
    import importlib

    import global_state

    for name in OTHERS:
        importlib.import_module(name)
    before = global_state.snapshot()
    assert len(import_everything()) > 100
    return global_state.changes(before, global_state.snapshot())


if __name__ == "__main__":
    out, n_samples = sys.argv[1], int(sys.argv[2])
    sys.addaudithook(note_network)
    changed = changed_by_models(), changed_by_everything()
    after_import = len(ASKED)
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    import families
    import numpy as np
    from threadpoolctl import threadpool_info

    from bayesmkl._utils.threads import one_thread

    with one_thread():
        found = {
            (name, method, "one"): values
            for name in families.families()
            for method, values in predictions_of(name, n_samples).items()
        }
    found |= {
        (name, method, "all"): values
        for name in families.families()
        if are_on_all_threads(name)
        for method, values in predictions_of(name, n_samples).items()
    }
    np.savez(
        out,
        names=np.array(list(found)),
        changed_by_models=np.array(changed[0], dtype=str),
        changed_by_import=np.array(changed[1], dtype=str),
        asked_by_import=np.array(ASKED[:after_import], dtype=str),
        asked_by_fits=np.array(ASKED[after_import:], dtype=str),
        blas_threads=[pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"],
        **{str(k): values for k, values in enumerate(found.values())},
    )
