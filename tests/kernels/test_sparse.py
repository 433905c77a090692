"""Sparse samples: the kernels of a dense copy, which is never made."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse

from bayesmkl import BEMKLClassifier, GPMKLClassifier, KernelBank, load_model, save_model
from bayesmkl.discriminative import LapMKLClassifier, MWUMKLClassifier, SimpleMKLClassifier
from bayesmkl.kernels import Cosine, Gate, Gaussian, Laplacian, Linear, Polynomial, Tanimoto
from bayesmkl.kernels.sparse import SparseTable

rng = np.random.default_rng(0)
COUNTS = np.where(rng.random((40, 90)) < 0.08, rng.integers(1, 4, (40, 90)), 0).astype(float)
WORDS = sparse.csr_array(COUNTS)
LABELS = (COUNTS[:, :30].sum(axis=1) > COUNTS[:, 30:60].sum(axis=1)).astype(int)
VIEWS = {"left": slice(0, 50), "right": slice(50, None)}
KERNELS = [
    *(Linear(), Cosine(), Tanimoto(), Gaussian(width=2), Gaussian(relative_width=1), Polynomial(degree=2)),
    Gaussian(relative_width=1) * Linear(),
]
NORMALIZE = [None, "spherical", "trace", ("center", "spherical"), ("spherical", "center")]


@pytest.mark.heavy
@pytest.mark.parametrize("normalize", NORMALIZE, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.label)
def test_kernels_are_those_of_a_dense_copy(kernel, normalize):
    for views, landmarks in (("all", None), (VIEWS, None), ("all", 7)):
        banks = [
            KernelBank(kernel, views, normalize, landmarks=landmarks, landmark_selection="random")
            for _ in range(2)
        ]
        stacks = [bank.fit_transform(X) for bank, X in zip(banks, (COUNTS, WORDS), strict=True)]
        np.testing.assert_allclose(stacks[1], stacks[0], atol=1e-9)
        for rows in (WORDS[:5], sparse.coo_matrix(WORDS[:5]), COUNTS[:5]):
            np.testing.assert_allclose(banks[1].transform(rows), banks[0].transform(COUNTS[:5]), atol=1e-9)


def test_entries_that_come_twice_are_sums():
    twice = sparse.csr_array((np.ones(3), [1, 1, 2], [0, 2, 3]), shape=(2, 3))
    for kernel in KERNELS[:4]:
        np.testing.assert_allclose(kernel(twice, twice), kernel(twice.toarray(), twice.toarray()), atol=1e-12)
    assert twice.nnz == 3


def test_calls_of_kernels():
    for kernel in KERNELS[:4]:
        np.testing.assert_allclose(kernel(WORDS, WORDS[:9]), kernel(COUNTS, COUNTS[:9]), atol=1e-12)
    with pytest.raises(TypeError, match="both be sparse, or both be dense"):
        Linear()(WORDS, COUNTS)


def test_landmarks_between_samples_are_their_means():
    bank = KernelBank(Linear(), landmarks=5).fit(WORDS)
    points = bank.landmarks_.values.toarray()
    nearest = np.argmin(((COUNTS[:, None] - points) ** 2).sum(axis=2), axis=1)
    means = [COUNTS[nearest == k].mean(axis=0) for k in range(5)]
    assert np.mean(np.isclose(points, means).all(axis=1)) > 0.5  # clusters whose last round moved no sample
    given = KernelBank(Linear(), landmarks=WORDS[:5]).fit(WORDS).landmarks_.values.toarray()
    np.testing.assert_array_equal(given, COUNTS[:5])
    doubled = sparse.vstack([WORDS[:6], WORDS[:6]], format="csr")
    with pytest.raises(ValueError, match="number of distinct training samples, 6; got 7"):
        KernelBank(Linear(), landmarks=7, landmark_selection="random").fit(doubled)


MODELS = [GPMKLClassifier, BEMKLClassifier, SimpleMKLClassifier, MWUMKLClassifier]


@pytest.mark.heavy
@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_estimators_and_files(kind, tmp_path):
    bank = KernelBank([Linear(), Gaussian(relative_width=1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dense, model = (kind(bank).fit(X, LABELS) for X in (COUNTS, WORDS))
    assert model.__sklearn_tags__().input_tags.sparse
    says = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    found = getattr(model, says)(WORDS)
    np.testing.assert_allclose(found, getattr(dense, says)(COUNTS), atol=1e-6)
    save_model(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(getattr(load_model(tmp_path / "model.skops"), says)(WORDS), found)
    with pytest.raises(TypeError, match="`X` must be a dense array, as in training; got a sparse one"):
        dense.predict(WORDS)


def test_no_dense_copy():
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(4000), 40), rng.integers(20_000, size=160_000)
    words = sparse.csr_array((rng.random(160_000), places), shape=(4000, 20_000))  # 640 MB if it were dense
    bank = KernelBank(Linear(), landmarks=64, landmark_selection="random")
    tracemalloc.start()
    try:
        bank.fit_transform(words)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6e7


def test_refusals():
    with pytest.raises(
        TypeError, match=r"dense array for the kernel 'laplacian\(width=1\)'; got a sparse one"
    ):
        KernelBank(Laplacian()).fit(WORDS)
    with pytest.raises(TypeError, match="for the kernel 'rbf'"):
        BEMKLClassifier(KernelBank("rbf"), intermediate_scale=1.0).fit(WORDS, LABELS)
    with pytest.raises(TypeError, match="must be a dense array for the kernel"):
        KernelBank(Linear() * Gate(0)).fit(WORDS)
    with pytest.raises(ValueError, match='`missing_views` must be "error" for sparse samples'):
        KernelBank(Linear(), missing_views="keep").fit(WORDS)
    with pytest.raises(TypeError, match="dense array; got a sparse"):
        LapMKLClassifier(KernelBank(Linear())).fit(WORDS, LABELS)
    with pytest.raises(TypeError, match="dense array; got a sparse"):
        GPMKLClassifier(KernelBank(Linear()), missing_views="integrate").fit(WORDS, LABELS)
    with pytest.raises(ValueError, match="must hold real numbers"):
        KernelBank(Linear()).fit(WORDS.astype(complex))
    with pytest.raises(ValueError, match="NaN"):
        KernelBank(Linear()).fit(sparse.csr_array(np.where(COUNTS == 1.0, np.nan, COUNTS)))
    with pytest.raises(TypeError, match="needs a dense table of 40 x 90 entries"):
        np.asarray(SparseTable(WORDS))
