"""Every stack against plain NumPy: every contraction of every storage."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers import learn
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesmkl.discriminative.global_weights.joint import Simple
from bayesmkl.discriminative.localized.lmkl import gate_slopes
from bayesmkl.discriminative.svm.libsvm import Hinge
from bayesmkl.discriminative.svm.one_kernel import (
    GatedColumns,
    GatedKernel,
    PrecomputedKernel,
    _SubsetColumns,
)
from bayesmkl.kernels import Gaussian, KernelBank, Linear
from bayesmkl.kernels.alignment import frobenius_gram
from bayesmkl.kernels.stacks import base, factored
from bayesmkl.kernels.stacks import packed as packed_module
from bayesmkl.kernels.stacks import streamed as streamed_module
from bayesmkl.kernels.stacks.base import KernelColumns, Stack
from bayesmkl.kernels.stacks.columns import BankColumns, ColumnCache
from bayesmkl.kernels.stacks.dense import DenseStack, store_float32
from bayesmkl.kernels.stacks.factored import LinearStack, LowRankStack, compress_each
from bayesmkl.kernels.stacks.of_bank import RowParts, factored_rows, linear_rows, linear_stack
from bayesmkl.kernels.stacks.packed import PackedStack, pack
from bayesmkl.kernels.stacks.streamed import StreamedStack, streamed_stack

SHAPE = ("n_kernels", "n_rows", "n_train")
EXACT, FACTORED = 1e-10, 1e-6


class Case(NamedTuple):
    """A stack, and its kernels as one array (n_kernels, n_rows, n_train)."""

    stack: Any
    kernels: np.ndarray
    kind: type
    storage: str | None = None
    tolerance: float = EXACT


def random(*shape):
    return np.random.default_rng(5).normal(size=shape)


def square_bank():
    """Kernels of rank 1, 2, a few more, and full among 30 samples."""
    X = np.random.default_rng(1).uniform(-1.0, 1.0, size=(30, 2))
    functions = [Gaussian(width=0.01), Linear(), Gaussian(width=2)]
    return KernelBank(functions, views={"one": [0], "two": [0, 1]}, normalize="trace").fit(X), X


def landmark_bank():
    X = np.random.default_rng(2).normal(size=(31, 3))
    return KernelBank([Gaussian(width=2), Linear()], views="all+each", landmarks=X[:7]).fit(X), X


def held(shape=(3, 8, 5)):
    kernels = random(*shape)
    return Case(DenseStack(kernels), kernels, DenseStack, "dense")


def held_on_jax(shape):
    import jax

    kernels = random(*shape)
    with jax.enable_x64(True):
        return Case(DenseStack(jax.numpy.asarray(kernels)), kernels, DenseStack, "dense")


def absent(storage="dense"):
    kernels, present = random(4, 9, 9).astype(np.float32).astype(float), random(4, 9) > -1.0
    kernels *= present[:, :, None] * present[:, None]
    stored = kernels.astype("f4" if storage == "float32" else "f8")
    return Case(DenseStack(stored, present), kernels, DenseStack, storage)


def float32(shape):
    kernels = random(*shape)
    rounded = kernels.astype(np.float32).astype(float)
    return Case(store_float32(iter(kernels), len(kernels)), rounded, DenseStack, "float32")


def packed():
    kernels = random(5, 9, 9)
    kernels = (kernels + kernels.transpose(0, 2, 1)).astype(np.float32).astype(float)
    return Case(pack(iter(kernels), len(kernels)), kernels, PackedStack, "packed")


def pathway_bank(normalize=("center", "trace")):
    """Linear kernels on some of the same features, one of which has them all."""
    X = 3.0 + np.random.default_rng(6).normal(size=(30, 7))
    views = {"a": [0, 1], "b": [1, 4, 2], "c": [5], "d": [0, 1, 2, 4, 5]}
    return KernelBank(Linear(), views=views, normalize=normalize).fit(X), X


def linear():
    bank, _ = pathway_bank()
    return Case(linear_stack(bank), bank.train_stack(), LinearStack, "compressed")


def linear_new_rows():
    bank, X = pathway_bank("trace")
    rows = X[:9] ** 2
    return Case(linear_rows(bank, linear_stack(bank), rows), bank.evaluate(rows), LinearStack, "compressed")


def lowrank():
    """Ranks from zero to full."""
    bank, _ = square_bank()
    kernels = np.concatenate([np.eye(30)[None], bank.train_stack(), np.zeros((1, 30, 30))])
    stack = compress_each(kernels)
    assert 1 < len(stack.dense) < bank.n_kernels_
    assert len(stack.factors) > 1
    return Case(stack, kernels, LowRankStack, "compressed", 1e-8)


def lowrank_rows():
    bank, X = square_bank()
    short = compress_each(bank.train_kernels())
    stack = factored_rows(bank, short, 0.9 * X[:9])
    return Case(stack, bank.evaluate(0.9 * X[:9]), LowRankStack, "compressed", FACTORED)


def row_parts():
    bank, X = square_bank()
    rows = 0.9 * X[:9]
    rows[3] = 4.0
    short = compress_each(bank.train_kernels())
    return Case(factored_rows(bank, short, rows), bank.evaluate(rows), RowParts, "compressed", FACTORED)


def streamed():
    bank, X = landmark_bank()
    return Case(streamed_stack(bank, X, threads=2), bank.evaluate(X), StreamedStack, "streamed")


def streamed_square():
    bank, X = square_bank()
    return Case(streamed_stack(bank, X, threads=1), bank.evaluate(X), StreamedStack, "streamed")


def columns():
    bank, _ = square_bank()
    return Case(BankColumns(bank, 0.004), bank.train_stack(), BankColumns, "columns")


def gated(normalized):
    bank, _ = square_bank()
    kernels, gates = bank.train_stack(), np.abs(random(2, bank.n_kernels_, 30))
    gating = np.einsum("rmi,rmj->mij", gates, gates)
    total = (gating * kernels).sum(axis=0)
    if not normalized:
        return Case(GatedColumns(BankColumns(bank), gates), total[None], GatedColumns)
    stack = GatedKernel(tuple(map(PrecomputedKernel, kernels)), gates, normalized=True)
    return Case(stack, (total / gating.sum(axis=0))[None], GatedKernel)


def subset():
    bank, _ = square_bank()
    kernel, index = bank.train_stack()[0], np.array([1, 4, 17])
    part = kernel[np.ix_(index, index)][None]
    return Case(_SubsetColumns(PrecomputedKernel(kernel), index), part, _SubsetColumns)


CASES = {
    "dense": held,
    "dense, square": lambda: held((3, 30, 30)),
    "dense, wide": lambda: held((4, 3, 8)),
    "dense, one row": lambda: held((2, 1, 4)),
    "dense, one kernel": lambda: held((1, 4, 4)),
    "dense, JAX": lambda: held_on_jax((3, 8, 5)),
    "dense, square, JAX": lambda: held_on_jax((3, 6, 6)),
    "dense, absent views": absent,
    "float32": lambda: float32((5, 33, 17)),
    "float32, square": lambda: float32((5, 6, 6)),
    "float32, absent views": lambda: absent("float32"),
    "packed": packed,
    "linear": linear,
    "linear, new rows": linear_new_rows,
    "lowrank": lowrank,
    "lowrank, new rows": lowrank_rows,
    "row parts": row_parts,
    "streamed": streamed,
    "streamed, square": streamed_square,
    "columns": columns,
}
GATED = {  # of one kernel, for solvers that read columns
    "gated columns": lambda: gated(False),
    "gated kernels, normalized": lambda: gated(True),
    "columns of a part": subset,
}


# compiling takes long: what is asked of square stacks alone, and nothing that only NumPy is asked
COMPILED = {
    "dense, JAX": {
        "apply",
        "adjoint",
        "adjoint_and_mixed_gram",
        "gram",
        "combine",
        "combine_gated",
        "frobenius",
        "columns",
        "rows",
        "select",
    },
    "dense, square, JAX": {"quadratic", "diagonal"},
}


@pytest.fixture(scope="module")
def made():
    """Stacks are made once."""
    return {}


@pytest.fixture
def case(request, made, monkeypatch):
    import jax

    monkeypatch.setattr(streamed_module, "TILE", 8 * 7)  # eight rows per tile, the last one not full
    monkeypatch.setattr(streamed_module, "LEAST_ROWS", 1)
    monkeypatch.setattr(factored, "CALL_BYTES", 8 * 30)  # several groups of ranks
    decode = DenseStack.blocks
    monkeypatch.setattr(DenseStack, "blocks", lambda own, entries=0: decode(own, 200))
    monkeypatch.setattr(packed_module, "TILE", (3, 7))  # parts of triangles, of some kernels
    monkeypatch.setattr(packed_module, "LARGE_TILE", (2, 11))
    monkeypatch.setattr(packed_module, "UNPACKED", 2 * 9 * 9)
    monkeypatch.setattr(base, "HELD_ENTRIES", 60)
    monkeypatch.setattr(base, "SPREAD_ENTRIES", 50)
    if request.param not in made:
        made[request.param] = (CASES | GATED)[request.param]()
    with jax.enable_x64(True):
        yield made[request.param]


def members(kind):
    """Return the names of what a class offers."""
    return {name for name in vars(kind) if not name.startswith("_")}


def on(case, value):
    """Return an argument as the stack takes it: a JAX array where its arrays are."""
    import jax

    held = getattr(case.stack, "kernels", None)
    return jax.numpy.asarray(value) if isinstance(held, jax.Array) else value


def check(case, found, expected, what):
    found = np.asarray(found)
    assert found.dtype == np.float64, what
    assert found.shape == expected.shape, what
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(found, expected, rtol=0, atol=case.tolerance * max(scale, 1.0), err_msg=what)


# ---------------------------------------------------------------------------- one reference for every contraction


def vectors_of(case):
    P, _, N = case.kernels.shape
    return [random(N), random(N, 3), random(P, N, 1)]


def product_of(K, v):
    return K @ v if v.ndim < 3 else (K @ v)[..., 0]


def check_apply(case, K):
    for v in vectors_of(case):
        check(case, case.stack.apply(on(case, v)), product_of(K, v), f"apply {v.shape}")


def check_adjoint(case, K):
    for tail in ((), (3,)):
        rows = random(*K.shape[:2], *tail)
        check(case, case.stack.adjoint(on(case, rows)), np.einsum("mij,mi...->j...", K, rows), "adjoint")


def check_gram(case, K):
    check(case, case.stack.gram(), np.einsum("mij,mik->jk", K, K), "gram")


def check_apply_and_adjoin(case, K):
    vector, mixing, offset = random(K.shape[2]), random(len(K), len(K)), random(*K.shape[:2])
    product, mixed = case.stack.apply_and_adjoin(*(on(case, value) for value in (vector, mixing, offset)))
    check(case, product, K @ vector, "product")
    expected = mixing @ (K @ vector) + offset
    check(case, mixed, expected, "mixed")
    check(case, case.stack.adjoint(mixed), np.einsum("mij,mi->j", K, expected), "adjoint of what was mixed")


def check_adjoint_and_mixed_gram(case, K):
    rows, mixing, weights = random(*K.shape[:2]), random(len(K)), random(K.shape[1])
    arguments = (on(case, value) for value in (rows, mixing, weights))
    adjoint, gram = case.stack.adjoint_and_mixed_gram(*arguments)
    check(case, adjoint, np.einsum("mij,mi->j", K, rows), "adjoint")
    mixed = np.einsum("m,mij->ij", mixing, K)
    check(case, gram, np.einsum("ij,i,ik->jk", mixed, weights, mixed), "mixed gram")


def check_spread(case, K):
    vectors = random(K.shape[2], 4)
    present = np.ones(K.shape[:2], bool) if case.stack.present is None else np.asarray(case.stack.present)
    found, values = case.stack.spread(vectors), K @ vectors
    expected = [
        [one[there].mean(axis=0), one[there].var(axis=0)] for one, there in zip(values, present, strict=True)
    ]
    mean, variance = np.array(expected).transpose(1, 0, 2)
    check(case, found.mean, mean, "mean")
    check(case, found.variance, variance, "variance")


def check_combine(case, K):
    for weights in (random(len(K)), random(2, len(K)), np.eye(len(K))[-1]):
        check(case, case.stack.combine(on(case, weights)), np.tensordot(weights, K, 1), "combine")


def check_combine_singly(case, K):
    weights = random(2, len(K))
    if on(case, weights) is weights:
        found = case.stack.combine_singly(weights, 0.5)
        assert found.dtype == np.float32
        size = np.tensordot(np.abs(weights), np.abs(K), 1).max(initial=1.0)
        np.testing.assert_allclose(
            found, np.tensordot(weights, K, 1) + 0.5, atol=max(1e-6, case.tolerance) * size
        )


def check_combine_gated(case, K):
    rows, train = random(*K.shape[:2]), random(*K.shape[::2])
    expected = np.einsum("mi,mij,mj->ij", rows, K, train)
    check(case, case.stack.combine_gated(on(case, rows), on(case, train)), expected, "combine_gated")


def check_quadratic(case, K):
    for v in vectors_of(case):
        if K.shape[1] == K.shape[2]:
            expected = (product_of(K, v) * (v[..., 0] if v.ndim == 3 else v)).sum(axis=1)
            check(case, case.stack.quadratic(on(case, v)), expected, f"quadratic {v.shape}")


def check_quadratics(case, K):
    if K.shape[1] == K.shape[2]:
        vectors = random(3, K.shape[2])
        vectors[:, 2:] = 0.0
        expected = np.einsum("qi,mij,qj->qm", vectors, K, vectors)
        check(case, case.stack.quadratics(vectors), expected, "quadratics")


def check_frobenius(case, K):
    other = random(*K.shape[1:])
    check(case, case.stack.frobenius(), np.einsum("mij,nij->mn", K, K), "frobenius")
    check(case, case.stack.frobenius(on(case, other)), np.einsum("mij,ij->m", K, other), "frobenius of one")
    others = random(2, *K.shape[1:])
    check(case, case.stack.frobenius(on(case, others)), np.einsum("mij,qij->qm", K, others), "of several")


def check_columns(case, K):
    for index in (np.array([K.shape[2] - 1, 0]), *([slice(None)] if isinstance(case.stack, Stack) else [])):
        check(case, case.stack.columns(index), K[:, :, index], "columns")


def check_diagonal(case, K):
    if K.shape[1] == K.shape[2]:
        check(case, case.stack.diagonal(), np.einsum("mii->mi", K), "diagonal")


def check_rows(case, K):
    n_rows, vector, weights = K.shape[1], random(K.shape[2]), random(2, len(K))
    for index in (
        slice(n_rows // 2, None),
        np.arange(n_rows) % 3 == 0,
        np.array([n_rows - 1, 0, n_rows - 1]),
        slice(0, 0),
    ):
        part, expected = case.stack.rows(index), K[:, index]
        assert (part.n_kernels, part.n_rows, part.n_train) == expected.shape
        check(case, part.apply(on(case, vector)), expected @ vector, f"rows at {index}")
        check(case, part.combine(on(case, weights)), np.tensordot(weights, expected, 1), f"rows at {index}")
        if case.stack.present is not None:
            np.testing.assert_array_equal(part.present, case.stack.present[:, index])


def check_select(case, K):
    P, vector = len(K), random(K.shape[2])
    for index in (np.arange(P) % 2 == 0, np.array([P - 1, 0]), [P - 1], P - 1):
        part, expected = case.stack.select(index), K[np.atleast_1d(np.asarray(index))]
        assert (part.n_kernels, part.n_rows, part.n_train) == expected.shape
        check(case, part.apply(on(case, vector)), expected @ vector, f"kernels at {index}")
        check(case, part.select([0]).apply(on(case, vector)), expected[:1] @ vector, "one of some kernels")
        if case.stack.present is not None:
            np.testing.assert_array_equal(part.present, case.stack.present[np.atleast_1d(index)])
    for index in [[P], []] if on(case, K) is K else []:  # an empty list has no integers; JAX says nothing
        with pytest.raises(IndexError):
            case.stack.select(index)


def check_each(case, K):
    for found, expected in zip(case.stack.each(), K, strict=True):
        check(case, found, expected, "each")
    index = [len(K) - 1, 0]
    for found, expected in zip(case.stack.each(index), K[index], strict=True):
        check(case, found, expected, "each of some")
    assert list(case.stack.each([])) == []


def check_entries(case, K):
    rows, train, kernels = np.array([K.shape[1] - 1, 0]), np.array([2, 0, 1]), np.array([len(K) - 1])
    check(case, case.stack.entries(rows, train), K[:, rows][:, :, train], "entries")
    expected = K[kernels][:, rows][:, :, train]
    check(case, case.stack.entries(rows, train, kernels), expected, "entries of some")


def check_apply_rows(case, K):
    for index in (np.array([K.shape[1] - 1]), np.arange(K.shape[1])[::-1], np.array([], dtype=int)):
        for v in vectors_of(case):
            expected = product_of(K, v)[:, index]
            check(case, case.stack.apply_rows(index, on(case, v)), expected, f"apply_rows {v.shape}")


def check_combine_rows(case, K):
    index = np.arange(K.shape[1])[::-1]
    for weights in (random(len(K)), random(2, len(K))):
        expected = np.tensordot(weights, K[:, index], 1)
        check(case, case.stack.combine_rows(index, weights), expected, "combine_rows")


def check_blocks(case, K):
    found = np.full(K.shape, np.nan)
    for kernels, rows, block in case.stack.blocks():
        found[kernels, rows] = block.kernels
    check(case, found, K, "blocks")


def check_as_dense(case, K):
    check(case, case.stack.as_dense().kernels, K, "as_dense")


def check_roots(case, K):
    roots = case.stack.roots() if K.shape[1] == K.shape[2] else None
    for root, kernel in zip(roots or [], K, strict=roots is not None):
        check(case, root @ root.T, kernel, "root")


def check_weighted_products(case, K):
    vectors, weights = random(K.shape[2], 4), random(4, len(K))
    expected = np.einsum("jm,mij->ji", weights, K @ vectors)
    check(case, case.stack.weighted_products(vectors, weights), expected, "weighted products")


def check_weighted_forms(case, K):
    mixing, roots = random(3, len(K)), [np.tril(one) for one in random(2, *2 * K.shape[2:])]
    mixed = np.einsum("qm,mij->qij", mixing, K)
    expected = np.array([np.square(mixed @ root).sum(axis=(0, 2)) for root in roots])
    check(case, case.stack.weighted_forms(mixing, roots), expected, "weighted forms")


CHECKS = {
    name.removeprefix("check_"): function for name, function in globals().items() if name.startswith("check_")
}


@pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, name, marks=[pytest.mark.heavy] if case in COMPILED else [])
        for case in CASES | GATED
        for name in CHECKS
        if name in (members(KernelColumns) if case in GATED else COMPILED.get(case, set(CHECKS)))
    ],
    indirect=["case"],
)
def test_contraction_against_numpy(case, name):
    CHECKS[name](case, case.kernels)


@pytest.mark.parametrize("case", list(CASES), indirect=True)
def test_shape_and_form(case):
    assert type(case.stack) is case.kind
    assert (case.stack.n_kernels, case.stack.n_rows, case.stack.n_train) == case.kernels.shape
    assert case.stack.nbytes > 0
    assert case.stack.storage == case.storage


STORED = [
    "dense",
    "dense, square",
    "dense, absent views",
    "float32",
    "float32, absent views",
    "packed",
    "linear",
    "linear, new rows",
    "lowrank",
    "lowrank, new rows",
]


@pytest.mark.heavy
@pytest.mark.parametrize("case", STORED, indirect=True)
def test_parts_fulfil_the_contract_of_the_whole(case):
    """Rows of some kernels are some kernels of these rows, of the same form, for every contraction."""
    P = len(case.kernels)
    some = DenseStack if case.kind is LowRankStack else case.kind  # some kernels of low rank are made dense
    form = DenseStack if case.kind is PackedStack else some  # rows of triangles are none
    for kernels, rows in product(
        (np.array([P - 1, 0]), np.arange(P) % 2 == 0), (slice(2, None), np.array([3, 3, 0]))
    ):
        expected = case.kernels[kernels][:, rows]
        for stack in (case.stack.select(kernels).rows(rows), case.stack.rows(rows).select(kernels)):
            assert type(stack) is form
            if case.stack.present is not None:
                np.testing.assert_array_equal(stack.present, case.stack.present[kernels][:, rows])
            part = case._replace(stack=stack, kernels=expected)
            for one in CHECKS.values():
                one(part, expected)
    kernels = np.array([P - 1, 0])  # square stacks stay square
    part = case._replace(stack=case.stack.select(kernels), kernels=case.kernels[kernels])
    assert type(part.stack) is some
    for one in CHECKS.values():
        one(part, part.kernels)


def test_every_contraction_has_a_check():
    assert members(Stack) - {"shape", *SHAPE, "nbytes", "present", "storage", "learned", "moving"} == set(
        CHECKS
    )


@pytest.mark.heavy
@pytest.mark.parametrize(("kind", "tolerance"), [("lowrank", 1e-6), ("float32", 1e-5)])
def test_algorithms_of_stored_stacks_take_any_of_them(rng, kind, tolerance):
    X = rng.normal(size=(60, 3))
    bank = KernelBank([Gaussian(width=2), Linear()], views="each").fit(X)
    y = np.where(X[:, 0] > X[:, 1] * X[:, 2], 1.0, -1.0)[None]
    whole = DenseStack(bank.train_stack())
    stack = compress_each(whole.kernels) if kind == "lowrank" else store_float32(whole.kernels, 6)
    assert stack.storage == {"lowrank": "compressed", "float32": "float32"}[kind]
    sparse, gates = np.where(np.arange(60) % 9, 0.0, y[0]), rng.uniform(size=(6, 60))
    learned = {}
    for one in (stack, whole):
        found = learn(one, y, Hinge(1.0), Simple(tol=0.1 * tolerance))
        assert found.outcome.converged
        slopes, products = gate_slopes(one, gates, sparse), frobenius_gram(one, center=True)
        learned[one.storage] = [found.objective_history[-1], slopes, products / products.max()]
    for found, expected in zip(*learned.values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=12),
    capacity=st.integers(0, 6),
    kept=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_brute_force_cache_keeps_what_was_asked_for_last(asked, capacity, kept):
    kernel = np.arange(100.0).reshape(1, 10, 10)
    cache = ColumnCache(lambda index: kernel[:, :, index], 10, capacity * 80 / 2**20)
    recent, computed = [], 0  # the last one was asked for last
    for index, keep in zip(asked, kept, strict=False):
        np.testing.assert_array_equal(cache.columns(index, keep), kernel[:, :, index])
        computed += len(set(index) - set(recent))
        for i in index if keep else ():
            recent = [*(j for j in recent if j != i), i]
            recent = recent[len(recent) - capacity :] if len(recent) > capacity else recent
        assert cache.n_computed == computed
