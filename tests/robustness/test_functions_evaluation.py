"""Metrics, comparisons of models and tests of significance: wrong arguments."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from in_turn import together
from parameters import LABELS, X, thinned
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from verdicts import THING, assert_refused

from bayesmkl import BEMKLClassifier
from bayesmkl import evaluation as e
from bayesmkl.evaluation import significance as s

pytestmark = [pytest.mark.family("functions"), pytest.mark.heavy]

ANY = (ValueError, TypeError, OSError)
COUNTS = ["9", None, True, [9], np.nan, np.inf, 0, -1, 20.5, 200.0, 10**400, 1j]
SHARES = ["0.9", None, True, [0.9], np.nan, np.inf, -0.1, 1j]
FLAGS = ["yes", None, 1, 0, np.nan, [True]]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


# ----------------------------------------------------------------------------------------------------- metrics

SCORES = np.linspace(0.05, 0.95, 12)
THREE = np.arange(12) % 3
EVENTS = {
    "lengths": (LABELS[:5], SCORES, {}, "y_"),
    "NaN": (LABELS, SCORES * np.nan, {}, "y_"),
    "infinity": (LABELS, SCORES * np.inf, {}, "y_"),
    "text": (LABELS, np.full(12, "a"), {}, "y_"),
    "complex": (LABELS, SCORES * 1j, {}, "y_"),
    "objects": (LABELS, np.full(12, THING), {}, "y_"),
    "three axes": (LABELS, np.ones((12, 2, 2)), {}, "y_"),
    "missing labels": (np.full(12, np.nan), SCORES, {}, "y_true"),
    "None among labels": (np.array([None, "a"] * 6), SCORES, {}, "y_true"),
    "two axes": (np.ones((12, 2)), SCORES, {}, "y_true"),
    "columns": (THREE, np.full((12, 2), 0.5), {}, "y_"),
    "a number": (LABELS, 0.5, {}, "y_"),
    "None": (None, SCORES, {}, "y_true"),
    "no samples": (LABELS[:0], SCORES[:0], {}, "y_"),
    "labels short": (LABELS, SCORES, {"labels": [0]}, "labels"),
    "labels twice": (LABELS, SCORES, {"labels": [0, 0]}, "labels"),
    "labels of others": (LABELS, SCORES, {"labels": ["a", "b"]}, "labels"),
    "labels a number": (LABELS, SCORES, {"labels": 1}, "labels"),
    "labels of two axes": (LABELS, SCORES, {"labels": [[0, 1]]}, "labels"),
    "ragged": (LABELS, [[1.0], [1.0, 2.0]], {}, "y_"),
}


@together
@pytest.mark.parametrize("what", EVENTS)
@pytest.mark.parametrize("metric", [e.equal_error_rate, e.expected_calibration_error])
def test_events_and_scores_that_cannot_be(metric, what):
    y, scores, options, name = EVENTS[what]
    assert_refused(lambda: metric(y, scores, **options), name)


@together
@pytest.mark.parametrize("value", COUNTS, ids=str)
def test_bins_are_counted(value):
    assert_refused(lambda: e.expected_calibration_error(LABELS, SCORES, n_bins=value), "`n_bins`")


def test_one_class_has_no_equal_error_rate():
    assert_refused(lambda: e.equal_error_rate(np.zeros(12), SCORES), "`y_true`")


def test_equal_values_of_other_types_give_equal_errors():
    plain = e.equal_error_rate(LABELS, SCORES), e.expected_calibration_error(LABELS, SCORES)
    names = np.array(["no", "yes"])[LABELS]
    for y, scores, labels in (
        (LABELS.tolist(), SCORES.tolist(), None),
        (LABELS.astype(bool), pd.Series(SCORES), None),
        (names, SCORES, ["no", "yes"]),
        (LABELS, np.stack([1.0 - SCORES, SCORES], axis=1), [0, 1]),
    ):
        found = e.equal_error_rate(y, scores, labels), e.expected_calibration_error(y, scores, labels=labels)
        np.testing.assert_allclose(found, plain, rtol=1e-12)


CLASSIFIER = LogisticRegression().fit(X, LABELS)
EVALUATED = {
    "no model": (None, X, LABELS, "`model`"),
    "text": ("model", X, LABELS, "`model`"),
    "a class": (LogisticRegression, X, LABELS, "`model`"),
    "not fitted": (LogisticRegression(), X, LABELS, "`model`"),
    "clusters": (KMeans(2, n_init=1).fit(X), X, LABELS, "`model`"),
    "lengths": (CLASSIFIER, X, LABELS[:5], ""),
    "labels of others": (CLASSIFIER, X, np.full(12, "a"), "`y`"),
    "missing labels": (CLASSIFIER, X, np.full(12, np.nan), "`y`"),
    "two axes": (CLASSIFIER, X, np.ones((12, 2)), "y"),
    "None": (CLASSIFIER, X, None, "y"),
}


@together
@pytest.mark.parametrize("what", EVALUATED)
def test_classifiers_and_labels_that_cannot_be_evaluated(what):
    model, rows, y, name = EVALUATED[what]
    assert_refused(lambda: e.evaluate_classifier(model, rows, y), name)


@together
@pytest.mark.parametrize(
    "model", [None, "model", Ridge, Ridge().fit(X, X[:, 0]), StandardScaler().fit(X)], ids=str
)
def test_regressors_without_standard_deviations_cannot_be_evaluated(model):
    assert_refused(lambda: e.evaluate_regressor(model, X, X[:, 0]), "`model`")


@together
@pytest.mark.parametrize(
    "y", [None, np.full(12, np.nan), np.full(12, "a"), np.ones((12, 2)), X[:, 0] * 1j], ids=range(5)
)
def test_targets_that_cannot_be_evaluated(y):
    assert_refused(lambda: e.evaluate_regressor(Ridge().fit(X, X[:, 0]), X, y), "y")


# ------------------------------------------------------------------------------------------------- comparisons

MODELS = {"one": LogisticRegression(), "two": LogisticRegression(C=0.1)}
COMPARED = {
    "models": [
        None,
        1,
        "LogisticRegression",
        {},
        [],
        {"a": None},
        {"a": LogisticRegression},
        {"a": "svm"},
        {"a": StandardScaler()},
        {"a": KMeans()},
        {"a": LogisticRegression(), "b": Ridge()},
        {1: LogisticRegression()},
        {"": LogisticRegression()},
        [("a", LogisticRegression()), ("a", LogisticRegression())],
        [LogisticRegression()],
        [("a",)],
        {"a": (LogisticRegression(), 3)},
        {"a": (LogisticRegression(), {"nonsense": [1]})},
        {"a": (LogisticRegression(), {"C": 1.0})},
        {"a": (LogisticRegression(), {"C": []})},
        LogisticRegression(),
    ],
    "cv": [
        "5",
        True,
        1,
        0,
        -2,
        2.5,
        np.nan,
        THING,
        [],
        [(0, 1)],
        [([0], [99])],
        [([0, 1],)],
        [([0.5], [1])],
        {},
    ],
    "scoring": [
        "acuracy",
        "",
        1,
        True,
        [],
        ["accuracy", "acuracy"],
        {},
        {"a": 1},
        "r2",
        ["accuracy", "accuracy"],
        THING,
    ],
    "inner_cv": ["5", True, 1, 0, 2.5, THING],
    "inner_scoring": ["acuracy", 1, True, []],
    "sample_weight": [np.ones(5), -np.ones(12), np.zeros(12), 1, "a"],
    "groups": [np.zeros(5), 1, "a", np.zeros((12, 2))],
    "n_jobs": ["2", 0, True, 1.5, np.nan, [1]],
    "random_state": ["0", -1, 1.5, True, np.nan, None, [1]],
    "unavailable": ["", "ignore", None, 1, True],
    "verbose": ["1", None, -1, 1.5, np.nan],
    "folder": [1, 1.5, b"folder", [], "file"],
    "keep_predictions": ["yes", None, -1, 0, np.nan, np.inf, [1]],
    "retry_failed": ["yes", None, 2, [True]],
    "datasets": [
        1,
        True,
        [],
        {},
        ["nonsense"],
        "nonsense",
        ["iris", "iris"],
        {"a": X},
        {"a": (X,)},
        {"a": None},
        [1],
    ],
}


@pytest.mark.parametrize(
    ("argument", "value"),
    thinned(
        pytest.param(argument, value, id=f"{argument}-{str(value)[:24]!r}")
        for argument, values in COMPARED.items()
        for value in values
    ),
)
def test_wrong_arguments_of_a_comparison_are_refused_by_name(argument, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    data = {} if argument == "datasets" else {"X": X, "y": LABELS}
    given = {"models": MODELS, "cv": 2} | data | {argument: value}
    if argument in ("inner_cv", "inner_scoring"):
        given["models"] = {"a": (LogisticRegression(), {"C": [0.1, 1.0]})}
    assert_refused(lambda: e.compare_models(**given), argument, kinds=ANY)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@together
@pytest.mark.parametrize(
    ("rows", "y", "name"),
    [
        (X, None, "`y`"),
        (None, LABELS, "`X`"),
        (X, LABELS[:5], ""),
        (1.0, LABELS, "X"),
        ("X", LABELS, "X"),
        (X[:0], LABELS[:0], ""),
        (X, np.full(12, np.nan), "y"),
        (X, 1.0, "y"),
        (X, np.array([0, None] * 6), "y"),
    ],
    ids=range(9),
)
def test_data_that_cannot_be_compared_on(rows, y, name):
    assert_refused(lambda: e.compare_models(MODELS, rows, y, cv=2), name)


@pytest.fixture(scope="module")
def found():
    return e.compare_models(MODELS, X, LABELS, cv=4, scoring=["accuracy", "auc"])


METRICS = ["acc", "", 1, True, np.nan, ["accuracy"]]
ASKED = {
    "scores": {"metric": METRICS, "dataset": ["iris", 1, True, ["data"]]},
    "summary": {"metric": METRICS},
    "ranks": {"metric": METRICS},
    "significance": {
        "metric": METRICS,
        "test": ["t", "", None, 1, ["paired_t"]],
        "alpha": [*SHARES, 0.0, 1.0],
        "rope": SHARES,
        "over": ["models", "", 1, True],
        "correction": ["bonferroni!", "", 1, True],
        "against": ["three", 1, True, ["one"]],
    },
    "wins": {"metric": METRICS, "test": ["t", "nemenyi", None, 1], "alpha": [*SHARES, 0.0, 1.0]},
    "plot": {"kind": ["bars", "", None, 1, True], "metric": METRICS},
    "learning_curve": {"metric": METRICS, "dataset": ["iris", 1, True]},
    "gates": {"dataset": ["iris", 1, True]},
    "predictions": {"dataset": ["iris", 1, True, ["data"]]},
    "score": {"metric": ["acc", "", 1, True, None, ["accuracy"]]},
    "curve": {
        "kind": ["bars", "", None, 1],
        "dataset": ["iris", 1, ["data"]],
        "positive": ["x", 7, [0], np.nan],
    },
    "mcnemar": {"dataset": ["iris", 1, True]},
    "error_overlap": {"dataset": ["iris", 1, True]},
    "test_train_ratio": {"dataset": [None, "iris", 1, ["data"]]},
}


@together
@pytest.mark.parametrize(
    ("method", "argument", "value"),
    thinned(
        pytest.param(method, argument, value, id=f"{method}-{argument}-{str(value)[:20]!r}")
        for method, arguments in ASKED.items()
        for argument, values in arguments.items()
        for value in values
    ),
)
def test_wrong_questions_to_a_comparison_are_refused_by_name(found, method, argument, value):
    assert_refused(lambda: getattr(found, method)(**{argument: value}), f"`{argument}`")


@together
@pytest.mark.parametrize("kind", ["scores", "ranks", "pairwise", "time"])
@pytest.mark.parametrize("options", [{"ax": "ax"}, {"ax": 1}, {"nonsense": 1}], ids=str)
def test_wrong_options_of_plots_are_refused(found, kind, options):
    assert_refused(lambda: found.plot(kind, **options), next(iter(options)))


@pytest.mark.parametrize("path", [None, 1.5, b"x.html", [], "", ".", "none/x.html"], ids=str)
def test_places_that_no_report_or_comparison_can_be_written_to(found, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    assert_refused(lambda: found.to_html(path), "path", kinds=ANY)
    if path != "none/x.html" and path != ".":
        assert_refused(lambda: found.save(path), "folder", kinds=ANY)
    assert_refused(lambda: e.Comparison.load(path), "folder", kinds=ANY)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("value", [1, "acc", ["acc"], [], [1]], ids=str)
def test_metrics_of_a_report_are_those_of_the_comparison(found, value, tmp_path):
    assert_refused(lambda: found.to_html(tmp_path / "x.html", metrics=value), "`metric")
    assert_refused(lambda: found.to_html(tmp_path / "x.html", title=1), "`title`")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------ significance

A, B = np.linspace(0.5, 0.9, 8), np.linspace(0.55, 0.8, 8) ** 1.1
PAIRS = {
    "paired_t": s.paired_t,
    "corrected_t": lambda a, b, test_train_ratio=0.25, **more: s.corrected_t(a, b, test_train_ratio, **more),
    "wilcoxon": s.wilcoxon,
    "bayesian_correlated_t": lambda a, b, test_train_ratio=0.25, **more: s.bayesian_correlated_t(
        a, b, test_train_ratio, **more
    ),
    "bayesian_mixed_effects": lambda a, b, test_train_ratio=0.25, **more: s.bayesian_mixed_effects(
        a, b, [*"aabbccdd"], test_train_ratio, **more
    ),
}
NO_PAIRS = {
    "lengths": (A, B[:5]),
    "one": (A[:1], B[:1]),
    "none": (A[:0], B[:0]),
    "NaN": (A, B * np.nan),
    "infinity": (A, B * np.inf),
    "text": (A, np.full(8, "a")),
    "complex": (A, B * 1j),
    "two axes": (np.ones((8, 2)), np.ones((8, 2))),
    "None": (A, None),
    "ragged": (A, [[1.0], [1.0, 2.0]]),
    "numbers": (1.0, 2.0),
}


@together
@pytest.mark.parametrize("what", NO_PAIRS)
@pytest.mark.parametrize("test", PAIRS)
def test_scores_that_are_no_pairs_are_refused(test, what):
    assert_refused(lambda: PAIRS[test](*NO_PAIRS[what]), "`")


OPTIONS = {
    "paired_t": {"confidence": [*SHARES, 0.0, 1.0]},
    "corrected_t": {"confidence": [*SHARES, 0.0, 1.0], "test_train_ratio": [*SHARES, 0.0]},
    "bayesian_correlated_t": {"rope": SHARES, "test_train_ratio": [*SHARES, 0.0]},
    "bayesian_mixed_effects": {
        "confidence": [*SHARES, 0.0, 1.0],
        "rope": SHARES,
        "test_train_ratio": [*SHARES, 0.0],
    },
}


@together
@pytest.mark.parametrize(
    ("test", "argument", "value"),
    thinned(
        pytest.param(test, argument, value, id=f"{test}-{argument}-{value!r:.12}")
        for test, arguments in OPTIONS.items()
        for argument, values in arguments.items()
        for value in values
    ),
)
def test_wrong_options_of_tests_are_refused_by_name(test, argument, value):
    assert_refused(lambda: PAIRS[test](A, B, **{argument: value}), f"`{argument}`")


TABLE = pd.DataFrame({"a": A, "b": B, "c": A[::-1]}, index=[f"set {k}" for k in range(8)])
NO_TABLES = {
    "None": None,
    "a number": 1.0,
    "text": "scores",
    "one model": TABLE[["a"]],
    "one data set": TABLE[:1],
    "nothing": TABLE[:0],
    "text inside": TABLE.astype(str),
    "NaN": TABLE * np.nan,
    "infinity": TABLE * np.inf,
    "equal names": pd.concat([TABLE, TABLE], axis=1),
}


@together
@pytest.mark.parametrize("what", NO_TABLES)
@pytest.mark.parametrize("function", [s.friedman, s.nemenyi])
def test_tables_that_hold_no_scores_are_refused(function, what):
    assert_refused(lambda: function(NO_TABLES[what]), "`scores`")


@together
@pytest.mark.parametrize("what", [what for what in NO_TABLES if what not in ("one model", "one data set")])
def test_tables_that_hold_no_scores_have_no_ranks(what):
    assert_refused(lambda: s.rank_table(NO_TABLES[what]), "`scores`")


@together
@pytest.mark.parametrize("function", [s.friedman, s.nemenyi, s.rank_table])
@pytest.mark.parametrize("value", FLAGS, ids=str)
def test_directions_of_scores_are_true_or_false(function, value):
    assert_refused(lambda: function(TABLE, greater_is_better=value), "`greater_is_better`")


@together
@pytest.mark.parametrize("value", [*COUNTS, 1], ids=str)
def test_critical_differences_of_what_is_not_counted(value):
    assert_refused(lambda: s.critical_difference(value, 10), "`n_models`")
    if value != 1 or value is True:
        assert_refused(lambda: s.critical_difference(3, value), "`n_datasets`")


@together
@pytest.mark.parametrize("value", [*SHARES, 0.0, 1.0], ids=str)
def test_levels_lie_between_zero_and_one(value):
    assert_refused(lambda: s.critical_difference(3, 10, value), "`alpha`")


@together
@pytest.mark.parametrize("value", [None, "a", [-0.1], [1.1], ["a"], [[0.5]], [1j]], ids=str)
def test_p_values_that_cannot_be(value):
    assert_refused(lambda: s.holm(value), "`p_values`")


def test_bemkl_without_probabilities_of_several_classes_is_compared_by_what_it_can_give():
    """A cross-check that refusals do not reach legitimate comparisons of different kinds of models."""
    found = e.compare_models({"bemkl": BEMKLClassifier(max_iter=5, tol=0.1), **MODELS}, X, LABELS, cv=2)
    assert found.failures.empty
