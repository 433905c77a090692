"""Graphs as counts of the neighborhoods of their nodes, through NetworkX."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.extras import require
from bayesmkl._utils.validation import check_integer, shown
from bayesmkl.kernels.one_column import ONE_COLUMN, OneColumn, column_of, refused_row

__all__ = ["WeisfeilerLehman"]

GRAPHS = "graphs of NetworkX"
NETWORKX = "networkx", "networkx", "counts of neighborhoods", "graphs"
MOST_NODES, MOST_EDGES = 100_000, 1_000_000  # of one graph
LABEL = "bayesmkl"  # attribute of the copy of a graph


@fill_docs(ONE_COLUMN)
class WeisfeilerLehman(OneColumn):
    r"""Count the neighborhoods of nodes: the features of the Weisfeiler-Lehman subtree kernel, by NetworkX.

    Nodes begin with their labels. In each iteration the label of a node becomes that of its own label together with
    those of its neighbors; all labels of all iterations are counted [1]_. The linear kernel on the counts is the
    subtree kernel. Labels are hashed into columns, so that graphs with neighborhoods that no training graph has are
    counted, too. Counts are sparse: :class:`Linear`, :class:`Cosine`, :class:`Tanimoto` and :class:`Gaussian` compare
    them as they are. NetworkX is not among the requirements: ``pip install "bayesmkl[graphs]"``.

    Parameters
    ----------
    n_iterations : int, default=3
        Largest distance to which a neighborhood reaches.
    node_label, edge_label : str, default=None
        Attributes of nodes and edges, such as "element" of atoms. None is the number of neighbors of a node, and no
        label of edges.
    n_features : int, default=65536
        Columns.

    Attributes
    ----------
    hashes_ : str
        Labels of a small graph: models in files are refused where NetworkX finds others.
    n_features_in_ : int
        One.

    Raises
    ------
    ImportError
        If NetworkX is not installed.
    ValueError
        For a row that is no graph of NetworkX, is empty, has parallel edges, more than 100000 nodes or a million
        edges, or lacks a label, with its number.

    References
    ----------
    .. [1] N. Shervashidze, P. Schweitzer, E. J. van Leeuwen, K. Mehlhorn, K. M. Borgwardt (2011), Weisfeiler-Lehman
       graph kernels, Journal of Machine Learning Research 12.

    Examples
    --------
    A path and a star of four nodes have three edges each, and no neighborhood of distance one in common.

    >>> import networkx
    >>> from bayesmkl.kernels import WeisfeilerLehman
    >>> graphs = [networkx.path_graph(4), networkx.star_graph(3)]
    >>> counts = WeisfeilerLehman(n_iterations=1).fit_transform(graphs)
    >>> (counts @ counts.T).toarray()
    array([[16.,  6.],
           [ 6., 20.]])
    """

    def __init__(
        self,
        n_iterations: int = 3,
        node_label: str | None = None,
        edge_label: str | None = None,
        n_features: int = 65536,
    ) -> None:
        self.n_iterations = n_iterations
        self.node_label = node_label
        self.edge_label = edge_label
        self.n_features = n_features

    def fit(self, X: Any, y: Any = None) -> WeisfeilerLehman:
        """Check parameters and graphs.

        Parameters
        ----------
        %(X)s
        %(y)s

        Returns
        -------
        self : WeisfeilerLehman
            The transformer.

        Raises
        ------
        ImportError
            If NetworkX is not installed.
        ValueError
            For parameters that are none, and rows that are no graphs.
        """
        check_integer("n_iterations", self.n_iterations, low=1)
        check_integer("n_features", self.n_features, low=1)
        for name in ("node_label", "edge_label"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ValueError(f"`{name}` must be the name of an attribute, or None; got {shown(value)}.")
        self._labelled(X)
        self.hashes_ = self._hashes_of_small_graph()
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> sparse.csr_array:
        """Count neighborhoods.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        counts : csr_array of shape (n_samples, n_features)
            Nodes of each neighborhood.

        Raises
        ------
        ImportError
            If NetworkX is not installed.
        ValueError
            For rows that are no graphs, and where this version of NetworkX has other labels than that of `fit`.
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        graphs = self._labelled(X)
        if self._hashes_of_small_graph() != self.hashes_:
            raise ValueError(
                "`X` cannot be compared with the training graphs: this version of NetworkX gives neighborhoods other "
                "labels than the one of `fit`. Fit again, or install that version."
            )
        columns = [[int(label, 16) % self.n_features for label in self._labels(graph)] for graph in graphs]
        rows = np.repeat(np.arange(len(graphs)), [len(found) for found in columns])
        values = np.ones(len(rows)), (rows, np.concatenate(columns).astype(np.int64))
        return sparse.csr_array(values, shape=(len(graphs), self.n_features))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns.

        Parameters
        ----------
        %(input_features)s

        Returns
        -------
        names : ndarray of str of shape (n_features,)
            "neighborhood0" and so on.
        """
        return np.array([f"neighborhood{j}" for j in range(self.n_features)], dtype=object)

    def _labels(self, graph: Any) -> list[str]:
        """Return the labels of all nodes in all iterations, as hexadecimal numbers."""
        networkx = require(*NETWORKX)
        edges = LABEL if self.edge_label is not None else None
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # of versions that hash other graphs, without labels, anew
            found = networkx.weisfeiler_lehman_subgraph_hashes(
                graph, edges, LABEL, self.n_iterations, include_initial_labels=True
            )
        return [label for of_node in found.values() for label in of_node]

    def _hashes_of_small_graph(self) -> str:
        networkx = require(*NETWORKX)
        graph = networkx.path_graph(3)
        networkx.set_node_attributes(graph, "a", LABEL)
        networkx.set_edge_attributes(graph, "b", LABEL)
        return " ".join(sorted(self._labels(graph)))

    def _labelled(self, X: Any) -> list[Any]:
        """Return copies of the graphs, without anything but the labels that are asked for, as text."""
        networkx = require(*NETWORKX)
        found = []
        for row, graph in enumerate(column_of(X, GRAPHS)):
            why = _refused(graph, networkx)
            if why:
                raise refused_row(row, str(graph), why, GRAPHS)
            labelled = networkx.DiGraph() if graph.is_directed() else networkx.Graph()
            try:
                for node, attributes in graph.nodes(data=True):
                    label = graph.degree(node) if self.node_label is None else attributes[self.node_label]
                    labelled.add_node(node, **{LABEL: repr(label)})
                for one, other, attributes in graph.edges(data=True):
                    label = None if self.edge_label is None else attributes[self.edge_label]
                    labelled.add_edge(one, other, **{LABEL: repr(label)})
            except KeyError as error:
                why = f"a node or edge has no attribute {error}, which `node_label` or `edge_label` names"
                raise refused_row(row, str(graph), why, GRAPHS) from None
            found.append(labelled)
        return found


def _refused(graph: Any, networkx: Any) -> str:
    """Return why something is not even tried, or nothing."""
    if not isinstance(graph, networkx.Graph):
        return f"it is of type {type(graph).__name__}"
    if graph.is_multigraph():
        return "it has parallel edges; make one with labels of them, such as networkx.Graph(graph)"
    if not len(graph):
        return "it has no nodes"
    if len(graph) > MOST_NODES or graph.number_of_edges() > MOST_EDGES:
        return (
            f"it has {len(graph)} nodes and {graph.number_of_edges()} edges, and more than {MOST_NODES} and "
            f"{MOST_EDGES} are not read"
        )
    return ""
