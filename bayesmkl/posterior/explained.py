r"""What views and kernels add to the outcome: the size of their effects, and the variance that they explain.

In a draw of the posterior, with the parts :math:`f_m` of a score :math:`f = \sum_m f_m` over the training rows, the
effect of part `m` is the standard deviation of :math:`f_m` over the rows, and it explains

.. math:: E_m = \frac{\operatorname{Cov}(f_m, f)}{\operatorname{Var} f + \sigma^2}, \qquad
   \sum_m E_m = R^2 = \frac{\operatorname{Var} f}{\operatorname{Var} f + \sigma^2} ,

of the variance of the outcome, with the variance :math:`\sigma^2` of the noise in units of the score (Gelman,
Goodrich, Gabry and Vehtari 2019). Of labels and grades that is the variance of the latent noise, of counts the
observation-level variance of the log rate (Nakagawa, Johnson and Schielzeth 2017), of times that of the log time.
Shares, :math:`E_m / R^2`, sum to one even if the score is worth nothing.

References: A. Gelman, B. Goodrich, J. Gabry and A. Vehtari (2019), R-squared for Bayesian regression models, The
American Statistician 73. S. Nakagawa, P. C. D. Johnson and H. Schielzeth (2017), The coefficient of determination R²
and intra-class correlation coefficient from generalized linear mixed-effects models revisited and expanded, Journal
of the Royal Society Interface 14.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesmkl.bemkl.draws import PosteriorDraws, score_scales, share_of_each
from bayesmkl.bemkl.reading import draw_new_parts
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.outcomes.base import TARGET
from bayesmkl.posterior.fitted import FittedBEMKL, evenly

N_DRAWS = 200  # from a variational posterior
BLOCK_ENTRIES = 2**23  # of parts that are held at once


class Explained(NamedTuple):
    """Draws of one model; groups are views or kernels, after them come their sum and the noise.

    Attributes
    ----------
    effect : ndarray of shape (n_draws, n_groups + 2)
        Standard deviations over the training rows, in units of the outcome; root mean squares over several outputs
        that share their kernel weights.
    explained : ndarray of shape (n_draws, n_groups + 2)
        Parts of the variance of the outcome; those of the sum and the noise add up to one.
    share : ndarray of shape (n_draws, n_groups)
        Parts of the score.
    """

    effect: np.ndarray
    explained: np.ndarray
    share: np.ndarray


def explained_draws(
    fitted: FittedBEMKL,
    groups: list[str],
    n_draws: int | None = None,
    rng: np.random.Generator | None = None,
    kernels: ArrayLike | None = None,
) -> list[Explained]:
    """Return draws of effects and of explained variance, one `Explained` per model.

    Parameters
    ----------
    fitted : FittedBEMKL
        Not of a multitask model.
    groups : list of str
        View of every kernel, or its name.
    n_draws : int, optional
        See `FittedBEMKL.draws`; None takes 200 draws from a variational posterior.
    rng : numpy.random.Generator, optional
    kernels : array-like, optional
        See `FittedBEMKL.training_stack`.
    """
    names = list(dict.fromkeys(groups))
    member = np.array([[own == name for name in names] for own in groups], dtype=float)
    if fitted.is_marginal:
        return [_of_process(fitted, member, n_draws)]
    stack = fitted.training_stack(kernels)
    n_draws = N_DRAWS if n_draws is None and fitted.inference == "vb" else n_draws
    draws = fitted.draws(n_draws, np.random.default_rng(0) if rng is None else rng)
    return [_of_bemkl(fitted, k, stack, own.flat(), member) for k, own in enumerate(draws)]


def noise_variances(fitted: FittedBEMKL) -> np.ndarray:
    """Return variances of the noise in units of the score, (n_draws, n_outputs), of an additive Gaussian process."""
    draws: HyperDraws = fitted.states[0]
    likelihood, own = fitted.estimator.likelihood_, np.moveaxis(draws.parameters[draws.point], -1, 0)
    targets = fitted.estimator._targets_of_outputs()
    return np.stack([likelihood.noise_variance(y, own[..., k]) for k, y in enumerate(targets)], axis=-1)


def _of_process(fitted: FittedBEMKL, member: np.ndarray, n_draws: int | None) -> Explained:
    draws: HyperDraws = fitted.states[0]
    chosen, (n_kernels, n_groups) = evenly(draws.n_draws, n_draws), member.shape
    first = 0 if n_groups == n_kernels else n_kernels
    variances, noise = draws.variances[chosen].mean(axis=1), noise_variances(fitted)[chosen].mean(axis=1)
    own = np.column_stack([variances[:, first : first + n_groups], variances[:, -1]])
    units = fitted.estimator._score_units()
    return _in_units(own, noise, draws.shares[chosen] @ member, None, units)


def _of_bemkl(
    fitted: FittedBEMKL, k: int, stack: Any, draws: PosteriorDraws, member: np.ndarray
) -> Explained:
    estimator, outputs = fitted.estimator, draws.outputs()
    n_draws, n_entries = len(draws.kernel_weights), len(outputs) * len(member) * stack.n_rows
    shape = n_draws, member.shape[1] + 1
    variances, covariances, rng = np.empty(shape), np.empty(shape), np.random.default_rng(0)
    step = max(1, BLOCK_ENTRIES // n_entries)
    source = None if fitted.is_drawn else fitted.states[k]
    for first in range(0, n_draws, step):
        here = slice(first, first + step)
        few = draws.map(lambda values, here=here: values[here])
        of_kernels = draw_new_parts(stack, few, 0.0, rng, source)[:, :, :-1]  # the intercept has no variance
        parts = np.einsum("domi,mg->dogi", of_kernels, member)
        parts = np.concatenate([parts, parts.sum(axis=2, keepdims=True)], axis=2)
        parts -= parts.mean(axis=-1, keepdims=True)
        variances[here] = (parts**2).mean(axis=(1, 3))
        covariances[here] = (parts * parts[:, :, -1:]).mean(axis=(1, 3))
    scale = getattr(estimator, "intermediate_scale_", None)
    precision = None if scale is None else 1.0 / scale**2
    noise = np.mean([score_scales(own, precision) ** 2 for own in outputs], axis=0)
    units = np.array(
        [fitted.units(o)[1] for o in range(len(outputs))] if len(fitted.states) == 1 else [fitted.units(k)[1]]
    )
    if fitted.outcome == "times":
        units = units * estimator.log_time_scale_
    share = share_of_each(stack, draws) @ member
    return _in_units(variances, noise, share, covariances, units)


def _in_units(
    variances: np.ndarray,
    noise: np.ndarray,
    share: np.ndarray,
    covariances: np.ndarray | None,
    units: np.ndarray,
) -> Explained:
    """Put sizes together; `covariances` of groups with the score follow from shares where they are not given."""
    total = variances[:, -1:]
    whole = total + noise[:, None]
    covariances = np.column_stack([share * total, total]) if covariances is None else covariances
    unit = units[0] if np.allclose(units, units[0]) else 1.0  # standard deviations of targets in other units
    effect = unit * np.sqrt(np.column_stack([variances, noise]))
    return Explained(effect, np.column_stack([covariances / whole, noise / whole[:, 0]]), share)


def unit_of(fitted: FittedBEMKL) -> str:
    """Say in which units effects are."""
    outcome = (
        fitted.estimator.likelihood_ if fitted.is_marginal else fitted.problems_without_kernels()[0].outcome
    )
    several = len(fitted.states) == 1 and fitted.output_names is not None
    if outcome.unit == TARGET and (several or fitted.has_tasks):
        return "standard deviations of the target" + " within tasks" * fitted.has_tasks
    return str(outcome.unit)
