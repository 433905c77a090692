"""Multitask BEMKL classification as a scikit-learn estimator: related tasks, each with kernel weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.options import Inference, Storage
from bayesmkl._utils.typing import Label, Samples, Targets
from bayesmkl._utils.validation import check_scale
from bayesmkl.bemkl.estimators.multitask_base import BaseMultitask
from bayesmkl.bemkl.estimators.shared_docs import MULTITASK
from bayesmkl.bemkl.estimators.task_table import label_table, task_labels
from bayesmkl.bemkl.models.model import Priors, Problem, State
from bayesmkl.bemkl.models.moments import Gamma
from bayesmkl.bemkl.models.multitask import MultitaskState
from bayesmkl.bemkl.models.outcomes import Labels
from bayesmkl.bemkl.reading.predict import ScoreMoments, binary_log_odds, log_probabilities
from bayesmkl.kernels.bank import KernelBank
from bayesmkl.kernels.stacks.dense import DenseStack

HALF_NORMAL_MEAN = np.sqrt(2.0 / np.pi)


@fill_docs(MULTITASK)
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
    margin : float, default=0.0
        :math:`\nu \ge 0`, the same in every task.
    intermediate_scale : float, default=1.0
        :math:`\sigma_g`, standard deviation of the intermediate outputs, the same in every task.
    missing_label : label or None, default=None
        Mark, in a `y` with a column per task, that a sample lacks the task. NaN and None do so always.
    predictive : {"full", "paper"}, default="full"
        Whether predictions carry the variance of the intermediate outputs.
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
    classes_ : list of ndarray of shape (2,)
        Classes of every task; one such array after a fit of one vector `y` alone.
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
    target_ : ndarray of shape (n_tasks, n_samples)
        Training labels as the model sees them, -1 and +1; NaN for samples that lack the task.
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
    >>> from bayesmkl import KernelBank
    >>> from bayesmkl.bemkl import BEMKLMultitaskClassifier
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
        margin: float = 0.0,
        intermediate_scale: float = 1.0,
        missing_label: Label | None = None,
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

    _LABELS = ("missing_label",)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Samples, y: Targets, tasks: ArrayLike | None = None) -> BEMKLMultitaskClassifier:
        """Fit the posterior of all tasks.

        Parameters
        ----------
        %(X:training)s
        y : array-like of shape (n_samples, n_tasks) or (n_samples,)
            Labels, two classes in every task. With a column per task, NaN, None or `missing_label` where a sample
            lacks the task. With one vector, the label of every sample in the task that `tasks` names; without `tasks`
            there is one task.
        %(tasks:training)s

        Returns
        -------
        self : BEMKLMultitaskClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            For invalid parameters or data, such as a task without samples or with one class; the message names the
            argument and the remedy.
        %(TypeError:y)s

        Warns
        -----
        %(ConvergenceWarning)s
        %(KernelQualityWarning)s
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

    def _task_problem(self, stack: DenseStack, gram: np.ndarray, y: np.ndarray, priors: Priors) -> Problem:
        margin, precision = self._limits()
        return Problem(stack, gram, y, priors, Labels(margin), precision)

    @staticmethod
    def _initial_noise(n_samples: int, rng: np.random.Generator | None) -> np.ndarray:
        """Return how far scores start beyond the margin: |N(0, 1)|, or its mean everywhere."""
        return np.full(n_samples, HALF_NORMAL_MEAN) if rng is None else np.abs(rng.standard_normal(n_samples))

    def _intermediate_variance(self, own: State) -> float:
        return check_scale("intermediate_scale", self.intermediate_scale) ** 2

    def predict_latent(self, X: Samples, tasks: ArrayLike | None = None, return_std: bool = False) -> Any:
        """Predict the latent scores `f`.

        Parameters
        ----------
        %(X:again)s
        %(tasks:again)s
        return_std : bool, default=False
            Also return standard deviations, the unit noise of `f` included.

        Returns
        -------
        mean : ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Predictive mean.
        %(std)s

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        both = self._by_column(
            X, tasks, lambda t, one, score: np.stack([score.mean, np.sqrt(1.0 + score.variance)], axis=1)
        )
        return (both[..., 0], both[..., 1]) if return_std else both[..., 0]

    def decision_function(self, X: Samples, tasks: ArrayLike | None = None) -> np.ndarray:
        """Return the log odds of the second class of each task, given a score beyond the margin.

        Parameters
        ----------
        %(X:again)s
        %(tasks:again)s

        Returns
        -------
        ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Finite where probabilities round to 0 and 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._by_column(X, tasks, lambda t, one, score: binary_log_odds(score, self._limits()[0]))

    def predict_proba(self, X: Samples, tasks: ArrayLike | None = None) -> Any:
        """Predict class probabilities.

        Parameters
        ----------
        %(X:again)s
        %(tasks:again)s

        Returns
        -------
        list of ndarray of shape (n_rows, 2)
            One per task, its columns in the order of the task's `classes_`. With `tasks`, or after a fit of one
            vector `y` alone, one such array: a row's columns are the classes of its task.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._by_row(
            X, tasks, lambda t, one, score: np.exp(log_probabilities(score, self._limits()[0]))
        )

    def predict_log_proba(self, X: Samples, tasks: ArrayLike | None = None) -> Any:
        """Predict log class probabilities, which keep their digits where `predict_proba` rounds to 0 or 1.

        Parameters
        ----------
        %(X:again)s
        %(tasks:again)s

        Returns
        -------
        list of ndarray of shape (n_rows, 2), or one such array
            Logarithms of what `predict_proba` returns: of each task, or with `tasks` of that of each row.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """
        return self._by_row(X, tasks, lambda t, one, score: log_probabilities(score, self._limits()[0]))

    def predict(self, X: Samples, tasks: ArrayLike | None = None) -> np.ndarray:
        """Predict the more probable class.

        Parameters
        ----------
        %(X)s
        %(tasks)s

        Returns
        -------
        ndarray of shape (n_rows, n_tasks), or (n_rows,) with `tasks` or after a fit of one vector `y` alone
            Labels from the `classes_` of each task.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:X)s
        %(TypeError:X)s
        """

        def labels(t: int, one: State, score: ScoreMoments) -> np.ndarray:
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
        %(X:again)s
        y : array-like of shape (n_rows, n_tasks) or (n_rows,)
            Labels in the form that `fit` takes; tasks with fewer than two of them are left out.
        %(sample_weight)s
        %(tasks:rows)s

        Returns
        -------
        float
            Mean accuracy.

        Raises
        ------
        NotFittedError
            Before `fit`.
        %(ValueError:score)s
        %(TypeError:score)s
        """
        table = label_table(y, tasks, self.missing_label)
        return self._mean_score(X, y, tasks, table, accuracy_score, sample_weight)
