"""Kernel weights from one game between the classes (EasyMKL), and the game as a classifier (KOMD)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bayesmkl._numerics.convergence import Outcome
from bayesmkl._numerics.simplex import project_simplex
from bayesmkl._utils.validation import check_number
from bayesmkl.discriminative.global_weights.two_stage import Selection, shares, train_selected
from bayesmkl.discriminative.problems import InnerProblem, InnerSolution, MKLResult, silent
from bayesmkl.discriminative.weights import OnStep, Start, Training, WeightRule, one_of

# The distance of overlapping hulls is zero; then the gap is compared with this share of the value at the start.
NEGLIGIBLE = 1e-3


def _check_reg(name: str, reg: Any) -> float:
    value = check_number(name, reg, low=0.0, inclusive=True)
    if value > 1.0:
        raise ValueError(
            f"`{name}` must lie between 0 and 1; got {reg!r}. 1 compares the means of the classes."
        )
    return value


@dataclass(eq=False, repr=False)
class Easy(WeightRule):
    r"""EasyMKL: kernel weights from one game between the classes (Aiolli and Donini 2015).

    With kernels :math:`\hat K_m` scaled to a mean diagonal of one, their mean :math:`\bar K`, labels :math:`Y =
    \operatorname{diag}(y)` and distributions over either class, :math:`\Gamma = \{g \ge 0, \sum_{y_i=+1} g_i = 1,
    \sum_{y_i=-1} g_i = 1\}`:

    .. math:: g^\star = \arg\min_{g \in \Gamma} \; (1-\lambda)\, g^\top Y \bar K Y g + \lambda \|g\|^2, \qquad
       \eta_m \propto {g^\star}^\top Y \hat K_m Y g^\star .

    Parameters
    ----------
    reg : float, default=0.1
        :math:`\lambda` between 0 (the nearest points of the hulls) and 1 (the means of the classes).
    final : {"svm", "komd"}, default="svm"
        The classifier on the combined kernel: an SVM, or the game above again, with the threshold
        halfway between its two points, as in the paper.
    tol : float, default=1e-3
        Largest duality gap of the game, relative to its objective; also the tolerance of LibSVM.
    max_iter : int, default=5000
        Maximum number of iterations of the game.

    Notes
    -----
    The objective is the squared distance of two points, one in the hull of each class; the weights are what each
    kernel contributes to it. A classifier follows on :math:`\sum_m \eta_m \hat K_m`: an SVM, or the game again (KOMD;
    Aiolli, Da San Martino and Sperduti 2008), whose threshold lies halfway between the two points.

    Departures: the mean of the kernels instead of their sum, so that :math:`\lambda` does not depend on their number;
    weights that sum to one instead of having length one. The game is solved by FISTA (Beck and Teboulle 2009) with
    two simplex projections and restarts (O'Donoghue and Candès 2015), until the Frank-Wolfe gap certifies the
    tolerance.

    Examples
    --------
    >>> from bayesmkl.discriminative import Easy, MKLClassifier
    >>> MKLClassifier(weights=Easy(0.5))
    MKLClassifier(weights=Easy(reg=0.5))
    """

    CHECKS: ClassVar = {"reg": _check_reg, "final": one_of("svm", "komd")}
    targets: ClassVar = ("labels",)
    counts_samples: ClassVar = False

    reg: float = 0.1
    final: str = "svm"
    tol: float = 1e-3
    max_iter: int = 5000

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> MKLResult:
        """Solve the game of every task, weight the kernels, train one classifier per task."""
        stack, final = training.stack, svm if self.final == "svm" else KOMD(self.reg, self.max_iter)
        traces = stack.diagonal().mean(axis=1)
        inverse = np.divide(1.0, traces, out=np.zeros_like(traces), where=traces > 0.0)
        mean_kernel = stack.combine(inverse / max(1, np.count_nonzero(inverse)))
        games = [play(mean_kernel, target, self, on_step) for target in targets]
        duals = np.stack([target * game.distribution for target, game in zip(targets, games, strict=True)])
        margins = inverse * np.sum([stack.quadratic(dual) for dual in duals], axis=0)
        return train_selected(stack, targets, final, self.tol, _selection(shares(margins) * inverse, games))


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
    rule: Easy,
    on_step: OnStep = silent,
) -> Game:
    """Find the distributions over the two classes whose means are nearest.

    Parameters
    ----------
    kernel : ndarray of shape (n_samples, n_samples)
        With a mean diagonal of about one.
    target : ndarray of shape (n_samples,)
        Labels -1 and +1.
    rule : Easy
    on_step : callable, optional
    """
    hessian = (1.0 - rule.reg) * (target[:, None] * kernel * target)
    hessian[np.diag_indices_from(hessian)] += rule.reg
    classes = (np.flatnonzero(target > 0.0), np.flatnonzero(target < 0.0))
    step = 1.0 / max(float(np.abs(hessian).sum(axis=1).max()), np.finfo(np.float64).tiny)
    point = _project(np.zeros(len(target)), classes)
    image = hessian @ point
    history = [float(point @ image)]
    ahead, ahead_image, momentum = point, image, 1.0
    outcome = Outcome.MAX_ITER
    for n_done in range(1, rule.max_iter + 1):
        gap = _frank_wolfe_gap(point, image, classes)
        if gap <= rule.tol * max(history[-1], NEGLIGIBLE * history[0]):
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
        game = play(kernel, target, Easy(self.reg, tol=tol, max_iter=self.max_iter))
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
