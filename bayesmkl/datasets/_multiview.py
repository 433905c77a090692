"""Data in several views whose kernel weights are known."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import Bunch

from bayesmkl._utils.given import finite_numbers
from bayesmkl._utils.validation import LARGEST, check_choice, check_number, check_scale, generator_of
from bayesmkl.datasets._synthetic import check_n_samples

__all__ = ["make_multiview"]


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
