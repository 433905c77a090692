"""Every public function on posteriors: wrong models, wrong arguments, and what a fitted model lacks."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from in_turn import in_turn, together
from parameters import LABELS, X, thinned
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from verdicts import assert_refused

from bayesmkl import BEMKLClassifier, BEMKLMultitaskRegressor, BEMKLRegressor, KernelBank
from bayesmkl import posterior as p
from bayesmkl.bemkl import Gibbs
from bayesmkl.discriminative import SimpleMKLClassifier
from bayesmkl.kernels import Gaussian, Linear

pytestmark = [pytest.mark.family("functions"), pytest.mark.heavy]

BANK = KernelBank([Gaussian(width=1), Linear()])
THREE = np.arange(12) % 3


def fit(model, features, target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, target)


@pytest.fixture(scope="module")
def models():
    stack = BANK.fit_transform(X)
    quick = {"max_iter": 20}
    return {
        "classifier": fit(BEMKLClassifier(BANK, **quick), X, LABELS),
        "regressor": fit(BEMKLRegressor(BANK, **quick), X, X[:, 0]),
        "classes": fit(BEMKLClassifier(BANK, multiclass="one-versus-all", **quick), X, THREE),
        "precomputed": fit(BEMKLClassifier("precomputed", **quick), stack, LABELS),
        "gibbs": fit(
            BEMKLClassifier(BANK, inference=Gibbs(n_chains=2, n_warmup=5, n_draws=20), random_state=0),
            X,
            LABELS,
        ),
        "two features": fit(BEMKLClassifier(BANK, **quick), X[:, :2], LABELS),
    }


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")
    assert not UNWRITTEN.exists()


UNWRITTEN = Path(tempfile.gettempdir()) / "never-written.nc"


# What takes a model, as a function of it and of the arguments that a case changes.
OF_A_MODEL = {
    "to_datatree": p.to_datatree,
    "diagnose": p.diagnose,
    "kernel_table": p.kernel_table,
    "view_table": p.view_table,
    "sample_posterior": p.sample_posterior,
    "refine_posterior": p.refine_posterior,
    "relevance": p.relevance,
    "inclusion_table": p.inclusion_table,
    "compare_loo": lambda model, **more: p.compare_loo({"a": model, "b": model}, **more),
    "save_posterior": lambda model, **more: p.save_posterior(model, UNWRITTEN, **more),
    "plot_elbo": p.plot_elbo,
    "plot_kernel_weights": p.plot_kernel_weights,
    "plot_posteriors": lambda model, **more: p.plot_posteriors({"a": model, "b": model}, **more),
    "plot_uncertainty": lambda model, X=X[:, :2], **more: p.plot_uncertainty(model, X, **more),
}
MULTITASK_TOO = ("kernel_table", "plot_elbo", "plot_kernel_weights")
STRANGERS = {
    "None": lambda: None,
    "a number": lambda: 1.0,
    "text": lambda: "model",
    "a class": lambda: BEMKLClassifier,
    "data": lambda: X,
    "another library": lambda: SVC().fit(X, LABELS),
    "a pipeline of another": lambda: make_pipeline(StandardScaler(), SVC()).fit(X, LABELS),
    "no posterior": lambda: SimpleMKLClassifier(BANK).fit(X, LABELS),
}


@in_turn(("stranger", "function"), itertools.product(STRANGERS, OF_A_MODEL))
def test_what_has_no_posterior_is_refused(function, stranger):
    assert_refused(lambda: OF_A_MODEL[function](STRANGERS[stranger]()), "model")


@together
@pytest.mark.parametrize("function", OF_A_MODEL)
def test_models_that_were_not_fitted_are_refused(function):
    for model in (BEMKLClassifier(), make_pipeline(StandardScaler(), BEMKLClassifier())):
        assert_refused(lambda model=model: OF_A_MODEL[function](model), "fit", kinds=NotFittedError)


@together
@pytest.mark.parametrize("function", [name for name in OF_A_MODEL if name not in MULTITASK_TOO])
def test_multitask_models_are_refused_where_a_posterior_of_one_task_is_needed(function):
    tasks = fit(BEMKLMultitaskRegressor(BANK, max_iter=5), X, X[:, :2])
    assert_refused(lambda: OF_A_MODEL[function](tasks), "multitask")


# --------------------------------------------------------------------------------------------------- arguments

SHARES = ["0.9", None, True, [0.9], np.nan, np.inf, 0.0, 1.0, -0.1, 94, 1j]
COUNTS = ["9", True, [9], np.nan, np.inf, 0, -1, 20.5, 200.0, 10**400, 1j]
WORDS = ["", "nonsense", None, 1, True, np.nan, ["shares"]]
SEEDS = ["0", -1, 1.5, True, np.nan, {}, object]
FLAGS = ["yes", 1, 0, np.nan, [True]]
AXES = ["ax", 1, {}, plt]
WRONG = {
    "ci_prob": SHARES,
    "n_draws": COUNTS,
    "n_chains": [1, *COUNTS],
    "max_sweeps": [499, *COUNTS],
    "kind": WORDS,
    "max_kernels": [None, *COUNTS],
    "random_state": SEEDS,
    "by_view": [None, *FLAGS],
    "pointwise": FLAGS,
    "verbose": FLAGS,
    "fdr": SHARES,
    "by": [value for value in WORDS if value is not None],
    "permutations": [value for value in COUNTS if value != 0],
    "method": WORDS,
    "n_grid": [None, *COUNTS],
    "measure": WORDS[:2] + WORDS[3:],
    "ax": AXES,
    "kernels": [np.ones((12, 12, 2)), "precomputed", 1.0],
    "sample_names": ["ab", 1, ["a"], [["a"] * 12], ["a"] * 12],
    "label": ["setosa", 7, -1, [0], np.nan],
    "plot_collection": ["plot", 1, {}],
}
TAKES = {
    "to_datatree": ["n_draws", "random_state", "kernels", "pointwise", "sample_names"],
    "diagnose": ["n_draws", "random_state", "kernels", "ci_prob"],
    "kernel_table": ["ci_prob", "kernels"],
    "view_table": ["ci_prob", "n_draws", "random_state"],
    "sample_posterior": ["n_draws", "random_state"],
    "refine_posterior": ["n_draws", "n_chains", "max_sweeps", "random_state", "kernels"],
    "inclusion_table": ["by", "fdr"],
    "relevance": ["by", "permutations", "random_state", "verbose", "kernels"],
    "compare_loo": ["method", "n_draws", "random_state", "kernels"],
    "save_posterior": ["n_draws", "random_state", "kernels", "pointwise", "sample_names"],
    "plot_elbo": ["ax"],
    "plot_kernel_weights": ["kind", "ci_prob", "max_kernels", "ax", "by_view", "kernels"],
    "plot_posteriors": [
        "kind",
        "max_kernels",
        "ci_prob",
        "ax",
        "n_draws",
        "kernels",
        "random_state",
        "label",
    ],
    "plot_uncertainty": ["measure", "n_grid", "ax", "label"],
}


@in_turn(
    ("function", "argument", "value"),
    thinned(
        pytest.param(function, argument, value, id=f"{function}-{argument}-{str(value)[:20]!r}")
        for function, arguments in TAKES.items()
        for argument in arguments
        for value in WRONG[argument]
    ),
)
def test_wrong_arguments_are_refused_by_name(models, function, argument, value):
    if function == "plot_uncertainty":
        model = models["two features"]
    else:
        model = models["classes" if argument == "label" else "classifier"]
    assert_refused(lambda: OF_A_MODEL[function](model, **{argument: value}), f"`{argument}")


NO_STACKS = {
    "none": None,
    "features": X,
    "fewer samples": np.ones((5, 5, 2)),
    "fewer kernels": np.ones((12, 12, 1)),
    "NaN": np.full((12, 12, 2), np.nan),
    "text": np.full((12, 12, 2), "a"),
    "complex": np.ones((12, 12, 2)) * 1j,
    "ragged": [[1.0], [1.0, 2.0]],
    "a number": 1.0,
}


@together
@pytest.mark.parametrize("what", NO_STACKS)
@pytest.mark.parametrize("function", ["diagnose", "compare_loo", "refine_posterior", "relevance"])
def test_what_is_no_stack_of_training_kernels_is_refused(models, function, what):
    call = OF_A_MODEL[function]
    assert_refused(
        lambda: call(
            models["precomputed"],
            kernels={"a": NO_STACKS[what]} if function == "compare_loo" else NO_STACKS[what],
        ),
        "`kernels`",
    )


# ------------------------------------------------------------------------------------------- new data, mappings


@together
@pytest.mark.parametrize(
    ("X_test", "y_test", "name"),
    [
        (X, None, "y_test"),
        (None, LABELS, "X_test"),
        (X, LABELS[:5], "y_test"),
        (X[:, :2], LABELS, "X"),
        (X, np.full(12, "a"), "y_test"),
        (X, np.full(12, np.nan), "y_test"),
        (X * np.nan, LABELS, "X"),
        (X, X, "y_test"),
        (X[:0], LABELS[:0], "X"),
    ],
    ids=range(9),
)
def test_diagnose_names_what_is_wrong_with_new_data(models, X_test, y_test, name):
    assert_refused(lambda: p.diagnose(models["classifier"], X_test, y_test), name)


@together
@pytest.mark.parametrize("given", [None, 1, "ab", {}, [], [1], {"a": None}, {"a": SVC()}, {1: None}])
@pytest.mark.parametrize("function", [p.compare_loo, p.plot_posteriors])
def test_mappings_of_models_that_are_none_are_refused(function, given):
    assert_refused(lambda: function(given), "model")


def test_models_of_different_samples_do_not_compare(models):
    shorter = fit(BEMKLClassifier(BANK, max_iter=5), X[:8], LABELS[:8])
    other = fit(BEMKLClassifier(BANK, max_iter=5), X, 1 - LABELS)
    for different in (shorter, other, models["regressor"], models["classes"]):
        assert_refused(lambda d=different: p.compare_loo({"a": models["classifier"], "b": d}), "model")


@together
@pytest.mark.parametrize(
    "given",
    [
        None,
        1.0,
        "ab",
        X[:, :3],
        X[:, :1],
        X[:, 0],
        X[:0, :2],
        np.full((12, 2), np.nan),
        np.full((12, 2), "a"),
    ],
    ids=range(9),
)
def test_a_plane_needs_two_features(models, given):
    assert_refused(lambda: p.plot_uncertainty(models["two features"], given), "X")
    y = np.zeros(5)
    assert_refused(lambda: p.plot_uncertainty(models["two features"], X[:, :2], y), "y")


# ------------------------------------------------------------------------------------------------- observations

TRUE, PROBABLE = LABELS, np.linspace(0.05, 0.95, 12)
OBSERVED = {
    "no events": (TRUE[:0], PROBABLE[:0], {}, "y_"),
    "lengths": (TRUE[:5], PROBABLE, {}, "y_"),
    "above one": (TRUE, PROBABLE * 2, {}, "y_prob"),
    "below zero": (TRUE, PROBABLE - 0.5, {}, "y_prob"),
    "NaN": (TRUE, PROBABLE * np.nan, {}, "y_prob"),
    "text": (TRUE, np.full(12, "a"), {}, "y_prob"),
    "complex": (TRUE, PROBABLE * 1j, {}, "y_prob"),
    "three axes": (TRUE, np.ones((12, 2, 2)), {}, "y_prob"),
    "missing labels": (np.full(12, np.nan), PROBABLE, {}, "y_true"),
    "two axes": (np.ones((12, 2)), PROBABLE, {}, "y_true"),
    "columns": (THREE, np.full((12, 2), 0.5), {}, "y_prob"),
    "rows that do not sum": (THREE, np.full((12, 3), 0.9), {}, "y_prob"),
    "a number": (TRUE, 0.5, {}, "y_prob"),
    "None": (None, PROBABLE, {}, "y_true"),
    "labels short": (TRUE, PROBABLE, {"labels": [0]}, "labels"),
    "labels twice": (TRUE, PROBABLE, {"labels": [0, 0]}, "labels"),
    "labels of others": (TRUE, PROBABLE, {"labels": ["a", "b"]}, "labels"),
    "labels a number": (TRUE, PROBABLE, {"labels": 1}, "labels"),
    **{f"n_bins {value!r}": (TRUE, PROBABLE, {"n_bins": value}, "`n_bins`") for value in [None, *COUNTS]},
    **{f"ci_prob {value!r}": (TRUE, PROBABLE, {"ci_prob": value}, "`ci_prob`") for value in SHARES},
}


@in_turn(
    ("function", "what"),
    itertools.product([p.reliability, p.plot_reliability], OBSERVED),
    by=lambda function, _: function.__name__,
)
def test_events_and_probabilities_that_cannot_be(function, what):
    y, probabilities, options, name = OBSERVED[what]
    assert_refused(lambda: function(y, probabilities, **options), name)


PREDICTED = {
    "lengths": (X[:5, 0], X[:, 0], X[:, 0] ** 2, {}, "y_true"),
    "std short": (X[:, 0], X[:, 0], np.ones(5), {}, "std"),
    "negative": (X[:, 0], X[:, 0], -np.ones(12), {}, "std"),
    "NaN": (X[:, 0], X[:, 0] * np.nan, np.ones(12), {}, "mean"),
    "text": (X[:, 0], np.full(12, "a"), np.ones(12), {}, "mean"),
    "missing": (X[:, 0] * np.nan, X[:, 0], np.ones(12), {}, "y_true"),
    "None": (X[:, 0], X[:, 0], None, {}, "std"),
    "two axes": (X, X, np.ones((12, 3)), {}, "y_true"),
    "empty": (X[:0, 0], X[:0, 0], X[:0, 0], {}, "y_true"),
    **{f"ci_prob {v!r}": (X[:, 0], X[:, 0], np.ones(12), {"ci_prob": v}, "`ci_prob`") for v in SHARES},
    **{f"ax {v!r:.9}": (X[:, 0], X[:, 0], np.ones(12), {"ax": v}, "`ax`") for v in AXES},
}


@together
@pytest.mark.parametrize("what", PREDICTED)
def test_predictions_that_cannot_be_drawn(what):
    *arrays, options, name = PREDICTED[what]
    assert_refused(lambda: p.plot_predictions(*arrays, **options), name)


# -------------------------------------------------------------------------------------------------- equal values


@pytest.mark.parametrize(
    ("plain", "other"),
    [({"n_draws": 12}, {"n_draws": np.int16(12)}), ({"random_state": 3}, {"random_state": np.int8(3)})],
)
def test_equal_arguments_of_other_types_give_equal_draws(models, plain, other):
    one, two = (
        p.sample_posterior(models["classifier"], **({"n_draws": 20, "random_state": 0} | more))
        for more in (plain, other)
    )
    for name, values in one.items():
        np.testing.assert_array_equal(two[name], values)


def test_draws_of_a_generator_go_on_where_it_stands(models):
    rng = np.random.default_rng(5)
    one, two = (p.sample_posterior(models["classifier"], 20, rng)["intercept"] for _ in range(2))
    whole = p.sample_posterior(models["classifier"], 20, 5)["intercept"]
    np.testing.assert_array_equal(one, whole)
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("path", [None, 1.5, "", b"x.nc", [], "folder/none.nc", "."])
def test_paths_that_cannot_be_are_refused(models, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = (ValueError, TypeError, OSError)
    assert_refused(lambda: p.load_posterior(path), "path", kinds=kinds)
    assert_refused(lambda: p.save_posterior(models["classifier"], path, 20), "path", kinds=kinds)
    assert list(tmp_path.iterdir()) == []
