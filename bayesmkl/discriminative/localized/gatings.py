r"""Gates that are learned (softmax, sigmoid and Gaussian functions of features, gates shared by groups) or known.

All implement the protocol `Gating` over a flat array of parameters. Features are used as they are given: where they
are measurements, standardize them first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import check_integer, check_scale
from bayesmkl.discriminative.gating import GATING, check_given_gates

if TYPE_CHECKING:
    from bayesmkl.discriminative.gating import Gating


NARROWEST = 1e-6  # widths of Gaussian gates below this count as this


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
        return _draw_affine(features, n_kernels, self.init_scale, rng)

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
    r"""Kernels do not compete: each gate is a sigmoid of its own.

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
        return _draw_affine(features, n_kernels, self.init_scale, rng)

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
    r"""Each kernel has a place: gates fall with the distance from its center, normalized over kernels.

    .. math:: \eta_m(x) = \frac{\exp(-\|x - \mu_m\|^2 / s_m^2)}{\sum_h \exp(-\|x - \mu_h\|^2 / s_h^2)}

    This is the Gaussian gating of Gönen and Alpaydın (2013). Parameters are the rows :math:`(s_m, \mu_m)`, one after
    the other. Centers start between the mean and different samples, close to the mean: gates are then nearly flat,
    and descent finds out whether they should differ from one side to the other or from the middle to both ends.
    Centers that start far apart decide it before.

    Parameters
    ----------
    width : float, default=1.0
        Width :math:`s_m` to start from, in units of the features: the standard deviation times :math:`\sqrt 2`.
    spread : float, default=0.1
        How far from the mean centers start, as a part of the way to a sample, at most 1, which is at the sample.

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

    Yang et al. (2009) give every group of samples kernel weights of its own; :math:`c(x)` is the group of :math:`x`.
    The single feature is the number of the group. Parameters are the rows :math:`u_c`, one after the other. Gates of
    a group without training samples stay where they started, close to equal.

    Parameters
    ----------
    n_groups : int
        How many groups there are; they are numbered from zero.
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
    r"""Gates that are known: nothing is learned but the SVM.

    Parameters
    ----------
    values : array-like of shape (n_kernels,), or callable
        Gates that are the same for all samples, or a function of features of shape (n_rows, n_features) that returns
        gates of shape (n_rows, n_kernels). Finite and at least 0; as nothing is learned, there is no upper bound.

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
        """Return no parameters, once the gates of the training samples are what they should be.

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
            return check_given_gates("FixedGating", self.values(features), len(features), bounded=False).T
        gates = np.asarray(self.values)
        whole = gates[None] if gates.ndim == 1 else gates
        return np.repeat(check_given_gates("FixedGating", whole, 1, bounded=False).T, len(features), axis=1)

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return the derivatives by no parameters.

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


def equal_gates(n_kernels: int) -> FixedGating:
    r"""Return gates :math:`1/\sqrt P`, whose kernel is the mean of all kernels.

    Examples
    --------
    >>> equal_gates(4).values
    array([0.5, 0.5, 0.5, 0.5])
    """
    return FixedGating(np.full(n_kernels, n_kernels**-0.5))


def _draw_affine(features: np.ndarray, n_kernels: int, scale: float, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-scale, scale, size=n_kernels * (1 + features.shape[1]))


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
