"""Fits at the same time, in several threads of one process, are those that come one after the other."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import families
import numpy as np
import pytest
from global_state import unchanged
from threadpoolctl import threadpool_info, threadpool_limits
from verdicts import quietly

from bayesmkl import BEMKLClassifier, BEMKLRegressor, load_model, save_model
from bayesmkl._utils.files import load_array
from bayesmkl._utils.threads import blas_threads_for, one_thread
from bayesmkl._utils.warnings import holding_back, recording_warnings
from bayesmkl.bemkl import NUTS, Gibbs, Storage, select_by_elbo
from bayesmkl.kernels.cache import KernelCache, sharing_kernels

pytestmark = [pytest.mark.family("threads"), pytest.mark.heavy]

ONCE = sorted(name for name in families.families() if "three classes" not in name)


@pytest.fixture(autouse=True)
def _hasty_switches():
    """Let threads take turns a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*calls):
    """Run the calls in a thread each, started together; return what they return."""
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait(30)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for method, values in one.items():
        assert values.tobytes() == other[method].tobytes(), method


def fit_and_predict(fit):
    return families.predictions(fit())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] * bool(name in families.discriminative_classes() and k % 3)
        )
        for k, name in enumerate(ONCE)
    ],
)
def test_fits_in_two_threads_equal_the_serial_one(name):
    fit = families.families()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = fit_and_predict(fit)
        for together in at_once(*[lambda: fit_and_predict(fit)] * 2):
            assert_equal(alone, together)


def test_different_models_in_four_threads_equal_the_serial_ones():
    names = ["binary", "regression", "tasks, learned, binary", "Gibbs, binary", "multinomial", "graph"]
    names += [
        "LMKLClassifier",
        "SAMKLClassifier",
        "LpMKLClassifier",
        "CLMKLClassifier",
        "missing views, binary",
    ]
    fits = families.families()
    orders = [names[k:] + names[:k] for k in (0, 3, 6, 9)]

    def work(order):
        return {name: fit_and_predict(fits[name]) for name in order}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = work(names)
        for together in at_once(*[lambda order=order: work(order) for order in orders]):
            for name in names:
                assert_equal(alone[name], together[name])


def test_files_written_and_read_in_threads(tmp_path):
    names = ["binary", "LMKLClassifier", "regression", "several outputs"]
    models = {name: families.fitted(families.families()[name]) for name in names}

    def there_and_back(name):
        found = []
        for k in range(4):
            save_model(models[name], tmp_path / f"{name}-{k}.skops")
            found.append(families.predictions(load_model(tmp_path / f"{name}-{k}.skops")))
        return found

    for name, found in zip(names, at_once(*[lambda n=n: there_and_back(n) for n in names]), strict=True):
        for read in found:
            assert_equal(families.predictions(models[name]), read)
    assert len(list(tmp_path.iterdir())) == 16


def test_arrays_are_read_in_threads_while_the_collector_runs(tmp_path):
    # JAX has Python called at every collection; the parser that reads headers loses count where threads switch then
    for k in range(4):
        np.save(tmp_path / f"{k}.npy", np.full(3, k))
    save_model(families.fitted(families.families()["regression"]), tmp_path / "model.skops")

    def reads(k):
        for _ in range(40):
            assert np.all(load_array(tmp_path / f"{k}.npy") == k)
        for _ in range(8):
            load_model(tmp_path / "model.skops")

    def called(*_):
        return sum(range(20))

    before = gc.get_threshold()
    gc.set_threshold(10)
    gc.callbacks.append(called)
    try:
        at_once(*[lambda k=k: reads(k) for k in range(4)])
    finally:
        gc.callbacks.remove(called)
        gc.set_threshold(*before)


def test_one_model_predicts_in_many_threads():
    model, X = families.fitted(families.families()["binary"]), families.data(200, seed=9)
    alone = model.predict_proba(X)
    for together in at_once(*[lambda: model.predict_proba(X)] * 8):
        assert together.tobytes() == alone.tobytes()


# ------------------------------------------------------------------------------------------------- shared kernels


@pytest.mark.parametrize("max_bytes", [2**30, 40_000, 1])
def test_a_cache_of_kernels_is_shared_by_threads(max_bytes):
    """Also one that keeps forgetting: it holds about six stacks, or none."""
    samples = [families.data(18, seed) for seed in range(8)]
    cache = KernelCache(max_bytes)

    def kernels(seed):
        bank, X = families.bank(), samples[seed - 1]
        train = bank.fit_transform(samples[seed])
        shared = bank.shared_rows(X)
        rows = bank.transform(X) if shared is None else np.moveaxis(shared, 0, -1)
        return np.concatenate([train, rows])

    def work(first):
        with sharing_kernels(cache):
            return {(first + k) % 8: kernels((first + k) % 8) for k in range(40)}

    alone = [kernels(seed) for seed in range(8)]
    for together in at_once(*[lambda first=first: work(first) for first in (0, 3, 5)]):
        for seed, stack in together.items():
            assert stack.tobytes() == alone[seed].tobytes()
    n_asked = cache.tally.n_evaluated + cache.tally.n_reused
    assert n_asked == 3 * 40 * (2 if max_bytes > 1 else 1)
    assert sum(kept.n_bytes for kept in cache._kept.values()) <= max_bytes


def test_the_books_of_a_shared_cache_add_up():
    """Four threads that keep making it forget what another one is looking for."""
    cache = KernelCache(max_bytes=2000)

    def work(first):
        for k in range(1500):
            stack = cache.training(
                families.KernelBank("linear"), (first + k) % 5, lambda: np.ones((1, 10, 10))
            )
            assert stack.shape == (1, 10, 10)

    at_once(*[lambda first=first: work(first) for first in range(4)])
    assert cache.tally.n_evaluated + cache.tally.n_reused == 6000


# ------------------------------------------------------------------------------------------ BLAS threads, warnings


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
    inside, leave = threading.Barrier(3), [threading.Event(), threading.Event()]
    done = threading.Barrier(3)

    def work(k):
        if k == 1:
            entered.wait(30)
        with limit():
            entered.set()
            inside.wait(30)
            leave[k].wait(30)
        if k == first_to_leave:
            left.set()
        done.wait(30)

    entered, left = threading.Event(), threading.Event()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    inside.wait(30)
    assert blas_threads() == {1}
    leave[first_to_leave].set()
    assert left.wait(30)
    assert blas_threads() == {1}
    leave[1 - first_to_leave].set()
    done.wait(30)
    for thread in threads:
        thread.join()
    assert blas_threads() == {2}


@pytest.mark.usefixtures("_two_blas_threads")
def test_fits_in_threads_leave_the_threads_of_blas(tmp_path):
    fit = families.families()["binary"]
    for _ in range(5):
        at_once(*[lambda: families.fitted(fit)] * 3)
    assert blas_threads() == {2}


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

    def ignore_them():
        for _ in range(500):
            warnings.warn("not of interest", FutureWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        *recorded, n_raised, _ = at_once(*[lambda k=k: record(k) for k in range(3)], raise_them, ignore_them)
    assert recorded == [{f"of thread {k}", f"through, {k}"} for k in range(3)]
    assert n_raised >= 490  # Python looks at the filters and shows in two steps; a block may end in between
    assert warnings.filters == filters


def test_what_is_not_held_back_is_shown_once_a_place(recwarn):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        with holding_back(DeprecationWarning):
            for _ in range(3):
                warnings.warn("old", DeprecationWarning, stacklevel=1)
                warnings.warn("new", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["new"]


def test_a_search_in_threads_leaves_the_filters_of_warnings():
    """scikit-learn hands its filters to every task, and restores what it found there when another one had begun."""
    import joblib

    X = families.data(40)
    y = families.labels(X, 2)
    model = BEMKLClassifier(families.bank(), max_iter=3, intermediate_scale=1.0)
    banks = {"kernels": [families.bank(landmarks=k, landmark_selection="kmeans") for k in (5, 6, 7, 8)] * 2}
    filters = list(warnings.filters)
    alone = quietly(lambda: select_by_elbo(model, banks, X, y), UserWarning)
    with joblib.parallel_config("threading"):
        together = quietly(lambda: select_by_elbo(model, banks, X, y, n_jobs=4), UserWarning)
    assert together.table["elbo"].tolist() == alone.table["elbo"].tolist()
    assert warnings.filters == filters


# ------------------------------------------------------------------------------------------------- JAX, NumPyro


def in_float64(model):
    """Whether all that a model holds of numbers is NumPy's, in double precision."""
    arrays = [np.asarray(v) for v in vars(model).values() if hasattr(v, "dtype")]
    return all(array.dtype != np.float32 for array in arrays) and not any(
        type(v).__module__.startswith("jax") for v in vars(model).values()
    )


@pytest.mark.heavy
def test_jax_fits_in_threads_have_double_precision_each():
    import jax

    X = families.data()
    y = families.labels(X, 2)

    def fit():
        model = BEMKLClassifier(
            families.bank(), storage=Storage(backend="jax"), max_iter=20, tol=0.0, intermediate_scale=1.0
        ).fit(X, y)
        assert in_float64(model)
        return families.predictions(model)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # the first compiles, beside others that want the same program; scikit-learn's checks of targets set filters
        # in blocks that are not made for threads
        with unchanged("filters of warnings"):
            compiled, *others = at_once(*[fit] * 3)
        numpy = families.predictions(
            BEMKLClassifier(
                families.bank(),
                storage=Storage(backend="numpy"),
                max_iter=20,
                tol=0.0,
                intermediate_scale=1.0,
            ).fit(X, y)
        )
    for other in others:
        assert_equal(compiled, other)
    for method, values in numpy.items():
        np.testing.assert_allclose(compiled[method], values, rtol=1e-9, atol=1e-12)
    assert not jax.config.jax_enable_x64


@pytest.mark.slow
@pytest.mark.heavy
def test_samplers_take_turns():
    """NumPyro keeps one stack of handlers per process."""
    X = families.data()
    y, target = families.labels(X, 2), families.target(X)
    short = {"nuts": NUTS(1, 20, 20), "gibbs": Gibbs(1, 20, 20)}

    def classify(inference):
        return families.predictions(
            BEMKLClassifier(families.bank(), inference=short[inference], intermediate_scale=1.0).fit(X, y)
        )

    def regress(inference):
        return families.predictions(
            BEMKLRegressor(families.bank(), inference=short[inference]).fit(X, target)
        )

    calls = [
        lambda: classify("nuts"),
        lambda: classify("gibbs"),
        lambda: regress("nuts"),
        lambda: regress("gibbs"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [call() for call in calls]
        for one, other in zip(alone, at_once(*calls), strict=True):
            assert_equal(one, other)
