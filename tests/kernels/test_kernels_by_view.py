"""Views with kernels and normalizations of their own: the same numbers as banks of one view, beside each other."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from bayesmkl import (
    BEMKLClassifier,
    BEMKLRegressor,
    GPMKLRegressor,
    KernelBank,
)
from bayesmkl.discriminative import (
    AlignmentMKLClassifier,
    LMKLClassifier,
    SimpleMKLClassifier,
    SMOMKLClassifier,
    UniformMKLClassifier,
)
from bayesmkl.gp import Design
from bayesmkl.kernels import FromDistance, Gaussian, Laplacian, Linear, Polynomial, Tanimoto

RNG = np.random.default_rng(11)
BITS, EXPRESSION, AGE = RNG.integers(0, 2, (40, 6)), RNG.normal(size=(40, 3)), RNG.normal(50, 10, (40, 1))
X = np.hstack([BITS, EXPRESSION, AGE]).astype(float)
TARGET = BITS[:, 0] + np.sin(EXPRESSION[:, 0]) + 0.1 * RNG.normal(size=40)
LABELS = np.sin(EXPRESSION[:, 0]) + BITS[:, 0] > 0.5
ROWS = X[::3] + np.r_[np.zeros(6), np.full(4, 0.1)]
for _shared in (X, ROWS, TARGET):
    _shared.flags.writeable = False
VIEWS = {"fingerprint": slice(6), "expression": [6, 7, 8], "age": 9}


def dot(X, Z):
    return X @ Z.T


KERNELS = {
    "expression": [Gaussian(relative_width=1), Linear(), dot],
    "fingerprint": Tanimoto(),
    "age": ["rbf", "auto", "linear"],
}
NORMALIZE = {"age": "trace", "fingerprint": None, "expression": ("center", "spherical")}
SMOOTH = {
    "fingerprint": "linear",
    "expression": [Gaussian(2), Polynomial()],
    "age": Gaussian(relative_width=1),
}


def bank(kernels=KERNELS, views=VIEWS, **options):
    return KernelBank(kernels, views, **options)


def beside_each_other(make, options, kernels=KERNELS, normalize=NORMALIZE):
    """Return what `make` returns of banks of one view each, along the first axis."""
    parts = [
        make(KernelBank(kernels[name], {name: columns}, normalize[name], **options))
        for name, columns in VIEWS.items()
    ]
    return np.concatenate(parts)


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"landmarks": 7},
        {"landmarks": 5, "landmark_selection": "random", "random_state": 3},
        {"missing_views": "keep"},
    ],
    ids=str,
)
def test_stack_is_those_of_the_views_beside_each_other(options):
    if "landmarks" in options:  # which are chosen by all columns that kernels see
        options = {"landmarks": bank(**options).fit(X).landmarks_}
    together = bank(normalize=NORMALIZE, **options)
    stack = np.moveaxis(together.fit_transform(X), -1, 0)
    assert stack.shape == (10, 40, len(together.basis_))
    assert together.training_shape(X) == stack.shape
    np.testing.assert_array_equal(
        stack, beside_each_other(lambda one: np.moveaxis(one.fit_transform(X), -1, 0), options)
    )
    pieces = {
        "row_stack": lambda one: one.fit(X).row_stack(ROWS),
        "train_diagonal": lambda one: one.fit(X).train_diagonal(),
        "rows": lambda one: one.fit(X).rows_and_diagonal(ROWS)[0],
        "diagonal": lambda one: one.fit(X).rows_and_diagonal(ROWS)[1],
        "train_kernels": lambda one: np.array([kernel.copy() for kernel in one.fit(X).train_kernels()]),
        "centering_errors": lambda one: one.fit(X).centering_errors(),
        "kernels_known_psd_": lambda one: one.fit(X).kernels_known_psd_,
        "kernel_names_": lambda one: one.fit(X).kernel_names_,
        "kernel_views_": lambda one: one.fit(X).kernel_views_,
    }
    for name, piece in pieces.items():
        np.testing.assert_array_equal(piece(together), beside_each_other(piece, options), err_msg=name)
    np.testing.assert_array_equal(together.evaluate(ROWS, np.array([0, 5])), together.row_stack(ROWS)[[0, 5]])


def test_names_views_and_positions():
    fitted = bank().fit(X)
    assert fitted.kernel_names_ == [
        "tanimoto · fingerprint",
        "gaussian(1 median) · expression",
        "linear · expression",
        "dot · expression",
        "rbf · age",
        "gaussian(0.5 median) · age",
        "gaussian(1 median) · age",
        "gaussian(2 median) · age",
        "linear · age",
        "linear · age #2",
    ]
    assert fitted.view_positions_.tolist() == [0, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert fitted.kernels_of_views() == [range(1), range(1, 4), range(4, 10)]
    assert [view.name for view in fitted.views_] == list(VIEWS)
    assert fitted.n_kernels_ == 10


@pytest.mark.parametrize("normalize", ["spherical", ("center", "trace"), None])
def test_same_kernels_in_all_entries_are_those_of_every_view(normalize):
    kernels = ["auto", Polynomial()]
    one = KernelBank(kernels, VIEWS, normalize).fit(X)
    each = KernelBank(dict.fromkeys(VIEWS, kernels), VIEWS, dict.fromkeys(VIEWS, normalize)).fit(X)
    np.testing.assert_array_equal(each.row_stack(ROWS), one.row_stack(ROWS))
    assert each.kernel_names_ == one.kernel_names_
    assert each.are_centered() == one.are_centered() == (normalize == ("center", "trace"))
    assert each.view_positions_.tolist() == one.view_positions_.tolist()


@pytest.mark.parametrize("views", ["each", "all+each", "all"])
def test_columns_as_views(views):
    frame = pd.DataFrame(EXPRESSION, columns=["a", "b", "c"])
    kernels = {"c": [Linear(), Gaussian()], "all": "auto", "a": "linear", "b": Laplacian()}
    kernels = {"each": {k: kernels[k] for k in "cab"}, "all": {"all": "auto"}}.get(views, kernels)
    fitted = KernelBank(kernels, views, None).fit(frame)
    expected = (["all"] * 4 if "all" in views else []) + (["a", "b", "c", "c"] if "each" in views else [])
    assert fitted.kernel_views_ == expected
    if "each" in views:
        np.testing.assert_allclose(fitted.row_stack(frame)[-2], np.outer(EXPRESSION[:, 2], EXPRESSION[:, 2]))


def test_absent_views_have_nan_in_their_kernels_alone():
    missing = X.copy()
    missing[:5, 6:9] = np.nan
    missing[3:9, 9] = np.nan
    together = bank(normalize=NORMALIZE, missing_views="keep")
    stack = np.moveaxis(together.fit_transform(missing), -1, 0)
    np.testing.assert_array_equal(np.isnan(stack[:, :10, 20]).sum(axis=1), [0, 5, 5, 5, 6, 6, 6, 6, 6, 6])
    alone = KernelBank(KERNELS["expression"], {"e": [0, 1, 2]}, ("center", "spherical")).fit(X[5:, 6:9])
    np.testing.assert_array_equal(stack[1:4, 5:, 5:], alone.train_stack())
    options = {"missing_views": "keep"}
    np.testing.assert_array_equal(
        together.row_stack(missing),
        beside_each_other(lambda one: one.fit(missing).row_stack(missing), options),
    )
    for kind in (BEMKLRegressor, GPMKLRegressor):
        model = kind(bank(SMOOTH), missing_views="integrate").fit(missing, TARGET)
        assert np.isfinite(model.predict(missing)).all()
        assert model.present_.sum(axis=1).tolist()[:4] == [40, 35, 35, 34]


# --- models ------------------------------------------------------------------------------------


def in_turn(kernels):
    """Return the training stack that a bank makes, for a model of precomputed kernels."""
    return bank(kernels).fit_transform(X)


@pytest.mark.parametrize(
    "kind", [UniformMKLClassifier, SimpleMKLClassifier, SMOMKLClassifier, AlignmentMKLClassifier]
)
def test_discriminative_models_are_those_of_the_stack(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(bank()).fit(X, LABELS)
        precomputed = kind("precomputed").fit(in_turn(KERNELS), LABELS)
    assert list(model.kernel_names_) == bank().fit(X).kernel_names_
    rows = bank().fit(X).transform(ROWS)
    np.testing.assert_allclose(
        model.decision_function(ROWS), precomputed.decision_function(rows), rtol=1e-6, atol=1e-6
    )


def test_bayesian_models_are_those_of_the_stack():
    model = BEMKLClassifier(bank(SMOOTH), max_iter=50, tol=0.0, intermediate_scale=1.0).fit(X, LABELS)
    precomputed = BEMKLClassifier("precomputed", max_iter=50, tol=0.0, intermediate_scale=1.0).fit(
        in_turn(SMOOTH), LABELS
    )
    rows = bank(SMOOTH).fit(X).transform(ROWS)
    np.testing.assert_allclose(model.predict_proba(ROWS), precomputed.predict_proba(rows), rtol=1e-9)


def test_gates_and_designs_leave_their_columns_out():
    kernels, views = {"fingerprint": Tanimoto(), "expression": "linear"}, dict(list(VIEWS.items())[:2])
    gated = LMKLClassifier(bank(kernels, views), gate_columns=[9], max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gated.fit(X, LABELS)
    assert gated.kernel_bank_.kernel_views_ == ["fingerprint", "expression"]
    each = KernelBank({"x0": "linear", "x1": Gaussian()}, "each")
    model = GPMKLRegressor(each, design=Design(covariate_columns=[2])).fit(EXPRESSION, TARGET)
    assert list(model.kernel_names_) == ["linear · x0", "gaussian(width=1) · x1", "views together"]
    with pytest.raises(ValueError, match=r"`kernels` must have an entry for every view; got none for 'x2'"):
        GPMKLRegressor(each).fit(EXPRESSION, TARGET)


# --- parameters --------------------------------------------------------------------------------


def test_entries_have_names_and_the_mapping_that_was_given_stays():
    given = {"fingerprint": Tanimoto(), "expression": ["linear"], "age": Gaussian(2)}
    made = bank(given, normalize=NORMALIZE)
    assert made.get_params()["normalize__expression"] == ("center", "spherical")
    made.set_params(kernels__expression=Linear(), normalize__fingerprint="trace")
    assert made.kernels == given | {"expression": made.kernels["expression"]}
    assert made.fit(X).kernel_names_[1] == "linear · expression"
    assert (given["expression"], NORMALIZE["fingerprint"]) == (["linear"], None)
    made.set_params(kernels={"a": Linear()}, kernels__a=Gaussian(4), views={"a": [0]}, normalize=None)
    assert made.fit(X).kernel_names_ == ["gaussian(width=4) · a"]
    assert KernelBank(Gaussian(2)).set_params(kernels__width=3).kernels.width == 3
    for name in ("kernels__agee", "kernels__age__width", "normal__age"):
        with pytest.raises(ValueError, match="Invalid parameter"):
            bank(SMOOTH).set_params(**{name: 1})


# --- bad input ---------------------------------------------------------------------------------

LINEAR = dict.fromkeys(VIEWS, "linear")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernels": {}}, "`kernels` must have an entry for every view; got an empty mapping"),
        ({"normalize": {}}, "`normalize` must have an entry for every view; got an empty mapping"),
        (
            {"kernels": {"age": "linear", "fingerprint": "linear"}},
            "`kernels` must have an entry for every view; got none for 'expression'. Its entries are 'age', "
            "'fingerprint'. Add one, or leave the view out of `views`",
        ),
        ({"normalize": {"age": None}}, "`normalize` .* got none for 'fingerprint', 'expression'"),
        (
            {"kernels": {**LINEAR, "expresion": "linear"}},
            "`kernels` must have entries for views only; got one for 'expresion', which is not a view. Did you mean "
            "'expression'",
        ),
        (
            {"kernels": {**LINEAR, "sex": "linear"}},
            "one for 'sex', .* views are 'fingerprint', 'expr",
        ),
        ({"views": "all"}, "The views are 'all'"),
        ({"normalize": LINEAR | {"age": "unit"}}, r"`normalize\['.*'\]` must be .*got 'linear'"),
    ],
)
def test_entries_that_are_not_those_of_views(arguments, message):
    arguments = {"kernels": LINEAR, "views": VIEWS} | arguments
    for learn in (KernelBank(**arguments).fit, KernelBank(**arguments).fit_transform):
        with pytest.raises(ValueError, match=message):
            learn(X)


@pytest.mark.parametrize(
    ("kernels", "error", "message"),
    [
        ([], ValueError, r"`kernels\['age'\]` must hold at least one kernel; got an empty list"),
        (["rbff"], ValueError, r"`kernels\['age'\]` names 'rbff', which is not known"),
        (lambda X, Z: X, ValueError, r"kernel 'callable\[0\] · age': the result must have shape"),
        (Gaussian(-1), ValueError, "`width` of Gaussian must be a positive number"),
        ("chi2", ValueError, "kernel 'chi2 · age': .*egative"),
        (FromDistance(np.ones((40, 40)) - np.eye(40)), ValueError, "kernel 'distance.* · age': "),
    ],
)
def test_kernels_that_cannot_take_a_view(kernels, error, message):
    made = bank({**LINEAR, "age": kernels})
    for learn in (made.fit, made.fit_transform):
        with pytest.raises(error, match=message):
            learn(X - 50.0)


def test_views_of_one_name_have_the_same_kernels():
    frame = pd.DataFrame(EXPRESSION, columns=["all", "b", "c"])
    assert KernelBank("linear", "all+each").fit(frame).view_positions_.tolist() == [0, 1, 2, 3]
    of_names = KernelBank(dict.fromkeys(["all", "b", "c"], "linear"), "all+each").fit(frame)
    assert of_names.kernel_views_ == ["all", "all", "b", "c"]
