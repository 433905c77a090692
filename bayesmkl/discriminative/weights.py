"""The seam between estimators and methods with one weight per kernel: what a rule is given, and what it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from bayesmkl._utils.docstrings import fulfil_docs
from bayesmkl._utils.validation import check_choice, check_integer, check_number
from bayesmkl.discriminative.problems import InnerProblem, MKLResult, OnStep
from bayesmkl.kernels.stacks.base import Stack

Start = np.ndarray | None


class SampleWeights(NamedTuple):
    """Weights of the training samples; None is for weights of one.

    Parameters
    ----------
    counts : ndarray of shape (n_samples,) or None
        How often a sample counts, everywhere: in means and alignments as well as in losses.
    costs : ndarray of shape (n_samples,) or None
        Factors of `C`: `counts` times the weight of the class.
    """

    counts: np.ndarray | None = None
    costs: np.ndarray | None = None


class Training(NamedTuple):
    """What all tasks of a fit share.

    Parameters
    ----------
    stack : Stack
        Training kernels.
    weights : SampleWeights
    gram : ndarray of shape (n_kernels, n_kernels) or None
        Frobenius products of the kernels, where the method needs them.
    unit : float
        Of the targets, in which tolerances are: 1 for labels, else the standard deviation.
    """

    stack: Stack
    weights: SampleWeights = SampleWeights()
    gram: np.ndarray | None = None
    unit: float = 1.0


class Learned(NamedTuple):
    """A result, and further fitted attributes by their names without the underscore at the end."""

    result: MKLResult
    more: Mapping[str, Any]


def one_of(*choices: str) -> Callable[[str, Any], str]:
    """Return the check of a parameter that is one of some words."""
    return lambda name, value: check_choice(name, value, choices)


def number(low: float, inclusive: bool = False) -> Callable[[str, Any], float]:
    """Return the check of a parameter that is a number above `low`."""
    return lambda name, value: check_number(name, value, low, inclusive)


class WeightRule(BaseEstimator):
    """How kernel weights are found: parameters of a method, what it can be used for, and the method itself.

    A rule is a dataclass. Its parameters are checked by `CHECKS`, `tol` and `max_iter` as always; it overrides what
    it declares, `prepare`, `combine` and `check_kernels` where it needs to, and `learn`.

    Attributes
    ----------
    targets : tuple of str
        What it learns from: "labels", "numbers", or "nothing but samples".
    counts_samples : bool
        Whether samples and classes may have weights.
    shares_weights : bool
        Whether several classes always share kernel weights.
    needs_sums_alone : bool
        Whether nothing of the kernels is needed but weighted sums.
    centered : bool
        Whether it centers kernels and target.
    centers_target : bool
        Whether a constant added to a numeric target changes nothing but the intercept.
    relative_C : bool
        Whether `C` may be None: relative to the variance of the combined kernel.
    is_sum : bool
        Whether kernels are combined by a weighted sum.
    """

    CHECKS: ClassVar[Mapping[str, Callable[[str, Any], Any]]] = {}
    targets: ClassVar[tuple[str, ...]] = ("labels", "numbers", "nothing but samples")
    counts_samples: ClassVar[bool] = True
    shares_weights: ClassVar[bool] = False
    needs_sums_alone: ClassVar[bool] = False
    centered: Any = False
    centers_target: Any = True
    relative_C: ClassVar[bool] = False
    is_sum: Any = True

    tol: float
    max_iter: int = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Complete the docstrings of overridden methods."""
        super().__init_subclass__(**kwargs)
        fulfil_docs(WeightRule)(cls)

    def checked(self) -> Self:
        """Return the rule with valid parameters, as plain numbers.

        Returns
        -------
        WeightRule
            A copy.

        Raises
        ------
        ValueError
            For a parameter that is none; the message names it.
        """
        checks = {"tol": number(0.0), "max_iter": lambda name, value: check_integer(name, value, low=1)}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        known = checks | dict(self.CHECKS)
        return type(self)(**{k: known[k](k, value) if k in known else value for k, value in values.items()})

    def prepare(self, training: Training) -> Training:
        """Add what all tasks share, once for a fit.

        Parameters
        ----------
        training : Training
            Kernels and weights of the samples.

        Returns
        -------
        Training
            The same, with `gram` where the method needs it.
        """
        return training

    def check_kernels(self, stack: Stack, names: np.ndarray, fitting: bool) -> None:
        """Raise for kernels that the method cannot combine.

        Parameters
        ----------
        stack : Stack
            Of the training samples, or of new ones.
        names : ndarray of shape (n_kernels,)
            For messages.
        fitting : bool
            Whether the kernels are those of training.
        """

    def combine(self, stack: Stack, kernel_weights: np.ndarray) -> np.ndarray:
        """Return the combined kernel.

        Parameters
        ----------
        stack : Stack
            Kernels between some rows and the training samples.
        kernel_weights : ndarray of shape (n_kernels,)
            Their weights.

        Returns
        -------
        ndarray of shape (n_rows, n_train)
            Their weighted sum, unless the method has another.
        """
        return stack.combine(kernel_weights)

    def learn(
        self, training: Training, targets: np.ndarray, svm: InnerProblem, start: Start, on_step: OnStep
    ) -> Any:
        """Learn the kernel weights that some tasks share, and their SVMs.

        Parameters
        ----------
        training : Training
            As `prepare` returned it.
        targets : ndarray of shape (n_tasks, n_samples)
            Labels -1 and +1, numbers, or zeros.
        svm : InnerProblem
            What is solved on the combined kernel.
        start : ndarray of shape (n_kernels,) or None
            First kernel weights, where the method iterates on them.
        on_step : callable or None
            Takes the number of iterations done and a line of status.

        Returns
        -------
        MKLResult or Learned
            Weights and solutions.
        """
        raise NotImplementedError
