"""Parts of BEMKL's scores at new samples: what every kernel adds, ``e_m g_m``, intermediate noise included."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesmkl.bemkl.models.absent_views import completion, view_moments, view_patterns
from bayesmkl.bemkl.reading.draws import PosteriorDraws
from bayesmkl.bemkl.reading.predict import expected_outputs
from bayesmkl.kernels.stacks.base import KernelRows


def mean_new_parts(stack: KernelRows, posterior: Any) -> np.ndarray:
    """Return posterior means of the parts of the scores of new rows, (n_outputs, n_kernels + 1, n_rows).

    The last part is the intercept.

    Parameters
    ----------
    stack : KernelRows
        Kernels of new rows against the training samples.
    posterior : PosteriorDraws or a variational posterior
    """
    if isinstance(posterior, PosteriorDraws):
        draws = posterior.flat()
        parts = np.stack([np.asarray(stack.apply(dual[..., None])) for dual in mean_duals(draws)])
        intercept = np.array([own.intercept.mean() for own in draws.outputs()])
    else:
        duals = posterior.dual
        if duals.mean.ndim == 1:
            duals = duals._replace(mean=duals.mean[None])
        n_outputs = len(duals.mean)
        intercept, weights = np.split(np.asarray(posterior.readout.mean), [n_outputs])
        parts = weights[:, None] * expected_outputs(stack, duals, view_moments(posterior))
    return _with_intercept(parts, intercept)


def mean_duals(draws: PosteriorDraws) -> np.ndarray:
    """Return mean weights of training samples in the part of every kernel, (n_outputs, n_kernels, n_train).

    Parameters
    ----------
    draws : PosteriorDraws
        With one leading axis.
    """
    outputs = draws.outputs()
    return np.stack([np.einsum("dm,di->mi", own.kernel_weights, own.dual) / len(own.dual) for own in outputs])


def draw_new_parts(
    stack: KernelRows,
    draws: PosteriorDraws,
    intermediate_variance: float | None,
    rng: np.random.Generator,
    posterior: Any = None,
) -> np.ndarray:
    """Draw the parts of the scores of new rows, (n_draws, n_outputs, n_kernels + 1, n_rows).

    Parameters
    ----------
    stack : KernelRows
        Kernels of new rows against the training samples.
    draws : PosteriorDraws
        With one leading axis.
    intermediate_variance : float or None
        1/υ: σ_g² of a classifier; None in regression, where υ is drawn.
    rng : numpy.random.Generator
    posterior : variational posterior, optional
        Of which these are draws: it has the moments by which absent views are drawn.
    """
    moments = None if posterior is None else view_moments(posterior)
    stack = stack if moments is None else moments.centered(stack)
    found = []
    for c, own in enumerate(draws.outputs()):
        variance = intermediate_variance
        std = np.sqrt(1.0 / own.intermediate_precision if variance is None else [variance])
        outputs = np.moveaxis(np.asarray(stack.apply(own.dual.T)), -1, 0)  # (n_draws, n_kernels, n_rows)
        outputs = outputs + std[:, None, None] * rng.standard_normal(outputs.shape)
        if moments is not None and stack.present is not None:
            patterns, index = view_patterns(np.asarray(stack.present))
            law = completion(patterns, moments.cov)
            for number in np.unique(index):
                rows = np.flatnonzero(index == number)
                around = outputs[..., rows] - moments.mean[c, :, None]
                values, vectors = np.linalg.eigh(law.cov[c, number])
                root = vectors * np.sqrt(np.maximum(values, 0.0))
                noise = root @ rng.standard_normal(around.shape)
                outputs[..., rows] = law.slope[c, number] @ around + moments.mean[c, :, None] + noise
        found.append(own.kernel_weights[..., None] * outputs)
    parts = np.stack(found, axis=1)
    return _with_intercept(parts, np.stack([own.intercept for own in draws.outputs()], axis=1))


def _with_intercept(parts: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Append the intercept, (..., n_outputs), to parts of shape (..., n_outputs, n_kernels, n_rows)."""
    last = np.broadcast_to(intercept[..., None, None], (*parts.shape[:-2], 1, parts.shape[-1]))
    return np.concatenate([parts, last], axis=-2)
