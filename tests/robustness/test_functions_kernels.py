"""Kernel objects and banks of them: every parameter and every argument, wrong and extreme."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from in_turn import in_turn, together
from parameters import thinned
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from verdicts import THING, assert_refused, quietly

from bayesmkl import KernelBank
from bayesmkl.kernels import (
    Cosine,
    FromDistance,
    Gate,
    Gaussian,
    Laplacian,
    Linear,
    Overlap,
    Polynomial,
    Product,
    Tanimoto,
)

pytestmark = [pytest.mark.family("functions"), pytest.mark.heavy]

X = np.random.default_rng(0).normal(size=(8, 3))
KERNELS = {
    "Gaussian": Gaussian(width=1.5),
    "Laplacian": Laplacian(gamma=0.3),
    "Polynomial": Polynomial(degree=3),
    "Linear": Linear(),
    "Cosine": Cosine(),
    "Tanimoto": Tanimoto(),
    "Overlap": Overlap(),
    "FromDistance": FromDistance("cityblock"),
    "Product": Gaussian(relative_width=1) * Polynomial(degree=2),
}

# ------------------------------------------------------------------------------------------- kernel parameters

NO_SCALES = ["1", True, np.nan, np.inf, 0, -1.0, 1j, [1.0], np.ones(3), 10**400, 1e-200, 1e200, object]
WRONG = {
    (Gaussian, "width"): NO_SCALES,
    (Gaussian, "gamma"): NO_SCALES,
    (Laplacian, "width"): NO_SCALES,
    (Laplacian, "gamma"): NO_SCALES,
    (Polynomial, "degree"): ["2", None, True, np.nan, 0, -1, 1.5, 2.0, [2], 1j, 10**400, object],
    (Polynomial, "offset"): ["1", None, True, np.nan, np.inf, 1j, [1.0], 10**400, 1e200, object],
    (FromDistance, "distance"): [
        "nonsense",
        "",
        None,
        True,
        1.5,
        [1.0, 2.0],
        np.ones((2, 3)),
        np.ones((2, 2)),
        -np.eye(3),
        np.full((8, 8), np.nan),
        np.full((8, 8), "a"),
        [[1], [1, 2]],
        np.zeros((8, 8), dtype=complex),
        "mahalanobis",
        {},
    ],
    (FromDistance, "scale"): ["mean", None, *NO_SCALES],
    (Gate, "width"): NO_SCALES,
    (Gate, "gamma"): NO_SCALES,
    (Gate, "relative_width"): NO_SCALES,
    (Product, "left"): ["rbf", None, 2.0, np.ones((3, 3)), RBF(), Gaussian],
    (Product, "right"): ["rbf", None, 2.0, np.ones((3, 3)), RBF(), Gaussian],
}

NEEDED = {Product: {"left": Linear(), "right": Linear()}, Gate: {"columns": 2}}


@together
@pytest.mark.parametrize(
    ("cls", "parameter", "value"),
    thinned(
        pytest.param(cls, key, value, id=f"{cls.__name__}-{key}-{str(value)[:20]!r}")
        for (cls, key), values in WRONG.items()
        for value in values
    ),
)
def test_wrong_parameters_of_kernels_are_refused_by_name(cls, parameter, value):
    kernel = cls(**NEEDED.get(cls, {}) | {parameter: value})
    assert_refused(lambda: kernel(X, X), f"`{parameter}`")
    assert_refused(lambda: kernel.fit(X), f"`{parameter}`")
    assert_refused(lambda: KernelBank([kernel]).fit(X), f"`{parameter}`")


NO_COLUMNS = [
    None,
    True,
    "hour",
    "",
    3,
    -4,
    1.0,
    np.nan,
    1j,
    10**400,
    [],
    [0, 0],
    [0, -3],
    [0.5],
    [True, False],
    [False, False, False],
    [[0, 1]],
    [[0], [1, 2]],
    {},
    {0},
    slice("a", "b"),
    slice(0.5, 2.5),
    slice(5, 9),
    object,
    np.eye(3),
    Gaussian(),
]


@together
@pytest.mark.parametrize("columns", NO_COLUMNS, ids=lambda columns: str(columns)[:24])
def test_wrong_columns_of_gates_are_refused_by_name(columns):
    assert_refused(lambda: KernelBank(Gaussian() * Gate(columns)).fit(X), "`columns of Gate`")


@pytest.mark.parametrize("kernels", [Gate(2), [Gaussian(), Gate(0) * Gate(1)], {"all": Gate(2)}], ids=str)
def test_gates_of_nothing_are_refused(kernels):
    assert_refused(lambda: KernelBank(kernels).fit(X), "`kernels`")


EQUAL = [
    (Gaussian(width=0.5), Gaussian(width=Fraction(1, 2))),
    (Gaussian(width=0.5), Gaussian(width=np.float32(0.5))),
    (Gaussian(gamma=2), Gaussian(gamma=np.float64(2.0))),
    (Gaussian(gamma=0.5), Gaussian(gamma=Fraction(1, 2))),
    (Gaussian(width=2), Gaussian(gamma=1 / 8)),
    (Laplacian(width=2), Laplacian(width=np.int8(2))),
    (Laplacian(width=0.5), Laplacian(gamma=Fraction(2))),
    (Polynomial(degree=3), Polynomial(degree=np.int8(3))),
    (Polynomial(offset=0.5), Polynomial(offset=Fraction(1, 2))),
    (Polynomial(degree=1, offset=0), Linear()),
    (FromDistance(scale=0.5), FromDistance(scale=Fraction(1, 2))),
    (FromDistance("cityblock", scale=2), Laplacian(width=2)),
    (Product(Gaussian(width=1), Gaussian(width=1)), Gaussian(gamma=1)),
    (Linear() * Linear(), Polynomial(degree=2, offset=0)),
]


@together
@pytest.mark.parametrize(("plain", "other"), EQUAL, ids=lambda kernel: str(kernel)[:30])
def test_equal_parameters_of_other_types_give_equal_kernels(plain, other):
    np.testing.assert_allclose(other.fit(X)(X, X), plain.fit(X)(X, X), rtol=1e-14)


@pytest.mark.parametrize("cls", [Gaussian, Laplacian], ids=lambda cls: cls.__name__)
def test_a_width_and_a_gamma_contradict_each_other(cls):
    assert_refused(lambda: cls(width=1.0, gamma=1.0)(X, X), "`width`", "`gamma`")


# -------------------------------------------------------------------------------------------- kernel arguments

BAD_ROWS = {
    "text": np.full((4, 3), "a"),
    "objects": np.full((4, 3), THING),
    "complex": X[:4] * 1j,
    "NaN": np.full((4, 3), np.nan),
    "infinity": np.full((4, 3), np.inf),
    "one axis": np.ones(3),
    "three axes": np.ones((2, 2, 3)),
    "no rows": np.ones((0, 3)),
    "no columns": np.ones((4, 0)),
    "sparse": sparse.csr_array(X[:4]),
    "ragged": [[1.0], [1.0, 2.0]],
    "None": None,
    "a number": 1.0,
    "other columns": np.ones((4, 2)),
}


@in_turn(("kernel", "what"), itertools.product(KERNELS, BAD_ROWS))
def test_kernels_name_the_rows_that_they_cannot_compare(kernel, what):
    fitted = clone(KERNELS[kernel]).fit(X)
    assert_refused(lambda: fitted(BAD_ROWS[what], X), "X")
    assert_refused(lambda: fitted(X, BAD_ROWS[what]), "Z")


@together
@pytest.mark.parametrize("scale", [1e-160, 1e-90, 1e90, 1e160])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_of_huge_and_tiny_features_are_right_or_refused(kernel, scale):
    """Kernels of angles and of relative distances do not see the scale; others have a limit that is known."""
    at_one = clone(KERNELS[kernel]).fit(X)(X, X)
    try:
        values = quietly(lambda: clone(KERNELS[kernel]).fit(scale * X)(scale * X, scale * X))
    except ValueError:
        assert_refused(lambda: clone(KERNELS[kernel]).fit(scale * X)(scale * X, scale * X), "`X`")
        return
    different = ~np.eye(8, dtype=bool)
    limits = {
        "Gaussian": np.where(different, float(scale < 1.0), 1.0),
        "Laplacian": np.where(different, float(scale < 1.0), 1.0),
        "Polynomial": np.ones((8, 8)) if scale < 1.0 else None,
        "Linear": (scale * X) @ (scale * X).T,
        "Product": Gaussian(relative_width=1).fit(X)(X, X) if scale < 1.0 else None,
    }
    expected = limits.get(kernel, at_one)
    if expected is not None:
        np.testing.assert_allclose(values, expected, rtol=1e-10)


# ------------------------------------------------------------------------------------------ parameters of banks

BANKS = {
    "kernels": [
        None,
        1,
        1.5,
        True,
        "nonsense",
        "",
        [],
        [None],
        [1],
        [[Gaussian()]],
        {},
        {"a": Gaussian()},
        {"all": None},
        {"all": []},
        {"all": {"all": Gaussian()}},
        {"all": Gaussian(), "each": Gaussian()},
        {None: Gaussian()},
        Gaussian,
        [Gaussian],
        np.eye(3),
        ["paper", "papers"],
        KernelBank(),
        THING,
        b"rbf",
    ],
    "views": [
        None,
        1,
        True,
        "none",
        "",
        [],
        [0, 1],
        {},
        {"a": []},
        {"a": [3]},
        {"a": [-4]},
        {"a": "radius"},
        {"a": [0.5]},
        {"a": [np.nan]},
        {"a": [True]},
        {"a": [True, False]},
        {"a": None},
        {"a": {}},
        {"a": [[0, 1]]},
        {"a": slice("x0", "x1")},
        {"a": slice(0.5, 2.5)},
        {"a": slice(5, 9)},
        {"a": 1.5},
        {"a": 1j},
        {"a": [False, False, False]},
        {1: [0], "1": [1]},
    ],
    "normalize": [
        "Spherical",
        "",
        1,
        True,
        np.nan,
        ["spherical", 1],
        ["spherical", None],
        {"spherical"},
        object,
        [[]],
        {},
        {"a": "center"},
        {"all": "middle"},
        {"all": {"all": None}},
        {"all": None, "each": None},
    ],
    "missing_views": ["integrate", "", None, 1, True, np.nan, ["error"]],
    "landmarks": [
        "3",
        "kmeans",
        0,
        -1,
        9,
        2.5,
        3.0,
        True,
        np.nan,
        np.ones((2, 2)),
        np.ones(3),
        np.ones((0, 3)),
        np.full((2, 3), np.nan),
        np.full((2, 3), "a"),
        np.ones((2, 3)) * 1j,
        [[1.0], [1.0, 2.0, 3.0]],
        10**400,
        {},
    ],
    "landmark_selection": ["k-means", "", None, 1, True, ["kmeans"]],
    "random_state": ["0", -1, 1.5, True, np.nan, [0], object],
}


@together
@pytest.mark.parametrize(
    ("parameter", "value"),
    thinned(
        pytest.param(key, value, id=f"{key}-{str(value)[:24]!r}")
        for key, values in BANKS.items()
        for value in values
    ),
)
def test_wrong_parameters_of_banks_are_refused_by_name(parameter, value):
    more = {"landmarks": 3} if parameter in ("landmark_selection", "random_state") else {}
    bank = KernelBank(**{"kernels": Gaussian()} | more | {parameter: value})
    assert_refused(lambda: bank.fit(X), f"`{parameter}")


@together
@pytest.mark.parametrize("parameter", ["landmark_selection", "random_state"])
@pytest.mark.parametrize("value", ["nonsense", 1.5, True, object])
def test_parameters_of_landmarks_are_checked_without_landmarks_too(parameter, value):
    assert_refused(lambda: KernelBank(Gaussian(), **{parameter: value}).fit(X), f"`{parameter}")


SAME = [
    ({"kernels": Gaussian()}, {"kernels": [Gaussian()]}),
    ({"kernels": Gaussian()}, {"kernels": (Gaussian(width=1),)}),
    ({"kernels": "rbf"}, {"kernels": Gaussian(gamma=1 / 3)}),
    ({"kernels": Gaussian()}, {"kernels": {"all": (Gaussian(),)}}),
    ({"normalize": "center"}, {"normalize": {"all": ["center"]}}),
    ({"kernels": RBF(2.0)}, {"kernels": Gaussian(width=2)}),
    ({"views": {"a": [0, 1]}}, {"views": {"a": np.array([0, 1], dtype=np.uint8)}}),
    ({"views": {"a": [0, 1]}}, {"views": {"a": slice(2)}}),
    ({"views": {"a": [0, 1]}}, {"views": {"a": [True, True, False]}}),
    ({"views": {"a": [0, 1]}}, {"views": {"a": np.array([True, True, False])}}),
    ({"views": {"a": [0, 1]}}, {"views": {"a": range(2)}}),
    ({"views": {"a": [0, 1]}}, {"views": {"a": pd.Index([0, 1])}}),
    ({"views": {"a": 2}}, {"views": {"a": [-1]}}),
    ({"normalize": "center"}, {"normalize": ["center"]}),
    ({"normalize": None}, {"normalize": ()}),
    ({"landmarks": 3}, {"landmarks": np.int8(3)}),
    ({"landmarks": X[:3]}, {"landmarks": X[:3].tolist()}),
    ({"landmarks": X[:3]}, {"landmarks": pd.DataFrame(X[:3])}),
    ({"landmarks": 3, "random_state": 5}, {"landmarks": 3, "random_state": np.uint16(5)}),
]


@together
@pytest.mark.parametrize(("plain", "other"), SAME, ids=range(len(SAME)))
def test_equal_parameters_of_other_types_give_equal_banks(plain, other):
    one, two = ({"kernels": [Linear(), Gaussian()]} | parameters for parameters in (plain, other))
    np.testing.assert_allclose(
        KernelBank(**two).fit(X).transform(X), KernelBank(**one).fit(X).transform(X), rtol=1e-12
    )


# ------------------------------------------------------------------------------------------- arguments of banks


@together
@pytest.mark.parametrize("what", [what for what in BAD_ROWS if what != "other columns"])
@pytest.mark.parametrize("method", ["fit", "fit_transform", "transform"])
def test_banks_name_the_samples_that_they_cannot_take(method, what):
    bank = KernelBank([Gaussian(), Linear(), Laplacian()] if what == "sparse" else [Gaussian(), Linear()])
    bank = bank.fit(X) if method == "transform" else bank
    assert_refused(lambda: getattr(bank, method)(BAD_ROWS[what]), "X")


def test_banks_name_samples_with_other_columns_and_what_was_not_fitted():
    bank = KernelBank([Gaussian(), Linear()])
    assert_refused(lambda: bank.transform(X), "KernelBank", kinds=(ValueError, AttributeError))
    assert_refused(lambda: bank.fit(X).transform(X[:, :2]), "X has 2 features")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert_refused(lambda: bank.fit(frame).transform(frame[["c", "b", "a"]]), "feature names")
    assert_refused(lambda: bank.fit(frame).transform(frame[["a", "b"]]), "feature names")


# ------------------------------------------------------------------------------------------------- user's code

STRANGE = {
    "a number": lambda X, Z: 1.0,
    "None": lambda X, Z: None,
    "text": lambda X, Z: np.full((len(X), len(Z)), "a"),
    "complex": lambda X, Z: X @ Z.T * 1j,
    "transposed": lambda X, Z: (X @ Z[:-1].T).T,
    "three axes": lambda X, Z: (X @ Z.T)[..., None],
    "ragged": lambda X, Z: [[1.0], [1.0, 2.0]],
    "NaN": lambda X, Z: np.full((len(X), len(Z)), np.nan),
    "infinity": lambda X, Z: np.full((len(X), len(Z)), np.inf),
    "sparse": lambda X, Z: sparse.csr_array(X @ Z.T),
    "one argument": lambda X: X @ X.T,
}


@together
@pytest.mark.parametrize("what", STRANGE)
def test_results_of_a_callable_that_are_no_kernel_are_blamed_on_it(what):
    assert_refused(lambda: KernelBank([STRANGE[what]]).fit_transform(X), "callable[0]")


DISTANCES = {
    "text": lambda x, z: "far",
    "None": lambda x, z: None,
    "NaN": lambda x, z: np.nan,
    "negative": lambda x, z: -1.0,
    "a vector": lambda x, z: np.abs(x - z),
}


@together
@pytest.mark.parametrize("what", DISTANCES)
def test_results_of_a_callable_that_are_no_distance_are_blamed_on_it(what):
    assert_refused(lambda: KernelBank([FromDistance(DISTANCES[what])]).fit_transform(X), "istance")


def test_errors_of_the_users_own_code_come_through_as_they_are():
    def broken(X, Z):
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        KernelBank([broken]).fit_transform(X)
