"""Multitask BEMKL regression as a scikit-learn estimator: related tasks, each with kernel weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import Inference, Storage
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl.bemkl.estimators.multitask_base import BaseMultitask
from bayesmkl.bemkl.estimators.shared_docs import MULTITASK
from bayesmkl.bemkl.estimators.task_table import target_table, task_targets
from bayesmkl.bemkl.models.model import Priors, Problem, State
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.models.multitask import MultitaskState
from bayesmkl.bemkl.models.outcomes import Numbers
from bayesmkl.bemkl.reading.predict import ScoreMoments
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

UNIT = Gamma(100.0, 100.0)  # intermediate_prior="unit"


@fill_docs(MULTITASK)
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
        ``KernelBank("auto")``.
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
    %(inference)s
    %(init)s
    %(n_init)s
    %(max_iter)s
    %(tol)s
    %(storage)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s

    Attributes
    ----------
    %(tasks_)s
    %(kernel_weights_, kernel_weights_std_)s
    %(kernel_weights_cov_)s
    %(common_kernel_weights_, common_kernel_weights_std_)s
    %(common_kernel_weights_cov_)s
    %(kernel_shares_, kernel_shares_std_)s
    %(task_spread_)s
    %(task_influence_)s
    %(intercept_)s
    %(dual_coef_)s
    %(task_samples_)s
    y_mean_, y_scale_ : ndarray of shape (n_tasks,)
        Mean and standard deviation by which each task's targets were standardized.
    target_ : ndarray of shape (n_tasks, n_samples)
        Standardized training targets; NaN for samples that lack the task.
    %(elbo_)s
    %(elbo_history_)s
    %(n_iter_)s
    %(outcome_)s
    %(converged_)s
    posterior_ : MultitaskState, or tuple of State if tasks are separate
        All factors of the posterior.
    %(kernel_names_)s
    %(n_kernels_in_)s
    %(kernel_bank_)s
    %(n_features_in_)s
    %(feature_names_in_)s

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
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.bemkl import BEMKLMultitaskRegressor
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
        init: str | MultitaskState | tuple[State, ...] = "mean",
        n_init: int = 1,
        max_iter: int = 3000,
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

    def fit(self, X: Samples, y: Targets, tasks: ArrayLike | None = None) -> BEMKLMultitaskRegressor:
        """Fit the posterior of all tasks.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples, n_tasks) or (n_samples,)
            Targets. With a column per task, NaN where a sample lacks the task. With one vector, the target of every
            sample in the task that `tasks` names; without `tasks` there is one task.
        %(tasks:training)s

        Returns
        -------
        self : BEMKLMultitaskRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid parameters or data, such as a task without samples; the message names the argument and the
            remedy.
        %(TypeError:numbers)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
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

    def _multitask_priors(self) -> Priors:
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
    def _task_problem(stack: DenseStack, gram: np.ndarray, y: np.ndarray, priors: Priors) -> Problem:
        return Problem(stack, gram, y, priors, Numbers())

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return the noise added to the starting intermediate outputs: N(0, 1), or its mean."""
        return np.zeros(n_samples) if rng is None else rng.standard_normal(n_samples)

    @staticmethod
    def _intermediate_variance(own: Any) -> float:
        return float(own.intermediate_precision.mean_reciprocal)

    def predict(self, X: Samples, tasks: ArrayLike | None = None, return_std: bool = False) -> Any:
        """Predict the targets.

        Parameters
        ----------
        %(X)s
        %(tasks)s
        return_std : bool, default=False
            Also return standard deviations of the targets, their noise included.

        Returns
        -------
        mean : ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Predictive mean, in the units of each task's targets.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """

        def moments(t: int, one: State, score: ScoreMoments) -> np.ndarray:
            noise: Any = one.noise_precision
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
        %(X:again)s
        y : array-like of shape (n_rows, n_tasks) or (n_rows,)
            Targets in the form that `fit` takes; tasks with fewer than two of them are left out.
        %(sample_weight)s
        %(tasks:rows)s

        Returns
        -------
        float
            Mean :math:`R^2`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:score)s
        %(TypeError:score)s
        """
        return self._mean_score(X, y, tasks, target_table(y, tasks), r2_score, sample_weight)
