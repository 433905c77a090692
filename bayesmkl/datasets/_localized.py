"""Synthetic data whose right view depends on gate columns, with what is known about them."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr
from sklearn.utils import Bunch

from bayesmkl._utils.validation import check_choice, check_scale, generator_of
from bayesmkl.datasets._synthetic import check_n_samples

# Names of the views and of the gate columns.
DESIGNS = {
    "hours": (("camera", "infrared"), ("hour",)),
    "halves": (("left", "right"), ("position",)),
    "regions": (("first", "second", "third"), ("east", "north")),
    "global": (("left", "right"), ("position",)),
}
_DIMENSION = 2  # features of a view


def make_localized(
    n_samples: int = 200,
    *,
    design: str = "hours",
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    r"""Draw samples whose label one view tells here and another one there, as gate columns say.

    .. math:: f = \sum_m \eta_m(g)\, x^{(m)}_1, \qquad y = \operatorname{sign}(f + \sigma\epsilon)

    Views of two features, :math:`x^{(m)} \sim \mathcal{N}(0, I)`, are independent of one another and of the gate
    columns :math:`g`, and :math:`\eta_m(g)` is one for a single view and zero for the others. No view, and no global
    weights of views, can tell the label everywhere.

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    design : {"hours", "halves", "regions", "global"}, default="hours"
        * "hours": a camera tells from 6 to 18 o'clock, an infrared sensor at other hours, which are uniform from 0 to
          24. There are two changes.
        * "halves": one view tells left of zero, another one right of it, on a line from -1 to 1.
        * "regions": three views in three sectors of equal angle of the square from -1 to 1, two gate columns.
        * "global": nothing is local. Both views tell everywhere, :math:`\eta_m = 1/\sqrt 2`, and the gate column
          tells nothing.
    noise : float, default=0.1
        Standard deviation :math:`\sigma` of the noise; the score :math:`f` has one.
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
    The score is standard normal in every design, so that the best classifier, its sign, is right with probability
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
    check_n_samples(n_samples)
    check_choice("design", design, tuple(DESIGNS))
    check_scale("noise", noise, zero=True)
    rng = generator_of("random_state", random_state)

    names, gate_names = DESIGNS[design]
    gate_features = rng.uniform(-1.0, 1.0, size=(n_samples, len(gate_names)))
    if design == "hours":
        gate_features = 12.0 * (gate_features + 1.0)
    views = rng.standard_normal((n_samples, len(names), _DIMENSION))
    gates = _gates(design, gate_features, len(names))
    score = np.einsum("im,im->i", gates, views[:, :, 0])
    noisy = score + noise * rng.standard_normal(n_samples)
    probability = ndtr(score / noise) if noise > 0.0 else np.heaviside(score, 0.5)
    n_features = _DIMENSION * len(names)
    return Bunch(
        data=np.hstack([views.reshape(n_samples, n_features), gate_features]),
        target=np.where(noisy > 0, 1, -1),
        views={name: list(range(_DIMENSION * m, _DIMENSION * (m + 1))) for m, name in enumerate(names)},
        gate_columns=list(range(n_features, n_features + len(gate_names))),
        gates=gates,
        score=score,
        probability=probability,
        bayes_accuracy=float(1.0 - np.arctan(noise) / np.pi),
        feature_names=[*(f"{name} {j}" for name in names for j in range(1, _DIMENSION + 1)), *gate_names],
        target_names=np.array(["negative", "positive"]),
        DESCR="Independent views, one of which tells the label where gate columns say so.",
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
