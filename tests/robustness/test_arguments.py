"""Public functions, kernels and banks beside the estimators: every argument refuses wrong values by its name.

One table: what is called, and for each of its arguments what it must not take. Values stand for the validators that
the arguments share; where an argument has rules of its own, they are here too.
"""

from __future__ import annotations

import warnings
from functools import cache, partial
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
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from verdicts import THING, assert_refused, each_refused, quietly

from bayesmkl import BEMKLClassifier, BEMKLRegressor, KernelBank, datasets
from bayesmkl import discriminative as d
from bayesmkl import evaluation as e
from bayesmkl import posterior as p
from bayesmkl.bemkl import NUTS, BEMKLMultitaskRegressor, Dirichlet, Gamma, SpikeSlab, select_by_elbo
from bayesmkl.evaluation import significance as s
from bayesmkl.kernels import FromDistance, Gate, Gaussian, Laplacian, Linear, Polynomial, Product, Tanimoto

pytestmark = [pytest.mark.family("bad input"), pytest.mark.heavy]

ANY = (ValueError, TypeError, OSError, IndexError)
_rng = np.random.default_rng(0)
X = np.concatenate([_rng.normal(size=(6, 3)), _rng.normal(size=(6, 3)) + 2.0])[_rng.permutation(12)]
LABELS = (X.sum(axis=1) > np.median(X.sum(axis=1))).astype(int)
THREE = np.arange(12) % 3
SHORT, NONE, WORDS, ONES, GAPS = LABELS[:5], X[:0], np.full(12, "a"), np.ones((12, 2)), np.full(12, np.nan)
BANK = KernelBank([Gaussian(width=1), Linear()])
RAGGED = [[1.0], [1.0, 2.0]]

COUNTS = ["9", True, [9], np.nan, 0, 20.5, 10**400]
NUMBERS = ["1", None, True, [1.0], np.nan, -1.0, 1j]
SCALES = ["1", True, np.nan, np.inf, 0, -1.0, 1j, np.ones(3), 10**400, 1e-200, 1e200]
SHARES = ["0.9", None, True, np.nan, -0.1, 94, 1j]
CHOICES = ["", "nonsense", 1, True, ["shares"]]
FLAGS = ["yes", 1, np.nan, [True]]
SEEDS = ["0", -1, 1.5, True]
JOBS = ["2", 0, True, 1.5]
AXES = ["ax", 1, plt]


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
            case "classes":
                return BEMKLClassifier(BANK, multiclass="one-versus-all", **quick).fit(X, THREE)
            case "precomputed":
                return BEMKLClassifier("precomputed", **quick).fit(BANK.fit_transform(X), LABELS)
            case "tasks":
                return BEMKLMultitaskRegressor(BANK, **quick).fit(X, X[:, :2])
            case "machine":
                return d.SimpleMKLClassifier(BANK, tol=0.05).fit(X, LABELS)
            case "machine of a plane":
                return d.SimpleMKLClassifier(BANK, tol=0.05).fit(X[:, :2], LABELS)
            case "comparison":
                models = {"one": LogisticRegression(), "two": LogisticRegression(C=0.1)}
                return e.compare_models(models, X, LABELS, cv=4, scoring=["accuracy", "auc"])
    raise ValueError(name)


def of(name: str, function: Any) -> Any:
    """Return what calls a function of a fitted model, or a method of it by its name."""
    if isinstance(function, str):
        return lambda **given: getattr(model(name), function)(**given)
    return lambda **given: function(model(name), **given)


def of_two(function: Any) -> Any:
    return lambda name, **given: function({"a": model(name), "b": model(name)}, **given)


def fitted_bank(**given: Any) -> Any:
    more = {"landmarks": 3} if given.keys() & {"landmark_selection", "random_state"} else {}
    return KernelBank(**{"kernels": Gaussian()} | more | given).fit(X)


def kernel(cls: Any, **needed: Any) -> Any:
    def used(**given: Any) -> None:
        built = cls(**needed | given)
        assert_refused(lambda: built(X, X))
        KernelBank([built]).fit(X)

    return used


def gated(cls: Any, **needed: Any) -> Any:
    own = [2] if cls is d.GroupGating else None
    rows = np.column_stack([X[:, :2], LABELS]) if own else X
    more = {"gate_columns": own, "standardize": False, "max_iter": 2}
    return lambda **given: d.LMKLClassifier(BANK, gating=cls(**needed | given), **more).fit(rows, LABELS)


def of_prior(**given: Any) -> Any:
    return BEMKLClassifier(BANK, inference=NUTS(n_draws=10, n_warmup=1), **given).fit(X, LABELS)


# ------------------------------------------------------------------------------------------------------ the table

ROW = {"X": X, "y": LABELS}
DRAWS = {"n_draws": COUNTS, "random_state": SEEDS}
STACKS = [None, X, np.ones((5, 5, 2)), np.ones((12, 12, 1)), np.full((12, 12, 2), np.nan), RAGGED, 1.0]
GRAPH = d.knn_laplacian(X, 3)
A, B = np.linspace(0.5, 0.9, 8), np.linspace(0.55, 0.8, 8) ** 1.1
TABLE = pd.DataFrame({"a": A, "b": B, "c": A[::-1]})
NO_TABLES = [None, 1.0, "scores", TABLE[:0], TABLE * np.nan, pd.concat([TABLE, TABLE], axis=1)]
NO_SAMPLES = [None, X[:, 0], NONE, np.full((4, 2), "a"), np.full((4, 2), np.nan), X * 1j, RAGGED, 1.0]
SIZES = {"n_samples": [*COUNTS, None], "random_state": SEEDS}
METRIC = ["acc", "", 1, True, ["accuracy"]]
FOLDS = ["5", True, 1, 2.5, THING]


def refusing(call: Any, right: dict[str, Any] | None = None, /, **wrong: list[Any]) -> Any:
    """Return what is called, arguments that are right, and values that are wrong, by argument."""
    return call, right or {}, wrong


CALLS: dict[str, Any] = {
    "select_by_elbo": refusing(
        select_by_elbo,
        {"estimator": BEMKLClassifier(BANK, max_iter=5), "param_grid": {"kernel_prior": [Gamma(1, 1)]}} | ROW,
        estimator=[None, 1, SVC(), BEMKLClassifier, BEMKLClassifier(inference="gibbs")],
        param_grid=[None, 1, [], {"nonsense": [1]}, {"margin": [0.5, 1.0]}, [1]],
        n_jobs=JOBS,
        verbose=["1", None, -1, 1.5],
    ),
    "priors of weights": refusing(
        of_prior,
        kernel_prior=[
            *map(Dirichlet, ["1", None, True, 0.0, np.inf, [1.0] * 3, [[1.0, 1.0]], [1.0, -1.0], 1j]),
            *map(SpikeSlab, [0.0, 1.0, "half", None, np.nan, [0.5] * 3]),
            *(SpikeSlab(0.5, scale) for scale in (0.0, np.inf, "wide", [1.0] * 3, 1e200)),
        ],
    ),
    "SoftmaxGating": refusing(gated(d.SoftmaxGating), init_scale=NUMBERS),
    "SigmoidGating": refusing(gated(d.SigmoidGating), init_scale=NUMBERS),
    "GaussianGating": refusing(gated(d.GaussianGating), width=[*NUMBERS, 0.0], spread=[*NUMBERS, 0.0, 1.5]),
    "GroupGating": refusing(gated(d.GroupGating), n_groups=COUNTS),
    "knn_laplacian": refusing(
        d.knn_laplacian,
        {"X": X, "n_neighbors": 3},
        X=[*NO_SAMPLES, sparse.csr_array(X)],
        n_neighbors=COUNTS,
        metric=["nonsense", None, 1, []],
    ),
    "knn_laplacian of distances": refusing(
        d.knn_laplacian, {"metric": "precomputed", "n_neighbors": 3}, X=NO_SAMPLES
    ),
    "glks_transduce": refusing(
        d.glks_transduce,
        {"laplacians": [GRAPH, d.knn_laplacian(X, 5)], "y": np.where(np.arange(12) < 6, LABELS, -1)},
        laplacians=[None, 1, [], "L", [None], [np.eye(12)], [GRAPH * np.nan], [GRAPH * 1j]],
        gamma=[*NUMBERS, 0.0, 1e200],
        constant=NUMBERS,
        tol=NUMBERS,
        max_iter=COUNTS,
        unlabeled_label=[[0, 1], {}, int],
        y=[None, 1, np.full(12, -1), np.zeros(12), GAPS, ONES, np.array([None] * 12)],
    ),
    "plot_gates": refusing(
        of("machine", d.plot_gates),
        X=[1.0, "ab", X[:, :1], X * np.nan, NONE],
        ax=AXES,
        order_by=[1.0, "ab", X[:5, 0], X, GAPS],
        label=["a", 7, [0]],
    ),
    "plot_decision": refusing(
        of("machine of a plane", d.plot_decision),
        {"X": X[:, :2], "y": LABELS, "resolution": 5},
        X=[1.0, "ab", X, X[:5, :2], ONES * np.nan],
        y=[None, 1, SHORT, WORDS, ONES],
        ax=AXES,
        label=["a", 7, [0]],
        resolution=[None, 1, *COUNTS],
    ),
    "plot_switches": refusing(
        d.plot_switches,
        {"switches": np.ones((4, 3), dtype=bool), "active": np.ones(3)},
        switches=[None, 1, np.ones(3), np.ones((0, 3)), [["a"] * 3], [[1], [1, 0]]],
        active=[None, 1.0, "ab", np.ones(2), np.ones((3, 1)), [np.nan] * 3, ["a"] * 3, [1j] * 3],
        ax=AXES,
    ),
    **{
        f"path of {cls.__name__}": refusing(
            cls(BANK, tol=0.05).path,
            ROW,
            **{f"{key}_values": [None, 1.0, "ab", [], ["1"], [-1.0], [np.nan], [True], [1e200]]},
        )
        for cls, key in ((d.SimpleMKLClassifier, "C"), (d.PrimalMKLRegressor, "reg"))
    },
    # ---------------------------------------------------------------------------------------------- posteriors
    "to_datatree": refusing(
        of("classifier", p.to_datatree),
        pointwise=FLAGS,
        sample_names=["ab", 1, ["a"], [["a"] * 12], ["a"] * 12],
        kernels=[1.0],
        **DRAWS,
    ),
    "diagnose": refusing(of("classifier", p.diagnose), ci_prob=SHARES, kernels=["precomputed"], **DRAWS),
    "kernel_table": refusing(
        of("classifier", p.kernel_table), ci_prob=SHARES, kernels=[np.ones((12, 12, 2))]
    ),
    "view_table": refusing(of("classifier", p.view_table), ci_prob=SHARES, **DRAWS),
    "sample_posterior": refusing(of("classifier", p.sample_posterior), **DRAWS),
    "refine_posterior": refusing(
        of("classifier", p.refine_posterior),
        n_chains=[1, *COUNTS],
        max_sweeps=[499, *COUNTS],
        kernels=[1.0],
        **DRAWS,
    ),
    "inclusion_table": refusing(of("classifier", p.inclusion_table), by=CHOICES, fdr=SHARES),
    "relevance": refusing(
        of("classifier", p.relevance),
        by=CHOICES,
        permutations=["9", True, -1, 20.5],
        random_state=SEEDS,
        verbose=FLAGS,
    ),
    "compare_loo": refusing(
        partial(of_two(p.compare_loo), "classifier"), method=CHOICES, kernels=[1.0], **DRAWS
    ),
    "plot_elbo": refusing(of("classifier", p.plot_elbo), ax=AXES),
    "plot_kernel_weights": refusing(
        of("classifier", p.plot_kernel_weights),
        kind=CHOICES,
        ci_prob=SHARES,
        max_kernels=[None, *COUNTS],
        ax=AXES,
        by_view=[None, *FLAGS],
    ),
    **{
        f"kernels of {name}": refusing(of("precomputed", function), kernels=STACKS)
        for name, function in (("diagnose", p.diagnose), ("relevance", p.relevance))
    },
    "plot_predictions": refusing(
        p.plot_predictions,
        {"y_true": X[:, 0], "mean": X[:, 0], "std": np.ones(12)},
        y_true=[X[:5, 0], X[:, 0] * np.nan, X, NONE[:, 0]],
        mean=[X[:, 0] * np.nan, WORDS],
        std=[None, np.ones(5), -np.ones(12)],
        ci_prob=SHARES,
        ax=AXES,
    ),
    **{
        name: refusing(
            function,
            {"y_true": LABELS, "y_prob": np.linspace(0.05, 0.95, 12)},
            y_prob=[np.linspace(0, 2, 12), GAPS, WORDS, X[:, 0] * 1j, np.ones((12, 2, 2)), 0.5],
            y_true=[None, GAPS, ONES, LABELS[:0]],
            labels=[[0], [0, 0], ["a", "b"], 1],
            n_bins=[None, *COUNTS],
            **({"ci_prob": SHARES} if function is not e.expected_calibration_error else {}),
        )
        for name, function in (("reliability", p.reliability), ("plot_reliability", p.plot_reliability))
    },
    # ---------------------------------------------------------------------------------------------- evaluation
    "expected_calibration_error": refusing(
        e.expected_calibration_error,
        {"y_true": LABELS, "y_prob": np.linspace(0.05, 0.95, 12)},
        y_true=[None, GAPS, ONES],
        n_bins=[None, *COUNTS],
        labels=[[0], [0, 0], ["a", "b"], 1, [[0, 1]]],
    ),
    "equal_error_rate": refusing(
        e.equal_error_rate,
        {"y_true": LABELS, "y_score": np.linspace(0.05, 0.95, 12)},
        y_true=[None, GAPS, ONES, np.zeros(12), np.array([None, "a"] * 6)],
        labels=[[0], [0, 0], 1],
    ),
    "evaluate_classifier": refusing(
        e.evaluate_classifier,
        {"model": LogisticRegression().fit(X, LABELS)} | ROW,
        model=[None, "model", LogisticRegression, LogisticRegression(), KMeans(2, n_init=1).fit(X)],
        y=[None, WORDS, GAPS, ONES],
    ),
    "evaluate_regressor": refusing(
        e.evaluate_regressor,
        {"X": X, "y": X[:, 0]},
        model=[None, "model", Ridge, Ridge().fit(X, X[:, 0]), StandardScaler().fit(X)],
    ),
    "compare_models": refusing(
        e.compare_models,
        {"models": {"one": LogisticRegression(), "two": LogisticRegression(C=0.1)}, "cv": 2} | ROW,
        models=[
            *(None, 1, {}, [], LogisticRegression(), [LogisticRegression()], [("a",)]),
            *({"a": given} for given in (None, LogisticRegression, "svm", StandardScaler(), KMeans())),
            *({"a": (LogisticRegression(), grid)} for grid in (3, {"nonsense": [1]}, {"C": 1.0}, {"C": []})),
            {"a": LogisticRegression(), "b": Ridge()},
            {1: LogisticRegression()},
            [("a", LogisticRegression()), ("a", LogisticRegression())],
        ],
        cv=[*FOLDS, [], [(0, 1)], [([0], [99])], [([0, 1],)], {}],
        scoring=["acuracy", 1, True, [], ["accuracy", "acuracy"], {}, {"a": 1}, "r2", THING],
        inner_cv=FOLDS,
        inner_scoring=["acuracy", 1, True, []],
        sample_weight=[np.ones(5), -np.ones(12), np.zeros(12), 1, "a"],
        groups=[np.zeros(5), 1, "a", np.zeros((12, 2))],
        n_jobs=JOBS,
        random_state=[*SEEDS, None],
        verbose=["1", None, -1, 1.5],
        folder=[1, 1.5, b"folder", []],
    ),
    "data sets of compare_models": refusing(
        e.compare_models,
        {"models": {"one": LogisticRegression()}, "cv": 2},
        datasets=[1, True, [], {}, ["nonsense"], "nonsense", {"a": X}, {"a": None}, [1]],
    ),
    **{
        f"Comparison.{method}": refusing(of("comparison", method), **arguments)
        for method, arguments in {
            "scores": {"metric": METRIC, "dataset": ["iris", 1, ["data"]]},
            "ranks": {"metric": METRIC},
            "significance": {
                "metric": METRIC,
                "test": ["t", 1],
                "alpha": [*SHARES, 0.0],
                "rope": SHARES[:-2],
            },
            "wins": {"metric": METRIC, "test": ["t", "nemenyi", None]},
            "plot": {"kind": ["bars", None, 1], "metric": METRIC, "ax": AXES},
        }.items()
    },
    **{
        f"significance.{function.__name__}": refusing(
            function,
            {"first": A, "second": B} | more,
            second=[None, B[:5], B * np.nan, B * np.inf, np.full(8, "a"), np.ones((8, 2)), RAGGED],
            **{argument: [*SHARES[:5], 0.0] for argument in more if argument != "rope"},
        )
        for function, more in (
            (s.paired_t, {"confidence": 0.95}),
            (s.corrected_t, {"confidence": 0.95, "test_train_ratio": 0.25}),
            (s.wilcoxon, {}),
            (s.bayesian_correlated_t, {"test_train_ratio": 0.25, "rope": 0.01}),
        )
    },
    **{
        f"significance.{function.__name__}": refusing(
            function,
            {"scores": TABLE},
            scores=[*NO_TABLES, *([] if function is s.rank_table else [TABLE[["a"]], TABLE[:1]])],
            greater_is_better=[None, *FLAGS],
        )
        for function in (s.friedman, s.nemenyi, s.rank_table)
    },
    "critical_difference": refusing(
        s.critical_difference,
        {"n_models": 3, "n_datasets": 10},
        n_models=[1, None, *COUNTS],
        n_datasets=[None, *COUNTS],
        alpha=[*SHARES, 0.0, 1.0],
    ),
    "holm": refusing(s.holm, p_values=[None, "a", [-0.1], [1.1], ["a"], [[0.5]], [1j]]),
    # ------------------------------------------------------------------------------------------------- kernels
    **{
        f"{cls.__name__} as a kernel": refusing(kernel(cls, **needed), **wrong)
        for cls, needed, wrong in (
            (Gaussian, {}, {"width": SCALES, "gamma": SCALES}),
            (Laplacian, {}, {"width": SCALES, "gamma": SCALES}),
            (
                Polynomial,
                {},
                {"degree": ["2", None, True, 0, 1.5, 2.0, 10**400], "offset": ["1", None, np.inf, 1j, 1e200]},
            ),
            (
                FromDistance,
                {},
                {
                    "distance": ["nonsense", None, 1.5, np.ones((2, 3)), -np.eye(3), RAGGED, {}],
                    "scale": ["mean", None, *SCALES],
                },
            ),
            (Gate, {"columns": 2}, {"width": SCALES, "gamma": SCALES, "relative_width": SCALES}),
            (
                Product,
                {"left": Linear(), "right": Linear()},
                {key: ["rbf", 2.0, RBF()] for key in ("left", "right")},
            ),
        )
    },
    "columns of a gate": refusing(
        lambda columns: KernelBank(Gaussian() * Gate(columns)).fit(X),
        columns=[
            *(
                None,
                True,
                "hour",
                3,
                -4,
                1.0,
                1j,
                10**400,
                [],
                [0, 0],
                [0, -3],
                [0.5],
                [True, False],
                [[0, 1]],
            ),
            *({}, {0}, slice("a", "b"), slice(5, 9), object, np.eye(3), Gaussian()),
        ],
    ),
    "KernelBank": refusing(
        fitted_bank,
        kernels=[
            *(
                None,
                1,
                True,
                "nonsense",
                [],
                [None],
                [[Gaussian()]],
                {},
                Gaussian,
                [Gaussian],
                np.eye(3),
                THING,
            ),
            *({"a": Gaussian()}, {"all": None}, {"all": []}, {"all": Gaussian(), "each": Gaussian()}),
            *(KernelBank(), Gate(2), [Gaussian(), Gate(0) * Gate(1)]),
        ],
        views=[
            *(None, 1, True, "none", [], [0, 1], {}, {1: [0], "1": [1]}),
            *(
                {"a": columns}
                for columns in ([], [3], [-4], "radius", [0.5], [True], [True, False], None, {})
            ),
            *({"a": columns} for columns in ([[0, 1]], slice("x0", "x1"), slice(5, 9), 1j, [False] * 3)),
        ],
        normalize=["Spherical", 1, True, ["spherical", 1], {"spherical"}, [[]], {}, {"all": "middle"}],
        missing_views=["integrate", None, 1, ["error"]],
        landmarks=["3", 0, 13, 2.5, True, np.ones((2, 2)), np.full((2, 3), np.nan), RAGGED, {}],
        landmark_selection=["k-means", None, 1, ["kmeans"]],
        random_state=SEEDS,
    ),
    # ------------------------------------------------------------------------------------------------ datasets
    "make_corrupted": refusing(
        datasets.make_corrupted,
        corruption=["", "labels", None, 1],
        fraction=[None, np.nan, -0.1, 1.1, 1j],
        separations=[None, 1.0, [], ["a"], [np.nan], [-1.0], [[1.0]], {}, [1e200]],
        **SIZES,
    ),
    "make_localized": refusing(
        datasets.make_localized,
        design=["", None, 1, ["hours"]],
        noise=["0.1", np.inf, -0.1, 1j, 1e200],
        **SIZES,
    ),
    "make_multiview": refusing(
        datasets.make_multiview,
        kernel_weights=[None, 1.0, [], ["a"], [np.nan], [0.0, 0.0], [[1.0]], {}, [1e200]],
        n_features=[None, "2", 0, 1.5, [1, 2], [1, 1, 1, 0], ["a"] * 4, [], {}],
        task=["Classification", None, 1],
        noise=["0.1", np.inf, -0.1],
        intercept=["0", True, np.nan, [0.0]],
        **SIZES,
    ),
    "make_pathways": refusing(
        datasets.make_pathways,
        n_active=["5", -1, 201, 5.0],
        max_size=[0, 9, 2001, 100.0],
        task=["Regression", None, 1],
        **SIZES,
        **{key: [None, *COUNTS] for key in ("n_sets", "n_genes", "min_size", "block_size")},
        **{key: ["0.4", None, np.nan, -0.1, 1.1] for key in ("correlation", "coherence", "signal")},
    ),
    "make_waveform": refusing(datasets.make_waveform, binary=[None, *FLAGS], **SIZES),
    "make_ringnorm": refusing(datasets.make_ringnorm, **SIZES),
    "make_twonorm": refusing(datasets.make_twonorm, **SIZES),
    **{
        name: refusing(getattr(datasets, name), **{key: [None, *FLAGS] for key in ("return_X_y", "as_frame")})
        for name in datasets.__all__
        if name in ("load_diabetes", "load_digits_views", "load_gbsg2", "load_iris", "load_lung", "load_wdbc")
    },
    "read_gene_sets": refusing(
        datasets.read_gene_sets,
        {"path": "sets.gmt", "columns": ["TP53", "ATM", "age"], "min_size": 1},
        path=[None, 1.5, b"sets.gmt", ["sets.gmt"], "", ".", "none.gmt", "noise", "empty"],
        columns=[
            *(None, 3, "TP53", b"TP53", [], {"TP53"}, iter(["TP53"]), ["TP53", "TP53"], ["TP53", np.nan]),
            *(
                np.array([["TP53"]]),
                np.ones(2),
                range(3),
                pd.DataFrame,
                pd.DataFrame([[1.0]]),
                ["tp53"],
                THING,
            ),
        ],
        min_size=[None, *COUNTS],
        max_size=[0, 20.5, "9"],
    ),
    "load_kernels": refusing(
        datasets.load_kernels,
        {"folder": "."},
        folder=[None, 3, THING, "nowhere", "kernels.npy"],
        content=[None, "features", ["kernels"]],
        return_X_y=[None, "yes"],
    ),
    "open_rows": refusing(
        lambda **given: datasets.open_rows(**given)[:],
        {"path": np.arange(24.0).reshape(8, 3)},
        path=[None, 1.5, b"x.npy", "", ".", "none.npy", "none.parquet", "sets.gmt", RAGGED],
        columns=[[], [3], [-4], "a", [0.5], [True], 1.5, {}, [None], [[0]]],
    ),
    "blocks of rows": refusing(lambda **given: list(datasets.open_rows(X).blocks(**given)), size=COUNTS),
    "samples of rows": refusing(lambda **given: datasets.open_rows(X).sample(**given), n_rows=COUNTS),
}
# Where a message does not put the argument between backticks, since it is that of scikit-learn, names an entry of the
# argument, or the argument has another name for users.
LOOSE = {
    "X",
    "y",
    "kernels",
    "columns",
    "labels",
    "y_true",
    "y_prob",
    "folder",
    "models",
    "cv",
    "std",
    "mean",
}


@pytest.mark.parametrize("what", CALLS)
def test_wrong_arguments_are_refused_by_name(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "sets.gmt": b"REPAIR\tabout\tTP53\tATM\n",
        "noise": np.random.default_rng(0).bytes(500),
        "empty": b"",
    }
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    np.save("kernels.npy", np.eye(3)[None])
    np.save("labels.npy", np.array([0, 1, 1]))
    before = sorted(tmp_path.iterdir())
    call, right, wrong = CALLS[what]
    each_refused(
        (
            (
                f"{argument}={str(value)[:40]!r}",
                lambda argument=argument, value=value: call(**right | {argument: value}),
                argument if argument in LOOSE else f"`{argument}",
            )
            for argument, values in wrong.items()
            for value in values
        ),
        kinds=ANY,
    )
    assert sorted(tmp_path.iterdir()) == before, "a call that was refused left a file"


# ------------------------------------------------------------------------------------- models without a posterior

OF_ONE = (
    "to_datatree diagnose kernel_table view_table sample_posterior relevance refine_posterior inclusion_table "
    "plot_elbo plot_kernel_weights"
)
OF_A_MODEL = {
    **{name: getattr(p, name) for name in OF_ONE.split()},
    "save_posterior": lambda model: p.save_posterior(model, "never-written.nc"),
    "compare_loo": lambda model: p.compare_loo({"a": model, "b": model}),
}
STRANGERS = [None, 1.0, "model", BEMKLClassifier, make_pipeline(StandardScaler(), SVC())]


@pytest.mark.parametrize("function", OF_A_MODEL)
def test_functions_of_posteriors_refuse_what_has_none(function):
    call = OF_A_MODEL[function]
    for stranger in (*STRANGERS, model("machine")):
        assert_refused(lambda stranger=stranger: call(stranger), "model")
    for unfitted in (BEMKLClassifier(), make_pipeline(StandardScaler(), BEMKLClassifier())):
        assert_refused(lambda unfitted=unfitted: call(unfitted), "fit", kinds=NotFittedError)
    if function not in ("kernel_table", "plot_elbo", "plot_kernel_weights"):
        assert_refused(lambda: call(model("tasks")), "multitask")


def test_models_without_gates_are_refused():
    for stranger in STRANGERS[:-1]:
        assert_refused(lambda stranger=stranger: d.plot_gates(stranger), "model")
        assert_refused(lambda stranger=stranger: d.plot_decision(stranger, X, LABELS), "model")


def test_models_of_different_samples_do_not_compare():
    shorter, other = (BEMKLClassifier(BANK, max_iter=20) for _ in range(2))
    quietly(lambda: (shorter.fit(X[:8], LABELS[:8]), other.fit(X, 1 - LABELS)), UserWarning, UserWarning)
    for different in (shorter, other, model("regressor"), model("classes")):
        assert_refused(lambda d=different: p.compare_loo({"a": model("classifier"), "b": d}), "model")
    for given in (None, 1, "ab", {}, [], [1], {"a": None}, {"a": SVC()}, {1: None}):
        assert_refused(lambda given=given: p.compare_loo(given), "model")


@pytest.mark.parametrize(
    ("X_test", "y_test", "name"),
    [(X, None, "y_test"), (None, LABELS, "X_test"), (X, SHORT, "y_test"), (NONE, SHORT, "X")],
)
def test_diagnose_names_what_is_wrong_with_new_data(X_test, y_test, name):
    assert_refused(lambda: p.diagnose(model("classifier"), X_test, y_test), name)


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
    "one argument": lambda X: X @ X.T,
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
        ("init", lambda *_: "a"),
        ("init", lambda features, n, rng: np.full((n, 4), np.nan)),
        ("gates", lambda *_: None),
        ("gates", lambda p, f: np.full((2, len(f)), 2.0)),
        ("gates", lambda p, f: np.full((len(f), 2), 0.5)),
        ("pullback", lambda *_: None),
        ("pullback", lambda p, f, s: np.zeros_like(p)),
        ("pullback", lambda p, f, s: np.full_like(p, np.nan)),
    ],
)
def test_gatings_of_users_that_are_wrong_are_refused_by_the_part(part, change):
    whole = d.SoftmaxGating()
    odd = SimpleNamespace(
        **{name: getattr(whole, name) for name in ("init", "gates", "pullback")} | {part: change}
    )
    assert_refused(lambda: d.check_gating(odd, X, 2, np.random.default_rng(0)), f"gating.{part}")
    assert_refused(lambda: d.LMKLClassifier(BANK, gating=odd, max_iter=2).fit(X, LABELS), f"gating.{part}")


def test_a_width_and_a_gamma_contradict_each_other():
    for cls in (Gaussian, Laplacian):
        assert_refused(lambda cls=cls: cls(width=1.0, gamma=1.0)(X, X), "`width`", "`gamma`")


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
