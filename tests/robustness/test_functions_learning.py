"""Functions beside the estimators: folds, evidence, priors, gatings, graphs, plots of discriminative models."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from in_turn import together
from parameters import LABELS, X, fitted, thinned
from scipy import sparse
from sklearn.svm import SVC
from verdicts import assert_refused

from bayesmkl import BEMKLClassifier, KernelBank, select_by_elbo
from bayesmkl import discriminative as d
from bayesmkl.bemkl import NUTS, Dirichlet, Gamma, SpikeSlab
from bayesmkl.kernels import Gaussian, Linear

pytestmark = [pytest.mark.family("functions"), pytest.mark.heavy]

BANK = KernelBank([Gaussian(width=1), Linear()])
QUICK = BEMKLClassifier(BANK, max_iter=5, tol=0.1)
COUNTS = ["9", None, True, [9], np.nan, np.inf, 0, -1, 20.5, 200.0, 10**400, 1j]
NUMBERS = ["1", None, True, [1.0], np.nan, np.inf, -1.0, 1j]
AXES = ["ax", 1, {}, plt]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


# --------------------------------------------------------------------------------------------- folds, evidence

GRIDS = [
    1,
    "C",
    [],
    {"nonsense": [1]},
    {"kernel_prior": "sparse"},
    {"kernel_prior": []},
    {"kernel_prior": 1},
    [1],
]
EVIDENCE = {
    "estimator": [None, 1, SVC(), BEMKLClassifier, "BEMKL", BEMKLClassifier(inference="gibbs")],
    "param_grid": [None, *GRIDS, {"margin": [0.5, 1.0]}],
    "n_jobs": ["2", 0, True, 1.5, np.nan],
    "verbose": ["1", None, -1, 1.5, np.nan],
}


@together
@pytest.mark.parametrize(
    ("argument", "value"),
    thinned(pytest.param(a, v, id=f"{a}-{str(v)[:30]!r}") for a, values in EVIDENCE.items() for v in values),
)
def test_wrong_arguments_of_select_by_elbo_are_refused_by_name(argument, value):
    given = {"estimator": QUICK, "param_grid": {"kernel_prior": [Gamma(1, 1)]}, "X": X, "y": LABELS}
    assert_refused(lambda: select_by_elbo(**given | {argument: value}), argument.split("_")[-1])


@together
@pytest.mark.parametrize(
    "prior",
    [
        Dirichlet("1"),
        Dirichlet(None),
        Dirichlet(True),
        Dirichlet(0.0),
        Dirichlet(-1.0),
        Dirichlet(np.nan),
        Dirichlet(np.inf),
        Dirichlet([1.0, 1.0, 1.0]),
        Dirichlet([[1.0, 1.0]]),
        Dirichlet([1.0, -1.0]),
        Dirichlet(1j),
        Dirichlet(["a", "b"]),
        SpikeSlab(0.0),
        SpikeSlab(1.0),
        SpikeSlab("half"),
        SpikeSlab(None),
        SpikeSlab(True),
        SpikeSlab(np.nan),
        SpikeSlab([0.5] * 3),
        SpikeSlab(0.5, 0.0),
        SpikeSlab(0.5, -1.0),
        SpikeSlab(0.5, np.inf),
        SpikeSlab(0.5, "wide"),
        SpikeSlab(0.5, [1.0] * 3),
        SpikeSlab(0.5, 1e200),
    ],
    ids=str,
)
def test_priors_that_cannot_be_are_refused_before_any_draw(prior):
    model = BEMKLClassifier(BANK, inference=NUTS(n_draws=10, n_warmup=1), kernel_prior=prior)
    assert_refused(lambda: model.fit(X, LABELS), "`kernel_prior")


# ----------------------------------------------------------------------------------------------------- gatings


@together
@pytest.mark.parametrize(
    ("gating", "name"),
    [
        *((d.SoftmaxGating(value), "init_scale") for value in NUMBERS),
        *((d.SigmoidGating(value), "init_scale") for value in NUMBERS),
        *((d.GaussianGating(value), "width") for value in [*NUMBERS, 0.0]),
        *((d.GaussianGating(spread=value), "spread") for value in [*NUMBERS, 0.0, 1.5]),
        *((d.GroupGating(value), "n_groups") for value in COUNTS),
        *((d.GroupGating(2, value), "init_scale") for value in NUMBERS),
    ],
    ids=str,
)
def test_parameters_of_gatings_are_refused_by_name(gating, name):
    samples, own = (np.column_stack([X, LABELS]), [-1]) if isinstance(gating, d.GroupGating) else (X, None)
    model = d.LMKLClassifier(BANK, gating=gating, gate_columns=own, standardize=False, max_iter=2)
    assert_refused(lambda: model.fit(samples, LABELS), f"`{name}`")


class Odd:
    """A gating whose parts are exchanged one by one."""

    def __init__(self, **parts):
        whole = d.SoftmaxGating()
        for name in ("init", "gates", "pullback"):
            setattr(self, name, parts.get(name, getattr(whole, name)))


ODD = {
    "init of text": {"init": lambda *_: "a"},
    "init of NaN": {"init": lambda features, n, rng: np.full((n, 4), np.nan)},
    "init of nothing": {"init": lambda *_: None},
    "gates of nothing": {"gates": lambda *_: None},
    "gates of NaN": {"gates": lambda p, f: np.full((2, len(f)), np.nan)},
    "gates above one": {"gates": lambda p, f: np.full((2, len(f)), 2.0)},
    "gates transposed": {"gates": lambda p, f: np.full((len(f), 2), 0.5)},
    "gates of text": {"gates": lambda p, f: np.full((2, len(f)), "a")},
    "pullback of nothing": {"pullback": lambda *_: None},
    "pullback of zeros": {"pullback": lambda p, f, s: np.zeros_like(p)},
    "pullback of NaN": {"pullback": lambda p, f, s: np.full_like(p, np.nan)},
    "pullback of text": {"pullback": lambda p, f, s: np.full(p.shape, "a")},
}


@together
@pytest.mark.parametrize("what", ODD)
def test_gatings_of_users_that_are_wrong_are_refused_by_the_part(what):
    rng = np.random.default_rng(0)
    part = f"gating.{what.split()[0]}"
    assert_refused(lambda: d.check_gating(Odd(**ODD[what]), X, 2, rng), part)
    model = d.LMKLClassifier(BANK, gating=Odd(**ODD[what]), max_iter=2)
    assert_refused(lambda: model.fit(X, LABELS), part)


# ------------------------------------------------------------------------------------------------------ graphs

NO_SAMPLES = {
    "None": None,
    "one axis": X[:, 0],
    "one sample": X[:1],
    "no samples": X[:0],
    "text": np.full((4, 2), "a"),
    "NaN": np.full((4, 2), np.nan),
    "complex": X * 1j,
    "ragged": [[1.0], [1.0, 2.0]],
    "a number": 1.0,
    "sparse": sparse.csr_array(X),
}


@together
@pytest.mark.parametrize("what", NO_SAMPLES)
@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_graphs_of_what_are_no_samples_are_refused(what, metric):
    assert_refused(lambda: d.knn_laplacian(NO_SAMPLES[what], metric=metric), "X")


@together
@pytest.mark.parametrize("value", COUNTS, ids=str)
def test_neighbors_are_counted(value):
    assert_refused(lambda: d.knn_laplacian(X, value), "`n_neighbors`")


@together
@pytest.mark.parametrize("value", ["nonsense", "", None, 1, True, []], ids=range(6))
def test_metrics_of_graphs_are_known_or_functions(value):
    assert_refused(lambda: d.knn_laplacian(X, 3, metric=value), "`metric`")


GRAPH = d.knn_laplacian(X, 3)
PARTLY = np.where(np.arange(12) < 6, LABELS, -1)
GLKS = {
    "laplacians": [
        None,
        1,
        [],
        "L",
        [None],
        [np.eye(12)],
        [np.eye(5)],
        [np.full((12, 12), np.nan)],
        [np.full((12, 12), "a")],
        [GRAPH * 1j],
        np.ones((12, 12)),
        [GRAPH, np.zeros((5, 5))],
    ],
    "gamma": [*NUMBERS, 0.0, 1e200],
    "constant": NUMBERS,
    "tol": NUMBERS,
    "max_iter": COUNTS,
    "unlabeled_label": [[0, 1], {}, int],
    "y": [
        None,
        1,
        np.full(12, -1),
        np.zeros(12),
        np.full(12, np.nan),
        np.ones((12, 2)),
        np.array([None] * 12),
    ],
}


@together
@pytest.mark.parametrize(
    ("argument", "value"),
    thinned(pytest.param(a, v, id=f"{a}-{str(v)[:20]!r}") for a, values in GLKS.items() for v in values),
)
def test_wrong_arguments_of_glks_transduce_are_refused_by_name(argument, value):
    given = {"laplacians": [GRAPH, d.knn_laplacian(X, 5)], "y": PARTLY} | {argument: value}
    assert_refused(lambda: d.glks_transduce(**given), f"`{argument.removesuffix('s')}")


# ------------------------------------------------------------------------------------------------------- plots

STRANGERS = [None, 1, "model", SVC().fit(X, LABELS), d.SimpleMKLClassifier, X]


@together
@pytest.mark.parametrize("stranger", STRANGERS, ids=range(len(STRANGERS)))
@pytest.mark.parametrize(
    "plot", [lambda model: d.plot_gates(model), lambda model: d.plot_decision(model, X, LABELS)]
)
def test_models_that_have_no_gates_are_refused(plot, stranger):
    assert_refused(lambda: plot(stranger), "model")


def test_models_that_were_not_fitted_cannot_be_drawn():
    assert_refused(lambda: d.plot_gates(d.SimpleMKLClassifier()), "fit", kinds=(ValueError, AttributeError))
    assert_refused(
        lambda: d.plot_decision(d.SimpleMKLClassifier(), X, LABELS), "fit", kinds=(ValueError, AttributeError)
    )


GATES = {
    "X": [1.0, "ab", X[:, :1], np.full((3, 3), np.nan), np.full((3, 3), "a"), X[:0]],
    "ax": AXES,
    "order_by": [1.0, "ab", X[:5, 0], X, np.full(12, np.nan)],
    "label": ["a", 7, [0]],
    "gate_features": [X, 1.0],
}
DECISION = {
    "X": [1.0, "ab", X, X[:5, :2], np.full((12, 2), np.nan), np.full((12, 2), "a")],
    "y": [None, 1, LABELS[:5], np.full(12, "a"), np.ones((12, 2))],
    "ax": AXES,
    "label": ["a", 7, [0]],
    "resolution": [None, *COUNTS[:2], *COUNTS[2:], 1],
}


@pytest.mark.parametrize(
    ("argument", "value"),
    thinned(pytest.param(a, v, id=f"{a}-{str(v)[:20]!r}") for a, values in GATES.items() for v in values),
)
def test_wrong_arguments_of_plot_gates_are_refused_by_name(argument, value):
    model = fitted("SimpleMKLClassifier")
    assert_refused(lambda: d.plot_gates(model, **{argument: value}), argument)


@together
@pytest.mark.parametrize(
    ("argument", "value"),
    thinned(pytest.param(a, v, id=f"{a}-{str(v)[:20]!r}") for a, values in DECISION.items() for v in values),
)
def test_wrong_arguments_of_plot_decision_are_refused_by_name(argument, value):
    model = d.SimpleMKLClassifier(BANK, tol=0.05).fit(X[:, :2], LABELS)
    given = {"X": X[:, :2], "y": LABELS, "resolution": 5} | {argument: value}
    assert_refused(lambda: d.plot_decision(model, **given), argument)


SWITCHES = {
    "switches": [
        None,
        1,
        "ab",
        np.ones(3),
        np.ones((2, 2, 2)),
        np.ones((0, 3)),
        np.full((4, 3), 0.5),
        [["a"] * 3],
        [[1], [1, 0]],
    ],
    "active": [None, 1.0, "ab", np.ones(2), np.ones((3, 1)), [np.nan] * 3, ["a"] * 3, [1j] * 3],
    "ax": AXES,
}


@together
@pytest.mark.parametrize(
    ("argument", "value"),
    thinned(pytest.param(a, v, id=f"{a}-{str(v)[:20]!r}") for a, values in SWITCHES.items() for v in values),
)
def test_wrong_arguments_of_plot_switches_are_refused_by_name(argument, value):
    given = {"switches": np.ones((4, 3), dtype=bool), "active": np.ones(3)} | {argument: value}
    assert_refused(lambda: d.plot_switches(**given), f"`{argument}`")


@together
@pytest.mark.parametrize(
    "values", [None, 1.0, "ab", [], ["1"], [None], [-1.0], [np.nan], [True], [1e200]], ids=str
)
@pytest.mark.parametrize("name", ["SimpleMKLClassifier", "PrimalMKLRegressor"])
def test_paths_go_through_positive_numbers(name, values):
    model = fitted(name)
    parameter = "C" if name.startswith("Simple") else "reg"
    assert_refused(lambda: model.path(X, LABELS, values), f"`{parameter}_values`")
