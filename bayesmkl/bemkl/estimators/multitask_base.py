"""Base of the multitask estimators: pooled samples as tasks, inference, summaries, results by task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesmkl._estimator import Holding
from bayesmkl._estimator.program import NumPyroProgram
from bayesmkl._utils.options import backend_of, storage_of
from bayesmkl._utils.typing import Samples, Targets
from bayesmkl._utils.validation import check_choice
from bayesmkl.bemkl.estimators.base import BaseBEMKL, FitTask
from bayesmkl.bemkl.estimators.task_table import TaskTable, codes_of
from bayesmkl.bemkl.inference.loop import Algorithm, LoopOptions, LoopResult, OnSweep, maximize_elbo
from bayesmkl.bemkl.inference.runs import Fit
from bayesmkl.bemkl.models import model, multitask
from bayesmkl.bemkl.models.kernel_priors import Dirichlet, SpikeSlab
from bayesmkl.bemkl.models.model import Priors, State
from bayesmkl.bemkl.models.moments import Gamma, PrecisionMoments
from bayesmkl.bemkl.models.multitask import MultitaskProblem, MultitaskState
from bayesmkl.bemkl.reading.multitask_results import common_weights, observed_part
from bayesmkl.bemkl.reading.predict import ScoreMoments, predict_score
from bayesmkl.bemkl.reading.shares import kernel_shares
from bayesmkl.kernels.stacks.dense import DenseStack

PREDICTIVE = ("full", "paper")
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


class BaseMultitask(BaseBEMKL):
    """Fit related tasks on pooled samples, and report and predict them one by one.

    Subclasses say what a task is (`_task_problem`) and how uncertain an intermediate output is
    (`_intermediate_variance`).
    """

    _streams_rows = False  # tasks take their columns out of the kernels
    _OF_SOME_FITS = (*BaseBEMKL._OF_SOME_FITS, *OF_RELATION)
    _INFERENCES = ("vb",)
    _STORAGES = ("auto", "dense")

    relation: str
    task_prior: Any
    kernel_prior: Any
    init: Any
    posterior_: Any
    n_iter_: Any
    outcome_: Any
    elbo_history_: Any

    def _program(self, X: Samples, y: Targets, X_new: Samples | None) -> NumPyroProgram:
        raise ValueError(
            f"{type(self).__name__} has no NumPyro program. For one task, or tasks that have nothing in common, use "
            f"that of {type(self).__name__.replace('Multitask', '')}."
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # ------------------------------------------------------------------------------------------- parameters

    def _settings(self) -> tuple[Priors, Gamma | PrecisionMoments]:
        """Return the priors of every task, and that of τ."""
        check_choice("relation", self.relation, RELATIONS)
        task_prior, values = self._task_prior(), self._multitask_priors()
        return values, SHARED if self.relation == "shared" else task_prior

    def _storage(self) -> Holding:
        """Hold the kernels in one dense array: tasks take their rows and columns out of it."""
        return Holding(backend=backend_of(storage_of(self.storage, self._STORAGES)))

    def _task_prior(self) -> Gamma:
        value = self.task_prior
        if not isinstance(value, str):
            value = (
                self._prior("task_prior") if isinstance(value, (tuple, list)) and len(value) == 2 else None
            )
        value = TASK_PRIORS.get(value) if isinstance(value, str) else value
        if value is None:
            raise ValueError(
                '`task_prior` must be "close", "related", "careful" or a Gamma(concentration, rate); '
                f"got {self.task_prior!r}."
            )
        return value

    def _kernel_prior(self) -> Gamma:
        """Return the prior, which must have closed-form updates; all tasks together can tell which views to leave."""
        value = self.kernel_prior
        if isinstance(value, str) and value == "auto":
            return self.PRIORS["nonsparse" if self.relation == "separate" else "sparse"]
        if isinstance(value, (Dirichlet, SpikeSlab)) or (isinstance(value, str) and value not in self.PRIORS):
            raise ValueError(
                '`kernel_prior` must be "auto", "nonsparse", "sparse" or a Gamma(concentration, rate); '
                f"got {value!r}."
            )
        return self._prior("kernel_prior")

    def _multitask_priors(self) -> Priors:
        return Priors(
            sample=self._prior("sample_prior"),
            intercept=self._prior("bias_prior"),
            kernel=self._kernel_prior(),
        )

    # -------------------------------------------------------------------------------------------- inference

    def _fit_tasks(self, X: Samples, table: TaskTable, targets: list[np.ndarray]) -> None:
        """Learn all tasks, from targets as the model sees them, and set the fitted attributes."""
        stack, _ = self._fit_stack(X, np.zeros(len(table.present)))
        self.tasks_, self.task_samples_, self._is_single = table.names, tuple(table.samples), table.is_single
        task = self._task(stack, table, targets)
        self._conclude(task, self._infer(task))

    def _task(self, stack: DenseStack, table: TaskTable, targets: list[np.ndarray]) -> FitTask:
        """Return one model of all tasks, or one for each of them."""
        (priors, task_prior), tasks = self._settings(), []
        for column, y in zip(table.present.T, targets, strict=True):
            part = stack if column.all() else observed_part(stack, column, self._has_landmarks)
            tasks.append(self._task_problem(part, self._gram(part), y, priors))
        whole = np.full((len(tasks), stack.n_rows), np.nan)
        for row, samples, y in zip(whole, table.samples, targets, strict=True):
            row[samples] = y
        if self.relation != "separate":
            problem = MultitaskProblem(tuple(tasks), task_prior)
            return FitTask([problem], stack, whole, False, multitask, [self.init], ["tasks"])
        labels = ["tasks"] if len(tasks) == 1 else [f"task {name}" for name in table.names]
        return FitTask(tasks, stack, whole, True, model, self._inits(len(tasks), "task"), labels)

    def _maximize(
        self,
        algorithm: Algorithm,
        runs: list[tuple[Any, Any]],
        options: LoopOptions,
        on_sweep: OnSweep | None = None,
    ) -> list[LoopResult]:
        """Run the loops one after the other: tasks differ in size."""
        return [maximize_elbo(algorithm, *run, options, on_sweep) for run in runs]

    def _start(
        self,
        algorithm: Algorithm,
        problem: Any,
        init: object,
        rng: np.random.Generator | None,
        options: LoopOptions,
    ) -> Any:
        """Return the carry that the loop starts from; of all tasks, or of one as in the models of one task."""
        if not isinstance(problem, MultitaskProblem):
            return super()._start(algorithm, problem, init, rng, options)
        if isinstance(init, str) and init in ("mean", "random"):
            given = rng if init == "random" else None
            noise = [self._initial_noise(len(task.y), given) for task in problem.tasks]
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
        factors = _factors(tuple(fit.posterior for fit in fits) if task.several else fits[0].posterior)
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
            "kernel_shares_": np.array([share.mean for share in shares]),
            "kernel_shares_std_": np.array([share.std for share in shares]),
            "intercept_": np.array([one.readout.mean[0] for one in factors]),
            "kernel_weights_": np.array([one.readout.mean[1:] for one in factors]),
            "kernel_weights_cov_": np.array(cov),
            "kernel_weights_std_": np.sqrt(np.array(cov).diagonal(axis1=1, axis2=2)),
            "dual_coef_": dual_coef,
            "target_": task.targets,
        } | ({} if task.several else self._common_summary(task.problems[0], fits[0].posterior))

    def _common_summary(self, problem: MultitaskProblem, posterior: MultitaskState) -> dict[str, Any]:
        common = common_weights(problem, posterior)
        return {
            "common_kernel_weights_": common.mean,
            "common_kernel_weights_cov_": common.cov,
            "common_kernel_weights_std_": common.std,
            "task_influence_": common.influence,
            "task_spread_": common.spread if self.relation == "learned" else 0.0,
        }

    # ------------------------------------------------------------------------------------------ predictions

    def _scores(
        self, X: Samples, tasks: ArrayLike | None
    ) -> list[tuple[int, np.ndarray, State, ScoreMoments]]:
        """Score rows in the tasks asked for: the task, its rows, its posterior and their scores."""
        rule, stack = check_choice("predictive", self.predictive, PREDICTIVE), self._row_stack(X)
        every = np.arange(stack.n_rows)
        codes = None if tasks is None else codes_of(tasks, self.tasks_, stack.n_rows)
        scores = []
        for t, (one, columns) in enumerate(zip(_factors(self.posterior_), self.task_samples_, strict=True)):
            rows = every if codes is None else np.flatnonzero(codes == t)
            if len(rows):
                part = stack if codes is None else stack.rows(rows)
                if len(columns) < stack.n_train and not self._has_landmarks:
                    part = DenseStack(np.ascontiguousarray(part.columns(columns)))
                variance = self._intermediate_variance(one)
                score = predict_score(part, one.dual, one.readout, variance, rule)
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
