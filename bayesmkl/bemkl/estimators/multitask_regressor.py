"""Multitask BEMKL regression as a scikit-learn estimator: related tasks, each with kernel weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.bemkl.estimators.multitask_base import BaseMultitask, TaskFactors
from bayesmkl.bemkl.estimators.task_table import target_table, task_targets
from bayesmkl.bemkl.inference.options import Inference, Storage
from bayesmkl.bemkl.models import regression
from bayesmkl.bemkl.models.all_models import SingleState
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.models.multitask import MultitaskPriors, TargetTask
from bayesmkl.bemkl.models.regression import RegressionState
from bayesmkl.bemkl.models.task_parts import MultitaskState, TargetState
from bayesmkl.bemkl.reading.predict import ScoreMoments
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["BEMKLMultitaskRegressor"]

UNIT = Gamma(100.0, 100.0)  # intermediate_prior="unit"


class BEMKLMultitaskRegressor(RegressorMixin, BaseMultitask):
    r"""Bayesian efficient multiple kernel learning for several regressions with related kernel weights.

    Every task t is a regression as in `BEMKLRegressor`, over the same views but with samples, sample weights, noise
    and kernel weights of its own. The paper's outlook [1]_ is to enforce "similarity between the kernel weights of
    different tasks"; here they lie around common weights, at a distance that is learned:

    .. math:: e_t \mid e, \tau \sim N(e, I/\tau), \qquad
       y_{ti} \mid b_t, e_t, g_{ti} \sim N(e_t^\top g_{ti} + b_t, 1/\varepsilon_t) .

    Samples of all tasks are pooled; a sample may lack some of them. Tasks with few samples gain most.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        A bank is cloned and fitted on the samples of all tasks together. With "precomputed", `X` is a stack of
        kernels of shape (n_samples, n_train, n_kernels), or (n_samples, n_train) for one kernel. None is
        ``KernelBank()``.
    relation : {"learned", "shared", "separate"}, default="learned"
        How the kernel weights of the tasks relate. "learned": they lie around common weights, as near as the data
        say. "shared": all tasks have the same. "separate": every task has a model of its own, which is that of
        `BEMKLRegressor` with the same priors.
    task_prior : {"close", "related", "careful"} or Gamma, default="related"
        With ``relation="learned"``, prior on the precision :math:`\tau` of the tasks' weights around the common ones:
        "close" is Gamma(concentration=1, rate=0.3), "related" is Gamma(1, 1), "careful" is Gamma(1, 10). A small rate
        ties tasks closely, which helps if they are alike and harms if not; under "careful" they hardly influence each
        other.
    kernel_prior : {"auto", "nonsparse", "sparse"} or Gamma, default="auto"
        Prior on the precision of each common kernel weight, or of each task's weights if they are separate. "auto" is
        "sparse" for common weights, since all tasks together can tell which views to leave, and "nonsparse" for
        separate ones.
    sample_prior, bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions of the sample weights and of the intercept, the same in every task.
    intermediate_prior : {"unit", "nonsparse", "sparse"} or Gamma, default="unit"
        Prior on the precisions :math:`\upsilon_t` of the intermediate outputs. "unit" is Gamma(100, 100), which keeps
        them near one, the paper's value in classification: they set the scale of the kernel weights, which tasks can
        have in common only on one scale, and few samples leave open. `BEMKLRegressor` has "nonsparse".
    noise_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precisions :math:`\varepsilon_t` of the targets.
    normalize_y : bool, default=True
        Standardize the targets of each task first, so that tasks may have different units. Predictions are in the
        original units; weights, `posterior_` and `elbo_` are those of standardized targets.
    predictive : {"full", "paper"}, default="full"
        "full" carries all of the posterior into predictions; "paper" leaves the variance of the intermediate outputs
        out.
    inference : "vb" or VB, default="vb"
        The closed-form updates, the only inference that there is; ``VB(accelerate=False)`` for plain sweeps.
    init : {"mean", "random"} or posterior, default="mean"
        Start of the updates; a posterior is a `posterior_` of the same kernels, tasks and samples.
    n_init : int, default=1
        Starts of the updates, the first at `init` and the others random; the highest ELBO is kept.
    max_iter : int, default=1000
        Maximum number of sweeps over all factors.
    tol : float, default=1e-6
        Stop when the relative change of the ELBO stays below this in three sweeps; 0 does all `max_iter` sweeps.
    storage : {"auto", "dense"} or Storage, default="auto"
        ``Storage(backend=...)`` says where the updates run; the kernels of all tasks are one dense array.
    kernel_names : sequence of str, default=None
        Names of the kernels; taken from the bank by default.
    random_state : int, default=None
        Seed of the random starts and of the Monte Carlo estimate behind `kernel_shares_`. None is a fixed seed.
    verbose : int, default=0
        With 1, a progress bar on a terminal for fits of over two seconds.

    Attributes
    ----------
    tasks_ : ndarray of shape (n_tasks,)
        Names of the tasks: columns of a data frame, sorted values of `tasks`, or numbers.
    kernel_weights_, kernel_weights_std_ : ndarray of shape (n_tasks, n_kernels)
        Posterior mean and standard deviation of every task's weights.
    kernel_weights_cov_ : ndarray of shape (n_tasks, n_kernels, n_kernels)
        Posterior covariance of every task's weights.
    common_kernel_weights_, common_kernel_weights_std_ : ndarray of shape (n_kernels,)
        Posterior mean and standard deviation of the common weights; not set if tasks are separate.
    common_kernel_weights_cov_ : ndarray of shape (n_kernels, n_kernels)
        Posterior covariance of the common weights; not set if tasks are separate.
    kernel_shares_, kernel_shares_std_ : ndarray of shape (n_tasks, n_kernels)
        Posterior mean and standard deviation of each kernel's part of the scores of each task: the numbers to read
        first. The means of a task sum to one.
    task_spread_ : float
        Typical distance of a task's weight from the common one, :math:`\mathrm E[\tau]^{-1/2}`; 0 if tasks share
        their weights, not set if they are separate.
    task_influence_ : ndarray of shape (n_tasks,)
        Influence of each task on the common weights; one minus their sum is the influence of the prior. Not set if
        tasks are separate.
    intercept_ : ndarray of shape (n_tasks,)
        Posterior mean of every task's intercept.
    dual_coef_ : ndarray of shape (n_tasks, n_samples)
        Posterior mean of every task's sample weights; 0 for samples that lack the task.
    task_samples_ : tuple of ndarray of shape (n_samples_of_task,)
        Positions of the training samples of every task.
    y_mean_, y_scale_ : ndarray of shape (n_tasks,)
        Mean and standard deviation by which each task's targets were standardized.
    target_ : ndarray of shape (n_tasks, n_samples)
        Standardized training targets; NaN for samples that lack the task.
    elbo_ : float
        Evidence lower bound in nats. It rises as tasks are tied more closely, related or not: no guide to `relation`.
    elbo_history_ : ndarray of shape (n_iter_,)
        ELBO after every sweep; a tuple of one per task if they are separate.
    n_iter_ : int, or ndarray of shape (n_tasks,) if tasks are separate
        Sweeps.
    outcome_ : Outcome, or tuple of them if tasks are separate
        Stopping reason of the loop.
    converged_ : bool
        Whether `tol` was reached, everywhere.
    posterior_ : MultitaskState, or tuple of RegressionState if tasks are separate
        All factors of the posterior.
    kernel_names_ : ndarray of shape (n_kernels,)
        Names of the kernels.
    n_kernels_in_ : int
        Number of kernels.
    kernel_bank_ : KernelBank or None
        The fitted bank.
    n_features_in_ : int
        Number of features, or of training samples with precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Feature names, where `X` had them.

    See Also
    --------
    BEMKLMultitaskClassifier : The same for classes.
    BEMKLRegressor : One task, or several outputs that share their kernel weights and samples.

    Notes
    -----
    Inference is variational. One sweep costs what one sweep of every task alone costs; its kernels take
    :math:`8 P \sum_t N_t^2` bytes beside those of all samples.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML, §7.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLMultitaskRegressor, KernelBank
    >>> from bayesmkl.kernels import Linear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 6))
    >>> y = X[:, :2] @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(60, 3))
    >>> y[rng.random(y.shape) < 0.5] = np.nan  # every sample lacks about half of the tasks
    >>> bank = KernelBank(Linear(), views={"a": [0, 1], "b": [2, 3], "c": [4, 5]}, normalize="trace")
    >>> model = BEMKLMultitaskRegressor(bank).fit(X, y)
    >>> model.kernel_shares_.argmax(axis=1)  # all tasks live on the first view
    array([0, 0, 0])
    >>> model.predict(X[:4]).shape, model.predict(X[:4], tasks=[0, 2, 2, 1]).shape
    ((4, 3), (4,))
    """

    def __init__(
        self,
        kernels: KernelBank | str | None = None,
        *,
        relation: str = "learned",
        task_prior: str | Gamma = "related",
        kernel_prior: str | Gamma = "auto",
        sample_prior: str | Gamma = "nonsparse",
        bias_prior: str | Gamma = "nonsparse",
        intermediate_prior: str | Gamma = "unit",
        noise_prior: str | Gamma = "nonsparse",
        normalize_y: bool = True,
        predictive: str = "full",
        inference: str | Inference = "vb",
        init: str | MultitaskState | tuple[SingleState, ...] = "mean",
        n_init: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-6,
        storage: str | Storage = "auto",
        kernel_names: Sequence[str] | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.relation = relation
        self.task_prior = task_prior
        self.kernel_prior = kernel_prior
        self.sample_prior = sample_prior
        self.bias_prior = bias_prior
        self.intermediate_prior = intermediate_prior
        self.noise_prior = noise_prior
        self.normalize_y = normalize_y
        self.predictive = predictive
        self.inference = inference
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.storage = storage
        self.kernel_names = kernel_names
        self.random_state = random_state
        self.verbose = verbose

    _FLAGS = ("normalize_y",)
    _algorithm_alone = regression

    def fit(self, X: Samples, y: Targets, tasks: ArrayLike | None = None) -> BEMKLMultitaskRegressor:
        """Fit the posterior of all tasks.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            Samples of all tasks. With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples, n_tasks) or (n_samples,)
            Targets. With a column per task, NaN where a sample lacks the task. With one vector, the target of every
            sample in the task that `tasks` names; without `tasks` there is one task.
        tasks : array-like of shape (n_samples,), optional
            Name of the task of every sample.

        Returns
        -------
        self : BEMKLMultitaskRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid parameters or data, such as a task without samples; the message names the argument and the
            remedy.
        TypeError
            If `X` or `y` is a sparse matrix, or holds other objects than numbers.

        Warns
        -----
        ConvergenceWarning
            If `tol` was not reached.
        KernelQualityWarning
            If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
        """
        self._check_parameters()
        table = target_table(y, tasks)
        values = task_targets(table)
        if self.normalize_y:
            self.y_mean_ = np.array([part.mean() for part in values])
            scale = np.array([part.std() for part in values])
            self.y_scale_ = np.where(scale > 0.0, scale, 1.0)
        else:
            self.y_mean_, self.y_scale_ = np.zeros(len(values)), np.ones(len(values))
        moments = zip(values, self.y_mean_, self.y_scale_, strict=True)
        self._fit_tasks(X, table, [(part - mean) / scale for part, mean, scale in moments])
        return self

    def _multitask_priors(self) -> MultitaskPriors:
        value, priors = self.intermediate_prior, super()._multitask_priors()
        if isinstance(value, str) and value not in ("unit", *self.PRIORS):
            raise ValueError(
                '`intermediate_prior` must be "unit", "nonsparse", "sparse" or a Gamma(concentration, rate); '
                f"got {value!r}."
            )
        is_unit = isinstance(value, str) and value == "unit"
        intermediate = UNIT if is_unit else self._prior("intermediate_prior")
        return priors._replace(intermediate=intermediate, noise=self._prior("noise_prior"))

    @staticmethod
    def _task_problem(stack: DenseStack, gram: np.ndarray, y: np.ndarray) -> TargetTask:
        return TargetTask(stack, gram, y)

    @staticmethod
    def _problem_alone(task: TargetTask, priors: MultitaskPriors) -> regression.RegressionProblem:
        own = regression.RegressionPriors(
            priors.sample, priors.intercept, priors.kernel, priors.intermediate, priors.noise
        )
        return regression.RegressionProblem(task.stack, task.gram, task.y, own)

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return the noise added to the starting intermediate outputs: N(0, 1), or its mean."""
        return np.zeros(n_samples) if rng is None else rng.standard_normal(n_samples)

    @staticmethod
    def _intermediate_variance(own: TargetState | RegressionState) -> float:
        return float(own.intermediate_precision.mean_reciprocal)

    def predict(self, X: Samples, tasks: ArrayLike | None = None, return_std: bool = False) -> Any:
        """Predict the targets.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        tasks : array-like of shape (n_rows,), optional
            Name of the task to predict each row in; None predicts every row in all tasks.
        return_std : bool, default=False
            Also return standard deviations of the targets, their noise included.

        Returns
        -------
        mean : ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Predictive mean, in the units of each task's targets.
        std : ndarray of the same shape
            Predictive standard deviation, if `return_std`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `X` does not have the columns of the training samples, or kernels of another shape, or holds NaN or
            infinity; if `tasks` does not name a task of the training samples for every row; or for a `predictive`
            that is not known.
        TypeError
            If `X` is a sparse matrix, or holds other objects than numbers.
        """

        def moments(t: int, one: TaskFactors, score: ScoreMoments) -> np.ndarray:
            noise = one.own.noise_precision
            own = noise.mean_reciprocal if self.predictive == "full" else 1.0 / noise.mean
            mean, std = self.y_mean_[t] + self.y_scale_[t] * score.mean, np.sqrt(float(own) + score.variance)
            return np.stack([mean, self.y_scale_[t] * std], axis=1)

        both = self._by_column(X, tasks, moments)
        return (both[..., 0], both[..., 1]) if return_std else both[..., 0]

    def score(
        self,
        X: Samples,
        y: Targets,
        sample_weight: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> float:
        """Return the coefficient of determination, averaged over tasks.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            As in `predict`.
        y : array-like of shape (n_rows, n_tasks) or (n_rows,)
            Targets in the form that `fit` takes; tasks with fewer than two of them are left out.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.
        tasks : array-like of shape (n_rows,), optional
            Name of the task of every row.

        Returns
        -------
        float
            Mean :math:`R^2`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `y` does not have a column per task of the model, or `tasks` the task of every row, or no task has two
            values; and for an `X` that `predict` refuses.
        TypeError
            If `X` or `y` is a sparse matrix, or holds what cannot be read.
        """
        return self._mean_score(X, y, tasks, target_table(y, tasks), r2_score, sample_weight)
