"""Multitask BEMKL classification as a scikit-learn estimator: related tasks, each with kernel weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from bayesmkl._utils.typing import Label, Samples, Targets
from bayesmkl._utils.validation import check_scale
from bayesmkl.bemkl.estimators.multitask_base import BaseMultitask, TaskFactors
from bayesmkl.bemkl.estimators.task_table import label_table, task_labels
from bayesmkl.bemkl.inference.options import Inference, Storage
from bayesmkl.bemkl.models import binary
from bayesmkl.bemkl.models.all_models import SingleState
from bayesmkl.bemkl.models.binary import BinaryState
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.models.multitask import LabelTask, MultitaskPriors
from bayesmkl.bemkl.models.task_parts import LabelState, MultitaskState
from bayesmkl.bemkl.reading.predict import ScoreMoments, binary_log_odds, log_probabilities
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

__all__ = ["BEMKLMultitaskClassifier"]

HALF_NORMAL_MEAN = np.sqrt(2.0 / np.pi)


class BEMKLMultitaskClassifier(ClassifierMixin, BaseMultitask):
    r"""Bayesian efficient multiple kernel learning for several classifications with related kernel weights.

    Every task t tells two classes apart as `BEMKLClassifier` does, over the same views but with samples, sample
    weights and kernel weights of its own. The paper's outlook [1]_ is to enforce "similarity between the kernel
    weights of different tasks"; here they lie around common weights, at a distance that is learned:

    .. math:: e_t \mid e, \tau \sim N(e, I/\tau), \qquad
       f_{ti} \mid b_t, e_t, g_{ti} \sim N(e_t^\top g_{ti} + b_t, 1), \qquad y_{ti} f_{ti} > \nu .

    Samples of all tasks are pooled; a sample may lack some of them. Tasks with few samples gain most.

    Parameters
    ----------
    kernels : KernelBank, "precomputed" or None, default=None
        As in `BEMKLMultitaskRegressor`.
    relation : {"learned", "shared", "separate"}, default="learned"
        How the kernel weights of the tasks relate: around common weights, as near as the data say; the same in all
        tasks; or those of a `BEMKLClassifier` for every task.
    task_prior : {"close", "related", "careful"} or Gamma, default="related"
        With ``relation="learned"``, prior on the precision :math:`\tau` of the tasks' weights around the common ones,
        as in `BEMKLMultitaskRegressor`.
    kernel_prior : {"auto", "nonsparse", "sparse"} or Gamma, default="auto"
        Prior on the precision of each common kernel weight; "auto" is "sparse", or "nonsparse" for separate tasks.
    sample_prior, bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions of the sample weights and of the intercepts.
    margin : float, default=1.0
        :math:`\nu \ge 0`, the same in every task.
    intermediate_scale : float, default=1.0
        :math:`\sigma_g`, standard deviation of the intermediate outputs, the same in every task.
    missing_label : label or None, default=None
        Mark, in a `y` with a column per task, that a sample lacks the task. NaN and None do so always.
    predictive : {"full", "paper"}, default="full"
        Whether predictions carry the variance of the intermediate outputs.
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
    classes_ : list of ndarray of shape (2,)
        Classes of every task; one such array after a fit of one vector `y` alone.
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
    target_ : ndarray of shape (n_tasks, n_samples)
        Training labels as the model sees them, -1 and +1; NaN for samples that lack the task.
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
    posterior_ : MultitaskState, or tuple of BinaryState if tasks are separate
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
    BEMKLMultitaskRegressor : The same for real-valued targets.
    BEMKLClassifier : One task, also of several classes or labels per sample.

    Notes
    -----
    Inference is variational. One sweep costs what one sweep of every task alone costs; its kernels take
    :math:`8 P \sum_t N_t^2` bytes beside those of all samples. A task of more than two classes is several tasks, one
    class against the others in each.

    References
    ----------
    .. [1] M. Gönen (2012), Bayesian efficient multiple kernel learning, ICML, §7.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesmkl import BEMKLMultitaskClassifier, KernelBank
    >>> from bayesmkl.kernels import Linear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 6))
    >>> hospital = np.repeat(["north", "south"], 30)  # one task per sample
    >>> y = np.where(X[:, 0] + np.where(hospital == "north", 1, -1) * X[:, 1] > 0, "ill", "well")
    >>> bank = KernelBank(Linear(), views={"a": [0, 1], "b": [2, 3], "c": [4, 5]}, normalize="trace")
    >>> model = BEMKLMultitaskClassifier(bank).fit(X, y, tasks=hospital)
    >>> print(model.predict(X[:2]))  # a column per task
    [['well' 'ill']
     ['ill' 'ill']]
    >>> bool(model.score(X, y, tasks=hospital) > 0.9)
    True
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
        margin: float = 1.0,
        intermediate_scale: float = 1.0,
        missing_label: Label | None = None,
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
        self.margin = margin
        self.intermediate_scale = intermediate_scale
        self.missing_label = missing_label
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

    _algorithm_alone = binary

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Samples, y: Targets, tasks: ArrayLike | None = None) -> BEMKLMultitaskClassifier:
        """Fit the posterior of all tasks.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features), or kernels
            Samples of all tasks. With ``kernels="precomputed"``, of shape (n_samples, n_samples, n_kernels).
        y : array-like of shape (n_samples, n_tasks) or (n_samples,)
            Labels, two classes in every task. With a column per task, NaN, None or `missing_label` where a sample
            lacks the task. With one vector, the label of every sample in the task that `tasks` names; without `tasks`
            there is one task.
        tasks : array-like of shape (n_samples,), optional
            Name of the task of every sample.

        Returns
        -------
        self : BEMKLMultitaskClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid parameters or data, such as a task without samples or with one class; the message names the
            argument and the remedy.
        TypeError
            If `X` or `y` is a sparse matrix, or holds other objects than numbers or labels.

        Warns
        -----
        ConvergenceWarning
            If `tol` was not reached.
        KernelQualityWarning
            If kernels are near-identity, duplicate, indefinite, asymmetric or badly scaled.
        """
        self._check_parameters()
        table = label_table(y, tasks, self.missing_label)
        classes, targets = task_labels(table)
        self.classes_ = classes[0] if table.is_single else classes
        self._fit_tasks(X, table, targets)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._limits()

    def _limits(self) -> tuple[float, float]:
        """Return ν and 1/σ_g²."""
        margin = check_scale("margin", self.margin, zero=True)
        return margin, check_scale("intermediate_scale", self.intermediate_scale) ** -2

    def _task_problem(self, stack: DenseStack, gram: np.ndarray, y: np.ndarray) -> LabelTask:
        return LabelTask(stack, gram, y, *self._limits())

    @staticmethod
    def _problem_alone(task: LabelTask, priors: MultitaskPriors) -> binary.BinaryProblem:
        own = binary.BinaryPriors(priors.sample, priors.intercept, priors.kernel)
        return binary.BinaryProblem(
            task.stack, task.gram, task.y, own, task.margin, task.intermediate_precision
        )

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return how far scores start beyond the margin: |N(0, 1)|, or its mean everywhere."""
        return np.full(n_samples, HALF_NORMAL_MEAN) if rng is None else np.abs(rng.standard_normal(n_samples))

    def _intermediate_variance(self, own: LabelState | BinaryState) -> float:
        return check_scale("intermediate_scale", self.intermediate_scale) ** 2

    def predict_latent(self, X: Samples, tasks: ArrayLike | None = None, return_std: bool = False) -> Any:
        """Predict the latent scores `f`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            As in `predict`.
        tasks : array-like of shape (n_rows,), optional
            As in `predict`.
        return_std : bool, default=False
            Also return standard deviations, the unit noise of `f` included.

        Returns
        -------
        mean : ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Predictive mean.
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
        both = self._by_column(
            X, tasks, lambda t, one, score: np.stack([score.mean, np.sqrt(1.0 + score.variance)], axis=1)
        )
        return (both[..., 0], both[..., 1]) if return_std else both[..., 0]

    def decision_function(self, X: Samples, tasks: ArrayLike | None = None) -> np.ndarray:
        """Return the log odds of the second class of each task, given a score beyond the margin.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            As in `predict`.
        tasks : array-like of shape (n_rows,), optional
            As in `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Finite where probabilities round to 0 and 1.

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
        return self._by_column(X, tasks, lambda t, one, score: binary_log_odds(score, self._limits()[0]))

    def predict_proba(self, X: Samples, tasks: ArrayLike | None = None) -> Any:
        """Predict class probabilities.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            As in `predict`.
        tasks : array-like of shape (n_rows,), optional
            As in `predict`.

        Returns
        -------
        list of ndarray of shape (n_rows, 2)
            One per task, its columns in the order of the task's `classes_`. With `tasks`, or after a fit of one
            vector `y` alone, one such array: a row's columns are the classes of its task.

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
        return self._by_row(
            X, tasks, lambda t, one, score: np.exp(log_probabilities(score, self._limits()[0]))
        )

    def predict(self, X: Samples, tasks: ArrayLike | None = None) -> np.ndarray:
        """Predict the more probable class.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            With ``kernels="precomputed"``, of shape (n_rows, n_train, n_kernels).
        tasks : array-like of shape (n_rows,), optional
            Name of the task to predict each row in; None predicts every row in all tasks.

        Returns
        -------
        ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Labels from the `classes_` of each task.

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

        def labels(t: int, one: TaskFactors, score: ScoreMoments) -> np.ndarray:
            classes = self.classes_ if self._is_single else self.classes_[t]
            return classes[(binary_log_odds(score, self._limits()[0]) > 0.0).astype(int)]

        return self._by_column(X, tasks, labels)

    def score(
        self,
        X: Samples,
        y: Targets,
        sample_weight: ArrayLike | None = None,
        tasks: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy, averaged over tasks.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features), or kernels
            As in `predict`.
        y : array-like of shape (n_rows, n_tasks) or (n_rows,)
            Labels in the form that `fit` takes; tasks with fewer than two of them are left out.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.
        tasks : array-like of shape (n_rows,), optional
            Name of the task of every row.

        Returns
        -------
        float
            Mean accuracy.

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
        table = label_table(y, tasks, self.missing_label)
        return self._mean_score(X, y, tasks, table, accuracy_score, sample_weight)
