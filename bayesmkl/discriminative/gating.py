r"""Gates: how strongly each kernel acts at each sample.

A localized kernel weighs its base kernels anew for every pair of samples (Moeller et al. 2016, section 3):

.. math:: K_\gamma(x, z) = \sum_m \Gamma_m(x, z) K_m(x, z), \qquad
   \Gamma_m(x, z) = \sum_r g_{rm}(x) \, g_{rm}(z) .

The functions :math:`g_{rm} \ge 0` are the components; with a single one the gating is separable. For every :math:`m`
the gating matrix :math:`\Gamma_m` is a sum of products :math:`g g^\top`, so that :math:`K_\gamma` is positive
semidefinite wherever the base kernels are (rank one for one component, hence not definite).

Gates that are learned together with an SVM are functions of parameters, and `Gating` is what the learner needs to
know of them. Others are found before it, from kernels and labels: `KernelGating`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl._utils.docstrings import entries, fill_docs
from bayesmkl._utils.validation import shown
from bayesmkl.kernels.stacks.base import Stack

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
    """Gates as differentiable functions of a flat array of parameters.

    Gates lie between 0 and 1 whatever the parameters are: without an upper bound the margin would grow with the gates
    forever, and there would be nothing to find. Gates without parameters need no upper bound.

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
        ...

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
        ...

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
        ...


@runtime_checkable
class PenalizedGating(Gating, Protocol):
    """Gates whose parameters have a penalty of their own."""

    def penalize(self, parameters: np.ndarray, n_features: int) -> tuple[float, np.ndarray]:
        """Return what is added to the objective, and its gradient of shape (n_parameters,)."""
        ...


@runtime_checkable
class KernelGating(Protocol):
    """Gates that are found before the SVM that reads them, from kernels and labels.

    Examples
    --------
    Where a kernel is large against the training samples on average, it counts:

    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.datasets import make_localized
    >>> from bayesmkl.discriminative import LMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> class NearTheMiddle:
    ...     def fit(self, features, kernels, target):
    ...         return self
    ...     def values(self, features, kernels):
    ...         return np.stack([kernel.mean(axis=1).clip(min=0.0) for kernel in kernels.each()])
    >>> sample = make_localized(120, design="global", random_state=0)
    >>> bank = KernelBank(Gaussian(width=2), sample.views)
    >>> model = LMKLClassifier(bank, gating=NearTheMiddle()).fit(sample.data, sample.target)
    >>> model.gates().shape, bool(model.score(sample.data, sample.target) > 0.85)
    ((120, 2), True)
    """

    def fit(self, features: np.ndarray | None, kernels: Stack, target: np.ndarray) -> KernelGating:
        """Find the gates, and return an object that has them; this one stays as it is.

        Parameters
        ----------
        features : ndarray of shape (n_samples, n_features) or None
            Gating features of the training samples; None where none were named.
        kernels : Stack
            Training kernels; ``kernels.each()`` are the matrices, (n_samples, n_samples).
        target : ndarray of shape (n_samples,)
            Labels -1 and +1.

        Returns
        -------
        KernelGating
            The fitted gates.
        """
        ...

    def values(self, features: np.ndarray | None, kernels: Stack) -> np.ndarray:
        """Return the gates at rows.

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_features) or None
            Gating features of the rows.
        kernels : Stack
            Kernels between the rows and the training samples; ``kernels.each()`` are the matrices, (n_rows,
            n_samples).

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            Finite and at least 0.
        """
        ...


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


def check_given_gates(name: str, given: ArrayLike, n_rows: int, bounded: bool) -> np.ndarray:
    """Return gates of shape (n_rows, n_kernels) that users gave.

    Parameters
    ----------
    name : str
        Class that they were given to.
    given : array-like
        What was given.
    n_rows : int
        Number of rows there must be.
    bounded : bool
        Whether gates must be at most 1.

    Raises
    ------
    ValueError
        If the shape is another one, or gates are not finite or out of bounds.
    """
    gates, bounds = np.asarray(given), "between 0 and 1" if bounded else "of at least 0"
    if gates.ndim != 2 or len(gates) != n_rows or gates.dtype.kind not in "biuf":
        raise ValueError(
            f"Gates of {name} must be an array of numbers of shape (n_rows, n_kernels), here {n_rows} rows; got "
            f"{gates.dtype} of shape {gates.shape}. Kernels are the last axis."
        )
    gates = gates.astype(np.float64)
    wrong = ~np.isfinite(gates) | (gates < 0.0) | (gates > (1.0 + ROUNDING if bounded else np.inf))
    if wrong.any():
        row, kernel = np.argwhere(wrong)[0]
        remedy = "A sigmoid or a softmax keeps values in bounds." if bounded else "Clip or correct them."
        raise ValueError(
            f"Gates of {name} must be finite numbers {bounds}; got {gates[row, kernel]:.6g} for kernel {kernel} at "
            f"row {row}. {remedy}"
        )
    return gates
