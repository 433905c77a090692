"""Imports, fits, plots and threads leave the process as it was, reach for no network, and repeat their numbers.

Run as a program, this file imports and fits everything in a process of its own and writes what it finds.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import pkgutil
import random
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import families
import jax
import matplotlib as mpl
import numpy as np
import pytest
import sklearn
from sklearn.base import is_outlier_detector, is_regressor
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

import bayesmkl
from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    KernelBank,
    discriminative,
    load_model,
    posterior,
    save_model,
)
from bayesmkl._utils.files import load_array
from bayesmkl._utils.threads import blas_threads_for, one_thread
from bayesmkl._utils.warnings import holding_back, recording_warnings
from bayesmkl.bemkl import NUTS, Gibbs, Storage, select_by_elbo
from bayesmkl.evaluation import compare_models
from bayesmkl.kernels import Linear
from bayesmkl.kernels.cache import KernelCache, sharing_kernels

pytestmark = [pytest.mark.family("process"), pytest.mark.heavy]

FITS, CLASSES = families.families(), families.discriminative_classes()
X, LABELS = families.data(), families.labels(families.data(), 2)
# What others do when they are imported is theirs: scikit-learn's progress bars draw a number, ArviZ adds filters.
OTHERS = ("sklearn.preprocessing", "arviz_plots", "numpyro", "xarray")


# ------------------------------------------------------------------------------------------------- what is global


def snapshot() -> dict[str, Any]:
    """Return everything global that a fit or a plot could be tempted to change, by name."""
    numpy_random = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    plain = {k: v for k, v in jax.config.values.items() if isinstance(v, bool | int | str | float | None)}
    pyplot = sys.modules.get("matplotlib.pyplot")
    return {
        "NumPy": (
            np.geterr(),
            np.get_printoptions(),
            numpy_random["pos"],
            hash(numpy_random["key"].tobytes()),
        ),
        "Python's random state": hash(random.getstate()),
        "JAX": (plain, bool(jax.config.jax_enable_x64)),
        "scikit-learn": sklearn.get_config(),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "matplotlib": (dict(mpl.rcParams), [] if pyplot is None else pyplot.get_fignums()),
        "environment": (dict(os.environ), Path.cwd(), list(sys.path)),
        "threads": (
            {one.name for one in threading.enumerate()},
            *((p["filepath"], p["num_threads"]) for p in threadpool_info()),
        ),
        "signals": (
            [signal.getsignal(number) for number in signal.valid_signals()],
            signal.getitimer(signal.ITIMER_REAL)[1],
        ),
        "logging": (logging.root.level, list(logging.root.handlers), logging.root.manager.disable),
        "streams and hooks": (sys.stdout, sys.stderr, sys.excepthook, threading.excepthook, sys.gettrace()),
        "limits": (sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold()),
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {value!r} -> {after[name]!r}"
        for name, value in before.items()
        if repr(value) != repr(after[name])
    ]


@contextlib.contextmanager
def unchanged(*besides):
    """Check that what happens inside leaves no trace, also where it ends in an error; `besides` names are let go."""
    before = {name: value for name, value in snapshot().items() if name not in besides}
    try:
        yield
    finally:
        found = changes(before, snapshot())
        assert not found, "\n".join(found)


@contextlib.contextmanager
def all_unchanged():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with unchanged():
            yield


def test_changes_are_seen():
    for change in (random.random, lambda: warnings.simplefilter("always"), lambda: sys.path.append("x")):
        with warnings.catch_warnings(), pytest.raises(AssertionError), unchanged():
            change()
    sys.path.remove("x")


# ----------------------------------------------------------------------------------------------- a fresh process

ASKED: list[str] = []  # every attempt to reach a network, by its audit event


def note_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Write down names to look up and addresses to connect to; sockets inside the machine have paths, not pairs."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "http.client.connect") or (
        event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple)
    ):
        ASKED.append(event)


def main(out: str) -> None:
    """Import every module and fit every family on one thread; write what that changed, asked for and predicts."""
    sys.addaudithook(note_network)
    for name in OTHERS:
        importlib.import_module(name)
    before = snapshot()
    for module in pkgutil.walk_packages(bayesmkl.__path__, "bayesmkl."):
        if module.name != "bayesmkl.__main__":  # runs the command line
            importlib.import_module(module.name)
    changed = changes(before, snapshot())
    with one_thread():
        found = {f"{name}/{key}": v for name in FITS for key, v in predictions_of(name).items()}
    asked = list(ASKED)
    with contextlib.suppress(OSError):  # the hook sees what is asked for
        import urllib.request

        urllib.request.urlopen("http://localhost:9/", timeout=1)
    assert len(ASKED) > len(asked)
    np.savez(out, changed=np.array(changed, dtype=str), asked=np.array(asked, dtype=str), **found)


def predictions_of(name):
    return families.predictions(families.fitted(FITS[name]))


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for method, values in one.items():
        assert values.tobytes() == other[method].tobytes(), method


def test_a_fresh_process_changes_nothing_asks_no_host_and_agrees_to_the_last_bit(tmp_path):
    """Strings hash differently there, so that sets of them are in another order, and nothing was fitted before."""
    here = str(Path(__file__).parent)
    environment = os.environ | {"PYTHONHASHSEED": "1", "OPENBLAS_NUM_THREADS": "2"}
    paths = [str(Path(bayesmkl.__file__).parents[1]), here, str(Path(here).parent)]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    subprocess.run(
        [sys.executable, __file__, tmp_path / "found.npz"], env=environment, check=True, timeout=600
    )
    with np.load(tmp_path / "found.npz") as held:
        found = dict(held)
    assert found.pop("changed").tolist() == []
    assert found.pop("asked").tolist() == []
    with one_thread():
        expected = {f"{name}/{key}": v for name in FITS for key, v in predictions_of(name).items()}
    assert_equal(found, expected)


# --------------------------------------------------------------------------------------------------- random_state


def drawing_models():
    """Return functions of `random_state` that make a model which draws, by what it draws."""
    short = families.SHORT | {"intermediate_scale": 1.0}
    found = {
        "random starts": lambda seed: BEMKLClassifier(
            families.bank(), init="random", n_init=2, random_state=seed, **short
        ),
        "Gibbs": lambda seed: BEMKLClassifier(families.bank(), random_state=seed, **short | families.CHAINS),
    }
    own = {"CLMKLClassifier": {"n_clusters": 2}, "LDMKLClassifier": {"gate_targets": "cv"}}
    for name, cls in CLASSES.items():
        if "random_state" in cls().get_params():
            options = families.QUICK | {"cv": 2, "n_init": 2} | own.get(name, {})
            options = {key: value for key, value in options.items() if key in cls().get_params()}
            found[name] = lambda seed, cls=cls, options=options: cls(
                families.bank(), random_state=seed, **options
            )
    return found


def drawn(make, seed):
    model = make(seed)
    y = families.target(X) if is_regressor(model) else LABELS
    return families.predictions(families.fitted(lambda: model.fit(X, y)))


@pytest.mark.parametrize("name", drawing_models())
def test_random_state_decides_what_is_drawn(name):
    """Nothing else does: not the generator of the process. A generator moves on."""
    make, state = drawing_models()[name], np.random.get_state()  # noqa: NPY002
    kinds = [lambda: 3, lambda: np.random.default_rng(3)]
    kinds += [lambda: None, lambda: np.random.RandomState(3)] if name == "Gibbs" else []
    try:
        for seed in kinds:
            np.random.seed(1)  # noqa: NPY002
            first = drawn(make, seed())
            np.random.seed(2)  # noqa: NPY002
            assert_equal(first, drawn(make, seed()))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    if name in ("random starts", "Gibbs", "LMKLClassifier", "LDMKLClassifier"):
        generator = np.random.default_rng(3)
        before = generator.bit_generator.state
        drawn(make, generator)
        assert generator.bit_generator.state != before


@pytest.mark.parametrize("selection", ["kmeans", "random"])
def test_the_choice_of_landmarks_repeats(selection):
    def landmarks(seed):
        bank = families.bank(landmarks=5, landmark_selection=selection, random_state=seed)
        return bank.fit(X).landmarks_.tobytes()

    assert landmarks(None) == landmarks(None)
    assert landmarks(3) == landmarks(np.int64(3))
    for seed in (np.random.default_rng(3), np.random.RandomState(3)):  # would choose others at every fit
        with pytest.raises(ValueError, match="`random_state`"):
            landmarks(seed)


def test_two_processes_find_what_one_finds():
    rows = families.data(60)
    y = families.labels(rows, 3)
    grid = {"C": [0.1, 10.0], "p_norm": [1.0, 2.0]}
    search = discriminative.LpMKLClassifier(families.bank())
    one, two = (GridSearchCV(search, grid, cv=3, n_jobs=n_jobs).fit(rows, y) for n_jobs in (1, 2))
    assert one.best_params_ == two.best_params_
    np.testing.assert_array_equal(one.cv_results_["split0_test_score"], two.cv_results_["split0_test_score"])
    model = BEMKLClassifier(families.bank(), intermediate_scale=1.0, max_iter=30, tol=0.0)
    banks = {"kernels": [families.bank(), KernelBank("paper")]}
    one, two = (families.fitted(lambda n=n: select_by_elbo(model, banks, rows, y, n_jobs=n)) for n in (1, 2))
    assert one.table["elbo"].tolist() == two.table["elbo"].tolist()
    assert_equal(*({"p": found.best_estimator_.predict_proba(rows)} for found in (one, two)))


# ------------------------------------------------------------------------------------------- nothing is left behind


def unfitted(name):
    if name in CLASSES:
        return families._discriminative(CLASSES[name])
    return {"binary": BEMKLClassifier, "regression": BEMKLRegressor}[name](families.bank(), **families.SHORT)


@pytest.mark.parametrize(
    "name", ["binary", "regression", "SimpleMKLClassifier", "LMKLRegressor", "PrimalMKLOneClass"]
)
def test_errors_change_nothing(name):
    """Wrong data, a wrong parameter, a warning that is an error, Ctrl-C in the middle of the kernels."""
    y = families.target(X) if "egress" in name else LABELS
    arguments = () if is_outlier_detector(unfitted(name)) else (y,)
    calls = []

    def stopping(A, B):
        calls.append(len(A))
        if len(calls) > 1:
            raise KeyboardInterrupt
        return A @ B.T

    stopped = unfitted(name).set_params(kernels=KernelBank([Linear(), stopping], views="each"))
    short = unfitted(name).set_params(max_iter=1, tol=1e-12)
    with all_unchanged(), pytest.raises(ValueError, match="NaN"):
        unfitted(name).fit(X * np.nan, *arguments)
    with all_unchanged(), pytest.raises(ValueError, match="kernels"):
        unfitted(name).set_params(kernels=3).fit(X, *arguments)
    with all_unchanged(), pytest.raises(KeyboardInterrupt):
        stopped.fit(X, *arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with unchanged(), contextlib.suppress(Warning):
            short.fit(X, *arguments)


@pytest.fixture(scope="module")
def models():
    for name in OTHERS:
        importlib.import_module(name)
    chains = Gibbs(n_chains=2, n_warmup=5, n_draws=10)
    found = {name: families.fitted(FITS[name]) for name in ("binary", "regression", "multinomial")}
    sampled = BEMKLClassifier(families.bank(), inference=chains, intermediate_scale=1.0)
    machine = discriminative.UniformMKLClassifier(KernelBank("linear"))
    return found | {
        "Gibbs": families.fitted(lambda: sampled.fit(X, LABELS)),
        "machine": families.fitted(lambda: machine.fit(X[:, :2], LABELS)),
        "gates": families.fitted(FITS["LMKLClassifier"]),
    }


def parts(models):
    """Return what views add to the scores of the rows."""
    return posterior.contributions(models["binary"], X, n_draws=20, random_state=0)


PLOTS = {
    "plot_decision": lambda m: discriminative.plot_decision(m["machine"], X[:, :2], LABELS),
    "plot_gates": lambda m: discriminative.plot_gates(m["gates"], X),
    "plot_switches": lambda m: discriminative.plot_switches(np.eye(families.N_TRAIN, 4) > 0.0, np.ones(4)),
    "plot_contributions": lambda m: posterior.plot_contributions(parts(m)),
    "plot_waterfall": lambda m: posterior.plot_waterfall(parts(m), 0),
    "plot_component": lambda m: posterior.plot_component(parts(m), "intercept", X[:, 0]),
    "plot_features": lambda m: posterior.plot_features(posterior.feature_table(m["binary"], random_state=0)),
    "plot_elbo": lambda m: posterior.plot_elbo(m["binary"]),
    "plot_kernel_weights": lambda m: posterior.plot_kernel_weights(m["binary"]),
    "plot_predictions": lambda m: posterior.plot_predictions(
        families.target(X), *m["regression"].predict(X, return_std=True)
    ),
    "plot_reliability": lambda m: posterior.plot_reliability(LABELS, m["binary"].predict_proba(X)),
}


@pytest.mark.parametrize("name", PLOTS)
def test_plots_change_nothing(models, name):
    families.fitted(lambda: PLOTS[name](models))  # the first of its kind imports what draws
    with all_unchanged():
        PLOTS[name](models)


def test_files_choices_and_comparisons_change_nothing(models, tmp_path):
    rows = families.data(40)
    y, banks = families.labels(rows, 2), {"kernels": [families.bank(), KernelBank()]}
    choosing = BEMKLClassifier(families.bank(), max_iter=5, intermediate_scale=1.0)

    def files(folder):
        folder.mkdir()
        save_model(models["binary"], folder / "m.skops")
        load_model(folder / "m.skops")
        posterior.save_posterior(models["Gibbs"], folder / "p.nc")
        posterior.load_posterior(folder / "p.nc")
        for read, name in ((load_model, "p.nc"), (posterior.load_posterior, "m.skops")):
            with pytest.raises((OSError, ValueError), match=name):
                read(folder / name)

    def work(folder):
        select_by_elbo(choosing, banks, rows, y)
        compared = {name: unfitted(name) for name in ("UniformMKLClassifier", "binary")}
        comparison = compare_models(compared, rows, y, cv=2, folder=folder / "comparison")
        comparison.to_html(folder / "report.html")
        comparison.plot("scores").clear()

    files(tmp_path / "first")  # the first imports what reads and writes, and xarray adds a filter
    families.fitted(lambda: work(tmp_path / "first"))
    with unchanged():
        files(tmp_path / "second")
    with all_unchanged():
        work(tmp_path / "second")


# --------------------------------------------------------------------------------------------- the caller's settings


@contextlib.contextmanager
def strict():
    """Frames of pandas, checks left out, every floating point error raised, numbers shown with one digit."""
    options = {"assume_finite": True, "enable_metadata_routing": True, "print_changed_only": False}
    options |= {"skip_parameter_validation": True, "transform_output": "pandas", "working_memory": 1}
    printing = np.printoptions(legacy="1.13", precision=1, threshold=3)
    with sklearn.config_context(**options), np.errstate(all="raise"), printing:
        yield


@contextlib.contextmanager
def careless():
    """Frames of polars, no floating point error reported."""
    with sklearn.config_context(transform_output="polars"), np.errstate(all="ignore"):
        yield


ESTIMATORS = {name: getattr(bayesmkl, name) for name in bayesmkl.__all__ if name.startswith("BEMKL")}
ESTIMATORS |= {
    name: CLASSES[name]
    for name in ("LDMKLClassifier", "LMKLRegressor", "LapMKLClassifier", "PrimalMKLOneClass")
}
ESTIMATORS |= {name: CLASSES[name] for name in ("SAMKLClassifier", "SMOMKLClassifier", "SimpleMKLRegressor")}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_numbers_and_refusals_do_not_depend_on_settings(name):
    model = ESTIMATORS[name]()
    y = () if is_outlier_detector(model) else (families.target(X) if is_regressor(model) else LABELS,)
    tasks = {"tasks": np.arange(len(X)) % 2} if "Multitask" in name else {}

    def numbers():
        model.fit(X, *y, **tasks)
        path = getattr(model, "elbo_history_", None)
        path = getattr(model, "objective_history_", ()) if path is None else path
        return families.predictions(model) | {"path": np.concatenate([*map(np.ravel, path), []])}

    def fitted():
        return families.fitted(numbers)

    expected = fitted()
    for setting in (strict, careless):
        with setting():
            assert_equal(fitted(), expected)
    with sklearn.config_context(assume_finite=True):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            model.predict(np.where(X > 0.5, np.nan, X), **tasks)
        with pytest.raises(ValueError, match="Input X contains infinity"):
            model.fit(np.where(X > 0.5, np.inf, X), *y, **tasks)


def test_errors_of_ones_own_kernel_are_still_raised():
    """Settings inside concern what underflows alone."""
    kernel = lambda A, B: A @ B.T / np.float64(0.0)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide"):
        BEMKLRegressor(KernelBank(kernel)).fit(X, families.target(X))


# ----------------------------------------------------------------------------------------------------------- threads


@pytest.fixture
def _hasty():
    """Let threads take turns a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


in_threads = pytest.mark.usefixtures("_hasty")


def at_once(*calls):
    """Run the calls in a thread each, started together; return what they return."""
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait(30)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


TOGETHER = [
    "binary",
    "regression",
    "tasks, learned, binary",
    "Gibbs, binary",
    "multinomial",
    "graph",
    "LMKLClassifier",
]
TOGETHER += [
    "SAMKLClassifier",
    "LpMKLClassifier",
    "CLMKLClassifier",
    "missing views, binary",
    "several outputs",
]
TOGETHER += ["Gaussian process, binary", "precomputed", "PrimalMKLOneClass"]


@in_threads
def test_models_and_their_files_in_threads_are_the_serial_ones(tmp_path):
    def work(start):
        found = {}
        for name in TOGETHER[start:] + TOGETHER[:start]:
            model = FITS[name]()
            save_model(model, tmp_path / f"{start}-{name}.skops")
            found[name] = families.predictions(model)
            assert_equal(found[name], families.predictions(load_model(tmp_path / f"{start}-{name}.skops")))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = work(0)
        for together in at_once(*[lambda start=start: work(start) for start in (0, 0, 4, 8)][1:]):
            for name in TOGETHER:
                assert_equal(alone[name], together[name])


@in_threads
def test_arrays_are_read_in_threads_while_the_collector_runs(tmp_path):
    # JAX has Python called at every collection; the parser that reads headers loses count where threads switch then
    for k in range(4):
        np.save(tmp_path / f"{k}.npy", np.full(3, k))

    def reads(k):
        for _ in range(40):
            assert np.all(load_array(tmp_path / f"{k}.npy") == k)

    called = lambda *_: sum(range(20))
    before = gc.get_threshold()
    gc.set_threshold(10)
    gc.callbacks.append(called)
    try:
        at_once(*[lambda k=k: reads(k) for k in range(4)])
    finally:
        gc.callbacks.remove(called)
        gc.set_threshold(*before)


@in_threads
@pytest.mark.parametrize("max_bytes", [2**30, 40_000, 1])
def test_a_cache_of_kernels_is_shared_by_threads(max_bytes):
    """Also one that keeps forgetting: it holds about six stacks, or none."""
    samples, cache = [families.data(18, seed) for seed in range(8)], KernelCache(max_bytes)

    def work(first):
        with sharing_kernels(cache):
            return {
                (first + k) % 8: families.bank().fit_transform(samples[(first + k) % 8]) for k in range(40)
            }

    alone = [families.bank().fit_transform(X) for X in samples]
    for together in at_once(*[lambda first=first: work(first) for first in (0, 3, 5)]):
        for seed, stack in together.items():
            assert stack.tobytes() == alone[seed].tobytes()
    assert cache.tally.n_evaluated + cache.tally.n_reused == 3 * 40


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def _two_blas_threads():
    threadpool_limits(2, user_api="blas")  # as if the process had started so: no thread holds the limit
    yield
    threadpool_limits(1, user_api="blas")


@pytest.mark.usefixtures("_two_blas_threads")
@pytest.mark.parametrize("first_to_leave", [0, 1])
@pytest.mark.parametrize("limit", [lambda: blas_threads_for(10), one_thread])
def test_limits_that_overlap_are_restored_by_the_last_to_leave(limit, first_to_leave):
    entered, leave = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]

    def work(k):
        if k == 1:
            assert entered[0].wait(30)
        with limit():
            entered[k].set()
            assert leave[k].wait(30)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    assert entered[1].wait(30)
    for k in (first_to_leave, 1 - first_to_leave):
        assert blas_threads() == {1}
        leave[k].set()
        threads[k].join(30)
    assert blas_threads() == {2}


@in_threads
@pytest.mark.usefixtures("_two_blas_threads")
def test_fits_in_threads_leave_the_threads_of_blas():
    at_once(*[lambda: families.fitted(FITS["binary"])] * 3)
    assert blas_threads() == {2}


@in_threads
def test_warnings_are_recorded_by_the_thread_that_issued_them():
    """And those of a thread that records nothing go where they went before."""
    filters = list(warnings.filters)

    def record(k):
        found = []
        for _ in range(200):
            with recording_warnings() as caught:
                warnings.warn(f"of thread {k}", UserWarning, stacklevel=1)
                with holding_back(DeprecationWarning):
                    warnings.warn("held back", DeprecationWarning, stacklevel=1)
                    warnings.warn(f"through, {k}", RuntimeWarning, stacklevel=1)
            found += [str(warning.message) for warning in caught]
        return set(found)

    def raise_them():
        n_raised = 0
        for _ in range(500):
            try:
                warnings.warn("of nobody", UserWarning, stacklevel=1)
            except UserWarning:
                n_raised += 1
        return n_raised

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        *recorded, n_raised = at_once(*[lambda k=k: record(k) for k in range(3)], raise_them)
    assert recorded == [{f"of thread {k}", f"through, {k}"} for k in range(3)]
    assert n_raised >= 490  # Python looks at the filters and shows in two steps; a block may end in between
    assert warnings.filters == filters


@in_threads
def test_a_search_in_threads_leaves_the_filters_of_warnings():
    """scikit-learn hands its filters to every task, and restores what it found there when another one had begun."""
    import joblib

    rows = families.data(40)
    model = BEMKLClassifier(families.bank(), max_iter=3, intermediate_scale=1.0)
    banks = {"kernels": [families.bank(landmarks=k, landmark_selection="kmeans") for k in (5, 6, 7, 8)] * 2}
    filters = list(warnings.filters)
    search = lambda n_jobs: select_by_elbo(model, banks, rows, families.labels(rows, 2), n_jobs=n_jobs).table[
        "elbo"
    ]
    with joblib.parallel_config("threading"):
        together = families.fitted(lambda: search(4))
    assert together.tolist() == families.fitted(lambda: search(1)).tolist()
    assert warnings.filters == filters


@in_threads
def test_jax_fits_in_threads_have_double_precision_each():
    def fit(backend="jax"):
        storage = Storage(backend=backend)
        model = BEMKLClassifier(
            families.bank(), storage=storage, max_iter=20, tol=0.0, intermediate_scale=1.0
        )
        return families.predictions(families.fitted(lambda: model.fit(X, LABELS)))

    # the first compiles, beside others that want the same program; scikit-learn's checks of targets set filters in
    # blocks that are not made for threads
    with unchanged("warnings"):
        compiled, *others = at_once(*[fit] * 3)
    for other in others:
        assert_equal(compiled, other)
    for method, values in fit("numpy").items():
        np.testing.assert_allclose(compiled[method], values, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_samplers_take_turns():
    """NumPyro keeps one stack of handlers per process."""
    inferences = [NUTS(1, 20, 20), Gibbs(1, 20, 20)]
    calls = [
        lambda i=i, cls=cls, y=y: families.predictions(cls(families.bank(), inference=i).fit(X, y))
        for i in inferences
        for cls, y in ((BEMKLClassifier, LABELS), (BEMKLRegressor, families.target(X)))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [call() for call in calls]
        for one, other in zip(alone, at_once(*calls), strict=True):
            assert_equal(one, other)


if __name__ == "__main__":
    main(sys.argv[1])
