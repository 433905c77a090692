r"""Covariance of the latent score under given kernel weights: that of the additive Gaussian process.

It is :math:`f = \sum_m w_m g_m + b` with independent :math:`g_m \sim GP(0, K_m / c_m)`. Inference asks for the
covariance of the training scores and for the gradient of a function of it, predictions for the covariance of new
scores, or of the part that some kernels have in them, with the training scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy, dger
from scipy.linalg.lapack import dpstrf

from bayesmkl._numerics.linalg import plus_diagonal
from bayesmkl.gp.effects import Effects, Tasks
from bayesmkl.kernels.stacks.base import Stack

JITTER = 1e-10  # of the mean diagonal, to factorize kernels that are semidefinite
ROUGH = 1e-6  # the same of kernels in single precision
CONSTANT = 1e-10  # part of a kernel around its mean that is rounding error


class Additive(NamedTuple):
    r"""Additive Gaussian process: :math:`C = \sum_m w_m^2 K_m / c_m + \gamma^{-1} 1 1^\top`.

    Where widths of a kernel are inferred, its unit is that at these widths, :math:`c_m = p^\top (\operatorname{diag}
    K_m - K_m p)` of samples in proportions `p`, so that its weight is the standard deviation of its part whatever
    they are. With the gradient `A` by `C`, the one by :math:`K_m` is :math:`w_m^2 c_m^{-1} (A + c_m^{-1} \langle A,
    K_m \rangle\, (p p^\top - \operatorname{diag} p))`.

    `weights` are of shape (n_kernels,); after them come the standard deviations of the terms of `effects`, the values
    of `tasks`, and log widths of kernels, where there are some.

    Attributes
    ----------
    stack : Stack
        Training kernels.
    units : ndarray of shape (n_kernels,)
        :math:`c_m`, the mean variance of :math:`K_m` around its mean over the training samples; then
        :math:`w_m` is the standard deviation of what kernel `m` adds to the score.
    intercept_std : float
        :math:`\gamma^{-1/2}`.
    effects : Effects, optional
        Of covariates and groups.
    tasks : Tasks, optional
        Then kernels are :math:`K_m \circ B`.
    sample_weight : ndarray of shape (n_samples,), optional
        How often samples count in units of kernels whose widths are inferred.
    """

    stack: Stack
    units: np.ndarray
    intercept_std: float
    effects: Effects | None = None
    tasks: Tasks | None = None
    sample_weight: np.ndarray | None = None

    def of_kernels(self, kernels: np.ndarray) -> Additive:
        """Return the covariance of the parts of the kernels at some positions, without effects."""
        return self._replace(stack=self.stack.select(kernels), units=self.units[kernels], effects=None)

    def split(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return weights of kernels, standard deviations of groups, values of tasks, and log widths."""
        first = self.stack.n_kernels
        second = first if self.effects is None else first + self.effects.n_terms
        last = len(weights) - sum(one.n_values for one in self.stack.learned)
        return weights[:first], weights[first:second], weights[second:last], weights[last:]

    def at(self, widths: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the kernels of some log widths, and their units."""
        if not self.stack.learned:
            return self.stack, self.units
        stack, units, share = self.stack.at(widths), self.units.copy(), self._share  # type: ignore[attr-defined]
        for m in self.stack.moving:  # as `kernel_units`, in a third of the time
            diagonal = stack.kernels[m].diagonal() @ share
            variance = diagonal - share @ stack.kernels[m] @ share
            units[m] = variance if variance > CONSTANT * diagonal else np.inf
        return stack, units

    @property
    def _share(self) -> np.ndarray:
        """Parts of samples in means."""
        counts = np.ones(self.stack.n_train) if self.sample_weight is None else self.sample_weight
        share: np.ndarray = counts / counts.sum()
        return share

    def matrix(self, weights: np.ndarray, precision: type[np.floating] = np.float64) -> np.ndarray:
        """Return the prior covariance of the training scores, (n_samples, n_samples).

        Of several `weights` at once, (q, n), there are as many, in single `precision` where that is faster.
        """
        if weights.ndim == 2 and (self.tasks is not None or self.stack.learned):
            return np.stack([self.matrix(one) for one in weights])
        own, of_groups, of_tasks, of_widths = (part.T for part in self.split(weights.T))
        if precision == np.float32 and weights.ndim == 2 and self.effects is None:
            return self.stack.combine_singly(own**2 / self.units, self.intercept_std**2)
        stack, units = self.at(of_widths)
        found = stack.combine(own**2 / units)
        if self.tasks is not None:
            found = found * self.tasks.matrix(of_tasks)
        found += self.intercept_std**2  # nobody else has it
        return found if self.effects is None else found + self.effects.matrix(of_groups)

    def plus_kernel(self, matrix: np.ndarray, m: int, square: float) -> np.ndarray:
        """Return a covariance with the variance `square` more of kernel `m`, or less, where there are no tasks."""
        (kernel,) = self.stack.each([m])
        found = matrix.copy()
        return daxpy(kernel.ravel(), found.ravel(), a=square / self.units[m]).reshape(matrix.shape)

    def pull(self, weights: np.ndarray, adjoint: np.ndarray) -> np.ndarray:
        r"""Return :math:`\sum_{ij} A_{ij} \partial C_{ij} / \partial w_m`, of a symmetric `adjoint` `A`.

        It is the gradient by the weights of what has the gradient `adjoint` by the covariance.
        """
        own, of_groups, of_tasks, of_widths = self.split(weights)
        stack, units = self.at(of_widths)
        by_kernels = adjoint if self.tasks is None else adjoint * self.tasks.matrix(of_tasks)
        products = stack.frobenius(by_kernels)
        found = [2.0 * own / units * products]
        if self.effects is not None:
            found.append(self.effects.pull(of_groups, adjoint))
        if self.tasks is not None:
            combined = stack.combine(own**2 / units)
            found.append(self.tasks.pull(of_tasks, adjoint * combined))
        if self.stack.learned:
            share, moving = self._share, {}
            for m in self.stack.moving:
                scale = own[m] ** 2 / units[m]
                moving[m], by_unit = scale * by_kernels, scale * products[m] / units[m]
                dger(by_unit, share, share, a=moving[m].T, overwrite_a=1)
                np.einsum("ii->i", moving[m])[...] -= by_unit * share
            found.append(self.stack.pull(of_widths, moving))  # type: ignore[attr-defined]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def informed(self, weights: np.ndarray, within: np.ndarray, directions: np.ndarray) -> np.ndarray:
        r"""Return the Fisher information of the weights of kernels times directions `v`, (q, n_kernels).

        With :math:`\dot C = \sum_n v_n \partial_n C` it is :math:`\tfrac12 \mathrm{tr}(\partial_m C\, R \dot C R)`,
        of an `R` that is ``within @ within.T``.
        """
        own, _, of_tasks, of_widths = self.split(weights)
        stack, units = self.at(of_widths)
        slopes = 2.0 * own / units
        between = 1.0 if self.tasks is None else self.tasks.matrix(of_tasks)
        shrinkage = within @ within.T
        moved = shrinkage @ (stack.combine(directions * slopes) * between) @ shrinkage
        return 0.5 * slopes * stack.frobenius(moved * between)

    def cross(
        self, rows: Stack, part: np.ndarray, weights: np.ndarray, precision: type[np.floating] = np.float64
    ) -> np.ndarray:
        """Return the covariance of part of the scores at new rows with the training scores, without the intercept.

        `part` has the weights of the kernels that belong to it, and zeros. What tasks of rows have to do with those
        of training samples is a factor of its own. Of several parts, (q, n_kernels), there are as many, in single
        `precision` where that is faster.
        """
        if self.stack.learned:
            if part.ndim == 2:
                return np.stack([self.cross(rows, *own) for own in zip(part, weights, strict=True)])
            widths = self.split(weights)[3]
            at_rows = rows.at(widths, self.stack)  # type: ignore[attr-defined]
            return at_rows.combine(part**2 / self.at(widths)[1])
        if precision == np.float32 and part.ndim == 2:
            return rows.combine_singly(part**2 / self.units)
        found: np.ndarray = rows.combine(part**2 / self.units)
        return found

    def variance(
        self, rows: Stack, diagonal: np.ndarray, part: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return the prior variance of that part at new rows, whose similarities to themselves are `diagonal`."""
        widths = self.split(weights)[3]
        if self.stack.learned:
            diagonal = rows.diagonal_at(widths, diagonal, self.stack)  # type: ignore[attr-defined]
        return (part**2 / self.at(widths)[1]) @ diagonal

    def draw_parts(self, rng: np.random.Generator, n_draws: int) -> Any:
        """Draw what kernels of unit weight add to the training scores, (n_kernels, n_samples, n_draws).

        Of several tasks they are functions from which `weigh_parts` makes those of the tasks, with an axis in front.
        Of kernels whose width is inferred they are standard normal numbers, from which `color` makes functions.
        """
        of_tasks = () if self.tasks is None else (self.tasks.n_tasks,)
        drawn = np.empty((*of_tasks, self.stack.n_kernels, self.stack.n_train, n_draws))
        moving = self.stack.moving
        for m, factor in enumerate(self._each_factor()):
            normal = rng.standard_normal((*of_tasks, factor.shape[1], n_draws))
            drawn[..., m, :, :] = normal if m in moving else factor @ normal
        return drawn

    def color(self, weights: np.ndarray, drawn: np.ndarray, which: np.ndarray) -> None:
        """Make functions of the widths in some weights from draws of `draw_parts`, in place, of `which` of them."""
        stack, units = self.at(self.split(weights)[3])
        for m in self.stack.moving:
            functions = drawn[..., m, :, :]
            functions[..., which] = _root(stack.kernels[m], m) / np.sqrt(units[m]) @ functions[..., which]

    def weigh_parts(self, weights: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """Return parts of some weights, (n_draws, n_kernels, n_samples), from draws of `draw_parts` as first axis.

        Where there are no tasks, every draw may have `weights` of its own, (n_draws, n).
        """
        own, _, of_tasks, _ = (part.T for part in self.split(weights.T))
        if self.tasks is None:
            return own[..., None] * drawn
        return own[:, None] * np.einsum("dtmi,it->dmi", drawn, self.tasks.factor(of_tasks))

    def factors(self) -> np.ndarray:
        """Return Cholesky factors of the covariances of functions of unit weight, (n_kernels, n_samples, n_samples).

        Raises
        ------
        numpy.linalg.LinAlgError
            With the position of a kernel that is not positive semidefinite.
        """
        return np.array(list(self._each_factor()))

    def _each_factor(self) -> Iterator[np.ndarray]:
        roots = self.stack.roots()
        if roots is not None:
            yield from (root / np.sqrt(unit) for root, unit in zip(roots, self.units, strict=True))
            return
        is_rough = self.stack.storage == "packed"
        for m, (kernel, unit) in enumerate(zip(self.stack.each(), self.units, strict=True)):
            root = _short_root(kernel) if is_rough else None
            yield (_root(kernel, m) if root is None else root) / np.sqrt(unit)

    def shift_parts(self, weights: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return the covariance of each kernel's part with the scores, times (n_samples, q) vectors.

        The result is of shape (n_kernels, n_samples, q). Every vector may have `weights` of its own, (q, n), where
        draws may have.
        """
        if weights.ndim == 2:
            own = self.split(weights.T)[0]
            return (own**2 / self.units[:, None])[:, None] * self.stack.apply(residuals)
        own, _, of_tasks, of_widths = self.split(weights)
        stack, units = self.at(of_widths)
        if self.tasks is None:
            active = np.flatnonzero(own)
            if 2 * len(active) >= len(own):
                return (own**2 / units)[:, None, None] * stack.apply(residuals)
            found = np.zeros((len(own), *residuals.shape))  # few of many kernels are in
            if len(active):
                found[active] = stack.select(active).apply(residuals)
        else:
            between = self.tasks.matrix(of_tasks)
            found = np.stack([(kernel * between) @ residuals for kernel in stack.each()])
        return (own**2 / units)[:, None, None] * found

    def part_duals(self, weights: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """Return weights of training samples, (n_kernels, n_samples), with which `k_m` is kernel m's mean part.

        They have an axis of tasks in front where there are several. Of several `weights`, (q, n), with a `dual` each
        the sum is returned. They are NaN of kernels whose widths are inferred: their mean part is of several kernels.
        """
        if weights.ndim == 2 and self.tasks is not None:
            return np.sum(list(map(self.part_duals, weights, dual)), axis=0)
        own, _, of_tasks, _ = (part.T for part in self.split(weights.T))
        scales = own**2 / self.units
        scales[..., self.stack.moving] = np.nan
        if self.tasks is None:
            return scales.T @ dual if weights.ndim == 2 else np.outer(scales, dual)
        of_each = self.tasks.cross(np.arange(self.tasks.n_tasks), of_tasks) * dual
        return scales[:, None] * of_each[:, None]


def kernel_units(stack: Stack, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return the mean variance of every kernel around its mean over the training samples, (n_kernels,).

    It is infinite of constant kernels, which add nothing that the intercept does not. Samples count as often as
    `sample_weight`, (n_samples,), says; those that lack what a kernel compares do not.
    """
    counts = np.ones(stack.n_train) if sample_weight is None else sample_weight
    if stack.present is not None:
        present = np.asarray(stack.present) * counts
        share = present / present.sum(axis=1, keepdims=True)
        diagonal = (share * np.asarray(stack.diagonal())).sum(axis=1)
        variance = diagonal - np.asarray(stack.quadratic(share[..., None]))
        return np.where(variance > CONSTANT * np.abs(diagonal), variance, np.inf)
    share = counts / counts.sum()
    diagonal = np.average(np.asarray(stack.diagonal()), axis=1, weights=counts)
    mean = np.average(np.asarray(stack.apply(share)), axis=1, weights=counts)
    return np.where(diagonal - mean > CONSTANT * np.abs(diagonal), diagonal - mean, np.inf)


def _short_root(kernel: np.ndarray) -> np.ndarray | None:
    """Factorize a kernel in single precision by as few columns as it takes; None if it is not semidefinite."""
    largest = float(kernel.diagonal().max())
    triangle, order, rank, _ = dpstrf(kernel, tol=ROUGH * largest, lower=1)
    if largest <= 0.0 or rank == 0:
        return None
    root = np.tril(triangle[:, :rank])[np.argsort(order)]
    probe = np.random.default_rng(0).standard_normal(len(kernel))
    misfit = np.abs(kernel @ probe - root @ (root.T @ probe)).max()
    return root if misfit <= len(kernel) * ROUGH * largest else None


def _root(kernel: np.ndarray, m: int) -> np.ndarray:
    """Factorize kernel `m`; raise LinAlgError with `m` if it is not positive semidefinite."""
    scale = max(np.trace(kernel) / len(kernel), np.finfo(float).tiny)
    for jitter in (JITTER, ROUGH):
        try:
            return np.linalg.cholesky(plus_diagonal(kernel, jitter * scale))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError(m)
