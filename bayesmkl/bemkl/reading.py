r"""Predictive distributions of BEMKL (Gönen 2012, §4.3).

With q(a) = N(μ_a, Σ_a), q(b, e) and kernels k_m against a new sample, the score f = b + eᵀg has

    E[f]   = E[b] + E[e]ᵀ ĝ,                    ĝ_m = k_mᵀ μ_a
    Var[f] = 1/ε + [1 ĝ] Σ_be [1 ĝ]ᵀ                                     rule "paper"
             + Σ_mn E[e_m e_n] (δ_mn/υ + k_mᵀ Σ_a k_n)                   added by rule "full"

"full" is the exact variance under q: the paper carries only the means of the intermediate outputs into f, and its
intervals are too narrow. The paper also divides by the variance of f where its square root belongs (in
P(y = +1)); both rules here use the standard deviation.

Draws (a, b, e) from the posterior need no rule: each has a normal score of mean m and standard deviation s
(`draws`), and predictions are averages over draws,

    P(y = +1) = E[Φ((m - ν) / s)] / (E[Φ((m - ν) / s)] + E[Φ((-m - ν) / s)]).

**Classes that compete** (multinomial probit). With q(a_c) and q(b, e), the scores of a new sample have the means and
the covariance, ĝ_cm = k_m' E[a_c],

    E[f_c]        = E[b_c] + E[e]' ĝ_c
    Cov[f_c, f_d] = δ_cd (1 + v_c) + R_cd,
    R_cd          = [1 ĝ_c]' Cov[(b_c, e), (b_d, e)] [1 ĝ_d]             what the classes have in common
    v_c           = Σ_mn E[e_m e_n] (δ_mn σ_g² + k_m' Cov[a_c] k_n)      rule "full"; 0 by rule "paper"

(see above), and P(y = c) is the probability that f_c is the largest, by the margin. Were R diagonal, this would
be one integral over a single variable, `log_largest`. Of R only what it says of differences between classes matters,
M R M with M = I - 11'/C, and so R is as good as δ I + R', δ being the least eigenvalue of M R M over differences and
R' = M R M - δ M. The first part joins the variances. The second is averaged over by the cubature rule of degree three
whose points are ± sqrt(C) times the columns of the symmetric root of R'. Two classes leave nothing to the rule. With
more its error is of second order in R', which is small next to 1 + v, for all classes and samples tell about the same
kernel weights; the probabilities are positive and sum to one in any case.

**Parts of scores** are what every kernel adds, ``e_m g_m``, intermediate noise included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayesmkl._numerics.arrays import Array
from bayesmkl._numerics.largest_normal import log_largest
from bayesmkl._numerics.truncated_normal import log_normal_cdf
from bayesmkl.bemkl.draws import PosteriorDraws, score_means, score_scales
from bayesmkl.bemkl.model import State
from bayesmkl.bemkl.moments import Gaussian, WeightCovariance, readout_moments
from bayesmkl.bemkl.outputs import (
    ViewMoments,
    apply_by_pattern,
    completion,
    project,
    readout_of,
    view_moments,
    view_patterns,
)
from bayesmkl.kernels.stacks.base import Stack
from bayesmkl.outcomes.labels import log_beyond

# Draws of many rows are taken in blocks, so that temporary arrays stay near this many numbers.
BLOCK_SIZE = 2**23
OUTPUTS_AT_ONCE = 2**20  # intermediate outputs of new samples
N_MIXED = 64  # draws of the kernel weights that stand for their covariance where there are many


class ScoreMoments(NamedTuple):
    """Mean and variance of the score without its own noise 1/ε, each of shape (n_rows,)."""

    mean: np.ndarray
    variance: np.ndarray


def predict_score(
    stack: Stack, dual: Gaussian, readout: Gaussian, intermediate_variance: float, rule: str = "full"
) -> ScoreMoments:
    """Return mean and variance of the score ``b + e' g`` of new samples.

    Parameters
    ----------
    stack : Stack
        Kernels of the new samples (rows) against the training samples.
    dual, readout : Gaussian
        q(a) and q(b, e).
    intermediate_variance : float
        E[1/υ]: σ_g² in classification.
    rule : {"full", "paper"}
        See the module's documentation.
    """
    if blocks := _row_blocks(stack):
        parts = [predict_score(own, dual, readout, intermediate_variance, rule) for own in blocks]
        return _joined(parts)
    score = _readout_part(stack.apply(dual.mean), readout)
    if rule == "full":
        noise, roots = np.array([intermediate_variance]), [np.linalg.cholesky(dual.cov)]
        if isinstance(readout.cov, WeightCovariance):
            mixing, total = _drawn_mixing(readout)
        else:
            mixing, total = _mixing(readout_moments(readout.mean, readout.cov).weights_square)
        (part,) = stack.weighted_forms(mixing, roots) + noise[:, None] * total
        score = score._replace(variance=score.variance + part)
    return score


def predict_scores(
    stack: Stack,
    duals: Gaussian,
    readout: Gaussian,
    intermediate_variance: Array | float,
    rule: str = "full",
    moments: ViewMoments | None = None,
) -> list[ScoreMoments]:
    """Return mean and variance of the scores ``b_c + e' g_c`` of several outputs that share the kernel weights.

    Parameters
    ----------
    stack : Stack
        Kernels of the new samples (rows) against the training samples.
    duals : Gaussian
        q(a_c), with a leading axis of outputs.
    readout : Gaussian
        q(b, e), all intercepts first.
    intermediate_variance : float or array of shape (n_outputs,)
        E[1/υ_c]: σ_g² in classification.
    rule : {"full", "paper"}
        See the module's documentation.
    moments : ViewMoments, optional
        Moments of the intermediate outputs, for rows that lack views (``stack.present``).

    Returns
    -------
    list of ScoreMoments
        One per output, each as `predict_score` of q(a_c) and q(b_c, e) returns it.
    """
    n_outputs = len(duals.mean)
    if blocks := _row_blocks(stack, n_outputs):
        of_blocks = [
            predict_scores(own, duals, readout, intermediate_variance, rule, moments) for own in blocks
        ]
        return [_joined(parts) for parts in zip(*of_blocks, strict=True)]
    stack = stack if moments is None else moments.centered(stack)
    projection = _outputs_of(stack, duals, moments)
    readouts = [readout_of(output, readout, n_outputs) for output in range(n_outputs)]
    scores = [_readout_part(*pair) for pair in zip(projection, readouts, strict=True)]
    square = readout_moments(*readouts[0][:2]).weights_square
    noise = np.broadcast_to(intermediate_variance, n_outputs)
    roots = [np.linalg.cholesky(cov) for cov in duals.cov] if rule == "full" else None
    if not _is_complete(stack):
        parts = _absent_parts(stack, roots, square, noise, moments)
    elif roots is None:
        return scores
    else:
        parts = _intermediate_parts(stack, roots, square, noise)
    return [ScoreMoments(s.mean, s.variance + part) for s, part in zip(scores, parts, strict=True)]


def _row_blocks(stack: Stack, n_outputs: int = 1) -> Iterator[Stack] | None:
    """Return blocks of rows whose intermediate outputs take little memory; None where those of all rows do."""
    size = max(1, OUTPUTS_AT_ONCE // (stack.n_kernels * n_outputs))
    if stack.n_rows <= size:
        return None
    return (stack.rows(slice(first, first + size)) for first in range(0, stack.n_rows, size))


def _joined(parts: Iterable[ScoreMoments]) -> ScoreMoments:
    """Return the moments of all rows from those of blocks of them."""
    means, variances = zip(*parts, strict=True)
    return ScoreMoments(np.concatenate(means), np.concatenate(variances))


def expected_outputs(stack: Stack, duals: Gaussian, moments: ViewMoments | None = None) -> np.ndarray:
    """Return E[g] of new samples, (n_outputs, n_kernels, n_rows), with absent views from present ones.

    Parameters
    ----------
    stack : Stack
        Kernels of the new samples (rows) against the training samples.
    duals : Gaussian
        q(a_c), with a leading axis of outputs.
    moments : ViewMoments, optional
        Moments of the intermediate outputs, for rows that lack views.
    """
    return _outputs_of(stack if moments is None else moments.centered(stack), duals, moments)


def _outputs_of(stack: Stack, duals: Gaussian, moments: Any) -> np.ndarray:
    """`expected_outputs`, of a centered stack."""
    outputs = project(stack, duals.mean)
    if _is_complete(stack):
        return outputs
    patterns, index = view_patterns(np.asarray(stack.present))
    slope, mean = completion(patterns, moments.cov).slope, moments.mean[:, None]
    return (apply_by_pattern(slope, outputs.mT - mean, index) + mean).mT


def _is_complete(stack: Stack) -> bool:
    return stack.present is None or bool(np.all(stack.present))


def _absent_parts(
    stack: Stack,
    roots: list[np.ndarray] | None,
    square: np.ndarray,
    noise: np.ndarray,
    moments: Any,
) -> np.ndarray:
    """Return the variance due to the uncertainty of present and absent views, (n_outputs, n_rows).

    Absent views add their spread given the present ones and, with `roots`, the uncertainty that these pass on.
    """
    patterns, index = view_patterns(np.asarray(stack.present))
    law = completion(patterns, moments.cov)
    parts = (square * law.cov).sum(axis=(-2, -1))[:, index]
    if roots is None:
        return parts
    passed_on = law.slope.mT @ square @ law.slope
    for number in range(len(patterns)):
        rows = np.flatnonzero(index == number)
        few = stack.rows(rows)
        for output, root in enumerate(roots):
            one = slice(output, output + 1)
            parts[one, rows] += _intermediate_parts(few, [root], passed_on[output, number], noise[one])
    return parts


def _readout_part(intermediate: np.ndarray, readout: Gaussian) -> ScoreMoments:
    """Return the moments of the score at known intermediate outputs, (n_kernels, n_rows)."""
    mean = readout.mean[0] + readout.mean[1:] @ intermediate
    extended = np.vstack([np.ones(intermediate.shape[1]), intermediate])
    return ScoreMoments(mean, ((readout.cov @ extended) * extended).sum(axis=0))


def _intermediate_parts(
    stack: Stack, roots: list[np.ndarray], weights_square: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """``sum_mn E[e_m e_n] Cov[g_m, g_n]`` for every output and row, shape (n_outputs, n_rows).

    `roots` are Cholesky factors of Cov[a_c], `noise` is E[1/υ_c].
    """
    mixing, total = _mixing(weights_square)
    return stack.weighted_forms(mixing, roots) + noise[:, None] * total


def _mixing(weights_square: np.ndarray) -> tuple[np.ndarray, float]:
    """Return R with ``R' R = E[e e']``, and the trace of this."""
    values, vectors = np.linalg.eigh(weights_square)
    kept = values > values[-1] * np.finfo(float).eps  # with pruned kernels most directions vanish
    return np.sqrt(values[kept])[:, None] * vectors[:, kept].T, float(values.sum())


def _drawn_mixing(readout: Gaussian) -> tuple[np.ndarray, float]:
    """Do what `_mixing` does for many kernels, with the covariance of some draws of e for Cov(e).

    What it makes of Cov(a) is of the order of 1/P of its part in the noise of the intermediate outputs, which is
    exact.
    """
    weights, cov = readout.mean[1:], readout.cov.weights
    draws = cov.draw(N_MIXED, np.random.default_rng(0)) / N_MIXED**0.5
    return np.vstack([weights, draws]), float(weights @ weights + cov.trace())


class ScoreDraws(NamedTuple):
    """Draws of the score: its mean m, (n_draws, n_rows), and standard deviation s, noise included.

    s is of shape (n_draws,), or (n_draws, n_rows) where it depends on the sample.
    """

    means: np.ndarray
    scales: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Predictive mean, shape (n_rows,)."""
        return self.means.mean(axis=0)

    @property
    def total_variance(self) -> np.ndarray:
        """Predictive variance, noise included, shape (n_rows,)."""
        return self.means.var(axis=0) + (self.scales**2).mean(axis=0)


def score_of_draws(
    stack: Stack, draws: PosteriorDraws, intermediate_precision: float | None = None
) -> ScoreDraws:
    """Score new samples (the rows of `stack`) by every draw; 1/σ_g² is given in classification only."""
    flat = draws.flat()
    return ScoreDraws(score_means(stack, flat), score_scales(flat, intermediate_precision))


def log_sides(score: ScoreMoments | ScoreDraws, margin: float) -> np.ndarray:
    """Return the log probabilities that the score lies beyond the margin below and above, shape (n_rows, 2)."""
    if isinstance(score, ScoreMoments):
        spread = np.sqrt(1.0 + score.variance)
        return log_normal_cdf(np.stack([-score.mean - margin, score.mean - margin], axis=1) / spread[:, None])
    n_draws, n_rows = score.means.shape
    sides, block = np.empty((n_rows, 2)), max(1, BLOCK_SIZE // n_draws)
    for start in range(0, n_rows, block):
        rows = slice(start, start + block)
        scales = score.scales[:, None] if score.scales.ndim == 1 else score.scales[:, rows]
        sides[rows] = logsumexp(log_beyond(score.means[:, rows] / scales, margin / scales), axis=0)
    return sides - np.log(n_draws)


def log_probabilities(score: ScoreMoments | ScoreDraws, margin: float) -> np.ndarray:
    """Return the log probabilities of -1 and +1, shape (n_rows, 2) (§4.3, with the standard deviation of f)."""
    sides = log_sides(score, margin)
    return sides - np.logaddexp(sides[:, 0], sides[:, 1])[:, None]


def binary_log_odds(score: ScoreMoments | ScoreDraws, margin: float) -> np.ndarray:
    """Return the log odds of +1 against -1, shape (n_rows,); finite however far in the tail."""
    sides = log_sides(score, margin)
    return sides[:, 1] - sides[:, 0]


# --------------------------------------------------------------------------------------------- classes and labels


def output_scores(
    stack: Stack, posterior: Any, variance: Any, rule: str, intermediate_precision: float | None = None
) -> list[Any]:
    """Return the score of every output of a posterior of factors, or of draws, as their functions above do."""
    if isinstance(posterior, PosteriorDraws):
        return [score_of_draws(stack, own, intermediate_precision) for own in posterior.outputs()]
    dual, readout = posterior.dual, posterior.readout
    if dual.mean.ndim == 1:
        return [predict_score(stack, dual, readout, variance, rule)]
    return predict_scores(stack, dual, readout, variance, rule, view_moments(posterior))


class ScoresApart(NamedTuple):
    """Scores of a binary model for every class or label, of two classes of one."""

    scores: list[ScoreMoments | ScoreDraws]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return predictive mean and standard deviation of the scores, noise included."""
        variance = [s.total_variance if isinstance(s, ScoreDraws) else 1.0 + s.variance for s in self.scores]
        return np.stack([s.mean for s in self.scores], axis=1), np.sqrt(np.stack(variance, axis=1))

    def log_odds(self, margin: float) -> np.ndarray:
        """Return the log odds of each binary model."""
        return np.stack([binary_log_odds(score, margin) for score in self.scores], axis=1)

    def log_class_probabilities(self, margin: float) -> np.ndarray:
        """Return the probabilities of one binary model, or of one for each class, normalized to sum to one."""
        if len(self.scores) == 1:
            return log_probabilities(self.scores[0], margin)
        log_p = np.stack([log_probabilities(score, margin)[:, 1] for score in self.scores], axis=1)
        return log_p - logsumexp(log_p, axis=1, keepdims=True)


class ClassScores(NamedTuple):
    """Joint distribution of the scores of classes that compete, without their unit noise."""

    mean: np.ndarray  # (n_classes, n_rows)
    variance: np.ndarray  # v, (n_classes, n_rows), independent between classes
    common: np.ndarray  # R, (n_rows, n_classes, n_classes)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return predictive mean and standard deviation of the scores, noise included."""
        common = self.common.diagonal(axis1=1, axis2=2)
        return self.mean.T, np.sqrt(1.0 + self.variance.T + common)

    def log_odds(self, margin: float) -> np.ndarray:
        """Return the log odds of each class against all others together, finite however small these are."""
        log_p = self.log_class_probabilities(margin)
        n_classes = log_p.shape[1]
        others = np.stack([np.delete(log_p, c, axis=1) for c in range(n_classes)], axis=1)
        return log_p - logsumexp(others, axis=2)

    def log_class_probabilities(self, margin: float) -> np.ndarray:
        """Return the log probability that each class has the largest score, (n_rows, n_classes); they sum to one.

        Scores of which none exceeds all others by the margin belong to no class and carry no probability, as in the
        binary model.
        """
        spread, shifts = _split(self.common)
        scale = np.sqrt(1.0 + self.variance + spread)
        logs = logsumexp([log_largest(self.mean + shift, scale, margin) for shift in shifts], axis=0).T
        return logs - logsumexp(logs, axis=1, keepdims=True)


def class_scores(stack: Stack, posterior: Any, variance: float, rule: str) -> ScoresApart | ClassScores:
    """Return the scores of all classes or labels, of a posterior, draws, or a tuple of them.

    Parameters
    ----------
    stack : Stack
        Kernels of the new samples (rows) against the training samples.
    posterior : State, PosteriorDraws, or tuple of them
    variance : float
        σ_g².
    rule : {"full", "paper"}
        See the module's documentation.
    """
    if isinstance(posterior, State) and posterior.competes:
        moments = view_moments(posterior)
        return predict_class_scores(stack, posterior.dual, posterior.readout, variance, rule, moments)
    each = posterior if type(posterior) is tuple else (posterior,)
    found = [output_scores(stack, one, variance, rule, 1.0 / variance) for one in each]
    return ScoresApart([score for scores in found for score in scores])


def predict_class_scores(
    stack: Stack,
    duals: Gaussian,
    readout: Gaussian,
    intermediate_variance: float,
    rule: str = "full",
    moments: ViewMoments | None = None,
) -> ClassScores:
    """Return mean and covariance of the scores of new samples over the classes.

    Parameters
    ----------
    stack : Stack
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


# ---------------------------------------------------------------------------------------------------- parts of scores


def mean_new_parts(stack: Stack, posterior: Any) -> np.ndarray:
    """Return posterior means of the parts of the scores of new rows, (n_outputs, n_kernels + 1, n_rows).

    The last part is the intercept.

    Parameters
    ----------
    stack : Stack
        Kernels of new rows against the training samples.
    posterior : PosteriorDraws or a variational posterior
    """
    if isinstance(posterior, PosteriorDraws):
        draws = posterior.flat()
        parts = np.stack([np.asarray(stack.apply(dual[..., None])) for dual in mean_duals(draws)])
        intercept = np.array([own.intercept.mean() for own in draws.outputs()])
    else:
        duals = posterior.dual
        if duals.mean.ndim == 1:
            duals = duals._replace(mean=duals.mean[None])
        n_outputs = len(duals.mean)
        intercept, weights = np.split(np.asarray(posterior.readout.mean), [n_outputs])
        parts = weights[:, None] * expected_outputs(stack, duals, view_moments(posterior))
    return _with_intercept(parts, intercept)


def mean_duals(draws: PosteriorDraws) -> np.ndarray:
    """Return mean weights of training samples in the part of every kernel, (n_outputs, n_kernels, n_train).

    Parameters
    ----------
    draws : PosteriorDraws
        With one leading axis.
    """
    outputs = draws.outputs()
    return np.stack([np.einsum("dm,di->mi", own.kernel_weights, own.dual) / len(own.dual) for own in outputs])


def draw_new_parts(
    stack: Stack,
    draws: PosteriorDraws,
    intermediate_variance: float | None,
    rng: np.random.Generator,
    posterior: Any = None,
) -> np.ndarray:
    """Draw the parts of the scores of new rows, (n_draws, n_outputs, n_kernels + 1, n_rows).

    Parameters
    ----------
    stack : Stack
        Kernels of new rows against the training samples.
    draws : PosteriorDraws
        With one leading axis.
    intermediate_variance : float or None
        1/υ: σ_g² of a classifier; None in regression, where υ is drawn.
    rng : numpy.random.Generator
    posterior : variational posterior, optional
        Of which these are draws: it has the moments by which absent views are drawn.
    """
    moments = None if posterior is None else view_moments(posterior)
    stack = stack if moments is None else moments.centered(stack)
    found = []
    for c, own in enumerate(draws.outputs()):
        variance = intermediate_variance
        std = np.sqrt(1.0 / own.intermediate_precision if variance is None else [variance])
        outputs = np.moveaxis(np.asarray(stack.apply(own.dual.T)), -1, 0)  # (n_draws, n_kernels, n_rows)
        outputs = outputs + std[:, None, None] * rng.standard_normal(outputs.shape)
        if moments is not None and stack.present is not None:
            patterns, index = view_patterns(np.asarray(stack.present))
            law = completion(patterns, moments.cov)
            for number in np.unique(index):
                rows = np.flatnonzero(index == number)
                around = outputs[..., rows] - moments.mean[c, :, None]
                values, vectors = np.linalg.eigh(law.cov[c, number])
                root = vectors * np.sqrt(np.maximum(values, 0.0))
                noise = root @ rng.standard_normal(around.shape)
                outputs[..., rows] = law.slope[c, number] @ around + moments.mean[c, :, None] + noise
        found.append(own.kernel_weights[..., None] * outputs)
    parts = np.stack(found, axis=1)
    return _with_intercept(parts, np.stack([own.intercept for own in draws.outputs()], axis=1))


def _with_intercept(parts: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Append the intercept, (..., n_outputs), to parts of shape (..., n_outputs, n_kernels, n_rows)."""
    last = np.broadcast_to(intercept[..., None, None], (*parts.shape[:-2], 1, parts.shape[-1]))
    return np.concatenate([parts, last], axis=-2)
