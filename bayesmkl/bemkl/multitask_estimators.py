"""Multitask BEMKL as scikit-learn estimators: related tasks, each with kernel weights of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator.base import Holding
from bayesmkl._utils.docstrings import fill_docs
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice, check_scale
from bayesmkl.bemkl import model, multitask
from bayesmkl.bemkl.ascent import Fit
from bayesmkl.bemkl.base import MULTITASK, BaseBEMKL, FitTask, Settings
from bayesmkl.bemkl.draws import kernel_shares
from bayesmkl.bemkl.model import Problem, State
from bayesmkl.bemkl.moments import Gamma, PrecisionMoments
from bayesmkl.bemkl.multitask import MultitaskProblem, MultitaskState, influence_of_tasks, observed_part
from bayesmkl.bemkl.reading import ScoreMoments, binary_log_odds, log_probabilities, predict_score
from bayesmkl.bemkl.task_table import (
    TaskTable,
    codes_of,
    label_table,
    target_table,
    task_labels,
    task_targets,
)
from bayesmkl.kernels.stacks.dense import DenseStack
from bayesmkl.outcomes import Labels, Numbers
from bayesmkl.outcomes.numbers import location_and_scale

UNIT = Gamma(100.0, 100.0)  # intermediate_prior="unit"
RELATIONS = ("learned", "shared", "separate")
# τ of shared weights: far above all that samples say of them, far below where rounding would show.
SHARED = PrecisionMoments(1e12, float(np.log(1e12)))
# Priors of τ by name. Weights are of order one or somewhat less, as the intermediate outputs are.
TASK_PRIORS = {"close": Gamma(1.0, 0.3), "related": Gamma(1.0, 1.0), "careful": Gamma(1.0, 10.0)}
# Attributes that separate tasks do not have.
OF_COMMON = ("common_kernel_weights_", "common_kernel_weights_std_", "common_kernel_weights_cov_")
OF_RELATION = (*OF_COMMON, "task_influence_", "task_spread_")


def _factors(posterior: Any) -> Sequence[State]:
    """Return the posterior of every task, of a model of all of them or of a tuple of models."""
    return posterior.tasks if isinstance(posterior, MultitaskState) else posterior


@dataclass(eq=False, repr=False, kw_only=True)
class BaseMultitask(BaseBEMKL):
    """Fit related tasks on pooled samples, and report and predict them one by one.

    Subclasses say what a task is (`_task_problem`).
    """

    _streams_rows = False  # tasks take their columns out of the kernels
    _OF_SOME_FITS = (*BaseBEMKL._OF_SOME_FITS, *OF_RELATION)
    _INFERENCES = ("vb",)
    _STORAGES = ("auto", "dense")

    NAMED: ClassVar[dict[str, dict[str, Gamma]]] = {
        "task_prior": TASK_PRIORS,
        "kernel_prior": {
            "auto": BaseBEMKL.PRIORS["sparse"]
        },  # all tasks together can tell which views to leave
        "intermediate_prior": {"unit": UNIT},
    }
    _PROGRAM_INSTEAD = (
        "For one task, or tasks that have nothing in common, use that of BEMKLClassifier or BEMKLRegressor."
    )

    relation: str = "learned"
    task_prior: str | Gamma = "related"
    kernel_prior: Any = "auto"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # ------------------------------------------------------------------------------------------- parameters

    def _settings(self) -> Settings:
        """Return the options of a fit; kernels are one dense array, out of which tasks take rows and columns."""
        check_choice("relation", self.relation, RELATIONS)
        settings, task_prior = super()._settings(), self._prior("task_prior")
        return settings._replace(
            holding=Holding(backend=settings.loop.backend),
            task_prior=SHARED if self.relation == "shared" else task_prior,
        )

    def _kernel_prior(self) -> Gamma:
        is_auto = isinstance(self.kernel_prior, str) and self.kernel_prior == "auto"
        is_separate = is_auto and self.relation == "separate"
        return self.PRIORS["nonsparse"] if is_separate else self._prior("kernel_prior")

    # -------------------------------------------------------------------------------------------- inference

    def _fit_tasks(self, X: Samples, table: TaskTable, targets: list[np.ndarray], settings: Settings) -> None:
        """Learn all tasks, from targets as the model sees them, and set the fitted attributes."""
        stack, _ = self._fit_stack(X, np.zeros(len(table.present)), storage=settings.holding)
        self.tasks_, self.task_samples_, self._is_single = table.names, tuple(table.samples), table.is_single
        task = self._tasks(stack, table, targets, settings)
        self._store(task, fits := self._infer(task))
        self._warn(settings, fits)

    def _tasks(
        self, stack: DenseStack, table: TaskTable, targets: list[np.ndarray], settings: Settings
    ) -> FitTask:
        """Return one model of all tasks, or one for each of them."""
        tasks = []
        for column, y in zip(table.present.T, targets, strict=True):
            part = stack if column.all() else observed_part(stack, column, self._has_landmarks)
            tasks.append(self._task_problem(part, self._gram(part), y, settings))
        whole = np.full((len(tasks), stack.n_rows), np.nan)
        for row, samples, y in zip(whole, table.samples, targets, strict=True):
            row[samples] = y
        if self.relation != "separate":
            problem = MultitaskProblem(tuple(tasks), settings.task_prior)
            return FitTask([problem], stack, whole, False, [self.init], ["tasks"], settings, multitask)
        labels = ["tasks"] if len(tasks) == 1 else [f"task {name}" for name in table.names]
        inits = self._inits(len(tasks), "task")
        return FitTask(tasks, stack, whole, True, inits, labels, settings, model)

    def _start(
        self, algorithm: Any, problem: Any, settings: Settings, rng: np.random.Generator | None, init: object
    ) -> Any:
        """Return the carry that the loop starts from; of all tasks, or of one as in the models of one task."""
        if not isinstance(problem, MultitaskProblem):
            return super()._start(algorithm, problem, settings, rng, init)
        if isinstance(init, str) and init in ("mean", "random"):
            given = rng if init == "random" else None
            noise = [task.outcome.initial_noise(len(task.y), given) for task in problem.tasks]
            return multitask.init(problem, np.concatenate(noise))
        if not isinstance(init, MultitaskState):
            raise ValueError(
                f'`init` must be "mean", "random" or a MultitaskState such as `posterior_`; got {init!r}.'
            )
        expected = [(task.stack.n_kernels, len(task.y)) for task in problem.tasks]
        found = [one.intermediate.mean.shape for one in init.tasks]
        if found != expected:
            raise ValueError(
                f"`init` must be a posterior of tasks with (n_kernels, n_samples) of {expected}; got one of {found}."
            )
        return multitask.carry(problem, init)

    # ---------------------------------------------------------------------------------------------- results

    def _summary(self, task: FitTask, fits: list[Fit]) -> dict[str, Any]:
        """Return the posterior moments of every task, and of what they have in common, by attribute."""
        problems = task.problems if task.several else task.problems[0].tasks
        rng = self._rng()
        factors = _factors(tuple(fit.state for fit in fits) if task.several else fits[0].state)
        shares = [
            kernel_shares(problem.stack, one.dual, one.readout, rng)
            for problem, one in zip(problems, factors, strict=True)
        ]
        dual_coef, cov = (
            np.zeros((len(factors), task.stack.n_train)),
            [one.readout.cov[1:, 1:] for one in factors],
        )
        for row, one, samples in zip(dual_coef, factors, self.task_samples_, strict=True):
            row[slice(None) if self._has_landmarks else samples] = one.dual.mean
        return {
            "kernel_shares_": np.array([mean for mean, _ in shares]),
            "kernel_shares_std_": np.array([std for _, std in shares]),
            "intercept_": np.array([one.readout.mean[0] for one in factors]),
            "kernel_weights_": np.array([one.readout.mean[1:] for one in factors]),
            "kernel_weights_cov_": np.array(cov),
            "kernel_weights_std_": np.sqrt(np.array(cov).diagonal(axis1=1, axis2=2)),
            "dual_coef_": dual_coef,
            "target_": task.targets,
        } | ({} if task.several else self._common_summary(task.problems[0], fits[0].state))

    def _common_summary(self, problem: MultitaskProblem, posterior: MultitaskState) -> dict[str, Any]:
        common, spread = posterior.readout.common, float(posterior.task_precision.mean) ** -0.5
        return {
            "common_kernel_weights_": common.mean,
            "common_kernel_weights_cov_": common.cov,
            "common_kernel_weights_std_": np.sqrt(common.variance),
            "task_influence_": influence_of_tasks(problem, posterior),
            "task_spread_": spread if self.relation == "learned" else 0.0,
        }

    # ------------------------------------------------------------------------------------------ predictions

    def _scores(
        self, X: Samples, tasks: ArrayLike | None
    ) -> list[tuple[int, np.ndarray, State, ScoreMoments]]:
        """Score rows in the tasks asked for: the task, its rows, its posterior and their scores."""
        settings, stack = self._settings(), self._row_stack(X)
        every = np.arange(stack.n_rows)
        codes = None if tasks is None else codes_of(tasks, self.tasks_, stack.n_rows)
        scores = []
        for t, (one, columns) in enumerate(zip(_factors(self.posterior_), self.task_samples_, strict=True)):
            rows = every if codes is None else np.flatnonzero(codes == t)
            if len(rows):
                part = stack if codes is None else stack.rows(rows)
                if len(columns) < stack.n_train and not self._has_landmarks:
                    part = DenseStack(np.ascontiguousarray(part.columns(columns)))
                learned = one.intermediate_precision
                known = settings.intermediate_scale**2
                variance = known if learned is None else float(learned.mean_reciprocal)
                score = predict_score(part, one.dual, one.readout, variance, settings.predictive)
                scores.append((t, rows, one, score))
        return scores

    def _by_row(
        self,
        X: Samples,
        tasks: ArrayLike | None,
        value_of: Callable[[int, State, ScoreMoments], np.ndarray],
    ) -> Any:
        """Evaluate `value_of` on the rows of every task.

        Returns
        -------
        list of ndarray of shape (n_rows, ...), one per task, or one such array if `tasks` names the task of every
        row or the model has a single task
        """
        scores = self._scores(X, tasks)
        values = [value_of(t, one, score) for t, _, one, score in scores]
        if tasks is None:
            return values[0] if self._is_single else values
        whole = np.empty((sum(map(len, values)), *values[0].shape[1:]), dtype=_common_type(values))
        for (_, rows, *_), value in zip(scores, values, strict=True):
            whole[rows] = value
        return whole

    def _by_column(
        self,
        X: Samples,
        tasks: ArrayLike | None,
        value_of: Callable[[int, State, ScoreMoments], np.ndarray],
    ) -> np.ndarray:
        """Evaluate as `_by_row` does, the tasks in columns."""
        values = self._by_row(X, tasks, value_of)
        if isinstance(values, np.ndarray):
            return values
        return np.stack([value.astype(_common_type(values), copy=False) for value in values], axis=1)

    # --------------------------------------------------------------------------------------------- scoring

    def _mean_score(
        self,
        X: Samples,
        y: Targets,
        tasks: ArrayLike | None,
        table: TaskTable,
        metric: Callable[..., float],
        weight: ArrayLike | None = None,
    ) -> float:
        """Average `metric` over the tasks that `table`, made of `y`, has at least two values of."""
        check_is_fitted(self, "tasks_")
        names = getattr(y, "columns", table.names if tasks is not None else self.tasks_)
        if tasks is None and (len(table.names) != len(self.tasks_) or list(names) != self.tasks_.tolist()):
            raise ValueError(
                f"`y` must have a column for each of the {len(self.tasks_)} tasks of the model, in their order, or "
                f"`tasks` must name the task of every row; got {len(table.names)} column(s), {list(names)[:5]}."
            )
        predicted, scores = self.predict(X, tasks=tasks), []
        for t, rows in enumerate(table.samples):
            if len(rows) >= 2:
                truth = np.array(table.values[rows, t].tolist())
                found = predicted[rows] if predicted.ndim == 1 else predicted[rows, t]
                own = None if weight is None else np.asarray(weight)[rows]
                scores.append(metric(truth, np.array(found.tolist()), sample_weight=own))
        if not scores:
            raise ValueError("`y` must hold at least two values of some task to score; got fewer.")
        return float(np.mean(scores))


def _common_type(values: list[np.ndarray]) -> np.dtype:
    """Return the type that holds the results of all tasks; object for labels of different kinds."""
    kinds = {value.dtype.kind for value in values}
    return np.result_type(*values) if len(kinds) == 1 or kinds <= set("iuf") else np.dtype(object)


@fill_docs(MULTITASK)
@dataclass(eq=False, repr=False, kw_only=True)
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
    %(views)s
    kernel_prior : {"auto", "nonsparse", "sparse"} or Gamma, default="auto"
        Prior on the precision of each common kernel weight; "auto" is "sparse", or "nonsparse" for separate tasks.
    sample_prior, bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions of the sample weights and of the intercepts.
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
    relation : {"learned", "shared", "separate"}, default="learned"
        How the kernel weights of the tasks relate: around common weights, as near as the data say; the same in all
        tasks; or those of a `BEMKLClassifier` for every task.
    task_prior : {"close", "related", "careful"} or Gamma, default="related"
        With ``relation="learned"``, prior on the precision :math:`\tau` of the tasks' weights around the common ones,
        as in `BEMKLMultitaskRegressor`.
    margin : float, default=0.0
        :math:`\nu \ge 0`, the same in every task.
    intermediate_scale : float, default=1.0
        :math:`\sigma_g`, standard deviation of the intermediate outputs, the same in every task.

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

    margin: float = 0.0
    intermediate_scale: float = 1.0

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
            Labels, two classes in every task. With a column per task, NaN or None where a sample lacks the task. With
            one vector, the label of every sample in the task that `tasks` names; without `tasks`
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
        settings, table = self._checked(), label_table(y, tasks)
        classes, targets = task_labels(table)
        self.classes_ = classes[0] if table.is_single else classes
        self._fit_tasks(X, table, targets, settings)
        return self

    def _settings(self) -> Settings:
        settings = super()._settings()
        return settings._replace(
            margin=check_scale("margin", self.margin, zero=True),
            intermediate_scale=check_scale("intermediate_scale", self.intermediate_scale),
        )

    def _task_problem(self, stack: DenseStack, gram: np.ndarray, y: np.ndarray, own: Settings) -> Problem:
        return Problem(stack, gram, y, own.priors, Labels(own.margin), own.intermediate_scale**-2)

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
        return self._by_column(X, tasks, lambda t, one, score: binary_log_odds(score, self.margin))

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
        return self._by_row(X, tasks, lambda t, one, score: np.exp(log_probabilities(score, self.margin)))

    def predict_log_proba(self, X: Samples, tasks: ArrayLike | None = None) -> Any:
        """Predict log class probabilities, which stay accurate where `predict_proba` rounds to 0 or 1.

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
        return self._by_row(X, tasks, lambda t, one, score: log_probabilities(score, self.margin))

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
            return classes[(binary_log_odds(score, self.margin) > 0.0).astype(int)]

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
        table = label_table(y, tasks)
        return self._mean_score(X, y, tasks, table, accuracy_score, sample_weight)


@fill_docs(MULTITASK)
@dataclass(eq=False, repr=False, kw_only=True)
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
    %(views)s
    kernel_prior : {"auto", "nonsparse", "sparse"} or Gamma, default="auto"
        Prior on the precision of each common kernel weight, or of each task's weights if they are separate. "auto" is
        "sparse" for common weights, since all tasks together can tell which views to leave, and "nonsparse" for
        separate ones.
    sample_prior, bias_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Priors on the precisions of the sample weights and of the intercept, the same in every task.
    predictive : {"full", "paper"}, default="full"
        "full" uses the whole posterior for predictions; "paper" ignores the variance of the intermediate outputs.
    %(inference)s
    %(init)s
    %(n_init)s
    %(max_iter)s
    %(tol)s
    %(storage)s
    %(kernel_names)s
    %(random_state)s
    %(verbose)s
    relation : {"learned", "shared", "separate"}, default="learned"
        How the kernel weights of the tasks relate. "learned": they lie around common weights, as near as the data
        say. "shared": all tasks have the same. "separate": every task has a model of its own, which is that of
        `BEMKLRegressor` with the same priors.
    task_prior : {"close", "related", "careful"} or Gamma, default="related"
        With ``relation="learned"``, prior on the precision :math:`\tau` of the tasks' weights around the common ones:
        "close" is Gamma(concentration=1, rate=0.3), "related" is Gamma(1, 1), "careful" is Gamma(1, 10). A small rate
        ties tasks closely, which helps if they are alike and harms if not; under "careful" they hardly influence each
        other.
    intermediate_prior : {"unit", "nonsparse", "sparse"} or Gamma, default="unit"
        Prior on the precisions :math:`\upsilon_t` of the intermediate outputs. "unit" is Gamma(100, 100), which keeps
        them near one, the paper's value in classification: they set the scale of the kernel weights, which tasks can
        have in common only on one scale, and few samples leave open. `BEMKLRegressor` has "nonsparse".
    noise_prior : {"nonsparse", "sparse"} or Gamma, default="nonsparse"
        Prior on the precisions :math:`\varepsilon_t` of the targets.
    normalize_y : bool, default=True
        Standardize the targets of each task first, so that tasks may have different units. Predictions are in the
        original units; weights, `posterior_` and `elbo_` are those of standardized targets.

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

    intermediate_prior: str | Gamma = "unit"
    noise_prior: str | Gamma = "nonsparse"
    normalize_y: bool = True

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
        settings, table = self._checked(), target_table(y, tasks)
        values = task_targets(table)
        units = [location_and_scale(part, self.normalize_y) for part in values]
        self.y_mean_, self.y_scale_ = (np.array(own) for own in zip(*units, strict=True))
        standard = [(part - mean) / scale for part, (mean, scale) in zip(values, units, strict=True)]
        self._fit_tasks(X, table, standard, settings)
        return self

    @staticmethod
    def _task_problem(stack: DenseStack, gram: np.ndarray, y: np.ndarray, own: Settings) -> Problem:
        return Problem(stack, gram, y, own.priors, Numbers())

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
