"""Rows of kernels over devices, and kernels that devices evaluate: eight simulated devices, errors, formulas."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import assert_same
from one_of_several_processes import fitted

from bayesmkl import BEMKLClassifier
from bayesmkl._utils.devices import resolve_devices, to_numpy
from bayesmkl.bemkl import Storage
from bayesmkl.kernels import (
    Cosine,
    FromDistance,
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    Overlap,
    Polynomial,
    Tanimoto,
)
from bayesmkl.kernels.stacks import sharded, streamed_jax
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.sharded import ShardedStack, shard, shard_rows
from bayesmkl.kernels.stacks.streamed import Spread
from bayesmkl.kernels.stacks.streamed_jax import stream

pytestmark = pytest.mark.heavy

CHECKS = Path(__file__).with_name("eight_devices.py")
PROCESS = Path(__file__).with_name("one_of_several_processes.py")
# All that a kernel costs to compile is spent on small ones here: LLVM may leave them slow.
FLAGS = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 " + os.environ.get(
    "XLA_FLAGS", ""
)
EVERY_FORMULA = [
    *(
        Gaussian(gamma=0.3),
        Laplacian(width=2),
        Laplacian(gamma=0.2),
        Linear(),
        Cosine(),
        Tanimoto(),
        Overlap(),
    ),
    *(
        Polynomial(degree=3, offset=0.5),
        FromDistance(),
        FromDistance("l1", scale=2.0),
        FromDistance("sqeuclidean"),
    ),
    *(Gaussian(width=4), Linear()),  # the second of the same formula, and of the same function
]


def test_checks_on_eight_simulated_devices():
    """The device count is fixed before JAX starts, so that the checks need an interpreter of their own."""
    run = subprocess.run(
        [sys.executable, str(CHECKS)],
        env=os.environ | {"XLA_FLAGS": FLAGS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    outcomes = json.loads(run.stdout)
    assert len(outcomes) >= 8
    failures = [f"{name}\n{failure}" for name, failure in outcomes.items() if failure]
    assert not failures, "\n\n".join(failures)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "cases", [["file"], pytest.param(["dense", "streamed", "newton"], marks=pytest.mark.slow)], ids=" ".join
)
def test_two_processes_share_a_fit(tmp_path, cases):
    """What several hosts do: each process has two devices of the four, and ends with the whole posterior."""
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(41, 3)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROCESS), address, "2", str(k), str(tmp_path), *cases],
            env=os.environ | {"XLA_FLAGS": FLAGS.replace("count=8", "count=2")},
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    for case in cases:
        model = fitted(case, tmp_path)
        for k in range(2):
            with np.load(tmp_path / f"{case}-{k}.npz") as found:
                assert_same(found["dual"], model.dual_coef_, 1e-8 if case == "newton" else 1e-9, case)
                assert_same(found["shares"], model.kernel_shares_, 1e-8, case)


# ----------------------------------------------------------------------------------------------------- formulas


def kernels_of(stack):
    """Return the kernels of a stack that has none, (n_kernels, n_rows, n_train)."""
    quick = jax.jit(ShardedStack.apply, compiler_options={"xla_backend_optimization_level": 0})
    with jax.enable_x64(True):
        return np.asarray(quick(stack, jax.numpy.eye(stack.n_train)))


@pytest.fixture
def unchecked(monkeypatch):
    """Leave out a look at all kernels, for which their formulas would be compiled once more."""
    monkeypatch.setattr(ShardedStack, "spread", lambda stack, vectors: Spread(vectors[:1], vectors[:1]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("normalize", ["spherical", ("trace", "center")])
def test_kernels_on_devices_are_those_of_the_bank(rng, normalize):
    X = rng.normal(size=(30, 4))
    X[3] = 0.0  # no direction: the exceptions of cosine, Tanimoto and spherical normalization
    views = {"left": [0, 1], "right": [2, 3]}
    bank = KernelBank(EVERY_FORMULA, views=views, normalize=normalize, landmarks=X[:9]).fit(X)
    found = kernels_of(stream(bank, X))
    expected = bank.evaluate(X)
    for m, name in enumerate(bank.kernel_names_):
        assert_same(found[m], expected[m], 1e-12, name)


@pytest.mark.usefixtures("unchecked")
def test_centered_kernels_of_unit_length_agree_as_far_as_rounding_lets_them(rng):
    """A sample near the mean is divided by its small length, and so are the rounding errors of both sides."""
    X = rng.normal(size=(25, 3))
    functions = {
        "kernels": [Polynomial(degree=2), Gaussian()],
        "views": {"one": 1, "all": [0, 1, 2], "two": 2},
    }
    bank = KernelBank(**functions, normalize=("center", "spherical")).fit(X)
    centered = KernelBank(**functions, normalize="center").fit(X).evaluate(X)
    shortest = centered.diagonal(axis1=1, axis2=2).min(axis=1) / np.abs(centered).max(axis=(1, 2))
    assert shortest.max() < 0.5  # the kernels are not unit diagonal before
    errors = np.abs(kernels_of(stream(bank, X)) - bank.evaluate(X)).max(axis=(1, 2))
    assert (errors <= 1e-14 / shortest).all()


@pytest.mark.parametrize(
    ("kernels", "name"),
    [
        (np.dot, "dot"),
        ("rbf", "rbf"),
        (FromDistance("cosine"), r"distance\(cosine\)"),
        (type("Wider", (Gaussian,), {})(), r"gaussian\(width=1\)"),
    ],
)
def test_functions_without_a_formula_are_refused_by_name(rng, kernels, name):
    X = rng.uniform(size=(10, 2))
    bank = KernelBank([Linear(), kernels if kernels is not np.dot else lambda x, z: x @ z.T]).fit(X)
    name = r"callable\[1\]" if kernels is np.dot else name
    with pytest.raises(
        ValueError, match=rf"`kernels` holds '{name} · all'.*Gaussian, Laplacian.*storage=\"dense\""
    ):
        stream(bank, X)


def test_infinite_kernels_are_refused_by_name(rng):
    X = rng.normal(size=(12, 2))
    bank = KernelBank([Linear(), Polynomial(degree=9)], normalize=None).fit(X)
    with pytest.raises(
        ValueError, match=r"kernel 'polynomial\(degree=9\) · all': its values are not all finite"
    ):
        stream(bank, np.where(np.arange(12)[:, None] == 7, 1e40, X))


@pytest.mark.usefixtures("unchecked")
def test_sum_over_blocks_of_one_device_is_that_of_the_stack(rng, monkeypatch):
    monkeypatch.setattr(streamed_jax, "CPU_ENTRIES", 4 * 5 * 2)  # blocks of four rows, the last one not full
    X = rng.normal(size=(11, 2))
    bank = KernelBank([Gaussian(), Linear()], normalize="spherical", landmarks=X[:5]).fit(X)
    stack, dense = stream(bank, X), DenseStack(bank.evaluate(X))
    assert stack.local.rows.shape == (3, 4, 2)
    changed = [len(family.normalizers) for family in stack.local.groups[0].families]
    assert sorted(changed) == [0, 1]  # a Gaussian has length one already
    quick = jax.jit(ShardedStack.gram, compiler_options={"xla_backend_optimization_level": 0})
    with jax.enable_x64(True):
        assert_same(np.asarray(quick(stack)), dense.gram(), 1e-12)


def test_accelerators_evaluate_the_kernels_that_they_hold(rng, monkeypatch):
    """They do so in blocks of rows, as they would here if this processor were one."""
    monkeypatch.setattr(streamed_jax, "_evaluated_by", lambda device: True)
    monkeypatch.setattr(sharded, "BLOCK_ENTRIES", 5 * 4 * 6)
    X = rng.normal(size=(13, 2))
    bank = KernelBank([Gaussian(), Polynomial(degree=30)], views="each", normalize=None, landmarks=X[:6]).fit(
        X
    )
    monkeypatch.setattr(bank, "evaluate", None)
    found = np.asarray(streamed_jax.shard_bank(bank, X).local.kernels)
    monkeypatch.undo()
    for m, kernel in enumerate(bank.evaluate(X)):
        assert_same(found[m], kernel, 1e-12, bank.kernel_names_[m])
    monkeypatch.setattr(streamed_jax, "_evaluated_by", lambda device: True)
    with pytest.raises(
        ValueError, match=r"kernel 'polynomial\(degree=30\) · x1': its values are not all finite"
    ):
        streamed_jax.shard_bank(bank, np.where(np.arange(2) == 1, 1e12 * X, X))
    product = KernelBank(lambda x, z: x @ z.T, normalize=None).fit(X)
    found = streamed_jax.shard_bank(product, X).apply(np.ones(13))  # no formula: evaluated by NumPy
    assert_same(found[0], X @ X.sum(axis=0), 1e-12)


def test_absent_views_are_refused(rng):
    X = rng.normal(size=(8, 2))
    bank = KernelBank(Linear(), missing_views="keep").fit(X)
    kernels = bank.evaluate(X)
    with pytest.raises(ValueError, match="`devices` cannot be combined with `missing_views="):
        stream(bank, X)
    with pytest.raises(ValueError, match="`devices` cannot be combined with `missing_views="):
        shard(DenseStack(kernels, np.ones((1, 8), dtype=bool)))


# ------------------------------------------------------------------------------------------------------ devices


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (0, "`devices` must be from 1 to 1, what JAX sees"),
        (2, r"got 2\. For a GPU install JAX with its plugin.*xla_force_host_platform_device_count"),
        ("gpu", "`devices` must be None, \"all\" or a number of devices; got 'gpu'"),
        (True, "`devices` must be None, .* got True"),
        (1.0, "`devices` must be None, .* got 1.0"),
    ],
)
def test_devices_that_are_not_there_are_refused(devices, message):
    with pytest.raises(ValueError, match=message):
        resolve_devices(devices)


def test_estimator_refuses_devices_that_are_not_there_before_work(rng):
    calls = []
    bank = KernelBank(lambda x, z: calls.append(1) or x @ z.T)
    model = BEMKLClassifier(bank, storage=Storage(backend="jax", devices=64))
    with pytest.raises(ValueError, match="`devices` must be from 1 to 1"):
        model.fit(rng.normal(size=(10, 2)), np.arange(10) % 2)
    assert not calls


def test_kernels_that_do_not_fit_are_refused_before_one_is_evaluated():
    def evaluate(rows):
        raise AssertionError("evaluated")

    with pytest.raises(MemoryError, match=r"`X`: the stack of kernels needs 8\.0 PB, and .*Use more devices"):
        shard_rows(evaluate, (10, 10**7, 10**7), devices=1)


class SmallDevice:
    """A device with 1 GB, of which 0.9 are in use."""

    platform, process_index = "gpu", 0

    def memory_stats(self):
        return {"bytes_limit": 10**9, "bytes_in_use": 9 * 10**8}

    def __repr__(self):
        return "gpu:0"


def test_memory_of_each_device_is_asked(monkeypatch):
    class Mesh:
        size, devices = 1, np.array([SmallDevice()], dtype=object)

    monkeypatch.setattr(sharded, "row_mesh", lambda devices: Mesh())
    with pytest.raises(MemoryError, match=r"rows on gpu:0 need 200 MB, and 100 MB are free there"):
        shard_rows(lambda rows: None, (10, 2500, 1000), devices=1)


def test_one_device_holds_all_rows(rng):
    kernels = rng.normal(size=(3, 11, 5))
    stack, vector = shard(DenseStack(kernels), devices=None), rng.normal(size=5)
    assert stack.mesh.size == 1
    assert stack.nbytes == kernels.nbytes
    assert stack.present is None
    np.testing.assert_array_equal(np.asarray(stack.local.kernels), kernels)
    assert_same(stack.apply(vector), kernels @ vector, 1e-13)


def test_numpy_and_jax_arrays_are_fetched():
    with jax.enable_x64(True):
        tree = to_numpy({"a": jax.numpy.arange(3.0), "b": np.ones(2)})
    assert all(type(array) is np.ndarray and array.dtype == np.float64 for array in tree.values())
