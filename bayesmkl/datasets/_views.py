"""Synthetic data in several views with known answers: kernel weights, or the samples for which kernels are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from scipy.special import ndtr
from sklearn.utils import Bunch

from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.validation import LARGEST, check_choice, check_number, check_scale, generator_of
from bayesmkl.datasets._synthetic import check_n_samples

CORRUPTIONS = ("features", "kernels", "similarities")

_DIMENSION = 2  # features of a view
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

    The views :math:`x^{(m)} \sim \mathcal{N}(0, I)` are independent of one another, so a view of weight 0
    tells nothing about the target: a method that recovers the weights gives it none.

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    kernel_weights : sequence of float, default=(1.0, 0.5, 0.0, 0.0)
        Weight :math:`e_m` of each view's kernel, any sign, at least one not zero.
    n_features : int or sequence of int, default=2
        Features per view; one number for all or one for each.
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
    check_n_samples(n_samples)
    weights = _check_weights(kernel_weights)
    sizes = _check_sizes(n_features, len(weights))
    _check_options(n_samples, task, noise, intercept)
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


def _check_options(n_samples: int, task: str, noise: float, intercept: float | None) -> None:
    if n_samples < 2:
        raise ValueError(f"`n_samples` must be at least 2, for the score to vary; got {n_samples}.")
    check_choice("task", task, ("classification", "regression"))
    check_scale("noise", noise, zero=True)
    if intercept is not None:
        check_number("intercept", intercept)


def make_corrupted(
    n_samples: int = 200,
    *,
    corruption: str = "features",
    fraction: float = 0.2,
    separations: Sequence[float] = (1.0, 1.0, 0.7, 0.7, 0.5, 0.5, 0.0, 0.0),
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    r"""Draw one kernel per view, each of them useless for samples of its own.

    .. math:: x^{(m)} \mid y \sim \mathcal{N}(y\,a_m u_m, I), \qquad \|u_m\| = 1, \quad P(y = \pm 1) = 1/2,
       \qquad K_m(x, z) = \exp\{-\|x^{(m)} - z^{(m)}\|^2 / (2 d)\}

    with :math:`d = 2` features per view. Then every pair of a sample and a kernel is corrupted with the same
    probability, independently of all others, in one of three ways.

    * ``"features"``: the sample's features in that view get noise of standard deviation 3, and the kernel is
      computed from them.
    * ``"kernels"``: the kernel takes the sample for another one; the rows and columns of its corrupted samples
      are permuted among each other. Nothing but the labels can tell.
    * ``"similarities"``: the sample's similarities to all others are replaced by values drawn from the same
      kernel; the nearest positive semidefinite matrix is made of what results and scaled to a diagonal of ones.

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    corruption : {"features", "kernels", "similarities"}, default="features"
        Kind of corruption of a pair.
    fraction : float, default=0.2
        Probability of a pair to be corrupted, from 0 to 1.
    separations : sequence of float, default=(1.0, 1.0, 0.7, 0.7, 0.5, 0.5, 0.0, 0.0)
        Half the distance :math:`a_m` of the classes in each view, one or more numbers, zero for a view that tells
        nothing.
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
    check_n_samples(n_samples)
    halves = _check_separations(separations)
    _check_corruption(corruption, fraction)
    rng = generator_of("random_state", random_state)
    n_views = len(halves)

    target = rng.choice([-1, 1], size=n_samples)
    directions = rng.standard_normal((n_views, _DIMENSION))
    means = directions * (halves / np.linalg.norm(directions, axis=1))[:, None]  # a_m u_m
    clean = target[:, None, None] * means + rng.standard_normal((n_samples, n_views, _DIMENSION))
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
    names = [f"view{m}_{j}" for m in range(1, n_views + 1) for j in range(1, _DIMENSION + 1)]
    return Bunch(
        kernels=np.ascontiguousarray(kernels.transpose(1, 2, 0)),
        target=target,
        data=data.reshape(n_samples, -1),
        views={f"view{m + 1}": [_DIMENSION * m + j for j in range(_DIMENSION)] for m in range(n_views)},
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
    return np.exp(-np.array([cdist(view, view, "sqeuclidean") for view in views]) / (2 * _DIMENSION))


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


def _check_corruption(corruption: str, fraction: float) -> None:
    check_choice("corruption", corruption, CORRUPTIONS)
    if check_number("fraction", fraction, low=0.0, inclusive=True) > 1.0:
        raise ValueError(
            f"`fraction` must be a probability from 0 to 1; got {fraction!r}. Pass 0.2 for a fifth of all pairs."
        )
