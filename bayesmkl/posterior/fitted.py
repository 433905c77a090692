"""What every view of a posterior needs to know of a fitted model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesmkl._numerics.validation import check_number
from bayesmkl.bemkl import BEMKLClassifier, BEMKLRegressor
from bayesmkl.bemkl.draws import PosteriorDraws, variational_draws
from bayesmkl.kernels.stack import DenseStack

__all__ = ["FittedBEMKL", "check_probability", "evenly", "fitted_bemkl"]

N_DRAWS = 1000  # from a variational posterior, where nothing else is asked for


class FittedBEMKL(NamedTuple):
    """The posterior and names of a fitted model; one state for each of `class_names`, else one."""

    estimator: Any  # BEMKLClassifier or BEMKLRegressor
    states: tuple[Any, ...]  # factors of a variational posterior, or PosteriorDraws
    histories: tuple[np.ndarray, ...]  # ELBO after every sweep; empty where the inference has no bound
    kernel_names: list[str]
    kernel_views: list[str] | None  # None where kernels were precomputed
    class_names: list[str] | None  # of a one-versus-all model with more than two classes
    transformers: tuple[Any, ...] = ()  # what the samples pass in a Pipeline before the estimator

    @property
    def inference(self) -> str:
        """How the posterior was found: "vb", "nuts", "gibbs" or "svi"."""
        return self.estimator.inference if self.is_drawn else "vb"

    @property
    def is_drawn(self) -> bool:
        """Whether the posterior is a set of draws; else it has factors in closed form."""
        return isinstance(self.states[0], PosteriorDraws)

    @property
    def is_sampled(self) -> bool:
        """Whether the draws are Markov chains of the posterior itself."""
        return self.inference in ("nuts", "gibbs")

    @property
    def model_names(self) -> list[str]:
        """One name for each of `states`: its class, or "model" if there is but one."""
        return ["model"] if self.class_names is None else self.class_names

    @property
    def target(self) -> np.ndarray:
        """Training labels, or targets in their own units, (n_samples,)."""
        estimator = self.estimator
        if not hasattr(estimator, "classes_"):
            return estimator.y_mean_ + estimator.y_scale_ * estimator.target_
        several = self.class_names is not None
        codes = estimator.target_.argmax(axis=0) if several else (estimator.target_ > 0).astype(int)
        return estimator.classes_[codes]

    @property
    def endings(self) -> list[str]:
        """How the inference ended, in words; once where several models ended alike."""
        outcomes = [self.estimator.outcome_] if self.class_names is None else self.estimator.outcome_
        return list(dict.fromkeys(outcome.value for outcome in outcomes))

    def draws(self, n_draws: int | None, rng: np.random.Generator) -> list[PosteriorDraws]:
        """Draw from a variational posterior, or thin the chains evenly; one PosteriorDraws per model.

        Parameters
        ----------
        n_draws : int or None
            Draws in each chain: of existing chains at most as many as there are. None keeps all of them, or draws
            1000 from a variational posterior.
        rng : numpy.random.Generator
        """
        if not self.is_drawn:
            return [variational_draws(state, n_draws or N_DRAWS, rng) for state in self.states]
        return [
            state.map(lambda values: values[:, evenly(values.shape[1], n_draws)]) for state in self.states
        ]

    def statistics(self, n_draws: int | None) -> list[dict[str, np.ndarray]]:
        """Return what the sampler says of each draw of `draws`, by name; one dictionary per model."""
        stats = getattr(self.estimator, "sample_stats_", {})
        per_model = list(stats) if isinstance(stats, tuple) else [stats] * len(self.states)
        return [
            {name: values[:, evenly(values.shape[1], n_draws)] for name, values in own.items()}
            for own in per_model
        ]

    def training_stack(self, kernels: Any = None) -> DenseStack:
        """Return the training kernels, evaluated anew, or those that the user gives back.

        Parameters
        ----------
        kernels : array-like of shape (n_samples, n_samples, n_kernels), optional
            What the model was fitted to, if that was precomputed kernels.

        Raises
        ------
        ValueError
            If precomputed kernels are missing, of the wrong shape, or given where a bank has them.
        """
        if self.estimator.kernel_bank_ is not None:
            if kernels is not None:
                raise ValueError(
                    "`kernels` is for models that were fitted to precomputed kernels; this one evaluates its own, "
                    "by its KernelBank. Leave it out."
                )
            return DenseStack(self.estimator.kernel_bank_.train_stack())
        if kernels is None:
            raise ValueError(
                "`kernels` must be the training kernels of shape (n_samples, n_samples, n_kernels): the model was "
                "fitted to precomputed ones and does not keep them. Pass the stack that `fit` got."
            )
        n_train, n_kernels = self.estimator.n_features_in_, self.estimator.n_kernels_in_
        if np.shape(kernels)[:1] != (n_train,):
            raise ValueError(
                f"`kernels` must be the training kernels of shape ({n_train}, {n_train}, {n_kernels}); got "
                f"{np.shape(kernels)}. Pass the stack that `fit` got."
            )
        return self.estimator._row_stack(kernels)

    def transform(self, X: Any) -> Any:
        """Pass new samples through the steps before the estimator."""
        for step in self.transformers:
            X = step.transform(X)
        return X

    def scores(self, X: Any) -> Any:
        """Predict the score of new samples in regression: moments of a variational posterior, or draws."""
        return self.estimator._score(self.estimator._row_stack(self.transform(X)), self.states[0], None)

    def problems(self, kernels: Any = None) -> list[Any]:
        """Return what each model was fitted to; `kernels` as in `training_stack`."""
        return self.estimator._problems(self.training_stack(kernels))

    def problems_without_kernels(self) -> list[Any]:
        """Return the same over a stack without rows, which has priors and targets and costs nothing."""
        estimator = self.estimator
        n_train = estimator.target_.shape[-1]
        return estimator._problems(DenseStack(np.empty((estimator.n_kernels_in_, 0, n_train))))


def evenly(n_total: int, n_kept: int | None) -> np.ndarray:
    """Return the indices of at most `n_kept` of `n_total` entries at even distances; None keeps all.

    Examples
    --------
    >>> evenly(10, 4)
    array([0, 2, 5, 7])
    """
    n_kept = n_total if n_kept is None else min(n_kept, n_total)
    return np.arange(n_kept) * n_total // n_kept


def fitted_bemkl(model: Any) -> FittedBEMKL:
    """Find the fitted BEMKL estimator in `model`.

    Parameters
    ----------
    model : estimator
        A fitted BEMKLClassifier or BEMKLRegressor, or a Pipeline or search that ends in one.

    Returns
    -------
    FittedBEMKL

    Raises
    ------
    TypeError
        For any other object.
    sklearn.exceptions.NotFittedError
        Before `fit`.
    """
    estimator, transformers = model, []
    while not isinstance(estimator, (BEMKLClassifier, BEMKLRegressor)):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif getattr(estimator, "steps", None):
            transformers += [step for _, step in estimator.steps[:-1] if hasattr(step, "transform")]
            estimator = estimator.steps[-1][1]
        else:
            raise TypeError(
                "`model` must be a BEMKLClassifier, a BEMKLRegressor, or a Pipeline or fitted search that ends in "
                f"one; got {type(model).__name__}, which has no BEMKL posterior."
            )
    check_is_fitted(estimator, "posterior_")
    several = type(estimator.posterior_) is tuple  # one per class; a single posterior is a NamedTuple
    bank, histories = estimator.kernel_bank_, getattr(estimator, "elbo_history_", ())
    return FittedBEMKL(
        estimator,
        estimator.posterior_ if several else (estimator.posterior_,),
        (histories,) if isinstance(histories, np.ndarray) else tuple(histories),
        [str(name) for name in estimator.kernel_names_],
        None if bank is None else list(bank.kernel_views_),
        [str(label) for label in estimator.classes_] if several else None,
        tuple(transformers),
    )


def check_probability(name: str, value: Any) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    if not 0.0 < check_number(name, value) < 1.0:
        raise ValueError(f"`{name}` must be between 0 and 1; got {value!r}. 0.94 stands for 94 %.")
    return float(value)
