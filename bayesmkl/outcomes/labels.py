"""Labels: what users pass, validated and encoded; likelihoods of two classes; truncated moments; temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, logsumexp
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from bayesmkl._numerics.arrays import Array, is_numpy, namespace
from bayesmkl._numerics.largest_normal import largest_moments
from bayesmkl._numerics.truncated_normal import (
    LOG_2PI,
    TruncatedMoments,
    label_moments,
    log_normal_cdf,
    truncated_moments,
)
from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl._utils.given import as_array, is_missing
from bayesmkl._utils.typing import Label, Targets
from bayesmkl._utils.validation import shown
from bayesmkl._utils.warnings import warn_user
from bayesmkl.outcomes.base import (
    LOG_ODDS,
    PROBIT,
    Derivatives,
    Likelihood,
    Outcome,
    Predicted,
    Tilted,
    no_parameters,
    tilt,
)

HALF_NORMAL_MEAN = np.sqrt(2.0 / np.pi)
FAR = (
    -50.0
)  # below it z and the ratio of density and distribution function cancel, and their sum is a short series


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Probit(Likelihood):
    r"""Labels -1 and +1 from the sign of a noisy score: :math:`p(y_i \mid f_i) = \Phi(y_i f_i)`.

    With a margin, :math:`\Phi(y_i f_i - \nu)`, a score within the margin belongs to no label. The densities of the
    two labels then do not sum to one, and predictions normalize them.

    Parameters
    ----------
    margin : float, default=0.0
        The margin :math:`\nu`.

    Examples
    --------
    >>> import numpy as np
    >>> labels, nothing = np.array([1.0, -1.0]), np.zeros(0)
    >>> np.exp(Probit().log_density(labels, np.ones(2), nothing)).round(4)
    array([0.8413, 0.1587])
    """

    margin: float = 0.0

    unit = PROBIT

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every label."""
        return log_normal_cdf(y * score - self.margin)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        z = y * score - self.margin
        _, ratio, second = log_cdf_derivatives(z)
        none = no_parameters(score)
        third = -second * (z + 2.0 * ratio) - ratio
        return Derivatives(y * ratio, second, y * third, none, none, none)

    def tilted(self, y: Array, mean: Array, variance: Array, parameters: Array) -> Tilted:
        """Integrate the density over normal scores (Rasmussen and Williams, eq. 3.82)."""
        xp = namespace(y)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        z = (y * mean - self.margin) * scale
        log_cdf, ratio, second = log_cdf_derivatives(z)
        return Tilted(log_cdf, y * ratio * scale, second * scale**2, xp.zeros((0, *mean.shape)))

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the label."""
        xp = namespace(mean)
        scale = 1.0 / xp.sqrt(1.0 + variance)
        own, other = (log_normal_cdf((side * mean - self.margin) * scale) for side in (1.0, -1.0))
        probability = xp.exp(own - xp.logaddexp(own, other)) if self.margin else xp.exp(own)
        return Predicted(2.0 * probability - 1.0, 4.0 * probability * (1.0 - probability))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.ones(parameters.shape[1:])

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a label for every score, as labels are observed."""
        mean = self.predict(score, np.zeros_like(score), parameters).mean
        return np.where(special.ndtri(0.5 + 0.5 * mean) + rng.standard_normal(score.shape) > 0.0, 1.0, -1.0)


@fulfil_docs(Likelihood)
@dataclass(frozen=True)
class Logit(Likelihood):
    r"""Labels -1 and +1 with log odds equal to the score: :math:`p(y_i \mid f_i) = 1 / (1 + e^{-y_i f_i})`.

    Examples
    --------
    >>> import numpy as np
    >>> labels, nothing = np.array([1.0, -1.0]), np.zeros(0)
    >>> np.exp(Logit().log_density(labels, np.ones(2), nothing)).round(4)
    array([0.7311, 0.2689])
    """

    unit = LOG_ODDS

    def log_density(self, y: Array, score: Array, parameters: Array) -> Any:
        """Return the log density of every label."""
        xp = namespace(y)
        return -xp.logaddexp(xp.zeros_like(score), -y * score)

    def derivatives(self, y: Array, score: Array, parameters: Array, order: int = 3) -> Derivatives:
        """Return derivatives of the log density."""
        xp = namespace(y)
        wrong = xp.exp(self.log_density(-y, score, parameters))  # probability of the other label
        second = -wrong * (1.0 - wrong)
        none = no_parameters(score)
        return Derivatives(y * wrong, second, y * second * (2.0 * wrong - 1.0), none, none, none)

    def predict(self, mean: Array, variance: Array, parameters: Array, y: Array | None = None) -> Predicted:
        """Return moments of the label."""
        xp = namespace(mean)
        probability = xp.exp(tilt(self, xp.ones_like(mean), mean, variance, parameters).log_normalizer)
        return Predicted(2.0 * probability - 1.0, 4.0 * probability * (1.0 - probability))

    def noise_variance(self, y: np.ndarray, parameters: np.ndarray) -> Any:
        """Return the variance of the noise in units of the score."""
        return np.full(parameters.shape[1:], math.pi**2 / 3.0)

    def sample(
        self, score: np.ndarray, parameters: np.ndarray, rng: np.random.Generator, y: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw a label for every score."""
        return np.where(score + rng.logistic(size=score.shape) > 0.0, 1.0, -1.0)


def log_cdf_derivatives(z: Array) -> tuple[Any, Any, Any]:
    """Return the logarithm of the normal distribution function and two derivatives, with all digits in both tails."""
    if is_numpy(z):
        ratio = math.sqrt(2.0 / math.pi) / special.erfcx(-z / math.sqrt(2.0))
        w = 1.0 / np.minimum(z, FAR) ** 2
        excess = np.where(
            z < FAR, -z * w * (1.0 - w * (2.0 - w * (10.0 - w * (74.0 - 706.0 * w)))), z + ratio
        )
        return special.log_ndtr(z), ratio, -ratio * excess
    xp = namespace(z)
    above = truncated_moments(z, xp.ones_like(z), 0.0)
    ratio = xp.where(z < 0.0, above.mean - z, xp.exp(-0.5 * z * z - 0.5 * LOG_2PI - above.log_normalizer))
    second = xp.where(z < 0.0, above.variance - 1.0, -ratio * (z + ratio))
    return above.log_normalizer, ratio, second


# ---------------------------------------------------------------------------- what labels say to closed-form updates


class _Margin(NamedTuple):
    margin: Any  # ν


class _Beyond(_Margin, Outcome):
    def initial_noise(self, n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return how far scores start beyond the margin: |N(0, 1)|, or its mean everywhere."""
        return np.full(n_samples, HALF_NORMAL_MEAN) if rng is None else np.abs(rng.standard_normal(n_samples))


class Labels(_Beyond):
    """Labels -1.0 and +1.0 of one output or several, y_i | f_i ~ 1{y_i f_i > ν}.

    An unlabeled sample, y_i = 0, has a score on either side of the margin, 1{|f_i| > ν}: the gap between the classes
    is a category that no sample belongs to (Lawrence and Jordan 2005; `bemkl.model`).
    """

    def start(self, y: Array, magnitude: Array) -> tuple[Any, Any]:
        """Start scores on the right side of the margin, `magnitude` beyond it."""
        return y * (self.margin + magnitude), None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Return q(f): normal beyond the margin, on the side of the label."""
        return label_moments(loc, y, self.margin), None

    def log_density(self, y: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return ``log P(y f > margin)``, of unlabeled samples ``log P(|f| > margin)``."""
        log_p = log_ndtr((y * mean - self.margin) / scale)
        unlabeled = y == 0.0  # such a sample is on one side or the other
        if unlabeled.any():
            sides = log_beyond(mean / scale, self.margin / scale)[:, unlabeled]
            log_p[:, unlabeled] = np.logaddexp.reduce(sides, axis=-1)
        return log_p


class Classes(_Beyond):
    """Classes that compete: the score of the sample's own class is the largest, by the margin.

    y is +1.0 for the class of a sample, -1.0 for the others (Albert and Chib 1993; Girolami and Rogers 2006). The
    paper has one binary likelihood per class in its place (§5.1), so that the probabilities of the classes need not
    sum to one; here they do. q(f_i) is one distribution over the scores of all classes: independent normal ones given
    that the right one is the largest. Its expectations and its normalizer are integrals over one variable, taken by
    Gauss and Hermite's rule (`largest_normal`).

    Identifiability: the likelihood knows only differences of scores. Their scale is fixed by the unit noise. Their
    common level, f_ci + h_i for all c, is left to the priors on a and b, which have mean zero: all classes keep their
    scores, and none is singled out as a reference with score zero, so that the result does not depend on the order of
    the classes. q(f_i) leaves the sum over classes where it was, sum_c E[f_ci] = sum_c E[e' g_ci + b_c], and the
    start has sum zero.

    The margin ν is the paper's, here between the right class and the best of the others; ν = 0 is the model of
    Girolami and Rogers, whose likelihood sums to one over the classes.

    References: Albert, J. H. and Chib, S. (1993), Bayesian analysis of binary and polychotomous response data,
    Journal of the American Statistical Association 88. Girolami, M. and Rogers, S. (2006), Variational Bayesian
    multinomial probit regression with Gaussian process priors, Neural Computation 18.
    """

    competes = True

    def start(self, y: Array, magnitude: Array) -> tuple[Any, Any]:
        """Start scores that are largest for the right class, `magnitude` beyond the margin, and have sum zero."""
        share = 0.5 * (y + 1.0) - 1.0 / y.shape[0]
        return share * (self.margin + magnitude), None

    def update(self, y: Array, loc: Array, precision: Any, distances: Any) -> tuple[TruncatedMoments, Any]:
        """Return q(f), with entropies and normalizers of shape (n_samples,)."""
        return largest_moments(loc, y, self.margin), None


def log_beyond(mean: np.ndarray, margin: Array | float) -> np.ndarray:
    """Return ``log P(y f > margin)`` for y = -1 and +1 along a last axis, all in units of the standard deviation.

    The two do not sum to one: a score within the margin belongs to no label.
    """
    return log_ndtr(np.stack([-mean - margin, mean - margin], axis=-1))


# ---------------------------------------------------------------------------------------------------- labels of users


WHOLE = 2.0**53  # whole numbers beyond it are not all floats


def check_labels(y: Targets, mark: Label | None = None) -> np.ndarray:
    """Return labels as an array: text, whole numbers or booleans, all of one kind and none missing.

    `mark`, which stands for "no label", may be of another kind.

    Examples
    --------
    >>> check_labels(np.array([True, False], dtype=object))
    array([ True, False])
    """
    array = as_array("y", y)
    absent = is_missing(array)
    if absent.any():
        raise ValueError(
            f"`y` must give every sample a label; {int(absent.sum())} of {array.size} are missing (None or NaN). "
            "Leave these samples out, or mark them where the estimator has an `unlabeled_label`."
        )
    if array.dtype.kind == "O":
        marked = np.array([mark is not None and value == mark for value in array.ravel().tolist()])
        plain_labels(array.ravel()[~marked])
        return array if marked.any() else plain_labels(array)
    return plain_labels(array)


def plain_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels of objects as an array of their own kind; refuse what is no label.

    Examples
    --------
    >>> plain_labels(np.array([1, "a"], dtype=object))
    Traceback (most recent call last):
    ...
    ValueError: `y` must hold labels of one kind (Unknown label type); got 1 and 'a'. Make all of them text, or ...
    """
    if labels.dtype.kind == "O":
        labels = _of_one_kind(labels)
    kind = labels.dtype.kind
    if kind == "c":
        raise ValueError(
            "`y` must hold labels. Complex data not supported: recode the labels as text or numbers."
        )
    if kind not in "biufU":
        raise TypeError(
            f"`y` must hold labels that are text, whole numbers or booleans; got {shown(labels.flat[0])} of type "
            f"{labels.dtype}. Recode them."
        )
    if kind == "f":
        if np.isinf(labels).any():
            raise ValueError(
                "`y` must hold labels: y contains infinity. Leave these samples out, or recode them."
            )
        wide = labels.astype(np.float64)
        whole = (wide == np.floor(wide)) & (np.abs(wide) <= WHOLE)
        if not whole.all():
            raise ValueError(
                f"`y` must hold class labels; got {labels[~whole].flat[0]:g} (Unknown label type: continuous). Use a "
                "regressor for real targets, or recode them as whole numbers or text."
            )
    return labels


def _of_one_kind(labels: np.ndarray) -> np.ndarray:
    """Turn objects that are all text, all booleans or all numbers into an array of that type."""
    values = labels.ravel().tolist()
    kinds = [_kind(value) for value in values]
    different = dict(zip(kinds, values, strict=True))
    if len(different) > 1:
        one, other = list(different.values())[:2]
        raise ValueError(
            f"`y` must hold labels of one kind (Unknown label type); got {shown(one)} and {shown(other)}. Make all "
            "of them text, or all of them numbers."
        )
    array = np.array(values).reshape(labels.shape) if different else labels.astype(float)
    if "other" in different or array.dtype.kind == "O":
        raise ValueError(
            "`y` must hold labels that are text, whole numbers or booleans (Unknown label type); got "
            f"{shown(values[0])} of type {type(values[0]).__name__}. Recode them."
        )
    return array


def _kind(label: object) -> str:
    """Name what a label is; whole numbers and others are of one kind."""
    if isinstance(label, bool | np.bool_):
        return "boolean"
    if isinstance(label, int | float | np.integer | np.floating):
        return "number"
    return "text" if isinstance(label, str) else "other"


def encode_labels(y: Targets) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and one row of targets -1 and +1 for every binary model.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of at least two classes.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        Sorted.
    targets : ndarray of shape (1, n_samples) or (n_classes, n_samples)
        Of two classes, the second is +1; of more, each has a row in which it is +1.

    Raises
    ------
    ValueError
        If `y` is not made of class labels, or holds one class only.

    Examples
    --------
    >>> encode_labels(["no", "yes", "no"])
    (array(['no', 'yes'], dtype='<U3'), array([[-1.,  1., -1.]]))
    """
    y = plain_labels(np.asarray(y))
    classes, codes = np.unique(y, return_inverse=True)
    if y.ndim != 1 or 2 * len(classes) > len(y):  # few different labels in one column need no more looks
        check_classification_targets(y)
    if len(classes) < 2:
        raise ValueError(
            f"`y` must hold at least two classes; got one class only: {classes.tolist()[0]!r}. "
            "Check how the training samples were selected."
        )
    positive = [1] if len(classes) == 2 else range(len(classes))
    return classes, np.array([np.where(codes == k, 1.0, -1.0) for k in positive])


class LabelSplit(NamedTuple):
    """Labels of which some are missing.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        As given.
    labeled : ndarray of shape (n_labeled,)
        Positions of samples with a label.
    classes : ndarray of shape (n_classes,)
    targets : ndarray of shape (n_tasks, n_labeled)
        -1 and +1: one task for two classes, one per class (one-versus-rest) for more.
    """

    labels: np.ndarray
    labeled: np.ndarray
    classes: np.ndarray
    targets: np.ndarray

    def transduce(self, scores: np.ndarray) -> np.ndarray:
        """Return the given labels, and predicted ones for the others from scores of shape (n_samples, n_tasks)."""
        codes = scores[:, 0] > 0.0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        found = self.classes[codes.astype(np.intp)]
        found[self.labeled] = self.labels[self.labeled]
        return found


def split_labels(y: Targets, unlabeled_label: Label | None) -> LabelSplit:
    """Find the labeled samples and encode their labels.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    unlabeled_label : label or None
        Mark of samples without a label; with None all samples have one.

    Raises
    ------
    ValueError
        If fewer than two labels remain beside `unlabeled_label`.

    Examples
    --------
    >>> split = split_labels([-1, 0, 1, -1], unlabeled_label=-1)
    >>> split.labeled, split.classes, split.targets
    (array([1, 2]), array([0, 1]), array([[-1.,  1.]]))
    """
    labels = np.asarray(y)
    if unlabeled_label is None:
        return LabelSplit(labels, np.arange(len(labels)), *encode_labels(labels))
    labeled, left = _find_labeled(labels, unlabeled_label)
    if len(left) < 2:
        raise ValueError(
            f"`y` must hold at least two labels besides `unlabeled_label`={unlabeled_label!r}; got {left}. If "
            f"{unlabeled_label!r} is a class, mark unlabeled samples by another label, or use "
            "`unlabeled_label=None` if there are none."
        )
    return LabelSplit(labels, labeled, *encode_labels(labels[labeled]))


def _find_labeled(labels: np.ndarray, unlabeled_label: Label | None) -> tuple[np.ndarray, list[Any]]:
    """Return the positions of samples with a label, and the different labels in the order of their appearance."""
    labeled = np.flatnonzero([label != unlabeled_label for label in labels.tolist()])
    return labeled, list(dict.fromkeys(labels[labeled].tolist()))


class ClassTargets(NamedTuple):
    """Classes or labels, and the targets of the models that tell them apart."""

    classes: np.ndarray  # (n_classes,), or the numbers of the labels
    targets: np.ndarray  # (n_outputs, n_samples) of -1 and +1, 0 where a sample has no label
    is_multilabel: bool = False


def class_targets(y: Any, unlabeled_label: Label | None = None) -> ClassTargets:
    """Encode classes, several labels per sample, or two classes with unlabeled samples.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Classes, or a matrix of 0 and 1 that says which labels a sample has.
    unlabeled_label : label or None
        Mark of samples without a label; exactly two classes must remain.

    Returns
    -------
    ClassTargets

    Raises
    ------
    ValueError
        If `y` is not made of class labels, holds one class only, one sample of one of two classes, or not exactly two
        classes besides `unlabeled_label`.

    Warns
    -----
    UserWarning
        If there is but one sample of some of more than two classes, or a label is had by no sample or by all.

    Examples
    --------
    >>> class_targets([1, -1, 0], unlabeled_label=-1)
    ClassTargets(classes=array([0, 1]), targets=array([[ 1.,  0., -1.]]), is_multilabel=False)
    """
    if type_of_target(y) == "multilabel-indicator":
        return _label_targets(y, unlabeled_label)
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        raise ValueError(
            f"`y` must hold one class for each sample, or a matrix of 0 and 1 that says which labels a sample has; "
            f"got a matrix of shape {np.shape(y)} with other entries. Make one by `y == 'yes'`, or fit one column."
        )
    y = column_or_1d(y, warn=True)
    if unlabeled_label is not None:
        return _partial_targets(y, unlabeled_label)
    classes, targets = encode_labels(y)
    counts = np.unique(y, return_counts=True)[1]
    rare = ", ".join(repr(label) for label in classes[counts < 2].tolist())
    advice = "Merge the class with another, leave the sample out, or stratify the split."
    if rare and len(classes) == 2:
        raise ValueError(
            f"`y` must hold at least two samples of every class; got one of {rare}, of {len(y)} samples. {advice}"
        )
    if rare:  # of one among more the others can be learned
        warn_user(
            f"`y` holds only one sample of {rare}, which is too few to learn a class from. {advice}",
            UserWarning,
        )
    return ClassTargets(classes, targets)


def _partial_targets(y: np.ndarray, unlabeled_label: Label | None) -> ClassTargets:
    _, left = _find_labeled(y, unlabeled_label)
    if len(left) != 2:
        raise ValueError(
            f"`y` must hold exactly two labels besides `unlabeled_label`={unlabeled_label!r}; got {left}. "
            + (
                "Semi-supervised learning is for two classes: recode `y`, one class against the others. "
                if len(left) > 2
                else ""
            )
            + f"If {unlabeled_label!r} is a class, use `unlabeled_label=None`."
        )
    split = split_labels(y, unlabeled_label)
    targets = np.zeros((1, len(y)))
    targets[:, split.labeled] = split.targets
    return ClassTargets(split.classes, targets)


def _label_targets(y: Any, unlabeled_label: Label | None) -> ClassTargets:
    if unlabeled_label is not None:
        raise ValueError(
            f"`unlabeled_label` is for two classes, not for a matrix of labels; got {unlabeled_label!r}. Fit a model "
            "for each label that has unlabeled samples."
        )
    y = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    targets = np.where(y.T > 0, 1.0, -1.0)
    constant = [label for label, row in enumerate(targets) if abs(row.sum()) == len(row)]
    if constant:
        warn_user(
            f"`y` is the same for all {len(y)} samples for the labels {constant}: nothing can be learned about "
            "them. Leave their columns out.",
            UserWarning,
        )
    return ClassTargets(np.arange(len(targets)), targets, is_multilabel=True)


def most_probable(scores: np.ndarray) -> np.ndarray:
    """Return the positions of the classes that scores speak for.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
        Of the second of two classes against the first, or of every class.

    Examples
    --------
    >>> most_probable(np.array([-1.0, 2.0])), most_probable(np.array([[0.0, -1.0, 3.0]]))
    (array([0, 1]), array([2]))
    """
    return (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


# --------------------------------------------------------------------------------------- temperature of probabilities


PRIOR_STD = 0.3  # of the log temperature
FARTHEST, N_GRID = 8.0, 65  # how many of them are searched, on either side, and where the search starts from


def tempered(log_probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return log probabilities at a temperature; the last axis is that of the classes."""
    if temperature == 1.0:  # to the last digit
        return log_probabilities
    powers = log_probabilities / temperature
    return powers - logsumexp(powers, axis=-1, keepdims=True)


def find_temperature(
    log_probabilities: np.ndarray,
    truth: np.ndarray,
    sample_weight: np.ndarray | float = 1.0,
    sharpen: bool = True,
) -> float:
    r"""Return the temperature of held-out probabilities, :math:`\arg\max_T \sum_i \log p_T(y_i) + \log p(T)`.

    Probabilities are raised to the power of :math:`1 / T` and normalized again, which makes all of them flatter or
    sharper (Guo et al. 2017); the order of the classes stays. The temperature is that of the highest posterior
    density under a normal prior of its logarithm around zero: where all held-out labels are the most probable ones,
    these alone would ask for :math:`T = 0`. Of two classes it is the most likely one from 1 on: they may be made
    flatter, as where views say nothing, and not sharper.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_samples, n_classes)
        Of samples that were left out.
    truth : ndarray of int of shape (n_samples,)
        Columns of their labels.
    sample_weight : ndarray of shape (n_samples,) or float, default=1.0
        How often samples count.
    sharpen : bool, default=True
        Whether `T` may be below 1. If not, it is the one of maximum likelihood from 1 on, without a prior.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger (2017), On calibration of modern neural networks, ICML, §4.2.
    """
    of_samples = np.arange(len(truth))

    def loss(u: float) -> float:
        own = tempered(log_probabilities, np.exp(u))[of_samples, truth]
        doubt = 0.5 * (u / PRIOR_STD) ** 2 if sharpen else 0.0
        return doubt - float((sample_weight * own).sum())

    lowest = -FARTHEST if sharpen else 0.0
    grid = np.linspace(lowest, FARTHEST, N_GRID) * PRIOR_STD  # the loss is convex in 1 / T, not in log T
    best = int(np.argmin([loss(u) for u in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, N_GRID - 1)]
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-8}).x
    if not sharpen and loss(0.0) <= loss(found):
        return 1.0  # to the last digit
    return float(np.exp(found))
