"""Samples without some views: banks against banks of those who have the view, masks against loops, errors."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import check_kernels, frozen, random_kernels
from sklearn.base import RegressorMixin, clone
from sklearn.model_selection import cross_val_score

from bayesmkl import BEMKLClassifier, BEMKLRegressor
from bayesmkl._estimator.base import BaseMKL
from bayesmkl.bemkl import Storage
from bayesmkl.kernels import FromDistance, Gaussian, KernelBank, KernelQualityWarning, Linear, Polynomial
from bayesmkl.kernels.presence import present_views, stack_with_absent
from bayesmkl.kernels.views import View

RNG = np.random.default_rng(5)
VIEWS = {"blood": [0, 1], "image": slice(2, 5), "age": 5}
COLUMNS = [[0, 1], [2, 3, 4], [5]]
MIXED = [Gaussian(width=2), Polynomial(2), Linear(), FromDistance()]
SEQUENCES = ["spherical", "trace", "center", None, ("center", "spherical"), ("spherical", "center", "trace")]


def with_holes(rng, n_rows, share=0.3):
    """Return features with NaN for absent views, and who has which view; nobody lacks all of them."""
    X = rng.random(size=(n_rows, 6)) + 0.1
    present = rng.random(size=(3, n_rows)) > share
    present[rng.integers(3, size=n_rows), np.arange(n_rows)] = True
    for columns, there in zip(COLUMNS, present, strict=True):
        X[np.ix_(~there, columns)] = np.nan
    return frozen(X), present


TRAIN, TRAIN_PRESENT = with_holes(RNG, 20)
ROWS, ROWS_PRESENT = with_holes(RNG, 7)


def keeping(kernels=MIXED, views=VIEWS, normalize="spherical"):
    return KernelBank(kernels, views, normalize, missing_views="keep")


# --- who has what ----------------------------------------------------------------------------------


def test_present_views_against_a_loop_over_samples_and_views():
    found = present_views(TRAIN, [View(str(v), np.array(columns)) for v, columns in enumerate(COLUMNS)])
    for v, i in itertools.product(range(3), range(len(TRAIN))):
        assert found[v, i] == (not any(np.isnan(TRAIN[i, j]) for j in COLUMNS[v]))
    np.testing.assert_array_equal(found, TRAIN_PRESENT)


def test_view_that_shares_columns_with_an_absent_one_is_absent():
    X = np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0], [np.nan, np.nan, 3.0]])
    bank = keeping(Linear(), "all+each").fit(X)
    assert bank.present_.astype(int).tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1]]
    bank = keeping(Linear(), {"pair": [0, 1], "other": [0, 2], "third": 2}).fit(X[[0, 2]])
    assert bank.present_.astype(int).tolist() == [[1, 0], [1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("X", "views", "message"),
    [
        ([[1.0, np.nan], [1.0, 2.0]], "all", r"1 sample has NaN in some .* view 'all', the first in row 0\. There"),
        ([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0], [np.nan, 1.0, 2.0]], {"a": [0, 1], "b": 2},
         r"2 samples have NaN in some but not all columns of view 'a', the first in row 1\. A view must be complete"),
        ([[1.0, np.nan], [2.0, np.nan]], {"a": 0, "b": 1}, r"all training samples lack the view 'b'"),
        ([[1.0, np.inf], [2.0, 1.0]], "each", "infinity"),
    ],
)  # fmt: skip
def test_what_a_bank_refuses(X, views, message):
    bank = keeping(Linear(), views)
    for learn in (bank.fit, bank.fit_transform):
        with pytest.raises(ValueError, match=message):
            learn(np.array(X))


def test_new_rows_are_refused_alike():
    bank, rows = keeping().fit(TRAIN), np.ones((4, 6))
    rows[2:, 3] = np.nan
    with pytest.raises(ValueError, match=r"2 samples have NaN in some .* view 'image', the first in row 2"):
        bank.transform(rows)
    rows[1:] = np.nan
    assert np.isnan(bank.transform(rows)[1:]).all()  # samples without any view are for estimators to judge
    with pytest.raises(
        ValueError, match="`missing_views` must be one of 'error', 'keep', 'impute'; got 'drop'"
    ):
        KernelBank(missing_views="drop").fit(TRAIN)
    with pytest.raises(ValueError, match="contains NaN"):
        KernelBank(views=VIEWS).fit(TRAIN)


def test_imputing_bank_fills_views_that_are_there_in_part():
    partly, means = TRAIN.copy(), np.nanmean(TRAIN, axis=0)
    row = np.flatnonzero(TRAIN_PRESENT.all(axis=0))[0]
    view = next(columns for columns in COLUMNS if len(columns) > 1)
    partly[row, view[0]] = np.nan
    means = np.nanmean(partly, axis=0)
    filled = np.where(np.isnan(partly) & ~np.isnan(TRAIN), means, TRAIN)
    bank = keeping().set_params(missing_views="impute").fit(partly)
    np.testing.assert_allclose(bank.column_means_, means)
    np.testing.assert_array_equal(bank.train_stack(), keeping().fit(filled).train_stack())
    np.testing.assert_array_equal(bank.transform(partly), keeping().fit(filled).transform(filled))
    assert keeping().fit(TRAIN).column_means_ is None
    imputing = clone(BANK).set_params(missing_views="impute")
    model = Ridge(imputing, missing_views="integrate").fit(partly, TARGET)
    expected = Ridge(BANK, missing_views="integrate").fit(filled, TARGET)
    np.testing.assert_array_equal(model.predict(partly), expected.predict(filled))
    unknown = np.where(np.arange(6) == view[0], np.nan, partly)
    with pytest.raises(
        ValueError, match=rf"column {view[0]} is NaN for all training samples: it has no mean"
    ):
        keeping().set_params(missing_views="impute").fit(unknown)


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", SEQUENCES, ids=str)
def test_kernels_are_those_of_a_bank_that_only_sees_who_has_the_view(normalize):
    bank = keeping(normalize=normalize)
    train = np.moveaxis(bank.fit_transform(TRAIN), -1, 0)
    rows, diagonal = bank.row_stack(ROWS), bank.train_diagonal()
    expected_train, expected_rows = np.full_like(train, np.nan), np.full_like(rows, np.nan)
    for v, columns in enumerate(COLUMNS):
        some, new = np.flatnonzero(TRAIN_PRESENT[v]), np.flatnonzero(ROWS_PRESENT[v])
        alone = KernelBank(MIXED, "all", normalize)
        kernels = np.moveaxis(alone.fit_transform(TRAIN[np.ix_(some, columns)]), -1, 0)
        for m in range(4):
            expected_train[4 * v + m][np.ix_(some, some)] = kernels[m]
            values = alone.row_stack(ROWS[np.ix_(new, columns)])[m]
            expected_rows[4 * v + m][np.ix_(new, some)] = values
    np.testing.assert_array_equal(train, expected_train)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(bank.train_stack(), train)
    np.testing.assert_array_equal(bank.evaluate(np.array(ROWS), np.array([1, 6, 9])), rows[[1, 6, 9]])
    np.testing.assert_allclose(diagonal, np.diagonal(train, axis1=1, axis2=2), atol=1e-12)
    by_rows = keeping(normalize=normalize).fit(TRAIN)  # never holds a training kernel
    np.testing.assert_allclose(by_rows.row_stack(ROWS), rows, atol=1e-12)


@pytest.mark.parametrize("views", ["all", "each", "all+each", VIEWS], ids=str)
def test_nothing_changes_where_nothing_is_missing(views):
    X, rows = np.nan_to_num(TRAIN, nan=0.5), np.nan_to_num(ROWS, nan=0.5)
    plain, keep = KernelBank(MIXED, views), keeping(views=views)
    np.testing.assert_array_equal(keep.fit_transform(X), plain.fit_transform(X))
    np.testing.assert_array_equal(keep.transform(rows), plain.transform(rows))
    np.testing.assert_array_equal(keep.present_, np.ones_like(plain.present_))


def test_containers_and_their_ways_to_say_missing():
    expected = keeping().fit_transform(TRAIN)
    views = {"blood": ["a", "b"], "image": ["c", "d", "e"], "age": ["f"]}
    plain = pd.DataFrame(TRAIN, columns=list("abcdef"))
    for frame in (
        plain,
        plain.astype("Float64"),
        pl.DataFrame(plain),
        pl.from_pandas(plain, nan_to_null=True),
    ):
        np.testing.assert_array_equal(keeping(views=views).fit_transform(frame), expected)
    frame = plain.astype(object).where(plain.notna(), None)
    bank = keeping(views=views)
    np.testing.assert_array_equal(bank.fit_transform(frame), expected)
    lacking = frame.iloc[:3].assign(c=None, d=None, e=None, a=1.0, b=1.0)  # columns of None and nothing else
    assert np.isnan(bank.row_stack(lacking)[4:8]).all()


# --- stacks --------------------------------------------------------------------------------------


def test_stack_holds_zeros_and_remembers_why():
    train = np.moveaxis(keeping().fit_transform(TRAIN), -1, 0)
    rows = keeping().fit(TRAIN).row_stack(ROWS)
    names, of_kernels = [str(m) for m in range(12)], np.repeat(TRAIN_PRESENT, 4, axis=0)
    for kernels, train_present, expected in (
        (frozen(train), None, of_kernels),
        (frozen(rows), of_kernels, np.repeat(ROWS_PRESENT, 4, axis=0)),
    ):
        stack = stack_with_absent(kernels, names, train_present)
        np.testing.assert_array_equal(stack.kernels, np.nan_to_num(kernels))
        np.testing.assert_array_equal(stack.present, expected)
        assert np.isnan(kernels).any()  # the caller's are as they were
    complete = [i for i in range(7) if ROWS_PRESENT[:, i].all()]
    assert len(complete) > 0
    assert stack_with_absent(rows[:, complete], names, of_kernels).present is None
    in_place = train.copy()
    assert stack_with_absent(in_place, names, in_place=True).kernels is in_place


@pytest.mark.parametrize(
    ("spoil", "train_present", "message"),
    [
        ((0, 1, 2), None, r"'one' has NaN between samples that have it, at \[1, 2\]"),
        ((1, slice(None), slice(None)), None, r"'two' is missing \(NaN\) for all training samples"),
        ((0, 1, slice(None)), None, r"'one' is not NaN at \[0, 1\], although training sample 1 lacks"),
        ((0, slice(None), 2), None, r"'one' has NaN between samples that have it"),
        ((0, 1, slice(None)), [[True, True, False], [True] * 3], r"'one' is not NaN at \[0, 2\]"),
    ],
)
def test_nan_that_marks_no_view_is_an_error(spoil, train_present, message):
    kernels = np.ones((2, 3, 3))
    kernels[spoil] = np.nan
    given = None if train_present is None else np.array(train_present)
    with pytest.raises(ValueError, match=message):
        stack_with_absent(kernels, ["one", "two"], given)


def warning_of(kernels, **options):
    names = [f"k{m}" for m in range(len(kernels))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_kernels(kernels, names, **options)
    return str(caught[0].message) if caught else ""


@pytest.mark.parametrize("flaw", ["near-identity", "constant", "asymmetric", "indefinite", "scale", "none"])
def test_quality_is_judged_among_those_who_have_the_view(rng, flaw):
    kernels = random_kernels(rng, 12, 3)
    part = kernels[0]
    if flaw == "near-identity":
        part[...] = np.eye(12) + 1e-3 * part
    elif flaw == "constant":
        part[...] = 2.0
    elif flaw == "asymmetric":
        part[1, 2] += 0.3
    elif flaw == "indefinite":
        part[...] = 0.2 * part - 0.5 * np.eye(12)
    elif flaw == "scale":
        part *= 1e6
    present = np.ones((3, 12), dtype=bool)
    present[0, [0, 5, 7]] = False
    held = np.where(present[:, :, None] & present[:, None], kernels, 0.0)
    some = np.flatnonzero(present[0])
    alone = warning_of(kernels[:1, some[:, None], some])
    found = warning_of(held, present=present)
    assert (flaw == "none") == (found == "")
    if flaw not in ("none", "scale"):
        assert flaw in found
        assert found == alone  # of the two others, nothing


def test_duplicates_are_kernels_that_agree_on_the_same_samples(rng):
    kernels = random_kernels(rng, 12, 3)
    kernels[1] = 2.0 * kernels[0]
    kernels[2] = kernels[0]
    present = np.ones((3, 12), dtype=bool)
    present[:2, [0, 5]] = present[2, [1]] = False
    found = warning_of(np.where(present[:, :, None] & present[:, None], kernels, 0.0), present=present)
    assert "k0 = k1." in found


# --- estimators ----------------------------------------------------------------------------------


class Ridge(RegressorMixin, BaseMKL):
    """Kernel ridge regression on the sum of the kernels: the least an estimator does with its stack."""

    _takes_missing_views = True

    def __init__(self, kernels=None, kernel_names=None, missing_views="error", strength=0.1):
        self.kernels = kernels
        self.kernel_names = kernel_names
        self.missing_views = missing_views
        self.strength = strength

    def fit(self, X, y):
        self._check_parameters()
        self.stack_, y = self._fit_stack(X, y, y_numeric=True)
        kernel = self.stack_.combine(np.ones(self.stack_.n_kernels))
        self.dual_ = np.linalg.solve(kernel + self.strength * np.eye(len(y)), y)
        return self

    def predict(self, X):
        return self._row_stack(X).apply(self.dual_).sum(axis=0)


BANK = KernelBank([Gaussian(width=1), Gaussian(width=3)], VIEWS)
TARGET = frozen(np.nansum(TRAIN, axis=1))


def precomputed(X):
    """Return the kernels of all samples, whose values no training set changes."""
    return np.moveaxis(clone(BANK).set_params(missing_views="keep").fit(X).train_stack(), 0, -1)


def test_estimator_of_precomputed_kernels_agrees_with_that_of_features():
    by_bank = Ridge(BANK, missing_views="integrate").fit(TRAIN, TARGET)
    stack = frozen(precomputed(TRAIN))
    model = Ridge("precomputed", missing_views="integrate").fit(stack, TARGET)
    np.testing.assert_array_equal(model.present_, by_bank.present_)
    rows = np.moveaxis(by_bank.kernel_bank_.row_stack(ROWS), 0, -1)
    np.testing.assert_allclose(model.predict(rows), by_bank.predict(ROWS), rtol=1e-12)
    (block,) = model._row_blocks(rows, np.array([2, 5]))
    np.testing.assert_array_equal(block.present, np.repeat(ROWS_PRESENT, 2, axis=0)[[2, 5]])
    with pytest.raises(ValueError, match="all views of 1 sample are missing, the first in row 2"):
        model.predict(np.where(np.arange(7)[:, None, None] == 2, np.nan, rows))


def test_model_of_complete_samples_predicts_incomplete_ones():
    X = np.nan_to_num(TRAIN, nan=0.5)
    model = Ridge(BANK, missing_views="integrate").fit(X, TARGET)
    assert model.stack_.present is None
    assert model.present_.all()
    assert model._row_stack(X).present is None
    assert model._row_stack(ROWS).present.shape == (6, 7)
    model.set_params(missing_views="error").fit(X, TARGET)
    assert model.present_ is None
    with pytest.raises(ValueError, match="contains NaN"):
        model.predict(ROWS)


@pytest.mark.heavy
def test_bemkl_cross_validates_and_widens_what_it_says_of_incomplete_samples():
    rng = np.random.default_rng(1)
    signal = rng.normal(size=(40, 1))
    X = np.hstack([signal, signal, signal]) + 0.3 * rng.normal(size=(40, 3))
    y = np.sin(signal[:, 0])
    holes = X.copy()
    holes[np.arange(40), rng.integers(3, size=40)] = np.nan
    bank = KernelBank(Gaussian(width=1), views="each")
    stack = clone(bank).set_params(missing_views="keep").fit(holes).train_stack()
    for Model, target in ((BEMKLRegressor, y), (BEMKLClassifier, y > 0)):
        options = {"missing_views": "integrate", "tol": 1e-3, "storage": Storage(backend="numpy")}
        scores = [
            cross_val_score(Model(kernels, **options), table, target, cv=2, error_score="raise")
            for kernels, table in ((bank, holes), ("precomputed", np.moveaxis(stack, 0, -1)))
        ]
        np.testing.assert_allclose(*scores, rtol=1e-6)
        assert scores[0].mean() > 0.7
    model = BEMKLRegressor(bank, **options).fit(X[:20], y[:20])  # no training sample lacks a view
    (_, complete), (mean, incomplete) = (model.predict(rows[20:], return_std=True) for rows in (X, holes))
    assert (incomplete > complete).all()
    assert np.corrcoef(mean, y[20:])[0, 1] > 0.8


def test_errors_name_the_remedy_only_where_there_is_one():
    with pytest.raises(ValueError, match=r"contains NaN[\s\S]*use `missing_views=\"integrate\"`"):
        Ridge(BANK).fit(TRAIN, TARGET)
    with pytest.raises(ValueError, match=r"contains NaN[\s\S]*use `missing_views=\"integrate\"`"):
        Ridge("precomputed").fit(precomputed(TRAIN), TARGET)
    model = Ridge(BANK).fit(np.nan_to_num(TRAIN), TARGET)
    with pytest.raises(ValueError, match=r"contains NaN[\s\S]*use `missing_views=\"integrate\"`"):
        model.predict(ROWS)
    with pytest.raises(ValueError, match="y contains NaN") as caught:
        Ridge(BANK).fit(np.nan_to_num(TRAIN), np.where(TARGET > 1.0, np.nan, TARGET))
    assert "missing_views" not in str(caught.value)
    with pytest.raises(ValueError, match="`missing_views` must be one of 'error', 'integrate'; got 'impute'"):
        Ridge(BANK, missing_views="impute").fit(TRAIN, TARGET)
    for rows in (np.full((2, 6), np.nan), np.where(np.arange(20)[:, None] > 17, np.nan, TRAIN)):
        with pytest.raises(ValueError, match="all views of 2 samples are missing, the first in row"):
            Ridge(BANK, missing_views="integrate").fit(TRAIN, TARGET).predict(rows)
    with pytest.raises(ValueError, match="all views of 2 samples are missing, the first in row 18"):
        Ridge(BANK, missing_views="integrate").fit(rows, TARGET)
    with pytest.raises(ValueError, match="There is one view of all columns"):
        Ridge(KernelBank(Linear()), missing_views="integrate").fit(TRAIN, TARGET)
    assert Ridge(missing_views="integrate").__sklearn_tags__().input_tags.allow_nan


def test_warning_about_kernels_comes_from_those_who_have_the_view():
    bank = KernelBank(
        Linear(), VIEWS
    )  # one positive column: all who have it look equal, unlike those who lack it
    with pytest.warns(KernelQualityWarning, match="constant .*: linear · age"):
        Ridge(bank, missing_views="integrate").fit(TRAIN, TARGET)
