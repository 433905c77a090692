"""Kernels of features far from zero, against exact arithmetic."""

from __future__ import annotations

import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from bayesmkl.bemkl import BEMKLClassifier
from bayesmkl.discriminative import SimpleMKLClassifier
from bayesmkl.kernels import (
    FromDistance,
    Gaussian,
    KernelBank,
    KernelQualityWarning,
    Laplacian,
    Linear,
    Polynomial,
)
from bayesmkl.kernels.alignment import centered_alignment
from bayesmkl.kernels.stacks.columns import BankColumns
from bayesmkl.kernels.stacks.dense import store_float32
from bayesmkl.kernels.stacks.factored import compress_each
from bayesmkl.kernels.stacks.streamed import streamed_stack

OFFSETS = [0.0, 1e3, 1e6, 1e9, 1e12]
CENTERED = [("center",), ("center", "spherical"), ("trace", "center"), ("center", "trace")]
RNG = np.random.default_rng(5)
TRAIN, ROWS = RNG.normal(size=(9, 3)), RNG.normal(size=(3, 3))
# the two ways to have a large offset: along the direction of all columns, and across it
DIRECTION = np.array([1.0, -0.5, 2.0])
PRODUCTS = {
    "linear": (Linear(), 1, Fraction(0), Fraction(1)),
    "polynomial(1)": (Polynomial(degree=1), 1, Fraction(1), Fraction(1)),
    "polynomial(2)": (Polynomial(degree=2), 2, Fraction(1), Fraction(1)),
    "polynomial(3)": (Polynomial(degree=3, offset=0.5), 3, Fraction(1, 2), Fraction(1)),
    "polynomial(5)": (Polynomial(degree=5), 5, Fraction(1), Fraction(1)),
    '"linear"': ("linear", 1, Fraction(0), Fraction(1)),
    '"poly"': ("poly", 3, Fraction(1), Fraction(1 / 3)),
}


def shifted(X, offset):
    return X + offset * DIRECTION


def exact(X, Z, function):
    """Return k(x, z) as rational numbers, of floats taken as they are."""
    rows, train = ([[Fraction(v) for v in row] for row in side.tolist()] for side in (X, Z))
    return np.array([[function(x, z) for z in train] for x in rows], dtype=object)


def exactly_normalized(names, rows, train, own, train_own):
    """Normalize rational kernels of rows and of training samples, and their self-similarities."""
    for name in names:
        if name == "center":
            mean, n = train.sum(axis=0) / len(train), len(train)
            grand, of_rows = mean.sum() / n, rows.sum(axis=1) / n
            own, train_own = own - 2 * of_rows + grand, train_own - 2 * mean + grand
            rows = rows - of_rows[:, None] - mean + grand
            train = train - mean[:, None] - mean + grand
        elif name == "trace":
            scale = train_own.sum() / len(train)
            rows, train, own, train_own = rows / scale, train / scale, own / scale, train_own / scale
        else:
            with mpmath.workdps(50):
                roots, columns = (
                    np.array([1 / mpmath.sqrt(v) for v in _mp(side)]) for side in (own, train_own)
                )
                rows, train = _mp(rows) * np.outer(roots, columns), _mp(train) * np.outer(columns, columns)
            own, train_own = np.ones(len(own)), np.ones(len(train))
    return train.astype(np.float64), rows.astype(np.float64)


_mp = np.vectorize(lambda value: mpmath.mpf(value.numerator) / value.denominator, otypes=[object])


def expected(name, names, train, rows):
    _, degree, offset, gamma = PRODUCTS[name]

    def function(x, z):
        return (gamma * sum(a * b for a, b in zip(x, z, strict=True)) + offset) ** degree

    both = [exact(side, train, function) for side in (rows, train)]
    own = np.array([exact(row[None], row[None], function)[0, 0] for row in rows], dtype=object)
    return exactly_normalized(names, *both, own, both[1].diagonal())


def error(found, wanted):
    """Return the largest error of an entry, in units of the largest entry."""
    return np.abs(found - wanted).max() / np.abs(wanted).max()


@pytest.mark.heavy
@pytest.mark.parametrize("names", CENTERED, ids="-".join)
@pytest.mark.parametrize("name", PRODUCTS)
def test_centered_kernels_of_inner_products_keep_their_digits(name, names):
    for offset in OFFSETS:
        train, rows = shifted(TRAIN, offset), shifted(ROWS, offset)
        bank = KernelBank(PRODUCTS[name][0], normalize=names)
        of_train, of_rows = expected(name, names, train, rows)
        assert error(bank.fit_transform(train)[..., 0], of_train) < 1e-14
        assert error(bank.transform(rows)[..., 0], of_rows) < 1e-14
        assert error(bank.fit(train).transform(rows)[..., 0], of_rows) < 1e-14  # learned row by row
        assert error(bank.train_diagonal()[0], of_train.diagonal()) < 1e-14
        assert bank.centering_errors()[0] < 1e-14


def test_hard_cases_of_centering():
    """Constant and mixed columns, an outlier, one sample at the mean, a negative offset of a polynomial."""
    mixed = TRAIN * [1.0, 1e-3, 1e5] + [2460000.5, -1e9, 0.0]
    constant = np.column_stack([TRAIN[:, 0], np.full(9, 0.1), np.full(9, 1e12 + 0.3)])
    outlier = np.vstack([TRAIN[:-1] + 1e6, np.full(3, -1e7)])
    for train in (mixed, constant, outlier, np.vstack([TRAIN, TRAIN.mean(axis=0)]) + 1e8):
        for name in ("linear", "polynomial(2)", "polynomial(3)"):
            bank = KernelBank(PRODUCTS[name][0], normalize="center")
            of_train, of_rows = expected(name, ("center",), train, train[:2] + 0.5)
            assert error(bank.fit_transform(train)[..., 0], of_train) < 1e-13
            assert error(bank.transform(train[:2] + 0.5)[..., 0], of_rows) < 1e-13
    nothing = KernelBank([Linear(), Polynomial(degree=3)], normalize=("center", "spherical"))
    np.testing.assert_array_equal(nothing.fit_transform(np.full((5, 2), [0.1, 1e12 + 0.3])), 0.0)


@pytest.mark.parametrize("offset", [1e6, 1e12])
def test_every_form_of_a_bank_is_as_exact_as_the_dense_one(offset):
    train, rows, names = shifted(TRAIN, offset), shifted(ROWS, offset), ("center", "spherical")
    kinds = ["linear", "polynomial(2)", "polynomial(3)"]
    bank = KernelBank([Gaussian(width=2.0), *(PRODUCTS[kind][0] for kind in kinds)], normalize=names).fit(
        train
    )
    of_train, of_rows = (
        np.stack(parts) for parts in zip(*(expected(kind, names, train, rows) for kind in kinds), strict=True)
    )
    streamed = streamed_stack(bank, rows)
    assert error(streamed.as_dense().kernels[1:], of_rows) < 1e-14
    assert error(streamed.apply(np.eye(9))[1:], of_rows) < 1e-14
    assert error(BankColumns(bank).columns(range(9))[1:], of_train) < 1e-14
    short = compress_each(bank.train_kernels())
    assert error(short.columns(slice(None))[1:], of_train) < 1e-9  # its tolerance
    assert error(store_float32(bank.train_kernels(), 4).apply(np.eye(9))[1:], of_train) < 1e-6
    landmarks = KernelBank([Linear(), Polynomial(degree=2)], normalize=names, landmarks=train).fit(rows)
    assert error(landmarks.transform(rows)[..., 0], of_rows[0]) < 1e-14


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(width=2.0),
        Laplacian(width=2.0),
        FromDistance(),
        FromDistance("sqeuclidean"),
        "rbf",
        "laplacian",
    ],
    ids=lambda kernel: kernel if isinstance(kernel, str) else kernel.label,
)
def test_kernels_of_distances_do_not_know_where_zero_is(kernel):
    """Offsets that floats hold together with what is added: differences of the samples are the same numbers."""
    steps = np.round(TRAIN * 2**10) / 2**10
    near = KernelBank(kernel, normalize=None).fit(steps)
    for offset in (2.0**20, 2.0**30, 2.0**40):
        far = KernelBank(kernel, normalize=None).fit(steps + offset)
        for rows in (steps, steps[:3] + 0.25):
            np.testing.assert_allclose(far.transform(rows + offset), near.transform(rows), rtol=1e-14)


@pytest.mark.parametrize("distance", ["cosine", "correlation"])
def test_distances_of_small_angles_keep_their_digits(distance):
    train = np.column_stack([TRAIN, RNG.normal(size=(9, 2))]) + 1e6 * np.arange(1.0, 6.0)
    kernel = FromDistance(distance).fit(train)
    with mpmath.workdps(50):
        rows = [[mpmath.mpf(v) for v in row] for row in train.tolist()]
        if distance == "correlation":
            rows = [[v - mpmath.fsum(row) / 5 for v in row] for row in rows]
        rows = [[v / mpmath.norm(row) for v in row] for row in rows]
        exact = np.array([[float(1 - mpmath.fdot(x, z)) for z in rows] for x in rows])
    assert kernel.scale_ == pytest.approx(exact.sum() / 72, rel=1e-8)
    np.testing.assert_allclose(kernel(train, train), np.exp(-exact / (exact.sum() / 72)), rtol=1e-8)


def dot(X, Z):
    return X @ Z.T


def caught(fit):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in found if issubclass(one.category, KernelQualityWarning)]


@pytest.mark.parametrize(
    "model",
    [BEMKLClassifier(intermediate_scale=1.0), SimpleMKLClassifier(tol=0.1, indefinite="clip")],
    ids=lambda m: type(m).__name__,
)
def test_what_centering_cancels_elsewhere_is_named(model):
    y = np.arange(9) % 2
    kernels = [dot, Linear(), Gaussian(width=1e6), Gaussian(width=2.0)]
    bank = KernelBank(kernels, normalize=("center", "spherical"))
    (warning,) = caught(lambda: model.set_params(kernels=bank).fit(shifted(TRAIN, 1e6), y))
    line = next(line for line in warning.splitlines() if "short of digits after centering" in line)
    assert "dot · all (errors of up to" in line
    assert "gaussian(width=1e+06) · all (errors of up to" in line
    assert "linear" not in line
    assert "width=2)" not in line
    assert "Center or standardize the features" in line
    assert not [
        text for text in caught(lambda: model.fit(TRAIN, y)) if "dot" in text.partition("short of digits")[2]
    ]


def test_the_bound_is_above_the_errors_and_not_far_above():
    for offset in (1e3, 1e5, 1e6, 1e9):
        train = shifted(TRAIN, offset)
        bank = KernelBank(dot, normalize="center").fit(train)
        wrong = error(bank.train_stack()[0], expected("linear", ("center",), train, train[:1])[0])
        assert wrong <= bank.centering_errors()[0] < 1e3 * wrong
    same = np.full((4, 2), 0.1)
    assert (
        KernelBank(Gaussian(), normalize="center").fit(same).centering_errors()[0] == 0.0
    )  # constant, not wrong


def test_alignments_of_kernels_that_centering_cancels_are_warned_of():
    y = np.sign(TRAIN[:, 0])
    with pytest.warns(KernelQualityWarning, match="leaves few digits of kernel 1"):
        centered_alignment(np.stack([dot(X, X) for X in (TRAIN, TRAIN + 1e6)], axis=-1), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        centered_alignment(dot(TRAIN, TRAIN), y)


def test_a_model_on_far_features_is_the_model_on_centered_ones(rng):
    X = rng.normal(size=(60, 4))
    X = np.round(X * 2**10) / 2**10  # the same differences at every offset
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.3, "a", "b")
    bank = KernelBank([Linear()], normalize=("center", "spherical"))
    near = BEMKLClassifier(bank, intermediate_scale=1.0).fit(X, y)
    for offset in (2.0**20, 2.0**30):
        far = BEMKLClassifier(bank, intermediate_scale=1.0).fit(X + offset, y)
        np.testing.assert_allclose(far.predict_proba(X + offset), near.predict_proba(X), rtol=1e-9)
