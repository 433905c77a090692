"""Strings, graphs and time series beside what their kernels are defined as, and rows that are none."""

from __future__ import annotations

import builtins
import itertools
import math
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline

from bayesmkl import KernelBank, load_model, save_model
from bayesmkl.discriminative import UniformMKLClassifier
from bayesmkl.kernels import (
    Cosine,
    EditDistance,
    FromDistance,
    Linear,
    MismatchSpectrum,
    SeriesDistance,
    WeisfeilerLehman,
)

# Insulin: the chains of human, pig and cattle.
CHAINS = [
    "GIVEQCCTSICSLYQLENYCN",
    "GIVEQCCTSICSLYQLENYCN",
    "GIVEQCCASVCSLYQLENYCN",
    "FVNQHLCGSHLVEALYLVCGERGFFYTPKT",
    "FVNQHLCGSHLVEALYLVCGERGFFYTPKA",
    "FVNQHLCGSHLVEALYLVCGERGFFYTPKA",
]
ERRORS = [name for name in dir(builtins) if name.endswith(("Error", "Exception", "Warning"))]
FUNCTIONS = [name for name in dir(math) if not name.startswith("_") and len(name) > 2]
PULSES = [[0, 0, 1, 2, 1, 0, 0.5], [0, 1, 2, 1, 0], [1, 1, 1, 0], [0, 2, 0, 2, 0, 2, 0, 2]]


def edits(one, other):
    """Steps from one string to the other, by the recurrence of Wagner and Fischer."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, row = row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(row[-1] + 1, above[j] + 1, above[j - 1] + (letter != wanted)))
    return row[-1]


def warped(one, other, window=np.inf):
    """Distance of dynamic time warping, by its recurrence."""
    cost = np.full((len(one) + 1, len(other) + 1), np.inf)
    cost[0, 0] = 0.0
    for i, j in itertools.product(range(1, len(one) + 1), range(1, len(other) + 1)):
        if abs(i - j) <= window:
            step = np.sum((np.asarray(one[i - 1]) - other[j - 1]) ** 2)
            cost[i, j] = step + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return np.sqrt(cost[-1, -1])


def neighborhoods(graph, n_iterations, label, edge_label=None):
    """Nested labels of all nodes in all iterations, with no hash."""
    labels = {node: label(graph, node) for node in graph}
    found = Counter(labels.values())
    for _ in range(n_iterations):
        around = {
            node: tuple(
                sorted((graph.edges[node, near].get(edge_label), labels[near]) for near in graph[node])
            )
            if edge_label
            else tuple(sorted(labels[near] for near in graph[node]))
            for node in graph
        }
        labels = {node: (labels[node], around[node]) for node in graph}
        found.update(labels.values())
    return found


def inner_products(counts):
    return [[sum(n * other[key] for key, n in one.items()) for other in counts] for one in counts]


@pytest.fixture
def egos():
    """Surroundings of the people of Les Misérables, as they appear together, and of a karate club."""
    networkx = pytest.importorskip("networkx", reason="an extra")
    graphs = []
    for whole in (networkx.les_miserables_graph(), networkx.karate_club_graph()):
        whole = networkx.convert_node_labels_to_integers(whole)
        graphs += [networkx.ego_graph(whole, node) for node in range(8)]
    return graphs


@pytest.mark.parametrize(("length", "mismatches"), [(2, 0), (3, 1), (2, 1)])
def test_words_with_mismatches_are_those_of_the_definition(length, mismatches):
    letters = sorted({*"".join(CHAINS)})
    expected = np.zeros((len(CHAINS), len(letters) ** length))
    for column, word in enumerate(itertools.product(letters, repeat=length)):
        for row, chain in enumerate(CHAINS):
            windows = (chain[i : i + length] for i in range(len(chain) - length + 1))
            expected[row, column] = sum(
                sum(a != b for a, b in zip(window, word, strict=True)) <= mismatches for window in windows
            )
    spectrum = MismatchSpectrum(length, mismatches).fit(CHAINS)
    found = spectrum.transform(pd.Series(CHAINS))
    np.testing.assert_array_equal(found.toarray(), expected)
    kernel = Linear()(found, found)
    np.testing.assert_allclose(kernel, expected @ expected.T)
    assert kernel[0, 1] == kernel[0, 0]  # the same chain
    names = spectrum.get_feature_names_out()
    assert names.shape == (expected.shape[1],)
    assert names[0] == letters[0] * length


@pytest.mark.parametrize("normalized", [False, True])
def test_edit_distances_are_those_of_the_recurrence(normalized):
    pytest.importorskip("rapidfuzz", reason="an extra")
    strings = [*CHAINS, "kitten", "sitting"]
    expected = np.array([[edits(one, other) for other in strings] for one in strings], dtype=float)
    if normalized:
        expected /= [[max(len(one), len(other)) for other in strings] for one in strings]
    distance = EditDistance(normalized=normalized).fit(strings)
    np.testing.assert_allclose(distance.transform(np.array(strings)[:, None]), expected, rtol=1e-12)
    swapped = [EditDistance(metric, normalized=False).fit(["form"]).transform(["from"])[0, 0] for metric in
               ("levenshtein", "damerau-levenshtein", "indel")]  # fmt: skip
    assert swapped == [2.0, 1.0, 2.0]


@pytest.mark.parametrize("n_iterations", [1, 3])
def test_neighborhoods_are_those_of_the_definition(n_iterations, egos):
    expected = inner_products([neighborhoods(ego, n_iterations, lambda g, v: (g.degree(v),)) for ego in egos])
    counts = WeisfeilerLehman(n_iterations, n_features=2**22).fit_transform(pd.DataFrame({"ego": egos}))
    np.testing.assert_array_equal((counts @ counts.T).toarray(), expected)


def test_labels_of_nodes_and_edges_and_names_of_nodes(egos):
    networkx = pytest.importorskip("networkx")
    names = {node: f"name {node}" for node in range(100)}
    for ego in egos:
        networkx.set_node_attributes(ego, {node: "ab"[node % 2] for node in ego}, "sex")
        networkx.set_edge_attributes(ego, {edge: sum(edge) % 3 for edge in ego.edges}, "kind")
    expected = inner_products(
        [neighborhoods(ego, 2, lambda g, v: (g.nodes[v]["sex"],), "kind") for ego in egos]
    )
    transformer = WeisfeilerLehman(2, node_label="sex", edge_label="kind", n_features=2**22).fit(egos)
    counts = transformer.transform([networkx.relabel_nodes(ego, names) for ego in egos])
    np.testing.assert_array_equal((counts @ counts.T).toarray(), expected)
    path = networkx.path_graph(2)
    networkx.set_node_attributes(path, "a", "sex")
    with pytest.raises(ValueError, match=r"row 1 is .*: a node or edge has no attribute 'kind'"):
        transformer.transform([egos[0], path])


def test_another_library_finds_the_same_kernel(egos):
    grakel = pytest.importorskip("grakel", reason="not among the extras")
    for ego in egos:
        for node in ego:
            ego.nodes[node]["degree"] = ego.degree(node)
    kernel = grakel.WeisfeilerLehman(n_iter=2, base_graph_kernel=grakel.VertexHistogram)
    expected = kernel.fit_transform(list(grakel.graph_from_networkx(egos, node_labels_tag="degree")))
    counts = WeisfeilerLehman(2).fit_transform(egos)
    np.testing.assert_array_equal((counts @ counts.T).toarray(), expected)


def test_hashes_of_another_version_are_refused(egos):
    transformer = WeisfeilerLehman().fit(egos)
    transformer.hashes_ = "of another version"
    with pytest.raises(
        ValueError, match=r"gives neighborhoods other labels than the one of `fit`. Fit again"
    ):
        transformer.transform(egos)


@pytest.mark.parametrize("window", [None, 2])
def test_warped_distances_are_those_of_the_recurrence(window):
    pytest.importorskip("tslearn.metrics", reason="an extra", exc_type=ImportError)
    band = np.inf if window is None else window
    used = PULSES if window is None else PULSES[:2]  # as many times as the window bridges
    expected = [[warped(one, other, band) for other in used] for one in used]
    distance = SeriesDistance(window=window).fit(used)
    np.testing.assert_allclose(
        distance.transform(pd.Series([np.array(p) for p in used])), expected, atol=1e-12
    )
    plane = np.random.default_rng(0).normal(size=(3, 6, 2))  # two channels
    expected = [[warped(one, other, band) for other in plane] for one in plane]
    np.testing.assert_allclose(SeriesDistance(window=window).fit_transform(plane), expected, atol=1e-12)


def test_another_library_has_the_largest_difference():
    pytest.importorskip("tslearn.metrics", reason="an extra", exc_type=ImportError)
    rows = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 4.0]])
    assert SeriesDistance("frechet").fit(rows).transform(rows)[0, 1] == 2.0


def in_pipelines(transformer, kernel, column, y, tmp_path):
    """Labels of held-out samples by a view of objects and one of numbers, with a model that goes through a file."""
    X = pd.DataFrame({"object": column, "size": np.zeros(len(y)), "age": np.arange(len(y)) % 5.0})
    bank = KernelBank(
        {"object": kernel, "numbers": Linear()}, {"object": slice(0, -2), "numbers": slice(-2, None)}
    )
    encode = make_column_transformer((transformer, "object"), remainder="passthrough")
    model = make_pipeline(encode, UniformMKLClassifier(bank))
    held_out = cross_val_predict(model, X, y, cv=3)
    model.fit(X, y)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert len(model[0].get_feature_names_out()) == model[0].transform(X).shape[1]
    return (held_out == y).mean()


@pytest.mark.filterwarnings("ignore:.*dense copy")
@pytest.mark.parametrize(
    ("transformer", "kernel"),
    [
        (MismatchSpectrum(2), Cosine()),
        (MismatchSpectrum(2, mismatches=1), Cosine()),
        (EditDistance(), FromDistance("precomputed")),
    ],
    ids=["spectrum", "mismatches", "edit"],
)
def test_strings_in_pipelines(transformer, kernel, tmp_path):
    """Names of errors and of functions."""
    if isinstance(transformer, EditDistance):
        pytest.importorskip("rapidfuzz", reason="an extra")
    else:
        transformer.alphabet = "".join(sorted({*"".join(ERRORS + FUNCTIONS)}))
    strings = ERRORS + FUNCTIONS
    y = np.arange(len(strings)) < len(ERRORS)
    assert in_pipelines(transformer, kernel, strings, y, tmp_path) > 0.9


def test_graphs_in_pipelines(egos, tmp_path):
    y = np.arange(len(egos)) < 8
    assert in_pipelines(WeisfeilerLehman(1, n_features=512), Cosine(), egos, y, tmp_path) > 0.8


def test_series_in_pipelines(tmp_path):
    pytest.importorskip("tslearn.metrics", reason="an extra", exc_type=ImportError)
    from tslearn.datasets import CachedDatasets

    series, classes, _, _ = CachedDatasets().load_dataset("Trace")  # readings of a nuclear power plant
    kept = np.flatnonzero(classes <= 2)[:30]
    column = [series[i, ::5, 0] for i in kept]
    y = classes[kept] == 1
    assert in_pipelines(SeriesDistance(), FromDistance("precomputed"), column, y, tmp_path) > 0.8


STRINGS = {
    "empty": ("", "row 1 is '': it is empty"),
    "missing": (None, "row 1 is None: it is of type NoneType"),
    "not a number": (np.nan, "row 1 is nan: it is of type float"),
    "long": ("A" * 10_001, "row 1 .*: it has 10001 characters"),
}
SERIES = {
    "empty": ([], r"row 1 .*: it has the shape \(0,\)"),
    "missing": (None, "row 1 is None: it has the shape|row 1 is None: it is of type NoneType"),
    "a hole": ([0.0, np.nan], "row 1 .*: it has values that are missing or infinite"),
    "text": ("abc", "row 1 is 'abc': it is of type str, and not a list or array of numbers"),
    "channels": ([[0.0, 1.0]], "row 1 .*: it has 2 channels, and the training series have 1"),
    "long": (np.zeros(100_001), "row 1 .*: it has 100001 times"),
}


@pytest.mark.parametrize("what", STRINGS)
def test_rows_that_are_no_strings_are_named(what):
    given, message = STRINGS[what]
    for transformer in (MismatchSpectrum(2), EditDistance()):
        with pytest.raises(ValueError, match=rf"`X` must hold strings; {message}"):
            transformer.fit(np.array(["AC", given], dtype=object))


def test_letters_that_are_new_and_strings_that_are_short():
    spectrum = MismatchSpectrum(3).fit(["ACGT", "TTTT"])
    with pytest.raises(
        ValueError, match="row 0 is 'ACN': 'N' is none of the letters 'ACGT'; name all of them in `alph"
    ):
        spectrum.transform(["ACN"])
    with pytest.raises(ValueError, match="row 0 is 'AC': it has 2 letters, and words have 3"):
        spectrum.transform(["AC"])


@pytest.mark.parametrize("what", SERIES)
def test_rows_that_are_no_series_are_named(what):
    given, message = SERIES[what]
    column = pd.Series([np.zeros(2), given], dtype=object)
    with pytest.raises(ValueError, match=rf"`X` must hold time series; {message}"):
        SeriesDistance().fit(column)


def test_rows_that_are_no_graphs_are_named(monkeypatch):
    networkx = pytest.importorskip("networkx", reason="an extra")
    path = networkx.path_graph(2)
    monkeypatch.setattr("bayesmkl.kernels.graphs.MOST_NODES", 5)
    for given, message in [
        ("a-b", "row 1 is 'a-b': it is of type str"),
        (networkx.Graph(), "row 1 .*: it has no nodes"),
        (networkx.MultiGraph([(0, 1)]), "row 1 .*: it has parallel edges"),
        (
            networkx.path_graph(6),
            "row 1 .*: it has 6 nodes and 5 edges, and more than 5 and 1000000 are not read",
        ),
    ]:
        with pytest.raises(ValueError, match=rf"`X` must hold graphs of NetworkX; {message}"):
            WeisfeilerLehman().fit([path, given])


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (MismatchSpectrum(0), "`length` must be a whole number >= 1; got 0"),
        (MismatchSpectrum(2, 2), "`mismatches` must be less than `length`; got 2 and 2"),
        (
            MismatchSpectrum(2, alphabet="AA"),
            "`alphabet` must be different letters, such as \"ACGT\"; got 'AA'",
        ),
        (
            MismatchSpectrum(6, alphabet="".join(map(chr, range(65, 91)))),
            "`length` and `mismatches` must leave",
        ),
        (
            EditDistance("hamming"),
            "`metric` must be one of levenshtein, damerau-levenshtein, indel; got 'hamming'",
        ),
        (EditDistance(normalized=1), "`normalized` must be True or False; got 1"),
        (SeriesDistance("euclid"), "`metric` must be one of dtw, frechet; got 'euclid'"),
        (SeriesDistance(window=-1), "`window` must be a whole number >= 0; got -1"),
        (WeisfeilerLehman(0), "`n_iterations` must be a whole number >= 1; got 0"),
        (WeisfeilerLehman(n_features=0), "`n_features` must be a whole number >= 1; got 0"),
        (WeisfeilerLehman(node_label=3), "`node_label` must be the name of an attribute, or None; got 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_parameters_that_are_none(transformer, message):
    with pytest.raises(ValueError, match=message):
        transformer.fit(CHAINS)


def test_tables_are_no_columns():
    for transformer in (MismatchSpectrum(2), EditDistance()):
        with pytest.raises(
            ValueError, match=r"`X` must be one column of strings.* got \(2, 3\). In a ColumnTransformer"
        ):
            transformer.fit(np.array(CHAINS).reshape(2, 3))


@pytest.mark.parametrize(
    ("transformer", "module", "extra", "column"),
    [
        (EditDistance(), "rapidfuzz.distance", "strings", CHAINS),
        (WeisfeilerLehman(), "networkx", "graphs", CHAINS),
        (SeriesDistance(), "tslearn.metrics", "timeseries", PULSES),
    ],
    ids=["strings", "graphs", "timeseries"],
)
def test_the_line_that_installs_a_library(transformer, module, extra, column, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'pip install "bayesmkl\[{extra}\]"'):
        transformer.fit(column)
