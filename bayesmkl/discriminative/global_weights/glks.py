r"""GLKS-SSL: labels spread over a convex combination of graphs (Argyriou, Herbster & Pontil 2005).

Each graph has a Laplacian :math:`L_m` over all samples, labeled or not. Its pseudo-inverse is the reproducing kernel
of functions on the graph with the norm :math:`g^\top L_m g`, the sum of squared differences over edges. Least squares
on the labeled samples learn the combination:

.. math:: \min_{d \in \Delta} \min_f \; \sum_{i \le l} (f_i - y_i)^2 + \gamma f^\top K(d)^+ f, \qquad
   K(d) = \sum_m d_m (L_m^+ + c\, B_m) .

Given `d`, the minimum is :math:`\gamma\, y^\top a` at :math:`a = (K(d)_{ll} + \gamma I)^{-1} y`, and
:math:`f = K(d)_{\cdot l}\, a` are the scores of all samples. With :math:`S_m = a^\top (K_m)_{ll}\, a` the derivative
in :math:`d_m` is :math:`-\gamma S_m`; the minimum is convex in `d`, and its duality gap is
:math:`\gamma (\max_m S_m - d^\top S)`.

Departures: functions of :math:`L_m^+` have mean zero on every connected component, as if both classes were of one
size there. The term :math:`c\, B_m`, where :math:`B_m` is one for pairs within one component and zero for others,
adds the means with penalty (mean)²/c. The weights follow spectral projected gradients.
Several classes share them, one-versus-rest. The method knows the samples of its graphs only: it labels these
(transduction) and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bayesmkl._estimator.base import check_targets
from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.linalg import spd_inverse
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl._numerics.spectral_gradient import SPGOptions, minimize_spg
from bayesmkl._utils.given import as_array
from bayesmkl._utils.typing import Label, Targets
from bayesmkl._utils.validation import check_integer, check_label, check_number, check_scale
from bayesmkl.discriminative.graph import check_laplacian
from bayesmkl.discriminative.problems import InnerSolution, WeightedFit, fit_at, outer_gap
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes.labels import LabelSplit, split_labels


class GLKSResult(NamedTuple):
    """Labels of all samples, with scores and weights of the graphs.

    Parameters
    ----------
    transduction : ndarray of shape (n_samples,)
        Given labels where there are some, predicted ones elsewhere.
    scores : ndarray of shape (n_samples,), or (n_samples, n_classes) for more than two classes
        Positive for ``classes[1]`` in the binary case.
    kernel_weights : ndarray of shape (n_graphs,)
        Weights of the graphs, at least zero and of sum one.
    classes : ndarray of shape (n_classes,)
        The labels, sorted.
    objective : float
        Minimum that was reached, summed over classes where there are more than two.
    duality_gap : float
        At least the distance of `objective` to the optimum.
    objective_history : ndarray of shape (n_iter,)
        The objective at the start and after every step of the weights.
    outcome : Outcome
        Stopping reason of the optimization of the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative import glks_transduce, knn_laplacian
    >>> x = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> result = glks_transduce([knn_laplacian(x, 1)], [0, -1, -1, 1], constant=1.0)
    >>> result.classes, result.transduction, result.kernel_weights
    (array([0, 1]), array([0, 0, 1, 1]), array([1.]))
    """

    transduction: np.ndarray
    scores: np.ndarray
    kernel_weights: np.ndarray
    classes: np.ndarray
    objective: float
    duality_gap: float
    objective_history: np.ndarray
    outcome: Outcome


class LeastSquares(NamedTuple):
    r"""Least squares without intercept: :math:`\tfrac12 \|w\|^2 + \tfrac1{2\gamma} \sum_i (f_i - y_i)^2`."""

    gamma: float

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve in closed form; `tol` is met up to rounding."""
        system = kernel + self.gamma * np.eye(len(kernel))
        signed_dual = scipy.linalg.cho_solve(scipy.linalg.cho_factor(system, lower=True), target)
        return InnerSolution(signed_dual, 0.0, 0.5 * float(target @ signed_dual), 0.0)


def glks_transduce(
    laplacians: Sequence[ArrayLike | sparse.sparray | sparse.spmatrix],
    y: Targets,
    *,
    unlabeled_label: Label | None = -1,
    gamma: float = 1e-3,
    constant: float = 0.0,
    tol: float = 1e-3,
    max_iter: int = 200,
) -> GLKSResult:
    r"""Label samples through a convex combination of graphs.

    .. math:: \min_{d \in \Delta} \min_f \; \sum_{i \le l} (f_i - y_i)^2 + \gamma f^\top K(d)^+ f, \qquad
       K(d) = \sum_m d_m (L_m^+ + c\, B_m)

    Parameters
    ----------
    laplacians : sequence of array-like or sparse matrix of shape (n_samples, n_samples)
        Laplacians of graphs over all samples, such as :func:`knn_laplacian` gives for several numbers of neighbors or
        several distances; or one array of shape (n_graphs, n_samples, n_samples).
    y : array-like of shape (n_samples,)
        Labels of at least two classes, and `unlabeled_label` for samples without.
    unlabeled_label : label, default=-1
        Mark of unlabeled samples. If -1 is one of the classes, choose another mark.
    gamma : float, default=1e-3
        Regularization :math:`\gamma > 0`.
    constant : float, default=0.0
        :math:`c \ge 0`: how freely the mean of the scores moves on each connected component. With 0, as in the
        paper, it is zero: right for classes of similar sizes in connected graphs. Components with labels of one
        class need more than 0, which however makes graphs of many small components attractive.
    tol : float, default=1e-3
        Stop when the duality gap is at most this share of the objective.
    max_iter : int, default=200
        Maximum number of updates of the weights.

    Returns
    -------
    GLKSResult
        Labels, scores, weights of the graphs (on the simplex), objective and duality gap; `outcome` says how the
        search for the weights ended.

    Raises
    ------
    ValueError
        For invalid parameters, matrices that are no Laplacians, or fewer than two labels.
    TypeError
        If `y` is a sparse matrix, or a Laplacian holds other objects than numbers.

    See Also
    --------
    LapMKLClassifier : Learns kernels and one graph, and labels new samples too.

    Notes
    -----
    One Cholesky factorization per graph, :math:`O(n^3)`, then steps over the labeled samples alone,
    :math:`O(M l^2 + l^3)`. Graphs with few edges have large pseudo-inverses and are preferred on the simplex, where
    all kernels cost the same; scale the Laplacians to weigh them otherwise.

    References
    ----------
    .. [1] A. Argyriou, M. Herbster and M. Pontil (2005), Combining graph Laplacians for semi-supervised learning,
       NIPS.
    .. [2] M. Herbster and M. Pontil (2006), Prediction on a graph with a perceptron, NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative import glks_transduce, knn_laplacian
    >>> x = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3])[:, None]
    >>> y = np.array([0, -1, -1, -1, -1, -1, -1, 1])
    >>> graphs = [knn_laplacian(x, k) for k in (2, 5)]
    >>> result = glks_transduce(graphs, y, constant=1.0)  # the first graph separates the classes
    >>> result.transduction
    array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> result.outcome.converged
    True
    """
    gamma, max_iter = check_scale("gamma", gamma), check_integer("max_iter", max_iter, low=1)
    tol = check_number("tol", tol, low=0.0, inclusive=True)
    constant = check_number("constant", constant, low=0.0, inclusive=True)
    check_label("unlabeled_label", unlabeled_label)
    y = check_targets(y, len(as_array("y", y)), "GLKS", mark=unlabeled_label)
    split = split_labels(y, unlabeled_label)
    return _fit(_graph_kernels(laplacians, len(split.labels), constant), split, gamma, tol, max_iter)


def _fit(stack: Stack, split: LabelSplit, gamma: float, tol: float, max_iter: int) -> GLKSResult:
    """Learn the weights of graph kernels, (n_graphs, n_samples, n_samples), and the scores of all samples."""
    columns = np.ascontiguousarray(stack.columns(split.labeled))  # of labeled samples, rows of all
    labeled = DenseStack(np.ascontiguousarray(columns[:, split.labeled]))
    inner = LeastSquares(gamma)

    def evaluate(kernel_weights: np.ndarray) -> tuple[float, np.ndarray, WeightedFit]:
        fit = fit_at(labeled, split.targets, inner, kernel_weights, tol)
        return fit.objective / scale, -0.5 * fit.quadratics / scale, fit

    start = np.full(stack.n_kernels, 1.0 / stack.n_kernels)
    scale = fit_at(labeled, split.targets, inner, start, tol).objective  # steps are relative to it
    found = minimize_spg(
        evaluate,
        project_simplex,
        start,
        SPGOptions(max_iter, tol=0.0),
        finished=lambda fit: outer_gap(fit, 1.0) <= tol * fit.objective,
    )
    best: WeightedFit = found.payload
    dual = np.stack([solution.signed_dual for solution in best.solutions])
    scores = DenseStack(columns).combine(best.kernel_weights) @ dual.T
    unit = 2.0 * gamma  # of the printed objective, in the standard form's
    return GLKSResult(
        transduction=split.transduce(scores),
        scores=scores[:, 0] if len(dual) == 1 else scores,
        kernel_weights=best.kernel_weights,
        classes=split.classes,
        objective=unit * best.objective,
        duality_gap=unit * outer_gap(best, 1.0),
        objective_history=unit * scale * np.array(found.history),
        outcome=found.outcome,
    )


def graph_kernel(laplacian: np.ndarray | sparse.sparray, constant: float = 0.0) -> np.ndarray:
    r"""Return the kernel :math:`L^+ + c B` of functions on a graph.

    Parameters
    ----------
    laplacian : ndarray or sparse array of shape (n_samples, n_samples)
        Of a graph without negative weights.
    constant : float, default=0.0
        :math:`c`; `B` is 1 for pairs within one connected component.

    Returns
    -------
    ndarray of shape (n_samples, n_samples)

    Examples
    --------
    >>> import numpy as np
    >>> graph_kernel(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    dense = laplacian if isinstance(laplacian, np.ndarray) else laplacian.toarray()
    component = connected_components(dense, directed=False)[1]
    together = component[:, None] == component
    # the null space holds the indicators of components: L + P is invertible, and L^+ = (L + P)^-1 - P
    projector = together / together.sum(axis=1)
    scale = max(float(dense.diagonal().mean()), 1.0)
    inverse, _ = spd_inverse(dense + scale * projector)
    return inverse - projector / scale + constant * together


def _graph_kernels(
    laplacians: Sequence[ArrayLike | sparse.sparray | sparse.spmatrix], n_samples: int, constant: float
) -> DenseStack:
    """Check all Laplacians and return their kernels, (n_graphs, n_samples, n_samples)."""
    if not isinstance(laplacians, (Sequence, np.ndarray)) or len(laplacians) == 0:
        raise ValueError(
            "`laplacians` must be a sequence of at least one Laplacian of shape (n_samples, n_samples); "
            f"got {type(laplacians).__name__}. Wrap a single one: [laplacian]."
        )
    kernels = np.empty((len(laplacians), n_samples, n_samples))
    for m, laplacian in enumerate(laplacians):
        checked = check_laplacian(laplacian, n_samples, f"laplacians[{m}]")
        try:
            kernels[m] = graph_kernel(checked, constant)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"`laplacians[{m}]` does not penalize some functions that vary within a connected component, "
                "which happens with negative weights. Leave negative weights out."
            ) from error
    return DenseStack(kernels)
