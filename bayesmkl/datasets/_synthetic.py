"""Synthetic data with known answers: benchmarks of one table, views, gates, corrupted kernels, gene sets."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getdoc
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from scipy.special import ndtr
from sklearn.utils import Bunch

from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.validation import (
    LARGEST,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_scale,
    generator_of,
)

_DIMENSION = 20
_MEAN = 2 / np.sqrt(_DIMENSION)

# The triangular waves of Breiman et al. at t = 1..21: h1 peaks at t = 11, h2 at 15, h3 at 7.
_TIME = np.arange(1, 22)
_WAVES = np.array([np.maximum(6 - np.abs(_TIME - peak), 0.0) for peak in (11, 15, 7)])
WAVEFORM_CLASSES = {1: (0, 1), 2: (0, 2), 3: (1, 2)}  # class -> indices of the two waves it mixes


def make_twonorm(n_samples: int = 400, *, random_state: int | np.random.Generator | None = None) -> Bunch:
    r"""Draw Breiman's twonorm: two spherical Gaussians in 20 dimensions.

    .. math:: x \mid y \sim \mathcal{N}(y\,a\,\mathbf{1}, I), \qquad a = 2/\sqrt{20}, \quad P(y = \pm 1) = 1/2

    Parameters
    ----------
    n_samples : int, default=400
        Number of samples.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, 20), ``target`` in {-1, +1}, ``bayes_error``, ``feature_names``,
        ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If `n_samples` is not a positive whole number or `random_state` no seed.

    Notes
    -----
    The class means are 4 apart, so the best classifier, the sign of the sum of the features, errs with
    probability Phi(-2) = 0.02275.

    References
    ----------
    L. Breiman (1996). Bias, variance, and arcing classifiers. Technical report 460, University of California,
    Berkeley.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.datasets import make_twonorm
    >>> sample = make_twonorm(1000, random_state=0)
    >>> bool(np.mean(np.sign(sample.data.sum(axis=1)) != sample.target) < 0.04)
    True
    """
    check_integer("n_samples", n_samples, low=1)
    rng = generator_of("random_state", random_state)
    target = rng.choice([-1, 1], size=n_samples)
    data = rng.standard_normal((n_samples, _DIMENSION)) + _MEAN * target[:, None]
    return _bunch(
        "twonorm",
        data,
        target,
        ["mean -2/sqrt(20)", "mean +2/sqrt(20)"],
        make_twonorm,
        bayes_error=0.022750131948179195,
    )


def make_ringnorm(n_samples: int = 400, *, random_state: int | np.random.Generator | None = None) -> Bunch:
    r"""Draw Breiman's ringnorm: a wide Gaussian around a narrow one, in 20 dimensions.

    .. math::
        x \mid y = +1 \sim \mathcal{N}(0, 4 I), \qquad x \mid y = -1 \sim \mathcal{N}(a\mathbf{1}, I),
        \quad a = 2/\sqrt{20}, \quad P(y = \pm 1) = 1/2

    Parameters
    ----------
    n_samples : int, default=400
        Number of samples.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, 20), ``target`` in {-1, +1} (+1 = wide, -1 = inner), ``bayes_error``,
        ``feature_names``, ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If `n_samples` is not a positive whole number or `random_state` no seed.

    Notes
    -----
    The best classifier calls x inner where :math:`\|x - \tfrac43 m\|^2 < R`, with :math:`m = a\mathbf{1}`,
    :math:`\|m\|^2 = 4` and :math:`R = \tfrac83(20\log 2 - \tfrac12\|m\|^2) + \tfrac{16}{9}\|m\|^2`. Under
    either class that squared distance is a (scaled) noncentral chi-square variable, which gives its error
    exactly: 0.01240 (Breiman reports 1.3 %).

    References
    ----------
    L. Breiman (1996). Bias, variance, and arcing classifiers. Technical report 460, University of California,
    Berkeley.

    Examples
    --------
    >>> from bayesmkl.datasets import make_ringnorm
    >>> sample = make_ringnorm(2000, random_state=0)
    >>> print(sample.data[sample.target == 1].std().round(1), sample.data[sample.target == -1].std().round(1))
    2.0 1.0
    """
    check_integer("n_samples", n_samples, low=1)
    rng = generator_of("random_state", random_state)
    target = rng.choice([-1, 1], size=n_samples)
    noise = rng.standard_normal((n_samples, _DIMENSION))
    data = np.where(target[:, None] == 1, 2 * noise, noise + _MEAN)
    return _bunch(
        "ringnorm", data, target, ["inner", "wide"], make_ringnorm, bayes_error=0.012396608103172689
    )


def make_waveform(
    n_samples: int = 400, *, binary: bool = True, random_state: int | np.random.Generator | None = None
) -> Bunch:
    r"""Draw the waveform problem of Breiman et al.: noisy mixtures of two of three triangular waves.

    .. math::
        x_t = u\,h_i(t) + (1 - u)\,h_j(t) + \varepsilon_t,
        \qquad u \sim U(0, 1),\ \varepsilon_t \sim \mathcal{N}(0, 1)

    for t = 1..21, with :math:`h_1(t) = \max(6 - |t - 11|, 0)`, :math:`h_2(t) = h_1(t - 4)` (peak at 15) and
    :math:`h_3(t) = h_1(t + 4)` (peak at 7). Class 1 mixes h1 and h2, class 2 h1 and h3, class 3 h2 and h3.

    Parameters
    ----------
    n_samples : int, default=400
        Number of samples; each class has probability 1/3.
    binary : bool, default=True
        Whether ``target`` is +1 for class 2 and -1 for classes 1 and 3 (the binary version in common use), or
        the class 1, 2 or 3.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, 21), ``target``, ``target_multiclass`` (1, 2, 3), ``feature_names``,
        ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If `n_samples` is not a positive whole number, `binary` neither True nor False, or `random_state` no seed.

    Notes
    -----
    The classes are numbered as in the book. The file that the UCI repository publishes has classes 1 and 3
    the other way round.

    References
    ----------
    L. Breiman, J. Friedman, R. Olshen, C. Stone (1984). Classification and Regression Trees, section 2.6.1.

    Examples
    --------
    >>> from bayesmkl.datasets import make_waveform
    >>> sample = make_waveform(3000, random_state=0)
    >>> int(sample.data[sample.target == 1].mean(axis=0).argmax()) + 1 in range(7, 12)
    True
    """
    check_integer("n_samples", n_samples, low=1)
    check_flag("binary", binary)
    rng = generator_of("random_state", random_state)
    classes = rng.integers(1, 4, size=n_samples)
    pairs = np.array([WAVEFORM_CLASSES[c] for c in classes])
    share = rng.uniform(size=(n_samples, 1))
    data = share * _WAVES[pairs[:, 0]] + (1 - share) * _WAVES[pairs[:, 1]]
    data += rng.standard_normal(data.shape)
    target = np.where(classes == 2, 1, -1) if binary else classes
    names = ["classes 1 and 3", "class 2"] if binary else ["h1, h2", "h1, h3", "h2, h3"]
    return _bunch("waveform", data, target, names, make_waveform, target_multiclass=classes)


def _bunch(name, data, target, target_names, maker, **extra) -> Bunch:
    return Bunch(
        data=data,
        target=target,
        feature_names=[f"x{i}" for i in range(1, data.shape[1] + 1)],
        target_names=np.array(target_names),
        DESCR=(getdoc(maker) or "").partition("\n")[0],
        name=name,
        **extra,
    )


# Names of the views and of the gate columns.
DESIGNS = {
    "hours": (("camera", "infrared"), ("hour",)),
    "halves": (("left", "right"), ("position",)),
    "regions": (("first", "second", "third"), ("east", "north")),
    "global": (("left", "right"), ("position",)),
}
_VIEW_DIMENSION = 2  # features of a view


def make_localized(
    n_samples: int = 200,
    *,
    design: str = "hours",
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    r"""Draw samples whose label depends on a single view, which is selected by gate columns.

    .. math:: f = \sum_m \eta_m(g)\, x^{(m)}_1, \qquad y = \operatorname{sign}(f + \sigma\epsilon)

    Views of two features, :math:`x^{(m)} \sim \mathcal{N}(0, I)`, are independent of one another and of the gate
    columns :math:`g`, and :math:`\eta_m(g)` is one for a single view and zero for the others. No single view and no
    global weights of views can predict the label everywhere.

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    design : {"hours", "halves", "regions", "global"}, default="hours"
        * "hours": a camera is informative from 6 to 18 o'clock, and an infrared sensor at other hours. Hours are
          uniform from 0 to 24, so there are two changes.
        * "halves": one view is informative left of zero, another one right of it, on a line from -1 to 1.
        * "regions": three views are informative in three sectors of equal angle of the square from -1 to 1; there are
          two gate columns.
        * "global": nothing is local. Both views are informative everywhere, :math:`\eta_m = 1/\sqrt 2`, and the gate
          column is not.
    noise : float, default=0.1
        Standard deviation :math:`\sigma` of the noise; that of the score :math:`f` is one.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, n_features), gate columns last, and ``target`` in {-1, +1}; ``views`` (name -> list of
        columns, usable as ``KernelBank(views=...)``) and ``gate_columns``, a list of positions; the truth: ``gates``
        (n_samples, n_views) the values :math:`\eta_m`, ``score`` (n_samples,) without noise, ``probability``
        (n_samples,) of the label +1, ``bayes_accuracy`` of the best classifier; and ``feature_names``,
        ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    The score is standard normal in every design. The best classifier is its sign, which is right with probability
    :math:`1 - \arctan(\sigma) / \pi`, exactly: 0.9683 for the default noise.

    Examples
    --------
    >>> from bayesmkl.datasets import make_localized
    >>> sample = make_localized(1000, design="halves", random_state=0)
    >>> sample.views, sample.gate_columns
    ({'left': [0, 1], 'right': [2, 3]}, [4])
    >>> right = sample.data[:, 4] > 0
    >>> sample.gates[right][0], sample.gates[~right][0]
    (array([0., 1.]), array([1., 0.]))
    >>> round(sample.bayes_accuracy, 4)
    0.9683
    """
    check_integer("n_samples", n_samples, low=1)
    check_choice("design", design, tuple(DESIGNS))
    check_scale("noise", noise, zero=True)
    rng = generator_of("random_state", random_state)

    names, gate_names = DESIGNS[design]
    gate_features = rng.uniform(-1.0, 1.0, size=(n_samples, len(gate_names)))
    if design == "hours":
        gate_features = 12.0 * (gate_features + 1.0)
    views = rng.standard_normal((n_samples, len(names), _VIEW_DIMENSION))
    gates = _gates(design, gate_features, len(names))
    score = np.einsum("im,im->i", gates, views[:, :, 0])
    noisy = score + noise * rng.standard_normal(n_samples)
    probability = ndtr(score / noise) if noise > 0.0 else np.heaviside(score, 0.5)
    n_features = _VIEW_DIMENSION * len(names)
    return Bunch(
        data=np.hstack([views.reshape(n_samples, n_features), gate_features]),
        target=np.where(noisy > 0, 1, -1),
        views={
            name: list(range(_VIEW_DIMENSION * m, _VIEW_DIMENSION * (m + 1))) for m, name in enumerate(names)
        },
        gate_columns=list(range(n_features, n_features + len(gate_names))),
        gates=gates,
        score=score,
        probability=probability,
        bayes_accuracy=float(1.0 - np.arctan(noise) / np.pi),
        feature_names=[
            *(f"{name} {j}" for name in names for j in range(1, _VIEW_DIMENSION + 1)),
            *gate_names,
        ],
        target_names=np.array(["negative", "positive"]),
        DESCR="Independent views; gate columns select the one that determines the label.",
        name="localized",
    )


def _gates(design: str, gate_features: np.ndarray, n_views: int) -> np.ndarray:
    """Return the weight of every view at every sample, (n_samples, n_views)."""
    first = gate_features[:, 0]
    if design == "global":
        return np.full((len(first), n_views), np.sqrt(1.0 / n_views))
    if design == "hours":
        which = ~((first >= 6.0) & (first < 18.0))
    elif design == "halves":
        which = first > 0.0
    else:
        turns = np.arctan2(gate_features[:, 1], first) / (2.0 * np.pi) + 0.5
        which = np.minimum(np.floor(n_views * turns), n_views - 1)
    return np.eye(n_views)[which.astype(int)]


CORRUPTIONS = ("features", "kernels", "similarities")

_NOISE = 3.0  # standard deviation added to the features of a corrupted view, whose own is one


def make_multiview(
    n_samples: int = 200,
    *,
    kernel_weights: Sequence[float] = (1.0, 0.5, 0.0, 0.0),
    n_features: int | Sequence[int] = 2,
    task: str = "classification",
    noise: float = 0.1,
    intercept: float | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    r"""Draw samples in several views, scored by a kernel expansion whose weights are known.

    .. math:: f = \sum_m e_m K_m a + b, \qquad K_m(x, z) = \exp\{-\|x^{(m)} - z^{(m)}\|^2 / (2 d_m)\}

    The views :math:`x^{(m)} \sim \mathcal{N}(0, I)` are independent of one another, so a view with weight 0
    carries no information about the target. A method that recovers the weights gives it no weight.

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    kernel_weights : sequence of float, default=(1.0, 0.5, 0.0, 0.0)
        Weight :math:`e_m` of each view's kernel, of any sign; at least one must not be zero.
    n_features : int or sequence of int, default=2
        Number of features per view: one number for all views, or one for each.
    task : {"classification", "regression"}, default="classification"
        Whether the target is the sign of the noisy score, or the noisy score.
    noise : float, default=0.1
        Standard deviation of the Gaussian noise added to the score, in units of the score's own standard
        deviation.
    intercept : float or None, default=None
        Intercept :math:`b`; None takes minus the median of the weighted sum, so that classes are balanced.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, total features) and ``target``; ``views`` (name -> list of columns, usable as
        ``KernelBank(views=...)``); the truth: ``kernel_weights`` (n_views,), ``shares`` (n_views,) the
        standard deviation over samples of each kernel's part of the score, divided by their sum, ``score``
        (n_samples,) without noise, ``dual`` (n_samples,) the vector a, ``intercept`` b, ``widths`` (n_views,)
        the kernel widths :math:`\sqrt{d_m}`; and ``feature_names``, ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    The entries of a are Gaussian, then rescaled together so that the score has standard deviation 1.

    Examples
    --------
    >>> from bayesmkl.datasets import make_multiview
    >>> sample = make_multiview(100, kernel_weights=[2.0, 0.0], random_state=0)
    >>> sample.views
    {'view1': [0, 1], 'view2': [2, 3]}
    >>> print(sample.shares)
    [1. 0.]
    """
    check_integer("n_samples", n_samples, low=2)  # for the score to vary
    weights = _check_weights(kernel_weights)
    sizes = _check_sizes(n_features, len(weights))
    check_choice("task", task, ("classification", "regression"))
    check_scale("noise", noise, zero=True)
    if intercept is not None:
        check_number("intercept", intercept)
    rng = generator_of("random_state", random_state)

    blocks = [rng.standard_normal((n_samples, size)) for size in sizes]
    widths = np.sqrt(sizes)
    kernels = np.array([_gaussian(block, width) for block, width in zip(blocks, widths, strict=True)])
    dual = rng.standard_normal(n_samples)
    dual /= np.std(weights @ (kernels @ dual))
    parts = weights[:, None] * (kernels @ dual)  # e_m K_m a, (n_views, n_samples)
    bias = -float(np.median(parts.sum(axis=0))) if intercept is None else float(intercept)
    score = parts.sum(axis=0) + bias
    noisy = score + noise * rng.standard_normal(n_samples)

    names = [f"view{m}_{j}" for m, size in enumerate(sizes, start=1) for j in range(1, size + 1)]
    starts = np.cumsum([0, *sizes])
    sample = Bunch(
        data=np.hstack(blocks),
        target=noisy if task == "regression" else np.where(noisy > 0, 1, -1),
        views={f"view{m + 1}": list(range(starts[m], starts[m + 1])) for m in range(len(sizes))},
        kernel_weights=weights,
        shares=parts.std(axis=1) / parts.std(axis=1).sum(),
        score=score,
        dual=dual,
        intercept=bias,
        widths=widths,
        feature_names=names,
        DESCR="Independent views scored by a kernel expansion with known weights.",
        name="multiview",
    )
    if task == "classification":
        sample.target_names = np.array(["negative", "positive"])
    return sample


def _gaussian(block: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-cdist(block, block, "sqeuclidean") / (2 * width**2))


def _check_weights(kernel_weights: Sequence[float]) -> np.ndarray:
    weights = finite_numbers("kernel_weights", kernel_weights)
    if weights.ndim != 1 or not weights.any() or np.abs(weights).max() > LARGEST:
        raise ValueError(
            f"`kernel_weights` must be a list of finite numbers up to {LARGEST:g}, one for each view, at least one "
            f"of them not zero; got {kernel_weights!r}."
        )
    return weights


def _check_sizes(n_features: Any, n_views: int) -> list[int]:
    listed = isinstance(n_features, Sequence | np.ndarray) and not isinstance(n_features, str)
    sizes = list(n_features) if listed else [n_features] * n_views
    good = all(isinstance(size, Integral) and not isinstance(size, bool) and int(size) >= 1 for size in sizes)
    if len(sizes) != n_views or not good:
        raise ValueError(
            f"`n_features` must be one positive integer, or one for each of the {n_views} entries of "
            f"`kernel_weights`; got {n_features!r}."
        )
    return [int(size) for size in sizes]


def make_corrupted(
    n_samples: int = 200,
    *,
    corruption: str = "features",
    fraction: float = 0.2,
    separations: Sequence[float] = (1.0, 1.0, 0.7, 0.7, 0.5, 0.5, 0.0, 0.0),
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    r"""Draw one kernel per view, each corrupted for different samples.

    .. math:: x^{(m)} \mid y \sim \mathcal{N}(y\,a_m u_m, I), \qquad \|u_m\| = 1, \quad P(y = \pm 1) = 1/2,
       \qquad K_m(x, z) = \exp\{-\|x^{(m)} - z^{(m)}\|^2 / (2 d)\}

    with :math:`d = 2` features per view. Then every pair of a sample and a kernel is corrupted with the same
    probability, independently of all others, in one of three ways.

    * ``"features"``: the sample's features in that view get noise of standard deviation 3, and the kernel is
      computed from them.
    * ``"kernels"``: the kernel confuses the sample with another one; the rows and columns of its corrupted samples
      are permuted among each other. Only the labels can reveal this.
    * ``"similarities"``: the sample's similarities to all others are replaced by values drawn from the same
      kernel. The result is replaced by the nearest positive semidefinite matrix, scaled to a diagonal of ones.

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    corruption : {"features", "kernels", "similarities"}, default="features"
        Kind of corruption of a pair.
    fraction : float, default=0.2
        Probability of a pair to be corrupted, from 0 to 1.
    separations : sequence of float, default=(1.0, 1.0, 0.7, 0.7, 0.5, 0.5, 0.0, 0.0)
        Half the distance :math:`a_m` between the classes in each view: one or more numbers, zero for an uninformative
        view.
    random_state : int, Generator or None, default=None
        Seed. The same seed gives the same clean samples for every `corruption` and `fraction`, and a larger
        fraction corrupts more pairs on top of those of a smaller one.

    Returns
    -------
    Bunch
        ``kernels`` (n_samples, n_samples, n_kernels) and ``target`` in {-1, +1}; ``data`` (n_samples, 2 n_kernels)
        what a user would have of the features: noisy under ``"features"``, clean otherwise; ``views`` (name ->
        list of columns, usable as ``KernelBank(views=...)``); the truth: ``corrupted`` (n_samples, n_kernels) of
        bool, ``clean_kernels`` like ``kernels``, ``means`` (n_kernels, 2) the vectors :math:`a_m u_m`,
        ``bayes_error`` of the clean views, ``informed_error`` of a rule that knows the corrupted pairs; and
        ``feature_names``, ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    Along :math:`u_m` the clean views have means :math:`\pm a_m` and unit variance, so the best classifier errs with
    probability :math:`\Phi(-(\sum_m a_m^2)^{1/2})`. With the corrupted pairs known, :math:`a_m^2` of such a pair
    counts for :math:`1/(1 + 3^2)` of itself under ``"features"``, and the rule does without the pair otherwise;
    ``informed_error`` is the mean over samples of what that gives. The repair of kernels under ``"similarities"``
    also changes similarities of clean samples, which it leaves out of account.

    The three ways are those for which Liu et al. (2014, section 1) propose switches: features that are
    contaminated for some samples, kernels that are not equally effective for all samples, and errors in the
    collection of similarities.

    References
    ----------
    X. Liu, L. Wang, J. Zhang, J. Yin (2014). Sample-adaptive multiple kernel learning. AAAI.

    Examples
    --------
    >>> sample = make_corrupted(100, corruption="kernels", fraction=0.3, random_state=0)
    >>> sample.kernels.shape, sample.corrupted.shape
    ((100, 100, 8), (100, 8))
    >>> changed = (sample.kernels != sample.clean_kernels).any(axis=1)
    >>> bool((changed >= sample.corrupted).all())
    True
    """
    check_integer("n_samples", n_samples, low=1)
    halves = _check_separations(separations)
    check_choice("corruption", corruption, CORRUPTIONS)
    _check_share("fraction", fraction)
    rng = generator_of("random_state", random_state)
    n_views = len(halves)

    target = rng.choice([-1, 1], size=n_samples)
    directions = rng.standard_normal((n_views, _VIEW_DIMENSION))
    means = directions * (halves / np.linalg.norm(directions, axis=1))[:, None]  # a_m u_m
    clean = target[:, None, None] * means + rng.standard_normal((n_samples, n_views, _VIEW_DIMENSION))
    corrupted = rng.uniform(size=(n_samples, n_views)) < fraction
    noise = _NOISE * rng.standard_normal(clean.shape)

    data = clean + noise * corrupted[:, :, None] if corruption == "features" else clean
    clean_kernels = _kernels_of(clean)
    kernels = _kernels_of(data)
    for kernel, wrong in zip(kernels, corrupted.T, strict=True):
        if corruption == "kernels":
            _take_for_another(kernel, np.flatnonzero(wrong), rng)
        elif corruption == "similarities":
            _replace_similarities(kernel, wrong, rng)

    kept = 1.0 / (1.0 + _NOISE**2) if corruption == "features" else 0.0
    strengths = np.sqrt(np.where(corrupted, kept, 1.0) @ halves**2)
    names = [f"view{m}_{j}" for m in range(1, n_views + 1) for j in range(1, _VIEW_DIMENSION + 1)]
    return Bunch(
        kernels=np.ascontiguousarray(kernels.transpose(1, 2, 0)),
        target=target,
        data=data.reshape(n_samples, -1),
        views={
            f"view{m + 1}": [_VIEW_DIMENSION * m + j for j in range(_VIEW_DIMENSION)] for m in range(n_views)
        },
        corrupted=corrupted,
        clean_kernels=np.ascontiguousarray(clean_kernels.transpose(1, 2, 0)),
        means=means,
        bayes_error=float(ndtr(-np.linalg.norm(halves))),
        informed_error=float(ndtr(-strengths).mean()),
        feature_names=names,
        target_names=np.array(["negative", "positive"]),
        DESCR=f"One Gaussian kernel per view; {corruption} of some samples are wrong in each of them.",
        name="corrupted",
    )


def _kernels_of(data: np.ndarray) -> np.ndarray:
    """Return the Gaussian kernel of each view, shape (n_views, n_samples, n_samples)."""
    views = data.transpose(1, 0, 2)
    return np.exp(-np.array([cdist(view, view, "sqeuclidean") for view in views]) / (2 * _VIEW_DIMENSION))


def _take_for_another(kernel: np.ndarray, wrong: np.ndarray, rng: np.random.Generator) -> None:
    """Give every sample at `wrong` the place of another one of them."""
    cycle = rng.permutation(wrong)
    place = np.arange(len(kernel))
    place[cycle] = np.roll(cycle, 1)
    kernel[:] = kernel[np.ix_(place, place)]


def _replace_similarities(kernel: np.ndarray, wrong: np.ndarray, rng: np.random.Generator) -> None:
    """Draw the similarities of the samples at `wrong` from all of them, and repair what results."""
    pairs = np.tril_indices(len(kernel), -1)
    values = kernel[pairs]
    replaced = wrong[pairs[0]] | wrong[pairs[1]]
    if not replaced.any():
        return
    drawn = np.where(replaced, rng.choice(values, size=len(values)), values)
    kernel[pairs] = kernel.T[pairs] = drawn
    eigenvalues, vectors = eigh(kernel)
    factor = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    factor /= np.linalg.norm(factor, axis=1, keepdims=True)
    kernel[:] = factor @ factor.T
    np.fill_diagonal(kernel, 1.0)


def _check_separations(separations: Sequence[float]) -> np.ndarray:
    values = finite_numbers("separations", separations)
    if values.ndim != 1 or not values.size or (values < 0).any() or values.max() > LARGEST:
        raise ValueError(
            f"`separations` must be a list of finite numbers >= 0, up to {LARGEST:g}, one for each view; "
            f"got {separations!r}. Pass (1.0, 0.0) for one view that tells the classes apart and one that does not."
        )
    return values


def _check_share(name: str, value: float) -> None:
    if not 0.0 <= check_number(name, value) <= 1.0:
        raise ValueError(f"`{name}` must be a part from 0 to 1; got {value!r}. Pass 0.5 for a half.")


def make_pathways(
    n_samples: int = 300,
    n_sets: int = 200,
    n_active: int = 5,
    n_genes: int = 2000,
    *,
    min_size: int = 10,
    max_size: int = 100,
    block_size: int = 40,
    correlation: float = 0.4,
    coherence: float = 0.5,
    signal: float = 0.5,
    task: str = "regression",
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    r"""Draw correlated genes in overlapping sets, and a target that depends on a few of the sets.

    .. math:: x_g = \sqrt{c}\,z_{b(g)} + \sqrt{1 - c}\,e_g, \qquad f = \sum_{s\ \text{active}} a_s
       \sum_{g \in s} w_{sg} x_g, \qquad w_{sg} \sim \mathcal{N}(0, 1)

    Genes come in blocks :math:`b(g)` that share a factor :math:`z_b`; factors, :math:`e_g` and weights are standard
    normal, and :math:`c` is the correlation within a block. A set takes a part of its genes from its own blocks, half
    of a block each, and the others from anywhere, popular genes more often. Sets therefore share genes, and sets that
    do not enter :math:`f` carry part of the information about the target.

    Parameters
    ----------
    n_samples : int, default=300
        Number of samples.
    n_sets : int, default=200
        Number of gene sets.
    n_active : int, default=5
        Number of sets that enter :math:`f`, drawn at random; 0 for a target of noise alone.
    n_genes : int, default=2000
        Number of genes, which are the columns of the data.
    min_size, max_size : int, default=10, 100
        Number of genes of the smallest and of the largest set; the logarithm of the size is uniform between them.
    block_size : int, default=40
        Number of genes in a block.
    correlation : float, default=0.4
        Correlation :math:`c` of two genes of a block, from 0 to 1.
    coherence : float, default=0.5
        Part of a set that follows blocks, from 0 (genes from anywhere) to 1.
    signal : float, default=0.5
        Fraction of the variance of the noisy score that is due to the score, from 0 to 1.
    task : {"regression", "classification"}, default="regression"
        Whether the target is the score with noise, or its sign.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, n_genes) and ``target``; ``views`` (name of a set -> sorted list of columns, usable as
        ``KernelBank(views=...)``); the truth: ``active`` (n_sets,) of bool, ``parts`` (n_active, n_samples) what each
        active set adds to the score, of equal variance, in the order of the sets, ``score`` (n_samples,) their sum,
        without noise and of variance `signal`, ``coef`` (n_genes,) so that ``data @ coef`` is the score;
        ``blocks`` (n_genes,) the block of each gene; and ``feature_names``, ``target_names``, ``DESCR``, ``name``.

    Raises
    ------
    ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    The scales :math:`a_s` are such that parts have the same variance in the sample and their sum has variance
    `signal`. The noise is normal with variance `1 - signal`; with ``task="classification"`` the probability of the
    label 1 is therefore :math:`\Phi(f / \sqrt{1 - \text{signal}})`, that of a probit model.

    Given its scale, a part is drawn from a Gaussian process with the linear kernel of the set.

    Examples
    --------
    >>> from bayesmkl.datasets import make_pathways
    >>> sample = make_pathways(100, n_sets=20, n_active=2, n_genes=300, max_size=40, random_state=0)
    >>> [name for name, active in zip(sample.views, sample.active) if active]
    ['set09', 'set14']
    >>> print(sample.score.var().round(3))
    0.5
    """
    check_integer("n_samples", n_samples, low=3)  # for parts not to cancel
    _check_counts(n_sets, n_active, n_genes, min_size, max_size, block_size)
    for name, part in (("correlation", correlation), ("coherence", coherence), ("signal", signal)):
        _check_share(name, part)
    check_choice("task", task, ("regression", "classification"))
    rng = generator_of("random_state", random_state)

    blocks = np.arange(n_genes) // block_size
    popularity = rng.exponential(size=n_genes)
    sizes = np.exp(rng.uniform(np.log(min_size), np.log(max_size + 1), size=n_sets)).astype(int)
    sets = [_draw_set(int(size), float(coherence), blocks, popularity, rng) for size in sizes]
    active = np.zeros(n_sets, dtype=bool)
    active[rng.choice(n_sets, size=n_active, replace=False)] = True

    factors = rng.standard_normal((n_samples, int(blocks[-1]) + 1))
    data = np.sqrt(correlation) * factors[:, blocks]
    data += np.sqrt(1.0 - correlation) * rng.standard_normal((n_samples, n_genes))
    coef = np.zeros((n_active, n_genes))
    for row, chosen in zip(coef, np.flatnonzero(active), strict=True):
        row[sets[chosen]] = rng.standard_normal(len(sets[chosen]))
    coef /= (data @ coef.T).std(axis=0)[:, None]
    if n_active:
        coef *= np.sqrt(signal) / (data @ coef.sum(axis=0)).std()
    parts = coef @ data.T
    score = parts.sum(axis=0)
    noisy = score + np.sqrt(1.0 - signal) * rng.standard_normal(n_samples)

    sample = Bunch(
        data=data,
        target=noisy if task == "regression" else np.where(noisy > 0, 1, -1),
        views={name: members.tolist() for name, members in zip(_names("set", n_sets), sets, strict=True)},
        active=active,
        parts=parts,
        score=score,
        coef=coef.sum(axis=0),
        blocks=blocks,
        feature_names=_names("gene", n_genes),
        DESCR="Correlated genes in overlapping sets, a few of which add linear functions to the score.",
        name="pathways",
    )
    if task == "classification":
        sample.target_names = np.array(["negative", "positive"])
    return sample


def _draw_set(
    size: int, coherence: float, blocks: np.ndarray, popularity: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the genes of a set: halves of blocks, as many as its coherent part fills, and genes from anywhere."""
    wanted, taken = round(coherence * size), np.zeros(len(blocks), dtype=bool)
    for block in rng.permutation(int(blocks[-1]) + 1):
        members = np.flatnonzero(blocks == block)
        n_taken = min(-(-len(members) // 2), wanted)
        taken[rng.choice(members, size=n_taken, replace=False)] = True
        wanted -= n_taken
        if not wanted:
            break
    free = np.flatnonzero(~taken)
    missing, odds = size - int(taken.sum()), popularity[free]
    if missing:
        taken[rng.choice(free, size=missing, replace=False, p=odds / odds.sum())] = True
    return np.flatnonzero(taken)


def _names(stem: str, count: int) -> list[str]:
    """Return names with numbers from 1 that sort as they count."""
    return [f"{stem}{i:0{len(str(count))}d}" for i in range(1, count + 1)]


def _check_counts(
    n_sets: int, n_active: int, n_genes: int, min_size: int, max_size: int, block_size: int
) -> None:
    check_integer("n_sets", n_sets, low=1)
    if check_integer("n_active", n_active, low=0) > n_sets:
        raise ValueError(f"`n_active` must be at most `n_sets` = {n_sets}; got {n_active}.")
    check_integer("n_genes", n_genes, low=1)
    check_integer("min_size", min_size, low=1)
    check_integer("block_size", block_size, low=1)
    if not min_size <= check_integer("max_size", max_size, low=1) <= n_genes:
        raise ValueError(
            f"`max_size` must lie between `min_size` = {min_size} and `n_genes` = {n_genes}; got {max_size}."
        )
