"""Public functions, kernels and banks beside the estimators refuse wrong arguments by name.

A contract: whatever a function takes, an object of no type that it knows is refused by the name of the argument. And
one table for each validator that arguments share, tried on one function that has it; rules that an argument has for
itself follow.
"""

from __future__ import annotations

import inspect
import warnings
from functools import cache
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from verdicts import THING, assert_refused, each_refused, quietly

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, datasets
from bayesmkl import discriminative as d
from bayesmkl import evaluation as e
from bayesmkl import posterior as p
from bayesmkl.bemkl import BEMKLMultitaskRegressor, Gamma, select_by_elbo
from bayesmkl.evaluation import significance as s
from bayesmkl.kernels import FromDistance, Gate, Gaussian, Laplacian, Linear, Polynomial, Product, Tanimoto

pytestmark = [pytest.mark.family("bad input"), pytest.mark.heavy]

ANY = (ValueError, TypeError, OSError, IndexError)
_rng = np.random.default_rng(0)
X = np.concatenate([_rng.normal(size=(6, 3)), _rng.normal(size=(6, 3)) + 2.0])[_rng.permutation(12)]
LABELS = (X.sum(axis=1) > np.median(X.sum(axis=1))).astype(int)
NONE, ONES, GAPS = X[:0], np.ones((12, 2)), np.full(12, np.nan)
BANK = KernelBank([Gaussian(width=1), Linear()])
RAGGED = [[1.0], [1.0, 2.0]]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


@cache
def model(name: str) -> Any:
    """Return a small fitted model; nobody may change it."""
    quick: dict[str, Any] = {"max_iter": 20}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match name:
            case "classifier":
                return BEMKLClassifier(BANK, **quick).fit(X, LABELS)
            case "regressor":
                return BEMKLRegressor(BANK, **quick).fit(X, X[:, 0])
            case "precomputed":
                return BEMKLClassifier("precomputed", **quick).fit(BANK.fit_transform(X), LABELS)
            case "tasks":
                return BEMKLMultitaskRegressor(BANK, **quick).fit(X, X[:, :2])
            case "machine":
                return d.SimpleMKLClassifier(BANK, tol=0.05).fit(X[:, :2], LABELS)
            case "comparison":
                models = {"one": LogisticRegression(), "two": LogisticRegression(C=0.1)}
                return e.compare_models(models, X, LABELS, cv=4, scoring=["accuracy", "auc"])
    raise ValueError(name)


def kernel(cls: Any) -> Any:
    def used(**given: Any) -> None:
        built = cls(**given)
        assert_refused(lambda: built(X, X))
        KernelBank([built]).fit(X)

    return used


# -------------------------------------------------------------------------------------------------- the contract

PROBABILITIES = {"y_true": LABELS, "y_prob": np.linspace(0.05, 0.95, 12)}
A, B = np.linspace(0.5, 0.9, 8), np.linspace(0.55, 0.8, 8) ** 1.1
TABLE = pd.DataFrame({"a": A, "b": B, "c": A[::-1]})
MODELS = {"one": LogisticRegression(), "two": LogisticRegression(C=0.1)}
GRAPH = d.knn_laplacian(X, 3)
OF_A_MODEL = (
    *(p.to_datatree, p.diagnose, p.kernel_table, p.view_table, p.sample_posterior),
    *(p.refine_posterior, p.relevance, p.plot_elbo, p.plot_kernel_weights, p.plot_views, p.summary),
)
# What each function is called with; functions of fitted models are called with the model of that name.
RIGHT: dict[Any, dict[str, Any]] = {
    select_by_elbo: {
        "estimator": BEMKLClassifier(BANK, max_iter=5),
        "param_grid": {"kernel_prior": [Gamma(1, 1)]},
        "X": X,
        "y": LABELS,
    },
    d.knn_laplacian: {"X": X, "n_neighbors": 3},
    d.glks_transduce: {"laplacians": [GRAPH, GRAPH], "y": np.where(np.arange(12) < 6, LABELS, -1)},
    d.plot_gates: {"model": "machine"},
    d.plot_decision: {"model": "machine", "X": X[:, :2], "y": LABELS, "resolution": 5},
    **{function: {"model": "classifier"} for function in OF_A_MODEL},
    p.plot_predictions: {"y_true": X[:, 0], "mean": X[:, 0], "std": np.ones(12)},
    p.reliability: PROBABILITIES,
    p.plot_reliability: PROBABILITIES,
    e.expected_calibration_error: PROBABILITIES,
    e.equal_error_rate: {"y_true": LABELS, "y_score": PROBABILITIES["y_prob"]},
    e.compare_models: {"models": MODELS, "X": X, "y": LABELS, "cv": 2},
    s.paired_t: {"first": A, "second": B},
    s.corrected_t: {"first": A, "second": B, "test_train_ratio": 0.25},
    s.bayesian_correlated_t: {"first": A, "second": B, "test_train_ratio": 0.25},
    s.wilcoxon: {"first": A, "second": B},
    s.friedman: {"scores": TABLE},
    s.nemenyi: {"scores": TABLE},
    s.rank_table: {"scores": TABLE},
    s.critical_difference: {"n_models": 3, "n_datasets": 10},
    s.holm: {"p_values": [0.1, 0.2]},
    **{getattr(datasets, name): {} for name in datasets.__all__ if name.startswith(("make_", "load_"))},
    datasets.read_gene_sets: {"path": "sets.gmt", "columns": ["TP53", "ATM", "age"], "min_size": 1},
    datasets.load_kernels: {"folder": "."},
    KernelBank: {},
    Gaussian: {},
    Laplacian: {},
    Polynomial: {},
    FromDistance: {},
    Product: {"left": Linear(), "right": Linear()},
}
FREE = {
    "fit_params",
    "gate_features",
    "unlabeled_label",
}  # options that are handed on, and what may be any label


def called(function: Any, **given: Any) -> Any:
    """Call a function; a class of kernels is used, a bank is fitted."""
    if function is KernelBank:
        more = {"landmarks": 3} if given.keys() & {"landmark_selection", "random_state"} else {}
        return KernelBank(**{"kernels": Gaussian()} | more | given).fit(X)
    return kernel(function)(**given) if inspect.isclass(function) else function(**given)


# Where a message does not put the argument between backticks: it is that of scikit-learn, or names an entry of it.
LOOSE = {"X", "y", "kernels", "columns", "labels", "y_true", "y_prob", "y_score", "folder", "models", "cv"}
LOOSE |= {"model", "mean", "std"}


def named(argument: str) -> str:
    return argument if argument in LOOSE else f"`{argument}"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder that calls which are refused leave as it is."""
    monkeypatch.chdir(tmp_path)
    contents = {"sets.gmt": b"REPAIR\tabout\tTP53\tATM\n", "noise": bytes(range(128, 255)), "empty": b""}
    for file, data in contents.items():
        (tmp_path / file).write_bytes(data)
    np.save("kernels.npy", np.eye(3)[None])
    np.save("labels.npy", np.array([0, 1, 1]))
    before = sorted(tmp_path.iterdir())
    yield
    assert sorted(tmp_path.iterdir()) == before, "a call that was refused left a file"


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
@pytest.mark.usefixtures("files")
def test_what_no_function_takes_is_refused_by_the_name_of_the_argument(function):
    right = {k: model(v) if k == "model" and isinstance(v, str) else v for k, v in RIGHT[function].items()}
    if not inspect.isclass(function):
        quietly(lambda: function(**right), UserWarning)  # so that nothing but the wrong argument is refused
    arguments = [name for name in inspect.signature(function).parameters if name not in FREE]
    each_refused(
        (
            (name, lambda name=name: called(function, **right | {name: THING}), named(name))
            for name in arguments
        ),
        kinds=ANY,
    )


# ---------------------------------------------------------------------------------------- one table per validator

COUNTS = ["9", True, [9], np.nan, 0, 20.5, 10**400]
SCALES = ["1", True, np.nan, np.inf, 0, -1.0, 1j, np.ones(3), 10**400, 1e-200, 1e200]
SHARES = ["0.9", None, True, np.nan, -0.1, 94, 1j]
CHOICES = ["", "nonsense", 1, True, ["shares"]]
FLAGS = ["yes", 1, np.nan, [True]]
SEEDS = ["0", -1, 1.5, True]
TABLES = [None, X[:, 0], NONE, np.full((4, 2), "a"), np.full((4, 2), np.nan), X * 1j, RAGGED, 1.0]
STACKS = [None, X, np.ones((5, 5, 2)), np.ones((12, 12, 1)), np.full((12, 12, 2), np.nan), RAGGED, 1.0]
SCORES = [None, 1.0, "scores", TABLE[:0], TABLE * np.nan, pd.concat([TABLE, TABLE], axis=1)]
COLUMNS = [True, "hour", 3, -4, 1.0, 10**400, [], [0.5], [True, False], [[0, 1]], {0}, np.eye(3)]
VALIDATORS: dict[str, tuple[Any, str, list[Any]]] = {
    "counts": (datasets.make_ringnorm, "n_samples", [*COUNTS, None]),
    "counts with a least": (p.refine_posterior, "n_chains", [1, *COUNTS]),
    "scales": (Gaussian, "width", SCALES),
    "rates": (Laplacian, "gamma", SCALES),
    "degrees": (Polynomial, "degree", ["2", None, True, 0, 1.5, 2.0, 10**400]),
    "offsets": (Polynomial, "offset", ["1", None, np.inf, 1j, 1e200]),
    "distances": (FromDistance, "distance", ["nonsense", None, 1.5, np.ones((2, 3)), -np.eye(3), RAGGED, {}]),
    "noise": (datasets.make_localized, "noise", ["0.1", np.inf, -0.1, 1j, 1e200]),
    "lists": (datasets.make_multiview, "kernel_weights", [None, [], ["a"], [np.nan], [0.0], [[1.0]]]),
    "shares": (p.plot_kernel_weights, "ci_prob", SHARES),
    "levels": (s.critical_difference, "alpha", [*SHARES, 0.0, 1.0]),
    "probabilities": (p.reliability, "y_prob", [np.linspace(0, 2, 12), GAPS, np.full(12, "a"), X * 1j, 0.5]),
    "p-values": (s.holm, "p_values", [None, "a", [-0.1], [1.1], ["a"], [[0.5]], [1j]]),
    "choices": (p.relevance, "by", CHOICES),
    "flags": (p.to_datatree, "pointwise", FLAGS),
    "seeds": (p.to_datatree, "random_state", SEEDS),
    "seeds of banks": (KernelBank, "random_state", SEEDS),
    "jobs": (select_by_elbo, "n_jobs", ["2", 0, True, 1.5]),
    "axes": (p.plot_elbo, "ax", ["ax", 1, plt]),
    "grids": (select_by_elbo, "param_grid", [None, 1, [], {"nonsense": [1]}, {"margin": [0.5, 1.0]}, [1]]),
    "tables": (d.knn_laplacian, "X", [*TABLES, sparse.csr_array(X)]),
    "graphs": (d.glks_transduce, "laplacians", [None, 1, [], [np.eye(12)], [GRAPH * np.nan], [GRAPH * 1j]]),
    "partly labeled": (d.glks_transduce, "y", [None, 1, np.full(12, -1), np.zeros(12), GAPS, ONES]),
    "labels": (e.equal_error_rate, "y_true", [None, GAPS, ONES, np.zeros(12), np.array([None, "a"] * 6)]),
    "labels that are known": (p.reliability, "labels", [[0], [0, 0], ["a", "b"], 1]),
    "targets": (p.plot_predictions, "y_true", [X[:5, 0], X[:, 0] * np.nan, X, NONE[:, 0]]),
    "deviations": (p.plot_predictions, "std", [None, np.ones(5), -np.ones(12)]),
    "scores of two": (s.paired_t, "second", [None, B[:5], B * np.nan, B * np.inf, np.full(8, "a"), RAGGED]),
    "scores of several": (s.friedman, "scores", [*SCORES, TABLE[["a"]], TABLE[:1]]),
    "models": (
        e.compare_models,
        "models",
        [
            *(
                None,
                {},
                [],
                LogisticRegression(),
                [LogisticRegression()],
                [("a",)],
                {1: LogisticRegression()},
            ),
            *({"a": given} for given in (None, LogisticRegression, "svm", StandardScaler(), KMeans())),
            *({"a": (LogisticRegression(), grid)} for grid in (3, {"nonsense": [1]}, {"C": 1.0}, {"C": []})),
            {"a": LogisticRegression(), "b": Ridge()},
            [("a", LogisticRegression()), ("a", LogisticRegression())],
        ],
    ),
    "folds": (e.compare_models, "cv", ["5", True, 1, 2.5, [], [(0, 1)], [([0], [99])], {}]),
    "metrics": (e.compare_models, "scoring", ["acuracy", 1, [], ["accuracy", "acuracy"], {}, {"a": 1}, "r2"]),
    "weights": (e.compare_models, "sample_weight", [np.ones(5), -np.ones(12), np.zeros(12), 1, "a"]),
    "groups": (e.compare_models, "groups", [np.zeros(5), 1, "a", np.zeros((12, 2))]),
    "folders": (e.compare_models, "folder", [1, 1.5, b"folder", []]),
    "kernels": (
        KernelBank,
        "kernels",
        [
            *(None, 1, True, "nonsense", [], [None], [[Gaussian()]], {}, Gaussian, [Gaussian], np.eye(3)),
            *({"a": Gaussian()}, {"all": None}, {"all": []}, {"all": Gaussian(), "each": Gaussian()}),
            *(KernelBank(), Gate(2), [Gaussian(), Gate(0) * Gate(1)]),
        ],
    ),
    "views": (
        KernelBank,
        "views",
        [
            *(None, 1, True, "none", [], [0, 1], {}, {1: [0], "1": [1]}),
            *({"a": columns} for columns in COLUMNS),
            *({"a": columns} for columns in ("radius", None, slice("x0", "x1"), slice(5, 9), [False] * 3)),
        ],
    ),
    "normalizations": (
        KernelBank,
        "normalize",
        ["Spherical", 1, ["spherical", 1], [[]], {}, {"all": "middle"}],
    ),
    "landmarks": (KernelBank, "landmarks", ["3", 0, 13, 2.5, True, ONES, np.full((2, 3), np.nan), RAGGED]),
    "paths": (datasets.read_gene_sets, "path", [None, 1.5, b"x", "", ".", "none.gmt", "noise", "empty"]),
    "genes": (
        datasets.read_gene_sets,
        "columns",
        [None, 3, "TP53", [], {"TP53"}, ["tp53"]],
    ),
    "folders of kernels": (datasets.load_kernels, "folder", [None, 3, "nowhere", "kernels.npy"]),
}


@pytest.mark.parametrize("what", VALIDATORS)
@pytest.mark.usefixtures("files")
def test_wrong_values_are_refused_by_the_name_of_the_argument(what):
    function, argument, values = VALIDATORS[what]
    right = {k: model(v) if k == "model" else v for k, v in RIGHT[function].items()}
    each_refused(
        (
            (str(value)[:40], lambda v=value: called(function, **right | {argument: v}), named(argument))
            for value in values
        ),
        kinds=ANY,
    )


# What are no functions, or have data of their own: what is called with a value, the name of it, and wrong values.
OTHERS: dict[str, tuple[Any, str, list[Any]]] = {
    "columns of a gate": (
        lambda v: KernelBank(Gaussian() * Gate(v)).fit(X),
        "columns",
        [None, [0, 0], [0, -3], *COLUMNS],
    ),
    "columns of rows": (
        lambda v: datasets.open_rows(X, v)[:],
        "columns",
        [[], [3], [-4], "a", [0.5], 1.5, {}],
    ),
    "rows": (
        lambda v: datasets.open_rows(v)[:],
        "`path",
        [None, 1.5, "", ".", "none.npy", "sets.gmt", RAGGED],
    ),
    "blocks of rows": (lambda v: list(datasets.open_rows(X).blocks(v)), "`size", COUNTS),
    "samples of rows": (lambda v: datasets.open_rows(X).sample(v), "`n_rows", COUNTS),
    "data sets": (
        lambda v: e.compare_models(MODELS, datasets=v),
        "`datasets",
        [1, [], {}, "iriss", {"a": X}],
    ),
    "distances": (lambda v: d.knn_laplacian(v, 3, "precomputed"), "X", TABLES),
    "kernels of a model": (lambda v: p.diagnose(model("precomputed"), kernels=v), "kernels", STACKS),
    "gates": (
        lambda v: d.LMKLClassifier(BANK, gating=d.GaussianGating(width=v), max_iter=2).fit(X, LABELS),
        "`width",
        ["1", None, True, [1.0], np.nan, -1.0, 1j, 0.0],
    ),
    "a path of penalties": (
        lambda v: d.SimpleMKLClassifier(BANK, tol=0.05).path(X, LABELS, v),
        "`C_values",
        [None, 1.0, "ab", [], ["1"], [-1.0], [np.nan], [True], [1e200]],
    ),
    **{
        f"{method} of a comparison": (
            lambda v, method=method: getattr(model("comparison"), method)(metric=v),
            "`metric",
            ["acc", "", 1, True, ["accuracy"]],
        )
        for method in ("scores", "ranks", "significance", "plot")
    },
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.usefixtures("files")
def test_other_wrong_values_are_refused_by_name(what):
    call, name, values = OTHERS[what]
    each_refused(((str(value)[:40], lambda value=value: call(value), name) for value in values), kinds=ANY)


# ------------------------------------------------------------------------------------- models without a posterior

CALLS = {
    **{function.__name__: function for function in (*OF_A_MODEL, p.inclusion_table)},
    "save_posterior": lambda model: p.save_posterior(model, "never-written.nc"),
    "compare_loo": lambda model: p.compare_loo({"a": model, "b": model}),
}
STRANGERS = [None, 1.0, "model", BEMKLClassifier, make_pipeline(StandardScaler(), SVC())]


@pytest.mark.parametrize("function", CALLS)
def test_functions_of_posteriors_refuse_what_has_none(function):
    call = CALLS[function]
    for stranger in (*STRANGERS, model("machine")):
        assert_refused(lambda stranger=stranger: call(stranger), "model")
    for unfitted in (BEMKLClassifier(), make_pipeline(StandardScaler(), BEMKLClassifier())):
        assert_refused(lambda unfitted=unfitted: call(unfitted), "fit", kinds=NotFittedError)
    if function not in ("kernel_table", "plot_elbo", "plot_kernel_weights"):
        assert_refused(lambda: call(model("tasks")), "multitask")


def test_models_of_different_samples_do_not_compare():
    shorter, other = (BEMKLClassifier(BANK, max_iter=20) for _ in range(2))
    quietly(lambda: (shorter.fit(X[:8], LABELS[:8]), other.fit(X, 1 - LABELS)), UserWarning, UserWarning)
    for different in (shorter, other, model("regressor")):
        assert_refused(lambda d=different: p.compare_loo({"a": model("classifier"), "b": d}), "model")
    for given in (None, 1, "ab", {}, [], [1], {"a": None}, {"a": SVC()}, {1: None}):
        assert_refused(lambda given=given: p.compare_loo(given), "model")


@pytest.mark.parametrize("path", [None, 1.5, "", b"x.nc", [], "folder/none.nc", "."])
def test_places_that_nothing_can_be_written_to(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(lambda: p.load_posterior(path), "path", kinds=ANY)
    assert_refused(lambda: p.save_posterior(model("classifier"), path, 20), "path", kinds=ANY)
    assert_refused(lambda: model("comparison").to_html(path), "path", kinds=ANY)
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------------------------------- kernels and rows

NO_ROWS = {
    "text": np.full((4, 3), "a"),
    "objects": np.full((4, 3), THING),
    "complex": X[:4] * 1j,
    "NaN": np.full((4, 3), np.nan),
    "infinity": np.full((4, 3), np.inf),
    "one axis": np.ones(3),
    "three axes": np.ones((2, 2, 3)),
    "no rows": NONE,
    "no columns": np.ones((4, 0)),
    "sparse": sparse.csr_array(X[:4]),
    "ragged": RAGGED,
    "None": None,
    "a number": 1.0,
    "other columns": np.ones((4, 2)),
}
KERNELS = (
    Gaussian(width=1.5),
    Linear(),
    Tanimoto(),
    FromDistance("cityblock"),
    Gaussian() * Polynomial(degree=2),
)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_and_banks_name_the_rows_that_they_cannot_compare(kernel):
    fitted = clone(kernel).fit(np.abs(X))
    bank = KernelBank([Laplacian(), kernel]).fit(np.abs(X))
    each_refused((f"X {what}", lambda rows=rows: fitted(rows, X), "X") for what, rows in NO_ROWS.items())
    each_refused(
        (f"Z {what}", lambda rows=rows: fitted(np.abs(X), rows), "Z") for what, rows in NO_ROWS.items()
    )
    for method in (bank.transform, bank.fit, bank.fit_transform):
        rows = {
            what: given
            for what, given in NO_ROWS.items()
            if what != "other columns" or method == bank.transform
        }
        each_refused(
            (what, lambda method=method, given=given: method(given), "X") for what, given in rows.items()
        )


STRANGE = {
    "a number": lambda X, Z: 1.0,
    "text": lambda X, Z: np.full((len(X), len(Z)), "a"),
    "complex": lambda X, Z: X @ Z.T * 1j,
    "transposed": lambda X, Z: (X @ Z[:-1].T).T,
    "three axes": lambda X, Z: (X @ Z.T)[..., None],
    "ragged": lambda X, Z: RAGGED,
    "NaN": lambda X, Z: np.full((len(X), len(Z)), np.nan),
    "sparse": lambda X, Z: sparse.csr_array(X @ Z.T),
}


def test_results_of_the_users_functions_are_blamed_on_them():
    each_refused(
        (what, lambda f=f: KernelBank([f]).fit_transform(X), "callable[0]") for what, f in STRANGE.items()
    )
    distances = {"text": "far", "None": None, "NaN": np.nan, "negative": -1.0, "a vector": np.ones(3)}
    each_refused(
        (what, lambda value=value: KernelBank(FromDistance(lambda x, z: value)).fit_transform(X), "istance")
        for what, value in distances.items()
    )
    rows = datasets.open_rows(X)
    blocks = {
        "fewer": lambda b: b[:1],
        "text": lambda b: b.astype(str),
        "None": lambda b: None,
        "no function": "mean",
    }
    each_refused((what, lambda f=f: rows.map(f)[:], "function") for what, f in blocks.items())

    def broken(X, Z):
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        KernelBank([broken]).fit_transform(X)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("init", lambda features, n, rng: np.full((n, 4), np.nan)),
        ("gates", lambda p, f: np.full((2, len(f)), 2.0)),
        ("pullback", lambda p, f, s: np.zeros_like(p)),
    ],
)
def test_gatings_of_users_that_are_wrong_are_refused_by_the_part(part, change):
    parts = {name: getattr(d.SoftmaxGating(), name) for name in ("init", "gates", "pullback")}
    odd = SimpleNamespace(**parts | {part: change})
    assert_refused(lambda: d.check_gating(odd, X, 2, np.random.default_rng(0)), f"gating.{part}")


@pytest.mark.parametrize("scale", [1e-160, 1e-90, 1e90, 1e160])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_of_huge_and_tiny_features_are_right_or_refused(kernel, scale):
    """Kernels of ratios do not see the scale; others have a limit that is known."""
    rows = np.abs(X)
    try:
        values = quietly(lambda: clone(kernel).fit(scale * rows)(scale * rows, scale * rows))
    except ValueError:
        assert_refused(lambda: clone(kernel).fit(scale * rows)(scale * rows, scale * rows), "`X`")
        return
    if isinstance(kernel, Linear):
        expected = (scale * rows) @ (scale * rows).T
    elif isinstance(kernel, Gaussian):
        expected = np.where(np.eye(12, dtype=bool), 1.0, float(scale < 1.0))
    elif isinstance(kernel, Product):
        return  # finite and without a warning
    else:
        expected = clone(kernel).fit(rows)(rows, rows)
    np.testing.assert_allclose(values, expected, rtol=1e-10)
