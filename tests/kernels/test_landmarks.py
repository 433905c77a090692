"""Landmarks: what they are, kernels against them by formula and by explicit features, and what users get wrong."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from helpers import check_kernels
from sklearn.base import clone
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from threadpoolctl import threadpool_limits

from bayesmkl.kernels import (
    Cosine,
    FromDistance,
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    Polynomial,
    Tanimoto,
)
from bayesmkl.kernels.landmarks import choose_landmarks

RNG = np.random.default_rng(11)
TRAIN = RNG.normal(size=(40, 3)) + 0.5
ROWS = RNG.normal(size=(7, 3))
POINTS = RNG.normal(size=(6, 3))
for _shared in (TRAIN, ROWS, POINTS):
    _shared.flags.writeable = False
MIXED = [Gaussian(width=2), Laplacian(), Polynomial(3), Linear(), Cosine(), Tanimoto(), FromDistance(), "rbf"]
NORMALIZE = [None, "spherical", "trace", "center", ("center", "spherical")]


# --- kernels between samples and landmarks -----------------------------------------------------


@pytest.mark.parametrize("normalize", NORMALIZE, ids=str)
def test_degenerate_all_training_samples_as_landmarks_give_the_kernels_among_samples(normalize):
    views = {"all": [0, 1, 2], "right": [2]}
    plain, bank = (KernelBank(MIXED, views, normalize, landmarks=points) for points in (None, TRAIN))
    expected, found = plain.fit_transform(TRAIN), bank.fit_transform(TRAIN)
    scale = np.abs(expected).max(axis=(0, 1))
    assert np.all(np.abs(found - expected) <= 1e-12 * scale)
    assert np.all(np.abs(bank.transform(ROWS) - plain.transform(ROWS)) <= 1e-12 * scale)
    np.testing.assert_allclose(bank.train_diagonal(), plain.train_diagonal(), rtol=1e-12, atol=1e-12)


def test_other_library_kernels_against_given_landmarks():
    kernels = [Gaussian(gamma=0.3), Polynomial(2)]
    stack = KernelBank(kernels, {"two": [0, 2]}, normalize=None, landmarks=POINTS).fit_transform(TRAIN)
    X, Z = TRAIN[:, [0, 2]], POINTS[:, [0, 2]]
    np.testing.assert_allclose(stack[..., 0], rbf_kernel(X, Z, gamma=0.3), rtol=1e-12)
    expected = polynomial_kernel(X, Z, degree=2, gamma=1.0, coef0=1.0)
    np.testing.assert_allclose(stack[..., 1], expected, rtol=1e-12, atol=1e-12)


def test_statistics_of_normalizations_are_those_of_the_landmarks_by_explicit_features():
    origin = POINTS.mean(axis=0)
    X, Z = TRAIN - origin, POINTS - origin
    lengths = np.linalg.norm(X, axis=1)[:, None], np.linalg.norm(Z, axis=1)
    expected = {
        "center": X @ Z.T,
        "spherical": TRAIN
        @ POINTS.T
        / np.linalg.norm(TRAIN, axis=1)[:, None]
        / np.linalg.norm(POINTS, axis=1),
        ("center", "spherical"): X @ Z.T / lengths[0] / lengths[1],
        "trace": TRAIN @ POINTS.T / (POINTS**2).sum(axis=1).mean(),
    }
    for normalize, kernel in expected.items():
        bank = KernelBank(Linear(), normalize=normalize, landmarks=POINTS)
        np.testing.assert_allclose(bank.fit_transform(TRAIN)[..., 0], kernel, rtol=1e-11, atol=1e-12)


def test_learned_scale_is_that_of_the_landmarks():
    bank = KernelBank(FromDistance(), landmarks=POINTS).fit(TRAIN)
    distances = np.sqrt(((POINTS[:, None] - POINTS) ** 2).sum(axis=-1))
    assert bank.kernels_[0].scale_ == pytest.approx(distances[np.triu_indices(6, 1)].mean(), rel=1e-12)


@pytest.mark.parametrize("normalize", NORMALIZE, ids=str)
def test_fit_and_fit_transform_and_rows_on_their_own_agree(normalize):
    bank = KernelBank(MIXED, "all+each", normalize, landmarks=9)
    stack = bank.fit_transform(TRAIN)
    assert stack.shape == (40, 9, 32)
    fitted = clone(bank).fit(TRAIN)
    np.testing.assert_array_equal(np.moveaxis(stack, -1, 0), fitted.train_stack())
    few = np.concatenate(
        [fitted.transform(TRAIN[rows]) for rows in (slice(0, 1), slice(1, 25), slice(25, 40))]
    )
    np.testing.assert_allclose(
        few, stack, rtol=1e-12, atol=1e-13
    )  # a product of one row rounds in another order
    np.testing.assert_array_equal(fitted.evaluate(TRAIN, np.array([3, 20])), fitted.train_stack()[[3, 20]])


def test_fit_holds_no_kernel_of_all_samples():
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    bank = KernelBank([Gaussian(), Linear()], normalize=("center", "spherical"), landmarks=64)  # 20 MB
    bank.fit(X[:5000])  # imports
    tracemalloc.start()
    bank.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


# --- which landmarks ---------------------------------------------------------------------------


def test_recovery_kmeans_finds_the_means_of_separated_groups(rng):
    means = 20.0 * np.arange(6)[:, None] + np.array([0.0, 5.0])
    groups = means[:, None] + rng.normal(size=(6, 30, 2))
    found = choose_landmarks(groups.reshape(-1, 2)[rng.permutation(180)], 6)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], groups.mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize("selection", ["kmeans", "random"])
def test_one_landmark_and_as_many_as_distinct_samples(selection, rng):
    X = rng.integers(0, 3, size=(80, 2)).astype(float)
    distinct = np.unique(X, axis=0)
    every = choose_landmarks(X, len(distinct), selection)
    np.testing.assert_allclose(every[np.lexsort(every.T[::-1])], distinct, atol=1e-12)
    one = choose_landmarks(X, 1, selection)
    assert one.shape == (1, 2)
    if selection == "kmeans":
        np.testing.assert_allclose(one[0], X.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("selection", ["kmeans", "random"])
def test_seeds_decide_and_threads_do_not(selection, rng):
    X = rng.normal(size=(3000, 5))
    first = choose_landmarks(X, 20, selection, 3)
    with threadpool_limits(2):
        np.testing.assert_array_equal(choose_landmarks(X, 20, selection, 3), first)
    assert np.abs(choose_landmarks(X, 20, selection, 4) - first).max() > 0.1
    np.testing.assert_array_equal(choose_landmarks(X, 20, selection), choose_landmarks(X, 20, selection))


def test_columns_that_no_kernel_sees_do_not_choose(rng):
    X = np.column_stack([rng.normal(size=200), 1e6 * rng.normal(size=200)])
    seen = KernelBank(Linear(), {"first": [0]}, landmarks=5).fit(X).basis_[:, 0]
    alone = KernelBank(Linear(), landmarks=5).fit(X[:, :1]).basis_[:, 0]
    np.testing.assert_array_equal(seen, alone)


# --- what users get wrong ----------------------------------------------------------------------

WRONG = [
    (0, r"from 1 to the number of training samples, 40; got 0"),
    (41, r"from 1 to the number of training samples, 40; got 41"),
    (2.5, r"`landmarks` must be None, a whole number"),
    (True, r"`landmarks` must be None, a whole number"),
    ("half", r"`landmarks` must be None, a whole number"),
    (np.zeros((4, 2)), r"of shape \(n_landmarks, n_features=3\): got 2 columns"),
    (np.full((4, 3), np.nan), r"`landmarks` must be None, .* an array of finite numbers(.|\n)*NaN"),
    (np.zeros(3), r"`landmarks` must be None, .* an array of finite numbers of shape"),
    (np.zeros((0, 3)), r"`landmarks` must be None, .* an array of finite numbers of shape"),
]


@pytest.mark.parametrize(("landmarks", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_wrong_landmarks_are_refused(landmarks, message):
    with pytest.raises(ValueError, match=message):
        KernelBank(Linear(), landmarks=landmarks).fit(TRAIN)


@pytest.mark.parametrize("selection", ["kmeans", "random"])
def test_fewer_distinct_samples_than_landmarks(selection):
    X = np.repeat(TRAIN[:4], 5, axis=0)
    with pytest.raises(ValueError, match=r"number of distinct training samples, 4; got 5"):
        KernelBank(Linear(), landmarks=5, landmark_selection=selection).fit(X)
    with pytest.raises(ValueError, match="Samples that agree in all columns of all views count once"):
        KernelBank(Linear(), {"v": [0]}, landmarks=5, landmark_selection=selection).fit(
            np.column_stack([np.arange(20) % 4, np.arange(20.0)])
        )


def test_other_wrong_parameters():
    with pytest.raises(
        ValueError, match="`landmark_selection` must be one of 'kmeans', 'random'; got 'grid'"
    ):
        KernelBank(Linear(), landmarks=2, landmark_selection="grid").fit(TRAIN)
    with pytest.raises(ValueError, match="`random_state` must be a whole number >= 0; got -1"):
        KernelBank(Linear(), landmarks=2, random_state=-1).fit(TRAIN)
    with pytest.raises(ValueError, match='`landmarks` must be None with `missing_views="keep"`'):
        KernelBank(Linear(), missing_views="keep", landmarks=2).fit(TRAIN)


def test_columns_of_a_data_frame_of_landmarks_are_those_of_the_samples():
    frame, points = (pd.DataFrame(values, columns=["a", "b", "c"]) for values in (TRAIN, POINTS))
    found = KernelBank(Linear(), landmarks=points).fit_transform(frame)
    np.testing.assert_array_equal(found, KernelBank(Linear(), landmarks=POINTS).fit_transform(TRAIN))
    with pytest.raises(ValueError, match=r"`landmarks` must have the columns of `X`, in their order"):
        KernelBank(Linear(), landmarks=points[["b", "a", "c"]]).fit(frame)


def test_landmarks_of_a_matrix_of_distances_are_samples():
    distances = np.abs(TRAIN[:, :1] - TRAIN[:, 0])
    positions = np.arange(40.0)[:, None]
    kernel = FromDistance(distances, scale=1.0)
    bank = KernelBank(kernel, normalize=None, landmarks=8, landmark_selection="random").fit(positions)
    of_landmarks = bank.basis_[:, 0].astype(int)
    np.testing.assert_allclose(bank.train_stack()[0], np.exp(-distances[:, of_landmarks]), rtol=1e-14)
    with pytest.raises(ValueError, match='`landmark_selection` must be "random" where a matrix holds'):
        KernelBank(kernel, landmarks=8).fit(positions)


# --- what is doubtful about kernels between samples and landmarks ------------------------------


def test_square_kernels_of_landmarks_need_not_be_symmetric(recwarn):
    check_kernels(rbf_kernel(TRAIN[:6], POINTS, gamma=0.1)[None], ["one"], self_similarity=np.ones(1))
    assert not recwarn
    with pytest.raises(ValueError, match="kernel 'one' has NaN"):
        check_kernels(np.full((1, 6, 4), np.nan), ["one"], self_similarity=np.ones(1))
