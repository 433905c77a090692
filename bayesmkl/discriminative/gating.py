r"""Gates: how strongly each kernel acts at each sample.

A localized kernel weighs its base kernels anew for every pair of samples (Moeller et al. 2016, section 3):

.. math:: K_\gamma(x, z) = \sum_m \Gamma_m(x, z) K_m(x, z), \qquad
   \Gamma_m(x, z) = \sum_r g_{rm}(x) \, g_{rm}(z) .

The functions :math:`g_{rm} \ge 0` are the components; with a single one the gating is separable. For every :math:`m`
the gating matrix :math:`\Gamma_m` is a sum of products :math:`g g^\top`, so that :math:`K_\gamma` is positive
semidefinite wherever the base kernels are (rank one for one component, hence not definite).

Gates that are learned together with an SVM (softmax, sigmoid and Gaussian functions of features, gates shared by
groups) are functions of a flat array of parameters, and `Gating` is what the learner needs to know of them. Features
are used as they are given: where they are measurements, standardize them first. Known gates have no parameters.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import check_integer, check_scale, shown
from bayesmkl.kernels.stacks.base import Stack

NARROWEST = 1e-6  # widths of Gaussian gates below this count as this
FAR = 10.0  # from the start, where `check_gating` looks at gates again
FINITE_STEP = 1e-6  # of the differences that `check_gating` compares a pullback with
ROUNDING = 1e-9
ALLOWED_ERROR = 1e-4  # of a pullback, relative to its largest entry

GATING = entries(
    """
    features:training : ndarray of shape
        Gating features of the training samples.
    features : ndarray of shape
        Gating features of the rows.
    n_kernels : int
        Number of kernels.
    rng : numpy.random.Generator
        Random generator.
    parameters : ndarray of shape
        Parameters of the gates.
    parameters:slopes : ndarray of shape
        Parameters at which the gradient was evaluated.
    slopes : ndarray of shape (n_kernels, n_rows)
        Derivatives of a number by the gates.
    """
)


@fill_docs(GATING)
class Gating(Protocol):
    """Interface of gates that are differentiable functions of a flat array of parameters.

    Gates must lie between 0 and 1 for all parameters. Without an upper bound the margin would grow with the gates
    forever, and the problem would have no solution. Gates without parameters need no upper bound.

    Examples
    --------
    Gates that fade with the distance from the origin, at a rate per kernel whose logarithm is learned:

    >>> import numpy as np
    >>> class Fading:
    ...     def init(self, features, n_kernels, rng):
    ...         return rng.normal(size=n_kernels)
    ...     def gates(self, parameters, features):
    ...         return np.exp(-np.outer(np.exp(parameters), (features**2).sum(axis=1)))
    ...     def pullback(self, parameters, features, slopes):
    ...         by_rate = -(slopes * self.gates(parameters, features)) @ (features**2).sum(axis=1)
    ...         return by_rate * np.exp(parameters)
    >>> check_gating(Fading(), np.array([[0.0, 1.0], [2.0, 0.5]]), 3, np.random.default_rng(0))
    """

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Draw parameters to start from.

        Parameters
        ----------
        %(features:training)s (n_samples, n_features)
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (n_parameters,)
            The parameters.
        """

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the gates at the rows of `features`.

        Parameters
        ----------
        %(parameters)s (n_parameters,)
        %(features)s (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            Between 0 and 1.
        """

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Carry slopes along the gates to the parameters, by the chain rule.

        Parameters
        ----------
        %(parameters:slopes)s (n_parameters,)
        %(features)s (n_rows, n_features)
        %(slopes)s

        Returns
        -------
        ndarray of shape (n_parameters,)
            Derivatives of that number by the parameters.
        """


@fill_docs(GATING)
class SoftmaxGating(NamedTuple):
    r"""Kernels compete: gates are the softmax of affine functions of the features.

    .. math:: \eta_m(x) = \frac{\exp(v_{m0} + v_m^\top x)}{\sum_h \exp(v_{h0} + v_h^\top x)}

    This is the gating of Gönen and Alpaydın (2008). Parameters are the rows :math:`(v_{m0}, v_m)`, one after the
    other. Adding the same row to all of them changes nothing.

    Parameters
    ----------
    init_scale : float, default=0.01
        Half width of the uniform distribution around zero that parameters start from; small values start from equal
        gates.

    References
    ----------
    M. Gönen and E. Alpaydın (2008), Localized multiple kernel learning, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> SoftmaxGating().gates(np.array([0.0, 0.0, 0.0, 1.0]), np.array([[0.0], [2.0]])).round(3)
    array([[0.5  , 0.119],
           [0.5  , 0.881]])
    """

    init_scale: float = 0.01

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Draw an intercept and coefficients for every kernel.

        Parameters
        ----------
        %(features:training)s (n_samples, n_features)
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (n_kernels * (1 + n_features),)
            The parameters.
        """
        scale, n_features = self.init_scale, features.shape[1]
        return rng.uniform(-scale, scale, size=n_kernels * (1 + n_features))

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return gates that sum to one at every row.

        Parameters
        ----------
        %(parameters)s (n_kernels * (1 + n_features),)
        %(features)s (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            Between 0 and 1; they sum to one at every row.
        """
        return _softmax(_affine(parameters, features))

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Apply the chain rule through softmax and affine functions.

        Parameters
        ----------
        %(parameters:slopes)s (n_kernels * (1 + n_features),)
        %(features)s (n_rows, n_features)
        %(slopes)s

        Returns
        -------
        ndarray of shape (n_kernels * (1 + n_features),)
            Derivatives of that number by the parameters.
        """
        return _pull_affine(_pull_softmax(self.gates(parameters, features), slopes), features)


@fill_docs(GATING)
class SigmoidGating(NamedTuple):
    r"""Kernels do not compete: each gate is a separate sigmoid.

    .. math:: \eta_m(x) = \frac{1}{1 + \exp(-v_{m0} - v_m^\top x)}

    Gates need not sum to one (Gönen and Alpaydın 2013). Parameters are as in `SoftmaxGating`.

    Parameters
    ----------
    init_scale : float, default=0.01
        Half width of the uniform distribution around zero that parameters start from; small values start from gates
        of one half.

    References
    ----------
    M. Gönen and E. Alpaydın (2013), Localized algorithms for multiple kernel learning, Pattern Recognition 46(3).

    Examples
    --------
    >>> import numpy as np
    >>> SigmoidGating().gates(np.array([0.0, 0.0, 0.0, 1.0]), np.array([[0.0], [2.0]])).round(3)
    array([[0.5  , 0.5  ],
           [0.5  , 0.881]])
    """

    init_scale: float = 0.01

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Draw an intercept and coefficients for every kernel.

        Parameters
        ----------
        %(features:training)s (n_samples, n_features)
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (n_kernels * (1 + n_features),)
            The parameters.
        """
        return SoftmaxGating(self.init_scale).init(features, n_kernels, rng)

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return gates between zero and one.

        Parameters
        ----------
        %(parameters)s (n_kernels * (1 + n_features),)
        %(features)s (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            Between 0 and 1.
        """
        return expit(_affine(parameters, features))

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Apply the chain rule through sigmoid and affine functions.

        Parameters
        ----------
        %(parameters:slopes)s (n_kernels * (1 + n_features),)
        %(features)s (n_rows, n_features)
        %(slopes)s

        Returns
        -------
        ndarray of shape (n_kernels * (1 + n_features),)
            Derivatives of that number by the parameters.
        """
        gates = self.gates(parameters, features)
        return _pull_affine(slopes * gates * (1.0 - gates), features)


@fill_docs(GATING)
class GaussianGating(NamedTuple):
    r"""Each kernel acts near its center: gates fall with the distance from it, normalized over kernels.

    .. math:: \eta_m(x) = \frac{\exp(-\|x - \mu_m\|^2 / s_m^2)}{\sum_h \exp(-\|x - \mu_h\|^2 / s_h^2)}

    This is the Gaussian gating of Gönen and Alpaydın (2013). Parameters are the rows :math:`(s_m, \mu_m)`, one after
    the other. Centers start between the mean and different samples, close to the mean. Gates are then nearly flat,
    and the optimization decides whether they should differ between two sides, or between the middle and both ends.
    Centers that start far apart would fix this in advance.

    Parameters
    ----------
    width : float, default=1.0
        Width :math:`s_m` to start from, in units of the features: the standard deviation times :math:`\sqrt 2`.
    spread : float, default=0.1
        Distance of the starting centers from the mean, as a fraction of the way to a sample; at most 1 (at the
        sample).

    References
    ----------
    M. Gönen and E. Alpaydın (2013), Localized algorithms for multiple kernel learning, Pattern Recognition 46(3).

    Examples
    --------
    >>> import numpy as np
    >>> GaussianGating().gates(np.array([1.0, 0.0, 1.0, 2.0]), np.array([[0.0], [1.0]])).round(3)
    array([[0.982, 0.5  ],
           [0.018, 0.5  ]])
    """

    width: float = 1.0
    spread: float = 0.1

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Put centers on the way to samples; with fewer samples than kernels some are chosen again.

        Parameters
        ----------
        %(features:training)s (n_samples, n_features)
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (n_kernels * (1 + n_features),)
            The parameters.
        """
        chosen = rng.choice(len(features), size=n_kernels, replace=n_kernels > len(features))
        mean = features.mean(axis=0)
        centers = mean + self.spread * (features[chosen] - mean)
        return np.column_stack([np.full(n_kernels, self.width), centers]).ravel()

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return gates that sum to one at every row.

        Parameters
        ----------
        %(parameters)s (n_kernels * (1 + n_features),)
        %(features)s (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            Between 0 and 1; they sum to one at every row.
        """
        widths, _, distances = self._places(parameters, features)
        return _softmax(-distances / widths**2)

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Apply the chain rule through softmax, widths and centers.

        Parameters
        ----------
        %(parameters:slopes)s (n_kernels * (1 + n_features),)
        %(features)s (n_rows, n_features)
        %(slopes)s

        Returns
        -------
        ndarray of shape (n_kernels * (1 + n_features),)
            Derivatives of that number by the parameters.
        """
        widths, centers, distances = self._places(parameters, features)
        pulled = _pull_softmax(_softmax(-distances / widths**2), slopes)
        by_width = 2.0 * (pulled * distances).sum(axis=1) / widths[:, 0] ** 3
        by_center = 2.0 * (pulled @ features - pulled.sum(axis=1)[:, None] * centers) / widths**2
        return np.column_stack([by_width, by_center]).ravel()

    @staticmethod
    def _places(parameters: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return widths (n_kernels, 1), centers (n_kernels, n_features), squared distances (n_kernels, n_rows)."""
        rows = parameters.reshape(-1, 1 + features.shape[1])
        widths, centers = rows[:, :1], rows[:, 1:]
        bounded = np.copysign(np.maximum(np.abs(widths), NARROWEST), widths)
        return bounded, centers, cdist(centers, features, "sqeuclidean")


@fill_docs(GATING)
class GroupGating(NamedTuple):
    r"""Samples of one group share their gates.

    .. math:: \eta_m(x) = \frac{\exp(u_{c(x) m})}{\sum_h \exp(u_{c(x) h})}

    Yang et al. (2009) give every group of samples its own kernel weights; :math:`c(x)` is the group of :math:`x`.
    The single feature is the number of the group. Parameters are the rows :math:`u_c`, one after the other. Gates of
    a group without training samples keep their starting values, close to equal.

    Parameters
    ----------
    n_groups : int
        Number of groups, which are numbered from zero.
    init_scale : float, default=0.01
        Half width of the uniform distribution around zero that parameters start from.

    References
    ----------
    Yang, J., Li, Y., Tian, Y., Duan, L. and Gao, W. (2009). Group-sensitive multiple kernel learning for object
    categorization. ICCV.

    Examples
    --------
    >>> import numpy as np
    >>> gates = GroupGating(n_groups=2).gates(np.array([0.0, 0.0, 0.0, 2.0]), np.array([[0], [1], [1]]))
    >>> gates.round(3)
    array([[0.5  , 0.119, 0.119],
           [0.5  , 0.881, 0.881]])
    """

    n_groups: int
    init_scale: float = 0.01

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Draw a number for every group and kernel.

        Parameters
        ----------
        features : ndarray of shape (n_samples, 1)
            Group numbers of the training samples.
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (n_groups * n_kernels,)
            The parameters.
        """
        return rng.uniform(-self.init_scale, self.init_scale, size=self.n_groups * n_kernels)

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return gates that sum to one at every row.

        Parameters
        ----------
        %(parameters)s (n_groups * n_kernels,)
        features : ndarray of shape (n_rows, 1)
            Group numbers of the rows.

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            Between 0 and 1; they sum to one at every row.

        Raises
        ------
        ValueError
            If `features` is not one column of group numbers below `n_groups`.
        """
        return self._group_gates(parameters)[:, self._groups(features)]

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Add up the slopes of every group, then apply the chain rule through the softmax.

        Parameters
        ----------
        %(parameters:slopes)s (n_groups * n_kernels,)
        features : ndarray of shape (n_rows, 1)
            Group numbers of the rows.
        %(slopes)s

        Returns
        -------
        ndarray of shape (n_groups * n_kernels,)
            Derivatives of that number by the parameters.

        Raises
        ------
        ValueError
            If `features` is not one column of group numbers below `n_groups`.
        """
        groups = self._groups(features)
        added = np.stack([np.bincount(groups, weights=row, minlength=self.n_groups) for row in slopes])
        return _pull_softmax(self._group_gates(parameters), added).T.ravel()

    def _group_gates(self, parameters: np.ndarray) -> np.ndarray:
        return _softmax(parameters.reshape(self.n_groups, -1).T)

    def _groups(self, features: np.ndarray) -> np.ndarray:
        groups = np.asarray(features)
        valid = groups.ndim == 2 and groups.shape[1] == 1
        if not valid or not np.isin(groups, np.arange(self.n_groups)).all():
            got = f"values from {groups.min()} to {groups.max()}" if groups.size else "no values"
            raise ValueError(
                f"Gating features must be one column of group numbers 0 to {self.n_groups - 1}; got {got} of shape "
                f"{groups.shape}. Number the groups from zero, do not standardize them, and count all in `n_groups`."
            )
        return groups[:, 0].astype(np.intp)


@fill_docs(GATING)
class FixedGating(NamedTuple):
    r"""Known gates: only the SVM is learned.

    Parameters
    ----------
    values : array-like of shape (n_kernels,), or callable
        Gates that are the same for all samples, or a function of features of shape (n_rows, n_features) that returns
        gates of shape (n_rows, n_kernels). They must be finite and at least 0. They have no upper bound, because
        nothing is learned.

    Examples
    --------
    Gate columns that are the gates themselves, for ``standardize=False``:

    >>> import numpy as np
    >>> gating = FixedGating(lambda features: features)
    >>> gating.gates(np.zeros(0), np.array([[1.0, 0.0], [0.2, 0.8]]))
    array([[1. , 0.2],
           [0. , 0.8]])
    """

    values: Any

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Check the gates of the training samples, and return no parameters.

        Parameters
        ----------
        %(features:training)s (n_samples, n_features)
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (0,)
            No parameters.

        Raises
        ------
        ValueError
            If a gate is negative or not finite, or gates do not have the shape (n_samples, n_kernels).
        """
        none = np.zeros(0)
        found = self.gates(none, features).T
        if found.shape[1] != n_kernels:
            raise ValueError(
                f"`values` of FixedGating must be gates of {n_kernels} kernels, the last axis; got "
                f"{found.shape[1]}. Give one gate for every kernel."
            )
        return none

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the given gates.

        Parameters
        ----------
        parameters : ndarray of shape (0,)
            Is not read.
        %(features)s (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            At least 0.

        Raises
        ------
        ValueError
            If a gate is negative or not finite, or a callable returns another shape than (n_rows, n_kernels).
        """
        if callable(self.values):
            return self._checked(np.asarray(self.values(features)), len(features)).T
        gates = np.asarray(self.values)
        return np.repeat(self._checked(gates[None] if gates.ndim == 1 else gates, 1).T, len(features), axis=1)

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return an empty gradient.

        Parameters
        ----------
        parameters : ndarray of shape (0,)
            Is not read.
        %(features)s (n_rows, n_features)
        %(slopes)s

        Returns
        -------
        ndarray of shape (0,)
            Nothing.
        """
        return np.zeros(0)

    @staticmethod
    def _checked(gates: np.ndarray, n_rows: int) -> np.ndarray:
        """Return gates of shape (n_rows, n_kernels), if that is what they are."""
        if gates.ndim != 2 or len(gates) != n_rows or gates.dtype.kind not in "biuf":
            raise ValueError(
                f"Gates of FixedGating must be an array of numbers of shape (n_rows, n_kernels), here {n_rows} rows; "
                f"got {gates.dtype} of shape {gates.shape}. Kernels are the last axis."
            )
        wrong = ~np.isfinite(gates) | (gates < 0.0)
        if wrong.any():
            row, kernel = np.argwhere(wrong)[0]
            raise ValueError(
                f"Gates of FixedGating must be finite numbers of at least 0; got {gates[row, kernel]:.6g} for kernel "
                f"{kernel} at row {row}. Clip or correct them."
            )
        return gates.astype(np.float64)


def equal_gates(n_kernels: int) -> FixedGating:
    r"""Return gates :math:`1/\sqrt P`, whose kernel is the mean of all kernels.

    Examples
    --------
    >>> equal_gates(4).values
    array([0.5, 0.5, 0.5, 0.5])
    """
    return FixedGating(np.full(n_kernels, n_kernels**-0.5))


def _affine(parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return intercept plus linear function for every kernel, shape (n_kernels, n_rows)."""
    rows = parameters.reshape(-1, 1 + features.shape[1])
    return rows[:, :1] + rows[:, 1:] @ features.T


def _pull_affine(slopes: np.ndarray, features: np.ndarray) -> np.ndarray:
    return np.column_stack([slopes.sum(axis=1), slopes @ features]).ravel()


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Return the softmax over kernels, the first axis."""
    powers = np.exp(logits - logits.max(axis=0))
    return powers / powers.sum(axis=0)


def _pull_softmax(gates: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Carry slopes by the gates to slopes by the logits."""
    return gates * (slopes - (gates * slopes).sum(axis=0))


def check_gating_parameters(gating: Gating) -> None:
    """Raise for wrong parameters of the gatings above; others are checked by their authors.

    Examples
    --------
    >>> check_gating_parameters(GaussianGating(width=0.0))
    Traceback (most recent call last):
    ...
    ValueError: `width` must be a finite number > 0; got 0.0.
    """
    if isinstance(gating, GaussianGating):
        check_scale("width", gating.width)
        if check_scale("spread", gating.spread) > 1.0:
            raise ValueError(
                f"`spread` must be at most 1, where centers start at samples; got {gating.spread:g}. Try 0.1."
            )
    if isinstance(gating, GroupGating):
        check_integer("n_groups", gating.n_groups, low=1)
    if isinstance(gating, SoftmaxGating | SigmoidGating | GroupGating):
        check_scale("init_scale", gating.init_scale, zero=True)


def check_gating(gating: Gating, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> None:
    """Raise unless the three methods of `gating` fit together.

    Parameters
    ----------
    gating : Gating
        An object with the methods `init`, `gates` and `pullback`.
    features : ndarray of shape (n_samples, n_features)
        Features to try the gates at.
    n_kernels : int
        Number of kernels.
    rng : numpy.random.Generator
        Draws the start and the directions of the checks.

    Raises
    ------
    ValueError
        If gates are of the wrong shape or leave the interval from 0 to 1, at the start or far from it, or if the
        pullback is not the derivative of the gates, by finite differences along a random direction.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.discriminative import SigmoidGating, check_gating
    >>> features = np.array([[0.0, 1.0], [2.0, 0.5]])
    >>> check_gating(SigmoidGating(), features, 3, np.random.default_rng(0))
    >>> class Halved(SigmoidGating):
    ...     def pullback(self, parameters, features, slopes):
    ...         return 0.5 * super().pullback(parameters, features, slopes)
    >>> check_gating(Halved(), features, 3, np.random.default_rng(0))
    Traceback (most recent call last):
    ...
    ValueError: `gating.pullback` must be the derivative of `gating.gates`; ...
    """
    parameters = np.asarray(gating.init(features, n_kernels, rng))
    if parameters.ndim != 1 or parameters.dtype.kind not in "iuf" or not np.isfinite(parameters).all():
        raise ValueError(
            f"`gating.init` must return a flat array of finite numbers; got shape {parameters.shape}. Flatten them."
        )
    if not parameters.size:
        _check_gates(gating.gates(parameters, features), (n_kernels, len(features)), highest=np.inf)
        return
    direction = rng.choice([-1.0, 1.0], size=parameters.size)
    for distance in (0.0, FAR, -FAR):
        _check_gates(gating.gates(parameters + distance * direction, features), (n_kernels, len(features)))
    slopes = rng.normal(size=(n_kernels, len(features)))
    pulled = np.asarray(gating.pullback(parameters, features, slopes))
    if pulled.dtype.kind not in "iuf" or pulled.shape != parameters.shape:
        raise ValueError(
            f"`gating.pullback` must return shape {parameters.shape}, as `gating.init` does, of numbers; got "
            f"{pulled.shape} of type {pulled.dtype}."
        )
    step = FINITE_STEP * direction
    ahead, behind = (gating.gates(parameters + sign * step, features) for sign in (1.0, -1.0))
    expected, found = float((slopes * (ahead - behind)).sum()) / 2.0, float(pulled @ step)
    if not abs(found - expected) <= ALLOWED_ERROR * FINITE_STEP * max(1.0, np.abs(pulled).sum()):
        raise ValueError(
            f"`gating.pullback` must be the derivative of `gating.gates`; along a random direction it gives "
            f"{found / FINITE_STEP:.6g}, finite differences {expected / FINITE_STEP:.6g}. It takes the slopes by the "
            "gates and returns the gradient by the parameters."
        )


def combine_components(stack: Stack, row_components: np.ndarray, train_components: np.ndarray) -> np.ndarray:
    r"""Return the localized kernel :math:`\sum_r \sum_m (g_{rm} g_{rm}^\top) \circ K_m`.

    Parameters
    ----------
    stack : Stack
    row_components : ndarray of shape (n_components, n_kernels, n_rows)
    train_components : ndarray of shape (n_components, n_kernels, n_train)

    Returns
    -------
    ndarray of shape (n_rows, n_train)

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl.kernels.stacks.dense import DenseStack
    >>> stack = DenseStack(np.stack([np.eye(2), np.ones((2, 2))]))
    >>> components = np.array([[[1.0, 0.0], [1.0, 2.0]]])
    >>> combine_components(stack, components, components)
    array([[2., 2.],
           [2., 4.]])
    """
    combined = stack.combine_gated(row_components[0], train_components[0])
    for row_gates, train_gates in zip(row_components[1:], train_components[1:], strict=True):
        combined += stack.combine_gated(row_gates, train_gates)
    return combined


def gating_matrix(row_components: np.ndarray, train_components: np.ndarray, kernel: int) -> np.ndarray:
    r"""Return :math:`\Gamma_m` between rows and training samples for the kernel at position `kernel`.

    Parameters
    ----------
    row_components : ndarray of shape (n_components, n_kernels, n_rows)
    train_components : ndarray of shape (n_components, n_kernels, n_train)
    kernel : int

    Returns
    -------
    ndarray of shape (n_rows, n_train)
    """
    return row_components[:, kernel].T @ train_components[:, kernel]


def gates_of_components(components: np.ndarray) -> np.ndarray:
    r"""Return :math:`\sqrt{\Gamma_m(x, x)}`: for one component the gates themselves.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_kernels, n_rows)

    Returns
    -------
    ndarray of shape (n_rows, n_kernels)
        Samples first.
    """
    return np.sqrt((components**2).sum(axis=0)).T


def _check_gates(gates: np.ndarray, shape: tuple[int, int], highest: float = 1.0 + ROUNDING) -> None:
    gates = np.asarray(gates)
    if gates.dtype.kind not in "biuf":
        raise ValueError(f"`gating.gates` must return numbers between 0 and 1; got {shown(gates)}.")
    if gates.shape != shape or not ((gates >= 0.0) & (gates <= highest)).all():
        values = f"values from {gates.min():.6g} to {gates.max():.6g}" if gates.size else "no values"
        raise ValueError(
            f"`gating.gates` must return numbers between 0 and 1 of shape (n_kernels, n_rows) = {shape}; got "
            f"{values} of shape {gates.shape}. Kernels come first; a sigmoid or a softmax keeps values in bounds."
        )
