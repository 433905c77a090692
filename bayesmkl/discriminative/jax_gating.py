"""Gates by functions of JAX, with parameters to learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.validation import shown
from bayesmkl.discriminative.gating import GATING, check_given_gates


@fill_docs(GATING)
class JaxGating:
    r"""Gates by any function of JAX, which differentiates it.

    Parameters
    ----------
    init : callable
        Takes a numpy.random.Generator, the number of features and the number of kernels, and returns the parameters
        to start from: an array, or arrays in lists, tuples and dicts.
    apply : callable
        Takes such parameters and features of shape (n_rows, n_features), and returns gates between 0 and 1 of shape
        (n_rows, n_kernels), such as a softmax over the last axis. JAX compiles it.
    penalty : callable, default=None
        Takes such parameters and returns a number that is added to the objective, in which the SVM has
        :math:`\tfrac12 \sum_m \|w_m\|^2` and the losses; None adds nothing.

    Raises
    ------
    TypeError
        If one of them is not callable.

    Notes
    -----
    Everything is computed in double precision, whatever JAX is set to. Models with such gates are pickled where the
    functions can be; `save` does not write functions.

    Examples
    --------
    Gates by a small network, with weight decay:

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.datasets import make_localized
    >>> from bayesmkl.discriminative import JaxGating, LMKLClassifier
    >>> from bayesmkl.kernels import Gaussian
    >>> def init(rng, n_features, n_kernels):
    ...     return {"in": rng.normal(size=(n_features, 8)), "shift": rng.normal(size=8),
    ...             "out": 0.1 * rng.normal(size=(8, n_kernels))}
    >>> def apply(params, features):
    ...     return jax.nn.softmax(jnp.tanh(features @ params["in"] + params["shift"]) @ params["out"])
    >>> def decay(params):
    ...     return 0.05 * sum(jnp.sum(part**2) for part in params.values())
    >>> sample = make_localized(200, design="hours", random_state=0)
    >>> bank = KernelBank(Gaussian(width=2), views=sample.views)
    >>> gating = JaxGating(init, apply, decay)
    >>> model = LMKLClassifier(bank, gating=gating, gate_columns=sample.gate_columns).fit(sample.data, sample.target)
    >>> model.gates_.shape, model.gating_parameters_.shape
    ((200, 2), (32,))
    """

    def __init__(
        self,
        init: Callable[[np.random.Generator, int, int], Any],
        apply: Callable[[Any, Any], Any],
        penalty: Callable[[Any], Any] | None = None,
    ) -> None:
        for name, given in (("init", init), ("apply", apply), ("penalty", penalty)):
            if not callable(given) and not (name == "penalty" and given is None):
                raise TypeError(f"`{name}` of JaxGating must be callable; got {shown(given)}.")
        self._init, self._apply, self._penalty = init, apply, penalty
        self._like: dict[tuple[int, int], Any] = {}  # by numbers of features and of parameters

    def __repr__(self) -> str:
        names = [getattr(part, "__name__", repr(part)) for part in (self._init, self._apply, self._penalty)]
        return f"JaxGating({', '.join(names[: 2 if self._penalty is None else 3])})"

    def init(self, features: np.ndarray, n_kernels: int, rng: np.random.Generator) -> np.ndarray:
        """Draw parameters and make them flat, once the gates have the right shape.

        Parameters
        ----------
        %(features:training)s (n_samples, n_features)
        %(n_kernels)s
        %(rng)s

        Returns
        -------
        ndarray of shape (n_parameters,)
            The parameters.

        Raises
        ------
        ValueError
            If `init` returns no parameters or others than finite numbers, `apply` not gates between 0 and 1 of shape
            (n_samples, n_kernels), or `penalty` not a finite number.
        """
        from jax.tree_util import tree_flatten, tree_map

        n_features = features.shape[1]
        drawn = tree_map(np.asarray, self._init(rng, n_features, n_kernels))
        leaves, _ = tree_flatten(drawn)
        if not leaves or any(leaf.dtype.kind not in "iuf" or not np.isfinite(leaf).all() for leaf in leaves):
            raise ValueError(
                f"`init` of JaxGating must return arrays of finite numbers; got {shown(drawn)}. It takes a "
                "generator, the number of features and the number of kernels."
            )
        flat = np.concatenate([leaf.astype(np.float64).ravel() for leaf in leaves])
        self._like[n_features, flat.size] = drawn
        found = self.gates(flat, features).T
        if found.shape[1] != n_kernels:
            raise ValueError(
                f"`apply` of JaxGating must return gates of {n_kernels} kernels, shape (n_rows, n_kernels); got "
                f"{found.shape[1]}. `init` takes the number of kernels as its third argument."
            )
        value, _ = self.penalize(flat, n_features)
        if not np.isfinite(value):
            raise ValueError(f"`penalty` of JaxGating must return a finite number; got {value}.")
        return flat

    def gates(self, parameters: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Apply the function.

        Parameters
        ----------
        %(parameters)s (n_parameters,)
        %(features)s (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_rows)
            Between 0 and 1.

        Raises
        ------
        ValueError
            If the function does not return gates between 0 and 1 of shape (n_rows, n_kernels).
        """
        from bayesmkl._utils.devices import double_precision

        with double_precision():
            found = _compiled(self._apply)[0](self._tree(parameters, features.shape[1]), features)
        return check_given_gates("JaxGating", found, len(features), bounded=True).T

    def pullback(self, parameters: np.ndarray, features: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Let JAX apply the chain rule.

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
        from bayesmkl._utils.devices import double_precision

        with double_precision():
            tree = self._tree(parameters, features.shape[1])
            return _flat(_compiled(self._apply)[1](tree, features, slopes.T))

    def penalize(self, parameters: np.ndarray, n_features: int) -> tuple[float, np.ndarray]:
        """Return the penalty and its gradient.

        Parameters
        ----------
        parameters : ndarray of shape (n_parameters,)
            Parameters of the gates.
        n_features : int
            Number of features.

        Returns
        -------
        value : float
            What is added to the objective; 0 without a penalty.
        gradient : ndarray of shape (n_parameters,)
            Its derivatives by the parameters.
        """
        if self._penalty is None:
            return 0.0, np.zeros_like(parameters)
        from bayesmkl._utils.devices import double_precision

        with double_precision():
            value, gradient = _compiled_penalty(self._penalty)(self._tree(parameters, n_features))
            return float(value), _flat(gradient)

    def _tree(self, parameters: np.ndarray, n_features: int) -> Any:
        """Return flat parameters in the form in which `init` drew them."""
        from jax.tree_util import tree_flatten, tree_unflatten

        leaves, form = tree_flatten(self._like[n_features, parameters.size])
        ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
        parts = np.split(np.asarray(parameters, dtype=np.float64), ends)
        return tree_unflatten(
            form, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        )


@lru_cache(maxsize=16)
def _compiled(apply: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the function, and its gradient by the parameters of its product with slopes."""
    import jax

    def pulled(tree: Any, features: Any, slopes: Any) -> Any:
        return jax.vjp(lambda at: apply(at, features), tree)[1](slopes)[0]

    return jax.jit(apply), jax.jit(pulled)


@lru_cache(maxsize=16)
def _compiled_penalty(penalty: Callable[[Any], Any]) -> Callable[[Any], Any]:
    import jax

    return jax.jit(jax.value_and_grad(penalty))


def _flat(tree: Any) -> np.ndarray:
    from jax.tree_util import tree_leaves

    return np.concatenate([np.asarray(leaf, dtype=np.float64).ravel() for leaf in tree_leaves(tree)])
