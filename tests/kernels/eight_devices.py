"""Checks of sharded stacks on eight simulated devices; `test_sharded` runs this file in an interpreter of its own.

Prints a JSON object: for every check "" or the traceback of its failure.
"""

from __future__ import annotations

import json
import math
import re
import sys
import traceback
import warnings
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np
import pytest
from helpers import (
    BINARY_PRIORS,
    arrays_of,
    assert_same,
    assert_same_factors,
)
from jax.sharding import NamedSharding, PartitionSpec

from bayesmkl import BEMKLClassifier, BEMKLRegressor
from bayesmkl._utils.devices import resolve_devices, to_devices
from bayesmkl.bemkl import VB, Storage
from bayesmkl.bemkl.inference.loop import LoopOptions, maximize_elbo
from bayesmkl.bemkl.models import binary
from bayesmkl.kernels import Gaussian, KernelBank, Laplacian, Polynomial
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.kernels.stacks.sharded import shard, shard_rows
from bayesmkl.kernels.stacks.streamed_jax import stream

N_DEVICES = 8
SAME = 1e-12
SAME_FIT = 1e-9
SWEEPS = LoopOptions(max_iter=5, tol=0.0, accelerate=False)
# The number of samples is no multiple of 8 on purpose: two devices get rows of zeros.
N_SAMPLES, N_LANDMARKS = 43, 20


@lru_cache
def data():
    """Return a bank with landmarks, its rows, their kernels, and targets that the kernels explain."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_SAMPLES, 3))
    bank = KernelBank([Gaussian(width=1), Polynomial(degree=2)], views="each")
    bank = bank.set_params(landmarks=X[:N_LANDMARKS] + 0.1).fit(X)
    kernels = bank.evaluate(X)
    signals = (kernels[0] @ rng.normal(size=(N_LANDMARKS, 3))).T
    targets = 3.0 * signals / signals.std() + 0.3 * rng.normal(size=signals.shape)
    return bank, X, kernels, targets


def problem_of(stack):
    """Return a binary problem with kernels in `stack`, and its start."""
    targets = data()[3][0]
    y = np.where(targets > np.median(targets), 1.0, -1.0)
    problem = binary.BinaryProblem(stack, stack.gram(), y, BINARY_PRIORS["non-sparse"], 1.0, 1.0)
    return problem, binary.init(problem, np.ones(N_SAMPLES))


def fit(stack, backend="jax"):
    return maximize_elbo(binary, *problem_of(stack), SWEEPS._replace(backend=backend))


def assert_same_fit(found, expected):
    assert_same_factors(found.state, expected.state, SAME_FIT)
    np.testing.assert_allclose(found.elbo_history, expected.elbo_history, rtol=SAME_FIT)
    assert len(found.elbo_history) == SWEEPS.max_iter
    assert all(type(array) is np.ndarray for _, array in arrays_of(found.state))


def assert_same_contractions(stack, kernels):
    rng, dense = np.random.default_rng(1), DenseStack(kernels)
    n_kernels, n_rows, n_train = kernels.shape
    assert (stack.n_kernels, stack.n_rows, stack.n_train) == kernels.shape
    for tail in ((), (3,)):
        vector, rows = rng.normal(size=(n_train, *tail)), rng.normal(size=(n_kernels, n_rows, *tail))
        assert_same(stack.apply(vector), dense.apply(vector), SAME, "apply")
        assert_same(stack.adjoint(rows), dense.adjoint(rows), SAME, "adjoint")
    assert_same(stack.gram(), dense.gram(), SAME, "gram")
    vectors = rng.normal(size=(n_train, 4))
    products = dense.apply(vectors)
    assert_same(stack.spread(vectors).mean, products.mean(axis=1), SAME, "mean")
    assert_same(stack.spread(vectors).variance, products.var(axis=1), SAME, "variance")


# ------------------------------------------------------------------------------------------------------- checks


def check_each_device_has_the_rows_of_its_shard():
    kernels = data()[2]
    whole = shard(DenseStack(kernels)).local.kernels
    size = math.ceil(N_SAMPLES / N_DEVICES)
    padded = np.zeros((len(kernels), N_DEVICES * size, N_LANDMARKS))
    padded[:, :N_SAMPLES] = kernels
    shards = whole.addressable_shards
    assert len({piece.device for piece in shards}) == N_DEVICES
    for piece in shards:
        assert piece.data.shape == (len(kernels), size, N_LANDMARKS)
        assert piece.data.devices() == {piece.device}
        np.testing.assert_array_equal(piece.data, padded[piece.index])


def check_contractions_where_devices_share_rows_unevenly():
    kernels = data()[2]
    for n_rows in (N_SAMPLES, 3):  # with 3 some devices have no row
        assert_same_contractions(shard(DenseStack(kernels[:, :n_rows])), kernels[:, :n_rows])


def check_rows_evaluated_in_blocks_are_those_in_memory():
    bank, X, kernels, _ = data()
    kernels = kernels[:, :40]
    asked = []

    def evaluate(rows):
        asked.append((rows.start, rows.stop))
        return bank.evaluate(X[rows])

    import bayesmkl.kernels.stacks.sharded as module

    module.BLOCK_ENTRIES, before = 4 * kernels.shape[0] * kernels.shape[2], module.BLOCK_ENTRIES
    try:
        stack = shard_rows(evaluate, kernels.shape, devices="all")
    finally:
        module.BLOCK_ENTRIES = before
    assert asked == [
        rows for first in range(0, 40, 5) for rows in ((first, first + 4), (first + 4, first + 5))
    ]
    np.testing.assert_allclose(np.asarray(stack.local.kernels), kernels, rtol=1e-12)


def check_streamed_contractions_on_all_devices():
    bank, X, kernels, _ = data()
    stack = stream(bank, X, devices="all")
    assert {piece.data.shape for piece in stack.local.rows.addressable_shards} == {(1, 6, 3)}
    assert_same_contractions(stack, kernels)


def check_binary_fit_equals_numpy():
    """And so that on a single device, which `test_backends` compares with NumPy."""
    stack = DenseStack(data()[2])
    assert_same_fit(fit(shard(stack)), fit(stack, backend="numpy"))


def assert_same_model(found, expected):
    """Compare fitted estimators, of which the second was fitted by NumPy."""
    for name in ("kernel_weights_", "kernel_weights_cov_", "dual_coef_", "intercept_", "kernel_shares_"):
        assert_same(getattr(found, name), getattr(expected, name), SAME_FIT, name)
    np.testing.assert_allclose(found.elbo_history_, expected.elbo_history_, rtol=SAME_FIT)
    assert_same_factors(found.posterior_, expected.posterior_, SAME_FIT)


def check_estimator_of_several_classes_with_square_kernels():
    _, X, _, targets = data()
    y = np.argsort(np.argsort(targets[0])) // 15
    settings = {"max_iter": SWEEPS.max_iter, "tol": 0.0, "inference": VB(accelerate=False)}
    bank = KernelBank([Gaussian(width=2), Laplacian()])
    on_eight = BEMKLClassifier(
        bank, storage=Storage(backend="jax", devices="all"), **settings, intermediate_scale=1.0
    ).fit(X, y)
    with_numpy = BEMKLClassifier(
        bank, storage=Storage(backend="numpy"), **settings, intermediate_scale=1.0
    ).fit(X, y)
    assert len(on_eight.classes_) == 3
    assert_same_model(on_eight, with_numpy)
    np.testing.assert_allclose(on_eight.predict_proba(X), with_numpy.predict_proba(X), atol=SAME_FIT)


def check_estimator_for_regression_with_streamed_kernels():
    bank, X, _, targets = data()
    settings = {"max_iter": SWEEPS.max_iter, "tol": 0.0, "inference": VB(accelerate=False)}
    on_eight = BEMKLRegressor(bank, storage=Storage("streamed", "jax", "all"), **settings)
    with_numpy = BEMKLRegressor(bank, storage=Storage("dense", "numpy"), **settings)
    assert_same_model(on_eight.fit(X, targets[0]), with_numpy.fit(X, targets[0]))


COLLECTIVE = re.compile(r"= (.*?) (all-gather|all-to-all|collective-permute|all-reduce)(?:-start)?\(")
SHAPE = re.compile(r"f64\[([\d,]*)\]")


def exchanged(compiled):
    """Return (operation, entries) of every array that devices send each other."""
    return [
        (operation, math.prod(int(size) for size in shape.split(",") if size))
        for result, operation in COLLECTIVE.findall(compiled.as_text())
        for shape in SHAPE.findall(result)
    ]


def check_kernels_are_never_gathered():
    """Devices exchange the sums of `adjoint` and, at most, numbers per sample and kernel."""
    kernels = data()[2]
    stack = shard(DenseStack(kernels))
    problem, start = problem_of(stack)

    with jax.enable_x64(True):
        problem = to_devices(problem)
        sweep = jax.jit(binary.sweep).lower(problem, start).compile()
        carry = jax.jit(binary.carry).lower(problem, sweep(problem, start)[0]).compile()
        found = exchanged(sweep) + exchanged(carry)
        gathered = NamedSharding(stack.mesh, PartitionSpec())
        whole = exchanged(
            jax.jit(lambda array: 2.0 * array, out_shardings=gathered).lower(stack.local.kernels).compile()
        )
    n_padded = 48
    assert ("all-gather", kernels[:, 0].size * n_padded) in whole  # what is looked for below can be seen
    assert ("all-reduce", N_LANDMARKS) in found, found
    assert max(size for _, size in found) <= len(kernels) * n_padded, found


def check_devices_are_chosen_and_counted():
    assert len(resolve_devices("all")) == N_DEVICES
    assert resolve_devices(3) == tuple(jax.devices()[:3])
    assert shard(DenseStack(data()[2]), devices=3).mesh.size == 3
    with pytest.raises(ValueError, match=r"from 1 to 8, what JAX sees \(cpu:0, cpu:1,.*got 9"):
        resolve_devices(9)


def main() -> None:
    warnings.simplefilter("error")
    outcomes = {}
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            try:
                check()
                outcomes[name] = ""
            except Exception:
                outcomes[name] = traceback.format_exc()
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
