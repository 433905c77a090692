"""Banks of kernels: views, names, statistics from training data, containers, and what users get wrong."""

from __future__ import annotations

import functools
import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics.pairwise import pairwise_kernels

from bayesmkl.discriminative.svm.native import native_kernels
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
from bayesmkl.kernels.base import Kernel
from bayesmkl.kernels.geometry import mean_distance, median_distance

RNG = np.random.default_rng(3)
TRAIN = RNG.random(size=(18, 4)) + 0.1
ROWS = RNG.random(size=(5, 4)) + 0.1
for _shared in (TRAIN, ROWS):
    _shared.flags.writeable = False
NAMES = ["mean radius", "texture", "area", "site"]
FRAME = pd.DataFrame(TRAIN, columns=NAMES)


def dot(X, Z):
    return X @ Z.T


MIXED = [
    Gaussian(width=2),
    Laplacian(),
    Polynomial(3),
    Linear(),
    Cosine(),
    Tanimoto(),
    FromDistance(),
    "chi2",
    dot,
]
SEQUENCES = ["spherical", "trace", "center", None, ("center", "spherical"), ("spherical", "center", "trace")]


# --- values ------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("normalize", SEQUENCES, ids=str)
@pytest.mark.parametrize("views", ["all", "each", "all+each"])
def test_train_stack_fit_transform_and_training_rows_agree(normalize, views):
    bank = KernelBank(MIXED, views, normalize)
    stack = bank.fit_transform(TRAIN)
    assert stack.shape == (18, 18, bank.n_kernels_)
    kernels = np.moveaxis(stack, -1, 0)
    assert kernels.flags.c_contiguous
    np.testing.assert_array_equal(bank.train_stack(), kernels)
    np.testing.assert_array_equal(kernels, kernels.transpose(0, 2, 1))
    size = np.abs(kernels).max(axis=(1, 2), keepdims=True)
    size[size == 0] = 1.0  # one positive column under the cosine, centered
    np.testing.assert_allclose(bank.row_stack(TRAIN[4:9]) / size, kernels[:, 4:9] / size, atol=1e-12)
    np.testing.assert_array_equal(np.moveaxis(bank.transform(TRAIN[4:9]), -1, 0), bank.row_stack(TRAIN[4:9]))
    np.testing.assert_array_equal(KernelBank(MIXED, views, normalize).fit(TRAIN).train_stack(), kernels)


def test_stack_equals_a_loop_over_views_kernels_and_pairs():
    views = {"left": [0, 1], "right": [3]}
    bank = KernelBank([Gaussian(width=0.5), Polynomial(degree=2)], views).fit(TRAIN)
    kernels = bank.row_stack(ROWS)
    functions = [
        lambda x, z: np.exp(-np.sum((x - z) ** 2) / (2 * 0.5**2)),
        lambda x, z: (x @ z + 1) ** 2,
    ]
    for m, (columns, function) in enumerate(itertools.product(views.values(), functions)):
        for i, j in itertools.product(range(len(ROWS)), range(len(TRAIN))):
            x, z = ROWS[i, columns], TRAIN[j, columns]
            expected = function(x, z) / np.sqrt(function(x, x) * function(z, z))
            assert kernels[m, i, j] == pytest.approx(expected, rel=1e-13)


def test_paper_bank_is_ten_gaussians_and_three_polynomials():
    bank = KernelBank("paper", normalize=None).fit(TRAIN)
    kernels = bank.row_stack(ROWS)
    assert bank.n_kernels_ == len(kernels) == 13
    for k in range(10):
        reference = pairwise_kernels(ROWS, TRAIN, metric="rbf", gamma=0.5 / (2.0 ** (k - 3)) ** 2)
        np.testing.assert_allclose(kernels[k], reference, rtol=1e-10, atol=1e-300)
    for q in (1, 2, 3):
        np.testing.assert_allclose(kernels[9 + q], (ROWS @ TRAIN.T + 1) ** q, rtol=1e-14)


@pytest.mark.parametrize(
    "metric",
    ["additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid"],
)
def test_scikit_learn_names(metric):
    bank = KernelBank(metric, normalize=None).fit(TRAIN)
    expected = pairwise_kernels(ROWS.copy(), TRAIN.copy(), metric=metric)  # chi2 refuses read-only arrays
    np.testing.assert_allclose(bank.row_stack(ROWS)[0], expected, rtol=1e-14)
    assert bank.kernel_names_ == [f"{metric} · all"]


def test_gaussian_process_kernel_without_its_noise_term():
    kernel = ConstantKernel(2.0) * RBF(0.7) + WhiteKernel(0.5)
    bank = KernelBank(kernel, normalize=None).fit(TRAIN)
    np.testing.assert_allclose(bank.row_stack(ROWS)[0], 2.0 * RBF(0.7)(ROWS, TRAIN), rtol=1e-14)
    np.testing.assert_allclose(bank.train_stack()[0].diagonal(), 2.0)
    scaled = KernelBank(kernel).fit(TRAIN)
    np.testing.assert_allclose(scaled.row_stack(ROWS)[0], RBF(0.7)(ROWS, TRAIN), rtol=1e-14)


def test_test_rows_are_normalized_with_training_statistics_alone():
    bank = KernelBank(MIXED, normalize=("center", "trace")).fit(TRAIN)
    together = bank.row_stack(ROWS)
    one_by_one = np.concatenate([bank.row_stack(ROWS[i : i + 1]) for i in range(len(ROWS))], axis=1)
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12, atol=1e-12)


def test_permuted_samples_and_kernels_give_permuted_stacks():
    order = RNG.permutation(len(TRAIN))
    reference = KernelBank(MIXED, normalize=("center", "spherical")).fit(TRAIN)
    shuffled = KernelBank(MIXED[::-1], normalize=("center", "spherical")).fit(TRAIN[order])
    np.testing.assert_allclose(
        shuffled.train_stack()[::-1], reference.train_stack()[:, order][:, :, order], rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        shuffled.row_stack(ROWS)[::-1], reference.row_stack(ROWS)[:, :, order], rtol=1e-10, atol=1e-12
    )


def test_zero_samples_and_zero_features_give_zeros_not_errors():
    X = TRAIN.copy()
    X[:, 2] = 0.0
    X[5] = 0.0
    kernels = KernelBank(Linear(), "each").fit(X).train_stack()
    np.testing.assert_array_equal(kernels[2], 0.0)
    np.testing.assert_array_equal(kernels[0][5], 0.0)
    np.testing.assert_allclose(np.delete(np.delete(kernels[0], 5, 0), 5, 1), 1.0, rtol=1e-15)


@pytest.mark.parametrize("normalize", SEQUENCES, ids=str)
def test_fit_learns_in_blocks_of_rows_what_fit_transform_learns_from_whole_kernels(normalize, monkeypatch):
    import bayesmkl.kernels.normalize

    data = np.vstack([TRAIN, np.zeros((2, 4))])  # samples without self-similarity
    skewed = np.array([[1.0, 0.9], [-0.9, 2.0]])
    asymmetric = [] if isinstance(normalize, tuple) else [lambda X, Z: X @ skewed @ Z.T]
    kernels = MIXED + asymmetric
    views = {"left": [0, 1], "right": [2, 3]}
    whole = KernelBank(kernels, views, normalize)
    whole.fit_transform(data)
    monkeypatch.setattr(bayesmkl.kernels.normalize, "BLOCK_ENTRIES", 60)  # three rows
    blocks = KernelBank(kernels, views, normalize).fit(data)
    for expected, found in zip(whole.evaluate(data), blocks.evaluate(data), strict=True):
        np.testing.assert_allclose(
            found, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max(initial=1.0)
        )
    for diagonal, kernel in zip(blocks.train_diagonal(), whole.train_stack(), strict=True):
        if np.array_equal(kernel, kernel.T):
            np.testing.assert_allclose(
                diagonal, kernel.diagonal(), atol=1e-13 * np.abs(kernel).max(initial=1.0)
            )


def test_fit_holds_no_training_kernel():
    X = np.random.default_rng(0).normal(size=(1500, 3))  # a kernel takes 18 MB
    tracemalloc.start()
    KernelBank([Gaussian(), Linear()]).fit(X)
    of_diagonals = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    KernelBank([Gaussian(), Linear()], normalize=("center", "spherical")).fit(X)
    of_blocks = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert of_diagonals < 1e6
    assert of_blocks < 9e6


# --- names, views, containers ------------------------------------------------------------------


def test_kernel_names():
    functions = [dot, lambda X, Z: X @ Z.T, functools.partial(dot)]
    kernels = [Gaussian(width=2), *functions, "rbf", RBF(2.0), Linear(), Linear()]
    bank = KernelBank(kernels, {"mean radius": 0}).fit(TRAIN)
    assert bank.kernel_names_ == [
        "gaussian(width=2) · mean radius",
        "dot · mean radius",
        "callable[2] · mean radius",
        "dot · mean radius #2",
        "rbf · mean radius",
        "RBF(length_scale=2) · mean radius",
        "linear · mean radius",
        "linear · mean radius #2",
    ]
    assert bank.kernel_views_ == ["mean radius"] * 8
    np.testing.assert_array_equal(
        bank.kernels_known_psd_, [True, False, False, False, True, False, True, True]
    )


@pytest.mark.parametrize(
    ("columns", "positions"),
    [
        (["mean radius", "area"], [0, 2]),
        ("texture", [1]),
        (3, [3]),
        (-1, [3]),
        (np.int64(2), [2]),
        ([2, 0], [2, 0]),
        (("site", 0), [3, 0]),
        (np.array([1, 3]), [1, 3]),
        (pd.Index(["area", "site"]), [2, 3]),
        (slice(1, 3), [1, 2]),
        (slice(None, None, 2), [0, 2]),
        ([True, False, False, True], [0, 3]),
        (np.array([False, True, False, False]), [1]),
    ],
    ids=str,
)
def test_views_by_name_position_slice_and_mask(columns, positions):
    bank = KernelBank("linear", {"v": columns}, normalize=None).fit(FRAME)
    np.testing.assert_allclose(bank.train_stack()[0], TRAIN[:, positions] @ TRAIN[:, positions].T, rtol=1e-14)
    np.testing.assert_array_equal(bank.views_[0].columns, positions)


def test_several_distance_matrices_survive_subsetting():
    first, second = (np.abs(v - v.T) for v in (RNG.normal(size=(10, 1)), RNG.normal(size=(10, 1))))
    positions = RNG.permutation(10)[:, None]
    bank = KernelBank([FromDistance(first), FromDistance(second)]).fit(positions[:7])
    train, rows = positions[:7, 0], positions[7:, 0]
    for kernel, distances in zip(bank.row_stack(positions[7:]), (first, second), strict=True):
        scale = distances[np.ix_(train, train)][np.triu_indices(7, k=1)].mean()
        np.testing.assert_allclose(kernel, np.exp(-distances[np.ix_(rows, train)] / scale), rtol=1e-13)
    assert bank.kernel_names_ == ["distance(matrix) · all", "distance(matrix) · all #2"]


# --- life as an estimator ----------------------------------------------------------------------


def test_clone_and_fit_leave_the_arguments_alone():
    kernel = FromDistance()
    bank = KernelBank([kernel, Gaussian()], views={"a": [0], "b": [1, 2]})
    fitted = bank.fit(TRAIN)
    assert not hasattr(kernel, "scale_")
    assert [k.scale_ for k in fitted.kernels_[::2]] == [
        FromDistance().fit(TRAIN[:, columns]).scale_ for columns in ([0], [1, 2])
    ]
    assert not hasattr(clone(fitted), "kernels_")


def test_refit_forgets_the_previous_data():
    bank = KernelBank(MIXED, "all+each").fit(FRAME)
    bank.fit(TRAIN[:10, :2])
    assert not hasattr(bank, "feature_names_in_")
    fresh = KernelBank(MIXED, "all+each").fit(TRAIN[:10, :2])
    np.testing.assert_array_equal(bank.row_stack(ROWS[:, :2]), fresh.row_stack(ROWS[:, :2]))


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kernels": []}, ValueError, "`kernels` must hold at least one kernel; got an empty list"),
        ({"kernels": [Gaussian(), 3]}, TypeError, "`kernels` must hold kernel objects.*got 3 of type int"),
        ({"kernels": {1, 2}}, TypeError, "of type set"),
        ({"kernels": "rbff"}, ValueError, "`kernels` names 'rbff', which is not known; .*chi2.*rbf"),
        ({"kernels": [Gaussian]}, TypeError, r"the class Gaussian; pass an instance, Gaussian\(...\)"),
        (
            {"kernels": Gaussian(width=-1)},
            ValueError,
            "`width` of Gaussian must be a positive number; got -1",
        ),
        (
            {"kernels": lambda X, Z: np.full((len(X), len(Z)), np.nan)},
            ValueError,
            "'callable.*not all finite",
        ),
        (
            {"kernels": Polynomial(degree=900)},
            ValueError,
            r"'polynomial\(degree=900\) · all': .*not all finite",
        ),
        ({"kernels": "additive_chi2"}, ValueError, "'additive_chi2 · all': .*center"),
        ({"views": {}}, ValueError, "`views` must name at least one view"),
        (
            {"views": "every"},
            ValueError,
            '`views` must be "all", "each", "all.each", "types" or a mapping.*got \'every\'',
        ),
        ({"views": {"v": []}}, ValueError, r"`views\['v'\]` selects no column; got \[\]"),
        ({"views": {"v": slice(9, 12)}}, ValueError, "selects no column"),
        ({"views": {"v": [False] * 4}}, ValueError, "selects no column"),
        (
            {"views": {"v": [True, False]}},
            ValueError,
            "mask of length 2; it needs one entry for each of the 4",
        ),
        (
            {"views": {"v": ["texure"]}},
            ValueError,
            "column 'texure', which `X` does not have; did you mean 'texture'",
        ),
        ({"views": {"v": ["zzz"]}}, ValueError, "column 'zzz', which `X` does not have; the columns are"),
        ({"views": {"v": slice("texture", "site")}}, ValueError, "must be a slice of positions"),
        ({"views": {"v": [0, 4]}}, ValueError, "positions from 0 to 3; got 4"),
        ({"views": {"v": 1.0}}, ValueError, "positions from 0 to 3; got 1.0"),
        ({"normalize": "unit"}, ValueError, '`normalize` must be "spherical", "trace", "center", None'),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        KernelBank(**arguments).fit(FRAME)


def test_callable_with_rows_and_columns_exchanged_is_told_so():
    bank = KernelBank(lambda X, Z: Z @ X.T, normalize=None).fit(TRAIN)
    with pytest.raises(
        ValueError, match=r"\(n_rows, n_train\) = \(5, 18\); got \(18, 5\).*rows of X are query"
    ):
        bank.transform(ROWS)


def test_kernel_of_two_vectors_is_told_how_to_become_one_of_two_tables():
    with pytest.raises(ValueError, match=r"'min_sum · all'.*pairwise_kernels"):
        KernelBank(min_sum).fit(TRAIN)


def min_sum(x, z):
    return np.minimum(x, z).sum()


def test_view_by_name_needs_a_frame():
    with pytest.raises(ValueError, match="names the column 'area', but `X` has no column names"):
        KernelBank(views={"v": ["area"]}).fit(TRAIN)


def test_use_before_fit_and_other_columns():
    for use in (
        lambda bank: bank.transform(ROWS),
        lambda bank: bank.train_stack(),
        lambda bank: bank.landmark_similarity(),
    ):
        with pytest.raises(NotFittedError):
            use(KernelBank())
    with pytest.raises(ValueError, match="X has 3 features, but KernelBank is expecting 4 features"):
        KernelBank().fit(TRAIN).transform(ROWS[:, :3])
    with pytest.raises(ValueError, match="must hold numbers in 'site', as in training; got 'left'"):
        KernelBank().fit(FRAME).transform(FRAME.assign(site="left"))


def test_unknown_fit_parameters_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        KernelBank().fit_transform(TRAIN, groups=np.ones(18))


def test_auto_bank_has_kernels_of_the_scale_of_every_view():
    scaled = TRAIN * [1.0, 1.0, 50.0, 50.0]
    views = {"left": [0, 1], "right": [2, 3]}
    bank = KernelBank("auto", views=views, normalize=None).fit(scaled)
    labels = ("gaussian(0.5 median)", "gaussian(1 median)", "gaussian(2 median)", "linear")
    assert bank.kernel_names_ == [f"{label} · {view}" for view in views for label in labels]
    for first, columns in ((0, [0, 1]), (4, [2, 3])):
        median = np.median(pdist(scaled[:, columns]))
        explicit = [*(Gaussian(width=width * median) for width in (0.5, 1.0, 2.0)), Linear()]
        values = [kernel(scaled[:3][:, columns], scaled[:, columns]) for kernel in explicit]
        np.testing.assert_allclose(bank.row_stack(scaled[:3])[first : first + 4], values, rtol=1e-12)
    natives = native_kernels(bank)
    for native, values in zip(natives, bank.row_stack(scaled[:3]), strict=True):
        np.testing.assert_allclose(native.block(native.rows(scaled[:3]), slice(None)), values, rtol=1e-9)


KERNELS = [
    Gaussian(relative_width=0.5),
    Laplacian(relative_width=1.0),
    FromDistance("cityblock"),
    Polynomial(2),
]


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(5)
    return rng.normal(size=(24, 3)) + 3.0, rng.integers(0, 4, 24)


@pytest.mark.parametrize(
    "normalize", [None, "trace", "center", ("trace", "center", "spherical"), ("spherical", "center", "trace")]
)
@pytest.mark.parametrize("by_rows", [False, True])
def test_degenerate_whole_weights_are_repeated_samples(samples, normalize, by_rows):
    X, counts = samples
    bank = KernelBank(KERNELS, {"one": [0, 1], "two": [2]}, normalize)
    if by_rows:
        weighted = bank.fit(X, sample_weight=counts)
    else:
        weighted = KernelBank(**bank.get_params())
        training = weighted.fit_transform(X, sample_weight=counts)
        np.testing.assert_allclose(training, weighted.transform(X), atol=1e-12 * np.abs(training).max())
    repeated = KernelBank(**bank.get_params()).fit(X.repeat(counts, axis=0))
    found = weighted.transform(X)[:, np.arange(24).repeat(counts)]
    expected = repeated.transform(X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_degenerate_absent_views_keep_the_weights_of_the_others(samples):
    X, counts = samples
    X = X.copy()
    X[::5, 2] = np.nan
    bank = KernelBank(KERNELS, {"one": [0, 1], "two": [2]}, ("center", "trace"), missing_views="keep")
    found = bank.fit(X, sample_weight=counts).transform(X)[:, np.arange(24).repeat(counts)]
    expected = bank.fit(X.repeat(counts, axis=0)).transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_typical_distances_count_pairs(seed):
    rng = np.random.default_rng(seed)
    X, counts = rng.normal(size=(9, 2)), rng.integers(0, 4, 9).astype(float)
    pairs = pdist(X.repeat(counts.astype(int), axis=0))
    square = np.linalg.norm(X[:, None] - X, axis=2)
    assert mean_distance(square, counts) == pytest.approx(pairs.mean(), rel=1e-12)
    assert median_distance(X, "euclidean", counts) == pytest.approx(np.median(pairs), rel=1e-12)
    equal = median_distance(X, "euclidean", 0.3 * (counts > 0))
    assert equal == pytest.approx(np.median(pdist(X[counts > 0])), rel=1e-12)


def test_degenerate_typical_distances_of_one_point():
    alone = np.array([0.0, 0.5])
    assert (
        median_distance(np.eye(2), "euclidean", alone)
        == median_distance(np.eye(2), "euclidean", 8 * alone)
        == 1.0
    )
    assert mean_distance(1.0 - np.eye(2), alone) == 0.0
    mostly = np.array([9.0, 1.0])  # most pairs are of one point: the mean
    assert median_distance(np.array([[0.0], [8.0]]), "euclidean", mostly) == pytest.approx(8.0 * 9 / 45)


class Own(Kernel):
    """A kernel whose `fit` knows no weights."""

    @property
    def label(self):
        return "own"

    def fit(self, X, y=None):
        return self

    def evaluate(self, geometry, out):
        out[...] = geometry.inner_products

    def diagonal(self, X):
        return np.einsum("ij,ij->i", X, X)


def test_what_cannot_count_says_so(samples):
    X, counts = samples
    with pytest.raises(ValueError, match=r"kernel 'own · all': the `fit` of Own must take a `sample_weight`"):
        KernelBank(Own()).fit(X, sample_weight=counts)
    KernelBank(Own()).fit(X, sample_weight=np.ones(24))
    with pytest.raises(ValueError, match=r"`sample_weight` must be None with `landmarks`"):
        KernelBank(Linear(), landmarks=4).fit(X, sample_weight=counts)
    with pytest.raises(ValueError, match=r"`sample_weight` must hold one weight for each of the 24 samples"):
        KernelBank(Linear()).fit_transform(X, sample_weight=counts[1:])
