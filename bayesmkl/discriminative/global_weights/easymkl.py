r"""EasyMKL: kernel weights from one game between the classes (Aiolli and Donini 2015).

With kernels :math:`\hat K_m` scaled to a mean diagonal of one, their mean :math:`\bar K`, labels :math:`Y =
\operatorname{diag}(y)` and distributions over either class, :math:`\Gamma = \{g \ge 0, \sum_{y_i=+1} g_i = 1,
\sum_{y_i=-1} g_i = 1\}`:

.. math:: g^\star = \arg\min_{g \in \Gamma} \; (1-\lambda)\, g^\top Y \bar K Y g + \lambda \|g\|^2, \qquad
   \eta_m \propto {g^\star}^\top Y \hat K_m Y g^\star .

The objective is the squared distance of two points, one in the hull of each class; the weights are what each kernel
contributes to it. A classifier follows on :math:`\sum_m \eta_m \hat K_m`: an SVM, or the game again (KOMD; Aiolli, Da
San Martino and Sperduti 2008), whose threshold lies halfway between the two points.

Departures: the mean of the kernels instead of their sum, so that :math:`\lambda` does not depend on their number;
weights that sum to one instead of having length one. The game is solved by FISTA (Beck and Teboulle 2009) with two
simplex projections and restarts (O'Donoghue and Candès 2015), until the Frank-Wolfe gap certifies the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl.discriminative.global_weights.two_stage import Selection, shares, train_selected
from bayesmkl.discriminative.inner import InnerProblem, InnerSolution
from bayesmkl.discriminative.outer import MKLResult
from bayesmkl.kernels.stacks.base import StoredStack

# The distance of overlapping hulls is zero; then the gap is compared with this share of the value at the start.
NEGLIGIBLE = 1e-3


class EasyMKLOptions(NamedTuple):
    r"""Regularization of the game, and stopping rule.

    Parameters
    ----------
    reg : float
        :math:`\lambda` between 0 (points of the hulls that are nearest) and 1 (the means of the classes).
    tol : float
        Largest gap, relative to the objective; also of the final classifier.
    max_iter : int
    """

    reg: float = 0.1
    tol: float = 1e-3
    max_iter: int = 5000


class Game(NamedTuple):
    """Solution of one game.

    Parameters
    ----------
    distribution : ndarray of shape (n_samples,)
        :math:`g`, which sums to one over each class.
    history : tuple of float
        Values of the objective.
    gap : float
        Bound of the distance from the minimum.
    outcome : Outcome
    """

    distribution: np.ndarray
    history: tuple[float, ...]
    gap: float
    outcome: Outcome


def fit_easymkl(
    stack: StoredStack,
    targets: np.ndarray,
    inner: InnerProblem,
    options: EasyMKLOptions,
    on_step: Callable[[int, str], None] | None = None,
) -> MKLResult:
    """Solve the game of every task, weight the kernels, train one classifier per task.

    Parameters
    ----------
    stack : StoredStack
        Training kernels.
    targets : ndarray of shape (n_tasks, n_samples)
        Labels -1 and +1.
    inner : InnerProblem
        The final classifier: `Hinge` or `KOMD`.
    options : EasyMKLOptions
    on_step : callable, optional
        Called with the number of iterations done and a word about them.
    """
    traces = stack.diagonal().mean(axis=1)
    inverse = np.divide(1.0, traces, out=np.zeros_like(traces), where=traces > 0.0)
    mean_kernel = stack.combine(inverse / max(1, np.count_nonzero(inverse)))
    games = [play(mean_kernel, target, options, on_step) for target in targets]
    duals = np.stack([target * game.distribution for target, game in zip(targets, games, strict=True)])
    margins = inverse * np.sum([stack.quadratic(dual) for dual in duals], axis=0)
    return train_selected(stack, targets, inner, options.tol, _selection(shares(margins) * inverse, games))


def _selection(kernel_weights: np.ndarray, games: list[Game]) -> Selection:
    """Add up the games of the tasks that share weights; one that ended early keeps its value."""
    columns = zip_longest(*(game.history for game in games))
    last = [game.history[-1] for game in games]
    history = [
        sum(end if value is None else value for value, end in zip(column, last, strict=True))
        for column in columns
    ]
    unfinished = [game.outcome for game in games if not game.outcome.converged]
    return Selection(
        kernel_weights,
        tuple(history),
        sum(game.gap for game in games),
        unfinished[0] if unfinished else Outcome.CONVERGED,
    )


def play(
    kernel: np.ndarray,
    target: np.ndarray,
    options: EasyMKLOptions,
    on_step: Callable[[int, str], None] | None = None,
) -> Game:
    """Find the distributions over the two classes whose means are nearest.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
        With a mean diagonal of about one.
    target : ndarray of shape (n_samples,)
        Labels -1 and +1.
    options : EasyMKLOptions
    on_step : callable, optional
    """
    hessian = (1.0 - options.reg) * (target[:, None] * kernel * target)
    hessian[np.diag_indices_from(hessian)] += options.reg
    classes = (np.flatnonzero(target > 0.0), np.flatnonzero(target < 0.0))
    step = 1.0 / max(float(np.abs(hessian).sum(axis=1).max()), np.finfo(np.float64).tiny)
    point = _project(np.zeros(len(target)), classes)
    image = hessian @ point
    history = [float(point @ image)]
    ahead, ahead_image, momentum = point, image, 1.0
    outcome = Outcome.MAX_ITER
    for n_done in range(1, options.max_iter + 1):
        gap = _frank_wolfe_gap(point, image, classes)
        if gap <= options.tol * max(history[-1], NEGLIGIBLE * history[0]):
            outcome = Outcome.CONVERGED
            break
        new = _project(ahead - step * ahead_image, classes)
        new_image = hessian @ new
        value = float(new @ new_image)
        if value > history[-1] and momentum > 1.0:  # momentum led astray: a plain step next
            ahead, ahead_image, momentum = point, image, 1.0
            continue
        next_momentum = 0.5 + np.sqrt(0.25 + momentum**2)
        push = (momentum - 1.0) / next_momentum
        ahead, ahead_image = new + push * (new - point), new_image + push * (new_image - image)
        point, image, momentum = new, new_image, next_momentum
        history.append(value)
        if on_step is not None:
            on_step(n_done, f"objective {value:.6g}")
    return Game(point, tuple(history), _frank_wolfe_gap(point, image, classes), outcome)


class KOMD(NamedTuple):
    r"""The game as a classifier: scores :math:`K Y g` with the threshold halfway between the classes.

    Parameters
    ----------
    reg : float
        :math:`\lambda` of the game.
    max_iter : int
    """

    reg: float
    max_iter: int = 5000

    def solve(self, kernel: np.ndarray, target: np.ndarray, tol: float) -> InnerSolution:
        """Solve for labels -1 and +1; `tol` bounds the relative gap."""
        game = play(kernel, target, EasyMKLOptions(self.reg, tol, self.max_iter))
        signed_dual = target * game.distribution
        scores = kernel @ signed_dual
        intercept = -0.5 * float(game.distribution @ scores)  # mean of the two classes' mean scores
        return InnerSolution(signed_dual, intercept, game.history[-1] - game.gap, game.gap)


def _project(point: np.ndarray, classes: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Project each class onto its simplex."""
    projection = np.empty_like(point)
    for members in classes:
        projection[members] = project_simplex(point[members])
    return projection


def _frank_wolfe_gap(point: np.ndarray, image: np.ndarray, classes: tuple[np.ndarray, np.ndarray]) -> float:
    """Bound the distance from the minimum, for half the gradient `image`."""
    return 2.0 * float(point @ image - sum(image[members].min() for members in classes))
