r"""Class probabilities of multinomial probit BEMKL: which of several correlated scores is the largest.

With q(a_c) and q(b, e), the scores of a new sample have the means and the covariance, ĝ_cm = k_m' E[a_c],

    E[f_c]        = E[b_c] + E[e]' ĝ_c
    Cov[f_c, f_d] = δ_cd (1 + v_c) + R_cd,
    R_cd          = [1 ĝ_c]' Cov[(b_c, e), (b_d, e)] [1 ĝ_d]             what the classes have in common
    v_c           = Σ_mn E[e_m e_n] (δ_mn σ_g² + k_m' Cov[a_c] k_n)      rule "full"; 0 by rule "paper"

(see `predict`), and P(y = c) is the probability that f_c is the largest, by the margin. Were R diagonal, this would
be one integral over a single variable, `log_largest`. Of R only what it says of differences between classes matters,
M R M with M = I - 11'/C, and so R is as good as δ I + R', δ being the least eigenvalue of M R M over differences and
R' = M R M - δ M. The first part joins the variances. The second is averaged over by the cubature rule of degree three
whose points are ± sqrt(C) times the columns of the symmetric root of R'. Two classes leave nothing to the rule. With
more its error is of second order in R', which is small next to 1 + v, for all classes and samples tell about the same
kernel weights; the probabilities are positive and sum to one in any case.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayesmkl._numerics.largest_normal import log_largest
from bayesmkl.bemkl.models.absent_views import ViewMoments
from bayesmkl.bemkl.models.moments import Gaussian
from bayesmkl.bemkl.reading.predict import expected_outputs, predict_scores
from bayesmkl.kernels.stacks.base import KernelRows


class ClassScores(NamedTuple):
    """Joint distribution of the scores of all classes, without their unit noise."""

    mean: np.ndarray  # (n_classes, n_rows)
    variance: np.ndarray  # v, (n_classes, n_rows), independent between classes
    common: np.ndarray  # R, (n_rows, n_classes, n_classes)


def predict_class_scores(
    stack: KernelRows,
    duals: Gaussian,
    readout: Gaussian,
    intermediate_variance: float,
    rule: str = "full",
    moments: ViewMoments | None = None,
) -> ClassScores:
    """Return mean and covariance of the scores of new samples over the classes.

    Parameters
    ----------
    stack : KernelRows
        Kernels of the new samples (rows) against the training samples.
    duals : Gaussian
        q(a_c), with a leading axis of classes.
    readout : Gaussian
        q(b, e), all intercepts first.
    intermediate_variance : float
        σ_g².
    rule : {"full", "paper"}
        See the module's documentation.
    moments : ViewMoments, optional
        Moments of the intermediate outputs, for rows that lack views (``stack.present``).
    """
    n_classes = len(duals.mean)
    scores = predict_scores(stack, duals, readout, intermediate_variance, rule, moments)
    mean, variance = (np.array(field) for field in zip(*scores, strict=True))
    identity = np.broadcast_to(np.eye(n_classes), (stack.n_rows, n_classes, n_classes))
    design = np.concatenate([identity, expected_outputs(stack, duals, moments).transpose(2, 0, 1)], axis=2)
    common = design @ readout.cov @ design.mT
    own = variance - common.diagonal(axis1=1, axis2=2).T
    return ClassScores(mean, np.maximum(own, 0.0), common)


def log_class_probabilities(scores: ClassScores, margin: float) -> np.ndarray:
    """Return the log probabilities of the classes, shape (n_rows, n_classes); they sum to one.

    Parameters
    ----------
    scores : ClassScores
    margin : float
        ν. Scores of which none exceeds all others by it belong to no class and carry no probability, as in the
        binary model.
    """
    spread, shifts = _split(scores.common)
    scale = np.sqrt(1.0 + scores.variance + spread)
    logs = logsumexp([log_largest(scores.mean + shift, scale, margin) for shift in shifts], axis=0).T
    return logs - logsumexp(logs, axis=1, keepdims=True)


def _split(common: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return δ of every row, (n_rows,), and the cubature points for N(0, R'), (n_points, n_classes, n_rows)."""
    n_classes = common.shape[1]
    level = np.full((n_classes, n_classes), 1.0 / n_classes)
    contrast = np.eye(n_classes) - level
    total = np.trace(common, axis1=1, axis2=2)[:, None, None]
    values, vectors = np.linalg.eigh(contrast @ common @ contrast + total * level)  # the level comes last
    spread = np.maximum(values[:, 0], 0.0)
    kept = np.sqrt(np.maximum(values[:, None, :-1] - spread[:, None, None], 0.0))
    root = (vectors[:, :, :-1] * kept) @ vectors[:, :, :-1].mT
    points = np.sqrt(n_classes) * root.transpose(2, 1, 0)
    return spread, np.concatenate([points, -points])
