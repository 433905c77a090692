"""Parts of the scores of new samples, of whatever model: posterior means, and draws where there are some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bayesmkl._utils.threads import blas_threads_for
from bayesmkl.bemkl import reading as of_bemkl
from bayesmkl.discriminative.estimators.base import BaseDiscriminative
from bayesmkl.gp import parts as of_processes
from bayesmkl.gp.effects import DesignRows
from bayesmkl.gp.reading import HyperDraws
from bayesmkl.posterior.fitted import FittedBEMKL, evenly

BLOCK_ENTRIES = 2**23  # of the draws that are held at once


class PartNames(NamedTuple):
    """Names of parts, what each is, and the kernels of the first of them, (n_groups, n_kernels) of bool."""

    names: list[str]
    kinds: list[str]
    groups: np.ndarray


class ScoreParts(NamedTuple):
    """Parts of the scores of some rows, in units of the user.

    Attributes
    ----------
    mean : ndarray of shape (n_outputs, n_parts, n_rows)
    draws : ndarray of shape (n_draws, n_outputs, n_parts, n_rows), or None
    """

    mean: np.ndarray
    draws: np.ndarray | None = None


def parts_of_process(
    fitted: FittedBEMKL, X: Any, named: PartNames, n_draws: int, rng: np.random.Generator
) -> Iterator[ScoreParts]:
    """Yield the parts of the scores of blocks of rows, of an additive Gaussian process.

    Parameters
    ----------
    fitted : FittedBEMKL
    X : samples
        As the estimator takes them.
    named : PartNames
        Kernels, the intercept, covariates and terms of the design, and the offset, where there is one.
    n_draws : int
        At most this many of the draws, at even distances.
    rng : numpy.random.Generator
    """
    estimator = fitted.estimator
    X = estimator._validate_rows(X)
    draws: HyperDraws = fitted.states[0]
    chosen = evenly(draws.n_draws, n_draws)
    covariance, blocks = estimator._covariance_and_rows(X)
    location, scale = _units(estimator, X)
    offsets = np.broadcast_to(estimator._offsets(X), location.shape)
    n_outputs, first = draws.parameters.shape[1], 0
    size = max(1, BLOCK_ENTRIES // (len(chosen) * n_outputs * len(named.names)))
    with blas_threads_for(covariance.stack.n_train):
        for kernels, diagonal, design_rows in blocks:
            for begin in range(0, kernels.n_rows, size):
                few = np.arange(begin, min(begin + size, kernels.n_rows))
                rows, of_design = kernels.rows(few), _rows_of(design_rows, few)
                drawn = of_processes.draw_new_parts(
                    covariance, draws, chosen, rows, diagonal[:, few], named.groups, rng, of_design
                )
                columns = [] if covariance.effects is None else covariance.effects.columns
                mean, here = _process_means(estimator, rows, of_design, named.groups, columns), first + few
                yield ScoreParts(
                    *(
                        _in_units(parts, named, location[:, here], scale[:, here], offsets[:, here])
                        for parts in (mean, drawn)
                    )
                )
            first += kernels.n_rows


def _process_means(
    estimator: Any, rows: Any, design_rows: DesignRows | None, groups: np.ndarray, columns: list[np.ndarray]
) -> np.ndarray:
    """Return posterior means of the parts in the units of the score, (n_outputs, n_parts, n_rows)."""
    task = None if design_rows is None else design_rows.task
    duals = estimator.dual_coef_ if estimator._has_outputs or task is not None else estimator.dual_coef_[None]
    if estimator.pseudo_samples_ is not None:
        duals = estimator.pseudo_samples_.dual
    of_kernels = np.stack([rows.apply(dual[..., None]) for dual in duals])
    if task is not None:
        of_kernels = of_kernels[task, :, np.arange(rows.n_rows)].T[None]
    intercept = np.atleast_1d(estimator.intercept_)[:, None, None]
    found = [groups @ of_kernels, np.broadcast_to(intercept, (len(intercept), 1, rows.n_rows))]
    if columns and design_rows is not None:
        coefficients, basis = np.atleast_2d(estimator.effects_), design_rows.basis
        found.append(np.stack([coefficients[:, own] @ basis[:, own].T for own in columns], axis=1))
    return np.concatenate(found, axis=1)


def _in_units(
    parts: np.ndarray, named: PartNames, location: np.ndarray, scale: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Return parts, (..., n_outputs, n_parts, n_rows), in units of the user, with the offset as the last."""
    found = parts * scale[:, None]
    found[..., named.kinds.index("intercept"), :] += location
    if "offset" not in named.kinds:
        return found
    last = np.broadcast_to((offsets * scale)[:, None], (*found.shape[:-2], 1, found.shape[-1]))
    return np.concatenate([found, last], axis=-2)


def _units(estimator: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return location and scale of the scores of validated rows, (n_outputs, n_rows), or (1, n_rows)."""
    if estimator._OUTCOME != "numbers":
        return np.zeros((1, len(X))), np.ones((1, len(X)))
    location, scale = estimator._units(estimator._task(X))
    shape = len(location), len(X)
    return np.broadcast_to(location, shape), np.broadcast_to(scale, shape)


def _rows_of(design_rows: DesignRows | None, few: np.ndarray) -> DesignRows | None:
    if design_rows is None:
        return None
    task = design_rows.task
    return DesignRows(design_rows.basis[few], design_rows.unseen[few], None if task is None else task[few])


def parts_of_bemkl(
    fitted: FittedBEMKL, X: Any, named: PartNames, n_draws: int, rng: np.random.Generator
) -> Iterator[ScoreParts]:
    """Yield the parts of the scores of blocks of rows, of BEMKL.

    Parameters as in `parts_of_process`; `n_draws` is of all chains together.
    """
    estimator, stack = fitted.estimator, fitted.estimator._row_stack(X)
    n_chains = fitted.states[0].n_chains if fitted.is_drawn else 1
    draws = [own.flat() for own in fitted.draws(-(-n_draws // n_chains), rng)]
    variance = estimator.intermediate_scale_**2 if fitted.is_classifier else None
    units = (
        [fitted.units(k) for k in range(len(fitted.output_names or [""]))]
        if variance is None
        else [(0.0, 1.0)]
    )
    location, scale = (np.array(values)[:, None] for values in zip(*units, strict=True))
    n_entries = (
        len(draws[0].kernel_weights) * (estimator.n_kernels_in_ + 1) * len(fitted.output_names or [""])
    )
    size = max(1, BLOCK_ENTRIES // n_entries)
    nothing = np.zeros((1, 1))
    for first in range(0, stack.n_rows, size):
        rows = stack.rows(np.arange(first, min(first + size, stack.n_rows)))
        means, drawn = [], []
        for posterior, own in zip(fitted.states, draws, strict=True):
            means.append(of_bemkl.mean_new_parts(rows, posterior))
            source = None if fitted.is_drawn else posterior
            drawn.append(of_bemkl.draw_new_parts(rows, own, variance, rng, source))
        yield ScoreParts(
            *(
                _in_units(
                    _grouped(np.concatenate(parts, axis=-3), named.groups), named, location, scale, nothing
                )
                for parts in (means, drawn)
            )
        )


def parts_of_discriminative(estimator: BaseDiscriminative, X: Any, named: PartNames) -> ScoreParts:
    """Return the parts of the scores of rows, of a discriminative method; they are estimates without draws."""
    of_kernels = estimator._scores_of_each(X)
    intercept = np.atleast_1d(estimator.intercept_)[:, None, None]
    last = np.broadcast_to(intercept, (len(of_kernels), 1, of_kernels.shape[-1]))
    return ScoreParts(_grouped(np.concatenate([of_kernels, last], axis=1), named.groups))


def _grouped(parts: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Add the parts of kernels of a group; the intercept, the last, stays."""
    return np.concatenate([groups @ parts[..., :-1, :], parts[..., -1:, :]], axis=-2)
