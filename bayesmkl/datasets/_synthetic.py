"""Breiman's synthetic classification problems, drawn exactly as defined."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from bayesmkl._utils.validation import TOO_MANY, check_flag, generator_of, shown

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
    check_n_samples(n_samples)
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
    check_n_samples(n_samples)
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
    check_n_samples(n_samples)
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


def check_n_samples(n_samples: int) -> None:
    """Raise for a sample size that is not a positive integer."""
    is_count = isinstance(n_samples, int | np.integer) and not isinstance(n_samples, bool)
    if not is_count or not 1 <= n_samples < TOO_MANY:
        raise ValueError(
            f"`n_samples` must be a positive integer; got {shown(n_samples)}. Pass how many samples to draw."
        )


def _bunch(name, data, target, target_names, maker, **extra) -> Bunch:
    return Bunch(
        data=data,
        target=target,
        feature_names=[f"x{i}" for i in range(1, data.shape[1] + 1)],
        target_names=np.array(target_names),
        DESCR=maker.__doc__.splitlines()[0],
        name=name,
        **extra,
    )
