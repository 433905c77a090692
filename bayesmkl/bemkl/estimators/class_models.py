"""Class targets as BEMKL models, and class predictions from their posteriors.

Three ways lead from several classes, or several labels, to models that `loop` can fit:

* `OneVersusAll`: a model of one output, with kernel weights of its own, for every row of the targets;
* `SharedWeights`: the same with one set of kernel weights for all rows;
* `CompetingClasses`: classes whose scores compete, by the multinomial probit likelihood.

Each of them knows its problems, the scores of new samples, and what follows from scores: moments, log
odds of each class against the rest, and log probabilities of the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp

from bayesmkl._estimator import ClassTargets
from bayesmkl.bemkl.models.absent_views import view_moments
from bayesmkl.bemkl.models.model import Priors, Problem, State
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.models.outcomes import Classes, Labels, Outcome
from bayesmkl.bemkl.reading.class_probabilities import (
    ClassScores,
    log_class_probabilities,
    predict_class_scores,
)
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.bemkl.reading.predict import (
    ScoreDraws,
    ScoreMoments,
    binary_log_odds,
    log_probabilities,
    predict_score,
    predict_scores,
    score_of_draws,
)
from bayesmkl.kernels.stacks.base import KernelRows, KernelStack

Score = ScoreMoments | ScoreDraws


class ClassSettings(NamedTuple):
    """Settings that the models of all classes share."""

    sample_prior: Gamma
    bias_prior: Gamma
    kernel_prior: Any  # Gamma, or a prior on the weights themselves for NUTS
    margin: float  # ν
    intermediate_scale: float  # σ_g
    missing_views: bool = False  # whether samples may lack views
    temperature: float | None = None  # of probabilities; None where it is learned


class ClassModel(Protocol):
    """Interface between classes and models of a classifier."""

    def problems(
        self, stack: KernelStack, gram: np.ndarray, targets: np.ndarray, settings: ClassSettings
    ) -> list[Any]:
        """Return the problems to fit, one per model."""

    def scores(
        self,
        stack: KernelRows,
        posteriors: Sequence[State | PosteriorDraws],
        settings: ClassSettings,
        rule: str,
    ) -> Any:
        """Return the scores of the rows of `stack`."""

    def moments(self, scores: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return predictive mean and standard deviation of scores, unit noise included, (n_rows, n_outputs)."""

    def log_odds(self, scores: Any, margin: float) -> np.ndarray:
        """Return log odds of each class or label against the rest, (n_rows, n_outputs)."""

    def log_class_probabilities(self, scores: Any, margin: float) -> np.ndarray:
        """Return log probabilities of classes, (n_rows, n_classes)."""


class OneVersusAll:
    """A binary model with its own kernel weights for every class or label; one model for two classes.

    Missing views are integrated over by the updates for several outputs, which are given one.
    """

    def problems(
        self, stack: KernelStack, gram: np.ndarray, targets: np.ndarray, settings: ClassSettings
    ) -> list[Any]:
        """Return a problem for every row of the targets."""
        rows = targets[:, None] if settings.missing_views else targets
        return [_problem(stack, gram, y, Labels(settings.margin), settings) for y in rows]

    def scores(
        self,
        stack: KernelRows,
        posteriors: Sequence[State | PosteriorDraws],
        settings: ClassSettings,
        rule: str,
    ) -> list[Score]:
        """Return a score for every output of every posterior, of factors or of draws."""
        return [score for posterior in posteriors for score in _scores(stack, posterior, settings, rule)]

    def moments(self, scores: list[Score]) -> tuple[np.ndarray, np.ndarray]:
        """Return predictive mean and standard deviation of the scores."""
        variance = [s.total_variance if isinstance(s, ScoreDraws) else 1.0 + s.variance for s in scores]
        return np.stack([s.mean for s in scores], axis=1), np.sqrt(np.stack(variance, axis=1))

    def log_odds(self, scores: list[Score], margin: float) -> np.ndarray:
        """Return the log odds of each binary model."""
        return np.stack([binary_log_odds(score, margin) for score in scores], axis=1)

    def log_class_probabilities(self, scores: list[Score], margin: float) -> np.ndarray:
        """Return the probabilities of one binary model, or of one for each class, normalized to sum to one."""
        if len(scores) == 1:
            return log_probabilities(scores[0], margin)
        log_p = np.stack([log_probabilities(score, margin)[:, 1] for score in scores], axis=1)
        return log_p - logsumexp(log_p, axis=1, keepdims=True)


class SharedWeights(OneVersusAll):
    """Binary models with one set of kernel weights for all classes or labels."""

    def problems(
        self, stack: KernelStack, gram: np.ndarray, targets: np.ndarray, settings: ClassSettings
    ) -> list[Any]:
        """Return one problem over all rows of the targets."""
        return [_problem(stack, gram, targets, Labels(settings.margin), settings)]


class CompetingClasses:
    """Classes of which the one with the largest score is true: probabilities sum to one by themselves."""

    def problems(
        self, stack: KernelStack, gram: np.ndarray, targets: np.ndarray, settings: ClassSettings
    ) -> list[Any]:
        """Return one problem over all classes."""
        return [_problem(stack, gram, targets, Classes(settings.margin), settings)]

    def scores(
        self, stack: KernelRows, posteriors: Sequence[Any], settings: ClassSettings, rule: str
    ) -> ClassScores:
        """Return the joint distribution of the scores of all classes."""
        (posterior,) = posteriors
        variance = settings.intermediate_scale**2
        moments = view_moments(posterior)
        return predict_class_scores(stack, posterior.dual, posterior.readout, variance, rule, moments=moments)

    def moments(self, scores: ClassScores) -> tuple[np.ndarray, np.ndarray]:
        """Return predictive mean and standard deviation of the scores."""
        common = scores.common.diagonal(axis1=1, axis2=2)
        return scores.mean.T, np.sqrt(1.0 + scores.variance.T + common)

    def log_odds(self, scores: ClassScores, margin: float) -> np.ndarray:
        """Return the log odds of each class against all others together, finite however small these are."""
        log_p = log_class_probabilities(scores, margin)
        n_classes = log_p.shape[1]
        others = np.stack([np.delete(log_p, c, axis=1) for c in range(n_classes)], axis=1)
        return log_p - logsumexp(others, axis=2)

    def log_class_probabilities(self, scores: ClassScores, margin: float) -> np.ndarray:
        """Return the log probability that each class has the largest score."""
        return log_class_probabilities(scores, margin)


def _problem(
    stack: KernelStack, gram: np.ndarray, targets: np.ndarray, outcome: Outcome, settings: ClassSettings
) -> Problem:
    precision = settings.intermediate_scale**-2
    return Problem(stack, gram, targets, Priors(*settings[:3]), outcome, precision)


def _scores(stack: KernelRows, posterior: Any, settings: ClassSettings, rule: str) -> list[Score]:
    """Return one score for each output of a posterior."""
    variance = settings.intermediate_scale**2
    if isinstance(posterior, PosteriorDraws):
        outputs = posterior.outputs()
        return [score_of_draws(stack, own, 1.0 / variance) for own in outputs]
    if posterior.dual.mean.ndim == 1:
        return [predict_score(stack, posterior.dual, posterior.readout, variance, rule)]
    moments = view_moments(posterior)
    return list(predict_scores(stack, posterior.dual, posterior.readout, variance, rule, moments=moments))


def class_model_of(posterior: Any) -> ClassModel:
    """Return the class model of a posterior, or of a tuple of them."""
    if isinstance(posterior, State) and posterior.competes:
        return CompetingClasses()
    if isinstance(posterior, PosteriorDraws):
        shared = posterior.has_outputs
    else:
        shared = isinstance(posterior, State) and posterior.dual.mean.ndim > 1
    return SharedWeights() if shared else OneVersusAll()


CLASS_MODELS: dict[str, type] = {
    "shared": SharedWeights,
    "one-versus-all": OneVersusAll,
    "multinomial": CompetingClasses,
}


def class_model_for(estimator: Any, labels: ClassTargets) -> ClassModel:
    """Choose the class model of an estimator, and raise for options that do not go together."""
    several = len(labels.targets) > 1
    model: ClassModel = CLASS_MODELS[estimator.multiclass]() if several else OneVersusAll()
    if labels.is_multilabel and isinstance(model, CompetingClasses):
        raise ValueError(
            '`multiclass` "multinomial" is for classes that exclude each other; `y` is a matrix of labels, of '
            'which a sample may have several. Use "shared", or "one-versus-all" for separate kernel weights.'
        )
    if several and estimator.multiclass != "one-versus-all":
        estimator._check_inference(
            f'`multiclass` "{estimator.multiclass}"',
            ["vb", "nuts"] if estimator.multiclass == "shared" else ["vb"],
            'Use multiclass="one-versus-all" for a model of its own for every class.',
        )
    if (labels.targets == 0.0).any():
        estimator._check_inference(
            "`unlabeled_label` with unlabeled samples", ["vb"], "Or leave the unlabeled samples out."
        )
        if estimator.missing_views == "integrate":
            raise ValueError(
                '`missing_views` "integrate" is not for samples without a label; got '
                f"`unlabeled_label`={estimator.unlabeled_label!r} and samples marked by it. Leave them out, or the "
                "samples that lack views."
            )
        if estimator.n_init > 1:
            raise ValueError(
                f"`n_init` must be 1 with unlabeled samples; got {estimator.n_init}. The start is the posterior of "
                "the labeled ones; the highest ELBO often puts all unlabeled samples on one side."
            )
    return model
