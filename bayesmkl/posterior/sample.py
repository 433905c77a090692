"""Draws from the variational posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl._numerics.validation import check_integer
from bayesmkl.bemkl._moments import Gamma
from bayesmkl.posterior.fitted import fitted_bemkl

__all__ = ["sample_posterior"]


def sample_posterior(
    model: Any, n_draws: int = 1000, random_state: int | np.random.Generator | None = None
) -> dict[str, np.ndarray]:
    """Draw parameters from the posterior of a fitted BEMKL model.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier or BEMKLRegressor, or a Pipeline or search that ends in one.
    n_draws : int, default=1000
        Number of draws.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or source of the draws.

    Returns
    -------
    dict of str to ndarray
        The draw is the first axis. With more than two classes, each a model of its own against the rest, the
        class is the second.

        * ``kernel_weights`` (n_draws, n_kernels) and ``intercept`` (n_draws,): e and b, drawn jointly;
        * ``dual_coef`` (n_draws, n_train): a, the weights of the training samples;
        * ``kernel_precision`` (n_draws, n_kernels), ``intercept_precision`` (n_draws,) and ``sample_precision``
          (n_draws, n_train): the precisions ω, γ and λ of their priors;
        * ``intermediate_precision`` and ``noise_precision`` (n_draws,): υ and ε, in regression only.

    Notes
    -----
    The variational posterior is a product of factors: (b, e) are drawn jointly, but independently of a and of all
    precisions. Correlations between a and e that the exact posterior has are missing by construction. Weights are
    identified up to a common change of sign of e and a; the variational posterior is one of the two mirror images.

    Examples
    --------
    >>> from bayesmkl import BEMKLRegressor, KernelBank
    >>> from bayesmkl.posterior import sample_posterior
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 12)[:, None]
    >>> model = BEMKLRegressor(KernelBank(["rbf", "linear"])).fit(X, 2 * X[:, 0])
    >>> draws = sample_posterior(model, n_draws=500, random_state=0)
    >>> draws["kernel_weights"].shape, draws["dual_coef"].shape
    ((500, 2), (500, 12))
    """
    n_draws = check_integer("n_draws", n_draws, low=1)
    rng = np.random.default_rng(random_state)
    fitted = fitted_bemkl(model)
    per_state = [_draw_state(state, n_draws, rng) for state in fitted.states]
    if fitted.class_names is None:
        return per_state[0]
    return {name: np.stack([draws[name] for draws in per_state], axis=1) for name in per_state[0]}


def _draw_state(state: Any, n_draws: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    readout = state.readout.draw(n_draws, rng)
    draws = {
        "kernel_weights": readout[:, 1:],
        "intercept": readout[:, 0],
        "dual_coef": state.dual.draw(n_draws, rng),
    }
    for name, factor in state._asdict().items():
        if isinstance(factor, Gamma):
            draws[name] = _draw_gamma(factor, n_draws, rng)
    return draws


def _draw_gamma(factor: Gamma, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    rate = np.asarray(factor.rate)
    return rng.gamma(np.asarray(factor.concentration), 1.0 / rate, size=(n_draws, *rate.shape))
