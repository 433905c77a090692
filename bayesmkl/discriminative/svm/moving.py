r"""Sums and quadratic forms of many kernels at weights that change little from call to call.

Both are what a stack of kernels computes too, in one pass over all of it. Here a call reads kernels whose weight
moved, and the entries between support vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from bayesmkl.kernels.stacks.base import StoredStack

ROUNDING = 1e-14  # weights that differ by less, relative to the largest, are the same
LARGEST_ERROR = 1e5  # of a combined kernel that was not summed afresh, relative to one that was
LARGEST_SHARE = 0.6  # of the samples: with more support vectors little is gained by copying their kernels
LARGEST_WASTE = 1.5  # samples that were met, per support vector
LARGEST_COPY = 0.7  # of the samples that were met: their kernels take half of the memory of all
EARLY, AGE = 3, 20  # all kernels are looked at in the first calls, then in every twentieth
NEAR = 0.8  # of the largest quadratic: kernels above may soon get a weight


class _Known(NamedTuple):
    """A combined kernel, or the share of one in a sum."""

    weights: np.ndarray
    kernel: np.ndarray
    error: float  # bound of its rounding errors, in units of rounding and of the entries of a kernel


class _Plan(NamedTuple):
    """A way to combine: a sum of known kernels, and the weights that are still missing then."""

    known: list[tuple[float, np.ndarray]]
    missing: np.ndarray
    error: float


class MovingCombination:
    """``stack.combine`` of weights that differ little, or lie on one line, from call to call."""

    def __init__(self, stack: StoredStack) -> None:
        self._stack = stack
        self._last: list[_Known] = []  # two of them
        self._spare = np.empty((stack.n_rows, stack.n_train))  # memory of an older one

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """Return the combined kernel; it must not be written to, and is overwritten three calls later."""
        if self._last and np.array_equal(weights, self._last[-1].weights):
            return self._last[-1].kernel
        largest = LARGEST_ERROR * np.abs(weights).sum()
        plans = [plan for plan in self._plans(weights) if plan.error <= largest]
        plan = min(plans, key=lambda plan: np.count_nonzero(plan.missing))
        kernel = self._carry_out(plan)
        self._spare = self._last[0].kernel if len(self._last) == 2 else np.empty_like(kernel)
        self._last = [*self._last[-1:], _Known(weights.copy(), kernel, plan.error)]
        return kernel

    def _plans(self, weights: np.ndarray) -> list[_Plan]:
        fresh = float(np.abs(weights).sum())
        plans = [_Plan([], weights, fresh)]
        plans += [_Plan([(1.0, k.kernel)], weights - k.weights, k.error + fresh) for k in self._last]
        if len(self._last) == 2:
            first, second = self._last
            direction = second.weights - first.weights
            s = _position(weights - first.weights, direction)
            known = [(1.0 - s, first.kernel), (s, second.kernel)]
            error = abs(1.0 - s) * first.error + abs(s) * second.error + fresh
            plans.append(_Plan(known, weights - first.weights - s * direction, error))
        small = ROUNDING * np.abs(weights).max()
        return [p._replace(missing=np.where(np.abs(p.missing) <= small, 0.0, p.missing)) for p in plans]

    def _carry_out(self, plan: _Plan) -> np.ndarray:
        moved, known = np.flatnonzero(plan.missing), plan.known
        if 2 * moved.size > plan.missing.size:
            kernel, moved = self._stack.combine(plan.missing), moved[:0]
        elif known:
            kernel, known = np.multiply(known[0][1], known[0][0], out=self._spare), known[1:]
        else:
            kernel = self._spare
            kernel.fill(0.0)
        for factor, other in known:
            _add_to(kernel, factor, other)
        # one pass over each of them; selecting them for `combine` would copy them first
        for m, other in zip(moved, self._stack.each(moved), strict=True):
            _add_to(kernel, plan.missing[m], other)
        return kernel


def _add_to(kernel: np.ndarray, factor: float, other: np.ndarray) -> None:
    """Add ``factor * other`` to `kernel` in place, without a temporary array."""
    blas.daxpy(other.reshape(-1), kernel.reshape(-1), a=factor)


def _position(move: np.ndarray, direction: np.ndarray) -> float:
    """Return the position on a line on which most weights agree; a few may have left it."""
    moving = direction != 0.0
    return float(np.median(move[moving] / direction[moving])) if moving.any() else 0.0


class SupportQuadratics:
    """``stack.quadratic`` of sparse vectors, from copies of the kernels between their support vectors.

    Support vectors are met in groups; each holds its rows of the kernels, up to and including its own columns. Of a
    symmetric kernel that is all, and a new support vector costs only its own row.
    """

    def __init__(self, stack: StoredStack, kernels: np.ndarray | None = None) -> None:
        self._stack, self._kernels = stack, kernels  # positions, or None for all
        self._n_kernels = stack.n_kernels if kernels is None else kernels.size
        self._met = np.zeros(0, dtype=np.intp)
        self._groups: list[tuple[int, np.ndarray]] = []  # number of samples met before, rows of them

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Return ``sum_c vectors[c] @ K_m @ vectors[c]`` for vectors of shape (n_tasks, n_train)."""
        support = np.flatnonzero(vectors.any(axis=0))
        if support.size > LARGEST_SHARE * self._stack.n_train:
            return self._frobenius(vectors.T @ vectors)
        self._meet(support)
        known, total = vectors[:, self._met], np.zeros(self._n_kernels)
        for before, rows in self._groups:
            upto = before + rows.shape[1]
            products = known[:, before:upto].T @ known[:, :upto]
            products[:, :before] *= 2.0  # the same entries above the diagonal
            total += rows.reshape(self._n_kernels, -1) @ products.reshape(-1)
        return total

    def _frobenius(self, products: np.ndarray) -> np.ndarray:
        if self._kernels is None:
            return self._stack.frobenius(products)
        return np.array(
            [np.vdot(kernel, products) for kernel in self._stack.each(self._kernels)]
        )  # copies nothing

    def among(self, positions: np.ndarray) -> SupportQuadratics:
        """Return the same for some of all kernels."""
        part = SupportQuadratics(self._stack, positions)
        part._met, part._groups = self._met, [(before, rows[positions]) for before, rows in self._groups]
        return part

    def _meet(self, support: np.ndarray) -> None:
        new = np.setdiff1d(support, self._met)
        most = min(LARGEST_WASTE * support.size, LARGEST_COPY * self._stack.n_train)
        if self._met.size + new.size > most:
            self._met, self._groups, new = self._met[:0], [], support
        if new.size:
            before, self._met = self._met.size, np.concatenate([self._met, new])
            self._groups.append((before, self._stack.entries(new, self._met, self._kernels)))


class ShrinkingQuadratics:
    """Quadratics of all kernels, those that will hardly get a weight from some solutions ago."""

    def __init__(self, stack: StoredStack) -> None:
        self._everywhere = SupportQuadratics(stack)
        self._somewhere = self._everywhere
        self._active = np.ones(stack.n_kernels, dtype=bool)
        self._last = np.zeros(stack.n_kernels)
        self._n_refreshed = self._age = 0

    def __call__(self, vectors: np.ndarray, kernel_weights: np.ndarray) -> np.ndarray:
        """Return the quadratics, all up to date whose kernel has a weight."""
        self._age += 1
        if self._n_refreshed < EARLY or self._age >= AGE or kernel_weights[~self._active].any():
            return self.refresh(vectors, kernel_weights)
        quadratics = self._last.copy()
        quadratics[self._active] = self._somewhere(vectors)
        return quadratics

    def refresh(self, vectors: np.ndarray, kernel_weights: np.ndarray) -> np.ndarray:
        """Look at all kernels, and choose those to look at next."""
        self._n_refreshed, self._age = self._n_refreshed + 1, 0
        self._last = self._everywhere(vectors)
        self._active = (kernel_weights > 0.0) | (self._last >= NEAR * self._last.max())
        if 2 * np.count_nonzero(self._active) > self._active.size:
            self._active[:] = True
            self._somewhere = self._everywhere
        elif self._n_refreshed >= EARLY:
            self._somewhere = self._everywhere.among(np.flatnonzero(self._active))
        return self._last
