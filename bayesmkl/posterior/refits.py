r"""Refits of a model without some kernels, or to permuted targets, and what they predict of left-out samples.

How samples are left out depends on what a posterior is good for:

* additive Gaussian processes have cavities, see `bayesmkl.posterior.cavities`;
* so has BEMKL by "nuts" and "gibbs", given draws of its kernel weights, see
  `bayesmkl.posterior.bemkl_cavities`;
* a variational posterior cannot be reweighted: its draws have k-hats above 0.7 for nearly all samples, and by them
  random labels are predicted far better than by their frequencies. It is fitted to folds instead.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from bayesmkl._utils.options import Storage
from bayesmkl._utils.warnings import holding_back, warn_user
from bayesmkl.bemkl import model
from bayesmkl.bemkl.base import FitTask
from bayesmkl.bemkl.classifier import class_model_of
from bayesmkl.bemkl.moments import Dirichlet, SpikeSlab
from bayesmkl.bemkl.nonnegative import nonnegative
from bayesmkl.bemkl.reading import ScoreDraws, log_probabilities
from bayesmkl.bemkl.runs import Fit
from bayesmkl.kernels.stacks.base import StoredStack
from bayesmkl.kernels.stacks.dense import DenseStack, stored_array
from bayesmkl.posterior.bemkl_cavities import leave_one_out_of_draws
from bayesmkl.posterior.fitted import FittedBEMKL, states_of
from bayesmkl.posterior.intercept_only import intercept_only

THROUGH_LANDMARKS = (
    "it compares samples with landmarks. Fit one with `landmarks=None` to some of the samples, or compare "
    "predictions of held-out samples: `bayesmkl.evaluation.compare_models`."
)
CLEAR = 2.0  # standard errors beyond which a difference is called one

N_FOLDS = 10
TOL = 1e-4  # of the bound in folds: probabilities need no more


class Accuracy(NamedTuple):
    """What a fit says of its targets.

    Attributes
    ----------
    elpd_i : ndarray of shape (n_samples,)
        Log probability or density of the target of every sample by the others.
    log_evidence : float
        In nats; a lower bound of it from variational posteriors; NaN of Markov chains and of more than two classes.
    pareto_k : float
        Of the draws of hyperparameters; NaN where they have none.
    converged : bool
    """

    elpd_i: np.ndarray
    log_evidence: float
    pareto_k: float
    converged: bool

    def ahead_of(self, other: Accuracy) -> dict[str, float]:
        """Return by how much left-out targets, and all together, are more probable than by another fit, in nats.

        The second, ``log_evidence_diff``, is left out where there is no evidence.
        """
        difference, gain = self.elpd_i - other.elpd_i, self.log_evidence - other.log_evidence
        found = {
            "elpd_diff": float(difference.sum()),
            "se": float(np.sqrt(len(difference)) * difference.std()),
        }
        return found if np.isnan(gain) else found | {"log_evidence_diff": gain}


def is_clear(difference: dict[str, float]) -> bool:
    """Return whether `Accuracy.ahead_of` is above two standard errors."""
    return difference["elpd_diff"] > CLEAR * difference["se"]


def warn_of_open(found: Sequence[Accuracy], more: str) -> None:
    """Warn once of refits that did not converge, and say of what to ask for more."""
    n_open = sum(not one.converged for one in found)
    if n_open:
        warn_user(
            f"{n_open} of {len(found)} refits did not converge. Read their rows with care, or fit the model with "
            f"more {more}.",
            ConvergenceWarning,
        )


def by_falling_difference(table: pd.DataFrame, n_first: int) -> pd.DataFrame:
    """Sort rows by falling `elpd_diff`, but for the first ones, which stay first."""
    order = n_first + np.argsort(-table["elpd_diff"][n_first:].to_numpy(), kind="stable")
    return table.iloc[np.concatenate([np.arange(n_first), order])].reset_index(drop=True)


class Refits(Protocol):
    """Fits of one model to its own samples, with other kernels or targets."""

    forgets_order: (
        bool  # whether all samples together are predicted alike in any order where there are no kernels
    )

    @property
    def own(self) -> Accuracy:
        """Of the model as it is."""

    def fit(self, kept: np.ndarray, order: np.ndarray | None = None) -> Accuracy:
        """Fit with the kernels of a mask, at least one of them, and targets in another order, if given."""

    def without_kernels(self, order: np.ndarray | None = None) -> Accuracy:
        """Fit without any."""


def refits_of(fitted: FittedBEMKL, kernels: ArrayLike | None = None) -> Refits:
    """Return the refits of a model.

    Parameters
    ----------
    fitted : FittedBEMKL
    kernels : array-like, optional
        See `FittedBEMKL.training_stack`.

    Raises
    ------
    ValueError
        If it has none, see `why_no_refits`, or its kernels are missing.
    """
    reason = why_no_refits(fitted)
    if reason is not None:
        raise ValueError(f"`model` cannot be compared with fits without its kernels: {reason}")
    if fitted.is_marginal:
        if kernels is not None:
            fitted.training_stack(kernels)  # refused where they are wrong; the model keeps its own
        return ProcessRefits(fitted)
    stack = fitted.training_stack(kernels)
    if stack.storage == "streamed":
        raise ValueError(
            "`model` has training kernels that are evaluated block by block, too many for refits. Fit one to some "
            "of its samples."
        )
    return BEMKLRefits(fitted, DenseStack(stored_array(stack)))


def why_no_refits(fitted: FittedBEMKL) -> str | None:
    """Say why samples cannot be left out by refits, and what to do instead; None if they can."""
    if fitted.is_marginal:
        return THROUGH_LANDMARKS if fitted.has_landmarks else None
    if not fitted.labeled.all():
        return "some of its samples are unlabeled. Fit it to the labeled ones."
    if getattr(fitted.estimator, "missing_views", "error") != "error":
        return (
            'it integrates over missing views. Fit with missing_views="error" to samples that have all views.'
        )
    return None


class ProcessRefits:
    """Refits of an additive Gaussian process, which leave samples out by cavities.

    Parameters
    ----------
    fitted : FittedBEMKL
    """

    forgets_order = True

    def __init__(self, fitted: FittedBEMKL) -> None:
        self.estimator: Any = fitted.estimator
        self.stack: StoredStack = self.estimator._stored_training()

    @property
    def own(self) -> Accuracy:
        """Of the model as it is."""
        model = self.estimator
        return Accuracy(model._counted(model.elpd_i_), model.log_evidence_, model.pareto_k_, model.converged_)

    def fit(self, kept: np.ndarray, order: np.ndarray | None = None) -> Accuracy:
        """Fit with some kernels."""
        positions = np.flatnonzero(kept)
        return Accuracy(*self.estimator._refit(self.stack.select(positions), order, positions))

    def with_kernel(self, kernel: np.ndarray) -> Accuracy:
        """Fit with one more, (n_samples, n_samples), which is in the group of the first where priors have groups."""
        stack = DenseStack(np.concatenate([stored_array(self.stack), kernel[None]]))
        return Accuracy(*self.estimator._refit(stack, None, np.append(np.arange(self.stack.n_kernels), 0)))

    def without_kernels(self, order: np.ndarray | None = None) -> Accuracy:
        """Fit with a constant kernel, which says nothing that the intercept does not."""
        nothing = DenseStack(np.ones((1, self.stack.n_rows, self.stack.n_train)))
        return Accuracy(*self.estimator._refit(nothing, order, np.zeros(1, dtype=int)))


class BEMKLRefits:
    """Refits of BEMKL by the model's own inference and settings.

    Parameters
    ----------
    fitted : FittedBEMKL
    stack : DenseStack
        Training kernels.
    """

    def __init__(self, fitted: FittedBEMKL, stack: DenseStack) -> None:
        self.fitted, self.stack, self.estimator = fitted, stack, fitted.estimator
        self.targets: np.ndarray = self.estimator.target_
        self.by_folds = not fitted.is_drawn
        self.forgets_order = not self.by_folds
        settings: dict[str, Any] = {"verbose": 0, "storage": Storage("dense", "numpy")}
        if not isinstance(self.estimator.init, str):
            settings["init"] = "mean"
        if fitted.is_classifier:
            settings["intermediate_scale"] = self.estimator.intermediate_scale_
        self.settings = settings

    @property
    def own(self) -> Accuracy:
        """Of the model as it is."""
        model = self.estimator
        if self.by_folds:
            elpd_i = self._by_folds(np.ones(self.stack.n_kernels, dtype=bool), self.targets)
            return Accuracy(elpd_i, float(model.elbo_), np.nan, model.converged_)
        left = leave_one_out_of_draws(self.fitted, self.fitted._problems_over(self.stack))
        return Accuracy(left.elpd_i, np.nan, np.nan, model.converged_)

    def fit(self, kept: np.ndarray, order: np.ndarray | None = None) -> Accuracy:
        """Fit with some kernels; to another order of the targets a bound is not found."""
        targets = self.targets if order is None else self.targets[..., order]
        if self.by_folds and order is not None:
            return Accuracy(self._by_folds(kept, targets), np.nan, np.nan, True)
        stack = self.stack.select(np.flatnonzero(kept))
        refit, fits = self._fit(stack, targets, kept)
        converged = all(fit.outcome.converged for fit in fits)
        if self.by_folds:
            bound = sum(float(fit.elbo_history[-1]) for fit in fits if fit.elbo_history is not None)
            return Accuracy(self._by_folds(kept, targets), bound, np.nan, converged)
        refitted = self.fitted._replace(estimator=refit, states=states_of(refit))
        left = leave_one_out_of_draws(refitted, refit._problems(stack, with_gram=False))
        return Accuracy(left.elpd_i, np.nan, np.nan, converged)

    def without_kernels(self, order: np.ndarray | None = None) -> Accuracy:
        """Integrate over the intercepts exactly; of competing classes, fit with a kernel that is zero."""
        targets = self.targets if order is None else self.targets[..., order]
        if self.fitted.is_multinomial:
            stack = DenseStack(np.zeros((1, self.stack.n_rows, self.stack.n_train)))
            nothing = BEMKLRefits(self.fitted, stack)
            return nothing.fit(np.ones(1, dtype=bool), order)
        problems = self.fitted._problems_over(DenseStack(np.empty((self.stack.n_kernels, 0, 0))))
        n_samples = targets.shape[-1]
        folds = self._folds(targets) if self.by_folds else list(np.arange(n_samples)[:, None])
        rows = iter(np.atleast_2d(targets))
        found = []
        for problem in problems:
            y = np.stack([next(rows) for _ in range(len(np.atleast_2d(problem.y)))])
            found += intercept_only(problem._replace(y=y), folds)
        log_evidence = sum(output.log_evidence for output in found)
        elpd_i = self._log_predictive(np.array([output.left_out for output in found]), targets)
        return Accuracy(elpd_i, log_evidence, np.nan, True)

    # ------------------------------------------------------------------------------------------------ one fit

    def _fit(self, stack: DenseStack, targets: np.ndarray, kept: np.ndarray) -> tuple[Any, list[Fit]]:
        """Return a copy of the estimator with another posterior, and how that was found."""
        refit = copy.copy(self.estimator).set_params(**self.settings, kernel_prior=self._kernel_prior(kept))
        refit.target_ = targets
        problems = refit._problems(stack)
        algorithm = nonnegative(model) if refit.nonnegative else model
        n_models = len(problems)
        task = FitTask(
            problems, stack, targets, n_models > 1, algorithm, [refit.init] * n_models, ["refit"] * n_models
        )
        fits = refit._infer(task)
        posteriors = tuple(fit.posterior for fit in fits)
        refit.posterior_ = posteriors if type(self.estimator.posterior_) is tuple else posteriors[0]
        return refit, fits

    def _kernel_prior(self, kept: np.ndarray) -> Any:
        """Return the prior of the kernels that are kept, where it has numbers for each."""
        prior = self.estimator.kernel_prior
        if not isinstance(prior, Dirichlet | SpikeSlab) or len(kept) != self.estimator.n_kernels_in_:
            return prior
        fields = {name: np.asarray(value)[kept] for name, value in prior._asdict().items() if np.ndim(value)}
        return prior._replace(**fields)

    # -------------------------------------------------------------------------------------------------- folds

    def _folds(self, targets: np.ndarray) -> list[np.ndarray]:
        """Return the samples of ten folds, with classes in proportion."""
        n_samples, seed = targets.shape[-1], self.estimator.random_state or 0
        if not self.fitted.is_classifier or self.estimator.is_multilabel_:
            return [
                test
                for _, test in KFold(min(N_FOLDS, n_samples), shuffle=True, random_state=seed).split(
                    targets.T
                )
            ]
        classes = targets.argmax(axis=0) if targets.ndim == 2 else targets > 0.0
        n_folds = min(N_FOLDS, int(np.unique(classes, return_counts=True)[1].max()))
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        with holding_back(UserWarning):  # a class of fewer than ten samples is in fewer folds
            return [test for _, test in splitter.split(classes, classes)]

    def _by_folds(self, kept: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the log predictive density of every sample by the samples of the other folds."""
        kernels = stored_array(self.stack.select(np.flatnonzero(kept)))
        has_landmarks = self.stack.n_rows != self.stack.n_train or self.fitted.has_landmarks
        tol, elpd_i = self.settings.get("tol", self.estimator.tol), np.empty(targets.shape[-1])
        own = copy.copy(self)
        own.settings = self.settings | {"tol": max(tol, TOL), "n_init": 1, "init": "mean"}
        for test in self._folds(targets):
            train = np.setdiff1d(np.arange(len(elpd_i)), test)
            columns = kernels if has_landmarks else kernels[:, :, train]
            stack, rows = DenseStack(np.ascontiguousarray(columns[:, train])), DenseStack(columns[:, test])
            refit, _ = own._fit(stack, targets[..., train], kept)
            elpd_i[test] = self._predict(refit, rows, targets[..., test])
        return elpd_i

    def _predict(self, refit: Any, rows: DenseStack, targets: np.ndarray) -> np.ndarray:
        """Return log densities of the targets of rows, as the estimator predicts them."""
        if not self.fitted.is_classifier:
            scores, noise = refit._scores(rows)
            each = [_log_density(*own) for own in zip(scores, noise, np.atleast_2d(targets), strict=True)]
            return np.sum(each, axis=0) - np.log(refit.y_scale_).sum()
        model, settings = class_model_of(refit.posterior_), refit._settings()
        scores = model.scores(rows, states_of(refit), settings, refit.predictive)
        if targets.ndim == 2 and not refit.is_multilabel_:
            log_p = model.log_class_probabilities(scores, settings.margin)
            return log_p[np.arange(len(log_p)), targets.argmax(axis=0)]
        sides = np.array([log_probabilities(score, settings.margin) for score in scores])
        return self._log_predictive(sides, targets)

    def _log_predictive(self, left_out: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return log densities of samples from those of each output, of labels for both sides of the margin."""
        if not self.fitted.is_classifier:
            return left_out.sum(axis=0) - np.log(self.estimator.y_scale_).sum()
        log_p = left_out - logsumexp(left_out, axis=-1, keepdims=True)
        if targets.ndim == 2 and not self.estimator.is_multilabel_:
            classes = log_p[..., 1] - logsumexp(log_p[..., 1], axis=0)
            return classes[targets.argmax(axis=0), np.arange(targets.shape[-1])]
        above = np.atleast_2d(targets) > 0.0
        return np.where(above, log_p[..., 1], log_p[..., 0]).sum(axis=0)


def _log_density(score: Any, noise: float, y: np.ndarray) -> np.ndarray:
    """Return log densities of targets in the units of the fit."""
    if isinstance(score, ScoreDraws):
        spread = score.scales[:, None]
        log_density = norm.logpdf(y, score.means, spread)
        return logsumexp(log_density, axis=0) - np.log(len(log_density))
    return norm.logpdf(y, score.mean, np.sqrt(noise + score.variance))
