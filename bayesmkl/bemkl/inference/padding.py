r"""Padding of problems to common sizes, so that one compilation of JAX serves problems of similar sizes.

JAX compiles a sweep for every shape, in seconds; a fit may take less. So a problem is padded to a bucket, the next
of sixteen sizes per octave: kernels get rows and columns of zeros, targets zeros. Models know nothing of it.
`Padding.wrap` makes a sweep of the larger problem from that of a model, with the factors and the bound of the smaller
one. Three kinds of factors belong to padding:

* q(g_i). `PaddedOutputs` takes the place of `IntermediateOutputs`: zeros where there is no sample, and sums that
  leave them out. With them every other update is that of the samples: q(b, e), q(υ) and q(ε) see no other sums.
* q(f_i), in classification. It reads q(b, e) and is read by q(g_i) alone, so it is set to zero after the sweep. In
  the bound, where scores have unit precision, it stands in -½ Var f_i + H[q(f_i)], which is subtracted, and in a
  square that `PaddedOutputs` gives no weight. Of censored targets padding is observed: there is nothing to subtract.
* q(λ_j) and q(a_j). A weight of padding meets only its prior. Its factors

      q(λ_j) = Gamma(c + 1/2, r + r / 2c),     q(a_j) = N(0, r / c)

  are a fixed point of their updates, and stay there because every sweep starts from it: the loop and its
  extrapolations see samples alone. What they add to the bound is a number known beforehand, which is subtracted.

So the fit is that of the problem without padding, but for the order in which sums run.

Likewise the samples of a training fold can have the places that they have among all samples (`FoldStack`). Then
padding is what the fold leaves out, all folds have the same kernels, and one pass over them serves many at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesmkl._numerics.arrays import Array, namespace
from bayesmkl.bemkl.models.all_models import Problem
from bayesmkl.bemkl.models.censored import CensoredProblem
from bayesmkl.bemkl.models.moments import (
    LOG_2PI,
    Gamma,
    Gaussian,
    IntermediateOutputs,
    expected_zero_mean,
    update_intermediate,
    update_precision,
)
from bayesmkl.bemkl.models.outputs import update_intermediates
from bayesmkl.bemkl.models.task_parts import MultitaskProblem
from bayesmkl.kernels.stacks.base import KernelStack
from bayesmkl.kernels.stacks.fold import HeldArray, held_array

if TYPE_CHECKING:
    from bayesmkl.bemkl.inference.loop import Algorithm

__all__ = [
    "ExactShape",
    "PaddedOutputs",
    "PaddedProblem",
    "Padding",
    "bucket_size",
    "pad_problems",
    "size_class",
    "stored_kernels",
]

SIZES_PER_OCTAVE = 16
LEAST_STEP = 8
COPIED_BYTES = 2**29  # larger kernels are not copied to pad them: their fits take longer than compiling


def bucket_size(n: int) -> int:
    """Return the size to which `n` samples are padded: less than 1/16 more, or the next multiple of eight.

    Examples
    --------
    >>> [bucket_size(n) for n in (5, 128, 129, 360, 400, 1000)]
    [8, 128, 136, 368, 400, 1024]
    """
    step = max(LEAST_STEP, 2 ** (n.bit_length() - 1) // SIZES_PER_OCTAVE)
    return -(-n // step) * step


class PaddedProblem(NamedTuple):
    """A problem and which of its samples are samples."""

    problem: Any  # the larger one
    counted: Any  # (n_samples,): 1.0 for samples, 0.0 for padding


class PaddedOutputs(NamedTuple):
    """Independent columns g_i with one shared covariance, for the samples that count; see `IntermediateOutputs`."""

    mean: Any  # (n_kernels, n_samples), zero at padding; with several outputs, a leading axis of them
    cov: Any
    log_det: Any
    counted: Any  # (n_samples,): 1.0 for samples, 0.0 for padding

    @property
    def n_samples(self) -> Any:
        """Number of samples that count."""
        return self.counted.sum()

    @property
    def entropy(self) -> Any:
        """Entropy of all columns together, in nats."""
        log_dets = namespace(self.mean).broadcast_to(self.log_det, self.mean.shape[:-2])
        n_rows = math.prod(self.mean.shape[:-1])
        return 0.5 * self.n_samples * (n_rows * (1.0 + LOG_2PI) + log_dets.sum())

    @property
    def n_projected(self) -> Any:
        """Number of intermediate outputs, of one output, that follow a kernel."""
        return self.mean.shape[-2] * self.n_samples

    @property
    def score_weight(self) -> Any:
        """Precision of a sample's score, relative to that of a sample that counts."""
        return self.counted[None]

    @property
    def variance(self) -> Any:
        """Marginal variances, shaped as the mean."""
        xp = namespace(self.mean)
        return xp.broadcast_to(xp.diagonal(self.cov, axis1=-2, axis2=-1)[..., None], self.mean.shape)

    @property
    def total_cov(self) -> Any:
        """Sum over samples of the covariances."""
        return self.n_samples * self.cov

    def squared_distance(self, projection: Array) -> Any:
        """``E (g_mi - projection_mi)²``, summed over kernels and the samples that count."""
        residual = self.mean - projection
        spread = self.n_samples * namespace(self.cov).trace(self.cov, axis1=-2, axis2=-1)
        return (self.counted * residual * residual).sum(axis=(-2, -1)) + spread


@cache
def _padded_sweep(sweep: Callable[..., tuple[Any, Any]]) -> Callable[[PaddedProblem, Any], tuple[Any, Any]]:
    """Return the sweep of padded problems, always the same one: what was compiled for it is found by it."""

    def sweep_padded(padded: PaddedProblem, start: tuple[Array, ...]) -> tuple[Any, Any]:
        problem, counted = padded
        update = update_intermediate if problem.y.ndim == 1 else update_intermediates

        def solve_intermediate(*arguments: Any) -> tuple[Any, PaddedOutputs]:
            projection, outputs = update(*arguments)
            return projection, PaddedOutputs(outputs.mean * counted, outputs.cov, outputs.log_det, counted)

        state, bound = sweep(problem, start, solve_intermediate=solve_intermediate)
        if not hasattr(state, "latent"):
            return state, bound
        where, latent = namespace(counted).where, state.latent
        absent = 1.0 - counted
        bound = bound + 0.5 * (absent * latent.variance).sum() - (absent * latent.entropy).sum()
        own = type(latent)(*(where(counted > 0.0, field, 0.0) for field in latent))
        return state._replace(latent=own), bound

    return sweep_padded


@cache
def _padded_carry(carry: Callable[[Any, Any], Any]) -> Callable[[PaddedProblem, Any], Any]:
    return lambda padded, state: carry(padded.problem, state)


class Padding(NamedTuple):
    """Positions of samples and weights in the larger problem.

    Parameters
    ----------
    rows, basis : slice or array of integers
        Places of the samples, and of the weights a.
    n_rows, n_basis : int
        Sizes of the larger problem.
    n_padded : int
        Weights that are padding, of one output.
    n_outputs : int
    sample_prior : Gamma
        Prior on the precisions of a.
    """

    rows: Any
    basis: Any
    n_rows: int
    n_basis: int
    n_padded: int
    n_outputs: int
    sample_prior: Gamma

    def wrap(self, algorithm: Algorithm) -> Any:
        """Return the algorithm for padded problems."""
        return SimpleNamespace(
            sweep=_padded_sweep(algorithm.sweep),
            carry=_padded_carry(algorithm.carry),
            scales=algorithm.scales,
            COORDINATES=algorithm.COORDINATES,
            STATE=algorithm.STATE,
        )

    @property
    def fixed_square(self) -> float:
        """E[a²] of padding, r / c."""
        return self.sample_prior.rate / self.sample_prior.concentration

    def start(self, carry: Any) -> Any:
        """Put a carry into the larger problem, without what no sweep reads."""
        fields = {
            "dual_square": _spread(carry.dual_square, self.basis, self.n_basis, self.fixed_square),
            "pull": _spread(carry.pull, self.basis, self.n_basis),
            "probe": carry.probe[..., :0],
            "readout_cov": np.asarray(carry.readout_cov),  # of a posterior of `many_kernels`, a matrix
        }
        if hasattr(carry, "latent"):
            fields["latent"] = _spread(carry.latent, self.rows, self.n_rows)
        return carry._replace(**fields)

    def carry(self, padded: Any) -> Any:
        """Take a carry, or the scales of one, out of the larger problem."""
        places = {"dual_square": self.basis, "pull": self.basis, "latent": self.rows}
        fields = {
            name: _taken(getattr(padded, name), at) for name, at in places.items() if hasattr(padded, name)
        }
        return padded._replace(**fields)

    def state(self, padded: Any) -> Any:
        """Take the factors out of the larger problem, as arrays of their own."""
        dual, intermediate = padded.dual, padded.intermediate
        rate, cov = padded.sample_precision.rate, dual.cov[..., self.basis, :][..., self.basis]
        log_det = dual.log_det - self.n_padded * np.log(self.fixed_square)
        fields: dict[str, Any] = {
            "sample_precision": padded.sample_precision._replace(rate=rate[..., self.basis].copy()),
            "dual": Gaussian(dual.mean[..., self.basis].copy(), cov.copy(), log_det),
            "intermediate": IntermediateOutputs(
                intermediate.mean[..., self.rows].copy(), intermediate.cov, intermediate.log_det
            ),
        }
        if hasattr(padded, "latent"):
            fields["latent"] = type(padded.latent)(*(field[..., self.rows].copy() for field in padded.latent))
        return padded._replace(**fields)

    def bound(self, padded: Array) -> float:
        """Take what the weights of padding add to it out of the bound of the larger problem."""
        return float(padded) - self.n_outputs * self.n_padded * self._excess

    @property
    def _excess(self) -> float:
        square = np.full(1, self.fixed_square)
        precision = update_precision(self.sample_prior, square)
        dual = Gaussian(np.zeros(1), square[None], np.log(square[0]))
        own = precision.bound(self.sample_prior) + expected_zero_mean(dual.square, precision)
        return float(own + dual.entropy)


class ExactShape:
    """Replacement of a `Padding` for a problem that cannot be padded."""

    def wrap(self, algorithm: Algorithm) -> Any:
        """Return the algorithm."""
        return algorithm

    def start(self, carry: tuple[Array, ...]) -> Any:
        """Return the carry."""
        return carry

    def carry(self, carry: tuple[Array, ...]) -> Any:
        """Return the carry."""
        return carry

    def state(self, state: Any) -> Any:
        """Return the state."""
        return state

    def bound(self, bound: Array) -> float:
        """Return the bound."""
        return float(bound)


def pad_problems(problems: Sequence[Any]) -> tuple[list[Any], list[Padding | ExactShape]]:
    """Pad problems to one size, the bucket of the largest; where kernels are large, to the largest itself.

    Parameters
    ----------
    problems : sequence of NamedTuple
        NumPy arrays. What is the same array in several problems is the same array in those returned.

    Returns
    -------
    padded : list of PaddedProblem
        The problems themselves if their stacks, or what they know about samples, cannot be padded.
    paddings : list of Padding or ExactShape
        From the algorithm of the problems to that of the padded ones; from carries and states of the padded problems
        to those of the problems, and back.
    """
    held = [one for one in map(_held, problems) if one is not None]
    if len(held) < len(problems):
        return list(problems), [ExactShape()] * len(problems)
    is_small = max(one.array.nbytes for one in held) <= COPIED_BYTES
    n_rows, n_basis = (
        bucket_size(size) if is_small else size
        for size in (max(one.array.shape[axis] for one in held) for axis in (1, 2))
    )
    known: dict[Any, Any] = {}  # what was padded before; the problems keep the keys alive
    paddings = [_padding(*pair, n_rows, n_basis) for pair in zip(problems, held, strict=True)]
    padded = [_pad(*each, known) for each in zip(problems, held, paddings, strict=True)]
    return padded, list(paddings)


def size_class(problem: Any) -> Any:
    """Return the grouping key of problems that can be padded to one size; of others, their shapes."""
    held = _held(problem)
    if held is None:
        return type(problem), _shapes(problem)
    return type(problem), len(held.array), held.array.dtype, problem.y.shape[:-1]


def stored_kernels(stack: KernelStack) -> Any:
    """Return the identity of a stack's kernels: the array, or the stack itself."""
    held = held_array(stack)
    return stack if held is None else held.array


def _shapes(value: Any) -> Any:
    """Return the shapes of the arrays in nested tuples."""
    return tuple(map(_shapes, value)) if isinstance(value, tuple) else np.shape(value)


def _held(problem: Problem | MultitaskProblem) -> HeldArray | None:
    """Return the kernels of a problem; None for those that cannot be padded."""
    stack = getattr(problem, "stack", None)  # a problem of several tasks has one for each
    if stack is None or stack.present is not None or getattr(problem, "absent", None) is not None:
        return None
    return held_array(stack)


def _padding(problem: Problem, held: HeldArray, n_rows: int, n_basis: int) -> Padding:
    n_outputs, n_padded = problem.y.size // problem.y.shape[-1], n_basis - problem.stack.n_train
    return Padding(held.rows, held.train, n_rows, n_basis, n_padded, n_outputs, problem.priors.sample)


def _pad(problem: Problem, held: HeldArray, padding: Padding, known: dict[Any, Any]) -> PaddedProblem:
    rows, basis, n_rows, n_basis = padding[:4]

    def once(source: Any, make: Callable[..., Any]) -> Any:
        if id(source) not in known:
            known[id(source)] = make()
        return known[id(source)]

    gram, y = problem.gram, problem.y
    counted = once(problem.stack, lambda: _spread(np.ones(problem.stack.n_rows), rows, n_rows))
    larger: Any = problem._replace(
        stack=once(held.array, lambda: held.padded(n_rows, n_basis)),
        gram=once(gram, lambda: _spread(_spread(gram, basis, n_basis).T, basis, n_basis).T),
        y=once(y, lambda: _spread(y, rows, n_rows)),
    )
    if isinstance(problem, CensoredProblem):  # both ends are zero where there is no sample
        upper = problem.upper
        larger = larger._replace(upper=once(upper, lambda: _spread(upper, rows, n_rows)))
    return PaddedProblem(larger, counted)


def _taken(values: np.ndarray, places: slice | np.ndarray) -> np.ndarray:
    """Take the entries at `places` of the last axis, if there are any entries."""
    return values[..., places] if values.size else values


def _spread(values: Array, places: slice | np.ndarray, size: int, fill: float = 0.0) -> np.ndarray:
    """Put the entries of the last axis at `places` among `size`."""
    values = np.asarray(values)
    spread = np.full((*values.shape[:-1], size), fill, dtype=values.dtype)
    spread[..., places] = values
    return spread
