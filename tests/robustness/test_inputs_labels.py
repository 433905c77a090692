"""What `fit` makes of labels and targets: the model of the same classes or numbers, or an error that names `y`."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from in_turn import in_turn
from inputs import (
    BAYESIAN,
    CLASSIFIERS,
    DISCRIMINATIVE,
    LABELS,
    MULTITASK,
    NEW,
    ONE_COLUMN,
    REGRESSORS,
    TARGET,
    Form,
    OnlyAnArray,
    X,
    fitted,
    known,
    masked,
    pairs,
    quick,
    refused,
    scores,
    silently,
    spoiled,
    strided,
)
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from verdicts import THING, quietly

from bayesmkl.kernels import KernelQualityWarning

pytestmark = pytest.mark.heavy

labels_refused = pytest.mark.family("labels: refused")
labels_equal = pytest.mark.family("labels: unusual form")
targets_refused = pytest.mark.family("targets: refused")
targets_equal = pytest.mark.family("targets: unusual form")
tasks_family = pytest.mark.family("tasks")
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
every_regressor = pytest.mark.parametrize("name", REGRESSORS)
WARNED = (ConvergenceWarning, KernelQualityWarning)
FIRST = np.arange(16) == 0
POSITIVE = LABELS > 0


def words(no="no", yes="yes"):
    return np.where(POSITIVE, yes, no)


# ------------------------------------------------------------------------------------------------ refused labels

REFUSED_LABELS = {
    "one class": np.ones(16),
    "one class of text": np.full(16, "a"),
    "NaN": spoiled(np.nan)(LABELS),
    "None": spoiled(None, object)(LABELS),
    "None among text": spoiled(None, object)(words()),
    "NaN among text": spoiled(np.nan, object)(words()),
    "infinity": spoiled(np.inf)(LABELS),
    "real numbers": TARGET,
    "two real numbers": np.where(POSITIVE, 0.5, 1.5),
    "beyond whole numbers": np.where(POSITIVE, 1e300, -1e300),
    "whole numbers of a hundred bits": np.array([2**100 if p else -(2**100) for p in POSITIVE], dtype=object),
    "text and numbers": np.array([1, "a"] * 8, dtype=object),
    "text and booleans": np.array([True, "a"] * 8, dtype=object),
    "numbers and the same as text": np.array([1, "1"] * 8, dtype=object),
    "objects": np.array([THING] * 16),
    "dictionaries": np.array([{}] * 16, dtype=object),
    "bytes": np.where(POSITIVE, b"a", b"b"),
    "dates": np.where(POSITIVE, np.datetime64("2020-01-01"), np.datetime64("2021-01-01")),
    "durations": LABELS.astype("m8[s]"),
    "complex": LABELS + 1j,
    "structured": np.zeros(16, dtype=[("a", int)]),
    "masked": masked(LABELS),
    "sparse": sparse.csr_matrix(np.maximum(LABELS, 0)[:, None]),
    "too few": LABELS[:-1],
    "too many": np.r_[LABELS, LABELS],
    "none at all": [],
    "no y": None,
    "a row": LABELS[None],
    "three dimensions": LABELS[:, None, None],
    "a number": np.int64(1),
    "a word": "ab",
    "a dictionary": {"a": 1},
    "a set": {1, 2},
    "a generator": (label for label in LABELS),
    "ragged": [[1, 2], [1]] * 8,
    "nullable with a gap": pd.array([None, *LABELS[1:]], dtype="Int64"),
    "nullable booleans with a gap": pd.array([None, *POSITIVE[1:]], dtype="boolean"),
    "nullable text with a gap": pd.Series([None, *words()[1:]], dtype="string"),
    "categories with a gap": pd.Series(pd.Categorical([None, *words()[1:]])),
    "polars with a gap": pl.Series([None, *LABELS[1:].tolist()]),
    "polars text with a gap": pl.Series([None, *words()[1:].tolist()]),
}


@labels_refused
@pairs(CLASSIFIERS, REFUSED_LABELS, "NaN")
def test_labels_that_are_none_are_refused(name, form):
    model = quick(name)
    refused(lambda: model.fit(X, REFUSED_LABELS[form]), "y")
    assert not [key for key in vars(model) if key.endswith("_")], "a fit that failed left something"


@labels_refused
@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name in ONE_COLUMN])
def test_several_columns_of_labels_are_refused(name):
    refused(lambda: quick(name).fit(X, np.c_[LABELS, LABELS]), "y")
    refused(lambda: quick(name).fit(X, pd.DataFrame({"a": LABELS, "b": -LABELS})), "y")


@labels_refused
@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name in BAYESIAN])
def test_bayesian_models_need_two_samples_of_each_of_two_classes(name):
    refused(lambda: quick(name).fit(X, np.where(FIRST, 1, 0)), "y")


@labels_refused
@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name in DISCRIMINATIVE])
def test_one_sample_of_a_class_is_enough_for_a_machine(name):
    """Its score is the highest of all: the machine separates it, or says that it cannot."""
    y = np.where(FIRST, 1, 0)
    features = np.where(FIRST[:, None], 4.0, 0.2 * X)
    model = quietly(lambda: quick(name, C=100.0) if "C" in quick(name).get_params() else quick(name))
    quietly(lambda: model.fit(features, y), *WARNED, UserWarning)
    assert scores(model, features).argmax() == 0


@labels_refused
@every_classifier
def test_three_classes_of_which_one_has_a_sample(name):
    y = np.where(FIRST, 2, LABELS)
    if name in MULTITASK:
        refused(lambda: quick(name).fit(X, y), "y")
        return
    model = quietly(lambda: quick(name).fit(X, y), *WARNED, UserWarning)
    assert list(model.classes_) == [-1, 1, 2]
    assert scores(model, NEW).shape == (5, 3)
    assert np.isfinite(scores(model, NEW)).all()


@labels_refused
@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in MULTITASK])
def test_every_sample_a_class_of_its_own(name):
    if getattr(quick(name), "multiclass", "") == "shared" and hasattr(quick(name), "cv"):
        refused(lambda: quick(name).fit(X[:6], np.arange(6)), "cv")  # nothing to learn them from in any fold
        return
    model = quietly(lambda: quick(name).fit(X[:6], np.arange(6)), *WARNED, UserWarning)
    assert scores(model, NEW).shape == (5, 6)
    assert set(model.predict(X[:6])) <= set(range(6))


# ---------------------------------------------------------------------------------------------- labels in other forms

LABEL_FORMS = {
    "a list": (LABELS.tolist(), (-1, 1)),
    "a tuple": (tuple(LABELS.tolist()), (-1, 1)),
    "zero and one": (POSITIVE.astype(int), (0, 1)),
    "booleans": (POSITIVE, (False, True)),
    "a list of booleans": (POSITIVE.tolist(), (False, True)),
    "objects that are booleans": (POSITIVE.astype(object), (False, True)),
    "objects that are numbers": (LABELS.astype(object), (-1, 1)),
    "objects that are text": (words().astype(object), ("no", "yes")),
    "text": (words(), ("no", "yes")),
    "a list of text": (words().tolist(), ("no", "yes")),
    "text in the other order": (words("z", "zz"), ("z", "zz")),
    "an empty word": (words("", "a"), ("", "a")),
    "other letters": (words("нет", "да!да"), None),
    "numbers as text": (words("9", "10"), None),
    "half precision": (LABELS.astype(np.float16), (-1, 1)),
    "floats": (LABELS.astype(float), (-1.0, 1.0)),
    "bytes of numbers": (np.where(POSITIVE, 200, 100).astype(np.uint8), (100, 200)),
    "distant whole numbers": (np.where(POSITIVE, 2**62, -(2**62)), (-(2**62), 2**62)),
    "neighbors far from zero": (np.where(POSITIVE, 10**15 + 1, 10**15), (10**15, 10**15 + 1)),
    "other bytes first": (LABELS.astype(">i8"), (-1, 1)),
    "every second entry, backwards": (strided(LABELS.astype(float)), (-1.0, 1.0)),
    "of another library": (OnlyAnArray(np.array(LABELS)), (-1, 1)),
    "a mask of nothing": (np.ma.array(LABELS), (-1, 1)),
    "a pandas series": (pd.Series(LABELS, index=range(50, 66)), (-1, 1)),
    "a pandas index": (pd.Index(LABELS), (-1, 1)),
    "nullable numbers": (pd.array(LABELS, dtype="Int64"), (-1, 1)),
    "nullable booleans": (pd.array(POSITIVE, dtype="boolean"), (False, True)),
    "nullable text": (pd.Series(words(), dtype="string"), ("no", "yes")),
    "text of arrow": (pd.Series(words(), dtype="string[pyarrow]"), ("no", "yes")),
    "categories": (pd.Series(pd.Categorical(words())), ("no", "yes")),
    "categories of which one is not used": (
        pd.Series(pd.Categorical(words(), categories=["maybe", "yes", "no"])),
        ("no", "yes"),
    ),
    "ordered categories": (
        pd.Series(pd.Categorical(words(), categories=["yes", "no"], ordered=True)),
        ("no", "yes"),
    ),
    "categories of numbers": (pd.Categorical(LABELS), (-1, 1)),
    "polars numbers": (pl.Series(LABELS.tolist()), (-1, 1)),
    "polars text": (pl.Series(words().tolist()), ("no", "yes")),
    "polars categories": (pl.Series(words().tolist(), dtype=pl.Categorical), ("no", "yes")),
    "polars booleans": (pl.Series(POSITIVE.tolist()), (False, True)),
}


@labels_equal
@pairs(CLASSIFIERS, LABEL_FORMS, "text")
def test_labels_in_other_forms_are_the_same_classes(name, form):
    y, classes = LABEL_FORMS[form]
    model = quietly(lambda: quick(name).fit(X, y), *WARNED)
    plain = fitted(name)
    expected = scores(plain, NEW)
    if form in ("numbers as text", "other letters"):  # the second of the sorted labels is the negative one
        negated = silently(lambda: quick(name).fit(X, -LABELS))
        assert list(model.classes_) == sorted(set(np.asarray(y).tolist()))
        np.testing.assert_array_equal(scores(model, NEW), scores(negated, NEW))
        return
    np.testing.assert_array_equal(scores(model, NEW), expected)
    assert model.classes_.tolist() == list(classes)
    np.testing.assert_array_equal(
        model.predict(NEW), np.where(plain.predict(NEW) > 0, classes[1], classes[0])
    )


COLUMNS = {
    "array": LABELS[:, None],
    "frame": pd.DataFrame({"label": LABELS}),
    "polars": pl.DataFrame({"label": LABELS}),
    "lists": [[label] for label in LABELS.tolist()],
}


@labels_equal
@pairs(CLASSIFIERS, COLUMNS, "array")
def test_a_column_of_labels_is_taken_with_one_warning(name, form):
    model = quietly(lambda: quick(name).fit(X, COLUMNS[form]), DataConversionWarning, *WARNED)
    np.testing.assert_array_equal(np.ravel(scores(model, NEW)), scores(fitted(name), NEW))


# ----------------------------------------------------------------------------------------------- refused targets

REFUSED_TARGETS = {
    "NaN": spoiled(np.nan)(TARGET),
    "infinity": spoiled(np.inf)(TARGET),
    "minus infinity": spoiled(-np.inf)(TARGET),
    "None": spoiled(None, object)(TARGET),
    "numbers as text": TARGET.astype(str),
    "words": np.full(16, "a"),
    "a word among numbers": spoiled("a", object)(TARGET),
    "a number as text among numbers": spoiled("1.5", object)(TARGET),
    "a dictionary among numbers": spoiled({}, object)(TARGET),
    "bytes": TARGET.astype("S6"),
    "dates": np.full(16, np.datetime64("2020")),
    "durations": np.arange(16).astype("m8[s]"),
    "categories": pd.Series(pd.Categorical(words())),
    "complex": TARGET + 1j,
    "structured": np.zeros(16, dtype=[("a", int)]),
    "masked": masked(TARGET),
    "sparse": sparse.csr_matrix(TARGET[:, None]),
    "too few": TARGET[:-1],
    "too many": np.r_[TARGET, TARGET],
    "none at all": [],
    "no y": None,
    "a row": TARGET[None],
    "three dimensions": TARGET[:, None, None],
    "a number": np.float64(1.0),
    "a word": "ab",
    "a dictionary": {"a": 1.0},
    "a generator": (value for value in TARGET),
    "ragged": [[1.0, 2.0], [1.0]] * 8,
    "nullable with a gap": pd.array([None, *TARGET[1:]], dtype="Float64"),
    "polars with a gap": pl.Series([None, *TARGET[1:].tolist()]),
    "huge": 1e150 * TARGET,
    "nearly overflowing": np.where(POSITIVE, 1.7e308, -1.7e308),
    "tiny": 1e-150 * TARGET,
    "denormal": 1e-310 * TARGET,
}


@targets_refused
@in_turn(("name", "form"), product(REGRESSORS, REFUSED_TARGETS))
def test_targets_that_are_none_are_refused(name, form):
    model = quick(name)
    refused(lambda: model.fit(X, REFUSED_TARGETS[form]), "y")
    assert not [key for key in vars(model) if key.endswith("_")], "a fit that failed left something"


@targets_refused
@pytest.mark.parametrize("name", [name for name in REGRESSORS if name in ONE_COLUMN])
def test_several_columns_of_targets_are_refused(name):
    refused(lambda: quick(name).fit(X, np.c_[TARGET, TARGET]), "y")


# -------------------------------------------------------------------------------------------- targets in other forms

TARGET_FORMS = {
    "a list": Form(lambda y: y.tolist()),
    "objects": Form(lambda y: y.astype(object)),
    "single precision": Form(lambda y: y.astype(np.float32), lambda y: y.astype(np.float32).astype(float)),
    "half precision": Form(lambda y: y.astype(np.float16), lambda y: y.astype(np.float16).astype(float)),
    "more than double precision": Form(lambda y: y.astype(np.longdouble)),
    "whole numbers": Form(lambda y: np.round(5.0 * y).astype(int), lambda y: np.round(5.0 * y)),
    "booleans": Form(lambda y: y > 0.0, lambda y: (y > 0.0).astype(float)),
    "other bytes first": Form(lambda y: y.astype(">f8")),
    "every second entry, backwards": Form(strided),
    "of another library": Form(OnlyAnArray),
    "a mask of nothing": Form(np.ma.array),
    "a pandas series": Form(lambda y: pd.Series(y, index=range(50, 66))),
    "nullable": Form(lambda y: pd.array(y, dtype="Float64")),
    "of arrow": Form(lambda y: pd.Series(y, dtype="double[pyarrow]")),
    "categories of numbers": Form(lambda y: pd.Series(pd.Categorical(np.round(y))), np.round),
    "polars": Form(lambda y: pl.Series(y.tolist())),
}


@targets_equal
@pairs(REGRESSORS, TARGET_FORMS, "single precision")
def test_targets_in_other_forms_are_the_same_numbers(name, form):
    make, plain, _ = TARGET_FORMS[form]
    model = quietly(lambda: quick(name).fit(X, make(TARGET)), *WARNED)
    expected = silently(lambda: quick(name).fit(X, plain(TARGET)))
    np.testing.assert_array_equal(scores(model, NEW), scores(expected, NEW))


@targets_equal
@pytest.mark.parametrize("form", ["array", "frame", "lists"])
@every_regressor
def test_a_column_of_targets_is_one_target(name, form):
    column = {
        "array": TARGET[:, None],
        "frame": pd.DataFrame({"y": TARGET}),
        "lists": TARGET[:, None].tolist(),
    }[form]
    warned = (DataConversionWarning,) if name in ONE_COLUMN else ()
    model = quietly(lambda: quick(name).fit(X, column), *warned, *WARNED)
    np.testing.assert_allclose(np.ravel(scores(model, NEW)), scores(fitted(name), NEW), rtol=1e-9, atol=1e-12)


@targets_equal
@pytest.mark.parametrize("value", [0.0, 3.0, -1e12, 1e-50], ids=str)
@every_regressor
def test_a_constant_target_is_predicted(name, value):
    model = quietly(lambda: quick(name).fit(X, np.full(16, value)), *WARNED)
    slack = quick(name).get_params().get("epsilon", 0.0) + 1e-6
    np.testing.assert_allclose(scores(model, NEW), value, rtol=1e-6, atol=slack)


# Parameters in units of the target, and of its reciprocal square; the others have none.
UNITS = {"epsilon": 1, "delta": 1, "C": 0}


@targets_equal
@pytest.mark.parametrize(
    "factor", [2.0**300, 2.0**40, 2.0**-40, 2.0**-300], ids=["2e90", "1e12", "1e-12", "5e-91"]
)
@every_regressor
def test_units_of_the_target_do_not_matter(name, factor):
    """Targets times s: the same machine with C times s, a loss times s squared, or a prior on standardized ones."""
    given = {"delta": 1.0} if name == "PrimalMKLRegressor" else {"epsilon": 0.2, "C": 1.0}
    given = known(name, given) if name in DISCRIMINATIVE else {}
    follow = dict.fromkeys(given)  # the target, by default
    for one in (given, follow) if "C" in given else (given,):
        scaled = {key: value if value is None else factor * value for key, value in one.items()}
        model = quietly(lambda scaled=scaled: quick(name, **scaled).fit(X, factor * TARGET), *WARNED)
        plain = quietly(lambda one=one: quick(name, **one).fit(X, TARGET), *WARNED)
        expected = scores(plain, NEW)
        bound = 1e-6 * np.abs(expected).max()
        np.testing.assert_allclose(scores(model, NEW) / factor, expected, rtol=0.0, atol=bound)


# --------------------------------------------------------------------------------------------------------- tasks

NAMES = np.array(["a", "b"] * 8)
REFUSED_TASKS = {
    "too few": NAMES[:-1],
    "too many": np.r_[NAMES, NAMES],
    "None": spoiled(None, object)(NAMES),
    "NaN": np.where(FIRST, np.nan, 1.0),
    "text and numbers": np.array(["a", 1] * 8, dtype=object),
    "two columns": np.c_[NAMES, NAMES],
    "a word": "a",
    "a number": 3,
    "ragged": [["a"], ["a", "b"]] * 8,
    "masked": masked(np.arange(16) % 2),
    "sparse": sparse.csr_matrix(np.arange(16)[:, None]),
    "a task of one sample": np.where(FIRST, "c", NAMES),
    "every sample a task": np.arange(16),
}


@tasks_family
@in_turn(("name", "form"), product(MULTITASK, REFUSED_TASKS))
def test_tasks_that_are_none_are_refused(name, form):
    y = LABELS if name in CLASSIFIERS else TARGET
    refused(lambda: quick(name).fit(X, y, tasks=REFUSED_TASKS[form]), "tasks", "y")


@tasks_family
@pytest.mark.parametrize("name", MULTITASK)
@pytest.mark.parametrize(
    "tasks",
    [
        (NAMES == "b").astype(int),
        NAMES == "b",
        NAMES.tolist(),
        NAMES.astype(object),
        pd.Series(NAMES),
        pd.Categorical(NAMES, categories=["z", "b", "a"]),
        pl.Series(NAMES.tolist()),
    ],
    ids=["numbers", "booleans", "list", "objects", "pandas", "categories", "polars"],
)
def test_tasks_in_other_forms_are_the_same_tasks(name, tasks):
    y = LABELS if name in CLASSIFIERS else TARGET
    plain = silently(lambda: quick(name).fit(X, y, tasks=NAMES))
    model = quietly(lambda: quick(name).fit(X, y, tasks=tasks), *WARNED)
    np.testing.assert_array_equal(scores(model, NEW), scores(plain, NEW))
    asked = np.asarray(tasks)[:5]
    np.testing.assert_array_equal(scores(model, NEW, tasks=asked), scores(plain, NEW, tasks=NAMES[:5]))
