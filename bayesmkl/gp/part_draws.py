r"""Draws of what every kernel adds to the training scores, some kernels at a time.

By Matheron's rule a draw from the posterior is one from the prior, corrected by what the sites say of it,

.. math:: f_m + \operatorname{Cov}(f_m, f)\, r , \qquad r = S B^{-1} (S^{-1} \tilde\nu - S f - z) ,

`f` the sum of all parts and `z` normal. So parts are gone through twice: for their sum, and, once the residuals are
known, for what each of them has in common with the score. Where they take much memory they are drawn anew the second
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from bayesmkl.gp.covariances import Covariance

KEPT = 2**30  # bytes of parts that are kept for the second time
AT_ONCE = 2**25  # bytes of parts that are in work


class PriorParts:
    """Draws of the functions of all kernels from their prior, the same whenever they are asked for.

    Parameters
    ----------
    covariance : Covariance
    n_draws, n_outputs : int
    rng : numpy.random.Generator
        Its state is that after all draws where they are kept, else what it was.

    Raises
    ------
    numpy.linalg.LinAlgError
        With the position of a kernel that is not positive semidefinite; while parts are drawn.
    """

    def __init__(
        self, covariance: Covariance, n_draws: int, n_outputs: int, rng: np.random.Generator
    ) -> None:
        self.covariance = covariance
        self.shape = n_draws, n_outputs, covariance.stack.n_train
        self._rng = rng
        n_kernels, of_all = covariance.stack.n_kernels, part_bytes(covariance, n_draws * n_outputs)
        step = max(1, AT_ONCE * n_kernels // of_all) if covariance.parts_are_independent else n_kernels
        self._groups = [np.arange(m, min(m + step, n_kernels)) for m in range(0, n_kernels, step)]
        self._kept = list(self._draw(rng)) if of_all <= KEPT or len(self._groups) == 1 else None

    def __iter__(self) -> Iterator[tuple[np.ndarray, Covariance, np.ndarray]]:
        """Yield positions of some kernels, their covariance, and ([n_tasks, ]n_kernels, n_samples, n_functions)."""
        return iter(self._draw(deepcopy(self._rng)) if self._kept is None else self._kept)

    def _draw(self, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, Covariance, np.ndarray]]:
        n_functions = self.shape[0] * self.shape[1]
        for kernels in self._groups:
            own = self.covariance if len(self._groups) == 1 else self.covariance.of_kernels(kernels)
            try:
                drawn = own.draw_parts(rng, n_functions)
            except np.linalg.LinAlgError as error:
                raise np.linalg.LinAlgError(int(kernels[error.args[0]])) from error
            yield kernels, own, drawn

    def total(self, weights: np.ndarray, point: np.ndarray) -> np.ndarray:
        """Return the sums of the parts of all kernels, (n_draws, n_outputs, n_samples).

        Parameters
        ----------
        weights : ndarray of shape (n_points, n_weights)
            As the covariance takes them.
        point : ndarray of int, of shape (n_draws,)
            Which of them a draw has.
        """
        found = np.zeros(self.shape)
        for kernels, own, drawn in self:
            for here, of_these in self._by_weights(own, kernels, weights, point):
                found[here] += self._weigh(own, of_these, drawn, here).sum(axis=2)
        return found

    def corrected(
        self, weights: np.ndarray, point: np.ndarray, residuals: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield positions of some kernels and of some draws, and their parts.

        These are of shape (n_draws, n_outputs, n_kernels, n_samples).

        Parameters
        ----------
        weights, point
            As those of `total`.
        residuals : ndarray of shape (n_draws, n_outputs, n_samples)
            See `bayesmkl.gp.conditioning.Conditioned.residuals`.
        """
        n_outputs = self.shape[1]
        for kernels, own, drawn in self:
            for here, of_these in self._by_weights(own, kernels, weights, point):
                parts = self._weigh(own, of_these, drawn, here)
                tall = residuals[here].reshape(-1, self.shape[2])
                each = np.repeat(of_these, n_outputs, axis=0) if of_these.ndim == 2 else of_these
                shift = own.shift_parts(each, tall.T)
                parts += np.moveaxis(shift.reshape(*shift.shape[:2], -1, n_outputs), (2, 3), (0, 1))
                yield kernels, here, parts

    def _by_weights(
        self, own: Covariance, kernels: np.ndarray, weights: np.ndarray, point: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield draws, and their weights of some kernels: one by one where all draws can be had together."""
        of_kernels, of_groups, of_tasks = self.covariance.split(weights.T)
        rest = of_groups if own.effects is not None else of_groups[:0]
        chosen = np.concatenate([of_kernels[kernels], rest, of_tasks]).T
        if own.parts_are_independent and own.tasks is None:
            yield np.arange(len(point)), chosen[point]
            return
        for at in range(len(weights)):
            yield np.flatnonzero(point == at), chosen[at]

    def _weigh(self, own: Covariance, weights: np.ndarray, drawn: np.ndarray, here: np.ndarray) -> np.ndarray:
        """Return parts of some draws from those of unit weight, (n_draws, n_outputs, n_kernels, n_samples)."""
        n_draws, n_outputs, _ = self.shape
        split = drawn.reshape(*drawn.shape[:-1], n_draws, n_outputs)
        if len(here) < n_draws:
            split = split[..., here, :]
        parts = [own.weigh_parts(weights, np.moveaxis(split[..., k], -1, 0)) for k in range(n_outputs)]
        return parts[0][:, None] if n_outputs == 1 else np.stack(parts, axis=1)


def part_bytes(covariance: Covariance, n_functions: int) -> Any:
    """Return what draws of the functions of all kernels take, one for every output of every draw."""
    n_tasks = 1 if covariance.tasks is None else covariance.tasks.n_tasks
    return 8 * covariance.stack.n_kernels * covariance.stack.n_train * n_functions * n_tasks
